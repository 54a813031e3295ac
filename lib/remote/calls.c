/* SPDX-License-Identifier: MIT */
/*
 * Calls: commands go out in a window that slides over them, and answers are taken in their order.
 *
 *      done | in the window: in a lane, or loose | not begun
 *          head                                 end
 *
 * fill() makes the window as long as it may be and puts each loose command into the lane of a server, remote_lane_send() sends, and
 * take() waits for the answer to the command at the head, on whose lane alone bytes are received. Answers on other lanes stay
 * in their sockets, where they hold their servers back. Both directions of all lanes are in one poll(), so a server that does not read
 * while it writes gets nowhere with us but to its time limit.
 *
 * A command becomes loose again when its server sends it elsewhere (MOVED, ASK), and when its connection is closed: because a
 * value before it was too long (too_long()), or since a kept connection was dead (lost()).
 *
 * 1. A command is sent elsewhere MAX_REDIRECTS times at most, and once more MAX_AGAIN times. So every call ends.
 * 2. All commands may be made twice: what was sent over a connection that broke is sent again.
 * 3. Answers to GET that are on their way are FLIGHT_SIZE at most, as far as sizes can be guessed: they take the servers' memory.
 */
#include "base/clock.h"
#include "base/util.h"
#include "remote/remote-private.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>

#define MAX_REDIRECTS 5
#define MAX_AGAIN 2
#define FLIGHT_SIZE (8U << 20)
#define USUAL_SIZE (1U << 20) /* of a value, before one is seen */
#define NAP_MSEC 5            /* before a server is asked again that said "try again" */

static int fail(const struct remote_lane *lane, struct err *e, const char *why) {
        return remote_conn_fail(&lane->conn->address, e, why);
}

static int too_late(struct remote_call *c) {
        return err_set(c->e, ERR_UNAVAILABLE, "the servers did not answer within the time");
}

/* The command at the head, which is loose, is done. */
static void finish(struct remote_call *c) {
        c->head++;
        c->n_loose--;
}

/* --- to the servers --- */

/* Put command @i into the lane of the server that should have its key. Servers that can't be reached are
 * replaced: another one of the URI, or the one that has taken over the slot. */
static int enter(struct remote_call *c, uint32_t i) {
        struct remote *remote = c->remote;
        uint16_t slot = remote_slot(remote_key_of(c, i));
        struct remote_address address, next;
        bool known = remote_where(remote, slot, &address);
        int r = 0;

        for (size_t k = 0; k <= remote->uri.n_seeds; k++) {
                r = remote_lane_enter(c, i, &address, c->e);
                if (r != -ERR_UNAVAILABLE || clock_monotonic_usec() >= c->until)
                        return r;
                if (known)
                        remote_ask_others(remote, &address, c->until);
                else
                        remote_next_seed(remote, &address);
                known = remote_where(remote, slot, &next);
                if (remote_address_same(&address, &next))
                        break;
                address = next;
        }
        return r;
}

/* How long the window may be. */
static size_t allowance(const struct remote_call *c) {
        size_t n = FLIGHT_SIZE / MAX(c->usual, (size_t)1);

        if (c->verb != REMOTE_GET)
                return c->n_lanes;
        n = MAX(n, (size_t)2);
        return MIN(n, c->n_lanes);
}

static int fill(struct remote_call *c) {
        size_t n = allowance(c);

        /* Many short commands begin together, so that they are sent together. */
        if (c->end - c->head <= n / 2 || n < REMOTE_WINDOW / 4)
                for (; c->end < c->n && c->end - c->head < n; c->end++) {
                        *remote_request_of(c, c->end) = (struct remote_request){0};
                        c->n_loose++;
                }
        for (uint32_t i = c->head; i < c->end && c->n_loose > 0; i++) {
                int r = remote_request_of(c, i)->lane ? 0 : enter(c, i);

                if (r < 0)
                        return r;
        }
        return 0;
}

/* A lane's connection broke, which c->e tells. One that was kept may have been dead for long: then its
 * commands are loose, for new connections. */
static int lost(struct remote_call *c, struct remote_lane *lane, int r) {
        struct remote_address address = lane->conn->address;

        if (r != -ERR_UNAVAILABLE || !lane->kept || lane->heard)
                return r;
        for (uint32_t i = lane->first; i != REMOTE_NONE; i = remote_request_of(c, i)->next)
                if (++remote_request_of(c, i)->n_again > MAX_AGAIN)
                        return r;
        remote_lane_close(c, lane);
        remote_pool_forget(c->remote, &address);
        return 0;
}

static int send_all(struct remote_call *c, bool *moved) {
        for (size_t k = 0; k < c->n_lanes; k++) {
                struct remote_lane *lane = &c->lanes[k];
                int r = lane->conn ? remote_lane_send(c, lane, moved, c->e) : 0;

                if (r < 0)
                        r = lost(c, lane, r);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* --- answers --- */

/* Hand over what the command at the head has got; @data NULL: nothing. */
static int hand_over(struct remote_call *c, const void *data, size_t size) {
        int r = c->reader->value(c->reader->arg, c->head, data, size, c->e);

        if (data) {
                c->usual = (c->usual * 3 + size) / 4;
                atomic_fetch_add(&c->remote->received_size, size);
        }
        c->by_reader = r != 0;
        return r;
}

/* MOVED or ASK, SLOT and HOST:PORT. */
static int redirect(struct remote_call *c, struct remote_lane *lane, const char *text) {
        bool ask = text[0] == 'A';
        struct remote_request *request = remote_request_of(c, c->head);
        struct remote_address owner;
        unsigned long slot;
        char *end;

        if (lane->conn->address.port == 0)
                return fail(lane, c->e,
                        "it belongs to a cluster, which can't be asked through a Unix socket");
        slot = strtoul(text + strcspn(text, " "), &end, 10);
        if (slot >= REMOTE_N_SLOTS || *end != ' ' ||
                !remote_address_told(&owner, end + 1, &lane->conn->address))
                return fail(lane, c->e, text);
        if (++request->n_redirects > MAX_REDIRECTS)
                return fail(lane, c->e, "the servers send a key around in circles");
        atomic_fetch_add(&c->remote->n_redirects, 1);
        remote_lane_leave(c, lane);
        request->asking = ask;
        if (!ask) {
                remote_moved(c->remote, (uint16_t)slot, &owner, c->until);
                c->awaited = NULL;
        }
        return remote_lane_enter(c, c->head, &owner, c->e);
}

static int try_again(struct remote_call *c, struct remote_lane *lane, const char *text) {
        if (++remote_request_of(c, c->head)->n_redirects > MAX_REDIRECTS)
                return fail(lane, c->e, text);
        remote_lane_leave(c, lane);
        (void)poll(NULL, 0, NAP_MSEC);
        return 0;
}

static bool begins(const char *text, const char *word) {
        return strncmp(text, word, strlen(word)) == 0;
}

static int take_error(struct remote_call *c, struct remote_lane *lane) {
        const char *text = lane->conn->reply.text;
        int r;

        if (begins(text, "MOVED ") || begins(text, "ASK "))
                return redirect(c, lane, text);
        if (begins(text, "TRYAGAIN"))
                return try_again(c, lane, text);
        if (c->verb == REMOTE_PUT && begins(text, "OOM ")) {
                /* The others are sent already, or find room. */
                if (c->full.code == ERR_NONE) {
                        (void)fail(lane, &c->full, text);
                        c->full.code = ERR_LIMIT;
                }
        } else if (c->verb != REMOTE_GET || !begins(text, "WRONGTYPE")) {
                r = fail(lane, c->e, text);
                remote_lane_close(c, lane);
                return r;
        }
        remote_lane_leave(c, lane);
        r = c->verb == REMOTE_GET ? hand_over(c, NULL, 0) : 0;
        finish(c);
        return r;
}

/* Whether the answer is one to such a command; and what follows from it. */
static bool fits(struct remote_call *c, const struct remote_reply *reply) {
        switch (c->verb) {
        case REMOTE_TOUCH:
                c->found[c->head] = reply->type == REDIS_REPLY_INTEGER && reply->integer == 1;
                return reply->type == REDIS_REPLY_INTEGER;
        case REMOTE_GET:
                return reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_NIL;
        case REMOTE_PUT:
                atomic_fetch_add(&c->remote->sent_size, c->values[c->head].size);
                return reply->type == REDIS_REPLY_STATUS;
        case REMOTE_REMOVE:
                return reply->type == REDIS_REPLY_INTEGER;
        }
        return false;
}

static int take_answer(struct remote_call *c, struct remote_lane *lane) {
        struct remote_request *request = remote_request_of(c, c->head);
        struct remote_conn *conn = lane->conn;
        int r = 0, taken;

        if (lane->first == lane->unsent) {
                /* A server that is full up says so to whoever connects. */
                r = fail(lane, c->e,
                        conn->reply.type == REDIS_REPLY_ERROR ? conn->reply.text
                                                              : "it answers before it is asked");
                remote_lane_close(c, lane);
                return r;
        }
        if (conn->reply.type == REDIS_REPLY_ERROR)
                return take_error(c, lane);
        if (request->asking && conn->reply.type == REDIS_REPLY_STATUS) {
                request->asking = false;
                return 0;
        }
        if (request->asking || !fits(c, &conn->reply)) {
                r = fail(lane, c->e, "it answers what it was not asked");
                remote_lane_close(c, lane);
                return r;
        }
        if (c->verb == REMOTE_GET)
                r = hand_over(c, conn->reply.data, conn->reply.size);
        taken = remote_conn_next(conn, r == 0 ? c->e : NULL);
        remote_lane_leave(c, lane);
        finish(c);
        return r != 0 ? r : taken;
}

/* The value is not read, so the connection is of no use any more. */
static int too_long(struct remote_call *c, struct remote_lane *lane) {
        int r;

        if (c->verb != REMOTE_GET || lane->first == lane->unsent ||
                remote_request_of(c, c->head)->asking) {
                r = fail(lane, c->e, "it answers what it was not asked");
                remote_lane_close(c, lane);
                return r;
        }
        remote_lane_close(c, lane);
        r = hand_over(c, NULL, 0);
        finish(c);
        return r;
}

/* The answer to the command at the head, if it is there or comes at once. Nonzero ends the call. */
static int take(struct remote_call *c, struct remote_lane *lane, bool *moved) {
        int r;

        while ((r = remote_conn_reply(lane->conn, c->e)) == 0) {
                ssize_t n = remote_conn_receive(lane->conn, c->chunk, c->e);

                if (n == 0)
                        return 0;
                if (n < 0)
                        return lost(c, lane, (int)n);
                *moved = lane->heard = true;
                lane->t_active = clock_monotonic_usec();
                if (lane->t_active >= c->until)
                        return too_late(c);
        }
        if (r < 0)
                return r;
        *moved = true;
        return r == REMOTE_TOO_LONG ? too_long(c, lane) : take_answer(c, lane);
}

/* --- waiting --- */

/* For the lane of the head, until it has said nothing for too long, and for those that have something to send. */
static int wait_for(struct remote_call *c, struct remote_lane *lane) {
        struct pollfd fds[REMOTE_WINDOW];
        uint64_t now = clock_monotonic_usec(), until;
        nfds_t n_fds = 0;
        int n;

        if (lane != c->awaited)
                lane->t_active = now;
        c->awaited = lane;
        for (size_t k = 0; k < c->n_lanes; k++) {
                const struct remote_lane *l = &c->lanes[k];
                short events = (l == lane ? POLLIN : 0) | (l->unsent != REMOTE_NONE ? POLLOUT : 0);

                if (l->conn && events)
                        fds[n_fds++] = (struct pollfd){.fd = l->conn->fd, .events = events};
        }
        until = MIN(c->until, lane->t_active + c->remote->config.timeout_usec);
        n = poll(fds, n_fds, now < until ? (int)((until - now) / 1000 + 1) : 0);
        if (n < 0 && errno != EINTR)
                return fail(lane, c->e, "waiting for it failed");
        if (n == 0 && clock_monotonic_usec() >= until) {
                /* Later calls connect anew, so they find out whether another server has taken over. */
                remote_pool_forget(c->remote, &lane->conn->address);
                return fail(lane, c->e, "it does not answer");
        }
        return 0;
}

static int step(struct remote_call *c) {
        struct remote_lane *lane;
        bool moved = false;
        int r;

        if (clock_monotonic_usec() >= c->until)
                return too_late(c);
        r = fill(c);
        if (r == 0)
                r = send_all(c, &moved);
        /* Sending may have found that its connection is dead. */
        lane = remote_request_of(c, c->head)->lane;
        if (r == 0 && lane) {
                r = take(c, lane, &moved);
                if (r == 0 && !moved && lane->conn)
                        r = wait_for(c, lane);
        }
        return r;
}

/* --- the calls --- */

static int check_keys(const struct remote_call *c) {
        for (uint32_t i = 0; i < c->n; i++) {
                size_t n = strnlen(remote_key_of(c, i), REMOTE_KEY_MAX + 1);

                if (n == 0 || n > REMOTE_KEY_MAX)
                        return err_set(
                                c->e, ERR_INVALID, "a key has 1 to %d bytes", REMOTE_KEY_MAX);
                if (c->verb == REMOTE_PUT && c->values[i].size > c->remote->config.max_value_size)
                        return err_set(c->e, ERR_INVALID, "a value has more than %zu bytes",
                                c->remote->config.max_value_size);
        }
        return 0;
}

static int run(struct remote_call *c) {
        int r = 0;

        for (size_t k = 0; k < c->n_lanes; k++)
                c->lanes[k].first = c->lanes[k].last = c->lanes[k].unsent = REMOTE_NONE;
        while (r == 0 && c->head < c->n)
                r = step(c);
        remote_lanes_end(c);
        if (r == 0 && c->full.code != ERR_NONE) {
                r = -(int)c->full.code;
                if (c->e)
                        *c->e = c->full;
        }
        if (r == -ERR_UNAVAILABLE && !c->by_reader)
                atomic_fetch_add(&c->remote->n_failures, 1);
        return r;
}

static int call(struct remote_call *c, size_t n) {
        int r;

        if (n == 0)
                return 0;
        if (n >= REMOTE_NONE)
                return err_set(c->e, ERR_INVALID, "too many keys");
        c->n = (uint32_t)n;
        r = check_keys(c);
        if (r < 0)
                return r;
        c->n_lanes = MIN(n, (size_t)REMOTE_WINDOW);
        c->usual = MIN(c->remote->config.max_value_size, (size_t)USUAL_SIZE);
        c->chunk = malloc(REMOTE_CHUNK);
        c->lanes = calloc(c->n_lanes, sizeof(*c->lanes));
        c->requests = calloc(c->n_lanes, sizeof(*c->requests));
        r = c->chunk && c->lanes && c->requests ? run(c) : err_no_memory(c->e);
        free(c->chunk);
        free(c->lanes);
        free(c->requests);
        return r;
}

static int check_keep(uint32_t keep_sec, struct err *e) {
        return keep_sec > 0 ? 0 : err_set(e, ERR_INVALID, "a value lives for a second at least");
}

int remote_touch(struct remote *r, const struct remote_key *keys, size_t n, uint32_t keep_sec,
        bool *ret, uint64_t until, struct err *e) {
        struct remote_call c = {.remote = r,
                .verb = REMOTE_TOUCH,
                .keys = keys,
                .keep_sec = keep_sec,
                .found = ret,
                .until = until,
                .e = e};
        int result = check_keep(keep_sec, e);

        for (size_t i = 0; i < n && result == 0; i++)
                ret[i] = false;
        return result == 0 ? call(&c, n) : result;
}

int remote_get(struct remote *r, const struct remote_key *keys, size_t n,
        const struct remote_reader *reader, uint64_t until, struct err *e) {
        struct remote_call c = {.remote = r,
                .verb = REMOTE_GET,
                .keys = keys,
                .reader = reader,
                .until = until,
                .e = e};

        return call(&c, n);
}

int remote_put(struct remote *r, const struct remote_value *values, size_t n, uint32_t keep_sec,
        uint64_t until, struct err *e) {
        struct remote_call c = {.remote = r,
                .verb = REMOTE_PUT,
                .values = values,
                .keep_sec = keep_sec,
                .until = until,
                .e = e};
        int result = check_keep(keep_sec, e);

        return result == 0 ? call(&c, n) : result;
}

int remote_remove(
        struct remote *r, const struct remote_key *keys, size_t n, uint64_t until, struct err *e) {
        struct remote_call c = {
                .remote = r, .verb = REMOTE_REMOVE, .keys = keys, .until = until, .e = e};

        return call(&c, n);
}
