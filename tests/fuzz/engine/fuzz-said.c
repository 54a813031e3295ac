/* SPDX-License-Identifier: MIT */
/*
 * Bytes as what the register or an imported file may have of tools: results of calls, and what a
 * message was given with. Whatever is read is written again as it was understood, and read as that.
 */
#include "base/json-read.h"
#include "base/utf8.h"
#include "engine/conv/conv.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A block of exactly that size, so that a sanitizer sees what goes beyond. */
static void *take(void *arg, size_t n, struct err *e) {
        (void)arg;
        (void)e;
        return malloc(n > 0 ? n : 1);
}
static const struct said_memory memory = {.alloc = take};

static bool same(const char *a, const char *b) {
        return a && b ? strcmp(a, b) == 0 : a == b;
}

static void results(const char *text, size_t size) {
        struct engine_result *a = NULL, *b = NULL;
        struct buf again = BUF_NULL;
        size_t n = 0, m = 0;
        struct err e;

        if (results_parse(text, size, &memory, &a, &n, &e) == 0) {
                if (results_format(&again, a, n, &e) < 0 ||
                        results_parse((char *)again.data, again.size, &memory, &b, &m, &e) < 0 ||
                        n != m)
                        abort();
                for (size_t i = 0; i < n; i++)
                        if (!same(a[i].call_id, b[i].call_id) || !same(a[i].name, b[i].name) ||
                                !same(a[i].text, b[i].text))
                                abort();
        }
        buf_deinit(&again);
        free(a);
        free(b);
}

static void given(const char *text, size_t size) {
        struct given a = {0}, b = {0};
        struct buf again = BUF_NULL;
        struct err e;

        if (given_parse(text, size, &memory, &a, &e) == 0) {
                if (given_format(&again, a.reasoning, a.calls, a.n_calls, &e) < 0 ||
                        given_parse((char *)again.data, again.size, &memory, &b, &e) < 0 ||
                        a.n_calls != b.n_calls || !same(a.reasoning, b.reasoning))
                        abort();
                for (size_t i = 0; i < a.n_calls; i++)
                        if (!same(a.calls[i].id, b.calls[i].id) ||
                                !same(a.calls[i].name, b.calls[i].name) ||
                                !same(a.calls[i].arguments, b.calls[i].arguments))
                                abort();
        }
        buf_deinit(&again);
        free(a.calls);
        free(b.calls);
}

/* Items come to an end, and lie within the text; strings are characters. */
static void items(const char *text, size_t size) {
        enum json_item item = JSON_ITEM_NULL;
        struct json_reader r;
        size_t n = 0;

        json_reader_init(&r, text, size);
        while (item != JSON_ITEM_END && json_next(&r, &item, NULL) == 0) {
                if (++n > size + 1 || r.start > r.at || r.at > size || r.depth > 64)
                        abort();
                if ((item == JSON_ITEM_STRING || item == JSON_ITEM_KEY) && r.string.size > 0 &&
                        !utf8_valid(r.string.data, r.string.size))
                        abort();
        }
        json_reader_deinit(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        char *text = malloc(size + 1);

        if (!text)
                return 0;
        memcpy(text, data, size);
        items(text, size);
        results(text, size);
        given(text, size);
        free(text);
        return 0;
}
