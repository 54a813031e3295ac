/* SPDX-License-Identifier: MIT */
/*
 * Damage: spill files that are truncated, corrupted, missing, exchanged or made by another
 * arithmetic version; a register or a state folder that cannot be used; a full disk. Memory is only
 * a cache (I1): replies never change, the log reports the damage, other conversations are not
 * affected.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "link-rig.h"
#include "rig.h"
#include "store/store.h"
#include "util/test.h"

enum damage { CUT, EMPTY, FLIP_HEADER, FLIP_PAYLOAD, FLIP_LAST, ZERO, EXCHANGE, GONE, A_FOLDER, N };

static const char *const damage_names[N] = {"cut in half", "empty", "bit in the first header",
        "bit in a payload", "bit in the last record", "zeros", "exchanged with another", "gone",
        "a folder"};
static struct answer A, B, expected[3], other[2];

static const char LONG_TEXT[] =
        "This is a rather long story about a green house near a river, where seven birds live and "
        "sing at night. In winter there is snow on the stones, and Ada walks there with her dog. "
        "She likes music and apples, and in the evening she reads old letters from her friends.";

static const char *spill_path(const struct erig *r, uint64_t conv) {
        static char path[2][256];
        static unsigned which;

        which = !which;
        snprintf(path[which], sizeof(path[which]), "%s/spill/%016llx.kv", r->dir,
                (unsigned long long)conv);
        return path[which];
}

static void flip(int fd, off_t at) {
        uint8_t byte;

        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte ^= 0x10;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
}

static void do_damage(const struct erig *r, uint64_t conv, uint64_t another, enum damage d) {
        const char *path = spill_path(r, conv);
        static const uint8_t zeros[1 << 16];
        struct stat st;
        char cmd[1024];
        int fd = open(path, O_RDWR);

        assert_true(fd >= 0);
        assert_int_equal(fstat(fd, &st), 0);
        switch (d) {
        case CUT:
                assert_int_equal(ftruncate(fd, st.st_size / 2), 0);
                break;
        case EMPTY:
                assert_int_equal(ftruncate(fd, 0), 0);
                break;
        case FLIP_HEADER:
                flip(fd, 9);
                break;
        case FLIP_PAYLOAD:
                flip(fd, 3000);
                break;
        case FLIP_LAST:
                flip(fd, st.st_size - 4096 + 40);
                flip(fd, st.st_size - 8192 + 40);
                break;
        case ZERO:
                for (off_t at = 0; at < st.st_size; at += (off_t)sizeof(zeros))
                        assert_true(pwrite(fd, zeros, sizeof(zeros), at) > 0);
                break;
        case EXCHANGE:
                snprintf(cmd, sizeof(cmd), "cat '%s' > '%s'", spill_path(r, another), path);
                assert_int_equal(system(cmd), 0);
                break;
        case GONE:
                assert_int_equal(unlink(path), 0);
                break;
        case A_FOLDER:
                assert_int_equal(unlink(path), 0);
                assert_int_equal(mkdir(path, 0700), 0);
                break;
        case N:
                break;
        }
        close(fd);
}

static void answers(struct engine_options o) {
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        erig_say(&r, c, LONG_TEXT, 12, &expected[0]);
        erig_say(&r, c, "What does Ada like?", 12, &expected[1]);
        erig_say(&r, c, "And where?", 12, &expected[2]);
        c = erig_new(&r, NULL, NULL);
        erig_say(&r, c, "My name is Ben. I live in a small town near the sea.", 12, &other[0]);
        erig_say(&r, c, "What is my name?", 12, &other[1]);
        erig_close(&r);
}

static void damage_case(enum damage d, bool restart) {
        struct engine_options o = erig_options(64 << 20);
        struct erig r;
        uint64_t c, o_conv;

        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        o_conv = erig_new(&r, NULL, NULL);
        erig_say(&r, c, LONG_TEXT, 12, &A);
        answer_same(&A, &expected[0]);
        erig_say(&r, o_conv, "My name is Ben. I live in a small town near the sea.", 12, &A);
        if (restart) {
                erig_stop(&r, true);
                do_damage(&r, c, o_conv, d);
                erig_start(&r);
        } else {
                erig_simple(&r, ENGINE_EVICT, c, &A);
                erig_simple(&r, ENGINE_EVICT, o_conv, &A);
                do_damage(&r, c, o_conv, d);
        }
        erig_say(&r, c, "What does Ada like?", 12, &A);
        answer_same(&A, &expected[1]);
        /* A file that is open lives on without its name. */
        if (restart || (d != GONE && d != A_FOLDER)) {
                if (r.n_logs == 0 || !strstr(r.logs, "spill file"))
                        fail_msg("%s: no log tells of it ('%s')", damage_names[d], r.logs);
                assert_true(A.n_computed > 0);
        }
        assert_true(r.n_logs < 8);
        erig_say(&r, o_conv, "What is my name?", 12, &B);
        answer_same(&B, &other[1]);
        assert_true(B.n_disk > 0);
        /* The spill file can be used anew. */
        erig_simple(&r, ENGINE_EVICT, c, &B);
        erig_say(&r, c, "And where?", 12, &A);
        answer_same(&A, &expected[2]);
        if (d != A_FOLDER)
                assert_true(A.n_disk > 0);
        erig_simple(&r, ENGINE_CLOSE, c, &A);
        erig_simple(&r, ENGINE_CLOSE, o_conv, &A);
        if (d != A_FOLDER) /* the store does not remove what it did not make */
                erig_check_empty(&r);
        erig_close(&r);
}

static void test_damage(void **state) {
        answers(erig_options(64 << 20));
        for (int d = 0; d < N; d++)
                for (int restart = 0; restart < 2; restart++) {
                        print_message("%s%s\n", damage_names[d], restart ? ", found at start" : "");
                        damage_case((enum damage)d, restart);
                }
}

/* The parent's file is damaged under a fork: both go on. */
static void test_damage_under_fork(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q = erig_request(ENGINE_FORK, 0);
        struct erig r;
        uint64_t c, d;

        answers(o);
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        erig_say(&r, c, LONG_TEXT, 12, &A);
        q.conv_id = c;
        erig_do(&r, &q, &A);
        d = A.conv.id;
        erig_simple(&r, ENGINE_EVICT, c, &A);
        erig_simple(&r, ENGINE_EVICT, d, &A);
        do_damage(&r, c, c, FLIP_PAYLOAD);
        erig_say(&r, d, "What does Ada like?", 12, &A);
        answer_same(&A, &expected[1]);
        erig_say(&r, c, "What does Ada like?", 12, &A);
        answer_same(&A, &expected[1]);
        erig_simple(&r, ENGINE_EVICT, c, &A);
        erig_simple(&r, ENGINE_EVICT, d, &A);
        erig_simple(&r, ENGINE_CLOSE, c, &A);
        erig_say(&r, d, "And where?", 12, &A);
        answer_same(&A, &expected[2]);
        assert_true(A.n_disk > 0);
        erig_simple(&r, ENGINE_CLOSE, d, &A);
        erig_check_empty(&r);
        erig_close(&r);
}

/* Forks share a damaged record: one reads it, and none of the others does any more, also after a
 * restart. */
static void test_damage_is_told_once(void **state) {
        enum { N_FORKS = 4 };
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q = erig_request(ENGINE_FORK, 0);
        uint64_t c, forks[N_FORKS], n_corrupt = 0;
        struct erig r;

        answers(o);
        o.spill_delay_ms = UINT32_MAX;
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        erig_say(&r, c, LONG_TEXT, 12, &A);
        erig_simple(&r, ENGINE_EVICT, c, &A);
        q.conv_id = c;
        for (int i = 0; i < N_FORKS; i++) {
                assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
                forks[i] = A.conv.id;
        }
        erig_restart(&r, true);
        do_damage(&r, c, c, FLIP_PAYLOAD);
        for (int i = 0; i < N_FORKS; i++) {
                erig_say(&r, forks[i], "What does Ada like?", 12, &A);
                answer_same(&A, &expected[1]);
                if (i == 0)
                        n_corrupt = erig_stat(&r, "spill_corrupt");
                assert_true(n_corrupt > 0);
                assert_int_equal(erig_stat(&r, "spill_corrupt"), n_corrupt);
                assert_int_equal(erig_simple(&r, ENGINE_EVICT, forks[i], &A), ENGINE_CONV);
                /* The others are not in RAM. */
                assert_int_equal(erig_simple(&r, ENGINE_CLOSE, forks[i], &A), ENGINE_EMPTY);
        }
        erig_say(&r, c, "What does Ada like?", 12, &A);
        answer_same(&A, &expected[1]);
        erig_simple(&r, ENGINE_CLOSE, c, &A);
        erig_check_empty(&r);
        erig_close(&r);
}

/* --- a register that takes nothing --- */

static bool forget_fails;

int __real_store_forget_record(
        struct store *s, uint64_t record, struct store_reclaimed *ret, struct err *e);
int __wrap_store_forget_record(
        struct store *s, uint64_t record, struct store_reclaimed *ret, struct err *e);
int __wrap_store_forget_record(
        struct store *s, uint64_t record, struct store_reclaimed *ret, struct err *e) {
        errno = EIO;
        return forget_fails ? err_set(e, ERR_SYS, "a disk that takes nothing")
                            : __real_store_forget_record(s, record, ret, e);
}

/* What could not be linked is linked the next time, also what another conversation has written. */
static void test_links_fail(void **state) {
        struct engine_options o = erig_options(64 << 20);
        uint64_t c, d;
        struct erig r;

        erig_need_model();
        answers(o);
        o.spill_delay_ms = UINT32_MAX;
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        erig_say(&r, c, LONG_TEXT, 12, &A);
        erig_restart(&r, true);
        d = erig_new(&r, NULL, NULL);
        atomic_store(&link_fails, true);
        erig_say(&r, d, LONG_TEXT, 12, &A);
        answer_same(&A, &expected[0]);
        assert_true(A.n_disk + A.done_disk > 0 || A.n_shared + A.done_shared > 0);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, d, &A), ENGINE_CONV);
        atomic_store(&link_fails, false);
        erig_say(&r, d, "What does Ada like?", 12, &A);
        answer_same(&A, &expected[1]);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, d, &A), ENGINE_CONV);
        assert_int_equal(A.conv.residency, ENGINE_SPILLED);
        erig_simple(&r, ENGINE_CLOSE, c, &A);
        erig_restart(&r, true);
        erig_say(&r, d, "And where?", 12, &A);
        answer_same(&A, &expected[2]);
        assert_true(A.n_disk > 0);
        assert_int_equal(erig_stat(&r, "restore_failures"), 0);
        erig_close(&r);
}

/* Nothing fails any more. */
static int reset(void **state) {
        forget_fails = false;
        atomic_store(&link_fails, false);
        return 0;
}

/* A bit of the record that a conversation's last tokens lie in. The engine is stopped. */
static void damage_tail(const struct erig *r, uint64_t conv) {
        struct store_gone links = {0};
        struct store *s = erig_register(r);
        int fd;

        assert_int_equal(store_links(s, conv, &links, NULL), 0);
        assert_true(links.n > 1);
        fd = open(spill_path(r, conv), O_RDWR);
        assert_true(fd >= 0);
        flip(fd, (off_t)links.records[links.n - 1].offset + 1000);
        close(fd);
        store_gone_deinit(&links);
        store_free(s);
}

/* A fork in RAM does not read what is known to be damaged, even if the register could not forget
 * it. (Of the last tokens nobody else has a copy that could stand in.) */
static void test_damage_of_a_fork(void **state) {
        struct engine_options o = erig_options(64 << 20);
        uint64_t c, fork, n_corrupt;
        struct engine_request q;
        struct erig r;

        erig_need_model();
        answers(o);
        o.spill_delay_ms = UINT32_MAX;
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        erig_say(&r, c, LONG_TEXT, 12, &A);
        erig_stop(&r, true);
        damage_tail(&r, c);
        erig_start(&r);
        q = (struct engine_request){.verb = ENGINE_FORK,
                .conv_id = c,
                .at_turn = ENGINE_UNSET,
                .at_position = ENGINE_UNSET};
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
        fork = A.conv.id;
        forget_fails = true;
        erig_say(&r, c, "What does Ada like?", 12, &A);
        answer_same(&A, &expected[1]);
        n_corrupt = erig_stat(&r, "spill_corrupt");
        assert_true(n_corrupt > 0);
        erig_say(&r, fork, "What does Ada like?", 12, &B);
        answer_same(&B, &expected[1]);
        assert_int_equal(erig_stat(&r, "spill_corrupt"), n_corrupt);
        erig_close(&r);
}

/* A record of another conversation that turned out to be damaged is neither read nor linked again,
 * even if the register could not forget it. */
static void test_damaged_donor(void **state) {
        struct engine_options o = erig_options(64 << 20);
        uint64_t c, d, n_corrupt;
        struct erig r;

        erig_need_model();
        answers(o);
        o.spill_delay_ms = UINT32_MAX;
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        erig_say(&r, c, LONG_TEXT, 12, &A);
        erig_restart(&r, true);
        do_damage(&r, c, c, FLIP_PAYLOAD);
        forget_fails = true;
        d = erig_new(&r, NULL, NULL);
        erig_say(&r, d, LONG_TEXT, 12, &A);
        answer_same(&A, &expected[0]);
        n_corrupt = erig_stat(&r, "spill_corrupt");
        assert_true(n_corrupt > 0);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, d, &A), ENGINE_CONV);
        assert_int_equal(A.conv.residency, ENGINE_SPILLED);
        erig_say(&r, d, "What does Ada like?", 12, &A);
        answer_same(&A, &expected[1]);
        assert_int_equal(erig_stat(&r, "spill_corrupt"), n_corrupt);
        erig_close(&r);
}

/* What the conversation's tokens alone give: its last @n tokens, generated after the others. */
static void replay(struct engine_options o, const struct answer *got, uint32_t n) {
        struct engine_request q = {.verb = ENGINE_CONTINUE,
                .input = ENGINE_INPUT_TOKENS,
                .tokens = got->history,
                .n_tokens = got->conv.n_tokens - n,
                .max_tokens = n,
                .want_logprobs = true,
                .sampling = {.has = SAMPLING_TEMPERATURE | SAMPLING_SEED, .seed = 1}};
        struct erig r;

        erig_open(&r, &o);
        q.conv_id = erig_new(&r, NULL, NULL);
        assert_int_equal(erig_do(&r, &q, &B), ENGINE_DONE);
        erig_close(&r);
}

static void say_and_replay(struct erig *r, uint64_t c, const char *text) {
        struct engine_request get = {.verb = ENGINE_GET, .conv_id = c, .want_tokens = true};
        static struct answer got;

        erig_say(r, c, text, 10, &A);
        assert_int_equal(erig_do(r, &get, &got), ENGINE_CONV);
        replay(r->o, &got, (uint32_t)A.n_tokens);
        assert_int_equal(A.n_tokens, B.n_tokens);
        assert_memory_equal(A.tokens, B.tokens, A.n_tokens * sizeof(A.tokens[0]));
        assert_memory_equal(A.logprobs, B.logprobs, A.n_tokens * sizeof(A.logprobs[0]));
}

/* The same folder under other arithmetic, and back: each life has its own bits, as if it had read
 * the tokens only (I6). */
static void test_other_fingerprint(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct erig r;
        uint64_t c, d;

        for (int first = 0; first < 2; first++) {
                o.kv_type = first ? ENGINE_KV_F32 : ENGINE_KV_F16;
                erig_open(&r, &o);
                c = erig_new(&r, NULL, NULL);
                d = erig_new(&r, NULL, NULL);
                say_and_replay(&r, c, LONG_TEXT);
                say_and_replay(&r, d, LONG_TEXT);
                for (int life = 0; life < 3; life++) {
                        erig_stop(&r, true);
                        r.o.kv_type = r.o.kv_type == ENGINE_KV_F16 ? ENGINE_KV_F32 : ENGINE_KV_F16;
                        erig_start(&r);
                        say_and_replay(&r, c, "What does Ada like?");
                        /* None of the other's memory was taken. In the second life the first one's
                         * fingerprint is back, and the beginning that d has in common is still there. */
                        assert_int_equal(A.n_ram, 0);
                        assert_true(life == 1 ? A.n_disk > 0 : A.n_disk == 0);
                        if (life == 1)
                                say_and_replay(&r, d, "And then?");
                }
                assert_true(r.n_logs < 8);
                erig_simple(&r, ENGINE_CLOSE, c, &A);
                erig_simple(&r, ENGINE_CLOSE, d, &A);
                erig_check_empty(&r);
                erig_close(&r);
        }
}

static void put(const char *path, const char *text) {
        FILE *f = fopen(path, "w");

        assert_non_null(f);
        assert_true(fputs(text, f) >= 0);
        assert_int_equal(fclose(f), 0);
}

static void expect_refusal(struct erig *r, int code, const char *what) {
        struct engine *en = NULL;
        struct err e = {0};
        int k = engine_open(&en, &r->o, &e);

        if (k >= 0) {
                engine_free(en);
                fail_msg("%s: opened all the same", what);
        }
        print_message("%s: %s\n", what, e.msg);
        assert_null(en);
        if (code)
                assert_int_equal(k, -code);
        assert_int_equal(e.code, -k);
        if (!strstr(e.msg, "confab-test"))
                fail_msg("%s: the message does not name the place: %s", what, e.msg);
}

/* SQLite's, but with another program's tables. */
static void make_foreign(const char *path) {
        struct store *s = NULL;
        int fd;

        assert_int_equal(store_open(&s, path, NULL), 0);
        store_free(s);
        /* The header's application id, big-endian at 68. */
        fd = open(path, O_WRONLY);
        assert_true(fd >= 0);
        assert_int_equal(pwrite(fd, "othr", 4, 68), 4);
        close(fd);
}

static void test_state_folder(void **state) {
        struct engine_options o = erig_options(64 << 20);
        char path[512], aside[512], cmd[2048];
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        erig_say(&r, c, LONG_TEXT, 4, &A);
        erig_simple(&r, ENGINE_EVICT, c, &A);
        expect_refusal(&r, ERR_BUSY, "in use");
        erig_stop(&r, true);

        /* Each damage is undone, and the conversation is there. */
        snprintf(path, sizeof(path), "%s/register.db", r.dir);
        snprintf(aside, sizeof(aside), "%s/aside", r.dir);
        assert_int_equal(rename(path, aside), 0);
        put(path, "this is not a database, although it has a good many bytes: "
                  "this is not a database, although it has a good many bytes");
        expect_refusal(&r, 0, "garbage register");
        assert_int_equal(unlink(path), 0);
        expect_refusal(&r, ERR_STATE, "no register beside spill files");
        put(path, "");
        expect_refusal(&r, ERR_STATE, "empty register beside spill files");
        assert_int_equal(unlink(path), 0);
        make_foreign(path);
        expect_refusal(&r, ERR_CORRUPT, "database of another program");
        assert_int_equal(unlink(path), 0);
        snprintf(cmd, sizeof(cmd), "head -c 5000 '%s' > '%s'", aside, path);
        assert_int_equal(system(cmd), 0);
        expect_refusal(&r, 0, "half a register");
        assert_int_equal(rename(aside, path), 0);

        snprintf(cmd, sizeof(cmd), "mv '%s/spill' '%s/aside'; touch '%s/spill'", r.dir, r.dir,
                r.dir);
        assert_int_equal(system(cmd), 0);
        expect_refusal(&r, 0, "the spill folder is a file");
        snprintf(cmd, sizeof(cmd), "rm '%s/spill'; mv '%s/aside' '%s/spill'", r.dir, r.dir, r.dir);
        assert_int_equal(system(cmd), 0);

        snprintf(cmd, sizeof(cmd), "mv '%s/spill' '%s/aside'; ln -s aside '%s/spill'", r.dir, r.dir,
                r.dir);
        assert_int_equal(system(cmd), 0);
        expect_refusal(&r, ERR_STATE, "the spill folder is a link");
        snprintf(cmd, sizeof(cmd), "rm '%s/spill'; mv '%s/aside' '%s/spill'", r.dir, r.dir, r.dir);
        assert_int_equal(system(cmd), 0);
        snprintf(path, sizeof(path), "%s/spill", r.dir);
        assert_int_equal(chmod(path, 0770), 0);
        expect_refusal(&r, ERR_STATE, "a spill folder that a group can write into");
        assert_int_equal(chmod(path, 0700), 0);
        assert_int_equal(chmod(r.dir, 0777), 0);
        expect_refusal(&r, ERR_STATE, "a state folder that all can write into");
        assert_int_equal(chmod(r.dir, 0700), 0);
        if (geteuid() == 0) {
                assert_int_equal(chown(r.dir, 65534, 65534), 0);
                expect_refusal(&r, ERR_STATE, "another user's state folder");
                assert_int_equal(chown(r.dir, 0, 0), 0);
        }

        r.o.state_dir = "/dev/null/confab-test";
        expect_refusal(&r, 0, "a folder below a file");
        r.o.state_dir = "/proc/confab-test";
        expect_refusal(&r, 0, "a file system without writing");
        if (geteuid() != 0) {
                r.o.state_dir = r.dir;
                assert_int_equal(chmod(r.dir, 0500), 0);
                expect_refusal(&r, 0, "read-only folder");
                assert_int_equal(chmod(r.dir, 0), 0);
                expect_refusal(&r, 0, "folder without permission");
                assert_int_equal(chmod(r.dir, 0700), 0);
        }
        r.o.state_dir = r.dir;
        erig_start(&r);
        assert_int_equal(erig_simple(&r, ENGINE_GET, c, &A), ENGINE_CONV);
        erig_say(&r, c, "Hello?", 4, &A);
        assert_true(A.n_disk > 0);
        erig_close(&r);
}

/* A spill file that cannot be looked into does not keep the engine from starting. */
static void test_odd_spill_files(void **state) {
        struct engine_options o = erig_options(64 << 20);
        char path[512];
        struct erig r;
        uint64_t c;

        answers(o);
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        erig_say(&r, c, LONG_TEXT, 12, &A);
        erig_stop(&r, true);
        snprintf(path, sizeof(path), "%s/spill/00000000000000aa.kv", r.dir);
        put(path, "not ours");
        snprintf(path, sizeof(path), "%s/spill/notes.txt", r.dir);
        put(path, "not ours");
        erig_start(&r);
        assert_int_equal(access(path, F_OK), 0);
        erig_say(&r, c, "What does Ada like?", 12, &A);
        answer_same(&A, &expected[1]);
        assert_true(A.n_disk > 0);
        erig_close(&r);
}

/* A copy of the model in which one word of the vocabulary is another; false if there is no such
 * word. */
static bool other_vocabulary(const char *path) {
        /* A string's length, then U+2581 (SPM's space) and the word. */
        static const char word[] = "\7\0\0\0\0\0\0\0\xe2\x96\x81"
                                   "your";
        FILE *in = fopen(erig_model(), "rb"), *out = fopen(path, "wb");
        size_t n, max = 256 << 20;
        char *data = malloc(max), *at;

        assert_true(in && out && data);
        n = fread(data, 1, max, in);
        assert_true(n > 0 && n < max);
        at = memmem(data, n, word, sizeof(word) - 1);
        if (at)
                memcpy(at + 11, "yovr", 4);
        assert_int_equal(fwrite(data, 1, n, out), n);
        assert_int_equal(fclose(out), 0);
        fclose(in);
        free(data);
        return at != NULL;
}

/* Tokens of one vocabulary are never read in another, also where a conversation was empty when the
 * model changed. */
static void test_other_vocabulary(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        char path[128];
        struct erig r;
        uint64_t c, empty;

        answers(o);
        erig_open(&r, &o);
        snprintf(path, sizeof(path), "%s/other.gguf", r.dir);
        if (!other_vocabulary(path)) {
                print_message("SKIP: the vocabulary has no 'your'\n");
                erig_close(&r);
                skip();
        }
        c = erig_new(&r, NULL, NULL);
        empty = erig_new(&r, NULL, NULL);
        erig_say(&r, c, LONG_TEXT, 12, &A);
        erig_stop(&r, true);
        r.o.model_path = path;
        erig_start(&r);
        q = erig_say_request(c, "Hello?", 4);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_STATE);
        q.conv_id = empty;
        if (erig_do(&r, &q, &A) == ENGINE_DONE) {
                erig_restart(&r, true);
                assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        }
        erig_stop(&r, true);
        r.o.model_path = erig_model();
        erig_start(&r);
        erig_say(&r, c, "What does Ada like?", 12, &A);
        answer_same(&A, &expected[1]);
        erig_close(&r);
}

/* A register with tokens that no vocabulary has. */
static void test_wild_tokens(void **state) {
        static const int32_t wild[] = {5, -7, 2000000000};
        struct engine_options o = erig_options(64 << 20);
        struct store_turn turn = {.role = 3, .start = 0, .end = 3, .text = "x", .text_size = 1};
        struct engine_request q;
        struct store *s = NULL;
        char path[128];
        struct erig r;
        uint64_t c, revision;

        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        erig_stop(&r, true);
        snprintf(path, sizeof(path), "%s/register.db", r.dir);
        assert_int_equal(store_open(&s, path, NULL), 0);
        assert_int_equal(store_append(s, c, &turn, 1, wild, 3, &revision, NULL), 0);
        store_free(s);
        erig_start(&r);
        q = erig_say_request(c, "Hello?", 4);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_STATE);
        assert_int_equal(erig_simple(&r, ENGINE_WARM, c, &A), ENGINE_ERROR);
        assert_int_equal(erig_simple(&r, ENGINE_CLOSE, c, &A), ENGINE_EMPTY);
        erig_close(&r);
}

static void test_disk_limit(void **state) {
        enum { N_CONVS = 5 };
        static const uint64_t limits[] = {4096, 150000, 400000};
        struct engine_options o = erig_options(0);
        struct erig r;
        uint64_t c[N_CONVS];

        answers(erig_options(64 << 20));
        for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
                o.pool_size = erig_pool(9);
                o.disk_limit = limits[i];
                erig_open(&r, &o);
                for (int k = 0; k < N_CONVS; k++) {
                        c[k] = erig_new(&r, NULL, NULL);
                        erig_say(&r, c[k], LONG_TEXT, 12, &A);
                        answer_same(&A, &expected[0]);
                        assert_true(erig_stat(&r, "spill_disk_bytes") <= limits[i]);
                }
                for (int k = 0; k < N_CONVS; k++) {
                        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c[k], &A), ENGINE_CONV);
                        /* What is nowhere is not called spilled. */
                        if (A.conv.disk_size == 0)
                                assert_int_equal(A.conv.residency, ENGINE_COLD);
                        erig_say(&r, c[k], "What does Ada like?", 12, &A);
                        answer_same(&A, &expected[1]);
                }
                /* They are alike, and on disk once: that may fit the larger ones. */
                assert_true(i > 0 || erig_stat(&r, "spill_refused") > 0);
                assert_true(erig_stat(&r, "spill_disk_bytes") <= limits[i]);
                erig_restart(&r, true);
                for (int k = 0; k < N_CONVS; k++) {
                        erig_say(&r, c[k], "And where?", 12, &A);
                        answer_same(&A, &expected[2]);
                        assert_int_equal(erig_simple(&r, ENGINE_CLOSE, c[k], &A), ENGINE_EMPTY);
                }
                erig_check_empty(&r);
                erig_close(&r);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_damage),
                cmocka_unit_test(test_damage_under_fork),
                cmocka_unit_test(test_damage_is_told_once),
                cmocka_unit_test_teardown(test_damage_of_a_fork, reset),
                cmocka_unit_test_teardown(test_damaged_donor, reset),
                cmocka_unit_test_teardown(test_links_fail, reset),
                cmocka_unit_test(test_other_fingerprint),
                cmocka_unit_test(test_state_folder),
                cmocka_unit_test(test_odd_spill_files),
                cmocka_unit_test(test_other_vocabulary),
                cmocka_unit_test(test_wild_tokens),
                cmocka_unit_test(test_disk_limit),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
