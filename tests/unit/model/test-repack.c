/* SPDX-License-Identifier: MIT */
/* Which weights are repacked, and that a model without them is whole. (That bits stay: tests/model/exact.c.) */
#include "base/err.h"
#include "base/util.h"
#include "gguf/gguf.h"
#include "kern/kern.h"
#include "model/internal.h"
#include "model/model.h"
#include "quant/quant.h"
#include "util/llama-build.h"
#include "util/test.h"
#include <stdlib.h>

struct opened {
        uint8_t *bytes;
        struct gguf *gguf;
        struct model *model;
        struct kern *kern;
};

static void open_spec(struct opened *o, const struct llama_spec *s, enum kern_isa isa) {
        struct gguf_build *b = llama_build(s);
        size_t size;

        o->bytes = gguf_build_bytes(b, &size);
        gguf_build_free(b);
        assert_int_equal(gguf_parse(&o->gguf, o->bytes, size, NULL), 0);
        assert_int_equal(model_open(&o->model, o->gguf, &(struct model_options){0}, NULL), 0);
        assert_int_equal(kern_new(&o->kern, 1, isa, NULL), 0);
}

static void close_opened(struct opened *o) {
        kern_free(o->kern);
        model_free(o->model);
        gguf_free(o->gguf);
        free(o->bytes);
}

static struct llama_spec spec(uint32_t type) {
        struct llama_spec s = LLAMA_SPEC_SMALL;

        s.type = s.embd_type = type;
        if (quant_info(type)->block_values > 32) {
                s.n_embd = 256;
                s.head_dim = 64;
                s.n_ff = 512;
        }
        return s;
}

static uint64_t repacked(struct opened *o) {
        struct model_info i;

        model_info(o->model, &i);
        return i.repacked_size;
}

static void test_sizes(void **state) {
        static const uint32_t types[] = {
                QUANT_Q4_0, QUANT_Q8_0, QUANT_Q4_K, QUANT_Q6_K, QUANT_F16, QUANT_Q4_1, QUANT_Q5_K};

        for (int isa = 0; isa < KERN_N_ISA; isa++)
                for (size_t t = 0; t < ARRAY_SIZE(types); t++) {
                        struct llama_spec s = spec(types[t]);
                        struct opened o;
                        bool x86, want;

                        open_spec(&o, &s, (enum kern_isa)isa);
                        x86 = kern_isa(o.kern) >= KERN_AVX2 && kern_isa(o.kern) <= KERN_AVX512_VNNI;
                        want = x86 && t < 4;
                        assert_int_equal(model_repacked_size(o.model, o.kern) > 0, want);
                        assert_int_equal(repacked(&o), 0);
                        assert_int_equal(model_repack(o.model, o.kern, NULL), 0);
                        assert_int_equal(repacked(&o) > 0, want);
                        assert_true(repacked(&o) <= model_repacked_size(o.model, o.kern));
                        assert_int_equal(model_repack(o.model, NULL, NULL), 0);
                        assert_int_equal(repacked(&o), 0);
                        close_opened(&o);
                }
}

/* Rounded activations have room in the layout of either weights: what lies behind them is other work's. */
static void test_room(void **state) {
        static const uint32_t types[] = {QUANT_Q4_0, QUANT_Q8_0, QUANT_Q4_K, QUANT_Q6_K};

        for (size_t t = 0; t < ARRAY_SIZE(types); t++) {
                struct llama_spec s = spec(types[t]);
                const size_t *n_in;
                struct opened o;

                open_spec(&o, &s, KERN_GENERIC);
                n_in = o.model->dims.act_n_in;
                assert_true(n_in[kern_act_class(types[t])] >= s.n_ff);
                assert_int_equal(
                        n_in[kern_repacked_act_class(types[t])], n_in[kern_act_class(types[t])]);
                close_opened(&o);
        }
}

/* Rows of a matrix are found where they stand in the copy if they are whole tiles of it; what is not in it stays. */
static void test_find(void **state) {
        struct llama_spec s = spec(QUANT_Q8_0);
        const struct kern_mat *whole, none = {.data = &s, .n_out = 1, .row_size = 34};
        struct kern_mat found, part;
        struct opened o;
        size_t step;

        open_spec(&o, &s, KERN_N_ISA);
        assert_int_equal(model_repack(o.model, o.kern, NULL), 0);
        step = kern_repacked_rows(o.kern);
        if (step == 0) {
                print_message("SKIP: nothing is repacked for this processor\n");
                close_opened(&o);
                skip();
        }
        whole = NULL;
        for (size_t i = 0; i < o.model->dims.n_mats && !whole; i++)
                if (o.model->dims.mats[i].first.n_out >= 64)
                        whole = &o.model->dims.mats[i].first;
        assert_non_null(whole);
        found = repack_find(o.model->repack, whole);
        assert_true(found.repacked);
        assert_ptr_not_equal(found.data, whole->data);
        part = weights_rows(whole, step, whole->n_out - step);
        part = repack_find(o.model->repack, &part);
        assert_true(part.repacked);
        assert_ptr_equal(part.data, (const uint8_t *)found.data + step * whole->row_size);
        part = weights_rows(whole, step - 1, 2);
        assert_false(repack_find(o.model->repack, &part).repacked);
        part = weights_rows(whole, step, whole->n_out); /* beyond its end */
        assert_false(repack_find(o.model->repack, &part).repacked);
        assert_false(repack_find(o.model->repack, &none).repacked);
        assert_false(repack_find(NULL, whole).repacked);
        close_opened(&o);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sizes),
                cmocka_unit_test(test_room),
                cmocka_unit_test(test_find),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
