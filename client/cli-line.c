/* SPDX-License-Identifier: MIT */
#include "client/cli-line.h"
#include "base/utf8.h"
#include "base/util.h"
#include "client/cli.h"
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>

#define KEY_CTRL(c) ((c)&0x1f)
#define DEL 0x7f
#define ESC 0x1b
/* Longer than anybody types; a paste may be that long. */
#define LINE_MAX_SIZE (1u << 20)

/* ---- moving and changing ---- */

static size_t before(const struct line *l, size_t at) {
        while (at > 0 && (l->text.data[--at] & 0xc0) == 0x80)
                ;
        return at;
}

static size_t after(const struct line *l, size_t at) {
        while (at < l->text.size && (l->text.data[++at] & 0xc0) == 0x80)
                ;
        return MIN(at, l->text.size);
}

static size_t word_before(const struct line *l, size_t at) {
        while (at > 0 && l->text.data[at - 1] == ' ')
                at--;
        while (at > 0 && l->text.data[at - 1] != ' ')
                at--;
        return at;
}

static size_t word_after(const struct line *l, size_t at) {
        while (at < l->text.size && l->text.data[at] == ' ')
                at++;
        while (at < l->text.size && l->text.data[at] != ' ')
                at++;
        return at;
}

static void erase(struct line *l, size_t from, size_t to) {
        struct buf *t = &l->text;

        if (from >= to)
                return;
        memmove(t->data + from, t->data + to, t->size - to + 1);
        t->size -= to - from;
        l->cursor = from;
}

static void insert(struct line *l, const void *s, size_t n) {
        struct buf *t = &l->text;

        t->max = LINE_MAX_SIZE;
        if (buf_reserve(t, n) < 0)
                return;
        memmove(t->data + l->cursor + n, t->data + l->cursor, t->size - l->cursor);
        memcpy(t->data + l->cursor, s, n);
        t->size += n;
        t->data[t->size] = 0;
        l->cursor += n;
}

static void set_text(struct line *l, const char *s) {
        l->text.size = l->cursor = l->first = 0;
        if (l->text.data)
                l->text.data[0] = 0;
        if (s)
                insert(l, s, strlen(s));
}

static void browse(struct line *l, bool older) {
        if (older ? l->browsing == 0 : l->browsing == l->n_history)
                return;
        if (l->browsing == l->n_history) {
                free(l->draft);
                l->draft = strdup(l->text.data ? (char *)l->text.data : "");
        }
        l->browsing += older ? -1 : 1;
        set_text(l, l->browsing == l->n_history ? l->draft : l->history[l->browsing]);
}

/* ---- keys ---- */

/* @s is what came between ESC [ (or ESC O) and the last byte. */
static void take_sequence(struct line *l, const char *s, char last) {
        bool by_word = strcmp(s, "1;5") == 0 || strcmp(s, "1;3") == 0;

        switch (last) {
        case 'A':
                browse(l, true);
                break;
        case 'B':
                browse(l, false);
                break;
        case 'C':
                l->cursor = by_word ? word_after(l, l->cursor) : after(l, l->cursor);
                break;
        case 'D':
                l->cursor = by_word ? word_before(l, l->cursor) : before(l, l->cursor);
                break;
        case 'H':
                l->cursor = 0;
                break;
        case 'F':
                l->cursor = l->text.size;
                break;
        case '~':
                if (strcmp(s, "3") == 0)
                        erase(l, l->cursor, after(l, l->cursor));
                else if (strcmp(s, "1") == 0 || strcmp(s, "7") == 0)
                        l->cursor = 0;
                else if (strcmp(s, "4") == 0 || strcmp(s, "8") == 0)
                        l->cursor = l->text.size;
                else if (strcmp(s, "200") == 0)
                        l->pasting = true;
                else if (strcmp(s, "201") == 0)
                        l->pasting = false;
                break;
        }
}

static enum line_outcome take_control(struct line *l, uint8_t c) {
        switch (c) {
        case '\r':
        case '\n':
                return LINE_DONE;
        case KEY_CTRL('C'):
                return LINE_INTERRUPT;
        case KEY_CTRL('D'):
                if (l->text.size == 0)
                        return LINE_END;
                erase(l, l->cursor, after(l, l->cursor));
                break;
        case KEY_CTRL('L'):
                return LINE_CLEAR;
        case KEY_CTRL('A'):
                l->cursor = 0;
                break;
        case KEY_CTRL('E'):
                l->cursor = l->text.size;
                break;
        case KEY_CTRL('B'):
                l->cursor = before(l, l->cursor);
                break;
        case KEY_CTRL('F'):
                l->cursor = after(l, l->cursor);
                break;
        case KEY_CTRL('P'):
                browse(l, true);
                break;
        case KEY_CTRL('N'):
                browse(l, false);
                break;
        case KEY_CTRL('H'):
        case DEL:
                erase(l, before(l, l->cursor), l->cursor);
                break;
        case KEY_CTRL('K'):
                erase(l, l->cursor, l->text.size);
                break;
        case KEY_CTRL('U'):
                erase(l, 0, l->cursor);
                break;
        case KEY_CTRL('W'):
                erase(l, word_before(l, l->cursor), l->cursor);
                break;
        }
        return LINE_MORE;
}

/* An ESC has come; true when the key is complete (or hopeless). */
static bool take_escape(struct line *l) {
        uint8_t last = l->key[l->n_key - 1];
        char params[sizeof(l->key)] = "";

        if (l->n_key == 1)
                return false;
        if (l->n_key == 2 && (last == '[' || last == 'O'))
                return false;
        if (l->n_key == 2) { /* Alt with a key */
                if (last == 'b')
                        l->cursor = word_before(l, l->cursor);
                else if (last == 'f')
                        l->cursor = word_after(l, l->cursor);
                return true;
        }
        if (last < 0x40 || last > 0x7e)
                return l->n_key == sizeof(l->key);
        memcpy(params, l->key + 2, l->n_key - 3);
        take_sequence(l, params, (char)last);
        return true;
}

enum line_outcome line_feed(struct line *l, uint8_t byte) {
        int k;

        if (l->n_key == 0 && (byte < 0x20 || byte == DEL) && byte != ESC) {
                if (!l->pasting)
                        return take_control(l, byte);
                if (byte == '\r' || byte == '\n')
                        insert(l, "\n", 1);
                else if (byte == '\t')
                        insert(l, "\t", 1);
                return LINE_MORE;
        }
        l->key[l->n_key++] = byte;
        if (l->key[0] == ESC) {
                if (take_escape(l))
                        l->n_key = 0;
                return LINE_MORE;
        }
        k = utf8_decode(l->key, l->n_key, NULL);
        if (k > 0)
                insert(l, l->key, l->n_key);
        if (k >= 0)
                l->n_key = 0;
        return LINE_MORE;
}

/* ---- drawing ---- */

/* Columns of the characters in [from, to), each newline or tab being one. */
static size_t width(const struct line *l, size_t from, size_t to) {
        return from < to ? safe_width((char *)l->text.data + from, to - from) : 0;
}

int line_draw(struct line *l, const char *prompt, unsigned columns, struct buf *out) {
        size_t used = safe_width(prompt, strlen(prompt)), room, end;
        int r;

        room = columns > used + 2 ? columns - (unsigned)used - 1 : 1;
        if (l->first > l->cursor)
                l->first = l->cursor;
        if (l->cursor - l->first > 8 * room) /* a long way: not column by column */
                l->first = before(l, l->cursor - 8 * room);
        while (l->first < l->cursor && width(l, l->first, l->cursor) >= room)
                l->first = after(l, l->first);
        for (end = l->first; end < l->text.size; end = after(l, end))
                if (width(l, l->first, after(l, end)) > room)
                        break;
        r = buf_printf(out, "\r%s", prompt);
        for (size_t i = l->first; i < end && r == 0; i = after(l, i)) {
                uint8_t c = l->text.data[i];

                if (c == '\n')
                        r = buf_append_str(out, "\xe2\x86\xb5"); /* U+21B5 */
                else if (c == '\t')
                        r = buf_append_str(out, " ");
                else
                        r = safe_append(out, l->text.data + i, after(l, i) - i, false);
        }
        if (r == 0)
                r = buf_printf(out, "\x1b[K\r");
        used += width(l, l->first, l->cursor);
        if (r == 0 && used)
                r = buf_printf(out, "\x1b[%zuC", used);
        return r;
}

void line_reset(struct line *l) {
        if (l->text.size) {
                char *s = strdup((char *)l->text.data);

                if (s && l->n_history == LINE_HISTORY) {
                        free(l->history[0]);
                        memmove(l->history, l->history + 1,
                                (LINE_HISTORY - 1) * sizeof(l->history[0]));
                        l->n_history--;
                }
                if (s)
                        l->history[l->n_history++] = s;
        }
        free(TAKE_PTR(l->draft));
        l->browsing = l->n_history;
        l->n_key = 0;
        l->pasting = false;
        set_text(l, NULL);
}

void line_deinit(struct line *l) {
        for (size_t i = 0; i < l->n_history; i++)
                free(l->history[i]);
        free(l->draft);
        buf_deinit(&l->text);
        *l = LINE_NULL;
}

/* ---- the terminal ---- */

static void put(const void *s, size_t n) {
        const char *p = s;

        while (n) {
                ssize_t k = write(STDOUT_FILENO, p, n);

                if (k < 0 && errno != EINTR)
                        return;
                if (k > 0) {
                        p += k;
                        n -= (size_t)k;
                }
        }
}

static void draw(struct line *l, const char *prompt) {
        struct buf out = BUF_NULL;
        struct winsize w = {0};

        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) < 0 || w.ws_col == 0)
                w.ws_col = 80;
        if (line_draw(l, prompt, w.ws_col, &out) == 0)
                put(out.data, out.size);
        buf_deinit(&out);
}

static enum line_outcome edit(struct line *l, const char *prompt) {
        enum line_outcome outcome = LINE_MORE;

        draw(l, prompt);
        while (outcome == LINE_MORE) {
                uint8_t byte;
                ssize_t n = read(STDIN_FILENO, &byte, 1);

                if (n < 0 && errno == EINTR)
                        continue; /* a resized window, for one */
                if (n <= 0)
                        return LINE_END;
                outcome = line_feed(l, byte);
                if (outcome == LINE_CLEAR) {
                        put("\x1b[H\x1b[2J", 7);
                        outcome = LINE_MORE;
                }
                if (!l->pasting)
                        draw(l, prompt);
        }
        return outcome;
}

enum line_outcome line_read(struct line *l, const char *prompt) {
        struct termios saved, raw;
        enum line_outcome outcome;

        if (tcgetattr(STDIN_FILENO, &saved) < 0)
                return LINE_END;
        raw = saved;
        raw.c_iflag &= (tcflag_t) ~(ICRNL | INLCR | IGNCR | IXON | ISTRIP);
        raw.c_lflag &= (tcflag_t) ~(ICANON | ECHO | IEXTEN | ISIG);
        raw.c_cc[VMIN] = 1;
        raw.c_cc[VTIME] = 0;
        if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) < 0)
                return LINE_END;
        put("\x1b[?2004h", 8); /* pastes are bracketed, so that their newlines do not send */
        outcome = edit(l, prompt);
        put("\x1b[?2004l\r\n", 10);
        tcsetattr(STDIN_FILENO, TCSADRAIN, &saved);
        return outcome;
}
