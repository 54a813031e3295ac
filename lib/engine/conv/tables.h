/* SPDX-License-Identifier: MIT */
#pragma once
/* The state of this floor: the conversations in RAM, and the lists of those that wait. */
#include "base/map.h"
#include "engine/conv/conv.h"

enum { CONVS_LEFT_MAX = 256 };

struct convs {
        struct map *by_id;   /* → conv */
        struct map *recs;    /* record id → rec */
        struct map *damaged; /* ids of conversations whose damage was logged */
        struct list idle;    /* conversations not in use, least recently used first */
        struct list dirty;   /* idle ones that may have blocks to write, longest idle first */
        struct list unsent;  /* of which the remote store may lack something, longest first */
        uint64_t left[CONVS_LEFT_MAX]; /* [n_left]: convs_take_left() */
        size_t n_left;
        bool left_many;
        struct list waiting[2]; /* whose requests wait for a place, by arrival; [1]: background */
        struct list ready;      /* requests that may act on their conversation */
        struct list loading;    /* struct conv_load */
        bool over;              /* see convs_take_over() */
};
