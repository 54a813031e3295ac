/* SPDX-License-Identifier: MIT */
/*
 * Replies that are read by other connections than the one that asked: after a lost connection, beside it,
 * later; what was accepted stays, whatever becomes of the reply. By the wire, with the real daemon.
 */
#include "base/util.h"
#include "fixture.h"

enum { N_REPLY = 60 };

static void read_all(struct client *c, uint64_t request, struct reply *r) {
        int more;

        while ((more = client_say_next(c, request, r)) > 0)
                ;
        if (more < 0)
                fail_msg("%s", c->error.message);
}

/* The reply of an undisturbed daemon: of whole conversations @text is the first message. */
static void straight(struct client *c, const char *text, struct reply *r) {
        uint64_t id;

        assert_int_equal(client_open(c, NULL, NULL, &id), 0);
        assert_int_equal(
                client_say(c, &(struct say){.conv = id, .message = text, .max_tokens = N_REPLY}, r),
                0);
        assert_int_equal(client_close(c, id), 0);
}

static void same_text(const struct reply *a, const struct reply *b) {
        assert_int_equal(a->n, b->n);
        assert_memory_equal(a->tokens, b->tokens, a->n * sizeof(*a->tokens));
        assert_string_equal((char *)a->text.data, (char *)b->text.data);
        assert_int_equal(a->finish, b->finish);
}

/* The connection is lost after some deltas; another one hears the rest, and a third one all of it. */
static void test_lost_connection(void **state) {
        struct harness *h = *state;
        struct reply all, part = {}, rest, whole;
        struct client *c, *other;
        uint64_t id, request;

        harness_start(h, NULL);
        other = harness_client(h);
        straight(other, "Tell me a story.", &all);
        for (size_t n = 1; n < 40; n += 13) {
                struct say s = {
                        .message = "Tell me a story.", .max_tokens = N_REPLY, .detach = true};

                c = harness_client(h);
                assert_int_equal(client_open(c, NULL, NULL, &id), 0);
                s.conv = id;
                request = client_say_begin(c, &s);
                while (part.n < n)
                        assert_int_equal(client_say_next(c, request, &part), 1);
                client_free(c);
                rest = whole = (struct reply){};
                request = client_attach_begin(other, id, part.position);
                read_all(other, request, &rest);
                assert_true(rest.accepted);
                assert_int_equal(part.n + rest.n, all.n);
                assert_memory_equal(part.tokens, all.tokens, part.n * sizeof(*all.tokens));
                assert_memory_equal(rest.tokens, all.tokens + part.n, rest.n * sizeof(*all.tokens));
                assert_int_equal(
                        buf_append(&part.text, rest.text.data, strlen((char *)rest.text.data) + 1),
                        0);
                assert_string_equal((char *)part.text.data, (char *)all.text.data);
                assert_int_equal(rest.revision, part.acc.revision + 1);
                /* It is done by now. */
                request = client_attach_begin(other, id, 0);
                read_all(other, request, &whole);
                same_text(&whole, &all);
                reply_deinit(&part);
                reply_deinit(&rest);
                reply_deinit(&whole);
                part = (struct reply){};
        }
        reply_deinit(&all);
        client_free(other);
        harness_stop(h);
}

/*
 * Says @s on a new conversation @c, kills the daemon after @n tokens were read, and starts it again with a
 * new @c. Whether the reply was unfinished by then: on a busy machine the daemon may be done before this
 * process runs again, and then all of the reply must be there.
 */
static bool kill_during(
        struct harness *h, struct client **c, struct say *s, size_t n, const struct reply *all) {
        struct reply part = {};
        struct conv v;
        uint64_t request;
        bool unfinished;

        assert_int_equal(client_open(*c, NULL, NULL, &s->conv), 0);
        request = client_say_begin(*c, s);
        while (!part.accepted || part.n < n)
                assert_int_equal(client_say_next(*c, request, &part), 1);
        harness_kill(h);
        client_free(*c);
        harness_start(h, NULL);
        *c = harness_client(h);
        assert_int_equal(client_get(*c, s->conv, true, false, &v), 0);
        assert_string_equal(v.texts[0], s->message);
        unfinished = v.n_turns == 1;
        if (unfinished) {
                assert_int_equal(v.revision, part.acc.revision);
        } else {
                assert_int_equal(v.n_turns, 2);
                assert_string_equal(v.texts[1], (char *)all->text.data);
                assert_int_equal(v.revision, part.acc.revision + 1);
        }
        conv_deinit(&v);
        reply_deinit(&part);
        return unfinished;
}

/* Killed before the reply is done: the message is there, and gets the reply that it would have had. */
static void test_killed(void **state) {
        struct harness *h = *state;
        struct say s = {.message = "Tell me a story.", .max_tokens = N_REPLY};
        struct reply all, again;
        struct client *c;
        uint64_t request;

        harness_start(h, NULL);
        c = harness_client(h);
        straight(c, "Tell me a story.", &all);
        for (size_t n = 0; n < 20; n += 9) {
                int tries = 100;

                while (!kill_during(h, &c, &s, n, &all))
                        assert_true(--tries > 0);
                again = (struct reply){};
                request = client_attach_begin(c, s.conv, 0);
                assert_int_equal(client_say_next(c, request, &again), -1);
                assert_string_equal(c->error.code, "state");
                assert_int_equal(
                        client_say(c, &(struct say){.conv = s.conv, .max_tokens = N_REPLY}, &again),
                        0);
                same_text(&again, &all);
                reply_deinit(&again);
        }
        reply_deinit(&all);
        client_free(c);
        harness_stop(h);
}

/* Nobody else's replies. */
static int attach_as(const char *socket, uint64_t id) {
        struct client *c = client_connect(socket);
        struct reply r = {};
        int ok = client_say_next(c, client_attach_begin(c, id, 0), &r) == -1 &&
                 strcmp(c->error.code, "not_found") == 0;

        client_free(c);
        return ok ? 0 : 1;
}

static void test_others(void **state) {
        struct harness *h = *state;
        struct client *c;
        struct reply r = {};
        uint64_t id;

        if (geteuid() != 0) {
                print_message("SKIP: needs root to be two users\n");
                skip();
        }
        harness_start(h, FLAGS("--socket-mode=0666"));
        c = harness_client(h);
        assert_int_equal(client_open(c, NULL, NULL, &id), 0);
        assert_int_equal(
                client_say(c, &(struct say){.conv = id, .message = "Hello.", .max_tokens = 4}, &r),
                0);
        assert_int_equal(run_as(OTHER_UID, OTHER_UID, attach_as, h->socket, id), 0);
        reply_deinit(&r);
        client_free(c);
        harness_stop(h);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test(test_lost_connection),
                daemon_test(test_killed),
                daemon_test(test_others),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
