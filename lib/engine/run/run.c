/* SPDX-License-Identifier: MIT */
/* The state of this floor: making and freeing it, and its figures. */
#include <stdlib.h>

#include "engine/run/state.h"

/* Steps of replies between layers of prompts need their own place. */
static int reply_new(struct run *run, struct engine *engine, struct err *e) {
        uint32_t n = engine->o.max_active;

        run->reply_batch = calloc(n, sizeof(*run->reply_batch));
        run->reply_rows = calloc(n, sizeof(struct request *));
        if (!run->reply_batch || !run->reply_rows)
                return err_set(e, ERR_NOMEM, "no memory for a batch");
        return model_work_new(&run->reply_work, engine->model, engine->kern, n, n, e);
}

int run_new(struct engine *engine, struct err *e) {
        uint32_t max_active = engine->o.max_active;
        uint32_t max_tokens = MAX(engine->o.batch_tokens, max_active);
        uint32_t max_rows = MIN(max_tokens, MAX(max_active, SPECULATE_MOST + 1u));
        struct run *run = calloc(1, sizeof(*run));
        int r;

        if (!run)
                return err_set(e, ERR_NOMEM, "no memory for the engine");
        engine->run = run;
        list_init(&run->queue);
        list_init(&run->active);
        list_init(&run->users);
        list_init(&run->followers);
        list_init(&run->constraints);
        r = model_work_new(&run->work, engine->model, engine->kern, max_tokens, max_rows, e);
        if (r == 0 && engine->o.prefill_share < 100)
                r = reply_new(run, engine, e);
        if (r == 0)
                r = sample_work_new(&run->sampler, engine->info.n_vocab, e);
        if (r < 0)
                return r;
        run->batch = calloc(max_tokens, sizeof(*run->batch));
        run->batch_rows = calloc(max_rows, sizeof(struct request *));
        run->max_rows = max_rows;
        run->speculates = engine->o.speculation;
        run->mask = calloc(((size_t)engine->info.n_vocab + 63) / 64, sizeof(*run->mask));
        if (!run->batch || !run->batch_rows || !run->mask)
                return err_set(e, ERR_NOMEM, "no memory for a batch");
        return 0;
}

/* Users are remembered beyond their last request. */
struct run *run_free(struct run *run) {
        if (!run)
                return NULL;
        while (!list_empty(&run->users)) {
                struct user *user = list_entry(run->users.next, struct user, link);

                list_unlink(&user->link);
                free(user);
        }
        constraints_free(run);
        free(run->mask);
        model_work_free(run->work);
        model_work_free(run->reply_work);
        sample_work_free(run->sampler);
        free(run->batch);
        free(run->batch_rows);
        free(run->reply_batch);
        free(run->reply_rows);
        free(run);
        return NULL;
}

void run_set_between(struct run *run, void (*between)(struct engine *engine)) {
        run->between = between;
}

void run_figures(struct engine *engine, struct run_figures *ret) {
        struct list *it;

        *ret = (struct run_figures){.n_active = engine->run->n_active};
        list_for_each (it, &engine->run->queue)
                ret->n_queued++;
}
