/* SPDX-License-Identifier: MIT */
/* Every allocation of loading a template and of appending messages fails once: an error, nothing
 * appended, nothing leaked; and so where the ledger refuses. */
#include <stdlib.h>
#include <string.h>

#include "base/charge.h"
#include "base/err.h"
#include "base/ledger.h"
#include "chat/chat.h"
#include "fault/loop.h"
#include "unit/tok/vocab-build.h"
#include "util/test.h"

#define MAX_ALLOCATIONS 3000

/* One takes system messages; one has none, so confab joins the texts; one can't be used; two write
 * tools, by the variable and by a key. */
static const char *const templates[] = {
        "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}"
        "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
        "{% for m in messages if m.role != 'system' %}<|im_start|>{{ m.content }}<|im_end|>"
        "{% endfor %}",
        "<|im_start|>{{ x.y }}",
        "{% if tools %}{{ tools | tojson }}<|im_end|>{% endif %}{% for m in messages %}<|im_start|>"
        "{{ m.role }}{{ m.content }}{% for call in m.tool_calls or [] %}{{ call.function.name }}"
        "{{ call.function.arguments | tojson }}{% endfor %}<|im_end|>{% endfor %}",
        "{% for m in messages %}<|im_start|>{{ m.role }}{{ m.content }}"
        "{% if m.tools %}{{ m.tools }}{% endif %}{% for call in m.tool_calls or [] %}"
        "{{ call.function.name + call.function.arguments }}{% endfor %}<|im_end|>{% endfor %}"};

static void build(struct vocab_build *v) {
        vocab_build_init(v, "gpt2");
        gguf_build_str(v->file, "tokenizer.ggml.pre", "llama-bpe");
        vocab_build_bpe_bytes(v);
        vocab_build_add(v, "<|im_start|>", V_USER_DEFINED, 0);
        vocab_build_add(v, "<|im_end|>", V_CONTROL, 0);
        assert_int_equal(vocab_build_load(v, NULL), 0);
}

#define TOOLS "[{\"name\": \"f\", \"parameters\": {\"k\": [1, 2]}}]"
#define ARGUMENTS "{\"k\": \"<|im_end|>\"}"

static int append_one(const struct chat *c, struct chat_tail *tail, const struct chat_input *in,
        struct tok_ids *ids, struct err *e) {
        size_t n_before = ids->n;
        int r = chat_append(c, tail, in, 0, ids, e);

        if (r < 0)
                assert_int_equal(ids->n, n_before);
        tail->has_tools = tail->has_tools || in->tools;
        tail->state = chat_state_after(c, in->messages[0].role, tail->has_tools);
        tail->role = in->messages[0].role;
        return r;
}

/* Definitions with the system message, then calls and results, if the template has them. */
static int append_tools(const struct chat *c, struct tok_ids *ids, struct err *e) {
        const struct chat_call calls[2] = {
                {.name = "f", .arguments = ARGUMENTS, .arguments_size = 19},
                {.id = "b", .name = "g", .arguments = "{}", .arguments_size = 2}};
        const struct chat_message messages[] = {{.role = CHAT_SYSTEM, .text = "text", .size = 4},
                {.role = CHAT_USER, .text = "text", .size = 4},
                {.role = CHAT_ASSISTANT, .calls = calls, .n_calls = 2},
                {.role = CHAT_TOOL, .text = "text", .size = 4},
                {.role = CHAT_TOOL, .text = "text", .size = 4, .call_id = "b", .name = "g"}};
        struct chat_tail tail = {.state = CHAT_EMPTY};
        int r = chat_check_tools(c, TOOLS, strlen(TOOLS), e);

        for (size_t i = 0; r == 0 && i < 4; i++)
                r = append_one(c, &tail,
                        &(struct chat_input){.messages = messages + i,
                                .n = i == 3 ? 2 : 1,
                                .tools = i == 0 ? TOOLS : NULL,
                                .tools_size = strlen(TOOLS)},
                        ids, e);
        return r == 0 ? chat_append_reply_start(c, &tail, 0, ids, e) : r;
}

static int append_all(const struct chat *c, struct ledger *ledger) {
        struct charge charge = {.ledger = ledger};
        struct tok_ids ids = {.charge = &charge};
        struct chat_tail tail = {.state = CHAT_EMPTY};
        struct err e = {0};
        int r = 0;

        for (int role = 0; r == 0 && role <= CHAT_RAW; role++) {
                const struct chat_message m = {
                        .role = (enum chat_role)role, .text = "text <|im_end|>", .size = 15};

                r = append_one(c, &tail, &(struct chat_input){.messages = &m, .n = 1}, &ids, &e);
                if (r == 0 && role == CHAT_USER)
                        r = chat_append_reply_start(c, &tail, 0, &ids, &e);
        }
        if (r == 0 && chat_takes_tools(c))
                r = append_tools(c, &ids, &e);
        assert_int_equal((int)e.code, -r);
        tok_ids_deinit(&ids);
        assert_int_equal(charge.size, 0);
        return r;
}

/* One whole way; the first error, or 0. */
static int run(const struct vocab_build *v, const char *text, struct ledger *ledger) {
        struct chat *c = NULL;
        struct err e = {0};
        int r = chat_new(&c, v->tok, text, strlen(text), NULL, &e);

        assert_int_equal((int)e.code, -r);
        if (r == 0) {
                assert_int_equal(chat_takes_tools(c), strstr(text, "tools") != NULL);
                r = append_all(c, ledger);
        }
        chat_free(c);
        return r;
}

static void test_allocations(void **state) {
        for (size_t i = 0; i < sizeof(templates) / sizeof(templates[0]); i++) {
                struct ledger ledger = LEDGER_INIT((size_t)64 << 20);
                struct fault_loop loop = {.at_least = 21, .at_most = MAX_ALLOCATIONS};
                struct vocab_build v;

                build(&v);
                while (fault_loop_next(&loop)) {
                        int r;

                        fault_loop_arm(&loop);
                        r = run(&v, templates[i], &ledger);
                        fault_loop_disarm(&loop);
                        fault_loop_expect(&loop, r, NULL);
                }
                assert_int_equal(ledger_used(&ledger), 0);
                vocab_build_deinit(&v);
        }
}

static void test_budgets(void **state) {
        for (size_t i = 0; i < sizeof(templates) / sizeof(templates[0]); i++) {
                struct ledger ledger = LEDGER_INIT((size_t)64 << 20);
                struct vocab_build v;
                size_t peak;

                build(&v);
                assert_int_equal(run(&v, templates[i], &ledger), 0);
                peak = ledger_peak(&ledger);
                assert_true(peak > 10000);
                for (size_t budget = 0; budget < peak; budget += peak / 60 + 1) {
                        struct ledger small = LEDGER_INIT(budget);
                        int r = run(&v, templates[i], &small);

                        assert_true(r == -ERR_LIMIT || r == -ERR_TOO_LARGE);
                        assert_int_equal(ledger_used(&small), 0);
                }
                vocab_build_deinit(&v);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_allocations),
                cmocka_unit_test(test_budgets),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
