/* SPDX-License-Identifier: MIT */
/* Products with a matrix for each head: what kern_matmul() gives for each, and the transposed ones. */
#include "kern-util.h"
#include "quant/quant.h"
#include "util/quantize.h"

#define N_HEADS 5
#define N_TOKENS 19

struct heads {
        struct kern_heads w;
        uint8_t *data;
        float *weights; /* [N_HEADS][n_out][n_in], as the type has them */
};

/* Between the matrices stand other rows, as in a file that holds keys and values in one tensor. */
static struct heads make(uint64_t *rs, uint32_t type, size_t n_in, size_t n_out) {
        size_t row = quant_row_size(type, n_in), gap = 3 * row;
        struct heads r = {.data = test_alloc(N_HEADS * (n_out * row + gap))};
        size_t stride = n_out * row + gap;

        r.weights = test_alloc(N_HEADS * n_out * n_in * sizeof(float));
        memset(r.data, 0xff, N_HEADS * stride);
        for (size_t h = 0; h < N_HEADS; h++) {
                float *f = test_floats(rs, n_in * n_out, 0.5f);

                test_quantize(type, f, r.data + h * stride, n_in * n_out);
                quant_dequantize(
                        type, r.data + h * stride, r.weights + h * n_out * n_in, n_in * n_out);
                free(f);
        }
        r.w = (struct kern_heads){.first = {.data = r.data,
                                          .type = type,
                                          .n_in = n_in,
                                          .n_out = n_out,
                                          .row_size = row},
                .n = N_HEADS,
                .stride = stride};
        return r;
}

static void heads_deinit(struct heads *h) {
        free(h->data);
        free(h->weights);
}

/* Each head alone, one token at a time. */
static void expect_products(struct kern *k, const struct heads *h, const float *x, size_t ldx,
        size_t step_x, const float *y, size_t ldy, size_t step_y) {
        size_t n_in = h->w.first.n_in, n_out = h->w.first.n_out;
        enum kern_act_class c = kern_act_class(h->w.first.type);
        void *scratch = test_alloc64(kern_act_size(c, n_in, 1));
        float *want = test_alloc(n_out * sizeof(*want));

        for (size_t head = 0; head < N_HEADS; head++)
                for (size_t t = 0; t < N_TOKENS; t++) {
                        struct kern_mat m = h->w.first;
                        struct kern_act a;

                        m.data = h->data + head * h->w.stride;
                        kern_act_prepare(
                                k, &a, c, x + t * ldx + head * step_x, ldx, n_in, 1, scratch);
                        kern_matmul(k, &m, &a, NULL, want, n_out);
                        assert_true(test_same(want, y + t * ldy + head * step_y, n_out));
                }
        free(want);
        free(scratch);
}

static const struct { size_t n_in, n_out; } sizes[] = {{32, 5}, {256, 70}, {512, 33}};

static void test_products(void **state) {
        uint64_t rs = 1;

        for (size_t i = 0; i < test_n_quant_types; i++)
                for (size_t s = 0; s < 3; s++) {
                        uint32_t type = test_quant_types[i];
                        size_t n_in = sizes[s].n_in, n_out = sizes[s].n_out;
                        size_t ldx = N_HEADS * (n_in + 3), ldy = N_HEADS * (n_out + 2) + 1;
                        float *x, *y;
                        struct heads h;
                        void *scratch;

                        if (n_in % quant_info(type)->block_values || test_left_out(i + s))
                                continue;
                        h = make(&rs, type, n_in, n_out);
                        x = test_floats(&rs, N_TOKENS * ldx, 3);
                        y = test_alloc(N_TOKENS * ldy * sizeof(*y));
                        scratch = test_alloc64(
                                kern_heads_size(kern_act_class(type), N_HEADS, n_in, N_TOKENS));
                        for (unsigned l = 0; l < KERN_N_ISA; l++)
                                for (unsigned n = 1; n < 4; n += 2) {
                                        struct kern *k = test_kern((enum kern_isa)l, n);

                                        if (!k)
                                                continue;
                                        memset(y, 0xff, N_TOKENS * ldy * sizeof(*y));
                                        kern_heads_matmul(k, &h.w, x, ldx, n_in + 3, N_TOKENS, y,
                                                ldy, n_out + 2, scratch);
                                        expect_products(k, &h, x, ldx, n_in + 3, y, ldy, n_out + 2);
                                        kern_free(k);
                                }
                        free(scratch);
                        free(y);
                        free(x);
                        heads_deinit(&h);
                }
}

static void test_turned(void **state) {
        uint64_t rs = 2;

        for (size_t i = 0; i < test_n_quant_types; i++)
                for (size_t s = 0; s < 3; s++) {
                        uint32_t type = test_quant_types[i];
                        size_t n_in = sizes[s].n_in, n_out = sizes[s].n_out;
                        size_t ldx = N_HEADS * (n_out + 1), ldy = N_HEADS * (n_in + 2);
                        float *x, *y;
                        struct heads h;

                        if (n_in % quant_info(type)->block_values || test_left_out(i + s))
                                continue;
                        h = make(&rs, type, n_in, n_out);
                        x = test_floats(&rs, N_TOKENS * ldx, 3);
                        y = test_alloc(N_TOKENS * ldy * sizeof(*y));
                        for (unsigned l = 0; l < KERN_N_ISA; l++) {
                                struct kern *k = test_kern((enum kern_isa)l, 1 + l);

                                if (!k)
                                        continue;
                                memset(y, 0xff, N_TOKENS * ldy * sizeof(*y));
                                kern_heads_matmul_turned(
                                        k, &h.w, x, ldx, n_out + 1, N_TOKENS, y, ldy, n_in + 2);
                                for (size_t head = 0; head < N_HEADS; head++)
                                        for (size_t at = 0; at < N_TOKENS * n_in; at++) {
                                                size_t t = at / n_in, c = at % n_in;
                                                float sum = 0;

                                                for (size_t o = 0; o < n_out; o++)
                                                        sum = fmaf(
                                                                x[t * ldx + head * (n_out + 1) + o],
                                                                h.weights[(head * n_out + o) *
                                                                                  n_in +
                                                                          c],
                                                                sum);
                                                assert_true(test_same(&sum,
                                                        &y[t * ldy + head * (n_in + 2) + c], 1));
                                        }
                                kern_free(k);
                        }
                        free(y);
                        free(x);
                        heads_deinit(&h);
                }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_products),
                cmocka_unit_test(test_turned),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
