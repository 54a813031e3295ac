/* SPDX-License-Identifier: MIT */
#include "client/gateway/origin.h"
#include "base/util.h"
#include "service/conf.h"
#include <arpa/inet.h>
#include <strings.h>

#define LABEL_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

/* Bytes of the host in "host:port" or "[host]:port"; 0: the port is none. */
static size_t host_size(const char *host) {
        size_t n = strcspn(host, *host == '[' ? "]" : ":");

        n += *host == '[' && host[n] == ']';
        if (!host[n])
                return n;
        if (host[n] != ':' || host[n + 1 + strspn(host + n + 1, "0123456789")])
                return 0;
        return n;
}

static bool has_word(const char *list, const char *text, size_t n) {
        const char *word;
        size_t size;

        while ((word = conf_next_word(&list, &size)))
                if (size == n && strncasecmp(word, text, n) == 0)
                        return true;
        return false;
}

bool origin_host_allowed(const struct origins *origins, const char *host) {
        static const char *const own[] = {"localhost", "127.0.0.1", "[::1]"};
        size_t n = host ? host_size(host) : 0;

        if (n == 0)
                return false;
        for (size_t i = 0; i < ARRAY_SIZE(own); i++)
                if (strlen(own[i]) == n && strncasecmp(own[i], host, n) == 0)
                        return true;
        return has_word(origins->hosts, host, n);
}

/* Nothing that a name server could be asked for, unless it answers for names without a dot. */
static bool is_fixed(const char *host, size_t n) {
        bool is_v6 = n > 2 && host[0] == '[' && host[n - 1] == ']';
        char text[INET6_ADDRSTRLEN] = "";
        struct in6_addr address;

        if (strspn(host, LABEL_CHARACTERS) >= n)
                return true;
        if (n - 2 * is_v6 >= sizeof(text))
                return false;
        memcpy(text, host + is_v6, n - 2 * is_v6);
        return inet_pton(is_v6 ? AF_INET6 : AF_INET, text, &address) == 1;
}

bool origin_local_host_allowed(const struct origins *origins, const char *host) {
        size_t n;

        if (!host || !*host)
                return true;
        n = host_size(host);
        return n > 0 && (is_fixed(host, n) || has_word(origins->hosts, host, n));
}

enum origin_verdict origin_judge(
        const struct origins *origins, const char *host, const char *origin) {
        if (!origin)
                return ORIGIN_NONE;
        if (host && strncasecmp(origin, "http://", 7) == 0 && strcasecmp(origin + 7, host) == 0)
                return ORIGIN_OWN;
        if (has_word(origins->origins, "*", 1) ||
                has_word(origins->origins, origin, strlen(origin)))
                return ORIGIN_LISTED;
        return ORIGIN_FOREIGN;
}

bool origin_is_hidden(enum origin_verdict verdict, const char *site) {
        return verdict == ORIGIN_NONE && site &&
               (strcmp(site, "cross-site") == 0 || strcmp(site, "same-site") == 0);
}
