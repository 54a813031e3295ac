/* SPDX-License-Identifier: MIT */
/*
 * The engine: opening, the engine thread, and what the loop thread calls.
 *
 * Who owns what:
 * - The loop thread (the caller) submits copies of requests and takes events; it touches nothing
 * else.
 * - The engine thread owns model, sequences, pool, loaded conversations and all requests after
 * submission.
 * - I/O workers own spill files and register while a job runs (io.c); another thread tokenises what
 * is long (text.c).
 * They meet in struct engine's part under `lock`: inbox, finished jobs, outgoing events.
 *
 * Life of a request: submit → inbox → verb_start → (jobs, queue, steps) → final event, freed. It is
 * counted in n_requests from the first to the last. The thread ends when it was asked to stop and
 * no request, no job and (unless abandoned) no memory that is not on disk is left.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/machine.h"
#include "engine/internal.h"

#define RINGS_PART 16      /* of the budget, for what the I/O workers read into */
#define MOST_THREADS 1024u /* that "auto" takes: what lib/kern takes */
#define IDLE_SEC 1         /* between heartbeats of an engine without work */

/* --- the engine thread --- */

/* Sleep until something happens, or until @due (clock_monotonic_usec()), unless a step may go on.
 */
static void wait_for_work(
        struct engine *engine, bool sleep, uint64_t due, struct list *inbox, struct list *done) {
        struct timespec until;

        pthread_mutex_lock(&engine->lock);
        if (sleep && !engine->signalled) {
                clock_gettime(CLOCK_MONOTONIC, &until);
                until.tv_sec += IDLE_SEC;
                if (due < (uint64_t)until.tv_sec * 1000000 + (uint64_t)until.tv_nsec / 1000)
                        until = (struct timespec){
                                (time_t)(due / 1000000), (long)(due % 1000000 * 1000)};
                pthread_cond_timedwait(&engine->wake, &engine->lock, &until);
        }
        engine->signalled = false;
        list_move_all(inbox, &engine->inbox);
        list_move_all(done, &engine->io_done);
        engine->stopping = engine->stop_asked;
        pthread_mutex_unlock(&engine->lock);
}

/* While stopping: what waits or generates ends with what it has. */
static void stop_requests(struct engine *engine) {
        struct list *it;

        list_for_each (it, &engine->queue)
                atomic_store(&list_entry(it, struct request, link)->cancel, true);
        list_for_each (it, &engine->active)
                atomic_store(&list_entry(it, struct request, link)->cancel, true);
        pthread_mutex_lock(&engine->lock);
        list_for_each (it, &engine->requests)
                if (list_entry(it, struct request, all)->transfer)
                        atomic_store(&list_entry(it, struct request, all)->cancel, true);
        pthread_mutex_unlock(&engine->lock);
}

/* With no request left: write what is dirty. True when all is done. */
static bool stop_spill(struct engine *engine) {
        bool abandon, busy;

        pthread_mutex_lock(&engine->lock);
        abandon = engine->abandon;
        busy = engine->n_requests > 0;
        pthread_mutex_unlock(&engine->lock);
        if (busy || engine->n_jobs > 0)
                return false;
        if (abandon)
                return true;
        for (;;) {
                enum room room = residency_make_room(engine);

                if (room == ROOM_NEVER)
                        return true;
                if (room == ROOM_LATER)
                        return false;
        }
}

static void *engine_main(void *arg) {
        struct engine *engine = arg;
        uint64_t due = UINT64_MAX;
        bool sleep = false;

        for (;;) {
                struct list inbox, done;

                wait_for_work(engine, sleep, due, &inbox, &done);
                engine->again = false;
                while (!list_empty(&done)) {
                        struct job *j = list_entry(done.next, struct job, link);

                        list_unlink(&j->link);
                        engine->n_jobs--;
                        j->done(engine, j);
                        engine->again = true;
                }
                while (!list_empty(&inbox)) {
                        struct request *request = list_entry(inbox.next, struct request, link);

                        list_unlink(&request->link);
                        verb_start(engine, request);
                        engine->again = true;
                }
                verb_turns(engine);
                if (engine->stopping)
                        stop_requests(engine);
                register_take_cuts(engine);
                engine->shrinking = budget_step(engine); /* what it waits for wakes us */
                if (sched_step(engine))
                        engine->again = true;
                due = writebehind_step(engine);
                due = MIN(due, budget_spare(engine));
                due = MIN(due, register_step(engine));
                atomic_fetch_add(&engine->heartbeat, 1);
                if (engine->stopping && stop_spill(engine))
                        break;
                sleep = !engine->again;
        }
        engine_event_send(engine, TAKE_PTR(engine->stopped));
        return NULL;
}

/* --- opening --- */

/* By enum engine_kv. */
static const struct {
        const char *name;
        enum kern_kv_type type;
} kv_types[] = {
        [ENGINE_KV_F16] = {"f16", KERN_KV_F16},
        [ENGINE_KV_F32] = {"f32", KERN_KV_F32},
        [ENGINE_KV_Q8_0] = {"q8_0", KERN_KV_Q8_0},
};

const char *engine_kv_name(const struct engine *engine) {
        return kv_types[engine->o.kv_type].name;
}

int engine_tell(struct engine *engine, const struct engine_opening *o, struct err *e) {
        if (!engine->o.progress || engine->o.progress(engine->o.progress_arg, o) == 0)
                return 0;
        return err_set(e, ERR_CANCELLED, "starting was broken off");
}

static int load_model(struct engine *engine, struct err *e) {
        struct model_options mo = {
                .kv_type = kv_types[engine->o.kv_type].type, .context = engine->o.context};
        struct gguf_str template = {0};
        enum kern_isa isa =
                engine->o.max_isa < KERN_N_ISA ? (enum kern_isa)engine->o.max_isa : KERN_N_ISA;
        unsigned threads =
                engine->o.n_threads ? engine->o.n_threads : MIN(machine_cpus(NULL), MOST_THREADS);
        int r;

        r = gguf_open(&engine->gguf, engine->model_path, e);
        if (r < 0)
                return r; /* it names the file itself */
        r = kern_new(&engine->kern, threads, isa, e);
        if (r == 0)
                r = identity_open_model(engine, &mo, e);
        if (r == 0)
                r = tok_new(&engine->tok, engine->gguf, e);
        if (r == 0)
                r = gguf_get_str(engine->gguf, "tokenizer.chat_template", &template, e);
        if (r >= 0)
                r = chat_new(&engine->chat, engine->tok, template.data, template.size, e);
        if (r < 0)
                return err_wrap(e, r, "%s", engine->model_path);
        model_info(engine->model, &engine->info);
        if (tok_n_vocab(engine->tok) != engine->info.n_vocab)
                return err_set(e, ERR_FORMAT, "%s: the tokenizer has %u tokens, the model %u",
                        engine->model_path, tok_n_vocab(engine->tok), engine->info.n_vocab);
        snprintf(engine->tokenizer_name, sizeof(engine->tokenizer_name), "%s%s%s",
                tok_model_name(engine->tok), tok_pre_name(engine->tok)[0] ? "/" : "",
                tok_pre_name(engine->tok));
        return 0;
}

/* What the tokens mean, and which of them end a reply. */
static int scan_vocabulary(struct engine *engine, struct err *e) {
        struct hash64 h;

        hash64_init(&h, engine->info.n_vocab);
        engine->eog = calloc(engine->info.n_vocab, sizeof(*engine->eog));
        if (!engine->eog)
                return err_set(e, ERR_NOMEM, "no memory for the vocabulary");
        for (uint32_t i = 0; i < engine->info.n_vocab; i++) {
                size_t n;
                const char *text = tok_text(engine->tok, (int32_t)i, &n);
                uint64_t size = n;

                hash64_update(&h, &size, sizeof(size));
                hash64_update(&h, text, n);
                engine->max_piece = MAX(engine->max_piece, n);
                if (tok_is_eog(engine->tok, (int32_t)i))
                        engine->eog[engine->n_eog++] = (int32_t)i;
        }
        engine->vocab_hash = hash64_digest(&h);
        return 0;
}

static int open_memory(struct engine *engine, struct err *e) {
        uint32_t max_tokens = MAX(engine->o.batch_tokens, engine->o.max_active);
        int r;

        r = seq_pool_new(&engine->pool, &engine->ledger, engine->info.block_size,
                engine->info.block_tokens, e);
        if (r < 0)
                return r;
        engine->slot_size = seq_pool_slot_size(engine->pool);
        r = budget_open(engine, e);
        if (r == 0)
                r = seq_index_new(&engine->index, engine->pool, &engine->index_ledger, e);
        if (r == 0)
                r = model_work_new(&engine->work, engine->model, engine->kern, max_tokens,
                        engine->o.max_active, e);
        if (r == 0)
                r = sample_work_new(&engine->sampler, engine->info.n_vocab, e);
        if (r < 0)
                return r;
        engine->batch = calloc(max_tokens, sizeof(*engine->batch));
        engine->batch_rows = calloc(engine->o.max_active, sizeof(struct request *));
        if (!engine->batch || !engine->batch_rows)
                return err_set(e, ERR_NOMEM, "no memory for a batch");
        return 0;
}

static int lock_state(struct engine *engine, struct err *e) {
        char path[4096];
        _cleanup_(closep) int dir_fd = -1;
        int r = file_mkdir_p(engine->state_dir, 0700, e);

        if (r < 0)
                return r;
        /* A link to it is fine: systemd makes one for DynamicUser=. */
        dir_fd = open(engine->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir_fd < 0)
                return err_set(e, ERR_SYS, "cannot open the state folder '%s'", engine->state_dir);
        r = file_check_own_folder(dir_fd, engine->state_dir, e);
        if (r < 0)
                return r;
        snprintf(path, sizeof(path), "%s/lock", engine->state_dir);
        engine->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (engine->lock_fd < 0)
                return err_set(e, ERR_SYS, "cannot open '%s'", path);
        if (flock(engine->lock_fd, LOCK_EX | LOCK_NB) == 0)
                return 0;
        if (errno != EWOULDBLOCK)
                return err_set(e, ERR_SYS, "cannot lock '%s'", path);
        return err_set(e, ERR_BUSY, "the state folder '%s' is in use by another daemon",
                engine->state_dir);
}

static bool has_spill_files(const char *spill_dir) {
        struct dirent *d;
        bool found = false;
        DIR *dir = opendir(spill_dir);

        if (!dir)
                return false; /* a new folder; anything else is told by spill_open() */
        while (!found && (d = readdir(dir))) {
                size_t n = strlen(d->d_name);

                found = n > 3 && strcmp(d->d_name + n - 3, ".kv") == 0;
        }
        closedir(dir);
        return found;
}

int engine_check_register(const char *path, const char *spill_dir, struct err *e) {
        struct stat st;

        if (stat(path, &st) < 0 ? errno != ENOENT : st.st_size > 0)
                return 0; /* or it is told when it is opened */
        if (!has_spill_files(spill_dir))
                return 0;
        return err_set(e, ERR_STATE,
                "there are spill files, but the register '%s' is missing or empty (put a copy of "
                "it "
                "back, or remove the folder '%s' to begin anew)",
                path, spill_dir);
}

/* Beside spill files there were conversations: a register that is missing or empty was lost, and to
 * begin with a new one would sweep them all. */
static int open_store(
        struct engine *engine, const char *path, const char *spill_dir, struct err *e) {
        bool fresh = !has_spill_files(spill_dir);
        int r = register_open(engine, path, fresh, e);

        if (r == -ERR_STATE && !fresh)
                err_wrap(e, r,
                        "there are spill files, but not their register (put a copy of it back, or "
                        "remove the folder '%s' to begin anew)",
                        spill_dir);
        return r;
}

/* A record that isn't where it should be fails again when its conversation is restored, and is
 * forgotten there. One line tells of all. */
static void adopt_records(struct engine *engine, const struct store_gone *records) {
        struct err why, first;
        size_t n_bad = 0;

        for (size_t i = 0; i < records->n; i++) {
                const struct store_record *s = &records->records[i];
                struct spill_ref ref = {
                        s->file_key, s->offset, s->stored_size, s->raw_size, s->uid};

                if (spill_adopt(engine->spill, &ref, &why) < 0 && n_bad++ == 0)
                        first = why;
        }
        if (n_bad == 0)
                return;
        err_set(&why, first.code, "%zu of %zu spill records cannot be used, the first: %s", n_bad,
                records->n, first.msg);
        engine_event_log(engine, LOG_WARNING, &why);
}

struct spill_options engine_spill_options(struct engine *engine) {
        return (struct spill_options){.fingerprint = engine->info.fingerprint,
                .max_raw_size = engine->info.block_size,
                .layout = layout_of(engine),
                .max_disk_size = engine->o.disk_limit,
                .max_disk_size_per_owner = engine->o.disk_limit_per_uid,
                .max_written_per_day = engine->o.disk_writes_per_day,
                .min_free_size = engine->o.disk_floor,
                .codec = engine->o.spill_codec == UINT32_MAX ? SPILL_CODEC_KV
                                                             : engine->o.spill_codec,
                .ring_size = ledger_budget(&engine->ledger) / RINGS_PART / io_n_workers() + 1};
}

/* Before the model, because it remembers the hash of the weights. */
static int open_register(struct engine *engine, struct err *e) {
        const struct engine_opening now = {.stage = ENGINE_STAGE_REGISTER};
        char path[4096], spill_dir[4096];
        int r;

        snprintf(path, sizeof(path), "%s/register.db", engine->state_dir);
        snprintf(spill_dir, sizeof(spill_dir), "%s/spill", engine->state_dir);
        r = engine_tell(engine, &now, e);
        return r < 0 ? r : open_store(engine, path, spill_dir, e);
}

/* Register and spill files must agree: adopt what the register knows, sweep the rest. */
static int open_spill(struct engine *engine, struct err *e) {
        const struct engine_opening now = {.stage = ENGINE_STAGE_SPILL};
        struct spill_options so = engine_spill_options(engine);
        struct store_gone records = {0};
        char spill_dir[4096];
        struct err why;
        int r;

        snprintf(spill_dir, sizeof(spill_dir), "%s/spill", engine->state_dir);
        r = engine_tell(engine, &now, e);
        if (r == 0)
                r = write_meters_read(engine, &so.written_today, &so.day, e);
        if (r == 0)
                r = spill_open(&engine->spill, spill_dir, &so, e);
        if (r == 0)
                r = budget_set_scratch(
                        engine, io_n_workers() * spill_scratch_size(engine->spill), e);
        if (r == 0)
                r = store_records(engine->store, &records, e);
        if (r < 0)
                return r;
        adopt_records(engine, &records);
        store_gone_deinit(&records);
        /* A file that can't be swept only takes up space: no reason not to start (I1). */
        if (spill_sweep(engine->spill, NULL, &why) < 0)
                engine_event_log(engine, LOG_WARNING, &why);
        return 0;
}

int engine_load(struct engine *engine, struct err *e) {
        int r = load_model(engine, e);

        if (r == 0)
                r = identity_check(engine, e);
        if (r == 0)
                r = scan_vocabulary(engine, e);
        if (r == 0)
                r = layout_make(engine, e);
        if (r == 0)
                r = open_memory(engine, e);
        return r;
}

static int open_parts(struct engine *engine, struct err *e) {
        int r = lock_state(engine, e);

        if (r == 0)
                r = map_new(&engine->convs, e);
        if (r == 0)
                r = map_new(&engine->recs, e);
        if (r == 0)
                r = map_new(&engine->damaged, e);
        if (r == 0)
                r = map_new(&engine->by_handle, e);
        if (r == 0)
                r = map_new(&engine->usage, e);
        if (r == 0)
                r = open_register(engine, e);
        if (r == 0)
                r = engine_load(engine, e);
        if (r == 0)
                r = open_spill(engine, e);
        if (r == 0)
                r = io_start(engine, e);
        if (r == 0 && pthread_create(&engine->thread, NULL, engine_main, engine) != 0)
                r = err_set(e, ERR_NOMEM, "cannot start the engine thread");
        if (r == 0)
                engine->thread_started = true;
        return r;
}

static void init_shared(struct engine *engine) {
        pthread_condattr_t attr;

        pthread_condattr_init(&attr);
        pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        pthread_mutex_init(&engine->lock, NULL);
        pthread_cond_init(&engine->wake, &attr);
        pthread_mutex_init(&engine->io_lock, NULL);
        pthread_cond_init(&engine->io_wake, NULL);
        pthread_cond_init(&engine->text_wake, NULL);
        pthread_mutex_init(&engine->create_lock, NULL);
        pthread_condattr_destroy(&attr);
        list_init(&engine->idle);
        list_init(&engine->loading);
        list_init(&engine->queue);
        list_init(&engine->active);
        list_init(&engine->users);
        list_init(&engine->inbox);
        list_init(&engine->io_done);
        list_init(&engine->requests);
        list_init(&engine->events);
        for (size_t i = 0; i < N_JOB_KINDS; i++)
                list_init(&engine->io_queues[i]);
        list_init(&engine->dirty);
        list_init(&engine->turns);
        list_init(&engine->evict_waiting);
}

/* Numbers that pass from one module to another as they are. */
static_assert((int)ENGINE_ISA_GENERIC == KERN_GENERIC && (int)ENGINE_ISA_AVX2 == KERN_AVX2 &&
                      (int)ENGINE_ISA_AVX512 == KERN_AVX512,
        "instruction sets");
static_assert((int)ENGINE_SYSTEM == CHAT_SYSTEM && (int)ENGINE_USER == CHAT_USER &&
                      (int)ENGINE_ASSISTANT == CHAT_ASSISTANT && (int)ENGINE_RAW == CHAT_RAW,
        "roles");
static_assert(CHAT_N_ROLES == STORE_N_ROLES, "roles in the register");
static_assert((int)ENGINE_FINISH_CANCELLED + 1 == STORE_N_FINISHES, "reasons in the register");
static_assert(ENGINE_NAME_MAX == STORE_NAME_MAX, "names");

static int check_options(const struct engine_options *o, struct err *e) {
        if (o->max_active < 1 || o->max_active > ENGINE_MAX_ACTIVE)
                return err_set(e, ERR_INVALID, "max_active %u is not in 1..%d", o->max_active,
                        ENGINE_MAX_ACTIVE);
        if (o->batch_tokens < 1 || o->batch_tokens > ENGINE_MAX_BATCH)
                return err_set(e, ERR_INVALID, "batch_tokens %u is not in 1..%d", o->batch_tokens,
                        ENGINE_MAX_BATCH);
        if (o->kv_type > ENGINE_KV_Q8_0)
                return err_set(e, ERR_INVALID, "unknown kind %d of memory", (int)o->kv_type);
        if (!o->model_path || !o->state_dir)
                return err_set(e, ERR_INVALID, "a model file and a state folder are needed");
        if (strlen(o->state_dir) > 3900)
                return err_set(e, ERR_INVALID, "the state folder's path is too long");
        return 0;
}

int engine_new(struct engine **ret, const struct engine_options *o, struct err *e) {
        struct engine *engine;
        int r = check_options(o, e);

        if (r < 0)
                return r;
        engine = calloc(1, sizeof(*engine));
        if (!engine)
                return err_set(e, ERR_NOMEM, "no memory for the engine");
        init_shared(engine);
        engine->o = *o;
        engine->lock_fd = engine->reserve_fd = -1;
        engine->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        engine->model_path = strdup(o->model_path);
        engine->state_dir = strdup(o->state_dir);
        engine->event_home = event_home_new(engine);
        if (engine->event_home)
                engine->stopped = event_new_of(engine, NULL, 0, ENGINE_STOPPED, false);
        if (engine->event_fd < 0)
                r = err_set(e, ERR_SYS, "cannot make an eventfd");
        else if (!engine->model_path || !engine->state_dir || !engine->stopped)
                r = err_set(e, ERR_NOMEM, "no memory for the engine");
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
        /* Signals are the loop thread's business. */
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, &old);
        r = open_parts(engine, e);
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        engine->o.progress = NULL; /* and the fingerprint: the caller need not keep them */
        engine->o.fingerprint = NULL;
        if (r < 0) {
                engine_free(engine);
                return r;
        }
        *ret = engine;
        return 0;
}

/* --- closing --- */

void engine_stop(struct engine *engine) {
        pthread_mutex_lock(&engine->lock);
        engine->stop_asked = true;
        engine->signalled = true;
        pthread_cond_signal(&engine->wake);
        pthread_mutex_unlock(&engine->lock);
}

static void free_convs(struct engine *engine) {
        for (;;) {
                size_t it = 0;
                struct conv *c = engine->convs ? map_next(engine->convs, &it) : NULL;

                if (!c)
                        return;
                conv_unload(engine, c);
        }
}

/* Those that were kept beyond their last request. */
static void free_users(struct engine *engine) {
        size_t it = 0;
        struct usage *u;

        while (engine->usage && (u = map_next(engine->usage, &it)))
                free(u);
}

struct engine *engine_free(struct engine *engine) {
        struct engine_event *ev;

        if (!engine)
                return NULL;
        if (engine->thread_started) {
                pthread_mutex_lock(&engine->lock);
                engine->stop_asked = engine->abandon = engine->signalled = true;
                pthread_cond_signal(&engine->wake);
                pthread_mutex_unlock(&engine->lock);
                pthread_join(engine->thread, NULL);
        }
        io_stop(engine);
        free_convs(engine);
        while ((ev = engine_next_event(engine)))
                engine_event_free(ev);
        if (engine->stopped)
                engine_event_free(&engine->stopped->ev);
        event_home_leave(engine->event_home);
        map_free(engine->convs);
        map_free(engine->recs);
        map_free(engine->damaged);
        map_free(engine->by_handle);
        free_users(engine);
        map_free(engine->usage);
        seq_index_free(engine->index);
        seq_pool_free(engine->pool);
        model_work_free(engine->work);
        sample_work_free(engine->sampler);
        free(engine->batch);
        free(engine->batch_rows);
        spill_free(engine->spill);
        store_free(engine->store);
        chat_free(engine->chat);
        tok_free(engine->tok);
        model_free(engine->model);
        kern_free(engine->kern);
        gguf_free(engine->gguf);
        free(engine->eog);
        free(engine->arrays);
        free(engine->section_ends);
        free(engine->layer_section);
        free(engine->model_path);
        free(engine->state_dir);
        free(engine->cuts);
        closep(&engine->reserve_fd);
        closep(&engine->lock_fd);
        if (engine->event_fd >= 0)
                close(engine->event_fd);
        pthread_mutex_destroy(&engine->lock);
        pthread_cond_destroy(&engine->wake);
        pthread_mutex_destroy(&engine->io_lock);
        pthread_cond_destroy(&engine->io_wake);
        pthread_cond_destroy(&engine->text_wake);
        pthread_mutex_destroy(&engine->create_lock);
        free(engine);
        return NULL;
}

uint64_t engine_heartbeat(struct engine *engine) {
        return atomic_load(&engine->heartbeat);
}
