/* SPDX-License-Identifier: MIT */
/* Starting, sockets, stopping, reloading, and messages to the service manager. */
#include "daemon-fixture.h"
#include "base/util.h"
#include <errno.h>
#include <signal.h>
#include <event2/event.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static void expect_start_error(struct fixture *f, int want, const char *part) {
        struct daemon *d = NULL;

        assert_int_equal(daemon_new(&d, &f->settings, 0, NULL, &f->e), want);
        assert_null(d);
        if (!strstr(f->e.msg, part))
                fail_msg("'%s' does not say '%s'", f->e.msg, part);
}

static void test_options_reach_the_engine(void **state) {
        static const struct {
                const char *name, *value;
        } words[] = {{"kv-type", "q8_0"}, {"spill-delay", "250ms"}, {"disk-limit", "5G"},
                {"disk-limit-per-user", "1G"}, {"disk-writes-per-day", "2T"}};
        struct fixture *f = *state;

        f->settings.pool_size = 123456789;
        f->settings.max_isa = 1;
        f->settings.context = 99;
        for (size_t i = 0; i < ARRAY_SIZE(words); i++)
                assert_int_equal(
                        settings_set(&f->settings, words[i].name, words[i].value, &f->e), 0);
        fixture_start(f);
        assert_string_equal(fake.model, "none.gguf");
        assert_string_equal(fake.state_dir, f->dir);
        assert_int_equal(fake.options.pool_size, 123456789);
        assert_int_equal(fake.options.kv_type, ENGINE_KV_Q8_0);
        assert_int_equal(fake.options.spill_delay_ms, 250);
        assert_int_equal(fake.options.disk_limit, 5ull << 30);
        assert_int_equal(fake.options.disk_limit_per_owner, 1ull << 30);
        assert_int_equal(fake.options.disk_writes_per_day, 2ull << 40);
        assert_int_equal(fake.options.spill_codec, UINT32_MAX);
        assert_int_equal(fake.options.max_isa, 1);
        assert_int_equal(fake.options.context, 99);
        assert_int_equal(fake.options.max_requests_per_owner, 64);
        assert_int_equal(fake.options.disk_floor, 256 << 20);
        f->d = daemon_free(f->d);
        assert_int_equal(settings_set(&f->settings, "spill-delay", "never", &f->e), 0);
        fixture_start(f);
        assert_int_equal(fake.options.spill_delay_ms, UINT32_MAX);
        f->d = daemon_free(f->d);
        assert_int_equal(settings_set(&f->settings, "spill-codec", "raw", &f->e), 0);
        fixture_start(f);
        assert_int_equal(fake.options.spill_codec, ENGINE_CODEC_RAW);
}

static void test_remote_store_reaches_the_engine(void **state) {
        static const struct {
                const char *name, *value;
        } words[] = {{"remote", "redis://a.example"}, {"remote-user", "confab"},
                {"remote-timeout", "250ms"}, {"remote-keep", "36h"}, {"remote-write-share", "7"},
                {"remote-writes-per-day", "3G"}};
        const struct engine_remote_options *o = &fake.options.remote;
        struct fixture *f = *state;
        char file[128];
        FILE *out;

        fixture_start(f);
        assert_null(o->uri);
        assert_string_equal(fake.remote_password, "");
        f->d = daemon_free(f->d);
        for (size_t i = 0; i < ARRAY_SIZE(words); i++)
                assert_int_equal(
                        settings_set(&f->settings, words[i].name, words[i].value, &f->e), 0);
        snprintf(file, sizeof(file), "%s/password", f->dir);
        assert_int_equal(settings_set(&f->settings, "remote-password-file", file, &f->e), 0);
        expect_start_error(f, -ERR_SYS, file);
        out = fopen(file, "w");
        assert_true(out && fputs("hush\n", out) >= 0 && fclose(out) == 0);
        assert_int_equal(chmod(file, 0644), 0);
        expect_start_error(f, -ERR_PERMISSION, "0644");
        assert_int_equal(chmod(file, 0600), 0);
        fixture_start(f);
        assert_string_equal(o->uri, "redis://a.example");
        assert_string_equal(o->user, "confab");
        assert_string_equal(fake.remote_password, "hush");
        assert_null(o->ca_file);
        assert_int_equal(o->timeout_usec, 250000);
        assert_int_equal(o->keep_sec, 36 * 3600);
        assert_int_equal(o->write_share, 7);
        assert_int_equal(o->writes_per_day, 3ull << 30);
        assert_int_equal(unlink(file), 0);
}

static void test_engine_that_does_not_open(void **state) {
        struct fixture *f = *state;

        fake_fail_open(ERR_FORMAT, "none.gguf: magic is wrong");
        expect_start_error(f, -ERR_FORMAT, "magic is wrong");
        assert_int_equal(access(f->socket, F_OK), -1);
}

static void test_socket_mode(void **state) {
        struct fixture *f = *state;
        struct stat st;

        fixture_start(f);
        assert_int_equal(stat(f->socket, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
        f->d = daemon_free(f->d);
        assert_int_equal(access(f->socket, F_OK), -1);
        f->settings.socket_mode = 0666;
        fixture_start(f);
        assert_int_equal(stat(f->socket, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0666);
}

static int bind_here(const char *path) {
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
        assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
        return fd;
}

static void test_stale_socket_is_replaced(void **state) {
        struct fixture *f = *state;
        struct wire w;

        close(bind_here(f->socket));
        fixture_start(f);
        fixture_client(f, &w);
        wire_close(&w);
}

static void test_live_socket_is_left_alone(void **state) {
        struct fixture *f = *state;
        int fd = bind_here(f->socket);

        assert_int_equal(listen(fd, 1), 0);
        expect_start_error(f, -ERR_BUSY, "another daemon");
        assert_int_equal(access(f->socket, F_OK), 0);
        close(fd);
}

static void test_other_files_are_left_alone(void **state) {
        struct fixture *f = *state;
        FILE *file = fopen(f->socket, "w");

        fclose(file);
        expect_start_error(f, -ERR_EXISTS, "not a socket");
        assert_int_equal(access(f->socket, F_OK), 0);
}

static void test_bad_paths(void **state) {
        struct fixture *f = *state;
        char path[200];

        memset(path, 'a', sizeof(path) - 1);
        path[sizeof(path) - 1] = 0;
        assert_int_equal(settings_set(&f->settings, "socket", path, &f->e), 0);
        expect_start_error(f, -ERR_INVALID, "path of the socket");
        assert_int_equal(settings_set(&f->settings, "socket", "/nonexistent/folder/s", &f->e), 0);
        expect_start_error(f, -ERR_SYS, "/nonexistent/folder/s");
        assert_int_equal(settings_set(&f->settings, "socket", f->socket, &f->e), 0);
        assert_int_equal(settings_set(&f->settings, "socket-group", "no-such-group", &f->e), 0);
        expect_start_error(f, -ERR_INVALID, "no-such-group");
        assert_int_equal(settings_set(&f->settings, "socket-group", "root", &f->e), 0);
        assert_int_equal(settings_set(&f->settings, "admin-group", "no-such-group", &f->e), 0);
        expect_start_error(f, -ERR_INVALID, "no-such-group");
}

/* The socket of a successor is not removed. */
static void test_only_own_socket_is_removed(void **state) {
        struct fixture *f = *state;
        int fd;

        fixture_start(f);
        unlink(f->socket);
        fd = bind_here(f->socket);
        f->d = daemon_free(f->d);
        assert_int_equal(access(f->socket, F_OK), 0);
        close(fd);
}

static void emit_stopped(void) {
        fake_emit(&(struct engine_event){.kind = ENGINE_STOPPED});
}

static void test_clean_stop(void **state) {
        struct fixture *f = *state;
        struct wire w, late;
        uint64_t id;

        fixture_start(f);
        fixture_client(f, &w);
        id = fixture_send_continue(&w, "Hi", false);
        fixture_wait_requests(f, 1);
        daemon_stop(f->d);
        assert_true(fake.stopping);
        assert_int_equal(wire_connect(&late, f->socket, fixture_idle, f), -ENOENT);
        /* New requests are refused; the running one ends, and its end is heard. */
        expect_error(&w, fixture_send_stats(&w), "shutdown", true);
        fake_emit_done(fake.requests[0].r.handle);
        emit_stopped();
        assert_int_equal(daemon_run(f->d, &f->e), 0);
        proto_message_free(expect_kind(&w, id, CONFAB__V1__EVENT__KIND_DONE));
        expect_error(&w, 0, "shutdown", true);
        assert_true(wire_wait_eof(&w));
        wire_close(&w);
}

static void test_stop_without_peers(void **state) {
        struct fixture *f = *state;

        fixture_start(f);
        daemon_stop(f->d);
        emit_stopped();
        assert_int_equal(daemon_run(f->d, &f->e), 0);
}

static void test_stop_by_signal(void **state) {
        struct fixture *f = *state;

        fixture_start(f);
        raise(SIGTERM);
        fixture_steps(f, 2);
        assert_true(fake.stopping);
        emit_stopped();
        assert_int_equal(daemon_run(f->d, &f->e), 0);
}

static void test_second_signal_forces(void **state) {
        struct fixture *f = *state;

        fixture_start(f);
        daemon_stop(f->d);
        raise(SIGINT);
        assert_int_equal(daemon_run(f->d, &f->e), 1);
}

static void test_stop_timeout_forces(void **state) {
        struct fixture *f = *state;

        fixture_start(f);
        f->settings.stop_timeout = 1000;
        daemon_stop(f->d);
        assert_int_equal(daemon_run(f->d, &f->e), 1);
}

/* A peer that does not read its last words does not keep the daemon. */
static void test_stop_with_peer_that_does_not_read(void **state) {
        static const char lump[2000] = {[0 ... 1998] = 'x'};
        struct fixture *f = *state;
        struct wire w;

        fixture_start(f);
        fixture_client(f, &w);
        fixture_send_continue(&w, "Hi", false);
        fixture_wait_requests(f, 1);
        for (unsigned i = 0; i < 500; i++)
                fake_emit_delta(fake.requests[0].r.handle, lump, 1);
        fixture_steps(f, 10);
        daemon_stop(f->d);
        emit_stopped();
        assert_int_equal(daemon_run(f->d, &f->e), 0);
        wire_close(&w);
}

static void test_reload(void **state) {
        struct fixture *f = *state;
        char path[128], *argv[] = {proto_borrow("confabd"), proto_borrow("--model"),
                                proto_borrow("none.gguf"), proto_borrow("--config"), path};
        FILE *file;

        fixture_start(f);
        snprintf(path, sizeof(path), "%s/conf", f->dir);
        file = fopen(path, "w");
        fputs("output-high = 300000\nlog-level = error\nspeculation = auto\n", file);
        fclose(file);
        f->d->argc = 5;
        f->d->argv = argv;
        raise(SIGHUP);
        fixture_steps(f, 2);
        assert_int_equal(f->d->limits.output_high, 300000);
        assert_true(fake.speculates);
        file = fopen(path, "w");
        fputs("output-high = 1\n", file);
        fclose(file);
        f->settings.log_level = LOG_CRIT;
        log_set_level(LOG_CRIT);
        daemon_reload(f->d);
        assert_int_equal(f->d->limits.output_high, 300000);
        unlink(path);
}

/* ---- the service manager's side of the notification socket ---- */

static int manager_open(struct fixture *f) {
        char path[sizeof(f->dir) + 8];
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        snprintf(path, sizeof(path), "%s/n", f->dir);
        snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
        assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
        setenv("NOTIFY_SOCKET", path, 1);
        return fd;
}

static void manager_close(struct fixture *f, int fd) {
        unlink(getenv("NOTIFY_SOCKET"));
        unsetenv("NOTIFY_SOCKET");
        unsetenv("WATCHDOG_USEC");
        unsetenv("WATCHDOG_PID");
        close(fd);
}

/* Everything said since, in one string. */
static const char *manager_read(int fd) {
        static char all[65536];
        size_t n = 0;
        ssize_t k;

        while ((k = recv(fd, all + n, sizeof(all) - n - 2, 0)) > 0) {
                n += (size_t)k;
                all[n++] = '\n';
        }
        all[n] = 0;
        return all;
}

static void test_notifications(void **state) {
        struct fixture *f = *state;
        int fd = manager_open(f);
        const char *said;

        fake_answer(ENGINE_STATS, true);
        fixture_start(f);
        fixture_steps(f, 5);
        said = manager_read(fd);
        assert_non_null(strstr(said, "STATUS=Starting: loading none.gguf\n"));
        assert_non_null(strstr(said, "READY=1\n"));
        assert_non_null(strstr(said, "0 connections\n"));
        assert_null(strstr(said, "WATCHDOG=1"));
        daemon_stop(f->d);
        assert_non_null(strstr(manager_read(fd), "STOPPING=1\n"));
        emit_stopped();
        assert_int_equal(daemon_run(f->d, &f->e), 0);
        manager_close(f, fd);
}

static void run_until_said(struct fixture *f, int fd, const char *what) {
        while (!strstr(manager_read(fd), what))
                event_base_loop(f->d->base, EVLOOP_ONCE);
}

/* Lines of the journal that tell of an engine without a sign of life. */
static unsigned count_stuck(int journal_fd) {
        static char text[65536];
        ssize_t n = pread(journal_fd, text, sizeof(text) - 1, 0);
        unsigned count = 0;

        text[n < 0 ? 0 : n] = 0;
        for (const char *at = text; (at = strstr(at, "error: the engine has given no sign")); at++)
                count++;
        return count;
}

static void test_watchdog(void **state) {
        struct fixture *f = *state;
        int fd = manager_open(f), err = dup(STDERR_FILENO),
            journal = memfd_create("j", MFD_CLOEXEC);
        unsigned n_stuck;
        char pid[16];

        snprintf(pid, sizeof(pid), "%d", (int)getpid());
        setenv("WATCHDOG_USEC", "6000", 1);
        setenv("WATCHDOG_PID", pid, 1);
        /* An idle engine that answers. */
        fake_answer(ENGINE_STATS, true);
        fixture_start(f);
        run_until_said(f, fd, "WATCHDOG=1");
        run_until_said(f, fd, "WATCHDOG=1");
        /* One that hangs: no answer, no steps. At most the answer on its way is counted. */
        fake_answer(ENGINE_STATS, false);
        dup2(journal, STDERR_FILENO);
        log_set_level(LOG_ERR);
        for (unsigned i = 0; i < 3; i++)
                event_base_loop(f->d->base, EVLOOP_ONCE);
        manager_read(fd);
        for (unsigned i = 0; i < 10; i++)
                event_base_loop(f->d->base, EVLOOP_ONCE);
        n_stuck = count_stuck(journal);
        for (unsigned i = 0; i < 5; i++)
                event_base_loop(f->d->base, EVLOOP_ONCE);
        log_set_level(LOG_CRIT);
        dup2(err, STDERR_FILENO);
        assert_null(strstr(manager_read(fd), "WATCHDOG=1"));
        /* The journal is told before the manager acts, and once (twice, if the last answer came behind the first time). */
        assert_in_range(n_stuck, 1, 2);
        assert_int_equal(count_stuck(journal), n_stuck);
        close(journal);
        close(err);
        /* One that is too busy to answer, but steps. */
        fake.heartbeat++;
        run_until_said(f, fd, "WATCHDOG=1");
        manager_close(f, fd);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test_closed(test_options_reach_the_engine),
                daemon_test_closed(test_remote_store_reaches_the_engine),
                daemon_test_closed(test_engine_that_does_not_open),
                daemon_test_closed(test_socket_mode),
                daemon_test_closed(test_stale_socket_is_replaced),
                daemon_test_closed(test_live_socket_is_left_alone),
                daemon_test_closed(test_other_files_are_left_alone),
                daemon_test_closed(test_bad_paths),
                daemon_test_closed(test_only_own_socket_is_removed),
                daemon_test_closed(test_clean_stop),
                daemon_test_closed(test_stop_without_peers),
                daemon_test_closed(test_stop_by_signal),
                daemon_test_closed(test_second_signal_forces),
                daemon_test_closed(test_stop_timeout_forces),
                daemon_test_closed(test_stop_with_peer_that_does_not_read),
                daemon_test_closed(test_reload),
                daemon_test_closed(test_notifications),
                daemon_test_closed(test_watchdog),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
