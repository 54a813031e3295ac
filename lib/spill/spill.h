/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The spill store: files that hold blocks which left RAM. It knows bytes, not models: a record is
 * some raw bytes and the identity (struct spill_meta) under which they may be taken for memory
 * again.
 *
 * The store keeps no index of its own on disk. Whoever writes a record gets a struct spill_ref,
 * plain data, and keeps it in the durable register; after a restart the register hands its refs
 * back (spill_adopt), then spill_sweep() removes what nobody claimed. The life of a store:
 *
 *      spill_open → spill_adopt × n → spill_sweep → { spill_write, spill_settle | spill_read,
 *                   spill_load_… | spill_release } → spill_free
 *
 * Order against the register (what makes every crash harmless, details in spill.c):
 * - spill_write() first, then commit the ref. A crash between leaves bytes that no one claims; the
 *   next sweep gives them back.
 * - commit that the ref is gone, then spill_release(). The same.
 * Nothing here is fsynced: a record that a power loss took or tore fails its checks when it is
 * read, and a cache may lose anything (I1).
 *
 * A block is divided into sections (struct spill_layout), each encoded and checked for itself, so
 * that of many blocks the first layers can be had before the last ones (spill_load_…).
 *
 * Threads: spill_open, spill_adopt, spill_sweep, spill_scan and spill_free belong to one thread at
 * a time. All others may be called from any number of threads at once, also on one file; a struct
 * spill_load belongs to one thread at a time. File I/O, checksums and codecs run outside of the
 * store's lock. A read that races the release of its own ref fails cleanly.
 *
 * Memory: two bits per 4 KiB of file address space, a small struct per file and per owner, and one
 * scratch buffer (spill_scratch_size()) per thread that is inside of spill_write, spill_read or
 * spill_load_read at the same time, kept for the next call until spill_trim(). To what it has in
 * the kernel see queue.h: one AIO context of SPILL_QUEUE_MAX requests.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/ids.h"

struct err;
struct spill;

/* Codec of a section, part of the format: never renumbered. */
enum { SPILL_CODEC_RAW = 0, SPILL_CODEC_LZ4 = 1, SPILL_CODEC_KV = 2 };

enum spill_element { SPILL_BYTES, SPILL_F16, SPILL_F32, SPILL_I8 };
/* One array inside a raw block; what the codec's transform knows of its bytes. Element (tile,
 * channel, token) lies at [tile][channel][token] if channel_major, else at [tile][token][channel].
 * Bytes of a block that no array covers are SPILL_BYTES. */
struct spill_array {
        enum spill_element element;
        uint32_t section;
        uint64_t offset; /* bytes from the block's start */
        uint32_t n_tiles, n_channels, n_tokens;
        bool channel_major;
};
struct spill_layout {
        const struct spill_array *arrays; /* by rising offset */
        size_t n_arrays;
        const uint64_t *section_ends; /* bytes; the last one is the raw size */
        size_t n_sections;            /* 1 .. SPILL_MAX_SECTIONS */
};
enum { SPILL_MAX_SECTIONS = 128, SPILL_MAX_ARRAYS = 65536 };

/* Why a write was refused (-ERR_LIMIT). */
enum spill_refusal {
        SPILL_REFUSED_NOT,
        SPILL_REFUSED_TOTAL, /* max_disk_size */
        SPILL_REFUSED_OWNER, /* max_disk_size_per_owner */
        SPILL_REFUSED_FLOOR, /* min_free_size */
        SPILL_REFUSED_DAY,   /* max_written_per_day; releasing records does not help */
        SPILL_REFUSED_FULL,  /* the file system or a quota of it; or a file at its largest */
        SPILL_N_REFUSALS
};

struct spill_options {
        /* Of the model: goes into each record and is checked on reading. */
        struct fingerprint fingerprint;
        size_t max_raw_size; /* largest raw record (the block size), bytes, 1 .. 1 GiB */
        /* How blocks are divided; copied. Every raw block then has exactly the layout's size, which
         * is at most max_raw_size. n_sections 0: one section of plain bytes, of any size. */
        struct spill_layout layout;
        uint64_t max_disk_size;           /* bytes on disk in total; 0: no limit */
        uint64_t max_disk_size_per_owner; /* 0: no limit */
        uint64_t max_written_per_day;     /* bytes handed to the disk; 0: no limit */
        /* What the register remembers of the day's writes, from spill_stats; counts if it is still
         * the same day. A day is realtime / 86400 s. */
        uint64_t written_today, day;
        uint64_t min_free_size; /* floor: refuse what would leave less free in the file system */
        unsigned codec; /* SPILL_CODEC_*, tried first; raw is stored where it gains under 1/64 */
        /* Descriptors kept open at most (exceeded while more files are in use); 0: 64. */
        unsigned max_open_files;
        /* Bytes of memory that a thread reads into, about; 0: as many as serve a fast disk
         * (SPILL_RING_SIZE). There is a least for each size of blocks. */
        size_t ring_size;
        bool keep_cached; /* leave spill data in the page cache (benchmarks, tests) */
        bool no_direct;   /* read through the page cache only, as where O_DIRECT is not known */
        /* Change nothing (fsck): the folder must exist, spill_sweep, spill_write and spill_release
         * answer -ERR_STATE. Others that are read-only may have the folder at the same time.
         * Without a layout, records of any division can be adopted, see spill_inspect(). */
        bool read_only;
        uint64_t (*realtime_usec)(void); /* tests; NULL: clock_realtime_usec() */
};

/* What the bytes are. All of it is in the record and must match on reading, exactly. */
struct spill_meta {
        uint32_t class_id;   /* which kind of block, e.g. 0: full-attention KV */
        uint32_t position;   /* block index in its sequence */
        uint32_t n_tokens;   /* valid in the block */
        uint64_t token_hash; /* chained: of these tokens and all before them */
};

/* Where a record lies. Plain data for the register; values from there are not trusted. */
struct spill_ref {
        uint64_t file_key;    /* names the file; the caller chooses it (one per conversation) */
        uint64_t offset;      /* bytes, multiple of SPILL_ALIGN */
        uint64_t stored_size; /* bytes on disk with header and padding, multiple of SPILL_ALIGN */
        uint64_t raw_size;    /* bytes after decoding */
        uint32_t owner;       /* who pays (a uid); one per file */
};
enum { SPILL_ALIGN = 4096 };

/* Open the store in @dir (made with 0700 if missing, parents too) and lock the folder. Errors:
 * -ERR_BUSY (another process or store has it), -ERR_STATE (a symbolic
 * link, another user's, or writable by others; the latter two not if read_only), -ERR_SYS,
 * -ERR_INVALID (options), -ERR_NOMEM. */
int spill_open(struct spill **ret, const char *dir, const struct spill_options *o, struct err *e);
/* Closes; what is on disk stays. No call may be in progress, no load alive. */
struct spill *spill_free(struct spill *s);
DEFINE_CLEANUP(struct spill *, spill_free);

/* At start, once per record that the register knows. 0; 1 if this very record was adopted before
 * (forks share refs: not counted twice); -ERR_NOT_FOUND (no such file), -ERR_CORRUPT (lies outside
 * of the file, overlaps another record, or has another owner than the file's records before it),
 * -ERR_INVALID (a ref that no store ever gave), -ERR_STATE (after the sweep), -ERR_SYS, -ERR_NOMEM.
 * The content is not read. On failure forget the ref. Limits are not looked at: what is there, is
 * there; but no write is admitted until it is below them. */
int spill_adopt(struct spill *s, const struct spill_ref *ref, struct err *e);
/* End of the start: remove files without an adopted record and give back the space between and
 * behind adopted ones. Only names that the store makes itself (16 hex digits ".kv") and that are
 * regular files are touched. Must be called (once) before the first write, also for an empty
 * folder. *ret_n_removed (may be NULL): files removed. */
int spill_sweep(struct spill *s, size_t *ret_n_removed, struct err *e);

/* One entry of the folder. */
struct spill_found {
        const char *name;      /* valid during the call */
        bool is_ours;          /* the name is one that the store makes, and it is a regular file */
        uint64_t file_key;     /* if is_ours */
        uint64_t size;         /* of the file, holes included */
        uint64_t disk_size;    /* that it takes on disk */
        uint64_t n_records;    /* adopted; 0: nobody claims it, a sweep would remove it */
        uint64_t adopted_size; /* bytes of these */
};
/* Call @found for each entry of the folder (not "." and "..") until it returns nonzero, which is
 * then returned. Changes nothing; at any time after spill_open(). 0, or -ERR_SYS. */
int spill_scan(struct spill *s, int (*found)(void *arg, const struct spill_found *f), void *arg,
        struct err *e);

/* Check one adopted record, however its block is divided into sections, against a model of the
 * caller's choice; and if @dst (ref->raw_size bytes) is not NULL, decode it with the arrays of the
 * whole block (by rising offset; their section does not matter). For tools: a store that was opened
 * without a layout, which spill_read() would need. Errors as spill_read(). */
int spill_inspect(struct spill *s, const struct fingerprint *fingerprint,
        const struct spill_ref *ref, const struct spill_meta *meta,
        const struct spill_array *arrays, size_t n_arrays, void *dst, struct err *e);

/* --- writing --- */

/* A block to be written. */
struct spill_block {
        uint64_t file_key;
        uint32_t owner; /* who pays; must be the same for all records of a file */
        struct spill_meta meta;
        const void *raw; /* [raw_size] does not change meanwhile */
        size_t raw_size; /* the layout's */
};
/* Encode a block and append a record to its file. Admitted by its largest possible size before
 * anything is done. 0 and *ret filled, or -ERR_LIMIT with *ret_why (may be NULL) saying which limit
 * (what was written is given back); -ERR_INVALID (a size that is not the layout's, or a file of
 * another owner), -ERR_STATE (before the sweep, read-only), -ERR_SYS, -ERR_NOMEM. On failure files
 * and accounts are as before, but that bytes which did go to disk stay in written_today. */
int spill_write(struct spill *s, const struct spill_block *b, struct spill_ref *ret,
        enum spill_refusal *ret_why, struct err *e);
/* After some writes to a file: wait until what it holds is on disk, and drop it from the page
 * cache, where it would push out what is used more often. Not needed for correctness; without it up
 * to SPILL_UNSETTLED_MAX bytes per file wait for the file's next call. No error to speak of. */
void spill_settle(struct spill *s, uint64_t file_key);
enum { SPILL_UNSETTLED_MAX = 8 << 20 };
/* The most that one block of @raw_size bytes may take on disk: make room for so much. */
uint64_t spill_stored_max(struct spill *s, size_t raw_size);

/* --- reading --- */

/* Read the record at @ref into @dst (dst_size == ref->raw_size), checking everything: that the ref
 * names a live record, magic, version, header checksum, fingerprint, @meta, lengths, section
 * checksums, exact decoded lengths. 0, -ERR_CORRUPT (the message names file, offset and what is
 * wrong), -ERR_NOT_FOUND (no such live record), -ERR_INVALID (dst_size), -ERR_SYS (e.g. EIO),
 * -ERR_NOMEM. @dst is undefined on failure: give a fresh block and publish it only after success
 * (I5). */
int spill_read(struct spill *s, const struct spill_ref *ref, const struct spill_meta *meta,
        void *dst, size_t dst_size, struct err *e);

/* Many records, as a pipeline: a load is a run of records, of one file or several, that one thread
 * brings in together; several threads may work on a load each.
 *
 *      spill_load_new(&l, s, items, n)      records are found
 *      spill_load_read(l, 0, 2)             sections 0 and 1 of all items are in their dst
 *      spill_load_read(l, 2, n_sections-2)  and the rest
 *      spill_load_free(l)
 *
 * Bytes that lie near each other in a file are read with one call (records in the order in which
 * they were written, all sections at once: best), and while some are checked and decoded, the disk
 * reads the next ones. Each item has its own result: a failed one is left alone from then on, the
 * others go on. */
struct spill_item {
        struct spill_ref ref;
        struct spill_meta meta;
        void *dst; /* [ref.raw_size] */
        int r;     /* out: 0 or what spill_read() would have returned */
};
struct spill_load;
/* @items stays with the caller and lives as long as the load. The files are kept open. 0; the error
 * of the first item that failed (*ret is made all the same, and the other items are good; e says
 * what was wrong with that item); -ERR_NOMEM with *ret untouched. So: free *ret if it is set. */
int spill_load_new(struct spill_load **ret, struct spill *s, struct spill_item *items, size_t n,
        struct err *e);
/* Sections [first, first + n) of all items that have not failed: on return they are in dst and
 * verified, or the item's r says why not (also -ERR_NOMEM, then of all). Any order; a section that
 * was read is not read again. 0, or the error of the first item that failed in this call;
 * -ERR_INVALID (no such sections; nothing done). An item is good as a whole when all its sections
 * were read and its r is 0. */
int spill_load_read(struct spill_load *l, size_t first, size_t n, struct err *e);
/* May be called after any step. */
struct spill_load *spill_load_free(struct spill_load *l);
DEFINE_CLEANUP(struct spill_load *, spill_load_free);
/* All of it: spill_load_new, all sections, spill_load_free. */
int spill_read_batch(struct spill *s, struct spill_item *items, size_t n, struct err *e);

/* Sections of a block: 1 if there is no layout. */
size_t spill_n_sections(struct spill *s);
/* Bytes that a load of @n items takes beside the items. */
size_t spill_load_size(struct spill *s, size_t n);
/* Bytes of one thread's scratch buffer. */
size_t spill_scratch_size(struct spill *s);
/* What it would be in a store that is opened with @o, for those who do not open one. */
int spill_scratch_size_for(const struct spill_options *o, size_t *ret, struct err *e);
/* Free the scratch buffers that no one uses now. */
void spill_trim(struct spill *s);

/* --- letting go --- */

/* The last reference to this record is gone: punch its space out of the file, unlink the file when
 * no record is left in it. 0, or -ERR_NOT_FOUND (no such live record; nothing done), -ERR_STATE
 * (read-only). Where the file system cannot punch holes the space stays on disk (and in the
 * accounts) until the file goes. */
int spill_release(struct spill *s, const struct spill_ref *ref, struct err *e);

/* --- figures --- */

struct spill_stats {
        /* Bytes on disk now: live records, writes in progress, and what could not be punched. This
         * is what max_disk_size limits. */
        uint64_t disk_size;
        uint64_t n_files, n_records, n_owners; /* now */
        /* For the register: bytes that went to disk on this day, which is today's at this call. */
        uint64_t written_today, day;
        /* Since spill_open(): */
        uint64_t n_writes, n_reads; /* records, successful */
        uint64_t n_refused;         /* writes refused by a limit or a full disk */
        uint64_t n_refused_by[SPILL_N_REFUSALS];
        uint64_t n_corrupt; /* reads that failed their checks */
        uint64_t n_released;
        uint64_t n_preads, n_joined; /* reads; records that shared one with another record */
        uint64_t n_direct;           /* of the reads: past the page cache */
        uint64_t written_size, read_size, punched_size; /* bytes on disk */
        uint64_t raw_in_size, raw_out_size;             /* raw bytes of these writes and reads */
};
void spill_stats(struct spill *s, struct spill_stats *ret);
/* Bytes on disk that @owner pays for. */
uint64_t spill_owner_size(struct spill *s, uint32_t owner);
