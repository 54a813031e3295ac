/* SPDX-License-Identifier: MIT */
/* Users: who has what, in pages of any order. */
#include <string.h>

#include "rig.h"
#include "util/test.h"

static struct answer A;

static uint64_t say_as(struct erig *r, uint64_t owner, const char *text, uint32_t max_tokens) {
        struct engine_request q = {.verb = ENGINE_OPEN, .owner = owner};
        uint64_t id;

        assert_int_equal(erig_do(r, &q, &A), ENGINE_CONV);
        id = A.conv.id;
        q = erig_long_request(id, text, max_tokens);
        q.owner = owner;
        assert_int_equal(erig_do(r, &q, &A), ENGINE_DONE);
        return id;
}

static uint64_t tenant(struct erig *r, uint32_t uid, const char *label) {
        struct engine_request q = {.verb = ENGINE_TENANT, .owner = uid, .tenant = label};

        assert_int_equal(erig_do(r, &q, &A), ENGINE_OWNER);
        return A.owner;
}

static struct engine_request ask(enum engine_user_order order, uint32_t limit) {
        return (struct engine_request){
                .verb = ENGINE_USERS, .admin = true, .user_order = order, .limit = limit};
}

static void test_rows(void **state) {
        /* As the daemon gives them: in no order, one of them without a conversation. */
        const struct engine_known known[] = {{.owner = 3000, .n_connections = 9},
                {.owner = 1000, .n_connections = 1, .requests_total = 5, .decoded = 7}};
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q = ask(ENGINE_USERS_BY_UNSET, 0);
        uint64_t anna;
        struct erig r;

        erig_open(&r, &o);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_USERS_RESULT);
        assert_int_equal(A.n_users, 0);
        assert_false(A.more);
        anna = tenant(&r, 1000, "anna");
        say_as(&r, 1000, "one", 4);
        say_as(&r, 1000, "two", 4);
        say_as(&r, 2000, "three", 40);
        say_as(&r, anna, "four", 4);
        q.known = known;
        q.n_known = 2;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_USERS_RESULT);
        assert_int_equal(A.n_users, 4);
        assert_int_equal(A.users[0].owner, 1000);
        assert_int_equal(A.users[0].n_convs, 2);
        assert_true(A.users[0].n_tokens > 8 && A.users[0].ram_size > 0);
        assert_true(A.users[0].used_usec > 0);
        assert_int_equal(A.users[0].known.n_connections, 1);
        assert_int_equal(A.users[0].known.decoded, 7);
        assert_string_equal(A.users[0].tenant, "");
        assert_int_equal(A.users[1].owner, 2000);
        assert_int_equal(A.users[1].known.n_connections, 0);
        assert_int_equal(A.users[2].owner, 3000);
        assert_int_equal(A.users[2].n_convs, 0);
        assert_int_equal(A.users[2].used_usec, 0);
        assert_int_equal(A.users[2].known.n_connections, 9);
        assert_int_equal(A.users[3].owner, anna);
        assert_string_equal(A.users[3].tenant, "anna");
        /* One user, with tenants. */
        q.one_user = true;
        q.uid = 1000;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_USERS_RESULT);
        assert_int_equal(A.n_users, 2);
        assert_int_equal(A.users[1].owner, anna);
        erig_close(&r);
}

/* Each order, page by page: the rows of all pages are those of one answer, none twice. */
static void test_pages(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_user all[8];
        struct erig r;

        erig_open(&r, &o);
        say_as(&r, 11, "one", 30);
        say_as(&r, 12, "two", 4);
        say_as(&r, 12, "three", 4);
        say_as(&r, 13, "one", 4);
        say_as(&r, 14, "one", 4); /* as much as 13 */
        for (int order = ENGINE_USERS_BY_OWNER; order <= ENGINE_USERS_BY_USED; order++) {
                struct engine_request q = ask((enum engine_user_order)order, 0);
                size_t n = 0;

                assert_int_equal(erig_do(&r, &q, &A), ENGINE_USERS_RESULT);
                assert_int_equal(A.n_users, 4);
                memcpy(all, A.users, sizeof(all));
                q.limit = 1;
                do {
                        assert_int_equal(erig_do(&r, &q, &A), ENGINE_USERS_RESULT);
                        assert_int_equal(A.n_users, 1);
                        assert_int_equal(A.users[0].owner, all[n].owner);
                        n++;
                        q.after_user = true;
                        q.after_value = A.after_value;
                        q.after_owner = A.users[0].owner;
                } while (A.more && n < 4);
                assert_int_equal(n, 4);
                assert_false(A.more);
                if (order == ENGINE_USERS_BY_TOKENS) {
                        assert_int_equal(all[0].owner, 11);
                        assert_int_equal(all[1].owner, 12);
                        assert_int_equal(all[2].owner, 13);
                }
                if (order == ENGINE_USERS_BY_CONVERSATIONS)
                        assert_int_equal(all[0].owner, 12);
                if (order == ENGINE_USERS_BY_USED)
                        assert_int_equal(all[0].owner, 14);
        }
        erig_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rows),
                cmocka_unit_test(test_pages),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
