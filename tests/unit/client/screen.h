/* SPDX-License-Identifier: MIT */
#pragma once
/* The other side of a pseudoterminal: a user who types, and waits until something is shown. */
#include "base/buf.h"
#include "util/test.h"
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

struct screen {
        int fd;
        struct buf text; /* what was shown, and not waited for yet */
};

/* Read what is shown; false when nobody has the terminal any more. */
static inline bool screen_look(struct screen *s) {
        char chunk[4096];
        ssize_t n = read(s->fd, chunk, sizeof(chunk));

        if (n > 0)
                assert_int_equal(buf_append(&s->text, chunk, (size_t)n), 0);
        return n > 0;
}

static inline const uint8_t *screen_find(const struct screen *s, const char *text) {
        return s->text.size ? memmem(s->text.data, s->text.size, text, strlen(text)) : NULL;
}

/* Until @text is shown; what came before it is forgotten, after it is known that @not (unless NULL) is not there. */
static inline void screen_wait_without(struct screen *s, const char *text, const char * not ) {
        const uint8_t *at, *bad;

        while (!(at = screen_find(s, text)))
                assert_true(screen_look(s));
        bad = not ? screen_find(s, not ) : NULL;
        assert_false(bad && bad < at);
        buf_consume(&s->text, (size_t)(at - s->text.data) + strlen(text));
}

static inline void screen_wait(struct screen *s, const char *text) {
        screen_wait_without(s, text, NULL);
}

static inline void screen_type(struct screen *s, const char *keys) {
        size_t n = strlen(keys);

        while (n) {
                struct pollfd p = {s->fd, POLLIN | POLLOUT, 0};
                ssize_t k;

                assert_int_equal(poll(&p, 1, -1), 1);
                if (p.revents & POLLIN)
                        assert_true(screen_look(s));
                if (!(p.revents & POLLOUT))
                        continue;
                k = write(s->fd, keys, n < 256 ? n : 256);
                assert_true(k > 0);
                keys += k;
                n -= (size_t)k;
        }
}
