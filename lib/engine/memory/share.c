/* SPDX-License-Identifier: MIT */
/*
 * Sharing: using the memory that other conversations have of the same tokens.
 *
 * In RAM the prefix index of lib/seq knows which block is the memory of which prefix, per scope: a
 * user's (owner) and the public one. On disk the register knows it (store_prefix_find). Both compare
 * tokens, never only hashes.
 *
 * 1. Users share only memory that an administrator published (I6). A conversation searches its own
 *    user's scope and the public one, and enters its blocks into its user's scope. The first
 *    n_published tokens of a published conversation are entered into the public scope too. Memory
 *    that a user computes behind a public prefix belongs to that user.
 * 2. Private memory (imported, not audited) is neither entered nor offered, and such a conversation
 *    takes no memory from others. Only its forks share the memory, through the fork itself.
 * 3. Only committed, verified blocks are entered: after a step of computing, and after a whole
 *    restore (I5).
 * 4. Equal blocks that were computed at the same time become one when they are entered. A request
 *    does not compute a block that another one computes in the same step: it waits for it.
 * 5. Without memory or room in the index nothing is entered, and nothing else breaks.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/memory/state.h"

bool share_allowed(const struct conv *c) {
        return !c->private_memory && !c->foreign_vocab;
}

size_t share_find(struct engine *engine, const struct conv *c, size_t n, struct seq_step *out) {
        struct seq_index *index = engine->memory->index;
        size_t own, all, own_whole, all_whole;

        if (!share_allowed(c) || n == 0)
                return 0;
        own = seq_index_match(index, c->owner, c->tokens, n, out);
        own_whole = seq_steps_whole(engine->pool, c->seq, out, own);
        if (own_whole == n)
                return own;
        all = seq_index_match(index, SEQ_SCOPE_PUBLIC, c->tokens, n, out);
        all_whole = seq_steps_whole(engine->pool, c->seq, out, all);
        /* What can be used counts, then what is known. */
        if (all_whole > own_whole || (all_whole == own_whole && all > own))
                return all;
        return seq_index_match(index, c->owner, c->tokens, n, out);
}

void share_enter(struct engine *engine, struct conv *c, size_t from) {
        size_t n = seq_n_tokens(c->seq) / engine->info.block_tokens;

        from = MIN(from, c->n_entered);
        if (!share_allowed(c) || from >= n || seq_n_missing(c->seq) > 0)
                return;
        /* Blocks that are refused now are tried again only after an eviction and a restore. */
        (void)seq_index_enter(engine->memory->index, c->owner, c->seq, c->tokens, from, NULL);
        c->n_entered = n;
        if (c->n_published > 0)
                share_publish(engine, c);
}

void share_publish(struct engine *engine, struct conv *c) {
        size_t n = MIN(c->n_published, seq_n_tokens(c->seq)) / engine->info.block_tokens;

        if (share_allowed(c) && n > 0)
                (void)seq_index_enter_range(
                        engine->memory->index, SEQ_SCOPE_PUBLIC, c->seq, c->tokens, 0, n, NULL);
}

void share_unpublish(struct engine *engine) {
        struct conv *other;
        size_t it = 0;

        /* Entries of different publications cannot be told apart: enter all anew. */
        seq_index_forget(engine->memory->index, SEQ_SCOPE_PUBLIC);
        while ((other = convs_next(engine, &it)))
                if (other->n_published > 0)
                        share_publish(engine, other);
}

/* --- at the beginning of a request --- */

/* The last token is computed in any case. */
size_t share_limit(const struct engine *engine, const struct recall *recall) {
        uint32_t n = recall->conv->n_all;

        return (n - (recall->wants_logits && n > 0)) / engine->info.block_tokens;
}

uint32_t share_adopt(struct engine *engine, struct recall *recall) {
        struct conv *c = recall->conv;
        uint32_t bt = engine->info.block_tokens, had = seq_n_tokens(c->seq);
        size_t limit = share_limit(engine, recall), first = had / bt, n;
        struct seq_step *steps;
        int r = -ERR_NOT_FOUND;

        if (!share_allowed(c) || limit * bt <= had || seq_n_missing(c->seq) > 0)
                return 0;
        steps = calloc(limit, sizeof(*steps));
        if (!steps)
                return 0;
        n = share_find(engine, c, limit, steps);
        n = seq_steps_whole(engine->pool, c->seq, steps, n);
        if (n * bt > had) {
                seq_unreserve(c->seq);
                r = seq_adopt(c->seq, steps, n, NULL);
        }
        free(steps);
        if (r < 0)
                return 0;
        c->n_entered = MIN(c->n_entered, first);
        for (size_t i = first; i < n && i < recall->n_blocks; i++)
                recall->sources[i] = SOURCE_SHARED;
        if (engine->info.shape.size[SEQ_STATE])
                recall->state_source = SOURCE_SHARED;
        c->n_known = MAX(c->n_known, seq_n_tokens(c->seq));
        share_enter(engine, c, first); /* public blocks are now the user's, too */
        return seq_n_tokens(c->seq) - (uint32_t)first * bt;
}

bool share_worth_search(const struct engine *engine, const struct recall *recall) {
        const struct conv *c = recall->conv;
        size_t limit = share_limit(engine, recall),
               have = seq_n_tokens(c->seq) / engine->info.block_tokens;

        if (!share_allowed(c) || c->no_disk_share || recall->again || recall->no_search)
                return false;
        /* A turn usually continues with new text: search only for more than one block. */
        return limit > have + (have > 0);
}

/* --- why the memory ends --- */

/* Tokens of the prompt whose memory existed at some time in this conversation's life. */
static uint32_t once_computed(const struct conv *c) {
        for (uint32_t i = c->n_turns; i-- > 0;) {
                uint32_t end = gap_to_memory(&c->gap, c->turns[i].end);

                if (c->turns[i].finish != ENGINE_FINISH_NONE && end > 0)
                        return MAX(c->n_known, end - 1);
        }
        return c->n_known;
}

enum engine_differs share_explain(struct engine *engine, const struct recall *recall,
        uint32_t n_prompt, uint32_t kept, uint32_t *ret_at, uint32_t *ret_branch) {
        const struct conv *c = recall->conv;
        const struct store_prefix *found = &recall->found;
        uint32_t bt = engine->info.block_tokens, once = MIN(once_computed(c), n_prompt), common;
        struct seq_index *index = engine->memory->index;

        *ret_at = kept;
        *ret_branch = 0;
        if (kept + 1 >= n_prompt)
                return ENGINE_DIFFERS_END;
        if (kept < once && recall->shifted)
                return ENGINE_DIFFERS_SHIFTED;
        if (kept < once)
                return kept == c->cut_at || (kept % bt == 0 && once - kept < bt)
                               ? ENGINE_DIFFERS_PARTIAL
                               : ENGINE_DIFFERS_LOST;
        if (!share_allowed(c))
                return ENGINE_DIFFERS_PRIVATE;
        common = seq_index_common(index, c->owner, c->tokens, n_prompt);
        common = MAX(common, seq_index_common(index, SEQ_SCOPE_PUBLIC, c->tokens, n_prompt));
        if (found->n_common < found->donor_tokens)
                common = MAX(common, MIN(found->n_common, n_prompt));
        if (common <= kept)
                return ENGINE_DIFFERS_NEW;
        *ret_branch = common;
        if (common >= n_prompt) /* all of it is theirs: no token differs */
                return ENGINE_DIFFERS_PARTIAL;
        *ret_at = common;
        return ENGINE_DIFFERS_TOKEN;
}
