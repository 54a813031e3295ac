/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The open store and its files: names, descriptors, accounts. What spill.c builds on; nothing here
 * knows records. Functions are called with s->lock held unless they say otherwise.
 */
#include <pthread.h>
#include <sys/uio.h>

#include "base/list.h"
#include "spill/pages.h"
#include "spill/spill.h"

struct map;

struct spill {
        /* Constant after spill_open(). */
        struct spill_options options;
        size_t scratch_size;
        int dir_fd; /* holds the lock on the folder */

        pthread_mutex_t lock; /* guards all below, and all of struct spill_file but its fd */
        struct map *files;    /* key → struct spill_file */
        struct list idle;     /* open files that nobody uses, least recently used first */
        unsigned n_open;
        uint64_t pending_size; /* part of disk_size that is being written */
        void *scratch;         /* free list, linked through the first word of each buffer */
        bool swept;
        struct spill_stats stats; /* but n_files */
};

struct spill_file {
        uint64_t key;
        struct list idle;         /* in spill.idle, or empty */
        int fd;                   /* -1: closed; does not change while n_users > 0 */
        unsigned n_users;         /* calls that use fd outside of the lock */
        unsigned n_pending;       /* writes in progress */
        uint64_t n_records;       /* live */
        uint64_t end;             /* where the next record goes, bytes */
        uint64_t disk_size;       /* this file's part of stats.disk_size */
        bool made;                /* the file on disk is ours (else it is created anew) */
        bool gone;                /* no longer in the map; freed by the last user */
        struct spill_pages pages; /* of the live records */
};

enum { SPILL_NAME_SIZE = 24 };
/* Without lock. */
void spill_file_name(uint64_t key, char ret[SPILL_NAME_SIZE]);
/* Whether @name is one that the store makes, and of which key. Without lock. */
bool spill_file_parse_name(const char *name, uint64_t *ret_key);

struct spill_file *spill_file_find(struct spill *s, uint64_t key);
int spill_file_new(struct spill *s, uint64_t key, struct spill_file **ret, struct err *e);
/* Free a file and close it; it is not in the map any more, or the map goes too. */
void spill_file_free(struct spill *s, struct spill_file *f);
/* Have f->fd open until the unpin, which may be called on a file that is gone. */
int spill_file_pin(struct spill *s, struct spill_file *f, bool create, struct err *e);
void spill_file_unpin(struct spill *s, struct spill_file *f);
/* Account for @size more bytes of the file (or less). */
void spill_file_charge(struct spill *s, struct spill_file *f, uint64_t size);
void spill_file_discharge(struct spill *s, struct spill_file *f, uint64_t size);
/* If the file holds nothing and nothing is on its way: unlink it and take it out of the map. True
 * if it went (the pointer is only valid for those who have it pinned). */
bool spill_file_drop_if_empty(struct spill *s, struct spill_file *f);

/* --- without lock --- */

/* All bytes of iov[0..n) (which is used up). 0, -ERR_CORRUPT "ends early", -ERR_SYS. */
int spill_io_read(int fd, struct iovec *iov, int n, uint64_t offset, struct err *e);
/* 0, -ERR_LIMIT (disk or quota is full), -ERR_SYS. */
int spill_io_write(int fd, struct iovec *iov, int n, uint64_t offset, struct err *e);
/* Give the space of a range back. True, or false if the file system cannot. */
bool spill_io_punch(int fd, uint64_t offset, uint64_t size);
