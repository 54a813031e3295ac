/* SPDX-License-Identifier: MIT */
/* Lines and models, with daemons that the test plays: who gets which line, and what a daemon that goes leaves. */
#include "client/gateway/backend.h"
#include "peer.h"
#include "util/test.h"
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SECONDS 60

/* A daemon's socket. */
struct stage {
        char dir[32], path[64];
        int fd;
        struct event_base *base;
        struct backends *backends;
        struct gateway_owner self;
};

static int listen_at(const char *path) {
        struct sockaddr_un addr = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        assert_true(fd >= 0);
        snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
        unlink(path);
        assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
        assert_int_equal(listen(fd, 16), 0);
        return fd;
}

static void setup(struct stage *s) {
        struct err e;

        *s = (struct stage){.dir = "/tmp/confab-backend-XXXXXX", .self.uid = (uint32_t)geteuid()};
        assert_non_null(mkdtemp(s->dir));
        snprintf(s->path, sizeof(s->path), "%s/socket", s->dir);
        s->fd = listen_at(s->path);
        s->base = event_base_new();
        assert_non_null(s->base);
        if (backends_new(&s->backends, s->base, (const char *const[]){s->path}, 1, &e) < 0)
                fail_msg("%s", e.msg);
}

static void teardown(struct stage *s) {
        backends_free(s->backends);
        event_base_free(s->base);
        if (s->fd >= 0)
                close(s->fd);
        unlink(s->path);
        rmdir(s->dir);
}

static void on_guard(evutil_socket_t fd, short what, void *userdata) {
        (void)fd;
        (void)what;
        (void)userdata;
        fail_msg("nothing happened for %d seconds", SECONDS);
}

/* Until @flag. */
static void run_until(struct stage *s, const bool *flag) {
        const struct timeval guard = {.tv_sec = SECONDS};
        struct event *timer = event_new(s->base, -1, 0, on_guard, NULL);

        assert_non_null(timer);
        while (!*flag) {
                event_add(timer, &guard);
                event_base_loop(s->base, EVLOOP_ONCE);
        }
        event_free(timer);
}

/* What can be done now. */
static void run_now(struct stage *s) {
        event_base_loop(s->base, EVLOOP_NONBLOCK);
}

/* The daemon's end of the next connection, which is greeted. */
static void take_silent(struct stage *s, struct peer *peer) {
        int fd;

        run_now(s);
        fd = accept(s->fd, NULL, NULL);
        assert_true(fd >= 0);
        peer_init(peer, fd);
        peer_hello(peer);
}

/* The answer to the question for the model, which comes first. */
static void tell_model(struct peer *peer, const char *name) {
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
        Confab__V1__ModelInfoResult info = CONFAB__V1__MODEL_INFO_RESULT__INIT;

        event.has_request = true;
        event.request = peer_expect(peer, CONFAB__V1__REQUEST__VERB_MODEL_INFO);
        event.kind_case = CONFAB__V1__EVENT__KIND_MODEL_INFO;
        event.model_info = &info;
        info.name = proto_borrow(name);
        info.path = proto_borrow("/models/tiny.q8.gguf");
        info.fingerprint = proto_borrow(name);
        info.has_context = true;
        info.context = 2048;
        peer_send(peer, &event);
}

static void refuse_model(struct peer *peer) {
        uint64_t id = peer_expect(peer, CONFAB__V1__REQUEST__VERB_MODEL_INFO);

        peer_send_error(peer, id, "limit", "too many", true);
}

/* What ask() asked. */
static void answer_close(struct peer *peer) {
        peer_send_empty(peer, peer_expect(peer, CONFAB__V1__REQUEST__VERB_CLOSE));
}

/* A connection that asks for the model: it is told with @name. */
static void take(struct stage *s, struct peer *peer, const char *name) {
        take_silent(s, peer);
        tell_model(peer, name);
}

struct answers {
        bool ended, failed;
        unsigned n;
        struct line **put; /* given back within the callback */
};

static void on_event(void *userdata, const struct confab_event *event) {
        struct answers *answers = userdata;

        answers->n++;
        answers->ended = event->final;
        answers->failed = event->kind == CONFAB_EVENT_ERROR;
        if (answers->put)
                *answers->put = line_put(*answers->put);
}

static void ask(struct line *line, struct answers *answers) {
        struct confab_request request = CONFAB_REQUEST_INIT;

        *answers = (struct answers){.put = answers->put};
        request.verb = CONFAB_CLOSE;
        request.conversation_id = 1;
        assert_int_equal(line_submit(line, &request, on_event, answers, NULL, NULL), 0);
        assert_int_equal(answers->n, 0);
}

static struct line *get(struct stage *s, const struct gateway_owner *owner) {
        struct line *line;
        struct err e;

        if (line_get(&line, backends_at(s->backends, 0), owner, &e) < 0)
                fail_msg("%s", e.msg);
        return line;
}

static uint64_t count(struct stage *s, bool idle) {
        struct backend_figures figures;

        backends_figures(s->backends, &figures);
        return idle ? figures.n_idle : figures.n_lines;
}

static void test_reuse(void **state) {
        struct answers answers = {.put = NULL};
        struct line *line, *second;
        struct stage s;
        struct peer peer, other;

        (void)state;
        setup(&s);
        line = get(&s, &s.self);
        answers.put = &line;
        ask(line, &answers);
        take(&s, &peer, "m");
        answer_close(&peer);
        run_until(&s, &answers.ended);
        assert_false(answers.failed);
        assert_null(line);
        assert_int_equal(count(&s, true), 1);
        /* The same one again, and a second one beside it. */
        line = get(&s, &s.self);
        assert_int_equal(count(&s, false), 1);
        second = get(&s, &s.self);
        assert_int_equal(count(&s, false), 2);
        take_silent(&s, &other);
        /* With a request in flight it is closed, and nobody is called. */
        answers.put = NULL;
        ask(second, &answers);
        line_put(second);
        assert_int_equal(count(&s, false), 1);
        run_now(&s);
        assert_int_equal(answers.n, 0);
        line_put(line);
        assert_int_equal(count(&s, true), 1);
        peer_deinit(&peer);
        peer_deinit(&other);
        teardown(&s);
}

/* Each owner has lines of his own. */
static void test_owners(void **state) {
        struct gateway_owner anna = {.tenant = "anna"}, bert = {.tenant = "bert"};
        struct line *line, *again;
        struct stage s;

        (void)state;
        setup(&s);
        anna.uid = bert.uid = s.self.uid;
        line = get(&s, &anna);
        line_put(line);
        assert_int_equal(count(&s, true), 1);
        again = get(&s, &bert);
        assert_ptr_not_equal(again, line);
        assert_int_equal(count(&s, false), 2);
        line_put(again);
        again = get(&s, &s.self);
        assert_int_equal(count(&s, false), 3);
        line_put(again);
        anna.uid++;
        again = get(&s, &anna);
        assert_int_equal(count(&s, false), 4);
        line_put(again);
        teardown(&s);
}

/* When the daemon goes, its idle lines go, and requests get an error. */
static void test_gone(void **state) {
        struct answers answers = {.put = NULL};
        struct line *line, *idle;
        struct peer peer, other;
        struct stage s;
        struct err e;

        (void)state;
        setup(&s);
        line = get(&s, &s.self);
        idle = get(&s, &s.self);
        take(&s, &peer, "m");
        take_silent(&s, &other);
        line_put(idle);
        ask(line, &answers);
        run_now(&s);
        answers.put =
                &line; /* within the callback that tells of the end: it does not become idle */
        peer_deinit(&peer);
        run_until(&s, &answers.ended);
        assert_true(answers.failed);
        assert_int_equal(count(&s, false), 0);
        peer_deinit(&other);
        /* Given back when it has been broken for a while, a line does not become idle either. */
        line = get(&s, &s.self);
        take(&s, &peer, "m");
        answers.put = NULL;
        ask(line, &answers);
        run_now(&s);
        peer_deinit(&peer);
        run_until(&s, &answers.ended);
        line_put(line);
        assert_int_equal(count(&s, false), 0);
        close(s.fd);
        s.fd = -1;
        assert_int_equal(
                line_get(&line, backends_at(s.backends, 0), &s.self, &e), -ERR_UNAVAILABLE);
        assert_non_null(strstr(e.msg, s.path));
        assert_false(backend_model(backends_at(s.backends, 0))->reachable);
        teardown(&s);
}

/* Many connections at once ask for the model once: what the daemon is asked counts for the user. Connections that break
 * take along what is known of the model. */
static void test_asks_once(void **state) {
        struct backend *backend;
        struct answers answers = {.put = NULL};
        struct line *lines[4];
        struct peer peers[4];
        struct stage s;

        (void)state;
        setup(&s);
        backend = backends_at(s.backends, 0);
        for (size_t i = 0; i < 3; i++)
                lines[i] = get(&s, &s.self);
        take(&s, &peers[0], "m");
        for (size_t i = 1; i < 3; i++)
                take_silent(&s, &peers[i]);
        ask(lines[2], &answers);
        run_now(&s);
        assert_string_equal(backend_model(backend)->name, "m");
        answer_close(&peers[2]);
        run_until(&s, &answers.ended);
        assert_false(answers.failed);
        /* The line that asked has gone; one that lives, but never asked, does not stand for the model. */
        line_put(lines[0]);
        peer_deinit(&peers[0]);
        run_now(&s);
        lines[3] = get(&s, &s.self);
        take(&s, &peers[3], "n");
        ask(lines[3], &answers);
        run_now(&s);
        answer_close(&peers[3]);
        run_until(&s, &answers.ended);
        assert_string_equal(backend_model(backend)->name, "n");
        for (size_t i = 1; i < 4; i++) {
                line_put(lines[i]);
                peer_deinit(&peers[i]);
        }
        teardown(&s);
}

/* A line that has not asked tells nothing before the one that has knows the model. */
static void test_waits(void **state) {
        struct answers answers = {.put = NULL};
        struct line *first, *second;
        struct peer peer, other;
        struct stage s;

        (void)state;
        setup(&s);
        first = get(&s, &s.self);
        second = get(&s, &s.self);
        ask(second, &answers);
        take_silent(&s, &peer);
        take_silent(&s, &other);
        run_now(&s);
        answer_close(&other);
        run_now(&s);
        assert_int_equal(answers.n, 0);
        line_pause(second); /* of its own */
        tell_model(&peer, "m");
        run_now(&s);
        assert_int_equal(answers.n, 0);
        assert_true(backend_model(backends_at(s.backends, 0))->known);
        line_resume(second);
        run_until(&s, &answers.ended);
        assert_false(answers.failed);
        line_put(first);
        line_put(second);
        peer_deinit(&peer);
        peer_deinit(&other);
        teardown(&s);
}

/* Where the line that asked ends without an answer, or its owner does not read, another one asks that waits. */
static void test_question_goes_on(void **state) {
        struct answers answers = {.put = NULL}, unused = {.put = NULL};
        struct backend *backend;
        struct line *lines[4];
        struct peer peers[4];
        struct stage s;

        (void)state;
        setup(&s);
        backend = backends_at(s.backends, 0);
        for (size_t i = 0; i < 4; i++)
                lines[i] = get(&s, &s.self);
        for (size_t i = 0; i < 4; i++)
                take_silent(&s, &peers[i]);
        ask(lines[0], &unused);
        ask(lines[3], &answers);
        run_now(&s);
        answer_close(&peers[3]);
        line_put(lines[0]); /* closed: its request is in flight */
        run_now(&s);
        refuse_model(&peers[1]);
        run_now(&s);
        (void)peer_expect(&peers[2], CONFAB__V1__REQUEST__VERB_MODEL_INFO);
        run_now(&s);
        assert_int_equal(answers.n, 0);
        line_pause(lines[2]);
        run_until(&s, &answers.ended);
        run_now(&s);
        tell_model(&peers[3], "m");
        run_now(&s);
        assert_string_equal(backend_model(backend)->name, "m");
        for (size_t i = 1; i < 4; i++)
                line_put(lines[i]);
        for (size_t i = 0; i < 4; i++)
                peer_deinit(&peers[i]);
        teardown(&s);
}

/* Nothing is read from a paused line, so it does not notice that its daemon has gone, and another one is there. */
static void test_paused_is_gone(void **state) {
        struct answers answers = {.put = NULL};
        struct line *line, *other;
        struct peer peer, next;
        struct stage s;

        (void)state;
        setup(&s);
        line = get(&s, &s.self);
        ask(line, &answers);
        take(&s, &peer, "m");
        run_now(&s);
        line_pause(line);
        peer_deinit(&peer);
        run_now(&s);
        assert_int_equal(answers.n, 0);
        other = get(&s, &s.self);
        take(&s, &next, "n");
        run_now(&s);
        assert_string_equal(backend_model(backends_at(s.backends, 0))->name, "n");
        line_resume(line);
        run_until(&s, &answers.ended);
        assert_true(answers.failed);
        line_put(line);
        line_put(other);
        peer_deinit(&next);
        teardown(&s);
}

/* A question that the daemon refused is asked again, by the next line: also by one that has waited for its owner. */
static void test_asks_again(void **state) {
        struct line *first, *second;
        struct peer peer, other;
        struct stage s;

        (void)state;
        setup(&s);
        first = get(&s, &s.self);
        take_silent(&s, &peer);
        refuse_model(&peer);
        run_now(&s);
        second = get(&s, &s.self);
        take_silent(&s, &other);
        refuse_model(&other);
        run_now(&s);
        line_put(second);
        assert_int_equal(count(&s, true), 1);
        assert_ptr_equal(get(&s, &s.self), second);
        run_now(&s);
        tell_model(&other, "m");
        run_now(&s);
        assert_string_equal(backend_model(backends_at(s.backends, 0))->name, "m");
        line_put(first);
        line_put(second);
        peer_deinit(&peer);
        peer_deinit(&other);
        teardown(&s);
}

/* A paused line calls nobody. */
static void test_pause(void **state) {
        struct answers answers = {.put = NULL};
        struct line *line;
        struct peer peer;
        struct stage s;

        (void)state;
        setup(&s);
        line = get(&s, &s.self);
        ask(line, &answers);
        take(&s, &peer, "m");
        run_now(&s);
        line_pause(line);
        answer_close(&peer);
        run_now(&s);
        assert_int_equal(answers.n, 0);
        line_resume(line);
        run_until(&s, &answers.ended);
        line_put(line);
        peer_deinit(&peer);
        teardown(&s);
}

/* ---- models ---- */

static void on_ready(void *userdata) {
        *(bool *)userdata = true;
}

static void test_models(void **state) {
        const struct backend_model *model;
        bool ready = false, unwanted = false;
        struct backend *backend;
        struct peer peer;
        struct stage s;

        (void)state;
        setup(&s);
        backend = backends_at(s.backends, 0);
        model = backend_model(backend);
        assert_false(model->known);
        assert_int_equal(backends_refresh(s.backends, 1000000, on_ready, &ready), 0);
        assert_int_equal(backends_refresh(s.backends, 1000000, on_ready, &unwanted), 0);
        backends_forget(s.backends, &unwanted);
        assert_false(ready);
        take(&s, &peer, "m");
        /* The question of backends_refresh() itself; the line's own has been answered. */
        refuse_model(&peer);
        run_until(&s, &ready);
        assert_false(unwanted);
        assert_true(model->known);
        assert_string_equal(model->name, "m");
        assert_int_equal(model->context, 2048);
        assert_string_equal(model->socket, s.path);
        assert_ptr_equal(backends_find(s.backends, NULL), backend);
        /* Learned a moment ago, but not reached: asked again, over the idle line. */
        ready = false;
        assert_int_equal(backends_refresh(s.backends, UINT64_MAX, on_ready, &ready), 0);
        run_now(&s);
        peer_deinit(&peer);
        run_until(&s, &ready);
        assert_false(model->reachable);
        assert_true(model->known);
        teardown(&s);
}

static void test_names(void **state) {
        static const char *const names[] = {
                "m", "m:latest", "tiny.q8.gguf", "tiny.q8", "tiny.q8:latest", NULL};
        struct backends *two;
        struct line *line;
        struct peer peer;
        struct stage s;
        bool ready = false;

        (void)state;
        setup(&s);
        assert_int_equal(backends_new(&two, s.base,
                                 (const char *const[]){"/nowhere/socket", s.path}, 2, NULL),
                0);
        assert_int_equal(backends_count(two), 2);
        assert_null(backends_find(two, "m"));
        assert_int_equal(line_get(&line, backends_at(two, 1), &s.self, NULL), 0);
        take(&s, &peer, "m");
        run_now(&s);
        for (size_t i = 0; names[i]; i++)
                assert_ptr_equal(backends_find(two, names[i]), backends_at(two, 1));
        assert_null(backends_find(two, "other"));
        assert_null(backends_find(two, "m:8b"));
        assert_null(backends_find(two, "models/tiny"));
        assert_ptr_equal(backends_find(two, ""), backends_at(two, 0));
        /* With one daemon, every name is its model's. */
        assert_ptr_equal(backends_find(s.backends, "other"), backends_at(s.backends, 0));
        /* What one has learned of the system's messages is of its model. */
        backend_set_one_system(backends_at(two, 1));
        assert_true(backend_one_system(backends_at(two, 1)));
        line_put(line);
        peer_deinit(&peer);
        run_now(&s);
        assert_int_equal(line_get(&line, backends_at(two, 1), &s.self, NULL), 0);
        take(&s, &peer, "n");
        run_now(&s);
        assert_false(backend_one_system(backends_at(two, 1)));
        assert_ptr_equal(backends_find(two, "n"), backends_at(two, 1));
        /* Nobody answers the first one: it is ready all the same. */
        assert_int_equal(backends_refresh(two, UINT64_MAX, on_ready, &ready), 0);
        run_until(&s, &ready);
        assert_false(backend_model(backends_at(two, 0))->known);
        line_put(line);
        peer_deinit(&peer);
        backends_free(two);
        teardown(&s);
}

/* ---- guests ---- */

struct guest {
        struct backends_guest guest;
        unsigned n_ended;
};

static void end_guest(struct backends_guest *guest) {
        ((struct guest *)guest)->n_ended++;
}

static void test_guests(void **state) {
        struct guest stays = {.guest.end = end_guest}, goes = {.guest.end = end_guest};
        struct stage s;

        (void)state;
        setup(&s);
        backends_add_guest(s.backends, &stays.guest);
        backends_add_guest(s.backends, &goes.guest);
        backends_remove_guest(&goes.guest);
        teardown(&s);
        assert_int_equal(stays.n_ended, 1);
        assert_int_equal(goes.n_ended, 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_reuse),
                cmocka_unit_test(test_owners),
                cmocka_unit_test(test_gone),
                cmocka_unit_test(test_asks_once),
                cmocka_unit_test(test_waits),
                cmocka_unit_test(test_question_goes_on),
                cmocka_unit_test(test_paused_is_gone),
                cmocka_unit_test(test_asks_again),
                cmocka_unit_test(test_pause),
                cmocka_unit_test(test_models),
                cmocka_unit_test(test_names),
                cmocka_unit_test(test_guests),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
