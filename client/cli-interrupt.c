/* SPDX-License-Identifier: MIT */
#include "client/cli-interrupt.h"
#include "client/cli.h"
#include "client/line/terminal.h"
#include <errno.h>
#include <fcntl.h>

static volatile sig_atomic_t n_interrupts;
static int wake_fds[2] = {-1, -1};

static void on_interrupt(int sig) {
        int saved = errno;

        if (n_interrupts++ > 0) {
                terminal_restore();
                _exit(CLI_INTERRUPTED);
        }
        (void)!write(wake_fds[1], "", 1);
        errno = saved;
}

int cli_interrupts_catch(struct sigaction *old) {
        struct sigaction action = {.sa_handler = on_interrupt};

        if (wake_fds[0] < 0 && pipe2(wake_fds, O_CLOEXEC | O_NONBLOCK) < 0)
                return -1;
        cli_interrupt_seen(); /* what the last run left */
        n_interrupts = 0;
        return sigaction(SIGINT, &action, old);
}

void cli_interrupts_release(const struct sigaction *old) {
        sigaction(SIGINT, old, NULL);
}

bool cli_interrupted(void) {
        return n_interrupts > 0;
}

int cli_interrupt_fd(void) {
        return wake_fds[0];
}

void cli_interrupt_seen(void) {
        char byte;

        while (read(wake_fds[0], &byte, 1) > 0)
                ;
}
