/* SPDX-License-Identifier: MIT */
/*
 * Checkpoints: places inside a conversation's memory to which it can come back without computing the
 * tokens before them again. With attention over everything every position is one, and nothing here does
 * anything. States of recurrent layers and blocks behind a window are gone once the next tokens are
 * computed, unless a mark of the sequence keeps them (lib/seq).
 *
 * Where checkpoints are made:
 * 1. At the end of every turn's memory: a reply's last token is computed only with the next turn, so
 *    that of a reply lies one token before its end. There forks, rewinds and edits begin. Of several
 *    messages in one request only the latest: their memory is computed in long steps.
 * 2. At the end of a message, before the tokens that invite the reply; without such tokens (raw input)
 *    before the last token of the prompt. There a reply is generated once more.
 * 3. Where the tokens of a prompt part from those of another conversation, at the end of the last block
 *    that they share: two conversations have met there, others will (Marconi, arXiv:2411.19379, calls
 *    it speculative insertion). Prefixes are shared in whole blocks, so only there.
 * 4. In models without any attention at the end of a prompt's last whole block: nothing else of the
 *    prompt would be there for other conversations to meet (rule 3), or to begin from.
 * 5. At the end of the last whole block of the first turn, which is the system message of most conversations,
 *    and of the published part: other conversations begin there. A place that was taken over from another
 *    conversation is kept like one that was computed, so it lasts as long as its last user.
 * 6. At every multiple of EVERY tokens, for rewinds into the middle of long texts.
 *
 * What a conversation may have: checkpoints cost at most a quarter of what its blocks of full attention
 * cost. With states LEAST of them are allowed in any case, since one state may be larger than all blocks; with
 * windows alone LEAST blocks of them, which places near each other share. What is beyond goes, the worth least
 * first (of windows only what frees a block): the worth of a checkpoint is the number of tokens that a return to
 * it, or to the positions up to the next one, computes less than a return to the one before it, for each
 * byte that it has alone (Marconi's measure: work saved per byte). Those of the latest three turns stay:
 * the end, the end of the latest message, where its reply is generated once more, and the end of the reply
 * before, where an edit of that message begins. If the latest reply has called tools, the turns are several,
 * and those around the message itself stay as well. So checkpoints stand close where they are cheap, and
 * evenly where they are not.
 *
 * Checkpoints are held by the sequence, charged, written behind, evicted and restored like all its cells.
 * Restoring brings back only what the end needs; the others stay on disk until a cut makes one of them
 * the end. If requests need the room, checkpoints of conversations in use go first: out of RAM those that are
 * on disk, then altogether one after the other, the worth least first (checkpoint_drop()).
 */
#include <float.h>

#include "engine/memory/state.h"

#define EVERY 512u /* tokens */
#define LEAST 8    /* states of a conversation, or blocks of windows, whatever they cost */
#define SHARE 4    /* the part of the blocks' cost that they may have */

static bool has_checkpoints(const struct engine *engine) {
        return engine->info.shape.size[SEQ_WINDOW] || engine->info.shape.size[SEQ_STATE];
}

/* Where the prompt's message ends; 0: nowhere. */
static uint32_t message_end(const struct checkpoint_plan *plan) {
        return MIN(plan->input_end, plan->n_prompt ? plan->n_prompt - 1 : 0);
}

/* The first place after @from that is to be kept, or UINT32_MAX. */
static uint32_t next_place(const struct engine *engine, const struct conv *c,
        const struct checkpoint_plan *plan, uint32_t from) {
        uint32_t bt = engine->info.block_tokens;
        uint32_t first = c->n_turns > 0 ? gap_to_memory(&c->gap, c->turns[0].end) : plan->first;
        const uint32_t places[] = {
                message_end(plan),
                plan->branch / bt * bt,
                engine->budget->only_states && plan->n_prompt ? (plan->n_prompt - 1) / bt * bt : 0,
                first / bt * bt,
                c->n_published / bt * bt,
                (from / EVERY + 1) * EVERY,
        };
        uint32_t next = UINT32_MAX;

        for (size_t i = 0; i < ARRAY_SIZE(places); i++)
                if (places[i] > from)
                        next = MIN(next, places[i]);
        for (size_t i = 0; i < ARRAY_SIZE(plan->ends); i++)
                if (plan->ends[i] > from)
                        next = MIN(next, plan->ends[i]);
        return next;
}

uint32_t checkpoint_limit(const struct engine *engine, const struct conv *c,
        const struct checkpoint_plan *plan, uint32_t n, bool more) {
        uint32_t bt = engine->info.block_tokens, from = seq_n_tokens(c->seq), next, end;

        if (!has_checkpoints(engine))
                return n;
        next = next_place(engine, c, plan, from);
        if (n >= next - from)
                return next - from;
        /* A state at the end of a block can be shared by those who compute the same prompt now. */
        end = (from + n) / bt * bt;
        return more && end > from ? end - from : n;
}

/* --- thinning out --- */

/* What checkpoints cost together, in RAM or on disk: a cell that two of them need counts once. */
static size_t checkpoints_size(const struct engine *engine, const struct seq *s) {
        size_t size = 0;

        for (int class = SEQ_WINDOW; class < SEQ_N_CLASSES; class ++) {
                struct seq_cell cell;
                size_t it = 0;

                while (seq_next_cell(s, (enum seq_class) class, &it, &cell))
                        if (!cell.needed)
                                size += seq_pool_slot_size(engine->pool, (enum seq_class) class);
        }
        return size;
}

/* What a mark is worth that has @cost bytes alone and stands @n tokens behind the one before. Of blocks that
 * another mark needs, too, it bears a half. */
static double worth_of(const struct engine *engine, size_t cost, uint32_t n) {
        size_t shared = seq_pool_slot_size(engine->pool, SEQ_WINDOW) / 2 + 1;

        return (double)n / (double)MAX(cost, shared);
}

static size_t count_marks(const struct seq *s) {
        size_t it = 0, n = 0;
        uint32_t pos;

        while (seq_next_mark(s, &it, &pos))
                n++;
        return n;
}

/* Is it the checkpoint of the end of the first @n turns? */
static bool is_end_of(const struct conv *c, uint32_t n, uint32_t pos) {
        uint32_t end = n > 0 ? gap_to_memory(&c->gap, c->turns[n - 1].end) : 0;

        return pos == end || pos + 1 == end;
}

/* Is it a checkpoint of one of the latest turns? The message of a request under way is no turn yet: its plan
 * tells where it ends (NULL: there is no request). */
static bool stays(const struct conv *c, const struct checkpoint_plan *plan, uint32_t pos) {
        uint32_t n = c->n_turns;

        if (plan && pos == message_end(plan))
                return true;
        for (size_t i = 0; plan && i < ARRAY_SIZE(plan->ends); i++)
                if (pos == plan->ends[i])
                        return true;
        for (uint32_t i = 0; i < CHECKPOINT_LATEST && i < n; i++)
                if (is_end_of(c, n - i, pos))
                        return true;
        while (n > 0 && c->turns[n - 1].role != CHAT_USER)
                n--;
        return n > 0 && (is_end_of(c, n, pos) || is_end_of(c, n - 1, pos));
}

/* The checkpoint that is worth least, of those that free at least so many bytes; 0: none may go. */
static uint32_t least_worth(const struct engine *engine, const struct conv *c,
        const struct checkpoint_plan *plan, size_t frees) {
        uint32_t pos, before = 0, ret = 0;
        double least = DBL_MAX;
        size_t it = 0;

        for (; seq_next_mark(c->seq, &it, &pos); before = pos) {
                size_t cost = seq_mark_cost(c->seq, pos);
                double worth = worth_of(engine, cost, pos - before);

                if (worth < least && cost >= frees && !stays(c, plan, pos)) {
                        ret = pos;
                        least = worth;
                }
        }
        return ret;
}

static size_t blocks_size(const struct engine *engine, const struct seq *s) {
        uint32_t bt = engine->info.block_tokens;

        return (size_t)(seq_n_tokens(s) / bt) * seq_pool_slot_size(engine->pool, SEQ_ALL);
}

/* The next one to go; 0: the rest may stay. */
static uint32_t next_to_go(
        const struct engine *engine, const struct conv *c, const struct checkpoint_plan *plan) {
        size_t most = MAX(blocks_size(engine, c->seq) / SHARE,
                LEAST * seq_pool_slot_size(engine->pool, SEQ_WINDOW));
        size_t n = count_marks(c->seq);
        size_t n_most = seq_n_tokens(c->seq) / engine->info.block_tokens + LEAST;
        uint32_t pos;

        if (n > n_most)
                return least_worth(engine, c, plan, 0);
        if (checkpoints_size(engine, c->seq) <= most)
                return 0;
        /* One state may be larger than all blocks. */
        if (engine->info.shape.size[SEQ_STATE])
                return n > LEAST ? least_worth(engine, c, plan, 0) : 0;
        /* Windows that lie near each other share blocks: then one alone frees nothing. */
        pos = least_worth(engine, c, plan, 1);
        return pos > 0 ? pos : least_worth(engine, c, plan, 0);
}

static void thin_out(struct engine *engine, struct conv *c, const struct checkpoint_plan *plan) {
        uint32_t pos;

        seq_release(c->seq);
        while ((pos = next_to_go(engine, c, plan)) > 0) {
                seq_unmark(c->seq, pos);
                seq_release(c->seq);
        }
}

/* --- making --- */

/* Without memory for the mark the place is not kept: a return computes more. */
static void keep(struct conv *c, uint32_t pos) {
        if (pos > 0)
                (void)seq_mark(c->seq, pos, NULL);
}

void checkpoint_reached(struct engine *engine, struct conv *c, const struct checkpoint_plan *plan) {
        uint32_t end = seq_n_tokens(c->seq);

        if (!has_checkpoints(engine) || end == 0 || next_place(engine, c, plan, end - 1) != end)
                return;
        keep(c, end);
        if (end % EVERY == 0)
                thin_out(engine, c, plan);
}

void checkpoint_turn_ended(struct engine *engine, struct conv *c) {
        if (!has_checkpoints(engine))
                return;
        keep(c, seq_n_tokens(c->seq));
        thin_out(engine, c, NULL);
}

void checkpoint_loaded(struct engine *engine, struct conv *c) {
        struct seq_cell cell;
        size_t it = 0;

        if (!has_checkpoints(engine))
                return;
        /* States that are on disk were kept when they were made. */
        while (seq_next_cell(c->seq, SEQ_STATE, &it, &cell))
                keep(c, cell.end);
        if (!engine->info.shape.size[SEQ_STATE]) {
                for (uint32_t i = 0; i < c->n_turns; i++) {
                        uint32_t end = gap_to_memory(&c->gap, c->turns[i].end);
                        bool is_reply = c->turns[i].finish != ENGINE_FINISH_NONE;

                        /* Behind raw input the reply begins with its last token computed again. */
                        if ((is_reply || c->turns[i].role == CHAT_RAW) && end > 0)
                                keep(c, end - 1);
                        if (!is_reply)
                                keep(c, end);
                }
                for (uint32_t pos = EVERY; pos < seq_n_tokens(c->seq); pos += EVERY)
                        keep(c, pos);
        }
        thin_out(engine, c, NULL);
}

/* --- room --- */

/* Does the mark need memory that the end does not need, and that is in RAM? */
static bool is_in_ram(const struct engine *engine, const struct conv *c, uint32_t pos) {
        uint32_t bt = engine->info.block_tokens;
        struct seq_cell cell;
        size_t it = 0;

        if (seq_cell_at(c->seq, SEQ_STATE, pos - 1, &cell) && cell.block && !cell.needed)
                return true;
        while (seq_next_cell(c->seq, SEQ_WINDOW, &it, &cell))
                if (cell.block && !cell.needed && cell.index * bt < pos &&
                        (cell.index + 1) * bt > seq_window_start(&engine->info.shape, pos))
                        return true;
        return false;
}

/* The mark in RAM that is worth least, of the latest ones the first; 0: there is none. What a request under
 * way has made is of the latest. */
static uint32_t least_in_ram(const struct engine *engine, const struct conv *c) {
        uint32_t pos, before = 0, ret = 0;
        double least = DBL_MAX;
        size_t it = 0;

        for (; seq_next_mark(c->seq, &it, &pos); before = pos) {
                bool latest = pos > c->n_tokens || stays(c, NULL, pos);
                double worth = latest ? DBL_MAX
                                      : worth_of(engine, seq_mark_cost(c->seq, pos), pos - before);

                if ((ret == 0 || worth < least) && is_in_ram(engine, c, pos)) {
                        ret = pos;
                        least = worth;
                }
        }
        return ret;
}

/* Out of RAM what only marks need and what is on disk. */
static void drop_written(struct conv *c) {
        for (int class = SEQ_WINDOW; class < SEQ_N_CLASSES; class ++) {
                struct seq_cell cell;
                size_t it = 0;

                while (seq_next_cell(c->seq, (enum seq_class) class, &it, &cell))
                        if (!cell.needed && cell.block &&
                                conv_cell_on_disk(c, (enum seq_class) class, &cell))
                                seq_drop(c->seq, (enum seq_class) class, cell.index);
        }
}

bool checkpoint_drop(struct engine *engine, struct conv *c) {
        size_t n = seq_n_resident(c->seq);
        uint32_t pos;

        if (!has_checkpoints(engine))
                return false;
        drop_written(c);
        seq_release(c->seq);
        while (seq_n_resident(c->seq) == n && (pos = least_in_ram(engine, c)) > 0) {
                seq_unmark(c->seq, pos);
                seq_release(c->seq);
        }
        return seq_n_resident(c->seq) < n;
}
