/* SPDX-License-Identifier: MIT */
/* watch: notices as lines, names that follow, a daemon that goes away. */
#include "list-fixture.h"

struct news {
        Confab__V1__NoticeKind kind;
        uint64_t id, parent;
        const char *cursor, *model;
        Confab__V1__FinishReason finish;
        const char *tenant;
};
#define KIND(name) CONFAB__V1__NOTICE_KIND__NOTICE_##name

static void send_notice(struct fixture *f, uint64_t request, const struct news *news) {
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
        Confab__V1__Notice n = CONFAB__V1__NOTICE__INIT;

        event.has_request = n.has_kind = n.has_conversation = n.has_parent = n.has_finish = true;
        event.request = request;
        event.kind_case = CONFAB__V1__EVENT__KIND_NOTICE;
        event.notice = &n;
        n.kind = news->kind;
        n.conversation = news->id;
        n.parent = news->parent;
        n.cursor = proto_borrow(news->cursor);
        n.model = proto_borrow(news->model);
        n.finish = news->finish;
        n.tenant = proto_borrow(news->tenant);
        n.has_uid = true; /* 4294967294, which is nobody's name */
        n.uid = UINT32_MAX - 1;
        peer_send(&f->peer, &event);
}

static const struct news model = {.kind = KIND(MODEL), .model = "tiny", .cursor = "m"};

/* A Watch from behind @cursor (NULL: from now on), answered by its first notice. Its request. */
static uint64_t begin_watch(struct fixture *f, const char *cursor) {
        _cleanup_(proto_message_freep) struct proto_message *m = peer_next(&f->peer);

        assert_non_null(m);
        assert_int_equal(m->request->verb_case, REQ(WATCH));
        if (cursor)
                assert_string_equal(m->request->watch->cursor, cursor);
        else
                assert_null(m->request->watch->cursor);
        send_notice(f, m->request->id, &model);
        return m->request->id;
}

static void serve_list(struct fixture *f, uint64_t after, const struct conv *convs, size_t n) {
        _cleanup_(proto_message_freep) struct proto_message *m = peer_next(&f->peer);

        assert_non_null(m);
        assert_int_equal(m->request->verb_case, REQ(LIST));
        assert_int_equal(m->request->list->after_id, after);
        send_convs(f, m->request->id, convs, n, false, NULL);
}

/* Without the times. */
static void check_lines(struct fixture *f, const char *want) {
        struct buf b = BUF_NULL;
        char *rest = f->text;

        for (char *line; (line = strsep(&rest, "\n")) && *line;) {
                assert_true(strlen(line) > 21);
                assert_int_equal(buf_printf(&b, "%s\n", line + 21), 0);
        }
        assert_string_equal((char *)b.data, want);
        buf_deinit(&b);
}

static void test_lines(void **state) {
        static const struct conv alice = {.id = 3, .name = "alice"}, bob = {.id = 9, .name = "bob"},
                                 carl = {.id = 3, .name = "carl"};
        struct fixture f;
        uint64_t w;

        BEGIN(&f, "watch");
        w = begin_watch(&f, NULL);
        serve_list(&f, 0, &alice, 1);
        send_notice(&f, w, &(struct news){.kind = KIND(TURN_BEGUN), .id = 3});
        send_notice(&f, w,
                &(struct news){.kind = KIND(TURN_ENDED),
                        .id = 3,
                        .finish = CONFAB__V1__FINISH_REASON__FINISH_STOP});
        send_notice(&f, w, &(struct news){.kind = KIND(TURN_ENDED), .id = 3});
        send_notice(&f, w, &(struct news){.kind = KIND(FORKED), .id = 9, .parent = 3});
        serve_list(&f, 8, &bob, 1);
        send_notice(&f, w, &(struct news){.kind = KIND(CHANGED), .id = 3});
        serve_list(&f, 2, &carl, 1);
        send_notice(&f, w, &(struct news){.kind = KIND(EVICTED), .id = 3});
        send_notice(&f, w, &(struct news){.kind = KIND(CLOSED), .id = 9});
        send_notice(
                &f, w, &(struct news){.kind = KIND(CLOSED), .id = 5}); /* nobody knows its name */
        serve_list(&f, 4, &bob, 1);
        send_notice(&f, w, &(struct news){.kind = KIND(LIST_AGAIN)});
        serve_list(&f, 0, &carl, 1);
        peer_send_error(&f.peer, w, "limit", "too many watches", true);
        finish(&f, 5, NULL, "too many watches");
        check_lines(&f, "model      tiny\n"
                        "turn_begun alice (#3)\n"
                        "turn_ended alice (#3): stop\n"
                        "turn_ended alice (#3): it failed\n"
                        "forked     bob (#9) from alice (#3)\n"
                        "changed    carl (#3)\n"
                        "evicted    carl (#3)\n"
                        "closed     bob (#9)\n"
                        "closed     (#5)\n"
                        "list_again some notices are lost: 'confab ls' shows how things are\n");
        teardown(&f);
}

/* Of all users: whose it is. */
static void test_owners(void **state) {
        static const struct conv alice = {.id = 3, .name = "alice"};
        struct fixture f;
        uint64_t w;

        BEGIN(&f, "watch", "--all");
        w = begin_watch(&f, NULL);
        serve_list(&f, 0, &alice, 1);
        send_notice(&f, w, &(struct news){.kind = KIND(EVICTED), .id = 3, .tenant = "anna"});
        send_notice(&f, w, &(struct news){.kind = KIND(CLOSED), .id = 3});
        peer_send_error(&f.peer, w, "limit", "too many watches", true);
        finish(&f, 5, NULL, "too many watches");
        check_lines(&f, "model      tiny\n"
                        "evicted    alice (#3) of 4294967294/anna\n"
                        "closed     alice (#3) of 4294967294\n");
        teardown(&f);
}

/* One conversation, as JSON, until it is closed. */
static void test_one(void **state) {
        static const struct conv alice = {.id = 3, .name = "alice"};
        struct fixture f;
        uint64_t w;

        BEGIN(&f, "watch", "alice", "--json", "--since", "here");
        send_conv(&f, expect(&f, REQ(GET)), &alice);
        w = begin_watch(&f, "here");
        send_notice(&f, w, &(struct news){.kind = KIND(OPENED), .id = 4, .cursor = "x"});
        send_notice(
                &f, w, &(struct news){.kind = KIND(FORKED), .id = 5, .parent = 3, .cursor = "y"});
        send_notice(&f, w, &(struct news){.kind = KIND(CLOSED), .id = 4, .cursor = "z"});
        send_notice(&f, w, &(struct news){.kind = KIND(CLOSED), .id = 3, .cursor = "end"});
        finish(&f, 0, NULL, NULL);
        assert_null(strstr(f.text, "\"conversation\":4"));
        assert_non_null(strstr(f.text, "\"kind\":\"forked\",\"cursor\":\"y\",\"conversation\":5,"));
        assert_non_null(
                strstr(f.text, "\"kind\":\"closed\",\"cursor\":\"end\",\"conversation\":3"));
        teardown(&f);
}

/* The daemon ends twice, in either way; the watch goes on behind the last notice. */
static void test_reconnect(void **state) {
        static const struct conv alice = {.id = 3, .name = "alice"};
        struct fixture f;
        uint64_t w;

        BEGIN(&f, "watch", "alice", "--json");
        send_conv(&f, expect(&f, REQ(GET)), &alice);
        w = begin_watch(&f, NULL);
        send_notice(&f, w, &(struct news){.kind = KIND(EVICTED), .id = 3, .cursor = "first"});
        peer_send_error(&f.peer, w, "shutdown", "the daemon is stopping", true);
        greet(&f);
        begin_watch(&f, "first");
        greet(&f); /* which hangs up, before there was another notice */
        w = begin_watch(&f, "m");
        send_notice(&f, w, &(struct news){.kind = KIND(LIST_AGAIN), .cursor = "lost"});
        peer_send_error(&f.peer, expect(&f, REQ(GET)), "not_found", "no conversation", false);
        finish(&f, 0, NULL,
                "confab: the daemon is gone (the daemon is stopping); waiting until it is back\n");
        assert_non_null(strstr(f.text, "\"kind\":\"list_again\""));
        teardown(&f);
}

/* Who never was there is not waited for; nor is a request that is refused made again. */
static void test_refused(void **state) {
        struct fixture f;

        setup(&f);
        START(&f, "watch", "--socket", "/nonexistent/s");
        finish(&f, 6, "", "/nonexistent/s");
        START(&f, "watch", "--all");
        greet(&f);
        peer_send_error(&f.peer, expect(&f, REQ(WATCH)), "permission", "for root", false);
        finish(&f, 1, "", "for root");
        teardown(&f);
}

/* A reader that is gone is seen while nothing happens. */
static void test_broken_pipe(void **state) {
        static const struct conv alice = {.id = 3, .name = "alice"};
        struct fixture f;
        int w;

        BEGIN(&f, "watch");
        begin_watch(&f, NULL);
        serve_list(&f, 0, &alice, 1);
        close(f.out);
        assert_int_equal(waitpid(f.pid, &w, 0), f.pid);
        assert_true(WIFEXITED(w) && WEXITSTATUS(w) == 141);
        close(f.err);
        teardown(&f);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_lines),
                cmocka_unit_test(test_owners),
                cmocka_unit_test(test_one),
                cmocka_unit_test(test_reconnect),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_broken_pipe),
        };

        if (argc != 2) {
                fprintf(stderr, "usage: test-cli-watch PROGRAM\n");
                return 2;
        }
        program = argv[1];
        test_now = clock_realtime_usec();
        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
