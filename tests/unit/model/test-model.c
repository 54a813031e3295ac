/* SPDX-License-Identifier: MIT */
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/util.h"
#include "gguf/gguf.h"
#include "quant/quant.h"
#include "util/llama-build.h"
#include "util/test.h"

struct opened {
        uint8_t *bytes;
        struct gguf *gguf;
        struct model *model;
};

static int open_spec(struct opened *o, const struct llama_spec *s, const struct model_options *mo,
        struct err *e) {
        struct gguf_build *b = llama_build(s);
        size_t size;
        int r;

        *o = (struct opened){0};
        o->bytes = gguf_build_bytes(b, &size);
        gguf_build_free(b);
        r = gguf_parse(&o->gguf, o->bytes, size, e);
        return r < 0 ? r : model_open(&o->model, o->gguf, mo, e);
}

static void close_opened(struct opened *o) {
        model_free(o->model);
        gguf_free(o->gguf);
        free(o->bytes);
}

static void refuse(const struct llama_spec *s, const char *what, int code, const char *expect) {
        struct opened o;
        struct err e = {0};
        int r = open_spec(&o, s, &(struct model_options){0}, &e);

        assert_null(o.model);
        if (r >= 0)
                fail_msg("%s %s: accepted", what, expect);
        if (code && r != -code)
                fail_msg("%s %s: code is %s: %s", what, expect, err_code_name(e.code), e.msg);
        if (!strstr(e.msg, expect))
                fail_msg("%s %s: message is: %s", what, expect, e.msg);
        close_opened(&o);
}

static struct llama_spec dense(void) {
        struct llama_spec s = LLAMA_SPEC_SMALL;

        s.biases = s.rope_factors = true;
        return s;
}

static struct llama_spec expert(void) {
        struct llama_spec s = LLAMA_SPEC_SMALL;

        s.n_expert = 4;
        s.n_expert_used = 2;
        return s;
}

static void test_info(void **state) {
        struct llama_spec s = dense();
        struct model_info i;
        struct opened o;
        struct err e;

        assert_int_equal(open_spec(&o, &s, &(struct model_options){.kv_type = KERN_KV_F16}, &e), 0);
        model_info(o.model, &i);
        assert_string_equal(i.arch, "llama");
        assert_string_equal(i.name, "random weights");
        assert_int_equal(i.n_vocab, 96);
        assert_int_equal(i.n_layer, 2);
        assert_int_equal(i.head_dim, 16);
        assert_int_equal(i.context, 256);
        assert_int_equal(i.block_tokens, 32);
        assert_int_equal(i.kv_type, KERN_KV_F16);
        /* 2 layers x (K + V) x 2 heads x 16 x 32 tokens x 2 bytes */
        assert_int_equal(i.shape.size[SEQ_ALL], 2 * 2 * 2 * 16 * 32 * 2);
        assert_int_equal(i.shape.size[SEQ_WINDOW], 0);
        assert_int_equal(i.shape.size[SEQ_STATE], 0);
        assert_int_equal(i.shape.block_tokens, 32);
        assert_int_equal(i.shape.window, 0);
        assert_int_equal(i.shape.chunk, 0);
        assert_true(i.n_params * 4 == i.weights_size);
        close_opened(&o);
}

static size_t kv_array_size(const struct model_kv_array *a) {
        static const size_t sizes[] = {[MODEL_KV_F16] = 2, [MODEL_KV_F32] = 4, [MODEL_KV_I8] = 1};

        return sizes[a->element] * a->n_tiles * a->n_channels * a->n_tokens;
}

/* The arrays cover a block without gaps here (everything is a multiple of a cache line). */
static void test_kv_arrays(void **state) {
        static const enum model_kv_element elements[KERN_N_KV] = {
                MODEL_KV_F16, MODEL_KV_F32, MODEL_KV_I8};

        for (int kv = 0; kv < KERN_N_KV; kv++) {
                struct model_options mo = {.kv_type = (enum kern_kv_type)kv};
                struct llama_spec s = dense();
                const struct model_kv_array *a;
                struct model_info info;
                struct opened o;
                size_t n, per_layer = kv == KERN_KV_Q8_0 ? 4 : 2;
                uint64_t offset = 0;

                s.n_layer = 5;
                s.head_dim = 64;
                assert_int_equal(open_spec(&o, &s, &mo, NULL), 0);
                model_info(o.model, &info);
                assert_int_equal(info.kv_type, kv);
                n = model_kv_arrays(o.model, SEQ_ALL, &a);
                assert_int_equal(n, 5 * per_layer);
                for (size_t i = 0; i < n; i++) {
                        size_t part = i % per_layer;
                        bool scales = per_layer == 4 && part % 2;

                        assert_int_equal(a[i].layer, i / per_layer);
                        assert_int_equal(a[i].offset, offset);
                        assert_int_equal(a[i].element, scales ? MODEL_KV_F16 : elements[kv]);
                        assert_int_equal(a[i].n_tiles, 2);
                        assert_int_equal(a[i].n_channels, scales ? 2 : 64);
                        assert_int_equal(a[i].n_tokens, 32);
                        assert_int_equal(a[i].channel_major, part < per_layer / 2);
                        offset += kv_array_size(&a[i]);
                }
                assert_int_equal(offset, info.shape.size[SEQ_ALL]);
                assert_int_equal(model_kv_arrays(o.model, SEQ_WINDOW, &a), 0);
                assert_int_equal(model_kv_arrays(o.model, SEQ_STATE, &a), 0);
                close_opened(&o);
        }
}

static void test_kv_type_needs_groups(void **state) {
        struct model_options mo = {.kv_type = KERN_KV_Q8_0};
        struct llama_spec s = dense(); /* heads of 16 */
        struct opened o;
        struct err e;

        assert_int_equal(open_spec(&o, &s, &mo, &e), -ERR_UNSUPPORTED);
        assert_null(o.model);
        assert_non_null(strstr(e.msg, "q8_0 needs head sizes that are multiples of 32"));
        assert_non_null(strstr(e.msg, "keys of 16 and values of 16"));
        close_opened(&o);
}

static void test_context_option(void **state) {
        static const uint32_t given[] = {0, 100, 256}, want[] = {256, 100, 256};
        struct model_options more = {.context = 257};
        struct llama_spec s = dense();
        struct opened over;
        struct err e;

        for (size_t i = 0; i < ARRAY_SIZE(given); i++) {
                struct model_options mo = {.context = given[i]};
                struct model_info info;
                struct opened o;

                assert_int_equal(open_spec(&o, &s, &mo, NULL), 0);
                model_info(o.model, &info);
                assert_int_equal(info.context, want[i]);
                assert_int_equal(info.context_train, 256);
                close_opened(&o);
        }
        assert_int_equal(open_spec(&over, &s, &more, &e), -ERR_INVALID);
        assert_non_null(strstr(e.msg, "257"));
        assert_non_null(strstr(e.msg, "256"));
        close_opened(&over);
}

static struct fingerprint fingerprint_of(const struct llama_spec *s, enum kern_kv_type kv) {
        struct model_info info;
        struct opened o;

        assert_int_equal(open_spec(&o, s, &(struct model_options){.kv_type = kv}, NULL), 0);
        model_info(o.model, &info);
        close_opened(&o);
        return info.fingerprint;
}

static void test_fingerprint(void **state) {
        struct llama_spec s = dense();
        struct fingerprint a = fingerprint_of(&s, KERN_KV_F16), b;

        b = fingerprint_of(&s, KERN_KV_F16);
        assert_true(fingerprint_equal(&a, &b));
        b = fingerprint_of(&s, KERN_KV_F32);
        assert_true(a.weights == b.weights && a.rules != b.rules);
        s.head_dim = 32;
        a = fingerprint_of(&s, KERN_KV_F16);
        b = fingerprint_of(&s, KERN_KV_Q8_0);
        assert_true(a.weights == b.weights && a.rules != b.rules);
        s.head_dim = 16;
        a = fingerprint_of(&s, KERN_KV_F16);
        s.seed++;
        b = fingerprint_of(&s, KERN_KV_F16);
        assert_true(a.weights != b.weights && a.rules == b.rules);
        s.seed--;
        s.context++;
        b = fingerprint_of(&s, KERN_KV_F16);
        assert_true(a.weights == b.weights && a.rules != b.rules);
}

/* Memory of all tokens alone has the fingerprint that it had before there were other classes. */
static void test_fingerprint_of_old(void **state) {
        struct llama_spec s = dense();
        struct model_info info;
        struct opened o;
        uint64_t meta;
        uint8_t bytes[28];

        assert_int_equal(
                open_spec(&o, &s, &(struct model_options){.kv_type = KERN_KV_F32}, NULL), 0);
        model_info(o.model, &info);
        meta = gguf_hash_meta(o.gguf);
        for (size_t i = 0; i < 8; i++)
                bytes[i] = (uint8_t)(meta >> (8 * i));
        /* Memory of F32, blocks of 32 tokens, versions of layout, kernels and model. */
        memcpy(bytes + 8, "\1\0\0\0\40\0\0\0\1\0\0\0\1\0\0\0\1\0\0\0", 20);
        assert_true(info.fingerprint.rules == hash64(bytes, sizeof(bytes), 0));
        close_opened(&o);
}

static const char *const dense_required[] = {"token_embd.weight", "output_norm.weight",
        "blk.1.attn_norm.weight", "blk.0.attn_q.weight", "blk.1.attn_k.weight",
        "blk.0.attn_v.weight", "blk.1.attn_output.weight", "blk.0.ffn_norm.weight",
        "blk.1.ffn_gate.weight", "blk.0.ffn_up.weight", "blk.1.ffn_down.weight"};
static const char *const dense_optional[] = {"output.weight", "rope_freqs.weight",
        "blk.0.attn_q.bias", "blk.1.attn_k.bias", "blk.0.attn_v.bias", "blk.1.attn_output.bias",
        "blk.0.ffn_gate.bias", "blk.1.ffn_up.bias", "blk.0.ffn_down.bias"};
static const char *const experts_required[] = {"blk.0.ffn_gate_inp.weight",
        "blk.1.ffn_gate_exps.weight", "blk.0.ffn_up_exps.weight", "blk.1.ffn_down_exps.weight"};
static const char *const fused[] = {"blk.0.attn_qkv.weight", "blk.1.ffn_gate_up_exps.weight"};

static void refuse_damaged(struct llama_spec s, const char *name) {
        s.reshape = name;
        refuse(&s, "reshaped", ERR_FORMAT, name);
        s.reshape = NULL;
        s.retype = name;
        refuse(&s, "retyped", ERR_UNSUPPORTED, name);
}

static void test_damaged_tensors(void **state) {
        struct llama_spec s;

        for (size_t i = 0; i < ARRAY_SIZE(dense_required); i++) {
                s = dense();
                refuse_damaged(s, dense_required[i]);
                s.omit = dense_required[i];
                refuse(&s, "omitted", ERR_FORMAT, dense_required[i]);
        }
        for (size_t i = 0; i < ARRAY_SIZE(dense_optional); i++) {
                struct opened o;

                s = dense();
                refuse_damaged(s, dense_optional[i]);
                s.omit = dense_optional[i];
                assert_int_equal(open_spec(&o, &s, &(struct model_options){0}, NULL), 0);
                close_opened(&o);
        }
        for (size_t i = 0; i < ARRAY_SIZE(experts_required); i++) {
                s = expert();
                refuse_damaged(s, experts_required[i]);
                s.omit = experts_required[i];
                refuse(&s, "omitted", ERR_FORMAT, experts_required[i]);
        }
        for (size_t i = 0; i < ARRAY_SIZE(fused); i++) {
                s = expert();
                s.fused = true;
                refuse_damaged(s, fused[i]);
        }
}

static void test_poisoned_vectors(void **state) {
        static const char *const names[] = {"output_norm.weight", "blk.1.ffn_norm.weight",
                "blk.0.attn_q.bias", "rope_freqs.weight"};

        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                struct llama_spec s = dense();

                s.poison = names[i];
                refuse(&s, "poisoned", ERR_FORMAT, names[i]);
        }
}

static void test_damaged_keys(void **state) {
        static const char *const names[] = {"general.architecture", "llama.context_length",
                "llama.embedding_length", "llama.block_count", "llama.feed_forward_length",
                "llama.attention.head_count", "llama.attention.layer_norm_rms_epsilon"};
        struct llama_spec s;

        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                s = dense();
                s.omit = names[i];
                refuse(&s, "omitted", ERR_FORMAT, names[i]);
        }
        s = expert();
        s.omit = "llama.expert_used_count";
        refuse(&s, "omitted", ERR_FORMAT, "expert_used_count");
        s = expert();
        s.n_expert_used = 5;
        refuse(&s, "more than all", ERR_FORMAT, "expert_used_count");
        s = dense();
        s.rope_scaling = "longrope";
        refuse(&s, "scaling", ERR_UNSUPPORTED, "longrope");
}

/* Without a token list the vocabulary is as large as the embedding. */
static void test_no_tokenizer(void **state) {
        struct llama_spec s = dense();
        struct model_info info;
        struct opened o;

        s.omit = "tokenizer.ggml.tokens";
        assert_int_equal(open_spec(&o, &s, &(struct model_options){0}, NULL), 0);
        model_info(o.model, &info);
        assert_int_equal(info.n_vocab, 96);
        close_opened(&o);
}

static void refuse_bare(const char *arch, const char *expect) {
        struct gguf_build *b = gguf_build_new();
        struct model *m = NULL;
        struct gguf *g = NULL;
        struct err e;
        uint8_t *bytes;
        size_t size;

        gguf_build_str(b, "general.architecture", arch);
        bytes = gguf_build_bytes(b, &size);
        gguf_build_free(b);
        assert_int_equal(gguf_parse(&g, bytes, size, NULL), 0);
        assert_true(model_open(&m, g, &(struct model_options){0}, &e) < 0);
        assert_null(m);
        assert_non_null(strstr(e.msg, expect));
        gguf_free(g);
        free(bytes);
}

static void test_bare_files(void **state) {
        refuse_bare("banana", "'banana' is not supported");
        refuse_bare("", "'' is not supported");
        refuse_bare("llama", "no tensors");
}

static void test_work(void **state) {
        struct llama_spec s = expert();
        struct model_work *w = NULL;
        struct kern *k = NULL;
        struct opened o;
        struct err e;
        size_t one, many;

        assert_int_equal(open_spec(&o, &s, &(struct model_options){0}, NULL), 0);
        assert_int_equal(kern_new(&k, 1, KERN_GENERIC, NULL), 0);
        assert_int_equal(model_work_new(&w, o.model, k, 0, 1, &e), -ERR_INVALID);
        assert_int_equal(model_work_new(&w, o.model, k, 4, 0, &e), -ERR_INVALID);
        assert_int_equal(model_work_new(&w, o.model, k, 4, 5, &e), -ERR_INVALID);
        assert_null(w);
        one = model_work_size(o.model, 1, 1);
        many = model_work_size(o.model, 512, 8);
        assert_true(one >= 96 * sizeof(float) && one < many);
        /* At least residual, norm, branch, gate, up, q, attention, experts' rows. */
        assert_true(many >= 512 * sizeof(float) * (3 * 64 + 2 * 96 + 2 * 64 + 3 * 64));
        assert_int_equal(model_work_new(&w, o.model, k, 512, 8, &e), 0);
        model_work_free(w);
        assert_null(model_work_free(NULL));
        assert_null(model_free(NULL));
        kern_free(k);
        close_opened(&o);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_info),
                cmocka_unit_test(test_kv_arrays),
                cmocka_unit_test(test_kv_type_needs_groups),
                cmocka_unit_test(test_context_option),
                cmocka_unit_test(test_fingerprint),
                cmocka_unit_test(test_fingerprint_of_old),
                cmocka_unit_test(test_damaged_tensors),
                cmocka_unit_test(test_poisoned_vectors),
                cmocka_unit_test(test_damaged_keys),
                cmocka_unit_test(test_no_tokenizer),
                cmocka_unit_test(test_bare_files),
                cmocka_unit_test(test_work),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
