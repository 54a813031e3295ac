/* SPDX-License-Identifier: MIT */
/* Quota through libconfab: what a request says, and what an answer tells. */
#include "connection-fixture.h"

static struct proto_message *sent(struct fixture *f, const struct confab_request *r) {
        struct proto_message *m;

        assert_int_equal(confab_submit(f->c, r, NULL, NULL, NULL, NULL), 0);
        assert_int_equal(confab_process(f->c, NULL), 0);
        m = peer_next(&f->peer);
        assert_int_equal(m->request->verb_case, CONFAB__V1__REQUEST__VERB_QUOTA);
        return m;
}

static void test_look(void **state) {
        const struct confab_quota_subject tenant = {.has_uid = true, .uid = 7, .tenant = "pat"},
                                          group = {.has_gid = true, .gid = 0};
        struct confab_request r = request_of(CONFAB_QUOTA);
        struct proto_message *m;
        struct fixture f;

        (void)state;
        setup(&f);
        r.cursor = "of a list";
        r.limit = 5;
        m = sent(&f, &r);
        assert_null(m->request->quota->subject);
        assert_null(m->request->quota->cursor);
        assert_false(m->request->quota->has_limit || m->request->quota->has_overrides);
        proto_message_free(m);
        r.all_overrides = true;
        m = sent(&f, &r);
        assert_true(m->request->quota->overrides);
        assert_string_equal(m->request->quota->cursor, "of a list");
        assert_int_equal(m->request->quota->limit, 5);
        proto_message_free(m);
        r.all_overrides = false;
        r.quota_subject = &tenant;
        m = sent(&f, &r);
        assert_int_equal(m->request->quota->subject->uid, 7);
        assert_string_equal(m->request->quota->subject->tenant, "pat");
        assert_false(m->request->quota->subject->has_gid);
        assert_false(m->request->quota->subject->has_all_tenants);
        proto_message_free(m);
        r.quota_subject = &group;
        m = sent(&f, &r);
        assert_true(m->request->quota->subject->has_gid);
        assert_false(m->request->quota->subject->has_uid);
        proto_message_free(m);
        teardown(&f);
}

static void test_change(void **state) {
        const struct confab_quota_subject tenants = {.has_uid = true, .all_tenants = true};
        const struct confab_quota_change changes[] = {
                {.name = "max-user-tokens", .value = 1ull << 40},
                {.name = "max-conversations", .to = CONFAB_QUOTA_NONE, .value = 3},
                {.name = "max-user-requests", .to = CONFAB_QUOTA_CLEAR}};
        struct confab_request r = request_of(CONFAB_QUOTA);
        struct proto_message *m;
        struct fixture f;

        (void)state;
        setup(&f);
        r.quota_subject = &tenants;
        r.quota_changes = changes;
        r.n_quota_changes = 3;
        m = sent(&f, &r);
        assert_true(m->request->quota->subject->all_tenants);
        assert_int_equal(m->request->quota->n_changes, 3);
        assert_string_equal(m->request->quota->changes[0]->name, "max-user-tokens");
        assert_int_equal(
                m->request->quota->changes[0]->to_case, CONFAB__V1__QUOTA_CHANGE__TO_VALUE);
        assert_int_equal(m->request->quota->changes[0]->value, 1ull << 40);
        assert_int_equal(m->request->quota->changes[1]->to_case, CONFAB__V1__QUOTA_CHANGE__TO_NONE);
        assert_int_equal(
                m->request->quota->changes[2]->to_case, CONFAB__V1__QUOTA_CHANGE__TO_CLEAR);
        proto_message_free(m);
        teardown(&f);
}

static void test_refused(void **state) {
        const struct confab_quota_subject nobody = {.uid = 3},
                                          both = {.has_uid = true, .has_gid = true},
                                          bad = {.has_uid = true, .tenant = "\xff"};
        const struct confab_quota_subject *const subjects[] = {&nobody, &both, &bad};
        const struct confab_quota_change changes[] = {
                {.name = "\xff"}, {.name = "max-conversations", .to = (enum confab_quota_to)9}};
        struct confab_request r = request_of(CONFAB_QUOTA);
        struct confab_error e;
        struct fixture f;

        (void)state;
        setup(&f);
        for (size_t i = 0; i < 3; i++) {
                r.quota_subject = subjects[i];
                assert_int_equal(confab_submit(f.c, &r, NULL, NULL, NULL, &e), -1);
                assert_true(confab_error_is(&e, CONFAB_INVALID));
        }
        r.quota_subject = NULL;
        r.n_quota_changes = 1;
        for (size_t i = 0; i < 2; i++) {
                r.quota_changes = &changes[i];
                assert_int_equal(confab_submit(f.c, &r, NULL, NULL, NULL, &e), -1);
                assert_true(confab_error_is(&e, CONFAB_INVALID));
        }
        teardown(&f);
}

static void check_quotas(const struct confab_event *event) {
        const struct confab_quota *items = event->quotas->items;

        assert_int_equal(event->kind, CONFAB_EVENT_QUOTAS);
        assert_true(event->final);
        assert_int_equal(event->quotas->n_items, 2);
        assert_true(event->quotas->more);
        assert_string_equal(event->quotas->cursor, "2");
        assert_string_equal(items[0].name, "max-user-tokens-per-day");
        assert_string_equal(items[0].unit, "tokens");
        assert_true(items[0].is_limited && items[0].has_used);
        assert_int_equal(items[0].value, 1ull << 33);
        assert_int_equal(items[0].used, 5);
        assert_int_equal(items[0].renews_usec, 77);
        assert_string_equal(confab_quota_origin_name(items[0].origin), "group");
        assert_int_equal(items[0].gid, 100);
        assert_true(items[0].subject.has_uid && !items[0].subject.has_gid);
        assert_int_equal(items[0].subject.uid, 7);
        assert_string_equal(items[0].subject.tenant, "pat");
        /* As little as a daemon may say. */
        assert_string_equal(items[1].name, "");
        assert_false(items[1].is_limited || items[1].has_used || items[1].subject.has_uid);
        assert_string_equal(confab_quota_origin_name(items[1].origin), "none");
        assert_string_equal(confab_quota_origin_name((enum confab_quota_origin)77), "unknown");
}

static void test_answer(void **state) {
        Confab__V1__QuotaSubject subject = CONFAB__V1__QUOTA_SUBJECT__INIT;
        Confab__V1__QuotaLimit full = CONFAB__V1__QUOTA_LIMIT__INIT;
        Confab__V1__QuotaLimit empty = CONFAB__V1__QUOTA_LIMIT__INIT;
        Confab__V1__QuotaLimit *limits[] = {&full, &empty};
        Confab__V1__Quotas quotas = CONFAB__V1__QUOTAS__INIT;
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
        const struct confab_request r = request_of(CONFAB_QUOTA);
        struct seen seen = {.check = check_quotas};
        struct fixture f;

        (void)state;
        setup(&f);
        subject.has_uid = true;
        subject.uid = 7;
        subject.tenant = (char[]){"pat"};
        full.subject = &subject;
        full.name = (char[]){"max-user-tokens-per-day"};
        full.unit = (char[]){"tokens"};
        full.has_value = full.has_used = full.has_origin = full.has_gid = full.has_renews_usec =
                true;
        full.value = 1ull << 33;
        full.used = 5;
        full.origin = CONFAB__V1__QUOTA_ORIGIN__QUOTA_ORIGIN_GROUP;
        full.gid = 100;
        full.renews_usec = 77;
        quotas.n_limits = 2;
        quotas.limits = limits;
        quotas.has_more = quotas.more = true;
        quotas.cursor = (char[]){"2"};
        event.has_request = true;
        event.kind_case = CONFAB__V1__EVENT__KIND_QUOTAS;
        event.quotas = &quotas;
        event.request = submit(&f, &r, &seen);
        peer_send(&f.peer, &event);
        assert_int_equal(confab_process(f.c, NULL), 0);
        assert_int_equal(seen.n_final, 1);
        teardown(&f);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_look),
                cmocka_unit_test(test_change),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_answer),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
