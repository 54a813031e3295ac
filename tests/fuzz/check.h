/* SPDX-License-Identifier: MIT */
#pragma once
/* How fuzz targets fail: abort() is what fuzzers and the tests of their corpora look for. */
#include <stdbool.h>
#include <stdlib.h>

static inline void check(bool ok) {
        if (!ok)
                abort();
}
