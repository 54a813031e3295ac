/* SPDX-License-Identifier: MIT */
/* How a daemon starts: what it says meanwhile, and what clients hear from one that cannot. */
#include "fixture.h"
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* A listening socket that is passed to the daemon, as a service manager has it. */
static int make_activated(struct harness *h, char path[160]) {
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        snprintf(path, 160, "%s/activated", h->dir);
        memcpy(a.sun_path, path, strlen(path) + 1);
        assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
        assert_int_equal(listen(fd, 8), 0);
        h->listen_fd = fd;
        return fd;
}

/* The connection's only event is "unavailable" with these words, and then it ends. */
static void expect_unavailable(struct wire *w, const char *words) {
        struct proto_message *m = wire_event(w);

        assert_non_null(m);
        assert_int_equal(m->event->kind_case, CONFAB__V1__EVENT__KIND_ERROR);
        assert_string_equal(m->event->error->code, "unavailable");
        if (!strstr(m->event->error->message, words))
                fail_msg("'%s' does not have '%s'", m->event->error->message, words);
        assert_false(m->event->error->retry);
        proto_message_free(m);
        assert_null(wire_event(w));
        assert_true(w->eof);
        wire_close(w);
}

/* A daemon that cannot start, and its clients: one waits and has said Hello, one waits and has not,
 * and one comes later. */
static void check_unavailable(struct harness *h, const char *const *flags, const char *words) {
        struct wire silent, greeting, late;
        char path[160];
        int fd = make_activated(h, path);

        assert_int_equal(wire_connect(&silent, path, wire_poll, NULL), 0);
        assert_int_equal(wire_connect(&greeting, path, wire_poll, NULL), 0);
        assert_true(wire_send_hello(&greeting, PROTO_VERSION, 0) > 0);
        harness_spawn(h, flags);
        expect_unavailable(&silent, words);
        expect_unavailable(&greeting, words);
        assert_int_equal(wire_connect(&late, path, wire_poll, NULL), 0);
        expect_unavailable(&late, words);
        close(fd);
}

/* Side by side, because each stays for its moment. */
static void test_unavailable(void **state) {
        struct harness *wrong = *state, without_model;
        char config[128];
        FILE *f;

        snprintf(config, sizeof(config), "%s/confabd.conf", wrong->dir);
        f = fopen(config, "w");
        assert_non_null(f);
        assert_true(fputs("threads = 1\nbogus = 3\n", f) >= 0);
        fclose(f);
        assert_int_equal(harness_init(&without_model), 0);
        snprintf(without_model.model, sizeof(without_model.model), "%s/none.gguf",
                without_model.dir);
        check_unavailable(
                wrong, FLAGS("--config", config), "confabd.conf:2: unknown setting 'bogus'");
        check_unavailable(&without_model, NULL,
                "none.gguf': No such file or directory; a unit with PrivateTmp=yes");
        assert_int_equal(harness_wait(wrong), 2);
        assert_int_equal(harness_wait(&without_model), 3);
        harness_deinit(&without_model);
}

/* What a start says while it goes on, and that it reads a file only once. */
static void test_words(void **state) {
        struct harness *h = *state;
        char print[64], wrong[96];
        struct client *c;
        char *log;

        harness_spawn(h, NULL);
        harness_wait_notify(h, "STATUS=Starting: opening the register");
        harness_wait_notify(h, "EXTEND_TIMEOUT_USEC=");
        harness_wait_notify(h, "STATUS=Starting: loading ");
        harness_wait_notify(h, "STATUS=Starting: reading the weights, 0 bytes of ");
        harness_wait_notify(h, "STATUS=Starting: checking the spill files");
        harness_wait_notify(h, "READY=1");
        c = harness_client(h);
        assert_int_equal(client_fingerprint(c, print), 0);
        client_free(c);
        harness_stop(h);
        snprintf(wrong, sizeof(wrong), "--model-fingerprint=%s", print);
        harness_start(h, FLAGS(wrong));
        harness_stop(h);
        wrong[strlen("--model-fingerprint=") + 16] = '\0';
        harness_start(h, FLAGS(wrong, "--verify-model=yes"));
        harness_stop(h);
        wrong[strlen("--model-fingerprint=")] ^= 1;
        assert_int_equal(harness_start_failing(h, FLAGS(wrong)), 3);
        log = harness_read_log(h);
        assert_non_null(strstr(log, print));
        assert_non_null(strstr(log, wrong + strlen("--model-fingerprint=")));
        free(log);
}

/* It does not stay on when it is told to go. */
static void test_stop_while_unavailable(void **state) {
        struct harness *h = *state;
        struct wire w;
        char path[160];
        int fd = make_activated(h, path);

        assert_int_equal(wire_connect(&w, path, wire_poll, NULL), 0);
        harness_spawn(h, FLAGS("--threads=0"));
        expect_unavailable(&w, "threads");
        harness_signal(h, SIGTERM);
        assert_int_equal(harness_wait(h), 128 + SIGTERM);
        close(fd);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test(test_words),
                daemon_test(test_unavailable),
                daemon_test(test_stop_while_unavailable),
        };

        return DAEMON_TESTS_MAIN(tests);
}
