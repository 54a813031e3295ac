/* SPDX-License-Identifier: MIT */
/*
 * The register of a running engine: damaged histories, other programs that lock it or remove its
 * log, and what remains of a closed conversation.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "rig.h"
#include "store/store.h"
#include "util/test.h"

static struct answer A, B, expected[3];

static const char first[] = "My name is Ben. I live in a small town near the sea, and I like to "
                            "walk there in the evening with my dog.";

static const char *in_state(const struct erig *r, const char *name) {
        static char path[256];

        snprintf(path, sizeof(path), "%s/%s", r->dir, name);
        return path;
}

/* As another program, or a disk that forgets. */
static void sql(const struct erig *r, const char *text) {
        char *msg = NULL;
        sqlite3 *db;

        assert_int_equal(sqlite3_open(in_state(r, "register.db"), &db), SQLITE_OK);
        if (sqlite3_exec(db, text, NULL, NULL, &msg) != SQLITE_OK)
                fail_msg("%s: %s", text, msg);
        sqlite3_close(db);
}

static unsigned count_lines(const struct erig *r, const char *part) {
        unsigned n = 0;

        for (const char *p = r->logs; (p = strstr(p, part)); p++)
                n++;
        return n;
}

static enum engine_event_kind get(struct erig *r, uint64_t c, struct answer *a) {
        struct engine_request q = {
                .verb = ENGINE_GET, .conv_id = c, .want_turns = true, .want_tokens = true};

        return erig_do(r, &q, a);
}

/* A request that the damage stands against. */
static void refused(struct erig *r, struct engine_request q) {
        enum engine_event_kind kind = erig_do(r, &q, &A);

        if (kind != ENGINE_ERROR)
                fail_msg("verb %d did not fail", q.verb);
        assert_int_equal(A.err.code, ERR_CORRUPT);
        assert_non_null(strstr(A.err.msg, "turn 2"));
        assert_true(A.told);
}

static struct engine_request at_turn(enum engine_verb v, uint64_t c, uint32_t turn) {
        return (struct engine_request){
                .verb = v, .conv_id = c, .at_turn = turn, .at_position = ENGINE_UNSET};
}

/* One token of turn 2 is another than was written. */
static void test_damaged_history(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        uint32_t n_before;
        struct erig r;
        uint64_t c, d;

        erig_open(&r, &o);
        c = erig_new(&r, "hurt", NULL);
        d = erig_new(&r, "well", NULL);
        erig_say(&r, c, first, 8, &expected[0]);
        assert_int_equal(get(&r, c, &A), ENGINE_CONV);
        assert_false(A.damaged);
        n_before = A.conv.n_tokens;
        erig_say(&r, c, "What is my name?", 8, &expected[1]);
        erig_say(&r, d, first, 8, &A);
        erig_stop(&r, true);
        sql(&r, "UPDATE turn SET tokens = CAST(x'05000000' || substr(tokens, 5) AS BLOB) "
                "WHERE conversation = 1 AND n = 2");
        erig_start(&r);

        /* It says so, in the journal once, and nothing goes on from it. */
        refused(&r, erig_say_request(c, "Hello?", 4));
        refused(&r, erig_say_request(c, "Hello?", 4));
        refused(&r, at_turn(ENGINE_WARM, c, ENGINE_UNSET));
        refused(&r, at_turn(ENGINE_EXPORT, c, ENGINE_UNSET));
        refused(&r, at_turn(ENGINE_FORK, c, ENGINE_UNSET));
        refused(&r, at_turn(ENGINE_FORK, c, 3));
        q = at_turn(ENGINE_REWIND, c, ENGINE_UNSET);
        q.drop_turns = 1;
        refused(&r, q);
        q.at_position = n_before + 1;
        refused(&r, q);
        assert_int_equal(count_lines(&r, "conversation 1 is damaged"), 1);
        assert_non_null(strstr(r.logs, "turn 2"));

        /* What can be read is read: all texts, and the tokens before. */
        assert_int_equal(get(&r, c, &A), ENGINE_CONV);
        assert_true(A.damaged);
        assert_int_equal(A.damaged_turn, 2);
        assert_int_equal(A.conv.n_turns, 4);
        assert_int_equal(A.n_turns, 4);
        assert_int_equal(A.n_history, n_before);
        assert_string_equal((char *)A.turns[2].text, "What is my name?");
        assert_int_equal(count_lines(&r, "conversation 1 is damaged"), 1);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, &A), ENGINE_CONV);
        assert_int_equal(A.conv.n_turns, 4);

        /* Others are well. */
        erig_say(&r, d, "What is my name?", 8, &A);
        answer_same(&A, &expected[1]);

        /* From before the damage it goes on, as a fork and as itself. */
        q = at_turn(ENGINE_FORK, c, 2);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
        erig_say(&r, A.conv.id, "What is my name?", 8, &B);
        answer_same(&B, &expected[1]);
        q = at_turn(ENGINE_REWIND, c, 2);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
        assert_int_equal(A.conv.n_turns, 2);
        erig_say(&r, c, "What is my name?", 8, &A);
        answer_same(&A, &expected[1]);
        erig_restart(&r, true);
        assert_int_equal(get(&r, c, &A), ENGINE_CONV);
        assert_false(A.damaged);
        erig_close(&r);
}

/* A Continue from before the damage replaces it; one that comes to nothing leaves it as it was. */
static void test_damage_is_replaced(void **state) {
        struct engine_options o = erig_options(64 << 20);
        static struct answer good;
        struct engine_request q, bad;
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        c = erig_new(&r, "hurt", NULL);
        erig_say(&r, c, first, 8, &A);
        erig_say(&r, c, "What is my name?", 8, &good);
        erig_stop(&r, true);
        sql(&r, "UPDATE turn SET tokens = CAST(x'05000000' || substr(tokens, 5) AS BLOB) "
                "WHERE conversation = 1 AND n = 2");
        erig_start(&r);
        q = erig_say_request(c, "What is my name?", 8);
        q.cuts = true;
        q.at_turn = 3;
        q.at_position = ENGINE_UNSET;
        refused(&r, q);
        q.at_turn = 2;
        bad = q;
        bad.sampling = (struct sampling){.has = SAMPLING_TEMPERATURE, .temperature = -1};
        assert_int_equal(erig_do(&r, &bad, &A), ENGINE_ERROR);
        assert_int_equal(get(&r, c, &A), ENGINE_CONV);
        assert_true(A.damaged);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        answer_same(&A, &good);
        erig_restart(&r, true);
        assert_int_equal(get(&r, c, &A), ENGINE_CONV);
        assert_false(A.damaged);
        assert_int_equal(A.conv.n_turns, 4);
        erig_close(&r);
}

/* How often saving turns is refused, as if another program had the register's lock. */
static atomic_uint n_busy;

int __real_store_append(struct store *s, uint64_t id, const struct store_turn *turns,
        size_t n_turns, const int32_t *tokens, size_t n_tokens, uint64_t *ret_revision,
        struct err *e);
int __wrap_store_append(struct store *s, uint64_t id, const struct store_turn *turns,
        size_t n_turns, const int32_t *tokens, size_t n_tokens, uint64_t *ret_revision,
        struct err *e);
int __wrap_store_append(struct store *s, uint64_t id, const struct store_turn *turns,
        size_t n_turns, const int32_t *tokens, size_t n_tokens, uint64_t *ret_revision,
        struct err *e) {
        if (atomic_load(&n_busy) > 0) {
                atomic_fetch_sub(&n_busy, 1);
                return err_set(e, ERR_BUSY, "locked by another program");
        }
        return __real_store_append(s, id, turns, n_turns, tokens, n_tokens, ret_revision, e);
}

/* A reply that was shown is saved as soon as the lock is free. */
static void test_busy(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct erig r;
        uint64_t c;

        erig_need_model();
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        atomic_store(&n_busy, 3);
        erig_say(&r, c, first, 8, &A);
        assert_int_equal(atomic_load(&n_busy), 0);
        assert_int_equal(get(&r, c, &B), ENGINE_CONV);
        assert_int_equal(B.n_turns, 2);
        erig_close(&r);
}

/* A turn that is missing altogether ends what can be read. */
static void test_missing_turn(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        erig_say(&r, c, first, 8, &A);
        erig_say(&r, c, "What is my name?", 8, &expected[1]);
        erig_stop(&r, true);
        sql(&r, "DELETE FROM turn WHERE conversation = 1 AND n = 2");
        erig_start(&r);
        refused(&r, erig_say_request(c, "Hello?", 4));
        assert_int_equal(get(&r, c, &A), ENGINE_CONV);
        assert_true(A.damaged);
        assert_int_equal(A.n_turns, 2);
        q = at_turn(ENGINE_REWIND, c, 2);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
        erig_say(&r, c, "What is my name?", 8, &A);
        answer_same(&A, &expected[1]);
        assert_int_equal(erig_simple(&r, ENGINE_CLOSE, c, &A), ENGINE_EMPTY);
        erig_check_empty(&r);
        erig_close(&r);
}

/* Another program may look at any time, and not write: nobody waits for it. */
static void test_other_programs(void **state) {
        struct engine_options o = erig_options(64 << 20);
        sqlite3_stmt *st = NULL;
        struct erig r;
        sqlite3 *db;
        uint64_t c;

        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        erig_say(&r, c, first, 4, &A);
        assert_int_equal(sqlite3_open(in_state(&r, "register.db"), &db), SQLITE_OK);
        assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_BUSY);
        assert_int_equal(sqlite3_exec(db, "DELETE FROM turn", NULL, NULL, NULL), SQLITE_BUSY);
        /* A reader that stays where it is. */
        assert_int_equal(sqlite3_exec(db, "BEGIN", NULL, NULL, NULL), SQLITE_OK);
        assert_int_equal(
                sqlite3_prepare_v2(db, "SELECT text FROM transcript WHERE turn = 0", -1, &st, NULL),
                SQLITE_OK);
        assert_int_equal(sqlite3_step(st), SQLITE_ROW);
        assert_string_equal((const char *)sqlite3_column_text(st, 0), first);
        erig_say(&r, c, "What is my name?", 4, &A);
        assert_int_equal(erig_simple(&r, ENGINE_CLOSE, c, &A), ENGINE_EMPTY);
        sqlite3_finalize(st);
        sqlite3_close(db);
        erig_close(&r);
}

/* The log is removed while it is in use: what is acknowledged afterwards survives a kill. */
static void test_removed_log(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct erig r, s;
        char cmd[700];
        uint64_t c;

        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        erig_say(&r, c, first, 8, &expected[0]);
        assert_int_equal(unlink(in_state(&r, "register.db-wal")), 0);
        erig_say(&r, c, "What is my name?", 8, &expected[1]);
        erig_say(&r, c, "And where do I live?", 8, &expected[2]);
        assert_int_equal(count_lines(&r, "was removed by another program"), 1);
        /* What a kill would leave: the files that have names. */
        erig_open(&s, &o);
        erig_stop(&s, true);
        snprintf(cmd, sizeof(cmd), "rm -f '%s'/register.db*; cp '%s'/register.db* '%s'", s.dir,
                r.dir, s.dir);
        assert_int_equal(system(cmd), 0);
        erig_start(&s);
        assert_int_equal(get(&s, c, &A), ENGINE_CONV);
        assert_int_equal(A.n_turns, 6);
        assert_false(A.damaged);
        erig_close(&s);
        erig_close(&r);
}

/* The register itself is replaced: nothing is acknowledged that would be lost. */
static void test_replaced_register(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        struct erig r;
        char cmd[700];
        uint64_t c;

        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        erig_say(&r, c, first, 8, &A);
        snprintf(
                cmd, sizeof(cmd), "cd '%s' && cp register.db other && mv other register.db", r.dir);
        assert_int_equal(system(cmd), 0);
        for (int i = 0; i < 2; i++) {
                q = erig_say_request(c, "What is my name?", 4);
                assert_int_equal(erig_do(&r, &q, &A), ENGINE_ERROR);
                assert_int_equal(A.err.code, ERR_STATE);
                assert_non_null(strstr(A.err.msg, "replaced"));
        }
        erig_close(&r);
}

/* No file of the state folder has these words. */
static bool is_gone(const struct erig *r, const char *words) {
        char cmd[400];

        snprintf(cmd, sizeof(cmd), "grep -rqs '%s' '%s'", words, r->dir);
        return system(cmd) != 0;
}

/* Scrubs that are over. */
static struct {
        pthread_mutex_t lock;
        pthread_cond_t cond;
        unsigned n[2]; /* all; those after which nothing is left to do */
} scrubs = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};

int __real_store_scrub(struct store *s, struct err *e);
int __wrap_store_scrub(struct store *s, struct err *e);
int __wrap_store_scrub(struct store *s, struct err *e) {
        int r = __real_store_scrub(s, e);

        pthread_mutex_lock(&scrubs.lock);
        scrubs.n[false]++;
        scrubs.n[true] += r == 0;
        pthread_cond_broadcast(&scrubs.cond);
        pthread_mutex_unlock(&scrubs.lock);
        return r;
}

static unsigned n_scrubs(bool whole) {
        unsigned n;

        pthread_mutex_lock(&scrubs.lock);
        n = scrubs.n[whole];
        pthread_mutex_unlock(&scrubs.lock);
        return n;
}

/* Until one more than @before is over. False after a minute. */
static bool wait_for_scrub(bool whole, unsigned before) {
        struct timespec ts;
        int r = 0;

        clock_gettime(CLOCK_REALTIME, &ts);
        ts.tv_sec += 60;
        pthread_mutex_lock(&scrubs.lock);
        while (scrubs.n[whole] <= before && r == 0)
                r = pthread_cond_timedwait(&scrubs.cond, &scrubs.lock, &ts);
        pthread_mutex_unlock(&scrubs.lock);
        return r == 0;
}

/* What was closed or rewound cannot be found in any file, soon. */
static void test_closed_is_gone(void **state) {
        static const char secret[] = "the owl of Elsinore";
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        unsigned before = n_scrubs(true);
        struct erig r;
        char text[200];
        uint64_t c;

        erig_open(&r, &o);
        snprintf(text, sizeof(text), "I tell you of %s, and nobody else.", secret);
        assert_true(wait_for_scrub(true, before)); /* the one at the start */
        for (int round = 0; round < 3; round++) {
                c = erig_new(&r, NULL, NULL);
                erig_say(&r, c, first, 2, &A);
                erig_say(&r, c, text, 2, &A);
                assert_false(is_gone(&r, secret));
                assert_false(is_gone(&r, "lsinor")); /* "elsinore" in the search index */
                before = n_scrubs(true);
                q = at_turn(round == 1 ? ENGINE_REWIND : ENGINE_CLOSE, c, 2);
                assert_true(erig_do(&r, &q, &A) != ENGINE_ERROR);
                assert_true(wait_for_scrub(true, before));
                if (!is_gone(&r, secret) || !is_gone(&r, "lsinor"))
                        fail_msg("round %d: it is still there", round);
        }
        erig_close(&r);
}

/* A register that was filled and emptied gives its space back. */
static void test_shrinks(void **state) {
        enum { N = 100 };
        static char text[4000];
        struct engine_options o = erig_options(64 << 20);
        struct stat st, log;
        unsigned before;
        struct erig r;
        off_t full;

        erig_open(&r, &o);
        for (int i = 0; i < 20; i++)
                strcat(text, first);
        for (int i = 0; i < N; i++)
                erig_new(&r, NULL, text);
        erig_restart(&r, true);
        assert_int_equal(stat(in_state(&r, "register.db"), &st), 0);
        full = st.st_size;
        for (uint64_t c = 1; c <= N; c++)
                assert_int_equal(erig_simple(&r, ENGINE_CLOSE, c, &A), ENGINE_EMPTY);
        do {
                before = n_scrubs(false);
                assert_int_equal(stat(in_state(&r, "register.db"), &st), 0);
                assert_int_equal(stat(in_state(&r, "register.db-wal"), &log), 0);
        } while ((st.st_size >= full / 2 || log.st_size > 0) && wait_for_scrub(false, before));
        if (st.st_size >= full / 2 || log.st_size > 0)
                fail_msg("%lld bytes of %lld are left, and %lld of the log", (long long)st.st_size,
                        (long long)full, (long long)log.st_size);
        erig_close(&r);
}

/* Memory on disk fills a file system to the last byte: transcripts still find room. */
static void test_full_disk(void **state) {
        enum { N = 24 };
        struct engine_options o = erig_options(0);
        char text[300];
        struct erig r;
        uint64_t c;

        o.pool_size = erig_pool(9);
        o.spill_delay_ms = 0;
        erig_open(&r, &o);
        erig_stop(&r, true);
        if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
                mount("tmpfs", r.dir, "tmpfs", 0, "size=2m,mode=700") < 0) {
                print_message("SKIP: cannot mount a tmpfs here\n");
                erig_start(&r);
                erig_close(&r);
                skip();
        }
        erig_start(&r);
        for (int i = 0; i < N; i++) {
                snprintf(text, sizeof(text), "%d times %d is a number. %s %s", i, 17 * i, first,
                        first);
                c = erig_new(&r, NULL, NULL);
                erig_say(&r, c, text, 4, &A);
                erig_say(&r, c, "What is my name?", 2, &A);
        }
        assert_true(erig_stat(&r, "spill_refused") > 0);
        assert_true(erig_stat(&r, "reclaimed_bytes") > 0);
        erig_restart(&r, true);
        for (uint64_t i = 1; i <= N; i++) {
                assert_int_equal(get(&r, i, &A), ENGINE_CONV);
                assert_int_equal(A.n_turns, 4);
        }
        erig_stop(&r, true);
        assert_int_equal(umount(r.dir), 0);
        erig_start(&r);
        erig_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_damaged_history), cmocka_unit_test(test_damage_is_replaced),
                cmocka_unit_test(test_missing_turn), cmocka_unit_test(test_busy),
                cmocka_unit_test(test_other_programs), cmocka_unit_test(test_removed_log),
                cmocka_unit_test(test_replaced_register), cmocka_unit_test(test_closed_is_gone),
                cmocka_unit_test(test_shrinks),
                cmocka_unit_test(test_full_disk), /* the last: it leaves the mount namespace */
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
