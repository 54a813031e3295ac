/* SPDX-License-Identifier: MIT */
/* What a terminal shows while a reply takes long, and what --verbose tells of it afterwards. */
#include "cli-fixture.h"
#include "util/terminal.h"
#include <poll.h>
#include <sys/mman.h>

#define ERASE "\r\033[K"

/* Read standard error on, until it has @what. */
static void shows(struct fixture *f, const char *what) {
        char seen[8192] = "";
        size_t size = 0;

        while (!strstr(seen, what)) {
                ssize_t n = read(f->err, seen + size, sizeof(seen) - 1 - size);

                if (n <= 0)
                        print_message("not shown: %s\nbut: %s\n", what, seen);
                assert_true(n > 0);
                size += (size_t)n;
                assert_true(size < sizeof(seen) - 1);
        }
}

static void tell_state(struct fixture *f, Confab__V1__WritingState state) {
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
        Confab__V1__Conversation c = CONFAB__V1__CONVERSATION__INIT;
        Confab__V1__Writing writing = CONFAB__V1__WRITING__INIT;
        Confab__V1__Turn turn = CONFAB__V1__TURN__INIT;

        event.has_request = c.has_id = writing.has_state = true;
        event.request = expect(f, REQ(GET));
        event.kind_case = CONFAB__V1__EVENT__KIND_CONVERSATION;
        event.conversation = &c;
        c.id = 3;
        c.name = proto_borrow("a");
        c.writing = &writing;
        writing.state = state;
        writing.turn = &turn;
        peer_send(&f->peer, &event);
}

static void test_phases(void **state) {
        struct fixture f;
        uint64_t id;

        test_need_terminal();
        setup(&f);
        f.err_terminal = true;
        START(&f, "say", "a", "hello");
        greet(&f);
        id = expect(&f, REQ(CONTINUE));
        shows(&f, ERASE "waiting, ");
        tell_state(&f, CONFAB__V1__WRITING_STATE__WRITING_WAITS);
        shows(&f, ERASE "waiting for a place, ");
        tell_state(&f, CONFAB__V1__WRITING_STATE__WRITING_RESTORES);
        shows(&f, ERASE "bringing its memory back, ");
        peer_send_accepted(&f.peer, id);
        shows(&f, ERASE "reading 10 tokens");
        peer_send_progress(&f.peer, id, 1000, 1234567);
        shows(&f, ERASE "reading 1,000 of 1,234,567 tokens, ");
        shows(&f, " s left");
        peer_send_delta(&f.peer, id, "yes");
        shows(&f, ERASE); /* and nothing behind it */
        assert_int_equal(poll(&(struct pollfd){f.err, POLLIN, 0}, 1, 300), 0);
        peer_send_done(&f.peer, id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
        finish(&f, 0, "yes\n", NULL);
        teardown(&f);
}

/* A call that is no reply: its own words, erased before what it prints. */
static void test_warm(void **state) {
        struct fixture f;

        test_need_terminal();
        setup(&f);
        f.err_terminal = true;
        START(&f, "warm", "a");
        greet(&f);
        shows(&f, ERASE "bringing its memory back, ");
        peer_send_conversation(&f.peer, expect(&f, REQ(WARM)), 3, "a");
        finish(&f, 0, "a: spilled, 0 in RAM, 2.1M on disk\n", ERASE);
        START(&f, "warm", "a");
        greet(&f);
        expect(&f, REQ(WARM));
        shows(&f, ERASE "bringing its memory back, ");
        peer_deinit(&f.peer); /* the daemon dies */
        finish(&f, 1, "", ERASE "confab: ");
        teardown(&f);
}

/* Nothing is shown to whom it is of no use: for longer than it takes in the others. All at once. */
static void test_silence(void **state) {
        static const struct {
                const char *option, *term;
                bool pipe;
        } who[] = {{"--quiet", "xterm", false}, {"-j", "xterm", false}, {"-w", "dumb", false},
                {"-w", "", false}, {"-w", "xterm", true}};
        struct fixture f[ARRAY_SIZE(who)];
        struct pollfd fds[ARRAY_SIZE(who)];
        uint64_t ids[ARRAY_SIZE(who)];

        test_need_terminal();
        for (size_t i = 0; i < ARRAY_SIZE(who); i++) {
                setup(&f[i]);
                f[i].err_terminal = !who[i].pipe;
                f[i].term = who[i].term;
                START(&f[i], "say", "a", "hello", who[i].option);
                greet(&f[i]);
                ids[i] = expect(&f[i], REQ(CONTINUE));
                fds[i] = (struct pollfd){f[i].err, POLLIN, 0};
        }
        assert_int_equal(poll(fds, ARRAY_SIZE(who), 800), 0);
        for (size_t i = 0; i < ARRAY_SIZE(who); i++) {
                peer_send_done(&f[i].peer, ids[i], CONFAB__V1__FINISH_REASON__FINISH_STOP);
                finish(&f[i], 0, NULL, NULL);
                teardown(&f[i]);
        }
}

static void send_figures(struct fixture *f, uint64_t id) {
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
        Confab__V1__Done done = CONFAB__V1__DONE__INIT;

        done.has_finish = done.has_n_prompt = done.has_n_ram = done.has_n_disk = done.has_n_shared =
                done.has_n_computed = done.has_n_generated = done.has_seed = true;
        done.has_queued_usec = done.has_restore_usec = done.has_prefill_usec =
                done.has_decode_usec = true;
        done.finish = CONFAB__V1__FINISH_REASON__FINISH_STOP;
        done.n_prompt = 12345;
        done.n_ram = 12000;
        done.n_disk = 300;
        done.n_shared = 20;
        done.n_computed = 25;
        done.n_generated = 50;
        done.seed = 7;
        done.queued_usec = 250000;
        done.restore_usec = 1500000;
        done.prefill_usec = 100000;
        done.decode_usec = 4000000;
        event.has_request = true;
        event.request = id;
        event.kind_case = CONFAB__V1__EVENT__KIND_DONE;
        event.done = &done;
        peer_send(&f->peer, &event);
}

static void test_verbose(void **state) {
        struct fixture f;

        BEGIN(&f, "say", "a", "hello", "-v");
        send_figures(&f, expect(&f, REQ(CONTINUE)));
        finish(&f, 0, "",
                "confab: prompt: 12,345 tokens, 12,000 in RAM, 300 from disk, 20 shared, 25 "
                "computed, 250.0/s; reply: 50 "
                "tokens, 12.5/s; waited 0.25 s, restored in 1.50 s; seed 7\n");
        START(&f, "say", "a", "hello"); /* only if it is asked for */
        greet(&f);
        send_figures(&f, expect(&f, REQ(CONTINUE)));
        finish(&f, 0, "", NULL);
        START(&f, "say", "a", "hello", "--verbose");
        greet(&f);
        peer_send_done(&f.peer, expect(&f, REQ(CONTINUE)), CONFAB__V1__FINISH_REASON__FINISH_STOP);
        finish(&f, 0, "", "0 computed; reply: 7 tokens; waited"); /* no rate of nothing */
        teardown(&f);
}

/* Hints are not told, errors are. */
static void test_quiet(void **state) {
        struct fixture f;

        BEGIN(&f, "say", "a", "hello", "-q");
        peer_send_done(
                &f.peer, expect(&f, REQ(CONTINUE)), CONFAB__V1__FINISH_REASON__FINISH_LENGTH);
        finish(&f, 0, "", NULL);
        START(&f, "say", "a", "hello", "--quiet");
        greet(&f);
        peer_send_error(&f.peer, expect(&f, REQ(CONTINUE)), "busy", "it is busy", true);
        finish(&f, 4, "", "confab: it is busy\n");
        teardown(&f);
}

/* ---- files ---- */

static void send_chunk(struct fixture *f, uint64_t id, size_t size) {
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
        Confab__V1__Chunk chunk = CONFAB__V1__CHUNK__INIT;
        uint8_t *data = calloc(1, size);

        assert_non_null(data);
        event.has_request = chunk.has_data = true;
        event.request = id;
        event.kind_case = CONFAB__V1__EVENT__KIND_CHUNK;
        event.chunk = &chunk;
        chunk.data = (ProtobufCBinaryData){.data = data, .len = size};
        peer_send(&f->peer, &event);
        free(data);
}

/* For longer than what takes so long shows nothing. */
static void stay(struct fixture *f) {
        assert_int_equal(poll(&(struct pollfd){f->err, POLLIN, 0}, 1, 600), 0);
}

/* What comes in the stream, of which nobody knows how much it is. */
static void test_backup(void **state) {
        struct fixture f;
        char path[128];
        uint64_t id;

        test_need_terminal();
        setup(&f);
        f.err_terminal = true;
        snprintf(path, sizeof(path), "%s/backup.tar", f.dir);
        START(&f, "admin", "backup", path);
        greet(&f);
        id = expect(&f, REQ(BACKUP));
        shows(&f, ERASE "copying the register, ");
        send_chunk(&f, id, 3 << 18);
        shows(&f, ERASE "copying the register, 768K, ");
        send_chunk(&f, id, 3 << 18);
        shows(&f, ERASE "copying the register, 1.5M, ");
        peer_send_exported(&f.peer, id, -1, 3 << 19);
        finish(&f, 0, NULL, ERASE);
        assert_non_null(strstr(f.text, "backup.tar: 1.5M\n"));
        assert_int_equal(unlink(path), 0);
        teardown(&f);
}

/* To a pipe that is not read for a while. */
static void test_export(void **state) {
        static char out[1 << 20];
        struct fixture f;
        size_t size = 0;
        uint64_t id;
        int fd;

        test_need_terminal();
        setup(&f);
        f.err_terminal = true;
        START(&f, "export", "a");
        greet(&f);
        id = expect(&f, REQ(EXPORT));
        shows(&f, ERASE "making the export, ");
        fd = memfd_create("export", 0);
        assert_true(fd >= 0);
        assert_int_equal(ftruncate(fd, sizeof(out)), 0);
        peer_send_exported(&f.peer, id, fd, sizeof(out));
        close(fd);
        shows(&f, ERASE);
        assert_int_equal(poll(&(struct pollfd){f.out, POLLIN, 0}, 1, -1), 1);
        stay(&f);
        while (size < 400000) {
                ssize_t n = read(f.out, out, 65536);

                assert_true(n > 0);
                size += (size_t)n;
        }
        shows(&f, ERASE "writing, 256K of 1.0M");
        finish(&f, 0, NULL, ERASE);
        teardown(&f);
}

/* From a pipe that is slow. */
static void test_import(void **state) {
        static const char
                piece[1 << 17]; /* more than a pipe holds: when it is written the program reads */
        struct fixture f;
        int in;

        test_need_terminal();
        setup(&f);
        f.err_terminal = true;
        START(&f, "import");
        in = dup(f.in);
        greet(&f);
        assert_int_equal(write(in, piece, sizeof(piece)), sizeof(piece));
        stay(&f);
        assert_int_equal(write(in, piece, 10), 10);
        shows(&f, ERASE "reading, 128K, ");
        close(in);
        peer_send_conversation(&f.peer, expect(&f, REQ(IMPORT)), 3, "a");
        finish(&f, 0, "a\n", ERASE);
        teardown(&f);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_phases),
                cmocka_unit_test(test_warm),
                cmocka_unit_test(test_silence),
                cmocka_unit_test(test_verbose),
                cmocka_unit_test(test_quiet),
                cmocka_unit_test(test_backup),
                cmocka_unit_test(test_export),
                cmocka_unit_test(test_import),
        };

        if (argc != 2) {
                fprintf(stderr, "usage: test-cli-progress PROGRAM\n");
                return 2;
        }
        program = argv[1];
        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
