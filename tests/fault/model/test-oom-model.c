/* SPDX-License-Identifier: MIT */
/* Every allocation of loading a model and of making its activations may fail. */
#include <stdlib.h>

#include "base/err.h"
#include "base/util.h"
#include "fault/loop.h"
#include "gguf/gguf.h"
#include "model/model.h"
#include "quant/quant.h"
#include "util/arch-build.h"
#include "util/llama-build.h"
#include "util/test.h"

#define MAX_ALLOCATIONS 10000

/* @b is freed. */
static void check_open(struct gguf_build *b) {
        struct fault_loop loop = {.at_least = 11, .at_most = MAX_ALLOCATIONS};
        struct gguf *g = NULL;
        uint8_t *bytes;
        size_t size;

        bytes = gguf_build_bytes(b, &size);
        gguf_build_free(b);
        assert_int_equal(gguf_parse(&g, bytes, size, NULL), 0);
        while (fault_loop_next(&loop)) {
                struct model *m = NULL;
                struct err e = {0};
                int r;

                fault_loop_arm(&loop);
                r = model_open(&m, g, &(struct model_options){0}, &e);
                fault_loop_disarm(&loop);
                fault_loop_expect(&loop, r, &e);
                assert_int_equal(!!m, r == 0);
                model_free(m);
        }
        gguf_free(g);
        free(bytes);
}

static void test_open(void **state) {
        struct llama_spec s = LLAMA_SPEC_SMALL;

        s.biases = s.rope_factors = true;
        check_open(llama_build(&s));
}

/* Each kind of first branch. */
static void test_open_mixers(void **state) {
        static const char *const models[] = {"falcon-mamba", "jamba", "falcon-h1",
                "nemotron_h_moe-latent", "lfm2", "qwen3next-grouped", "qwen35moe", "kimi-linear",
                "rwkv6-apart", "rwkv7"};

        for (size_t i = 0; i < ARRAY_SIZE(models); i++)
                check_open(arch_build(models[i], NULL));
}

static void test_work(void **state) {
        struct fault_loop loop = {.at_least = 1, .at_most = MAX_ALLOCATIONS};
        struct llama_spec s = LLAMA_SPEC_SMALL;
        struct gguf_build *b = llama_build(&s);
        struct gguf *g = NULL;
        struct model *m = NULL;
        struct kern *k = NULL;
        uint8_t *bytes;
        size_t size;

        bytes = gguf_build_bytes(b, &size);
        gguf_build_free(b);
        assert_int_equal(gguf_parse(&g, bytes, size, NULL), 0);
        assert_int_equal(model_open(&m, g, &(struct model_options){0}, NULL), 0);
        assert_int_equal(kern_new(&k, 1, KERN_GENERIC, NULL), 0);
        while (fault_loop_next(&loop)) {
                struct model_work *w = NULL;
                int r;

                fault_loop_arm(&loop);
                r = model_work_new(&w, m, k, 16, 4, NULL);
                fault_loop_disarm(&loop);
                fault_loop_expect(&loop, r, NULL);
                assert_int_equal(!!w, r == 0);
                model_work_free(w);
        }
        kern_free(k);
        model_free(m);
        gguf_free(g);
        free(bytes);
}

/* Repacking that has no memory leaves the model as it was. */
static void test_repack(void **state) {
        struct llama_spec s = LLAMA_SPEC_SMALL;
        struct fault_loop loop;
        struct gguf_build *b;
        struct gguf *g = NULL;
        struct model *m = NULL;
        struct kern *k = NULL;
        struct model_info i;
        uint8_t *bytes;
        size_t size;

        s.type = s.embd_type = QUANT_Q8_0;
        b = llama_build(&s);
        bytes = gguf_build_bytes(b, &size);
        gguf_build_free(b);
        assert_int_equal(gguf_parse(&g, bytes, size, NULL), 0);
        assert_int_equal(model_open(&m, g, &(struct model_options){0}, NULL), 0);
        assert_int_equal(kern_new(&k, 1, KERN_N_ISA, NULL), 0);
        for (int before = 0; before < 2; before++) { /* without a copy, and with one */
                loop = (struct fault_loop){.at_least = 1, .at_most = MAX_ALLOCATIONS};
                while (fault_loop_next(&loop)) {
                        int r;

                        assert_int_equal(model_repack(m, before ? k : NULL, NULL), 0);
                        fault_loop_arm(&loop);
                        r = model_repack(m, k, NULL);
                        fault_loop_disarm(&loop);
                        fault_loop_expect(&loop, r, NULL);
                        model_info(m, &i);
                        assert_int_equal(i.repacked_size > 0,
                                (r == 0 || before) && model_repacked_size(m, k) > 0);
                }
        }
        kern_free(k);
        model_free(m);
        gguf_free(g);
        free(bytes);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_open),
                cmocka_unit_test(test_open_mixers),
                cmocka_unit_test(test_work),
                cmocka_unit_test(test_repack),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
