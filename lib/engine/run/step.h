/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to batch.c, which chooses what a step computes, and step.c, which computes it. */
#include "engine/run/state.h"

/* A step. */
struct step {
        struct engine *engine;
        enum { WHOLE, PROMPTS, REPLIES } part; /* which requests it is for (rule 2 of step.c) */
        struct model_work *work;
        struct model_token *batch;
        struct request **rows; /* per output row */
        size_t n, n_rows, n_drafts;
        size_t prompt_rows; /* of prompts, at most */
        struct pace_plan plan;
        struct flow *flows[ENGINE_MAX_ACTIVE]; /* those with something to compute, in order */
        size_t n_flows;
        bool class;              /* that has shares: background if there is no other */
        double share;            /* of one flow of this class */
        double background_share; /* of one background flow next to interactive ones */
        size_t n_class, n_background;
        size_t alone; /* tokens that a flow may have which is alone in its class */
        struct request *prompts[ENGINE_MAX_ACTIVE]; /* with tokens in this step */
        size_t n_prompts;
        bool given_up; /* nobody wants what it computes any more */
};

/* Whether the request is of those that the step is for. */
static inline bool step_has(const struct step *s, struct request *request) {
        if (s->part == REPLIES)
                return request->phase == PHASE_DECODE && !atomic_load(&request->cancel);
        return s->part == WHOLE || request->phase == PHASE_PREFILL;
}

/* Choose the tokens of the step, and reserve their positions; s->n is 0 if there is nothing to compute. */
void batch_build(struct step *s);
/* Put the next @n tokens of the request into the batch; there is room for them. */
void batch_put(struct step *s, struct request *request, uint32_t n);
/* The request has @n tokens in the step; they count as service of its flow. */
void batch_charge(struct request *request, uint32_t n);
/* The step was computed: flows owe what they had beyond their shares. */
void batch_settle(struct step *s);
