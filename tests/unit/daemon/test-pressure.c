/* SPDX-License-Identifier: MIT */
/* The policy over a clock of our own, alone and in a simulated system; its invariants after every
 * step. */
#include "daemon/pressure.h"
#include "base/util.h"
#include "util/test.h"
#include <string.h>

#define SEC 1000000ull
#define GIB (1ull << 30)
#define START (1000 * SEC)

static void check(const struct pressure *p) {
        assert_true(p->floor <= p->budget && p->budget <= p->ceiling); /* 1 */
        assert_true(p->patience >= PRESSURE_PATIENCE_MIN && p->patience <= PRESSURE_PATIENCE_MAX);
        assert_true(p->n_episodes <= p->n_events);
}

static bool event(struct pressure *p, uint64_t now, uint64_t used) {
        uint64_t before = p->budget;
        bool changed = pressure_event(p, now, used);

        check(p);
        assert_true(p->budget <= before); /* 2 */
        assert_int_equal(changed, p->budget != before);
        return changed;
}

static bool tick(struct pressure *p, uint64_t now) {
        uint64_t before = p->budget, last_event = p->last_event;
        bool changed = pressure_tick(p, now);

        check(p);
        assert_true(p->budget >= before); /* 2 */
        if (changed)
                assert_true(last_event == 0 || now - last_event >= PRESSURE_CALM_USEC); /* 4 */
        return changed;
}

static void test_down_fast(void **state) {
        struct pressure p;
        uint64_t now = START;

        pressure_init(&p, 8 * GIB);
        assert_int_equal(pressure_next(&p), UINT64_MAX);
        assert_false(tick(&p, now));
        /* What is in use counts, not what might be. */
        assert_true(event(&p, now, GIB));
        assert_int_equal(p.budget, GIB * 3 / 4);
        /* 3: what that freed may not have been seen yet */
        assert_false(event(&p, now + SEC / 2, GIB));
        assert_false(event(&p, now + SEC - 1, GIB));
        for (unsigned i = 1; i <= 8; i++)
                event(&p, now + i * SEC, UINT64_MAX);
        assert_int_equal(p.budget, p.floor);
        assert_int_equal(p.floor, 256u << 20);
        assert_int_equal(p.n_episodes, 1);
        assert_int_equal(p.n_events, 11);
        /* Pressure at the floor changes nothing. */
        assert_false(event(&p, now + 20 * SEC, UINT64_MAX));
}

static void test_floor_of_little(void **state) {
        struct pressure p;

        pressure_init(&p, 160);
        for (unsigned i = 0; i < 20; i++)
                event(&p, START + i * SEC, UINT64_MAX);
        assert_int_equal(p.budget, 10);
        for (uint64_t now = START; p.budget < p.ceiling; now += SEC) {
                tick(&p, now);
                assert_true(now < START + 4 * 3600 * SEC);
        }
        pressure_init(&p, 0);
        assert_false(event(&p, START, UINT64_MAX));
        assert_false(tick(&p, START + 3600 * SEC));
}

static void test_up_slowly(void **state) {
        struct pressure p;
        uint64_t now = START, steps = 0, last = 0;

        pressure_init(&p, 8 * GIB);
        event(&p, now, 4 * GIB);
        assert_int_equal(p.budget, 3 * GIB);
        assert_true(p.pressed);
        while (p.budget < p.ceiling) {
                uint64_t before = p.budget, next = pressure_next(&p);

                assert_true(next != UINT64_MAX && next >= now);
                /* Nothing happens before it said so. */
                if (next > now)
                        assert_false(tick(&p, next - 1));
                now = next;
                if (!tick(&p, now))
                        continue;
                steps++;
                assert_false(p.pressed);
                assert_true(p.budget - before <= before / 8);
                assert_true(last == 0 || now - last >= PRESSURE_GROW_USEC);
                last = now;
        }
        /* 6: bounded, but by far not at once */
        assert_true(now - START >= 60 * SEC && now - START <= 3600 * SEC);
        assert_true(steps >= 8);
        assert_int_equal(pressure_next(&p), UINT64_MAX);
}

static void test_calm_is_counted_from_the_last_event(void **state) {
        struct pressure p;
        uint64_t now = START;

        pressure_init(&p, 8 * GIB);
        for (unsigned i = 0; i < 100; i++) {
                event(&p, now, GIB);
                now += PRESSURE_CALM_USEC - 1;
                assert_false(tick(&p, now));
                assert_true(p.pressed);
        }
        assert_int_equal(p.n_episodes, 1);
        assert_false(tick(&p, now + 1) && p.pressed);
        assert_false(p.pressed);
}

static void test_ceiling(void **state) {
        struct pressure p;
        uint64_t now = START;

        pressure_init(&p, 8 * GIB);
        /* 7: noise */
        assert_false(pressure_set_ceiling(&p, 7 * GIB));
        assert_false(pressure_set_ceiling(&p, 9 * GIB));
        assert_int_equal(p.ceiling, 8 * GIB);
        /* Less is at once, more is slow. */
        assert_true(pressure_set_ceiling(&p, 4 * GIB));
        assert_int_equal(p.budget, 4 * GIB);
        check(&p);
        assert_false(pressure_set_ceiling(&p, 6 * GIB));
        assert_int_equal(p.ceiling, 6 * GIB);
        assert_true(tick(&p, now));
        assert_true(p.budget > 4 * GIB && p.budget < 5 * GIB);
        assert_false(tick(&p, now + PRESSURE_GROW_USEC - 1));
        assert_true(tick(&p, now + PRESSURE_GROW_USEC));
        while (p.budget < p.ceiling)
                tick(&p, now += SEC);
        assert_true(now - START < 120 * SEC);
        assert_true(pressure_set_ceiling(&p, 0));
        check(&p);
        assert_int_equal(p.budget, 0);
        assert_true(pressure_set_ceiling(&p, UINT64_MAX));
        check(&p);
        assert_int_equal(p.budget, p.floor);
}

/*
 * A system with room for @room bytes of our memory, and a use that always fills the budget.
 * Pressure is told once in each window of 2 s in which the use is above the room.
 */
struct sim {
        struct pressure p;
        uint64_t now, n_exceeded, n_shrinks;
        bool above;
};

static void run(struct sim *s, uint64_t usec, uint64_t room) {
        for (uint64_t end = s->now + usec; s->now < end; s->now += 2 * SEC) {
                bool above = s->p.budget > room;

                s->n_exceeded += above && !s->above;
                s->above = above;
                if (above)
                        s->n_shrinks += event(&s->p, s->now, s->p.budget);
                tick(&s->p, s->now);
        }
}

static void test_no_oscillation(void **state) {
        static const uint64_t rooms[] = {
                8 * GIB - 1, 7 * GIB, 5 * GIB, 3 * GIB + 12345, 2 * GIB, GIB, 300u << 20};

        for (size_t i = 0; i < ARRAY_SIZE(rooms); i++) {
                struct sim s = {.now = START};
                uint64_t early;

                pressure_init(&s.p, 8 * GIB);
                run(&s, 6 * 3600 * SEC, rooms[i]);
                early = s.n_exceeded;
                run(&s, 18 * 3600 * SEC, rooms[i]);
                /* 5: at most once in each PATIENCE_MAX, after it has learnt */
                print_message("room %llu MiB: %llu times too much in 6 h, %llu in 18 h more\n",
                        (unsigned long long)rooms[i] >> 20, (unsigned long long)early,
                        (unsigned long long)(s.n_exceeded - early));
                assert_true(s.n_exceeded - early <= 18 * 3600 * SEC / PRESSURE_PATIENCE_MAX + 1);
                assert_true(early <= 24);
                /* And most of the room is used. */
                assert_true(s.p.budget >= rooms[i] / 2);
                /* 6: pressure is over for good */
                run(&s, 3 * 3600 * SEC, UINT64_MAX);
                assert_int_equal(s.p.budget, 8 * GIB);
        }
}

/* Somebody else takes and gives back memory, with any period. */
static void test_square_wave(void **state) {
        static const unsigned periods[] = {4, 20, 60, 100, 600, 3600};

        for (size_t i = 0; i < ARRAY_SIZE(periods); i++) {
                struct sim s = {.now = START};
                uint64_t n = 12 * 3600 / periods[i] / 2;

                pressure_init(&s.p, 8 * GIB);
                for (uint64_t k = 0; k < n; k++) {
                        run(&s, periods[i] * SEC, 2 * GIB);
                        assert_true(s.p.budget <= 2 * GIB * 9 / 8 || periods[i] < 10);
                        run(&s, periods[i] * SEC, UINT64_MAX);
                }
                /* A shrink takes an episode, and an episode takes calm before. */
                assert_true(s.p.n_episodes <= 12 * 3600 * SEC / PRESSURE_CALM_USEC + 1);
        }
}

/* Any order of calls with any figures. */
static void test_any_order(void **state) {
        struct pressure p;
        uint64_t now = START, x = 1;

        pressure_init(&p, GIB);
        for (unsigned i = 0; i < 300000; i++) {
                x = x * 6364136223846793005ull + 1442695040888963407ull;
                now += x >> 60 ? (x >> 40) % (30 * SEC) : 0;
                switch (x >> 33 & 7) {
                case 0:
                        event(&p, now, x >> 20);
                        break;
                case 1:
                        pressure_set_ceiling(&p, x >> (20 + (x & 31)));
                        check(&p);
                        break;
                default:
                        tick(&p, now);
                }
                assert_true(pressure_next(&p) != 0);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_down_fast),
                cmocka_unit_test(test_floor_of_little),
                cmocka_unit_test(test_up_slowly),
                cmocka_unit_test(test_calm_is_counted_from_the_last_event),
                cmocka_unit_test(test_ceiling),
                cmocka_unit_test(test_no_oscillation),
                cmocka_unit_test(test_square_wave),
                cmocka_unit_test(test_any_order),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
