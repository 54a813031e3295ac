/* SPDX-License-Identifier: MIT */
#pragma once
/* A client under test, what it reads, and another client (hiredis itself) that says what is true. */
#include "base/clock.h"
#include "base/err.h"
#include "base/util.h"
#include "remote/remote.h"
#include "util/test.h"
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#define RIG_SOON 30000000ULL /* no call takes so long on the slowest machine, unless it hangs */
#define RIG_MAX_VALUE 65536

struct rig {
        struct remote *r;
        struct err e;
};

static inline struct remote_options rig_options(const char *uri) {
        return (struct remote_options){
                .uri = uri, .timeout_usec = RIG_SOON, .max_value_size = RIG_MAX_VALUE};
}

static inline void rig_open_with(struct rig *rig, struct remote_options o) {
        *rig = (struct rig){0};
        if (remote_open(&rig->r, &o, &rig->e) != 0)
                fail_msg("%s", rig->e.msg);
}

static inline void rig_open(struct rig *rig, const char *uri) {
        rig_open_with(rig, rig_options(uri));
}

static inline void rig_close(struct rig *rig) {
        rig->r = remote_free(rig->r);
}

static inline uint64_t rig_until(void) {
        return clock_monotonic_usec() + RIG_SOON;
}

static inline struct remote_key rig_key(const char *name, unsigned i) {
        struct remote_key key;

        snprintf(key.text, sizeof(key.text), "%s-%u", name, i);
        return key;
}

static inline struct remote_stats rig_stats(const struct rig *rig) {
        struct remote_stats s;

        remote_stats(rig->r, &s);
        return s;
}

/* It failed as it should, in words that have @words in them. */
static inline void rig_expect_at(
        const struct rig *rig, int r, int wanted, const char *words, const char *file, int line) {
        if (r != wanted || rig->e.code != (enum err_code)(-wanted) || !strstr(rig->e.msg, words)) {
                print_error("got %d (%s), not %d with \"%s\"\n", r, rig->e.msg, wanted, words);
                _fail(file, line);
        }
}
#define rig_expect(rig, r, wanted, words)                                                          \
        rig_expect_at((rig), (r), (wanted), (words), __FILE__, __LINE__)

static inline void rig_ok_at(const struct rig *rig, int r, const char *file, int line) {
        if (r != 0) {
                print_error("got %d: %s\n", r, rig->e.msg);
                _fail(file, line);
        }
}
#define rig_ok(rig, r) rig_ok_at((rig), (r), __FILE__, __LINE__)

/* --- one value --- */

static inline int rig_put(struct rig *rig, struct remote_key key, const void *data, size_t size) {
        const struct remote_value v = {.key = key, .data = data, .size = size};

        return remote_put(rig->r, &v, 1, 100, rig_until(), &rig->e);
}

struct rig_got {
        bool called, there;
        size_t size;
        char data[RIG_MAX_VALUE];
};

static inline int rig_take(void *arg, size_t i, const void *data, size_t size, struct err *e) {
        struct rig_got *got = arg;

        (void)e;
        assert_int_equal(i, 0);
        assert_false(got->called);
        assert_true(size <= sizeof(got->data));
        got->called = true;
        got->there = data;
        got->size = size;
        if (data)
                memcpy(got->data, data, size);
        return 0;
}

static inline int rig_get_until(
        struct rig *rig, struct remote_key key, struct rig_got *got, uint64_t until) {
        const struct remote_reader reader = {rig_take, got};

        *got = (struct rig_got){0};
        return remote_get(rig->r, &key, 1, &reader, until, &rig->e);
}

static inline int rig_get(struct rig *rig, struct remote_key key, struct rig_got *got) {
        return rig_get_until(rig, key, got, rig_until());
}

/* @text NULL: it is not there. */
static inline void rig_expect_value(struct rig *rig, struct remote_key key, const char *text) {
        static struct rig_got got;

        rig_ok(rig, rig_get(rig, key, &got));
        assert_true(got.called);
        assert_int_equal(got.there, text != NULL);
        if (text) {
                assert_int_equal(got.size, strlen(text));
                assert_memory_equal(got.data, text, got.size);
        }
}

/* --- many values --- */

static inline void rig_text_of(const struct remote_key *key, char ret[128]) {
        snprintf(ret, 128, "the value of %s", key->text);
}

/* Stores keys[0..n) but every @gap-th (0: all), each with a text of its own. */
static inline void rig_put_all(
        struct rig *rig, const struct remote_key *keys, size_t n, size_t gap) {
        struct remote_value *values = calloc(n, sizeof(*values));
        char(*texts)[128] = calloc(n, sizeof(*texts));
        size_t n_values = 0;

        assert_non_null(values);
        assert_non_null(texts);
        for (size_t i = 0; i < n; i++) {
                rig_text_of(&keys[i], texts[i]);
                if (gap == 0 || i % gap != 0)
                        values[n_values++] =
                                (struct remote_value){keys[i], texts[i], strlen(texts[i])};
        }
        rig_ok(rig, remote_put(rig->r, values, n_values, 100, rig_until(), &rig->e));
        free(texts);
        free(values);
}

struct rig_order {
        const struct remote_key *keys;
        size_t next, gap;
};

static inline int rig_take_next(void *arg, size_t i, const void *data, size_t size, struct err *e) {
        struct rig_order *o = arg;
        char text[128];

        (void)e;
        assert_int_equal(i, o->next++);
        assert_int_equal(data != NULL, o->gap == 0 || i % o->gap != 0);
        if (data) {
                rig_text_of(&o->keys[i], text);
                assert_int_equal(size, strlen(text));
                assert_memory_equal(data, text, size);
        }
        return 0;
}

/* What rig_put_all() stored is there, and is told in order. */
static inline void rig_get_all(
        struct rig *rig, const struct remote_key *keys, size_t n, size_t gap) {
        struct rig_order order = {.keys = keys, .gap = gap};
        const struct remote_reader reader = {rig_take_next, &order};

        rig_ok(rig, remote_get(rig->r, keys, n, &reader, rig_until(), &rig->e));
        assert_int_equal(order.next, n);
}

static inline struct remote_key *rig_keys(const char *name, size_t n) {
        struct remote_key *keys = calloc(n, sizeof(*keys));

        assert_non_null(keys);
        for (size_t i = 0; i < n; i++)
                keys[i] = rig_key(name, (unsigned)i);
        return keys;
}

/* --- servers of tests/util/with-redis.py --- */

static inline const char *rig_env(const char *name) {
        const char *value = getenv(name);

        if (!value) {
                print_message("SKIP: no %s: run by tests/util/with-redis.py\n", name);
                skip();
        }
        return value;
}

static inline redisContext *rig_server(void) {
        redisContext *c = redisConnectUnix(rig_env("CONFAB_TEST_REDIS") + strlen("redis://"));

        assert_non_null(c);
        assert_int_equal(c->err, 0);
        return c;
}

/* What a command of another client answers, as an integer; -1: something else. */
static inline long long rig_say(const char *command) {
        redisContext *c = rig_server();
        char *copy = strdup(command), *rest = copy;
        const char *words[16];
        int n = 0;
        redisReply *reply;
        long long v;

        while (n < 16 && (words[n] = strsep(&rest, " ")))
                n++;
        reply = redisCommandArgv(c, n, words, NULL);
        assert_non_null(reply);
        if (reply->type == REDIS_REPLY_ERROR)
                fail_msg("%s: %s", command, reply->str);
        v = reply->type == REDIS_REPLY_INTEGER ? reply->integer : -1;
        freeReplyObject(reply);
        free(copy);
        redisFree(c);
        return v;
}

/* One line to with-redis.py, done when this returns. */
static inline void rig_control(const char *line) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        const char *path = rig_env("CONFAB_TEST_REDIS_CONTROL");
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        char answer[512] = "";

        assert_true(strlen(path) < sizeof(address.sun_path));
        strcpy(address.sun_path, path);
        assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
        assert_true(dprintf(fd, "%s\n", line) > 0);
        for (size_t n = 0; n < sizeof(answer) - 1 && !strchr(answer, '\n');) {
                ssize_t got = recv(fd, answer + n, sizeof(answer) - 1 - n, 0);

                if (got <= 0)
                        break;
                n += (size_t)got;
        }
        close(fd);
        if (strncmp(answer, "ok", 2) != 0)
                fail_msg("%s: %s", line, answer);
}
