/* SPDX-License-Identifier: MIT */
/* What a start reports, step by step. */
#include "base/util.h"
#include "daemon/bytes.h"
#include "service/log.h"
#include "daemon/startup.h"
#include "engine/engine.h"
#include "util/test.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define GIB (1ull << 30)

struct fixture {
        char dir[64], path[96];
        int manager;           /* what the service manager reads */
        int journal[2], saved; /* standard error meanwhile */
        struct startup s;
};

static int setup(void **state) {
        struct fixture *f = calloc(1, sizeof(*f));
        struct sockaddr_un a = {.sun_family = AF_UNIX};

        assert_non_null(f);
        strcpy(f->dir, "/tmp/confab-startup-XXXXXX");
        assert_non_null(mkdtemp(f->dir));
        snprintf(f->path, sizeof(f->path), "%s/notify", f->dir);
        strcpy(a.sun_path, f->path);
        f->manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        assert_int_equal(bind(f->manager, (struct sockaddr *)&a, sizeof(a)), 0);
        setenv("NOTIFY_SOCKET", f->path, 1);
        assert_int_equal(pipe2(f->journal, O_CLOEXEC | O_NONBLOCK), 0);
        f->saved = dup(STDERR_FILENO);
        dup2(f->journal[1], STDERR_FILENO);
        log_init("confabd", LOG_INFO);
        f->s.model = "/m.gguf";
        *state = f;
        return 0;
}

static int teardown(void **state) {
        struct fixture *f = *state;

        dup2(f->saved, STDERR_FILENO);
        close(f->saved);
        close(f->journal[0]);
        close(f->journal[1]);
        close(f->manager);
        unsetenv("NOTIFY_SOCKET");
        unlink(f->path);
        rmdir(f->dir);
        free(f);
        return 0;
}

/* What came since the last call, line by line. */
static const char *heard(struct fixture *f) {
        static char all[8192];
        size_t at = 0;
        ssize_t n;

        while ((n = recv(f->manager, all + at, sizeof(all) - at - 2, 0)) > 0) {
                at += (size_t)n;
                all[at++] = '\n';
        }
        all[at] = '\0';
        return all;
}

static const char *logged(struct fixture *f) {
        static char all[8192];
        ssize_t n = read(f->journal[0], all, sizeof(all) - 1);

        all[n > 0 ? n : 0] = '\0';
        return all;
}

static int tell(struct fixture *f, struct engine_opening o) {
        return startup_progress(&f->s, &o);
}

static void test_stages(void **state) {
        struct fixture *f = *state;

        assert_int_equal(tell(f, (struct engine_opening){.stage = ENGINE_STAGE_REGISTER}), 0);
        assert_string_equal(
                heard(f), "STATUS=Starting: opening the register\nEXTEND_TIMEOUT_USEC=60000000\n");
        assert_int_equal(tell(f, (struct engine_opening){.stage = ENGINE_STAGE_MODEL,
                                         .weights_size = 2 * GIB,
                                         .ram_size = 2 * GIB}),
                0);
        assert_non_null(strstr(heard(f), "STATUS=Starting: loading /m.gguf\n"));
        assert_int_equal(tell(f, (struct engine_opening){.stage = ENGINE_STAGE_SPILL}), 0);
        assert_non_null(strstr(heard(f), "STATUS=Starting: checking the spill files\n"));
        assert_string_equal(logged(f), "");
}

static void test_larger_than_ram(void **state) {
        struct fixture *f = *state;

        tell(f, (struct engine_opening){
                        .stage = ENGINE_STAGE_MODEL, .weights_size = 3 * GIB, .ram_size = 2 * GIB});
        assert_non_null(strstr(logged(f),
                "warning: the weights of /m.gguf have 3.0 GiB, but only 2.0 GiB of RAM"));
}

/* The manager hears of a read at once and then once a second; the journal once, if it is long. */
static void test_reading(void **state) {
        struct fixture *f = *state;
        struct engine_opening o = {.stage = ENGINE_STAGE_WEIGHTS, .total = 5 * GIB};
        const char *words;

        assert_int_equal(tell(f, o), 0);
        words = heard(f);
        assert_non_null(
                strstr(words, "STATUS=Starting: reading the weights, 0 bytes of 5.0 GiB\n"));
        assert_non_null(strstr(words, "EXTEND_TIMEOUT_USEC="));
        assert_non_null(
                strstr(logged(f), "reading the weights of /m.gguf for its fingerprint: 5.0"));
        o.done = GIB;
        assert_int_equal(tell(f, o), 0);
        assert_null(strstr(heard(f), "STATUS"));
        f->s.told_usec -= 1000000; /* a second later */
        o.done = 2 * GIB;
        assert_int_equal(tell(f, o), 0);
        assert_non_null(
                strstr(heard(f), "STATUS=Starting: reading the weights, 2.0 GiB of 5.0 GiB\n"));
        assert_string_equal(logged(f), "");
        f->s = (struct startup){.model = "/m.gguf"};
        tell(f, (struct engine_opening){.stage = ENGINE_STAGE_WEIGHTS, .total = 1 << 20});
        assert_string_equal(logged(f), "");
}

/* Signals are blocked while the engine opens; the one that waits ends it. */
static void test_told_to_stop(void **state) {
        struct fixture *f = *state;
        const struct engine_opening o = {.stage = ENGINE_STAGE_WEIGHTS, .total = GIB};
        const int stops[] = {SIGTERM, SIGINT};
        sigset_t set, old;
        int sig;

        sigfillset(&set);
        sigprocmask(SIG_BLOCK, &set, &old);
        raise(SIGHUP);
        assert_int_equal(tell(f, o), 0);
        for (size_t i = 0; i < ARRAY_SIZE(stops); i++) {
                raise(stops[i]);
                assert_true(tell(f, o) != 0);
                sigemptyset(&set);
                sigaddset(&set, stops[i]);
                assert_int_equal(sigwait(&set, &sig), 0);
        }
        sigemptyset(&set);
        sigaddset(&set, SIGHUP);
        assert_int_equal(sigwait(&set, &sig), 0);
        sigprocmask(SIG_SETMASK, &old, NULL);
}

static void test_hidden(void **state) {
        struct fixture *f = *state;
        char link[128];

        assert_string_equal(startup_hidden("/home/nora/m.gguf"), "ProtectHome=yes");
        assert_string_equal(startup_hidden("/root/m.gguf"), "ProtectHome=yes");
        assert_string_equal(startup_hidden("/run/user/1000/m.gguf"), "ProtectHome=yes");
        assert_string_equal(startup_hidden("/var/tmp/m.gguf"), "PrivateTmp=yes");
        assert_null(startup_hidden("/var/lib/confab/models/m.gguf"));
        assert_null(startup_hidden("/homely/m.gguf"));
        assert_null(startup_hidden("m.gguf"));
        /* By where it really is. */
        snprintf(link, sizeof(link), "%s/link", f->dir);
        assert_int_equal(symlink("/etc/passwd", link), 0);
        assert_string_equal(startup_hidden("/tmp/confab-none"), "PrivateTmp=yes");
        assert_null(startup_hidden(link));
        unlink(link);
}

static void test_bytes(void **state) {
        assert_string_equal(BYTES_TEXT(0), "0 bytes");
        assert_string_equal(BYTES_TEXT(1023), "1023 bytes");
        assert_string_equal(BYTES_TEXT(1024), "1.0 KiB");
        assert_string_equal(BYTES_TEXT(1536), "1.5 KiB");
        assert_string_equal(BYTES_TEXT((1 << 20) - 1), "1.0 MiB");
        assert_string_equal(BYTES_TEXT(5 * GIB), "5.0 GiB");
        assert_string_equal(BYTES_TEXT(UINT64_MAX), "16777216.0 TiB");
}

#define startup_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                startup_test(test_stages),
                startup_test(test_larger_than_ram),
                startup_test(test_reading),
                startup_test(test_told_to_stop),
                startup_test(test_hidden),
                cmocka_unit_test(test_bytes),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
