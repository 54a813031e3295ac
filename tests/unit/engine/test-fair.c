/* SPDX-License-Identifier: MIT */
/*
 * Fair places and steps: whatever one user has running and queued, another user's short reply
 * begins within two steps of the engine and continues at its share. No reply's bits change.
 *
 * Steps are counted where the engine calls the model, from the moment when a request has joined the
 * queue. Some tests fake the duration of a step, so that shares do not depend on the machine.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"
#include "util/gate.h"
#include "inside.h"
#include "model/model.h"
#include "rig.h"
#include "store/store.h"
#include "util/test.h"

enum { MOST_HANDLES = 1024 };
enum {
        UID_A = 1001,
        UID_B = 1002,
        UID_C = 1003,
        MOST = 64,
        BLOCK = 32,
        EXPECTED = ERIG_ROUNDS(300, 40)
};

static struct answer A[MOST], B, C, expected[8];
static struct erig rig;        /* in use by one test after another */
static uint64_t handles[MOST]; /* of the requests of UID_A that A answers */

/* --- the engine, watched --- */

static struct {
        pthread_mutex_t lock;
        pthread_cond_t cond;
        uint64_t step;
        /* Requests by the handle that the rig gives them. */
        struct seen {
                const struct seq *seq;
                uint64_t owner;
                bool background;
                uint64_t queued, first, last; /* steps: when it was queued; first and last token */
                uint64_t stored;              /* the last step before its input was durable */
                uint64_t tokens;
                uint64_t queued_at,
                        last_at; /* made-up time: when it was queued; after its last token */
        } seen[MOST_HANDLES];
        /* Of the steps in which both have tokens: how many there were, and what they had. */
        uint64_t shared_steps, shared_a, shared_b;
        bool pause; /* requests as they join the queue */
        bool slow;  /* a step takes some ms, so that long replies outlast a busy machine */
        bool fake;  /* time is made up: */
        uint64_t now, base, per_token;
        uint32_t n_layer;        /* of the model: its share of a step passes in each of them */
        const struct seq *timed; /* the longest time between two of its tokens, since it is so */
        uint64_t timed_at, longest;
        uint64_t held;  /* a conversation */
        unsigned depth; /* calls of the model in calls of it */
} w = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
static struct gate gate = GATE_INIT;       /* before each step */
static struct gate store_gate = GATE_INIT; /* before the turns of conversation w.held are stored */

int __real_store_append(struct store *s, uint64_t id, const struct store_turn *turns,
        size_t n_turns, const int32_t *tokens, size_t n_tokens, uint64_t *ret_revision,
        struct err *e);
int __wrap_store_append(struct store *s, uint64_t id, const struct store_turn *turns,
        size_t n_turns, const int32_t *tokens, size_t n_tokens, uint64_t *ret_revision,
        struct err *e);
int __wrap_store_append(struct store *s, uint64_t id, const struct store_turn *turns,
        size_t n_turns, const int32_t *tokens, size_t n_tokens, uint64_t *ret_revision,
        struct err *e) {
        bool held;

        pthread_mutex_lock(&w.lock);
        held = id == w.held;
        pthread_mutex_unlock(&w.lock);
        if (held)
                gate_pass(&store_gate);
        return __real_store_append(s, id, turns, n_turns, tokens, n_tokens, ret_revision, e);
}

uint64_t __real_clock_monotonic_usec(void);
uint64_t __wrap_clock_monotonic_usec(void);
uint64_t __wrap_clock_monotonic_usec(void) {
        uint64_t now;

        pthread_mutex_lock(&w.lock);
        now = w.fake ? w.now : __real_clock_monotonic_usec();
        pthread_mutex_unlock(&w.lock);
        return now;
}

int __real_sched_queue(struct engine *engine, struct request *request, struct err *e);
int __wrap_sched_queue(struct engine *engine, struct request *request, struct err *e);
int __wrap_sched_queue(struct engine *engine, struct request *request, struct err *e) {
        struct inside_request q = inside_request(request);
        bool pause;

        pthread_mutex_lock(&w.lock);
        pause = w.pause;
        pthread_mutex_unlock(&w.lock);
        if (pause)
                engine_pause(engine, q.handle, true);
        pthread_mutex_lock(&w.lock);
        if (q.handle < MOST_HANDLES)
                w.seen[q.handle] = (struct seen){.seq = q.seq,
                        .owner = q.owner,
                        .background = q.background,
                        .queued = w.step,
                        .queued_at = w.now};
        pthread_cond_broadcast(&w.cond);
        pthread_mutex_unlock(&w.lock);
        return __real_sched_queue(engine, request, e);
}

void __real_attach_accepted(struct engine *engine, struct request *request);
void __wrap_attach_accepted(struct engine *engine, struct request *request);
void __wrap_attach_accepted(struct engine *engine, struct request *request) {
        struct inside_request q = inside_request(request);

        pthread_mutex_lock(&w.lock);
        if (q.handle < MOST_HANDLES)
                w.seen[q.handle].stored = w.step;
        pthread_mutex_unlock(&w.lock);
        __real_attach_accepted(engine, request);
}

static struct seen *seen_of(const struct seq *seq) {
        /* The last one: a conversation may have been spoken in before. */
        for (size_t i = sizeof(w.seen) / sizeof(w.seen[0]); i-- > 0;)
                if (w.seen[i].seq == seq)
                        return &w.seen[i];
        return NULL;
}

int __real_model_forward(struct model_work *work, const struct model_token *batch, size_t n,
        const struct model_wait *wait);

static void watch(const struct model_token *batch, size_t n) {
        uint64_t a = 0, b = 0;

        w.step += w.depth == 0; /* those between layers are part of the step */
        for (size_t i = 0; i < n; i++) {
                struct seen *s = seen_of(batch[i].seq);

                if (!s)
                        continue;
                s->first = s->first ? s->first : w.step;
                s->last = w.step;
                s->tokens++;
                a += s->owner == UID_A;
                b += s->owner == UID_B;
        }
        if (a > 0 && b > 0) {
                w.shared_steps++;
                w.shared_a += a;
                w.shared_b += b;
        }
}

/* Made-up time passes before a step, or, where the engine looks at layers, before each of them. */
struct timed_step {
        const struct model_wait *wait;
        uint64_t usec;
};

static void pass_time(uint64_t usec) {
        pthread_mutex_lock(&w.lock);
        w.now += usec;
        pthread_mutex_unlock(&w.lock);
}

static int timed_layer(void *arg, uint32_t layer) {
        struct timed_step *s = arg;
        int r = s->wait->layer(s->wait->arg, layer);

        pass_time(s->usec / w.n_layer);
        return r;
}

static int timed_forward(struct model_work *work, const struct model_token *batch, size_t n,
        const struct model_wait *wait) {
        /* set while the engine does nothing */
        struct timed_step s = {.wait = wait, .usec = w.base + w.per_token * n};
        const struct model_wait each = {.layer = timed_layer, .arg = &s};
        int r;

        if (!wait || w.n_layer == 0) {
                pass_time(s.usec);
                r = __real_model_forward(work, batch, n, wait);
        } else {
                r = __real_model_forward(work, batch, n, &each);
        }
        pthread_mutex_lock(&w.lock);
        for (size_t i = 0; i < n; i++) {
                struct seen *seen = seen_of(batch[i].seq);

                if (seen)
                        seen->last_at = w.now;
                if (batch[i].seq == w.timed) {
                        if (w.timed_at)
                                w.longest = MAX(w.longest, w.now - w.timed_at);
                        w.timed_at = w.now;
                }
        }
        pthread_mutex_unlock(&w.lock);
        return r;
}

int __wrap_model_forward(struct model_work *work, const struct model_token *batch, size_t n,
        const struct model_wait *wait);
int __wrap_model_forward(struct model_work *work, const struct model_token *batch, size_t n,
        const struct model_wait *wait) {
        bool slow;
        int r;

        pthread_mutex_lock(&w.lock);
        watch(batch, n);
        slow = w.slow;
        pthread_mutex_unlock(&w.lock);
        gate_pass(&gate);
        if (slow)
                usleep(3000);
        pthread_mutex_lock(&w.lock);
        w.depth++;
        pthread_mutex_unlock(&w.lock);
        r = timed_forward(work, batch, n, wait);
        pthread_mutex_lock(&w.lock);
        w.depth--;
        pthread_mutex_unlock(&w.lock);
        return r;
}

static struct seen seen(uint64_t handle) {
        struct seen s;

        assert_true(handle < MOST_HANDLES);
        pthread_mutex_lock(&w.lock);
        s = w.seen[handle];
        pthread_mutex_unlock(&w.lock);
        return s;
}

/* Until the request has joined the queue. */
static void wait_queued(uint64_t handle) {
        struct timespec ts;
        int r = 0;

        assert_true(handle < MOST_HANDLES);
        clock_gettime(CLOCK_REALTIME, &ts);
        ts.tv_sec += 60;
        pthread_mutex_lock(&w.lock);
        while (!w.seen[handle].seq && r == 0)
                r = pthread_cond_timedwait(&w.cond, &w.lock, &ts);
        pthread_mutex_unlock(&w.lock);
        assert_int_equal(r, 0);
}

static void watch_reset(void) {
        pthread_mutex_lock(&w.lock);
        memset(w.seen, 0, sizeof(w.seen));
        w.shared_steps = w.shared_a = w.shared_b = 0;
        w.timed = NULL;
        w.held = w.timed_at = w.longest = w.n_layer = 0;
        w.fake = w.slow = w.pause = false;
        pthread_mutex_unlock(&w.lock);
}

static void make_slow(void) {
        pthread_mutex_lock(&w.lock);
        w.slow = true;
        pthread_mutex_unlock(&w.lock);
}

static void pause_what_comes(bool pause) {
        pthread_mutex_lock(&w.lock);
        w.pause = pause;
        pthread_mutex_unlock(&w.lock);
}

/* A step takes @base and @per_token for each of its tokens, in microseconds. */
static void fake_time(uint64_t base, uint64_t per_token) {
        uint64_t now = __real_clock_monotonic_usec();

        pthread_mutex_lock(&w.lock);
        w.now = now;
        w.base = base;
        w.per_token = per_token;
        w.fake = true;
        pthread_mutex_unlock(&w.lock);
}

/* A failed test must not leave an engine behind: it would be watched by the next one. */
static int teardown(void **state) {
        gate_open(&gate);
        gate_open(&store_gate);
        if (rig.en)
                erig_close(&rig);
        watch_reset();
        return 0;
}

/* --- what is said --- */

static uint64_t open_for(struct erig *r, uint64_t owner) {
        struct engine_request q = {.verb = ENGINE_OPEN, .owner = owner};

        assert_int_equal(erig_do(r, &q, &C), ENGINE_CONV);
        return C.conv.id;
}

/* Short enough for one block together with what the chat format adds. */
static struct engine_request say(uint64_t conv, uint64_t owner, unsigned which, uint32_t max) {
        static const char *const texts[8] = {"Hello.", "A story.", "Why?", "The sea.", "Go on.",
                "Seven birds.", "Good night.", "Names."};
        struct engine_request q = erig_say_request(conv, texts[which % 8], max);

        q.owner = owner;
        q.ignore_eos = true;
        return q;
}

/* Tokens that no chat format adds to, @n of them from the @from-th on. */
static struct engine_request tokens_of(
        uint64_t conv, uint64_t owner, uint32_t from, uint32_t n, uint32_t max) {
        static int32_t tokens[512];
        struct engine_request q = say(conv, owner, 0, max);

        for (int32_t i = 0; i < 512; i++)
                tokens[i] = 300 + i;
        q.input = ENGINE_INPUT_TOKENS;
        q.text = NULL;
        q.text_size = 0;
        q.tokens = tokens + from;
        q.n_tokens = n;
        return q;
}

static void begin(struct erig *r, uint32_t max_active, uint32_t batch_tokens, uint64_t pool) {
        struct engine_options o = erig_options(pool);

        o.spill_delay_ms = UINT32_MAX;
        o.max_active = max_active;
        o.batch_tokens = batch_tokens;
        o.speculation = false; /* rows are counted */
        watch_reset();
        erig_open(r, &o);
}

static void begin_with(struct erig *r, uint32_t prefill_share) {
        struct engine_options o = erig_options(64 << 20);

        o.spill_delay_ms = UINT32_MAX;
        o.prefill_share = prefill_share;
        o.speculation = false; /* rows are counted */
        watch_reset();
        erig_open(r, &o);
}

/* Every one of the eight things to say, undisturbed. */
static void find_expected(void) {
        struct erig *r = &rig;

        if (expected[7].final)
                return;
        begin(r, 16, 256, 256 << 20);
        for (unsigned i = 0; i < 8; i++) {
                struct engine_request q = say(open_for(r, UID_A), UID_A, i, EXPECTED);

                assert_int_equal(erig_do(r, &q, &expected[i]), ENGINE_DONE);
        }
        erig_close(r);
}

/* The message is there: what the request says is a reply alone, and it need not wait for its input to be
 * stored, which takes some steps of the others. */
static struct engine_request reply_to(struct erig *r, struct engine_request say) {
        struct engine_request q = say;

        q.max_tokens = 0;
        assert_int_equal(erig_do(r, &q, &C), ENGINE_DONE);
        say.input = ENGINE_INPUT_NONE;
        return say;
}

/* One is the beginning of the other. */
static void check_same(const struct answer *a, const struct answer *full) {
        size_t n = MIN(a->n_tokens, full->n_tokens);

        assert_int_equal(a->kind, ENGINE_DONE);
        assert_memory_equal(a->tokens, full->tokens, n * sizeof(a->tokens[0]));
        assert_memory_equal(a->logprobs, full->logprobs, n * sizeof(a->logprobs[0]));
}

static void send_all(struct erig *r, struct engine_request *q, unsigned n, bool background) {
        for (unsigned i = 0; i < n; i++) {
                q[i].background = background;
                erig_send(r, &q[i], &A[i]);
                handles[i] = q[i].handle;
                /* Workers look for their conversations, and would bring them in any order. */
                wait_queued(q[i].handle);
        }
}

static void send_many(struct erig *r, unsigned n, bool background, uint32_t length) {
        struct engine_request q[MOST];

        for (unsigned i = 0; i < n; i++)
                q[i] = say(open_for(r, UID_A), UID_A, i, length);
        send_all(r, q, n, background);
}

/* --- from a given step on, however fast this thread is --- */

/* Those of UID_A, and @q of UID_B as the last one: all are in the queue, and nothing is computed until
 * go_on(). */
static void send_all_paused(struct erig *r, struct engine_request *many, unsigned n,
        bool background, struct engine_request *q) {
        pause_what_comes(true);
        send_all(r, many, n, background);
        erig_send(r, q, &B);
        wait_queued(q->handle);
        pause_what_comes(false);
}

static void send_paused(
        struct erig *r, unsigned n, bool background, uint32_t length, struct engine_request *q) {
        struct engine_request many[MOST];

        for (unsigned i = 0; i < n; i++)
                many[i] = say(open_for(r, UID_A), UID_A, i, length);
        send_all_paused(r, many, n, background, q);
}

/* Do the first @n of UID_A have tokens in this step? */
static bool all_in_step(unsigned n) {
        bool all = true;

        pthread_mutex_lock(&w.lock);
        for (unsigned i = 0; i < n; i++)
                all = all && w.seen[handles[i]].last == w.step;
        pthread_mutex_unlock(&w.lock);
        return all;
}

/* Let the @n of UID_A go on until @n_active of them generate side by side, and the engine is held in
 * a step; then let UID_B's, too, which counts as queued from there. */
static void go_on(struct erig *r, unsigned n, unsigned n_active, const struct engine_request *q) {
        gate_step(&gate);
        engine_pause(r->en, handles[0], false);
        gate_wait(&gate);
        for (unsigned i = 1; i < n; i++)
                engine_pause(r->en, handles[i], false);
        for (unsigned together = 0; together < 3; together += all_in_step(n_active)) {
                gate_step(&gate);
                gate_wait(&gate);
        }
        pthread_mutex_lock(&w.lock);
        w.seen[q->handle].queued = w.step;
        pthread_mutex_unlock(&w.lock);
        engine_pause(r->en, q->handle, false);
        gate_open(&gate);
}

/* --- places --- */

/* A reply of 4 tokens to UID_B: it began and ended in time. */
static void check_short_reply(uint64_t handle, unsigned which) {
        struct seen s = seen(handle);

        assert_int_equal(B.kind, ENGINE_DONE);
        if (s.first > s.queued + 2)
                fail_msg("queued after step %llu, it began in step %llu",
                        (unsigned long long)s.queued, (unsigned long long)s.first);
        /* The prompt in one step, and three more tokens. They wait for the disk, which takes as many steps
         * of the others as it likes. */
        if (s.last > MAX(s.first, s.stored) + 3)
                fail_msg("begun in step %llu and stored after step %llu, it ended in step %llu",
                        (unsigned long long)s.first, (unsigned long long)s.stored,
                        (unsigned long long)s.last);
        check_same(&B, &expected[which]);
}

static void short_reply(struct erig *r, uint64_t conv, unsigned which, bool background) {
        struct engine_request q = say(conv, UID_B, which, 4);

        q.background = background;
        erig_do(r, &q, &B);
        check_short_reply(q.handle, which);
}

/* @n replies of one user, and then another user's. */
static void newcomer(unsigned n, bool background, uint32_t max_active) {
        enum { LENGTH = 1900 };
        struct engine_request q;
        struct erig *r = &rig;
        uint64_t c[3];

        begin(r, max_active, 256, 256 << 20); /* room for all */
        for (unsigned i = 0; i < 3; i++)
                c[i] = open_for(r, UID_B);
        make_slow();
        send_many(r, n, background, LENGTH);
        while (A[0].n_tokens < 3 || A[MIN(n, max_active) - 1].n_tokens < 1)
                erig_step(r);
        for (unsigned i = 0; i < 3; i++) {
                short_reply(r, c[i], i, background && i == 2);
                assert_true(i > 0 || !A[0].final); /* there was somebody to give way */
        }
        /* Enough was heard. Those that were parked said nothing wrong before or since. */
        for (unsigned i = 0; i < MIN(n, max_active); i++)
                while (A[i].n_tokens < 8)
                        erig_step(r);
        for (unsigned i = 0; i < n; i++)
                engine_cancel(r->en, handles[i]);
        for (unsigned i = 0; i < n; i++) {
                erig_wait(r, &A[i]);
                if (i < max_active)
                        check_same(&A[i], &expected[i % 8]);
        }
        assert_true(n < max_active || erig_stat(r, "requests_parked") > 0);
        /* Which goes for the conversations, too: they go on. */
        q = say(c[2] + 1, UID_A, 0, 1);
        assert_int_equal(erig_do(r, &q, &C), ENGINE_DONE);
        erig_check_budget(r);
        erig_close(r);
}

static void test_newcomer(void **state) {
        find_expected();
        newcomer(ERIG_ROUNDS(64, 5), false, ERIG_ROUNDS(16, 3));
        if (TEST_TSAN)
                return;
        newcomer(1, false, 16);
        newcomer(16, false, 16);
        newcomer(1, false, 1);
        newcomer(3, false, 1);
}

static void test_newcomer_background(void **state) {
        find_expected();
        newcomer(ERIG_ROUNDS(64, 5), true, ERIG_ROUNDS(16, 3));
        if (TEST_TSAN)
                return;
        newcomer(1, true, 16);
        newcomer(16, true, 16);
        newcomer(2, true, 1);
}

/* Of the requests that may go for a newcomer, the one that came last is storing its input, which takes long:
 * then another one goes. */
static void test_newcomer_storing(void **state) {
        enum { LENGTH = 1900 };
        struct engine_request q;
        struct erig *r = &rig;
        uint64_t c, last;

        find_expected();
        begin(r, 2, 256, 256 << 20);
        c = open_for(r, UID_B);
        last = open_for(r, UID_A);
        make_slow();
        send_many(r, 1, false, LENGTH);
        while (A[0].n_tokens < 3)
                erig_step(r);
        pthread_mutex_lock(&w.lock);
        w.held = last;
        pthread_mutex_unlock(&w.lock);
        gate_close(&store_gate, 0);
        q = say(last, UID_A, 1, LENGTH);
        erig_send(r, &q, &A[1]);
        handles[1] = q.handle;
        gate_wait(&store_gate);
        q = say(c, UID_B, 2, 4);
        erig_send(r, &q, &B);
        while (B.n_tokens < 1)
                erig_step(r);
        assert_true(seen(q.handle).first <= seen(q.handle).queued + 2);
        assert_false(A[1].accepted);
        gate_open(&store_gate);
        erig_wait(r, &B);
        check_short_reply(q.handle, 2);
        for (unsigned i = 0; i < 2; i++) {
                engine_cancel(r->en, handles[i]);
                erig_wait(r, &A[i]);
        }
        erig_close(r);
}

/* Where memory is short: the blocks that the newcomer may need are counted against the others'. */
static void test_newcomer_memory(void **state) {
        enum { N = 4, LENGTH = 1500 };
        struct erig *r = &rig;
        struct engine_request q;
        uint64_t c;
        size_t n;

        find_expected();
        begin(r, 16, 256, erig_pool(100)); /* for two of them, but not for three */
        c = open_for(r, UID_B);
        make_slow();
        send_many(r, N, false, LENGTH);
        while (A[0].n_tokens < 40 || A[1].n_tokens < 40)
                erig_step(r);
        assert_int_equal(erig_stat(r, "requests_active"), 2);
        q = say(c, UID_B, 5, 90);
        assert_int_equal(erig_do(r, &q, &B), ENGINE_DONE);
        check_same(&B, &expected[5]);
        assert_int_equal(erig_stat(r, "requests_parked"), 1);
        /* The one that was parked, the last to come, goes on. */
        n = A[1].n_tokens + 10;
        while (A[1].n_tokens < n)
                erig_step(r);
        /* Those that wait first, or they would have the places of the others. */
        for (unsigned i = N; i-- > 0;)
                engine_cancel(r->en, handles[i]);
        for (unsigned i = 0; i < N; i++)
                erig_wait(r, &A[i]);
        check_same(&A[0], &expected[0]);
        check_same(&A[1], &expected[1]);
        erig_check_budget(r);
        erig_close(r);
}

/* Two users with long replies and one place: they take turns, each of half of batch_tokens, and
 * memory that goes to disk in between comes back as it was. */
static void turns(uint64_t pool) {
        enum { LENGTH = ERIG_ROUNDS(300, 100), BATCH = 64, TURN = BATCH / 2 };
        struct engine_request a, q;
        uint64_t parked, prompt;
        struct erig *r = &rig;

        begin(r, 1, BATCH, pool);
        /* They begin together. */
        a = say(open_for(r, UID_A), UID_A, 0, LENGTH);
        q = say(open_for(r, UID_B), UID_B, 1, LENGTH);
        erig_send(r, &a, &A[0]);
        engine_pause(r->en, a.handle, true);
        erig_send(r, &q, &B);
        engine_pause(r->en, q.handle, true);
        wait_queued(a.handle);
        wait_queued(q.handle);
        engine_pause(r->en, a.handle, false);
        engine_pause(r->en, q.handle, false);
        erig_wait(r, &A[0]);
        erig_wait(r, &B);
        check_same(&A[0], &expected[0]);
        check_same(&B, &expected[1]);
        assert_int_equal(A[0].n_tokens, LENGTH);
        assert_int_equal(B.n_tokens, LENGTH);
        assert_int_equal(A[0].done_computed, A[0].n_prompt);
        parked = erig_stat(r, "requests_parked");
        /* Each turn parks one; to and fro is two turns, and the first ones may be longer. */
        prompt = B.n_prompt;
        if (parked < 2 * (LENGTH - TURN) / TURN / 4 || parked > 2 * (LENGTH + prompt) / TURN + 2)
                fail_msg("parked %llu times", (unsigned long long)parked);
        assert_int_equal(erig_stat(r, "tokens_recomputed"), 0);
        /* The first token of a reply comes from the prompt's last. */
        assert_int_equal(erig_stat(r, "tokens_decoded"), 2 * (LENGTH - 1));
        assert_int_equal(erig_stat(r, "tokens_prefilled"), A[0].n_prompt + B.n_prompt);
        assert_int_equal(erig_stat(r, "tokens_reused_disk"), 0);
        erig_check_budget(r);
        erig_close(r);
}

static void test_turns(void **state) {
        find_expected();
        if (!TEST_TSAN)
                turns(64 << 20);
        turns(erig_pool(13)); /* the memory of one and a bit */
}

/* A user's own background requests give way to the user's interactive one, and go on afterwards. */
static void test_own_background(void **state) {
        enum { N = 3, LENGTH = 60 };
        struct engine_request q;
        struct erig *r = &rig;
        struct seen s;

        find_expected();
        begin(r, 2, 256, 64 << 20);
        send_many(r, N, true, LENGTH);
        while (A[0].n_tokens < 3)
                erig_step(r);
        q = say(open_for(r, UID_A), UID_A, 4, 8);
        assert_int_equal(erig_do(r, &q, &B), ENGINE_DONE);
        s = seen(q.handle);
        assert_true(s.first <= s.queued + 2);
        check_same(&B, &expected[4]);
        for (unsigned i = 0; i < N; i++) {
                erig_wait(r, &A[i]);
                assert_int_equal(A[i].n_tokens, LENGTH);
                check_same(&A[i], &expected[i]);
        }
        erig_close(r);
}

/* --- steps --- */

/* UID_A generates in 15 conversations, UID_B in one: tokens of the steps that they shared. */
static void share(bool background, uint64_t base, uint64_t per_token, double *a, double *b) {
        enum { N = 15, LENGTH = 60 };
        struct engine_request q, many[N];
        struct erig *r = &rig;

        begin(r, 16, 256, 256 << 20);
        fake_time(base, per_token);
        for (unsigned i = 0; i < N; i++)
                many[i] = reply_to(r, say(open_for(r, UID_A), UID_A, i, 400));
        q = reply_to(r, say(open_for(r, UID_B), UID_B, 1, LENGTH));
        send_all_paused(r, many, N, background, &q);
        go_on(r, N, N, &q);
        erig_wait(r, &B);
        assert_int_equal(B.kind, ENGINE_DONE);
        for (unsigned i = 0; i < N; i++)
                assert_false(A[i].final); /* all were beside it to its end */
        assert_int_equal(seen(q.handle).last, seen(q.handle).first + LENGTH - 1);
        *a = (double)w.shared_a / LENGTH;
        *b = (double)w.shared_b / LENGTH;
        erig_close(r);
}

static void test_share_of_steps(void **state) {
        double a, b;

        /* A token costs the same in a batch: token for token. */
        share(false, 0, 100, &a, &b);
        assert_true(a > 0.9 && a < 1.5);
        if (TEST_TSAN)
                return;
        /* A step costs what five tokens do: with so many beside it, it takes twice as long. */
        share(false, 500, 100, &a, &b);
        assert_true(a > 4 && a < 7);
        /* Tokens cost next to nothing: nobody is left out. */
        share(false, 100000, 1, &a, &b);
        assert_true(a > 14.5 && a <= 15);
        /* In the background an eighth of that. */
        share(true, 0, 100, &a, &b);
        assert_true(a > 0.06 && a < 0.3);
        share(true, 700, 100, &a, &b);
        assert_true(a > 0.5 && a < 1.5);
}

/* A long prompt beside a reply: neither waits for more than its share of the other. */
static void test_share_of_prompt(void **state) {
        struct engine_request q;
        struct erig *r = &rig;
        struct seen s;

        begin(r, 16, 256, 64 << 20);
        fake_time(0, 100);
        q = tokens_of(open_for(r, UID_B), UID_B, 0, 400, 1);
        send_paused(r, 1, false, 2000, &q);
        go_on(r, 1, 1, &q);
        erig_wait(r, &B);
        assert_int_equal(B.kind, ENGINE_DONE);
        assert_false(A[0].final);
        s = seen(q.handle);
        /* A quarter of batch_tokens at once, and then a token for each of the other's. */
        assert_in_range(s.last - s.first, 300, 400);
        erig_close(r);
}

/* A user alone has the whole step, with any number of requests, if prompts may have it. */
static void test_alone(void **state) {
        enum { N = 15 };
        struct engine_request q[N];
        struct erig *r = &rig;

        find_expected();
        begin_with(r, 100);
        fake_time(0, 100);
        for (unsigned i = 0; i < N; i++)
                q[i] = reply_to(r, say(open_for(r, UID_A), UID_A, i, 60));
        send_all(r, q, N, false);
        for (unsigned i = 0; i < N; i++) {
                erig_wait(r, &A[i]);
                check_same(&A[i], &expected[i % 8]);
        }
        /* Each had its prompt computed in one step, and a token in each one after it. */
        for (unsigned i = 0; i < N; i++)
                assert_int_equal(seen(handles[i]).last - seen(handles[i]).first, 60 - 1);
        assert_int_equal(erig_stat(r, "requests_parked"), 0);
        erig_close(r);
}

/* The longest interval between tokens of a reply while a long prompt of the same user is computed, and how
 * long that takes, in made-up time. */
static void beside_prompt(
        uint64_t base, uint32_t share, uint64_t *ret_interval, uint64_t *ret_prompt) {
        struct engine_request q;
        struct engine_model_info info;
        struct erig *r = &rig;
        uint64_t conv;

        begin_with(r, share);
        inside_describe_model(r->en, &info);
        conv = open_for(r, UID_A);
        fake_time(base, 100);
        pthread_mutex_lock(&w.lock);
        w.n_layer = info.n_layer;
        pthread_mutex_unlock(&w.lock);
        /* steps of many sizes were seen */
        for (uint32_t n = 1; n <= 256; n *= 2) {
                q = tokens_of(open_for(r, UID_B), UID_B, 0, n, 2);
                assert_int_equal(erig_do(r, &q, &C), ENGINE_DONE);
        }
        q = say(open_for(r, UID_A), UID_A, 0, 1900);
        erig_send(r, &q, &A[0]);
        while (A[0].n_tokens < 5)
                erig_step(r);
        pthread_mutex_lock(&w.lock);
        w.timed = w.seen[q.handle].seq;
        pthread_mutex_unlock(&w.lock);
        handles[0] = q.handle;
        q = tokens_of(conv, UID_A, 0, 512, 1);
        erig_send(r, &q, &B);
        erig_wait(r, &B);
        pthread_mutex_lock(&w.lock);
        *ret_interval = w.longest;
        /* the engine goes on with the reply while this thread comes and goes */
        *ret_prompt = w.seen[q.handle].last_at - w.seen[q.handle].queued_at;
        pthread_mutex_unlock(&w.lock);
        assert_false(A[0].final);
        engine_cancel(r->en, handles[0]);
        erig_wait(r, &A[0]);
        check_same(&A[0], &expected[0]);
        erig_close(r);
}

/* A user's prompt beside a reply of the same user: the interval between tokens grows as far as the setting
 * says, and a quarter beyond it at the most (the mean keeps to it: test_credit of engine/pace), however the machine is
 * made, and the prompt is computed in the time that is left. */
static void test_pace(void **state) {
        /* small steps cost little more than one row; or a row costs the same in any step, so that the prompt
         * must be computed apart */
        static const uint64_t base[] = {2000, 0};

        if (TEST_TSAN)
                return;
        find_expected();
        for (unsigned i = 0; i < ARRAY_SIZE(base); i++) {
                uint64_t one = base[i] + 100, third, half, whole, prompt, sooner, soonest;

                beside_prompt(base[i], 33, &third, &prompt);
                beside_prompt(base[i], 50, &half, &sooner);
                beside_prompt(base[i], 100, &whole, &soonest);
                assert_true(third <= one * 200 / 100);
                assert_true(half <= one * 270 / 100 && half > third);
                assert_true(whole > one + 250 * 100);
                assert_true(prompt > sooner && sooner > soonest);
                assert_true(prompt < soonest * 5 && sooner < soonest * 4);
        }
}

/* More users than tokens of a step: everybody's turn comes, however shares are rounded. */
static void test_narrow_steps(void **state) {
        enum { MOST_USERS = 7, LENGTH = 12 };
        struct erig *r = &rig;

        erig_need_model();
        find_expected();
        for (unsigned n = 3; n <= MOST_USERS; n++) {
                struct engine_request q[MOST_USERS];

                begin(r, 8, 1, 64 << 20);
                for (unsigned i = 0; i < n; i++)
                        q[i] = say(open_for(r, UID_A + i), UID_A + i, i, LENGTH);
                for (unsigned i = 0; i < n; i++)
                        erig_send(r, &q[i], &A[i]);
                for (unsigned i = 0; i < n; i++) {
                        erig_wait(r, &A[i]);
                        assert_int_equal(A[i].n_tokens, LENGTH);
                        check_same(&A[i], &expected[i]);
                }
                erig_close(r);
        }
}

/* A user's own replies leave something of each step to the same user's prompt. */
static void test_prompt_beside_replies(void **state) {
        enum { N = 4 };
        struct engine_request q;
        struct erig *r = &rig;

        erig_need_model();
        find_expected();
        begin(r, 8, N, 256 << 20);
        send_many(r, N, false, 1900); /* they do not end before it, however slow this thread is */
        while (A[N - 1].n_tokens < 3)
                erig_step(r);
        q = say(open_for(r, UID_A), UID_A, 4, 2);
        assert_int_equal(erig_do(r, &q, &B), ENGINE_DONE);
        check_same(&B, &expected[4]);
        for (unsigned i = 0; i < N; i++) {
                assert_false(A[i].final);
                engine_cancel(r->en, handles[i]);
                erig_wait(r, &A[i]);
        }
        erig_close(r);
}

/* A request that was parked is still the first of its user's. */
static void test_parked_is_first(void **state) {
        enum { N = 3, LENGTH = 40 };
        struct engine_request q;
        struct erig *r = &rig;

        erig_need_model();
        find_expected();
        begin(r, 1, 256, 64 << 20);
        q = say(open_for(r, UID_B), UID_B, 4, 4);
        send_paused(r, N, false, LENGTH, &q);
        go_on(r, N, 1, &q);
        erig_wait(r, &B);
        check_short_reply(q.handle, 4);
        assert_true(erig_stat(r, "requests_parked") > 0);
        for (unsigned i = 0; i < N; i++) {
                for (unsigned k = i + 1; k < N; k++)
                        assert_false(A[k].accepted && !A[i].final);
                erig_wait(r, &A[i]);
                check_same(&A[i], &expected[i]);
        }
        for (unsigned i = 1; i < N; i++)
                assert_true(seen(handles[i]).first > seen(handles[i - 1]).last);
        erig_close(r);
}

/* --- equal prompts (I6) --- */

/* Two equal prompts, begun in the same step. True if both have tokens in it. */
static bool beside(uint32_t uid_b, uint32_t uid_c) {
        enum { HISTORY = BLOCK + 8 };
        struct engine_request other, b, c;
        struct erig *r = &rig;
        bool both;

        begin(r, 4, 256, 64 << 20);
        other = say(open_for(r, UID_A), UID_A, 0, 2000);
        /* So much is in RAM, and the rest so little, that nobody looks for it on disk first. */
        b = tokens_of(open_for(r, uid_b), uid_b, 0, HISTORY, 0);
        assert_int_equal(erig_do(r, &b, &B), ENGINE_DONE);
        c = tokens_of(open_for(r, uid_c), uid_c, 0, HISTORY, 0);
        assert_int_equal(erig_do(r, &c, &B), ENGINE_DONE);
        b = tokens_of(b.conv_id, uid_b, HISTORY, 50, 1);
        c = tokens_of(c.conv_id, uid_c, HISTORY, 50, 1);
        erig_send(r, &other, &A[0]);
        while (A[0].n_tokens < 3)
                erig_step(r);
        gate_step(&gate);
        gate_wait(&gate);
        erig_send(r, &b, &B);
        engine_pause(r->en, b.handle, true);
        erig_send(r, &c, &A[1]);
        engine_pause(r->en, c.handle, true);
        gate_open(&gate);
        wait_queued(b.handle);
        wait_queued(c.handle);
        gate_step(&gate);
        gate_wait(&gate);
        engine_pause(r->en, b.handle, false);
        engine_pause(r->en, c.handle, false);
        gate_open(&gate);
        erig_wait(r, &B);
        erig_wait(r, &A[1]);
        answer_same(&B, &A[1]);
        both = seen(b.handle).first == seen(c.handle).first;
        if (both) {
                assert_int_equal(seen(b.handle).last, seen(c.handle).last);
                assert_int_equal(seen(b.handle).tokens, seen(c.handle).tokens);
        }
        engine_cancel(r->en, other.handle);
        erig_wait(r, &A[0]);
        erig_close(r);
        return both;
}

static void test_equal_prompts(void **state) {
        /* One of the same user's two waits for the other's blocks: so the test can tell. */
        assert_false(beside(UID_B, UID_B));
        assert_true(beside(UID_B, UID_C));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_teardown(test_newcomer, teardown),
                cmocka_unit_test_teardown(test_newcomer_background, teardown),
                cmocka_unit_test_teardown(test_newcomer_storing, teardown),
                cmocka_unit_test_teardown(test_newcomer_memory, teardown),
                cmocka_unit_test_teardown(test_turns, teardown),
                cmocka_unit_test_teardown(test_own_background, teardown),
                cmocka_unit_test_teardown(test_share_of_steps, teardown),
                cmocka_unit_test_teardown(test_share_of_prompt, teardown),
                cmocka_unit_test_teardown(test_pace, teardown),
                cmocka_unit_test_teardown(test_alone, teardown),
                cmocka_unit_test_teardown(test_narrow_steps, teardown),
                cmocka_unit_test_teardown(test_prompt_beside_replies, teardown),
                cmocka_unit_test_teardown(test_parked_is_first, teardown),
                cmocka_unit_test_teardown(test_equal_prompts, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
