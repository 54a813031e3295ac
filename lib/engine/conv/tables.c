/* SPDX-License-Identifier: MIT */
/* The tables of conversations in RAM. */
#include "engine/conv/tables.h"

#include <stdlib.h>

#define MAX_TOLD 256 /* damaged conversations to log */

int convs_new(struct convs **ret, struct err *e) {
        struct convs *t = calloc(1, sizeof(*t));
        int r;

        if (!t)
                return err_set(e, ERR_NOMEM, "no memory for the engine");
        list_init(&t->idle);
        list_init(&t->dirty);
        list_init(&t->unsent);
        list_init(&t->waiting[0]);
        list_init(&t->waiting[1]);
        list_init(&t->ready);
        list_init(&t->loading);
        r = map_new(&t->by_id, e);
        if (r == 0)
                r = map_new(&t->recs, e);
        if (r == 0)
                r = map_new(&t->damaged, e);
        if (r < 0) {
                convs_free(t);
                return r;
        }
        *ret = t;
        return 0;
}

struct convs *convs_free(struct convs *t) {
        if (!t)
                return NULL;
        map_free(t->by_id);
        map_free(t->recs);
        map_free(t->damaged);
        free(t);
        return NULL;
}

struct conv *convs_find(struct engine *engine, uint64_t id) {
        return map_get_u64(engine->convs->by_id, id);
}

struct conv *convs_next(struct engine *engine, size_t *it) {
        return map_next(engine->convs->by_id, it);
}

size_t convs_count(struct engine *engine) {
        return map_count(engine->convs->by_id);
}

struct conv *convs_next_idle(struct engine *engine, const struct conv *c) {
        struct list *head = &engine->convs->idle, *next = c ? c->lru.next : head->next;

        return next == head ? NULL : list_entry(next, struct conv, lru);
}

struct conv *convs_next_dirty(struct engine *engine, const struct conv *c) {
        struct list *head = &engine->convs->dirty, *next = c ? c->dirty.next : head->next;

        return next == head ? NULL : list_entry(next, struct conv, dirty);
}

struct conv *convs_next_unsent(struct engine *engine, const struct conv *c) {
        struct list *head = &engine->convs->unsent, *next = c ? c->unsent.next : head->next;

        return next == head ? NULL : list_entry(next, struct conv, unsent);
}

void conv_set_unsent(struct engine *engine, struct conv *c) {
        if (list_empty(&c->unsent))
                list_append(&engine->convs->unsent, &c->unsent);
}

void conv_set_unsent_first(struct engine *engine, struct conv *c) {
        list_unlink(&c->unsent);
        list_prepend(&engine->convs->unsent, &c->unsent);
}

void convs_note_left(struct engine *engine, uint64_t id) {
        struct convs *t = engine->convs;

        for (size_t i = 0; i < t->n_left; i++)
                if (t->left[i] == id)
                        return;
        if (t->n_left < CONVS_LEFT_MAX)
                t->left[t->n_left++] = id;
        else
                t->left_many = true;
}

int convs_take_left(struct engine *engine, uint64_t *ret) {
        struct convs *t = engine->convs;

        if (t->left_many) {
                t->left_many = false;
                t->n_left = 0;
                return 2;
        }
        if (t->n_left == 0)
                return 0;
        *ret = t->left[--t->n_left];
        return 1;
}

size_t convs_n_left(const struct engine *engine) {
        return engine->convs->n_left + engine->convs->left_many;
}

struct conv *convs_next_waiting(struct engine *engine, bool background, const struct conv *c) {
        struct list *head = &engine->convs->waiting[background];
        struct list *next = c ? c->waits.prev : head->prev;

        return next == head ? NULL : list_entry(next, struct conv, waits);
}

void conv_set_waiting(
        struct engine *engine, struct conv *c, bool waits, bool background, uint64_t order) {
        struct list *head = &engine->convs->waiting[background], *it;

        list_unlink(&c->waits);
        if (!waits)
                return;
        c->waits_order = order;
        list_for_each (it, head)
                if (list_entry(it, struct conv, waits)->waits_order > order)
                        break;
        list_insert_before(it, &c->waits);
}

bool convs_take_over(struct engine *engine) {
        bool over = engine->convs->over;

        engine->convs->over = false;
        return over;
}

void convs_set_over(struct engine *engine) {
        engine->convs->over = true;
}

void conv_limit_all(struct engine *engine, uint64_t owner, const struct quotas *quotas) {
        struct conv *c;
        size_t it = 0;

        while ((c = convs_next(engine, &it))) {
                if (c->owner != owner)
                        continue;
                conv_limit(c, quotas);
                c->is_over = c->ram_share < QUOTA_RAM_ALL;
                engine->convs->over = engine->convs->over || c->is_over;
        }
}

void convs_take_ready(struct engine *engine, struct list *list) {
        list_move_all(list, &engine->convs->ready);
}

void convs_make_ready(struct engine *engine, struct list *link) {
        list_append(&engine->convs->ready, link);
        engine->again = true;
}

struct conv_load *conv_loader(struct engine *engine, uint64_t id) {
        struct list *it;

        list_for_each (it, &engine->convs->loading)
                if (list_entry(it, struct conv_load, link)->id == id)
                        return list_entry(it, struct conv_load, link);
        return NULL;
}

void conv_load_begin(struct engine *engine, struct conv_load *load, uint64_t id) {
        load->id = id;
        list_append(&engine->convs->loading, &load->link);
}

void conv_load_end(struct conv_load *load, struct list *followers) {
        list_unlink(&load->link);
        list_move_all(followers, &load->followers);
}

bool convs_tell_damage(struct engine *engine, uint64_t id) {
        static char told; /* only its address is used */
        struct map *damaged = engine->convs->damaged;

        /* With this many damaged conversations, more log lines are of no use. */
        return !map_get_u64(damaged, id) && map_count(damaged) < MAX_TOLD &&
               map_add_u64(damaged, id, &told, NULL) == 0;
}

void convs_forget_damage(struct engine *engine, uint64_t id) {
        map_remove_u64(engine->convs->damaged, id);
}
