/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What the tests of a Continue from an earlier place share: a conversation, and requests. And the gate before each step of
 * the engine, for whoever wants the engine at a certain step.
 */
#include "util/gate.h"
#include "rig.h"

/* Before each step. To be linked with --wrap=model_forward. */
extern struct gate edit_step_gate;

/* System, and two messages with their replies: five turns. */
uint64_t edit_talk(struct erig *r);
/* The same in an engine that is opened for it. */
uint64_t edit_open(struct erig *r, const struct engine_options *o);
/* From a turn on; without text without input. */
struct engine_request edit_request(
        uint64_t conv, uint32_t at_turn, const char *text, uint32_t max_tokens);
/* A reply to what was said last. */
struct engine_request edit_answer(uint64_t conv, uint32_t max_tokens);
/* Send it, and let it come through @n_steps steps of the engine; the next one waits. */
void edit_send_and_hold(
        struct erig *r, struct engine_request *q, unsigned n_steps, struct answer *a);
/* The engine stands before a step: let it take one after another until @a has @n_tokens tokens, and stand again.
 * So it is where the test wants it, however long the test's thread did not run. */
void edit_walk(struct erig *r, const struct answer *a, size_t n_tokens);
/* The same, until @other is final. */
void edit_walk_meanwhile(struct erig *r, const struct answer *a, const struct answer *other);
/* The same, until @a is accepted, in a few steps of a long prompt: the thread that commits has its time. */
void edit_walk_accepted(struct erig *r, const struct answer *a);
/* erig_get() meanwhile. */
void edit_walk_get(struct erig *r, const struct answer *a, uint64_t conv, struct answer *got);
/* Of @n tokens or more; good until the next call. */
const char *edit_words(size_t n);

/* It was cancelled after it was accepted, and has chosen no token: the message is there. */
void edit_check_unanswered(struct erig *r, uint64_t conv, const struct answer *a);
/* Same history, revision and publication. */
void edit_check_same(const struct answer *is, const struct answer *was);
/* The conversation is as @was, in the register as well. */
void edit_check_as_before(struct erig *r, uint64_t conv, const struct answer *was);
