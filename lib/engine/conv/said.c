/* SPDX-License-Identifier: MIT */
/*
 * What messages of tools and given messages of the assistant are in the register.
 *
 *      results      [{"call_id":"…","name":"…","content":"…"}, …]      text of a turn of tools
 *      given        {"reasoning":"…","calls":[{"id":"…","name":"…","arguments":"…"}, …]}
 *                                                        extra of a turn of the assistant; both optional
 *
 * 1. The writer here is the only one, but for files that are imported and registers that are damaged.
 *    So the readers take exactly this form, with keys in any order, and refuse everything else.
 * 2. A reader makes one block: an array, and behind it the strings. The length of the text bounds the
 *    size of the block.
 * 3. A NUL in a string becomes U+FFFD, since strings end with NUL.
 */
#include <string.h>

#include "base/json-read.h"
#include "base/json.h"
#include "engine/conv/conv.h"

/* --- writing --- */

static void put_string(struct json *j, const char *key, const char *s) {
        if (!s)
                return;
        json_put_key_string(j, key, s);
}

static int finish(struct json *j, struct err *e) {
        int r = json_finish(j);

        return r < 0 ? err_set(e, (enum err_code) - r, "no memory for a message of tools") : 0;
}

int results_format(struct buf *out, const struct engine_result *results, size_t n, struct err *e) {
        struct json j;

        json_init(&j, out);
        json_array_begin(&j);
        for (size_t i = 0; i < n; i++) {
                json_object_begin(&j);
                put_string(&j, "call_id", results[i].call_id);
                put_string(&j, "name", results[i].name);
                put_string(&j, "content", results[i].text);
                json_object_end(&j);
        }
        json_array_end(&j);
        return finish(&j, e);
}

int given_format(struct buf *out, const char *reasoning, const struct engine_call *calls, size_t n,
        struct err *e) {
        struct json j;

        json_init(&j, out);
        json_object_begin(&j);
        put_string(&j, "reasoning", reasoning);
        if (n > 0) {
                json_put_key(&j, "calls");
                json_array_begin(&j);
        }
        for (size_t i = 0; i < n; i++) {
                json_object_begin(&j);
                put_string(&j, "id", calls[i].id);
                put_string(&j, "name", calls[i].name);
                put_string(&j, "arguments", calls[i].arguments);
                json_object_end(&j);
        }
        if (n > 0)
                json_array_end(&j);
        json_object_end(&j);
        return finish(&j, e);
}

/* --- reading --- */

/* A block that is being filled, or (`block` NULL) only measured. */
struct reading {
        struct json_reader json;
        char *next; /* where the next string goes */
        bool measures;
};

static int take_string(struct reading *x, const char **ret, struct err *e) {
        static const char replacement[] = "\xef\xbf\xbd";
        const struct buf *s = &x->json.string;
        enum json_item item = JSON_ITEM_END;
        int r = json_next(&x->json, &item, e);

        if (r < 0)
                return r;
        if (item != JSON_ITEM_STRING || *ret)
                return json_wrong(&x->json, e, *ret ? "a key twice" : "this is no string");
        *ret = "";
        if (x->measures)
                return 0;
        *ret = x->next;
        for (size_t i = 0; i < s->size; i++) {
                size_t n = s->data[i] ? 1 : sizeof(replacement) - 1;

                memcpy(x->next, s->data[i] ? (const char *)&s->data[i] : replacement, n);
                x->next += n;
        }
        *x->next++ = '\0';
        return 0;
}

/* The members of an object whose values are strings; *values[i] is NULL before. */
struct member {
        const char *key;
        const char **value;
};
static int take_members(struct reading *x, const struct member *members, size_t n, struct err *e) {
        enum json_item item = JSON_ITEM_END;
        int r;

        while ((r = json_next(&x->json, &item, e)) == 0 && item == JSON_ITEM_KEY) {
                size_t i = 0;

                while (i < n && !json_is(&x->json, members[i].key))
                        i++;
                r = i < n ? take_string(x, members[i].value, e)
                          : json_wrong(&x->json, e, "an unknown key");
                if (r < 0)
                        return r;
        }
        return r;
}

static int take_result(struct reading *x, struct engine_result *ret, struct err *e) {
        const struct member members[] = {
                {"call_id", &ret->call_id}, {"name", &ret->name}, {"content", &ret->text}};
        int r = take_members(x, members, ARRAY_SIZE(members), e);

        if (r == 0 && (!ret->call_id || !ret->text))
                r = json_wrong(&x->json, e, "a result has call_id and content");
        return r;
}

static int take_call(struct reading *x, struct engine_call *ret, struct err *e) {
        const struct member members[] = {
                {"id", &ret->id}, {"name", &ret->name}, {"arguments", &ret->arguments}};
        int r = take_members(x, members, ARRAY_SIZE(members), e);

        if (r == 0 && (!ret->name || !ret->arguments))
                r = json_wrong(&x->json, e, "a call has name and arguments");
        return r;
}

/* The elements of an array, whose begin was read, behind each other at @items (or nowhere). */
static int take_results(struct reading *x, struct engine_result *items, size_t *n, struct err *e) {
        enum json_item item = JSON_ITEM_END;
        int r;

        while ((r = json_next(&x->json, &item, e)) == 0 && item == JSON_ITEM_OBJECT) {
                struct engine_result one = {0};

                r = take_result(x, &one, e);
                if (r < 0)
                        return r;
                if (items)
                        items[*n] = one;
                (*n)++;
        }
        if (r == 0 && item != JSON_ITEM_ARRAY_END)
                r = json_wrong(&x->json, e, "a result is an object");
        return r;
}

static int take_calls(struct reading *x, struct engine_call *items, size_t *n, struct err *e) {
        enum json_item item = JSON_ITEM_END;
        int r = json_next(&x->json, &item, e);

        if (r == 0 && (item != JSON_ITEM_ARRAY || *n > 0))
                r = json_wrong(&x->json, e, "calls are an array");
        while (r == 0 && (r = json_next(&x->json, &item, e)) == 0 && item == JSON_ITEM_OBJECT) {
                struct engine_call one = {0};

                r = take_call(x, &one, e);
                if (r == 0 && items)
                        items[*n] = one;
                *n += r == 0;
        }
        if (r == 0 && item != JSON_ITEM_ARRAY_END)
                r = json_wrong(&x->json, e, "a call is an object");
        return r;
}

static int expect(struct reading *x, enum json_item want, const char *what, struct err *e) {
        enum json_item item = JSON_ITEM_END;
        int r = json_next(&x->json, &item, e);

        return r == 0 && item != want ? json_wrong(&x->json, e, what) : r;
}

static int read_results(struct reading *x, struct engine_result *items, size_t *n, struct err *e) {
        int r = expect(x, JSON_ITEM_ARRAY, "results are an array", e);

        *n = 0;
        if (r == 0)
                r = take_results(x, items, n, e);
        return r == 0 ? expect(x, JSON_ITEM_END, "something follows", e) : r;
}

static int read_given(
        struct reading *x, struct given *ret, struct engine_call *items, struct err *e) {
        enum json_item item = JSON_ITEM_END;
        int r = expect(x, JSON_ITEM_OBJECT, "this is no object", e);

        ret->reasoning = NULL;
        ret->n_calls = 0;
        while (r == 0 && (r = json_next(&x->json, &item, e)) == 0 && item == JSON_ITEM_KEY) {
                if (json_is(&x->json, "reasoning"))
                        r = take_string(x, &ret->reasoning, e);
                else if (json_is(&x->json, "calls"))
                        r = take_calls(x, items, &ret->n_calls, e);
                else
                        r = json_wrong(&x->json, e, "an unknown key");
        }
        return r == 0 ? expect(x, JSON_ITEM_END, "something follows", e) : r;
}

/* Strings with their NUL are shorter than in the text, where they have quotes. */
static void reading_init(struct reading *x, const char *text, size_t size,
        const struct said_memory *memory, char *block) {
        *x = (struct reading){.next = block, .measures = !block};
        json_reader_init(&x->json, text, size);
        x->json.string.charge = memory->charge;
}

int results_parse(const char *text, size_t size, const struct said_memory *memory,
        struct engine_result **ret, size_t *ret_n, struct err *e) {
        struct engine_result *items = NULL;
        struct err unread;
        struct reading x;
        size_t n = 0;
        int r;

        e = e ? e : &unread; /* memory->alloc() tells why by it */
        reading_init(&x, text, size, memory, NULL);
        r = read_results(&x, NULL, &n, e);
        json_reader_deinit(&x.json);
        if (r < 0)
                return r;
        items = memory->alloc(memory->arg, n * sizeof(*items) + size, e);
        if (!items)
                return -(int)e->code;
        reading_init(&x, text, size, memory, (char *)(items + n));
        r = read_results(&x, items, &n, e);
        json_reader_deinit(&x.json);
        *ret = items;
        *ret_n = n;
        return r;
}

int given_parse(const char *text, size_t size, const struct said_memory *memory, struct given *ret,
        struct err *e) {
        struct given got = {0};
        struct err unread;
        struct reading x;
        int r;

        e = e ? e : &unread; /* memory->alloc() tells why by it */
        reading_init(&x, text, size, memory, NULL);
        r = read_given(&x, &got, NULL, e);
        json_reader_deinit(&x.json);
        if (r < 0)
                return r;
        got.calls = memory->alloc(memory->arg, got.n_calls * sizeof(*got.calls) + size, e);
        if (!got.calls)
                return -(int)e->code;
        reading_init(&x, text, size, memory, (char *)(got.calls + got.n_calls));
        r = read_given(&x, &got, got.calls, e);
        json_reader_deinit(&x.json);
        *ret = got;
        return r;
}
