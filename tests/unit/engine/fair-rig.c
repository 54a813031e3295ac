/* SPDX-License-Identifier: MIT */
#include "fair-rig.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"
#include "inside.h"
#include "model/model.h"
#include "store/store.h"

struct answer A[MOST], B, C, fair_expected[8];
struct erig fair_rig;
uint64_t fair_handles[MOST];

/* --- the engine, watched --- */

struct fair fair = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
struct gate fair_gate = GATE_INIT;
struct gate fair_store_gate = GATE_INIT;

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

        pthread_mutex_lock(&fair.lock);
        held = id == fair.held;
        pthread_mutex_unlock(&fair.lock);
        if (held)
                gate_pass(&fair_store_gate);
        return __real_store_append(s, id, turns, n_turns, tokens, n_tokens, ret_revision, e);
}

uint64_t __real_clock_monotonic_usec(void);
uint64_t __wrap_clock_monotonic_usec(void);
uint64_t __wrap_clock_monotonic_usec(void) {
        uint64_t now;

        pthread_mutex_lock(&fair.lock);
        now = fair.fake ? fair.now : __real_clock_monotonic_usec();
        pthread_mutex_unlock(&fair.lock);
        return now;
}

int __real_sched_queue(struct engine *engine, struct request *request, struct err *e);
int __wrap_sched_queue(struct engine *engine, struct request *request, struct err *e);
int __wrap_sched_queue(struct engine *engine, struct request *request, struct err *e) {
        struct inside_request q = inside_request(request);
        bool pause;

        pthread_mutex_lock(&fair.lock);
        pause = fair.pause;
        pthread_mutex_unlock(&fair.lock);
        if (pause)
                engine_pause(engine, q.handle, true);
        pthread_mutex_lock(&fair.lock);
        if (q.handle < FAIR_MOST_HANDLES)
                fair.seen[q.handle] = (struct fair_seen){.seq = q.seq,
                        .owner = q.owner,
                        .background = q.background,
                        .queued = fair.step};
        pthread_cond_broadcast(&fair.cond);
        pthread_mutex_unlock(&fair.lock);
        return __real_sched_queue(engine, request, e);
}

void __real_attach_accepted(struct engine *engine, struct request *request);
void __wrap_attach_accepted(struct engine *engine, struct request *request);
void __wrap_attach_accepted(struct engine *engine, struct request *request) {
        struct inside_request q = inside_request(request);

        pthread_mutex_lock(&fair.lock);
        if (q.handle < FAIR_MOST_HANDLES)
                fair.seen[q.handle].stored = fair.step;
        pthread_mutex_unlock(&fair.lock);
        __real_attach_accepted(engine, request);
}

static struct fair_seen *seen_of(const struct seq *seq) {
        /* The last one: a conversation may have been spoken in before. */
        for (size_t i = sizeof(fair.seen) / sizeof(fair.seen[0]); i-- > 0;)
                if (fair.seen[i].seq == seq)
                        return &fair.seen[i];
        return NULL;
}

int __real_model_forward(struct model_work *work, const struct model_token *batch, size_t n,
        const struct model_wait *wait);

static void watch(const struct model_token *batch, size_t n) {
        uint64_t a = 0, b = 0;

        fair.step += fair.depth == 0; /* those between layers are part of the step */
        for (size_t i = 0; i < n; i++) {
                struct fair_seen *s = seen_of(batch[i].seq);

                if (!s)
                        continue;
                if (!s->first) {
                        s->first = fair.step;
                        s->first_at = fair.now;
                }
                s->last = fair.step;
                s->tokens++;
                a += s->owner == UID_A;
                b += s->owner == UID_B;
        }
        if (a > 0 && b > 0) {
                fair.shared_steps++;
                fair.shared_a += a;
                fair.shared_b += b;
        }
}

/* Made-up time passes before a step, or, where the engine looks at layers, before each of them. */
struct timed_step {
        const struct model_wait *wait;
        uint64_t usec;
};

static void pass_time(uint64_t usec) {
        pthread_mutex_lock(&fair.lock);
        fair.now += usec;
        pthread_mutex_unlock(&fair.lock);
}

static int timed_layer(void *arg, uint32_t layer) {
        struct timed_step *s = arg;
        int r = s->wait->layer(s->wait->arg, layer);

        pass_time(s->usec / fair.n_layer);
        return r;
}

static int timed_forward(struct model_work *work, const struct model_token *batch, size_t n,
        const struct model_wait *wait) {
        /* set while the engine does nothing */
        struct timed_step s = {.wait = wait, .usec = fair.base + fair.per_token * n};
        const struct model_wait each = {.layer = timed_layer, .arg = &s};
        int r;

        if (!wait || fair.n_layer == 0) {
                pass_time(s.usec);
                r = __real_model_forward(work, batch, n, wait);
        } else {
                r = __real_model_forward(work, batch, n, &each);
        }
        pthread_mutex_lock(&fair.lock);
        for (size_t i = 0; i < n; i++) {
                struct fair_seen *seen = seen_of(batch[i].seq);

                if (seen)
                        seen->last_at = fair.now;
                if (batch[i].seq == fair.timed) {
                        if (fair.timed_at)
                                fair.longest = MAX(fair.longest, fair.now - fair.timed_at);
                        fair.timed_at = fair.now;
                }
        }
        pthread_mutex_unlock(&fair.lock);
        return r;
}

int __wrap_model_forward(struct model_work *work, const struct model_token *batch, size_t n,
        const struct model_wait *wait);
int __wrap_model_forward(struct model_work *work, const struct model_token *batch, size_t n,
        const struct model_wait *wait) {
        bool slow;
        int r;

        pthread_mutex_lock(&fair.lock);
        watch(batch, n);
        slow = fair.slow;
        pthread_mutex_unlock(&fair.lock);
        gate_pass(&fair_gate);
        if (slow)
                usleep(3000);
        pthread_mutex_lock(&fair.lock);
        fair.depth++;
        pthread_mutex_unlock(&fair.lock);
        r = timed_forward(work, batch, n, wait);
        pthread_mutex_lock(&fair.lock);
        fair.depth--;
        pthread_mutex_unlock(&fair.lock);
        return r;
}

struct fair_seen fair_seen(uint64_t handle) {
        struct fair_seen s;

        assert_true(handle < FAIR_MOST_HANDLES);
        pthread_mutex_lock(&fair.lock);
        s = fair.seen[handle];
        pthread_mutex_unlock(&fair.lock);
        return s;
}

void fair_wait_queued(uint64_t handle) {
        struct timespec ts;
        int r = 0;

        assert_true(handle < FAIR_MOST_HANDLES);
        clock_gettime(CLOCK_REALTIME, &ts);
        ts.tv_sec += 60;
        pthread_mutex_lock(&fair.lock);
        while (!fair.seen[handle].seq && r == 0)
                r = pthread_cond_timedwait(&fair.cond, &fair.lock, &ts);
        pthread_mutex_unlock(&fair.lock);
        assert_int_equal(r, 0);
}

static void watch_reset(void) {
        pthread_mutex_lock(&fair.lock);
        memset(fair.seen, 0, sizeof(fair.seen));
        fair.shared_steps = fair.shared_a = fair.shared_b = 0;
        fair.timed = NULL;
        fair.held = fair.timed_at = fair.longest = fair.n_layer = 0;
        fair.fake = fair.slow = fair.pause = false;
        pthread_mutex_unlock(&fair.lock);
}

void fair_make_slow(void) {
        pthread_mutex_lock(&fair.lock);
        fair.slow = true;
        pthread_mutex_unlock(&fair.lock);
}

static void pause_what_comes(bool pause) {
        pthread_mutex_lock(&fair.lock);
        fair.pause = pause;
        pthread_mutex_unlock(&fair.lock);
}

void fair_fake_time(uint64_t base, uint64_t per_token) {
        uint64_t now = __real_clock_monotonic_usec();

        pthread_mutex_lock(&fair.lock);
        fair.now = now;
        fair.base = base;
        fair.per_token = per_token;
        fair.fake = true;
        pthread_mutex_unlock(&fair.lock);
}

int fair_teardown(void **state) {
        gate_open(&fair_gate);
        gate_open(&fair_store_gate);
        if (fair_rig.en)
                erig_close(&fair_rig);
        watch_reset();
        return 0;
}

/* --- what is said --- */

uint64_t fair_open_for(struct erig *r, uint64_t owner) {
        struct engine_request q = {.verb = ENGINE_OPEN, .owner = owner};

        assert_int_equal(erig_do(r, &q, &C), ENGINE_CONV);
        return C.conv.id;
}

struct engine_request fair_say(uint64_t conv, uint64_t owner, unsigned which, uint32_t max) {
        static const char *const texts[8] = {"Hello.", "A story.", "Why?", "The sea.", "Go on.",
                "Seven birds.", "Good night.", "Names."};
        struct engine_request q = erig_say_request(conv, texts[which % 8], max);

        q.owner = owner;
        q.ignore_eos = true;
        return q;
}

struct engine_request fair_tokens_of(
        uint64_t conv, uint64_t owner, uint32_t from, uint32_t n, uint32_t max) {
        static int32_t tokens[512];
        struct engine_request q = fair_say(conv, owner, 0, max);

        for (int32_t i = 0; i < 512; i++)
                tokens[i] = 300 + i;
        q.input = ENGINE_INPUT_TOKENS;
        q.text = NULL;
        q.text_size = 0;
        q.tokens = tokens + from;
        q.n_tokens = n;
        return q;
}

void fair_begin(struct erig *r, uint32_t max_active, uint32_t batch_tokens, uint64_t pool) {
        struct engine_options o = erig_options(pool);

        o.spill_delay_ms = UINT32_MAX;
        o.max_active = max_active;
        o.batch_tokens = batch_tokens;
        o.speculation = false; /* rows are counted */
        watch_reset();
        erig_open(r, &o);
}

void fair_begin_with(struct erig *r, uint32_t prefill_share) {
        struct engine_options o = erig_options(64 << 20);

        o.spill_delay_ms = UINT32_MAX;
        o.prefill_share = prefill_share;
        o.speculation = false; /* rows are counted */
        watch_reset();
        erig_open(r, &o);
}

void fair_find_expected(void) {
        struct erig *r = &fair_rig;

        if (fair_expected[7].final)
                return;
        fair_begin(r, 16, 256, 256 << 20);
        for (unsigned i = 0; i < 8; i++) {
                struct engine_request q =
                        fair_say(fair_open_for(r, UID_A), UID_A, i, FAIR_EXPECTED);

                assert_int_equal(erig_do(r, &q, &fair_expected[i]), ENGINE_DONE);
        }
        erig_close(r);
}

struct engine_request fair_reply_to(struct erig *r, struct engine_request say) {
        struct engine_request q = say;

        q.max_tokens = 0;
        assert_int_equal(erig_do(r, &q, &C), ENGINE_DONE);
        say.input = ENGINE_INPUT_NONE;
        return say;
}

void fair_check_same(const struct answer *a, const struct answer *full) {
        size_t n = MIN(a->n_tokens, full->n_tokens);

        assert_int_equal(a->kind, ENGINE_DONE);
        assert_memory_equal(a->tokens, full->tokens, n * sizeof(a->tokens[0]));
        assert_memory_equal(a->logprobs, full->logprobs, n * sizeof(a->logprobs[0]));
}

void fair_send_all(struct erig *r, struct engine_request *q, unsigned n, bool background) {
        for (unsigned i = 0; i < n; i++) {
                q[i].background = background;
                erig_send(r, &q[i], &A[i]);
                fair_handles[i] = q[i].handle;
                /* Workers look for their conversations, and would bring them in any order. */
                fair_wait_queued(q[i].handle);
        }
}

void fair_send_many(struct erig *r, unsigned n, bool background, uint32_t length) {
        struct engine_request q[MOST];

        for (unsigned i = 0; i < n; i++)
                q[i] = fair_say(fair_open_for(r, UID_A), UID_A, i, length);
        fair_send_all(r, q, n, background);
}

/* --- from a given step on, however fast this thread is --- */

void fair_send_all_paused(struct erig *r, struct engine_request *many, unsigned n, bool background,
        struct engine_request *q) {
        pause_what_comes(true);
        fair_send_all(r, many, n, background);
        erig_send(r, q, &B);
        fair_wait_queued(q->handle);
        pause_what_comes(false);
}

void fair_send_paused(
        struct erig *r, unsigned n, bool background, uint32_t length, struct engine_request *q) {
        struct engine_request many[MOST];

        for (unsigned i = 0; i < n; i++)
                many[i] = fair_say(fair_open_for(r, UID_A), UID_A, i, length);
        fair_send_all_paused(r, many, n, background, q);
}

/* Do the first @n of UID_A have tokens in this step? */
static bool all_in_step(unsigned n) {
        bool all = true;

        pthread_mutex_lock(&fair.lock);
        for (unsigned i = 0; i < n; i++)
                all = all && fair.seen[fair_handles[i]].last == fair.step;
        pthread_mutex_unlock(&fair.lock);
        return all;
}

void fair_go_on(struct erig *r, unsigned n, unsigned n_active, const struct engine_request *q) {
        gate_step(&fair_gate);
        engine_pause(r->en, fair_handles[0], false);
        gate_wait(&fair_gate);
        for (unsigned i = 1; i < n; i++)
                engine_pause(r->en, fair_handles[i], false);
        for (unsigned together = 0; together < 3; together += all_in_step(n_active)) {
                gate_step(&fair_gate);
                gate_wait(&fair_gate);
        }
        pthread_mutex_lock(&fair.lock);
        fair.seen[q->handle].queued = fair.step;
        pthread_mutex_unlock(&fair.lock);
        engine_pause(r->en, q->handle, false);
        gate_open(&fair_gate);
}
