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
        struct engine *en, bool sleep, uint64_t due, struct list *inbox, struct list *done) {
        struct timespec until;

        pthread_mutex_lock(&en->lock);
        if (sleep && !en->signalled) {
                clock_gettime(CLOCK_MONOTONIC, &until);
                until.tv_sec += IDLE_SEC;
                if (due < (uint64_t)until.tv_sec * 1000000 + (uint64_t)until.tv_nsec / 1000)
                        until = (struct timespec){
                                (time_t)(due / 1000000), (long)(due % 1000000 * 1000)};
                pthread_cond_timedwait(&en->wake, &en->lock, &until);
        }
        en->signalled = false;
        list_move_all(inbox, &en->inbox);
        list_move_all(done, &en->io_done);
        en->stopping = en->stop_asked;
        pthread_mutex_unlock(&en->lock);
}

/* While stopping: what waits or generates ends with what it has. */
static void stop_requests(struct engine *en) {
        struct list *it;

        list_for_each (it, &en->queue)
                atomic_store(&list_entry(it, struct ereq, link)->cancel, true);
        list_for_each (it, &en->active)
                atomic_store(&list_entry(it, struct ereq, link)->cancel, true);
        pthread_mutex_lock(&en->lock);
        list_for_each (it, &en->requests)
                if (list_entry(it, struct ereq, all)->transfer)
                        atomic_store(&list_entry(it, struct ereq, all)->cancel, true);
        pthread_mutex_unlock(&en->lock);
}

/* With no request left: write what is dirty. True when all is done. */
static bool stop_spill(struct engine *en) {
        bool abandon, busy;

        pthread_mutex_lock(&en->lock);
        abandon = en->abandon;
        busy = en->n_requests > 0;
        pthread_mutex_unlock(&en->lock);
        if (busy || en->n_jobs > 0)
                return false;
        if (abandon)
                return true;
        for (;;) {
                enum room room = residency_make_room(en);

                if (room == ROOM_NEVER)
                        return true;
                if (room == ROOM_LATER)
                        return false;
        }
}

static void *engine_main(void *arg) {
        struct engine *en = arg;
        uint64_t due = UINT64_MAX;
        bool sleep = false;

        for (;;) {
                struct list inbox, done;

                wait_for_work(en, sleep, due, &inbox, &done);
                en->again = false;
                while (!list_empty(&done)) {
                        struct job *j = list_entry(done.next, struct job, link);

                        list_unlink(&j->link);
                        en->n_jobs--;
                        j->done(en, j);
                        en->again = true;
                }
                while (!list_empty(&inbox)) {
                        struct ereq *rq = list_entry(inbox.next, struct ereq, link);

                        list_unlink(&rq->link);
                        verb_start(en, rq);
                        en->again = true;
                }
                verb_turns(en);
                if (en->stopping)
                        stop_requests(en);
                register_take_cuts(en);
                en->shrinking = budget_step(en); /* what it waits for wakes us */
                if (sched_step(en))
                        en->again = true;
                due = writebehind_step(en);
                due = MIN(due, budget_spare(en));
                due = MIN(due, register_step(en));
                atomic_fetch_add(&en->heartbeat, 1);
                if (en->stopping && stop_spill(en))
                        break;
                sleep = !en->again;
        }
        engine_event_send(en, TAKE_PTR(en->stopped));
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

const char *engine_kv_name(const struct engine *en) {
        return kv_types[en->o.kv_type].name;
}

int engine_tell(struct engine *en, const struct engine_opening *o, struct err *e) {
        if (!en->o.progress || en->o.progress(en->o.progress_arg, o) == 0)
                return 0;
        return err_set(e, ERR_CANCELLED, "starting was broken off");
}

static int load_model(struct engine *en, struct err *e) {
        struct model_options mo = {
                .kv_type = kv_types[en->o.kv_type].type, .context = en->o.context};
        struct gguf_str template = {0};
        enum kern_isa isa = en->o.max_isa < KERN_N_ISA ? (enum kern_isa)en->o.max_isa : KERN_N_ISA;
        unsigned threads =
                en->o.n_threads ? en->o.n_threads : MIN(machine_cpus(NULL), MOST_THREADS);
        int r;

        r = gguf_open(&en->gguf, en->model_path, e);
        if (r < 0)
                return r; /* it names the file itself */
        r = kern_new(&en->kern, threads, isa, e);
        if (r == 0)
                r = identity_open_model(en, &mo, e);
        if (r == 0)
                r = tok_new(&en->tok, en->gguf, e);
        if (r == 0)
                r = gguf_get_str(en->gguf, "tokenizer.chat_template", &template, e);
        if (r >= 0)
                r = chat_new(&en->chat, en->tok, template.data, template.size, e);
        if (r < 0)
                return err_wrap(e, r, "%s", en->model_path);
        model_info(en->model, &en->info);
        if (tok_n_vocab(en->tok) != en->info.n_vocab)
                return err_set(e, ERR_FORMAT, "%s: the tokenizer has %u tokens, the model %u",
                        en->model_path, tok_n_vocab(en->tok), en->info.n_vocab);
        snprintf(en->tokenizer_name, sizeof(en->tokenizer_name), "%s%s%s", tok_model_name(en->tok),
                tok_pre_name(en->tok)[0] ? "/" : "", tok_pre_name(en->tok));
        return 0;
}

/* What the tokens mean, and which of them end a reply. */
static int scan_vocabulary(struct engine *en, struct err *e) {
        struct hash64 h;

        hash64_init(&h, en->info.n_vocab);
        en->eog = calloc(en->info.n_vocab, sizeof(*en->eog));
        if (!en->eog)
                return err_set(e, ERR_NOMEM, "no memory for the vocabulary");
        for (uint32_t i = 0; i < en->info.n_vocab; i++) {
                size_t n;
                const char *text = tok_text(en->tok, (int32_t)i, &n);
                uint64_t size = n;

                hash64_update(&h, &size, sizeof(size));
                hash64_update(&h, text, n);
                en->max_piece = MAX(en->max_piece, n);
                if (tok_is_eog(en->tok, (int32_t)i))
                        en->eog[en->n_eog++] = (int32_t)i;
        }
        en->vocab_hash = hash64_digest(&h);
        return 0;
}

static int open_memory(struct engine *en, struct err *e) {
        uint32_t max_tokens = MAX(en->o.batch_tokens, en->o.max_active);
        int r;

        r = seq_pool_new(&en->pool, &en->ledger, en->info.block_size, en->info.block_tokens, e);
        if (r < 0)
                return r;
        en->slot_size = seq_pool_slot_size(en->pool);
        r = budget_open(en, e);
        if (r == 0)
                r = seq_index_new(&en->index, en->pool, &en->index_ledger, e);
        if (r == 0)
                r = model_work_new(&en->work, en->model, en->kern, max_tokens, en->o.max_active, e);
        if (r == 0)
                r = sample_work_new(&en->sampler, en->info.n_vocab, e);
        if (r < 0)
                return r;
        en->batch = calloc(max_tokens, sizeof(*en->batch));
        en->batch_rows = calloc(en->o.max_active, sizeof(struct ereq *));
        if (!en->batch || !en->batch_rows)
                return err_set(e, ERR_NOMEM, "no memory for a batch");
        return 0;
}

static int lock_state(struct engine *en, struct err *e) {
        char path[4096];
        _cleanup_(closep) int dir_fd = -1;
        int r = file_mkdir_p(en->state_dir, 0700, e);

        if (r < 0)
                return r;
        /* A link to it is fine: systemd makes one for DynamicUser=. */
        dir_fd = open(en->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir_fd < 0)
                return err_set(e, ERR_SYS, "cannot open the state folder '%s'", en->state_dir);
        r = file_check_own_folder(dir_fd, en->state_dir, e);
        if (r < 0)
                return r;
        snprintf(path, sizeof(path), "%s/lock", en->state_dir);
        en->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (en->lock_fd < 0)
                return err_set(e, ERR_SYS, "cannot open '%s'", path);
        if (flock(en->lock_fd, LOCK_EX | LOCK_NB) == 0)
                return 0;
        if (errno != EWOULDBLOCK)
                return err_set(e, ERR_SYS, "cannot lock '%s'", path);
        return err_set(
                e, ERR_BUSY, "the state folder '%s' is in use by another daemon", en->state_dir);
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
static int open_store(struct engine *en, const char *path, const char *spill_dir, struct err *e) {
        bool fresh = !has_spill_files(spill_dir);
        int r = register_open(en, path, fresh, e);

        if (r == -ERR_STATE && !fresh)
                err_wrap(e, r,
                        "there are spill files, but not their register (put a copy of it back, or "
                        "remove the folder '%s' to begin anew)",
                        spill_dir);
        return r;
}

/* A record that isn't where it should be fails again when its conversation is restored, and is
 * forgotten there. One line tells of all. */
static void adopt_records(struct engine *en, const struct store_gone *records) {
        struct err why, first;
        size_t n_bad = 0;

        for (size_t i = 0; i < records->n; i++) {
                const struct store_record *s = &records->records[i];
                struct spill_ref ref = {
                        s->file_key, s->offset, s->stored_size, s->raw_size, s->uid};

                if (spill_adopt(en->spill, &ref, &why) < 0 && n_bad++ == 0)
                        first = why;
        }
        if (n_bad == 0)
                return;
        err_set(&why, first.code, "%zu of %zu spill records cannot be used, the first: %s", n_bad,
                records->n, first.msg);
        engine_event_log(en, LOG_WARNING, &why);
}

struct spill_options engine_spill_options(struct engine *en) {
        return (struct spill_options){.fingerprint = en->info.fingerprint,
                .max_raw_size = en->info.block_size,
                .layout = layout_of(en),
                .max_disk_size = en->o.disk_limit,
                .max_disk_size_per_owner = en->o.disk_limit_per_uid,
                .max_written_per_day = en->o.disk_writes_per_day,
                .min_free_size = en->o.disk_floor,
                .codec = en->o.spill_codec == UINT32_MAX ? SPILL_CODEC_KV : en->o.spill_codec,
                .ring_size = ledger_budget(&en->ledger) / RINGS_PART / io_n_workers() + 1};
}

/* Before the model, because it remembers the hash of the weights. */
static int open_register(struct engine *en, struct err *e) {
        const struct engine_opening now = {.stage = ENGINE_STAGE_REGISTER};
        char path[4096], spill_dir[4096];
        int r;

        snprintf(path, sizeof(path), "%s/register.db", en->state_dir);
        snprintf(spill_dir, sizeof(spill_dir), "%s/spill", en->state_dir);
        r = engine_tell(en, &now, e);
        return r < 0 ? r : open_store(en, path, spill_dir, e);
}

/* Register and spill files must agree: adopt what the register knows, sweep the rest. */
static int open_spill(struct engine *en, struct err *e) {
        const struct engine_opening now = {.stage = ENGINE_STAGE_SPILL};
        struct spill_options so = engine_spill_options(en);
        struct store_gone records = {0};
        char spill_dir[4096];
        struct err why;
        int r;

        snprintf(spill_dir, sizeof(spill_dir), "%s/spill", en->state_dir);
        r = engine_tell(en, &now, e);
        if (r == 0)
                r = write_meters_read(en, &so.written_today, &so.day, e);
        if (r == 0)
                r = spill_open(&en->spill, spill_dir, &so, e);
        if (r == 0)
                r = budget_set_scratch(en, io_n_workers() * spill_scratch_size(en->spill), e);
        if (r == 0)
                r = store_records(en->store, &records, e);
        if (r < 0)
                return r;
        adopt_records(en, &records);
        store_gone_deinit(&records);
        /* A file that can't be swept only takes up space: no reason not to start (I1). */
        if (spill_sweep(en->spill, NULL, &why) < 0)
                engine_event_log(en, LOG_WARNING, &why);
        return 0;
}

int engine_load(struct engine *en, struct err *e) {
        int r = load_model(en, e);

        if (r == 0)
                r = identity_check(en, e);
        if (r == 0)
                r = scan_vocabulary(en, e);
        if (r == 0)
                r = layout_make(en, e);
        if (r == 0)
                r = open_memory(en, e);
        return r;
}

static int open_parts(struct engine *en, struct err *e) {
        int r = lock_state(en, e);

        if (r == 0)
                r = map_new(&en->convs, e);
        if (r == 0)
                r = map_new(&en->recs, e);
        if (r == 0)
                r = map_new(&en->damaged, e);
        if (r == 0)
                r = map_new(&en->by_handle, e);
        if (r == 0)
                r = map_new(&en->usage, e);
        if (r == 0)
                r = open_register(en, e);
        if (r == 0)
                r = engine_load(en, e);
        if (r == 0)
                r = open_spill(en, e);
        if (r == 0)
                r = io_start(en, e);
        if (r == 0 && pthread_create(&en->thread, NULL, engine_main, en) != 0)
                r = err_set(e, ERR_NOMEM, "cannot start the engine thread");
        if (r == 0)
                en->thread_started = true;
        return r;
}

static void init_shared(struct engine *en) {
        pthread_condattr_t attr;

        pthread_condattr_init(&attr);
        pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        pthread_mutex_init(&en->lock, NULL);
        pthread_cond_init(&en->wake, &attr);
        pthread_mutex_init(&en->io_lock, NULL);
        pthread_cond_init(&en->io_wake, NULL);
        pthread_cond_init(&en->text_wake, NULL);
        pthread_mutex_init(&en->create_lock, NULL);
        pthread_condattr_destroy(&attr);
        list_init(&en->idle);
        list_init(&en->loading);
        list_init(&en->queue);
        list_init(&en->active);
        list_init(&en->users);
        list_init(&en->inbox);
        list_init(&en->io_done);
        list_init(&en->requests);
        list_init(&en->events);
        for (size_t i = 0; i < N_JOB_KINDS; i++)
                list_init(&en->io_queues[i]);
        list_init(&en->dirty);
        list_init(&en->turns);
        list_init(&en->evict_waiting);
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
        struct engine *en;
        int r = check_options(o, e);

        if (r < 0)
                return r;
        en = calloc(1, sizeof(*en));
        if (!en)
                return err_set(e, ERR_NOMEM, "no memory for the engine");
        init_shared(en);
        en->o = *o;
        en->lock_fd = en->reserve_fd = -1;
        en->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        en->model_path = strdup(o->model_path);
        en->state_dir = strdup(o->state_dir);
        en->event_home = event_home_new(en);
        if (en->event_home)
                en->stopped = event_new_of(en, NULL, 0, ENGINE_STOPPED, false);
        if (en->event_fd < 0)
                r = err_set(e, ERR_SYS, "cannot make an eventfd");
        else if (!en->model_path || !en->state_dir || !en->stopped)
                r = err_set(e, ERR_NOMEM, "no memory for the engine");
        if (r < 0) {
                engine_free(en);
                return r;
        }
        *ret = en;
        return 0;
}

int engine_open(struct engine **ret, const struct engine_options *o, struct err *e) {
        struct engine *en = NULL;
        sigset_t all, old;
        int r = engine_new(&en, o, e);

        if (r < 0)
                return r;
        /* Signals are the loop thread's business. */
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, &old);
        r = open_parts(en, e);
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        en->o.progress = NULL; /* and the fingerprint: the caller need not keep them */
        en->o.fingerprint = NULL;
        if (r < 0) {
                engine_free(en);
                return r;
        }
        *ret = en;
        return 0;
}

/* --- closing --- */

void engine_stop(struct engine *en) {
        pthread_mutex_lock(&en->lock);
        en->stop_asked = true;
        en->signalled = true;
        pthread_cond_signal(&en->wake);
        pthread_mutex_unlock(&en->lock);
}

static void free_convs(struct engine *en) {
        for (;;) {
                size_t it = 0;
                struct conv *c = en->convs ? map_next(en->convs, &it) : NULL;

                if (!c)
                        return;
                conv_unload(en, c);
        }
}

/* Those that were kept beyond their last request. */
static void free_users(struct engine *en) {
        size_t it = 0;
        struct usage *u;

        while (en->usage && (u = map_next(en->usage, &it)))
                free(u);
}

struct engine *engine_free(struct engine *en) {
        struct engine_event *ev;

        if (!en)
                return NULL;
        if (en->thread_started) {
                pthread_mutex_lock(&en->lock);
                en->stop_asked = en->abandon = en->signalled = true;
                pthread_cond_signal(&en->wake);
                pthread_mutex_unlock(&en->lock);
                pthread_join(en->thread, NULL);
        }
        io_stop(en);
        free_convs(en);
        while ((ev = engine_next_event(en)))
                engine_event_free(ev);
        if (en->stopped)
                engine_event_free(&en->stopped->ev);
        event_home_leave(en->event_home);
        map_free(en->convs);
        map_free(en->recs);
        map_free(en->damaged);
        map_free(en->by_handle);
        free_users(en);
        map_free(en->usage);
        seq_index_free(en->index);
        seq_pool_free(en->pool);
        model_work_free(en->work);
        sample_work_free(en->sampler);
        free(en->batch);
        free(en->batch_rows);
        spill_free(en->spill);
        store_free(en->store);
        chat_free(en->chat);
        tok_free(en->tok);
        model_free(en->model);
        kern_free(en->kern);
        gguf_free(en->gguf);
        free(en->eog);
        free(en->arrays);
        free(en->section_ends);
        free(en->layer_section);
        free(en->model_path);
        free(en->state_dir);
        free(en->cuts);
        closep(&en->reserve_fd);
        closep(&en->lock_fd);
        if (en->event_fd >= 0)
                close(en->event_fd);
        pthread_mutex_destroy(&en->lock);
        pthread_cond_destroy(&en->wake);
        pthread_mutex_destroy(&en->io_lock);
        pthread_cond_destroy(&en->io_wake);
        pthread_cond_destroy(&en->text_wake);
        pthread_mutex_destroy(&en->create_lock);
        free(en);
        return NULL;
}

uint64_t engine_heartbeat(struct engine *en) {
        return atomic_load(&en->heartbeat);
}
