/* SPDX-License-Identifier: MIT */
/*
 * What choosing a token costs: bench-sample [N_VOCAB]
 *
 * Logits are made three ways. "text": few stand out, as a trained model has them; "noise": a normal
 * distribution, as of random weights; "equal": all the same, the worst. Medians of one thread's time.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/err.h"
#include "sample/sample.h"

#define ROUNDS 61
#define N_RECENT 64

static double cpu_seconds(void) {
        struct timespec t;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double uniform(uint64_t *x) {
        *x = *x * 6364136223846793005 + 1442695040888963407;
        return ((double)(*x >> 11) + 0.5) * 0x1p-53;
}

static void make_logits(float *logits, uint32_t n, int kind, uint64_t *x) {
        for (uint32_t i = 0; i < n; i++) {
                double normal = sqrt(-2 * log(uniform(x))) * cos(6.283185307179586 * uniform(x));

                logits[i] = kind == 2 ? 0.5f : (float)(kind == 1 ? normal : 2 * normal - 4);
        }
        for (int i = 0; kind == 0 && i < 200; i++) /* the words that fit, by rank */
                logits[(uint32_t)(uniform(x) * n)] = (float)(14 - 2.2 * log(i + 1));
}

static int compare(const void *a, const void *b) {
        double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

struct kind {
        const char *name;
        struct sample_params p;
        size_t top; /* log-probabilities */
        bool logprob;
};

static double measure(
        struct sample_work *w, const struct kind *k, float *logits, uint32_t n, int made) {
        static struct sample_logprob best[64];
        int32_t recent[N_RECENT];
        double t[ROUNDS];
        uint64_t x = 7;

        for (int i = 0; i < ROUNDS; i++) {
                make_logits(logits, n, made, &x);
                for (int r = 0; r < N_RECENT; r++)
                        recent[r] = (int32_t)(uniform(&x) * n);
                t[i] = cpu_seconds();
                if (k->top)
                        sample_top_logprobs(w, logits, n, recent[0], k->top, best);
                else if (k->logprob)
                        best[0].logprob = sample_logprob(logits, n, recent[0]);
                else
                        best[0].token =
                                sample_token(w, &k->p, logits, recent, N_RECENT, (uint64_t)i);
                t[i] = cpu_seconds() - t[i];
        }
        qsort(t, ROUNDS, sizeof(t[0]), compare);
        return t[ROUNDS / 2];
}

int main(int argc, char **argv) {
        uint32_t n = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 128256;
        float *logits = n > 100 ? calloc(n, sizeof(*logits)) : NULL;
        struct kind kinds[] = {
                {"greedy", {.temperature = 0, .top_p = 1, .repetition_penalty = 1}, 0, false},
                {"default: k 40, p 0.95, min-p 0.05", SAMPLE_PARAMS_DEFAULT, 0, false},
                {"default, penalties", SAMPLE_PARAMS_DEFAULT, 0, false},
                {"top-p 0.95 alone", {.temperature = 1, .top_p = 0.95f, .repetition_penalty = 1}, 0,
                        false},
                {"min-p 0.05 alone",
                        {.temperature = 1, .top_p = 1, .min_p = 0.05f, .repetition_penalty = 1}, 0,
                        false},
                {"no filter", {.temperature = 1, .top_p = 1, .repetition_penalty = 1}, 0, false},
                {"log-probability", SAMPLE_PARAMS_DEFAULT, 0, true},
                {"20 log-probabilities", SAMPLE_PARAMS_DEFAULT, 20, false},
        };
        struct sample_work *w;
        struct err e;

        kinds[2].p.repetition_penalty = 1.1f;
        kinds[2].p.presence_penalty = 0.2f;
        if (!logits || sample_work_new(&w, n, &e) < 0) {
                fprintf(stderr, "bench-sample: [N_VOCAB], above 100\n");
                return 1;
        }
        printf("%u tokens: milliseconds%*stext    noise    equal\n", n, 15, "");
        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
                printf("%-36s", kinds[i].name);
                for (int made = 0; made < 3; made++)
                        printf(" %8.3f", measure(w, &kinds[i], logits, n, made) * 1e3);
                printf("\n");
        }
        sample_work_free(w);
        free(logits);
        return 0;
}
