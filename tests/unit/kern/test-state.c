/* SPDX-License-Identifier: MIT */
/*
 * Recurrence with a matrix for each head: equal bits from every instruction set and number of threads,
 * and however the tokens are cut into runs; close to the formulas in double; nothing but the layer's part
 * of the next state is written.
 */
#include "kern-util.h"

#define N_KERN (2 * KERN_N_ISA)
#define N_TOKENS 11
#define GUARD 16 /* floats before and behind the layer's part of a state */

enum rule { DELTA, DELTA_KEYS, DELTA_INTERLEAVED, WKV6, WKV7, N_RULES };

struct shape {
        size_t n_head, n_key, n_value;
};
/* Values below, at and above a register and a panel, with and without a rest; several panels. */
static const struct shape shapes[] = {{1, 1, 1}, {2, 3, 5}, {4, 16, 16}, {2, 33, 17}, {2, 8, 63},
        {2, 64, 64}, {4, 128, 128}, {2, 20, 96}, {2, 5, 130}, {2, 17, 67}, {2, 40, 24},
        {2, KERN_STATE_KEYS, 4}};
#define N_SHAPES (sizeof(shapes) / sizeof(shapes[0]))

struct data {
        struct kern *ks[N_KERN]; /* instruction set i with 1 and 3 threads */
};

/* Rows of N_TOKENS; every width is that of n_head * max(n_key, n_value) floats or less. */
struct input {
        enum rule rule;
        struct shape s;
        size_t n_key_head, width, state_size; /* floats */
        float *q, *k, *v, *w, *beta, *u, *kk, *a;
        float *state;
};

struct output {
        float *out, *state; /* the state with its guards */
};

static struct input input_new(enum rule rule, const struct shape *shape, uint64_t seed) {
        struct input x = {.rule = rule, .s = *shape};
        size_t n;

        if (rule >= WKV6)
                x.s.n_value = x.s.n_key;
        x.n_key_head = rule == DELTA_KEYS || x.s.n_head % 2 ? x.s.n_head : x.s.n_head / 2;
        x.width = x.s.n_head * (x.s.n_key > x.s.n_value ? x.s.n_key : x.s.n_value);
        x.state_size = x.s.n_head * x.s.n_key * x.s.n_value;
        n = N_TOKENS * x.width;
        x.q = test_floats(&seed, n, 0.6f);
        x.k = test_floats(&seed, n, 0.6f);
        x.v = test_floats(&seed, n, 2);
        x.w = test_floats(&seed, n, 0.5f);
        x.beta = test_floats(&seed, n, 0.5f);
        x.u = test_floats(&seed, x.width, 1);
        x.kk = test_floats(&seed, n, 0.3f);
        x.a = test_floats(&seed, n, 1);
        for (size_t i = 0; i < n; i++) {
                x.w[i] += 0.5f;
                x.beta[i] += 0.5f;
        }
        x.state = test_floats(&seed, x.state_size + 2 * GUARD, 1);
        return x;
}

static void input_free(struct input *x) {
        free(x->q);
        free(x->k);
        free(x->v);
        free(x->w);
        free(x->beta);
        free(x->u);
        free(x->kk);
        free(x->a);
        free(x->state);
}

static struct output output_new(const struct input *x) {
        struct output y = {.out = test_alloc(N_TOKENS * x->width * sizeof(float)),
                .state = test_alloc((x->state_size + 2 * GUARD) * sizeof(float))};

        memset(y.out, 0x7f, N_TOKENS * x->width * sizeof(float));
        memset(y.state, 0x7f, (x->state_size + 2 * GUARD) * sizeof(float));
        return y;
}

static void output_free(struct output *y) {
        free(y->out);
        free(y->state);
}

static void call(struct kern *k, const struct input *x, const struct kern_run *runs, size_t n_runs,
        float *out) {
        struct kern_delta d = {.n_head = x->s.n_head,
                .n_key_head = x->n_key_head,
                .interleaved = x->rule == DELTA_INTERLEAVED,
                .n_key = x->s.n_key,
                .n_value = x->s.n_value,
                .decay_per_key = x->rule == DELTA_KEYS,
                .scale = 0.3f,
                .state_offset = GUARD * sizeof(float)};
        struct kern_delta_rows rows = {.q = x->q,
                .k = x->k,
                .v = x->v,
                .ldq = x->width,
                .ldk = x->width,
                .ldv = x->width,
                .decay = x->w,
                .beta = x->beta,
                .out = out,
                .ldo = x->width};
        struct kern_wkv w = {x->s.n_head, x->s.n_key, GUARD * sizeof(float)};
        struct kern_wkv_rows wkv_rows = {.r = x->q, .w = x->w, .k = x->k, .v = x->v, .out = out};

        if (x->rule == WKV6) {
                wkv_rows.u = x->u;
                kern_wkv6(k, &w, runs, n_runs, &wkv_rows);
        } else if (x->rule == WKV7) {
                wkv_rows.kk = x->kk;
                wkv_rows.a = x->a;
                kern_wkv7(k, &w, runs, n_runs, &wkv_rows);
        } else {
                kern_delta(k, &d, runs, n_runs, &rows);
        }
}

/* Tokens [first, end) of the input as one run each, a call at a time, in the pieces that the bits of
 * @cuts tell (bit t: a call ends behind token t). The state goes from buffer to buffer. */
static void run_cut(struct kern *k, const struct input *x, const float *state, unsigned cuts,
        struct output *y) {
        struct output other = output_new(x);
        float *next = y->state, *spare = other.state;
        const float *before = state;

        for (size_t t = 0, end; t < N_TOKENS; t = end) {
                struct kern_run run = {.first = t, .state = before, .next = next};

                for (end = t + 1; end < N_TOKENS && !(cuts >> (end - 1) & 1);)
                        end++;
                run.n = end - t;
                call(k, x, &run, 1, y->out);
                before = next;
                next = spare;
                spare = (float *)(uintptr_t)before;
        }
        if (before != y->state)
                memcpy(y->state, before, (x->state_size + 2 * GUARD) * sizeof(float));
        output_free(&other);
}

/* Out and state are equal; only heads of values are written to, of rows that are wider. */
static void assert_same(const struct input *x, const struct output *a, const struct output *b) {
        assert_true(test_same(a->out, b->out, N_TOKENS * x->width));
        assert_true(test_same(a->state, b->state, x->state_size + 2 * GUARD));
}

/* The formulas, on a state [head][key][value] in double. */
static void formula(const struct input *x, size_t t, size_t h, double *s, double *out) {
        size_t nk = x->s.n_key, nv = x->s.n_value, group = x->s.n_head / x->n_key_head;
        size_t kh = x->rule >= WKV6                ? h
                    : x->rule == DELTA_INTERLEAVED ? h % x->n_key_head
                                                   : h / group;
        const float *q = x->q + t * x->width + kh * nk, *k = x->k + t * x->width + kh * nk;
        const float *v = x->v + t * x->width + h * nv, *kk = x->kk + t * x->width + h * nk;
        const float *a = x->a + t * x->width + h * nk, *w = x->w + t * x->width + h * nk;
        double beta = (double)x->beta[t * x->s.n_head + h];

        if (x->rule == DELTA_KEYS)
                w = x->w + (t * x->s.n_head + h) * nk;
        for (size_t j = 0; j < nv; j++) {
                double sum = 0, e, y = 0;

                for (size_t i = 0; i < nk; i++) {
                        double m = s[i * nv + j], d = (double)w[i];

                        if (x->rule == DELTA || x->rule == DELTA_INTERLEAVED)
                                d = (double)x->w[t * x->s.n_head + h];
                        if (x->rule == WKV7)
                                sum -= m * (double)kk[i];
                        if (x->rule == WKV6)
                                y += (double)q[i] *
                                     (m + (double)x->u[h * nk + i] * (double)k[i] * (double)v[j]);
                        s[i * nv + j] = m * d;
                        if (x->rule < WKV6)
                                sum += m * d * (double)k[i];
                }
                e = x->rule < WKV6 ? ((double)v[j] - sum) * beta : (double)v[j];
                for (size_t i = 0; i < nk; i++) {
                        s[i * nv + j] += (double)k[i] * e;
                        if (x->rule == WKV7)
                                s[i * nv + j] += sum * (double)kk[i] * (double)a[i];
                        if (x->rule != WKV6)
                                y += s[i * nv + j] * (double)q[i];
                }
                out[j] = x->rule < WKV6 ? y * (double)0.3f : y;
        }
}

/* Where element (key, value) of a head is in the kernel's state. */
static size_t place(const struct shape *s, size_t h, size_t i, size_t j) {
        size_t n = kern_state_panel(s->n_value);

        return h * s->n_key * s->n_value + j / n * n * s->n_key + i * n + j % n;
}

static void assert_close(const struct input *x, const float *state, const struct output *y) {
        size_t nk = x->s.n_key, nv = x->s.n_value;
        double *s = test_alloc(nk * nv * sizeof(*s)), *out = test_alloc(nv * sizeof(*out));

        for (size_t h = 0; h < x->s.n_head; h++) {
                for (size_t i = 0; i < nk * nv; i++)
                        s[i] = state ? (double)state[GUARD + place(&x->s, h, i / nv, i % nv)] : 0;
                for (size_t t = 0; t < N_TOKENS; t++) {
                        formula(x, t, h, s, out);
                        for (size_t j = 0; j < nv; j++) {
                                double got = (double)y->out[t * x->width + h * nv + j];

                                if (!(fabs(got - out[j]) <= 1e-4 * (1 + fabs(out[j]))))
                                        fail_msg("rule %d, %zu keys, %zu values, token %zu: %g, "
                                                 "not %g",
                                                x->rule, nk, nv, t, got, out[j]);
                        }
                }
                for (size_t i = 0; i < nk * nv; i++) {
                        double got = (double)y->state[GUARD + place(&x->s, h, i / nv, i % nv)];

                        assert_true(fabs(got - s[i]) <= 1e-4 * (1 + fabs(s[i])));
                }
        }
        free(out);
        free(s);
}

static void assert_guards(const struct input *x, const struct output *y) {
        uint32_t mark = 0x7f7f7f7f;

        for (size_t i = 0; i < GUARD; i++) {
                assert_memory_equal(y->state + i, &mark, sizeof(mark));
                assert_memory_equal(y->state + GUARD + x->state_size + i, &mark, sizeof(mark));
        }
        for (size_t t = 0; t < N_TOKENS; t++)
                for (size_t i = x->s.n_head * x->s.n_value; i < x->width; i++)
                        assert_memory_equal(y->out + t * x->width + i, &mark, sizeof(mark));
}

static int setup(void **state) {
        struct data *d = test_alloc(sizeof(*d));

        for (unsigned i = 0; i < N_KERN; i++)
                d->ks[i] = test_kern((enum kern_isa)(i % KERN_N_ISA), i < KERN_N_ISA ? 1 : 3);
        *state = d;
        return 0;
}

static int teardown(void **state) {
        struct data *d = *state;

        for (unsigned i = 0; i < N_KERN; i++)
                kern_free(d->ks[i]);
        free(d);
        return 0;
}

/* All rules and shapes, from zeros and from a state, everywhere; cut in no, some and all places. */
static void test_all(void **state) {
        static const unsigned cuts[] = {0, ~0u, 1, 1u << 9, 0x124};
        const struct data *d = *state;

        for (unsigned rule = 0; rule < N_RULES; rule++)
                for (size_t i = 0; i < 2 * N_SHAPES; i++) {
                        struct input x = input_new((enum rule)rule, &shapes[i / 2], 5 + i);
                        struct output first = output_new(&x);
                        const float *from = i % 2 ? x.state : NULL;

                        if ((rule >= WKV6 && x.s.n_key > 200) || test_left_out(rule + i))
                                goto next;
                        run_cut(d->ks[0], &x, from, 0, &first);
                        assert_close(&x, from, &first);
                        assert_guards(&x, &first);
                        for (unsigned k = 0; k < N_KERN; k++)
                                for (size_t c = 0; d->ks[k] && c < 5; c++) {
                                        struct output y = output_new(&x);

                                        if (k != 0 || c != 0) {
                                                run_cut(d->ks[k], &x, from, cuts[c], &y);
                                                assert_same(&x, &first, &y);
                                        }
                                        output_free(&y);
                                }
                next:
                        output_free(&first);
                        input_free(&x);
                }
}

/* Several sequences in one call: each as if it were alone. */
static void test_runs(void **state) {
        const struct data *d = *state;

        for (unsigned rule = 0; rule < N_RULES; rule++)
                for (unsigned k = 0; k < N_KERN; k++) {
                        struct input x = input_new((enum rule)rule, &shapes[9], 77);
                        struct output alone = output_new(&x), y = output_new(&x);
                        struct output next[4] = {y, output_new(&x), output_new(&x), output_new(&x)};
                        /* lengths 1, 5, 2, 3 */
                        static const size_t at[] = {0, 1, 6, 8, N_TOKENS};
                        struct kern_run runs[4];

                        if (!d->ks[k])
                                goto next;
                        for (size_t i = 0; i < 4; i++)
                                runs[i] = (struct kern_run){.first = at[i],
                                        .n = at[i + 1] - at[i],
                                        .state = i == 1 ? NULL : x.state,
                                        .next = next[i].state};
                        call(d->ks[k], &x, runs, 4, y.out);
                        for (size_t i = 0; i < 4; i++) {
                                size_t from = at[i] * x.width, n = runs[i].n * x.width;
                                struct kern_run run = runs[i];

                                run.next = alone.state;
                                call(d->ks[0], &x, &run, 1, alone.out);
                                assert_true(test_same(alone.out + from, y.out + from, n));
                                assert_true(test_same(
                                        alone.state, next[i].state, x.state_size + 2 * GUARD));
                        }
                next:
                        for (size_t i = 1; i < 4; i++)
                                output_free(&next[i]);
                        output_free(&y);
                        output_free(&alone);
                        input_free(&x);
                }
}

/* NaN and infinities reach the same places everywhere, and what they do not reach stays finite. */
static void test_wild(void **state) {
        static const float wild[] = {NAN, INFINITY, -INFINITY, 3e38f, -0.0f, 1e-45f};
        const struct data *d = *state;

        for (unsigned rule = 0; rule < N_RULES; rule++)
                for (size_t i = 0; i < 60; i++) {
                        struct input x = input_new((enum rule)rule, &shapes[3], 9 + i);
                        struct output first = output_new(&x), y = output_new(&x);
                        float *at[] = {x.q, x.k, x.v, x.w, x.beta, x.a, x.kk, x.u, x.state + GUARD};
                        uint64_t rs = i;

                        at[i % 9][test_random(&rs) % (i % 9 == 7 ? x.width : 4 * x.width)] =
                                wild[i % 6];
                        run_cut(d->ks[0], &x, x.state, 0, &first);
                        for (unsigned k = 1; k < N_KERN; k++)
                                if (d->ks[k]) {
                                        run_cut(d->ks[k], &x, x.state, 0x21, &y);
                                        assert_same(&x, &first, &y);
                                }
                        output_free(&first);
                        output_free(&y);
                        input_free(&x);
                }
}

/* A value that is no number spoils its own column, and no other. */
static void test_columns_apart(void **state) {
        const struct data *d = *state;

        for (unsigned rule = 0; rule < N_RULES; rule++)
                for (unsigned k = 0; k < N_KERN; k++) {
                        struct input x = input_new((enum rule)rule, &shapes[3], 4);
                        struct output y = output_new(&x);
                        size_t nv = x.s.n_value;

                        x.v[2 * x.width + nv + 7] = NAN;
                        if (d->ks[k]) {
                                run_cut(d->ks[k], &x, NULL, 0, &y);
                                for (size_t t = 0; t < N_TOKENS; t++)
                                        for (size_t j = 0; j < 2 * nv; j++)
                                                assert_true(isnan(y.out[t * x.width + j]) ==
                                                            (t >= 2 && j == nv + 7));
                        }
                        output_free(&y);
                        input_free(&x);
                }
}

static void test_panels(void **state) {
        static const size_t want[][2] = {{1, 1}, {5, 5}, {63, 63}, {64, 64}, {65, 13}, {96, 48},
                {128, 64}, {130, 26}, {67, 1}};

        for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
                assert_int_equal(kern_state_panel(want[i][0]), want[i][1]);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_all),
                cmocka_unit_test(test_runs),
                cmocka_unit_test(test_wild),
                cmocka_unit_test(test_columns_apart),
                cmocka_unit_test(test_panels),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
