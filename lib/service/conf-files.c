/* SPDX-License-Identifier: MIT */
/*
 * The files of settings, and the order in which they are applied.
 *
 * 1. The defaults of the distribution (--defaults) come first. An installation or an upgrade may
 *    replace that file at any time; no one else writes it.
 * 2. What other packages add comes second: the drop-ins FILE.d/NAME.conf next to --defaults FILE.
 * 3. The administrator's file (--config) comes third. No installation ever writes it. It may be
 *    missing if there is a file of defaults or a drop-in of the administrator's; if it is the only file named, it
 *    must exist.
 * 4. The administrator's drop-ins come last: FILE.d/NAME.conf next to --config FILE.
 * 5. Drop-ins are sorted by name in byte order. Names that begin with a dot are skipped.
 *
 * A later file wins, setting by setting.
 */
#include "base/cleanup.h"
#include "base/err.h"
#include "base/util.h"
#include "service/conf.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int is_dropin(const struct dirent *d) {
        size_t n = strlen(d->d_name);

        return d->d_name[0] != '.' && n > strlen(".conf") &&
               strcmp(d->d_name + n - strlen(".conf"), ".conf") == 0;
}

static int by_name(const struct dirent **a, const struct dirent **b) {
        return strcmp((*a)->d_name, (*b)->d_name);
}

static int each_dropin(
        const char *dir, struct dirent **names, int n, conf_file_fn *fn, void *arg, struct err *e) {
        int r = 0;

        for (int i = 0; i < n && r == 0; i++) {
                _cleanup_(freep) char *path = NULL;

                if (asprintf(&path, "%s/%s", dir, names[i]->d_name) < 0) {
                        path = NULL;
                        return err_set(e, ERR_NOMEM, "no memory for a path");
                }
                r = fn(arg, path, e);
        }
        return r;
}

/* *ret_n: how many there were. */
static int each_dropin_of(
        const char *config, conf_file_fn *fn, void *arg, int *ret_n, struct err *e) {
        _cleanup_(freep) char *dir = NULL;
        struct dirent **names = NULL;
        int n, r;

        if (asprintf(&dir, "%s.d", config) < 0) {
                dir = NULL;
                return err_set(e, ERR_NOMEM, "no memory for a path");
        }
        n = scandir(dir, &names, is_dropin, by_name);
        if (n < 0) {
                *ret_n = 0;
                return errno == ENOENT ? 0 : err_set(e, ERR_SYS, "cannot look into '%s'", dir);
        }
        r = each_dropin(dir, names, n, fn, arg, e);
        for (int i = 0; i < n; i++)
                free(names[i]);
        free(names);
        *ret_n = n;
        return r;
}

static const char *name_at(const void *settings, size_t offset) {
        const char *name;

        memcpy(&name, (const char *)settings + offset, sizeof(name));
        return name;
}

int conf_each_file(
        const struct conf *conf, const void *settings, conf_file_fn *fn, void *arg, struct err *e) {
        const char *defaults = name_at(settings, conf->defaults_offset);
        const char *config = name_at(settings, conf->config_offset);
        bool there;
        int n = 0, r = 0;

        if (defaults)
                r = fn(arg, defaults, e);
        if (r == 0 && defaults)
                r = each_dropin_of(defaults, fn, arg, &n, e);
        if (r < 0 || !config)
                return r;
        there = access(config, F_OK) == 0 || errno != ENOENT;
        if (there)
                r = fn(arg, config, e);
        if (r == 0)
                r = each_dropin_of(config, fn, arg, &n, e);
        if (r == 0 && !there && !defaults && n == 0) {
                errno = ENOENT;
                r = err_set(e, ERR_SYS, "cannot open '%s'", config);
        }
        return r;
}
