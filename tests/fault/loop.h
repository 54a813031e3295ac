/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The loop in which each allocation of the code under test fails once.
 *
 *      struct fault_loop loop = {.at_least = 10, .at_most = 1000};
 *
 *      while (fault_loop_next(&loop)) {
 *              ...                                  no allocation of the preparations fails
 *              fault_loop_arm(&loop);
 *              r = the code under test;
 *              fault_loop_disarm(&loop);
 *              fault_loop_expect(&loop, r, &e);     0, or -ERR_NOMEM if an allocation failed
 *              ...                                  what holds after each run; then clean up
 *      }
 *
 * fault.c counts the allocations: from fault_loop_arm() on, those of all threads. The loop counts the runs: allocation n
 * fails in run n, and all others succeed. A run in which none failed made at most n allocations, so each of them has failed
 * in a run before: this run is the last one, and has to succeed. After the loop, n is the number of its allocations.
 *
 * The test fails in fault_loop_next()
 * - if the last run made fewer than at_least allocations. A loop that finds nothing to fail would otherwise pass without a
 *   test: the code was left early, or its allocations are not among those that fault.c wraps;
 * - if the loop has reached run at_most: the runs make more and more allocations, and it would not end;
 * - if a run was not armed, or is still armed.
 * Leave the loop by fault_loop_next() alone: `break` would skip these checks.
 */
#include <stdbool.h>

struct err;

/* For at_least: the caller compares n after the loop, which may be 0. */
#define FAULT_LOOP_CALLER_COUNTS (-1)

struct fault_loop {
        long at_least; /* 1 or more, or FAULT_LOOP_CALLER_COUNTS */
        long at_most;
        long n; /* the allocation that fails in this run; the first run's may be set by the caller */
        bool hit; /* after fault_loop_disarm(): it has failed */
        enum { FAULT_LOOP_NEW, FAULT_LOOP_BEGUN, FAULT_LOOP_ARMED, FAULT_LOOP_DISARMED } state;
};

/* Begin the next run. False after the last one. */
bool fault_loop_next(struct fault_loop *loop);
void fault_loop_arm(struct fault_loop *loop);
/* Allocations succeed again; sets @hit. */
void fault_loop_disarm(struct fault_loop *loop);
/* @r, the result of the run, is -ERR_NOMEM if an allocation failed, else 0; so is the code of @e (may be NULL). */
void fault_loop_expect(const struct fault_loop *loop, int r, const struct err *e);
