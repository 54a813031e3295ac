/* SPDX-License-Identifier: MIT */
#include "base/err.h"
#include "build.h"
#include "util/test.h"
#include <math.h>
#include <string.h>

static struct gguf *parse(struct buf *b) {
        struct gguf *g = NULL;
        struct err e = {0};

        if (gguf_parse(&g, b->data, b->size, &e) < 0)
                print_message("%s\n", e.msg);
        assert_non_null(g);
        return g;
}

static void put_f32(struct buf *b, float f) {
        uint32_t u;

        memcpy(&u, &f, sizeof(u));
        put_u32(b, u);
}

static void put_f64(struct buf *b, double d) {
        uint64_t u;

        memcpy(&u, &d, sizeof(u));
        put_u64(b, u);
}

static void put_all_scalars(struct buf *b) {
        put_header(b, 3, 0, 15);
        put_key(b, "u8", GGUF_U8);
        put_u8(b, 200);
        put_key(b, "i8", GGUF_I8);
        put_u8(b, 0xFF);
        put_key(b, "u16", GGUF_U16);
        put(b, "\xFE\xFF", 2);
        put_key(b, "i16", GGUF_I16);
        put(b, "\x34\x12", 2);
        put_kv_u32(b, "u32", 0xFFFFFFFF);
        put_key(b, "i32", GGUF_I32);
        put_u32(b, 0xFFFFFFFE);
        put_key(b, "f32", GGUF_F32);
        put_f32(b, 1.5f);
        put_key(b, "bool", GGUF_BOOL);
        put_u8(b, 1);
        put_kv_str(b, "str", "text");
        put_key(b, "u64", GGUF_U64);
        put_u64(b, 7);
        put_key(b, "i64", GGUF_I64);
        put_u64(b, (uint64_t)-7);
        put_key(b, "f64", GGUF_F64);
        put_f64(b, 0.1);
        put_key(b, "big", GGUF_U64);
        put_u64(b, (uint64_t)1 << 32);
        put_key(b, "huge", GGUF_U64);
        put_u64(b, UINT64_MAX);
        put_kv_array(b, "arr", GGUF_U32, 1);
        put_u32(b, 5);
}

static void check_u32(const struct gguf *g, const char *key, int r, uint32_t expected) {
        struct err e = {0};
        uint32_t v = 4711;

        assert_int_equal(gguf_get_u32(g, key, &v, &e), r);
        assert_int_equal(v, r == 0 ? expected : 4711);
        if (r < 0)
                assert_non_null(strstr(e.msg, key));
}

static void test_u32(void **state) {
        struct buf b = BUF_NULL;
        struct gguf *g;

        put_all_scalars(&b);
        g = parse(&b);
        check_u32(g, "u8", 0, 200);
        check_u32(g, "i8", -ERR_FORMAT, 0);
        check_u32(g, "u16", 0, 0xFFFE);
        check_u32(g, "i16", 0, 0x1234);
        check_u32(g, "u32", 0, 0xFFFFFFFF);
        check_u32(g, "i32", -ERR_FORMAT, 0);
        check_u32(g, "u64", 0, 7);
        check_u32(g, "i64", -ERR_FORMAT, 0);
        check_u32(g, "big", -ERR_FORMAT, 0);
        check_u32(g, "huge", -ERR_FORMAT, 0);
        check_u32(g, "f32", -ERR_FORMAT, 0);
        check_u32(g, "bool", -ERR_FORMAT, 0);
        check_u32(g, "str", -ERR_FORMAT, 0);
        check_u32(g, "arr", -ERR_FORMAT, 0);
        check_u32(g, "none", 1, 0);
        gguf_free(g);
        buf_deinit(&b);
}

static void test_other_scalars(void **state) {
        struct buf b = BUF_NULL;
        struct gguf_str s = {0};
        struct gguf *g;
        bool yes = false;
        float f = 7;
        struct err e;

        put_all_scalars(&b);
        g = parse(&b);
        assert_int_equal(gguf_get_f32(g, "f32", &f, &e), 0);
        assert_true(f == 1.5f);
        assert_int_equal(gguf_get_f32(g, "f64", &f, &e), 0);
        assert_true(f == 0.1f);
        assert_int_equal(gguf_get_f32(g, "u32", &f, &e), -ERR_FORMAT);
        assert_non_null(strstr(e.msg, "key 'u32' is u32, must be f32"));
        assert_int_equal(gguf_get_f32(g, "none", &f, &e), 1);
        assert_true(f == 0.1f);
        assert_int_equal(gguf_get_bool(g, "bool", &yes, &e), 0);
        assert_true(yes);
        assert_int_equal(gguf_get_bool(g, "u8", &yes, &e), -ERR_FORMAT);
        assert_int_equal(gguf_get_bool(g, "none", &yes, &e), 1);
        assert_int_equal(gguf_get_str(g, "str", &s, &e), 0);
        assert_int_equal(s.size, 4);
        assert_memory_equal(s.data, "text", 4);
        assert_int_equal(gguf_get_str(g, "arr", &s, &e), -ERR_FORMAT);
        assert_int_equal(gguf_get_str(g, "none", &s, &e), 1);
        gguf_free(g);
        buf_deinit(&b);
}

static void test_iteration(void **state) {
        struct buf b = BUF_NULL;
        struct gguf *g;

        put_all_scalars(&b);
        g = parse(&b);
        assert_int_equal(gguf_n_kv(g), 15);
        assert_int_equal(gguf_kv_key(g, 0).size, 2);
        assert_memory_equal(gguf_kv_key(g, 0).data, "u8", 2);
        assert_int_equal(gguf_n_tensors(g), 0);
        gguf_free(g);
        buf_deinit(&b);
}

static void test_arrays(void **state) {
        struct gguf_array a = {0};
        struct buf b = BUF_NULL;
        struct gguf_str s;
        struct gguf *g;
        struct err e;
        size_t pos = 0;

        put_header(&b, 3, 0, 5);
        put_kv_array(&b, "i16", GGUF_I16, 2);
        put(&b, "\xFF\xFF\x02\x00", 4);
        put_kv_array(&b, "f32", GGUF_F32, 4);
        put_f32(&b, 2.75f);
        put_f32(&b, NAN);
        put_f32(&b, INFINITY);
        put_f32(&b, -1e30f);
        put_kv_array(&b, "str", GGUF_STRING, 3);
        put_str(&b, "a");
        put_str(&b, "");
        put_str(&b, "long");
        put_kv_array(&b, "u64", GGUF_U64, 1);
        put_u64(&b, UINT64_MAX);
        put_kv_array(&b, "f64", GGUF_F64, 1);
        put_f64(&b, -2.5);
        g = parse(&b);

        assert_int_equal(gguf_get_array(g, "i16", &a, &e), 0);
        assert_int_equal(a.type, GGUF_I16);
        assert_int_equal(a.count, 2);
        assert_int_equal(gguf_array_int(&a, 0), -1);
        assert_int_equal(gguf_array_int(&a, 1), 2);
        assert_true(gguf_array_f64(&a, 0) == -1);
        assert_int_equal(gguf_get_array(g, "f32", &a, &e), 0);
        assert_true(gguf_array_f64(&a, 0) == 2.75);
        assert_int_equal(gguf_array_int(&a, 0), 2);
        assert_int_equal(gguf_array_int(&a, 1), 0); /* NaN */
        assert_true(gguf_array_int(&a, 2) == INT64_MAX);
        assert_true(gguf_array_int(&a, 3) == INT64_MIN);
        assert_int_equal(gguf_get_array(g, "u64", &a, &e), 0);
        assert_true(gguf_array_int(&a, 0) == INT64_MAX);
        assert_true(gguf_array_f64(&a, 0) == 0x1p64);
        assert_int_equal(gguf_get_array(g, "f64", &a, &e), 0);
        assert_true(gguf_array_f64(&a, 0) == -2.5);
        assert_int_equal(gguf_array_int(&a, 0), -2);

        assert_int_equal(gguf_get_array(g, "str", &a, &e), 0);
        s = gguf_array_next_str(&a, &pos);
        assert_int_equal(s.size, 1);
        assert_memory_equal(s.data, "a", 1);
        s = gguf_array_next_str(&a, &pos);
        assert_int_equal(s.size, 0);
        s = gguf_array_next_str(&a, &pos);
        assert_int_equal(s.size, 4);
        assert_memory_equal(s.data, "long", 4);
        assert_int_equal(gguf_get_array(g, "none", &a, &e), 1);
        gguf_free(g);
        buf_deinit(&b);
}

static void test_per_layer(void **state) {
        uint32_t out[3] = {9, 9, 9};
        struct buf b = BUF_NULL;
        struct gguf *g;
        struct err e;

        put_header(&b, 3, 0, 5);
        put_kv_u32(&b, "scalar", 4);
        put_kv_array(&b, "array", GGUF_I32, 3);
        for (uint32_t i = 1; i <= 3; i++)
                put_u32(&b, i);
        put_kv_array(&b, "short", GGUF_U32, 2);
        put_u64(&b, 0);
        put_kv_array(&b, "negative", GGUF_I32, 3);
        put_u32(&b, 1);
        put_u32(&b, 1);
        put_u32(&b, UINT32_MAX);
        put_kv_array(&b, "floats", GGUF_F32, 3);
        put(&b, "123456789012", 12);
        g = parse(&b);
        assert_int_equal(gguf_get_u32_per_layer(g, "none", out, 3, &e), 1);
        assert_int_equal(gguf_get_u32_per_layer(g, "short", out, 3, &e), -ERR_FORMAT);
        assert_non_null(strstr(e.msg, "'short' has 2"));
        assert_int_equal(gguf_get_u32_per_layer(g, "negative", out, 3, &e), -ERR_FORMAT);
        assert_non_null(strstr(e.msg, "'negative', element 2"));
        assert_int_equal(gguf_get_u32_per_layer(g, "floats", out, 3, &e), -ERR_FORMAT);
        for (int i = 0; i < 3; i++)
                assert_int_equal(out[i], 9); /* untouched so far */
        assert_int_equal(gguf_get_u32_per_layer(g, "array", out, 3, &e), 0);
        for (uint32_t i = 0; i < 3; i++)
                assert_int_equal(out[i], i + 1);
        assert_int_equal(gguf_get_u32_per_layer(g, "scalar", out, 3, &e), 0);
        for (int i = 0; i < 3; i++)
                assert_int_equal(out[i], 4);
        gguf_free(g);
        buf_deinit(&b);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_u32),
                cmocka_unit_test(test_other_scalars),
                cmocka_unit_test(test_iteration),
                cmocka_unit_test(test_arrays),
                cmocka_unit_test(test_per_layer),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
