/* SPDX-License-Identifier: MIT */
/*
 * Tokenising long texts: for Tokenize, and for a long input of a Continue or Open.
 *
 * 1. A thread of its own does this work, one text at a time (io/workers.c). Meanwhile the engine
 *    thread goes on generating, and the I/O workers serve the register and restores. Users take
 *    turns with their texts.
 * 2. The memory that the work takes is charged before it begins, after a look at the text
 *    (tok_encode_memory()); the tokens are charged as they come.
 * 3. A cancelled request stops within a few thousand tokens or joins.
 * 4. If the answer gets longer than its receiver takes, the work ends at once.
 */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "engine/verbs/verbs.h"

/* The answer to Tokenize. */
struct text_answer {
        struct tok_ids ids;
        struct buf pieces; /* bytes, concatenated */
        uint32_t *ends;    /* [n_ends], as many as ids: the end of each piece */
        size_t n_ends, ends_capacity;
};

static struct text_answer *answer_of(struct request *request) {
        return request_own(request);
}

static void init(struct request *request) {
        struct text_answer *a = answer_of(request);

        a->ids.charge = a->pieces.charge = &request->charge;
        a->ids.stop = &request->cancel;
}

static void deinit(struct engine *engine, struct request *request) {
        struct text_answer *a = answer_of(request);

        (void)engine;
        tok_ids_deinit(&a->ids);
        buf_deinit(&a->pieces);
        free(TAKE_PTR(a->ends));
        charge_give(&request->charge, a->ends_capacity * sizeof(*a->ends));
        a->n_ends = a->ends_capacity = 0;
}

static int push_end(struct request *request, size_t end, struct err *e) {
        struct text_answer *a = answer_of(request);

        if (a->n_ends == a->ends_capacity) {
                size_t n = a->ends_capacity + a->ends_capacity / 2 + 16;
                size_t more = (n - a->ends_capacity) * sizeof(*a->ends);
                uint32_t *p;
                int r = charge_take(&request->charge, more, "the answer", e);

                if (r < 0)
                        return r;
                p = realloc(a->ends, n * sizeof(*p));
                if (!p) {
                        charge_give(&request->charge, more);
                        return err_set(e, ERR_NOMEM, "no memory for an answer");
                }
                a->ends = p;
                a->ends_capacity = n;
        }
        a->ends[a->n_ends++] = (uint32_t)end;
        return 0;
}

/* Append the text of the token. */
static int push_piece(
        struct engine *engine, struct request *request, int32_t token, struct err *e) {
        struct buf *b = &answer_of(request)->pieces;
        size_t n = tok_piece(engine->tok, token, true, NULL, 0);
        int r;

        if (b->size + n > UINT32_MAX)
                return err_set(e, ERR_TOO_LARGE, "the answer has more than 4 GiB");
        r = buf_reserve(b, n);
        if (r < 0)
                return err_set(e, (enum err_code) - r, "no memory for the answer");
        tok_piece(engine->tok, token, true, (char *)b->data + b->size, n);
        b->size += n;
        b->data[b->size] = 0;
        return push_end(request, b->size, e);
}

struct tokenizing {
        struct engine *engine;
        struct request *request;
        uint64_t size; /* of the answer as a message, without the bytes of the pieces */
};

/* Bytes of a number in a message: each holds seven bits. */
static unsigned answer_size(int32_t n) {
        unsigned size = 1;

        while ((n >>= 7) > 0)
                size++;
        return size;
}

static int put_token(void *userdata, int32_t token, struct err *e) {
        struct tokenizing *t = userdata;
        struct request *request = t->request;
        struct text_answer *a = answer_of(request);
        size_t before = a->pieces.size;
        int r = tok_ids_append(&a->ids, &token, 1, e);

        if (r == 0)
                r = push_piece(t->engine, request, token, e);
        t->size += answer_size(token) + answer_size((int32_t)(a->pieces.size - before)) + 1;
        if (r == 0 && request->r.max_answer > 0 && t->size + a->pieces.size > request->r.max_answer)
                r = err_set(e, ERR_TOO_LARGE,
                        "the answer has more than %llu bytes, the longest message that its "
                        "receiver takes: that is reached after %zu tokens",
                        (unsigned long long)request->r.max_answer, a->ids.n);
        return r;
}

static void tokenize_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct tok_fragment f = {request->r.text, request->r.text_size, request->r.special};
        struct tokenizing t = {engine, request, 0};
        struct tok_sink sink = {.put = put_token, .userdata = &t, .stop = &request->cancel};
        size_t size = tok_encode_memory(engine->tok, &f, 1), pieces = f.size + 64;
        int32_t bos = tok_bos(engine->tok);

        j->r = charge_take(&request->charge, size, "tokenising the text", &j->err);
        if (j->r < 0)
                return;
        /* The pieces are as long as the text; growing by doubling would take twice as much. */
        if (request->r.max_answer > 0)
                pieces = (size_t)MIN(pieces, request->r.max_answer);
        j->r = buf_reserve(&answer_of(request)->pieces, pieces);
        if (j->r < 0)
                err_set(&j->err, (enum err_code) - j->r,
                        "no memory for the answer, %zu bytes of text", pieces);
        if (j->r == 0 && request->r.add_bos && bos >= 0)
                j->r = put_token(&t, bos, &j->err);
        if (j->r == 0)
                j->r = tok_encode_each(engine->tok, &f, 1, false, true, &sink, &j->err);
        charge_give(&request->charge, size);
}

/* The event takes over the lists, with their charges. */
static void tokenize_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct text_answer *a = answer_of(request);
        struct engine_event *ev;

        if (j->r < 0) {
                request_fail(engine, request, &j->err);
                return;
        }
        ev = request_answer(request, ENGINE_TOKENS);
        ev->tokens.n = a->ids.n;
        event_adopt(request->final, &request->charge,
                a->ids.capacity * sizeof(*a->ids.ids) + a->pieces.capacity +
                        a->ends_capacity * sizeof(*a->ends));
        ev->tokens.ids = a->ids.ids;
        ev->tokens.pieces = a->pieces.data;
        ev->tokens.piece_ends = a->ends;
        *a = (struct text_answer){0};
        request_finish(engine, request);
}

static void start(struct engine *engine, struct request *request) {
        request_submit_as(engine, request, JOB_TEXT, tokenize_run, tokenize_done);
}

const struct verb verb_tokenize = {.own_size = sizeof(struct text_answer),
        .init = init,
        .deinit = deinit,
        .start = start,
        .looks = true};
