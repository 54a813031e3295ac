/* SPDX-License-Identifier: MIT */
#pragma once
/* The settings of confab-gateway: their table is config-table.c, what is made of it service/conf.h. */
#include "service/conf.h"
#include <stdint.h>

struct gateway_config {
        /* owned, NULL when not given; lists are words */
        char *config, *defaults, *daemons, *listen, *socket_group, *tcp, *token_file;
        char *allow_hosts, *allow_origins, *tenant_header, *page, *page_libs, *follow_ca_file;
        uint64_t socket_mode;
        uint64_t allow_remote, shift; /* 0 or 1 */
        uint64_t expire, keep_alive;  /* usec; 0: never */
        uint64_t expire_once;         /* usec; 0: as expire */
        uint64_t max_choices, max_connections;
        uint64_t max_reply;                                    /* tokens; 0: the context */
        uint64_t max_header, max_body, max_bodies, max_import; /* bytes */
        uint64_t output_high, output_low;                      /* bytes */
        uint64_t header_timeout, body_timeout, idle_timeout, write_timeout, stop_timeout; /* usec */
        uint64_t log_level;   /* syslog priority */
        uint64_t open;        /* 0 or 1 */
        uint64_t request_log; /* 0 or 1 */
        uint64_t follow;      /* enum follow_mode */
        bool given[CONF_MAX_SETTINGS];
};
#define GATEWAY_CONFIG_NULL ((struct gateway_config){})

extern const struct conf gateway_conf;
/* What struct conf has as check(). */
int gateway_config_check(const void *config, struct err *e);
void gateway_config_deinit(struct gateway_config *config);
