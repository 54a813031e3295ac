/* SPDX-License-Identifier: MIT */
/*
 * Shrinking: leave out operations (delta debugging: halves, quarters, ... single ones), then make
 * the numbers small, until nothing more can be done or the time is over. A candidate counts if it
 * fails in the same category. What happens only now and then (threads) is tried several times.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/util.h"
#include "programs.h"

struct shrinking {
        struct program *p;
        struct outcome *o;
        shrink_run *run;
        void *arg;
        unsigned tries;
        uint64_t until;
};

static bool fails(struct shrinking *s, const struct program *p) {
        for (unsigned i = 0; i < s->tries && clock_monotonic_usec() < s->until; i++) {
                struct outcome o;

                if (s->run(s->arg, p, &o) && strcmp(o.category, s->o->category) == 0) {
                        *s->p = *p;
                        *s->o = o;
                        return true;
                }
        }
        return false;
}

/* How often does it show itself? */
static bool measure(struct shrinking *s) {
        unsigned n_failed = 0, n_runs = 0;
        struct program p = *s->p;

        s->tries = 1;
        while (n_runs < 4 || (n_failed == 0 && n_runs < 30)) {
                if (clock_monotonic_usec() >= s->until)
                        break;
                n_runs++;
                n_failed += fails(s, &p);
        }
        if (n_failed < n_runs)
                s->tries = MIN(3 * n_runs / MAX(n_failed, 1u), 20u);
        return n_failed > 0;
}

static bool without(struct shrinking *s, size_t from, size_t n) {
        struct program p = *s->p;

        memmove(p.ops + from, p.ops + from + n, (p.n - from - n) * sizeof(p.ops[0]));
        p.n -= n;
        return fails(s, &p);
}

static bool drop_ops(struct shrinking *s) {
        bool any = false;

        for (size_t n = MAX(s->p->n / 2, (size_t)1);; n /= 2) {
                /* From the end: what comes later depends on what was before. */
                for (size_t end = s->p->n; end > 0;) {
                        size_t from = end > n ? end - n : 0;

                        if (without(s, from, end - from))
                                any = true;
                        end = MIN(from, s->p->n);
                }
                if (n <= 1)
                        return any;
        }
}

/* Smaller, as long as it still fails. */
static bool reduce(struct shrinking *s, struct program *p, uint32_t *number) {
        const uint32_t was = *number, tries[] = {0, 1, was / 2, was - 1};

        if (was == 0)
                return false;
        for (size_t i = 0; i < ARRAY_SIZE(tries); i++) {
                if (tries[i] >= was)
                        continue;
                *number = tries[i];
                if (fails(s, p))
                        return true;
        }
        *number = was;
        return false;
}

static bool reduce_numbers(struct shrinking *s) {
        struct program p = *s->p;
        bool any = false;

        for (size_t i = 0; i < N_OPTS; i++)
                any |= reduce(s, &p, &p.opt[i]);
        for (size_t i = 0; i < p.n; i++) {
                if (p.ops[i].with) {
                        p.ops[i].with = false;
                        if (fails(s, &p))
                                any = true;
                        else
                                p.ops[i].with = true;
                }
                for (size_t a = 0; a < N_ARGS; a++)
                        any |= reduce(s, &p, &p.ops[i].arg[a]);
        }
        return any;
}

bool shrink(struct program *p, struct outcome *o, shrink_run *run, void *arg, unsigned seconds) {
        struct shrinking s = {.p = p,
                .o = o,
                .run = run,
                .arg = arg,
                .until = clock_monotonic_usec() + seconds * (uint64_t)1000000};

        if (!measure(&s))
                return false;
        while (clock_monotonic_usec() < s.until) {
                bool any = drop_ops(&s);

                if (!reduce_numbers(&s) && !any)
                        break;
        }
        return true;
}
