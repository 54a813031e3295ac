/* SPDX-License-Identifier: MIT */
/*
 * Exports and imports whose bytes travel in the stream, through the real daemon: the same bytes as with a
 * descriptor, whatever else the connection does; and whatever goes wrong leaves neither a file nor a
 * descriptor.
 */
#include "fixture.h"
#include "daemon/streams.h"
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>

#define REQUEST(r, WHICH, Type, field, m)                                                          \
        Confab__V1__Request r = CONFAB__V1__REQUEST__INIT;                                         \
        Confab__V1__##Type m = CONFAB__V1__##WHICH##__INIT;                                        \
        r.verb_case = CONFAB__V1__REQUEST__VERB_##WHICH;                                           \
        r.field = &m

/* The memory of so many tokens is much larger than what a socket holds. */
enum { N_TOKENS = 700, N_REPLY = 4 };

/* Files without a name that the daemon has open: those of streams. */
static size_t unnamed_files(const struct harness *h) {
        char path[64];
        struct dirent *entry;
        size_t n = 0;
        DIR *d;

        snprintf(path, sizeof(path), "/proc/%d/fd", (int)h->pid);
        d = opendir(path);
        assert_non_null(d);
        while ((entry = readdir(d))) {
                char to[512] = "";

                /* It may have been closed meanwhile. */
                if (readlinkat(dirfd(d), entry->d_name, to, sizeof(to) - 1) > 0)
                        n += strstr(to, " (deleted)") != NULL;
        }
        closedir(d);
        return n;
}

/* Files are closed by a thread of their own. */
static void wait_closed(const struct harness *h) {
        for (unsigned i = 0; unnamed_files(h) > 0; i++) {
                if (i > 1000000)
                        fail_msg("%zu files are still open", unnamed_files(h));
                sched_yield();
        }
}

static uint64_t make_talk(struct client *c, const char *name) {
        struct reply r;
        uint64_t id;

        assert_int_equal(client_open(c, name, "You are brief.", &id), 0);
        if (client_say_drawn(c, id, 1, N_TOKENS, N_REPLY, &r) != 0)
                fail_msg("%s", c->error.message);
        reply_deinit(&r);
        return id;
}

/* --- export --- */

static uint64_t send_export(struct wire *w, uint64_t conv) {
        REQUEST(r, EXPORT, Export, export, m);
        Confab__V1__Ref ref = CONFAB__V1__REF__INIT;

        ref.has_id = true;
        ref.id = conv;
        m.conversation = &ref;
        m.has_in_stream = m.in_stream = true;
        return wire_send(w, &r);
}

struct taken {
        struct buf bytes;
        uint64_t size;
        uint32_t n_memory;
        size_t n_chunks, longest;
        bool exported, failed, cancelled;
        bool other; /* an event of another request came in between */
};

/* Take events until that of request @id that ends it. */
static void take_stream(struct wire *w, uint64_t id, struct taken *t) {
        while (!t->exported && !t->failed) {
                struct proto_message *m = wire_event(w);
                const Confab__V1__Event *ev;

                assert_non_null(m);
                ev = m->event;
                if (ev->request != id) {
                        t->other = true;
                } else if (ev->kind_case == CONFAB__V1__EVENT__KIND_CHUNK) {
                        t->n_chunks++;
                        t->longest = MAX(t->longest, ev->chunk->data.len);
                        assert_true(ev->chunk->data.len > 0);
                        assert_int_equal(
                                buf_append(&t->bytes, ev->chunk->data.data, ev->chunk->data.len),
                                0);
                } else if (ev->kind_case == CONFAB__V1__EVENT__KIND_EXPORTED) {
                        t->size = ev->exported->size;
                        t->n_memory = ev->exported->n_memory_tokens;
                        t->exported = true;
                        assert_int_equal(wire_take_fd(w), -1);
                } else {
                        assert_int_equal(ev->kind_case, CONFAB__V1__EVENT__KIND_ERROR);
                        t->failed = true;
                        t->cancelled = strcmp(ev->error->code, "cancelled") == 0;
                }
                proto_message_free(m);
        }
}

static struct taken take_export(struct wire *w, uint64_t conv) {
        struct taken t = {};

        take_stream(w, send_export(w, conv), &t);
        assert_true(t.exported);
        assert_int_equal(t.size, t.bytes.size);
        return t;
}

/* --- import --- */

static uint64_t send_import(struct wire *w, const char *name) {
        REQUEST(r, IMPORT, Import, import, m);

        m.name = proto_borrow(name);
        m.has_in_stream = m.in_stream = true;
        return wire_send(w, &r);
}

static bool send_chunk(struct wire *w, uint64_t id, const void *data, size_t n, bool last) {
        REQUEST(r, CHUNK, Chunk, chunk, m);

        r.has_id = true;
        r.id = id;
        m.has_data = n > 0;
        m.data = (ProtobufCBinaryData){n, proto_borrow(data)};
        m.has_last = m.last = last;
        return wire_send(w, &r) != 0;
}

static void send_all(struct wire *w, uint64_t id, const struct buf *bytes, size_t piece) {
        for (size_t at = 0; at < bytes->size; at += piece)
                assert_true(send_chunk(w, id, bytes->data + at, MIN(piece, bytes->size - at),
                        at + piece >= bytes->size));
}

/* The answer to an import: the conversation's id; or 0, with the error's code in @code. */
static uint64_t take_import(struct wire *w, uint64_t id, char code[32]) {
        struct proto_message *m = wire_event_for(w, id);
        uint64_t conv = 0;

        assert_non_null(m);
        if (m->event->kind_case == CONFAB__V1__EVENT__KIND_ERROR) {
                snprintf(code, 32, "%s", m->event->error->code);
        } else {
                assert_int_equal(m->event->kind_case, CONFAB__V1__EVENT__KIND_CONVERSATION);
                assert_false(m->event->conversation->private_memory);
                conv = m->event->conversation->id;
        }
        proto_message_free(m);
        return conv;
}

static void expect_same(struct client *c, uint64_t a, uint64_t b) {
        struct conv x, y;

        assert_int_equal(client_get(c, a, true, true, &x), 0);
        assert_int_equal(client_get(c, b, true, true, &y), 0);
        assert_int_equal(x.n_tokens, y.n_tokens);
        assert_memory_equal(x.tokens, y.tokens, x.n_tokens * sizeof(int32_t));
        assert_int_equal(x.n_turn_list, y.n_turn_list);
        for (size_t i = 0; i < x.n_turn_list; i++)
                assert_string_equal(x.texts[i], y.texts[i]);
        conv_deinit(&x);
        conv_deinit(&y);
}

static void expect_alive(struct client *c) {
        assert_true(client_stat(c, "io_memory_used") < UINT64_MAX);
}

static void expect_error(struct wire *w, uint64_t id, const char *want) {
        char code[32] = "";

        assert_int_equal(take_import(w, id, code), 0);
        assert_string_equal(code, want);
}

/* --- tests --- */

/* The bytes are those of the descriptor, in pieces of any size, both ways. */
static void test_round_trip(void **state) {
        static const size_t pieces[] = {STREAM_MAX_CHUNK, 100000, 4099};
        struct harness *h = *state;
        struct client *c;
        struct taken t;
        uint64_t id, copy, size;
        uint32_t n_memory;
        uint8_t *data;
        int fd;

        harness_start(h, FLAGS("--spill-delay=never"));
        c = harness_client(h);
        id = make_talk(c, "origin");
        assert_int_equal(client_export(c, id, false, &fd, &size, &n_memory), 0);
        data = malloc(size);
        assert_non_null(data);
        assert_int_equal(pread(fd, data, size, 0), size);
        close(fd);
        t = take_export(&c->w, id);
        assert_int_equal(t.size, size);
        assert_int_equal(t.n_memory, n_memory);
        assert_memory_equal(t.bytes.data, data, size);
        assert_true(t.n_chunks > 4 && t.longest <= STREAM_MAX_CHUNK);
        wait_closed(h);
        for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
                char code[32] = "";
                uint64_t up = send_import(&c->w, NULL);

                send_all(&c->w, up, &t.bytes, pieces[i]);
                copy = take_import(&c->w, up, code);
                if (!copy)
                        fail_msg("%s", code);
                expect_same(c, id, copy);
                assert_int_equal(client_close(c, copy), 0);
        }
        wait_closed(h);
        buf_deinit(&t.bytes);
        free(data);
        client_free(c);
        harness_stop(h);
}

/* A client that takes short messages only. */
static void test_small_frames(void **state) {
        struct harness *h = *state;
        struct client *c;
        struct taken t, small = {};
        struct wire w;
        uint64_t id, up, copy;
        char code[32];

        harness_start(h, FLAGS("--max-frame=4096"));
        c = harness_client(h);
        id = make_talk(c, NULL);
        t = take_export(&c->w, id);
        assert_int_equal(wire_connect(&w, h->socket, wire_poll, NULL), 0);
        proto_message_free(wire_event_for(&w, wire_send_hello(&w, PROTO_VERSION, 1024)));
        take_stream(&w, send_export(&w, id), &small);
        assert_true(small.exported);
        assert_in_range(small.longest, 900, 1024);
        assert_int_equal(small.bytes.size, t.bytes.size);
        assert_memory_equal(small.bytes.data, t.bytes.data, t.bytes.size);
        up = send_import(&w, NULL);
        send_all(&w, up, &t.bytes, 3000);
        copy = take_import(&w, up, code);
        assert_true(copy);
        expect_same(c, id, copy);
        wire_close(&w);
        buf_deinit(&t.bytes);
        buf_deinit(&small.bytes);
        client_free(c);
        harness_stop(h);
}

/* A client that does not read holds up nobody else, and little memory. */
static void test_slow_reader(void **state) {
        struct harness *h = *state;
        struct client *c, *slow;
        struct taken t, late[2] = {};
        uint64_t id, request[2], used = 0;
        struct reply r;

        harness_start(h, NULL);
        c = harness_client(h);
        slow = harness_client(h);
        id = make_talk(c, NULL);
        t = take_export(&c->w, id);
        for (unsigned i = 0; i < 2; i++) {
                request[i] = send_export(&slow->w, id);
                /* It has begun, and waits. */
                while (client_stat(c, "exports") < 2 + i)
                        ;
        }
        for (int i = 0; i < 20; i++) {
                used = MAX(used, client_stat(c, "io_memory_used"));
                assert_int_equal(
                        client_say(c, &(struct say){.conv = id, .raw = "Hi", .max_tokens = 1}, &r),
                        0);
                reply_deinit(&r);
        }
        assert_true(t.size > 2 * STREAM_PIECE + (1u << 20));
        assert_in_range(used, 1, 6 * STREAM_PIECE);
        for (int i = 0; i < 2; i++) {
                struct proto_message *m;

                /* Events of both come in turn: those of the other are kept out of the way. */
                while (!late[i].exported && (m = wire_event(&slow->w))) {
                        int k = m->event->request == request[1];

                        if (m->event->kind_case == CONFAB__V1__EVENT__KIND_EXPORTED)
                                late[k].exported = true;
                        else
                                assert_int_equal(
                                        buf_append(&late[k].bytes, m->event->chunk->data.data,
                                                m->event->chunk->data.len),
                                        0);
                        proto_message_free(m);
                }
        }
        for (int i = 0; i < 2; i++) {
                assert_int_equal(late[i].bytes.size, t.bytes.size);
                assert_memory_equal(late[i].bytes.data, t.bytes.data, t.bytes.size);
                buf_deinit(&late[i].bytes);
        }
        buf_deinit(&t.bytes);
        client_free(slow);
        client_free(c);
        harness_stop(h);
}

/* A reply is generated on the connection on which a conversation comes in, and goes out. */
static void test_beside_others(void **state) {
        struct harness *h = *state;
        struct client *c;
        struct taken t, again = {};
        struct reply want, r;
        uint64_t id, a, b, up, request;
        char code[32];
        size_t half;

        harness_start(h, NULL);
        c = harness_client(h);
        id = make_talk(c, NULL);
        t = take_export(&c->w, id);
        assert_int_equal(client_open(c, NULL, NULL, &a), 0);
        assert_int_equal(client_open(c, NULL, NULL, &b), 0);
        assert_int_equal(
                client_say(c, &(struct say){.conv = a, .raw = "Hello", .max_tokens = 40}, &want),
                0);
        up = send_import(&c->w, "copy");
        half = t.bytes.size / 2;
        assert_true(send_chunk(&c->w, up, t.bytes.data, 70000, false));
        assert_int_equal(
                client_say(c, &(struct say){.conv = b, .raw = "Hello", .max_tokens = 40}, &r), 0);
        assert_true(reply_equal(&want, &r));
        reply_deinit(&r);
        for (size_t at = 70000; at < t.bytes.size; at += 100000)
                assert_true(send_chunk(&c->w, up, t.bytes.data + at,
                        MIN((size_t)100000, t.bytes.size - at), at + 100000 >= t.bytes.size));
        assert_true(half > 70000);
        assert_true(take_import(&c->w, up, code));
        request = send_export(&c->w, id);
        assert_true(client_say_begin(c, &(struct say){.conv = b, .raw = "On", .max_tokens = 40}));
        take_stream(&c->w, request, &again);
        assert_true(again.exported);
        assert_memory_equal(again.bytes.data, t.bytes.data, t.bytes.size);
        buf_deinit(&again.bytes);
        buf_deinit(&t.bytes);
        reply_deinit(&want);
        client_free(c);
        harness_stop(h);
}

static uint64_t send_cancel(struct wire *w, uint64_t id) {
        REQUEST(r, CANCEL, Cancel, cancel, m);

        m.has_request = true;
        m.request = id;
        return wire_send(w, &r);
}

static void test_cancel(void **state) {
        struct harness *h = *state;
        struct taken t, half = {};
        struct client *c;
        uint64_t id, request, up;
        char code[32];

        harness_start(h, FLAGS("--spill-delay=never"));
        c = harness_client(h);
        id = make_talk(c, NULL);
        t = take_export(&c->w, id);
        wait_closed(h);
        request = send_export(&c->w, id);
        /* The file is there, and its first bytes. */
        proto_message_free(wire_event_for(&c->w, request));
        assert_int_equal(unnamed_files(h), 1);
        assert_true(send_cancel(&c->w, request));
        take_stream(&c->w, request, &half);
        assert_true(half.cancelled && half.bytes.size < t.bytes.size);
        buf_deinit(&half.bytes);
        up = send_import(&c->w, NULL);
        assert_true(send_chunk(&c->w, up, t.bytes.data, 70000, false));
        assert_true(send_cancel(&c->w, up));
        expect_error(&c->w, up, "cancelled");
        /* What was on its way is dropped. The id is free. */
        assert_true(send_chunk(&c->w, up, t.bytes.data, 70000, true));
        wait_closed(h);
        c->w.next_id = up - 1;
        up = send_import(&c->w, NULL);
        send_all(&c->w, up, &t.bytes, 90000);
        id = take_import(&c->w, up, code);
        assert_true(id);
        assert_int_equal(client_close(c, id), 0);
        wait_closed(h);
        buf_deinit(&t.bytes);
        client_free(c);
        harness_stop(h);
}

/* Clients that hang up in the middle, and a daemon that stops in the middle. */
static void test_hang_up(void **state) {
        struct harness *h = *state;
        struct client *c, *gone;
        struct taken t;
        uint64_t id, up;

        harness_start(h, FLAGS("--spill-delay=never"));
        c = harness_client(h);
        id = make_talk(c, NULL);
        t = take_export(&c->w, id);
        for (unsigned i = 0; i < 6; i++) {
                gone = harness_client(h);
                send_export(&gone->w, id);
                up = send_import(&gone->w, NULL);
                if (i % 3 > 0)
                        assert_true(send_chunk(&gone->w, up, t.bytes.data, 300000, i % 3 == 2));
                if (i % 2)
                        proto_message_free(wire_event(&gone->w));
                client_free(gone);
        }
        wait_closed(h);
        expect_alive(c);
        /* Within a chunk. */
        gone = harness_client(h);
        up = send_import(&gone->w, NULL);
        assert_true(send_chunk(&gone->w, up, t.bytes.data, 300000, false));
        wire_send_some(&gone->w, "\xff\x01", 2);
        client_free(gone);
        wait_closed(h);
        gone = harness_client(h);
        send_export(&gone->w, id);
        up = send_import(&gone->w, NULL);
        assert_true(send_chunk(&gone->w, up, t.bytes.data, 300000, false));
        proto_message_free(wire_event(&gone->w));
        buf_deinit(&t.bytes);
        client_free(c);
        harness_signal(h, SIGTERM);
        while (!gone->w.eof)
                proto_message_free(wire_event(&gone->w));
        assert_int_equal(harness_wait(h), 0);
        client_free(gone);
}

/* What is damaged or too large is refused, and the connection lives. */
static void test_refused(void **state) {
        struct harness *h = *state;
        struct client *c;
        struct taken t;
        uint64_t id, up;
        size_t n;
        char code[32];

        harness_start(h, FLAGS("--spill-delay=never"));
        c = harness_client(h);
        id = make_talk(c, NULL);
        t = take_export(&c->w, id);
        for (size_t at = 0; at < t.bytes.size; at += t.bytes.size / 7 + 1) {
                t.bytes.data[at] ^= 0x20;
                up = send_import(&c->w, NULL);
                send_all(&c->w, up, &t.bytes, 500000);
                id = take_import(&c->w, up, code);
                if (at == 0)
                        assert_int_equal(id, 0);
                t.bytes.data[at] ^= 0x20;
        }
        n = t.bytes.size;
        t.bytes.size = n / 2;
        up = send_import(&c->w, NULL);
        send_all(&c->w, up, &t.bytes, 500000);
        assert_int_equal(take_import(&c->w, up, code), 0);
        up = send_import(&c->w, NULL);
        assert_true(send_chunk(&c->w, up, NULL, 0, true));
        assert_int_equal(take_import(&c->w, up, code), 0);
        /* A chunk that is too long; those behind it are ignored. */
        t.bytes.size = n;
        up = send_import(&c->w, NULL);
        assert_true(n > STREAM_MAX_CHUNK);
        assert_true(send_chunk(&c->w, up, t.bytes.data, STREAM_MAX_CHUNK + 1, false));
        send_all(&c->w, up, &t.bytes, 200000);
        expect_error(&c->w, up, "invalid");
        expect_alive(c);
        wait_closed(h);
        /* Chunks of nothing. */
        assert_true(send_chunk(&c->w, 4711, t.bytes.data, 1000, true));
        expect_alive(c);
        client_free(c);
        harness_stop(h);
        /* No room on the disk: the client goes on sending, for a while. */
        harness_start(h, FLAGS("--disk-limit=1M"));
        c = harness_client(h);
        up = send_import(&c->w, NULL);
        send_all(&c->w, up, &t.bytes, 100000);
        expect_error(&c->w, up, "limit");
        expect_alive(c);
        wait_closed(h);
        client_free(c);
        harness_stop(h);
        harness_start(h, FLAGS("--disk-floor=1000T"));
        c = harness_client(h);
        up = send_import(&c->w, NULL);
        send_all(&c->w, up, &t.bytes, 100000);
        expect_error(&c->w, up, "limit");
        expect_alive(c);
        client_free(c);
        harness_stop(h);
        buf_deinit(&t.bytes);
}

/* Uploads that stand still, and too many of them. */
static void test_bounds(void **state) {
        struct harness *h = *state;
        struct proto_message *m;
        struct client *c, *d;
        uint64_t up[STREAMS_PER_PEER + 1];

        harness_start(h, FLAGS("--frame-timeout=1h"));
        c = harness_client(h);
        for (size_t i = 0; i <= STREAMS_PER_PEER; i++)
                up[i] = send_import(&c->w, NULL);
        expect_error(&c->w, up[STREAMS_PER_PEER], "limit");
        /* A request with the id of an upload is no chunk. */
        d = harness_client(h);
        up[0] = send_import(&d->w, NULL);
        d->w.next_id = up[0] - 1;
        send_import(&d->w, NULL);
        m = wire_event(&d->w);
        assert_non_null(m);
        assert_int_equal(m->event->request, 0);
        assert_string_equal(m->event->error->code, "invalid");
        proto_message_free(m);
        assert_true(wire_wait_eof(&d->w));
        client_free(d);
        client_free(c);
        harness_stop(h);
        harness_start(h, FLAGS("--frame-timeout=100ms"));
        c = harness_client(h);
        up[0] = send_import(&c->w, NULL);
        expect_error(&c->w, up[0], "state");
        up[0] = send_import(&c->w, NULL);
        assert_true(send_chunk(&c->w, up[0], "x", 1, false));
        expect_error(&c->w, up[0], "state");
        expect_alive(c);
        client_free(c);
        harness_stop(h);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test(test_round_trip),
                daemon_test(test_small_frames),
                daemon_test(test_slow_reader),
                daemon_test(test_beside_others),
                daemon_test(test_cancel),
                daemon_test(test_hang_up),
                daemon_test(test_refused),
                daemon_test(test_bounds),
        };

        return DAEMON_TESTS_MAIN(tests);
}
