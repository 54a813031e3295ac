/* SPDX-License-Identifier: MIT */
#include "inside.h"

#include <string.h>

#include "engine/conv/tables.h"
#include "engine/main/main.h"
#include "engine/memory/state.h"
#include "engine/verbs/verbs.h"
#include "util/test.h"

uint64_t inside_budget_auto(const char *root, uint64_t weights_size, uint64_t held) {
        return budget_auto(root, weights_size, held);
}

uint64_t inside_budget_of_blocks(struct engine *engine, size_t n) {
        return budget_of_pool(engine->budget, n * engine->budget->block_size);
}

uint64_t inside_budget_with(struct engine *engine, size_t n) {
        return budget_reserved(engine->budget) + n * engine->budget->block_size;
}

uint64_t inside_block_size(struct engine *engine) {
        return engine->budget->block_size;
}

uint64_t inside_scratch_size(struct engine *engine) {
        return engine->budget->scratch_size;
}

struct spill *inside_spill(struct engine *engine) {
        return engine->spill;
}

uint64_t inside_charged(struct engine *engine) {
        return ledger_used(&engine->budget->requests) +
               ledger_used(&engine->budget->conversations) + ledger_used(&engine->budget->index);
}

uint64_t inside_conversations_charged(struct engine *engine) {
        return ledger_used(&engine->budget->conversations);
}

uint64_t inside_requests_budget(struct engine *engine) {
        return ledger_budget(&engine->budget->requests);
}

size_t inside_requests_hold(struct engine *engine, size_t left) {
        struct ledger *share = &engine->budget->requests;
        size_t n = ledger_budget(share) - ledger_used(share);

        assert_true(n > left);
        n -= left;
        assert_int_equal(ledger_reserve(share, n), 0);
        return n;
}

void inside_requests_give(struct engine *engine, size_t held) {
        ledger_release(&engine->budget->requests, held);
}

size_t inside_n_records(struct engine *engine) {
        return map_count(engine->convs->recs);
}

size_t inside_n_waiting(struct engine *engine) {
        const struct list *it;
        size_t n = 0;

        list_for_each (it, desk_turns(engine))
                n++;
        return n;
}

void inside_set_machine(struct engine *engine, const char *root) {
        engine->budget->machine_root = root;
}

void inside_set_slow_disk(struct engine *engine, bool slow) {
        /* It sleeps, and hears of this through the lock of the next request. */
        engine->memory->rates = slow ? (struct rates){.restored_bytes = 1e9,
                                               .restore_usec = 1e12,
                                               .computed_tokens = 1e5,
                                               .compute_usec = 1e6,
                                               .n_restores = 100}
                                     : (struct rates){0};
}

void inside_set_disk_cost(struct engine *engine, double tokens_per_byte) {
        engine->memory->rates = (struct rates){.restored_bytes = 1e9,
                .restore_usec = 1e9 * tokens_per_byte,
                .computed_tokens = 1e5,
                .compute_usec = 1e5,
                .n_restores = 100};
}

void inside_describe_model(struct engine *engine, struct engine_model_info *ret) {
        engine_describe_model(engine, ret);
}

int32_t inside_find_token(struct engine *engine, const char *text) {
        for (uint32_t i = 0; i < engine->info.n_vocab; i++) {
                size_t n;
                const char *p = tok_text(engine->tok, (int32_t)i, &n);

                if (n == strlen(text) && memcmp(p, text, n) == 0)
                        return (int32_t)i;
        }
        fail_msg("no token is called %s", text);
        return -1;
}

size_t inside_tokenize(struct engine *engine, const char *text, int32_t *out, size_t max) {
        const struct tok_fragment f = {text, strlen(text), true};
        struct tok_ids ids = TOK_IDS_NULL;
        size_t n;

        assert_int_equal(tok_encode(engine->tok, &f, 1, false, true, 0, &ids, NULL), 0);
        assert_true(ids.n <= max);
        n = ids.n;
        memcpy(out, ids.ids, n * sizeof(*out));
        tok_ids_deinit(&ids);
        return n;
}

size_t inside_read_tail(struct engine *engine, uint64_t conv, uint8_t *out, size_t size) {
        struct store_gone records = {0};
        size_t n = 0;

        assert_int_equal(store_links(engine->store, conv, &records, NULL), 0);
        for (size_t i = 0; i < records.n; i++) {
                const struct store_record *s = &records.records[i];
                struct spill_ref ref = record_ref(s);
                struct spill_meta meta = record_meta(s);

                if (s->block_class != SEQ_ALL || s->n_tokens == engine->info.block_tokens)
                        continue;
                assert_true(s->raw_size <= size);
                assert_int_equal(spill_read(engine->spill, &ref, &meta, out, s->raw_size, NULL), 0);
                n = s->raw_size;
        }
        store_gone_deinit(&records);
        return n;
}

struct inside_request inside_request(const struct request *request) {
        return (struct inside_request){.handle = request->r.handle,
                .owner = request->r.owner,
                .background = request->r.background,
                .seq = request->conv->seq};
}
