/* SPDX-License-Identifier: MIT */
/* Clients that resend their whole history: which conversation goes on, and what is computed. */
#include "talk-rig.h"

#define TURNS 20

static size_t count_conversations(struct harness *h) {
        struct client *c = harness_client(h);
        struct conv list[64];
        size_t n;

        assert_int_equal(client_list(c, 0, false, list, 64, &n), 0);
        client_free(c);
        return n;
}

/* Each turn computes what is new and nothing else, also after a restart of the daemon. */
static void test_twenty_turns(void **state) {
        struct harness *h = *state;
        struct history history = {0};
        struct talk_rig rig;
        struct said said;
        uint64_t id = 0;
        uint32_t before = 0;

        harness_start(h, NULL);
        rig_init(&rig, h->socket);
        history_say(&history, 's', "You answer briefly.");
        for (int i = 0; i < TURNS; i++) {
                char text[64];

                snprintf(text, sizeof(text), "My number %d is %d.", i, 10 + i);
                history_say(&history, 'u', text);
                rig_chat(&rig, &history, &said);
                assert_int_equal(said.n_accepted, 1);
                assert_int_equal(said.n_done, 1);
                assert_int_equal(said.usage[0].n_generated > 0, 1);
                if (i == 0)
                        id = said.place[0].conversation;
                else /* the message, its marks, and the token that ends the reply before */
                        assert_true(said.n_computed[0] <= said.usage[0].n_prompt - before + 1);
                assert_int_equal(said.place[0].conversation, id);
                assert_int_equal(said.place[0].input_turn, i == 0 ? 0 : 1 + 2 * i);
                assert_int_equal(said.place[0].reply_turn, 2 + 2 * i);
                before = said.usage[0].n_prompt + said.usage[0].n_generated;
                if (i == TURNS / 2) {
                        harness_stop(h);
                        harness_start(h, NULL);
                }
        }
        assert_int_equal(count_conversations(h), 1);
        history_deinit(&history);
        rig_deinit(&rig);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test(test_twenty_turns),
        };

        return DAEMON_TESTS_MAIN(tests);
}
