/* SPDX-License-Identifier: MIT */
/*
 * Several messages in one Continue. They must lead to the same tokens and turns as the same messages one
 * by one, with the model's template, with templates of all kinds and with every family; or to the same
 * error, and to nothing else.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools-rig.h"
#include "unit/chat/tool-forms.h"
#include "util/test.h"
#include "util/tiny-model.h"

#define POOL (64 << 20)
#define POOL_OF_MANY (256 << 20) /* a 16th is for requests: 400 bytes for each message */
#define DEFS                                                                                       \
        "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":{}}}" \
        "}]"

enum { MOST = 24, FIRST = 1 /* the revision of a new conversation */ };

static struct answer A, B, G, H;

static void write_model(const char *template) {
        const char *path = tools_model_create();

        assert_int_equal(template ? tiny_model_write_chat(path, template)
                                  : tiny_model_write_long(path, "llama", 16384),
                0);
}

static void open_with_pool(
        struct erig *r, const char *template, const char *family, size_t pool_size) {
        struct engine_options o = erig_options(pool_size);

        write_model(template);
        o.model_path = tools_model;
        o.chat_format = family;
        erig_open(r, &o);
}

static void open_rig(struct erig *r, const char *template, const char *family) {
        open_with_pool(r, template, family, POOL);
}

static void close_rig(struct erig *r) {
        answer_reset(&G);
        answer_reset(&H);
        erig_close(r);
        tools_model_remove(NULL);
}

/* A short reply, always the same one; or none. */
static void want_reply(struct engine_request *q, bool reply) {
        q->max_tokens = reply ? 5 : 0;
        q->want_logprobs = true;
        q->sampling.has = SAMPLING_TEMPERATURE;
        q->sampling.temperature = 0;
}

static struct engine_request give(uint64_t conv, const struct engine_message *m, size_t n) {
        struct engine_request q = erig_request(ENGINE_CONTINUE, conv);

        q.input = ENGINE_INPUT_MESSAGES;
        q.messages = m;
        q.n_messages = n;
        q.max_tokens = 0;
        return q;
}

static enum engine_event_kind say(struct erig *r, struct engine_request q, struct answer *a) {
        answer_reset(a);
        return erig_do(r, &q, a);
}

/* --- random talks --- */

static uint32_t seed;

static uint32_t draw(uint32_t n) {
        seed = seed * 1664525u + 1013904223u;
        return (seed >> 10) % n;
}

struct talk {
        struct engine_message messages[MOST];
        size_t n;
        char texts[MOST][16];
        struct engine_call calls[MOST][2];
        struct engine_result results[MOST][2];
        char ids[MOST][2][10];
};

static struct engine_message *add(struct talk *t, enum engine_role role) {
        struct engine_message *m = &t->messages[t->n];

        snprintf(t->texts[t->n], sizeof(t->texts[0]), "t%zu is %u.", t->n, draw(100));
        *m = (struct engine_message){
                .role = role, .text = t->texts[t->n], .text_size = strlen(t->texts[t->n])};
        t->n++;
        return m;
}

static void add_calls(struct talk *t, size_t n_calls) {
        struct engine_message *m = add(t, ENGINE_ASSISTANT);
        size_t i = t->n - 1;

        m->n_calls = n_calls;
        m->calls = t->calls[i];
        m->text_size = draw(3) ? 0 : m->text_size;
        m->reasoning = draw(3) ? NULL : "hm";
        for (size_t k = 0; k < n_calls; k++) {
                snprintf(t->ids[i][k], sizeof(t->ids[0][0]), "call%02zu%03zu", i, k);
                t->calls[i][k] = (struct engine_call){
                        t->ids[i][k], k ? "g" : "f", draw(2) ? "{}" : "{\"x\":[1,\"y\"]}"};
        }
}

/* The results of the calls of message @asks, in one message or in several. */
static void add_results(struct talk *t, size_t asks, bool apart) {
        size_t n = t->messages[asks].n_calls;
        size_t each = apart ? 1 : n;

        for (size_t k = 0; k < n && t->n < MOST; k += each) {
                struct engine_message *m = add(t, ENGINE_TOOL);
                size_t i = t->n - 1;

                m->text = NULL;
                m->text_size = 0;
                m->results = t->results[i];
                m->n_results = each;
                for (size_t j = 0; j < each; j++)
                        t->results[i][j] = (struct engine_result){
                                t->ids[asks][k + j], draw(2) ? NULL : "named", t->texts[i]};
        }
}

/* A talk as people have it, or (@wild) as nobody should. */
static void make_talk(struct talk *t, bool tools, bool wild) {
        size_t n = 1 + draw(MOST - 8), asks = 0;

        t->n = 0;
        if (draw(2))
                add(t, ENGINE_SYSTEM);
        while (t->n < n) {
                add(t, ENGINE_USER);
                if (tools && draw(2)) {
                        asks = t->n;
                        add_calls(t, 1 + draw(2));
                        add_results(t, asks, draw(2));
                }
                if (draw(6) || tools)
                        add(t, ENGINE_ASSISTANT);
                if (wild && draw(3) == 0)
                        add(t, (enum engine_role)draw(3));
                if (wild && tools && draw(2))
                        add_results(t, asks, true);
        }
        t->n = draw(4) ? n : t->n;
}

/* --- one by one --- */

/* Messages [*i, ...) that become one turn, as a request of its own. Results of several messages are
 * gathered in @gathered. */
static struct engine_request turn_request(
        uint64_t conv, const struct talk *t, size_t *i, struct engine_result gathered[MOST]) {
        struct engine_request q = erig_request(ENGINE_CONTINUE, conv);
        const struct engine_message *m = &t->messages[*i];

        q.max_tokens = 0;
        if (m->role == ENGINE_TOOL) {
                q.input = ENGINE_INPUT_RESULTS;
                q.results = gathered;
                for (; *i < t->n && t->messages[*i].role == ENGINE_TOOL; (*i)++)
                        for (size_t k = 0; k < t->messages[*i].n_results; k++)
                                gathered[q.n_results++] = t->messages[*i].results[k];
                return q;
        }
        q.input = m->role == ENGINE_ASSISTANT ? ENGINE_INPUT_GIVEN : ENGINE_INPUT_MESSAGE;
        q.role = m->role;
        q.text = m->text;
        q.text_size = m->text_size;
        q.reasoning = m->reasoning;
        q.calls = m->calls;
        q.n_calls = m->n_calls;
        (*i)++;
        return q;
}

/* Say all in conversation @c. SIZE_MAX; or the first message of the turn that was refused, of
 * @ret_n messages. B has the last answer. */
static size_t say_one_by_one(struct erig *r, uint64_t c, const struct talk *t, const char *tools,
        bool reply, size_t *ret_n) {
        struct engine_result gathered[MOST];

        for (size_t i = 0; i < t->n;) {
                size_t from = i;
                struct engine_request q = turn_request(c, t, &i, gathered);

                q.tools = from == 0 ? tools : NULL;
                want_reply(&q, reply && i == t->n);
                answer_reset(&B);
                *ret_n = i - from;
                if (erig_do(r, &q, &B) == ENGINE_ERROR)
                        return from;
        }
        return SIZE_MAX;
}

static void get(struct erig *r, uint64_t c, struct answer *a) {
        struct engine_request q = erig_request(ENGINE_GET, c);

        answer_reset(a);
        q.want_turns = q.want_tokens = q.want_parts = true;
        if (erig_do(r, &q, a) != ENGINE_CONV)
                fail_msg("%s", a->err.msg);
}

static void same_turns(struct answer *a, struct answer *b) {
        char x[4096], y[4096];

        for (uint32_t i = 0; i < a->n_turns && i < b->n_turns; i++) {
                a->turns[i].created_usec = b->turns[i].created_usec;
                x[0] = y[0] = 0;
                erig_put_parts(x, sizeof(x), a->turns[i].parts, a->turns[i].n_parts);
                erig_put_parts(y, sizeof(y), b->turns[i].parts, b->turns[i].n_parts);
                assert_string_equal(x, y);
                assert_string_equal(a->turns[i].tools ? a->turns[i].tools : "",
                        b->turns[i].tools ? b->turns[i].tools : "");
        }
        answer_same_history(a, b);
        assert_string_equal(a->tools ? a->tools : "", b->tools ? b->tools : "");
}

/* Counts talks that were taken as a whole, and those that were refused. */
static unsigned n_taken, n_refused;

static void compare(
        struct erig *r, const struct talk *t, const char *opened, const char *tools, bool reply) {
        uint64_t singly = tools_new(r, NULL, opened), together = tools_new(r, NULL, opened);
        size_t n = 0, refused = say_one_by_one(r, singly, t, tools, reply, &n);
        struct engine_request q = give(together, t->messages, t->n);
        unsigned number = 0;
        int end = 0;

        q.tools = tools;
        want_reply(&q, reply);
        answer_reset(&A);
        erig_do(r, &q, &A);
        if (refused == SIZE_MAX) {
                if (A.kind != ENGINE_DONE)
                        fail_msg("%s", A.err.msg);
                answer_same(&A, &B);
                assert_int_equal(A.n_prompt, B.n_prompt);
                if (!reply)
                        assert_int_equal(A.revision, FIRST + 1);
                get(r, singly, &G);
                get(r, together, &H);
                same_turns(&G, &H);
                n_taken++;
        } else {
                assert_int_equal(A.kind, ENGINE_ERROR);
                /* What is wrong with the whole is no message's. Wrong results are found first. */
                if (sscanf(A.err.msg, "message %u: %n", &number, &end) != 1 || end == 0)
                        number = 0;
                if (number > refused + n || strstr(A.err.msg, "results answer the calls")) {
                        assert_int_equal(A.err.code, ERR_INVALID);
                        assert_int_equal(t->messages[number - 1].role, ENGINE_TOOL);
                        assert_non_null(strstr(A.err.msg, " call"));
                } else {
                        assert_true(number == 0 || number > refused);
                        assert_int_equal(A.err.code, B.err.code);
                        assert_string_equal(A.err.msg + end, B.err.msg);
                }
                get(r, together, &H);
                assert_int_equal(H.n_turns, 0);
                assert_int_equal(H.conv.revision, FIRST);
                n_refused++;
        }
        erig_simple(r, ENGINE_CLOSE, singly, &A);
        erig_simple(r, ENGINE_CLOSE, together, &A);
}

/* Many talks with this template, or family. */
static void compare_many(const char *template, const char *family, bool tools, unsigned rounds) {
        static struct talk t;
        struct engine_request q = erig_request(ENGINE_OPEN, 0);
        struct erig r;
        bool tells;

        open_rig(&r, template, family);
        q.tools = DEFS;
        tells = erig_do(&r, &q, &A) == ENGINE_CONV;
        for (unsigned i = 0; i < rounds; i++) {
                const char *opened = tells && tools && i % 3 == 1 ? DEFS : NULL;
                const char *told = tells && tools && i % 3 == 2 ? DEFS : NULL;

                seed = 1000 * rounds + i;
                make_talk(&t, tools && i % 4 != 3, i % 5 == 4);
                compare(&r, &t, opened, told, i % 2);
        }
        close_rig(&r);
}

static void test_template(void **state) {
        (void)state;
        n_taken = n_refused = 0;
        compare_many(NULL, NULL, true, ERIG_ROUNDS(60, 10));
        assert_true(n_taken > n_refused && n_refused > 0);
}

static void test_templates(void **state) {
        static const char *const templates[] = {IN_SYSTEM(""), IN_SYSTEM(THINK), IN_FIRST_USER,
                IN_LAST_USER, NAMES, AS_TEXT, OWN_BLOCK, AS_KEY, GOES_ON, IDS, PLAIN};

        (void)state;
        for (size_t i = 0; i < sizeof(templates) / sizeof(templates[0]); i++) {
                n_taken = 0;
                compare_many(templates[i], NULL, true, ERIG_ROUNDS(12, 3));
                assert_true(n_taken > 0);
        }
}

static void test_families(void **state) {
        static const char *const families[] = {"phi4", "chatml", "llama3", "llama4", "mistral-v7",
                "mistral-v7-tekken", "llama2", "mistral-v1", "mistral", "mistral-v3",
                "mistral-v3-tekken", "gemma", "deepseek3", "deepseek2", "deepseek-coder",
                "command-r", "granite", "megrez", "exaone3", "phi4-mini", "phi3", "tulu", "zephyr",
                "openchat", "vicuna", "minicpm", "monarch", "none"};

        (void)state;
        for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
                n_taken = n_refused = 0;
                compare_many(PLAIN, families[i], i % 4 == 3, 4);
                assert_true(n_taken > 0 || strcmp(families[i], "none") == 0);
        }
}

/* --- by hand --- */

static void refused(struct erig *r, struct engine_request q, enum err_code code, const char *why) {
        answer_reset(&B);
        if (erig_do(r, &q, &B) != ENGINE_ERROR)
                fail_msg("not refused: %s", why);
        if (B.err.code != code || strcmp(B.err.msg, why) != 0)
                fail_msg("%d: '%s', not '%s'", (int)B.err.code, B.err.msg, why);
}

#define TEXT(r, t)                                                                                 \
        { .role = r, .text = t, .text_size = sizeof(t) - 1 }
#define CALLS(c)                                                                                   \
        { .role = ENGINE_ASSISTANT, .calls = c, .n_calls = sizeof(c) / sizeof((c)[0]) }
#define RESULTS(r)                                                                                 \
        { .role = ENGINE_TOOL, .results = r, .n_results = sizeof(r) / sizeof((r)[0]) }

static const struct engine_call two_calls[] = {{"c1", "f", "{}"}, {NULL, "g", "{}"}};
static const struct engine_call no_object[] = {{"c1", "f", "[]"}};
static const struct engine_call no_name[] = {{"c1", NULL, "{}"}};
static const struct engine_result first_result[] = {{"c1", NULL, "1"}};
static const struct engine_result two_results[] = {{"c1", NULL, "1"}, {"c2", NULL, "2"}};
static const struct engine_result unnamed[] = {{"c1", NULL, "1"}, {NULL, NULL, "2"}};

/* What is wrong is told with the number of the message, and nothing is changed. */
static void test_errors(void **state) {
        static const struct {
                struct engine_message m[4];
                enum err_code code;
                const char *why;
        } cases[] = {
                {{TEXT(ENGINE_USER, "a"), TEXT(ENGINE_RAW, "b")}, ERR_INVALID,
                        "message 2: its role is system, user, assistant or tool"},
                {{TEXT(ENGINE_USER, "a"), TEXT((enum engine_role)7, "b")}, ERR_INVALID,
                        "message 2: its role is system, user, assistant or tool"},
                {{TEXT(ENGINE_USER, "a"), {.role = ENGINE_TOOL}}, ERR_INVALID,
                        "message 2 is of tools and has no result"},
                {{TEXT(ENGINE_TOOL, "a")}, ERR_INVALID,
                        "message 1 is of tools: it has results, and no text"},
                {{{.role = ENGINE_TOOL, .reasoning = "hm"}}, ERR_INVALID,
                        "message 1 is of tools: it has results, and no reasoning"},
                {{{.role = ENGINE_USER, .calls = two_calls, .n_calls = 1}}, ERR_INVALID,
                        "message 1 is of the user: it has no calls"},
                {{{.role = ENGINE_SYSTEM, .reasoning = "hm"}}, ERR_INVALID,
                        "message 1 is of the system: it has no reasoning"},
                {{TEXT(ENGINE_USER, "a"),
                         {.role = ENGINE_ASSISTANT, .results = first_result, .n_results = 1}},
                        ERR_INVALID, "message 2 has results, which only messages of tools have"},
                {{TEXT(ENGINE_USER, "a"), CALLS(no_name)}, ERR_INVALID,
                        "message 2: call 1 has no name, or no arguments"},
                {{TEXT(ENGINE_USER, "a"), CALLS(two_calls), RESULTS(unnamed)}, ERR_INVALID,
                        "message 3: result 2 does not name the call that it answers"},
                {{TEXT(ENGINE_USER, "a"), CALLS(two_calls), RESULTS(first_result),
                         RESULTS(two_results)},
                        ERR_INVALID, "message 4: call 'c1' has a result already; no call waits"},
                {{TEXT(ENGINE_USER, "a"), CALLS(two_calls), RESULTS(two_results)}, ERR_INVALID,
                        "message 3: the last reply has no call 'c2'; no call waits"},
                {{TEXT(ENGINE_USER, "a"), TEXT(ENGINE_ASSISTANT, "b"), RESULTS(first_result)},
                        ERR_INVALID, "message 3: the last reply has no call 'c1'; no call waits"},
                {{TEXT(ENGINE_USER, "a"), RESULTS(first_result)}, ERR_INVALID,
                        "message 2: results answer the calls of the message before, and it is not "
                        "the assistant's"},
                {{RESULTS(first_result)}, ERR_INVALID,
                        "message 1: results answer the calls of the last reply, and there is none"},
                {{TEXT(ENGINE_USER, "a"), {.role = ENGINE_USER, .text_size = 3}}, ERR_INVALID,
                        "message 2: a size without its data"},
        };
        static struct engine_message many[ENGINE_MAX_MESSAGES + 1];
        static struct engine_result too_many[ENGINE_MAX_CALLS];
        struct engine_message m[] = {TEXT(ENGINE_USER, "a"), CALLS(no_object)};
        struct engine_request q;
        struct erig r;
        uint64_t c;

        (void)state;
        open_rig(&r, NULL, NULL);
        c = tools_new(&r, NULL, NULL);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                size_t n = 0;

                while (n < 4 &&
                        (cases[i].m[n].role || cases[i].m[n].text_size || cases[i].m[n].reasoning))
                        n++;
                refused(&r, give(c, cases[i].m, n), cases[i].code, cases[i].why);
        }
        answer_reset(&B);
        q = give(c, m, 2);
        assert_int_equal(erig_do(&r, &q, &B), ENGINE_ERROR);
        assert_int_equal(B.err.code, ERR_INVALID);
        assert_non_null(strstr(B.err.msg, "message 2: "));
        refused(&r, give(c, m, 0), ERR_INVALID, "no message is given");
        for (size_t i = 0; i <= ENGINE_MAX_MESSAGES; i++)
                many[i] = (struct engine_message)TEXT(ENGINE_USER, "a");
        refused(&r, give(c, many, ENGINE_MAX_MESSAGES + 1), ERR_INVALID,
                "16385 messages, more than 16384");
        for (size_t i = 0; i < ENGINE_MAX_CALLS; i++)
                too_many[i] = first_result[0];
        many[1] = (struct engine_message)CALLS(two_calls);
        many[2] = (struct engine_message)RESULTS(too_many);
        many[3] = (struct engine_message)RESULTS(first_result);
        refused(&r, give(c, many, 5), ERR_INVALID,
                "message 4: more than 256 results follow each other");
        /* Definitions go with the first message. */
        m[0].role = ENGINE_ASSISTANT;
        q = give(c, m, 1);
        q.tools = DEFS;
        refused(&r, q, ERR_INVALID,
                "definitions of tools are told with a message of the user, the system or tools");
        get(&r, c, &G);
        assert_int_equal(G.n_turns, 0);
        assert_int_equal(G.conv.revision, FIRST);
        close_rig(&r);
}

/* The first results answer the conversation's last reply, or what stands in its place; and what they have
 * answered is answered. */
static void test_results_first(void **state) {
        const struct engine_message asked[] = {TEXT(ENGINE_USER, "a"), CALLS(two_calls)};
        const struct engine_message answered[] = {RESULTS(first_result), TEXT(ENGINE_USER, "b")};
        struct erig r;
        uint64_t c;

        (void)state;
        open_rig(&r, NULL, NULL);
        c = tools_new(&r, NULL, DEFS);
        assert_int_equal(say(&r, give(c, asked, 2), &A), ENGINE_DONE);
        erig_restart(&r, false);
        assert_int_equal(say(&r, give(c, answered, 2), &A), ENGINE_DONE);
        get(&r, c, &G);
        assert_int_equal(G.n_turns, 4);
        assert_int_equal(G.turns[2].role, ENGINE_TOOL);
        assert_string_equal(G.turns[2].results[0].name, "f");
        refused(&r, give(c, answered, 2), ERR_INVALID,
                "message 1: results answer the calls of the last reply, and there is none");
        close_rig(&r);
}

/* As many as may be, in one step, of a token each: what twice as many have to look back at takes four times as long.
 * Then more than the context has. */
static void test_many(void **state) {
        static const char short_template[] =
                "{%- for m in messages -%}{{ m.content }}{%- endfor -%}"
                "{%- if add_generation_prompt -%}>{%- endif -%}";
        static struct engine_message many[ENGINE_MAX_MESSAGES];
        struct engine_request q, find;
        struct erig r;
        uint64_t c;

        (void)state;
        if (TEST_TSAN) /* much is computed, by the threads that all tests have */
                return;
        open_with_pool(&r, short_template, NULL, POOL_OF_MANY);
        c = tools_new(&r, NULL, NULL);
        for (size_t i = 0; i < ENGINE_MAX_MESSAGES; i++)
                many[i] = (struct engine_message)TEXT(i % 2 ? ENGINE_ASSISTANT : ENGINE_USER, "a");
        q = give(c, many, ENGINE_MAX_MESSAGES);
        answer_reset(&A);
        if (erig_do(&r, &q, &A) != ENGINE_DONE)
                fail_msg("%s", A.err.msg);
        assert_int_equal(A.revision, FIRST + 1);
        erig_restart(&r, false);
        get(&r, c, &G);
        assert_int_equal(G.n_turns, ENGINE_MAX_MESSAGES);
        assert_int_equal(G.turns[ENGINE_MAX_MESSAGES - 1].end, G.conv.n_tokens);
        find = erig_request(ENGINE_FIND, 0);
        find.messages = many;
        find.n_messages = ENGINE_MAX_MESSAGES;
        assert_int_equal(erig_do(&r, &find, &A), ENGINE_FOUND);
        assert_int_equal(A.found.at_turn, ENGINE_MAX_MESSAGES);
        assert_int_equal(A.found.n_messages, ENGINE_MAX_MESSAGES);
        many[7] = (struct engine_message)TEXT(ENGINE_USER, "a longer message than the others");
        answer_reset(&B);
        for (size_t i = 0; i < ENGINE_MAX_MESSAGES; i++)
                many[i] = many[7];
        assert_int_equal(erig_do(&r, &q, &B), ENGINE_ERROR);
        assert_int_equal(B.err.code, ERR_CONTEXT);
        get(&r, c, &H);
        same_turns(&G, &H);
        close_rig(&r);
}

/* A list in place of old turns: as if the others had never been. */
static void test_edit(void **state) {
        static struct talk old, new;
        struct engine_request q;
        struct erig r;
        uint64_t a, b;

        (void)state;
        open_rig(&r, NULL, NULL);
        for (unsigned i = 0; i < ERIG_ROUNDS(12, 3); i++) {
                uint32_t keep;

                seed = 77 + i;
                make_talk(&old, true, false);
                do
                        make_talk(&new, true, false);
                while (new.messages[0].role != ENGINE_USER);
                a = tools_new(&r, NULL, DEFS);
                b = tools_new(&r, NULL, DEFS);
                q = give(a, old.messages, old.n);
                if (erig_do(&r, &q, &A) != ENGINE_DONE)
                        fail_msg("%s", A.err.msg);
                get(&r, a, &G);
                keep = draw(G.n_turns);
                q = erig_request(ENGINE_REWIND, a);
                q.at_turn = keep;
                assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
                q = give(a, new.messages, new.n);
                want_reply(&q, i % 2);
                answer_reset(&A);
                if (erig_do(&r, &q, &A) != ENGINE_DONE)
                        fail_msg("%s", A.err.msg);

                q = give(b, old.messages, old.n);
                assert_int_equal(erig_do(&r, &q, &B), ENGINE_DONE);
                q = give(b, new.messages, new.n);
                q.cuts = true;
                q.at_turn = keep;
                want_reply(&q, i % 2);
                answer_reset(&B);
                if (erig_do(&r, &q, &B) != ENGINE_DONE)
                        fail_msg("%s", B.err.msg);
                answer_same(&A, &B);
                erig_restart(&r, i % 3);
                get(&r, a, &G);
                get(&r, b, &H);
                same_turns(&G, &H);
        }
        close_rig(&r);
}

/* The copies of the messages are charged when they arrive. */
static void test_charge(void **state) {
        static struct engine_message many[ENGINE_MAX_MESSAGES];
        static char text[64 << 10];
        struct erig r;
        uint64_t c;

        (void)state;
        open_rig(&r, NULL, NULL);
        c = tools_new(&r, NULL, NULL);
        memset(text, 'a', sizeof(text));
        for (size_t i = 0; i < ENGINE_MAX_MESSAGES; i++)
                many[i] = (struct engine_message)TEXT(ENGINE_USER, text);
        answer_reset(&B);
        assert_int_equal(say(&r, give(c, many, ENGINE_MAX_MESSAGES), &B), ENGINE_ERROR);
        assert_true(B.refused);
        assert_int_equal(B.err.code, ERR_TOO_LARGE);
        erig_simple(&r, ENGINE_CLOSE, c, &A);
        erig_check_budget(&r);
        erig_check_empty(&r);
        close_rig(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_template),
                cmocka_unit_test(test_templates),
                cmocka_unit_test(test_families),
                cmocka_unit_test(test_errors),
                cmocka_unit_test(test_results_first),
                cmocka_unit_test(test_many),
                cmocka_unit_test(test_edit),
                cmocka_unit_test(test_charge),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
