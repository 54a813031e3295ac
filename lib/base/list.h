/* SPDX-License-Identifier: MIT */
#pragma once
/* Intrusive doubly linked list with a sentinel head. */
#include "base/util.h"

struct list {
        struct list *next, *prev;
};
#define LIST_INIT(l) ((struct list){&(l), &(l)})

static inline void list_init(struct list *l) {
        l->next = l->prev = l;
}
static inline bool list_empty(const struct list *l) {
        return l->next == l;
}
static inline void list_insert_before(struct list *where, struct list *n) {
        n->prev = where->prev;
        n->next = where;
        where->prev->next = n;
        where->prev = n;
}
static inline void list_append(struct list *head, struct list *n) {
        list_insert_before(head, n);
}
static inline void list_prepend(struct list *head, struct list *n) {
        list_insert_before(head->next, n);
}
/* Unlink; the node is left as an empty list, so that a second unlink is harmless. */
static inline void list_unlink(struct list *n) {
        n->prev->next = n->next;
        n->next->prev = n->prev;
        list_init(n);
}
/* Everything from @from to @to, which need not be initialised. */
static inline void list_move_all(struct list *to, struct list *from) {
        list_init(to);
        while (!list_empty(from)) {
                struct list *l = from->next;

                list_unlink(l);
                list_append(to, l);
        }
}
#define list_entry(ptr, type, member) container_of(ptr, type, member)
#define list_for_each(it, head) for ((it) = (head)->next; (it) != (head); (it) = (it)->next)
/* Safe against unlinking @it. */
#define list_for_each_safe(it, tmp, head)                                                          \
        for ((it) = (head)->next, (tmp) = (it)->next; (it) != (head);                              \
                (it) = (tmp), (tmp) = (it)->next)
