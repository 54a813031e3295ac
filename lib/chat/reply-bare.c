/* SPDX-License-Identifier: MIT */
/*
 * Calls without a mark: a text that begins with {"name": "f" or with [f( where f is one of the
 * functions that were defined. Everything else that begins so is text: models are asked for JSON for
 * other reasons too.
 */
#include <string.h>

#include "base/util.h"
#include "chat/reply-internal.h"

struct reader {
        const struct chat_reply *r;
        size_t at;
};

static uint8_t peek(const struct reader *in) {
        return in->at < in->r->n_trial ? in->r->trial[in->at].c : 0;
}

static void skip_space(struct reader *in) {
        while (reply_is_space(peek(in)))
                in->at++;
}

/* 1: @c is next, and taken; 0: nothing is; -1: something else. */
static int take(struct reader *in, char c) {
        skip_space(in);
        if (in->at == in->r->n_trial)
                return 0;
        if (peek(in) != (uint8_t)c)
                return -1;
        in->at++;
        return 1;
}

static int take_string(struct reader *in, struct reply_string *ret) {
        int is = take(in, '"');

        *ret = (struct reply_string){.size = 0};
        if (is <= 0)
                return is;
        for (; in->at < in->r->n_trial; in->at++) {
                uint8_t c = peek(in);

                if (c == '"') {
                        in->at++;
                        return ret->too_long ? -1 : 1;
                }
                if (c == '\\')
                        return -1;
                reply_string_add(ret, (char)c);
        }
        return 0;
}

/* Keys that may stand in front of the name, and those of the name. */
static int object(const struct chat_reply *r) {
        struct reader in = {r, 0};
        struct reply_string key, value;
        int is = take(&in, '{');

        while (is > 0) {
                is = take_string(&in, &key);
                if (is > 0)
                        is = take(&in, ':');
                if (is > 0)
                        is = take_string(&in, &value);
                if (is <= 0)
                        return is;
                if (strcmp(key.text, "name") == 0 || strcmp(key.text, "function") == 0)
                        return reply_tools_has(r->tools, value.text, value.size) ? 1 : -1;
                if (strcmp(key.text, "type") != 0 && strcmp(key.text, "id") != 0)
                        return -1;
                is = take(&in, ',');
        }
        return is;
}

static int python(const struct chat_reply *r) {
        struct reader in = {r, 0};
        struct reply_string name = {.size = 0};
        int is = take(&in, '[');

        if (is <= 0)
                return is;
        skip_space(&in);
        while (reply_is_name(peek(&in))) {
                reply_string_add(&name, (char)peek(&in));
                in.at++;
        }
        if (in.at == r->n_trial)
                return 0;
        if (peek(&in) != '(')
                return -1;
        return reply_tools_has(r->tools, name.text, name.size) ? 1 : -1;
}

int reply_bare(const struct chat_reply *r) {
        return r->trial[0].c == '[' ? python(r) : object(r);
}
