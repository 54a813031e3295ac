/* SPDX-License-Identifier: MIT */
#pragma once
/* Shared by opening, writing and reading. */
#include <inttypes.h>

#include "spill/files.h"
#include "spill/queue.h"
#include "spill/record.h"

struct err;

/* Offsets stay below this, so that page numbers and sums of offsets cannot overflow, and the page
 * map of a file stays below 64 MiB. */
#define SPILL_FILE_MAX ((uint64_t)1 << 40)

enum {
        /* One read joins pieces with gaps up to the first size, up to about the second in total:
         * large enough that the call costs little, small enough that the bytes are still in the
         * processor's cache when they are checked and decoded. */
        SPILL_GAP_MAX = 16 << 10,
        SPILL_WINDOW_SIZE = 1 << 19,
        /* Windows are read into a ring of this size: one is decoded while up to six are in flight (take_place() in
         * window.c), since fewer reads of two workers would not keep a fast disk busy. The ring uses large pages of
         * the processor, since the disk fills those twice as fast as small ones. */
        SPILL_RING_SIZE = 4 << 20,
};

static inline size_t spill_first_page(const struct spill_ref *ref) {
        return ref->offset / SPILL_ALIGN;
}
static inline size_t spill_n_pages(const struct spill_ref *ref) {
        return ref->stored_size / SPILL_ALIGN;
}

/* The class's place in s->classes; SPILL_MAX_CLASSES if the store has no such blocks. */
static inline size_t spill_class_find(const struct spill *s, uint32_t class_id) {
        if (s->any_class)
                return 0;
        return class_id < SPILL_MAX_CLASSES && s->classes[class_id].n_sections > 0
                       ? class_id
                       : SPILL_MAX_CLASSES;
}
/* Where section @i of a raw block of @raw_size bytes begins. i <= n_sections */
static inline uint64_t spill_section_start(
        const struct spill_class *c, size_t i, uint64_t raw_size) {
        if (i == 0)
                return 0;
        return c->section_ends ? c->section_ends[i - 1] : raw_size;
}
/* The arrays in section @i. */
static inline const struct spill_array *spill_section_arrays(
        const struct spill_class *c, size_t i, size_t *ret_n) {
        *ret_n = c->first_array ? c->first_array[i + 1] - c->first_array[i] : 0;
        return *ret_n > 0 ? &c->arrays[c->first_array[i]] : NULL;
}

/* Whether all sections of the record lie raw behind the header: anything encoded makes it smaller
 * (spill_record_parse() sees to it). */
static inline bool spill_ref_is_raw(const struct spill_class *c, const struct spill_ref *ref) {
        return ref->stored_size == spill_record_stored_size(c->n_sections, ref->raw_size);
}

/* The working memory of one thread. */
struct spill_scratch {
        struct spill_scratch *next; /* in the free list */
        uint8_t *buffer;            /* [s->buffer_size]: sections to be written; the queue's ring */
        struct spill_queue queue;   /* of reads; empty between calls */
        bool disk_is_late;          /* it was, last time: what it fills is kept out of our caches */
        struct spill_window *windows; /* [SPILL_QUEUE_MAX], window.c */
        void *codec;                  /* [s->codec_size], 64-aligned */
};
/* From the free list if there is one. 0 or -ERR_NOMEM. Takes the lock. */
int spill_scratch_get(struct spill *s, struct spill_scratch **ret, struct err *e);
/* NULL is fine. Takes the lock. */
void spill_scratch_put(struct spill *s, struct spill_scratch *p);
/* At the end of the store: free all scratch buffers and their contexts in the kernel. */
void spill_scratch_deinit(struct spill *s);

/* Whether a store can have given this ref, with this layout or another one: its numbers are in
 * range. */
bool spill_ref_is_sane(const struct spill_ref *ref);
/* Whether a store with this layout of the class can have written the record of a sane ref, so that it
 * may be read. The records of another model do not fit; they only keep their place. */
bool spill_ref_fits(
        const struct spill *s, const struct spill_class *c, const struct spill_ref *ref);
/* The file if @ref is a live record in it, else NULL. Any ref. Lock held. */
struct spill_file *spill_find_record(struct spill *s, const struct spill_ref *ref);
/* -ERR_NOT_FOUND for @ref. */
int spill_not_found(const struct spill_ref *ref, struct err *e);
/* Put file and offset in front of the message. */
int spill_wrap(int r, const struct spill_ref *ref, struct err *e);

/* --- layout.c --- */

/* 0 or -ERR_INVALID. */
int spill_layout_check(const struct spill_layout *l, size_t max_raw_size, struct err *e);
/* Copy the checked layouts, and assign the arrays to their sections. 0, -ERR_INVALID (arrays that no
 * codec accepts), -ERR_NOMEM; freed by spill_layouts_close() in either case. */
int spill_layouts_open(struct spill *s, const struct spill_options *o, struct err *e);
void spill_layouts_close(struct spill *s);
/* Set the sizes of the parts of a scratch buffer. */
void spill_layout_size_scratch(struct spill *s);

/* --- limits.c; lock held --- */

/* Whether @size more bytes of the block's owner may go to disk. 0, -ERR_LIMIT with *ret_why, -ERR_SYS. */
int spill_admit(struct spill *s, const struct spill_block *b, uint64_t size,
        enum spill_refusal *ret_why, struct err *e);
/* Reset the day's sum if a new day has begun. */
void spill_turn_day(struct spill *s);
