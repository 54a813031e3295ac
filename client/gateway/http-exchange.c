/* SPDX-License-Identifier: MIT */
/*
 * The request of an exchange: its body, and what handlers may ask of it.
 *
 * A body's memory grows with what has come, not with what was announced, and is charged to the server before it is
 * allocated.
 */
#include "base/clock.h"
#include "base/util.h"
#include "client/gateway/http-private.h"
#include "service/uid.h"

#define BODY_MIN 4096

struct http_exchange *exchange_new(struct http_conn *conn, struct http_head *head) {
        struct http_exchange *exchange = calloc(1, sizeof(*exchange));

        if (!exchange)
                return NULL;
        exchange->conn = conn;
        exchange->began_usec = clock_monotonic_usec();
        exchange->head = *head;
        *head = HTTP_HEAD_NULL;
        exchange->chunks = HTTP_CHUNKS_NULL;
        return exchange;
}

void exchange_free_body(struct http_exchange *exchange) {
        free(exchange->body);
        share_give(&exchange->conn->user->bodies, exchange->body_capacity);
        exchange->body = NULL;
        exchange->body_size = exchange->body_capacity = 0;
}

void http_drop_body(struct http_exchange *exchange) {
        if (!exchange->body_kept)
                exchange_free_body(exchange);
}

void http_keep_body(struct http_exchange *exchange) {
        exchange->body_kept = true;
}

bool http_has_body(const struct http_exchange *exchange) {
        return !exchange->sink && exchange->body_size == exchange->bytes_in;
}

struct http_exchange *exchange_free(struct http_exchange *exchange) {
        if (!exchange)
                return NULL;
        exchange_free_body(exchange);
        while (exchange->memory) {
                struct http_memory *memory = exchange->memory;

                exchange->memory = memory->next;
                free(memory);
        }
        http_head_deinit(&exchange->head);
        buf_deinit(&exchange->fields);
        free(exchange);
        return NULL;
}

void exchange_tell(const struct http_exchange *exchange) {
        const struct http_server *server = exchange->conn->server;
        struct http_summary summary = {.status = exchange->status,
                .complete = exchange->status > 0 && !exchange->aborted &&
                            exchange->conn->state != CONN_DEAD,
                .bytes_in = exchange->bytes_in,
                .bytes_out = exchange->bytes_out};

        if (!server->handlers.ended)
                return;
        summary.usec = clock_monotonic_usec() - exchange->began_usec;
        if (exchange->status > 0)
                summary.first_usec = exchange->answered_usec - exchange->began_usec;
        server->handlers.ended(server->userdata, exchange, &summary);
}

/* Room for @size bytes of body and a NUL. */
static int reserve(struct http_exchange *exchange, size_t size, struct err *e) {
        struct share *share = &exchange->conn->user->bodies;
        size_t old = exchange->body_capacity, capacity = MAX(2 * old, (size_t)BODY_MIN);
        char *body;

        if (size < old)
                return 0;
        if (!exchange->head.chunked)
                capacity = MIN(capacity, (size_t)exchange->head.length + 1);
        capacity = MAX(capacity, size + 1);
        if (share_take(share, capacity - old) != 0)
                return err_set(e, ERR_LIMIT, "other requests' bodies take all memory there is");
        body = realloc(exchange->body, capacity);
        if (!body) {
                share_give(share, capacity - old);
                return err_no_memory(e);
        }
        exchange->body = body;
        exchange->body_capacity = capacity;
        return 0;
}

uint64_t exchange_max_body(const struct http_exchange *exchange) {
        return exchange->sink ? exchange->sink_max : exchange->conn->server->limits.body_size;
}

uint64_t exchange_body_size(const struct http_exchange *exchange) {
        return exchange->sink ? exchange->sink_size : exchange->body_size;
}

static int sink(struct http_exchange *exchange, const char *data, size_t size) {
        struct http_conn *conn = exchange->conn;

        exchange->sink_size += size;
        exchange->sink(exchange->sink_userdata, data, size);
        return conn->exchange == exchange ? 0 : 1;
}

int exchange_add_body(
        struct http_exchange *exchange, const char *data, size_t size, struct err *e) {
        uint64_t max = exchange_max_body(exchange);
        int r;

        if (size > max - exchange_body_size(exchange))
                return err_set(e, ERR_TOO_LARGE, "the body is longer than %llu bytes",
                        (unsigned long long)max);
        exchange->bytes_in += size;
        if (exchange->sink)
                return sink(exchange, data, size);
        r = reserve(exchange, exchange->body_size + size, e);
        if (r < 0)
                return r;
        memcpy(exchange->body + exchange->body_size, data, size);
        exchange->body_size += size;
        exchange->body[exchange->body_size] = '\0';
        return 0;
}

void *http_alloc(struct http_exchange *exchange, size_t size) {
        struct http_memory *memory;
        size_t total;

        if (add_overflow(sizeof(*memory), size, &total))
                return NULL;
        memory = calloc(1, total);
        if (!memory)
                return NULL;
        memory->next = exchange->memory;
        exchange->memory = memory;
        return memory->data;
}

void http_set_context(struct http_exchange *exchange, void *context) {
        exchange->context = context;
}

void *http_context(const struct http_exchange *exchange) {
        return exchange->context;
}

enum http_method http_method(const struct http_exchange *exchange) {
        return exchange->head.method;
}

const char *http_path(const struct http_exchange *exchange) {
        return exchange->head.path;
}

const char *http_query(const struct http_exchange *exchange, const char *name) {
        return http_head_parameter(&exchange->head, name);
}

const char *http_header(const struct http_exchange *exchange, const char *name) {
        return http_head_field(&exchange->head, name);
}

bool http_field_at(const struct http_exchange *exchange, size_t i, const char **ret_name,
        const char **ret_value) {
        if (i >= exchange->head.n_fields)
                return false;
        *ret_name = exchange->head.fields[i].name;
        *ret_value = exchange->head.fields[i].value;
        return true;
}

int http_put_target(const struct http_exchange *exchange, struct buf *out) {
        return http_head_put_target(&exchange->head, out);
}

const char *http_body(const struct http_exchange *exchange, size_t *ret_size) {
        *ret_size = exchange->body_size;
        return exchange->body ? exchange->body : "";
}

bool http_peer_uid(const struct http_exchange *exchange, uid_t *ret) {
        if (exchange->conn->tcp)
                return false;
        *ret = exchange->conn->uid;
        return true;
}

int http_find_peer_uid(const struct http_exchange *exchange, uid_t *ret, struct err *e) {
        if (http_peer_uid(exchange, ret))
                return 0;
        return uid_of_tcp_peer(ret, exchange->conn->fd, e);
}

void http_set_sink(
        struct http_exchange *exchange, uint64_t max, http_piece_fn piece, void *userdata) {
        exchange->sink = piece;
        exchange->sink_max = max;
        exchange->sink_userdata = userdata;
}

void http_hold_body(struct http_exchange *exchange, bool held) {
        if (exchange->body_held == held)
                return;
        exchange->body_held = held;
        exchange->conn->progress = true; /* the time for the next piece begins anew */
        conn_mark(exchange->conn);
}

void http_set_stop(struct http_exchange *exchange, void (*stop)(void *userdata)) {
        exchange->stop = stop;
}

void http_set_ops(
        struct http_exchange *exchange, const struct http_answer_ops *ops, void *userdata) {
        exchange->ops = *ops;
        exchange->userdata = userdata;
}
