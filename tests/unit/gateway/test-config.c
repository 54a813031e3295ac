/* SPDX-License-Identifier: MIT */
/* The gateway's settings: the table is sound, lists grow within a source, and what does not go together is refused. */
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "client/gateway/config.h"
#include "util/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[64];

/* Load with these flags (NULL ends); the result must be freed. */
static int load(struct gateway_config *config, struct err *e, ...) {
        char *argv[16] = {(char *)(uintptr_t) "confab-gateway"};
        enum conf_action action;
        int argc = 1;
        va_list ap;

        va_start(ap, e);
        while ((argv[argc] = va_arg(ap, char *)))
                argc++;
        va_end(ap);
        *config = GATEWAY_CONFIG_NULL;
        return conf_load(&gateway_conf, config, argc, argv, &action, e);
}

static void write_file(const char *text) {
        FILE *f = fopen(path, "w");

        assert_non_null(f);
        assert_true(fputs(text, f) >= 0);
        fclose(f);
}

static void test_table_is_sound(void **state) {
        struct gateway_config config;
        struct err e;

        assert_int_equal(load(&config, &e, NULL), 0);
        assert_true(gateway_conf.n <= CONF_MAX_SETTINGS);
        for (size_t i = 0; i < gateway_conf.n; i++) {
                const struct setting *t = &gateway_conf.table[i];
                struct buf b = BUF_NULL;

                assert_ptr_equal(conf_find(&gateway_conf, t->name, strlen(t->name)), t);
                assert_true(strlen(t->help) > 10 && t->help[strlen(t->help) - 1] == '.');
                assert_int_equal(!t->metavar, t->type == SETTING_FLAG);
                assert_int_equal(conf_print_value(&b, &config, t), 0);
                if (t->initial && t->type != SETTING_DURATION)
                        assert_string_equal((char *)b.data, t->initial);
                if (t->initial)
                        assert_int_equal(
                                conf_set(&gateway_conf, &config, t->name, (char *)b.data, &e), 0);
                buf_deinit(&b);
        }
        gateway_config_deinit(&config);
}

static void test_lists(void **state) {
        struct gateway_config config;
        const char *at, *word;
        struct err e;
        size_t n;

        /* flags add to each other, and replace the file's and the default */
        write_file("daemon = /a\ndaemon=/b, /c\nallow-host = x\n");
        assert_int_equal(load(&config, &e, "--config", path, NULL), 0);
        assert_string_equal(config.daemons, "/a /b, /c");
        assert_string_equal(config.allow_hosts, "x");
        gateway_config_deinit(&config);
        assert_int_equal(
                load(&config, &e, "--daemon", "/d", "--config", path, "--daemon=/e", NULL), 0);
        assert_string_equal(config.daemons, "/d /e");
        gateway_config_deinit(&config);
        assert_int_equal(load(&config, &e, NULL), 0);
        assert_string_equal(config.daemons, "/run/confab/confab.sock");
        gateway_config_deinit(&config);
        assert_int_equal(load(&config, &e, "--daemon", " , ", NULL), -ERR_INVALID);
        at = " , /a\t/bc,,/d ";
        word = conf_next_word(&at, &n);
        assert_true(n == 2 && memcmp(word, "/a", 2) == 0);
        word = conf_next_word(&at, &n);
        assert_true(n == 3 && memcmp(word, "/bc", 3) == 0);
        word = conf_next_word(&at, &n);
        assert_true(n == 2 && memcmp(word, "/d", 2) == 0);
        assert_null(conf_next_word(&at, &n));
        at = NULL;
        assert_null(conf_next_word(&at, &n));
        unlink(path);
}

static void test_together(void **state) {
        struct gateway_config config;
        struct err e;

        assert_int_equal(load(&config, &e, "--tcp", "127.0.0.1:80", NULL), -ERR_INVALID);
        assert_non_null(strstr(e.msg, "token-file"));
        assert_int_equal(load(&config, &e, "--tcp", "127.0.0.1:80", "--token-file", "/t", NULL), 0);
        gateway_config_deinit(&config);
        assert_int_equal(load(&config, &e, "--output-low", "256K", NULL), -ERR_INVALID);
        assert_int_equal(load(&config, &e, "--max-body", "300M", NULL), -ERR_INVALID);
        assert_int_equal(load(&config, &e, "--tenant-header", "X-User", NULL), -ERR_INVALID);
        assert_int_equal(load(&config, &e, "--tenant-header", "x-user", NULL), 0);
        gateway_config_deinit(&config);
        assert_int_equal(load(&config, &e, "--check", NULL), -ERR_INVALID); /* confabd has it */
        assert_int_equal(load(&config, &e, "--check-settings", NULL), 0);
        gateway_config_deinit(&config);
}

static void test_reload(void **state) {
        char *argv[] = {
                (char *)(uintptr_t) "confab-gateway", (char *)(uintptr_t) "--config", path, NULL};
        struct gateway_config config;
        char waiting[32];
        struct err e;

        write_file("allow-origin = http://a\nmax-choices = 2\n");
        assert_int_equal(load(&config, &e, "--config", path, NULL), 0);
        write_file(
                "allow-origin = http://b\nallow-origin = http://c\nmax-choices = 3\nlisten = /x\n");
        assert_int_equal(
                conf_reload(&gateway_conf, &config, 3, argv, waiting, sizeof(waiting), &e), 0);
        assert_string_equal(config.allow_origins, "http://b http://c");
        assert_int_equal(config.max_choices, 3);
        assert_string_equal(waiting, "listen");
        assert_string_equal(config.listen, "/run/confab/gateway.sock");
        write_file("tcp = 1.2.3.4:5\n");
        assert_int_equal(conf_reload(&gateway_conf, &config, 3, argv, waiting, sizeof(waiting), &e),
                -ERR_INVALID);
        assert_int_equal(config.max_choices, 3);
        gateway_config_deinit(&config);
        unlink(path);
}

static void test_flag(void **state) {
        struct gateway_config config;
        struct buf text = BUF_NULL;
        struct err e;

        assert_int_equal(load(&config, &e, "--tcp", "127.0.0.1:80", "--open", NULL), 0);
        assert_int_equal(config.open, 1);
        assert_string_equal(config.tcp, "127.0.0.1:80");
        gateway_config_deinit(&config);
        assert_int_equal(load(&config, &e, "--open", "--open", "--shift", "yes", NULL), 0);
        assert_int_equal(config.open, 1);
        assert_int_equal(config.shift, 1);
        assert_int_equal(conf_print_value(&text, &config, conf_find(&gateway_conf, "open", 4)), 0);
        assert_string_equal((char *)text.data, "yes");
        assert_int_equal(conf_set(&gateway_conf, &config, "open", "no", &e), 0);
        assert_int_equal(config.open, 0);
        assert_int_equal(conf_set(&gateway_conf, &config, "open", "1", &e), -ERR_INVALID);
        gateway_config_deinit(&config);
        buf_deinit(&text);
        assert_int_equal(load(&config, &e, NULL), 0);
        assert_int_equal(config.open, 0);
        gateway_config_deinit(&config);
        assert_int_equal(load(&config, &e, "--open=yes", NULL), -ERR_INVALID);
        assert_non_null(strstr(e.msg, "takes no value"));
        assert_int_equal(load(&config, &e, "--open", "yes", NULL), -ERR_INVALID);
        write_file("open = yes\n");
        assert_int_equal(load(&config, &e, "--config", path, NULL), -ERR_INVALID);
        unlink(path);
}

/* What was given is known, be it the default, and wherever it was given. */
static void test_given(void **state) {
        static const char *const given[] = {"daemon", "expire", "config"};
        struct gateway_config config, copy = GATEWAY_CONFIG_NULL;
        struct err e;

        write_file("expire = 720h\n");
        assert_int_equal(
                load(&config, &e, "--daemon", "/run/confab/confab.sock", "--config", path, NULL),
                0);
        assert_int_equal(conf_copy(&gateway_conf, &copy, &config, &e), 0);
        for (size_t i = 0; i < gateway_conf.n; i++) {
                const char *name = gateway_conf.table[i].name;
                bool wanted = false;

                for (size_t j = 0; j < sizeof(given) / sizeof(given[0]); j++)
                        wanted = wanted || strcmp(name, given[j]) == 0;
                assert_int_equal(conf_is_given(&gateway_conf, &config, name), wanted);
                assert_int_equal(conf_is_given(&gateway_conf, &copy, name), wanted);
        }
        gateway_config_deinit(&copy);
        gateway_config_deinit(&config);
        assert_int_equal(load(&config, &e, NULL), 0);
        assert_false(conf_is_given(&gateway_conf, &config, "daemon"));
        gateway_config_deinit(&config);
        unlink(path);
}

/* The part of the man page between its markers is what the table makes of itself. */
static void test_man_page(void **state) {
        struct buf want = BUF_NULL;
        char *page, *begin;
        size_t size;
        struct err e;

        assert_int_equal(conf_print_man(&gateway_conf, &want, true), 0);
        assert_int_equal(
                file_read_all(TEST_SOURCE_ROOT "/docs/confab-gateway.8", 1 << 20, &page, &size, &e),
                0);
        begin = strstr(page, ".\\\" settings-begin\n");
        assert_non_null(begin);
        begin = strchr(begin, '\n') + 1;
        if (strncmp(begin, (char *)want.data, want.size) != 0) {
                fputs((char *)want.data, stderr);
                fail_msg("docs/confab-gateway.8: the settings are not those of the table");
        }
        assert_memory_equal(begin + want.size, ".\\\" settings-end\n", 17);
        free(page);
        buf_deinit(&want);
}

static void test_help(void **state) {
        struct buf out = BUF_NULL;

        assert_int_equal(conf_print_help(&gateway_conf, &out), 0);
        assert_non_null(strstr((char *)out.data, "\n  --daemon PATH (default: "));
        assert_non_null(strstr((char *)out.data, "\n  --open\n"));
        assert_non_null(strstr((char *)out.data, "\n  --check-settings\n"));
        assert_null(strstr((char *)out.data, "--check\n"));
        buf_deinit(&out);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_table_is_sound),
                cmocka_unit_test(test_lists),
                cmocka_unit_test(test_together),
                cmocka_unit_test(test_reload),
                cmocka_unit_test(test_flag),
                cmocka_unit_test(test_given),
                cmocka_unit_test(test_man_page),
                cmocka_unit_test(test_help),
        };

        snprintf(path, sizeof(path), "/tmp/confab-test-%ld.conf", (long)getpid());
        return cmocka_run_group_tests(tests, NULL, NULL);
}
