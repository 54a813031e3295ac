/* SPDX-License-Identifier: MIT */
#include "spill/queue.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/util.h"
#include "spill/codec/evict.h"

void spill_queue_init(struct spill_queue *q, uint8_t *ring, size_t size, aio_context_t context) {
        *q = (struct spill_queue){
                .ring = ring, .size = size, .context = context, .is_set_up = context != 0};
}

aio_context_t spill_queue_deinit(struct spill_queue *q) {
        aio_context_t context = q->context;

        *q = (struct spill_queue){0};
        return context;
}

void spill_context_destroy(aio_context_t context) {
        if (context)
                (void)syscall(SYS_io_destroy, context);
}

uint8_t *spill_queue_take(struct spill_queue *q, size_t size) {
        size_t at;

        if (q->n_taken == 0)
                q->head = q->tail = q->end = 0;
        if (q->end > 0) {
                if (q->head - q->tail < size)
                        return NULL;
        } else if (q->size - q->tail < size) {
                if (q->n_taken == 0 || q->head < size)
                        return NULL;
                q->end = q->tail;
                q->tail = 0;
        }
        at = q->tail;
        q->tail += size;
        q->n_taken++;
        return q->ring + at;
}

void spill_queue_give(struct spill_queue *q, size_t size) {
        q->head += size;
        if (q->head == q->end)
                q->head = q->end = 0;
        q->n_taken--;
}

void spill_queue_evict(struct spill_queue *q, size_t size) {
        spill_evict(q->ring + q->head, size);
}

/* --- reading --- */

static bool set_up(struct spill_queue *q) {
        if (!q->is_set_up && syscall(SYS_io_setup, SPILL_QUEUE_MAX, &q->context) < 0)
                q->context = 0;
        q->is_set_up = true;
        return q->context != 0;
}

bool spill_queue_start(struct spill_queue *q, struct spill_read *rd, int fd, uint8_t *data,
        uint64_t offset, size_t size) {
        struct iocb *call = &rd->call;

        if (!set_up(q))
                return false;
        *rd = (struct spill_read){.call = {.aio_data = (uintptr_t)rd,
                                          .aio_lio_opcode = IOCB_CMD_PREAD,
                                          .aio_fildes = (uint32_t)fd,
                                          .aio_buf = (uintptr_t)data,
                                          .aio_nbytes = size,
                                          .aio_offset = (int64_t)offset}};
        if (syscall(SYS_io_submit, q->context, 1, &call) != 1)
                return false;
        q->in_flight += size;
        return true;
}

static void end(struct spill_queue *q, struct spill_read *rd, long n) {
        rd->n = n;
        rd->is_over = true;
        q->in_flight -= rd->call.aio_nbytes;
}

/* What the kernel does not tell any more. To destroy the context waits for all that is in flight,
 * so that the ring is ours again. */
static void give_up(struct spill_queue *q) {
        spill_context_destroy(q->context);
        q->context = 0;
}

void spill_queue_wait(struct spill_queue *q, struct spill_read *rd) {
        struct io_event events[SPILL_QUEUE_MAX];

        while (!rd->is_over) {
                long n = -1;

                if (q->context)
                        n = syscall(SYS_io_getevents, q->context, 1, SPILL_QUEUE_MAX, events, NULL);
                if (n < 0 && q->context && errno == EINTR)
                        continue;
                if (n < 0) {
                        if (q->context)
                                give_up(q);
                        end(q, rd, -EIO);
                }
                for (long i = 0; i < n; i++)
                        end(q, (struct spill_read *)(uintptr_t)events[i].data, (long)events[i].res);
        }
}
