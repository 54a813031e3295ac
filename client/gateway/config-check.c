/* SPDX-License-Identifier: MIT */
/* What settings have to be together. */
#include "base/err.h"
#include "client/gateway/config.h"
#include <string.h>

/* Names of fields are looked for in lower case. */
static int check_tenant_header(const char *name, struct err *e) {
        if (name && name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-")])
                return err_set(e, ERR_INVALID,
                        "tenant-header: '%.60s' is not the name of a field in lower case", name);
        return 0;
}

int gateway_config_check(const void *settings, struct err *e) {
        const struct gateway_config *config = settings;

        if (config->tcp && !config->token_file && !config->open)
                return err_set(e, ERR_INVALID,
                        "tcp needs a token-file: any program and any page of this machine could "
                        "ask else");
        if (config->output_low >= config->output_high)
                return err_set(e, ERR_INVALID, "output-low must be less than output-high");
        if (config->max_body > config->max_bodies)
                return err_set(e, ERR_INVALID, "max-body must not be more than max-bodies");
        return check_tenant_header(config->tenant_header, e);
}
