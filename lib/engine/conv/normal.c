/* SPDX-License-Identifier: MIT */
/*
 * The normal form of what was said: what two records of one conversation have in common if they say the
 * same. Find compares the list of messages that a client sends with the turns in the register, and both
 * go through this file. Clients that keep the history themselves send it back changed in ways that
 * change nothing of what was said; these rules are about just these changes, and about no others.
 *
 * The form is a list of items. How a history is cut into messages and turns is no part of it.
 *
 *      system "…"   user "…"   text "…"   call name arguments   result "…"   tools definitions
 *
 *  1. A message of the system or the user is an item of its own, with its text as it is.
 *  2. What the assistant says in one message (a reply that goes on in several turns is one) is an item of
 *     its text, and an item for each call behind it. The text has no white space at its ends: some
 *     clients trim it. Without text there is no such item: so the empty messages vanish that clients keep
 *     of a stream that was cut, with their reasoning. Nothing inside of the text is tolerated; no client changes anything there
 *     that could be undone.
 *  3. A call counts by its name and its arguments. Arguments that are JSON count in canonical form
 *     (base/json-canon.h), since clients parse them and write them anew; others count as they are. None
 *     are an empty object. A call that is broken counts as far as it goes; one without a name was told to
 *     nobody, and is none.
 *  4. A result counts by its text. Results follow each other as items, whether they came in one message or
 *     in several. Which call a result answers follows from the order; ids and names do not count, since
 *     they are made up anew where APIs are translated.
 *  5. Reasoning is no item, since most clients drop it. If both sides have it, it must be the same but for
 *     white space at its ends: another one would be a change of what was said, which nobody makes
 *     without meaning it.
 *  6. Definitions of tools count in canonical form. Those that hold from the beginning seed the chain
 *     (chain_seed()); those that are told later are an item in front of their message.
 *  7. Raw turns say nothing that a message could say: nothing matches them, nor what follows them.
 *
 * The chain is a hash over the items, in order, from the seed on. The seed has the owner, so equal
 * histories of two users have different chains.
 */
#include <string.h>

#include "base/hash.h"
#include "base/json-canon.h"
#include "base/utf8.h"
#include "engine/conv/conv.h"

/* An item in `items`: this, and `size` bytes. A call's are the name, a NUL, how the arguments count, and
 * the arguments. */
struct item {
        uint64_t size;
        uint64_t kind; /* no padding: items are compared as bytes */
};
enum { ITEM_SYSTEM, ITEM_USER, ITEM_TEXT, ITEM_CALL, ITEM_RESULT, ITEM_TOOLS };
#define AS_JSON "j"
#define AS_TEXT "t"

/* A call of the message that is being said, in `calls`: this, the name, the arguments. */
struct saying {
        size_t name_size, arguments_size;
};

static int no_memory(int r, struct err *e) {
        return err_set(e, (enum err_code) - r, "no memory to compare what was said");
}

void normal_init(struct normal *n, uint64_t chain, struct charge *charge) {
        *n = (struct normal){.chain = chain,
                .items.charge = charge,
                .exact.charge = charge,
                .reasoning.charge = charge,
                .calls.charge = charge};
}

void normal_deinit(struct normal *n) {
        buf_deinit(&n->items);
        buf_deinit(&n->exact);
        buf_deinit(&n->reasoning);
        buf_deinit(&n->calls);
}

void normal_clear(struct normal *n) {
        n->items.size = n->exact.size = n->reasoning.size = 0;
        n->reasons = false;
}

/* --- chains --- */

/* The numbers that stand for no hash are none. */
static uint64_t chain_of(uint64_t hash) {
        return hash == STORE_CHAIN_UNKNOWN || hash == STORE_CHAIN_NEVER ? hash + 2 : hash;
}

/* The item that begins at @at is complete. */
static void end_item(struct normal *n, size_t at) {
        struct item item;

        memcpy(&item, n->items.data + at, sizeof(item));
        item.size = n->items.size - at - sizeof(item);
        memcpy(n->items.data + at, &item, sizeof(item));
        n->chain = chain_of(hash64(n->items.data + at, n->items.size - at, n->chain));
}

static int begin_item(struct normal *n, uint64_t kind, size_t *ret_at, struct err *e) {
        const struct item item = {.kind = kind};
        int r;

        *ret_at = n->items.size;
        r = buf_append(&n->items, &item, sizeof(item));
        return r < 0 ? no_memory(r, e) : 0;
}

static int put_item(
        struct normal *n, uint64_t kind, const void *bytes, size_t size, struct err *e) {
        size_t at;
        int r = begin_item(n, kind, &at, e);

        if (r == 0 && (r = buf_append(&n->items, bytes, size)) < 0)
                r = no_memory(r, e);
        if (r == 0)
                end_item(n, at);
        return r;
}

/* JSON in canonical form. What is none stays as it is. */
static int put_json(struct normal *n, const char *text, size_t size, const char *as_json,
        const char *as_text, struct err *e) {
        size_t at = n->items.size;
        int r = buf_append_str(&n->items, as_json);

        if (r == 0)
                r = json_canonical(&n->items, text, size, NULL);
        if (r == -ERR_INVALID) {
                n->items.size = at;
                r = buf_append_str(&n->items, as_text);
                if (r == 0)
                        r = buf_append(&n->items, text, size);
        }
        return r < 0 ? no_memory(r, e) : 0;
}

int chain_seed(uint64_t owner, const char *tools, size_t size, struct charge *charge, uint64_t *ret,
        struct err *e) {
        struct normal n;
        int r = 0;

        normal_init(&n, 0, charge);
        if (tools)
                r = put_json(&n, tools, size, AS_JSON, AS_TEXT, e);
        if (r == 0)
                *ret = chain_of(hash64(n.items.data ? n.items.data : (const uint8_t *)"",
                        n.items.size, hash64(&owner, sizeof(owner), 0)));
        normal_deinit(&n);
        return r;
}

/* --- messages of the assistant --- */

void normal_begin(struct normal *n) {
        n->said_at = n->exact.size;
        n->reasoning_at = n->reasoning.size;
        n->calls.size = 0;
}

int normal_put_text(struct normal *n, const char *text, size_t size, struct err *e) {
        int r = size > 0 ? buf_append(&n->exact, text, size) : 0;

        return r < 0 ? no_memory(r, e) : 0;
}

int normal_put_reasoning(struct normal *n, const char *text, size_t size, struct err *e) {
        int r = size > 0 ? buf_append(&n->reasoning, text, size) : 0;

        return r < 0 ? no_memory(r, e) : 0;
}

int normal_begin_call(struct normal *n, const char *name, struct err *e) {
        const struct saying call = {.name_size = strlen(name)};
        int r;

        n->call_at = n->calls.size;
        r = buf_append(&n->calls, &call, sizeof(call));
        if (r == 0)
                r = buf_append(&n->calls, name, call.name_size);
        return r < 0 ? no_memory(r, e) : 0;
}

int normal_put_arguments(struct normal *n, const char *text, size_t size, struct err *e) {
        struct saying call;
        int r = size > 0 ? buf_append(&n->calls, text, size) : 0;

        if (r < 0)
                return no_memory(r, e);
        memcpy(&call, n->calls.data + n->call_at, sizeof(call));
        call.arguments_size += size;
        memcpy(n->calls.data + n->call_at, &call, sizeof(call));
        return 0;
}

/* The item of a call: its name, and its arguments as JSON if they are. */
static int put_call(struct normal *n, const char *name, const struct saying *call, struct err *e) {
        const char *arguments = name + call->name_size;
        bool none = call->arguments_size == 0;
        size_t at;
        int r;

        if (call->name_size == 0)
                return 0;
        r = begin_item(n, ITEM_CALL, &at, e);
        if (r == 0 && (r = buf_append(&n->items, name, call->name_size)) < 0)
                r = no_memory(r, e);
        if (r == 0 && (r = buf_append(&n->items, "", 1)) < 0)
                r = no_memory(r, e);
        if (r == 0)
                r = put_json(n, none ? "{}" : arguments, none ? 2 : call->arguments_size, AS_JSON,
                        AS_TEXT, e);
        if (r == 0)
                end_item(n, at);
        return r;
}

/* White space at the ends of reasoning does not count, and reasoning of white space alone is none. A
 * message that says nothing else (@vanishes) has none either. */
static void end_reasoning(struct normal *n, bool vanishes) {
        size_t size = n->reasoning.size - n->reasoning_at;
        const char *text;

        if (size == 0)
                return;
        text = (const char *)n->reasoning.data + n->reasoning_at;
        utf8_trim(&text, &size);
        if (vanishes)
                size = 0;
        memmove(n->reasoning.data + n->reasoning_at, text, size);
        n->reasoning.size = n->reasoning_at + size;
        n->reasons = n->reasons || size > 0;
}

int normal_end(struct normal *n, struct err *e) {
        size_t size = n->exact.size - n->said_at, pos = 0, before = n->items.size;
        const char *text = size > 0 ? (const char *)n->exact.data + n->said_at : "";
        int r = 0;

        utf8_trim(&text, &size);
        if (size > 0)
                r = put_item(n, ITEM_TEXT, text, size, e);
        while (r == 0 && pos < n->calls.size) {
                struct saying call;

                memcpy(&call, n->calls.data + pos, sizeof(call));
                pos += sizeof(call);
                r = put_call(n, (const char *)n->calls.data + pos, &call, e);
                pos += call.name_size + call.arguments_size;
        }
        n->calls.size = 0;
        end_reasoning(n, n->items.size == before);
        return r;
}

/* --- whole messages --- */

int normal_put_tools(struct normal *n, const char *tools, size_t size, struct err *e) {
        size_t at;
        int r = begin_item(n, ITEM_TOOLS, &at, e);

        if (r == 0)
                r = put_json(n, tools, size, AS_JSON, AS_TEXT, e);
        if (r == 0)
                end_item(n, at);
        return r;
}

static int put_assistant(struct normal *n, const struct engine_message *m, struct err *e) {
        int r;

        normal_begin(n);
        r = normal_put_text(n, m->text, m->text_size, e);
        if (r == 0 && m->reasoning)
                r = normal_put_reasoning(n, m->reasoning, strlen(m->reasoning), e);
        for (size_t i = 0; r == 0 && i < m->n_calls; i++) {
                r = normal_begin_call(n, m->calls[i].name, e);
                if (r == 0)
                        r = normal_put_arguments(
                                n, m->calls[i].arguments, strlen(m->calls[i].arguments), e);
        }
        return r < 0 ? r : normal_end(n, e);
}

int normal_put_message(struct normal *n, const struct engine_message *m, struct err *e) {
        int r = 0;

        switch (m->role) {
        case ENGINE_SYSTEM:
                return put_item(n, ITEM_SYSTEM, m->text, m->text_size, e);
        case ENGINE_USER:
                return put_item(n, ITEM_USER, m->text, m->text_size, e);
        case ENGINE_ASSISTANT:
                return put_assistant(n, m, e);
        case ENGINE_TOOL:
                for (size_t i = 0; r == 0 && i < m->n_results; i++)
                        r = put_item(
                                n, ITEM_RESULT, m->results[i].text, strlen(m->results[i].text), e);
                return r;
        case ENGINE_RAW:
                break;
        }
        return err_set(e, ERR_INVALID, "a raw text is no message");
}

/* --- comparing --- */

/* Bytes that both have in front, up to the shorter one's end: all of it, or they differ. */
static int same_start(const struct buf *a, const struct buf *b, size_t *ret) {
        *ret = MIN(a->size, b->size);
        return *ret == 0 || memcmp(a->data, b->data, *ret) == 0;
}

bool normal_meet(struct normal *a, struct normal *b) {
        size_t n;

        if (!same_start(&a->items, &b->items, &n))
                return false;
        buf_consume(&a->items, n);
        buf_consume(&b->items, n);
        return true;
}

bool normal_same_reasoning(const struct normal *a, const struct normal *b) {
        size_t n;

        return !a->reasons || !b->reasons ||
               (a->reasoning.size == b->reasoning.size &&
                       same_start(&a->reasoning, &b->reasoning, &n));
}

bool normal_same_text(const struct normal *a, const struct normal *b) {
        size_t n;

        return a->exact.size == b->exact.size && same_start(&a->exact, &b->exact, &n);
}
