/* SPDX-License-Identifier: MIT */
/*
 * The search index: which turns have which words (FTS5, table `search`).
 *
 * A row of the index is a turn, or what a conversation is called (its name, title and tags together). Its
 * number is the conversation's id and the turn's number, so both are known without another table. The
 * index has no copy of the text ("contentless"): to take a row out, FTS5 is given the text once more.
 * So each call that changes a text takes the old row out and puts the new one in, in its transaction.
 *
 * 1. Each word stands in the index with its owner before it ("1000oowl": the owner 1000 has said "owl").
 *    A search looks at the words of its owner and at nothing else, neither for the answer nor for its
 *    cost (I6). The table's tokenizer is FTS5's unicode61, which splits texts and queries alike, without
 *    accents and upper case, with the owner put before each word. So other programs cannot open this one
 *    table; nothing that people want to read is in it.
 * 2. The index is made of the texts and can be made again (words_rebuild()). It is, when the daemon
 *    starts, if this library splits texts in another way than the one that made it, or if it was found
 *    damaged. A damaged index fails no other call: from then on nothing is written to it, and only
 *    searches fail.
 * 3. What was removed stays in FTS5's older segments until these are merged, so meter "search_removed"
 *    tells that something was, and store_scrub() merges all segments into one, in steps: a commit waits for
 *    one step at most. A pass writes the whole index anew. So that programs that remove much do not wear out
 *    the disk, the next pass begins only when the last one's bytes are MERGE_RATE on average.
 *
 *      words_take_out() ──→ search_removed ──→ first step ──→ search_merging ──→ last step
 *                            (commits with        (both change in                (a stop before it: the
 *                             the removal)         one transaction)               next start begins anew)
 *
 * 4. With PostgreSQL a row has a tsvector of the same words, which the same tokenizer (of an empty database in memory) makes of
 *    a text, so that whichever daemon of whichever machine writes or asks means the same. There rule 2 and 3 have no meaning:
 *    an index is not damaged alone, and what was removed is the server's to vacuum. A tsvector has an end (1 MiB): of very long
 *    turns the beginning counts. It counts places up to 16383: behind that the parts of a word ("don't") need not
 *    follow each other.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "base/util.h"
#include "store/pg.h"
#include "store/words.h"
#include <string.h>

#define WORDS_VERSION 1   /* of how texts become words; a change has the index made again */
#define WORD_MAX 64       /* bytes; of longer words the beginning counts */
#define TURN_BITS 24      /* of a row's number */
#define MERGE_PAGES 64    /* written in one step, about 4 KiB each */
#define MERGE_STEPS 16    /* of one call of store_scrub() */
#define MERGE_RATE 131072 /* bytes per second */

/* --- words --- */

/* Two of them for each connection: FTS5's own as it is, for queries and places (store.words), and within the
 * table, where each word gets its owner. */
struct words {
        struct store *s;
        fts5_tokenizer kind;
        Fts5Tokenizer *tokenizer;
};

struct words *words_free(struct words *w) {
        if (w && w->tokenizer)
                w->kind.xDelete(w->tokenizer);
        free(w);
        return NULL;
}

/* SQLITE_ERROR: this SQLite has no FTS5. */
static int find_api(struct store *s, fts5_api **ret) {
        sqlite3_stmt *st = NULL;
        fts5_api *api = NULL;
        int rc = sqlite3_prepare_v2(s->db, "SELECT fts5(?1)", -1, &st, NULL);

        if (rc == SQLITE_OK)
                rc = sqlite3_bind_pointer(st, 1, &api, "fts5_api_ptr", NULL);
        if (rc == SQLITE_OK)
                rc = sqlite3_step(st);
        sqlite3_finalize(st);
        if (rc == SQLITE_ROW)
                rc = api ? SQLITE_OK : SQLITE_ERROR;
        *ret = api;
        return rc;
}

static int make_words(struct words **ret, struct store *s, fts5_api *api) {
        const char *args[] = {"remove_diacritics", "2"};
        struct words *w = calloc(1, sizeof(*w));
        void *context = NULL;
        int rc;

        if (!w)
                return SQLITE_NOMEM;
        w->s = s;
        rc = api->xFindTokenizer(api, "unicode61", &context, &w->kind);
        if (rc == SQLITE_OK)
                rc = w->kind.xCreate(context, args, 2, &w->tokenizer);
        if (rc != SQLITE_OK)
                words_free(w);
        else
                *ret = w;
        return rc;
}

/* Of longer words the beginning counts. */
static size_t word_size(const char *word, int n) {
        size_t size = MIN((size_t)n, (size_t)WORD_MAX);

        return size < (size_t)n ? size - utf8_incomplete_tail(word, size) : size;
}

/* --- the table's tokenizer: words with their owner --- */

struct owning {
        void *context;
        int (*put)(void *, int, const char *, int, int, int);
        uint64_t owner;
};

static int own_one(void *arg, int flags, const char *word, int n, int from, int to) {
        struct owning *x = arg;
        size_t size = word_size(word, n);
        char owned[24 + WORD_MAX];
        int head = snprintf(owned, sizeof(owned), "%lluo", (unsigned long long)x->owner);

        memcpy(owned + head, word, size);
        return x->put(x->context, flags, owned, head + (int)size, from, to);
}

static int table_create(void *context, const char **args, int n, Fts5Tokenizer **ret) {
        struct store *s = context;
        struct words *w = NULL;
        fts5_api *api;
        int rc = find_api(s, &api);

        if (rc == SQLITE_OK)
                rc = make_words(&w, s, api);
        (void)args;
        (void)n;
        *ret = (Fts5Tokenizer *)w;
        return rc;
}

static void table_delete(Fts5Tokenizer *tokenizer) {
        words_free((struct words *)tokenizer);
}

static int table_split(Fts5Tokenizer *tokenizer, void *context, int flags, const char *text, int n,
        int (*put)(void *, int, const char *, int, int, int)) {
        struct words *w = (struct words *)tokenizer;
        struct owning x = {context, put, w->s->words_owner};

        return w->kind.xTokenize(w->tokenizer, &x, flags, text, n, own_one);
}

int words_connect(struct store *s, struct err *e) {
        static fts5_tokenizer table = {table_create, table_delete, table_split};
        fts5_api *api;
        int rc = find_api(s, &api);

        if (rc == SQLITE_ERROR)
                return err_set(e, ERR_UNSUPPORTED, "this SQLite has no full-text search (FTS5)");
        if (rc == SQLITE_OK)
                rc = api->xCreateTokenizer(api, "confab", s, &table, NULL);
        if (rc == SQLITE_OK)
                rc = make_words(&s->words, s, api);
        return rc == SQLITE_OK ? 0 : store_fail(s, rc, "search index", e);
}

/* --- words as they are --- */

struct splitting {
        words_fn *fn;
        void *arg;
        int r; /* the callback's result */
};

static int split_one(void *arg, int flags, const char *word, int n, int from, int to) {
        struct splitting *x = arg;

        (void)flags;
        x->r = x->fn(x->arg, word, word_size(word, n), (size_t)from, (size_t)to);
        return x->r == 0 ? SQLITE_OK : SQLITE_DONE;
}

int words_split(
        struct store *s, const char *text, size_t n, words_fn *fn, void *arg, struct err *e) {
        struct splitting x = {.fn = fn, .arg = arg};
        struct words *w = s->words;
        int rc;

        if (n == 0)
                return 0;
        /* Texts are shorter: the context bounds them. */
        rc = w->kind.xTokenize(w->tokenizer, &x, FTS5_TOKENIZE_DOCUMENT, text,
                (int)MIN(n, (size_t)INT32_MAX / 2), split_one);
        if (x.r != 0)
                return x.r;
        return rc == SQLITE_OK ? 0 : store_fail(s, rc, "search index", e);
}

/* --- words for PostgreSQL --- */

/* Bytes of a tsvector are at most 1 MiB: of all its words, and of their places. */
#define VECTOR_MAX 1000000
#define PLACE_COST 8

struct vector {
        struct buf *out;
        uint64_t owner;
        size_t size;    /* at most what the server will store */
        uint32_t place; /* of the last word */
        bool ends;      /* no more words */
};

int words_put(struct buf *out, uint64_t owner, const char *word, size_t n) {
        char head[32];
        int r = buf_append(out, head,
                (size_t)snprintf(head, sizeof(head), "'%lluo", (unsigned long long)owner));

        for (size_t i = 0; i < n && r == 0; i++) {
                if (word[i] == '\'' || word[i] == '\\')
                        r = buf_append(out, &word[i], 1);
                if (r == 0)
                        r = buf_append(out, &word[i], 1);
        }
        return r < 0 ? r : buf_append(out, "'", 1);
}

static int add_to_vector(void *arg, const char *word, size_t n, size_t from, size_t to) {
        struct vector *x = arg;
        char place[16];
        int r;

        (void)from;
        (void)to;
        x->size += n + 24 + PLACE_COST;
        if (x->size > VECTOR_MAX)
                return 1;
        x->place = MIN(x->place + 1, 16383u);
        r = words_put(x->out, x->owner, word, n);
        return r < 0 ? r
                     : buf_append(x->out, place,
                               (size_t)snprintf(place, sizeof(place), ":%u ", x->place));
}

/* The words of a text, as text of a tsvector. */
static int make_vector(struct store *s, uint64_t owner, const char *text, size_t size,
        struct buf *out, struct err *e) {
        struct vector x = {.out = out, .owner = owner};
        int r = words_split(s, text, size, add_to_vector, &x, e);

        return r == -ERR_NOMEM ? err_set(e, ERR_NOMEM, "no memory for the search index")
                               : MIN(r, 0);
}

static int put_row_pg(struct store *s, bool remove, uint64_t owner, int64_t row, const char *text,
        size_t size, struct err *e) {
        _cleanup_(buf_deinit) struct buf vector = BUF_NULL;
        _query_ q = {};
        int r = remove ? 0 : make_vector(s, owner, text, size, &vector, e);

        if (r == 0)
                r = query_begin(&q, s, remove ? STMT_SEARCH_REMOVE : STMT_SEARCH_ADD, e);
        if (r < 0)
                return r;
        query_bind_i64(&q, row);
        query_bind_text(&q, (const char *)vector.data, vector.size);
        return query_run(&q, e);
}

/* --- rows --- */

bool words_row(uint64_t id, uint64_t n, int64_t *ret) {
        if (id == 0 || id >> (63 - TURN_BITS) || n >> TURN_BITS)
                return false;
        *ret = (int64_t)(id << TURN_BITS | n);
        return true;
}

void words_place(int64_t row, uint64_t *ret_id, uint32_t *ret_n) {
        *ret_id = (uint64_t)row >> TURN_BITS;
        *ret_n = (uint32_t)row & ((1u << TURN_BITS) - 1);
}

static int note(
        struct store *s, enum store_stmt which, const char *name, int64_t value, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, which, e);

        if (r < 0)
                return r;
        query_bind_text(&q, name, strlen(name));
        if (which != STMT_METER_REMOVE)
                query_bind_i64(&q, value);
        return query_run(&q, e);
}

int words_give_up(struct store *s, struct err *e) {
        if (s->pg) /* rows that can't be read were not written here: there is no text to be found */
                return 0;
        s->words_broken = true;
        return note(s, STMT_METER_KEEP, "search_broken", 1, e);
}

static int put_row(struct store *s, bool remove, uint64_t owner, int64_t row, const char *text,
        size_t size, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, remove ? STMT_SEARCH_REMOVE : STMT_SEARCH_ADD, e);

        if (r < 0)
                return r;
        query_bind_i64(&q, row);
        query_bind_text(&q, text, size);
        s->words_owner = owner;
        return query_run(&q, e);
}

static int change(struct store *s, bool remove, uint64_t owner, uint64_t id, uint64_t n,
        const char *text, size_t size, struct err *e) {
        int64_t number;
        int r;

        if (!words_row(id, n, &number))
                return 0;
        if (s->pg)
                return put_row_pg(s, remove, owner, number, text, size, e);
        if (s->words_broken)
                return words_give_up(s, e);
        r = put_row(s, remove, owner, number, text, size, e);
        if (r == 0 && remove)
                r = note(s, STMT_METER_KEEP, "search_removed", 1, e);
        return r == -ERR_CORRUPT ? words_give_up(s, e) : r;
}

int words_add(struct store *s, uint64_t owner, uint64_t id, uint32_t turn, const char *text,
        size_t size, struct err *e) {
        return change(s, false, owner, id, (uint64_t)turn + 1, text, size, e);
}

/* The present row of a query over n and text. */
static int change_turn(
        struct store *s, struct query *q, bool remove, uint64_t owner, uint64_t id, struct err *e) {
        uint32_t n = query_u32(q, 0);
        size_t size;
        const char *text = query_bytes(q, 1, &size);
        int r = query_check(q, e);

        /* A damaged turn's words are not known. */
        if (r == -ERR_CORRUPT) {
                q->bad = NULL;
                return words_give_up(s, e);
        }
        return r < 0 ? r : change(s, remove, owner, id, (uint64_t)n + 1, text, size, e);
}

static int change_turns(struct store *s, bool remove, uint64_t owner, uint64_t id, uint32_t from,
        uint32_t past, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_SEARCH_TURNS, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, id);
        query_bind_i64(&q, from);
        query_bind_i64(&q, past);
        while ((r = query_step(&q, e)) > 0) {
                r = change_turn(s, &q, remove, owner, id, e);
                if (r < 0)
                        return r;
        }
        return r;
}

int words_add_turns(
        struct store *s, uint64_t owner, uint64_t id, uint32_t from, uint32_t past, struct err *e) {
        return change_turns(s, false, owner, id, from, past, e);
}

int words_take_out_turns(
        struct store *s, uint64_t owner, uint64_t id, uint32_t from, uint32_t past, struct err *e) {
        return change_turns(s, true, owner, id, from, past, e);
}

static int change_names(struct store *s, bool remove, uint64_t owner, uint64_t id, struct err *e) {
        const char *text;
        size_t size;
        _query_ q = {};
        int r = query_begin(&q, s, STMT_SEARCH_NAMES, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, id);
        r = query_step(&q, e);
        if (r <= 0)
                return r;
        text = query_bytes(&q, 0, &size);
        r = query_check(&q, e);
        return r < 0 ? r : change(s, remove, owner, id, 0, text, size, e);
}

int words_add_names(struct store *s, uint64_t owner, uint64_t id, struct err *e) {
        return change_names(s, false, owner, id, e);
}

int words_take_out_names(struct store *s, uint64_t owner, uint64_t id, struct err *e) {
        return change_names(s, true, owner, id, e);
}

/* --- making it again --- */

static int64_t version(void) {
        return WORDS_VERSION * (int64_t)1000000000 + sqlite3_libversion_number();
}

static int read_meter(struct store *s, const char *name, int64_t *ret, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_METER_GET, e);

        if (r < 0)
                return r;
        query_bind_text(&q, name, strlen(name));
        r = query_step(&q, e);
        if (r < 0)
                return r;
        *ret = r > 0 ? (int64_t)query_u64(&q, 0) : 0;
        return query_check(&q, e);
}

/* What a conversation has; of one that cannot be read, nothing. */
static int fill_conv(struct store *s, uint64_t id, struct err *e) {
        struct store_conv c;
        int r = conv_read(s, id, &c, e);

        if (r == -ERR_CORRUPT || r == -ERR_NOT_FOUND)
                return 0;
        if (r == 0)
                r = words_add_names(s, c.owner, id, e);
        return r < 0 ? r : words_add_turns(s, c.owner, id, 0, UINT32_MAX, e);
}

static int fill(struct store *s, struct err *e) {
        _cleanup_(ids_deinit) struct ids ids = {};
        _query_ q = {};
        int r = query_begin(&q, s, STMT_CHECK_CONVS, e);

        if (r == 0)
                r = ids_read(&q, &ids, e);
        query_end(&q);
        for (size_t i = 0; r == 0 && i < ids.n; i++)
                r = fill_conv(s, ids.v[i], e);
        return r;
}

/* A table whose structure record is damaged cannot even be dropped. So it is given that of an empty one
 * first; these tables are FTS5's own, and nobody else writes to them. */
static int drop(struct store *s, struct err *e) {
        int r = store_exec(s, WORDS_DROP, "search index", e);

        if (r != -ERR_CORRUPT)
                return r;
        (void)sqlite3_db_config(s->db, SQLITE_DBCONFIG_DEFENSIVE, 0, NULL);
        r = store_exec(s,
                "DELETE FROM search_data; DELETE FROM search_idx; DELETE FROM search_docsize;"
                "INSERT INTO search_data (id, block) VALUES (1, x''), (10, x'00000000000000');",
                "search index", e);
        (void)sqlite3_db_config(s->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
        return r < 0 ? r : store_exec(s, WORDS_DROP, "search index", e);
}

static int rebuild(struct store *s, struct err *e) {
        static const char *const passed[] = {"search_broken", "search_removed", "search_merging"};
        _cleanup_(txn_endp) struct store *txn = NULL;
        int r = txn_begin(s, &txn, e);

        if (r == 0)
                r = drop(s, e);
        if (r == 0)
                r = store_exec(s, WORDS_CREATE, "search index", e);
        if (r == 0)
                r = fill(s, e);
        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(passed); i++)
                r = note(s, STMT_METER_REMOVE, passed[i], 0, e);
        if (r == 0)
                r = note(s, STMT_METER_SET, "search_version", version(), e);
        return r < 0 ? r : txn_commit(&txn, e);
}

int words_current(struct store *s, struct err *e) {
        int64_t made = 0, broken = 0;
        int r;

        if (s->pg)
                return 1;
        r = read_meter(s, "search_version", &made, e);
        if (r == 0)
                r = read_meter(s, "search_broken", &broken, e);
        return r < 0 ? r : made == version() && !broken;
}

int words_open(struct store *s, struct err *e) {
        int r = words_current(s, e);

        if (r != 0)
                return MIN(r, 0);
        r = rebuild(s, e);
        return r < 0 ? err_wrap(e, r, "making the search index") : 0;
}

/* The first word of a text, quoted. */
struct first {
        struct store *s;
        uint64_t owner;
        struct buf match;
};

static int first_word(void *arg, const char *word, size_t n, size_t from, size_t to) {
        struct first *x = arg;
        int r;

        (void)from;
        (void)to;
        if (x->s->pg)
                r = words_put(&x->match, x->owner, word, n);
        else if ((r = buf_append(&x->match, "\"", 1)) == 0 &&
                 (r = buf_append(&x->match, word, n)) == 0)
                r = buf_append(&x->match, "\"", 1);
        return r < 0 ? r : 1;
}

static int is_found(
        struct store *s, uint64_t owner, int64_t number, const struct buf *match, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_SEARCH_IS, e);

        if (r < 0)
                return r;
        query_bind_text(&q, (const char *)match->data, match->size);
        query_bind_i64(&q, number);
        s->words_owner = owner;
        return query_step(&q, e);
}

int words_look(struct store *s, uint64_t owner, uint64_t id, uint32_t turn, struct err *e) {
        struct first first = {.s = s, .owner = owner, .match = BUF_NULL};
        const char *text;
        int64_t number;
        size_t size;
        _query_ q = {};
        int r = query_begin(&q, s, STMT_TURN_TEXT, e);

        if (r < 0 || !words_row(id, (uint64_t)turn + 1, &number))
                return r < 0 ? r : 1;
        query_bind_u64(&q, id);
        query_bind_i64(&q, turn);
        r = query_step(&q, e);
        if (r <= 0)
                return r < 0 ? r : 1;
        text = query_bytes(&q, 0, &size);
        r = query_check(&q, e);
        if (r == 0)
                r = words_split(s, text, size, first_word, &first, e);
        /* 0: it has no words at all. */
        if (r == 0)
                r = 1;
        else if (r > 0)
                r = is_found(s, owner, number, &first.match, e);
        buf_deinit(&first.match);
        return r == -ERR_NOMEM ? err_set(e, ERR_NOMEM, "no memory to check the search index") : r;
}

/* --- merging what was removed away --- */

/* One step. 1: there may be more to do. */
static int merge(struct store *s, bool first, struct err *e) {
        int before = sqlite3_total_changes(s->db), changes, r;
        _query_ q = {};

        r = query_begin(&q, s, STMT_SEARCH_MERGE, e);
        if (r < 0)
                return r;
        query_bind_i64(&q, first ? -MERGE_PAGES : MERGE_PAGES);
        r = query_run(&q, e);
        query_end(&q);
        /* As FTS5's page has it: a merge that finds nothing to do makes less than two changes. */
        if (r < 0)
                return r;
        changes = sqlite3_total_changes(s->db) - before;
        s->n_merged = (first ? 0 : s->n_merged) + (uint64_t)MAX(changes, 0);
        return changes >= 2;
}

static int merge_step(struct store *s, struct err *e) {
        STORE_LOCK(s);
        _cleanup_(txn_endp) struct store *txn = NULL;
        int64_t removed = 0, merging = 0;
        bool first;
        int r = read_meter(s, "search_removed", &removed, e), more;

        if (r == 0)
                r = read_meter(s, "search_merging", &merging, e);
        first = !s->merging;
        if (r < 0 || s->words_broken || (first && !removed && !merging))
                return r;
        if (first && clock_monotonic_usec() < s->merge_due)
                return 1;
        r = txn_begin(s, &txn, e);
        if (r == 0 && first)
                r = note(s, STMT_METER_REMOVE, "search_removed", 0, e);
        if (r == 0 && first)
                r = note(s, STMT_METER_SET, "search_merging", 1, e);
        more = r < 0 ? r : merge(s, first, e);
        if (more == 0)
                r = note(s, STMT_METER_REMOVE, "search_merging", 0, e);
        if (more == -ERR_CORRUPT)
                more = words_give_up(s, e);
        if (more < 0 || r < 0)
                return more < 0 ? more : r;
        r = txn_commit(&txn, e);
        if (r < 0)
                return r;
        s->merging = more;
        s->merge_due = clock_monotonic_usec() + s->n_merged * 4096 * 1000000 / MERGE_RATE;
        return more ? 2 : 0;
}

int words_merge(struct store *s, struct err *e) {
        int r = 2;

        for (int i = 0; i < MERGE_STEPS && r == 2; i++)
                r = merge_step(s, e);
        return MIN(r, 1);
}
