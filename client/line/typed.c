/* SPDX-License-Identifier: MIT */
/*
 * Keys, from the terminal to libedit.
 *
 * What was typed stands in one queue, whether it came while a line was edited or while a reply was written. So what is
 * typed ahead is taken for the same keys later, Enter included: a line that was ended ahead is sent as
 * soon as it is its turn. The queue is bounded; what does not fit waits in the terminal, which then takes no more.
 *
 * Two sequences that begin with Escape become one key each here, and are not bound as sequences: in libedit's vi mode
 * Escape is a key by itself, and would wait for another one. An Escape that nothing follows within ESCAPE_MS is one.
 */
#include "base/utf8.h"
#include "base/util.h"
#include "client/line/editor.h"
#include "client/line/terminal.h"
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#define ESCAPE_MS 50

static const struct {
        const char *bytes;
        wchar_t key;
} sequences[] = {{"\x1b[200~", KEY_PASTE}, {"\x1b\r", KEY_NEWLINE}};

/* Read once; the terminal is ready. */
static void read_keys(struct line *l) {
        char bytes[512];
        ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));

        if (n < 0 && (errno == EINTR || errno == EAGAIN))
                return;
        if (n <= 0 || buf_append(&l->typed, bytes, (size_t)n) < 0)
                l->gone = true;
}

int line_typed_fd(const struct line *l) {
        return l->edits && !l->gone && l->typed.size < TYPED_MAX ? STDIN_FILENO : -1;
}

void line_take_typed(struct line *l) {
        struct pollfd p = {.events = POLLIN};

        while ((p.fd = line_typed_fd(l)) >= 0 && poll(&p, 1, 0) == 1)
                read_keys(l);
}

void line_drop_typed(struct line *l) {
        tcflush(STDIN_FILENO, TCIFLUSH);
        l->typed.size = 0;
}

void line_begin_with(struct line *l, const char *text) {
        struct buf b = BUF_NULL;
        int r = buf_append_str(&b, "\x1b[200~"); /* as if it was pasted */

        for (; *text && r == 0; text++)
                if (*text != '\x1b')
                        r = buf_append(&b, text, 1);
        if (r == 0)
                r = buf_append_str(&b, "\x1b[201~");
        if (r == 0 && l->typed.size > 0)
                r = buf_append(&b, l->typed.data, l->typed.size);
        if (r == 0 && l->edits) {
                struct buf old = l->typed;

                l->typed = b;
                b = old;
        }
        buf_deinit(&b);
}

/* The sequence that the queue begins with, or NULL; *more: it may become one. */
static const char *find_sequence(const struct line *l, wchar_t *ret, bool *more) {
        *more = false;
        for (size_t i = 0; i < ARRAY_SIZE(sequences); i++) {
                size_t size = strlen(sequences[i].bytes), n = MIN(size, l->typed.size);

                if (memcmp(sequences[i].bytes, l->typed.data, n) != 0 ||
                        (l->vi && sequences[i].key == KEY_NEWLINE))
                        continue;
                if (n == size) {
                        *ret = sequences[i].key;
                        return sequences[i].bytes;
                }
                *more = true;
        }
        return NULL;
}

enum taken { NOTHING, KEY, MAYBE };

/* The next key of the queue; NOTHING: it is not there as a whole; MAYBE: more may belong to it. */
static enum taken take_key(struct line *l, wchar_t *ret, bool decide) {
        const char *sequence;
        uint32_t cp = 0xfffd;
        bool more;
        int n;

        if (l->typed.size == 0)
                return NOTHING;
        sequence = find_sequence(l, ret, &more);
        if (sequence) {
                buf_consume(&l->typed, strlen(sequence));
                return KEY;
        }
        if (more && !decide && !l->gone)
                return MAYBE;
        n = utf8_decode(l->typed.data, l->typed.size, &cp);
        if (n < 0 && !l->gone)
                return NOTHING;
        buf_consume(&l->typed, (size_t)MAX(n, 1));
        *ret = n > 0 && (cp < 0x80 || cp > 0x9f) ? (wchar_t)cp : 0xfffd;
        return KEY;
}

/* ---- what happens while a line is edited ---- */

/* Terminals wrap anew when they are resized, so what is shown of the line has another height. It is
 * cleared and drawn again. */
static void resized(struct line *l) {
        line_clear(l);
        el_resize(l->el);
        el_set(l->el, EL_REFRESH);
}

static void take_news(struct line *l) {
        unsigned news = terminal_news();

        if (news & TERMINAL_INTERRUPTED)
                line_interrupt(l);
        else if (news & TERMINAL_RESUMED && l->edits)
                el_set(l->el, EL_REFRESH);
        else if (news & TERMINAL_RESUMED)
                line_put(l->prompt);
        else if (news & TERMINAL_RESIZED && l->edits)
                resized(l);
        if (news & (TERMINAL_RESUMED | TERMINAL_RESIZED) && l->edits && !l->interrupted)
                line_draw(l);
}

int line_next_key(EditLine *el, wchar_t *ret) {
        struct line *l = line_of(el);
        bool decide = false;
        enum taken taken;

        if (!l->noted)
                terminal_note();
        l->noted = true;
        if (l->edits)
                line_draw(l);
        while ((taken = take_key(l, ret, decide)) != KEY) {
                struct pollfd p[] = {
                        {.fd = STDIN_FILENO, .events = POLLIN},
                        {.fd = terminal_fd(), .events = POLLIN},
                };
                int n;

                if (l->gone)
                        return 0;
                n = poll(p, ARRAY_SIZE(p), taken == MAYBE ? ESCAPE_MS : -1);
                if (n < 0 && errno != EINTR)
                        return 0;
                decide = n == 0;
                if (n <= 0)
                        continue;
                if (p[1].revents)
                        take_news(l);
                if (l->interrupted) {
                        *ret = L'\n';
                        return 1;
                }
                if (p[0].revents)
                        read_keys(l);
        }
        return 1;
}
