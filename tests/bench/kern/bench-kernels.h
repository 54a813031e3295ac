/* SPDX-License-Identifier: MIT */
#pragma once
/* What the parts of bench-kernels share. Each part prints the lines of one kern, whose instruction set they name. */
#include <stdbool.h>
#include <stddef.h>

struct kern;

extern struct kernels_options {
        double seconds; /* of a figure, about */
        size_t spread;  /* bytes of all layers together */
        bool quick;
} kernels_options;

/* Random ones in [-1, 1]. */
float *kernels_floats(size_t n);
/* The best time of a call, in @seconds. Calls of microseconds are timed together. */
double kernels_best(void (*fn)(void *arg), void *arg, double seconds);
void kernels_put(const char *name, double time, double bytes, double products);

/* The kernels that go over rows of activations; @k has one thread. */
void kernels_rows(struct kern *k);
/* Those that go over a state. */
void kernels_states(struct kern *k);
