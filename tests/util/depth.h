/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * How far a test goes that could go on for hours: random programs, calls that fail one after another. What a
 * commit waits for is a part; with CONFAB_TEST_FULL in the environment (tools/check --full) it is as much as a
 * night has room for.
 */
#include <stdlib.h>

#include "util/sanitize.h"

/* How many cases, or every how many-th. @sanitized: with a sanitizer, which takes many times as long. */
static inline unsigned test_depth(unsigned sanitized, unsigned usual, unsigned full) {
        if (getenv("CONFAB_TEST_FULL"))
                return TEST_SANITIZED ? usual : full;
        return TEST_SANITIZED ? sanitized : usual;
}
