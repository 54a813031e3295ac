/* SPDX-License-Identifier: MIT */
#pragma once
/* A server that answers each command with what it is told to, at a Unix socket or a port. */
#include "remote-rig.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

enum fake_then {
        FAKE_ANSWER,  /* each command */
        FAKE_CLOSE,   /* the connection, after the first answer */
        FAKE_REPEAT,  /* the answer, for ever */
        FAKE_DRIP,    /* byte by byte, slowly, for ever */
        FAKE_BY_BYTE, /* byte by byte, each with a packet of its own */
        FAKE_DEAF,    /* nothing is read at all */
};

struct fake_script {
        const char *greeting; /* NULL: none */
        const char *answer;   /* to commands, but those below */
        size_t size;          /* of answer; 0: it is text */
        const char *asking;   /* to ASKING; NULL: as to others */
        const char *slots;    /* to CLUSTER SLOTS; NULL: as to others */
        enum fake_then then;
};

#define FAKE_MAX 64

struct fake {
        struct fake_script script;
        char folder[64], uri[160], name[128]; /* name: as a MOVED has it */
        int listener;
        pthread_t thread;
        pthread_t links[FAKE_MAX];
        atomic_uint n_links;
        atomic_size_t n_sent;
        struct fake_link {
                struct fake *fake;
                int fd;
        } link_args[FAKE_MAX];
};

static inline bool fake_send(struct fake *f, int fd, const char *data, size_t n) {
        while (n > 0) {
                ssize_t sent = send(fd, data, n, MSG_NOSIGNAL);

                if (sent <= 0)
                        return false;
                atomic_fetch_add(&f->n_sent, (size_t)sent);
                data += sent;
                n -= (size_t)sent;
        }
        return true;
}

static inline bool fake_drip(struct fake *f, int fd, const char *data, size_t n) {
        struct pollfd p = {.fd = fd, .events = POLLRDHUP};

        for (size_t i = 0;; i = (i + 1) % n)
                if (poll(&p, 1, 5) > 0 || !fake_send(f, fd, data + i, 1))
                        return false;
}

static inline bool fake_say(struct fake *f, int fd, const char *text, size_t size) {
        size_t n = size > 0 ? size : strlen(text);

        if (f->script.then == FAKE_DRIP)
                return fake_drip(f, fd, text, n);
        if (f->script.then == FAKE_BY_BYTE) {
                for (size_t i = 0; i < n; i++)
                        if (!fake_send(f, fd, text + i, 1))
                                return false;
                return true;
        }
        while (f->script.then == FAKE_REPEAT)
                if (!fake_send(f, fd, text, n))
                        return false;
        return fake_send(f, fd, text, n) && f->script.then != FAKE_CLOSE;
}

/* Commands begin with '*' at the beginning of a line, and values of tests have none there. */
static inline bool fake_answer(struct fake *f, int fd, const char *data) {
        const struct fake_script *s = &f->script;

        for (const char *p = data; p; p = strstr(p, "\n*")) {
                const char *word;

                p += *p == '\n';
                word = strstr(p, "\r\n");
                word = word ? strstr(word + 2, "\r\n") : NULL;
                if (!word)
                        return true;
                if (s->asking && strncmp(word + 2, "ASKING", 6) == 0) {
                        if (!fake_say(f, fd, s->asking, 0))
                                return false;
                } else if (s->slots && strncmp(word + 2, "CLUSTER", 7) == 0) {
                        if (!fake_say(f, fd, s->slots, 0))
                                return false;
                } else if (!fake_say(f, fd, s->answer, s->size)) {
                        return false;
                }
        }
        return true;
}

static inline void *fake_serve(void *arg) {
        struct fake_link *link = arg;
        struct fake *f = link->fake;
        struct pollfd gone = {.fd = link->fd, .events = POLLRDHUP};
        char data[4096];
        ssize_t n;

        if (f->script.greeting)
                (void)fake_send(f, link->fd, f->script.greeting, strlen(f->script.greeting));
        if (f->script.then == FAKE_DEAF)
                (void)poll(&gone, 1, -1);
        else
                while ((n = recv(link->fd, data, sizeof(data) - 1, 0)) > 0) {
                        data[n] = '\0';
                        if (!fake_answer(f, link->fd, data))
                                break;
                }
        close(link->fd);
        return NULL;
}

static inline void *fake_run(void *arg) {
        struct fake *f = arg;

        for (;;) {
                int fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC);
                unsigned i = atomic_load(&f->n_links);

                if (fd < 0 || i == FAKE_MAX) {
                        if (fd >= 0)
                                close(fd);
                        return NULL;
                }
                f->link_args[i] = (struct fake_link){f, fd};
                assert_int_equal(
                        pthread_create(&f->links[i], NULL, fake_serve, &f->link_args[i]), 0);
                atomic_store(&f->n_links, i + 1);
        }
}

static inline void fake_listen(struct fake *f, const struct sockaddr *address, socklen_t n) {
        f->listener = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(f->listener >= 0);
        assert_int_equal(bind(f->listener, address, n), 0);
        assert_int_equal(listen(f->listener, 16), 0);
        assert_int_equal(pthread_create(&f->thread, NULL, fake_run, f), 0);
}

static inline void fake_start(struct fake *f, struct fake_script script) {
        struct sockaddr_un a = {.sun_family = AF_UNIX};

        memset(f, 0, sizeof(*f));
        f->script = script;
        strcpy(f->folder, "/tmp/confab-test-fake-XXXXXX");
        assert_non_null(mkdtemp(f->folder));
        snprintf(a.sun_path, sizeof(a.sun_path), "%s/s", f->folder);
        snprintf(f->uri, sizeof(f->uri), "redis://%s", a.sun_path);
        fake_listen(f, (const struct sockaddr *)&a, sizeof(a));
}

/* At a port: answers may name it, with %s. */
static inline void fake_start_tcp(struct fake *f, struct fake_script script, const char *format,
        char *answer, size_t answer_size) {
        struct sockaddr_in a = {
                .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = 0};
        socklen_t n = sizeof(a);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const char *hole = strstr(format, "%s");

        memset(f, 0, sizeof(*f));
        f->script = script;
        f->listener = fd;
        assert_int_equal(bind(fd, (const struct sockaddr *)&a, sizeof(a)), 0);
        assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
        snprintf(f->name, sizeof(f->name), "127.0.0.1:%u", ntohs(a.sin_port));
        snprintf(f->uri, sizeof(f->uri), "redis://%s", f->name);
        snprintf(answer, answer_size, "%.*s%s%s",
                (int)(hole ? hole - format : (long)strlen(format)), format, hole ? f->name : "",
                hole ? hole + 2 : "");
        f->script.answer = answer;
        assert_int_equal(listen(fd, 16), 0);
        assert_int_equal(pthread_create(&f->thread, NULL, fake_run, f), 0);
}

/* The client has closed its connections before. */
static inline void fake_stop(struct fake *f) {
        char path[80];

        (void)shutdown(f->listener, SHUT_RDWR);
        pthread_join(f->thread, NULL);
        close(f->listener);
        for (unsigned i = 0; i < atomic_load(&f->n_links); i++)
                pthread_join(f->links[i], NULL);
        if (f->folder[0]) {
                snprintf(path, sizeof(path), "%s/s", f->folder);
                unlink(path);
                rmdir(f->folder);
        }
}
