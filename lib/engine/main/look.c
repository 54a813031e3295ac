/* SPDX-License-Identifier: MIT */
/*
 * Looking: finding out what engine_open() would do. The same code runs, as far as it changes
 * nothing. The model is loaded and the budget is divided; the state folder is only read.
 *
 * The register is read under a shared lock on the state folder's lock file, so that no engine can
 * begin to use it meanwhile. The lock is released before the weights are read, which may take
 * minutes: it must not stop a daemon from starting then.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/machine.h"
#include "chat/chat.h"
#include "gguf/gguf.h"
#include "kern/kern.h"
#include "engine/main/main.h"
#include "remote/remote.h"

/* @path: NULL for a register on a server. */
static int read_register(struct engine *engine, const char *path, struct err *e) {
        struct err why;
        int r = path ? store_open_readonly(&engine->store, path, &why)
                     : register_open_server(engine, true, &why);

        if (r == -ERR_STATE) {
                /* A server without tables gets them at the first start. */
                engine->front->register_state = path ? ENGINE_REGISTER_OLD : ENGINE_REGISTER_NONE;
                return 0;
        }
        if (r < 0 && e)
                *e = why;
        if (r < 0)
                return r;
        engine->front->register_state = ENGINE_REGISTER_READ;
        r = codec_meters_read(engine->store, &engine->front->looked_meters, e);
        if (r < 0)
                return r;
        return store_conv_count(engine->store, OWNER_ANY, &engine->front->n_looked, e);
}

static int look_at_register(struct engine *engine, struct err *e) {
        char path[4096], spill_dir[4096];
        int r;

        snprintf(spill_dir, sizeof(spill_dir), "%s/spill", engine->state_dir);
        snprintf(path, sizeof(path), "%s/lock", engine->state_dir);
        engine->front->register_state = ENGINE_REGISTER_NONE;
        engine->front->lock_fd = open(path, O_RDONLY | O_CLOEXEC);
        if (engine->front->lock_fd < 0 && errno != ENOENT)
                return err_set(e, ERR_SYS, "cannot open '%s'", path);
        if (engine->front->lock_fd >= 0 && flock(engine->front->lock_fd, LOCK_SH | LOCK_NB) < 0) {
                engine->front->register_state = ENGINE_REGISTER_BUSY;
                return 0;
        }
        if (engine->o.register_uri)
                return read_register(engine, NULL, e);
        snprintf(path, sizeof(path), "%s/register.db", engine->state_dir);
        r = engine_check_register(path, spill_dir, e);
        if (r < 0)
                return r;
        if (access(path, F_OK) < 0 && errno == ENOENT)
                return 0;
        return read_register(engine, path, e);
}

static int look_at_spill(struct engine *engine, struct err *e) {
        struct spill_options so = engine_spill_options(engine);
        size_t n;
        int r = spill_scratch_size_for(&so, &n, e);

        so.figures = engine->front->looked_meters.figures;
        so.last_codec = engine->front->looked_meters.last_codec;
        if (r == 0)
                r = spill_choice_for(&so, &engine->front->looked_choice, e);
        return r < 0 ? r : budget_set_scratch(engine->budget, io_n_scratch(engine) * n, e);
}

/* As far_open() will; without the sizes, which are known when memory is. A server that can't be used is no reason not to start. */
static int look_at_remote(struct engine *engine, struct err *e) {
        const struct engine_remote_options *o = &engine->o.remote;
        const struct remote_options options = {.uri = o->uri,
                .user = o->user,
                .password = o->password,
                .ca_file = o->ca_file,
                .timeout_usec = o->timeout_usec,
                .max_value_size = 1};
        const struct remote_key none = {"confab:none"};
        _cleanup_(remote_freep) struct remote *remote = NULL;
        bool there;
        int r;

        if (!o->uri)
                return 0;
        r = remote_open(&remote, &options, e);
        if (r < 0)
                return err_wrap(e, r, "remote");
        (void)remote_touch(remote, &none, 1, o->keep_sec, &there,
                clock_monotonic_usec() + 5 * o->timeout_usec, &engine->front->looked_remote);
        return 0;
}

int engine_look(struct engine **ret, const struct engine_options *o, struct err *e) {
        _cleanup_(engine_freep) struct engine *engine = NULL;
        int r = engine_new(&engine, o, e);

        if (r < 0)
                return r;
        engine->front->looking = true;
        engine->front->looked_meters.last_codec = SPILL_CODEC_AUTO;
        r = look_at_remote(engine, e);
        if (r == 0)
                r = look_at_register(engine, e);
        if (r == 0)
                r = engine_load(engine, e);
        if (r == 0)
                r = look_at_spill(engine, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(engine);
        return 0;
}

void engine_view(struct engine *engine, struct engine_view *ret) {
        const struct seq_shape *shape = &engine->info.shape;

        assert(engine->front->looking); /* else the engine thread changes the budget meanwhile */
        *ret = (struct engine_view){.file_size = gguf_file_size(engine->gguf),
                .ram_size = machine_ram(NULL),
                .remembered = engine->front->remembered,
                .token_size = shape->size[SEQ_ALL] / shape->block_tokens,
                .window_token_size = shape->size[SEQ_WINDOW] / shape->block_tokens,
                .budget = ledger_budget(&engine->budget->ledger),
                .most_tokens = memory_room(
                        engine, budget_capacity_most(engine->budget), engine->info.context),
                .n_threads = kern_n_threads(engine->kern),
                .register_state = engine->front->register_state,
                .n_conversations = engine->front->n_looked,
                .codec = codec_tell(&engine->front->looked_choice),
                .remote = engine->front->looked_remote};
        engine_describe_model(engine, &ret->model);
}

const char *engine_view_difference(const struct engine *engine, size_t i) {
        return chat_difference(engine->chat, i);
}
