/* SPDX-License-Identifier: MIT */
/* Every allocation of libconfab fails once, in a session with one event of each kind: all requests
 * end, nothing leaks, and outputs are untouched on failure. */
#include "client/confab.h"
#include "fault/loop.h"
#include "script.h"
#include "util/fds.h"
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_ALLOCATIONS 10000
#define N_REQUESTS 6

static struct buf script;   /* what the daemon says */
static struct buf exported; /* and with a descriptor */
static int sealed;

static void write_script(void) {
        Confab__V1__Hello hello = CONFAB__V1__HELLO__INIT;
        Confab__V1__TokenLogprob logprob = CONFAB__V1__TOKEN_LOGPROB__INIT, *top[] = {&logprob};
        Confab__V1__DeltaToken token = CONFAB__V1__DELTA_TOKEN__INIT, *tokens[] = {&token};
        Confab__V1__Delta delta = CONFAB__V1__DELTA__INIT;
        Confab__V1__Done done = CONFAB__V1__DONE__INIT;
        Confab__V1__LogitBias bias = CONFAB__V1__LOGIT_BIAS__INIT, *biases[] = {&bias};
        Confab__V1__Sampling sampling = CONFAB__V1__SAMPLING__INIT;
        Confab__V1__Turn turn = CONFAB__V1__TURN__INIT, *turns[] = {&turn};
        Confab__V1__Conversation c = CONFAB__V1__CONVERSATION__INIT, *items[] = {&c};
        Confab__V1__Conversations list = CONFAB__V1__CONVERSATIONS__INIT;
        Confab__V1__Stat stat = CONFAB__V1__STAT__INIT, *all[] = {&stat};
        Confab__V1__Exported ex = CONFAB__V1__EXPORTED__INIT;
        Confab__V1__Histogram histogram = CONFAB__V1__HISTOGRAM__INIT, *histograms[] = {&histogram};
        Confab__V1__Rates rates = CONFAB__V1__RATES__INIT, *all_rates[] = {&rates};
        Confab__V1__User user = CONFAB__V1__USER__INIT, *users[] = {&user};
        Confab__V1__StatsResult stats = CONFAB__V1__STATS_RESULT__INIT;
        uint64_t bucket = 1;
        Confab__V1__TokenizeResult tokenize = CONFAB__V1__TOKENIZE_RESULT__INIT;
        ProtobufCBinaryData piece = {1, proto_borrow("x")};
        int32_t id = 1;

        hello.has_version = true;
        hello.version = PROTO_VERSION;
        hello.has_act_uid = true;
        hello.act_uid = 5;
        hello.tenant = proto_borrow("anna");
        script_say(&script, 1, CONFAB__V1__EVENT__KIND_HELLO, &hello);
        token.has_text = true;
        token.text = piece;
        token.top = top;
        token.n_top = 1;
        delta.tokens = tokens;
        delta.n_tokens = 1;
        delta.text = proto_borrow("x");
        script_say(&script, 2, CONFAB__V1__EVENT__KIND_DELTA, &delta);
        script_say(&script, 2, CONFAB__V1__EVENT__KIND_DONE, &done);
        sampling.logit_bias = biases;
        sampling.n_logit_bias = 1;
        c.sampling = &sampling;
        c.turn_list = turns;
        c.n_turn_list = 1;
        list.conversations = items;
        list.n_conversations = 1;
        script_say(&script, 3, CONFAB__V1__EVENT__KIND_CONVERSATIONS, &list);
        stats.stats = all;
        stats.n_stats = 1;
        histogram.name = proto_borrow("queue");
        histogram.n_buckets = 1; /* and no bound */
        histogram.buckets = &bucket;
        stats.histograms = histograms;
        stats.n_histograms = 1;
        stats.rates = stats.own_rates = all_rates;
        stats.n_rates = stats.n_own_rates = 1;
        stats.own = &user;
        stats.users = users;
        stats.n_users = 1;
        script_say(&script, 4, CONFAB__V1__EVENT__KIND_STATS, &stats);
        tokenize.tokens = &id;
        tokenize.n_tokens = 1;
        tokenize.pieces = &piece;
        tokenize.n_pieces = 1;
        script_say(&script, 5, CONFAB__V1__EVENT__KIND_TOKENIZE, &tokenize);
        script_say(&script, 7, CONFAB__V1__EVENT__KIND_CONVERSATION, &c);
        script_say(&exported, 6, CONFAB__V1__EVENT__KIND_EXPORTED, &ex);
        sealed = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        assert_int_equal(fcntl(sealed, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), 0);
}

static void send_script(int socket) {
        struct proto_fds fds = {0};

        assert_int_equal(send(socket, script.data, script.size, 0), script.size);
        assert_int_equal(proto_fds_add(&fds, dup(sealed), 0, exported.size, NULL), 0);
        assert_int_equal(
                proto_send(socket, exported.data, exported.size, 0, 0, &fds), exported.size);
}

struct count {
        unsigned n_submitted, n_final, n_failed;
};

static void see(void *userdata, const struct confab_event *event) {
        struct count *count = userdata;

        count->n_final += event->final;
        count->n_failed += event->kind == CONFAB_EVENT_ERROR;
}

static int submit(
        struct confab *c, enum confab_verb verb, struct count *count, struct confab_error *e) {
        static const struct confab_bias bias = {1, 1};
        struct confab_sampling sampling = {.biases = &bias, .n_biases = 1};
        struct confab_request r = CONFAB_REQUEST_INIT;
        uint64_t id = 0;

        r.verb = verb;
        r.conversation = "c";
        r.input = CONFAB_INPUT_MESSAGE;
        r.text = "text";
        r.text_size = 4;
        r.sampling = &sampling;
        r.has_fd = true;
        r.fd = sealed;
        if (confab_submit(c, &r, see, count, &id, e) < 0) {
                assert_int_equal(id, 0);
                return -1;
        }
        count->n_submitted++;
        return 0;
}

/* 0 when all went well, -1 when something was refused; the rest is asserted. */
static int session(void) {
        static const enum confab_verb verbs[N_REQUESTS] = {CONFAB_CONTINUE, CONFAB_LIST,
                CONFAB_STATS, CONFAB_TOKENIZE, CONFAB_EXPORT, CONFAB_IMPORT};
        struct count count = {0};
        struct confab_error e = {0};
        struct confab *c = NULL;
        int sv[2], r;

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
        send_script(sv[1]);
        close(sv[1]);
        r = confab_new_from_fd(&c, sv[0], &e);
        if (r == 0)
                r = confab_act_for(c, 5, "anna", &e);
        for (size_t i = 0; i < N_REQUESTS && r == 0; i++)
                r = submit(c, verbs[i], &count, &e);
        if (!c) {
                assert_string_equal(e.code, CONFAB_NO_MEMORY);
                return -1;
        }
        if (r < 0)
                assert_string_equal(e.code, CONFAB_NO_MEMORY);
        while (confab_wait(c, 0, &e) == 0) /* the script ends with a hang-up */
                ;
        assert_int_equal(count.n_final, count.n_submitted);
        assert_int_equal(confab_get_n_pending(c), 0);
        if (count.n_failed)
                assert_string_equal(e.code, CONFAB_NO_MEMORY);
        confab_free(c);
        return r < 0 || count.n_failed ? -1 : 0;
}

static void test_session(void **state) {
        struct fault_loop loop = {.at_least = 21, .at_most = MAX_ALLOCATIONS};
        size_t n_fds;

        write_script();
        n_fds = test_count_fds();
        while (fault_loop_next(&loop)) {
                int r;

                fault_loop_arm(&loop);
                r = session();
                fault_loop_disarm(&loop);
                assert_int_equal(test_count_fds(), n_fds);
                /* no failed allocation goes unnoticed */
                assert_int_equal(r, loop.hit ? -1 : 0);
        }
        buf_deinit(&script);
        buf_deinit(&exported);
        close(sealed);
}

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_session)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
