/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Hash map from byte strings (or uint64) to pointers. Open addressing, hashed with a seed drawn per
 * map, so that peers cannot choose collisions. Keys are copied. One owner; not shared between
 * threads.
 */
#include <stddef.h>
#include <stdint.h>

struct map;
struct err;

int map_new(struct map **ret, struct err *e);
struct map *map_free(struct map *m); /* values are the caller's */
size_t map_count(const struct map *m);
/* 0, or 1 if the key is already there (unchanged), or -ERR_NOMEM. @value must not be NULL. */
int map_add(struct map *m, const void *key, size_t key_size, void *value, struct err *e);
/* The value, or NULL. */
void *map_get(const struct map *m, const void *key, size_t key_size);
/* Remove and return the value, or NULL. */
void *map_remove(struct map *m, const void *key, size_t key_size);
/* Iterate in unspecified order: *it starts at 0; returns the next value or NULL at the end. The map
 * must not change during the iteration. */
void *map_next(const struct map *m, size_t *it);

static inline int map_add_u64(struct map *m, uint64_t key, void *value, struct err *e) {
        return map_add(m, &key, sizeof(key), value, e);
}
static inline void *map_get_u64(const struct map *m, uint64_t key) {
        return map_get(m, &key, sizeof(key));
}
static inline void *map_remove_u64(struct map *m, uint64_t key) {
        return map_remove(m, &key, sizeof(key));
}
