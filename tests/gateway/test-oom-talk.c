/* SPDX-License-Identifier: MIT */
/* Each allocation of the gateway fails once, in talks with the real daemon: every talk ends, as an error or whole, and what
 * failed leaves nothing behind that would be in the way. */
#include "fault/loop.h"
#include "talk-rig.h"

/* Allocations of one talk; more would be a surprise. */
#define AT_LEAST 10
#define AT_MOST 400

static size_t count_empty(struct harness *h) {
        struct conv list[RIG_CONVERSATIONS];
        size_t n = rig_list(h, list), n_empty = 0;

        for (size_t i = 0; i < n; i++)
                n_empty += list[i].n_turns == 0;
        return n_empty;
}

static void on_ended(void *userdata, const struct talk_error *error) {
        int *ended = userdata;

        assert_int_equal(*ended, 0);
        *ended = error ? -1 : 1;
        if (!error)
                return;
        assert_true(error->status >= 400);
        assert_true(*error->code && *error->message);
}

/* One talk, in which an allocation fails unless @loop is NULL. 1: done, -1: failed. */
static int talk_once(struct talk_rig *rig, const struct history *history, struct fault_loop *loop) {
        const struct talk_ops ops = {.ended = on_ended};
        struct form *form = rig_form(rig, history);
        struct talk *talk = NULL;
        int ended = 0;
        struct err e;

        if (loop)
                fault_loop_arm(loop);
        if (talk_new(&talk, rig->backends, &rig->settings, &rig->owner, form, &ops, &ended, &e) <
                0) {
                assert_non_null(loop);
                fault_loop_disarm(loop);
                assert_null(talk);
                return -1;
        }
        while (ended == 0)
                assert_int_not_equal(event_base_loop(rig->base, EVLOOP_ONCE), -1);
        talk_free(talk);
        for (int i = 0; i < 3; i++)
                event_base_loop(rig->base, EVLOOP_NONBLOCK);
        if (loop)
                fault_loop_disarm(loop);
        rig_settle(rig);
        return ended;
}

/* @n_choices, each from a conversation that is new, or found. The number of talks that failed. */
static unsigned run(struct harness *h, unsigned n_choices, bool fresh) {
        struct fault_loop loop = {.at_least = AT_LEAST, .at_most = AT_MOST};
        struct history history = {0};
        unsigned n_failed = 0;
        struct talk_rig rig;

        rig_init(&rig, h->socket);
        rig.wants.n = n_choices;
        rig.wants.max_tokens = 2;
        history_say(&history, 'u', "Hello");
        assert_int_equal(talk_once(&rig, &history, NULL), 1);
        while (fault_loop_next(&loop)) {
                char text[32];

                snprintf(text, sizeof(text), "Hello %u %ld", n_choices, loop.n);
                history_cut(&history, fresh ? 0 : 1);
                history_say(&history, 'u', text);
                if (talk_once(&rig, &history, &loop) < 0)
                        n_failed++;
                /* After it all is as before. */
                assert_int_equal(talk_once(&rig, &history, NULL), 1);
        }
        assert_true(n_failed > 10);
        history_deinit(&history);
        rig_deinit(&rig);
        return n_failed;
}

/* Where a connection has no memory it ends, and the conversation that was to be used stays empty. */
static void test_new(void **state) {
        unsigned n_failed;

        harness_start(*state, FLAGS("--max-conversations=100000"));
        n_failed = run(*state, 1, true);
        assert_true(count_empty(*state) < n_failed / 2);
}

static void test_found(void **state) {
        harness_start(*state, FLAGS("--max-conversations=100000"));
        run(*state, 1, false);
}

static void test_choices(void **state) {
        harness_start(*state, FLAGS("--max-conversations=100000"));
        run(*state, 2, true);
}

/* Calls and results for a model without tools, which the gateway does not know yet. */
static void test_plain(void **state) {
        struct fault_loop loop = {.at_least = AT_LEAST, .at_most = AT_MOST};
        struct harness *h = *state;
        struct history history = {0};
        unsigned n_failed = 0;

        harness_start(h, FLAGS("--max-conversations=100000"));
        history_say(&history, 'u', "Do I need a coat?");
        history_say(&history, 'c', "1 weather {\"city\":\"Oslo\"}");
        history_say(&history, 't', "1 It rains.");
        while (fault_loop_next(&loop)) {
                struct talk_rig rig;

                rig_init(&rig, h->socket);
                rig.wants.max_tokens = 2;
                rig.wants.tools = "[{\"type\":\"function\",\"function\":{\"name\":\"weather\"}}]";
                if (talk_once(&rig, &history, &loop) < 0)
                        n_failed++;
                assert_int_equal(talk_once(&rig, &history, NULL), 1);
                rig_deinit(&rig);
        }
        assert_true(n_failed > 10);
        history_deinit(&history);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test(test_new),
                daemon_test(test_found),
                daemon_test(test_choices),
                daemon_test(test_plain),
        };

        return DAEMON_TESTS_MAIN(tests);
}
