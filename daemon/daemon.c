/* SPDX-License-Identifier: MIT */
#include "daemon/daemon.h"
#include "base/clock.h"
#include "base/util.h"
#include "daemon/audit.h"
#include "daemon/closer.h"
#include "daemon/engine-options.h"
#include "daemon/groups.h"
#include "daemon/limiting.h"
#include "service/log.h"
#include "service/loop.h"
#include "service/notify.h"
#include "service/secret.h"
#include "daemon/peer.h"
#include "daemon/reply.h"
#include "daemon/startup.h"
#include "daemon/streams.h"
#include <errno.h>
#include <event2/event.h>
#include <grp.h>
#include <signal.h>
#include <string.h>

/* Engine events handled before sockets have their turn again. */
#define EVENTS_PER_WAKEUP 256
#define STATUS_USEC 5000000ull
/* How long peers may take for the last answers after the engine has stopped. */
#define FLUSH_USEC 2000000ull
/* How long a peer may take to hang up after its last words. */
#define LINGER_USEC 2000000ull

static struct timeval timeval_of(uint64_t usec) {
        return (struct timeval){
                .tv_sec = (time_t)(usec / 1000000), .tv_usec = (suseconds_t)(usec % 1000000)};
}

/* ---- events of the engine ---- */

static void finish(struct daemon *d, enum daemon_state state) {
        d->state = state;
        event_base_loopbreak(d->base);
}

static void enter_flushing(struct daemon *d) {
        struct timeval t = timeval_of(FLUSH_USEC);
        struct list *it, *tmp;
        struct err e;

        d->state = DAEMON_FLUSHING;
        err_set(&e, ERR_SHUTDOWN, "the daemon is stopping");
        list_for_each_safe (it, tmp, &d->peers) {
                reply_refuse(list_entry(it, struct peer, link), &e);
        }
        if (event_add(d->stop_timer, &t) < 0)
                finish(d, DAEMON_STOPPED); /* rather than never */
}

static uint64_t find_stat(const struct engine_event *ev, const char *name) {
        for (size_t i = 0; i < ev->stats.n; i++)
                if (strcmp(ev->stats.stats[i].name, name) == 0)
                        return ev->stats.stats[i].value;
        return 0;
}

/* The answer to the daemon's own Stats: the engine is alive, and these are its figures. */
static void on_probe(struct request *probe, struct engine_event *ev) {
        struct daemon *d = probe->arg;

        d->probing = false;
        d->probe_answered = true;
        if (ev->kind != ENGINE_STATS_RESULT || d->state != DAEMON_RUNNING)
                return;
        notify_status("%llu conversations loaded, %llu of them in memory, %llu of %llu MiB used, "
                      "%llu generating, %zu connections",
                (unsigned long long)find_stat(ev, "conversations_loaded"),
                (unsigned long long)find_stat(ev, "conversations_resident"),
                (unsigned long long)find_stat(ev, "ledger_used") >> 20,
                (unsigned long long)find_stat(ev, "budget") >> 20,
                (unsigned long long)find_stat(ev, "requests_active"), d->n_peers);
}

/* Failures that are our fault, not the request's, also go to the journal. */
static void log_failure(struct request *r, struct engine_event *ev) {
        const struct err *e = &ev->err;
        struct log_about about = {.owner = OWNER_ANY, .err = e};

        if (ev->told || (e->code != ERR_SYS && e->code != ERR_CORRUPT && e->code != ERR_NOMEM))
                return;
        /* The damaged file is the client's. */
        if (e->code == ERR_CORRUPT && r->verb == ENGINE_IMPORT)
                return;
        if (r->peer)
                peer_about(r->peer, e, &about);
        about.conversation = r->conv_id;
        log_event(LOGGED_REQUEST_FAILED, &about, "request failed");
}

static void tell(struct daemon *d, const struct engine_event *ev) {
        static const enum logged events[ENGINE_N_LOGS] = {
                [ENGINE_LOG_MIGRATED] = LOGGED_MIGRATED,
                [ENGINE_LOG_HOUSEKEEPING] = LOGGED_REGISTER_TROUBLE,
                [ENGINE_LOG_REGISTER_LOST] = LOGGED_REGISTER_LOG_LOST,
                [ENGINE_LOG_TURN_DAMAGED] = LOGGED_TURN_DAMAGED,
                [ENGINE_LOG_REGISTER_DAMAGED] = LOGGED_REGISTER_DAMAGED,
                [ENGINE_LOG_RECORDS_UNUSABLE] = LOGGED_RECORDS_UNUSABLE,
                [ENGINE_LOG_RECORD_DAMAGED] = LOGGED_RECORD_DAMAGED,
                [ENGINE_LOG_SPILL_FAILS] = LOGGED_SPILL_FAILS,
                [ENGINE_LOG_SPILL_WORKS] = LOGGED_SPILL_WORKS,
                [ENGINE_LOG_REMOTE_FAILS] = LOGGED_REMOTE_FAILS,
                [ENGINE_LOG_REMOTE_WORKS] = LOGGED_REMOTE_WORKS,
                [ENGINE_LOG_USER_DISK] = LOGGED_LIMIT_REACHED,
                [ENGINE_LOG_IMPORT_COLD] = LOGGED_IMPORT_COLD,
                [ENGINE_LOG_WAITS] = LOGGED_WAITS_FOR_MEMORY,
                [ENGINE_LOG_ADMIN] = LOGGED_ADMIN_ACT,
        };
        const struct log_field act[] = {
                {"CONFAB_ACT", ev->err.msg, 0}, {"CONFAB_RESULT", "begun", 0}};
        struct user *user = users_find(&d->users, ev->log.owner);
        const struct log_about about = {.owner = ev->log.owner,
                .tenant = user ? user->tenant : NULL,
                .conversation = ev->log.conv,
                .err = &ev->err,
                .fields = act,
                .n_fields = ev->log.what == ENGINE_LOG_ADMIN ? ARRAY_SIZE(act) : 0};

        if (ev->log.what == ENGINE_LOG_USER_DISK && user && !users_tell_limit(user))
                return;
        log_event(events[ev->log.what], &about, "engine");
}

/* Another machine has changed limits. */
static void take_overrides(struct daemon *d, const struct engine_event *ev) {
        struct err e;

        if (quota_rules_replace(&d->users.rules, ev->overrides.list, ev->overrides.n, &e) < 0)
                LOG_ERROR(LOGGED_SHORT_OF_RESOURCES, &e,
                        "limits that another machine has changed hold here from the next start on");
        else
                limits_of_all(d);
}

static void handle_event(struct daemon *d, struct engine_event *ev) {
        if (ev->kind == ENGINE_LOG) {
                tell(d, ev);
                return;
        }
        if (ev->kind == ENGINE_OVERRIDES) {
                take_overrides(d, ev);
                return;
        }
        if (ev->kind == ENGINE_STOPPED) {
                if (d->state == DAEMON_STOPPING)
                        enter_flushing(d);
                return;
        }
        if (ev->kind == ENGINE_USER_ACTED && ev->acted.purged)
                users_forget(&d->users, ev->acted.owner, ev->acted.all_tenants);
        requests_dispatch(&d->requests, ev, log_failure);
}

static void on_engine(evutil_socket_t fd, short what, void *arg) {
        struct daemon *d = arg;

        for (unsigned i = 0; i < EVENTS_PER_WAKEUP; i++) {
                _cleanup_(engine_event_freep) struct engine_event *ev =
                        engine_next_event(d->engine);

                if (!ev)
                        break;
                handle_event(d, ev);
        }
}

/* ---- status and watchdog ---- */

static void start_probe(struct daemon *d) {
        const struct request probe = {.on_event = on_probe, .arg = d};
        struct engine_request r = {.verb = ENGINE_STATS, .admin = true};

        if (d->probing || d->state != DAEMON_RUNNING)
                return;
        d->probing = requests_submit(&d->requests, &probe, &r, NULL) == 0;
}

/* Once, in time before the service manager ends the daemon. */
static void tell_stuck(struct daemon *d, uint64_t usec) {
        uint64_t watchdog = notify_watchdog_usec();

        if (d->told_stuck || watchdog == 0 || usec < watchdog / 2)
                return;
        d->told_stuck = true;
        LOG_FIELDS(LOGGED_ENGINE_STUCK, ({"CONFAB_USEC", NULL, usec}),
                "the engine has given no sign of life for %.1f s", (double)usec / 1e6);
}

/*
 * The daemon gives a sign of life if the engine has stepped or answered since the last one. An idle
 * engine answers; a working engine steps; a hanging engine does neither, and the service manager
 * restarts us. While stopping, the sign is always given: stop-timeout bounds that time.
 */
static void on_status(evutil_socket_t fd, short what, void *arg) {
        struct daemon *d = arg;
        uint64_t heartbeat = engine_heartbeat(d->engine), now = clock_monotonic_usec();

        if (heartbeat != d->heartbeat || d->probe_answered || d->state != DAEMON_RUNNING) {
                notify_watchdog();
                d->alive_usec = now;
                d->told_stuck = false;
        } else {
                tell_stuck(d, now - d->alive_usec);
        }
        d->heartbeat = heartbeat;
        d->probe_answered = false;
        start_probe(d);
}

static int start_status(struct daemon *d, struct err *e) {
        uint64_t watchdog = notify_watchdog_usec();
        struct timeval t = timeval_of(watchdog ? MIN(watchdog / 3, STATUS_USEC) : STATUS_USEC);

        if (!notify_wanted())
                return 0;
        d->alive_usec = clock_monotonic_usec();
        d->status_timer = loop_event_new(d->base, -1, EV_PERSIST, on_status, d);
        if (!d->status_timer || event_add(d->status_timer, &t) < 0)
                return err_set(e, ERR_NOMEM, "no memory for a timer");
        return 0;
}

/* ---- stopping and reloading ---- */

static void on_stop_timer(evutil_socket_t fd, short what, void *arg) {
        struct daemon *d = arg;

        if (d->state == DAEMON_FLUSHING) {
                finish(d, DAEMON_STOPPED);
        } else {
                LOG(LOGGED_STOP_FORCED, "not stopped within stop-timeout, giving up");
                finish(d, DAEMON_FORCED);
        }
}

void daemon_stop(struct daemon *d) {
        struct timeval t = timeval_of(d->settings->stop_timeout);

        if (d->state != DAEMON_RUNNING) {
                LOG(LOGGED_STOP_FORCED, "told to stop twice, giving up");
                finish(d, DAEMON_FORCED);
                return;
        }
        LOG_FIELDS(LOGGED_STOPPING, ({"CONFAB_COUNT", NULL, requests_count(&d->requests)}),
                "stopping: %zu requests in flight", requests_count(&d->requests));
        d->state = DAEMON_STOPPING;
        notify_stopping();
        listeners_close(&d->listeners);
        if (event_add(d->stop_timer, &t) < 0)
                LOG(LOGGED_SHORT_OF_RESOURCES, "no memory for a timer: stop-timeout does not hold");
        engine_stop(d->engine);
}

void daemon_take_limits(struct daemon *d) {
        d->limits = (struct conn_limits){
                .output_high = d->settings->output_high,
                .output_low = d->settings->output_low,
                .output_limit = d->settings->output_limit,
                .linger_usec = LINGER_USEC,
                .frame_usec = d->settings->frame_timeout,
        };
        d->users.io.total = d->settings->io_memory;
        log_set_level((int)d->settings->log_level);
}

/* Put trusted-users into force. On failure those of before stay trusted. */
static int take_trusted(struct daemon *d, struct err *e) {
        struct trusted t = TRUSTED_NULL;
        int r = trusted_parse(&t, d->settings->trusted_users, e);

        if (r < 0)
                return r;
        trusted_deinit(&d->trusted);
        d->trusted = t;
        return 0;
}

/* @before: a copy of the settings, or SETTINGS_NULL where there was no memory for one. */
static void tell_reloaded(const struct daemon *d, const struct settings *before) {
        char names[CONF_NAMES_SIZE] = "";
        size_t n = 0;

        if (before->state)
                n = conf_list_changes(&settings_conf, before, d->settings, names, sizeof(names));
        LOG_FIELDS(LOGGED_RELOADED, ({"CONFAB_COUNT", NULL, n}, {"CONFAB_SETTING", names, 0}),
                "settings reloaded%s%s", n > 0 ? ": " : "", names);
}

static void take_settings(struct daemon *d) {
        struct err e;

        daemon_take_limits(d);
        limits_of_all(d);
        engine_set_speculation(d->engine, d->settings->speculation);
        if (take_trusted(d, &e) < 0)
                LOG_ERROR(LOGGED_RELOAD_REFUSED, &e, "trusted users stay as they were");
}

void daemon_reload(struct daemon *d) {
        _cleanup_(settings_deinit) struct settings before = SETTINGS_NULL;
        char waiting[CONF_NAMES_SIZE];
        struct err e;

        notify_reloading();
        (void)settings_copy(&before, d->settings, NULL);
        if (settings_reload(d->settings, d->argc, d->argv, waiting, sizeof(waiting), &e) < 0) {
                LOG_ERROR(LOGGED_RELOAD_REFUSED, &e, "settings stay as they were");
        } else {
                take_settings(d);
                tell_reloaded(d, &before);
                if (*waiting)
                        LOG_FIELDS(LOGGED_NEEDS_RESTART, ({"CONFAB_SETTING", waiting, 0}),
                                "settings that wait for a restart: %s", waiting);
        }
        notify_ready();
}

static void on_signal(evutil_socket_t signum, short what, void *arg) {
        if (signum == SIGHUP)
                daemon_reload(arg);
        else
                daemon_stop(arg);
}

/* ---- setting up ---- */

static int find_admin_group(struct daemon *d, struct err *e) {
        struct group *g;

        d->admin_gid = UINT32_MAX;
        if (!d->settings->admin_group)
                return 0;
        g = getgrnam(d->settings->admin_group);
        if (!g)
                return err_set(e, ERR_INVALID, "admin-group: unknown group '%s'",
                        d->settings->admin_group);
        d->admin_gid = g->gr_gid;
        return 0;
}

static int load_overrides(struct daemon *d, struct err *e) {
        _cleanup_(freep) struct quota_override *list = NULL;
        size_t n = 0;
        int r = engine_overrides(d->engine, &list, &n, e);

        return r < 0 ? r : quota_rules_load(&d->users.rules, list, n, e);
}

static int open_engine(struct daemon *d, struct err *e) {
        struct engine_options o = engine_options_of(d->settings);
        struct startup startup = {.model = d->settings->model};
        _cleanup_(secret_freep) char *password = NULL;
        int r = engine_options_password(d->settings, &password, e);

        if (r < 0)
                return r;
        o.remote.password = password;
        o.progress = startup_progress;
        o.progress_arg = &startup;
        r = engine_open(&d->engine, &o, e);
        if (r < 0)
                return r;
        d->requests.engine = d->engine;
        return load_overrides(d, e);
}

static int make_events(struct daemon *d, struct err *e) {
        static const int signals[] = {SIGTERM, SIGINT, SIGHUP};

        for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
                d->signal_events[i] =
                        loop_event_new(d->base, signals[i], EV_SIGNAL | EV_PERSIST, on_signal, d);
                if (!d->signal_events[i] || event_add(d->signal_events[i], NULL) < 0)
                        return err_set(e, ERR_NOMEM, "no memory for signals");
        }
        d->stop_timer = loop_event_new(d->base, -1, 0, on_stop_timer, d);
        d->engine_event =
                loop_event_new(d->base, engine_fd(d->engine), EV_READ | EV_PERSIST, on_engine, d);
        if (!d->stop_timer || !d->engine_event || event_add(d->engine_event, NULL) < 0)
                return err_set(e, ERR_NOMEM, "no memory for events");
        return 0;
}

/* Sockets are opened before the engine: a second daemon is noticed before it spends time on a
 * model, and early clients wait in the queue instead of being refused. */
static int set_up(struct daemon *d, struct err *e) {
        const struct settings *s = d->settings;
        int r;

        r = closer_start(e);
        if (r == 0)
                r = users_init(&d->users, e);
        if (r == 0)
                r = requests_init(&d->requests, e);
        d->requests.on_audit = audit_log;
        if (r == 0)
                r = find_admin_group(d, e);
        if (r == 0)
                r = take_trusted(d, e);
        if (r == 0)
                r = listeners_open(
                        &d->listeners, s->socket, (mode_t)s->socket_mode, s->socket_group, e);
        if (r == 0)
                r = open_engine(d, e);
        if (r < 0)
                return r;
        d->base = event_base_new();
        if (!d->base)
                return err_set(e, ERR_NOMEM, "no memory for an event loop");
        r = groups_new(&d->groups, d->base, e);
        if (r == 0)
                r = make_events(d, e);
        if (r == 0)
                r = listeners_start(&d->listeners, d->base, peer_accept, d, e);
        if (r == 0)
                r = start_status(d, e);
        if (r == 0)
                r = memory_start(d, e);
        return r;
}

int daemon_new(struct daemon **ret, struct settings *settings, int argc, char *const *argv,
        struct err *e) {
        _cleanup_(daemon_freep) struct daemon *d = calloc(1, sizeof(*d));
        int r;

        if (!d)
                return err_set(e, ERR_NOMEM, "no memory for the daemon");
        d->settings = settings;
        d->argc = argc;
        d->argv = argv;
        list_init(&d->peers);
        list_init(&d->streams);
        daemon_take_limits(d);
        r = set_up(d, e);
        if (r < 0)
                return r;
        d->state = DAEMON_RUNNING;
        d->started = clock_realtime_usec();
        d->began = clock_monotonic_usec();
        notify_ready();
        if (d->status_timer)
                start_probe(d);
        *ret = TAKE_PTR(d);
        return 0;
}

static bool all_written(const struct daemon *d) {
        struct list *it;

        list_for_each (it, &d->peers)
                if (conn_pending(&list_entry(it, struct peer, link)->conn) > 0)
                        return false;
        return true;
}

int daemon_run(struct daemon *d, struct err *e) {
        while (d->state < DAEMON_STOPPED) {
                if (event_base_loop(d->base, EVLOOP_ONCE) < 0)
                        return err_set(e, ERR_SYS, "waiting for events");
                /* All peers have their last answers: no need to wait any longer. */
                if (d->state == DAEMON_FLUSHING && all_written(d))
                        d->state = DAEMON_STOPPED;
        }
        return d->state == DAEMON_FORCED;
}

void daemon_step(struct daemon *d) {
        if (d->base)
                event_base_loop(d->base, EVLOOP_NONBLOCK);
}

struct daemon *daemon_free(struct daemon *d) {
        struct list *it, *tmp;

        if (!d)
                return NULL;
        list_for_each_safe (it, tmp, &d->peers) {
                peer_free(list_entry(it, struct peer, link));
        }
        listeners_close(&d->listeners);
        for (size_t i = 0; i < ARRAY_SIZE(d->signal_events); i++)
                loop_event_free(d->signal_events[i]);
        d->groups = groups_stop(d->groups);
        loop_event_free(d->engine_event);
        loop_event_free(d->stop_timer);
        loop_event_free(d->status_timer);
        memory_stop(d);
        d->engine = engine_free(d->engine);
        streams_free_all(d);
        if (d->base)
                event_base_free(d->base);
        requests_deinit(&d->requests);
        users_deinit(&d->users);
        trusted_deinit(&d->trusted);
        free(d);
        return NULL;
}
