/* SPDX-License-Identifier: MIT */
#include "base/figures.h"
#include <string.h>

size_t figures_size(const struct figures *f) {
        return sizeof(*f) + strlen(f->model) + 1;
}

struct figures *figures_put(void *block, const struct figures *f) {
        struct figures *to = block;

        *to = *f;
        to->model = strcpy((char *)(to + 1), f->model);
        return to;
}
