/* SPDX-License-Identifier: MIT */
/* Words are runs of letters and digits. A text is gone through once, whatever it is and however long. */
#include "client/cli-words.h"
#include "base/utf8.h"
#include "base/util.h"
#include <wctype.h>

#define MAX_WORDS 64 /* further ones are not looked for: a search has at most 1024 bytes */

struct word {
        size_t start, n; /* in cli_words.letters */
};
struct cli_words {
        uint32_t *letters; /* owned: code points in lower case */
        struct word words[MAX_WORDS];
        size_t n;
};

/* The next code point of @s at *i, 0 for bytes that are none. */
static uint32_t next(const uint8_t *s, size_t n, size_t *i) {
        uint32_t cp;
        int k = utf8_decode(s + *i, n - *i, &cp);

        *i += k > 0 ? (size_t)k : 1;
        return k > 0 ? cp : 0;
}

static bool is_letter(uint32_t cp) {
        return iswalnum((wint_t)cp) != 0;
}

static uint32_t lower(uint32_t cp) {
        return (uint32_t)towlower((wint_t)cp);
}

bool words_valid(const char *s) {
        size_t n = strlen(s), i = 0;

        while (i < n)
                if (is_letter(next((const uint8_t *)s, n, &i)))
                        return true;
        return false;
}

struct cli_words *words_new(const char *s) {
        struct cli_words *w = calloc(1, sizeof(*w));
        size_t n = strlen(s), used = 0;
        bool inside = false;

        if (!w || !(w->letters = calloc(n + 1, sizeof(*w->letters))))
                return words_free(w);
        for (size_t i = 0; i < n;) {
                uint32_t cp = next((const uint8_t *)s, n, &i);

                if (!is_letter(cp)) {
                        inside = false;
                        continue;
                }
                if (!inside && w->n == MAX_WORDS)
                        break;
                if (!inside)
                        w->words[w->n++] = (struct word){.start = used};
                inside = true;
                w->letters[used++] = lower(cp);
                w->words[w->n - 1].n++;
        }
        return w;
}

struct cli_words *words_free(struct cli_words *w) {
        if (w)
                free(w->letters);
        free(w);
        return NULL;
}

/* Whether the text at @i, where a word begins, begins with @word. */
static bool begins(
        const struct cli_words *w, const struct word *word, const uint8_t *s, size_t n, size_t i) {
        for (size_t k = 0; k < word->n; k++)
                if (i >= n || lower(next(s, n, &i)) != w->letters[word->start + k])
                        return false;
        return true;
}

bool words_fit(const struct cli_words *w, const struct confab_turn *turn) {
        const uint8_t *s = turn->text.data;
        size_t n = turn->text.size, n_found = 0;
        bool found[MAX_WORDS] = {false}, inside = false;

        for (size_t i = 0; i < n && n_found < w->n;) {
                size_t at = i;
                bool letter = is_letter(next(s, n, &i));

                for (size_t k = 0; letter && !inside && k < w->n; k++)
                        if (!found[k] && begins(w, &w->words[k], s, n, at)) {
                                found[k] = true;
                                n_found++;
                        }
                inside = letter;
        }
        return n_found == w->n;
}
