/* SPDX-License-Identifier: MIT */
#include "unit/tok/tok-test.h"

#include "base/utf8.h"

#define S "\xe2\x96\x81"
#define BAD "\xef\xbf\xbd"

static void assert_text(const struct buf *b, const char *want) {
        assert_string_equal(b->data ? (char *)b->data : "", want);
}

static void test_pieces(void **state) {
        struct vocab_build v;
        char s[16];
        int32_t word, user, unused;

        vocab_build_init(&v, "llama");
        vocab_build_spm_bytes(&v);
        word = vocab_build_add(&v, S "ab" S, V_NORMAL, 0);
        user = vocab_build_add(&v, S "u", V_USER_DEFINED, 0);
        unused = vocab_build_add(&v, "zz", V_UNUSED, 0);
        load(&v);
        assert_int_equal(tok_piece(v.tok, word, false, s, sizeof(s)), 4);
        assert_memory_equal(s, " ab ", 4);
        memset(s, '#', sizeof(s));
        assert_int_equal(tok_piece(v.tok, word, false, s, 2), 4);
        assert_memory_equal(s, " a##", 4);
        assert_int_equal(tok_piece(v.tok, user, false, s, sizeof(s)), 4); /* unchanged */
        assert_memory_equal(s, S "u", 4);
        assert_int_equal(tok_piece(v.tok, unused, true, s, sizeof(s)), 0);
        assert_int_equal(tok_piece(v.tok, 3 + 0xc3, false, s, sizeof(s)), 1);
        assert_memory_equal(s, "\xc3", 1);
        assert_int_equal(tok_piece(v.tok, 2, false, s, sizeof(s)), 0);
        assert_int_equal(tok_piece(v.tok, 2, true, s, sizeof(s)), 4);
        assert_memory_equal(s, "</s>", 4);
        assert_int_equal(tok_piece(v.tok, -1, true, s, sizeof(s)), 0);
        assert_int_equal(tok_piece(v.tok, 1 << 30, true, s, sizeof(s)), 0);
        vocab_build_deinit(&v);

        /* Characters that stand for no byte print as they are. */
        vocab_build_init(&v, "gpt2");
        vocab_build_bpe_bytes(&v);
        word = vocab_build_add(&v,
                "\xc4\xa0"
                "a"
                "\xe4\xb8\xad",
                V_NORMAL, 0);
        load(&v);
        assert_int_equal(tok_piece(v.tok, word, false, s, sizeof(s)), 5);
        assert_memory_equal(s, " a\xe4\xb8\xad", 5);
        vocab_build_deinit(&v);
}

static void test_spaces(void **state) {
        _cleanup_(buf_deinit) struct buf b = BUF_NULL, c = BUF_NULL, d = BUF_NULL;
        struct vocab_build v;
        int32_t ids[3];

        vocab_build_init(&v, "llama");
        vocab_build_spm_bytes(&v);
        ids[0] = 1;
        ids[1] = ids[2] = vocab_build_add(&v, S "a", V_NORMAL, 0);
        load(&v);
        decode(v.tok, ids, 3, true, false, &b);
        assert_text(&b, "a a");
        decode(v.tok, ids, 3, false, false, &c);
        assert_text(&c, " a a");
        decode(v.tok, ids, 3, true, true, &d);
        assert_text(&d, "<s>a a");
        vocab_build_deinit(&v);
}

/* Every chunk is well-formed and as early as possible. */
static void test_halves(void **state) {
        static const struct {
                uint8_t bytes[8];
                size_t n;
                const char *chunks[9]; /* after each byte, and at the end */
        } cases[] = {
                {{0xc3, 0xa9}, 2, {"", "\xc3\xa9", ""}},
                {{0xf0, 0x9f, 0x98, 0x80}, 4, {"", "", "", "\xf0\x9f\x98\x80", ""}},
                {{0xc3, 'a'}, 2, {"", BAD "a", ""}},
                {{0xc3, 0xc3, 0xa9}, 3, {"", BAD, "\xc3\xa9", ""}},
                {{0xe2, 0x96}, 2, {"", "", BAD BAD}}, {{0xff, 0x80, 'x'}, 3, {BAD, BAD, "x", ""}},
                {{0xf0, 0x9f, 'x'}, 3, {"", "", BAD BAD "x", ""}},
                {{0xe0, 0x80, 0x80}, 3, {"", BAD BAD, BAD, ""}}, /* overlong */
        };
        struct vocab_build v;

        vocab_build_init(&v, "llama");
        vocab_build_spm_bytes(&v);
        load(&v);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct tok_stream s;

                tok_stream_init(&s, v.tok, false, false);
                for (size_t k = 0; k <= cases[i].n; k++) {
                        _cleanup_(buf_deinit) struct buf b = BUF_NULL;

                        if (k < cases[i].n)
                                tok_stream_push(&s, v.tok, 3 + cases[i].bytes[k], &b);
                        else
                                tok_stream_finish(&s, &b);
                        assert_text(&b, cases[i].chunks[k]);
                }
        }
        vocab_build_deinit(&v);
}

static void test_random_streams(void **state) {
        static const char *const texts[] = {"\xc3", "\xa9", "\xe4\xb8", "\xad", "a", "\xf0\x9f",
                "\x98\x80", "\xff", "\x80\x80", "\xe2\x96\x81", "\xf4\x90", "\xed\xa0\x80"};
        uint64_t x = 11;
        struct vocab_build v;

        vocab_build_init(&v, "gpt2");
        vocab_build_bpe_bytes(&v);
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
                vocab_build_add(&v, texts[i], V_USER_DEFINED, 0); /* printed as they are */
        load(&v);
        for (unsigned round = 0; round < 500; round++) {
                _cleanup_(buf_deinit) struct buf all = BUF_NULL, bytes = BUF_NULL, want = BUF_NULL;
                struct tok_stream s;

                tok_stream_init(&s, v.tok, true, false);
                for (unsigned i = test_random(&x) % 30; i > 0; i--) {
                        int32_t id = 256 + (int32_t)(test_random(&x) %
                                                     (sizeof(texts) / sizeof(texts[0])));
                        size_t from = all.size;

                        buf_append_str(&bytes, texts[id - 256]);
                        assert_int_equal(tok_stream_push(&s, v.tok, id, &all), 0);
                        assert_true(
                                all.size == from || utf8_valid(all.data + from, all.size - from));
                        assert_true(s.n_held <= 3);
                }
                assert_int_equal(tok_stream_finish(&s, &all), 0);
                assert_int_equal(s.n_held, 0);
                /* All at once gives the same. */
                for (size_t at = 0; at < bytes.size;) {
                        int n = utf8_decode(bytes.data + at, bytes.size - at, NULL);

                        if (n > 0)
                                buf_append(&want, bytes.data + at, (size_t)n);
                        else
                                buf_append_str(&want, BAD);
                        at += n > 0 ? (size_t)n : 1;
                }
                assert_int_equal(all.size, want.size);
                if (want.size > 0)
                        assert_memory_equal(all.data, want.data, want.size);
        }
        vocab_build_deinit(&v);
}

/* A full buffer leaves the stream and the text as they were. */
static void test_limit(void **state) {
        _cleanup_(buf_deinit) struct buf b = {.max = 4};
        struct vocab_build v;
        struct tok_stream s;
        int32_t id;

        vocab_build_init(&v, "llama");
        vocab_build_spm_bytes(&v);
        id = vocab_build_add(&v,
                "a\xff"
                "bc\xff",
                V_USER_DEFINED, 0);
        load(&v);
        tok_stream_init(&s, v.tok, true, false);
        assert_int_equal(tok_stream_push(&s, v.tok, 3 + 'x', &b), 0);
        assert_int_equal(tok_stream_push(&s, v.tok, id, &b), -ERR_LIMIT);
        assert_text(&b, "x");
        b.max = 0;
        assert_int_equal(tok_stream_push(&s, v.tok, id, &b), 0);
        assert_text(&b, "xa" BAD "bc" BAD);
        vocab_build_deinit(&v);
}

static void test_long_token(void **state) {
        _cleanup_(buf_deinit) struct buf b = BUF_NULL;
        char text[1001];
        struct vocab_build v;
        int32_t ids[3] = {3 + 0xc3, 3 + 0xa9};

        memset(text, 'y', 1000);
        text[1000] = 0;
        vocab_build_init(&v, "llama");
        vocab_build_spm_bytes(&v);
        ids[2] = vocab_build_add(&v, text, V_NORMAL, 0);
        load(&v);
        decode(v.tok, ids, 3, true, false, &b);
        assert_int_equal(b.size, 1002);
        buf_consume(&b, 1002);
        decode(v.tok, ids + 2, 1, true, false, &b);
        assert_int_equal(b.size, 1000);
        buf_consume(&b, 1000);
        ids[1] = ids[2];
        decode(v.tok, ids, 2, true, false, &b);
        assert_int_equal(b.size, 1003);
        vocab_build_deinit(&v);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_pieces),
                cmocka_unit_test(test_spaces),
                cmocka_unit_test(test_halves),
                cmocka_unit_test(test_random_streams),
                cmocka_unit_test(test_limit),
                cmocka_unit_test(test_long_token),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
