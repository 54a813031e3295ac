/* SPDX-License-Identifier: MIT */
/*
 * A template, NUL, and a message's text ("=" for the template: one that only places the text).
 * Whatever they are, loading and appending are bounded and give the same twice, and:
 *
 * 1. by a family, or by a template that only places the text, the message has the special tokens that
 *    another message has, in the same order, and no others ("+" for the template: one that places the
 *    text in definitions of tools, calls and results as well);
 * 2. a template that can't write "<" writes no special token that begins so, except bos and eos.
 *
 * Half of the vocabulary's markers are declared as user-defined, as some files have them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/util.h"
#include "chat/chat.h"
#include "fuzz/check.h"
#include "unit/tok/vocab-build.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct vocab_build vocab;

static void make_vocab(void) {
        static const char *const specials[] = {"<|im_start|>", "<|im_end|>", "<|start_header_id|>",
                "<|end_header_id|>", "<|eot_id|>", "<start_of_turn>", "<end_of_turn>", "<|user|>",
                "<|assistant|>", "<|end|>", "[INST]", "[/INST]"};

        vocab_build_init(&vocab, "gpt2");
        gguf_build_str(vocab.file, "tokenizer.ggml.pre", "llama-bpe");
        vocab_build_bpe_bytes(&vocab);
        gguf_build_u32(vocab.file, "tokenizer.ggml.bos_token_id",
                (uint32_t)vocab_build_add(&vocab, "<s>", V_CONTROL, 0));
        gguf_build_u32(vocab.file, "tokenizer.ggml.eos_token_id",
                (uint32_t)vocab_build_add(&vocab, "</s>", V_CONTROL, 0));
        for (size_t i = 0; i < sizeof(specials) / sizeof(specials[0]); i++)
                vocab_build_add(&vocab, specials[i],
                        i % 2 == 0 && specials[i][1] == '|' ? V_USER_DEFINED : V_CONTROL, 0);
        check(vocab_build_load(&vocab, NULL) == 0);
}

static void keep_special(struct tok_ids *ids) {
        size_t n = 0;

        for (size_t i = 0; i < ids->n; i++)
                if (tok_is_special(vocab.tok, ids->ids[i]))
                        ids->ids[n++] = ids->ids[i];
        ids->n = n;
}

static int append_input(const struct chat *c, const struct chat_tail *tail,
        const struct chat_input *in, struct tok_ids *out) {
        int r = chat_append(c, tail, in, 0, out, NULL);

        check(r == 0 || out->n == 0);
        check(r == 0 || r == -ERR_STATE || r == -ERR_UNSUPPORTED || r == -ERR_INVALID ||
                r == -ERR_TOO_LARGE);
        return r;
}

static int append(const struct chat *c, const struct chat_tail *tail, enum chat_role role,
        const char *text, size_t n, struct tok_ids *out) {
        const struct chat_message m = {.role = role, .text = text, .size = n};

        return append_input(c, tail, &(struct chat_input){.messages = &m, .n = 1}, out);
}

static void check_same(const struct tok_ids *a, const struct tok_ids *b) {
        check(a->n == b->n);
        check(a->n == 0 || memcmp(a->ids, b->ids, a->n * sizeof(*a->ids)) == 0);
}

/* What a template is known to do. */
struct known {
        bool places;   /* the text, and looks at nothing */
        bool no_angle; /* it can't write "<" */
};

static void check_angle(const struct known *known, const struct tok_ids *special) {
        for (size_t i = 0; known->no_angle && i < special->n; i++) {
                size_t size;
                const char *s = tok_text(vocab.tok, special->ids[i], &size);

                check(special->ids[i] == tok_bos(vocab.tok) ||
                        special->ids[i] == tok_eos(vocab.tok) || *s != '<');
        }
}

/* --- definitions, calls and results --- */

enum field {
        RAW_TOOLS,     /* the text is the definitions */
        RAW_ARGUMENTS, /* or the arguments */
        TOOL,          /* it is in each string of the definitions */
        CALL,          /* of a call */
        RESULT,        /* of a result */
        REASONING,
        N_FIELDS
};

struct filled {
        struct buf json;
        char *string; /* the text without what is behind a NUL */
        struct chat_call call;
        struct chat_message m;
        struct chat_input in;
};

static void put_text(struct json *j, const char *key, const char *text, size_t n) {
        json_put_key(j, key);
        json_put_string_n(j, text, n);
}

static void put_tool(struct json *j, const char *text, size_t n) {
        json_array_begin(j);
        json_object_begin(j);
        json_put_key(j, "function");
        json_object_begin(j);
        put_text(j, "name", n > 0 ? text : "f", n > 0 ? n : 1);
        put_text(j, "description", text, n);
        json_put_key(j, "parameters");
        json_object_begin(j);
        put_text(j, "type", text, n);
        json_object_end(j);
        json_object_end(j);
        json_object_end(j);
        json_array_end(j);
}

static void fill_call(struct filled *x, enum field field, const char *text, size_t n) {
        x->call = (struct chat_call){.id = x->string,
                .name = *x->string ? x->string : "f",
                .arguments = field == RAW_ARGUMENTS ? text : (const char *)x->json.data,
                .arguments_size = field == RAW_ARGUMENTS ? n : x->json.size};
        x->m = (struct chat_message){.role = CHAT_ASSISTANT,
                .text = text,
                .size = field == CALL ? n : 0,
                .reasoning = text,
                .reasoning_size = n,
                .calls = &x->call,
                .n_calls = 1};
}

static void fill(struct filled *x, enum field field, const char *text, size_t n) {
        struct json j;

        *x = (struct filled){.string = text_dup(text, n)};
        check(x->string != NULL);
        json_init(&j, &x->json);
        x->in = (struct chat_input){.messages = &x->m, .n = 1};
        switch (field) {
        case RAW_TOOLS:
        case TOOL:
                if (field == TOOL)
                        put_tool(&j, text, n);
                x->m = (struct chat_message){.role = CHAT_USER, .text = "Hi", .size = 2};
                x->in.tools = field == TOOL ? (const char *)x->json.data : text;
                x->in.tools_size = field == TOOL ? x->json.size : n;
                return;
        case RAW_ARGUMENTS:
        case CALL:
                json_object_begin(&j);
                put_text(&j, "k", text, n);
                json_object_end(&j);
                fill_call(x, field, text, n);
                return;
        case RESULT:
                x->m = (struct chat_message){.role = CHAT_TOOL,
                        .text = text,
                        .size = n,
                        .call_id = x->string,
                        .name = x->string};
                return;
        case REASONING:
                x->m = (struct chat_message){.role = CHAT_ASSISTANT,
                        .text = "Yes",
                        .size = 3,
                        .reasoning = text,
                        .reasoning_size = n};
                return;
        case N_FIELDS:
                break;
        }
}

static void filled_deinit(struct filled *x) {
        buf_deinit(&x->json);
        free(x->string);
}

static void check_field(const struct chat *c, const struct known *known,
        const struct chat_tail *tail, enum field field, const char *text, size_t n) {
        _cleanup_(tok_ids_deinit) struct tok_ids some = TOK_IDS_NULL, again = TOK_IDS_NULL,
                                                 other = TOK_IDS_NULL;
        struct filled x, plain;
        int r;

        fill(&x, field, text, n);
        r = append_input(c, tail, &x.in, &some);
        check(append_input(c, tail, &x.in, &again) == r);
        filled_deinit(&x);
        check_same(&some, &again);
        keep_special(&some);
        check_angle(known, &some);
        if (!known->places || field == RAW_TOOLS || field == RAW_ARGUMENTS)
                return;
        fill(&plain, field, "x", 1);
        check(append_input(c, tail, &plain.in, &other) == r);
        filled_deinit(&plain);
        keep_special(&other);
        check_same(&some, &other);
}

static void check_fields(
        const struct chat *c, const struct known *known, const char *text, size_t size) {
        static const struct chat_tail tails[] = {{.state = CHAT_EMPTY},
                {.state = CHAT_ENDED_REPLY, .role = CHAT_ASSISTANT, .has_tools = true},
                {.state = CHAT_CLOSED, .role = CHAT_TOOL}};

        for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++)
                for (int field = 0; field < N_FIELDS; field++)
                        check_field(c, known, &tails[i], (enum field)field, text, size);
}

/* --- texts --- */

static void check_message(const struct chat *c, const struct known *known,
        const struct chat_tail *tail, enum chat_role role, const char *text, size_t n) {
        _cleanup_(tok_ids_deinit) struct tok_ids some = TOK_IDS_NULL, again = TOK_IDS_NULL,
                                                 other = TOK_IDS_NULL;
        int r = append(c, tail, role, text, n, &some);

        check(append(c, tail, role, text, n, &again) == r);
        check_same(&some, &again);
        keep_special(&some);
        check_angle(known, &some);
        if (!known->places)
                return;
        check(append(c, tail, role, "x", 1, &other) == r);
        keep_special(&other);
        check_same(&some, &other);
}

static void check_all(
        const struct chat *c, const struct known *known, const char *text, size_t size) {
        for (int s = CHAT_EMPTY; s <= CHAT_OPEN_SYSTEM; s++)
                for (int before = 0; before < CHAT_N_ROLES; before++) {
                        _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
                        const struct chat_tail tail = {.state = (enum chat_state)s,
                                .role = (enum chat_role)before,
                                .created_usec = (uint64_t)1700000000 * 1000000};
                        int r = chat_append_reply_start(c, &tail, 0, &ids, NULL);

                        check(r == 0 || r == -ERR_UNSUPPORTED || r == -ERR_STATE);
                        for (int role = 0; role < CHAT_N_ROLES; role++)
                                check_message(c, known, &tail, (enum chat_role)role, text, size);
                        if (s != CHAT_CLOSED)
                                break; /* the role does not matter */
                }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const char places[] =
                "{{ bos_token }}{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + "
                "m.content "
                "+ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant"
                "\n{% endif %}";
        static const char tools[] =
                "{% if tools %}<|im_start|>{{ tools | tojson }}<|im_end|>{% endif %}"
                "{% for m in messages %}<|im_start|>{{ m.role }}{{ m.reasoning_content or '' }}"
                "{{ m.content }}{% for call in m.tool_calls or [] %}<|user|>{{ call.id }}"
                "{{ call.function.name }}{{ call.function.arguments | tojson }}{% endfor %}"
                "{% if m.role == 'tool' %}{{ m.name + m.tool_call_id }}{% endif %}<|im_end|>"
                "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant{% endif %}";
        const char *template = (const char *)data, *nul = memchr(data, 0, size), *text;
        size_t n_template = nul ? (size_t)(nul - template) : size;
        _cleanup_(chat_freep) struct chat *c = NULL;
        struct known known = {false, false};

        if (!vocab.tok)
                make_vocab();
        text = nul ? nul + 1 : "";
        size = nul ? size - n_template - 1 : 0;
        if (n_template == 1 && *template == '=') {
                template = places;
                n_template = sizeof(places) - 1;
                known.places = true;
        } else if (n_template == 1 && *template == '+') {
                template = tools;
                n_template = sizeof(tools) - 1;
                known.places = true;
        }
        check(chat_new(&c, vocab.tok, template, n_template, NULL, NULL) == 0);
        if (strcmp(chat_family(c), "template") != 0)
                known.places = true;
        else
                known.no_angle =
                        !memchr(template, '<', n_template) && !memchr(template, '\\', n_template);
        check_all(c, &known, text, size);
        check_fields(c, &known, text, size);
        return 0;
}
