/* SPDX-License-Identifier: MIT */
/*
 * The n-th allocation fails, in any thread, while conversations are watched. Whatever failed, the notices
 * tell how things are: who replays them knows which conversations there are, at which revision each is,
 * and that no turn is open. A watcher that begins while allocations fail either fails itself, or is told
 * what the other one is told from then on.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fault/fault.h"
#include "unit/engine/watch-rig.h"
#include "util/depth.h"
#include "util/test.h"

#define RUNS test_depth(24, 60, 150)

enum { MAX_IDS = 1 << 16 };

static struct answer A;
static struct erig rig;
static struct watcher *late; /* begins while allocations fail */

static void transfer(uint64_t c) {
        static uint8_t data[1 << 20];
        struct engine_request q = {.verb = ENGINE_EXPORT, .conv_id = c};
        ssize_t n;

        if (erig_do(&rig, &q, &A) != ENGINE_EXPORTED)
                return;
        n = pread(A.fd, data, sizeof(data), 0);
        assert_true(n > 0);
        q = (struct engine_request){.verb = ENGINE_IMPORT};
        q.fd = memfd_create("import", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        assert_int_equal(write(q.fd, data, (size_t)n), n);
        assert_int_equal(fcntl(q.fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK), 0);
        erig_do(&rig, &q, &A);
        close(q.fd);
}

/* Requests that may fail; nothing here allocates but the engine. */
static void requests(void) {
        struct engine_request q = erig_request(ENGINE_OPEN, 0);
        uint64_t c, d = 0;

        late = watch_begin(&rig, &(struct watch_request){0});
        q.system = "Be kind.";
        if (erig_do(&rig, &q, &A) != ENGINE_CONV)
                return;
        c = A.conv.id;
        q = erig_long_request(c, "Hello, I live by the river.", 4);
        erig_do(&rig, &q, &A);
        q = erig_request(ENGINE_FORK, c);
        if (erig_do(&rig, &q, &A) == ENGINE_CONV)
                d = A.conv.id;
        q = erig_request(ENGINE_UPDATE, c);
        q.overflow = ENGINE_OVERFLOW_SHIFT;
        erig_do(&rig, &q, &A);
        q = erig_request(ENGINE_PUBLISH, c);
        q.admin = q.publish = true;
        erig_do(&rig, &q, &A);
        erig_simple(&rig, ENGINE_EVICT, c, &A);
        erig_simple(&rig, ENGINE_WARM, c, &A);
        q = erig_say_request(c, "And you?", 4);
        q.cuts = q.ignore_eos = true;
        q.at_turn = 1;
        q.at_position = ENGINE_UNSET;
        erig_do(&rig, &q, &A);
        q = erig_request(ENGINE_REWIND, c);
        q.drop_turns = 1;
        erig_do(&rig, &q, &A);
        transfer(c);
        if (d)
                erig_simple(&rig, ENGINE_CLOSE, d, &A);
}

/* What the notices tell of each conversation. */
static struct {
        bool exists;
        unsigned n_open; /* turns */
        uint64_t revision;
} told[MAX_IDS];

static void replay(const struct watcher *w) {
        for (size_t i = 1; i < w->n; i++) {
                const struct seen *s = &w->seen[i];

                assert_true(s->kind >= ENGINE_NOTICE_OPENED && s->conv < MAX_IDS);
                if (s->kind == ENGINE_NOTICE_OPENED || s->kind == ENGINE_NOTICE_FORKED) {
                        assert_false(told[s->conv].exists);
                        told[s->conv].exists = true;
                }
                assert_true(told[s->conv].exists);
                told[s->conv].revision = s->revision;
                if (s->kind == ENGINE_NOTICE_TURN_BEGUN)
                        assert_int_equal(told[s->conv].n_open++, 0);
                if (s->kind == ENGINE_NOTICE_TURN_ENDED)
                        assert_int_equal(told[s->conv].n_open--, 1);
                if (s->kind == ENGINE_NOTICE_CLOSED) {
                        assert_int_equal(told[s->conv].n_open, 0);
                        told[s->conv].exists = false;
                }
        }
}

/* Compare it with what there is, and close everything. */
static void check(long n, struct watcher *w) {
        static uint64_t first = 1; /* older ones are closed */
        uint64_t last = erig_new(&rig, NULL, NULL);

        w->at = w->n + 1;
        watch_wait(&rig, w, w->at);
        w->at = w->n;
        watch_nothing(&rig, w);
        assert_true(last < MAX_IDS);
        replay(w);
        for (uint64_t id = first; id <= last; id++) {
                bool exists = erig_simple(&rig, ENGINE_GET, id, &A) == ENGINE_CONV;

                if (!exists)
                        assert_int_equal(A.err.code, ERR_NOT_FOUND);
                if (exists != told[id].exists)
                        fail_msg("allocation %ld: conversation %llu %s, unlike what was told", n,
                                (unsigned long long)id, exists ? "exists" : "is gone");
                if (exists && A.conv.revision != told[id].revision)
                        fail_msg("allocation %ld: conversation %llu is at %llu, not %llu", n,
                                (unsigned long long)id, (unsigned long long)A.conv.revision,
                                (unsigned long long)told[id].revision);
                assert_int_equal(told[id].n_open, 0);
                if (exists)
                        assert_int_equal(erig_simple(&rig, ENGINE_CLOSE, id, &A), ENGINE_EMPTY);
        }
        first = last;
}

/* The late watcher was told the last of what the other one was told. */
static void check_late(struct watcher *w) {
        if (late->answer.refused) {
                watch_forget(late);
                return;
        }
        for (int i = 0; i < 2; i++)
                (void)erig_stat(&rig, "watchers");
        assert_true(late->n > 1 && late->n <= w->n);
        assert_int_equal(late->seen[0].kind, ENGINE_NOTICE_MODEL);
        for (size_t i = 1; i < late->n; i++) {
                const struct seen *a = &late->seen[late->n - i], *b = &w->seen[w->n - i];

                assert_int_equal(a->kind, b->kind);
                assert_int_equal(a->conv, b->conv);
                assert_int_equal(a->revision, b->revision);
        }
        watch_end(&rig, late);
}

/* True if the allocation was made to fail. */
static bool run(void (*arm)(long n), long n) {
        struct watcher *w = watch_begin(&rig, &(struct watch_request){0});
        bool hit;

        (void)watch_next(&rig, w, ENGINE_NOTICE_MODEL);
        memset(told, 0, sizeof(told));
        arm(n);
        requests();
        hit = fault_alloc_hit();
        fault_alloc_at(-1);
        check(n, w);
        check_late(w);
        watch_end(&rig, w);
        return hit;
}

static void test_watched(void **state) {
        struct engine_options o = erig_options(8 << 20);
        long end = 1, step;

        (void)state;
        erig_need_model();
        o.spill_delay_ms = UINT32_MAX;
        erig_open(&rig, &o);
        rig.silence_msec = 20000;
        while (run(fault_alloc_at, end))
                end *= 2;
        step = end / RUNS > 1 ? end / RUNS : 1;
        for (long n = 0; n < end; n += n < RUNS / 2 ? 1 : step)
                run(fault_alloc_at, n);
        for (long n = 0; n < end; n += 8 * step)
                run(fault_alloc_from, n);
        erig_close(&rig);
}

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_watched)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
