/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The open store, its files and their owners: names, descriptors, accounts. This is the layer below
 * spill.c; it does not know records. Call functions with s->lock held unless they say otherwise.
 *
 * All bytes of a file are charged to the file, to its owner and to the store together. Whenever the
 * lock is free: disk_size of the store == sum over owners == sum over files.
 */
#include <linux/aio_abi.h>
#include <pthread.h>
#include <sys/uio.h>

#include "base/list.h"
#include "spill/figures.h"
#include "spill/pages.h"
#include "spill/spill.h"

struct map;
struct spill_scratch;

enum { SPILL_MAX_CONTEXTS = 16 };

/* How the blocks of one class are divided. */
struct spill_class {
        size_t n_sections;          /* of every record; 0: there are no such blocks */
        size_t raw_size;            /* of every record; 0: any up to max_raw_size */
        uint64_t *section_ends;     /* [n_sections]; NULL: one section of any size */
        struct spill_array *arrays; /* offsets from their section's start */
        size_t *first_array;        /* [n_sections + 1]: section k has [k] .. [k + 1] - 1 */
};

struct spill {
        /* Constant after spill_open(). */
        struct spill_options options;
        struct spill_class classes[SPILL_MAX_CLASSES];
        bool any_class;      /* no layouts: classes[0] is for blocks of any class */
        size_t max_sections; /* of a record */
        size_t buffer_size;  /* parts of a scratch buffer, shared.h */
        size_t codec_size;
        size_t ring_size;   /* of the buffer, for reading */
        size_t window_size; /* approximate bytes of one read */
        int dir_fd;         /* holds the lock on the folder */

        pthread_mutex_t lock; /* guards all below, and all of struct spill_file but its fd */
        struct map *files;    /* key → struct spill_file */
        struct map *owners;   /* number → struct spill_owner */
        pthread_cond_t cut;   /* a file is no longer being cut */
        struct list idle;     /* open files not in use, least recently used first */
        unsigned n_open;
        uint64_t pending_size;          /* part of disk_size that is being written */
        uint64_t day, day_written_size; /* bytes written to disk on that day */
        uint64_t day_pending_size;      /* most bytes that writes in progress may still write */
        struct spill_scratch *scratch;  /* free list */
        /* AIO contexts left by trimmed scratch buffers. Destroying one takes a while, which a
         * thread that needs memory cannot wait. */
        aio_context_t contexts[SPILL_MAX_CONTEXTS];
        unsigned n_contexts;
        bool swept;
        bool no_direct; /* the file system or an option requires reads through the page cache */
        struct spill_measures measures; /* figures.c */
        struct spill_stats stats;       /* without n_files, n_owners and the day */
};

struct spill_owner {
        uint64_t number;
        size_t n_files;
        uint64_t disk_size;
};

struct spill_file {
        uint64_t key;
        struct spill_owner *owner;
        struct list idle;         /* in spill.idle, or empty */
        int fd;                   /* -1: closed; does not change while n_users > 0 */
        int direct_fd;            /* for O_DIRECT reads; -1: not tried, or impossible */
        unsigned n_users;         /* calls that use fd outside of the lock */
        unsigned n_pending;       /* writes in progress */
        uint64_t n_records;       /* live */
        uint64_t end;             /* where the next record goes, bytes */
        uint64_t settled;         /* bytes before this are on disk and dropped from the cache */
        uint64_t disk_size;       /* this file's part of stats.disk_size */
        bool cutting;             /* its end is being cut off, without lock: no place behind it */
        bool made;                /* the file on disk is ours (else opening creates it anew) */
        bool gone;                /* no longer in the map; freed by the last user */
        struct spill_pages pages; /* of the live records */
};

enum { SPILL_NAME_SIZE = 24 };
/* Without lock. */
void spill_file_name(uint64_t key, char ret[SPILL_NAME_SIZE]);
/* Whether @name is a name that the store makes, and its key. Without lock. */
bool spill_file_parse_name(const char *name, uint64_t *ret_key);

struct spill_file *spill_file_find(struct spill *s, uint64_t key);
int spill_file_new(
        struct spill *s, uint64_t key, uint64_t owner, struct spill_file **ret, struct err *e);
/* Free a file and close it; it is not in the map any more, or the map is being freed too. */
void spill_file_free(struct spill *s, struct spill_file *f);
/* Keep f->fd open until the unpin, which may be called on a file that is gone. -ERR_CORRUPT
 * (missing, or no regular file), -ERR_LIMIT (a full disk), -ERR_SYS. */
int spill_file_pin(struct spill *s, struct spill_file *f, bool create, struct err *e);
/* A pinned file's descriptor for O_DIRECT reads, open until the unpin; -1 if there is none. */
int spill_file_direct(struct spill *s, struct spill_file *f);
/* @ret: descriptors that the caller closes after unlocking, or -1. Closing the last descriptor of
 * an unlinked file frees its space, which may take a while. */
void spill_file_unpin(struct spill *s, struct spill_file *f, int ret[2]);
/* Account for @size more bytes of the file (or less). */
void spill_file_charge(struct spill *s, struct spill_file *f, uint64_t size);
void spill_file_discharge(struct spill *s, struct spill_file *f, uint64_t size);
/* If the file has no records and no writes in progress, unlink it and take it out of the map. True
 * if that was done (the pointer is then valid only for callers that have pinned the file). */
bool spill_file_drop_if_empty(struct spill *s, struct spill_file *f);
/* The owner, or NULL if the store has no file of theirs. */
struct spill_owner *spill_owner_find(struct spill *s, uint64_t number);

/* --- without lock --- */

/* Unpin @n times. */
void spill_file_let_go(struct spill *s, struct spill_file *f, unsigned n);
/* Read all bytes of iov[0..n) (which is modified). 0, -ERR_CORRUPT "ends early", -ERR_SYS. */
int spill_io_read(int fd, struct iovec *iov, int n, uint64_t offset, struct err *e);
/* 0, -ERR_LIMIT (disk or quota is full), -ERR_SYS. *ret_size: bytes that were written, also on
 * failure. */
int spill_io_write(
        int fd, struct iovec *iov, int n, uint64_t offset, uint64_t *ret_size, struct err *e);
/* Free the space of a range. True, or false if the file system cannot. */
bool spill_io_punch(int fd, uint64_t offset, uint64_t size);
