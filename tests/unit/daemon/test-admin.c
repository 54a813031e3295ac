/* SPDX-License-Identifier: MIT */
/* Verbs of administrators: who may, what the engine is asked, what its answers become, what the journal gets. */
#include "daemon-fixture.h"
#include "daemon/audit.h"
#include "service/log.h"
#include <sys/mman.h>

#define OTHER_UID 54321

static struct peer *only_peer(struct fixture *f) {
        assert_int_equal(f->d->n_peers, 1);
        return list_entry(f->d->peers.next, struct peer, link);
}

static void connect_admin(struct fixture *f, struct wire *w) {
        fixture_client(f, w);
        only_peer(f)->admin = true;
}

static uint64_t send_settings(struct wire *w) {
        REQUEST(r, SETTINGS, Settings, settings, m);

        return wire_send(w, &r);
}

static uint64_t send_users(struct wire *w, int order, uint32_t limit, const char *cursor) {
        REQUEST(r, USERS, Users, users, m);

        m.has_order = true;
        m.order = (Confab__V1__UserOrder)order;
        m.has_limit = limit > 0;
        m.limit = limit;
        m.cursor = proto_borrow(cursor);
        return wire_send(w, &r);
}

static uint64_t send_act(struct wire *w, uint32_t uid, const char *tenant, int act, bool dry_run) {
        REQUEST(r, ACT_ON_USER, ActOnUser, act_on_user, m);

        m.has_uid = true;
        m.uid = uid;
        m.tenant = proto_borrow(tenant);
        m.has_act = true;
        m.act = (Confab__V1__UserAct)act;
        m.has_dry_run = dry_run;
        m.dry_run = dry_run;
        return wire_send(w, &r);
}

static uint64_t send_check(struct wire *w, bool has_rate, uint64_t rate) {
        REQUEST(r, CHECK, Check, check, m);

        m.has_rate = has_rate;
        m.rate = rate;
        return wire_send(w, &r);
}

static uint64_t send_limit(struct wire *w, uint32_t uid, const char *name, uint64_t value) {
        Confab__V1__QuotaSubject subject = CONFAB__V1__QUOTA_SUBJECT__INIT;
        Confab__V1__QuotaChange change = CONFAB__V1__QUOTA_CHANGE__INIT;
        Confab__V1__QuotaChange *changes[] = {&change};
        REQUEST(r, QUOTA, Quota, quota, m);

        subject.has_uid = true;
        subject.uid = uid;
        change.name = proto_borrow(name);
        change.to_case = CONFAB__V1__QUOTA_CHANGE__TO_VALUE;
        change.value = value;
        m.subject = &subject;
        m.changes = changes;
        m.n_changes = 1;
        return wire_send(w, &r);
}

static void test_permission(void **state) {
        struct fixture *f = *state;
        struct wire w;

        fixture_client(f, &w);
        only_peer(f)->admin = false;
        expect_error(&w, send_settings(&w), "permission", false);
        expect_error(&w, send_users(&w, 0, 0, NULL), "permission", false);
        expect_error(&w, send_act(&w, 1, NULL, 3, true), "permission", false);
        expect_error(&w, send_check(&w, false, 0), "permission", false);
        assert_int_equal(fake.n, 0);
        wire_close(&w);
}

/* The user whom the daemon runs as needs no group: a daemon of one's own is looked after by its owner. */
static void test_own_user(void **state) {
        struct fixture *f = *state;
        const bool root = geteuid() == 0;
        struct wire w;

        if (root) {
                assert_int_equal(chown(f->dir, OTHER_UID, OTHER_UID), 0);
                assert_int_equal(chown(f->socket, OTHER_UID, OTHER_UID), 0);
                assert_int_equal(seteuid(OTHER_UID), 0);
        }
        assert_int_equal(f->d->admin_gid, UINT32_MAX);
        fixture_client(f, &w);
        assert_int_equal(only_peer(f)->uid, geteuid());
        (void)send_users(&w, 0, 0, NULL);
        fixture_wait_requests(f, 1);
        wire_close(&w);
        if (root)
                assert_int_equal(seteuid(0), 0);
}

static const Confab__V1__Setting *find(const Confab__V1__SettingsResult *m, const char *name) {
        for (size_t i = 0; i < m->n_settings; i++)
                if (strcmp(m->settings[i]->name, name) == 0)
                        return m->settings[i];
        fail_msg("no setting %s", name);
        return NULL;
}

static void write_file(const char *path, const char *text) {
        FILE *file = fopen(path, "w");

        assert_non_null(file);
        assert_true(fputs(text, file) >= 0);
        fclose(file);
}

static struct proto_message *ask_settings(struct wire *w) {
        return expect_kind(w, send_settings(w), CONFAB__V1__EVENT__KIND_SETTINGS);
}

/* The file is edited while the daemon runs: what is in force stays, what would be is told; a file that is wrong
 * hides nothing but that. */
static void test_settings(void **state) {
        struct fixture *f = *state;
        char config[128], origin[160];
        char *argv[] = {(char *)(uintptr_t) "confabd", (char *)(uintptr_t) "--model",
                (char *)(uintptr_t) "none.gguf", (char *)(uintptr_t) "--state", f->dir,
                (char *)(uintptr_t) "--socket", f->socket, (char *)(uintptr_t) "--config", config,
                NULL};
        const Confab__V1__Setting *s;
        enum conf_action action;
        struct proto_message *m;
        struct wire w;

        snprintf(config, sizeof(config), "%s/conf", f->dir);
        write_file(config, "# mine\nlog-level = error\nlist-page = 7\nthreads = 2\n");
        settings_deinit(&f->settings);
        assert_int_equal(settings_load(&f->settings, 9, argv, &action, &f->e), 0);
        assert_int_equal(daemon_new(&f->d, &f->settings, 9, argv, &f->e), 0);
        connect_admin(f, &w);
        m = ask_settings(&w);
        s = find(m->event->settings, "list-page");
        assert_string_equal(s->value, "7");
        assert_string_equal(s->initial, "100");
        snprintf(origin, sizeof(origin), "%s:3", config);
        assert_string_equal(s->origin, origin);
        assert_true(s->reloadable);
        assert_null(s->pending);
        s = find(m->event->settings, "model");
        assert_string_equal(s->origin, "command line");
        assert_false(s->reloadable);
        s = find(m->event->settings, "pool-size");
        assert_string_equal(s->value, "auto");
        assert_null(s->origin);
        assert_null(find(m->event->settings, "admin-group")->value);
        assert_null(m->event->settings->files_error);
        assert_true(m->event->settings->started_usec > 0);
        proto_message_free(m);

        write_file(config, "log-level = error\nlist-page = 8\nthreads = 3\n");
        m = ask_settings(&w);
        s = find(m->event->settings, "list-page");
        assert_string_equal(s->value, "7");
        assert_string_equal(s->pending, "8");
        assert_string_equal(find(m->event->settings, "threads")->pending, "3");
        proto_message_free(m);

        /* A reload takes one of them, with its line; the other one waits for a restart. */
        daemon_reload(f->d);
        m = ask_settings(&w);
        s = find(m->event->settings, "list-page");
        assert_string_equal(s->value, "8");
        assert_null(s->pending);
        snprintf(origin, sizeof(origin), "%s:2", config);
        assert_string_equal(s->origin, origin);
        s = find(m->event->settings, "threads");
        assert_string_equal(s->value, "2");
        assert_string_equal(s->pending, "3");
        proto_message_free(m);

        write_file(config, "list-page = many\n");
        m = ask_settings(&w);
        assert_non_null(strstr(m->event->settings->files_error, "conf:1"));
        s = find(m->event->settings, "list-page");
        assert_string_equal(s->value, "8");
        assert_null(s->pending);
        proto_message_free(m);
        wire_close(&w);
        unlink(config);
}

static void emit_users(uint64_t handle, size_t n, bool more) {
        struct engine_event ev = {.handle = handle, .kind = ENGINE_USERS_RESULT, .final = true};

        ev.users.users = calloc(n, sizeof(*ev.users.users));
        assert_non_null(ev.users.users);
        ev.users.n = n;
        ev.users.more = more;
        ev.users.after_value = 70;
        ev.users.order = ENGINE_USERS_BY_TOKENS;
        for (size_t i = 0; i < n; i++)
                ev.users.users[i] = (struct engine_user){
                        .owner = owner_make(1000, (uint32_t)i), .n_tokens = 70, .n_requests = 3};
        if (n > 1)
                strcpy(ev.users.users[1].tenant, "anna");
        fake_emit(&ev);
}

static void test_users(void **state) {
        struct fixture *f = *state;
        struct proto_message *m;
        struct wire w;
        uint64_t id;

        fixture_start(f);
        connect_admin(f, &w);
        id = send_users(&w, CONFAB__V1__USER_ORDER__USER_ORDER_TOKENS, 5, NULL);
        fixture_wait_requests(f, 1);
        assert_int_equal(fake.requests[0].r.verb, ENGINE_USERS);
        assert_int_equal(fake.requests[0].r.user_order, ENGINE_USERS_BY_TOKENS);
        assert_int_equal(fake.requests[0].r.limit, 5);
        assert_true(fake.requests[0].r.admin);
        assert_false(fake.requests[0].r.after_user);
        /* The one who asks is connected. */
        assert_int_equal(fake.requests[0].r.n_known, 1);
        emit_users(fake.requests[0].r.handle, 2, true);
        m = expect_kind(&w, id, CONFAB__V1__EVENT__KIND_USERS);
        assert_int_equal(m->event->users->n_users, 2);
        assert_int_equal(m->event->users->users[1]->uid, 1000);
        assert_string_equal(m->event->users->users[1]->tenant, "anna");
        assert_null(m->event->users->users[0]->tenant);
        assert_int_equal(m->event->users->users[0]->requests, 3);
        assert_string_equal(m->event->users->cursor, "u3.70.4294968296");
        id = send_users(&w, CONFAB__V1__USER_ORDER__USER_ORDER_TOKENS, 0, m->event->users->cursor);
        proto_message_free(m);
        fixture_wait_requests(f, 2);
        assert_true(fake.requests[1].r.after_user);
        assert_int_equal(fake.requests[1].r.after_value, 70);
        assert_int_equal(fake.requests[1].r.after_owner, owner_make(1000, 1));
        assert_int_equal(fake.requests[1].r.limit, 100);
        emit_users(fake.requests[1].r.handle, 1, false);
        m = expect_kind(&w, id, CONFAB__V1__EVENT__KIND_USERS);
        assert_null(m->event->users->cursor);
        proto_message_free(m);
        wire_close(&w);
}

static void test_bad_users(void **state) {
        static const char *const cursors[] = {"x", "u", "u3", "u3.70", "u3.70.5x", "u2.70.5",
                "u3..5", "u3.-7.5", "u 3.70.5", "u3.70.5.1", "u3.99999999999999999999999.5"};
        struct fixture *f = *state;
        struct wire w;

        fixture_start(f);
        connect_admin(f, &w);
        for (size_t i = 0; i < ARRAY_SIZE(cursors); i++)
                expect_error(&w,
                        send_users(&w, CONFAB__V1__USER_ORDER__USER_ORDER_TOKENS, 0, cursors[i]),
                        "invalid", false);
        expect_error(&w, send_users(&w, 99, 0, NULL), "invalid", false);
        expect_error(&w, send_act(&w, 1000, NULL, 0, false), "invalid", false);
        expect_error(&w, send_act(&w, 1000, NULL, 99, false), "invalid", false);
        expect_error(&w, send_act(&w, UINT32_MAX, NULL, 3, false), "invalid", false);
        expect_error(&w, send_act(&w, 1000, "", 3, false), "invalid", false);
        assert_int_equal(fake.n, 0);
        wire_close(&w);
}

/* The figures of those who were purged are forgotten, and only these. */
static void test_act(void **state) {
        struct fixture *f = *state;
        struct engine_event ev = {.kind = ENGINE_USER_ACTED, .final = true};
        struct proto_message *m;
        struct user *own;
        struct wire w;
        uint64_t id;

        fixture_start(f);
        connect_admin(f, &w);
        own = only_peer(f)->user;
        id = send_act(&w, 1000, "anna", CONFAB__V1__USER_ACT__USER_ACT_PURGE, false);
        fixture_wait_requests(f, 1);
        assert_int_equal(fake.requests[0].r.verb, ENGINE_ACT_ON_USER);
        assert_int_equal(fake.requests[0].r.uid, 1000);
        assert_int_equal(fake.requests[0].r.user_act, ENGINE_USER_PURGE);
        assert_false(fake.requests[0].r.dry_run);
        assert_int_equal(fake.requests[0].r.n_known, 0); /* nobody of them is connected */
        own->figures.decoded = 5;
        ev.handle = fake.requests[0].r.handle;
        ev.acted.owner = own->owner + 1;
        ev.acted.purged = true;
        ev.acted.n_convs = 3;
        ev.acted.n_tokens = 44;
        ev.acted.n_requests = 2;
        fake_emit(&ev);
        m = expect_kind(&w, id, CONFAB__V1__EVENT__KIND_USER_ACTED);
        assert_int_equal(m->event->user_acted->conversations, 3);
        assert_int_equal(m->event->user_acted->tokens, 44);
        assert_int_equal(m->event->user_acted->requests, 2);
        proto_message_free(m);
        assert_int_equal(own->figures.decoded, 5);
        id = send_act(&w, owner_uid(own->owner), NULL, CONFAB__V1__USER_ACT__USER_ACT_PURGE, false);
        fixture_wait_requests(f, 2);
        assert_int_equal(fake.requests[1].r.n_known, 1);
        ev.handle = fake.requests[1].r.handle;
        ev.acted.owner = own->owner;
        fake_emit(&ev);
        proto_message_free(expect_kind(&w, id, CONFAB__V1__EVENT__KIND_USER_ACTED));
        assert_int_equal(own->figures.decoded, 0);
        wire_close(&w);
}

/* Progress in bytes, then what was found. */
static void test_check(void **state) {
        struct fixture *f = *state;
        struct engine_event ev = {
                .kind = ENGINE_PROGRESS, .progress = {.done_size = 5, .total_size = UINT64_MAX}};
        struct proto_message *m;
        struct wire w;
        uint64_t id;

        fixture_start(f);
        connect_admin(f, &w);
        id = send_check(&w, false, 0);
        fixture_wait_requests(f, 1);
        assert_int_equal(fake.requests[0].r.verb, ENGINE_CHECK);
        assert_int_equal(fake.requests[0].r.rate, 1 << 30);
        send_check(&w, true, 0);
        send_check(&w, true, 77);
        fixture_wait_requests(f, 3);
        assert_int_equal(fake.requests[1].r.rate, 0);
        assert_int_equal(fake.requests[2].r.rate, 77);
        ev.handle = fake.requests[0].r.handle;
        fake_emit(&ev);
        m = expect_kind(&w, id, CONFAB__V1__EVENT__KIND_PROGRESS);
        assert_true(m->event->progress->total_bytes == UINT64_MAX);
        assert_int_equal(m->event->progress->done_bytes, 5);
        assert_false(m->event->progress->has_done);
        proto_message_free(m);
        ev = (struct engine_event){.handle = ev.handle, .kind = ENGINE_CHECKED, .final = true};
        ev.checked = (struct engine_checked){.n_records = 7, .n_problems = 200, .n_listed = 2};
        ev.checked.problems = calloc(2, sizeof(*ev.checked.problems));
        assert_non_null(ev.checked.problems);
        ev.checked.problems[0] = (struct engine_problem){"spill", 3, 4, true, "it is damaged"};
        ev.checked.problems[1] = (struct engine_problem){"register", 0, 0, false, "so is this"};
        fake_emit(&ev);
        m = expect_kind(&w, id, CONFAB__V1__EVENT__KIND_CHECKED);
        assert_int_equal(m->event->checked->records, 7);
        assert_int_equal(m->event->checked->found, 200);
        assert_int_equal(m->event->checked->n_problems, 2);
        assert_string_equal(m->event->checked->problems[0]->text, "it is damaged");
        assert_int_equal(m->event->checked->problems[0]->record, 4);
        assert_true(m->event->checked->problems[0]->forgotten);
        assert_string_equal(m->event->checked->problems[1]->kind, "register");
        assert_false(m->event->checked->problems[1]->has_conversation);
        proto_message_free(m);
        wire_close(&w);
}

static unsigned n_audits;

static void on_audit(struct request *request, struct engine_event *event) {
        assert_string_equal(request->audit->what, "purging user 1000, tenant 'anna'");
        assert_int_equal(request->audit->uid, geteuid());
        assert_int_equal(request->audit->pid, getpid());
        audit_log(request, event);
        n_audits++;
}

/* The journal has the act also if its peer has gone; not what is only looked at. */
static void test_audit(void **state) {
        struct fixture *f = *state;
        struct engine_event ev = {.kind = ENGINE_USER_ACTED, .final = true};
        struct wire w;

        fixture_start(f);
        f->d->requests.on_audit = on_audit;
        n_audits = 0;
        connect_admin(f, &w);
        send_act(&w, 1000, "anna", CONFAB__V1__USER_ACT__USER_ACT_PURGE, true);
        send_users(&w, 0, 0, NULL);
        send_act(&w, 1000, "anna", CONFAB__V1__USER_ACT__USER_ACT_PURGE, false);
        fixture_wait_requests(f, 3);
        wire_close(&w);
        fixture_wait_peers(f, 0);
        for (unsigned i = 0; i < 3; i++) {
                ev.handle = fake.requests[i].r.handle;
                fake_emit(&ev);
        }
        while (requests_count(&f->d->requests) > 0)
                daemon_step(f->d);
        assert_int_equal(n_audits, 1);
}

/* A change of limits that the register did not take: the journal says who wanted it and why it is not, and the limit is
 * what it was. */
static void test_failed_change(void **state) {
        struct fixture *f = *state;
        int err = dup(STDERR_FILENO), fd = memfd_create("journal", MFD_CLOEXEC);
        char text[1024] = "", want[160];
        uint64_t value, id;
        struct wire w;

        assert_true(err >= 0 && fd >= 0);
        fixture_start(f);
        connect_admin(f, &w);
        id = send_limit(&w, 1000, "max-conversations", 5);
        fixture_wait_requests(f, 1);
        assert_int_equal(fake.requests[0].r.verb, ENGINE_OVERRIDE);
        assert_int_equal(dup2(fd, STDERR_FILENO), STDERR_FILENO);
        log_set_level(LOG_NOTICE);
        fake_emit_error(fake.requests[0].r.handle, ERR_LIMIT, "the register: disk full");
        while (requests_count(&f->d->requests) > 0)
                daemon_step(f->d);
        log_set_level(LOG_CRIT);
        assert_int_equal(dup2(err, STDERR_FILENO), STDERR_FILENO);
        assert_true(pread(fd, text, sizeof(text) - 1, 0) > 0);
        snprintf(want, sizeof(want),
                "administrator uid %u (pid %d): changing limits of user 1000: failed: the "
                "register: "
                "disk full\n",
                geteuid(), getpid());
        if (!strstr(text, want))
                fail_msg("no \"%s\" in \"%s\"", want, text);
        assert_null(strstr(text, "->"));
        expect_error(&w, id, "limit", true);
        assert_false(quota_rules_find(&f->d->users.rules,
                &(struct quota_subject){QUOTA_OF_USER, 1000, ""}, QUOTA_CONVERSATIONS, &value));
        close(err);
        close(fd);
        wire_close(&w);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test(test_permission),
                daemon_test(test_own_user),
                daemon_test_closed(test_settings),
                daemon_test_closed(test_users),
                daemon_test_closed(test_bad_users),
                daemon_test_closed(test_act),
                daemon_test_closed(test_check),
                daemon_test_closed(test_audit),
                daemon_test_closed(test_failed_change),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
