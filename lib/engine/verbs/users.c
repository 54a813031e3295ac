/* SPDX-License-Identifier: MIT */
/*
 * Users: what each owner has and does, a page in any order.
 *
 * 1. The owners are those who have a conversation, and those whom the caller names (engine_request.known): two lists by rising
 *    owner, which one walk goes through together.
 * 2. The walk looks at all owners for each page, since any of them may have the greatest figure, and keeps the rows of the
 *    page alone. So the answer's memory is bounded by the page, not by the number of owners. Rows are charged as they come;
 *    without room for more of them the page is shorter.
 * 3. It goes in slices, each a job of its own (STEPS), and each look into the register is short (store/owners.c). So it
 *    holds up neither commits nor other requests, however many owners there are.
 * 4. What is in RAM is noted at the beginning, on the engine thread: a sum for each owner with a loaded conversation.
 */
#include <stdlib.h>
#include <string.h>

#include "spill/spill.h"

#include "engine/verbs/walk.h"

#define STEPS 64 /* of a slice: an owner, or WALK_PAGE conversations of one */

#define FIRST_ROWS 16

void walk_deinit(struct walk *w) {
        free(w->rows);
        free(w->ram);
        free(w->page);
}

/* --- the page (2) --- */

static uint64_t figure_of(enum engine_user_order order, const struct engine_user *user) {
        switch (order) {
        case ENGINE_USERS_BY_CONVERSATIONS:
                return user->n_convs;
        case ENGINE_USERS_BY_TOKENS:
                return user->n_tokens;
        case ENGINE_USERS_BY_RAM:
                return user->ram_size;
        case ENGINE_USERS_BY_DISK:
                return user->disk_size;
        case ENGINE_USERS_BY_REQUESTS:
                return user->n_requests;
        case ENGINE_USERS_BY_CONNECTIONS:
                return user->known.n_connections;
        case ENGINE_USERS_BY_PREFILLED:
                return user->known.prefilled;
        case ENGINE_USERS_BY_DECODED:
                return user->known.decoded;
        case ENGINE_USERS_BY_USED:
                return user->used_usec;
        case ENGINE_USERS_BY_UNSET:
        case ENGINE_USERS_BY_OWNER:
                break;
        }
        return 0;
}

/* Is the place (figure, owner) in front of another one? */
static bool is_before(uint64_t figure, uint64_t owner, uint64_t other_figure, uint64_t other) {
        return figure != other_figure ? figure > other_figure : owner < other;
}

/* Room for more rows, up to the page (2). */
static void grow(struct request *request, struct walk *w) {
        size_t room = MIN(MAX(w->room * 2, (size_t)FIRST_ROWS), w->max), more = room - w->room;
        struct engine_user *rows = NULL;

        if (charge_take(&request->charge, more * sizeof(*rows), "a list of users", NULL) == 0) {
                rows = realloc(w->rows, room * sizeof(*rows));
                if (!rows)
                        charge_give(&request->charge, more * sizeof(*rows));
        }
        if (!rows) {
                w->max = w->room; /* from now on, or the page would have gaps */
                return;
        }
        w->rows = rows;
        w->room = room;
}

static void add_row(struct request *request, struct walk *w, const struct engine_user *user) {
        enum engine_user_order order = request->r.user_order;
        uint64_t figure = figure_of(order, user);
        size_t i = w->n;

        if (request->r.after_user &&
                !is_before(request->r.after_value, request->r.after_owner, figure, user->owner))
                return;
        while (i > 0 && is_before(figure, user->owner, figure_of(order, &w->rows[i - 1]),
                                w->rows[i - 1].owner))
                i--;
        if (w->n == w->room && w->room < w->max)
                grow(request, w);
        w->more = w->more || w->n == w->room;
        if (i == w->room)
                return;
        if (w->n == w->room)
                w->n--;
        memmove(w->rows + i + 1, w->rows + i, (w->n - i) * sizeof(*w->rows));
        w->rows[i] = *user;
        w->n++;
}

/* --- the walk (1) --- */

static bool is_asked_for(const struct request *request, uint64_t owner) {
        return !request->r.one_user || owner_uid(owner) == request->r.uid;
}

/* The next owner of both lists. 1; 0: there is none. */
static int next_owner(struct engine *engine, struct request *request, struct walk *w, uint64_t *ret,
        struct err *e) {
        const struct engine_request *q = &request->r;
        uint64_t stored = 0;
        int r = store_owner_next(engine->store, w->from, &stored, e);
        bool is_known;

        if (r < 0)
                return r;
        while (w->at_known < q->n_known && q->known[w->at_known].owner < w->from)
                w->at_known++;
        is_known = w->at_known < q->n_known;
        if (r == 0 && !is_known)
                return 0;
        *ret = r == 0                                             ? q->known[w->at_known].owner
               : is_known && q->known[w->at_known].owner < stored ? q->known[w->at_known].owner
                                                                  : stored;
        return 1;
}

static int begin_owner(struct engine *engine, struct request *request, struct walk *w,
        uint64_t owner, struct err *e) {
        const struct engine_request *q = &request->r;

        w->user = (struct engine_user){.owner = owner,
                .disk_size = spill_owner_size(engine->spill, owner),
                .n_requests = desk_n_requests_of(engine, owner),
                .known = {.owner = owner}};
        w->after = 0;
        w->has_owner = true;
        if (w->at_known < q->n_known && q->known[w->at_known].owner == owner)
                w->user.known = q->known[w->at_known];
        while (w->at_ram < w->n_ram && w->ram[w->at_ram].owner < owner)
                w->at_ram++;
        if (w->at_ram < w->n_ram && w->ram[w->at_ram].owner == owner)
                w->user.ram_size = w->ram[w->at_ram].size;
        return owner_tenant(owner) > 0 ? store_tenant_label(engine->store, owner, w->user.tenant, e)
                                       : 0;
}

/* A page of the owner's conversations. */
static int count_some(
        struct engine *engine, struct request *request, struct walk *w, struct err *e) {
        size_t n = 0;
        int r = store_owned(engine->store, w->user.owner, w->after, w->page, WALK_PAGE, &n, e);

        if (r < 0)
                return r;
        for (size_t i = 0; i < n; i++) {
                w->user.n_convs++;
                w->user.n_tokens += w->page[i].n_tokens;
                w->user.used_usec = MAX(w->user.used_usec, w->page[i].updated_usec);
                w->after = w->page[i].id;
        }
        if (n == WALK_PAGE)
                return 0;
        w->has_owner = false;
        add_row(request, w, &w->user);
        return 0;
}

static int step(struct engine *engine, struct request *request, struct walk *w, struct err *e) {
        uint64_t owner = 0;
        int r;

        if (w->has_owner)
                return count_some(engine, request, w, e);
        r = next_owner(engine, request, w, &owner, e);
        if (r <= 0) {
                w->ends = r == 0;
                return r;
        }
        w->from = owner + 1;
        return is_asked_for(request, owner) ? begin_owner(engine, request, w, owner, e) : 0;
}

static void slice_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct walk *w = walk_of(request);

        j->r = 0;
        for (unsigned i = 0; j->r == 0 && !w->ends && i < STEPS; i++)
                j->r = step(engine, request, w, &j->err);
}

static void slice_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct walk *w = walk_of(request);

        if (j->r == 0 && engine->stopping)
                j->r = err_set(&j->err, ERR_SHUTDOWN, "the daemon is stopping");
        if (j->r == 0 && atomic_load(&request->cancel))
                j->r = err_set(&j->err, ERR_CANCELLED, "cancelled before all users were counted");
        if (j->r < 0)
                request_fail(engine, request, &j->err);
        else if (w->ends)
                w->done(engine, request);
        else
                request_submit(engine, request, slice_run, slice_done);
}

struct engine_user *walk_give(struct request *request) {
        struct walk *w = walk_of(request);

        event_adopt(request->final, &request->charge, w->room * sizeof(*w->rows));
        w->room = 0;
        return TAKE_PTR(w->rows);
}

/* --- the beginning (4) --- */

static int by_owner(const void *a, const void *b) {
        uint64_t x = ((const struct in_ram *)a)->owner, y = ((const struct in_ram *)b)->owner;

        return (x > y) - (x < y);
}

static int known_by_owner(const void *a, const void *b) {
        uint64_t x = ((const struct engine_known *)a)->owner;
        uint64_t y = ((const struct engine_known *)b)->owner;

        return (x > y) - (x < y);
}

/* One entry for each owner. */
static size_t join(struct in_ram *ram, size_t n) {
        size_t k = 0;

        for (size_t i = 0; i < n; i++) {
                if (k > 0 && ram[k - 1].owner == ram[i].owner)
                        ram[k - 1].size += ram[i].size;
                else
                        ram[k++] = ram[i];
        }
        return k;
}

static int note_ram(struct engine *engine, struct request *request, struct walk *w, struct err *e) {
        size_t count = convs_count(engine), it = 0, n = 0;
        struct conv *c;
        int r = charge_take(&request->charge,
                count * sizeof(*w->ram) + WALK_PAGE * sizeof(*w->page), "counting users", e);

        if (r < 0)
                return r;
        w->ram = calloc(count + 1, sizeof(*w->ram));
        w->page = calloc(WALK_PAGE, sizeof(*w->page));
        if (!w->ram || !w->page)
                return err_set(e, ERR_NOMEM, "no memory for counting users");
        while (n < count && (c = convs_next(engine, &it)))
                w->ram[n++] = (struct in_ram){c->owner, seq_resident_size(c->seq)};
        qsort(w->ram, n, sizeof(*w->ram), by_owner);
        w->n_ram = join(w->ram, n);
        return 0;
}

int walk_begin(
        struct engine *engine, struct request *request, size_t max, walk_fn *done, struct err *e) {
        struct walk *w = walk_of(request);
        /* Our own copy, for this walk alone. */
        void *known = (void *)(uintptr_t)request->r.known;

        if (request->r.n_known > 0)
                qsort(known, request->r.n_known, sizeof(*request->r.known), known_by_owner);
        w->max = max;
        w->done = done;
        grow(request, w);
        if (w->room == 0)
                return err_set(e, ERR_LIMIT, "requests have no memory for a list of users");
        if (note_ram(engine, request, w, e) < 0)
                return -(int)e->code;
        request_submit(engine, request, slice_run, slice_done);
        return 0;
}

/* --- the verb --- */

static void users_deinit(struct engine *engine, struct request *request) {
        (void)engine;
        walk_deinit(walk_of(request));
}

static void answer(struct engine *engine, struct request *request) {
        struct walk *w = walk_of(request);
        struct engine_event *ev = request_answer(request, ENGINE_USERS_RESULT);

        if (w->n > 0)
                ev->users.after_value = figure_of(request->r.user_order, &w->rows[w->n - 1]);
        ev->users.n = w->n;
        ev->users.more = w->more;
        ev->users.order = request->r.user_order;
        ev->users.users = walk_give(request);
        request_finish(engine, request);
}

static void start(struct engine *engine, struct request *request) {
        size_t max = request->r.limit ? request->r.limit : ENGINE_MAX_LIST;
        struct err e;

        if (walk_begin(engine, request, max, answer, &e) < 0)
                request_fail(engine, request, &e);
}

const struct verb verb_users = {
        .own_size = sizeof(struct walk), .deinit = users_deinit, .start = start, .looks = true};
