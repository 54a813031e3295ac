/* SPDX-License-Identifier: MIT */
/* Several workers write, read and release at once, on shared files and files of their own, under a
 * limit that some of them hit. Meant for the thread sanitizer, but valid without it. */
#include <pthread.h>
#include <string.h>
#include <sys/uio.h>

#include "unit/spill/store.h"
#include "util/gate.h"

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
        r = store_write(w->t->s, draw(w, N_KEYS), &m, raw, SIZE, &h->ref, NULL);
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

/* Loads by sections, while writers append to the same files and let records go. */
enum { N_SHARED = 40, N_LOADERS = 4, N_LOADS = 12 };

static const uint64_t ends[3] = {3000, 3001, SIZE};

struct shared {
        struct store *t;
        struct spill_item items[N_SHARED];
        uint32_t id;
        const char *failure;
};

static const char *load_some(
        struct shared *sh, struct spill_item *items, size_t n, uint8_t (*back)[SIZE]) {
        struct spill_load *l = NULL;
        uint8_t raw[SIZE];
        int r = 0;

        for (size_t i = 0; i < n; i++)
                items[i].dst = back[i];
        r = spill_load_new(&l, sh->t->s, items, n, NULL);
        for (size_t k = 0; k < 3 && r == 0; k++)
                r = store_read(l, k, 1, NULL);
        spill_load_free(l);
        if (r < 0)
                return "a load failed";
        for (size_t i = 0; i < n; i++) {
                uint32_t what = items[i].meta.position;

                fill(raw, SIZE, what % N_KINDS, what);
                if (items[i].r != 0 || memcmp(raw, back[i], SIZE) != 0)
                        return "a loaded record has other bytes";
        }
        return NULL;
}

static void *loader(void *arg) {
        struct shared *sh = arg;
        uint8_t(*back)[SIZE] = malloc(N_SHARED * sizeof(*back));

        for (uint32_t i = 0; i < N_LOADS && back && !sh->failure; i++) {
                struct spill_item items[N_SHARED];
                size_t n = 1 + (sh->id * 7 + i * 5) % N_SHARED;

                memcpy(items, sh->items + (N_SHARED - n), n * sizeof(*items));
                sh->failure = load_some(sh, items, n, back);
        }
        free(back);
        return NULL;
}

static void *churner(void *arg) {
        struct shared *sh = arg;
        struct spill_ref ref;
        uint8_t raw[SIZE];

        for (uint32_t i = 0; i < N_LOADS * 8 && !sh->failure; i++) {
                struct spill_meta m = meta_of(1000 + i);

                fill(raw, SIZE, i % N_KINDS, i);
                if (store_write(sh->t->s, i % N_KEYS, &m, raw, SIZE, &ref, NULL) < 0)
                        sh->failure = "a write failed";
                if (i % 5 == 0)
                        spill_settle(sh->t->s, i % N_KEYS);
                if (i % 16 == 0)
                        spill_trim(sh->t->s);
                if (!sh->failure && spill_release(sh->t->s, &ref, NULL) < 0)
                        sh->failure = "a record cannot be released";
        }
        return NULL;
}

static void test_loads(void **state) {
        struct store t;
        struct shared sh[N_LOADERS + 1] = {0};
        pthread_t thread[N_LOADERS + 1];
        uint8_t raw[SIZE];

        store_make(&t);
        t.options.max_raw_size = SIZE;
        t.options.max_open_files = 2;
        store_divide(&t.options, (struct spill_layout){.section_ends = ends, .n_sections = 3});
        store_start(&t);
        sh[0].t = &t;
        for (uint32_t i = 0; i < N_SHARED; i++) {
                struct spill_item *it = &sh[0].items[i];

                it->meta = meta_of(i);
                fill(raw, SIZE, i % N_KINDS, i);
                assert_int_equal(store_write(t.s, i * N_KEYS / N_SHARED, &it->meta, raw, SIZE,
                                         &it->ref, NULL),
                        0);
        }
        for (uint32_t i = 1; i <= N_LOADERS; i++) {
                sh[i] = sh[0];
                sh[i].id = i;
        }
        for (uint32_t i = 0; i <= N_LOADERS; i++)
                assert_int_equal(
                        pthread_create(&thread[i], NULL, i < N_LOADERS ? loader : churner, &sh[i]),
                        0);
        for (uint32_t i = 0; i <= N_LOADERS; i++)
                pthread_join(thread[i], NULL);
        for (uint32_t i = 0; i <= N_LOADERS; i++)
                if (sh[i].failure)
                        fail_msg("thread %u: %s", i, sh[i].failure);
        assert_int_equal(store_stats(&t).n_records, N_SHARED);
        assert_int_equal(store_stats(&t).n_corrupt, 0);
        assert_int_equal(spill_owner_size(t.s, 0), store_stats(&t).disk_size);
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
                if (k == 0 ? memcmp(raw, back, SIZE) != 0 : k != -ERR_NOT_FOUND)
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
                assert_int_equal(store_write(t.s, i / 4, &m, raw, SIZE, &r.ref[i], NULL), 0);
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

/* --- a write that is held up --- */

static struct gate write_gate = GATE_INIT;

#define WRAP_PWRITEV(name)                                                                         \
        ssize_t __real_##name(int fd, const struct iovec *iov, int n, off_t at);                   \
        ssize_t __wrap_##name(int fd, const struct iovec *iov, int n, off_t at);                   \
        ssize_t __wrap_##name(int fd, const struct iovec *iov, int n, off_t at) {                  \
                gate_pass(&write_gate);                                                            \
                return __real_##name(fd, iov, n, at);                                              \
        }
WRAP_PWRITEV(pwritev)
WRAP_PWRITEV(pwritev64)

struct held_write {
        struct store *t;
        struct spill_ref ref;
        int r;
};

static void *write_held(void *arg) {
        struct held_write *w = arg;
        struct spill_meta m = meta_of(1);
        uint8_t raw[SIZE];

        fill(raw, SIZE, FLOATS, 1);
        w->r = store_write(w->t->s, 0, &m, raw, SIZE, &w->ref, NULL);
        return NULL;
}

/* The last record of a file goes while another one is being written to it: the file stays, and has
 * that one. */
static void test_file_of_a_write_stays(void **state) {
        struct store t;
        struct held_write w = {.t = &t};
        struct spill_meta m = meta_of(1);
        struct spill_stats meanwhile;
        struct spill_ref first;
        uint8_t raw[SIZE], back[SIZE];
        long long size;
        pthread_t thread;
        int r;

        store_make(&t);
        store_start(&t);
        fill(raw, SIZE, FLOATS, 1);
        assert_int_equal(store_write(t.s, 0, &m, raw, SIZE, &first, NULL), 0);
        gate_close(&write_gate, 0);
        assert_int_equal(pthread_create(&thread, NULL, write_held, &w), 0);
        gate_wait(&write_gate);
        r = spill_release(t.s, &first, NULL);
        meanwhile = store_stats(&t);
        size = store_file_size(&t, 0);
        gate_open(&write_gate);
        pthread_join(thread, NULL);
        assert_int_equal(r, 0);
        assert_int_equal(meanwhile.n_records, 0);
        assert_int_equal(meanwhile.n_files, 1);
        assert_true(size >= 0);
        assert_int_equal(w.r, 0);
        /* It is there for the next life as well. */
        t.s = spill_free(t.s);
        store_open(&t);
        assert_int_equal(spill_adopt(t.s, &w.ref, NULL), 0);
        assert_int_equal(spill_sweep(t.s, NULL, NULL), 0);
        assert_int_equal(spill_read(t.s, &w.ref, &m, back, SIZE, NULL), 0);
        assert_memory_equal(raw, back, SIZE);
        assert_int_equal(spill_release(t.s, &w.ref, NULL), 0);
        assert_int_equal(store_file_size(&t, 0), -1);
        store_remove(&t);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_workers),
                cmocka_unit_test(test_loads),
                cmocka_unit_test(test_read_races_release),
                cmocka_unit_test(test_file_of_a_write_stays),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
