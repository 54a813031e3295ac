/* SPDX-License-Identifier: MIT */
/*
 * Every write, sync, truncate and delete on the way through a small history fails once, and the
 * power goes at each of them. A call that failed changed nothing; one that succeeded is there.
 */
#include "../../unit/store/store-fixture.h"
#include "fault-vfs.h"

#define N_STEPS 8

static int run_step(struct store *s, unsigned step, struct err *e) {
        struct store_conv c = {.uid = 1, .name = "a"}, child = {.name = "b"};
        struct store_record links[40] = {};
        struct fingerprint model = {1, 2};
        _cleanup_(store_gone_deinit) struct store_gone gone = {};
        uint64_t revision;

        switch (step) {
        case 0:
                return store_conv_create(s, &c, NULL, 0, NULL, 0, e);
        case 1:
                return fixture_append(s, 1, 1, 3000, "long", e);
        case 2:
                for (uint32_t i = 0; i < 40; i++)
                        links[i] = (struct store_record){.index = i, .n_tokens = 32};
                return store_link(s, 1, &model, links, 40, &gone, e);
        case 3:
                return fixture_append(s, 1, 2, 5, "short", e);
        case 4:
                return store_conv_fork(s, 1, 1, &child, e);
        case 5:
                return store_rewind(s, 1, 0, 32, &revision, &gone, e);
        case 6:
                return fixture_append(s, 2, 1, 70, "branch", e);
        default:
                return store_conv_delete(s, 1, &gone, e);
        }
}

/* One conversation in figures; all 0 if there is none. */
struct extent {
        uint32_t turns, tokens;
        size_t links;
};
struct state {
        struct extent a, b;
        bool has_a, has_b;
        size_t records;
};

static const struct state states[N_STEPS + 1] = {
        {},
        {.has_a = true},
        {.has_a = true, .a = {1, 3000, 0}},
        {.has_a = true, .a = {1, 3000, 40}, .records = 40},
        {.has_a = true, .a = {2, 3005, 40}, .records = 40},
        {.has_a = true, .a = {2, 3005, 40}, .has_b = true, .b = {1, 3000, 40}, .records = 40},
        {.has_a = true, .has_b = true, .b = {1, 3000, 40}, .records = 40},
        {.has_a = true, .has_b = true, .b = {2, 3070, 40}, .records = 40},
        {.has_b = true, .b = {2, 3070, 40}, .records = 40},
};

static bool read_extent(struct store *s, uint64_t id, struct extent *ret) {
        struct store_gone links = {};
        struct store_conv c;
        struct err e;
        int r = store_conv_get(s, 1, id, NULL, &c, &e);

        *ret = (struct extent){};
        if (r == -ERR_NOT_FOUND)
                return false;
        assert_int_equal(r, 0);
        fixture_verify(s, id, c.n_turns, c.n_tokens);
        assert_int_equal(store_links(s, id, &links, &e), 0);
        *ret = (struct extent){c.n_turns, c.n_tokens, links.n};
        store_gone_deinit(&links);
        return true;
}

static bool same_extent(const struct extent *x, const struct extent *y) {
        return x->turns == y->turns && x->tokens == y->tokens && x->links == y->links;
}

/* The register holds exactly what it should after @done steps. */
static bool state_is(struct store *s, unsigned done) {
        const struct state *want = &states[done];
        struct store_gone all = {};
        struct state is = {};
        struct err e;

        is.has_a = read_extent(s, 1, &is.a);
        is.has_b = read_extent(s, 2, &is.b);
        assert_int_equal(store_records(s, &all, &e), 0);
        is.records = all.n;
        store_gone_deinit(&all);
        return is.has_a == want->has_a && is.has_b == want->has_b && is.records == want->records &&
               same_extent(&is.a, &want->a) && same_extent(&is.b, &want->b);
}

static void expect_state(struct store *s, unsigned done) {
        assert_true(state_is(s, done));
}

static void remove_files(const char *path) {
        static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
        char p[160];

        for (size_t i = 0; i < 4; i++) {
                snprintf(p, sizeof(p), "%s%s", path, suffixes[i]);
                unlink(p);
        }
}

/* Run the history until it is through or a step fails for good; returns the steps done. */
static unsigned run_history(const char *path, bool retry) {
        struct store *s = NULL;
        struct err e = {};
        unsigned done = 0;
        int r = store_open(&s, path, &e);

        if (r < 0 && retry && fault_vfs_hit()) {
                assert_true(r == -ERR_SYS);
                r = store_open(&s, path, &e);
                if (r < 0)
                        print_error("%s\n", e.msg);
                assert_int_equal(r, 0);
        }
        while (r == 0 && done < N_STEPS) {
                r = run_step(s, done, &e);
                if (r < 0 && retry && fault_vfs_hit()) {
                        /* It failed once: nothing happened, and it can be asked for again. */
                        if (r != -ERR_SYS)
                                print_error("step %u: %s\n", done, e.msg);
                        assert_int_equal(r, -ERR_SYS);
                        expect_state(s, done);
                        r = run_step(s, done, &e);
                        if (r < 0)
                                print_error("again: %s\n", e.msg);
                        assert_int_equal(r, 0);
                }
                if (r == 0)
                        done++;
        }
        store_free(s);
        return done;
}

static void each_operation_fails(struct fixture *f, bool full) {
        for (long n = 0;; n++) {
                unsigned done;

                remove_files(f->path);
                fault_vfs_clear();
                fault_vfs_arm(n, full, false);
                done = run_history(f->path, true);
                assert_int_equal(done, N_STEPS);
                if (!fault_vfs_hit()) {
                        assert_true(n > 30);
                        break;
                }
                fault_vfs_arm(-1, false, false);
                fixture_open(f);
                expect_state(f->s, N_STEPS);
                f->s = store_free(f->s);
        }
        fault_vfs_arm(-1, false, false);
        fault_vfs_clear();
}

static void test_io_errors(void **state) {
        each_operation_fails(*state, false);
}

static void test_disk_full(void **state) {
        each_operation_fails(*state, true);
}

static void test_disk_stays_full(void **state) {
        struct fixture *f = *state;
        struct store_conv c;

        fixture_open(f);
        for (unsigned i = 0; i < 4; i++)
                assert_int_equal(run_step(f->s, i, &f->e), 0);
        fault_vfs_arm(0, true, true);
        for (unsigned i = 0; i < 3; i++) {
                assert_int_equal(run_step(f->s, 4, &f->e), -ERR_SYS);
                assert_int_equal(f->e.sys, 28);
                assert_int_equal(store_conv_get(f->s, 1, 1, NULL, &c, &f->e), 0);
                expect_state(f->s, 4);
        }
        fault_vfs_arm(-1, false, false);
        for (unsigned i = 4; i < N_STEPS; i++)
                assert_int_equal(run_step(f->s, i, &f->e), 0);
        expect_state(f->s, N_STEPS);
        fault_vfs_clear();
}

/* The machine stops at each operation; what the last sync had not covered is lost, some or all. */
static void power_cuts(struct fixture *f, unsigned keep) {
        for (long n = 0;; n++) {
                unsigned done;
                bool was_hit;

                remove_files(f->path);
                fault_vfs_clear();
                fault_vfs_arm(n, false, true);
                done = run_history(f->path, false);
                was_hit = fault_vfs_hit();
                fault_vfs_arm(-1, false, false);
                fault_vfs_power_cut((uint32_t)n, keep);
                if (!was_hit)
                        break;
                fixture_open(f);
                /* What was acknowledged is there. A commit that failed may have come through whole
                 * (lib/store/store.c, 2), never in part. */
                if (done < N_STEPS && state_is(f->s, done + 1))
                        done++;
                else
                        expect_state(f->s, done);
                for (; done < N_STEPS; done++)
                        assert_int_equal(run_step(f->s, done, &f->e), 0);
                expect_state(f->s, N_STEPS);
                f->s = store_free(f->s);
        }
        fault_vfs_clear();
}

static void test_power_cut_loses_all_unsynced(void **state) {
        power_cuts(*state, 0);
}

static void test_power_cut_keeps_some(void **state) {
        power_cuts(*state, 40);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                store_test_closed(test_io_errors),
                store_test_closed(test_disk_full),
                store_test_closed(test_disk_stays_full),
                store_test_closed(test_power_cut_loses_all_unsynced),
                store_test_closed(test_power_cut_keeps_some),
        };

        if (fault_vfs_install() < 0)
                return 1;
        return cmocka_run_group_tests(tests, NULL, NULL);
}
