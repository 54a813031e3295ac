/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Which hosts and origins a request may name. Pure.
 *
 * A page of any site can make the user's browser send requests to 127.0.0.1. It can't lie about two fields:
 *
 * 1. Host: a site whose name is made to lead to 127.0.0.1 (DNS rebinding) still sends its own name. By TCP only names of this
 *    machine's loopback and those that the administrator lists are answered. On a Unix socket no browser comes by itself.
 * 2. Origin: a request that a page sends to another site carries the page's. Only the origin that the Host itself
 *    names (a page that came from here), and those on the list, are answered.
 */
#include <stdbool.h>

/* Words of lists (conf_next_word() of service/conf.h); NULL: none. */
struct origins {
        const char *hosts;   /* without port */
        const char *origins; /* "https://chat.example", or "*" */
};

/* @host: the field Host, or NULL. */
bool origin_host_allowed(const struct origins *origins, const char *host);

enum origin_verdict { ORIGIN_NONE, ORIGIN_OWN, ORIGIN_LISTED, ORIGIN_FOREIGN };
/* @origin: the field Origin, or NULL. */
enum origin_verdict origin_judge(
        const struct origins *origins, const char *host, const char *origin);
