/* SPDX-License-Identifier: MIT */
/*
 * An index of n-grams.
 *
 * Places are counted from the first token that ever came. Place p is at slot p % capacity of two rings:
 * its token, and the place before it where the DRAFT_LEAST tokens that end there have the same hash. The
 * heads have the latest place of each hash. So looking something up is a walk from place to place, from
 * the latest to the oldest.
 *
 * 1. A place that was overwritten is known by its number: it is smaller than `end - capacity`. A walk ends
 *    at the first such place, since all behind it are older.
 * 2. BORDER stands between two texts. No n-gram has it, so no match reaches over it, and no draft.
 * 3. A walk looks at MAX_PLACES places, and compares at most DRAFT_MOST tokens at each. So nobody's text
 *    makes it slow, whatever its hashes are; equal hashes of other tokens are found out by comparing.
 * 4. If the text ends within the draft, the draft goes on with itself: what repeats with a period shorter
 *    than the draft goes on repeating.
 */
#include <stdlib.h>

#include "base/err.h"
#include "base/util.h"
#include "draft/draft.h"

#define BORDER (-1)
#define NOWHERE UINT32_MAX
#define MAX_PLACES 64
#define LEAST_CAPACITY 256u

struct draft {
        uint32_t capacity, shift; /* a power of two; 32 - log2(capacity) */
        uint32_t end;             /* the place behind the last token */
        uint32_t n_open;          /* tokens of the open text, as far as they matter */
        int32_t *tokens;          /* [capacity] */
        uint32_t *before;         /* [capacity] */
        uint32_t *heads;          /* [capacity] */
};

static uint32_t capacity_for(size_t n_tokens) {
        uint32_t capacity = LEAST_CAPACITY;

        while (capacity < n_tokens && capacity < DRAFT_CAPACITY)
                capacity *= 2;
        return capacity;
}

size_t draft_size(size_t n_tokens) {
        return sizeof(struct draft) +
               (size_t)capacity_for(n_tokens) * (sizeof(int32_t) + 2 * sizeof(uint32_t));
}

int draft_new(struct draft **ret, size_t n_tokens, struct err *e) {
        uint32_t capacity = capacity_for(n_tokens);
        struct draft *d = malloc(draft_size(n_tokens));

        if (!d)
                return err_set(e, ERR_NOMEM, "no memory for drafts");
        *d = (struct draft){.capacity = capacity, .shift = 32 - (uint32_t)__builtin_ctz(capacity)};
        d->tokens = (int32_t *)(d + 1);
        d->before = (uint32_t *)(d->tokens + capacity);
        d->heads = d->before + capacity;
        for (uint32_t i = 0; i < capacity; i++)
                d->heads[i] = NOWHERE;
        *ret = d;
        return 0;
}

struct draft *draft_free(struct draft *d) {
        free(d);
        return NULL;
}

static int32_t token_at(const struct draft *d, uint32_t place) {
        return d->tokens[place & (d->capacity - 1)];
}

/* The head of the n-gram whose last token is at @place. */
static uint32_t *head_of(const struct draft *d, uint32_t place) {
        uint32_t hash = 0;

        for (uint32_t i = 0; i < DRAFT_LEAST; i++)
                hash = (hash ^ (uint32_t)token_at(d, place - i)) * 0x9e3779b1u;
        return &d->heads[(hash ^ hash >> 15) * 0x85ebca6bu >> d->shift];
}

static void put(struct draft *d, int32_t token) {
        d->tokens[d->end & (d->capacity - 1)] = token;
        d->before[d->end & (d->capacity - 1)] = NOWHERE;
        d->end++;
}

void draft_append(struct draft *d, const int32_t *tokens, size_t n) {
        for (size_t i = 0; i < n; i++) {
                uint32_t place = d->end, *head;

                put(d, tokens[i]);
                d->n_open = MIN(d->n_open + 1, (uint32_t)DRAFT_MOST);
                if (d->n_open < DRAFT_LEAST)
                        continue;
                head = head_of(d, place);
                d->before[place & (d->capacity - 1)] = *head;
                *head = place;
        }
}

void draft_end_text(struct draft *d) {
        if (d->n_open > 0)
                put(d, BORDER);
        d->n_open = 0;
}

/* Whether @place still has its token. */
static bool is_there(const struct draft *d, uint32_t place) {
        return place < d->end && d->end - place <= d->capacity;
}

/* How many tokens up to @place are those at the end of the open text. */
static size_t match_at(const struct draft *d, uint32_t place) {
        uint32_t last = d->end - 1, n = 0;

        while (n < d->n_open && n <= place && is_there(d, place - n) &&
                token_at(d, place - n) == token_at(d, last - n))
                n++;
        return n;
}

size_t draft_find(const struct draft *d, size_t most, int32_t *out, size_t *ret_match) {
        uint32_t last = d->end - 1, place, best = NOWHERE, period;
        size_t match = DRAFT_LEAST - 1, n = 0;

        if (d->n_open < DRAFT_LEAST)
                return 0;
        place = d->before[last & (d->capacity - 1)];
        for (unsigned i = 0; i < MAX_PLACES && match < DRAFT_MOST && is_there(d, place); i++) {
                size_t here = match_at(d, place);

                if (here > match && token_at(d, place + 1) != BORDER) {
                        match = here;
                        best = place;
                }
                place = d->before[place & (d->capacity - 1)];
        }
        if (best == NOWHERE)
                return 0;
        *ret_match = match;
        period = last - best;
        for (; n < most; n++) {
                int32_t token = n < period ? token_at(d, best + 1 + (uint32_t)n) : out[n - period];

                if (token == BORDER)
                        break;
                out[n] = token;
        }
        return n;
}
