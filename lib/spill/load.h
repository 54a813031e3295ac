/* SPDX-License-Identifier: MIT */
#pragma once
/* A load, shared by load.c (its life) and window.c (reading sections). */
#include "base/err.h"
#include "spill/record.h"
#include "spill/shared.h"

struct spill_load_item {
        const struct spill_class *layout; /* of its class; NULL: it has failed before */
        size_t class;                     /* in spill.classes */
        struct spill_file *file;          /* pinned; NULL: the item failed before */
        int fd, direct_fd;                /* the file's */
        bool is_cached;                   /* its bytes are in the page cache */
        bool is_through;                  /* something of it was read through the page cache */
        bool has_pages;                   /* in dst, for what this call reads */
        bool is_known;                    /* the header was found right; sections are filled */
        bool is_coming;                   /* with its header, in a window: see HEAD in window.c */
        uint32_t n_left;                  /* sections that were not read */
        struct spill_section *sections;   /* [s->max_sections] */
};

struct spill_load {
        struct spill *s;
        struct spill_item *items;
        struct spill_load_item *state; /* [n] */
        uint32_t *order;               /* [n], of items on disk */
        size_t n;
};

/* A section of an item, or its record from the header on. */
struct spill_piece {
        uint32_t item, section;
        uint64_t start, end; /* in the file, bytes */
};

enum { SPILL_MAX_PIECES = 64 };
/* What is read with one call: pieces that follow one another in one file. */
struct spill_window {
        struct spill_read read; /* if is_begun */
        int fd, direct_fd;
        bool is_cached, is_direct;
        bool is_begun;       /* if is_direct: it is in flight */
        uint64_t start, end; /* in the file, bytes */
        uint8_t *image;      /* of the pages that it touches, in the ring */
        size_t n_pieces, n_items;
        struct spill_piece pieces[SPILL_MAX_PIECES];
};

/* The first failure among some items. */
struct spill_load_failure {
        int r; /* 0: none */
        struct err err;
};

/* Item @i has failed with @r, described by @e. Takes the lock. */
void spill_load_fail_item(
        struct spill_load *l, size_t i, int r, struct err *e, struct spill_load_failure *first);
/* Check the header at @data, and use it if it is right. 0, -ERR_CORRUPT. */
int spill_load_parse(struct spill_load *l, size_t i, const uint8_t *data, struct err *e);
