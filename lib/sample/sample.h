/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Floats in, token out. Order of steps: mask, logit bias, penalties, (greedy if temperature is 0),
 * top-k, temperature, top-p, min-p, draw. The random number for a position is a function of (seed,
 * position) alone (counter-based: Philox4x32-10, Salmon et al. 2011), so that generation is
 * reproducible across restarts and batches. Ties: the lower token id first. All arithmetic in
 * double through base/dmath.h, in a fixed order. No state; any thread.
 */
#include <stddef.h>
#include <stdint.h>

struct err;

struct sample_bias {
        int32_t token;
        float bias; /* -INFINITY forbids */
};

struct sample_params {
        float temperature;        /* >= 0; 0: greedy */
        uint32_t top_k;           /* 0: off */
        float top_p;              /* (0, 1]; 1: off */
        float min_p;              /* [0, 1); 0: off */
        float repetition_penalty; /* > 0; 1: off. logit > 0 divided, else multiplied */
        float presence_penalty, frequency_penalty; /* 0: off */
        uint32_t penalty_last_n; /* how many recent tokens the three penalties consider */
        uint64_t seed;
        size_t n_biases;
        const struct sample_bias *biases; /* borrowed */
        /* NULL, or one bit for each token (bit t % 64 of word t / 64): tokens without it are
         * forbidden, exactly as if their logits were -inf from the start. At least one bit is
         * set. Borrowed. */
        const uint64_t *mask;
};
#define SAMPLE_PARAMS_DEFAULT                                                                      \
        ((struct sample_params){.temperature = 0.8f,                                               \
                .top_k = 40,                                                                       \
                .top_p = 0.95f,                                                                    \
                .min_p = 0.05f,                                                                    \
                .repetition_penalty = 1.0f,                                                        \
                .penalty_last_n = 64})

/* Ranges as documented above; names the offending field. NaN is refused. */
int sample_params_validate(const struct sample_params *p, uint32_t n_vocab, struct err *e);

/* Scratch for one caller, n_vocab entries. */
struct sample_work;
int sample_work_new(struct sample_work **ret, uint32_t n_vocab, struct err *e);
struct sample_work *sample_work_free(struct sample_work *w);

/*
 * Choose the token at @position of its conversation. @logits [n_vocab] is not changed. @recent: the
 * last tokens of the conversation, oldest first (penalties use at most penalty_last_n of them).
 * Never fails with valid parameters: if filters and biases leave no candidate, the token with the
 * greatest raw logit of those that the mask allows is chosen; NaN logits count as -inf.
 */
int32_t sample_token(struct sample_work *w, const struct sample_params *p, const float *logits,
        const int32_t *recent, size_t n_recent, uint64_t position);

struct sample_logprob {
        int32_t token;
        float logprob; /* natural logarithm, from the unmodified logits: without mask, too */
};
/* Log-probability of one token: logit - logsumexp, in double, index order, rounded to float once.
 */
float sample_logprob(const float *logits, uint32_t n_vocab, int32_t token);
/* The @top best, best first (ties: lower id), top <= n_vocab. Returns the log-probability of @token, as
 * sample_logprob() does. */
float sample_top_logprobs(struct sample_work *w, const float *logits, uint32_t n_vocab,
        int32_t token, size_t top, struct sample_logprob *out);
