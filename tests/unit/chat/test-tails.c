/* SPDX-License-Identifier: MIT */
/*
 * What a template writes behind each end that a conversation can have, with which token it ends a reply, and what is told of
 * a template that cannot be followed.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "chat/chat.h"
#include "unit/chat/template-rig.h"
#include "util/test.h"

/* --- tails --- */

static void assert_text(const struct vocab_build *v, const struct chat *c,
        const struct chat_tail *tail, enum chat_role role, const char *text, const char *want) {
        _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
        _cleanup_(buf_deinit) struct buf b = BUF_NULL;
        const struct chat_message m = {.role = role, .text = text, .size = strlen(text)};
        struct err e = {0};

        if (chat_append(c, tail, &(struct chat_input){.messages = &m, .n = 1}, 0, &ids, &e) < 0)
                fail_msg("%s", e.msg);
        for (size_t i = 0; i < ids.n; i++) {
                char piece[64];
                size_t n = tok_piece(v->tok, ids.ids[i], true, piece, sizeof(piece));

                assert_int_equal(buf_append(&b, piece, n), 0);
        }
        assert_string_equal(b.data ? (char *)b.data : "", want);
}

static void assert_reply(const struct vocab_build *v, const struct chat *c,
        const struct chat_tail *tail, const char *want) {
        _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
        _cleanup_(freep) char *text = NULL;

        assert_int_equal(chat_append_reply_start(c, tail, 0, &ids, NULL), 0);
        text = whole_text_of(v->tok, &ids, "|");
        assert_string_equal(text, want);
}

static void test_tails(void **state) {
        const struct chat_tail *closed = &template_tails[3], *raw = &template_tails[4],
                               *open = &template_tails[5], *ended = &template_tails[6];
        struct vocab_build v;
        struct chat *c;

        template_vocabulary(&v, "gpt2", true);
        c = whole_chat(&v, CHATML);
        assert_text(&v, c, open, CHAT_USER, "Hi", "<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n");
        assert_text(&v, c, ended, CHAT_USER, "Hi", "\n<|im_start|>user\nHi<|im_end|>\n");
        assert_text(&v, c, closed, CHAT_USER, "Hi", "<|im_start|>user\nHi<|im_end|>\n");
        assert_text(&v, c, raw, CHAT_USER, "Hi", "<|im_start|>user\nHi<|im_end|>\n");
        assert_text(&v, c, raw, CHAT_ASSISTANT, "Hi", "<|im_start|>assistant\nHi<|im_end|>\n");
        assert_text(&v, c, ended, CHAT_RAW, "<|im_end|>", "<|im_end|>");
        assert_text(
                &v, c, open, CHAT_SYSTEM, "Hi", "<|im_end|>\n<|im_start|>system\nHi<|im_end|>\n");
        assert_reply(&v, c, closed, "<|im_start|>|a|s|s|i|s|t|a|n|t|\n");
        assert_reply(&v, c, raw, "<|im_start|>|a|s|s|i|s|t|a|n|t|\n");
        chat_free(c);

        /* The end token is not the first thing behind the reply's text. */
        c = whole_chat(&v, template_forms[5].text);
        assert_text(&v, c, ended, CHAT_USER, "Hi", "<s>[INST] Hi [/INST]");
        assert_text(&v, c, open, CHAT_USER, "Hi", " </s><s>[INST] Hi [/INST]");
        assert_text(&v, c, &template_tails[0], CHAT_SYSTEM, "Be.",
                "<s>[INST] <<SYS>>\nBe.\n<</SYS>>\n\n");
        assert_text(&v, c, &template_tails[7], CHAT_USER, " Hi", "Hi [/INST]");
        assert_text(&v, c, &template_tails[7], CHAT_ASSISTANT, "Hi", " [/INST] Hi </s>");
        chat_free(c);

        /* What follows an earlier message only, and what follows the last one only. */
        c = whole_chat(&v, template_forms[9].text);
        assert_text(&v, c, &template_tails[0], CHAT_USER, "Hi", "<s><|user|>\nHi<|end|>\n");
        assert_reply(&v, c, &template_tails[2], "<|assistant|>|\n");
        assert_text(&v, c, open, CHAT_USER, "Hi", "<|end|>\n<|user|>\nHi<|end|>\n");
        chat_free(c);
        vocab_build_deinit(&v);
}

/* Templates that end the last reply otherwise than earlier ones. */
static void test_other_end(void **state) {
        static const char text[] =
                FOR "<|start_header_id|>{{ m.role }}<|end_header_id|>{{ m.content }}"
                    "{% if loop.last and not add_generation_prompt and m.role == 'assistant' %}"
                    "<|eot_id|>{% else %}<|system|>{% endif %}" END
                    "{% if add_generation_prompt %}<|start_header_id|>assistant{% endif %}";
        struct vocab_build v;
        struct chat *c;

        template_vocabulary(&v, "gpt2", false);
        c = whole_chat(&v, text);
        assert_text(&v, c, &template_tails[6], CHAT_USER, "Hi",
                "<|start_header_id|>user<|end_header_id|>Hi<|system|>");
        assert_text(&v, c, &template_tails[5], CHAT_USER, "Hi",
                "<|system|><|start_header_id|>user<|end_header_id|>Hi<|system|>");
        assert_reply(&v, c, &template_tails[2], "<|start_header_id|>|a|s|s|i|s|t|a|n|t");
        assert_non_null(strstr(chat_difference(c, 0), "another token"));
        chat_free(c);
        vocab_build_deinit(&v);
}

/* White space that an end token swallows is swallowed behind one in the history too. */
static void test_swallowed(void **state) {
        struct vocab_build v;
        struct chat *c;
        struct err e;

        vocab_build_phi3(&v, false);
        if (vocab_build_load(&v, &e) < 0)
                fail_msg("%s", e.msg);
        c = whole_chat(&v, template_forms[8].text);
        assert_text(&v, c, &template_tails[6], CHAT_USER, "Hi", "<|user|>Hi<|end|>");
        assert_text(&v, c, &template_tails[5], CHAT_USER, "Hi", "<|end|><|user|>Hi<|end|>");
        assert_text(&v, c, &template_tails[3], CHAT_USER, "Hi", "<|user|>Hi<|end|>");
        chat_free(c);
        vocab_build_deinit(&v);
}

/* A message that the template refuses in its place. */
static void test_refused(void **state) {
        _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
        const struct chat_message system = MESSAGE(CHAT_SYSTEM, "Stop.");
        const struct chat_message bad = MESSAGE(CHAT_USER, "a bad word");
        struct vocab_build v;
        struct chat *c;
        struct err e;

        template_vocabulary(&v, "gpt2", true);
        c = whole_chat(&v, template_forms[6].text);
        assert_text(&v, c, &template_tails[2], CHAT_USER, "Hi",
                "<start_of_turn>user\nHi<end_of_turn>\n");
        assert_text(&v, c, &template_tails[0], CHAT_ASSISTANT, "Hi",
                "<s><start_of_turn>model\nHi<end_of_turn>\n");
        assert_text(&v, c, &template_tails[6], CHAT_ASSISTANT, "Hi",
                "\n<start_of_turn>model\nHi<end_of_turn>\n");
        assert_text(&v, c, &template_tails[5], CHAT_ASSISTANT, "Hi",
                "<end_of_turn>\n<start_of_turn>model\nHi<end_of_turn>\n");
        assert_reply(&v, c, &template_tails[3], "<start_of_turn>|m|o|d|e|l|\n");
        for (size_t i = 1; i < TEMPLATE_TAILS; i++)
                assert_int_equal(
                        chat_append(c, &template_tails[i],
                                &(struct chat_input){.messages = &system, .n = 1}, 0, &ids, &e),
                        -ERR_STATE);
        assert_int_equal(chat_append_reply_start(c, &template_tails[7], 0, &ids, &e), -ERR_STATE);
        chat_free(c);

        c = whole_chat(&v, FOR "{% if 'bad' in m.content %}{{ raise_exception('no bad words') }}"
                               "{% endif %}<|user|>{{ m.content }}" END);
        assert_int_equal(chat_append(c, &template_tails[0],
                                 &(struct chat_input){.messages = &bad, .n = 1}, 0, &ids, &e),
                -ERR_INVALID);
        assert_non_null(strstr(e.msg, "line 1, column "));
        assert_non_null(strstr(e.msg, "no bad words"));
        assert_int_equal(ids.n, 0);
        chat_free(c);
        vocab_build_deinit(&v);
}

/* A text that changes what the template writes in front of it is an error, never a wrong cut. */
static void test_looks_back(void **state) {
        _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
        const struct chat_message m = MESSAGE(CHAT_USER, "turn back");
        struct vocab_build v;
        struct chat *c;
        struct err e;

        template_vocabulary(&v, "gpt2", true);
        c = whole_chat(&v, "{% if 'back' in messages[-1].content %}<|im_start|>look{% endif %}" FOR
                           "<|user|>{{ m.content }}" END);
        assert_int_equal(chat_append(c, &template_tails[0],
                                 &(struct chat_input){.messages = &m, .n = 1}, 0, &ids, &e),
                0);
        ids.n = 0;
        assert_int_equal(chat_append(c, &template_tails[3],
                                 &(struct chat_input){.messages = &m, .n = 1}, 0, &ids, &e),
                -ERR_INVALID);
        assert_int_equal(ids.n, 0);
        chat_free(c);
        vocab_build_deinit(&v);
}

/* --- what is told --- */

static void assert_told(const char *text, const char *family, const char *const *want) {
        struct vocab_build v;
        struct chat *c = NULL;
        size_t i = 0;

        template_vocabulary(&v, "gpt2", true);
        assert_int_equal(chat_new(&c, v.tok, text, strlen(text), NULL, NULL), 0);
        assert_string_equal(chat_family(c), family);
        for (; want[i]; i++)
                if (!chat_difference(c, i) || !strstr(chat_difference(c, i), want[i]))
                        fail_msg("%s instead of %s", chat_difference(c, i), want[i]);
        if (chat_difference(c, i))
                fail_msg("%s", chat_difference(c, i));
        chat_free(c);
        vocab_build_deinit(&v);
}
#define ASSERT_TOLD(text, family, ...)                                                             \
        assert_told(text, family, (const char *[]){__VA_ARGS__, NULL})

/* A given reply is written as an earlier one, which it will be. */
static void test_earlier(void **state) {
        static const char text[] = FOR
                "<|im_start|>{{ m.role }}\n{% if loop.last and m.role == 'assistant' %}<think>\n\n"
                "</think>\n\n{% endif %}{{ m.content }}<|im_end|>\n" END
                "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
        struct vocab_build v;
        struct chat *c;

        template_vocabulary(&v, "gpt2", false);
        c = whole_chat(&v, text);
        assert_null(chat_difference(c, 0));
        assert_text(&v, c, &template_tails[2], CHAT_ASSISTANT, "Hi",
                "<|im_start|>assistant\nHi<|im_end|>\n");
        assert_text(&v, c, &template_tails[0], CHAT_ASSISTANT, "Hi",
                "<|im_start|>assistant\nHi<|im_end|>\n");
        assert_text(&v, c, &template_tails[3], CHAT_USER, "Hi", "<|im_start|>user\nHi<|im_end|>\n");
        assert_text(
                &v, c, &template_tails[6], CHAT_USER, "Hi", "\n<|im_start|>user\nHi<|im_end|>\n");
        chat_free(c);
        vocab_build_deinit(&v);
}

static void test_told(void **state) {
        ASSERT_TOLD(CHATML, "template", NULL);
        ASSERT_TOLD(template_forms[3].text, "template", NULL);
        ASSERT_TOLD(template_forms[4].text, "template", "takes no system message", "in a row");
        ASSERT_TOLD(template_forms[6].text, "template", "in a row");
        ASSERT_TOLD(FOR "<|im_start|>{{ m.role }}\n{{ m.content.split('</think>')[-1] if m.role == "
                        "'assistant' else m.content }}<|im_end|>\n" END,
                "template", "reasoning");
        ASSERT_TOLD("{% if messages[0].role == 'system' %}{% set s = messages[0].content %}"
                    "{% set rest = messages[1:] %}{% else %}{% set rest = messages %}{% endif %}"
                    "{% for m in rest %}{% if m.role == 'user' %}[INST] {% if loop.last and s is "
                    "defined %}{{ s + '\n\n' }}{% endif %}{{ m.content }}[/INST]{% else %}"
                    "{{ m.content + eos_token }}{% endif %}" END,
                "template", "moves the system text");
        ASSERT_TOLD(FOR
                "<|{{ m.role }}|>{% if loop.last %}last: {% endif %}{{ m.content }}<|end|>" END,
                "template", "otherwise than earlier");
        ASSERT_TOLD(FOR "<|{{ m.role }}|>{{ strftime_now('%H:%M') + ' ' + m.content }}<|end|>" END,
                "template", "1 January 1970");
        /* What can't be used, and why. */
        ASSERT_TOLD("{% for m in messages %}\n<|im_start|>{{ m.role ]}<|im_end|>", "chatml",
                "line 2, column 23");
        ASSERT_TOLD("{{ nothing.at.all }}", "none", "line 1, column ", "only raw text");
        ASSERT_TOLD(FOR
                "<|{{ m.role }}|>{{ m.content }}<|end|>" END
                "{% if add_generation_prompt %}{{ raise_exception('no reply') }}{% endif %}",
                "phi3", "no reply");
        ASSERT_TOLD("{{ raise_exception('never') }}", "none", "never", "only raw text");
        ASSERT_TOLD("[INST] <|im_start|>", "chatml", "leaves out the text");
        ASSERT_TOLD("{% for m in messages | reverse %}{{ m.content }}\n" END, "none", "moves it",
                "only raw text");
        ASSERT_TOLD(FOR "{{ m.content }}, {{ m.content }}\n" END, "none", "leaves out",
                "only raw text");
        ASSERT_TOLD("{% for i in range(999) %}{% for i in range(999) %}" END END CHATML, "chatml",
                "takes more than");
        ASSERT_TOLD("{{ 'x' * 9999999 }}" CHATML, "chatml", "bytes");
}

static void assert_end(const struct vocab_build *v, struct chat *c, const char *want) {
        size_t n = 0;
        const char *is = tok_text(v->tok, chat_end_token(c), &n);

        if (n != strlen(want) || memcmp(is, want, n) != 0)
                fail_msg("a reply ends with '%.*s', not '%s'", (int)n, is, want);
        chat_free(c);
}

/* The token that a reply gets which is written instead of sampled: the template's, the family's, else
 * the vocabulary's. */
static void test_end_token(void **state) {
        static const char *const choices[][2] = {
                {"llama3", "<|eot_id|>"}, {"gemma", "<end_of_turn>"}, {"none", "<|eot_id|>"}};
        struct vocab_build v;
        struct chat *c = NULL;

        template_vocabulary(&v, "gpt2", true);
        for (size_t k = 0; k < TEMPLATE_FORMS; k++)
                if (template_forms[k].end)
                        assert_end(
                                &v, whole_chat(&v, template_forms[k].text), template_forms[k].end);
        for (size_t k = 0; k < sizeof(choices) / sizeof(choices[0]); k++) {
                assert_int_equal(
                        chat_new(&c, v.tok, CHATML, strlen(CHATML), choices[k][0], NULL), 0);
                assert_end(&v, c, choices[k][1]);
        }
        vocab_build_deinit(&v);
}

static void test_choice(void **state) {
        struct vocab_build v;
        struct chat *c = NULL;
        struct err e;

        template_vocabulary(&v, "gpt2", true);
        assert_int_equal(chat_new(&c, v.tok, NULL, 0, "llama3", NULL), 0);
        assert_string_equal(chat_family(c), "llama3");
        assert_null(chat_difference(c, 0));
        assert_text(&v, c, &template_tails[6], CHAT_USER, "Hi",
                "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>");
        chat_free(c);
        assert_int_equal(chat_new(&c, v.tok, CHATML, strlen(CHATML), "gemma", NULL), 0);
        assert_string_equal(chat_family(c), "gemma");
        chat_free(c);
        assert_int_equal(chat_new(&c, v.tok, CHATML, strlen(CHATML), "none", NULL), 0);
        assert_string_equal(chat_family(c), "none");
        assert_null(chat_difference(c, 0));
        chat_free(c);
        assert_int_equal(chat_new(&c, v.tok, CHATML, strlen(CHATML), "auto", NULL), 0);
        assert_string_equal(chat_family(c), "template");
        chat_free(c);
        assert_int_equal(chat_new(&c, v.tok, NULL, 0, "chatlm", &e), -ERR_INVALID);
        assert_non_null(strstr(e.msg, "\"chatlm\" is none of auto, none, "));
        assert_non_null(strstr(e.msg, "chatml"));
        vocab_build_deinit(&v);
}

/* The first message may tell the date, and it is the conversation's. */
static void test_date(void **state) {
        static const char text[] =
                "{% if messages[0].role == 'system' %}Today: {{ strftime_now('%d %b %Y') }}\n"
                "{{ messages[0].content + '<|end|>' }}{% endif %}"
                "{% for m in messages if m.role != 'system' %}"
                "<|{{ m.role }}|>{{ m.content }}<|end|>" END;
        const struct chat_tail first = {
                .state = CHAT_EMPTY, .created_usec = (uint64_t)1700000000 * 1000000};
        struct vocab_build v;
        struct chat *c;

        template_vocabulary(&v, "gpt2", false);
        c = whole_chat(&v, text);
        assert_null(chat_difference(c, 0));
        assert_text(&v, c, &first, CHAT_SYSTEM, "Be.", "Today: 14 Nov 2023\nBe.<|end|>");
        assert_text(&v, c, &template_tails[1], CHAT_USER, "Hi", "<|user|>Hi<|end|>");
        chat_free(c);
        vocab_build_deinit(&v);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_tails),
                cmocka_unit_test(test_other_end),
                cmocka_unit_test(test_swallowed),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_looks_back),
                cmocka_unit_test(test_earlier),
                cmocka_unit_test(test_told),
                cmocka_unit_test(test_end_token),
                cmocka_unit_test(test_choice),
                cmocka_unit_test(test_date),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
