/* SPDX-License-Identifier: MIT */
/*
 * Keys that libedit lacks. ~/.editrc is read between our defaults, which it may change, and the keys that a chat
 * cannot do without.
 */
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/util.h"
#include "client/line/editor.h"
#include "client/line/terminal.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wchar.h>

#define PASTE_MAX (1u << 20) /* characters; a longer paste is cut */
#define PASTE_END L"\x1b[201~"
#define TEXT_MAX_SIZE ((size_t)4 << 20) /* bytes that an editor may write */

/* Ctrl-C: the line ends as with Enter, which moves the cursor below it, and is then discarded. */
static unsigned char give_up(EditLine *el, int key) {
        line_interrupt(line_of(el));
        el_wpush(el, L"\n");
        return CC_NORM;
}

/* Ctrl-Z: stop until the program is continued. The line is drawn again by the news of that. */
static unsigned char stop(EditLine *el, int key) {
        kill(0, SIGTSTP);
        return CC_NORM;
}

/* ---- several lines ---- */

static unsigned char insert_newline(EditLine *el, int key) {
        return el_winsertstr(el, L"\n") < 0 ? CC_ERROR : CC_REFRESH;
}

/* Enter: behind a backslash at the end it begins another line. Two backslashes are two. */
static unsigned char enter(EditLine *el, int key) {
        const LineInfoW *info = el_wline(el);
        const wchar_t *s = info->lastchar;

        while (s > info->buffer && s[-1] == L'\\')
                s--;
        if (info->cursor == info->lastchar && (info->lastchar - s) % 2 == 1) {
                el_deletestr(el, 1);
                return insert_newline(el, key);
        }
        el_wpush(el, L"\n");
        return CC_NORM;
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

        while (!line_of(el)->interrupted && el_wgetc(el, &c) == 1) {
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

/* ---- the user's own editor ---- */

/* Run it on a file, with the terminal as it was: 0 if it ended well. */
static int run_editor(const char *path) {
        char shell[] = "sh", flag[] = "-c", script[] = "exec ${VISUAL:-${EDITOR:-vi}} \"$1\"";
        _cleanup_(freep) char *file = strdup(path);
        char *argv[] = {shell, flag, script, shell, file, NULL};
        int status = -1;
        pid_t pid;

        if (!file)
                return -1;
        terminal_lend();
        if (posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ) == 0)
                while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                        ;
        terminal_reclaim();
        return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

/* What becomes of @text in the editor, without the newline at its end; NULL if that failed. To be freed. */
static char *edit_text(const char *text) {
        const char *folder = getenv("XDG_RUNTIME_DIR");
        _cleanup_(freep) char *path = NULL;
        char *edited = NULL;
        struct err e;
        size_t size;
        int fd, r;

        if (asprintf(&path, "%s/confab-XXXXXX.md", folder && *folder ? folder : "/tmp") < 0)
                path = NULL;
        fd = path ? mkostemps(path, 3, O_CLOEXEC) : -1;
        if (fd < 0)
                return NULL;
        r = file_write(fd, text, strlen(text), &e);
        close(fd);
        if (r == 0 && run_editor(path) == 0 &&
                file_read_all(path, TEXT_MAX_SIZE, &edited, &size, &e) == 0 && size > 0 &&
                edited[size - 1] == '\n')
                edited[size - 1] = 0;
        unlink(path);
        return edited;
}

/* Ctrl-X Ctrl-E, as in shells; but the text comes back to be looked at, and Enter sends it. */
static unsigned char use_editor(EditLine *el, int key) {
        _cleanup_(freep) char *text = line_text_of(el, true), *edited = NULL;

        if (!text)
                return CC_ERROR;
        edited = edit_text(text);
        if (edited)
                line_replace(el, edited);
        return edited ? CC_REDISPLAY : CC_ERROR;
}

/* ---- binding them ---- */

void line_bind_keys(struct line *l) {
        static const struct {
                const char *name, *help;
                unsigned char (*fn)(EditLine *el, int key);
                const char *
                        key; /* as libedit writes keys; "\\200" is KEY_PASTE, "\\201" KEY_NEWLINE */
        } ours[] = {
                {"confab-paste", "take what is pasted as it is", take_paste, "\\200"},
                {"confab-give-up", "throw the line away", give_up, "^C"},
                {"confab-stop", "stop the program", stop, "^Z"},
                {"confab-enter", "send the line, or begin another behind a backslash", enter, "^M"},
                {"confab-newline", "begin another line", insert_newline, "\\201"},
                {"confab-complete", "complete a command", line_complete_key, "^I"},
                {"confab-editor", "edit the text in $VISUAL or $EDITOR", use_editor, "^X^E"},
        };
        static const char *const both[] = {"confab-give-up", "confab-stop", "confab-enter"};
        EditLine *el = l->el;
        const char *editor = "emacs";

        el_set(el, EL_EDITOR, "emacs");
        el_set(el, EL_BIND, "^W", "ed-delete-prev-word", NULL);
        el_set(el, EL_BIND, "^R", "em-inc-search-prev", NULL);
        el_set(el, EL_BIND, "\\e[1;5C", "em-next-word", NULL); /* with Ctrl, and with Alt */
        el_set(el, EL_BIND, "\\e[1;5D", "ed-prev-word", NULL);
        el_set(el, EL_BIND, "\\e[1;3C", "em-next-word", NULL);
        el_set(el, EL_BIND, "\\e[1;3D", "ed-prev-word", NULL);
        el_source(el, NULL);
        el_get(el, EL_EDITOR, &editor);
        for (size_t i = 0; i < ARRAY_SIZE(ours); i++) {
                el_set(el, EL_ADDFN, ours[i].name, ours[i].help, ours[i].fn);
                el_set(el, EL_BIND, ours[i].key, ours[i].name, NULL);
        }
        l->vi = strcmp(editor, "vi") == 0;
        if (l->vi) { /* in command mode, too; and vi's Ctrl-R only redraws */
                el_set(el, EL_BIND, "^R", "em-inc-search-prev", NULL);
                for (size_t i = 0; i < ARRAY_SIZE(both); i++)
                        for (size_t k = 0; k < ARRAY_SIZE(ours); k++)
                                if (strcmp(both[i], ours[k].name) == 0)
                                        el_set(el, EL_BIND, "-a", ours[k].key, both[i], NULL);
        }
}
