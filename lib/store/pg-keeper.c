/* SPDX-License-Identifier: MIT */
/*
 * A thread that lets the other machines know that this one lives, and hears what they say. It has a connection of its own, since
 * the others may be waiting for something.
 *
 * 1. It writes the server's time into this machine's row, four times in the time after which others may take what a silent machine
 *    holds. What the server's clock says goes to the store's times (store_now_usec()), so that they are of one clock
 *    on all machines, whatever this machine's is set to.
 * 2. It listens on this machine's channel of the register (PostgreSQL's LISTEN): "want ID MACHINE", "given ID", "limits". What is said while
 *    the connection is lost is lost, too; who asked asks again, and limits are looked at anew.
 */
#include "base/clock.h"
#include "base/thread.h"
#include "base/util.h"
#include "store/pg.h"
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define BEATS 4           /* in lease_usec */
#define CLOCK_STEP 250000 /* microseconds */
#define DEAF_USEC 500000  /* between attempts to connect */

struct pg_keeper {
        struct pg *pg;
        pthread_t thread;
        int wake_fd; /* an eventfd: it is to stop */
        pthread_mutex_t lock;
        struct store_listener listener; /* under the lock */
};

/* Small differences are of the measurement, and a clock that goes back by them would confuse more than it helps. */
static void set_clock(struct pg_shared *shared, int64_t ahead) {
        int64_t change = ahead - atomic_load(&shared->clock_ahead);

        if (change > CLOCK_STEP || change < -CLOCK_STEP)
                atomic_store(&shared->clock_ahead, ahead);
}

static int listen_on_channel(struct pg *pg) {
        PGresult *result = NULL;
        char sql[96];
        int r = pg_exec(pg, "SELECT CAST(CAST('conversation' AS regclass) AS oid)", &result, NULL);

        if (r < 0)
                return r;
        snprintf(sql, sizeof(sql), "LISTEN confab_%" PRId64 "_%" PRIu64, pg_number(result, 0),
                pg->shared->machine);
        PQclear(result);
        return pg_exec(pg, sql, NULL, NULL);
}

/* One attempt; the next beat makes another. True: it was deaf, and hears again. */
static bool beat(struct pg *pg) {
        uint64_t before = clock_boottime_usec();
        bool was_deaf = !pg->conn;
        PGresult *result = NULL;
        char sql[192];
        int64_t seen;

        snprintf(sql, sizeof(sql),
                "UPDATE machine SET seen_usec = CAST(extract(epoch FROM clock_timestamp()) * "
                "1000000 "
                "AS bigint) WHERE number = %" PRIu64 " RETURNING seen_usec",
                pg->shared->machine);
        if (!pg->conn && (pg_connect(pg, NULL) < 0 || listen_on_channel(pg) < 0)) {
                pg_disconnect(pg);
                return false;
        }
        if (pg_exec(pg, sql, &result, NULL) < 0)
                return false;
        seen = pg_number(result, 0);
        PQclear(result);
        if (seen > 0) /* half of the way there and back */
                set_clock(pg->shared,
                        seen - (int64_t)(before + (clock_boottime_usec() - before) / 2));
        return was_deaf;
}

static void hear(struct pg_keeper *keeper, const char *said) {
        uint64_t id, machine;

        pthread_mutex_lock(&keeper->lock);
        if (sscanf(said, "want %" SCNu64 " %" SCNu64, &id, &machine) == 2) {
                if (keeper->listener.wanted)
                        keeper->listener.wanted(keeper->listener.arg, id, machine);
        } else if (sscanf(said, "given %" SCNu64, &id) == 1 && keeper->listener.given) {
                keeper->listener.given(keeper->listener.arg);
        } else if (strcmp(said, "limits") == 0 && keeper->listener.limits) {
                keeper->listener.limits(keeper->listener.arg);
        }
        pthread_mutex_unlock(&keeper->lock);
}

static void hear_all(struct pg_keeper *keeper) {
        PGconn *conn = keeper->pg->conn;
        PGnotify *n;

        if (!conn)
                return;
        if (!PQconsumeInput(conn)) {
                pg_disconnect(keeper->pg);
                return;
        }
        while ((n = PQnotifies(conn))) {
                hear(keeper, n->extra);
                PQfreemem(n);
        }
}

/* Until the next beat is due, or there is something. True: to stop. */
static bool wait_until(struct pg_keeper *keeper, uint64_t due) {
        uint64_t now = clock_monotonic_usec();
        struct pollfd fds[2] = {{.fd = keeper->wake_fd, .events = POLLIN},
                {.fd = keeper->pg->conn ? PQsocket(keeper->pg->conn) : -1, .events = POLLIN}};

        (void)poll(fds, 2, now < due ? (int)((due - now) / 1000 + 1) : 0);
        return fds[0].revents;
}

static void *keep(void *arg) {
        struct pg_keeper *keeper = arg;
        uint64_t pause = keeper->pg->shared->lease_usec / BEATS;
        uint64_t due = clock_monotonic_usec() + pause;

        while (!wait_until(keeper, due)) {
                if (clock_monotonic_usec() >= due) {
                        if (beat(keeper->pg))
                                hear(keeper, "limits"); /* what was said meanwhile */
                        due = clock_monotonic_usec() + pause;
                }
                hear_all(keeper);
                if (!keeper->pg->conn) /* deaf: not for longer than need be */
                        due = MIN(due, clock_monotonic_usec() + DEAF_USEC);
        }
        return NULL;
}

void pg_keeper_listen(struct pg_keeper *keeper, const struct store_listener *listener) {
        pthread_mutex_lock(&keeper->lock);
        keeper->listener = listener ? *listener : (struct store_listener){};
        pthread_mutex_unlock(&keeper->lock);
}

static struct pg_keeper *keeper_free(struct pg_keeper *keeper) {
        pg_free(keeper->pg);
        if (keeper->wake_fd >= 0)
                close(keeper->wake_fd);
        pthread_mutex_destroy(&keeper->lock);
        free(keeper);
        return NULL;
}

int pg_keeper_start(struct pg_shared *shared, struct err *e) {
        struct pg_keeper *keeper = calloc(1, sizeof(*keeper));

        if (!keeper)
                return err_no_memory(e);
        pthread_mutex_init(&keeper->lock, NULL);
        keeper->wake_fd = eventfd(0, EFD_CLOEXEC);
        keeper->pg = pg_new(shared);
        if (!keeper->pg || keeper->wake_fd < 0) {
                keeper_free(keeper);
                return err_no_memory(e);
        }
        /* The first beat, so that the time is known from the start. */
        (void)beat(keeper->pg);
        if (thread_start(&keeper->thread, NULL, keep, keeper) != 0) {
                keeper_free(keeper);
                return err_set(e, ERR_NOMEM, "cannot start the thread of the register");
        }
        shared->keeper = keeper;
        return 0;
}

struct pg_keeper *pg_keeper_stop(struct pg_keeper *keeper) {
        if (!keeper)
                return NULL;
        (void)eventfd_write(keeper->wake_fd, 1);
        pthread_join(keeper->thread, NULL);
        return keeper_free(keeper);
}
