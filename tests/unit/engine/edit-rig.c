/* SPDX-License-Identifier: MIT */
#include "edit-rig.h"

#include <poll.h>
#include <string.h>

#include "base/util.h"
#include "model/model.h"
#include "util/test.h"

struct gate edit_step_gate = GATE_INIT;

int __real_model_forward(struct model_work *w, const struct model_token *batch, size_t n,
        const struct model_wait *wait);
int __wrap_model_forward(struct model_work *w, const struct model_token *batch, size_t n,
        const struct model_wait *wait);
int __wrap_model_forward(struct model_work *w, const struct model_token *batch, size_t n,
        const struct model_wait *wait) {
        gate_pass(&edit_step_gate);
        return __real_model_forward(w, batch, n, wait);
}

uint64_t edit_talk(struct erig *r) {
        static const char system[] =
                "You are a helpful assistant who knows all animals of the world, and "
                "where they live, and what they eat, and how long they sleep.";
        static const char *const texts[] = {"Hello, my name is Ada, and I have a cat and a dog.",
                "What is my name, and how long does my cat sleep?"};
        uint64_t c = erig_new(r, NULL, system);

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                struct engine_request q = erig_long_request(c, texts[i], 20 + 10 * (uint32_t)i);

                assert_int_equal(erig_do(r, &q, NULL), ENGINE_DONE);
        }
        return c;
}

uint64_t edit_open(struct erig *r, const struct engine_options *o) {
        erig_open(r, o);
        return edit_talk(r);
}

struct engine_request edit_request(
        uint64_t conv, uint32_t at_turn, const char *text, uint32_t max_tokens) {
        struct engine_request q = erig_say_request(conv, text, max_tokens);

        q.cuts = true;
        q.at_turn = at_turn;
        q.at_position = ENGINE_UNSET;
        if (!text[0])
                q.input = ENGINE_INPUT_NONE;
        return q;
}

struct engine_request edit_answer(uint64_t conv, uint32_t max_tokens) {
        struct engine_request q = edit_request(conv, 0, "", max_tokens);

        q.cuts = false;
        return q;
}

void edit_send_and_hold(
        struct erig *r, struct engine_request *q, unsigned n_steps, struct answer *a) {
        gate_close(&edit_step_gate, n_steps);
        erig_send(r, q, a);
        gate_wait(&edit_step_gate);
}

void edit_walk(struct erig *r, const struct answer *a, size_t n_tokens) {
        while (a->n_tokens < n_tokens) {
                assert_false(a->final);
                gate_step(&edit_step_gate);
                gate_wait(&edit_step_gate);
                erig_take_all(r);
        }
}

void edit_walk_meanwhile(struct erig *r, const struct answer *a, const struct answer *other) {
        while (!other->final)
                edit_walk(r, a, a->n_tokens + 1);
}

void edit_walk_accepted(struct erig *r, const struct answer *a) {
        while (!a->accepted) {
                assert_false(a->final);
                poll(NULL, 0, 10);
                gate_step(&edit_step_gate);
                gate_wait(&edit_step_gate);
                erig_take_all(r);
        }
}

void edit_walk_get(struct erig *r, const struct answer *a, uint64_t conv, struct answer *got) {
        struct engine_request q = erig_request(ENGINE_GET, conv);

        q.want_turns = q.want_tokens = true;
        erig_send(r, &q, got);
        edit_walk_meanwhile(r, a, got);
        assert_int_equal(got->kind, ENGINE_CONV);
}

const char *edit_words(size_t n) {
        static char text[8 * 4000 + 1];

        assert_true(n <= 4000);
        for (size_t i = 0; i < n; i++)
                memcpy(text + 8 * i, i % 3 ? "  river " : " animal ", 8);
        text[8 * n] = '\0';
        return text;
}

void edit_check_same(const struct answer *is, const struct answer *was) {
        assert_int_equal(is->conv.revision, was->conv.revision);
        assert_int_equal(is->conv.n_published, was->conv.n_published);
        assert_int_equal(is->conv.dropped_from, was->conv.dropped_from);
        assert_int_equal(is->conv.dropped_to, was->conv.dropped_to);
        answer_same_history(is, was);
}

void edit_check_unanswered(struct erig *r, uint64_t conv, const struct answer *a) {
        static struct answer is;

        assert_int_equal(a->kind, ENGINE_DONE);
        assert_true(a->accepted);
        assert_int_equal(a->finish, ENGINE_FINISH_CANCELLED);
        assert_int_equal(a->n_tokens, 0);
        erig_get(r, conv, &is);
        assert_int_equal(is.conv.revision, a->revision);
        assert_int_equal(is.turns[is.n_turns - 1].role, ENGINE_USER);
        assert_int_equal(is.turns[is.n_turns - 1].end, is.conv.n_tokens);
        assert_false(is.conv.busy);
}

void edit_check_as_before(struct erig *r, uint64_t conv, const struct answer *was) {
        static struct answer is;

        erig_get(r, conv, &is);
        edit_check_same(&is, was);
        assert_false(is.conv.busy);
}
