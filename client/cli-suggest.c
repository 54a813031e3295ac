/* SPDX-License-Identifier: MIT */
/*
 * Words that somebody may have meant who mistyped one: commands, options, names of conversations.
 *
 * 1. How far two words are apart is the number of letters that were left out, added, replaced or
 *    exchanged with their neighbour, whatever their case. A word of up to 5 letters may have one such
 *    mistake, one of up to 9 two, a longer one three.
 * 2. The beginning of a word stands for it, too, if nothing is nearer ("regen").
 * 3. Of those that are nearest, the first CLI_SUGGESTIONS are named.
 * 4. Words of more than CLI_SUGGEST_SIZE bytes suggest nothing and are not suggested, so a look costs
 *    a few thousand steps whatever is typed.
 */
#include "client/cli.h"
#include <ctype.h>
#include <string.h>

static unsigned min3(unsigned a, unsigned b, unsigned c) {
        unsigned ab = MIN(a, b);

        return MIN(ab, c);
}

/* Rule 1: each row is the distances of one beginning of @a to all beginnings of @b. */
static unsigned distance(const char *a, const char *b) {
        unsigned rows[3][CLI_SUGGEST_SIZE + 1];
        size_t n = strlen(a), m = strlen(b);

        for (size_t k = 0; k <= m; k++)
                rows[0][k] = (unsigned)k;
        for (size_t i = 1; i <= n; i++) {
                unsigned *row = rows[i % 3], *before = rows[(i + 2) % 3];
                const unsigned *last = rows[(i + 1) % 3];

                row[0] = (unsigned)i;
                for (size_t k = 1; k <= m; k++) {
                        int x = tolower((unsigned char)a[i - 1]);
                        int y = tolower((unsigned char)b[k - 1]);

                        row[k] = min3(before[k] + 1, row[k - 1] + 1, before[k - 1] + (x != y));
                        if (i > 1 && k > 1 && x == tolower((unsigned char)b[k - 2]) &&
                                y == tolower((unsigned char)a[i - 2]))
                                row[k] = MIN(row[k], last[k - 2] + 1);
                }
        }
        return rows[n % 3][m];
}

void cli_suggest_try(struct cli_suggest *s, const char *candidate) {
        size_t size = strlen(s->word), n = strlen(candidate);
        unsigned allowed = 1 + (size > 5) + (size > 9), d;

        if (size == 0 || size > CLI_SUGGEST_SIZE || n == 0 || n > CLI_SUGGEST_SIZE)
                return;
        d = distance(s->word, candidate);
        if (d > allowed && size > 1 && strncasecmp(s->word, candidate, size) == 0)
                d = allowed + 1; /* rule 2 */
        else if (d > allowed || d >= n)
                return; /* of a word of one letter, anything would be one mistake away */
        if (s->n > 0 && d < s->distance)
                s->n = 0;
        if (s->n == CLI_SUGGESTIONS || (s->n > 0 && d > s->distance))
                return;
        s->distance = d;
        strcpy(s->found[s->n++], candidate);
}

int cli_suggest_put(const struct cli_suggest *s, const char *before, struct buf *b) {
        int r = 0;

        for (size_t i = 0; i < s->n && r == 0; i++)
                r = buf_printf(b, "%s'%s%s'%s",
                        i == 0          ? "; did you mean "
                        : i + 1 == s->n ? " or "
                                        : ", ",
                        before, s->found[i], i + 1 == s->n ? "?" : "");
        return r;
}
