/* SPDX-License-Identifier: MIT */
/* The policy over a clock of our own, alone and in a simulated system; its invariants after every
 * step. */
#include "daemon/pressure.h"
#include "base/util.h"
#include "util/test.h"
#include <string.h>

#define SEC 1000000ull
#define MIB (1ull << 20)
#define GIB (1ull << 30)
#define START (1000 * SEC)

static void check(const struct pressure *p) {
        assert_true(p->budget <= p->ceiling); /* 1 */
        assert_true(p->patience >= PRESSURE_CALM_USEC && p->patience <= PRESSURE_PATIENCE_MOST);
        assert_true(p->n_episodes <= p->n_events);
}

static bool event(struct pressure *p, uint64_t now, uint64_t used, uint64_t idle) {
        uint64_t before = p->budget, last_shrink = p->last_shrink;
        bool changed = pressure_event(p, now, used, idle);

        check(p);
        assert_true(p->budget <= before);
        assert_int_equal(changed, p->budget != before);
        if (changed) {
                idle = MIN(idle, used);
                /* 2 */
                assert_true(p->budget >= used - idle);
                assert_true(used - p->budget <= MAX(idle / 8, MIB));
                assert_true(!last_shrink || now - last_shrink >= PRESSURE_STEP_USEC); /* 3 */
        }
        return changed;
}

static bool tick(struct pressure *p, uint64_t now, bool scarce) {
        uint64_t before = p->budget, last_event = p->last_event;
        bool changed = pressure_tick(p, now, scarce);

        check(p);
        assert_true(p->budget >= before);
        assert_int_equal(changed, p->budget != before);
        if (changed) {
                assert_false(scarce);
                assert_true(last_event == 0 || now - last_event >= p->patience); /* 4 */
                assert_true(p->budget - before <= MAX(p->ceiling / 8, 1ull));
        }
        return changed;
}

/* An event of a daemon without idle memory changes nothing, however often it comes. */
static void test_nothing_idle(void **state) {
        struct pressure p;

        (void)state;
        pressure_init(&p, 17 * GIB);
        assert_int_equal(pressure_next(&p), UINT64_MAX);
        for (unsigned i = 0; i < 100; i++)
                assert_false(event(&p, START + i * SEC, 800 * MIB, 0));
        assert_int_equal(p.budget, 17 * GIB);
        assert_int_equal(p.n_episodes, 1);
        assert_int_equal(p.n_events, 100);
        assert_true(pressure_next(&p) != UINT64_MAX);
}

/* Step by step, an eighth of what is idle each, and never what is in use. */
static void test_steps(void **state) {
        uint64_t used = 4 * GIB, busy = GIB;
        struct pressure p;

        (void)state;
        pressure_init(&p, 8 * GIB);
        for (unsigned i = 0; i < 200; i++) {
                uint64_t now = START + i * SEC, idle = used - busy;

                assert_int_equal(event(&p, now, used, idle), idle > 0);
                /* 3: what it freed may not have been seen yet */
                assert_false(event(&p, now + SEC - 1, used, idle));
                assert_false(event(&p, now + SEC - 1, p.budget, p.budget - busy));
                if (i == 0)
                        assert_int_equal(p.budget, 4 * GIB - 3 * GIB / 8);
                used = p.budget;
        }
        assert_int_equal(p.budget, busy);
        assert_int_equal(p.n_episodes, 1);
}

/* Whatever it was, some seconds after pressure has ended all is as before. */
static void test_back_within_seconds(void **state) {
        struct pressure p;
        uint64_t now = START;

        (void)state;
        pressure_init(&p, 8 * GIB);
        for (unsigned i = 0; i < 30; i++)
                event(&p, now += SEC, 3 * GIB >> i, 3 * GIB >> i);
        assert_true(p.budget < MIB);
        assert_true(p.pressed);
        while (p.budget < p.ceiling) {
                uint64_t next = pressure_next(&p);

                assert_true(next != UINT64_MAX && next >= now);
                /* Nothing happens before it said so. */
                if (next > now)
                        assert_false(tick(&p, next - 1, false));
                now = next;
                tick(&p, now, false);
                assert_false(p.pressed);
                assert_true(now - START <= 30 * SEC + 13 * SEC);
        }
        assert_int_equal(pressure_next(&p), UINT64_MAX);
        pressure_init(&p, 0);
        assert_false(event(&p, START, 0, 0));
        assert_false(tick(&p, START + 3600 * SEC, false));
}

/* Not while memory is short, told or not. */
static void test_scarce(void **state) {
        struct pressure p;
        uint64_t now = START;

        (void)state;
        pressure_init(&p, GIB);
        event(&p, now, GIB, GIB);
        for (unsigned i = 0; i < 50; i++)
                assert_false(tick(&p, now += SEC, true));
        assert_false(p.pressed);
        assert_true(pressure_next(&p) > now && pressure_next(&p) <= now + SEC);
        assert_true(tick(&p, now += SEC, false));
        /* That it could not grow is nothing to regret. */
        pressure_init(&p, GIB);
        event(&p, START, GIB, GIB);
        assert_false(tick(&p, START + 5 * SEC, true));
        event(&p, START + 6 * SEC, GIB, GIB);
        assert_int_equal(p.patience, PRESSURE_CALM_USEC);
}

static void test_calm_is_counted_from_the_last_event(void **state) {
        struct pressure p;
        uint64_t now = START;

        (void)state;
        pressure_init(&p, 8 * GIB);
        for (unsigned i = 0; i < 100; i++) {
                event(&p, now, GIB, GIB);
                now += PRESSURE_CALM_USEC - 1;
                assert_false(tick(&p, now, false));
                assert_true(p.pressed);
        }
        assert_int_equal(p.n_episodes, 1);
        assert_true(tick(&p, now + 1, false));
        assert_false(p.pressed);
}

static void test_ceiling(void **state) {
        struct pressure p;
        uint64_t now = START;

        (void)state;
        pressure_init(&p, 8 * GIB);
        /* 6: noise */
        assert_false(pressure_set_ceiling(&p, 7 * GIB));
        assert_false(pressure_set_ceiling(&p, 9 * GIB));
        assert_int_equal(p.ceiling, 8 * GIB);
        /* Less is at once, more in steps. */
        assert_true(pressure_set_ceiling(&p, 4 * GIB));
        assert_int_equal(p.budget, 4 * GIB);
        check(&p);
        assert_false(pressure_set_ceiling(&p, 6 * GIB));
        assert_int_equal(p.ceiling, 6 * GIB);
        assert_true(tick(&p, now, false));
        assert_int_equal(p.budget, 4 * GIB + 6 * GIB / 8);
        assert_false(tick(&p, now + PRESSURE_GROW_USEC - 1, false));
        assert_true(tick(&p, now + PRESSURE_GROW_USEC, false));
        while (p.budget < p.ceiling)
                tick(&p, now += SEC, false);
        assert_true(now - START < 12 * SEC);
        assert_true(pressure_set_ceiling(&p, 0));
        check(&p);
        assert_int_equal(p.budget, 0);
        assert_false(pressure_set_ceiling(&p, UINT64_MAX));
        check(&p);
}

/*
 * A system with room for @room bytes of our memory, and idle memory that always fills the budget.
 * Pressure is told each second in which there is more than the room.
 */
struct sim {
        struct pressure p;
        uint64_t now, n_exceeded;
        bool above;
};

static void run(struct sim *s, uint64_t usec, uint64_t room) {
        for (uint64_t end = s->now + usec; s->now < end; s->now += SEC) {
                bool above = s->p.budget > room;

                s->n_exceeded += above && !s->above;
                s->above = above;
                if (above)
                        event(&s->p, s->now, s->p.budget, s->p.budget);
                tick(&s->p, s->now, false);
        }
}

static void test_no_oscillation(void **state) {
        static const uint64_t rooms[] = {
                8 * GIB - 1, 7 * GIB, 5 * GIB, 3 * GIB + 12345, 2 * GIB, GIB, 300 * MIB};

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(rooms); i++) {
                struct sim s = {.now = START};

                pressure_init(&s.p, 8 * GIB);
                run(&s, 3600 * SEC, rooms[i]);
                print_message("room %llu MiB: %llu times too much in an hour\n",
                        (unsigned long long)(rooms[i] >> 20), (unsigned long long)s.n_exceeded);
                /* 5 */
                assert_true(s.n_exceeded <= 3600 * SEC / PRESSURE_PATIENCE_MOST + 6);
                /* And pressure is over for good. */
                run(&s, PRESSURE_PATIENCE_MOST + 10 * SEC, UINT64_MAX);
                assert_int_equal(s.p.budget, 8 * GIB);
        }
}

/* Any order of calls with any figures. */
static void test_any_order(void **state) {
        struct pressure p;
        uint64_t now = START, x = 1;

        (void)state;
        pressure_init(&p, GIB);
        for (unsigned i = 0; i < 300000; i++) {
                x = x * 6364136223846793005ull + 1442695040888963407ull;
                now += x >> 60 ? (x >> 40) % (3 * SEC) : 0;
                switch (x >> 33 & 7) {
                case 0:
                        event(&p, now, x >> 20, x >> (18 + (x & 15)));
                        break;
                case 1:
                        pressure_set_ceiling(&p, x >> (20 + (x & 31)));
                        check(&p);
                        break;
                default:
                        tick(&p, now, (x & 3) == 0);
                }
                assert_true(pressure_next(&p) != 0);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_nothing_idle),
                cmocka_unit_test(test_steps),
                cmocka_unit_test(test_back_within_seconds),
                cmocka_unit_test(test_scarce),
                cmocka_unit_test(test_calm_is_counted_from_the_last_event),
                cmocka_unit_test(test_ceiling),
                cmocka_unit_test(test_no_oscillation),
                cmocka_unit_test(test_any_order),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
