/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Closing throw-away conversations. A Close may be refused for a moment, as any request ("limit", "busy"): it is tried
 * again, 30 times within half a minute, and what is left then is closed by the daemon when it is due. One thread.
 */
#include "base/list.h"
#include "client/confab.h"

struct cli_closings {
        struct confab *confab;
        struct list list; /* of struct closing */
};

void cli_closings_init(struct cli_closings *c, struct confab *confab);
/* Begin to close conversation @id. It may be called from within an event. */
void cli_closings_add(struct cli_closings *c, uint64_t id);
/* Send again what is due: microseconds until there is more to send, UINT64_MAX: that is not known. */
uint64_t cli_closings_due(struct cli_closings *c);
/* Wait for something to happen on the connection, or for what is due. -1: the connection is over. */
int cli_closings_step(struct cli_closings *c);
/* Wait until all is closed, or the connection is over. */
void cli_closings_wait(struct cli_closings *c);
/* The connection may be gone. */
void cli_closings_deinit(struct cli_closings *c);
