/* SPDX-License-Identifier: MIT */
/*
 * The model's identity: the hash in the register is used only for the file that it was computed
 * from, and the model must match an expected fingerprint. Also engine_look(), which opens a model
 * the same way and changes nothing.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "inside.h"
#include "rig.h"
#include "store/store.h"
#include "util/test.h"

static const char *const names[] = {"model_device", "model_inode", "model_size", "model_mtime_nsec",
        "model_ctime_nsec", "model_weights"};
enum { N_NAMES = 6, WEIGHTS = 5 };

/* What was told while opening. */
struct told {
        unsigned n[ENGINE_STAGE_SPILL + 1];
        enum engine_stage last;
        struct engine_opening model;
        int stop_at; /* this stage, or -1 */
};

static int tell(void *arg, const struct engine_opening *o) {
        struct told *t = arg;

        assert_true(o->stage >= t->last);
        t->last = o->stage;
        t->n[o->stage]++;
        if (o->stage == ENGINE_STAGE_MODEL)
                t->model = *o;
        return (int)o->stage == t->stop_at;
}

/* Open and close at once. */
static int open_once(struct engine_options *o, struct told *t, struct fingerprint *ret) {
        struct engine *en = NULL;
        struct engine_model_info model;
        struct err e;
        int r;

        *t = (struct told){.stop_at = -1};
        o->progress = tell;
        o->progress_arg = t;
        r = engine_open(&en, o, &e);
        if (r < 0)
                fail_msg("engine_open: %s", e.msg);
        inside_describe_model(en, &model);
        *ret = (struct fingerprint){model.fingerprint[0], model.fingerprint[1]};
        engine_free(en);
        o->progress = NULL;
        return r;
}

static void register_path(const struct engine_options *o, char path[256]) {
        snprintf(path, 256, "%s/register.db", o->state_dir);
}

static void read_meters(const struct engine_options *o, int64_t v[N_NAMES]) {
        struct store *s = NULL;
        char path[256];

        register_path(o, path);
        assert_int_equal(store_open(&s, path, NULL), 0);
        for (unsigned i = 0; i < N_NAMES; i++)
                assert_int_equal(store_meter_get(s, names[i], &v[i], NULL), 0);
        store_free(s);
}

static void write_meter(const struct engine_options *o, unsigned i, int64_t v) {
        struct store *s = NULL;
        char path[256];

        register_path(o, path);
        assert_int_equal(store_open(&s, path, NULL), 0);
        assert_int_equal(store_meter_set(s, &(struct store_meter){names[i], v}, 1, NULL), 0);
        store_free(s);
}

struct fixture {
        struct engine_options o;
        char dir[64];
};

static int setup(void **state) {
        struct fixture *f = calloc(1, sizeof(*f));

        assert_non_null(f);
        f->o = erig_options(64 << 20);
        f->o.model_path = erig_model();
        strcpy(f->dir, "/tmp/confab-identity-XXXXXX");
        assert_non_null(mkdtemp(f->dir));
        f->o.state_dir = f->dir;
        *state = f;
        return 0;
}

static int teardown(void **state) {
        struct fixture *f = *state;
        char command[128];

        snprintf(command, sizeof(command), "rm -rf %s", f->dir);
        assert_int_equal(system(command), 0);
        free(f);
        return 0;
}

static void test_remembered(void **state) {
        struct fixture *f = *state;
        struct fingerprint first, again;
        int64_t meters[N_NAMES];
        struct told t;
        struct stat st;

        erig_need_model();
        assert_int_equal(open_once(&f->o, &t, &first), 0);
        assert_true(t.n[ENGINE_STAGE_REGISTER] == 1 && t.n[ENGINE_STAGE_MODEL] == 1);
        assert_true(t.n[ENGINE_STAGE_WEIGHTS] > 0 && t.n[ENGINE_STAGE_SPILL] == 1);
        assert_true(t.model.weights_size > 1 << 20 && t.model.ram_size > t.model.weights_size);
        assert_int_equal(stat(f->o.model_path, &st), 0);
        read_meters(&f->o, meters);
        assert_int_equal(meters[0], st.st_dev);
        assert_int_equal(meters[1], st.st_ino);
        assert_int_equal(meters[2], st.st_size);
        assert_true((uint64_t)meters[WEIGHTS] == first.weights);
        assert_int_equal(open_once(&f->o, &t, &again), 0);
        assert_int_equal(t.n[ENGINE_STAGE_WEIGHTS], 0);
        assert_true(fingerprint_equal(&first, &again));
        f->o.verify_model = true;
        assert_int_equal(open_once(&f->o, &t, &again), 0);
        assert_true(t.n[ENGINE_STAGE_WEIGHTS] > 0);
        assert_true(fingerprint_equal(&first, &again));
}

/* A hash that is wrong on purpose shows where it comes from. */
static void test_any_difference_reads(void **state) {
        struct fixture *f = *state;
        struct fingerprint right, got;
        int64_t meters[N_NAMES];
        struct told t;

        erig_need_model();
        open_once(&f->o, &t, &right);
        read_meters(&f->o, meters);
        write_meter(&f->o, WEIGHTS, 4711);
        open_once(&f->o, &t, &got);
        assert_true(got.weights == 4711 && got.rules == right.rules);
        for (unsigned i = 0; i < WEIGHTS; i++) {
                write_meter(&f->o, WEIGHTS, 4711);
                write_meter(&f->o, i, meters[i] + 1);
                open_once(&f->o, &t, &got);
                assert_true(t.n[ENGINE_STAGE_WEIGHTS] > 0);
                assert_true(fingerprint_equal(&right, &got));
        }
        /* What verifying finds is remembered instead. */
        write_meter(&f->o, WEIGHTS, 4711);
        f->o.verify_model = true;
        open_once(&f->o, &t, &got);
        assert_true(fingerprint_equal(&right, &got));
        read_meters(&f->o, meters);
        assert_true((uint64_t)meters[WEIGHTS] == right.weights);
}

/* A file that has just been written could be written again within the same tick of its clock. */
static void test_fresh_file_is_not_remembered(void **state) {
        struct fixture *f = *state;
        char path[96], *bytes = NULL;
        struct fingerprint first, again;
        int64_t meters[N_NAMES];
        struct told t;
        size_t n;

        erig_need_model();
        assert_int_equal(file_read_all(f->o.model_path, 1 << 30, &bytes, &n, NULL), 0);
        snprintf(path, sizeof(path), "%s/copy.gguf", f->dir);
        assert_int_equal(file_replace(path, bytes, n, 0600, NULL), 0);
        free(bytes);
        f->o.model_path = path;
        open_once(&f->o, &t, &first);
        read_meters(&f->o, meters);
        for (unsigned i = 0; i < N_NAMES; i++)
                assert_int_equal(meters[i], 0);
        open_once(&f->o, &t, &again);
        assert_true(t.n[ENGINE_STAGE_WEIGHTS] > 0);
        assert_true(fingerprint_equal(&first, &again));
}

static void expect_refused(struct fixture *f, const char *fingerprint, int code, const char *part) {
        struct engine *en = NULL;
        struct err e;

        f->o.fingerprint = fingerprint;
        assert_int_equal(engine_open(&en, &f->o, &e), code);
        assert_null(en);
        if (!strstr(e.msg, part))
                fail_msg("'%s' does not have '%s'", e.msg, part);
}

static void test_expected_fingerprint(void **state) {
        struct fixture *f = *state;
        struct fingerprint is;
        char whole[33], weights[17], other[33];
        struct told t;

        erig_need_model();
        open_once(&f->o, &t, &is);
        snprintf(whole, sizeof(whole), "%016llx%016llx", (unsigned long long)is.weights,
                (unsigned long long)is.rules);
        snprintf(weights, sizeof(weights), "%.16s", whole);
        f->o.fingerprint = whole;
        open_once(&f->o, &t, &is);
        f->o.fingerprint = weights;
        open_once(&f->o, &t, &is);
        for (unsigned at = 0; at < 32; at += 31) {
                strcpy(other, whole);
                other[at] = other[at] == '0' ? '1' : '0';
                expect_refused(f, other, -ERR_STATE, whole);
                expect_refused(f, other, -ERR_STATE, other);
        }
        other[16] = '\0';
        expect_refused(f, "0000000000000000", -ERR_STATE, whole);
        expect_refused(f, "abc", -ERR_INVALID, "16 or 32");
        expect_refused(f, "", -ERR_INVALID, "16 or 32");
        expect_refused(f, "zzzzzzzzzzzzzzzz", -ERR_INVALID, "zzzz");
}

/* Broken off at each stage: nothing is left open, and the next start goes through. */
static void test_broken_off(void **state) {
        struct fixture *f = *state;
        struct fingerprint is;
        struct told t;
        struct err e;

        erig_need_model();
        for (int stage = 0; stage <= ENGINE_STAGE_SPILL; stage++) {
                struct engine *en = NULL;

                if (stage == ENGINE_STAGE_CHAINS)
                        continue; /* after an upgrade only: find-kept */
                t = (struct told){.stop_at = stage};
                f->o.progress = tell;
                f->o.progress_arg = &t;
                assert_int_equal(engine_open(&en, &f->o, &e), -ERR_CANCELLED);
                assert_null(en);
        }
        open_once(&f->o, &t, &is);
}

/* ---- RAM ---- */

/* ---- looking ---- */

static unsigned n_files(const char *dir) {
        DIR *d = opendir(dir);
        unsigned n = 0;

        while (d && readdir(d))
                n++;
        if (d)
                closedir(d);
        return n;
}

static void look(struct fixture *f, struct engine_view *ret) {
        struct engine *en = NULL;
        struct err e;

        if (engine_look(&en, &f->o, &e) < 0)
                fail_msg("engine_look: %s", e.msg);
        engine_view(en, ret);
        /* Strings are the engine's: of the model's name a test wants to know that it is there. */
        assert_true(strlen(ret->model.name) > 0);
        engine_free(en);
}

static void test_look(void **state) {
        struct fixture *f = *state;
        struct engine_view v;
        struct fingerprint is;
        struct told t;
        unsigned n;

        erig_need_model();
        look(f, &v);
        assert_int_equal(v.register_state, ENGINE_REGISTER_NONE);
        assert_false(v.remembered);
        assert_int_equal(n_files(f->dir), 2); /* . and .. */
        open_once(&f->o, &t, &is);
        assert_true(v.model.fingerprint[0] == is.weights && v.model.fingerprint[1] == is.rules);
        n = n_files(f->dir);
        look(f, &v);
        assert_int_equal(v.register_state, ENGINE_REGISTER_READ);
        assert_true(v.remembered);
        assert_int_equal(v.n_conversations, 0);
        assert_int_equal(n_files(f->dir), n);
        assert_true(v.budget == 64 << 20);
        assert_true(v.file_size > v.model.weights_size && v.ram_size > v.file_size);
        assert_int_equal(v.n_threads, 1);
}

/* The figures are those that an engine of these options has. */
static void test_look_figures(void **state) {
        struct fixture *f = *state;
        struct engine_options o = erig_options(erig_pool(9));
        struct engine_view v;
        struct erig r;

        erig_need_model();
        erig_open(&r, &o);
        f->o.pool_size = o.pool_size;
        look(f, &v);
        assert_int_equal(
                v.most_tokens / v.model.block_tokens + 1, erig_stat(&r, "pool_capacity_blocks"));
        assert_int_equal(v.budget, erig_stat(&r, "budget"));
        /* Beside the one that runs. */
        f->o.state_dir = r.dir;
        look(f, &v);
        assert_int_equal(v.register_state, ENGINE_REGISTER_BUSY);
        erig_new(&r, "a", NULL);
        erig_new(&r, "b", NULL);
        erig_stop(&r, true);
        look(f, &v);
        assert_int_equal(v.register_state, ENGINE_REGISTER_READ);
        assert_int_equal(v.n_conversations, 2);
        erig_start(&r);
        erig_close(&r);
}

/* A daemon may start while somebody looks: the lock is not held while weights are read. */
static void test_look_holds_no_lock(void **state) {
        struct fixture *f = *state;
        struct engine *looking = NULL;
        struct fingerprint is;
        struct told t;
        struct err e;

        erig_need_model();
        open_once(&f->o, &t, &is);
        f->o.progress = NULL;
        assert_int_equal(engine_look(&looking, &f->o, &e), 0);
        open_once(&f->o, &t, &is);
        engine_free(looking);
}

static void test_look_finds(void **state) {
        struct fixture *f = *state;
        struct engine *en = NULL;
        char path[256];
        struct err e;

        erig_need_model();
        f->o.pool_size = 1000;
        assert_int_equal(engine_look(&en, &f->o, &e), -ERR_LIMIT);
        f->o.pool_size = 64 << 20;
        f->o.fingerprint = "0123456789abcdef";
        assert_int_equal(engine_look(&en, &f->o, &e), -ERR_STATE);
        f->o.fingerprint = NULL;
        register_path(&f->o, path);
        assert_int_equal(
                file_replace(path, "no database, whatever it is called", 34, 0600, NULL), 0);
        assert_true(engine_look(&en, &f->o, &e) < 0);
        assert_non_null(strstr(e.msg, "register"));
        f->o.model_path = "/nonexistent.gguf";
        assert_int_equal(unlink(path), 0);
        assert_int_equal(engine_look(&en, &f->o, &e), -ERR_SYS);
        assert_null(en);
}

#define identity_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                identity_test(test_remembered),
                identity_test(test_any_difference_reads),
                identity_test(test_fresh_file_is_not_remembered),
                identity_test(test_expected_fingerprint),
                identity_test(test_broken_off),
                identity_test(test_look),
                identity_test(test_look_figures),
                identity_test(test_look_holds_no_lock),
                identity_test(test_look_finds),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
