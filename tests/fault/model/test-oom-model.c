/* SPDX-License-Identifier: MIT */
/* Every allocation of loading a model and of making its activations may fail. */
#include <stdlib.h>

#include "base/err.h"
#include "base/util.h"
#include "fault/fault.h"
#include "gguf/gguf.h"
#include "model/model.h"
#include "util/arch-build.h"
#include "util/llama-build.h"
#include "util/test.h"

/* @b is freed. */
static void check_open(struct gguf_build *b) {
        struct gguf *g = NULL;
        uint8_t *bytes;
        size_t size;

        bytes = gguf_build_bytes(b, &size);
        gguf_build_free(b);
        assert_int_equal(gguf_parse(&g, bytes, size, NULL), 0);
        for (long n = 0;; n++) {
                struct model *m = NULL;
                struct err e;
                int r;

                fault_alloc_at(n);
                r = model_open(&m, g, &(struct model_options){0}, &e);
                if (!fault_alloc_hit()) {
                        assert_int_equal(r, 0);
                        assert_true(n > 10);
                        model_free(m);
                        break;
                }
                assert_int_equal(r, -ERR_NOMEM);
                assert_int_equal(e.code, ERR_NOMEM);
                assert_null(m);
        }
        fault_alloc_at(-1);
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
        for (long n = 0;; n++) {
                struct model_work *w = NULL;
                int r;

                fault_alloc_at(n);
                r = model_work_new(&w, m, k, 16, 4, NULL);
                if (!fault_alloc_hit()) {
                        assert_int_equal(r, 0);
                        model_work_free(w);
                        break;
                }
                assert_int_equal(r, -ERR_NOMEM);
                assert_null(w);
        }
        fault_alloc_at(-1);
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
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
