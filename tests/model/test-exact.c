/* SPDX-License-Identifier: MIT */
/*
 * I2 (exact.h) over random models of every weight type and llama variant.
 */
#include "base/util.h"
#include "exact.h"
#include "quant/quant.h"
#include "util/model-rig.h"
#include "util/test.h"

struct variant {
        const char *name;
        struct llama_spec spec;
        enum kern_kv_type kv;
};

static struct llama_spec small(uint32_t type) {
        struct llama_spec s = LLAMA_SPEC_SMALL;

        s.type = s.embd_type = type;
        return s;
}

/* Rows of one block of 256 values; one layer, so that the test stays short. */
static struct llama_spec wide(uint32_t type) {
        struct llama_spec s = small(type);

        s.n_layer = 1;
        s.n_embd = s.n_ff = 256;
        s.head_dim = 64;
        return s;
}

static size_t variants(struct variant *v) {
        size_t n = 0;
        struct variant base[] = {
                {"f32", small(QUANT_F32), KERN_KV_F32},
                {"f16", small(QUANT_F16), KERN_KV_F16},
                {"bf16", small(QUANT_BF16), KERN_KV_F16},
                {"q8_0", small(QUANT_Q8_0), KERN_KV_F16},
                {"q4_0", small(QUANT_Q4_0), KERN_KV_F32},
                {"q4_1", small(QUANT_Q4_1), KERN_KV_F16},
                {"q5_0", small(QUANT_Q5_0), KERN_KV_F16},
                {"q5_1", small(QUANT_Q5_1), KERN_KV_F16},
                {"iq4_nl", small(QUANT_IQ4_NL), KERN_KV_F16},
                {"mxfp4", small(QUANT_MXFP4), KERN_KV_F16},
                {"q2_k", wide(QUANT_Q2_K), KERN_KV_F16},
                {"q3_k", wide(QUANT_Q3_K), KERN_KV_F16},
                {"q4_k", wide(QUANT_Q4_K), KERN_KV_F16},
                {"q5_k", wide(QUANT_Q5_K), KERN_KV_F16},
                {"q6_k", wide(QUANT_Q6_K), KERN_KV_F16},
                {"iq4_xs", wide(QUANT_IQ4_XS), KERN_KV_F16},
        };

        for (size_t i = 0; i < ARRAY_SIZE(base); i++)
                v[n++] = base[i];

        v[n] = (struct variant){
                "biases, rope factors, no grouping, odd sizes", small(QUANT_F16), KERN_KV_F16};
        v[n].spec.n_kv_head = 4;
        v[n].spec.head_dim = 24;
        v[n].spec.n_ff = 172;
        v[n].spec.biases = v[n].spec.rope_factors = true;
        n++;
        v[n] = (struct variant){"experts", small(QUANT_Q8_0), KERN_KV_F16};
        v[n].spec.n_expert = 6;
        v[n].spec.n_expert_used = 2;
        n++;
        v[n] = (struct variant){"fused, one KV head, f32 experts", small(QUANT_F32), KERN_KV_F16};
        v[n].spec.n_expert = 4;
        v[n].spec.n_expert_used = 3;
        v[n].spec.n_kv_head = 1;
        v[n].spec.fused = v[n].spec.tied = true;
        n++;
        /* The router is F32: one input is prepared for two classes of matrices. */
        v[n] = (struct variant){"experts of q4_k, output of q5_0", wide(QUANT_Q4_K), KERN_KV_F16};
        v[n].spec.embd_type = QUANT_Q5_0;
        v[n].spec.n_expert = 4;
        v[n].spec.n_expert_used = 2;
        n++;
        v[n] = (struct variant){"fused with biases, yarn, tied", small(QUANT_Q4_0), KERN_KV_F16};
        v[n].spec.fused = v[n].spec.biases = v[n].spec.tied = true;
        v[n].spec.embd_type = QUANT_Q8_0;
        v[n].spec.rope_scaling = "yarn";
        v[n].spec.rope_factor = 4.0f;
        n++;
        v[n] = (struct variant){"linear scaling, wide heads", small(QUANT_Q8_0), KERN_KV_F16};
        v[n].spec.head_dim = 128;
        v[n].spec.rope_scaling = "linear";
        v[n].spec.rope_factor = 2.0f;
        n++;
        v[n] = (struct variant){"memory of q8_0", small(QUANT_Q8_0), KERN_KV_Q8_0};
        v[n].spec.head_dim = 32;
        n++;
        v[n] = (struct variant){"memory of q8_0, wide heads", small(QUANT_F16), KERN_KV_Q8_0};
        v[n].spec.head_dim = 160;
        v[n].spec.n_kv_head = 1;
        n++;
        return n;
}

static void test_variant(void **state) {
        const struct variant *v = *state;
        struct rig r;

        rig_open(&r, &v->spec, v->kv);
        exact_check(&r, EXACT_FULL);
        rig_close(&r);
}

int main(void) {
        struct variant v[32];
        struct CMUnitTest tests[ARRAY_SIZE(v)];
        size_t n = variants(v);

        for (size_t i = 0; i < n; i++)
                tests[i] = (struct CMUnitTest){
                        .name = v[i].name, .test_func = test_variant, .initial_state = &v[i]};
        return _cmocka_run_group_tests("model", tests, n, NULL, NULL);
}
