/* SPDX-License-Identifier: MIT */
/*
 * Quotas of users, groups and tenants: what is refused and what its message says, what holds for whom, that changes
 * hold at once and survive a restart, and who may make them. Several users need root.
 */
#include "client/confab.h"
#include "fixture.h"
#include <grp.h>
#include <inttypes.h>

#define USER 54330
#define OTHER 54331
#define GATEWAY 54332
#define GROUP 54340
#define SECOND_GROUP 54341

static void need_root(void) {
        if (geteuid() != 0) {
                print_message("SKIP: needs root to be several users\n");
                skip();
        }
}

/* A connection of @uid in group @gid, acting for @tenant of *@act_uid, if these are given. */
static struct confab *connect_as(
        struct harness *h, uid_t uid, gid_t gid, const uint32_t *act_uid, const char *tenant) {
        struct confab *c = NULL;
        struct confab_error e;

        assert_int_equal(setegid(gid), 0);
        assert_int_equal(seteuid(uid), 0);
        if (confab_connect(&c, h->socket, &e) < 0)
                fail_msg("%s: %s", e.code, e.message);
        assert_int_equal(seteuid(0), 0);
        assert_int_equal(setegid(0), 0);
        if (act_uid || tenant)
                assert_int_equal(
                        confab_act_for(c, act_uid ? *act_uid : CONFAB_OWN_UID, tenant, &e), 0);
        return c;
}

/* The daemon does not wait for ever for the greeting of a connection that is used later. */
static struct confab *greeted(struct confab *c) {
        struct confab_error e;

        while (!confab_get_server(c))
                if (confab_wait(c, -1, &e) < 0)
                        fail_msg("%s: %s", e.code, e.message);
        return c;
}

struct seen {
        uint64_t id;
        uint32_t n_tokens, n_generated, n_computed;
        enum confab_finish finish;
        /* Quotas. */
        struct confab_quota items[300];
        char names[300][32], tenants[300][32], cursor[64];
        size_t n;
        bool more;
};

static void take_quotas(struct seen *seen, const struct confab_quotas *quotas) {
        assert_in_range(quotas->n_items, 0, 300);
        seen->n = quotas->n_items;
        seen->more = quotas->more;
        snprintf(seen->cursor, sizeof(seen->cursor), "%s", quotas->cursor ? quotas->cursor : "");
        for (size_t i = 0; i < seen->n; i++) {
                seen->items[i] = quotas->items[i];
                snprintf(seen->names[i], 32, "%s", quotas->items[i].name);
                snprintf(seen->tenants[i], 32, "%s",
                        quotas->items[i].subject.tenant ? quotas->items[i].subject.tenant : "");
        }
}

static void take(void *userdata, const struct confab_event *event) {
        struct seen *seen = userdata;

        if (event->kind == CONFAB_EVENT_CONVERSATION) {
                seen->id = event->conversation->id;
                seen->n_tokens = event->conversation->n_tokens;
        } else if (event->kind == CONFAB_EVENT_DONE) {
                seen->n_generated = event->done->n_generated;
                seen->n_computed = event->done->n_computed;
                seen->finish = event->done->finish;
        } else if (event->kind == CONFAB_EVENT_QUOTAS) {
                take_quotas(seen, event->quotas);
        }
}

static void call(struct confab *c, const struct confab_request *r, struct seen *seen) {
        struct confab_error e;

        *seen = (struct seen){.id = 0};
        if (confab_call(c, r, take, seen, &e) < 0)
                fail_msg("%s: %s", e.code, e.message);
}

static void refused(struct confab *c, const struct confab_request *r, const char *code,
        const char *const *words) {
        struct confab_error e = {};

        assert_int_equal(confab_call(c, r, NULL, NULL, &e), -1);
        if (strcmp(e.code, code) != 0)
                fail_msg("%s, not %s: %s", e.code, code, e.message);
        for (; words && *words; words++)
                if (!strstr(e.message, *words))
                        fail_msg("no '%s' in: %s", *words, e.message);
        if (strcmp(code, CONFAB_LIMIT) == 0)
                assert_true(e.retry);
}
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static struct confab_request request_of(enum confab_verb verb) {
        struct confab_request r = CONFAB_REQUEST_INIT;

        r.verb = verb;
        return r;
}

static uint64_t open_one(struct confab *c) {
        const struct confab_request r = request_of(CONFAB_OPEN);
        struct seen seen;

        call(c, &r, &seen);
        return seen.id;
}

static struct confab_request on(enum confab_verb verb, uint64_t id) {
        struct confab_request r = request_of(verb);

        r.conversation_id = id;
        return r;
}

static int32_t many[2000];

/* @n tokens of input, others in each conversation, and a reply of @max_tokens. */
static struct confab_request saying(uint64_t id, size_t n, uint32_t max_tokens) {
        struct confab_request r = on(CONFAB_CONTINUE, id);

        for (size_t i = 0; i < sizeof(many) / sizeof(many[0]); i++)
                many[i] = 300 + (int32_t)(i % 7 + id % 7);
        r.input = CONFAB_INPUT_TOKENS;
        r.tokens = many;
        r.n_tokens = n;
        r.has_max_tokens = true;
        r.max_tokens = max_tokens;
        r.ignore_eos = true;
        return r;
}

static struct confab_quota_subject user_of(uint32_t uid) {
        return (struct confab_quota_subject){.has_uid = true, .uid = uid};
}

static void set(struct confab *c, struct confab_quota_subject subject, const char *name,
        enum confab_quota_to to, uint64_t value) {
        const struct confab_quota_change change = {.name = name, .to = to, .value = value};
        struct confab_request r = request_of(CONFAB_QUOTA);
        struct seen seen;

        r.quota_subject = &subject;
        r.quota_changes = &change;
        r.n_quota_changes = 1;
        call(c, &r, &seen);
        assert_int_equal(seen.n, 7);
}

/* One limit of @subject (NULL: of who asks). */
static struct confab_quota look(
        struct confab *c, const struct confab_quota_subject *subject, const char *name) {
        struct confab_request r = request_of(CONFAB_QUOTA);
        struct seen seen;

        r.quota_subject = subject;
        call(c, &r, &seen);
        for (size_t i = 0; i < seen.n; i++)
                if (strcmp(seen.names[i], name) == 0)
                        return seen.items[i];
        fail_msg("no limit %s", name);
        return (struct confab_quota){};
}

static void expect(struct confab *c, const struct confab_quota_subject *subject, const char *name,
        uint64_t value, enum confab_quota_origin origin) {
        struct confab_quota q = look(c, subject, name);

        assert_true(q.is_limited);
        assert_int_equal(q.value, value);
        assert_int_equal(q.origin, origin);
}

static void expect_used(struct confab *c, const char *name, uint64_t used) {
        struct confab_quota q = look(c, NULL, name);

        assert_true(q.has_used);
        assert_int_equal(q.used, used);
}

/* --- what limits do --- */

static void conversations(struct confab *root, struct confab *user) {
        struct confab_request r = request_of(CONFAB_OPEN);
        uint64_t first = open_one(user);

        set(root, user_of(USER), "max-conversations", CONFAB_QUOTA_VALUE, 2);
        open_one(user);
        refused(user, &r, CONFAB_LIMIT,
                WORDS("user 54330 has 2 conversations",
                        "the limit for this user (max-conversations = 2)", "confab close",
                        "confab admin quota"));
        r = on(CONFAB_FORK, first);
        refused(user, &r, CONFAB_LIMIT, WORDS("max-conversations"));
        r = on(CONFAB_CLOSE, first);
        call(user, &r, &(struct seen){});
        open_one(user);
        expect_used(user, "max-conversations", 2);
        expect(user, NULL, "max-conversations", 2, CONFAB_QUOTA_ORIGIN_USER);
        set(root, user_of(USER), "max-conversations", CONFAB_QUOTA_CLEAR, 0);
        expect(user, NULL, "max-conversations", 50, CONFAB_QUOTA_ORIGIN_SETTING);
}

static void tokens(struct confab *root, struct confab *user) {
        uint64_t id = open_one(user);
        struct confab_request r = saying(id, 100, 0);
        struct seen seen;

        call(user, &r, &seen);
        expect_used(user, "max-user-tokens", 100);
        set(root, user_of(USER), "max-user-tokens", CONFAB_QUOTA_VALUE, 140);
        r = saying(id, 41, 0);
        refused(user, &r, CONFAB_LIMIT,
                WORDS("user 54330 has 100 tokens", "wants 41 more", "(max-user-tokens = 140)",
                        "close or rewind"));
        r = saying(id, 40, 1);
        refused(user, &r, CONFAB_LIMIT, WORDS("wants 41 more"));
        expect_used(user, "max-user-tokens", 100);
        /* A reply ends there. */
        r = saying(id, 30, 50);
        call(user, &r, &seen);
        assert_int_equal(seen.n_generated, 10);
        assert_int_equal(seen.finish, CONFAB_FINISH_LENGTH);
        expect_used(user, "max-user-tokens", 140);
        r = on(CONFAB_FORK, id);
        refused(user, &r, CONFAB_LIMIT, WORDS("has 140 tokens", "max-user-tokens"));
        /* What is dropped makes room for what takes its place. */
        r = saying(id, 20, 50);
        r.has_at_position = true;
        r.at_position = 100;
        call(user, &r, &seen);
        assert_int_equal(seen.n_generated, 20);
        expect_used(user, "max-user-tokens", 140);
        r = on(CONFAB_REWIND, id);
        r.has_at_turn = true;
        r.at_turn = 0;
        call(user, &r, &seen);
        expect_used(user, "max-user-tokens", 0);
        set(root, user_of(USER), "max-user-tokens", CONFAB_QUOTA_NONE, 0);
        assert_false(look(user, NULL, "max-user-tokens").is_limited);
        r = saying(id, 200, 0);
        call(user, &r, &seen);
        r = on(CONFAB_CLOSE, id);
        call(user, &r, &seen);
        expect_used(user, "max-user-tokens", 0);
}

/* Two replies at the same time do not have more together than there is. */
static void tokens_together(struct confab *root, struct confab *user) {
        uint64_t ids[2] = {open_one(user), open_one(user)};
        struct seen seen[2] = {};
        struct confab_request r;

        set(root, user_of(USER), "max-user-tokens", CONFAB_QUOTA_VALUE, 100);
        for (int i = 0; i < 2; i++) {
                r = saying(ids[i], 10, 500);
                assert_int_equal(confab_submit(user, &r, take, &seen[i], NULL, NULL), 0);
        }
        while (confab_get_n_pending(user) > 0)
                assert_int_equal(confab_wait(user, 60000, NULL), 0);
        assert_int_equal(seen[0].finish, CONFAB_FINISH_LENGTH);
        assert_int_equal(seen[1].finish, CONFAB_FINISH_LENGTH);
        assert_int_equal(seen[0].n_generated + seen[1].n_generated, 80);
        expect_used(user, "max-user-tokens", 100);
        for (int i = 0; i < 2; i++) {
                r = on(CONFAB_CLOSE, ids[i]);
                call(user, &r, &seen[0]);
        }
        set(root, user_of(USER), "max-user-tokens", CONFAB_QUOTA_CLEAR, 0);
}

static void per_day(struct confab *root, struct confab *user) {
        uint64_t before = look(user, NULL, "max-user-tokens-per-day").used, id = open_one(user);
        struct confab_request r = saying(id, 100, 10);
        struct confab_quota q;
        struct seen seen;

        call(user, &r, &seen);
        assert_int_equal(seen.n_computed, 100);
        expect_used(user, "max-user-tokens-per-day", before + 110);
        /* What is in RAM is not computed again, but for the last reply's last token. */
        r = saying(id, 20, 0);
        call(user, &r, &seen);
        expect_used(user, "max-user-tokens-per-day", before + 131);
        set(root, user_of(USER), "max-user-tokens-per-day", CONFAB_QUOTA_VALUE, before + 141);
        r = saying(id, 5, 50);
        call(user, &r, &seen);
        assert_int_equal(seen.finish, CONFAB_FINISH_LENGTH);
        assert_int_equal(seen.n_generated, 5);
        refused(user, &r, CONFAB_LIMIT,
                WORDS("tokens today", "max-user-tokens-per-day", "starts anew on 20", "UTC"));
        r = on(CONFAB_WARM, id);
        refused(user, &r, CONFAB_LIMIT, WORDS("max-user-tokens-per-day"));
        q = look(user, NULL, "max-user-tokens-per-day");
        assert_int_equal(q.renews_usec % 86400000000, 0);
        assert_true(q.renews_usec > 0);
        /* A prompt may go beyond it; then the reply has one token. */
        set(root, user_of(USER), "max-user-tokens-per-day", CONFAB_QUOTA_VALUE, before + 142);
        r = saying(id, 30, 50);
        call(user, &r, &seen);
        assert_int_equal(seen.n_generated, 1);
        set(root, user_of(USER), "max-user-tokens-per-day", CONFAB_QUOTA_CLEAR, 0);
        r = on(CONFAB_CLOSE, id);
        call(user, &r, &seen);
}

static uint64_t resident(struct confab *c, uint64_t id);
static void take_resident(void *userdata, const struct confab_event *event) {
        if (event->kind == CONFAB_EVENT_CONVERSATION)
                *(uint64_t *)userdata = event->conversation->ram_size;
}
static uint64_t resident(struct confab *c, uint64_t id) {
        struct confab_request r = on(CONFAB_GET, id);
        uint64_t size = UINT64_MAX;

        assert_int_equal(confab_call(c, &r, take_resident, &size, NULL), 0);
        return size;
}

/* Idle memory beyond the share goes; what was used last stays for longest. */
static void ram(struct confab *root, struct confab *user) {
        uint64_t old = open_one(user), new = open_one(user);
        struct confab_request r = saying(old, 1000, 0);
        struct seen seen;

        call(user, &r, &seen);
        r = saying(new, 1000, 0);
        call(user, &r, &seen);
        assert_true(resident(user, old) > 0 && resident(user, new) > 0);
        assert_in_range(look(user, NULL, "ram-share-per-user").used, 2, 100);
        /* Half of what the two have: the older one has to go. A limit acts at once, behind the answer. */
        set(root, user_of(USER), "ram-share-per-user", CONFAB_QUOTA_VALUE,
                look(user, NULL, "ram-share-per-user").used - 1);
        while (resident(user, old) > 0)
                ;
        assert_true(resident(user, new) > 0);
        set(root, user_of(USER), "ram-share-per-user", CONFAB_QUOTA_VALUE, 0);
        while (resident(user, new) > 0)
                ;
        /* It is a cache: all goes on, and nothing is left when a request ends. */
        r = saying(old, 10, 5);
        call(user, &r, &seen);
        assert_int_equal(seen.n_generated, 5);
        while (resident(user, old) > 0)
                ;
        set(root, user_of(USER), "ram-share-per-user", CONFAB_QUOTA_CLEAR, 0);
        r = saying(old, 10, 5);
        call(user, &r, &seen);
        assert_true(resident(user, old) > 0);
        for (int i = 0; i < 2; i++) {
                r = on(CONFAB_CLOSE, i ? old : new);
                call(user, &r, &seen);
        }
}

static void requests(struct confab *root, struct confab *user) {
        struct confab_request r = request_of(CONFAB_LIST);
        struct seen seen;

        set(root, user_of(USER), "max-user-requests", CONFAB_QUOTA_VALUE, 0);
        refused(user, &r, CONFAB_LIMIT,
                WORDS("user 54330 has 0 requests in flight", "max-user-requests", "wait"));
        /* Why is not held back. */
        expect(user, NULL, "max-user-requests", 0, CONFAB_QUOTA_ORIGIN_USER);
        expect_used(user, "max-user-requests", 0);
        set(root, user_of(USER), "max-user-requests", CONFAB_QUOTA_CLEAR, 0);
        call(user, &r, &seen);
}

static void connections(struct harness *h, struct confab *root) {
        struct confab *c;
        const struct confab_request r = request_of(CONFAB_STATS);

        set(root, user_of(USER), "max-user-connections", CONFAB_QUOTA_VALUE, 1);
        c = connect_as(h, USER, USER, NULL, NULL);
        refused(c, &r, CONFAB_LIMIT, WORDS("user 54330 has 1 connection,", "max-user-connections"));
        confab_free(c);
        set(root, user_of(USER), "max-user-connections", CONFAB_QUOTA_CLEAR, 0);
}

/* The register and a restart have what was set, and other users have nothing of it. */
static void test_limits(void **state) {
        struct harness *h = *state;
        struct confab *root, *user, *other;
        char *log;

        need_root();
        harness_start(h, FLAGS("--socket-mode=0666", "--pool-size=64M", "--max-conversations=50"));
        root = greeted(connect_as(h, 0, 0, NULL, NULL));
        user = greeted(connect_as(h, USER, USER, NULL, NULL));
        other = greeted(connect_as(h, OTHER, OTHER, NULL, NULL));
        conversations(root, user);
        tokens(root, user);
        tokens_together(root, user);
        per_day(root, user);
        ram(root, user);
        requests(root, user);
        connections(h, root);
        expect_used(other, "max-user-tokens-per-day", 0);
        expect_used(other, "max-user-connections", 1);
        expect_used(user, "disk-limit-per-user", look(user, NULL, "disk-limit-per-user").used);
        set(root, user_of(USER), "max-conversations", CONFAB_QUOTA_VALUE, 7);
        confab_free(user);
        confab_free(other);
        confab_free(root);
        harness_kill(h);
        log = harness_read_log(h);
        assert_non_null(strstr(log, "administrator uid 0 (pid "));
        assert_non_null(
                strstr(log, "): changing max-conversations of user 54330: no override -> 2\n"));
        assert_non_null(strstr(log, "changing max-conversations of user 54330: 2 -> no override"));
        assert_non_null(strstr(log, "changing max-user-tokens of user 54330: 140 -> none"));
        free(log);
        harness_start(
                h, FLAGS("--socket-mode=0666", "--max-user-tokens=5", "--ram-share-per-user=50"));
        user = connect_as(h, USER, USER, NULL, NULL);
        expect(user, NULL, "max-conversations", 7, CONFAB_QUOTA_ORIGIN_USER);
        expect(user, NULL, "max-user-tokens", 5, CONFAB_QUOTA_ORIGIN_SETTING);
        expect(user, NULL, "ram-share-per-user", 50, CONFAB_QUOTA_ORIGIN_SETTING);
        assert_true(look(user, NULL, "max-user-tokens-per-day").used > 200);
        confab_free(user);
        harness_stop(h);
}

/* --- which one holds --- */

static void test_whose(void **state) {
        const struct confab_quota_subject group = {.has_gid = true, .gid = GROUP},
                                          second = {.has_gid = true, .gid = SECOND_GROUP},
                                          tenants = {.has_uid = true,
                                                  .uid = USER,
                                                  .all_tenants = true},
                                          pat = {.has_uid = true, .uid = USER, .tenant = "pat"},
                                          nobody = user_of(65533);
        const struct confab_quota_subject own = user_of(USER);
        static const char name[] = "max-user-tokens";
        const uint32_t uid = USER, gateway = GATEWAY;
        struct harness *h = *state;
        struct confab *root, *user, *acting, *tenant, *other;
        struct confab_quota q;

        need_root();
        harness_start(
                h, FLAGS("--socket-mode=0666", "--max-user-tokens=1000", "--trusted-users=54332"));
        root = greeted(connect_as(h, 0, 0, NULL, NULL));
        user = greeted(connect_as(h, USER, GROUP, NULL, NULL));
        acting = greeted(connect_as(h, GATEWAY, GATEWAY, &uid, NULL));
        tenant = greeted(connect_as(h, GATEWAY, GATEWAY, &uid, "pat"));
        other = greeted(connect_as(h, GATEWAY, GATEWAY, &gateway, "pat"));
        expect(user, NULL, name, 1000, CONFAB_QUOTA_ORIGIN_SETTING);
        expect(tenant, NULL, name, 1000, CONFAB_QUOTA_ORIGIN_SETTING);
        /* A group's, for those who are in it by what the kernel tells: also where it is less than the setting. */
        set(root, group, name, CONFAB_QUOTA_VALUE, 500);
        set(root, second, name, CONFAB_QUOTA_VALUE, 9000);
        expect(user, NULL, name, 500, CONFAB_QUOTA_ORIGIN_GROUP);
        assert_int_equal(look(user, NULL, name).gid, GROUP);
        expect(acting, NULL, name, 500, CONFAB_QUOTA_ORIGIN_GROUP);
        q = look(root, &group, name);
        assert_int_equal(q.value, 500);
        assert_false(q.has_used);
        assert_true(q.subject.has_gid);
        /* The user's own goes before, and says nothing about tenants. */
        set(root, own, name, CONFAB_QUOTA_VALUE, 70);
        expect(user, NULL, name, 70, CONFAB_QUOTA_ORIGIN_USER);
        expect(acting, NULL, name, 70, CONFAB_QUOTA_ORIGIN_USER);
        q = look(tenant, NULL, name);
        assert_int_not_equal(q.origin, CONFAB_QUOTA_ORIGIN_USER);
        set(root, tenants, name, CONFAB_QUOTA_VALUE, 60);
        expect(tenant, NULL, name, 60, CONFAB_QUOTA_ORIGIN_TENANTS);
        expect(other, NULL, name, 1000, CONFAB_QUOTA_ORIGIN_SETTING);
        set(root, pat, name, CONFAB_QUOTA_NONE, 0);
        q = look(tenant, NULL, name);
        assert_false(q.is_limited);
        assert_int_equal(q.origin, CONFAB_QUOTA_ORIGIN_TENANT);
        set(root, pat, name, CONFAB_QUOTA_CLEAR, 0);
        set(root, tenants, name, CONFAB_QUOTA_CLEAR, 0);
        set(root, own, name, CONFAB_QUOTA_CLEAR, 0);
        expect(user, NULL, name, 500, CONFAB_QUOTA_ORIGIN_GROUP);
        /* One whom the database does not know, whose groups are asked for. */
        expect(root, &nobody, name, 1000, CONFAB_QUOTA_ORIGIN_SETTING);
        assert_int_equal(look(root, &nobody, name).used, 0);
        confab_free(tenant);
        tenant = connect_as(h, GATEWAY, GATEWAY, &(uint32_t){65533}, "new");
        expect(tenant, NULL, name, 1000, CONFAB_QUOTA_ORIGIN_SETTING);
        /* Use of a tenant that an administrator names. */
        open_one(tenant);
        q = look(root,
                &(struct confab_quota_subject){.has_uid = true, .uid = 65533, .tenant = "new"},
                "max-conversations");
        assert_int_equal(q.used, 1);
        q = look(root,
                &(struct confab_quota_subject){.has_uid = true, .uid = 65533, .tenant = "none"},
                "max-conversations");
        assert_int_equal(q.used, 0);
        confab_free(user);
        confab_free(acting);
        confab_free(tenant);
        confab_free(other);
        confab_free(root);
        harness_stop(h);
}

/* --- who may, and what is refused --- */

static void refuse_change(struct confab *c, const struct confab_quota_subject *subject,
        const char *name, uint64_t value, const char *code) {
        const struct confab_quota_change changes[] = {
                {.name = "ram-share-per-user", .value = 1}, {.name = name, .value = value}};
        struct confab_request r = request_of(CONFAB_QUOTA);

        r.quota_subject = subject;
        r.quota_changes = changes;
        r.n_quota_changes = 2;
        refused(c, &r, code, NULL);
}

static void list_all(struct confab *root) {
        struct confab_request r = request_of(CONFAB_QUOTA);
        struct seen *seen = calloc(1, sizeof(*seen));
        char cursor[64];
        size_t n = 0;

        assert_non_null(seen);
        for (uint32_t i = 0; i < 9; i++)
                set(root, user_of(100 + i), "max-user-tokens", CONFAB_QUOTA_VALUE, i);
        set(root, (struct confab_quota_subject){.has_uid = true, .uid = 100, .tenant = "a.b"},
                "max-conversations", CONFAB_QUOTA_VALUE, 4);
        r.all_overrides = true;
        r.limit = 3;
        do {
                call(root, &r, seen);
                assert_in_range(seen->n, 1, 3);
                for (size_t i = 0; i < seen->n; i++, n++) {
                        if (n == 9) {
                                assert_string_equal(seen->tenants[i], "a.b");
                                continue;
                        }
                        assert_int_equal(seen->items[i].subject.uid, 100 + n);
                        assert_int_equal(seen->items[i].value, n);
                        assert_int_equal(seen->items[i].origin, CONFAB_QUOTA_ORIGIN_USER);
                        assert_false(seen->items[i].has_used);
                }
                snprintf(cursor, sizeof(cursor), "%s", seen->cursor);
                r.cursor = cursor;
        } while (seen->more);
        assert_int_equal(n, 10);
        r.cursor = "3.100.0.a.b"; /* behind the last one */
        call(root, &r, seen);
        assert_int_equal(seen->n, 0);
        r.cursor = "nonsense";
        refused(root, &r, CONFAB_INVALID, NULL);
        free(seen);
}

static void test_who(void **state) {
        const struct confab_quota_subject own = user_of(USER), group = {.has_gid = true};
        struct confab_request all = request_of(CONFAB_QUOTA), r = request_of(CONFAB_QUOTA);
        const uint32_t uid = 0;
        struct harness *h = *state;
        struct confab *root, *user, *acting;

        need_root();
        harness_start(h, FLAGS("--socket-mode=0666"));
        root = greeted(connect_as(h, 0, 0, NULL, NULL));
        user = greeted(connect_as(h, USER, USER, NULL, NULL));
        acting = greeted(connect_as(h, 0, 0, &uid, "tenant"));
        all.all_overrides = true;
        r.quota_subject = &own;
        refused(user, &r, CONFAB_PERMISSION, NULL);
        refused(user, &all, CONFAB_PERMISSION, NULL);
        refused(acting, &all, CONFAB_PERMISSION, NULL);
        refuse_change(user, &own, "max-user-tokens", 1, CONFAB_PERMISSION);
        refuse_change(user, NULL, "max-user-tokens", 1, CONFAB_PERMISSION);
        refuse_change(acting, &own, "max-user-tokens", 1, CONFAB_PERMISSION);
        refuse_change(root, NULL, "max-user-tokens", 1, CONFAB_INVALID);
        refuse_change(root, &own, "max-dreams", 1, CONFAB_INVALID);
        refuse_change(root, &own, "ram-share-per-user", 1, CONFAB_INVALID); /* twice */
        refuse_change(root, &own, "max-user-requests", 65537, CONFAB_INVALID);
        refuse_change(root, &own, "max-user-tokens", UINT64_MAX, CONFAB_INVALID);
        r.quota_subject = &(struct confab_quota_subject){.has_gid = true, .tenant = "x"};
        refused(root, &r, CONFAB_INVALID, NULL);
        r.quota_subject =
                &(struct confab_quota_subject){.has_uid = true, .tenant = "x", .all_tenants = true};
        refused(root, &r, CONFAB_INVALID, NULL);
        r.quota_subject = &(struct confab_quota_subject){.has_uid = true, .tenant = "#1"};
        refused(root, &r, CONFAB_INVALID, NULL);
        all.quota_subject = &group;
        refused(root, &all, CONFAB_INVALID, NULL);
        /* None of the changes above was made. */
        assert_false(look(root, &own, "ram-share-per-user").is_limited);
        list_all(root);
        confab_free(user);
        confab_free(acting);
        confab_free(root);
        harness_stop(h);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test(test_limits),
                daemon_test(test_whose),
                daemon_test(test_who),
        };

        return DAEMON_TESTS_MAIN(tests);
}
