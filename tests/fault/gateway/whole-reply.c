/* SPDX-License-Identifier: MIT */
#include "fault/gateway/whole-reply.h"
#include "base/err.h"

const struct confab_part whole_reply_parts[WHOLE_REPLY_PARTS] = {
        {.index = 0, .kind = CONFAB_PART_REASONING, .text = "hm", .text_size = 2, .ends = true},
        {.index = 1, .kind = CONFAB_PART_TEXT, .text = "so", .text_size = 2, .ends = true},
        {.index = 2,
                .kind = CONFAB_PART_CALL,
                .text = "{\"a\":1}",
                .text_size = 7,
                .ends = true,
                .call_id = "t",
                .name = "f"},
        {.index = 3, .kind = CONFAB_PART_TEXT, .text = "on", .text_size = 2, .ends = true},
        {.index = 4,
                .kind = CONFAB_PART_CALL,
                .text = "{",
                .text_size = 1,
                .ends = true,
                .call_id = "u",
                .name = "g",
                .broken = "cut off"},
};

static const struct confab_token token = {
        .token = 1, .has_logprob = true, .logprob = -1, .text = {(const uint8_t *)"a", 1}};

const struct confab_delta whole_reply_delta = {
        .parts = whole_reply_parts, .n_parts = WHOLE_REPLY_PARTS, .tokens = &token, .n_tokens = 1};

static int put(void *userdata, const char *name, const struct buf *json) {
        return 0;
}

int whole_reply_tell(struct writer *writer, const struct talk_error *error) {
        const struct backend_model model = {.name = "m", .socket = "s"};
        const struct talk_place place = {.conversation = 1, .input_turn = 1, .reply_turn = 2};
        const struct talk_usage usage = {.n_prompt = 2};
        const struct confab_done done = {
                .finish = CONFAB_FINISH_STOP, .has_n_calls = true, .n_calls = 1};
        int r;

        if (!writer)
                return -ERR_NOMEM;
        writer->put = put;
        r = writer->ops->begin(writer, &model, &place, &usage);
        if (r == 0)
                r = writer->ops->delta(writer, &whole_reply_delta);
        if (r < 0)
                return r;
        return error ? writer->ops->failed(writer, error)
                     : writer->ops->done(writer, &done, &usage);
}
