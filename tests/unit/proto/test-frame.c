/* SPDX-License-Identifier: MIT */
#include "proto/proto.h"
#include "base/util.h"
#include "util/test.h"
#include <string.h>

/* A request whose frame has exactly @size bytes of message (7 at least). */
static void append_sized(struct buf *out, size_t size) {
        Confab__V1__Tokenize tokenize = CONFAB__V1__TOKENIZE__INIT;
        Confab__V1__Request request = CONFAB__V1__REQUEST__INIT;
        _cleanup_(freep) char *text = calloc(1, size + 1);

        assert_non_null(text);
        request.has_id = true;
        request.id = 1;
        request.verb_case = CONFAB__V1__REQUEST__VERB_TOKENIZE;
        request.tokenize = &tokenize;
        tokenize.text = text;
        memset(text, 'x', size);
        for (size_t n = size; protobuf_c_message_get_packed_size(&request.base) > size; n--)
                text[n - 1] = 0;
        assert_int_equal(protobuf_c_message_get_packed_size(&request.base), size);
        assert_int_equal(proto_append_frame(out, &request.base, PROTO_MAX_REQUEST, NULL), 0);
}

static const size_t sizes[] = {7, 126, 127, 128, 129, 200, 7};

static size_t make_stream(struct buf *out) {
        for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
                append_sized(out, sizes[i]);
        return out->size;
}

/* Take out all that is ready; the number of frames taken so far is kept in *n. */
static void drain(struct proto_decoder *d, size_t *n) {
        const uint8_t *data;
        struct err e;
        size_t size;
        int r;

        while ((r = proto_decoder_next(d, &data, &size, &e)) > 0) {
                _cleanup_(proto_message_freep) struct proto_message *m = NULL;

                assert_true(*n < ARRAY_SIZE(sizes));
                assert_int_equal(size, sizes[(*n)++]);
                assert_int_equal(proto_unpack_request(&m, data, size, NULL, &e), 0);
                assert_int_equal(m->request->verb_case, CONFAB__V1__REQUEST__VERB_TOKENIZE);
        }
        assert_int_equal(r, 0);
}

static void test_every_split(void **state) {
        struct buf stream = BUF_NULL;
        size_t total = make_stream(&stream);

        for (size_t a = 0; a <= total; a++)
                for (size_t b = a; b <= total; b += a % 7 + 1) {
                        struct proto_decoder d = PROTO_DECODER_INIT(PROTO_MAX_REQUEST);
                        size_t n = 0;

                        assert_int_equal(proto_decoder_push(&d, stream.data, a, NULL), 0);
                        drain(&d, &n);
                        assert_int_equal(proto_decoder_push(&d, stream.data + a, b - a, NULL), 0);
                        drain(&d, &n);
                        assert_int_equal(
                                proto_decoder_push(&d, stream.data + b, total - b, NULL), 0);
                        drain(&d, &n);
                        assert_int_equal(n, ARRAY_SIZE(sizes));
                        assert_false(proto_decoder_partial(&d));
                        proto_decoder_deinit(&d);
                }
        buf_deinit(&stream);
}

static void test_byte_by_byte(void **state) {
        struct proto_decoder d = PROTO_DECODER_INIT(PROTO_MAX_REQUEST);
        struct buf stream = BUF_NULL;
        size_t total = make_stream(&stream), n = 0;

        for (size_t i = 0; i < total; i++) {
                assert_int_equal(proto_decoder_push(&d, stream.data + i, 1, NULL), 0);
                drain(&d, &n);
        }
        assert_int_equal(n, ARRAY_SIZE(sizes));
        proto_decoder_deinit(&d);
        buf_deinit(&stream);
}

static void check_bad(const void *bytes, size_t n, uint32_t max, int code) {
        struct proto_decoder d = PROTO_DECODER_INIT(max);
        const uint8_t *data = NULL;
        struct err e = {0};
        size_t size;

        assert_int_equal(proto_decoder_push(&d, bytes, n, &e), 0);
        assert_int_equal(proto_decoder_next(&d, &data, &size, &e), -code);
        assert_int_equal(e.code, code);
        assert_true(e.msg[0] != 0);
        assert_null(data);
        /* it stays failed, whatever comes */
        assert_int_equal(proto_decoder_next(&d, &data, &size, &e), -code);
        assert_int_equal(proto_decoder_push(&d, "\1x", 2, &e), -code);
        proto_decoder_deinit(&d);
}

static void test_bad_lengths(void **state) {
        check_bad("\0", 1, 100, ERR_FORMAT);       /* empty message */
        check_bad("\x85\x00", 2, 100, ERR_FORMAT); /* not the shortest form */
        check_bad("\x80\x00", 2, 100, ERR_FORMAT);
        check_bad("\x80\x80\x80\x80\x00", 5, 100, ERR_FORMAT);
        check_bad("\xff\xff\xff\xff\xff", 5, 100, ERR_FORMAT);        /* never ends */
        check_bad("\xff\xff\xff\xff\x1f", 5, UINT32_MAX, ERR_FORMAT); /* over 32 bits */
        check_bad("\xff\xff\xff\xff\x0f", 5, 100, ERR_TOO_LARGE);
        check_bad("\x65", 1, 100, ERR_TOO_LARGE); /* 101 */
}

static void test_memory_follows_bytes(void **state) {
        static const uint8_t chunk[1000];
        struct proto_decoder d = PROTO_DECODER_INIT(PROTO_MAX_REQUEST);
        const uint8_t *data;
        size_t size;

        assert_int_equal(proto_decoder_push(&d, "\x80\x80\x80\x02", 4, NULL), 0); /* 4 MiB */
        assert_int_equal(proto_decoder_next(&d, &data, &size, NULL), 0);
        assert_true(proto_decoder_partial(&d));
        assert_true(d.in.capacity <= 64);
        for (size_t i = 1; i < 100; i++) {
                assert_int_equal(proto_decoder_push(&d, chunk, sizeof(chunk), NULL), 0);
                assert_int_equal(proto_decoder_next(&d, &data, &size, NULL), 0);
                assert_true(d.in.capacity <= 2 * (i * sizeof(chunk) + 64));
        }
        proto_decoder_deinit(&d);
}

static void test_push_without_next(void **state) {
        static const uint8_t zeros[64 << 10];
        struct proto_decoder d = PROTO_DECODER_INIT(1000);
        struct err e;

        assert_int_equal(proto_decoder_push(&d, zeros, sizeof(zeros), &e), 0);
        assert_int_equal(proto_decoder_push(&d, zeros, 1005, &e), 0);
        assert_int_equal(proto_decoder_push(&d, zeros, 1, &e), -ERR_LIMIT);
        proto_decoder_deinit(&d);
}

/* A large frame's memory goes back when the connection is idle again. */
static void test_shrinks(void **state) {
        struct proto_decoder d = PROTO_DECODER_INIT(PROTO_MAX_REQUEST);
        struct buf stream = BUF_NULL;
        const uint8_t *data;
        size_t size;

        append_sized(&stream, 1000000);
        assert_int_equal(proto_decoder_push(&d, stream.data, stream.size, NULL), 0);
        assert_int_equal(proto_decoder_next(&d, &data, &size, NULL), 1);
        assert_int_equal(size, 1000000);
        assert_int_equal(proto_decoder_push(&d, stream.data, 3, NULL), 0);
        assert_true(d.in.capacity < 1000);
        assert_int_equal(proto_decoder_next(&d, &data, &size, NULL), 0);
        proto_decoder_deinit(&d);
        buf_deinit(&stream);
}

static void test_append_limits(void **state) {
        Confab__V1__Request request = CONFAB__V1__REQUEST__INIT;
        struct buf out = BUF_NULL;
        struct err e;

        assert_int_equal(proto_append_frame(&out, &request.base, 100, &e), -ERR_INVALID);
        request.has_id = true;
        request.id = 300; /* tag and two bytes */
        assert_int_equal(proto_append_frame(&out, &request.base, 2, &e), -ERR_TOO_LARGE);
        assert_int_equal(out.size, 0);
        assert_int_equal(proto_append_frame(&out, &request.base, 3, &e), 0);
        assert_int_equal(out.size, 4);
        assert_memory_equal(out.data, "\3\x08\xac\x02", 5);
        out.max = 7;
        assert_int_equal(proto_append_frame(&out, &request.base, 3, &e), -ERR_LIMIT);
        assert_int_equal(out.size, 4);
        buf_deinit(&out);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_every_split),
                cmocka_unit_test(test_byte_by_byte),
                cmocka_unit_test(test_bad_lengths),
                cmocka_unit_test(test_memory_follows_bytes),
                cmocka_unit_test(test_push_without_next),
                cmocka_unit_test(test_shrinks),
                cmocka_unit_test(test_append_limits),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
