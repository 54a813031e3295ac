/* SPDX-License-Identifier: MIT */
#pragma once
/* What a dialect reads for the daemon is UTF-8: libconfab and the daemon take nothing else. */
#include <string.h>

#include "base/utf8.h"
#include "fuzz/check.h"

/* @text may be NULL. */
static inline void check_text(const char *text) {
        check(!text || utf8_valid(text, strlen(text)));
}
