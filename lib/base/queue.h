/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Bounded multi-producer multi-consumer queue of pointers between threads, with an eventfd that is
 * readable while the queue holds something (for event loops) and blocking pop (for workers).
 */
#include <stdbool.h>
#include <stddef.h>

struct queue;
struct err;

int queue_new(struct queue **ret, size_t capacity, struct err *e);
struct queue *queue_free(struct queue *q); /* items left inside are the caller's to drain before */
/* 0, or 1 when full (or closed). @item must not be NULL. Any thread. */
int queue_push(struct queue *q, void *item);
/* The oldest item, or NULL when empty. Any thread. */
void *queue_pop(struct queue *q);
/* Wait for an item; NULL once the queue is closed and empty. Any thread. */
void *queue_pop_wait(struct queue *q);
/* As queue_pop_wait(), but NULL after @timeout_usec as well. */
void *queue_pop_timed(struct queue *q, unsigned long timeout_usec);
/* No more pushes; wakes the waiters. */
void queue_close(struct queue *q);
size_t queue_count(struct queue *q);
/* The eventfd (owned by the queue): poll for POLLIN. Level-triggered: readable iff not empty. */
int queue_fd(struct queue *q);
