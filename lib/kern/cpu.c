/* SPDX-License-Identifier: MIT */
/* What this CPU can do, and which tables of kernels follow from it. The only place (with
 * meson.build) that asks at compile time which instruction sets exist. */
#include "kern/cpu.h"
#include "kern/kern-isa.h"

#if defined(__x86_64__)
#include <cpuid.h>

enum kern_isa kern_cpu_isa(void) {
        unsigned a, b, c, d;
        bool f16c;

        __builtin_cpu_init();
        f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
        if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !f16c)
                return KERN_GENERIC;
        if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
                !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512dq") ||
                !__builtin_cpu_supports("avx512vnni"))
                return KERN_AVX2;
        return KERN_AVX512;
}

void kern_cpu_relax(void) {
        __builtin_ia32_pause();
}
#elif defined(__aarch64__)
#include <sys/auxv.h>

enum kern_isa kern_cpu_isa(void) {
        return getauxval(AT_HWCAP) & HWCAP_ASIMDDP ? KERN_NEON_DOTPROD : KERN_NEON;
}

void kern_cpu_relax(void) {
        __asm__ volatile("isb" ::: "memory");
}
#else
enum kern_isa kern_cpu_isa(void) {
        return KERN_GENERIC;
}

void kern_cpu_relax(void) {
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

enum kern_isa kern_ops_init(struct kern_ops *ops, enum kern_isa max_isa) {
        enum kern_isa have = kern_cpu_isa();
        enum kern_isa isa = KERN_GENERIC;

        kern_generic_matmul(ops);
        kern_generic_vector(ops);
        kern_generic_activation(ops);
        kern_generic_attention(ops);
        kern_generic_scan(ops);
        kern_generic_latent(ops);
        kern_generic_state(ops);
        kern_generic_mix(ops);
#if KERN_HAVE_AVX2
        if (have >= KERN_AVX2 && max_isa >= KERN_AVX2) {
                kern_avx2_matmul_float(ops);
                kern_avx2_matmul_block(ops);
                kern_avx2_matmul_k(ops);
                kern_avx2_vector(ops);
                kern_avx2_activation(ops);
                kern_avx2_attention(ops);
                kern_avx2_scan(ops);
                kern_avx2_latent(ops);
                kern_avx2_state(ops);
                kern_avx2_mix(ops);
                isa = KERN_AVX2;
        }
#endif
#if KERN_HAVE_AVX512
        if (have >= KERN_AVX512 && max_isa >= KERN_AVX512) {
                kern_avx512_matmul_float(ops);
                kern_avx512_matmul_block(ops);
                kern_avx512_matmul_k(ops);
                kern_avx512_vector(ops);
                kern_avx512_activation(ops);
                kern_avx512_attention(ops);
                kern_avx512_scan(ops);
                kern_avx512_latent(ops);
                kern_avx512_state(ops);
                kern_avx512_mix(ops);
                isa = KERN_AVX512;
        }
#endif
#if KERN_HAVE_NEON
        if (have >= KERN_NEON && max_isa >= KERN_NEON) {
                use_neon(ops);
                isa = KERN_NEON;
        }
#endif
#if KERN_HAVE_NEON_DOTPROD
        if (have >= KERN_NEON_DOTPROD && max_isa >= KERN_NEON_DOTPROD) {
                kern_neon_dotprod_matmul_block(ops);
                kern_neon_dotprod_matmul_k(ops);
                isa = KERN_NEON_DOTPROD;
        }
#endif
        (void)have;
        return isa;
}

const char *kern_isa_name(enum kern_isa isa) {
        static const char *const names[KERN_N_ISA] = {
                [KERN_GENERIC] = "generic",
                [KERN_AVX2] = "avx2",
                [KERN_AVX512] = "avx512",
                [KERN_NEON] = "neon",
                [KERN_NEON_DOTPROD] = "neon-dotprod",
        };

        return (unsigned)isa < KERN_N_ISA ? names[isa] : "unknown";
}
