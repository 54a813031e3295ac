/* SPDX-License-Identifier: MIT */
/*
 * Restoring as a pipeline (test-restore.c) on models with several classes of memory, whose blocks and
 * states have several sections each: a request computes its first layers while the memory of the later
 * ones arrives, of blocks, windows and states at once. The bits are those of memory that never left RAM.
 */
#include <string.h>
#include <unistd.h>

#include "quant/quant.h"
#include "rig.h"
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

static void make_tokens(void) {
        for (int i = 0; i < N_PROMPT; i++)
                prompt[i] = 8 + (i * 7 + i / 5) % N_VOCAB;
        for (int i = 0; i < N_MORE; i++)
                more[i] = 8 + (i * 13) % N_VOCAB;
}

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
        /* Two sections at least, of both classes. */
        assert_true(erig_stat(&r, "block_bytes") >= 256 << 10);
        assert_true(erig_stat(&r, second) >= 256 << 10);
        c = erig_new(&r, NULL, NULL);
        say(&r, c, prompt, N_PROMPT, &expected[0]);
        say(&r, c, more, N_MORE, &expected[1]);
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
        overlap("gemma3", 16, "window_block_bytes");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_hybrid),
                cmocka_unit_test(test_window),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
