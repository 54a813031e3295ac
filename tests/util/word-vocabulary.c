/* SPDX-License-Identifier: MIT */
/*
 * Every beginning of a word is a word, and no token but "▁..." has letters. So SPM's merges have no choice: they read
 * a word from its left, and two words never become one.
 */
#include "util/word-vocabulary.h"
#include <stdio.h>
#include <stdlib.h>

enum {
        N_SPECIAL = 5,
        N_BYTES = 256,
        IM_END = 4,
        N_LETTERS = 26,
        TEXT_SIZE = 24,
};

static const char *const special[N_SPECIAL] = {
        "<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"};

static const char chat_template[] =
        "{%- for m in messages -%}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor "
        "-%}"
        "{%- if add_generation_prompt -%}<|im_start|>assistant\n{% endif -%}";

/* The word of this number: "a" is 0, "z" is 25, "aa" is 26. */
static void write_word(char *ret, uint32_t number) {
        uint32_t n_letters = 1, n_words = N_LETTERS;
        char letters[8] = {0};

        while (number >= n_words) {
                number -= n_words;
                n_words *= N_LETTERS;
                n_letters++;
        }
        for (uint32_t i = n_letters; i-- > 0; number /= N_LETTERS)
                letters[i] = (char)('a' + number % N_LETTERS);
        snprintf(ret, TEXT_SIZE, "\xe2\x96\x81%s", letters);
}

static int32_t write_token(char *ret, uint32_t i) {
        if (i < N_SPECIAL) {
                snprintf(ret, TEXT_SIZE, "%s", special[i]);
                return i == 0 ? GGUF_TOKEN_UNKNOWN : GGUF_TOKEN_CONTROL;
        }
        if (i < N_SPECIAL + N_BYTES) {
                snprintf(ret, TEXT_SIZE, "<0x%02X>", i - N_SPECIAL);
                return GGUF_TOKEN_BYTE;
        }
        write_word(ret, i - N_SPECIAL - N_BYTES);
        return GGUF_TOKEN_NORMAL;
}

static void *need(void *p) {
        if (!p) {
                fputs("out of memory\n", stderr);
                exit(1);
        }
        return p;
}

void word_vocabulary_build(struct gguf_build *out, uint32_t n) {
        char *text = need(calloc(n, TEXT_SIZE));
        const char **tokens = need(calloc(n, sizeof(*tokens)));
        float *scores = need(calloc(n, sizeof(*scores)));
        int32_t *types = need(calloc(n, sizeof(*types)));

        for (uint32_t i = 0; i < n; i++) {
                types[i] = write_token(text + (size_t)i * TEXT_SIZE, i);
                tokens[i] = text + (size_t)i * TEXT_SIZE;
                scores[i] = -(float)i;
        }
        gguf_build_spm(out, tokens, scores, types, n, IM_END);
        gguf_build_str(out, "tokenizer.chat_template", chat_template);
        free(types);
        free(scores);
        free(tokens);
        free(text);
}
