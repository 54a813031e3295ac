/* SPDX-License-Identifier: MIT */
/*
 * Tenants of a uid: how they get their owners, and that they are as apart from each other and from the uid
 * itself as uids are, in RAM, on disk, in quotas and after a restart.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "util/test.h"

#define UID 1000
#define N 4 /* owners: the uid, two tenants of it, a tenant of that label of another uid */

static struct answer A, B, many[70];
static uint64_t owners[N];

static const char SYSTEM[] =
        "You are a friendly guide to a town by a river. You know the green house, the seven birds, "
        "the old bridge and the market. You answer in one or two short sentences and stay polite, "
        "whatever you are asked, in winter as in summer, by day and by night.";

static enum engine_event_kind ask_tenant(struct erig *r, uint32_t uid, const char *label) {
        struct engine_request q = {.verb = ENGINE_TENANT, .owner = uid, .tenant = label};

        return erig_do(r, &q, &A);
}

static uint64_t tenant(struct erig *r, uint32_t uid, const char *label) {
        if (ask_tenant(r, uid, label) != ENGINE_OWNER)
                fail_msg("tenant: %s", A.err.msg);
        assert_int_equal(owner_uid(A.owner), uid);
        assert_true(owner_possible(A.owner) && owner_tenant(A.owner) > 0);
        return A.owner;
}

static void refused(struct erig *r, const char *label, const char *part) {
        assert_int_equal(ask_tenant(r, UID, label), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_INVALID);
        assert_non_null(strstr(A.err.msg, part));
}

static struct engine_options options(void) {
        struct engine_options o = erig_options(64 << 20);

        o.spill_delay_ms = UINT32_MAX;
        return o;
}

static void open_engine(struct erig *r, const struct engine_options *o) {
        erig_open(r, o);
        owners[0] = UID;
        owners[1] = tenant(r, UID, "anna");
        owners[2] = tenant(r, UID, "bert");
        owners[3] = tenant(r, UID + 1, "anna");
}

static enum engine_event_kind do_as(
        struct erig *r, uint64_t owner, enum engine_verb verb, uint64_t c) {
        struct engine_request q = erig_request(verb, c);

        q.owner = owner;
        q.max_tokens = 1;
        return erig_do(r, &q, &A);
}

static uint64_t open_as(struct erig *r, uint64_t owner, const char *name, const char *system) {
        struct engine_request q = {
                .verb = ENGINE_OPEN, .owner = owner, .name = name, .system = system};

        if (erig_do(r, &q, &B) != ENGINE_CONV)
                fail_msg("open: %s", B.err.msg);
        return B.conv.id;
}

static void say_as(struct erig *r, uint64_t owner, uint64_t c, const char *text) {
        struct engine_request q = erig_say_request(c, text, 4);

        q.owner = owner;
        if (erig_do(r, &q, &A) != ENGINE_DONE)
                fail_msg("say: %s", A.err.msg);
}

static void test_labels(void **state) {
        struct engine_options o = options();
        struct erig r;
        char longest[ENGINE_NAME_MAX + 2];
        uint64_t anna;

        o.max_tenants_per_user = 4;
        erig_open(&r, &o);
        anna = tenant(&r, UID, "anna");
        assert_true(tenant(&r, UID, "anna") == anna);
        assert_true(tenant(&r, UID, "Anna") != anna);
        /* People have numbers in other programs. */
        assert_true(tenant(&r, UID, "4711") != anna);
        refused(&r, "", "1 to 128 bytes");
        refused(&r, NULL, "1 to 128 bytes");
        refused(&r, "#1", "#");
        refused(&r, "a\nb", "control character");
        refused(&r, "a\xc2\x85", "control character");
        refused(&r, "\xff", "UTF-8");
        memset(longest, 'a', sizeof(longest));
        longest[ENGINE_NAME_MAX + 1] = 0;
        refused(&r, longest, "1 to 128 bytes");
        longest[ENGINE_NAME_MAX] = 0;
        tenant(&r, UID, longest);
        assert_int_equal(ask_tenant(&r, UID, "one more"), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_LIMIT);
        tenant(&r, UID + 1, "one more");
        /* Those who have something stay, and make room for others only then. */
        open_as(&r, anna, NULL, NULL);
        erig_restart(&r, true);
        assert_true(tenant(&r, UID, "anna") == anna);
        tenant(&r, UID, "one more");
        erig_close(&r);
}

/* As many at the same time as a gateway makes when it comes back: quotas of requests are for others. */
static void test_many_at_once(void **state) {
        struct engine_options o = options();
        static struct engine_request q[70];
        static char labels[70][8];
        struct erig r;

        o.max_requests_per_owner = 2;
        o.max_queued = 3;
        erig_open(&r, &o);
        for (int i = 0; i < 70; i++) {
                snprintf(labels[i], sizeof(labels[i]), "t%d", i / 2);
                q[i] = (struct engine_request){
                        .verb = ENGINE_TENANT, .owner = UID, .tenant = labels[i]};
        }
        erig_do_all(&r, q, many, 70);
        for (int i = 0; i < 70; i++) {
                assert_int_equal(many[i].kind, ENGINE_OWNER);
                assert_true(many[i].owner == many[i ^ 1].owner);
                assert_true(i < 2 || many[i].owner != many[i - 2].owner);
        }
        erig_close(&r);
}

/* Whatever one does with another's conversation, it is not there. */
static void test_nobody_reaches_others(void **state) {
        static const enum engine_verb verbs[] = {ENGINE_CONTINUE, ENGINE_FORK, ENGINE_REWIND,
                ENGINE_CLOSE, ENGINE_GET, ENGINE_UPDATE, ENGINE_WARM, ENGINE_EVICT, ENGINE_CANCEL,
                ENGINE_PUBLISH, ENGINE_EXPORT, ENGINE_CARRY, ENGINE_ATTACH};
        struct engine_options o = options();
        struct engine_request q = {.verb = ENGINE_GET, .conv_name = "talk"};
        uint64_t ids[N];
        struct erig r;

        open_engine(&r, &o);
        for (int i = 0; i < N; i++)
                ids[i] = open_as(&r, owners[i], "talk", "Hello");
        for (int round = 0; round < 2; round++) {
                for (int i = 0; i < N; i++) {
                        q.owner = owners[i];
                        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
                        assert_int_equal(A.conv.id, ids[i]);
                        assert_true(A.conv.owner == owners[i]);
                        assert_string_equal(A.tenant, i == 0 ? "" : i == 2 ? "bert" : "anna");
                        for (int k = 0; k < N; k++)
                                for (size_t v = 0; k != i && v < sizeof(verbs) / sizeof(verbs[0]);
                                        v++) {
                                        assert_int_equal(do_as(&r, owners[i], verbs[v], ids[k]),
                                                ENGINE_ERROR);
                                        assert_int_equal(A.err.code, ERR_NOT_FOUND);
                                }
                }
                erig_restart(&r, true);
        }
        erig_close(&r);
}

static void test_memory_is_apart(void **state) {
        struct engine_options o = options();
        struct engine_request publish = erig_request(ENGINE_PUBLISH, 0);
        uint64_t ids[N];
        struct erig r;

        open_engine(&r, &o);
        for (int i = 0; i < N; i++) {
                ids[i] = open_as(&r, owners[i], NULL, SYSTEM);
                say_as(&r, owners[i], ids[i], "Where do the birds live?");
                assert_int_equal(A.n_computed, A.n_prompt);
                assert_int_equal(A.differs_why, ENGINE_DIFFERS_NEW);
                assert_int_equal(A.differs_at, 0);
        }
        /* Each has its own of it. */
        say_as(&r, owners[1], open_as(&r, owners[1], NULL, SYSTEM), "Where do the birds live?");
        assert_true(A.n_shared > 0);
        /* Nor through the disk. Each has written it for itself. */
        for (int i = 0; i < N - 1; i++)
                assert_int_equal(do_as(&r, owners[i], ENGINE_EVICT, ids[i]), ENGINE_CONV);
        assert_int_equal(do_as(&r, owners[3], ENGINE_CLOSE, ids[3]), ENGINE_EMPTY);
        assert_int_equal(erig_stat(&r, "blocks_linked"), 0);
        erig_restart(&r, true);
        owners[3] = tenant(&r, UID + 1, "anna"); /* without a conversation it was forgotten */
        say_as(&r, owners[3], open_as(&r, owners[3], NULL, SYSTEM), "Where do the birds live?");
        assert_int_equal(A.n_computed, A.n_prompt);
        assert_int_equal(A.differs_at, 0);
        /* What is published is for tenants, too. */
        publish.conv_id = ids[0];
        publish.owner = owners[0];
        publish.admin = publish.publish = true;
        assert_int_equal(erig_do(&r, &publish, &A), ENGINE_CONV);
        say_as(&r, owners[3], open_as(&r, owners[3], NULL, SYSTEM), "When is the market?");
        assert_true(A.n_shared + A.n_disk > 0);
        owners[3] = tenant(&r, UID + 1, "new");
        say_as(&r, owners[3], open_as(&r, owners[3], NULL, SYSTEM), "When is the market?");
        assert_true(A.n_shared + A.n_disk > 0);
        erig_check_register(&r);
        erig_close(&r);
}

/* Limits are each one's. A tenant of root is not root. */
static void test_limits_are_apart(void **state) {
        struct engine_options o = options();
        struct engine_request q, open = {.verb = ENGINE_OPEN};
        uint64_t of_root, ids[7];
        struct erig r;

        o.max_conversations_per_owner = 2;
        o.max_requests_per_owner = 1;
        o.max_queued = 32;
        open_engine(&r, &o);
        for (int i = 0; i < N; i++) {
                open_as(&r, owners[i], NULL, NULL);
                q = erig_long_request(open_as(&r, owners[i], NULL, NULL), "Hello there.", 40);
                open.owner = owners[i];
                assert_int_equal(erig_do(&r, &open, &A), ENGINE_ERROR);
                assert_int_equal(A.err.code, ERR_LIMIT);
                q.owner = owners[i];
                erig_send(&r, &q, &many[i]);
                assert_false(many[i].refused);
                erig_send(&r, &open, &A);
                assert_true(A.refused);
                assert_int_equal(A.err.code, ERR_LIMIT);
        }
        assert_non_null(strstr(A.err.msg, OWNER_TEXT(owners[N - 1])));
        for (int i = 0; i < N; i++)
                erig_wait(&r, &many[i]);
        /* The last place is kept for root. */
        erig_stop(&r, true);
        r.o.max_queued = 8;
        r.o.max_requests_per_owner = r.o.max_conversations_per_owner = 99;
        erig_start(&r);
        of_root = tenant(&r, 0, "anna");
        for (int i = 0; i < 7; i++)
                ids[i] = open_as(&r, of_root, NULL, NULL);
        for (int i = 0; i < 7; i++) {
                q = erig_long_request(ids[i], "Hello there.", 40);
                q.owner = of_root;
                erig_send(&r, &q, &many[i]);
                assert_false(many[i].refused);
        }
        open.owner = of_root;
        erig_send(&r, &open, &A);
        assert_true(A.refused);
        open.owner = 0;
        assert_int_equal(erig_do(&r, &open, &A), ENGINE_CONV);
        for (int i = 0; i < 7; i++)
                erig_wait(&r, &many[i]);
        erig_close(&r);
}

/* Each pays for its own files. */
static void test_disk_is_apart(void **state) {
        struct engine_options o = options();
        struct erig r;
        uint64_t first, size;

        o.disk_limit_per_owner = 150000;
        open_engine(&r, &o);
        first = open_as(&r, owners[0], NULL, SYSTEM);
        say_as(&r, owners[0], first, "Where do the birds live?");
        assert_int_equal(do_as(&r, owners[0], ENGINE_EVICT, first), ENGINE_CONV);
        size = A.conv.disk_size;
        assert_true(size > 0 && size <= o.disk_limit_per_owner);
        for (int i = 0; i < 6; i++) {
                uint64_t c = open_as(&r, owners[1], NULL, NULL);

                say_as(&r, owners[1], c, erig_words(60, (unsigned)i));
                assert_int_equal(do_as(&r, owners[1], ENGINE_EVICT, c), ENGINE_CONV);
        }
        assert_true(erig_stat(&r, "reclaimed_bytes") > 0);
        assert_true(erig_stat(&r, "spill_disk_bytes") <= size + o.disk_limit_per_owner);
        assert_int_equal(do_as(&r, owners[0], ENGINE_GET, first), ENGINE_CONV);
        assert_int_equal(A.conv.disk_size, size);
        erig_check_register(&r);
        erig_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_labels),
                cmocka_unit_test(test_many_at_once),
                cmocka_unit_test(test_nobody_reaches_others),
                cmocka_unit_test(test_memory_is_apart),
                cmocka_unit_test(test_limits_are_apart),
                cmocka_unit_test(test_disk_is_apart),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
