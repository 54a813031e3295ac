/* SPDX-License-Identifier: MIT */
/*
 * One byte for the rows, one for what is given (invitation, definitions, control tokens), and the text
 * of a reply. Whatever it is:
 *
 * 1. parts follow each other, their text is UTF-8, the arguments of a call that is not broken are one
 *    JSON object (reply-rig.c);
 * 2. any cutting into tokens gives the same parts;
 * 3. a reply that is cut off has the parts of the whole one up to there;
 * 4. without rows the parts are one text, which is that of the tokens;
 * 5. memory is bounded, and given back; time is linear (in steps).
 */
#include <string.h>

#include "base/charge.h"
#include "base/ledger.h"
#include "chat/reply-internal.h"
#include "fuzz/check.h"
#include "unit/chat/reply-cases.h"
#include "unit/chat/reply-rig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WITH_HEADER = 1, WITH_TOOLS = 2, WITH_CONTROL = 4, WITH_THINKING = 8, MOST_STEPS = 300 };

static struct reply_rig plain, control;

static void make_rigs(void) {
        reply_rig_init(&plain);
        for (size_t i = 0; i < reply_n_cases; i++)
                reply_rig_pieces(&plain, reply_cases[i].text, strlen(reply_cases[i].text), i + 1);
        reply_rig_load(&plain, "");
        reply_rig_init(&control);
        reply_rig_marks(&control);
        reply_rig_load(&control, "");
}

struct reading {
        struct reply_rig *rig;
        const struct reply_rules *rules;
        const struct reply_case *row;
        bool tools, header;
};

static int read_tokens(const struct reading *in, const struct tok_ids *ids, size_t n, bool finish,
        struct reply_heard *heard) {
        struct ledger ledger = LEDGER_INIT((size_t)16 << 20);
        struct charge charge = {.ledger = &ledger};
        struct chat_reply *r = NULL;
        int code = reply_new(&r, in->rules, in->tools ? reply_case_tools : NULL,
                strlen(reply_case_tools), &charge, NULL);

        if (in->header && in->row->header) {
                _cleanup_(tok_ids_deinit) struct tok_ids header = TOK_IDS_NULL;

                reply_rig_cut(in->rig, in->row->header, strlen(in->row->header), REPLY_CUT_BYTES, 0,
                        &header);
                check(chat_reply_header(r, header.ids, header.n, NULL) == 0);
        }
        for (size_t i = 0; code == 0 && i < n; i++)
                code = chat_reply_push(r, ids->ids[i], reply_heard_event, heard, NULL);
        if (code == 0 && finish)
                code = chat_reply_finish(r, reply_heard_event, heard, NULL);
        check(code == 0 && (!finish || !heard->open));
        check(reply_steps(r) <= (uint64_t)MOST_STEPS * (n * 32 + 1000));
        chat_reply_free(r);
        check(charge.size == 0 && ledger_used(&ledger) == 0);
        check(ledger_peak(&ledger) < 4 * CHAT_REPLY_HELD + 65536);
        return code;
}

static void same(const struct reply_heard *a, const struct reply_heard *b, size_t n) {
        check(n <= a->said.size && n <= b->said.size);
        check(n == 0 || memcmp(a->said.data, b->said.data, n) == 0);
}

static void check_text(
        const struct reading *in, const struct tok_ids *ids, const struct buf *said) {
        _cleanup_(buf_deinit) struct buf text = BUF_NULL, plain_text = BUF_NULL;
        struct tok_stream stream;

        tok_stream_init(&stream, in->rig->vocab.tok, false, false);
        check(buf_append_str(&text, "text<") == 0);
        for (size_t i = 0; i < ids->n; i++)
                check(tok_stream_push(&stream, in->rig->vocab.tok, ids->ids[i], &plain_text) == 0);
        check(tok_stream_finish(&stream, &plain_text) == 0);
        check(buf_append_text(&text, plain_text.data, plain_text.size) == 0);
        if (text.size == 5) { /* nothing: no part */
                check(said->size == 0);
                return;
        }
        check(buf_append_str(&text, "> ") == 0);
        check(text.size == said->size && memcmp(text.data, said->data, text.size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_(tok_ids_deinit) struct tok_ids bytes = TOK_IDS_NULL, cut = TOK_IDS_NULL;
        _cleanup_(reply_heard_deinit) struct reply_heard whole = REPLY_HEARD_NULL,
                                                         other = REPLY_HEARD_NULL,
                                                         open = REPLY_HEARD_NULL;
        struct reply_rules rules = {0};
        struct reading in = {.rules = &rules};
        const char *text;
        unsigned flags;

        if (size < 2)
                return 0;
        if (!plain.chat)
                make_rigs();
        flags = data[1];
        in.row = &reply_cases[data[0] % reply_n_cases];
        in.rig = flags & WITH_CONTROL ? &control : &plain;
        in.tools = flags & WITH_TOOLS;
        in.header = flags & WITH_HEADER;
        reply_choose(
                &rules, in.rig->vocab.tok, in.row->template_text, strlen(in.row->template_text));
        if (strcmp(in.row->format, "none") == 0)
                rules.calls = NULL;
        if (!rules.thinking || strcmp(in.row->format, "none") == 0)
                rules.thinking =
                        flags & WITH_THINKING ? &reply_thinking[data[0] % reply_n_thinking] : NULL;
        text = (const char *)data + 2;
        size -= 2;
        reply_rig_cut(in.rig, text, size,
                flags & WITH_CONTROL ? REPLY_CUT_LONGEST : REPLY_CUT_BYTES, 0, &bytes);
        read_tokens(&in, &bytes, bytes.n, true, &whole);
        if (!rules.calls && !rules.thinking && !rules.wrap && !(flags & WITH_CONTROL))
                check_text(&in, &bytes, &whole.said);
        read_tokens(&in, &bytes, bytes.n * (data[1] >> 4) / 16, false, &open);
        same(&whole, &open, open.said.size);
        if (flags & WITH_CONTROL)
                return 0;
        reply_rig_cut(in.rig, text, size, REPLY_CUT_RANDOM, size * 31 + data[1], &cut);
        read_tokens(&in, &cut, cut.n, true, &other);
        check(whole.said.size == other.said.size);
        same(&whole, &other, whole.said.size);
        return 0;
}
