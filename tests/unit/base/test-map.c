/* SPDX-License-Identifier: MIT */
#include "base/err.h"
#include "base/map.h"
#include "util/test.h"
#include <stdio.h>
#include <string.h>

static void test_basics(void **state) {
        struct map *m;
        int a, b;

        assert_int_equal(map_new(&m, NULL), 0);
        assert_int_equal(map_count(m), 0);
        assert_null(map_get(m, "x", 1));
        assert_null(map_remove(m, "x", 1));
        assert_int_equal(map_add(m, "x", 1, &a, NULL), 0);
        assert_int_equal(map_add(m, "x", 1, &b, NULL), 1);
        assert_ptr_equal(map_get(m, "x", 1), &a);
        /* a prefix, the empty key and a longer key are other keys */
        assert_null(map_get(m, "xy", 2));
        assert_int_equal(map_add(m, "", 0, &b, NULL), 0);
        assert_int_equal(map_add(m, "x\0", 2, &b, NULL), 0);
        assert_ptr_equal(map_get(m, NULL, 0), &b);
        assert_int_equal(map_count(m), 3);
        assert_ptr_equal(map_remove(m, "x", 1), &a);
        assert_null(map_get(m, "x", 1));
        assert_ptr_equal(map_get(m, "x\0", 2), &b);
        assert_int_equal(map_count(m), 2);
        assert_null(map_free(m));
        assert_null(map_free(NULL));
}

static void test_keys_are_copied(void **state) {
        char key[] = "a key that is longer than eight bytes";
        struct map *m;

        assert_int_equal(map_new(&m, NULL), 0);
        assert_int_equal(map_add(m, key, strlen(key), m, NULL), 0);
        memset(key, 'x', strlen(key));
        assert_ptr_equal(map_get(m, "a key that is longer than eight bytes", strlen(key)), m);
        map_free(m);
}

#define N 3000

/* Against a plain table, with additions and removals in a random order. */
static void test_model(void **state) {
        static unsigned char there[N];
        static int values[N];
        struct map *m;
        uint64_t x = 88172645463325252;
        size_t n = 0, it = 0, seen = 0;

        assert_int_equal(map_new(&m, NULL), 0);
        for (int step = 0; step < 60000; step++) {
                char key[40];
                size_t i, key_size;

                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                i = (x >> 16) % N;
                /* short keys lie in the slot, long ones on the heap */
                key_size = (size_t)snprintf(
                        key, sizeof(key), i % 2 ? "%zu" : "a rather long key %zu", i);
                if (x & 1) {
                        assert_int_equal(map_add(m, key, key_size, &values[i], NULL), there[i]);
                        n += !there[i];
                        there[i] = 1;
                } else {
                        void *v = map_remove(m, key, key_size);

                        assert_ptr_equal(v, there[i] ? &values[i] : NULL);
                        n -= there[i];
                        there[i] = 0;
                }
                assert_int_equal(map_count(m), n);
        }
        for (size_t i = 0; i < N; i++) {
                char key[40];
                size_t key_size = (size_t)snprintf(
                        key, sizeof(key), i % 2 ? "%zu" : "a rather long key %zu", i);

                assert_ptr_equal(map_get(m, key, key_size), there[i] ? &values[i] : NULL);
        }
        for (int *v; (v = map_next(m, &it)); seen++) {
                assert_int_equal(there[v - values], 1);
                there[v - values] = 0;
        }
        assert_int_equal(seen, n);
        map_free(m);
}

static void test_u64(void **state) {
        static int values[1000];
        struct map *m;

        assert_int_equal(map_new(&m, NULL), 0);
        for (uint64_t i = 0; i < 1000; i++)
                assert_int_equal(map_add_u64(m, i << 32, &values[i], NULL), 0);
        for (uint64_t i = 0; i < 1000; i++)
                assert_ptr_equal(map_get_u64(m, i << 32), &values[i]);
        assert_null(map_get_u64(m, 1));
        for (uint64_t i = 0; i < 1000; i++)
                assert_ptr_equal(map_remove_u64(m, i << 32), &values[i]);
        assert_int_equal(map_count(m), 0);
        map_free(m);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_basics),
                cmocka_unit_test(test_keys_are_copied),
                cmocka_unit_test(test_model),
                cmocka_unit_test(test_u64),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
