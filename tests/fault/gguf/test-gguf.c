/* SPDX-License-Identifier: MIT */
#include "base/buf.h"
#include "base/err.h"
#include "fault/loop.h"
#include "gguf/gguf.h"
#include "util/test.h"
#include <string.h>

#define N_KEYS 40 /* enough for the map of keys to grow */

static void put_str(struct buf *b, const char *s) {
        assert_int_equal(buf_append_u64(b, strlen(s)), 0);
        assert_int_equal(buf_append_str(b, s), 0);
}

static void put_file(struct buf *b) {
        char key[40];

        assert_int_equal(buf_append_str(b, "GGUF"), 0);
        buf_append_u32(b, 3);
        buf_append_u64(b, 0);
        buf_append_u64(b, N_KEYS);
        for (int i = 0; i < N_KEYS; i++) {
                snprintf(key, sizeof(key), "key.with.a.longer.name.%d", i);
                put_str(b, key);
                buf_append_u32(b, GGUF_U32);
                buf_append_u32(b, 1);
        }
}

static void test_every_allocation_may_fail(void **state) {
        struct fault_loop loop = {.at_least = N_KEYS + 1, .at_most = 1000};
        struct buf b = BUF_NULL;

        put_file(&b);
        while (fault_loop_next(&loop)) {
                struct gguf *g = NULL;
                struct err e = {0};
                int r;

                fault_loop_arm(&loop);
                r = gguf_parse(&g, b.data, b.size, &e);
                fault_loop_disarm(&loop);
                fault_loop_expect(&loop, r, &e);
                assert_int_equal(!!g, r == 0);
                if (r == 0)
                        assert_int_equal(gguf_n_kv(g), N_KEYS);
                gguf_free(g);
        }
        buf_deinit(&b);
}

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_allocation_may_fail)};
        return cmocka_run_group_tests(tests, NULL, NULL);
}
