/* SPDX-License-Identifier: MIT */
/*
 * protobuf-c returns strings as NUL-terminated copies of unchecked bytes: "a\0b" would name the
 * conversation "a", and bytes that are not UTF-8 would get into JSON, the register and other
 * clients' terminals. Neither can be seen in its result, so the wire form is checked first.
 */
#include "proto/proto-check.h"
#include "base/cursor.h"
#include "base/utf8.h"
#include <string.h>

#define VARINT_MAX 10
#define FIELD_MAX ((1u << 29) - 1)
/* Deeper than the schema goes (Event, Conversations, Conversation, Sampling, LogitBias). */
#define DEPTH_MAX 8

enum wire_type { WIRE_VARINT, WIRE_64BIT, WIRE_BYTES, WIRE_GROUP, WIRE_GROUP_END, WIRE_32BIT };

struct wire_field {
        uint32_t number;
        enum wire_type type;
        uint64_t value;      /* VARINT */
        const uint8_t *data; /* BYTES, borrowed */
        size_t size;
};

static int read_varint(struct cursor *c, uint64_t *ret) {
        uint64_t v = 0;
        uint8_t b;

        for (unsigned i = 0; i < VARINT_MAX; i++) {
                if (cursor_u8(c, &b))
                        return 1;
                v |= (uint64_t)(b & 0x7f) << 7 * i; /* the tenth byte's upper bits fall off */
                if (!(b & 0x80)) {
                        *ret = v;
                        return 0;
                }
        }
        return 1;
}

/* 0, or 1 if malformed. */
static int read_field(struct cursor *c, struct wire_field *ret) {
        struct wire_field f = {0};
        const uint8_t *skipped;
        uint64_t tag, size;

        if (read_varint(c, &tag) || tag >> 3 == 0 || tag >> 3 > FIELD_MAX)
                return 1;
        f.number = (uint32_t)(tag >> 3);
        f.type = tag & 7;
        switch (f.type) {
        case WIRE_VARINT:
                if (read_varint(c, &f.value))
                        return 1;
                break;
        case WIRE_64BIT:
                if (cursor_bytes(c, 8, &skipped))
                        return 1;
                break;
        case WIRE_32BIT:
                if (cursor_bytes(c, 4, &skipped))
                        return 1;
                break;
        case WIRE_BYTES:
                if (read_varint(c, &size) || size > cursor_left(c))
                        return 1;
                f.size = (size_t)size;
                if (cursor_bytes(c, f.size, &f.data))
                        return 1;
                break;
        default:
                return 1; /* groups are not part of this protocol */
        }
        *ret = f;
        return 0;
}

static int check_string(const ProtobufCMessageDescriptor *d, const ProtobufCFieldDescriptor *fd,
        const struct wire_field *f, struct err *e) {
        if (f->size && memchr(f->data, 0, f->size))
                return err_set(e, ERR_INVALID, "%s.%s has a NUL byte", d->short_name, fd->name);
        if (f->size && !utf8_valid(f->data, f->size))
                return err_set(e, ERR_INVALID, "%s.%s is not UTF-8", d->short_name, fd->name);
        return 0;
}

/* -ERR_INVALID is noted in *ret_invalid and the walk continues, as a malformed rest is worse. */
static int check_level(const ProtobufCMessageDescriptor *d, struct cursor c, unsigned depth,
        uint64_t *ret_id, int *ret_invalid, struct err *e) {
        struct wire_field f;
        int r;

        if (depth > DEPTH_MAX)
                return err_set(e, ERR_FORMAT, "messages nested too deeply");
        while (cursor_left(&c)) {
                const ProtobufCFieldDescriptor *fd;

                if (read_field(&c, &f))
                        return err_set(e, ERR_FORMAT, "malformed %s message", d->short_name);
                if (ret_id && f.number == 1 && f.type == WIRE_VARINT)
                        *ret_id = f.value;
                if (f.type != WIRE_BYTES)
                        continue;
                fd = protobuf_c_message_descriptor_get_field(d, f.number);
                if (!fd)
                        continue;
                if (fd->type == PROTOBUF_C_TYPE_STRING && *ret_invalid == 0) {
                        *ret_invalid = check_string(d, fd, &f, e);
                } else if (fd->type == PROTOBUF_C_TYPE_MESSAGE) {
                        r = check_level(fd->descriptor, (struct cursor){f.data, f.data + f.size},
                                depth + 1, NULL, ret_invalid, e);
                        if (r < 0)
                                return r;
                }
        }
        return 0;
}

int proto_check(const ProtobufCMessageDescriptor *d, const uint8_t *data, size_t n,
        uint64_t *ret_id, struct err *e) {
        int invalid = 0, r;

        r = check_level(d, (struct cursor){data, data + n}, 0, ret_id, &invalid, e);
        return r < 0 ? r : invalid;
}
