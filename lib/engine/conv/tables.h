/* SPDX-License-Identifier: MIT */
#pragma once
/* The state of this floor: which conversations are in RAM, and which of them wait for what. */
#include "base/map.h"
#include "engine/conv/conv.h"

struct convs {
        struct map *by_id;      /* → conv */
        struct map *recs;       /* record id → rec */
        struct map *damaged;    /* ids of conversations whose damage was told */
        struct list idle;       /* conversations nobody uses, least recently used first */
        struct list dirty;      /* idle ones with blocks to write, longest idle first */
        struct list waiting[2]; /* of requests that wait for a place, by arrival; [1]: background */
        struct list ready;      /* requests that may act on their conversation */
        struct list loading;    /* struct conv_load */
};
