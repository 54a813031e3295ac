/* SPDX-License-Identifier: MIT */
/* The engine's events, as the peer receives them. */
#include "daemon-fixture.h"
#include <errno.h>

static char *chars(const char *s) {
        return proto_borrow(s);
}

static void test_generation(void **state) {
        struct fixture *f = *state;
        struct engine_logprob top[2] = {{.token = 5, .logprob = -0.25f, .text = {"yes", 3}},
                {.token = 6, .logprob = -1e-45f, .text = {{0xff}, 255}}};
        struct proto_message *m;
        struct wire w;
        uint64_t id, h;

        fixture_client(f, &w);
        id = fixture_send_continue(&w, "Hi", false);
        fixture_wait_requests(f, 1);
        h = fake.requests[0].r.handle;
        fake_emit(&(struct engine_event){.handle = h,
                .kind = ENGINE_ACCEPTED,
                .accepted = {.conv = 7,
                        .revision = 3,
                        .n_prompt = 60,
                        .n_ram = 32,
                        .n_disk = 16,
                        .n_shared = 8,
                        .n_computed = 4,
                        .differs_at = 56,
                        .differs_why = ENGINE_DIFFERS_PRIVATE}});
        m = expect_kind(&w, id, CONFAB__V1__EVENT__KIND_ACCEPTED);
        assert_int_equal(m->event->accepted->conversation, 7);
        assert_int_equal(m->event->accepted->n_prompt, 60);
        assert_int_equal(m->event->accepted->differs_at, 56);
        assert_int_equal(m->event->accepted->differs_why, CONFAB__V1__DIFFERS__DIFFERS_PRIVATE);
        assert_int_equal(m->event->accepted->n_shared, 8);
        assert_int_equal(m->event->accepted->n_computed, 4);
        proto_message_free(m);
        fake_emit(&(struct engine_event){
                .handle = h, .kind = ENGINE_PROGRESS, .progress = {.done = 5, .total = 12}});
        m = expect_kind(&w, id, CONFAB__V1__EVENT__KIND_PROGRESS);
        assert_int_equal(m->event->progress->done, 5);
        assert_int_equal(m->event->progress->total, 12);
        proto_message_free(m);
        fake_emit(&(struct engine_event){.handle = h,
                .kind = ENGINE_DELTA,
                .delta = {.text = chars("ye"),
                        .text_size = 2,
                        .has_token = true,
                        .token = 5,
                        .has_logprob = true,
                        .logprob = -0.5f,
                        .token_text = {{0xc3}, 1},
                        .n_top = 2,
                        .top = top}});
        m = expect_kind(&w, id, CONFAB__V1__EVENT__KIND_DELTA);
        assert_string_equal(m->event->delta->text, "ye");
        assert_int_equal(m->event->delta->n_tokens, 1);
        assert_int_equal(m->event->delta->tokens[0]->token, 5);
        assert_true(m->event->delta->tokens[0]->logprob == -0.5f);
        assert_int_equal(m->event->delta->tokens[0]->text.len, 1);
        assert_memory_equal(m->event->delta->tokens[0]->text.data, "\xc3", 1);
        assert_int_equal(m->event->delta->tokens[0]->n_top, 2);
        assert_int_equal(m->event->delta->tokens[0]->top[0]->text.len, 3);
        /* A size past the array is cut, not believed. */
        assert_int_equal(m->event->delta->tokens[0]->top[1]->text.len, 64);
        assert_true(m->event->delta->tokens[0]->top[1]->logprob == -1e-45f);
        proto_message_free(m);
        fake_emit(&(struct engine_event){
                .handle = h, .kind = ENGINE_DELTA, .delta = {.text = chars("s"), .text_size = 1}});
        m = expect_kind(&w, id, CONFAB__V1__EVENT__KIND_DELTA);
        assert_int_equal(m->event->delta->n_tokens, 0);
        proto_message_free(m);
        fake_emit(&(struct engine_event){.handle = h,
                .kind = ENGINE_DONE,
                .final = true,
                .done = {.finish = ENGINE_FINISH_STOP_STRING,
                        .revision = 4,
                        .seed = UINT64_MAX,
                        .n_prompt = 60,
                        .n_generated = 2,
                        .n_drafted = 5,
                        .n_accepted = 3,
                        .queued_usec = 1,
                        .stop = chars("\n")}});
        m = expect_kind(&w, id, CONFAB__V1__EVENT__KIND_DONE);
        assert_int_equal(m->event->done->finish, CONFAB__V1__FINISH_REASON__FINISH_STOP_STRING);
        assert_int_equal(m->event->done->revision, 4);
        assert_true(m->event->done->seed == UINT64_MAX);
        assert_string_equal(m->event->done->stop, "\n");
        assert_int_equal(m->event->done->n_drafted, 5);
        assert_int_equal(m->event->done->n_accepted, 3);
        proto_message_free(m);
        /* Nothing is left of it. */
        assert_int_equal(f->d->n_peers, 1);
        fake_emit_delta(h, "late", 1);
        fake_answer(ENGINE_STATS, true);
        proto_message_free(expect_kind(&w, fixture_send_stats(&w), CONFAB__V1__EVENT__KIND_STATS));
        wire_close(&w);
}

static uint64_t send_get(struct wire *w) {
        Confab__V1__Ref ref = CONFAB__V1__REF__INIT;
        REQUEST(r, GET, Get, get, m);

        ref.has_id = true;
        ref.id = 7;
        m.conversation = &ref;
        return wire_send(w, &r);
}

static void test_conversation(void **state) {
        struct fixture *f = *state;
        struct engine_turn turns[2] = {{.role = ENGINE_USER,
                                               .start = 0,
                                               .end = 3,
                                               .text = (uint8_t *)chars("Hi\0x"),
                                               .text_size = 4},
                {.role = ENGINE_ASSISTANT,
                        .start = 3,
                        .end = 5,
                        .finish = ENGINE_FINISH_STOP,
                        .text = (uint8_t *)chars(""),
                        .text_size = 0,
                        .created_usec = 99}};
        int32_t tokens[5] = {1, 2, 3, -4, 5};
        struct engine_event ev = {.kind = ENGINE_CONV,
                .final = true,
                .conv = {.id = 7,
                        .name = chars("work"),
                        .owner = 5,
                        .parent = 3,
                        .fork_pos = 2,
                        .revision = 9,
                        .n_tokens = 5,
                        .n_turns = 2,
                        .n_turn_list = 2,
                        .n_token_list = 5,
                        .residency = ENGINE_SPILLED,
                        .ram_size = 1ull << 40,
                        .disk_size = 4096,
                        .busy = true,
                        .sampling = {.has = SAMPLING_TOP_P | SAMPLING_BIASES,
                                .top_p = 0.9f,
                                .n_biases = 2,
                                .biases = {{1, 2.0f}, {3, -4.0f}}},
                        .turns = turns,
                        .tokens = tokens}};
        Confab__V1__Conversation *c;
        struct proto_message *m;
        struct wire w;
        uint64_t id;

        fixture_client(f, &w);
        id = send_get(&w);
        fixture_wait_requests(f, 1);
        ev.handle = fake.requests[0].r.handle;
        fake_emit(&ev);
        m = expect_kind(&w, id, CONFAB__V1__EVENT__KIND_CONVERSATION);
        c = m->event->conversation;
        assert_string_equal(c->name, "work");
        assert_int_equal(c->residency, CONFAB__V1__RESIDENCY__RESIDENCY_SPILLED);
        assert_true(c->ram_bytes == 1ull << 40 && c->busy && !c->generating);
        assert_int_equal(c->n_turn_list, 2);
        assert_int_equal(c->turn_list[0]->role, CONFAB__V1__ROLE__ROLE_USER);
        assert_false(c->turn_list[0]->has_finish);
        assert_int_equal(c->turn_list[0]->text.len, 4);
        assert_int_equal(c->turn_list[1]->finish, CONFAB__V1__FINISH_REASON__FINISH_STOP);
        assert_int_equal(c->turn_list[1]->created_usec, 99);
        assert_int_equal(c->n_token_list, 5);
        assert_int_equal(c->token_list[3], -4);
        assert_true(c->sampling->has_top_p && c->sampling->top_p == 0.9f);
        assert_false(c->sampling->has_temperature);
        assert_int_equal(c->sampling->n_logit_bias, 2);
        assert_true(c->sampling->logit_bias[1]->bias == -4.0f);
        proto_message_free(m);
        wire_close(&w);
}

static void expect_part(const Confab__V1__Part *part, uint32_t index, Confab__V1__PartKind kind,
        const char *text, const char *call_id, const char *name, bool ends, const char *broken) {
        assert_int_equal(part->index, index);
        assert_int_equal(part->kind, kind);
        assert_string_equal(part->text, text);
        assert_string_equal(part->call_id ? part->call_id : "-", call_id ? call_id : "-");
        assert_string_equal(part->name ? part->name : "-", name ? name : "-");
        assert_int_equal(part->ends, ends);
        assert_string_equal(part->broken ? part->broken : "-", broken ? broken : "-");
}

static void test_parts(void **state) {
        static struct engine_part parts[] = {
                {.kind = ENGINE_PART_REASONING, .text = "hm", .text_size = 2, .ends = true},
                {.index = 1,
                        .kind = ENGINE_PART_CALL,
                        .text = "{",
                        .text_size = 1,
                        .call_id = "i",
                        .name = "f",
                        .ends = true,
                        .broken = "cut"},
                {.index = 2, .kind = ENGINE_PART_TEXT, .text = "", .text_size = 0}};
        static struct engine_result results[] = {{"i", "f", "1"}, {"j", NULL, "2"}};
        struct fixture *f = *state;
        struct engine_turn turns[2] = {{.role = ENGINE_ASSISTANT,
                                               .text = (uint8_t *)chars("x"),
                                               .text_size = 1,
                                               .parts = parts,
                                               .n_parts = 3},
                {.role = ENGINE_TOOL,
                        .text = (uint8_t *)chars("[]"),
                        .text_size = 2,
                        .results = results,
                        .n_results = 2,
                        .tools = chars("[2]")}};
        struct engine_event ev = {.kind = ENGINE_CONV,
                .final = true,
                .conv = {.id = 7,
                        .name = chars("work"),
                        .n_turns = 2,
                        .n_turn_list = 2,
                        .tools = chars("[1]"),
                        .turns = turns}};
        struct engine_event delta = {
                .kind = ENGINE_DELTA, .delta = {.text = chars(""), .parts = parts, .n_parts = 2}};
        struct engine_event done = {
                .kind = ENGINE_DONE, .final = true, .done = {.has_n_calls = true, .n_calls = 4}};
        Confab__V1__Conversation *c;
        struct proto_message *m;
        struct wire w;
        uint64_t id;

        fixture_client(f, &w);
        id = send_get(&w);
        fixture_wait_requests(f, 1);
        ev.handle = fake.requests[0].r.handle;
        fake_emit(&ev);
        m = expect_kind(&w, id, CONFAB__V1__EVENT__KIND_CONVERSATION);
        c = m->event->conversation;
        assert_string_equal(c->tools, "[1]");
        assert_int_equal(c->turn_list[0]->n_parts, 3);
        expect_part(c->turn_list[0]->parts[0], 0, CONFAB__V1__PART_KIND__PART_REASONING, "hm", NULL,
                NULL, true, NULL);
        expect_part(c->turn_list[0]->parts[1], 1, CONFAB__V1__PART_KIND__PART_CALL, "{", "i", "f",
                true, "cut");
        expect_part(c->turn_list[0]->parts[2], 2, CONFAB__V1__PART_KIND__PART_TEXT, "", NULL, NULL,
                false, NULL);
        assert_int_equal(c->turn_list[1]->role, CONFAB__V1__ROLE__ROLE_TOOL);
        assert_string_equal(c->turn_list[1]->tools, "[2]");
        assert_int_equal(c->turn_list[1]->n_results, 2);
        assert_string_equal(c->turn_list[1]->results[0]->call_id, "i");
        assert_null(c->turn_list[1]->results[1]->name);
        assert_string_equal(c->turn_list[1]->results[1]->text, "2");
        proto_message_free(m);
        id = fixture_send_continue(&w, "Hi", false);
        fixture_wait_requests(f, 2);
        delta.handle = done.handle = fake.requests[1].r.handle;
        fake_emit(&delta);
        fake_emit(&done);
        m = expect_kind(&w, id, CONFAB__V1__EVENT__KIND_DELTA);
        assert_int_equal(m->event->delta->n_parts, 2);
        expect_part(m->event->delta->parts[1], 1, CONFAB__V1__PART_KIND__PART_CALL, "{", "i", "f",
                true, "cut");
        proto_message_free(m);
        m = expect_kind(&w, id, CONFAB__V1__EVENT__KIND_DONE);
        assert_true(m->event->done->has_n_calls && m->event->done->n_calls == 4);
        proto_message_free(m);
        wire_close(&w);
}

static void test_too_long_for_the_peer(void **state) {
        struct fixture *f = *state;
        static char text[4096];
        struct engine_turn turn = {.text = (uint8_t *)text, .text_size = sizeof(text)};
        struct engine_event ev = {.kind = ENGINE_CONV,
                .final = true,
                .conv = {.id = 7,
                        .name = chars("work"),
                        .n_turns = 1,
                        .n_turn_list = 1,
                        .turns = &turn}};
        struct wire w;
        uint64_t id;

        fixture_connect(f, &w);
        id = wire_send_hello(&w, 1, 1024);
        proto_message_free(expect_kind(&w, id, CONFAB__V1__EVENT__KIND_HELLO));
        id = send_get(&w);
        fixture_wait_requests(f, 1);
        ev.handle = fake.requests[0].r.handle;
        fake_emit(&ev);
        expect_error(&w, id, "limit", false);
        wire_close(&w);
}

/* A part of a stream that is too long is not left out in silence. */
static void test_delta_too_long_for_the_peer(void **state) {
        struct fixture *f = *state;
        struct engine_logprob top[200] = {};
        struct wire w;
        uint64_t id;

        fixture_connect(f, &w);
        id = wire_send_hello(&w, 1, 1024);
        proto_message_free(expect_kind(&w, id, CONFAB__V1__EVENT__KIND_HELLO));
        fixture_send_continue(&w, "Hi", false);
        fixture_wait_requests(f, 1);
        fake_emit(&(struct engine_event){.handle = fake.requests[0].r.handle,
                .kind = ENGINE_DELTA,
                .delta = {.has_token = true, .n_top = 200, .top = top}});
        expect_error(&w, 0, "limit", false);
        /* Nothing more comes, whatever the engine does until it hears of it. */
        fake_emit_delta(fake.requests[0].r.handle, "more", 1);
        assert_null(wire_event(&w));
        assert_true(w.eof);
        wire_close(&w);
        fixture_wait_peers(f, 0);
        assert_true(fake.requests[0].cancelled);
}

/* A list that is too long for one message comes in parts. */
static void test_list_in_parts(void **state) {
        struct fixture *f = *state;
        struct engine_conv convs[40] = {};
        struct engine_event ev = {
                .kind = ENGINE_CONVS, .final = true, .convs = {.convs = convs, .n = 40}};
        struct proto_message *m;
        struct wire w;
        uint64_t id;
        REQUEST(r, LIST, List, list, list);

        for (unsigned i = 0; i < 40; i++) {
                convs[i].id = i + 1;
                convs[i].name = chars("a conversation with a rather long name");
        }
        fixture_connect(f, &w);
        id = wire_send_hello(&w, 1, 2000);
        proto_message_free(expect_kind(&w, id, CONFAB__V1__EVENT__KIND_HELLO));
        id = wire_send(&w, &r);
        fixture_wait_requests(f, 1);
        ev.handle = fake.requests[0].r.handle;
        fake_emit(&ev);
        m = expect_kind(&w, id, CONFAB__V1__EVENT__KIND_CONVERSATIONS);
        assert_in_range(m->event->conversations->n_conversations, 5, 39);
        assert_true(m->event->conversations->more);
        assert_int_equal(m->event->conversations->conversations[0]->id, 1);
        proto_message_free(m);
        r.has_id = false;
        id = wire_send(&w, &r);
        fixture_wait_requests(f, 2);
        ev.handle = fake.requests[1].r.handle;
        ev.convs.n = 2;
        fake_emit(&ev);
        m = expect_kind(&w, id, CONFAB__V1__EVENT__KIND_CONVERSATIONS);
        assert_int_equal(m->event->conversations->n_conversations, 2);
        assert_false(m->event->conversations->more);
        proto_message_free(m);
        wire_close(&w);
}

static void test_info_tokens_stats(void **state) {
        struct fixture *f = *state;
        uint8_t pieces[] = {'H', 'e', 'y'};
        uint32_t ends[2] = {2, 3};
        int32_t ids[2] = {10, 20};
        struct engine_stat stats[1] = {{"steps", UINT64_MAX}};
        struct proto_message *m;
        struct wire w;
        uint64_t id;
        REQUEST(r, TOKENIZE, Tokenize, tokenize, tok);
        REQUEST(r2, MODEL_INFO, ModelInfo, model_info, info);

        fixture_client(f, &w);
        id = wire_send(&w, &r);
        fixture_wait_requests(f, 1);
        fake_emit(&(struct engine_event){.handle = fake.requests[0].r.handle,
                .kind = ENGINE_TOKENS,
                .final = true,
                .tokens = {.ids = ids, .n = 2, .pieces = pieces, .piece_ends = ends}});
        m = expect_kind(&w, id, CONFAB__V1__EVENT__KIND_TOKENIZE);
        assert_int_equal(m->event->tokenize->n_tokens, 2);
        assert_int_equal(m->event->tokenize->tokens[1], 20);
        assert_int_equal(m->event->tokenize->pieces[0].len, 2);
        assert_int_equal(m->event->tokenize->pieces[1].len, 1);
        assert_int_equal(m->event->tokenize->pieces[1].data[0], 'y');
        proto_message_free(m);
        id = wire_send(&w, &r2);
        fixture_wait_requests(f, 2);
        fake_emit(&(struct engine_event){.handle = fake.requests[1].r.handle,
                .kind = ENGINE_INFO,
                .final = true,
                .info = {.name = "tiny",
                        .arch = "llama",
                        .context = 2048,
                        .fingerprint = {0xabc, 1},
                        .isa = "generic"}});
        m = expect_kind(&w, id, CONFAB__V1__EVENT__KIND_MODEL_INFO);
        assert_string_equal(m->event->model_info->name, "tiny");
        assert_string_equal(m->event->model_info->fingerprint, "0000000000000abc0000000000000001");
        assert_int_equal(m->event->model_info->context, 2048);
        proto_message_free(m);
        id = fixture_send_stats(&w);
        fixture_wait_requests(f, 3);
        fake_emit(&(struct engine_event){.handle = fake.requests[2].r.handle,
                .kind = ENGINE_STATS_RESULT,
                .final = true,
                .stats = {.stats = stats, .n = 1}});
        m = expect_kind(&w, id, CONFAB__V1__EVENT__KIND_STATS);
        assert_string_equal(m->event->stats->stats[0]->name, "steps");
        assert_true(m->event->stats->stats[0]->value == UINT64_MAX);
        assert_string_equal(m->event->stats->stats[1]->name, "connections");
        assert_int_equal(m->event->stats->stats[1]->value, 1);
        proto_message_free(m);
        wire_close(&w);
}

/* With users: as many as the peer's longest message has room for, those with the most RAM. Of a register that can't be
 * read the rest is told. */
static void test_stats_with_users(void **state) {
        static struct engine_user users[ENGINE_STATS_USERS];
        static struct engine_meters meters;
        struct engine_stat stats[1] = {{"steps", 7}};
        struct fixture *f = *state;
        const Confab__V1__StatsResult *s;
        struct proto_message *m;
        struct wire w;
        uint64_t id;
        REQUEST(r, STATS, Stats, stats, ask);

        for (uint32_t i = 0; i < ENGINE_STATS_USERS; i++)
                users[i] = (struct engine_user){.owner = 1000 + i, .ram_size = 1 << 20};
        meters.holding.uid = 5;
        meters.holding.n_convs = 9; /* and has_convs is not set */
        meters.holding.ram_size = 6;
        histogram_add(&meters.all.latencies[ENGINE_LATENCY_TOKEN], 150, 3);
        meters.all.rates[1][RATE_DECODED] = 2.5;
        ask.has_with_users = ask.with_users = true;
        fixture_connect(f, &w);
        id = wire_send_hello(&w, 1, 16384);
        proto_message_free(expect_kind(&w, id, CONFAB__V1__EVENT__KIND_HELLO));
        id = wire_send(&w, &r);
        fixture_wait_requests(f, 1);
        assert_true(fake.requests[0].r.want_meters && fake.requests[0].r.want_users);
        fake_emit(&(struct engine_event){.handle = fake.requests[0].r.handle,
                .kind = ENGINE_STATS_RESULT,
                .final = true,
                .stats = {.stats = stats,
                        .n = 1,
                        .meters = &meters,
                        .users = users,
                        .n_users = ENGINE_STATS_USERS}});
        m = expect_kind(&w, id, CONFAB__V1__EVENT__KIND_STATS);
        s = m->event->stats;
        assert_true(s->n_users > 100 && s->n_users < ENGINE_STATS_USERS && s->more_users);
        assert_int_equal(s->users[s->n_users - 1]->uid, 1000 + s->n_users - 1);
        assert_int_equal(s->own->uid, 5);
        assert_int_equal(s->own->ram_bytes, 6);
        assert_false(s->own->has_conversations || s->own->has_tokens);
        assert_string_equal(s->histograms[ENGINE_LATENCY_TOKEN]->name, "token");
        assert_int_equal(s->histograms[ENGINE_LATENCY_TOKEN]->buckets[1], 3);
        assert_int_equal(s->histograms[ENGINE_LATENCY_TOKEN]->sum_usec, 450);
        assert_int_equal(s->rates[1]->seconds, 60);
        assert_true(s->rates[1]->decoded == 2.5F && s->own_rates[1]->decoded == 0);
        proto_message_free(m);
        wire_close(&w);
}

static void test_error_codes(void **state) {
        struct fixture *f = *state;
        struct wire w;
        uint64_t id;

        fixture_client(f, &w);
        for (unsigned code = ERR_NOMEM; code < ERR_N_CODES; code++) {
                id = fixture_send_stats(&w);
                fixture_wait_requests(f, code);
                errno = 0;
                fake_emit_error(fake.requests[code - 1].r.handle, code, "so it is");
                expect_error(&w, id, err_code_name(code),
                        err_may_pass(&(struct err){.code = (enum err_code)code}));
        }
        /* A full disk is one day not full any more. */
        id = fixture_send_stats(&w);
        fixture_wait_requests(f, ERR_N_CODES);
        fake_emit(&(struct engine_event){.handle = fake.requests[ERR_N_CODES - 1].r.handle,
                .kind = ENGINE_ERROR,
                .final = true,
                .err = {.code = ERR_SYS, .sys = ENOSPC, .msg = "cannot commit: disk full"}});
        expect_error(&w, id, "system", true);
        wire_close(&w);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test(test_generation),
                daemon_test(test_conversation),
                daemon_test(test_parts),
                daemon_test(test_too_long_for_the_peer),
                daemon_test(test_delta_too_long_for_the_peer),
                daemon_test(test_list_in_parts),
                daemon_test(test_info_tokens_stats),
                daemon_test(test_stats_with_users),
                daemon_test(test_error_codes),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
