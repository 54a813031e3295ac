/* SPDX-License-Identifier: MIT */
/* What this CPU can do, and which kernels follow from it. */
#include <stdatomic.h>
#include <string.h>

#include "base/util.h"
#include "spill/codec.h"
#include "spill/codec/checksum.h"
#include "spill/codec/kernels.h"
#include "spill/spill.h"

/* Calls run while it is set; all levels compute the same. */
static atomic_int max_isa = SPILL_ISA_BEST;

static int cpu_isa(void) {
#if defined(__x86_64__)
        __builtin_cpu_init();
        if (!__builtin_cpu_supports("avx2"))
                return SPILL_ISA_GENERIC;
        if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
                !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512dq") ||
                !__builtin_cpu_supports("avx512vbmi2") ||
                !__builtin_cpu_supports("avx512vpopcntdq"))
                return SPILL_ISA_AVX2;
        return SPILL_ISA_AVX512;
#else
        return SPILL_ISA_GENERIC;
#endif
}

int spill_cap_isa(int isa) {
        atomic_store(&max_isa, MAX(0, MIN(isa, (int)SPILL_ISA_BEST)));
        return spill_isa();
}

int spill_isa(void) {
        int have = SPILL_HAVE_AVX512 ? SPILL_ISA_AVX512
                   : SPILL_HAVE_AVX2 ? SPILL_ISA_AVX2
                                     : SPILL_ISA_GENERIC;
        int cpu = cpu_isa(), max = atomic_load(&max_isa);

        have = MIN(have, cpu);
        return MIN(have, max);
}

void kv_kernels_get(struct kv_kernels *ret) {
        int isa = spill_isa();

        kv_kernels_generic(ret);
#if SPILL_HAVE_AVX2
        if (isa >= SPILL_ISA_AVX2)
                kv_kernels_avx2(ret);
#endif
#if SPILL_HAVE_AVX512
        if (isa >= SPILL_ISA_AVX512) {
                struct kv_kernels below = *ret;

                kv_kernels_avx512(ret);
                /* Gathers of AMD's are long (Zen 5): encoding by loads is 1.3 times as fast, and
                 * one stream fills the processor, two are 0.87 times as fast. */
                if (atomic_load(&max_isa) == SPILL_ISA_BEST && __builtin_cpu_is("amd")) {
                        ret->encode = below.encode;
                        memcpy(ret->decode_two, below.decode_two, sizeof(ret->decode_two));
                }
        }
#endif
        (void)isa;
}

uint64_t spill_checksum(const void *data, size_t n) {
        int isa = spill_isa();

#if SPILL_HAVE_AVX512
        if (isa >= SPILL_ISA_AVX512)
                return spill_checksum_avx512(data, n);
#endif
#if SPILL_HAVE_AVX2
        if (isa >= SPILL_ISA_AVX2)
                return spill_checksum_avx2(data, n);
#endif
        (void)isa;
        return spill_checksum_generic(data, n);
}
