/* SPDX-License-Identifier: MIT */
/*
 * Recurrent kernels: equal bits from every instruction set, number of threads and way of cutting a
 * sequence into runs, alone and beside others; and close to the exact results.
 */
#include "kern-util.h"

#define N_KERN (2 * KERN_N_ISA)
#define N_ROWS 41        /* a convolution takes 32 at a time */
#define PAD 3            /* values between the rows */
#define GUARD 16         /* floats before and behind a state */
#define MARK 0x7fc5a5a5u /* in what must stay as it is */

struct data {
        struct kern *ks[N_KERN]; /* instruction set i with 1 and 3 threads */
};

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

/* A layer and its inputs for N_ROWS rows. */
struct layer {
        enum { CONV, CHANNELS, HEADS } kind;
        struct kern_conv conv;
        struct kern_scan scan;
        size_t width, n_bc, n_dt; /* values of x, b and dt in a row */
        size_t n_state;           /* floats */
        bool in_place;            /* of the convolution */
        float *x, *dt, *b, *c, *w, *bias, *a, *d;
};

static void layer_free(struct layer *l) {
        free(l->x);
        free(l->dt);
        free(l->b);
        free(l->c);
        free(l->w);
        free(l->bias);
        free(l->a);
        free(l->d);
}

static float *positive(float *x, size_t n) {
        for (size_t i = 0; i < n; i++)
                x[i] = fabsf(x[i]);
        return x;
}

static struct layer make_conv(uint64_t rs, size_t n_channels, size_t n_taps, bool bias, bool silu) {
        struct layer l = {.kind = CONV, .width = n_channels};

        l.w = test_floats(&rs, n_taps * n_channels, 1);
        l.bias = test_floats(&rs, n_channels, 1);
        l.x = test_floats(&rs, N_ROWS * (n_channels + PAD), 3);
        l.n_state = (n_taps - 1) * n_channels;
        l.conv = (struct kern_conv){.n_channels = n_channels,
                .n_taps = n_taps,
                .w = l.w,
                .bias = bias ? l.bias : NULL,
                .silu = silu};
        return l;
}

/* Decays from hardly any to nearly all. */
static struct layer make_scan(
        uint64_t rs, size_t n_heads, size_t head_dim, size_t n_state, size_t n_groups) {
        bool heads = head_dim > 1;
        struct layer l = {.kind = heads ? HEADS : CHANNELS, .width = n_heads * head_dim};
        size_t n_a = heads ? n_heads : kern_scan_channels_size(n_heads, n_state);

        l.n_bc = n_groups * n_state;
        l.n_dt = n_heads;
        l.n_state = heads ? kern_scan_heads_size(n_heads, head_dim, n_state) : n_a;
        l.x = test_floats(&rs, N_ROWS * (l.width + PAD), 3);
        l.dt = positive(test_floats(&rs, N_ROWS * (l.n_dt + PAD), 1), N_ROWS * (l.n_dt + PAD));
        l.b = test_floats(&rs, N_ROWS * (l.n_bc + PAD), 1);
        l.c = test_floats(&rs, N_ROWS * (l.n_bc + PAD), 1);
        l.a = positive(test_floats(&rs, n_a, 4), n_a);
        for (size_t i = 0; i < n_a; i++)
                l.a[i] = -l.a[i];
        l.d = test_floats(&rs, n_heads, 1);
        l.scan = (struct kern_scan){.n_heads = n_heads,
                .head_dim = head_dim,
                .n_state = n_state,
                .n_groups = n_groups,
                .a = l.a,
                .d = l.d};
        return l;
}

/* The rows of the runs begin at @row of the layer's inputs. */
static void run_rows(struct layer *l, struct kern *k, const struct kern_run *runs, size_t n_runs,
        size_t row, float *y) {
        struct kern_scan_rows r = {
                .x = l->x + row * (l->width + PAD),
                .ldx = l->width + PAD,
                .ldbc = l->n_bc + PAD,
                .lddt = l->n_dt + PAD,
                .y = y,
                .ldy = l->width + PAD,
        };

        if (l->kind == CONV) {
                const float *x = r.x;
                size_t n_rows = 0;

                for (size_t i = 0; i < n_runs; i++)
                        n_rows += runs[i].n;
                for (size_t t = 0; l->in_place && t < n_rows; t++)
                        memcpy(y + t * r.ldy, x + t * r.ldx, l->width * sizeof(*y));
                kern_conv(k, &l->conv, runs, n_runs, l->in_place ? y : x, r.ldx, y, r.ldy);
                return;
        }
        r.dt = l->dt + row * r.lddt;
        r.b = l->b + row * r.ldbc;
        r.c = l->c + row * r.ldbc;
        if (l->kind == CHANNELS)
                kern_scan_channels(k, &l->scan, runs, n_runs, &r);
        else
                kern_scan_heads(k, &l->scan, runs, n_runs, &r);
}

/* A state's buffer, all marks; the layer's part begins behind GUARD floats. */
static float *new_state(const struct layer *l) {
        float *s = test_alloc64((l->n_state + 2 * GUARD) * sizeof(*s));
        uint32_t mark = MARK;

        for (size_t i = 0; i < l->n_state + 2 * GUARD; i++)
                memcpy(s + i, &mark, sizeof(mark));
        return s;
}

static void check_guards(const struct layer *l, const float *s) {
        for (size_t i = 0; i < GUARD; i++) {
                uint32_t before, behind;

                memcpy(&before, s + i, sizeof(before));
                memcpy(&behind, s + GUARD + l->n_state + i, sizeof(behind));
                assert_int_equal(before, MARK);
                assert_int_equal(behind, MARK);
        }
}

/* Rows [0, N_ROWS) in runs of @step rows behind a first one of @lead: y, and the state behind them, which
 * is returned. */
static float *feed(struct layer *l, struct kern *k, size_t lead, size_t step, float *y) {
        float *state = NULL;
        uint32_t mark = MARK;

        l->conv.state_offset = l->scan.state_offset = GUARD * sizeof(float);
        for (size_t i = 0; i < N_ROWS * (l->width + PAD); i++)
                memcpy(y + i, &mark, sizeof(mark));
        for (size_t row = 0, n; row < N_ROWS; row += n) {
                float *next = new_state(l);
                struct kern_run run = {.state = state, .next = next};

                n = row == 0 ? lead : step < N_ROWS - row ? step : N_ROWS - row;
                run.n = n;
                run_rows(l, k, &run, 1, row, y + row * (l->width + PAD));
                check_guards(l, next);
                free(state);
                state = next;
        }
        return state;
}

/* Infinities and NaN included; a NaN is as good as another. Between the rows nothing is written. */
static void same(const struct layer *l, const float *want, const float *got, const char *what) {
        for (size_t t = 0; t < N_ROWS; t++)
                if (!test_same(want + t * (l->width + PAD), got + t * (l->width + PAD),
                            l->width + PAD))
                        fail_msg("%s: row %zu of kind %d", what, t, (int)l->kind);
}

/* Two sequences in one call: one goes on at row 5 of the inputs, one begins at row 10. */
static void check_company(struct layer *l, struct kern *k, const float *want) {
        size_t ld = l->width + PAD, n = 5 + 6;
        float *y = test_alloc(n * ld * sizeof(*y)), *alone = test_alloc(n * ld * sizeof(*y));
        float *first = new_state(l), *next[3];
        struct kern_run run = {.n = 5, .next = first}, both[2];

        for (int i = 0; i < 3; i++)
                next[i] = new_state(l);
        run_rows(l, k, &run, 1, 0, y);
        both[0] = (struct kern_run){.first = 0, .n = 5, .state = first, .next = next[0]};
        both[1] = (struct kern_run){.first = 5, .n = 6, .next = next[1]};
        run_rows(l, k, both, 2, 5, y);
        run = (struct kern_run){.n = 6, .next = next[2]};
        run_rows(l, k, &run, 1, 10, alone);
        for (size_t t = 0; t < n; t++)
                if (!test_same(t < 5 ? want + (5 + t) * ld : alone + (t - 5) * ld, y + t * ld,
                            l->width))
                        fail_msg("beside another sequence: row %zu", t);
        assert_true(test_same(next[1] + GUARD, next[2] + GUARD, l->n_state));
        for (int i = 0; i < 3; i++)
                free(next[i]);
        free(first);
        free(alone);
        free(y);
}

/* Every kern and step; the reference is the definition, one row at a time. */
static void compare(struct data *d, struct layer *l, const char *what) {
        static const size_t steps[][2] = {{N_ROWS, 1}, {1, 1}, {2, 2}, {7, 7}, {4, N_ROWS - 4}};
        size_t size = N_ROWS * (l->width + PAD) * sizeof(float);
        float *want = test_alloc(size), *got = test_alloc(size);
        float *state = feed(l, d->ks[0], 1, 1, want);

        for (unsigned i = 0; i < N_KERN; i++) {
                for (size_t s = 0; d->ks[i] && s < 5; s++) {
                        float *other = feed(l, d->ks[i], steps[s][0], steps[s][1], got);

                        same(l, want, got, what);
                        if (!test_same(state + GUARD, other + GUARD, l->n_state))
                                fail_msg("%s: state, %s, %zu rows", what,
                                        kern_isa_name(kern_isa(d->ks[i])), steps[s][0]);
                        free(other);
                }
                if (d->ks[i])
                        check_company(l, d->ks[i], want);
        }
        free(state);
        free(want);
        free(got);
}

static const size_t widths[] = {1, 7, 8, 15, 16, 17, 31, 40, 64, 100, 1300};
#define N_WIDTHS 11

static void test_conv(void **state) {
        for (size_t w = 0; w < N_WIDTHS; w++)
                for (size_t n_taps = 2; n_taps <= 8; n_taps++)
                        for (unsigned kind = 0; kind < 4; kind++) {
                                struct layer l = make_conv(
                                        n_taps * 100 + w, widths[w], n_taps, kind & 1, kind & 2);

                                l.in_place = (w + kind) % 2;
                                if ((widths[w] < 1000 || n_taps == 4) &&
                                        !test_left_out(w + n_taps + kind))
                                        compare(*state, &l, "conv");
                                layer_free(&l);
                        }
}

static double silu(double x) {
        return x / (1 + exp(-x));
}

static void test_conv_exact(void **state) {
        struct data *d = *state;

        for (unsigned kind = 0; kind < 4; kind++) {
                struct layer l = make_conv(3, 40, 4, kind & 1, kind & 2);
                float *y = test_alloc(N_ROWS * (40 + PAD) * sizeof(*y));
                float *s = feed(&l, d->ks[0], N_ROWS, 1, y);

                for (size_t t = 0; t < N_ROWS; t++)
                        for (size_t p = 0; p < 40; p++) {
                                double want = kind & 1 ? (double)l.bias[p] : 0;

                                for (size_t i = 0; i < 4 && i <= t; i++)
                                        want += (double)l.w[(3 - i) * 40 + p] *
                                                (double)l.x[(t - i) * (40 + PAD) + p];
                                want = kind & 2 ? silu(want) : want;
                                assert_true(fabs(want - (double)y[t * (40 + PAD) + p]) < 4e-6);
                        }
                for (size_t i = 0; i < 3; i++)
                        assert_memory_equal(s + GUARD + i * 40, l.x + (N_ROWS - 3 + i) * (40 + PAD),
                                40 * sizeof(*s));
                free(s);
                free(y);
                layer_free(&l);
        }
}

static void test_scan_channels(void **state) {
        static const size_t n_states[] = {1, 4, 16, 17};

        for (size_t w = 0; w < N_WIDTHS; w++)
                for (size_t i = 0; i < 4; i++) {
                        struct layer l = make_scan(10 * w + i, widths[w], 1, n_states[i], 1);

                        if ((widths[w] < 1000 || i == 2) && !test_left_out(w + i))
                                compare(*state, &l, "scan of channels");
                        layer_free(&l);
                }
}

static void test_scan_heads(void **state) {
        static const size_t dims[] = {2, 5, 8, 12, 16, 24, 31, 32, 48, 64, 80, 104, 128};

        for (size_t i = 0; i < 13; i++)
                for (size_t n_groups = 1; n_groups <= 4; n_groups *= 2) {
                        size_t n_state = dims[i] == 64 ? 128 : 10 + n_groups;
                        struct layer l = make_scan(i, 4, dims[i], n_state, n_groups);

                        if (!test_left_out(i + n_groups))
                                compare(*state, &l, "scan of heads");
                        layer_free(&l);
                }
}

/* y[t] = sum_i c_i(t) s_i(t) + d x(t), from the first row on. */
static void check_scan_exact(struct data *data, struct layer *l) {
        const struct kern_scan *s = &l->scan;
        size_t dim = s->head_dim, ld = l->width + PAD, stride = (dim + 15) / 16 * 16;
        float *y = test_alloc(N_ROWS * ld * sizeof(*y)), *last = feed(l, data->ks[0], 5, 5, y);

        for (size_t p = 0; p < l->width; p++) {
                size_t head = p / dim, group = head / (s->n_heads / s->n_groups);
                double entry[64] = {0};

                for (size_t t = 0; t < N_ROWS; t++) {
                        double x = (double)l->x[t * ld + p], sum = 0;
                        double dt = (double)l->dt[t * (l->n_dt + PAD) + head];

                        for (size_t i = 0; i < s->n_state; i++) {
                                size_t bc = t * (l->n_bc + PAD) + group * s->n_state + i;
                                size_t tile = (p / 16 * s->n_state + i) * 16 + p % 16;
                                double a = (double)l->a[l->kind == HEADS ? head : tile];

                                entry[i] = entry[i] * exp(dt * a) + (double)l->b[bc] * x * dt;
                                sum += entry[i] * (double)l->c[bc];
                        }
                        sum += (double)l->d[head] * x;
                        if (!(fabs(sum - (double)y[t * ld + p]) < 2e-5))
                                fail_msg("row %zu, channel %zu: %g, not %g", t, p,
                                        (double)y[t * ld + p], sum);
                }
                for (size_t i = 0; i < s->n_state; i++) {
                        size_t at = l->kind == HEADS ? (head * s->n_state + i) * stride + p % dim
                                                     : (p / 16 * s->n_state + i) * 16 + p % 16;

                        assert_true(fabs(entry[i] - (double)last[GUARD + at]) < 1e-5);
                }
        }
        free(last);
        free(y);
}

static void test_scan_exact(void **state) {
        struct layer l = make_scan(1, 40, 1, 16, 1);

        check_scan_exact(*state, &l);
        layer_free(&l);
        l = make_scan(2, 6, 24, 20, 3);
        check_scan_exact(*state, &l);
        layer_free(&l);
}

/* Behind the last channel states are zeros, whatever the inputs are: no byte is left unwritten. */
static void test_padding(void **state) {
        struct data *d = *state;

        for (unsigned k = 0; k < N_KERN; k++)
                for (unsigned kind = 0; d->ks[k] && kind < 2; kind++) {
                        struct layer l =
                                kind ? make_scan(1, 2, 21, 5, 1) : make_scan(1, 21, 1, 5, 1);
                        float *y = test_alloc(N_ROWS * (l.width + PAD) * sizeof(*y)), *s;

                        l.x[3] = l.dt[1] = NAN;
                        s = feed(&l, d->ks[k], N_ROWS, 1, y);
                        for (size_t i = 0; i < l.n_state; i++)
                                if (kind ? i % 32 >= 21 : i >= 80 && i % 16 >= 5)
                                        assert_true(s[GUARD + i] == 0);
                        free(s);
                        free(y);
                        layer_free(&l);
                }
}

static void spoil(float *x, size_t n, uint64_t *rs) {
        static const float wild[] = {NAN, -NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 1e-45f, -0.0f};

        for (size_t i = 0; i < n; i++)
                if (test_random(rs) % 50 == 0)
                        x[i] = wild[test_random(rs) % 8];
}

/* NaN and infinities reach the same places. */
static void test_wild(void **state) {
        for (uint64_t rs = 1; rs < 9; rs++) {
                struct layer l[3] = {make_conv(rs, 40, 4, true, rs % 2),
                        make_scan(rs, 40, 1, 16, 1), make_scan(rs, 4, 40, 16, 2)};

                for (int i = 0; i < 3; i++) {
                        uint64_t wild = rs;

                        spoil(l[i].x, N_ROWS * (l[i].width + PAD), &wild);
                        if (i > 0) {
                                spoil(l[i].dt, N_ROWS * (l[i].n_dt + PAD), &wild);
                                spoil(l[i].b, N_ROWS * (l[i].n_bc + PAD), &wild);
                                spoil(l[i].c, N_ROWS * (l[i].n_bc + PAD), &wild);
                        }
                        compare(*state, &l[i], "wild");
                        layer_free(&l[i]);
                }
        }
}

#define N_SOFTPLUS 20000

static void run_softplus(struct kern *k, const float *x, const float *bias, size_t n, size_t rows,
        size_t shift, const float *want) {
        float *y = test_alloc((rows * (n + PAD) + shift) * sizeof(*y)), *at = y + shift;

        memset(at, 0x5a, rows * (n + PAD) * sizeof(*y));
        kern_softplus(k, x, n, bias, n, rows, at, n + PAD);
        for (size_t t = 0; t < rows; t++) {
                if (!test_same(want + t * n, at + t * (n + PAD), n))
                        fail_msg("softplus, %s, %zu", kern_isa_name(kern_isa(k)), n);
                for (size_t i = 0; i < PAD * sizeof(*y); i++)
                        assert_int_equal(((uint8_t *)(at + t * (n + PAD) + n))[i], 0x5a);
        }
        free(y);
}

static void test_softplus(void **state) {
        struct data *d = *state;
        uint64_t rs = 4;
        float *x = test_floats(&rs, N_SOFTPLUS, 30), *want = test_alloc(N_SOFTPLUS * sizeof(*want));
        float *bias = test_floats(&rs, N_SOFTPLUS, 2);

        for (size_t i = 0; i < 1000; i++)
                memcpy(&x[i], &(uint32_t){(uint32_t)test_random(&rs)}, sizeof(*x));
        x[0] = INFINITY;
        x[1] = -INFINITY;
        x[2] = NAN;
        x[3] = 0;
        for (size_t n = 1; n <= N_SOFTPLUS; n = n < 40 ? n + 1 : n * 9)
                for (unsigned with = 0; with < 2; with++) {
                        size_t rows = N_SOFTPLUS / n < 50 ? N_SOFTPLUS / n : 50;

                        kern_softplus(d->ks[0], x, n, with ? bias : NULL, n, rows, want, n);
                        for (unsigned i = 0; i < N_KERN; i++)
                                if (d->ks[i])
                                        run_softplus(d->ks[i], x, with ? bias : NULL, n, rows,
                                                n % 5, want);
                }
        kern_softplus(d->ks[0], x, N_SOFTPLUS, NULL, N_SOFTPLUS, 1, want, N_SOFTPLUS);
        for (size_t i = 3; i < N_SOFTPLUS; i++) {
                double v = (double)x[i], y = (v > 0 ? v : 0) + log1p(exp(-fabs(v)));

                if (isnan(x[i]))
                        assert_true(isnan(want[i]));
                else
                        assert_true(fabs((double)want[i] - y) <= 1e-6 * y || y < 1e-37);
        }
        assert_true(isinf(want[0]) && want[0] > 0 && want[1] == 0 && isnan(want[2]));
        assert_true(fabsf(want[3] - 0.69314718f) < 1e-7f);
        free(bias);
        free(want);
        free(x);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_conv),
                cmocka_unit_test(test_conv_exact),
                cmocka_unit_test(test_scan_channels),
                cmocka_unit_test(test_scan_heads),
                cmocka_unit_test(test_scan_exact),
                cmocka_unit_test(test_padding),
                cmocka_unit_test(test_wild),
                cmocka_unit_test(test_softplus),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
