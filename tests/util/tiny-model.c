/* SPDX-License-Identifier: MIT */
/* A few narrow layers, a few hundred tokens, ChatML: everything the engine needs of a model, and a
 * token in some ten microseconds. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/util.h"
#include "quant/quant.h"
#include "util/arch-build.h"
#include "util/llama-build.h"
#include "util/tiny-model.h"

/* What makes role names and the like single tokens, in pairs that an SPM tokenizer can merge. */
static const char *const pieces[] = {"\xe2\x96\x81", "us", "er", "user", "as", "si", "st", "an",
        "assi", "stan", "stant", "assistant", "sy", "syst", "em", "system", "th", "the", "in", "ou",
        "re", "ea"};
static const char *const special[] = {"<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"};

enum {
        N_BYTES = 256,
        N_VOCAB = 288,
        MOST_VOCAB = 320,
        IM_END = 4,
};

/* ChatML with tools: definitions stand behind the system text, results of calls are grouped in a message
 * of their own. Without tools it writes nothing but messages. */
static const char chat_template[] =
        "{%- if tools -%}<|im_start|>system\n"
        "{%- if messages[0].role == 'system' %}{{ messages[0].content }}\n{% endif -%}"
        "<tools>{% for t in tools %}{{ t | tojson }}{% endfor %}</tools>{# calls: "
        "<tool_call>{\"name\": , \"arguments\": }</tool_call> #}"
        "<|im_end|>\n{% endif -%}"
        "{%- for m in messages -%}"
        "{%- if m.role == 'system' and tools and loop.first -%}"
        "{%- elif m.role == 'tool' -%}"
        "{%- if loop.first or messages[loop.index0 - 1].role != 'tool' -%}<|im_start|>user\n"
        "{%- endif -%}<tool_response>{{ m.content }}</tool_response>"
        "{%- if loop.last or messages[loop.index0 + 1].role != 'tool' -%}<|im_end|>\n{% endif -%}"
        "{%- elif m.tool_calls or m.reasoning_content -%}<|im_start|>assistant\n"
        "{%- if m.reasoning_content -%}<think>{{ m.reasoning_content }}</think>{%- endif -%}"
        "{{ m.content }}{%- for c in m.tool_calls or [] -%}<tool_call>{\"name\": \""
        "{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}</tool_call>"
        "{%- endfor -%}<|im_end|>\n"
        "{%- else -%}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endif -%}"
        "{%- endfor -%}"
        "{%- if add_generation_prompt -%}<|im_start|>assistant\n{% endif -%}";

static void vocabulary(struct gguf_build *b, size_t n, const char *template) {
        static char text[MOST_VOCAB][16];
        static const char *tokens[MOST_VOCAB];
        static float scores[MOST_VOCAB];
        static int32_t types[MOST_VOCAB];

        for (size_t i = 0; i < n; i++) {
                size_t byte = i - ARRAY_SIZE(special), piece = byte - N_BYTES;

                if (i < ARRAY_SIZE(special))
                        snprintf(text[i], sizeof(text[i]), "%s", special[i]);
                else if (byte < N_BYTES)
                        snprintf(text[i], sizeof(text[i]), "<0x%02X>", (unsigned)byte);
                else if (piece < ARRAY_SIZE(pieces))
                        snprintf(text[i], sizeof(text[i]), "%s", pieces[piece]);
                else
                        snprintf(text[i], sizeof(text[i]), "#%zu", i);
                tokens[i] = text[i];
                scores[i] = -(float)i;
                types[i] = i == 0                    ? GGUF_TOKEN_UNKNOWN
                           : i < ARRAY_SIZE(special) ? GGUF_TOKEN_CONTROL
                           : byte < N_BYTES          ? GGUF_TOKEN_BYTE
                                                     : GGUF_TOKEN_NORMAL;
        }
        gguf_build_spm(b, tokens, scores, types, n, IM_END);
        gguf_build_str(b, "tokenizer.chat_template", template);
}

int tiny_model_write(const char *path, enum tiny_model which) {
        const bool deep = which == MODEL_DEEP;
        const struct llama_spec spec = {.n_layer = deep ? 9 : 2,
                .n_embd = 32,
                .n_head = deep ? 8 : 2,
                .n_kv_head = deep ? 8 : 1,
                .head_dim = 32,
                .n_ff = 64,
                .n_vocab = N_VOCAB,
                .context = 512,
                .type = QUANT_Q8_0,
                .embd_type = QUANT_Q8_0,
                .omit = "tokenizer.ggml.tokens",
                .seed = 5 + which};
        struct gguf_build *b = llama_build(&spec);
        int r;

        vocabulary(b, N_VOCAB, chat_template);
        r = gguf_build_write(b, path);
        gguf_build_free(b);
        return r;
}

static int write_arch(
        const char *path, const char *name, const struct arch_options *o, const char *template) {
        struct gguf_build *b = arch_build(name, o);
        int r;

        if (!b) {
                errno = EINVAL;
                return -1;
        }
        vocabulary(b, MOST_VOCAB, template);
        r = gguf_build_write(b, path);
        gguf_build_free(b);
        return r;
}

int tiny_model_write_arch(const char *path, const char *name) {
        const struct arch_options o = {.seed = 5, .omit = "tokenizer.ggml.tokens"};

        return write_arch(path, name, &o, chat_template);
}

int tiny_model_write_long(const char *path, const char *name, unsigned context) {
        const struct arch_options o = {
                .seed = 5, .context = context, .omit = "tokenizer.ggml.tokens"};

        return write_arch(path, name, &o, chat_template);
}

int tiny_model_write_wide(const char *path, const char *name, unsigned type, unsigned scale) {
        const struct arch_options o = {
                .seed = 5, .omit = "tokenizer.ggml.tokens", .type = type, .scale = scale};

        return write_arch(path, name, &o, chat_template);
}

int tiny_model_write_chat(const char *path, const char *template) {
        const struct arch_options o = {
                .seed = 5, .context = 65536, .omit = "tokenizer.ggml.tokens"};

        return write_arch(path, "llama", &o, template);
}
