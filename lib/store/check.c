/* SPDX-License-Identifier: MIT */
/*
 * Checks the invariants of the register. A finding never ends the check: a row that cannot be read
 * is reported, and checks that depend on it are skipped.
 *
 * Cells: a link is of a cell that memory of the conversation's shape has.
 *
 * Hashes: a record of whose tokens a conversation has all (n_valid == n_tokens) must have the
 * chained hash of that conversation's tokens.
 */
#include "base/hash.h"
#include "base/util.h"
#include "store/places.h"
#include "store/words.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct check {
        struct store *s;
        void (*found)(void *arg, const struct store_finding *f);
        void *arg;
        struct store_census census;
        struct err err; /* of the step that is going on */
};

/* One conversation's tokens, and the hashes of its full blocks. */
struct history {
        struct store_shape shape; /* of its memory */
        int32_t *tokens;
        size_t n_tokens, capacity;
        uint64_t *hashes;
        size_t n_hashes;
        bool sound; /* turns join and have their tokens */
};

static void history_deinit(struct history *h) {
        free(h->tokens);
        free(h->hashes);
}

__attribute__((format(printf, 5, 6))) static void report(struct check *x,
        enum store_finding_kind kind, uint64_t conv, uint64_t record, const char *fmt, ...) {
        struct store_finding f = {.kind = kind, .conv = conv, .record = record};
        char text[512];
        va_list ap;

        va_start(ap, fmt);
        vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        f.text = text;
        x->census.n_findings++;
        if (x->found)
                x->found(x->arg, &f);
}

/* Damage is a finding; everything else ends the check. */
static int absorb(
        struct check *x, int r, enum store_finding_kind kind, uint64_t conv, uint64_t record) {
        if (r != -ERR_CORRUPT)
                return r;
        report(x, kind, conv, record, "%s", x->err.msg);
        return 0;
}

/* SQLite reports a page for which it had no memory as damage, with its code for that. */
static bool tells_no_memory(const char *text, size_t n) {
        static const char words[] = "error code=7"; /* SQLITE_NOMEM */
        const char *at = memmem(text, n, words, sizeof(words) - 1);

        return at &&
               (at + sizeof(words) - 1 == text + n || !strchr("0123456789", at[sizeof(words) - 1]));
}

static int check_file(struct check *x) {
        _query_ q = {};
        int r = query_begin(&q, x->s, STMT_CHECK_FILE, &x->err);

        if (r < 0)
                return r;
        while ((r = query_step(&q, &x->err)) > 0) {
                size_t n;
                const char *text = query_bytes(&q, 0, &n);

                if (tells_no_memory(text, n))
                        return err_set(&x->err, ERR_NOMEM, "no memory to check the register");
                if (n != 2 || memcmp(text, "ok", 2) != 0)
                        report(x, STORE_FINDING_FILE, 0, 0, "%.*s", (int)MIN(n, (size_t)400), text);
        }
        return r;
}

static int push_tokens(struct history *h, const uint8_t *p, size_t n, struct err *e) {
        if (n > h->capacity - h->n_tokens) {
                size_t grown = MAX(h->n_tokens + n, 2 * h->capacity);
                int32_t *t = reallocarray(h->tokens, grown, sizeof(*t));

                if (!t)
                        return err_set(e, ERR_NOMEM, "no memory for %zu tokens", grown);
                h->tokens = t;
                h->capacity = grown;
        }
        for (size_t i = 0; i < n; i++)
                h->tokens[h->n_tokens++] = (int32_t)load_le32(p + 4 * i);
        return 0;
}

/* One row of the conversation's turns. 1: the later turns cannot be checked without this one. */
static int check_turn(
        struct check *x, struct query *q, uint64_t conv, uint32_t n, struct history *h) {
        struct store_turn t;
        const uint8_t *p;
        size_t size;
        int r = turn_read(q, n, (uint32_t)h->n_tokens, &t, &x->err);

        if (r == -ERR_CORRUPT) {
                report(x, STORE_FINDING_TURN, conv, 0, "turn %u: %s", n, x->err.msg);
                return 1;
        }
        if (r < 0)
                return r;
        turn_deinit(&t);
        r = turn_read_tokens(q, &t, &p, &x->err);
        if (r < 0 && r != -ERR_CORRUPT)
                return r;
        if (r < 0)
                report(x, STORE_FINDING_TURN, conv, 0, "turn %u: %s", n, x->err.msg);
        /* Tokens that were changed, but are as many as they should be, are still a history. */
        q->bad = NULL;
        p = query_bytes(q, 7, &size);
        r = query_check(q, &x->err);
        if (r < 0 && r != -ERR_CORRUPT)
                return r;
        if (r < 0 || size != ((size_t)t.end - t.start) * 4)
                return 1;
        return push_tokens(h, p, size / 4, &x->err);
}

static int check_turns(struct check *x, const struct store_conv *c, struct history *h) {
        _query_ q = {};
        uint32_t n = 0;
        int r = query_begin(&q, x->s, STMT_CHECK_TURNS, &x->err);

        if (r < 0)
                return r;
        query_bind_u64(&q, c->id);
        while ((r = query_step(&q, &x->err)) > 0) {
                r = check_turn(x, &q, c->id, n, h);
                if (r != 0)
                        return r < 0 ? r : 0;
                n++;
        }
        if (r < 0)
                return absorb(x, r, STORE_FINDING_TURN, c->id, 0);
        x->census.n_turns += n;
        x->census.n_tokens += h->n_tokens;
        if (n != c->n_turns || h->n_tokens != c->n_tokens)
                report(x, STORE_FINDING_CONV, c->id, 0,
                        "conversation of %u turns and %u tokens has %u and %zu", c->n_turns,
                        c->n_tokens, n, h->n_tokens);
        else
                h->sound = true;
        return 0;
}

/* Of the history, keep what the memory is of. */
static void leave_out(const struct gap *gap, struct history *h) {
        if (gap_is_none(gap))
                return;
        memmove(h->tokens + gap->from, h->tokens + gap->to,
                (h->n_tokens - gap->to) * sizeof(*h->tokens));
        h->n_tokens -= gap_size(gap);
}

static int hash_blocks(struct check *x, struct history *h) {
        uint64_t prev = 0;

        if (h->shape.block_tokens == 0)
                return 0;
        h->hashes = calloc(h->n_tokens / h->shape.block_tokens + 1, sizeof(*h->hashes));
        if (!h->hashes)
                return err_set(&x->err, ERR_NOMEM, "no memory for hashes");
        for (; h->n_hashes < h->n_tokens / h->shape.block_tokens; h->n_hashes++)
                prev = h->hashes[h->n_hashes] =
                        hash64_chain_tokens(h->tokens + h->n_hashes * h->shape.block_tokens,
                                h->shape.block_tokens, prev);
        return 0;
}

static void check_hash(
        struct check *x, uint64_t conv, const struct store_record *rec, const struct history *h) {
        uint32_t n = store_cell_tokens(&h->shape, rec->block_class);
        uint64_t end = (uint64_t)rec->index * n + rec->n_valid, start, hash;

        /* Nothing is promised of an empty one: a request was to commit its tokens. */
        if (rec->n_valid == 0)
                return;
        if (end > h->n_tokens) {
                report(x, STORE_FINDING_LINK, conv, rec->id,
                        "cell %u of class %u has memory of more tokens than the conversation has",
                        rec->index, rec->block_class);
                return;
        }
        /* Of a cut one only the whole could be hashed. */
        if (rec->n_valid != rec->n_tokens)
                return;
        start = (end - 1) / h->shape.block_tokens;
        hash = hash64_chain_tokens(h->tokens + start * h->shape.block_tokens,
                end - start * h->shape.block_tokens, start > 0 ? h->hashes[start - 1] : 0);
        if (hash != rec->token_hash)
                report(x, STORE_FINDING_HASH, conv, rec->id,
                        "record of cell %u of class %u is of other tokens than the conversation "
                        "has",
                        rec->index, rec->block_class);
}

static int check_link(
        struct check *x, struct query *q, const struct store_conv *c, const struct history *h) {
        uint32_t block = query_u32(q, 12), block_class = query_u32(q, 13);
        uint64_t record = query_number(q, 14, INT64_MAX);
        struct store_record rec;
        int r;

        x->census.n_links++;
        if (query_is_null(q, 0)) {
                report(x, STORE_FINDING_LINK, c->id, record,
                        "cell %u of class %u refers to record %llu, which does not exist", block,
                        block_class, (unsigned long long)record);
                return 0;
        }
        r = record_read(q, &rec, &x->err);
        if (r < 0)
                return absorb(x, r, STORE_FINDING_LINK, c->id, record);
        if (rec.index != block || rec.block_class != block_class)
                report(x, STORE_FINDING_LINK, c->id, rec.id,
                        "cell %u of class %u refers to a record of cell %u of class %u", block,
                        block_class, rec.index, rec.block_class);
        else if (!store_has_class(&c->shape, rec.block_class) || rec.n_tokens < 1 ||
                 rec.n_tokens > store_cell_tokens(&c->shape, rec.block_class))
                report(x, STORE_FINDING_LINK, c->id, rec.id,
                        "the conversation's memory has no cell %u of class %u with %u tokens",
                        rec.index, rec.block_class, rec.n_tokens);
        else if (rec.n_valid > rec.n_tokens)
                report(x, STORE_FINDING_LINK, c->id, rec.id,
                        "cell %u of class %u: %u tokens valid in a record of %u", block,
                        block_class, rec.n_valid, rec.n_tokens);
        else if (h->sound)
                check_hash(x, c->id, &rec, h);
        if (rec.is_private && !c->private_memory)
                report(x, STORE_FINDING_ACCESS, c->id, rec.id,
                        "private memory of cell %u of class %u in a conversation that may share it",
                        block, block_class);
        return 0;
}

static int check_links(struct check *x, const struct store_conv *c, const struct history *h) {
        _query_ q = {};
        int r = query_begin(&q, x->s, STMT_CHECK_LINKS, &x->err);

        if (r < 0)
                return r;
        query_bind_u64(&q, c->id);
        while ((r = query_step(&q, &x->err)) > 0) {
                r = check_link(x, &q, c, h);
                if (r < 0)
                        return r;
                q.bad = NULL;
        }
        return absorb(x, r, STORE_FINDING_LINK, c->id, 0);
}

/* What is noted about a conversation can be read. */
static int check_about(struct check *x, uint64_t id) {
        struct about *about = NULL;
        int r = about_read(x->s, id, NULL, NULL, &about, &x->err);

        if (r == 0 && about)
                r = about_check(about, &x->err);
        if (r == -ERR_INVALID) {
                report(x, STORE_FINDING_CONV, id, 0, "what is noted: %s", x->err.msg);
                r = 0;
        }
        free(about);
        return absorb(x, r, STORE_FINDING_CONV, id, 0);
}

static int check_conv(struct check *x, uint64_t id) {
        _cleanup_(history_deinit) struct history h = {};
        struct store_conv c;
        int r = conv_read(x->s, id, &c, &x->err);

        x->census.n_convs++;
        if (r == -ERR_NOT_FOUND) /* listed, but with an id that cannot be */
                r = -ERR_CORRUPT;
        if (r < 0)
                return absorb(x, r, STORE_FINDING_CONV, id, 0);
        if (c.parent >= id)
                report(x, STORE_FINDING_CONV, id, 0, "forked from %llu, which came later",
                        (unsigned long long)c.parent);
        r = check_about(x, id);
        if (r == 0)
                r = absorb(x, figures_check(x->s, id, &x->err), STORE_FINDING_TURN, id, 0);
        if (r == 0)
                r = check_turns(x, &c, &h);
        if (r < 0)
                return r;
        if (c.shape.block_tokens > 0 && !store_shape_is_possible(&c.shape))
                report(x, STORE_FINDING_CONV, id, 0, "no model's memory is as its shape says");
        h.shape = c.shape;
        if (h.sound) {
                leave_out(&c.gap, &h);
                r = hash_blocks(x, &h);
                if (r < 0)
                        return r;
        }
        return check_links(x, &c, &h);
}

static int check_convs(struct check *x) {
        _cleanup_(ids_deinit) struct ids ids = {};
        _query_ q = {};
        int r = query_begin(&q, x->s, STMT_CHECK_CONVS, &x->err);

        if (r < 0)
                return r;
        r = ids_read(&q, &ids, &x->err);
        query_end(&q);
        /* Those that could be listed are looked at anyway. */
        r = absorb(x, r, STORE_FINDING_CONV, 0, 0);
        if (r < 0)
                return r;
        for (size_t i = 0; i < ids.n; i++) {
                r = check_conv(x, ids.v[i]);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int check_records(struct check *x) {
        struct store_record last = {};
        _query_ q = {};
        int r = query_begin(&q, x->s, STMT_CHECK_RECORDS, &x->err);

        if (r < 0)
                return r;
        while ((r = query_step(&q, &x->err)) > 0) {
                struct store_record rec;

                x->census.n_records++;
                r = record_read(&q, &rec, &x->err);
                if (r == -ERR_CORRUPT) {
                        q.bad = NULL;
                        report(x, STORE_FINDING_RECORD, 0, query_u64(&q, 0), "%s", x->err.msg);
                        q.bad = NULL;
                        continue;
                }
                if (r < 0)
                        return r;
                x->census.stored_size += rec.stored_size;
                x->census.raw_size += rec.raw_size;
                if (rec.n_valid) /* the column behind the record's: nothing refers to it */
                        report(x, STORE_FINDING_RECORD, 0, rec.id,
                                "no conversation refers to the record");
                if (last.id && last.file_key == rec.file_key &&
                        last.offset + last.stored_size > rec.offset)
                        report(x, STORE_FINDING_PLACE, 0, rec.id,
                                "overlaps with record %llu in one file",
                                (unsigned long long)last.id);
                /* Of two that overlap, the one that ends later can reach the next. */
                if (last.file_key != rec.file_key ||
                        last.offset + last.stored_size < rec.offset + rec.stored_size)
                        last = rec;
        }
        return absorb(x, r, STORE_FINDING_RECORD, 0, 0);
}

/* Rows whose conversation is not there, and conversations whose tenant is not there. */
static int check_strays(struct check *x) {
        static const struct {
                enum store_finding_kind kind;
                const char *what;
        } strays[] = {{STORE_FINDING_TURN, "turns of a conversation that does not exist"},
                {STORE_FINDING_LINK, "links of a conversation that does not exist"},
                {STORE_FINDING_CONV, "tags of a conversation that does not exist"},
                {STORE_FINDING_TURN, "figures of a turn of a conversation that does not exist"},
                {STORE_FINDING_CONV, "it belongs to a tenant that does not exist"}};
        _query_ q = {};
        int r = query_begin(&q, x->s, STMT_CHECK_STRAYS, &x->err);

        if (r < 0)
                return r;
        while ((r = query_step(&q, &x->err)) > 0) {
                uint64_t which = query_number(&q, 0, ARRAY_SIZE(strays) - 1);
                uint64_t conv = query_u64(&q, 1);

                q.bad = NULL;
                report(x, strays[which].kind, conv, 0, "%s", strays[which].what);
        }
        return absorb(x, r, STORE_FINDING_FILE, 0, 0);
}

/* Reclaiming looks only at conversations that are marked as having records. */
static int check_on_disk(struct check *x) {
        _query_ q = {};
        int r = query_begin(&q, x->s, STMT_CHECK_ON_DISK, &x->err);

        if (r < 0)
                return r;
        while ((r = query_step(&q, &x->err)) > 0) {
                uint64_t conv = query_u64(&q, 0);

                q.bad = NULL;
                report(x, STORE_FINDING_CONV, conv, 0, "what it says of having records is not so");
        }
        return absorb(x, r, STORE_FINDING_FILE, 0, 0);
}

/* A page by tag is a walk through the tags alone: they repeat what their conversations say. */
static int check_tags(struct check *x) {
        _query_ q = {};
        int r = query_begin(&q, x->s, STMT_CHECK_TAGS, &x->err);

        if (r < 0)
                return r;
        while ((r = query_step(&q, &x->err)) > 0) {
                uint64_t conv = query_u64(&q, 0);

                q.bad = NULL;
                report(x, STORE_FINDING_CONV, conv, 0,
                        "its tags have another owner or another time of change");
        }
        return absorb(x, r, STORE_FINDING_FILE, 0, 0);
}

static int report_rows(struct check *x, enum store_stmt which, const char *what) {
        _query_ q = {};
        int r = query_begin(&q, x->s, which, &x->err);

        if (r < 0)
                return r;
        while ((r = query_step(&q, &x->err)) > 0) {
                uint64_t conv = query_u64(&q, 0);

                q.bad = NULL;
                report(x, STORE_FINDING_FILE, conv, 0, "the search index %s", what);
        }
        return r;
}

static int look_for_words(struct check *x, uint64_t id) {
        struct store_conv c;
        int r = conv_read(x->s, id, &c, &x->err);

        if (r == -ERR_CORRUPT || r == -ERR_NOT_FOUND) /* told elsewhere */
                return 0;
        if (r < 0 || c.n_turns == 0)
                return r;
        r = words_look(x->s, c.owner, id, c.n_turns - 1, &x->err);
        if (r == 0)
                report(x, STORE_FINDING_FILE, id, 0,
                        "the search index does not find its last turn");
        return MIN(r, 0);
}

/* The index has a row for each turn, and for what each conversation is called, and no others; the last turn
 * of each conversation is found. An index that is going to be made again is not looked at. */
static int check_search(struct check *x) {
        _cleanup_(ids_deinit) struct ids ids = {};
        _query_ q = {};
        int r = words_current(x->s, &x->err);

        if (r <= 0)
                return absorb(x, r, STORE_FINDING_FILE, 0, 0);
        r = report_rows(x, STMT_SEARCH_STRAYS, "has what the conversation does not have");
        if (r == 0)
                r = report_rows(x, STMT_SEARCH_MISSING, "does not have all of the conversation");
        if (r == 0)
                r = query_begin(&q, x->s, STMT_CHECK_CONVS, &x->err);
        if (r == 0)
                r = ids_read(&q, &ids, &x->err);
        query_end(&q);
        for (size_t i = 0; r == 0 && i < ids.n; i++)
                r = look_for_words(x, ids.v[i]);
        return absorb(x, r, STORE_FINDING_FILE, 0, 0);
}

/* Ids are never used again: the counters are not behind. */
static int check_counters(struct check *x) {
        _query_ q = {};
        int r = query_begin(&q, x->s, STMT_CHECK_COUNTERS, &x->err);

        if (r < 0)
                return r;
        r = query_step(&q, &x->err);
        if (r > 0)
                report(x, STORE_FINDING_FILE, 0, 0, "a counter of ids is behind the ids given");
        return r < 0 ? absorb(x, r, STORE_FINDING_FILE, 0, 0) : 0;
}

/* What the triggers keep is what there is. */
static int check_usage(struct check *x) {
        _query_ q = {};
        int r = query_begin(&q, x->s, STMT_CHECK_USAGE, &x->err);

        if (r < 0)
                return r;
        r = query_step(&q, &x->err);
        if (r > 0)
                report(x, STORE_FINDING_FILE, 0, 0,
                        "the count of an owner's conversations or tokens is wrong");
        return r < 0 ? absorb(x, r, STORE_FINDING_FILE, 0, 0) : 0;
}

int store_check(struct store *s, void (*found)(void *arg, const struct store_finding *f), void *arg,
        struct store_census *ret, struct err *e) {
        static int (*const steps[])(struct check *) = {check_file, check_convs, check_records,
                check_strays, check_on_disk, check_tags, check_usage, check_search, check_counters};
        _cleanup_(read_endp) struct store *reading = NULL;
        struct check x = {.found = found, .arg = arg};
        int r = read_begin(&s, &reading, e);

        if (r < 0)
                return r;
        x.s = s;
        for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
                r = steps[i](&x);
                r = absorb(&x, r, STORE_FINDING_FILE, 0, 0);
                if (r < 0) {
                        if (e)
                                *e = x.err;
                        return r;
                }
        }
        *ret = x.census;
        return 0;
}

int store_list_held(struct store *s, struct store_held **ret, size_t *ret_n, struct err *e) {
        STORE_LOCK(s);
        _cleanup_(freep) struct store_held *got = NULL;
        _query_ q = {};
        size_t n = 0;
        int r = query_begin(&q, s, STMT_LIST_HELD, e);

        if (r < 0)
                return r;
        while ((r = query_step(&q, e)) > 0) {
                struct store_held h = {.conv = query_number(&q, 12, INT64_MAX),
                        .model.weights = query_u64(&q, 13),
                        .model.rules = query_u64(&q, 14)};
                void *p = got;

                r = record_read(&q, &h.record, e);
                q.bad = NULL;
                if (r == -ERR_CORRUPT)
                        continue;
                if (r < 0)
                        return r;
                if (n && got[n - 1].record.id == h.record.id)
                        continue;
                if (array_grow(&p, n, sizeof(*got)) < 0)
                        return err_set(e, ERR_NOMEM, "no memory for spill records");
                got = p;
                got[n++] = h;
        }
        if (r < 0)
                return r;
        *ret = TAKE_PTR(got);
        *ret_n = n;
        return 0;
}
