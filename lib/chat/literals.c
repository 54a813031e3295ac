/* SPDX-License-Identifier: MIT */
/*
 * The strings that a chat template can write, found without running it: the text outside {{ }},
 * {% %} and {# #}, and the string literals inside the first two. tok_protect() looks for markers in
 * these strings.
 *
 * 1. Strings are separated by a NUL, so no token is found across two of them.
 * 2. An escape in a literal (\n, \', \\) is replaced by its character; an unknown one stands for
 *    the escaped character itself.
 * 3. An unterminated tag or literal ends with the template; the part that was read counts.
 */
#include <string.h>

#include "base/buf.h"
#include "base/util.h"
#include "chat/chat-internal.h"

int chat_literal_append(struct buf *out, const char *text) {
        return buf_append(out, text, strlen(text) + 1);
}

static char literal_escape(char c) {
        switch (c) {
        case 'n':
                return '\n';
        case 'r':
                return '\r';
        case 't':
                return '\t';
        default:
                return c;
        }
}

/* Read the literal that begins at text[at], a quote. @at moves past it. */
static int literal_read(struct buf *out, const char *text, size_t size, size_t *at) {
        char quote = text[(*at)++];
        int r = 0;

        while (r >= 0 && *at < size && text[*at] != quote) {
                char c = text[(*at)++];

                if (c == '\\' && *at < size)
                        c = literal_escape(text[(*at)++]);
                r = buf_append(out, &c, 1);
        }
        if (*at < size)
                ++*at;
        return r < 0 ? r : buf_append(out, "", 1);
}

/* Read the tag that begins at text[at]. @at moves past it. */
static int tag_read(struct buf *out, const char *text, size_t size, size_t *at) {
        char kind = text[*at + 1], close = kind == '{' ? '}' : kind;
        int r = 0;

        for (*at += 2; r >= 0 && *at < size;) {
                if (text[*at] == close && *at + 1 < size && text[*at + 1] == '}') {
                        *at += 2;
                        return 0;
                }
                if (kind != '#' && (text[*at] == '\'' || text[*at] == '"'))
                        r = literal_read(out, text, size, at);
                else
                        ++*at;
        }
        return r;
}

int chat_literals(struct buf *out, const char *text, size_t size) {
        size_t at = 0, from = 0;
        int r = 0;

        while (r >= 0 && at < size) {
                if (text[at] != '{' || at + 1 == size || !strchr("{%#", text[at + 1]) ||
                        text[at + 1] == '\0') {
                        at++;
                        continue;
                }
                r = buf_append(out, text + from, at - from);
                if (r >= 0)
                        r = buf_append(out, "", 1);
                if (r >= 0)
                        r = tag_read(out, text, size, &at);
                from = at;
        }
        if (r < 0 || from == size)
                return r;
        r = buf_append(out, text + from, size - from);
        return r < 0 ? r : buf_append(out, "", 1);
}
