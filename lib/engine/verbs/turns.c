/* SPDX-License-Identifier: MIT */
/*
 * The turns of an answer to Get.
 *
 * 1. Parts of a reply are read from its tokens, those of a given message from what was given with it
 *    (conv/parts.c). A turn that was damaged, or stands behind damage, has none: its tokens are not
 *    known.
 * 2. A reply that later turns go on with is read once, from its beginning: reading a history takes time
 *    in proportion to its length. What a reader holds back at the end of a turn (it may be the beginning
 *    of a mark) comes with the turn that goes on. The last turn of a reply has the rest.
 * 3. Of a reply that ended at a stop string, the parts end there, as its text does, unless a later turn
 *    goes on with it: then the model has seen the stop string, and the parts have it.
 * 4. A page of turns has the same parts as all turns have: a reply that the page begins within is read from
 *    its beginning, and what belongs to earlier turns is dropped. Of the history before that reply nothing is needed
 *    but the role that it answers, and of what is behind the page one turn (STORE_READ_RUN): the time that a page takes
 *    does not depend on how long the history is.
 * 5. Texts that have not the form of results, or of what is given with a message, can only come from a
 *    damaged register: the turn then has a text and nothing else.
 */
#include "engine/verbs/turns.h"

#include <stdlib.h>
#include <string.h>

struct maker {
        struct engine *engine;
        struct request *request;
        struct turns_answer *answer;
        struct conv_turn *turns; /* owned: of all rows that were read. Rows are numbered as here */
        uint32_t skip, end;      /* the answer has rows [skip, end) */
        uint32_t n;              /* rows whose tokens are known */
        struct said said;
        struct parts parts;
        /* Of the reply that is being read. */
        struct chat_reply *reader;
        uint32_t begin;
};

static void *take_block(void *arg, size_t n, struct err *e) {
        struct maker *m = arg;
        void *block;

        if (charge_take(&m->request->charge, n, "the answer", e) < 0)
                return NULL;
        m->answer->charged += n;
        block = calloc(1, MAX(n, (size_t)1));
        if (!block)
                err_set(e, ERR_NOMEM, "no memory for an answer");
        return block;
}

void turns_answer_deinit(struct turns_answer *t) {
        for (uint32_t i = 0; i < t->n; i++) {
                free(t->turns[i].text);
                free(t->turns[i].results);
                free(t->turns[i].parts);
                free(t->turns[i].tools);
                free(t->turns[i].figures);
        }
        free(t->turns);
        *t = (struct turns_answer){0};
}

/* Row @i, which is in the answer. */
static struct engine_turn *turn_at(const struct maker *m, uint32_t i) {
        return &m->answer->turns[i - m->skip];
}

/* --- what was given --- */

static int add_results(struct maker *m, struct engine_turn *t, struct err *e) {
        const struct said_memory memory = {take_block, m, &m->request->charge};
        int r = results_parse(
                (const char *)t->text, t->text_size, &memory, &t->results, &t->n_results, e);

        if (r != -ERR_INVALID)
                return r;
        t->n_results = 0;
        return 0;
}

static int add_given(
        struct maker *m, struct engine_turn *t, const struct store_turn *from, struct err *e) {
        const struct said_memory memory = {take_block, m, &m->request->charge};
        struct given given = {0};
        int r = 0;

        if (from->extra)
                r = given_parse(from->extra, from->extra_size, &memory, &given, e);
        if (r == -ERR_INVALID) {
                given.reasoning = NULL;
                given.n_calls = 0;
                r = 0;
        }
        parts_clear(&m->parts);
        m->parts.at = from->start;
        if (r == 0)
                r = parts_add_given(&m->parts, (const char *)t->text, t->text_size, &given, e);
        if (r == 0)
                r = parts_take(&m->parts, take_block, m, &t->parts, &t->n_parts, e);
        free(given.calls);
        return r;
}

/* --- replies --- */

/* The definitions that hold for turn @i. */
static void tools_at(const struct maker *m, uint32_t i, const char **ret, size_t *ret_size) {
        const struct store_reading *x = &m->request->reading;

        while (i-- > m->skip)
                if (m->turns[i].role != CHAT_ASSISTANT && turn_at(m, i)->tools) {
                        *ret = turn_at(m, i)->tools;
                        *ret_size = strlen(*ret);
                        return;
                }
        *ret = x->first_tools;
        *ret_size = x->first_tools_size;
}

/* A reader for the reply that begins with turn @i, fed with what invites it. */
static int begin_reply(struct maker *m, uint32_t i, uint32_t header, struct err *e) {
        const struct said_reply at = {i, m->turns[i].start, m->turns[i].start + header};
        const char *tools = NULL;
        size_t size = 0;
        int r;

        m->reader = chat_reply_free(m->reader);
        tools_at(m, i, &tools, &size);
        r = chat_reply_new(&m->reader, m->engine->chat, tools, size, &m->request->charge, e);
        m->parts.at = m->begin = at.begin;
        return r < 0 ? r : said_feed_header(&m->said, &at, m->reader, e);
}

/* Does the next turn go on with the reply of turn @i? */
static int next_goes_on(struct maker *m, uint32_t i, struct err *e) {
        uint32_t header;
        int r = 0;

        if (i + 1 < m->n && m->turns[i + 1].role == CHAT_ASSISTANT &&
                m->turns[i + 1].finish != ENGINE_FINISH_NONE)
                r = said_goes_on(m->engine, &m->said, i + 1, &header);
        return r < 0 ? err_set(e, (enum err_code) - r, "no memory to read a reply") : r;
}

static int add_reply(struct maker *m, uint32_t i, struct err *e) {
        const struct conv_turn *t = &m->turns[i];
        struct engine_turn *to = i >= m->skip ? turn_at(m, i) : NULL;
        uint32_t header = 0;
        int goes_on = said_goes_on(m->engine, &m->said, i, &header), next, r = 0;

        if (goes_on < 0)
                return err_set(e, (enum err_code) - goes_on, "no memory to read a reply");
        next = next_goes_on(m, i, e);
        if (next < 0)
                return next;
        parts_clear(&m->parts);
        if (!goes_on || !m->reader)
                r = begin_reply(m, i, header, e);
        if (r == 0 && t->finish == ENGINE_FINISH_STOP_STRING && !next && !goes_on && to)
                r = said_feed_text(m->engine, &m->said, i, t->start + header,
                        (const char *)to->text, to->text_size, m->reader, parts_add, &m->parts, e);
        else if (r == 0)
                r = said_feed(&m->said, t->start + header, t->end, m->reader, &m->parts, e);
        if (r == 0 && !next) {
                r = chat_reply_finish(m->reader, parts_add, &m->parts, e);
                m->reader = chat_reply_free(m->reader);
        }
        return r < 0 || !to ? r : parts_take(&m->parts, take_block, m, &to->parts, &to->n_parts, e);
}

/* --- all --- */

static int add_turn(struct maker *m, uint32_t i, struct err *e) {
        struct store_turn *from = &m->request->reading.turns.turns[i];
        struct engine_turn *to = turn_at(m, i);

        *to = (struct engine_turn){.role = (enum engine_role)from->role,
                .start = from->start,
                .end = from->end,
                .finish = (enum engine_finish)from->finish,
                .text = (uint8_t *)(uintptr_t)from->text,
                .text_size = from->text_size,
                .created_usec = from->created_usec};
        from->text = NULL;
        to->figures = (struct figures *)(uintptr_t)from->figures;
        from->figures = NULL;
        m->answer->n = i + 1 - m->skip;
        if (from->role == CHAT_TOOL)
                return add_results(m, to, e);
        return 0;
}

static void add_tools(struct maker *m, uint32_t i) {
        struct store_turn *from = &m->request->reading.turns.turns[i];

        if (from->role == CHAT_ASSISTANT || !from->extra || strlen(from->extra) != from->extra_size)
                return;
        turn_at(m, i)->tools = (char *)(uintptr_t)from->extra;
        from->extra = NULL;
}

static int add_parts(struct maker *m, uint32_t i, struct err *e) {
        if (m->turns[i].role != CHAT_ASSISTANT)
                return 0;
        if (m->turns[i].finish == ENGINE_FINISH_NONE)
                return i < m->skip ? 0
                                   : add_given(m, turn_at(m, i),
                                             &m->request->reading.turns.turns[i], e);
        return add_reply(m, i, e);
}

/* The row that the parts of the answer are read from: a reply may begin before the page. */
static int first_with_parts(struct maker *m, uint32_t *ret, struct err *e) {
        struct said_reply reply;
        int r = 0;

        *ret = m->skip;
        if (m->skip >= m->n || m->turns[m->skip].role != CHAT_ASSISTANT)
                return 0;
        r = said_find_reply(m->engine, &m->said, m->skip, &reply, e);
        if (r == 0)
                *ret = reply.turn;
        return r;
}

static int add_all_parts(struct maker *m, struct err *e) {
        uint32_t i;
        int r = first_with_parts(m, &i, e);

        for (; r == 0 && i < MIN(m->n, m->end); i++)
                r = add_parts(m, i, e);
        return r;
}

static int make(struct maker *m, struct err *e) {
        const struct store_reading *x = &m->request->reading;
        uint32_t n = (uint32_t)x->turns.n;
        struct gap before = {0, 0}; /* the tokens that were not read */
        int r = 0;

        m->skip = MIN(x->page_first - x->turns_first, n);
        m->end = MIN(x->page_past - x->turns_first, n);
        m->answer->turns = take_block(m, (m->end - m->skip) * sizeof(*m->answer->turns), e);
        m->turns = m->answer->turns ? take_block(m, n * sizeof(*m->turns), e) : NULL;
        if (!m->turns)
                return -(int)e->code;
        for (uint32_t i = 0; i < n; i++) {
                const struct store_turn *t = &x->turns.turns[i];

                m->turns[i] = (struct conv_turn){(enum chat_role)t->role, t->start, t->end,
                        (enum engine_finish)t->finish, t->extra != NULL};
        }
        for (uint32_t i = m->skip; r == 0 && i < m->end; i++) {
                r = add_turn(m, i, e);
                add_tools(m, i);
        }
        m->n = MIN(n, x->n_sound_turns - x->turns_first);
        if (x->turns_first > 0 && n > 0)
                before.to = m->turns[0].start;
        m->said =
                (struct said){{.memory = x->tokens, .gap = before}, m->turns, x->conv.created_usec};
        return r == 0 && m->request->r.want_parts ? add_all_parts(m, e) : r;
}

int turns_answer_make(
        struct engine *engine, struct request *request, struct turns_answer *ret, struct err *e) {
        struct maker m = {.engine = engine, .request = request, .answer = ret};
        int r;

        parts_init(&m.parts, &request->charge);
        r = make(&m, e);
        chat_reply_free(m.reader);
        parts_deinit(&m.parts);
        free(m.turns);
        return r;
}
