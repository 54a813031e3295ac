/* SPDX-License-Identifier: MIT */
/* See follow-client.h. */
#include "client/gateway/follow-client.h"
#include "base/util.h"
#include "client/gateway/http-chunk.h"
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>

#define PIECE (64u << 10)
#define READ_SIZE (16u << 10)
#define HEAD_MAX (64u << 10)
#define INTERIM_MAX 8

enum state { CLIENT_CONNECT, CLIENT_HEAD, CLIENT_BODY, CLIENT_DONE };

struct follow_client {
        struct follow_net *net;
        struct bufferevent *bev;
        struct event *timer;
        const struct follow_client_ops *ops;
        void *userdata;
        struct follow_address address;
        struct follow_times times;
        enum state state;
        bool is_head, held;
        bool asked;   /* all of the request is with the bufferevent */
        bool refused; /* no more of it is taken */
        bool ended;   /* the other side sends no more; what it sent may not be read yet */
        bool cut;     /* ... and not as a stream ends */
        bool busy;    /* a callback runs */
        bool doomed;
        struct buf out; /* the head of the request, until it is sent */
        const char *body;
        size_t body_size, body_at;
        struct buf in; /* a head that has begun */
        struct http_scan scan;
        unsigned n_interim;
        enum follow_framing framing;
        uint64_t left; /* FOLLOW_SIZED */
        struct http_chunks chunks;
};

static void destroy(struct follow_client *client) {
        if (client->bev)
                bufferevent_free(client->bev);
        if (client->timer)
                event_free(client->timer);
        buf_deinit(&client->out);
        buf_deinit(&client->in);
        free(client);
}

struct follow_client *follow_client_free(struct follow_client *client) {
        if (!client)
                return NULL;
        client->state = CLIENT_DONE;
        client->doomed = true;
        if (!client->busy)
                destroy(client);
        return NULL;
}

/* The answer has ended. Nothing is called behind it. */
static void end(struct follow_client *client, int r, const struct err *e) {
        if (client->state == CLIENT_DONE)
                return;
        client->state = CLIENT_DONE;
        bufferevent_disable(client->bev, EV_READ | EV_WRITE);
        event_del(client->timer);
        client->ops->ended(client->userdata, r, client->asked, e);
}

static void fail(struct follow_client *client, enum err_code code, const char *what) {
        struct err e;
        int r = err_set(&e, code, "%.100s: %s", client->address.authority, what);

        end(client, r, &e);
}

static void set_timer(struct follow_client *client, uint64_t usec) {
        struct timeval t = {
                .tv_sec = (time_t)(usec / 1000000), .tv_usec = (suseconds_t)(usec % 1000000)};

        if (event_add(client->timer, &t) < 0)
                fail(client, ERR_NOMEM, "no memory for a timer");
}

/* ---- the request ---- */

/* The next piece of the body. */
static void send_more(struct follow_client *client) {
        size_t n = MIN(client->body_size - client->body_at, (size_t)PIECE);

        if (client->asked || client->refused)
                return;
        if (n > 0 && bufferevent_write(client->bev, client->body + client->body_at, n) < 0) {
                fail(client, ERR_NOMEM, "no memory for the request");
                return;
        }
        client->body_at += n;
        client->asked = client->body_at == client->body_size;
}

static void begin(struct follow_client *client) {
        struct timeval t = {.tv_sec = (time_t)(client->times.send_usec / 1000000),
                .tv_usec = (suseconds_t)(client->times.send_usec % 1000000)};

        follow_net_tune(client->bev);
        event_del(client->timer);
        client->state = CLIENT_HEAD;
        bufferevent_set_timeouts(client->bev, NULL, &t);
        if (bufferevent_write(client->bev, client->out.data, client->out.size) < 0) {
                fail(client, ERR_NOMEM, "no memory for the request");
                return;
        }
        buf_deinit(&client->out);
        send_more(client);
}

/* ---- the answer ---- */

static void begin_body(struct follow_client *client, const struct follow_head *head) {
        client->state = CLIENT_BODY;
        client->framing = head->framing;
        client->left = head->length;
        client->chunks = HTTP_CHUNKS_NULL;
        /* The rest of the request is not wanted; its body is not ours any more. */
        client->body_size = client->body_at = 0;
        client->refused = true;
        event_del(client->timer);
        client->ops->head(client->userdata, head);
        if (client->state == CLIENT_BODY &&
                (head->framing == FOLLOW_NO_BODY ||
                        (head->framing == FOLLOW_SIZED && head->length == 0)))
                end(client, 0, NULL);
}

/* A whole head is in @in. */
static void take_head(struct follow_client *client, size_t size) {
        struct follow_head head = FOLLOW_HEAD_NULL;
        struct err e;
        int r;

        r = follow_head_parse(&head, (const char *)client->in.data, size, client->is_head, &e);
        buf_consume(&client->in, size);
        client->scan = HTTP_SCAN_HEAD;
        if (r < 0)
                end(client, r, &e);
        else if (head.status >= 200)
                begin_body(client, &head);
        else if (head.status == 101 || ++client->n_interim > INTERIM_MAX)
                fail(client, ERR_FORMAT, "the answer does not come to its point");
        else if (client->in.size == 0)
                event_del(client->timer);
        follow_head_deinit(&head);
}

static void take_chunks(struct follow_client *client, const char *data, size_t size) {
        const char *piece;
        unsigned status = 0;
        size_t n;
        struct err e;
        int r = 1;

        while (client->state == CLIENT_BODY && r == 1) {
                r = http_chunks_next(&client->chunks, &data, &size, &piece, &n, &status, &e);
                if (r == 1)
                        client->ops->piece(client->userdata, piece, n);
                else if (r < 0)
                        end(client, r, &e);
                else if (r == 2)
                        end(client, 0, NULL);
        }
}

static void take_body(struct follow_client *client, const char *data, size_t size) {
        if (client->framing == FOLLOW_CHUNKED) {
                take_chunks(client, data, size);
                return;
        }
        if (client->framing == FOLLOW_SIZED) {
                size = (size_t)MIN((uint64_t)size, client->left);
                client->left -= size;
        }
        if (size > 0)
                client->ops->piece(client->userdata, data, size);
        if (client->state == CLIENT_BODY && client->framing == FOLLOW_SIZED && client->left == 0)
                end(client, 0, NULL);
}

/* Heads that come before the answer's own are skipped; what is behind that is body. */
static void take_heads(struct follow_client *client, const char *data, size_t size) {
        unsigned status = 0;
        size_t end_at;
        struct err e;
        int r;

        if (client->in.size == 0)
                set_timer(client, client->times.head_usec);
        if (client->state == CLIENT_HEAD && buf_append(&client->in, data, size) < 0)
                fail(client, ERR_NOMEM, "no memory for the answer");
        while (client->state == CLIENT_HEAD) {
                r = http_scan_head(&client->scan, (const char *)client->in.data, client->in.size,
                        &end_at, &status, &e);
                if (r < 0)
                        fail(client, ERR_FORMAT, e.msg);
                else if (client->scan.at > HEAD_MAX)
                        fail(client, ERR_FORMAT, "the head of the answer is too long");
                else if (r > 0)
                        take_head(client, end_at);
                else
                        return;
        }
        if (client->state == CLIENT_BODY && client->in.size > 0) {
                struct buf rest = client->in;

                client->in = BUF_NULL;
                take_body(client, (const char *)rest.data, rest.size);
                buf_deinit(&rest);
        }
}

static void take(struct follow_client *client, const char *data, size_t size) {
        if (client->state == CLIENT_BODY)
                take_body(client, data, size);
        else if (client->state == CLIENT_HEAD)
                take_heads(client, data, size);
}

/* All was read. */
static void take_end(struct follow_client *client) {
        if (client->state == CLIENT_BODY && client->framing == FOLLOW_TO_END && !client->cut)
                end(client, 0, NULL);
        else
                fail(client, ERR_UNAVAILABLE,
                        client->state == CLIENT_BODY ? "the answer was cut off"
                                                     : "the connection ended without an answer");
}

static void take_all(struct follow_client *client) {
        char data[READ_SIZE];

        while (!client->held && client->state != CLIENT_DONE) {
                size_t n = bufferevent_read(client->bev, data, sizeof(data));

                if (n == 0)
                        break;
                take(client, data, n);
        }
        if (client->ended && !client->held && client->state != CLIENT_DONE)
                take_end(client);
}

void follow_client_hold(struct follow_client *client, bool held) {
        if (client->held == held || client->state == CLIENT_DONE)
                return;
        client->held = held;
        if (held)
                bufferevent_disable(client->bev, EV_READ);
        else if (!client->ended && bufferevent_enable(client->bev, EV_READ) < 0)
                client->ended = client->cut = true;
        if (!held) /* what is there, from the loop */
                bufferevent_trigger(client->bev, EV_READ,
                        BEV_TRIG_IGNORE_WATERMARKS | BEV_TRIG_DEFER_CALLBACKS);
}

/* ---- callbacks ---- */

static void leave(struct follow_client *client) {
        client->busy = false;
        if (client->doomed)
                destroy(client);
}

static void on_read(struct bufferevent *bev, void *arg) {
        struct follow_client *client = arg;

        client->busy = true;
        take_all(client);
        leave(client);
}

static void on_written(struct bufferevent *bev, void *arg) {
        struct follow_client *client = arg;

        client->busy = true;
        if (client->state == CLIENT_HEAD)
                send_more(client);
        leave(client);
}

static void explain(struct follow_client *client) {
        struct err e;

        follow_net_explain(client->bev, &client->address, &e);
        end(client, -ERR_UNAVAILABLE, &e);
}

static void on_state(struct bufferevent *bev, short what, void *arg) {
        struct follow_client *client = arg;

        client->busy = true;
        if (client->state == CLIENT_CONNECT && what & BEV_EVENT_CONNECTED) {
                begin(client);
        } else if (client->state == CLIENT_CONNECT) {
                explain(client);
        } else if (what & BEV_EVENT_TIMEOUT) {
                fail(client, ERR_UNAVAILABLE, "nobody takes the request");
        } else if (what & BEV_EVENT_WRITING && !client->address.tls) {
                /* An answer may say why, and the failure has ended reading, too. */
                client->refused = true;
                bufferevent_disable(client->bev, EV_WRITE);
                if (!client->held && bufferevent_enable(client->bev, EV_READ) < 0)
                        fail(client, ERR_NOMEM, "no memory for the answer");
        } else {
                client->ended = true;
                client->cut = !(what & BEV_EVENT_EOF);
                take_all(client);
        }
        leave(client);
}

static void on_timer(evutil_socket_t fd, short what, void *arg) {
        struct follow_client *client = arg;

        client->busy = true;
        fail(client, ERR_UNAVAILABLE,
                client->state == CLIENT_CONNECT ? "there is no connection in time"
                                                : "the head of the answer did not come in time");
        leave(client);
}

/* ---- beginning ---- */

static int prepare(struct follow_client *client, const struct buf *head, struct err *e) {
        int r;

        client->timer = evtimer_new(follow_net_base(client->net), on_timer, client);
        if (!client->timer || buf_append(&client->out, head->data, head->size) < 0)
                return err_no_memory(e);
        r = follow_net_make(&client->bev, client->net, &client->address, e);
        if (r < 0)
                return r;
        bufferevent_setcb(client->bev, on_read, on_written, on_state, client);
        bufferevent_setwatermark(client->bev, EV_READ, 0, PIECE);
        if (bufferevent_enable(client->bev, EV_READ | EV_WRITE) < 0)
                return err_no_memory(e);
        return 0;
}

int follow_client_new(struct follow_client **ret, struct follow_net *net,
        const struct follow_request *request, const struct follow_client_ops *ops, void *userdata,
        struct err *e) {
        struct follow_client *client = calloc(1, sizeof(*client));
        struct timeval t = {.tv_sec = (time_t)(request->times.connect_usec / 1000000),
                .tv_usec = (suseconds_t)(request->times.connect_usec % 1000000)};
        int r;

        if (!client)
                return err_no_memory(e);
        client->net = net;
        client->ops = ops;
        client->userdata = userdata;
        client->address = request->address;
        client->times = request->times;
        client->is_head = request->is_head;
        client->body = request->body;
        client->body_size = request->body_size;
        client->scan = HTTP_SCAN_HEAD;
        r = prepare(client, request->head, e);
        if (r == 0 && event_add(client->timer, &t) < 0)
                r = err_no_memory(e);
        if (r == 0)
                r = follow_net_start(net, client->bev, &client->address, e);
        if (r < 0) {
                destroy(client);
                return r;
        }
        *ret = client;
        return 0;
}
