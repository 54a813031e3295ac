/* SPDX-License-Identifier: MIT */
/* Roles, and the kinds of messages that a template writes each in its own way. */
#include "chat/chat-internal.h"

static const char *const role_names[CHAT_N_ROLES] = {
        [CHAT_SYSTEM] = "system",
        [CHAT_USER] = "user",
        [CHAT_ASSISTANT] = "assistant",
        [CHAT_RAW] = "raw",
        [CHAT_TOOL] = "tool",
};

const char *chat_role_name(enum chat_role r) {
        return (unsigned)r < CHAT_N_ROLES ? role_names[r] : "unknown";
}

enum chat_kind chat_kind_of(const struct chat_message *m) {
        return m->role == CHAT_TOOL                          ? CHAT_KIND_RESULTS
               : m->role == CHAT_ASSISTANT && m->n_calls > 0 ? CHAT_KIND_CALLS
                                                             : (enum chat_kind)m->role;
}

enum chat_kind chat_kind_before(enum chat_after after) {
        return after == CHAT_AFTER_SYSTEM    ? CHAT_KIND_SYSTEM
               : after == CHAT_AFTER_USER    ? CHAT_KIND_USER
               : after == CHAT_AFTER_RESULTS ? CHAT_KIND_RESULTS
                                             : CHAT_KIND_ASSISTANT;
}
