/* SPDX-License-Identifier: MIT */
/*
 * Parts of what the assistant said: text, reasoning, calls.
 *
 * 1. Parts of a reply are read from its tokens (chat/reply.h), whenever somebody wants them, and are
 *    stored nowhere. So they are the same in a stream, in a fork, and after a restart.
 * 2. A message that was given by a client has the parts that were given: a template need not write
 *    the ids of calls, and does not tell text from reasoning in a way that can be read back.
 * 3. The id of a call is the model's own. If there is none, it follows from the place of the call in
 *    the transcript and from its index in the reply: the same tokens have the same ids everywhere.
 *    Nine letters and digits, because some templates insist on that.
 * 4. A reply may reach over several turns: each but the first goes on with an open reply, and has no
 *    tokens that invite it. The reader is fed all of them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "engine/conv/conv.h"
#include "tok/tok.h"

#define ID_SIZE 9
#define ID_SEED 0x63616c6cu /* "call" */

/* One part in `items`; strings are offsets in `bytes`. */
struct parts_item {
        uint32_t index;
        enum chat_part part;
        bool ends;
        size_t text, text_size;
        size_t id, name, broken; /* SIZE_MAX: none */
};

void parts_init(struct parts *p, struct charge *charge) {
        *p = (struct parts){.items.charge = charge, .bytes.charge = charge};
}

void parts_deinit(struct parts *p) {
        buf_deinit(&p->items);
        buf_deinit(&p->bytes);
}

void parts_clear(struct parts *p) {
        p->items.size = p->bytes.size = 0;
}

bool parts_any(const struct parts *p) {
        return p->items.size > 0;
}

static void make_id(uint32_t position, uint32_t index, char ret[ID_SIZE + 1]) {
        static const char letters[] =
                "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        uint8_t place[8];
        uint64_t hash;

        for (size_t i = 0; i < 4; i++) {
                place[i] = (uint8_t)(position >> (8 * i));
                place[4 + i] = (uint8_t)(index >> (8 * i));
        }
        hash = hash64(place, sizeof(place), ID_SEED);
        for (size_t i = 0; i < ID_SIZE; i++, hash /= 62)
                ret[i] = letters[hash % 62];
        ret[ID_SIZE] = '\0';
}

static int put_string(struct parts *p, const char *s, size_t *ret) {
        *ret = p->bytes.size;
        return buf_append(&p->bytes, s, strlen(s) + 1);
}

static struct parts_item *last_item(const struct parts *p) {
        return p->items.size == 0 ? NULL
                                  : (struct parts_item *)(void *)(p->items.data + p->items.size -
                                                                  sizeof(struct parts_item));
}

/* A new item, if the last one is not of the same part. */
static int put_item(struct parts *p, const struct chat_part_event *event) {
        const struct parts_item *last = last_item(p);
        struct parts_item item = {.index = event->index,
                .part = event->part,
                .id = SIZE_MAX,
                .name = SIZE_MAX,
                .broken = SIZE_MAX};
        char id[ID_SIZE + 1];
        int r = 0;

        if (last && last->index == event->index)
                return 0;
        if (event->part == CHAT_PART_CALL && event->begins) {
                make_id(p->at + event->n_tokens_before, event->index, id);
                r = put_string(p, event->id && *event->id ? event->id : id, &item.id);
                if (r == 0)
                        r = put_string(p, event->name ? event->name : "", &item.name);
        }
        item.text = p->bytes.size;
        return r < 0 ? r : buf_append(&p->items, &item, sizeof(item));
}

/* A NUL, which strings can't have, becomes U+FFFD, as in the text of a turn. */
static int put_text(struct parts *p, const char *text, size_t n) {
        return n > 0 ? buf_append_text(&p->bytes, text, n) : 0;
}

int parts_add(void *arg, const struct chat_part_event *event, struct err *e) {
        struct parts *p = arg;
        struct parts_item *item;
        size_t skipped;
        int r;

        if (event->begins)
                p->index_size = 0;
        p->index = event->index;
        p->index_size += event->size;
        p->n_calls += event->part == CHAT_PART_CALL && event->ends && !event->broken;
        if (p->silent)
                return 0;
        skipped = event->index == p->skip_index && event->part != CHAT_PART_CALL
                          ? MIN(p->skip, event->size)
                          : 0;
        p->skip -= skipped;
        r = put_item(p, event);
        if (r == 0)
                r = put_text(p, event->text + skipped, event->size - skipped);
        if (r == 0) {
                item = last_item(p);
                item->text_size = p->bytes.size - item->text;
                item->ends = event->ends;
                if (event->broken)
                        r = put_string(p, event->broken, &item->broken);
        }
        return r < 0 ? err_set(e, (enum err_code) - r, "no memory for the parts of a reply") : 0;
}

/* --- as an array --- */

static size_t string_size(const struct parts *p, size_t at) {
        return at == SIZE_MAX ? 0 : strlen((const char *)p->bytes.data + at) + 1;
}

static const char *copy_string(const struct parts *p, size_t at, char **next) {
        size_t n = string_size(p, at);
        char *to = *next;

        if (n == 0)
                return NULL;
        memcpy(to, p->bytes.data + at, n);
        *next += n;
        return to;
}

static const char *copy_text(const struct parts *p, const struct parts_item *item, char **next) {
        char *to = *next;

        if (item->text_size > 0)
                memcpy(to, p->bytes.data + item->text, item->text_size);
        to[item->text_size] = '\0';
        *next += item->text_size + 1;
        return to;
}

int parts_take(struct parts *p, said_alloc_fn *alloc, void *arg, struct engine_part **ret,
        size_t *ret_n, struct err *e) {
        const struct parts_item *items = (const void *)p->items.data;
        size_t n = p->items.size / sizeof(*items), size = n * sizeof(**ret);
        struct engine_part *parts;
        char *next;

        for (size_t i = 0; i < n; i++)
                size += items[i].text_size + 1 + string_size(p, items[i].id) +
                        string_size(p, items[i].name) + string_size(p, items[i].broken);
        parts = alloc(arg, size, e);
        if (!parts)
                return -(int)e->code;
        next = (char *)(parts + n);
        for (size_t i = 0; i < n; i++) {
                const struct parts_item *item = &items[i];

                parts[i] = (struct engine_part){.index = item->index,
                        .kind = (enum engine_part_kind)item->part,
                        .ends = item->ends,
                        .text = copy_text(p, item, &next),
                        .text_size = item->text_size,
                        .call_id = copy_string(p, item->id, &next),
                        .name = copy_string(p, item->name, &next),
                        .broken = copy_string(p, item->broken, &next)};
        }
        parts_clear(p);
        *ret = parts;
        *ret_n = n;
        return 0;
}

/* --- what was given --- */

static int add_whole(struct parts *p, enum chat_part part, uint32_t index, const char *text,
        size_t size, const struct engine_call *call, struct err *e) {
        const struct chat_part_event event = {.part = part,
                .index = index,
                .begins = true,
                .ends = true,
                .text = text,
                .size = size,
                .name = call ? call->name : NULL,
                .id = call ? call->id : NULL};

        return parts_add(p, &event, e);
}

int parts_add_given(
        struct parts *p, const char *text, size_t size, const struct given *given, struct err *e) {
        uint32_t index = 0;
        int r = 0;

        if (given && given->reasoning)
                r = add_whole(p, CHAT_PART_REASONING, index++, given->reasoning,
                        strlen(given->reasoning), NULL, e);
        if (r == 0 && size > 0)
                r = add_whole(p, CHAT_PART_TEXT, index++, text, size, NULL, e);
        for (size_t i = 0; given && r == 0 && i < given->n_calls; i++) {
                struct engine_call call = given->calls[i];
                char id[ID_SIZE + 1];

                if (!call.id || !*call.id) {
                        make_id(p->at, (uint32_t)i, id);
                        call.id = id;
                }
                r = add_whole(p, CHAT_PART_CALL, index++, call.arguments, strlen(call.arguments),
                        &call, e);
        }
        return r;
}

/* --- replies --- */

static bool begins_with(const struct transcript *t, uint32_t pos, const struct tok_ids *ids) {
        for (uint32_t i = 0; i < ids->n; i++)
                if (transcript_token(t, pos + i) != ids->ids[i])
                        return false;
        return true;
}

int said_reply_header(
        struct engine *engine, const struct said *said, uint32_t turn, uint32_t *ret) {
        const struct conv_turn *t = &said->turns[turn];
        struct chat_tail tail = {.state = CHAT_CLOSED,
                .role = turn > 0 ? t[-1].role : CHAT_RAW,
                .created_usec = said->created_usec};
        struct tok_ids ids = TOK_IDS_NULL;
        uint32_t n = 0;
        int r = chat_append_reply_start(engine->chat, &tail, 0, &ids, NULL);

        if (r == 0 && ids.n <= t->end - t->start && begins_with(&said->tokens, t->start, &ids))
                n = (uint32_t)ids.n;
        tok_ids_deinit(&ids);
        if (r < 0 && r != -ERR_UNSUPPORTED)
                return r;
        *ret = n;
        return 0;
}

/* A reply that was not ended by the model. */
static bool is_open(const struct conv_turn *t) {
        return t->finish != ENGINE_FINISH_NONE && t->finish != ENGINE_FINISH_STOP;
}

int said_goes_on(
        struct engine *engine, const struct said *said, uint32_t turn, uint32_t *ret_header) {
        const struct conv_turn *t = &said->turns[turn];
        uint32_t header = 0;
        int r = 0;

        if (t->role == CHAT_ASSISTANT)
                r = said_reply_header(engine, said, turn, &header);
        if (r < 0)
                return r;
        *ret_header = header;
        return header == 0 && turn > 0 && t[-1].role == t->role && is_open(&t[-1]);
}

int said_find_reply(struct engine *engine, const struct said *said, uint32_t turn,
        struct said_reply *ret, struct err *e) {
        uint32_t header = 0;
        int r;

        while ((r = said_goes_on(engine, said, turn, &header)) > 0)
                turn--;
        if (r < 0)
                return err_set(e, (enum err_code) - r, "no memory to read a reply");
        *ret = (struct said_reply){turn, said->turns[turn].start, said->turns[turn].start + header};
        return 0;
}

int said_feed_header(const struct said *said, const struct said_reply *at,
        struct chat_reply *reader, struct err *e) {
        size_t n = at->begin - at->start;
        int32_t *ids;
        int r;

        if (n == 0)
                return 0;
        ids = calloc(n, sizeof(*ids));
        if (!ids)
                return err_set(e, ERR_NOMEM, "no memory to read a reply");
        transcript_copy(&said->tokens, at->start, at->begin, ids);
        r = chat_reply_header(reader, ids, n, e);
        free(ids);
        return r;
}

int said_feed(const struct said *said, uint32_t from, uint32_t to, struct chat_reply *reader,
        struct parts *parts, struct err *e) {
        int r = 0;

        for (uint32_t i = from; r == 0 && i < to; i++)
                r = chat_reply_push(
                        reader, transcript_token(&said->tokens, i), parts_add, parts, e);
        return r;
}

int said_feed_text(struct engine *engine, const struct said *said, uint32_t turn, uint32_t from,
        const char *text, size_t all, struct chat_reply *reader, chat_part_fn fn, void *arg,
        struct err *e) {
        const struct transcript *tokens = &said->tokens;
        uint32_t pos = from, unit = from, end = said->turns[turn].end;
        const struct tok *tok = engine->tok;
        size_t size = 0, unit_at = 0;
        struct tok_stream s;
        int r = 0;

        tok_stream_init(&s, tok,
                from > 0 && tok_is_special(tok, transcript_token(tokens, from - 1)), false);
        while (r == 0 && pos < end) {
                _cleanup_(buf_deinit) struct buf piece = BUF_NULL, clean = BUF_NULL;

                r = tok_stream_push(&s, tok, transcript_token(tokens, pos++), &piece);
                if (r == 0)
                        r = buf_append_text(&clean, piece.data, piece.size);
                if (r < 0)
                        return err_set(e, ERR_NOMEM, "no memory for the parts of a reply");
                size += clean.size;
                if (size > all)
                        break;
                if (s.n_held > 0)
                        continue;
                for (; r == 0 && unit < pos; unit++)
                        r = chat_reply_push(reader, transcript_token(tokens, unit), fn, arg, e);
                unit_at = size;
        }
        if (r == 0 && unit_at < all)
                r = chat_reply_push_text(reader, text + unit_at, all - unit_at, fn, arg, e);
        return r;
}
