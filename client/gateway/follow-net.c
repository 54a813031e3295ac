/* SPDX-License-Identifier: MIT */
#include "client/gateway/follow-net.h"
#include "base/util.h"
#include <arpa/inet.h>
#include <errno.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/util.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#ifdef GATEWAY_HAS_TLS
/* A type of OpenSSL has the name of one of our errors. */
#define ERR_STATE openssl_err_state
#include <event2/bufferevent_ssl.h>
#include <event2/dns.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#undef ERR_STATE
#endif

/* Deferred: no callback comes before the function that leads to it has returned. */
#define BEV_OPTIONS (BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS)
/* A machine that says nothing at all, seconds: about half a minute in all. */
#define ALIVE_IDLE 15
#define ALIVE_INTERVAL 5
#define ALIVE_COUNT 3
#define UNSENT_MSEC 30000

struct follow_net {
        struct event_base *base;
#ifdef GATEWAY_HAS_TLS
        SSL_CTX *tls;           /* NULL: not needed yet */
        struct evdns_base *dns; /* NULL: not needed yet */
#endif
};

/* ---- addresses ---- */

static bool is_name(const char *host) {
        for (const char *p = host; *p; p++)
                if (!(*p >= 'a' && *p <= 'z') && !(*p >= 'A' && *p <= 'Z') &&
                        !(*p >= '0' && *p <= '9') && *p != '-' && *p != '.')
                        return false;
        return *host && *host != '-' && *host != '.';
}

static bool is_loopback(const char *host) {
        struct in6_addr six;
        struct in_addr four;

        if (inet_pton(AF_INET, host, &four) == 1)
                return ntohl(four.s_addr) >> 24 == 127;
        return inet_pton(AF_INET6, host, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

/* ":PORT" or nothing. False: it is neither. */
static bool read_port(struct follow_address *address, const char *text, size_t n) {
        unsigned port = 0;

        if (n == 0)
                return true;
        if (n < 2 || n > 6 || *text != ':')
                return false;
        for (size_t i = 1; i < n; i++) {
                if (text[i] < '0' || text[i] > '9')
                        return false;
                port = 10 * port + (unsigned)(text[i] - '0');
        }
        address->port = (uint16_t)port;
        return port > 0 && port <= UINT16_MAX;
}

/* "[HOST]" or "HOST"; its end, or NULL. */
static const char *read_host(struct follow_address *address, const char *text) {
        bool in_brackets = *text == '[';
        const char *begin = text + in_brackets;
        size_t n = strcspn(begin, in_brackets ? "]" : ":/");
        unsigned char number[sizeof(struct in6_addr)];

        if (n >= sizeof(address->host) || (in_brackets && begin[n] != ']'))
                return NULL;
        memcpy(address->host, begin, n);
        address->host[n] = '\0';
        if (in_brackets) {
                address->is_number = true;
                return inet_pton(AF_INET6, address->host, number) == 1 ? begin + n + 1 : NULL;
        }
        address->is_number = inet_pton(AF_INET, address->host, number) == 1;
        return is_name(address->host) ? begin + n : NULL;
}

int follow_address_parse(struct follow_address *ret, const char *text, struct err *e) {
        struct follow_address address = {.tls = strncmp(text, "https://", 8) == 0};
        const char *begin = text + (address.tls ? 8 : 7), *end;
        size_t n;

        address.port = address.tls ? 443 : 80;
        if (!address.tls && strncmp(text, "http://", 7) != 0)
                return err_set(e, ERR_INVALID, "'%.60s' is no address of a gateway", text);
        end = read_host(&address, begin);
        n = strcspn(begin, "/");
        if (!end || n >= sizeof(address.authority) || (begin[n] == '/' && begin[n + 1]) ||
                !read_port(&address, end, (size_t)(begin + n - end)))
                return err_set(e, ERR_INVALID, "'%.60s' is no address of a gateway", text);
        if (!address.tls && !is_loopback(address.host))
                return err_set(e, ERR_INVALID, "'%.60s' is another machine's, without TLS", text);
        memcpy(address.authority, begin, n);
        *ret = address;
        return 0;
}

/* ---- TLS and names ---- */

#ifdef GATEWAY_HAS_TLS
static int tls_error(struct err *e, const char *what) {
        unsigned long code = ERR_get_error();
        char text[120] = "unknown";

        if (code)
                ERR_error_string_n(code, text, sizeof(text));
        ERR_clear_error();
        return err_set(e, ERR_UNAVAILABLE, "%s: %s", what, text);
}

static int make_tls(struct follow_net *net, const char *ca_file, struct err *e) {
        SSL_CTX *tls = SSL_CTX_new(TLS_client_method());
        int ok;

        if (!tls)
                return err_no_memory(e);
        SSL_CTX_set_verify(tls, SSL_VERIFY_PEER, NULL);
        SSL_CTX_set_min_proto_version(tls, TLS1_2_VERSION);
        SSL_CTX_set_options(tls, SSL_OP_NO_RENEGOTIATION);
        ok = ca_file ? SSL_CTX_load_verify_locations(tls, ca_file, NULL)
                     : SSL_CTX_set_default_verify_paths(tls);
        if (ok != 1) {
                SSL_CTX_free(tls);
                return tls_error(e, ca_file ? ca_file : "the certificates that the system trusts");
        }
        net->tls = tls;
        return 0;
}

/* The certificate has to be that of the name or address. */
static bool expect_host(SSL *ssl, const struct follow_address *address) {
        X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
        char name[sizeof(address->host)]; /* the macro takes no constant */

        if (address->is_number)
                return X509_VERIFY_PARAM_set1_ip_asc(param, address->host) == 1;
        SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
        memcpy(name, address->host, sizeof(name));
        return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

static int make_tls_bev(struct bufferevent **ret, struct follow_net *net,
        const struct follow_address *address, struct err *e) {
        int r = net->tls ? 0 : make_tls(net, NULL, e);
        SSL *ssl;

        if (r < 0)
                return r;
        ssl = SSL_new(net->tls);
        if (!ssl || !expect_host(ssl, address)) {
                SSL_free(ssl);
                return tls_error(e, "TLS");
        }
        /* The bufferevent takes one reference over, also where there is no memory for it. */
        SSL_up_ref(ssl);
        *ret = bufferevent_openssl_socket_new(
                net->base, -1, ssl, BUFFEREVENT_SSL_CONNECTING, BEV_OPTIONS);
        SSL_free(ssl);
        return *ret ? 0 : err_no_memory(e);
}

static int start_name(struct follow_net *net, struct bufferevent *bev,
        const struct follow_address *address, struct err *e) {
        if (!net->dns)
                net->dns = evdns_base_new(net->base,
                        EVDNS_BASE_INITIALIZE_NAMESERVERS | EVDNS_BASE_DISABLE_WHEN_INACTIVE);
        if (!net->dns || bufferevent_socket_connect_hostname(
                                 bev, net->dns, AF_UNSPEC, address->host, address->port) < 0)
                return err_set(e, ERR_UNAVAILABLE, "cannot look '%.60s' up", address->host);
        return 0;
}

static void free_tls(struct follow_net *net) {
        if (net->dns)
                evdns_base_free(net->dns, 1);
        SSL_CTX_free(net->tls);
}

static bool explain_tls(
        struct bufferevent *bev, const struct follow_address *address, struct err *e) {
        SSL *ssl = bufferevent_openssl_get_ssl(bev);
        unsigned long code = bufferevent_get_openssl_error(bev);
        long verdict = ssl ? SSL_get_verify_result(ssl) : X509_V_OK;
        int lookup = bufferevent_socket_get_dns_error(bev);

        ERR_clear_error();
        if (lookup)
                err_set(e, ERR_UNAVAILABLE, "%.100s: %s", address->authority,
                        evutil_gai_strerror(lookup));
        else if (verdict != X509_V_OK)
                err_set(e, ERR_UNAVAILABLE, "%.100s: %s", address->authority,
                        X509_verify_cert_error_string(verdict));
        else if (code)
                err_set(e, ERR_UNAVAILABLE, "%.100s: %s", address->authority,
                        ERR_reason_error_string(code) ?: "TLS failed");
        return lookup || verdict != X509_V_OK || code;
}
#else
static int make_tls(struct follow_net *net, const char *ca_file, struct err *e) {
        return err_set(e, ERR_UNSUPPORTED, "this gateway was built without OpenSSL");
}

static int make_tls_bev(struct bufferevent **ret, struct follow_net *net,
        const struct follow_address *address, struct err *e) {
        return make_tls(net, NULL, e);
}

static int start_name(struct follow_net *net, struct bufferevent *bev,
        const struct follow_address *address, struct err *e) {
        return make_tls(net, NULL, e);
}

static void free_tls(struct follow_net *net) {
}

static bool explain_tls(
        struct bufferevent *bev, const struct follow_address *address, struct err *e) {
        return false;
}
#endif

/* ---- what is offered ---- */

int follow_net_new(
        struct follow_net **ret, struct event_base *base, const char *ca_file, struct err *e) {
        struct follow_net *net = calloc(1, sizeof(*net));
        int r;

        if (!net)
                return err_no_memory(e);
        net->base = base;
        r = ca_file ? make_tls(net, ca_file, e) : 0;
        if (r < 0)
                return follow_net_free(net), r;
        *ret = net;
        return 0;
}

struct follow_net *follow_net_free(struct follow_net *net) {
        if (net)
                free_tls(net);
        free(net);
        return NULL;
}

struct event_base *follow_net_base(const struct follow_net *net) {
        return net->base;
}

int follow_net_make(struct bufferevent **ret, struct follow_net *net,
        const struct follow_address *address, struct err *e) {
        if (address->tls)
                return make_tls_bev(ret, net, address, e);
        *ret = bufferevent_socket_new(net->base, -1, BEV_OPTIONS);
        return *ret ? 0 : err_no_memory(e);
}

int follow_net_start(struct follow_net *net, struct bufferevent *bev,
        const struct follow_address *address, struct err *e) {
        struct sockaddr_storage where = {};
        struct sockaddr_in6 *six = (struct sockaddr_in6 *)&where;
        struct sockaddr_in *four = (struct sockaddr_in *)&where;
        int size = sizeof(*four);

        if (!address->is_number)
                return start_name(net, bev, address, e);
        if (inet_pton(AF_INET, address->host, &four->sin_addr) == 1) {
                four->sin_family = AF_INET;
                four->sin_port = htons(address->port);
        } else {
                inet_pton(AF_INET6, address->host, &six->sin6_addr);
                six->sin6_family = AF_INET6;
                six->sin6_port = htons(address->port);
                size = sizeof(*six);
        }
        if (bufferevent_socket_connect(bev, (struct sockaddr *)&where, size) < 0)
                return err_set(e, ERR_UNAVAILABLE, "cannot connect to %.100s", address->authority);
        return 0;
}

void follow_net_tune(struct bufferevent *bev) {
        static const struct {
                int level, name, value;
        } options[] = {{IPPROTO_TCP, TCP_NODELAY, 1}, {SOL_SOCKET, SO_KEEPALIVE, 1},
                {IPPROTO_TCP, TCP_KEEPIDLE, ALIVE_IDLE},
                {IPPROTO_TCP, TCP_KEEPINTVL, ALIVE_INTERVAL},
                {IPPROTO_TCP, TCP_KEEPCNT, ALIVE_COUNT},
                {IPPROTO_TCP, TCP_USER_TIMEOUT, UNSENT_MSEC}};

        /* It is slower, or waits longer, without. */
        for (size_t i = 0; i < ARRAY_SIZE(options); i++)
                (void)setsockopt(bufferevent_getfd(bev), options[i].level, options[i].name,
                        &options[i].value, sizeof(options[i].value));
}

void follow_net_explain(
        struct bufferevent *bev, const struct follow_address *address, struct err *e) {
        int code = EVUTIL_SOCKET_ERROR();

        if (address->tls && explain_tls(bev, address, e))
                return;
        err_set(e, ERR_UNAVAILABLE, "%.100s: %s", address->authority,
                code ? strerrordesc_np(code) : "the connection ended");
}
