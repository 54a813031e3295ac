/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The spill store: files that hold blocks which have left RAM. The store knows bytes, not models: a
 * record is raw bytes plus the identity (struct spill_meta) under which they may become memory
 * again.
 *
 * The store keeps no index of its own on disk. A caller that writes a record gets a struct
 * spill_ref, plain data, and keeps it in the durable register. After a restart it hands the
 * register's refs back (spill_adopt); then spill_sweep() removes every record that was not adopted.
 * The life of a store:
 *
 *      spill_open → spill_adopt × n → spill_sweep → { spill_write, spill_settle | spill_read,
 *                   spill_load_… | spill_release } → spill_free
 *
 * The order of steps against the register makes every crash harmless (details in spill.c):
 * - Writing: spill_write() first, then commit the ref. A crash between the two leaves bytes that no
 *   ref names; the next sweep frees them.
 * - Releasing: first commit the removal of the ref, then spill_release(). A crash leaves the same.
 * Nothing here is fsynced. A record that a power loss removed or tore fails its checks when it is
 * read, and a cache may lose anything (I1).
 *
 * Blocks are of a few classes, each with a size and a layout of its own. A block is divided into
 * sections (struct spill_layout). Each section is encoded and checked separately, so that the first
 * layers of many blocks can be read before the last ones (spill_load_…).
 *
 * Threads: spill_open, spill_adopt, spill_sweep, spill_scan and spill_free belong to one thread at
 * a time. All other calls may run in any number of threads at once, even on one file; a struct
 * spill_load belongs to one thread at a time. File I/O, checksums and codecs run outside the
 * store's lock. A read that races the release of its own ref fails cleanly.
 *
 * Memory: two bits per 4 KiB of file address space, a small struct per file and per owner, and one
 * scratch buffer (spill_scratch_size()) for each thread that is in spill_write, spill_read or
 * spill_load_read at the same time. Scratch buffers are kept for later calls until spill_trim().
 * The kernel holds one AIO context of SPILL_QUEUE_MAX requests for the store (queue.h).
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/ids.h"

struct err;
struct spill;

/* Codec of a section, part of the format: never renumbered. SPILL_CODEC_AUTO is no codec, but the
 * option to choose one for each write (choice.c). */
enum { SPILL_CODEC_RAW = 0, SPILL_CODEC_LZ4 = 1, SPILL_CODEC_KV = 2, SPILL_CODEC_AUTO = 255 };

enum spill_element { SPILL_BYTES, SPILL_F16, SPILL_F32, SPILL_I8 };
/* One array inside a raw block: tells the codec's transform what the bytes are. Element (tile,
 * channel, token) is at [tile][channel][token] if channel_major, else at [tile][token][channel].
 * Bytes of a block that no array covers are SPILL_BYTES. */
struct spill_array {
        enum spill_element element;
        uint32_t section;
        uint64_t offset; /* bytes from the block's start */
        uint32_t n_tiles, n_channels, n_tokens;
        bool channel_major;
};
struct spill_layout {
        const struct spill_array *arrays; /* in order of offset */
        size_t n_arrays;
        const uint64_t *section_ends; /* bytes; the last one is the raw size */
        size_t n_sections;            /* 1 .. SPILL_MAX_SECTIONS */
};
enum { SPILL_MAX_SECTIONS = 128, SPILL_MAX_ARRAYS = 65536, SPILL_MAX_CLASSES = 4 };

/* Why a write was refused (-ERR_LIMIT). */
enum spill_refusal {
        SPILL_REFUSED_NOT,
        SPILL_REFUSED_TOTAL, /* max_disk_size */
        SPILL_REFUSED_OWNER, /* max_disk_size_per_owner */
        SPILL_REFUSED_FLOOR, /* min_free_size */
        SPILL_REFUSED_DAY,   /* max_written_per_day; releasing records does not help */
        SPILL_REFUSED_FULL,  /* file system or quota full, or the file has reached its maximum */
        SPILL_N_REFUSALS
};

/* What was measured of this disk and this processor; 0: not yet. Bytes per second. */
struct spill_figures {
        uint64_t disk_speed;   /* stored bytes from the disk, past the page cache; all threads */
        uint64_t decode_speed; /* raw bytes by codec KV; one thread */
        uint64_t copy_speed;   /* raw bytes that are stored raw, checked and copied; one thread */
        uint64_t encode_speed; /* raw bytes by codec KV; one thread. It decides nothing */
        uint64_t ratio;        /* raw bytes that codec KV stores in 1000 */
};

struct spill_options {
        /* The model's: stored in each record and checked on reading. */
        struct fingerprint fingerprint;
        size_t max_raw_size; /* largest raw record (block size of any class), bytes, 1 .. 1 GiB */
        /* How the blocks of each class are divided; copied. Every raw block must have exactly the size
         * of its class's layout, at most max_raw_size. n_sections 0: there are no such blocks; 0 for all
         * classes: blocks of any class and size, one section of plain bytes. */
        struct spill_layout layouts[SPILL_MAX_CLASSES];
        uint64_t max_disk_size;           /* bytes on disk in total; 0: no limit */
        uint64_t max_disk_size_per_owner; /* 0: no limit */
        uint64_t max_written_per_day;     /* bytes handed to the disk; 0: no limit */
        /* The day's writes as the register remembers them (from spill_stats); ignored unless it is
         * still the same day. A day is realtime / 86400 s. */
        uint64_t written_today, day;
        uint64_t min_free_size; /* floor: refuse writes that would leave less free space */
        unsigned codec; /* SPILL_CODEC_*, tried first; sections it shrinks by under 1/64 stay raw */
        /* For SPILL_CODEC_AUTO: what the last store measured, the codec that it chose, and how many
         * threads decode a restore at the same time, each on a processor (0: 1). */
        struct spill_figures figures;
        unsigned last_codec;
        unsigned n_threads;
        bool frozen; /* tests: measure nothing, the figures are right */
        /* Descriptors kept open at most (exceeded while more files are in use); 0: 64. */
        unsigned max_open_files;
        /* Approximate bytes of memory that a thread reads into; 0: enough for a fast disk
         * (SPILL_RING_SIZE). Each block size has a minimum. */
        size_t ring_size;
        bool keep_cached; /* leave spill data in the page cache (benchmarks, tests) */
        bool no_direct;   /* read through the page cache only, as without O_DIRECT */
        /* Change nothing (fsck): the folder must exist; spill_sweep, spill_write and spill_release
         * return -ERR_STATE. Several read-only stores may have the folder open at the same time.
         * Without a layout, spill_inspect() is how records are read. */
        bool read_only;
        uint64_t (*realtime_usec)(void); /* tests; NULL: clock_realtime_usec() */
};

/* What the bytes are. All of this is stored in the record and must match exactly on reading. */
struct spill_meta {
        uint32_t class_id; /* which kind of block, e.g. 0: full-attention KV; chooses the layout */
        uint32_t position; /* of the block in its sequence, as the class counts */
        uint32_t n_tokens; /* valid in the block */
        uint64_t token_hash; /* chained hash of these tokens and all before them */
};

/* Where a record is stored. Plain data for the register; values read from there are not trusted. */
struct spill_ref {
        uint64_t file_key;    /* names the file; the caller chooses it (one per conversation) */
        uint64_t offset;      /* bytes, multiple of SPILL_ALIGN */
        uint64_t stored_size; /* bytes on disk with header and padding, multiple of SPILL_ALIGN */
        uint64_t raw_size;    /* bytes after decoding */
        uint64_t owner;       /* who pays (base/owner.h); one per file */
};
enum { SPILL_ALIGN = 4096 };

/* Open the store in @dir (made with 0700 if missing, parents too) and lock the folder. Errors:
 * -ERR_BUSY (another process or store has the folder), -ERR_STATE (the folder is a symbolic link;
 * or, unless read_only, it belongs to another user or others can write to it), -ERR_SYS,
 * -ERR_INVALID (options), -ERR_NOMEM. */
int spill_open(struct spill **ret, const char *dir, const struct spill_options *o, struct err *e);
/* Close the store; its files stay on disk. No call may be in progress and no load may exist. */
struct spill *spill_free(struct spill *s);
DEFINE_CLEANUP(struct spill *, spill_free);

/* At startup, once per record that the register knows. 0; 1 if this same record was adopted before
 * (forks share refs: not counted twice); -ERR_NOT_FOUND (no such file), -ERR_CORRUPT (the record is
 * outside the file, overlaps another one, or differs in owner from the file's adopted records),
 * -ERR_INVALID (no store can have made this ref), -ERR_STATE (after the sweep), -ERR_SYS,
 * -ERR_NOMEM. The content is not read. A record of another model is adopted as well, whatever its
 * blocks are like: it keeps its space, can be released, and can be read once that model is back. On failure, forget the ref. Adopting ignores the limits: the
 * record is on disk already. But no write is admitted until usage is below the limits. */
int spill_adopt(struct spill *s, const struct spill_ref *ref, struct err *e);
/* Ends the startup: remove files without an adopted record and free the space between and after
 * adopted records. Only regular files with names that the store makes itself (16 hex digits ".kv")
 * are touched. Must be called once before the first write, even for an empty folder.
 * *ret_n_removed (may be NULL): files removed. */
int spill_sweep(struct spill *s, size_t *ret_n_removed, struct err *e);

/* One entry of the folder. */
struct spill_found {
        const char *name;      /* valid during the call */
        bool is_ours;          /* a regular file with a name that the store makes */
        uint64_t file_key;     /* if is_ours */
        uint64_t size;         /* of the file, holes included */
        uint64_t disk_size;    /* bytes that it takes on disk */
        uint64_t n_records;    /* adopted records; 0: a sweep would remove the file */
        uint64_t adopted_size; /* bytes of the adopted records */
};
/* Call @found for each entry of the folder (not "." and "..") until it returns nonzero, and return
 * that value. Changes nothing; at any time after spill_open(). 0, or -ERR_SYS. */
int spill_scan(struct spill *s, int (*found)(void *arg, const struct spill_found *f), void *arg,
        struct err *e);

/* Check one adopted record, however its block is divided into sections, against @fingerprint. If
 * @dst (ref->raw_size bytes) is not NULL, decode the record into it with the arrays of the whole
 * block (in order of offset; their section is ignored). For tools that open a store without the
 * layout that spill_read() needs. Errors as spill_read(). */
int spill_inspect(struct spill *s, const struct fingerprint *fingerprint,
        const struct spill_ref *ref, const struct spill_meta *meta,
        const struct spill_array *arrays, size_t n_arrays, void *dst, struct err *e);

/* Read one record as it is stored, header and all, into @dst (ref->stored_size bytes), checked as spill_inspect() checks it.
 * A record that goes meanwhile fails: -ERR_NOT_FOUND or -ERR_CORRUPT. Errors as spill_read(). */
int spill_read_stored(struct spill *s, const struct fingerprint *fingerprint,
        const struct spill_ref *ref, const struct spill_meta *meta, void *dst, struct err *e);

/* Check and decode a record that came from elsewhere: data[0..size) as spill_read_stored() has given it, here or in a store of the same
 * model on another machine. @dst and errors as spill_read(); in no file is looked. */
int spill_unpack(struct spill *s, const struct spill_meta *meta, const void *data, size_t size,
        void *dst, size_t dst_size, struct err *e);

/* --- writing --- */

/* A block to be written. */
struct spill_block {
        uint64_t file_key;
        uint64_t owner; /* who pays; must be the same for all records of a file */
        struct spill_meta meta;
        const void *raw; /* [raw_size]; must not change during the call */
        size_t raw_size; /* that of the layout of meta.class_id */
        /* Bytes that the owner may have, in place of max_disk_size_per_owner; UINT64_MAX: no limit. Only with
         * has_max_owner_size. */
        bool has_max_owner_size;
        uint64_t max_owner_size;
};
/* Encode a block and append a record to its file. The write is admitted by its largest possible
 * size before anything is done. 0 and *ret filled, or -ERR_LIMIT with *ret_why (may be NULL) saying
 * which limit (bytes already written are freed); -ERR_INVALID (a size other than the layout's, a class
 * without blocks, or a file of another owner), -ERR_STATE (before the sweep, read-only), -ERR_SYS, -ERR_NOMEM. On
 * failure files and accounts are as before, except that bytes which reached the disk stay in
 * written_today. */
int spill_write(struct spill *s, const struct spill_block *b, struct spill_ref *ret,
        enum spill_refusal *ret_why, struct err *e);
/* After some writes to a file: wait until its data is on disk, and drop it from the page cache,
 * where it would displace pages that are used more often. Not needed for correctness; without it up
 * to SPILL_UNSETTLED_MAX bytes per file wait for the file's next call. Errors are ignored. */
void spill_settle(struct spill *s, uint64_t file_key);
enum { SPILL_UNSETTLED_MAX = 8 << 20 };
/* The most bytes that one block of @raw_size bytes may take on disk, of whatever class: what to make
 * room for. */
uint64_t spill_stored_max(struct spill *s, size_t raw_size);

/* --- instruction sets of the codec --- */

/* SPILL_ISA_BEST: what is fastest here, a mixture. */
enum spill_isa { SPILL_ISA_GENERIC, SPILL_ISA_AVX2, SPILL_ISA_AVX512, SPILL_ISA_BEST };

/* Packs and unpacks with nothing above @isa from now on, in the whole process: a cap for tests and measurements.
 * The bytes do not depend on it. Returns spill_isa(). Any thread. */
int spill_cap_isa(int isa);
/* The greatest set that is in use, at most SPILL_ISA_AVX512. Any thread. */
int spill_isa(void);

/* --- the codec of new records; choice.c has the policy --- */

struct spill_choice {
        unsigned codec;             /* SPILL_CODEC_KV or SPILL_CODEC_RAW; or what is set */
        bool is_set;                /* by the option; nothing was chosen */
        enum spill_refusal scarce;  /* the limit that is near: so KV, whatever time it takes */
        bool is_guess;              /* the disk was not measured yet */
        uint64_t kv_usec, raw_usec; /* that a GB (10^9 bytes) of memory is expected to take */
        struct spill_figures figures;
};
/* Choose by these figures for restores by @n_threads. @now: the codec that is in use, SPILL_CODEC_AUTO:
 * none yet. Fills all of *ret but is_set. Depends on its arguments alone. */
void spill_choose(const struct spill_figures *figures, unsigned n_threads,
        enum spill_refusal scarce, unsigned now, struct spill_choice *ret);
/* Whether bytes are scarce with @used of @limit (0: there is none); @was: they were a moment ago. */
bool spill_is_scarce(uint64_t used, uint64_t limit, bool was);
/* What the store chooses now, but for the limit of an owner. */
void spill_choice(struct spill *s, struct spill_choice *ret);
/* The same of a store that would be opened with @o, which are measured as far as the processor
 * goes; nothing is opened. 0, or fails as spill_open() for its options and memory. */
int spill_choice_for(const struct spill_options *o, struct spill_choice *ret, struct err *e);
/* When spill_probe() should be called, by clock_monotonic_usec(), as it looks now: there is a disk to
 * measure, what is known of it is nothing, or what restores say that could not use all of it, and some
 * seconds ago the last write ended. UINT64_MAX: there is nothing to measure. */
uint64_t spill_probe_due(struct spill *s);
/* Measure the disk by reading up to SPILL_PROBE_SIZE bytes of records past the page cache; the bytes
 * are not looked at. Takes about as long as a small restore, and a thread's scratch buffer. Does nothing
 * where the file system lacks O_DIRECT. Errors are ignored. */
void spill_probe(struct spill *s);
enum { SPILL_PROBE_SIZE = 32 << 20 };

/* --- reading --- */

/* Read the record at @ref into @dst (dst_size == ref->raw_size), checking everything: that the ref
 * names a live record, magic, version, header checksum, fingerprint, @meta, lengths, section
 * checksums, exact decoded lengths. 0, -ERR_CORRUPT (the message names the file, the offset and the
 * fault), -ERR_NOT_FOUND (no such live record), -ERR_INVALID (dst_size), -ERR_SYS (e.g. EIO),
 * -ERR_NOMEM. @dst is undefined on failure: pass a fresh block and publish it only after success
 * (I5). */
int spill_read(struct spill *s, const struct spill_ref *ref, const struct spill_meta *meta,
        void *dst, size_t dst_size, struct err *e);

/* Many records, as a pipeline. A load is a run of records, from one file or several, that one
 * thread reads together. Several threads may each work on a load of their own.
 *
 *      spill_load_new(&l, s, items, n)      records are found, of any classes
 *      spill_load_read(l, {{0, 2}, {0, 1}}) sections 0 and 1 of class 0, section 0 of class 1 are in
 *                                           their dst in all items
 *      spill_load_read_all(l)               and the rest
 *      spill_load_free(l)
 *
 * Bytes near each other in a file are read with one call (best: records in the order in which they
 * were written, all sections at once). While some bytes are checked and decoded, the disk reads the
 * next ones. Each item has its own result: a failed item is skipped from then on, the others
 * continue. */
struct spill_item {
        struct spill_ref ref;
        struct spill_meta meta;
        void *dst; /* [ref.raw_size] */
        bool is_fresh; /* dst's pages are not taken from the system yet: they are while the disk is read */
        int r;         /* out: 0 or what spill_read() would have returned */
};
struct spill_load;
/* The caller owns @items, which must outlive the load. The files are kept open. 0; the error of the
 * first item that failed (*ret is made nevertheless and the other items are good; @e describes that
 * item's fault); -ERR_NOMEM with *ret untouched. So free *ret if it is set. */
int spill_load_new(struct spill_load **ret, struct spill *s, struct spill_item *items, size_t n,
        struct err *e);
/* Sections [first, first + n) of the blocks of a class; n may be 0. (Where blocks of any class are one
 * section: that of the first class stands for all.) */
struct spill_range {
        size_t first, n;
};
/* Read these sections, by class, of all items that have not failed. On return each section is in
 * dst and verified, or the item's r says why not (-ERR_NOMEM is set in all items). Sections may be
 * read in any order; none is read twice. 0, or the error of the first item that failed in this
 * call; -ERR_INVALID (no such sections; nothing done). An item is complete when all its sections
 * were read and its r is 0. */
int spill_load_read(
        struct spill_load *l, const struct spill_range sections[SPILL_MAX_CLASSES], struct err *e);
/* The same with all sections of all classes. */
int spill_load_read_all(struct spill_load *l, struct err *e);
/* May be called after any step. */
struct spill_load *spill_load_free(struct spill_load *l);
DEFINE_CLEANUP(struct spill_load *, spill_load_free);
/* A whole load in one call: spill_load_new, all sections, spill_load_free. */
int spill_read_batch(struct spill *s, struct spill_item *items, size_t n, struct err *e);

/* Bytes that a load of @n items takes in addition to the items. */
size_t spill_load_size(struct spill *s, size_t n);
/* Bytes of one thread's scratch buffer. */
size_t spill_scratch_size(struct spill *s);
/* The spill_scratch_size() of a store opened with @o, without opening one. */
int spill_scratch_size_for(const struct spill_options *o, size_t *ret, struct err *e);
/* Free the scratch buffers that no thread uses now. */
void spill_trim(struct spill *s);

/* --- letting go --- */

/* The last reference to this record is gone: punch its space out of the file, and unlink the file
 * when it has no records left. 0, or -ERR_NOT_FOUND (no such live record; nothing done), -ERR_STATE
 * (read-only). If the file system cannot punch holes, the space stays on disk and in the accounts
 * until the file is unlinked. */
int spill_release(struct spill *s, const struct spill_ref *ref, struct err *e);

/* --- figures --- */

struct spill_stats {
        /* Bytes on disk now: live records, writes in progress, and holes that could not be punched.
         * max_disk_size limits this figure. */
        uint64_t disk_size;
        uint64_t n_files, n_records, n_owners; /* now */
        /* For the register: bytes written to disk on @day, which is the day of this call. */
        uint64_t written_today, day;
        /* Since spill_open(): */
        uint64_t n_writes, n_reads; /* records, successful */
        uint64_t n_refused;         /* writes refused by a limit or a full disk */
        uint64_t n_refused_by[SPILL_N_REFUSALS];
        uint64_t n_corrupt; /* reads that failed their checks */
        uint64_t n_released;
        uint64_t n_preads, n_joined; /* reads; records that shared a read with another record */
        uint64_t n_direct;           /* reads that bypassed the page cache */
        uint64_t written_size, read_size, punched_size; /* bytes on disk */
        uint64_t raw_in_size, raw_out_size;             /* raw bytes of these writes and reads */
};
void spill_stats(struct spill *s, struct spill_stats *ret);
/* Bytes on disk that @owner pays for. */
uint64_t spill_owner_size(struct spill *s, uint64_t owner);
