/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Reads in flight: ranges of files are read from the disk into a ring of memory, bypassing the page
 * cache, while the calling thread does something else.
 *
 * Source: io_submit(2), io_getevents(2), open(2) O_DIRECT. The kernel's own AIO is called directly
 * (the C library has no functions for it): it is sufficient here, and containers and sandboxes that
 * forbid io_uring permit it.
 *
 * 1. Memory is taken and given back in first-in, first-out order; each piece is contiguous.
 * 2. The memory of a read in flight is neither given back nor reused before spill_queue_wait() has
 *    reported the end of the read, successful or not.
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
        size_t head, tail; /* taken memory: [head, tail), or [head, end) and [0, tail) */
        size_t end;        /* 0: the former */
        size_t n_taken;    /* pieces */
        size_t in_flight;  /* bytes of reads that spill_queue_wait() has not heard the end of */
        aio_context_t context;
        bool is_set_up; /* or was tried: context 0, it cannot be had */
};

/* One read. Must not move until it was waited for. */
struct spill_read {
        struct iocb call;
        long n;       /* bytes read, or -errno */
        bool is_over; /* n is valid */
};

/* Make an empty queue with this ring; @context: one that another queue left, or 0. */
void spill_queue_init(struct spill_queue *q, uint8_t *ring, size_t size, aio_context_t context);
/* Nothing may be in flight. Returns the context or 0: for another queue, or to be destroyed. */
aio_context_t spill_queue_deinit(struct spill_queue *q);
/* Waits for reads in flight, and then for some 30 ms (the kernel's grace period). 0 is fine. */
void spill_context_destroy(aio_context_t context);

/* Take @size bytes (> 0, whole pages) of the ring. NULL: wait for a read in flight and give its
 * memory back first. Never NULL if nothing is taken and @size <= q->size. */
uint8_t *spill_queue_take(struct spill_queue *q, size_t size);
/* Give back the piece that was taken first; it had @size bytes. */
void spill_queue_give(struct spill_queue *q, size_t size);
/* Put the piece that was taken first out of the processor's caches (codec/evict.h); it has @size bytes, which stay
 * what they are. To be called before it is given back if the disk is what is waited for. The disk of a virtual
 * machine is a program that copies, perhaps on a core that shares no cache with ours: lines that ours still has
 * make it copy at half its speed. */
void spill_queue_evict(struct spill_queue *q, size_t size);

/* Begin to read [offset, offset + size) of @fd, opened with O_DIRECT, to @data; all three in whole
 * pages. False if the read cannot begin. At most SPILL_QUEUE_MAX reads are in flight. */
bool spill_queue_start(struct spill_queue *q, struct spill_read *rd, int fd, uint8_t *data,
        uint64_t offset, size_t size);
/* Wait until this read is over: rd->n is its result. */
void spill_queue_wait(struct spill_queue *q, struct spill_read *rd);
