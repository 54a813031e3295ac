/* SPDX-License-Identifier: MIT */
/*
 * What is noted about conversations: title, metadata, session and expiry are columns of the
 * conversation, tags are rows of their own.
 *
 * 1. A title, metadata or session that is not there is NULL.
 * 2. A tag's row repeats its conversation's owner and time of change, so that a page of the
 *    conversations with a tag is a walk through an index. A trigger of the schema keeps the time.
 * 3. To note something is a change (updated_usec), but no change of the tokens (revision).
 */
#include "base/clock.h"
#include "base/utf8.h"
#include "base/util.h"
#include "store/store-private.h"
#include <string.h>

static void bind_if(struct query *q, const struct about *a, enum about_field field, const char *s) {
        if (a->has & field && *s)
                query_bind_text(q, s, strlen(s));
        else
                query_bind_null(q);
}

static int set_columns(
        struct store *s, uint64_t id, const struct about *a, uint64_t updated_usec, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_ABOUT_SET, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, id);
        query_bind_i64(&q, a->has);
        bind_if(&q, a, ABOUT_TITLE, a->title);
        bind_if(&q, a, ABOUT_METADATA, a->metadata);
        bind_if(&q, a, ABOUT_SESSION, a->session);
        query_bind_i64(&q, a->expires_after);
        query_bind_u64(&q, updated_usec);
        return query_run(&q, e);
}

static int clear_tags(struct store *s, uint64_t id, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_TAG_CLEAR, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, id);
        return query_run(&q, e);
}

static int insert_tag(struct store *s, const struct store_conv *c, size_t n, const char *tag,
        uint64_t updated_usec, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_TAG_INSERT, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, c->id);
        query_bind_i64(&q, (int64_t)n);
        query_bind_text(&q, tag, strlen(tag));
        query_bind_u64(&q, c->owner);
        query_bind_u64(&q, updated_usec);
        return query_run(&q, e);
}

int about_set(struct store *s, const struct store_conv *c, const struct about *a,
        uint64_t updated_usec, struct err *e) {
        int r = set_columns(s, c->id, a, updated_usec, e);

        if (r == 0 && a->has & ABOUT_TAGS)
                r = clear_tags(s, c->id, e);
        for (size_t i = 0; r == 0 && a->has & ABOUT_TAGS && i < a->n_tags; i++)
                r = insert_tag(s, c, i, a->tags[i], updated_usec, e);
        return r;
}

int about_inherit(struct store *s, uint64_t from, const struct store_conv *to, struct err *e) {
        static const enum store_stmt steps[] = {STMT_ABOUT_COPY, STMT_TAG_COPY};

        for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
                _query_ q = {};
                int r = query_begin(&q, s, steps[i], e);

                if (r < 0)
                        return r;
                query_bind_u64(&q, to->id);
                query_bind_u64(&q, from);
                if (steps[i] == STMT_TAG_COPY)
                        query_bind_u64(&q, to->updated_usec);
                r = query_run(&q, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* --- reading --- */

struct tags {
        char text[ABOUT_TAGS_MAX][ABOUT_TAG_MAX + 1];
        const char *places[ABOUT_TAGS_MAX];
        size_t n;
};

/* The text in column @col, at most @most bytes. "" for NULL. */
static const char *read_text(struct query *q, int col, size_t most) {
        size_t n;
        const char *p = query_bytes(q, col, &n);

        if (n > most || memchr(p, 0, n)) {
                query_bad(q, col);
                return "";
        }
        return p; /* SQLite puts a NUL behind a text */
}

static int read_tags(struct store *s, uint64_t id, struct tags *ret, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_TAG_LIST, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, id);
        while ((r = query_step(&q, e)) > 0) {
                const char *tag = read_text(&q, 0, ABOUT_TAG_MAX);

                if (ret->n == ABOUT_TAGS_MAX)
                        query_bad(&q, 0);
                r = query_check(&q, e);
                if (r < 0)
                        return r;
                ret->places[ret->n] = strcpy(ret->text[ret->n], tag);
                ret->n++;
        }
        return r;
}

/* Copy @a, which the register has, for the caller. NULL if nothing is noted. */
static int take(const struct about *a, store_admit_fn *admit, void *arg, struct about **ret,
        struct err *e) {
        struct about lines = *a;
        size_t size = about_size(a);
        void *block;
        int r;

        /* That metadata is JSON was checked when it came, and fsck checks it again. */
        lines.has &= ~(unsigned)ABOUT_METADATA;
        r = about_check(&lines, e);
        if (r == 0 && !utf8_valid(a->metadata, strlen(a->metadata)))
                r = -ERR_INVALID;
        if (r == -ERR_INVALID)
                return err_set(e, ERR_CORRUPT, "register is damaged: what is noted cannot be so");
        if (r == 0 && a->has && admit)
                r = admit(arg, size, e);
        if (r < 0 || !a->has)
                return r;
        block = malloc(size);
        if (!block)
                return err_set(e, ERR_NOMEM, "no memory for what is noted of a conversation");
        *ret = about_put(block, a);
        return 0;
}

static void note(struct about *a, enum about_field field, bool is_set) {
        a->has |= is_set ? field : 0;
}

int about_read(struct store *s, uint64_t id, store_admit_fn *admit, void *arg, struct about **ret,
        struct err *e) {
        struct tags tags = {};
        struct about a = {};
        _query_ q = {};
        int r = read_tags(s, id, &tags, e);

        if (r == 0)
                r = query_begin(&q, s, STMT_ABOUT_GET, e);
        if (r < 0)
                return r;
        query_bind_u64(&q, id);
        r = query_step(&q, e);
        if (r == 0)
                return err_set(e, ERR_NOT_FOUND, "no conversation %llu", (unsigned long long)id);
        if (r < 0)
                return r;
        a.title = read_text(&q, 0, ABOUT_TITLE_MAX);
        a.metadata = read_text(&q, 1, ABOUT_METADATA_MAX);
        a.session = read_text(&q, 2, ABOUT_SESSION_MAX);
        a.expires_after = query_u32(&q, 3);
        a.tags = tags.places;
        a.n_tags = tags.n;
        r = query_check(&q, e);
        if (r < 0)
                return r;
        note(&a, ABOUT_TITLE, *a.title);
        note(&a, ABOUT_METADATA, *a.metadata);
        note(&a, ABOUT_SESSION, *a.session);
        note(&a, ABOUT_EXPIRES, a.expires_after);
        note(&a, ABOUT_TAGS, a.n_tags);
        return take(&a, admit, arg, ret, e);
}

int store_about(struct store *s, uint64_t id, store_admit_fn *admit, void *arg, struct about **ret,
        struct err *e) {
        _cleanup_(read_endp) struct store *reading = NULL;
        struct about *got = NULL;
        int r = read_begin(&s, &reading, e);

        if (r == 0)
                r = about_read(s, id, admit, arg, &got, e);
        if (r == 0)
                *ret = got;
        return r;
}
