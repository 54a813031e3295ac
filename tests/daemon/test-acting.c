/* SPDX-License-Identifier: MIT */
/*
 * Acting for others: who may, and that tenants of one uid are as apart as users are. The daemon's own user may
 * act for tenants; for the rest the test has to be root.
 */
#include "fixture.h"
#include <pwd.h>
#include <signal.h>

#define OWNERS 3
#define GATEWAY 54320

/* The daemon's user, and two tenants. */
static const char *const labels[OWNERS] = {NULL, "anna", "bert"};

static const char SYSTEM[] =
        "You are a friendly guide to a town by a river. You know the green house, the seven birds, "
        "the old bridge and the market. You answer in one or two short sentences and stay polite, "
        "whatever you are asked, in winter as in summer, by day and by night.";

static void need_root(void) {
        if (geteuid() != 0) {
                print_message("SKIP: needs root to be several users\n");
                skip();
        }
}

/* A connection of the user @uid, as client_act(). */
static int act_as(struct harness *h, struct client **ret, uint32_t uid, const uint32_t *act_uid,
        const char *tenant, struct client_error *e) {
        int r;

        assert_int_equal(seteuid(uid), 0);
        r = client_act(ret, h->socket, act_uid, tenant, e);
        assert_int_equal(seteuid(0), 0);
        return r;
}

static struct client *act(struct harness *h, const uint32_t *act_uid, const char *tenant) {
        struct client_error e;
        struct client *c = NULL;

        if (client_act(&c, h->socket, act_uid, tenant, &e) < 0)
                fail_msg("%s: %s", e.code, e.message);
        return c;
}

static void expect_refused(struct harness *h, uint32_t uid, const uint32_t *act_uid,
        const char *tenant, const char *code) {
        struct client_error e;
        struct client *c;

        assert_int_equal(act_as(h, &c, uid, act_uid, tenant, &e), -1);
        assert_string_equal(e.code, code);
        assert_true(*e.message);
}

static void expect_missing(struct client *c, int r) {
        assert_int_equal(r, -1);
        assert_string_equal(c->error.code, "not_found");
}

/* Nothing that @c can do reaches @foreign. */
static void expect_apart(struct client *c, uint64_t foreign, const char *own_name) {
        struct conv v = {};
        struct reply r = {};
        uint64_t size;
        uint32_t n;
        int fd;

        expect_missing(c, client_get(c, foreign, true, true, &v));
        expect_missing(c, client_say(c, &(struct say){.conv = foreign, .raw = "x"}, &r));
        expect_missing(c, client_fork(c, foreign, "mine", -1, &v));
        expect_missing(c, client_rewind(c, foreign, 1, &v));
        expect_missing(c, client_rename(c, foreign, "mine"));
        expect_missing(c, client_warm(c, foreign, &v));
        expect_missing(c, client_evict(c, foreign, &v));
        expect_missing(c, client_cancel(c, 0, foreign));
        expect_missing(c, client_carry(c, foreign, 0, &v));
        expect_missing(c, client_export(c, foreign, false, &fd, &size, &n));
        expect_missing(c, client_close(c, foreign));
        expect_missing(c, client_get_name(c, own_name, &v));
        reply_deinit(&r);
}

static void expect_owned(struct client *c, uint64_t id, uint32_t uid, const char *label) {
        struct conv list[8], v = {};
        size_t n = 0;

        assert_int_equal(client_get_name(c, "talk", &v), 0);
        assert_int_equal(v.id, id);
        assert_int_equal(v.uid, uid);
        assert_string_equal(v.tenant, label ? label : "");
        assert_int_equal(client_list(c, 0, false, list, 8, &n), 0);
        assert_int_equal(n, 1);
        assert_int_equal(list[0].id, id);
        assert_string_equal(list[0].tenant, label ? label : "");
}

static void test_tenants_are_apart(void **state) {
        struct harness *h = *state;
        /* Root itself is an administrator: so not root's, if it is the test's user. */
        const uint32_t uid = geteuid() ? geteuid() : OTHER_UID;
        struct client *c[OWNERS];
        uint64_t ids[OWNERS];
        struct reply r;

        harness_start(h, NULL);
        for (int round = 0; round < 2; round++) {
                for (int i = 0; i < OWNERS; i++) {
                        c[i] = act(h, &uid, labels[i]);
                        /* The same names, and each computes the same words for itself. */
                        if (round == 0)
                                assert_int_equal(client_open(c[i], "talk", SYSTEM, &ids[i]), 0);
                        assert_int_equal(client_say(c[i],
                                                 &(struct say){.conv = ids[i],
                                                         .raw = "Where are the birds?"},
                                                 &r),
                                0);
                        assert_int_equal(r.acc.n_shared, 0);
                        assert_int_equal(r.acc.differs_why, CONFAB__V1__DIFFERS__DIFFERS_NEW);
                        if (round == 0)
                                assert_int_equal(r.acc.n_computed, r.acc.n_prompt);
                        reply_deinit(&r);
                }
                for (int i = 0; i < OWNERS; i++) {
                        expect_owned(c[i], ids[i], uid, labels[i]);
                        for (int k = 0; k < OWNERS; k++)
                                if (k != i)
                                        expect_apart(c[i], ids[k], "of another");
                }
                for (int i = 0; i < OWNERS; i++)
                        client_free(c[i]);
                harness_stop(h);
                harness_start(h, NULL);
        }
        harness_stop(h);
}

/* A new owner's prompt is not answered from the disk of another one either; what is published is. */
static void test_only_published_is_shared(void **state) {
        struct harness *h = *state;
        struct client *c, *root;
        struct reply r;
        uint64_t id, other;

        need_root();
        harness_start(h, NULL);
        root = harness_client(h);
        assert_int_equal(client_open(root, "talk", SYSTEM, &id), 0);
        assert_int_equal(client_say(root, &(struct say){.conv = id, .raw = "Who?"}, &r), 0);
        reply_deinit(&r);
        client_free(root);
        harness_stop(h);
        harness_start(h, NULL);
        c = act(h, NULL, "anna");
        assert_int_equal(client_open(c, "talk", SYSTEM, &other), 0);
        assert_int_equal(client_say(c, &(struct say){.conv = other, .raw = "Who?"}, &r), 0);
        assert_int_equal(r.acc.n_computed, r.acc.n_prompt);
        assert_int_equal(r.acc.differs_why, CONFAB__V1__DIFFERS__DIFFERS_NEW);
        assert_int_equal(r.acc.differs_at, 0);
        reply_deinit(&r);
        client_free(c);
        root = harness_client(h);
        assert_int_equal(client_publish(root, id, -1, false, NULL), 0);
        c = act(h, NULL, "bert");
        assert_int_equal(client_open(c, "talk", SYSTEM, &other), 0);
        assert_int_equal(client_say(c, &(struct say){.conv = other, .raw = "Who?"}, &r), 0);
        assert_true(r.acc.n_shared + r.acc.n_disk > 0);
        reply_deinit(&r);
        client_free(c);
        client_free(root);
        harness_stop(h);
}

static void test_who_may(void **state) {
        const uint32_t other = OTHER_UID, gateway = GATEWAY, nobody = UINT32_MAX, root = 0;
        struct harness *h = *state;
        struct client_error e;
        struct client *c, *direct;
        struct conv list[8];
        uint64_t id;
        size_t n;
        char *log;

        need_root();
        harness_start(h, FLAGS("--socket-mode=0666", "--trusted-users=54320, daemon"));
        /* Nobody else may, not even for one who may. To name oneself is allowed. */
        expect_refused(h, OTHER_UID, &gateway, NULL, "permission");
        expect_refused(h, OTHER_UID, &root, NULL, "permission");
        expect_refused(h, OTHER_UID, NULL, "anna", "permission");
        expect_refused(h, OTHER_UID, &other, "anna", "permission");
        expect_refused(h, GATEWAY, &nobody, NULL, "invalid");
        assert_int_equal(act_as(h, &direct, OTHER_UID, &other, NULL, &e), 0);
        /* The gateway reaches what the user has. */
        assert_int_equal(client_open(direct, "mine", NULL, &id), 0);
        assert_int_equal(act_as(h, &c, GATEWAY, &other, NULL, &e), 0);
        assert_int_equal(client_list(c, 0, false, list, 8, &n), 0);
        assert_int_equal(n, 1);
        assert_int_equal(list[0].id, id);
        assert_int_equal(list[0].uid, OTHER_UID);
        client_free(c);
        client_free(direct);
        /* A tenant of the user is somebody else. */
        assert_int_equal(act_as(h, &c, GATEWAY, &other, "anna", &e), 0);
        assert_int_equal(client_list(c, 0, false, list, 8, &n), 0);
        assert_int_equal(n, 0);
        client_free(c);
        assert_int_equal(act_as(h, &c, getpwnam("daemon")->pw_uid, NULL, "anna", &e), 0);
        client_free(c);
        /* Who acts is no administrator: not root for another, nor a gateway for root. */
        c = act(h, &other, NULL);
        assert_int_equal(client_list(c, 0, true, list, 8, &n), -1);
        assert_string_equal(c->error.code, "permission");
        assert_int_equal(client_publish(c, id, -1, false, NULL), -1);
        assert_string_equal(c->error.code, "permission");
        assert_int_equal(client_pin(c, id, true, NULL), -1);
        assert_string_equal(c->error.code, "permission");
        assert_int_equal(client_pin(c, id, false, NULL), 0);
        client_free(c);
        assert_int_equal(act_as(h, &c, GATEWAY, &root, NULL, &e), 0);
        assert_int_equal(client_list(c, 0, true, list, 8, &n), -1);
        assert_string_equal(c->error.code, "permission");
        expect_missing(c, client_close(c, id));
        client_free(c);
        harness_stop(h);
        log = harness_read_log(h);
        assert_non_null(strstr(log, "refusing the Hello of uid 54321"));
        free(log);
}

/* The daemon's own user may name tenants, whoever that is. */
static void test_labels(void **state) {
        static char longest[130];
        static const char *const bad[] = {"", "#1", "a\nb", "\x7f", longest};
        struct harness *h = *state;
        struct client_error e;
        struct client *c;
        struct conv v;
        uint64_t id;
        char *log;

        memset(longest, 'a', 129);
        harness_start(h, FLAGS("--max-user-tenants=2"));
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                assert_int_equal(client_act(&c, h->socket, NULL, bad[i], &e), -1);
                assert_string_equal(e.code, "invalid");
        }
        longest[128] = 0;
        c = act(h, NULL, longest);
        assert_int_equal(client_open(c, "talk", NULL, &id), 0);
        assert_int_equal(client_get(c, id, false, false, &v), 0);
        assert_string_equal(v.tenant, longest);
        wire_send_hello(&c->w, PROTO_VERSION, 0); /* once more: breaks the protocol */
        assert_true(wire_wait_eof(&c->w));
        client_free(c);
        c = act(h, NULL, "4711");
        client_free(c);
        assert_int_equal(client_act(&c, h->socket, NULL, "third", &e), -1);
        assert_string_equal(e.code, "limit");
        harness_stop(h);
        log = harness_read_log(h);
        assert_non_null(strstr(log, "acting for tenant 'aaa"));
        free(log);
        longest[128] = 'a';
}

/* What is sent behind Hello waits for it, and is answered in order. */
static void test_pipelined(void **state) {
        enum { N = 200 };
        Confab__V1__Request r = CONFAB__V1__REQUEST__INIT;
        Confab__V1__Open open = CONFAB__V1__OPEN__INIT;
        Confab__V1__List list = CONFAB__V1__LIST__INIT;
        struct harness *h = *state;
        struct proto_message *m;
        struct wire w;
        uint64_t ids[N], hello;

        harness_start(h, FLAGS("--max-connection-requests=1000", "--max-user-requests=1000"));
        for (int round = 0; round < 20; round++) {
                char label[16], name[32];

                snprintf(label, sizeof(label), "t%d", round);
                assert_int_equal(wire_connect(&w, h->socket, wire_poll, NULL), 0);
                hello = wire_send_hello_for(&w, NULL, label);
                for (int i = 0; i < N; i++) {
                        r = (Confab__V1__Request)CONFAB__V1__REQUEST__INIT;
                        snprintf(name, sizeof(name), "name-%d", i);
                        open.name = name;
                        r.verb_case = i % 50 ? CONFAB__V1__REQUEST__VERB_LIST
                                             : CONFAB__V1__REQUEST__VERB_OPEN;
                        if (i % 50)
                                r.list = &list;
                        else
                                r.open = &open;
                        ids[i] = wire_send(&w, &r);
                }
                if (round % 4 == 3) { /* gone before it is greeted */
                        wire_close(&w);
                        continue;
                }
                m = wire_event(&w);
                assert_int_equal(m->event->request, hello);
                assert_int_equal(m->event->kind_case, CONFAB__V1__EVENT__KIND_HELLO);
                assert_string_equal(m->event->hello->tenant, label);
                proto_message_free(m);
                for (int n = 0; n < N; n++) {
                        m = wire_event(&w);
                        assert_int_not_equal(m->event->kind_case, CONFAB__V1__EVENT__KIND_ERROR);
                        for (int i = 0; i < N; i++)
                                if (ids[i] == m->event->request)
                                        ids[i] = 0;
                        if (m->event->kind_case == CONFAB__V1__EVENT__KIND_CONVERSATION)
                                assert_string_equal(m->event->conversation->tenant, label);
                        proto_message_free(m);
                }
                for (int i = 0; i < N; i++)
                        assert_int_equal(ids[i], 0);
                wire_close(&w);
        }
        harness_stop(h);
}

/* A gateway's connections count for those for whom it acts. */
static void test_connections_are_theirs(void **state) {
        enum { N = 80 };
        const uint32_t other = OTHER_UID;
        struct harness *h = *state;
        struct client *c[N], *more[3], *one;
        struct client_error e;
        struct wire w[N];
        char label[16];

        need_root();
        harness_start(h,
                FLAGS("--socket-mode=0666", "--max-user-connections=3", "--trusted-users=54320"));
        /* Also while nobody knows yet for whom. */
        assert_int_equal(seteuid(GATEWAY), 0);
        for (int i = 0; i < N; i++)
                assert_int_equal(wire_connect(&w[i], h->socket, wire_poll, NULL), 0);
        assert_int_equal(seteuid(0), 0);
        for (int i = 0; i < N; i++) {
                snprintf(label, sizeof(label), "t%d", i);
                assert_int_equal(act_as(h, &c[i], GATEWAY, &other, label, &e), 0);
        }
        for (int i = 0; i < N; i++)
                wire_close(&w[i]);
        for (int i = 0; i < 2; i++)
                assert_int_equal(act_as(h, &more[i], GATEWAY, &other, "t7", &e), 0);
        assert_int_equal(act_as(h, &more[2], GATEWAY, &other, "t7", &e), -1);
        assert_string_equal(e.code, "limit");
        assert_true(e.retry);
        /* One that ends makes room for the next one. */
        client_free(more[0]);
        assert_int_equal(client_stat(c[7], "connections"), 2);
        assert_int_equal(act_as(h, &more[0], GATEWAY, &other, "t7", &e), 0);
        /* The user itself has its own places. */
        assert_int_equal(act_as(h, &one, OTHER_UID, NULL, NULL, &e), 0);
        assert_int_equal(client_stat(one, "connections"), 1);
        client_free(one);
        client_free(more[0]);
        client_free(more[1]);
        for (int i = 0; i < N; i++)
                client_free(c[i]);
        harness_stop(h);
}

static void test_quotas(void **state) {
        struct harness *h = *state;
        struct client *c;
        uint64_t id;

        harness_start(h, FLAGS("--max-conversations=1"));
        for (int i = 0; i < OWNERS; i++) {
                c = act(h, NULL, labels[i]);
                assert_int_equal(client_open(c, "one", NULL, &id), 0);
                assert_int_equal(client_open(c, "two", NULL, &id), -1);
                assert_string_equal(c->error.code, "limit");
                client_free(c);
        }
        harness_stop(h);
}

static uint64_t open_tagged(struct wire *w, const char *tag) {
        Confab__V1__Request r = CONFAB__V1__REQUEST__INIT;
        Confab__V1__Open open = CONFAB__V1__OPEN__INIT;
        Confab__V1__About about = CONFAB__V1__ABOUT__INIT;
        Confab__V1__Tags tags = CONFAB__V1__TAGS__INIT;
        char *one = proto_borrow(tag);
        struct proto_message *m;
        uint64_t id;

        tags.tags = &one;
        tags.n_tags = 1;
        about.tags = &tags;
        open.about = &about;
        r.verb_case = CONFAB__V1__REQUEST__VERB_OPEN;
        r.open = &open;
        id = wire_send(w, &r);
        m = wire_event_for(w, id);
        assert_int_equal(m->event->kind_case, CONFAB__V1__EVENT__KIND_CONVERSATION);
        id = m->event->conversation->id;
        proto_message_free(m);
        return id;
}

/* A page of two at most, by the time of change; its cursor, to be freed. */
static size_t take_page(
        struct wire *w, const char *tag, const char *cursor, uint64_t ids[2], char **ret_cursor) {
        Confab__V1__Request r = CONFAB__V1__REQUEST__INIT;
        Confab__V1__List list = CONFAB__V1__LIST__INIT;
        struct proto_message *m;
        size_t n;

        list.has_limit = list.has_order = true;
        list.limit = 2;
        list.order = CONFAB__V1__ORDER__ORDER_UPDATED;
        list.tag = proto_borrow(tag);
        list.cursor = proto_borrow(cursor);
        r.verb_case = CONFAB__V1__REQUEST__VERB_LIST;
        r.list = &list;
        m = wire_event_for(w, wire_send(w, &r));
        if (m->event->kind_case == CONFAB__V1__EVENT__KIND_ERROR)
                fail_msg("%s", m->event->error->message);
        n = m->event->conversations->n_conversations;
        assert_true(n <= 2);
        for (size_t i = 0; i < n; i++)
                ids[i] = m->event->conversations->conversations[i]->id;
        *ret_cursor =
                m->event->conversations->cursor ? strdup(m->event->conversations->cursor) : NULL;
        proto_message_free(m);
        return n;
}

/* Pages have what is their owner's, whoever's cursor they begin with. */
static void test_pages_are_apart(void **state) {
        static const char *const tags[] = {NULL, "work"};
        const uint32_t uid = geteuid() ? geteuid() : OTHER_UID;
        struct harness *h = *state;
        struct client *c[OWNERS];
        uint64_t ids[OWNERS][3], got[2];
        char *next, *last;

        harness_start(h, NULL);
        for (int i = 0; i < OWNERS; i++)
                c[i] = act(h, &uid, labels[i]);
        for (int k = 0; k < 3; k++)
                for (int i = 0; i < OWNERS; i++)
                        ids[i][k] = open_tagged(&c[i]->w, "work");
        for (int i = 0; i < OWNERS; i++)
                for (int t = 0; t < 2; t++) {
                        assert_int_equal(take_page(&c[i]->w, tags[t], NULL, got, &next), 2);
                        assert_int_equal(got[0], ids[i][2]);
                        assert_int_equal(got[1], ids[i][1]);
                        assert_non_null(next);
                        assert_int_equal(take_page(&c[i]->w, tags[t], next, got, &last), 1);
                        assert_int_equal(got[0], ids[i][0]);
                        free(last);
                        /* Another's page ends there, or before. */
                        for (size_t n = take_page(
                                     &c[(i + 1) % OWNERS]->w, tags[t], next, got, &last);
                                n > 0; n--)
                                for (int k = 0; k < 3; k++)
                                        assert_int_not_equal(got[n - 1], ids[i][k]);
                        free(last);
                        free(next);
                }
        for (int i = 0; i < OWNERS; i++)
                client_free(c[i]);
        harness_stop(h);
}

/* The daemon's own user sees all figures, but not in acting for another. */
static void test_figures(void **state) {
        struct harness *h = *state;
        struct client *c;
        struct stats s;
        bool seen = false;

        harness_start(h, NULL);
        c = harness_client(h);
        assert_true(client_stat(c, "budget") > 0);
        client_free(c);
        c = act(h, NULL, "anna");
        assert_int_equal(client_stats(c, &s), 0);
        for (size_t i = 0; i < s.n; i++)
                seen = seen || strcmp(s.items[i].name, "budget") == 0;
        assert_false(seen);
        assert_int_equal(stats_get(&s, "connections"), 1);
        stats_deinit(&s);
        client_free(c);
        harness_stop(h);
}

/* Administrators see whose each one is. */
static void test_list_of_all(void **state) {
        const uint32_t other = OTHER_UID;
        struct harness *h = *state;
        struct client *c, *root;
        struct conv list[8];
        uint64_t id;
        size_t n;

        need_root();
        harness_start(h, NULL);
        for (int i = 0; i < OWNERS; i++) {
                c = act(h, &other, labels[i]);
                assert_int_equal(client_open(c, "talk", NULL, &id), 0);
                client_free(c);
        }
        root = harness_client(h);
        assert_int_equal(client_list(root, 0, true, list, 8, &n), 0);
        assert_int_equal(n, OWNERS);
        for (int i = 0; i < OWNERS; i++) {
                assert_int_equal(list[i].uid, OTHER_UID);
                assert_string_equal(list[i].tenant, labels[i] ? labels[i] : "");
                assert_string_equal(list[i].name, "talk");
        }
        /* And may end what a tenant holds. */
        assert_int_equal(client_close(root, list[1].id), 0);
        client_free(root);
        harness_stop(h);
}

/* Whom the file names, as it was last read. */
static void test_reload(void **state) {
        const uint32_t other = OTHER_UID;
        struct harness *h = *state;
        struct client_error e;
        struct client *c, *kept;
        char path[128], flag[160];
        static const char *const texts[] = {
                "", "trusted-users = 54320\n", "trusted-users = no-such-user\n", "list-page = 7\n"};

        need_root();
        snprintf(path, sizeof(path), "%s/confabd.conf", h->dir);
        snprintf(flag, sizeof(flag), "--config=%s", path);
        for (int i = 0; i < 4; i++) {
                FILE *f = fopen(path, "w");

                assert_non_null(f);
                fputs(texts[i], f);
                fclose(f);
                if (i == 0) {
                        harness_start(h, FLAGS(flag, "--socket-mode=0666"));
                } else {
                        harness_signal(h, SIGHUP);
                        harness_wait_notify(h, "RELOADING=1");
                        harness_wait_notify(h, "READY=1");
                }
                /* A wrong file changes nothing. */
                if (i == 0 || i == 3) {
                        expect_refused(h, GATEWAY, &other, NULL, "permission");
                } else {
                        assert_int_equal(act_as(h, &c, GATEWAY, &other, NULL, &e), 0);
                        client_free(c);
                }
                if (i == 1)
                        assert_int_equal(act_as(h, &kept, GATEWAY, &other, NULL, &e), 0);
        }
        /* Who acts already goes on. */
        assert_int_equal(client_open(kept, "talk", NULL, &(uint64_t){0}), 0);
        client_free(kept);
        harness_stop(h);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test(test_tenants_are_apart),
                daemon_test(test_only_published_is_shared),
                daemon_test(test_who_may),
                daemon_test(test_labels),
                daemon_test(test_pipelined),
                daemon_test(test_connections_are_theirs),
                daemon_test(test_quotas),
                daemon_test(test_pages_are_apart),
                daemon_test(test_figures),
                daemon_test(test_list_of_all),
                daemon_test(test_reload),
        };

        return DAEMON_TESTS_MAIN(tests);
}
