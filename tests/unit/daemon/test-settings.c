/* SPDX-License-Identifier: MIT */
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "base/util.h"
#include "daemon/engine-options.h"
#include "daemon/settings.h"
#include "daemon/trusted.h"
#include "engine/engine.h"
#include "service/secret.h"
#include "util/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[64];

static void write_file(const char *text) {
        FILE *f = fopen(path, "w");

        assert_non_null(f);
        assert_true(fputs(text, f) >= 0);
        fclose(f);
}

/* Load with these flags (NULL ends); the result must be freed. */
static int load(struct settings *s, struct err *e, enum conf_action *action, ...) {
        char *argv[16] = {(char *)(uintptr_t) "confabd"};
        int argc = 1;
        va_list ap;

        va_start(ap, action);
        while ((argv[argc] = va_arg(ap, char *)))
                argc++;
        va_end(ap);
        *s = SETTINGS_NULL;
        return settings_load(s, argc, argv, action, e);
}

static void test_defaults(void **state) {
        enum conf_action action;
        struct settings s;
        struct err e;

        assert_int_equal(load(&s, &e, &action, "--model", "m.gguf", NULL), 0);
        assert_int_equal(action, CONF_RUN);
        assert_string_equal(s.model, "m.gguf");
        assert_string_equal(s.socket, "/run/confab/confab.sock");
        assert_int_equal(s.socket_mode, 0600);
        assert_int_equal(s.pool_size, 0);
        assert_int_equal(s.hello_timeout, 10000000);
        assert_int_equal(s.max_isa, UINT32_MAX);
        assert_null(s.admin_group);
        settings_deinit(&s);
}

/* Every default can be written back and read again. */
static void test_table_is_sound(void **state) {
        enum conf_action action;
        struct settings s;
        struct err e;

        assert_int_equal(load(&s, &e, &action, "--model", "m", NULL), 0);
        for (size_t i = 0; i < settings_n; i++) {
                const struct setting *t = &settings_table[i];
                struct buf b = BUF_NULL;

                assert_ptr_equal(settings_find(t->name, strlen(t->name)), t);
                assert_true(strlen(t->help) > 10 && t->help[strlen(t->help) - 1] == '.');
                assert_null(strchr(t->help, '\n'));
                assert_non_null(t->metavar);
                assert_int_equal(settings_print_value(&b, &s, t), 0);
                if (t->initial)
                        assert_string_equal((char *)b.data, t->initial);
                if (t->initial)
                        assert_int_equal(settings_set(&s, t->name, (char *)b.data, &e), 0);
                buf_deinit(&b);
        }
        settings_deinit(&s);
}

static void test_values(void **state) {
        struct settings s = SETTINGS_NULL;
        struct err e;

        assert_int_equal(settings_set(&s, "pool-size", "3G", &e), 0);
        assert_true(s.pool_size == 3ull << 30);
        assert_int_equal(settings_set(&s, "pool-size", "auto", &e), 0);
        assert_int_equal(s.pool_size, 0);
        assert_int_equal(settings_set(&s, "pool-size", "1048576", &e), 0);
        assert_int_equal(s.pool_size, 1 << 20);
        assert_int_equal(settings_set(&s, "disk-floor", "0", &e), 0);
        assert_int_equal(settings_set(&s, "socket-mode", "0666", &e), 0);
        assert_int_equal(s.socket_mode, 0666);
        assert_int_equal(settings_set(&s, "hello-timeout", "250ms", &e), 0);
        assert_int_equal(s.hello_timeout, 250000);
        assert_int_equal(settings_set(&s, "hello-timeout", "2min", &e), 0);
        assert_int_equal(s.hello_timeout, 120000000);
        assert_int_equal(settings_set(&s, "kv-type", "f32", &e), 0);
        assert_int_equal(s.kv_type, 1);
        settings_deinit(&s);
}

/* Durations are shown in the largest unit that leaves no fraction. */
static void test_durations(void **state) {
        static const char *const texts[][2] = {
                {"250ms", "250ms"}, {"50000us", "50ms"}, {"2000ms", "2s"}, {"1min", "60s"}};
        const struct setting *t = settings_find("hello-timeout", strlen("hello-timeout"));

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                struct settings s = SETTINGS_NULL;
                struct buf b = BUF_NULL;
                struct err e;

                assert_int_equal(settings_set(&s, t->name, texts[i][0], &e), 0);
                assert_int_equal(settings_print_value(&b, &s, t), 0);
                assert_string_equal((char *)b.data, texts[i][1]);
                buf_deinit(&b);
        }
}

static void test_bad_values(void **state) {
        static const char *const bad[][2] = {{"pool-size", "3X"}, {"pool-size", ""},
                {"pool-size", "-1"}, {"pool-size", "99999999999999999999"}, {"pool-size", "1"},
                {"pool-size", "20000000T"}, {"pool-size", "0"}, {"pool-size", "1 M"},
                {"threads", "0"}, {"threads", "two"}, {"threads", "1K"}, {"socket-mode", "888"},
                {"socket-mode", "01777"}, {"kv-type", "f64"}, {"hello-timeout", "0"},
                {"hello-timeout", "1 s"}, {"hello-timeout", "3 weeks"}, {"model", ""},
                {"log-level", "5"}, {"nonsense", "1"}, {"max-frame", "1"},
                {"spill-delay", "1500us"}, {"frame-timeout", "2000001us"},
                {"remote-timeout", "9ms"}, {"remote-timeout", "61s"}, {"remote-keep", "59s"},
                {"remote-keep", "none"}, {"remote-write-share", "0"}, {"remote-write-share", "101"},
                {"remote-writes-per-day", "0"}, {"remote-writes-per-day", "1K"}, {"remote", ""}};

        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                struct settings s = {.pool_size = 77, .threads = 77};
                struct err e;

                assert_int_equal(settings_set(&s, bad[i][0], bad[i][1], &e), -ERR_INVALID);
                assert_non_null(strstr(e.msg, bad[i][0]));
                assert_int_equal(s.pool_size, 77);
                assert_int_equal(s.threads, 77);
                assert_null(s.model);
        }
}

static void test_file(void **state) {
        enum conf_action action;
        struct settings s;
        struct err e;

        write_file("# a comment\n\n  threads =  3 \nmodel = /a b/c.gguf\r\nsocket=/x\n"
                   "max-active = 9");
        assert_int_equal(
                load(&s, &e, &action, "--socket=/flag", "--config", path, "--threads", "5", NULL),
                0);
        assert_int_equal(s.threads, 5);
        assert_string_equal(s.socket, "/flag");
        assert_string_equal(s.model, "/a b/c.gguf");
        assert_int_equal(s.max_active, 9);
        settings_deinit(&s);
}

static void expect_file_error(const char *text, const char *place, const char *part) {
        enum conf_action action;
        struct settings s;
        char where[96];
        struct err e;

        write_file(text);
        snprintf(where, sizeof(where), "%s%s", path, place);
        assert_int_equal(
                load(&s, &e, &action, "--model", "m", "--config", path, NULL), -ERR_INVALID);
        if (strncmp(e.msg, where, strlen(where)) != 0 || !strstr(e.msg, part))
                fail_msg("'%s' does not name '%s' and '%s'", e.msg, where, part);
        assert_null(s.model);
}

static void test_file_errors(void **state) {
        expect_file_error("threads = 1\n\nnonsense = 3\n", ":3: ", "nonsense");
        expect_file_error("threads\n", ":1: ", "name = value");
        expect_file_error("threads = x\n", ":1: ", "'x'");
        expect_file_error("\n\n\nthreads = 0\n", ":4: ", "1 to 1024");
        expect_file_error("config = /etc/passwd\n", ":1: ", "command line");
        expect_file_error("= 3\n", ":1: ", "unknown setting ''");
        expect_file_error("pool-size = 12Q\n", ":1: ", "12Q");
}

static void test_file_is_bounded(void **state) {
        enum conf_action action;
        struct settings s;
        struct err e;

        assert_int_equal(
                load(&s, &e, &action, "--model", "m", "--config", "/nonexistent", NULL), -ERR_SYS);
        assert_int_equal(
                load(&s, &e, &action, "--model", "m", "--config", "/", NULL), -ERR_INVALID);
        write_file("x");
        assert_int_equal(truncate(path, CONF_FILE_MAX + 1), 0);
        assert_int_equal(load(&s, &e, &action, "--model", "m", "--config", path, NULL), -ERR_LIMIT);
        assert_int_equal(truncate(path, 100), 0);
        assert_int_equal(
                load(&s, &e, &action, "--model", "m", "--config", path, NULL), -ERR_INVALID);
        assert_non_null(strstr(e.msg, "NUL"));
}

static void write_to(const char *file, const char *text) {
        FILE *f = fopen(file, "w");

        assert_non_null(f);
        assert_true(fputs(text, f) >= 0);
        fclose(f);
}

/* Defaults of the distribution, the administrator's file, drop-ins by name, flags. */
static void test_layers(void **state) {
        char dir[] = "/tmp/confabd-layers-XXXXXX", defaults[64], config[64], dropins[64], file[128];
        enum conf_action action;
        struct settings s;
        struct err e;

        assert_non_null(mkdtemp(dir));
        snprintf(defaults, sizeof(defaults), "%s/defaults", dir);
        snprintf(config, sizeof(config), "%s/conf", dir);
        snprintf(dropins, sizeof(dropins), "%s/conf.d", dir);
        write_to(defaults, "model = d\nthreads = 1\nmax-active = 1\nmax-queued = 1\n");
        /* Alone a file must be there; with defaults it may be missing. */
        assert_int_equal(load(&s, &e, &action, "--model", "m", "--config", config, NULL), -ERR_SYS);
        assert_non_null(strstr(e.msg, config));
        assert_int_equal(
                load(&s, &e, &action, "--defaults", defaults, "--config", config, NULL), 0);
        assert_string_equal(s.model, "d");
        settings_deinit(&s);
        /* What other packages add to the defaults, before what the administrator says. */
        snprintf(file, sizeof(file), "%s/defaults.d", dir);
        assert_int_equal(mkdir(file, 0700), 0);
        snprintf(file, sizeof(file), "%s/defaults.d/a.conf", dir);
        write_to(file, "threads = 9\nmax-active = 9\nbatch-tokens = 9\n");
        assert_int_equal(
                load(&s, &e, &action, "--defaults", defaults, "--config", config, NULL), 0);
        assert_string_equal(s.model, "d");
        assert_int_equal(s.threads, 9);
        settings_deinit(&s);
        assert_int_equal(load(&s, &e, &action, "--defaults", defaults, NULL), 0);
        assert_int_equal(s.batch_tokens, 9);
        settings_deinit(&s);
        assert_int_equal(load(&s, &e, &action, "--model", "m", "--defaults",
                                 "/nonexistent/defaults", "--config", config, NULL),
                -ERR_SYS);
        write_to(config, "model = c\nthreads = 2\nmax-active = 2\n");
        assert_int_equal(mkdir(dropins, 0700), 0);
        snprintf(file, sizeof(file), "%s/20-b.conf", dropins);
        write_to(file, "threads = 4\n");
        snprintf(file, sizeof(file), "%s/10-a.conf", dropins);
        write_to(file, "threads = 3\nlist-page = 3\n");
        snprintf(file, sizeof(file), "%s/30-c.conf.old", dropins);
        write_to(file, "nonsense\n");
        snprintf(file, sizeof(file), "%s/.40-d.conf", dropins);
        write_to(file, "nonsense\n");
        assert_int_equal(load(&s, &e, &action, "--defaults", defaults, "--config", config,
                                 "--list-page=7", NULL),
                0);
        assert_string_equal(s.model, "c");
        assert_int_equal(s.threads, 4);
        assert_int_equal(s.max_active, 2);
        assert_int_equal(s.max_queued, 1);
        assert_int_equal(s.batch_tokens, 9);
        assert_int_equal(s.list_page, 7);
        settings_deinit(&s);
        /* A drop-in that is wrong is named as well. */
        snprintf(file, sizeof(file), "%s/20-b.conf", dropins);
        write_to(file, "\nthreads = none\n");
        assert_int_equal(load(&s, &e, &action, "--config", config, NULL), -ERR_INVALID);
        assert_non_null(strstr(e.msg, "conf.d/20-b.conf:2: "));
        /* Drop-ins alone will do. */
        assert_int_equal(unlink(config), 0);
        write_to(file, "model = x\n");
        assert_int_equal(load(&s, &e, &action, "--config", config, NULL), 0);
        assert_string_equal(s.model, "x");
        settings_deinit(&s);
        assert_int_equal(unlink(file), 0);
        write_to(config, "");
        assert_int_equal(load(&s, &e, &action, "--config", config, NULL), -ERR_INVALID);
        assert_non_null(strstr(e.msg, config));
        assert_non_null(strstr(e.msg, "model = FILE"));
        snprintf(file, sizeof(file), "rm -r %s", dir);
        assert_int_equal(system(file), 0);
}

static void test_flag_errors(void **state) {
        enum conf_action action;
        struct settings s;
        struct err e;

        assert_int_equal(load(&s, &e, &action, NULL), -ERR_INVALID);
        assert_non_null(strstr(e.msg, "--model"));
        assert_int_equal(load(&s, &e, &action, "--modle", "m", NULL), -ERR_INVALID);
        assert_non_null(strstr(e.msg, "--modle"));
        assert_int_equal(load(&s, &e, &action, "--model", NULL), -ERR_INVALID);
        assert_int_equal(load(&s, &e, &action, "model", NULL), -ERR_INVALID);
        assert_int_equal(load(&s, &e, &action, "--model", "m", "--threads=0", NULL), -ERR_INVALID);
        assert_non_null(strstr(e.msg, "command line: threads"));
        assert_int_equal(
                load(&s, &e, &action, "--model", "m", "--output-low=2M", NULL), -ERR_INVALID);
        assert_int_equal(load(&s, &e, &action, "--model", "m", "--output-low=1M",
                                 "--output-high=1M", "--output-limit=4M", NULL),
                -ERR_INVALID);
        assert_non_null(strstr(e.msg, "output-low"));
        assert_int_equal(load(&s, &e, &action, "--model", "m", "--output-low=1M",
                                 "--output-high=2M", "--output-limit=2M", NULL),
                -ERR_INVALID);
        assert_non_null(strstr(e.msg, "output-limit"));
}

static void test_help_and_version(void **state) {
        struct buf out = BUF_NULL;
        enum conf_action action;
        struct settings s;
        struct err e;

        assert_int_equal(load(&s, &e, &action, "--help", NULL), 0);
        assert_int_equal(action, CONF_HELP);
        settings_deinit(&s);
        assert_int_equal(load(&s, &e, &action, "--version", NULL), 0);
        assert_int_equal(action, CONF_VERSION);
        settings_deinit(&s);
        assert_int_equal(settings_print_help(&out), 0);
        for (size_t i = 0; i < settings_n; i++) {
                char flag[64];

                snprintf(flag, sizeof(flag), "--%s ", settings_table[i].name);
                assert_non_null(strstr((char *)out.data, flag));
        }
        for (char *line = (char *)out.data, *next; (next = strchr(line, '\n')); line = next + 1)
                assert_true(next - line < 80);
        buf_deinit(&out);
}

static void test_reload(void **state) {
        char *argv[] = {(char *)(uintptr_t) "confabd", (char *)(uintptr_t) "--model",
                (char *)(uintptr_t) "m", (char *)(uintptr_t) "--config", path,
                (char *)(uintptr_t) "--max-connections=5", NULL};
        struct settings s = SETTINGS_NULL;
        enum conf_action action;
        char waiting[32];
        struct err e;

        write_file("max-user-connections = 3\n");
        assert_int_equal(settings_load(&s, 6, argv, &action, &e), 0);
        write_file("max-user-connections = 4\nmax-connections = 77\n");
        assert_int_equal(settings_reload(&s, 6, argv, waiting, sizeof(waiting), &e), 0);
        assert_string_equal(waiting, "");
        assert_int_equal(s.max_user_connections, 4);
        assert_int_equal(s.max_connections, 5); /* flags win */
        write_file("threads = 4\nmax-user-connections = 6\n");
        assert_int_equal(settings_reload(&s, 6, argv, waiting, sizeof(waiting), &e), 0);
        assert_string_equal(waiting, "threads");
        assert_int_equal(s.threads, 0);
        assert_int_equal(s.max_user_connections, 6);
        /* Texts come and go; a user that there is not changes nothing. */
        write_file("max-user-connections = 6\ntrusted-users = root, 54320\n");
        assert_int_equal(settings_reload(&s, 6, argv, waiting, sizeof(waiting), &e), 0);
        assert_string_equal(waiting, "");
        assert_string_equal(s.trusted_users, "root, 54320");
        write_file("trusted-users = no-such-user\n");
        assert_int_equal(settings_reload(&s, 6, argv, waiting, sizeof(waiting), &e), -ERR_INVALID);
        assert_non_null(strstr(e.msg, "no-such-user"));
        assert_string_equal(s.trusted_users, "root, 54320");
        write_file("admin-group = adm\nmax-user-connections = 6\n");
        assert_int_equal(settings_reload(&s, 6, argv, waiting, sizeof(waiting), &e), 0);
        assert_string_equal(waiting, "admin-group");
        assert_null(s.trusted_users);
        assert_null(s.admin_group);
        /* All that wait, as far as there is room for them. */
        write_file("admin-group = adm\nthreads = 4\nmax-user-connections = 6\ncontext = 99\n");
        assert_int_equal(settings_reload(&s, 6, argv, waiting, sizeof(waiting), &e), 0);
        assert_string_equal(waiting, "threads, context, admin-group");
        assert_int_equal(settings_reload(&s, 6, argv, waiting, 18, &e), 0);
        assert_string_equal(waiting, "threads, context,");
        write_file("max-user-connections = 7\nbroken\n");
        assert_int_equal(settings_reload(&s, 6, argv, waiting, sizeof(waiting), &e), -ERR_INVALID);
        assert_string_equal(waiting, "");
        assert_int_equal(s.max_user_connections, 6);
        settings_deinit(&s);
}

static void test_trusted(void **state) {
        struct trusted t = TRUSTED_NULL;
        struct err e;

        assert_int_equal(trusted_parse(&t, NULL, &e), 0);
        assert_int_equal(t.n, 0);
        assert_int_equal(trusted_parse(&t, " root,54320 ,\t4294967294,", &e), 0);
        assert_int_equal(t.n, 3);
        assert_true(trusted_has(&t, 0) && trusted_has(&t, 54320) && trusted_has(&t, 4294967294));
        assert_false(trusted_has(&t, 54321));
        assert_int_equal(trusted_check(&t, 54320, 7, true, &e), 0);
        assert_int_equal(trusted_check(&t, 54321, 54321, false, &e), 0);
        assert_int_equal(trusted_check(&t, 54321, 54320, false, &e), -ERR_PERMISSION);
        assert_int_equal(trusted_check(&t, 54321, 54321, true, &e), -ERR_PERMISSION);
        assert_int_equal(trusted_check(&t, 54320, UINT32_MAX, false, &e), -ERR_INVALID);
        trusted_deinit(&t);
        /* Without a list: root for all, the daemon's user for tenants of its own. */
        assert_int_equal(trusted_check(&t, 0, 7, true, &e), 0);
        assert_int_equal(trusted_check(&t, geteuid(), geteuid(), true, &e), 0);
        assert_int_equal(trusted_check(&t, geteuid() + 1, geteuid(), false, &e), -ERR_PERMISSION);
        /* (uid_t)-1 is nobody; numbers do not wrap. */
        assert_int_equal(trusted_parse(&t, "4294967295", &e), -ERR_INVALID);
        assert_int_equal(trusted_parse(&t, "4294967296", &e), -ERR_INVALID);
        assert_int_equal(trusted_parse(&t, "99999999999999999999999", &e), -ERR_INVALID);
        assert_int_equal(trusted_parse(&t, "root no-such-user", &e), -ERR_INVALID);
        assert_int_equal(trusted_parse(&t, "root -", &e), -ERR_INVALID);
        assert_int_equal(t.n, 0);
        /* Who may be missing, and who is not. */
        assert_int_equal(trusted_parse(&t, "-no-such-user,-root -54320", &e), 0);
        assert_int_equal(t.n, 2);
        assert_true(trusted_has(&t, 0) && trusted_has(&t, 54320));
        trusted_deinit(&t);
        assert_int_equal(t.n, 0);
        assert_null(t.uids);
}

static void expect_remote(const char *uri, const char *flag, const char *part) {
        enum conf_action action;
        struct settings s;
        struct err e;
        int r = load(&s, &e, &action, "--model", "m", "--remote", uri, flag, NULL);

        assert_int_equal(r, part ? -ERR_INVALID : 0);
        if (part && !strstr(e.msg, part))
                fail_msg("'%s' does not say '%s'", e.msg, part);
        assert_true(!part || !strstr(e.msg, "hush"));
        settings_deinit(&s);
}

static void test_remote(void **state) {
        enum conf_action action;
        struct settings s;
        struct err e;

        assert_int_equal(load(&s, &e, &action, "--model", "m", NULL), 0);
        assert_null(s.remote);
        assert_int_equal(s.remote_timeout, 1000000);
        assert_int_equal(s.remote_keep, 7 * 86400 * 1000000ull);
        assert_int_equal(s.remote_write_share, 25);
        assert_int_equal(s.remote_writes_per_day, 0);
        settings_deinit(&s);
        expect_remote("redis://a.example,[::1]:7000/1", NULL, NULL);
        expect_remote("rediss://a.example", "--remote-ca-file=/ca.pem", NULL);
        expect_remote("redis:///run/redis/a@b.sock", "--remote-password-file=/none", NULL);
        /* Whatever the mistake, a password is not repeated. */
        expect_remote("redis://:hush@a.example", NULL, "remote-password-file");
        expect_remote("rediss://user:hush@a.example/0", NULL, "remote-password-file");
        expect_remote("redis://user@a.example,b.example", NULL, "remote-user");
        expect_remote("valkey://user:hush@a.example", NULL, "redis://");
        expect_remote("hush", NULL, "redis://");
        expect_remote("/run/redis/redis-server.sock", NULL, "redis://");
        expect_remote("redis://a", "--remote-user=u", "remote-password-file");
        expect_remote("redis://a", "--remote-ca-file=/ca.pem", "rediss://");
        /* Without it the others mean nothing. */
        assert_int_equal(load(&s, &e, &action, "--model", "m", "--remote-user=u", NULL), 0);
        settings_deinit(&s);
}

static void expect_password(const struct settings *s, const char *want) {
        _cleanup_(secret_freep) char *password = NULL;
        struct err e;

        assert_int_equal(engine_options_password(s, &password, &e), 0);
        if (want)
                assert_string_equal(password, want);
        else
                assert_null(password);
}

static void expect_no_password(const struct settings *s, int r, const char *part) {
        char *password = NULL;
        struct err e;

        assert_int_equal(engine_options_password(s, &password, &e), r);
        assert_null(password);
        if (!strstr(e.msg, part) || !strstr(e.msg, "remote-password-file: "))
                fail_msg("'%s' does not say '%s'", e.msg, part);
}

static void test_password_file(void **state) {
        char uri[] = "redis://a", none[] = "/nonexistent/password", folder[] = "/tmp";
        struct settings s = {.remote_password_file = none};

        expect_password(&s, NULL); /* it is not read */
        s = (struct settings){.remote = uri};
        expect_password(&s, NULL);
        s.remote_password_file = none;
        expect_no_password(&s, -ERR_SYS, none);
        s.remote_password_file = folder;
        expect_no_password(&s, -ERR_INVALID, "not a file");
        s.remote_password_file = path;
        write_file("a word, and another\r\n# what else is there\n");
        assert_int_equal(chmod(path, 0600), 0);
        expect_password(&s, "a word, and another");
        write_file("one");
        expect_password(&s, "one");
        assert_int_equal(chmod(path, 0400), 0);
        expect_password(&s, "one");
        for (mode_t bit = 1; bit < 0100; bit <<= 1) {
                assert_int_equal(chmod(path, 0600 | bit), 0);
                expect_no_password(&s, -ERR_PERMISSION, "readable by its owner only");
        }
        if (geteuid() == 0) {
                /* As a service manager passes it, with an ACL. */
                assert_int_equal(chmod(path, 0440), 0);
                expect_password(&s, "one");
                assert_int_equal(chown(path, 0, 12345), 0);
                expect_no_password(&s, -ERR_PERMISSION, "0440");
                assert_int_equal(chmod(path, 0400), 0);
                assert_int_equal(chown(path, 12345, 0), 0);
                expect_no_password(&s, -ERR_PERMISSION, "12345");
                assert_int_equal(chown(path, 0, 0), 0);
        }
        assert_int_equal(chmod(path, 0600), 0);
        write_file("");
        expect_no_password(&s, -ERR_INVALID, "empty");
        write_file("\nsecond\n");
        expect_no_password(&s, -ERR_INVALID, "empty");
        write_file("x");
        assert_int_equal(truncate(path, 100), 0);
        expect_no_password(&s, -ERR_INVALID, "NUL");
        assert_int_equal(truncate(path, 65537), 0);
        expect_no_password(&s, -ERR_INVALID, "65536");
}

/* What the table takes, the engine takes; more is refused here, and nowhere clamped. */
static void test_ranges_are_the_engines(void **state) {
        static const struct {
                const char *name, *most, *more;
        } ranges[] = {{"max-active", "256", "257"}, {"list-page", "256", "257"},
                {"batch-tokens", "65536", "65537"}};
        struct settings s = SETTINGS_NULL;
        struct err e;

        for (size_t i = 0; i < ARRAY_SIZE(ranges); i++) {
                assert_int_equal(settings_set(&s, ranges[i].name, ranges[i].most, &e), 0);
                assert_int_equal(
                        settings_set(&s, ranges[i].name, ranges[i].more, &e), -ERR_INVALID);
                assert_non_null(strstr(e.msg, ranges[i].most));
        }
        assert_int_equal(s.max_active, ENGINE_MAX_ACTIVE);
        assert_int_equal(s.list_page, ENGINE_MAX_LIST);
        assert_int_equal(s.batch_tokens, ENGINE_MAX_BATCH);
}

/* The part of a man page between its markers is what the table makes of itself. */
static void check_man(const char *page, bool flags) {
        char file[512], *text = NULL, *begin, *end;
        struct buf want = BUF_NULL;
        struct err e;

        snprintf(file, sizeof(file), "%s/docs/%s", TEST_SOURCE_ROOT, page);
        assert_int_equal(file_read_all(file, 1 << 20, &text, NULL, &e), 0);
        assert_int_equal(settings_print_man(&want, flags), 0);
        begin = strstr(text, ".\\\" settings-begin\n");
        end = strstr(text, ".\\\" settings-end\n");
        assert_true(begin && end && begin < end);
        begin = strchr(begin, '\n') + 1;
        *end = 0;
        if (strcmp(begin, (char *)want.data) != 0) {
                print_error("%s: the list of settings is not the table's. It should be:\n%s", page,
                        (char *)want.data);
                fail();
        }
        free(text);
        buf_deinit(&want);
}

static void test_man_pages(void **state) {
        check_man("confabd.8", true);
        check_man("confabd.conf.5", false);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_defaults),
                cmocka_unit_test(test_table_is_sound),
                cmocka_unit_test(test_values),
                cmocka_unit_test(test_durations),
                cmocka_unit_test(test_bad_values),
                cmocka_unit_test(test_file),
                cmocka_unit_test(test_file_errors),
                cmocka_unit_test(test_file_is_bounded),
                cmocka_unit_test(test_layers),
                cmocka_unit_test(test_flag_errors),
                cmocka_unit_test(test_help_and_version),
                cmocka_unit_test(test_reload),
                cmocka_unit_test(test_trusted),
                cmocka_unit_test(test_remote),
                cmocka_unit_test(test_password_file),
                cmocka_unit_test(test_ranges_are_the_engines),
                cmocka_unit_test(test_man_pages),
        };
        int r, fd;

        strcpy(path, "/tmp/confabd-conf-XXXXXX");
        fd = mkstemp(path);
        if (fd < 0)
                return 1;
        close(fd);
        r = cmocka_run_group_tests(tests, NULL, NULL);
        unlink(path);
        return r;
}
