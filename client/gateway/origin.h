/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Which hosts and origins a request may name. Pure.
 *
 * A page of any site can make the user's browser send requests to 127.0.0.1. It can't lie about three fields:
 *
 * 1. Host: a site whose name is made to lead to 127.0.0.1 (DNS rebinding) still sends its own name. By TCP only names of this
 *    machine's loopback and those that the administrator lists are answered. On a Unix socket no browser comes by itself, but
 *    through a forwarder (ssh -L), and what comes counts as the user at its other end. There programs put all kinds of words
 *    into Host. A site has a name with a dot, so those take the list, too. A number can't be made to lead elsewhere, and a
 *    word without a dot only by who answers for DNS in the user's own network.
 * 2. Origin: a request that a page sends to another site carries the page's, if it is more than a GET, or if the page wants to see
 *    the answer. Only the origin that the Host itself names (a page that came from here), and those on the list, are answered.
 * 3. Sec-Fetch-Site: of all other requests (images, forms of GET, links) it says whether a page of another origin is behind them. They
 *    get what everybody may have, such as the page itself, to which a link may lead; nothing that a user's name or token opens.
 *    Other ports of this machine are other origins (same-site).
 */
#include <stdbool.h>

/* Words of lists (conf_next_word() of service/conf.h); NULL: none. */
struct origins {
        const char *hosts;   /* without port */
        const char *origins; /* "https://chat.example", or "*" */
};

/* @host: the field Host, or NULL. By TCP. */
bool origin_host_allowed(const struct origins *origins, const char *host);
/* The same on a Unix socket, where none may be named. */
bool origin_local_host_allowed(const struct origins *origins, const char *host);

enum origin_verdict { ORIGIN_NONE, ORIGIN_OWN, ORIGIN_LISTED, ORIGIN_FOREIGN };
/* @origin: the field Origin, or NULL. */
enum origin_verdict origin_judge(
        const struct origins *origins, const char *host, const char *origin);
/* Whether a page of another origin, of which no field Origin tells, is behind the request. @site: the field Sec-Fetch-Site,
 * or NULL. */
bool origin_is_hidden(enum origin_verdict verdict, const char *site);
