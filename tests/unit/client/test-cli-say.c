/* SPDX-License-Identifier: MIT */
/* say and chat, as users run them, against a daemon played by this test. */
#include "cli-fixture.h"
#include "util/terminal.h"
#include <pty.h>
#include <sys/ioctl.h>

/* ---- say ---- */

static void reply(struct fixture *f, uint64_t id, const char *a, const char *b) {
        peer_send_accepted(&f->peer, id);
        peer_send_progress(&f->peer, id, 10, 10);
        peer_send_delta(&f->peer, id, a);
        peer_send_delta(&f->peer, id, b);
        peer_send_done(&f->peer, id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
}

static void check_say(const char *a, const char *b, const char *expected) {
        struct fixture f;

        BEGIN(&f, "say", "alice", "hello");
        reply(&f, expect(&f, REQ(CONTINUE)), a, b);
        finish(&f, 0, expected, NULL);
        teardown(&f);
}

static void test_say(void **state) {
        check_say("Hi ", "there", "Hi there\n");
        check_say("Hi ", "there\n", "Hi there\n");
        check_say("", "", "");
        check_say("\x1b[2J", "\x07", "\x1b[2J\x07\n"); /* raw into a pipe */
}

static void test_say_request(void **state) {
        const Confab__V1__Continue *c;
        struct proto_message *m;
        struct fixture f;

        BEGIN(&f, "say", "#12", "--raw", "--max-tokens=5", "--temperature", "0", "--stop", "a",
                "--stop", "b", "--logit-bias", "7=-inf", "--logit-bias=8=2", "--seed", "9",
                "--expect-revision", "0", "--logprobs", "0", "--ignore-eos", "--wait", "--",
                "-text");
        m = peer_next(&f.peer);
        assert_int_equal(m->request->verb_case, REQ(CONTINUE));
        c = m->request->continue_;
        assert_int_equal(c->conversation->id, 12);
        assert_int_equal(c->input_case, CONFAB__V1__CONTINUE__INPUT_RAW);
        assert_int_equal(c->raw.len, 5);
        assert_memory_equal(c->raw.data, "-text", 5);
        assert_true(c->has_max_tokens && c->max_tokens == 5);
        assert_true(c->sampling->has_temperature && c->sampling->temperature == 0);
        assert_false(c->sampling->has_top_k);
        assert_int_equal(c->n_stop, 2);
        assert_string_equal(c->stop[0], "a");
        assert_int_equal(c->sampling->n_logit_bias, 2);
        assert_int_equal(c->sampling->logit_bias[0]->token, 7);
        assert_true(c->sampling->logit_bias[0]->bias < -1e30f);
        assert_true(c->sampling->seed == 9);
        assert_true(c->has_expect_revision && c->expect_revision == 0);
        assert_true(c->want_logprobs && !c->logprobs && c->ignore_eos && !c->detach && c->wait);
        peer_send_error(&f.peer, m->request->id, "conflict", "it is at revision 5", false);
        proto_message_free(m);
        finish(&f, 4, "", "confab: it is at revision 5\n");
        teardown(&f);
}

static void test_say_constraint(void **state) {
        static const struct {
                const char *option, *text;
                Confab__V1__Continue__ConstraintCase kind;
        } cases[] = {
                {"--json-schema", "{\"type\": \"object\"}\n",
                        CONFAB__V1__CONTINUE__CONSTRAINT_JSON_SCHEMA},
                {"--grammar", "root ::= \"a\"\n", CONFAB__V1__CONTINUE__CONSTRAINT_GBNF},
        };
        for (size_t i = 0; i < 2; i++) {
                char path[] = "/tmp/test-cli-say-XXXXXX";
                const Confab__V1__Continue *c;
                struct proto_message *m;
                struct fixture f;
                int fd = mkstemp(path);

                assert_true(fd >= 0);
                assert_int_equal(
                        write(fd, cases[i].text, strlen(cases[i].text)), strlen(cases[i].text));
                close(fd);
                BEGIN(&f, "say", "a", "hello", cases[i].option, path);
                m = peer_next(&f.peer);
                c = m->request->continue_;
                assert_int_equal(c->constraint_case, cases[i].kind);
                assert_string_equal(i ? c->gbnf : c->json_schema, cases[i].text);
                reply(&f, m->request->id, "a", "");
                proto_message_free(m);
                finish(&f, 0, "a\n", NULL);
                teardown(&f);
                unlink(path);
        }
}

static void check_constraint_fails(
        int status, const char *option, const char *path, const char *option2, const char *why) {
        struct fixture f;

        setup(&f);
        START(&f, "say", "a", "hello", option, path, option2, path);
        finish(&f, status, "", why);
        teardown(&f);
}

static void test_say_bad_constraint(void **state) {
        check_constraint_fails(1, "--json-schema", "/does/not/exist", "--stop", "/does/not/exist");
        check_constraint_fails(2, "--json-schema", "-", "--stop", "name a file");
        check_constraint_fails(2, "--json-schema", "x", "--grammar", "exclude each other");
}

static void test_say_bad_input(void **state) {
        struct fixture f;

        setup(&f);
        START(&f, "say", "a", "caf\xe9");
        finish(&f, 1, "", "not valid UTF-8");
        teardown(&f);
}

static void test_say_json(void **state) {
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
        Confab__V1__Delta delta = CONFAB__V1__DELTA__INIT;
        Confab__V1__DeltaToken token = CONFAB__V1__DELTA_TOKEN__INIT, *tokens[] = {&token};
        Confab__V1__TokenLogprob top1 = CONFAB__V1__TOKEN_LOGPROB__INIT, *top[] = {&top1};
        struct fixture f;
        uint64_t id;

        BEGIN(&f, "say", "--json", "a", "b", "--logprobs", "1");
        id = expect(&f, REQ(CONTINUE));
        event.has_request = true;
        event.request = id;
        event.kind_case = CONFAB__V1__EVENT__KIND_DELTA;
        event.delta = &delta;
        delta.text = proto_borrow("\"\xc3\xa9\n");
        delta.tokens = tokens;
        delta.n_tokens = 1;
        token.has_token = token.has_logprob = true;
        token.token = 5;
        token.logprob = -0.1f;
        token.has_text = true;
        token.text = (ProtobufCBinaryData){1, proto_borrow("\xc3")};
        token.top = top;
        token.n_top = 1;
        top1.has_token = top1.has_logprob = top1.has_text = true;
        top1.token = 6;
        top1.logprob = -1.0f / 3;
        top1.text = (ProtobufCBinaryData){1, proto_borrow("\xff")};
        peer_send_accepted(&f.peer, id);
        peer_send_progress(&f.peer, id, 1, 2);
        peer_send(&f.peer, &event);
        peer_send_done(&f.peer, id, CONFAB__V1__FINISH_REASON__FINISH_STOP_STRING);
        finish(&f, 0,
                "{\"event\":\"accepted\",\"conversation\":3,\"revision\":5,\"n_prompt\":130,"
                "\"n_ram\":96,\"n_disk\":16,\"n_shared\":8,\"n_computed\":10,\"differs_at\":120,"
                "\"differs_why\":\"token\"}\n"
                "{\"event\":\"progress\",\"done\":1,\"total\":2}\n"
                "{\"event\":\"delta\",\"text\":\"\\\"\xc3\xa9\\n\",\"tokens\":[{\"token\":5,"
                "\"logprob\":-0.1,\"text\":\"\xef\xbf\xbd\",\"hex\":\"c3\",\"top\":[{\"token\":6,"
                "\"logprob\":-0.33333334,"
                "\"text\":\"\xef\xbf\xbd\",\"hex\":\"ff\"}]}]}\n"
                "{\"event\":\"done\",\"finish\":\"stop_string\",\"revision\":6,\"n_prompt\":0,"
                "\"n_generated\":7,\"n_ram\":0,\"n_disk\":0,\"n_shared\":0,\"n_computed\":0,"
                "\"differs_at\":0,\"differs_why\":\"none\",\"queued_usec\":0,"
                "\"restore_usec\":0,\"prefill_usec\":0,\"decode_usec\":0,"
                "\"seed\":18446744073709551615}\n",
                NULL);
        teardown(&f);
}

static void test_say_errors(void **state) {
        static const struct {
                const char *code;
                int status;
        } table[] = {
                {"not_found", 3},
                {"busy", 4},
                {"limit", 5},
                {"context_length_exceeded", 5},
                {"shutdown", 6},
                {"no_memory", 1},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct fixture f;

                BEGIN(&f, "say", "a", "b", "--json");
                unlink(f.path); /* who stops has nobody come after it */
                peer_send_error(&f.peer, expect(&f, REQ(CONTINUE)), table[i].code, "because", true);
                finish(&f, table[i].status, NULL, "confab: because\n");
                assert_non_null(strstr(f.text, "{\"event\":\"error\",\"code\":\""));
                assert_non_null(strstr(f.text, ",\"message\":\"because\",\"retry\":true}\n"));
                teardown(&f);
        }
}

/* What helps is told once to people who have not asked for it yet. */
static void test_say_busy(void **state) {
        static const struct {
                const char *option, *told;
        } table[] = {
                {"-n", "confab: it is held\nconfab: --wait waits until it is free\n"},
                {"--wait", "confab: it is held\n"},
                {"--quiet", "confab: it is held\n"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct fixture f;

                BEGIN(&f, "say", "a", "b", table[i].option);
                peer_send_error(&f.peer, expect(&f, REQ(CONTINUE)), "busy", "it is held", true);
                finish(&f, 4, "", "confab: it is held\n");
                assert_string_equal(f.told, table[i].told);
                teardown(&f);
        }
}

/* What does not fit can be helped. */
static void test_say_context(void **state) {
        struct fixture f;

        BEGIN(&f, "say", "a", "b");
        peer_send_error(&f.peer, expect(&f, REQ(CONTINUE)), "context_length_exceeded", "x", false);
        finish(&f, 5, "", "confab update NAME --overflow shift");
        teardown(&f);
}

/* Output that came before the connection broke is there, the line is ended, the status tells. */
static void test_say_hang_up(void **state) {
        struct fixture f;
        uint64_t id;

        BEGIN(&f, "say", "a", "b");
        id = expect(&f, REQ(CONTINUE));
        peer_send_accepted(&f.peer, id);
        peer_send_delta(&f.peer, id, "so far");
        peer_deinit(&f.peer);
        finish(&f, 1, "so far\n", "closed the connection");
        teardown(&f);
}

static void test_say_garbage(void **state) {
        struct fixture f;

        BEGIN(&f, "say", "a", "b");
        expect(&f, REQ(CONTINUE));
        peer_send_bytes(&f.peer, "\xff\xff\xff\xff\x0f", 5);
        finish(&f, 1, "", "cannot be read");
        teardown(&f);
}

/* Wait until the program has printed @text. */
/* Read until @text came, and forget everything up to its end. */
static void wait_for(int fd, struct buf *seen, const char *text) {
        const char *at;

        while (!seen->data || !(at = strstr((char *)seen->data, text))) {
                char chunk[256];
                ssize_t n = read(fd, chunk, sizeof(chunk));

                assert_true(n > 0);
                assert_int_equal(buf_append(seen, chunk, (size_t)n), 0);
        }
        buf_consume(seen, (size_t)(at - (char *)seen->data) + strlen(text));
}

static void test_say_interrupt(void **state) {
        struct buf seen = BUF_NULL;
        struct proto_message *m;
        struct fixture f;
        uint64_t id;

        BEGIN(&f, "say", "a", "b");
        id = expect(&f, REQ(CONTINUE));
        peer_send_accepted(&f.peer, id);
        peer_send_delta(&f.peer, id, "so");
        wait_for(f.out, &seen, "so");
        kill(f.pid, SIGINT);
        m = peer_next(&f.peer);
        assert_int_equal(m->request->verb_case, REQ(CANCEL));
        assert_int_equal(m->request->cancel->request, id);
        peer_send_empty(&f.peer, m->request->id); /* before Done: the client leaves at that */
        peer_send_delta(&f.peer, id, " far");
        peer_send_done(&f.peer, id, CONFAB__V1__FINISH_REASON__FINISH_CANCELLED);
        proto_message_free(m);
        finish(&f, 130, " far\n", NULL);
        buf_deinit(&seen);
        teardown(&f);
}

static void test_say_interrupt_twice(void **state) {
        struct buf seen = BUF_NULL;
        struct fixture f;
        uint64_t id;

        BEGIN(&f, "say", "a", "b");
        id = expect(&f, REQ(CONTINUE));
        peer_send_delta(&f.peer, id, "so");
        wait_for(f.out, &seen, "so");
        kill(f.pid, SIGINT);
        expect(&f, REQ(CANCEL));
        kill(f.pid, SIGINT); /* the daemon does not answer */
        finish(&f, 130, "", NULL);
        buf_deinit(&seen);
        teardown(&f);
}

/* Much of the reply has come and waits to be read: the Cancel goes out before the next piece is written. */
static void test_say_interrupt_slow(void **state) {
        enum { PIECE = 40000, N_PIECES = 4 };
        _cleanup_(freep) char *piece = malloc(PIECE + 1), *got = malloc(PIECE);
        struct fixture f;
        uint64_t id;

        assert_true(piece && got);
        memset(piece, 'x', PIECE);
        piece[PIECE] = 0;
        setup(&f);
        f.small_output = true;
        START(&f, "say", "a", "b");
        greet(&f);
        id = expect(&f, REQ(CONTINUE));
        peer_send_accepted(&f.peer, id);
        for (int i = 0; i < N_PIECES; i++)
                peer_send_delta(&f.peer, id, piece);
        for (size_t n = 0; n < PIECE;) {
                ssize_t k = read(f.out, got + n, PIECE - n);

                assert_true(k > 0);
                /* It cannot go on before it is read, and has it from the first byte on. */
                if (n == 0)
                        kill(f.pid, SIGINT);
                n += (size_t)k;
        }
        expect(&f, REQ(CANCEL));
        peer_send_done(&f.peer, id, CONFAB__V1__FINISH_REASON__FINISH_CANCELLED);
        finish(&f, 130, NULL, NULL);
        assert_int_equal(strlen(f.text), (N_PIECES - 1) * PIECE + 1);
        teardown(&f);
}

static void test_say_cancelled_by_other(void **state) {
        struct fixture f;

        BEGIN(&f, "say", "a", "b");
        peer_send_done(
                &f.peer, expect(&f, REQ(CONTINUE)), CONFAB__V1__FINISH_REASON__FINISH_CANCELLED);
        finish(&f, 1, "", "cancelled");
        teardown(&f);
}

static void test_say_nobody_reads(void **state) {
        struct fixture f;
        uint64_t id;

        BEGIN(&f, "say", "a", "b");
        id = expect(&f, REQ(CONTINUE));
        close(f.out);
        f.out = open("/dev/null", O_RDONLY | O_CLOEXEC);
        peer_send_delta(&f.peer, id, "text");
        expect(&f, REQ(CANCEL));
        finish(&f, 141, "", NULL);
        teardown(&f);
}

/* What a daemon that stops refuses is asked of the one that comes after it, once. */
static void test_say_restart(void **state) {
        struct fixture f;

        BEGIN(&f, "say", "a", "b");
        peer_send_error(
                &f.peer, expect(&f, REQ(CONTINUE)), "shutdown", "the daemon is stopping", true);
        greet(&f);
        reply(&f, expect(&f, REQ(CONTINUE)), "Hi", "!");
        finish(&f, 0, "Hi!\n", NULL);
        START(&f, "say", "a", "b");
        greet(&f);
        peer_send_error(
                &f.peer, expect(&f, REQ(CONTINUE)), "shutdown", "the daemon is stopping", true);
        greet(&f);
        peer_send_error(
                &f.peer, expect(&f, REQ(CONTINUE)), "shutdown", "the daemon stops, too", true);
        finish(&f, 6, "", "stops, too");
        /* Nobody comes after it. */
        START(&f, "say", "a", "b");
        greet(&f);
        unlink(f.path);
        peer_send_error(
                &f.peer, expect(&f, REQ(CONTINUE)), "shutdown", "the daemon is stopping", true);
        finish(&f, 6, "", "the daemon is stopping");
        teardown(&f);
        /* Once it was accepted, it is not asked again. */
        BEGIN(&f, "say", "a", "b", "--json");
        {
                uint64_t id = expect(&f, REQ(CONTINUE));

                peer_send_accepted(&f.peer, id);
                peer_send_error(&f.peer, id, "shutdown", "the daemon is stopping", true);
        }
        finish(&f, 6, NULL, "the daemon is stopping");
        assert_non_null(strstr(f.text, "\"shutdown\""));
        teardown(&f);
}

static void test_say_detach(void **state) {
        struct proto_message *m;
        struct fixture f;

        BEGIN(&f, "say", "a", "b", "--detach");
        m = peer_next(&f.peer);
        assert_true(m->request->continue_->detach);
        peer_send_accepted(&f.peer, m->request->id);
        proto_message_free(m);
        finish(&f, 0, "", NULL);
        assert_null(peer_next(&f.peer)); /* left without a Cancel */
        teardown(&f);
}

/* ---- chat ---- */

static void test_chat_pipe(void **state) {
        struct fixture f;

        setup(&f);
        START(&f, "chat", "bob");
        give_input(&f, "hello\n\n//slash\n/fork\n/rewind 2\nlast");
        end_input(&f);
        greet(&f);
        peer_send_error(&f.peer, expect(&f, REQ(GET)), "not_found", "no such", false);
        peer_send_conversation(&f.peer, expect(&f, REQ(OPEN)), 3, "bob");
        reply(&f, expect(&f, REQ(CONTINUE)), "Hi", "!");
        reply(&f, expect(&f, REQ(CONTINUE)), "Slash", "\n");
        peer_send_conversation(&f.peer, expect(&f, REQ(FORK)), 4, "bob-2");
        peer_send_conversation(&f.peer, expect(&f, REQ(REWIND)), 4, "bob-2");
        peer_send_error(&f.peer, expect(&f, REQ(CONTINUE)), "busy", "busy", true);
        finish(&f, 4, "Hi!\nSlash\n", "busy");
        teardown(&f);
}

static void start_on_terminal(struct fixture *f, const char *const *args) {
        struct winsize size = {.ws_row = 24, .ws_col = 80};
        int slave;

        assert_int_equal(openpty(&f->out, &slave, NULL, NULL, &size), 0);
        f->pid = fork();
        assert_true(f->pid >= 0);
        if (f->pid == 0) {
                close(f->out);
                setsid();
                ioctl(slave, TIOCSCTTY, 0);
                child(f, args, slave, slave, slave);
        }
        close(slave);
}

static void type(struct fixture *f, const char *keys) {
        assert_int_equal(write(f->out, keys, strlen(keys)), strlen(keys));
}

static int wait_status(struct fixture *f) {
        int w;

        assert_int_equal(waitpid(f->pid, &w, 0), f->pid);
        assert_true(WIFEXITED(w));
        close(f->out);
        return WEXITSTATUS(w);
}

#define READY "\x1b[?2004h" /* the line editor has the terminal */

static void test_chat_terminal(void **state) {
        struct buf seen = BUF_NULL;
        struct proto_message *m;
        struct fixture f;
        uint64_t id;

        test_need_terminal();
        setup(&f);
        start_on_terminal(&f, (const char *const[]){"chat", "--no-history", NULL});
        greet(&f);
        peer_send_conversation(&f.peer, expect(&f, REQ(OPEN)), 3, "ev\x1bil");
        wait_for(f.out, &seen, "ev^[il (#3)");
        wait_for(f.out, &seen, READY);
        type(&f, "helo\x1b[Dl\r");
        m = peer_next(&f.peer);
        assert_string_equal(m->request->continue_->message, "hello");
        assert_int_equal(m->request->continue_->conversation->id, 3);
        id = m->request->id;
        proto_message_free(m);
        peer_send_delta(
                &f.peer, id, "a\x1b[2Jb\n"); /* what may be a link is held back for a line */
        wait_for(f.out, &seen, "a^[[2Jb");
        type(&f, "\x03"); /* Ctrl-C on the terminal */
        expect(&f, REQ(CANCEL));
        peer_send_done(&f.peer, id, CONFAB__V1__FINISH_REASON__FINISH_CANCELLED);
        wait_for(f.out, &seen, READY);
        /* the daemon is restarted meanwhile */
        peer_deinit(&f.peer);
        type(&f, "/fork x\r");
        greet(&f);
        peer_send_conversation(&f.peer, expect(&f, REQ(FORK)), 9, "x");
        wait_for(f.out, &seen, "x (#9)");
        wait_for(f.out, &seen, READY);
        type(&f, "\x03"); /* at the prompt it is harmless */
        wait_for(f.out, &seen, READY);
        type(&f, "\x1b[A\x15/nothing\r");
        wait_for(f.out, &seen, "unknown command");
        wait_for(
                f.out, &seen, READY); /* before it, the terminal itself takes Ctrl-D and loses it */
        type(&f, "\x04");
        assert_int_equal(wait_status(&f), 0);
        buf_deinit(&seen);
        teardown(&f);
}

static void test_say_terminal(void **state) {
        struct buf seen = BUF_NULL;
        struct fixture f;
        uint64_t id;

        test_need_terminal();
        setup(&f);
        start_on_terminal(&f, (const char *const[]){"say", "a", "b", NULL});
        greet(&f);
        id = expect(&f, REQ(CONTINUE));
        peer_send_error(&f.peer, id, "state", "bad \x1b]0;title\x07 name", false);
        wait_for(f.out, &seen, "bad ^[]0;title^G name");
        assert_int_equal(wait_status(&f), 1);
        buf_deinit(&seen);
        teardown(&f);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_say),
                cmocka_unit_test(test_say_request),
                cmocka_unit_test(test_say_constraint),
                cmocka_unit_test(test_say_bad_constraint),
                cmocka_unit_test(test_say_bad_input),
                cmocka_unit_test(test_say_json),
                cmocka_unit_test(test_say_errors),
                cmocka_unit_test(test_say_busy),
                cmocka_unit_test(test_say_context),
                cmocka_unit_test(test_say_hang_up),
                cmocka_unit_test(test_say_garbage),
                cmocka_unit_test(test_say_interrupt),
                cmocka_unit_test(test_say_interrupt_twice),
                cmocka_unit_test(test_say_interrupt_slow),
                cmocka_unit_test(test_say_cancelled_by_other),
                cmocka_unit_test(test_say_nobody_reads),
                cmocka_unit_test(test_say_restart),
                cmocka_unit_test(test_say_detach),
                cmocka_unit_test(test_chat_pipe),
                cmocka_unit_test(test_chat_terminal),
                cmocka_unit_test(test_say_terminal),
        };

        if (argc != 2) {
                fprintf(stderr, "usage: test-cli-say PROGRAM\n");
                return 2;
        }
        program = argv[1];
        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
