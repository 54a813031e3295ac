/* SPDX-License-Identifier: MIT */
/*
 * I2 (exact.h) over one small model of each architecture, with memory of f16 and, by turns, of f32 or q8_0, and weights of
 * F32 (memory of q8_0: Q8_0); all the way each model has each type (util/depth.h). An architecture that does not open
 * fails.
 *
 * Sanitizers make it slow, and what they look for does not depend on the numbers: with them each model has one
 * type of memory, the next model the next type.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/util.h"
#include "exact.h"
#include "quant/quant.h"
#include "util/arch-build.h"
#include "util/depth.h"
#include "util/model-rig.h"
#include "util/sanitize.h"
#include "util/test.h"

#define DEEP 10         /* more layers are like others, and would take long */
#define SCALES_GROUP 32 /* of keys and values in q8_0: head sizes are multiples */

struct one {
        const char *model;
        enum kern_kv_type kv;
        char name[64];
};

static void test_one(void **state) {
        const struct one *one = *state;
        struct arch_options o = {
                .type = one->kv == KERN_KV_Q8_0 ? QUANT_Q8_0 : QUANT_F32, .seed = 1};
        struct rig r;

        rig_open_build(&r, arch_build(one->model, &o), one->kv);
        exact_check(
                &r, one->kv == KERN_KV_F16 && r.info.n_layer <= DEEP ? EXACT_FULL : EXACT_SHORT);
        rig_close(&r);
}

/* Is this model, number @place of the slice, checked with this type of memory? */
static bool is_wanted(const struct one *one, size_t place) {
        bool has_scales = arch_build_head_dim(one->model) % SCALES_GROUP == 0;

        if (TEST_SANITIZED && !has_scales && place % KERN_N_KV == KERN_KV_Q8_0)
                return one->kv == KERN_KV_F16;
        if (TEST_SANITIZED)
                return place % KERN_N_KV == one->kv;
        if (one->kv == KERN_KV_F16)
                return true;
        if (test_depth(0, 0, 1))
                return has_scales || one->kv != KERN_KV_Q8_0;
        return one->kv == (has_scales && place % 2 ? KERN_KV_Q8_0 : KERN_KV_F32);
}

/* Arguments: which slice of so many (they run side by side). */
int main(int argc, char **argv) {
        size_t slice = argc > 2 ? strtoul(argv[1], NULL, 10) : 0;
        size_t n_slices = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
        size_t n_models = arch_build_n(), n = 0;
        struct one *all = calloc(n_models * KERN_N_KV, sizeof(*all));
        struct CMUnitTest *tests = calloc(n_models * KERN_N_KV, sizeof(*tests));
        int r;

        if (!all || !tests)
                return 1;
        for (size_t i = slice; i < n_models; i += n_slices)
                for (int kv = 0; kv < KERN_N_KV; kv++) {
                        struct one *one = &all[n];

                        one->model = arch_build_name(i);
                        one->kv = (enum kern_kv_type)kv;
                        if (!is_wanted(one, i / n_slices))
                                continue;
                        snprintf(one->name, sizeof(one->name), "%s, memory of %s", one->model,
                                kern_kv_name(one->kv));
                        tests[n++] = (struct CMUnitTest){
                                .name = one->name, .test_func = test_one, .initial_state = one};
                }
        r = _cmocka_run_group_tests("architectures", tests, n, NULL, NULL);
        free(tests);
        free(all);
        return r;
}
