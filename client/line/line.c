/* SPDX-License-Identifier: MIT */
/*
 * The chat's line editor: libedit, plus features that it lacks.
 *
 * 1. A paste is one text. Terminals mark where a paste begins and ends when asked to (bracketed paste). The newlines
 *    of a paste are part of the line. Alt-Enter, and Enter behind a backslash, add one; only Enter sends the line.
 * 2. Ctrl-C discards the line, so it has to be a key here and not a signal. The same then goes for Ctrl-Z, which stops
 *    the program as the terminal would. Signals, and that the terminal is given back, are terminal.c's affair.
 * 3. Between lines the terminal neither echoes nor collects lines: what is typed waits for the next line (typed.c), while
 *    Ctrl-C, Ctrl-Z and Ctrl-\ are signals.
 * 4. Text is UTF-8, whatever the locale says: the daemon accepts nothing else.
 * 5. On a terminal that cannot move its cursor (TERM=dumb) lines are read without any of this; a backslash at the end of
 *    a line lets the next one follow.
 *
 * ~/.editrc is read, so users who prefer vi's keys can have them.
 */
#include "client/line/line.h"
#include "base/cleanup.h"
#include "base/util.h"
#include "client/line/editor.h"
#include "client/line/terminal.h"
#include <langinfo.h>
#include <locale.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#define PASTE_ON "\x1b[?2004h"
#define PASTE_OFF "\x1b[?2004l"

void line_put(const char *s) {
        fputs(s, stdout);
        fflush(stdout);
}

struct line *line_of(EditLine *el) {
        void *l = NULL;

        el_get(el, EL_CLIENTDATA, &l);
        return l;
}

static char *show_prompt(EditLine *el) {
        return (char *)(uintptr_t)line_of(el)->prompt;
}

void line_interrupt(struct line *l) {
        l->interrupted = true;
        line_drop_typed(l);
}

char *line_text_of(EditLine *el, bool all) {
        const LineInfo *info = el_line(el);

        return strndup(
                info->buffer, (size_t)((all ? info->lastchar : info->cursor) - info->buffer));
}

void line_replace(EditLine *el, const char *text) {
        const LineInfoW *info = el_wline(el);
        int n = (int)(info->lastchar - info->buffer);

        el_cursor(el, n);
        el_deletestr(el, n);
        if (*text)
                el_insertstr(el, text);
}

/* ---- the editor ---- */

/* Can the terminal do what editing needs? */
static bool can_edit(EditLine *el) {
        const char *up = NULL;

        return el_get(el, EL_GETTC, "up", &up) == 0 && up;
}

struct line *line_new(const struct line_options *o) {
        struct line *l = calloc(1, sizeof(*l));

        if (!l)
                return NULL;
        if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
                setlocale(LC_CTYPE, "C.UTF-8");
        l->prompt = o->prompt;
        l->complete = o->complete;
        l->userdata = o->userdata;
        l->history = line_history_new(o->history);
        if (!l->history || terminal_take(TERMINAL_AT_ONCE) < 0)
                return line_free(l);
        l->el = el_init("confab", stdin, stdout, stderr);
        if (!l->el)
                return line_free(l);
        el_set(l->el, EL_CLIENTDATA, l);
        el_set(l->el, EL_PROMPT, show_prompt);
        el_set(l->el, EL_HIST, history, line_history_entries(l->history));
        el_wset(l->el, EL_GETCFN, line_next_key);
        el_set(l->el, EL_SIGNAL, 0);
        l->edits = can_edit(l->el);
        if (!l->edits) {
                el_set(l->el, EL_EDITMODE, 0);
                return l;
        }
        line_bind_keys(l);
        el_set(l->el, EL_SETTY, "-d", "-isig", "-icrnl", "-inlcr", NULL);
        el_set(l->el, EL_SETTY, "-x", "-icanon", "-echo", "-icrnl", "-inlcr", "+noflsh", NULL);
        terminal_note();
        return l;
}

struct line *line_free(struct line *l) {
        if (!l)
                return NULL;
        if (l->el)
                el_end(l->el);
        terminal_give_back();
        line_history_free(l->history);
        buf_deinit(&l->typed);
        free(l->text);
        free(l);
        return NULL;
}

bool line_edits(const struct line *l) {
        return l->edits;
}

/* ---- lines ---- */

/* On a terminal without editing: whether another line follows. */
static bool goes_on(struct line *l) {
        size_t n = strlen(l->text), k = 0;

        while (k < n && l->text[n - 1 - k] == '\\')
                k++;
        if (l->edits || k % 2 == 0)
                return false;
        l->text[n - 1] = '\n';
        return true;
}

/* What the editor gives, without its newline, behind what there is. False at the end of the terminal. */
static bool read_part(struct line *l) {
        int n = 0;
        const char *s = el_gets(l->el, &n);
        char *text = NULL;

        if (!s || n <= 0)
                return false;
        if (s[n - 1] == '\n')
                n--;
        if (asprintf(&text, "%s%.*s", l->text ? l->text : "", n, s) < 0)
                text = NULL;
        free(l->text);
        l->text = text;
        return true;
}

enum line_outcome line_read(struct line *l, const char **ret) {
        bool there;

        free(TAKE_PTR(l->text));
        *ret = "";
        l->interrupted = l->noted = false;
        if (terminal_news() & TERMINAL_INTERRUPTED)
                line_drop_typed(l); /* too late to stop anything */
        if (l->edits) { /* keys are keys before pastes are marked: a paste may have any of them */
                el_set(l->el, EL_PREP_TERM, 1);
                terminal_mark(PASTE_ON, PASTE_OFF);
        }
        do
                there = read_part(l);
        while (there && !l->interrupted && l->text && goes_on(l));
        if (l->edits) {
                terminal_mark(NULL, NULL);
                terminal_note();
        }
        if (l->interrupted || !there) {
                if (!there || !l->edits)
                        line_put("\n");
                free(TAKE_PTR(l->text));
                return l->interrupted ? LINE_INTERRUPT : LINE_END;
        }
        if (!l->text)
                return LINE_DONE;
        *ret = l->text;
        if (*l->text && *l->text != ' ')
                line_history_add(l->history, l->text);
        return LINE_DONE;
}
