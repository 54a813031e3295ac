/* SPDX-License-Identifier: MIT */
/*
 * Decides which tokens are special: ids named by the file, the end-of-generation set, and rules
 * that no file states but its models need (a token that ends a turn is often not declared as one,
 * so known texts are looked for).
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/util.h"
#include "tok/tok-internal.h"

/* Tokens with these texts end a generation, in any vocabulary. */
static const char *const eog_texts[] = {
        "<|eot_id|>",
        "<|im_end|>",
        "<|end|>",
        "<|return|>",
        "<|call|>",
        "<|flush|>",
        "<|calls|>",
        "<end_of_turn>",
        "<|endoftext|>",
        "</s>",
        "<|eom_id|>",
        "<EOT>",
        "_<EOT>",
        "[EOT]",
        "[EOS]",
        "<|end_of_text|>",
        "<end_of_utterance>",
        "<eos>",
        "<turn|>",
        "<|tool_response>",
        "<｜end▁of▁sentence｜>",
        "[e~[",
        /* Of code models: padding, and where another file or repository begins. */
        "<|fim_pad|>",
        "<fim-pad>",
        "<fim_pad>",
        "<|fim_repo|>",
        "<|repo_name|>",
        "<fim-repo>",
        "<reponame>",
        "<|file_sep|>",
};

/* If the file names no end of a turn, the first of these texts in the vocabulary is it. */
static const char *const eot_texts[] = {
        "<|eot_id|>",
        "<|im_end|>",
        "<|end|>",
        "<end_of_turn>",
        "<|endoftext|>",
        "<|end_of_text|>",
        "<EOT>",
        "_<EOT>",
        "[EOT]",
        "<｜end▁of▁sentence｜>",
        "<end_of_utterance>",
};

/* Parts of the gpt-oss format that programs want to see in the text. */
static const char *const visible_texts[] = {
        "<|channel|>",
        "<|message|>",
        "<|start|>",
        "<|constrain|>",
};

static int32_t special_find(const struct tok *t, const char *text) {
        return tok_vocab_find(&t->vocab, text, strlen(text));
}

/* An id outside the vocabulary counts as none. */
static int special_id(
        const struct tok *t, const struct gguf *g, const char *key, int32_t *id, struct err *e) {
        uint32_t value;
        int r;

        r = gguf_get_u32(g, key, &value, e);
        if (r < 0)
                return r;
        if (r == 0 && value < t->vocab.n)
                *id = (int32_t)value;
        return 0;
}

static void special_mark(struct tok *t, int32_t id) {
        if (id >= 0)
                t->flags[id] |= TOK_FLAG_EOG;
}

static void special_unmark(struct tok *t, const char *text, enum tok_type type) {
        int32_t id = special_find(t, text);

        if (id < 0)
                return;
        t->flags[id] &= (uint8_t)~TOK_FLAG_EOG;
        t->vocab.type[id] = (uint8_t)type;
}

static int special_load_ids(struct tok *t, const struct gguf *g, struct err *e) {
        static const char *const eog_keys[] = {
                "tokenizer.ggml.eom_token_id",
                "tokenizer.ggml.fim_pad_token_id",
                "tokenizer.ggml.fim_rep_token_id",
                "tokenizer.ggml.fim_sep_token_id",
        };
        int r;

        r = special_id(t, g, "tokenizer.ggml.bos_token_id", &t->bos, e);
        if (r >= 0)
                r = special_id(t, g, "tokenizer.ggml.eos_token_id", &t->eos, e);
        if (r >= 0)
                r = special_id(t, g, "tokenizer.ggml.eot_token_id", &t->eot, e);
        if (r >= 0)
                r = special_id(t, g, "tokenizer.ggml.unknown_token_id", &t->unk, e);
        for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(eog_keys); i++) {
                int32_t id = -1;

                r = special_id(t, g, eog_keys[i], &id, e);
                if (r >= 0)
                        special_mark(t, id);
        }
        if (r < 0)
                return r;
        special_mark(t, t->eos);
        special_mark(t, t->eot);
        return 0;
}

static void special_find_ends(struct tok *t) {
        for (size_t i = 0; t->eot < 0 && i < ARRAY_SIZE(eot_texts); i++) {
                t->eot = special_find(t, eot_texts[i]);
                special_mark(t, t->eot);
        }
        for (size_t i = 0; i < ARRAY_SIZE(eog_texts); i++) {
                int32_t id = special_find(t, eog_texts[i]);

                if (id < 0)
                        continue;
                special_mark(t, id);
                t->vocab.type[id] = TOK_CONTROL;
        }
        /* gpt-oss and its like end messages with <|end|> and replies with <|return|>. */
        if ((special_find(t, "<|return|>") >= 0 && special_find(t, "<|call|>") >= 0) ||
                (special_find(t, "<|calls|>") >= 0 && special_find(t, "<|flush|>") >= 0))
                special_unmark(t, "<|end|>", TOK_USER_DEFINED);
        if (special_find(t, "<|tool_response>") >= 0)
                special_unmark(t, "</s>", TOK_NORMAL);
        for (size_t i = 0; i < ARRAY_SIZE(visible_texts); i++) {
                int32_t id = special_find(t, visible_texts[i]);

                if (id >= 0)
                        t->vocab.type[id] = TOK_USER_DEFINED;
        }
}

static bool special_name_contains(const struct gguf_str *name, const char *what) {
        size_t n = strlen(what);

        for (size_t i = 0; n <= name->size && i <= name->size - n; i++)
                if (strncasecmp(name->data + i, what, n) == 0)
                        return true;
        return false;
}

/* Special tokens that swallow adjacent whitespace. */
static int special_find_strips(struct tok *t, const struct gguf *g, struct err *e) {
        static const char *const phi3_except[] = {"<unk>", "<s>", "<|endoftext|>"};
        struct gguf_str name = {"", 0};
        int32_t id;
        int r;

        r = gguf_get_str(g, "general.name", &name, e);
        if (r < 0)
                return r;
        if (special_name_contains(&name, "phi-3") || special_name_contains(&name, "phi3")) {
                for (uint32_t i = 0; i < t->vocab.n; i++)
                        switch (t->vocab.type[i]) {
                        case TOK_CONTROL:
                        case TOK_UNKNOWN:
                        case TOK_USER_DEFINED:
                                t->flags[i] |= TOK_FLAG_RSTRIP;
                        }
                for (size_t i = 0; i < ARRAY_SIZE(phi3_except); i++) {
                        id = special_find(t, phi3_except[i]);
                        if (id >= 0)
                                t->flags[id] &= (uint8_t)~TOK_FLAG_RSTRIP;
                }
        }
        id = special_find(t, "<mask>");
        if (id >= 0 && strncmp(t->pre, "jina-v2-", 8) == 0)
                t->flags[id] |= TOK_FLAG_LSTRIP;
        return 0;
}

static int special_load_suppressed(struct tok *t, const struct gguf *g, struct err *e) {
        struct gguf_array a;
        int r;

        r = gguf_get_array(g, "tokenizer.ggml.suppress_tokens", &a, e);
        if (r < 0)
                return r;
        if (r > 0 || a.count == 0)
                return 0;
        if (a.type > GGUF_I32 && a.type != GGUF_U64 && a.type != GGUF_I64)
                return err_set(e, ERR_FORMAT,
                        "tokenizer.ggml.suppress_tokens must be an array of integers");
        if (a.count > t->vocab.n)
                return err_set(e, ERR_FORMAT,
                        "tokenizer.ggml.suppress_tokens names more tokens than there are");
        t->suppressed = calloc(a.count, sizeof(*t->suppressed));
        if (!t->suppressed)
                return err_set(e, ERR_NOMEM, "out of memory for suppressed tokens");
        for (uint64_t i = 0; i < a.count; i++) {
                int64_t id = gguf_array_int(&a, i);

                if (id >= 0 && id < (int64_t)t->vocab.n)
                        t->suppressed[t->n_suppressed++] = (int32_t)id;
        }
        return 0;
}

static int32_t special_default(const struct tok *t, int32_t id) {
        if (id < 0 || (uint32_t)id >= t->vocab.n)
                return -1;
        return !t->ops->defaults_if_control || t->vocab.type[id] == TOK_CONTROL ? id : -1;
}

int tok_special_load(struct tok *t, const struct gguf *g, struct err *e) {
        int r;

        t->flags = calloc(t->vocab.n, 1);
        if (!t->flags)
                return err_set(e, ERR_NOMEM, "out of memory for token flags");
        t->bos = special_default(t, t->ops->default_bos);
        t->eos = special_default(t, t->ops->default_eos);
        t->unk = special_default(t, t->ops->default_unk);
        if (t->unk >= 0 && t->vocab.type[t->unk] == TOK_CONTROL)
                t->unk = -1; /* text must not become it */
        t->eot = -1;
        r = special_load_ids(t, g, e);
        if (r < 0)
                return r;
        special_find_ends(t);
        r = special_find_strips(t, g, e);
        if (r < 0)
                return r;
        r = gguf_get_bool(g, "tokenizer.ggml.add_bos_token", &t->add_bos, e);
        if (r >= 0)
                r = gguf_get_bool(g, "tokenizer.ggml.add_eos_token", &t->add_eos, e);
        if (r < 0)
                return r;
        t->add_bos = (t->add_bos || t->ops->forced_add_bos) && t->bos >= 0;
        t->add_eos = t->add_eos && t->eos >= 0;
        return special_load_suppressed(t, g, e);
}
