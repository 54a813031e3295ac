/* SPDX-License-Identifier: MIT */
#include "unit/chat/whole.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "jinja/jinja.h"
#include "util/test.h"

static void put_text(struct jinja_data *d, const char *key, const char *text, bool trusted) {
        jinja_data_key(d, key, true);
        jinja_data_string(d, text, strlen(text), trusted);
}

static void put_call(struct jinja_data *d, const struct whole *whole, const struct chat_call *c) {
        jinja_data_dict_begin(d);
        put_text(d, "id", c->id, false);
        put_text(d, "type", "function", true);
        jinja_data_key(d, "function", true);
        jinja_data_dict_begin(d);
        put_text(d, "name", c->name, false);
        jinja_data_key(d, "arguments", true);
        if (whole->arguments_as_text)
                jinja_data_string(d, c->arguments, c->arguments_size, false);
        else
                assert_int_equal(jinja_data_json(d, c->arguments, c->arguments_size, NULL), 0);
        jinja_data_dict_end(d);
        jinja_data_dict_end(d);
}

static void put_message(
        struct jinja_data *d, const struct whole *whole, const struct chat_message *m) {
        jinja_data_dict_begin(d);
        put_text(d, "role",
                m->role == CHAT_TOOL && whole->result_role ? whole->result_role
                                                           : chat_role_name(m->role),
                true);
        if (m->role == CHAT_SYSTEM && whole->tools && whole->tools_as_key) {
                jinja_data_key(d, "tools", true);
                assert_int_equal(jinja_data_json(d, whole->tools, strlen(whole->tools), NULL), 0);
        }
        jinja_data_key(d, "content", true);
        if (m->n_calls > 0 && m->size == 0 && whole->content_none)
                jinja_data_none(d);
        else
                jinja_data_string(d, m->size > 0 ? m->text : "", m->size, false);
        if (m->reasoning && whole->reasoning_key) {
                jinja_data_key(d, whole->reasoning_key, true);
                jinja_data_string(d, m->reasoning, m->reasoning_size, false);
        }
        if (m->n_calls > 0) {
                jinja_data_key(d, "tool_calls", true);
                jinja_data_list_begin(d);
                for (size_t i = 0; i < m->n_calls; i++)
                        put_call(d, whole, &m->calls[i]);
                jinja_data_list_end(d);
        }
        if (m->call_id)
                put_text(d, "tool_call_id", m->call_id, false);
        if (m->name)
                put_text(d, "name", m->name, false);
        jinja_data_dict_end(d);
}

static void put_token(struct jinja_data *d, const struct tok *t, const char *key, int32_t token) {
        size_t size;
        const char *s = tok_text(t, token, &size);

        jinja_data_key(d, key, true);
        jinja_data_string(d, s, size, true);
}

static void render(
        const struct tok *t, const char *text, const struct whole *whole, struct jinja_out *ret) {
        _cleanup_(jinja_data_freep) struct jinja_data *d = NULL;
        _cleanup_(jinja_freep) struct jinja *j = NULL;
        struct jinja_input in = {0};
        struct err e = {0};

        assert_int_equal(jinja_parse(&j, text, strlen(text), 0, &e), 0);
        assert_int_equal(jinja_data_new(&d, 1 << 20, NULL, &e), 0);
        jinja_data_key(d, "messages", true);
        jinja_data_list_begin(d);
        for (size_t i = 0; i < whole->n; i++)
                put_message(d, whole, &whole->messages[i]);
        jinja_data_list_end(d);
        jinja_data_key(d, "add_generation_prompt", true);
        jinja_data_bool(d, whole->invite);
        jinja_data_key(d, "tools", true);
        if (whole->tools && !whole->tools_as_key)
                assert_int_equal(jinja_data_json(d, whole->tools, strlen(whole->tools), &e), 0);
        else
                jinja_data_none(d);
        put_token(d, t, "bos_token", tok_bos(t));
        put_token(d, t, "eos_token", tok_eos(t));
        if (jinja_data_finish(d, &e) < 0)
                fail_msg("%s", e.msg);
        in.data = d;
        if (jinja_render(j, &in, ret, &e) < 0)
                fail_msg("%s", e.msg);
}

void whole_tokens(
        const struct tok *t, const char *text, const struct whole *whole, struct tok_ids *ids) {
        _cleanup_(jinja_out_deinit) struct jinja_out out = JINJA_OUT_NULL;
        _cleanup_(freep) struct tok_range *trusted = NULL;
        size_t n = 0, n_bos;
        const char *bos = tok_text(t, tok_bos(t), &n_bos);
        int32_t id = tok_bos(t);

        render(t, text, whole, &out);
        trusted = calloc(out.n_spans + 1, sizeof(*trusted));
        assert_non_null(trusted);
        for (size_t i = 0; i < out.n_spans; i++)
                if (out.spans[i].trusted)
                        trusted[n++] = (struct tok_range){out.spans[i].offset, out.spans[i].size};
        if (tok_add_bos(t) && !(out.size >= n_bos && memcmp(out.text, bos, n_bos) == 0))
                assert_int_equal(tok_ids_append(ids, &id, 1, NULL), 0);
        assert_int_equal(
                tok_encode_trusted(t, out.text, out.size, trusted, n, true, 0, ids, NULL), 0);
}

void whole_vocabulary(struct vocab_build *v, const char *model, bool add_bos,
        const char *const *control, const char *const *added) {
        struct err e = {0};
        bool bpe = strcmp(model, "gpt2") == 0;

        vocab_build_init(v, model);
        gguf_build_bool(v->file, "tokenizer.ggml.add_bos_token", add_bos);
        if (bpe) {
                gguf_build_str(v->file, "tokenizer.ggml.pre", "llama-bpe");
                vocab_build_bpe_bytes(v);
                gguf_build_u32(v->file, "tokenizer.ggml.bos_token_id",
                        (uint32_t)vocab_build_add(v, "<s>", V_CONTROL, 0));
                gguf_build_u32(v->file, "tokenizer.ggml.eos_token_id",
                        (uint32_t)vocab_build_add(v, "</s>", V_CONTROL, 0));
                /* Joined over the border between template and text. */
                vocab_build_add(v, "\xc4\x8a\xc4\x8a", V_NORMAL, 0);
                vocab_build_merge(v, "\xc4\x8a \xc4\x8a");
                vocab_build_add(v,
                        "\xc4\xa0"
                        "H",
                        V_NORMAL, 0);
                vocab_build_merge(v, "\xc4\xa0 H");
        } else {
                vocab_build_spm_bytes(v);
                vocab_build_add(v, "\xe2\x96\x81", V_NORMAL, -1);
                vocab_build_add(v, "\xe2\x96\x81H", V_NORMAL, -1);
                vocab_build_add(v, "\n", V_NORMAL, -1);
                vocab_build_add(v, "\n\n", V_NORMAL, -1);
                vocab_build_add(v, "H", V_NORMAL, -1);
        }
        for (; *control; control++)
                vocab_build_add(v, *control, V_CONTROL, 0);
        for (; added && *added; added++)
                vocab_build_add(v, *added, V_USER_DEFINED, 0);
        if (vocab_build_load(v, &e) < 0)
                fail_msg("%s", e.msg);
}

char *whole_text_of(const struct tok *t, const struct tok_ids *ids, const char *between) {
        _cleanup_(buf_deinit) struct buf b = BUF_NULL;

        assert_int_equal(buf_append_str(&b, ""), 0);
        for (size_t i = 0; i < ids->n; i++) {
                char piece[64];
                size_t n = tok_piece(t, ids->ids[i], true, piece, sizeof(piece));

                if (i > 0)
                        assert_int_equal(buf_append_str(&b, between), 0);
                assert_int_equal(buf_append(&b, piece, n), 0);
        }
        return b.data ? buf_take(&b, NULL) : strdup("");
}

void whole_assert_same(const char *name, const struct tok *t, const struct tok_ids *got,
        const struct tok_ids *want) {
        _cleanup_(freep) char *a = NULL, *b = NULL;

        if (got->n == want->n &&
                (got->n == 0 || memcmp(got->ids, want->ids, got->n * sizeof(*got->ids)) == 0))
                return;
        a = whole_text_of(t, got, "|");
        b = whole_text_of(t, want, "|");
        /* Longer than a message of cmocka's may be. */
        fprintf(stderr, "%s:\n  got  %s\n  want %s\n", name, a, b);
        fail_msg("%s: other tokens than the whole rendering has", name);
}

struct chat *whole_chat(const struct vocab_build *v, const char *text) {
        struct chat *c = NULL;
        struct err e = {0};

        if (chat_new(&c, v->tok, text, strlen(text), NULL, &e) < 0)
                fail_msg("%s", e.msg);
        if (strcmp(chat_family(c), "template") != 0)
                fail_msg("%s: %s", chat_family(c), chat_difference(c, 0));
        return c;
}
