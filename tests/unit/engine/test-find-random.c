/* SPDX-License-Identifier: MIT */
/*
 * Random conversations, and random lists of messages: what changes nothing is tolerated, everything else
 * ends the match, and what is found is as long as the longest that a comparison one by one finds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "find-rig.h"
#include "util/noise.h"
#include "util/test.h"

#define DEFS "[{\"name\":\"f\",\"parameters\":{}}]"

#define MOST 24 /* things said in a conversation */
#define N_CONVS 14
#define N_LISTS 300

/* What may be said. A reply has a raw text, and forms that clients send back. */
static const char *const systems[] = {"Be brief.", "Be kind.", "None has this."};
static const char *const users[] = {"Why?", " Why? ", "Go on"};
static const char *const results[] = {"one", "one\n"};
static const struct {
        const char *raw, *reasoning, *name;
        const char *texts[3], *arguments[3];
} replies[] = {
        {"Yes.", NULL, NULL, {"Yes.", " Yes.", "Yes.\n\n"}, {NULL}},
        {"\n No  way. \t", NULL, NULL, {"\n No  way. \t", "No  way.", "No  way. "}, {NULL}},
        {"<think>hm, so</think>Perhaps", "hm, so", NULL, {"Perhaps", "Perhaps ", "Perhaps"},
                {NULL}},
        {"See.<tool_call>{\"name\": \"f\", \"arguments\": {\"x\": 1, \"y\": [\"a\"]}}</tool_call>",
                NULL, "f", {"See.", "See.\n", " See."},
                {"{\"x\": 1, \"y\": [\"a\"]}", "{\"y\":[\"\\u0061\"],\"x\":1.0}",
                        "{ \"x\":1,\"y\":[\"a\"] }"}},
        {"<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>", NULL, "f", {"", " ", "\n"},
                {"{}", "{ }", ""}},
};
enum { SYSTEM, USER, REPLY, RESULT };
#define CALLS 3 /* the first reply with a call */

struct thing {
        int kind;
        unsigned which;
};
struct history {
        struct thing said[MOST];
        size_t n;
        uint64_t id;
};

static uint64_t dice = 7;
static unsigned draw(unsigned n) {
        return (unsigned)(noise_bits(&dice) % n);
}

static void say(struct history *h, int kind, unsigned which) {
        assert_true(h->n < MOST);
        h->said[h->n++] = (struct thing){kind, which};
}

/* One message and its reply, and results as long as the reply asks for them. */
static void exchange(struct erig *r, struct history *h) {
        unsigned user = draw(3), reply = draw(5);

        find_say(r, h->id, users[user], replies[reply].raw);
        say(h, USER, user);
        say(h, REPLY, reply);
        while (reply >= CALLS && h->n + 2 <= MOST) {
                unsigned result = draw(2);

                reply = draw(8) % 5;
                find_answer(r, h->id, &results[result], 1, replies[reply].raw);
                say(h, RESULT, result);
                say(h, REPLY, reply);
        }
}

static void begin(struct erig *r, struct history *h) {
        unsigned system = draw(2);

        *h = (struct history){.id = tools_new(r, systems[system], DEFS)};
        say(h, SYSTEM, system);
        for (unsigned n = 1 + draw(3); n > 0 && h->n + 4 < MOST; n--)
                exchange(r, h);
}

/* A fork of the first things said, or the same conversation cut there, that goes on in another way. */
static void branch(struct erig *r, const struct history *from, struct history *h, bool fork) {
        struct engine_request q = erig_request(fork ? ENGINE_FORK : ENGINE_REWIND, from->id);
        static struct answer A;
        size_t n = 1 + draw((unsigned)from->n);

        /* Behind calls there must be results. */
        while (n > 1 && from->said[n - 1].kind != REPLY)
                n--;
        if (from->said[n - 1].kind == REPLY && from->said[n - 1].which >= CALLS)
                n = 1;
        q.at_turn = (uint32_t)n;
        if (erig_do(r, &q, &A) != ENGINE_CONV)
                fail_msg("%s", A.err.msg);
        *h = *from;
        h->n = n;
        h->id = A.conv.id;
        if (h->n + 4 < MOST)
                exchange(r, h);
}

/* As a client sends it back. */
static void put_thing(struct list_of *l, struct thing t) {
        unsigned form = draw(3);

        if (t.kind == SYSTEM)
                put(l, ENGINE_SYSTEM, systems[t.which]);
        else if (t.kind == USER)
                put(l, ENGINE_USER, users[t.which]);
        else if (t.kind == RESULT)
                put_result(l, results[t.which]);
        else
                put_said(l, replies[t.which].texts[form],
                        draw(2) ? replies[t.which].reasoning : NULL, replies[t.which].name,
                        replies[t.which].arguments[draw(3)]);
}

static size_t common(const struct history *h, const struct thing *said, size_t n) {
        size_t k = 0;

        while (k < n && k < h->n && said[k].kind == h->said[k].kind &&
                said[k].which == h->said[k].which)
                k++;
        return k;
}

/* A list that begins like one of them; things[k] is covered by the first ends[k] messages. */
static size_t make_list(
        const struct history *h, struct list_of *l, struct thing *things, uint32_t *ends) {
        size_t n = 1 + draw((unsigned)h->n);

        memcpy(things, h->said, n * sizeof(*things));
        if (draw(2)) {
                struct thing *t = &things[draw((unsigned)n)];
                const unsigned most[] = {3, 3, 5, 2};

                t->which = (t->which + 1 + draw(most[t->kind] - 1)) % most[t->kind];
        }
        l->n = l->n_calls = l->n_results = 0;
        for (size_t i = 0; i < n; i++) {
                put_thing(l, things[i]);
                while (draw(5) == 0 && l->n + n - i < 60)
                        put(l, ENGINE_ASSISTANT, draw(2) ? "" : " ");
                ends[i] = (uint32_t)l->n;
        }
        return n;
}

static void test_random(void **state) {
        static struct history convs[N_CONVS];
        struct thing things[MOST];
        uint32_t ends[MOST];
        static struct list_of l;
        unsigned lengths[MOST + 1] = {0};
        const struct history *look_at;
        struct erig r;

        (void)state;
        tools_open(&r, FIND_POOL);
        for (size_t i = 0; i < N_CONVS; i++) {
                if (i < 6)
                        begin(&r, &convs[i]);
                else
                        branch(&r, &convs[draw(6)], &convs[i], true);
        }
        branch(&r, &convs[2], &convs[2], false);
        branch(&r, &convs[8], &convs[8], false);
        for (unsigned round = 0; round < N_LISTS; round++) {
                size_t n = make_list(&convs[draw(N_CONVS)], &l, things, ends), longest = 0;

                for (size_t i = 0; i < N_CONVS; i++) {
                        size_t k = common(&convs[i], things, n);

                        longest = k > longest ? k : longest;
                }
                lengths[longest]++;
                find_as(&r, &l, DEFS, NULL);
                if (found.found.at_turn != longest ||
                        found.found.n_messages != (longest > 0 ? ends[longest - 1] : 0))
                        fail_msg("round %u: %u turns and %u messages, not %zu and %u", round,
                                found.found.at_turn, found.found.n_messages, longest,
                                longest > 0 ? ends[longest - 1] : 0);
                for (size_t i = 0; longest > 0 && i < N_CONVS; i++)
                        if (convs[i].id == found.conv.id)
                                assert_int_equal(common(&convs[i], things, n), longest);
                /* One of them alone. */
                look_at = &convs[draw(N_CONVS)];
                longest = common(look_at, things, n);
                expect_in(&r, look_at->id, &l, DEFS, (uint32_t)longest,
                        longest > 0 ? ends[longest - 1] : 0);
                if (round == N_LISTS / 2)
                        find_check_chains(&r);
        }
        /* All lengths were there. */
        for (size_t i = 0; i < 8; i++)
                assert_true(lengths[i] > 0);
        erig_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};

        return cmocka_run_group_tests(tests, tools_rig_setup, tools_model_remove);
}
