/* SPDX-License-Identifier: MIT */
/* Activations: equal bits from every instruction set and number of threads, for every length, place
 * and kind of value; and close to the exact results. */
#include "kern-util.h"

#define N 20000
#define N_KERN (2 * KERN_N_ISA)
/* Floats before and behind the results, which must stay. */
#define GUARD 16

struct data {
        struct kern *ks[N_KERN]; /* instruction set i with 1 and 3 threads */
        float *x, *up, *y;       /* y with its guards */
};

/* Computes y of x and perhaps up. Each row of the table below is one case. */
typedef void run_fn(struct kern *k, const float *x, const float *up, float *y, size_t n);
/* The exact result of one element; *bound is the greatest error allowed. */
typedef double want_fn(double x, double up, double *bound);

static void copy(float *y, const float *x, size_t n) {
        if (n > 0 && y != x)
                memcpy(y, x, n * sizeof(*y));
}

#define ACTIVATE(name, a)                                                                          \
        static void run_##name(                                                                    \
                struct kern *k, const float *x, const float *up, float *y, size_t n) {             \
                kern_activate(k, a, x, NULL, y, n);                                                \
        }                                                                                          \
        static void run_##name##_up(                                                               \
                struct kern *k, const float *x, const float *up, float *y, size_t n) {             \
                kern_activate(k, a, x, up, y, n);                                                  \
        }
ACTIVATE(silu, KERN_SILU)
ACTIVATE(gelu, KERN_GELU)
ACTIVATE(relu2, KERN_RELU2)

static void run_oai(struct kern *k, const float *x, const float *up, float *y, size_t n) {
        kern_activate(k, KERN_SWIGLU_OAI, x, up, y, n);
}

static void run_sigmoid(struct kern *k, const float *x, const float *up, float *y, size_t n) {
        copy(y, x, n);
        kern_sigmoid(k, y, n);
}

static void run_cap30(struct kern *k, const float *x, const float *up, float *y, size_t n) {
        copy(y, x, n);
        kern_softcap(k, y, 30, n);
}

static void run_tanh(struct kern *k, const float *x, const float *up, float *y, size_t n) {
        copy(y, x, n);
        kern_softcap(k, y, 1, n);
}

static void run_xielu(struct kern *k, const float *x, const float *up, float *y, size_t n) {
        kern_xielu(k, x, y, n, 0.8f, 0.75f, 0.5f, -1e-6f);
}

/* Without the term that hides what the negative branch loses. */
static void run_xielu0(struct kern *k, const float *x, const float *up, float *y, size_t n) {
        kern_xielu(k, x, y, n, 1.5f, 0.75f, 0, -1e-6f);
}

static void run_scale(struct kern *k, const float *x, const float *up, float *y, size_t n) {
        copy(y, x, n);
        kern_scale(k, y, 0.3f, n);
}

static void run_mul(struct kern *k, const float *x, const float *up, float *y, size_t n) {
        copy(y, x, n);
        kern_mul(k, y, up, n);
}

/* x * sigma(z): what exp takes from the rounding of z, and where exp reaches infinity. */
static double gated(double x, double z, double *bound) {
        double y = x / (1 + exp(-z));

        *bound = 4e-7 * (1 + fabs(z)) * fabs(y) + 2e-36;
        return y;
}

static double want_silu(double x, double up, double *bound) {
        return gated(x, x, bound);
}

static double want_gelu(double x, double up, double *bound) {
        double u = sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x);
        double y = 0.5 * x * (1 + tanh(u));

        if (fabs(x) >= 10) {
                *bound = 0;
                return x > 0 ? x : 0;
        }
        /* A half has 11 bits, and none below 2^-24; the slope is at most 1.13. */
        *bound = 0x1p-11 * (1.2 * fabs(x) + fabs(y)) + 0x1p-23;
        return y;
}

static double want_relu2(double x, double up, double *bound) {
        double y = x > 0 ? x * x : 0;

        *bound = 1e-7 * y + 1e-44;
        return y;
}

static double want_oai(double x, double up, double *bound) {
        double g = fmin(x, 7), u = fmin(fmax(up, -7), 7) + 1, y = gated(g, 1.702 * g, bound) * u;

        /* u is one rounding away from up + 1 */
        *bound = *bound * fabs(u) + 1e-7 * fabs(g) * (fabs(u) + 1);
        return y;
}

static double want_sigmoid(double x, double up, double *bound) {
        return gated(1, x, bound);
}

static double want_cap30(double x, double up, double *bound) {
        *bound = 3e-7 * 30;
        return 30 * tanh(x / 30);
}

static double want_tanh(double x, double up, double *bound) {
        *bound = 3e-7;
        return tanh(x);
}

static double xielu(double x, double alpha_p, double alpha_n, double beta, double *bound) {
        double eps = (double)-1e-6f, m = fmin(x, eps), f = beta + alpha_n, e = expm1(m) - x;

        *bound = 2e-7 * fabs(beta * x);
        if (x > 0) {
                *bound += 3e-7 * alpha_p * x * x;
                return alpha_p * x * x + beta * x;
        }
        if (m < -0.34)
                *bound += 3e-7 * (1 - x) * f;
        else /* relative to what is left of expm1(m) - x */
                *bound += 1e-6 * (fabs(m - x) + m * m / 2) * f;
        return e * f + beta * x;
}

static double want_xielu(double x, double up, double *bound) {
        return xielu(x, (double)0.8f, 0.75, 0.5, bound);
}

static double want_xielu0(double x, double up, double *bound) {
        return xielu(x, 1.5, 0.75, 0, bound);
}

static double want_scale(double x, double up, double *bound) {
        *bound = 0;
        return (double)((float)x * 0.3f);
}

static double want_mul(double x, double up, double *bound) {
        *bound = 0;
        return (double)((float)x * (float)up);
}

/* What up is to the result. */
enum up { UNUSED, USED, FACTOR /* the result is want() * up */ };

static const struct op {
        const char *name;
        run_fn *run;
        want_fn *want;
        enum up up;
} ops[] = {
        {"silu", run_silu, want_silu, UNUSED},
        {"silu * up", run_silu_up, want_silu, FACTOR},
        {"gelu", run_gelu, want_gelu, UNUSED},
        {"gelu * up", run_gelu_up, want_gelu, FACTOR},
        {"relu2", run_relu2, want_relu2, UNUSED},
        {"relu2 * up", run_relu2_up, want_relu2, FACTOR},
        {"swiglu_oai", run_oai, want_oai, USED},
        {"sigmoid", run_sigmoid, want_sigmoid, UNUSED},
        {"softcap 30", run_cap30, want_cap30, UNUSED},
        {"softcap 1", run_tanh, want_tanh, UNUSED},
        {"xielu", run_xielu, want_xielu, UNUSED},
        {"xielu without beta", run_xielu0, want_xielu0, UNUSED},
        {"scale", run_scale, want_scale, UNUSED},
        {"mul", run_mul, want_mul, USED},
};
#define N_OPS (sizeof(ops) / sizeof(ops[0]))

/* Values of all magnitudes on both sides of 0, most where the functions bend. */
static float value(uint64_t *rs) {
        float u = test_uniform(rs);

        switch (test_random(rs) % 4) {
        case 0:
                return u * 6;
        case 1:
                return u * 100;
        case 2:
                return u * 0.4f;
        default:
                return ldexpf(u, -(int)(test_random(rs) % 40));
        }
}

static int setup(void **state) {
        struct data *d = test_alloc(sizeof(*d));
        uint64_t rs = 21;

        for (unsigned i = 0; i < N_KERN; i++)
                d->ks[i] = test_kern((enum kern_isa)(i % KERN_N_ISA), i < KERN_N_ISA ? 1 : 3);
        d->x = test_alloc64((N + GUARD) * sizeof(float));
        d->up = test_alloc64((N + GUARD) * sizeof(float));
        d->y = test_alloc64((N + 3 * GUARD) * sizeof(float));
        for (size_t i = 0; i < N + GUARD; i++) {
                d->x[i] = value(&rs);
                d->up[i] = test_uniform(&rs) * 9;
        }
        *state = d;
        return 0;
}

static int teardown(void **state) {
        struct data *d = *state;

        for (unsigned i = 0; i < N_KERN; i++)
                kern_free(d->ks[i]);
        free(d->x);
        free(d->up);
        free(d->y);
        free(d);
        return 0;
}

/* How the result lies to the operands. */
enum place { APART, OVER_X, OVER_UP };

/* One run, with guards; the result is at d->y + GUARD + shift. */
static float *run(struct data *d, const struct op *op, struct kern *k, const float *x,
        const float *up, size_t n, size_t shift, enum place place) {
        float *y = d->y + GUARD + shift;
        static const uint32_t mark = 0x7fc5a5a5;

        for (float *p = d->y; p < y + n + GUARD; p++)
                memcpy(p, &mark, sizeof(mark));
        if (place != APART)
                copy(y, place == OVER_X ? x : up, n);
        op->run(k, place == OVER_X ? y : x, place == OVER_UP ? y : up, y, n);
        for (float *p = d->y; p < y; p++)
                assert_memory_equal(p, &mark, sizeof(mark));
        for (float *p = y + n; p < y + n + GUARD; p++)
                assert_memory_equal(p, &mark, sizeof(mark));
        return y;
}

/* All kerns and places give what the first gives. */
static void compare(struct data *d, const struct op *op, const float *x, const float *up, size_t n,
        size_t shift) {
        float *first = test_alloc(n * sizeof(*first));

        copy(first, run(d, op, d->ks[0], x, up, n, 0, APART), n);
        for (unsigned i = 0; i < N_KERN; i++)
                for (unsigned place = APART; place <= OVER_UP; place++) {
                        const float *y;

                        if (!d->ks[i] || (place == OVER_UP && op->up == UNUSED) ||
                                (op->run == run_mul && place == OVER_UP))
                                continue;
                        y = run(d, op, d->ks[i], x, up, n, shift, (enum place)place);
                        if (!test_same(first, y, n))
                                fail_msg("%s, %s, %zu values at %zu, place %u", op->name,
                                        kern_isa_name(kern_isa(d->ks[i])), n, shift, place);
                }
        free(first);
}

static void test_lengths(void **state) {
        struct data *d = *state;

        for (size_t o = 0; o < N_OPS; o++)
                for (size_t n = 0; n <= 71; n++) {
                        size_t shift = n % 5, size = n < 71 ? n : 1000;

                        compare(d, &ops[o], d->x + n * 10 + shift, d->up + n * 10 + n % 3, size,
                                shift);
                }
}

/* More than one task. */
static void test_threads(void **state) {
        struct data *d = *state;

        for (size_t o = 0; o < N_OPS; o++)
                compare(d, &ops[o], d->x, d->up, N, 1);
}

static void test_exact(void **state) {
        struct data *d = *state;

        for (size_t o = 0; o < N_OPS; o++) {
                const float *y = run(d, &ops[o], d->ks[0], d->x, d->up, N, 0, APART);
                double worst = 0;

                for (size_t i = 0; i < N; i++) {
                        double up = (double)d->up[i], bound, off;
                        double want = ops[o].want((double)d->x[i], up, &bound);

                        if (ops[o].up == FACTOR) {
                                want *= up;
                                bound = bound * fabs(up) + 1e-7 * fabs(want) + 2e-44;
                        }
                        off = fabs(want - (double)y[i]);
                        if (!(off <= bound))
                                fail_msg("%s of %a: %a, not %a", ops[o].name, (double)d->x[i],
                                        (double)y[i], want);
                        worst = bound > 0 && off / bound > worst ? off / bound : worst;
                }
                print_message("%s: %.2f of the error allowed\n", ops[o].name, worst);
        }
}

/* NaN, infinities, and any bits. */
static void test_wild(void **state) {
        static const float wild[] = {0, -0.0f, 1e-45f, -1e-45f, 1e38f, -3.4e38f, INFINITY,
                -INFINITY, NAN, -NAN, 88.72f, 88.73f, -88.72f, -88.73f, 7, -7, -0.34f, -1e-6f,
                1e19f, -1e19f};
        struct data *d = *state;
        float *x = test_alloc(N * sizeof(*x)), *up = test_alloc(N * sizeof(*up));
        uint64_t rs = 9;

        for (size_t i = 0; i < N; i++) {
                uint32_t u = (uint32_t)test_random(&rs), v = (uint32_t)test_random(&rs);

                memcpy(&x[i], &u, sizeof(u));
                memcpy(&up[i], &v, sizeof(v));
                if (i % 2)
                        x[i] = wild[u % 20];
                if (i % 3 == 0)
                        up[i] = wild[v % 20];
        }
        for (size_t o = 0; o < N_OPS; o++) {
                const float *y;

                compare(d, &ops[o], x, up, N, 3);
                y = run(d, &ops[o], d->ks[0], x, up, N, 0, APART);
                for (size_t i = 0; i < N; i++)
                        if (isnan(x[i]) || (ops[o].up != UNUSED && isnan(up[i])))
                                assert_true(isnan(y[i]));
        }
        free(x);
        free(up);
}

static void test_limits(void **state) {
        struct data *d = *state;
        static const float x[] = {100, -100, 0, 1e30f, -1e30f, 6.999f, 7.5f}, up[] = {-9, 9, 3, 8};
        float y[7];

        for (unsigned i = 0; i < N_KERN; i++) {
                struct kern *k = d->ks[i];

                if (!k)
                        continue;
                /* Far out the gates are open or shut, without an infinity on the way. */
                kern_activate(k, KERN_GELU, x, NULL, y, 5);
                assert_true(y[0] == 100 && y[1] == 0 && y[2] == 0 && y[3] == 1e30f && y[4] == 0);
                kern_activate(k, KERN_SILU, x, NULL, y, 5);
                assert_true(y[0] == 100 && y[1] == 0 && y[2] == 0 && y[3] == 1e30f && y[4] == 0);
                kern_activate(k, KERN_RELU2, x, NULL, y, 3);
                assert_true(y[0] == 10000 && y[1] == 0 && y[2] == 0);
                /* gate at most 7, up within 7 of 0 */
                kern_activate(k, KERN_SWIGLU_OAI, (const float[]){9, 7.5f, 0, 7}, up, y, 4);
                assert_true(fabsf(y[0] + 42) < 1e-3f && fabsf(y[1] - 56) < 1e-3f);
                assert_true(y[2] == 0 && fabsf(y[3] - 56) < 1e-3f);
                memcpy(y, x, sizeof(y));
                kern_softcap(k, y, 30, 5);
                assert_true(fabsf(y[0] - 30 * tanhf(100 / 30.f)) < 1e-5f);
                assert_true(y[2] == 0 && y[3] == 30 && y[4] == -30);
        }
}

/* Rows with a factor each; what lies between them stays. */
static void test_scale_rows(void **state) {
        struct data *d = *state;
        static const size_t widths[] = {1, 15, 16, 33, 70, 9000};

        for (size_t w = 0; w < 6; w++)
                for (unsigned i = 0; i < N_KERN; i++) {
                        size_t n = widths[w], ldx = n + 3, rows = N / ldx < 50 ? N / ldx : 50;
                        float *y = d->y + 1;

                        if (!d->ks[i])
                                continue;
                        memcpy(y, d->x, rows * ldx * sizeof(*y));
                        kern_scale_rows(d->ks[i], y, ldx, n, rows, d->up);
                        for (size_t t = 0; t < rows; t++)
                                for (size_t j = 0; j < ldx; j++) {
                                        float x = d->x[t * ldx + j];

                                        assert_true(y[t * ldx + j] == (j < n ? x * d->up[t] : x));
                                }
                }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_lengths),
                cmocka_unit_test(test_threads),
                cmocka_unit_test(test_exact),
                cmocka_unit_test(test_wild),
                cmocka_unit_test(test_limits),
                cmocka_unit_test(test_scale_rows),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
