/* SPDX-License-Identifier: MIT */
/* A daemon that says anything at all to libconfab, which has one request of every verb in flight:
 * each of them ends exactly once. */
#include "client/confab.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads all that an event points to. */
static size_t sum(const void *p, size_t n) {
        const uint8_t *bytes = p;
        size_t s = 0;

        for (size_t i = 0; i < n; i++)
                s += bytes[i];
        return s;
}

static size_t sum_stats(const struct confab_stats *stats) {
        size_t s = sum(stats->version, strlen(stats->version));

        for (size_t i = 0; i < stats->n_histograms; i++) {
                const struct confab_histogram *h = &stats->histograms[i];

                s += sum(h->name, strlen(h->name)) + (confab_histogram_quantile(h, 0.9) > 5);
                s += sum(h->bounds_usec, h->n_bounds * sizeof(*h->bounds_usec));
                s += sum(h->buckets, (h->n_bounds + 1) * sizeof(*h->buckets));
        }
        s += sum(stats->rates, stats->n_rates * sizeof(*stats->rates));
        s += sum(stats->own_rates, stats->n_own_rates * sizeof(*stats->own_rates));
        for (size_t i = 0; i < stats->n_users; i++)
                s += stats->users[i].tenant ? strlen(stats->users[i].tenant) : 1;
        return s + (stats->own && stats->own->tenant ? strlen(stats->own->tenant) : 0);
}

static size_t look(const struct confab_event *ev) {
        size_t s = 0;

        if (ev->kind == CONFAB_EVENT_DELTA) {
                s += sum(ev->delta->text, ev->delta->text_size + 1);
                for (size_t i = 0; i < ev->delta->n_tokens; i++) {
                        const struct confab_token *token = &ev->delta->tokens[i];

                        s += sum(token->text.data, token->text.size);
                        for (size_t k = 0; k < token->n_top; k++)
                                s += sum(token->top[k].text.data, token->top[k].text.size);
                }
        } else if (ev->kind == CONFAB_EVENT_CONVERSATIONS) {
                for (size_t i = 0; i < ev->conversations->n_items; i++)
                        s += sum(ev->conversations->items[i].sampling.biases,
                                ev->conversations->items[i].sampling.n_biases *
                                        sizeof(struct confab_bias));
        } else if (ev->kind == CONFAB_EVENT_CONVERSATION) {
                for (size_t i = 0; i < ev->conversation->n_turn_list; i++)
                        s += sum(ev->conversation->turns[i].text.data,
                                ev->conversation->turns[i].text.size);
                s += sum(ev->conversation->tokens, 4 * ev->conversation->n_token_list);
        } else if (ev->kind == CONFAB_EVENT_TOKENS) {
                for (size_t i = 0; i < ev->tokens->n_pieces; i++)
                        s += sum(ev->tokens->pieces[i].data, ev->tokens->pieces[i].size);
        } else if (ev->kind == CONFAB_EVENT_EXPORTED) {
                s += fcntl(ev->exported->fd, F_GETFD) >= 0;
        } else if (ev->kind == CONFAB_EVENT_NOTICE) {
                s += sum(ev->notice->cursor, strlen(ev->notice->cursor)) + ev->notice->conversation;
                s += sum(confab_notice_name(ev->notice->kind), 1);
        } else if (ev->kind == CONFAB_EVENT_QUOTAS) {
                for (size_t i = 0; i < ev->quotas->n_items; i++)
                        s += sum(ev->quotas->items[i].name, strlen(ev->quotas->items[i].name)) +
                             sum(ev->quotas->items[i].unit, strlen(ev->quotas->items[i].unit));
        } else if (ev->kind == CONFAB_EVENT_STATS) {
                for (size_t i = 0; i < ev->stats->n_stats; i++)
                        s += sum(ev->stats->stats[i].name, 1);
                s += sum_stats(ev->stats);
        }
        return s;
}

static volatile size_t sink;

static void see(void *userdata, const struct confab_event *event) {
        int *n_final = userdata;

        if (*n_final)
                abort();
        *n_final = event->final;
        sink += look(event);
}

/* The input, with a descriptor wherever a byte says so. */
static void send_pieces(int socket, const uint8_t *data, size_t size, int memory) {
        union {
                struct cmsghdr align;
                char bytes[CMSG_SPACE(sizeof(int))];
        } control = {.bytes = {0}};

        for (size_t at = 0, n; at < size; at += n) {
                char piece[257];
                struct iovec iov = {.iov_base = piece};
                struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
                struct cmsghdr *c;

                n = size - at < sizeof(piece) ? size - at : sizeof(piece);
                for (size_t i = 1; i < n; i++)
                        if ((data[at + i] & 0x7f) == 0x72) /* of Exported */
                                n = i;
                memcpy(piece, data + at, n);
                iov.iov_len = n;
                if ((data[at] & 0x7f) != 0) {
                        m.msg_control = &control;
                        m.msg_controllen = sizeof(control.bytes);
                        c = CMSG_FIRSTHDR(&m);
                        c->cmsg_level = SOL_SOCKET;
                        c->cmsg_type = SCM_RIGHTS;
                        c->cmsg_len = CMSG_LEN(sizeof(int));
                        memcpy(CMSG_DATA(c), &memory, sizeof(int));
                }
                /* Too much for the socket, or for what it may carry: a shorter input. */
                if (sendmsg(socket, &m, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)n)
                        return;
        }
}

/* There are numbers without a verb. */
static bool is_verb(enum confab_verb v) {
        return v <= CONFAB_CARRY || v >= CONFAB_WATCH;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        int sv[2], n_final[CONFAB_CHECK + 1] = {0};
        static int memory = -1;
        struct confab *c = NULL;

        if (size > 100000) /* more than a socket holds */
                return 0;
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, sv) < 0)
                abort();
        if (confab_new_from_fd(&c, sv[0], NULL) < 0)
                abort();
        if (memory < 0)
                memory = memfd_create("fuzz", MFD_CLOEXEC);
        for (enum confab_verb v = CONFAB_OPEN; v <= CONFAB_CHECK; v++) {
                struct confab_request r = CONFAB_REQUEST_INIT;

                if (!is_verb(v))
                        continue;
                r.verb = v;
                r.conversation = "c";
                r.has_fd = r.has_uid = true;
                r.fd = memory;
                if (confab_submit(c, &r, see, &n_final[v], NULL, NULL) < 0)
                        abort();
        }
        /* the greeting, so that the input need not begin with one */
        if (write(sv[1], "\x06\x08\x01\x12\x02\x08\x01", 7) != 7)
                abort();
        send_pieces(sv[1], data, size, memory);
        close(sv[1]);
        while (confab_wait(c, 0, NULL) == 0)
                ;
        for (enum confab_verb v = CONFAB_OPEN; v <= CONFAB_CHECK; v++)
                if (is_verb(v) && !n_final[v])
                        abort();
        confab_free(c);
        return 0;
}
