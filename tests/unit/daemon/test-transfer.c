/* SPDX-License-Identifier: MIT */
/*
 * Descriptors sent with messages: they reach the verb that takes them, nothing else keeps one, and
 * no way of ending a connection leaks one. Each test counts /proc/self/fd before and after.
 */
#include "daemon-fixture.h"
#include "daemon/closer.h"
#include "daemon/streams.h"
#include "util/fds.h"
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

/* Descriptors that are not memory are closed by another thread. */
static void wait_fds(struct fixture *f, size_t n) {
        for (unsigned i = 0; test_count_fds() != n; i++) {
                if (i > 1000000)
                        fail_msg("%zu descriptors instead of %zu", test_count_fds(), n);
                daemon_step(f->d);
                sched_yield();
        }
}

static int make_memfd(const char *text, int seals) {
        int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), strlen(text));
        assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
        return fd;
}

static uint64_t send_import(struct wire *w, const char *name, const int *fds, size_t n) {
        REQUEST(r, IMPORT, Import, import, m);

        m.name = proto_borrow(name);
        return n ? wire_send_fds(w, &r, fds, n) : wire_send(w, &r);
}

static uint64_t send_export(struct wire *w) {
        REQUEST(r, EXPORT, Export, export, m);
        Confab__V1__Ref ref = CONFAB__V1__REF__INIT;

        ref.has_id = true;
        ref.id = 7;
        m.conversation = &ref;
        return wire_send(w, &r);
}

static void expect_text(int fd, const char *text) {
        char got[64] = "";

        assert_true(pread(fd, got, sizeof(got) - 1, 0) >= 0);
        assert_string_equal(got, text);
}

static bool same_file(int a, int b) {
        struct stat x, y;

        assert_int_equal(fstat(a, &x) | fstat(b, &y), 0);
        return x.st_ino == y.st_ino && x.st_dev == y.st_dev;
}

static void test_import(void **state) {
        struct fixture *f = *state;
        int fd = make_memfd("conversation", SEALS), more[4];
        size_t before = test_count_fds();
        struct wire w;
        uint64_t id;

        fixture_client(f, &w);
        id = send_import(&w, "mine", &fd, 1);
        fixture_wait_requests(f, 1);
        assert_int_equal(fake.requests[0].r.verb, ENGINE_IMPORT);
        assert_string_equal(fake.requests[0].name, "mine");
        assert_true(same_file(fake.requests[0].fd, fd));
        fake_emit(&(struct engine_event){.handle = fake.requests[0].r.handle,
                .kind = ENGINE_CONV,
                .final = true,
                .conv = {.id = 3, .name = proto_borrow("mine"), .private_memory = true}});
        proto_message_free(expect_kind(&w, id, CONFAB__V1__EVENT__KIND_CONVERSATION));
        /* Of several the first counts. */
        for (size_t i = 0; i < ARRAY_SIZE(more); i++)
                more[i] = i ? dup(fd) : make_memfd("first", SEALS);
        send_import(&w, NULL, more, ARRAY_SIZE(more));
        fixture_wait_requests(f, 2);
        assert_true(same_file(fake.requests[1].fd, more[0]));
        assert_int_equal(fake.requests[1].r.name != NULL, 0);
        for (size_t i = 0; i < ARRAY_SIZE(more); i++)
                close(more[i]);
        wire_close(&w);
        fixture_wait_peers(f, 0);
        fake_reset();
        wait_fds(f, before);
        close(fd);
}

static void test_import_refused(void **state) {
        struct fixture *f = *state;
        int fds[] = {make_memfd("x", SEALS & ~F_SEAL_WRITE), open("/dev/null", O_RDONLY),
                open("/proc/self/exe", O_RDONLY), -1, -1};
        size_t before;
        struct wire w;

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds + 3), 0);
        before = test_count_fds();
        fixture_client(f, &w);
        expect_error(&w, send_import(&w, "a", NULL, 0), "invalid", false);
        for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
                expect_error(&w, send_import(&w, "a", &fds[i], 1), "invalid", false);
        /* A request that fails in the engine, and one in front of it. */
        close(fds[0]);
        fds[0] = make_memfd("x", SEALS);
        fake_fail_submit(ERR_LIMIT, "full");
        expect_error(&w, send_import(&w, "a", &fds[0], 1), "limit", true);
        f->settings.max_connection_requests = 0;
        expect_error(&w, send_import(&w, "a", &fds[0], 1), "limit", true);
        assert_int_equal(fake.n, 0);
        wire_close(&w);
        fixture_wait_peers(f, 0);
        wait_fds(f, before);
        for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
                close(fds[i]);
}

/* A descriptor belongs to the frame with whose first byte it came, and to no other. */
static void test_whose_it_is(void **state) {
        struct fixture *f = *state;
        int a = make_memfd("a", SEALS), b = make_memfd("b", SEALS);
        REQUEST(r, IMPORT, Import, import, m);
        struct buf frame = BUF_NULL;
        size_t before = test_count_fds();
        struct wire w;
        uint64_t id;

        fixture_client(f, &w);
        /* Sent without a pause: stats with one that it does not want, then two imports. */
        {
                REQUEST(s, STATS, Stats, stats, stats);

                assert_true(wire_send_fds(&w, &s, &a, 1));
        }
        fixture_send_stats(&w);
        send_import(&w, "b", &b, 1);
        send_import(&w, "a", &a, 1);
        id = send_import(&w, "none", NULL, 0);
        fixture_wait_requests(f, 4);
        assert_true(same_file(fake.requests[2].fd, b));
        assert_true(same_file(fake.requests[3].fd, a));
        expect_error(&w, id, "invalid", false);
        /* In pieces: with the first byte it is taken, with a later one it is not. */
        for (int late = 0; late < 2; late++) {
                m.name = proto_borrow("pieces");
                r.has_id = true;
                r.id = 1000 + (uint64_t)late;
                frame.size = 0;
                assert_int_equal(proto_append_frame(&frame, &r.base, UINT32_MAX, NULL), 0);
                for (size_t i = 0; i < frame.size; i++) {
                        bool with = i == (late ? 1 : 0);

                        assert_true(with ? wire_send_bytes_fds(&w, frame.data + i, 1, &a, 1)
                                         : wire_send_bytes(&w, frame.data + i, 1));
                        fixture_steps(f, 2);
                }
                if (late)
                        expect_error(&w, 1001, "invalid", false);
                else
                        fixture_wait_requests(f, 5);
        }
        assert_true(same_file(fake.requests[4].fd, a));
        buf_deinit(&frame);
        wire_close(&w);
        fixture_wait_peers(f, 0);
        fake_reset();
        wait_fds(f, before);
        close(a);
        close(b);
}

/* With every byte one more, and with bytes that are nothing. */
static void test_flood(void **state) {
        struct fixture *f = *state;
        int fds[WIRE_FDS_MAX];
        size_t before;
        struct wire w;
        static const uint8_t begin[] = {200, 1}; /* a frame of 200 bytes */

        for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
                fds[i] = i % 2 ? open("/dev/null", O_RDONLY) : make_memfd("x", SEALS);
        before = test_count_fds();
        fixture_client(f, &w);
        assert_true(wire_send_bytes(&w, begin, sizeof(begin)));
        fixture_steps(f, 5); /* or what follows might have come with it */
        for (size_t i = 0; i < 100; i++) {
                assert_true(wire_send_bytes_fds(&w, "x", 1, fds, ARRAY_SIZE(fds)));
                fixture_steps(f, 2);
        }
        /* The connection, both ends, and nothing of all that. */
        wait_fds(f, before + 2);
        /* Left unread when the connection goes. */
        for (size_t i = 0; i < 5; i++)
                assert_true(wire_send_bytes_fds(&w, "x", 1, fds, 2));
        wire_close(&w);
        fixture_wait_peers(f, 0);
        wait_fds(f, before);
        for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
                close(fds[i]);
}

/* What comes over a connection that only waits for its peer to hang up is closed as well. */
static void test_descriptors_for_nobody(void **state) {
        struct fixture *f = *state;
        int fds[2] = {open("/dev/null", O_RDONLY), make_memfd("x", SEALS)};
        size_t before = test_count_fds();
        struct wire w;

        fixture_client(f, &w);
        assert_true(wire_send_bytes(&w, "\0", 1)); /* no frame begins so */
        expect_error(&w, 0, "format", false);
        for (size_t i = 0; i < 10; i++) {
                assert_true(wire_send_bytes_fds(&w, "x", 1, fds, 2));
                fixture_steps(f, 2);
        }
        assert_int_equal(f->d->n_peers, 1);
        wait_fds(f, before + 2);
        wire_close(&w);
        fixture_wait_peers(f, 0);
        wait_fds(f, before);
        close(fds[0]);
        close(fds[1]);
}

/* A TCP connection whose last close waits for the peer to read, as long as it likes. */
static int make_lingering(int *ret_peer) {
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
        struct linger linger = {.l_onoff = 1, .l_linger = 3600};
        socklen_t size = sizeof(a);
        int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        static char data[1 << 16];

        if (l < 0 || bind(l, (struct sockaddr *)&a, size) < 0 || listen(l, 1) < 0 ||
                getsockname(l, (struct sockaddr *)&a, &size) < 0 ||
                connect(fd, (struct sockaddr *)&a, size) < 0) {
                print_message("SKIP: no TCP here\n");
                skip();
        }
        *ret_peer = accept4(l, NULL, NULL, SOCK_CLOEXEC);
        close(l);
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
        while (send(fd, data, sizeof(data), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
                ;
        return fd;
}

/* Whoever gives a descriptor whose closing takes for ever holds up nobody, and no end of its own
 * connection either. */
static void test_closing_waits_elsewhere(void **state) {
        struct fixture *f = *state;
        size_t before = test_count_fds();
        struct wire w, other;
        int peers[3], fd;
        uint64_t id;

        fixture_client(f, &w);
        fixture_client(f, &other);
        for (unsigned i = 0; i < ARRAY_SIZE(peers); i++) {
                fd = make_lingering(&peers[i]);
                if (i == 2) /* in flight when the connection ends */
                        f->d->limits.output_high = 0;
                id = send_import(&w, "a", &fd, 1);
                if (i < 2) {
                        close(fd);
                        expect_error(&w, id, "invalid", false);
                } else {
                        close(fd);
                        wire_close(&w);
                }
        }
        id = fixture_send_stats(&other);
        fixture_wait_peers(f, 1);
        fixture_wait_requests(f, 1);
        fake_emit_stats(fake.requests[0].r.handle);
        proto_message_free(expect_kind(&other, id, CONFAB__V1__EVENT__KIND_STATS));
        wire_close(&other);
        fixture_wait_peers(f, 0);
        /* They may close now. */
        for (unsigned i = 0; i < ARRAY_SIZE(peers); i++)
                close(peers[i]);
        wait_fds(f, before);
}

static void test_export(void **state) {
        struct fixture *f = *state;
        size_t before = test_count_fds();
        struct proto_message *m;
        struct wire w;
        uint64_t id[3];
        int fd;

        fixture_client(f, &w);
        for (int i = 0; i < 3; i++)
                id[i] = send_export(&w);
        fixture_wait_requests(f, 3);
        assert_int_equal(fake.requests[0].r.conv_id, 7);
        /* Answers to others in between; each export has its own file. */
        fake_emit_exported(fake.requests[1].r.handle, "one");
        fake_emit_error(fake.requests[0].r.handle, ERR_NOT_FOUND, "none");
        fake_emit_exported(fake.requests[2].r.handle, "two");
        for (int i = 1; i < 4; i++) {
                int k = i == 2 ? 0 : i == 3 ? 2 : 1;

                if (k == 0) {
                        expect_error(&w, id[0], "not_found", false);
                        assert_int_equal(wire_take_fd(&w), -1);
                        continue;
                }
                m = expect_kind(&w, id[k], CONFAB__V1__EVENT__KIND_EXPORTED);
                assert_int_equal(m->event->exported->size, 3);
                assert_int_equal(m->event->exported->n_memory_tokens, 64);
                fd = wire_take_fd(&w);
                assert_true(fd >= 0);
                expect_text(fd, k == 1 ? "one" : "two");
                close(fd);
                proto_message_free(m);
        }
        wire_close(&w);
        fixture_wait_peers(f, 0);
        wait_fds(f, before);
}

/* Who does not receive gets no more than a few; who goes away leaves none behind. */
static void test_export_unread(void **state) {
        struct fixture *f = *state;
        size_t before = test_count_fds();
        struct proto_message *m;
        struct wire w;
        int fd;

        fixture_client(f, &w);
        fake_answer(ENGINE_EXPORT, true);
        for (unsigned i = 0; i < CONN_FDS_SENT; i++) {
                assert_true(send_export(&w));
                fixture_wait_requests(f, i + 1);
                fixture_steps(f, 5);
        }
        send_export(&w);
        fixture_steps(f, 20);
        assert_int_equal(fake.n, CONN_FDS_SENT);
        for (unsigned i = 0; i < CONN_FDS_SENT; i++) {
                m = wire_event(&w);
                assert_int_equal(m->event->kind_case, CONFAB__V1__EVENT__KIND_EXPORTED);
                proto_message_free(m);
                fd = wire_take_fd(&w);
                assert_true(fd >= 0);
                close(fd);
        }
        expect_error(&w, CONN_FDS_SENT + 2, "limit", true);
        /* All received: there is room again. */
        send_export(&w);
        fixture_wait_requests(f, CONN_FDS_SENT + 1);
        fixture_steps(f, 5);
        wire_close(&w);
        fixture_wait_peers(f, 0);
        /* The answer comes when nobody is there any more. */
        fixture_client(f, &w);
        fake_answer(ENGINE_EXPORT, false);
        send_export(&w);
        fixture_wait_requests(f, CONN_FDS_SENT + 2);
        wire_close(&w);
        fixture_wait_peers(f, 0);
        fake_emit_exported(fake.requests[CONN_FDS_SENT + 1].r.handle, "late");
        fixture_steps(f, 10);
        wait_fds(f, before);
}

/* Those that the engine has not answered yet count as well. */
static void test_exports_in_flight(void **state) {
        struct fixture *f = *state;
        struct wire w;

        fixture_client(f, &w);
        for (unsigned i = 0; i < CONN_FDS_SENT; i++)
                assert_true(send_export(&w));
        fixture_wait_requests(f, CONN_FDS_SENT);
        expect_error(&w, send_export(&w), "limit", true);
        assert_int_equal(fake.n, CONN_FDS_SENT);
        wire_close(&w);
}

/* --- in the stream --- */

static uint64_t send_stream_export(struct wire *w) {
        REQUEST(r, EXPORT, Export, export, m);
        Confab__V1__Ref ref = CONFAB__V1__REF__INIT;

        ref.has_id = true;
        ref.id = 7;
        m.conversation = &ref;
        m.has_in_stream = m.in_stream = true;
        return wire_send(w, &r);
}

static uint64_t send_upload(struct wire *w) {
        REQUEST(r, IMPORT, Import, import, m);

        m.name = proto_borrow("mine");
        m.has_in_stream = m.in_stream = true;
        return wire_send(w, &r);
}

static void send_chunk(struct wire *w, uint64_t id, const char *text, bool last) {
        REQUEST(r, CHUNK, Chunk, chunk, m);

        r.has_id = true;
        r.id = id;
        m.has_data = true;
        m.data = (ProtobufCBinaryData){strlen(text), proto_borrow(text)};
        m.has_last = m.last = last;
        assert_true(wire_send(w, &r));
}

static void send_stats(struct wire *w) {
        REQUEST(r, STATS, Stats, stats, m);

        assert_true(wire_send(w, &r));
}

static uint64_t send_cancel(struct wire *w, uint64_t id) {
        REQUEST(r, CANCEL, Cancel, cancel, m);

        m.has_request = true;
        m.request = id;
        return wire_send(w, &r);
}

static void emit(enum engine_event_kind kind, uint64_t handle) {
        fake_emit(&(struct engine_event){.handle = handle, .kind = kind, .final = true});
}

/* An export is read and sent; one that is cancelled while it is read goes when the reading ends. */
static void test_stream_export(void **state) {
        struct fixture *f = *state;
        size_t before = test_count_fds();
        struct proto_message *m;
        struct wire w;
        uint64_t id;

        fixture_client(f, &w);
        fake_answer(ENGINE_EXPORT, true);
        fake_answer(ENGINE_READ_FILE, true);
        id = send_stream_export(&w);
        m = expect_kind(&w, id, CONFAB__V1__EVENT__KIND_CHUNK);
        assert_int_equal(m->event->chunk->data.len, 6);
        assert_memory_equal(m->event->chunk->data.data, "export", 6);
        proto_message_free(m);
        m = expect_kind(&w, id, CONFAB__V1__EVENT__KIND_EXPORTED);
        assert_int_equal(m->event->exported->size, 6);
        assert_int_equal(wire_take_fd(&w), -1);
        proto_message_free(m);
        assert_int_equal(fake.file_bytes, 0);
        fake_answer(ENGINE_READ_FILE, false);
        for (unsigned i = 0; i < 3; i++) {
                uint64_t handle;

                fake_reset();
                fake_answer(ENGINE_EXPORT, true);
                id = send_stream_export(&w);
                fixture_wait_requests(f, 2);
                assert_int_equal(fake.requests[1].r.verb, ENGINE_READ_FILE);
                handle = fake.requests[1].r.handle;
                assert_int_equal(fake.file_bytes, 6);
                if (i == 0) {
                        uint64_t cancel = send_cancel(&w, id);

                        expect_error(&w, id, "cancelled", false);
                        proto_message_free(expect_kind(&w, cancel, CONFAB__V1__EVENT__KIND_EMPTY));
                        assert_int_equal(fake.file_bytes, 6);
                        fake_emit_error(handle, ERR_STATE, "too late");
                } else if (i == 1) {
                        fake_emit_error(handle, ERR_STATE, "a broken disk");
                        expect_error(&w, id, "state", false);
                } else {
                        wire_close(&w);
                        fixture_wait_peers(f, 0);
                        emit(ENGINE_EMPTY, handle);
                        fixture_steps(f, 5);
                }
                fixture_steps(f, 5);
                assert_int_equal(fake.file_bytes, 0);
        }
        wait_fds(f, before);
}

/* While a chunk is written, what the client sends next waits. */
static void test_stream_import(void **state) {
        struct fixture *f = *state;
        size_t before = test_count_fds();
        struct wire w;
        uint64_t id;

        fixture_client(f, &w);
        id = send_upload(&w);
        send_chunk(&w, id, "one", false);
        send_stats(&w);
        fixture_wait_requests(f, 1);
        fixture_steps(f, 20);
        assert_int_equal(fake.n, 1);
        assert_int_equal(fake.requests[0].r.verb, ENGINE_WRITE_FILE);
        assert_string_equal(fake.requests[0].text, "one");
        emit(ENGINE_EMPTY, fake.requests[0].r.handle);
        fixture_wait_requests(f, 2);
        assert_int_equal(fake.requests[1].r.verb, ENGINE_STATS);
        fake_answer(ENGINE_WRITE_FILE, true);
        send_chunk(&w, id, "two", true);
        fixture_wait_requests(f, 4);
        assert_int_equal(fake.requests[3].r.verb, ENGINE_IMPORT);
        assert_true(fake.requests[3].r.own_file);
        assert_string_equal(fake.requests[3].name, "mine");
        expect_text(fake.requests[3].fd, "two");
        send_chunk(&w, id, "three", true); /* ignored */
        fixture_steps(f, 5);
        assert_int_equal(fake.n, 4);
        fake_emit(&(struct engine_event){.handle = fake.requests[3].r.handle,
                .kind = ENGINE_CONV,
                .final = true,
                .conv = {.id = 3, .name = proto_borrow("mine")}});
        proto_message_free(expect_kind(&w, id, CONFAB__V1__EVENT__KIND_CONVERSATION));
        assert_int_equal(fake.file_bytes, 0);
        wire_close(&w);
        fixture_wait_peers(f, 0);
        fake_reset();
        wait_fds(f, before);
}

/* However an upload ends, nothing of it is left. */
static void test_stream_import_ends(void **state) {
        struct fixture *f = *state;
        size_t before = test_count_fds();
        struct wire w;
        uint64_t id;

        for (unsigned i = 0; i < 6; i++) {
                fixture_client(f, &w);
                fake_reset();
                id = send_upload(&w);
                if (i == 0) { /* the engine takes no chunk */
                        fixture_steps(f, 5);
                        fake_fail_submit(ERR_LIMIT, "full");
                        send_chunk(&w, id, "one", false);
                        expect_error(&w, id, "limit", true);
                } else if (i == 1) { /* hangs up while a chunk is written */
                        send_chunk(&w, id, "one", false);
                        fixture_wait_requests(f, 1);
                        wire_close(&w);
                        /* Nothing is read meanwhile: the end is found behind the chunk. */
                        emit(ENGINE_EMPTY, fake.requests[0].r.handle);
                        fixture_wait_peers(f, 0);
                        continue;
                } else if (i == 2) { /* the disk fails */
                        send_chunk(&w, id, "one", false);
                        fixture_wait_requests(f, 1);
                        fake_emit_error(fake.requests[0].r.handle, ERR_STATE, "broken");
                        expect_error(&w, id, "state", false);
                } else if (i == 3) { /* cancelled before anything came */
                        send_cancel(&w, id);
                        expect_error(&w, id, "cancelled", false);
                } else { /* cancelled while it is imported; hangs up then */
                        fake_answer(ENGINE_WRITE_FILE, true);
                        send_chunk(&w, id, "one", true);
                        fixture_wait_requests(f, 2);
                        if (i == 4)
                                proto_message_free(expect_kind(
                                        &w, send_cancel(&w, id), CONFAB__V1__EVENT__KIND_EMPTY));
                        else
                                wire_close(&w);
                        fixture_steps(f, 20);
                        assert_true(fake.requests[1].cancelled);
                        fake_emit_error(fake.requests[1].r.handle, ERR_CANCELLED, "cancelled");
                        if (i == 4)
                                expect_error(&w, id, "cancelled", false);
                        else
                                fixture_steps(f, 5);
                }
                if (i < 5)
                        wire_close(&w);
                fixture_wait_peers(f, 0);
                assert_int_equal(fake.file_bytes, 0);
        }
        fake_reset();
        wait_fds(f, before);
}

/* So many of a connection, and of a user. */
static void test_stream_limits(void **state) {
        struct fixture *f = *state;
        struct wire w[STREAMS_PER_USER / STREAMS_PER_PEER + 1];

        for (size_t i = 0; i < ARRAY_SIZE(w); i++) {
                fixture_client(f, &w[i]);
                for (unsigned k = 0; i + 1 < ARRAY_SIZE(w) && k < STREAMS_PER_PEER; k++)
                        send_upload(&w[i]);
                expect_error(&w[i], send_upload(&w[i]), "limit", true);
                expect_error(&w[i], send_stream_export(&w[i]), "limit", true);
        }
        wire_close(&w[0]);
        fixture_wait_peers(f, ARRAY_SIZE(w) - 1);
        send_stream_export(&w[ARRAY_SIZE(w) - 1]);
        fixture_wait_requests(f, 1);
        for (size_t i = 1; i < ARRAY_SIZE(w); i++)
                wire_close(&w[i]);
        fixture_wait_peers(f, 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test(test_import),
                daemon_test(test_import_refused),
                daemon_test(test_whose_it_is),
                daemon_test(test_flood),
                daemon_test(test_descriptors_for_nobody),
                daemon_test(test_closing_waits_elsewhere),
                daemon_test(test_export),
                daemon_test(test_export_unread),
                daemon_test(test_exports_in_flight),
                daemon_test(test_stream_export),
                daemon_test(test_stream_import),
                daemon_test(test_stream_import_ends),
                daemon_test(test_stream_limits),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
