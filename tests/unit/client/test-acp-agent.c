/* SPDX-License-Identifier: MIT */
/* The agent of ACP: each method's requests and answers, the order of prompts, cancelling in every step, a daemon that
 * goes, and bounds. */
#include "acp-rig.h"

static uint64_t expect(struct rig *rig, Confab__V1__Request__VerbCase verb) {
        return peer_expect(&rig->peer, verb);
}

/* ---- sessions ---- */

static void test_new(void **state) {
        const Confab__V1__Request *request;
        struct rig rig;

        rig_init(&rig);
        rig.options.system = "Be kind.";
        ask(&rig, 1, "session/new", "\"cwd\":\"/p\",\"mcpServers\":[{}]");
        assert_non_null(strstr(rig.words, "MCP"));
        request = take(&rig, REQ(OPEN));
        assert_string_equal(request->open->system, "Be kind.");
        assert_int_equal(request->open->overflow, CONFAB__V1__OVERFLOW__OVERFLOW_SHIFT);
        assert_string_equal(request->open->about->metadata, "{\"cwd\":\"/p\"}");
        assert_int_equal(request->open->about->tags->n_tags, 1);
        assert_string_equal(request->open->about->tags->tags[0], "acp");
        assert_int_equal(request->open->about->expires_after, 7 * 24 * 3600);
        expect_said(&rig, "");
        answer_conversation(&rig, request->id, 12, NULL, 1);
        expect_said(&rig, RESULT(1, "\"sessionId\":\"12\""));
        rig_deinit(&rig);
}

static void test_resume(void **state) {
        const Confab__V1__Request *request;
        struct rig rig;

        rig_init(&rig);
        ask(&rig, 1, "session/resume", "\"sessionId\":\"trip\",\"cwd\":\"/p\"");
        request = take(&rig, REQ(GET));
        assert_string_equal(request->get->conversation->name, "trip");
        answer_conversation(&rig, request->id, 12, NULL, 0);
        expect_said(&rig, RESULT(1, ""));
        ask(&rig, 2, "session/resume", "\"sessionId\":\"#12\",\"cwd\":\"/p\"");
        request = take(&rig, REQ(GET));
        assert_int_equal(request->get->conversation->id, 12);
        answer_error(&rig, request->id, "not_found", false);
        expect_said(&rig, ERROR(2, -32002, "why", DATA("not_found", false)));
        ask(&rig, 3, "session/resume", "\"sessionId\":\"0\",\"cwd\":\"/p\"");
        expect_part(&rig, "-32002");
        ask(&rig, 4, "session/resume", "\"sessionId\":\"12\"");
        expect_said(&rig, ERROR(4, -32602, "cwd is missing", ""));
        rig_deinit(&rig);
}

/* Fork conversation 12 with @n_tags tags: the request, whose About is checked by the caller. */
static const Confab__V1__Request *fork_with(
        struct rig *rig, size_t n_tags, const char *first, const char *metadata, uint32_t expires) {
        Confab__V1__Conversation c = CONFAB__V1__CONVERSATION__INIT;
        Confab__V1__About about = CONFAB__V1__ABOUT__INIT;
        Confab__V1__Tags tags = CONFAB__V1__TAGS__INIT;
        Confab__V1__Event event;
        char *names[32];

        ask(rig, 1, "session/fork", "\"sessionId\":\"12\",\"cwd\":\"/p\",\"mcpServers\":[]");
        event = rig_event(expect(rig, REQ(GET)), KIND(CONVERSATION));
        for (size_t i = 0; i < n_tags; i++)
                names[i] = proto_borrow(i == 0 ? first : "other");
        tags.tags = names;
        tags.n_tags = n_tags;
        about.tags = n_tags ? &tags : NULL;
        about.metadata = proto_borrow(metadata);
        about.has_expires_after = true;
        about.expires_after = expires;
        c.has_id = true;
        c.id = 12;
        c.about = &about;
        event.conversation = &c;
        peer_send(&rig->peer, &event);
        rig_turn(rig);
        return take(rig, REQ(FORK));
}

static void test_fork(void **state) {
        static const struct {
                size_t n_tags, n_expected; /* 0: tags are left alone */
                const char *first;
                uint32_t expires;
        } cases[] = {
                {0, 1, "", 0}, {2, 3, "x", 0}, {2, 0, "acp", 7}, {32, 0, "x", 0}, {31, 32, "x", 0}};

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                const Confab__V1__About *about;
                const Confab__V1__Request *request;
                struct rig rig;

                rig_init(&rig);
                request = fork_with(
                        &rig, cases[i].n_tags, cases[i].first, "{\"x\":1}", cases[i].expires);
                assert_int_equal(request->fork->conversation->id, 12);
                about = request->fork->about;
                assert_string_equal(about->metadata, "{\"x\":1,\"cwd\":\"/p\"}");
                assert_int_equal(about->tags ? about->tags->n_tags : 0, cases[i].n_expected);
                if (about->tags)
                        assert_string_equal(about->tags->tags[cases[i].n_expected - 1], "acp");
                assert_int_equal(about->expires_after, cases[i].expires);
                answer_conversation(&rig, request->id, 13, NULL, 0);
                expect_said(&rig, RESULT(1, "\"sessionId\":\"13\""));
                rig_deinit(&rig);
        }
}

/* ---- histories and lists ---- */

/* A page of @n turns of a user, of a conversation that has @n_turns. */
static void answer_page(struct rig *rig, uint64_t id, uint32_t first, size_t n, uint32_t n_turns) {
        Confab__V1__Event event = rig_event(id, KIND(CONVERSATION));
        Confab__V1__Conversation c = CONFAB__V1__CONVERSATION__INIT;
        Confab__V1__Turn turns[16], *pointers[16];
        char texts[16][16];

        for (size_t i = 0; i < n; i++) {
                confab__v1__turn__init(&turns[i]);
                turns[i].has_role = turns[i].has_text = true;
                turns[i].role = CONFAB__V1__ROLE__ROLE_USER;
                turns[i].text.len = (size_t)snprintf(texts[i], sizeof(texts[i]), "t%zu", first + i);
                turns[i].text.data = (uint8_t *)texts[i];
                pointers[i] = &turns[i];
        }
        c.has_id = c.has_n_turns = c.has_n_tokens = c.has_dropped_from = c.has_dropped_to = true;
        c.id = 12;
        c.n_turns = n_turns;
        c.n_tokens = 100;
        c.dropped_from = 10;
        c.dropped_to = 40;
        c.turn_list = pointers;
        c.n_turn_list = n;
        event.conversation = &c;
        peer_send(&rig->peer, &event);
        rig_turn(rig);
}

static void test_load(void **state) {
        const Confab__V1__Request *request;
        struct rig rig;

        rig_init(&rig);
        ask(&rig, 1, "session/load", "\"sessionId\":\"s\",\"cwd\":\"/p\"");
        request = take(&rig, REQ(GET));
        assert_true(request->get->turns && request->get->parts && request->get->has_from_turn);
        assert_int_equal(request->get->max_turns, 16);
        assert_int_equal(request->get->from_turn, 0);
        answer_page(&rig, request->id, 0, 2, 3);
        expect_said(&rig,
                UPDATE("s", "user_message_chunk", "\"content\":{\"type\":\"text\",\"text\":\"t0\"}")
                        UPDATE("s", "user_message_chunk",
                                "\"content\":{\"type\":\"text\",\"text\":\"t1\"}"));
        request = take(&rig, REQ(GET));
        assert_int_equal(request->get->conversation->id, 12);
        assert_int_equal(request->get->from_turn, 2);
        answer_page(&rig, request->id, 2, 1, 3);
        expect_said(&rig,
                UPDATE("s", "user_message_chunk", "\"content\":{\"type\":\"text\",\"text\":\"t2\"}")
                        USAGE("s", 70) RESULT(1, ""));
        /* turns went away meanwhile: a page without any is the last one */
        ask(&rig, 2, "session/load", "\"sessionId\":\"s\",\"cwd\":\"/p\"");
        answer_page(&rig, expect(&rig, REQ(GET)), 0, 0, 3);
        expect_said(&rig, USAGE("s", 70) RESULT(2, ""));
        rig_deinit(&rig);
}

struct item {
        uint64_t id;
        const char *title, *metadata;
        uint32_t expires;
};

static void answer_list(
        struct rig *rig, uint64_t id, const struct item *items, size_t n, const char *cursor) {
        Confab__V1__Event event = rig_event(id, KIND(CONVERSATIONS));
        Confab__V1__Conversations list = CONFAB__V1__CONVERSATIONS__INIT;
        Confab__V1__Conversation c[4], *pointers[4];
        Confab__V1__About about[4];

        for (size_t i = 0; i < n; i++) {
                confab__v1__conversation__init(&c[i]);
                confab__v1__about__init(&about[i]);
                c[i].has_id = true;
                c[i].id = items[i].id;
                c[i].name = proto_borrow("name");
                about[i].title = items[i].title ? proto_borrow(items[i].title) : NULL;
                about[i].metadata = proto_borrow(items[i].metadata);
                about[i].has_expires_after = true;
                about[i].expires_after = items[i].expires;
                c[i].about = &about[i];
                pointers[i] = &c[i];
        }
        list.conversations = pointers;
        list.n_conversations = n;
        list.has_more = true;
        list.more = cursor != NULL;
        list.cursor = cursor ? proto_borrow(cursor) : NULL;
        event.conversations = &list;
        peer_send(&rig->peer, &event);
        rig_turn(rig);
}

#define ITEM(id, cwd, title)                                                                       \
        "{\"sessionId\":\"" #id "\",\"cwd\":\"" cwd "\",\"title\":\"" title                        \
        "\",\"updatedAt\":\"1970-01-01T00:00:00.000Z\"}"

static const struct item some_items[] = {
        {1, "One", "{\"cwd\":\"/p\"}", 0},
        {2, "Empty", "{\"cwd\":\"/p\"}", 7},
        {3, NULL, "", 0},
        {4, "Four", "{\"cwd\":\"/p/q\"}", 0},
};

static void test_list(void **state) {
        const Confab__V1__Request *request;
        struct rig rig;

        rig_init(&rig);
        ask(&rig, 1, "session/list", "");
        request = take(&rig, REQ(LIST));
        assert_int_equal(request->list->order, CONFAB__V1__ORDER__ORDER_UPDATED);
        assert_true(!request->list->tag && !request->list->cursor);
        answer_list(&rig, request->id, some_items, 4, "there");
        expect_said(&rig,
                RESULT(1, "\"sessions\":[" ITEM(1, "/p", "One") "," ITEM(3, "/", "name") "," ITEM(
                                  4, "/p/q", "Four") "],\"nextCursor\":\"there\""));
        ask(&rig, 2, "session/list", "\"cwd\":\"/p\",\"cursor\":\"there\"");
        request = take(&rig, REQ(LIST));
        assert_string_equal(request->list->tag, "acp");
        assert_string_equal(request->list->cursor, "there");
        answer_list(&rig, request->id, some_items, 4, NULL);
        expect_said(&rig, RESULT(2, "\"sessions\":[" ITEM(1, "/p", "One") "]"));
        rig_deinit(&rig);
}

/* A page of which nothing is left is no answer, unless it is the last one. */
static void test_list_goes_on(void **state) {
        const Confab__V1__Request *request;
        struct rig rig;

        rig_init(&rig);
        ask(&rig, 1, "session/list", "\"cwd\":\"/p\"");
        answer_list(&rig, expect(&rig, REQ(LIST)), some_items + 1, 3, "second");
        expect_said(&rig, "");
        request = take(&rig, REQ(LIST));
        assert_string_equal(request->list->cursor, "second");
        assert_string_equal(request->list->tag, "acp");
        answer_list(&rig, request->id, some_items + 1, 3, NULL);
        expect_said(&rig, RESULT(1, "\"sessions\":[]"));
        ask(&rig, 2, "session/list", "\"cursor\":\"no\"");
        answer_error(&rig, expect(&rig, REQ(LIST)), "invalid", false);
        expect_said(&rig, ERROR(2, -32602, "why", DATA("invalid", false)));
        rig_deinit(&rig);
}

/* ---- prompts ---- */

/* The prompt's first steps, up to its Continue, whose id is returned: the conversation has a title. */
static uint64_t reach_continue(struct rig *rig, const char *text) {
        const Confab__V1__Request *request;

        answer_conversation(rig, expect(rig, REQ(GET)), 12, "Title", 0);
        request = take(rig, REQ(CONTINUE));
        assert_int_equal(request->continue_->conversation->id, 12);
        assert_string_equal(request->continue_->message, text);
        assert_true(request->continue_->wait && request->continue_->want_parts);
        return request->id;
}

#define USED_NOTHING                                                                               \
        ",\"usage\":{\"inputTokens\":0,\"cachedReadTokens\":0,\"outputTokens\":7,\"totalTokens\":" \
        "7}"
#define TEXT(text) "\"content\":{\"type\":\"text\",\"text\":\"" text "\"}"

static void test_prompt(void **state) {
        static const struct {
                Confab__V1__FinishReason finish;
                const char *stop;
        } cases[] = {
                {CONFAB__V1__FINISH_REASON__FINISH_STOP, "end_turn"},
                {CONFAB__V1__FINISH_REASON__FINISH_STOP_STRING, "end_turn"},
                {CONFAB__V1__FINISH_REASON__FINISH_LENGTH, "max_tokens"},
                {CONFAB__V1__FINISH_REASON__FINISH_CONTEXT, "max_tokens"},
                {CONFAB__V1__FINISH_REASON__FINISH_CANCELLED, "cancelled"},
        };
        struct rig rig;

        rig_init(&rig);
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                char expected[512];
                uint64_t id;

                ask(&rig, 1, "session/prompt", PROMPT("s", "hi"));
                id = reach_continue(&rig, "hi");
                answer_accepted(&rig, id);
                expect_said(&rig, USAGE("s", 130));
                answer_part(&rig, id, CONFAB__V1__PART_KIND__PART_REASONING, "hm");
                answer_part(&rig, id, CONFAB__V1__PART_KIND__PART_TEXT, "Yes");
                expect_said(&rig, UPDATE("s", "agent_thought_chunk", TEXT("hm"))
                                          UPDATE("s", "agent_message_chunk", TEXT("Yes")));
                answer_done(&rig, id, cases[i].finish);
                snprintf(expected, sizeof(expected),
                        USAGE("s", 7) "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"stopReason\":\"%"
                                      "s\"" USED_NOTHING "}}\n",
                        cases[i].stop);
                expect_said(&rig, expected);
                assert_true(list_empty(&rig.agent.queues) && list_empty(&rig.agent.calls));
        }
        assert_int_equal(rig.n_connections, 1);
        rig_deinit(&rig);
}

/* The first prompt keeps the conversation and gives it a title, before anything is said. */
static void test_first_prompt(void **state) {
        static const struct {
                const char *title, *new_title;
                uint32_t expires;
        } cases[] = {{NULL, "hi", 7}, {"", "hi", 0}, {"Old", NULL, 7}};

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                const Confab__V1__About *about;
                const Confab__V1__Request *request;
                struct rig rig;

                rig_init(&rig);
                ask(&rig, 1, "session/prompt", PROMPT("s", "hi"));
                answer_conversation(
                        &rig, expect(&rig, REQ(GET)), 12, cases[i].title, cases[i].expires);
                request = take(&rig, REQ(UPDATE));
                about = request->update->about;
                assert_int_equal(request->update->conversation->id, 12);
                assert_int_equal(about->has_expires_after, cases[i].expires > 0);
                assert_int_equal(about->expires_after, 0);
                if (cases[i].new_title)
                        assert_string_equal(about->title, cases[i].new_title);
                else
                        assert_null(about->title);
                answer_conversation(&rig, request->id, 12, "hi", 0);
                expect_said(&rig, UPDATE("s", "session_info_update", "\"title\":\"hi\""));
                answer_done(
                        &rig, expect(&rig, REQ(CONTINUE)), CONFAB__V1__FINISH_REASON__FINISH_STOP);
                expect_part(&rig, "end_turn");
                rig_deinit(&rig);
        }
}

/* What cannot be kept is not prompted. */
static void test_not_kept(void **state) {
        struct rig rig;

        rig_init(&rig);
        ask(&rig, 1, "session/prompt", PROMPT("s", "hi"));
        answer_conversation(&rig, expect(&rig, REQ(GET)), 12, NULL, 7);
        answer_error(&rig, expect(&rig, REQ(UPDATE)), "limit", true);
        expect_said(&rig, ERROR(1, -32603, "why", DATA("limit", true)));
        assert_int_equal(confab_get_n_pending(rig.agent.confab), 0);
        rig_deinit(&rig);
}

/* Prompts of one session run in their order, those of another one at the same time. */
static void test_order(void **state) {
        uint64_t first, other;
        struct rig rig;

        rig_init(&rig);
        ask(&rig, 1, "session/prompt", PROMPT("s", "one"));
        ask(&rig, 2, "session/prompt", PROMPT("s", "two"));
        ask(&rig, 3, "session/prompt", PROMPT("other", "three"));
        first = expect(&rig, REQ(GET));
        other = expect(&rig, REQ(GET));
        answer_conversation(&rig, first, 12, "T", 0);
        first = expect(&rig, REQ(CONTINUE));
        answer_error(&rig, other, "not_found", false);
        expect_said(&rig, ERROR(3, -32002, "why", DATA("not_found", false)));
        assert_int_equal(confab_get_n_pending(rig.agent.confab), 1);
        answer_done(&rig, first, CONFAB__V1__FINISH_REASON__FINISH_STOP);
        expect_part(&rig, "\"id\":1,");
        answer_done(&rig, reach_continue(&rig, "two"), CONFAB__V1__FINISH_REASON__FINISH_STOP);
        expect_part(&rig, "\"id\":2,");
        rig_deinit(&rig);
}

static const char cancelled[] = RESULT(1, "\"stopReason\":\"cancelled\"");

static void test_cancel(void **state) {
        struct rig rig;
        uint64_t id;

        rig_init(&rig);
        cancel(&rig, "s"); /* nothing runs */
        /* while it looks */
        ask(&rig, 1, "session/prompt", PROMPT("s", "hi"));
        id = expect(&rig, REQ(GET));
        cancel(&rig, "s");
        expect_said(&rig, "");
        answer_conversation(&rig, id, 12, NULL, 7);
        expect_said(&rig, cancelled);
        /* while it notes */
        ask(&rig, 1, "session/prompt", PROMPT("s", "hi"));
        answer_conversation(&rig, expect(&rig, REQ(GET)), 12, NULL, 7);
        id = expect(&rig, REQ(UPDATE));
        cancel(&rig, "s");
        answer_conversation(&rig, id, 12, "hi", 0);
        expect_said(&rig, cancelled);
        assert_int_equal(confab_get_n_pending(rig.agent.confab), 0);
        /* while it looks, and there is nothing: that is the answer */
        ask(&rig, 2, "session/prompt", PROMPT("s", "hi"));
        id = expect(&rig, REQ(GET));
        cancel(&rig, "s");
        answer_error(&rig, id, "not_found", false);
        expect_said(&rig, ERROR(2, -32002, "why", DATA("not_found", false)));
        rig_deinit(&rig);
}

/* While it generates: the daemon is asked to end it, and whatever end it comes to is told as cancelled. */
static void test_cancel_reply(void **state) {
        for (int how = 0; how < 3; how++) {
                const Confab__V1__Request *request;
                struct rig rig;
                uint64_t id;

                rig_init(&rig);
                ask(&rig, 1, "session/prompt", PROMPT("s", "hi"));
                ask(&rig, 2, "session/prompt", PROMPT("s", "next"));
                ask(&rig, 3, "session/prompt", PROMPT("t", "other"));
                id = expect(&rig, REQ(GET));
                expect(&rig, REQ(GET));
                answer_conversation(&rig, id, 12, "T", 0);
                id = expect(&rig, REQ(CONTINUE));
                cancel(&rig, "s");
                expect_said(&rig, RESULT(2, "\"stopReason\":\"cancelled\""));
                request = take(&rig, REQ(CANCEL));
                assert_int_equal(request->cancel->request, id);
                peer_send_empty(&rig.peer, request->id);
                if (how == 0)
                        answer_error(&rig, id, "cancelled", false); /* it was not accepted yet */
                else
                        answer_done(&rig, id,
                                how == 1 ? CONFAB__V1__FINISH_REASON__FINISH_CANCELLED
                                         : CONFAB__V1__FINISH_REASON__FINISH_STOP);
                expect_part(&rig, "\"id\":1,\"result\":{\"stopReason\":\"cancelled\"");
                assert_int_equal(rig.agent.n_calls, 1); /* the other session's goes on */
                rig_deinit(&rig);
        }
}

/* ---- endings ---- */

static void test_close(void **state) {
        struct rig rig;
        uint64_t id;

        rig_init(&rig);
        ask(&rig, 1, "session/close", "\"sessionId\":\"s\"");
        expect_said(&rig, RESULT(1, ""));
        assert_int_equal(rig.n_connections, 0);
        ask(&rig, 2, "session/prompt", PROMPT("s", "hi"));
        id = reach_continue(&rig, "hi");
        ask(&rig, 3, "session/close", "\"sessionId\":\"s\"");
        ask(&rig, 4, "session/prompt", PROMPT("s", "late"));
        expect_said(&rig, ERROR(4, -32600, "the session is being closed", ""));
        expect(&rig, REQ(CANCEL));
        answer_done(&rig, id, CONFAB__V1__FINISH_REASON__FINISH_CANCELLED);
        expect_said(&rig, USAGE("s", 7) "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"stopReason\":"
                                        "\"cancelled\"" USED_NOTHING "}}\n" RESULT(3, ""));
        assert_true(list_empty(&rig.agent.queues));
        rig_deinit(&rig);
}

static void test_delete(void **state) {
        const Confab__V1__Request *request;
        struct rig rig;

        rig_init(&rig);
        for (int gone = 0; gone < 2; gone++) {
                ask(&rig, 1, "session/delete", "\"sessionId\":\"12\"");
                request = take(&rig, REQ(CLOSE));
                assert_int_equal(request->close->conversation->id, 12);
                expect_said(&rig, "");
                if (gone) {
                        answer_error(&rig, request->id, "not_found", false);
                } else {
                        peer_send_empty(&rig.peer, request->id);
                        rig_turn(&rig);
                }
                expect_said(&rig, RESULT(1, ""));
        }
        ask(&rig, 2, "session/delete", "\"sessionId\":\"12\"");
        answer_error(&rig, expect(&rig, REQ(CLOSE)), "busy", true);
        expect_said(&rig, ERROR(2, -32603, "why", DATA("busy", true)));
        ask(&rig, 3, "session/delete", "\"sessionId\":\"0\"");
        expect_said(&rig, RESULT(3, ""));
        rig_deinit(&rig);
}

/* ---- the connection ---- */

static void test_lost(void **state) {
        struct rig rig;
        uint64_t id;

        rig_init(&rig);
        rig.refuse = true;
        ask(&rig, 1, "session/new", "\"cwd\":\"/p\"");
        expect_said(&rig, ERROR(1, -32603, "nobody is there", DATA("no_daemon", true)));
        rig.refuse = false;
        ask(&rig, 2, "session/prompt", PROMPT("s", "hi"));
        id = reach_continue(&rig, "hi");
        answer_accepted(&rig, id);
        ask(&rig, 3, "session/prompt", PROMPT("s", "next"));
        ask(&rig, 4, "session/resume", "\"sessionId\":\"s\",\"cwd\":\"/\"");
        expect(&rig, REQ(GET));
        expect_said(&rig, USAGE("s", 130));
        peer_deinit(&rig.peer);
        rig_turn(&rig);
        /* what was in flight fails, what waited goes on with another connection */
        assert_int_equal(rig.n_connections, 2);
        assert_int_equal(rig.agent.n_calls, 1);
        assert_non_null(strstr((char *)rig.agent.out.buf.data, "\"id\":2,\"error\""));
        assert_non_null(strstr((char *)rig.agent.out.buf.data, "\"id\":4,\"error\""));
        expect_part(&rig, "\"code\":\"disconnected\",\"retry\":true");
        answer_done(&rig, reach_continue(&rig, "next"), CONFAB__V1__FINISH_REASON__FINISH_STOP);
        expect_part(&rig, "\"id\":3,\"result\":{\"stopReason\":\"end_turn\"");
        rig_deinit(&rig);
}

/* ---- bounds and strange messages ---- */

static void test_bounds(void **state) {
        static const char params[] = "\"sessionId\":\"s\",\"cwd\":\"/\"";
        struct rig rig;

        rig_init(&rig);
        for (int i = 0; i < ACP_CALLS_MAX; i++)
                ask(&rig, i, "session/prompt", PROMPT("s", "hi"));
        expect_said(&rig, "");
        ask(&rig, 999, "session/resume", params);
        expect_said(&rig, ERROR(999, -32603, "too many requests wait for their answers",
                                  DATA("limit", true)));
        cancel(&rig, "s"); /* is taken all the same; the first one is with the daemon */
        assert_int_equal(rig.agent.n_calls, 1);
        rig_deinit(&rig);
}

static void test_size_bound(void **state) {
        size_t size = ACP_LINE_MAX - 200;
        char *text = malloc(size + 1), *line = malloc(ACP_LINE_MAX);
        struct rig rig;

        assert_true(text && line);
        memset(text, 'x', size);
        text[size] = '\0';
        snprintf(line, ACP_LINE_MAX,
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/"
                "prompt\",\"params\":{\"sessionId\":\"s\",\"prompt\":[{\"type\":\"text\",\"text\":"
                "\"%s\"}]}}",
                text);
        rig_init(&rig);
        for (int i = 0; i < 4; i++)
                tell(&rig, line);
        expect_said(&rig, "");
        tell(&rig, line);
        expect_part(&rig, "too many requests wait");
        assert_int_equal(rig.agent.n_calls, 4);
        cancel(&rig, "s");
        assert_true(rig.agent.calls_size <= ACP_LINE_MAX);
        rig_deinit(&rig);
        free(text);
        free(line);
}

static void test_strange(void **state) {
        struct rig rig;

        rig_init(&rig);
        tell(&rig, "");
        tell(&rig, " \t\r");
        tell(&rig, "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}");
        assert_string_equal(rig.words, "an answer came, but nothing was asked");
        tell(&rig, "{\"jsonrpc\":\"2.0\",\"method\":\"session/new\",\"params\":{\"cwd\":\"/\"}}");
        assert_string_equal(rig.words, "the notification session/new means nothing here");
        tell(&rig, "{\"jsonrpc\":\"2.0\",\"method\":\"session/cancel\"}");
        assert_string_equal(rig.words, "session/cancel: sessionId is missing");
        expect_said(&rig, "");
        tell(&rig, "{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"session/nosuch\"}");
        expect_said(&rig, ERROR("q", -32601, "there is no method session/nosuch", ""));
        assert_int_equal(rig.n_connections, 0);
        rig_deinit(&rig);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_new),
                cmocka_unit_test(test_resume),
                cmocka_unit_test(test_fork),
                cmocka_unit_test(test_load),
                cmocka_unit_test(test_list),
                cmocka_unit_test(test_list_goes_on),
                cmocka_unit_test(test_prompt),
                cmocka_unit_test(test_first_prompt),
                cmocka_unit_test(test_not_kept),
                cmocka_unit_test(test_order),
                cmocka_unit_test(test_cancel),
                cmocka_unit_test(test_cancel_reply),
                cmocka_unit_test(test_close),
                cmocka_unit_test(test_delete),
                cmocka_unit_test(test_lost),
                cmocka_unit_test(test_bounds),
                cmocka_unit_test(test_size_bound),
                cmocka_unit_test(test_strange),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
