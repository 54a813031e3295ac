/* SPDX-License-Identifier: MIT */
#include "kinds-rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "util/test.h"
#include "util/tiny-model.h"

struct kind kinds[N_KINDS] = {
        {.arch = "granitehybrid", .states = true, .blocks = true},
        {.arch = "mamba", .states = true},
        {.arch = "gemma3", .windows = true, .blocks = true},
        {.arch = "lfm2-window", .states = true, .windows = true},
};

static struct answer A, B, T;

void kind_open(struct erig *r, const struct kind *k, uint32_t delay_ms) {
        struct engine_options o = erig_options(32 << 20);

        o.model_path = k->path;
        o.spill_delay_ms = delay_ms;
        erig_open(r, &o);
}

void kind_close(struct erig *r) {
        erig_check_budget(r);
        assert_int_equal(erig_stat(r, "restore_failures"), 0);
        erig_check_register(r);
        erig_close(r);
}

void kind_say(struct erig *r, uint64_t c, unsigned i, struct answer *a) {
        char text[32];
        struct engine_request q;

        snprintf(text, sizeof(text), "Message %u.", i);
        q = erig_long_request(c, text, 4);
        if (erig_do(r, &q, a) != ENGINE_DONE)
                fail_msg("say: %s", a->err.msg);
}

uint64_t kind_open_as(struct erig *r, uint64_t owner, const char *system) {
        struct engine_request q = {.verb = ENGINE_OPEN, .owner = owner, .system = system};

        assert_int_equal(erig_do(r, &q, &A), ENGINE_CONV);
        return A.conv.id;
}

void kind_say_as(struct erig *r, uint64_t owner, uint64_t c, const char *text, struct answer *a) {
        struct engine_request q = erig_long_request(c, text, 4);

        q.owner = owner;
        if (erig_do(r, &q, a) != ENGINE_DONE)
                fail_msg("say: %s", a->err.msg);
}

uint64_t kind_talk(struct erig *r, unsigned n, struct answer *a) {
        uint64_t c = erig_new(r, NULL, "Be kind.");

        for (unsigned i = 0; i < n; i++)
                kind_say(r, c, i, a);
        return c;
}

void kind_append(struct erig *r, uint64_t c, uint32_t n, unsigned salt) {
        int32_t tokens[4096];
        struct engine_request q = {.verb = ENGINE_CONTINUE,
                .conv_id = c,
                .input = ENGINE_INPUT_TOKENS,
                .tokens = tokens,
                .n_tokens = n};

        assert_true(n <= ARRAY_SIZE(tokens));
        for (uint32_t i = 0; i < n; i++)
                tokens[i] = 261 + (int32_t)((i * 7 + i / 13 + salt) % 57);
        if (erig_do(r, &q, &A) != ENGINE_DONE)
                fail_msg("append: %s", A.err.msg);
}

void kind_wait_idle(struct erig *r) {
        for (unsigned n_at_rest = 0; n_at_rest < 2;)
                n_at_rest = erig_stat(r, "writebehind_running") > 0 ? 0 : n_at_rest + 1;
}

void kind_let_happen(struct erig *r, uint64_t c, enum kind_meanwhile what) {
        kind_wait_idle(r);
        if (what == EVICTED)
                assert_int_equal(erig_simple(r, ENGINE_EVICT, c, NULL), ENGINE_CONV);
        else if (what != NOTHING)
                erig_restart(r, what == RESTARTED);
}

uint32_t kind_computed_of(const struct answer *a, uint32_t n) {
        uint32_t kept = a->n_prompt - a->n_computed;

        return n - MIN(n, kept);
}

void kind_regenerate(struct erig *r, uint64_t c, struct answer *a) {
        struct engine_request q;

        erig_get(r, c, &T);
        q = erig_long_request(c, "", 4);
        q.input = ENGINE_INPUT_NONE;
        q.cuts = true;
        q.at_turn = T.n_turns - 1;
        q.at_position = ENGINE_UNSET;
        if (erig_do(r, &q, a) != ENGINE_DONE)
                fail_msg("regenerate: %s", a->err.msg);
}

uint32_t kind_go_on(struct erig *r, uint64_t c, const struct answer *whole, unsigned n,
        struct erig *fresh, struct answer *a) {
        const struct engine_turn *last = &whole->turns[n - 1];
        uint32_t end = last->end - (last->finish != ENGINE_FINISH_NONE);
        int32_t tokens[4096];
        struct engine_request q = {.verb = ENGINE_CONTINUE,
                .input = ENGINE_INPUT_TOKENS,
                .tokens = tokens,
                .max_tokens = 3,
                .ignore_eos = true,
                .want_logprobs = true,
                .sampling = {.has = SAMPLING_TEMPERATURE | SAMPLING_SEED, .seed = 1}};

        assert_true(last->end + 6 <= ARRAY_SIZE(tokens));
        memcpy(tokens, whole->history, last->end * sizeof(*tokens));
        for (uint32_t i = 0; i < 6; i++)
                tokens[last->end + i] = 290 + (int32_t)(n + i) % 29;
        q.n_tokens = last->end + 6;
        q.conv_id = erig_new(fresh, NULL, NULL);
        assert_int_equal(erig_do(fresh, &q, &B), ENGINE_DONE);
        assert_int_equal(erig_simple(fresh, ENGINE_CLOSE, q.conv_id, NULL), ENGINE_EMPTY);
        q.conv_id = c;
        q.tokens = tokens + last->end;
        q.n_tokens = 6;
        if (erig_do(r, &q, a) != ENGINE_DONE)
                fail_msg("go on at turn %u: %s", n, a->err.msg);
        answer_same(a, &B);
        return kind_computed_of(a, end);
}

struct engine_request kind_cut_request(enum engine_verb verb, uint64_t c, unsigned at_turn) {
        struct engine_request q = erig_request(verb, c);

        q.at_turn = at_turn;
        return q;
}

struct store_gone kind_read_links(const struct erig *r, uint64_t c) {
        struct store_gone links = {0};
        struct store *s = erig_register(r);
        struct err e;

        if (store_links(s, c, &links, &e) < 0)
                fail_msg("%s", e.msg);
        store_free(s);
        return links;
}

size_t kind_link_list(
        const struct erig *r, uint64_t c, uint32_t class, uint32_t *ends, size_t max) {
        struct store_gone links = kind_read_links(r, c);
        size_t n = 0;

        for (size_t i = 0; i < links.n; i++) {
                if (links.records[i].block_class != class)
                        continue;
                assert_true(!ends || n < max);
                if (ends)
                        ends[n] = (links.records[i].index + 1) * (class == 2 ? 1 : KIND_BLOCK);
                n++;
        }
        store_gone_deinit(&links);
        return n;
}

size_t kind_links(const struct erig *r, uint64_t c, uint32_t class) {
        return kind_link_list(r, c, class, NULL, 0);
}

uint64_t kind_least_pool(const struct kind *k, uint32_t n) {
        uint64_t low = 1, high = 4 << 20;

        while (low < high) {
                struct engine_options o = erig_options((low + high) / 2);
                uint64_t tokens = 0;
                struct erig r = {.next = 1, .silence_msec = 60000};

                o.model_path = k->path;
                r.o = o;
                strcpy(r.dir, "/tmp/confab-test-XXXXXX");
                assert_non_null(mkdtemp(r.dir));
                r.o.state_dir = r.dir;
                if (engine_open(&r.en, &r.o, NULL) == 0) {
                        tokens = erig_stat(&r, "pool_capacity_tokens");
                        erig_close(&r);
                }
                if (tokens >= n)
                        high = o.pool_size;
                else
                        low = o.pool_size + 1;
        }
        return low;
}

int kinds_make(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
                strcpy(kinds[i].path, "/tmp/confab-kind-XXXXXX");
                close(mkstemp(kinds[i].path));
                if (tiny_model_write_long(kinds[i].path, kinds[i].arch, KIND_CONTEXT) < 0)
                        return -1;
        }
        return 0;
}

int kinds_remove(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
                unlink(kinds[i].path);
        return 0;
}
