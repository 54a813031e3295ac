/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What the machine can do at most, to hold kernels against: bytes read from memory, bytes moved by a loop that does
 * nothing else, and products in loops that touch registers alone.
 *
 * A loop is the inner part of a tile of a product, without its loads: so many independent sums that no latency
 * shows, each with a product of its own. A kernel can come near its loop; it cannot be faster, unless it uses
 * other instructions.
 */
#include <stdbool.h>
#include <stddef.h>

struct kern;

enum roof_unit {
        ROOF_NARROW,   /* int8 products added to sums of 16 bits (weights of up to 6 bits) */
        ROOF_WIDE,     /* int8 products added to sums of 32 bits */
        ROOF_DOT,      /* the same by one instruction (VNNI) */
        ROOF_MULTIPLY, /* float products */
        ROOF_N_UNITS
};
struct roof_loop {
        const char *isa, *name; /* "avx2", "maddubs+paddw" */
        enum roof_unit unit;
        double n_products;            /* of one round */
        void (*run)(size_t n_rounds); /* ends with the process on a CPU without the instructions */
};

/* The loops of instruction sets that this CPU has. i counts from 0; NULL behind the last. */
const struct roof_loop *roof_loop(size_t i);
/* Products a second of all threads of @k together; the best of a few tries, @seconds in all. */
double roof_products(struct kern *k, const struct roof_loop *loop, double seconds);
/* Bytes a second that all threads of @k together read of @size bytes; the best of a few tries. The memory is kept
 * from one call to the next of the same size. */
double roof_read(struct kern *k, size_t size);

/*
 * Arrays as a kernel of rows has them: some are read from front to back, and one is written. How fast that goes depends
 * on the cache that they fit into, on how many are read for the one that is written, and on whether that one is read too:
 * a stored line that is not in the first cache is fetched, unless it was loaded anyway.
 */
#define ROOF_STREAM_READS 4
struct roof_stream {
        unsigned n_read; /* arrays, 1 to ROOF_STREAM_READS */
        bool in_place;   /* the first of them is the one that is written */
        size_t size;     /* bytes of one */
};
/* Bytes a second, read and written, of a loop in registers of @k's instruction set on all of its threads; the best of a
 * few tries, @seconds in all. */
double roof_stream(struct kern *k, const struct roof_stream *s, double seconds);
