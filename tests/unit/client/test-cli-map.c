/* SPDX-License-Identifier: MIT */
/* map, as users run it, against a daemon played by this test. */
#include "cli-fixture.h"
#include <sys/stat.h>

/* Start with lines on a pipe that is closed, and let it look at the conversation and fork the base, which is 8. */
static void begin(struct fixture *f, const char *lines, const char *const *args) {
        start_given(f, args, lines);
        greet(f);
        peer_send_conversation(&f->peer, expect(f, REQ(GET)), 3, "doc");
        peer_send_conversation(&f->peer, expect(f, REQ(FORK)), 8, "chat-8");
}
#define BEGIN_MAP(f, lines, ...)                                                                   \
        begin((f), (lines), (const char *const[]){"map", "doc", __VA_ARGS__, NULL})

/* A question's fork is asked for: it is conversation @fork. */
static void send_fork(struct fixture *f, uint64_t fork) {
        struct proto_message *m = peer_next(&f->peer);

        assert_int_equal(m->request->verb_case, REQ(FORK));
        assert_int_equal(m->request->fork->conversation->id, 8);
        assert_int_equal(m->request->fork->about->expires_after, 120);
        peer_send_conversation(&f->peer, m->request->id, fork, "chat");
        proto_message_free(m);
}

static uint64_t expect_said(struct fixture *f, uint64_t fork, const char *text) {
        struct proto_message *m = peer_next(&f->peer);
        uint64_t id = m->request->id;

        assert_int_equal(m->request->verb_case, REQ(CONTINUE));
        assert_int_equal(m->request->continue_->conversation->id, fork);
        assert_string_equal(m->request->continue_->message, text);
        proto_message_free(m);
        return id;
}

static void expect_closed(struct fixture *f, uint64_t fork) {
        struct proto_message *m = peer_next(&f->peer);

        assert_non_null(m);
        assert_int_equal(m->request->verb_case, REQ(CLOSE));
        assert_int_equal(m->request->close->conversation->id, fork);
        peer_send_empty(&f->peer, m->request->id);
        proto_message_free(m);
}

static void answer(struct fixture *f, uint64_t id, const char *text) {
        peer_send_accepted(&f->peer, id);
        peer_send_delta(&f->peer, id, text);
        peer_send_done(&f->peer, id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
}

/* One question from its fork to its end. */
static void ask(struct fixture *f, uint64_t fork, const char *text, const char *reply) {
        send_fork(f, fork);
        answer(f, expect_said(f, fork, text), reply);
        expect_closed(f, fork);
}

/* Wait until the program has printed exactly @text more. */
static void expect_printed(struct fixture *f, const char *text) {
        char got[256];
        size_t n = 0;

        while (n < strlen(text)) {
                ssize_t k = read(f->out, got + n, sizeof(got) - 1 - n);

                assert_true(k > 0);
                n += (size_t)k;
        }
        got[n] = 0;
        assert_string_equal(got, text);
}

/* Results come in the order of the lines, whatever is done first; each as soon as it may. */
static void test_order(void **state) {
        struct fixture f;
        uint64_t one, three;

        setup(&f);
        BEGIN_MAP(&f, "one\n\ntwo\r\nthree", "--jobs", "2");
        send_fork(&f, 11);
        send_fork(&f, 12);
        one = expect_said(&f, 11, "one");
        answer(&f, expect_said(&f, 12, "two"), "2\nb\n");
        expect_closed(&f, 12);
        send_fork(&f, 13);
        three = expect_said(&f, 13, "three");
        answer(&f, one, "1");
        expect_closed(&f, 11);
        expect_printed(&f, "1\n\n2 b\n"); /* "three" is still to come */
        answer(&f, three, "3");
        expect_closed(&f, 13);
        expect_closed(&f, 8);
        finish(&f, 0, "3\n", NULL);
        teardown(&f);
}

/* What --verbose tells is of all replies together, and no part of the output. */
static void test_verbose(void **state) {
        struct fixture f;

        setup(&f);
        BEGIN_MAP(&f, "one\n", "--verbose");
        ask(&f, 11, "one", "1");
        expect_closed(&f, 8);
        finish(&f, 0, "1\n", "confab: 1 reply in ");
        BEGIN_MAP(&f, "one\n\ntwo\n", "--jobs", "1", "-v");
        ask(&f, 11, "one", "1");
        ask(&f, 12, "two", "2");
        expect_closed(&f, 8);
        finish(&f, 0, "1\n\n2\n", "; replies: 14 tokens");
        teardown(&f);
}

/* Lines that come late are asked when they come. */
static void test_slow_input(void **state) {
        struct fixture f;

        setup(&f);
        START(&f, "map", "doc");
        peer_init(&f.peer, accept4(f.listen_fd, NULL, NULL, SOCK_CLOEXEC));
        peer_hello(&f.peer);
        peer_send_conversation(&f.peer, expect(&f, REQ(GET)), 3, "doc");
        peer_send_conversation(&f.peer, expect(&f, REQ(FORK)), 8, "chat-8");
        give_input(&f, "first\nsec");
        ask(&f, 11, "first", "1");
        expect_printed(&f, "1\n");
        give_input(&f, "ond\n");
        ask(&f, 12, "second", "2");
        expect_printed(&f, "2\n");
        end_input(&f);
        expect_closed(&f, 8);
        finish(&f, 0, "", NULL);
        teardown(&f);
}

/* A failure has an empty line, and holds up nobody. */
static void test_failures(void **state) {
        struct fixture f;
        uint64_t a;

        setup(&f);
        BEGIN_MAP(&f, "a\nb\n", "--jobs", "1");
        send_fork(&f, 11);
        a = expect_said(&f, 11, "a");
        peer_send_error(&f.peer, a, "context_length_exceeded", "too long", false);
        expect_closed(&f, 11);
        ask(&f, 12, "b", "2");
        expect_closed(&f, 8);
        finish(&f, 5, "\n2\n", "confab: line 1: too long\nconfab: 1 of 2 lines failed\n");
        BEGIN_MAP(&f, "a\n", "--json");
        send_fork(&f, 11);
        a = expect_said(&f, 11, "a");
        peer_send_done(&f.peer, a, CONFAB__V1__FINISH_REASON__FINISH_CANCELLED);
        expect_closed(&f, 11);
        expect_closed(&f, 8);
        finish(&f, 1, NULL, "line 1: the reply was cancelled");
        assert_non_null(strstr(f.text, "\"error\":{\"code\":\"cancelled\","));
        teardown(&f);
}

/* What is busy or full is tried again: with the same fork, or, once it took the input, with a new one. */
static void test_tried_again(void **state) {
        struct fixture f;
        uint64_t id;

        setup(&f);
        BEGIN_MAP(&f, "a\n", "--jobs", "1");
        peer_send_error(&f.peer, expect(&f, REQ(FORK)), "limit", "too many", true);
        send_fork(&f, 11);
        peer_send_error(&f.peer, expect_said(&f, 11, "a"), "limit", "too many", true);
        id = expect_said(&f, 11, "a");
        peer_send_accepted(&f.peer, id);
        peer_send_delta(&f.peer, id, "half a");
        peer_send_error(&f.peer, id, "no_memory", "no memory now", true);
        expect_closed(&f, 11);
        ask(&f, 12, "a", "whole");
        expect_closed(&f, 8);
        finish(&f, 0, "whole\n", NULL);
        teardown(&f);
}

/* A Close that is refused is tried again: the fork of a question, and the base. */
static void test_close_again(void **state) {
        struct fixture f;

        setup(&f);
        BEGIN_MAP(&f, "a\n", "--jobs", "1");
        send_fork(&f, 11);
        answer(&f, expect_said(&f, 11, "a"), "yes");
        peer_send_error(&f.peer, expect(&f, REQ(CLOSE)), "limit", "too many", true);  /* 11 */
        peer_send_error(&f.peer, expect(&f, REQ(CLOSE)), "busy", "it is held", true); /* 8 */
        expect_closed(&f, 11);
        expect_closed(&f, 8);
        finish(&f, 0, "yes\n", NULL);
        teardown(&f);
}

/* The base is gone, since this program was stopped for long: the conversation is forked again. */
static void test_lost_base(void **state) {
        struct proto_message *m;
        struct fixture f;

        setup(&f);
        BEGIN_MAP(&f, "a\n", "--jobs", "1");
        peer_send_error(&f.peer, expect(&f, REQ(FORK)), "not_found", "no conversation", false);
        m = peer_next(&f.peer);
        assert_int_equal(m->request->verb_case, REQ(FORK));
        assert_int_equal(m->request->fork->conversation->id, 3);
        assert_true(m->request->fork->has_expect_revision);
        assert_int_equal(m->request->fork->expect_revision, 5);
        peer_send_conversation(&f.peer, m->request->id, 8, "chat-8");
        proto_message_free(m);
        ask(&f, 12, "a", "yes");
        expect_closed(&f, 8);
        finish(&f, 0, "yes\n", NULL);
        teardown(&f);
}

static void test_json(void **state) {
        struct fixture f;

        setup(&f);
        BEGIN_MAP(&f, "{\"id\":\"x\",\"word\":\"cat\"}\n{\"id\":[1]}\nno\n", "--json",
                "--json-lines", "--template", "What is a {word}? {{}}", "--seed", "7");
        ask(&f, 11, "What is a cat? {}", "an\nanimal");
        expect_closed(&f, 8);
        finish(&f, 1, NULL,
                "line 2: the object has no member \"word\"\nconfab: line 3: column 1: ");
        assert_non_null(strstr(f.text, "{\"index\":0,\"input\":\""));
        assert_non_null(
                strstr(f.text, "\"id\":\"x\",\"text\":\"an\\nanimal\",\"finish\":\"stop\""));
        assert_non_null(
                strstr(f.text, "\n{\"index\":1,\"id\":[1],\"error\":{\"code\":\"invalid\","));
        assert_non_null(strstr(f.text, "\n{\"index\":2,\"error\":{\"code\":\"invalid\","));
        teardown(&f);
}

/* ---- resume ---- */

static size_t size_of(const char *path) {
        struct stat st;

        assert_int_equal(stat(path, &st), 0);
        return (size_t)st.st_size;
}

static void test_resume(void **state) {
        char path[] = "/tmp/test-cli-map-XXXXXX";
        int fd = mkstemp(path);
        struct fixture f;
        size_t whole;
        uint64_t a;

        assert_true(fd >= 0);
        setup(&f);
        /* the second line is answered, and recorded, before the first one; then the daemon ends */
        BEGIN_MAP(&f, "a\nb\n", "--jobs", "2", "--resume", path);
        send_fork(&f, 11);
        send_fork(&f, 12);
        a = expect_said(&f, 11, "a");
        answer(&f, expect_said(&f, 12, "b"), "2");
        expect_closed(&f, 12);
        peer_send_error(&f.peer, a, "shutdown", "the daemon is stopping", true);
        peer_deinit(&f.peer);
        f.peer.fd = -1;
        finish(&f, 6, "", "the same command goes on");
        whole = size_of(path);
        assert_true(whole > 50);
        /* half a line, as kill -9 leaves it */
        assert_int_equal(lseek(fd, 0, SEEK_END), (off_t)whole);
        assert_int_equal(write(fd, "{\"index\":0,\"inp", 15), 15);
        BEGIN_MAP(&f, "a\nb\n", "--resume", path);
        ask(&f, 13, "a", "1");
        expect_closed(&f, 8);
        finish(&f, 0, "1\n2\n", NULL);
        /* all is known; a line that has changed is asked again */
        BEGIN_MAP(&f, "a\nB\n", "--resume", path);
        ask(&f, 14, "B", "two");
        expect_closed(&f, 8);
        finish(&f, 0, "1\ntwo\n", NULL);
        BEGIN_MAP(&f, "a\nb\n", "--resume", path, "--json");
        expect_closed(&f, 8);
        finish(&f, 0, NULL, NULL);
        assert_non_null(strstr(f.text, "\"text\":\"1\""));
        assert_non_null(strstr(f.text, "\n{\"index\":1,"));
        assert_non_null(strstr(f.text, "\"text\":\"2\""));
        /* other options: other answers */
        BEGIN_MAP(&f, "a\n", "--resume", path, "--temperature", "0");
        ask(&f, 15, "a", "cold");
        expect_closed(&f, 8);
        finish(&f, 0, "cold\n", NULL);
        close(fd);
        unlink(path);
        teardown(&f);
}

static void test_no_record(void **state) {
        char path[] = "/tmp/test-cli-map-XXXXXX";
        int fd = mkstemp(path);
        struct fixture f;

        assert_true(fd >= 0);
        assert_int_equal(write(fd, "my notes\n", 9), 9);
        setup(&f);
        START(&f, "map", "doc", "--resume", path);
        finish(&f, 1, "", "is no record of a map: line 1");
        assert_int_equal(size_of(path), 9);
        assert_int_equal(ftruncate(fd, 8), 0); /* no newline */
        START(&f, "map", "doc", "--resume", path);
        finish(&f, 1, "", "is no record of a map");
        assert_int_equal(size_of(path), 8);
        close(fd);
        unlink(path);
        teardown(&f);
}

/* ---- ends ---- */

static void test_interrupted(void **state) {
        struct fixture f;
        uint64_t two, three;

        setup(&f);
        BEGIN_MAP(&f, "one\ntwo\nthree\nfour\n", "--jobs", "2");
        send_fork(&f, 11);
        send_fork(&f, 12);
        answer(&f, expect_said(&f, 11, "one"), "1");
        two = expect_said(&f, 12, "two");
        expect_closed(&f, 11);
        three = expect(&f, REQ(FORK));
        expect_printed(&f, "1\n");
        kill(f.pid, SIGINT);
        peer_send_empty(&f.peer, peer_expect(&f.peer, REQ(CANCEL))); /* of "two" */
        peer_send_conversation(&f.peer, three, 13, "chat"); /* what a Fork made is closed, too */
        expect_closed(&f, 13);
        peer_send_done(&f.peer, two, CONFAB__V1__FINISH_REASON__FINISH_CANCELLED);
        expect_closed(&f, 12);
        expect_closed(&f, 8); /* the last one: while it is forked it is busy */
        finish(&f, 130, "", NULL);
        teardown(&f);
}

/* Nobody reads: all is closed, and not a word. */
static void test_broken_pipe(void **state) {
        struct fixture f;
        uint64_t two;

        setup(&f);
        BEGIN_MAP(&f, "one\ntwo\n", "--jobs", "1");
        close(f.out);
        f.out = open("/dev/null", O_RDONLY | O_CLOEXEC);
        ask(&f, 11, "one", "1");
        two = expect(&f, REQ(FORK));
        peer_send_conversation(&f.peer, two, 12, "chat");
        expect_closed(&f, 12);
        expect_closed(&f, 8);
        finish(&f, 141, "", NULL);
        teardown(&f);
}

static void test_usage(void **state) {
        struct fixture f;

        setup(&f);
        START(&f, "map", "doc", "--jobs", "0");
        finish(&f, 2, "", "--jobs: '0' is not a number from 1 to 256");
        START(&f, "map", "doc", "--jobs", "257");
        finish(&f, 2, "", "257");
        BEGIN_MAP(&f, "", "/does/not/exist");
        expect_closed(&f, 8);
        finish(&f, 1, "", "/does/not/exist");
        teardown(&f);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_order),
                cmocka_unit_test(test_verbose),
                cmocka_unit_test(test_slow_input),
                cmocka_unit_test(test_failures),
                cmocka_unit_test(test_tried_again),
                cmocka_unit_test(test_close_again),
                cmocka_unit_test(test_lost_base),
                cmocka_unit_test(test_json),
                cmocka_unit_test(test_resume),
                cmocka_unit_test(test_no_record),
                cmocka_unit_test(test_interrupted),
                cmocka_unit_test(test_broken_pipe),
                cmocka_unit_test(test_usage),
        };

        if (argc != 2) {
                fprintf(stderr, "usage: test-cli-map PROGRAM\n");
                return 2;
        }
        program = argv[1];
        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
