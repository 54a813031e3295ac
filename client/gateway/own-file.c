/* SPDX-License-Identifier: MIT */
/* Exports: a file whose bytes are passed on as they come. Its name is that of the conversation, in both of RFC 6266's forms. */
#include "base/util.h"
#include "client/gateway/own.h"
#include <ctype.h>
#include <stdio.h>

#define SUFFIX ".confab"

static bool is_plain(unsigned char c) {
        return isascii(c) && (isalnum(c) || c == '-' || c == '_' || c == '.');
}

/* attachment; filename="a_b.confab"; filename*=UTF-8''a%20b.confab */
static int name_file(struct http_exchange *exchange, const char *name) {
        _cleanup_(buf_deinit) struct buf text = BUF_NULL;
        int r = buf_append_str(&text, "attachment; filename=\"");

        for (const char *p = name; *p && r == 0; p++)
                r = buf_append(&text, is_plain((unsigned char)*p) ? p : "_", 1);
        if (r == 0)
                r = buf_append_str(&text, SUFFIX "\"; filename*=UTF-8''");
        if (r == 0)
                r = http_put_encoded(&text, name, "-_.");
        if (r == 0)
                r = buf_append_str(&text, SUFFIX);
        return r == 0 ? http_add_header(exchange, "Content-Disposition", (const char *)text.data)
                      : r;
}

bool own_tell_bytes(struct own_call *own, const struct confab_event *event) {
        struct http_exchange *exchange = own->call->exchange;

        if (!own->has_begun) {
                own->has_begun = true;
                if (name_file(exchange, own->call->arg[0]) < 0) {
                        http_abort(exchange);
                        return false;
                }
                http_begin(exchange, 200, "application/octet-stream");
        }
        if (event->kind == CONFAB_EVENT_EXPORTED) {
                http_end(exchange);
                return false;
        }
        http_write(exchange, event->chunk->data, event->chunk->size);
        if (http_is_slow(exchange))
                line_pause(own->line);
        return true;
}
