/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * I2: the logits of a position are a function of the model and the tokens before it. The logits of 75
 * tokens, computed one by one by one thread in generic C, are compared with memcmp with those of the
 * same tokens in chunks, with other sequences in the batch, by other threads and instruction sets,
 * after forks and cuts, with memory that was released or arrives late.
 */

struct rig;

enum exact_depth {
        EXACT_SHORT, /* company, in chunks that grow; threads and instruction sets */
        EXACT_FULL,
};
/* @r is opened; rig_use() is called here. A difference fails the test. */
void exact_check(struct rig *r, enum exact_depth depth);
