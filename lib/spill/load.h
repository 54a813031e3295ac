/* SPDX-License-Identifier: MIT */
#pragma once
/* A load, as load.c (its life) and window.c (reading sections) see it. */
#include "base/err.h"
#include "spill/record.h"
#include "spill/shared.h"

/* Announce so much in front of what is read. */
enum { SPILL_AHEAD_SIZE = 8 << 20 };

struct spill_load_item {
        struct spill_file *file; /* pinned; NULL: the item failed before */
        int fd;
        bool is_known;                  /* the header was found right; sections are filled */
        uint32_t n_left;                /* sections that were not read */
        struct spill_section *sections; /* [s->n_sections] */
};

struct spill_load {
        struct spill *s;
        struct spill_item *items;
        struct spill_load_item *state; /* [n] */
        uint32_t *order;               /* [n], of items on disk */
        size_t n;
        bool announce; /* reading ahead is the load's own affair */
};

/* The first failure among some items. */
struct spill_load_failure {
        int r; /* 0: none */
        struct err err;
};

/* Item @i has failed with @r, which @e says. Takes the lock. */
void spill_load_fail_item(
        struct spill_load *l, size_t i, int r, struct err *e, struct spill_load_failure *first);
/* Take over the header at @data, if it is right. 0, -ERR_CORRUPT. */
int spill_load_parse(struct spill_load *l, size_t i, const uint8_t *data, struct err *e);
/* Read the header of item @i by itself. 0, -ERR_CORRUPT, -ERR_SYS. Takes the lock. */
int spill_load_header(struct spill_load *l, size_t i, struct err *e);
/* Begin the read-ahead: headers, and of the first sections as much as is good. */
void spill_load_announce_first(struct spill_load *l);
/* Tell the kernel that these bytes will be wanted. */
void spill_load_announce(int fd, uint64_t offset, uint64_t size);
