/* SPDX-License-Identifier: MIT */
/*
 * Nobody gets memory of what only others have said (I6). Each history that a conversation has had is kept as a struct past,
 * with its user; what a request reused may be no longer than what its user, or anybody in public, has said before.
 */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "life.h"

int32_t *life_memory_of(const struct engine_conv *c) {
        struct transcript t = {.memory = c->tokens};
        struct gap g = {c->dropped_from, c->dropped_to};
        int32_t *tokens = malloc((c->n_tokens + 1) * sizeof(*tokens));

        if (!tokens)
                exit(2);
        (void)transcript_memory(&t, c->n_tokens, &g, tokens);
        return tokens;
}

static uint32_t common(const int32_t *a, uint32_t n_a, const int32_t *b, uint32_t n_b) {
        uint32_t n = 0;

        while (n < n_a && n < n_b && a[n] == b[n])
                n++;
        return n;
}

static uint32_t longest(
        const struct past *p, uint64_t owner, const struct call *k, const int32_t *tokens) {
        uint32_t n = k->a.counts.n_prompt, most = 0;

        for (; p; p = p->next)
                if ((p->is_public || p->owner == owner) && p->call != k)
                        most = MAX(most, common(tokens, n, p->tokens, p->n));
        return most;
}

static void check_one(struct life *l, const struct call *k) {
        const struct mirror *m = &l->m[k->op->arg[ARG_CONV]];
        const struct counts *both[] = {&k->a.counts, &k->a.counts_done};
        int32_t *memory = life_memory_of(&m->c);
        uint32_t most = k->n_before;

        most = MAX(most, longest(l->past, m->owner, k, memory));
        most = MAX(most, longest(l->published, m->owner, k, memory));
        free(memory);
        for (size_t i = 0; i < ARRAY_SIZE(both); i++) {
                const struct counts *c = both[i];

                if (MAX(c->n_ram + c->n_disk + c->n_shared, c->differs_at) > most)
                        life_fail(l, "foreign",
                                "%u tokens from RAM, %u from disk and %u shared were reused, and "
                                "it differs at %u, but its user has said only %u of them before",
                                c->n_ram, c->n_disk, c->n_shared, c->differs_at, most);
        }
}

void past_add(struct past **list, const struct mirror *m, uint32_t n, bool is_public,
        const struct call *k) {
        struct past *past = malloc(sizeof(*past) + n * sizeof(past->tokens[0]));
        int32_t *memory = life_memory_of(&m->c);

        if (!past)
                exit(2);
        *past = (struct past){
                .next = *list, .owner = m->owner, .n = n, .is_public = is_public, .call = k};
        if (n > 0)
                memcpy(past->tokens, memory, n * sizeof(past->tokens[0]));
        free(memory);
        *list = past;
}

struct past *past_free(struct past *p) {
        while (p) {
                struct past *next = p->next;

                free(p);
                p = next;
        }
        return NULL;
}

static void note_published(struct life *l) {
        for (size_t i = 0; i < N_SLOTS; i++)
                if (l->m[i].id && l->m[i].c.n_published > 0)
                        past_add(&l->published, &l->m[i], l->m[i].c.n_published, true, NULL);
}

void life_begin_group(struct life *l) {
        for (struct past *p = l->past; p; p = p->next)
                p->call = NULL;
        l->published = past_free(l->published);
        note_published(l);
}

void life_check_sharing(struct life *l) {
        bool killed[N_UIDS] = {false};

        /* What was cancelled is in no history, but may still serve its user; what was killed could
         * until then. */
        for (size_t i = 0; i < l->n_calls; i++) {
                const struct call *k = &l->calls[i];

                bool unanswered = k->a.kind == ENGINE_DONE && k->a.n_tokens == 0 &&
                                  k->a.finish == ENGINE_FINISH_CANCELLED;

                if (!op_generates(k->op->kind) || (k->a.kind == ENGINE_DONE && !unanswered))
                        continue;
                if (unanswered || (k->a.final && k->a.err.code == ERR_CANCELLED))
                        l->aborted[life_owner_index(k->q.owner)] = true;
                killed[life_owner_index(k->q.owner)] = true;
        }
        note_published(l);
        for (size_t i = 0; i < l->n_calls; i++) {
                const struct call *k = &l->calls[i];

                if (!op_generates(k->op->kind) || k->a.kind != ENGINE_DONE ||
                        l->aborted[life_owner_index(k->q.owner)] ||
                        killed[life_owner_index(k->q.owner)])
                        continue;
                l->at = k->index;
                check_one(l, k);
        }
}
