/* SPDX-License-Identifier: MIT */
/* Carry over the wire: what is refused, what the answer has, and that it lasts. */
#include "fixture.h"
#include "util/tiny-model.h"

/* A daemon on a model with another vocabulary. */
static void change_model(struct harness *h) {
        snprintf(h->model, sizeof(h->model), "%s/small.gguf", h->dir);
        assert_int_equal(tiny_model_write(h->model, MODEL_TINY), 0);
        harness_start(h, NULL);
}

static void test_carry(void **state) {
        struct say s = {.message = "My name is Ada.", .max_tokens = 8};
        struct harness *h = *state;
        struct conv before, v, page[3];
        struct reply r;
        struct client *c;
        uint64_t id;
        size_t n;

        harness_start(h, NULL);
        c = harness_client(h);
        assert_int_equal(client_open(c, "a", "Be kind.", &id), 0);
        s.conv = id;
        assert_int_equal(client_say(c, &s, &r), 0);
        reply_deinit(&r);
        assert_int_equal(client_carry(c, id, 0, &v), 0);
        assert_false(v.carried || v.other_vocabulary);
        conv_deinit(&v);
        assert_int_equal(client_get(c, id, true, true, &before), 0);
        client_free(c);
        harness_stop(h);

        change_model(h);
        c = harness_client(h);
        assert_int_equal(client_list(c, 0, false, page, 3, &n), 0);
        assert_int_equal(n, 1);
        assert_true(page[0].other_vocabulary && page[0].unusable_bytes > 0);
        assert_int_equal(page[0].unusable_bytes, page[0].disk_bytes);
        conv_deinit(&page[0]);
        assert_int_equal(client_say(c, &s, &r), -1);
        assert_string_equal(c->error.code, "state");
        reply_deinit(&r);
        assert_int_equal(client_carry(c, 0, 0, &v), -1);
        assert_string_equal(c->error.code, "invalid");
        assert_int_equal(client_carry(c, id + 1, 0, &v), -1);
        assert_string_equal(c->error.code, "not_found");
        assert_int_equal(client_carry(c, id, before.revision + 1, &v), -1);
        assert_string_equal(c->error.code, "conflict");
        assert_int_equal(client_carry(c, id, before.revision, &v), 0);
        assert_true(v.carried && !v.other_vocabulary && v.unusable_bytes == 0);
        assert_int_equal(v.n_tokens_before, before.n_tokens);
        assert_int_equal(v.n_biases_dropped, 0);
        assert_int_equal(v.revision, before.revision + 1);
        assert_true(v.n_tokens != before.n_tokens);
        conv_deinit(&v);
        client_free(c);
        /* What was acknowledged survives. */
        harness_kill(h);
        harness_start(h, NULL);
        c = harness_client(h);
        assert_int_equal(client_get(c, id, true, true, &v), 0);
        assert_false(v.other_vocabulary || v.carried);
        assert_int_equal(v.n_turn_list, before.n_turn_list);
        for (size_t i = 0; i < v.n_turn_list; i++) {
                assert_string_equal(v.texts[i], before.texts[i]);
                assert_int_equal(v.roles[i], before.roles[i]);
                assert_int_equal(v.finishes[i], before.finishes[i]);
        }
        conv_deinit(&v);
        conv_deinit(&before);
        assert_int_equal(client_say(c, &s, &r), 0);
        reply_deinit(&r);
        client_free(c);
        harness_stop(h);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test(test_carry),
        };

        return DAEMON_TESTS_MAIN(tests);
}
