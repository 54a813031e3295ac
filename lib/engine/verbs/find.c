/* SPDX-License-Identifier: MIT */
/*
 * Find: the conversation whose transcript begins like a list of messages for longest; or how far one that is
 * named does so.
 *
 *      messages ──→ chains of their beginnings ──→ the longest one that the register has
 *                                                            │ candidates, best first
 *                    answer ←── where they cease to agree ←──┘ turns in normal form
 *
 * 1. What is equal is decided by comparing what was said, in normal form (conv/normal.c), never by a
 *    chain (I6). Chains lead to candidates: conversations of the same owner that have a turn with the
 *    chain of a beginning of the messages.
 * 2. The number of conversations does not count: the longest beginning is found by doubled steps and halving
 *    (conv/teller.c, 4), each look-up is one through an index, and of conversations with the same chain a
 *    bounded number is considered. The work of one Find is bounded by the messages, and by MOST_COMPARED
 *    comparisons with histories that are no longer than what they have in common by their chains. If
 *    chains mislead, for which somebody must have made collisions for his own conversations, a shorter
 *    beginning is found, or none.
 * 3. Of candidates that agree for equally long, the order is: those of the session that the request names,
 *    which a gateway knows from its client; those of this vocabulary, since others can't
 *    go on before a Carry; those that end there, before those that go on; those with the exact texts,
 *    before those that differ in white space; those that were changed last.
 * 4. The turns that are found end where the messages do, and the last of them says something: a reply that
 *    nobody has seen, or that says nothing, is not covered. Messages that say nothing and stand directly
 *    behind are covered, since there is nothing to add for them.
 * 5. The answer is of one moment, and holds nothing: the conversation may be gone when it is used. Its row,
 *    with the revision, is as old as the turns that were compared, so expect_revision tells of every change
 *    since then.
 * 6. Where the request names a conversation, it is the only candidate, of each beginning (1, 2, 4 hold), and
 *    the answer also if nothing agrees: then with no turn and no message. One that does not exist, or is
 *    another owner's, is -ERR_NOT_FOUND (I6).
 */
#include <stdlib.h>
#include <string.h>

#include "engine/verbs/verbs.h"

#define MOST_CANDIDATES 16 /* of one beginning */
#define MOST_COMPARED 32   /* in all */

/* A beginning of the messages. */
struct point {
        uint64_t chain;
        uint32_t n_messages;
        /* The next speaker is another one, or it is the user or the system who speaks. */
        bool whole;
};

/* Where messages and turns agree. */
struct place {
        uint64_t conv;
        uint32_t n_turns, n_messages;
        bool session, own_vocab, exact;
};

struct finder {
        struct point *points; /* [n_points] owned */
        size_t n_points;
        uint64_t *chains; /* [n_points] owned: of those that are whole */
        size_t *places;   /* [n_points] owned: their points */
        size_t n_whole;
        uint64_t compared[MOST_COMPARED]; /* conversations */
        size_t n_compared;
        uint64_t named; /* the conversation that the request names; 0: none */
        struct place best;
        struct store_conv row; /* of best.conv */
};

static struct finder *finder_of(struct request *request) {
        return request_own(request);
}

static void deinit(struct engine *engine, struct request *request) {
        struct finder *f = finder_of(request);

        (void)engine;
        free(f->points);
        free(f->chains);
        free(f->places);
}

static int check_cancelled(struct request *request, struct err *e) {
        return atomic_load(&request->cancel) ? err_set(e, ERR_CANCELLED, "cancelled") : 0;
}

/* --- the beginnings of the messages --- */

static size_t tools_size(const struct request *request) {
        return request->r.tools ? strlen(request->r.tools) : 0;
}

/* The assistant, or tools, may say one thing in several messages or turns. */
static bool speaks_on(enum engine_role before, enum engine_role now) {
        return before == now && (now == ENGINE_ASSISTANT || now == ENGINE_TOOL);
}

/* Message @i is the next one; it has led to @chain. */
static void add_point(struct request *request, uint32_t i, uint64_t chain) {
        struct finder *f = finder_of(request);
        struct point *last = f->n_points > 0 ? &f->points[f->n_points - 1] : NULL;

        if (last && chain == last->chain) {
                last->n_messages = i + 1; /* it says nothing */
                return;
        }
        f->points[f->n_points++] = (struct point){chain, i + 1, true};
}

static int tell_messages(struct request *request, struct normal *n, struct err *e) {
        const struct engine_request *r = &request->r;
        struct finder *f = finder_of(request);
        enum engine_role speaker = ENGINE_RAW;
        int k = chain_seed(r->owner, r->tools, tools_size(request), n->items.charge, &n->chain, e);

        for (uint32_t i = 0; k == 0 && i < r->n_messages; i++) {
                uint64_t before = n->chain;

                k = check_cancelled(request, e);
                if (k == 0)
                        k = normal_put_message(n, &r->messages[i], e);
                normal_clear(n);
                if (k < 0 || (n->chain == before && f->n_points == 0))
                        continue; /* nothing was said yet */
                if (n->chain != before) {
                        if (f->n_points > 0)
                                f->points[f->n_points - 1].whole =
                                        !speaks_on(speaker, r->messages[i].role);
                        speaker = r->messages[i].role;
                }
                add_point(request, i, n->chain);
        }
        return k;
}

static int make_points(struct request *request, struct err *e) {
        size_t n = request->r.n_messages;
        struct finder *f = finder_of(request);
        struct normal normal;
        int r = charge_take(&request->charge,
                n * (sizeof(*f->points) + sizeof(*f->chains) + sizeof(*f->places)), "messages", e);

        if (r < 0)
                return r;
        f->points = calloc(n, sizeof(*f->points));
        f->chains = calloc(n, sizeof(*f->chains));
        f->places = calloc(n, sizeof(*f->places));
        if (!f->points || !f->chains || !f->places)
                return err_set(e, ERR_NOMEM, "no memory for messages");
        normal_init(&normal, 0, &request->charge);
        r = tell_messages(request, &normal, e);
        normal_deinit(&normal);
        for (size_t i = 0; i < f->n_points; i++)
                if (f->points[i].whole) {
                        f->chains[f->n_whole] = f->points[i].chain;
                        f->places[f->n_whole++] = i;
                }
        return r;
}

/* --- comparing --- */

/* Messages and turns, told to each other. */
struct match {
        struct request *request;
        struct told told;
        struct normal said, wanted; /* turns, messages: what the other side has not said yet */
        uint32_t n_messages;        /* to compare */
        uint32_t i, k;              /* turns, messages that were told */
        struct place place;
};

static int tell_turn(struct match *m, struct err *e) {
        struct teller *teller = &m->told.teller;
        uint32_t i = m->i++;
        /* A reply that goes on is told with its last turn. */
        int goes_on = m->i < m->told.n ? teller_goes_on(teller, m->i, e) : 0;

        if (goes_on != 0)
                return MIN(goes_on, 0);
        return teller_say(teller, i, &m->said, e);
}

/* Both have said the same up to here. False: but for the reasoning. */
static bool agree(struct match *m) {
        if (!normal_same_reasoning(&m->said, &m->wanted))
                return false;
        m->place.exact = m->place.exact && normal_same_text(&m->said, &m->wanted);
        m->place.n_turns = m->i;
        m->place.n_messages = m->k;
        normal_clear(&m->said);
        normal_clear(&m->wanted);
        return true;
}

/* One more message or turn. 0; 1: that is all; negative: failed. */
static int advance(struct match *m, struct err *e) {
        const struct engine_message *messages = m->request->r.messages;
        bool waits = m->said.items.size > 0; /* for messages */
        int r = check_cancelled(m->request, e);

        if (r < 0)
                return r;
        if (m->wanted.items.size > 0) {
                if (m->i == m->told.n)
                        return 1;
                r = tell_turn(m, e);
        } else {
                if (m->k == m->n_messages)
                        return 1;
                r = normal_put_message(&m->wanted, &messages[m->k++], e);
                /* It says nothing: nothing is missing either. */
                if (r == 0 && !waits && m->wanted.items.size == 0 && m->place.n_turns > 0)
                        m->place.n_messages = m->k;
        }
        if (r != 0 || m->said.items.size == 0 || m->wanted.items.size == 0)
                return r;
        if (!normal_meet(&m->said, &m->wanted))
                return 1;
        if (m->said.items.size == 0 && m->wanted.items.size == 0)
                return agree(m) ? 0 : 1;
        return 0;
}

/* Definitions that hold from the beginning: the same, or none on both sides. Equal chains say so, too. */
static int same_tools(struct match *m, struct err *e) {
        const struct store_reading *reading = &m->request->reading;
        const struct store_turn *first = reading->turns.n > 0 ? &reading->turns.turns[0] : NULL;
        bool tells = first && first->role != CHAT_ASSISTANT && first->extra;
        const char *tools = tells ? first->extra : reading->first_tools;
        size_t size = tells ? first->extra_size : reading->first_tools_size;
        int r = 0;

        if (!tools != !m->request->r.tools)
                return 0;
        if (tools)
                r = normal_put_tools(&m->said, tools, size, e);
        if (r == 0 && tools)
                r = normal_put_tools(&m->wanted, m->request->r.tools, tools_size(m->request), e);
        if (r == 0)
                r = normal_meet(&m->said, &m->wanted) && m->said.items.size == 0 &&
                    m->wanted.items.size == 0;
        normal_clear(&m->said);
        normal_clear(&m->wanted);
        return r;
}

static int compare(struct engine *engine, struct match *m, struct err *e) {
        struct charge *charge = &m->request->charge;
        int r = told_init(&m->told, engine, &m->request->reading, charge, e);

        normal_init(&m->said, 0, charge);
        normal_init(&m->wanted, 0, charge);
        if (r == 0)
                r = same_tools(m, e);
        for (bool same = r > 0; same && r >= 0;) {
                r = advance(m, e);
                same = r == 0;
        }
        normal_deinit(&m->said);
        normal_deinit(&m->wanted);
        told_deinit(&m->told);
        return MIN(r, 0);
}

/* --- the search --- */

static bool was_compared(struct finder *f, uint64_t conv) {
        for (size_t i = 0; i < f->n_compared; i++)
                if (f->compared[i] == conv)
                        return true;
        return false;
}

static bool is_better(const struct place *a, const struct place *b) {
        if (a->n_messages != b->n_messages)
                return a->n_messages > b->n_messages;
        if (a->session != b->session)
                return a->session;
        if (a->own_vocab != b->own_vocab)
                return a->own_vocab;
        return a->exact && !b->exact;
}

/* How far a candidate agrees: the better place of this one and the best so far. */
static int try_candidate(struct engine *engine, struct request *request,
        const struct store_candidate *c, struct err *e) {
        struct match m = {.request = request, .n_messages = (uint32_t)request->r.n_messages};
        struct finder *f = finder_of(request);
        int r = store_read_head(engine->store, request->r.owner, c->conv, c->n_turns,
                request_admit_reading, request, &request->reading, e);

        f->compared[f->n_compared++] = c->conv;
        m.place = (struct place){
                .conv = c->conv, .session = c->session, .own_vocab = c->own_vocab, .exact = true};
        if (r == 0)
                r = compare(engine, &m, e);
        if (r == 0 && m.place.n_turns > 0 && is_better(&m.place, &f->best)) {
                f->best = m.place;
                f->row = request->reading.conv;
        }
        store_reading_deinit(&request->reading);
        charge_give(&request->charge, request->load_size);
        request->load_size = 0;
        /* Closed meanwhile, or damaged: no candidate. */
        return r == -ERR_NOT_FOUND || r == -ERR_CORRUPT ? 0 : r;
}

/* The conversations that seem to have a beginning, best first. */
struct candidates {
        struct store_candidate list[MOST_CANDIDATES];
        size_t n;
};

static int list_candidates(struct engine *engine, struct request *request, uint64_t chain,
        struct candidates *ret, struct err *e) {
        const struct finder *f = finder_of(request);
        int r;

        if (f->named == 0)
                return store_chain_candidates(engine->store, request->r.owner, engine->vocab_hash,
                        request->r.session, chain, ret->list, MOST_CANDIDATES, &ret->n, e);
        ret->list[0] = (struct store_candidate){.conv = f->named};
        r = store_chain_turns(engine->store, f->named, chain, &ret->list[0].n_turns, e);
        ret->n = r == 0 && ret->list[0].n_turns > 0;
        return r;
}

/* Try the conversations that seem to have beginning @p. */
static int try_point(
        struct engine *engine, struct request *request, const struct point *p, struct err *e) {
        struct finder *f = finder_of(request);
        struct candidates found = {.n = 0};
        int r = list_candidates(engine, request, p->chain, &found, e);

        for (size_t i = 0; r == 0 && i < found.n && f->n_compared < MOST_COMPARED; i++) {
                const struct store_candidate *c = &found.list[i];
                const struct place *best = &f->best;

                /* Nothing that follows is better. */
                if (best->n_messages >= p->n_messages && best->exact &&
                        best->session >= c->session && best->own_vocab >= c->own_vocab)
                        break;
                if (!was_compared(f, c->conv))
                        r = try_candidate(engine, request, c, e);
        }
        return r;
}

/* The last point to begin with: behind the longest whole beginning that the register has (or the named
 * conversation), those up to the next whole one may be there too. */
static int last_point(struct engine *engine, struct request *request, size_t *ret, struct err *e) {
        struct finder *f = finder_of(request);
        size_t n = 0;
        int r = store_chain_longest(engine->store, f->named, f->chains, f->n_whole, &n, e);

        if (r == 0)
                *ret = n < f->n_whole ? f->places[n] : f->n_points;
        return r;
}

static int search(struct engine *engine, struct request *request, struct err *e) {
        struct finder *f = finder_of(request);
        size_t n = 0;
        int r = last_point(engine, request, &n, e);

        while (r == 0 && n > 0 && f->n_compared < MOST_COMPARED &&
                f->best.n_messages < f->points[n - 1].n_messages)
                r = try_point(engine, request, &f->points[--n], e);
        return r;
}

/* The conversation that the request names: the answer, unless more of it agrees. */
static int find_named(struct engine *engine, struct request *request, struct err *e) {
        struct finder *f = finder_of(request);
        int r = store_conv_get(engine->store, request->r.owner, request->r.conv_id,
                request->r.conv_name, &f->row, e);

        if (r == 0)
                f->named = f->best.conv = f->row.id;
        return r;
}

/* request_read_noted() has read what is noted. */
static bool is_of_session(const struct request *request) {
        const struct about *about = request->noted.about;

        return request->r.session && about && strcmp(about->session, request->r.session) == 0;
}

/* What else the answer says of the conversation that was found. */
static int read_rest(struct engine *engine, struct request *request, struct err *e) {
        struct finder *f = finder_of(request);
        int r = store_read_admitted(engine->store, request->r.owner, f->best.conv, NULL,
                STORE_READ_SIZE, request_admit_reading, request, &request->reading, e);

        if (r == -ERR_NOT_FOUND && f->named == 0) {
                f->best = (struct place){0}; /* closed meanwhile */
                return 0;
        }
        if (r < 0)
                return r;
        request->sc = f->row;
        request->disk_size = request->reading.disk_size;
        request_read_noted(engine, request);
        if (f->named != 0)
                f->best.session = is_of_session(request);
        return 0;
}

static void find_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        const struct engine_request *r = &request->r;

        j->r = r->conv_id || r->conv_name ? find_named(engine, request, &j->err) : 0;
        if (j->r == 0)
                j->r = make_points(request, &j->err);
        if (j->r == 0)
                j->r = search(engine, request, &j->err);
        if (j->r == 0 && finder_of(request)->best.conv != 0)
                j->r = read_rest(engine, request, &j->err);
}

static void find_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        const struct place *best = &finder_of(request)->best;
        struct engine_event *ev;

        if (j->r < 0) {
                request_fail(engine, request, &j->err);
                return;
        }
        if (best->conv == 0) {
                request_answer(request, ENGINE_FOUND);
                request_finish(engine, request);
                return;
        }
        if (request_answer_conv(request, &ev, &j->err) < 0) {
                request_fail(engine, request, &j->err);
                return;
        }
        ev->kind = ENGINE_FOUND;
        ev->found = (struct engine_found){
                best->n_turns, best->n_messages, request->r.session && !best->session};
        request_finish_held(engine, request);
}

/* Bytes to be hashed: long ones wait for their turn with other long texts. */
static size_t input_size(const struct engine_request *r) {
        size_t n = r->tools ? strlen(r->tools) : 0;

        for (size_t i = 0; i < r->n_messages; i++) {
                const struct engine_message *m = &r->messages[i];

                n += m->text_size;
                for (size_t k = 0; k < m->n_calls; k++)
                        n += strlen(m->calls[k].arguments);
                for (size_t k = 0; k < m->n_results; k++)
                        n += strlen(m->results[k].text);
        }
        return n;
}

static void start(struct engine *engine, struct request *request) {
        enum job_kind kind = text_is_long(input_size(&request->r)) ? JOB_TEXT : JOB_VERB;
        struct err e;

        if (request->r.n_messages > 0) {
                request_submit_as(engine, request, kind, find_run, find_done);
                return;
        }
        err_set(&e, ERR_INVALID, "no message is given");
        request_fail(engine, request, &e);
}

const struct verb verb_find = {.own_size = sizeof(struct finder),
        .deinit = deinit,
        .start = start,
        .looks = true,
        .is_long = true};
