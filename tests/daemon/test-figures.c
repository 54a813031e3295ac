/* SPDX-License-Identifier: MIT */
/* Stats: who is told what, of several users (needs root). */
#include "fixture.h"

/* A connection of another uid: the kernel notes who connects. */
static struct client *client_as(struct harness *h, uint32_t uid, gid_t gid) {
        struct client *c;

        assert_int_equal(setegid(gid), 0);
        assert_int_equal(seteuid(uid), 0);
        c = client_connect(h->socket);
        assert_int_equal(seteuid(0), 0);
        assert_int_equal(setegid(0), 0);
        assert_non_null(c);
        return c;
}

/* What Stats answers, to be freed. @uid: whom it names, or NULL. */
static struct proto_message *ask_stats(struct client *c, const uint32_t *uid, const char *tenant) {
        Confab__V1__Request r = CONFAB__V1__REQUEST__INIT;
        Confab__V1__Stats stats = CONFAB__V1__STATS__INIT;
        struct proto_message *m;

        stats.has_with_users = stats.with_users = true;
        stats.has_uid = uid != NULL;
        stats.uid = uid ? *uid : 0;
        stats.tenant = proto_borrow(tenant);
        r.verb_case = CONFAB__V1__REQUEST__VERB_STATS;
        r.stats = &stats;
        assert_true(wire_send(&c->w, &r));
        m = wire_event(&c->w);
        assert_non_null(m);
        return m;
}

static uint64_t count_of(const Confab__V1__StatsResult *stats, const char *name) {
        uint64_t n = 0;

        for (size_t i = 0; i < stats->n_histograms; i++) {
                const Confab__V1__Histogram *h = stats->histograms[i];

                if (strcmp(h->name, name) != 0)
                        continue;
                assert_int_equal(h->n_buckets, h->n_bounds_usec + 1);
                for (size_t k = 0; k < h->n_buckets; k++)
                        n += h->buckets[k];
                assert_int_equal(h->count, n);
                return n;
        }
        fail_msg("no histogram is called %s", name);
        return 0;
}

/* Nothing but the own ones: @n_tokens of replies, in @n replies. */
static void check_own(struct client *c, uint32_t uid, uint64_t n_tokens, uint64_t n) {
        struct proto_message *m = ask_stats(c, NULL, NULL);
        const Confab__V1__StatsResult *stats = m->event->stats;

        assert_int_equal(m->event->kind_case, CONFAB__V1__EVENT__KIND_STATS);
        assert_false(stats->all_users);
        assert_true(stats->uptime_usec > 0 && stats->started_usec < stats->time_usec);
        assert_true(*stats->version);
        assert_int_equal(count_of(stats, "first_token"), n);
        assert_int_equal(count_of(stats, "token"), n_tokens - n);
        assert_int_equal(count_of(stats, "commit"), 2 * n);
        assert_true(stats->since_usec >= stats->started_usec);
        assert_int_equal(stats->own->uid, uid);
        assert_int_equal(stats->own->conversations, n);
        assert_int_equal(stats->own->tokens_decoded, n_tokens);
        assert_int_equal(stats->own->tokens > n_tokens, n > 0);
        assert_int_equal(stats->own->ram_bytes > 0, n > 0);
        assert_int_equal(stats->n_users, 1);
        assert_int_equal(stats->users[0]->uid, uid);
        assert_false(stats->more_users);
        assert_int_equal(stats->n_rates, 3);
        assert_int_equal(stats->n_own_rates, 3);
        assert_int_equal(stats->rates[2]->decoded > 0, n > 0);
        assert_true(stats->rates[2]->decoded == stats->own_rates[2]->decoded);
        proto_message_free(m);
}

static void check_permission(struct client *c, const uint32_t *uid, const char *tenant) {
        struct proto_message *m = ask_stats(c, uid, tenant);

        assert_int_equal(m->event->kind_case, CONFAB__V1__EVENT__KIND_ERROR);
        assert_string_equal(m->event->error->code, uid ? "permission" : "invalid");
        proto_message_free(m);
}

/* Times and rates: a user has the own ones, an administrator those of all, and may look as a user. */
static void check_times(struct client *a, struct client *b, struct client *root, uint64_t n) {
        static const uint32_t uid = OTHER_UID, none = UINT32_MAX;
        const Confab__V1__StatsResult *stats;
        struct proto_message *m;

        check_own(a, OTHER_UID, n, 1);
        check_own(b, OTHER_UID + 1, 0, 0);
        check_permission(b, &uid, NULL);
        check_permission(a, &uid, "anna"); /* for its tenants it has to act */
        check_permission(root, NULL, "anna");
        m = ask_stats(root, &none, NULL);
        assert_string_equal(m->event->error->code, "invalid");
        proto_message_free(m);
        proto_message_free(ask_stats(a, &uid, NULL)); /* itself */
        m = ask_stats(root, NULL, NULL);
        stats = m->event->stats;
        assert_true(stats->all_users);
        assert_int_equal(count_of(stats, "token"), n - 1);
        assert_int_equal(stats->own->uid, 0);
        assert_true(stats->rates[2]->decoded > 0 && stats->own_rates[2]->decoded == 0);
        assert_int_equal(stats->n_users, 3);
        assert_int_equal(stats->users[0]->uid, OTHER_UID); /* who has something in RAM */
        assert_int_equal(stats->users[0]->connections, 1);
        proto_message_free(m);
        m = ask_stats(root, &uid, NULL);
        stats = m->event->stats;
        assert_false(stats->all_users);
        assert_int_equal(count_of(stats, "token"), n - 1);
        assert_int_equal(stats->own->uid, OTHER_UID);
        assert_int_equal(stats->own->tokens_decoded, n);
        for (size_t i = 0; i < stats->n_stats; i++)
                assert_string_not_equal(stats->stats[i]->name, "ledger_used");
        proto_message_free(m);
        /* One whom nobody knows. */
        m = ask_stats(root, &uid, "nobody");
        assert_int_equal(m->event->stats->own->uid, OTHER_UID);
        assert_string_equal(m->event->stats->own->tenant, "nobody");
        assert_int_equal(m->event->stats->own->tokens_decoded, 0);
        assert_int_equal(count_of(m->event->stats, "queue"), 0);
        proto_message_free(m);
}

/* Figures of a user who is no administrator are the user's own. */
static void test_figures_tell_nothing_of_others(void **state) {
        struct harness *h = *state;
        struct client *a, *b, *root;
        struct reply r;
        uint64_t id;

        if (geteuid() != 0) {
                print_message("SKIP: needs root to be several users\n");
                skip();
        }
        harness_start(h, FLAGS("--socket-mode=0666"));
        a = client_as(h, OTHER_UID, OTHER_UID);
        b = client_as(h, OTHER_UID + 1, OTHER_UID);
        root = harness_client(h);
        assert_int_equal(client_open(a, "mine", NULL, &id), 0);
        assert_int_equal(
                client_say(a, &(struct say){.conv = id, .raw = "How long is this?"}, &r), 0);
        assert_int_equal(client_stat(a, "tokens_prefilled"), r.n_computed);
        assert_int_equal(client_stat(a, "tokens_decoded"), r.n_generated);
        assert_int_equal(client_stat(b, "tokens_prefilled"), 0);
        assert_int_equal(client_stat(b, "tokens_decoded"), 0);
        assert_int_equal(client_stat(b, "connections"), 1);
        assert_true(client_stat(b, "block_bytes") > 0);
        assert_int_equal(client_stat(root, "connections"), 3);
        assert_true(client_stat(root, "tokens_prefilled") >= r.n_computed);
        assert_true(client_stat(root, "pool_blocks") > 0);
        check_times(a, b, root, r.n_generated);
        reply_deinit(&r);
        /* They stay when the user comes again. */
        client_free(a);
        a = client_as(h, OTHER_UID, OTHER_UID);
        assert_true(client_stat(a, "tokens_prefilled") > 0);
        client_free(a);
        client_free(b);
        client_free(root);
        harness_stop(h);
}

/* What an engine names for administrators alone is not in the answer for others. */
static void test_figures_are_few(void **state) {
        static const char *const hidden[] = {"ledger_used", "pool_blocks", "steps", "forks",
                "conversations_loaded", "requests_active", "spill_disk_bytes", "budget"};
        struct harness *h = *state;
        struct proto_message *m;
        struct client *c;

        if (geteuid() != 0) {
                print_message("SKIP: needs root to be several users\n");
                skip();
        }
        harness_start(h, FLAGS("--socket-mode=0666"));
        c = client_as(h, OTHER_UID, OTHER_UID);
        m = ask_stats(c, NULL, NULL);
        assert_int_equal(m->event->kind_case, CONFAB__V1__EVENT__KIND_STATS);
        assert_true(m->event->stats->n_stats > 3);
        for (size_t i = 0; i < m->event->stats->n_stats; i++)
                for (size_t k = 0; k < sizeof(hidden) / sizeof(hidden[0]); k++)
                        assert_string_not_equal(m->event->stats->stats[i]->name, hidden[k]);
        proto_message_free(m);
        client_free(c);
        harness_stop(h);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test(test_figures_tell_nothing_of_others),
                daemon_test(test_figures_are_few),
        };

        return DAEMON_TESTS_MAIN(tests);
}
