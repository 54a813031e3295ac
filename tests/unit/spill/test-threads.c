/* SPDX-License-Identifier: MIT */
/* Several workers write, read and release at once, on shared and own files, under a limit that some
 * of them run into. Meant for the thread sanitizer, and true without it. */
#include <pthread.h>
#include <string.h>

#include "unit/spill/store.h"

enum { N_THREADS = 6, N_STEPS = 150, N_HELD = 8, N_KEYS = 4, SIZE = 9000 };

struct worker {
        struct store *t;
        uint32_t id;
        uint64_t rng;
        const char *failure;
};

struct held {
        struct spill_ref ref;
        uint32_t what; /* 0: nothing */
};

static uint32_t draw(struct worker *w, uint32_t below) {
        w->rng = w->rng * 6364136223846793005u + 1442695040888963407u;
        return (uint32_t)(w->rng >> 33) % below;
}

/* No cmocka assertions off the main thread: they jump. */
static const char *check(struct worker *w, const struct held *h, uint8_t *raw, uint8_t *back) {
        struct spill_meta m = meta_of(h->what);

        if (spill_read(w->t->s, &h->ref, &m, back, SIZE, NULL) != 0)
                return "a live record cannot be read";
        fill(raw, SIZE, h->what % N_KINDS, h->what);
        return memcmp(raw, back, SIZE) == 0 ? NULL : "a record has other bytes";
}

static const char *write_one(struct worker *w, struct held *h, uint32_t what, uint8_t *raw) {
        struct spill_meta m = meta_of(what);
        int r;

        fill(raw, SIZE, what % N_KINDS, what);
        r = spill_write(w->t->s, draw(w, N_KEYS), &m, raw, SIZE, &h->ref, NULL);
        if (r == 0)
                h->what = what;
        return r == 0 || r == -ERR_LIMIT ? NULL : "a write failed";
}

static const char *step(struct worker *w, struct held *h, uint32_t what) {
        uint8_t raw[SIZE], back[SIZE];
        struct spill_stats st;

        if (h->what == 0)
                return write_one(w, h, what, raw);
        if (draw(w, 3) > 0)
                return check(w, h, raw, back);
        h->what = 0;
        if (spill_release(w->t->s, &h->ref, NULL) != 0)
                return "a live record cannot be released";
        spill_stats(w->t->s, &st);
        return st.disk_size <= w->t->options.max_disk_size ? NULL : "over the limit";
}

static void *work(void *arg) {
        struct worker *w = arg;
        struct held held[N_HELD] = {0};

        for (uint32_t i = 0; i < N_STEPS && !w->failure; i++)
                w->failure = step(w, &held[draw(w, N_HELD)], 1 + w->id * N_STEPS + i);
        for (uint32_t i = 0; i < N_HELD; i++)
                if (held[i].what && spill_release(w->t->s, &held[i].ref, NULL) != 0)
                        w->failure = "a record cannot be released at the end";
        return NULL;
}

static void test_workers(void **state) {
        struct store t;
        struct worker w[N_THREADS];
        pthread_t thread[N_THREADS];

        store_make(&t);
        t.options.max_raw_size = SIZE;
        t.options.max_open_files = 2;
        t.options.max_disk_size = 16 * 12288;
        store_start(&t);
        for (uint32_t i = 0; i < N_THREADS; i++) {
                w[i] = (struct worker){.t = &t, .id = i, .rng = i};
                assert_int_equal(pthread_create(&thread[i], NULL, work, &w[i]), 0);
        }
        for (uint32_t i = 0; i < N_THREADS; i++)
                pthread_join(thread[i], NULL);
        for (uint32_t i = 0; i < N_THREADS; i++)
                if (w[i].failure)
                        fail_msg("worker %u: %s", i, w[i].failure);
        assert_int_equal(store_stats(&t).n_records, 0);
        assert_int_equal(store_stats(&t).disk_size, 0);
        assert_int_equal(store_stats(&t).n_files, 0);
        assert_int_equal(store_stats(&t).n_corrupt, 0);
        store_remove(&t);
}

/* Reading what another worker lets go of, at the same moment: whole or an error. */
struct race {
        struct store *t;
        struct spill_ref ref[64];
        const char *failure;
};

static void *reader(void *arg) {
        struct race *r = arg;
        uint8_t raw[SIZE], back[SIZE];

        for (uint32_t i = 0; i < ARRAY_SIZE(r->ref); i++) {
                struct spill_meta m = meta_of(i);
                int k = spill_read(r->t->s, &r->ref[i], &m, back, SIZE, NULL);

                fill(raw, SIZE, FLOATS, i);
                if (k == 0 ? memcmp(raw, back, SIZE) != 0
                           : k != -ERR_NOT_FOUND && k != -ERR_CORRUPT)
                        r->failure = "a racing read was neither whole nor an error";
        }
        return NULL;
}

static void *releaser(void *arg) {
        struct race *r = arg;

        for (uint32_t i = 0; i < ARRAY_SIZE(r->ref); i++)
                spill_release(r->t->s, &r->ref[i], NULL);
        return NULL;
}

static void test_read_races_release(void **state) {
        struct store t;
        struct race r = {.t = &t};
        pthread_t a, b;
        uint8_t raw[SIZE];

        store_make(&t);
        store_start(&t);
        for (uint32_t i = 0; i < ARRAY_SIZE(r.ref); i++) {
                struct spill_meta m = meta_of(i);

                fill(raw, SIZE, FLOATS, i);
                assert_int_equal(spill_write(t.s, i / 4, &m, raw, SIZE, &r.ref[i], NULL), 0);
        }
        assert_int_equal(pthread_create(&a, NULL, reader, &r), 0);
        assert_int_equal(pthread_create(&b, NULL, releaser, &r), 0);
        pthread_join(a, NULL);
        pthread_join(b, NULL);
        if (r.failure)
                fail_msg("%s", r.failure);
        assert_int_equal(store_stats(&t).disk_size, 0);
        store_remove(&t);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_workers),
                cmocka_unit_test(test_read_races_release),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
