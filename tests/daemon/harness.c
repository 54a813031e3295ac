/* SPDX-License-Identifier: MIT */
#include "harness.h"
#include "base/clock.h"
#include "base/file.h"
#include "util/test.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define FLAGS_MAX 64
/* A daemon under a sanitizer on a busy machine is slow; one that hangs is slower. */
#define READY_MSEC 120000

const char *harness_model(void) {
        static char path[512];
        const char *env = getenv("CONFAB_TEST_MODEL");

        snprintf(path, sizeof(path), "%s",
                env ? env : TEST_SOURCE_ROOT "/models/confab-small.q8_0.gguf");
        return access(path, R_OK) == 0 ? path : NULL;
}

const char *harness_program(void) {
        const char *env = getenv("CONFABD");

        return env ? env : CONFABD_PROGRAM;
}

int harness_init(struct harness *h) {
        const char *model = harness_model();

        *h = (struct harness){.pid_fd = -1, .notify_fd = -1, .listen_fd = -1};
        if (!model) {
                print_message("SKIP: no model: build models/confab-small.q8_0.gguf or set "
                              "CONFAB_TEST_MODEL\n");
                return 1;
        }
        snprintf(h->model, sizeof(h->model), "%s", model);
        strcpy(h->dir, "/tmp/confab-test-XXXXXX");
        assert_non_null(mkdtemp(h->dir));
        /* Tests with other uids connect as well. */
        chmod(h->dir, 0755);
        snprintf(h->socket, sizeof(h->socket), "%s/socket", h->dir);
        snprintf(h->state, sizeof(h->state), "%s/state", h->dir);
        snprintf(h->log, sizeof(h->log), "%s/log", h->dir);
        return 0;
}

static void open_notify(struct harness *h, char *path, size_t size) {
        struct sockaddr_un a = {.sun_family = AF_UNIX};

        snprintf(path, size, "%s/notify", h->dir);
        unlink(path);
        memcpy(a.sun_path, path, strlen(path) + 1);
        if (h->notify_fd >= 0)
                close(h->notify_fd);
        h->notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        assert_true(h->notify_fd >= 0);
        assert_int_equal(bind(h->notify_fd, (struct sockaddr *)&a, sizeof(a)), 0);
}

/* In the child. */
static void exec_daemon(
        const struct harness *h, const char *notify, const char *const *flags, int log_fd) {
        char *argv[FLAGS_MAX], pid[16];
        int n = 0;

        argv[n++] = proto_borrow(harness_program());
        argv[n++] = proto_borrow("--model");
        argv[n++] = proto_borrow(h->model);
        argv[n++] = proto_borrow("--socket");
        argv[n++] = proto_borrow(h->socket);
        argv[n++] = proto_borrow("--state");
        argv[n++] = proto_borrow(h->state);
        for (; flags && *flags && n < FLAGS_MAX - 1; flags++)
                argv[n++] = proto_borrow(*flags);
        argv[n] = NULL;
        setenv("NOTIFY_SOCKET", notify, 1);
        if (strcmp(h->pressure, "-") == 0)
                unsetenv("MEMORY_PRESSURE_WATCH");
        else
                setenv("MEMORY_PRESSURE_WATCH", *h->pressure ? h->pressure : "/dev/null", 1);
        unsetenv("JOURNAL_STREAM");
        dup2(log_fd, STDERR_FILENO);
        if (h->listen_fd >= 0) {
                snprintf(pid, sizeof(pid), "%d", (int)getpid());
                setenv("LISTEN_PID", pid, 1);
                setenv("LISTEN_FDS", "1", 1);
                if (h->listen_fd == 3)
                        fcntl(3, F_SETFD, 0);
                else
                        dup2(h->listen_fd, 3);
        }
        /* A test that dies must not leave daemons behind. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execv(argv[0], argv);
        dprintf(STDERR_FILENO, "cannot run %s: %s\n", argv[0], strerror(errno));
        _exit(127);
}

void harness_spawn(struct harness *h, const char *const *flags) {
        char notify[96];
        int log_fd;

        assert_int_equal(h->pid, 0);
        open_notify(h, notify, sizeof(notify));
        /* High, so that descriptor 3 stays free for a passed socket. */
        log_fd = open(h->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        assert_true(log_fd >= 0);
        h->pid = fork();
        assert_true(h->pid >= 0);
        if (h->pid == 0)
                exec_daemon(h, notify, flags, log_fd);
        close(log_fd);
        h->pid_fd = pidfd_open(h->pid, 0);
        assert_true(h->pid_fd >= 0);
}

char *harness_read_log(struct harness *h) {
        char *text = NULL;

        if (file_read_all(h->log, 16 << 20, &text, NULL, NULL) < 0)
                text = strdup("");
        return text;
}

static void print_log(struct harness *h) {
        char *text = harness_read_log(h);

        fprintf(stderr, "---- the daemon's log:\n%s----\n", text);
        free(text);
}

enum happened { HAPPENED_WORD, HAPPENED_END, HAPPENED_NOTHING };

/* When to give up, however much the daemon says until then: it says something every few seconds. */
static uint64_t get_deadline(void) {
        return clock_monotonic_usec() + (uint64_t)READY_MSEC * 1000;
}

/* Wait for the daemon's next word to its service manager, or for its end. */
static enum happened wait_any(
        struct harness *h, uint64_t deadline, char *word, size_t size, int *ret_status) {
        struct pollfd p[] = {
                {.fd = h->notify_fd, .events = POLLIN}, {.fd = h->pid_fd, .events = POLLIN}};
        uint64_t now = clock_monotonic_usec();
        int status;
        ssize_t n;

        if (now >= deadline || poll(p, 2, (int)((deadline - now) / 1000) + 1) <= 0)
                return HAPPENED_NOTHING;
        if (p[0].revents) {
                n = recv(h->notify_fd, word, size - 1, 0);
                word[n < 0 ? 0 : n] = 0;
                return HAPPENED_WORD;
        }
        assert_int_equal(waitpid(h->pid, &status, 0), h->pid);
        *ret_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        close(h->pid_fd);
        h->pid_fd = -1;
        h->pid = 0;
        return HAPPENED_END;
}

/* True when the daemon said @part; false when it ended instead. */
static bool wait_notify(struct harness *h, const char *part, int *ret_status) {
        uint64_t deadline = get_deadline();
        char word[4096];

        for (;;) {
                switch (wait_any(h, deadline, word, sizeof(word), ret_status)) {
                case HAPPENED_WORD:
                        if (strstr(word, part))
                                return true;
                        break;
                case HAPPENED_END:
                        return false;
                case HAPPENED_NOTHING:
                        print_log(h);
                        fail_msg("the daemon did not say %s", part);
                        return false;
                }
        }
}

void harness_wait_notify(struct harness *h, const char *part) {
        int status;

        if (!wait_notify(h, part, &status)) {
                print_log(h);
                fail_msg("the daemon ended with status %d instead of saying %s", status, part);
        }
}

void harness_start(struct harness *h, const char *const *flags) {
        int status;

        harness_spawn(h, flags);
        if (!wait_notify(h, "READY=1", &status)) {
                print_log(h);
                fail_msg("the daemon did not start: status %d", status);
        }
}

int harness_start_failing(struct harness *h, const char *const *flags) {
        int status;

        harness_spawn(h, flags);
        if (wait_notify(h, "READY=1", &status))
                fail_msg("the daemon started, but should not");
        return status;
}

/* Words of a sanitizer or an assertion are a failure, whatever else happened. */
static void check_log(struct harness *h) {
        static const char *const bad[] = {"ERROR: AddressSanitizer", "ERROR: LeakSanitizer",
                "WARNING: ThreadSanitizer", "runtime error:", "Assertion "};
        char *text = harness_read_log(h);

        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                if (strstr(text, bad[i])) {
                        print_log(h);
                        free(text);
                        fail_msg("the daemon's log has '%s'", bad[i]);
                }
        free(text);
}

void harness_signal(struct harness *h, int sig) {
        assert_true(h->pid > 0);
        assert_int_equal(kill(h->pid, sig), 0);
}

int harness_wait(struct harness *h) {
        uint64_t deadline = get_deadline();
        char word[4096];
        int status = -1;

        for (;;) {
                switch (wait_any(h, deadline, word, sizeof(word), &status)) {
                case HAPPENED_WORD:
                        break;
                case HAPPENED_END:
                        check_log(h);
                        return status;
                case HAPPENED_NOTHING:
                        print_log(h);
                        fail_msg("the daemon does not end");
                        return -1;
                }
        }
}

void harness_stop(struct harness *h) {
        int status;

        harness_signal(h, SIGTERM);
        status = harness_wait(h);
        if (status != 0) {
                print_log(h);
                fail_msg("the daemon ended with status %d", status);
        }
}

void harness_kill(struct harness *h) {
        harness_signal(h, SIGKILL);
        assert_int_equal(harness_wait(h), 128 + SIGKILL);
}

/* Two levels are all that a state folder has, but a test may add some. */
static void remove_tree(const char *path) {
        DIR *d = opendir(path);
        struct dirent *entry;
        char child[1024];

        while (d && (entry = readdir(d))) {
                if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                        continue;
                snprintf(child, sizeof(child), "%s/%s", path, entry->d_name);
                if (unlink(child) < 0)
                        remove_tree(child);
        }
        if (d)
                closedir(d);
        rmdir(path);
}

void harness_end(struct harness *h) {
        int status = 0;

        if (h->pid <= 0)
                return;
        if (waitpid(h->pid, &status, WNOHANG) == h->pid) {
                print_log(h);
                fprintf(stderr, "the daemon ended by itself, with %s %d\n",
                        WIFSIGNALED(status) ? "signal" : "status",
                        WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        } else {
                kill(h->pid, SIGKILL);
                waitpid(h->pid, NULL, 0);
        }
        h->pid = 0;
}

void harness_deinit(struct harness *h) {
        harness_end(h);
        if (h->pid_fd >= 0)
                close(h->pid_fd);
        if (h->notify_fd >= 0)
                close(h->notify_fd);
        if (h->dir[0])
                remove_tree(h->dir);
        *h = (struct harness){.pid_fd = -1, .notify_fd = -1, .listen_fd = -1};
}
