/* SPDX-License-Identifier: MIT */
/*
 * Numbers are written as the doubles that the floats are, with all digits, so whoever reads them has the bits of the
 * native protocol. JSON has no infinity: what is impossible has -9999, as OpenAI says it.
 */
#include "client/gateway/openai-logprobs.h"
#include "base/utf8.h"
#include <math.h>
#include <string.h>

struct openai_text {
        size_t at, size; /* in `text` */
};
struct openai_top {
        struct openai_text text;
        float logprob;
};
struct openai_token {
        struct openai_text text;
        float logprob;
        size_t top_at, n_top; /* in `tops`, counted */
};

void openai_tokens_deinit(struct openai_tokens *tokens) {
        buf_deinit(&tokens->tokens);
        buf_deinit(&tokens->tops);
        buf_deinit(&tokens->text);
}

static size_t n_tokens(const struct openai_tokens *tokens) {
        return tokens->tokens.size / sizeof(struct openai_token);
}

static const struct openai_token *token_at(const struct openai_tokens *tokens, size_t i) {
        return &((const struct openai_token *)(const void *)tokens->tokens.data)[i];
}

static const struct openai_top *top_at(const struct openai_tokens *tokens, size_t i) {
        return &((const struct openai_top *)(const void *)tokens->tops.data)[i];
}

static int add_text(
        struct openai_tokens *tokens, struct openai_text *ret, const struct confab_bytes *bytes) {
        *ret = (struct openai_text){tokens->text.size, bytes->size};
        return bytes->size > 0 ? buf_append(&tokens->text, bytes->data, bytes->size) : 0;
}

int openai_tokens_add(struct openai_tokens *tokens, const struct confab_token *token) {
        struct openai_token to = {.logprob = token->has_logprob ? token->logprob : -INFINITY,
                .top_at = tokens->tops.size / sizeof(struct openai_top),
                .n_top = token->n_top};
        int r = add_text(tokens, &to.text, &token->text);

        for (size_t i = 0; r == 0 && i < token->n_top; i++) {
                struct openai_top top = {.logprob = token->top[i].logprob};

                r = add_text(tokens, &top.text, &token->top[i].text);
                if (r == 0)
                        r = buf_append(&tokens->tops, &top, sizeof(top));
        }
        return r < 0 ? r : buf_append(&tokens->tokens, &to, sizeof(to));
}

void openai_tokens_list(struct openai_tokens *tokens) {
        tokens->n_listed = n_tokens(tokens);
}

void openai_tokens_drop(struct openai_tokens *tokens) {
        const struct openai_token *first;

        if (n_tokens(tokens) == tokens->n_listed)
                return;
        first = token_at(tokens, tokens->n_listed);
        tokens->text.size = first->text.at;
        tokens->tops.size = first->top_at * sizeof(struct openai_top);
        tokens->tokens.size = tokens->n_listed * sizeof(struct openai_token);
}

static const uint8_t *text_of(const struct openai_tokens *tokens, const struct openai_text *text) {
        return text->size > 0 ? tokens->text.data + text->at : (const uint8_t *)"";
}

static uint64_t characters_of(
        const struct openai_tokens *tokens, const struct openai_token *token) {
        return openai_count_characters(text_of(tokens, &token->text), token->text.size);
}

void openai_tokens_clear(struct openai_tokens *tokens) {
        for (size_t i = 0; i < tokens->n_listed; i++)
                tokens->n_characters += characters_of(tokens, token_at(tokens, i));
        tokens->tokens.size = tokens->tops.size = tokens->text.size = 0;
        tokens->n_listed = 0;
}

uint64_t openai_count_characters(const void *text, size_t size) {
        const uint8_t *bytes = text;
        uint64_t n = 0;

        for (size_t i = 0; i < size; i++)
                n += (bytes[i] & 0xC0) != 0x80;
        return n;
}

static void put_logprob(struct json *j, float logprob) {
        json_put_double(j, isfinite(logprob) ? (double)logprob : -9999.0);
}

static void put_token(struct json *j, const struct openai_tokens *tokens,
        const struct openai_text *text, float logprob) {
        const uint8_t *bytes = text_of(tokens, text);

        json_put_key(j, "token");
        json_put_string_n(j, bytes, text->size);
        json_put_key(j, "logprob");
        put_logprob(j, logprob);
        json_put_key(j, "bytes");
        json_array_begin(j);
        for (size_t i = 0; i < text->size; i++)
                json_put_u64(j, bytes[i]);
        json_array_end(j);
}

void openai_tokens_write_items(const struct openai_tokens *tokens, struct json *j) {
        for (size_t i = 0; i < tokens->n_listed; i++) {
                const struct openai_token *token = token_at(tokens, i);

                json_object_begin(j);
                put_token(j, tokens, &token->text, token->logprob);
                json_put_key(j, "top_logprobs");
                json_array_begin(j);
                for (size_t k = 0; k < token->n_top; k++) {
                        const struct openai_top *top = top_at(tokens, token->top_at + k);

                        json_object_begin(j);
                        put_token(j, tokens, &top->text, top->logprob);
                        json_object_end(j);
                }
                json_array_end(j);
                json_object_end(j);
        }
}

void openai_tokens_write_chat(const struct openai_tokens *tokens, struct json *j) {
        json_object_begin(j);
        json_put_key(j, "content");
        json_array_begin(j);
        openai_tokens_write_items(tokens, j);
        json_array_end(j);
        json_put_key(j, "refusal");
        json_put_null(j);
        json_object_end(j);
}

/* The name of a token in completions: its text, or if that is no whole text its bytes as OpenAI wrote them. */
static void name_token(struct buf *ret, const struct openai_tokens *tokens,
        const struct openai_text *text, struct json *j) {
        const uint8_t *bytes = text_of(tokens, text);
        int r = 0;

        ret->size = 0;
        if (utf8_valid(bytes, text->size) && !memchr(bytes, 0, text->size)) {
                r = buf_append(ret, bytes, text->size);
        } else {
                r = buf_append_str(ret, "bytes:");
                for (size_t i = 0; r == 0 && i < text->size; i++)
                        r = buf_printf(ret, "\\x%02x", bytes[i]);
        }
        if (r < 0 && j->error == 0)
                j->error = r;
}

static void put_names(const struct openai_tokens *tokens, struct json *j, struct buf *name) {
        json_put_key(j, "tokens");
        json_array_begin(j);
        for (size_t i = 0; i < tokens->n_listed; i++) {
                name_token(name, tokens, &token_at(tokens, i)->text, j);
                json_put_string_n(j, name->data, name->size);
        }
        json_array_end(j);
}

static void put_tops(const struct openai_tokens *tokens, struct json *j, struct buf *name) {
        json_put_key(j, "top_logprobs");
        json_array_begin(j);
        for (size_t i = 0; i < tokens->n_listed; i++) {
                const struct openai_token *token = token_at(tokens, i);

                json_object_begin(j);
                for (size_t k = 0; k < token->n_top; k++) {
                        const struct openai_top *top = top_at(tokens, token->top_at + k);

                        name_token(name, tokens, &top->text, j);
                        json_put_key(j, name->size > 0 ? (const char *)name->data : "");
                        put_logprob(j, top->logprob);
                }
                json_object_end(j);
        }
        json_array_end(j);
}

void openai_tokens_write_text(const struct openai_tokens *tokens, struct json *j) {
        _cleanup_(buf_deinit) struct buf name = BUF_NULL;
        uint64_t offset = tokens->n_characters;

        json_object_begin(j);
        put_names(tokens, j, &name);
        json_put_key(j, "token_logprobs");
        json_array_begin(j);
        for (size_t i = 0; i < tokens->n_listed; i++)
                put_logprob(j, token_at(tokens, i)->logprob);
        json_array_end(j);
        put_tops(tokens, j, &name);
        json_put_key(j, "text_offset");
        json_array_begin(j);
        for (size_t i = 0; i < tokens->n_listed; i++) {
                json_put_u64(j, offset);
                offset += characters_of(tokens, token_at(tokens, i));
        }
        json_array_end(j);
        json_object_end(j);
}
