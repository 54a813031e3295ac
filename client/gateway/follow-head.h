/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The head of another gateway's answer: bytes to a status, fields, and the form of the body. Pure, like http-head.h, whose
 * http_scan_head() finds its end and refuses what no head may contain.
 *
 * An answer that two readers could read differently is refused: several lengths, a length beside a coding, another coding
 * than "chunked", folded lines, blanks before a colon.
 */
#include "base/err.h"
#include "client/gateway/http-head.h"

enum follow_framing {
        FOLLOW_NO_BODY,
        FOLLOW_SIZED,   /* `length` bytes */
        FOLLOW_CHUNKED, /* http-chunk.h */
        FOLLOW_TO_END   /* until the connection ends */
};

struct follow_head {
        char *text;                /* owned: what the strings point into */
        struct http_field *fields; /* [n_fields], owned; names in lower case */
        size_t n_fields;
        unsigned status; /* 100 to 599 */
        enum follow_framing framing;
        uint64_t length; /* FOLLOW_SIZED; of a HEAD's answer, what there would be */
        bool has_length;
};
#define FOLLOW_HEAD_NULL ((struct follow_head){})

/* @text [@size]: a whole head. @is_head: of the answer to a HEAD. @ret is FOLLOW_HEAD_NULL before, and to be deinitialised also
 * after a failure. -ERR_FORMAT, -ERR_NOMEM. */
int follow_head_parse(
        struct follow_head *ret, const char *text, size_t size, bool is_head, struct err *e);
void follow_head_deinit(struct follow_head *head);
/* The value of the field @name (in any case), the first of it, or NULL. */
const char *follow_head_field(const struct follow_head *head, const char *name);
