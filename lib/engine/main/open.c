/* SPDX-License-Identifier: MIT */
/* Opening and closing an engine. thread.c tells who owns what. */
#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/thread.h"
#include "engine/far/far.h"
#include "engine/main/main.h"
#include "gguf/gguf.h"
#include "kern/kern.h"

static int open_parts(struct engine *engine, struct err *e) {
        int r = state_lock(engine, e);

        if (r == 0)
                r = state_open_register(engine, e);
        if (r == 0)
                r = engine_load(engine, e);
        if (r == 0)
                r = chains_make_up(engine, e);
        if (r == 0)
                r = state_open_spill(engine, e);
        if (r == 0)
                r = far_open(engine, e);
        if (r == 0)
                r = io_start(engine, e);
        if (r == 0)
                leases_listen(engine);
        if (r == 0 && thread_start(&engine->front->thread, NULL, thread_main, engine) != 0)
                r = err_set(e, ERR_NOMEM, "cannot start the engine thread");
        if (r == 0)
                engine->front->thread_started = true;
        return r;
}

/* Numbers that pass from one module to another unchanged. */
static_assert((int)ENGINE_ISA_GENERIC == KERN_GENERIC && (int)ENGINE_ISA_AVX2 == KERN_AVX2 &&
                      (int)ENGINE_ISA_AVX_VNNI == KERN_AVX_VNNI &&
                      (int)ENGINE_ISA_AVX512 == KERN_AVX512 &&
                      (int)ENGINE_ISA_AVX512_VNNI == KERN_AVX512_VNNI &&
                      (int)ENGINE_ISA_NEON == KERN_NEON &&
                      (int)ENGINE_ISA_NEON_DOTPROD == KERN_NEON_DOTPROD,
        "instruction sets");
static_assert((int)ENGINE_SYSTEM == CHAT_SYSTEM && (int)ENGINE_USER == CHAT_USER &&
                      (int)ENGINE_ASSISTANT == CHAT_ASSISTANT && (int)ENGINE_RAW == CHAT_RAW &&
                      (int)ENGINE_TOOL == CHAT_TOOL,
        "roles");
static_assert((int)CHAT_N_ROLES == STORE_N_ROLES, "roles in the register");
static_assert((int)ENGINE_FINISH_CANCELLED + 1 == STORE_N_FINISHES, "reasons in the register");
static_assert(ENGINE_NAME_MAX == STORE_NAME_MAX, "names");

static int check_options(const struct engine_options *o, struct err *e) {
        if (o->max_active < 1 || o->max_active > ENGINE_MAX_ACTIVE)
                return err_set(e, ERR_INVALID, "max_active %u is not in 1..%d", o->max_active,
                        ENGINE_MAX_ACTIVE);
        if (o->batch_tokens < 1 || o->batch_tokens > ENGINE_MAX_BATCH)
                return err_set(e, ERR_INVALID, "batch_tokens %u is not in 1..%d", o->batch_tokens,
                        ENGINE_MAX_BATCH);
        if (o->prefill_share < 1 || o->prefill_share > 100)
                return err_set(
                        e, ERR_INVALID, "prefill_share %u is not in 1..100", o->prefill_share);
        if (o->ram_share_per_owner > QUOTA_RAM_ALL)
                return err_set(e, ERR_INVALID, "ram_share_per_owner %u is not in 0..%d",
                        o->ram_share_per_owner, QUOTA_RAM_ALL);
        if (o->kv_type > ENGINE_KV_Q8_0)
                return err_set(e, ERR_INVALID, "unknown kind %d of memory", (int)o->kv_type);
        if (!o->model_path || !o->state_dir)
                return err_set(e, ERR_INVALID, "a model file and a state folder are needed");
        if (strlen(o->state_dir) > 3900)
                return err_set(e, ERR_INVALID, "the state folder's path is too long");
        return 0;
}

static int new_parts(struct engine *engine, struct err *e) {
        int r;

        engine->budget = budget_new();
        engine->bell = bell_new();
        engine->workers = workers_new();
        engine->disk = disk_new();
        engine->far = far_new();
        engine->verbs = verb_state_new();
        if (!engine->front->leases || !engine->model_path || !engine->state_dir ||
                !engine->budget || !engine->bell || !engine->workers || !engine->disk ||
                !engine->far || !engine->verbs)
                return err_set(e, ERR_NOMEM, "no memory for the engine");
        r = outbox_new(&engine->outbox, engine, e);
        if (r == 0)
                r = notices_new(&engine->notices, engine->bell, e);
        if (r == 0)
                r = convs_new(&engine->convs, e);
        if (r == 0)
                r = desk_new(&engine->desk, e);
        if (r == 0)
                r = meters_new(&engine->meters, engine, e);
        if (r < 0)
                return r;
        engine->front->stopped = event_new(engine, NULL, 0, ENGINE_STOPPED, false);
        return engine->front->stopped ? 0 : err_set(e, ERR_NOMEM, "no memory for the engine");
}

int engine_new(struct engine **ret, const struct engine_options *o, struct err *e) {
        struct engine *engine;
        int r = check_options(o, e);

        if (r < 0)
                return r;
        engine = calloc(1, sizeof(*engine));
        if (engine)
                engine->front = calloc(1, sizeof(*engine->front));
        if (!engine || !engine->front) {
                free(engine);
                return err_set(e, ERR_NOMEM, "no memory for the engine");
        }
        pthread_mutex_init(&engine->front->lock, NULL);
        engine->front->lock_fd = -1;
        engine->front->leases = leases_new();
        engine->o = *o;
        engine->model_path = strdup(o->model_path);
        engine->state_dir = strdup(o->state_dir);
        r = new_parts(engine, e);
        if (r < 0) {
                engine_free(engine);
                return r;
        }
        *ret = engine;
        return 0;
}

int engine_open(struct engine **ret, const struct engine_options *o, struct err *e) {
        struct engine *engine = NULL;
        sigset_t all, old;
        int r = engine_new(&engine, o, e);

        if (r < 0)
                return r;
        /* For options.progress, which may look for those that are pending. */
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, &old);
        r = open_parts(engine, e);
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        engine->o.progress = NULL; /* these options belong to the caller */
        engine->o.fingerprint = engine->o.chat_format = NULL;
        engine->o.register_uri = NULL;
        engine->o.address = engine->o.socket = NULL;
        engine->o.remote.uri = engine->o.remote.user = NULL;
        engine->o.remote.password = engine->o.remote.ca_file = NULL;
        if (r < 0) {
                engine_free(engine);
                return r;
        }
        *ret = engine;
        return 0;
}

/* --- closing --- */

struct engine *engine_free(struct engine *engine) {
        struct front *f;

        if (!engine)
                return NULL;
        f = engine->front;
        if (f->thread_started) {
                thread_stop(engine, true);
                pthread_join(f->thread, NULL);
        }
        io_stop(engine);
        if (engine->store)
                store_listen(engine->store, NULL); /* what it tells of is freed before the store */
        convs_unload_all(engine);
        if (f->stopped)
                engine_event_free(&f->stopped->ev);
        outbox_free(engine->outbox);
        notices_free(engine->notices);
        meters_free(engine->meters);
        desk_free(engine->desk);
        run_free(engine->run);
        verb_state_free(engine->verbs);
        convs_free(engine->convs);
        memory_free(engine->memory);
        seq_pool_free(engine->pool);
        if (f->thread_started)
                codec_remember(engine);
        remote_free(engine->remote);
        spill_free(engine->spill);
        store_free(engine->store);
        leases_free(f->leases);
        disk_free(engine->disk);
        far_free(engine->far);
        workers_free(engine->workers);
        chat_free(engine->chat);
        tok_free(engine->tok);
        model_free(engine->model);
        kern_free(engine->kern);
        gguf_free(engine->gguf);
        bell_free(engine->bell);
        free(engine->budget);
        free(engine->eog);
        free(engine->model_path);
        free(engine->state_dir);
        closep(&f->lock_fd);
        pthread_mutex_destroy(&f->lock);
        free(f);
        free(engine);
        return NULL;
}
