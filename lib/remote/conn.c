/* SPDX-License-Identifier: MIT */
/*
 * Connections: making them, bytes in both directions, and answers.
 *
 * 1. Sockets do not block. Whoever waits does so in poll() with a deadline, so neither a server that is stopped nor one that sends a
 *    byte now and then holds anybody longer. Only the resolver of names (getaddrinfo()) takes the time it takes.
 * 2. hiredis takes answers apart, but sees no more than REMOTE_CHUNK bytes beyond what it needs for the answer that is wanted. The
 *    length of a value is looked at before the value is: one that is too long costs nothing.
 * 3. A value is not copied out of hiredis's buffer: the caller gets it there, and only then hiredis takes it off
 *    (remote_conn_next()).
 * 4. Everything else that servers may answer is short, and what isn't breaks the protocol: LINE_MAX_SIZE, LIST_MAX_SIZE,
 *    LIST_MAX_ELEMENTS.
 */
#include "base/clock.h"
#include "base/util.h"
#include "remote/remote-private.h"
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#define LINE_MAX_SIZE 4096       /* a status, an error, an integer */
#define LIST_MAX_SIZE (8U << 20) /* the slots of a cluster */
#define LIST_MAX_ELEMENTS 20000  /* of one list among them: there are 16384 slots */
#define HEAD_MAX_SIZE 24         /* "$", a length and the end of the line */
#define HOSTS_MAX 8              /* addresses of one name that are tried */
#define KEEP_SIZE (256U << 10)   /* of a buffer, by a connection that rests */
#define NAP_USEC 5000            /* while a Unix socket's queue is full */
#define TLS_PIECE 16384          /* bytes of a record */

int remote_conn_fail(const struct remote_address *a, struct err *e, const char *why) {
        char name[REMOTE_ADDRESS_TEXT];

        return err_set(e, ERR_UNAVAILABLE, "server %s: %s", remote_address_text(a, name), why);
}

static int system_failure(const struct remote_address *a, struct err *e, int error) {
        char text[128];

        return remote_conn_fail(a, e, strerror_r(error, text, sizeof(text)));
}

int remote_poll(int fd, short events, uint64_t until) {
        struct pollfd p = {.fd = fd, .events = events};

        for (;;) {
                uint64_t now = clock_monotonic_usec(), left = now < until ? until - now : 0;
                int n = poll(&p, 1, (int)MIN((left + 999) / 1000, (uint64_t)60000));

                if (n > 0 || (n < 0 && errno != EINTR))
                        return 0;
                if (left == 0)
                        return -ETIMEDOUT;
        }
}

/* --- answers: what hiredis calls when it has taken one apart --- */

/* hiredis wants an object for each value. */
static char some_object;

static void copy_text(struct remote_reply *reply, const char *text, size_t n) {
        size_t size = MIN(n, sizeof(reply->text) - 1);

        /* It is shown to people. */
        for (size_t i = 0; i < size; i++)
                reply->text[i] = text[i] >= ' ' && text[i] < 0x7f ? text[i] : '?';
        reply->text[size] = '\0';
}

static void *take_string(const redisReadTask *task, char *text, size_t n) {
        struct remote_conn *c = task->privdata;

        if (!task->parent) {
                c->reply.type = task->type;
                copy_text(&c->reply, text, n);
        } else if (c->slots) {
                remote_slots_text(c->slots, task, text, n);
        }
        return &some_object;
}

static void *take_integer(const redisReadTask *task, long long v) {
        struct remote_conn *c = task->privdata;

        if (!task->parent) {
                c->reply.type = REDIS_REPLY_INTEGER;
                c->reply.integer = v;
        } else if (c->slots) {
                remote_slots_integer(c->slots, task, v);
        }
        return &some_object;
}

static void *take_nil(const redisReadTask *task) {
        struct remote_conn *c = task->privdata;

        if (!task->parent)
                c->reply.type = REDIS_REPLY_NIL;
        else if (c->slots)
                remote_slots_text(c->slots, task, NULL, 0);
        return &some_object;
}

#if HIREDIS_MAJOR >= 1
typedef size_t list_size;
#else
typedef int list_size;
#endif

static void *take_list(const redisReadTask *task, list_size n) {
        struct remote_conn *c = task->privdata;

        if (!c->slots || n > LIST_MAX_ELEMENTS)
                return NULL;
        if (!task->parent)
                c->reply.type = REDIS_REPLY_ARRAY;
        return &some_object;
}

static void free_nothing(void *object) {
        (void)object;
}

static redisReplyObjectFunctions take = {
        .createString = take_string,
        .createArray = take_list,
        .createInteger = take_integer,
        .createNil = take_nil,
        .freeObject = free_nothing,
};

static redisReader *reader_new(struct remote_conn *c) {
        redisReader *reader = redisReaderCreateWithFunctions(&take);

        if (reader) {
                reader->privdata = c;
                reader->maxbuf = 0; /* the buffer stays as large as it was for the value before */
        }
        return reader;
}

static size_t unread(const struct remote_conn *c) {
        return c->reader->len - c->reader->pos;
}

static int broken(const struct remote_conn *c, struct err *e) {
        return remote_conn_fail(&c->address, e, "it does not speak the protocol");
}

/* The line "$SIZE" at the beginning of a value. 1 and its size with *ret_size that of the value, SIZE_MAX where there is none;
 * 0: more is needed; -1: it is broken. */
static int head_of(const char *text, size_t n, size_t *ret_head, size_t *ret_size) {
        const char *end = memchr(text, '\n', MIN(n, (size_t)HEAD_MAX_SIZE));
        size_t size = 0, n_digits;

        if (!end)
                return n < HEAD_MAX_SIZE ? 0 : -1;
        if (end - text < 3 || end[-1] != '\r')
                return -1;
        *ret_head = (size_t)(end - text) + 1;
        n_digits = *ret_head - 3;
        if (n_digits == 2 && memcmp(text + 1, "-1", 2) == 0) {
                *ret_size = SIZE_MAX;
                return 1;
        }
        if (n_digits > 18 || (n_digits > 1 && text[1] == '0'))
                return -1;
        for (size_t i = 1; i <= n_digits; i++) {
                if (text[i] < '0' || text[i] > '9')
                        return -1;
                size = size * 10 + (size_t)(text[i] - '0');
        }
        *ret_size = size;
        return 1;
}

/* A status, an error, an integer, nothing, or a list. */
static int short_reply(struct remote_conn *c, struct err *e) {
        size_t max = c->slots ? LIST_MAX_SIZE : LINE_MAX_SIZE;
        void *object = NULL;

        if (!c->within) {
                char kind = c->reader->buf[c->reader->pos];

                if (!memchr("+-:$*", kind, 5) || (kind == '*' && !c->slots))
                        return broken(c, e);
                c->reply = (struct remote_reply){0};
        }
        if (redisReaderGetReply(c->reader, &object) != REDIS_OK)
                return c->reader->err == REDIS_ERR_OOM ? err_no_memory(e) : broken(c, e);
        c->within = !object;
        if (object) {
                c->n_pending = unread(c);
                return 1;
        }
        return c->n_pending > max ? broken(c, e) : 0;
}

int remote_conn_reply(struct remote_conn *c, struct err *e) {
        size_t head = 0, size = 0;
        const char *text;
        int r;

        if (unread(c) == 0)
                return 0;
        text = c->reader->buf + c->reader->pos;
        if (c->within || text[0] != '$')
                return short_reply(c, e);
        r = head_of(text, unread(c), &head, &size);
        if (r <= 0)
                return r < 0 ? broken(c, e) : 0;
        if (size == SIZE_MAX)
                return short_reply(c, e);
        if (size > c->max_value_size)
                return REMOTE_TOO_LONG;
        if (unread(c) < head + size + 2)
                return 0;
        if (memcmp(text + head + size, "\r\n", 2) != 0)
                return broken(c, e);
        c->reply = (struct remote_reply){
                .type = REDIS_REPLY_STRING, .data = text + head, .size = size};
        c->in_place = true;
        return 1;
}

int remote_conn_next(struct remote_conn *c, struct err *e) {
        void *object = NULL;

        if (!c->in_place)
                return 0;
        c->in_place = false;
        if (redisReaderGetReply(c->reader, &object) != REDIS_OK)
                return c->reader->err == REDIS_ERR_OOM ? err_no_memory(e) : broken(c, e);
        c->n_pending = unread(c);
        return object ? 0 : broken(c, e);
}

/* --- bytes --- */

static ssize_t tls_result(struct remote_conn *c, ssize_t n, const char *why, struct err *e) {
        if (n == REMOTE_TLS_WANTS_READ || n == REMOTE_TLS_WANTS_WRITE)
                return 0;
        if (n == REMOTE_TLS_CLOSED)
                why = "it has closed the connection";
        return n > 0 ? n : remote_conn_fail(&c->address, e, why);
}

/* Short commands share a record. */
static ssize_t tls_send(struct remote_conn *c, const struct iovec *parts, size_t n, struct err *e) {
        char piece[TLS_PIECE];
        const char *why = NULL;
        size_t size = 0;

        for (size_t i = 0; i < n && size < sizeof(piece); i++) {
                size_t part = MIN(parts[i].iov_len, sizeof(piece) - size);

                if (part > 0)
                        memcpy(piece + size, parts[i].iov_base, part);
                size += part;
        }
        return tls_result(c, remote_tls_send(c->tls, piece, size, &why), why, e);
}

ssize_t remote_conn_send(
        struct remote_conn *c, const struct iovec *parts, size_t n, struct err *e) {
        struct msghdr m = {.msg_iovlen = n};
        ssize_t sent;

        if (c->tls)
                return tls_send(c, parts, n, e);
        m.msg_iov = (struct iovec *)(uintptr_t)parts; /* which is only read */
        sent = sendmsg(c->fd, &m, MSG_NOSIGNAL);
        if (sent < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        return sent < 0 ? system_failure(&c->address, e, errno) : sent;
}

ssize_t remote_conn_receive(struct remote_conn *c, void *chunk, struct err *e) {
        const char *why = NULL;
        ssize_t n;

        if (c->tls) {
                n = remote_tls_receive(c->tls, chunk, REMOTE_CHUNK, &why);
                n = tls_result(c, n, why, e);
        } else {
                n = recv(c->fd, chunk, REMOTE_CHUNK, 0);
                if (n < 0 && (errno == EAGAIN || errno == EINTR))
                        return 0;
                if (n < 0)
                        return system_failure(&c->address, e, errno);
                if (n == 0)
                        return remote_conn_fail(&c->address, e, "it has closed the connection");
        }
        if (n <= 0)
                return n;
        if (redisReaderFeed(c->reader, chunk, (size_t)n) != REDIS_OK)
                return err_no_memory(e);
        c->n_pending += (size_t)n;
        c->peak = MAX(c->peak, c->reader->len);
        return n;
}

static int send_all(struct remote_conn *c, const struct iovec *command, uint64_t timeout_usec,
        uint64_t until, struct err *e) {
        struct iovec rest = *command;

        while (rest.iov_len > 0) {
                ssize_t n = remote_conn_send(c, &rest, 1, e);

                if (n < 0)
                        return (int)n;
                rest.iov_base = (char *)rest.iov_base + n;
                rest.iov_len -= (size_t)n;
                if (n == 0 && remote_poll(c->fd, POLLOUT,
                                      MIN(until, clock_monotonic_usec() + timeout_usec)) < 0)
                        return remote_conn_fail(&c->address, e, "it does not answer");
        }
        return 0;
}

int remote_conn_ask(struct remote_conn *c, const struct iovec *command, uint64_t timeout_usec,
        uint64_t until, struct err *e) {
        _cleanup_(freep) char *chunk = malloc(REMOTE_CHUNK);
        int r;

        if (!chunk)
                return err_no_memory(e);
        r = send_all(c, command, timeout_usec, until, e);
        while (r == 0 && (r = remote_conn_reply(c, e)) == 0) {
                ssize_t n = remote_conn_receive(c, chunk, e);

                if (n < 0)
                        return (int)n;
                if ((n == 0 && remote_poll(c->fd, POLLIN,
                                       MIN(until, clock_monotonic_usec() + timeout_usec)) < 0) ||
                        clock_monotonic_usec() >= until)
                        return remote_conn_fail(&c->address, e, "it does not answer");
        }
        if (r == REMOTE_TOO_LONG)
                return broken(c, e);
        return r < 0 ? r : remote_conn_next(c, e);
}

/* --- connecting --- */

/* 0; or an errno. */
static int connect_until(int fd, const struct sockaddr *address, socklen_t n, uint64_t until) {
        int error = 0;
        socklen_t size = sizeof(error);

        while (connect(fd, address, n) < 0) {
                if (errno == EINPROGRESS || errno == EINTR)
                        break;
                /* A Unix socket whose server does not accept. */
                if (errno != EAGAIN)
                        return errno;
                if (clock_monotonic_usec() >= until)
                        return ETIMEDOUT;
                (void)poll(NULL, 0, NAP_USEC / 1000);
        }
        if (remote_poll(fd, POLLOUT, until) < 0)
                return ETIMEDOUT;
        return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 ? errno : error;
}

static int socket_to(const struct sockaddr *address, socklen_t n, uint64_t until, int *ret) {
        _cleanup_(closep) int fd =
                socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        int r, yes = 1;

        if (fd < 0)
                return errno;
        r = connect_until(fd, address, n, until);
        if (r != 0)
                return r;
        if (address->sa_family != AF_UNIX) {
                (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
                (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes));
        }
        *ret = TAKE_FD(fd);
        return 0;
}

static int connect_path(const struct remote_address *a, uint64_t until, int *ret, struct err *e) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int r;

        memcpy(address.sun_path, a->host, MIN(strlen(a->host), sizeof(address.sun_path) - 1));
        r = socket_to((const struct sockaddr *)&address, sizeof(address), until, ret);
        return r == 0 ? 0 : system_failure(a, e, r);
}

static size_t count_hosts(const struct addrinfo *hosts) {
        size_t n = 0;

        for (; hosts && n < HOSTS_MAX; hosts = hosts->ai_next)
                n++;
        return n;
}

static int connect_host(const struct remote_address *a, uint64_t until, int *ret, struct err *e) {
        const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
        struct addrinfo *hosts = NULL, *host;
        char port[8];
        int r, error = 0;

        snprintf(port, sizeof(port), "%u", a->port);
        r = getaddrinfo(a->host, port, &hints, &hosts);
        if (r == EAI_MEMORY)
                return err_no_memory(e);
        if (r != 0)
                return remote_conn_fail(a, e, gai_strerror(r));
        host = hosts;
        for (size_t left = count_hosts(hosts); left > 0; left--, host = host->ai_next) {
                uint64_t now = clock_monotonic_usec();

                /* One that is not heard leaves its share of the time to the others. */
                error = now >= until ? ETIMEDOUT
                                     : socket_to(host->ai_addr, host->ai_addrlen,
                                               now + (until - now) / left, ret);
                if (error == 0)
                        break;
        }
        freeaddrinfo(hosts);
        return error == 0 ? 0 : system_failure(a, e, error);
}

static int start_tls(
        struct remote_conn *c, const struct remote_config *config, uint64_t until, struct err *e) {
        const char *why = NULL;
        char text[160];
        int r = remote_tls_new(&c->tls, config->tls, c->fd, c->address.host, e);

        if (r < 0)
                return r;
        while ((r = remote_tls_handshake(c->tls, &why)) != 1) {
                if (r == REMOTE_TLS_CLOSED)
                        why = "it has hung up";
                if (r != REMOTE_TLS_WANTS_READ && r != REMOTE_TLS_WANTS_WRITE) {
                        snprintf(text, sizeof(text), "TLS: %s", why);
                        return remote_conn_fail(&c->address, e, text);
                }
                if (remote_poll(c->fd, r == REMOTE_TLS_WANTS_READ ? POLLIN : POLLOUT, until) < 0 ||
                        clock_monotonic_usec() >= until)
                        return remote_conn_fail(
                                &c->address, e, "it does not answer (does it speak TLS?)");
        }
        return 0;
}

static int ask_for_ok(struct remote_conn *c, const char *command,
        const struct remote_config *config, uint64_t until, struct err *e) {
        const struct iovec part = {(void *)(uintptr_t)command, strlen(command)};
        int r = remote_conn_ask(c, &part, config->timeout_usec, until, e);

        if (r == 0 && c->reply.type != REDIS_REPLY_STATUS)
                return c->reply.type == REDIS_REPLY_ERROR
                               ? remote_conn_fail(&c->address, e, c->reply.text)
                               : broken(c, e);
        return r;
}

/* Who we are, and which database we mean. */
static int log_in(
        struct remote_conn *c, const struct remote_config *config, uint64_t until, struct err *e) {
        char *command = NULL, number[16];
        int r = 0, n = 0;

        if (config->password && config->user)
                n = asprintf(&command, "*3\r\n$4\r\nAUTH\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n",
                        strlen(config->user), config->user, strlen(config->password),
                        config->password);
        else if (config->password)
                n = asprintf(&command, "*2\r\n$4\r\nAUTH\r\n$%zu\r\n%s\r\n",
                        strlen(config->password), config->password);
        if (n < 0)
                return err_no_memory(e);
        if (command) {
                r = ask_for_ok(c, command, config, until, e);
                explicit_bzero(command, (size_t)n);
                free(command);
        }
        if (r == 0 && config->db > 0) {
                char text[64];

                n = snprintf(number, sizeof(number), "%u", config->db);
                snprintf(text, sizeof(text), "*2\r\n$6\r\nSELECT\r\n$%d\r\n%s\r\n", n, number);
                r = ask_for_ok(c, text, config, until, e);
        }
        return r;
}

int remote_conn_open(struct remote_conn **ret, const struct remote_config *config,
        const struct remote_address *address, uint64_t until, struct err *e) {
        _cleanup_(remote_conn_freep) struct remote_conn *c = calloc(1, sizeof(*c));
        uint64_t soon = MIN(until, clock_monotonic_usec() + config->timeout_usec);
        int r;

        if (!c)
                return err_no_memory(e);
        c->fd = -1;
        c->address = *address;
        c->max_value_size = config->max_value_size;
        c->reader = reader_new(c);
        if (!c->reader)
                return err_no_memory(e);
        r = address->port == 0 ? connect_path(address, soon, &c->fd, e)
                               : connect_host(address, soon, &c->fd, e);
        if (r == 0 && config->tls)
                r = start_tls(c, config, soon, e);
        if (r == 0)
                r = log_in(c, config, until, e);
        if (r == 0)
                *ret = TAKE_PTR(c);
        return r;
}

struct remote_conn *remote_conn_free(struct remote_conn *c) {
        if (!c)
                return NULL;
        remote_tls_free(c->tls);
        if (c->fd >= 0)
                close(c->fd);
        if (c->reader)
                redisReaderFree(c->reader);
        free(c);
        return NULL;
}

bool remote_conn_lives(const struct remote_conn *c) {
        char byte;
        ssize_t n = recv(c->fd, &byte, 1, MSG_PEEK);

        /* With TLS there may be bytes that are no answer: tickets of the session. */
        return n < 0 ? errno == EAGAIN || errno == EINTR : n > 0 && c->tls;
}

bool remote_conn_rest(struct remote_conn *c) {
        if (c->within || c->in_place || unread(c) > 0)
                return false;
        if (c->peak > KEEP_SIZE) {
                redisReaderFree(c->reader);
                c->reader = reader_new(c);
                c->peak = 0;
        }
        return c->reader;
}
