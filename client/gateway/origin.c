/* SPDX-License-Identifier: MIT */
#include "client/gateway/origin.h"
#include "base/util.h"
#include <strings.h>

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

bool origin_host_allowed(const struct origins *origins, const char *host) {
        static const char *const own[] = {"localhost", "127.0.0.1", "[::1]"};
        size_t n = host ? host_size(host) : 0;

        if (n == 0)
                return false;
        for (size_t i = 0; i < ARRAY_SIZE(own); i++)
                if (strlen(own[i]) == n && strncasecmp(own[i], host, n) == 0)
                        return true;
        for (size_t i = 0; i < origins->n_hosts; i++)
                if (strlen(origins->hosts[i]) == n && strncasecmp(origins->hosts[i], host, n) == 0)
                        return true;
        return false;
}

enum origin_verdict origin_judge(
        const struct origins *origins, const char *host, const char *origin) {
        if (!origin)
                return ORIGIN_NONE;
        if (host && strncasecmp(origin, "http://", 7) == 0 && strcasecmp(origin + 7, host) == 0)
                return ORIGIN_OWN;
        for (size_t i = 0; i < origins->n_origins; i++)
                if (strcmp(origins->origins[i], "*") == 0 ||
                        strcasecmp(origins->origins[i], origin) == 0)
                        return ORIGIN_LISTED;
        return ORIGIN_FOREIGN;
}
