/* SPDX-License-Identifier: MIT */
#include "peer.h"
#include "util/test.h"
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void peer_init(struct peer *p, int fd) {
        *p = (struct peer){.fd = fd, .in = PROTO_DECODER_INIT(PROTO_MAX_REQUEST)};
}

void peer_deinit(struct peer *p) {
        if (p->fd >= 0)
                close(p->fd);
        p->fd = -1;
        proto_decoder_deinit(&p->in);
}

struct proto_message *peer_next(struct peer *p) {
        for (;;) {
                struct proto_message *m;
                uint8_t chunk[4096];
                const uint8_t *data;
                struct err e;
                size_t size;
                ssize_t n;
                int r, fd = -1;

                r = proto_decoder_next(&p->in, &data, &size, &e);
                assert_true(r >= 0);
                if (r > 0) {
                        assert_int_equal(proto_unpack_request(&m, data, size, NULL, &e), 0);
                        return m;
                }
                do {
                        n = proto_recv(p->fd, chunk, sizeof(chunk), 0, NULL, &fd);
                } while (n < 0 && errno == EINTR);
                if (n <= 0)
                        return NULL;
                assert_int_equal(proto_decoder_push(&p->in, chunk, (size_t)n, &e), 0);
                if (fd >= 0)
                        assert_int_equal(proto_decoder_push_fd(&p->in, fd, (size_t)n, &e), 0);
        }
}

int peer_take_fd(struct peer *p) {
        return proto_decoder_take_fd(&p->in);
}

uint64_t peer_expect(struct peer *p, Confab__V1__Request__VerbCase verb) {
        _cleanup_(proto_message_freep) struct proto_message *m = peer_next(p);

        assert_non_null(m);
        assert_int_equal(m->request->verb_case, verb);
        assert_true(m->request->id != 0);
        return m->request->id;
}

void peer_send_bytes(struct peer *p, const void *data, size_t n) {
        ssize_t k = send(p->fd, data, n, MSG_NOSIGNAL);

        if (k >= 0 || !p->may_leave || (errno != EPIPE && errno != ECONNRESET))
                assert_int_equal(k, n);
}

void peer_send(struct peer *p, const Confab__V1__Event *event) {
        struct buf out = BUF_NULL;

        assert_int_equal(proto_append_frame(&out, &event->base, PROTO_MAX_EVENT, NULL), 0);
        peer_send_bytes(p, out.data, out.size);
        buf_deinit(&out);
}

static Confab__V1__Event event_for(uint64_t id, Confab__V1__Event__KindCase kind) {
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;

        event.has_request = true;
        event.request = id;
        event.kind_case = kind;
        return event;
}

void peer_send_hello(struct peer *p, uint64_t id, uint32_t version, uint32_t max_frame) {
        Confab__V1__Event event = event_for(id, CONFAB__V1__EVENT__KIND_HELLO);
        Confab__V1__Hello hello = CONFAB__V1__HELLO__INIT;

        hello.has_version = hello.has_max_frame = true;
        hello.version = version;
        hello.max_frame = max_frame;
        hello.software = proto_borrow("peer 1");
        event.hello = &hello;
        peer_send(p, &event);
}

void peer_hello(struct peer *p) {
        peer_send_hello(p, peer_expect(p, CONFAB__V1__REQUEST__VERB_HELLO), PROTO_VERSION,
                PROTO_MAX_REQUEST);
}

void peer_send_error(
        struct peer *p, uint64_t id, const char *code, const char *message, bool retry) {
        Confab__V1__Event event = event_for(id, CONFAB__V1__EVENT__KIND_ERROR);
        Confab__V1__Error error = CONFAB__V1__ERROR__INIT;

        error.code = proto_borrow(code);
        error.message = proto_borrow(message);
        error.has_retry = true;
        error.retry = retry;
        event.error = &error;
        peer_send(p, &event);
}

void peer_send_empty(struct peer *p, uint64_t id) {
        Confab__V1__Event event = event_for(id, CONFAB__V1__EVENT__KIND_EMPTY);
        Confab__V1__Empty empty = CONFAB__V1__EMPTY__INIT;

        event.empty = &empty;
        peer_send(p, &event);
}

void peer_send_conversation(struct peer *p, uint64_t id, uint64_t conversation, const char *name) {
        Confab__V1__Event event = event_for(id, CONFAB__V1__EVENT__KIND_CONVERSATION);
        Confab__V1__Conversation c = CONFAB__V1__CONVERSATION__INIT;

        c.has_id = c.has_revision = c.has_n_tokens = c.has_n_turns = c.has_residency = true;
        c.id = conversation;
        c.name = proto_borrow(name);
        c.revision = 5;
        c.n_tokens = 120;
        c.n_turns = 4;
        c.residency = CONFAB__V1__RESIDENCY__RESIDENCY_SPILLED;
        c.has_disk_bytes = true;
        c.disk_bytes = 2202010;
        event.conversation = &c;
        peer_send(p, &event);
}

void peer_send_turns(
        struct peer *p, uint64_t id, uint64_t revision, const Confab__V1__Role *roles, size_t n) {
        Confab__V1__Event event = event_for(id, CONFAB__V1__EVENT__KIND_CONVERSATION);
        Confab__V1__Conversation c = CONFAB__V1__CONVERSATION__INIT;
        Confab__V1__Turn turns[8], *pointers[8];

        assert_true(n <= 8);
        for (size_t i = 0; i < n; i++) {
                confab__v1__turn__init(&turns[i]);
                turns[i].has_role = turns[i].has_start = turns[i].has_end = true;
                turns[i].role = roles[i];
                turns[i].start = (uint32_t)i * 10;
                turns[i].end = (uint32_t)i * 10 + 10;
                pointers[i] = &turns[i];
        }
        c.has_id = c.has_revision = c.has_n_turns = true;
        c.id = 3;
        c.revision = revision;
        c.n_turns = (uint32_t)n;
        c.turn_list = pointers;
        c.n_turn_list = n;
        event.conversation = &c;
        peer_send(p, &event);
}

void peer_send_texts(struct peer *p, uint64_t id, const char *const *texts, size_t n) {
        Confab__V1__Event event = event_for(id, CONFAB__V1__EVENT__KIND_CONVERSATION);
        Confab__V1__Conversation c = CONFAB__V1__CONVERSATION__INIT;
        Confab__V1__Turn turns[8], *pointers[8];

        assert_true(n <= 8);
        for (size_t i = 0; i < n; i++) {
                confab__v1__turn__init(&turns[i]);
                turns[i].has_role = turns[i].has_text = true;
                turns[i].role =
                        i % 2 ? CONFAB__V1__ROLE__ROLE_ASSISTANT : CONFAB__V1__ROLE__ROLE_USER;
                turns[i].text.data = proto_borrow(texts[i]);
                turns[i].text.len = strlen(texts[i]);
                pointers[i] = &turns[i];
        }
        c.has_id = true;
        c.id = 3;
        c.name = proto_borrow("bob");
        c.turn_list = pointers;
        c.n_turn_list = n;
        event.conversation = &c;
        peer_send(p, &event);
}

void peer_send_list(struct peer *p, uint64_t id, const char *const *names, size_t n) {
        Confab__V1__Event event = event_for(id, CONFAB__V1__EVENT__KIND_CONVERSATIONS);
        Confab__V1__Conversations list = CONFAB__V1__CONVERSATIONS__INIT;
        Confab__V1__Conversation items[8], *pointers[8];

        assert_true(n <= 8);
        for (size_t i = 0; i < n; i++) {
                confab__v1__conversation__init(&items[i]);
                items[i].has_id = true;
                items[i].id = i + 1;
                items[i].name = proto_borrow(names[i]);
                pointers[i] = &items[i];
        }
        list.conversations = pointers;
        list.n_conversations = n;
        event.conversations = &list;
        peer_send(p, &event);
}

void peer_send_exported(struct peer *p, uint64_t id, int fd, uint64_t size) {
        Confab__V1__Event event = event_for(id, CONFAB__V1__EVENT__KIND_EXPORTED);
        Confab__V1__Exported exported = CONFAB__V1__EXPORTED__INIT;
        struct proto_fds fds = {0};
        struct buf out = BUF_NULL;
        size_t sent = 0;

        exported.has_size = exported.has_n_memory_tokens = true;
        exported.size = size;
        exported.n_memory_tokens = 96;
        event.exported = &exported;
        assert_int_equal(proto_append_frame(&out, &event.base, PROTO_MAX_EVENT, NULL), 0);
        if (fd >= 0)
                assert_int_equal(proto_fds_add(&fds, dup(fd), 0, out.size, NULL), 0);
        while (sent < out.size) {
                ssize_t n = proto_send(
                        p->fd, out.data + sent, out.size - sent, sent, MSG_NOSIGNAL, &fds);

                assert_true(n > 0);
                sent += (size_t)n;
        }
        buf_deinit(&out);
}

void peer_send_accepted(struct peer *p, uint64_t id) {
        Confab__V1__Event event = event_for(id, CONFAB__V1__EVENT__KIND_ACCEPTED);
        Confab__V1__Accepted a = CONFAB__V1__ACCEPTED__INIT;

        a.has_conversation = a.has_revision = a.has_n_prompt = a.has_n_ram = a.has_n_disk = true;
        a.has_n_computed = a.has_differs_at = true;
        a.conversation = 3;
        a.revision = 5;
        a.n_prompt = 130;
        a.n_ram = 96;
        a.n_disk = 16;
        a.has_n_shared = a.has_differs_why = true;
        a.n_shared = 8;
        a.differs_why = CONFAB__V1__DIFFERS__DIFFERS_TOKEN;
        a.n_computed = 10;
        a.differs_at = 120;
        event.accepted = &a;
        peer_send(p, &event);
}

void peer_send_progress(struct peer *p, uint64_t id, uint32_t done, uint32_t total) {
        Confab__V1__Event event = event_for(id, CONFAB__V1__EVENT__KIND_PROGRESS);
        Confab__V1__Progress progress = CONFAB__V1__PROGRESS__INIT;

        progress.has_done = progress.has_total = true;
        progress.done = done;
        progress.total = total;
        event.progress = &progress;
        peer_send(p, &event);
}

void peer_send_delta(struct peer *p, uint64_t id, const char *text) {
        Confab__V1__Event event = event_for(id, CONFAB__V1__EVENT__KIND_DELTA);
        Confab__V1__Delta delta = CONFAB__V1__DELTA__INIT;

        delta.text = proto_borrow(text);
        event.delta = &delta;
        peer_send(p, &event);
}

void peer_send_done(struct peer *p, uint64_t id, Confab__V1__FinishReason finish) {
        Confab__V1__Event event = event_for(id, CONFAB__V1__EVENT__KIND_DONE);
        Confab__V1__Done done = CONFAB__V1__DONE__INIT;

        done.has_finish = done.has_revision = done.has_n_generated = done.has_seed = true;
        done.finish = finish;
        done.revision = 6;
        done.n_generated = 7;
        done.seed = UINT64_MAX;
        event.done = &done;
        peer_send(p, &event);
}
