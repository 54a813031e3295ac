/* SPDX-License-Identifier: MIT */
/* How a daemon ends: told to stop, or killed; and what survives (I4). */
#include "fixture.h"
#include <signal.h>
#include <sys/stat.h>

#define LONG 1500

static uint64_t begin_long(struct client *c, uint64_t id, struct reply *r) {
        uint64_t request = client_say_begin(
                c, &(struct say){.conv = id, .raw = " and then", .max_tokens = LONG});

        while (r->n == 0)
                assert_int_equal(client_say_next(c, request, r), 1);
        return request;
}

static void test_stop_during_generation(void **state) {
        struct harness *h = *state;
        struct reply r = {};
        struct client *c;
        struct conv v = {};
        uint64_t id, request;
        int more = 1;

        harness_start(h, NULL);
        c = harness_client(h);
        assert_int_equal(client_open(c, "a", NULL, &id), 0);
        request = begin_long(c, id, &r);
        harness_signal(h, SIGTERM);
        while (more > 0)
                more = client_say_next(c, request, &r);
        assert_int_equal(more, 0);
        assert_int_equal(r.finish, CONFAB__V1__FINISH_REASON__FINISH_CANCELLED);
        assert_true(wire_wait_eof(&c->w));
        client_free(c);
        assert_int_equal(harness_wait(h), 0);
        assert_int_equal(access(h->socket, F_OK), -1);
        /* The partial reply is kept, all of what was seen. */
        harness_start(h, NULL);
        c = harness_client(h);
        assert_int_equal(client_get(c, id, true, true, &v), 0);
        assert_int_equal(v.n_turn_list, 2);
        assert_int_equal(v.finishes[1], CONFAB__V1__FINISH_REASON__FINISH_CANCELLED);
        assert_string_equal(v.texts[1], (char *)r.text.data);
        assert_int_equal(v.revision, r.revision);
        conv_deinit(&v);
        reply_deinit(&r);
        client_free(c);
        harness_stop(h);
}

/* What @id says when it goes on from here, on a fork that is closed again. */
static void go_on(struct client *c, uint64_t id, struct reply *ret) {
        struct conv v = {};

        assert_int_equal(client_fork(c, id, NULL, -1, &v), 0);
        assert_int_equal(
                client_say(c,
                        &(struct say){.conv = v.id, .raw = " so", .max_tokens = 8, .logprobs = 5},
                        ret),
                0);
        assert_int_equal(client_close(c, v.id), 0);
        conv_deinit(&v);
}

/* Kill it again and again while it generates; whatever was seen done stays, and goes on as if
 * nothing had happened. */
static void test_kill_keeps_what_was_done(void **state) {
        struct harness *h = *state;
        struct reply r, before, after;
        struct client *c;
        struct conv v = {}, now = {};
        uint64_t id;

        harness_start(h, NULL);
        c = harness_client(h);
        assert_int_equal(client_open(c, "a", NULL, &id), 0);
        for (unsigned round = 0; round < 4; round++) {
                assert_int_equal(client_say(c,
                                         &(struct say){.conv = id,
                                                 .raw = "Once upon a time",
                                                 .max_tokens = 20 + 7 * round},
                                         &r),
                        0);
                assert_true(r.done);
                go_on(c, id, &before);
                assert_int_equal(client_get(c, id, true, true, &v), 0);
                assert_int_equal(v.revision, r.revision);
                reply_deinit(&r);
                begin_long(c, id, &r);
                reply_deinit(&r);
                harness_kill(h);
                client_free(c);

                harness_start(h, NULL);
                c = harness_client(h);
                assert_int_equal(client_get(c, id, true, true, &now), 0);
                /* What was accepted is there as well, without a reply. */
                assert_int_equal(now.n_turn_list, v.n_turn_list + 1);
                assert_true(now.n_token_list > v.n_token_list);
                assert_memory_equal(now.tokens, v.tokens, v.n_token_list * sizeof(int32_t));
                assert_int_equal(now.revision, v.revision + 1);
                assert_string_equal(now.texts[now.n_turn_list - 2], v.texts[v.n_turn_list - 1]);
                conv_deinit(&now);
                assert_int_equal(client_rewind(c, id, 1, &now), 0);
                go_on(c, id, &after);
                assert_true(reply_equal(&before, &after));
                reply_deinit(&before);
                reply_deinit(&after);
                conv_deinit(&v);
                conv_deinit(&now);
        }
        client_free(c);
        harness_stop(h);
}

/* A stale socket after a kill is no obstacle; a second daemon on a live one is refused. */
static void test_second_daemon(void **state) {
        struct harness *h = *state, second;
        struct client *c;
        char *log;

        harness_start(h, NULL);
        harness_kill(h);
        assert_int_equal(access(h->socket, F_OK), 0);
        harness_start(h, NULL);
        c = harness_client(h);
        assert_int_equal(harness_init(&second), 0);
        strcpy(second.socket, h->socket);
        assert_int_equal(harness_start_failing(&second, NULL), 3);
        log = harness_read_log(&second);
        assert_non_null(strstr(log, "another daemon"));
        free(log);
        /* Nor may two share a state folder. */
        harness_deinit(&second);
        assert_int_equal(harness_init(&second), 0);
        strcpy(second.state, h->state);
        assert_int_equal(harness_start_failing(&second, NULL), 3);
        harness_deinit(&second);
        assert_int_equal(client_open(c, "a", NULL, NULL), 0);
        client_free(c);
        harness_stop(h);
}

static void test_bad_model(void **state) {
        struct harness *h = *state;
        char *log;

        snprintf(h->model, sizeof(h->model), "%s/none.gguf", h->dir);
        assert_int_equal(harness_start_failing(h, NULL), 3);
        log = harness_read_log(h);
        assert_non_null(strstr(log, "none.gguf"));
        free(log);
        assert_int_equal(harness_start_failing(h, FLAGS("--nonsense=1")), 2);
        assert_int_equal(harness_start_failing(h, FLAGS("--threads=0")), 2);
        assert_int_equal(harness_start_failing(h, FLAGS("--max-active=257")), 2);
        /* No context is made smaller in silence. */
        snprintf(h->model, sizeof(h->model), "%s", harness_model());
        assert_int_equal(harness_start_failing(h, FLAGS("--context=1000000")), 3);
        log = harness_read_log(h);
        assert_non_null(strstr(log, "1000000"));
        assert_non_null(strstr(log, "trained for"));
        free(log);
}

/* What ExecReload= of the unit does before it tells the daemon. */
static void test_check_settings(void **state) {
        struct harness *h = *state;
        char config[160], path[128], *log;
        FILE *f;

        snprintf(path, sizeof(path), "%s/conf", h->dir);
        snprintf(config, sizeof(config), "--config=%s", path);
        f = fopen(path, "we");
        assert_non_null(f);
        fprintf(f, "max-connections = 12\n");
        fclose(f);
        assert_int_equal(harness_start_failing(h, FLAGS(config, "--check-settings")), 0);
        assert_int_equal(access(h->state, F_OK), -1);
        f = fopen(path, "we");
        fprintf(f, "max-connections = 12\nbogus = 3\n");
        fclose(f);
        assert_int_equal(harness_start_failing(h, FLAGS(config, "--check-settings")), 2);
        log = harness_read_log(h);
        assert_non_null(strstr(log, "/conf:2: unknown setting 'bogus'"));
        free(log);
}

static void test_garbage_register(void **state) {
        struct harness *h = *state;
        char path[160], *log;
        FILE *f;

        assert_int_equal(mkdir(h->state, 0700), 0);
        snprintf(path, sizeof(path), "%s/register.db", h->state);
        f = fopen(path, "w");
        assert_non_null(f);
        for (unsigned i = 0; i < 1000; i++)
                fputs("no database ", f);
        fclose(f);
        assert_int_equal(harness_start_failing(h, NULL), 3);
        log = harness_read_log(h);
        assert_non_null(strstr(log, "register"));
        free(log);
}

static void test_reload(void **state) {
        struct harness *h = *state;
        char path[160];
        FILE *f;

        snprintf(path, sizeof(path), "%s/conf", h->dir);
        f = fopen(path, "w");
        fputs("# empty\n", f);
        fclose(f);
        harness_start(h, FLAGS("--config", path));
        f = fopen(path, "w");
        fputs("max-user-connections = 1\n", f);
        fclose(f);
        harness_signal(h, SIGHUP);
        harness_wait_notify(h, "RELOADING=1");
        harness_wait_notify(h, "READY=1");
        struct client *c = harness_client(h);
        assert_null(client_connect(h->socket));
        client_free(c);
        harness_stop(h);
}

/* A reply that repeats is foreseen, until the setting says no; the reply stays what it was. Where a row
 * costs as much as a step (with a sanitizer's kernels), no draft pays, and there is nothing to switch off. */
static void test_reload_speculation(void **state) {
        static const char lines[] = "root ::= (\"one two three four five six seven. \"){8}";
        struct harness *h = *state;
        struct reply r[2] = {{}, {}};
        struct client *c;
        uint64_t drafted[2];
        char path[160];
        FILE *f;

        snprintf(path, sizeof(path), "%s/conf", h->dir);
        f = fopen(path, "w");
        fputs("speculation = auto\n", f);
        fclose(f);
        harness_start(h, FLAGS("--config", path));
        c = harness_client(h);
        for (int off = 0; off < 2; off++) {
                uint64_t id;

                assert_int_equal(client_open(c, NULL, NULL, &id), 0);
                assert_int_equal(client_say(c,
                                         &(struct say){.conv = id,
                                                 .raw = "Count: ",
                                                 .gbnf = lines,
                                                 .max_tokens = 400},
                                         &r[off]),
                        0);
                drafted[off] = client_stat(c, "tokens_drafted");
                f = fopen(path, "w");
                fputs("speculation = off\n", f);
                fclose(f);
                harness_signal(h, SIGHUP);
                harness_wait_notify(h, "RELOADING=1");
                harness_wait_notify(h, "READY=1");
        }
        assert_true(r[0].n_drafted >= r[0].n_accepted);
        assert_int_equal(r[1].n_drafted, 0);
        assert_int_equal(drafted[0], r[0].n_drafted);
        assert_int_equal(drafted[1], drafted[0]);
        assert_int_equal(client_stat(c, "tokens_accepted"), r[0].n_accepted);
        assert_int_equal(r[0].n, r[1].n);
        assert_memory_equal(r[0].logprobs, r[1].logprobs, r[0].n * sizeof(*r[0].logprobs));
        assert_string_equal(r[0].text.data, r[1].text.data);
        reply_deinit(&r[0]);
        reply_deinit(&r[1]);
        client_free(c);
        harness_stop(h);
        if (drafted[0] == 0) {
                print_message("SKIP: no draft paid here: the setting was not seen at work\n");
                skip();
        }
}

/* Signs of life and status, idle and at work. */
static void test_watchdog(void **state) {
        struct harness *h = *state;
        struct reply r = {};
        struct client *c;
        uint64_t id;

        setenv("WATCHDOG_USEC", "150000", 1);
        harness_start(h, NULL);
        unsetenv("WATCHDOG_USEC");
        harness_wait_notify(h, "STATUS=0 conversations loaded");
        harness_wait_notify(h, "WATCHDOG=1");
        c = harness_client(h);
        assert_int_equal(client_open(c, "a", NULL, &id), 0);
        begin_long(c, id, &r);
        harness_wait_notify(h, "WATCHDOG=1");
        harness_wait_notify(h, "STATUS=1 conversations loaded");
        reply_deinit(&r);
        client_free(c);
        harness_stop(h);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test(test_stop_during_generation),
                daemon_test(test_kill_keeps_what_was_done),
                daemon_test(test_second_daemon),
                daemon_test(test_bad_model),
                daemon_test(test_check_settings),
                daemon_test(test_garbage_register),
                daemon_test(test_reload),
                daemon_test(test_reload_speculation),
                daemon_test(test_watchdog),
        };

        return DAEMON_TESTS_MAIN(tests);
}
