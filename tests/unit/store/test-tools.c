/* SPDX-License-Identifier: MIT */
/* Definitions of tools, results of calls, and what else is given with a message. */
#include "store-fixture.h"

#define DEFS_A "[{\"name\":\"a\"}]"
#define DEFS_B "[{\"name\":\"b\",\"description\":\"\xc3\xa9\"}]"
#define CALLS "{\"calls\":[]}"

/* Roles by number, as enum chat_role has them. */
enum { SYSTEM, USER, ASSISTANT, RAW, TOOL };

static uint64_t open_with(struct fixture *f, const char *name, const char *tools) {
        struct store_conv c = {.owner = 7, .tools = tools};

        snprintf(c.name, sizeof(c.name), "%s", name);
        assert_int_equal(store_conv_create(f->s, &c, NULL, 0, NULL, 0, &f->e), 0);
        assert_int_equal(c.tools_size, tools ? strlen(tools) : 0);
        assert_null(c.tools);
        return c.id;
}

static struct store_turn turn_of(uint32_t at, uint32_t n, uint32_t role, const char *extra) {
        return (struct store_turn){.role = role,
                .start = at,
                .end = at + n,
                .text = "text",
                .text_size = 4,
                .extra = extra,
                .extra_size = extra ? strlen(extra) : 0};
}

/* A turn of 4 tokens at the end, given with @extra. */
static int say(struct fixture *f, uint64_t id, uint32_t role, const char *extra) {
        int32_t tokens[] = {1, 2, 3, 4};
        struct store_turn t;
        struct store_conv c;
        uint64_t revision;

        assert_int_equal(store_conv_get(f->s, 7, id, NULL, &c, &f->e), 0);
        t = turn_of(c.n_tokens, 4, role, extra);
        return store_append(f->s, id, &t, 1, tokens, 4, &revision, &f->e);
}

static void expect_tools(struct fixture *f, uint64_t id, uint32_t n_turns, const char *want) {
        struct store_reading x = {};
        size_t size = 0;
        char *got = NULL;

        assert_int_equal(store_tools(f->s, id, n_turns, NULL, NULL, &got, &size, &f->e), 0);
        if (want) {
                assert_non_null(got);
                assert_string_equal(got, want);
                assert_int_equal(size, strlen(want));
        } else {
                assert_null(got);
        }
        free(got);
        if (n_turns != UINT32_MAX)
                return;
        assert_int_equal(store_read(f->s, 7, id, NULL, STORE_READ_TOOLS, &x, &f->e), 0);
        assert_true(want ? x.tools && strcmp(x.tools, want) == 0 : !x.tools);
        store_reading_deinit(&x);
}

/* They hold from the turn that told them on; those of the conversation until then. */
static void test_where_they_hold(void **state) {
        struct fixture *f = *state;
        uint64_t id = open_with(f, "a", DEFS_A), bare = open_with(f, "bare", NULL);

        expect_tools(f, id, 0, DEFS_A);
        assert_int_equal(say(f, id, USER, NULL), 0);
        assert_int_equal(say(f, id, ASSISTANT, CALLS), 0); /* not definitions */
        assert_int_equal(say(f, id, TOOL, DEFS_B), 0);
        assert_int_equal(say(f, id, USER, NULL), 0);
        expect_tools(f, id, 2, DEFS_A);
        expect_tools(f, id, 3, DEFS_B);
        expect_tools(f, id, UINT32_MAX, DEFS_B);
        expect_tools(f, bare, UINT32_MAX, NULL);
        assert_int_equal(say(f, bare, USER, DEFS_B), 0);
        expect_tools(f, bare, 0, NULL);
        expect_tools(f, bare, 1, DEFS_B);
        fixture_reopen(f);
        expect_tools(f, id, UINT32_MAX, DEFS_B);
        fixture_expect_sound(f);
}

/* A rewind takes back what was told; a fork has what its turns were told, and what its parent was
 * opened with. */
static void test_rewind_and_fork(void **state) {
        struct fixture *f = *state;
        uint64_t id = open_with(f, "a", DEFS_A), revision;
        struct store_conv whole = {.name = "whole"}, begin = {.name = "begin"};
        struct store_turn t = turn_of(4, 2, USER, DEFS_A);
        struct store_gone gone = {};
        int32_t tokens[] = {8, 9};

        assert_int_equal(say(f, id, USER, NULL), 0);
        assert_int_equal(say(f, id, USER, DEFS_B), 0);
        assert_int_equal(store_conv_fork(f->s, id, 2, NULL, NULL, &whole, &f->e), 0);
        assert_int_equal(store_conv_fork(f->s, id, 1, NULL, NULL, &begin, &f->e), 0);
        assert_int_equal(whole.tools_size, strlen(DEFS_A));
        expect_tools(f, whole.id, UINT32_MAX, DEFS_B);
        expect_tools(f, whole.id, 0, DEFS_A);
        expect_tools(f, begin.id, UINT32_MAX, DEFS_A);
        assert_int_equal(store_rewind(f->s, id, 1, NULL, NULL, &revision, &gone, &f->e), 0);
        expect_tools(f, id, UINT32_MAX, DEFS_A);
        /* The replacing turns and what is told with them come in one transaction. */
        assert_int_equal(store_replace(f->s, whole.id, 1, NULL, NULL, &t, 1, tokens, 2, &revision,
                                 &gone, &f->e),
                0);
        expect_tools(f, whole.id, 1, DEFS_A);
        expect_tools(f, whole.id, UINT32_MAX, DEFS_A);
        assert_int_equal(store_conv_delete(f->s, id, &gone, &f->e), 0);
        expect_tools(f, begin.id, UINT32_MAX, DEFS_A);
        fixture_expect_sound(f);
}

static int admit(void *arg, size_t n, struct err *e) {
        size_t *most = arg;

        return n > *most ? err_set(e, ERR_LIMIT, "%zu bytes are too many", n) : 0;
}

static void test_parts_of_turns(void **state) {
        struct fixture *f = *state;
        uint64_t id = open_with(f, "a", DEFS_A);
        struct store_turns ts = {};
        struct store_sizes sizes;
        size_t size = 0, most = 4;
        char *got = NULL;

        assert_int_equal(say(f, id, ASSISTANT, CALLS), 0);
        assert_int_equal(say(f, id, TOOL, NULL), 0);
        assert_int_equal(store_turns(f->s, id, true, &ts, &f->e), 0);
        assert_int_equal(ts.turns[0].extra_size, strlen(CALLS));
        assert_string_equal(ts.turns[0].extra, CALLS);
        assert_int_equal(ts.turns[1].role, TOOL);
        assert_null(ts.turns[1].extra);
        store_turns_deinit(&ts);
        /* Without texts only its presence is told. */
        assert_int_equal(store_turns(f->s, id, false, &ts, &f->e), 0);
        assert_non_null(ts.turns[0].extra);
        assert_int_equal(ts.turns[0].extra_size, 0);
        assert_null(ts.turns[1].extra);
        store_turns_deinit(&ts);
        assert_int_equal(store_sizes(f->s, id, &sizes, &f->e), 0);
        assert_int_equal(sizes.texts_size, 2 * 4 + strlen(CALLS) + strlen(DEFS_A));
        assert_int_equal(store_turn_part(f->s, id, 0, true, NULL, NULL, &got, &size, &f->e), 0);
        assert_string_equal(got, CALLS);
        free(got);
        got = NULL;
        assert_int_equal(store_turn_part(f->s, id, 1, true, NULL, NULL, &got, &size, &f->e), 0);
        assert_null(got);
        assert_int_equal(store_turn_part(f->s, id, 1, false, NULL, NULL, &got, &size, &f->e), 0);
        assert_string_equal(got, "text");
        free(got);
        got = NULL;
        assert_int_equal(store_turn_part(f->s, id, 2, false, NULL, NULL, &got, &size, &f->e),
                -ERR_NOT_FOUND);
        assert_int_equal(store_tools(f->s, id, 0, admit, &most, &got, &size, &f->e), -ERR_LIMIT);
        assert_null(got);
}

static void test_what_is_refused(void **state) {
        struct fixture *f = *state;
        struct store_conv c = {.owner = 7, .tools = ""};
        struct store_turn t = turn_of(0, 4, USER, NULL);
        uint64_t id = open_with(f, "a", NULL), revision;
        int32_t tokens[] = {1, 2, 3, 4};

        assert_int_equal(store_conv_create(f->s, &c, NULL, 0, NULL, 0, &f->e), -ERR_INVALID);
        c.tools = "\xff";
        assert_int_equal(store_conv_create(f->s, &c, NULL, 0, NULL, 0, &f->e), -ERR_INVALID);
        assert_int_equal(say(f, id, USER, "\xff"), -ERR_INVALID);
        assert_int_equal(say(f, id, TOOL + 1, NULL), -ERR_INVALID);
        t.extra = "a\0b";
        t.extra_size = 3;
        assert_int_equal(store_append(f->s, id, &t, 1, tokens, 4, &revision, &f->e), -ERR_INVALID);
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM turn"), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                store_test(test_where_they_hold),
                store_test(test_rewind_and_fork),
                store_test(test_parts_of_turns),
                store_test(test_what_is_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
