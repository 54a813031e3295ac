/* SPDX-License-Identifier: MIT */
/* One connection acts, another one watches. */
#include "base/util.h"
#include "fixture.h"

#define KIND(name) CONFAB__V1__NOTICE_KIND__NOTICE_##name

struct watch {
        struct client *c;
        uint64_t id;
        char cursor[128]; /* of the last notice */
};

static void watch_send(struct watch *w, struct client *c, const char *cursor, bool all_users) {
        Confab__V1__Request r = CONFAB__V1__REQUEST__INIT;
        Confab__V1__Watch m = CONFAB__V1__WATCH__INIT;

        m.cursor = proto_borrow(cursor);
        m.has_all_users = m.all_users = all_users;
        r.verb_case = CONFAB__V1__REQUEST__VERB_WATCH;
        r.watch = &m;
        *w = (struct watch){.c = c, .id = wire_send(&c->w, &r)};
        assert_true(w->id != 0);
}

/* The next notice, of this kind and about this conversation; the caller frees it. */
static struct proto_message *watch_take(struct watch *w, int kind, uint64_t conv) {
        struct proto_message *m = wire_event_for(&w->c->w, w->id);
        const Confab__V1__Notice *n;

        assert_non_null(m);
        if (m->event->kind_case != CONFAB__V1__EVENT__KIND_NOTICE)
                fail_msg("event %d in place of notice %d", (int)m->event->kind_case, kind);
        n = m->event->notice;
        if ((int)n->kind != kind || n->conversation != conv)
                fail_msg("notice %d of %llu in place of %d of %llu", (int)n->kind,
                        (unsigned long long)n->conversation, kind, (unsigned long long)conv);
        snprintf(w->cursor, sizeof(w->cursor), "%s", n->cursor);
        return m;
}

static void watch_expect(struct watch *w, int kind, uint64_t conv) {
        proto_message_free(watch_take(w, kind, conv));
}

static void watch_begin(struct watch *w, struct client *c, const char *cursor) {
        watch_send(w, c, cursor, false);
        watch_expect(w, KIND(MODEL), 0);
}

static uint64_t new_conv(struct client *c) {
        uint64_t id;

        assert_int_equal(client_open(c, NULL, NULL, &id), 0);
        return id;
}

static void say(struct client *c, uint64_t id, uint32_t n) {
        struct reply r;

        if (client_say(c, &(struct say){.conv = id, .message = "Hello.", .max_tokens = n}, &r) != 0)
                fail_msg("%s", c->error.message);
        reply_deinit(&r);
}

/* A day of a conversation. */
static void test_life(void **state) {
        struct harness *h = *state;
        struct client *acts, *looks;
        struct proto_message *m;
        struct watch w;
        struct conv v;
        char fingerprint[64];
        uint64_t id;

        harness_start(h, NULL);
        acts = harness_client(h);
        looks = harness_client(h);
        watch_send(&w, looks, NULL, false);
        m = watch_take(&w, KIND(MODEL), 0);
        assert_int_equal(client_fingerprint(acts, fingerprint), 0);
        assert_string_equal(m->event->notice->fingerprint, fingerprint);
        assert_non_null(m->event->notice->model);
        proto_message_free(m);
        assert_int_equal(client_stat(acts, "watchers"), 1);
        id = new_conv(acts);
        m = watch_take(&w, KIND(OPENED), id);
        assert_int_equal(m->event->notice->uid, getuid());
        proto_message_free(m);
        say(acts, id, 8);
        watch_expect(&w, KIND(TURN_BEGUN), id);
        m = watch_take(&w, KIND(TURN_ENDED), id);
        assert_int_equal(m->event->notice->finish, CONFAB__V1__FINISH_REASON__FINISH_LENGTH);
        assert_int_equal(client_get(acts, id, false, false, &v), 0);
        assert_int_equal(m->event->notice->revision, v.revision);
        conv_deinit(&v);
        proto_message_free(m);
        assert_int_equal(client_rename(acts, id, "another"), 0);
        watch_expect(&w, KIND(CHANGED), id);
        assert_int_equal(client_fork(acts, id, NULL, -1, &v), 0);
        m = watch_take(&w, KIND(FORKED), v.id);
        assert_int_equal(m->event->notice->parent, id);
        conv_deinit(&v);
        proto_message_free(m);
        assert_int_equal(client_evict(acts, id, NULL), 0);
        watch_expect(&w, KIND(EVICTED), id);
        assert_int_equal(client_warm(acts, id, NULL), 0);
        watch_expect(&w, KIND(RESTORED), id);
        assert_int_equal(client_rewind(acts, id, 1, NULL), 0);
        watch_expect(&w, KIND(REWOUND), id);
        assert_int_equal(client_close(acts, id), 0);
        watch_expect(&w, KIND(CLOSED), id);
        /* Cancelled: Empty, and the connection goes on. */
        assert_int_equal(client_cancel(looks, w.id, 0), 0);
        m = wire_event_for(&looks->w, w.id);
        assert_int_equal(m->event->kind_case, CONFAB__V1__EVENT__KIND_EMPTY);
        proto_message_free(m);
        assert_int_equal(client_stat(looks, "watchers"), 0);
        client_free(acts);
        client_free(looks);
        harness_stop(h);
}

/* What happens between two connections is told to the second one; after a restart of the daemon, "list
 * again". */
static void test_resume(void **state) {
        struct harness *h = *state;
        struct client *acts, *looks;
        uint64_t ids[3];
        struct watch w;
        char cursor[128];

        harness_start(h, NULL);
        acts = harness_client(h);
        looks = harness_client(h);
        watch_begin(&w, looks, NULL);
        ids[0] = new_conv(acts);
        watch_expect(&w, KIND(OPENED), ids[0]);
        memcpy(cursor, w.cursor, sizeof(cursor));
        client_free(looks);
        for (int i = 1; i < 3; i++)
                ids[i] = new_conv(acts);
        looks = harness_client(h);
        watch_begin(&w, looks, cursor);
        for (int i = 1; i < 3; i++)
                watch_expect(&w, KIND(OPENED), ids[i]);
        memcpy(cursor, w.cursor, sizeof(cursor));
        client_free(acts);
        client_free(looks);
        harness_kill(h);
        harness_start(h, NULL);
        acts = harness_client(h);
        looks = harness_client(h);
        watch_begin(&w, looks, cursor);
        watch_expect(&w, KIND(LIST_AGAIN), 0);
        ids[0] = new_conv(acts);
        watch_expect(&w, KIND(OPENED), ids[0]);
        client_free(acts);
        client_free(looks);
        harness_stop(h);
}

/* Stopping ends it with "shutdown", and does not wait for it. */
static void test_stop(void **state) {
        struct harness *h = *state;
        struct proto_message *m;
        struct client *c;
        struct watch w;

        harness_start(h, NULL);
        c = harness_client(h);
        watch_begin(&w, c, NULL);
        harness_stop(h);
        m = wire_event_for(&c->w, w.id);
        assert_non_null(m);
        assert_int_equal(m->event->kind_case, CONFAB__V1__EVENT__KIND_ERROR);
        assert_string_equal(m->event->error->code, "shutdown");
        proto_message_free(m);
        client_free(c);
}

/* A watcher that does not read, while more happens than its socket holds: others don't notice, and nothing
 * is lost when it reads again. */
static void test_slow_reader(void **state) {
        enum { N = 1200 };
        struct harness *h = *state;
        struct client *acts, *looks;
        struct watch w;
        uint64_t id;

        harness_start(h, FLAGS("--output-high=4096", "--output-low=1024"));
        acts = harness_client(h);
        looks = harness_client(h);
        watch_begin(&w, looks, NULL);
        id = new_conv(acts);
        watch_expect(&w, KIND(OPENED), id);
        for (unsigned i = 0; i < N; i++)
                assert_int_equal(client_rename(acts, id, i % 2 ? "a" : "b"), 0);
        for (unsigned i = 0; i < N; i++)
                watch_expect(&w, KIND(CHANGED), id);
        id = new_conv(acts);
        watch_expect(&w, KIND(OPENED), id);
        client_free(acts);
        client_free(looks);
        harness_stop(h);
}

/* Another user: sees nothing of ours, may not see all, and is seen by an administrator. */
static int as_other(const char *path, uint64_t id) {
        struct client *c = client_connect(path);
        struct proto_message *m;
        struct watch w;
        uint64_t own;

        (void)id;
        if (!c)
                return 1;
        watch_send(&w, c, NULL, true);
        m = wire_event_for(&c->w, w.id);
        if (!m || m->event->kind_case != CONFAB__V1__EVENT__KIND_ERROR ||
                strcmp(m->event->error->code, "permission") != 0)
                return 2;
        proto_message_free(m);
        watch_send(&w, c, NULL, false);
        m = wire_event_for(&c->w, w.id);
        if (!m || m->event->kind_case != CONFAB__V1__EVENT__KIND_NOTICE)
                return 3;
        proto_message_free(m);
        if (client_open(c, NULL, NULL, &own) != 0)
                return 4;
        m = wire_event_for(&c->w, w.id);
        if (!m || m->event->kind_case != CONFAB__V1__EVENT__KIND_NOTICE ||
                m->event->notice->conversation != own || m->event->notice->uid != OTHER_UID)
                return 5;
        proto_message_free(m);
        client_free(c);
        return 0;
}

static void test_users(void **state) {
        struct harness *h = *state;
        struct proto_message *m;
        struct client *c, *looks;
        struct watch own, all;
        uint64_t id;

        if (geteuid() != 0) {
                print_message("SKIP: needs root to be two users\n");
                skip();
        }
        harness_start(h, FLAGS("--socket-mode=0666"));
        c = harness_client(h);
        looks = harness_client(h);
        watch_begin(&own, c, NULL);
        watch_send(&all, looks, NULL, true);
        watch_expect(&all, KIND(MODEL), 0);
        assert_int_equal(run_as(OTHER_UID, OTHER_UID, as_other, h->socket, 0), 0);
        m = wire_event_for(&looks->w, all.id);
        assert_non_null(m);
        assert_int_equal(m->event->notice->kind, CONFAB__V1__NOTICE_KIND__NOTICE_OPENED);
        assert_int_equal(m->event->notice->uid, OTHER_UID);
        proto_message_free(m);
        assert_int_equal(client_open(looks, NULL, NULL, &id), 0);
        watch_expect(&own, KIND(OPENED), id); /* the first one of its own */
        client_free(c);
        client_free(looks);
        harness_stop(h);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test(test_life),
                daemon_test(test_resume),
                daemon_test(test_stop),
                daemon_test(test_slow_reader),
                daemon_test(test_users),
        };

        return DAEMON_TESTS_MAIN(tests);
}
