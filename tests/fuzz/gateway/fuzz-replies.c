/* SPDX-License-Identifier: MIT */
/*
 * Bytes as the events of a talk, in any order that a daemon could send or could not. Whatever they are, a writer of
 * Anthropic's or Ollama's dialect puts JSON on one line, each a whole one; and in Anthropic's streams blocks begin and end in
 * turns, with indices from 0 without gaps.
 */
#include <string.h>

#include "base/cursor.h"
#include "base/err.h"
#include "client/gateway/anthropic.h"
#include "client/gateway/ollama.h"
#include "fuzz/check.h"
#include "fuzz/gateway/part.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
        bool open;
        json_int_t n_blocks;
        unsigned n_put;
};

static void check_block(struct seen *seen, const char *name, const json_t *event) {
        json_t *index = json_object_get(event, "index");

        if (strcmp(name, "content_block_start") == 0) {
                check(!seen->open && json_integer_value(index) == seen->n_blocks++);
                seen->open = true;
        } else if (strncmp(name, "content_block_", 14) == 0) {
                check(seen->open && json_integer_value(index) == seen->n_blocks - 1);
                seen->open = strcmp(name, "content_block_stop") != 0;
        } else if (strcmp(name, "message_delta") == 0) {
                check(!seen->open);
        }
}

static int put(void *userdata, const char *name, const struct buf *json) {
        struct seen *seen = userdata;
        json_t *value = json_loadb((const char *)json->data, json->size, JSON_ALLOW_NUL, NULL);

        check(value != NULL && !memchr(json->data, '\n', json->size));
        seen->n_put++;
        if (name) {
                check(strcmp(json_string_value(json_object_get(value, "type")), name) == 0);
                check_block(seen, name, value);
        }
        json_decref(value);
        return 0;
}

/* 1: the bytes are at their end. */
static int step(struct writer *writer, struct cursor *c) {
        struct fuzz_part read;
        const struct confab_delta delta = {
                .parts = &read.part, .n_parts = 1, .tokens = &read.token, .n_tokens = 1};

        if (!fuzz_read_part(&read, c))
                return 1;
        return read.what == 255 ? writer->ops->idle(writer) : writer->ops->delta(writer, &delta);
}

static void end(struct writer *writer) {
        const struct confab_done done = {.finish = CONFAB_FINISH_STOP, .stop = "x"};
        const struct talk_usage usage = {.n_prompt = 1, .n_cached = 2, .n_generated = 3};
        const int32_t tokens[] = {1, 2};
        int r = writer->ops->done(writer, &done, &usage);

        check(r >= 0);
        if (r > 0)
                check(ollama_writer_end(writer, tokens, 2) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const struct backend_model model = {.name = "m"};
        const struct talk_place place = {.conversation = 1};
        const struct talk_usage usage = {.n_prompt = 2};
        struct cursor c = {data, size ? data + size : data};
        struct seen seen = {0};
        struct writer *writer;
        uint8_t kind;

        if (cursor_u8(&c, &kind))
                return 0;
        if (kind & 1) {
                const struct anthropic_wish wish = {.thinking = kind & 4};

                writer = anthropic_writer_new(kind & 2, &wish);
        } else {
                const struct ollama_wish wish = {.thinking = kind & 4, .gives_context = kind & 8};

                writer = ollama_writer_new(
                        kind & 8 ? OLLAMA_GENERATE : OLLAMA_CHAT, kind & 2, &wish, kind & 16);
        }
        check(writer != NULL);
        writer->put = put;
        writer->userdata = &seen;
        check(writer->ops->begin(writer, &model, &place, &usage) == 0);
        while (step(writer, &c) == 0)
                ;
        end(writer);
        check((kind & 2) ? seen.n_put > 0 : seen.n_put == 1);
        writer_free(writer);
        return 0;
}
