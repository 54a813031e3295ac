/* SPDX-License-Identifier: MIT */
#include "proto/proto.h"
#include "base/util.h"
#include "util/test.h"
#include <string.h>

static int unpack(const char *bytes, size_t n, struct proto_message **ret, uint64_t *id) {
        struct err e = {0};
        int r;

        *id = 77;
        r = proto_unpack_request(ret, bytes, n, id, &e);
        assert_int_equal(e.code, -r);
        return r;
}
#define check_request(bytes, code, want_id)                                                        \
        do {                                                                                       \
                struct proto_message *_m = NULL;                                                   \
                uint64_t _id;                                                                      \
                assert_int_equal(unpack(bytes, sizeof(bytes) - 1, &_m, &_id), -(code));            \
                assert_int_equal(_id, want_id);                                                    \
                assert_true(!_m == !!(code));                                                      \
                proto_message_free(_m);                                                            \
        } while (0)

static void test_round_trip(void **state) {
        Confab__V1__Request request = CONFAB__V1__REQUEST__INIT;
        Confab__V1__Continue cont = CONFAB__V1__CONTINUE__INIT;
        Confab__V1__Sampling sampling = CONFAB__V1__SAMPLING__INIT;
        Confab__V1__LogitBias bias = CONFAB__V1__LOGIT_BIAS__INIT, *biases[] = {&bias};
        Confab__V1__Ref ref = CONFAB__V1__REF__INIT;
        char *stops[] = {proto_borrow("a"), proto_borrow("\xc3\xa9")};
        struct buf out = BUF_NULL;
        struct proto_message *m;
        const Confab__V1__Continue *c;
        uint64_t id;

        request.has_id = true;
        request.id = UINT64_MAX;
        request.verb_case = CONFAB__V1__REQUEST__VERB_CONTINUE;
        request.continue_ = &cont;
        cont.conversation = &ref;
        ref.name = proto_borrow("n");
        cont.input_case = CONFAB__V1__CONTINUE__INPUT_RAW;
        cont.raw = (ProtobufCBinaryData){3, proto_borrow("\xff\0z")};
        cont.sampling = &sampling;
        cont.stop = stops;
        cont.n_stop = 2;
        sampling.logit_bias = biases;
        sampling.n_logit_bias = 1;
        bias.has_bias = true;
        bias.bias = -1.5f;

        assert_int_equal(proto_append_frame(&out, &request.base, 1000, NULL), 0);
        assert_int_equal(proto_unpack_request(&m, out.data + 1, out.size - 1, &id, NULL), 0);
        assert_true(id == UINT64_MAX);
        assert_true(m->request->id == UINT64_MAX);
        c = m->request->continue_;
        assert_string_equal(c->conversation->name, "n");
        assert_int_equal(c->input_case, CONFAB__V1__CONTINUE__INPUT_RAW);
        assert_memory_equal(c->raw.data, "\xff\0z", 3);
        assert_int_equal(c->n_stop, 2);
        assert_string_equal(c->stop[1], "\xc3\xa9");
        assert_true(c->sampling->logit_bias[0]->bias == -1.5f);
        assert_false(c->sampling->logit_bias[0]->has_token);
        assert_null(proto_message_free(m));
        assert_null(proto_message_free(NULL));
        buf_deinit(&out);
}

static void test_strings(void **state) {
        check_request("\x08\x05\x1a\x03\x0a\x01"
                      "a",
                0, 5);
        check_request("\x08\x05\x1a\x05\x0a\x03"
                      "a\0b",
                ERR_INVALID, 5);
        check_request("\x1a\x04\x0a\x02\xc3\xc3\x08\x05", ERR_INVALID, 5); /* the id comes last */
        check_request("\x08\x05\x22\x06\x0a\x04\x12\x02\xed\xa0", ERR_INVALID, 5); /* in a Ref */
        check_request("\x08\x05\x22\x05\x1a\x03\xff\x00\xfe", 0, 5); /* bytes may be anything */
        /* malformed is worse than not UTF-8 */
        check_request("\x08\x05\x1a\x03\x0a\x01\xff\x0a", ERR_FORMAT, 5);
}

static void test_malformed(void **state) {
        check_request("", 0, 0);
        check_request("\x08", ERR_FORMAT, 0);
        check_request("\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", ERR_FORMAT, 0);
        check_request("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 0, UINT64_MAX);
        check_request("\x00\x01", ERR_FORMAT, 0);             /* field 0 */
        check_request("\x08\x05\x0b\x0c", ERR_FORMAT, 5);     /* a group */
        check_request("\x08\x05\x0e", ERR_FORMAT, 5);         /* wire type 6 */
        check_request("\x08\x05\x18\x01", ERR_FORMAT, 5);     /* Open as a varint */
        check_request("\x08\x05\x1a\x7f\x0a", ERR_FORMAT, 5); /* longer than the message */
        check_request("\x08\x05\x1a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", ERR_FORMAT, 5);
        check_request("\x08\x05\x1a\x02\x0a\x05", ERR_FORMAT, 5);
        check_request("\xfa\xff\xff\xff\x0f\x00\x08\x05", 0, 5);          /* unknown field */
        check_request("\x82\x80\x80\x80\x10\x00\x08\x05", ERR_FORMAT, 0); /* number too large */
        check_request(
                "\x81\x7d\1\2\3\4\5\6\7\x08\x08\x05", 0, 5); /* field 2000 of 8 and of 4 bytes */
        check_request("\x85\x7d\1\2\3\4\x08\x05", 0, 5);
}

/* A Request{Continue{...}} whose Continue is @n copies of @unit. */
static void repeat(struct buf *out, const char *unit, size_t unit_size, size_t n) {
        uint32_t size = (uint32_t)(unit_size * n);
        uint8_t tag[] = {0x08, 0x09, 0x22};

        assert_int_equal(buf_append(out, tag, sizeof(tag)), 0);
        for (; size >= 0x80; size >>= 7) {
                uint8_t b = (uint8_t)(size | 0x80);
                assert_int_equal(buf_append(out, &b, 1), 0);
        }
        tag[0] = (uint8_t)size;
        assert_int_equal(buf_append(out, tag, 1), 0);
        for (size_t i = 0; i < n; i++)
                assert_int_equal(buf_append(out, unit, unit_size), 0);
}

static void check_repeat(const char *unit, size_t unit_size, size_t n, int code) {
        struct proto_message *m = NULL;
        struct buf in = BUF_NULL;
        uint64_t id;

        repeat(&in, unit, unit_size, n);
        assert_int_equal(unpack((char *)in.data, in.size, &m, &id), -code);
        assert_int_equal(id, 9);
        proto_message_free(m);
        buf_deinit(&in);
}

static void test_amplification(void **state) {
        /* Sampling{logit_bias{}}: each one is merged with all before it */
        check_repeat("\x2a\x02\x52\x00", 4, 10, 0);
        check_repeat("\x2a\x02\x52\x00", 4, 1000000, ERR_TOO_LARGE);
        /* a list of empty stop strings: 2 bytes become a pointer and a block */
        check_repeat("\x3a\x00", 2, 100, 0);
        check_repeat("\x3a\x00", 2, 2000000, ERR_TOO_LARGE);
        /* each a moderate piece, too much together */
        check_repeat("\x3a\x08stop all", 10, 100, 0);
        check_repeat("\x3a\x08stop all", 10, 300000, ERR_TOO_LARGE);
        /* unknown fields are kept by protobuf-c */
        check_repeat("\xf8\x07\x00", 3, 1000000, ERR_TOO_LARGE);
        /* the same number over and over is cheap, but each is noted */
        check_repeat("\x30\x00", 2, 2000000, ERR_TOO_LARGE);
}

static void test_many_tokens(void **state) {
        size_t n = PROTO_MAX_REQUEST - 20;
        uint8_t head[] = {0x08, 0x09, 0x22, 0, 0, 0, 0, 0x22, 0, 0, 0, 0, 0x0a, 0, 0, 0, 0};
        struct proto_message *m = NULL;
        struct buf in = BUF_NULL;
        uint64_t id;

        for (size_t i = 0, left = n + 10; i < 3; i++, left -= 5)
                for (size_t k = 0; k < 4; k++)
                        head[3 + 5 * i + k] =
                                (uint8_t)((left >> 7 * k & 0x7f) | (k < 3 ? 0x80 : 0));
        assert_int_equal(buf_append(&in, head, sizeof(head)), 0);
        assert_int_equal(buf_reserve(&in, n), 0);
        memset(in.data + in.size, 1, n);
        in.size += n;
        assert_int_equal(unpack((char *)in.data, in.size, &m, &id), 0);
        assert_int_equal(m->request->continue_->tokens->n_ids, n);
        proto_message_free(m);
        buf_deinit(&in);
}

/* As many messages as a request may have, with little in each: calls and results in turns. */
static void test_many_messages(void **state) {
        enum { N = 16384 };
        static Confab__V1__Message messages[N], *list[N];
        Confab__V1__ToolResult result = CONFAB__V1__TOOL_RESULT__INIT, *results[] = {&result};
        Confab__V1__Call call = CONFAB__V1__CALL__INIT, *calls[] = {&call};
        Confab__V1__Request request = CONFAB__V1__REQUEST__INIT;
        Confab__V1__Find find = CONFAB__V1__FIND__INIT;
        struct buf out = BUF_NULL;
        struct proto_message *m;
        uint64_t id;

        result.call_id = call.id = proto_borrow("c");
        result.text = call.name = proto_borrow("f");
        call.arguments = proto_borrow("{}");
        for (size_t i = 0; i < N; i++) {
                list[i] = &messages[i];
                messages[i] = (Confab__V1__Message)CONFAB__V1__MESSAGE__INIT;
                messages[i].has_role = true;
                messages[i].role =
                        i % 2 ? CONFAB__V1__ROLE__ROLE_TOOL : CONFAB__V1__ROLE__ROLE_ASSISTANT;
                messages[i].results = results;
                messages[i].n_results = i % 2;
                messages[i].calls = calls;
                messages[i].n_calls = i % 2 == 0;
                messages[i].text = i % 2 == 0 ? proto_borrow("a") : NULL;
        }
        request.has_id = true;
        request.id = 3;
        request.verb_case = CONFAB__V1__REQUEST__VERB_FIND;
        request.find = &find;
        find.messages = list;
        find.n_messages = N;
        assert_int_equal(proto_append_frame(&out, &request.base, PROTO_MAX_REQUEST, NULL), 0);
        assert_int_equal(proto_unpack_request(&m, out.data + 3, out.size - 3, &id, NULL), 0);
        assert_int_equal(m->request->find->n_messages, N);
        proto_message_free(m);
        buf_deinit(&out);
}

static void test_event(void **state) {
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
        Confab__V1__TokenizeResult result = CONFAB__V1__TOKENIZE_RESULT__INIT;
        ProtobufCBinaryData *pieces = calloc(100000, sizeof(*pieces));
        struct buf out = BUF_NULL;
        struct proto_message *m;
        uint64_t id;

        assert_non_null(pieces);
        for (size_t i = 0; i < 100000; i++)
                pieces[i] = (ProtobufCBinaryData){1, proto_borrow("x")};
        event.has_request = true;
        event.request = 4;
        event.kind_case = CONFAB__V1__EVENT__KIND_TOKENIZE;
        event.tokenize = &result;
        result.pieces = pieces;
        result.n_pieces = 100000;
        assert_int_equal(proto_append_frame(&out, &event.base, PROTO_MAX_EVENT, NULL), 0);
        assert_int_equal(proto_unpack_event(&m, out.data + 3, out.size - 3, &id, NULL), 0);
        assert_int_equal(id, 4);
        assert_int_equal(m->event->tokenize->n_pieces, 100000);
        proto_message_free(m);
        buf_deinit(&out);
        free(pieces);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_round_trip),
                cmocka_unit_test(test_strings),
                cmocka_unit_test(test_malformed),
                cmocka_unit_test(test_amplification),
                cmocka_unit_test(test_many_tokens),
                cmocka_unit_test(test_many_messages),
                cmocka_unit_test(test_event),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
