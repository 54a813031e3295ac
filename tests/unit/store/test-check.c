/* SPDX-License-Identifier: MIT */
/* Every kind of damage is found, even in a register that was opened for reading only. */
#include "store-fixture.h"
#include <sys/stat.h>

static void fill(struct fixture *f) {
        struct store_conv child = {.name = "child"};
        struct store_turn last = {.role = 2, .start = 50, .end = 70};
        int32_t a[320];
        uint64_t id;

        fixture_tokens(a, 320, 1);
        id = fixture_history(f, 1, "a", a, 310, 10, false);
        assert_int_equal(store_conv_fork(f->s, id, 2, &last, NULL, &child, &f->e), 0);
        fixture_tokens(a, 320, 2);
        fixture_history(f, 2, "b", a, 100, 4, true);
        fixture_conv(f, 3, "empty");
}

static void test_sound(void **state) {
        struct fixture *f = *state;
        struct fixture_findings x = {};
        struct store_census census = {};

        fixture_expect_sound(f);
        fill(f);
        assert_int_equal(store_check(f->s, fixture_note, &x, &census, &f->e), 0);
        assert_int_equal(census.n_findings, 0);
        assert_int_equal(census.n_convs, 4);
        assert_int_equal(census.n_turns, 7 + 2 + 2);
        assert_int_equal(census.n_tokens, 310 + 70 + 100);
        assert_int_equal(census.n_links, 10 + 3 + 4);
        assert_int_equal(census.n_records, 14);
        assert_int_equal(census.stored_size, 14 * 4096);
        assert_int_equal(census.raw_size, 14 * 8192);
}

/* All slices, as a daemon takes them while it has the register open. */
static void check_in_slices(struct fixture *f, const struct store_check_options *o,
        struct store_census *ret, uint64_t *ret_size) {
        struct store_checker *c = NULL;
        int r;

        assert_int_equal(store_checker_new(&c, f->s, o, &f->e), 0);
        while ((r = store_checker_step(c, &f->e)) > 0)
                ;
        if (r < 0)
                fail_msg("%s", f->e.msg);
        assert_int_equal(store_checker_step(c, &f->e), 0);
        store_checker_tell(c, ret, ret_size);
        store_checker_free(c);
}

static void test_sound_in_slices(void **state) {
        struct fixture *f = *state;
        struct fixture_findings x = {};
        struct store_check_options o = {.found = fixture_note, .arg = &x};
        struct store_census whole = {}, census = {};
        uint64_t size = 0;

        fill(f);
        assert_int_equal(store_check(f->s, NULL, NULL, &whole, &f->e), 0);
        check_in_slices(f, &o, &census, &size);
        if (x.n > 0)
                fail_msg("%s", x.first);
        assert_memory_equal(&whole, &census, sizeof(whole));
        assert_true(size > 0 && (size % 512 == 0 || fixture_is_server(f)));
}

static unsigned n_damaged;

/* Damage a filled register; it has findings of @kind. */
static void expect(enum store_finding_kind kind, const char *sql) {
        struct fixture_findings x = {};
        struct store_census census = {};
        void *state = NULL;
        struct fixture *f;

        fixture_setup(&state);
        f = state;
        fill(f);
        if (!fixture_damage(f, sql)) {
                fixture_teardown(&state);
                return;
        }
        n_damaged++;
        check_in_slices(f, &(struct store_check_options){.found = fixture_note, .arg = &x},
                &(struct store_census){}, &(uint64_t){0});
        if (x.of[kind] == 0)
                fail_msg("%s: in slices %u findings, the first: %s", sql, x.n, x.first);
        x = (struct fixture_findings){};
        if (!fixture_is_server(f)) {
                f->s = store_free(f->s);
                assert_int_equal(store_open_readonly(&f->s, f->path, &f->e), 0);
        }
        assert_int_equal(store_check(f->s, fixture_note, &x, &census, &f->e), 0);
        assert_int_equal(census.n_findings, x.n);
        if (x.of[kind] == 0)
                fail_msg("%s: %u findings, the first: %s", sql, x.n, x.first);
        fixture_teardown(&state);
}

static void test_damage(void **state) {
        expect(STORE_FINDING_CONV, "UPDATE conversation SET n_tokens = 309 WHERE id = 1");
        expect(STORE_FINDING_CONV, "UPDATE conversation SET n_turns = 8 WHERE id = 1");
        expect(STORE_FINDING_CONV, "UPDATE conversation SET name = '' WHERE id = 1");
        expect(STORE_FINDING_CONV, "UPDATE conversation SET parent = 3 WHERE id = 2");
        expect(STORE_FINDING_CONV, "UPDATE conversation SET n_published = 311 WHERE id = 1");
        expect(STORE_FINDING_CONV, "UPDATE conversation SET n_published = 1 WHERE id = 3");
        expect(STORE_FINDING_CONV, "UPDATE conversation SET pinned = 2 WHERE id = 1");
        expect(STORE_FINDING_CONV, "UPDATE conversation SET id = -5 WHERE id = 4");
        expect(STORE_FINDING_CONV, "UPDATE conversation SET id = 0 WHERE id = 4");
        expect(STORE_FINDING_CONV, "DELETE FROM turn WHERE conversation = 1 AND n = 6");
        expect(STORE_FINDING_TURN, "DELETE FROM turn WHERE conversation = 1 AND n = 2");
        expect(STORE_FINDING_TURN, "UPDATE turn SET first = 49 WHERE n = 1");
        expect(STORE_FINDING_TURN, "UPDATE turn SET tokens = x'0011' WHERE n = 1");
        expect(STORE_FINDING_TURN, "UPDATE turn SET tokens = zeroblob(196) WHERE n = 1");
        expect(STORE_FINDING_TURN, "UPDATE turn SET tokens = zeroblob(200) WHERE n = 1");
        expect(STORE_FINDING_TURN, "UPDATE turn SET token_hash = token_hash + 1 WHERE n = 1");
        expect(STORE_FINDING_CONV, "UPDATE conversation SET on_disk = 0 WHERE id = 1");
        expect(STORE_FINDING_CONV, "UPDATE conversation SET on_disk = 1 WHERE id = 4");
        expect(STORE_FINDING_TURN, "UPDATE turn SET role = 'king' WHERE n = 1");
        expect(STORE_FINDING_TURN, "INSERT INTO turn SELECT 77, n, role, first, past, finish, "
                                   "created_usec, token_hash, extra, text, tokens, chain FROM turn "
                                   "WHERE conversation = 1");
        expect(STORE_FINDING_LINK, "DELETE FROM record WHERE id = 3");
        expect(STORE_FINDING_LINK, "UPDATE link SET block = 30 WHERE block = 9");
        expect(STORE_FINDING_LINK, "UPDATE link SET class = 1 WHERE block = 9");
        expect(STORE_FINDING_LINK, "UPDATE link SET n_valid = 33 WHERE block = 1");
        expect(STORE_FINDING_LINK, "UPDATE link SET n_valid = 32 WHERE conversation = 2");
        expect(STORE_FINDING_LINK, "INSERT INTO link (conversation, block, class, record, n_valid) "
                                   "VALUES (77, 0, 0, 1, 32)");
        expect(STORE_FINDING_RECORD, "DELETE FROM link WHERE record = 10");
        expect(STORE_FINDING_RECORD, "UPDATE record SET start = -1 WHERE id = 10");
        expect(STORE_FINDING_RECORD, "UPDATE record SET private = 7 WHERE id = 10");
        expect(STORE_FINDING_PLACE, "UPDATE record SET start = start + 1 WHERE id = 2");
        expect(STORE_FINDING_PLACE, "UPDATE record SET stored_size = 4096 * 4 WHERE id = 2");
        expect(STORE_FINDING_HASH, "UPDATE record SET token_hash = token_hash + 1 WHERE id = 10");
        expect(STORE_FINDING_HASH, "UPDATE turn SET tokens = zeroblob(200) "
                                   "WHERE conversation = 1 AND n = 3");
        expect(STORE_FINDING_HASH, "UPDATE record SET n_tokens = 21 WHERE id = 10; "
                                   "UPDATE link SET n_valid = 21 WHERE record = 10");
        expect(STORE_FINDING_ACCESS, "UPDATE conversation SET private_memory = 0");
        expect(STORE_FINDING_ACCESS, "UPDATE record SET private = 1 WHERE id = 1");
        expect(STORE_FINDING_FILE, "UPDATE sqlite_sequence SET seq = 1");
        expect(STORE_FINDING_FILE, "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET "
                                   "sql = replace(sql, 'token_hash', 'start') "
                                   "WHERE name = 'record_prefix'");
        /* Of a server as much as it lets one damage. */
        assert_true(n_damaged >= 25);
}

static const struct store_shape classes = {.block_tokens = 32, .classes = 7, .window = 40};

/* A conversation with memory of all classes: 100 tokens, a checkpoint at 64. */
static void fill_classes(struct fixture *f) {
        static const struct store_cell cells[] = {
                {0, 0}, {0, 1}, {0, 2}, {0, 3}, {1, 0}, {1, 1}, {1, 2}, {1, 3}, {2, 63}, {2, 99}};
        int32_t a[100];

        fixture_tokens(a, 100, 1);
        fixture_link_cells(f, fixture_history(f, 1, "a", a, 100, 0, false), &classes, a, 100, cells,
                sizeof(cells) / sizeof(cells[0]));
}

/* Between what the check reads of a conversation's row and of its links. */
static struct fixture *writer;
int __real_about_read(struct store *s, uint64_t id, store_admit_fn *admit, void *arg,
        struct about **ret, struct err *e);
int __wrap_about_read(struct store *s, uint64_t id, store_admit_fn *admit, void *arg,
        struct about **ret, struct err *e);
int __wrap_about_read(struct store *s, uint64_t id, store_admit_fn *admit, void *arg,
        struct about **ret, struct err *e) {
        static const struct store_cell cells[] = {{0, 0}, {1, 0}, {2, 31}};
        struct fixture *f = TAKE_PTR(writer);
        int32_t a[100];

        if (f) {
                fixture_tokens(a, 100, 1);
                fixture_link_cells(f, id, &classes, a, 100, cells, ARRAY_SIZE(cells));
        }
        return __real_about_read(s, id, admit, arg, ret, e);
}

/* What is committed meanwhile is no damage: the check sees one moment. */
static void test_beside_writer(void **state) {
        struct fixture *f = *state;
        struct fixture_findings x = {};
        struct store_census census = {};
        struct store *s = NULL;
        int32_t a[100];

        fixture_of_file(f);
        fixture_tokens(a, 100, 1);
        fixture_history(f, 1, "a", a, 100, 0, false);
        assert_int_equal(store_open(&s, f->path, &f->e), 0);
        writer = f;
        assert_int_equal(store_check(s, fixture_note, &x, &census, &f->e), 0);
        assert_null(writer);
        if (census.n_findings > 0)
                fail_msg("%s", x.first);
        assert_int_equal(census.n_links, 0);
        store_free(s);
        fixture_expect_sound(f);
}

static void expect_in_classes(enum store_finding_kind kind, const char *sql) {
        struct fixture_findings x = {};
        struct store_census census = {};
        void *state = NULL;
        struct fixture *f;

        fixture_setup(&state);
        f = state;
        fill_classes(f);
        fixture_expect_sound(f);
        if (!fixture_damage(f, sql)) {
                fixture_teardown(&state);
                return;
        }
        assert_int_equal(store_check(f->s, fixture_note, &x, &census, &f->e), 0);
        if (x.of[kind] == 0)
                fail_msg("%s: %u findings, the first: %s", sql, x.n, x.first);
        fixture_teardown(&state);
}

static void test_damaged_classes(void **state) {
        /* Of states the hash of all tokens before, of windows as of others. */
        expect_in_classes(STORE_FINDING_HASH,
                "UPDATE record SET token_hash = token_hash + 1 WHERE class = 2 AND block = 63");
        expect_in_classes(STORE_FINDING_HASH,
                "UPDATE record SET token_hash = token_hash + 1 WHERE class = 1 AND block = 3");
        expect_in_classes(STORE_FINDING_HASH,
                "UPDATE record SET block = 62 WHERE class = 2 AND block = 63;"
                "UPDATE link SET block = 62 WHERE class = 2 AND block = 63");
        expect_in_classes(STORE_FINDING_LINK,
                "UPDATE record SET n_tokens = 2 WHERE class = 2 AND block = 63");
        expect_in_classes(STORE_FINDING_LINK,
                "UPDATE record SET n_tokens = 0 WHERE class = 2 AND block = 63");
        expect_in_classes(STORE_FINDING_LINK,
                "UPDATE record SET n_tokens = 33 WHERE class = 1 AND block = 1");
        expect_in_classes(STORE_FINDING_LINK,
                "UPDATE record SET block = 100 WHERE class = 2 AND block = 99;"
                "UPDATE link SET block = 100 WHERE class = 2 AND block = 99");
        expect_in_classes(STORE_FINDING_LINK,
                "UPDATE record SET class = 3 WHERE class = 2; UPDATE link SET class = 3 "
                "WHERE class = 2");
        expect_in_classes(STORE_FINDING_LINK, "UPDATE conversation SET memory_classes = 3");
        expect_in_classes(STORE_FINDING_HASH, "UPDATE conversation SET block_tokens = 64");
        expect_in_classes(STORE_FINDING_CONV, "UPDATE conversation SET memory_chunk = 64");
        expect_in_classes(STORE_FINDING_CONV, "UPDATE conversation SET memory_window = 0");
        expect_in_classes(STORE_FINDING_CONV, "PRAGMA ignore_check_constraints = ON;"
                                              "UPDATE conversation SET memory_classes = 8");
}

/* Between two slices everything may change: what is found is only what was wrong at one moment. */
static void test_slices_beside_writers(void **state) {
        struct fixture *f = *state;
        struct fixture_findings x = {};
        struct store_check_options o = {.found = fixture_note, .arg = &x};
        struct store_checker *c = NULL;
        struct store_gone gone = {};
        struct store_census census = {};
        uint64_t size, made = 0;
        int32_t a[100];
        unsigned n = 0;
        int r;

        fill(f);
        assert_int_equal(store_checker_new(&c, f->s, &o, &f->e), 0);
        fixture_tokens(a, 100, 3);
        while ((r = store_checker_step(c, &f->e)) > 0) {
                char name[16];

                snprintf(name, sizeof(name), "new%u", n);
                if (made > 0) {
                        assert_int_equal(store_conv_delete(f->s, made, &gone, &f->e), 0);
                        store_gone_deinit(&gone);
                }
                /* Once so many conversations were made that the walk through them has an end. */
                made = n++ < 60 ? fixture_history(f, 3, name, a, 100, 3, false) : 0;
        }
        assert_int_equal(r, 0);
        if (x.n > 0)
                fail_msg("%s", x.first);
        store_checker_tell(c, &census, &size);
        assert_in_range(census.n_convs, 5, 70);
        store_checker_free(c);
        fixture_expect_sound(f);
}

static bool always(void *arg) {
        (*(unsigned *)arg)++;
        return true;
}

static int admit_little(void *arg, size_t n, struct err *e) {
        size_t *most = arg;

        *most = MAX(*most, n);
        return n > 500 ? err_set(e, ERR_LIMIT, "too much") : 0;
}

/* What ends a check early is told, and is no finding. */
static void test_slices_end(void **state) {
        struct fixture *f = *state;
        struct fixture_findings x = {};
        unsigned n_asked = 0;
        size_t most = 0;
        struct store_check_options stopped = {
                .found = fixture_note, .arg = &x, .stop = always, .stop_arg = &n_asked};
        struct store_check_options small = {
                .found = fixture_note, .arg = &x, .admit = admit_little, .admit_arg = &most};
        struct store_checker *c = NULL;
        int r;

        fixture_of_file(f);
        fill(f);
        fixture_sql(f,
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) "
                "INSERT INTO meter SELECT 'm' || i, i FROM n");
        assert_int_equal(store_checker_new(&c, f->s, &stopped, &f->e), 0);
        while ((r = store_checker_step(c, &f->e)) > 0)
                ;
        assert_int_equal(r, -ERR_CANCELLED);
        assert_true(n_asked > 0);
        store_checker_free(c);
        assert_int_equal(store_checker_new(&c, f->s, &small, &f->e), 0);
        while ((r = store_checker_step(c, &f->e)) > 0)
                ;
        assert_int_equal(r, -ERR_LIMIT);
        assert_int_equal(most, 2 * 4 * 310 + 8 * 310);
        assert_int_equal(x.n, 0);
        store_checker_free(c);
}

/* Records by pages, with one of the conversations that have them; those that are gone are gone. */
static void test_slices_records(void **state) {
        struct fixture *f = *state;
        struct store_check_options o = {};
        struct store_checker *c = NULL;
        struct store_held held[5];
        uint64_t total = 0, size = 0, last = 0;
        struct store_gone gone = {};
        size_t n, n_all = 0;
        bool more = true;

        fill(f);
        fixture_sql(f,
                "UPDATE record SET start = -1 WHERE id = 8; DELETE FROM link WHERE record = 9;"
                "UPDATE link SET n_valid = 0 WHERE record = 10");
        assert_int_equal(store_checker_new(&c, f->s, &o, &f->e), 0);
        while (store_checker_step(c, &f->e) > 0)
                ;
        assert_int_equal(store_checker_total(c, &total, &size, &f->e), 0);
        assert_int_equal(total, 14);
        assert_int_equal(size, 14 * 4096);
        while (more) {
                assert_int_equal(store_checker_records(c, held, 5, &n, &more, &f->e), 0);
                for (size_t i = 0; i < n; i++) {
                        assert_true(held[i].record.id > last);
                        last = held[i].record.id;
                        assert_true(last != 8 && last != 9 && last != 10);
                        assert_int_equal(held[i].model.weights, 11);
                        assert_int_equal(held[i].conv, last > 10 ? 3 : held[i].conv == 2 ? 2 : 1);
                }
                n_all += n;
        }
        assert_int_equal(n_all, 11);
        assert_int_equal(store_checker_has(c, 14, &f->e), 1);
        assert_int_equal(store_conv_delete(f->s, 3, &gone, &f->e), 0);
        store_gone_deinit(&gone);
        assert_int_equal(store_checker_has(c, 14, &f->e), 0);
        store_checker_free(c);
}

static void test_list_held(void **state) {
        struct fixture *f = *state;
        struct store_held *held = NULL;
        size_t n = 9;

        assert_int_equal(store_list_held(f->s, &held, &n, &f->e), 0);
        assert_int_equal(n, 0);
        free(held);
        fill(f);
        /* Of record 2 the child has too little to show it, of record 1 all. */
        fixture_sql(f,
                "DELETE FROM link WHERE conversation = 1 AND block = 0;"
                "DELETE FROM link WHERE block = 5; UPDATE record SET start = -1 WHERE id = 8");
        assert_int_equal(store_list_held(f->s, &held, &n, &f->e), 0);
        assert_int_equal(n, 12);
        for (size_t i = 0; i < n; i++) {
                uint64_t id = held[i].record.id;

                assert_true(id != 6 && id != 8 && (i == 0 || id > held[i - 1].record.id));
                assert_int_equal(held[i].conv, id == 1 ? 2 : id <= 10 ? 1 : 3);
                assert_int_equal(held[i].model.weights, 11);
                assert_int_equal(held[i].record.n_valid, held[i].record.n_tokens);
        }
        free(held);
}

static void test_missing_table(void **state) {
        expect(STORE_FINDING_FILE, "DROP TABLE link");
}

static void test_readonly_changes_nothing(void **state) {
        struct fixture *f = *state;
        struct store_conv c = {.owner = 1, .name = "new"};
        struct stat before, after;
        char wal[128];

        fixture_of_file(f);
        fill(f);
        f->s = store_free(f->s);
        assert_int_equal(stat(f->path, &before), 0);
        assert_int_equal(store_open_readonly(&f->s, f->path, &f->e), 0);
        fixture_expect_sound(f);
        assert_int_equal(store_conv_create(f->s, &c, NULL, 0, NULL, 0, &f->e), -ERR_SYS);
        f->s = store_free(f->s);
        assert_int_equal(stat(f->path, &after), 0);
        assert_memory_equal(&before.st_mtim, &after.st_mtim, sizeof(before.st_mtim));
        snprintf(wal, sizeof(wal), "%s-wal", f->path);
        assert_int_not_equal(access(wal, F_OK), 0);
        snprintf(wal, sizeof(wal), "%s-shm", f->path);
        assert_int_not_equal(access(wal, F_OK), 0);
}

static void copy_file(const char *from, const char *to) {
        char buf[65536];
        FILE *in = fopen(from, "r"), *out = fopen(to, "w");
        size_t n;

        assert_true(in && out);
        while ((n = fread(buf, 1, sizeof(buf), in)) > 0)
                assert_int_equal(fwrite(buf, 1, n, out), n);
        fclose(in);
        assert_int_equal(fclose(out), 0);
}

/* What a crash leaves in the log is part of the register, and stays where it is. */
static void test_readonly_sees_the_log(void **state) {
        struct fixture *f = *state, g = {};
        struct stat before, after;
        char from[128], to[128];
        struct store_conv c;

        fixture_of_file(f);
        fill(f);
        /* A copy of the files of an open register is what a power cut leaves. */
        snprintf(g.dir, sizeof(g.dir), "%.40s/?a=b%%20#c", f->dir);
        assert_int_equal(mkdir(g.dir, 0700), 0);
        snprintf(g.path, sizeof(g.path), "%s/r.db", g.dir);
        copy_file(f->path, g.path);
        snprintf(from, sizeof(from), "%s-wal", f->path);
        snprintf(to, sizeof(to), "%s-wal", g.path);
        copy_file(from, to);
        assert_int_equal(stat(to, &before), 0);
        assert_true(before.st_size > 0);
        assert_int_equal(store_open_readonly(&g.s, g.path, &g.e), 0);
        fixture_expect_sound(&g);
        assert_int_equal(store_conv_get(g.s, 3, 0, "empty", &c, &g.e), 0);
        g.s = store_free(g.s);
        assert_int_equal(stat(to, &after), 0);
        assert_int_equal(before.st_size, after.st_size);
        assert_memory_equal(&before.st_mtim, &after.st_mtim, sizeof(before.st_mtim));
        unlink(to);
        /* Nor is an index of it left behind. */
        snprintf(to, sizeof(to), "%s-shm", g.path);
        assert_int_not_equal(access(to, F_OK), 0);
        unlink(g.path);
        assert_int_equal(rmdir(g.dir), 0);
}

static void test_readonly_refuses(void **state) {
        struct fixture *f = *state;
        struct store *s = NULL;

        fixture_of_file(f);
        f->s = store_free(f->s);
        assert_int_equal(store_open_readonly(&s, f->dir, &f->e), -ERR_SYS);
        assert_int_equal(store_open_readonly(&s, "/nonexistent/register.db", &f->e), -ERR_SYS);
        fixture_sql(f, "PRAGMA user_version = 1");
        assert_int_equal(store_open_readonly(&s, f->path, &f->e), -ERR_STATE);
        assert_non_null(strstr(f->e.msg, "schema version 1"));
        fixture_sql(f, "PRAGMA user_version = 99");
        assert_int_equal(store_open_readonly(&s, f->path, &f->e), -ERR_UNSUPPORTED);
        fixture_sql(f, "PRAGMA application_id = 1");
        assert_int_equal(store_open_readonly(&s, f->path, &f->e), -ERR_CORRUPT);
        assert_null(s);
        assert_int_equal(truncate(f->path, 0), 0);
        assert_int_equal(store_open_readonly(&s, f->path, &f->e), -ERR_STATE);
        assert_null(s);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                store_test(test_sound),
                store_test(test_sound_in_slices),
                store_test(test_slices_beside_writers),
                store_test(test_slices_end),
                store_test(test_slices_records),
                cmocka_unit_test(test_damage),
                cmocka_unit_test(test_damaged_classes),
                store_test(test_list_held),
                cmocka_unit_test(test_missing_table),
                store_test(test_beside_writer),
                store_test(test_readonly_changes_nothing),
                store_test(test_readonly_sees_the_log),
                store_test(test_readonly_refuses),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
