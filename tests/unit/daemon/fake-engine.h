/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * An engine controlled by a test: engine.h's functions, which record their calls. One engine at a
 * time, single-threaded.
 */
#include "engine/engine.h"

struct fake_request {
        struct engine_request r; /* pointers are not valid any more, but for the copies below */
        char conv_name[160], name[160], system[256], stops[ENGINE_MAX_STOPS][64];
        char text[1024]; /* cut */
        char tools[256], reasoning[64], tenant[256], cursor[ENGINE_CURSOR_MAX + 1];
        char results[256], calls[256]; /* "id|name|text;" of each, "-" for none */
        char messages[512]; /* "role|text|reasoning;" of each, with its calls and results */
        int32_t tokens[64];
        int fd; /* import: a duplicate, or -1; closed by fake_reset() */
        bool cancelled, paused, over;
        unsigned n_pauses;
};

/* The fake engine's state. */
struct fake_engine {
        struct engine_options options;
        char model[128], state_dir[128];
        char remote_password[64];      /* as it was while the engine was opened; "": none */
        struct fake_request *requests; /* [n], in order of submission */
        size_t n;
        bool stopping;
        uint64_t heartbeat;
        uint64_t pool_size, pool_auto; /* the size in force, and the value of auto */
        uint64_t pool_used, pool_idle; /* the result of engine_pool_use() */
        bool spare_refused;
        bool speculates; /* as it was set last, after the start */
        unsigned n_resizes;
        /* What watchers were told of pressure last, and how often. */
        bool pressed;
        uint64_t pressed_budget;
        unsigned n_notes;
        /* The overrides that the register has at the start. */
        const struct quota_override *overrides;
        size_t n_overrides;
        uint64_t file_bytes; /* of files that were begun or written, and not ended */
};
extern struct fake_engine fake;

/* The next calls of engine_open() or engine_submit() fail with this, once. */
void fake_fail_open(enum err_code code, const char *message);
void fake_fail_submit(enum err_code code, const char *message);
/* Verbs of this kind are answered at once with a plain result; files are read and written. */
void fake_answer(enum engine_verb verb, bool at_once);
/* The latest request of this verb, or NULL. */
struct fake_request *fake_last(enum engine_verb verb);
/* Hand out a shallow copy of @ev, with copies of strings and arrays; marks the request as over if
 * final. */
void fake_emit(const struct engine_event *ev);
void fake_emit_delta(uint64_t handle, const char *text, int32_t token);
void fake_emit_error(uint64_t handle, enum err_code code, const char *message);
void fake_emit_done(uint64_t handle);
/* The answer to Tenant: number @tenant of the uid that was asked for. */
void fake_emit_owner(uint64_t handle, uint32_t tenant);
/* An export of @text. */
void fake_emit_exported(uint64_t handle, const char *text);
/* Stats with one figure. */
void fake_emit_stats(uint64_t handle);
/* Forget everything. */
void fake_reset(void);
