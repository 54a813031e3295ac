/* SPDX-License-Identifier: MIT */
#pragma once
/* Where tests find data: the source tree, and the optional reference data beside a checkout. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* TEST_SOURCE_ROOT is defined by tests/meson.build. */

/* Path of @rel in the reference data (CONFAB_SHARED, else ../shared beside the source tree), in a
 * static buffer, or NULL if it is not there: skip aloud then. */
static inline const char *test_shared(const char *rel) {
        static char path[4096];
        const char *root = getenv("CONFAB_SHARED");

        if (root)
                snprintf(path, sizeof(path), "%s/reference/%s", root, rel);
        else
                snprintf(path, sizeof(path), "%s/../shared/reference/%s", TEST_SOURCE_ROOT, rel);
        return access(path, R_OK) == 0 ? path : NULL;
}
