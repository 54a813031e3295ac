/* SPDX-License-Identifier: MIT */
/*
 * Imports: a file that is the body of a request. Its pieces go to the daemon as they come; at most one read of the connection
 * waits in memory.
 *
 *      head ──▶ ASKED: body held ──greeted──▶ read ──piece──▶ body held ──sent──▶ read ... ──complete──▶ answer
 *
 * 1. The body is read only while the line has nothing to send, so a daemon that is slow slows the client down.
 * 2. An error of the daemon answers at once, whatever of the body is still to come.
 * 3. The client's going ends the line, and the daemon forgets the file.
 */
#include "client/gateway/own.h"

static void on_sent(void *userdata) {
        struct own_call *own = userdata;

        http_hold_body(own->call->exchange, false);
}

static void fail(struct own_call *own, const struct confab_error *error) {
        struct gateway_call *call = own->call;

        own_free(own);
        own_refuse(call, CONFAB_IMPORT, error);
}

static void on_piece(void *userdata, const void *data, size_t size) {
        struct own_call *own = userdata;
        struct confab_error error;

        http_hold_body(own->call->exchange, true);
        if (line_send_chunk(own->line, own->id, data, size, false, &error) < 0)
                fail(own, &error);
        else
                line_set_drained(own->line, on_sent, own);
}

void own_begin_import(struct own_call *own) {
        line_set_drained(own->line, on_sent, own);
}

void own_handle_import(struct gateway_call *call) {
        struct own_call *own = call->userdata;
        struct confab_error error;

        line_set_drained(own->line, NULL, NULL);
        if (line_send_chunk(own->line, own->id, "", 0, true, &error) < 0)
                fail(own, &error);
}

void own_admit_import(struct gateway_call *call) {
        static const struct own_route route = {CONFAB_IMPORT, OWN_ONE, .creates = true};
        struct own_call *own = own_new(call, &route);

        if (!own)
                return;
        call->userdata = own;
        http_set_sink(call->exchange, gateway_settings(call->gateway)->max_import, on_piece, own);
        http_hold_body(call->exchange, true);
        own_ask(own);
}
