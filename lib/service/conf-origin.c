/* SPDX-License-Identifier: MIT */
#include "service/conf-origin.h"
#include "base/err.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The array [conf->n], or NULL. */
static char **origins(const struct conf *conf, void *settings) {
        return conf->origins_offset ? (char **)(void *)((char *)settings + conf->origins_offset)
                                    : NULL;
}

const char *conf_origin(const struct conf *conf, const void *settings, const struct setting *t) {
        const char *origin;

        memcpy(&origin,
                (const char *)settings + conf->origins_offset +
                        (size_t)(t - conf->table) * sizeof(origin),
                sizeof(origin));
        return origin;
}

int origin_note(const struct conf *conf, void *settings, const struct setting *t, const char *path,
        unsigned line, struct err *e) {
        char **all = origins(conf, settings), *text;

        if (!all)
                return 0;
        if (!path)
                text = strdup("command line");
        else if (asprintf(&text, "%s:%u", path, line) < 0)
                text = NULL;
        if (!text)
                return err_set(e, ERR_NOMEM, "no memory for %s", t->name);
        free(all[t - conf->table]);
        all[t - conf->table] = text;
        return 0;
}

void origin_swap(const struct conf *conf, void *a, void *b, const struct setting *t) {
        char **of_a = origins(conf, a), **of_b = origins(conf, b), *was;

        if (!of_a)
                return;
        was = of_a[t - conf->table];
        of_a[t - conf->table] = of_b[t - conf->table];
        of_b[t - conf->table] = was;
}

bool origins_dup(const struct conf *conf, void *copy) {
        char **all = origins(conf, copy);
        bool complete = true;

        for (size_t i = 0; all && i < conf->n; i++) {
                if (!all[i])
                        continue;
                all[i] = strdup(all[i]);
                complete = complete && all[i];
        }
        return complete;
}

void origins_free(const struct conf *conf, void *settings) {
        char **all = origins(conf, settings);

        for (size_t i = 0; all && i < conf->n; i++)
                free(all[i]);
}
