/* SPDX-License-Identifier: MIT */
/*
 * A template, NUL, and a message's text. Whatever they are, the message has the special tokens that
 * an empty message has, in the same order, and no others. Half of the vocabulary's markers are
 * declared as user-defined, as some files have them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "chat/chat.h"
#include "unit/tok/vocab-build.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct vocab_build vocab;

static void check(bool ok) {
        if (!ok)
                abort();
}

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

static void check_message(const struct chat *c, enum chat_state state, enum chat_role role,
        const char *text, size_t n) {
        _cleanup_(tok_ids_deinit) struct tok_ids some = TOK_IDS_NULL, none = TOK_IDS_NULL;
        int r = chat_append_message(c, state, role, text, n, 0, &some, NULL);

        check(r == 0 || r == -ERR_STATE || r == -ERR_UNSUPPORTED);
        check(chat_append_message(c, state, role, "", 0, 0, &none, NULL) == r);
        keep_special(&some);
        keep_special(&none);
        check(some.n == none.n);
        check(some.n == 0 || memcmp(some.ids, none.ids, some.n * sizeof(*some.ids)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const char *text = (const char *)data, *nul = memchr(data, 0, size);
        size_t n_template = nul ? (size_t)(nul - text) : size;
        _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
        _cleanup_(chat_freep) struct chat *c = NULL;
        int r;

        if (!vocab.tok)
                make_vocab();
        check(chat_new(&c, vocab.tok, text, n_template, NULL) == 0);
        text = nul ? nul + 1 : "";
        size = nul ? size - n_template - 1 : 0;
        for (int s = CHAT_EMPTY; s <= CHAT_OPEN_SYSTEM; s++)
                for (int role = 0; role < CHAT_N_ROLES; role++)
                        check_message(c, (enum chat_state)s, (enum chat_role)role, text, size);
        r = chat_append_reply_start(c, 0, &ids, NULL);
        check(r == 0 || r == -ERR_UNSUPPORTED);
        return 0;
}
