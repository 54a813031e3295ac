/* SPDX-License-Identifier: MIT */
/* Every allocation of the verbs that look after conversations fails once: the verb fails, nothing leaks. */
#include "client/cli-commands.h"
#include "fault/loop.h"
#include "script.h"
#include "unit/client/peer.h"
#include "util/fds.h"
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_ALLOCATIONS 10000

const struct cli_command *const cli_commands[] = {
        &cmd_close, &cmd_log, &cmd_ls, &cmd_prune, &cmd_set, &cmd_system, &cmd_tree, NULL};

enum answer { LIST, GET, EMPTY, DONE, END };

static const struct row {
        const char *args[8];
        enum answer answers[6];
} rows[] = {
        {{"ls", "--sort", "name"}, {LIST, END}},
        {{"ls", "--json", "b*", "--tag", "work"}, {LIST, END}},
        {{"tree"}, {LIST, END}},
        {{"close", "--match", "*", "--json"}, {LIST, GET, EMPTY, GET, EMPTY, END}},
        {{"prune", "--keep", "1", "--json"}, {LIST, LIST, END}},
        {{"prune", "--keep", "1"}, {LIST, LIST, END}},
        {{"set", "base"}, {GET, END}},
        {{"set", "base", "+new", "temperature=", "title=T", "tags=a,b"}, {GET, GET, END}},
        {{"log", "base", "--search", "cat"}, {GET, GET, END}},
        {{"log", "base", "--json"}, {GET, GET, END}},
        {{"system", "base", "--json"}, {GET, END}},
        {{"system", "base", "Be kind."}, {GET, DONE, END}},
};

static void say_conversations(struct buf *script, uint64_t id, enum answer answer) {
        Confab__V1__LogitBias bias = CONFAB__V1__LOGIT_BIAS__INIT, *biases[] = {&bias};
        Confab__V1__Sampling sampling = CONFAB__V1__SAMPLING__INIT;
        Confab__V1__Turn turn = CONFAB__V1__TURN__INIT, *turns[] = {&turn};
        Confab__V1__Conversation c[2], *items[] = {&c[0], &c[1]};
        Confab__V1__Conversations list = CONFAB__V1__CONVERSATIONS__INIT;
        Confab__V1__About about = CONFAB__V1__ABOUT__INIT;
        Confab__V1__Tags tags = CONFAB__V1__TAGS__INIT;
        char *words[] = {proto_borrow("work"), proto_borrow("old")};

        sampling.logit_bias = biases;
        sampling.n_logit_bias = 1;
        sampling.has_temperature = true;
        about.title = proto_borrow("A title");
        about.tags = &tags;
        tags.tags = words;
        tags.n_tags = 2;
        turn.has_role = turn.has_text = true;
        turn.role = CONFAB__V1__ROLE__ROLE_SYSTEM;
        turn.text.data = (uint8_t *)proto_borrow("A cat.");
        turn.text.len = 6;
        for (uint64_t i = 0; i < 2; i++) {
                confab__v1__conversation__init(&c[i]);
                c[i].has_id = c[i].has_n_turns = true;
                c[i].id = i + 1;
                c[i].n_turns = 1;
                c[i].name = proto_borrow(i ? "boat" : "base");
                c[i].about = &about;
                c[i].sampling = &sampling;
        }
        if (answer == GET) {
                c[0].turn_list = turns;
                c[0].n_turn_list = 1;
                script_say(script, id, CONFAB__V1__EVENT__KIND_CONVERSATION, &c[0]);
                return;
        }
        list.conversations = items;
        list.n_conversations = 2;
        script_say(script, id, CONFAB__V1__EVENT__KIND_CONVERSATIONS, &list);
}

/* The daemon, in a process of its own: it answers one request after the other, until the client hangs up. */
static void serve(const struct row *row, int socket) {
        Confab__V1__Hello hello = CONFAB__V1__HELLO__INIT;
        Confab__V1__Empty empty = CONFAB__V1__EMPTY__INIT;
        Confab__V1__Done done = CONFAB__V1__DONE__INIT;
        struct proto_message *m;
        struct peer peer;

        hello.has_version = true;
        hello.version = PROTO_VERSION;
        peer_init(&peer, socket);
        for (size_t i = 0; (m = peer_next(&peer)); proto_message_free(m)) {
                enum answer answer = END;
                struct buf out = BUF_NULL;

                if (m->request->verb_case == CONFAB__V1__REQUEST__VERB_HELLO)
                        script_say(&out, m->request->id, CONFAB__V1__EVENT__KIND_HELLO, &hello);
                else
                        answer = row->answers[i++];
                if (answer == EMPTY)
                        script_say(&out, m->request->id, CONFAB__V1__EVENT__KIND_EMPTY, &empty);
                else if (answer == DONE)
                        script_say(&out, m->request->id, CONFAB__V1__EVENT__KIND_DONE, &done);
                else if (answer != END)
                        say_conversations(&out, m->request->id, answer);
                (void)!send(socket, out.data, out.size, MSG_NOSIGNAL);
                buf_deinit(&out);
        }
        _exit(0);
}

/* As main() does it, but for the connection. */
static int run(const struct row *row, int socket) {
        struct cli cli = {.out_tty = false};
        char *argv[9] = {proto_borrow("confab")};
        int argc = 1, status, flushed;
        struct confab_error e;

        for (; row->args[argc - 1]; argc++)
                argv[argc] = proto_borrow(row->args[argc - 1]);
        status = cli_parse(&cli, argc, argv);
        if (confab_new_from_fd(&cli.confab, socket, &e) < 0)
                status = CLI_FAILED;
        if (status == 0)
                status = cli.command->run(&cli);
        flushed = cli_flush(&cli);
        confab_free(cli.confab);
        buf_deinit(&cli.out);
        free(cli.args);
        free(cli.values);
        return status ? status : flushed;
}

/* Standard output is the test's own. */
static int run_quietly(const struct row *row, struct fault_loop *loop) {
        int sv[2], null = open("/dev/null", O_RDWR | O_CLOEXEC), status, kept[3];
        pid_t daemon;

        for (int fd = 0; fd < 3; fd++) {
                kept[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 3);
                fflush(fd == 1 ? stdout : stderr);
                dup2(null, fd);
        }
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
        daemon = fork();
        assert_true(daemon >= 0);
        if (daemon == 0) {
                close(sv[0]);
                serve(row, sv[1]);
        }
        close(sv[1]);
        fault_loop_arm(loop);
        status = run(row, sv[0]);
        fault_loop_disarm(loop);
        assert_int_equal(waitpid(daemon, NULL, 0), daemon);
        for (int fd = 0; fd < 3; fd++) {
                dup2(kept[fd], fd);
                close(kept[fd]);
        }
        close(null);
        return status;
}

static void test_verbs(void **state) {
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct fault_loop loop = {.at_least = 10, .at_most = MAX_ALLOCATIONS};
                size_t n_fds = test_count_fds();

                while (fault_loop_next(&loop)) {
                        int status = run_quietly(&rows[i], &loop);

                        assert_int_equal(test_count_fds(), n_fds);
                        if ((status != 0) != loop.hit)
                                print_message("%s, allocation %ld: status %d\n", rows[i].args[0],
                                        loop.n, status);
                        assert_int_equal(status != 0, loop.hit);
                }
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_verbs)};

        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
