/* SPDX-License-Identifier: MIT */
#include "client/gateway/serve.h"
#include "base/util.h"
#include "client/socket-path.h"
#include "service/log.h"
#include "service/loop.h"
#include "service/notify.h"
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static struct timeval timeval_of(uint64_t usec) {
        return (struct timeval){
                .tv_sec = (time_t)(usec / 1000000), .tv_usec = (suseconds_t)(usec % 1000000)};
}

/* ---- what the settings say ---- */

/* Seconds; 0: as expire. */
static uint32_t expires_once(const struct gateway_config *config) {
        uint64_t usec = config->expire_once;

        if (config->expire > 0 && usec >= config->expire)
                usec = 0;
        return (uint32_t)(usec / 1000000);
}

static struct gateway_options options_of(struct serve *serve) {
        const struct gateway_config *config = serve->config;

        return (struct gateway_options){
                .settings = {.talk = {.expires_after = (uint32_t)(config->expire / 1000000),
                                     .expires_once = expires_once(config),
                                     .n_choices = (uint32_t)config->max_choices,
                                     .max_reply = (uint32_t)config->max_reply,
                                     .shift = config->shift},
                        .max_import = config->max_import,
                        .keepalive_usec = config->keep_alive},
                .limits = {.header_size = config->max_header,
                        .body_size = config->max_body,
                        .bodies_size = config->max_bodies,
                        .output_high = config->output_high,
                        .output_low = config->output_low,
                        .n_connections = (unsigned)config->max_connections,
                        .header_usec = config->header_timeout,
                        .body_usec = config->body_timeout,
                        .idle_usec = config->idle_timeout,
                        .write_usec = config->write_timeout},
                .origins = {.hosts = config->allow_hosts, .origins = config->allow_origins},
                .tenant_header = config->tenant_header,
                .request_log = config->request_log,
                .follow = config->follow,
                .follow_ca_file = config->follow_ca_file,
                .tokens = &serve->tokens,
                .backends = serve->backends,
                .page = {.files = serve->page, .libs = config->page_libs},
                .show = config->open ? &serve->show : NULL,
        };
}

static bool is_given(const struct serve *serve, const char *name) {
        return conf_is_given(&gateway_conf, serve->config, name);
}

/* Where to listen and to ask. The settings themselves stay as they are, so that a reload finds nothing changed. */
static int choose_places(struct serve *serve, struct err *e) {
        bool open = serve->config->open;

        serve->listen = open && !is_given(serve, "listen") ? NULL : serve->config->listen;
        serve->tcp = open && !is_given(serve, "tcp") ? "127.0.0.1:0" : serve->config->tcp;
        if (!open || is_given(serve, "daemon"))
                return 0;
        serve->own_daemon = socket_path_find();
        return serve->own_daemon ? 0 : err_set(e, ERR_NOMEM, "no memory for a path");
}

/* The folder of the page, if there is one. One that was named must be there; that of the installation may be missing, unless
 * it is to be shown. */
static int find_page(struct serve *serve, struct err *e) {
        const char *named = serve->config->page, *folder = named ? named : CONFAB_PAGE;
        struct stat st;

        if (strcmp(folder, "none") == 0)
                return serve->config->open ? err_set(e, ERR_INVALID, "open: there is no page") : 0;
        if (stat(folder, &st) < 0) {
                if (named || serve->config->open)
                        return err_set(e, ERR_SYS, "page: cannot look into '%s'", folder);
                return 0;
        }
        if (!S_ISDIR(st.st_mode))
                return err_set(e, ERR_INVALID, "page: '%s' is not a folder", folder);
        serve->page = folder;
        return 0;
}

/* The file is read anew; on failure the tokens of before count. */
static int take_tokens(struct serve *serve, struct err *e) {
        struct tokens fresh = TOKENS_NULL;
        int r = 0;

        if (serve->config->token_file)
                r = tokens_read(&fresh, serve->config->token_file, e);
        if (r == 0 && serve->config->open)
                r = tokens_add(&fresh, serve->show.token, geteuid(), e);
        if (r < 0) {
                tokens_deinit(&fresh);
                return r;
        }
        tokens_deinit(&serve->tokens);
        serve->tokens = fresh;
        return 0;
}

/* @before: a copy of the settings; NULL: there was no memory for one. */
static void tell_reloaded(const struct serve *serve, const struct gateway_config *before) {
        char names[512] = "";
        size_t n = 0;

        if (before)
                n = conf_list_changes(&gateway_conf, before, serve->config, names, sizeof(names));
        LOG_FIELDS(LOGGED_RELOADED, ({"CONFAB_COUNT", NULL, n}, {"CONFAB_SETTING", names, 0}),
                "settings reloaded%s%s", n > 0 ? ": " : "", names);
}

static void reload(struct serve *serve) {
        _cleanup_(gateway_config_deinit) struct gateway_config before = GATEWAY_CONFIG_NULL;
        bool is_copied;
        char waiting[CONF_NAMES_SIZE];
        struct gateway_options options;
        struct err e;

        notify_reloading();
        is_copied = conf_copy(&gateway_conf, &before, serve->config, NULL) == 0;
        if (conf_reload(&gateway_conf, serve->config, serve->argc, serve->argv, waiting,
                    sizeof(waiting), &e) < 0) {
                LOG_ERROR(LOGGED_RELOAD_REFUSED, &e, "settings stay as they were");
        } else {
                log_set_level((int)serve->config->log_level);
                options = options_of(serve);
                gateway_take_options(serve->gateway, &options);
                tell_reloaded(serve, is_copied ? &before : NULL);
                if (*waiting)
                        LOG_FIELDS(LOGGED_NEEDS_RESTART, ({"CONFAB_SETTING", waiting, 0}),
                                "settings that wait for a restart: %s", waiting);
        }
        if (take_tokens(serve, &e) < 0)
                LOG_ERROR(LOGGED_TOKENS_REFUSED, &e, "tokens stay as they were");
        notify_ready();
}

/* ---- stopping ---- */

static void on_stopped(void *userdata) {
        struct serve *serve = userdata;

        event_base_loopbreak(serve->base);
}

static void stop(struct serve *serve) {
        struct timeval t = timeval_of(serve->config->stop_timeout);

        if (serve->stopping) {
                event_base_loopbreak(serve->base);
                return;
        }
        LOG(LOGGED_STOPPING, "stopping");
        serve->stopping = true;
        notify_stopping();
        listeners_close(&serve->listeners);
        if (event_add(serve->stop_timer, &t) < 0)
                LOG(LOGGED_SHORT_OF_RESOURCES, "no memory for a timer: stop-timeout does not hold");
        http_server_stop(gateway_http(serve->gateway), on_stopped, serve);
}

static void on_stop_timer(evutil_socket_t fd, short what, void *arg) {
        struct serve *serve = arg;

        LOG(LOGGED_STOP_FORCED, "answers did not end within stop-timeout");
        event_base_loopbreak(serve->base);
}

static void on_signal(evutil_socket_t signum, short what, void *arg) {
        if (signum == SIGHUP)
                reload(arg);
        else
                stop(arg);
}

static void on_watchdog(evutil_socket_t fd, short what, void *arg) {
        notify_watchdog();
}

/* ---- setting up ---- */

static bool listens_on(const struct listeners *listeners, const char *address) {
        for (unsigned i = 0; i < listeners->n; i++)
                if (listeners->is_tcp[i] && strcmp(listeners_text(listeners, i).s, address) == 0)
                        return true;
        return false;
}

static int add_all_tcp(struct serve *serve, struct err *e) {
        const char *list = serve->tcp, *word;
        char address[80];
        size_t n;

        while ((word = conf_next_word(&list, &n))) {
                int r;

                if (n >= sizeof(address))
                        return err_set(e, ERR_INVALID, "tcp: '%.60s...' is no address", word);
                memcpy(address, word, n);
                address[n] = '\0';
                if (listens_on(&serve->listeners, address)) /* it was passed */
                        continue;
                r = listeners_add_tcp(&serve->listeners, address, e);
                if (r < 0)
                        return err_wrap(e, r, "tcp");
        }
        return 0;
}

/* Sockets that were passed take the place of `listen`; those of `tcp` are there in any case. */
static int open_listeners(struct serve *serve, struct err *e) {
        const struct gateway_config *config = serve->config;
        struct listeners *listeners = &serve->listeners;
        int r = listeners_take_over(listeners, true, e);

        if (r == 0 && serve->listen)
                r = listeners_add_path(listeners, serve->listen, (mode_t)config->socket_mode,
                        config->socket_group, e);
        if (r >= 0)
                r = add_all_tcp(serve, e);
        if (r < 0)
                return r;
        for (unsigned i = 0; i < listeners->n; i++) {
                if (listeners->is_tcp[i] && !config->token_file && !config->open)
                        return err_set(e, ERR_INVALID,
                                "a socket of TCP was passed, which takes a token-file");
                if (!config->allow_remote && !listeners_is_local(listeners, i))
                        return err_set(e, ERR_INVALID,
                                "other machines could reach %s, which takes allow-remote = yes",
                                listeners_text(listeners, i).s);
        }
        return 0;
}

/* The HTTP server has descriptors of its own: closing @listeners removes the path, too. */
static int start_listening(struct serve *serve, struct err *e) {
        struct listeners *listeners = &serve->listeners;

        for (unsigned i = 0; i < listeners->n; i++) {
                int fd = fcntl(listeners->fds[i], F_DUPFD_CLOEXEC, 3), r;

                if (fd < 0)
                        return err_set(e, ERR_SYS, "cannot listen");
                r = http_server_listen(gateway_http(serve->gateway), fd, listeners->is_tcp[i], e);
                if (r < 0) {
                        close(fd);
                        return r;
                }
                if (listeners->is_tcp[i])
                        LOG_FIELDS(LOGGED_LISTENING,
                                ({"CONFAB_SOCKET", listeners_text(listeners, i).s, 0}),
                                "listening on %s", listeners_text(listeners, i).s);
        }
        return 0;
}

/* The one that other machines can't reach, if there are several. */
static const char *shown_address(const struct serve *serve, struct listener_text *text) {
        const struct listeners *listeners = &serve->listeners;
        bool found = false;

        for (unsigned i = 0; i < listeners->n; i++) {
                if (!listeners->is_tcp[i] || (found && !listeners_is_local(listeners, i)))
                        continue;
                *text = listeners_text(listeners, i);
                if (listeners_is_local(listeners, i))
                        break;
                found = true;
        }
        return text->s;
}

static int show_page(struct serve *serve, struct err *e) {
        struct listener_text text = {};
        const char *address = shown_address(serve, &text);
        int r = show_print(&serve->show, address, e);

        if (r == 0)
                show_start_browser(&serve->show, address);
        return r;
}

static int open_backends(struct serve *serve, struct err *e) {
        _cleanup_(freep) char *text = strdup(serve->config->daemons);
        const char **paths, *list = serve->config->daemons, *word;
        size_t n = 0, size;
        int r;

        /* A path of the environment may have blanks in it. */
        if (serve->own_daemon)
                return backends_new(&serve->backends, serve->base,
                        (const char *const *)&serve->own_daemon, 1, e);
        paths = text ? calloc(strlen(text) / 2 + 1, sizeof(*paths)) : NULL;
        if (!paths)
                return err_set(e, ERR_NOMEM, "no memory for paths");
        while ((word = conf_next_word(&list, &size))) {
                text[word - serve->config->daemons + (ptrdiff_t)size] = '\0';
                paths[n++] = text + (word - serve->config->daemons);
        }
        r = backends_new(&serve->backends, serve->base, paths, n, e);
        free(paths);
        return r;
}

static int make_events(struct serve *serve, struct err *e) {
        static const int signals[] = {SIGTERM, SIGINT, SIGHUP};
        uint64_t watchdog_usec = notify_watchdog_usec();
        struct timeval t = timeval_of(watchdog_usec / 2);

        for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
                serve->signals[i] = loop_event_new(
                        serve->base, signals[i], EV_SIGNAL | EV_PERSIST, on_signal, serve);
                if (!serve->signals[i] || event_add(serve->signals[i], NULL) < 0)
                        return err_set(e, ERR_NOMEM, "no memory for signals");
        }
        serve->stop_timer = loop_event_new(serve->base, -1, 0, on_stop_timer, serve);
        if (!serve->stop_timer)
                return err_set(e, ERR_NOMEM, "no memory for a timer");
        if (watchdog_usec == 0)
                return 0;
        serve->watchdog = loop_event_new(serve->base, -1, EV_PERSIST, on_watchdog, serve);
        if (!serve->watchdog || event_add(serve->watchdog, &t) < 0)
                return err_set(e, ERR_NOMEM, "no memory for a timer");
        return 0;
}

/* Connections are descriptors, and those to daemons come on top. */
static void raise_descriptors(const struct gateway_config *config) {
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
                return;
        if (limit.rlim_cur < limit.rlim_max) {
                rlim_t before = limit.rlim_cur;

                limit.rlim_cur = limit.rlim_max;
                if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
                        limit.rlim_cur = before;
        }
        if (limit.rlim_cur < config->max_connections + 256)
                LOG(LOGGED_SHORT_OF_RESOURCES,
                        "only %llu files may be open: connections beyond them wait",
                        (unsigned long long)limit.rlim_cur);
}

int serve_init(struct serve *serve, struct gateway_config *config, int argc, char *const *argv,
        struct err *e) {
        struct gateway_options options;
        int r;

        serve->config = config;
        serve->argc = argc;
        serve->argv = argv;
        log_set_level((int)config->log_level);
        raise_descriptors(config);
        r = choose_places(serve, e);
        if (r == 0 && config->open)
                r = show_init(&serve->show, e);
        if (r == 0)
                r = take_tokens(serve, e);
        if (r == 0)
                r = find_page(serve, e);
        if (r == 0)
                r = open_listeners(serve, e);
        if (r < 0)
                return r;
        serve->base = event_base_new();
        if (!serve->base)
                return err_set(e, ERR_NOMEM, "no memory for an event loop");
        r = make_events(serve, e);
        if (r == 0)
                r = open_backends(serve, e);
        if (r < 0)
                return r;
        options = options_of(serve);
        r = gateway_new(&serve->gateway, serve->base, &options, e);
        if (r == 0)
                r = start_listening(serve, e);
        if (r < 0)
                return r;
        if (!serve->page && !config->page)
                LOG(LOGGED_NO_PAGE, "there is no page: '" CONFAB_PAGE "' is missing");
        if (config->open)
                r = show_page(serve, e);
        if (r == 0)
                notify_ready();
        return r;
}

int serve_run(struct serve *serve, struct err *e) {
        sigset_t signals;
        int r = event_base_dispatch(serve->base);

        /* What comes now would end the process as if nobody had taken it. */
        sigemptyset(&signals);
        sigaddset(&signals, SIGTERM);
        sigaddset(&signals, SIGINT);
        sigaddset(&signals, SIGHUP);
        sigprocmask(SIG_BLOCK, &signals, NULL);
        return r < 0 ? err_set(e, ERR_SYS, "waiting for events") : 0;
}

void serve_deinit(struct serve *serve) {
        listeners_close(&serve->listeners);
        gateway_free(serve->gateway);
        backends_free(serve->backends);
        for (size_t i = 0; i < ARRAY_SIZE(serve->signals); i++)
                loop_event_free(serve->signals[i]);
        loop_event_free(serve->stop_timer);
        loop_event_free(serve->watchdog);
        if (serve->base)
                event_base_free(serve->base);
        tokens_deinit(&serve->tokens);
        show_deinit(&serve->show);
        free(serve->own_daemon);
        *serve = SERVE_NULL;
}
