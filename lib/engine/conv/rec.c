/* SPDX-License-Identifier: MIT */
/* Entries of the spill records that conversations in RAM refer to. */
#include <stdlib.h>

#include "base/hash.h"
#include "engine/conv/tables.h"

struct rec *rec_get(struct engine *engine, const struct store_record *r, struct err *e) {
        struct rec *rec = map_get_u64(engine->convs->recs, r->id);

        if (!rec) {
                rec = calloc(1, sizeof(*rec));
                if (!rec || map_add_u64(engine->convs->recs, r->id, rec, e) < 0) {
                        free(rec);
                        err_set(e, ERR_NOMEM, "no memory for a spill record's entry");
                        return NULL;
                }
                rec->r = *r;
        }
        rec->n_refs++;
        return rec;
}

void rec_put(struct engine *engine, struct rec *rec) {
        if (!rec || --rec->n_refs > 0)
                return;
        map_remove_u64(engine->convs->recs, rec->r.id);
        free(rec);
}

struct rec *rec_find(struct engine *engine, uint64_t id) {
        return map_get_u64(engine->convs->recs, id);
}

uint64_t conv_token_hash(const int32_t *tokens, uint32_t block_tokens, uint32_t index,
        uint32_t n_in_block, uint64_t prev) {
        return hash64_chain_tokens(tokens + (size_t)index * block_tokens, n_in_block, prev);
}

uint64_t conv_hash_at(
        const struct engine *engine, const int32_t *tokens, const uint64_t *hashes, uint32_t end) {
        uint32_t bt = engine->info.block_tokens, index = end / bt, n = end % bt;

        if (n == 0)
                return hashes[index - 1];
        return conv_token_hash(tokens, bt, index, n, index > 0 ? hashes[index - 1] : 0);
}
