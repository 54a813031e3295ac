/* SPDX-License-Identifier: MIT */
/* Get: how a conversation is, and what was said. */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "engine/run/run.h"
#include "engine/verbs/turns.h"

static struct turns_answer *turns_of(struct request *request) {
        return request_own(request);
}

/* Moves turns and tokens, and the charge for them, from the request into its final event. */
static void fill_turns(struct request *request, struct engine_conv *out) {
        struct turns_answer *turns = turns_of(request);
        struct store_reading *x = &request->reading;

        out->damaged = x->damaged;
        out->damaged_turn = x->damaged ? x->n_sound_turns : 0;
        out->is_page = request->r.want_turns && request->r.pages;
        out->first_turn = x->page_first;
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
        const struct store_turn_page page = {
                request->r.max_turns, request->r.from_turn, request->r.before_turn};
        bool pages = request->r.want_turns && request->r.pages;
        unsigned what = STORE_READ_SIZE;

        if (request->r.want_turns)
                what |= STORE_READ_TURNS | STORE_READ_TEXTS | STORE_READ_TOOLS | STORE_READ_FIGURES;
        if (request->r.want_tokens || (request->r.want_turns && request->r.want_parts && !pages))
                what |= STORE_READ_TOKENS;
        else if (request->r.want_turns && request->r.want_parts)
                what |= STORE_READ_RUN;
        j->r = store_read_page(engine->store, request->r.owner, request->r.conv_id,
                request->r.conv_name, what, pages ? &page : NULL, request_admit_reading, request,
                &request->reading, &j->err);
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
        .own_size = sizeof(struct turns_answer), .deinit = get_deinit, .start = get, .looks = true};
