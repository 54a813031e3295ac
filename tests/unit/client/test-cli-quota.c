/* SPDX-License-Identifier: MIT */
/* quota and admin quota: what is sent, and how limits are shown. The users and groups are numbers that nobody has. */
#include "cli-fixture.h"

#define NOBODY "4100000001"
#define HEAD "       VALUE         USED  LIMIT                    FROM\n"
#define LIST_HEAD "       VALUE  LIMIT                    WHOSE\n"

static Confab__V1__QuotaSubject subject(uint32_t uid, uint32_t gid, const char *tenant, bool all) {
        Confab__V1__QuotaSubject s = CONFAB__V1__QUOTA_SUBJECT__INIT;

        s.has_uid = uid != 0;
        s.uid = uid;
        s.has_gid = gid != 0;
        s.gid = gid;
        s.tenant = proto_borrow(tenant);
        s.has_all_tenants = s.all_tenants = all;
        return s;
}

static Confab__V1__QuotaLimit limit(const char *name, const char *unit, bool is, uint64_t value) {
        Confab__V1__QuotaLimit l = CONFAB__V1__QUOTA_LIMIT__INIT;

        l.name = proto_borrow(name);
        l.unit = proto_borrow(unit);
        l.has_value = is;
        l.value = value;
        l.has_origin = true;
        l.origin = CONFAB__V1__QUOTA_ORIGIN__QUOTA_ORIGIN_SETTING;
        return l;
}

static void send_limits(struct fixture *f, uint64_t id, Confab__V1__QuotaLimit *limits, size_t n,
        const char *cursor) {
        Confab__V1__QuotaLimit *list[8];
        Confab__V1__Quotas quotas = CONFAB__V1__QUOTAS__INIT;
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;

        for (size_t i = 0; i < n; i++)
                list[i] = &limits[i];
        quotas.limits = list;
        quotas.n_limits = n;
        quotas.has_more = true;
        quotas.more = cursor != NULL;
        quotas.cursor = proto_borrow(cursor);
        event.has_request = true;
        event.request = id;
        event.kind_case = CONFAB__V1__EVENT__KIND_QUOTAS;
        event.quotas = &quotas;
        peer_send(&f->peer, &event);
}

static struct proto_message *asked(struct fixture *f) {
        struct proto_message *m = peer_next(&f->peer);

        assert_non_null(m);
        assert_int_equal(m->request->verb_case, REQ(QUOTA));
        return m;
}

/* Each unit, each origin, and what a daemon that is newer may say. */
static void test_own(void **state) {
        Confab__V1__QuotaLimit limits[] = {
                limit("max-conversations", "conversations", true, 1024),
                limit("max-user-tokens-per-day", "tokens", false, 0),
                limit("ram-share-per-user", "percent", true, 50),
                limit("disk-limit-per-user", "bytes", true, 1536ull << 20),
                limit("disk-limit-per-user", "bytes", true, 1537),
                limit("a-limit-with-a-name-that-is-long", "boxes\x1b", true, 0),
        };
        struct proto_message *m;
        struct fixture f;

        (void)state;
        for (size_t i = 0; i < 5; i++)
                limits[i].has_used = true;
        limits[0].used = 1025;
        limits[0].origin = CONFAB__V1__QUOTA_ORIGIN__QUOTA_ORIGIN_USER;
        limits[1].used = 1234567;
        limits[1].has_renews_usec = true;
        limits[1].renews_usec = 86400ull * 1000000 * 20000;
        limits[2].used = 7;
        limits[2].origin = CONFAB__V1__QUOTA_ORIGIN__QUOTA_ORIGIN_GROUP;
        limits[2].has_gid = true;
        limits[2].gid = 4100000002;
        limits[3].used = 1ull << 30;
        limits[3].origin = CONFAB__V1__QUOTA_ORIGIN__QUOTA_ORIGIN_TENANTS;
        limits[4].origin = CONFAB__V1__QUOTA_ORIGIN__QUOTA_ORIGIN_TENANT;
        BEGIN(&f, "quota");
        m = asked(&f);
        assert_null(m->request->quota->subject);
        assert_false(m->request->quota->has_overrides);
        send_limits(&f, m->request->id, limits, 6, NULL);
        proto_message_free(m);
        finish(&f, 0,
                HEAD "        1024         1025  max-conversations        user\n"
                     "        none      1234567  max-user-tokens-per-day  setting, starts anew on "
                     "2024-10-04 at 00:00 UTC\n"
                     "         50%           7%  ram-share-per-user       group 4100000002\n"
                     "       1536M         1.0G  disk-limit-per-user      tenants\n"
                     "        1537            0  disk-limit-per-user      tenant\n"
                     "           0            -  a-limit-with-a-name-that-is-long setting\n",
                NULL);
        START(&f, "--json", "quota");
        greet(&f);
        send_limits(&f, expect(&f, REQ(QUOTA)), limits, 1, NULL);
        finish(&f, 0,
                "{\"limits\":[{\"name\":\"max-conversations\",\"value\":1024,\"used\":1025,"
                "\"unit\":\"conversations\",\"origin\":\"user\"}],\"more\":false}\n",
                NULL);
        teardown(&f);
}

/* Pages of overrides are one list, whose subjects can be given as they are shown. */
static void test_overrides(void **state) {
        Confab__V1__QuotaSubject subjects[] = {subject(4100000001, 0, NULL, false),
                subject(0, 4100000002, NULL, false), subject(4100000001, 0, NULL, true),
                subject(4100000001, 0, "web\n", false)};
        Confab__V1__QuotaLimit limits[4];
        struct proto_message *m;
        struct fixture f;

        (void)state;
        for (size_t i = 0; i < 4; i++) {
                limits[i] = limit("max-conversations", "conversations", true, i);
                limits[i].subject = &subjects[i];
        }
        BEGIN(&f, "admin", "quota");
        m = asked(&f);
        assert_true(m->request->quota->overrides);
        assert_null(m->request->quota->subject);
        assert_null(m->request->quota->cursor);
        send_limits(&f, m->request->id, limits, 2, "next");
        proto_message_free(m);
        m = asked(&f);
        assert_string_equal(m->request->quota->cursor, "next");
        send_limits(&f, m->request->id, limits + 2, 2, NULL);
        proto_message_free(m);
        finish(&f, 0,
                LIST_HEAD "           0  max-conversations        " NOBODY "\n"
                          "           1  max-conversations        @4100000002\n"
                          "           2  max-conversations        " NOBODY ":*\n"
                          "           3  max-conversations        " NOBODY ":web\n\n",
                NULL);
        START(&f, "admin", "quota", "--json");
        greet(&f);
        send_limits(&f, expect(&f, REQ(QUOTA)), limits, 1, "next");
        send_limits(&f, expect(&f, REQ(QUOTA)), limits + 2, 1, NULL);
        finish(&f, 0,
                "{\"limits\":[{\"uid\":" NOBODY ",\"name\":\"max-conversations\",\"value\":0,"
                "\"unit\":\"conversations\",\"origin\":\"setting\"},{\"uid\":" NOBODY
                ",\"all_tenants\":true,\"name\":\"max-conversations\",\"value\":2,"
                "\"unit\":\"conversations\",\"origin\":\"setting\"}],\"more\":false}\n",
                NULL);
        START(&f, "admin", "quota");
        greet(&f);
        send_limits(&f, expect(&f, REQ(QUOTA)), NULL, 0, NULL);
        finish(&f, 0, "", "no limit is overridden");
        START(&f, "admin", "quota"); /* a list that would never end */
        greet(&f);
        send_limits(&f, expect(&f, REQ(QUOTA)), limits, 1, "same");
        send_limits(&f, expect(&f, REQ(QUOTA)), NULL, 0, "same");
        finish(&f, 1, NULL, "does not end");
        START(&f, "--json", "admin", "quota");
        greet(&f);
        peer_send_error(&f.peer, expect(&f, REQ(QUOTA)), "permission", "not yours", false);
        finish(&f, 1, NULL, "not yours");
        assert_non_null(strstr(f.text, "\"code\":\"permission\""));
        teardown(&f);
}

/* Each way to name a subject. */
static void check_subject(
        const char *text, uint32_t uid, const char *group, const char *tenant, bool all) {
        Confab__V1__QuotaSubject *s;
        struct proto_message *m;
        struct fixture f;

        BEGIN(&f, "admin", "quota", text);
        m = asked(&f);
        s = m->request->quota->subject;
        assert_non_null(s);
        assert_int_equal(m->request->quota->n_changes, 0);
        assert_true(group ? s->has_gid && !s->has_uid : s->has_uid && !s->has_gid);
        assert_int_equal(group ? s->gid : s->uid, group ? strtoul(group, NULL, 10) : uid);
        assert_string_equal(s->tenant ? s->tenant : "", tenant);
        assert_int_equal(s->has_all_tenants && s->all_tenants, all);
        send_limits(&f, m->request->id, NULL, 0, NULL);
        proto_message_free(m);
        finish(&f, 0, HEAD, NULL);
        teardown(&f);
}

static void test_subjects(void **state) {
        (void)state;
        check_subject("root", 0, NULL, "", false);
        check_subject(NOBODY, 4100000001, NULL, "", false);
        check_subject(NOBODY ":web", 4100000001, NULL, "web", false);
        check_subject(NOBODY ":*", 4100000001, NULL, "", true);
        check_subject(NOBODY ":a*", 4100000001, NULL, "a*", false);
        check_subject("@root", 0, "0", "", false);
        check_subject("@4100000002", 0, "4100000002", "", false);
}

static void test_changes(void **state) {
        static const struct {
                const char *name;
                Confab__V1__QuotaChange__ToCase to;
                uint64_t value;
        } changes[] = {
                {"disk-limit-per-user", CONFAB__V1__QUOTA_CHANGE__TO_VALUE, 20ull << 30},
                {"ram-share-per-user", CONFAB__V1__QUOTA_CHANGE__TO_VALUE, 10},
                {"max-user-tokens", CONFAB__V1__QUOTA_CHANGE__TO_VALUE, 0},
                {"max-conversations", CONFAB__V1__QUOTA_CHANGE__TO_NONE, 0},
                {"max-user-requests", CONFAB__V1__QUOTA_CHANGE__TO_CLEAR, 0},
        };
        struct proto_message *m;
        struct fixture f;

        (void)state;
        BEGIN(&f, "admin", "quota", NOBODY, "disk-limit-per-user=20G", "ram-share-per-user=10%",
                "max-user-tokens=0", "max-conversations=none", "max-user-requests=default");
        m = asked(&f);
        assert_int_equal(m->request->quota->subject->uid, 4100000001);
        assert_int_equal(m->request->quota->n_changes, ARRAY_SIZE(changes));
        for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
                const Confab__V1__QuotaChange *c = m->request->quota->changes[i];

                assert_string_equal(c->name, changes[i].name);
                assert_int_equal(c->to_case, changes[i].to);
                if (c->to_case == CONFAB__V1__QUOTA_CHANGE__TO_VALUE)
                        assert_int_equal(c->value, changes[i].value);
        }
        send_limits(&f, m->request->id, NULL, 0, NULL);
        proto_message_free(m);
        finish(&f, 0, HEAD, NULL);
        teardown(&f);
}

/* What is no request says so without a daemon. */
static void refused(
        struct fixture *f, int status, const char *subject, const char *change, const char *err) {
        START(f, "admin", "quota", subject, change);
        finish(f, status, "", err);
}

static void test_wrong(void **state) {
        struct fixture f;

        (void)state;
        setup(&f);
        refused(&f, 2, NOBODY, "max-conversation=3", "did you mean 'max-conversations'?");
        refused(&f, 2, NOBODY, "height=3", "there are max-conversations, max-user-tokens, ");
        refused(&f, 2, NOBODY, "max-conversations", "LIMIT=VALUE");
        refused(&f, 2, NOBODY, "=3", "LIMIT=VALUE");
        refused(&f, 2, NOBODY, "max-conversations=", "'' is not a number of conversations");
        refused(&f, 2, NOBODY, "max-conversations=3K", "from 0 to 1073741824 nor 'none'");
        refused(&f, 2, NOBODY, "max-conversations=1073741825", "not a number");
        refused(&f, 2, NOBODY, "max-conversations=-1", "not a number");
        refused(&f, 2, NOBODY, "max-conversations=5%", "not a number");
        refused(&f, 2, NOBODY, "ram-share-per-user=101%", "perhaps with %");
        refused(&f, 2, NOBODY, "ram-share-per-user=%", "perhaps with %");
        refused(&f, 2, NOBODY, "disk-limit-per-user=G", "perhaps with K, M, G or T");
        refused(&f, 2, NOBODY, "disk-limit-per-user=1048577T", "perhaps with K, M, G or T");
        refused(&f, 2, "max-conversations=3", NULL, "whose limit?");
        refused(&f, 2, "@", NULL, "names no group");
        refused(&f, 3, "@no-such-group-here", NULL, "no group is called");
        refused(&f, 3, "no-such-user-here", NULL, "no user is called");
        refused(&f, 2, NOBODY ":", NULL, "names no user and no tenant");
        refused(&f, 2, "#3", NULL, "is a conversation");
        START(&f, "admin", "quota", NOBODY, "max-user-tokens=1", "max-user-tokens=default");
        finish(&f, 2, "", "max-user-tokens is given twice");
        teardown(&f);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_own),
                cmocka_unit_test(test_overrides),
                cmocka_unit_test(test_subjects),
                cmocka_unit_test(test_changes),
                cmocka_unit_test(test_wrong),
        };

        if (argc != 2) {
                fprintf(stderr, "usage: test-cli-quota PROGRAM\n");
                return 2;
        }
        program = argv[1];
        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
