/* SPDX-License-Identifier: MIT */
/*
 * Shared memory, through the socket: equal prefixes of one user's conversations are computed once,
 * even across a restart; those of different users only if published. Whatever is reused, the bits
 * are those of a daemon that has nothing to reuse (I2).
 */
#include "fixture.h"
#include <errno.h>
#include <poll.h>
#include <time.h>

enum { N_PREFIX = 200, N_OWN = 40, N_REPLY = 12 };
#define WAIT_SECONDS 60

static void make_tokens(unsigned seed, int32_t *out, size_t n) {
        uint32_t x = 2654435761u * (seed + 1);

        for (size_t i = 0; i < n; i++) {
                x = x * 1664525u + 1013904223u;
                out[i] = 300 + (int32_t)(x >> 16) % 700;
        }
}

/* A prefix that depends on @prefix, then tokens of @own. */
static void say_prefix(
        struct client *c, uint64_t id, unsigned prefix, unsigned own, struct reply *r) {
        int32_t tokens[N_PREFIX + N_OWN];
        struct say s = {.conv = id,
                .tokens = tokens,
                .n_tokens = N_PREFIX + N_OWN,
                .max_tokens = N_REPLY,
                .logprobs = 2};

        make_tokens(prefix, tokens, N_PREFIX);
        make_tokens(1000 + own, tokens + N_PREFIX, N_OWN);
        if (client_say(c, &s, r) != 0)
                fail_msg("%s", c->error.message);
        assert_int_equal(r->acc.n_ram + r->acc.n_disk + r->acc.n_shared + r->acc.n_computed,
                r->acc.n_prompt);
        assert_int_equal(r->n_ram + r->n_disk + r->n_shared + r->n_computed, r->n_prompt);
}

static void say_new(
        struct client *c, unsigned prefix, unsigned own, uint64_t *id, struct reply *r) {
        assert_int_equal(client_open(c, NULL, NULL, id), 0);
        say_prefix(c, *id, prefix, own, r);
}

/* The same in a daemon that has nothing else. */
static void say_alone(unsigned prefix, unsigned own, struct reply *r) {
        struct harness h;
        struct client *c;
        uint64_t id;

        assert_int_equal(harness_init(&h), 0);
        harness_start(&h, NULL);
        c = harness_client(&h);
        say_new(c, prefix, own, &id, r);
        assert_int_equal(r->n_computed, r->n_prompt);
        client_free(c);
        harness_stop(&h);
        harness_deinit(&h);
}

static uint32_t whole_blocks(struct client *c, uint32_t n) {
        uint32_t bt = (uint32_t)client_stat(c, "block_tokens");

        return n / bt * bt;
}

/* Each question is an answer of the engine, which does its idle work in between. */
static void wait_stat(struct client *c, const char *name, uint64_t least) {
        time_t end = time(NULL) + WAIT_SECONDS;

        while (client_stat(c, name) < least)
                if (time(NULL) > end)
                        fail_msg("%s is %llu, not %llu", name,
                                (unsigned long long)client_stat(c, name),
                                (unsigned long long)least);
}

static void test_shared_in_ram(void **state) {
        struct harness *h = *state;
        struct reply a, b, c2, alone;
        struct client *c;
        uint64_t id[3];

        say_alone(1, 2, &alone);
        harness_start(h, NULL);
        c = harness_client(h);
        say_new(c, 1, 1, &id[0], &a);
        assert_int_equal(a.acc.n_shared, 0);
        assert_int_equal(a.acc.differs_at, 0);
        assert_int_equal(a.acc.differs_why, CONFAB__V1__DIFFERS__DIFFERS_NEW);
        say_new(c, 1, 2, &id[1], &b);
        assert_int_equal(b.acc.n_shared, whole_blocks(c, N_PREFIX));
        assert_int_equal(b.acc.n_computed, N_PREFIX + N_OWN - b.acc.n_shared);
        assert_int_equal(b.acc.differs_why, CONFAB__V1__DIFFERS__DIFFERS_TOKEN);
        assert_true(b.acc.differs_at >= N_PREFIX && b.acc.differs_at < N_PREFIX + N_OWN);
        assert_true(reply_equal(&b, &alone));
        assert_int_equal(client_stat(c, "tokens_reused_shared"), b.acc.n_shared);
        /* The first one gone, the second one keeps what it shares. */
        assert_int_equal(client_close(c, id[0]), 0);
        say_new(c, 1, 2, &id[2], &c2);
        assert_true(c2.acc.n_shared >= b.acc.n_shared);
        assert_true(reply_equal(&c2, &alone));
        reply_deinit(&a);
        reply_deinit(&b);
        reply_deinit(&c2);
        reply_deinit(&alone);
        client_free(c);
        harness_stop(h);
}

/* Written while idle; a kill and a restart later it is there, for its own conversation and for a
 * new one. */
static void test_write_behind_and_restart(void **state) {
        struct harness *h = *state;
        struct reply a, b, again, alone, straight;
        uint64_t id, id2, written;
        struct client *c;
        struct conv v;

        say_alone(3, 2, &alone);
        harness_start(h, FLAGS("--spill-delay=50ms"));
        c = harness_client(h);
        say_new(c, 3, 1, &id, &a);
        wait_stat(c, "writebehind_blocks", (N_PREFIX + N_OWN + N_REPLY) / 32);
        /* Nothing but the tail is left to be written at eviction. */
        written = client_stat(c, "evict_blocks_written");
        assert_int_equal(client_evict(c, id, &v), 0);
        assert_int_equal(v.residency, CONFAB__V1__RESIDENCY__RESIDENCY_SPILLED);
        assert_true(client_stat(c, "evict_blocks_written") - written <= 1);
        conv_deinit(&v);
        client_free(c);
        harness_kill(h);

        harness_start(h, NULL);
        c = harness_client(h);
        /* Its own memory. */
        assert_int_equal(
                client_say(
                        c, &(struct say){.conv = id, .max_tokens = N_REPLY, .logprobs = 2}, &again),
                0);
        assert_true(again.n_disk >= whole_blocks(c, N_PREFIX + N_OWN));
        assert_true(again.n_computed <= 32);
        /* And its prefix for another one, now from RAM or disk. */
        say_new(c, 3, 2, &id2, &b);
        assert_true(b.n_disk + b.n_shared >= whole_blocks(c, N_PREFIX));
        assert_true(reply_equal(&b, &alone));
        assert_int_equal(client_close(c, id), 0);
        assert_int_equal(client_close(c, id2), 0);
        /* The same without any interruption. */
        say_new(c, 3, 1, &id, &straight);
        assert_true(reply_equal(&straight, &a));
        reply_deinit(&straight);
        assert_int_equal(
                client_say(c, &(struct say){.conv = id, .max_tokens = N_REPLY, .logprobs = 2},
                        &straight),
                0);
        assert_true(reply_equal(&straight, &again));
        reply_deinit(&a);
        reply_deinit(&b);
        reply_deinit(&again);
        reply_deinit(&alone);
        reply_deinit(&straight);
        client_free(c);
        harness_stop(h);
}

/* A prefix on disk only, of a conversation that is not even loaded. */
static void test_shared_from_disk(void **state) {
        struct harness *h = *state;
        struct reply a, b, alone;
        struct client *c;
        uint64_t id;

        say_alone(4, 2, &alone);
        harness_start(h, NULL);
        c = harness_client(h);
        say_new(c, 4, 1, &id, &a);
        client_free(c);
        harness_stop(h);
        harness_start(h, NULL);
        c = harness_client(h);
        say_new(c, 4, 2, &id, &b);
        assert_int_equal(b.n_disk, whole_blocks(c, N_PREFIX));
        assert_true(reply_equal(&b, &alone));
        reply_deinit(&a);
        reply_deinit(&b);
        reply_deinit(&alone);
        client_free(c);
        harness_stop(h);
}

/* ---- other users ---- */

/* 0: nothing was shared; 1: something was; more: wrong. */
static int say_as_other(const char *path, uint64_t prefix) {
        struct client *c = client_connect(path);
        struct reply r;
        uint64_t id;
        int shared;

        if (!c)
                return 10;
        if (client_open(c, NULL, NULL, &id) < 0)
                return 11;
        say_prefix(c, id, (unsigned)prefix, 7, &r);
        shared = r.n_shared + r.n_disk > 0;
        /* Not where it differs from what others said, either. */
        if (!shared &&
                (r.acc.differs_at != 0 || r.acc.differs_why != CONFAB__V1__DIFFERS__DIFFERS_NEW))
                return 12;
        if (client_close(c, id) < 0)
                return 13;
        reply_deinit(&r);
        client_free(c);
        return shared;
}

static int publish_as_other(const char *path, uint64_t id) {
        struct client *c = client_connect(path);
        uint64_t own;

        if (!c || client_open(c, "own", NULL, &own) < 0)
                return 1;
        if (client_publish(c, own, -1, false, NULL) == 0 ||
                strcmp(c->error.code, "permission") != 0)
                return 2;
        if (client_publish(c, id, -1, true, NULL) == 0 || strcmp(c->error.code, "permission") != 0)
                return 3;
        client_free(c);
        return 0;
}

static void test_users_and_publishing(void **state) {
        struct harness *h = *state;
        struct reply r;
        struct client *c;
        struct conv v;
        uint64_t id;

        if (geteuid() != 0) {
                print_message("SKIP: needs root to be two users\n");
                skip();
        }
        harness_start(h, FLAGS("--socket-mode=0666", "--spill-delay=50ms"));
        c = harness_client(h);
        say_new(c, 5, 1, &id, &r);
        reply_deinit(&r);
        wait_stat(c, "writebehind_blocks", 1);
        assert_int_equal(run_as(OTHER_UID, OTHER_UID, say_as_other, h->socket, 5), 0);
        assert_int_equal(run_as(OTHER_UID, OTHER_UID, publish_as_other, h->socket, id), 0);
        assert_int_equal(client_publish(c, id, 1, false, &v), 0);
        assert_int_equal(v.n_published, N_PREFIX + N_OWN);
        conv_deinit(&v);
        assert_int_equal(run_as(OTHER_UID, OTHER_UID, say_as_other, h->socket, 5), 1);
        /* It holds across a restart, and ends when it is ended. */
        client_free(c);
        harness_stop(h);
        harness_start(h, FLAGS("--socket-mode=0666"));
        assert_int_equal(run_as(OTHER_UID + 1, OTHER_UID, say_as_other, h->socket, 5), 1);
        c = harness_client(h);
        assert_int_equal(client_publish(c, id, -1, true, &v), 0);
        assert_int_equal(v.n_published, 0);
        conv_deinit(&v);
        assert_int_equal(run_as(OTHER_UID + 2, OTHER_UID, say_as_other, h->socket, 5), 0);
        client_free(c);
        harness_stop(h);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test(test_shared_in_ram),
                daemon_test(test_write_behind_and_restart),
                daemon_test(test_shared_from_disk),
                daemon_test(test_users_and_publishing),
        };

        return DAEMON_TESTS_MAIN(tests);
}
