/* SPDX-License-Identifier: MIT */
#include "service/loop.h"
#include <event2/event.h>
#include <stdlib.h>

struct event *loop_event_new(struct event_base *base, int fd, short what,
        void (*fn)(int fd, short what, void *arg), void *arg) {
        struct event *ev = calloc(1, event_get_struct_event_size());

        if (ev && event_assign(ev, base, fd, what, fn, arg) < 0) {
                free(ev);
                return NULL;
        }
        return ev;
}

struct event *loop_event_free(struct event *ev) {
        if (ev) {
                event_del(ev);
                free(ev);
        }
        return NULL;
}
