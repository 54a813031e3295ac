/* SPDX-License-Identifier: MIT */
/*
 * Coming back to earlier places of a conversation, on small models of each kind of memory: states beside keys
 * and values, states alone, windows beside keys and values, windows and states. Here it is asked how much is
 * computed again, and what is kept for it; that the bits are the same is for the metamorphic programs.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "edit-rig.h"
#include "store/store.h"
#include "util/test.h"
#include "util/tiny-model.h"

enum { MOST_AGAIN = 64 /* tokens of history that a return may compute */ };

/* Of memory/checkpoint.c: checkpoints that any conversation may have, and the part of the cost of its blocks. */
enum { LEAST = 8, SHARE = 4 };
enum { BLOCK = 32, CONTEXT = 4096 };

struct kind {
        const char *arch;
        bool states, windows, blocks;
        char path[64];
};
static struct kind kinds[] = {
        {.arch = "granitehybrid", .states = true, .blocks = true},
        {.arch = "mamba", .states = true},
        {.arch = "gemma3", .windows = true, .blocks = true},
        {.arch = "lfm2-window", .states = true, .windows = true},
};
#define EACH_KIND(k) for (const struct kind *k = kinds; k < kinds + ARRAY_SIZE(kinds); k++)

static struct answer A, B, T;

static void open_kind(struct erig *r, const struct kind *k, uint32_t delay_ms) {
        struct engine_options o = erig_options(32 << 20);

        o.model_path = k->path;
        o.spill_delay_ms = delay_ms;
        erig_open(r, &o);
}

static void close_rig(struct erig *r) {
        erig_check_budget(r);
        assert_int_equal(erig_stat(r, "restore_failures"), 0);
        erig_check_register(r);
        erig_close(r);
}

/* A message and a reply of four tokens. */
static void say(struct erig *r, uint64_t c, unsigned i, struct answer *a) {
        char text[32];
        struct engine_request q;

        snprintf(text, sizeof(text), "Message %u.", i);
        q = erig_long_request(c, text, 4);
        if (erig_do(r, &q, a) != ENGINE_DONE)
                fail_msg("say: %s", a->err.msg);
}

/* A system message and @n messages with replies: turn 2i + 2 is the i-th reply. */
static uint64_t talk(struct erig *r, unsigned n) {
        uint64_t c = erig_new(r, NULL, "Be kind.");

        for (unsigned i = 0; i < n; i++)
                say(r, c, i, &A);
        return c;
}

/* What can be written in the background is written: see tests/fault/crash. */
static void wait_idle(struct erig *r) {
        for (unsigned n_at_rest = 0; n_at_rest < 2;)
                n_at_rest = erig_stat(r, "writebehind_running") > 0 ? 0 : n_at_rest + 1;
}

/* What happens to a conversation before somebody comes back to it. */
enum meanwhile { NOTHING, EVICTED, RESTARTED, KILLED, N_MEANWHILE };

static void let_happen(struct erig *r, uint64_t c, enum meanwhile what) {
        wait_idle(r);
        if (what == EVICTED)
                assert_int_equal(erig_simple(r, ENGINE_EVICT, c, NULL), ENGINE_CONV);
        else if (what != NOTHING)
                erig_restart(r, what == RESTARTED);
}

/* Of the first @n tokens of the prompt so many were computed. */
static uint32_t computed_of(const struct answer *a, uint32_t n) {
        uint32_t kept = a->n_prompt - a->n_computed;

        return n - MIN(n, kept);
}

/* --- coming back to the end --- */

static void regenerate(struct erig *r, uint64_t c, struct answer *a) {
        struct engine_request q;

        erig_get(r, c, &T);
        q = edit_request(c, T.n_turns - 1, "", 4);
        q.ignore_eos = true;
        if (erig_do(r, &q, a) != ENGINE_DONE)
                fail_msg("regenerate: %s", a->err.msg);
}

static void test_regenerate(void **state) {
        EACH_KIND(k)
        for (enum meanwhile what = 0; what < N_MEANWHILE; what++) {
                struct erig r;
                uint64_t c;

                open_kind(&r, k, 0);
                c = talk(&r, 6);
                let_happen(&r, c, what);
                regenerate(&r, c, &B);
                answer_same(&B, &A);
                if (computed_of(&B, B.n_prompt) > MOST_AGAIN)
                        fail_msg("%s, %d: %u of %u computed", k->arch, (int)what, B.n_computed,
                                B.n_prompt);
                /* Nothing was lost, so nothing but what invites the reply is computed. */
                erig_get(&r, c, &T);
                if (what != KILLED)
                        assert_int_equal(computed_of(&B, T.turns[T.n_turns - 2].end), 0);
                close_rig(&r);
        }
}

static void test_return(void **state) {
        EACH_KIND(k)
        for (enum meanwhile what = 0; what < N_MEANWHILE; what++) {
                struct erig r;
                uint32_t n, again;
                uint64_t c;

                open_kind(&r, k, 0);
                c = talk(&r, 6);
                erig_get(&r, c, &T);
                n = T.conv.n_tokens;
                let_happen(&r, c, what);
                say(&r, c, 99, &B);
                again = computed_of(&B, n);
                if (again > MOST_AGAIN || (again > 1 && what != KILLED))
                        fail_msg("%s, %d: %u of %u computed again", k->arch, (int)what, again, n);
                close_rig(&r);
        }
}

/* --- coming back to a turn --- */

/* Goes on with @c, which is now the beginning of the conversation @T that ends at turn @n: what it computes
 * again, beyond a reply's last token. What comes of it is what comes in @fresh, which computes it all. */
static uint32_t go_on(struct erig *r, uint64_t c, unsigned n, struct erig *fresh) {
        const struct engine_turn *last = &T.turns[n - 1];
        uint32_t end = last->end - (last->finish != ENGINE_FINISH_NONE);
        int32_t tokens[512];
        struct engine_request q = {.verb = ENGINE_CONTINUE,
                .input = ENGINE_INPUT_TOKENS,
                .tokens = tokens,
                .max_tokens = 3,
                .ignore_eos = true,
                .want_logprobs = true,
                .sampling = {.has = SAMPLING_TEMPERATURE | SAMPLING_SEED, .seed = 1}};

        memcpy(tokens, T.history, last->end * sizeof(*tokens));
        for (uint32_t i = 0; i < 6; i++)
                tokens[last->end + i] = 290 + (int32_t)(n + i) % 29;
        q.n_tokens = last->end + 6;
        q.conv_id = erig_new(fresh, NULL, NULL);
        assert_int_equal(erig_do(fresh, &q, &B), ENGINE_DONE);
        assert_int_equal(erig_simple(fresh, ENGINE_CLOSE, q.conv_id, NULL), ENGINE_EMPTY);
        q.conv_id = c;
        q.tokens = tokens + last->end;
        q.n_tokens = 6;
        if (erig_do(r, &q, &A) != ENGINE_DONE)
                fail_msg("go on at turn %u: %s", n, A.err.msg);
        answer_same(&A, &B);
        return computed_of(&A, end);
}

static struct engine_request cut_request(enum engine_verb verb, uint64_t c, unsigned at_turn) {
        struct engine_request q = erig_request(verb, c);

        q.at_turn = at_turn;
        return q;
}

/* With as many turns as checkpoints are never thinned out, each end of a turn is one. */
static void test_rewind_to_each(void **state) {
        EACH_KIND(k)
        for (enum meanwhile what = 0; what <= EVICTED; what++) {
                struct erig r, fresh;
                uint64_t c;

                open_kind(&r, k, 0);
                open_kind(&fresh, k, UINT32_MAX);
                c = talk(&r, LEAST / 2 - 1);
                erig_get(&r, c, &T);
                for (unsigned n = T.n_turns - 1; n > 1; n--) {
                        struct engine_request q = cut_request(ENGINE_REWIND, c, n);
                        uint32_t again;

                        let_happen(&r, c, what);
                        assert_int_equal(erig_do(&r, &q, NULL), ENGINE_CONV);
                        again = go_on(&r, c, n, &fresh);
                        if (again > 0)
                                fail_msg("%s, %d: turn %u: %u computed again", k->arch, (int)what,
                                        n, again);
                }
                close_rig(&fresh);
                close_rig(&r);
        }
}

static void test_fork_at_each(void **state) {
        EACH_KIND(k)
        for (enum meanwhile what = 0; what < N_MEANWHILE; what++) {
                struct erig r, fresh;
                uint64_t c;

                open_kind(&r, k, 0);
                open_kind(&fresh, k, UINT32_MAX);
                c = talk(&r, LEAST / 2 - 1);
                erig_get(&r, c, &T);
                let_happen(&r, c, what);
                for (unsigned n = 2; n <= T.n_turns; n++) {
                        struct engine_request q = cut_request(ENGINE_FORK, c, n);
                        uint32_t again;

                        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
                        again = go_on(&r, A.conv.id, n, &fresh);
                        if (again > (what == KILLED && !k->states ? BLOCK : 0))
                                fail_msg("%s, %d: turn %u: %u computed again", k->arch, (int)what,
                                        n, again);
                }
                close_rig(&fresh);
                close_rig(&r);
        }
}

/* With more turns some checkpoints are gone. A return begins at the one before, and says so. */
static void test_rewind_between(void **state) {
        enum { N = 14 };

        EACH_KIND(k) {
                struct erig r, fresh;
                unsigned n_partial = 0;
                uint32_t worst = 0;
                uint64_t c;

                open_kind(&r, k, UINT32_MAX);
                open_kind(&fresh, k, UINT32_MAX);
                c = talk(&r, N);
                erig_get(&r, c, &T);
                for (unsigned n = T.n_turns - 1; n > 1; n--) {
                        struct engine_request q = cut_request(ENGINE_REWIND, c, n);
                        uint32_t again;

                        assert_int_equal(erig_do(&r, &q, NULL), ENGINE_CONV);
                        again = go_on(&r, c, n, &fresh);
                        worst = MAX(worst, again);
                        if (again == 0)
                                continue;
                        n_partial++;
                        assert_int_equal(A.differs_why, ENGINE_DIFFERS_PARTIAL);
                        assert_int_equal(A.differs_at, A.n_prompt - A.n_computed);
                }
                /* Evenly: the checkpoints but the latest two divide what is before them. */
                assert_true(n_partial > 0);
                assert_true(worst <= 2 * T.conv.n_tokens / (LEAST - 2));
                close_rig(&fresh);
                close_rig(&r);
        }
}

/* --- what is kept --- */

/* Of a class of memory: 1 are windows, 2 states. */
static size_t n_links(struct erig *r, uint64_t c, uint32_t class) {
        struct store_gone links = {0};
        struct store *s = NULL;
        char path[128];
        size_t n = 0;

        snprintf(path, sizeof(path), "%s/register.db", r->dir);
        assert_int_equal(store_open_readonly(&s, path, NULL), 0);
        assert_int_equal(store_links(s, c, &links, NULL), 0);
        for (size_t i = 0; i < links.n; i++)
                n += links.records[i].block_class == class;
        store_gone_deinit(&links);
        store_free(s);
        return n;
}

static uint64_t in_pages(uint64_t size) {
        return (size + 4095) / 4096 * 4096;
}

/* Checkpoints cost no more than they may, in RAM and on disk, and what lies behind windows is given back. */
static void check_bounds(struct erig *r, const struct kind *k, uint64_t c) {
        static const char *const names[] = {"pool_blocks", "pool_window_blocks", "pool_states",
                "block_bytes", "window_block_bytes", "state_bytes"};
        uint64_t v[ARRAY_SIZE(names)], most;

        erig_stats(r, names, v, ARRAY_SIZE(names));
        most = v[0] * in_pages(v[3]) / SHARE;
        /* The end is a checkpoint that costs nothing. */
        if (v[2] > LEAST && (v[2] - 1) * in_pages(v[5]) > most)
                fail_msg("%s: %llu states, %llu blocks", k->arch, (unsigned long long)v[2],
                        (unsigned long long)v[0]);
        /* A window of 16 tokens lies in two blocks at most; besides, the end has one. */
        if (v[1] > 2 * LEAST + 2 && v[1] * in_pages(v[4]) > most + 2 * in_pages(v[4]))
                fail_msg("%s: %llu blocks of windows, %llu blocks", k->arch,
                        (unsigned long long)v[1], (unsigned long long)v[0]);
        /* On disk it is the same, but for a tail that is not written yet. */
        assert_int_equal(n_links(r, c, 2), v[2]);
        assert_in_range(n_links(r, c, 1), v[1] - (k->windows && !k->states), v[1]);
}

/* However long a conversation gets. And the latest message and the latest reply are checkpoints always. */
static void test_bounds(void **state) {
        EACH_KIND(k) {
                struct engine_request q;
                struct erig r;
                uint64_t c;

                open_kind(&r, k, 0);
                c = erig_new(&r, NULL, "Be kind.");
                for (unsigned i = 0; i < 18; i++) {
                        q = erig_long_request(c, erig_words(i % 6 * 12, i), 4);
                        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
                        wait_idle(&r);
                        check_bounds(&r, k, c);
                }
                assert_true(A.n_prompt > 3000);
                regenerate(&r, c, &B);
                answer_same(&A, &B);
                erig_get(&r, c, &T);
                assert_int_equal(computed_of(&B, T.turns[T.n_turns - 2].end), 0);
                wait_idle(&r);
                check_bounds(&r, k, c);
                say(&r, c, 0, &B);
                assert_int_equal(computed_of(&B, T.conv.n_tokens - 1), 0);
                close_rig(&r);
        }
}

/* --- others --- */

static uint64_t open_as(struct erig *r, uint32_t uid, const char *system) {
        struct engine_request q = {.verb = ENGINE_OPEN, .uid = uid, .system = system};

        assert_int_equal(erig_do(r, &q, &A), ENGINE_CONV);
        return A.conv.id;
}

static void say_as(struct erig *r, uint32_t uid, uint64_t c, const char *text) {
        struct engine_request q = erig_long_request(c, text, 4);

        q.uid = uid;
        if (erig_do(r, &q, &A) != ENGINE_DONE)
                fail_msg("say: %s", A.err.msg);
}

/* Where two conversations have parted, the third one begins. */
static void test_branch(void **state) {
        const char *system = erig_words(40, 0);

        EACH_KIND(k) {
                uint32_t common;
                struct erig r;

                open_kind(&r, k, UINT32_MAX);
                say_as(&r, 0, open_as(&r, 0, system), "One.");
                say_as(&r, 0, open_as(&r, 0, system), "two and more.");
                assert_int_equal(A.differs_why, ENGINE_DIFFERS_TOKEN);
                common = A.differs_at / BLOCK * BLOCK;
                assert_true(common > 0);
                say_as(&r, 0, open_as(&r, 0, system), "Three.");
                assert_int_equal(A.n_shared, common);
                close_rig(&r);
        }
}

/* What an administrator publishes, before or after it was computed, is for everybody. */
static void test_publish(void **state) {
        const char *system = erig_words(40, 0);

        EACH_KIND(k)
        for (int late = 0; late < 2; late++) {
                struct engine_request q;
                uint32_t common;
                struct erig r;
                uint64_t c;

                open_kind(&r, k, UINT32_MAX);
                c = open_as(&r, 0, system);
                erig_get(&r, c, &T);
                common = T.conv.n_tokens / BLOCK * BLOCK;
                q = erig_request(ENGINE_PUBLISH, c);
                q.admin = q.publish = true;
                q.at_turn = 1;
                if (late)
                        say_as(&r, 0, c, "One.");
                assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
                if (!late)
                        say_as(&r, 0, c, "One.");
                say_as(&r, 5, open_as(&r, 5, system), "two and more.");
                if (A.n_shared != common)
                        fail_msg("%s, late %d: user 5 shares %u of %u", k->arch, late, A.n_shared,
                                common);
                say_as(&r, 6, open_as(&r, 6, system), "Three.");
                if (A.n_shared != common)
                        fail_msg("%s, late %d: user 6 shares %u of %u", k->arch, late, A.n_shared,
                                common);
                close_rig(&r);
        }
}

/* --- room --- */

/* The least pool that has room for a conversation of @n tokens. */
static uint64_t least_pool(const struct kind *k, uint32_t n) {
        uint64_t low = 1, high = 4 << 20;

        while (low < high) {
                struct engine_options o = erig_options((low + high) / 2);
                uint64_t tokens = 0;
                struct erig r = {.next = 1, .silence_msec = 60000};

                o.model_path = k->path;
                r.o = o;
                strcpy(r.dir, "/tmp/confab-test-XXXXXX");
                assert_non_null(mkdtemp(r.dir));
                r.o.state_dir = r.dir;
                if (engine_open(&r.en, &r.o, NULL) == 0) {
                        tokens = erig_stat(&r, "pool_capacity_tokens");
                        erig_close(&r);
                }
                if (tokens >= n)
                        high = o.pool_size;
                else
                        low = o.pool_size + 1;
        }
        return low;
}

/* Checkpoints take no room from the conversation that has them: where both do not fit, they go. */
static void test_pressure(void **state) {
        enum { N = 400 };

        EACH_KIND(k)
        for (int delay = 0; delay < 2; delay++) {
                struct engine_options o = erig_options(least_pool(k, N));
                struct engine_request q;
                struct erig r;
                uint64_t c;

                o.model_path = k->path;
                o.spill_delay_ms = delay ? UINT32_MAX : 0;
                erig_open(&r, &o);
                c = talk(&r, 6);
                wait_idle(&r);
                q = erig_long_request(c, "Go on.", 0);
                erig_get(&r, c, &T);
                q.max_tokens = N - T.conv.n_tokens - 30;
                if (erig_do(&r, &q, &A) != ENGINE_DONE)
                        fail_msg("%s: %s", k->arch, A.err.msg);
                assert_int_equal(A.n_tokens, q.max_tokens);
                /* What was on disk is there still. */
                regenerate(&r, c, &B);
                assert_int_equal(B.n_tokens, 4);
                if (!delay && computed_of(&B, B.n_prompt) > MOST_AGAIN)
                        fail_msg("%s: %u of %u computed", k->arch, B.n_computed, B.n_prompt);
                close_rig(&r);
        }
}

/* --- an edit that is taken back --- */

static void test_undone(void **state) {
        EACH_KIND(k) {
                struct engine_request q;
                struct erig r;
                uint32_t end;
                uint64_t c;

                open_kind(&r, k, 0);
                c = talk(&r, 3);
                B = A;
                erig_get(&r, c, &T);
                end = T.conv.n_tokens;
                wait_idle(&r);
                q = edit_request(c, 3, erig_words(30, 1), 12);
                edit_send_and_hold(&r, &q, 0, &A);
                engine_cancel(r.en, q.handle);
                gate_open(&edit_step_gate);
                erig_wait(&r, &A);
                assert_int_equal(A.kind, ENGINE_ERROR);
                edit_check_as_before(&r, c, &T);
                regenerate(&r, c, &A);
                answer_same(&A, &B);
                assert_int_equal(computed_of(&A, T.turns[T.n_turns - 2].end), 0);
                say(&r, c, 9, &A);
                assert_int_equal(computed_of(&A, end - 1), 0);
                close_rig(&r);
        }
}

static int make_models(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
                strcpy(kinds[i].path, "/tmp/confab-kind-XXXXXX");
                close(mkstemp(kinds[i].path));
                if (tiny_model_write_long(kinds[i].path, kinds[i].arch, CONTEXT) < 0)
                        return -1;
        }
        return 0;
}

static int remove_models(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
                unlink(kinds[i].path);
        return 0;
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_regenerate),
                cmocka_unit_test(test_return),
                cmocka_unit_test(test_rewind_to_each),
                cmocka_unit_test(test_fork_at_each),
                cmocka_unit_test(test_rewind_between),
                cmocka_unit_test(test_bounds),
                cmocka_unit_test(test_branch),
                cmocka_unit_test(test_publish),
                cmocka_unit_test(test_pressure),
                cmocka_unit_test(test_undone),
        };

        return cmocka_run_group_tests(tests, make_models, remove_models);
}
