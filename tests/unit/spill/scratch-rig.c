/* SPDX-License-Identifier: MIT */
#include "scratch-rig.h"

#include "base/err.h"
#include "base/util.h"
#include "spill/shared.h"
#include "util/test.h"

void scratch_rig_use(struct spill *s, size_t n) {
        struct spill_scratch *all[16];
        struct err e;

        assert_true(n <= ARRAY_SIZE(all));
        for (size_t i = 0; i < n; i++)
                assert_int_equal(spill_scratch_get(s, &all[i], &e), 0);
        for (size_t i = 0; i < n; i++)
                spill_scratch_put(s, all[i]);
}
