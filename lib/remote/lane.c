/* SPDX-License-Identifier: MIT */
/*
 * Lanes: the commands of one call that are on their way to one server, over one connection.
 *
 * 1. Numbers in a lane rise. A command that is sent elsewhere may come to a server whose lane has later ones already; then it gets
 *    another lane, which is another connection. So whoever takes answers in the order of their commands waits for one lane at a time,
 *    and never for an answer behind one that can't be used yet.
 * 2. What is to be sent is made when it is sent, from the command's number: nothing is copied, and a value goes from the caller's
 *    memory to the socket.
 */
#include "base/clock.h"
#include "base/util.h"
#include "remote/remote-private.h"

#define BATCH 32 /* commands that are handed to the system together */

const char *remote_key_of(const struct remote_call *c, uint32_t i) {
        return c->verb == REMOTE_PUT ? c->values[i].key.text : c->keys[i].text;
}

static void append(struct remote_call *c, struct remote_lane *lane, uint32_t i) {
        struct remote_request *request = remote_request_of(c, i);

        request->lane = lane;
        request->next = REMOTE_NONE;
        c->n_loose--;
        if (lane->first == REMOTE_NONE)
                lane->first = i;
        else
                remote_request_of(c, lane->last)->next = i;
        lane->last = i;
        if (lane->unsent == REMOTE_NONE)
                lane->unsent = i;
}

/* A lane that is used by nobody: there are as many as commands in the window, and one command is loose. */
static struct remote_lane *unused(struct remote_call *c) {
        struct remote_lane *lane = NULL;

        for (size_t k = 0; k < c->n_lanes; k++) {
                if (!c->lanes[k].conn)
                        return &c->lanes[k];
                if (c->lanes[k].first == REMOTE_NONE)
                        lane = &c->lanes[k];
        }
        if (lane)
                remote_pool_give(c->remote, TAKE_PTR(lane->conn));
        return lane;
}

int remote_lane_enter(
        struct remote_call *c, uint32_t i, const struct remote_address *address, struct err *e) {
        bool fresh = remote_request_of(c, i)->n_again > 0, kept;
        struct remote_conn *conn = NULL;
        struct remote_lane *lane;
        int r;

        for (size_t k = 0; k < c->n_lanes; k++) {
                lane = &c->lanes[k];
                if (lane->conn && remote_address_same(&lane->conn->address, address) &&
                        (lane->first == REMOTE_NONE || lane->last < i)) {
                        append(c, lane, i);
                        return 0;
                }
        }
        /* Connecting takes time, in which nobody was listened to. */
        c->awaited = NULL;
        r = remote_pool_take(c->remote, address, fresh, c->until, &conn, &kept, e);
        if (r < 0)
                return r;
        lane = unused(c);
        *lane = (struct remote_lane){.conn = conn,
                .kept = kept,
                .first = REMOTE_NONE,
                .last = REMOTE_NONE,
                .unsent = REMOTE_NONE};
        append(c, lane, i);
        return 0;
}

void remote_lane_leave(struct remote_call *c, struct remote_lane *lane) {
        struct remote_request *request = remote_request_of(c, lane->first);

        request->lane = NULL;
        lane->first = request->next;
        if (lane->first == REMOTE_NONE)
                lane->last = REMOTE_NONE;
        c->n_loose++;
}

/* --- sending --- */

static size_t size_of(const struct remote_command *command) {
        return command->head_size + command->data_size + command->tail_size;
}

/* The parts of commands, without the first @skip bytes; returns how many. */
static size_t gather(const struct remote_command *commands, size_t n, size_t skip,
        struct iovec parts[3 * BATCH]) {
        size_t n_parts = 0;

        for (size_t k = 0; k < n; k++) {
                const struct remote_command *m = &commands[k];
                const void *const data[] = {m->head, m->data, m->tail};
                const size_t sizes[] = {m->head_size, m->data_size, m->tail_size};

                for (size_t p = 0; p < ARRAY_SIZE(data); p++) {
                        size_t cut = MIN(skip, sizes[p]);

                        skip -= cut;
                        if (cut < sizes[p])
                                parts[n_parts++] = (struct iovec){
                                        (char *)(uintptr_t)data[p] + cut, sizes[p] - cut};
                }
        }
        return n_parts;
}

/* @n bytes more of the lane's commands are sent. */
static void sent(struct remote_call *c, struct remote_lane *lane,
        const struct remote_command *commands, size_t n) {
        lane->t_active = clock_monotonic_usec();
        lane->offset += n;
        for (; lane->unsent != REMOTE_NONE && lane->offset >= size_of(commands); commands++) {
                lane->offset -= size_of(commands);
                lane->unsent = remote_request_of(c, lane->unsent)->next;
                /* What is behind the last one was not made. */
                if (lane->offset == 0)
                        break;
        }
}

int remote_lane_send(struct remote_call *c, struct remote_lane *lane, bool *moved, struct err *e) {
        struct remote_command commands[BATCH];
        struct iovec parts[3 * BATCH];

        while (lane->unsent != REMOTE_NONE) {
                size_t n_parts, n = 0;
                ssize_t done;

                for (uint32_t i = lane->unsent; i != REMOTE_NONE && n < BATCH;) {
                        const struct remote_request *request = remote_request_of(c, i);

                        remote_command_make(&commands[n++], c->verb, request->asking,
                                remote_key_of(c, i), c->verb == REMOTE_PUT ? &c->values[i] : NULL,
                                c->keep_sec);
                        i = request->next;
                }
                n_parts = gather(commands, n, lane->offset, parts);
                done = remote_conn_send(lane->conn, parts, n_parts, e);
                if (done <= 0)
                        return (int)done;
                sent(c, lane, commands, (size_t)done);
                *moved = true;
        }
        return 0;
}

/* --- ending --- */

void remote_lane_close(struct remote_call *c, struct remote_lane *lane) {
        lane->conn = remote_conn_free(lane->conn);
        while (lane->first != REMOTE_NONE) {
                remote_request_of(c, lane->first)->asking =
                        false; /* where it goes now nobody has said so */
                remote_lane_leave(c, lane);
        }
        lane->unsent = REMOTE_NONE;
        lane->offset = 0;
}

void remote_lanes_end(struct remote_call *c) {
        for (size_t k = 0; k < c->n_lanes; k++) {
                struct remote_lane *lane = &c->lanes[k];

                if (lane->first != REMOTE_NONE)
                        remote_lane_close(c, lane);
                remote_pool_give(c->remote, TAKE_PTR(lane->conn));
        }
}
