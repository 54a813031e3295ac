/* SPDX-License-Identifier: MIT */
#include "daemon/groups.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/list.h"
#include "base/thread.h"
#include "base/util.h"
#include "service/loop.h"
#include <errno.h>
#include <event2/event.h>
#include <grp.h>
#include <pthread.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Text of one entry of the database. */
#define ENTRY_MAX (1u << 20)

struct groups_question {
        struct list link; /* asked or answered; under the lock while the thread has it in neither */
        uint32_t uid;
        /* Loop thread: */
        struct list among; /* of whoever asks */
        groups_fn *fn;     /* NULL: forgotten */
        void *arg, *owned;
        uint32_t *gids; /* owned */
        size_t n;
};

struct groups {
        struct event *event; /* `fd` is readable */
        int fd;              /* owned, an eventfd: there are answers */
        pthread_t thread;
        bool started;
        /* under the lock */
        pthread_mutex_t lock;
        pthread_cond_t more;
        struct list asked, answered;
        bool stops, busy; /* busy: the thread is asking the database */
};

static void question_free(struct groups_question *q) {
        list_unlink(&q->among);
        free(q->owned);
        free(q->gids);
        free(q);
}

static void free_all(struct list *questions) {
        while (!list_empty(questions)) {
                struct groups_question *q =
                        list_entry(questions->next, struct groups_question, link);

                list_unlink(&q->link);
                question_free(q);
        }
}

static void groups_free(struct groups *groups) {
        free_all(&groups->asked);
        free_all(&groups->answered);
        if (groups->fd >= 0)
                close(groups->fd);
        pthread_cond_destroy(&groups->more);
        pthread_mutex_destroy(&groups->lock);
        free(groups);
}

/* --- the thread --- */

/* The primary group and the name of @uid: an owned block that the name is in, or NULL. */
static char *find_user(uint32_t uid, struct passwd *ret) {
        struct passwd *found = NULL;
        int r = ERANGE;

        for (size_t size = 4096; r == ERANGE && size <= ENTRY_MAX; size *= 4) {
                char *text = malloc(size);

                if (!text)
                        return NULL;
                r = getpwuid_r(uid, ret, text, size, &found);
                if (r == 0 && found)
                        return text;
                free(text);
        }
        return NULL;
}

static void look(struct groups_question *q) {
        _cleanup_(freep) char *text = NULL;
        struct passwd user;
        int n = GROUPS_MOST;

        text = find_user(q->uid, &user);
        q->gids = text ? calloc(GROUPS_MOST, sizeof(*q->gids)) : NULL;
        if (!q->gids)
                return;
        /* -1: there are more; these are in the array. */
        if (getgrouplist(user.pw_name, user.pw_gid, q->gids, &n) < 0)
                n = GROUPS_MOST;
        q->n = (size_t)n;
}

static void tell(struct groups *groups) {
        const uint64_t one = 1;

        /* It can only be full if the loop has been told already. */
        while (write(groups->fd, &one, sizeof(one)) < 0 && errno == EINTR)
                ;
}

static void *groups_main(void *arg) {
        struct groups *groups = arg;

        pthread_mutex_lock(&groups->lock);
        for (;;) {
                struct groups_question *q;

                while (list_empty(&groups->asked) && !groups->stops)
                        pthread_cond_wait(&groups->more, &groups->lock);
                if (groups->stops)
                        break;
                q = list_entry(groups->asked.next, struct groups_question, link);
                list_unlink(&q->link);
                groups->busy = true;
                pthread_mutex_unlock(&groups->lock);
                look(q);
                pthread_mutex_lock(&groups->lock);
                list_append(&groups->answered, &q->link);
                if (groups->stops) {
                        /* groups_stop() has not waited. */
                        pthread_mutex_unlock(&groups->lock);
                        groups_free(groups);
                        return NULL;
                }
                groups->busy = false;
                tell(groups);
        }
        pthread_mutex_unlock(&groups->lock);
        return NULL;
}

/* --- the loop thread --- */

static void on_answers(evutil_socket_t fd, short what, void *arg) {
        struct groups *groups = arg;
        struct list answered;
        uint64_t n;

        if (read(groups->fd, &n, sizeof(n)) < 0 && errno != EAGAIN)
                return;
        pthread_mutex_lock(&groups->lock);
        list_move_all(&answered, &groups->answered);
        pthread_mutex_unlock(&groups->lock);
        while (!list_empty(&answered)) {
                struct groups_question *q = list_entry(answered.next, struct groups_question, link);

                list_unlink(&q->link);
                list_unlink(&q->among);
                if (q->fn)
                        q->fn(q->arg, TAKE_PTR(q->owned), q->gids, q->n);
                question_free(q);
        }
}

int groups_new(struct groups **ret, struct event_base *base, struct err *e) {
        struct groups *groups = calloc(1, sizeof(*groups));

        if (!groups)
                return err_set(e, ERR_NOMEM, "no memory for groups of users");
        pthread_mutex_init(&groups->lock, NULL);
        pthread_cond_init(&groups->more, NULL);
        list_init(&groups->asked);
        list_init(&groups->answered);
        groups->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (groups->fd < 0) {
                groups_stop(groups);
                return err_set(e, ERR_SYS, "cannot make an eventfd");
        }
        groups->event = loop_event_new(base, groups->fd, EV_READ | EV_PERSIST, on_answers, groups);
        if (!groups->event || event_add(groups->event, NULL) < 0) {
                groups_stop(groups);
                return err_set(e, ERR_NOMEM, "no memory for events");
        }
        *ret = groups;
        return 0;
}

struct groups *groups_stop(struct groups *groups) {
        bool busy;

        if (!groups)
                return NULL;
        loop_event_free(groups->event);
        pthread_mutex_lock(&groups->lock);
        groups->stops = true;
        busy = groups->busy;
        pthread_cond_signal(&groups->more);
        if (busy)
                pthread_detach(groups->thread);
        pthread_mutex_unlock(&groups->lock);
        if (busy)
                return NULL; /* the thread frees it (3) */
        if (groups->started)
                pthread_join(groups->thread, NULL);
        groups_free(groups);
        return NULL;
}

static int start(struct groups *groups, struct err *e) {
        int r = groups->started ? 0 : thread_start(&groups->thread, NULL, groups_main, groups);

        if (r != 0) {
                errno = r;
                return err_set(e, ERR_SYS, "cannot start a thread that looks for groups of users");
        }
        groups->started = true;
        return 0;
}

int groups_ask(struct groups *groups, uint32_t uid, groups_fn *fn, void *arg, void *owned,
        struct list *mine, struct err *e) {
        struct groups_question *q;
        int r = start(groups, e);

        if (r < 0)
                return r;
        q = calloc(1, sizeof(*q));
        if (!q)
                return err_set(e, ERR_NOMEM, "no memory for groups of users");
        list_init(&q->link);
        list_init(&q->among);
        q->uid = uid;
        q->fn = fn;
        q->arg = arg;
        q->owned = owned;
        list_append(mine, &q->among);
        pthread_mutex_lock(&groups->lock);
        list_append(&groups->asked, &q->link);
        pthread_cond_signal(&groups->more);
        pthread_mutex_unlock(&groups->lock);
        return 0;
}

void groups_forget(struct list *mine) {
        while (!list_empty(mine)) {
                struct groups_question *q = list_entry(mine->next, struct groups_question, among);

                list_unlink(&q->among);
                q->fn = NULL;
                free(TAKE_PTR(q->owned));
        }
}
