/* SPDX-License-Identifier: MIT */
/* Where servers are: URIs, and what servers of a cluster call each other. */
#include "base/util.h"
#include "remote/remote-private.h"
#include <stdio.h>
#include <sys/un.h>

#define DEFAULT_PORT 6379
#define MAX_DB 65535

static bool is_digit(char c) {
        return c >= '0' && c <= '9';
}

/* A decimal number up to @max that is all of text[0..n). */
static bool number(const char *text, size_t n, uint32_t max, uint32_t *ret) {
        uint32_t v = 0;

        if (n == 0 || n > 6)
                return false;
        for (size_t i = 0; i < n; i++) {
                if (!is_digit(text[i]))
                        return false;
                v = v * 10 + (uint32_t)(text[i] - '0');
        }
        *ret = v;
        return v <= max;
}

static bool port_of(const char *text, size_t n, uint16_t *ret) {
        uint32_t v;

        if (!number(text, n, UINT16_MAX, &v) || v == 0)
                return false;
        *ret = (uint16_t)v;
        return true;
}

static bool host_of(const char *text, size_t n, bool ipv6, char ret[REMOTE_HOST_MAX + 1]) {
        static const char name[] =
                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
        static const char address[] = "0123456789abcdefABCDEF:.";

        if (n == 0 || n > REMOTE_HOST_MAX)
                return false;
        for (size_t i = 0; i < n; i++)
                if (!memchr(ipv6 ? address : name, text[i], strlen(ipv6 ? address : name)))
                        return false;
        memcpy(ret, text, n);
        ret[n] = '\0';
        return true;
}

/* HOST or HOST:PORT, all of text[0..n). */
static bool server_of(const char *text, size_t n, struct remote_address *ret) {
        const char *close = n > 0 && text[0] == '[' ? memchr(text, ']', n) : NULL;
        size_t at;

        *ret = (struct remote_address){.port = DEFAULT_PORT};
        if (close) {
                at = (size_t)(close - text) + 1;
                if (!host_of(text + 1, at - 2, true, ret->host))
                        return false;
        } else {
                const char *colon = memchr(text, ':', n);

                at = colon ? (size_t)(colon - text) : n;
                if (!host_of(text, at, false, ret->host))
                        return false;
        }
        return at == n || (text[at] == ':' && port_of(text + at + 1, n - at - 1, &ret->port));
}

static int parse_path(struct remote_uri *u, const char *path, struct err *e) {
        struct sockaddr_un address;
        size_t n = strlen(path);

        if (n < 2 || n >= sizeof(address.sun_path))
                return err_set(e, ERR_INVALID,
                        "the path of a socket has 2 to %zu bytes (redis:///PATH)",
                        sizeof(address.sun_path) - 1);
        memcpy(u->seeds[0].host, path, n + 1);
        u->n_seeds = 1;
        return 0;
}

static int parse_servers(struct remote_uri *u, const char *text, struct err *e) {
        size_t n = strcspn(text, "/");

        if (text[n] && text[n + 1] && !number(text + n + 1, strlen(text + n + 1), MAX_DB, &u->db))
                return err_set(e, ERR_INVALID,
                        "what follows the servers is a database's number, up to %d "
                        "(redis://HOST/0)",
                        MAX_DB);
        for (;;) {
                const char *comma = memchr(text, ',', n);
                size_t part = comma ? (size_t)(comma - text) : n;

                if (u->n_seeds == REMOTE_SEEDS_MAX)
                        return err_set(e, ERR_INVALID, "more than %d servers", REMOTE_SEEDS_MAX);
                if (!server_of(text, part, &u->seeds[u->n_seeds]))
                        return err_set(e, ERR_INVALID,
                                "\"%.*s\" is no HOST or HOST:PORT (an IPv6 address stands in "
                                "brackets)",
                                (int)MIN(part, (size_t)80), text);
                u->n_seeds++;
                if (!comma)
                        return 0;
                text += part + 1;
                n -= part + 1;
        }
}

int remote_uri_parse(struct remote_uri *ret, const char *text, struct err *e) {
        static const char plain[] = "redis://", secure[] = "rediss://";
        struct remote_uri u = {.tls = strncmp(text, secure, strlen(secure)) == 0};
        const char *rest = text + (u.tls ? strlen(secure) : strlen(plain));
        int r;

        if (!u.tls && strncmp(text, plain, strlen(plain)) != 0)
                return err_set(
                        e, ERR_INVALID, "the URI begins with neither redis:// nor rediss://");
        for (const char *p = rest; *p; p++)
                if ((unsigned char)*p < 0x21 || *p == 0x7f)
                        return err_set(e, ERR_INVALID, "a blank or a control character in the URI");
        /* A setting is shown to administrators, so a secret in it is none. */
        if (rest[0] != '/' && strchr(rest, '@'))
                return err_set(
                        e, ERR_INVALID, "a user's name or a password may not stand in the URI");
        if (rest[0] == '/' && u.tls)
                return err_set(e, ERR_INVALID, "there is no TLS over a Unix socket");
        r = rest[0] == '/' ? parse_path(&u, rest, e) : parse_servers(&u, rest, e);
        if (r == 0)
                *ret = u;
        return r;
}

bool remote_address_same(const struct remote_address *a, const struct remote_address *b) {
        return a->port == b->port && strcmp(a->host, b->host) == 0;
}

const char *remote_address_text(const struct remote_address *a, char ret[REMOTE_ADDRESS_TEXT]) {
        bool ipv6 = strchr(a->host, ':');

        if (a->port == 0)
                snprintf(ret, REMOTE_ADDRESS_TEXT, "%s", a->host);
        else
                snprintf(ret, REMOTE_ADDRESS_TEXT, "%s%s%s:%u", ipv6 ? "[" : "", a->host,
                        ipv6 ? "]" : "", a->port);
        return ret;
}

bool remote_address_told(
        struct remote_address *ret, const char *text, const struct remote_address *asked) {
        const char *colon = strrchr(text, ':');
        struct remote_address a;

        /* "?" is the host of a server that does not know it. */
        if (!colon || !port_of(colon + 1, strlen(colon + 1), &a.port))
                return false;
        if (colon == text)
                memcpy(a.host, asked->host, sizeof(a.host));
        else if (!host_of(text, (size_t)(colon - text), memchr(text, ':', (size_t)(colon - text)),
                         a.host))
                return false;
        *ret = a;
        return true;
}
