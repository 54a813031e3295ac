/* SPDX-License-Identifier: MIT */
/* Generation through the real daemon: clients that read slowly, hang up, cancel, or send twice. */
#include "fixture.h"

/* Long enough that it is running when the next thing happens. */
#define LONG 1500

static struct client *start(struct harness *h, uint64_t *ret_id) {
        struct client *c;

        harness_start(h, FLAGS("--context=2048"));
        c = harness_client(h);
        assert_int_equal(client_open(c, "a", NULL, ret_id), 0);
        return c;
}

static void test_say_and_repeat(void **state) {
        struct harness *h = *state;
        struct reply a, b;
        uint64_t id, other;
        struct client *c = start(h, &id);

        assert_int_equal(client_open(c, "b", NULL, &other), 0);
        assert_int_equal(
                client_say(c, &(struct say){.conv = id, .raw = "Once upon", .logprobs = 3}, &a), 0);
        assert_true(a.accepted && a.done);
        assert_int_equal(a.n, 16);
        assert_int_equal(a.n_generated, 16);
        assert_int_equal(a.top.size, 16 * 3 * 8);
        /* The texts of tokens are the reply. */
        assert_true(a.text.size > 20);
        assert_int_equal(a.pieces.size, strlen((char *)a.text.data));
        assert_memory_equal(a.pieces.data, a.text.data, a.pieces.size);
        assert_int_equal(a.finish, CONFAB__V1__FINISH_REASON__FINISH_LENGTH);
        assert_int_equal(a.acc.n_prompt, a.acc.n_ram + a.acc.n_disk + a.acc.n_computed);
        assert_int_equal(
                client_say(c, &(struct say){.name = "b", .raw = "Once upon", .logprobs = 3}, &b),
                0);
        assert_true(reply_equal(&a, &b));
        assert_string_equal((char *)a.text.data, (char *)b.text.data);
        reply_deinit(&a);
        reply_deinit(&b);
        client_free(c);
        harness_stop(h);
}

/* Replies with a constraint, and one that is wrong. */
static void test_constraint(void **state) {
        struct harness *h = *state;
        struct reply a;
        uint64_t id;
        struct client *c = start(h, &id);

        assert_int_equal(client_say(c,
                                 &(struct say){.conv = id,
                                         .message = "Is the sky blue?",
                                         .max_tokens = 100,
                                         .json_schema = "{\"properties\":{\"answer\":{\"enum\":["
                                                        "\"yes\",\"no\"]}},\"required\":["
                                                        "\"answer\"]}"},
                                 &a),
                0);
        assert_int_equal(a.finish, CONFAB__V1__FINISH_REASON__FINISH_STOP);
        assert_true(
                strstr((char *)a.text.data, "\"yes\"") || strstr((char *)a.text.data, "\"no\""));
        assert_int_equal(a.text.data[0], '{');
        reply_deinit(&a);
        assert_int_equal(client_say(c,
                                 &(struct say){.conv = id,
                                         .message = "And the sea?",
                                         .max_tokens = 100,
                                         .gbnf = "root ::= (\"blue\" | \"green\") \"!\"{2}"},
                                 &a),
                0);
        assert_true(strcmp((char *)a.text.data, "blue!!") == 0 ||
                    strcmp((char *)a.text.data, "green!!") == 0);
        reply_deinit(&a);
        assert_true(client_say(c, &(struct say){.conv = id, .message = "x", .gbnf = "root ::= y"},
                            &a) < 0);
        assert_string_equal(c->error.code, "invalid");
        assert_false(c->error.retry);
        assert_non_null(strstr(c->error.message, "1:10: rule y is not defined"));
        reply_deinit(&a);
        assert_true(client_say(c,
                            &(struct say){.conv = id, .message = "x", .json_schema = "{\"not\":1}"},
                            &a) < 0);
        assert_string_equal(c->error.code, "unsupported");
        reply_deinit(&a);
        client_free(c);
        harness_stop(h);
}

static void test_hang_up_cancels(void **state) {
        struct harness *h = *state;
        struct reply r = {};
        uint64_t id, request;
        struct client *c = start(h, &id), *watch = harness_client(h);
        struct conv v = {};

        request = client_say_begin(c, &(struct say){.conv = id, .raw = "Once", .max_tokens = LONG});
        while (r.n == 0)
                assert_int_equal(client_say_next(c, request, &r), 1);
        client_free(c);
        /* A second Continue gets "busy" until the first has ended, then it is taken. */
        reply_deinit(&r);
        while (client_say(watch, &(struct say){.conv = id, .raw = " and", .max_tokens = 4}, &r) <
                0) {
                assert_string_equal(watch->error.code, "busy");
                assert_true(watch->error.retry);
                reply_deinit(&r);
        }
        reply_deinit(&r);
        assert_int_equal(client_get(watch, id, true, false, &v), 0);
        assert_true(v.n_tokens < LONG);
        assert_int_equal(v.n_turn_list, 4);
        assert_int_equal(v.finishes[1], CONFAB__V1__FINISH_REASON__FINISH_CANCELLED);
        conv_deinit(&v);
        client_free(watch);
        harness_stop(h);
}

static void test_detached_goes_on(void **state) {
        struct harness *h = *state;
        struct reply r = {};
        uint64_t id, request;
        struct client *c = start(h, &id);
        struct conv v = {.busy = true};

        request = client_say_begin(
                c, &(struct say){.conv = id, .raw = "Once", .max_tokens = 100, .detach = true});
        while (!r.accepted)
                assert_int_equal(client_say_next(c, request, &r), 1);
        client_free(c);
        reply_deinit(&r);
        c = harness_client(h);
        while (v.busy) {
                conv_deinit(&v);
                assert_int_equal(client_get(c, id, true, false, &v), 0);
        }
        assert_int_equal(v.n_turn_list, 2);
        assert_int_equal(v.finishes[1], CONFAB__V1__FINISH_REASON__FINISH_LENGTH);
        conv_deinit(&v);
        client_free(c);
        harness_stop(h);
}

static void test_cancel(void **state) {
        struct harness *h = *state;
        struct reply r = {};
        uint64_t id, request;
        struct client *c = start(h, &id), *other = harness_client(h);
        int more = 1;

        request = client_say_begin(c, &(struct say){.conv = id, .raw = "Once", .max_tokens = LONG});
        while (r.n == 0)
                assert_int_equal(client_say_next(c, request, &r), 1);
        assert_int_equal(client_cancel(other, 0, id), 0);
        while (more > 0)
                more = client_say_next(c, request, &r);
        assert_int_equal(more, 0);
        assert_int_equal(r.finish, CONFAB__V1__FINISH_REASON__FINISH_CANCELLED);
        assert_true(r.n < LONG);
        assert_int_equal(r.n, r.n_generated);
        reply_deinit(&r);
        client_free(c);
        client_free(other);
        harness_stop(h);
}

static void test_slow_reader_does_not_stall_others(void **state) {
        struct harness *h = *state;
        struct reply r = {}, o;
        uint64_t id, request, other;
        struct client *c, *quick;
        int more = 1;

        harness_start(h, FLAGS("--context=2048", "--output-high=64K", "--output-low=16K"));
        c = harness_client(h);
        quick = harness_client(h);
        assert_int_equal(client_open(c, "slow", NULL, &id), 0);
        assert_int_equal(client_open(quick, "quick", NULL, &other), 0);
        /* Much output per token: 500 alternatives each. Nothing of it is read. */
        request = client_say_begin(
                c, &(struct say){.conv = id, .raw = "Once", .max_tokens = 200, .logprobs = 500});
        for (unsigned i = 0; i < 5; i++) {
                assert_int_equal(
                        client_say(quick, &(struct say){.conv = other, .raw = "x"}, &o), 0);
                reply_deinit(&o);
        }
        assert_true(client_stat(quick, "io_memory_used") < 1 << 20);
        /* All of it is there in the end, in order. */
        while (more > 0)
                more = client_say_next(c, request, &r);
        assert_int_equal(more, 0);
        assert_int_equal(r.n, 200);
        assert_int_equal(r.top.size, 200 * 500 * 8);
        reply_deinit(&r);
        client_free(c);
        client_free(quick);
        harness_stop(h);
}

/* Twelve clients at the same time get what one alone gets. */
static void test_many_at_once(void **state) {
        struct harness *h = *state;
        struct reply alone, r[12] = {};
        uint64_t id, request[12];
        struct client *c = start(h, &id), *many[12];

        assert_int_equal(
                client_say(c, &(struct say){.conv = id, .raw = "Once", .logprobs = 2}, &alone), 0);
        for (size_t i = 0; i < 12; i++) {
                uint64_t conv;

                many[i] = harness_client(h);
                assert_int_equal(client_open(many[i], NULL, NULL, &conv), 0);
                request[i] = client_say_begin(
                        many[i], &(struct say){.conv = conv, .raw = "Once", .logprobs = 2});
        }
        for (size_t i = 0; i < 12; i++) {
                int more = 1;

                while (more > 0)
                        more = client_say_next(many[i], request[i], &r[i]);
                assert_int_equal(more, 0);
                assert_true(reply_equal(&alone, &r[i]));
                reply_deinit(&r[i]);
                client_free(many[i]);
        }
        reply_deinit(&alone);
        client_free(c);
        harness_stop(h);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test(test_say_and_repeat),
                daemon_test(test_constraint),
                daemon_test(test_hang_up_cancels),
                daemon_test(test_detached_goes_on),
                daemon_test(test_cancel),
                daemon_test(test_slow_reader_does_not_stall_others),
                daemon_test(test_many_at_once),
        };

        return DAEMON_TESTS_MAIN(tests);
}
