/* SPDX-License-Identifier: MIT */
/* Numbers and names of conversations as users, and editors, write them. */
#include "base/err.h"
#include "client/cli.h"
#include <errno.h>
#include <string.h>

bool cli_parse_uint(const char *s, uint64_t max, uint64_t *ret) {
        unsigned long long v;
        char *end;

        if (*s < '0' || *s > '9') /* strtoull would take signs and spaces */
                return false;
        errno = 0;
        v = strtoull(s, &end, 10);
        if (errno || *end || v > max)
                return false;
        *ret = v;
        return true;
}

bool cli_parse_size(const char *s, uint64_t max, uint64_t *ret) {
        static const char units[] = "KMGT";
        size_t n = strlen(s), shift = 0;
        const char *unit;
        char digits[24];

        if (n == 0 || n >= sizeof(digits))
                return false;
        strcpy(digits, s);
        unit = strchr(units, digits[n - 1]);
        if (unit) {
                shift = 10 * (size_t)(unit - units + 1);
                digits[n - 1] = 0;
        }
        if (!cli_parse_uint(digits, max >> shift, ret))
                return false;
        *ret <<= shift;
        return true;
}

int cli_parse_ref(const char *name, struct confab_request *r) {
        const char *digits = name + (*name == '#');
        uint64_t id;

        if (!*name)
                return -ERR_INVALID;
        if (*digits == 0 || strspn(digits, "0123456789") != strlen(digits)) {
                r->conversation = name;
                return 0;
        }
        if (!cli_parse_uint(digits, UINT64_MAX, &id) || id == 0)
                return -ERR_NOT_FOUND;
        r->conversation_id = id;
        return 0;
}
