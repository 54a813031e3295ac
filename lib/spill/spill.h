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
 *      spill_open → spill_adopt × n → spill_sweep → { spill_write | spill_read | spill_release }
 *                 → spill_free
 *
 * Order against the register (what makes every crash harmless, details in spill.c):
 * - spill_write() first, then commit the ref. A crash between leaves bytes that no one claims; the
 *   next sweep gives them back.
 * - commit that the ref is gone, then spill_release(). The same.
 * Nothing here is fsynced: a record that a power loss took or tore fails its checks when it is
 * read, and a cache may lose anything (I1).
 *
 * Threads: spill_open, spill_adopt, spill_sweep and spill_free belong to one thread at a time.
 * spill_write, spill_read, spill_release and spill_stats may be called from any number of threads
 * at once, also on one file. File I/O, checksums and codecs run outside of the store's lock. A read
 * that races the release of its own ref fails cleanly.
 *
 * Memory: two bits per 4 KiB of file address space, a small struct per file, and one scratch buffer
 * (about max_raw_size) per thread that is inside at the same time, kept for the next call.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/ids.h"

struct err;
struct spill;

/* Codec of a record, part of the format: never renumbered. */
enum { SPILL_CODEC_RAW = 0, SPILL_CODEC_LZ4 = 1 };

struct spill_options {
        /* Of the model: goes into each record and is checked on reading. */
        struct fingerprint fingerprint;
        size_t max_raw_size;    /* largest raw record (the block size), bytes, 1 .. 1 GiB */
        uint64_t max_disk_size; /* bytes on disk in total; 0: no limit */
        uint64_t min_free_size; /* floor: refuse what would leave less free in the file system */
        unsigned codec; /* SPILL_CODEC_*, tried first; raw is stored where it gains under 1/64 */
        /* Descriptors kept open at most (exceeded while more files are in use); 0: 64. */
        unsigned max_open_files;
        bool keep_cached; /* leave spill data in the page cache (benchmarks, tests) */
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
};
enum { SPILL_ALIGN = 4096 };

/* Open the store in @dir (made with 0700 if missing, parents too) and lock the folder. Errors:
 * -ERR_BUSY (another process or store has it), -ERR_SYS, -ERR_INVALID (options), -ERR_NOMEM. */
int spill_open(struct spill **ret, const char *dir, const struct spill_options *o, struct err *e);
/* Closes; what is on disk stays. No call may be in progress. */
struct spill *spill_free(struct spill *s);
DEFINE_CLEANUP(struct spill *, spill_free);

/* At start, once per record that the register knows. 0; 1 if this very record was adopted before
 * (forks share refs: not counted twice); -ERR_NOT_FOUND (no such file), -ERR_CORRUPT (lies outside
 * of the file or overlaps another record), -ERR_INVALID (a ref that no store ever gave),
 * -ERR_STATE (after the sweep), -ERR_SYS, -ERR_NOMEM. The content is not read. On failure forget
 * the ref. */
int spill_adopt(struct spill *s, const struct spill_ref *ref, struct err *e);
/* End of the start: remove files without an adopted record and give back the space between and
 * behind adopted ones. Only names that the store makes itself (16 hex digits ".kv") are touched.
 * Must be called (once) before the first write, also for an empty folder. *ret_n_removed (may be
 * NULL): files removed. */
int spill_sweep(struct spill *s, size_t *ret_n_removed, struct err *e);

/* Encode @raw and append a record to the file of @file_key. 0 and *ret filled, or
 * -ERR_LIMIT: total limit or floor (nothing was written), or the file system is full (what was
 * written is given back); -ERR_INVALID (size 0 or above max_raw_size), -ERR_STATE (before the
 * sweep), -ERR_SYS, -ERR_NOMEM. On failure files and accounts are as before. The caller guarantees
 * that @raw does not change meanwhile. */
int spill_write(struct spill *s, uint64_t file_key, const struct spill_meta *meta, const void *raw,
        size_t raw_size, struct spill_ref *ret, struct err *e);
/* Read the record at @ref into @dst (dst_size == ref->raw_size), checking everything: that the ref
 * names a live record, magic, version, header checksum, fingerprint, @meta, lengths, payload
 * checksum, exact decoded length. 0, -ERR_CORRUPT (the message names file, offset and what is
 * wrong), -ERR_NOT_FOUND (no such live record), -ERR_INVALID (dst_size), -ERR_SYS (e.g. EIO),
 * -ERR_NOMEM. @dst is undefined on failure: give a fresh block and publish it only after success
 * (I5). */
int spill_read(struct spill *s, const struct spill_ref *ref, const struct spill_meta *meta,
        void *dst, size_t dst_size, struct err *e);
/* The last reference to this record is gone: punch its space out of the file, unlink the file when
 * no record is left in it. 0, or -ERR_NOT_FOUND (no such live record; nothing done). Where the file
 * system cannot punch holes the space stays on disk (and in the account) until the file goes. */
int spill_release(struct spill *s, const struct spill_ref *ref, struct err *e);

struct spill_stats {
        /* Bytes on disk now: live records, writes in progress, and what could not be punched. This
         * is what max_disk_size limits. */
        uint64_t disk_size;
        uint64_t n_files, n_records; /* now */
        /* Since spill_open(): */
        uint64_t n_writes, n_reads; /* successful */
        uint64_t n_refused;         /* writes refused by a limit or a full disk */
        uint64_t n_corrupt;         /* reads that failed their checks */
        uint64_t written_size, read_size, punched_size; /* bytes on disk */
        uint64_t raw_in_size, raw_out_size;             /* raw bytes of these writes and reads */
};
void spill_stats(struct spill *s, struct spill_stats *ret);
