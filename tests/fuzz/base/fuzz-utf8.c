/* SPDX-License-Identifier: MIT */
/* Decoding and encoding agree, and cutting a text anywhere never makes it ill-formed otherwise. */
#include "base/utf8.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        bool valid = utf8_valid(data, size);
        size_t at = 0;

        while (at < size) {
                uint32_t cp;
                uint8_t back[4];
                int n = utf8_decode(data + at, size - at, &cp);

                if (n <= 0)
                        break;
                if (utf8_encode(cp, back) != n || memcmp(back, data + at, (size_t)n) != 0)
                        abort();
                at += (size_t)n;
        }
        if ((at == size) != valid)
                abort();
        for (size_t cut = 0; valid && cut <= size && cut < 100; cut++)
                if (!utf8_valid(data, cut - utf8_incomplete_tail(data, cut)))
                        abort();
        return 0;
}
