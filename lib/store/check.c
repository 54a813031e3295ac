/* SPDX-License-Identifier: MIT */
/*
 * Checks the invariants of the register. A finding never ends the check: a row that cannot be read
 * is reported, and checks that depend on it are skipped. check-conv.c has what is checked of a
 * conversation, check-slices.c the same checks beside a daemon that works.
 */
#include "base/util.h"
#include "store/check.h"
#include "store/words.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void check_report(struct check *x, enum store_finding_kind kind, uint64_t conv, uint64_t record,
        const char *fmt, ...) {
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

int check_absorb(
        struct check *x, int r, enum store_finding_kind kind, uint64_t conv, uint64_t record) {
        if (r != -ERR_CORRUPT)
                return r;
        check_report(x, kind, conv, record, "%s", x->err.msg);
        return 0;
}

/* SQLite reports a page for which it had no memory as damage, with its code for that. */
static bool tells_no_memory(const char *text, size_t n) {
        static const char words[] = "error code=7"; /* SQLITE_NOMEM */
        const char *at = memmem(text, n, words, sizeof(words) - 1);

        return at &&
               (at + sizeof(words) - 1 == text + n || !strchr("0123456789", at[sizeof(words) - 1]));
}

int check_integrity(struct check *x, struct query *q) {
        int r;

        while ((r = query_step(q, &x->err)) > 0) {
                size_t n;
                const char *text = query_bytes(q, 0, &n);

                if (tells_no_memory(text, n))
                        return err_set(&x->err, ERR_NOMEM, "no memory to check the register");
                if (n != 2 || memcmp(text, "ok", 2) != 0)
                        check_report(x, STORE_FINDING_FILE, 0, 0, "%.*s", (int)MIN(n, (size_t)400),
                                text);
        }
        return r;
}

static int check_file(struct check *x) {
        _query_ q = {};
        int r = query_begin(&q, x->s, STMT_CHECK_FILE, &x->err);

        return r < 0 ? r : check_integrity(x, &q);
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
        r = check_absorb(x, r, STORE_FINDING_CONV, 0, 0);
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
                        check_report(
                                x, STORE_FINDING_RECORD, 0, query_u64(&q, 0), "%s", x->err.msg);
                        q.bad = NULL;
                        continue;
                }
                if (r < 0)
                        return r;
                x->census.stored_size += rec.stored_size;
                x->census.raw_size += rec.raw_size;
                if (rec.n_valid) /* the column behind the record's: nothing refers to it */
                        check_report(x, STORE_FINDING_RECORD, 0, rec.id,
                                "no conversation refers to the record");
                if (last.id && last.file_key == rec.file_key &&
                        last.offset + last.stored_size > rec.offset)
                        check_report(x, STORE_FINDING_PLACE, 0, rec.id,
                                "overlaps with record %llu in one file",
                                (unsigned long long)last.id);
                /* Of two that overlap, the one that ends later can reach the next. */
                if (last.file_key != rec.file_key ||
                        last.offset + last.stored_size < rec.offset + rec.stored_size)
                        last = rec;
        }
        return check_absorb(x, r, STORE_FINDING_RECORD, 0, 0);
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
                check_report(x, strays[which].kind, conv, 0, "%s", strays[which].what);
        }
        return check_absorb(x, r, STORE_FINDING_FILE, 0, 0);
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
                check_report(
                        x, STORE_FINDING_CONV, conv, 0, "what it says of having records is not so");
        }
        return check_absorb(x, r, STORE_FINDING_FILE, 0, 0);
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
                check_report(x, STORE_FINDING_CONV, conv, 0,
                        "its tags have another owner or another time of change");
        }
        return check_absorb(x, r, STORE_FINDING_FILE, 0, 0);
}

static int report_rows(struct check *x, enum store_stmt which, const char *what) {
        _query_ q = {};
        int r = query_begin(&q, x->s, which, &x->err);

        if (r < 0)
                return r;
        while ((r = query_step(&q, &x->err)) > 0) {
                uint64_t conv = query_u64(&q, 0);

                q.bad = NULL;
                check_report(x, STORE_FINDING_FILE, conv, 0, "the search index %s", what);
        }
        return r;
}

int check_conv_words(struct check *x, uint64_t id) {
        struct store_conv c;
        int r = conv_read(x->s, id, &c, &x->err);

        if (r == -ERR_CORRUPT || r == -ERR_NOT_FOUND) /* told elsewhere */
                return 0;
        if (r < 0 || c.n_turns == 0)
                return r;
        r = words_look(x->s, c.owner, id, c.n_turns - 1, &x->err);
        if (r == 0)
                check_report(x, STORE_FINDING_FILE, id, 0,
                        "the search index does not find its last turn");
        return MIN(r, 0);
}

/* The index has a row for each turn, and for what each conversation is called, and no others. An index
 * that is going to be made again is not looked at. */
static int check_search(struct check *x) {
        int r = words_current(x->s, &x->err);

        if (r <= 0)
                return check_absorb(x, r, STORE_FINDING_FILE, 0, 0);
        r = report_rows(x, STMT_SEARCH_STRAYS, "has what the conversation does not have");
        if (r == 0)
                r = report_rows(x, STMT_SEARCH_MISSING, "does not have all of the conversation");
        return check_absorb(x, r, STORE_FINDING_FILE, 0, 0);
}

/* The last turn of each conversation is found. */
static int check_words(struct check *x) {
        _cleanup_(ids_deinit) struct ids ids = {};
        _query_ q = {};
        int r = words_current(x->s, &x->err);

        if (r <= 0)
                return check_absorb(x, r, STORE_FINDING_FILE, 0, 0);
        r = query_begin(&q, x->s, STMT_CHECK_CONVS, &x->err);
        if (r == 0)
                r = ids_read(&q, &ids, &x->err);
        query_end(&q);
        for (size_t i = 0; r == 0 && i < ids.n; i++)
                r = check_conv_words(x, ids.v[i]);
        return check_absorb(x, r, STORE_FINDING_FILE, 0, 0);
}

/* Ids are never used again: the counters are not behind. */
static int check_counters(struct check *x) {
        _query_ q = {};
        int r = query_begin(&q, x->s, STMT_CHECK_COUNTERS, &x->err);

        if (r < 0)
                return r;
        r = query_step(&q, &x->err);
        if (r > 0)
                check_report(
                        x, STORE_FINDING_FILE, 0, 0, "a counter of ids is behind the ids given");
        return r < 0 ? check_absorb(x, r, STORE_FINDING_FILE, 0, 0) : 0;
}

/* What the triggers keep is what there is. */
static int check_usage(struct check *x) {
        _query_ q = {};
        int r = query_begin(&q, x->s, STMT_CHECK_USAGE, &x->err);

        if (r < 0)
                return r;
        r = query_step(&q, &x->err);
        if (r > 0)
                check_report(x, STORE_FINDING_FILE, 0, 0,
                        "the count of an owner's conversations or tokens is wrong");
        return r < 0 ? check_absorb(x, r, STORE_FINDING_FILE, 0, 0) : 0;
}

int (*const check_tables[])(struct check *x) = {check_records, check_strays, check_on_disk,
        check_tags, check_usage, check_search, check_counters};
const size_t check_n_tables = ARRAY_SIZE(check_tables);

static int take_step(struct check *x, int (*step)(struct check *x)) {
        return check_absorb(x, step(x), STORE_FINDING_FILE, 0, 0);
}

const char *store_finding_name(enum store_finding_kind kind) {
        static const char *const names[] = {[STORE_FINDING_FILE] = "register",
                [STORE_FINDING_CONV] = "conversation",
                [STORE_FINDING_TURN] = "turn",
                [STORE_FINDING_LINK] = "link",
                [STORE_FINDING_RECORD] = "record",
                [STORE_FINDING_PLACE] = "place",
                [STORE_FINDING_HASH] = "hash",
                [STORE_FINDING_ACCESS] = "access"};

        return names[kind];
}

int store_check(struct store *s, void (*found)(void *arg, const struct store_finding *f), void *arg,
        struct store_census *ret, struct err *e) {
        _cleanup_(read_endp) struct store *reading = NULL;
        struct check x = {.found = found, .arg = arg};
        int r = read_begin(&s, &reading, e);

        if (r < 0)
                return r;
        x.s = s;
        r = take_step(&x, check_file);
        if (r == 0)
                r = take_step(&x, check_convs);
        for (size_t i = 0; r == 0 && i < check_n_tables; i++)
                r = take_step(&x, check_tables[i]);
        if (r == 0)
                r = take_step(&x, check_words);
        if (r < 0) {
                if (e)
                        *e = x.err;
                return r;
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
