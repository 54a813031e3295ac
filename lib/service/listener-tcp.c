/* SPDX-License-Identifier: MIT */
/* Listening sockets of TCP. Addresses are numbers: a name could come to mean another machine. */
#include "base/cleanup.h"
#include "base/err.h"
#include "base/util.h"
#include "service/listener.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define BACKLOG 4096

union address {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
};

static bool parse_port(const char *text, uint16_t *ret) {
        unsigned long n;

        if (!*text || text[strspn(text, "0123456789")] || strlen(text) > 5)
                return false;
        n = strtoul(text, NULL, 10);
        *ret = htons((uint16_t)n);
        return n <= UINT16_MAX;
}

/* "127.0.0.1:8080", "[::1]:8080". */
static bool parse(union address *ret, socklen_t *ret_size, const char *text) {
        const char *colon = strrchr(text, ':');
        size_t n = colon ? (size_t)(colon - text) : 0;
        char host[INET6_ADDRSTRLEN];
        uint16_t port;

        if (n == 0 || n >= sizeof(host) || !parse_port(colon + 1, &port))
                return false;
        *ret = (union address){};
        if (*text != '[') {
                memcpy(host, text, n);
                host[n] = '\0';
                ret->v4.sin_family = AF_INET;
                ret->v4.sin_port = port;
                *ret_size = sizeof(ret->v4);
                return inet_pton(AF_INET, host, &ret->v4.sin_addr) == 1;
        }
        if (n < 3 || text[n - 1] != ']')
                return false;
        memcpy(host, text + 1, n - 2);
        host[n - 2] = '\0';
        ret->v6.sin6_family = AF_INET6;
        ret->v6.sin6_port = port;
        *ret_size = sizeof(ret->v6);
        return inet_pton(AF_INET6, host, &ret->v6.sin6_addr) == 1;
}

int listeners_add_tcp(struct listeners *l, const char *text, struct err *e) {
        _cleanup_(closep) int fd = -1;
        union address address;
        socklen_t size;
        int one = 1;

        if (l->n == LISTENERS_MAX)
                return err_set(e, ERR_LIMIT, "more than %d sockets to listen on", LISTENERS_MAX);
        if (!parse(&address, &size, text))
                return err_set(e, ERR_INVALID,
                        "'%.60s' is not ADDRESS:PORT, like 127.0.0.1:8080 or [::1]:8080", text);
        fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0)
                return err_set(e, ERR_SYS, "cannot make a socket");
        if (address.any.sa_family == AF_INET6 &&
                setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)) < 0)
                return err_set(e, ERR_SYS, "cannot make a socket of IPv6");
        if (bind(fd, &address.any, size) < 0 || listen(fd, BACKLOG) < 0)
                return err_set(e, ERR_SYS, "cannot listen on %s", text);
        l->is_tcp[l->n] = true;
        l->fds[l->n++] = TAKE_FD(fd);
        return 0;
}

static bool address_of(const struct listeners *l, unsigned i, union address *ret) {
        socklen_t size = sizeof(*ret);

        return getsockname(l->fds[i], &ret->any, &size) == 0;
}

bool listeners_is_local(const struct listeners *l, unsigned i) {
        union address address;

        if (!l->is_tcp[i])
                return true;
        if (!address_of(l, i, &address))
                return false;
        if (address.any.sa_family == AF_INET)
                return ntohl(address.v4.sin_addr.s_addr) >> 24 == 127;
        return address.any.sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&address.v6.sin6_addr);
}

struct listener_text listeners_text(const struct listeners *l, unsigned i) {
        struct listener_text text = {"an unknown address"};
        char host[INET6_ADDRSTRLEN] = "";
        union address address;

        if (!address_of(l, i, &address))
                return text;
        if (address.any.sa_family == AF_INET &&
                inet_ntop(AF_INET, &address.v4.sin_addr, host, sizeof(host)))
                (void)snprintf(text.s, sizeof(text.s), "%s:%u", host, ntohs(address.v4.sin_port));
        else if (address.any.sa_family == AF_INET6 &&
                 inet_ntop(AF_INET6, &address.v6.sin6_addr, host, sizeof(host)))
                (void)snprintf(
                        text.s, sizeof(text.s), "[%s]:%u", host, ntohs(address.v6.sin6_port));
        return text;
}
