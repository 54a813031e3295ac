/* SPDX-License-Identifier: MIT */
#include "client/gateway/routes.h"
#include "base/util.h"
#include <stdio.h>
#include <string.h>

bool route_matches(const char *pattern, const char *path, struct route_arg args[ROUTE_ARGS]) {
        const char *begin = path;
        size_t n = 0;

        while (*pattern) {
                bool rest = strcmp(pattern, "**") == 0;

                if (*pattern == '*' && (rest || pattern[1] == '/' || !pattern[1])) {
                        size_t size = rest ? strlen(path) : strcspn(path, "/");

                        if (size == 0 || n == ROUTE_ARGS)
                                return false;
                        args[n++] = (struct route_arg){(size_t)(path - begin), size};
                        path += size;
                        pattern += rest ? 2 : 1;
                } else if (*pattern++ != *path++) {
                        return false;
                }
        }
        return !*path;
}

const struct gateway_dialect *routes_dialect(
        const struct gateway_dialect *const *dialects, const char *path) {
        const struct gateway_dialect *best = NULL;
        size_t longest = 0;

        for (; *dialects; dialects++) {
                size_t n = strlen((*dialects)->prefix);

                if (strncmp((*dialects)->prefix, path, n) != 0 || (best && n <= longest))
                        continue;
                best = *dialects;
                longest = n;
        }
        return best;
}

void routes_find(struct route_found *ret, const struct gateway_dialect *const *dialects,
        enum http_method method, const char *path) {
        enum http_method wanted = method == HTTP_HEAD ? HTTP_GET : method;

        *ret = (struct route_found){.dialect = routes_dialect(dialects, path)};
        for (; *dialects; dialects++) {
                const struct gateway_route *route = (*dialects)->routes;

                for (; route->pattern; route++) {
                        struct route_arg args[ROUTE_ARGS] = {};

                        if (!route_matches(route->pattern, path, args))
                                continue;
                        ret->methods |= 1u << route->method;
                        if (route->method != wanted || ret->route)
                                continue;
                        ret->route = route;
                        ret->dialect = *dialects;
                        memcpy(ret->args, args, sizeof(args));
                }
        }
        if (ret->methods & 1u << HTTP_GET)
                ret->methods |= 1u << HTTP_HEAD;
}

void routes_allow(unsigned methods, char ret[ROUTES_ALLOW_SIZE]) {
        size_t n = 0;

        methods |= 1u << HTTP_OPTIONS;
        for (enum http_method i = 0; i < HTTP_OTHER; i++)
                if (methods & 1u << i)
                        n += (size_t)snprintf(ret + n, ROUTES_ALLOW_SIZE - n, "%s%s",
                                n > 0 ? ", " : "", http_method_text(i));
}
