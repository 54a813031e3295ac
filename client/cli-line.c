/* SPDX-License-Identifier: MIT */
/*
 * The chat's line editor: libedit, plus features that it lacks.
 *
 * 1. A paste is one text. Terminals mark where a paste begins and ends when asked to (bracketed
 *    paste). The newlines of a paste are part of the line, and only Enter sends the line.
 * 2. Ctrl-C discards the line, so it has to be a key here and not a signal. The same then goes for
 *    Ctrl-Z, which stops the program as the terminal would. libedit restores the terminal before
 *    the program stops or a signal ends it, and takes the terminal again afterwards.
 * 3. Text is UTF-8, whatever the locale says: the daemon accepts nothing else.
 * 4. On a terminal that cannot move its cursor (TERM=dumb) lines are read without any of this.
 *
 * ~/.editrc is read, so users who prefer vi's keys can have them.
 */
#include "client/cli-line.h"
#include "base/cleanup.h"
#include "base/util.h"
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#define HISTORY_SIZE 100
#define PASTE_MAX (1u << 20) /* characters; a longer paste is cut */
#define PASTE_ON "\x1b[?2004h"
#define PASTE_OFF "\x1b[?2004l"
#define PASTE_BEGIN "\\e[200~" /* as libedit writes keys */
#define PASTE_END L"\x1b[201~"

struct line {
        EditLine *el;
        History *history;
        const char *prompt;
        char *text; /* owned: the last line */
        bool edits; /* else the terminal is read as it is */
        bool interrupted;
};

static void put(const char *s) {
        fputs(s, stdout);
        fflush(stdout);
}

static struct line *line_of(EditLine *el) {
        void *l = NULL;

        el_get(el, EL_CLIENTDATA, &l);
        return l;
}

static char *show_prompt(EditLine *el) {
        return (char *)(uintptr_t)line_of(el)->prompt;
}

/* Ctrl-C: the line ends as with Enter, which moves the cursor below it, and is then discarded. */
static unsigned char give_up(EditLine *el, int key) {
        line_of(el)->interrupted = true;
        el_wpush(el, L"\n");
        return CC_NORM;
}

/* Ctrl-Z: stop until the program is continued. */
static unsigned char stop(EditLine *el, int key) {
        put(PASTE_OFF);
        kill(0, SIGTSTP);
        put(PASTE_ON);
        return CC_REDISPLAY;
}

/* ---- pastes ---- */

/* Newlines become \n; of the other control characters only tabs stay. */
static size_t clean(wchar_t *s, size_t n) {
        wchar_t before = 0;
        size_t kept = 0;

        for (size_t i = 0; i < n; i++) {
                wchar_t c = s[i];
                bool newline = c == L'\r' || (c == L'\n' && before != L'\r');

                if (newline || c == L'\t' || (c >= 0x20 && (c < 0x7f || c > 0x9f)))
                        s[kept++] = newline ? L'\n' : c;
                before = c;
        }
        s[kept] = 0;
        return kept;
}

static bool ends_paste(const wchar_t *s, size_t n) {
        size_t n_end = wcslen(PASTE_END);

        return n >= n_end && wmemcmp(s + n - n_end, PASTE_END, n_end) == 0;
}

/* Read a paste until its end (or the terminal's end). The paste is read even without memory to hold
 * it, so that none of it is taken for keys. */
static unsigned char take_paste(EditLine *el, int key) {
        _cleanup_(freep) wchar_t *s = calloc(PASTE_MAX + 1, sizeof(*s));
        wchar_t last[8] = L""; /* the newest characters */
        size_t n = 0, n_last = ARRAY_SIZE(last) - 1;
        wchar_t c;

        while (el_wgetc(el, &c) == 1) {
                wmemmove(last, last + 1, n_last - 1);
                last[n_last - 1] = c;
                if (s && n < PASTE_MAX)
                        s[n++] = c;
                if (ends_paste(last, n_last))
                        break;
        }
        if (!s)
                return CC_ERROR;
        if (ends_paste(s, n))
                n -= wcslen(PASTE_END);
        if (clean(s, n) > 0 && el_winsertstr(el, s) < 0)
                return CC_ERROR;
        return CC_REFRESH;
}

/* ---- the editor ---- */

/* Can the terminal do what editing needs? */
static bool can_edit(EditLine *el) {
        const char *up = NULL;

        return el_get(el, EL_GETTC, "up", &up) == 0 && up;
}

static void bind_keys(EditLine *el) {
        el_set(el, EL_EDITOR, "emacs");
        el_set(el, EL_BIND, "^W", "ed-delete-prev-word", NULL);
        el_set(el, EL_BIND, "\\e[1;5C", "em-next-word", NULL); /* with Ctrl, and with Alt */
        el_set(el, EL_BIND, "\\e[1;5D", "ed-prev-word", NULL);
        el_set(el, EL_BIND, "\\e[1;3C", "em-next-word", NULL);
        el_set(el, EL_BIND, "\\e[1;3D", "ed-prev-word", NULL);
        el_source(el, NULL);
        el_set(el, EL_ADDFN, "confab-paste", "take what is pasted as it is", take_paste);
        el_set(el, EL_BIND, PASTE_BEGIN, "confab-paste", NULL);
        el_set(el, EL_ADDFN, "confab-give-up", "throw the line away", give_up);
        el_set(el, EL_BIND, "^C", "confab-give-up", NULL);
        el_set(el, EL_ADDFN, "confab-stop", "stop the program", stop);
        el_set(el, EL_BIND, "^Z", "confab-stop", NULL);
        el_set(el, EL_SETTY, "-d", "-isig", "-icrnl", "-inlcr", NULL);
}

struct line *line_new(const char *prompt) {
        struct line *l = calloc(1, sizeof(*l));
        HistEvent event;

        if (!l)
                return NULL;
        if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
                setlocale(LC_CTYPE, "C.UTF-8");
        l->prompt = prompt;
        l->history = history_init();
        l->el = isatty(STDIN_FILENO) ? el_init("confab", stdin, stdout, stderr) : NULL;
        if (!l->el || !l->history)
                return line_free(l);
        history(l->history, &event, H_SETSIZE, HISTORY_SIZE);
        el_set(l->el, EL_CLIENTDATA, l);
        el_set(l->el, EL_PROMPT, show_prompt);
        el_set(l->el, EL_HIST, history, l->history);
        el_set(l->el, EL_SIGNAL, 1); /* resized, stopped and ended: the terminal is given back */
        l->edits = can_edit(l->el);
        if (l->edits)
                bind_keys(l->el);
        else
                el_set(l->el, EL_EDITMODE, 0);
        return l;
}

struct line *line_free(struct line *l) {
        if (!l)
                return NULL;
        if (l->el)
                el_end(l->el);
        if (l->history)
                history_end(l->history);
        free(l->text);
        free(l);
        return NULL;
}

/* The line without its newline; it is also added to the history. */
static void take_line(struct line *l, const char *s, size_t n) {
        HistEvent event;

        if (n && s[n - 1] == '\n')
                n--;
        l->text = strndup(s, n);
        if (l->text && *l->text)
                history(l->history, &event, H_ENTER, l->text);
}

enum line_outcome line_read(struct line *l, const char **ret) {
        const char *s;
        int n = 0;

        free(TAKE_PTR(l->text));
        *ret = "";
        l->interrupted = false;
        if (l->edits) { /* from here on keys are keys, and pastes are marked */
                el_set(l->el, EL_PREP_TERM, 1);
                put(PASTE_ON);
        }
        s = el_gets(l->el, &n);
        if (l->edits)
                put(PASTE_OFF);
        el_set(l->el, EL_PREP_TERM, 0);
        if (!s || n <= 0) {
                put("\n");
                return LINE_END;
        }
        if (l->interrupted)
                return LINE_INTERRUPT;
        take_line(l, s, (size_t)n);
        if (l->text)
                *ret = l->text;
        return LINE_DONE;
}
