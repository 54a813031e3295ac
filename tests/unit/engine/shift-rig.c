/* SPDX-License-Identifier: MIT */
#include "shift-rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/test.h"

static struct erig oracle;

struct engine_options shift_options(uint64_t pool_size) {
        struct engine_options o = erig_options(pool_size);

        o.context = SHIFT_CONTEXT;
        return o;
}

void shift_open(struct erig *r, const struct engine_options *o) {
        struct engine_options plain = erig_options(64 << 20);

        erig_open(r, o);
        erig_open(&oracle, &plain);
}

void shift_close(struct erig *r) {
        erig_check_budget(r);
        assert_int_equal(erig_stat(r, "restore_failures"), 0);
        erig_close(r);
        erig_close(&oracle);
}

uint64_t shift_new(struct erig *r, const char *system) {
        struct engine_request q = {
                .verb = ENGINE_OPEN, .system = system, .overflow = ENGINE_OVERFLOW_SHIFT};
        static struct answer a;

        assert_int_equal(erig_do(r, &q, &a), ENGINE_CONV);
        assert_int_equal(a.conv.overflow, ENGINE_OVERFLOW_SHIFT);
        return a.conv.id;
}

void shift_set_overflow(struct erig *r, uint64_t conv, enum engine_overflow overflow) {
        struct engine_request q = erig_request(ENGINE_UPDATE, conv);
        static struct answer a;

        q.overflow = overflow;
        assert_int_equal(erig_do(r, &q, &a), ENGINE_CONV);
        assert_int_equal(a.conv.overflow, overflow);
}

int32_t *shift_memory(const struct answer *whole, uint32_t *ret_n) {
        uint32_t from = whole->conv.dropped_from, to = whole->conv.dropped_to;
        int32_t *tokens = calloc(whole->n_history + 1, sizeof(*tokens));

        assert_non_null(tokens);
        assert_true(from <= to && to <= whole->n_history);
        memcpy(tokens, whole->history, from * sizeof(*tokens));
        memcpy(tokens + from, whole->history + to, (whole->n_history - to) * sizeof(*tokens));
        *ret_n = whole->n_history - (to - from);
        return tokens;
}

void shift_check_reply(struct erig *r, uint64_t conv, const struct answer *reply) {
        static struct answer whole, fresh;
        struct engine_request q;
        int32_t *tokens;
        uint32_t n;

        erig_get(r, conv, &whole);
        tokens = shift_memory(&whole, &n);
        assert_true(n <= SHIFT_CONTEXT);
        q = erig_long_request(erig_new(&oracle, NULL, NULL), "", reply->n_generated);
        q.input = ENGINE_INPUT_TOKENS;
        q.tokens = tokens;
        q.n_tokens = n - reply->n_generated;
        assert_int_equal(erig_do(&oracle, &q, &fresh), ENGINE_DONE);
        assert_int_equal(q.n_tokens, reply->n_prompt);
        assert_int_equal(fresh.n_tokens, reply->n_tokens);
        assert_memory_equal(
                fresh.tokens, reply->tokens, reply->n_tokens * sizeof(reply->tokens[0]));
        assert_memory_equal(
                fresh.logprobs, reply->logprobs, reply->n_tokens * sizeof(reply->logprobs[0]));
        erig_simple(&oracle, ENGINE_CLOSE, q.conv_id, NULL);
        free(tokens);
}

struct engine_request shift_request(uint64_t conv, unsigned k) {
        static const char *const words[] = {
                "cat", "dog", "horse", "whale", "river", "moon", "tree"};
        static char text[16][128]; /* good until 16 more were made */
        static unsigned at;
        char *p = text[at++ % 16];

        snprintf(p, sizeof(text[0]), "Number %u: tell me about the %s and the %s.", k, words[k % 7],
                words[k / 3 % 7]);
        return erig_long_request(conv, p, 12);
}

void shift_say(struct erig *r, uint64_t conv, unsigned k, struct answer *a) {
        struct engine_request q = shift_request(conv, k);

        if (erig_do(r, &q, a) != ENGINE_DONE)
                fail_msg("message %u: %s", k, a->err.msg);
        shift_check_reply(r, conv, a);
}

unsigned shift_fill(struct erig *r, uint64_t conv, struct answer *a) {
        unsigned k = 0;

        do {
                struct engine_request q = shift_request(conv, k++);

                if (erig_do(r, &q, a) != ENGINE_DONE)
                        fail_msg("message %u: %s", k, a->err.msg);
                assert_true(k < 40);
        } while (a->n_dropped == 0);
        return k;
}
