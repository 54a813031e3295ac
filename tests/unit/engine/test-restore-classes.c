/* SPDX-License-Identifier: MIT */
/*
 * Restoring as a pipeline (test-restore.c) on models with several classes of memory, whose blocks and
 * states have several sections each: a request computes its first layers while the memory of the later
 * ones arrives, of blocks, windows and states at once. The bits are those of memory that never left RAM.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "class-rig.h"
#include "engine/memory/memory.h"
#include "model/model.h"
#include "quant/quant.h"
#include "spill/spill.h"
#include "util/test.h"
#include "util/tiny-model.h"

enum { N_PROMPT = 75, N_MORE = 9, MOST_ROUNDS = 60, N_VOCAB = 250 };

static struct answer A, expected[2];
static int32_t prompt[N_PROMPT], more[N_MORE];

static void say(struct erig *r, uint64_t c, const int32_t *tokens, size_t n, struct answer *a) {
        struct engine_request q = {.verb = ENGINE_CONTINUE,
                .conv_id = c,
                .input = ENGINE_INPUT_TOKENS,
                .tokens = tokens,
                .n_tokens = n,
                .max_tokens = 3,
                .want_logprobs = true,
                .ignore_eos = true,
                .sampling = {.has = SAMPLING_TEMPERATURE | SAMPLING_SEED, .seed = 1}};

        if (erig_do(r, &q, a) != ENGINE_DONE)
                fail_msg("say: %s", a->err.msg);
}

/* The model is not sure of the tokens: what it remembers shows in the log-probabilities. */
static void check_unsure(const struct answer *a) {
        for (size_t i = 0; i < a->n_tokens; i++)
                if (a->logprobs[i] < -1e-5f)
                        return;
        fail_msg("the model is sure of all tokens");
}

static void make_tokens(void) {
        for (int i = 0; i < N_PROMPT; i++)
                prompt[i] = 8 + (i * 7 + i / 5) % N_VOCAB;
        for (int i = 0; i < N_MORE; i++)
                more[i] = 8 + (i * 13) % N_VOCAB;
}

/* --- a disk that is just as slow as the test needs --- */

/* While it is closed, workers read the first stage of their run, and each further one only when the computing engine
 * waits for it, or has given up. */
static struct {
        pthread_mutex_t lock;
        pthread_cond_t cond;
        bool trial; /* the next step is one; of the engine thread alone */
        bool closed, computing;
        pthread_t thread; /* the one that computes */
        unsigned n_allowed;
        struct run {
                const struct spill_load *load;
                const struct spill_item *items;
                size_t n;
                bool begun;
                uint8_t *aside; /* what lies in the sections that were not asked for yet */
        } runs[16];
        size_t n_runs;
        unsigned n_trials, n_given_up;
} slow = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};

/* Sections of the classes of the model: test_sections(). */
static const size_t *n_sections;

int __real_spill_load_new(struct spill_load **ret, struct spill *spill, struct spill_item *items,
        size_t n, struct err *e);
int __wrap_spill_load_new(struct spill_load **ret, struct spill *spill, struct spill_item *items,
        size_t n, struct err *e);
int __wrap_spill_load_new(struct spill_load **ret, struct spill *spill, struct spill_item *items,
        size_t n, struct err *e) {
        int r = __real_spill_load_new(ret, spill, items, n, e);

        pthread_mutex_lock(&slow.lock);
        if (slow.closed && r == 0) {
                assert_true(slow.n_runs < ARRAY_SIZE(slow.runs));
                slow.runs[slow.n_runs++] = (struct run){.load = *ret, .items = items, .n = n};
        }
        pthread_mutex_unlock(&slow.lock);
        return r;
}

static struct run *find_run(const struct spill_load *load) {
        for (size_t i = 0; i < slow.n_runs; i++)
                if (slow.runs[i].load == load)
                        return &slow.runs[i];
        return NULL;
}

/* What was read ahead disappears from the blocks until it is asked for, and then is there again. */
static void put_aside(struct run *run, const struct spill_range *ranges) {
        size_t size = 0, at = 0;

        for (size_t i = 0; i < run->n; i++)
                size += run->items[i].ref.raw_size;
        run->aside = malloc(size);
        assert_non_null(run->aside);
        for (size_t i = 0; i < run->n; i++) {
                const struct spill_item *it = &run->items[i];
                const struct spill_range *range = &ranges[it->meta.class_id];
                size_t all = it->ref.raw_size;
                size_t read = all / n_sections[it->meta.class_id] * (range->first + range->n);

                memcpy(run->aside + at, it->dst, all);
                memset((uint8_t *)it->dst + read, 0x40, all - read);
                at += all;
        }
}

static void put_back(struct run *run, const struct spill_range *ranges) {
        size_t at = 0;

        for (size_t i = 0; run->aside && i < run->n; i++) {
                const struct spill_item *it = &run->items[i];
                size_t all = it->ref.raw_size;
                size_t read = all / n_sections[it->meta.class_id] * ranges[it->meta.class_id].first;

                memcpy((uint8_t *)it->dst + read, run->aside + at + read, all - read);
                at += all;
        }
        free(run->aside);
        run->aside = NULL;
}

int __real_spill_load_read(
        struct spill_load *load, const struct spill_range *ranges, struct err *e);
int __wrap_spill_load_read(
        struct spill_load *load, const struct spill_range *ranges, struct err *e);
int __wrap_spill_load_read(
        struct spill_load *load, const struct spill_range *ranges, struct err *e) {
        struct run *run;
        int r;

        pthread_mutex_lock(&slow.lock);
        run = find_run(load);
        if (run && run->begun) {
                while (slow.closed && slow.n_allowed == 0)
                        pthread_cond_wait(&slow.cond, &slow.lock);
                slow.n_allowed -= slow.closed;
        }
        pthread_mutex_unlock(&slow.lock);
        if (!run)
                return __real_spill_load_read(load, ranges, e);
        put_back(run, ranges);
        r = __real_spill_load_read(load, ranges, e);
        put_aside(run, ranges);
        run->begun = true;
        return r;
}

struct spill_load *__real_spill_load_free(struct spill_load *load);
struct spill_load *__wrap_spill_load_free(struct spill_load *load);
struct spill_load *__wrap_spill_load_free(struct spill_load *load) {
        struct run *run;

        pthread_mutex_lock(&slow.lock);
        run = find_run(load);
        if (run) {
                free(run->aside);
                *run = (struct run){0};
        }
        pthread_mutex_unlock(&slow.lock);
        return __real_spill_load_free(load);
}

int __real_pthread_cond_timedwait(
        pthread_cond_t *cond, pthread_mutex_t *lock, const struct timespec *ts);
int __wrap_pthread_cond_timedwait(
        pthread_cond_t *cond, pthread_mutex_t *lock, const struct timespec *ts);
int __wrap_pthread_cond_timedwait(
        pthread_cond_t *cond, pthread_mutex_t *lock, const struct timespec *ts) {
        pthread_mutex_lock(&slow.lock);
        if (slow.computing && pthread_equal(slow.thread, pthread_self())) {
                slow.n_allowed++;
                pthread_cond_broadcast(&slow.cond);
        }
        pthread_mutex_unlock(&slow.lock);
        return __real_pthread_cond_timedwait(cond, lock, ts);
}

static void slow_disk(bool closed) {
        pthread_mutex_lock(&slow.lock);
        slow.closed = closed;
        slow.n_runs = closed ? 0 : slow.n_runs;
        slow.n_allowed = 0;
        pthread_cond_broadcast(&slow.cond);
        pthread_mutex_unlock(&slow.lock);
}

/* A step that is a trial: it computes while its memory arrives. */
uint32_t __real_trial_begin(
        struct engine *engine, struct recall *recall, uint32_t most, struct model_wait *wait);
uint32_t __wrap_trial_begin(
        struct engine *engine, struct recall *recall, uint32_t most, struct model_wait *wait);
uint32_t __wrap_trial_begin(
        struct engine *engine, struct recall *recall, uint32_t most, struct model_wait *wait) {
        uint32_t n = __real_trial_begin(engine, recall, most, wait);

        slow.trial = n > 0;
        return n;
}

int __real_model_forward(struct model_work *w, const struct model_token *batch, size_t n,
        const struct model_wait *wait);
int __wrap_model_forward(struct model_work *w, const struct model_token *batch, size_t n,
        const struct model_wait *wait);
int __wrap_model_forward(struct model_work *w, const struct model_token *batch, size_t n,
        const struct model_wait *wait) {
        int r;

        if (!slow.trial)
                return __real_model_forward(w, batch, n, wait);
        slow.trial = false;
        pthread_mutex_lock(&slow.lock);
        slow.computing = true;
        slow.thread = pthread_self();
        pthread_mutex_unlock(&slow.lock);
        r = __real_model_forward(w, batch, n, wait);
        pthread_mutex_lock(&slow.lock);
        slow.computing = false;
        slow.n_trials++;
        slow.n_given_up += r != 0;
        pthread_mutex_unlock(&slow.lock);
        slow_disk(false);
        return r;
}

static int reset(void **state) {
        (void)state;
        slow_disk(false);
        return 0;
}

/* --- models with several sections of each class --- */

/* Whether a disk leaves something to overlap is not the test's to say: so it goes on until it did. */
static void overlap(const char *arch, unsigned scale, const char *second) {
        struct engine_options o = erig_options((uint64_t)256 << 20);
        char path[] = "/tmp/confab-restore-XXXXXX";
        uint64_t c, overlapped = 0;
        int fd = mkstemp(path);
        struct erig r;

        assert_true(fd >= 0);
        close(fd);
        assert_int_equal(tiny_model_write_wide(path, arch, QUANT_Q8_0, scale), 0);
        make_tokens();
        o.model_path = path;
        o.kv_type = ENGINE_KV_F32;
        o.spill_delay_ms = UINT32_MAX;
        erig_open(&r, &o);
        /* Two sections at least, of the second class. */
        assert_true(erig_stat(&r, "block_bytes") >= 128 << 10);
        assert_true(erig_stat(&r, second) >= 256 << 10);
        c = erig_new(&r, NULL, NULL);
        say(&r, c, prompt, N_PROMPT, &expected[0]);
        say(&r, c, more, N_MORE, &expected[1]);
        check_unsure(&expected[1]);
        erig_close(&r);
        for (int i = 0; i < 4 || (overlapped == 0 && i < MOST_ROUNDS); i++) {
                o.n_threads = 1 + (uint32_t)i % 2;
                o.batch_tokens = i % 3 == 2 ? 7 : 256;
                erig_open(&r, &o);
                c = erig_new(&r, NULL, NULL);
                say(&r, c, prompt, N_PROMPT, &A);
                answer_same(&A, &expected[0]);
                assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, &A), ENGINE_CONV);
                assert_int_equal(A.conv.residency, ENGINE_SPILLED);
                if (i % 2)
                        erig_restart(&r, i % 4 == 1);
                say(&r, c, more, N_MORE, &A);
                answer_same(&A, &expected[1]);
                assert_true(A.n_disk >= N_PROMPT);
                assert_int_equal(A.n_computed + A.n_disk, A.n_prompt);
                overlapped += erig_stat(&r, "restores_overlapped");
                assert_int_equal(erig_stat(&r, "restores"), 1);
                assert_int_equal(erig_stat(&r, "restore_failures"), 0);
                erig_simple(&r, ENGINE_CLOSE, c, &A);
                erig_check_empty(&r);
                erig_close(&r);
        }
        unlink(path);
        print_message("%llu restores were overlapped\n", (unsigned long long)overlapped);
        assert_true(overlapped > 0);
}

static void test_hybrid(void **state) {
        overlap("granitehybrid", 16, "state_bytes");
}

static void test_window(void **state) {
        overlap("olmo3", 16, "window_block_bytes");
}

/* --- each layer waits for its own memory --- */

static struct kind wide[] = {
        {.arch = "granitehybrid", .blocks = true, .states = true},
        {.arch = "olmo3", .blocks = true, .windows = true},
        {.arch = "gemma3", .blocks = true, .windows = true},
};
/* Layers that see everything, with windows, and with states. Each is large enough for a section. */
static const size_t n_layers[][SEQ_N_CLASSES] = {{2, 0, 2}, {1, 3, 0}, {1, 6, 0}};
/* gemma3 so wide is sure of each token, whatever it remembers: it is for test_sections() alone. */
#define EACH_WIDE(k) for (struct kind *k = wide; k < wide + 2; k++)

static void open_wide(struct erig *r, const struct kind *k) {
        struct engine_options o = erig_options((uint64_t)256 << 20);

        n_sections = n_layers[k - wide];
        o.model_path = k->path;
        o.kv_type = ENGINE_KV_F32;
        o.spill_delay_ms = UINT32_MAX;
        erig_open(r, &o);
}

/* The sections of later layers come as late as can be. */
static void test_each_layer_waits(void **state) {
        EACH_WIDE(k)
        for (uint32_t n_threads = 1; n_threads <= 2; n_threads++) {
                const struct class_text text = class_text(75, 0), next = class_text(9, 1);
                struct erig r;
                uint64_t c;

                open_wide(&r, k);
                c = erig_new(&r, NULL, NULL);
                class_say(&r, c, &text, &A);
                class_say(&r, c, &next, &expected[0]);
                check_unsure(&expected[0]);
                erig_close(&r);

                open_wide(&r, k);
                c = erig_new(&r, NULL, NULL);
                class_say(&r, c, &text, &A);
                erig_stop(&r, true);
                r.o.n_threads = n_threads;
                erig_start(&r);
                slow.n_trials = 0;
                slow_disk(true);
                class_say(&r, c, &next, &A);
                answer_same(&A, &expected[0]);
                assert_int_equal(A.n_disk, text.n + CLASS_REPLY - 1);
                assert_int_equal(slow.n_trials, 1);
                assert_int_equal(erig_stat(&r, "restores_overlapped"), 1);
                erig_close(&r);
        }
}

/* Records of other divisions could not be read: a section is of whole layers, of at least 128 KiB (docs/spill.md), also
 * where the keys alone are as large as that (gemma3). */
static void test_sections(void **state) {
        static const char *const names[] = {"block_bytes", "window_block_bytes", "state_bytes"};

        for (size_t i = 0; i < ARRAY_SIZE(wide); i++) {
                const struct class_text text = class_text(40, 0);
                const uint32_t last[] = {1, 1, (uint32_t)text.n + CLASS_REPLY - 2};
                struct erig r;
                uint64_t c;

                open_wide(&r, &wide[i]);
                c = erig_new(&r, NULL, NULL);
                class_say(&r, c, &text, &A);
                class_evict(&r, c);
                for (int class = 0; class < SEQ_N_CLASSES; class ++) {
                        uint64_t size = erig_stat(&r, names[class]);
                        uint32_t sizes[16];
                        size_t n;

                        if (size == 0)
                                continue;
                        n = class_sections(&r, c, (enum seq_class) class, last[class], sizes, 16);
                        assert_int_equal(n, n_layers[i][class]);
                        for (size_t k = 0; k < n; k++)
                                assert_int_equal(sizes[k], size / n);
                }
                erig_close(&r);
        }
}

/* --- a trial with memory of others that is given up --- */

/* The conversation is in RAM as far as token 70, forks of it are on disk, and met at token 160. In the last section
 * of one of their blocks is damage, which is found while the model computes what comes behind token 160. */
static void test_given_up(void **state) {
        enum { N_HEAD = 64, END = 70, MET = 160 };
        const struct class_text head = class_text(N_HEAD, 0), first = class_text(4, 1);
        const struct class_text next = class_text(100, 2);

        EACH_WIDE(k) {
                struct erig r;
                uint64_t c, f[2];

                open_wide(&r, k);
                c = class_new(&r, &head);
                class_say(&r, c, &first, &A);
                class_say(&r, c, &next, &expected[0]);
                check_unsure(&expected[0]);
                erig_close(&r);

                open_wide(&r, k);
                c = class_new(&r, &head);
                class_say(&r, c, &first, &A);
                for (int32_t i = 0; i < 2; i++) {
                        const struct class_text own = class_text(12, 5 + i);
                        const struct class_text t = class_join(&next, 95, &own);

                        f[i] = erig_fork(&r, c);
                        class_say(&r, f[i], &t, &A);
                }
                class_evict(&r, f[0]);
                class_evict(&r, f[1]);
                class_damage(&r, f[1], SEQ_ALL, MET / CLASS_BLOCK - 1);
                slow.n_trials = slow.n_given_up = 0;
                slow_disk(true);
                class_say(&r, c, &next, &A);
                answer_same(&A, &expected[0]);
                assert_int_equal(slow.n_trials, 1);
                assert_int_equal(slow.n_given_up, 1);
                assert_int_equal(A.n_ram, END);
                assert_int_equal(A.n_computed, A.n_prompt - END);
                assert_int_equal(erig_stat(&r, "restore_failures"), 1);
                /* And all of it is written, and read. */
                erig_restart(&r, true);
                class_say(&r, c, &first, &A);
                assert_int_equal(A.n_computed, first.n + 1);
                assert_int_equal(erig_stat(&r, "restore_failures"), 0);
                erig_close(&r);
        }
}

static int make_models(void **state) {
        (void)state;
        for (struct kind *k = wide; k < wide + ARRAY_SIZE(wide); k++) {
                strcpy(k->path, "/tmp/confab-restore-XXXXXX");
                close(mkstemp(k->path));
                if (tiny_model_write_wide(k->path, k->arch, QUANT_Q8_0, 16) < 0)
                        return -1;
        }
        return 0;
}

static int remove_models(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(wide); i++)
                unlink(wide[i].path);
        return 0;
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_hybrid),
                cmocka_unit_test(test_window),
                cmocka_unit_test_teardown(test_each_layer_waits, reset),
                cmocka_unit_test(test_sections),
                cmocka_unit_test_teardown(test_given_up, reset),
        };

        return cmocka_run_group_tests(tests, make_models, remove_models);
}
