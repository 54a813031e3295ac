/* SPDX-License-Identifier: MIT */
/* The real daemon and peers that break the protocol: they get an error, the connection is closed,
 * and the daemon keeps serving others. */
#include "fixture.h"
#include <sys/resource.h>

static void expect_error(struct wire *w, const char *code) {
        struct proto_message *m = wire_event(w);

        assert_non_null(m);
        assert_int_equal(m->event->kind_case, CONFAB__V1__EVENT__KIND_ERROR);
        assert_string_equal(m->event->error->code, code);
        proto_message_free(m);
}

static void expect_serves(struct harness *h) {
        struct client *c = harness_client(h);

        assert_true(client_stat(c, "requests") < 1000000);
        client_free(c);
}

static void expect_broken(struct harness *h, const void *data, size_t n, const char *code) {
        struct client *c = harness_client(h);

        assert_true(wire_send_bytes(&c->w, data, n));
        expect_error(&c->w, code);
        assert_true(wire_wait_eof(&c->w));
        client_free(c);
        expect_serves(h);
}

static void test_malformed(void **state) {
        struct harness *h = *state;
        struct wire w;

        harness_start(h, NULL);
        expect_broken(h, "\0", 1, "format");
        expect_broken(h, "\x81\x00", 2, "format");
        expect_broken(h, "\xff\xff\xff\xff\xff", 5, "format");
        expect_broken(h, "\xff\xff\xff\xff\x0f", 5, "limit");
        expect_broken(h, "\x03\xff\xff\xff", 4, "format");
        expect_broken(h, "\x02\x7a\x00", 3, "invalid");
        /* One byte more than the daemon takes. */
        expect_broken(h, "\x81\x80\x80\x02", 4, "limit");
        /* Another protocol. */
        assert_int_equal(wire_connect(&w, h->socket, wire_poll, NULL), 0);
        assert_true(wire_send_bytes(&w, "GET / HTTP/1.1\r\n\r\n", 18));
        assert_true(wire_send_bytes(&w, (char[100]){}, 100));
        assert_true(wire_wait_eof(&w));
        wire_close(&w);
        /* Another version. */
        assert_int_equal(wire_connect(&w, h->socket, wire_poll, NULL), 0);
        wire_send_hello(&w, 99, 0);
        expect_error(&w, "unsupported");
        assert_true(wire_wait_eof(&w));
        wire_close(&w);
        expect_serves(h);
        harness_stop(h);
}

/* A valid request cut at every place, and with every byte changed. */
static void test_truncated_and_flipped(void **state) {
        struct harness *h = *state;
        Confab__V1__Request r = CONFAB__V1__REQUEST__INIT;
        Confab__V1__Continue m = CONFAB__V1__CONTINUE__INIT;
        Confab__V1__Ref ref = CONFAB__V1__REF__INIT;
        Confab__V1__Sampling s = CONFAB__V1__SAMPLING__INIT;
        char *stops[] = {proto_borrow("stop")};
        struct buf out = BUF_NULL;
        struct client *c;

        harness_start(h, NULL);
        r.has_id = true;
        r.id = 5;
        r.verb_case = CONFAB__V1__REQUEST__VERB_CONTINUE;
        r.continue_ = &m;
        m.conversation = &ref;
        ref.name = proto_borrow("nobody");
        m.input_case = CONFAB__V1__CONTINUE__INPUT_MESSAGE;
        m.message = proto_borrow("Hello");
        m.sampling = &s;
        s.has_temperature = true;
        s.temperature = 0.5f;
        m.stop = stops;
        m.n_stop = 1;
        assert_int_equal(proto_append_frame(&out, &r.base, 1000, NULL), 0);
        for (size_t i = 0; i < out.size; i++) {
                c = harness_client(h);
                wire_send_bytes(&c->w, out.data, i);
                client_free(c);
        }
        for (size_t i = 0; i < out.size; i++) {
                c = harness_client(h);
                out.data[i] ^= (uint8_t)(1 + i * 37 % 255);
                wire_send_bytes(&c->w, out.data, out.size);
                out.data[i] ^= (uint8_t)(1 + i * 37 % 255);
                client_free(c);
        }
        expect_serves(h);
        harness_stop(h);
        buf_deinit(&out);
}

static void test_errors_name_the_problem(void **state) {
        struct harness *h = *state;
        struct client *c;
        struct conv v;

        harness_start(h, NULL);
        c = harness_client(h);
        assert_int_equal(client_get(c, 12345, false, false, &v), -1);
        assert_string_equal(c->error.code, "not_found");
        assert_non_null(strstr(c->error.message, "12345"));
        assert_false(c->error.retry);
        assert_int_equal(client_get_name(c, "nobody", &v), -1);
        assert_string_equal(c->error.code, "not_found");
        assert_int_equal(client_open(c, "a", NULL, NULL), 0);
        assert_int_equal(client_open(c, "a", NULL, NULL), -1);
        assert_string_equal(c->error.code, "exists");
        assert_int_equal(client_open(c, "12", NULL, NULL), -1);
        assert_string_equal(c->error.code, "invalid");
        client_free(c);
        harness_stop(h);
}

static void test_hundreds_of_connections(void **state) {
        struct harness *h = *state;
        struct rlimit files;
        struct client *c[400];
        struct wire extra;

        assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
        if (files.rlim_cur < 1024) {
                files.rlim_cur = files.rlim_max < 4096 ? files.rlim_max : 4096;
                setrlimit(RLIMIT_NOFILE, &files);
        }
        if (files.rlim_cur < 600) {
                print_message("SKIP: no more than %llu descriptors are allowed here\n",
                        (unsigned long long)files.rlim_cur);
                skip();
        }
        harness_start(h, FLAGS("--max-user-connections=400"));
        for (size_t i = 0; i < 400; i++)
                c[i] = harness_client(h);
        for (size_t i = 0; i < 400; i++)
                assert_int_equal(client_open(c[i], NULL, NULL, NULL), 0);
        assert_int_equal(client_stat(c[0], "connections"), 400);
        /* One more is told why not. */
        assert_int_equal(wire_connect(&extra, h->socket, wire_poll, NULL), 0);
        expect_error(&extra, "limit");
        assert_true(wire_wait_eof(&extra));
        wire_close(&extra);
        /* The daemon learns that they have gone one after the other: until then there is no room.
         */
        for (size_t i = 1; i < 400; i++)
                client_free(c[i]);
        while (client_stat(c[0], "connections") >= 400)
                ;
        expect_serves(h);
        client_free(c[0]);
        harness_stop(h);
}

/* Descriptors run out: who is there is served, who waits is taken later. */
static void test_out_of_descriptors(void **state) {
        struct harness *h = *state;
        struct rlimit old, low;
        struct client *c;
        struct wire w[64];

        assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
        low = old;
        low.rlim_cur = 48;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
        harness_start(h, NULL);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
        c = harness_client(h);
        for (size_t i = 0; i < 64; i++)
                assert_int_equal(wire_connect(&w[i], h->socket, wire_poll, NULL), 0);
        assert_true(client_stat(c, "connections") < 48);
        for (size_t i = 0; i < 63; i++)
                wire_close(&w[i]);
        assert_true(wire_hello(&w[63]));
        wire_close(&w[63]);
        client_free(c);
        harness_stop(h);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test(test_malformed),
                daemon_test(test_truncated_and_flipped),
                daemon_test(test_errors_name_the_problem),
                daemon_test(test_hundreds_of_connections),
                daemon_test(test_out_of_descriptors),
        };

        return DAEMON_TESTS_MAIN(tests);
}
