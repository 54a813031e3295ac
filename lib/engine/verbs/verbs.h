/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The verbs, each as a row (request/request.h explains rows). Continue and Warm are in run/run.h. A
 * new verb is a file here, its row, and an entry in the table of main/dispatch.c.
 */
#include "engine/run/run.h"

extern const struct verb verb_backup, verb_cancel, verb_carry, verb_check, verb_close, verb_drain,
        verb_evict, verb_export, verb_find, verb_fork, verb_get, verb_import, verb_limit, verb_list,
        verb_model_info, verb_open, verb_override, verb_publish, verb_read_file, verb_rewind,
        verb_stats, verb_tenant, verb_tokenize, verb_update, verb_usage, verb_user_act, verb_users,
        verb_watch, verb_write_file;

/* State shared by verbs. NULL without memory. */
struct verb_state *verb_state_new(void);
struct verb_state *verb_state_free(struct verb_state *s);

/* Give watchers the notices that have come, and end the watchers that are to end. Once in each round of
 * the engine thread. Returns the time to call again at the latest (clock_monotonic_usec()). */
uint64_t watch_step(struct engine *engine);

/* Close throw-away conversations that are due. As watch_step(). */
uint64_t sweep_step(struct engine *engine);

/* Go on with what administrators do to users. As watch_step(). */
uint64_t user_act_step(struct engine *engine);

/* Go on with a check. As watch_step(). */
uint64_t check_step(struct engine *engine);

/* Remove what a backup has left that a crash has cut off. While the state folder is opened. */
void backup_sweep(struct engine *engine);

/* Whether new work is refused: @e says so. Engine thread. */
bool drain_refuses(struct engine *engine, const struct verb *verb, struct err *e);
/* Another machine may have changed overrides of limits. Any thread. */
void overrides_changed(struct engine *engine);
/* Read and tell them, if so. */
void overrides_step(struct engine *engine);
/* Go on with draining. As watch_step(). */
uint64_t drain_step(struct engine *engine);

/* The number format of memory. */
enum kern_kv_type engine_kv_type(const struct engine *engine);
