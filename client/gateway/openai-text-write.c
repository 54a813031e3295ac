/* SPDX-License-Identifier: MIT */
/* Replies of completions: text, and log-probabilities in the form that this endpoint always had. */
#include "client/gateway/openai-write.h"

static int tell(struct openai_reply *reply, unsigned choice, const void *text, size_t size,
        bool with_tokens, const char *finish) {
        struct json j;

        openai_chunk_begin(reply, &j, choice);
        json_put_key(&j, "text");
        json_put_string_n(&j, size > 0 ? text : "", size);
        return openai_chunk_end(reply, &j, choice, with_tokens, finish);
}

/* The echo is the first chunk. */
int openai_text_begin(struct openai_reply *reply, unsigned choice) {
        const struct openai_choice *to = &reply->choices[choice];

        if (!reply->options.in_pieces || to->echo.size == 0)
                return 0;
        return tell(reply, choice, to->echo.data, to->echo.size, false, NULL);
}

int openai_text_delta(
        struct openai_reply *reply, unsigned choice, const struct confab_delta *delta) {
        struct openai_choice *to = &reply->choices[choice];

        if (delta->text_size == 0)
                return 0;
        if (!reply->options.in_pieces)
                return buf_append(&to->text, delta->text, delta->text_size);
        return tell(reply, choice, delta->text, delta->text_size, to->tokens.n_listed > 0, NULL);
}

int openai_text_done(struct openai_reply *reply, unsigned choice) {
        return tell(reply, choice, NULL, 0, false, reply->choices[choice].finish);
}
