/* SPDX-License-Identifier: MIT */
#include "fault/loop.h"
#include "base/err.h"
#include "fault/fault.h"
#include "util/test.h"

static void check_end(const struct fault_loop *loop) {
        if (loop->n < loop->at_least)
                fail_msg("only %ld allocations, not %ld or more", loop->n, loop->at_least);
}

bool fault_loop_next(struct fault_loop *loop) {
        if (loop->state == FAULT_LOOP_NEW) {
                assert_true(loop->at_least > 0 || loop->at_least == FAULT_LOOP_CALLER_COUNTS);
        } else {
                assert_int_equal(loop->state, FAULT_LOOP_DISARMED);
                if (!loop->hit) {
                        check_end(loop);
                        return false;
                }
                loop->n++;
        }
        if (loop->n >= loop->at_most)
                fail_msg("%ld allocations, and there are more", loop->at_most);
        loop->state = FAULT_LOOP_BEGUN;
        return true;
}

void fault_loop_arm(struct fault_loop *loop) {
        assert_int_equal(loop->state, FAULT_LOOP_BEGUN);
        loop->state = FAULT_LOOP_ARMED;
        fault_alloc_at(loop->n);
}

void fault_loop_disarm(struct fault_loop *loop) {
        assert_int_equal(loop->state, FAULT_LOOP_ARMED);
        loop->hit = fault_alloc_hit();
        fault_alloc_at(-1);
        loop->state = FAULT_LOOP_DISARMED;
}

void fault_loop_expect(const struct fault_loop *loop, int r, const struct err *e) {
        assert_int_equal(loop->state, FAULT_LOOP_DISARMED);
        if (r != (loop->hit ? -ERR_NOMEM : 0))
                fail_msg("allocation %ld: %d, %s", loop->n, r, e ? e->msg : "");
        if (e)
                assert_int_equal((int)e->code, -r);
}
