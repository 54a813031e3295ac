/* SPDX-License-Identifier: MIT */
/*
 * Memory of several classes that other conversations have of the same tokens, on disk: just what the end needs of it is
 * read, it is told where each part came from, and what proves damaged takes nothing of the own memory along. And
 * whether reading pays.
 */
#include <string.h>

#include "base/util.h"
#include "class-rig.h"
#include "inside.h"
#include "util/test.h"

static struct answer A, expected;

/* The texts, one after the other, in an engine of its own: the last answer. */
static void expect(const struct kind *k, const struct class_text *head,
        const struct class_text *list, size_t n) {
        struct erig r;
        uint64_t c;

        kind_open(&r, k, UINT32_MAX);
        c = head ? class_new(&r, head) : erig_new(&r, NULL, NULL);
        for (size_t i = 0; i < n; i++)
                class_say(&r, c, &list[i], &expected);
        erig_close(&r);
}

static void check_sources(
        const struct kind *k, uint32_t n_ram, uint32_t n_shared, uint32_t n_disk) {
        answer_same(&A, &expected);
        if (A.n_ram != n_ram || A.n_shared != n_shared || A.n_disk != n_disk)
                fail_msg("%s: of %u tokens %u from RAM, %u shared, %u from disk; not %u, %u, %u",
                        k->arch, A.n_prompt, A.n_ram, A.n_shared, A.n_disk, n_ram, n_shared,
                        n_disk);
}

/* Afterwards everything is written, and can be read. */
static void check_afterwards(struct erig *r, uint64_t c) {
        class_check_written(r, c);
        erig_check_budget(r);
        erig_close(r);
}

/* --- the prefix of two others --- */

/* Two conversations have 164 tokens in common, and met at the end of the last block. */
enum { N_COMMON = 164, COMMON = N_COMMON / CLASS_BLOCK * CLASS_BLOCK };

static void talk_in_common(struct erig *r, size_t n, int32_t salt, uint64_t ret[2]) {
        const struct class_text common = class_text(N_COMMON, 0);

        for (int32_t i = 0; i < 2; i++) {
                const struct class_text own = class_text(40 + 9 * (size_t)i, salt + i);
                const struct class_text t = class_join(&common, n, &own);

                ret[i] = erig_new(r, NULL, NULL);
                class_say(r, ret[i], &t, &A);
        }
        assert_int_equal(A.differs_why, ENGINE_DIFFERS_TOKEN);
}

static struct class_text third_text(void) {
        const struct class_text common = class_text(N_COMMON, 0), own = class_text(60, 7);

        return class_join(&common, N_COMMON, &own);
}

/* Reads just what position COMMON needs. */
static void test_third(void **state) {
        const struct class_text third = third_text();

        for (int restart = 0; restart < 2; restart++)
                EACH_KIND(k) {
                        uint64_t c[2], d, n_cells;
                        struct erig r;

                        expect(k, NULL, &third, 1);
                        kind_open(&r, k, UINT32_MAX);
                        talk_in_common(&r, N_COMMON, 1, c);
                        class_evict(&r, c[0]);
                        class_evict(&r, c[1]);
                        if (restart)
                                erig_restart(&r, true);
                        d = erig_new(&r, NULL, NULL);
                        class_say(&r, d, &third, &A);
                        check_sources(k, 0, 0, COMMON);
                        if (A.differs_why != ENGINE_DIFFERS_TOKEN || A.differs_at != N_COMMON)
                                fail_msg("%s, %d: differs at %u, %d", k->arch, restart,
                                        A.differs_at, (int)A.differs_why);
                        n_cells = (k->blocks ? COMMON / CLASS_BLOCK : 0) + k->windows + k->states;
                        assert_int_equal(erig_stat(&r, "blocks_restored"), n_cells);
                        assert_int_equal(erig_stat(&r, "restore_failures"), 0);
                        check_afterwards(&r, d);
                }
}

/* The second of three comes after a restart. The first has no memory of a place where it could begin, but it
 * tells where they part: there the third one begins. */
static void test_second_after_restart(void **state) {
        const struct class_text third = third_text();

        EACH_KIND(k) {
                uint64_t c;
                struct erig r;

                if (!k->blocks)
                        continue; /* nothing of the first one's is known by its tokens */
                expect(k, NULL, &third, 1);
                kind_open(&r, k, UINT32_MAX);
                for (int32_t i = 0; i < 2; i++) {
                        const struct class_text common = class_text(N_COMMON, 0);
                        const struct class_text own = class_text(90, 3 + i);
                        const struct class_text t = class_join(&common, N_COMMON, &own);

                        c = erig_new(&r, NULL, NULL);
                        class_say(&r, c, &t, &A);
                        if (i == 1 &&
                                (A.differs_why != ENGINE_DIFFERS_TOKEN || A.differs_at != N_COMMON))
                                fail_msg("%s: differs at %u, %d", k->arch, A.differs_at,
                                        (int)A.differs_why);
                        erig_restart(&r, true);
                }
                c = erig_new(&r, NULL, NULL);
                class_say(&r, c, &third, &A);
                check_sources(k, 0, 0, COMMON);
                check_afterwards(&r, c);
        }
}

/* The beginning is in RAM, of conversations that part from the others after 70 tokens. */
static void test_third_beside_ram(void **state) {
        enum { N_RAM = 70, RAM = N_RAM / CLASS_BLOCK * CLASS_BLOCK };
        const struct class_text third = third_text();

        EACH_KIND(k) {
                uint64_t c[2], d, n_cells;
                struct erig r;

                expect(k, NULL, &third, 1);
                kind_open(&r, k, UINT32_MAX);
                talk_in_common(&r, N_COMMON, 1, c);
                erig_restart(&r, true);
                talk_in_common(&r, N_RAM, 4, c);
                n_cells = erig_stat(&r, "blocks_restored");
                d = erig_new(&r, NULL, NULL);
                class_say(&r, d, &third, &A);
                /* Without blocks that see everything nothing stays of what the state in RAM was taken for. */
                check_sources(k, 0, k->blocks ? RAM : 0, COMMON - (k->blocks ? RAM : 0));
                n_cells = erig_stat(&r, "blocks_restored") - n_cells;
                assert_int_equal(n_cells,
                        (k->blocks ? (COMMON - RAM) / CLASS_BLOCK : 0) + k->windows + k->states);
                check_afterwards(&r, d);
        }
}

/* --- behind the own end --- */

/* A conversation of 70 tokens of memory, and two forks that go on with a text of which the first 95 tokens are
 * also what the conversation is told next. The forks are on disk, it is in RAM. */
enum { N_HEAD = 64, N_FIRST = 4, END = 70, N_NEXT = 100, N_EQUAL = 95 };

/* Where the forks met: after the last block that they share. Windows alone do not show that far. */
static uint32_t met(const struct kind *k) {
        return k->windows && !k->blocks ? 96 : 160;
}

struct forked {
        struct class_text next;
        uint64_t c, donor;
};

static void fork_and_evict(struct erig *r, const struct kind *k, struct forked *f) {
        const struct class_text head = class_text(N_HEAD, 0);
        const struct class_text texts[2] = {class_text(N_FIRST, 1), class_text(N_NEXT, 2)};
        uint64_t first;

        expect(k, &head, texts, 2);
        f->next = texts[1];
        kind_open(r, k, UINT32_MAX);
        f->c = class_new(r, &head);
        class_say(r, f->c, &texts[0], &A);
        f->donor = 0;
        for (int32_t i = 0; i < 2; i++) {
                const struct class_text own = class_text(12, 5 + i);
                const struct class_text t = class_join(&f->next, N_EQUAL, &own);

                first = f->donor;
                f->donor = erig_fork(r, f->c);
                class_say(r, f->donor, &t, &A);
        }
        class_evict(r, first);
        class_evict(r, f->donor);
}

static void test_behind_the_end(void **state) {
        EACH_KIND(k) {
                struct forked f;
                struct erig r;
                uint32_t own = k->blocks ? END / CLASS_BLOCK * CLASS_BLOCK : 0;

                fork_and_evict(&r, k, &f);
                class_say(&r, f.c, &f.next, &A);
                check_sources(k, own, 0, met(k) - own);
                check_afterwards(&r, f.c);
        }
}

enum place { NONE, TAIL, MIDDLE, LAST };
struct damage {
        enum place of[SEQ_N_CLASSES];
};

/* Of states and windows only the last one before the place is read. */
static void do_damage(const struct erig *r, const struct kind *k, const struct forked *f,
        const struct damage *d) {
        uint32_t last = met(k) / CLASS_BLOCK - 1;
        const uint32_t blocks[] = {[TAIL] = END / CLASS_BLOCK, [MIDDLE] = last - 1, [LAST] = last};

        if (d->of[SEQ_ALL])
                class_damage(r, f->donor, SEQ_ALL, blocks[d->of[SEQ_ALL]]);
        if (d->of[SEQ_WINDOW])
                class_damage(r, f->donor, SEQ_WINDOW, last);
        if (d->of[SEQ_STATE])
                class_damage(r, f->donor, SEQ_STATE, met(k) - 1);
}

/* Whatever of it is damaged, and be it the block that the own end lies in: the own memory is of use as before. */
static void test_damaged_behind_the_end(void **state) {
        static const struct damage list[] = {
                {{[SEQ_ALL] = TAIL}},
                {{[SEQ_ALL] = MIDDLE}},
                {{[SEQ_WINDOW] = LAST}},
                {{[SEQ_STATE] = LAST}},
                {{[SEQ_ALL] = LAST, [SEQ_WINDOW] = LAST}},
                {{[SEQ_ALL] = TAIL, [SEQ_STATE] = LAST}},
                {{[SEQ_WINDOW] = LAST, [SEQ_STATE] = LAST}},
        };

        EACH_KIND(k)
        for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
                const enum place *of = list[i].of;
                struct forked f;
                struct erig r;

                if ((of[SEQ_ALL] && !k->blocks) || (of[SEQ_WINDOW] && !k->windows) ||
                        (of[SEQ_STATE] && !k->states))
                        continue;
                fork_and_evict(&r, k, &f);
                do_damage(&r, k, &f, &list[i]);
                class_say(&r, f.c, &f.next, &A);
                check_sources(k, END, 0, 0);
                assert_int_equal(erig_stat(&r, "restore_failures"), 1);
                check_afterwards(&r, f.c);
        }
}

/* --- does it pay? --- */

/* Reading may take twice as long as computing what would have to be computed instead: with a state that is on
 * disk, that is everything. */
static void test_pays(void **state) {
        enum { N_MORE = 9, BLOCKS = 3 };
        const struct class_text head = class_text(N_HEAD, 0);
        const struct class_text texts[2] = {class_text(N_FIRST, 1), class_text(N_MORE, 2)};

        for (int pays = 0; pays < 2; pays++)
                EACH_KIND(k) {
                        struct erig r;
                        double size;
                        uint64_t c;

                        expect(k, &head, texts, 2);
                        kind_open(&r, k, UINT32_MAX);
                        c = class_new(&r, &head);
                        class_say(&r, c, &texts[0], &A);
                        class_evict(&r, c);
                        /* The window of 16 tokens begins in block 1. */
                        size = BLOCKS * (double)erig_stat(&r, "block_bytes") * k->blocks +
                               2 * (double)erig_stat(&r, "window_block_bytes") +
                               (double)erig_stat(&r, "state_bytes");
                        inside_set_disk_cost(r.en, 2 * END / size * (pays ? 0.95 : 1.05));
                        class_say(&r, c, &texts[1], &A);
                        check_sources(k, 0, 0, pays ? END : 0);
                        assert_int_equal(erig_stat(&r, "restores_skipped"), !pays);
                        check_afterwards(&r, c);
                }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_third),
                cmocka_unit_test(test_second_after_restart),
                cmocka_unit_test(test_third_beside_ram),
                cmocka_unit_test(test_behind_the_end),
                cmocka_unit_test(test_damaged_behind_the_end),
                cmocka_unit_test(test_pays),
        };

        return cmocka_run_group_tests(tests, kinds_make, kinds_remove);
}
