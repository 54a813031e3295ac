/* SPDX-License-Identifier: MIT */
/*
 * Each tensor of each architecture, in turn, is missing, of another shape, of a type that weights do
 * not have, of no type, or past the end of the file: the error names the tensor. A tensor that a
 * model may lack may be missing; a tensor that is not used may be anything that a file can hold.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "gguf/gguf.h"
#include "model/model.h"
#include "util/arch-build.h"
#include "util/depth.h"
#include "util/test.h"

/* Of deep models, whose layers are like one another, some layers. */
#define DEEP 10
static const int deep_layers[] = {0, 1, 9, 10, 24};

/* -ERR_X, or 0: it is a model. @size bytes that are freed. */
static int open_bytes(uint8_t *bytes, size_t size, struct err *e) {
        static const uint64_t hash = 1; /* of weights that nothing looks at */
        struct model_options o = {.kv_type = KERN_KV_F32, .weights_hash = &hash};
        struct model *m = NULL;
        struct gguf *g = NULL;
        int r = gguf_parse(&g, bytes, size, e);

        if (r == 0)
                r = model_open(&m, g, &o, e);
        model_free(m);
        gguf_free(g);
        free(bytes);
        return r;
}

static int open_damaged(
        struct gguf_build *b, enum gguf_damage damage, const char *tensor, struct err *e) {
        size_t size;
        uint8_t *bytes;

        gguf_build_damage(b, damage, tensor);
        bytes = gguf_build_bytes(b, &size);
        gguf_build_damage(b, GGUF_DAMAGE_NONE, "");
        return open_bytes(bytes, size, e);
}

/* The file up to the last byte of the tensor, without it. */
static int open_cut(const struct gguf_build *b, const char *tensor, struct err *e) {
        const struct gguf_tensor *t;
        struct gguf *g = NULL;
        size_t size;
        uint8_t *bytes = gguf_build_bytes(b, &size);

        assert_int_equal(gguf_parse(&g, bytes, size, e), 0);
        t = gguf_tensor(g, tensor);
        assert_non_null(t);
        size = (size_t)((const uint8_t *)t->data - bytes) + t->size - 1;
        gguf_free(g);
        return open_bytes(bytes, size, e);
}

static void must_name(
        int r, const struct err *e, const char *model, const char *tensor, const char *damage) {
        if (r == 0)
                fail_msg("%s: %s %s: accepted", model, tensor, damage);
        if (!strstr(e->msg, tensor))
                fail_msg(
                        "%s: %s %s: the error does not name it: %s", model, tensor, damage, e->msg);
}

/* Without a tensor that stands for several, the error may name the first of those. */
static const char *first_of(const char *tensor, char *buffer, size_t size) {
        static const char *const fused[][2] = {
                {"attn_qkv", "attn_q"}, {"ffn_gate_up_exps", "ffn_gate"}};

        snprintf(buffer, size, "%s", tensor);
        for (size_t i = 0; i < ARRAY_SIZE(fused); i++) {
                char *at = strstr(buffer, fused[i][0]);

                if (at)
                        at[strlen(fused[i][1])] = '\0';
        }
        return buffer;
}

static void check_tensor(struct gguf_build *b, const char *model, const char *tensor) {
        enum arch_need need = arch_build_need(model, tensor);
        char name[64];
        struct err e;
        int r;

        must_name(
                open_damaged(b, GGUF_DAMAGE_NO_TYPE, tensor, &e), &e, model, tensor, "of no type");
        must_name(open_cut(b, tensor, &e), &e, model, tensor, "past the end");
        r = open_damaged(b, GGUF_DAMAGE_OMIT, tensor, &e);
        if (r < 0 || need == ARCH_REQUIRED)
                must_name(r, &e, model, first_of(tensor, name, sizeof(name)), "missing");
        r = open_damaged(b, GGUF_DAMAGE_RESHAPE, tensor, &e);
        if (r < 0 || need != ARCH_UNUSED)
                must_name(r, &e, model, tensor, "of another shape");
        r = open_damaged(b, GGUF_DAMAGE_RETYPE, tensor, &e);
        if (r < 0 || need != ARCH_UNUSED)
                must_name(r, &e, model, tensor, "of integers");
}

static bool worth(const struct gguf_build *b, const char *tensor) {
        bool deep = false;
        char prefix[16];
        int layer;

        snprintf(prefix, sizeof(prefix), "blk.%d.", DEEP);
        for (size_t i = 0; i < gguf_build_n_tensors(b); i++)
                deep |= strstr(gguf_build_tensor_name(b, i), prefix) != NULL;
        if (!deep || sscanf(tensor, "blk.%d.", &layer) != 1)
                return true;
        for (size_t i = 0; i < ARRAY_SIZE(deep_layers); i++)
                if (layer == deep_layers[i])
                        return true;
        return false;
}

static void test_tensors(void **state) {
        const char *model = *state;
        const size_t each = test_depth(5, 1, 1);
        struct gguf_build *b = arch_build(model, NULL);
        struct err e;
        int r = open_damaged(b, GGUF_DAMAGE_NONE, "", &e);

        if (r < 0)
                fail_msg("%s, whole: %s", model, e.msg);
        /* With a sanitizer some, others of each model. */
        for (size_t i = strlen(model) % each; i < gguf_build_n_tensors(b); i += each)
                if (worth(b, gguf_build_tensor_name(b, i)))
                        check_tensor(b, model, gguf_build_tensor_name(b, i));
        gguf_build_free(b);
}

int main(void) {
        size_t n = arch_build_n();
        struct CMUnitTest *tests = calloc(n, sizeof(*tests));
        int r;

        if (!tests)
                return 1;
        for (size_t i = 0; i < n; i++)
                tests[i] = (struct CMUnitTest){.name = arch_build_name(i),
                        .test_func = test_tensors,
                        .initial_state = (void *)(uintptr_t)arch_build_name(i)};
        r = _cmocka_run_group_tests("damaged", tests, n, NULL, NULL);
        free(tests);
        return r;
}
