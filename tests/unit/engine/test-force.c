/* SPDX-License-Identifier: MIT */
/*
 * Forced calls: whatever a model with random weights chooses, the reply is one call that is read as one,
 * with arguments that meet the function's schema; and its tokens are the same whatever happens around it.
 */
#include <stdlib.h>
#include <string.h>

#include "tools-rig.h"
#include "unit/grammar/grammar-rig.h"
#include "util/test.h"
#include "util/tiny-model.h"

#define POOL (16 << 20)
#define SCHEMA_F                                                                                   \
        "{\"type\":\"object\",\"properties\":{\"city\":{\"enum\":[\"Bern\",\"Oslo\"]},"            \
        "\"days\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":14}},"                           \
        "\"required\":[\"city\",\"days\"]}"
#define SCHEMA_G "{\"properties\":{\"text\":{\"type\":\"string\",\"maxLength\":6}}}"
#define DEFS                                                                                       \
        "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":" SCHEMA_F "}},"      \
        "{\"name\":\"g\",\"parameters\":" SCHEMA_G "},{\"name\":\"none\"}]"
#define N_SEEDS 8

static struct answer A, B, G, Whole;
/* Tokens without which no mark of reasoning is spelled: such a model would not end it. */
static const struct sampling_bias no_reasoning[] = {{5 + 'h', -100}, {277, -100}, {278, -100}};
/* A reply of at most @max tokens that must be a call of @name, or of any function (""). */
static struct engine_request force(uint64_t conv, const char *name, uint64_t seed, uint32_t max) {
        struct engine_request q = erig_say_request(conv, "Go.", max);

        q.want_parts = true;
        q.constraint = ENGINE_CONSTRAINT_CALL;
        q.constraint_text = name;
        q.constraint_size = strlen(name);
        q.sampling.has |= SAMPLING_TEMPERATURE | SAMPLING_SEED | SAMPLING_BIASES;
        q.sampling.temperature = 0.9f;
        q.sampling.seed = seed;
        memcpy(q.sampling.biases, no_reasoning, sizeof(no_reasoning));
        q.sampling.n_biases = 3;
        return q;
}

/* --- what a call is --- */

struct call {
        char name[16], arguments[4096];
        size_t n_calls, n_texts;
        bool broken;
};

/* The call of the conversation's last turn. */
static struct call last_call(struct erig *r, uint64_t conv) {
        struct call c = {.n_calls = 0};
        const struct engine_turn *turn;

        tools_get(r, conv, &G);
        turn = &G.turns[G.conv.n_turns - 1];
        for (size_t i = 0; i < turn->n_parts; i++) {
                const struct engine_part *part = &turn->parts[i];

                c.n_texts += part->kind == ENGINE_PART_TEXT && part->text_size > 0;
                if (part->kind != ENGINE_PART_CALL)
                        continue;
                c.n_calls++;
                c.broken = c.broken || part->broken;
                snprintf(c.name, sizeof(c.name), "%s", part->name);
                snprintf(c.arguments, sizeof(c.arguments), "%s", part->text);
        }
        return c;
}

static void check_meets(const char *schema, const char *text) {
        struct grammar_rig r;
        struct grammar *g;

        rig_init(&r, NULL, 0);
        g = rig_grammar(&r, GRAMMAR_JSON_SCHEMA, schema);
        if (!rig_meets(g, text, strlen(text)))
                fail_msg("%s does not meet %s", text, schema);
        grammar_free(g);
        rig_deinit(&r);
}

static const char *schema_of(const char *name) {
        return strcmp(name, "f") == 0   ? SCHEMA_F
               : strcmp(name, "g") == 0 ? "{\"type\":\"object\"," /* what arguments are */
                                          "\"properties\":{\"text\":{\"type\":\"string\","
                                          "\"maxLength\":6}}}"
                                        : "{\"type\":\"object\",\"properties\":{}}";
}

/* The last reply ended by itself, and is one call. */
static struct call check_call(struct erig *r, uint64_t conv, const struct answer *a) {
        struct call c = last_call(r, conv);

        assert_int_equal(a->finish, ENGINE_FINISH_STOP);
        assert_int_equal(c.n_calls, 1);
        assert_int_equal(c.n_texts, 0);
        assert_false(c.broken);
        check_meets(schema_of(c.name), c.arguments);
        return c;
}

/* --- tests --- */

static void test_named(void **state) {
        static const char *const names[] = {"f", "g", "none"};
        struct erig r;
        uint64_t c;

        tools_open(&r, POOL);
        for (size_t i = 0; i < 3; i++) {
                c = tools_new(&r, NULL, DEFS);
                for (uint64_t seed = 1; seed <= N_SEEDS; seed++) {
                        tools_done(&r, force(c, names[i], seed, 2000), &A);
                        assert_string_equal(check_call(&r, c, &A).name, names[i]);
                }
        }
        erig_close(&r);
        (void)state;
}

static void test_any(void **state) {
        struct erig r;
        size_t n_f = 0, n_all = 0;
        uint64_t c;

        tools_open(&r, POOL);
        for (uint64_t seed = 1; seed <= 3 * N_SEEDS; seed++) {
                c = tools_new(&r, NULL, DEFS);
                tools_done(&r, force(c, "", seed, 2000), &A);
                n_f += strcmp(check_call(&r, c, &A).name, "f") == 0;
                n_all++;
        }
        assert_in_range(n_f, 1, n_all - 1); /* the model chooses */
        erig_close(&r);
        (void)state;
}

/* The tools that hold are those of the request, or those that were told. */
static void test_told_later(void **state) {
        struct engine_request q;
        struct erig r;
        uint64_t c;

        tools_open(&r, POOL);
        c = tools_new(&r, NULL, NULL);
        tools_refused(&r, force(c, "", 1, 100), ERR_INVALID, "no tools");
        q = force(c, "g", 1, 2000);
        q.tools = DEFS;
        tools_done(&r, q, &A);
        check_call(&r, c, &A);
        tools_done(&r, force(c, "f", 2, 2000), &A);
        check_call(&r, c, &A);
        erig_close(&r);
        (void)state;
}

static void test_refused(void **state) {
        struct engine_request q;
        struct erig r;
        uint64_t c;

        tools_open(&r, POOL);
        c = tools_new(&r, NULL, DEFS);
        tools_refused(&r, force(c, "nosuch", 1, 100), ERR_INVALID, "no tool is named 'nosuch'");
        q = force(c, "f", 1, 100);
        q.input = ENGINE_INPUT_RAW;
        tools_refused(&r, q, ERR_INVALID, "replies to messages");
        q = force(c, "f", 1, 100);
        q.ignore_eos = true;
        tools_refused(&r, q, ERR_INVALID, "ignore_eos");
        c = tools_new(&r, NULL,
                "[{\"name\":\"f\",\"parameters\":{\"not\":{}}},"
                "{\"name\":\"g\",\"parameters\":{\"type\":\"string\"}},"
                "{\"name\":\"a b\"}]");
        tools_refused(&r, force(c, "f", 1, 100), ERR_UNSUPPORTED, "not");
        tools_refused(&r, force(c, "g", 1, 100), ERR_INVALID, "another type than object");
        tools_refused(&r, force(c, "a b", 1, 100), ERR_UNSUPPORTED, "\"a b\" can't be forced");
        erig_close(&r);
        (void)state;
}

static struct engine_request go_on(struct engine_request q) {
        q.input = ENGINE_INPUT_NONE;
        q.text = NULL;
        q.text_size = 0;
        return q;
}

static bool same_tokens(const struct answer *a, const struct answer *b, size_t from) {
        return a->n_tokens >= from && a->n_tokens - from == b->n_tokens &&
               memcmp(a->tokens + from, b->tokens, b->n_tokens * sizeof(*b->tokens)) == 0;
}

/* Cut off and gone on with, in the same engine and after a restart, at each place of the reply. */
static void test_goes_on(void **state) {
        struct erig r;
        uint64_t c;

        tools_open(&r, POOL);
        c = tools_new(&r, NULL, DEFS);
        tools_done(&r, force(c, "f", 5, 2000), &Whole);
        check_call(&r, c, &Whole);
        assert_true(Whole.n_tokens > 8);
        for (uint32_t n = 1; n < Whole.n_tokens; n += n < 6 ? 1 : Whole.n_tokens / 5) {
                c = tools_new(&r, NULL, DEFS);
                tools_done(&r, force(c, "f", 5, n), &G);
                assert_int_equal(G.finish, ENGINE_FINISH_LENGTH);
                if (n % 2 == 0)
                        erig_restart(&r, true);
                tools_done(&r, go_on(force(c, "f", 5, 2000)), &B);
                assert_true(same_tokens(&Whole, &B, n));
                assert_int_equal(B.finish, ENGINE_FINISH_STOP);
        }
        erig_close(&r);
        (void)state;
}

/* What was said without the constraint need not be a call's beginning. */
static void test_open_reply_differs(void **state) {
        struct engine_request q;
        struct erig r;
        uint64_t c;

        tools_open(&r, POOL);
        c = tools_new(&r, NULL, DEFS);
        q = force(c, "f", 5, 400);
        q.constraint = ENGINE_CONSTRAINT_GBNF;
        q.constraint_text = "root ::= \"Hello \"{300}";
        q.constraint_size = strlen(q.constraint_text);
        q.max_tokens = 20;
        tools_done(&r, q, &A);
        tools_refused(
                &r, go_on(force(c, "f", 5, 100)), ERR_INVALID, "does not meet the constraint");
        erig_close(&r);
        (void)state;
}

/* --- reasoning --- */

/* Whose invitation opens reasoning. */
static const char thinking[] =
        "{%- if tools -%}<|im_start|>system\n{% for t in tools %}{{ t | tojson }}{% endfor "
        "%}<|im_end|>\n"
        "{% endif -%}{%- for m in messages -%}<|im_start|>{{ m.role }}\n{{ m.content }}"
        "{%- for c in m.tool_calls or [] -%}<tool_call>{\"name\": \"{{ c.function.name }}\", "
        "\"arguments\": {{ c.function.arguments | tojson }}}</tool_call>{%- endfor -%}<|im_end|>\n"
        "{%- endfor -%}{%- if add_generation_prompt -%}<|im_start|>assistant\n<think>\n{% endif -%}"
        "{# </think> #}";

static int write_thinking(void **state) {
        (void)state;
        return tiny_model_write_chat(tools_model, thinking);
}

/* The reply is inside of reasoning, in which anything may be but its end. */
static void test_in_reasoning(void **state) {
        struct call call;
        struct erig r;
        uint64_t c;

        tools_open(&r, POOL);
        c = tools_new(&r, NULL, DEFS);
        tools_done(&r, force(c, "f", 1, 40), &A);
        assert_int_equal(A.finish, ENGINE_FINISH_LENGTH);
        call = last_call(&r, c);
        assert_int_equal(call.n_calls + call.n_texts, 0);
        assert_true(G.turns[G.conv.n_turns - 1].n_parts == 1);
        tools_done(&r, go_on(force(c, "f", 1, 40)), &A); /* in an open reply as well */
        call = last_call(&r, c);
        assert_int_equal(call.n_calls + call.n_texts, 0);
        erig_close(&r);
        (void)state;
}

/* Behind reasoning comes the call. The model is made to end it by another constraint, and cut off there. */
static void test_behind_reasoning(void **state) {
        static const char grammar[] = "root ::= \"hm <b></th </think>\" [z]{400}";
        size_t n_calls = 0;
        struct erig r;

        tools_open(&r, POOL);
        for (uint32_t n = 10; n < 24; n++) {
                uint64_t c = tools_new(&r, NULL, DEFS);
                struct engine_request q = force(c, "f", 1, n);

                q.want_parts = false;
                q.constraint = ENGINE_CONSTRAINT_GBNF;
                q.constraint_text = grammar;
                q.constraint_size = sizeof(grammar) - 1;
                q.sampling.n_biases = 0;
                tools_done(&r, q, &A);
                if (strcmp(A.text, "hm <b></th </think>") == 0) {
                        tools_done(&r, go_on(force(c, "f", 1, 2000)), &A);
                        assert_string_equal(check_call(&r, c, &A).name, "f");
                        n_calls++;
                } else if (strstr(A.text, "z")) /* no text may follow */
                        tools_refused(
                                &r, go_on(force(c, "f", 1, 10)), ERR_INVALID, "does not meet");
        }
        assert_int_equal(n_calls, 1);
        erig_close(&r);
        (void)state;
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_named),
                cmocka_unit_test(test_any),
                cmocka_unit_test(test_told_later),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_goes_on),
                cmocka_unit_test(test_open_reply_differs),
                cmocka_unit_test_setup(test_in_reasoning, write_thinking),
                cmocka_unit_test(test_behind_reasoning),
        };

        return cmocka_run_group_tests(tests, tools_rig_setup, tools_model_remove);
}
