/* SPDX-License-Identifier: MIT */
/* A byte stream as a peer sends it, in pieces, through the decoder, as requests and as events. What
 * unpacks packs again to something that unpacks. */
#include "proto/proto.h"
#include "base/util.h"
#include <stdlib.h>

#define MAX_FRAME (64u << 10)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void again(const ProtobufCMessage *message, bool request) {
        struct proto_message *m = NULL;
        struct buf out = BUF_NULL;
        size_t header = 1;

        if (proto_append_frame(&out, message, 2 * MAX_FRAME, NULL) == 0) {
                while (out.data[header - 1] & 0x80)
                        header++;
                if (request)
                        (void)proto_unpack_request(
                                &m, out.data + header, out.size - header, NULL, NULL);
                else
                        (void)proto_unpack_event(
                                &m, out.data + header, out.size - header, NULL, NULL);
        }
        proto_message_free(m);
        buf_deinit(&out);
}

static void one_frame(const uint8_t *frame, size_t size) {
        struct proto_message *m = NULL;

        if (proto_unpack_request(&m, frame, size, NULL, NULL) == 0)
                again(&m->request->base, true);
        m = proto_message_free(m);
        if (proto_unpack_event(&m, frame, size, NULL, NULL) == 0)
                again(&m->event->base, false);
        proto_message_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct proto_decoder d = PROTO_DECODER_INIT(MAX_FRAME);
        size_t piece = size ? data[0] % 61 + 1 : 1;

        while (size) {
                size_t n = MIN(piece, size), frame_size;
                const uint8_t *frame;

                if (proto_decoder_push(&d, data, n, NULL) < 0)
                        break;
                while (proto_decoder_next(&d, &frame, &frame_size, NULL) > 0)
                        one_frame(frame, frame_size);
                data += n;
                size -= n;
        }
        proto_decoder_deinit(&d);
        return 0;
}
