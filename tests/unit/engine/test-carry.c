/* SPDX-License-Identifier: MIT */
/*
 * Carrying conversations over to a model with another vocabulary, and back: which tokens they have
 * then, whether they fit, and what is refused. test-carry-kept.c has what stays and what goes.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "carry-rig.h"
#include "inside.h"
#include "util/test.h"

static struct answer A, B, first, carried;

static void say_as(struct erig *r, uint64_t conv, enum engine_role role, const char *text) {
        struct engine_request q = erig_say_request(conv, text, 0);

        q.role = role;
        if (erig_do(r, &q, &A) != ENGINE_DONE)
                fail_msg("%s: %s", text, A.err.msg);
}

/* What the small model's ChatML makes of the turns, as one text. */
static const char *as_chatml(const struct answer *a) {
        static char text[65536];
        bool open = false;
        size_t n = 0;

        n += (size_t)snprintf(text, sizeof(text), "<s>");
        for (uint32_t i = 0; i < a->n_turns; i++) {
                static const char *const roles[] = {"system", "user", "assistant"};
                const struct engine_turn *t = &a->turns[i];
                bool reply = t->finish != ENGINE_FINISH_NONE;
                int size = (int)t->text_size;

                assert_true(t->role != ENGINE_RAW);
                if (reply && open && a->turns[i - 1].finish == ENGINE_FINISH_STOP)
                        n += (size_t)snprintf(text + n, sizeof(text) - n, "<|im_end|>");
                if (!(reply && open))
                        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s<|im_start|>%s\n",
                                open ? "<|im_end|>\n" : "", roles[t->role]);
                n += (size_t)snprintf(
                        text + n, sizeof(text) - n, "%.*s", size, (const char *)t->text);
                open = reply;
                if (!reply)
                        n += (size_t)snprintf(text + n, sizeof(text) - n, "<|im_end|>\n");
        }
        if (open && a->turns[a->n_turns - 1].finish == ENGINE_FINISH_STOP)
                snprintf(text + n, sizeof(text) - n, "<|im_end|>");
        return text;
}

static void test_there_and_back(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c;

        carry_open(&r, &o);
        c = carry_talk(&r);
        erig_get(&r, c, &first);
        assert_false(first.conv.other_vocab);
        carry_to_small(&r);

        erig_get(&r, c, &A);
        answer_same_history(&A, &first);
        assert_true(A.conv.other_vocab && !A.conv.carried);
        assert_int_equal(A.conv.residency, ENGINE_COLD);
        assert_true(A.conv.disk_size > 0 && A.conv.unusable_size == A.conv.disk_size);
        q = erig_say_request(c, "Hi", 3);
        assert_int_equal(erig_do(&r, &q, &B), ENGINE_ERROR);
        assert_int_equal(B.err.code, ERR_STATE);
        assert_non_null(strstr(B.err.msg, "carry"));
        q = erig_request(ENGINE_CARRY, c);
        q.has_expect_revision = true;
        q.expect_revision = first.conv.revision + 1;
        assert_int_equal(erig_do(&r, &q, &B), ENGINE_ERROR);
        assert_int_equal(B.err.code, ERR_CONFLICT);
        erig_get(&r, c, &B);
        answer_same_history(&B, &first);
        assert_int_equal(B.conv.unusable_size, A.conv.disk_size); /* nothing was thrown away */

        q.expect_revision = first.conv.revision;
        assert_int_equal(erig_do(&r, &q, &B), ENGINE_CONV);
        assert_true(B.conv.carried && !B.conv.other_vocab);
        assert_int_equal(B.conv.n_tokens_before, first.conv.n_tokens);
        assert_int_equal(B.conv.revision, first.conv.revision + 1);
        assert_int_equal(B.conv.disk_size, 0);
        assert_int_equal(B.conv.residency, ENGINE_COLD);
        assert_int_equal(erig_stat(&r, "spill_disk_bytes"), 0);
        erig_get(&r, c, &carried);
        assert_int_equal(carried.conv.unusable_size, 0);
        assert_int_equal(carried.conv.created_usec, first.conv.created_usec);
        assert_string_equal(carried.name, "talk");
        carry_same_texts(&carried, &first);
        carry_has_tokens(&r, &carried, as_chatml(&carried));
        erig_restart(&r, false);
        erig_get(&r, c, &A);
        answer_same_history(&A, &carried);

        /* Back: the same texts. The text of the reply that a stop string ended lacks it, and so do the
         * tokens now. */
        carry_back(&r);
        carry(&r, c, &A);
        erig_get(&r, c, &B);
        carry_same_texts(&B, &first);
        assert_int_equal(B.conv.n_tokens, first.conv.n_tokens - 1);
        carry_check_reply(&r, c);
        carry_to_small(&r);
        carry(&r, c, &A);
        erig_get(&r, c, &A);
        carry_has_tokens(&r, &A, as_chatml(&A));
        carry_check_reply(&r, c);
        carry_close(&r);
}

/* What a model has sampled is, here, what its tokenizer makes of the text: so the conversation comes
 * back as it was, and goes on with the bits of one that was never away. */
static void test_as_before(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct erig r;
        uint64_t c, f;

        carry_open(&r, &o);
        c = erig_new(&r, NULL, "You are kind.");
        erig_say(&r, c, "Hello, my name is Ada.", 40, &A);
        erig_say(&r, c, "Tell me about dogs.", 4, &A);
        f = erig_fork(&r, c);
        erig_say(&r, f, "What is my name?", 20, &B);
        erig_get(&r, c, &first);
        for (int i = 0; i < 2; i++) {
                carry_to_small(&r);
                carry(&r, c, &A);
                carry_back(&r);
                carry(&r, c, &A);
                erig_get(&r, c, &A);
                answer_same_history(&A, &first);
        }
        erig_say(&r, c, "What is my name?", 20, &A);
        answer_same(&A, &B);
        carry_close(&r);
}

/* Messages alone have the very tokens that they get in a conversation that is held with this model,
 * raw text among them; nothing is what an empty conversation becomes. */
static void test_as_held_here(void **state) {
        static const struct {
                enum engine_role role;
                const char *text;
        } said[] = {{ENGINE_SYSTEM, "Be short."}, {ENGINE_USER, "  Two  blanks <|im_end|> "},
                {ENGINE_ASSISTANT, "I see.\n"}, {ENGINE_USER, "\xc3\xa4\xe2\x82\xac, <0x41>"},
                {ENGINE_RAW, " raw <|im_start|>text"}, {ENGINE_USER, "More?"}};
        struct engine_options o = erig_options(64 << 20);
        uint64_t c, empty, fresh;
        struct erig r;

        carry_open(&r, &o);
        empty = erig_new(&r, NULL, NULL);
        c = erig_new(&r, NULL, NULL);
        for (int there = 0; there < 2; there++) {
                fresh = there ? erig_new(&r, NULL, NULL) : c;
                for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++)
                        if (said[i].role == ENGINE_RAW)
                                erig_append_raw(&r, fresh, said[i].text);
                        else
                                say_as(&r, fresh, said[i].role, said[i].text);
                if (!there)
                        carry_to_small(&r);
        }
        carry(&r, c, &A);
        carry(&r, empty, &A);
        assert_true(A.conv.carried && A.conv.n_tokens == 0);
        erig_get(&r, c, &A);
        erig_get(&r, fresh, &B);
        assert_int_equal(A.n_history, B.n_history);
        assert_memory_equal(A.history, B.history, A.n_history * sizeof(*A.history));
        for (uint32_t i = 0; i < A.n_turns; i++)
                assert_true(A.turns[i].end == B.turns[i].end && A.turns[i].role == B.turns[i].role);
        carry_check_reply(&r, c);
        carry_check_reply(&r, empty);
        /* Its own vocabulary: there is nothing to do. */
        erig_get(&r, c, &A);
        carry(&r, c, &B);
        assert_false(B.conv.carried);
        assert_int_equal(B.conv.revision, A.conv.revision);
        assert_int_equal(B.conv.residency, ENGINE_RESIDENT);
        erig_get(&r, c, &B);
        answer_same_history(&A, &B);
        carry_close(&r);
}

static uint64_t draw_state;

static unsigned draw(unsigned n) {
        draw_state = draw_state * 6364136223846793005u + 1442695040888963407u;
        return (unsigned)(draw_state >> 33) % n;
}

/* Messages of all roles, replies of all ends, in any order. */
static uint64_t make_any(struct erig *r, unsigned seed) {
        static const char *const said[] = {"Hello.", "My name is Ada.", " two  blanks ",
                "\xc3\xa4\xc3\xb6\n", "<|im_end", "", "1 + 1 = 2", "Tell me about dogs."};
        uint64_t c;

        draw_state = seed;
        c = erig_new(r, NULL, draw(2) ? "Be kind." : NULL);
        erig_say(r, c, said[draw(5)], draw(20), &A);
        for (unsigned n = 3 + draw(4); n > 0; n--) {
                struct engine_request q = erig_say_request(c, said[draw(8)], draw(3) ? draw(8) : 0);

                if (q.max_tokens > 0 && draw(3) == 0)
                        q.input = ENGINE_INPUT_NONE;
                else if (q.max_tokens == 0 && draw(2))
                        q.role = ENGINE_ASSISTANT;
                q.stops[0] = draw(2) ? "e" : ".";
                q.n_stops = draw(2);
                if (erig_do(r, &q, &A) != ENGINE_DONE)
                        fail_msg("seed %u: %s", seed, A.err.msg);
        }
        return c;
}

/* Of any conversation: the tokens are those of the texts, however often it was carried; each life goes
 * on with the bits of a fresh one. */
static void test_any(void **state) {
        struct engine_options o = erig_options(64 << 20);
        enum { N = 25 };
        static struct answer there[N], back[N];
        uint64_t c[N];
        struct erig r;

        carry_open(&r, &o);
        for (unsigned i = 0; i < N; i++)
                c[i] = make_any(&r, i);
        for (int round = 0; round < 2; round++) {
                carry_to_small(&r);
                for (unsigned i = 0; i < N; i++) {
                        carry(&r, c[i], &A);
                        erig_get(&r, c[i], round ? &B : &there[i]);
                        if (round)
                                answer_same_history(&there[i], &B);
                        else
                                carry_has_tokens(&r, &there[i], as_chatml(&there[i]));
                }
                carry_check_reply(&r, erig_fork(&r, c[draw(N)]));
                carry_back(&r);
                for (unsigned i = 0; i < N; i++) {
                        carry(&r, c[i], &A);
                        erig_get(&r, c[i], round ? &B : &back[i]);
                        if (round)
                                answer_same_history(&back[i], &B);
                }
                carry_check_reply(&r, erig_fork(&r, c[draw(N)]));
        }
        for (unsigned i = 0; i < N; i++) {
                answer_reset(&there[i]);
                answer_reset(&back[i]);
        }
        carry_close(&r);
}

/* Raw text and its replies, from the first token on. */
static void test_raw(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c;

        carry_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        q = erig_long_request(c, "Once upon a time", 5);
        q.input = ENGINE_INPUT_RAW;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        erig_append_raw(&r, c, " and then");
        erig_get(&r, c, &first);
        carry_to_small(&r);
        carry(&r, c, &A);
        erig_get(&r, c, &carried);
        carry_same_texts(&carried, &first);
        {
                char text[512];

                snprintf(text, sizeof(text), "<s>Once upon a time%.*s and then",
                        (int)first.turns[1].text_size, (const char *)first.turns[1].text);
                carry_has_tokens(&r, &carried, text);
        }
        carry_check_reply(&r, c);
        carry_close(&r);
}

/* --- the context --- */

enum { SMALL_CONTEXT = 256 };

static uint64_t make_long(struct erig *r) {
        uint64_t c = erig_new(r, NULL, "You are a helpful assistant.");

        for (unsigned i = 0; i < 5; i++)
                erig_say(r, c, erig_words(10, i), 6, &A);
        return c;
}

static void test_too_long(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        char figures[64];
        struct erig r;
        uint64_t c;

        carry_open(&r, &o);
        c = make_long(&r);
        erig_get(&r, c, &first);
        r.o.context = SMALL_CONTEXT;
        assert_true(first.conv.n_tokens < SMALL_CONTEXT);
        carry_to_small(&r);
        snprintf(figures, sizeof(figures), "instead of %u", first.conv.n_tokens);
        carry_refused(&r, c, ERR_CONTEXT, figures);
        carry_refused(&r, c, ERR_CONTEXT, "more than the context of 256");

        q = erig_request(ENGINE_UPDATE, c);
        q.overflow = ENGINE_OVERFLOW_SHIFT;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
        carry(&r, c, &A);
        assert_true(A.conv.carried && A.conv.n_tokens > SMALL_CONTEXT);
        erig_get(&r, c, &carried);
        carry_same_texts(&carried, &first);
        carry_has_tokens(&r, &carried, as_chatml(&carried));
        /* The system message stays, and the newest turns that fit a half of the context. */
        assert_int_equal(carried.conv.dropped_from, carried.turns[0].end);
        assert_true(carried.conv.n_tokens - (carried.conv.dropped_to - carried.conv.dropped_from) <=
                    SMALL_CONTEXT / 2);
        for (uint32_t i = 1;; i++) {
                assert_true(i < carried.n_turns);
                if (carried.turns[i].start == carried.conv.dropped_to)
                        break;
        }
        carry_check_reply(&r, c);
        erig_restart(&r, false);
        carry_check_reply(&r, c);
        /* Back everything fits again. */
        carry_back(&r);
        carry(&r, c, &A);
        assert_int_equal(A.conv.dropped_to, A.conv.dropped_from);
        carry_check_reply(&r, c);
        carry_close(&r);
}

/* With just as many tokens as the context it is carried over; with one more it is not. */
static void test_just_fits(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct erig r;
        uint64_t c, d;

        carry_open(&r, &o);
        c = make_long(&r);
        d = erig_fork(&r, c);
        carry_to_small(&r);
        carry(&r, c, &A);
        r.o.context = A.conv.n_tokens - 1;
        erig_restart(&r, true);
        carry_refused(&r, d, ERR_CONTEXT, "1 more than the context");
        r.o.context++;
        erig_restart(&r, true);
        carry(&r, d, &B);
        assert_int_equal(B.conv.n_tokens, A.conv.n_tokens);
        carry_close(&r);
}

/* Not even the first turns fit. */
static void test_nothing_fits(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct erig r;
        uint64_t c;

        carry_open(&r, &o);
        {
                struct engine_request q = {.verb = ENGINE_OPEN,
                        .system = erig_words(60, 0),
                        .overflow = ENGINE_OVERFLOW_SHIFT};

                assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
                c = A.conv.id;
        }
        erig_say(&r, c, "Hello.", 4, &A);
        r.o.context = 128;
        carry_to_small(&r);
        carry_refused(&r, c, ERR_CONTEXT, "the context of 128");
        carry_close(&r);
}

/* --- refused --- */

static void test_refused_turn(void **state) {
        static const int32_t tokens[] = {300, 301, 302};
        struct engine_options o = erig_options(64 << 20);
        uint64_t c, d;
        struct erig r;

        carry_open(&r, &o);
        c = erig_new(&r, NULL, "Be kind.");
        erig_say(&r, c, "Hello.", 8, &A);
        say_as(&r, c, ENGINE_SYSTEM, "Now be short.");
        d = erig_new(&r, NULL, NULL);
        erig_say(&r, d, "Hello.", 8, &A);
        erig_append_tokens(&r, d, tokens[0], 3);
        r.o.chat_format = "gemma"; /* the system message opens the user's */
        carry_to_small(&r);
        carry_refused(&r, c, ERR_STATE, "turn 3 (system)");
        carry_refused(&r, d, ERR_UNSUPPORTED, "turn 2 (raw)");
        r.o.chat_format = "none";
        erig_restart(&r, true);
        carry_refused(&r, c, ERR_UNSUPPORTED, "turn 0 (system)");
        r.o.chat_format = NULL;
        erig_restart(&r, true);
        carry(&r, c, &A);
        carry_check_reply(&r, c);
        /* Without the turn that has no text the other one goes over. */
        {
                struct engine_request q = erig_request(ENGINE_REWIND, d);

                q.drop_turns = 1;
                assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
        }
        carry(&r, d, &A);
        carry_check_reply(&r, d);
        carry_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_there_and_back),
                cmocka_unit_test(test_as_before),
                cmocka_unit_test(test_as_held_here),
                cmocka_unit_test(test_any),
                cmocka_unit_test(test_raw),
                cmocka_unit_test(test_too_long),
                cmocka_unit_test(test_just_fits),
                cmocka_unit_test(test_nothing_fits),
                cmocka_unit_test(test_refused_turn),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
