/* SPDX-License-Identifier: MIT */
#include "service/uid.h"
#include "base/err.h"
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

int uid_find(uint32_t *ret, const char *word, struct err *e) {
        const struct passwd *p;

        if (!word[strspn(word, "0123456789")]) {
                unsigned long long n = strtoull(word, NULL, 10);

                if (n >= UINT32_MAX) /* which is no user */
                        return err_set(e, ERR_INVALID, "no user has the number %s", word);
                *ret = (uint32_t)n;
                return 0;
        }
        p = getpwnam(word);
        if (!p)
                return err_set(e, ERR_INVALID, "unknown user '%s'", word);
        *ret = p->pw_uid;
        return 0;
}
