/* SPDX-License-Identifier: MIT */
#include "base/buf.h"
#include "base/err.h"
#include "daemon/check.h"
#include "daemon/daemon.h"
#include "service/log.h"
#include "service/notify.h"
#include "daemon/settings.h"
#include "daemon/startup.h"
#include "daemon/unavailable.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* Both are in RestartPreventExitStatus= of the unit: an automatic restart would not help, and the
 * next client starts the daemon again. */
#define EXIT_USAGE 2
#define EXIT_CANNOT_START 3

static int print_help(void) {
        struct buf out = BUF_NULL;
        int r = settings_print_help(&out);

        if (r == 0)
                r = fwrite(out.data, 1, out.size, stdout) == out.size && fflush(stdout) == 0 ? 0
                                                                                             : -1;
        buf_deinit(&out);
        return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* Explain why the service cannot see a file that does exist. */
static void explain(const struct settings *s, struct err *e) {
        const char *hidden = startup_hidden(s->model);
        char message[sizeof(e->msg)];

        if (e->code != ERR_SYS || (e->sys != ENOENT && e->sys != EACCES) || !hidden ||
                !notify_wanted() || !strstr(e->msg, s->model))
                return;
        memcpy(message, e->msg, sizeof(message));
        err_set(e, ERR_NOT_FOUND,
                "%.160s; a unit with %s cannot see files there: put models into "
                "/var/lib/confab/models",
                message, hidden);
}

static int check(const struct settings *s) {
        struct buf out = BUF_NULL;
        struct err e;
        int r = check_run(&out, s, &e);

        if (r < 0)
                LOG_ERROR(LOGGED_CANNOT_START, &e, "cannot check");
        else if (fwrite(out.data, 1, out.size, stdout) != out.size || fflush(stdout) != 0)
                r = -1;
        buf_deinit(&out);
        return r < 0 ? EXIT_FAILURE : r > 0 ? EXIT_CANNOT_START : EXIT_SUCCESS;
}

static void tell_ready(struct daemon *d) {
        const char *socket = d->listeners.path ? d->listeners.path : "sockets passed in";
        struct engine_model_info model;
        char fingerprint[33];

        engine_describe_model(d->engine, &model);
        snprintf(fingerprint, sizeof(fingerprint), "%016llx%016llx",
                (unsigned long long)model.fingerprint[0], (unsigned long long)model.fingerprint[1]);
        LOG_FIELDS(LOGGED_READY,
                ({"CONFAB_VERSION", CONFAB_VERSION, 0}, {"CONFAB_MODEL", model.path, 0},
                        {"CONFAB_FINGERPRINT", fingerprint, 0}, {"CONFAB_SOCKET", socket, 0},
                        {"CONFAB_BYTES", NULL, engine_pool_size(d->engine)}),
                "confabd %s serves %s on %s", CONFAB_VERSION, model.path, socket);
}

static int run(struct settings *s, int argc, char **argv, struct unavailable *u) {
        _cleanup_(daemon_freep) struct daemon *d = NULL;
        struct err e = {};
        int r;

        r = daemon_new(&d, s, argc, argv, &e);
        if (r < 0) {
                explain(s, &e);
                LOG_ERROR(LOGGED_CANNOT_START, &e, "cannot start");
                unavailable_serve(u, &e);
                return EXIT_CANNOT_START;
        }
        unavailable_deinit(u);
        if (log_start(d->base, &e) < 0)
                LOG_ERROR(LOGGED_SHORT_OF_RESOURCES, &e, "the journal is written to directly");
        tell_ready(d);
        r = daemon_run(d, &e);
        if (r < 0)
                LOG_ERROR(LOGGED_LOOP_FAILED, &e, "event loop");
        else if (r == 0)
                LOG(LOGGED_STOPPED, "stopped");
        log_stop();
        /* A forced stop must not wait for the threads: acknowledged turns are safe. */
        if (r > 0)
                _exit(EXIT_FAILURE);
        return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv) {
        _cleanup_(settings_deinit) struct settings s = SETTINGS_NULL;
        _cleanup_(unavailable_deinit) struct unavailable u = UNAVAILABLE_NULL;
        enum conf_action action;
        struct err e;

        log_init("confabd", LOG_INFO);
        /* Writes to peers that went are noticed by their result. */
        signal(SIGPIPE, SIG_IGN);
        unavailable_prepare(&u);
        if (settings_load(&s, argc, argv, &action, &e) < 0) {
                LOG_ERROR(LOGGED_SETTINGS_WRONG, &e, "%s", "");
                unavailable_serve(&u, &e);
                return EXIT_USAGE;
        }
        switch (action) {
        case CONF_HELP:
                return print_help();
        case CONF_VERSION:
                return printf("confabd %s\n", CONFAB_VERSION) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
        case CONF_CHECK:
                return check(&s);
        case CONF_CHECK_SETTINGS:
                return EXIT_SUCCESS; /* that was it */
        case CONF_RUN:
                break;
        }
        return run(&s, argc, argv, &u);
}
