/* SPDX-License-Identifier: MIT */
#pragma once
/* Bytes as a part of a reply, for the fuzzers of writers. */
#include <string.h>

#include "base/cursor.h"
#include "client/confab.h"

struct fuzz_part {
        struct confab_part part; /* its text is `text` */
        struct confab_token token;
        char text[256];
        uint8_t what; /* the byte that gave kind and flags */
};

/* Kind and flags, index, size of its text, the text. What libconfab hands out is UTF-8 without NUL. False at the end
 * of the bytes. */
static inline bool fuzz_read_part(struct fuzz_part *ret, struct cursor *c) {
        const uint8_t *text;
        uint8_t index, n;

        if (cursor_u8(c, &ret->what) || cursor_u8(c, &index) || cursor_u8(c, &n) ||
                cursor_bytes(c, n, &text))
                return false;
        for (size_t i = 0; i < n; i++)
                ret->text[i] = (char)(text[i] >= 1 && text[i] < 0x80 ? text[i] : '?');
        ret->text[n] = '\0';
        ret->part = (struct confab_part){
                .kind = (enum confab_part_kind)(ret->what % 5), /* one that is not known yet, too */
                .ends = ret->what & 8,
                .index = index,
                .text = ret->text,
                .text_size = n,
                .name = ret->what & 16 ? "f" : NULL,
                .call_id = ret->what & 32 ? "id" : NULL,
                .broken = ret->what & 64 ? "why" : NULL,
        };
        ret->token = (struct confab_token){.has_logprob = true, .logprob = -1, .text = {text, n}};
        return true;
}
