/* SPDX-License-Identifier: MIT */
/* One test per rule of lib/gguf/parse.c: a file that breaks the rule is refused, with a message
 * that names the fault. */
#include "base/err.h"
#include "build.h"
#include "quant/quant.h"
#include "util/test.h"
#include <string.h>

/* Parse and free @b; the result, and on failure the message has @words in it. */
static int parse(struct buf *b, const char *words) {
        struct gguf *g = NULL;
        struct err e = {0};
        uint8_t *exact = malloc(b->size ? b->size : 1); /* a sanitizer sees one byte too many */
        int r;

        assert_non_null(exact);
        if (b->size)
                memcpy(exact, b->data, b->size);
        r = gguf_parse(&g, exact, b->size, &e);
        if (r < 0) {
                assert_null(g);
                assert_int_equal(e.code, -r);
                if (!words || !strstr(e.msg, words))
                        print_message("got: %s\nwanted: %s\n", e.msg, words ? words : "success");
                assert_non_null(words);
                assert_non_null(strstr(e.msg, words));
        } else
                assert_null(words);
        gguf_free(g);
        free(exact);
        buf_deinit(b);
        return r;
}

static void test_header(void **state) {
        struct buf b = BUF_NULL;

        assert_int_equal(parse(&b, "magic"), -ERR_FORMAT); /* empty file */
        put(&b, "GGU", 3);
        assert_int_equal(parse(&b, "magic"), -ERR_FORMAT);
        put(&b, "GGUFxx", 6);
        assert_int_equal(parse(&b, "header"), -ERR_FORMAT);
        put(&b, "GGML\3\0\0\0", 8);
        assert_int_equal(parse(&b, "magic"), -ERR_FORMAT);
        put_header(&b, 3, 0, 0);
        b.size--;
        assert_int_equal(parse(&b, "header"), -ERR_FORMAT);
        put_header(&b, 3, 0, 0);
        assert_int_equal(parse(&b, NULL), 0);
        put_header(&b, 2, 0, 0);
        assert_int_equal(parse(&b, NULL), 0);
}

static void test_versions(void **state) {
        struct buf b = BUF_NULL;

        put_header(&b, 0, 0, 0);
        assert_int_equal(parse(&b, "version 0"), -ERR_FORMAT);
        put_header(&b, 1, 0, 0);
        assert_int_equal(parse(&b, "version 1"), -ERR_UNSUPPORTED);
        put_header(&b, 4, 0, 0);
        assert_int_equal(parse(&b, "version 4"), -ERR_UNSUPPORTED);
        put_header(&b, 0x03000000, 0, 0);
        assert_int_equal(parse(&b, "big-endian"), -ERR_UNSUPPORTED);
        put_header(&b, 0x02000000, 0, 0);
        assert_int_equal(parse(&b, "big-endian"), -ERR_UNSUPPORTED);
}

static void test_counts(void **state) {
        struct buf b = BUF_NULL;

        put_header(&b, 3, 0, UINT64_MAX);
        assert_int_equal(parse(&b, "negative"), -ERR_FORMAT);
        put_header(&b, 3, (uint64_t)1 << 63, 0);
        assert_int_equal(parse(&b, "negative"), -ERR_FORMAT);
        /* entries that the file has no room for: refused before any table is made */
        put_header(&b, 3, 0, INT64_MAX);
        assert_int_equal(parse(&b, "cannot fit"), -ERR_FORMAT);
        put_header(&b, 3, INT64_MAX, 0);
        assert_int_equal(parse(&b, "cannot fit"), -ERR_FORMAT);
        put_header(&b, 3, 0, 2);
        put_kv_u32(&b, "a", 1);
        assert_int_equal(parse(&b, "cannot fit"), -ERR_FORMAT);
        put_header(&b, 3, 0, 2);
        put_kv_u32(&b, "a", 1);
        put_str(&b, "bbbb");
        assert_int_equal(parse(&b, "within key 'bbbb'"), -ERR_FORMAT);
}

static void test_keys(void **state) {
        static char big[65537];
        struct buf b = BUF_NULL;

        put_header(&b, 3, 0, 1);
        put_kv_u32(&b, "", 1);
        assert_int_equal(parse(&b, "empty key"), -ERR_FORMAT);

        put_header(&b, 3, 0, 3);
        put_kv_u32(&b, "one", 1);
        put_kv_u32(&b, "two", 1);
        put_kv_str(&b, "one", "x");
        assert_int_equal(parse(&b, "key 'one' occurs twice"), -ERR_FORMAT);

        put_header(&b, 3, 0, 1);
        put_u64(&b, 1000); /* longer than the file */
        put(&b, "key and some bytes", 18);
        assert_int_equal(parse(&b, "only 18 bytes are left"), -ERR_FORMAT);

        put_header(&b, 3, 0, 1);
        put_u64(&b, UINT64_MAX);
        put(&b, "key and some bytes", 18);
        assert_int_equal(parse(&b, "2^30"), -ERR_FORMAT);

        memset(big, 'k', sizeof(big) - 1);
        put_header(&b, 3, 0, 1);
        put_kv_u32(&b, big, 1);
        assert_int_equal(parse(&b, "over the limit"), -ERR_FORMAT);
        big[65535] = 0;
        put_header(&b, 3, 0, 1);
        put_kv_u32(&b, big, 1);
        assert_int_equal(parse(&b, NULL), 0);
}

static void test_messages_show_keys_safely(void **state) {
        struct buf b = BUF_NULL;
        struct gguf *g = NULL;
        struct err e;

        put_header(&b, 3, 0, 1);
        put_key(&b, "a\x1b[31m\xff%s", 77);
        put_u64(&b, 0);
        assert_int_equal(gguf_parse(&g, b.data, b.size, &e), -ERR_FORMAT);
        assert_non_null(strstr(e.msg, "'a?[31m?%s'"));
        buf_deinit(&b);
}

static void test_value_types(void **state) {
        struct buf b = BUF_NULL;

        for (uint32_t t = GGUF_N_TYPES; t < GGUF_N_TYPES + 3; t++) {
                put_header(&b, 3, 0, 1);
                put_key(&b, "k", t);
                put_u64(&b, 0);
                assert_int_equal(parse(&b, "key 'k' has value type"), -ERR_FORMAT);
        }
        put_header(&b, 3, 0, 1);
        put_key(&b, "k", UINT32_MAX);
        put_u64(&b, 0);
        assert_int_equal(parse(&b, "value type -1"), -ERR_FORMAT);
        /* every scalar, one byte short */
        for (uint32_t t = 0; t < GGUF_N_TYPES; t++) {
                static const size_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

                if (!sizes[t])
                        continue;
                put_header(&b, 3, 0, 2);
                put_key(&b, "fill", GGUF_STRING);
                put_str(&b, "some bytes");
                put_key(&b, "k", t);
                for (size_t i = 1; i < sizes[t]; i++)
                        put_u8(&b, 0);
                assert_int_equal(parse(&b, "value of key 'k'"), -ERR_FORMAT);
        }
        put_header(&b, 3, 0, 1);
        put_key(&b, "yes", GGUF_BOOL);
        put_u8(&b, 2);
        assert_int_equal(parse(&b, "key 'yes': 2 is not a bool"), -ERR_FORMAT);
}

static void test_string_values(void **state) {
        struct buf b = BUF_NULL;

        put_header(&b, 3, 0, 1);
        put_kv_str(&b, "k", "any \xff\xfe bytes are right");
        assert_int_equal(parse(&b, NULL), 0);
        put_header(&b, 3, 0, 1);
        put_key(&b, "k", GGUF_STRING);
        put_u64(&b, 6);
        put(&b, "short", 5);
        assert_int_equal(parse(&b, "value of key 'k' has length 6"), -ERR_FORMAT);
        put_header(&b, 3, 0, 1);
        put_key(&b, "k", GGUF_STRING);
        put_u64(&b, ((uint64_t)1 << 30) + 1);
        assert_int_equal(parse(&b, "over the limit of 2^30"), -ERR_FORMAT);
        put_header(&b, 3, 0, 1);
        put_key(&b, "k", GGUF_STRING);
        put_u32(&b, 0);
        assert_int_equal(parse(&b, "within the value of key 'k'"), -ERR_FORMAT);
}

static void test_arrays(void **state) {
        struct buf b = BUF_NULL;

        put_header(&b, 3, 0, 1);
        put_kv_array(&b, "k", GGUF_ARRAY, 0);
        assert_int_equal(parse(&b, "key 'k': arrays of arrays"), -ERR_UNSUPPORTED);
        put_header(&b, 3, 0, 1);
        put_kv_array(&b, "k", GGUF_N_TYPES, 0);
        assert_int_equal(parse(&b, "key 'k': array of type 13"), -ERR_FORMAT);
        put_header(&b, 3, 0, 1);
        put_kv_array(&b, "k", GGUF_U64, 3);
        put_u64(&b, 1);
        put_u64(&b, 2);
        put(&b, "1234567", 7);
        assert_int_equal(parse(&b, "array of 3 u64 cannot fit"), -ERR_FORMAT);
        put_header(&b, 3, 0, 1);
        put_kv_array(&b, "k", GGUF_U8, ((uint64_t)1 << 30) + 1);
        assert_int_equal(parse(&b, "over the limit of 2^30"), -ERR_FORMAT);
        /* a count whose bytes would wrap around */
        put_header(&b, 3, 0, 1);
        put_kv_array(&b, "k", GGUF_U64, (uint64_t)1 << 61);
        assert_int_equal(parse(&b, "over the limit of 2^30"), -ERR_FORMAT);
        put_header(&b, 3, 0, 1);
        put_kv_array(&b, "k", GGUF_STRING, 3);
        put_str(&b, "12345678");
        assert_int_equal(parse(&b, "array of 3 string cannot fit"), -ERR_FORMAT);
        put_header(&b, 3, 0, 1);
        put_kv_array(&b, "k", GGUF_STRING, 2);
        put_str(&b, "12345678");
        put_u64(&b, 3);
        put(&b, "ab", 2);
        assert_int_equal(parse(&b, "a string of array 'k' has length 3"), -ERR_FORMAT);
        put_header(&b, 3, 0, 1);
        put_kv_array(&b, "k", GGUF_BOOL, 3);
        put(&b, "\0\1\3", 3);
        assert_int_equal(parse(&b, "key 'k': 3 is not a bool"), -ERR_FORMAT);
        put_header(&b, 3, 0, 1);
        put_kv_array(&b, "k", GGUF_U8, 0);
        assert_int_equal(parse(&b, NULL), 0);
        put_header(&b, 3, 0, 1);
        put_key(&b, "k", GGUF_ARRAY);
        put_u32(&b, GGUF_U8);
        assert_int_equal(parse(&b, "array of key 'k'"), -ERR_FORMAT);
}

static void test_alignment(void **state) {
        static const uint32_t bad[] = {0, 1, 2, 4, 12, 33, 0xFFFFFFFF};
        static const uint64_t ne[] = {8};
        struct buf b = BUF_NULL;

        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                put_header(&b, 3, 0, 1);
                put_kv_u32(&b, "general.alignment", bad[i]);
                assert_int_equal(parse(&b, "general.alignment"), -ERR_FORMAT);
        }
        put_header(&b, 3, 0, 1);
        put_key(&b, "general.alignment", GGUF_U64);
        put_u64(&b, 32);
        assert_int_equal(parse(&b, "must be u32"), -ERR_FORMAT);
        for (uint32_t align = 8; align <= 4096; align *= 2) {
                put_header(&b, 3, 2, 1);
                put_kv_u32(&b, "general.alignment", align);
                put_tensor(&b, "a", 1, ne, QUANT_F32, 0);
                put_tensor(&b, "b", 1, ne, QUANT_F32, align > 32 ? align : 32);
                put_data(&b, align, (align > 32 ? align : 32) + 32);
                assert_int_equal(parse(&b, NULL), 0);
        }
        put_header(&b, 3, 0, 1);
        put_kv_u32(&b, "general.alignment", 0x80000000);
        assert_int_equal(parse(&b, NULL), 0);
        put_header(&b, 3, 1, 1);
        put_kv_u32(&b, "general.alignment", 0x80000000);
        put_tensor(&b, "a", 1, ne, QUANT_F32, 0);
        put_data(&b, 32, 32);
        assert_int_equal(parse(&b, "before the tensor data"), -ERR_FORMAT);
}

/* A file with one tensor "t" and @n_data bytes of data. */
static int parse_tensor(const char *name, uint32_t n_dims, const uint64_t *ne, uint32_t type,
        uint64_t offset, size_t n_data, const char *words) {
        struct buf b = BUF_NULL;

        put_header(&b, 3, 1, 0);
        put_tensor(&b, name, n_dims, ne, type, offset);
        put_data(&b, 32, n_data);
        return parse(&b, words);
}

#define NE(...) ((const uint64_t[5]){__VA_ARGS__})

static void test_tensor_names(void **state) {
        char name[65];

        memset(name, 'n', 64);
        name[64] = 0;
        assert_int_equal(parse_tensor(name, 1, NE(1), 0, 0, 4, "64 bytes"), -ERR_FORMAT);
        name[63] = 0;
        assert_int_equal(parse_tensor(name, 1, NE(1), 0, 0, 4, NULL), 0);

        struct buf b = BUF_NULL;
        put_header(&b, 3, 2, 0);
        put_tensor(&b, "t", 1, NE(8), 0, 0);
        put_tensor(&b, "t", 1, NE(8), 0, 32);
        put_data(&b, 32, 64);
        assert_int_equal(parse(&b, "tensor 't' occurs twice"), -ERR_FORMAT);
}

static void test_tensor_dims(void **state) {
        assert_int_equal(parse_tensor("t", 0, NULL, 0, 0, 4, NULL), 0); /* a scalar */
        assert_int_equal(parse_tensor("t", 4, NE(1, 1, 1, 1), 0, 0, 4, NULL), 0);
        assert_int_equal(parse_tensor("t", 5, NE(1, 1, 1, 1, 1), 0, 0, 4, "tensor 't' has 5 dim"),
                -ERR_FORMAT);
        assert_int_equal(parse_tensor("t", 1, NE(UINT64_MAX), 0, 0, 4, "negative dimension -1"),
                -ERR_FORMAT);
        assert_int_equal(parse_tensor("t", 2, NE((uint64_t)1 << 32, (uint64_t)1 << 31), 24, 0, 4,
                                 "2^63 values"),
                -ERR_FORMAT);
        assert_int_equal(
                parse_tensor("t", 3, NE((uint64_t)1 << 32, (uint64_t)1 << 32, (uint64_t)1 << 32), 0,
                        0, 4, "2^63 values"),
                -ERR_FORMAT);
        assert_int_equal(parse_tensor("t", 1, NE(INT64_MAX), 24, 0, 4, "2^63 values"), -ERR_FORMAT);
        /* fits as values, not as bytes */
        assert_int_equal(
                parse_tensor("t", 1, NE((uint64_t)1 << 62), 28, 0, 4, "2^63 bytes"), -ERR_FORMAT);
        assert_int_equal(
                parse_tensor("t", 2, NE((uint64_t)1 << 60, 4), 0, 0, 4, "2^63 bytes"), -ERR_FORMAT);
        /* empty tensors are right, wherever the zero stands */
        assert_int_equal(parse_tensor("t", 2, NE(0, 5), 0, 0, 0, NULL), 0);
        assert_int_equal(parse_tensor("t", 2, NE(5, 0), 0, 0, 0, NULL), 0);
        assert_int_equal(
                parse_tensor("t", 3, NE((uint64_t)1 << 40, 0, (uint64_t)1 << 40), 0, 0, 0, "2^63"),
                -ERR_FORMAT);
}

static void test_tensor_types(void **state) {
        static const uint32_t unknown[] = {4, 5, 31, 32, 33, 36, 37, 38, 43, 1000};

        for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
                assert_int_equal(
                        parse_tensor("t", 1, NE(256), unknown[i], 0, 4096, "tensor 't' has type"),
                        -ERR_UNSUPPORTED);
        assert_int_equal(
                parse_tensor("t", 1, NE(256), UINT32_MAX, 0, 4096, "type -1"), -ERR_FORMAT);
        for (uint32_t t = 0; t < QUANT_N_TYPES; t++) {
                const struct quant_info *info = quant_info(t);

                if (!info)
                        continue;
                assert_int_equal(
                        parse_tensor("t", 2, NE(256, 3), t, 0, quant_row_size(t, 256) * 3, NULL),
                        0);
                assert_int_equal(parse_tensor("t", 2, NE(256, 3), t, 0,
                                         quant_row_size(t, 256) * 3 - 1, "tensor 't' ends at"),
                        -ERR_FORMAT);
                if (info->block_values > 1)
                        assert_int_equal(parse_tensor("t", 2, NE(info->block_values / 2, 2), t, 0,
                                                 4096, "no multiple"),
                                -ERR_FORMAT);
        }
}

static void test_tensor_offsets(void **state) {
        static const struct {
                uint64_t a, b;
                const char *words;
        } cases[] = {
                {0, 32, NULL}, {32, 64, "tensor 'a' has offset 32, must be 0"},
                {0, 64, "tensor 'b' has offset 64, must be 32"}, /* gap */
                {0, 0, "tensor 'b' has offset 0, must be 32"},   /* overlap */
                {0, 20, "tensor 'b' has offset 20"},             /* not aligned */
                {0, UINT64_MAX - 31, "tensor 'b' has offset"},
                {32, 0, "tensor 'a' has offset 32"}, /* wrong order */
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct buf b = BUF_NULL;

                put_header(&b, 3, 2, 0);
                put_tensor(&b, "a", 1, NE(5), QUANT_F32, cases[i].a);
                put_tensor(&b, "b", 1, NE(8), QUANT_F32, cases[i].b);
                put_data(&b, 32, 64);
                assert_int_equal(parse(&b, cases[i].words), cases[i].words ? -ERR_FORMAT : 0);
        }
        /* sums that would wrap around */
        struct buf b = BUF_NULL;
        put_header(&b, 3, 3, 0);
        put_tensor(&b, "a", 1, NE((uint64_t)1 << 62), 24, 0);
        put_tensor(&b, "b", 1, NE((uint64_t)1 << 62), 24, (uint64_t)1 << 62);
        put_tensor(&b, "c", 1, NE((uint64_t)1 << 62), 24, (uint64_t)1 << 63);
        put_data(&b, 32, 64);
        assert_int_equal(parse(&b, "tensor 'a' ends at"), -ERR_FORMAT);
        put_header(&b, 3, 4, 0);
        put_tensor(&b, "a", 1, NE((uint64_t)1 << 62), 24, 0);
        put_tensor(&b, "b", 1, NE((uint64_t)1 << 62), 24, (uint64_t)1 << 62);
        put_tensor(&b, "c", 1, NE((uint64_t)1 << 62), 24, (uint64_t)1 << 63);
        put_tensor(&b, "d", 1, NE((uint64_t)1 << 62), 24, (uint64_t)3 << 62);
        put_data(&b, 32, 64);
        assert_int_equal(parse(&b, "tensor 'd' ends past 2^64"), -ERR_FORMAT);
}

static void test_padding(void **state) {
        struct buf b = BUF_NULL;

        /* without tensors nothing follows the metadata; with them, the padding before the data
         * must be there, that after the last tensor need not */
        put_header(&b, 3, 0, 1);
        put_kv_u32(&b, "k", 1);
        assert_int_equal(parse(&b, NULL), 0);
        put_header(&b, 3, 1, 0);
        put_tensor(&b, "t", 1, NE(0), QUANT_F32, 0);
        assert_int_equal(parse(&b, "before the tensor data"), -ERR_FORMAT);
        assert_int_equal(parse_tensor("t", 1, NE(3), QUANT_F32, 0, 12, NULL), 0);
        assert_int_equal(parse_tensor("t", 1, NE(3), QUANT_F32, 0, 100, NULL), 0);
        put_header(&b, 3, 2, 0);
        put_tensor(&b, "t", 1, NE(3), QUANT_F32, 0);
        put_tensor(&b, "empty", 1, NE(0), QUANT_F32, 32);
        put_data(&b, 32, 12);
        assert_int_equal(parse(&b, NULL), 0);
}

static void test_tensor_info_cut(void **state) {
        struct buf whole = BUF_NULL;

        put_header(&whole, 3, 2, 0);
        put_tensor(&whole, "first", 1, NE(8), QUANT_F32, 0);
        put_tensor(&whole, "second", 2, NE(4, 2), QUANT_F32, 32);
        for (size_t n = 0; n < whole.size; n++) {
                struct gguf *g = NULL;
                struct err e;
                uint8_t *exact = malloc(n + 1);

                assert_non_null(exact);
                memcpy(exact, whole.data, n);
                assert_true(gguf_parse(&g, exact, n, &e) < 0);
                assert_null(g);
                free(exact);
        }
        buf_deinit(&whole);
}

/* Many keys must not take quadratic time (rule 2): this would be 10^10 comparisons. */
static void test_many_keys(void **state) {
        struct buf b = BUF_NULL;
        char key[32];

        put_header(&b, 3, 0, 100001);
        for (int i = 0; i < 100000; i++) {
                snprintf(key, sizeof(key), "key.number.%d", i);
                put_kv_u32(&b, key, 1);
        }
        put_kv_u32(&b, "key.number.0", 1);
        assert_int_equal(parse(&b, "'key.number.0' occurs twice"), -ERR_FORMAT);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_header),
                cmocka_unit_test(test_versions),
                cmocka_unit_test(test_counts),
                cmocka_unit_test(test_keys),
                cmocka_unit_test(test_messages_show_keys_safely),
                cmocka_unit_test(test_value_types),
                cmocka_unit_test(test_string_values),
                cmocka_unit_test(test_arrays),
                cmocka_unit_test(test_alignment),
                cmocka_unit_test(test_tensor_names),
                cmocka_unit_test(test_tensor_dims),
                cmocka_unit_test(test_tensor_types),
                cmocka_unit_test(test_tensor_offsets),
                cmocka_unit_test(test_padding),
                cmocka_unit_test(test_tensor_info_cut),
                cmocka_unit_test(test_many_keys),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
