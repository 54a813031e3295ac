/* SPDX-License-Identifier: MIT */
/* Activations. The elements left over at the end are computed one by one, by the plain C that
 * defines the result. */
#include "kern/arm/neon.h"

KERN_INLINE float32x4_t half4(float32x4_t x) {
        return vcvt_f32_f16(vcvt_f16_f32(x));
}

KERN_INLINE float32x4_t gelu4(float32x4_t whole) {
        float32x4_t x = half4(whole), z;
        uint32x4_t over = vcgeq_f32(whole, vdupq_n_f32(KERN_GELU_LIMIT));
        uint32x4_t under = vcleq_f32(whole, vdupq_n_f32(-KERN_GELU_LIMIT));

        z = vfmaq_f32(vdupq_n_f32(KERN_GELU_C1), vmulq_f32(x, x), vdupq_n_f32(KERN_GELU_C3));
        z = vmulq_f32(x, z);
        x = half4(vdivq_f32(x, vaddq_f32(vdupq_n_f32(1), exp4(z))));
        x = vbslq_f32(over, whole, x);
        return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(x), under));
}

KERN_INLINE float32x4_t gate4(enum kern_activation a, float32x4_t x) {
        float32x4_t z;

        switch (a) {
        case KERN_RELU2:
                x = max2(vdupq_n_f32(0), x);
                return vmulq_f32(x, x);
        case KERN_GELU:
                return gelu4(x);
        case KERN_SWIGLU_OAI:
                x = min2(vdupq_n_f32(KERN_OAI_LIMIT), x);
                z = vmulq_n_f32(x, -KERN_OAI_ALPHA);
                return vdivq_f32(x, vaddq_f32(vdupq_n_f32(1), exp4(z)));
        default:
                return silu4(x);
        }
}

KERN_INLINE float32x4_t up4(enum kern_activation a, float32x4_t x) {
        if (a != KERN_SWIGLU_OAI)
                return x;
        x = min2(vdupq_n_f32(KERN_OAI_LIMIT), x);
        return vaddq_f32(max2(vdupq_n_f32(-KERN_OAI_LIMIT), x), vdupq_n_f32(1));
}

KERN_INLINE void activate(
        enum kern_activation a, const float *gate, const float *up, float *y, size_t n) {
        size_t i = 0;

        for (; i + 4 <= n; i += 4) {
                float32x4_t v = gate4(a, vld1q_f32(gate + i));

                if (up)
                        v = vmulq_f32(v, up4(a, vld1q_f32(up + i)));
                vst1q_f32(y + i, v);
        }
        for (; i < n; i++)
                y[i] = kern_activate1(a, gate[i], up ? up + i : NULL);
}

static void silu(const float *gate, const float *up, float *y, size_t n) {
        activate(KERN_SILU, gate, up, y, n);
}

static void gelu(const float *gate, const float *up, float *y, size_t n) {
        activate(KERN_GELU, gate, up, y, n);
}

static void relu2(const float *gate, const float *up, float *y, size_t n) {
        activate(KERN_RELU2, gate, up, y, n);
}

static void swiglu_oai(const float *gate, const float *up, float *y, size_t n) {
        activate(KERN_SWIGLU_OAI, gate, up, y, n);
}

static void xielu(const struct kern_xielu *k, const float *x, float *y, size_t n) {
        float32x4_t beta = vdupq_n_f32(k->beta), one = vdupq_n_f32(1);
        size_t i = 0;

        for (; i + 4 <= n; i += 4) {
                float32x4_t v = vld1q_f32(x + i), far, e, p;
                float32x4_t m = min2(v, vdupq_n_f32(k->eps));

                p = vfmaq_f32(vdupq_n_f32(KERN_EXP_C5), vdupq_n_f32(KERN_EXP_C6), m);
                p = vfmaq_f32(vdupq_n_f32(KERN_EXP_C4), p, m);
                p = vfmaq_f32(vdupq_n_f32(KERN_EXP_C3), p, m);
                p = vfmaq_f32(vdupq_n_f32(KERN_EXP_C2), p, m);
                e = vfmaq_f32(vsubq_f32(m, v), vmulq_f32(m, m), p);
                far = vsubq_f32(vsubq_f32(exp4(m), one), v);
                e = vbslq_f32(vcltq_f32(m, vdupq_n_f32(KERN_XIELU_NEAR)), far, e);
                e = vfmaq_n_f32(vmulq_f32(beta, v), e, k->factor_n);
                p = vmulq_f32(v, vfmaq_n_f32(beta, v, k->alpha_p));
                vst1q_f32(y + i, vbslq_f32(vcgtzq_f32(v), p, e));
        }
        for (; i < n; i++)
                y[i] = kern_xielu1(k, x[i]);
}

static void sigmoid(float *x, size_t n) {
        float32x4_t one = vdupq_n_f32(1);
        size_t i = 0;

        for (; i + 4 <= n; i += 4) {
                float32x4_t e = exp4(vnegq_f32(vld1q_f32(x + i)));

                vst1q_f32(x + i, vdivq_f32(one, vaddq_f32(one, e)));
        }
        for (; i < n; i++)
                x[i] = kern_sigmoid1(x[i]);
}

static void softcap(float *x, float cap, size_t n) {
        size_t i = 0;

        for (; i + 4 <= n; i += 4)
                vst1q_f32(x + i, softcap4(vld1q_f32(x + i), cap));
        for (; i < n; i++)
                x[i] = kern_softcap1(x[i], cap);
}

void kern_neon_activation(struct kern_ops *ops) {
        ops->activate[KERN_SILU] = silu;
        ops->activate[KERN_GELU] = gelu;
        ops->activate[KERN_RELU2] = relu2;
        ops->activate[KERN_SWIGLU_OAI] = swiglu_oai;
        ops->xielu = xielu;
        ops->sigmoid = sigmoid;
        ops->softcap = softcap;
}
