/* SPDX-License-Identifier: MIT */
/* Every allocation of the prefix index fails once: what could not be entered is not found, the rest
 * is, nothing is leaked or charged for nothing, and the same call succeeds afterwards. */
#include "base/err.h"
#include "base/ledger.h"
#include "fault/fault.h"
#include "fault/loop.h"
#include "seq/seq.h"
#include "util/test.h"

enum { BLOCK = 4096, TOKENS = 4, N = 40 };

static const struct seq_shape shape = {.size[SEQ_ALL] = BLOCK, .block_tokens = TOKENS};

static void test_every_allocation_may_fail(void **state) {
        struct ledger l = LEDGER_INIT((size_t)1 << 26), li = LEDGER_INIT((size_t)1 << 20);
        struct seq_step out[N / TOKENS];
        struct seq_pool *p = NULL;
        struct seq_index *x = NULL;
        struct seq *s = NULL, *t = NULL;
        struct seq_index_stats st;
        int32_t tokens[N] = {0};
        struct fault_loop making = {.at_least = 1, .at_most = 100};
        struct fault_loop entering = {.at_least = 1, .at_most = 1000};

        assert_int_equal(seq_pool_new(&p, &l, &shape, NULL), 0);
        while (fault_loop_next(&making)) {
                int r;

                fault_loop_arm(&making);
                r = seq_index_new(&x, p, &li, NULL);
                fault_loop_disarm(&making);
                fault_loop_expect(&making, r, NULL);
                assert_int_equal(!!x, r == 0);
        }
        assert_int_equal(seq_new(&s, p, NULL), 0);
        assert_int_equal(seq_reserve(s, N, NULL), 0);
        seq_commit(s, N);

        while (fault_loop_next(&entering)) {
                size_t n_found;
                int r;

                fault_loop_arm(&entering);
                r = seq_index_enter(x, 0, s, tokens, 0, NULL);
                fault_loop_disarm(&entering);
                fault_loop_expect(&entering, r, NULL);
                seq_index_stats(x, &st);
                n_found = seq_index_match(x, 0, tokens, N / TOKENS, out);
                assert_int_equal(st.n_entries, n_found);
                assert_int_equal(st.n_scopes, n_found > 0);
                assert_int_equal(st.size, ledger_used(&li));
                assert_true(n_found > 0 || st.size == 0);
                assert_true(r != 0 || n_found == N / TOKENS);
                /* Begin anew, so that each of them is the first to fail once. */
                if (r != 0)
                        seq_index_forget(x, 0);
        }

        assert_int_equal(seq_new(&t, p, NULL), 0);
        fault_alloc_at(0);
        assert_int_equal(seq_adopt(t, out, N / TOKENS, NULL), -ERR_NOMEM);
        fault_alloc_at(1);
        assert_int_equal(seq_adopt(t, out, N / TOKENS, NULL), -ERR_NOMEM);
        fault_alloc_at(-1);
        assert_int_equal(seq_n_tokens(t), 0);
        assert_int_equal(seq_block_n_refs(out[3].block[SEQ_ALL]), 1);
        assert_int_equal(seq_adopt(t, out, N / TOKENS, NULL), 0);
        seq_free(s);
        seq_free(t);
        assert_int_equal(ledger_used(&li), 0);
        assert_int_equal(ledger_used(&l), 0);
        seq_index_free(x);
        seq_pool_free(p);
}

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_allocation_may_fail)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
