/* SPDX-License-Identifier: MIT */
/*
 * Linear probing over a power-of-two table that is at most 3/4 full. A slot is empty iff its value
 * is NULL. Removal shifts the following entries back, so there are no tombstones and a long-lived
 * table does not decay.
 */
#include "base/map.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/util.h"
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#define MAP_FIRST_SLOTS 16

struct slot {
        uint64_t hash;
        size_t key_size;
        union {
                uint8_t bytes[8]; /* key_size <= 8 */
                uint8_t *heap;    /* else, owned */
        } key;
        void *value;
};

struct map {
        struct slot *slots; /* [n_slots] */
        size_t n_slots, n_items;
        uint64_t seed[2];
};

static const uint8_t *slot_key(const struct slot *s) {
        return s->key_size <= sizeof(s->key.bytes) ? s->key.bytes : s->key.heap;
}

static void slot_drop_key(struct slot *s) {
        if (s->key_size > sizeof(s->key.bytes))
                free(s->key.heap);
}

static int draw_seed(uint64_t seed[2]) {
        ssize_t n;

        do
                n = getrandom(seed, 2 * sizeof(seed[0]), 0);
        while (n < 0 && errno == EINTR);
        return n == 2 * sizeof(seed[0]) ? 0 : -1; /* up to 256 bytes never come short */
}

int map_new(struct map **ret, struct err *e) {
        _cleanup_(freep) struct map *m = calloc(1, sizeof(*m));

        if (!m)
                return err_set(e, ERR_NOMEM, "no memory for a map");
        if (draw_seed(m->seed) < 0)
                return err_set(e, ERR_SYS, "getrandom");
        m->slots = calloc(MAP_FIRST_SLOTS, sizeof(*m->slots));
        if (!m->slots)
                return err_set(e, ERR_NOMEM, "no memory for a map");
        m->n_slots = MAP_FIRST_SLOTS;
        *ret = TAKE_PTR(m);
        return 0;
}

struct map *map_free(struct map *m) {
        if (!m)
                return NULL;
        for (size_t i = 0; i < m->n_slots; i++)
                if (m->slots[i].value)
                        slot_drop_key(&m->slots[i]);
        free(m->slots);
        free(m);
        return NULL;
}

size_t map_count(const struct map *m) {
        return m->n_items;
}

/* The slot that holds the key, or the empty slot where it belongs. */
static struct slot *find(const struct map *m, uint64_t hash, const void *key, size_t key_size) {
        for (size_t i = hash;; i++) {
                struct slot *s = &m->slots[i & (m->n_slots - 1)];

                if (!s->value)
                        return s;
                if (s->hash == hash && s->key_size == key_size &&
                        (key_size == 0 || memcmp(slot_key(s), key, key_size) == 0))
                        return s;
        }
}

static int grow(struct map *m) {
        size_t n_slots;
        struct slot *slots;

        if (mul_overflow(m->n_slots, 2, &n_slots))
                return -ERR_NOMEM;
        slots = calloc(n_slots, sizeof(*slots));
        if (!slots)
                return -ERR_NOMEM;
        for (size_t i = 0; i < m->n_slots; i++) {
                size_t k = m->slots[i].hash;

                if (!m->slots[i].value)
                        continue;
                while (slots[k & (n_slots - 1)].value)
                        k++;
                slots[k & (n_slots - 1)] = m->slots[i];
        }
        free(m->slots);
        m->slots = slots;
        m->n_slots = n_slots;
        return 0;
}

int map_add(struct map *m, const void *key, size_t key_size, void *value, struct err *e) {
        uint64_t hash = hash64_keyed(key, key_size, m->seed);
        struct slot *s = find(m, hash, key, key_size);
        struct slot new = {.hash = hash, .key_size = key_size, .value = value};

        assert(value);
        if (s->value)
                return 1;
        if (key_size > sizeof(new.key.bytes)) {
                new.key.heap = malloc(key_size);
                if (!new.key.heap)
                        return err_set(e, ERR_NOMEM, "no memory for a map key");
                memcpy(new.key.heap, key, key_size);
        } else if (key_size)
                memcpy(new.key.bytes, key, key_size);
        if (m->n_items >= m->n_slots / 4 * 3) {
                if (grow(m) < 0) {
                        slot_drop_key(&new);
                        return err_set(e, ERR_NOMEM, "no memory for a map");
                }
                s = find(m, hash, key, key_size);
        }
        *s = new;
        m->n_items++;
        return 0;
}

void *map_get(const struct map *m, const void *key, size_t key_size) {
        return find(m, hash64_keyed(key, key_size, m->seed), key, key_size)->value;
}

void *map_remove(struct map *m, const void *key, size_t key_size) {
        size_t mask = m->n_slots - 1, hole;
        struct slot *s = find(m, hash64_keyed(key, key_size, m->seed), key, key_size);
        void *value = s->value;

        if (!value)
                return NULL;
        slot_drop_key(s);
        hole = (size_t)(s - m->slots);
        for (size_t i = (hole + 1) & mask; m->slots[i].value; i = (i + 1) & mask) {
                size_t home = m->slots[i].hash & mask;

                /* may move back iff its home is not between the hole and it */
                if (((i - home) & mask) < ((i - hole) & mask))
                        continue;
                m->slots[hole] = m->slots[i];
                hole = i;
        }
        m->slots[hole] = (struct slot){0};
        m->n_items--;
        return value;
}

void *map_next(const struct map *m, size_t *it) {
        while (*it < m->n_slots) {
                void *value = m->slots[(*it)++].value;

                if (value)
                        return value;
        }
        return NULL;
}
