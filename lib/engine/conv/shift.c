/* SPDX-License-Identifier: MIT */
/*
 * Which turns the memory of a long conversation leaves out (overflow "shift").
 *
 *      front        the gap           the newest turns    input    room for the reply
 *      ├──────┤≡≡≡≡≡≡≡≡≡≡≡≡≡≡≡≡≡≡≡≡≡├───────────────────┼────────┼────────────────────┤
 *      stays   dropped from memory,    the same tokens,
 *              not from the transcript computed again
 *
 * 1. A conversation shifts when its memory, the input and room for the reply do not fit the limit
 *    together. The limit is the context, or what the whole memory budget can hold if that is less.
 *    The room for the reply is max_tokens, at most a quarter of the limit (run/prompt.c): a longer
 *    reply goes on while there is context, and ends with reason "context".
 * 2. The front stays, always with its memory. The front is the leading system turns; without any,
 *    the first exchange if that has at most a quarter of the limit; else only the token that begins
 *    every text. (In a family without a system role a system turn is the beginning of the first
 *    user's message, so the whole first exchange belongs to it.) Later shifts keep the front.
 * 3. The newest turns stay: the longest run of whole turns that begins with something said to the
 *    model, not inside a reply nor with results of calls, and that leaves the memory at most half of the limit. So the next
 *    shift comes only after about a quarter of a context of new tokens. If not even the newest
 *    exchange fits a half, it stays alone, beyond the half. If it does not fit at all it is dropped
 *    too, unless the reply goes on from it: then, and if the front and the input alone are too long,
 *    the request is refused, with the figures.
 * 4. The gap only grows: what was dropped does not come back while the turns behind it stay. A cut
 *    (Rewind, Fork, Continue from an earlier place) in front of the gap or inside ends it; if the
 *    kept turns do not fit the context then, a new gap is found by the same rules.
 * 5. Kept turns keep their tokens (I1), the closing of a reply before them included. Only the input
 *    is rendered: after what will stand before it in the memory.
 * 6. The result depends on the turns, the limit, the input's length and max_tokens, and on nothing
 *    else. So two runs of the same requests shift at the same places.
 */
#include "engine/conv/conv.h"
#include "tok/tok.h"

#define KEEP_DIVISOR 2  /* of the limit: what stays in the memory at most */
#define FRONT_DIVISOR 4 /* of the limit: the longest first exchange that is kept as the front */
#define NOWHERE UINT32_MAX

static const struct conv_turn *turn_at(const struct conv *c, const struct keep *keep, uint32_t i) {
        return keep->inside && i + 1 == keep->n_turns ? &keep->last : &c->turns[i];
}

/* Does the turn begin an exchange: is it said to the model, and no result of a call? */
static bool begins_exchange(const struct conv_turn *t) {
        return t->role != CHAT_ASSISTANT && t->role != CHAT_TOOL && t->finish == ENGINE_FINISH_NONE;
}

/* The end of the exchange to which turn @i belongs. */
static uint32_t exchange_end(const struct conv *c, const struct keep *keep, uint32_t i) {
        do
                i++;
        while (i < keep->n_turns && !begins_exchange(turn_at(c, keep, i)));
        return turn_at(c, keep, i - 1)->end;
}

/* The end of the front (rule 2). */
static uint32_t front_end(
        struct engine *engine, const struct conv *c, const struct keep *keep, uint32_t limit) {
        uint32_t n = 0, end;
        struct transcript all = conv_transcript(c);
        int32_t bos = tok_bos(engine->tok);

        if (keep->n_turns == 0)
                return 0;
        while (n < keep->n_turns && turn_at(c, keep, n)->role == CHAT_SYSTEM)
                n++;
        if (n > 0 && n < keep->n_turns &&
                chat_state_after(engine->chat, CHAT_SYSTEM, conv_begins_with_tools(c)) ==
                        CHAT_OPEN_SYSTEM)
                return exchange_end(c, keep, n);
        if (n > 0)
                return turn_at(c, keep, n - 1)->end;
        end = exchange_end(c, keep, 0);
        if (end <= limit / FRONT_DIVISOR)
                return end;
        return bos >= 0 && transcript_token(&all, 0) == bos ? 1 : 0;
}

/* What shift_plan() chooses from: the memory is [0, front) and then the transcript from a start. */
struct choice {
        const struct shift_need *need;
        uint32_t n_tokens, front;
        uint32_t longest; /* start of the longest run that fits the share */
        uint32_t newest;  /* start of the newest exchange */
};

static size_t size_from(const struct choice *x, uint32_t start) {
        return (size_t)x->front + (x->n_tokens - start);
}

static bool fits(const struct choice *x, uint32_t start, uint32_t n_reply) {
        return size_from(x, start) + x->need->n_input + n_reply <= x->need->limit;
}

static void look(const struct conv *c, const struct keep *keep, uint32_t floor, struct choice *x) {
        x->longest = x->newest = NOWHERE;
        for (uint32_t i = 0; i < keep->n_turns; i++) {
                const struct conv_turn *t = turn_at(c, keep, i);

                if (t->start < floor || !begins_exchange(t))
                        continue;
                x->newest = t->start;
                if (x->longest == NOWHERE &&
                        size_from(x, t->start) <= x->need->limit / KEEP_DIVISOR &&
                        fits(x, t->start, x->need->n_reply))
                        x->longest = t->start;
        }
}

/* Where the newest turns begin that stay, or NOWHERE (rule 3). */
static uint32_t choose(const struct choice *x) {
        uint32_t least = MIN(x->need->n_reply, 1u);

        if (x->longest != NOWHERE)
                return x->longest;
        if (x->newest != NOWHERE && fits(x, x->newest, x->need->n_reply))
                return x->newest;
        if (!x->need->goes_on && fits(x, x->n_tokens, x->need->n_reply))
                return x->n_tokens;
        if (x->newest != NOWHERE && fits(x, x->newest, least))
                return x->newest;
        return !x->need->goes_on && fits(x, x->n_tokens, least) ? x->n_tokens : NOWHERE;
}

static int refuse(const struct choice *x, struct err *e) {
        bool newest = x->need->goes_on && x->newest != NOWHERE;
        uint32_t n_newest = newest ? x->n_tokens - x->newest : 0;
        size_t all = (size_t)x->front + n_newest + x->need->n_input + MIN(x->need->n_reply, 1u);

        if (x->need->goes_on && !newest)
                return err_set(e, ERR_CONTEXT,
                        "the conversation has %u tokens, the context is %u, and the turns from "
                        "which the reply would go on cannot be told apart from the others",
                        x->n_tokens, x->need->limit);
        return err_set(e, ERR_CONTEXT,
                "the first turns have %u tokens, the newest that must stay %u, the input %zu: with "
                "the reply's first token %zu more than the context of %u",
                x->front, n_newest, x->need->n_input, all - MIN(all, (size_t)x->need->limit),
                x->need->limit);
}

int shift_plan(struct engine *engine, const struct conv *c, const struct keep *keep,
        const struct shift_need *need, struct gap *ret, struct err *e) {
        size_t now = (size_t)gap_to_memory(&keep->gap, keep->n_tokens) + need->n_input;
        bool again = !gap_is_none(&keep->gap);
        struct choice x = {.need = need, .n_tokens = keep->n_tokens};
        uint32_t start;

        *ret = keep->gap;
        if (now + need->n_reply <= need->limit)
                return 0;
        x.front = again ? keep->gap.from : front_end(engine, c, keep, need->limit);
        look(c, keep, again ? keep->gap.to : x.front, &x);
        start = choose(&x);
        if (start == NOWHERE)
                return now + MIN(need->n_reply, 1u) <= need->limit ? 0 : refuse(&x, e);
        *ret = start > x.front ? (struct gap){x.front, start} : (struct gap){0, 0};
        return 0;
}

struct gap shift_kept(struct engine *engine, const struct conv *c, const struct keep *keep) {
        struct shift_need need = {.limit = engine->info.context};
        struct keep whole = *keep;
        struct gap gap;

        if (gap_is_none(&c->gap) || keep->n_tokens <= c->gap.from)
                return (struct gap){0, 0};
        if (keep->n_tokens > c->gap.to)
                return c->gap;
        whole.gap = (struct gap){0, 0};
        if (shift_plan(engine, c, &whole, &need, &gap, NULL) == 0)
                return gap;
        /* Too long for a context that was made smaller: only the front is left. */
        return (struct gap){front_end(engine, c, keep, need.limit), keep->n_tokens};
}
