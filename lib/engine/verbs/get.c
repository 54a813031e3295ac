/* SPDX-License-Identifier: MIT */
/* Get and List: answers that describe conversations. */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "engine/run/run.h"
#include "engine/verbs/turns.h"

#define LIST_PART 4 /* a page takes at most this part of the share of requests */
/* A row as it was read and its copy in the answer, with the name and the tenant's label. */
#define ROW_SIZE                                                                                   \
        (sizeof(struct store_conv) + sizeof(struct engine_conv) + sizeof(uint64_t) +               \
                2 * STORE_NAME_MAX)

static struct turns_answer *turns_of(struct request *request) {
        return request_own(request);
}

/* Moves turns and tokens, and the charge for them, from the request into its final event. */
static void fill_turns(struct request *request, struct engine_conv *out) {
        struct turns_answer *turns = turns_of(request);
        struct store_reading *x = &request->reading;

        out->damaged = x->damaged;
        out->damaged_turn = x->damaged ? x->n_sound_turns : 0;
        out->turns = TAKE_PTR(turns->turns);
        out->n_turn_list = turns->n;
        turns->n = 0;
        out->tools = TAKE_PTR(x->tools);
        if (request->r.want_tokens) {
                out->tokens = TAKE_PTR(x->tokens);
                out->n_token_list = (uint32_t)x->n_tokens;
        }
        event_adopt(request->final, &request->charge, request->load_size + turns->charged);
        request->load_size = turns->charged = 0;
}

static void get_deinit(struct engine *engine, struct request *request) {
        (void)engine;
        turns_answer_deinit(turns_of(request));
}

static void get_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        unsigned what = STORE_READ_SIZE;

        if (request->r.want_turns)
                what |= STORE_READ_TURNS | STORE_READ_TEXTS | STORE_READ_TOOLS | STORE_READ_FIGURES;
        if (request->r.want_tokens || (request->r.want_turns && request->r.want_parts))
                what |= STORE_READ_TOKENS;
        j->r = store_read_admitted(engine->store, request->r.owner, request->r.conv_id,
                request->r.conv_name, what, request_admit_reading, request, &request->reading,
                &j->err);
        if (j->r < 0)
                return;
        request->sc = request->reading.conv;
        request->disk_size = request->reading.disk_size;
        request_read_noted(engine, request);
        if (request->r.want_turns)
                j->r = turns_answer_make(engine, request, turns_of(request), &j->err);
}

/* What the engine knows of a reply that is not done. */
static int fill_writing(
        struct engine *engine, struct request *request, struct engine_conv *out, struct err *e) {
        const struct conv *c = convs_find(engine, request->sc.id);

        if (!c || !c->busy || !c->generates)
                return 0;
        return writing_fill(c->busy, request->r.want_turns, request->final, &out->writing, e);
}

static void get_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct engine_event *ev;

        if (j->r == 0 && request->reading.damaged)
                conv_tell_damage(engine, &request->reading);
        if (j->r < 0 || request_answer_conv(request, &ev, &j->err) < 0) {
                request_fail(engine, request, &j->err);
                return;
        }
        if (fill_writing(engine, request, &ev->conv, &j->err) < 0) {
                request_fail(engine, request, &j->err);
                return;
        }
        fill_turns(request, &ev->conv);
        request_finish_held(engine, request);
}

static void get(struct engine *engine, struct request *request) {
        request_submit(engine, request, get_run, get_done);
}

const struct verb verb_get = {
        .own_size = sizeof(struct turns_answer), .deinit = get_deinit, .start = get};

/* --- a page of conversations --- */

struct page {
        struct store_conv *rows; /* [n] */
        uint64_t *disk_sizes;    /* [n], of the conversations' records */
        size_t n;
};

static struct page *page_of(struct request *request) {
        return request_own(request);
}

static void page_deinit(struct engine *engine, struct request *request) {
        (void)engine;
        free(page_of(request)->rows);
        free(page_of(request)->disk_sizes);
}

/* The most rows of a page: they must fit into a part of the share of all requests. */
static size_t page_size(struct engine *engine, const struct engine_request *r) {
        size_t fit = ledger_budget(&engine->budget->requests) / LIST_PART / ROW_SIZE;
        size_t max = r->limit ? r->limit : ENGINE_MAX_LIST;

        return MAX(MIN(max, fit), (size_t)1);
}

static void list_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct page *page = page_of(request);
        size_t max = page_size(engine, &request->r);
        uint64_t owner = request->r.all_users && request->r.admin ? OWNER_ANY : request->r.owner;

        /* One row more than a page shows whether there are more. */
        j->r = charge_take(&request->charge, (max + 1) * (sizeof(*page->rows) + sizeof(uint64_t)),
                "a list", &j->err);
        if (j->r < 0)
                return;
        page->rows = calloc(max + 1, sizeof(*page->rows));
        page->disk_sizes = calloc(max + 1, sizeof(*page->disk_sizes));
        if (!page->rows || !page->disk_sizes) {
                j->r = err_set(&j->err, ERR_NOMEM, "no memory for a list");
                return;
        }
        j->r = store_conv_list(engine->store, owner, request->r.after_id, page->rows,
                page->disk_sizes, max + 1, &page->n, &j->err);
        request->r.limit = (uint32_t)max;
}

static void list_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct page *page = page_of(request);
        size_t n = MIN(page->n, (size_t)request->r.limit);
        struct engine_event *ev;

        if (j->r < 0) {
                request_fail(engine, request, &j->err);
                return;
        }
        ev = request_answer(request, ENGINE_CONVS);
        ev->convs.more = page->n > request->r.limit;
        ev->convs.convs = event_calloc(request->final, n, sizeof(*ev->convs.convs), &j->err);
        if (!ev->convs.convs) {
                request_fail(engine, request, &j->err);
                return;
        }
        while (ev->convs.n < n) {
                size_t i = ev->convs.n;
                struct engine_conv *out = &ev->convs.convs[i];

                if (event_conv(request->final, out, &page->rows[i], &j->err) < 0) {
                        request_fail(engine, request, &j->err);
                        return;
                }
                request_fill_residency(engine, &page->rows[i], page->disk_sizes[i], out);
                ev->convs.n++;
        }
        request_finish(engine, request);
}

static void list(struct engine *engine, struct request *request) {
        request_submit(engine, request, list_run, list_done);
}

const struct verb verb_list = {
        .own_size = sizeof(struct page), .deinit = page_deinit, .start = list};
