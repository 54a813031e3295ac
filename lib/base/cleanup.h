/* SPDX-License-Identifier: MIT */
#pragma once
/* Scope-bound destructors. Destructors take NULL and half-built objects and return NULL. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A variable may exist for its destructor alone (a lock); clang 14 would call it unused. */
#define _cleanup_(fn) __attribute__((__cleanup__(fn), __unused__))
/* DEFINE_CLEANUP(struct foo *, foo_free) makes foo_freep() for _cleanup_(foo_freep). */
#define DEFINE_CLEANUP(type, fn)                                                                   \
        static inline void fn##p(type *p) {                                                        \
                if (*p)                                                                            \
                        fn(*p);                                                                    \
        }                                                                                          \
        struct cleanup_needs_a_semicolon
#define TAKE_PTR(p)                                                                                \
        ({                                                                                         \
                __typeof__(p) *_pp = &(p);                                                         \
                __typeof__(p) _v = *_pp;                                                           \
                *_pp = NULL;                                                                       \
                _v;                                                                                \
        })
#define TAKE_FD(fd)                                                                                \
        ({                                                                                         \
                int *_pf = &(fd);                                                                  \
                int _f = *_pf;                                                                     \
                *_pf = -1;                                                                         \
                _f;                                                                                \
        })

static inline void freep(void *p) {
        free(*(void **)p);
}
static inline void closep(int *fd) {
        if (*fd >= 0)
                close(*fd);
}
static inline void fclosep(FILE **f) {
        if (*f)
                fclose(*f);
}
