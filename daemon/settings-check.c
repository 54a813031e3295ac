/* SPDX-License-Identifier: MIT */
/* What settings have to be together. */
#include "base/err.h"
#include "daemon/settings.h"
#include "daemon/trusted.h"

static int no_model(const struct settings *s, struct err *e) {
        if (s->config)
                return err_set(e, ERR_INVALID, "no model: put 'model = FILE' into %s", s->config);
        return err_set(e, ERR_INVALID, "no model: give --model FILE");
}

/* Settings that only make sense together. */
int settings_check(const void *settings, struct err *e) {
        const struct settings *s = settings;
        _cleanup_(trusted_deinit) struct trusted trusted = TRUSTED_NULL;

        if (!s->model)
                return no_model(s, e);
        if (s->output_low >= s->output_high)
                return err_set(e, ERR_INVALID, "output-low must be less than output-high");
        if (s->output_high >= s->output_limit)
                return err_set(e, ERR_INVALID, "output-high must be less than output-limit");
        return trusted_parse(&trusted, s->trusted_users, e);
}
