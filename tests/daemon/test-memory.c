/* SPDX-License-Identifier: MIT */
/*
 * Memory under pressure, through the real daemon: many conversations in a pool for a few, damaged
 * spill files, spill files of another model, kill -9 while generating. The results are compared
 * with those of an undisturbed daemon, bit for bit.
 *
 * 1. The ledger never exceeds the budget: its peak is exact, so the peak after each step covers
 *    every moment.
 * 2. Log-probabilities are equal in every bit (I2).
 * 3. No prompt token is computed twice unless its memory was damaged.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"
#include "util/test.h"

enum { N_CONVS = 50, N_ROUNDS = 3, N_TOKENS = 300, N_REPLY = 20 };

/* The k-th piece of a conversation: reproducible tokens, so that lengths are exact. */
static void make_tokens(int conv, int round, int32_t *out, size_t n) {
        uint32_t x = 2654435761u * (uint32_t)(conv * 16 + round + 1);

        for (size_t i = 0; i < n; i++) {
                x = x * 1664525u + 1013904223u;
                out[i] = 300 + (int32_t)(x >> 16) % 700;
        }
}

static void say_round(struct client *c, uint64_t id, int conv, int round, struct reply *r) {
        int32_t tokens[N_TOKENS];
        /* 300 tokens in the first round; small additions later. */
        size_t n = round == 0 ? N_TOKENS - N_REPLY : 10;
        struct say s = {
                .conv = id, .tokens = tokens, .n_tokens = n, .max_tokens = N_REPLY, .logprobs = 3};

        make_tokens(conv, round, tokens, n);
        if (client_say(c, &s, r) != 0)
                fail_msg("conversation %d, round %d: %s", conv, round, c->error.message);
        assert_int_equal(r->n, N_REPLY);
}

static uint64_t pool_for(struct client *c, uint64_t n_convs) {
        uint64_t block = client_stat(c, "block_bytes"), tokens = client_stat(c, "block_tokens");
        uint64_t per_conv = (N_TOKENS + tokens - 1) / tokens * block;

        /* Two sixteenths of the budget are for requests and bookkeeping. */
        return n_convs * per_conv * 16 / 14;
}

static void test_round_robin(void **state) {
        static struct reply wide[N_ROUNDS][N_CONVS];
        struct harness h;
        uint64_t budget = 0;
        char flag[64];

        for (int small = 0; small < 2; small++) {
                uint64_t ids[N_CONVS], computed = 0, disk = 0;
                struct client *c;

                /* A folder of its own: the same tokens would be found on disk. */
                if (harness_init(&h) != 0)
                        skip();
                snprintf(flag, sizeof(flag), "--pool-size=%llu",
                        small ? (unsigned long long)budget : 1ull << 30);
                harness_start(&h, (const char *[]){flag, NULL});
                c = harness_client(&h);
                for (int i = 0; i < N_CONVS; i++)
                        assert_int_equal(client_open(c, NULL, NULL, &ids[i]), 0);
                for (int k = 0; k < N_ROUNDS; k++)
                        for (int i = 0; i < N_CONVS; i++) {
                                struct reply r = {0};

                                say_round(c, ids[i], i, k, small ? &r : &wide[k][i]);
                                if (!small) {
                                        computed += wide[k][i].n_computed;
                                        continue;
                                }
                                assert_true(reply_equal(&r, &wide[k][i]));
                                assert_int_equal(r.n_computed, wide[k][i].n_computed);
                                computed += r.n_computed;
                                disk += r.n_disk;
                                assert_true(client_stat(c, "ledger_used") <= budget);
                                assert_true(client_stat(c, "ledger_peak") <= budget);
                                reply_deinit(&r);
                        }
                assert_int_equal(client_stat(c, "tokens_recomputed"), 0);
                assert_int_equal(client_stat(c, "tokens_prefilled"), computed);
                if (!small) {
                        assert_int_equal(client_stat(c, "evictions"), 0);
                        budget = pool_for(c, 10);
                } else {
                        assert_true(disk > 0 && client_stat(c, "tokens_reused_disk") == disk);
                        print_message(
                                "budget %llu, peak %llu, evictions %llu, tokens from disk %llu\n",
                                (unsigned long long)budget,
                                (unsigned long long)client_stat(c, "ledger_peak"),
                                (unsigned long long)client_stat(c, "evictions"),
                                (unsigned long long)disk);
                }
                client_free(c);
                harness_stop(&h);
                harness_deinit(&h);
        }
        for (int k = 0; k < N_ROUNDS; k++)
                for (int i = 0; i < N_CONVS; i++)
                        reply_deinit(&wide[k][i]);
}

/* --- damage --- */

/* Path of the first spill file; false if there is none. */
static bool spill_file(const struct harness *h, char *ret, size_t n) {
        char dir[256];
        struct dirent *d;
        bool found = false;
        DIR *o;

        snprintf(dir, sizeof(dir), "%s/spill", h->state);
        o = opendir(dir);
        assert_non_null(o);
        while (!found && (d = readdir(o)))
                if (strstr(d->d_name, ".kv")) {
                        snprintf(ret, n, "%s/%s", dir, d->d_name);
                        found = true;
                }
        closedir(o);
        return found;
}

enum damage { TRUNCATE, EMPTY, FLIP_HEADER, FLIP_PAYLOAD, GARBAGE, DELETE, N_DAMAGES };

static void do_damage(const char *path, enum damage d) {
        char junk[4096];
        struct stat st;
        int fd;

        if (d == DELETE) {
                assert_int_equal(unlink(path), 0);
                return;
        }
        fd = open(path, O_RDWR | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_int_equal(fstat(fd, &st), 0);
        if (d == TRUNCATE) {
                assert_int_equal(ftruncate(fd, st.st_size / 2), 0);
        } else if (d == EMPTY) {
                assert_int_equal(ftruncate(fd, 0), 0);
        } else {
                off_t at = d == FLIP_HEADER ? 9 : 1000; /* of the first record */

                assert_int_equal(pread(fd, junk, sizeof(junk), d == GARBAGE ? 0 : at) > 0, 1);
                if (d == GARBAGE)
                        memset(junk, 0xa5, sizeof(junk));
                else
                        junk[0] ^= 0x10;
                assert_true(pwrite(fd, junk, d == GARBAGE ? sizeof(junk) : 1,
                                    d == GARBAGE ? 0 : at) > 0);
        }
        close(fd);
}

/* A damaged file costs time, names the problem in the log, and changes nothing else. */
static void test_damage(void **state) {
        struct harness h;
        struct client *c;
        struct reply want = {0};

        if (harness_init(&h) != 0)
                skip();
        for (int d = -1; d < N_DAMAGES; d++)
                /* A running daemon holds the file open: deleting it then damages nothing. */
                for (int restart = d == DELETE; restart < 1 + (d >= 0); restart++) {
                        struct reply first = {0}, r = {0};
                        char path[512], *log;
                        uint64_t id;

                        harness_start(&h, NULL);
                        c = harness_client(&h);
                        assert_int_equal(client_open(c, NULL, NULL, &id), 0);
                        say_round(c, id, 1, 0, &first);
                        if (d >= 0) {
                                assert_int_equal(client_evict(c, id, NULL), 0);
                                assert_true(spill_file(&h, path, sizeof(path)));
                                if (restart) {
                                        client_free(c);
                                        harness_stop(&h);
                                }
                                do_damage(path, (enum damage)d);
                                if (restart) {
                                        harness_start(&h, NULL);
                                        c = harness_client(&h);
                                }
                        }
                        say_round(c, id, 1, 1, d < 0 ? &want : &r);
                        if (d >= 0) {
                                assert_true(reply_equal(&want, &r));
                                if (r.n_computed <= want.n_computed)
                                        fail_msg(
                                                "damage %d, restart %d went unnoticed", d, restart);
                                log = harness_read_log(&h);
                                if (!strstr(log, ".kv"))
                                        fail_msg("damage %d is not named in the log:\n%s", d, log);
                                free(log);
                        }
                        assert_int_equal(client_close(c, id), 0);
                        reply_deinit(&first);
                        reply_deinit(&r);
                        client_free(c);
                        harness_stop(&h);
                }
        reply_deinit(&want);
        harness_deinit(&h);
}

/* Spill files of other rules (another KV type) are not taken; the conversation goes on, and back.
 */
static void test_other_model(void **state) {
        static const char *const kv[] = {"--kv-type=f16", "--kv-type=f32", "--kv-type=f16"};
        struct harness h;
        uint64_t id = 0;

        if (harness_init(&h) != 0)
                skip();
        for (int i = 0; i < 3; i++) {
                struct client *c;
                struct reply r = {0};

                harness_start(&h, (const char *[]){kv[i], NULL});
                c = harness_client(&h);
                if (i == 0)
                        assert_int_equal(client_open(c, "x", NULL, &id), 0);
                say_round(c, id, 2, i, &r);
                assert_int_equal(r.n_disk, 0);
                assert_int_equal(r.n_computed, r.n_prompt);
                reply_deinit(&r);
                assert_int_equal(client_evict(c, id, NULL), 0);
                client_free(c);
                harness_stop(&h);
        }
        harness_deinit(&h);
}

/* A file of the right shape with another fingerprint in its records, put in place by hand. */
static void test_foreign_file(void **state) {
        struct harness a, b;
        struct client *c;
        struct reply r = {0}, want = {0};
        char from[512], to[512], cmd[1100], *log;
        uint64_t id;

        if (harness_init(&a) != 0 || harness_init(&b) != 0)
                skip();
        harness_start(&b, (const char *[]){"--kv-type=f32", NULL});
        c = harness_client(&b);
        assert_int_equal(client_open(c, NULL, NULL, &id), 0);
        say_round(c, id, 3, 0, &r);
        reply_deinit(&r);
        assert_int_equal(client_evict(c, id, NULL), 0);
        assert_true(spill_file(&b, from, sizeof(from)));

        harness_start(&a, NULL);
        client_free(c);
        c = harness_client(&a);
        for (int k = 0; k < 2; k++) {
                assert_int_equal(client_open(c, NULL, NULL, &id), 0);
                say_round(c, id, 3, 0, &r);
                reply_deinit(&r);
                if (k == 1) {
                        assert_int_equal(client_evict(c, id, NULL), 0);
                        assert_true(spill_file(&a, to, sizeof(to)));
                        snprintf(cmd, sizeof(cmd), "cat '%s' > '%s'", from, to);
                        assert_int_equal(system(cmd), 0);
                }
                say_round(c, id, 3, 1, k == 0 ? &want : &r);
                /* The second one must not share the first one's memory. */
                if (k == 0)
                        assert_int_equal(client_close(c, id), 0);
        }
        assert_true(reply_equal(&want, &r));
        assert_int_equal(r.n_disk, 0);
        log = harness_read_log(&a);
        assert_non_null(strstr(log, "another model"));
        free(log);
        reply_deinit(&r);
        reply_deinit(&want);
        client_free(c);
        harness_stop(&a);
        harness_stop(&b);
        harness_deinit(&a);
        harness_deinit(&b);
}

/* --- a full disk --- */

/* No room on disk: an Evict says what it dropped. */
static void test_evict_refused(void **state) {
        struct reply r = {};
        struct conv v = {};
        struct harness h;
        struct client *c;
        uint64_t id;

        if (harness_init(&h) != 0)
                skip();
        harness_start(&h, (const char *[]){"--disk-floor=1000T", NULL});
        c = harness_client(&h);
        assert_int_equal(client_open(c, NULL, NULL, &id), 0);
        say_round(c, id, 0, 0, &r);
        assert_int_equal(client_evict(c, id, &v), 0);
        assert_int_equal(v.residency, CONFAB__V1__RESIDENCY__RESIDENCY_COLD);
        assert_true(v.n_not_kept > 0 && v.n_not_kept < v.n_tokens);
        reply_deinit(&r);
        conv_deinit(&v);
        client_free(c);
        harness_stop(&h);
        harness_deinit(&h);
}

/* --- kill -9 --- */

/* Killed while generating, at a different moment each time: what was Done is there, and the next
 * bits are those of a daemon that was never killed. */
static void test_kill(void **state) {
        enum { N_TURNS = 6 };
        static struct reply straight[N_TURNS];
        struct harness h;
        struct client *c;
        uint64_t id;

        if (harness_init(&h) != 0)
                skip();
        harness_start(&h, NULL);
        c = harness_client(&h);
        assert_int_equal(client_open(c, "straight", NULL, &id), 0);
        for (int i = 0; i < N_TURNS; i++)
                say_round(c, id, 4, i, &straight[i]);
        assert_int_equal(client_open(c, "killed", NULL, &id), 0);
        for (int i = 0; i < N_TURNS; i++) {
                struct reply r = {0};
                struct conv v;
                int32_t tokens[N_TOKENS];
                struct say doomed = {
                        .conv = id, .tokens = tokens, .n_tokens = 50, .max_tokens = 500};
                bool accepted = false;
                uint64_t request;

                say_round(c, id, 4, i, &r);
                assert_true(reply_equal(&r, &straight[i]));
                make_tokens(9, i, tokens, 50);
                request = client_say_begin(c, &doomed);
                for (int k = 0; k < i * 7; k++) {
                        struct reply part = {0};

                        assert_int_equal(client_say_next(c, request, &part), 1);
                        accepted = accepted || part.accepted;
                        reply_deinit(&part);
                }
                harness_kill(&h);
                client_free(c);
                harness_start(&h, NULL);
                c = harness_client(&h);
                assert_int_equal(client_get(c, id, false, true, &v), 0);
                if (v.revision != r.revision) { /* what was accepted is kept */
                        assert_int_equal(v.revision, r.revision + 1);
                        assert_int_equal(v.n_turns, 2 * (i + 1) + 1);
                        conv_deinit(&v);
                        assert_int_equal(client_rewind(c, id, 1, &v), 0);
                        conv_deinit(&v);
                        assert_int_equal(client_get(c, id, false, true, &v), 0);
                } else {
                        assert_false(accepted);
                }
                assert_int_equal(v.n_turns, 2 * (i + 1));
                assert_memory_equal(v.tokens + v.n_tokens - r.n, r.tokens, r.n * sizeof(int32_t));
                conv_deinit(&v);
                reply_deinit(&r);
        }
        for (int i = 0; i < N_TURNS; i++)
                reply_deinit(&straight[i]);
        client_free(c);
        harness_stop(&h);
        harness_deinit(&h);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_round_robin),
                cmocka_unit_test(test_damage),
                cmocka_unit_test(test_other_model),
                cmocka_unit_test(test_foreign_file),
                cmocka_unit_test(test_evict_refused),
                cmocka_unit_test(test_kill),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
