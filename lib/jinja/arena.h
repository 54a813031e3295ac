/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Memory that is given back as a whole: of a parsed template, of data, of one rendering.
 *
 * 1. The chunks together never take more than @max bytes, and each is charged before it is
 *    allocated.
 * 2. Errors are sticky: once an allocation failed, @error is a negative code, all further ones fail,
 *    and @e has the sentence.
 */
#include <stdbool.h>
#include <stddef.h>

struct arena_chunk;
struct charge;
struct err;

struct arena {
        struct arena_chunk *chunks;
        size_t size, max; /* bytes of all chunks; what they may be */
        struct charge *charge;
        const char *what; /* for messages: "a template" */
        int error;
        struct err *e; /* of the call that works with the arena, or NULL */
};
#define ARENA_NULL ((struct arena){0})

/* @n bytes, zeroed, aligned for any object; NULL if that fails. */
void *arena_alloc(struct arena *a, size_t n);
/* @n_items objects of @size bytes. */
void *arena_array(struct arena *a, size_t n_items, size_t size);
/* A larger block with the @old bytes of @p (NULL if @old is 0) in front; what is behind them is
 * undefined. @p may stay valid or not. */
void *arena_grow(struct arena *a, void *p, size_t old, size_t n);
void arena_deinit(struct arena *a);
