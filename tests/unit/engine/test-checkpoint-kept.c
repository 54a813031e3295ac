/* SPDX-License-Identifier: MIT */
/*
 * Which checkpoints stay, and which go, as one sees it who comes back: those of the latest turns, whatever is
 * thinned out; places in the middle of long texts; places where others begin.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "edit-rig.h"
#include "kinds-rig.h"
#include "util/test.h"

static struct answer A, B, T;

/* --- the latest turns --- */

/* Other words in the place of message number @i of the conversation @T: what of the turns before is computed
 * again. */
static uint32_t edit_message(struct erig *r, uint64_t c, uint32_t i) {
        struct engine_request q = edit_request(c, i, "Other words.", 4);
        uint32_t end = T.turns[i - 1].end;

        q.ignore_eos = true;
        if (erig_do(r, &q, &B) != ENGINE_DONE)
                fail_msg("edit: %s", B.err.msg);
        return kind_computed_of(&B, end);
}

/* However many turns there are: the last message is edited, the last reply is generated once more, and the
 * conversation goes on, without computing more of its history than the last token of a reply. */
static void test_latest(void **state) {
        enum { N = 24 };

        EACH_KIND(k) {
                struct erig r;
                uint64_t c;

                kind_open(&r, k, UINT32_MAX);
                c = erig_new(&r, NULL, "Be kind.");
                for (unsigned i = 0; i < N; i++) {
                        uint32_t again;

                        kind_say(&r, c, i, &A);
                        if (i < KIND_LEAST / 2)
                                continue;
                        kind_regenerate(&r, c, &B);
                        answer_same(&A, &B);
                        erig_get(&r, c, &T);
                        assert_int_equal(kind_computed_of(&B, T.turns[T.n_turns - 2].end), 0);
                        again = edit_message(&r, c, T.n_turns - 2);
                        if (again > 1)
                                fail_msg("%s, message %u: %u computed again", k->arch, i, again);
                }
                kind_close(&r);
        }
}

/* The same where replies are long enough for places in their middle, and after all of them. */
static void test_latest_long(void **state) {
        EACH_KIND(k) {
                struct engine_request q;
                struct erig r;
                uint64_t c;

                kind_open(&r, k, UINT32_MAX);
                c = kind_talk(&r, 12, &A);
                q = erig_long_request(c, erig_words(150, 1), 1700);
                if (erig_do(&r, &q, &A) != ENGINE_DONE)
                        fail_msg("%s: %s", k->arch, A.err.msg);
                erig_get(&r, c, &T);
                assert_true(T.turns[T.n_turns - 2].end > 700);
                kind_regenerate(&r, c, &B);
                assert_int_equal(kind_computed_of(&B, T.turns[T.n_turns - 2].end), 0);
                assert_in_range(edit_message(&r, c, T.n_turns - 2), 0, 1);
                kind_close(&r);
        }
}

/* A reply that calls tools several times is many turns. The message before them is edited all the same, and the
 * last reply is generated anew. */
static void test_latest_tools(void **state) {
        static const struct engine_call call = {"c1", "f", "{}"};
        static const struct engine_result result = {.call_id = "c1", .text = "3"};

        EACH_KIND(k) {
                struct engine_request q = erig_request(ENGINE_OPEN, 0);
                struct erig r;
                uint32_t message;
                uint64_t c;

                kind_open(&r, k, UINT32_MAX);
                q.system = "Be kind.";
                q.tools =
                        "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{}}}]";
                if (erig_do(&r, &q, &A) != ENGINE_CONV)
                        fail_msg("open: %s", A.err.msg);
                c = A.conv.id;
                for (unsigned i = 0; i < 5; i++)
                        kind_say(&r, c, i, &A);
                erig_get(&r, c, &T);
                message = T.n_turns;
                kind_say(&r, c, 5, &A);
                for (unsigned i = 0; i < 8; i++) {
                        q = erig_request(ENGINE_CONTINUE, c);
                        q.input = ENGINE_INPUT_GIVEN;
                        q.calls = &call;
                        q.n_calls = 1;
                        if (erig_do(&r, &q, &A) != ENGINE_DONE)
                                fail_msg("call: %s", A.err.msg);
                        q = erig_long_request(c, "", 4);
                        q.input = ENGINE_INPUT_RESULTS;
                        q.text = NULL;
                        q.results = &result;
                        q.n_results = 1;
                        if (erig_do(&r, &q, &A) != ENGINE_DONE)
                                fail_msg("result: %s", A.err.msg);
                }
                kind_regenerate(&r, c, &B);
                answer_same(&A, &B);
                erig_get(&r, c, &T);
                assert_int_equal(kind_computed_of(&B, T.turns[T.n_turns - 2].end), 0);
                assert_int_equal(T.turns[message].role, ENGINE_USER);
                assert_in_range(edit_message(&r, c, message), 0, 1);
                kind_close(&r);
        }
}

/* Several messages came in one request: one comes back to the ends of the latest, and another conversation
 * begins with the same system message. */
static void test_several(void **state) {
        EACH_KIND(k) {
                const char *system = erig_words(40, 1);
                struct engine_message messages[8] = {
                        {.role = ENGINE_SYSTEM, .text = system, .text_size = strlen(system)}};
                struct engine_request q;
                uint32_t first, again;
                struct erig r;
                uint64_t c, d;

                for (size_t i = 1; i < ARRAY_SIZE(messages); i++) {
                        const char *text = erig_words(5, (unsigned)i);

                        messages[i] = (struct engine_message){
                                .role = i % 2 ? ENGINE_USER : ENGINE_ASSISTANT,
                                .text = text,
                                .text_size = strlen(text)};
                }
                kind_open(&r, k, UINT32_MAX);
                for (unsigned n = 7; n > 5; n--) {
                        const char *other = erig_words(5, 50 + n);

                        /* Not what another conversation has computed. */
                        messages[1].text = other;
                        messages[1].text_size = strlen(other);
                        c = erig_new(&r, NULL, NULL);
                        q = erig_long_request(c, "", 4);
                        q.input = ENGINE_INPUT_MESSAGES;
                        q.messages = messages;
                        q.n_messages = ARRAY_SIZE(messages);
                        if (erig_do(&r, &q, &A) != ENGINE_DONE)
                                fail_msg("%s: %s", k->arch, A.err.msg);
                        erig_get(&r, c, &T);
                        assert_int_equal(T.n_turns, ARRAY_SIZE(messages) + 1);
                        q = kind_cut_request(ENGINE_REWIND, c, n);
                        assert_int_equal(erig_do(&r, &q, NULL), ENGINE_CONV);
                        kind_say(&r, c, 99, &B);
                        again = kind_computed_of(&B, T.turns[n - 1].end);
                        if (again > 0)
                                fail_msg("%s: back to turn %u: %u of %u computed again", k->arch, n,
                                        again, T.turns[n - 1].end);
                }
                d = erig_new(&r, NULL, NULL);
                q = erig_long_request(d, "", 4);
                q.input = ENGINE_INPUT_MESSAGES;
                messages[1].text_size = 3;
                q.messages = messages;
                q.n_messages = 2;
                if (erig_do(&r, &q, &A) != ENGINE_DONE)
                        fail_msg("%s: %s", k->arch, A.err.msg);
                first = T.turns[0].end / KIND_BLOCK * KIND_BLOCK;
                if (kind_computed_of(&A, first) > 0)
                        fail_msg("%s: %u of %u computed", k->arch, A.n_computed, A.n_prompt);
                kind_close(&r);
        }
}

/* --- long texts --- */

/* Go back to a position in the middle of a text and on from there: what is computed again. */
static uint32_t go_back(struct erig *r, uint64_t c, uint32_t pos) {
        struct engine_request q = erig_request(ENGINE_REWIND, c);

        q.at_position = pos;
        if (erig_do(r, &q, &A) != ENGINE_CONV)
                fail_msg("rewind: %s", A.err.msg);
        q = erig_long_request(c, "Go on.", 4);
        if (erig_do(r, &q, &A) != ENGINE_DONE)
                fail_msg("go on: %s", A.err.msg);
        return kind_computed_of(&A, pos);
}

/* A text has places at regular distances, however long it is. */
static void test_long_text(void **state) {
        enum { EVERY = 512 };
        static const uint32_t positions[] = {1900, 1500, 1030, 700, 500};

        EACH_KIND(k)
        for (enum kind_meanwhile what = 0; what < N_MEANWHILE; what++) {
                struct erig r;
                uint64_t c;

                kind_open(&r, k, 0);
                c = erig_new(&r, NULL, NULL);
                kind_append(&r, c, 2100, 1);
                for (size_t i = 0; i < ARRAY_SIZE(positions); i++) {
                        uint32_t again;

                        kind_let_happen(&r, c, what);
                        again = go_back(&r, c, positions[i]);
                        if (again > positions[i] % EVERY)
                                fail_msg("%s, %d: %u of %u computed again", k->arch, (int)what,
                                        again, positions[i]);
                }
                kind_close(&r);
        }
}

/* --- what they may cost --- */

enum { WIDE = 256 }; /* tokens of a window: eight blocks, or nine */

/* The model of windows, with wide ones. */
static struct kind widen(void) {
        static const char key[] = "gemma3.attention.sliding_window";
        static uint8_t file[8 << 20];
        struct kind k = kinds[2];
        FILE *f = fopen(k.path, "r");
        uint8_t *at;
        size_t n;

        assert_non_null(f);
        n = fread(file, 1, sizeof(file), f);
        fclose(f);
        assert_in_range(n, 1, sizeof(file) - 1);
        at = memmem(file, n, key, strlen(key));
        assert_non_null(at);
        at += strlen(key) + 4; /* the type */
        assert_memory_equal(at, ((const uint8_t[]){16, 0, 0, 0}), 4);
        at[0] = WIDE % 256;
        at[1] = WIDE / 256;
        strcpy(k.path, "/tmp/confab-wide-XXXXXX");
        f = fdopen(mkstemp(k.path), "w");
        assert_int_equal(fwrite(file, 1, n, f), n);
        assert_int_equal(fclose(f), 0);
        return k;
}

/* Blocks of windows that the end does not need cost no more than a quarter of the others, or are eight, however
 * long a message is. Yet the latest exchanges, whose windows are nearly the same, can all be come back to. */
static void test_wide_windows(void **state) {
        enum { N = 12, LONG = 3000, BLOCKS = WIDE / KIND_BLOCK + 1 };
        struct kind k = widen();
        uint64_t c, most, windows;
        struct erig r;

        kind_open(&r, &k, UINT32_MAX);
        c = erig_new(&r, NULL, NULL);
        kind_append(&r, c, LONG, 1);
        for (unsigned i = 0; i < N; i++) {
                kind_say(&r, c, i, &A);
                most = erig_stat(&r, "pool_blocks") * erig_stat(&r, "block_bytes") / KIND_SHARE /
                       erig_stat(&r, "window_block_bytes");
                windows = erig_stat(&r, "pool_window_blocks");
                assert_in_range(windows, BLOCKS, BLOCKS + MAX(most, (uint64_t)KIND_LEAST));
        }
        erig_get(&r, c, &T);
        for (unsigned i = 1; i < 6; i++) {
                struct engine_request q = kind_cut_request(ENGINE_REWIND, c, T.n_turns - 2 * i);

                assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
                kind_say(&r, c, 100 + i, &A);
                assert_in_range(kind_computed_of(&A, T.turns[T.n_turns - 2 * i - 1].end), 0, 1);
                q = kind_cut_request(ENGINE_REWIND, c, T.n_turns - 2 * i);
                assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
        }
        kind_close(&r);
        unlink(k.path);
}

/* --- loaded anew --- */

/* A conversation that is loaded anew knows where its replies end, wherever that is in a block: a rewind
 * to each of them computes nothing again. */
static void test_loaded(void **state) {
        /* Where a window of 16 tokens begins in another block, and where the end does. */
        static const uint32_t places[] = {0, 1, 15, 16, 17, 31};

        EACH_KIND(k)
        for (size_t i = 0; i < (k->windows ? ARRAY_SIZE(places) : 1); i++) {
                uint32_t want = places[i], end, again;
                struct engine_request q;
                struct erig r, fresh;
                uint64_t c, d;

                kind_open(&r, k, UINT32_MAX);
                kind_open(&fresh, k, UINT32_MAX);
                c = kind_talk(&r, 1, &A);
                /* The reply's last token is not computed: its memory ends @want tokens into a block. */
                d = erig_fork(&r, c);
                kind_say(&r, d, 1, &A);
                erig_get(&r, d, &T);
                end = T.conv.n_tokens - 1;
                q = erig_long_request(
                        c, "Message 1.", 4 + (want + KIND_BLOCK - end % KIND_BLOCK) % KIND_BLOCK);
                assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
                q = erig_long_request(c, erig_words(12, 1), 4);
                assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
                erig_get(&r, c, &T);
                assert_int_equal((T.turns[4].end - 1) % KIND_BLOCK, want);
                erig_restart(&r, true);
                q = kind_cut_request(ENGINE_REWIND, c, 5);
                assert_int_equal(erig_do(&r, &q, NULL), ENGINE_CONV);
                again = kind_go_on(&r, c, &T, 5, &fresh, &A);
                if (again > 0)
                        fail_msg("%s, %u: %u computed again", k->arch, want, again);
                kind_close(&fresh);
                kind_close(&r);
        }
}

/* Likewise the reply to raw text, of which the last token is computed in any case. The text may be there before, or
 * come with the request. */
static void loaded_raw_case(const struct kind *k, uint32_t n, bool together) {
        struct engine_request q;
        int32_t tokens[256];
        struct erig r;
        uint64_t c;

        for (uint32_t i = 0; i < n; i++)
                tokens[i] = 261 + (int32_t)(i * 7 % 57);
        kind_open(&r, k, UINT32_MAX);
        c = erig_new(&r, NULL, NULL);
        q = erig_long_request(c, "", 60);
        q.input = ENGINE_INPUT_TOKENS;
        q.text = NULL;
        q.tokens = tokens;
        q.n_tokens = n;
        if (!together) {
                q.max_tokens = 0;
                assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
                q = erig_long_request(c, "", 60);
                q.input = ENGINE_INPUT_NONE;
        }
        if (erig_do(&r, &q, &A) != ENGINE_DONE)
                fail_msg("reply: %s", A.err.msg);
        erig_restart(&r, true);
        q = edit_request(c, 1, "", 60);
        q.ignore_eos = true;
        if (erig_do(&r, &q, &B) != ENGINE_DONE)
                fail_msg("reply: %s", B.err.msg);
        answer_same(&B, &A);
        if (B.n_computed > 1)
                fail_msg("%s, %u, together %d: %u computed again", k->arch, n, together,
                        B.n_computed);
        kind_close(&r);
}

static void test_loaded_raw(void **state) {
        static const uint32_t sizes[] = {97, 96, 110, 111, 112, 113};

        EACH_KIND(k)
        for (size_t i = 0; i < (k->windows ? ARRAY_SIZE(sizes) : 1); i++)
                for (int together = 0; together < 2; together++)
                        loaded_raw_case(k, sizes[i], together);
}

/* --- others --- */

static const char *begins_like(unsigned n, const char *then) {
        static char text[4][8192];
        static unsigned next;
        char *p = text[next++ % 4];

        snprintf(p, sizeof(text[0]), "%s %s", erig_words(n, 0), then);
        return p;
}

/* Where two conversations have parted in the middle of a message, the third one begins. */
static void test_branch_inside(void **state) {
        static const char *const then[] = {
                "and then so on, and so forth, until nobody remembers any more how it began.",
                "or not, as it may be, since there are many who say that it was quite different."};

        EACH_KIND(k) {
                uint32_t common;
                struct erig r;
                uint64_t c;

                kind_open(&r, k, UINT32_MAX);
                kind_say_as(&r, 0, kind_open_as(&r, 0, erig_words(40, 0)), "One.", &A);
                c = kind_open_as(&r, 0, begins_like(20, then[0]));
                erig_get(&r, c, &T);
                kind_say_as(&r, 0, c, "One.", &A);
                assert_int_equal(A.differs_why, ENGINE_DIFFERS_TOKEN);
                common = A.differs_at / KIND_BLOCK * KIND_BLOCK;
                /* There is no other reason for a place there. */
                assert_in_range(common, 1, T.conv.n_tokens / KIND_BLOCK * KIND_BLOCK - 1);
                kind_say_as(&r, 0, kind_open_as(&r, 0, begins_like(20, then[1])), "One.", &A);
                if (A.n_shared != common)
                        fail_msg("%s: %u of %u shared", k->arch, A.n_shared, common);
                kind_close(&r);
        }
}

/* The same prompt in two conversations: of states alone the second finds what the first had at a block's end. */
static void test_same_prompt(void **state) {
        EACH_KIND(k) {
                struct erig r;

                if (k->blocks || k->windows)
                        continue;
                kind_open(&r, k, UINT32_MAX);
                kind_say_as(&r, 0, kind_open_as(&r, 0, NULL), erig_words(30, 0), &A);
                kind_say_as(&r, 0, kind_open_as(&r, 0, NULL), erig_words(30, 0), &B);
                answer_same(&B, &A);
                assert_true(B.n_prompt > 2 * KIND_BLOCK);
                assert_int_equal(B.n_shared, (B.n_prompt - 1) / KIND_BLOCK * KIND_BLOCK);
                kind_close(&r);
        }
}

/* Of the user's own memory and what is published that is taken of which more can be used. */
static void test_two_scopes(void **state) {
        EACH_KIND(k) {
                struct engine_request q;
                uint32_t whole, own;
                struct erig r;
                uint64_t c;

                kind_open(&r, k, UINT32_MAX);
                c = kind_open_as(&r, 0, erig_words(60, 0));
                erig_get(&r, c, &T);
                whole = T.conv.n_tokens / KIND_BLOCK * KIND_BLOCK;
                q = erig_request(ENGINE_PUBLISH, c);
                q.admin = q.publish = true;
                q.at_turn = 1;
                assert_int_equal(erig_do(&r, &q, NULL), ENGINE_CONV);
                kind_say_as(&r, 0, c, "One.", &A);
                /* The user's first conversation leaves what is published, and a place where it did. */
                kind_say_as(
                        &r, 5, kind_open_as(&r, 5, begins_like(20, "and then so on")), "One.", &A);
                assert_int_equal(A.n_shared, 0);
                own = A.differs_at / KIND_BLOCK * KIND_BLOCK;
                assert_true(own > 0);
                /* The next one has more in common with the published one, but there is no place there. */
                kind_say_as(&r, 5, kind_open_as(&r, 5, begins_like(40, "or something else")),
                        "One.", &A);
                assert_true(A.differs_at >= own + KIND_BLOCK);
                if (A.n_shared != own)
                        fail_msg("%s: %u of %u shared", k->arch, A.n_shared, own);
                /* And now the published one has more. */
                kind_say_as(&r, 5, kind_open_as(&r, 5, erig_words(60, 0)), "Three.", &A);
                if (A.n_shared != whole)
                        fail_msg("%s: %u of %u shared", k->arch, A.n_shared, whole);
                kind_close(&r);
        }
}

/* --- room --- */

/* What is needed for other memory is dropped one place after the other, and those of the latest turns last, though
 * nothing is on disk. */
static void test_little_room(void **state) {
        enum { N = 400 };

        EACH_KIND(k) {
                struct engine_options o = erig_options(kind_least_pool(k, N));
                struct erig r;
                uint64_t c, size;

                o.model_path = k->path;
                o.spill_delay_ms = UINT32_MAX;
                erig_open(&r, &o);
                size = erig_stat(&r, "state_bytes") + 2 * erig_stat(&r, "window_block_bytes");
                erig_close(&r);
                o.pool_size += 6 * (size / 4096 + 1) * 4096;
                erig_open(&r, &o);
                c = kind_talk(&r, 1, &A);
                for (unsigned i = 1; A.n_prompt < N - 80; i++) {
                        uint32_t again;

                        kind_say(&r, c, i, &A);
                        kind_regenerate(&r, c, &B);
                        answer_same(&A, &B);
                        erig_get(&r, c, &T);
                        again = kind_computed_of(&B, T.turns[T.n_turns - 2].end);
                        if (again > 0)
                                fail_msg("%s, message %u: %u computed again", k->arch, i, again);
                        again = edit_message(&r, c, T.n_turns - 2);
                        if (again > 1)
                                fail_msg("%s, edit %u: %u computed again", k->arch, i, again);
                }
                erig_get(&r, c, &T);
                /* Some are gone. */
                assert_true(go_back(&r, c, T.turns[4].end - 1) > 0);
                kind_close(&r);
        }
}

/* What admission counts suffices for a prompt that is computed in one batch, windows and all, beside the memory of
 * idle conversations. */
static void test_one_batch(void **state) {
        enum { N = 400 };

        EACH_KIND(k) {
                struct engine_options o = erig_options(kind_least_pool(k, N));
                struct engine_request q;
                struct erig r;

                o.model_path = k->path;
                erig_open(&r, &o);
                for (unsigned i = 0; i < 3; i++) {
                        int32_t tokens[N - 8];

                        for (uint32_t j = 0; j < ARRAY_SIZE(tokens); j++)
                                tokens[j] = 261 + (int32_t)((j * 7 + j / 13 + i) % 57);
                        q = erig_long_request(erig_new(&r, NULL, NULL), "", 4);
                        q.input = ENGINE_INPUT_TOKENS;
                        q.text = NULL;
                        q.tokens = tokens;
                        q.n_tokens = ARRAY_SIZE(tokens);
                        if (erig_do(&r, &q, &A) != ENGINE_DONE)
                                fail_msg("%s: %s", k->arch, A.err.msg);
                        assert_int_equal(A.n_tokens, 4);
                }
                kind_close(&r);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_latest),
                cmocka_unit_test(test_latest_long),
                cmocka_unit_test(test_latest_tools),
                cmocka_unit_test(test_several),
                cmocka_unit_test(test_long_text),
                cmocka_unit_test(test_wide_windows),
                cmocka_unit_test(test_loaded),
                cmocka_unit_test(test_loaded_raw),
                cmocka_unit_test(test_branch_inside),
                cmocka_unit_test(test_same_prompt),
                cmocka_unit_test(test_two_scopes),
                cmocka_unit_test(test_little_room),
                cmocka_unit_test(test_one_batch),
        };

        return cmocka_run_group_tests(tests, kinds_make, kinds_remove);
}
