/* SPDX-License-Identifier: MIT */
/*
 * Every allocation of the daemon (not those inside libevent) fails once while it starts, accepts
 * clients, generates, lists, reloads and disconnects the clients. The daemon may refuse to start,
 * answer with an error or close a connection. It must not crash, leak, or stop serving the next
 * client.
 */
#include "../../unit/daemon/daemon-fixture.h"
#include "fault/loop.h"
#include "util/fds.h"
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>

#define MAX_ALLOCATIONS 10000

static int sealed[2];

static bool step_only(struct wire *w) {
        struct fixture *f = w->arg;
        static unsigned n;

        daemon_step(f->d);
        return ++n % 200 != 0;
}

/* Takes events until one is for @id and final, or the connection ends. */
static bool drain(struct wire *w, uint64_t id) {
        for (;;) {
                struct proto_message *m = wire_event(w);
                bool over;

                if (!m)
                        return false;
                over = m->event->request == id &&
                       m->event->kind_case != CONFAB__V1__EVENT__KIND_DELTA;
                proto_message_free(m);
                if (over)
                        return true;
        }
}

#define N_VERBS 5
static uint64_t send_verb(struct wire *w, int verb) {
        Confab__V1__Ref ref = CONFAB__V1__REF__INIT;
        REQUEST(list, LIST, List, list, m1);
        REQUEST(get, GET, Get, get, m2);
        REQUEST(tokenize, TOKENIZE, Tokenize, tokenize, m3);
        REQUEST(export, EXPORT, Export, export, m4);
        REQUEST(import, IMPORT, Import, import, m5);
        Confab__V1__Request *const all[] = {&list, &get, &tokenize, &export, &import};

        ref.has_id = true;
        ref.id = 7;
        m2.conversation = m4.conversation = &ref;
        return verb == 4 ? wire_send_fds(w, &import, sealed, 2) : wire_send(w, all[verb]);
}

static void answer_all(void) {
        static struct engine_conv convs[2] = {
                {.id = 1, .sampling = {.has = 0x3ff, .n_biases = 2}}, {.id = 2}};
        static struct engine_logprob top[2];

        for (size_t i = 0; i < fake.n; i++) {
                uint64_t h = fake.requests[i].r.handle;

                if (fake.requests[i].over)
                        continue;
                switch (fake.requests[i].r.verb) {
                case ENGINE_CONTINUE:
                        fake_emit(&(struct engine_event){.handle = h,
                                .kind = ENGINE_DELTA,
                                .delta = {.has_token = true, .n_top = 2, .top = top}});
                        fake_emit_done(h);
                        break;
                case ENGINE_LIST:
                        fake_emit(&(struct engine_event){.handle = h,
                                .kind = ENGINE_CONVS,
                                .final = true,
                                .convs = {.convs = convs, .n = 2}});
                        break;
                case ENGINE_TENANT:
                        fake_emit_owner(h, 1);
                        break;
                case ENGINE_EXPORT:
                        fake_emit_exported(h, "export");
                        break;
                case ENGINE_GET:
                        fake_emit(&(struct engine_event){
                                .handle = h, .kind = ENGINE_CONV, .final = true, .conv = convs[0]});
                        break;
                default:
                        fake_emit_error(h, ERR_STATE, "so it is");
                }
        }
}

/* One session of a client; whatever goes wrong ends it. The harness's own allocations are spared
 * by disarming around them only where they would hide the daemon's: they may fail as well. */
static void session(struct fixture *f) {
        struct wire w;
        uint64_t id;

        if (wire_connect(&w, f->socket, step_only, f) < 0)
                return;
        if (wire_hello(&w)) {
                id = fixture_send_continue(&w, "Hi", false);
                for (int verb = 0; id && verb < N_VERBS; verb++)
                        send_verb(&w, verb);
                fixture_steps(f, 5);
                answer_all();
                if (id)
                        drain(&w, id);
        }
        wire_close(&w);
        fixture_steps(f, 5);
}

/* Another one acts for a tenant, and does not wait for the answer. */
static void acting(struct fixture *f) {
        struct wire w;
        uint64_t id;

        if (wire_connect(&w, f->socket, step_only, f) < 0)
                return;
        id = wire_send_hello_for(&w, NULL, "anna");
        if (id)
                id = fixture_send_stats(&w);
        for (int i = 0; i < 2; i++) {
                fixture_steps(f, 5);
                answer_all();
        }
        if (id)
                drain(&w, id);
        wire_close(&w);
        /* The engine never owes an answer, but the fake one may have lost it. */
        for (size_t i = 0; i < fake.n; i++)
                if (fake.requests[i].r.verb == ENGINE_TENANT)
                        fake_emit_owner(fake.requests[i].r.handle, 1);
        fixture_steps(f, 5);
}

/* Another one takes and gives files in the stream. */
static void streaming(struct fixture *f) {
        REQUEST(export, EXPORT, Export, export, m1);
        REQUEST(import, IMPORT, Import, import, m2);
        REQUEST(part, CHUNK, Chunk, chunk, m3);
        Confab__V1__Ref ref = CONFAB__V1__REF__INIT;
        struct wire w;
        uint64_t id = 0;

        if (wire_connect(&w, f->socket, step_only, f) < 0)
                return;
        fake_answer(ENGINE_READ_FILE, true);
        fake_answer(ENGINE_WRITE_FILE, true);
        ref.has_id = true;
        ref.id = 7;
        m1.conversation = &ref;
        m1.has_in_stream = m1.in_stream = m2.has_in_stream = m2.in_stream = true;
        m2.name = proto_borrow("copy");
        m3.has_data = true;
        m3.data = (ProtobufCBinaryData){4, proto_borrow("text")};
        if (wire_hello(&w))
                id = wire_send(&w, &import);
        if (id && wire_send(&w, &export)) {
                part.has_id = true;
                part.id = id;
                wire_send(&w, &part);
                m3.has_last = m3.last = true;
                wire_send(&w, &part);
                fixture_steps(f, 10);
                answer_all();
                drain(&w, id);
        }
        wire_close(&w);
        fixture_steps(f, 5);
        /* As above. */
        for (size_t i = 0; i < fake.n; i++)
                if (fake.requests[i].r.verb == ENGINE_READ_FILE ||
                        fake.requests[i].r.verb == ENGINE_WRITE_FILE || fake.requests[i].r.own_file)
                        fake_emit_error(fake.requests[i].r.handle, ERR_STATE, "again");
        answer_all();
        fixture_steps(f, 5);
}

static void history(void **state, struct fault_loop *loop) {
        struct fixture *f;

        fixture_setup_closed(state);
        f = *state;
        fault_loop_arm(loop);
        if (daemon_new(&f->d, &f->settings, 0, NULL, &f->e) < 0) {
                fault_loop_disarm(loop);
                assert_true(loop->hit);
                assert_true(f->e.code == ERR_NOMEM);
                assert_null(f->d);
        } else {
                session(f);
                acting(f);
                streaming(f);
                fault_loop_disarm(loop);
                /* The next client is served. */
                fixture_wait_peers(f, 0);
                session(f);
                fixture_wait_peers(f, 0);
                streaming(f);
                fixture_wait_peers(f, 0);
                assert_int_equal(fake.file_bytes, 0);
                assert_true(list_empty(&f->d->streams));
                assert_int_equal(f->d->users.io.used, 0);
        }
}

static void test_each_allocation(void **state) {
        struct fault_loop loop = {.at_least = 31, .at_most = MAX_ALLOCATIONS};
        size_t n_fds;

        /* What a peer may give: a memfd as it should be, and something else. */
        sealed[0] = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        assert_int_equal(
                fcntl(sealed[0], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), 0);
        sealed[1] = memfd_create("test", MFD_CLOEXEC);
        n_fds = test_count_fds();
        while (fault_loop_next(&loop)) {
                void *own = NULL;

                history(&own, &loop);
                fixture_teardown(&own);
                /* Another thread closes what may not be memory. */
                for (unsigned i = 0; test_count_fds() != n_fds; i++) {
                        if (i == 100000)
                                fail_msg("allocation %ld: %zu descriptors, not %zu", loop.n,
                                        test_count_fds(), n_fds);
                        sched_yield();
                }
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_each_allocation),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
