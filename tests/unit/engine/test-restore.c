/* SPDX-License-Identifier: MIT */
/*
 * Restoring as a pipeline, on a model whose blocks have several sections: computing begins while
 * the rest arrives, damage anywhere is found before it is used, and cancels and other requests are
 * handled during the restore. The bits are those of memory that never left RAM.
 */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/thread.h"
#include "inside.h"
#include "model/model.h"
#include "quant/quant.h"
#include "rig.h"
#include "util/llama-build.h"
#include "util/test.h"

enum { N_VOCAB = 300, N_PROMPT = 300, N_MORE = 20 };

static struct answer A, B, expected[2], other;
static unsigned slow_usec; /* that each batch takes besides */
static char model_path[] = "/tmp/confab-restore-XXXXXX";
static int32_t prompt[2][N_PROMPT], more[N_MORE];

int __real_model_forward(struct model_work *work, const struct model_token *batch, size_t n,
        const struct model_wait *wait);
int __wrap_model_forward(struct model_work *work, const struct model_token *batch, size_t n,
        const struct model_wait *wait);
int __wrap_model_forward(struct model_work *work, const struct model_token *batch, size_t n,
        const struct model_wait *wait) {
        usleep(slow_usec);
        return __real_model_forward(work, batch, n, wait);
}

/* Which threads kept to a part of the processors, and were let go again. */
static struct keeper {
        pthread_t thread;
        unsigned k, n;
        bool kept;
} keepers[64];
static unsigned n_keepers, n_let_go;
static pthread_mutex_t keepers_lock = PTHREAD_MUTEX_INITIALIZER;

bool __real_thread_keep_to_part(unsigned k, unsigned n);
bool __wrap_thread_keep_to_part(unsigned k, unsigned n);
bool __wrap_thread_keep_to_part(unsigned k, unsigned n) {
        bool kept = __real_thread_keep_to_part(k, n);

        pthread_mutex_lock(&keepers_lock);
        if (n_keepers < 64)
                keepers[n_keepers++] = (struct keeper){pthread_self(), k, n, kept};
        pthread_mutex_unlock(&keepers_lock);
        return kept;
}

void __real_thread_keep_to_all(void);
void __wrap_thread_keep_to_all(void);
void __wrap_thread_keep_to_all(void) {
        pthread_mutex_lock(&keepers_lock);
        n_let_go++;
        pthread_mutex_unlock(&keepers_lock);
        __real_thread_keep_to_all();
}

/* Bytes and a few words, so that there is a tokenizer; the tests speak in tokens. */
static void vocabulary(struct gguf_build *b) {
        static char text[N_VOCAB][16];
        static const char *tokens[N_VOCAB];
        static float scores[N_VOCAB];
        static int32_t types[N_VOCAB];
        static const char *const special[] = {"<unk>", "<s>", "</s>"};

        for (int i = 0; i < N_VOCAB; i++) {
                if (i < 3)
                        snprintf(text[i], sizeof(text[i]), "%s", special[i]);
                else if (i < 3 + 256)
                        snprintf(text[i], sizeof(text[i]), "<0x%02X>", (unsigned)(i - 3));
                else
                        snprintf(text[i], sizeof(text[i]), "#%d", i);
                tokens[i] = text[i];
                scores[i] = -(float)i;
                types[i] = i == 0        ? GGUF_TOKEN_UNKNOWN
                           : i < 3       ? GGUF_TOKEN_CONTROL
                           : i < 3 + 256 ? GGUF_TOKEN_BYTE
                                         : GGUF_TOKEN_NORMAL;
        }
        gguf_build_spm(b, tokens, scores, types, N_VOCAB, 2);
}

/* Four layers of 128 KiB of memory per block each (f32): four sections. */
static int make_model(void **state) {
        const struct llama_spec spec = {.n_layer = 4,
                .n_embd = 64,
                .n_head = 8,
                .n_kv_head = 8,
                .head_dim = 64,
                .n_ff = 64,
                .n_vocab = N_VOCAB,
                .context = 1024,
                .type = QUANT_Q8_0,
                .embd_type = QUANT_Q8_0,
                .tied = true,
                .omit = "tokenizer.ggml.tokens",
                .seed = 9};
        struct gguf_build *b = llama_build(&spec);
        int fd = mkstemp(model_path);

        assert_true(fd >= 0);
        close(fd);
        vocabulary(b);
        assert_int_equal(gguf_build_write(b, model_path), 0);
        gguf_build_free(b);
        for (int i = 0; i < N_PROMPT; i++) {
                prompt[0][i] = 3 + (i * 7 + i / 5) % 290;
                prompt[1][i] = 3 + (i * 11 + 4) % 290;
        }
        for (int i = 0; i < N_MORE; i++)
                more[i] = 3 + (i * 13) % 200;
        return 0;
}

static int remove_model(void **state) {
        return unlink(model_path);
}

static struct engine_options options(void) {
        struct engine_options o = erig_options(64 << 20);

        o.model_path = model_path;
        o.kv_type = ENGINE_KV_F32;
        o.spill_delay_ms = UINT32_MAX;
        return o;
}

static struct engine_request request(uint64_t c, const int32_t *tokens, size_t n) {
        return (struct engine_request){.verb = ENGINE_CONTINUE,
                .conv_id = c,
                .input = ENGINE_INPUT_TOKENS,
                .tokens = tokens,
                .n_tokens = n,
                .max_tokens = 6,
                .want_logprobs = true,
                .ignore_eos = true,
                .sampling = {.has = SAMPLING_TEMPERATURE | SAMPLING_SEED, .seed = 1}};
}

static void say(struct erig *r, uint64_t c, const int32_t *tokens, size_t n, struct answer *a) {
        struct engine_request q = request(c, tokens, n);

        if (erig_do(r, &q, a) != ENGINE_DONE)
                fail_msg("say: %s", a->err.msg);
}

static void answers(void) {
        struct engine_options o = options();
        struct erig r;
        uint64_t c;

        if (expected[0].n_tokens > 0)
                return;
        erig_open(&r, &o);
        assert_true(erig_stat(&r, "block_bytes") >= 4 * (128 << 10));
        c = erig_new(&r, NULL, NULL);
        say(&r, c, prompt[0], N_PROMPT, &expected[0]);
        say(&r, c, more, N_MORE, &expected[1]);
        say(&r, erig_new(&r, NULL, NULL), prompt[1], N_PROMPT, &other);
        erig_close(&r);
}

static uint64_t evicted(struct erig *r) {
        uint64_t c = erig_new(r, NULL, NULL);

        say(r, c, prompt[0], N_PROMPT, &A);
        answer_same(&A, &expected[0]);
        assert_int_equal(erig_simple(r, ENGINE_EVICT, c, &A), ENGINE_CONV);
        assert_int_equal(A.conv.residency, ENGINE_SPILLED);
        return c;
}

/* Whether a disk leaves something to overlap is not the test's to say: so it goes on until it did. */
static void test_overlap(void **state) {
        struct engine_options o = options();
        struct erig r;
        uint64_t c, overlapped = 0;

        answers();
        for (int i = 0; i < ERIG_ROUNDS(12, 3) || (overlapped == 0 && i < 100); i++) {
                o.n_threads = 1 + (uint32_t)i % 2;
                o.batch_tokens = i % 3 == 2 ? 7 : 256;
                erig_open(&r, &o);
                c = evicted(&r);
                if (i % 2)
                        erig_restart(&r, i % 4 == 1);
                say(&r, c, more, N_MORE, &A);
                answer_same(&A, &expected[1]);
                assert_true(A.n_disk >= N_PROMPT);
                assert_int_equal(A.n_ram + A.n_shared, 0);
                assert_int_equal(A.n_computed + A.n_disk, A.n_prompt);
                overlapped += erig_stat(&r, "restores_overlapped");
                assert_int_equal(erig_stat(&r, "restores"), 1);
                assert_int_equal(erig_stat(&r, "restore_failures"), 0);
                /* What was restored is clean, what was computed is not lost. */
                erig_simple(&r, ENGINE_EVICT, c, &A);
                assert_int_equal(erig_stat(&r, "blocks_lost"), 0);
                erig_simple(&r, ENGINE_CLOSE, c, &A);
                erig_check_empty(&r);
                erig_close(&r);
        }
        print_message("%llu restores were overlapped\n", (unsigned long long)overlapped);
        assert_true(overlapped > 0);
}

/* A flipped bit in any place: what lies before its block is kept, the rest computed. */
static void flip(struct erig *r, uint64_t c, double where) {
        struct stat st;
        char path[128];
        uint8_t byte;
        off_t at;
        int fd;

        snprintf(path, sizeof(path), "%s/spill/%016llx.kv", r->dir, (unsigned long long)c);
        fd = open(path, O_RDWR);
        assert_true(fd >= 0);
        assert_int_equal(fstat(fd, &st), 0);
        at = (off_t)((double)st.st_size * where);
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte ^= 0x40;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        close(fd);
}

static void test_damage(void **state) {
        struct engine_options o = options();
        struct erig r;
        uint64_t c;

        answers();
        for (int i = 0; i < ERIG_ROUNDS(16, 4); i++) {
                erig_open(&r, &o);
                c = evicted(&r);
                flip(&r, c, (i + 0.3) / ERIG_ROUNDS(16, 4));
                say(&r, c, more, N_MORE, &A);
                answer_same(&A, &expected[1]);
                assert_int_equal(A.n_computed + A.n_disk, A.n_prompt);
                if (A.n_disk < N_PROMPT)
                        assert_true(erig_stat(&r, "restore_failures") == 1 && r.n_logs > 0);
                erig_simple(&r, ENGINE_EVICT, c, &A);
                erig_restart(&r, true);
                assert_int_equal(erig_simple(&r, ENGINE_WARM, c, &A), ENGINE_CONV);
                assert_int_equal(A.conv.residency, ENGINE_RESIDENT);
                erig_simple(&r, ENGINE_CLOSE, c, &A);
                erig_check_empty(&r);
                erig_close(&r);
        }
}

/* Another request comes while one restores, and the other way round. */
static void test_beside(void **state) {
        struct engine_options o = options();
        struct engine_request q[2];
        struct erig r;
        uint64_t c, d;

        answers();
        for (int i = 0; i < ERIG_ROUNDS(8, 2); i++) {
                o.batch_tokens = i % 2 ? 16 : 256;
                erig_open(&r, &o);
                c = evicted(&r);
                d = erig_new(&r, NULL, NULL);
                q[0] = request(i % 4 < 2 ? c : d, i % 4 < 2 ? more : prompt[1],
                        i % 4 < 2 ? N_MORE : N_PROMPT);
                q[1] = request(i % 4 < 2 ? d : c, i % 4 < 2 ? prompt[1] : more,
                        i % 4 < 2 ? N_PROMPT : N_MORE);
                erig_send(&r, &q[0], &A);
                erig_send(&r, &q[1], &B);
                erig_wait(&r, &A);
                erig_wait(&r, &B);
                answer_same(i % 4 < 2 ? &A : &B, &expected[1]);
                answer_same(i % 4 < 2 ? &B : &A, &other);
                erig_close(&r);
        }
}

/* Forked, cancelled, closed and killed in the middle. */
static void test_interrupted(void **state) {
        struct engine_options o = options();
        struct engine_request q, fork = erig_request(ENGINE_FORK, 0);
        struct erig r;
        uint64_t c;

        answers();
        for (int i = 0; i < ERIG_ROUNDS(12, 4); i++) {
                erig_open(&r, &o);
                c = evicted(&r);
                q = request(c, more, N_MORE);
                erig_send(&r, &q, &A);
                if (i % 3 == 0) {
                        engine_cancel(r.en, q.handle);
                } else if (i % 3 == 1) {
                        fork.conv_id = c;
                        assert_int_equal(erig_do(&r, &fork, &B), ENGINE_CONV);
                        fork.conv_id = B.conv.id;
                        say(&r, fork.conv_id, more, N_MORE, &B);
                        answer_same(&B, &expected[1]);
                } else {
                        erig_restart(&r, i % 2);
                        assert_int_equal(erig_simple(&r, ENGINE_GET, c, &B), ENGINE_CONV);
                        A.final = true;
                        if (B.conv.n_turns == 2)
                                say(&r, c, more, N_MORE, &A);
                }
                erig_wait(&r, &A);
                if (A.kind == ENGINE_DONE && A.finish == ENGINE_FINISH_LENGTH)
                        answer_same(&A, &expected[1]);
                assert_int_equal(erig_simple(&r, ENGINE_WARM, c, &A), ENGINE_CONV);
                erig_check_budget(&r);
                erig_close(&r);
        }
}

/* Warm brings all of it ahead of need; the pool is just large enough. */
static void test_warm(void **state) {
        struct engine_options o = options();
        struct erig r;
        uint64_t c, d;

        answers();
        erig_open(&r, &o);
        o.pool_size =
                (11 << 20) + inside_scratch_size(r.en); /* which the number of processors decides */
        erig_close(&r);
        erig_open(&r, &o);
        c = evicted(&r);
        d = erig_new(&r, NULL, NULL);
        say(&r, d, prompt[1], N_PROMPT, &A);
        assert_int_equal(erig_simple(&r, ENGINE_WARM, c, &A), ENGINE_CONV);
        assert_int_equal(A.conv.residency, ENGINE_RESIDENT);
        say(&r, c, more, N_MORE, &A);
        answer_same(&A, &expected[1]);
        assert_int_equal(A.n_disk, 0);
        assert_true(A.n_ram >= N_PROMPT);
        erig_check_budget(&r);
        erig_close(&r);
}

/* Workers that bring parts of one conversation each keep to their own processors, for so long; a worker that brings
 * all of it does not. */
static void test_parts(void **state) {
        struct engine_options o = options();
        unsigned n_kept = 0;
        struct erig r;
        uint64_t c;

        answers();
        erig_open(&r, &o);
        c = evicted(&r);
        n_keepers = n_let_go = 0;
        assert_int_equal(erig_simple(&r, ENGINE_WARM, c, &A), ENGINE_CONV);
        assert_int_equal(A.conv.residency, ENGINE_RESIDENT);
        c = erig_new(&r, NULL, NULL);
        say(&r, c, prompt[1], 40, &A);
        erig_simple(&r, ENGINE_EVICT, c, &A);
        assert_int_equal(erig_simple(&r, ENGINE_WARM, c, &A), ENGINE_CONV);
        assert_int_equal(erig_stat(&r, "restores"), 2);
        erig_close(&r);
        assert_true(n_keepers >= 2 && n_keepers <= 4); /* of the first restore alone */
        for (unsigned i = 0; i < n_keepers; i++) {
                n_kept += keepers[i].kept;
                assert_true(keepers[i].k < keepers[i].n && keepers[i].n == keepers[0].n);
                for (unsigned j = 0; j < i; j++)
                        assert_int_equal(pthread_equal(keepers[i].thread, keepers[j].thread) != 0,
                                keepers[i].k == keepers[j].k);
        }
        assert_int_equal(n_let_go, n_kept);
}

/* Nothing of the memory is of use to this engine, so Warm computes it, in several batches: silently, while a Continue
 * tells how far it is. */
static void test_warm_by_computing(void **state) {
        struct engine_options o = options();
        struct engine_request q;
        struct erig r;
        uint64_t c;

        o.batch_tokens = 100;
        erig_open(&r, &o);
        c = evicted(&r);
        r.o.kv_type = ENGINE_KV_F16;
        erig_restart(&r, true);
        assert_int_equal(erig_simple(&r, ENGINE_GET, c, &A), ENGINE_CONV);
        assert_int_equal(A.conv.residency, ENGINE_COLD);
        slow_usec = 110000; /* a tenth of a second is between two words of progress */
        assert_int_equal(erig_simple(&r, ENGINE_WARM, c, &A), ENGINE_CONV);
        assert_int_equal(A.conv.residency, ENGINE_RESIDENT);
        assert_true(erig_stat(&r, "tokens_prefilled") >= N_PROMPT);
        assert_int_equal(A.n_progress, 0);
        q = request(erig_new(&r, NULL, NULL), prompt[1], N_PROMPT);
        assert_int_equal(erig_do(&r, &q, &B), ENGINE_DONE);
        slow_usec = 0;
        assert_true(B.n_progress > 0);
        erig_close(&r);
}

/* A disk that is slower than the model: computed again, and the records are good for later. */
static void test_slow_disk(void **state) {
        struct engine_options o = options();
        struct erig r;
        uint64_t c, written;

        answers();
        erig_open(&r, &o);
        c = evicted(&r);
        written = erig_stat(&r, "blocks_spilled");
        inside_set_slow_disk(r.en, true);
        say(&r, c, more, N_MORE, &A);
        answer_same(&A, &expected[1]);
        assert_int_equal(A.n_computed, A.n_prompt);
        assert_int_equal(erig_stat(&r, "restores_skipped"), 1);
        erig_simple(&r, ENGINE_EVICT, c, &A);
        /* What is behind the former end is new. */
        assert_true(erig_stat(&r, "blocks_spilled") - written <= 2);
        assert_int_equal(erig_stat(&r, "blocks_lost"), 0);
        inside_set_slow_disk(r.en, false);
        assert_int_equal(erig_simple(&r, ENGINE_WARM, c, &A), ENGINE_CONV);
        assert_int_equal(erig_stat(&r, "restores"), 1);
        erig_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_overlap),
                cmocka_unit_test(test_damage),
                cmocka_unit_test(test_beside),
                cmocka_unit_test(test_interrupted),
                cmocka_unit_test(test_warm),
                cmocka_unit_test(test_parts),
                cmocka_unit_test(test_warm_by_computing),
                cmocka_unit_test(test_slow_disk),
        };

        return cmocka_run_group_tests(tests, make_model, remove_model);
}
