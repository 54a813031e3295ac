/* SPDX-License-Identifier: MIT */
/* Taking back: to turns, to positions, to say something else or to get another reply. The results
 * are those of a conversation that never had the removed part, bit for bit. */
#include "base/util.h"
#include "fixture.h"

enum { N_REPLY = 20 };

static void say_text(
        struct client *c, uint64_t id, const char *text, uint64_t seed, struct reply *r) {
        struct say s = {.conv = id, .message = text, .max_tokens = N_REPLY, .logprobs = 2};

        if (seed) {
                s.seed = seed;
                s.temperature = 1;
        }
        if (client_say(c, &s, r) != 0)
                fail_msg("%s", c->error.message);
}

static uint64_t open_talk(struct client *c, const char *name, const char *const *texts) {
        struct reply r;
        uint64_t id;

        assert_int_equal(client_open(c, name, "You are brief.", &id), 0);
        for (; *texts; texts++) {
                say_text(c, id, *texts, 0, &r);
                reply_deinit(&r);
        }
        return id;
}

static void test_regenerate(void **state) {
        struct harness *h = *state;
        struct reply first, second, other;
        struct client *c;
        struct conv v, fork;
        uint64_t id;

        harness_start(h, NULL);
        c = harness_client(h);
        id = open_talk(c, "a", (const char *const[]){"Hello.", NULL});
        say_text(c, id, "I have a dog.", 5, &first);
        assert_int_equal(client_fork(c, id, "kept", -1, &fork), 0);
        assert_int_equal(client_get(c, id, true, false, &v), 0);
        assert_int_equal(v.n_turns, 5);
        for (int round = 0; round < 2; round++) {
                struct say s = {.conv = id,
                        .max_tokens = N_REPLY,
                        .logprobs = 2,
                        .temperature = 1,
                        .seed = round ? 6 : 5,
                        .from_turn = true,
                        .at = 4,
                        .expect_revision = v.revision + 7};

                assert_int_equal(client_say(c, &s, &other), -1);
                assert_string_equal(c->error.code, "conflict");
                reply_deinit(&other);
                s.expect_revision = 0;
                assert_int_equal(client_say(c, &s, round ? &other : &second), 0);
        }
        /* The same seed, the same reply; another one, most likely another. */
        assert_true(reply_equal(&first, &second));
        assert_false(reply_equal(&first, &other));
        conv_deinit(&v);
        /* The fork has what was taken back. */
        assert_int_equal(client_get(c, fork.id, true, false, &v), 0);
        assert_int_equal(v.n_turns, 5);
        assert_string_equal(v.texts[4], (char *)first.text.data);
        conv_deinit(&v);
        conv_deinit(&fork);
        reply_deinit(&first);
        reply_deinit(&second);
        reply_deinit(&other);
        client_free(c);
        harness_stop(h);
}

static void test_edit(void **state) {
        struct harness *h = *state;
        struct reply edited, straight;
        struct client *c;
        struct conv v;
        uint64_t id, id2;

        harness_start(h, NULL);
        c = harness_client(h);
        id = open_talk(c, "edited",
                (const char *const[]){
                        "Hello.", "My cat is called Tom.", "What is it called?", NULL});
        assert_int_equal(client_say(c,
                                 &(struct say){.conv = id,
                                         .message = "My dog is called Rex.",
                                         .max_tokens = N_REPLY,
                                         .logprobs = 2,
                                         .from_turn = true,
                                         .at = 3},
                                 &edited),
                0);
        id2 = open_talk(c, "straight", (const char *const[]){"Hello.", NULL});
        say_text(c, id2, "My dog is called Rex.", 0, &straight);
        assert_true(reply_equal(&edited, &straight));
        assert_int_equal(client_get(c, id, true, false, &v), 0);
        assert_int_equal(v.n_turns, 5);
        assert_string_equal(v.texts[3], "My dog is called Rex.");
        conv_deinit(&v);
        reply_deinit(&edited);
        reply_deinit(&straight);
        client_free(c);
        harness_stop(h);
}

/* Into a reply, at each of its positions: going on gives the rest of it again. */
static void test_positions(void **state) {
        struct harness *h = *state;
        struct client *c;
        struct conv v, whole;
        uint64_t id;
        struct reply first;

        harness_start(h, NULL);
        c = harness_client(h);
        id = open_talk(c, "a", (const char *const[]){"Hello.", NULL});
        say_text(c, id, "Tell me of cats.", 0, &first);
        assert_int_equal(first.n, N_REPLY);
        assert_int_equal(client_get(c, id, true, true, &whole), 0);
        for (uint32_t cut = 1; cut < N_REPLY; cut += 3) {
                uint32_t position = whole.n_tokens - cut;
                struct reply rest;
                struct conv f;
                char name[16];

                snprintf(name, sizeof(name), "f%u", cut);
                if (client_fork_at_position(c, id, name, position, &f) != 0)
                        fail_msg("position %u: %s", position, c->error.message);
                assert_int_equal(f.n_tokens, position);
                assert_int_equal(f.n_turns, whole.n_turns);
                assert_int_equal(
                        client_say(c, &(struct say){.conv = f.id, .max_tokens = cut, .logprobs = 2},
                                &rest),
                        0);
                assert_int_equal(rest.n, cut);
                assert_memory_equal(
                        rest.tokens, first.tokens + N_REPLY - cut, cut * sizeof(int32_t));
                assert_memory_equal(
                        rest.logprobs, first.logprobs + N_REPLY - cut, cut * sizeof(uint32_t));
                conv_deinit(&f);
                assert_int_equal(client_get(c, id, false, true, &v), 0);
                assert_int_equal(v.n_tokens, whole.n_tokens);
                conv_deinit(&v);
                reply_deinit(&rest);
        }
        /* A rewind as well; what is said next ends what is left of the reply. */
        assert_int_equal(client_rewind_to_position(c, id, whole.n_tokens - 5, &v), 0);
        assert_int_equal(v.n_tokens, whole.n_tokens - 5);
        conv_deinit(&v);
        reply_deinit(&first);
        say_text(c, id, "And dogs?", 0, &first);
        /* Not into what a user said, and not beyond the end. */
        assert_int_equal(client_rewind_to_position(c, id, 2, NULL), -1);
        assert_string_equal(c->error.code, "invalid");
        assert_int_equal(client_rewind_to_position(c, id, 1000000, NULL), -1);
        assert_string_equal(c->error.code, "invalid");
        assert_int_equal(client_rewind_to_position(c, id, 0, &v), 0);
        assert_int_equal(v.n_turns, 0);
        conv_deinit(&v);
        conv_deinit(&whole);
        reply_deinit(&first);
        client_free(c);
        harness_stop(h);
}

/* A refused one takes nothing back, also after a kill: what was acknowledged stays (I4). */
static void test_refused(void **state) {
        static char longest[100000];
        static const int32_t unknown[] = {99999999};
        const struct say wrong[] = {
                {.message = longest, .max_tokens = 8},
                {.max_tokens = NO_TOKENS},
                {.message = "x", .max_tokens = 8, .temperature = -1},
                {.message = "x", .max_tokens = 8, .stop = ""},
                {.tokens = unknown, .n_tokens = 1, .max_tokens = 8},
                {.message = "x", .max_tokens = 8, .expect_revision = 99},
        };
        struct harness *h = *state;
        struct client *c;
        struct conv before, after;
        uint64_t id;

        for (size_t i = 0; i + 8 < sizeof(longest); i += 8)
                memcpy(longest + i, "a river ", 8);
        harness_start(h, NULL);
        c = harness_client(h);
        id = open_talk(c, "a", (const char *const[]){"Hello.", "Tell me of cats.", NULL});
        assert_int_equal(client_get(c, id, true, true, &before), 0);
        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
                struct say s = wrong[i];
                struct reply r;

                s.conv = id;
                s.from_turn = true;
                s.at = 1 + i % 4;
                if (client_say(c, &s, &r) == 0)
                        fail_msg("request %zu is not refused", i);
                reply_deinit(&r);
        }
        client_free(c);
        harness_kill(h);
        harness_start(h, NULL);
        c = harness_client(h);
        assert_int_equal(client_get(c, id, true, true, &after), 0);
        assert_int_equal(after.revision, before.revision);
        assert_int_equal(after.n_tokens, before.n_tokens);
        assert_int_equal(after.n_turns, before.n_turns);
        assert_memory_equal(after.tokens, before.tokens, before.n_tokens * sizeof(int32_t));
        for (size_t i = 0; i < before.n_turns; i++)
                assert_string_equal(after.texts[i], before.texts[i]);
        conv_deinit(&before);
        conv_deinit(&after);
        client_free(c);
        harness_stop(h);
}

/* Over the socket: in a small context a conversation that may drop old turns goes on for ever, over
 * evictions, clean restarts and kills, and its last reply is the one of a conversation that says just
 * what is left. */
static void test_shift(void **state) {
        struct harness *h = *state;
        static const char *const flags[] = {"--context=192", NULL};
        unsigned n_shifts = 0;
        struct reply r, fresh;
        struct client *c;
        struct conv v;
        uint64_t id, plain;
        size_t n;

        harness_start(h, flags);
        c = harness_client(h);
        assert_int_equal(client_open(c, "long", "You are brief.", &id), 0);
        assert_int_equal(client_open(c, "plain", "You are brief.", &plain), 0);
        assert_int_equal(client_set_overflow(c, id, 2, &v), 0);
        assert_int_equal(v.overflow, CONFAB__V1__OVERFLOW__OVERFLOW_SHIFT);
        conv_deinit(&v);
        for (unsigned k = 0; k < 12; k++) {
                struct say s = {.conv = id, .message = "Tell me more.", .max_tokens = N_REPLY};

                if (k % 4 == 1) {
                        client_free(c);
                        if (k % 8 == 1)
                                harness_kill(h);
                        else
                                harness_stop(h);
                        harness_start(h, flags);
                        c = harness_client(h);
                }
                if (client_say(c, &s, &r) != 0)
                        fail_msg("%u: %s", k, c->error.message);
                n_shifts += r.acc.n_dropped > 0;
                if (k < 11)
                        reply_deinit(&r);
        }
        assert_true(n_shifts >= 2);
        assert_int_equal(client_get(c, id, true, true, &v), 0);
        assert_int_equal(v.n_turns, 25);
        assert_true(v.dropped_to > v.dropped_from && v.n_tokens > 192);
        n = v.n_token_list - (v.dropped_to - v.dropped_from);
        memmove(v.tokens + v.dropped_from, v.tokens + v.dropped_to,
                (v.n_token_list - v.dropped_to) * sizeof(*v.tokens));
        {
                struct say s = {.name = "fresh",
                        .tokens = v.tokens,
                        .n_tokens = n - r.n,
                        .max_tokens = N_REPLY};

                assert_int_equal(client_open(c, "fresh", NULL, NULL), 0);
                assert_int_equal(client_say(c, &s, &fresh), 0);
        }
        assert_true(reply_equal(&r, &fresh));
        reply_deinit(&r);
        reply_deinit(&fresh);
        conv_deinit(&v);
        /* The other one fails at that place, and stays as it was. */
        for (unsigned k = 0; k < 12; k++) {
                struct say s = {.conv = plain, .message = "Tell me more.", .max_tokens = N_REPLY};
                int status = client_say(c, &s, &r);

                reply_deinit(&r);
                if (status == 0)
                        continue;
                assert_string_equal(c->error.code, "context_length_exceeded");
                assert_non_null(strstr(c->error.message, "192"));
                assert_int_equal(client_get(c, plain, true, false, &v), 0);
                assert_int_equal(v.n_turns, 1 + 2 * k);
                conv_deinit(&v);
                break;
        }
        client_free(c);
        harness_stop(h);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test(test_regenerate),
                daemon_test(test_edit),
                daemon_test(test_positions),
                daemon_test(test_refused),
                daemon_test(test_shift),
        };

        return DAEMON_TESTS_MAIN(tests);
}
