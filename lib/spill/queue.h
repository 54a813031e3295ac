/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Reads in flight: ranges of files on their way from the disk into a ring of memory, past the page
 * cache, while the thread that wants them does something else.
 *
 * Source: io_submit(2), io_getevents(2), open(2) O_DIRECT. The kernel's own AIO serves, by its
 * system calls (the C library has no functions for them): it does what is needed here, and
 * containers and sandboxes that forbid io_uring let it through.
 *
 * 1. Memory is taken and given back in the order of a queue; each piece of it is contiguous.
 * 2. What a read in flight writes to is neither given back nor reused before spill_queue_wait()
 *    says that the read is over, well or not.
 * 3. A queue belongs to one thread at a time.
 */
#include <linux/aio_abi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SPILL_QUEUE_MAX = 16 };

struct spill_queue {
        uint8_t *ring;     /* [size], page-aligned; borrowed */
        size_t size;       /* bytes, whole pages */
        size_t head, tail; /* what is taken: [head, tail), or [head, end) and [0, tail) */
        size_t end;        /* 0: the former */
        size_t n_taken;    /* pieces */
        aio_context_t context;
        bool is_set_up; /* or was tried: context 0, it cannot be had */
};

/* One read. Stays where it is until it was waited for. */
struct spill_read {
        struct iocb call;
        long n;       /* bytes read, or -errno */
        bool is_over; /* n is valid */
};

/* An empty queue with this ring; @context: one that another queue left, or 0. */
void spill_queue_init(struct spill_queue *q, uint8_t *ring, size_t size, aio_context_t context);
/* Nothing may be in flight. Returns the context, or 0: for another queue, or to be destroyed. */
aio_context_t spill_queue_deinit(struct spill_queue *q);
/* Waits for what is in flight, and for some 30 ms besides (the kernel's grace period). 0 is fine.
 */
void spill_context_destroy(aio_context_t context);

/* @size bytes (> 0, whole pages) of the ring, or NULL: wait for what is in flight, and give back.
 * Never NULL if nothing is taken and @size <= q->size. */
uint8_t *spill_queue_take(struct spill_queue *q, size_t size);
/* Give the piece back that was taken first; it had @size bytes. */
void spill_queue_give(struct spill_queue *q, size_t size);

/* Begin to read [offset, offset + size) of @fd, opened with O_DIRECT, to @data; all three whole
 * pages. False if it cannot be begun. At most SPILL_QUEUE_MAX are in flight. */
bool spill_queue_start(struct spill_queue *q, struct spill_read *rd, int fd, uint8_t *data,
        uint64_t offset, size_t size);
/* Wait until this read is over: rd->n says how it went. */
void spill_queue_wait(struct spill_queue *q, struct spill_read *rd);
