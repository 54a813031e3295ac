/* SPDX-License-Identifier: MIT */
/*
 * In a small history every write, sync, truncate, delete, open, lock, shared-memory call and read
 * fails once, and the power fails at each of them that changes something. A failed call has changed
 * nothing; the changes of a successful call are there.
 */
#include "../../unit/store/store-fixture.h"
#include "fault-vfs.h"
#include "util/depth.h"
#include <errno.h>

#define N_STEPS 17
/* Of the calls that may fail; a sanitizer looks at the store's own code. */
#define STRIDE ((long)test_depth(11, 3, 1))

/* The longest prefix of b's tokens that is on disk. */
static int find_prefix(struct store *s, struct err *e) {
        struct fingerprint model = {1, 2};
        struct store_prefix p = {};
        uint64_t hashes[8], prev = 0;
        int32_t tokens[256];
        int r;

        for (uint32_t i = 0; i < 256; i++)
                tokens[i] = fixture_token(i);
        for (int i = 0; i < 8; i++)
                prev = hashes[i] = hash64_chain_tokens(tokens + 32 * i, 32, prev);
        r = store_prefix_find(s, 1, &model, 0, &fixture_shape, tokens, hashes, 8, &p, e);
        if (r == 0)
                assert_int_equal(p.n, 8);
        else
                assert_null(p.records[0]);
        store_prefix_deinit(&p);
        return r;
}

static int link_blocks(struct store *s, struct err *e) {
        _cleanup_(store_gone_deinit) struct store_gone gone = {};
        struct store_meter meters[] = {{"day", 3}, {"written", 5}};
        struct store_record links[40] = {};
        struct fingerprint model = {1, 2};
        int32_t tokens[32];
        uint64_t hash = 0;

        for (uint32_t i = 0; i < 40; i++) {
                for (uint32_t k = 0; k < 32; k++)
                        tokens[k] = fixture_token(32 * i + k);
                hash = hash64_chain_tokens(tokens, 32, hash);
                links[i] = (struct store_record){.index = i,
                        .offset = 4096 * i,
                        .stored_size = 4096,
                        .n_tokens = 32,
                        .token_hash = hash};
        }
        return store_link(s, 1, &model, &fixture_shape, links, 40, meters, 2, &gone, e);
}

static int import(struct store *s, struct err *e) {
        struct store_conv c = {.owner = 1, .name = "c", .created_usec = 5, .private_memory = true};
        struct store_turn turns[] = {{.end = 4, .text = "s", .text_size = 1, .created_usec = 6},
                {.role = 1, .start = 4, .end = 1500, .created_usec = 7}};
        int32_t tokens[1500];

        for (uint32_t i = 0; i < 1500; i++)
                tokens[i] = fixture_token(i);
        return store_conv_create(s, &c, turns, 2, tokens, 1500, e);
}

static int reclaim(struct store *s, struct err *e) {
        _cleanup_(store_reclaimed_deinit) struct store_reclaimed got = {};
        int r = store_reclaim(s, 1, 4096 * 10, 0, &got, e);

        if (r == 0) {
                assert_int_equal(got.bytes, 4096 * 10);
                assert_int_equal(got.gone.n, 10);
        } else
                assert_null(got.gone.records);
        return r;
}

/* Conversation 2 gets fewer tokens, of another vocabulary. */
static int carry(struct store *s, struct err *e) {
        static const uint32_t ends[] = {900, 1000};
        _cleanup_(store_gone_deinit) struct store_gone gone = {};
        int32_t tokens[1000];
        struct store_carried x = {.model = {5, 6},
                .vocab = 77,
                .ends = ends,
                .n_turns = 2,
                .tokens = tokens,
                .n_tokens = 1000,
                .gap = {10, 900}};
        uint64_t revision;

        for (uint32_t i = 0; i < 1000; i++)
                tokens[i] = fixture_token(i);
        return store_carry(s, 2, &x, &revision, &gone, e);
}

static const char *const some_tags[] = {"one", "two"};
static const struct about some = {.has = ABOUT_TITLE | ABOUT_TAGS | ABOUT_METADATA,
        .title = "A title",
        .tags = some_tags,
        .n_tags = 2,
        .metadata = "{\"k\": \"a string\"}"};

static int run_step(struct store *s, unsigned step, struct err *e) {
        _cleanup_(store_gone_deinit) struct store_gone gone = {};
        struct store_conv c = {.owner = 1, .name = "a", .about = &some}, child = {.name = "b"};
        struct store_turn last = {.role = 1, .end = 2000, .text = "lo", .text_size = 2};
        struct store_meter meter = {"written", 9};
        uint64_t revision;

        switch (step) {
        case 0:
                return store_conv_create(s, &c, NULL, 0, NULL, 0, e);
        case 1:
                return fixture_append(s, 1, 1, 3000, "long", e);
        case 2:
                return link_blocks(s, e);
        case 3:
                return store_conv_publish(s, 1, 1000, e);
        case 4:
                return fixture_append(s, 1, 2, 5, "short", e);
        case 5:
                return store_conv_fork(s, 1, 1, &last, NULL, &child, e);
        case 6:
                last.end = 100;
                return store_rewind(s, 1, 1, &last, NULL, &revision, &gone, e);
        case 7:
                return fixture_append(s, 2, 1, 70, "branch", e);
        case 8:
                return find_prefix(s, e);
        case 9:
                return reclaim(s, e);
        case 10:
                return import(s, e);
        case 11:
                return store_conv_set_private(s, 3, false, e);
        case 12:
                return store_meter_set(s, &meter, 1, e);
        case 13:
                return store_unlink_from(s, 2, 5 * 32, &gone, e);
        case 14:
                return carry(s, e);
        case 15:
                return store_conv_delete(s, 1, &gone, e);
        default:
                return store_conv_delete(s, 2, &gone, e);
        }
}

/* One conversation in figures; all 0 if there is none. */
struct extent {
        uint32_t turns, tokens;
        size_t links;
        uint32_t published;
        bool private;
        uint64_t vocab;
        uint32_t dropped;
};
struct state {
        bool has[3];
        size_t records;
        int64_t meter;
        struct extent c[3];
};

#define EXTENT(turns, tokens, links, published, private)                                           \
        { turns, tokens, links, published, private, 0, 0 }
#define A(...) .has[0] = true, .c[0] = EXTENT(__VA_ARGS__)
#define B(...) .has[1] = true, .c[1] = EXTENT(__VA_ARGS__)
#define B_CARRIED .has[1] = true, .c[1] = {2, 1000, 0, 0, false, 77, 890}
#define C(...) .has[2] = true, .c[2] = EXTENT(__VA_ARGS__)

static const struct state states[N_STEPS + 1] = {
        {},
        {A(0, 0, 0, 0, false)},
        {A(1, 3000, 0, 0, false)},
        {A(1, 3000, 40, 0, false), .records = 40, .meter = 5},
        {A(1, 3000, 40, 1000, false), .records = 40, .meter = 5},
        {A(2, 3005, 40, 1000, false), .records = 40, .meter = 5},
        {A(2, 3005, 40, 1000, false), B(1, 2000, 40, 0, false), .records = 40, .meter = 5},
        {A(1, 100, 4, 100, false), B(1, 2000, 40, 0, false), .records = 40, .meter = 5},
        {A(1, 100, 4, 100, false), B(2, 2070, 40, 0, false), .records = 40, .meter = 5},
        {A(1, 100, 4, 100, false), B(2, 2070, 40, 0, false), .records = 40, .meter = 5},
        {A(1, 100, 4, 100, false), B(2, 2070, 30, 0, false), .records = 30, .meter = 5},
        {A(1, 100, 4, 100, false), B(2, 2070, 30, 0, false), C(2, 1500, 0, 0, true), .records = 30,
                .meter = 5},
        {A(1, 100, 4, 100, false), B(2, 2070, 30, 0, false), C(2, 1500, 0, 0, false), .records = 30,
                .meter = 5},
        {A(1, 100, 4, 100, false), B(2, 2070, 30, 0, false), C(2, 1500, 0, 0, false), .records = 30,
                .meter = 9},
        {A(1, 100, 4, 100, false), B(2, 2070, 5, 0, false), C(2, 1500, 0, 0, false), .records = 5,
                .meter = 9},
        {A(1, 100, 4, 100, false), B_CARRIED, C(2, 1500, 0, 0, false), .records = 4, .meter = 9},
        {B_CARRIED, C(2, 1500, 0, 0, false), .meter = 9},
        {C(2, 1500, 0, 0, false), .meter = 9},
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
        *ret = (struct extent){c.n_turns, c.n_tokens, links.n, c.n_published, c.private_memory,
                c.vocab, gap_size(&c.gap)};
        store_gone_deinit(&links);
        return true;
}

static bool same_extent(const struct extent *x, const struct extent *y) {
        return x->turns == y->turns && x->tokens == y->tokens && x->links == y->links &&
               x->published == y->published && x->private == y->private && x->vocab == y->vocab &&
               x->dropped == y->dropped;
}

/* The register holds exactly what it should after @done steps. */
static bool state_is(struct store *s, unsigned done) {
        const struct state *want = &states[done];
        struct store_gone all = {};
        struct state is = {};
        struct err e;

        for (int i = 0; i < 3; i++) {
                is.has[i] = read_extent(s, (uint64_t)i + 1, &is.c[i]);
                if (is.has[i] != want->has[i] || !same_extent(&is.c[i], &want->c[i]))
                        return false;
        }
        assert_int_equal(store_records(s, &all, &e), 0);
        is.records = all.n;
        store_gone_deinit(&all);
        assert_int_equal(store_meter_get(s, "written", &is.meter, &e), 0);
        return is.records == want->records && is.meter == want->meter;
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

/* Each operation of a kind fails once; there are more than @least. */
static void each_operation_fails(struct fixture *f, unsigned kinds, bool full, long least) {
        fault_vfs_kinds(kinds);
        for (long n = 0;; n += STRIDE) {
                unsigned done;

                remove_files(f->path);
                fault_vfs_clear();
                fault_vfs_arm(n, full, false);
                done = run_history(f->path, true);
                assert_int_equal(done, N_STEPS);
                if (!fault_vfs_hit()) {
                        assert_true(n > least);
                        break;
                }
                fault_vfs_arm(-1, false, false);
                fixture_open(f);
                expect_state(f->s, N_STEPS);
                fixture_expect_sound(f);
                f->s = store_free(f->s);
        }
        fault_vfs_arm(-1, false, false);
        fault_vfs_kinds(FAULT_VFS_CHANGES);
        fault_vfs_clear();
}

static void test_io_errors(void **state) {
        each_operation_fails(*state, FAULT_VFS_CHANGES, false, 60);
}

static void test_disk_full(void **state) {
        each_operation_fails(*state, FAULT_VFS_CHANGES, true, 60);
}

static void test_open_errors(void **state) {
        each_operation_fails(*state, FAULT_VFS_OPEN, false, 5);
}

static void test_lock_errors(void **state) {
        each_operation_fails(*state, FAULT_VFS_LOCK, false, 5);
}

static void test_shm_errors(void **state) {
        each_operation_fails(*state, FAULT_VFS_SHM, false, 30);
}

static void test_read_errors(void **state) {
        each_operation_fails(*state, FAULT_VFS_READ, false, 30);
}

/* No write comes through any more: every step that changes something says so, what is there can be
 * read, and when the disk takes writes again all goes on. */
static void disk_stays_bad(struct fixture *f, bool full, int sys) {
        struct store_conv c;

        fixture_open(f);
        for (unsigned i = 0; i < N_STEPS; i++) {
                fault_vfs_errno(sys);
                fault_vfs_arm(0, full, true);
                for (unsigned k = 0; k < 2; k++) {
                        int r = run_step(f->s, i, &f->e);

                        if (i == 8) {
                                assert_int_equal(r, 0);
                                continue;
                        }
                        assert_int_equal(r, -ERR_SYS);
                        assert_int_equal(f->e.sys, sys);
                        assert_non_null(strstr(f->e.msg, strerror(sys)));
                        if (states[i].has[0])
                                assert_int_equal(store_conv_get(f->s, 1, 1, NULL, &c, &f->e), 0);
                        expect_state(f->s, i);
                        fixture_expect_sound(f);
                }
                fault_vfs_arm(-1, false, false);
                assert_int_equal(run_step(f->s, i, &f->e), 0);
                expect_state(f->s, i + 1);
        }
        fault_vfs_errno(0);
        fault_vfs_clear();
}

static void test_disk_stays_full(void **state) {
        disk_stays_bad(*state, true, ENOSPC);
}

static void test_disk_becomes_readonly(void **state) {
        disk_stays_bad(*state, false, EROFS);
}

static void test_disk_goes_away(void **state) {
        disk_stays_bad(*state, false, EIO);
}

/* The machine stops at each operation; what the last sync had not covered is lost, some or all. */
static void power_cuts(struct fixture *f, unsigned keep) {
        for (long n = 0;; n += STRIDE) {
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
                 * (lib/store/store.c, 9), never in part. */
                if (done < N_STEPS && state_is(f->s, done + 1))
                        done++;
                else
                        expect_state(f->s, done);
                fixture_expect_sound(f);
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
                store_test_closed(test_open_errors),
                store_test_closed(test_lock_errors),
                store_test_closed(test_shm_errors),
                store_test_closed(test_read_errors),
                store_test_closed(test_disk_stays_full),
                store_test_closed(test_disk_becomes_readonly),
                store_test_closed(test_disk_goes_away),
                store_test_closed(test_power_cut_loses_all_unsynced),
                store_test_closed(test_power_cut_keeps_some),
        };

        if (fault_vfs_install() < 0)
                return 1;
        return cmocka_run_group_tests(tests, NULL, NULL);
}
