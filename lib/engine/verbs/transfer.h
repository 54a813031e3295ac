/* SPDX-License-Identifier: MIT */
#pragma once
/* The state of an Export or Import: export.c, import.c. */
#include "engine/verbs/create.h"
#include "engine/verbs/transfer-format.h"

/* A job of a transfer ends after this many bytes and queues again: no other job waits long. */
#define TRANSFER_SLICE ((size_t)4 << 20)

struct transfer_cell {
        struct seq_block *block; /* pinned, if in RAM; else: */
        struct rec *rec;         /* pinned, if only on disk */
        struct store_record record;
};

/* Owned by the request; while a job runs, by its worker. */
struct transfer {
        struct xfer_header h;
        struct xfer_sum sum;
        int fd;          /* export: the growing file; else -1 */
        uint64_t offset; /* in the file */
        uint32_t next;   /* the next cell */
        uint32_t n_cells;
        bool began, ended;
        uint8_t *buffer; /* [transfer_buffer_size()] */

        /* export */
        struct transfer_cell *cells; /* [n_cells] */
        uint32_t n_pinned;
        uint64_t counted; /* in verb_state.export_bytes */
        size_t charged;   /* bytes charged for the transcript */

        /* import */
        struct xfer_transcript t;
        uint8_t *data;                /* the transcript, with its checksum */
        bool with_memory;             /* the memory can be used here */
        bool ours;                    /* the MAC is ours */
        uint64_t *hashes;             /* of the tokens' blocks, [n_memory_tokens / block_tokens] */
        struct store_record *records; /* [n_cells] */
        uint32_t n_records;
};

/* The request's transfer: NULL until transfer_new(). The verb's own data is only this pointer. */
static inline struct transfer *transfer_of(struct request *request) {
        return *(struct transfer **)request_own(request);
}
void transfer_deinit(struct engine *engine, struct request *request);
/* The request's new transfer, charged, with a buffer for one block. NULL on failure (@e tells). */
struct transfer *transfer_new(struct engine *engine, struct request *request, struct err *e);
/* The largest block of any class. */
size_t transfer_buffer_size(const struct engine *engine);
/* Charge @n bytes to the request until it ends. -ERR_LIMIT, -ERR_TOO_LARGE. Engine thread, or the
 * worker of the request's job. */
int transfer_charge(struct request *request, size_t n, struct err *e);
/* An unnamed file in the state folder, for reading and writing. -ERR_SYS. Any worker. */
int transfer_open_unnamed(struct engine *engine, struct err *e);
/* May @n more bytes of the file @fd go to disk? Those that count against the disk limit are counted
 * already. @what, and its @size in bytes, are for the error: -ERR_LIMIT, -ERR_SYS. Any worker. */
int transfer_check_room(
        struct engine *engine, int fd, uint64_t n, const char *what, uint64_t size, struct err *e);
/* The key of this state folder; made when it is first used. Any worker. */
int transfer_key(struct engine *engine, uint8_t key[XFER_KEY_SIZE], struct err *e);
static inline int transfer_cancelled(struct request *request, struct err *e) {
        return atomic_load(&request->cancel) ? err_set(e, ERR_CANCELLED, "cancelled") : 0;
}
