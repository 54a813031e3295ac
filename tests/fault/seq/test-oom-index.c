/* SPDX-License-Identifier: MIT */
/* Every allocation of the prefix index fails once: what could not be entered is not found, the rest
 * is, nothing is leaked or charged for nothing, and the same call succeeds afterwards. */
#include "base/err.h"
#include "base/ledger.h"
#include "fault/fault.h"
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
        int r = -1;

        assert_int_equal(seq_pool_new(&p, &l, &shape, NULL), 0);
        for (long n = 0; r != 0; n++) {
                fault_alloc_at(n);
                r = seq_index_new(&x, p, &li, NULL);
                assert_int_equal(r, fault_alloc_hit() ? -ERR_NOMEM : 0);
                assert_true(r == 0 || !x);
        }
        fault_alloc_at(-1);
        assert_int_equal(seq_new(&s, p, NULL), 0);
        assert_int_equal(seq_reserve(s, N, NULL), 0);
        seq_commit(s, N);

        r = -1;
        for (long n = 0; r != 0; n++) {
                size_t n_found;

                fault_alloc_at(n);
                r = seq_index_enter(x, 0, s, tokens, 0, NULL);
                assert_int_equal(r, fault_alloc_hit() ? -ERR_NOMEM : 0);
                fault_alloc_at(-1);
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
