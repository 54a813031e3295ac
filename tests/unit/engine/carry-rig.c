/* SPDX-License-Identifier: MIT */
#include "carry-rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inside.h"
#include "util/tiny-model.h"
#include "util/test.h"

static char small_path[96];
static struct answer before, after;

const char *carry_small_path(void) {
        return small_path;
}

void carry_open(struct erig *r, const struct engine_options *o) {
        erig_open(r, o);
        snprintf(small_path, sizeof(small_path), "%s/small.gguf", r->dir);
        assert_int_equal(tiny_model_write(small_path, MODEL_TINY), 0);
}

void carry_close(struct erig *r) {
        erig_check_budget(r);
        assert_int_equal(erig_stat(r, "restore_failures"), 0);
        erig_check_register(r);
        erig_close(r);
}

static void change_to(struct erig *r, const char *path) {
        erig_stop(r, true);
        r->o.model_path = path;
        erig_start(r);
}

void carry_to_small(struct erig *r) {
        change_to(r, small_path);
}

void carry_back(struct erig *r) {
        change_to(r, erig_model());
}

uint64_t carry_talk(struct erig *r) {
        static struct answer a;
        uint64_t c = erig_new(r, "talk", "You are kind.");
        struct engine_request q;

        erig_say(r, c, "Hello, my name is Ada.", 40, &a);
        assert_int_equal(a.finish, ENGINE_FINISH_STOP);
        q = erig_say_request(c, "Tell me about dogs.", 40);
        q.stops[0] = ".";
        q.n_stops = 1;
        assert_int_equal(erig_do(r, &q, &a), ENGINE_DONE);
        assert_int_equal(a.finish, ENGINE_FINISH_STOP_STRING);
        erig_say(r, c, "What is my name?", 2, &a);
        assert_int_equal(a.finish, ENGINE_FINISH_LENGTH);
        q = erig_say_request(c, "", 40);
        q.input = ENGINE_INPUT_NONE;
        assert_int_equal(erig_do(r, &q, &a), ENGINE_DONE);
        assert_int_equal(a.finish, ENGINE_FINISH_STOP);
        erig_say(r, c, "And yours?", 3, &a);
        assert_int_equal(a.finish, ENGINE_FINISH_LENGTH);
        return c;
}

void carry(struct erig *r, uint64_t conv, struct answer *a) {
        if (erig_simple(r, ENGINE_CARRY, conv, a) != ENGINE_CONV)
                fail_msg("carry: %s", a->err.msg);
}

void carry_refused(struct erig *r, uint64_t conv, enum err_code code, const char *part) {
        static struct answer a;

        erig_get(r, conv, &before);
        assert_int_equal(erig_simple(r, ENGINE_CARRY, conv, &a), ENGINE_ERROR);
        if (a.err.code != code || !strstr(a.err.msg, part))
                fail_msg("%d, %s: not '%s'", (int)a.err.code, a.err.msg, part);
        erig_get(r, conv, &after);
        answer_same_history(&before, &after);
        assert_int_equal(after.conv.revision, before.conv.revision);
        assert_int_equal(after.conv.disk_size, before.conv.disk_size);
        assert_true(after.conv.other_vocab);
}

void carry_same_texts(const struct answer *a, const struct answer *b) {
        assert_int_equal(a->n_turns, b->n_turns);
        for (uint32_t i = 0; i < a->n_turns; i++) {
                const struct engine_turn *s = &a->turns[i], *t = &b->turns[i];

                assert_int_equal(s->role, t->role);
                assert_int_equal(s->finish, t->finish);
                assert_int_equal(s->created_usec, t->created_usec);
                assert_int_equal(s->text_size, t->text_size);
                if (s->text_size > 0)
                        assert_memory_equal(s->text, t->text, s->text_size);
        }
}

void carry_has_tokens(struct erig *r, const struct answer *got, const char *text) {
        static int32_t tokens[4096];
        size_t n = inside_tokenize(r->en, text, tokens, 4096);

        for (size_t i = 0; i < n && i < got->n_history; i++)
                if (got->history[i] != tokens[i])
                        fail_msg("token %zu is %d, not %d", i, got->history[i], tokens[i]);
        assert_int_equal(got->n_history, n);
        assert_int_equal(got->turns[got->n_turns - 1].end, n);
}

void carry_check_reply(struct erig *r, uint64_t conv) {
        static struct answer reply, whole, fresh;
        struct engine_request q = erig_long_request(conv, "What do you like?", 6);
        struct engine_options o = erig_options(64 << 20);
        struct erig alone;

        if (erig_do(r, &q, &reply) != ENGINE_DONE)
                fail_msg("after carrying: %s", reply.err.msg);
        erig_get(r, conv, &whole);
        o.model_path = r->o.model_path;
        o.chat_format = r->o.chat_format;
        erig_open(&alone, &o);
        q = erig_long_request(erig_new(&alone, NULL, NULL), "", 6);
        q.input = ENGINE_INPUT_TOKENS;
        /* What the memory leaves out is not there. */
        memmove(whole.history + whole.conv.dropped_from, whole.history + whole.conv.dropped_to,
                (whole.n_history - whole.conv.dropped_to) * sizeof(*whole.history));
        whole.n_history -= whole.conv.dropped_to - whole.conv.dropped_from;
        q.tokens = whole.history;
        q.n_tokens = whole.n_history - reply.n_generated;
        assert_int_equal(q.n_tokens, reply.n_prompt);
        assert_int_equal(erig_do(&alone, &q, &fresh), ENGINE_DONE);
        assert_int_equal(fresh.n_tokens, reply.n_tokens);
        assert_memory_equal(fresh.tokens, reply.tokens, reply.n_tokens * sizeof(reply.tokens[0]));
        assert_memory_equal(
                fresh.logprobs, reply.logprobs, reply.n_tokens * sizeof(reply.logprobs[0]));
        erig_close(&alone);
}
