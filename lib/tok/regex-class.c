/* SPDX-License-Identifier: MIT */
/*
 * Characters to classes. Between two borders (of the Unicode table and of the ranges in the rules)
 * all characters have the same properties and lie in the same ranges, so they are in one class.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/util.h"
#include "tok/regex.h"

#define MAX_CLASSES 255
#define MAX_CHAR 0x10ffffu

static bool set_has(const struct regex_compiler *c, const struct regex_set *set, uint32_t cp,
        uint8_t properties) {
        bool in = set->categories >> (properties & REGEX_CATEGORY) & 1 ||
                  set->properties & properties || (set->not_space && !(properties & REGEX_SPACE));

        for (uint32_t i = 0; !in && i < set->n_ranges; i++) {
                const struct regex_range *r = &c->ranges[set->first_range + i];

                in = cp >= r->from && cp <= r->to;
        }
        return in != set->negated;
}

/* The class of the characters that are in these sets. */
static int class_of(struct regex_classes *k, struct regex_compiler *c, uint64_t members) {
        for (unsigned i = 0; i < k->n; i++)
                if (c->members[i] == members)
                        return (int)i;
        if (k->n == MAX_CLASSES)
                return -1;
        c->members[k->n] = members;
        return (int)k->n++;
}

static int compare_borders(const void *a, const void *b) {
        uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

        return x < y ? -1 : x > y;
}

/* Pages of one class are shared. */
static int store_pages(struct regex_classes *k, const uint8_t *all, struct err *e) {
        int uniform[MAX_CLASSES];
        size_t n = 0, n_pages = ARRAY_SIZE(k->page);

        memset(uniform, -1, sizeof(uniform));
        k->pages = malloc(n_pages * 256);
        if (!k->pages)
                return err_set(e, ERR_NOMEM, "out of memory for a pre-tokenizer");
        for (size_t i = 0; i < n_pages; i++) {
                const uint8_t *page = all + i * 256;
                bool same = memcmp(page, page + 1, 255) == 0;

                if (same && uniform[page[0]] >= 0) {
                        k->page[i] = (uint16_t)uniform[page[0]];
                        continue;
                }
                if (same)
                        uniform[page[0]] = (int)n;
                memcpy(k->pages + n * 256, page, 256);
                k->page[i] = (uint16_t)n++;
        }
        return 0;
}

static int fill_classes(struct regex_classes *k, struct regex_compiler *c, const uint32_t *borders,
        size_t n_borders, uint8_t *all, struct err *e) {
        size_t at = 0;

        for (size_t i = 0; i < n_borders; i++) {
                uint32_t from = borders[i], to = i + 1 < n_borders ? borders[i + 1] : MAX_CHAR + 1;
                uint64_t members = 0;
                int class;

                while (at + 1 < tok_unicode_size && tok_unicode[at + 1] >> 8 <= from)
                        at++;
                for (size_t s = 0; from < to && s < c->n_sets; s++)
                        if (set_has(c, &c->sets[s], from, (uint8_t)tok_unicode[at]))
                                members |= (uint64_t)1 << s;
                if (from >= to)
                        continue;
                class = class_of(k, c, members);
                if (class < 0)
                        return err_set(e, ERR_UNSUPPORTED,
                                "a pre-tokenizer's rules have too many classes");
                memset(all + from, class, to - from);
        }
        return 0;
}

int regex_classes_build(struct regex_classes *k, struct regex_compiler *c, struct err *e) {
        _cleanup_(freep) uint32_t *borders =
                malloc((tok_unicode_size + 2 * c->n_ranges) * sizeof(*borders));
        _cleanup_(freep) uint8_t *all = malloc(MAX_CHAR + 1);
        size_t n = 0;
        int r;

        if (!borders || !all)
                return err_set(e, ERR_NOMEM, "out of memory for a pre-tokenizer");
        for (size_t i = 0; i < tok_unicode_size; i++)
                borders[n++] = tok_unicode[i] >> 8;
        for (size_t i = 0; i < c->n_ranges; i++) {
                borders[n++] = c->ranges[i].from;
                borders[n++] = c->ranges[i].to + 1;
        }
        qsort(borders, n, sizeof(*borders), compare_borders);
        r = fill_classes(k, c, borders, n, all, e);
        if (r < 0)
                return r;
        memcpy(k->ascii, all, sizeof(k->ascii));
        return store_pages(k, all, e);
}
