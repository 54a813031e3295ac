/* SPDX-License-Identifier: MIT */
#include "rig.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/shared.h"
#include "util/test.h"

const char *erig_model(void) {
        static char path[4096];

        snprintf(path, sizeof(path), "%s/models/confab-small.q8_0.gguf", TEST_SOURCE_ROOT);
        return access(path, R_OK) == 0 ? path : NULL;
}

static void start(struct erig *r) {
        struct err e;

        if (engine_open(&r->en, &r->o, &e) < 0)
                fail_msg("engine_open: %s", e.msg);
}

void erig_open(struct erig *r, const struct engine_options *o) {
        *r = (struct erig){.o = *o, .next = 1};
        strcpy(r->dir, "/tmp/confab-test-XXXXXX");
        assert_non_null(mkdtemp(r->dir));
        r->o.model_path = erig_model();
        r->o.state_dir = r->dir;
        start(r);
}

static struct engine_event *next_event(struct erig *r) {
        for (;;) {
                struct engine_event *ev = engine_next_event(r->en);
                struct pollfd p = {.fd = engine_fd(r->en), .events = POLLIN};

                if (ev)
                        return ev;
                if (poll(&p, 1, 60000) != 1)
                        fail_msg("the engine is silent for a minute");
        }
}

static void stop(struct erig *r, bool clean) {
        if (clean) {
                bool stopped = false;

                engine_stop(r->en);
                while (!stopped) {
                        struct engine_event *ev = next_event(r);

                        stopped = ev->kind == ENGINE_STOPPED;
                        engine_event_free(ev);
                }
        }
        r->en = engine_free(r->en);
}

void erig_restart(struct erig *r, bool clean) {
        stop(r, clean);
        start(r);
}

void erig_close(struct erig *r) {
        char cmd[128];

        stop(r, false);
        snprintf(cmd, sizeof(cmd), "rm -rf '%s'", r->dir);
        assert_int_equal(system(cmd), 0);
}

static void take_event(struct answer *a, struct engine_event *ev) {
        switch (ev->kind) {
        case ENGINE_ERROR:
                a->err = ev->err;
                break;
        case ENGINE_ACCEPTED:
                a->n_prompt = ev->accepted.n_prompt;
                a->n_ram = ev->accepted.n_ram;
                a->n_disk = ev->accepted.n_disk;
                a->n_computed = ev->accepted.n_computed;
                break;
        case ENGINE_DELTA:
                assert_true(strlen(a->text) + ev->delta.text_size < sizeof(a->text));
                strcat(a->text, ev->delta.text);
                a->n_deltas++;
                if (ev->delta.has_token) {
                        assert_true(a->n_tokens < 4096);
                        a->tokens[a->n_tokens] = ev->delta.token;
                        a->logprobs[a->n_tokens++] = ev->delta.logprob;
                }
                break;
        case ENGINE_DONE:
                a->finish = ev->done.finish;
                a->revision = ev->done.revision;
                a->n_generated = ev->done.n_generated;
                break;
        case ENGINE_CONV:
                a->conv = ev->conv;
                a->conv.name = NULL;
                a->conv.turns = NULL;
                a->conv.tokens = NULL;
                break;
        default:
                break;
        }
        if (ev->final)
                a->kind = ev->kind;
}

void erig_do_all(struct erig *r, struct engine_request *q, struct answer *a, size_t n) {
        size_t left = n;
        uint64_t first = r->next;
        struct err e;

        for (size_t i = 0; i < n; i++) {
                memset(&a[i], 0, sizeof(a[i]));
                q[i].handle = r->next++;
                if (engine_submit(r->en, &q[i], &e) < 0) {
                        a[i].kind = ENGINE_ERROR;
                        a[i].err = e;
                        left--;
                }
        }
        while (left > 0) {
                struct engine_event *ev = next_event(r);

                if (ev->handle >= first) {
                        take_event(&a[ev->handle - first], ev);
                        left -= ev->final;
                } else if (ev->kind == ENGINE_LOG) {
                        print_message("engine: %s\n", ev->err.msg);
                }
                engine_event_free(ev);
        }
}

enum engine_event_kind erig_do(struct erig *r, struct engine_request *q, struct answer *a) {
        struct answer *own = a ? a : calloc(1, sizeof(*own));
        enum engine_event_kind kind;

        assert_non_null(own);
        erig_do_all(r, q, own, 1);
        kind = own->kind;
        if (!a)
                free(own);
        return kind;
}

uint64_t erig_stat(struct erig *r, const char *name) {
        struct engine_request q = {.verb = ENGINE_STATS, .handle = r->next++};
        uint64_t value = 0;
        bool found = false, done = false;

        assert_int_equal(engine_submit(r->en, &q, NULL), 0);
        while (!done) {
                struct engine_event *ev = next_event(r);

                if (ev->handle == q.handle) {
                        assert_int_equal(ev->kind, ENGINE_STATS_RESULT);
                        for (size_t i = 0; i < ev->stats.n; i++)
                                if (strcmp(ev->stats.stats[i].name, name) == 0) {
                                        value = ev->stats.stats[i].value;
                                        found = true;
                                }
                        done = true;
                }
                engine_event_free(ev);
        }
        assert_true(found);
        return value;
}

uint64_t erig_new(struct erig *r, const char *name, const char *system) {
        struct engine_request q = {.verb = ENGINE_OPEN, .name = name, .system = system};
        struct answer *a = calloc(1, sizeof(*a));
        uint64_t id;

        assert_non_null(a);
        if (erig_do(r, &q, a) != ENGINE_CONV)
                fail_msg("open: %s", a->err.msg);
        id = a->conv.id;
        free(a);
        return id;
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

void erig_say(
        struct erig *r, uint64_t conv, const char *text, uint32_t max_tokens, struct answer *a) {
        struct engine_request q = erig_say_request(conv, text, max_tokens);

        if (erig_do(r, &q, a) != ENGINE_DONE)
                fail_msg("say: %s", a->err.msg);
}

enum engine_event_kind erig_simple(
        struct erig *r, enum engine_verb verb, uint64_t conv, struct answer *a) {
        struct engine_request q = {.verb = verb, .conv_id = conv, .at_turn = ENGINE_UNSET};

        return erig_do(r, &q, a);
}
