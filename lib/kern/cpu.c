/* SPDX-License-Identifier: MIT */
/* What this CPU can do, and which tables of kernels follow from it. The only place (with
 * meson.build) that asks at compile time which instruction sets exist. */
#include "kern/cpu.h"
#include "kern/kern-isa.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* clang 14 has no name for it */
static bool has_avx_vnni(void) {
        unsigned a, b, c, d;

        return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1u << 4);
}

/* Some have VNNI for vectors of AVX2 alone, some for those of AVX-512 alone, and some for both. */
bool kern_cpu_has(enum kern_isa isa) {
        unsigned a, b, c, d;

        __builtin_cpu_init();
        switch (isa) {
        case KERN_GENERIC:
                return true;
        case KERN_AVX2:
                return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                       __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
        case KERN_AVX_VNNI:
                return kern_cpu_has(KERN_AVX2) && has_avx_vnni();
        case KERN_AVX512:
                return kern_cpu_has(KERN_AVX2) && __builtin_cpu_supports("avx512f") &&
                       __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                       __builtin_cpu_supports("avx512dq");
        case KERN_AVX512_VNNI:
                return kern_cpu_has(KERN_AVX512) && __builtin_cpu_supports("avx512vnni");
        default:
                return false;
        }
}

void kern_cpu_relax(void) {
        __builtin_ia32_pause();
}
#elif defined(__aarch64__)
#include <sys/auxv.h>

bool kern_cpu_has(enum kern_isa isa) {
        return isa == KERN_GENERIC || isa == KERN_NEON ||
               (isa == KERN_NEON_DOTPROD && getauxval(AT_HWCAP) & HWCAP_ASIMDDP);
}

void kern_cpu_relax(void) {
        __asm__ volatile("isb" ::: "memory");
}
#else
bool kern_cpu_has(enum kern_isa isa) {
        return isa == KERN_GENERIC;
}

void kern_cpu_relax(void) {
}
#endif

enum kern_isa kern_cpu_isa(void) {
        int isa = KERN_N_ISA - 1;

        while (!kern_cpu_has((enum kern_isa)isa))
                isa--;
        return (enum kern_isa)isa;
}

static void use_generic(struct kern_ops *ops) {
        kern_generic_matmul(ops);
        kern_generic_vector(ops);
        kern_generic_activation(ops);
        kern_generic_attention(ops);
        kern_generic_scan(ops);
        kern_generic_latent(ops);
        kern_generic_state(ops);
        kern_generic_mix(ops);
}

#if KERN_HAVE_AVX2
static void use_avx2(struct kern_ops *ops) {
        kern_avx2_matmul_float(ops);
        kern_avx2_matmul_block(ops);
        kern_avx2_repacked(ops);
        kern_avx2_matmul_k(ops);
        kern_avx2_vector(ops);
        kern_avx2_activation(ops);
        kern_avx2_attention(ops);
        kern_avx2_scan(ops);
        kern_avx2_latent(ops);
        kern_avx2_state(ops);
        kern_avx2_mix(ops);
}
#endif

#if KERN_HAVE_AVX_VNNI
static void use_avx_vnni(struct kern_ops *ops) {
        kern_avx_vnni_matmul_block(ops);
        kern_avx_vnni_repacked(ops);
        kern_avx_vnni_matmul_k(ops);
}
#endif

#if KERN_HAVE_AVX512
static void use_avx512(struct kern_ops *ops) {
        kern_avx512_matmul_float(ops);
        kern_avx512_matmul_block(ops);
        kern_avx512_repacked(ops);
        kern_avx512_matmul_k(ops);
        kern_avx512_vector(ops);
        kern_avx512_activation(ops);
        kern_avx512_attention(ops);
        kern_avx512_scan(ops);
        kern_avx512_latent(ops);
        kern_avx512_state(ops);
        kern_avx512_mix(ops);
}
#endif

#if KERN_HAVE_AVX512_VNNI
static void use_avx512_vnni(struct kern_ops *ops) {
        kern_avx512_vnni_matmul_block(ops);
        kern_avx512_vnni_repacked(ops);
        kern_avx512_vnni_matmul_k(ops);
}
#endif

#if KERN_HAVE_NEON
static void use_neon(struct kern_ops *ops) {
        kern_neon_matmul_float(ops);
        kern_neon_matmul_block(ops);
        kern_neon_matmul_k(ops);
        kern_neon_vector(ops);
        kern_neon_activation(ops);
        kern_neon_attention(ops);
        kern_neon_scan(ops);
        kern_neon_latent(ops);
        kern_neon_state(ops);
        kern_neon_mix(ops);
}
#endif

#if KERN_HAVE_NEON_DOTPROD
static void use_neon_dotprod(struct kern_ops *ops) {
        kern_neon_dotprod_matmul_block(ops);
        kern_neon_dotprod_matmul_k(ops);
}
#endif

/* Each overrides what it does better than those before it; NULL: not of this build. */
static void (*const use[KERN_N_ISA])(struct kern_ops *ops) = {
        [KERN_GENERIC] = use_generic,
#if KERN_HAVE_AVX2
        [KERN_AVX2] = use_avx2,
#endif
#if KERN_HAVE_AVX_VNNI
        [KERN_AVX_VNNI] = use_avx_vnni,
#endif
#if KERN_HAVE_AVX512
        [KERN_AVX512] = use_avx512,
#endif
#if KERN_HAVE_AVX512_VNNI
        [KERN_AVX512_VNNI] = use_avx512_vnni,
#endif
#if KERN_HAVE_NEON
        [KERN_NEON] = use_neon,
#endif
#if KERN_HAVE_NEON_DOTPROD
        [KERN_NEON_DOTPROD] = use_neon_dotprod,
#endif
};

enum kern_isa kern_ops_init(struct kern_ops *ops, enum kern_isa max_isa) {
        enum kern_isa ret = KERN_GENERIC;

        for (int i = 0; i < KERN_N_ISA && i <= (int)max_isa; i++)
                if (use[i] && kern_cpu_has((enum kern_isa)i)) {
                        use[i](ops);
                        ret = (enum kern_isa)i;
                }
        return ret;
}

const char *kern_isa_name(enum kern_isa isa) {
        static const char *const names[KERN_N_ISA] = {
                [KERN_GENERIC] = "generic",
                [KERN_AVX2] = "avx2",
                [KERN_AVX_VNNI] = "avx-vnni",
                [KERN_AVX512] = "avx512",
                [KERN_AVX512_VNNI] = "avx512-vnni",
                [KERN_NEON] = "neon",
                [KERN_NEON_DOTPROD] = "neon-dotprod",
        };

        return (unsigned)isa < KERN_N_ISA ? names[isa] : "unknown";
}
