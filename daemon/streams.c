/* SPDX-License-Identifier: MIT */
#include "daemon/streams.h"
#include "base/util.h"
#include "daemon/closer.h"
#include "service/loop.h"
#include "daemon/reply.h"
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

enum stream_kind { STREAM_EXPORT, STREAM_UPLOAD, STREAM_IMPORT };

struct stream {
        enum stream_kind kind;
        struct list link; /* in peer->streams */
        struct list all;  /* in daemon->streams */
        struct daemon *daemon;
        struct peer *peer; /* NULL: gone, and a request is in the engine */
        uint64_t id;       /* the peer's */
        uint64_t owner;    /* for whom requests are made */
        uint64_t handle;   /* of the request in the engine; 0: none */
        struct engine_file file;
        uint64_t sent;            /* export: bytes */
        uint32_t n_memory_tokens; /* export */
        char *name;               /* upload: or NULL */
        request_fn *answer;       /* upload */
        bool last;                /* upload: it is complete */
        struct event *timer;      /* upload */
};

int streams_admit(const struct peer *p, size_t n, struct err *e) {
        if (p->n_streams + n >= STREAMS_PER_PEER)
                return err_set(e, ERR_LIMIT,
                        "%zu exports and imports of this connection are in the stream, the limit "
                        "is %d; wait for some to end",
                        p->n_streams + n, STREAMS_PER_PEER);
        if (p->user->n_streams + n >= STREAMS_PER_USER)
                return err_set(e, ERR_LIMIT,
                        "%zu exports and imports of this user are in the stream, the limit is %d; "
                        "wait for some to end",
                        p->user->n_streams + n, STREAMS_PER_USER);
        return 0;
}

struct stream *streams_find(const struct peer *p, uint64_t id) {
        struct list *it;

        list_for_each (it, &p->streams) {
                struct stream *s = list_entry(it, struct stream, link);

                if (s->id == id)
                        return s;
        }
        return NULL;
}

static struct stream *stream_new(struct peer *p, uint64_t id, enum stream_kind kind) {
        struct stream *s = calloc(1, sizeof(*s));

        if (!s)
                return NULL;
        s->kind = kind;
        s->daemon = p->daemon;
        s->peer = p;
        s->id = id;
        s->owner = p->owner;
        s->file = ENGINE_FILE_NULL;
        list_append(&p->streams, &s->link);
        list_append(&p->daemon->streams, &s->all);
        p->n_streams++;
        p->user->n_streams++;
        return s;
}

/* The peer no longer knows of the stream. */
static void leave_peer(struct stream *s) {
        if (!s->peer)
                return;
        list_unlink(&s->link);
        s->peer->n_streams--;
        s->peer->user->n_streams--;
        s->peer = NULL;
        s->timer = loop_event_free(s->timer);
}

/* No request is in the engine. */
static void stream_free(struct stream *s) {
        int fd = s->file.fd;

        leave_peer(s);
        if (s->daemon->engine)
                fd = engine_file_end(s->daemon->engine, &s->file);
        if (fd >= 0)
                closer_close(fd);
        list_unlink(&s->all);
        free(s->name);
        free(s);
}

/* The stream is over for the peer. */
static void stream_end(struct stream *s) {
        leave_peer(s);
        if (s->handle == 0)
                stream_free(s);
}

void stream_fail(struct stream *s, const struct err *e) {
        struct peer *p = s->peer;
        uint64_t id = s->id;

        stream_end(s);
        reply_error(p, id, e);
}

void stream_cancel(struct stream *s) {
        struct err e;

        if (s->kind == STREAM_IMPORT) {
                engine_cancel(s->daemon->engine, s->handle);
                return;
        }
        err_set(&e, ERR_CANCELLED, "cancelled");
        stream_fail(s, &e);
}

/* A request of the daemon's own for the stream. */
static int submit(struct stream *s, struct engine_request *r, request_fn *on_event, struct err *e) {
        struct request asked = {.on_event = on_event, .arg = s};
        int k;

        r->at_turn = r->at_position = r->max_tokens = ENGINE_UNSET;
        r->owner = s->owner;
        if (s->peer) {
                r->has_quotas = true;
                r->quotas = s->peer->user->limits.quotas;
        }
        k = requests_submit(&s->daemon->requests, &asked, r, e);
        if (k == 0)
                s->handle = r->handle;
        return k;
}

/* ---- export ---- */

static void read_more(struct stream *s);

static bool is_open(const struct peer *p) {
        return p->conn.state == CONN_OPEN;
}

/* In as many messages as the peer's max_frame makes necessary. */
static void send_bytes(struct stream *s, const uint8_t *data, size_t n) {
        size_t most = MIN((size_t)s->peer->max_event - REPLY_CHUNK_MORE, (size_t)STREAM_MAX_CHUNK);

        for (size_t at = 0; at < n && is_open(s->peer); at += most)
                reply_chunk(s->peer, s->id, data + at, MIN(n - at, most));
        s->sent += n;
}

static void on_bytes(struct request *r, struct engine_event *ev) {
        struct stream *s = r->arg;

        s->handle = 0;
        if (!s->peer || !is_open(s->peer)) {
                stream_free(s);
        } else if (ev->kind == ENGINE_ERROR) {
                stream_fail(s, &ev->err);
        } else {
                send_bytes(s, ev->bytes.data, ev->bytes.n);
                read_more(s);
        }
}

/* Go on with an export that waits, if the peer has read enough. May free it. */
static void read_more(struct stream *s) {
        struct engine_request r = {.verb = ENGINE_READ_FILE,
                .fd = -1,
                .file = &s->file,
                .offset = s->sent,
                .n_bytes = (size_t)MIN((uint64_t)STREAM_PIECE, s->file.size - s->sent)};
        struct peer *p = s->peer;
        struct err e;

        if (s->sent == s->file.size) {
                reply_exported(p, s->id, s->file.size, s->n_memory_tokens, -1);
                stream_free(s);
        } else if (conn_pending(&p->conn) < STREAM_PIECE && submit(s, &r, on_bytes, &e) < 0) {
                stream_fail(s, &e);
        }
}

void streams_export(struct peer *p, uint64_t id, int fd, uint64_t size, uint32_t n_memory_tokens) {
        struct stream *s = stream_new(p, id, STREAM_EXPORT);
        struct err e;

        if (!s) {
                closer_close(fd);
                err_set(&e, ERR_NOMEM, "no memory for an export");
                reply_error(p, id, &e);
                return;
        }
        engine_file_begin(p->daemon->engine, &s->file, fd, size);
        s->n_memory_tokens = n_memory_tokens;
        read_more(s);
}

void streams_cancel_of(struct daemon *d, uint32_t uid, const char *tenant) {
        struct list *it, *tmp;

        list_for_each_safe (it, tmp, &d->streams) {
                struct stream *s = list_entry(it, struct stream, all);

                if (s->peer && owner_uid(s->owner) == uid &&
                        (!tenant || (s->peer->tenant && strcmp(s->peer->tenant, tenant) == 0)))
                        stream_cancel(s);
        }
}

void streams_go_on(struct peer *p) {
        struct list *it, *tmp;

        list_for_each_safe (it, tmp, &p->streams) {
                struct stream *s = list_entry(it, struct stream, link);

                if (s->kind == STREAM_EXPORT && s->handle == 0 && is_open(p))
                        read_more(s);
        }
}

/* ---- upload and import ---- */

static void on_stall(evutil_socket_t fd, short what, void *arg);

/* Wait for the next chunk. */
static int watch(struct stream *s, struct err *e) {
        uint64_t usec = s->daemon->limits.frame_usec;
        struct timeval t = {
                .tv_sec = (time_t)(usec / 1000000), .tv_usec = (suseconds_t)(usec % 1000000)};

        if (!s->timer)
                s->timer = loop_event_new(s->daemon->base, -1, 0, on_stall, s);
        if (!s->timer || event_add(s->timer, &t) < 0)
                return err_set(e, ERR_NOMEM, "no memory to wait for an upload");
        return 0;
}

static void on_stall(evutil_socket_t fd, short what, void *arg) {
        struct stream *s = arg;
        struct err e;

        if (s->peer->conn.blocked && watch(s, &e) == 0)
                return;
        err_set(&e, ERR_STATE, "nothing of the upload has come within frame-timeout");
        stream_fail(s, &e);
}

int streams_upload(struct peer *p, uint64_t id, uint64_t owner, const char *name,
        request_fn *answer, struct err *e) {
        struct stream *s;
        char *copy = NULL;
        int r = streams_admit(p, 0, e);

        if (r < 0)
                return r;
        if (name && !(copy = strdup(name)))
                return err_set(e, ERR_NOMEM, "no memory for an upload");
        s = stream_new(p, id, STREAM_UPLOAD);
        if (!s) {
                free(copy);
                return err_set(e, ERR_NOMEM, "no memory for an upload");
        }
        s->owner = owner;
        s->name = copy;
        s->answer = answer;
        r = watch(s, e);
        if (r < 0)
                stream_end(s);
        return r;
}

static void on_imported(struct request *r, struct engine_event *ev) {
        struct stream *s = r->arg;
        struct request as = {.id = s->id, .peer = s->peer, .verb = ENGINE_IMPORT};

        if (s->peer)
                s->answer(&as, ev);
        if (ev->final)
                stream_free(s);
}

static int begin_import(struct stream *s, struct err *e) {
        struct engine_request r = {
                .verb = ENGINE_IMPORT, .fd = s->file.fd, .own_file = true, .name = s->name};
        int k;

        if (s->file.size == 0)
                return err_set(e, ERR_FORMAT, "this is no export file: it is empty");
        k = submit(s, &r, on_imported, e);
        if (k == 0)
                s->kind = STREAM_IMPORT;
        return k;
}

static void on_written(struct request *r, struct engine_event *ev) {
        struct stream *s = r->arg;
        struct peer *p = s->peer;
        struct err e = ev->err;
        int k;

        s->handle = 0;
        if (!p) {
                stream_free(s);
                return;
        }
        k = ev->kind == ENGINE_ERROR ? -(int)e.code : s->last ? begin_import(s, &e) : watch(s, &e);
        if (k < 0)
                stream_fail(s, &e);
        conn_let_go(&p->conn); /* may hand out the next chunk at once */
}

static int write_chunk(struct stream *s, const void *data, size_t n, bool last, struct err *e) {
        struct engine_request r = {.verb = ENGINE_WRITE_FILE,
                .fd = -1,
                .file = &s->file,
                .text = data,
                .text_size = n};
        int k;

        if (n > STREAM_MAX_CHUNK)
                return err_set(
                        e, ERR_INVALID, "a chunk of %zu bytes, more than %u", n, STREAM_MAX_CHUNK);
        if (n == 0)
                return last ? begin_import(s, e) : 0;
        k = submit(s, &r, on_written, e);
        if (k < 0)
                return k;
        s->last = last;
        event_del(s->timer);
        conn_hold(&s->peer->conn);
        return 0;
}

void streams_chunk(struct peer *p, uint64_t id, const void *data, size_t n, bool last) {
        struct stream *s = streams_find(p, id);
        struct err e;

        if (s && s->kind == STREAM_UPLOAD && write_chunk(s, data, n, last, &e) < 0)
                stream_fail(s, &e);
}

/* ---- the end ---- */

void streams_leave(struct peer *p) {
        while (!list_empty(&p->streams)) {
                struct stream *s = list_entry(p->streams.next, struct stream, link);

                if (s->kind == STREAM_IMPORT)
                        engine_cancel(s->daemon->engine, s->handle);
                stream_end(s);
        }
}

void streams_free_all(struct daemon *d) {
        while (!list_empty(&d->streams))
                stream_free(list_entry(d->streams.next, struct stream, all));
}
