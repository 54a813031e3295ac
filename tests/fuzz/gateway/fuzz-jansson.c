/* SPDX-License-Identifier: MIT */
/*
 * Any text. What confab's reader takes libjansson's own takes, too, and both read the same; but whole numbers that an
 * int64_t can't hold are refused by libjansson. What confab's refuses libjansson's refuses, too, unless it is nested deep, or
 * has a NUL, which libjansson takes for the end of a number.
 */
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "client/gateway/jansson-read.h"
#include "fuzz/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const char *text = (const char *)data;
        json_error_t error = {.line = 0};
        json_t *want = json_loadb(text, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error),
               *got = NULL;
        struct err e = {0};
        int r = jansson_read(&got, text, size, &e);

        check(r == 0 || (r == -ERR_INVALID && e.code == ERR_INVALID && *e.msg));
        if (r == 0 && want)
                check(json_equal(got, want));
        else if (r == 0)
                check(json_error_code(&error) == json_error_numeric_overflow);
        else
                check(!want || memchr(text, 0, size) || strstr(e.msg, "nested too deep"));
        if (r == 0)
                json_decref(got);
        json_decref(want);
        return 0;
}
