/* SPDX-License-Identifier: MIT */
/*
 * Unpacking with a budget (invariant 3 of proto.h). Each allocation of protobuf-c is a separate
 * block in a list that belongs to the message: blocks that protobuf-c leaks in a failed merge are
 * freed with the rest, and a sanitizer sees every block's bounds.
 */
#include "proto/proto.h"
#include "base/list.h"
#include "base/util.h"
#include "proto/proto-check.h"
#include <stddef.h>

/*
 * The memory that unpacking may take: BASE + n * FACTOR, at most MAX.
 *
 * Requests: the greatest legitimate growth of long ones is that of packed token ids, 1 byte to 4; the rest is
 * text. Up to PARTS_MAX more is for small submessages: of 16384 messages with short texts, calls and results each takes
 * about 20 bytes on the wire and some hundred in memory. Events: many small submessages; the worst is a piece of one byte in TokenizeResult (3 bytes
 * on the wire, near 100 in memory while it is scanned). The client trusts its daemon more.
 */
#define REQUEST_BASE (256u << 10)
#define REQUEST_FACTOR 4
#define PARTS_FACTOR 40
#define PARTS_MAX (12u << 20)
#define EVENT_BASE (1u << 20)
#define EVENT_FACTOR 40
#define EVENT_MAX (256u << 20)

struct block {
        struct list link;
        max_align_t data[];
};

struct unpacked {
        struct proto_message message;
        struct list blocks;
        size_t budget; /* bytes still to be given out */
        int failed;    /* -ERR_LIMIT or -ERR_NOMEM once an allocation was refused */
};

static void *block_alloc(void *userdata, size_t n) {
        struct unpacked *u = userdata;
        struct block *b;
        size_t size;

        if (add_overflow(n, sizeof(*b), &size) || size > u->budget) {
                u->failed = -ERR_LIMIT;
                return NULL;
        }
        b = malloc(size);
        if (!b) {
                u->failed = -ERR_NOMEM;
                return NULL;
        }
        u->budget -= size; /* for good: the budget bounds the work as well */
        list_append(&u->blocks, &b->link);
        return b->data;
}

static void block_free(void *userdata, void *p) {
        struct block *b;

        if (!p)
                return;
        b = container_of(p, struct block, data);
        list_unlink(&b->link);
        free(b);
}

struct proto_message *proto_message_free(struct proto_message *m) {
        struct unpacked *u;

        if (!m)
                return NULL;
        u = container_of(m, struct unpacked, message);
        while (!list_empty(&u->blocks))
                block_free(u, list_entry(u->blocks.next, struct block, link)->data);
        free(u);
        return NULL;
}

static int unpack(struct proto_message **ret, const ProtobufCMessageDescriptor *d, const void *data,
        size_t n, size_t budget, struct err *e) {
        _cleanup_(proto_message_freep) struct proto_message *m = NULL;
        ProtobufCAllocator allocator = {.alloc = block_alloc, .free = block_free};
        ProtobufCMessage *message;
        struct unpacked *u;

        u = calloc(1, sizeof(*u));
        if (!u)
                return err_set(e, ERR_NOMEM, "no memory for a message");
        list_init(&u->blocks);
        u->budget = budget;
        m = &u->message;
        allocator.allocator_data = u;
        message = protobuf_c_message_unpack(d, &allocator, n, data);
        if (!message && u->failed == -ERR_LIMIT)
                return err_set(e, ERR_TOO_LARGE,
                        "a %s of %zu bytes takes too much memory to unpack", d->short_name, n);
        if (!message && u->failed)
                return err_set(e, ERR_NOMEM, "no memory for a message of %zu bytes", n);
        if (!message)
                return err_set(e, ERR_FORMAT, "malformed %s message", d->short_name);
        if (d == &confab__v1__request__descriptor)
                m->request = (Confab__V1__Request *)message;
        else
                m->event = (Confab__V1__Event *)message;
        *ret = TAKE_PTR(m);
        return 0;
}

int proto_unpack_request(
        struct proto_message **ret, const void *data, size_t n, uint64_t *ret_id, struct err *e) {
        const ProtobufCMessageDescriptor *d = &confab__v1__request__descriptor;
        uint64_t id = 0;
        int r;

        r = proto_check(d, data, n, &id, e);
        if (ret_id)
                *ret_id = id;
        if (r < 0)
                return r;
        return unpack(ret, d, data, n,
                REQUEST_BASE + n * REQUEST_FACTOR + MIN(n * PARTS_FACTOR, PARTS_MAX), e);
}

int proto_unpack_event(
        struct proto_message **ret, const void *data, size_t n, uint64_t *ret_id, struct err *e) {
        const ProtobufCMessageDescriptor *d = &confab__v1__event__descriptor;
        size_t budget;
        uint64_t id = 0;
        int r;

        r = proto_check(d, data, n, &id, e);
        if (ret_id)
                *ret_id = id;
        if (r < 0)
                return r;
        if (mul_overflow(n, EVENT_FACTOR, &budget) || budget > EVENT_MAX - EVENT_BASE)
                budget = EVENT_MAX - EVENT_BASE;
        return unpack(ret, d, data, n, EVENT_BASE + budget, e);
}
