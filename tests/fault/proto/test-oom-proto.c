/* SPDX-License-Identifier: MIT */
/* Every allocation on the way from an object to a frame and back fails once. */
#include "fault/loop.h"
#include "proto/proto.h"
#include "util/test.h"

static int round_trip(void) {
        struct proto_decoder d = PROTO_DECODER_INIT(PROTO_MAX_REQUEST);
        Confab__V1__Request request = CONFAB__V1__REQUEST__INIT;
        Confab__V1__Continue cont = CONFAB__V1__CONTINUE__INIT;
        Confab__V1__Sampling sampling = CONFAB__V1__SAMPLING__INIT;
        Confab__V1__LogitBias bias = CONFAB__V1__LOGIT_BIAS__INIT, *biases[] = {&bias, &bias};
        Confab__V1__Ref ref = CONFAB__V1__REF__INIT;
        Confab__V1__Tokens tokens = CONFAB__V1__TOKENS__INIT;
        int32_t ids[100] = {0};
        char *stops[] = {proto_borrow("a"), proto_borrow("b")};
        struct proto_message *m = NULL;
        struct buf out = BUF_NULL;
        struct err e = {0};
        const uint8_t *data;
        size_t size;
        int r;

        request.has_id = true;
        request.id = 1;
        request.verb_case = CONFAB__V1__REQUEST__VERB_CONTINUE;
        request.continue_ = &cont;
        cont.conversation = &ref;
        ref.name = proto_borrow("name");
        cont.input_case = CONFAB__V1__CONTINUE__INPUT_TOKENS;
        cont.tokens = &tokens;
        tokens.ids = ids;
        tokens.n_ids = 100;
        cont.sampling = &sampling;
        sampling.logit_bias = biases;
        sampling.n_logit_bias = 2;
        cont.stop = stops;
        cont.n_stop = 2;

        r = proto_append_frame(&out, &request.base, PROTO_MAX_REQUEST, &e);
        if (r == 0)
                r = proto_decoder_push(&d, out.data, out.size, &e);
        if (r == 0) {
                assert_int_equal(proto_decoder_next(&d, &data, &size, &e), 1);
                r = proto_unpack_request(&m, data, size, NULL, &e);
        }
        assert_true(r == 0 || r == -ERR_NOMEM);
        assert_true((r == 0) == (m != NULL));
        proto_message_free(m);
        proto_decoder_deinit(&d);
        buf_deinit(&out);
        return r;
}

/* Two Samplings with biases in one Continue: protobuf-c merges them. */
static int merge(void) {
        static const uint8_t bytes[] = {0x08, 0x01, 0x22, 0x0c, 0x2a, 0x04, 0x52, 0x02, 0x08, 0x01,
                0x2a, 0x04, 0x52, 0x02, 0x08, 0x02};
        struct proto_message *m = NULL;
        int r;

        r = proto_unpack_request(&m, bytes, sizeof(bytes), NULL, NULL);
        assert_true(r == 0 || r == -ERR_NOMEM);
        if (r == 0)
                assert_int_equal(m->request->continue_->sampling->n_logit_bias, 2);
        proto_message_free(m);
        return r;
}

static void each_failure(int (*f)(void)) {
        struct fault_loop loop = {.at_least = 4, .at_most = 1000};

        while (fault_loop_next(&loop)) {
                int r;

                fault_loop_arm(&loop);
                r = f();
                fault_loop_disarm(&loop);
                fault_loop_expect(&loop, r, NULL);
        }
}

static void test_round_trip(void **state) {
        each_failure(round_trip);
}

static void test_merge(void **state) {
        each_failure(merge);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_round_trip),
                cmocka_unit_test(test_merge),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
