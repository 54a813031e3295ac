/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "cli.h"
#include "gguf/gguf.h"
#include "seq/seq.h"

int cli_engine_open(struct cli_engine *ret, const char *file, const struct cli_engine_options *o,
        struct err *e) {
        struct model_options mo = {.kv_type = o->kv_type};
        int r;

        memset(ret, 0, sizeof(*ret));
        r = gguf_open(&ret->gguf, file, e);
        if (r < 0)
                return r;
        r = model_open(&ret->model, ret->gguf, &mo, e);
        if (r < 0)
                return r;
        model_info(ret->model, &ret->info);
        r = kern_new(&ret->kern, o->n_threads, o->max_isa, e);
        if (r < 0)
                return r;
        ret->max_tokens = o->max_tokens;
        return model_work_new(&ret->work, ret->model, ret->kern, o->max_tokens, o->max_outputs, e);
}

int cli_engine_pool(struct cli_engine *en, size_t n_seqs, uint32_t n_tokens, struct err *e) {
        size_t budget;
        int r;

        en->ledger = LEDGER_INIT(0);
        r = seq_pool_new(&en->pool, &en->ledger, &en->info.shape, e);
        if (r < 0)
                return r;
        if (mul_overflow(n_seqs, seq_need(en->pool, n_tokens, en->max_tokens), &budget))
                return err_set(
                        e, ERR_LIMIT, "%zu sequences of %u tokens are too many", n_seqs, n_tokens);
        ledger_set_budget(&en->ledger, budget);
        return 0;
}

void cli_engine_close(struct cli_engine *en) {
        seq_pool_free(en->pool);
        model_work_free(en->work);
        kern_free(en->kern);
        model_free(en->model);
        gguf_free(en->gguf);
        memset(en, 0, sizeof(*en));
}

int cli_engine_feed(struct cli_engine *en, struct seq *s, const int32_t *tokens, uint32_t n,
        bool want_last, struct err *e) {
        _cleanup_(freep) struct model_token *batch = calloc(en->max_tokens, sizeof(*batch));
        int r;

        if (!batch)
                return err_set(e, ERR_NOMEM, "no memory for a batch");
        for (uint32_t from = 0; from < n;) {
                uint32_t count = MIN(n - from, en->max_tokens), pos = seq_n_tokens(s);

                r = seq_reserve(s, count, e);
                if (r == SEQ_FULL)
                        return err_set(e, ERR_LIMIT, "sequence memory is full");
                if (r < 0)
                        return r;
                for (uint32_t i = 0; i < count; i++)
                        batch[i] = (struct model_token){.token = tokens[from + i],
                                .pos = pos + i,
                                .seq = s,
                                .want_logits = want_last && from + i == n - 1};
                (void)model_forward(en->work, batch, count, NULL); /* cannot fail */
                seq_commit(s, count);
                from += count;
        }
        return 0;
}
