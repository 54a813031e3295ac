/* SPDX-License-Identifier: MIT */
/*
 * Check, and a backup with memory: what is on disk is read and compared beside all work. What goes meanwhile is no problem; what is damaged is
 * told and forgotten, and replies never change (I1).
 */
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"

#include "rig.h"
#include "spill/spill.h"
#include "store/store.h"
#include "util/gate.h"

static struct answer A, B, expected[2];

static const char LONG_TEXT[] =
        "This is a rather long story about a green house near a river, where seven birds live and "
        "sing at night. In winter there is snow on the stones, and Ada walks there with her dog. "
        "She likes music and apples, and in the evening she reads old letters from her friends.";

/* Before each record that a check reads; and a disk that fails. */
static struct gate record_gate = GATE_INIT;
static int fails_with; /* errno; set while no check runs */

int __real_spill_inspect(struct spill *s, const struct fingerprint *fingerprint,
        const struct spill_ref *ref, const struct spill_meta *meta,
        const struct spill_array *arrays, size_t n_arrays, void *dst, struct err *e);
int __wrap_spill_inspect(struct spill *s, const struct fingerprint *fingerprint,
        const struct spill_ref *ref, const struct spill_meta *meta,
        const struct spill_array *arrays, size_t n_arrays, void *dst, struct err *e);
int __wrap_spill_inspect(struct spill *s, const struct fingerprint *fingerprint,
        const struct spill_ref *ref, const struct spill_meta *meta,
        const struct spill_array *arrays, size_t n_arrays, void *dst, struct err *e) {
        gate_pass(&record_gate);
        if (fails_with) {
                errno = fails_with;
                return err_set(e, ERR_SYS, "a disk that fails");
        }
        return __real_spill_inspect(s, fingerprint, ref, meta, arrays, n_arrays, dst, e);
}

/* Before each record that a backup reads. */
static struct gate stored_gate = GATE_INIT;

int __real_spill_read_stored(struct spill *s, const struct fingerprint *fingerprint,
        const struct spill_ref *ref, const struct spill_meta *meta, void *dst, struct err *e);
int __wrap_spill_read_stored(struct spill *s, const struct fingerprint *fingerprint,
        const struct spill_ref *ref, const struct spill_meta *meta, void *dst, struct err *e);
int __wrap_spill_read_stored(struct spill *s, const struct fingerprint *fingerprint,
        const struct spill_ref *ref, const struct spill_meta *meta, void *dst, struct err *e) {
        gate_pass(&stored_gate);
        return __real_spill_read_stored(s, fingerprint, ref, meta, dst, e);
}

static int reset(void **state) {
        (void)state;
        fails_with = 0;
        return 0;
}

static struct engine_request check_request(uint64_t rate) {
        return (struct engine_request){.verb = ENGINE_CHECK, .admin = true, .rate = rate};
}

/* As fast as it goes. */
static const struct engine_checked *check(struct erig *r) {
        struct engine_request q = check_request(0);

        if (erig_do(r, &q, &A) != ENGINE_CHECKED)
                fail_msg("%s", A.err.msg);
        return &A.checked;
}

static void check_clean(struct erig *r, uint64_t n_records) {
        const struct engine_checked *got = check(r);

        if (got->n_problems > 0)
                fail_msg("%s: %s", got->problems[0].kind, got->problems[0].text);
        assert_int_equal(got->n_records, n_records);
        assert_int_equal(got->n_listed, 0);
        assert_int_equal(got->n_forgotten + got->n_gone + got->n_skipped, 0);
        assert_true(got->read_size > n_records * 4096);
}

static uint64_t n_records(struct erig *r) {
        return erig_stat(r, "spill_records");
}

/* A conversation whose memory is on disk only. */
static uint64_t spilled(struct erig *r, const char *name) {
        uint64_t c = erig_new(r, name, NULL);

        erig_say(r, c, LONG_TEXT, 12, &A);
        assert_int_equal(erig_simple(r, ENGINE_EVICT, c, &A), ENGINE_CONV);
        return c;
}

static void expect(void) {
        struct engine_options o = erig_options(64 << 20);
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        erig_say(&r, c, LONG_TEXT, 12, &expected[0]);
        erig_say(&r, c, "What does Ada like?", 12, &expected[1]);
        erig_close(&r);
}

/* It says what a conversation says whose memory was never damaged. */
static void go_on(struct erig *r, uint64_t c, bool computes) {
        erig_say(r, c, "What does Ada like?", 12, &A);
        answer_same(&A, &expected[1]);
        assert_int_equal(A.n_computed > 100, computes);
}

static void flip(const struct erig *r, uint64_t conv, off_t at) {
        char path[256];
        uint8_t byte;
        int fd;

        snprintf(path, sizeof(path), "%s/spill/%016llx.kv", r->dir, (unsigned long long)conv);
        fd = open(path, O_RDWR);
        assert_true(fd >= 0);
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte ^= 0x10;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        close(fd);
}

static void test_sound(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct erig r;
        uint64_t c, n;

        (void)state;
        erig_open(&r, &o);
        check_clean(&r, 0);
        c = spilled(&r, "a");
        erig_fork(&r, c);
        spilled(&r, "b");
        n = n_records(&r);
        assert_true(n > 4);
        check_clean(&r, n);
        assert_int_equal(A.checked.n_convs, 3);
        assert_int_equal(A.checked.n_turns, 6);
        assert_true(A.checked.n_tokens > 300);
        check_clean(&r, n); /* again: nothing was changed */
        go_on(&r, c, false);
        erig_close(&r);
}

/* A second one is refused; one that is cancelled ends, and the next one may begin. */
static void test_one_at_a_time(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q = check_request(0), second = check_request(0);
        struct erig r;

        (void)state;
        erig_open(&r, &o);
        spilled(&r, "a");
        gate_close(&record_gate, 0);
        erig_send(&r, &q, &A);
        gate_wait(&record_gate);
        assert_int_equal(erig_do(&r, &second, &B), ENGINE_ERROR);
        assert_int_equal(B.err.code, ERR_BUSY);
        engine_cancel(r.en, q.handle);
        gate_open(&record_gate);
        erig_wait(&r, &A);
        assert_int_equal(A.kind, ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_CANCELLED);
        check_clean(&r, n_records(&r));
        erig_close(&r);
}

/* No restore and no commit waits for a check that stands still with a record. */
static void test_holds_nobody(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q = check_request(0);
        struct erig r;
        uint64_t c;

        (void)state;
        erig_open(&r, &o);
        c = spilled(&r, "a");
        gate_close(&record_gate, 0);
        erig_send(&r, &q, &B);
        gate_wait(&record_gate);
        go_on(&r, c, false);
        assert_true(A.n_disk > 0);
        spilled(&r, "b");
        gate_open(&record_gate);
        erig_wait(&r, &B);
        assert_int_equal(B.kind, ENGINE_CHECKED);
        assert_int_equal(B.checked.n_problems, 0);
        erig_close(&r);
}

/* It rests until what it has read is within its rate. Then it can be cancelled, and a stop does not wait for it. */
static void test_rate(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q = check_request(1);
        struct erig r;
        uint64_t c;

        (void)state;
        erig_open(&r, &o);
        c = spilled(&r, "a");
        erig_send(&r, &q, &B);
        while (B.n_progress == 0)
                erig_step(&r);
        go_on(&r, c, false);
        assert_false(B.final);
        engine_cancel(r.en, q.handle);
        erig_wait(&r, &B);
        assert_int_equal(B.err.code, ERR_CANCELLED);
        assert_non_null(strstr(B.err.msg, "bytes were checked"));
        erig_send(&r, &q, &B);
        while (B.n_progress == 0)
                erig_step(&r);
        erig_stop(&r, true);
        assert_int_equal(B.kind, ENGINE_ERROR);
        assert_int_equal(B.err.code, ERR_SHUTDOWN);
        erig_start(&r);
        erig_close(&r);
}

/* Records that go before they are read, or while that happens, are no problem. */
static void test_gone(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q = check_request(0);
        struct erig r;
        uint64_t a, b, n_all, n_b;

        (void)state;
        erig_open(&r, &o);
        a = spilled(&r, "a");
        n_b = n_records(&r);
        b = spilled(&r, "b");
        n_all = n_records(&r);
        n_b = n_all - n_b;
        gate_close(&record_gate, 1);
        erig_send(&r, &q, &A);
        gate_wait(&record_gate); /* before the second record of the first one */
        assert_int_equal(erig_simple(&r, ENGINE_CLOSE, b, &B), ENGINE_EMPTY);
        gate_open(&record_gate);
        erig_wait(&r, &A);
        assert_int_equal(A.kind, ENGINE_CHECKED);
        assert_int_equal(A.checked.n_problems, 0);
        assert_int_equal(A.checked.n_gone, n_b);
        assert_int_equal(A.checked.n_records, n_all - n_b);
        assert_int_equal(r.n_logs, 0);
        go_on(&r, a, false);
        erig_close(&r);
}

static void test_damage(void **state) {
        struct engine_options o = erig_options(64 << 20);
        const struct engine_problem *problem;
        struct erig r;
        uint64_t c, child, n;

        (void)state;
        expect();
        erig_open(&r, &o);
        c = spilled(&r, "a");
        child = erig_fork(&r, c);
        spilled(&r, "b");
        n = n_records(&r);
        flip(&r, c, 3000);
        check(&r);
        assert_int_equal(A.checked.n_problems, 1);
        assert_int_equal(A.checked.n_listed, 1);
        problem = &A.checked.problems[0];
        assert_string_equal(problem->kind, "spill");
        assert_int_equal(problem->conv, c);
        assert_true(problem->record > 0 && problem->is_forgotten);
        assert_non_null(strstr(problem->text, "spill file"));
        /* What lies behind it is of no use without it. */
        assert_true(A.checked.n_forgotten > 1);
        assert_int_equal(A.checked.n_records + A.checked.n_forgotten, n);
        assert_int_equal(A.checked.n_gone, 0);
        assert_int_equal(n_records(&r), n - A.checked.n_forgotten);
        assert_non_null(strstr(r.log, "check: conversation"));
        assert_non_null(strstr(r.log, "forgotten"));
        erig_look_at_register(&r);
        check_clean(&r, n_records(&r));
        go_on(&r, c, true);
        go_on(&r, child, false); /* which shares what is in RAM again */
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, &B), ENGINE_CONV);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, child, &B), ENGINE_CONV);
        check_clean(&r, n_records(&r));
        erig_close(&r);
}

/* The record is damaged, and its block is in RAM: it is used, and written once more. */
static void test_damage_of_resident(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct erig r;
        uint64_t c, n;

        (void)state;
        erig_open(&r, &o);
        c = spilled(&r, "a");
        assert_int_equal(erig_simple(&r, ENGINE_WARM, c, &A), ENGINE_CONV);
        n = n_records(&r);
        flip(&r, c, 3000);
        check(&r);
        assert_int_equal(A.checked.n_problems, 1);
        assert_true(n_records(&r) < n);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, &A), ENGINE_CONV);
        assert_int_equal(n_records(&r), n);
        check_clean(&r, n);
        go_on(&r, c, false);
        erig_restart(&r, true);
        check_clean(&r, n_records(&r));
        erig_close(&r);
}

/* Files that were removed while nobody ran; a disk that does not read; and what may pass. */
static void test_lost(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct erig r;
        char cmd[256];
        uint64_t c, n;

        (void)state;
        erig_open(&r, &o);
        c = spilled(&r, "a");
        n = n_records(&r);
        fails_with = EMFILE;
        check(&r);
        fails_with = 0;
        assert_int_equal(A.checked.n_problems, n);
        assert_int_equal(A.checked.n_forgotten, 0);
        assert_false(A.checked.problems[0].is_forgotten);
        check_clean(&r, n);
        erig_stop(&r, true);
        snprintf(cmd, sizeof(cmd), "rm '%s/spill/%016llx.kv'", r.dir, (unsigned long long)c);
        assert_int_equal(system(cmd), 0);
        erig_start(&r);
        check(&r);
        assert_int_equal(A.checked.n_problems, 1);
        assert_int_equal(A.checked.n_forgotten, n);
        erig_look_at_register(&r);
        go_on(&r, c, true);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, &A), ENGINE_CONV);
        n = n_records(&r);
        fails_with = EIO;
        check(&r);
        fails_with = 0;
        assert_int_equal(A.checked.n_forgotten, n);
        erig_close(&r);
}

static void change_register(const struct erig *r, const char *sql) {
        char path[128];
        sqlite3 *db = NULL;

        snprintf(path, sizeof(path), "%s/register.db", r->dir);
        assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
        if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
                fail_msg("%s", sqlite3_errmsg(db));
        sqlite3_close(db);
}

/* Told, in words that fit a terminal, and not repaired. */
static void test_register(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct erig r;
        uint64_t c;

        (void)state;
        erig_open(&r, &o);
        c = spilled(&r, "a");
        erig_stop(&r, true);
        change_register(&r,
                "UPDATE turn SET token_hash = token_hash + 1 WHERE n = 1;"
                "CREATE TABLE \"new\x1b[2J\" (a NOT NULL); INSERT INTO \"new\x1b[2J\" VALUES (1);"
                "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, 'a NOT', "
                "'a TEXT NOT') WHERE name LIKE 'new%'");
        erig_start(&r);
        for (int i = 0; i < 2; i++) {
                check(&r);
                assert_int_equal(A.checked.n_problems, 2);
                assert_string_equal(A.checked.problems[0].kind, "register");
                assert_non_null(strstr(A.checked.problems[0].text, "new?[2J"));
                assert_string_equal(A.checked.problems[1].kind, "turn");
                assert_int_equal(A.checked.problems[1].conv, c);
                assert_int_equal(A.checked.n_forgotten, 0);
        }
        assert_non_null(strstr(r.logs, "check: conversation"));
        assert_int_equal(r.n_logged[ENGINE_LOG_REGISTER_DAMAGED], 2);
        assert_int_equal(r.n_logged[ENGINE_LOG_TURN_DAMAGED], 2);
        erig_close(&r);
}

/* Of very much damage the first problems are listed, and told in the journal; the rest is counted. */
static void test_many(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct erig r;

        (void)state;
        erig_open(&r, &o);
        spilled(&r, "a");
        erig_stop(&r, true);
        change_register(&r,
                "PRAGMA foreign_keys = OFF;"
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300) "
                "INSERT INTO turn_figures SELECT 1000 + i, 1, '', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 "
                "FROM n");
        erig_start(&r);
        r.n_logs = 0;
        check(&r);
        assert_int_equal(A.checked.n_problems, 300);
        assert_int_equal(A.checked.n_listed, ENGINE_MAX_PROBLEMS);
        assert_int_equal(r.n_logs, ENGINE_MAX_PROBLEMS);
        erig_close(&r);
}

/* Conversations are made, said something to, evicted, rewound and closed while checks run one after the other. */
static void test_beside_everything(void **state) {
        struct engine_options o = erig_options(24 << 20);
        struct engine_request q = check_request(0);
        unsigned n_checks = 0, rounds = ERIG_ROUNDS(60, 15);
        uint64_t c[4] = {0}, n_gone = 0;
        struct erig r;

        (void)state;
        erig_open(&r, &o);
        erig_send(&r, &q, &B);
        for (unsigned i = 0; i < rounds || n_checks < 3; i++) {
                unsigned k = i % ARRAY_SIZE(c);

                if (c[k])
                        assert_int_equal(erig_simple(&r, ENGINE_CLOSE, c[k], &A), ENGINE_EMPTY);
                c[k] = i % 3 == 0 && c[(k + 1) % 4] ? erig_fork(&r, c[(k + 1) % 4])
                                                    : erig_new(&r, NULL, NULL);
                erig_say(&r, c[k], erig_words(40, i), 4, &A);
                if (i % 2 == 0)
                        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c[k], &A), ENGINE_CONV);
                erig_take_all(&r);
                if (!B.final)
                        continue;
                if (B.kind != ENGINE_CHECKED)
                        fail_msg("%s", B.err.msg);
                if (B.checked.n_problems > 0)
                        fail_msg("%s: %s", B.checked.problems[0].kind, B.checked.problems[0].text);
                n_checks++;
                n_gone += B.checked.n_gone;
                erig_send(&r, &q, &B);
        }
        print_message(
                "%u checks, %llu records went meanwhile\n", n_checks, (unsigned long long)n_gone);
        erig_wait(&r, &B);
        erig_check_budget(&r);
        erig_check_register(&r);
        erig_close(&r);
}

/* The register of the backup in A.fd, written to @path: its entry is the last but two. Returns the records in front of it. */
static unsigned take_register(const char *path) {
        uint64_t at = 0;
        unsigned n = 0;

        for (;;) {
                char header[512], *data;
                uint64_t size;

                assert_int_equal(pread(A.fd, header, sizeof(header), (off_t)at), sizeof(header));
                size = strtoull(header + 124, NULL, 8);
                at += sizeof(header);
                if (strcmp(header, "confab-backup/register.db") == 0) {
                        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);

                        data = malloc(size);
                        assert_true(fd >= 0 && data);
                        assert_int_equal(pread(A.fd, data, size, (off_t)at), size);
                        assert_int_equal(write(fd, data, size), size);
                        free(data);
                        close(fd);
                        return n;
                }
                assert_memory_equal(header, "confab-backup/memory/", 21);
                n++;
                at += size;
        }
}

/* Memory goes, and is damaged, while a backup takes it along: the copied register has just the records that are in the archive,
 * and keeps its rules. */
static void test_backup(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q = {.verb = ENGINE_BACKUP, .admin = true, .with_memory = true};
        struct store_census census = {0};
        struct store *copy = NULL;
        uint64_t a, b, n_a, n_b, id = 0;
        char path[128];
        struct erig r;
        struct err e;

        (void)state;
        erig_open(&r, &o);
        a = spilled(&r, "a");
        n_a = n_records(&r);
        b = spilled(&r, "b");
        n_b = n_records(&r) - n_a;
        snprintf(path, sizeof(path), "%s/copy.db", r.dir);
        gate_close(&stored_gate, 1);
        erig_send(&r, &q, &A);
        gate_wait(&stored_gate); /* before the second record of the first one */
        assert_int_equal(erig_simple(&r, ENGINE_CLOSE, b, &B), ENGINE_EMPTY);
        gate_open(&stored_gate);
        erig_wait(&r, &A);
        assert_int_equal(A.kind, ENGINE_EXPORTED);
        assert_int_equal(take_register(path), n_a);
        assert_int_equal(store_open_existing(&copy, path, &e), 0);
        assert_int_equal(store_check(copy, NULL, NULL, &census, &e), 0);
        assert_int_equal(census.n_findings, 0);
        assert_int_equal(census.n_records, n_a);
        assert_int_equal(census.n_convs, 2); /* of that moment */
        assert_true(n_b > 0);
        store_free(copy);
        unlink(path);
        flip(&r, a, 3000);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_EXPORTED);
        id = take_register(path);
        assert_true(id < n_a);
        assert_int_equal(store_open_existing(&copy, path, &e), 0);
        assert_int_equal(store_check(copy, NULL, NULL, &census, &e), 0);
        assert_int_equal(census.n_findings, 0);
        assert_true(census.n_records <= id);
        store_free(copy);
        unlink(path);
        answer_reset(&A);
        snprintf(path, sizeof(path), "%s/backup.db", r.dir);
        assert_int_equal(access(path, F_OK), -1);
        erig_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(test_sound, reset),
                cmocka_unit_test_setup(test_one_at_a_time, reset),
                cmocka_unit_test_setup(test_holds_nobody, reset),
                cmocka_unit_test_setup(test_rate, reset),
                cmocka_unit_test_setup(test_gone, reset),
                cmocka_unit_test_setup(test_damage, reset),
                cmocka_unit_test_setup(test_damage_of_resident, reset),
                cmocka_unit_test_setup(test_lost, reset),
                cmocka_unit_test_setup(test_register, reset),
                cmocka_unit_test_setup(test_many, reset),
                cmocka_unit_test_setup(test_beside_everything, reset),
                cmocka_unit_test_setup(test_backup, reset),
        };

        erig_need_model();
        expect();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
