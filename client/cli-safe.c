/* SPDX-License-Identifier: MIT */
/*
 * Names and texts may come from a model or from other users, and a terminal obeys control characters. So where the
 * output is a terminal, C0 controls, DEL and C1 controls are shown in caret or <U+0085> form, and bytes that are
 * not UTF-8 as U+FFFD.
 */
#include "base/utf8.h"
#include "client/cli.h"
#include <wchar.h>

size_t safe_char(uint32_t cp, bool lines, char out[16]) {
        if (lines && (cp == '\n' || cp == '\t'))
                return 0;
        if (cp < 0x20 || cp == 0x7f)
                return (size_t)snprintf(out, 16, "^%c", (int)(cp ^ 0x40));
        if (cp >= 0x80 && cp < 0xa0)
                return (size_t)snprintf(out, 16, "<U+%04X>", (unsigned)cp);
        return 0;
}

int safe_append(struct buf *b, const void *data, size_t n, bool lines) {
        const uint8_t *s = data;
        char shown[16];
        uint32_t cp;
        int r = 0;

        for (size_t i = 0; i < n && r == 0;) {
                int k = utf8_decode(s + i, n - i, &cp);
                size_t m;

                if (k <= 0) {
                        r = buf_append(b, "\xef\xbf\xbd", 3);
                        i++;
                        continue;
                }
                m = safe_char(cp, lines, shown);
                r = m ? buf_append(b, shown, m) : buf_append(b, s + i, (size_t)k);
                i += (size_t)k;
        }
        return r;
}

size_t safe_width(const char *s, size_t n) {
        size_t width = 0;
        uint32_t cp;

        for (size_t i = 0; i < n;) {
                int k = utf8_decode((const uint8_t *)s + i, n - i, &cp), w;

                if (k <= 0) {
                        width++;
                        i++;
                        continue;
                }
                w = wcwidth((wchar_t)cp);
                width += w < 0 ? 1 : (size_t)w;
                i += (size_t)k;
        }
        return width;
}
