/* SPDX-License-Identifier: MIT */
#pragma once
/* The turns of a conversation for an answer, with results of tools and parts of replies. */
#include "engine/verbs/verbs.h"

/* Owned, and charged to the request. */
struct turns_answer {
        struct engine_turn *turns; /* [n] */
        uint32_t n;
        size_t charged; /* bytes of everything but the texts, which the reading has paid for */
};
/* Fill @ret from request.reading, whose texts move to @ret. In a job. -ERR_NOMEM, -ERR_LIMIT,
 * -ERR_TOO_LARGE; @ret is to be deinitialised even then. */
int turns_answer_make(
        struct engine *engine, struct request *request, struct turns_answer *ret, struct err *e);
void turns_answer_deinit(struct turns_answer *t);
