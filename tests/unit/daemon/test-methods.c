/* SPDX-License-Identifier: MIT */
/* Hello, the order of messages, and how each verb translates its message. */
#include "daemon-fixture.h"
#include <math.h>

static void test_hello(void **state) {
        struct fixture *f = *state;
        struct proto_message *m;
        struct wire w;
        uint64_t id;

        fixture_connect(f, &w);
        id = wire_send_hello(&w, 1, 0);
        m = expect_kind(&w, id, CONFAB__V1__EVENT__KIND_HELLO);
        assert_int_equal(m->event->hello->version, 1);
        assert_int_equal(m->event->hello->max_frame, 4 << 20);
        assert_non_null(strstr(m->event->hello->software, "confab "));
        proto_message_free(m);
        /* Twice is once too often. */
        id = wire_send_hello(&w, 1, 0);
        expect_error(&w, id, "state", false);
        assert_true(wire_wait_eof(&w));
        wire_close(&w);
        fixture_wait_peers(f, 0);
}

static void test_wrong_version(void **state) {
        struct fixture *f = *state;
        struct wire w;
        uint64_t id;

        fixture_connect(f, &w);
        id = wire_send_hello(&w, 2, 0);
        expect_error(&w, id, "unsupported", false);
        assert_true(wire_wait_eof(&w));
        wire_close(&w);
}

static void test_request_before_hello(void **state) {
        struct fixture *f = *state;
        struct wire w;
        uint64_t id;

        fixture_connect(f, &w);
        id = fixture_send_stats(&w);
        expect_error(&w, id, "state", false);
        assert_true(wire_wait_eof(&w));
        assert_int_equal(fake.n, 0);
        wire_close(&w);
}

static void test_tiny_max_frame(void **state) {
        struct fixture *f = *state;
        struct wire w;

        fixture_connect(f, &w);
        expect_error(&w, wire_send_hello(&w, 1, 10), "invalid", false);
        assert_true(wire_wait_eof(&w));
        wire_close(&w);
}

static void expect_broken(struct fixture *f, const void *data, size_t n, const char *code) {
        struct wire w;

        fixture_client(f, &w);
        assert_true(wire_send_bytes(&w, data, n));
        expect_error(&w, 0, code, false);
        assert_true(wire_wait_eof(&w));
        wire_close(&w);
        assert_int_equal(fake.n, 0);
}

static void test_malformed_frames(void **state) {
        static const uint8_t zero[] = {0}, long_form[] = {0x81, 0},
                             huge[] = {0xff, 0xff, 0xff, 0xff, 0x0f},
                             overlong[] = {0xff, 0xff, 0xff, 0xff, 0xff},
                             garbage[] = {3, 0xff, 0xff, 0xff}, truncated[] = {2, 0x22, 0x7f},
                             id0[] = {2, 0x7a, 0};

        expect_broken(*state, zero, sizeof(zero), "format");
        expect_broken(*state, long_form, sizeof(long_form), "format");
        expect_broken(*state, huge, sizeof(huge), "limit");
        expect_broken(*state, overlong, sizeof(overlong), "format");
        expect_broken(*state, garbage, sizeof(garbage), "format");
        expect_broken(*state, truncated, sizeof(truncated), "format");
        expect_broken(*state, id0, sizeof(id0), "invalid");
}

static void test_no_verb_and_unknown_verb(void **state) {
        static const uint8_t none[] = {2, 0x08, 5}, unknown[] = {6, 0x08, 6, 0xf2, 0x07, 1, 0};
        struct fixture *f = *state;
        struct wire w;

        fixture_client(f, &w);
        assert_true(wire_send_bytes(&w, none, sizeof(none)));
        expect_error(&w, 5, "unsupported", false);
        assert_true(wire_send_bytes(&w, unknown, sizeof(unknown)));
        expect_error(&w, 6, "unsupported", false);
        /* The connection lives. */
        fake_answer(ENGINE_STATS, true);
        proto_message_free(expect_kind(&w, fixture_send_stats(&w), CONFAB__V1__EVENT__KIND_STATS));
        wire_close(&w);
}

static void test_bad_utf8(void **state) {
        static const uint8_t open[] = {7, 0x08, 9, 0x1a, 3, 0x0a, 1, 0xff};
        struct fixture *f = *state;
        struct wire w;

        fixture_client(f, &w);
        assert_true(wire_send_bytes(&w, open, sizeof(open)));
        expect_error(&w, 9, "invalid", false);
        assert_int_equal(fake.n, 0);
        fake_answer(ENGINE_STATS, true);
        proto_message_free(expect_kind(&w, fixture_send_stats(&w), CONFAB__V1__EVENT__KIND_STATS));
        wire_close(&w);
}

static void test_id_twice(void **state) {
        struct fixture *f = *state;
        struct wire w;
        REQUEST(r, STATS, Stats, stats, m);

        fixture_client(f, &w);
        r.has_id = true;
        r.id = 77;
        wire_send(&w, &r);
        wire_send(&w, &r);
        expect_error(&w, 0, "invalid", false);
        assert_true(wire_wait_eof(&w));
        wire_close(&w);
}

static void test_open(void **state) {
        struct fixture *f = *state;
        Confab__V1__Sampling s = CONFAB__V1__SAMPLING__INIT;
        Confab__V1__LogitBias bias = CONFAB__V1__LOGIT_BIAS__INIT, *biases[] = {&bias};
        const struct sampling *got;
        struct wire w;
        REQUEST(r, OPEN, Open, open, m);

        fixture_client(f, &w);
        m.name = proto_borrow("work");
        m.system = proto_borrow("Be brief");
        m.sampling = &s;
        s.has_temperature = s.has_seed = s.has_top_k = true;
        s.temperature = 0.5f;
        s.seed = UINT64_MAX;
        s.top_k = 40;
        s.logit_bias = biases;
        s.n_logit_bias = 1;
        bias.has_token = bias.has_bias = true;
        bias.token = 5;
        bias.bias = -INFINITY;
        m.has_overflow = true;
        m.overflow = (Confab__V1__Overflow)7;
        expect_error(&w, wire_send(&w, &r), "invalid", false);
        m.overflow = CONFAB__V1__OVERFLOW__OVERFLOW_SHIFT;
        r.has_id = false;
        wire_send(&w, &r);
        fixture_wait_requests(f, 1);
        assert_int_equal(fake.requests[0].r.overflow, ENGINE_OVERFLOW_SHIFT);
        assert_string_equal(fake.requests[0].name, "work");
        assert_string_equal(fake.requests[0].system, "Be brief");
        assert_int_equal(fake.requests[0].r.owner, getuid());
        assert_int_equal(fake.requests[0].r.admin, getuid() == 0);
        got = &fake.requests[0].r.sampling;
        assert_int_equal(
                got->has, SAMPLING_TEMPERATURE | SAMPLING_SEED | SAMPLING_TOP_K | SAMPLING_BIASES);
        assert_true(got->temperature == 0.5f && got->seed == UINT64_MAX && got->top_k == 40);
        assert_true(got->n_biases == 1 && got->biases[0].token == 5 && isinf(got->biases[0].bias));
        wire_close(&w);
}

static void test_bad_sampling(void **state) {
        struct fixture *f = *state;
        Confab__V1__Sampling s = CONFAB__V1__SAMPLING__INIT;
        Confab__V1__LogitBias bias = CONFAB__V1__LOGIT_BIAS__INIT, *biases[SAMPLING_MAX_BIASES + 1];
        struct wire w;
        REQUEST(r, OPEN, Open, open, m);

        fixture_client(f, &w);
        m.sampling = &s;
        s.has_top_p = true;
        s.top_p = NAN;
        expect_error(&w, wire_send(&w, &r), "invalid", false);
        s.top_p = 0.5f;
        for (size_t i = 0; i <= SAMPLING_MAX_BIASES; i++)
                biases[i] = &bias;
        s.logit_bias = biases;
        s.n_logit_bias = SAMPLING_MAX_BIASES + 1;
        r.has_id = false;
        expect_error(&w, wire_send(&w, &r), "invalid", false);
        s.n_logit_bias = 1;
        bias.has_bias = true;
        bias.bias = NAN;
        r.has_id = false;
        expect_error(&w, wire_send(&w, &r), "invalid", false);
        assert_int_equal(fake.n, 0);
        wire_close(&w);
}

static void test_continue(void **state) {
        struct fixture *f = *state;
        Confab__V1__Ref ref = CONFAB__V1__REF__INIT;
        char *stops[] = {proto_borrow("end"), proto_borrow("\n\n")};
        const struct engine_request *got;
        struct wire w;
        REQUEST(r, CONTINUE, Continue, continue_, m);

        fixture_client(f, &w);
        ref.name = proto_borrow("work");
        m.conversation = &ref;
        m.input_case = CONFAB__V1__CONTINUE__INPUT_MESSAGE;
        m.message = proto_borrow("Hello");
        m.has_role = true;
        m.role = CONFAB__V1__ROLE__ROLE_SYSTEM;
        m.has_max_tokens = true;
        m.max_tokens = 0;
        m.stop = stops;
        m.n_stop = 2;
        m.has_logprobs = true;
        m.logprobs = 3;
        m.has_expect_revision = true;
        m.expect_revision = 12;
        m.has_background = m.background = m.has_ignore_eos = m.ignore_eos = true;
        m.has_wait = m.wait = true;
        wire_send(&w, &r);
        fixture_wait_requests(f, 1);
        got = &fake.requests[0].r;
        assert_int_equal(got->verb, ENGINE_CONTINUE);
        assert_string_equal(fake.requests[0].conv_name, "work");
        assert_int_equal(got->conv_id, 0);
        assert_int_equal(got->input, ENGINE_INPUT_MESSAGE);
        assert_string_equal(fake.requests[0].text, "Hello");
        assert_int_equal(got->role, ENGINE_SYSTEM);
        assert_int_equal(got->max_tokens, 0);
        assert_string_equal(fake.requests[0].stops[1], "\n\n");
        assert_true(got->want_logprobs && got->n_logprobs == 3);
        assert_true(got->has_expect_revision && got->expect_revision == 12);
        assert_true(got->background && got->ignore_eos && got->wait);
        assert_false(got->cuts);
        wire_close(&w);
}

static void test_continue_inputs(void **state) {
        struct fixture *f = *state;
        Confab__V1__Ref ref = CONFAB__V1__REF__INIT;
        Confab__V1__Tokens tokens = CONFAB__V1__TOKENS__INIT;
        uint8_t raw[] = {'a', 0, 0xff};
        int32_t ids[] = {5, -1, 7};
        struct wire w;
        REQUEST(r, CONTINUE, Continue, continue_, m);

        fixture_client(f, &w);
        ref.has_id = true;
        ref.id = 3;
        m.conversation = &ref;
        m.input_case = CONFAB__V1__CONTINUE__INPUT_RAW;
        m.raw.data = raw;
        m.raw.len = 3;
        wire_send(&w, &r);
        fixture_wait_requests(f, 1);
        assert_int_equal(fake.requests[0].r.input, ENGINE_INPUT_RAW);
        assert_int_equal(fake.requests[0].r.text_size, 3);
        assert_memory_equal(fake.requests[0].text, raw, 3);
        assert_int_equal(fake.requests[0].r.max_tokens, ENGINE_UNSET);
        assert_int_equal(fake.requests[0].r.role, ENGINE_USER);
        m.input_case = CONFAB__V1__CONTINUE__INPUT_TOKENS;
        m.tokens = &tokens;
        tokens.ids = ids;
        tokens.n_ids = 3;
        r.has_id = false;
        wire_send(&w, &r);
        fixture_wait_requests(f, 2);
        assert_int_equal(fake.requests[1].r.n_tokens, 3);
        assert_memory_equal(fake.requests[1].tokens, ids, sizeof(ids));
        m.input_case = CONFAB__V1__CONTINUE__INPUT_NOTHING;
        m.nothing = true;
        r.has_id = false;
        wire_send(&w, &r);
        fixture_wait_requests(f, 3);
        assert_int_equal(fake.requests[2].r.input, ENGINE_INPUT_NONE);
        /* From an earlier place: 0 is one, too. */
        m.from_case = CONFAB__V1__CONTINUE__FROM_AT_TURN;
        m.at_turn = 0;
        r.has_id = false;
        wire_send(&w, &r);
        fixture_wait_requests(f, 4);
        assert_true(fake.requests[3].r.cuts);
        assert_int_equal(fake.requests[3].r.at_turn, 0);
        assert_int_equal(fake.requests[3].r.at_position, ENGINE_UNSET);
        m.from_case = CONFAB__V1__CONTINUE__FROM_AT_POSITION;
        m.at_position = 77;
        r.has_id = false;
        wire_send(&w, &r);
        fixture_wait_requests(f, 5);
        assert_true(fake.requests[4].r.cuts);
        assert_int_equal(fake.requests[4].r.at_turn, ENGINE_UNSET);
        assert_int_equal(fake.requests[4].r.at_position, 77);
        wire_close(&w);
}

/* The greatest number is one that is too large, not one that was left out. */
static void test_greatest_number(void **state) {
        struct fixture *f = *state;
        Confab__V1__Ref ref = CONFAB__V1__REF__INIT;
        struct wire w;
        REQUEST(r, CONTINUE, Continue, continue_, m);
        REQUEST(r2, REWIND, Rewind, rewind, m2);
        REQUEST(r3, FORK, Fork, fork, m3);

        fixture_client(f, &w);
        ref.has_id = true;
        ref.id = 1;
        m.conversation = m2.conversation = m3.conversation = &ref;
        m.input_case = CONFAB__V1__CONTINUE__INPUT_NOTHING;
        m.has_max_tokens = true;
        m.max_tokens = UINT32_MAX;
        expect_error(&w, wire_send(&w, &r), "invalid", false);
        m.has_max_tokens = false;
        m.from_case = CONFAB__V1__CONTINUE__FROM_AT_TURN;
        m.at_turn = UINT32_MAX;
        r.has_id = false;
        expect_error(&w, wire_send(&w, &r), "invalid", false);
        m2.to_case = CONFAB__V1__REWIND__TO_AT_TURN;
        m2.at_turn = UINT32_MAX;
        expect_error(&w, wire_send(&w, &r2), "invalid", false);
        m2.to_case = CONFAB__V1__REWIND__TO_AT_POSITION;
        m2.at_position = UINT32_MAX;
        r2.has_id = false;
        expect_error(&w, wire_send(&w, &r2), "invalid", false);
        m3.has_at_turn = true;
        m3.at_turn = UINT32_MAX;
        expect_error(&w, wire_send(&w, &r3), "invalid", false);
        m3.has_at_turn = false;
        m3.has_at_position = true;
        m3.at_position = UINT32_MAX;
        r3.has_id = false;
        expect_error(&w, wire_send(&w, &r3), "invalid", false);
        wire_close(&w);
}

/* Definitions of tools, results of calls, messages that are given: as they came, and nothing is made
 * up. */
static void test_tools(void **state) {
        struct fixture *f = *state;
        Confab__V1__Ref ref = CONFAB__V1__REF__INIT;
        Confab__V1__ToolResult a = CONFAB__V1__TOOL_RESULT__INIT, b = CONFAB__V1__TOOL_RESULT__INIT,
                               *results[] = {&a, &b};
        Confab__V1__ToolResults all = CONFAB__V1__TOOL_RESULTS__INIT;
        Confab__V1__Call c = CONFAB__V1__CALL__INIT, d = CONFAB__V1__CALL__INIT,
                         *calls[] = {&c, &d};
        Confab__V1__Given given = CONFAB__V1__GIVEN__INIT;
        struct wire w;
        REQUEST(r, CONTINUE, Continue, continue_, m);

        fixture_client(f, &w);
        ref.has_id = true;
        ref.id = 3;
        m.conversation = &ref;
        m.tools = proto_borrow("[1]");
        m.has_want_parts = m.want_parts = true;
        m.input_case = CONFAB__V1__CONTINUE__INPUT_RESULTS;
        m.results = &all;
        expect_error(&w, wire_send(&w, &r), "invalid", false); /* none */
        all.results = results;
        all.n_results = 2;
        a.call_id = proto_borrow("i");
        a.name = proto_borrow("f");
        a.text = proto_borrow("one");
        b.call_id = proto_borrow("");
        r.has_id = false;
        expect_error(&w, wire_send(&w, &r), "invalid", false); /* which call? */
        b.call_id = NULL;
        r.has_id = false;
        expect_error(&w, wire_send(&w, &r), "invalid", false);
        assert_int_equal(fake.n, 0);
        b.call_id = proto_borrow("j");
        r.has_id = false;
        wire_send(&w, &r);
        fixture_wait_requests(f, 1);
        assert_int_equal(fake.requests[0].r.input, ENGINE_INPUT_RESULTS);
        assert_string_equal(fake.requests[0].results, "i|f|one;j|-|;");
        assert_string_equal(fake.requests[0].tools, "[1]");
        assert_true(fake.requests[0].r.want_parts);
        m.input_case = CONFAB__V1__CONTINUE__INPUT_GIVEN;
        m.given = &given;
        m.tools = proto_borrow("");
        m.has_want_parts = false;
        m.want_parts = false;
        given.text = proto_borrow("text");
        given.reasoning = proto_borrow("why");
        given.calls = calls;
        given.n_calls = 2;
        c.id = proto_borrow("i");
        c.name = proto_borrow("f");
        c.arguments = proto_borrow("{\"x\":1}");
        r.has_id = false;
        expect_error(&w, wire_send(&w, &r), "invalid", false); /* the second has no name */
        d.name = proto_borrow("g");
        r.has_id = false;
        wire_send(&w, &r);
        fixture_wait_requests(f, 2);
        assert_int_equal(fake.requests[1].r.input, ENGINE_INPUT_GIVEN);
        assert_string_equal(fake.requests[1].calls, "i|f|{\"x\":1};-|g|{};");
        assert_string_equal(fake.requests[1].reasoning, "why");
        assert_string_equal(fake.requests[1].text, "text");
        assert_null(fake.requests[1].r.tools);
        assert_false(fake.requests[1].r.want_parts);
        wire_close(&w);
}

/* Messages of all roles: as they came. */
static void test_messages(void **state) {
        struct fixture *f = *state;
        Confab__V1__Ref ref = CONFAB__V1__REF__INIT;
        Confab__V1__ToolResult a = CONFAB__V1__TOOL_RESULT__INIT, *results[] = {&a};
        Confab__V1__Call c = CONFAB__V1__CALL__INIT, d = CONFAB__V1__CALL__INIT,
                         *calls[] = {&c, &d};
        static Confab__V1__Message list[ENGINE_MAX_MESSAGES + 1], *all[ENGINE_MAX_MESSAGES + 1];
        Confab__V1__Messages messages = CONFAB__V1__MESSAGES__INIT;
        struct wire w;
        REQUEST(r, CONTINUE, Continue, continue_, m);

        fixture_client(f, &w);
        for (size_t i = 0; i <= ENGINE_MAX_MESSAGES; i++) {
                list[i] = (Confab__V1__Message)CONFAB__V1__MESSAGE__INIT;
                list[i].text = i < 4 ? NULL : proto_borrow("more");
                all[i] = &list[i];
        }
        ref.has_id = true;
        ref.id = 3;
        m.conversation = &ref;
        m.input_case = CONFAB__V1__CONTINUE__INPUT_MESSAGES;
        m.messages = &messages;
        messages.messages = all;
        expect_error(&w, wire_send(&w, &r), "invalid", false); /* none */
        list[0].has_role = list[1].has_role = list[2].has_role = true;
        list[0].role = CONFAB__V1__ROLE__ROLE_USER;
        list[0].text = proto_borrow("hello");
        messages.n_messages = 4;
        list[1].role = CONFAB__V1__ROLE__ROLE_ASSISTANT;
        list[1].reasoning = proto_borrow("why");
        list[1].calls = calls;
        list[1].n_calls = 2;
        c.id = proto_borrow("i");
        c.name = proto_borrow("f");
        c.arguments = proto_borrow("{\"x\":1}");
        d.name = proto_borrow("g");
        list[2].role = CONFAB__V1__ROLE__ROLE_TOOL;
        list[2].results = results;
        list[2].n_results = 1;
        a.call_id = proto_borrow("i");
        r.has_id = false;
        expect_error(&w, wire_send(&w, &r), "invalid", false); /* the last has no role */
        list[3].has_role = true;
        list[3].role = CONFAB__V1__ROLE__ROLE_RAW;
        r.has_id = false;
        expect_error(&w, wire_send(&w, &r), "invalid", false);
        messages.n_messages = ENGINE_MAX_MESSAGES + 1;
        r.has_id = false;
        expect_error(&w, wire_send(&w, &r), "invalid", false);
        assert_int_equal(fake.n, 0);
        messages.n_messages = 4;
        list[3].role = CONFAB__V1__ROLE__ROLE_SYSTEM;
        list[3].text = proto_borrow("Be kind.");
        r.has_id = false;
        wire_send(&w, &r);
        fixture_wait_requests(f, 1);
        assert_int_equal(fake.requests[0].r.input, ENGINE_INPUT_MESSAGES);
        assert_int_equal(fake.requests[0].r.n_messages, 4);
        assert_string_equal(fake.requests[0].messages,
                "1|hello|-;2|-|why;i|f|{\"x\":1};-|g|{};4|-|-;i|-|;0|Be kind.|-;");
        wire_close(&w);
}

static void test_continue_refuses(void **state) {
        struct fixture *f = *state;
        Confab__V1__Ref ref = CONFAB__V1__REF__INIT;
        char *stops[ENGINE_MAX_STOPS + 1];
        struct wire w;
        REQUEST(r, CONTINUE, Continue, continue_, m);

        fixture_client(f, &w);
        m.input_case = CONFAB__V1__CONTINUE__INPUT_NOTHING;
        expect_error(&w, wire_send(&w, &r), "invalid", false); /* no conversation */
        m.conversation = &ref;
        r.has_id = false;
        expect_error(&w, wire_send(&w, &r), "invalid", false); /* an empty one */
        ref.has_id = true;
        ref.id = 1;
        ref.name = proto_borrow("both");
        r.has_id = false;
        expect_error(&w, wire_send(&w, &r), "invalid", false);
        ref.name = NULL;
        m.input_case = CONFAB__V1__CONTINUE__INPUT__NOT_SET;
        r.has_id = false;
        expect_error(&w, wire_send(&w, &r), "invalid", false);
        m.input_case = CONFAB__V1__CONTINUE__INPUT_NOTHING;
        for (size_t i = 0; i <= ENGINE_MAX_STOPS; i++)
                stops[i] = proto_borrow("x");
        m.stop = stops;
        m.n_stop = ENGINE_MAX_STOPS + 1;
        r.has_id = false;
        expect_error(&w, wire_send(&w, &r), "invalid", false);
        stops[0] = proto_borrow("");
        m.n_stop = 1;
        r.has_id = false;
        expect_error(&w, wire_send(&w, &r), "invalid", false);
        m.n_stop = 0;
        m.has_logprobs = true;
        m.logprobs = UINT32_MAX;
        r.has_id = false;
        expect_error(&w, wire_send(&w, &r), "invalid", false);
        m.has_logprobs = false;
        m.input_case = CONFAB__V1__CONTINUE__INPUT_MESSAGE;
        m.message = proto_borrow("x");
        m.has_role = true;
        m.role = CONFAB__V1__ROLE__ROLE_RAW;
        r.has_id = false;
        expect_error(&w, wire_send(&w, &r), "invalid", false);
        m.role = (Confab__V1__Role)99;
        r.has_id = false;
        expect_error(&w, wire_send(&w, &r), "invalid", false);
        assert_int_equal(fake.n, 0);
        wire_close(&w);
}

static void test_fork_and_rewind(void **state) {
        struct fixture *f = *state;
        Confab__V1__Ref ref = CONFAB__V1__REF__INIT;
        struct wire w;
        REQUEST(r, FORK, Fork, fork, m);
        REQUEST(r2, REWIND, Rewind, rewind, m2);

        fixture_client(f, &w);
        ref.has_id = true;
        ref.id = 3;
        m.conversation = m2.conversation = &ref;
        m.name = proto_borrow("branch");
        wire_send(&w, &r);
        fixture_wait_requests(f, 1);
        assert_string_equal(fake.requests[0].name, "branch");
        assert_int_equal(fake.requests[0].r.at_turn, ENGINE_UNSET);
        m.has_at_turn = true;
        m.at_turn = 0;
        r.has_id = false;
        wire_send(&w, &r);
        fixture_wait_requests(f, 2);
        assert_int_equal(fake.requests[1].r.at_turn, 0);
        m2.to_case = CONFAB__V1__REWIND__TO_TURNS;
        m2.turns = 2;
        wire_send(&w, &r2);
        fixture_wait_requests(f, 3);
        assert_int_equal(fake.requests[2].r.verb, ENGINE_REWIND);
        assert_int_equal(fake.requests[2].r.at_turn, ENGINE_UNSET);
        assert_int_equal(fake.requests[2].r.drop_turns, 2);
        m2.to_case = CONFAB__V1__REWIND__TO_AT_TURN;
        m2.at_turn = 4;
        m2.has_expect_revision = true;
        m2.expect_revision = 8;
        r2.has_id = false;
        wire_send(&w, &r2);
        fixture_wait_requests(f, 4);
        assert_int_equal(fake.requests[3].r.at_turn, 4);
        assert_int_equal(fake.requests[3].r.expect_revision, 8);
        m2.to_case = CONFAB__V1__REWIND__TO__NOT_SET;
        r2.has_id = false;
        expect_error(&w, wire_send(&w, &r2), "invalid", false);
        wire_close(&w);
}

static void test_list_limits(void **state) {
        struct fixture *f = *state;
        struct wire w;
        REQUEST(r, LIST, List, list, m);

        fixture_client(f, &w);
        wire_send(&w, &r);
        fixture_wait_requests(f, 1);
        assert_int_equal(fake.requests[0].r.limit, 100);
        m.has_limit = m.has_after_id = true;
        m.limit = 1000000;
        m.after_id = 17;
        r.has_id = false;
        wire_send(&w, &r);
        fixture_wait_requests(f, 2);
        assert_int_equal(fake.requests[1].r.limit, 100);
        assert_true(fake.requests[1].r.goes_on);
        assert_int_equal(fake.requests[1].r.after.id, 17);
        m.has_all_users = m.all_users = true;
        r.has_id = false;
        if (getuid() == 0) {
                wire_send(&w, &r);
                fixture_wait_requests(f, 3);
                assert_true(fake.requests[2].r.all_users && fake.requests[2].r.admin);
        } else
                expect_error(&w, wire_send(&w, &r), "permission", false);
        wire_close(&w);
}

static void test_other_verbs(void **state) {
        struct fixture *f = *state;
        Confab__V1__Ref ref = CONFAB__V1__REF__INIT;
        struct wire w;
        REQUEST(close_, CLOSE, Close, close, m1);
        REQUEST(get, GET, Get, get, m2);
        REQUEST(update, UPDATE, Update, update, m3);
        REQUEST(warm, WARM, Warm, warm, m4);
        REQUEST(evict, EVICT, Evict, evict, m5);
        REQUEST(tokenize, TOKENIZE, Tokenize, tokenize, m6);
        REQUEST(info, MODEL_INFO, ModelInfo, model_info, m7);

        fixture_client(f, &w);
        ref.has_id = true;
        ref.id = 3;
        m1.conversation = m2.conversation = m3.conversation = m4.conversation = m5.conversation =
                &ref;
        m2.has_turns = m2.turns = true;
        m3.name = proto_borrow("new");
        m6.text = proto_borrow("some text");
        m6.has_special = m6.special = true;
        wire_send(&w, &close_);
        wire_send(&w, &get);
        wire_send(&w, &update);
        wire_send(&w, &warm);
        wire_send(&w, &evict);
        wire_send(&w, &tokenize);
        wire_send(&w, &info);
        fixture_wait_requests(f, 7);
        assert_int_equal(fake_last(ENGINE_CLOSE)->r.conv_id, 3);
        assert_true(fake_last(ENGINE_GET)->r.want_turns && !fake_last(ENGINE_GET)->r.want_tokens);
        assert_string_equal(fake_last(ENGINE_UPDATE)->name, "new");
        assert_false(fake_last(ENGINE_UPDATE)->r.has_pinned);
        assert_false(fake_last(ENGINE_UPDATE)->r.reset_sampling);
        assert_int_equal(fake_last(ENGINE_WARM)->r.conv_id, 3);
        assert_int_equal(fake_last(ENGINE_EVICT)->r.conv_id, 3);
        assert_string_equal(fake_last(ENGINE_TOKENIZE)->text, "some text");
        assert_true(fake_last(ENGINE_TOKENIZE)->r.special);
        assert_non_null(fake_last(ENGINE_MODEL_INFO));
        m3.name = proto_borrow("");
        update.has_id = false;
        expect_error(&w, wire_send(&w, &update), "invalid", false);
        /* The peer is the daemon's own user: it may pin. */
        m3.name = NULL;
        m3.has_pinned = m3.pinned = m3.has_reset_sampling = m3.reset_sampling = true;
        update.has_id = false;
        wire_send(&w, &update);
        fixture_wait_requests(f, 8);
        assert_true(fake.requests[7].r.has_pinned && fake.requests[7].r.pinned);
        assert_true(fake.requests[7].r.reset_sampling);
        assert_null(fake.requests[7].r.name);
        wire_close(&w);
}

static void test_cancel(void **state) {
        struct fixture *f = *state;
        Confab__V1__Ref ref = CONFAB__V1__REF__INIT;
        struct proto_message *e;
        uint64_t running;
        struct wire w;
        REQUEST(r, CANCEL, Cancel, cancel, m);

        fixture_client(f, &w);
        running = fixture_send_continue(&w, "Hi", false);
        m.has_request = true;
        m.request = running;
        e = expect_kind(&w, wire_send(&w, &r), CONFAB__V1__EVENT__KIND_EMPTY);
        proto_message_free(e);
        assert_true(fake.requests[0].cancelled);
        m.request = 12345;
        r.has_id = false;
        expect_error(&w, wire_send(&w, &r), "not_found", false);
        ref.has_id = true;
        ref.id = 7;
        m.conversation = &ref;
        r.has_id = false;
        expect_error(&w, wire_send(&w, &r), "invalid", false);
        m.has_request = false;
        r.has_id = false;
        wire_send(&w, &r);
        fixture_wait_requests(f, 2);
        assert_int_equal(fake.requests[1].r.verb, ENGINE_CANCEL);
        assert_int_equal(fake.requests[1].r.conv_id, 7);
        wire_close(&w);
}

static void test_submit_errors(void **state) {
        struct fixture *f = *state;
        struct wire w;

        fixture_client(f, &w);
        fake_fail_submit(ERR_LIMIT, "the queue is full");
        expect_error(&w, fixture_send_stats(&w), "limit", true);
        fake_fail_submit(ERR_NOT_FOUND, "no conversation '\xff'");
        expect_error(&w, fixture_send_stats(&w), "not_found", false);
        fake_fail_submit(ERR_SHUTDOWN, "stopping");
        expect_error(&w, fixture_send_stats(&w), "shutdown", true);
        assert_int_equal(f->d->n_peers, 1);
        assert_int_equal(requests_count(&f->d->requests), 0);
        wire_close(&w);
}

static void test_requests_per_connection(void **state) {
        struct fixture *f = *state;
        struct wire w;
        uint64_t last;

        f->settings.max_connection_requests = 3;
        fixture_client(f, &w);
        for (int i = 0; i < 3; i++)
                fixture_send_stats(&w);
        last = fixture_send_stats(&w);
        expect_error(&w, last, "limit", true);
        /* Room again when one ends. */
        fake_emit_error(fake.requests[0].r.handle, ERR_STATE, "ended");
        expect_error(&w, 2, "state", false);
        fixture_send_stats(&w);
        fixture_wait_requests(f, 4);
        wire_close(&w);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test(test_hello),
                daemon_test(test_wrong_version),
                daemon_test(test_request_before_hello),
                daemon_test(test_tiny_max_frame),
                daemon_test(test_malformed_frames),
                daemon_test(test_no_verb_and_unknown_verb),
                daemon_test(test_bad_utf8),
                daemon_test(test_id_twice),
                daemon_test(test_open),
                daemon_test(test_bad_sampling),
                daemon_test(test_continue),
                daemon_test(test_continue_inputs),
                daemon_test(test_tools),
                daemon_test(test_messages),
                daemon_test(test_continue_refuses),
                daemon_test(test_greatest_number),
                daemon_test(test_fork_and_rewind),
                daemon_test(test_list_limits),
                daemon_test(test_other_verbs),
                daemon_test(test_cancel),
                daemon_test(test_submit_errors),
                daemon_test(test_requests_per_connection),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
