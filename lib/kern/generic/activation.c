/* SPDX-License-Identifier: MIT */
/* Activations, the definition (kern-math.h has them for one element). */
#include "kern/kern-isa.h"
#include "kern/kern-math.h"

KERN_INLINE void activate(
        enum kern_activation a, const float *gate, const float *up, float *y, size_t n) {
        for (size_t i = 0; i < n; i++)
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

static void xielu(const struct kern_xielu *p, const float *x, float *y, size_t n) {
        for (size_t i = 0; i < n; i++)
                y[i] = kern_xielu1(p, x[i]);
}

static void sigmoid(float *x, size_t n) {
        for (size_t i = 0; i < n; i++)
                x[i] = kern_sigmoid1(x[i]);
}

static void softcap(float *x, float cap, size_t n) {
        for (size_t i = 0; i < n; i++)
                x[i] = kern_softcap1(x[i], cap);
}

void kern_generic_activation(struct kern_ops *ops) {
        ops->activate[KERN_SILU] = silu;
        ops->activate[KERN_GELU] = gelu;
        ops->activate[KERN_RELU2] = relu2;
        ops->activate[KERN_SWIGLU_OAI] = swiglu_oai;
        ops->xielu = xielu;
        ops->sigmoid = sigmoid;
        ops->softcap = softcap;
}
