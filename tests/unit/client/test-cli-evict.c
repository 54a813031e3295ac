/* SPDX-License-Identifier: MIT */
/* evict, where not all could be kept. */
#include "cli-fixture.h"

static void send_evicted(struct fixture *f, uint64_t id) {
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
        Confab__V1__Conversation c = CONFAB__V1__CONVERSATION__INIT;

        event.has_request = true;
        event.request = id;
        event.kind_case = CONFAB__V1__EVENT__KIND_CONVERSATION;
        event.conversation = &c;
        c.has_id = c.has_n_tokens = c.has_residency = c.has_n_not_kept = true;
        c.id = 3;
        c.name = proto_borrow("alice");
        c.n_tokens = 120;
        c.residency = CONFAB__V1__RESIDENCY__RESIDENCY_COLD;
        c.n_not_kept = 119;
        c.why_not_kept = proto_borrow("the disk is full");
        peer_send(&f->peer, &event);
}

static void test_not_kept(void **state) {
        struct fixture f;

        BEGIN(&f, "evict", "alice");
        send_evicted(&f, expect(&f, REQ(EVICT)));
        finish(&f, 1, "alice: cold, 0 in RAM, 0 on disk\n",
                "confab: 119 of 120 tokens have to be computed again: the disk is full\n");
        START(&f, "evict", "alice", "--json");
        greet(&f);
        send_evicted(&f, expect(&f, REQ(EVICT)));
        finish(&f, 1, NULL, "the disk is full");
        assert_non_null(
                strstr(f.text, ",\"n_not_kept\":119,\"why_not_kept\":\"the disk is full\""));
        teardown(&f);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_not_kept),
        };

        if (argc != 2) {
                fprintf(stderr, "usage: test-cli-evict PROGRAM\n");
                return 2;
        }
        program = argv[1];
        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
