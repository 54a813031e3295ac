/* SPDX-License-Identifier: MIT */
/* Activations, the definition (kern-math.h has them for one element). */
#include "kern/kern-isa.h"
#include "kern/kern-math.h"

static void silu(const float *gate, const float *up, float *y, size_t n) {
        for (size_t i = 0; i < n; i++)
                y[i] = up ? kern_silu1(gate[i]) * up[i] : kern_silu1(gate[i]);
}

static void gelu(const float *gate, const float *up, float *y, size_t n) {
        for (size_t i = 0; i < n; i++)
                y[i] = up ? kern_gelu1(gate[i]) * up[i] : kern_gelu1(gate[i]);
}

static void relu2(const float *gate, const float *up, float *y, size_t n) {
        for (size_t i = 0; i < n; i++)
                y[i] = up ? kern_relu2_1(gate[i]) * up[i] : kern_relu2_1(gate[i]);
}

static void swiglu_oai(const float *gate, const float *up, float *y, size_t n) {
        for (size_t i = 0; i < n; i++)
                y[i] = kern_swiglu_oai1(gate[i], up[i]);
}

static void xielu(const struct kern_xielu *p, const float *x, float *y, size_t n) {
        for (size_t i = 0; i < n; i++)
                y[i] = kern_xielu1(x[i], p->alpha_p, p->factor_n, p->beta, p->eps);
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
