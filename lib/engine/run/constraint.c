/* SPDX-License-Identifier: MIT */
/*
 * Replies with a constraint: a JSON schema or a grammar that their text must meet.
 *
 * 1. A constraint is compiled before the request waits for a place, on the thread that tokenises.
 *    So whatever is wrong with it is told before anything is computed.
 * 2. Compiled constraints are kept for requests with the same text, also for later ones, as long as
 *    idle ones take at most an IDLE_PART of what all requests may hold. They are charged to that
 *    share, as is the trie of the vocabulary, which is made when the first constraint is compiled.
 *    Their size is fixed when they are compiled: generating charges nothing.
 * 3. The state of a reply is a function of the constraint and of the reply's text. It is kept in
 *    the request while the reply is generated, also while the request is parked, and is in no file:
 *    a request that goes on with an open reply makes it again from the reply's tokens.
 * 4. The text is the bytes of the tokens; a space that the first token does not print (SPM) is
 *    none. Tokens that print nothing are not allowed. A token that ends the reply is allowed where
 *    the text may end; if the model has none, the reply ends there with LENGTH, since its turn is
 *    open.
 * 5. Masks are exact but for stacks at the limit of their depth. So the chosen token is followed
 *    before it is taken, and in the rare case that it does not fit, another one is chosen without
 *    it.
 * 6. A forced call becomes a grammar of parts, which lib/chat writes from the definitions of tools and from the
 *    way in which the model writes calls. So it is compiled behind the input, when the definitions
 *    are known; its text is the grammar. Control tokens have a text there that no other text has.
 *    GRAMMAR_OPEN is fed where the reply begins inside of reasoning.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/run/state.h"

#define IDLE_PART 8
#define MAX_IDLE 4
#define CACHE_PART 32
#define MAX_CACHE ((size_t)8 << 20)
#define MAX_PIECE 255 /* bytes of a token: longer ones are never allowed */
#define MAX_TRIES 64

/* --- what is compiled --- */

static struct constraint *constraint_free(struct constraint *k) {
        struct charge charge;

        if (!k)
                return NULL;
        grammar_free(k->grammar);
        free(k->text);
        charge = k->charge;
        free(k);
        charge_deinit(&charge);
        return NULL;
}

void constraints_free(struct run *run) {
        while (!list_empty(&run->constraints)) {
                struct constraint *k = list_entry(run->constraints.next, struct constraint, link);

                list_unlink(&k->link);
                constraint_free(k);
        }
        run->vocab = grammar_vocab_free(run->vocab);
}

/* Forget idle constraints, the least recently used first, until at most @most are left. */
static void trim(struct engine *engine, unsigned most) {
        size_t max_size = ledger_budget(&engine->budget->requests) / IDLE_PART, size = 0;
        struct list *it, *tmp;
        unsigned n = 0;

        list_for_each (it, &engine->run->constraints) {
                const struct constraint *k = list_entry(it, struct constraint, link);

                n += k->n_refs == 0;
                size += k->n_refs == 0 ? grammar_size(k->grammar) : 0;
        }
        list_for_each_safe (it, tmp, &engine->run->constraints) {
                struct constraint *k = list_entry(it, struct constraint, link);

                if (n <= most && size <= max_size)
                        return;
                if (k->n_refs > 0)
                        continue;
                n--;
                size -= grammar_size(k->grammar);
                list_unlink(&k->link);
                constraint_free(k);
        }
}

static struct constraint *find(
        struct engine *engine, enum engine_constraint kind, const void *text, size_t size) {
        struct list *it;

        list_for_each (it, &engine->run->constraints) {
                struct constraint *k = list_entry(it, struct constraint, link);

                if (k->kind == kind && k->size == size && memcmp(k->text, text, size) == 0)
                        return k;
        }
        return NULL;
}

static void take(struct engine *engine, struct request *request, struct constraint *k) {
        k->n_refs++;
        list_unlink(&k->link);
        list_append(&engine->run->constraints, &k->link);
        generation_of(request)->constraint = k;
}

bool constraint_find(struct engine *engine, struct request *request) {
        const struct engine_request *r = &request->r;
        struct constraint *k = NULL;

        if (r->constraint == ENGINE_CONSTRAINT_NONE)
                return true;
        if (r->constraint != ENGINE_CONSTRAINT_CALL)
                k = find(engine, r->constraint, r->constraint_text, r->constraint_size);
        if (k)
                take(engine, request, k);
        else
                trim(engine, MAX_IDLE - 1);
        return k != NULL;
}

void constraint_enter(struct engine *engine, struct request *request) {
        struct generation *g = generation_of(request);
        struct constraint *own = g->constraint, *k;

        if (!own || own->n_refs > 0)
                return;
        k = find(engine, own->kind, own->text, own->size); /* somebody else's, compiled meanwhile */
        if (k)
                constraint_free(own);
        else
                list_append(&engine->run->constraints, &own->link);
        take(engine, request, k ? k : own);
}

void constraint_put(struct engine *engine, struct constraint *k) {
        if (!k)
                return;
        k->n_refs--;
        trim(engine, MAX_IDLE);
}

/* --- tokens --- */

/* The text of a token that prints nothing, behind GRAMMAR_CONTROL. */
static size_t spell_silent(const struct tok *t, int32_t token, char *dst, size_t size) {
        size_t n;
        const char *text = tok_text(t, token, &n);

        if (n == 0)
                return 0;
        if (size > 0)
                dst[0] = (char)GRAMMAR_CONTROL;
        if (size > 1)
                memcpy(dst + 1, text, MIN(n, size - 1));
        return n + 1;
}

/* The token's bytes for a grammar: their number, of which at most @size are written. 0: it has none. */
static size_t spell(const struct tok *t, int32_t token, char *dst, size_t size) {
        char own[MAX_PIECE];
        size_t n = tok_piece(t, token, false, own, sizeof(own));

        if (n == 0)
                return spell_silent(t, token, dst, size);
        if (n > sizeof(own))
                return n;
        for (size_t i = 0; i < n; i++)
                if ((uint8_t)own[i] == GRAMMAR_CONTROL || (uint8_t)own[i] == GRAMMAR_OPEN)
                        return 0; /* in no text that is UTF-8 */
        if (size > 0)
                memcpy(dst, own, MIN(n, size));
        return n;
}

/* --- compiling: on the thread that tokenises --- */

static enum grammar_token token_of(
        void *userdata, uint32_t token, char *dst, size_t size, size_t *ret_size) {
        const struct engine *engine = userdata;
        const int32_t *suppressed;
        size_t n = tok_suppressed(engine->tok, &suppressed);

        for (size_t i = 0; i < n; i++)
                if (suppressed[i] == (int32_t)token)
                        return GRAMMAR_TOKEN_NONE;
        if (tok_is_eog(engine->tok, (int32_t)token))
                return GRAMMAR_TOKEN_END;
        *ret_size = spell(engine->tok, (int32_t)token, dst, size);
        return *ret_size > 0 ? GRAMMAR_TOKEN_TEXT : GRAMMAR_TOKEN_NONE;
}

/* Only this thread writes run.vocab. */
static int make_vocab(struct engine *engine, struct err *e) {
        struct grammar_vocab_source source = {
                .n_tokens = engine->info.n_vocab, .token = token_of, .userdata = engine};

        if (engine->run->vocab)
                return 0;
        return grammar_vocab_new(&engine->run->vocab, &source, &engine->budget->requests, e);
}

static int copy_text(const struct engine_request *r, struct constraint *k, struct err *e) {
        int n = charge_take(&k->charge, r->constraint_size + 64, "a constraint", e);

        if (n < 0)
                return n;
        k->text = malloc(r->constraint_size + 1);
        if (!k->text)
                return err_set(e, ERR_NOMEM, "no memory for a constraint");
        memcpy(k->text, r->constraint_text, r->constraint_size);
        k->size = r->constraint_size;
        return 0;
}

/* The grammar of a call of the tools that hold. */
static int write_call(
        struct engine *engine, const struct request *request, struct constraint *k, struct err *e) {
        const struct generation *g = generation_in(request);
        const char *name = request->r.constraint_size > 0 ? request->r.constraint_text : NULL;
        struct buf text = {.charge = &k->charge, .max = ENGINE_MAX_CONSTRAINT};
        int r;

        if (g->reply_turn.role != CHAT_ASSISTANT)
                return err_set(e, ERR_INVALID, "a call is forced in replies to messages only");
        if (!g->tools && chat_takes_tools(engine->chat))
                return err_set(e, ERR_INVALID, "a call is forced, but the model has no tools");
        r = chat_force_call(engine->chat, g->tools, g->tools_size, name, &text, e);
        k->text = (char *)text.data; /* it keeps its charge */
        k->size = text.size;
        return r;
}

static int compile(
        struct engine *engine, struct request *request, struct constraint *k, struct err *e) {
        static const enum grammar_kind kinds[] = {
                [ENGINE_CONSTRAINT_JSON_SCHEMA] = GRAMMAR_JSON_SCHEMA,
                [ENGINE_CONSTRAINT_GBNF] = GRAMMAR_GBNF,
                [ENGINE_CONSTRAINT_CALL] = GRAMMAR_PARTS};
        size_t cache = ledger_budget(&engine->budget->requests) / CACHE_PART;
        int n = k->kind == ENGINE_CONSTRAINT_CALL ? write_call(engine, request, k, e)
                                                  : copy_text(&request->r, k, e);

        if (n == 0)
                n = make_vocab(engine, e);
        return n < 0 ? n
                     : grammar_new(&k->grammar, kinds[k->kind], k->text, k->size,
                               engine->run->vocab, MIN(cache, MAX_CACHE), &engine->budget->requests,
                               &request->cancel, e);
}

int constraint_compile(struct engine *engine, struct request *request, struct err *e) {
        struct charge charge = {.ledger = &engine->budget->requests};
        struct constraint *k;
        int r = charge_take(&charge, sizeof(*k), "a constraint", e);

        if (r < 0)
                return r;
        k = calloc(1, sizeof(*k));
        if (!k) {
                charge_deinit(&charge);
                return err_set(e, ERR_NOMEM, "no memory for a constraint");
        }
        k->charge = charge;
        k->kind = request->r.constraint;
        list_init(&k->link);
        r = compile(engine, request, k, e);
        if (k->kind == ENGINE_CONSTRAINT_CALL)
                r = err_wrap(e, r, "tool_choice");
        if (r < 0)
                constraint_free(k);
        else
                generation_of(request)->constraint = k;
        return r;
}

/* --- the state --- */

/* Take the token's text; @strip: a leading space is not printed. 0, 1: it does not fit, or an
 * error. */
static int advance(
        struct engine *engine, struct generation *g, int32_t token, bool strip, struct err *e) {
        char piece[MAX_PIECE];
        size_t n = spell(engine->tok, token, piece, sizeof(piece)), from;

        if (n == 0 || n > sizeof(piece))
                return 1;
        from = strip && n > 0 && piece[0] == ' ';
        return grammar_advance(g->constraint->grammar, &g->state, piece + from, n - from, NULL, e);
}

/* The token at which the open reply began that the request goes on with. */
static int open_reply(
        struct engine *engine, const struct request *request, uint32_t *ret, struct err *e) {
        const struct conv *c = request->conv;
        uint32_t i = c->n_turns, header = 0;
        enum chat_role role = i > 0 ? c->turns[i - 1].role : CHAT_RAW;
        int r = 0;

        *ret = request->keep.n_tokens;
        if (request->r.input != ENGINE_INPUT_NONE ||
                (role != CHAT_RAW && conv_chat_tail(engine, c).state == CHAT_CLOSED))
                return 0;
        while (i > 0 && header == 0 && c->turns[i - 1].role == role &&
                c->turns[i - 1].finish != ENGINE_FINISH_NONE &&
                c->turns[i - 1].finish != ENGINE_FINISH_STOP) {
                i--;
                if (role == CHAT_ASSISTANT)
                        r = keep_reply_header(engine, c, &c->turns[i], &header);
                if (r < 0)
                        return err_set(e, ERR_NOMEM, "no memory for a constraint");
                *ret = c->turns[i].start + header;
        }
        return 0;
}

/* A call may be forced in a reply whose invitation has opened reasoning. */
static int start_call(struct engine *engine, struct request *request, struct err *e) {
        static const uint8_t open = GRAMMAR_OPEN;
        struct generation *g = generation_of(request);
        const struct said said = conv_said(request->conv);
        _cleanup_(chat_reply_freep) struct chat_reply *reader = NULL;
        struct said_reply at;
        int r = chat_reply_new(&reader, engine->chat, NULL, 0, &request->charge, e);

        if (r == 0 && !g->goes_on)
                r = chat_reply_header(
                        reader, g->input.ids + g->input.n - g->n_invites, g->n_invites, e);
        else if (r == 0) {
                r = said_find_reply(engine, &said, request->conv->n_turns - 1, &at, e);
                if (r == 0)
                        r = said_feed_header(&said, &at, reader, e);
        }
        if (r < 0 || !chat_reply_reasoning(reader))
                return r;
        return grammar_advance(g->constraint->grammar, &g->state, &open, 1, NULL, e);
}

int constraint_start(struct engine *engine, struct request *request, struct err *e) {
        struct generation *g = generation_of(request);
        const struct transcript t = conv_transcript(request->conv);
        uint32_t from, n = request->keep.n_tokens;
        bool strip;
        int r = open_reply(engine, request, &from, e);

        if (r == 0)
                r = charge_take(&request->charge, GRAMMAR_STATE_SIZE, "a constraint", e);
        if (r == 0)
                r = grammar_start(g->constraint->grammar, &g->state, e);
        if (r == 0 && g->constraint->kind == ENGINE_CONSTRAINT_CALL)
                r = start_call(engine, request, e);
        if (r < 0)
                return r;
        strip = from == 0 || tok_is_special(engine->tok, transcript_token(&t, from - 1));
        for (uint32_t i = from; i < n; i++) {
                struct tok_stream s;

                tok_stream_init(&s, engine->tok, strip && i == from, false);
                r = advance(engine, g, transcript_token(&t, i), s.strip_space, e);
                if (r == 1)
                        return err_set(e, ERR_INVALID,
                                "the reply that this request goes on with does not meet the "
                                "constraint: it fails at token %u",
                                i);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* --- sampling --- */

int32_t constraint_choose(
        struct engine *engine, struct request *request, const float *logits, const uint64_t *mask) {
        struct generation *g = generation_of(request);
        const struct conv *c = request->conv;
        size_t n_recent = MIN((size_t)c->n_all, (size_t)g->params.penalty_last_n);

        g->params.mask = mask;
        return sample_token(engine->run->sampler, &g->params, logits,
                c->tokens + c->n_all - n_recent, n_recent, c->n_all);
}

static bool any(const struct engine *engine) {
        for (size_t i = 0; i < ((size_t)engine->info.n_vocab + 63) / 64; i++)
                if (engine->run->mask[i])
                        return true;
        return false;
}

static void forbid(struct engine *engine, int32_t token) {
        engine->run->mask[token / 64] &= ~((uint64_t)1 << (token % 64));
}

/* Nothing may come next: the text is complete, or the vocabulary cannot spell the rest. */
static int no_token(const struct generation *g, struct err *e) {
        if (!grammar_accepts(&g->state))
                return err_set(e, ERR_UNSUPPORTED,
                        "no token of the vocabulary can come next in the constraint, after %u "
                        "tokens of the reply",
                        g->n_generated);
        if (g->n_generated == 0)
                return err_set(e, ERR_INVALID, "the constraint allows no text");
        return 1;
}

int constraint_sample(struct engine *engine, struct request *request, const float *logits,
        int32_t *ret, struct err *e) {
        struct generation *g = generation_of(request);
        bool strip = g->reply.stream.strip_space;
        int r = grammar_mask(g->constraint->grammar, &g->state, strip, engine->run->mask, e);

        if (r < 0)
                return r;
        for (unsigned i = 0; i < MAX_TRIES; i++) {
                if (!any(engine))
                        return no_token(g, e);
                *ret = constraint_choose(engine, request, logits, engine->run->mask);
                if (tok_is_eog(engine->tok, *ret))
                        return 0;
                r = advance(engine, g, *ret, strip, e);
                if (r <= 0)
                        return r;
                forbid(engine, *ret);
        }
        return err_set(e, ERR_TOO_LARGE, "the reply nests deeper than a constraint can follow");
}
