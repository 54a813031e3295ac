/* SPDX-License-Identifier: MIT */
/*
 * Users: what each owner has and does, a page in any order.
 *
 * 1. The owners are those who have a conversation, and those whom the caller names (engine_request.known): two lists by rising
 *    owner, which one walk goes through together.
 * 2. The walk looks at all owners for each page, since any of them may have the greatest figure, and keeps the rows of the
 *    page alone. So the answer's memory is bounded by the page, not by the number of owners.
 * 3. It goes in slices, each a job of its own (STEPS), and each look into the register is short (store/owners.c). So it
 *    holds up neither commits nor other requests, however many owners there are.
 * 4. What is in RAM is noted at the beginning, on the engine thread: a sum for each owner with a loaded conversation.
 */
#include <stdlib.h>
#include <string.h>

#include "spill/spill.h"

#include "engine/verbs/create.h"

#define STEPS 64 /* of a slice: an owner, or so many conversations of one: */
#define PAGE 256

struct in_ram {
        uint64_t owner, size;
};

struct walk {
        struct engine_user *rows; /* [max]: the best so far, in order */
        size_t n, max;
        bool more; /* some had no place in the page */

        struct in_ram *ram; /* [n_ram], by owner */
        size_t n_ram, at_ram;
        size_t at_known;
        uint64_t from; /* the next owner is this one or greater */

        /* The owner that is being looked at. */
        bool has_owner;
        struct engine_user user;
        uint64_t after; /* the conversation */

        bool ends;
        struct store_owned page[PAGE];
};

static struct walk *walk_of(struct request *request) {
        return request_own(request);
}

static void walk_deinit(struct engine *engine, struct request *request) {
        struct walk *w = walk_of(request);

        (void)engine;
        free(w->rows);
        free(w->ram);
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
        w->more = w->more || w->n == w->max;
        if (i == w->max)
                return;
        if (w->n == w->max)
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
                .n_requests = desk_n_of(engine, owner),
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
        int r = store_owned(engine->store, w->user.owner, w->after, w->page, PAGE, &n, e);

        if (r < 0)
                return r;
        for (size_t i = 0; i < n; i++) {
                w->user.n_convs++;
                w->user.n_tokens += w->page[i].n_tokens;
                w->user.used_usec = MAX(w->user.used_usec, w->page[i].updated_usec);
                w->after = w->page[i].id;
        }
        if (n == PAGE)
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

static int answer(struct engine *engine, struct request *request, struct err *e) {
        struct walk *w = walk_of(request);
        struct engine_event *ev = request_answer(request, ENGINE_USERS_RESULT);

        ev->users.users = event_calloc(request->final, w->n, sizeof(*w->rows), e);
        if (!ev->users.users)
                return -(int)e->code;
        if (w->n > 0) {
                memcpy(ev->users.users, w->rows, w->n * sizeof(*w->rows));
                ev->users.after_value = figure_of(request->r.user_order, &w->rows[w->n - 1]);
        }
        ev->users.n = w->n;
        ev->users.more = w->more;
        ev->users.order = request->r.user_order;
        request_finish(engine, request);
        return 0;
}

static void slice_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);

        if (j->r == 0 && engine->stopping)
                j->r = err_set(&j->err, ERR_SHUTDOWN, "the daemon is stopping");
        if (j->r == 0 && atomic_load(&request->cancel))
                j->r = err_set(&j->err, ERR_CANCELLED, "cancelled before all users were counted");
        if (j->r == 0 && !walk_of(request)->ends) {
                request_submit(engine, request, slice_run, slice_done);
                return;
        }
        if (j->r < 0 || answer(engine, request, &j->err) < 0)
                request_fail(engine, request, &j->err);
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

static int note_ram(struct engine *engine, struct request *request, struct err *e) {
        struct walk *w = walk_of(request);
        size_t count = convs_count(engine), it = 0, n = 0;
        struct conv *c;
        int r = charge_take(&request->charge, count * sizeof(*w->ram), "counting users", e);

        if (r < 0)
                return r;
        w->ram = calloc(count + 1, sizeof(*w->ram));
        if (!w->ram)
                return err_set(e, ERR_NOMEM, "no memory for counting users");
        while (n < count && (c = convs_next(engine, &it)))
                w->ram[n++] = (struct in_ram){c->owner, seq_resident_size(c->seq)};
        qsort(w->ram, n, sizeof(*w->ram), by_owner);
        w->n_ram = join(w->ram, n);
        return 0;
}

static int make_room(struct request *request, struct err *e) {
        struct walk *w = walk_of(request);
        int r;

        w->max = request->r.limit ? request->r.limit : ENGINE_MAX_LIST;
        r = charge_take(&request->charge, w->max * sizeof(*w->rows), "a list of users", e);
        if (r < 0)
                return r;
        w->rows = calloc(w->max, sizeof(*w->rows));
        return w->rows ? 0 : err_set(e, ERR_NOMEM, "no memory for a list of users");
}

static void start(struct engine *engine, struct request *request) {
        /* Our own copy, for this walk alone. */
        void *known = (void *)(uintptr_t)request->r.known;
        struct err e;

        if (request->r.n_known > 0)
                qsort(known, request->r.n_known, sizeof(*request->r.known), known_by_owner);
        if (make_room(request, &e) < 0 || note_ram(engine, request, &e) < 0)
                request_fail(engine, request, &e);
        else
                request_submit(engine, request, slice_run, slice_done);
}

const struct verb verb_users = {
        .own_size = sizeof(struct walk), .deinit = walk_deinit, .start = start};
