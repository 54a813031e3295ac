/* SPDX-License-Identifier: MIT */
/* How a reply was made, to be kept with its turn. */
#include <string.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "engine/run/state.h"

struct figures generate_figures(const struct engine *engine, struct request *request) {
        const struct generation *g = generation_of(request);

        const char *model = engine->info.name;

        /* A name in a model file need not be UTF-8. */
        return (struct figures){.model = utf8_valid(model, strlen(model)) ? model : "",
                .seed = g->seed,
                .n_prompt = g->n_prompt,
                .n_ram = g->n_ram,
                .n_disk = g->n_disk,
                .n_shared = g->n_shared,
                .n_computed = g->n_prompt - g->n_ram - g->n_disk - g->n_shared,
                .n_generated = g->n_generated,
                .queued_usec = g->t_admitted - request->t_submitted,
                .restore_usec = g->t_restored - g->t_admitted,
                .prefill_usec = g->t_prefilled - g->t_restored,
                .decode_usec = clock_monotonic_usec() - g->t_prefilled};
}
