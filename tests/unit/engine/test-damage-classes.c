/* SPDX-License-Identifier: MIT */
/*
 * Damage to memory of several classes: what is computed again, what stays linked, and that the bits are those of
 * memory that never left RAM (I1, I2). A damaged block of full attention takes along what lies behind it; a damaged
 * state or block of a window goes alone, and the memory ends at the last checkpoint that can do without it.
 */
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "class-rig.h"
#include "spill/spill.h"
#include "util/test.h"

/*
 * A first turn of 64 tokens, a text of four, one of N_SECOND, one of N_MORE. There are checkpoints one
 * token before each turn's end, and at the ends of the first turn and of each reply but for its last
 * token:
 *
 *      position          63   64   67   70      110   113
 *      state             62   63   66   69      109   112
 *      window, blocks     1    1  1,2  1,2      2,3     3
 *
 * Without attention there are some more, at the last whole block of each prompt: 32 and 96.
 */
enum {
        N_HEAD = 64,
        N_FIRST = 4,
        BLOCK_HEAD = 64,
        END_FIRST = N_HEAD + N_FIRST + CLASS_REPLY - 1,
        N_MORE = 9
};
enum { N_SECOND = 40, BEFORE_SECOND = END_FIRST + N_SECOND, END_SECOND = BEFORE_SECOND + 3 };

static struct answer A, expected[3];

/* --- a disk that does not read --- */

struct cell_name {
        enum seq_class class;
        uint32_t index;
};
/* Set while the engine does nothing. */
static struct cell_name unreadable[2];
static size_t n_unreadable;
/* One worker reads so few cells. */
static struct spill_item *items;
static size_t n_items;

int __real_spill_load_new(struct spill_load **ret, struct spill *spill, struct spill_item *list,
        size_t n, struct err *e);
int __wrap_spill_load_new(struct spill_load **ret, struct spill *spill, struct spill_item *list,
        size_t n, struct err *e);
int __wrap_spill_load_new(struct spill_load **ret, struct spill *spill, struct spill_item *list,
        size_t n, struct err *e) {
        items = list;
        n_items = n;
        return __real_spill_load_new(ret, spill, list, n, e);
}

static bool is_unreadable(const struct spill_item *it) {
        for (size_t i = 0; i < n_unreadable; i++)
                if (it->meta.class_id == (uint32_t)unreadable[i].class &&
                        it->meta.position == unreadable[i].index)
                        return true;
        return false;
}

int __real_spill_load_read(
        struct spill_load *load, const struct spill_range *ranges, struct err *e);
int __wrap_spill_load_read(
        struct spill_load *load, const struct spill_range *ranges, struct err *e);
int __wrap_spill_load_read(
        struct spill_load *load, const struct spill_range *ranges, struct err *e) {
        int r = __real_spill_load_read(load, ranges, e);

        for (size_t i = 0; i < n_items; i++)
                if (is_unreadable(&items[i])) {
                        memset(items[i].dst, 0, items[i].ref.raw_size);
                        errno = EIO;
                        r = items[i].r = err_set(e, ERR_SYS, "a disk that does not read");
                }
        return r;
}

static int reset(void **state) {
        (void)state;
        n_unreadable = 0;
        return 0;
}

/* --- a conversation --- */

/* Of a conversation that stays in RAM. */
static struct class_text head, texts[3];

static void expect(const struct kind *k, size_t n_second) {
        struct erig r;
        uint64_t c;

        head = class_text(N_HEAD, 4);
        texts[0] = class_text(N_FIRST, 0);
        texts[1] = class_text(n_second, 1);
        texts[2] = class_text(N_MORE, 2);
        kind_open(&r, k, UINT32_MAX);
        c = class_new(&r, &head);
        for (int i = 0; i < 3; i++)
                class_say(&r, c, &texts[i], &expected[i]);
        erig_close(&r);
}

/* The first two texts, and the engine stopped. */
static uint64_t stopped(struct erig *r, const struct kind *k, size_t n_second) {
        uint64_t c;

        expect(k, n_second);
        kind_open(r, k, UINT32_MAX);
        c = class_new(r, &head);
        for (int i = 0; i < 2; i++) {
                class_say(r, c, &texts[i], &A);
                answer_same(&A, &expected[i]);
        }
        erig_stop(r, true);
        return c;
}

/* The next answer, of which @n_disk tokens were read and all others computed. */
static void go_on(struct erig *r, const struct kind *k, uint64_t c, uint32_t n_disk) {
        class_say(r, c, &texts[2], &A);
        answer_same(&A, &expected[2]);
        if (A.n_disk != n_disk || A.n_computed != A.n_prompt - n_disk)
                fail_msg("%s: %u of %u from disk, not %u, %u computed", k->arch, A.n_disk,
                        A.n_prompt, n_disk, A.n_computed);
}

/* Everything that was computed again is on disk again, and good. */
static void check_mended(struct erig *r, uint64_t c) {
        class_check_written(r, c);
        erig_simple(r, ENGINE_CLOSE, c, NULL);
        erig_check_empty(r);
        erig_close(r);
}

/* --- of the end --- */

static void test_end_state(void **state) {
        EACH_KIND(k) {
                struct erig r;
                uint64_t c;

                if (!k->states)
                        continue;
                c = stopped(&r, k, N_SECOND);
                class_damage(&r, c, SEQ_STATE, END_SECOND - 1);
                erig_start(&r);
                /* From the checkpoint before the reply, which has to be read first. */
                go_on(&r, k, c, BEFORE_SECOND);
                assert_int_equal(erig_stat(&r, "restore_failures"), 1);
                check_mended(&r, c);
        }
}

/* Nothing but the state goes from the register. */
static void test_links_beside_a_state(void **state) {
        EACH_KIND(k) {
                struct erig r;
                uint64_t c;

                if (!k->states)
                        continue;
                c = stopped(&r, k, N_SECOND);
                class_damage(&r, c, SEQ_STATE, END_SECOND - 1);
                erig_start(&r);
                class_check_links(&r, c, SEQ_STATE,
                        k->blocks || k->windows ? "62 63 66 69 109" : "31 62 63 66 69 95 109");
                class_check_links(&r, c, SEQ_ALL, k->blocks ? "0 1 2 3" : "");
                class_check_links(&r, c, SEQ_WINDOW, k->windows ? "1 2 3" : "");
                erig_close(&r);
        }
}

static void test_end_window(void **state) {
        EACH_KIND(k) {
                struct erig r;
                uint64_t c;

                if (!k->windows)
                        continue;
                c = stopped(&r, k, N_SECOND);
                class_damage(&r, c, SEQ_WINDOW, 3);
                erig_start(&r);
                /* Both checkpoints of the second text need the block. */
                class_check_links(&r, c, SEQ_WINDOW, "1 2");
                class_check_links(&r, c, SEQ_ALL, k->blocks ? "0 1 2 3" : "");
                erig_restart(&r, false);
                /* Block 2 is all that the window needs at its end. */
                go_on(&r, k, c, k->states ? END_FIRST : 3 * CLASS_BLOCK);
                assert_int_equal(erig_stat(&r, "restore_failures"), 0);
                check_mended(&r, c);
        }
}

/* With so many tokens in the second text, the windows of its checkpoints begin in block 2 and end in block 3. */
enum { N_ACROSS = 32 };

/* The second reply once more, of which so many tokens of memory are read. */
static void reply_again(struct erig *r, const struct kind *k, uint64_t c, uint32_t n_disk) {
        class_regenerate(r, c, &A);
        answer_same(&A, &expected[1]);
        if (A.n_disk != n_disk || A.n_computed != A.n_prompt - n_disk)
                fail_msg("%s: %u of %u from disk, not %u, %u computed", k->arch, A.n_disk,
                        A.n_prompt, n_disk, A.n_computed);
}

/* Both blocks that the window lies in. Both are made once more, and neither record is read again. */
static void test_both_of_a_window(void **state) {
        for (int again = 0; again < 2; again++)
                EACH_KIND(k) {
                        struct erig r;
                        uint64_t c;

                        if (!k->windows)
                                continue;
                        c = stopped(&r, k, N_ACROSS);
                        class_damage(&r, c, SEQ_WINDOW, 2);
                        class_damage(&r, c, SEQ_WINDOW, 3);
                        erig_start(&r);
                        if (again)
                                reply_again(&r, k, c, BLOCK_HEAD);
                        else
                                go_on(&r, k, c, BLOCK_HEAD);
                        check_mended(&r, c);
                }
}

/* The state of a checkpoint, and a block of its window: both are made once more, and read later. */
static void test_window_and_state(void **state) {
        EACH_KIND(k) {
                struct erig r;
                uint64_t c;

                if (!k->windows || !k->states)
                        continue;
                c = stopped(&r, k, N_SECOND);
                class_damage(&r, c, SEQ_WINDOW, 3);
                class_damage(&r, c, SEQ_STATE, BEFORE_SECOND - 1);
                erig_start(&r);
                reply_again(&r, k, c, END_FIRST);
                assert_int_equal(erig_stat(&r, "restore_failures"), 1);
                erig_restart(&r, true);
                reply_again(&r, k, c, BEFORE_SECOND);
                check_mended(&r, c);
        }
}

/* The state at the end, and the one before it to which the memory then falls back. */
static void test_two_states(void **state) {
        EACH_KIND(k) {
                struct erig r;
                uint64_t c;

                if (!k->states)
                        continue;
                c = stopped(&r, k, N_SECOND);
                class_damage(&r, c, SEQ_STATE, END_SECOND - 1);
                class_damage(&r, c, SEQ_STATE, BEFORE_SECOND - 1);
                erig_start(&r);
                go_on(&r, k, c, k->blocks || k->windows ? END_FIRST : 3 * CLASS_BLOCK);
                assert_int_equal(erig_stat(&r, "restore_failures"), 2);
                check_mended(&r, c);
        }
}

/* --- of blocks of full attention --- */

static void test_block(void **state) {
        EACH_KIND(k) {
                struct erig r;
                uint64_t c;

                if (!k->blocks)
                        continue;
                c = stopped(&r, k, N_SECOND);
                class_damage(&r, c, SEQ_ALL, 2);
                erig_start(&r);
                class_check_links(&r, c, SEQ_ALL, "0 1");
                /* What is behind it is of no use, what is before it stays. */
                class_check_links(&r, c, SEQ_STATE, k->states ? "62 63" : "");
                class_check_links(&r, c, SEQ_WINDOW, k->windows ? "1" : "");
                erig_restart(&r, false);
                go_on(&r, k, c, BLOCK_HEAD);
                assert_int_equal(erig_stat(&r, "restore_failures"), 0);
                check_mended(&r, c);
        }
}

/* What lay behind the damage is made once more in the same places, and so written once more. */
static void test_block_before_the_same(void **state) {
        for (int n = 0; n < 2; n++)
                EACH_KIND(k) {
                        struct erig r;
                        uint64_t c;

                        if (!k->blocks)
                                continue;
                        c = stopped(&r, k, n ? N_SECOND : N_ACROSS);
                        class_damage(&r, c, SEQ_ALL, 2);
                        erig_start(&r);
                        reply_again(&r, k, c, BLOCK_HEAD);
                        check_mended(&r, c);
                }
}

/* A block, and before it a block of a window that the place before the first one needs. */
static void test_block_and_window(void **state) {
        EACH_KIND(k) {
                struct erig r;
                uint64_t c;

                if (!k->blocks || !k->windows)
                        continue;
                c = stopped(&r, k, N_ACROSS);
                class_damage(&r, c, SEQ_ALL, 3);
                class_damage(&r, c, SEQ_WINDOW, 2);
                erig_start(&r);
                go_on(&r, k, c, BLOCK_HEAD);
                check_mended(&r, c);
        }
}

/* The same, where the disk fails instead. */
static void test_unreadable(void **state) {
        EACH_KIND(k) {
                struct erig r;
                uint64_t c;

                if (!k->blocks || !k->windows)
                        continue;
                c = stopped(&r, k, N_ACROSS);
                unreadable[0] = (struct cell_name){SEQ_ALL, 3};
                unreadable[1] = (struct cell_name){SEQ_WINDOW, 2};
                n_unreadable = 2;
                erig_start(&r);
                go_on(&r, k, c, BLOCK_HEAD);
                n_unreadable = 0;
                check_mended(&r, c);
        }
}

/* --- a register with less than there was, or with something else --- */

static void test_gap_of_links(void **state) {
        EACH_KIND(k) {
                struct erig r;
                uint64_t c;

                if (!k->blocks)
                        continue;
                c = stopped(&r, k, N_SECOND);
                class_unlink(&r, c, SEQ_ALL, 2, 1);
                erig_start(&r);
                go_on(&r, k, c, BLOCK_HEAD);
                assert_int_equal(erig_stat(&r, "restore_failures"), 0);
                check_mended(&r, c);
        }
}

/* The blocks end where the next cell of another class begins: a state after one token more, a block of the window. */
static void test_links_behind_the_blocks(void **state) {
        EACH_KIND(k) {
                const struct class_text first = class_text(BLOCK_HEAD - 1, 0);
                struct erig r;
                uint64_t c;

                if (!k->blocks)
                        continue;
                kind_open(&r, k, UINT32_MAX);
                c = erig_new(&r, NULL, NULL);
                class_say(&r, c, &first, &A);
                class_say(&r, c, &first, &expected[2]);
                erig_close(&r);

                kind_open(&r, k, UINT32_MAX);
                c = erig_new(&r, NULL, NULL);
                class_say(&r, c, &first, &A);
                erig_stop(&r, true);
                class_unlink(&r, c, SEQ_ALL, 2, 1);
                erig_start(&r);
                texts[2] = first;
                /* The checkpoint before the reply; every place is one where the window is there. */
                go_on(&r, k, c, k->states ? BLOCK_HEAD - 2 : BLOCK_HEAD);
                check_mended(&r, c);
        }
}

static void run_sql(const struct erig *r, const char *text) {
        char path[128], *msg = NULL;
        sqlite3 *db;

        snprintf(path, sizeof(path), "%s/register.db", r->dir);
        assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
        if (sqlite3_exec(db, text, NULL, NULL, &msg) != SQLITE_OK)
                fail_msg("%s: %s", text, msg);
        sqlite3_close(db);
}

/* The register says that memory of another conversation, which has other tokens, is this one's: what @which says. The
 * engine is stopped before and after. */
static void exchange(struct erig *r, uint64_t c, const char *which) {
        const struct class_text other[3] = {
                class_text(N_HEAD, 5), class_text(N_FIRST, 6), class_text(N_SECOND, 7)};
        char sql[512];
        uint64_t d;

        erig_start(r);
        d = class_new(r, &other[0]);
        class_say(r, d, &other[1], &A);
        class_say(r, d, &other[2], &A);
        erig_stop(r, true);
        snprintf(sql, sizeof(sql),
                "UPDATE link SET record = (SELECT o.record FROM link o WHERE o.conversation = %llu"
                " AND o.block = link.block AND o.class = link.class)"
                " WHERE conversation = %llu AND %s;"
                "DELETE FROM record WHERE id NOT IN (SELECT record FROM link)",
                (unsigned long long)d, (unsigned long long)c, which);
        run_sql(r, sql);
        erig_start(r);
        erig_simple(r, ENGINE_CLOSE, d, NULL);
        erig_stop(r, true);
}

/* It is not taken. */
static void test_links_of_another(void **state) {
        EACH_KIND(k) {
                struct erig r;
                uint64_t c = stopped(&r, k, N_SECOND);

                exchange(&r, c, "true");
                erig_start(&r);
                go_on(&r, k, c, 0);
                assert_int_equal(erig_stat(&r, "restore_failures"), 0);
                check_mended(&r, c);
        }
}

/* A block alone. What is behind it is made once more, in the same places, and is there the next time. */
static void test_block_of_another(void **state) {
        EACH_KIND(k) {
                struct erig r;
                uint64_t c;

                if (!k->blocks)
                        continue;
                c = stopped(&r, k, N_ACROSS);
                exchange(&r, c, "class = 0 AND block = 2");
                erig_start(&r);
                reply_again(&r, k, c, BLOCK_HEAD);
                erig_restart(&r, true);
                reply_again(&r, k, c, END_FIRST + N_ACROSS);
                check_mended(&r, c);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_end_state),
                cmocka_unit_test(test_links_beside_a_state),
                cmocka_unit_test(test_end_window),
                cmocka_unit_test(test_both_of_a_window),
                cmocka_unit_test(test_window_and_state),
                cmocka_unit_test(test_two_states),
                cmocka_unit_test(test_block),
                cmocka_unit_test(test_block_before_the_same),
                cmocka_unit_test(test_block_and_window),
                cmocka_unit_test_teardown(test_unreadable, reset),
                cmocka_unit_test(test_gap_of_links),
                cmocka_unit_test(test_links_behind_the_blocks),
                cmocka_unit_test(test_links_of_another),
                cmocka_unit_test(test_block_of_another),
        };

        return cmocka_run_group_tests(tests, kinds_make, kinds_remove);
}
