/* SPDX-License-Identifier: MIT */
#pragma once
/* Figures of a daemon that outlive the event that told them. */
#include "client/confab.h"

/* A copy in one block, to be freed with free(). Of each list at most STATS_COPY_MOST items are taken, and histograms with more
 * than that many bounds are left out. NULL without memory. */
#define STATS_COPY_MOST 1024
struct confab_stats *stats_copy(const struct confab_stats *stats);
