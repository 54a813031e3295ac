/* SPDX-License-Identifier: MIT */
#include "base/owner.h"
#include "base/share.h"
#include "util/test.h"
#include <unistd.h>

static uint64_t take_all(struct share *share) {
        uint64_t n = 0;

        while (share_take(share, 1) == 0)
                n++;
        return n;
}

/* One alone gets half, each further one half of what is left, and there is something for the next:
 * little for many, and the last part for root. */
static void test_halves(void **state) {
        enum { N = 40 };
        struct share_pot pot = {.total = 1024};
        struct share users[N], root = {.pot = &pot, .exempt = true};
        uint64_t more = 0;

        for (size_t k = 0; k < N; k++) {
                users[k] = (struct share){.pot = &pot};
                more = take_all(&users[k]);
                if (k < 3)
                        assert_int_equal(more, 512 >> k);
                else if (k < 24)
                        assert_true(more >= 4);
                assert_true(pot.total - pot.used >= 32);
        }
        assert_int_equal(more, 0);
        /* Each that is full stays full while the others keep theirs. */
        for (size_t k = 0; k < N; k++)
                assert_int_equal(share_take(&users[k], 1), 1);
        assert_int_equal(take_all(&root), 32);
        assert_int_equal(pot.peak, 1024);
        share_give(&root, 32);
        for (size_t k = 0; k < N; k++)
                share_give(&users[k], users[k].used);
        assert_int_equal(pot.used, 0);
}

/* With a limit for each user there is no half, but what is kept is kept. */
static void test_max(void **state) {
        struct share_pot pot = {.total = 1024}, small = {.total = 3};
        struct share users[8], one = {.pot = &small, .max = 2}, two = {.pot = &small, .max = 2};

        for (size_t k = 0; k < 4; k++) {
                users[k] = (struct share){.pot = &pot, .max = 256};
                assert_int_equal(take_all(&users[k]), k < 3 ? 256 : 128);
        }
        users[4] = (struct share){.pot = &pot, .max = 256};
        assert_int_equal(take_all(&users[4]), 4);
        assert_int_equal(take_all(&one), 2);
        assert_int_equal(take_all(&two), 1);
}

static void test_exempt(void **state) {
        struct share_pot pot = {.total = 100};
        struct share user = {.pot = &pot}, root = {.pot = &pot, .exempt = true};

        assert_int_equal(take_all(&user), 50);
        assert_int_equal(take_all(&root), 50);
        assert_int_equal(share_take(&root, 0), 0);
        share_give(&root, 10);
        assert_int_equal(share_take(&user, 1), 1);
        assert_int_equal(share_take(&root, 10), 0);
        assert_true(share_exempt(0));
        assert_true(share_exempt(geteuid()));
        assert_false(share_exempt(geteuid() + 1));
        assert_false(share_exempt(owner_make(0, 1)));
        assert_false(share_exempt(owner_make(geteuid(), 1)));
}

/* From one to another nothing is free in between, and the rules hold for who gets it. */
static void test_move(void **state) {
        struct share_pot pot = {.total = 100}, none = {.total = 0};
        struct share a = {.pot = &pot}, b = {.pot = &pot}, root = {.pot = &pot, .exempt = true},
                     c = {.pot = &none}, d = {.pot = &none};

        assert_int_equal(take_all(&a), 50);
        assert_int_equal(take_all(&b), 25);
        assert_int_equal(take_all(&root), 25);
        /* All is taken. What one has can be another's; the pot does not change. */
        assert_true(share_may_move(&root, &a, 0));
        assert_true(share_may_move(&a, &root, 50));
        assert_false(share_may_move(&root, &a, 2));
        share_move(&a, &root, 50);
        assert_int_equal(a.used, 0);
        assert_int_equal(root.used, 75);
        assert_int_equal(pot.used, 100);
        assert_int_equal(pot.peak, 100);
        /* The first one is little; with more of it the rest is root's and others'. */
        assert_false(share_may_move(&b, &a, 20));
        share_give(&root, 70);
        assert_true(share_may_move(&b, &a, 20));
        a.max = 10;
        assert_false(share_may_move(&b, &a, 20));
        /* Nothing can be moved in a pot of nothing, too. */
        assert_true(share_may_move(&c, &d, 0));
        share_move(&c, &d, 0);
}

static void test_shrink(void **state) {
        struct share_pot pot = {.total = 100};
        struct share user = {.pot = &pot}, root = {.pot = &pot, .exempt = true};

        assert_int_equal(share_take(&user, 40), 0);
        pot.total = 30;
        assert_int_equal(share_take(&user, 1), 1);
        assert_int_equal(share_take(&root, 1), 1);
        share_give(&user, 30);
        assert_int_equal(share_take(&root, 20), 0);
        assert_int_equal(share_take(&root, 1), 1);
}

static void test_extremes(void **state) {
        struct share_pot pot = {.total = UINT64_MAX};
        struct share user = {.pot = &pot};

        assert_int_equal(share_take(&user, UINT64_MAX), 1);
        assert_int_equal(share_take(&user, UINT64_MAX / 2), 0);
        assert_int_equal(share_take(&user, UINT64_MAX / 2), 1);
        assert_int_equal(share_take(&user, 1), 1);
        pot = (struct share_pot){};
        user.used = 0;
        assert_int_equal(share_take(&user, 1), 1);
        pot.total = 1;
        assert_int_equal(share_take(&user, 1), 0);
        assert_int_equal(share_take(&user, 1), 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_halves),
                cmocka_unit_test(test_max),
                cmocka_unit_test(test_exempt),
                cmocka_unit_test(test_move),
                cmocka_unit_test(test_shrink),
                cmocka_unit_test(test_extremes),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
