/* SPDX-License-Identifier: MIT */
#include "spill/pages.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"

static bool get(const struct spill_pages *p, const uint64_t *bits, size_t i) {
        return i < p->capacity && bits[i / 64] >> (i % 64) & 1;
}

static void set(uint64_t *bits, size_t i, bool v) {
        bits[i / 64] = (bits[i / 64] & ~((uint64_t)1 << (i % 64))) | (uint64_t)v << (i % 64);
}

void spill_pages_deinit(struct spill_pages *p) {
        free(p->live);
        free(p->first);
        *p = (struct spill_pages){0};
}

int spill_pages_grow(struct spill_pages *p, size_t n, struct err *e) {
        size_t capacity = align_up(MAX(n, p->capacity + p->capacity / 2), 64);
        size_t old_size = p->capacity / 8, size = capacity / 8;
        uint64_t *bits;

        if (n <= p->capacity)
                return 0;
        /* Should the second fail, the first is merely larger than it need be. */
        bits = realloc(p->live, size);
        if (!bits)
                return err_set(e, ERR_NOMEM, "no memory for the map of %zu pages", n);
        p->live = bits;
        bits = realloc(p->first, size);
        if (!bits)
                return err_set(e, ERR_NOMEM, "no memory for the map of %zu pages", n);
        p->first = bits;
        memset((char *)p->live + old_size, 0, size - old_size);
        memset((char *)p->first + old_size, 0, size - old_size);
        p->capacity = capacity;
        return 0;
}

bool spill_pages_is_record(const struct spill_pages *p, size_t first, size_t n) {
        if (n == 0 || first >= p->capacity || n > p->capacity - first || !get(p, p->first, first))
                return false;
        for (size_t i = first + 1; i < first + n; i++)
                if (!get(p, p->live, i) || get(p, p->first, i))
                        return false;
        return !get(p, p->live, first + n) || get(p, p->first, first + n);
}

bool spill_pages_is_dead(const struct spill_pages *p, size_t first, size_t n) {
        for (size_t i = first; i < p->capacity && i - first < n; i++)
                if (get(p, p->live, i))
                        return false;
        return true;
}

void spill_pages_add(struct spill_pages *p, size_t first, size_t n) {
        for (size_t i = first; i < first + n; i++)
                set(p->live, i, true);
        set(p->first, first, true);
}

void spill_pages_remove(struct spill_pages *p, size_t first, size_t n) {
        for (size_t i = first; i < first + n; i++)
                set(p->live, i, false);
        set(p->first, first, false);
}

bool spill_pages_next_gap(const struct spill_pages *p, size_t *at, size_t end, size_t *ret_n) {
        size_t i = *at, n = 0;

        while (i < end && get(p, p->live, i))
                i++;
        while (i + n < end && !get(p, p->live, i + n))
                n++;
        if (n == 0)
                return false;
        *at = i;
        *ret_n = n;
        return true;
}
