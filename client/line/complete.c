/* SPDX-License-Identifier: MIT */
/*
 * Tab: what all words have in common is put in place of the word's beginning; a single one is followed by a space, unless
 * it ends with what goes on ('/', '='). Where nothing can be added, the words are listed.
 */
#include "base/cleanup.h"
#include "base/util.h"
#include "client/cli.h"
#include "client/line/editor.h"
#include "client/line/terminal.h"
#include <string.h>

#define GAP 2 /* columns between the words of a list */
#define LISTED_MAX ((size_t)100)

void line_words_add(struct line_words *w, const char *word) {
        char **grown =
                w->n < LINE_WORDS_MAX ? reallocarray(w->words, w->n + 1, sizeof(*w->words)) : NULL;

        if (!grown)
                return;
        w->words = grown;
        w->words[w->n] = strdup(word);
        w->n += w->words[w->n] != NULL;
}

static int compare(const void *a, const void *b) {
        return strcmp(*(char *const *)a, *(char *const *)b);
}

/* In order, each once. */
static void sort(struct line_words *w) {
        size_t n = 0;

        if (w->n > 0)
                qsort(w->words, w->n, sizeof(*w->words), compare);
        for (size_t i = 0; i < w->n; i++)
                if (n > 0 && strcmp(w->words[n - 1], w->words[i]) == 0)
                        free(w->words[i]);
                else
                        w->words[n++] = w->words[i];
        w->n = n;
}

/* Bytes that all words begin with, in whole characters. */
static size_t common(const struct line_words *w) {
        size_t n = strlen(w->words[0]);

        for (size_t i = 1; i < w->n; i++) {
                size_t k = 0;

                while (k < n && w->words[i][k] == w->words[0][k])
                        k++;
                n = k;
        }
        while (n > 0 && ((unsigned char)w->words[0][n] & 0xc0) == 0x80)
                n--;
        return n;
}

static void list(const struct line_words *w) {
        size_t width = 0, n = MIN(w->n, LISTED_MAX), columns = terminal_columns(), per_row;

        for (size_t i = 0; i < n; i++)
                width = MAX(width, safe_width(w->words[i], strlen(w->words[i])));
        per_row = MAX(columns / (width + GAP), (size_t)1);
        putchar('\n');
        for (size_t i = 0; i < n; i++) {
                struct buf safe = BUF_NULL;
                bool last = (i + 1) % per_row == 0 || i + 1 == n;
                size_t own = safe_width(w->words[i], strlen(w->words[i]));

                if (safe_append(&safe, w->words[i], strlen(w->words[i]), false) == 0 && safe.data)
                        fputs((const char *)safe.data, stdout);
                printf("%*s", last ? 0 : (int)(width + GAP - own), "");
                if (last)
                        putchar('\n');
                buf_deinit(&safe);
        }
        if (w->n > n)
                printf("... and %zu more\n", w->n - n);
        fflush(stdout);
}

/* Put text[0..from) and the words' common beginning before the cursor. */
static unsigned char apply(EditLine *el, const char *text, const struct line_words *w) {
        size_t n = w->n > 0 ? common(w) : 0, typed = strlen(text) - w->from;
        bool one = w->n == 1 && n > 0 && !strchr("/=", w->words[0][n - 1]);
        const char *space = one ? " " : "";
        _cleanup_(freep) char *added = NULL;

        if (w->n == 0 || n < typed)
                return CC_ERROR;
        if (w->n > 1 && n == typed) {
                list(w);
                return CC_REDISPLAY;
        }
        if (asprintf(&added, "%.*s%s", (int)n, w->words[0], space) < 0)
                added = NULL;
        if (!added)
                return CC_ERROR;
        for (const char *s = text + w->from; *s; s++)
                if (((unsigned char)*s & 0xc0) != 0x80)
                        el_deletestr(el, 1);
        return el_insertstr(el, added) < 0 ? CC_ERROR : CC_REFRESH;
}

unsigned char line_complete_key(EditLine *el, int key) {
        struct line *l = line_of(el);
        struct line_words words = {0};
        _cleanup_(freep) char *text = line_text_of(el, false);
        unsigned char r;

        if (!text || !l->complete)
                return CC_ERROR;
        l->complete(l->userdata, text, &words);
        sort(&words);
        r = apply(el, text, &words);
        for (size_t i = 0; i < words.n; i++)
                free(words.words[i]);
        free(words.words);
        return r;
}
