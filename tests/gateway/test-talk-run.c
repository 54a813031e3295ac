/* SPDX-License-Identifier: MIT */
/* Replies: several at once, cancelled, paused, left, lost; and what a talk does while others are at work. */
#include "talk-rig.h"

/* What makes a reply take its time: it does not end by itself. */
#define LONG "root ::= [a-z]{1600}"

/* A long question, so that computing it again would show. */
static const char question[] =
        "My name is Bela. I live in a green house by the river with my cat Tom, my dog Rex and "
        "seven birds. My sister Anna lives in the next town and has two horses. What is my name?";

static void test_choices(void **state) {
        struct harness *h = *state;
        struct history history = {0};
        struct conv list[RIG_CONVERSATIONS], conv;
        struct talk_rig rig;
        struct said said, again;

        harness_start(h, NULL);
        rig_init(&rig, h->socket);
        rig.wants.n = 3;
        rig.wants.sampling.has |= CONFAB_HAS_SEED;
        rig.wants.sampling.temperature = 2;
        rig.wants.sampling.seed = 5;
        history_say(&history, 'u', question);
        rig_talk(&rig, rig_form(&rig, &history), &said);
        assert_false(said.failed);
        assert_int_equal(said.n_accepted, 3);
        assert_int_equal(said.n_done, 3);
        assert_string_not_equal(said.text[0], said.text[1]);
        assert_string_not_equal(said.text[1], said.text[2]);
        assert_int_equal(rig_list(h, list), 3);
        for (int i = 0; i < 3; i++) {
                assert_int_equal(said.place[i].reply_turn, 1);
                assert_int_equal(said.usage[i].n_prompt, said.usage[0].n_prompt);
                if (i > 0) /* the input was computed once */
                        assert_true(said.n_computed[i] <= 8);
                rig_look(h, said.place[i].conversation, &conv);
                assert_int_equal(conv.n_turns, 2);
                assert_string_equal(conv.texts[1], said.text[i]);
                conv_deinit(&conv);
        }
        /* The same once more, and it goes on with the third. */
        rig_talk(&rig, rig_form(&rig, &history), &again);
        for (int i = 0; i < 3; i++)
                assert_string_equal(again.text[i], said.text[i]);
        rig.wants.n = 1;
        history_say(&history, 'a', said.text[2]);
        history_say(&history, 'u', "Thank you.");
        rig_talk(&rig, rig_form(&rig, &history), &again);
        assert_false(again.failed);
        assert_int_equal(again.place[0].input_turn, 2);
        history_deinit(&history);
        rig_deinit(&rig);
}

/* ---- ending early ---- */

static void cancel_at_delta(struct said *said) {
        if (said->n_deltas == 2)
                talk_cancel(said->talk);
}

static void test_cancel(void **state) {
        struct harness *h = *state;
        struct history history = {0};
        struct talk_rig rig;
        struct said said = {.hook = cancel_at_delta};

        harness_start(h, NULL);
        rig_init(&rig, h->socket);
        rig.wants.max_tokens = 1500;
        rig.wants.gbnf = LONG;
        history_say(&history, 'u', "Hello!");
        rig_begin(&rig, rig_form(&rig, &history), &said);
        rig_wait(&said);
        assert_false(said.failed);
        assert_int_equal(said.n_done, 1);
        assert_int_equal(said.finish[0], CONFAB_FINISH_CANCELLED);
        talk_free(said.talk);
        /* Before anything is accepted it is an error. */
        said.hook = NULL;
        rig_begin(&rig, rig_form(&rig, &history), &said);
        talk_cancel(said.talk);
        rig_wait(&said);
        assert_true(said.failed);
        assert_string_equal(said.code, "cancelled");
        talk_free(said.talk);
        rig_settle(&rig);
        history_deinit(&history);
        rig_deinit(&rig);
}

struct stop {
        unsigned after; /* events */
        bool freed, leave;
};

static void free_at_event(struct said *said) {
        struct stop *stop = said->hook_data;

        if (stop->freed)
                fail_msg("called after talk_free()");
        if (stop->after-- > 0)
                return;
        stop->freed = true;
        if (stop->leave)
                talk_leave(said->talk);
        else
                talk_free(said->talk);
}

/* Freed after each number of turns of the loop, and within each callback: nothing empty is left, nobody is called, and
 * the next talk finds what was kept. */
static void test_free_any_time(void **state) {
        struct harness *h = *state;
        struct history history = {0};
        struct conv list[RIG_CONVERSATIONS];
        struct talk_rig rig;
        struct said said;

        harness_start(h, NULL);
        rig_init(&rig, h->socket);
        rig.wants.n = 2;
        history_say(&history, 'u', question);
        for (unsigned i = 0; i < 12; i++) {
                struct client *c = harness_client(h);
                size_t n;

                said.hook = NULL;
                rig_begin(&rig, rig_form(&rig, &history), &said);
                for (unsigned k = 0; k < i && !said.ended; k++)
                        rig_step(&rig);
                talk_free(said.talk);
                rig_settle(&rig);
                n = rig_list(h, list);
                for (size_t k = 0; k < n; k++) {
                        assert_int_not_equal(list[k].n_turns, 0);
                        while (client_close(c, list[k].id) < 0)
                                assert_string_equal(c->error.code, "busy");
                }
                client_free(c);
        }
        for (unsigned i = 0; i < 8; i++) {
                struct stop stop = {.after = i};

                said.hook = free_at_event;
                said.hook_data = &stop;
                rig_begin(&rig, rig_form(&rig, &history), &said);
                rig_wait_for(&rig, &stop.freed);
                rig_settle(&rig);
        }
        history_deinit(&history);
        rig_deinit(&rig);
}

/* A talk that is left goes on, whether it is detached or not. */
static void test_leave(void **state) {
        struct harness *h = *state;
        struct history history = {0};
        struct talk_rig rig;
        struct said said;

        harness_start(h, NULL);
        rig_init(&rig, h->socket);
        history_say(&history, 'u', "My name is Bela.");
        for (int i = 0; i < 4; i++) {
                struct stop stop = {.after = 0, .leave = true};
                struct conv conv = {.busy = true};

                rig.wants.detach = i & 1;
                said.hook = i < 2 ? free_at_event : NULL;
                said.hook_data = &stop;
                rig_begin(&rig, rig_form(&rig, &history), &said);
                if (i < 2)
                        rig_wait_for(&rig, &stop.freed);
                else
                        talk_leave(said.talk);
                rig_settle(&rig);
                if (i >= 2)
                        continue;
                while (conv.busy) {
                        conv_deinit(&conv);
                        rig_look(h, said.place[0].conversation, &conv);
                }
                assert_int_equal(conv.n_turns, 2);
                assert_int_not_equal(conv.finishes[1], CONFAB_FINISH_CANCELLED);
                conv_deinit(&conv);
        }
        history_deinit(&history);
        rig_deinit(&rig);
}

/* ---- a slow reader ---- */

struct pause {
        bool paused;
        unsigned n_deltas;
};

static void pause_at_delta(struct said *said) {
        struct pause *pause = said->hook_data;

        assert_false(pause->paused);
        if (said->n_deltas != 3)
                return;
        pause->paused = true;
        talk_pause(said->talk);
}

static void test_pause(void **state) {
        struct harness *h = *state;
        struct history history = {0};
        struct talk_rig rig;
        struct pause pause = {.paused = false};
        struct said said = {.hook = pause_at_delta, .hook_data = &pause}, other;

        harness_start(h, NULL);
        rig_init(&rig, h->socket);
        rig.wants.max_tokens = 300;
        rig.wants.gbnf = LONG;
        history_say(&history, 'u', "Hello!");
        rig_begin(&rig, rig_form(&rig, &history), &said);
        rig_wait_for(&rig, &pause.paused);
        /* Another talk is not held up, and this one is not called. */
        rig_talk(&rig, rig_form(&rig, &history), &other);
        assert_false(other.failed);
        assert_int_equal(said.n_deltas, 3);
        pause.paused = false;
        said.hook = NULL;
        talk_resume(said.talk);
        rig_wait(&said);
        assert_false(said.failed);
        assert_string_equal(said.text[0], other.text[0]);
        talk_free(said.talk);
        history_deinit(&history);
        rig_deinit(&rig);
}

/* ---- others are at work ---- */

struct twice {
        struct form *form;
        struct said second;
        bool begun;
};

static void begin_second(struct said *said) {
        struct twice *twice = said->hook_data;

        if (twice->begun || said->n_deltas == 0)
                return;
        twice->begun = true;
        rig_begin(said->rig, twice->form, &twice->second);
}

/* The client asks again while its first request is answered: it gets an answer of its own. */
static void test_busy(void **state) {
        struct harness *h = *state;
        struct history history = {0};
        struct talk_rig rig;

        harness_start(h, NULL);
        rig_init(&rig, h->socket);
        rig.wants.max_tokens = 200;
        rig.wants.gbnf = LONG;
        history_say(&history, 'u', question);
        for (int named = 0; named < 2; named++) {
                struct twice twice = {.begun = false};
                struct said said = {.hook = begin_second, .hook_data = &twice};

                rig.wants.place = named ? FORM_NAMED : FORM_FIND;
                rig.wants.conversation = "window";
                twice.form = rig_form(&rig, &history);
                rig_begin(&rig, rig_form(&rig, &history), &said);
                rig_wait(&said);
                rig_wait(&twice.second);
                assert_false(said.failed);
                if (twice.second.failed)
                        fail_msg("%s", twice.second.message);
                assert_string_equal(said.text[0], twice.second.text[0]);
                assert_int_equal(
                        said.place[0].conversation == twice.second.place[0].conversation, named);
                assert_true(twice.second.n_computed[0] <= 8);
                talk_free(said.talk);
                talk_free(twice.second.talk);
        }
        history_deinit(&history);
        rig_deinit(&rig);
}

/* Many at once with the same beginning: all are answered, and nothing is lost. */
static void test_crowd(void **state) {
        enum { N = 12 };
        struct harness *h = *state;
        struct history history = {0};
        struct talk_rig rig;
        struct said *said = calloc(N, sizeof(*said));

        assert_non_null(said);
        harness_start(h, NULL);
        rig_init(&rig, h->socket);
        history_say(&history, 'u', "My name is Bela.");
        rig_chat(&rig, &history, &said[0]);
        history_say(&history, 'u', "What is my name?");
        for (int i = 0; i < N; i++) {
                said[i].hook = NULL;
                rig_begin(&rig, rig_form(&rig, &history), &said[i]);
        }
        for (int i = 0; i < N; i++) {
                rig_wait(&said[i]);
                if (said[i].failed)
                        fail_msg("%d: %s", i, said[i].message);
                assert_string_equal(said[i].text[0], said[0].text[0]);
                for (int k = 0; k < i; k++)
                        assert_int_not_equal(
                                said[i].place[0].conversation, said[k].place[0].conversation);
                talk_free(said[i].talk);
        }
        free(said);
        history_deinit(&history);
        rig_deinit(&rig);
}

/* ---- the daemon goes ---- */

struct crash {
        struct harness *harness;
        bool killed;
};

static void kill_at_delta(struct said *said) {
        struct crash *crash = said->hook_data;

        if (crash->killed || said->n_deltas < 2)
                return;
        crash->killed = true;
        harness_kill(crash->harness);
}

/* In the middle of a reply: the client hears of it, asks again, and its message is still there. */
static void test_crash(void **state) {
        struct harness *h = *state;
        struct history history = {0};
        struct crash crash = {.harness = h};
        struct said said = {.hook = kill_at_delta, .hook_data = &crash};
        struct talk_rig rig;
        uint64_t id;

        harness_start(h, NULL);
        rig_init(&rig, h->socket);
        rig.wants.max_tokens = 1000;
        rig.wants.gbnf = LONG;
        history_say(&history, 'u', "Hello!");
        rig_begin(&rig, rig_form(&rig, &history), &said);
        rig_wait(&said);
        assert_true(said.failed);
        assert_int_equal(said.status, 503);
        assert_true(said.retry_after > 0);
        id = said.place[0].conversation;
        talk_free(said.talk);
        /* Nobody is there. */
        {
                static const struct talk_ops none;
                struct talk *talk;
                struct err e;

                assert_int_equal(talk_new(&talk, rig.backends, &rig.settings, &rig.owner,
                                         rig_form(&rig, &history), &none, NULL, &e),
                        -ERR_UNAVAILABLE);
        }
        harness_start(h, NULL);
        rig.wants.max_tokens = 10;
        rig_chat(&rig, &history, &said);
        assert_int_equal(said.place[0].conversation, id);
        assert_int_equal(said.place[0].input_turn, 1);
        assert_int_equal(said.place[0].reply_turn, 1);
        history_deinit(&history);
        rig_deinit(&rig);
}

/* ---- limits ---- */

/* Without a limit only the end of the context ends a reply, or the setting; so do limits beyond the context. */
static void test_no_limit(void **state) {
        struct harness *h = *state;
        struct history history = {0};
        struct talk_rig rig;
        struct said said;

        harness_start(h, FLAGS("--context=768"));
        rig_init(&rig, h->socket);
        rig.wants.gbnf = "root ::= [a-z]{20000}";
        history_say(&history, 'u', "Hello!");
        for (int i = 0; i < 3; i++) {
                rig.wants.has_max_tokens = i > 0;
                rig.wants.max_tokens = i == 1 ? 32000 : UINT32_MAX;
                rig_talk(&rig, rig_form(&rig, &history), &said);
                assert_false(said.failed);
                assert_int_equal(said.finish[0], CONFAB_FINISH_CONTEXT);
                assert_int_equal(said.usage[0].n_prompt + said.usage[0].n_generated, 768);
        }
        rig.settings.max_reply = 7;
        rig.wants.has_max_tokens = false;
        rig_talk(&rig, rig_form(&rig, &history), &said);
        assert_int_equal(said.finish[0], CONFAB_FINISH_LENGTH);
        assert_int_equal(said.usage[0].n_generated, 7);
        rig.wants.has_max_tokens = true;
        rig.wants.max_tokens = 9;
        rig_talk(&rig, rig_form(&rig, &history), &said);
        assert_int_equal(said.usage[0].n_generated, 9);
        history_deinit(&history);
        rig_deinit(&rig);
}

/* More at once than the daemon takes of one user: the client is told to come again. */
static void test_limits(void **state) {
        enum { N = 9 };
        struct harness *h = *state;
        struct history history = {0};
        struct talk_rig rig;
        struct said said[N];
        int n_failed = 0;

        harness_start(h, FLAGS("--max-user-requests=8"));
        rig_init(&rig, h->socket);
        rig.wants.max_tokens = 1500;
        rig.wants.gbnf = LONG;
        for (int i = 0; i < N; i++) {
                char text[32];

                snprintf(text, sizeof(text), "Hello %d!", i);
                history_cut(&history, 0);
                history_say(&history, 'u', text);
                said[i].hook = NULL;
                rig_begin(&rig, rig_form(&rig, &history), &said[i]);
        }
        for (int i = 0; i < N; i++) {
                while (said[i].n_deltas == 0 && !said[i].ended)
                        rig_step(&rig);
                if (!said[i].failed)
                        continue;
                n_failed++;
                assert_int_equal(said[i].status, 429);
                assert_int_equal(said[i].retry_after, 1);
                assert_string_equal(said[i].code, "limit");
        }
        assert_in_range(n_failed, 1, N - 1);
        for (int i = 0; i < N; i++)
                talk_free(said[i].talk);
        history_deinit(&history);
        rig_deinit(&rig);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test(test_choices),
                daemon_test(test_cancel),
                daemon_test(test_free_any_time),
                daemon_test(test_leave),
                daemon_test(test_pause),
                daemon_test(test_busy),
                daemon_test(test_crowd),
                daemon_test(test_crash),
                daemon_test(test_limits),
                daemon_test(test_no_limit),
        };

        return DAEMON_TESTS_MAIN(tests);
}
