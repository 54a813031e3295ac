/* SPDX-License-Identifier: MIT */
/*
 * Searching conversations by words.
 *
 * 1. A search is only words, whatever is typed: there is no syntax, and nothing in it is an error. A word
 *    of the search is found where a word begins with it; one that is split ("don't") where its parts
 *    follow each other. All of them have to be in one row of the index (words.c).
 * 2. Nothing but the index and the times of the conversations found is looked at before the page is known.
 *    The rows that are visited are counted: a search that finds more than SEARCH_ROWS is refused.
 * 3. The place of a hit is looked for in the text itself, up to the first word.
 */
#include "base/buf.h"
#include "base/utf8.h"
#include "base/util.h"
#include "store/words.h"
#include <string.h>

#define SEARCH_ROWS 1000000
#define SNIPPET_BEFORE 60 /* bytes at most, before and behind the beginning of the first word */
#define SNIPPET_BEHIND 100
#define ELLIPSIS "\xe2\x80\xa6"
#define SNIPPET_SIZE (SNIPPET_BEFORE + SNIPPET_BEHIND + 2 * sizeof(ELLIPSIS))

/* --- what is searched --- */

struct sought {
        struct store *s;
        uint64_t owner;    /* whose conversations */
        struct buf match;  /* for FTS5, or (with PostgreSQL) a tsquery */
        struct buf firsts; /* the first part of each word, each behind its length in a byte */
        bool any;          /* parts of the present word were found */
        size_t n;
};

static void sought_deinit(struct sought *x) {
        buf_deinit(&x->match);
        buf_deinit(&x->firsts);
}

static int append(struct buf *out, const char *text) {
        return buf_append(out, text, strlen(text));
}

static int add_part(void *arg, const char *word, size_t n, size_t from, size_t to) {
        struct sought *x = arg;
        uint8_t size = (uint8_t)n; /* at most WORD_MAX */
        int r;

        (void)from;
        (void)to;
        if (x->any) {
                r = append(&x->match, x->s->pg ? " <-> " : " ");
        } else {
                r = x->n > 0 ? append(&x->match, x->s->pg ? " & " : " AND ") : 0;
                if (r == 0 && !x->s->pg)
                        r = append(&x->match, "\"");
                if (r == 0)
                        r = buf_append(&x->firsts, &size, 1);
                if (r == 0)
                        r = buf_append(&x->firsts, word, n);
        }
        x->any = true;
        if (r == 0 && x->s->pg)
                return words_put(&x->match, x->owner, word, n);
        return r < 0 ? r : buf_append(&x->match, word, n);
}

/* One word of the search, between blanks. */
static int add_word(struct sought *x, const char *text, size_t n, struct err *e) {
        int r;

        x->any = false;
        r = words_split(x->s, text, n, add_part, x, e);
        if (r == 0 && x->any) {
                r = append(&x->match, x->s->pg ? ":*" : "\" *");
                x->n++;
        }
        return r == -ERR_NOMEM ? err_set(e, ERR_NOMEM, "no memory for a search") : r;
}

static int seek(struct sought *x, const char *search, struct err *e) {
        size_t all = strnlen(search, STORE_SEARCH_MAX + 1), at = 0;
        int r = 0;

        if (all > STORE_SEARCH_MAX)
                return err_set(
                        e, ERR_INVALID, "search: at most %d bytes are taken", STORE_SEARCH_MAX);
        if (!utf8_valid(search, all))
                return err_set(e, ERR_INVALID, "search: it is not UTF-8");
        while (r == 0 && at < all) {
                size_t n = strcspn(search + at, " \t\r\n");

                r = add_word(x, search + at, n, e);
                at += n + (at + n < all);
        }
        if (r == 0 && x->n > 0 && buf_append(&x->match, "", 1) < 0)
                r = err_set(e, ERR_NOMEM, "no memory for a search");
        return r;
}

/* --- what was found --- */

struct found {
        struct store_list_place place;
        uint32_t n; /* 1 + the newest turn, or 0 */
};

struct page {
        const struct store_list *list;
        struct found *found; /* [n] of max + 1, latest change first */
        size_t n, max;
};

static bool is_behind(const struct store_list_place *a, const struct store_list_place *b) {
        return a->updated_usec < b->updated_usec ||
               (a->updated_usec == b->updated_usec && a->id < b->id);
}

/* Into its place among the first max + 1. */
static void keep(struct page *page, const struct found *f) {
        size_t i = page->n;

        while (i > 0 && is_behind(&page->found[i - 1].place, &f->place))
                i--;
        if (i > page->max)
                return;
        page->n = MIN(page->n + 1, page->max + 1);
        memmove(&page->found[i + 1], &page->found[i], (page->n - i - 1) * sizeof(*page->found));
        page->found[i] = *f;
}

static int consider(struct store *s, struct page *page, uint64_t id, uint32_t n, struct err *e) {
        const struct store_list *list = page->list;
        struct found f = {.place.id = id, .n = n};
        bool tagged;
        _query_ q = {};
        int r = query_begin(&q, s, STMT_SEARCH_CONV, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, id);
        if (list->tag)
                query_bind_text(&q, list->tag, strlen(list->tag));
        else
                query_bind_null(&q);
        r = query_step(&q, e);
        if (r <= 0)
                return r;
        tagged = query_number(&q, 2, 1);
        f.place.updated_usec = query_number(&q, 1, INT64_MAX);
        if (query_u64(&q, 0) != list->owner) /* no such row: the index is not as it should be */
                return 0;
        r = query_check(&q, e);
        if (r == 0 && tagged && (!list->goes_on || is_behind(&f.place, &list->after)))
                keep(page, &f);
        return r;
}

/* Visit the rows by falling number: of each conversation the newest turn comes first. */
static int collect(struct store *s, const struct sought *x, struct page *page, struct err *e) {
        uint64_t last = 0, visited = 0;
        _query_ q = {};
        int r = query_begin(&q, s, STMT_SEARCH_FIND, e);

        if (r < 0)
                return r;
        query_bind_text(&q, (const char *)x->match.data, x->match.size - 1);
        s->words_owner = page->list->owner;
        while ((r = query_step(&q, e)) > 0) {
                uint64_t id;
                uint32_t n;

                if (++visited > SEARCH_ROWS)
                        return err_set(e, ERR_TOO_LARGE,
                                "search: more than %d turns have these words", SEARCH_ROWS);
                words_place((int64_t)query_u64(&q, 0), &id, &n);
                if (id == last)
                        continue;
                last = id;
                r = consider(s, page, id, n, e);
                if (r < 0)
                        return r;
        }
        return r;
}

/* --- where it was found --- */

struct hit {
        const struct sought *sought;
        size_t at;
        bool is;
};

static int look_at(void *arg, const char *word, size_t n, size_t from, size_t to) {
        struct hit *hit = arg;
        const struct buf *firsts = &hit->sought->firsts;

        (void)to;
        for (size_t i = 0; i < firsts->size; i += 1 + firsts->data[i])
                if (firsts->data[i] <= n &&
                        memcmp(firsts->data + i + 1, word, firsts->data[i]) == 0) {
                        hit->at = from;
                        hit->is = true;
                        return 1;
                }
        return 0;
}

/* Does a character begin at text[at]? */
static bool begins(const char *text, size_t n, size_t at) {
        return at >= n || ((unsigned char)text[at] & 0xc0) != 0x80;
}

/* Text as a line of UTF-8: blanks for control characters, and for what is no character. */
static char *put_line(char *out, const char *text, size_t n) {
        for (size_t i = 0; i < n;) {
                int size = utf8_decode((const uint8_t *)text + i, n - i, NULL);

                if (size < 1 || (size == 1 && ((unsigned char)text[i] < 0x20 || text[i] == 0x7f))) {
                        *out++ = ' ';
                        i++;
                        continue;
                }
                memcpy(out, text + i, (size_t)size);
                out += size;
                i += (size_t)size;
        }
        return out;
}

static void cut_snippet(char *out, const char *text, size_t n, size_t at) {
        size_t from = at - MIN(at, (size_t)SNIPPET_BEFORE), to = MIN(n, at + SNIPPET_BEHIND);

        while (!begins(text, n, from) && from < at)
                from++;
        while (!begins(text, n, to) && to > at)
                to--;
        if (from > 0)
                out = stpcpy(out, ELLIPSIS);
        out = put_line(out, text + from, to - from);
        *out = '\0';
        if (to < n)
                strcpy(out, ELLIPSIS);
}

/* The present row's text, in column @col. */
static int make_snippet(
        struct query *q, int col, const struct sought *x, char **ret, struct err *e) {
        struct hit hit = {.sought = x};
        const char *text;
        size_t n;
        int r;

        text = query_bytes(q, col, &n);
        r = query_check(q, e);
        if (r == 0)
                r = words_split(x->s, text, n, look_at, &hit, e);
        if (r < 0)
                return r;
        *ret = malloc(SNIPPET_SIZE);
        if (!*ret)
                return err_set(e, ERR_NOMEM, "no memory for a search");
        cut_snippet(*ret, text, n, hit.is ? MIN(hit.at, n) : 0);
        return 0;
}

static int read_snippet(struct store *s, const struct sought *x, uint64_t id, uint32_t n,
        char **ret, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, n > 0 ? STMT_SEARCH_TURNS : STMT_SEARCH_NAMES, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, id);
        if (n > 0) {
                query_bind_i64(&q, n - 1);
                query_bind_i64(&q, n);
        }
        r = query_step(&q, e);
        return r <= 0 ? r : make_snippet(&q, n > 0, x, ret, e);
}

static int read_found(struct store *s, const struct sought *x, const struct found *f,
        store_admit_fn *admit, void *arg, struct store_listed *out, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_SEARCH_ROW, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, f->place.id);
        r = query_step(&q, e);
        if (r == 0)
                r = err_set(e, ERR_CORRUPT, "register is damaged: a conversation is missing");
        if (r > 0)
                r = admit ? admit(arg, SNIPPET_SIZE, e) : 0;
        if (r == 0)
                r = listed_read(&q, s, admit, arg, out, e);
        if (r < 0)
                return r;
        out->hit.is = true;
        out->hit.in_turn = f->n > 0;
        out->hit.turn = f->n > 0 ? f->n - 1 : 0;
        return read_snippet(s, x, f->place.id, f->n, &out->hit.snippet, e);
}

static int read_page(struct store *s, const struct sought *x, const struct page *page,
        store_admit_fn *admit, void *arg, struct store_listed *out, size_t *ret_n, bool *ret_more,
        struct err *e) {
        size_t n = MIN(page->n, page->max);

        *ret_more = page->n > page->max;
        for (size_t i = 0; i < n; i++) {
                int r = read_found(s, x, &page->found[i], admit, arg, &out[i], e);

                if ((r == -ERR_LIMIT || r == -ERR_TOO_LARGE) && i > 0) {
                        *ret_more = true;
                        return 0;
                }
                if (r < 0)
                        return r;
                *ret_n = i + 1;
        }
        return 0;
}

size_t store_snippet_size(void) {
        return SNIPPET_SIZE;
}

int search_list(struct store *s, const struct store_list *list, store_admit_fn *admit, void *arg,
        struct store_listed *out, size_t max, size_t *ret_n, bool *ret_more, struct err *e) {
        _cleanup_(sought_deinit) struct sought x = {
                .s = s, .owner = list->owner, .match = BUF_NULL, .firsts = BUF_NULL};
        _cleanup_(freep) struct found *found = NULL;
        struct page page = {.list = list, .max = max};
        int r;

        if (list->owner == OWNER_ANY || !list->by_update)
                return err_set(e, ERR_INVALID,
                        "search: in the conversations of one user, latest change first");
        r = seek(&x, list->search, e);
        if (r < 0 || x.n == 0)
                return r;
        found = page.found = calloc(max + 1, sizeof(*found));
        if (!found)
                return err_set(e, ERR_NOMEM, "no memory for a search");
        r = collect(s, &x, &page, e);
        if (r == -ERR_CORRUPT)
                return err_wrap(e, r,
                        "the search index is damaged, it is made again when the "
                        "daemon starts");
        return r < 0 ? r : read_page(s, &x, &page, admit, arg, out, ret_n, ret_more, e);
}
