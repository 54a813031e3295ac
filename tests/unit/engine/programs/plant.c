/* SPDX-License-Identifier: MIT */
/*
 * Faults for the suite to find, so that it is known to find any: put between the engine and the
 * modules below it when the test program is linked (--wrap). The product knows nothing of them.
 */
#include "base/util.h"
#include "programs.h"
#include "seq/seq.h"
#include "store/store.h"

enum plant planted;

void __real_seq_attach(struct seq *s, enum seq_class c, uint32_t i, struct seq_block *b);
void __wrap_seq_attach(struct seq *s, enum seq_class c, uint32_t i, struct seq_block *b);
void __wrap_seq_attach(struct seq *s, enum seq_class c, uint32_t i, struct seq_block *b) {
        if (planted == PLANT_FLIP && i == 1)
                ((uint8_t *)seq_block_data(b))[100] ^= 0x40;
        __real_seq_attach(s, c, i, b);
}

size_t __real_seq_index_match(struct seq_index *x, uint64_t scope, const int32_t *tokens,
        size_t n_blocks, struct seq_step *out);
size_t __wrap_seq_index_match(struct seq_index *x, uint64_t scope, const int32_t *tokens,
        size_t n_blocks, struct seq_step *out);
size_t __wrap_seq_index_match(struct seq_index *x, uint64_t scope, const int32_t *tokens,
        size_t n_blocks, struct seq_step *out) {
        static const uint64_t owners[] = {1000, 1000 | 1ull << 32, 1001};
        size_t n = __real_seq_index_match(x, scope, tokens, n_blocks, out);

        for (size_t i = 0; planted == PLANT_FOREIGN && n == 0 && i < ARRAY_SIZE(owners); i++)
                n = __real_seq_index_match(x, owners[i], tokens, n_blocks, out);
        return n;
}

int __real_store_append(struct store *s, uint64_t id, const struct store_turn *turns,
        size_t n_turns, const int32_t *tokens, size_t n_tokens, uint64_t *ret_revision,
        struct err *e);
int __wrap_store_append(struct store *s, uint64_t id, const struct store_turn *turns,
        size_t n_turns, const int32_t *tokens, size_t n_tokens, uint64_t *ret_revision,
        struct err *e);
int __wrap_store_append(struct store *s, uint64_t id, const struct store_turn *turns,
        size_t n_turns, const int32_t *tokens, size_t n_tokens, uint64_t *ret_revision,
        struct err *e) {
        if (planted == PLANT_FORGET && n_turns == 1 && turns[0].end % 16 == 3) {
                *ret_revision = 1;
                return 0;
        }
        return __real_store_append(s, id, turns, n_turns, tokens, n_tokens, ret_revision, e);
}
