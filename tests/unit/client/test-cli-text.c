/* SPDX-License-Identifier: MIT */
/* The text that say, edit and tokenize send: their TEXT, standard input, or both. */
#include "cli-fixture.h"
#include <poll.h>
#include <sys/mman.h>

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void check_input(const char *const *args, const char *input, const char *message) {
        struct proto_message *m;
        struct fixture f;

        setup(&f);
        start_given(&f, args, input);
        greet(&f);
        m = peer_next(&f.peer);
        assert_int_equal(m->request->verb_case, REQ(CONTINUE));
        if (m->request->continue_->input_case == CONFAB__V1__CONTINUE__INPUT_RAW) {
                assert_int_equal(m->request->continue_->raw.len, strlen(message));
                assert_memory_equal(m->request->continue_->raw.data, message, strlen(message));
        } else {
                assert_string_equal(m->request->continue_->message, message);
        }
        peer_send_done(&f.peer, m->request->id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
        proto_message_free(m);
        finish(&f, 0, "", NULL);
        teardown(&f);
}

static void test_input(void **state) {
        check_input((const char *const[]){"say", "a", NULL}, "one\ntwo\n", "one\ntwo");
        check_input((const char *const[]){"say", "a", "-", NULL}, "one\n\n", "one\n");
        check_input((const char *const[]){"say", "a", "-", "--raw", NULL}, "one\n", "one\n");
}

/* Standard input and TEXT together; a TEXT alone where standard input has nothing. */
static void test_joined(void **state) {
        check_input(
                ARGS("say", "a", "Summarise this:"), "one\ntwo\n", "one\ntwo\n\nSummarise this:");
        check_input(ARGS("say", "a", "text"), "one", "one\n\ntext");
        check_input(ARGS("say", "a", "text"), "", "text");
        check_input(ARGS("say", "a", "--raw", "text\n"), "one\n", "one\n\ntext\n");
        check_input(ARGS("say", "a", "-n", "text"), "kept", "text");
        check_input(ARGS("say", "--no-stdin", "a", "text"), "kept", "text");
        check_input(ARGS("say", "a", "-n", "--", "-text"), "kept", "-text");
}

/* An end of a pipe that nobody writes to: the wait is told, and what comes then is taken. */
static void test_patience(void **state) {
        char line[256] = "";
        struct proto_message *m;
        struct fixture f;

        setup(&f);
        START(&f, "say", "a", "text");
        assert_true(read(f.err, line, sizeof(line) - 1) > 0);
        assert_non_null(strstr(line, "waiting for standard input"));
        give_input(&f, "late\n");
        greet(&f);
        m = peer_next(&f.peer);
        assert_string_equal(m->request->continue_->message, "late\n\ntext");
        peer_send_done(&f.peer, m->request->id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
        proto_message_free(m);
        finish(&f, 0, "", NULL);
        teardown(&f);
}

/* Nothing is sent, the status is that of wrong usage. */
static void check_refused(const char *const *args, const char *input, const char *why) {
        struct fixture f;

        setup(&f);
        start_given(&f, args, input);
        finish(&f, 2, "", why);
        assert_int_equal(poll(&(struct pollfd){f.listen_fd, POLLIN, 0}, 1, 0), 0);
        teardown(&f);
}

static void test_empty(void **state) {
        check_refused(ARGS("say", "a"), "", "standard input is empty");
        check_refused(ARGS("say", "a", "-"), "\n", "standard input is empty");
        check_refused(ARGS("say", "a", ""), "kept", "the text is empty");
        check_refused(ARGS("say", "a", " \t\n"), "kept", "the text is empty");
        check_refused(ARGS("say", "a", "-"), " \n\n", "standard input is empty");
        check_refused(ARGS("say", "a", "--raw"), "", "standard input is empty");
        check_refused(ARGS("say", "a", "--raw", ""), "", "the text is empty");
        check_refused(ARGS("edit", "a", "0"), "", "standard input is empty");
        check_refused(ARGS("edit", "a", "0", ""), "kept", "the text is empty");
        check_refused(ARGS("say", "a", "-n"), "kept", "no text given");
        check_refused(ARGS("say", "a", "-n", "-"), "kept", "exclude each other");
        check_refused(ARGS("ls", "-n"), "", "unknown option -n");
        check_refused(ARGS("say", "a", "b", "-nx"), "", "unknown option -x in -nx");
}

/* As @args with a file as standard input, of which @skip bytes were read before. */
static void start_on_file(
        struct fixture *f, const char *const *args, const char *text, size_t skip) {
        int fd = memfd_create("input", MFD_CLOEXEC);

        assert_int_equal(write(fd, text, strlen(text)), strlen(text));
        assert_int_equal(lseek(fd, (off_t)skip, SEEK_SET), skip);
        start_with_input(f, args, fd);
        close(fd);
}

static void check_file(const char *const *args, const char *text, size_t skip, const char *said) {
        struct proto_message *m;
        struct fixture f;

        setup(&f);
        start_on_file(&f, args, text, skip);
        greet(&f);
        m = peer_next(&f.peer);
        assert_string_equal(m->request->continue_->message, said);
        peer_send_done(&f.peer, m->request->id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
        proto_message_free(m);
        finish(&f, 0, "", NULL);
        teardown(&f);
}

/* A file that a loop around the program reads from is the loop's. */
static void test_file(void **state) {
        struct fixture f;

        check_file(ARGS("say", "a", "text"), "one\ntwo\n", 0, "one\ntwo\n\ntext");
        check_file(ARGS("say", "a", "text"), "one\ntwo\n", 8, "text"); /* all of it was read */
        check_file(ARGS("say", "a", "text"), "", 0, "text");
        check_file(ARGS("say", "a", "-"), "one\ntwo\n", 4, "two");
        check_file(ARGS("say", "a", "-n", "text"), "one\ntwo\n", 4, "text");
        setup(&f);
        start_on_file(&f, ARGS("say", "a", "text"), "one\ntwo\n", 4);
        finish(&f, 2, "", "-n leaves it alone");
        assert_int_equal(poll(&(struct pollfd){f.listen_fd, POLLIN, 0}, 1, 0), 0);
        teardown(&f);
}

/* ---- @FILE ---- */

/* A file with @text, in the fixture's folder: "@" and its path. */
static void make_file(struct fixture *f, char at[128], const char *name, const char *text) {
        int fd;

        snprintf(at, 128, "@%s/%s", f->dir, name);
        fd = open(at + 1, O_CREAT | O_WRONLY | O_CLOEXEC | O_EXCL, 0600);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), strlen(text));
        close(fd);
}

/* What is said, with @input to read first. */
static void said(struct fixture *f, const char *const *args, const char *input, const char *want) {
        struct proto_message *m;

        start_given(f, args, input);
        greet(f);
        m = peer_next(&f->peer);
        assert_non_null(m);
        if (m->request->continue_->input_case == CONFAB__V1__CONTINUE__INPUT_RAW) {
                assert_int_equal(m->request->continue_->raw.len, strlen(want));
                assert_memory_equal(m->request->continue_->raw.data, want, strlen(want));
        } else {
                assert_string_equal(m->request->continue_->message, want);
        }
        peer_send_done(&f->peer, m->request->id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
        proto_message_free(m);
        finish(f, 0, "", NULL);
}

static void test_at_file(void **state) {
        char file[128], spaces[128], empty[128];
        struct fixture f;

        setup(&f);
        make_file(&f, file, "file", "one\ntwo\n\n");
        make_file(&f, spaces, "@a name", "three");
        make_file(&f, empty, "empty", " \n");
        said(&f, ARGS("say", "a", file), "", "one\ntwo\n"); /* without the last newline */
        said(&f, ARGS("say", "a", file, "--raw"), "", "one\ntwo\n\n");
        said(&f, ARGS("say", "a", spaces), "zero\n", "zero\n\nthree");
        said(&f, ARGS("say", "-n", "a", "--", file), "", file);
        said(&f, ARGS("say", "a", "@@bob, hi"), "", "@bob, hi");
        said(&f, ARGS("say", "a", "@@@"), "", "@@");
        said(&f, ARGS("say", "a", "--", "@@bob"), "", "@@bob");
        said(&f, ARGS("say", "--", "a", "@bob hi"), "", "@bob hi");
        said(&f, ARGS("say", "a", "hi @bob"), "", "hi @bob");
        said(&f, ARGS("say", "a"), "@bob", "@bob"); /* standard input is not looked into */
        /* whoever says this to the model is told how, before standard input is waited for */
        START(&f, "say", "a", "@bob hi");
        assert_int_equal(poll(&(struct pollfd){f.err, POLLIN, 0}, 1, -1), 1);
        finish(&f, 1, "",
                "confab: cannot read 'bob hi': No such file or directory (a text that begins with "
                "@ names a file; write @@ for an @ that is said)\n");
        START(&f, "say", "a", "@/");
        finish(&f, 1, "", "cannot read '/': Is a directory");
        START(&f, "say", "a", "@");
        finish(&f, 1, "", "cannot read ''");
        START(&f, "say", "a", empty);
        finish(&f, 2, "", "is empty: there is no text");
        unlink(file + 1);
        unlink(spaces + 1);
        unlink(empty + 1);
        teardown(&f);
}

static void start_with_nul(struct fixture *f) {
        int in[2];

        assert_int_equal(pipe2(in, O_CLOEXEC), 0);
        assert_int_equal(write(in[1], "a\0b", 3), 3);
        close(in[1]);
        start_with_input(f, ARGS("open", "--system", "-"), in[0]);
        close(in[0]);
}

/* The system message of Open. */
static void check_system(
        struct fixture *f, const char *value, const char *input, const char *want) {
        struct proto_message *m;

        start_given(f, ARGS("open", "a", "--system", value), input);
        greet(f);
        m = peer_next(&f->peer);
        assert_string_equal(m->request->open->system, want);
        peer_send_conversation(&f->peer, m->request->id, 3, "a");
        proto_message_free(m);
        finish(f, 0, "a\n", NULL);
}

static void test_option(void **state) {
        char file[128];
        struct fixture f;

        setup(&f);
        make_file(&f, file, "file", "You are brief.\n");
        check_system(&f, "plain", "unread", "plain");
        check_system(&f, file, "unread", "You are brief.");
        check_system(&f, "@@x", "unread", "@x");
        check_system(&f, "-", "from input\n\n", "from input\n");
        check_system(&f, "", "unread", "");
        START(&f, "open", "--system", "@nothing");
        finish(&f, 1, "", "cannot read 'nothing'");
        START(&f, "open", "--system", "@/dev/zero"); /* no end, but a limit */
        finish(&f, 5, "", "the text is longer than");
        START(&f, "acp", "--system", "-");
        finish(&f, 2, "", "--system -: standard input is for the editor; name a file as @FILE");
        start_with_nul(&f);
        finish(&f, 1, "", "--system: the text has a NUL byte");
        unlink(file + 1);
        teardown(&f);
}

static void test_null_device(void **state) {
        struct proto_message *m;
        struct fixture f;
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

        setup(&f);
        start_with_input(&f, ARGS("say", "a", "text"), fd);
        greet(&f);
        m = peer_next(&f.peer);
        assert_string_equal(m->request->continue_->message, "text");
        peer_send_done(&f.peer, m->request->id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
        proto_message_free(m);
        finish(&f, 0, "", NULL);
        start_with_input(&f, ARGS("edit", "a", "0"), fd);
        finish(&f, 2, "", "standard input is empty");
        close(fd);
        teardown(&f);
}

/* Programs that asked for JSON get it for their own mistakes, too. */
static void test_json(void **state) {
        struct fixture f;

        setup(&f);
        START(&f, "say", "a", "--loud", "--json");
        finish(&f, 2, NULL, "unknown option --loud");
        assert_string_equal(f.text, "{\"event\":\"error\",\"code\":\"usage\",\"message\":\"unknown "
                                    "option --loud\",\"retry\":false}\n");
        START(&f, "--json", "say", "a", "");
        finish(&f, 2, NULL, "the text is empty");
        assert_non_null(strstr(f.text, "\"code\":\"usage\",\"message\":\"the text is empty\""));
        START(&f, "export", "--json"); /* what it prints is taken for an export */
        finish(&f, 2, "", "needs more arguments");
        START(&f, "say", "--stop", "--json", "a", "");
        finish(&f, 2, "", "the text is empty");
        teardown(&f);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_input),
                cmocka_unit_test(test_joined),
                cmocka_unit_test(test_patience),
                cmocka_unit_test(test_empty),
                cmocka_unit_test(test_file),
                cmocka_unit_test(test_at_file),
                cmocka_unit_test(test_option),
                cmocka_unit_test(test_null_device),
                cmocka_unit_test(test_json),
        };

        if (argc != 2) {
                fprintf(stderr, "usage: test-cli-text PROGRAM\n");
                return 2;
        }
        program = argv[1];
        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
