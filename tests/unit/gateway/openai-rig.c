/* SPDX-License-Identifier: MIT */
#include "unit/gateway/openai-rig.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "util/test.h"

int openai_rig_chat(struct openai_read *ret, const char *body) {
        int r;

        *ret = (struct openai_read){};
        r = form_new(&ret->form, &ret->e);
        if (r < 0)
                return r;
        ret->is = form_fields(ret->form);
        return openai_read_chat(
                ret->form, &ret->options, &ret->fields, body, strlen(body), &ret->e);
}

int openai_rig_text(struct openai_read *ret, const char *body) {
        *ret = (struct openai_read){};
        return openai_read_text(
                &ret->prompts, &ret->options, &ret->fields, body, strlen(body), &ret->e);
}

void openai_rig_free(struct openai_read *read) {
        read->form = form_free(read->form);
        openai_prompts_deinit(&read->prompts);
}

/* Runs between failures of allocations, so it allocates nothing. */
static int collect(void *userdata, const struct buf *json) {
        struct openai_said *said = userdata;
        const char *text = (const char *)json->data, *choices = strstr(text, "\"choices\":");
        size_t length = (size_t)(choices - text);

        if (said->n_chunks == said->refuse_at)
                return -ERR_STATE;
        assert_non_null(choices);
        assert_int_equal(strlen(text), json->size);
        assert_null(memchr(text, '\n', json->size));
        if (said->n_chunks++ == 0) {
                assert_true(length < sizeof(said->head));
                memcpy(said->head, text, length);
                said->head[length] = 0;
        }
        assert_int_equal(length, strlen(said->head));
        assert_memory_equal(text, said->head, length);
        assert_true(said->lines.size + json->size + 1 < said->lines.capacity);
        buf_append_str(&said->lines, choices);
        buf_append_str(&said->lines, "\n");
        return 0;
}

void openai_said_new(struct openai_said *ret, const struct openai_reply_options *options) {
        *ret = (struct openai_said){.refuse_at = -1};
        assert_int_equal(buf_reserve(&ret->lines, 1 << 16), 0);
        ret->lines.data[0] = 0;
        openai_reply_new(&ret->reply, options, collect, ret);
}

void openai_said_free(struct openai_said *said) {
        said->reply = openai_reply_free(said->reply);
        buf_deinit(&said->lines);
}

/* The token, with itself and "?" as alternatives. */
static int tell(struct openai_said *said, unsigned choice, struct confab_delta *delta,
        const struct openai_rig_token *token) {
        struct confab_logprob top[2];
        struct confab_token told;

        if (token) {
                top[0] = (struct confab_logprob){
                        1, token->logprob, {(const uint8_t *)token->text, strlen(token->text)}};
                top[1] = (struct confab_logprob){2, -INFINITY, {(const uint8_t *)"?", 1}};
                told = (struct confab_token){.token = 1,
                        .has_logprob = true,
                        .logprob = token->logprob,
                        .top = top,
                        .n_top = 2,
                        .text = top[0].text};
                delta->tokens = &told;
                delta->n_tokens = 1;
        }
        return openai_reply_delta(said->reply, choice, delta);
}

int openai_rig_part(struct openai_said *said, unsigned choice, enum confab_part_kind kind,
        const char *text, const struct openai_rig_token *token) {
        struct confab_part part = {.kind = kind, .text = text, .text_size = strlen(text)};
        struct confab_delta delta = {.text = "", .parts = &part, .n_parts = 1};

        return tell(said, choice, &delta, token);
}

int openai_rig_token_only(
        struct openai_said *said, unsigned choice, const struct openai_rig_token *token) {
        struct confab_delta delta = {.text = ""};

        return tell(said, choice, &delta, token);
}

int openai_rig_call(struct openai_said *said, unsigned choice, const char *id, const char *name,
        const char *text, bool ends, const char *broken) {
        struct confab_part part = {.kind = CONFAB_PART_CALL,
                .text = text,
                .text_size = strlen(text),
                .call_id = id,
                .name = name,
                .ends = ends,
                .broken = broken};
        struct confab_delta delta = {.text = "", .parts = &part, .n_parts = 1};

        return tell(said, choice, &delta, NULL);
}

int openai_rig_plain(struct openai_said *said, unsigned choice, const char *text,
        const struct openai_rig_token *token) {
        struct confab_delta delta = {.text = text, .text_size = strlen(text)};

        return tell(said, choice, &delta, token);
}
