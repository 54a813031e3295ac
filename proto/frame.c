/* SPDX-License-Identifier: MIT */
#include "proto/proto.h"
#include "base/util.h"
#include <stdio.h>

/* Bytes that may wait in a decoder in addition to one frame of the greatest length. */
#define DECODER_SLACK (64u << 10)
/* An idle connection does not keep the memory of its largest frame. */
#define DECODER_KEEP (16u << 10)

/* Length of the varint at @p (1..PROTO_MAX_HEADER), 0 if more bytes are needed, -1 if malformed. */
static int read_length(const uint8_t *p, size_t n, uint32_t *ret) {
        uint64_t v = 0;

        for (size_t i = 0; i < PROTO_MAX_HEADER; i++) {
                if (i == n)
                        return 0;
                v |= (uint64_t)(p[i] & 0x7f) << 7 * i;
                if (p[i] & 0x80)
                        continue;
                /* a last byte of 0 is a longer form of something shorter, or the length 0 */
                if (p[i] == 0 || v > UINT32_MAX)
                        return -1;
                *ret = (uint32_t)v;
                return (int)i + 1;
        }
        return -1;
}

static size_t write_length(uint8_t p[PROTO_MAX_HEADER], uint32_t v) {
        size_t n = 0;

        for (; v >= 0x80; v >>= 7)
                p[n++] = (uint8_t)(v | 0x80);
        p[n++] = (uint8_t)v;
        return n;
}

int proto_decoder_push(struct proto_decoder *d, const void *data, size_t n, struct err *e) {
        size_t left = d->in.size - d->at, total;
        int r;

        if (d->failed)
                return err_set(e, -d->failed, "the stream of frames has ended in an error");
        if (add_overflow(left, n, &total) ||
                total > (size_t)d->max_frame + PROTO_MAX_HEADER + DECODER_SLACK)
                return err_set(e, ERR_LIMIT, "too many bytes wait to be decoded");
        if (left == 0) {
                d->in.size = d->at = 0;
                if (d->in.capacity > DECODER_KEEP)
                        buf_deinit(&d->in);
        } else if (d->at >= left) { /* moving at most as much as was handed out */
                buf_consume(&d->in, d->at);
                d->at = 0;
        }
        r = buf_append(&d->in, data, n);
        if (r < 0)
                return err_set(e, -r, "no memory for %zu bytes of input", n);
        d->n_pushed += n;
        return 0;
}

int proto_decoder_push_fd(struct proto_decoder *d, int fd, size_t n, struct err *e) {
        return proto_fds_add(&d->fds, fd, d->n_pushed - n, d->n_pushed, e);
}

int proto_decoder_take_fd(struct proto_decoder *d) {
        for (size_t i = 0; i < d->fds.n; i++) {
                const struct proto_fd *f = &d->fds.items[i];

                if (f->begin <= d->frame && d->frame < f->end && f->end <= d->next)
                        return proto_fds_take(&d->fds, i);
        }
        return -1;
}

/* Frames before position @at are done. @open: the bytes from there on are the beginning of a single
 * frame, so descriptors that came with its later bytes belong to no frame. */
static void drop_fds(struct proto_decoder *d, uint64_t at, bool open) {
        for (size_t i = d->fds.n; i--;)
                if (d->fds.items[i].end <= at || (open && d->fds.items[i].begin > at))
                        proto_fds_drop(&d->fds, i);
}

int proto_decoder_next(
        struct proto_decoder *d, const uint8_t **ret, size_t *ret_size, struct err *e) {
        size_t left = d->in.size - d->at;
        uint64_t begin = d->n_pushed - left;
        uint32_t size = 0;
        int h = 0;

        if (d->failed)
                return err_set(e, -d->failed, "the stream of frames has ended in an error");
        if (left > 0)
                h = read_length(d->in.data + d->at, left, &size);
        if (h < 0) {
                d->failed = err_set(e, ERR_FORMAT, "malformed frame length");
                return d->failed;
        }
        if (h > 0 && size > d->max_frame) {
                d->failed = err_set(e, ERR_TOO_LARGE, "frame of %u bytes, at most %u are taken",
                        size, d->max_frame);
                return d->failed;
        }
        if (h == 0 || left - (size_t)h < size) {
                drop_fds(d, begin, true);
                return 0;
        }
        drop_fds(d, begin, false);
        d->frame = begin;
        d->next = begin + (size_t)h + size;
        *ret = d->in.data + d->at + h;
        *ret_size = size;
        d->at += (size_t)h + size;
        return 1;
}

void proto_decoder_deinit(struct proto_decoder *d) {
        if (!d)
                return;
        buf_deinit(&d->in);
        d->at = 0;
        proto_fds_deinit(&d->fds);
}

int proto_append_frame(
        struct buf *out, const ProtobufCMessage *message, uint32_t max_frame, struct err *e) {
        size_t size = protobuf_c_message_get_packed_size(message), n;
        uint8_t header[PROTO_MAX_HEADER];
        int r;

        if (size > max_frame)
                return err_set(e, ERR_TOO_LARGE, "message of %zu bytes, the peer takes at most %u",
                        size, max_frame);
        if (size == 0)
                return err_set(e, ERR_INVALID, "empty message");
        n = write_length(header, (uint32_t)size);
        r = buf_reserve(out, n + size);
        if (r < 0)
                return err_set(e, -r, "no room for a frame of %zu bytes", size);
        (void)buf_append(out, header, n); /* reserved */
        protobuf_c_message_pack(message, out->data + out->size);
        out->size += size;
        out->data[out->size] = 0;
        return 0;
}
