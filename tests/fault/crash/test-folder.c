/* SPDX-License-Identifier: MIT */
/*
 * State folders that fail their engine: a full one, a read-only one, one that belongs to another
 * user, spill files that cannot be written. Each causes a clear error or less memory on disk. No
 * acknowledged turn is lost, and the engine works again once the folder does.
 *
 * The program runs itself for each case, in mount and user namespaces of its own; if the system
 * does not permit these, the test skips.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/engine/rig.h"
#include "util/test.h"

enum { SKIPPED = 77, N_CONVS = 12 };

static const char LONG[] = "My name is Ada. I have a dog that is called Rex, two cats, and a green "
                           "house near the river. My sister Eva lives in Rome, and we plan to "
                           "travel to Oslo in June. Please remember all of that.";
static struct answer A, expected, expectations[N_CONVS + 1];
static const char *dir; /* of this case, made and removed by the parent */

/* --- in the child --- */

static void write_file(const char *path, const char *text) {
        int fd = open(path, O_WRONLY | O_CLOEXEC);

        if (fd >= 0) {
                (void)!write(fd, text, strlen(text));
                close(fd);
        }
}

/* A tmpfs of @size on the folder, as root of a namespace or of the system. */
static void mount_folder(const char *size) {
        char map[64], options[64];
        uid_t uid = getuid();
        gid_t gid = getgid();

        if (unshare(uid == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) < 0)
                exit(SKIPPED);
        if (uid != 0) {
                write_file("/proc/self/setgroups", "deny");
                snprintf(map, sizeof(map), "0 %u 1", uid);
                write_file("/proc/self/uid_map", map);
                snprintf(map, sizeof(map), "0 %u 1", gid);
                write_file("/proc/self/gid_map", map);
        }
        snprintf(options, sizeof(options), "mode=0700,size=%s", size);
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
                mount("tmpfs", dir, "tmpfs", 0, options) < 0)
                exit(SKIPPED);
}

static struct engine_request say(uint64_t conv) {
        static char texts[N_CONVS + 1][512];
        struct engine_request q;

        /* Each says something else, or they would share one memory. */
        snprintf(
                texts[conv], sizeof(texts[conv]), "%llu times: %s", (unsigned long long)conv, LONG);
        q = erig_say_request(conv, texts[conv], 4);
        q.ignore_eos = true;
        return q;
}

static void expect_answer(void) {
        struct engine_options big = erig_options(256 << 20);
        struct engine_request q;
        struct erig r;

        erig_open(&r, &big);
        for (unsigned i = 1; i <= N_CONVS; i++) {
                q = say(erig_new(&r, NULL, NULL));
                assert_int_equal(q.conv_id, i);
                assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
                assert_int_equal(erig_do(&r, &q, &expectations[i]), ENGINE_DONE);
        }
        expected = expectations[1];
        erig_close(&r);
}

static void open_in(struct erig *r, const char *state) {
        struct engine_options o = erig_options(erig_pool(14));

        *r = (struct erig){.next = 1, .silence_msec = 60000, .o = o};
        snprintf(r->dir, sizeof(r->dir), "%s", state);
        r->o.state_dir = r->dir;
        r->o.model_path = erig_model();
        erig_start(r);
}

/* Conversations are opened and spoken to until the folder is full, and some more. What the register
 * acknowledged is there when there is room again, with the right memory. */
static void child_full(void) {
        uint32_t n_turns[N_CONVS + 1] = {0};
        unsigned n_opened = 0, n_failed = 0;
        struct erig r;

        expect_answer();
        mount_folder("1m");
        open_in(&r, dir);
        for (unsigned i = 0; i < N_CONVS; i++) {
                struct engine_request q = {.verb = ENGINE_OPEN};

                if (erig_do(&r, &q, &A) != ENGINE_CONV) {
                        assert_true(A.err.code == ERR_SYS || A.err.code == ERR_LIMIT);
                        n_failed++;
                        continue;
                }
                assert_int_equal(A.conv.id, ++n_opened);
                q = say(n_opened);
                if (erig_do(&r, &q, &A) == ENGINE_DONE)
                        n_turns[n_opened] = 2;
                else
                        n_failed++;
        }
        print_message("opened %u, %u requests failed: %s\n", n_opened, n_failed, A.err.msg);
        /* The disk was full: something was refused, or an older memory had to go for a newer. */
        assert_true(n_failed > 0 || erig_stat(&r, "spill_failures") > 0 ||
                    erig_stat(&r, "reclaimed_bytes") > 0);
        assert_int_equal(mount(NULL, dir, NULL, MS_REMOUNT, "size=64m"), 0);
        for (int round = 0; round < 2; round++) {
                for (unsigned i = 1; i <= n_opened; i++) {
                        assert_int_equal(erig_simple(&r, ENGINE_GET, i, &A), ENGINE_CONV);
                        assert_true(A.conv.n_turns >= n_turns[i]);
                        n_turns[i] = A.conv.n_turns;
                        if (round == 1 || n_turns[i] != 2)
                                continue;
                        {
                                struct engine_request q = say(i);

                                assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
                                answer_same(&A, &expectations[i]);
                        }
                        n_turns[i] = 4;
                }
                erig_restart(&r, round == 0);
        }
        erig_stop(&r, false);
}

/* A folder on a read-only file system is refused by name; made writable again, all is there. */
static void child_read_only(void) {
        struct engine_request q;
        struct erig r;
        struct err e;
        struct engine *en;

        expect_answer();
        mount_folder("64m");
        open_in(&r, dir);
        q = say(erig_new(&r, NULL, NULL));
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        erig_stop(&r, true);
        assert_int_equal(mount(NULL, dir, NULL, MS_REMOUNT | MS_RDONLY, "size=64m"), 0);
        assert_true(engine_open(&en, &r.o, &e) < 0);
        print_message("%s\n", e.msg);
        assert_non_null(strstr(e.msg, dir));
        assert_int_equal(mount(NULL, dir, NULL, MS_REMOUNT, "size=64m"), 0);
        erig_start(&r);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        answer_same(&A, &expected);
        assert_true(A.n_disk > 0);
        erig_stop(&r, false);
}

/* A folder that is not ours is refused by name; spill files that may not be made cost memory only.
 */
static void child_permission(void) {
        char state[96], spill[128];
        struct engine_options o = erig_options(erig_pool(14));
        struct engine_request q;
        struct engine *en;
        struct erig r;
        struct err e;

        expect_answer();
        if (getuid() != 0)
                exit(SKIPPED);
        assert_int_equal(chmod(dir, 0711), 0);
        snprintf(state, sizeof(state), "%s/theirs", dir);
        assert_int_equal(mkdir(state, 0700), 0);
        snprintf(spill, sizeof(spill), "%s/ours", dir);
        assert_int_equal(mkdir(spill, 0700), 0);
        assert_int_equal(chown(spill, 65534, 65534), 0);
        assert_int_equal(setgroups(0, NULL), 0);
        if (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0)
                exit(SKIPPED);
        o.model_path = erig_model();
        if (!o.model_path || access(o.model_path, R_OK) < 0)
                exit(SKIPPED); /* the source folder is not for everybody */
        o.state_dir = state;
        assert_true(engine_open(&en, &o, &e) < 0);
        print_message("%s\n", e.msg);
        assert_non_null(strstr(e.msg, state));
        snprintf(state, sizeof(state), "%s/ours", dir);
        open_in(&r, state);
        snprintf(spill, sizeof(spill), "%s/ours/spill", dir);
        assert_int_equal(chmod(spill, 0500), 0);
        q = say(erig_new(&r, NULL, NULL));
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        erig_simple(&r, ENGINE_EVICT, q.conv_id, &A);
        assert_true(erig_stat(&r, "spill_failures") > 0);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        answer_same(&A, &expected);
        assert_int_equal(chmod(spill, 0700), 0);
        erig_simple(&r, ENGINE_EVICT, q.conv_id, &A);
        assert_int_equal(A.conv.residency, ENGINE_SPILLED);
        erig_stop(&r, true);
}

/* --- in the parent --- */

static void run(const char *which) {
        char folder[] = "/tmp/confab-folder-XXXXXX", cmd[64];
        char *argv[] = {(char *)(uintptr_t) "test-folder", (char *)(uintptr_t)which, folder, NULL};
        extern char **environ;
        int status;
        pid_t pid;

        erig_need_model();
        assert_non_null(mkdtemp(folder));
        assert_int_equal(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        snprintf(cmd, sizeof(cmd), "rm -rf %s", folder);
        assert_int_equal(system(cmd), 0);
        if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) {
                print_message("SKIP: needs a mount namespace, root, and a model that everybody may "
                              "read\n");
                skip();
        }
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
                fail_msg("'%s' ended with status %x", which, status);
}

static void test_full(void **state) {
        run("full");
}

static void test_read_only(void **state) {
        run("read-only");
}

static void test_permission(void **state) {
        run("permission");
}

static void in_child(void **state) {
        void (**f)(void) = *state;

        (*f)();
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_full),
                cmocka_unit_test(test_read_only),
                cmocka_unit_test(test_permission),
        };
        void (*f)(void) = child_full;
        const struct CMUnitTest child[] = {cmocka_unit_test_prestate(in_child, &f)};

        if (argc < 3)
                return cmocka_run_group_tests(tests, NULL, NULL);
        dup2(STDERR_FILENO, STDOUT_FILENO); /* the parent's results are the program's */
        dir = argv[2];
        if (strcmp(argv[1], "read-only") == 0)
                f = child_read_only;
        if (strcmp(argv[1], "permission") == 0)
                f = child_permission;
        return cmocka_run_group_tests(child, NULL, NULL);
}
