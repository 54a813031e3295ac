/* SPDX-License-Identifier: MIT */
/*
 * Carry: give a conversation that was made with another model the tokens of this one, so that it can
 * go on.
 *
 *      read the turns ──→ write each anew ──→ what the memory leaves out ──→ commit
 *         (worker)        (the thread of texts, in slices)                  (worker)
 *
 * 1. History is written anew here and nowhere else (I1). The texts of the turns stay as they are in
 *    the register. Their tokens are what this model's chat format makes of them, as if the
 *    conversation had been held with this model: a message through the format, with the definitions
 *    of tools that were told with it; a reply as its invitation, its text, and the end token if the
 *    model had ended it; raw text as raw text. So a carried conversation has the bits of a fresh one
 *    with the same texts (I2).
 * 2. One transaction replaces tokens, vocabulary, gap and links (lib/store/carry.c). Until then
 *    nothing has changed, and whatever fails leaves the old conversation (I4). Forks are
 *    conversations of their own, and keep their tokens.
 * 3. The request holds the conversation all the time, so its turns stay as they were read.
 * 4. What cannot be carried is refused, and the error names the turn: a message that the chat format
 *    refuses in its place, and a turn that was given as tokens and so has no text.
 * 5. The new tokens must fit the context. A conversation with overflow "shift" gets the gap that
 *    shift_plan() finds; the old gap means nothing for the new tokens.
 * 6. Places that count tokens (where a fork began, what is published) go to the end of the same turn.
 *    Logit biases name tokens of the old vocabulary, and are dropped; the answer tells how many.
 */
#include <stdlib.h>

#include "engine/verbs/verbs.h"
#include "tok/tok.h"

/* The text of a slice in bytes, each turn counting for at least TURN_COST: rendering costs time even
 * for a short message. Other users' texts have their turn between two slices. */
#define SLICE ((size_t)64 << 10)
#define TURN_COST ((size_t)1 << 10)

struct carrying {
        /* The conversation as far as it is written. It is in no table: conv_chat_tail() and
         * shift_plan() look at its turns and tokens. */
        struct conv draft;
        struct tok_ids tokens; /* of the draft, the whole transcript */
        uint32_t *ends;        /* [number of turns] owned */
        uint64_t *chains;      /* likewise: replies are read anew, with this model's marks */
        uint32_t fork_pos, n_published;
        struct gap gap;
        uint32_t n_tokens_before, n_biases;
};

static struct carrying *carrying_of(struct request *request) {
        return request_own(request);
}

static void init(struct request *request) {
        carrying_of(request)->tokens.charge = &request->charge;
        carrying_of(request)->tokens.stop = &request->cancel;
}

static void deinit(struct engine *engine, struct request *request) {
        struct carrying *x = carrying_of(request);

        (void)engine;
        tok_ids_deinit(&x->tokens);
        free(x->draft.turns);
        free(x->ends);
        free(x->chains);
}

static int check_cancelled(struct request *request, struct err *e) {
        return atomic_load(&request->cancel)
                       ? err_set(e, ERR_CANCELLED, "cancelled; nothing was changed")
                       : 0;
}

/* --- writing the turns anew --- */

/* Text after which nothing is put, and before which nothing is: a reply goes on where its invitation
 * or its beginning ends. */
static int write_text(struct engine *engine, struct carrying *x, const struct store_turn *t,
        bool starts, struct err *e) {
        const struct tok_fragment f = {.text = t->text, .size = t->text_size};

        return tok_encode(engine->tok, &f, 1, false, starts, 0, &x->tokens, e);
}

/* A reply has the tokens that were sampled after its invitation. These begin a text if the invitation
 * ends with a special token, as generate_token() takes it. */
static int write_reply(struct engine *engine, struct carrying *x, const struct store_turn *t,
        const struct chat_tail *tail, struct err *e) {
        int32_t end = t->role == CHAT_RAW ? tok_eos(engine->tok) : chat_end_token(engine->chat);
        bool goes_on = tail->state == CHAT_OPEN_REPLY || tail->state == CHAT_ENDED_REPLY;
        size_t n;
        int r = 0;

        if (t->role == CHAT_ASSISTANT && !goes_on)
                r = chat_append_reply_start(engine->chat, tail, 0, &x->tokens, e);
        n = x->tokens.n;
        if (r == 0)
                r = write_text(engine, x, t,
                        n == 0 || tok_is_special(engine->tok, x->tokens.ids[n - 1]), e);
        if (r == 0 && t->finish == ENGINE_FINISH_STOP && end >= 0)
                r = tok_ids_append(&x->tokens, &end, 1, e);
        return r;
}

/* Memory for what is read out of a turn: of that turn only. */
struct turn_memory {
        struct request *request;
        size_t charged;
};

static void *take_block(void *arg, size_t n, struct err *e) {
        struct turn_memory *memory = arg;
        void *block;

        if (charge_take(&memory->request->charge, n, "a message of tools", e) < 0)
                return NULL;
        memory->charged += n;
        block = malloc(MAX(n, (size_t)1));
        if (!block)
                err_set(e, ERR_NOMEM, "no memory for a message of tools");
        return block;
}

/* Definitions are told with the messages with which they were told. */
static void find_tools(
        const struct request *request, const struct store_turn *t, struct chat_input *in) {
        const struct store_reading *all = &request->reading;

        if (t->role != CHAT_ASSISTANT && t->extra) {
                in->tools = t->extra;
                in->tools_size = t->extra_size;
        } else if (t == all->turns.turns && t->role != CHAT_ASSISTANT && all->first_tools) {
                in->tools = all->first_tools;
                in->tools_size = all->first_tools_size;
        }
}

/* A message; lib/chat charges for what it needs itself. */
static int write_message(struct engine *engine, struct request *request, const struct store_turn *t,
        const struct chat_tail *tail, struct err *e) {
        struct turn_memory memory = {.request = request};
        const struct said_memory from = {take_block, &memory, &request->charge};
        struct chat_message messages[ENGINE_MAX_CALLS];
        struct chat_call calls[ENGINE_MAX_CALLS];
        struct chat_input in = {.messages = messages, .n = 1};
        struct engine_result *results = NULL;
        struct given given = {0};
        int r = 0;

        messages[0] = (struct chat_message){
                .role = (enum chat_role)t->role, .text = t->text, .size = t->text_size};
        if (t->role == CHAT_TOOL) {
                r = results_parse(t->text, t->text_size, &from, &results, &in.n, e);
                if (r == 0)
                        input_results(results, in.n, messages);
        } else if (t->role == CHAT_ASSISTANT && t->extra) {
                r = given_parse(t->extra, t->extra_size, &from, &given, e);
                if (r == 0)
                        input_given(&given, calls, &messages[0]);
        }
        find_tools(request, t, &in);
        if (r == 0 && in.tools)
                r = chat_check_tools(engine->chat, in.tools, in.tools_size, e);
        if (r == 0)
                r = chat_append(engine->chat, tail, &in, 0, &carrying_of(request)->tokens, e);
        free(results);
        free(given.calls);
        charge_give(&request->charge, memory.charged);
        return r;
}

static int write_turn(
        struct engine *engine, struct request *request, const struct store_turn *t, struct err *e) {
        struct carrying *x = carrying_of(request);
        struct chat_tail tail = conv_chat_tail(engine, &x->draft);
        bool raw = t->role == CHAT_RAW, reply = t->finish != ENGINE_FINISH_NONE;
        size_t n = raw || reply ? text_memory(engine, t->text, t->text_size, false) : 0;
        int r;

        if (raw && !reply && t->text_size == 0 && t->end > t->start)
                return err_set(e, ERR_UNSUPPORTED,
                        "it was given as tokens, and has no text that could be written anew");
        r = charge_take(&request->charge, n, "tokenising a turn", e);
        if (r < 0)
                return r;
        if (reply)
                r = write_reply(engine, x, t, &tail, e);
        else if (raw)
                r = input_raw(
                        engine, t->text, t->text_size, tail.state == CHAT_EMPTY, 0, &x->tokens, e);
        else
                r = write_message(engine, request, t, &tail, e);
        charge_give(&request->charge, n);
        if (r == 0 && x->tokens.n >= ENGINE_UNSET)
                r = err_set(e, ERR_TOO_LARGE, "the conversation has too many tokens");
        return r;
}

/* The next turn of the draft. */
static int carry_turn(struct engine *engine, struct request *request, struct err *e) {
        struct carrying *x = carrying_of(request);
        struct conv *draft = &x->draft;
        uint32_t i = draft->n_turns, start = (uint32_t)x->tokens.n;
        const struct store_turn *t = &request->reading.turns.turns[i];
        int r = write_turn(engine, request, t, e);

        if (r < 0 && check_cancelled(request, e) < 0)
                return -ERR_CANCELLED;
        if (r < 0)
                return err_wrap(e, r, "turn %u (%s) cannot be carried over", i,
                        chat_role_name((enum chat_role)t->role));
        x->ends[i] = (uint32_t)x->tokens.n;
        draft->turns[draft->n_turns++] = (struct conv_turn){(enum chat_role)t->role, start,
                x->ends[i], (enum engine_finish)t->finish, t->extra};
        if (t->end <= request->sc.fork_pos)
                x->fork_pos = x->ends[i];
        if (t->end <= request->sc.n_published)
                x->n_published = x->ends[i];
        return 0;
}

static int too_long(const struct carrying *x, uint32_t context, struct err *e) {
        uint32_t n = (uint32_t)x->tokens.n;

        return err_set(e, ERR_CONTEXT,
                "with this model the conversation has %u tokens instead of %u, %u more than the "
                "context of %u",
                n, x->n_tokens_before, n - context, context);
}

/* All turns are written: do they fit the context, and with which gap? */
static int plan(struct engine *engine, struct request *request, struct err *e) {
        struct carrying *x = carrying_of(request);
        uint32_t n = (uint32_t)x->tokens.n, context = engine->info.context;
        const struct shift_need need = {.limit = context};
        const struct keep all = {.n_turns = x->draft.n_turns, .n_tokens = n};
        int r;

        if (request->sc.overflow != STORE_OVERFLOW_SHIFT)
                return n <= context ? 0 : too_long(x, context, e);
        x->draft.tokens = x->tokens.ids;
        r = shift_plan(engine, &x->draft, &all, &need, &x->gap, e);
        x->draft.tokens = NULL; /* still owned by x->tokens */
        return r < 0 ? err_wrap(e, r, "with this model the conversation has %u tokens", n) : 0;
}

/* What there is no memory for stays unknown. */
static void tell_chains(struct engine *engine, struct request *request) {
        struct carrying *x = carrying_of(request);
        const struct store_reading *all = &request->reading;
        struct teller t = {.engine = engine,
                .charge = &request->charge,
                .said = {{.memory = x->tokens.ids}, x->draft.turns, all->conv.created_usec},
                .turns = all->turns.turns,
                .tools = all->first_tools,
                .tools_size = all->first_tools_size,
                .owner = all->conv.owner};

        (void)teller_chain_all(&t, x->draft.n_turns, x->chains, NULL);
}

static void write_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct carrying *x = carrying_of(request);
        size_t done = 0;

        while (j->r == 0 && x->draft.n_turns < request->reading.turns.n && done < SLICE) {
                done += request->reading.turns.turns[x->draft.n_turns].text_size + TURN_COST;
                j->r = check_cancelled(request, &j->err);
                if (j->r == 0)
                        j->r = carry_turn(engine, request, &j->err);
        }
        if (j->r == 0 && x->draft.n_turns == request->reading.turns.n) {
                tell_chains(engine, request);
                j->r = plan(engine, request, &j->err);
        }
}

/* --- committing --- */

static void commit_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct carrying *x = carrying_of(request);
        const struct store_carried carried = {.model = engine->info.fingerprint,
                .vocab = engine->vocab_hash,
                .ends = x->ends,
                .chains = x->chains,
                .n_turns = x->draft.n_turns,
                .tokens = x->tokens.ids,
                .n_tokens = x->tokens.n,
                .gap = x->gap,
                .fork_pos = request->sc.fork_pos > 0 ? x->fork_pos : 0,
                .n_published = request->sc.n_published > 0 ? x->n_published : 0};
        uint64_t id = request->sc.id;
        struct store_gone gone = {0};
        unsigned tries = 0;

        j->r = check_cancelled(request, &j->err);
        if (j->r < 0)
                return;
        do {
                j->r = store_carry(engine->store, id, &carried, &request->revision, &gone, &j->err);
        } while (register_retry(engine, &tries, j->r, &j->err));
        if (j->r < 0)
                return;
        records_release(engine, &gone);
        store_gone_deinit(&gone);
        j->r = store_conv_get(engine->store, request->r.owner, id, NULL, &request->sc, &j->err);
        request_read_noted(engine, request);
}

static void commit_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct carrying *x = carrying_of(request);
        struct engine_event *answer;

        /* Whatever happened, the next request loads it anew, as the register has it. */
        request->conv->stale = true;
        if (request->revision > 0) /* committed, even if reading it back failed */
                notice_conv(engine, ENGINE_NOTICE_REWOUND, request->conv->owner, request->conv->id,
                        request->revision);
        if (j->r < 0) {
                request_fail(engine, request, &j->err);
                return;
        }
        register_removed(engine);
        if (request->conv->n_published > 0) {
                request->conv->n_published = 0; /* of the old tokens */
                share_unpublish(engine);
        }
        answer = request_answer_done(engine, request);
        if (!answer)
                return;
        answer->conv.carried = true;
        answer->conv.n_tokens_before = x->n_tokens_before;
        answer->conv.n_biases_dropped = x->n_biases;
        request_finish_held(engine, request);
}

static void write_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);

        if (j->r < 0)
                request_fail(engine, request, &j->err);
        else if (carrying_of(request)->draft.n_turns < request->reading.turns.n)
                io_submit(engine, j);
        else
                request_submit(engine, request, commit_run, commit_done);
}

/* --- reading --- */

static int begin(struct request *request, struct err *e) {
        struct carrying *x = carrying_of(request);
        const struct store_conv *c = &request->sc;
        size_t n = request->reading.turns.n + 1;
        int r = charge_take(&request->charge,
                n * (sizeof(*x->draft.turns) + sizeof(*x->ends) + sizeof(*x->chains)),
                "carrying a conversation over", e);

        if (r < 0)
                return r;
        x->draft.turns = calloc(n, sizeof(*x->draft.turns));
        x->ends = calloc(n, sizeof(*x->ends));
        x->chains = calloc(n, sizeof(*x->chains));
        if (!x->draft.turns || !x->ends || !x->chains)
                return err_set(e, ERR_NOMEM, "no memory to carry a conversation over");
        x->draft.created_usec = c->created_usec;
        x->draft.opened_with_tools = c->tools_size > 0;
        x->n_tokens_before = c->n_tokens;
        x->n_biases = c->sampling.has & SAMPLING_BIASES ? c->sampling.n_biases : 0;
        return 0;
}

static void read_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct store_reading *x = &request->reading;

        j->r = store_read_admitted(engine->store, request->r.owner, request->sc.id, NULL,
                STORE_READ_TURNS | STORE_READ_TEXTS | STORE_READ_TOOLS, request_admit_reading,
                request, x, &j->err);
        if (j->r < 0)
                return;
        request->sc = x->conv;
        if (x->damaged) {
                j->err = x->damage;
                j->r = -ERR_CORRUPT;
        } else {
                j->r = begin(request, &j->err);
        }
}

static void read_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);

        if (j->r < 0)
                request_fail(engine, request, &j->err);
        else
                request_submit_as(engine, request, JOB_TEXT, write_run, write_done);
}

/* A conversation of this vocabulary: the answer is how it is. */
static void look_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);

        j->r = store_conv_get(
                engine->store, request->r.owner, request->sc.id, NULL, &request->sc, &j->err);
        request_read_noted(engine, request);
}

static int act(struct engine *engine, struct request *request, struct err *e) {
        (void)e;
        if (request->conv->foreign_vocab)
                request_submit(engine, request, read_run, read_done);
        else
                request_submit(engine, request, look_run, request_row_done);
        return 0;
}

const struct verb verb_carry = {.works = true,
        .own_size = sizeof(struct carrying),
        .init = init,
        .deinit = deinit,
        .act = act,
        .needs_all = true,
        .is_long = true};
