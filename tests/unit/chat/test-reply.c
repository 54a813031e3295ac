/* SPDX-License-Identifier: MIT */
/* Replies taken apart: what each format's marks mean, however the text is cut into tokens. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/charge.h"
#include "base/err.h"
#include "base/ledger.h"
#include "chat/reply-internal.h"
#include "unit/chat/reply-cases.h"
#include "unit/chat/reply-rig.h"
#include "util/test.h"

static const char hermes[] = "<tool_call></tool_call> '</think>'";

static void read_cut(const struct reply_rig *rig, const char *text, enum reply_cut cut,
        uint64_t random, struct reply_heard *ret) {
        _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;

        reply_rig_cut(rig, text, strlen(text), cut, random, &ids);
        assert_int_equal(reply_rig_read(rig, ids.ids, ids.n, true, ret, NULL), 0);
}

static void assert_said(const struct reply_heard *h, const char *said) {
        assert_string_equal(h->said.size ? (const char *)h->said.data : "", said);
}

/* The reply, in every way of cutting. */
static void check_reply(const char *template_text, const char *header, const char *tools,
        const char *text, const char *said) {
        struct reply_rig rig;

        reply_rig_init(&rig);
        reply_rig_pieces(&rig, text, strlen(text), 7);
        reply_rig_load(&rig, template_text);
        rig.header = header;
        rig.tools = tools;
        print_message("%.70s\n", text);
        for (uint64_t random = 0; random < 12; random++) {
                _cleanup_(reply_heard_deinit) struct reply_heard heard = REPLY_HEARD_NULL;
                enum reply_cut cut = random < 2 ? (enum reply_cut)(random * 2) : REPLY_CUT_RANDOM;

                read_cut(&rig, text, cut, random * 1234567, &heard);
                assert_said(&heard, said);
        }
        reply_rig_deinit(&rig);
}

static void test_hermes(void **state) {
        check_reply(hermes, NULL, NULL, "Hello", "text<Hello> ");
        check_reply(hermes, NULL, NULL,
                "<think>\nLet me see.\n</think>\n\nOne moment.\n<tool_call>\n{\"name\": \"f\", "
                "\"arguments\": {\"a\": [1, \"x\"]}}\n</tool_call>\n<tool_call>\n{\"name\": "
                "\"g\"}\n</tool_call>",
                "reasoning<Let me see.> text<One moment.> call f<{\"a\": [1, \"x\"]}> call g<{}> ");
        check_reply(hermes, "assistant\n<think>\n", NULL, "Hm.\n</think>\n\nYes",
                "reasoning<Hm.> text<Yes> ");
        check_reply(hermes, "assistant\n<think>\n\n</think>\n\n", NULL, "Yes", "text<Yes> ");
}

static void load_case(struct reply_rig *rig, const struct reply_case *c, bool control) {
        reply_rig_init(rig);
        if (control)
                reply_rig_marks(rig);
        else
                reply_rig_pieces(rig, c->text, strlen(c->text), 7);
        reply_rig_load(rig, c->template_text);
        rig->header = c->header;
        rig->tools = reply_case_tools;
        if (strcmp(chat_reply_format(rig->chat), c->format) != 0)
                fail_msg("%s, not %s", chat_reply_format(rig->chat), c->format);
}

/* The reply of every row. */
static void test_formats(void **state) {
        for (size_t i = 0; i < reply_n_cases; i++) {
                const struct reply_case *c = &reply_cases[i];
                struct reply_rig rig;

                load_case(&rig, c, false);
                reply_rig_deinit(&rig);
                check_reply(c->template_text, c->header, reply_case_tools, c->text, c->said);
        }
        for (size_t i = 0; i < reply_n_calls; i++) {
                bool found = false;

                for (size_t k = 0; k < reply_n_cases; k++)
                        found = found || strcmp(reply_cases[k].format, reply_calls[i].name) == 0;
                if (!found)
                        fail_msg("no reply of %s", reply_calls[i].name);
        }
}

/* The same replies, their marks being control tokens as in most vocabularies. */
static void test_control_tokens(void **state) {
        for (size_t i = 0; i < reply_n_cases; i++) {
                const struct reply_case *c = &reply_cases[i];
                _cleanup_(reply_heard_deinit) struct reply_heard heard = REPLY_HEARD_NULL;
                struct reply_rig rig;

                if (strcmp(c->format, "none") == 0)
                        continue;
                load_case(&rig, c, true);
                read_cut(&rig, c->text, REPLY_CUT_LONGEST, 0, &heard);
                assert_said(&heard, c->said);
                reply_rig_deinit(&rig);
        }
}

/* Cut off anywhere, a reply has the parts of the whole one up to there: what was said before the end
 * was known is the beginning of what the whole reply says. */
static void test_cut_off(void **state) {
        for (size_t i = 0; i < reply_n_cases; i++) {
                const struct reply_case *c = &reply_cases[i];
                _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
                struct reply_rig rig;

                load_case(&rig, c, false);
                reply_rig_cut(&rig, c->text, strlen(c->text), REPLY_CUT_BYTES, 0, &ids);
                for (size_t n = 0; n <= ids.n; n++) {
                        _cleanup_(reply_heard_deinit) struct reply_heard open = REPLY_HEARD_NULL,
                                                                         over = REPLY_HEARD_NULL;

                        assert_int_equal(reply_rig_read(&rig, ids.ids, n, false, &open, NULL), 0);
                        assert_int_equal(reply_rig_read(&rig, ids.ids, n, true, &over, NULL), 0);
                        assert_true(open.said.size <= over.said.size);
                        if (open.said.size == 0)
                                continue;
                        assert_memory_equal(open.said.data, c->said, open.said.size);
                        assert_memory_equal(open.said.data, over.said.data, open.said.size);
                        assert_true(over.n_parts <= open.n_parts + 1);
                }
                reply_rig_deinit(&rig);
        }
}

/* --- what is not well formed --- */

#define OBJECT "<tool_call> </tool_call>"
#define TAGS "<tool_call> <function= <parameter="
#define NO_OBJECT "!its arguments are no JSON object "

static const struct {
        const char *template_text, *text, *said;
} malformed[] = {
        {OBJECT, "<tool_call>no</tool_call> Hm.", "text<<tool_call>no</tool_call> Hm.> "},
        {OBJECT, "<tool_call></tool_call>Hm.", "text<<tool_call></tool_call>Hm.> "},
        {OBJECT, "The mark\n <tool_call> \n opens a call.",
                "text<The mark\n <tool_call> \n opens a call.> "},
        {OBJECT, "a <tool_call> <tool_call>{\"name\": \"f\"}</tool_call>",
                "text<a <tool_call>> call f<{}> "},
        {OBJECT, "<tool_call> [1]</tool_call>Hm.", "call <>!it is no JSON object text<Hm.> "},
        {"<|python_tag|>", "<|python_tag|>import x",
                "call <>!its name is followed by no arguments "},
        {OBJECT, "<tool_call>{}</tool_call>Hm.", "call <>!it has no name text<Hm.> "},
        {OBJECT, "<tool_call>{\"name\": \"\"}</tool_call>", "call <>!its name is empty "},
        {OBJECT, "<tool_call>{\"name\": 1}</tool_call>", "call <>!its name is no string "},
        {OBJECT, "<tool_call>{\"name\": \"f\", \"name\": \"g\"}</tool_call>",
                "call f<>!it has two names "},
        {OBJECT, "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>",
                "call f<>" NO_OBJECT},
        {OBJECT, "<tool_call>{\"name\": \"f\", \"arguments\": \"x\"}</tool_call>",
                "call f<>" NO_OBJECT},
        {OBJECT, "<tool_call>{\"name\": \"f\", \"arguments\": \"{\"}</tool_call>",
                "call f<{>" NO_OBJECT},
        {OBJECT, "<tool_call>{\"name\": \"f\", \"arguments\": {}, \"parameters\": {}}</tool_call>",
                "call f<{}>!it has arguments twice "},
        {OBJECT, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1,}}</tool_call>Hm.",
                "call f<{\"a\": 1,>" NO_OBJECT "text<Hm.> "},
        {OBJECT, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": tru}}</tool_call>",
                "call f<{\"a\": tru>" NO_OBJECT},
        {OBJECT, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 01}}</tool_call>",
                "call f<{\"a\": 0>" NO_OBJECT},
        {OBJECT, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"\\x\"}}</tool_call>",
                "call f<{\"a\": \"\\>" NO_OBJECT},
        {OBJECT, "<tool_call>{\"name\": \"f\"</tool_call><tool_call>{\"name\": \"g\"}</tool_call>",
                "call f<>!it is no JSON object call g<{}> "},
        {OBJECT, "<tool_call>[{\"name\": \"f\"}, 1]</tool_call>Hm.",
                "call f<{}> call <>!it is no JSON object text<Hm.> "},
        /* What has no end reaches to the end. */
        {OBJECT, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1} Hm.",
                "call f<{\"a\": 1}>!it is no JSON object "},
        {OBJECT, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\"",
                "call f<{\"a\">!the reply ended before the call did "},
        {OBJECT, "<tool_call>{\"arguments\": {}, \"name\": \"f",
                "call <>!the reply ended before the call did "},
        {OBJECT, "Hm.<tool_call>\n", "text<Hm.> "},
        /* A whole call needs no closing mark. */
        {OBJECT, "<tool_call>{\"name\": \"f\"} Hm.", "call f<{}> text<Hm.> "},
        {OBJECT, "<tool_call>{\"name\": \"f\"}<tool_call>{\"name\": \"g\"}",
                "call f<{}> call g<{}> "},
        /* Controls in strings become escapes. */
        {OBJECT, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"\n\t\001\"}}</tool_call>",
                "call f<{\"a\": \"\\n\\t\\u0001\"}> "},
        /* Closing marks in strings do not close. */
        {OBJECT,
                "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": "
                "\"</tool_call>\"}}</tool_call>",
                "call f<{\"a\": \"</tool_call>\"}> "},
        /* Text like a mark. */
        {OBJECT, "a <tool_cal <tool_call", "text<a <tool_cal <tool_call> "},
        {OBJECT, "a </tool_call> b", "text<a </tool_call> b> "},
        {TAGS, "<tool_call>f</tool_call>", "call <>!it begins without its mark "},
        {TAGS, "<tool_call><function=></function></tool_call>", "call <>!its name is empty "},
        {TAGS, "<tool_call><function=f>x</function></tool_call>Hm.",
                "call f<>!it has text between its parameters text<Hm.> "},
        {TAGS, "<tool_call><function=f><parameter=a>1</function></tool_call>",
                "call f<{\"a\": \"1</function></tool_call>>!the reply ended before the call did "},
        {TAGS, "<tool_call><function=f><parameter=a>1</parameter></tool_call>",
                "call f<{\"a\": 1}> "},
        {TAGS, "<tool_call><function=f", "call <>!the reply ended before the call did "},
        {"<arg_key> <arg_value>", "<tool_call>f\n<arg_key>a</arg_key>1</tool_call>Hm.",
                "call f<{\"a\": >!it has text between its parameters text<Hm.> "},
        {"<arg_key> <arg_value>", "<tool_call></tool_call>Hm.",
                "call <>!its name is empty text<Hm.> "},
        {"[TOOL_CALLS]", "[TOOL_CALLS]f[ARGS]1[TOOL_CALLS]g[ARGS]{}",
                "call f<>" NO_OBJECT "call g<{}> "},
        {"[TOOL_CALLS]", "[TOOL_CALLS]f{}", "call f<{}> "},
        {"[TOOL_CALLS]", "[TOOL_CALLS]f", "call <>!the reply ended before the call did "},
        {"[TOOL_CALLS]", "[TOOL_CALLS][ARGS]{}", "call <>!its name is empty "},
        {"<｜tool▁call▁begin｜>", "<｜tool▁calls▁begin｜>x<｜tool▁calls▁end｜>Hm.",
                "call <>!it begins without its mark text<Hm.> "},
        {"<｜tool▁call▁begin｜>",
                "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\nx\n{}<｜tool▁call▁end｜>Hm.",
                "call f<>" NO_OBJECT "text<Hm.> "},
        {"<｜tool▁call▁begin｜>", "<｜tool▁call▁begin｜>f<｜tool▁sep｜><｜tool▁call▁end｜>Hm.",
                "call f<{}> text<Hm.> "},
        {"<|tool_list_start|>", "<|tool_call_start|>[f(1)]<|tool_call_end|>Hm.",
                "call f<{\"1>!its arguments can't be read text<Hm.> "},
        {"<|tool_list_start|>", "<|tool_call_start|>[f(a=b)]<|tool_call_end|>",
                "call f<{\"a\": >!its arguments can't be read "},
        {"<|tool_list_start|>", "<|tool_call_start|>[f(a=[1}]<|tool_call_end|>",
                "call f<{\"a\": [1>!its arguments can't be read "},
        {"<|tool_list_start|>", "<|tool_call_start|>[f(a=\"x\"<|tool_call_end|>",
                "call f<{\"a\": \"x\">!its arguments have no end "},
        {"<|tool_list_start|>", "<|tool_call_start|>[{\"name\": \"f\"}]<|tool_call_end|>",
                "call f<{}> "},
        {"<|tool_list_start|>", "<|tool_call_start|>[f(a=\"\\xg\")]<|tool_call_end|>",
                "call f<{\"a\": \"\\u00>!its arguments can't be read "},
        {"<|tool_call> <tool_call|>", "<|tool_call>call:f{a:b}<tool_call|>Hm.",
                "call f<{\"a\": >!its arguments can't be read text<Hm.> "},
        {"<|tool_call> <tool_call|>", "<|tool_call>f{a:<|\"|>x<|\"|>}<tool_call|>",
                "call f<{\"a\": \"x\"}> "},
        {"<|channel|> <|start|> <|message|>",
                "<|channel|>commentary to=f<|message|>x<|call|><|start|>assistant<|channel|>final"
                "<|message|>Hm.",
                "call f<>" NO_OBJECT "text<Hm.> "},
        {"<|channel|> <|start|> <|message|>",
                "<|channel|>commentary to=f<|message|>{\"a\": <|end|>Hm.",
                "call f<{\"a\": >" NO_OBJECT "text<Hm.> "},
        {"<|channel|> <|start|> <|message|>", "<|channel|>analysis", ""},
        /* Strings can't have a NUL. */
        {OBJECT,
                "<tool_call>{\"name\": \"f\\u0000\", \"arguments\": \"{\\\"a\\\": "
                "\\\"\\u0000\\\"}\"}</tool_call>",
                "call f\uFFFD<{\"a\": \"\\u0000\"}> "},
        {"</think>", "a <think>b", "text<a> reasoning<b> "},
        {"</think>", "a </think> b", "text<a </think> b> "},
        {"</think>", "<think>\n\n</think>\n\n", ""},
        {"</think>", " \n a\n", "text< \n a\n> "},
};

static void test_malformed(void **state) {
        for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++)
                check_reply(malformed[i].template_text, NULL, NULL, malformed[i].text,
                        malformed[i].said);
}

/* --- bytes and tokens --- */

/* Ill-formed bytes become U+FFFD as in the text of a turn, and control tokens print nothing. */
static void test_characters(void **state) {
        _cleanup_(reply_heard_deinit) struct reply_heard heard = REPLY_HEARD_NULL;
        struct reply_rig rig;
        int32_t control,
                tokens[] = {'a', 0xC3, 0xA9, 0xFF, 0xE2, 0x82, 'b', 0, -1, 1 << 30, 0, 0xC3};

        reply_rig_init(&rig);
        control = reply_rig_control(&rig, "<|x|>");
        reply_rig_load(&rig, "");
        tokens[7] = control;
        assert_int_equal(reply_rig_read(&rig, tokens, 12, true, &heard, NULL), 0);
        assert_said(&heard, "text<aé\uFFFD\uFFFD\uFFFDb\uFFFD\uFFFD> ");
        reply_rig_deinit(&rig);
}

/* The first token of a reply behind a special token has a space that is not text, in vocabularies of
 * pieces: as in the text of a turn. */
static void test_first_space(void **state) {
        struct reply_rig rig = {.n_pieces = 0};
        int32_t mark, word;

        vocab_build_init(&rig.vocab, "llama");
        vocab_build_spm_bytes(&rig.vocab);
        mark = vocab_build_add(&rig.vocab, "<|x|>", V_CONTROL, 0);
        word = vocab_build_add(&rig.vocab, "\u2581a", V_NORMAL, 0);
        reply_rig_load(&rig, "");
        for (int special = 0; special < 2; special++) {
                const int32_t header[] = {mark, word}, tokens[] = {word, word};
                _cleanup_(reply_heard_deinit) struct reply_heard heard = REPLY_HEARD_NULL;
                struct chat_reply *r = NULL;

                assert_int_equal(chat_reply_new(&r, rig.chat, NULL, 0, NULL, NULL), 0);
                assert_int_equal(chat_reply_header(r, header, special ? 1 : 2, NULL), 0);
                for (size_t i = 0; i < 2; i++)
                        assert_int_equal(
                                chat_reply_push(r, tokens[i], reply_heard_event, &heard, NULL), 0);
                assert_int_equal(chat_reply_finish(r, reply_heard_event, &heard, NULL), 0);
                assert_said(&heard, special ? "text<a a> " : "text< a a> ");
                chat_reply_free(r);
        }
        reply_rig_deinit(&rig);
}

/* A control token within a call breaks it, but within its strings prints nothing. */
static void test_control_in_calls(void **state) {
        static const char before[] = "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"x",
                          behind[] = "y\"}}</tool_call>Hm.";
        _cleanup_(reply_heard_deinit) struct reply_heard heard = REPLY_HEARD_NULL,
                                                         again = REPLY_HEARD_NULL;
        _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
        struct reply_rig rig;
        int32_t control, end;

        reply_rig_init(&rig);
        control = reply_rig_control(&rig, "<|x|>");
        end = reply_rig_control(&rig, "</tool_call>");
        reply_rig_load(&rig, OBJECT);
        reply_rig_cut(&rig, before, strlen(before), REPLY_CUT_BYTES, 0, &ids);
        assert_int_equal(tok_ids_append(&ids, &control, 1, NULL), 0);
        reply_rig_cut(&rig, behind, strlen(behind), REPLY_CUT_BYTES, 0, &ids);
        assert_int_equal(reply_rig_read(&rig, ids.ids, ids.n, true, &heard, NULL), 0);
        assert_said(&heard, "call f<{\"a\": \"xy\"}> text<Hm.> ");
        ids.n = 0;
        reply_rig_cut(&rig, before, strlen(before) - 7, REPLY_CUT_BYTES, 0, &ids);
        assert_int_equal(tok_ids_append(&ids, &end, 1, NULL), 0);
        reply_rig_cut(&rig, "Hm.", 3, REPLY_CUT_BYTES, 0, &ids);
        assert_int_equal(reply_rig_read(&rig, ids.ids, ids.n, true, &again, NULL), 0);
        assert_said(&again, "call f<{>" NO_OBJECT "text<Hm.> ");
        reply_rig_deinit(&rig);
}

static int note_token(void *arg, const struct chat_part_event *event, struct err *e) {
        uint32_t *tokens = arg;

        if (event->begins)
                tokens[event->index] = event->n_tokens_before;
        return 0;
}

/* The token in which a part begins. */
static void test_places(void **state) {
        static const char text[] =
                "\n<think>a</think>\n b<tool_call>\n[{\"name\": \"f\"}, {\"name\": "
                "\"g\"}]</tool_call>";
        _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
        uint32_t begins[4] = {0};
        struct chat_reply *r = NULL;
        struct reply_rig rig;

        reply_rig_init(&rig);
        reply_rig_load(&rig, hermes);
        reply_rig_cut(&rig, text, strlen(text), REPLY_CUT_BYTES, 0, &ids);
        assert_int_equal(chat_reply_new(&r, rig.chat, NULL, 0, NULL, NULL), 0);
        for (size_t i = 0; i < ids.n; i++)
                assert_int_equal(chat_reply_push(r, ids.ids[i], note_token, begins, NULL), 0);
        assert_int_equal(chat_reply_finish(r, note_token, begins, NULL), 0);
        assert_int_equal(begins[0], strchr(text, 'a') - text);
        assert_int_equal(begins[1], strchr(text, 'b') - text);
        assert_int_equal(begins[2], strchr(text, '{') - text);
        assert_int_equal(begins[3], strrchr(text, '{') - text);
        chat_reply_free(r);
        reply_rig_deinit(&rig);
}

/* An error of the receiver ends the reading, and is given back. */
static void test_receiver(void **state) {
        static const char text[] = "<think>a</think>b<tool_call>{\"name\": \"f\"}</tool_call>";
        _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
        struct reply_rig rig;
        long n = 0;
        int r;

        reply_rig_init(&rig);
        reply_rig_load(&rig, hermes);
        reply_rig_cut(&rig, text, strlen(text), REPLY_CUT_BYTES, 0, &ids);
        do {
                _cleanup_(reply_heard_deinit) struct reply_heard heard = REPLY_HEARD_NULL;

                heard.fail_at = n++;
                r = reply_rig_read(&rig, ids.ids, ids.n, true, &heard, NULL);
                assert_true(r == 0 || r == -ERR_CANCELLED);
        } while (r < 0);
        assert_true(n > 4);
        reply_rig_deinit(&rig);
}

/* --- bounds --- */

static void repeat(struct buf *out, const char *text, size_t size) {
        while (out->size < size)
                assert_int_equal(buf_append_str(out, text), 0);
}

static uint64_t steps_of(const struct reply_rig *rig, const char *begins, const char *repeated,
        size_t size, struct charge *charge) {
        _cleanup_(reply_heard_deinit) struct reply_heard heard = REPLY_HEARD_NULL;
        _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
        _cleanup_(buf_deinit) struct buf text = BUF_NULL;
        uint64_t steps = 0;

        assert_int_equal(buf_append_str(&text, begins), 0);
        repeat(&text, repeated, size);
        reply_rig_cut(rig, (char *)text.data, text.size, REPLY_CUT_BYTES, 0, &ids);
        assert_int_equal(reply_rig_read(rig, ids.ids, ids.n, true, &heard, &steps), 0);
        return steps;
}

/* What could take more than linear time, or much memory. */
static const struct {
        const char *template_text, *begins, *repeated;
} long_replies[] = {
        {OBJECT, "", "<"},
        {OBJECT, "", "<tool_cal"},
        {OBJECT, "", " "},
        {OBJECT, "a", " \n"},
        {OBJECT, "", "a "},
        {OBJECT, "", "<tool_call>"},
        {OBJECT, "<tool_call>", "["},
        {OBJECT, "<tool_call>", "{\"a\":"},
        {OBJECT, "<tool_call>{\"arguments\": {\"a\": \"", "\\\""},
        {OBJECT, "<tool_call>{\"name\": \"", "f"},
        {OBJECT, "<tool_call>{\"name\": \"f\", \"arguments\": \"", "\\\""},
        {OBJECT, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": [", "1, "},
        {"<|python_tag|>", "", "{\"name\": "},
        {"<|python_tag|>", "", "{"},
        {"<|python_tag|>", "{\"type\": \"", "f"},
        {"<|python_tag|>", "", "[f(a=1)]"},
        {TAGS, "<function=f><parameter=a>", "1"},
        {TAGS, "<function=f><parameter=a>[", "1,"},
        {TAGS, "<function=f><parameter=a>", "\n"},
        {TAGS, "<function=f><parameter=s>", "</parameter"},
        {TAGS, "<function=f>", "<parameter=a>1</parameter>"},
        {TAGS, "", "<function=f>"},
        {TAGS, "<function=", "f"},
        {"[TOOL_CALLS]", "", "[TOOL_CALLS]"},
        {"[TOOL_CALLS]", "[TOOL_CALLS]f[CALL_ID]", "x"},
        {"<|tool_list_start|>", "<|tool_call_start|>[f(a=", "["},
        {"<|tool_list_start|>", "<|tool_call_start|>[f(a=", "1"},
        {"<|tool_list_start|>", "<|tool_call_start|>[", "f(),"},
        {"<|channel|> <|start|> <|message|>", "", "<|channel|>"},
        {"<|channel|> <|start|> <|message|>", "<|channel|>", "a"},
        {"<|channel|> <|start|> <|message|>", "<|channel|>", "a<|start|>to=f<|message|>"},
        {"</think>", "<think>", "</thin"},
};

enum { MOST_STEPS = 100 };

static void test_bounds(void **state) {
        for (size_t i = 0; i < sizeof(long_replies) / sizeof(long_replies[0]); i++) {
                struct ledger ledger = LEDGER_INIT((size_t)64 << 20);
                struct charge charge = {.ledger = &ledger};
                struct reply_rig rig;
                uint64_t some, more;

                reply_rig_init(&rig);
                reply_rig_load(&rig, long_replies[i].template_text);
                rig.tools = reply_case_tools;
                rig.charge = &charge;
                some = steps_of(
                        &rig, long_replies[i].begins, long_replies[i].repeated, 40000, &charge);
                more = steps_of(
                        &rig, long_replies[i].begins, long_replies[i].repeated, 160000, &charge);
                print_message("%s%s: %.1f, %.1f steps for a byte\n", long_replies[i].begins,
                        long_replies[i].repeated, (double)some / 40000, (double)more / 160000);
                assert_true(more < (uint64_t)160000 * MOST_STEPS);
                assert_true(some >= 40000 && more >= 160000); /* they are counted */
                assert_int_equal(charge.size, 0);
                assert_int_equal(ledger_used(&ledger), 0);
                /* The reader, and two buffers that double up to their bound. */
                assert_true(ledger_peak(&ledger) < 4 * CHAT_REPLY_HELD + 65536);
                reply_rig_deinit(&rig);
        }
}

/* Arguments wait for the name, and values for their type, up to a bound. */
static void test_held(void **state) {
        static const struct {
                const char *template_text, *begins, *ends, *broken;
        } cases[] = {
                {OBJECT, "<tool_call>{\"arguments\": {\"a\": \"",
                        "\"}, \"name\": \"f\"}</tool_call>",
                        "too many bytes of arguments stand in front of its name"},
                {TAGS, "<function=f><parameter=x>[\"", "\"]</parameter></function>",
                        "the value of a parameter is too long"},
        };

        for (size_t i = 0; i < 4; i++) {
                _cleanup_(reply_heard_deinit) struct reply_heard heard = REPLY_HEARD_NULL;
                _cleanup_(buf_deinit) struct buf text = BUF_NULL;
                struct reply_rig rig;
                bool fits = i < 2;

                assert_int_equal(buf_append_str(&text, cases[i % 2].begins), 0);
                repeat(&text, "é", CHAT_REPLY_HELD + (fits ? -100 : 100));
                assert_int_equal(buf_append_str(&text, cases[i % 2].ends), 0);
                reply_rig_init(&rig);
                reply_rig_load(&rig, cases[i % 2].template_text);
                read_cut(&rig, (char *)text.data, REPLY_CUT_BYTES, 0, &heard);
                assert_int_equal(heard.n_calls, 1);
                assert_int_equal(heard.n_broken, !fits);
                assert_true(fits || strstr((char *)heard.said.data, cases[i % 2].broken));
                reply_rig_deinit(&rig);
        }
}

/* --- the rows --- */

/* No mark is the beginning of another one that is looked for at the same time: so the first that is
 * complete is meant. */
static void check_marks(const struct reply_marks *m, const char *row) {
        for (size_t i = 0; i < m->n; i++)
                for (size_t k = 0; k < m->n; k++)
                        if (i != k &&
                                strncmp(m->mark[i].text, m->mark[k].text, m->mark[i].size) == 0)
                                fail_msg("%s: %s and %s", row, m->mark[i].text, m->mark[k].text);
}

static void test_marks(void **state) {
        struct reply_rig rig;

        reply_rig_init(&rig);
        reply_rig_load(&rig, "");
        for (size_t i = 0; i < reply_n_calls; i++)
                for (size_t k = 0; k < reply_n_thinking * reply_n_wraps; k++) {
                        const struct reply_rules rules = {.tok = rig.vocab.tok,
                                .calls = &reply_calls[i],
                                .thinking = &reply_thinking[k % reply_n_thinking],
                                .wrap = &reply_wraps[k / reply_n_thinking]};
                        struct chat_reply *r = NULL;

                        assert_int_equal(reply_new(&r, &rules, NULL, 0, NULL, NULL), 0);
                        for (size_t s = 0; s < REPLY_N_STATES; s++)
                                check_marks(&r->marks[s], reply_calls[i].name);
                        reply_call_start(r); /* makes the machine's sets */
                        for (size_t s = 0; s < REPLY_N_SETS; s++)
                                check_marks(&r->sets[s], reply_calls[i].name);
                        chat_reply_free(r);
                }
        reply_rig_deinit(&rig);
}

/* A row is chosen by literals of the template, else by tokens of the vocabulary. */
static void test_choice(void **state) {
        static const struct {
                const char *template_text, *tokens[3], *format;
                bool reasons;
        } cases[] = {
                {"", {NULL}, "none", false},
                {"", {"[TOOL_CALLS]"}, "mistral", false},
                {"", {"<think>", "</think>"}, "none", true},
                {"", {"<think>"}, "none", false},
                {"<tool_call> </tool_call>", {"[TOOL_CALLS]"}, "hermes", false},
                {"<tool_call>", {NULL}, "none", false},
                {"", {"<|channel|>", "<|message|>", "<|constrain|>"}, "gpt-oss", true},
                {"", {"<|tool_call_start|>"}, "lfm2", false},
                {"<tool_call> </tool_call> <function= <parameter= </think>", {NULL}, "qwen3-coder",
                        true},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct reply_rig rig;

                reply_rig_init(&rig);
                for (size_t k = 0; k < 3 && cases[i].tokens[k]; k++)
                        reply_rig_control(&rig, cases[i].tokens[k]);
                reply_rig_load(&rig, cases[i].template_text);
                assert_string_equal(chat_reply_format(rig.chat), cases[i].format);
                assert_int_equal(chat_reasons(rig.chat), cases[i].reasons);
                reply_rig_deinit(&rig);
        }
}

/* A token that is no special one does not choose. */
static void test_choice_ordinary(void **state) {
        struct reply_rig rig;

        reply_rig_init(&rig);
        vocab_build_add(&rig.vocab, "[TOOL_CALLS]", V_NORMAL, 0);
        reply_rig_load(&rig, NULL);
        assert_string_equal(chat_reply_format(rig.chat), "none");
        reply_rig_deinit(&rig);
}

/* docs/models.md has all rows, with the models that they are for, and no others. */
static void test_docs(void **state) {
        _cleanup_(fclosep) FILE *f = fopen(TEST_SOURCE_ROOT "/docs/models.md", "r");
        _cleanup_(freep) char *text = calloc(1, 1 << 20);
        const char *table, *end;
        size_t n = 0;

        assert_non_null(f);
        assert_true(fread(text, 1, (1 << 20) - 1, f) > 10000);
        table = strstr(text, "\n| format | models | a call |\n|---|---|---|\n");
        assert_non_null(table);
        table = strchr(strchr(table + 1, '\n') + 1, '\n');
        end = strstr(table, "\n\n");
        for (const char *line = table; line < end; line = strchr(line + 1, '\n'), n++) {
                char row[400];

                assert_true(n < reply_n_calls);
                snprintf(row, sizeof(row), "\n| `%s` | %s | ", reply_calls[n].name,
                        reply_calls[n].models);
                if (strncmp(line, row, strlen(row)) != 0)
                        fail_msg("docs/models.md: not in its place:%s", row);
        }
        assert_int_equal(n, reply_n_calls);
        for (size_t i = 0; i < reply_n_thinking; i++)
                if (reply_thinking[i].open[0] != 'H') /* a sentence */
                        assert_non_null(strstr(end, reply_thinking[i].open));
}

/* --- definitions --- */

static void test_tools(void **state) {
        static const char *const bad[] = {"", "x", "[", "{}", "1", "[1] x", "[{\"a\": }]"};
        static const char *const odd[] = {"[]", " [ ] ", "[1, \"a\", [], null, -1.5e3]",
                "[{\"function\": 1}]", "[{\"name\": 1, \"parameters\": [{}]}]",
                "[{\"name\": \"f\", \"parameters\": {\"properties\": {\"a\": 1}}}, 3]",
                "[{\"parameters\": {\"properties\": {\"b\": {\"type\": 2}}}}]"};
        struct reply_tools *t = NULL;
        struct reply_rig rig;
        struct err e;

        reply_rig_init(&rig);
        reply_rig_load(&rig, "");
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                struct chat_reply *r = NULL;

                assert_int_equal(chat_reply_new(&r, rig.chat, bad[i], strlen(bad[i]), NULL, &e),
                        -ERR_INVALID);
                assert_int_equal(strncmp(e.msg, "tools: ", 7), 0);
                assert_null(r);
        }
        for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
                assert_int_equal(reply_tools_new(&t, odd[i], strlen(odd[i]), NULL, NULL), 0);
                assert_false(reply_tools_has(t, "g", 1));
                t = reply_tools_free(t);
        }
        assert_int_equal(
                reply_tools_new(&t, reply_case_tools, strlen(reply_case_tools), NULL, NULL), 0);
        assert_true(reply_tools_has(t, "f", 1) && reply_tools_has(t, "g", 1));
        assert_false(reply_tools_has(t, "fg", 2) || reply_tools_has(t, "", 0));
        assert_int_equal(reply_tools_type(t, "f", "s", 1), REPLY_TYPE_STRING);
        assert_int_equal(reply_tools_type(t, "f", "n", 1), REPLY_TYPE_OTHER);
        assert_int_equal(reply_tools_type(t, "f", "x", 1), REPLY_TYPE_ANY);
        assert_int_equal(reply_tools_type(t, "f", "nn", 2), REPLY_TYPE_ANY);
        assert_int_equal(reply_tools_type(t, "g", "s", 1), REPLY_TYPE_ANY);
        assert_int_equal(reply_tools_type(NULL, "g", "s", 1), REPLY_TYPE_ANY);
        reply_tools_free(t);
        reply_rig_deinit(&rig);
}

/* Many functions with many parameters, each found. */
static void test_many_tools(void **state) {
        _cleanup_(buf_deinit) struct buf text = BUF_NULL;
        struct reply_tools *t = NULL;
        char name[16], key[16];

        buf_append_str(&text, "[");
        for (int i = 0; i < 200; i++) {
                buf_printf(&text, "%s{\"parameters\": {\"properties\": {", i ? "," : "");
                for (int k = 0; k < 10; k++)
                        buf_printf(&text, "%s\"k%d\": {\"type\": \"%s\"}", k ? "," : "", k * 7 % 10,
                                (i + k * 7 % 10) % 2 ? "string" : "integer");
                buf_printf(&text, "}}, \"name\": \"f\\u0065%d\"}", i);
        }
        assert_int_equal(buf_append_str(&text, "]"), 0);
        assert_int_equal(reply_tools_new(&t, (char *)text.data, text.size, NULL, NULL), 0);
        for (int i = 0; i < 2000; i++) {
                snprintf(name, sizeof(name), "fe%d", i / 10);
                snprintf(key, sizeof(key), "k%d", i % 10);
                assert_true(reply_tools_has(t, name, strlen(name)));
                assert_int_equal(reply_tools_type(t, name, key, strlen(key)),
                        (i / 10 + i % 10) % 2 ? REPLY_TYPE_STRING : REPLY_TYPE_OTHER);
        }
        reply_tools_free(t);
}

/* --- JSON --- */

static bool json_ok(const char *text) {
        struct reply_json j;

        reply_json_init(&j);
        for (; *text; text++)
                if (reply_json_byte(&j, (uint8_t)*text) & REPLY_JSON_ERROR)
                        return false;
        return reply_json_finish(&j);
}

static void test_json(void **state) {
        static const char *const good[] = {"0", "-0", "1.5", "1e5", "-1.25E-10", "true", "false",
                "null", "\"\"", "\"\\ud83d\\ude00\\ud83d\"", "[]", "[ ]", "{}", "{ }", " [1 , 2]\n",
                "{\"a\" : {\"b\": []}, \"\": 0}", "[0,0.5,-1]"},
                                 *const bad[] = {"", " ", "00", "01", "-", "1.", ".5", "1e", "1e+",
                                         "+1", "tru", "truee", "nulll", "\"", "\"\\", "\"\\u12\"",
                                         "\"\\x\"", "[", "[1", "[1,", "[1,]", "[,]", "[1 2]", "]",
                                         "}", "[}", "{]", "{1:2}", "{\"a\"}", "{\"a\":}",
                                         "{\"a\":1,}", "{,}", "{} {}", "1 2", "'a'", "NaN", "[1}",
                                         "{\"a\":1]"};
        char deep[200];

        for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
                if (!json_ok(good[i]))
                        fail_msg("refused: %s", good[i]);
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                if (json_ok(bad[i]))
                        fail_msg("taken: %s", bad[i]);
        for (int depth = REPLY_JSON_DEPTH; depth <= REPLY_JSON_DEPTH + 1; depth++) {
                memset(deep, '[', (size_t)depth);
                memset(deep + depth, ']', (size_t)depth);
                deep[2 * depth] = 0;
                assert_int_equal(json_ok(deep), depth == REPLY_JSON_DEPTH);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_hermes),
                cmocka_unit_test(test_formats),
                cmocka_unit_test(test_control_tokens),
                cmocka_unit_test(test_cut_off),
                cmocka_unit_test(test_malformed),
                cmocka_unit_test(test_characters),
                cmocka_unit_test(test_first_space),
                cmocka_unit_test(test_control_in_calls),
                cmocka_unit_test(test_places),
                cmocka_unit_test(test_receiver),
                cmocka_unit_test(test_bounds),
                cmocka_unit_test(test_held),
                cmocka_unit_test(test_marks),
                cmocka_unit_test(test_choice),
                cmocka_unit_test(test_choice_ordinary),
                cmocka_unit_test(test_docs),
                cmocka_unit_test(test_tools),
                cmocka_unit_test(test_many_tools),
                cmocka_unit_test(test_json),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
