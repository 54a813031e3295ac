/* SPDX-License-Identifier: MIT */
#include "rig.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "inside.h"
#include "store/store.h"
#include "util/shared.h"
#include "util/test.h"

const char *erig_model(void) {
        static char path[4096];

        snprintf(path, sizeof(path), "%s/models/confab-small.q8_0.gguf", TEST_SOURCE_ROOT);
        return access(path, R_OK) == 0 ? path : NULL;
}

void erig_need_model(void) {
        if (!erig_model()) {
                print_message("SKIP: models/confab-small.q8_0.gguf is not there\n");
                skip();
        }
}

struct engine_options erig_options(uint64_t pool_size) {
        struct engine_options o = ENGINE_OPTIONS_DEFAULT;

        o.pool_size = pool_size;
        o.n_threads = 1;
        o.disk_floor = 0;
        o.spill_codec = ENGINE_CODEC_KV; /* whatever this disk is like */
        return o;
}

uint64_t erig_pool(uint32_t n) {
        return erig_pool_of(NULL, n);
}

uint64_t erig_pool_of(const char *model, uint32_t n) {
        struct engine_options o = erig_options(256 << 20);
        struct erig r;
        uint64_t budget;

        o.model_path = model;

        /* Buffers are smaller in a smaller pool, which then is enough for more blocks. */
        for (;;) {
                erig_open(&r, &o);
                budget = inside_budget_of_blocks(r.en, n);
                erig_close(&r);
                if (budget >= o.pool_size)
                        return o.pool_size;
                o.pool_size = budget;
        }
}

void erig_start(struct erig *r) {
        struct err e;

        r->stopped = false;
        if (engine_open(&r->en, &r->o, &e) < 0)
                fail_msg("engine_open: %s", e.msg);
}

void erig_open(struct erig *r, const struct engine_options *o) {
        if (!o->model_path)
                erig_need_model();
        *r = (struct erig){.o = *o, .next = 1, .silence_msec = 60000};
        strcpy(r->dir, "/tmp/confab-test-XXXXXX");
        assert_non_null(mkdtemp(r->dir));
        if (!r->o.model_path)
                r->o.model_path = erig_model();
        r->o.state_dir = r->dir;
        erig_start(r);
}

void answer_reset(struct answer *a) {
        free(a->history);
        for (uint32_t i = 0; i < a->n_turns; i++) {
                free(a->turns[i].text);
                free(a->turns[i].results);
                free(a->turns[i].parts);
                free(a->turns[i].tools);
                free(a->turns[i].figures);
        }
        free(a->turns);
        free(a->tools);
        free(a->about);
        if (a->writing)
                free(a->writing->turn.text);
        free(a->writing);
        free(a->checked.problems);
        if (a->fd > 0)
                close(a->fd);
        memset(a, 0, sizeof(*a));
}

static void put(char *text, size_t size, const char *s) {
        size_t n = strlen(text);

        assert_true(n + strlen(s) < size);
        strcpy(text + n, s);
}

/* The part that news are of is the last one of the text, unless they begin another. */
void erig_put_parts(char *text, size_t size, const struct engine_part *parts, size_t n) {
        static const char *const kinds[] = {"text", "reasoning", "call"};

        for (size_t i = 0; i < n; i++) {
                const struct engine_part *p = &parts[i];
                size_t used = strlen(text);
                bool open = used > 0 && text[used - 1] != '\x1f';

                if (!open) {
                        put(text, size, kinds[p->kind]);
                        if (p->name) {
                                put(text, size, " ");
                                put(text, size, p->name);
                                put(text, size, " ");
                                put(text, size, p->call_id);
                        }
                        put(text, size, ":");
                }
                assert_int_equal(strlen(p->text), p->text_size);
                used = strlen(text);
                put(text, size, p->text);
                for (char *s = text + used; *s; s++)
                        *s = *s == '\x1f' ? '?' : *s;
                if (p->broken) {
                        put(text, size, "!");
                        put(text, size, p->broken);
                }
                if (p->ends)
                        put(text, size, ".\n\x1f");
        }
}

/* The text of a token is the same wherever it is told. */
static void take_piece(struct answer *a, const struct engine_event *ev) {
        const struct engine_piece *text = &ev->delta.token_text;

        assert_true(a->pieces_size + text->size <= sizeof(a->pieces));
        memcpy(a->pieces + a->pieces_size, text->bytes, text->size);
        a->pieces_size += text->size;
        a->piece_ends[a->n_tokens] = a->pieces_size;
        for (size_t i = 0; i < ev->delta.n_top; i++) {
                const struct engine_logprob *top = &ev->delta.top[i];

                if (top->token != ev->delta.token)
                        continue;
                assert_true(ev->delta.has_logprob && top->logprob == ev->delta.logprob);
                assert_int_equal(top->text.size, text->size);
                assert_memory_equal(top->text.bytes, text->bytes, text->size);
        }
}

static void take_delta(struct answer *a, const struct engine_event *ev) {
        size_t n = strlen(a->text);

        assert_true(n + ev->delta.text_size < sizeof(a->text));
        strcpy(a->text + n, ev->delta.text);
        a->n_deltas++;
        assert_true(ev->delta.n_parts == 0 || ev->delta.text_size == 0);
        erig_put_parts(a->parts, sizeof(a->parts), ev->delta.parts, ev->delta.n_parts);
        if (ev->delta.has_token) {
                assert_true(a->n_tokens < sizeof(a->tokens) / sizeof(a->tokens[0]));
                a->tokens[a->n_tokens] = ev->delta.token;
                a->ends[a->n_tokens] = n + ev->delta.text_size;
                a->positions[a->n_tokens] = ev->delta.position;
                take_piece(a, ev);
                a->logprobs[a->n_tokens++] = ev->delta.logprob;
        }
}

static void take_done(struct answer *a, const struct engine_event *ev) {
        a->finish = ev->done.finish;
        snprintf(a->stop, sizeof(a->stop), "%s", ev->done.stop ? ev->done.stop : "");
        a->revision = ev->done.revision;
        a->seed = ev->done.seed;
        a->n_generated = ev->done.n_generated;
        a->n_drafted = ev->done.n_drafted;
        a->n_accepted = ev->done.n_accepted;
        a->n_calls = ev->done.n_calls;
        a->done_ram = ev->done.n_ram;
        a->done_disk = ev->done.n_disk;
        a->done_shared = ev->done.n_shared;
        a->done_computed = ev->done.n_computed;
        assert_int_equal(
                ev->done.n_prompt, a->done_ram + a->done_disk + a->done_shared + a->done_computed);
        if (!a->accepted)
                return; /* there was no memory to say so */
        assert_int_equal(ev->done.n_dropped, a->n_dropped);
        /* What was there at the beginning stays counted; others may have brought more. */
        assert_int_equal(a->n_ram, a->done_ram);
        assert_int_equal(a->n_disk, a->done_disk);
        assert_true(a->done_shared >= a->n_shared && a->done_computed <= a->n_computed);
}

static void take_acted(struct answer *a, const struct engine_event *ev) {
        a->owner = ev->acted.owner;
        a->n_convs = ev->acted.n_convs;
        a->n_tokens_acted = ev->acted.n_tokens;
        a->n_requests = ev->acted.n_requests;
        a->n_busy = ev->acted.n_busy;
}

static void take_event(struct answer *a, struct engine_event *ev) {
        assert_false(a->final); /* one final event, and nothing after it */
        switch (ev->kind) {
        case ENGINE_ERROR:
                a->err = ev->err;
                a->told = ev->told;
                break;
        case ENGINE_ACCEPTED:
                assert_false(a->accepted);
                a->accepted = true;
                a->revision = ev->accepted.revision;
                a->n_prompt = ev->accepted.n_prompt;
                a->n_ram = ev->accepted.n_ram;
                a->n_disk = ev->accepted.n_disk;
                a->n_shared = ev->accepted.n_shared;
                a->n_computed = ev->accepted.n_computed;
                a->differs_at = ev->accepted.differs_at;
                a->differs_why = ev->accepted.differs_why;
                a->n_dropped = ev->accepted.n_dropped;
                assert_int_equal(a->n_prompt, a->n_ram + a->n_disk + a->n_shared + a->n_computed);
                break;
        case ENGINE_PROGRESS:
                a->n_progress++;
                break;
        case ENGINE_DELTA:
                take_delta(a, ev);
                break;
        case ENGINE_DONE:
                take_done(a, ev);
                break;
        case ENGINE_FOUND:
                a->found = ev->found;
                __attribute__((fallthrough));
        case ENGINE_CONV:
                a->conv = ev->conv;
                a->err = ev->err;
                snprintf(a->name, sizeof(a->name), "%s", ev->conv.name ? ev->conv.name : "");
                a->turns = TAKE_PTR(ev->conv.turns);
                a->n_turns = a->turns ? ev->conv.n_turn_list : 0;
                a->tools = TAKE_PTR(ev->conv.tools);
                a->about = TAKE_PTR(ev->conv.about);
                a->writing = TAKE_PTR(ev->conv.writing);
                snprintf(
                        a->tenant, sizeof(a->tenant), "%s", ev->conv.tenant ? ev->conv.tenant : "");
                a->conv.name = a->conv.tools = a->conv.tenant = NULL;
                a->conv.turns = NULL;
                a->conv.tokens = NULL;
                a->n_history = ev->conv.n_token_list;
                a->damaged = ev->conv.damaged;
                a->damaged_turn = ev->conv.damaged_turn;
                a->history = TAKE_PTR(ev->conv.tokens);
                break;
        case ENGINE_USED:
                memcpy(a->used, ev->used, sizeof(a->used));
                break;
        case ENGINE_OWNER:
                a->owner = ev->owner;
                break;
        case ENGINE_STATS_RESULT:
                if (ev->stats.meters)
                        a->meters = *ev->stats.meters;
                a->n_users = MIN(ev->stats.n_users, ARRAY_SIZE(a->users));
                if (a->n_users > 0)
                        memcpy(a->users, ev->stats.users, a->n_users * sizeof(*a->users));
                a->more = ev->stats.more_users;
                break;
        case ENGINE_USERS_RESULT:
                a->n_users = MIN(ev->users.n, ARRAY_SIZE(a->users));
                memcpy(a->users, ev->users.users, a->n_users * sizeof(*a->users));
                a->more = ev->users.more;
                a->after_value = ev->users.after_value;
                break;
        case ENGINE_DRAINED:
                a->n_requests = ev->drained.n_requests;
                break;
        case ENGINE_USER_ACTED:
                take_acted(a, ev);
                break;
        case ENGINE_CHECKED:
                a->checked = ev->checked;
                ev->checked.problems = NULL;
                break;
        case ENGINE_EXPORTED:
                a->fd = TAKE_FD(ev->exported.fd);
                a->size = ev->exported.size;
                a->n_memory = ev->exported.n_memory_tokens;
                break;
        case ENGINE_BYTES:
                a->size = ev->bytes.n;
                memcpy(a->text, ev->bytes.data, MIN(ev->bytes.n, sizeof(a->text)));
                break;
        default:
                break;
        }
        a->final = ev->final;
        if (ev->final)
                a->kind = ev->kind;
}

/* Hand the event to whom it belongs. */
static void dispatch(struct erig *r, struct engine_event *ev) {
        if (ev->kind == ENGINE_LOG) {
                r->n_logs++;
                r->n_logged[ev->log.what]++;
                snprintf(r->log, sizeof(r->log), "%s", ev->err.msg);
                snprintf(r->logs + strlen(r->logs), sizeof(r->logs) - strlen(r->logs), "%s\n",
                        ev->err.msg);
        }
        if (ev->kind == ENGINE_STOPPED)
                r->stopped = true;
        if (ev->kind == ENGINE_NOTICE && r->on_notice)
                r->on_notice(r->on_notice_arg, ev);
        for (size_t i = 0; i < r->n_open; i++)
                if (r->open[i].handle == ev->handle) {
                        /* Others have no stream: docs/protocol.md. */
                        if (ev->kind == ENGINE_PROGRESS)
                                assert_true(r->open[i].verb == ENGINE_CONTINUE ||
                                            r->open[i].verb == ENGINE_ATTACH ||
                                            r->open[i].verb == ENGINE_CHECK);
                        take_event(r->open[i].a, ev);
                        if (ev->final)
                                r->open[i] = r->open[--r->n_open];
                        break;
                }
        engine_event_free(ev);
}

void erig_step(struct erig *r) {
        struct pollfd p = {.fd = engine_fd(r->en), .events = POLLIN};
        struct engine_event *ev;

        while (!(ev = engine_next_event(r->en)))
                if (poll(&p, 1, r->silence_msec) != 1)
                        fail_msg("the engine is silent");
        dispatch(r, ev);
}

void erig_take_all(struct erig *r) {
        struct engine_event *ev;

        while ((ev = engine_next_event(r->en)))
                dispatch(r, ev);
}

void erig_stop(struct erig *r, bool clean) {
        if (clean) {
                engine_stop(r->en);
                while (!r->stopped)
                        erig_step(r);
                assert_int_equal(r->n_open, 0);
        }
        r->en = engine_free(r->en);
        r->n_open = 0;
}

void erig_restart(struct erig *r, bool clean) {
        erig_stop(r, clean);
        erig_start(r);
}

void erig_close(struct erig *r) {
        char cmd[128];

        erig_stop(r, false);
        snprintf(cmd, sizeof(cmd), "rm -rf '%s'", r->dir);
        assert_int_equal(system(cmd), 0);
}

void erig_send(struct erig *r, struct engine_request *q, struct answer *a) {
        answer_reset(a);
        q->handle = r->next++;
        assert_true(r->n_open < sizeof(r->open) / sizeof(r->open[0]));
        if (engine_submit(r->en, q, &a->err) < 0) {
                a->final = a->refused = true;
                a->kind = ENGINE_ERROR;
                return;
        }
        r->open[r->n_open++] = (struct erig_open){q->handle, q->verb, a};
}

void erig_wait(struct erig *r, struct answer *a) {
        while (!a->final)
                erig_step(r);
}

void erig_wait_accepted(struct erig *r, struct answer *a) {
        while (!a->accepted) {
                assert_false(a->final);
                erig_step(r);
        }
}

void erig_do_all(struct erig *r, struct engine_request *q, struct answer *a, size_t n) {
        for (size_t i = 0; i < n; i++)
                erig_send(r, &q[i], &a[i]);
        for (size_t i = 0; i < n; i++)
                erig_wait(r, &a[i]);
}

enum engine_event_kind erig_do(struct erig *r, struct engine_request *q, struct answer *a) {
        struct answer *own = a ? a : calloc(1, sizeof(*own));
        enum engine_event_kind kind;

        assert_non_null(own);
        erig_do_all(r, q, own, 1);
        kind = own->kind;
        if (!a) {
                answer_reset(own);
                free(own);
        }
        return kind;
}

static void take_stats(
        const struct engine_event *ev, const char *const *names, uint64_t *values, size_t n) {
        assert_int_equal(ev->kind, ENGINE_STATS_RESULT);
        for (size_t k = 0; k < n; k++) {
                size_t i = 0;

                while (i < ev->stats.n && strcmp(ev->stats.stats[i].name, names[k]) != 0)
                        i++;
                if (i == ev->stats.n)
                        fail_msg("no figure is called %s", names[k]);
                values[k] = ev->stats.stats[i].value;
        }
}

void erig_stats(struct erig *r, const char *const *names, uint64_t *values, size_t n) {
        struct engine_request q = {.verb = ENGINE_STATS, .handle = r->next++};
        struct pollfd p = {.fd = engine_fd(r->en), .events = POLLIN};
        bool done = false;

        assert_int_equal(engine_submit(r->en, &q, NULL), 0);
        while (!done) {
                struct engine_event *ev = engine_next_event(r->en);

                if (!ev) {
                        assert_int_equal(poll(&p, 1, r->silence_msec), 1);
                        continue;
                }
                if (ev->handle != q.handle) {
                        dispatch(r, ev);
                        continue;
                }
                take_stats(ev, names, values, n);
                done = true;
                engine_event_free(ev);
        }
}

uint64_t erig_stat(struct erig *r, const char *name) {
        uint64_t value;

        erig_stats(r, &name, &value, 1);
        return value;
}

/* Background work has a minute, however busy the machine is. */
static uint64_t deadline(void) {
        return clock_monotonic_usec() + 60 * 1000000ull;
}

uint64_t erig_wait_stat(struct erig *r, const char *name, uint64_t least) {
        uint64_t end = deadline(), value;

        while ((value = erig_stat(r, name)) < least)
                if (clock_monotonic_usec() > end)
                        fail_msg("%s is %llu, not %llu", name, (unsigned long long)value,
                                (unsigned long long)least);
        return value;
}

void erig_check_budget(struct erig *r) {
        assert_true(erig_stat(r, "ledger_used") <= r->o.pool_size);
        assert_true(erig_stat(r, "ledger_peak") <= r->o.pool_size);
}

void erig_check_empty(struct erig *r) {
        uint64_t end = deadline();

        /* A worker may have read all and not come back with its job yet. */
        while (erig_stat(r, "ledger_meta_used") > 0 && clock_monotonic_usec() < end)
                ;
        assert_int_equal(erig_stat(r, "conversations_loaded"), 0);
        assert_int_equal(erig_stat(r, "pool_blocks"), 0);
        assert_int_equal(erig_stat(r, "pool_window_blocks"), 0);
        assert_int_equal(erig_stat(r, "pool_states"), 0);
        assert_int_equal(erig_stat(r, "spill_records"), 0);
        assert_int_equal(erig_stat(r, "spill_disk_bytes"), 0);
        assert_int_equal(erig_stat(r, "spill_files"), 0);
        assert_int_equal(erig_stat(r, "ledger_meta_used"), 0);
        assert_int_equal(inside_n_records(r->en), 0);
}

static void print_finding(void *arg, const struct store_finding *f) {
        print_message("conversation %llu: %s\n", (unsigned long long)f->conv, f->text);
}

static void check_store(struct store *s) {
        struct store_census census;

        assert_int_equal(store_check(s, print_finding, NULL, &census, NULL), 0);
        assert_int_equal(census.n_findings, 0);
        store_free(s);
}

struct store *erig_register(const struct erig *r) {
        struct store *s = NULL;
        char path[128];
        struct err e;

        snprintf(path, sizeof(path), "%s/register.db", r->dir);
        if ((r->en ? store_open(&s, path, &e) : store_open_readonly(&s, path, &e)) < 0)
                fail_msg("%s", e.msg);
        return s;
}

void erig_look_at_register(struct erig *r) {
        check_store(erig_register(r));
}

void erig_check_register(struct erig *r) {
        erig_stop(r, true);
        check_store(erig_register(r));
        erig_start(r);
}

void erig_settle(struct engine *engine) {
        uint64_t last = 0, now;

        /* That nothing happens any more is no event. */
        while ((now = engine_heartbeat(engine)) > last + 1) {
                last = now;
                poll(NULL, 0, 300);
        }
}

struct engine_request erig_request(enum engine_verb verb, uint64_t conv) {
        return (struct engine_request){.verb = verb,
                .conv_id = conv,
                .at_turn = ENGINE_UNSET,
                .at_position = ENGINE_UNSET};
}

enum engine_event_kind erig_simple(
        struct erig *r, enum engine_verb verb, uint64_t conv, struct answer *a) {
        struct engine_request q = erig_request(verb, conv);

        return erig_do(r, &q, a);
}

/* Send what answers with a conversation; its id. */
static uint64_t make_conv(struct erig *r, struct engine_request *q) {
        struct answer *a = calloc(1, sizeof(*a));
        uint64_t id;

        assert_non_null(a);
        if (erig_do(r, q, a) != ENGINE_CONV)
                fail_msg("verb %d: %s", (int)q->verb, a->err.msg);
        id = a->conv.id;
        answer_reset(a);
        free(a);
        return id;
}

uint64_t erig_new(struct erig *r, const char *name, const char *system) {
        struct engine_request q = {.verb = ENGINE_OPEN, .name = name, .system = system};

        return make_conv(r, &q);
}

uint64_t erig_fork(struct erig *r, uint64_t conv) {
        struct engine_request q = erig_request(ENGINE_FORK, conv);

        return make_conv(r, &q);
}

void erig_get(struct erig *r, uint64_t conv, struct answer *a) {
        struct engine_request q = {
                .verb = ENGINE_GET, .conv_id = conv, .want_turns = true, .want_tokens = true};

        assert_int_equal(erig_do(r, &q, a), ENGINE_CONV);
}

struct engine_request erig_say_request(uint64_t conv, const char *text, uint32_t max_tokens) {
        return (struct engine_request){.verb = ENGINE_CONTINUE,
                .conv_id = conv,
                .input = ENGINE_INPUT_MESSAGE,
                .role = ENGINE_USER,
                .text = text,
                .text_size = strlen(text),
                .max_tokens = max_tokens,
                .want_logprobs = true,
                .sampling = {.has = SAMPLING_TEMPERATURE | SAMPLING_SEED, .seed = 1}};
}

struct engine_request erig_long_request(uint64_t conv, const char *text, uint32_t max_tokens) {
        struct engine_request q = erig_say_request(conv, text, max_tokens);

        q.ignore_eos = true;
        return q;
}

void erig_forget_memory(struct erig *r) {
        char command[sizeof(r->dir) + 32];

        erig_stop(r, true);
        snprintf(command, sizeof(command), "rm -rf '%s/spill'", r->dir);
        assert_int_equal(system(command), 0);
        erig_start(r);
}

void erig_say(
        struct erig *r, uint64_t conv, const char *text, uint32_t max_tokens, struct answer *a) {
        struct engine_request q = erig_say_request(conv, text, max_tokens);

        if (erig_do(r, &q, a) != ENGINE_DONE)
                fail_msg("say: %s", a->err.msg);
}

void erig_alone(struct engine_request q, struct answer *a) {
        struct engine_options o = erig_options(256 << 20);
        struct erig r;

        erig_open(&r, &o);
        q.conv_id = erig_new(&r, NULL, NULL);
        assert_int_equal(erig_do(&r, &q, a), ENGINE_DONE);
        erig_close(&r);
}

void erig_append_tokens(struct erig *r, uint64_t conv, int32_t first, size_t n) {
        struct engine_request q = erig_say_request(conv, "", 0);
        int32_t tokens[512];

        assert_true(n <= sizeof(tokens) / sizeof(tokens[0]));
        for (size_t i = 0; i < n; i++)
                tokens[i] = first + (int32_t)i;
        q.input = ENGINE_INPUT_TOKENS;
        q.tokens = tokens;
        q.n_tokens = n;
        assert_int_equal(erig_do(r, &q, NULL), ENGINE_DONE);
}

void erig_append_raw(struct erig *r, uint64_t conv, const char *text) {
        struct engine_request q = erig_say_request(conv, text, 0);

        q.input = ENGINE_INPUT_RAW;
        assert_int_equal(erig_do(r, &q, NULL), ENGINE_DONE);
}

uint32_t erig_others_get(struct erig *r, uint64_t owner, const int32_t *tokens, size_t n) {
        struct engine_request q = {.verb = ENGINE_OPEN, .owner = owner};
        struct answer *a = calloc(1, sizeof(*a));
        uint32_t got;

        assert_non_null(a);
        q = erig_say_request(make_conv(r, &q), "", 1);
        q.owner = owner;
        q.input = ENGINE_INPUT_TOKENS;
        q.tokens = tokens;
        q.n_tokens = n;
        assert_int_equal(erig_do(r, &q, a), ENGINE_DONE);
        got = a->n_shared + a->n_disk;
        free(a);
        return got;
}

const char *erig_words(unsigned n, unsigned salt) {
        static const char *const list[] = {"green", "house", "river", "seven", "bird", "night",
                "apple", "stone", "winter", "music"};
        static char text[32][8192];
        static unsigned next;
        char *p = text[next++ % 32];
        size_t at = 0;

        for (unsigned i = 0; i < n && at < 8100; i++)
                at += (size_t)sprintf(p + at, "%s%s", i ? " " : "", list[(i * 7 + salt) % 10]);
        return p;
}

void answer_same(const struct answer *a, const struct answer *b) {
        assert_int_equal(a->n_tokens, b->n_tokens);
        assert_memory_equal(a->tokens, b->tokens, a->n_tokens * sizeof(a->tokens[0]));
        assert_memory_equal(a->logprobs, b->logprobs, a->n_tokens * sizeof(a->logprobs[0]));
        assert_string_equal(a->text, b->text);
}

void answer_same_history(const struct answer *a, const struct answer *b) {
        assert_int_equal(a->conv.n_tokens, b->conv.n_tokens);
        assert_int_equal(a->n_turns, b->n_turns);
        assert_memory_equal(a->history, b->history, a->conv.n_tokens * sizeof(*a->history));
        for (uint32_t i = 0; i < a->n_turns; i++) {
                const struct engine_turn *s = &a->turns[i], *t = &b->turns[i];

                assert_int_equal(s->role, t->role);
                assert_int_equal(s->start, t->start);
                assert_int_equal(s->end, t->end);
                assert_int_equal(s->finish, t->finish);
                assert_int_equal(s->created_usec, t->created_usec);
                assert_int_equal(s->text_size, t->text_size);
                if (s->text_size > 0)
                        assert_memory_equal(s->text, t->text, s->text_size);
        }
}
