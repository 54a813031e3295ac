/* SPDX-License-Identifier: MIT */
/*
 * session/list: with cwd, the sessions that editors made for this folder; without, all conversations of the user,
 * those of other programs as well. Throw-away conversations are left out: sessions that were never prompted, and
 * what other programs do not mean to keep. Latest change first.
 *
 * A page is one of the daemon's, less what is left out, so it may be short; where nothing is left of one, the next
 * one is asked for, so only the last page may be empty. Cursors are the daemon's.
 */
#include "base/cleanup.h"
#include "client/acp/agent.h"
#include "client/acp/note.h"
#include "client/acp/params.h"
#include <stdio.h>

struct listing {
        struct acp_call call;
        char *cwd; /* owned, or NULL */
};

/* What is told of a conversation that no editor made: ACP requires a folder. */
#define NO_FOLDER "/"

static void put_item(struct json *j, const struct confab_conversation *c, const char *cwd) {
        const char *title = c->about ? c->about->title : NULL;
        char number[24];

        snprintf(number, sizeof(number), "%llu", (unsigned long long)c->id);
        json_object_begin(j);
        json_put_key_string(j, "sessionId", number);
        json_put_key_string(j, "cwd", cwd ? cwd : NO_FOLDER);
        json_put_key_string(j, "title", title && *title ? title : c->name);
        json_put_key(j, "updatedAt");
        acp_put_time(j, c->updated_usec);
        json_object_end(j);
}

/* 1: the conversation is to be listed, with *ret_cwd, to be freed, or NULL; 0: it is left out; -ERR_NOMEM. */
static int look_at(
        const struct listing *listing, const struct confab_conversation *c, char **ret_cwd) {
        _cleanup_(freep) char *cwd = NULL;
        int r;

        if (c->about && c->about->expires_after > 0)
                return 0;
        r = acp_note_cwd(c->about ? c->about->metadata : NULL, &cwd);
        if (r < 0)
                return r;
        if (listing->cwd && (!cwd || strcmp(cwd, listing->cwd) != 0))
                return 0;
        *ret_cwd = TAKE_PTR(cwd);
        return 1;
}

/* How many of the page are to be listed, or -ERR_NOMEM. */
static int count(const struct listing *listing, const struct confab_conversations *page) {
        int n = 0;

        for (size_t i = 0; i < page->n_items; i++) {
                _cleanup_(freep) char *cwd = NULL;
                int r = look_at(listing, &page->items[i], &cwd);

                if (r < 0)
                        return r;
                n += r;
        }
        return n;
}

static void answer(struct listing *listing, const struct confab_conversations *page) {
        struct acp_out *out = &listing->call.agent->out;
        struct json *j = acp_call_result(&listing->call);

        json_put_key(j, "sessions");
        json_array_begin(j);
        for (size_t i = 0; i < page->n_items; i++) {
                _cleanup_(freep) char *cwd = NULL;
                int r = look_at(listing, &page->items[i], &cwd);

                if (r > 0)
                        put_item(j, &page->items[i], cwd);
                else if (r < 0 && out->error == 0)
                        out->error = r;
        }
        json_array_end(j);
        if (page->more && page->cursor) {
                json_put_key_string(j, "nextCursor", page->cursor);
        }
        acp_call_done(&listing->call);
}

static void page_request(
        const struct listing *listing, const char *cursor, struct confab_request *r) {
        r->verb = CONFAB_LIST;
        r->order = CONFAB_ORDER_UPDATED;
        r->tag = listing->cwd ? ACP_TAG : NULL;
        r->cursor = cursor;
}

static void on_page(void *userdata, const struct confab_event *event) {
        struct listing *listing = userdata;
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct acp_failure failure;
        int n;

        if (acp_call_failed(&listing->call, event) || event->kind != CONFAB_EVENT_CONVERSATIONS)
                return;
        n = count(listing, event->conversations);
        if (n < 0) {
                acp_fail_no_memory(&failure);
                acp_call_fail(&listing->call, &failure);
        } else if (n == 0 && event->conversations->more && event->conversations->cursor) {
                page_request(listing, event->conversations->cursor, &r);
                acp_call_next(&listing->call, &r, on_page);
        } else {
                answer(listing, event->conversations);
        }
}

static int start_list(
        struct acp_call *call, const struct json_value *params, struct acp_failure *failure) {
        struct listing *listing = container_of(call, struct listing, call);
        struct confab_request r = CONFAB_REQUEST_INIT;
        const char *cwd, *cursor;

        if (acp_param_path(params, "cwd", false, &cwd, failure) < 0 ||
                acp_param_optional(params, "cursor", &cursor, failure) < 0)
                return -1;
        if (cwd && !(listing->cwd = strdup(cwd)))
                return acp_fail_no_memory(failure);
        page_request(listing, cursor, &r);
        return acp_call_submit(call, &r, on_page, failure);
}

static void deinit_list(struct acp_call *call) {
        free(container_of(call, struct listing, call)->cwd);
}

const struct acp_method acp_method_list = {
        "session/list", sizeof(struct listing), start_list, deinit_list};
