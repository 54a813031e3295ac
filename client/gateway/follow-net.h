/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Connections to gateways on other machines: addresses, names, TLS.
 *
 * 1. https:// is TLS 1.2 or newer. The certificate has to be signed by one whom the system trusts, or one of the
 *    setting follow-ca-file in place of these, and has to be that of the name, or the address, that was told. There is no way around it.
 * 2. http:// is for numbers of the loopback alone: what goes there are tokens and what was said.
 * 3. Names are looked up by libevent (/etc/hosts, the servers of /etc/resolv.conf), without waiting. The files are read at the first
 *    name.
 *
 * All functions: the thread of the event base.
 */
#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

struct bufferevent;
struct event_base;
struct follow_net;

struct follow_address {
        bool tls, is_number; /* the host is an address, not a name */
        char host[254];      /* without brackets */
        char authority[264]; /* as the field Host has it */
        uint16_t port;
};

/* "https://HOST[:PORT]", or http:// of the loopback; a slash may end it. -ERR_INVALID. */
int follow_address_parse(struct follow_address *ret, const char *text, struct err *e);

/* @ca_file is read now; NULL: the system's, at the first https:// address. */
int follow_net_new(
        struct follow_net **ret, struct event_base *base, const char *ca_file, struct err *e);
/* All that was made by it must have been freed. NULL is harmless; returns NULL. */
struct follow_net *follow_net_free(struct follow_net *net);
struct event_base *follow_net_base(const struct follow_net *net);

/* A bufferevent for @address, whose callbacks are deferred; it is not connected yet. Errors: -ERR_NOMEM, -ERR_UNSUPPORTED (built
 * without OpenSSL), -ERR_UNAVAILABLE (the certificates of the system). */
int follow_net_make(struct bufferevent **ret, struct follow_net *net,
        const struct follow_address *address, struct err *e);
/* Begin to connect @bev of follow_net_make(); BEV_EVENT_CONNECTED tells that TLS stands, too. -ERR_UNAVAILABLE. */
int follow_net_start(struct follow_net *net, struct bufferevent *bev,
        const struct follow_address *address, struct err *e);
/* Behind BEV_EVENT_CONNECTED: bytes leave as they are written, and a machine that has gone is noticed. */
void follow_net_tune(struct bufferevent *bev);
/* What went wrong with @bev, for @e's message. */
void follow_net_explain(
        struct bufferevent *bev, const struct follow_address *address, struct err *e);
