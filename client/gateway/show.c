/* SPDX-License-Identifier: MIT */
#include "client/gateway/show.h"
#include "base/clock.h"
#include "base/util.h"
#include "service/log.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

#define RANDOM_SIZE 32
#define LINK_SIZE 192

static int make_word(char ret[SHOW_WORD_SIZE], struct err *e) {
        static const char digits[] =
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        unsigned char bytes[RANDOM_SIZE];
        uint32_t bits = 0;
        unsigned n_bits = 0;
        char *at = ret;

        if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
                return err_set(e, ERR_SYS, "cannot make a token");
        for (size_t i = 0; i < sizeof(bytes); i++) {
                bits = bits << 8 | bytes[i];
                for (n_bits += 8; n_bits >= 6; n_bits -= 6)
                        *at++ = digits[bits >> (n_bits - 6) & 63];
        }
        *at++ = digits[bits << (6 - n_bits) & 63]; /* 256 bits are 42 digits and a part */
        *at = '\0';
        explicit_bzero(bytes, sizeof(bytes));
        return 0;
}

int show_init(struct show *show, struct err *e) {
        return make_word(show->token, e);
}

void show_deinit(struct show *show) {
        tokens_deinit(&show->codes);
        explicit_bzero(show->token, sizeof(show->token));
        *show = SHOW_NULL;
}

static void make_link(
        char ret[LINK_SIZE], const char *address, const char *name, const char *value) {
        static const char *const all[][2] = {{"0.0.0.0:", "127.0.0.1:"}, {"[::]:", "[::1]:"}};
        const char *host = "";

        for (size_t i = 0; i < ARRAY_SIZE(all); i++)
                if (strncmp(address, all[i][0], strlen(all[i][0])) == 0) {
                        host = all[i][1];
                        address += strlen(all[i][0]);
                        break;
                }
        snprintf(ret, LINK_SIZE, "http://%s%s/#%s=%s", host, address, name, value);
}

int show_print(const struct show *show, const char *address, struct err *e) {
        char link[LINK_SIZE];
        int r = 0;

        make_link(link, address, "token", show->token);
        if (printf("%s\n", link) < 0 || fflush(stdout) != 0)
                r = err_set(e, ERR_SYS, "cannot print the link");
        explicit_bzero(link, sizeof(link));
        return r;
}

/* ---- the browser ---- */

static bool is_desktop(void) {
        const char *x = getenv("DISPLAY"), *wayland = getenv("WAYLAND_DISPLAY");

        return (x && *x) || (wayland && *wayland);
}

/* Detached: with a session of its own, default signals, and nothing that is open here. 0 or an errno. */
static int spawn(const char *program, const char *argument) {
        char *argv[] = {(char *)(uintptr_t)program, (char *)(uintptr_t)argument, NULL};
        posix_spawn_file_actions_t files;
        posix_spawnattr_t attributes;
        sigset_t ignored, none;
        int r = posix_spawn_file_actions_init(&files);

        if (r != 0)
                return r;
        r = posix_spawnattr_init(&attributes);
        if (r != 0) {
                posix_spawn_file_actions_destroy(&files);
                return r;
        }
        sigemptyset(&ignored);
        sigaddset(&ignored, SIGPIPE);
        sigemptyset(&none);
        for (int fd = 0; fd < 3 && r == 0; fd++)
                r = posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
        if (r == 0)
                r = posix_spawnattr_setflags(&attributes,
                        POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
        if (r == 0)
                r = posix_spawnattr_setsigdefault(&attributes, &ignored);
        if (r == 0)
                r = posix_spawnattr_setsigmask(&attributes, &none);
        if (r == 0)
                r = posix_spawnp(&(pid_t){0}, program, &files, &attributes, argv, environ);
        posix_spawnattr_destroy(&attributes);
        posix_spawn_file_actions_destroy(&files);
        return r;
}

void show_start_browser(struct show *show, const char *address) {
        /* The kernel forgets children at once. Flags of signals do not pass on to what is started. */
        static const struct sigaction forget = {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT};
        char code[SHOW_WORD_SIZE], link[LINK_SIZE];
        struct err e = {};
        int r;

        if (!is_desktop())
                return;
        if (make_word(code, &e) < 0 || tokens_add(&show->codes, code, geteuid(), &e) < 0) {
                LOG_ERROR(LOGGED_NO_BROWSER, &e, "no browser is started");
                return;
        }
        show->codes_until_usec = clock_monotonic_usec() + SHOW_CODE_USEC;
        make_link(link, address, "once", code);
        r = sigaction(SIGCHLD, &forget, NULL) < 0 ? errno : spawn("xdg-open", link);
        if (r != 0) {
                tokens_deinit(&show->codes);
                LOG(LOGGED_NO_BROWSER, "no browser is started: xdg-open: %s", strerror(r));
        }
}

/* ---- the exchange ---- */

bool show_knows(const struct show *show, const char *code) {
        return tokens_find(&show->codes, code) && clock_monotonic_usec() < show->codes_until_usec;
}

const char *show_exchange(struct show *show) {
        tokens_deinit(&show->codes);
        return show->token;
}
