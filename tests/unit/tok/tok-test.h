/* SPDX-License-Identifier: MIT */
#pragma once
/* Short forms for the tests of lib/tok. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "tok/tok.h"
#include "unit/tok/vocab-build.h"
#include "util/test.h"

static inline void load(struct vocab_build *v) {
        struct err e = {0};

        if (vocab_build_load(v, &e) < 0)
                fail_msg("%s", e.msg);
}

/* Tokens of one text that begins a conversation, without bos. */
static inline void encode(
        const struct tok *t, const void *text, size_t n, bool parse_special, struct tok_ids *ids) {
        const struct tok_fragment f = {text, n, parse_special};
        struct err e = {0};

        ids->n = 0;
        if (tok_encode(t, &f, 1, false, true, 0, ids, &e) < 0)
                fail_msg("%s", e.msg);
}

/* The tokens' texts joined by '|', as a readable form. */
static inline void assert_tokens(
        const struct tok *t, const char *text, bool parse_special, const char *want) {
        _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
        _cleanup_(buf_deinit) struct buf b = BUF_NULL;

        encode(t, text, strlen(text), parse_special, &ids);
        for (size_t i = 0; i < ids.n; i++) {
                size_t n;
                const char *s = tok_text(t, ids.ids[i], &n);

                if (i > 0)
                        assert_int_equal(buf_append_str(&b, "|"), 0);
                assert_int_equal(buf_append(&b, s, n), 0);
        }
        assert_string_equal(b.data ? (char *)b.data : "", want);
}

/* What a stream prints. */
static inline void decode(const struct tok *t, const int32_t *ids, size_t n, bool at_start,
        bool special, struct buf *out) {
        struct tok_stream s;

        tok_stream_init(&s, t, at_start, special);
        for (size_t i = 0; i < n; i++)
                assert_int_equal(tok_stream_push(&s, t, ids[i], out), 0);
        assert_int_equal(tok_stream_finish(&s, out), 0);
}

static inline uint32_t test_random(uint64_t *x) {
        *x ^= *x << 13;
        *x ^= *x >> 7;
        *x ^= *x << 17;
        return (uint32_t)(*x >> 32);
}
