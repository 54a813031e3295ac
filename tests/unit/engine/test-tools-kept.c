/* SPDX-License-Identifier: MIT */
/*
 * Tools in what is kept of a conversation: definitions, calls, results and parts where the memory is shifted, where the
 * conversation is carried over to another model, in its export, and in pages of its turns.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/verbs/transfer-format.h"
#include "tools-rig.h"
#include "util/test.h"
#include "util/tiny-model.h"

#define POOL (16 << 20)
#define DEFS "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{}}}]"

#define THINK "<think>\nhm, f\n</think>\n\n"
#define CALL_F "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>"

static struct answer A, B, G;

/* What is dropped from the memory ends in front of a message, not between a call and its result; and
 * results stay behind the call that they answer. */
static void test_shift(void **state) {
        static const char words[] = "go on and on and on and on and on, please, and on and on";
        const struct engine_call call = {"c1", "f", "{}"};
        const struct engine_result result = {"c1", NULL, "r"};
        struct engine_options o = erig_options(POOL);
        struct engine_request q;
        unsigned n_shifts = 0;
        struct erig r;
        uint64_t c = 0;

        (void)state;
        o.model_path = tools_model;
        o.context = 256;
        erig_open(&r, &o);
        /* Messages of several lengths, so that the half of the context ends anywhere. */
        for (size_t i = 0; i < 8 * 6; i++) {
                if (i % 8 == 0) {
                        q = erig_request(ENGINE_OPEN, 0);
                        q.overflow = ENGINE_OVERFLOW_SHIFT;
                        answer_reset(&A);
                        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
                        c = A.conv.id;
                }
                q = tools_ask(c, words + 9 * (i / 8), NULL);
                q.max_tokens = 0;
                tools_done(&r, q, &A);
                q = erig_request(ENGINE_CONTINUE, c);
                q.input = ENGINE_INPUT_GIVEN;
                q.calls = &call;
                q.n_calls = 1;
                q.max_tokens = 0;
                tools_done(&r, q, &A);
                tools_done(&r, tools_answer(c, &result, 1, "Well."), &A);
                n_shifts += A.n_dropped > 0;
                tools_get(&r, c, &G);
                for (uint32_t k = 0; k < G.n_turns; k++)
                        if (G.conv.dropped_to > 0 && G.turns[k].start == G.conv.dropped_to)
                                assert_int_equal(G.turns[k].role, ENGINE_USER);
        }
        assert_true(n_shifts > 0);
        answer_reset(&G);
        erig_close(&r);
}

/* Two turns say the same. The ids of calls follow from where the calls are. */
static void same_turn(const struct answer *a, const struct answer *b, uint32_t i) {
        const struct engine_turn *s = &a->turns[i], *t = &b->turns[i];

        assert_int_equal(s->role, t->role);
        assert_int_equal(s->text_size, t->text_size);
        if (s->text_size > 0)
                assert_memory_equal(s->text, t->text, s->text_size);
        assert_int_equal(s->n_results, t->n_results);
        assert_int_equal(s->n_parts, t->n_parts);
        for (size_t k = 0; k < s->n_parts; k++) {
                assert_int_equal(s->parts[k].kind, t->parts[k].kind);
                assert_string_equal(s->parts[k].name ? s->parts[k].name : "",
                        t->parts[k].name ? t->parts[k].name : "");
        }
        assert_int_equal(!s->tools, !t->tools);
        if (s->tools)
                assert_string_equal(s->tools, t->tools);
        /* The tokens of a reply were sampled; those of a message are the same in both vocabularies. */
        if (s->finish == ENGINE_FINISH_NONE)
                assert_int_equal(s->end - s->start, t->end - t->start);
}

/* Definitions, calls, results and given messages are written anew for another vocabulary; a model
 * whose template takes no tools does not get them. */
static void test_carry(void **state) {
        const struct engine_call call = {"c1", "g", "{\"y\": [2]}"};
        const struct engine_result late = {"c1", NULL, "3"};
        struct engine_result result = {.text = "1"};
        static struct answer before;
        char other[80], id[64];
        struct engine_request q;
        struct erig r;
        uint64_t c;

        (void)state;
        snprintf(other, sizeof(other), "%s.other", tools_model);
        assert_int_equal(tiny_model_write_arch(other, "llama"), 0);
        tools_open(&r, POOL);
        c = tools_new(&r, "Help.", DEFS);
        tools_done(&r, tools_ask(c, "go", THINK CALL_F), &A);
        strcpy(id, tools_call_id(A.parts, "f"));
        result.call_id = id;
        tools_done(&r, tools_answer(c, &result, 1, "Well."), &A);
        q = erig_request(ENGINE_CONTINUE, c);
        q.input = ENGINE_INPUT_GIVEN;
        q.text = "So.";
        q.text_size = 3;
        q.reasoning = "hm";
        q.calls = &call;
        q.n_calls = 1;
        q.max_tokens = 0;
        tools_done(&r, q, &A);
        tools_get(&r, c, &before);
        assert_int_equal(before.n_turns, 6);

        erig_stop(&r, true);
        r.o.model_path = other;
        erig_start(&r);
        answer_reset(&A);
        if (erig_simple(&r, ENGINE_CARRY, c, &A) != ENGINE_CONV)
                fail_msg("%s", A.err.msg);
        assert_true(A.conv.carried);
        tools_get(&r, c, &G);
        assert_int_equal(G.n_turns, before.n_turns);
        for (uint32_t i = 0; i < G.n_turns; i++)
                same_turn(&before, &G, i);
        assert_string_equal(G.tools, DEFS);
        tools_done(&r, tools_answer(c, &late, 1, "Well."), &A);

        if (erig_model()) {
                erig_stop(&r, true);
                r.o.model_path = erig_model();
                erig_start(&r);
                answer_reset(&A);
                assert_int_equal(erig_simple(&r, ENGINE_CARRY, c, &A), ENGINE_ERROR);
                assert_int_equal(A.err.code, ERR_UNSUPPORTED);
                assert_non_null(strstr(A.err.msg, "turn 0 (system) cannot be carried over"));
        }
        answer_reset(&G);
        answer_reset(&before);
        unlink(other);
        erig_close(&r);
}

static int sealed_copy(int from, const char *find, const char *replace) {
        static char data[1 << 20];
        ssize_t n = pread(from, data, sizeof(data), 0);
        int fd = memfd_create("import", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        char *p = find ? memmem(data, (size_t)n, find, strlen(find)) : NULL;
        uint64_t transcript, hash;

        assert_true(n > XFER_HEADER_SIZE && fd >= 0);
        if (find) {
                struct xfer_header h;

                assert_non_null(p);
                assert_int_equal(strlen(find), strlen(replace));
                memcpy(p, replace, strlen(replace));
                assert_int_equal(
                        xfer_header_parse((uint8_t *)data, (size_t)n, (uint64_t)n, &h, NULL), 0);
                transcript = xfer_transcript_size(&h);
                hash = hash64(data + XFER_HEADER_SIZE, (size_t)transcript, 0);
                memcpy(data + XFER_HEADER_SIZE + transcript, &hash, 8);
        }
        assert_int_equal(write(fd, data, (size_t)n), n);
        assert_int_equal(
                fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL),
                0);
        return fd;
}

static enum engine_event_kind import(struct erig *r, int fd, struct answer *a) {
        struct engine_request q = erig_request(ENGINE_IMPORT, 0);
        enum engine_event_kind kind;

        q.fd = fd;
        answer_reset(a);
        kind = erig_do(r, &q, a);
        close(fd);
        return kind;
}

/* An export has all of it; an import takes nothing that the daemon would not have written. */
static void test_export(void **state) {
        static const struct {
                const char *find, *replace, *why;
        } hostile[] = {
                {"[{\"type\"", "{{\"type\"", "definitions of tools"},
                {"{\"calls\"", "{\"cslls\"", "turn 1 of the export file"},
                {"\"content\"", "\"contenu\"", "turn 2 of the export file"},
        };
        const struct engine_call call = {"c1", "f", "{}"};
        const struct engine_result result = {"c1", NULL, "1"};
        struct engine_request q = erig_request(ENGINE_CONTINUE, 0);
        char want[4096];
        struct erig r;
        int fd;

        (void)state;
        tools_open(&r, POOL);
        q.conv_id = tools_new(&r, NULL, DEFS);
        tools_done(&r, tools_ask(q.conv_id, "go", "Yes."), &A);
        q = erig_request(ENGINE_CONTINUE, q.conv_id);
        q.at_turn = 1; /* in place of the reply */
        q.cuts = true;
        q.input = ENGINE_INPUT_GIVEN;
        q.calls = &call;
        q.n_calls = 1;
        q.max_tokens = 0;
        tools_done(&r, q, &A);
        tools_done(&r, tools_answer(q.conv_id, &result, 1, "It is <tool_call>\n{\"name\": \"f\"}"),
                &A);
        tools_get(&r, q.conv_id, &G);
        snprintf(want, sizeof(want), "%s%s", tools_turn_parts(&G, 1), (char *)G.turns[2].text);
        strcat(want, tools_turn_parts(&G, 3));
        answer_reset(&A);
        assert_int_equal(erig_simple(&r, ENGINE_EXPORT, q.conv_id, &A), ENGINE_EXPORTED);
        fd = A.fd;
        A.fd = 0;
        assert_int_equal(import(&r, sealed_copy(fd, NULL, NULL), &B), ENGINE_CONV);
        tools_get(&r, B.conv.id, &G);
        assert_string_equal(G.tools, DEFS);
        assert_int_equal(G.n_turns, 4);
        assert_true(strncmp(want, tools_turn_parts(&G, 1), strlen(tools_turn_parts(&G, 1))) == 0);
        assert_non_null(strstr(want, (char *)G.turns[2].text));
        assert_non_null(strstr(want, tools_turn_parts(&G, 3)));
        for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
                assert_int_equal(
                        import(&r, sealed_copy(fd, hostile[i].find, hostile[i].replace), &B),
                        ENGINE_ERROR);
                if (!strstr(B.err.msg, hostile[i].why))
                        fail_msg("'%s', not '%s'", B.err.msg, hostile[i].why);
        }
        close(fd);
        answer_reset(&G);
        erig_close(&r);
}

/* Each page of the turns is what all of them are there, with the parts and the ids of calls; the page's
 * numbers tell from which end it is counted. */
static void same_page(struct erig *r, uint64_t c, uint32_t first, uint32_t n, bool from_end) {
        struct engine_request q = erig_request(ENGINE_GET, c);
        char want[16384];

        q.want_turns = q.want_parts = q.pages = true;
        q.max_turns = n;
        q.from_turn = from_end ? ENGINE_UNSET : first;
        q.before_turn = from_end ? first + n : ENGINE_UNSET;
        answer_reset(&B);
        if (erig_do(r, &q, &B) != ENGINE_CONV)
                fail_msg("%s", B.err.msg);
        assert_true(B.conv.is_page);
        assert_int_equal(B.conv.first_turn, first);
        assert_int_equal(B.n_turns, n);
        assert_string_equal(B.tools, G.tools);
        for (uint32_t i = 0; i < n; i++) {
                const struct engine_turn *got = &B.turns[i], *all = &G.turns[first + i];

                assert_int_equal(got->start, all->start);
                assert_int_equal(got->end, all->end);
                assert_int_equal(got->text_size, all->text_size);
                assert_memory_equal(got->text, all->text, got->text_size);
                assert_int_equal(!got->figures, !all->figures);
                assert_int_equal(!got->tools, !all->tools);
                assert_int_equal(got->n_results, all->n_results);
                strcpy(want, tools_turn_parts(&G, first + i));
                assert_string_equal(tools_turn_parts(&B, i), want);
        }
}

static void test_pages(void **state) {
        static const char reply[] = "x < y and <tool_call>\n{\"name\": \"f\", \"arguments\": "
                                    "{\"x\": [1, 2]}}\n</tool_call>";
        struct engine_result result = {.text = "2"};
        char id[64];
        struct engine_request q;
        struct erig r;
        uint64_t c;

        (void)state;
        tools_open(&r, POOL);
        c = tools_new(&r, "Help.", DEFS);
        tools_done(&r, tools_ask(c, "go", CALL_F), &A);
        strcpy(id, tools_call_id(A.parts, "f"));
        result.call_id = id;
        tools_done(&r, tools_answer(c, &result, 1, "It is 2."), &A);
        /* A reply in several turns. */
        q = tools_ask(c, "go", reply);
        q.max_tokens = 9;
        tools_done(&r, q, &A);
        for (int i = 0; i < 3; i++) {
                q = tools_ask(c, "", reply);
                q.input = ENGINE_INPUT_NONE;
                q.max_tokens = i < 2 ? 11 : 400;
                tools_done(&r, q, &A);
        }
        tools_get(&r, c, &G);
        assert_int_equal(G.n_turns, 10);
        for (uint32_t first = 0; first <= G.n_turns; first++)
                for (uint32_t n = first < G.n_turns; first + n <= G.n_turns; n++) {
                        same_page(&r, c, first, n, false);
                        if (n > 0)
                                same_page(&r, c, first, n, true);
                }
        /* Without parts, from both ends, with all tokens. */
        q = erig_request(ENGINE_GET, c);
        q.want_turns = q.want_tokens = q.pages = true;
        q.from_turn = 2;
        q.before_turn = 4;
        answer_reset(&B);
        assert_int_equal(erig_do(&r, &q, &B), ENGINE_CONV);
        assert_int_equal(B.conv.first_turn, 2);
        assert_int_equal(B.n_turns, 2);
        assert_int_equal(B.n_history, G.n_history);
        assert_memory_equal(B.history, G.history, G.n_history * sizeof(int32_t));
        q.before_turn = 11;
        tools_refused(&r, q, ERR_INVALID, "before_turn");
        q.before_turn = ENGINE_UNSET;
        q.from_turn = 11;
        tools_refused(&r, q, ERR_INVALID, "from_turn");
        answer_reset(&B);
        answer_reset(&G);
        erig_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_pages),
                cmocka_unit_test(test_shift),
                cmocka_unit_test(test_carry),
                cmocka_unit_test(test_export),
        };

        return cmocka_run_group_tests(tests, tools_rig_setup_tiny, tools_model_remove);
}
