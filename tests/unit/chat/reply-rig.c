/* SPDX-License-Identifier: MIT */
#include "unit/chat/reply-rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/utf8.h"
#include "chat/reply-internal.h"
#include "jinja/jinja.h"

enum { PIECES = 48, LONGEST = 14 };

#define check(is)                                                                                  \
        do {                                                                                       \
                if (!(is)) {                                                                       \
                        fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #is);                   \
                        abort();                                                                   \
                }                                                                                  \
        } while (0)

static uint64_t next_random(uint64_t *x) {
        *x ^= *x << 13;
        *x ^= *x >> 7;
        *x ^= *x << 17;
        return *x >> 11;
}

void reply_rig_init(struct reply_rig *rig) {
        *rig = (struct reply_rig){.n_pieces = 0};
        vocab_build_init(&rig->vocab, "gpt2");
        gguf_build_str(rig->vocab.file, "tokenizer.ggml.pre", "gpt-2");
        vocab_build_bpe_bytes(&rig->vocab);
        rig->first_piece = (int32_t)rig->vocab.n;
}

static bool known(const struct reply_rig *rig, const char *text) {
        for (size_t i = (size_t)rig->first_piece; i < rig->vocab.n; i++)
                if (strcmp(rig->vocab.text[i], text) == 0)
                        return true;
        return false;
}

static bool inside(char c) {
        return ((unsigned char)c & 0xC0) == 0x80;
}

void reply_rig_pieces(struct reply_rig *rig, const char *text, size_t size, uint64_t random) {
        random |= 1;
        for (size_t i = 0; i < PIECES && size > 2; i++) {
                size_t at = next_random(&random) % (size - 1),
                       n = 2 + next_random(&random) % LONGEST;
                char piece[LONGEST + 8];

                while (at > 0 && inside(text[at]))
                        at--;
                n = n < size - at ? n : size - at;
                while (n > 0 && at + n < size && inside(text[at + n]))
                        n--;
                memcpy(piece, text + at, n);
                piece[n] = 0;
                if (n < 2 || memchr(piece, 0, n) || !utf8_valid(piece, n) || known(rig, piece))
                        continue;
                vocab_build_add(&rig->vocab, piece, V_USER_DEFINED, 0);
                rig->n_pieces++;
        }
}

int32_t reply_rig_control(struct reply_rig *rig, const char *text) {
        return vocab_build_add(&rig->vocab, text, V_CONTROL, 0);
}

static void add_mark(struct reply_rig *rig, const char *text) {
        /* Marks of several tokens are none here, and no name is. */
        if (!text || (text[0] != '<' && text[0] != '[') || strchr(text, ' ') || known(rig, text) ||
                strchr(text, '"') || strstr(text, "><") || text[strlen(text) - 1] == '=')
                return;
        reply_rig_control(rig, text);
        rig->n_pieces++;
}

void reply_rig_marks(struct reply_rig *rig) {
        static const char *const channels[] = {"<|start|>", "<|channel|>", "<|message|>",
                "<|constrain|>", "<|end|>", "<|call|>", "<|return|>"};

        rig->marks = true;
        for (size_t i = 0; i < reply_n_calls; i++) {
                const struct reply_calls *c = &reply_calls[i];

                for (size_t k = 0; k < REPLY_MAX_SAME; k++)
                        add_mark(rig, c->each[k]);
                add_mark(rig, c->section);
                add_mark(rig, c->section_end);
                add_mark(rig, c->each_end);
                add_mark(rig, c->before_arguments);
                add_mark(rig, c->before_id);
                add_mark(rig, c->key_end);
                add_mark(rig, c->key);
                add_mark(rig, c->value);
                add_mark(rig, c->value_end);
                add_mark(rig, c->quote);
        }
        for (size_t i = 0; i < reply_n_thinking; i++) {
                add_mark(rig, reply_thinking[i].open);
                add_mark(rig, reply_thinking[i].close);
        }
        for (size_t i = 0; i < sizeof(channels) / sizeof(channels[0]); i++)
                add_mark(rig, channels[i]);
}

static void chain_pieces(struct reply_rig *rig) {
        rig->next = calloc(rig->n_pieces + 1, sizeof(*rig->next));
        check(rig->next);
        for (size_t i = 0; i < 256; i++)
                rig->head[i] = -1;
        for (size_t i = 0; i < rig->n_pieces; i++) {
                int32_t *head =
                        &rig->head[(unsigned char)rig->vocab.text[(size_t)rig->first_piece + i][0]];

                rig->next[i] = *head;
                *head = rig->first_piece + (int32_t)i;
        }
}

void reply_rig_load(struct reply_rig *rig, const char *template_text) {
        struct err e = {0};

        chain_pieces(rig);
        if (vocab_build_load(&rig->vocab, &e) < 0 ||
                chat_new(&rig->chat, rig->vocab.tok, template_text,
                        template_text ? strlen(template_text) : 0, NULL, &e) < 0) {
                fprintf(stderr, "%s\n", e.msg);
                abort();
        }
}

void reply_rig_deinit(struct reply_rig *rig) {
        chat_free(rig->chat);
        free(rig->next);
        vocab_build_deinit(&rig->vocab);
}

static bool better(const struct reply_rig *rig, int32_t i, enum reply_cut cut, size_t best_size,
        uint64_t *random) {
        /* lib/tok makes control tokens of some texts. */
        if (tok_is_control(rig->vocab.tok, i) != rig->marks)
                return false;
        return cut == REPLY_CUT_LONGEST ? strlen(rig->vocab.text[i]) > best_size
                                        : next_random(random) % 3 == 0;
}

void reply_rig_cut(const struct reply_rig *rig, const char *text, size_t size, enum reply_cut cut,
        uint64_t random, struct tok_ids *ret) {
        random |= 1;
        for (size_t at = 0; at < size;) {
                int32_t best = (int32_t)(unsigned char)text[at];
                size_t best_size = 1;

                for (int32_t i = cut == REPLY_CUT_BYTES ? -1 : rig->head[best]; i >= 0;
                        i = rig->next[i - rig->first_piece]) {
                        const char *piece = rig->vocab.text[i];
                        size_t n = strlen(piece);

                        if (!better(rig, i, cut, best_size, &random))
                                continue;
                        if (n <= size - at && memcmp(piece, text + at, n) == 0) {
                                best = i;
                                best_size = n;
                        }
                }
                check(tok_ids_append(ret, &best, 1, NULL) == 0);
                at += best_size;
        }
}

/* --- what is heard --- */

void reply_heard_deinit(struct reply_heard *h) {
        buf_deinit(&h->said);
        buf_deinit(&h->arguments);
}

static void begin(struct reply_heard *h, const struct chat_part_event *event) {
        bool call = event->part == CHAT_PART_CALL;

        check(!h->open && event->index == h->n_parts);
        check(h->n_parts == 0 || event->n_tokens_before >= h->last_token);
        check(call == (event->name != NULL));
        h->open = true;
        h->kind = (int)event->part;
        h->last_token = event->n_tokens_before;
        h->n_parts++;
        h->arguments.size = 0;
        check(buf_printf(&h->said, "%s", chat_part_name(event->part)) == 0);
        if (!call)
                check(buf_append_str(&h->said, "<") == 0);
        else
                check(buf_printf(&h->said, " %s%s%s<", event->name, event->id ? "#" : "",
                              event->id ? event->id : "") == 0);
        check(!call || utf8_valid(event->name, strlen(event->name)));
        check(!event->id || (call && utf8_valid(event->id, strlen(event->id)) && *event->id));
}

static bool json_object(const struct buf *text) {
        struct jinja_data *data = NULL;
        bool ok;

        check(jinja_data_new(&data, (size_t)64 << 20, NULL, NULL) == 0);
        jinja_data_key(data, "arguments", true);
        ok = text->size > 0 && text->data[0] == '{' &&
             jinja_data_json(data, (const char *)text->data, text->size, NULL) == 0;
        jinja_data_free(data);
        return ok;
}

static void end(struct reply_heard *h, const struct chat_part_event *event) {
        h->open = false;
        check(buf_append_str(&h->said, ">") == 0);
        if (event->part == CHAT_PART_CALL) {
                h->n_calls++;
                h->n_broken += event->broken != NULL;
        } else
                check(h->arguments.size > 0); /* no part is empty */
        if (event->broken)
                check(buf_printf(&h->said, "!%s", event->broken) == 0);
        else if (event->part == CHAT_PART_CALL && !json_object(&h->arguments)) {
                fprintf(stderr, "no JSON object: %.*s\n", (int)h->arguments.size,
                        h->arguments.size ? (const char *)h->arguments.data : "");
                abort();
        }
        check(buf_append_str(&h->said, " ") == 0);
}

int reply_heard_event(void *arg, const struct chat_part_event *event, struct err *e) {
        struct reply_heard *h = arg;

        if (h->fail_at >= 0 && (long)h->n_events++ == h->fail_at)
                return err_set(e, ERR_CANCELLED, "refused");
        if (event->begins)
                begin(h, event);
        check(h->open && (int)event->part == h->kind && event->index + 1 == h->n_parts);
        check(event->begins || (!event->name && !event->id));
        check(event->n_tokens_before == h->last_token);
        check(event->text && utf8_valid(event->text, event->size));
        check(event->begins || event->ends || event->size > 0);
        check(!event->broken || event->ends);
        check(buf_append(&h->said, event->text, event->size) == 0);
        check(buf_append(&h->arguments, event->text, event->size) == 0);
        if (event->ends)
                end(h, event);
        return 0;
}

static void push_header(const struct reply_rig *rig, struct chat_reply *r) {
        struct tok_ids ids = TOK_IDS_NULL;
        const struct tok_fragment f = {rig->header, strlen(rig->header), true};

        check(tok_encode(rig->vocab.tok, &f, 1, false, true, 0, &ids, NULL) == 0);
        check(chat_reply_header(r, ids.ids, ids.n, NULL) == 0);
        tok_ids_deinit(&ids);
}

int reply_rig_read(const struct reply_rig *rig, const int32_t *tokens, size_t n, bool finish,
        struct reply_heard *ret, uint64_t *ret_steps) {
        _cleanup_(chat_reply_freep) struct chat_reply *r = NULL;
        struct err e = {0};
        int code = chat_reply_new(
                &r, rig->chat, rig->tools, rig->tools ? strlen(rig->tools) : 0, rig->charge, &e);

        if (code == 0 && rig->header)
                push_header(rig, r);
        for (size_t i = 0; code == 0 && i < n; i++)
                code = chat_reply_push(r, tokens[i], reply_heard_event, ret, &e);
        if (code == 0 && finish) {
                code = chat_reply_finish(r, reply_heard_event, ret, &e);
                check(code < 0 || !ret->open);
        }
        check((int)e.code == -code);
        if (ret_steps && r)
                *ret_steps = reply_steps(r);
        return code;
}
