/* SPDX-License-Identifier: MIT */
/* One text of which a template wrote some ranges: tok_encode_trusted(). In these tests the ranges
 * between { and } are trusted; the braces themselves are taken out. */
#include "base/charge.h"
#include "unit/tok/tok-test.h"

struct marked {
        char text[512];
        size_t size;
        struct tok_range trusted[32];
        size_t n;
};

static struct marked mark(const char *s) {
        struct marked m = {.n = 0};

        for (; *s; s++)
                if (*s == '{')
                        m.trusted[m.n].start = m.size;
                else if (*s == '}') {
                        m.trusted[m.n].size = m.size - m.trusted[m.n].start;
                        m.n++;
                } else
                        m.text[m.size++] = *s;
        return m;
}

static void assert_marked(const struct tok *t, const char *text, bool starts, const char *want) {
        _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
        _cleanup_(buf_deinit) struct buf b = BUF_NULL;
        struct marked m = mark(text);
        struct err e = {0};

        if (tok_encode_trusted(t, m.text, m.size, m.trusted, m.n, starts, 0, &ids, &e) < 0)
                fail_msg("%s", e.msg);
        for (size_t i = 0; i < ids.n; i++) {
                size_t n;
                const char *s = tok_text(t, ids.ids[i], &n);

                assert_int_equal(buf_printf(&b, "%s%.*s", i > 0 ? "|" : "", (int)n, s), 0);
        }
        assert_string_equal(b.data ? (char *)b.data : "", want);
}

static void build_bpe(struct vocab_build *v) {
        vocab_build_init(v, "gpt2");
        gguf_build_str(v->file, "tokenizer.ggml.pre", "gpt-2");
        vocab_build_bpe_bytes(v);
        vocab_build_add(v, "<|im_start|>", V_CONTROL, 0);
        vocab_build_add(v, "<m>", V_USER_DEFINED, 0);  /* becomes a marker */
        vocab_build_add(v, "--", V_USER_DEFINED, 0);   /* in every text */
        vocab_build_add(v, "----", V_USER_DEFINED, 0); /* in every text, longer */
        vocab_build_add(v, ">a----", V_USER_DEFINED, 0);
        vocab_build_add(v, "bc", V_NORMAL, 0);
        vocab_build_merge(v, "b c");
        load(v);
        assert_int_equal(tok_protect(v->tok, "<m>", 3, NULL), 0);
}

/* What only templates make is found inside one range, and nowhere else. */
static void test_where(void **state) {
        struct vocab_build v;

        build_bpe(&v);
        assert_marked(v.tok, "{<|im_start|>}", true, "<|im_start|>");
        assert_marked(v.tok, "<m>", true, "<|m|>");
        assert_marked(v.tok, "{<m>}<m>{<m>}", true, "<m>|<|m|>|<m>");
        /* A border in the middle: neither side may finish what the other began. */
        assert_marked(v.tok, "{<}m>", true, "<|m|>");
        assert_marked(v.tok, "{<m}>", true, "<|m|>");
        assert_marked(v.tok, "{<}m{>}", true, "<|m|>");
        assert_marked(v.tok, "<{m>}", true, "<|m|>");
        assert_marked(v.tok, "x{<m>}y", true, "x|<m>|y");
        assert_marked(v.tok, "", true, "");
        vocab_build_deinit(&v);
}

/* Ordinary text and the tokens of every text do not see the borders. */
static void test_joined(void **state) {
        struct vocab_build v;

        build_bpe(&v);
        assert_marked(v.tok, "{b}c", true, "bc");
        assert_marked(v.tok, "b{c}", true, "bc");
        assert_marked(v.tok, "{-}-", true, "--");
        assert_marked(v.tok, "{--}--", true, "----");
        assert_marked(v.tok, "--{--}b{c}", true, "----|bc");
        /* Longer than the marker, but of a user: it takes nothing away from the template. */
        assert_marked(v.tok, "{<m>}a----", true, "<m>|a|----");
        assert_marked(v.tok, "<m>a----", true, "<|m|>a----");
        vocab_build_deinit(&v);
}

/* SPM's space is put behind a special token, and once. */
static void test_spm(void **state) {
        struct vocab_build v;

        vocab_build_init(&v, "llama");
        gguf_build_str(v.file, "general.name", "phi-3");
        vocab_build_spm_bytes(&v);
        vocab_build_add(&v, "<|user|>", V_CONTROL, 0);
        vocab_build_add(&v, "\xe2\x96\x81", V_NORMAL, -1);
        vocab_build_add(&v, "a", V_NORMAL, -1);
        vocab_build_add(&v, "b", V_NORMAL, -1);
        load(&v);
        assert_marked(v.tok, "{a}b", true, "\xe2\x96\x81|a|b");
        assert_marked(v.tok, "{a}b", false, "a|b");
        assert_marked(v.tok, "{<s>}a{<s>}b", true, "<s>|\xe2\x96\x81|a|<s>|\xe2\x96\x81|b");
        /* White space that a token swallows, on both sides of a border. */
        assert_marked(v.tok, "{<|user|>\n}\n a", true, "<|user|>|\xe2\x96\x81|a");
        assert_marked(v.tok, "{<|user|>} {<|user|>}", true, "<|user|>|<|user|>");
        vocab_build_deinit(&v);
}

/* Trusted as a whole, a text is what a parsed fragment is; without ranges what an unparsed one is.
 */
static void test_like_fragments(void **state) {
        uint64_t x = 88172645463325252u;

        for (unsigned round = 0; round < 30; round++) {
                struct vocab_build v;

                vocab_build_init(&v, "gpt2");
                vocab_build_bpe_bytes(&v);
                for (unsigned i = 0; i < 12; i++) {
                        char text[8] = {0};
                        unsigned n = 1 + test_random(&x) % 6;

                        for (unsigned k = 0; k < n; k++)
                                text[k] = "ab<"[test_random(&x) % 3];
                        vocab_build_add(&v, text, V_CONTROL, 0);
                }
                load(&v);
                for (unsigned k = 0; k < 60; k++) {
                        _cleanup_(tok_ids_deinit) struct tok_ids got = TOK_IDS_NULL;
                        _cleanup_(tok_ids_deinit) struct tok_ids want = TOK_IDS_NULL;
                        struct tok_range all = {0, 1 + test_random(&x) % 60};
                        struct tok_fragment f = {.size = all.size, .parse_special = k % 2};
                        char text[64];

                        for (size_t i = 0; i < all.size; i++)
                                text[i] = "ab<"[test_random(&x) % 3];
                        f.text = text;
                        assert_int_equal(tok_encode(v.tok, &f, 1, false, true, 0, &want, NULL), 0);
                        assert_int_equal(tok_encode_trusted(v.tok, text, all.size, &all, k % 2,
                                                 true, 0, &got, NULL),
                                0);
                        assert_int_equal(got.n, want.n);
                        assert_memory_equal(got.ids, want.ids, want.n * sizeof(*want.ids));
                }
                vocab_build_deinit(&v);
        }
}

static void test_limits(void **state) {
        _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
        atomic_bool stop = true;
        struct vocab_build v;

        build_bpe(&v);
        assert_int_equal(tok_encode_trusted(v.tok, "xyz", 3, NULL, 0, true, 3, &ids, NULL), 0);
        assert_int_equal(
                tok_encode_trusted(v.tok, "xyz", 3, NULL, 0, true, 2, &ids, NULL), -ERR_LIMIT);
        assert_int_equal(ids.n, 3);
        assert_int_equal(
                tok_encode_trusted(v.tok, "x", ((size_t)1 << 26) + 1, NULL, 0, true, 0, &ids, NULL),
                -ERR_LIMIT);
        ids.stop = &stop;
        assert_int_equal(
                tok_encode_trusted(v.tok, "xyz", 3, NULL, 0, true, 0, &ids, NULL), -ERR_CANCELLED);
        assert_int_equal(ids.n, 3);
        ids.stop = NULL;
        vocab_build_deinit(&v);
}

static void test_find(void **state) {
        static const struct tok_range trusted[] = {{1, 3}, {7, 15}};
        static const char text[] = "x<m><m><|im_start|><m>y";
        struct tok_place *found = NULL;
        struct vocab_build v;
        size_t n = 0;

        build_bpe(&v);
        assert_int_equal(
                tok_find_special(v.tok, text, strlen(text), trusted, 2, &found, &n, NULL), 0);
        assert_int_equal(n, 3);
        assert_int_equal(found[0].start, 1);
        assert_int_equal(found[1].start, 7);
        assert_int_equal(found[1].size, 12);
        assert_int_equal(found[1].token, tok_find(v.tok, "<|im_start|>", 12));
        assert_int_equal(found[2].start, 19);
        free(found);
        vocab_build_deinit(&v);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_where),
                cmocka_unit_test(test_joined),
                cmocka_unit_test(test_spm),
                cmocka_unit_test(test_like_fragments),
                cmocka_unit_test(test_limits),
                cmocka_unit_test(test_find),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
