/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The router's choice: which experts see a token, and with which weight.
 *
 * 1. Scores from the router's logits, for all experts: softmax, sigmoid, or the logits themselves.
 * 2. The bias of the choice is added to the scores, for choosing only.
 * 3. With groups, the scores are cut into equal runs. A group counts as much as the sum of its two
 *    greatest scores; the best groups stay.
 * 4. The n_used greatest are chosen, ties to the lower index.
 * 5. Weights are the scores of the chosen without the bias (softmax of the chosen logits; sigmoid of a
 *    logit), over max(their sum, 6.1e-5), added up in order of choice, if the rule renormalises, times
 *    the scale if it is not 1.
 */
#include <stdint.h>

#include "model/hparams.h"

struct kern;

/* @logits [x->n] are overwritten. @bias [x->n], or NULL. ret_expert and ret_weight [x->n_used], best
 * first. Depends on nothing but its arguments. */
void moe_choose(struct kern *k, const struct hparams_experts *x, float *logits, const float *bias,
        uint32_t *ret_expert, float *ret_weight);
