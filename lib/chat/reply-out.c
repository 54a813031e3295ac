/* SPDX-License-Identifier: MIT */
/*
 * Parts to events. Bytes of a part gather until the token that brought them has been read, the part
 * ends, or there is no more room; an event never ends within a character.
 */
#include "base/err.h"
#include "chat/reply-internal.h"

const char *chat_part_name(enum chat_part part) {
        static const char *const names[CHAT_N_PARTS] = {
                [CHAT_PART_TEXT] = "text",
                [CHAT_PART_REASONING] = "reasoning",
                [CHAT_PART_CALL] = "call",
        };

        return (unsigned)part < CHAT_N_PARTS ? names[part] : "unknown";
}

static void tell(struct chat_reply *r, bool ends, const char *broken) {
        bool begins = r->begin_untold, call = r->part == CHAT_PART_CALL;
        const struct chat_part_event event = {
                .part = r->part,
                .index = r->index,
                .begins = begins,
                .ends = ends,
                .text = r->out,
                .size = r->n_out,
                .name = begins && call ? r->call.name.text : NULL,
                .id = begins && call && r->call.has_id ? r->call.id.text : NULL,
                .broken = broken,
                .n_tokens_before = r->part_token,
        };

        r->begin_untold = false;
        r->n_out = 0;
        if (r->muted || r->failed < 0)
                return;
        r->failed = r->fn(r->arg, &event, r->e);
}

void reply_part_begin(struct chat_reply *r, enum chat_part part, uint32_t token) {
        r->open = r->begin_untold = true;
        r->part = part;
        r->part_token = token;
        r->index = r->n_parts++;
        r->n_out = 0;
}

void reply_part_byte(struct chat_reply *r, char c) {
        /* Room for the rest of a character is left: it has at most 4 bytes. */
        if (r->n_out >= sizeof(r->out) - 4 && ((unsigned char)c & 0xC0) != 0x80)
                tell(r, false, NULL);
        r->out[r->n_out++] = c;
}

void reply_part_end(struct chat_reply *r, const char *broken) {
        if (!r->open)
                return;
        tell(r, true, broken);
        r->open = false;
}

void reply_part_flush(struct chat_reply *r) {
        if (r->open && (r->n_out > 0 || r->begin_untold))
                tell(r, false, NULL);
}
