/* SPDX-License-Identifier: MIT */
/* Cancel, evict and purge: on all that a user or a tenant has, and on nobody else. */
#include <string.h>

#include "edit-rig.h"
#include "rig.h"
#include "store/store.h"
#include "util/gate.h"
#include "util/test.h"

#define MANY 70 /* more than a page, far more than go at a time */

static struct answer A, B, reply;
static struct gate rewind_gate = GATE_INIT;

int __real_store_rewind(struct store *s, uint64_t id, uint32_t n_turns,
        const struct store_turn *last, const struct gap *gap, uint64_t *ret_revision,
        struct store_gone *gone, struct err *e);
int __wrap_store_rewind(struct store *s, uint64_t id, uint32_t n_turns,
        const struct store_turn *last, const struct gap *gap, uint64_t *ret_revision,
        struct store_gone *gone, struct err *e);
int __wrap_store_rewind(struct store *s, uint64_t id, uint32_t n_turns,
        const struct store_turn *last, const struct gap *gap, uint64_t *ret_revision,
        struct store_gone *gone, struct err *e) {
        gate_pass(&rewind_gate);
        return __real_store_rewind(s, id, n_turns, last, gap, ret_revision, gone, e);
}

static uint64_t open_as(struct erig *r, uint64_t owner) {
        struct engine_request q = {.verb = ENGINE_OPEN, .owner = owner};

        assert_int_equal(erig_do(r, &q, &A), ENGINE_CONV);
        return A.conv.id;
}

static uint64_t say_as(struct erig *r, uint64_t owner) {
        uint64_t id = open_as(r, owner);
        struct engine_request q = erig_long_request(id, erig_words(40, (unsigned)id), 2);

        q.owner = owner;
        assert_int_equal(erig_do(r, &q, &A), ENGINE_DONE);
        return id;
}

static bool is_there(struct erig *r, uint64_t owner, uint64_t c) {
        struct engine_request q = erig_request(ENGINE_GET, c);

        q.owner = owner;
        return erig_do(r, &q, &B) == ENGINE_CONV;
}

static enum engine_event_kind act_on(
        struct erig *r, uint32_t uid, const char *tenant, enum engine_user_act act, bool dry_run) {
        struct engine_request q = {.verb = ENGINE_ACT_ON_USER,
                .admin = true,
                .uid = uid,
                .tenant = tenant,
                .user_act = act,
                .dry_run = dry_run};

        return erig_do(r, &q, &A);
}

static uint64_t tenant(struct erig *r, uint32_t uid, const char *label) {
        struct engine_request q = {.verb = ENGINE_TENANT, .owner = uid, .tenant = label};

        assert_int_equal(erig_do(r, &q, &A), ENGINE_OWNER);
        return A.owner;
}

static void test_evict(void **state) {
        struct engine_options o = erig_options(64 << 20);
        uint64_t a, b, other;
        struct erig r;

        erig_open(&r, &o);
        a = say_as(&r, 1000);
        b = say_as(&r, 1000);
        other = say_as(&r, 1001);
        assert_int_equal(act_on(&r, 1000, NULL, ENGINE_USER_EVICT, true), ENGINE_USER_ACTED);
        assert_int_equal(A.n_convs, 2);
        assert_true(is_there(&r, 1000, a));
        assert_int_equal(B.conv.residency, ENGINE_RESIDENT);
        assert_int_equal(act_on(&r, 1000, NULL, ENGINE_USER_EVICT, false), ENGINE_USER_ACTED);
        assert_int_equal(A.n_convs, 2);
        assert_int_equal(A.n_busy, 0);
        assert_true(is_there(&r, 1000, a) && B.conv.residency == ENGINE_SPILLED);
        assert_true(is_there(&r, 1000, b) && B.conv.residency == ENGINE_SPILLED);
        assert_true(is_there(&r, 1001, other) && B.conv.residency == ENGINE_RESIDENT);
        /* Nothing is left to do. */
        assert_int_equal(act_on(&r, 1000, NULL, ENGINE_USER_EVICT, false), ENGINE_USER_ACTED);
        assert_int_equal(A.n_convs, 0);
        erig_check_register(&r);
        erig_close(&r);
}

/* A user, and all tenants; one tenant; nobody else. */
static void test_purge_whom(void **state) {
        struct engine_options o = erig_options(64 << 20);
        uint64_t anna, bert, foreign, own, of_anna, of_bert, of_foreign;
        struct erig r;

        erig_open(&r, &o);
        anna = tenant(&r, 1000, "anna");
        bert = tenant(&r, 1000, "bert");
        foreign = tenant(&r, 1001, "anna");
        own = say_as(&r, 1000);
        of_anna = say_as(&r, anna);
        of_bert = say_as(&r, bert);
        of_foreign = say_as(&r, foreign);
        assert_int_equal(act_on(&r, 1000, "nobody", ENGINE_USER_PURGE, false), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_NOT_FOUND);
        assert_int_equal(act_on(&r, 1000, "anna", ENGINE_USER_PURGE, false), ENGINE_USER_ACTED);
        assert_int_equal(A.n_convs, 1);
        assert_int_equal(A.owner, anna);
        assert_false(is_there(&r, anna, of_anna));
        assert_true(is_there(&r, 1000, own) && is_there(&r, bert, of_bert));
        /* The label is forgotten with it: there is no such tenant any more. */
        assert_int_equal(act_on(&r, 1000, "anna", ENGINE_USER_PURGE, false), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_NOT_FOUND);
        assert_int_equal(act_on(&r, 1000, NULL, ENGINE_USER_PURGE, true), ENGINE_USER_ACTED);
        assert_int_equal(A.n_convs, 2);
        assert_true(is_there(&r, 1000, own) && is_there(&r, bert, of_bert));
        assert_int_equal(act_on(&r, 1000, NULL, ENGINE_USER_PURGE, false), ENGINE_USER_ACTED);
        assert_int_equal(A.n_convs, 2);
        assert_true(A.n_tokens_acted > 80);
        assert_false(is_there(&r, 1000, own) || is_there(&r, bert, of_bert));
        assert_true(is_there(&r, foreign, of_foreign));
        /* Given again, also for a user who never was there. */
        assert_int_equal(act_on(&r, 1000, NULL, ENGINE_USER_PURGE, false), ENGINE_USER_ACTED);
        assert_int_equal(A.n_convs, 0);
        assert_int_equal(act_on(&r, 5, NULL, ENGINE_USER_PURGE, false), ENGINE_USER_ACTED);
        assert_int_equal(act_on(&r, 1001, NULL, ENGINE_USER_PURGE, false), ENGINE_USER_ACTED);
        assert_int_equal(erig_stat(&r, "spill_records"), 0);
        erig_check_empty(&r);
        erig_check_register(&r);
        erig_close(&r);
}

/* More than a page; a crash in the middle leaves whole conversations, and the purge can be given again. */
static void test_purge_many(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q = {.verb = ENGINE_ACT_ON_USER,
                .admin = true,
                .uid = 1000,
                .user_act = ENGINE_USER_PURGE};
        struct erig r;

        erig_open(&r, &o);
        for (unsigned i = 0; i < MANY; i++)
                open_as(&r, 1000);
        open_as(&r, 1001);
        erig_send(&r, &q, &A);
        erig_restart(&r, false);
        assert_int_equal(act_on(&r, 1000, NULL, ENGINE_USER_PURGE, true), ENGINE_USER_ACTED);
        assert_true(A.n_convs <= MANY);
        assert_int_equal(act_on(&r, 1000, NULL, ENGINE_USER_PURGE, false), ENGINE_USER_ACTED);
        assert_int_equal(act_on(&r, 1000, NULL, ENGINE_USER_PURGE, true), ENGINE_USER_ACTED);
        assert_int_equal(A.n_convs, 0);
        assert_int_equal(act_on(&r, 1001, NULL, ENGINE_USER_PURGE, true), ENGINE_USER_ACTED);
        assert_int_equal(A.n_convs, 1);
        erig_check_register(&r);
        erig_close(&r);
}

/* A reply is being written: it is asked to end, and its conversation goes, too. */
static void test_in_flight(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q, purge = {.verb = ENGINE_ACT_ON_USER,
                                         .admin = true,
                                         .uid = 1000,
                                         .user_act = ENGINE_USER_PURGE};
        struct erig r;
        uint64_t c, d;

        erig_open(&r, &o);
        c = open_as(&r, 1000);
        d = open_as(&r, 1000);
        q = erig_long_request(c, "Tell me a story.", 400);
        q.owner = 1000;
        edit_send_and_hold(&r, &q, 0, &reply);
        edit_walk(&r, &reply, 3);
        erig_send(&r, &purge, &A);
        gate_open(&edit_step_gate);
        erig_wait(&r, &A);
        assert_int_equal(A.kind, ENGINE_USER_ACTED);
        assert_int_equal(A.n_convs, 2);
        assert_int_equal(A.n_requests, 1);
        erig_wait(&r, &reply);
        assert_int_equal(reply.kind, ENGINE_DONE);
        assert_int_equal(reply.finish, ENGINE_FINISH_CANCELLED);
        assert_true(reply.n_generated < 400);
        assert_false(is_there(&r, 1000, c) || is_there(&r, 1000, d));
        erig_check_empty(&r);
        erig_close(&r);
}

/* A conversation is held by what cannot be cancelled: an eviction leaves it alone, a purge comes back for it. */
static void test_in_use(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request rewind, purge = {.verb = ENGINE_ACT_ON_USER,
                                              .admin = true,
                                              .uid = 1000,
                                              .user_act = ENGINE_USER_PURGE};
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        c = say_as(&r, 1000);
        say_as(&r, 1000);
        rewind = erig_request(ENGINE_REWIND, c);
        rewind.owner = 1000;
        rewind.drop_turns = 1;
        gate_close(&rewind_gate, 0);
        erig_send(&r, &rewind, &reply);
        gate_wait(&rewind_gate);
        assert_int_equal(act_on(&r, 1000, NULL, ENGINE_USER_EVICT, false), ENGINE_USER_ACTED);
        assert_int_equal(A.n_convs, 1);
        assert_int_equal(A.n_busy, 1);
        erig_send(&r, &purge, &A);
        for (unsigned i = 0; i < 50; i++) /* turns of the engine thread */
                erig_stat(&r, "requests");
        assert_false(A.final);
        gate_open(&rewind_gate);
        erig_wait(&r, &A);
        assert_int_equal(A.kind, ENGINE_USER_ACTED);
        assert_int_equal(A.n_convs, 2);
        erig_wait(&r, &reply);
        assert_false(is_there(&r, 1000, c));
        erig_check_empty(&r);
        erig_close(&r);
}

/* Labels that somebody may use stay: of tenants that are connected, or came while the purge went on. */
static void test_labels(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_known connected[1];
        struct engine_request q, open,
                purge = {.verb = ENGINE_ACT_ON_USER,
                        .admin = true,
                        .uid = 1000,
                        .user_act = ENGINE_USER_PURGE,
                        .known = connected,
                        .n_known = 1};
        uint64_t anna, bert, carl, dora, c;
        struct erig r;

        erig_open(&r, &o);
        anna = tenant(&r, 1000, "anna");
        bert = tenant(&r, 1000, "bert");
        carl = tenant(&r, 1000, "carl");
        dora = tenant(&r, 1001, "dora");
        connected[0] = (struct engine_known){.owner = anna, .n_connections = 1};
        c = say_as(&r, carl);
        say_as(&r, carl);
        q = erig_request(ENGINE_REWIND, c);
        q.owner = carl;
        q.drop_turns = 1;
        gate_close(&rewind_gate, 0);
        erig_send(&r, &q, &reply);
        gate_wait(&rewind_gate);
        erig_send(&r, &purge, &B);
        for (unsigned i = 0; i < 10; i++) /* turns of the engine thread */
                erig_stat(&r, "requests");
        assert_int_equal(tenant(&r, 1000, "carl"), carl); /* connects now */
        gate_open(&rewind_gate);
        erig_wait(&r, &B);
        assert_int_equal(B.kind, ENGINE_USER_ACTED);
        erig_wait(&r, &reply);
        open_as(&r, anna);
        open_as(&r, carl);
        open_as(&r, dora);
        /* Who has the number of a label that is forgotten hears it, and gets another one. */
        open = (struct engine_request){.verb = ENGINE_OPEN, .owner = bert};
        assert_int_equal(erig_do(&r, &open, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_NOT_FOUND);
        assert_non_null(strstr(A.err.msg, "connect again"));
        assert_true(tenant(&r, 1000, "bert") > bert);
        erig_check_register(&r);
        erig_close(&r);
}

static void test_cancel(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        c = open_as(&r, 1000);
        q = erig_long_request(c, "Tell me a story.", 400);
        q.owner = 1000;
        edit_send_and_hold(&r, &q, 0, &reply);
        edit_walk(&r, &reply, 3);
        gate_open(&edit_step_gate);
        assert_int_equal(act_on(&r, 1001, NULL, ENGINE_USER_CANCEL, false), ENGINE_USER_ACTED);
        assert_int_equal(A.n_requests, 0);
        assert_int_equal(act_on(&r, 1000, NULL, ENGINE_USER_CANCEL, true), ENGINE_USER_ACTED);
        assert_int_equal(A.n_requests, 1);
        assert_false(reply.final);
        assert_int_equal(act_on(&r, 1000, NULL, ENGINE_USER_CANCEL, false), ENGINE_USER_ACTED);
        assert_int_equal(A.n_requests, 1);
        erig_wait(&r, &reply);
        assert_int_equal(reply.finish, ENGINE_FINISH_CANCELLED);
        assert_true(is_there(&r, 1000, c));
        erig_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_evict),
                cmocka_unit_test(test_purge_whom),
                cmocka_unit_test(test_purge_many),
                cmocka_unit_test(test_in_flight),
                cmocka_unit_test(test_in_use),
                cmocka_unit_test(test_labels),
                cmocka_unit_test(test_cancel),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
