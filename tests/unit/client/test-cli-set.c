/* SPDX-License-Identifier: MIT */
/* rename, set and system: what they ask the daemon for, and what they print. */
#include "list-fixture.h"

/* ---- rename ---- */

static void test_rename(void **state) {
        static const struct conv renamed = {.id = 3, .name = "new"};
        struct proto_message *m;
        struct fixture f;

        BEGIN(&f, "rename", "old", "new");
        m = peer_next(&f.peer);
        assert_int_equal(m->request->verb_case, REQ(UPDATE));
        assert_string_equal(m->request->update->conversation->name, "old");
        assert_string_equal(m->request->update->name, "new");
        assert_null(m->request->update->sampling);
        send_conv(&f, m->request->id, &renamed);
        proto_message_free(m);
        finish(&f, 0, "new\n", NULL);
        START(&f, "rename", "old", "taken");
        greet(&f);
        peer_send_error(&f.peer, expect(&f, REQ(UPDATE)), "exists", "the name is taken", false);
        finish(&f, 4, "", "the name is taken");
        USAGE(&f, "the new name is empty", "rename", "old", "");
        USAGE(&f, "more arguments", "rename", "old");
        teardown(&f);
}

/* ---- set ---- */

static Confab__V1__Sampling had_sampling = CONFAB__V1__SAMPLING__INIT;
static Confab__V1__LogitBias had_bias = CONFAB__V1__LOGIT_BIAS__INIT, *had_biases[] = {&had_bias};
static struct conv had = {.id = 7,
        .name = "a",
        .title = "Rome",
        .tags = {"one", "two"},
        .expires = 1209600,
        .sampling = &had_sampling};

static void fill_had(void) {
        had_sampling.has_temperature = had_sampling.has_top_k = had_sampling.has_top_p = true;
        had_sampling.has_min_p = had_sampling.has_repetition_penalty = true;
        had_sampling.has_presence_penalty = had_sampling.has_frequency_penalty = true;
        had_sampling.has_penalty_last_n = had_sampling.has_seed = true;
        had_sampling.temperature = 0.3f;
        had_sampling.top_k = 5;
        had_sampling.top_p = 0.5f;
        had_sampling.min_p = 0.25f;
        had_sampling.repetition_penalty = 1.5f;
        had_sampling.presence_penalty = -1;
        had_sampling.frequency_penalty = 2;
        had_sampling.penalty_last_n = 9;
        had_sampling.seed = UINT64_MAX;
        had_sampling.logit_bias = had_biases;
        had_sampling.n_logit_bias = 1;
        had_bias.has_token = had_bias.has_bias = true;
        had_bias.token = 42;
        had_bias.bias = -1.5f;
}

static void test_shown(void **state) {
        static const struct conv none = {.id = 7, .name = "a"},
                                 at = {.id = 7, .name = "a", .title = "@home", .tags = {"@x"}};
        struct fixture f;

        BEGIN(&f, "set", "a");
        send_conv(&f, expect(&f, REQ(GET)), &had);
        finish(&f, 0,
                "title=Rome\ntag=one\ntag=two\nexpires=2w\ntemperature=0.3\ntop-p=0.5\nmin-p=0.25\n"
                "repetition-penalty=1.5\npresence-penalty=-1\nfrequency-penalty=2\ntop-k=5\n"
                "penalty-last-n=9\nseed=18446744073709551615\nlogit-bias=42=-1.5\n",
                NULL);
        START(&f, "set", "a");
        greet(&f);
        send_conv(&f, expect(&f, REQ(GET)), &none);
        finish(&f, 0, "", NULL);
        START(&f, "set", "a"); /* given back, it names no file */
        greet(&f);
        send_conv(&f, expect(&f, REQ(GET)), &at);
        finish(&f, 0, "title=@@home\ntag=@x\n", NULL);
        teardown(&f);
}

/* Run set with @args; it reads what there is if @reads. The Update, to be freed. */
static struct proto_message *set(const char *const *args, bool reads) {
        struct proto_message *m;
        struct fixture f;

        setup(&f);
        start(&f, args);
        greet(&f);
        if (reads)
                send_conv(&f, expect(&f, REQ(GET)), &had);
        m = peer_next(&f.peer);
        assert_int_equal(m->request->verb_case, REQ(UPDATE));
        send_conv(&f, m->request->id, &had);
        finish(&f, 0, "", NULL);
        teardown(&f);
        return m;
}
#define SET(reads, ...) set((const char *const[]){"set", "a", __VA_ARGS__, NULL}, reads)

static void test_values(void **state) {
        struct proto_message *m = SET(false, "title=A trip", "top_k=3", "min-p=0.5", "expires=12h",
                "--metadata", "{}", "overflow=shift", "logit-bias=4=-inf", "session=s=1");
        const Confab__V1__Update *u = m->request->update;

        assert_string_equal(u->conversation->name, "a");
        assert_string_equal(u->about->title, "A trip");
        assert_string_equal(u->about->metadata, "{}");
        assert_string_equal(u->about->session, "s=1");
        assert_null(u->about->tags);
        assert_int_equal(u->about->expires_after, 43200);
        assert_int_equal(u->overflow, CONFAB__V1__OVERFLOW__OVERFLOW_SHIFT);
        assert_int_equal(u->sampling->top_k, 3);
        assert_true(u->sampling->min_p == 0.5f && !u->sampling->has_temperature);
        assert_int_equal(u->sampling->logit_bias[0]->token, 4);
        assert_true(u->sampling->logit_bias[0]->bias < -1e30f);
        assert_false(u->reset_sampling);
        proto_message_free(m);
        m = SET(false, "title=@@home");
        assert_string_equal(m->request->update->about->title, "@home");
        proto_message_free(m);
}

/* What is set in one word takes nothing else away. */
static void test_taken_back(void **state) {
        struct proto_message *m =
                SET(true, "temperature=", "top-k=3", "title=", "expires=", "overflow=");
        const Confab__V1__Update *u = m->request->update;

        assert_int_equal(u->conversation->id, 7);
        assert_string_equal(u->about->title, "");
        assert_null(u->about->metadata);
        assert_true(u->about->has_expires_after && u->about->expires_after == 0);
        assert_int_equal(u->overflow, CONFAB__V1__OVERFLOW__OVERFLOW_ERROR);
        assert_true(u->reset_sampling && !u->sampling->has_temperature);
        assert_int_equal(u->sampling->top_k, 3);
        assert_true(u->sampling->top_p == 0.5f && u->sampling->min_p == 0.25f);
        assert_true(u->sampling->repetition_penalty == 1.5f);
        assert_true(u->sampling->presence_penalty == -1 && u->sampling->frequency_penalty == 2);
        assert_true(u->sampling->penalty_last_n == 9 && u->sampling->seed == UINT64_MAX);
        assert_int_equal(u->sampling->n_logit_bias, 1);
        assert_int_equal(u->sampling->logit_bias[0]->token, 42);
        proto_message_free(m);
        m = SET(true, "logit-bias=", "seed=");
        u = m->request->update;
        assert_true(u->reset_sampling && u->sampling->has_temperature && !u->sampling->has_seed);
        assert_int_equal(u->sampling->n_logit_bias, 0);
        proto_message_free(m);
        m = SET(true, "--reset-sampling", "top-p=1"); /* all others are the daemon's */
        u = m->request->update;
        assert_true(u->reset_sampling && u->sampling->has_top_p && !u->sampling->has_top_k);
        proto_message_free(m);
}

static void check_tags(struct proto_message *m, const char *want) {
        const Confab__V1__Tags *tags = m->request->update->about->tags;
        char got[64] = "";

        assert_non_null(tags);
        for (size_t i = 0; i < tags->n_tags; i++)
                snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s ", tags->tags[i]);
        assert_string_equal(got, want);
        proto_message_free(m);
}

static void test_tags(void **state) {
        check_tags(SET(true, "+three"), "one two three ");
        check_tags(SET(true, "+one", "--tag", "x,y"), "one two x,y ");
        check_tags(SET(true, "--", "-one"), "two ");
        check_tags(SET(true, "--untag", "two", "tag=three"), "one three ");
        check_tags(SET(true, "tags=a,b", "+c"), "a b c ");
        check_tags(SET(true, "tags="), "");
        check_tags(SET(true, "--untag", "nix"), "one two ");
}

static void test_set_wrong(void **state) {
        struct fixture f;

        setup(&f);
        USAGE(&f, "'x' is not KEY=VALUE, and no tag: +x", "set", "a", "x");
        USAGE(&f, "there is no key 'colour'\n", "set", "a", "colour=red");
        USAGE(&f, "there is no key 'temperatur'; did you mean 'temperature'?\n", "set", "a",
                "temperatur=1");
        USAGE(&f, "there is no key 'tilte'; did you mean 'title'?\n", "set", "a", "tilte=x");
        USAGE(&f, "there is no key 'reset-sampling'", "set", "a", "reset-sampling=1");
        USAGE(&f, "there is no key 'top'", "set", "a", "top=1");
        USAGE(&f, "--top-p: '2' is not a number from 0 to 1", "set", "a", "top-p=2");
        USAGE(&f, "--expires: '0s' is no age", "set", "a", "expires=0s");
        USAGE(&f, "--expires: 'never' is no age", "set", "a", "expires=never");
        USAGE(&f, "takes error or shift", "set", "a", "overflow=drop");
        teardown(&f);
}

/* ---- system ---- */

struct said {
        Confab__V1__Role role;
        const char *text;
};

/* A page of a conversation of @n_turns, at revision 5, from turn @first on. */
static void send_page(struct fixture *f, uint64_t id, uint32_t n_turns, uint32_t first,
        const struct said *said, size_t n) {
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
        Confab__V1__Conversation c = CONFAB__V1__CONVERSATION__INIT;
        Confab__V1__Turn turns[4], *pointers[4];

        for (size_t i = 0; i < n; i++) {
                confab__v1__turn__init(&turns[i]);
                turns[i].has_role = turns[i].has_text = true;
                turns[i].role = said[i].role;
                turns[i].text.data = proto_borrow((const uint8_t *)said[i].text);
                turns[i].text.len = strlen(said[i].text);
                pointers[i] = &turns[i];
        }
        c.has_id = c.has_revision = c.has_n_turns = c.has_first_turn = true;
        c.id = 7;
        c.revision = 5;
        c.n_turns = n_turns;
        c.first_turn = first;
        c.turn_list = pointers;
        c.n_turn_list = n;
        event.has_request = true;
        event.request = id;
        event.kind_case = CONFAB__V1__EVENT__KIND_CONVERSATION;
        event.conversation = &c;
        peer_send(&f->peer, &event);
}

#define SYSTEM CONFAB__V1__ROLE__ROLE_SYSTEM
#define USER CONFAB__V1__ROLE__ROLE_USER
static const struct said kind = {SYSTEM, "You are kind."}, hello = {USER, "Hello."};

static void test_system_shown(void **state) {
        struct proto_message *m;
        struct fixture f;

        BEGIN(&f, "system", "a");
        send_page(&f, expect(&f, REQ(GET)), 1, 0, &kind, 1);
        finish(&f, 0, "You are kind.\n", NULL);
        for (int json = 0; json < 2; json++) { /* one more, later */
                START(&f, "system", "a", json ? "--json" : "--");
                greet(&f);
                send_page(&f, expect(&f, REQ(GET)), 3, 0, (const struct said[]){kind, hello}, 2);
                m = peer_next(&f.peer);
                assert_int_equal(m->request->get->from_turn, 2);
                assert_int_equal(m->request->get->conversation->id, 7);
                send_page(&f, m->request->id, 3, 2, &kind, 1);
                proto_message_free(m);
                finish(&f, 0,
                        json ? "{\"system\":[{\"turn\":0,\"text\":\"You are kind.\"},"
                               "{\"turn\":2,\"text\":\"You are kind.\"}]}\n"
                             : "You are kind.\n\nYou are kind.\n",
                        NULL);
        }
        START(&f, "system", "a");
        greet(&f);
        send_page(&f, expect(&f, REQ(GET)), 1, 0, &hello, 1);
        finish(&f, 0, "", "it has no system message");
        teardown(&f);
}

/* Give one to a conversation that has @said; the Continue, to be freed. */
static struct proto_message *give(struct fixture *f, const struct said *said, uint32_t n) {
        struct proto_message *m;

        setup(f);
        START(f, "system", "a", "Be brief.");
        greet(f);
        send_page(f, expect(f, REQ(GET)), n, 0, said, n);
        m = peer_next(&f->peer);
        assert_int_equal(m->request->verb_case, REQ(CONTINUE));
        assert_int_equal(m->request->continue_->conversation->id, 7);
        assert_string_equal(m->request->continue_->message, "Be brief.");
        assert_int_equal(m->request->continue_->role, SYSTEM);
        assert_true(m->request->continue_->has_max_tokens);
        assert_int_equal(m->request->continue_->max_tokens, 0);
        assert_int_equal(m->request->continue_->expect_revision, 5);
        return m;
}

static void test_system_given(void **state) {
        struct proto_message *m;
        struct fixture f;

        /* where there is nothing yet */
        m = give(&f, NULL, 0);
        assert_int_equal(m->request->continue_->from_case, CONFAB__V1__CONTINUE__FROM__NOT_SET);
        peer_send_done(&f.peer, m->request->id, CONFAB__V1__FINISH_REASON__FINISH_LENGTH);
        finish(&f, 0, "", NULL);
        proto_message_free(m);
        teardown(&f);
        /* in place of one that nothing follows */
        m = give(&f, &kind, 1);
        assert_int_equal(m->request->continue_->from_case, CONFAB__V1__CONTINUE__FROM_AT_TURN);
        assert_int_equal(m->request->continue_->at_turn, 0);
        peer_send_done(&f.peer, m->request->id, CONFAB__V1__FINISH_REASON__FINISH_LENGTH);
        finish(&f, 0, "", NULL);
        proto_message_free(m);
        teardown(&f);
        /* behind others, which the model's format does not have */
        m = give(&f, (const struct said[]){kind, hello}, 2);
        assert_int_equal(m->request->continue_->from_case, CONFAB__V1__CONTINUE__FROM__NOT_SET);
        peer_send_error(&f.peer, m->request->id, "state", "it must be the first", false);
        finish(&f, 1, "",
                "it must be the first\nconfab: history is not written anew: 'confab fork");
        proto_message_free(m);
        teardown(&f);
        setup(&f);
        USAGE(&f, "the text is empty", "system", "a", "");
        teardown(&f);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rename),
                cmocka_unit_test(test_shown),
                cmocka_unit_test(test_values),
                cmocka_unit_test(test_taken_back),
                cmocka_unit_test(test_tags),
                cmocka_unit_test(test_set_wrong),
                cmocka_unit_test(test_system_shown),
                cmocka_unit_test(test_system_given),
        };

        if (argc != 2) {
                fprintf(stderr, "usage: test-cli-set PROGRAM\n");
                return 2;
        }
        program = argv[1];
        test_now = clock_realtime_usec();
        fill_had();
        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
