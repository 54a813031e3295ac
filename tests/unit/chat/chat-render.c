/* SPDX-License-Identifier: MIT */
/*
 * Renders a conversation for compare-reference.py. Standard input: fields that end with NUL: the
 * choice of the format (chat_new()), the template, definitions of tools or nothing, the role that the
 * whole rendering gives to results, "key" if it gives definitions as a key of the system message; then
 * the messages: role and text of each. Of the role "calls" the text is the name, and id and arguments
 * of the call follow; of the role "tool" id and name follow. The definitions are told with the first
 * message.
 *
 * Output, each part with a NUL behind it: the family; what it does otherwise than the template (a
 * line each); the text of the tokens of all messages and of the invitation to reply; that of the whole
 * rendering, if there are definitions or results.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "chat/chat.h"
#include "unit/chat/whole.h"

enum { MAX_MESSAGES = 20 };

struct input {
        char *at, *end;
        struct whole whole;
        struct chat_message messages[MAX_MESSAGES];
        struct chat_call calls[MAX_MESSAGES];
};

static char *next_field(struct input *in) {
        char *field = in->at, *nul = memchr(field, 0, (size_t)(in->end - field));

        if (!nul)
                return NULL;
        in->at = nul + 1;
        return field;
}

static int read_message(struct input *in, const char *name, char *text, struct err *e) {
        struct chat_message *m = &in->messages[in->whole.n];
        struct chat_call *call = &in->calls[in->whole.n++];

        if (strcmp(name, "calls") == 0) {
                *call = (struct chat_call){.name = text, .id = next_field(in)};
                call->arguments = next_field(in);
                *m = (struct chat_message){.role = CHAT_ASSISTANT, .calls = call, .n_calls = 1};
                if (!call->arguments)
                        return err_set(e, ERR_INVALID, "a call without arguments");
                call->arguments_size = strlen(call->arguments);
                return 0;
        }
        *m = (struct chat_message){.role = CHAT_SYSTEM, .text = text, .size = strlen(text)};
        while (m->role < CHAT_N_ROLES && strcmp(chat_role_name(m->role), name) != 0)
                m->role++;
        if (m->role == CHAT_N_ROLES)
                return err_set(e, ERR_INVALID, "unknown role");
        if (m->role == CHAT_TOOL) {
                m->call_id = next_field(in);
                m->name = next_field(in);
        }
        return 0;
}

static int read_messages(struct input *in, struct err *e) {
        char *name, *text;
        int r = 0;

        in->whole.messages = in->messages;
        in->whole.invite = true;
        while (r == 0 && in->whole.n < MAX_MESSAGES && (name = next_field(in)) &&
                (text = next_field(in)))
                r = read_message(in, name, text, e);
        return r;
}

static int append_all(
        const struct chat *c, const struct whole *whole, struct tok_ids *ids, struct err *e) {
        struct chat_tail tail = {.state = CHAT_EMPTY, .has_tools = whole->tools};

        for (size_t i = 0; i < whole->n; i++) {
                const struct chat_input in = {.messages = &whole->messages[i],
                        .n = 1,
                        .tools = i == 0 ? whole->tools : NULL,
                        .tools_size = i == 0 && whole->tools ? strlen(whole->tools) : 0};
                int r = chat_append(c, &tail, &in, 0, ids, e);

                if (r < 0)
                        return r;
                tail.role = whole->messages[i].role;
                tail.state = chat_state_after(c, tail.role, tail.has_tools);
        }
        return chat_append_reply_start(c, &tail, 0, ids, e);
}

/* Without the first bos. */
static void print_text(const struct tok *t, const struct tok_ids *ids) {
        for (size_t i = 1; i < ids->n; i++) {
                char piece[64];
                size_t size = tok_piece(t, ids->ids[i], true, piece, sizeof(piece));

                fwrite(piece, 1, size, stdout);
        }
        putchar(0);
}

int main(void) {
        static const char *const none[] = {NULL};
        static char text[1 << 20];
        struct input in = {.at = text, .end = text + fread(text, 1, sizeof(text), stdin)};
        _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL, whole = TOK_IDS_NULL;
        _cleanup_(chat_freep) struct chat *c = NULL;
        const char *choice = next_field(&in), *template = next_field(&in), *tools = next_field(&in),
                   *role = next_field(&in), *key = next_field(&in);
        struct vocab_build v;
        struct err e = {0};

        if (!key)
                return 1;
        in.whole.tools = *tools ? tools : NULL;
        in.whole.result_role = *role ? role : NULL;
        in.whole.tools_as_key = strcmp(key, "key") == 0;
        whole_vocabulary(&v, "gpt2", true, none, NULL);
        if (chat_new(&c, v.tok, template, strlen(template), choice, &e) < 0 ||
                read_messages(&in, &e) < 0 || append_all(c, &in.whole, &ids, &e) < 0) {
                fprintf(stderr, "%s\n", e.msg);
                return 1;
        }
        printf("%s%c", chat_family(c), 0);
        for (size_t i = 0; chat_difference(c, i); i++)
                printf("%s\n", chat_difference(c, i));
        putchar(0);
        print_text(v.tok, &ids);
        if (in.whole.tools || *role)
                whole_tokens(v.tok, template, &in.whole, &whole);
        print_text(v.tok, &whole);
        vocab_build_deinit(&v);
        return 0;
}
