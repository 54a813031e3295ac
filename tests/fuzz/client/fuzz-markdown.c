/* SPDX-License-Identifier: MIT */
/* Replies of any bytes on terminals of any width: what is shown does not depend on the pieces they come in, is UTF-8, and
 * has no control characters but newlines, tabs and the writer's own styles; each line of the text is shown. The first
 * byte chooses the terminal. */
#include "../check.h"
#include "base/utf8.h"
#include "client/cli.h"
#include "client/markdown/markdown.h"
#include <locale.h>
#include <string.h>

const struct cli_command *const cli_commands[] = {NULL};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *show(uint8_t how, const uint8_t *data, size_t size, size_t piece, size_t *ret_size) {
        static const unsigned columns[] = {0, 1, 8, 9, 20, 40, 80, 200};
        const struct markdown_options o = {
                .columns = columns[how & 7], .colours = how & 8, .utf8 = how & 16};
        static struct markdown m;
        struct buf out = BUF_NULL;

        markdown_init(&m, &o);
        if (how & 32)
                markdown_begin(&m, true, WRAP_DIM);
        for (size_t i = 0; i < size; i += piece)
                check(markdown_write(&m, &out, data + i, MIN(piece, size - i)) == 0);
        check(markdown_end(&m, &out) == 0);
        return buf_take(&out, ret_size);
}

/* The length of a style at @s: ESC [ digits and semicolons m. */
static size_t style_at(const char *s) {
        size_t n = strncmp(s, "\033[", 2) == 0 ? 2 + strspn(s + 2, "0123456789;") : 0;

        return n > 0 && s[n] == 'm' ? n + 1 : 0;
}

static size_t count_lines(const void *data, size_t size) {
        size_t n = 0;

        for (size_t i = 0; i < size; i++)
                n += ((const char *)data)[i] == '\n';
        return n;
}

static void check_shown(const char *s, size_t n) {
        check(utf8_valid(s, n) && (n == 0 || s[n - 1] == '\n'));
        for (size_t i = 0; i < n;) {
                size_t style = style_at(s + i);
                char shown[16];
                uint32_t cp;
                int k;

                if (style > 0) {
                        i += style;
                        continue;
                }
                k = utf8_decode((const uint8_t *)s + i, n - i, &cp);
                check(k > 0 && safe_char(cp, true, shown) == 0);
                i += (size_t)k;
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        size_t whole_size, pieces_size;
        char *whole, *pieces;

        if (size == 0 || size > 20000)
                return 0;
        setlocale(LC_CTYPE, "C.UTF-8");
        whole = show(data[0], data + 1, size - 1, size, &whole_size);
        pieces = show(data[0], data + 1, size - 1, 3, &pieces_size);
        check(whole && pieces && whole_size == pieces_size &&
                memcmp(whole, pieces, whole_size) == 0);
        check_shown(whole, whole_size);
        check(count_lines(whole, whole_size) >= count_lines(data + 1, size - 1));
        free(whole);
        free(pieces);
        return 0;
}
