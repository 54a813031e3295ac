/* SPDX-License-Identifier: MIT */
/*
 * Renders a conversation for compare-reference.py. Standard input: fields that end with NUL: the
 * choice of the format (chat_new()), the template, then role and text of each message. Output: the family, NUL, what it does otherwise than
 * the template (a line each), NUL, and the text of the tokens of all messages and of the invitation to
 * reply.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "chat/chat.h"
#include "unit/tok/vocab-build.h"

static char *next_field(char **p, char *end) {
        char *field = *p, *nul = memchr(field, 0, (size_t)(end - field));

        if (!nul)
                return NULL;
        *p = nul + 1;
        return field;
}

static int render(const struct chat *c, char *p, char *end, struct tok_ids *ids, struct err *e) {
        struct chat_tail tail = {.state = CHAT_EMPTY};
        char *name, *text;

        while ((name = next_field(&p, end)) && (text = next_field(&p, end))) {
                enum chat_role role = CHAT_SYSTEM;
                struct chat_message m;
                int r;

                while (role < CHAT_N_ROLES && strcmp(chat_role_name(role), name) != 0)
                        role++;
                if (role == CHAT_N_ROLES)
                        return err_set(e, ERR_INVALID, "unknown role");
                m = (struct chat_message){.role = role, .text = text, .size = strlen(text)};
                r = chat_append(c, &tail, &(struct chat_input){.messages = &m, .n = 1}, 0, ids, e);
                if (r < 0)
                        return r;
                tail = (struct chat_tail){chat_state_after(c, role, false), role, 0, false};
        }
        return chat_append_reply_start(c, &tail, 0, ids, e);
}

int main(void) {
        static char input[1 << 20];
        size_t n = fread(input, 1, sizeof(input), stdin);
        _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
        _cleanup_(chat_freep) struct chat *c = NULL;
        struct vocab_build v;
        struct err e = {0};
        char *p = input, *text, *choice;

        vocab_build_init(&v, "gpt2");
        gguf_build_bool(v.file, "tokenizer.ggml.add_bos_token", true);
        vocab_build_bpe_bytes(&v);
        gguf_build_u32(v.file, "tokenizer.ggml.bos_token_id",
                (uint32_t)vocab_build_add(&v, "<s>", V_CONTROL, 0));
        gguf_build_u32(v.file, "tokenizer.ggml.eos_token_id",
                (uint32_t)vocab_build_add(&v, "</s>", V_CONTROL, 0));
        choice = next_field(&p, input + n);
        text = choice ? next_field(&p, input + n) : NULL;
        if (!text || vocab_build_load(&v, &e) < 0 ||
                chat_new(&c, v.tok, text, strlen(text), choice, &e) < 0 ||
                render(c, p, input + n, &ids, &e) < 0) {
                fprintf(stderr, "%s\n", e.msg);
                return 1;
        }
        printf("%s%c", chat_family(c), 0);
        for (size_t i = 0; chat_difference(c, i); i++)
                printf("%s\n", chat_difference(c, i));
        putchar(0);
        for (size_t i = 1; i < ids.n; i++) { /* without the first bos */
                char piece[64];
                size_t size = tok_piece(v.tok, ids.ids[i], true, piece, sizeof(piece));

                fwrite(piece, 1, size, stdout);
        }
        vocab_build_deinit(&v);
        return 0;
}
