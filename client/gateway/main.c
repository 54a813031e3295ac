/* SPDX-License-Identifier: MIT */
#include "base/buf.h"
#include "base/cleanup.h"
#include "client/gateway/serve.h"
#include "service/log.h"
#include <signal.h>
#include <stdio.h>

/* Both are in RestartPreventExitStatus= of the units: another try would not help. */
#define EXIT_USAGE 2
#define EXIT_CANNOT_START 3

static int print_help(void) {
        struct buf out = BUF_NULL;
        int r = conf_print_help(&gateway_conf, &out);

        if (r == 0 && (fwrite(out.data, 1, out.size, stdout) != out.size || fflush(stdout) != 0))
                r = -1;
        buf_deinit(&out);
        return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

static void tell_ready(const struct serve *serve) {
        const char *socket = serve->listeners.path ? serve->listeners.path
                             : serve->config->open ? "TCP"
                                                   : "sockets passed in";

        LOG_FIELDS(LOGGED_READY,
                ({"CONFAB_VERSION", CONFAB_VERSION, 0}, {"CONFAB_SOCKET", socket, 0}),
                "confab-gateway %s answers on %s", CONFAB_VERSION, socket);
}

static int run(struct gateway_config *config, int argc, char **argv) {
        _cleanup_(serve_deinit) struct serve serve = SERVE_NULL;
        struct err e = {};
        int r;

        if (serve_init(&serve, config, argc, argv, &e) < 0) {
                LOG_ERROR(LOGGED_CANNOT_START, &e, "cannot start");
                return EXIT_CANNOT_START;
        }
        if (log_start(serve.base, &e) < 0)
                LOG_ERROR(LOGGED_SHORT_OF_RESOURCES, &e, "the journal is written to directly");
        tell_ready(&serve);
        r = serve_run(&serve, &e);
        if (r < 0)
                LOG_ERROR(LOGGED_LOOP_FAILED, &e, "event loop");
        else
                LOG(LOGGED_STOPPED, "stopped");
        log_stop();
        return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv) {
        _cleanup_(gateway_config_deinit) struct gateway_config config = GATEWAY_CONFIG_NULL;
        enum conf_action action;
        struct err e;

        log_init("confab-gateway", LOG_INFO);
        /* Writes to peers that went are noticed by their result. */
        signal(SIGPIPE, SIG_IGN);
        if (conf_load(&gateway_conf, &config, argc, argv, &action, &e) < 0) {
                LOG_ERROR(LOGGED_SETTINGS_WRONG, &e, "%s", "");
                return EXIT_USAGE;
        }
        switch (action) {
        case CONF_HELP:
                return print_help();
        case CONF_VERSION:
                return printf("confab-gateway %s\n", CONFAB_VERSION) < 0 ? EXIT_FAILURE
                                                                         : EXIT_SUCCESS;
        case CONF_CHECK:
        case CONF_CHECK_SETTINGS:
                return EXIT_SUCCESS; /* that was it */
        case CONF_RUN:
                break;
        }
        return run(&config, argc, argv);
}
