/* SPDX-License-Identifier: MIT */
/*
 * Bytes as what a remote store answers. The first byte says whether slots were asked for, the second one how many bytes come at a
 * time. However they come, the answers are the same; none goes beyond what came; what is told of slots is possible.
 */
#include "fuzz/check.h"
#include "remote/remote-private.h"
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
        MAX_VALUE = 600,
        /* Of an answer that is not whole so much may be there, or not, when it is refused for its length: conn.c, rule 4. */
        MAX_INPUT = 4000,
        MOST = MAX_INPUT,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct remote_address address;
static int listener = -1;

/* A server that says what it is told to. */
static void begin(void) {
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        char folder[] = "/tmp/confab-fuzz-XXXXXX";

        check(mkdtemp(folder));
        snprintf(a.sun_path, sizeof(a.sun_path), "%s/s", folder);
        snprintf(address.host, sizeof(address.host), "%s", a.sun_path);
        listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        check(bind(listener, (const struct sockaddr *)&a, sizeof(a)) == 0);
        check(listen(listener, 1) == 0);
}

static void end(void) {
        close(listener);
        unlink(address.host);
        *strrchr(address.host, '/') = '\0';
        rmdir(address.host);
}

/* What was made of an answer: where it was and how long, its first bytes. */
struct seen {
        int type, result;
        long long integer;
        size_t size;
        char text[64];
};
struct run {
        struct seen seen[MOST];
        size_t n;
        struct remote_map *map;
};

static void look(struct run *run, const struct remote_conn *c, int result) {
        struct seen *s = &run->seen[run->n++];
        const struct remote_reply *reply = &c->reply;

        check(run->n < MOST);
        *s = (struct seen){.result = result};
        if (result != 1)
                return;
        s->type = reply->type;
        s->integer = reply->integer;
        s->size = reply->size;
        check(strnlen(reply->text, sizeof(reply->text)) < sizeof(reply->text));
        if (reply->type != REDIS_REPLY_STRING) {
                snprintf(s->text, sizeof(s->text), "%s", reply->text);
                return;
        }
        check(reply->data && reply->size <= MAX_VALUE);
        /* A sanitizer looks at all of it. */
        for (size_t i = 0; i < reply->size; i++)
                s->text[i % sizeof(s->text)] ^= ((const char *)reply->data)[i];
}

static void check_map(const struct remote_map *m) {
        check(m->n_servers <= REMOTE_SERVERS_MAX);
        for (size_t i = 0; i < m->n_servers; i++)
                check(strnlen(m->servers[i].host, sizeof(m->servers[i].host)) <= REMOTE_HOST_MAX);
        for (size_t i = 0; i < REMOTE_N_SLOTS; i++)
                check(m->owner[i] <= m->n_servers);
}

/* All answers, until there is none, or one that ends it. */
static void take_answers(struct run *run, struct remote_conn *c) {
        int r;

        while ((r = remote_conn_reply(c, NULL)) == 1) {
                look(run, c, r);
                r = remote_conn_next(c, NULL);
                if (r < 0)
                        break;
        }
        if (r != 0)
                look(run, c, r);
}

static bool has_ended(const struct run *run) {
        return run->n > 0 && run->seen[run->n - 1].result != 1;
}

static void answer(
        struct run *run, const uint8_t *data, size_t size, size_t at_a_time, bool slots) {
        const struct remote_config config = {.timeout_usec = 1000000, .max_value_size = MAX_VALUE};
        struct remote_slots_reader reader = {.asked = &address};
        struct remote_conn *c = NULL;
        static char chunk[REMOTE_CHUNK];
        int fd;

        check(remote_conn_open(&c, &config, &address, UINT64_MAX, NULL) == 0);
        fd = accept(listener, NULL, NULL);
        check(fd >= 0);
        if (slots) {
                reader.map = run->map = remote_map_new();
                check(run->map);
                c->slots = &reader;
        }
        for (size_t at = 0; at < size && !has_ended(run); at += at_a_time) {
                size_t n = size - at < at_a_time ? size - at : at_a_time;

                check(send(fd, data + at, n, MSG_NOSIGNAL) == (ssize_t)n);
                check(remote_conn_receive(c, chunk, NULL) == (ssize_t)n);
                take_answers(run, c);
        }
        (void)remote_conn_rest(c);
        close(fd);
        remote_conn_free(c);
        if (run->map)
                check_map(run->map);
}

static bool same_map(const struct remote_map *a, const struct remote_map *b) {
        if (a->n_servers != b->n_servers || memcmp(a->owner, b->owner, sizeof(a->owner)) != 0)
                return false;
        for (size_t i = 0; i < a->n_servers; i++)
                if (!remote_address_same(&a->servers[i], &b->servers[i]))
                        return false;
        return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static struct run whole, parts;
        bool slots;

        if (size < 3 || size > MAX_INPUT)
                return 0;
        if (listener < 0) {
                begin();
                atexit(end);
        }
        slots = data[0] & 1;
        memset(&whole, 0, sizeof(whole));
        memset(&parts, 0, sizeof(parts));
        answer(&whole, data + 2, size - 2, size, slots);
        answer(&parts, data + 2, size - 2, data[1] % 32 + 1, slots);
        check(whole.n == parts.n);
        check(memcmp(whole.seen, parts.seen, whole.n * sizeof(whole.seen[0])) == 0);
        /* What stands behind an answer that breaks the protocol may have been told before that was seen. */
        if (slots && !has_ended(&whole))
                check(same_map(whole.map, parts.map));
        remote_map_free(whole.map);
        remote_map_free(parts.map);
        return 0;
}
