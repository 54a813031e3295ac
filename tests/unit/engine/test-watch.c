/* SPDX-License-Identifier: MIT */
/*
 * Watch: each change is told once, in order, to whom it concerns, and what was missed is told as "list
 * again". Notices of pressure are made by the test, so thousands of them cost nothing.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "inside.h"
#include "model/model.h"
#include "store/store.h"
#include "transfer-rig.h"
#include "util/gate.h"
#include "util/test.h"
#include "watch-rig.h"

enum { RING = 4096 };

static struct answer A, B;
static struct erig rig;

/* --- faults --- */

static struct gate gate = GATE_INIT; /* before each step */

int __real_model_forward(struct model_work *w, const struct model_token *batch, size_t n,
        const struct model_wait *wait);
int __wrap_model_forward(struct model_work *w, const struct model_token *batch, size_t n,
        const struct model_wait *wait);
int __wrap_model_forward(struct model_work *w, const struct model_token *batch, size_t n,
        const struct model_wait *wait) {
        gate_pass(&gate);
        return __real_model_forward(w, batch, n, wait);
}

/* After the next change, the register can't be read once. */
static atomic_bool armed, unreadable;

int __real_store_conv_get(struct store *s, uint64_t owner, uint64_t id, const char *name,
        struct store_conv *ret, struct err *e);
int __wrap_store_conv_get(struct store *s, uint64_t owner, uint64_t id, const char *name,
        struct store_conv *ret, struct err *e);
int __wrap_store_conv_get(struct store *s, uint64_t owner, uint64_t id, const char *name,
        struct store_conv *ret, struct err *e) {
        if (atomic_exchange(&unreadable, false))
                return err_set(e, ERR_UNAVAILABLE, "it can't be read");
        return __real_store_conv_get(s, owner, id, name, ret, e);
}

/* The answer: who asks again would have it done twice. */
static void expect_done(void) {
        assert_non_null(strstr(A.err.msg, "the request was carried out"));
        assert_false(err_may_pass(&A.err));
}

static int changed(int r) {
        if (r == 0 && atomic_exchange(&armed, false))
                atomic_store(&unreadable, true);
        return r;
}

int __real_store_conv_update(struct store *s, uint64_t id, const char *name,
        const struct sampling *sampling, uint32_t overflow, const bool *pinned,
        const struct about *about, struct err *e);
int __wrap_store_conv_update(struct store *s, uint64_t id, const char *name,
        const struct sampling *sampling, uint32_t overflow, const bool *pinned,
        const struct about *about, struct err *e);
int __wrap_store_conv_update(struct store *s, uint64_t id, const char *name,
        const struct sampling *sampling, uint32_t overflow, const bool *pinned,
        const struct about *about, struct err *e) {
        return changed(__real_store_conv_update(s, id, name, sampling, overflow, pinned, about, e));
}

int __real_store_conv_publish(struct store *s, uint64_t id, uint32_t n_tokens, struct err *e);
int __wrap_store_conv_publish(struct store *s, uint64_t id, uint32_t n_tokens, struct err *e);
int __wrap_store_conv_publish(struct store *s, uint64_t id, uint32_t n_tokens, struct err *e) {
        return changed(__real_store_conv_publish(s, id, n_tokens, e));
}

int __real_store_rewind(struct store *s, uint64_t id, uint32_t n_turns,
        const struct store_turn *last, const struct gap *gap, uint64_t *ret_revision,
        struct store_gone *gone, struct err *e);
int __wrap_store_rewind(struct store *s, uint64_t id, uint32_t n_turns,
        const struct store_turn *last, const struct gap *gap, uint64_t *ret_revision,
        struct store_gone *gone, struct err *e);
int __wrap_store_rewind(struct store *s, uint64_t id, uint32_t n_turns,
        const struct store_turn *last, const struct gap *gap, uint64_t *ret_revision,
        struct store_gone *gone, struct err *e) {
        return changed(__real_store_rewind(s, id, n_turns, last, gap, ret_revision, gone, e));
}

/* No turn can be stored. */
static atomic_bool unwritable;

int __real_store_append(struct store *s, uint64_t id, const struct store_turn *turns,
        size_t n_turns, const int32_t *tokens, size_t n_tokens, uint64_t *ret_revision,
        struct err *e);
int __wrap_store_append(struct store *s, uint64_t id, const struct store_turn *turns,
        size_t n_turns, const int32_t *tokens, size_t n_tokens, uint64_t *ret_revision,
        struct err *e);
int __wrap_store_append(struct store *s, uint64_t id, const struct store_turn *turns,
        size_t n_turns, const int32_t *tokens, size_t n_tokens, uint64_t *ret_revision,
        struct err *e) {
        if (atomic_load(&unwritable))
                return err_set(e, ERR_NOMEM, "it can't be written");
        return __real_store_append(s, id, turns, n_turns, tokens, n_tokens, ret_revision, e);
}

/* --- rig --- */

static int setup(void **state) {
        struct engine_options o = erig_options(64 << 20);

        (void)state;
        o.spill_delay_ms = UINT32_MAX;
        if (erig_model())
                erig_open(&rig, &o);
        return 0;
}

/* A failed test must not leave an engine behind that can't end. */
static int teardown(void **state) {
        (void)state;
        gate_open(&gate);
        if (rig.en)
                erig_close(&rig);
        return 0;
}

static struct watcher *watch(const char *cursor) {
        struct watcher *w = watch_begin(&rig, &(struct watch_request){.cursor = cursor});

        (void)watch_next(&rig, w, ENGINE_NOTICE_MODEL);
        return w;
}

static uint64_t new_of(uint64_t owner) {
        struct engine_request q = {.verb = ENGINE_OPEN, .owner = owner};

        assert_int_equal(erig_do(&rig, &q, &B), ENGINE_CONV);
        return B.conv.id;
}

/* So many notices that nobody here has to see. */
static void flood(size_t n) {
        for (size_t i = 0; i < n; i++)
                engine_note_pressure(rig.en, true, i);
}

/* --- tests --- */

static void test_model(void **state) {
        struct engine_model_info info;
        struct watcher *w;

        (void)state;
        erig_need_model();
        inside_describe_model(rig.en, &info);
        w = watch(NULL);
        assert_string_equal(w->seen[0].model, info.name);
        assert_int_equal(w->seen[0].fingerprint, info.fingerprint[0]);
        assert_int_equal(erig_stat(&rig, "watchers"), 1);
        assert_int_equal(erig_stat(&rig, "requests_active"), 0);
        watch_nothing(&rig, w);
        watch_end(&rig, w);
        assert_int_equal(erig_stat(&rig, "watchers"), 0);
}

static void change(uint64_t c, struct watcher *w) {
        struct engine_request q = erig_request(ENGINE_UPDATE, c);

        q.name = "another";
        assert_int_equal(erig_do(&rig, &q, &A), ENGINE_CONV);
        (void)watch_expect(&rig, w, ENGINE_NOTICE_CHANGED, c);
        q = erig_request(ENGINE_PUBLISH, c);
        q.admin = q.publish = true;
        assert_int_equal(erig_do(&rig, &q, &A), ENGINE_CONV);
        assert_int_equal(
                watch_expect(&rig, w, ENGINE_NOTICE_CHANGED, c)->revision, A.conv.revision);
}

static void evict_and_warm(uint64_t c, struct watcher *w) {
        assert_int_equal(erig_simple(&rig, ENGINE_EVICT, c, &A), ENGINE_CONV);
        (void)watch_expect(&rig, w, ENGINE_NOTICE_EVICTED, c);
        assert_int_equal(erig_simple(&rig, ENGINE_EVICT, c, &A), ENGINE_CONV);
        assert_int_equal(erig_simple(&rig, ENGINE_WARM, c, &A), ENGINE_CONV);
        assert_int_equal(A.conv.residency, ENGINE_RESIDENT);
        (void)watch_expect(&rig, w, ENGINE_NOTICE_RESTORED, c);
        assert_int_equal(erig_simple(&rig, ENGINE_WARM, c, &A), ENGINE_CONV);
        watch_nothing(&rig, w);
}

/* Memory that no file has is told of when a Warm has computed it. */
static void test_computed(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        struct watcher *w;
        struct erig r;
        uint64_t c;

        (void)state;
        o.disk_limit = 1; /* nothing fits */
        erig_open(&r, &o);
        w = watch_begin(&r, &(struct watch_request){0});
        c = erig_new(&r, NULL, NULL);
        q = erig_long_request(c, "Tell me of the river.", 10);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, &A), ENGINE_CONV);
        assert_int_equal(A.conv.residency, ENGINE_COLD);
        (void)watch_next(&r, w, ENGINE_NOTICE_MODEL);
        (void)watch_expect(&r, w, ENGINE_NOTICE_OPENED, c);
        (void)watch_expect(&r, w, ENGINE_NOTICE_TURN_BEGUN, c);
        (void)watch_expect(&r, w, ENGINE_NOTICE_TURN_ENDED, c);
        (void)watch_expect(&r, w, ENGINE_NOTICE_EVICTED, c);
        for (int i = 0; i < 2; i++) {
                assert_int_equal(erig_simple(&r, ENGINE_WARM, c, &A), ENGINE_CONV);
                assert_int_equal(A.conv.residency, ENGINE_RESIDENT);
                if (i == 0)
                        (void)watch_expect(&r, w, ENGINE_NOTICE_RESTORED, c);
                watch_nothing(&r, w);
        }
        watch_end(&r, w);
        erig_close(&r);
}

/* Every kind once, and exactly once. */
static void test_kinds(void **state) {
        struct engine_request q;
        struct transfer_file file;
        const struct seen *s;
        struct watcher *w;
        uint64_t c, child;

        (void)state;
        erig_need_model();
        w = watch(NULL);
        c = erig_new(&rig, "one", "You are brief.");
        s = watch_expect(&rig, w, ENGINE_NOTICE_OPENED, c);
        assert_int_equal(s->owner, 0);
        q = erig_long_request(c, "Tell me of the river, the green house, and the birds.", 40);
        assert_int_equal(erig_do(&rig, &q, &A), ENGINE_DONE);
        (void)watch_expect(&rig, w, ENGINE_NOTICE_TURN_BEGUN, c);
        s = watch_expect(&rig, w, ENGINE_NOTICE_TURN_ENDED, c);
        assert_int_equal(s->revision, A.revision);
        assert_int_equal(s->finish, ENGINE_FINISH_LENGTH);
        change(c, w);
        child = erig_fork(&rig, c);
        s = watch_expect(&rig, w, ENGINE_NOTICE_FORKED, child);
        assert_int_equal(s->parent, c);
        evict_and_warm(c, w);
        q = erig_request(ENGINE_REWIND, c);
        q.drop_turns = 2;
        assert_int_equal(erig_do(&rig, &q, &A), ENGINE_CONV);
        s = watch_expect(&rig, w, ENGINE_NOTICE_REWOUND, c);
        assert_int_equal(s->revision, A.conv.revision);
        file = transfer_export(&rig, c, false);
        s = watch_expect(
                &rig, w, ENGINE_NOTICE_OPENED, transfer_import_good(&rig, &file, "imported"));
        assert_int_equal(s->revision, transfer_last.conv.revision);
        free(file.data);
        assert_int_equal(erig_simple(&rig, ENGINE_CLOSE, c, &A), ENGINE_EMPTY);
        (void)watch_expect(&rig, w, ENGINE_NOTICE_CLOSED, c);
        watch_nothing(&rig, w);
        watch_end(&rig, w);
}

/* What fails, and what only reads, is no news. */
static void test_no_news(void **state) {
        struct engine_request q;
        struct watcher *w;
        uint64_t c;

        (void)state;
        erig_need_model();
        c = erig_new(&rig, "one", "You are brief.");
        w = watch(NULL);
        q = (struct engine_request){.verb = ENGINE_OPEN, .name = "one"};
        assert_int_equal(erig_do(&rig, &q, &A), ENGINE_ERROR);
        q = erig_request(ENGINE_UPDATE, c);
        q.name = "12";
        assert_int_equal(erig_do(&rig, &q, &A), ENGINE_ERROR);
        q = erig_request(ENGINE_REWIND, c);
        q.has_expect_revision = true;
        q.expect_revision = 77;
        assert_int_equal(erig_do(&rig, &q, &A), ENGINE_ERROR);
        q = erig_request(ENGINE_FORK, c);
        q.name = "one";
        assert_int_equal(erig_do(&rig, &q, &A), ENGINE_ERROR);
        q = erig_say_request(c, "Hello", 4);
        q.sampling.has |= SAMPLING_TOP_P;
        q.sampling.top_p = 7;
        assert_int_equal(erig_do(&rig, &q, &A), ENGINE_ERROR);
        assert_int_equal(erig_simple(&rig, ENGINE_CLOSE, c + 1, &A), ENGINE_ERROR);
        erig_get(&rig, c, &A);
        assert_int_equal(erig_simple(&rig, ENGINE_LIST, 0, &A), ENGINE_CONVS);
        watch_nothing(&rig, w);
        watch_end(&rig, w);
}

/* Committed, but not read back: the request fails, and the change is told all the same. What it has set holds. */
static void test_unread(void **state) {
        struct engine_request update, rewind, publish, say;
        struct watcher *w;
        uint64_t c;

        (void)state;
        erig_need_model();
        c = erig_new(&rig, NULL, "You are brief.");
        erig_say(&rig, c, "Hello", 4, &A);
        w = watch(NULL);
        update = erig_request(ENGINE_UPDATE, c);
        update.overflow = ENGINE_OVERFLOW_SHIFT;
        update.has_pinned = update.pinned = true;
        update.sampling = (struct sampling){.has = SAMPLING_SEED, .seed = 77};
        publish = erig_request(ENGINE_PUBLISH, c);
        publish.admin = publish.publish = true;
        rewind = erig_request(ENGINE_REWIND, c);
        rewind.drop_turns = 1;
        atomic_store(&armed, true);
        assert_int_equal(erig_do(&rig, &update, &A), ENGINE_ERROR);
        expect_done();
        (void)watch_expect(&rig, w, ENGINE_NOTICE_CHANGED, c);
        assert_int_equal(erig_stat(&rig, "conversations_pinned"), 1);
        say = erig_say_request(c, "And then?", 1);
        say.sampling = (struct sampling){.has = 0};
        assert_int_equal(erig_do(&rig, &say, &A), ENGINE_DONE);
        assert_int_equal(A.seed, 77);
        (void)watch_expect(&rig, w, ENGINE_NOTICE_TURN_BEGUN, c);
        (void)watch_expect(&rig, w, ENGINE_NOTICE_TURN_ENDED, c);
        atomic_store(&armed, true);
        assert_int_equal(erig_do(&rig, &publish, &A), ENGINE_ERROR);
        expect_done();
        (void)watch_expect(&rig, w, ENGINE_NOTICE_CHANGED, c);
        atomic_store(&armed, true);
        assert_int_equal(erig_do(&rig, &rewind, &A), ENGINE_ERROR);
        expect_done();
        erig_get(&rig, c, &A);
        assert_int_equal(
                watch_expect(&rig, w, ENGINE_NOTICE_REWOUND, c)->revision, A.conv.revision);
        watch_nothing(&rig, w);
        watch_end(&rig, w);
}

/* A turn that has begun ends: with the reply's reason, or without one where the request fails. */
static void test_turns_that_end_early(void **state) {
        enum { IN_PROMPT, IN_REPLY, NOT_STORED, N_WAYS };

        (void)state;
        erig_need_model();
        for (int way = 0; way < N_WAYS; way++) {
                struct watcher *w = watch(NULL);
                uint64_t c = erig_new(&rig, NULL, NULL);
                struct engine_request q =
                        erig_long_request(c, way == IN_PROMPT ? erig_words(600, 1) : "Hello", 40);
                const struct seen *s;

                (void)watch_expect(&rig, w, ENGINE_NOTICE_OPENED, c);
                gate_close(&gate, way == IN_PROMPT ? 0 : 3);
                erig_send(&rig, &q, &A);
                gate_wait(&gate);
                atomic_store(&unwritable, way == NOT_STORED);
                if (way != NOT_STORED)
                        engine_cancel(rig.en, q.handle);
                gate_open(&gate);
                erig_wait(&rig, &A);
                atomic_store(&unwritable, false);
                if (way != IN_PROMPT)
                        assert_int_equal(A.kind, way == IN_REPLY ? ENGINE_DONE : ENGINE_ERROR);
                (void)watch_expect(&rig, w, ENGINE_NOTICE_TURN_BEGUN, c);
                s = watch_expect(&rig, w, ENGINE_NOTICE_TURN_ENDED, c);
                assert_int_equal(s->finish,
                        A.kind == ENGINE_DONE ? ENGINE_FINISH_CANCELLED : ENGINE_FINISH_NONE);
                erig_get(&rig, c, &A);
                assert_int_equal(s->revision, A.conv.revision);
                watch_nothing(&rig, w);
                watch_end(&rig, w);
        }
}

/* From each cursor on, everything behind it comes, once; and cursors do not tell that others were active. */
static void test_resume(void **state) {
        enum { N = 11 };
        struct watcher *w, *again;

        (void)state;
        erig_need_model();
        w = watch(NULL);
        for (int i = 0; i < 5; i++) {
                uint64_t c = erig_new(&rig, NULL, NULL);

                flood(3);
                (void)new_of(7);
                assert_int_equal(erig_simple(&rig, ENGINE_CLOSE, c, &A), ENGINE_EMPTY);
        }
        watch_wait(&rig, w, N);
        for (size_t from = 0; from < N; from++) {
                again = watch(w->seen[from].cursor);
                for (size_t i = from + 1; i < N; i++) {
                        const struct seen *s =
                                watch_expect(&rig, again, w->seen[i].kind, w->seen[i].conv);

                        assert_string_not_equal(s->cursor, w->seen[i].cursor);
                }
                watch_nothing(&rig, again);
                watch_end(&rig, again);
        }
        w->at = w->n;
        watch_nothing(&rig, w);
        watch_end(&rig, w);
}

/* Texts that are no cursors of this engine: "list again", and never less. */
static void test_unknown_cursor(void **state) {
        struct engine_request q = {.verb = ENGINE_WATCH};
        char old[ENGINE_CURSOR_MAX + 1], damaged[ENGINE_CURSOR_MAX + 1];
        char longest[ENGINE_CURSOR_MAX + 2] = {0};
        const char *const texts[] = {old, damaged, "", "7", longest + 1};
        struct watcher *w;

        (void)state;
        erig_need_model();
        memset(longest, 'a', ENGINE_CURSOR_MAX + 1);
        w = watch(NULL);
        memcpy(old, w->seen[0].cursor, sizeof(old));
        watch_end(&rig, w);
        erig_restart(&rig, true);
        w = watch(NULL);
        memcpy(damaged, w->seen[0].cursor, sizeof(damaged));
        damaged[20] = damaged[20] == '0' ? '1' : '0';
        watch_end(&rig, w);
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                uint64_t c;

                w = watch(texts[i]);
                assert_string_equal(w->seen[0].cursor, texts[i]); /* not to be believed either */
                (void)watch_expect(&rig, w, ENGINE_NOTICE_LIST_AGAIN, 0);
                c = erig_new(&rig, NULL, NULL);
                (void)watch_expect(&rig, w, ENGINE_NOTICE_OPENED, c);
                watch_nothing(&rig, w);
                watch_end(&rig, w);
        }
        q.cursor = longest;
        erig_send(&rig, &q, &A);
        assert_true(A.refused);
        assert_int_equal(A.err.code, ERR_INVALID);
}

/* A peer that does not read falls behind the ring. */
static void test_overrun(void **state) {
        struct watcher *w = NULL, *pressed;
        uint64_t c;

        (void)state;
        erig_need_model();
        w = watch(NULL);
        pressed = watch_begin(&rig, &(struct watch_request){.pressure = true});
        (void)watch_next(&rig, pressed, ENGINE_NOTICE_MODEL);
        engine_pause(rig.en, w->handle, true);
        engine_pause(rig.en, pressed->handle, true);
        c = erig_new(&rig, NULL, NULL);
        flood(RING - 1); /* the ring has just all of them */
        watch_nothing(&rig, w);
        engine_pause(rig.en, w->handle, false);
        (void)watch_expect(&rig, w, ENGINE_NOTICE_OPENED, c);
        engine_pause(rig.en, w->handle, true);
        (void)erig_new(&rig, NULL, NULL);
        flood(RING);
        watch_nothing(&rig, w);
        engine_pause(rig.en, w->handle, false);
        engine_pause(rig.en, pressed->handle, false);
        (void)watch_expect(&rig, w, ENGINE_NOTICE_LIST_AGAIN, 0);
        (void)watch_expect(&rig, pressed, ENGINE_NOTICE_LIST_AGAIN, 0);
        c = erig_new(&rig, NULL, NULL);
        (void)watch_expect(&rig, w, ENGINE_NOTICE_OPENED, c);
        (void)watch_expect(&rig, pressed, ENGINE_NOTICE_OPENED, c);
        watch_nothing(&rig, w);
        watch_nothing(&rig, pressed);
        watch_end(&rig, pressed);
        watch_end(&rig, w);
}

/* A quiet owner loses nothing by the noise of others; an owner whose notice was lost learns it, whatever
 * else the ring has. */
static void test_overrun_by_others(void **state) {
        char before[2][ENGINE_CURSOR_MAX + 1], lost[ENGINE_CURSOR_MAX + 1];
        struct watcher *w;
        uint64_t c;

        (void)state;
        erig_need_model();
        for (int i = 0; i < 2; i++) {
                w = watch_begin(&rig, &(struct watch_request){.all = i == 1});
                (void)watch_next(&rig, w, ENGINE_NOTICE_MODEL);
                memcpy(before[i], w->seen[0].cursor, sizeof(before[i]));
                watch_end(&rig, w);
        }
        flood(3 * RING);
        c = erig_new(&rig, NULL, NULL);
        w = watch(before[0]);
        (void)watch_expect(&rig, w, ENGINE_NOTICE_OPENED, c);
        memcpy(lost, w->seen[0].cursor, sizeof(lost));
        watch_nothing(&rig, w);
        watch_end(&rig, w);
        w = watch_begin(&rig, &(struct watch_request){.all = true, .cursor = before[1]});
        (void)watch_next(&rig, w, ENGINE_NOTICE_MODEL);
        (void)watch_expect(&rig, w, ENGINE_NOTICE_OPENED, c);
        watch_end(&rig, w);
        flood(RING);
        for (int i = 0; i < 2; i++) {
                w = watch_begin(&rig,
                        &(struct watch_request){.all = i == 1, .cursor = i ? before[1] : lost});
                (void)watch_next(&rig, w, ENGINE_NOTICE_MODEL);
                (void)watch_expect(&rig, w, ENGINE_NOTICE_LIST_AGAIN, 0);
                watch_nothing(&rig, w);
                watch_end(&rig, w);
        }
}

/* The loop thread takes nothing for a while: notices wait, and all of them come. */
static void test_untaken(void **state) {
        struct watcher *w;

        (void)state;
        erig_need_model();
        w = watch_begin(&rig, &(struct watch_request){.pressure = true});
        (void)watch_next(&rig, w, ENGINE_NOTICE_MODEL);
        flood(RING / 2);
        erig_settle(rig.en); /* as much as goes is on its way */
        for (size_t i = 0; i < RING / 2; i++)
                assert_int_equal(watch_next(&rig, w, ENGINE_NOTICE_PRESSURE)->budget, i);
        watch_nothing(&rig, w);
        watch_end(&rig, w);
}

static uint64_t tenant_of(uint64_t uid, const char *label) {
        struct engine_request q = {.verb = ENGINE_TENANT, .owner = uid, .tenant = label};

        assert_int_equal(erig_do(&rig, &q, &B), ENGINE_OWNER);
        return B.owner;
}

static void test_owners(void **state) {
        uint64_t owners[2] = {1};
        struct watch_request q[] = {{.owner = 1}, {0}, {.owner = 3, .all = true}};
        struct watcher *w[3];
        uint64_t c[2];

        (void)state;
        erig_need_model();
        q[1].owner = owners[1] = tenant_of(1, "carl");
        for (int i = 0; i < 3; i++) {
                w[i] = watch_begin(&rig, &q[i]);
                (void)watch_next(&rig, w[i], ENGINE_NOTICE_MODEL);
        }
        for (int i = 0; i < 2; i++) {
                struct engine_request close = {.verb = ENGINE_CLOSE, .admin = true, .owner = 9};

                c[i] = new_of(owners[i]);
                assert_int_equal(
                        watch_expect(&rig, w[i], ENGINE_NOTICE_OPENED, c[i])->owner, owners[i]);
                assert_int_equal(
                        watch_expect(&rig, w[2], ENGINE_NOTICE_OPENED, c[i])->owner, owners[i]);
                close.conv_id = c[i];
                assert_int_equal(erig_do(&rig, &close, &A), ENGINE_EMPTY);
                assert_int_equal(
                        watch_expect(&rig, w[i], ENGINE_NOTICE_CLOSED, c[i])->owner, owners[i]);
                assert_int_equal(
                        watch_expect(&rig, w[2], ENGINE_NOTICE_CLOSED, c[i])->owner, owners[i]);
        }
        flood(5); /* nobody asked for those */
        for (int i = 0; i < 3; i++) {
                watch_nothing(&rig, w[i]);
                watch_end(&rig, w[i]);
        }
}

/* Notices of tenants have their labels, also where the owner changes from one to the next. */
static void test_labels(void **state) {
        uint64_t anna, bert, last = 0;
        struct watcher *own, *all;

        (void)state;
        erig_need_model();
        anna = tenant_of(1, "anna");
        bert = tenant_of(1, "bert");
        own = watch_begin(&rig, &(struct watch_request){.owner = bert});
        all = watch_begin(&rig, &(struct watch_request){.owner = 3, .all = true});
        (void)watch_next(&rig, own, ENGINE_NOTICE_MODEL);
        (void)watch_next(&rig, all, ENGINE_NOTICE_MODEL);
        for (int i = 0; i < 12; i++) {
                const uint64_t owners[] = {anna, bert, 1, bert};

                last = new_of(owners[i % 4]);
        }
        for (int i = 0; i < 12; i++) {
                static const char *const labels[] = {"anna", "bert", "", "bert"};
                const struct seen *s = watch_next(&rig, all, ENGINE_NOTICE_OPENED);

                assert_string_equal(s->tenant, labels[i % 4]);
                if (i % 2)
                        assert_string_equal(
                                watch_expect(&rig, own, ENGINE_NOTICE_OPENED, s->conv)->tenant,
                                "bert");
        }
        assert_int_equal(all->seen[all->n - 1].conv, last);
        watch_nothing(&rig, own);
        watch_end(&rig, own);
        watch_end(&rig, all);
}

static void test_pressure(void **state) {
        struct watcher *w;
        const struct seen *s;

        (void)state;
        erig_need_model();
        w = watch_begin(&rig, &(struct watch_request){.pressure = true});
        (void)watch_next(&rig, w, ENGINE_NOTICE_MODEL);
        engine_note_pressure(rig.en, true, 12345);
        s = watch_next(&rig, w, ENGINE_NOTICE_PRESSURE);
        assert_true(s->pressed && s->budget == 12345);
        engine_note_pressure(rig.en, false, 23456);
        s = watch_next(&rig, w, ENGINE_NOTICE_PRESSURE);
        assert_true(!s->pressed && s->budget == 23456);
        watch_end(&rig, w);
}

/* Stopping does not wait for watchers, and they hear how the others end. */
static void test_stopping(void **state) {
        struct engine_request q;
        struct watcher *w, *paused;
        uint64_t c;

        (void)state;
        erig_need_model();
        c = erig_new(&rig, NULL, NULL);
        w = watch(NULL);
        paused = watch(NULL);
        engine_pause(rig.en, paused->handle, true);
        q = erig_long_request(c, "Hello", 100);
        gate_close(&gate, 3);
        erig_send(&rig, &q, &A);
        gate_wait(&gate);
        engine_stop(rig.en);
        gate_open(&gate);
        erig_stop(&rig, true);
        assert_int_equal(A.kind, ENGINE_DONE);
        assert_int_equal(w->n, 3);
        assert_int_equal(w->seen[1].kind, ENGINE_NOTICE_TURN_BEGUN);
        assert_int_equal(w->seen[2].kind, ENGINE_NOTICE_TURN_ENDED);
        assert_int_equal(w->seen[2].finish, ENGINE_FINISH_CANCELLED);
        assert_int_equal(w->answer.kind, ENGINE_ERROR);
        assert_int_equal(w->answer.err.code, ERR_SHUTDOWN);
        assert_int_equal(paused->n, 1);
        assert_int_equal(paused->answer.err.code, ERR_SHUTDOWN);
        watch_forget(w);
        watch_forget(paused);
        erig_start(&rig);
}

/* A watcher counts as a request of its user. */
static void test_quota(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q = {.verb = ENGINE_WATCH};
        struct watcher *w[2];
        struct erig r;

        (void)state;
        erig_need_model();
        o.max_requests_per_owner = 2;
        erig_open(&r, &o);
        for (int i = 0; i < 2; i++)
                w[i] = watch_begin(&r, &(struct watch_request){0});
        erig_send(&r, &q, &A);
        assert_true(A.refused);
        assert_int_equal(A.err.code, ERR_LIMIT);
        for (int i = 0; i < 2; i++)
                watch_end(&r, w[i]);
        erig_close(&r);
}

/* Memory that other conversations need: each eviction is told once. */
static void test_evicted_for_others(void **state) {
        struct engine_options o = erig_options(erig_pool(6));
        struct watcher *w;
        struct erig r;
        size_t n_evicted = 0, n_restored = 0;

        (void)state;
        erig_need_model();
        o.spill_delay_ms = UINT32_MAX;
        erig_open(&r, &o);
        w = watch_begin(&r, &(struct watch_request){0});
        for (unsigned i = 0; i < 4; i++) {
                struct engine_request q =
                        erig_long_request(erig_new(&r, NULL, NULL), erig_words(20, i), 40);

                assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        }
        for (size_t i = 0; i < 2; i++)
                (void)erig_stat(&r, "watchers");
        for (size_t i = 0; i < w->n; i++) {
                n_evicted += w->seen[i].kind == ENGINE_NOTICE_EVICTED;
                n_restored += w->seen[i].kind == ENGINE_NOTICE_RESTORED;
        }
        assert_true(n_evicted >= 2);
        assert_int_equal(n_evicted, erig_stat(&r, "evictions"));
        assert_int_equal(n_restored, erig_stat(&r, "restores"));
        watch_end(&r, w);
        erig_close(&r);
}

/* Many conversations come and go. */
static void test_churn(void **state) {
        enum { N = ERIG_ROUNDS(1000, 100), STEP = 50 };
        struct watcher *w;

        (void)state;
        erig_need_model();
        w = watch(NULL);
        for (size_t i = 0; i < N; i += STEP) {
                static struct engine_request q[STEP];
                static struct answer a[STEP];
                uint64_t ids[STEP];

                for (size_t k = 0; k < STEP; k++)
                        q[k] = erig_request(ENGINE_OPEN, 0);
                erig_do_all(&rig, q, a, STEP);
                for (size_t k = 0; k < STEP; k++) {
                        assert_int_equal(a[k].kind, ENGINE_CONV);
                        ids[k] = a[k].conv.id;
                        q[k] = erig_request(ENGINE_CLOSE, ids[k]);
                }
                erig_do_all(&rig, q, a, STEP);
        }
        watch_wait(&rig, w, 1 + 2 * N);
        watch_nothing(&rig, (w->at = w->n, w));
        for (size_t i = 1; i < w->n; i++) {
                bool opens = w->seen[i].kind == ENGINE_NOTICE_OPENED;
                size_t others = 0, place = 0;

                assert_true(opens || w->seen[i].kind == ENGINE_NOTICE_CLOSED);
                for (size_t k = 1; k < w->n; k++)
                        if (k != i && w->seen[k].conv == w->seen[i].conv) {
                                others++;
                                place = k;
                        }
                assert_int_equal(others, 1);
                assert_true(opens ? place > i : place < i);
        }
        watch_end(&rig, w);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_model),
                cmocka_unit_test(test_computed),
                cmocka_unit_test(test_kinds),
                cmocka_unit_test(test_no_news),
                cmocka_unit_test(test_unread),
                cmocka_unit_test(test_turns_that_end_early),
                cmocka_unit_test(test_resume),
                cmocka_unit_test(test_unknown_cursor),
                cmocka_unit_test(test_overrun),
                cmocka_unit_test(test_overrun_by_others),
                cmocka_unit_test(test_untaken),
                cmocka_unit_test(test_owners),
                cmocka_unit_test(test_labels),
                cmocka_unit_test(test_pressure),
                cmocka_unit_test(test_stopping),
                cmocka_unit_test(test_quota),
                cmocka_unit_test(test_evicted_for_others),
                cmocka_unit_test(test_churn),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
