/* SPDX-License-Identifier: MIT */
/*
 * Carries out a program. Requests of a group are sent together and end in any order. Then each
 * conversation that they touched is compared with its expected state (its mirror), one by one;
 * after a start every conversation is.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/util.h"
#include "life.h"
#include "store/store.h"
#include "util/server-uri.h"

/* --- what is said --- */

static void make_text(char *text, size_t size, uint32_t t) {
        static const char *const words[] = {"the", "user", "in", "stone", "a", "seven", "bird",
                "re", "Ada", "sea", "out", "you"};
        size_t at = 0;

        for (uint32_t i = 0, n = 1 + t % 7; i < n && at + 8 < size; i++)
                at += (size_t)snprintf(text + at, size - at, "%s%s", i ? " " : "",
                        words[(t / (i + 1) + i * 5) % ARRAY_SIZE(words)]);
}

/* Some are the beginning of others; most are longer than a block or two. */
static const char *system_prompt(uint32_t t) {
        static const char *const prompts[] = {NULL,
                "You are the user of a stone in the sea, and the birds are out there in the south.",
                "You are the user of a stone in the sea, and the birds are out there in the south. "
                "Therefore the user is there in the south. The rest is in the sea.",
                "You are the user of a stone in the sea, and nothing else that anybody has heard "
                "of",
                "Short.", "You are the user of a stone in the sea, and the birds are",
                "Another thing altogether, so long that there are blocks of it that are like none "
                "of the others, and it ends here."};

        return prompts[t % ARRAY_SIZE(prompts)];
}

/* Few-shot headers that many conversations begin with, and a bit of their own. */
static size_t make_tokens(int32_t *tokens, uint32_t t) {
        static const uint32_t headers[] = {70, 40, 64, 3};
        uint32_t h = t % ARRAY_SIZE(headers), n = headers[h], own = t / 5;

        for (uint32_t i = 0; i < n; i++)
                tokens[i] = (int32_t)((h * 31 + i * i * 7) % 280) + 5;
        for (uint32_t i = 0; i < own; i++)
                tokens[n + i] = (int32_t)((t * 17 + i * 3) % 280) + 5;
        return n + own;
}

static struct sampling sampling_of(const struct op *op) {
        struct sampling s = {.has = SAMPLING_SEED | SAMPLING_TEMPERATURE,
                .seed = op->arg[ARG_SEED],
                .temperature = (float)op->arg[ARG_TEMP] * 0.5f};

        return s;
}

/* Settings that requests do not bring along. */
static struct sampling update_of(const struct op *op) {
        static const float penalties[] = {1.0f, 1.25f, 0.75f};
        struct sampling s = {.has = SAMPLING_TOP_K | SAMPLING_REPETITION,
                .top_k = op->arg[ARG_SEED],
                .repetition_penalty = penalties[op->arg[ARG_TEMP] % 3]};

        return s;
}

/* In a small context most conversations may drop old turns, and an update can change that. */
static enum engine_overflow overflow_of(const struct life *l, const struct op *op) {
        if (l->o.context == 0)
                return ENGINE_OVERFLOW_UNSET;
        if (op->kind == OP_UPDATE)
                return (enum engine_overflow)(op->arg[ARG_SEED] % 3);
        return op->arg[ARG_CONV] % 4 == 3 ? ENGINE_OVERFLOW_ERROR : ENGINE_OVERFLOW_SHIFT;
}

/* --- requests --- */

/* Fork, rewind, a reply: where to cut. */
static void fill_keep(struct call *k, const struct op *op, const struct engine_conv *c) {
        struct engine_request *q = &k->q;
        uint32_t n_turns = c->n_turns;

        k->n_kept = c->n_tokens;
        k->n_kept_turns = c->n_turns;
        switch ((enum keep_by)op->arg[ARG_WHICH]) {
        case BY_ALL:
                return;
        case BY_POSITION:
                q->at_position = k->n_kept = op->arg[ARG_K] % (c->n_tokens + 1);
                for (n_turns = 0; n_turns < c->n_turns && c->turns[n_turns].end <= k->n_kept;)
                        n_turns++;
                k->n_kept_turns =
                        n_turns + (n_turns < c->n_turns && c->turns[n_turns].start < k->n_kept);
                return;
        case BY_TURN:
                q->at_turn = n_turns = op->arg[ARG_K] % (n_turns + 1);
                break;
        default:
                q->drop_turns = op->arg[ARG_K] % (n_turns + 1);
                n_turns -= q->drop_turns;
                if (q->verb == ENGINE_CONTINUE)
                        q->at_turn = n_turns;
                break;
        }
        k->n_kept_turns = n_turns;
        k->n_kept = n_turns > 0 ? c->turns[n_turns - 1].end : 0;
}

/* In place of some messages: one of the assistant that asks for a function, and what answers it. The id
 * of the call is the message's text. */
static void fill_tools(struct call *k, const struct op *op, const struct engine_conv *c) {
        const struct engine_turn *last =
                k->n_kept_turns > 0 ? &c->turns[k->n_kept_turns - 1] : NULL;
        struct engine_request *q = &k->q;

        if (!last || last->end != k->n_kept)
                return;
        if (last->role == ENGINE_ASSISTANT && last->finish == ENGINE_FINISH_NONE) {
                snprintf(k->call_id, sizeof(k->call_id), "%s", (const char *)last->text);
                k->answers = (struct engine_result){.call_id = k->call_id, .text = k->text};
                q->input = ENGINE_INPUT_RESULTS;
                q->results = &k->answers;
                q->n_results = 1;
                q->text_size = 0;
        } else if (op->arg[ARG_SEED] % 7 == 3 && last->role != ENGINE_SYSTEM) {
                snprintf(k->text, sizeof(k->text), "c%u", op->arg[ARG_SEED]);
                k->asks = (struct engine_call){k->text, "f", "{\"x\":1}"};
                q->input = ENGINE_INPUT_GIVEN;
                q->text_size = strlen(k->text);
                q->reasoning = op->arg[ARG_TEXT] % 2 ? "so" : NULL;
                q->calls = &k->asks;
                q->n_calls = 1;
                q->max_tokens = 0;
        }
}

static void fill_reply_request(struct call *k, const struct op *op, const struct engine_conv *c) {
        struct engine_request *q = &k->q;

        q->verb = ENGINE_CONTINUE;
        q->role = ENGINE_USER;
        q->want_logprobs = true;
        q->max_tokens = op->arg[ARG_MAX];
        q->sampling = sampling_of(op);
        make_text(k->text, sizeof(k->text), op->arg[ARG_TEXT]);
        q->text = k->text;
        q->text_size = strlen(k->text);
        if (op->arg[ARG_TEXT] % 8 == 7) {
                q->stops[0] = "e";
                q->n_stops = 1;
        }
        q->input = op->kind == OP_SAY      ? ENGINE_INPUT_MESSAGE
                   : op->kind == OP_RAW    ? ENGINE_INPUT_RAW
                   : op->kind == OP_TOKENS ? ENGINE_INPUT_TOKENS
                                           : ENGINE_INPUT_NONE;
        if (op->kind == OP_TOKENS) {
                q->tokens = k->tokens;
                q->n_tokens = make_tokens(k->tokens, op->arg[ARG_TEXT]);
        }
        if (op->kind == OP_AGAIN)
                q->max_tokens = MAX(q->max_tokens, 1u);
        q->want_parts = op->arg[ARG_SEED] % 3 == 1 && op->kind != OP_RAW;
        fill_keep(k, op, c);
        q->cuts = op->arg[ARG_WHICH] != BY_ALL;
        if (op->kind == OP_SAY)
                fill_tools(k, op, c);
}

/* A copy that may be sent: sealed, and perhaps damaged. Without the right code at its end (a MAC)
 * it is a file that others have made. */
static int import_file(struct life *l, const struct file *f, enum file_as as) {
        char *data = malloc(f->size + 1);
        int fd = memfd_create("import", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        if (!data || fd < 0 || pread(f->fd, data, f->size, 0) != (ssize_t)f->size)
                life_fail(l, "import", "cannot copy the file");
        if (as == AS_DAMAGED || as == AS_DAMAGED_TOO)
                data[(f->size / 4 * as + as) % f->size] ^= (char)(1 << as);
        else if (as == AS_FOREIGN)
                data[f->size - 1] ^= 1;
        if (write(fd, data, f->size) != (ssize_t)f->size ||
                fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK) < 0)
                life_fail(l, "import", "cannot seal the file");
        free(data);
        return fd;
}

static void fill_request(struct life *l, struct call *k, const struct op *op) {
        static const enum engine_verb verbs[N_OPS] = {[OP_OPEN] = ENGINE_OPEN,
                [OP_FORK] = ENGINE_FORK,
                [OP_REWIND] = ENGINE_REWIND,
                [OP_UPDATE] = ENGINE_UPDATE,
                [OP_CLOSE] = ENGINE_CLOSE,
                [OP_EVICT] = ENGINE_EVICT,
                [OP_WARM] = ENGINE_WARM,
                [OP_PUBLISH] = ENGINE_PUBLISH,
                [OP_UNPUBLISH] = ENGINE_PUBLISH,
                [OP_PIN] = ENGINE_UPDATE,
                [OP_EXPORT] = ENGINE_EXPORT,
                [OP_IMPORT] = ENGINE_IMPORT};
        const struct mirror *m = &l->m[op->arg[ARG_CONV]];
        struct engine_request *q = &k->q;

        *q = (struct engine_request){.verb = verbs[op->kind],
                .conv_id = m->id,
                .owner = m->id ? m->owner : l->owners[op->arg[ARG_UID]],
                .at_turn = ENGINE_UNSET,
                .at_position = ENGINE_UNSET,
                .background = op->arg[ARG_BACK] != 0,
                .fd = -1};
        if (op_generates(op->kind)) {
                fill_reply_request(k, op, &m->c);
                return;
        }
        if (op->kind == OP_OPEN || op->kind == OP_FORK || op->kind == OP_IMPORT) {
                snprintf(k->name, sizeof(k->name), "name %u", ++l->n_names);
                q->name = k->name;
        }
        if (op->kind == OP_OPEN)
                q->system = system_prompt(op->arg[ARG_TEXT]);
        /* A small context has no room for definitions. */
        if (op->kind == OP_OPEN && l->o.context == 0 && op->arg[ARG_TEXT] % 4 == 1)
                q->tools = "[{\"name\":\"f\"}]";
        if (op->kind == OP_OPEN || op->kind == OP_UPDATE)
                q->overflow = overflow_of(l, op);
        if (op->kind == OP_UPDATE)
                q->sampling = update_of(op);
        q->has_pinned = op->kind == OP_PIN;
        q->pinned = op->arg[ARG_K] > 0;
        if (op->kind == OP_FORK || op->kind == OP_REWIND)
                fill_keep(k, op, &m->c);
        if (op->kind == OP_PUBLISH || op->kind == OP_UNPUBLISH) {
                q->admin = true;
                q->publish = op->kind == OP_PUBLISH;
                if (q->publish && op->arg[ARG_K] > 0)
                        q->at_turn = op->arg[ARG_K] % (m->c.n_turns + 1);
        }
        if (op->kind == OP_EXPORT)
                q->without_memory = op->arg[ARG_K] == 1;
        if (op->kind == OP_IMPORT)
                q->fd = import_file(l, &l->files[op->arg[ARG_FILE]], (enum file_as)op->arg[ARG_K]);
}

/* Is there anything to do? */
static bool is_possible(const struct life *l, const struct op *op) {
        const struct mirror *m = &l->m[op->arg[ARG_CONV]];

        if (op->kind == OP_OPEN)
                return m->id == 0;
        if (op->kind == OP_IMPORT)
                return m->id == 0 && l->files[op->arg[ARG_FILE]].fd > 0;
        if (m->id == 0)
                return false;
        if (op_generates(op->kind) && m->c.n_tokens > (l->o.context > 0 ? 3 * LONGEST : LONGEST))
                return false;
        if (op->kind == OP_AGAIN)
                return m->c.n_turns > 0;
        return op->kind != OP_FORK || l->m[op->arg[ARG_TO]].id == 0;
}

/* --- groups --- */

static bool is_request(enum op_kind k) {
        return k < OP_POOL;
}

static bool touches(const struct op *a, const struct op *b) {
        uint32_t a_to = a->arg[a->kind == OP_FORK ? ARG_TO : ARG_CONV],
                 b_to = b->arg[b->kind == OP_FORK ? ARG_TO : ARG_CONV];

        return a->arg[ARG_CONV] == b->arg[ARG_CONV] || a->arg[ARG_CONV] == b_to ||
               a_to == b->arg[ARG_CONV] || a_to == b_to ||
               (op_has(a->kind, ARG_FILE) && op_has(b->kind, ARG_FILE) &&
                       a->arg[ARG_FILE] == b->arg[ARG_FILE]);
}

/* How many operations from @at on are under way together. */
static size_t group_size(const struct program *p, size_t at) {
        size_t n = 1;

        if (!is_request(p->ops[at].kind))
                return 1;
        for (; at + n < p->n && n < N_SLOTS; n++) {
                const struct op *op = &p->ops[at + n];

                if (!op->with || !is_request(op->kind))
                        break;
                for (size_t i = 0; i < n; i++)
                        if (touches(&p->ops[at + i], op))
                                return n;
        }
        return n;
}

static void twist(struct life *l, struct call *k) {
        enum twist how = (enum twist)k->op->arg[ARG_HOW];

        if (how == PLAIN || !op_has(k->op->kind, ARG_HOW))
                return;
        while (!k->a.final && k->a.n_tokens < k->op->arg[ARG_AFTER])
                life_step(l);
        if (how == CANCEL)
                engine_cancel(l->en, k->q.handle);
        else if (how == PAUSE)
                engine_pause(l->en, k->q.handle, true);
}

static bool is_kill(const struct call *k) {
        return op_has(k->op->kind, ARG_HOW) && k->op->arg[ARG_HOW] == KILL;
}

static uint32_t pool_blocks(uint32_t k) {
        return k < 4 ? 4 + 2 * k : SAFE_POOL + k - 4;
}

/* Memory pressure comes and goes at any time, beside any request; which it is depends on the
 * operation alone. No answer may differ for it, and no request be refused. */
static void random_pressure(struct life *l, const struct op *op, size_t index) {
        uint32_t x = 2654435761u * (uint32_t)(index + 1);

        for (size_t i = 0; i < N_ARGS; i++)
                x = (x ^ op->arg[i]) * 2246822519u + (x >> 15);
        if ((x >> 8) % 4 == 0) {
                engine_set_pool_size(l->en, life_pool_size(l, pool_blocks((x >> 16) % 4)));
                l->tally->pressed++;
        } else if ((x >> 8) % 4 == 1) {
                engine_set_pool_size(l->en, life_pool_size(l, l->blocks));
        }
        if ((x >> 8) % 8 == 2)
                engine_set_spare(l->en, x >> 31);
}

static void begin_calls(struct life *l, size_t at, size_t n) {
        life_begin_group(l);
        l->n_calls = 0;
        for (size_t i = 0; i < n; i++) {
                const struct op *op = &l->p->ops[at + i];
                struct call *k = &l->calls[l->n_calls];

                l->at = at + i;
                if (!is_possible(l, op))
                        continue;
                memset(k, 0, sizeof(*k));
                k->op = op;
                k->index = at + i;
                fill_request(l, k, op);
                l->n_calls++;
                l->tally->ops++;
                random_pressure(l, op, at + i);
                life_send(l, &k->q, &k->a);
                if (op->kind == OP_IMPORT)
                        close(k->q.fd);
        }
}

static void start_again(struct life *l, bool clean) {
        life_stop(l, clean);
        l->blocks = SAFE_POOL + l->p->opt[OPT_POOL];
        life_start(l);
}

static void run_group(struct life *l, size_t at, size_t n) {
        bool kill = false;

        begin_calls(l, at, n);
        for (size_t i = 0; i < l->n_calls && !kill; i++) {
                l->at = l->calls[i].index;
                twist(l, &l->calls[i]);
                kill = is_kill(&l->calls[i]);
        }
        for (size_t i = 0; i < l->n_calls && !kill; i++) {
                struct call *k = &l->calls[i];

                l->at = k->index;
                if (k->op->arg[ARG_HOW] == PAUSE && op_has(k->op->kind, ARG_HOW))
                        engine_pause(l->en, k->q.handle, false);
                while (!k->a.final)
                        life_step(l);
        }
        if (kill)
                start_again(l, false);
        for (size_t i = 0; i < l->n_calls; i++)
                if (l->calls[i].a.final)
                        life_settle(l, &l->calls[i]);
                else
                        life_resolve(l, &l->calls[i]);
        life_check_sharing(l);
        if (kill)
                life_verify_all(l);
        for (size_t i = 0; i < l->n_calls; i++)
                reply_reset(&l->calls[i].a);
        l->n_calls = 0;
}

/* --- what is done to the engine as a whole --- */

static int by_name(const void *a, const void *b) {
        return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Flip a bit of one of the spill files; where there is a remote store, sometimes lose all of the file. */
static void damage(struct life *l, uint32_t k) {
        char path[700], *names[256];
        size_t n = 0;
        struct dirent *de;
        struct stat st;
        uint8_t byte;
        DIR *d;
        int fd;

        snprintf(path, sizeof(path), "%s/spill", l->dir);
        d = opendir(path);
        while (d && n < ARRAY_SIZE(names) && (de = readdir(d)))
                if (de->d_name[0] != '.')
                        names[n++] = strdup(de->d_name);
        if (d)
                closedir(d);
        if (n == 0)
                return;
        qsort(names, n, sizeof(names[0]), by_name);
        snprintf(path, sizeof(path), "%s/spill/%s", l->dir, names[k % n]);
        for (size_t i = 0; i < n; i++)
                free(names[i]);
        fd = open(path, O_RDWR | O_CLOEXEC);
        if (fd < 0)
                return;
        if (l->o.remote.uri && k % 3 == 0) {
                l->tally->damaged += ftruncate(fd, 0) == 0;
        } else if (fstat(fd, &st) == 0 && st.st_size > 0) {
                off_t at = (off_t)((uint64_t)k * 7919 % (uint64_t)st.st_size);

                /* Half of them in the beginning of a record. */
                if (k % 2)
                        at = at / 4096 * 4096 + k % 200;
                if (pread(fd, &byte, 1, at) == 1) {
                        byte ^= (uint8_t)(1 << k % 8);
                        if (pwrite(fd, &byte, 1, at) == 1)
                                l->tally->damaged++;
                }
        }
        close(fd);
}

static void add_figures(struct life *l) {
        l->tally->parked += life_stat(l, "requests_parked", 0);
        l->tally->evictions += life_stat(l, "evictions", 0);
        l->tally->restores += life_stat(l, "restores", 0);
        l->tally->restore_failures += life_stat(l, "restore_failures", 0);
        l->tally->overlapped += life_stat(l, "restores_overlapped", 0);
        l->tally->merged += life_stat(l, "blocks_merged", 0);
        l->tally->reclaimed += life_stat(l, "reclaimed_bytes", 0);
        l->tally->write_behind += life_stat(l, "writebehind_blocks", 0);
        l->tally->shifts += life_stat(l, "memory_shifts", 0);
        l->tally->fetched += life_stat(l, "remote_blocks_read", 0);
        l->tally->sent += life_stat(l, "remote_blocks_sent", 0);
}

static void run_single(struct life *l, const struct op *op) {
        l->tally->ops++;
        switch (op->kind) {
        case OP_POOL:
                l->blocks = pool_blocks(op->arg[ARG_K]);
                l->most_pool = MAX(l->most_pool, life_pool_size(l, l->blocks));
                engine_set_pool_size(l->en, life_pool_size(l, l->blocks));
                break;
        case OP_IDLE:
                for (uint32_t i = 0; i < op->arg[ARG_K]; i++)
                        life_check_budget(l);
                break;
        case OP_DAMAGE:
                damage(l, op->arg[ARG_K]);
                break;
        case OP_RESTART:
                add_figures(l);
                start_again(l, true);
                life_verify_all(l);
                break;
        case OP_KILL:
                start_again(l, false);
                life_verify_all(l);
                break;
        default:
                break;
        }
}

/* --- the end --- */

static void found(void *arg, const struct store_finding *f) {
        struct life *l = arg;

        life_fail(l, "register", "%s", f->text);
}

/* The register by itself is in order. */
static int open_register(struct life *l, struct store **ret, struct err *e) {
        const struct store_server server = {.uri = l->uri,
                .machine = "-",
                .name = "",
                .wait_usec = 60000000,
                .lease_usec = 60000000};
        char path[300];

        snprintf(path, sizeof(path), "%s/register.db", l->dir);
        return l->uri[0] ? store_look_server(ret, &server, e) : store_open_readonly(ret, path, e);
}

static void check_register(struct life *l) {
        struct store_census census;
        struct store *s = NULL;
        struct err e;
        size_t n = 0;

        if (open_register(l, &s, &e) < 0 || store_check(s, found, l, &census, &e) < 0)
                life_fail(l, "register", "%s", e.msg);
        for (size_t i = 0; i < N_SLOTS; i++)
                n += l->m[i].id != 0;
        if (census.n_convs != n)
                life_fail(l, "lost", "the register has %llu conversations instead of %zu",
                        (unsigned long long)census.n_convs, n);
        store_free(s);
}

static void say_everywhere(struct life *l) {
        struct program all = {.n = 0};
        const struct program *was = l->p;

        memcpy(all.opt, was->opt, sizeof(all.opt));
        for (uint32_t i = 0; i < N_SLOTS; i++) {
                struct op *op = &all.ops[all.n++];

                *op = (struct op){.kind = OP_SAY, .with = true};
                op->arg[ARG_CONV] = i;
                op->arg[ARG_MAX] = 2;
        }
        l->p = &all;
        for (size_t i = 0; i < all.n;) {
                size_t n = MIN(group_size(&all, i), (size_t)4);

                run_group(l, i, n);
                i += n;
        }
        l->p = was;
}

static void close_all(struct life *l) {
        static const char *const figures[] = {"conversations_loaded", "pool_blocks",
                "spill_records", "spill_disk_bytes", "spill_files", "ledger_meta_used"};

        for (size_t i = 0; i < N_SLOTS; i++) {
                struct mirror *m = &l->m[i];
                struct engine_request q = {
                        .verb = ENGINE_CLOSE, .owner = m->owner, .conv_id = m->id};
                const struct reply *a;

                if (m->id == 0)
                        continue;
                a = life_ask(l, &q);
                if (a->kind != ENGINE_EMPTY)
                        life_fail(l, "error", "close: %s", a->err.msg);
                mirror_close(m);
        }
        /* What lies in the remote store is removed by and by. */
        for (unsigned k = 0; k < 60000 && life_stat(l, "remote_pending", 0) > 0; k++)
                usleep(1000);
        for (size_t i = 0; i < ARRAY_SIZE(figures); i++) {
                uint64_t v = 1;

                /* What was being written is given back when the job is over. */
                for (unsigned k = 0; k < 2000 && v > 0; k++)
                        v = life_stat(l, figures[i], 0);
                if (v > 0)
                        life_fail(l, "leak", "%s is %llu with no conversation left", figures[i],
                                (unsigned long long)v);
        }
}

static void end(struct life *l) {
        enum ending how = (enum ending)l->p->opt[OPT_END];

        l->at = l->p->n;
        life_begin_group(l);
        if (how == END_KILL_SAY_CLOSE) {
                start_again(l, false);
                life_verify_all(l);
                say_everywhere(l);
                l->at = l->p->n;
        }
        if (how == END_CLOSE || how == END_KILL_SAY_CLOSE)
                close_all(l);
        life_check_budget(l);
        add_figures(l);
        life_stop(l, how == END_STOP || how == END_KILL_SAY_CLOSE);
        check_register(l);
}

static struct engine_options options_of(struct life *l) {
        static const uint32_t delays[N_DELAYS] = {0, 0, 1, 2, 5, 10, 20, UINT32_MAX};
        const uint32_t *opt = l->p->opt;
        struct engine_options o = ENGINE_OPTIONS_DEFAULT;

        /* A page of the one is about a block of the other. */
        unsigned shift = opt[OPT_MODEL] == MODEL_DEEP ? 16 : 12;

        o.model_path = l->s->model_path[opt[OPT_MODEL]];
        o.state_dir = l->dir;
        o.disk_floor = 0;
        o.kv_type = (enum engine_kv)opt[OPT_KV];
        o.n_threads = 1 + opt[OPT_THREADS];
        if (opt[OPT_BATCH] > 0)
                o.batch_tokens = 3 + opt[OPT_BATCH];
        if (opt[OPT_ACTIVE] > 0)
                o.max_active = opt[OPT_ACTIVE];
        if (opt[OPT_CONTEXT] > 0)
                o.context = SMALL_CONTEXT + 3 * opt[OPT_CONTEXT];
        o.disk_limit = (uint64_t)opt[OPT_DISK] << shift;
        o.disk_limit_per_owner = (uint64_t)opt[OPT_DISK_UID] << shift;
        o.disk_writes_per_day = (uint64_t)opt[OPT_WRITES] << shift;
        o.spill_delay_ms = delays[opt[OPT_DELAY]];
        o.remote.uri = getenv("CONFAB_TEST_REDIS");
        o.remote.always = true;
        o.remote.write_share = 50;
        return o;
}

/* A schema for each program: the folder is used again. */
static void choose_register(struct life *l) {
        static unsigned n;
        const char *uri;
        char name[64];

        snprintf(name, sizeof(name), "%d_%u", (int)getpid(), ++n);
        uri = server_uri(name);
        if (uri)
                snprintf(l->uri, sizeof(l->uri), "%s", uri);
}

void life_run(const struct program *p, const struct setting *s, struct tally *tally,
        void (*failed)(const struct outcome *o) __attribute__((noreturn))) {
        struct life *l = calloc(1, sizeof(*l));

        if (!l)
                exit(2);
        l->p = p;
        l->s = s;
        l->tally = tally;
        l->failed = failed;
        snprintf(l->dir, sizeof(l->dir), "%s/state", s->dir);
        choose_register(l);
        life_remove_dir(l->dir);
        l->o = options_of(l);
        l->blocks = SAFE_POOL + p->opt[OPT_POOL];
        l->o.pool_size = life_pool_size(l, l->blocks);
        life_start(l);
        for (size_t i = 0; i < p->n;) {
                size_t n = group_size(p, i);

                l->at = i;
                if (is_request(p->ops[i].kind))
                        run_group(l, i, n);
                else
                        run_single(l, &p->ops[i]);
                life_check_budget(l);
                i += n;
        }
        end(l);
        for (size_t i = 0; i < N_SLOTS; i++)
                mirror_close(&l->m[i]);
        for (size_t i = 0; i < N_FILES; i++)
                file_close(&l->files[i]);
        past_free(l->past);
        past_free(l->published);
        reply_reset(&l->own);
        life_remove_dir(l->dir);
        tally->programs++;
        free(l);
}
