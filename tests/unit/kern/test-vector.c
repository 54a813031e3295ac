/* SPDX-License-Identifier: MIT */
/* Kernels on rows and elements: equal bits from every instruction set and number of threads, close
 * to the exact results. */
#include "kern-util.h"

#define N_MAX 70000

struct data {
        struct kern *ks[3 * KERN_N_ISA]; /* instruction set i with 1, 2 and 3 threads */
        float *x, *w, *cos, *sin;
};

static int setup(void **state) {
        struct data *d = test_alloc(sizeof(*d));
        uint64_t rs = 7;

        for (unsigned i = 0; i < 3 * KERN_N_ISA; i++)
                d->ks[i] = test_kern((enum kern_isa)(i % KERN_N_ISA), i / KERN_N_ISA + 1);
        d->x = test_floats(&rs, N_MAX, 5);
        d->w = test_floats(&rs, N_MAX, 2);
        d->cos = test_floats(&rs, N_MAX, 1);
        d->sin = test_floats(&rs, N_MAX, 1);
        *state = d;
        return 0;
}

static int teardown(void **state) {
        struct data *d = *state;

        for (unsigned i = 0; i < 3 * KERN_N_ISA; i++)
                kern_free(d->ks[i]);
        free(d->x);
        free(d->w);
        free(d->cos);
        free(d->sin);
        free(d);
        return 0;
}

static float *copy(const float *x, size_t n) {
        float *y = test_alloc(n * sizeof(*y));

        if (n)
                memcpy(y, x, n * sizeof(*y));
        return y;
}

/* Run @call on a copy of x for each kern; all results must equal the first, in *ret. */
#define FOR_EACH_KERN(d, n, y0, call)                                                              \
        do {                                                                                       \
                (y0) = NULL;                                                                       \
                for (unsigned _i = 0; _i < 3 * KERN_N_ISA; _i++) {                                 \
                        struct kern *k = (d)->ks[_i];                                              \
                        float *y = copy((d)->x, (n));                                              \
                        if (k) {                                                                   \
                                call;                                                              \
                                if (!(y0))                                                         \
                                        (y0) = copy(y, (n));                                       \
                                if (!test_same((y0), y, (n)))                                      \
                                        fail_msg("%s, %zu", kern_isa_name(kern_isa(k)),            \
                                                (size_t)(n));                                      \
                        }                                                                          \
                        free(y);                                                                   \
                }                                                                                  \
        } while (0)

static const size_t sizes[] = {1, 2, 7, 15, 16, 17, 31, 33, 64, 100, 1000, 16384, 16385, 50001};
#define N_SIZES 14

static void test_rmsnorm(void **state) {
        struct data *d = *state;
        float *y0;

        for (size_t i = 0; i < N_SIZES; i++) {
                size_t n = sizes[i], nt = n < 1000 ? 33 : 1;
                double sum = 0;

                FOR_EACH_KERN(d, n * nt, y0, kern_rmsnorm(k, y, n, d->w, 1e-5f, n, nt, y, n));
                for (size_t j = 0; j < n; j++)
                        sum += (double)d->x[j] * (double)d->x[j];
                for (size_t j = 0; j < n; j++) {
                        double want =
                                (double)d->x[j] / sqrt(sum / (double)n + 1e-5) * (double)d->w[j];

                        assert_true(fabs(want - (double)y0[j]) <= 1e-5 * fabs(want) + 1e-30);
                }
                free(y0);
                FOR_EACH_KERN(d, n * nt, y0, kern_rmsnorm(k, d->x, n, NULL, 1e-5f, n, nt, y, n));
                free(y0);
        }
}

static void check_layernorm(
        const float *x, const float *w, const float *b, size_t n, double off, const float *y) {
        double mean = 0, square = 0;

        for (size_t j = 0; j < n; j++)
                mean += (double)x[j] / (double)n;
        for (size_t j = 0; j < n; j++)
                square += ((double)x[j] - mean) * ((double)x[j] - mean);
        for (size_t j = 0; j < n; j++) {
                double want = ((double)x[j] - mean) / sqrt(square / (double)n + 1e-3);

                want = w ? want * (double)w[j] : want;
                want = b ? want + (double)b[j] : want;
                if (!(fabs(want - (double)y[j]) <= off))
                        fail_msg("%zu of %zu: %a, not %a", j, n, (double)y[j], want);
        }
}

static void test_layernorm(void **state) {
        struct data *d = *state;
        const float *ws[] = {d->w, NULL}, *bs[] = {d->cos, NULL};
        float *y0, *far = copy(d->x, 1000), *saved = d->x;

        for (size_t i = 0; i < N_SIZES; i++)
                for (int c = 0; c < 4; c++) {
                        size_t n = sizes[i], nt = n < 1000 ? 33 : 1, ldx = nt > 1 ? n + 2 : n;
                        const float *w = ws[c % 2], *b = bs[c / 2];

                        FOR_EACH_KERN(d, ldx * nt, y0,
                                kern_layernorm(k, y, ldx, w, b, 1e-3f, n, nt, y, ldx));
                        for (size_t t = 0; t < nt; t++)
                                check_layernorm(d->x + t * ldx, w, b, n, 3e-5, y0 + t * ldx);
                        for (size_t j = n; j < ldx; j++) /* between the rows */
                                assert_true(y0[j] == d->x[j]);
                        free(y0);
                        FOR_EACH_KERN(
                                d, n, y0, kern_layernorm(k, d->x, n, w, b, 1e-3f, n, 1, y, n));
                        check_layernorm(d->x, w, b, n, 3e-5, y0);
                        free(y0);
                }
        /* A mean far from 0 costs its own rounding, not that of a square. */
        for (size_t j = 0; j < 1000; j++)
                far[j] += 3000;
        d->x = far;
        FOR_EACH_KERN(d, 1000, y0, kern_layernorm(k, y, 1000, NULL, NULL, 1e-3f, 1000, 1, y, 1000));
        check_layernorm(far, NULL, NULL, 1000, 1e-3, y0);
        d->x = saved;
        free(y0);
        free(far);
}

static void test_rope(void **state) {
        static const size_t rots[] = {2, 4, 6, 14, 16, 18, 32, 34, 64, 80, 128};
        struct data *d = *state;
        float *y0;

        for (size_t i = 0; i < 11; i++)
                for (int neox = 0; neox < 2; neox++) {
                        size_t n_rot = rots[i], hd = n_rot + (i % 3) * 2, nh = 3, nt = 37;
                        size_t ldx = nh * hd + 5, n = ldx * nt, half = n_rot / 2;

                        FOR_EACH_KERN(d, n, y0,
                                kern_rope(k, y, ldx, nh, hd, n_rot, neox, d->cos, d->sin, nt));
                        for (size_t t = 0; t < nt; t++)
                                for (size_t j = 0; j < half; j++) {
                                        const float *x = d->x + t * ldx + hd;
                                        size_t a = neox ? j : 2 * j, b = neox ? j + half : a + 1;
                                        double c = (double)d->cos[t * half + j];
                                        double s = (double)d->sin[t * half + j];
                                        double xa = (double)x[a], xb = (double)x[b];
                                        const float *y = y0 + t * ldx + hd;

                                        assert_true(fabs(xa * c - xb * s - (double)y[a]) < 1e-5);
                                        assert_true(fabs(xa * s + xb * c - (double)y[b]) < 1e-5);
                                }
                        /* between and behind the heads nothing changed */
                        for (size_t j = nh * hd; j < ldx; j++)
                                assert_true(y0[j] == d->x[j]);
                        for (size_t j = n_rot; j < hd; j++)
                                assert_true(y0[j] == d->x[j]);
                        free(y0);
                }
}

/* A part of each head turns, with cos and sin of any magnitude (YaRN multiplies them). */
static void test_rope_partial(void **state) {
        static const size_t shapes[][2] = {{32, 128}, {64, 80}, {24, 96}, {10, 64}, {128, 512}};
        struct data *d = *state;
        float *y0;

        for (size_t i = 0; i < 5; i++)
                for (int neox = 0; neox < 2; neox++) {
                        size_t n_rot = shapes[i][0], hd = shapes[i][1], half = n_rot / 2, nh = 5;

                        FOR_EACH_KERN(d, 3 * nh * hd, y0,
                                kern_rope(k, y, nh * hd, nh, hd, n_rot, neox, d->x, d->w, 3));
                        for (size_t j = 0; j < 3 * nh * hd; j++) {
                                size_t t = j / (nh * hd), c = j % hd;
                                bool second = neox ? c >= half : c % 2;
                                size_t pair = neox ? c % half : c / 2;
                                size_t other = neox ? half : 1;
                                double co, si, want = (double)d->x[j];

                                if (c < n_rot) {
                                        co = (double)d->x[t * half + pair];
                                        si = (double)d->w[t * half + pair];
                                        want = second ? (double)d->x[j - other] * si + want * co
                                                      : want * co - (double)d->x[j + other] * si;
                                }
                                assert_true(
                                        fabs(want - (double)y0[j]) < (c < n_rot ? 2e-5 : 1e-30));
                        }
                        free(y0);
                }
}

static void test_elements(void **state) {
        struct data *d = *state;
        float *y0;

        for (size_t i = 0; i < N_SIZES; i++) {
                size_t n = sizes[i];

                FOR_EACH_KERN(d, n, y0, kern_activate(k, KERN_SILU, y, d->w, y, n));
                for (size_t j = 0; j < n; j++) {
                        double g = (double)d->x[j], u = (double)d->w[j];

                        assert_true(fabs(g / (1 + exp(-g)) * u - (double)y0[j]) < 1e-5);
                }
                free(y0);
                FOR_EACH_KERN(d, n, y0, kern_add(k, y, d->w, n));
                for (size_t j = 0; j < n; j++)
                        assert_true(y0[j] == d->x[j] + d->w[j]);
                free(y0);
                FOR_EACH_KERN(d, n, y0, kern_add_scaled(k, y, d->w, 0.3f, n));
                for (size_t j = 0; j < n; j++)
                        assert_true(y0[j] == fmaf(0.3f, d->w[j], d->x[j]));
                free(y0);
        }
}

static void test_softmax(void **state) {
        struct data *d = *state;
        float *y0;

        for (size_t i = 0; i < N_SIZES; i++) {
                size_t n = sizes[i];
                double sum = 0;

                FOR_EACH_KERN(d, n, y0, kern_softmax(k, y, n));
                for (size_t j = 0; j < n; j++)
                        sum += exp((double)d->x[j]);
                for (size_t j = 0; j < n; j++) {
                        double want = exp((double)d->x[j]) / sum;

                        assert_true(fabs(want - (double)y0[j]) <= 4e-6 * want);
                }
                free(y0);
        }
        kern_softmax(d->ks[0], NULL, 0);
}

/* Every length of the tail behind a vector's groups, each with its own rounding, several times. */
static void test_tails(void **state) {
        struct data *d = *state;
        float *saved = d->x, *y0;

        for (size_t n = 1; n < 80; n++)
                for (size_t round = 0; round < 12; round++) {
                        d->x = saved + (n * 12 + round) * 50;
                        FOR_EACH_KERN(d, n, y0, kern_softmax(k, y, n));
                        free(y0);
                        FOR_EACH_KERN(d, n, y0, kern_rmsnorm(k, y, n, d->w + n, 1e-5f, n, 1, y, n));
                        free(y0);
                        FOR_EACH_KERN(d, n, y0,
                                kern_layernorm(k, y, n, d->w + n, d->cos, 1e-5f, n, 1, y, n));
                        free(y0);
                }
        d->x = saved;
}

/* The scalar definition over its range. */
static void test_exp(void **state) {
        double worst = 0;

        for (float x = -87.3f; x < 88.7f; x += 0.00037f) {
                double want = exp((double)x);
                double ulp = want * 0x1p-23, off = fabs(want - (double)kern_exp_f32(x)) / ulp;

                worst = off > worst ? off : worst;
        }
        print_message("greatest error of exp: %.3f ulp\n", worst);
        assert_true(worst < 1.5);
        assert_true(kern_exp_f32(0) == 1 && kern_exp_f32(-0.0f) == 1);
        assert_true(kern_exp_f32(-88) == 0 && kern_exp_f32(-INFINITY) == 0);
        assert_true(kern_exp_f32(89) == INFINITY && kern_exp_f32(INFINITY) == INFINITY);
        assert_true(isnan(kern_exp_f32(NAN)) && isnan(kern_exp_f32(-NAN)));
        assert_true(kern_exp_f32(1e-45f) == 1);
}

/* exp of every instruction set at all magnitudes and at wild values: silu is its thinnest wrapper.
 */
static void test_wild(void **state) {
        static const float wild[] = {0, -0.0f, 1e-45f, -1e-45f, 1e38f, -3.4e38f, INFINITY,
                -INFINITY, NAN, -NAN, 88.72f, 88.73f, 87.33f, 87.34f, -88.72f, -88.73f, 127.5f};
        struct data *d = *state;
        float *x = copy(d->x, 20000), *saved = d->x, *y0;
        uint64_t rs = 9;

        for (size_t i = 0; i < 20000; i++) {
                uint32_t u = (uint32_t)test_random(&rs);

                if (i % 3 == 0)
                        x[i] = wild[u % 17];
                else if (i % 3 == 1)
                        memcpy(&x[i], &u, sizeof(u));
                else
                        x[i] = test_uniform(&rs) * 100;
        }
        d->x = x;
        FOR_EACH_KERN(d, 20000, y0, kern_activate(k, KERN_SILU, y, d->w, y, 20000));
        free(y0);
        for (size_t i = 0; i < 100; i++) {
                d->x = x + i * 50;
                FOR_EACH_KERN(d, 50, y0, kern_softmax(k, y, 50));
                free(y0);
                FOR_EACH_KERN(d, 50, y0, kern_rmsnorm(k, y, 50, d->w, 1e-5f, 50, 1, y, 50));
                free(y0);
                FOR_EACH_KERN(d, 50, y0, kern_layernorm(k, y, 50, d->w, d->w, 1e-5f, 50, 1, y, 50));
                free(y0);
        }
        d->x = saved;
        free(x);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rmsnorm),
                cmocka_unit_test(test_layernorm),
                cmocka_unit_test(test_rope),
                cmocka_unit_test(test_rope_partial),
                cmocka_unit_test(test_elements),
                cmocka_unit_test(test_softmax),
                cmocka_unit_test(test_tails),
                cmocka_unit_test(test_exp),
                cmocka_unit_test(test_wild),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
