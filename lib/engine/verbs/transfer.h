/* SPDX-License-Identifier: MIT */
#pragma once
/* What an Export or Import is doing: export.c, import.c. */
#include "engine/verbs/create.h"
#include "engine/verbs/transfer-format.h"

/* Jobs of a transfer end after so many bytes and queue again, so that no other waits for long. */
#define TRANSFER_SLICE ((size_t)4 << 20)

struct transfer_block {
        struct seq_block *block; /* pinned, or */
        struct rec *rec;         /* pinned: it lies on disk */
        struct store_record record;
};

/* Owned by the request; its worker's while a job runs. */
struct transfer {
        struct xfer_header h;
        struct xfer_sum sum;
        int fd;          /* export: the file that grows; -1 */
        uint64_t offset; /* in the file */
        uint32_t next;   /* block */
        bool began, ended;
        uint8_t *buffer; /* [block_size] */

        /* export */
        struct transfer_block *blocks; /* [h.n_blocks] */
        uint32_t n_pinned;
        uint64_t counted; /* in verb_state.export_bytes */
        size_t charged;   /* for the transcript */

        /* import */
        struct xfer_transcript t;
        uint8_t *data;    /* of the transcript, with its checksum */
        bool with_memory; /* it can be used here */
        bool ours;        /* by the MAC */
        uint64_t hash;    /* chained, of the blocks so far */
        struct store_record *records;
        uint32_t n_records;
};

/* The request's: NULL until transfer_new(). What an Export or Import keeps is this pointer. */
static inline struct transfer *transfer_of(struct request *request) {
        return *(struct transfer **)request_own(request);
}
void transfer_deinit(struct engine *engine, struct request *request);
/* A transfer for the request, charged, with its buffer for a block; or NULL (err is filled). */
struct transfer *transfer_new(struct engine *engine, struct request *request, struct err *e);
/* Bytes that the request needs while it lasts. -ERR_LIMIT, -ERR_TOO_LARGE. Engine thread, or its
 * job's worker. */
int transfer_charge(struct request *request, size_t n, struct err *e);
/* The key of this state folder, made at its first use. Any worker. */
int transfer_key(struct engine *engine, uint8_t key[XFER_KEY_SIZE], struct err *e);
static inline int transfer_cancelled(struct request *request, struct err *e) {
        return atomic_load(&request->cancel) ? err_set(e, ERR_CANCELLED, "cancelled") : 0;
}
