/* SPDX-License-Identifier: MIT */
/*
 * What all calls share: the options, connections that rest, and the map of a cluster.
 *
 * Whether there is a cluster is not asked: the first MOVED tells. From then on there is a map of its slots, which is asked for anew
 * when it proves wrong: by MOVED, but not more often than every MAP_USEC, since while many slots move each MOVED tells of one; and
 * whenever a server that has slots does not answer. A map is replaced as a whole, so servers that left are forgotten.
 *
 * The lock is never held while a server is waited for.
 */
#include "base/clock.h"
#include "base/util.h"
#include "remote/remote-private.h"

#define MAP_USEC 500000
#define N_OTHERS 4 /* servers that are asked for a dead one's slots */
#define MIN_TIMEOUT_USEC 1000
#define MAX_TIMEOUT_USEC 60000000
#define MAX_SECRET 1024
#define MAX_VALUE_SIZE (512U << 20) /* of the servers, unless they are told otherwise */

/* --- opening --- */

static int check_options(const struct remote_options *o, struct err *e) {
        if (o->timeout_usec < MIN_TIMEOUT_USEC || o->timeout_usec > MAX_TIMEOUT_USEC)
                return err_set(e, ERR_INVALID, "the timeout is from 1 ms to 1 minute");
        if (o->max_value_size == 0 || o->max_value_size > MAX_VALUE_SIZE)
                return err_set(e, ERR_INVALID, "a value has 1 byte to 512 MiB");
        if (o->user && !o->password)
                return err_set(e, ERR_INVALID, "a user needs a password");
        if ((o->password && (!o->password[0] || strlen(o->password) > MAX_SECRET)) ||
                (o->user && (!o->user[0] || strlen(o->user) > MAX_SECRET)))
                return err_set(
                        e, ERR_INVALID, "a user or a password has 1 to %d bytes", MAX_SECRET);
        return 0;
}

static bool copy_secrets(struct remote_config *c, const struct remote_options *o) {
        c->user = o->user ? text_dup(o->user, strlen(o->user)) : NULL;
        c->password = o->password ? text_dup(o->password, strlen(o->password)) : NULL;
        return (!o->user || c->user) && (!o->password || c->password);
}

int remote_open(struct remote **ret, const struct remote_options *o, struct err *e) {
        _cleanup_(remote_freep) struct remote *r = calloc(1, sizeof(*r));
        int result;

        if (!r)
                return err_no_memory(e);
        pthread_mutex_init(&r->lock, NULL);
        result = check_options(o, e);
        if (result == 0)
                result = remote_uri_parse(&r->uri, o->uri, e);
        if (result < 0)
                return result;
        if (!r->uri.tls && o->ca_file)
                return err_set(e, ERR_INVALID, "certificates are of use with rediss:// alone");
        r->config.db = r->uri.db;
        r->config.timeout_usec = o->timeout_usec;
        r->config.max_value_size = o->max_value_size;
        if (!copy_secrets(&r->config, o))
                return err_no_memory(e);
        if (r->uri.tls)
                result = remote_tls_context_new(&r->config.tls, o->ca_file, e);
        if (result == 0)
                *ret = TAKE_PTR(r);
        return result;
}

struct remote *remote_free(struct remote *r) {
        if (!r)
                return NULL;
        for (size_t i = 0; i < r->n_idle; i++)
                remote_conn_free(r->idle[i]);
        remote_map_free(r->map);
        remote_tls_context_free(r->config.tls);
        if (r->config.password)
                explicit_bzero(r->config.password, strlen(r->config.password));
        free(r->config.password);
        free(r->config.user);
        pthread_mutex_destroy(&r->lock);
        free(r);
        return NULL;
}

void remote_stats(const struct remote *r, struct remote_stats *ret) {
        ret->n_connects = atomic_load(&r->n_connects);
        ret->n_failures = atomic_load(&r->n_failures);
        ret->n_redirects = atomic_load(&r->n_redirects);
        ret->received_size = atomic_load(&r->received_size);
        ret->sent_size = atomic_load(&r->sent_size);
}

/* --- connections that rest --- */

/* Under the lock: take the @i-th out. */
static struct remote_conn *take_out(struct remote *r, size_t i) {
        struct remote_conn *c = r->idle[i];

        r->n_idle--;
        memmove(&r->idle[i], &r->idle[i + 1], (r->n_idle - i) * sizeof(r->idle[0]));
        return c;
}

/* The one to @address that was used last; NULL: there is none. */
static struct remote_conn *take_idle(struct remote *r, const struct remote_address *address) {
        struct remote_conn *c = NULL;

        pthread_mutex_lock(&r->lock);
        for (size_t i = r->n_idle; i > 0 && !c; i--)
                if (remote_address_same(&r->idle[i - 1]->address, address))
                        c = take_out(r, i - 1);
        pthread_mutex_unlock(&r->lock);
        return c;
}

int remote_pool_take(struct remote *r, const struct remote_address *address, bool fresh,
        uint64_t until, struct remote_conn **ret, bool *ret_kept, struct err *e) {
        struct remote_conn *c;
        int result;

        while (!fresh && (c = take_idle(r, address))) {
                if (remote_conn_lives(c)) {
                        *ret = c;
                        *ret_kept = true;
                        return 0;
                }
                remote_conn_free(c);
        }
        result = remote_conn_open(ret, &r->config, address, until, e);
        if (result == 0) {
                *ret_kept = false;
                atomic_fetch_add(&r->n_connects, 1);
        }
        return result;
}

void remote_pool_give(struct remote *r, struct remote_conn *c) {
        struct remote_conn *leaves = NULL;

        if (c && !remote_conn_rest(c))
                c = remote_conn_free(c);
        if (!c)
                return;
        pthread_mutex_lock(&r->lock);
        if (r->n_idle == REMOTE_IDLE_MAX)
                leaves = take_out(r, 0);
        r->idle[r->n_idle++] = c;
        pthread_mutex_unlock(&r->lock);
        remote_conn_free(leaves);
}

void remote_pool_forget(struct remote *r, const struct remote_address *address) {
        struct remote_conn *c;

        while ((c = take_idle(r, address)))
                remote_conn_free(c);
}

/* --- where keys are --- */

bool remote_where(struct remote *r, uint16_t slot, struct remote_address *ret) {
        bool known;

        pthread_mutex_lock(&r->lock);
        known = r->map && r->map->owner[slot] > 0;
        *ret = known ? r->map->servers[r->map->owner[slot] - 1] : r->uri.seeds[r->seed];
        pthread_mutex_unlock(&r->lock);
        return known;
}

void remote_next_seed(struct remote *r, const struct remote_address *tried) {
        pthread_mutex_lock(&r->lock);
        /* Unless another call was faster. */
        if (remote_address_same(&r->uri.seeds[r->seed], tried))
                r->seed = (r->seed + 1) % r->uri.n_seeds;
        pthread_mutex_unlock(&r->lock);
}

/* Ask a server for all slots, and take its word for them. */
static bool ask_for_map(struct remote *r, const struct remote_address *server, uint64_t until) {
        static const char command[] = "*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n";
        const struct iovec part = {(void *)(uintptr_t)command, strlen(command)};
        _cleanup_(remote_map_freep) struct remote_map *map = remote_map_new();
        struct remote_slots_reader reader = {.map = map, .asked = server};
        struct remote_conn *c = NULL;
        struct remote_map *old;
        bool kept;
        int result;

        if (!map || remote_pool_take(r, server, true, until, &c, &kept, NULL) < 0)
                return false;
        c->slots = &reader;
        result = remote_conn_ask(c, &part, r->config.timeout_usec, until, NULL);
        c->slots = NULL;
        if (result < 0 || c->reply.type != REDIS_REPLY_ARRAY || map->n_servers == 0) {
                remote_conn_free(c);
                return false;
        }
        remote_pool_give(r, c);
        pthread_mutex_lock(&r->lock);
        old = r->map;
        r->map = TAKE_PTR(map);
        pthread_mutex_unlock(&r->lock);
        remote_map_free(old);
        return true;
}

/* Whether it is time to ask for the map; then it counts as asked for. */
static bool map_is_due(struct remote *r) {
        uint64_t now = clock_monotonic_usec();
        bool due;

        pthread_mutex_lock(&r->lock);
        due = r->t_map == 0 || now - r->t_map >= MAP_USEC;
        if (due)
                r->t_map = now;
        pthread_mutex_unlock(&r->lock);
        return due;
}

void remote_moved(
        struct remote *r, uint16_t slot, const struct remote_address *owner, uint64_t until) {
        if (map_is_due(r) && ask_for_map(r, owner, until))
                return;
        pthread_mutex_lock(&r->lock);
        if (!r->map)
                r->map = remote_map_new();
        /* Without it the next call is sent from server to server once more. */
        if (r->map)
                (void)remote_map_set(r->map, slot, slot, owner);
        pthread_mutex_unlock(&r->lock);
}

/* Up to N_OTHERS servers but @dead: those of the map first, then those of the URI. */
static size_t others(
        struct remote *r, const struct remote_address *dead, struct remote_address ret[N_OTHERS]) {
        size_t n = 0, n_map;

        pthread_mutex_lock(&r->lock);
        n_map = r->map ? r->map->n_servers : 0;
        for (size_t i = 0; i < n_map + r->uri.n_seeds && n < N_OTHERS; i++) {
                const struct remote_address *a =
                        i < n_map ? &r->map->servers[i] : &r->uri.seeds[i - n_map];

                if (!remote_address_same(a, dead))
                        ret[n++] = *a;
        }
        pthread_mutex_unlock(&r->lock);
        return n;
}

void remote_ask_others(struct remote *r, const struct remote_address *dead, uint64_t until) {
        struct remote_address servers[N_OTHERS];
        uint64_t soon = MIN(until, clock_monotonic_usec() + r->config.timeout_usec);
        size_t n;

        n = others(r, dead, servers);
        for (size_t i = 0; i < n; i++)
                if (clock_monotonic_usec() >= soon || ask_for_map(r, &servers[i], soon))
                        return;
}
