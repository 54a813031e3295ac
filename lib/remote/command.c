/* SPDX-License-Identifier: MIT */
/* Commands as they are sent. Each names one key, so a cluster takes all of them. */
#include "base/util.h"
#include "remote/remote-private.h"
#include <stdio.h>

static void append(struct remote_command *c, const char *text) {
        size_t n = strlen(text);

        memcpy(c->head + c->head_size, text, n);
        c->head_size += n;
}

static void append_word(struct remote_command *c, const char *word) {
        char length[32];

        snprintf(length, sizeof(length), "$%zu\r\n", strlen(word));
        append(c, length);
        append(c, word);
        append(c, "\r\n");
}

void remote_command_make(struct remote_command *ret, enum remote_verb verb, bool asking,
        const char *key, const struct remote_value *value, uint32_t keep_sec) {
        static const char *const words[] = {
                [REMOTE_TOUCH] = "*3\r\n$6\r\nEXPIRE\r\n",
                [REMOTE_GET] = "*2\r\n$3\r\nGET\r\n",
                [REMOTE_PUT] = "*5\r\n$3\r\nSET\r\n",
                [REMOTE_REMOVE] = "*2\r\n$6\r\nUNLINK\r\n",
        };
        char seconds[16], length[32];
        int n = snprintf(seconds, sizeof(seconds), "%u", keep_sec);

        ret->head_size = ret->data_size = ret->tail_size = 0;
        ret->data = NULL;
        if (asking)
                append(ret, "*1\r\n$6\r\nASKING\r\n");
        append(ret, words[verb]);
        append_word(ret, key);
        if (verb == REMOTE_TOUCH)
                append_word(ret, seconds);
        if (verb != REMOTE_PUT)
                return;
        snprintf(length, sizeof(length), "$%zu\r\n", value->size);
        append(ret, length);
        ret->data = value->data;
        ret->data_size = value->size;
        ret->tail_size = (size_t)snprintf(
                ret->tail, sizeof(ret->tail), "\r\n$2\r\nEX\r\n$%d\r\n%s\r\n", n, seconds);
}
