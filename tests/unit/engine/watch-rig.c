/* SPDX-License-Identifier: MIT */
#include "watch-rig.h"

#include <stdio.h>
#include <string.h>

#include "util/test.h"

/* Not allocated, because tests make allocations fail. */
static struct watcher watchers[WATCH_WATCHERS];
static struct seen all_seen[WATCH_WATCHERS][WATCH_MAX];

static void on_notice(void *arg, const struct engine_event *ev) {
        (void)arg;
        for (size_t i = 0; i < WATCH_WATCHERS; i++) {
                struct watcher *w = &watchers[i];
                struct seen *s;

                if (w->handle != ev->handle)
                        continue;
                assert_false(ev->final);
                assert_true(w->n < WATCH_MAX);
                s = &w->seen[w->n++];
                *s = (struct seen){.kind = ev->notice.kind,
                        .owner = ev->notice.owner,
                        .conv = ev->notice.conv,
                        .revision = ev->notice.revision,
                        .parent = ev->notice.parent,
                        .fingerprint = ev->notice.fingerprint[0],
                        .budget = ev->notice.budget,
                        .finish = ev->notice.finish,
                        .pressed = ev->notice.pressed};
                snprintf(s->cursor, sizeof(s->cursor), "%s", ev->notice.cursor);
                snprintf(s->tenant, sizeof(s->tenant), "%s", ev->notice.tenant);
                snprintf(
                        s->model, sizeof(s->model), "%s", ev->notice.model ? ev->notice.model : "");
        }
}

struct watcher *watch_begin(struct erig *r, const struct watch_request *from) {
        struct engine_request q = {.verb = ENGINE_WATCH,
                .owner = from->owner,
                .admin = from->all,
                .all_users = from->all,
                .tell_pressure = from->pressure,
                .cursor = from->cursor};
        struct watcher *w = watchers;

        for (size_t i = 0; w->handle; i++, w++)
                assert_true(i + 1 < WATCH_WATCHERS);
        w->seen = all_seen[w - watchers];
        r->on_notice = on_notice;
        w->handle = r->next; /* that erig_send() will take */
        erig_send(r, &q, &w->answer);
        assert_int_equal(w->handle, q.handle);
        return w;
}

void watch_wait(struct erig *r, struct watcher *w, size_t n) {
        while (w->n < n) {
                assert_false(w->answer.final);
                erig_step(r);
        }
}

const struct seen *watch_next(struct erig *r, struct watcher *w, enum engine_notice_kind kind) {
        const struct seen *s;

        watch_wait(r, w, w->at + 1);
        s = &w->seen[w->at++];
        if (s->kind != kind)
                fail_msg("notice %zu is of kind %d about %llu, not %d", w->at - 1, (int)s->kind,
                        (unsigned long long)s->conv, (int)kind);
        return s;
}

const struct seen *watch_expect(
        struct erig *r, struct watcher *w, enum engine_notice_kind kind, uint64_t conv) {
        const struct seen *s = watch_next(r, w, kind);

        assert_int_equal(s->conv, conv);
        return s;
}

/* The engine answers before it looks for notices in a round, so the second answer comes after them. */
void watch_nothing(struct erig *r, struct watcher *w) {
        for (int i = 0; i < 2; i++)
                (void)erig_stat(r, "watchers");
        if (w->n > w->at)
                fail_msg("an unexpected notice of kind %d about %llu", (int)w->seen[w->at].kind,
                        (unsigned long long)w->seen[w->at].conv);
}

void watch_end(struct erig *r, struct watcher *w) {
        engine_cancel(r->en, w->handle);
        erig_wait(r, &w->answer);
        assert_int_equal(w->answer.kind, ENGINE_EMPTY);
        watch_forget(w);
}

void watch_forget(struct watcher *w) {
        answer_reset(&w->answer);
        w->handle = 0;
        w->n = w->at = 0;
}
