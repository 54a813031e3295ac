/* SPDX-License-Identifier: MIT */
/*
 * A Continue from an earlier place (edit.c) gives the same as a Rewind and a Continue. Until it has
 * committed, or if it is refused, is cancelled or fails, the conversation and its memory are
 * unchanged.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "model/model.h"
#include "gate.h"
#include "rig.h"
#include "store/store.h"
#include "util/test.h"

static struct answer A, B, C, T, many[3];

static const char SYSTEM[] = "You are a helpful assistant who knows all animals of the world, and "
                             "where they live, and what they eat, and how long they sleep.";

/* --- gates: what the engine does waits before them --- */

static struct gate {
        pthread_mutex_t lock;
        pthread_cond_t cond;
        bool closed, held; /* held: somebody stands before it */
        unsigned passes;   /* so many pass before it is closed */
} link_gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER},
  step_gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};

static void gate_pass(struct gate *gate) {
        pthread_mutex_lock(&gate->lock);
        if (gate->closed && gate->passes > 0)
                gate->passes--;
        else
                gate->held = gate->closed;
        pthread_cond_broadcast(&gate->cond);
        while (gate->held)
                pthread_cond_wait(&gate->cond, &gate->lock);
        pthread_mutex_unlock(&gate->lock);
}

static void gate_close(struct gate *gate, unsigned passes) {
        pthread_mutex_lock(&gate->lock);
        gate->closed = true;
        gate->passes = passes;
        pthread_mutex_unlock(&gate->lock);
}

/* Until somebody stands before it. */
static void gate_wait(struct gate *gate) {
        gate_await(&gate->lock, &gate->cond, &gate->held);
}

static void gate_open(struct gate *gate) {
        pthread_mutex_lock(&gate->lock);
        gate->closed = gate->held = false;
        pthread_cond_broadcast(&gate->cond);
        pthread_mutex_unlock(&gate->lock);
}

int __real_model_forward(struct model_work *w, const struct model_token *batch, size_t n,
        const struct model_wait *wait);
int __wrap_model_forward(struct model_work *w, const struct model_token *batch, size_t n,
        const struct model_wait *wait);
int __wrap_model_forward(struct model_work *w, const struct model_token *batch, size_t n,
        const struct model_wait *wait) {
        gate_pass(&step_gate);
        return __real_model_forward(w, batch, n, wait);
}

int __real_store_link(struct store *s, uint64_t id, const struct fingerprint *model,
        struct store_record *links, size_t n, const struct store_meter *meters, size_t n_meters,
        struct store_gone *gone, struct err *e);
int __wrap_store_link(struct store *s, uint64_t id, const struct fingerprint *model,
        struct store_record *links, size_t n, const struct store_meter *meters, size_t n_meters,
        struct store_gone *gone, struct err *e);
int __wrap_store_link(struct store *s, uint64_t id, const struct fingerprint *model,
        struct store_record *links, size_t n, const struct store_meter *meters, size_t n_meters,
        struct store_gone *gone, struct err *e) {
        gate_pass(&link_gate);
        return __real_store_link(s, id, model, links, n, meters, n_meters, gone, e);
}

/* --- helpers --- */

static void get(struct erig *r, uint64_t conv, struct answer *a) {
        struct engine_request q = {
                .verb = ENGINE_GET, .conv_id = conv, .want_turns = true, .want_tokens = true};

        assert_int_equal(erig_do(r, &q, a), ENGINE_CONV);
}

static void check_same(const struct answer *is, const struct answer *was) {
        assert_int_equal(is->conv.revision, was->conv.revision);
        assert_int_equal(is->conv.n_published, was->conv.n_published);
        assert_int_equal(is->conv.n_tokens, was->conv.n_tokens);
        assert_int_equal(is->n_turns, was->n_turns);
        assert_memory_equal(is->history, was->history, was->conv.n_tokens * sizeof(*was->history));
        for (uint32_t i = 0; i < was->n_turns; i++) {
                const struct engine_turn *a = &is->turns[i], *b = &was->turns[i];

                assert_int_equal(a->role, b->role);
                assert_int_equal(a->start, b->start);
                assert_int_equal(a->end, b->end);
                assert_int_equal(a->finish, b->finish);
                assert_int_equal(a->created_usec, b->created_usec);
                assert_int_equal(a->text_size, b->text_size);
                assert_memory_equal(a->text, b->text, b->text_size);
        }
}

/* It is as @was, in the register as well. */
static void check_as_before(struct erig *r, uint64_t conv, const struct answer *was) {
        get(r, conv, &C);
        check_same(&C, was);
        assert_false(C.conv.busy);
}

static struct engine_request edit_request(
        uint64_t conv, uint32_t at_turn, const char *text, uint32_t max_tokens) {
        struct engine_request q = erig_say_request(conv, text, max_tokens);

        q.cuts = true;
        q.at_turn = at_turn;
        q.at_position = ENGINE_UNSET;
        if (!text[0])
                q.input = ENGINE_INPUT_NONE;
        return q;
}

static uint64_t fork_of(struct erig *r, uint64_t conv) {
        struct engine_request q = {.verb = ENGINE_FORK,
                .conv_id = conv,
                .at_turn = ENGINE_UNSET,
                .at_position = ENGINE_UNSET};

        assert_int_equal(erig_do(r, &q, &C), ENGINE_CONV);
        return C.conv.id;
}

/* System, and two messages with their replies: five turns. */
static uint64_t talk(struct erig *r) {
        static const char *const texts[] = {"Hello, my name is Ada, and I have a cat and a dog.",
                "What is my name, and how long does my cat sleep?"};
        uint64_t c = erig_new(r, NULL, SYSTEM);

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                struct engine_request q = erig_say_request(c, texts[i], 20 + 10 * (uint32_t)i);

                q.ignore_eos = true;
                assert_int_equal(erig_do(r, &q, &A), ENGINE_DONE);
        }
        return c;
}

static void print_finding(void *arg, const struct store_finding *f) {
        print_message("%s\n", f->text);
}

static void check_register(struct erig *r) {
        struct store_census census;
        struct store *s = NULL;
        char path[128];

        erig_stop(r, true);
        snprintf(path, sizeof(path), "%s/register.db", r->dir);
        assert_int_equal(store_open_readonly(&s, path, NULL), 0);
        assert_int_equal(store_check(s, print_finding, NULL, &census, NULL), 0);
        assert_int_equal(census.n_findings, 0);
        store_free(s);
        erig_start(r);
}

static const char *words(size_t n) {
        static char text[8 * 4000 + 1];

        assert_true(n <= 4000);
        for (size_t i = 0; i < n; i++)
                memcpy(text + 8 * i, i % 3 ? "  river " : " animal ", 8);
        text[8 * n] = '\0';
        return text;
}

/* Send it, and let it come through @n_steps steps of the engine; the next one waits. */
static void send_and_hold(
        struct erig *r, struct engine_request *q, unsigned n_steps, struct answer *a) {
        gate_close(&step_gate, n_steps);
        erig_send(r, q, a);
        gate_wait(&step_gate);
}

/* --- it is a Rewind and a Continue --- */

/* The same on a fork, in two requests. */
static void compare(struct erig *r, uint64_t conv, struct engine_request q) {
        struct engine_request rewind = {
                .verb = ENGINE_REWIND, .at_turn = q.at_turn, .at_position = q.at_position};
        uint64_t revision;

        get(r, conv, &T);
        revision = T.conv.revision;
        rewind.conv_id = fork_of(r, conv);
        if (erig_do(r, &q, &A) != ENGINE_DONE)
                fail_msg("turn %u, position %u: %s", q.at_turn, q.at_position, A.err.msg);
        assert_int_equal(A.revision, revision + 1);
        assert_int_equal(erig_do(r, &rewind, &B), ENGINE_CONV);
        q.cuts = false;
        q.conv_id = rewind.conv_id;
        assert_int_equal(erig_do(r, &q, &B), ENGINE_DONE);
        answer_same(&A, &B);
        assert_int_equal(A.n_prompt, B.n_prompt);
        assert_int_equal(A.finish, B.finish);
        get(r, conv, &A);
        get(r, rewind.conv_id, &B);
        /* But for what is theirs. */
        A.conv.revision = B.conv.revision;
        for (uint32_t i = 0; i < A.n_turns; i++)
                A.turns[i].created_usec = B.turns[i].created_usec;
        check_same(&A, &B);
        assert_int_equal(erig_simple(r, ENGINE_CLOSE, rewind.conv_id, NULL), ENGINE_EMPTY);
        assert_int_equal(erig_simple(r, ENGINE_CLOSE, conv, NULL), ENGINE_EMPTY);
}

static void test_as_two(void **state) {
        static const int32_t tokens[] = {301, 302, 340, 377, 390};
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c;

        erig_need_model();
        erig_open(&r, &o);
        for (uint32_t at = 0; at <= 5; at++) {
                c = talk(&r);
                if (at % 2)
                        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, NULL), ENGINE_CONV);
                q = edit_request(c, at, "And how long does my dog sleep?", 8);
                if (at == 3) {
                        q.input = ENGINE_INPUT_TOKENS;
                        q.tokens = tokens;
                        q.n_tokens = ARRAY_SIZE(tokens);
                }
                if (at == 4)
                        q.max_tokens = 0;
                compare(&r, c, q);
        }
        /* Another reply, and the rest of one. */
        c = talk(&r);
        compare(&r, c, edit_request(c, 4, "", 8));
        for (uint32_t back = 3; back < 30; back += 7) {
                c = talk(&r);
                if (back % 2)
                        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, NULL), ENGINE_CONV);
                get(&r, c, &T);
                q = edit_request(c, ENGINE_UNSET, back > 20 ? "Never mind." : "", 8);
                q.at_position = T.conv.n_tokens - back;
                compare(&r, c, q);
        }
        erig_check_empty(&r);
        erig_close(&r);
}

/* The seed that Done tells gives the reply once more. */
static void test_seed_told(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c;

        erig_need_model();
        erig_open(&r, &o);
        c = talk(&r);
        q = edit_request(c, 3, "Tell me a story.", 16);
        q.sampling = (struct sampling){.has = SAMPLING_TEMPERATURE, .temperature = 5};
        q.ignore_eos = true;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        q.sampling.has |= SAMPLING_SEED;
        q.sampling.seed = A.seed;
        assert_int_equal(erig_do(&r, &q, &B), ENGINE_DONE);
        assert_int_equal(B.seed, A.seed);
        answer_same(&A, &B);
        /* (And it is not that all seeds do.) */
        q.sampling.seed = A.seed + 1;
        assert_int_equal(erig_do(&r, &q, &B), ENGINE_DONE);
        assert_int_not_equal(memcmp(A.tokens, B.tokens, 16 * sizeof(A.tokens[0])), 0);
        erig_close(&r);
}

/* --- refused: all as before, and nothing to compute again --- */

static void refuse(struct erig *r, struct engine_request *q, enum err_code code) {
        if (erig_do(r, q, &A) != ENGINE_ERROR || A.err.code != code)
                fail_msg("turn %u, position %u: %s", q->at_turn, q->at_position, A.err.msg);
        check_as_before(r, q->conv_id, &T);
}

static void test_refused(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        struct erig r;
        int32_t bad = INT32_MAX;
        uint64_t c, d;

        erig_need_model();
        erig_open(&r, &o);
        c = talk(&r);
        d = fork_of(&r, c);
        get(&r, c, &T);
        for (uint32_t at = 0; at < 5; at++) {
                q = edit_request(c, at, words(4000), 8);
                refuse(&r, &q, ERR_CONTEXT);
                q = edit_request(c, at, "Hello", 8);
                q.sampling.has |= SAMPLING_BIASES;
                q.sampling.n_biases = 1;
                q.sampling.biases[0].token = 99999999;
                refuse(&r, &q, ERR_INVALID);
                q = edit_request(c, at, "Hello", 8);
                q.n_stops = 1;
                q.stops[0] = "";
                refuse(&r, &q, ERR_INVALID);
                q = edit_request(c, at, "", 0);
                refuse(&r, &q, ERR_INVALID);
                q = edit_request(c, at, "", 8);
                q.input = ENGINE_INPUT_TOKENS;
                q.tokens = &bad;
                q.n_tokens = 1;
                refuse(&r, &q, ERR_INVALID);
                q = edit_request(c, at, "Hello", 8);
                q.has_expect_revision = true;
                q.expect_revision = T.conv.revision + 1;
                refuse(&r, &q, ERR_CONFLICT);
        }
        q = edit_request(c, 0, "", 8);
        refuse(&r, &q, ERR_INVALID); /* nothing is left to go on from */
        q = edit_request(c, 6, "Hello", 8);
        refuse(&r, &q, ERR_INVALID);
        q = edit_request(c, ENGINE_UNSET, "Hello", 8);
        refuse(&r, &q, ERR_INVALID); /* neither, or a number that is no turn */
        q.at_position = T.conv.n_tokens + 1;
        refuse(&r, &q, ERR_INVALID);
        q.at_position = T.turns[3].start + 1;
        refuse(&r, &q, ERR_INVALID); /* within what a user said */
        q.at_position = T.turns[4].start + 1;
        refuse(&r, &q, ERR_INVALID); /* within what invites the reply */
        /* All of its memory is there, in RAM. */
        erig_say(&r, c, "And my dog?", 8, &A);
        erig_say(&r, d, "And my dog?", 8, &B);
        answer_same(&A, &B);
        assert_int_equal(A.n_ram, T.conv.n_tokens - 1);
        assert_int_equal(erig_stat(&r, "tokens_recomputed"), 0);
        check_register(&r);
        erig_close(&r);
}

/* Another user's. */
static void test_not_ours(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c;

        erig_need_model();
        erig_open(&r, &o);
        c = talk(&r);
        get(&r, c, &T);
        q = edit_request(c, 1, "Hello", 8);
        q.uid = 7;
        refuse(&r, &q, ERR_NOT_FOUND);
        q.uid = 0;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        erig_close(&r);
}

/* --- cancelled --- */

static void cancelled_early(uint32_t max_active, bool queued, bool spilled) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q, first;
        struct erig r;
        uint64_t c, d, other;

        o.batch_tokens = 2;
        o.max_active = max_active;
        erig_open(&r, &o);
        c = talk(&r);
        other = erig_new(&r, NULL, NULL);
        if (spilled)
                assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, NULL), ENGINE_CONV);
        d = fork_of(&r, c);
        get(&r, c, &T);
        for (uint32_t at = 1; at <= T.n_turns; at += 2) {
                q = edit_request(c, at, words(300), 8);
                if (at == 5) { /* inside the last reply, and inside a block */
                        q.at_turn = ENGINE_UNSET;
                        q.at_position = T.conv.n_tokens - 7;
                }
                if (queued) {
                        first = erig_say_request(other, "Tell me a long story.", 400);
                        first.ignore_eos = true;
                        erig_send(&r, &first, &many[0]);
                        while (many[0].n_tokens == 0)
                                erig_step(&r);
                }
                if (queued) {
                        erig_send(&r, &q, &many[1]);
                        engine_pause(r.en, q.handle, true);
                        get(&r, c, &C); /* it is under way: the turns are the old ones */
                        assert_int_equal(C.n_turns, T.n_turns);
                } else {
                        send_and_hold(&r, &q, at, &many[1]);
                }
                engine_cancel(r.en, q.handle);
                gate_open(&step_gate);
                erig_wait(&r, &many[1]);
                assert_int_equal(many[1].kind, ENGINE_ERROR);
                assert_int_equal(many[1].err.code, ERR_CANCELLED);
                check_as_before(&r, c, &T);
                if (queued) {
                        engine_cancel(r.en, first.handle);
                        erig_wait(&r, &many[0]);
                }
        }
        /* Here as on disk: a fork takes what RAM knows of the turns. */
        erig_say(&r, fork_of(&r, c), "And my dog?", 8, &A);
        erig_say(&r, d, "And my dog?", 8, &B);
        answer_same(&A, &B);
        assert_int_equal(A.n_ram + A.n_shared + A.n_disk, T.conv.n_tokens - 1);
        assert_int_equal(erig_stat(&r, "restore_failures"), 0);
        /* What a cancelled one has read is there still. */
        assert_true(!spilled || queued || A.n_disk < 32);
        /* (Of a block that is cut and lies on disk only, the kept tokens are computed anew.) */
        assert_true(spilled || erig_stat(&r, "tokens_recomputed") == 0);
        check_register(&r);
        erig_close(&r);
}

static void test_cancelled_early(void **state) {
        erig_need_model();
        cancelled_early(4, false, false);
        cancelled_early(4, false, true);
        cancelled_early(1, true, false);
        cancelled_early(1, true, true);
}

/* After the first token it is kept, and what it replaces goes. */
static void test_cancelled_late(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c;

        erig_need_model();
        erig_open(&r, &o);
        c = talk(&r);
        get(&r, c, &T);
        q = edit_request(c, 3, "Tell me a long story.", 400);
        q.ignore_eos = true;
        erig_send(&r, &q, &A);
        while (A.n_tokens < 3)
                erig_step(&r);
        get(&r, c, &C);
        check_same(&C, &T);
        assert_true(C.conv.busy);
        engine_cancel(r.en, q.handle);
        erig_wait(&r, &A);
        assert_int_equal(A.kind, ENGINE_DONE);
        assert_int_equal(A.finish, ENGINE_FINISH_CANCELLED);
        assert_int_equal(A.revision, T.conv.revision + 1);
        get(&r, c, &C);
        assert_int_equal(C.n_turns, 5);
        assert_int_equal(C.conv.revision, A.revision);
        assert_int_equal(C.turns[3].text_size, strlen("Tell me a long story."));
        assert_int_equal(C.turns[4].finish, ENGINE_FINISH_CANCELLED);
        assert_memory_equal(C.history, T.history, T.turns[2].end * sizeof(*T.history));
        erig_say(&r, c, "And now?", 6, &A);
        check_register(&r);
        erig_close(&r);
}

/* --- others, meanwhile --- */

static void test_busy(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q, again,
                fork = {.verb = ENGINE_FORK, .at_turn = ENGINE_UNSET, .at_position = ENGINE_UNSET};
        struct erig r;
        uint64_t c;

        erig_need_model();
        erig_open(&r, &o);
        c = talk(&r);
        q = edit_request(c, 3, "Tell me a long story.", 400);
        q.ignore_eos = true;
        erig_send(&r, &q, &many[0]);
        while (many[0].n_tokens == 0)
                erig_step(&r);
        fork.conv_id = c;
        assert_int_equal(erig_do(&r, &fork, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_BUSY);
        again = edit_request(c, 1, "Hello", 8);
        assert_int_equal(erig_do(&r, &again, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_BUSY);
        engine_cancel(r.en, q.handle);
        erig_wait(&r, &many[0]);
        assert_int_equal(many[0].kind, ENGINE_DONE);
        assert_int_equal(erig_do(&r, &fork, &A), ENGINE_CONV);
        /* One that only appends goes together with a fork, as ever. */
        q = erig_say_request(c, "And on.", 400);
        q.ignore_eos = true;
        erig_send(&r, &q, &many[0]);
        while (many[0].n_tokens == 0)
                erig_step(&r);
        assert_int_equal(erig_do(&r, &fork, &A), ENGINE_CONV);
        engine_cancel(r.en, q.handle);
        erig_wait(&r, &many[0]);
        erig_close(&r);
}

/* What takes turns away waits while write-behind links blocks of them, and no longer: else there
 * would be records of tokens that the conversation does not have. All others go on. */
static void link_case(enum engine_verb verb, bool cuts) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        uint32_t n_turns;
        struct erig r;
        bool was_over;
        uint64_t c;

        o.spill_delay_ms = 0;
        erig_open(&r, &o);
        gate_close(&link_gate, 0);
        c = talk(&r);
        gate_wait(&link_gate);
        q = edit_request(c, cuts ? 0 : ENGINE_UNSET, "Hello.", 1);
        q.verb = verb;
        q.cuts = cuts && verb == ENGINE_CONTINUE;
        erig_send(&r, &q, &many[0]);
        for (int i = 0; i < 300 && !many[0].final; i++)
                get(&r, c, &T);
        if (!cuts)
                erig_wait(&r, &many[0]);
        was_over = many[0].final;
        n_turns = T.n_turns;
        gate_open(&link_gate);
        assert_int_equal(was_over, !cuts);
        if (cuts)
                assert_int_equal(n_turns, 5);
        erig_wait(&r, &many[0]);
        assert_int_equal(many[0].kind, verb == ENGINE_CONTINUE ? ENGINE_DONE : ENGINE_CONV);
        get(&r, c, &T);
        assert_int_equal(T.n_turns, !cuts ? 7 : verb == ENGINE_CONTINUE ? 2 : 0);
        check_register(&r);
        erig_simple(&r, ENGINE_CLOSE, c, NULL);
        erig_check_empty(&r);
        erig_close(&r);
}

static void test_link_under_way(void **state) {
        erig_need_model();
        link_case(ENGINE_REWIND, true);
        link_case(ENGINE_CONTINUE, true);
        link_case(ENGINE_CONTINUE, false);
}

/* --- room --- */

static struct answer edited, went_on;

/* What comes of an edit, and of going on without one, where there is room for everything. */
static void straight_answers(size_t n_words) {
        struct engine_options big = erig_options(256 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c, d;

        erig_open(&r, &big);
        c = talk(&r);
        d = fork_of(&r, c);
        q = edit_request(c, 1, words(n_words), 12);
        assert_int_equal(erig_do(&r, &q, &edited), ENGINE_DONE);
        erig_say(&r, d, "And my dog?", 8, &went_on);
        get(&r, c, &T);
        erig_close(&r);
}

/* What is replaced takes no room from what replaces it: where both do not fit, the old memory goes.
 * And if that was for nothing, what is lost is computed again. */
static void room_case(bool cancel) {
        struct engine_options o = erig_options(0);
        struct engine_request q;
        struct erig r;
        uint64_t c;

        o.pool_size = erig_pool((T.conv.n_tokens + 40) / 32 + 1);
        o.spill_delay_ms = UINT32_MAX;
        o.batch_tokens = 2;
        erig_open(&r, &o);
        c = talk(&r);
        q = edit_request(c, 1, words(30), 12);
        if (cancel) {
                send_and_hold(&r, &q, 20, &A);
                engine_cancel(r.en, q.handle);
                gate_open(&step_gate);
        } else {
                erig_send(&r, &q, &A);
        }
        erig_wait(&r, &A);
        if (cancel) {
                assert_int_equal(A.kind, ENGINE_ERROR);
                erig_say(&r, c, "And my dog?", 8, &A);
                answer_same(&A, &went_on);
                assert_int_equal(erig_stat(&r, "restore_failures"), 0);
        } else {
                answer_same(&A, &edited);
        }
        erig_check_budget(&r);
        check_register(&r);
        erig_simple(&r, ENGINE_CLOSE, c, NULL);
        erig_check_empty(&r);
        erig_close(&r);
}

static void test_room(void **state) {
        erig_need_model();
        straight_answers(30);
        room_case(false);
        room_case(true);
}

/* Parked while it computes its prompt, and then evicted: nothing of what is not committed is linked
 * in the register. Then it goes on, or not. */
static void parked_case(bool cancel) {
        struct engine_options o = erig_options(0);
        struct engine_request q, other;
        uint64_t c, d;
        struct erig r;

        o.pool_size = erig_pool(10);
        o.max_active = 1;
        o.batch_tokens = 2;
        o.spill_delay_ms = UINT32_MAX;
        erig_open(&r, &o);
        c = talk(&r);
        d = erig_new(&r, NULL, NULL);
        get(&r, c, &T);
        q = edit_request(c, 1, words(60), 12);
        send_and_hold(&r, &q, 40, &many[0]);
        engine_pause(r.en, q.handle, true);
        gate_open(&step_gate);
        /* It takes the place, and 9 of the 10 blocks: the two of the other one have to go. */
        other = erig_say_request(d, "Tell me a long story.", 260);
        other.ignore_eos = true;
        assert_int_equal(erig_do(&r, &other, &many[1]), ENGINE_DONE);
        assert_true(erig_stat(&r, "evict_blocks_written") > 0);
        if (cancel)
                engine_cancel(r.en, q.handle);
        engine_pause(r.en, q.handle, false);
        erig_wait(&r, &many[0]);
        if (cancel) {
                assert_int_equal(many[0].kind, ENGINE_ERROR);
                check_as_before(&r, c, &T);
        } else {
                answer_same(&many[0], &edited);
        }
        check_register(&r);
        if (cancel) {
                erig_say(&r, c, "And my dog?", 8, &A);
                answer_same(&A, &went_on);
        }
        assert_int_equal(erig_stat(&r, "restore_failures"), 0);
        erig_check_budget(&r);
        erig_close(&r);
}

static void test_parked(void **state) {
        erig_need_model();
        straight_answers(60);
        parked_case(false);
        parked_case(true);
}

/* A record below the cut turns out to be damaged: from there on both histories have none. */
static void test_damaged(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        char path[128];
        uint8_t zeros[64] = {0};
        struct erig r;
        uint64_t c;
        int fd;

        erig_need_model();
        straight_answers(300);
        o.batch_tokens = 2;
        o.spill_delay_ms = UINT32_MAX;
        erig_open(&r, &o);
        c = talk(&r);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, NULL), ENGINE_CONV);
        snprintf(path, sizeof(path), "%s/spill/%016llx.kv", r.dir, (unsigned long long)c);
        fd = open(path, O_RDWR | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_int_equal(pwrite(fd, zeros, sizeof(zeros), 3000), sizeof(zeros));
        close(fd);
        q = edit_request(c, 3, words(300), 12);
        send_and_hold(&r, &q, 2, &many[0]);
        engine_cancel(r.en, q.handle);
        gate_open(&step_gate);
        erig_wait(&r, &many[0]);
        assert_int_equal(many[0].kind, ENGINE_ERROR);
        assert_int_equal(erig_stat(&r, "restore_failures"), 1);
        erig_say(&r, c, "And my dog?", 8, &A);
        answer_same(&A, &went_on);
        assert_int_equal(A.n_disk, 0);
        assert_int_equal(erig_stat(&r, "restore_failures"), 1);
        check_register(&r);
        erig_close(&r);
}

/* The space of its records is given to others while it is pending: neither history has them. */
static void test_reclaimed(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q, first;
        uint64_t c, running, other;
        struct erig r;

        erig_need_model();
        straight_answers(30);
        o.max_active = 1;
        o.spill_delay_ms = UINT32_MAX;
        erig_open(&r, &o);
        c = talk(&r);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, NULL), ENGINE_CONV);
        r.o.disk_limit = erig_stat(&r, "spill_disk_bytes");
        erig_restart(&r, true);
        other = erig_new(&r, NULL, NULL);
        erig_say(&r, other, words(60), 1, &A);
        running = erig_new(&r, NULL, NULL);
        first = erig_say_request(running, "Tell me a long story.", 400);
        first.ignore_eos = true;
        erig_send(&r, &first, &many[0]);
        while (many[0].n_tokens == 0)
                erig_step(&r);
        q = edit_request(c, 3, "Hello", 12);
        erig_send(&r, &q, &many[1]);
        engine_pause(r.en, q.handle, true); /* it stays in the queue, whatever the other one does */
        get(&r, c, &C);                     /* loaded, and held by the edit */
        while (!C.conv.busy)
                get(&r, c, &C);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, other, NULL), ENGINE_CONV);
        assert_true(erig_stat(&r, "reclaimed_bytes") > 0);
        engine_cancel(r.en, q.handle);
        erig_wait(&r, &many[1]);
        assert_int_equal(many[1].kind, ENGINE_ERROR);
        engine_cancel(r.en, first.handle);
        erig_wait(&r, &many[0]);
        erig_say(&r, c, "And my dog?", 8, &A);
        answer_same(&A, &went_on);
        assert_int_equal(erig_stat(&r, "restore_failures"), 0);
        check_register(&r);
        erig_close(&r);
}

/* --- published --- */

static uint32_t others_get(struct erig *r, uint32_t uid, const int32_t *tokens, size_t n) {
        struct engine_request q = {.verb = ENGINE_OPEN, .uid = uid};

        assert_int_equal(erig_do(r, &q, &B), ENGINE_CONV);
        q = erig_say_request(B.conv.id, "", 1);
        q.uid = uid;
        q.input = ENGINE_INPUT_TOKENS;
        q.tokens = tokens;
        q.n_tokens = n;
        assert_int_equal(erig_do(r, &q, &B), ENGINE_DONE);
        return B.n_shared + B.n_disk;
}

/* What is published ends at the cut once the edit commits, and not before; what is new is never
 * public. */
static void test_published(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request publish = {
                .verb = ENGINE_PUBLISH, .publish = true, .admin = true, .at_turn = ENGINE_UNSET};
        struct engine_request q;
        struct erig r;
        uint32_t kept;
        uint64_t c, other;

        erig_need_model();
        o.max_active = 4;
        o.batch_tokens = 2;
        o.spill_delay_ms = UINT32_MAX;
        erig_open(&r, &o);
        c = talk(&r);
        other = talk(&r);
        publish.conv_id = c;
        assert_int_equal(erig_do(&r, &publish, &A), ENGINE_CONV);
        get(&r, c, &T);
        kept = T.turns[0].end;
        assert_int_equal(T.conv.n_published, T.conv.n_tokens);
        assert_true(others_get(&r, 1, T.history, T.conv.n_tokens) > kept);
        /* Pending: the register says the same as before; the new tokens are not for others. */
        q = edit_request(c, 1,
                "Tell me a story about a bird that lives on a green river, and "
                "another one about a stone that is seven years old.",
                500);
        q.ignore_eos = true;
        erig_send(&r, &q, &many[0]);
        while (many[0].n_tokens < 70)
                erig_step(&r);
        get(&r, c, &C);
        check_same(&C, &T);
        engine_cancel(r.en, q.handle);
        erig_wait(&r, &many[0]);
        get(&r, c, &C);
        assert_int_equal(C.conv.n_published, kept);
        assert_true(C.conv.n_tokens > kept + 64);
        assert_true(others_get(&r, 2, C.history, C.conv.n_tokens) <= kept);
        assert_true(others_get(&r, 3, T.history, T.conv.n_tokens) <= kept);
        /* Published anew, edited, and cancelled in time: still all of it. (The end of another
         * publication has the index forget and enter again what is public.) */
        assert_int_equal(erig_do(&r, &publish, &A), ENGINE_CONV);
        get(&r, c, &T);
        q = edit_request(c, 1, words(300), 8);
        send_and_hold(&r, &q, 2, &many[0]);
        engine_cancel(r.en, q.handle);
        gate_open(&step_gate);
        erig_wait(&r, &many[0]);
        assert_int_equal(many[0].kind, ENGINE_ERROR);
        check_as_before(&r, c, &T);
        for (int on = 1; on >= 0; on--) {
                publish.conv_id = other;
                publish.publish = on;
                assert_int_equal(erig_do(&r, &publish, &A), ENGINE_CONV);
        }
        assert_true(others_get(&r, 4, T.history, T.conv.n_tokens) > kept);
        check_register(&r);
        erig_close(&r);
}

/* --- Fork --- */

static void test_fork_expects(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q = {.verb = ENGINE_FORK,
                .at_turn = ENGINE_UNSET,
                .at_position = ENGINE_UNSET,
                .has_expect_revision = true};
        struct erig r;

        erig_need_model();
        erig_open(&r, &o);
        q.conv_id = talk(&r);
        get(&r, q.conv_id, &T);
        q.expect_revision = T.conv.revision - 1;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_CONFLICT);
        assert_int_equal(erig_stat(&r, "forks"), 0);
        q.expect_revision = T.conv.revision;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
        erig_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_as_two),
                cmocka_unit_test(test_seed_told),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_not_ours),
                cmocka_unit_test(test_cancelled_early),
                cmocka_unit_test(test_cancelled_late),
                cmocka_unit_test(test_busy),
                cmocka_unit_test(test_link_under_way),
                cmocka_unit_test(test_room),
                cmocka_unit_test(test_parked),
                cmocka_unit_test(test_damaged),
                cmocka_unit_test(test_reclaimed),
                cmocka_unit_test(test_published),
                cmocka_unit_test(test_fork_expects),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
