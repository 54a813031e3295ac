/* SPDX-License-Identifier: MIT */
/*
 * List: pages of conversations.
 *
 * 1. A page takes at most a part of what requests share. It may end before the number that was asked
 *    for; then there are more.
 * 2. What is noted about a conversation is charged to the request when it is read, and goes with its
 *    charge to the answer.
 */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "engine/verbs/verbs.h"

#define LIST_PART 4 /* a page takes at most this part of the share of requests */
/* A row as it was read and its copy in the answer, with the name and the tenant's label. */
#define ROW_SIZE (sizeof(struct store_listed) + sizeof(struct engine_conv) + 2 * STORE_NAME_MAX)

struct page {
        struct store_listed *rows; /* [max] */
        size_t n, max;
        bool more;
        size_t left; /* bytes that the page may still take */
};

static struct page *page_of(struct request *request) {
        return request_own(request);
}

static void page_deinit(struct engine *engine, struct request *request) {
        struct page *page = page_of(request);

        (void)engine;
        for (size_t i = 0; page->rows && i < page->max; i++) {
                free(page->rows[i].about);
                free(page->rows[i].hit.snippet);
        }
        free(page->rows);
}

/* What is noted about the next conversation. */
static int admit(void *arg, size_t n, struct err *e) {
        struct request *request = arg;
        struct page *page = page_of(request);
        int r;

        if (n > page->left)
                return err_set(
                        e, ERR_LIMIT, "a page of conversations has no room for %zu bytes", n);
        r = charge_take(&request->charge, n, "a list", e);
        if (r == 0)
                page->left -= n;
        return r;
}

/* As many rows as fit, and are asked for. What is noted takes the rest of the page. */
static int make_room(struct engine *engine, struct request *request, struct err *e) {
        struct page *page = page_of(request);
        size_t most = ledger_budget(&engine->budget->requests) / LIST_PART;
        size_t max = request->r.limit ? request->r.limit : ENGINE_MAX_LIST;
        int r;

        page->max = MAX(MIN(max, most / ROW_SIZE), (size_t)1);
        page->left = most;
        r = charge_take(&request->charge, page->max * sizeof(*page->rows), "a list", e);
        if (r < 0)
                return r;
        page->rows = calloc(page->max, sizeof(*page->rows));
        return page->rows ? 0 : err_set(e, ERR_NOMEM, "no memory for a list");
}

static void list_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct page *page = page_of(request);
        const struct engine_request *r = &request->r;
        const struct store_list list = {.owner = r->all_users && r->admin ? OWNER_ANY : r->owner,
                .by_update = r->order == ENGINE_ORDER_UPDATED,
                .goes_on = r->goes_on,
                .after = {r->after.updated_usec, r->after.id},
                .tag = r->tag,
                .search = r->search};

        j->r = make_room(engine, request, &j->err);
        if (j->r == 0)
                j->r = store_list(engine->store, &list, admit, request, page->rows, page->max,
                        &page->n, &page->more, &j->err);
}

/* The answer's next conversation. */
static int add(struct engine *engine, struct request *request, struct engine_event *ev,
        struct store_listed *row, struct err *e) {
        struct engine_conv *out = &ev->convs.convs[ev->convs.n];
        int r = event_conv(request->final, out, &row->conv, e);

        if (r < 0)
                return r;
        ev->convs.n++;
        ev->convs.after = (struct engine_place){row->conv.updated_usec, row->conv.id};
        request_fill_residency(engine, &row->conv, row->disk_size, out);
        if (row->about) {
                event_adopt(request->final, &request->charge, about_size(row->about));
                out->about = TAKE_PTR(row->about);
        }
        if (row->hit.snippet) {
                event_adopt(request->final, &request->charge, store_snippet_size());
                out->snippet = TAKE_PTR(row->hit.snippet);
                out->hit_turn = row->hit.in_turn ? row->hit.turn : ENGINE_UNSET;
        }
        return 0;
}

static int fill(struct engine *engine, struct request *request, struct err *e) {
        struct page *page = page_of(request);
        struct engine_event *ev = request_answer(request, ENGINE_CONVS);
        int r = 0;

        ev->convs.more = page->more;
        ev->convs.order =
                request->r.order == ENGINE_ORDER_UPDATED ? ENGINE_ORDER_UPDATED : ENGINE_ORDER_ID;
        ev->convs.convs = event_calloc(request->final, page->n, sizeof(*ev->convs.convs), e);
        if (!ev->convs.convs)
                return -(int)e->code;
        for (size_t i = 0; r == 0 && i < page->n; i++)
                r = add(engine, request, ev, &page->rows[i], e);
        return r;
}

static void list_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);

        if (j->r < 0 || fill(engine, request, &j->err) < 0)
                request_fail(engine, request, &j->err);
        else
                request_finish(engine, request);
}

static void list(struct engine *engine, struct request *request) {
        request_submit(engine, request, list_run, list_done);
}

const struct verb verb_list = {
        .own_size = sizeof(struct page), .deinit = page_deinit, .start = list, .looks = true};
