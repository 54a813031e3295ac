/* SPDX-License-Identifier: MIT */
/* Descriptors through libconfab in both directions, none leaked. For blocking calls the peer's
 * answers are written before the request is sent: Hello is request 1, our first request 2. */
#include "base/util.h"
#include "client/confab.h"
#include "peer.h"
#include "util/fds.h"
#include "util/test.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
#define FIRST_ID 2

struct fixture {
        struct confab *c;
        struct peer peer;
        size_t n_fds; /* before */
};

static void setup(struct fixture *f) {
        int sv[2];

        f->n_fds = test_count_fds();
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
        peer_init(&f->peer, sv[1]);
        assert_int_equal(confab_new_from_fd(&f->c, sv[0], NULL), 0);
        peer_send_hello(&f->peer, 1, PROTO_VERSION, PROTO_MAX_REQUEST);
        assert_int_equal(confab_process(f->c, NULL), 0);
        peer_expect(&f->peer, CONFAB__V1__REQUEST__VERB_HELLO);
}

static void teardown(struct fixture *f) {
        confab_free(f->c);
        peer_deinit(&f->peer);
        assert_int_equal(test_count_fds(), f->n_fds);
}

static int make_memfd(const char *text, int seals) {
        int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        assert_true(fd >= 0);
        assert_int_equal(pwrite(fd, text, strlen(text), 0), strlen(text));
        assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
        return fd;
}

static bool same_file(int a, int b) {
        struct stat x, y;

        assert_int_equal(fstat(a, &x) | fstat(b, &y), 0);
        return x.st_ino == y.st_ino && x.st_dev == y.st_dev;
}

static void expect_text(int fd, const char *text) {
        char got[64] = "";

        assert_int_equal(pread(fd, got, sizeof(got) - 1, 0), strlen(text));
        assert_string_equal(got, text);
}

/* The import that has come: its descriptor, the caller's. */
static int take_import(struct fixture *f, const char *name) {
        struct proto_message *m = peer_next(&f->peer);
        int fd = peer_take_fd(&f->peer);

        assert_non_null(m);
        assert_int_equal(m->request->verb_case, CONFAB__V1__REQUEST__VERB_IMPORT);
        if (name)
                assert_string_equal(m->request->import->name, name);
        else
                assert_true(!m->request->import->name || !*m->request->import->name);
        proto_message_free(m);
        assert_true(fd >= 0);
        assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        return fd;
}

static void see_name(void *userdata, const struct confab_event *event) {
        if (event->kind == CONFAB_EVENT_CONVERSATION)
                snprintf(userdata, 32, "%s", event->conversation->name);
}

static void test_import_sealed(void **state) {
        int fd = make_memfd("all of it", SEALS), got;
        struct confab_error e;
        struct fixture f;
        char name[32] = "";

        setup(&f);
        peer_send_conversation(&f.peer, FIRST_ID, 9, "copy");
        assert_int_equal(confab_import(f.c, fd, "copy", see_name, name, &e), 0);
        assert_string_equal(name, "copy");
        got = take_import(&f, "copy");
        assert_true(same_file(got, fd));
        close(got);
        teardown(&f);
        close(fd);
}

/* What is no sealed memfd is copied, from where it stands. */
static void test_import_copies(void **state) {
        struct confab_error e;
        int fds[3], got;

        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        assert_int_equal(write(fds[1], "from a pipe", 11), 11);
        close(fds[1]);
        fds[1] = make_memfd("..from a pipe", 0);
        assert_int_equal(lseek(fds[1], 2, SEEK_SET), 2);
        fds[2] = make_memfd("..from a pipe", SEALS);
        assert_int_equal(lseek(fds[2], 2, SEEK_SET), 2);
        for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
                struct fixture f;

                setup(&f);
                peer_send_conversation(&f.peer, FIRST_ID, 9, "x");
                assert_int_equal(confab_import(f.c, fds[i], NULL, NULL, NULL, &e), 0);
                got = take_import(&f, NULL);
                assert_int_equal(fcntl(got, F_GET_SEALS) & SEALS, SEALS);
                expect_text(got, "from a pipe");
                close(got);
                teardown(&f);
                close(fds[i]);
        }
}

static void test_import_errors(void **state) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        int fd = make_memfd("x", SEALS), dir = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct confab_error e;
        struct fixture f;

        setup(&f);
        r.verb = CONFAB_IMPORT;
        assert_int_equal(confab_submit(f.c, &r, NULL, NULL, NULL, &e), -1);
        assert_string_equal(e.code, CONFAB_INVALID);
        r.has_fd = true;
        r.fd = 9999;
        assert_int_equal(confab_submit(f.c, &r, NULL, NULL, NULL, &e), -1);
        assert_string_equal(e.code, CONFAB_INVALID);
        r.fd = fd;
        r.name = "\xff";
        assert_int_equal(confab_submit(f.c, &r, NULL, NULL, NULL, &e), -1);
        assert_int_equal(confab_import(f.c, dir, NULL, NULL, NULL, &e), -1);
        assert_string_equal(e.code, CONFAB_SYSTEM);
        assert_int_equal(confab_get_n_pending(f.c), 0);
        /* Nothing of these was sent; more than may wait is refused, and what waits goes. */
        r.name = NULL;
        for (unsigned i = 0; i < PROTO_FDS_MAX; i++)
                assert_int_equal(confab_submit(f.c, &r, NULL, NULL, NULL, &e), 0);
        assert_int_equal(confab_submit(f.c, &r, NULL, NULL, NULL, &e), -1);
        assert_string_equal(e.code, CONFAB_LIMIT);
        assert_int_equal(confab_process(f.c, &e), 0);
        for (unsigned i = 0; i < PROTO_FDS_MAX; i++)
                close(take_import(&f, NULL));
        /* The daemon says no. */
        peer_send_error(&f.peer, FIRST_ID + PROTO_FDS_MAX, "corrupt", "no export", false);
        assert_int_equal(confab_import(f.c, fd, NULL, NULL, NULL, &e), -1);
        assert_string_equal(e.code, "corrupt");
        /* Some wait for ever. */
        assert_int_equal(confab_submit(f.c, &r, NULL, NULL, NULL, &e), 0);
        teardown(&f);
        close(fd);
        close(dir);
}

static void see_export(void *userdata, const struct confab_event *event) {
        int *kept = userdata;

        assert_int_equal(event->kind, CONFAB_EVENT_EXPORTED);
        assert_true(event->final);
        assert_int_equal(event->exported->size, 6);
        assert_int_equal(event->exported->n_memory_tokens, 96);
        expect_text(event->exported->fd, "export");
        if (kept)
                *kept = dup(event->exported->fd);
}

static void test_export(void **state) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        int fd = make_memfd("export", 0), kept = -1;
        struct confab_exported exported;
        struct confab_error e;
        struct fixture f;

        setup(&f);
        r.conversation = "a";
        peer_send_exported(&f.peer, FIRST_ID, fd, 6);
        assert_int_equal(confab_export(f.c, &r, &kept, &exported, &e), 0);
        assert_int_equal(exported.size, 6);
        assert_int_equal(exported.n_memory_tokens, 96);
        assert_true(fcntl(kept, F_GETFD) & FD_CLOEXEC);
        expect_text(kept, "export");
        close(kept);
        peer_expect(&f.peer, CONFAB__V1__REQUEST__VERB_EXPORT);
        /* In an event loop; two at once, and something else between. */
        r.verb = CONFAB_EXPORT;
        assert_int_equal(confab_submit(f.c, &r, see_export, NULL, NULL, &e), 0);
        assert_int_equal(confab_submit(f.c, &r, see_export, &kept, NULL, &e), 0);
        peer_send_exported(&f.peer, FIRST_ID + 2, fd, 6);
        peer_send_empty(&f.peer, 77);
        peer_send_exported(&f.peer, FIRST_ID + 1, fd, 6);
        assert_int_equal(confab_process(f.c, &e), 0);
        while (confab_get_n_pending(f.c))
                assert_int_equal(confab_wait(f.c, 1000, &e), 0);
        expect_text(kept, "export");
        close(kept);
        /* For nobody: closed. */
        peer_send_exported(&f.peer, 77, fd, 6);
        peer_send_error(&f.peer, FIRST_ID + 3, "not_found", "none", false);
        assert_int_equal(confab_export(f.c, &r, &kept, NULL, &e), -1);
        assert_string_equal(e.code, "not_found");
        teardown(&f);
        close(fd);
}

static void test_export_without_descriptor(void **state) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct confab_error e;
        struct fixture f;
        int fd = -1;

        setup(&f);
        r.conversation = "a";
        peer_send_exported(&f.peer, FIRST_ID, -1, 6);
        assert_int_equal(confab_export(f.c, &r, &fd, NULL, &e), -1);
        assert_string_equal(e.code, CONFAB_PROTOCOL);
        assert_int_equal(fd, -1);
        assert_int_equal(confab_process(f.c, &e), -1);
        teardown(&f);
}

/* --- in the stream --- */

static void send_bytes(struct peer *p, uint64_t id, const char *text) {
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
        Confab__V1__Chunk chunk = CONFAB__V1__CHUNK__INIT;

        chunk.has_data = true;
        chunk.data = (ProtobufCBinaryData){strlen(text), proto_borrow(text)};
        event.has_request = true;
        event.request = id;
        event.kind_case = CONFAB__V1__EVENT__KIND_CHUNK;
        event.chunk = &chunk;
        peer_send(p, &event);
}

struct sink {
        char text[64];
        unsigned n_calls, stop_at;
};

static int take_bytes(void *userdata, const void *data, size_t size) {
        struct sink *s = userdata;

        assert_true(strlen(s->text) + size < sizeof(s->text));
        strncat(s->text, data, size);
        return ++s->n_calls == s->stop_at;
}

static void test_export_stream(void **state) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct confab_exported exported;
        struct confab_error e;
        struct sink s = {};
        struct fixture f;
        struct proto_message *m;

        setup(&f);
        r.conversation = "a";
        send_bytes(&f.peer, FIRST_ID, "one ");
        send_bytes(&f.peer, FIRST_ID, "two ");
        peer_send_exported(&f.peer, FIRST_ID, -1, 8);
        assert_int_equal(confab_export_stream(f.c, &r, take_bytes, &s, &exported, &e), 0);
        assert_string_equal(s.text, "one two ");
        assert_int_equal(exported.size, 8);
        assert_int_equal(exported.fd, -1);
        m = peer_next(&f.peer);
        assert_true(m->request->export->in_stream);
        proto_message_free(m);
        /* The receiver has enough: the rest is not handed out. */
        s = (struct sink){.stop_at = 1};
        send_bytes(&f.peer, FIRST_ID + 1, "one ");
        send_bytes(&f.peer, FIRST_ID + 1, "two ");
        peer_send_error(&f.peer, FIRST_ID + 1, "cancelled", "cancelled", false);
        assert_int_equal(confab_export_stream(f.c, &r, take_bytes, &s, NULL, &e), -1);
        assert_string_equal(e.code, CONFAB_CANCELLED);
        assert_string_equal(s.text, "one ");
        peer_expect(&f.peer, CONFAB__V1__REQUEST__VERB_EXPORT);
        /* The daemon says no. Chunks of a request that wants none break the protocol. */
        peer_send_error(&f.peer, FIRST_ID + 3, "not_found", "none", false);
        assert_int_equal(confab_export_stream(f.c, &r, take_bytes, &s, NULL, &e), -1);
        assert_string_equal(e.code, "not_found");
        r.verb = CONFAB_GET;
        send_bytes(&f.peer, FIRST_ID + 4, "one ");
        assert_int_equal(confab_call(f.c, &r, NULL, NULL, &e), -1);
        assert_string_equal(e.code, CONFAB_PROTOCOL);
        teardown(&f);
}

struct source {
        struct peer *peer;
        size_t left;
        bool fails;
};

/* At the end the daemon has its answer ready, so that the caller finds it. */
static ptrdiff_t give_bytes(void *userdata, void *data, size_t size) {
        struct source *s = userdata;
        size_t most = MIN(size, (size_t)8000), n = MIN(s->left, most);

        if (s->left == 0 && s->fails) {
                peer_send_error(s->peer, FIRST_ID + 1, "cancelled", "cancelled", false);
                return -1;
        }
        if (s->left == 0)
                peer_send_conversation(s->peer, FIRST_ID, 9, "copy");
        memset(data, 'x', n);
        s->left -= n;
        return (ptrdiff_t)n;
}

/* Chunks of import @id until the last one, or (@n of them) without: their bytes. */
static size_t take_chunks(struct fixture *f, uint64_t id, size_t n) {
        bool last = false;
        size_t size = 0;

        for (size_t i = 0; !last && i < n; i++) {
                struct proto_message *m = peer_next(&f->peer);

                assert_int_equal(m->request->verb_case, CONFAB__V1__REQUEST__VERB_CHUNK);
                assert_int_equal(m->request->id, id);
                size += m->request->chunk->data.len;
                last = m->request->chunk->last;
                proto_message_free(m);
        }
        assert_true(last || n < SIZE_MAX);
        return size;
}

static void test_import_stream(void **state) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct source s = {.left = 20000};
        struct confab_error e;
        struct fixture f;
        struct proto_message *m;
        char name[32] = "", data[3000] = "";
        uint64_t id;

        setup(&f);
        s.peer = &f.peer;
        assert_int_equal(confab_import_stream(f.c, give_bytes, &s, "copy", see_name, name, &e), 0);
        assert_string_equal(name, "copy");
        m = peer_next(&f.peer);
        assert_int_equal(m->request->id, FIRST_ID);
        assert_true(m->request->import->in_stream);
        assert_string_equal(m->request->import->name, "copy");
        proto_message_free(m);
        assert_int_equal(take_chunks(&f, FIRST_ID, SIZE_MAX), 20000);
        /* The sender gives up. */
        s = (struct source){.peer = &f.peer, .left = 10, .fails = true};
        assert_int_equal(confab_import_stream(f.c, give_bytes, &s, NULL, NULL, NULL, &e), -1);
        assert_string_equal(e.code, CONFAB_CANCELLED);
        peer_expect(&f.peer, CONFAB__V1__REQUEST__VERB_IMPORT);
        assert_int_equal(take_chunks(&f, FIRST_ID + 1, 1), 10);
        /* In an event loop; the import may be over before all is sent. */
        confab_process(f.c, NULL);
        r.verb = CONFAB_IMPORT;
        r.in_stream = true;
        assert_int_equal(confab_send_chunk(f.c, 77, "x", 1, true, &e), -1);
        assert_string_equal(e.code, CONFAB_NOT_FOUND);
        assert_int_equal(confab_submit(f.c, &r, see_name, name, &id, &e), 0);
        assert_int_equal(confab_send_chunk(f.c, id, data, sizeof(data), false, &e), 0);
        peer_send_error(&f.peer, id, "limit", "full", true);
        assert_int_equal(confab_process(f.c, NULL), 0);
        assert_int_equal(confab_send_chunk(f.c, id, data, 1, true, &e), -1);
        assert_string_equal(e.code, CONFAB_NOT_FOUND);
        teardown(&f);
}

static void test_messages(void **state) {
        static const struct confab_call call = {"i", "f", NULL};
        static const struct confab_result result = {"i", NULL, "1"};
        struct confab_message messages[] = {
                {.role = CONFAB_ROLE_USER, .text = "hello", .text_size = 5},
                {.role = CONFAB_ROLE_ASSISTANT, .reasoning = "hm", .calls = &call, .n_calls = 1},
                {.role = CONFAB_ROLE_TOOL, .results = &result, .n_results = 1},
                {.role = CONFAB_ROLE_ASSISTANT, .text = "1", .text_size = 1},
        };
        struct confab_request r = CONFAB_REQUEST_INIT;
        const Confab__V1__Messages *got;
        struct confab_error e;
        struct fixture f;
        struct proto_message *m;

        setup(&f);
        r.verb = CONFAB_CONTINUE;
        r.conversation = "a";
        r.input = CONFAB_INPUT_MESSAGES;
        r.messages = messages;
        r.n_messages = ARRAY_SIZE(messages);
        assert_int_equal(confab_submit(f.c, &r, NULL, NULL, NULL, &e), 0);
        assert_int_equal(confab_process(f.c, NULL), 0);
        m = peer_next(&f.peer);
        assert_int_equal(m->request->continue_->input_case, CONFAB__V1__CONTINUE__INPUT_MESSAGES);
        got = m->request->continue_->messages;
        assert_int_equal(got->n_messages, 4);
        assert_int_equal(got->messages[0]->role, CONFAB__V1__ROLE__ROLE_USER);
        assert_string_equal(got->messages[0]->text, "hello");
        assert_string_equal(got->messages[1]->reasoning, "hm");
        assert_int_equal(got->messages[1]->n_calls, 1);
        assert_string_equal(got->messages[1]->calls[0]->name, "f");
        assert_null(got->messages[1]->calls[0]->arguments);
        assert_null(got->messages[1]->text);
        assert_string_equal(got->messages[2]->results[0]->call_id, "i");
        assert_string_equal(got->messages[2]->results[0]->text, "1");
        assert_string_equal(got->messages[3]->text, "1");
        proto_message_free(m);
        messages[3].text = "\xff";
        assert_int_equal(confab_submit(f.c, &r, NULL, NULL, NULL, &e), -1);
        assert_string_equal(e.code, CONFAB_INVALID);
        assert_string_equal(e.message, "message 4: the text is not valid UTF-8");
        messages[3].text = "\0";
        assert_int_equal(confab_submit(f.c, &r, NULL, NULL, NULL, &e), -1);
        assert_string_equal(e.message, "message 4: the text has a NUL byte");
        messages[1].reasoning = "\xff";
        assert_int_equal(confab_submit(f.c, &r, NULL, NULL, NULL, &e), -1);
        assert_string_equal(e.message, "message 2: the reasoning is not valid UTF-8");
        teardown(&f);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_import_sealed),
                cmocka_unit_test(test_import_copies),
                cmocka_unit_test(test_import_errors),
                cmocka_unit_test(test_export),
                cmocka_unit_test(test_export_without_descriptor),
                cmocka_unit_test(test_export_stream),
                cmocka_unit_test(test_import_stream),
                cmocka_unit_test(test_messages),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
