/* SPDX-License-Identifier: MIT */
/* Readers of replies by the rows of a chat format. */
#include "chat/chat.h"
#include "chat/reply-internal.h"

int chat_reply_new(struct chat_reply **ret, const struct chat *c, const char *tools,
        size_t tools_size, struct charge *charge, struct err *e) {
        return reply_new(ret, chat_reply_rules(c), tools, tools_size, charge, e);
}

const char *chat_reply_format(const struct chat *c) {
        const struct reply_rules *rules = chat_reply_rules(c);

        return rules->calls ? rules->calls->name : "none";
}

bool chat_reasons(const struct chat *c) {
        const struct reply_rules *rules = chat_reply_rules(c);

        return rules->thinking || (rules->calls && rules->calls->kind == REPLY_KIND_CHANNELS);
}
