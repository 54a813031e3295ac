/* SPDX-License-Identifier: MIT */
/*
 * Attention over chunks at the border of one, which lies at 8192 tokens (llama4). What the tokens of the
 * new chunk do not see is released, and never read: the logits are those of a sequence that keeps it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "gguf/gguf.h"
#include "seq/seq.h"
#include "util/arch-build.h"
#include "util/model-rig.h"
#include "util/test.h"

#define CHUNK 8192
#define BEFORE (CHUNK - 12)
#define BEHIND 40
#define BATCH 512

static void same(const float *a, const float *b, size_t n_vocab, const char *what) {
        for (uint32_t t = 0; t < BEHIND; t++)
                if (memcmp(a + t * n_vocab, b + t * n_vocab, n_vocab * sizeof(*a)))
                        fail_msg("%s: token %u behind the start differs", what, t);
}

static void test_border(void **state) {
        int32_t *tokens = calloc(BEFORE + BEHIND, sizeof(*tokens));
        struct arch_options o = {.seed = 1};
        float *kept, *released;
        struct seq *s, *f;
        size_t n_vocab;
        struct rig r;

        rig_open_build(&r, arch_build("llama4", &o), KERN_KV_F16);
        assert_int_equal(r.info.shape.chunk, CHUNK);
        assert_true(r.info.shape.size[SEQ_WINDOW] && r.info.shape.size[SEQ_ALL]);
        rig_use(&r, 2, kern_cpu_isa(), BATCH);
        n_vocab = r.info.n_vocab;
        rig_tokens(&r, 3, tokens, BEFORE + BEHIND);
        kept = calloc(BEHIND * n_vocab, sizeof(*kept));
        released = calloc(BEHIND * n_vocab, sizeof(*released));
        assert_true(tokens && kept && released);
        s = rig_seq(&r);
        rig_feed(&r, s, tokens, BEFORE, BATCH, NULL);
        assert_int_equal(seq_fork(&f, s, BEFORE, NULL), 0);
        assert_int_equal(seq_mark(s, BEFORE, NULL), 0);

        rig_feed(&r, s, tokens + BEFORE, BEHIND, BEHIND, kept);
        assert_non_null(seq_table(s, SEQ_WINDOW)[0]);
        rig_feed(&r, f, tokens + BEFORE, BEHIND, 1, released);
        assert_null(seq_table(f, SEQ_WINDOW)[0]);
        assert_null(seq_table(f, SEQ_WINDOW)[CHUNK / 32 - 1]);
        assert_non_null(seq_table(f, SEQ_WINDOW)[CHUNK / 32]);
        assert_non_null(seq_table(f, SEQ_ALL)[0]);
        same(kept, released, n_vocab, "released");
        memset(released, 0, BEHIND * n_vocab * sizeof(*released));
        memcpy(released, kept, (CHUNK - BEFORE) * n_vocab * sizeof(*released));
        /* Back to the border, where the new chunk needs nothing of the old one. */
        assert_int_equal(seq_cut(f, CHUNK), CHUNK);
        rig_feed(&r, f, tokens + CHUNK, BEFORE + BEHIND - CHUNK, 5,
                released + (CHUNK - BEFORE) * n_vocab);
        same(kept, released, n_vocab, "from the border");
        /* Back across it, where nothing but the mark leads. */
        assert_int_equal(seq_cut(f, BEFORE), 0);
        assert_int_equal(seq_cut(s, BEFORE), BEFORE);
        memset(released, 0, BEHIND * n_vocab * sizeof(*released));
        rig_feed(&r, s, tokens + BEFORE, BEHIND, 9, released);
        same(kept, released, n_vocab, "from a mark before the border");
        seq_free(f);
        seq_free(s);
        free(kept);
        free(released);
        free(tokens);
        rig_close(&r);
}

/* Memory in classes has a fingerprint of its own: keys, type, block, three versions, variant, then the
 * version of classes, window and chunk. */
static void test_fingerprint(void **state) {
        struct arch_options o = {.seed = 1};
        uint32_t words[11] = {0, 0, KERN_KV_F16, 32, 1, 1, 1, 0, 1, 0, CHUNK};
        uint8_t bytes[sizeof(words)];
        uint64_t meta;
        struct rig r;

        rig_open_build(&r, arch_build("llama4", &o), KERN_KV_F16);
        meta = gguf_hash_meta(r.gguf);
        words[0] = (uint32_t)meta;
        words[1] = (uint32_t)(meta >> 32);
        for (size_t i = 0; i < sizeof(words); i++)
                bytes[i] = (uint8_t)(words[i / 4] >> (8 * (i % 4)));
        assert_true(r.info.fingerprint.rules == hash64(bytes, sizeof(bytes), 0));
        rig_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_border),
                cmocka_unit_test(test_fingerprint),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
