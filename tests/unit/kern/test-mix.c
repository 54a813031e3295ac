/* SPDX-License-Identifier: MIT */
/* What linear attention makes of its rows: equal bits from every instruction set and number of threads,
 * for every length; close to the formulas in double. */
#include "kern-util.h"

#define N_KERN (2 * KERN_N_ISA)
#define MOST 9000 /* elements */

struct data {
        struct kern *ks[N_KERN];          /* instruction set i with 1 and 3 threads */
        float *x, *y, *s, *w, *b, *in[3]; /* [MOST] each; w, b and s positive */
};

struct shape {
        size_t n, n_rows; /* n * n_rows <= MOST */
};
static const struct shape shapes[] = {{1, 1}, {1, 7}, {5, 3}, {7, 1}, {8, 9}, {15, 4}, {16, 16},
        {17, 5}, {33, 3}, {64, 40}, {70, 13}, {128, 64}, {1100, 5}, {9000, 1}};
#define N_SHAPES (sizeof(shapes) / sizeof(shapes[0]))

/* Computes rows into y, which holds a copy of d->y at first. */
typedef void run_fn(struct kern *k, const struct data *d, const struct shape *s, float *y);
/* Element i of row t. */
typedef double want_fn(const struct data *d, const struct shape *s, size_t t, size_t i);

static void run_lerp(struct kern *k, const struct data *d, const struct shape *s, float *y) {
        kern_lerp(k, d->x, d->in[0], d->w, NULL, s->n, s->n_rows, y);
}

static double want_lerp(const struct data *d, const struct shape *s, size_t t, size_t i) {
        return (double)d->x[t * s->n + i] + (double)d->in[0][t * s->n + i] * (double)d->w[i];
}

/* y is dx. */
static void run_lerp_m(struct kern *k, const struct data *d, const struct shape *s, float *y) {
        kern_lerp(k, d->x, y, d->w, d->in[1], s->n, s->n_rows, y);
}

static double want_lerp_m(const struct data *d, const struct shape *s, size_t t, size_t i) {
        double m = (double)d->in[1][t * s->n + i] + (double)d->w[i];

        return (double)d->x[t * s->n + i] + (double)d->y[t * s->n + i] * m;
}

static void run_blend(struct kern *k, const struct data *d, const struct shape *s, float *y) {
        kern_blend(k, y, d->x, d->in[0], s->n * s->n_rows);
}

static double want_blend(const struct data *d, const struct shape *s, size_t t, size_t i) {
        double y = (double)d->y[t * s->n + i];

        return y + ((double)d->x[t * s->n + i] - y) * (double)d->in[0][t * s->n + i];
}

static size_t group_of(size_t n) {
        return n % 16 == 0 ? n / 4 : n % 5 == 0 ? n / 5 : n;
}

static void run_exp(struct kern *k, const struct data *d, const struct shape *s, float *y) {
        kern_exp_scaled(k, y, d->x, group_of(s->n), s->n, s->n_rows);
}

static double want_exp(const struct data *d, const struct shape *s, size_t t, size_t i) {
        return exp((double)(d->y[t * s->n + i] * d->x[i / group_of(s->n)]));
}

static void run_exp_each(struct kern *k, const struct data *d, const struct shape *s, float *y) {
        kern_exp_scaled(k, y, d->x, 1, s->n, s->n_rows);
}

static double want_exp_each(const struct data *d, const struct shape *s, size_t t, size_t i) {
        return exp((double)(d->y[t * s->n + i] * d->x[i]));
}

static void run_l2norm(struct kern *k, const struct data *d, const struct shape *s, float *y) {
        /* Every row but its last element, which belongs to no head. */
        size_t n = s->n > 2 ? s->n - 1 : s->n, heads = n % 2 ? 1 : 2;

        kern_l2norm(k, y, s->n, heads, n / heads, 1e-6f, s->n_rows);
}

static double want_l2norm(const struct data *d, const struct shape *s, size_t t, size_t i) {
        size_t n = s->n > 2 ? s->n - 1 : s->n, heads = n % 2 ? 1 : 2, head = n / heads;
        double sum = 0;

        if (i >= n)
                return (double)d->y[t * s->n + i];
        for (size_t j = i - i % head; j < i - i % head + head; j++)
                sum += (double)d->y[t * s->n + j] * (double)d->y[t * s->n + j];
        return (double)d->y[t * s->n + i] / fmax(sqrt(sum), 1e-6);
}

static void run_group_norm(struct kern *k, const struct data *d, const struct shape *s, float *y) {
        kern_group_norm(k, y, s->n / group_of(s->n), group_of(s->n), d->w, d->b, 64e-5f, s->n_rows);
}

static double want_group_norm(const struct data *d, const struct shape *s, size_t t, size_t i) {
        size_t n = group_of(s->n);
        const float *x = d->y + t * s->n + i - i % n;
        double mean = 0, square = 0;

        for (size_t j = 0; j < n; j++)
                mean += (double)x[j] / (double)n;
        for (size_t j = 0; j < n; j++)
                square += ((double)x[j] - mean) * ((double)x[j] - mean) / (double)n;
        return ((double)x[i % n] - mean) / sqrt(square + (double)64e-5f) * (double)d->w[i] +
               (double)d->b[i];
}

static void run_add_scaled(struct kern *k, const struct data *d, const struct shape *s, float *y) {
        kern_add_scaled_rows(k, y, d->x, d->s, s->n, s->n_rows);
}

static double want_add_scaled(const struct data *d, const struct shape *s, size_t t, size_t i) {
        return (double)d->y[t * s->n + i] + (double)d->s[t] * (double)d->x[t * s->n + i];
}

/* From zeros, as one run. */
static void run_shift(struct kern *k, const struct data *d, const struct shape *s, float *y) {
        float *next = test_alloc((s->n + 16) * sizeof(*next));
        struct kern_run run = {.n = s->n_rows, .next = next};

        kern_token_shift(k, &run, 1, 64, d->x, s->n, y);
        assert_memory_equal(next + 16, d->x + (s->n_rows - 1) * s->n, s->n * sizeof(*next));
        free(next);
}

static double want_shift(const struct data *d, const struct shape *s, size_t t, size_t i) {
        return (t ? (double)d->x[(t - 1) * s->n + i] : 0) - (double)d->x[t * s->n + i];
}

/* Heads of at most 64. k is in place, kk and bonus go where the test of them looks. */
static struct kern_wkv keys_shape(const struct shape *s) {
        size_t n = s->n > 64 ? 1 : s->n;

        return (struct kern_wkv){s->n / n, n, 0};
}

static void keys(struct kern *k, const struct data *d, const struct shape *s, float *key, float *kk,
        float *bonus) {
        struct kern_wkv x = keys_shape(s);
        struct kern_wkv7_keys y = {d->w, d->b, d->x, d->in[0], d->in[1], key, kk, bonus};

        memcpy(key, d->y, s->n * s->n_rows * sizeof(*key));
        kern_wkv7_keys(k, &x, s->n_rows, &y);
}

static void run_keys_k(struct kern *k, const struct data *d, const struct shape *s, float *y) {
        float *kk = test_alloc(MOST * sizeof(*kk)), *bonus = test_alloc(MOST * sizeof(*kk));

        keys(k, d, s, y, kk, bonus);
        free(bonus);
        free(kk);
}

static double want_keys_k(const struct data *d, const struct shape *s, size_t t, size_t i) {
        return (double)d->y[t * s->n + i] *
               (1 + ((double)d->in[1][t * s->n + i] - 1) * (double)d->b[i]);
}

static void run_keys_kk(struct kern *k, const struct data *d, const struct shape *s, float *y) {
        float *key = test_alloc(MOST * sizeof(*key)), *bonus = test_alloc(MOST * sizeof(*key));

        keys(k, d, s, key, y, bonus);
        free(bonus);
        free(key);
}

static double want_keys_kk(const struct data *d, const struct shape *s, size_t t, size_t i) {
        size_t n = keys_shape(s).n_key, head = i - i % n;
        double sum = 0;

        for (size_t j = head; j < head + n; j++)
                sum += pow((double)d->y[t * s->n + j] * (double)d->w[j], 2);
        return (double)d->y[t * s->n + i] * (double)d->w[i] / fmax(sqrt(sum), 1e-12);
}

/* The bonus of a head stands for all of it. */
static void run_keys_bonus(struct kern *k, const struct data *d, const struct shape *s, float *y) {
        float *key = test_alloc(MOST * sizeof(*key)), *kk = test_alloc(MOST * sizeof(*key));
        float *bonus = test_alloc(MOST * sizeof(*key));
        size_t n = keys_shape(s).n_key;

        keys(k, d, s, key, kk, bonus);
        for (size_t i = 0; i < s->n * s->n_rows; i++)
                y[i] = bonus[i / n];
        free(bonus);
        free(kk);
        free(key);
}

static double want_keys_bonus(const struct data *d, const struct shape *s, size_t t, size_t i) {
        size_t n = keys_shape(s).n_key, head = i - i % n;
        double sum = 0;

        for (size_t j = head; j < head + n; j++)
                sum += want_keys_k(d, s, t, j) * (double)d->in[0][t * s->n + j] * (double)d->x[j];
        return sum;
}

static const struct op {
        const char *name;
        run_fn *run;
        want_fn *want;
} ops[] = {
        {"lerp", run_lerp, want_lerp},
        {"lerp with deltas", run_lerp_m, want_lerp_m},
        {"blend", run_blend, want_blend},
        {"exp", run_exp, want_exp},
        {"exp, a factor each", run_exp_each, want_exp_each},
        {"l2norm", run_l2norm, want_l2norm},
        {"group norm", run_group_norm, want_group_norm},
        {"add scaled", run_add_scaled, want_add_scaled},
        {"token shift", run_shift, want_shift},
        {"wkv7 k", run_keys_k, want_keys_k},
        {"wkv7 kk", run_keys_kk, want_keys_kk},
        {"wkv7 bonus", run_keys_bonus, want_keys_bonus},
};
#define N_OPS (sizeof(ops) / sizeof(ops[0]))

static int setup(void **state) {
        struct data *d = test_alloc(sizeof(*d));
        uint64_t rs = 31;

        for (unsigned i = 0; i < N_KERN; i++)
                d->ks[i] = test_kern((enum kern_isa)(i % KERN_N_ISA), i < KERN_N_ISA ? 1 : 3);
        d->x = test_floats(&rs, MOST, 2);
        d->y = test_floats(&rs, MOST, 2);
        d->s = test_floats(&rs, MOST, 1);
        d->w = test_floats(&rs, MOST, 1);
        d->b = test_floats(&rs, MOST, 1);
        for (size_t i = 0; i < 3; i++)
                d->in[i] = test_floats(&rs, MOST, 1);
        *state = d;
        return 0;
}

static int teardown(void **state) {
        struct data *d = *state;

        for (unsigned i = 0; i < N_KERN; i++)
                kern_free(d->ks[i]);
        for (size_t i = 0; i < 3; i++)
                free(d->in[i]);
        free(d->x);
        free(d->y);
        free(d->s);
        free(d->w);
        free(d->b);
        free(d);
        return 0;
}

/* All instruction sets and threads against the first, which is compared with the formula if @close. */
static void compare(const struct data *d, const struct op *op, const struct shape *s, bool close) {
        size_t n = s->n * s->n_rows, size = (n + 1) * sizeof(float);
        float *first = test_alloc(size), *y = test_alloc(size);

        for (unsigned k = 0; k < N_KERN; k++) {
                float *to = k ? y : first;

                if (!d->ks[k])
                        continue;
                memcpy(to, d->y, n * sizeof(*to));
                to[n] = 77;
                op->run(d->ks[k], d, s, to);
                if (!test_same(first, to, n + 1))
                        fail_msg("%s, %zu rows of %zu", op->name, s->n_rows, s->n);
        }
        assert_true(first[n] == 77);
        for (size_t i = 0; close && i < n; i++) {
                double want = op->want(d, s, i / s->n, i % s->n);

                if (!(fabs((double)first[i] - want) <= 3e-5 * (1 + fabs(want))))
                        fail_msg("%s, %zu rows of %zu, at %zu: %g, not %g", op->name, s->n_rows,
                                s->n, i, (double)first[i], want);
        }
        free(y);
        free(first);
}

static void test_all(void **state) {
        const struct data *d = *state;

        for (size_t o = 0; o < N_OPS; o++)
                for (size_t i = 0; i < N_SHAPES; i++)
                        compare(d, &ops[o], &shapes[i], true);
}

static void test_wild(void **state) {
        static const float wild[] = {
                NAN, INFINITY, -INFINITY, 0, -0.0f, 1e-45f, 3.4e38f, 100, -100};
        struct data d = *(struct data *)*state;
        float *to[] = {d.x, d.y, d.w, d.b, d.s, d.in[0], d.in[1]}, *kept = test_alloc(MOST * 4);
        uint64_t rs = 8;

        for (size_t p = 0; p < 7; p++) {
                memcpy(kept, to[p], MOST * sizeof(*kept));
                for (size_t i = 0; i < MOST; i += 1 + test_random(&rs) % 40)
                        to[p][i] = wild[test_random(&rs) % 9];
                for (size_t o = 0; o < N_OPS; o++)
                        for (size_t i = 0; i < N_SHAPES; i++)
                                compare(&d, &ops[o], &shapes[i], false);
                memcpy(to[p], kept, MOST * sizeof(*kept));
        }
        free(kept);
}

/* A zero head has no direction, and gives no NaN. */
static void test_zero_head(void **state) {
        const struct data *d = *state;

        for (unsigned k = 0; k < N_KERN; k++) {
                float x[20] = {0};

                if (!d->ks[k])
                        continue;
                kern_l2norm(d->ks[k], x, 20, 1, 20, 1e-6f, 1);
                for (size_t i = 0; i < 20; i++)
                        assert_true(x[i] == 0);
        }
}

/* Runs in any order of states, cut anywhere: as one. */
static void test_shift_cut(void **state) {
        const struct data *d = *state;
        static const size_t widths[] = {3, 64, 1500};

        for (unsigned k = 0; k < N_KERN; k++)
                for (size_t w = 0; d->ks[k] && w < 3; w++) {
                        size_t n = widths[w], size = n * sizeof(float);
                        float *one = test_alloc(5 * size), *y = test_alloc(5 * size);
                        float *a = test_alloc(64 + size), *b = test_alloc(64 + size);
                        float *c = test_alloc(64 + size);
                        struct kern_run whole = {.n = 5, .next = a};
                        struct kern_run cut[2] = {
                                {.n = 2, .next = b}, {.first = 2, .n = 3, .state = b, .next = c}};

                        kern_token_shift(d->ks[0], &whole, 1, 64, d->x, n, one);
                        kern_token_shift(d->ks[k], &cut[0], 1, 64, d->x, n, y);
                        kern_token_shift(d->ks[k], &cut[1], 1, 64, d->x, n, y);
                        assert_memory_equal(one, y, 5 * size);
                        assert_memory_equal(a + 16, c + 16, size);
                        /* Side by side: the second sequence begins with the state of the first. */
                        cut[1].state = a;
                        kern_token_shift(d->ks[k], cut, 2, 64, d->x, n, y);
                        assert_memory_equal(one, y, 2 * size);
                        assert_memory_equal(one + 3 * n, y + 3 * n, 2 * size);
                        for (size_t i = 0; i < n; i++)
                                assert_true(y[2 * n + i] == d->x[4 * n + i] - d->x[2 * n + i]);
                        free(one);
                        free(y);
                        free(a);
                        free(b);
                        free(c);
                }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_all),
                cmocka_unit_test(test_wild),
                cmocka_unit_test(test_zero_head),
                cmocka_unit_test(test_shift_cut),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
