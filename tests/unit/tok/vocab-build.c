/* SPDX-License-Identifier: MIT */
#include "unit/tok/vocab-build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/utf8.h"

static void *need(void *p) {
        if (!p)
                abort();
        return p;
}

void vocab_build_init(struct vocab_build *v, const char *model) {
        *v = (struct vocab_build){.file = need(gguf_build_new())};
        if (model)
                gguf_build_str(v->file, "tokenizer.ggml.model", model);
}

void vocab_build_deinit(struct vocab_build *v) {
        tok_free(v->tok);
        gguf_free(v->gguf);
        gguf_build_free(v->file);
        free(v->bytes);
        for (size_t i = 0; i < v->n; i++)
                free(v->text[i]);
        for (size_t i = 0; i < v->n_merges; i++)
                free(v->merge[i]);
        free(v->text);
        free(v->type);
        free(v->score);
        free(v->merge);
        *v = (struct vocab_build){0};
}

int32_t vocab_build_add(struct vocab_build *v, const char *text, int32_t type, float score) {
        if (v->n == v->capacity) {
                v->capacity = v->capacity * 2 + 64;
                v->text = need(realloc(v->text, v->capacity * sizeof(*v->text)));
                v->type = need(realloc(v->type, v->capacity * sizeof(*v->type)));
                v->score = need(realloc(v->score, v->capacity * sizeof(*v->score)));
        }
        v->text[v->n] = need(strdup(text));
        v->type[v->n] = type;
        v->score[v->n] = score;
        return (int32_t)v->n++;
}

void vocab_build_merge(struct vocab_build *v, const char *line) {
        v->merge = need(realloc(v->merge, (v->n_merges + 1) * sizeof(*v->merge)));
        v->merge[v->n_merges++] = need(strdup(line));
}

void vocab_build_spm_bytes(struct vocab_build *v) {
        vocab_build_add(v, "<unk>", V_UNKNOWN, 0);
        vocab_build_add(v, "<s>", V_CONTROL, 0);
        vocab_build_add(v, "</s>", V_CONTROL, 0);
        for (unsigned i = 0; i < 256; i++) {
                char text[8];

                snprintf(text, sizeof(text), "<0x%02X>", i);
                vocab_build_add(v, text, V_BYTE, 0);
        }
}

void vocab_build_bpe_bytes(struct vocab_build *v) {
        uint32_t next = 0x100;

        for (unsigned i = 0; i < 256; i++) {
                bool own = (i >= 33 && i <= 126) || (i >= 161 && i <= 172) || i >= 174;
                uint8_t text[5] = {0};

                utf8_encode(own ? i : next++, text);
                vocab_build_add(v, (const char *)text, V_NORMAL, 0);
        }
}

void vocab_build_phi3(struct vocab_build *v, bool add_bos) {
        vocab_build_init(v, "llama");
        gguf_build_str(v->file, "general.name", "Phi-3 mini");
        gguf_build_bool(v->file, "tokenizer.ggml.add_space_prefix", false);
        gguf_build_bool(v->file, "tokenizer.ggml.add_bos_token", add_bos);
        vocab_build_spm_bytes(v);
        vocab_build_add(v, "<|user|>", V_CONTROL, 0);
        vocab_build_add(v, "<|assistant|>", V_CONTROL, 0);
        vocab_build_add(v, "<|end|>", V_CONTROL, 0);
}

int vocab_build_load(struct vocab_build *v, struct err *e) {
        size_t size;
        int r;

        if (v->n > 0) {
                gguf_build_str_array(
                        v->file, "tokenizer.ggml.tokens", (const char *const *)v->text, v->n);
                gguf_build_i32_array(v->file, "tokenizer.ggml.token_type", v->type, v->n);
                gguf_build_f32_array(v->file, "tokenizer.ggml.scores", v->score, v->n);
        }
        gguf_build_str_array(
                v->file, "tokenizer.ggml.merges", (const char *const *)v->merge, v->n_merges);
        v->bytes = need(gguf_build_bytes(v->file, &size));
        r = gguf_parse(&v->gguf, v->bytes, size, e);
        if (r < 0)
                return r;
        return tok_new(&v->tok, v->gguf, e);
}
