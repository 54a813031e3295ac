/* SPDX-License-Identifier: MIT */
/* The request log: a line for each request of a peer that ends, however it does, with its fields. This program is the journal. */
#include "daemon-fixture.h"
#include <sys/stat.h>
#include <sys/uio.h>

#define LINES_MAX 64

static struct {
        size_t n;
        char lines[LINES_MAX][8192]; /* fields, each with a blank in front and one behind */
} journal;

int sd_journal_sendv(const struct iovec *iov, int n);
int sd_journal_sendv(const struct iovec *iov, int n) {
        char *line = journal.lines[journal.n];
        size_t at = 0;

        assert_true(journal.n < LINES_MAX);
        journal.n++;
        for (int i = 0; i < n; i++) {
                assert_true(at + iov[i].iov_len + 3 < sizeof(journal.lines[0]));
                line[at++] = ' ';
                memcpy(line + at, iov[i].iov_base, iov[i].iov_len);
                at += iov[i].iov_len;
        }
        line[at++] = ' ';
        line[at] = '\0';
        return 0;
}

/* Standard error is a file that JOURNAL_STREAM names. */
static void begin(struct fixture *f, bool on) {
        char stream[64];
        struct stat st;

        assert_int_equal(fstat(STDERR_FILENO, &st), 0);
        snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)st.st_dev,
                (unsigned long long)st.st_ino);
        setenv("JOURNAL_STREAM", stream, 1);
        log_init("confabd", LOG_INFO);
        unsetenv("JOURNAL_STREAM");
        f->settings.log_level = LOG_INFO;
        f->settings.request_log = on;
        fixture_start(f);
        journal.n = 0;
}

static void expect(size_t i, const char *part) {
        if (i >= journal.n || !strstr(journal.lines[i], part))
                fail_msg("no \"%s\" in line %zu of %zu: %s", part, i, journal.n,
                        i < journal.n ? journal.lines[i] : "");
}

static void emit_done(uint64_t handle) {
        fake_emit(&(struct engine_event){.handle = handle,
                .kind = ENGINE_ACCEPTED,
                .accepted = {.conv = 12, .n_prompt = 100}});
        fake_emit(&(struct engine_event){.handle = handle,
                .kind = ENGINE_DONE,
                .final = true,
                .done = {.finish = ENGINE_FINISH_LENGTH,
                        .n_prompt = 100,
                        .n_ram = 50,
                        .n_disk = 30,
                        .n_shared = 15,
                        .n_computed = 5,
                        .n_generated = 7,
                        .queued_usec = 11,
                        .restore_usec = 12,
                        .prefill_usec = 13,
                        .decode_usec = 14}});
}

static void test_off(void **state) {
        struct fixture *f = *state;
        struct wire w;
        uint64_t id;

        begin(f, false);
        fixture_client(f, &w);
        id = fixture_send_continue(&w, "a secret", false);
        fixture_wait_requests(f, 1);
        fake_emit_done(fake.requests[0].r.handle);
        proto_message_free(expect_kind(&w, id, CONFAB__V1__EVENT__KIND_DONE));
        wire_close(&w);
        fixture_wait_peers(f, 0);
        assert_int_equal(journal.n, 0);
}

static void test_done(void **state) {
        struct fixture *f = *state;
        char uid[64];
        struct wire w;
        uint64_t id;

        begin(f, true);
        fixture_client(f, &w);
        id = fixture_send_continue(&w, "a secret", false);
        fixture_wait_requests(f, 1);
        fake_emit_delta(fake.requests[0].r.handle, "another secret", 1);
        emit_done(fake.requests[0].r.handle);
        proto_message_free(expect_kind(&w, id, CONFAB__V1__EVENT__KIND_DELTA));
        proto_message_free(expect_kind(&w, id, CONFAB__V1__EVENT__KIND_ACCEPTED));
        proto_message_free(expect_kind(&w, id, CONFAB__V1__EVENT__KIND_DONE));
        assert_int_equal(journal.n, 1);
        snprintf(uid, sizeof(uid), " CONFAB_UID=%u CONFAB_PID=%d ", geteuid(), getpid());
        expect(0, uid);
        expect(0, logged_table[LOGGED_REQUEST].id);
        expect(0, " PRIORITY=6 ");
        expect(0, " CONFAB_CONVERSATION=12 CONFAB_VERB=continue CONFAB_RESULT=ok CONFAB_USEC=");
        expect(0, " CONFAB_FINISH=length CONFAB_QUEUED_USEC=11 CONFAB_RESTORE_USEC=12 "
                  "CONFAB_PREFILL_USEC=13 CONFAB_DECODE_USEC=14 CONFAB_PROMPT_TOKENS=100 "
                  "CONFAB_RAM_TOKENS=50 CONFAB_DISK_TOKENS=30 CONFAB_SHARED_TOKENS=15 "
                  "CONFAB_COMPUTED_TOKENS=5 CONFAB_GENERATED_TOKENS=7 ");
        assert_null(strstr(journal.lines[0], "secret"));
        assert_null(strstr(journal.lines[0], "CONFAB_BYTES_OUT=0 "));
        assert_null(strstr(journal.lines[0], "CONFAB_BYTES_IN=0 "));
        wire_close(&w);
        fixture_wait_peers(f, 0);
        assert_int_equal(journal.n, 1);
}

/* Refused by the engine, by the daemon, and at once; an answer of the daemon's own. */
static void test_errors(void **state) {
        struct fixture *f = *state;
        struct wire w;
        uint64_t id;

        begin(f, true);
        fixture_client(f, &w);
        id = fixture_send_continue(&w, "a secret", false);
        fixture_wait_requests(f, 1);
        fake_emit_error(fake.requests[0].r.handle, ERR_NOT_FOUND, "there is no 'name'");
        expect_error(&w, id, "not_found", false);
        expect(0, " CONFAB_CONVERSATION=7 CONFAB_VERB=continue CONFAB_RESULT=not_found ");
        assert_null(strstr(journal.lines[0], "CONFAB_FINISH"));
        assert_null(strstr(journal.lines[0], "'name'"));

        fake_fail_submit(ERR_SHUTDOWN, "no more");
        id = fixture_send_stats(&w);
        expect_error(&w, id, "shutdown", true);
        expect(1, " CONFAB_VERB=stats CONFAB_RESULT=shutdown ");
        {
                REQUEST(r, SETTINGS, Settings, settings, m);
                id = wire_send(&w, &r);
        }
        proto_message_free(expect_kind(&w, id, CONFAB__V1__EVENT__KIND_SETTINGS));
        expect(2, " CONFAB_VERB=settings CONFAB_RESULT=ok ");
        assert_int_equal(journal.n, 3);
        wire_close(&w);
}

/* Whose connection ends: the request has; a detached one goes on, and ends when it does. */
static void test_disconnected(void **state) {
        struct fixture *f = *state;
        struct wire w;

        begin(f, true);
        fixture_client(f, &w);
        fixture_send_continue(&w, "one", false);
        fixture_send_continue(&w, "two", true);
        fixture_send_continue(&w, "three", true);
        fixture_wait_requests(f, 3);
        wire_close(&w);
        fixture_wait_peers(f, 0);
        assert_int_equal(journal.n, 1);
        expect(0, " CONFAB_RESULT=disconnected ");
        fake_emit_error(fake.requests[0].r.handle, ERR_CANCELLED, "cancelled");
        emit_done(fake.requests[1].r.handle);
        fake_emit_error(fake.requests[2].r.handle, ERR_CONTEXT, "too long");
        while (requests_count(&f->d->requests) > 0)
                daemon_step(f->d);
        assert_int_equal(journal.n, 3);
        expect(1, " CONFAB_CONVERSATION=12 CONFAB_VERB=continue CONFAB_RESULT=ok ");
        expect(1, " CONFAB_GENERATED_TOKENS=7 ");
        expect(2, " CONFAB_RESULT=context_length_exceeded ");
}

/* The daemon ends before a detached request does: nothing is left. */
static void test_end_of_all(void **state) {
        struct fixture *f = *state;
        struct wire w;

        begin(f, true);
        fixture_client(f, &w);
        fixture_send_continue(&w, "two", true);
        fixture_wait_requests(f, 1);
        wire_close(&w);
        fixture_wait_peers(f, 0);
        assert_int_equal(journal.n, 0);
}

/* For whom a peer acts is who is named, beside the peer; switched off, requests that run are told of. */
static void test_acting(void **state) {
        struct fixture *f = *state;
        char actor[64];
        struct wire w;
        uint64_t id;

        begin(f, true);
        fixture_connect(f, &w);
        id = wire_send_hello_for(&w, NULL, "anna");
        fixture_wait_requests(f, 1);
        fake_emit_owner(fake.requests[0].r.handle, 3);
        proto_message_free(wire_event_for(&w, id));
        journal.n = 0;
        id = fixture_send_continue(&w, "a secret", false);
        fixture_wait_requests(f, 2);
        f->settings.request_log = false;
        emit_done(fake.requests[1].r.handle);
        proto_message_free(expect_kind(&w, id, CONFAB__V1__EVENT__KIND_ACCEPTED));
        proto_message_free(expect_kind(&w, id, CONFAB__V1__EVENT__KIND_DONE));
        snprintf(actor, sizeof(actor), " CONFAB_ACTOR_UID=%u CONFAB_TENANT=anna ", geteuid());
        assert_int_equal(journal.n, 1);
        expect(0, actor);
        wire_close(&w);
}

/* A limit is told once in a while for each user, and mistakes of clients are no errors. */
static void test_mistakes(void **state) {
        struct fixture *f = *state;
        struct wire w;
        uint64_t id;

        begin(f, false);
        fixture_client(f, &w);
        for (unsigned i = 0; i < 3; i++) {
                id = fixture_send_continue(&w, "a secret", false);
                fixture_wait_requests(f, i + 1);
                fake_emit_error(fake.requests[i].r.handle, ERR_LIMIT, "3 of 3 (max-queued)");
                expect_error(&w, id, "limit", true);
        }
        assert_int_equal(journal.n, 1);
        expect(0, logged_table[LOGGED_LIMIT_REACHED].id);
        expect(0, " PRIORITY=6 ");
        expect(0, "has reached a limit: 3 of 3 (max-queued) ");
        wire_send_bytes(&w, "\x04\0\0\0junk", 8);
        assert_true(wire_wait_eof(&w));
        wire_close(&w);
        fixture_wait_peers(f, 0);
        assert_int_equal(journal.n, 2);
        expect(1, logged_table[LOGGED_PROTOCOL_ERROR].id);
        expect(1, " PRIORITY=6 ");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test_closed(test_off),
                daemon_test_closed(test_done),
                daemon_test_closed(test_errors),
                daemon_test_closed(test_disconnected),
                daemon_test_closed(test_end_of_all),
                daemon_test_closed(test_acting),
                daemon_test_closed(test_mistakes),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
