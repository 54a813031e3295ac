/* SPDX-License-Identifier: MIT */
/* What is written, and where it cannot be written. */
#include "cli-fixture.h"
#include <poll.h>
#include <sys/mman.h>

#define EXPORT_SIZE 300001

/* An owner for each conversation, by name where there is one. */
static void test_ls_all(void **state) {
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
        Confab__V1__Conversations list = CONFAB__V1__CONVERSATIONS__INIT;
        Confab__V1__Conversation c[2] = {
                CONFAB__V1__CONVERSATION__INIT, CONFAB__V1__CONVERSATION__INIT};
        Confab__V1__Conversation *items[2] = {&c[0], &c[1]};
        static const uint32_t uids[2] = {0, 4000000123};
        struct fixture f;

        for (int i = 0; i < 2; i++) {
                c[i].has_id = c[i].has_uid = c[i].has_residency = true;
                c[i].id = (uint64_t)i + 1;
                c[i].uid = uids[i];
                c[i].name = proto_borrow(i ? "b" : "a");
                c[i].residency = CONFAB__V1__RESIDENCY__RESIDENCY_COLD;
        }
        c[1].tenant = proto_borrow("anna");
        list.conversations = items;
        list.n_conversations = 2;
        event.has_request = true;
        event.kind_case = CONFAB__V1__EVENT__KIND_CONVERSATIONS;
        event.conversations = &list;
        setup(&f);
        for (int all = 0; all < 2; all++) {
                start(&f, (const char *const[]){"ls", all ? "--all" : NULL, NULL});
                greet(&f);
                event.request = expect(&f, REQ(LIST));
                peer_send(&f.peer, &event);
                finish(&f, 0, NULL, NULL);
                assert_int_equal(strstr(f.text, "OWNER") != NULL, all);
                assert_int_equal(strstr(f.text, "root") != NULL, all);
                assert_int_equal(strstr(f.text, "4000000123/anna") != NULL, all);
        }
        START(&f, "ls", "--all", "--json");
        greet(&f);
        event.request = expect(&f, REQ(LIST));
        peer_send(&f.peer, &event);
        finish(&f, 0, NULL, NULL);
        assert_non_null(strstr(f.text, "\"name\":\"a\",\"uid\":0,\"parent\":0"));
        assert_non_null(strstr(f.text, "\"uid\":4000000123,\"tenant\":\"anna\",\"parent\":0"));
        teardown(&f);
}

/* A program that asked for turns gets a list of them, also of none. */
static void test_show_empty(void **state) {
        struct fixture f;

        BEGIN(&f, "show", "a", "--json", "--tokens");
        peer_send_conversation(&f.peer, expect(&f, REQ(GET)), 3, "a");
        finish(&f, 0, NULL, NULL);
        assert_non_null(strstr(f.text, ",\"turns\":[],\"tokens\":[]}\n"));
        START(&f, "show", "a", "--json");
        greet(&f);
        peer_send_conversation(&f.peer, expect(&f, REQ(GET)), 3, "a");
        finish(&f, 0, NULL, NULL);
        assert_non_null(strstr(f.text, ",\"turns\":[]}\n"));
        teardown(&f);
}

/* With standard output closed, what cannot be written is a failure; what prints nothing is none. */
static void test_closed_output(void **state) {
        struct fixture f;
        int in = open("/dev/null", O_RDONLY | O_CLOEXEC);

        setup(&f);
        f.closed_output = true;
        start_with_input(&f, (const char *const[]){"ls", "--json", NULL}, in);
        greet(&f);
        {
                Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
                Confab__V1__Conversations list = CONFAB__V1__CONVERSATIONS__INIT;

                event.has_request = true;
                event.request = expect(&f, REQ(LIST));
                event.kind_case = CONFAB__V1__EVENT__KIND_CONVERSATIONS;
                event.conversations = &list;
                peer_send(&f.peer, &event);
        }
        finish(&f, 1, "", "cannot write the output");
        start_with_input(&f, (const char *const[]){"close", "a", NULL}, in);
        greet(&f);
        peer_send_empty(&f.peer, expect(&f, REQ(CLOSE)));
        finish(&f, 0, "", NULL);
        start_with_input(&f, (const char *const[]){"--version", NULL}, in);
        finish(&f, 1, "", "cannot write the output");
        close(in);
        teardown(&f);
}

/* A pipe that takes little at a time and does not block: all of the export goes through. */
static void test_export_slowly(void **state) {
        static uint8_t data[EXPORT_SIZE], got[EXPORT_SIZE];
        int fd = memfd_create("export", MFD_CLOEXEC);
        struct pollfd p = {.events = POLLIN};
        struct fixture f;
        size_t n = 0;

        for (size_t i = 0; i < sizeof(data); i++)
                data[i] = (uint8_t)(i * 2654435761u >> 16);
        assert_int_equal(write(fd, data, sizeof(data)), sizeof(data));
        assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
        setup(&f);
        f.small_output = true;
        START(&f, "export", "a");
        greet(&f);
        peer_send_exported(&f.peer, expect(&f, REQ(EXPORT)), fd, sizeof(data));
        /* It is full by now, and stays so until it is read below. */
        p.fd = f.out;
        assert_int_equal(poll(&p, 1, -1), 1);
        while (n < sizeof(got)) {
                ssize_t k = read(f.out, got + n, MIN(sizeof(got) - n, 1000));

                assert_true(k > 0);
                n += (size_t)k;
        }
        assert_memory_equal(got, data, sizeof(data));
        finish(&f, 0, "", NULL);
        close(fd);
        teardown(&f);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_ls_all),
                cmocka_unit_test(test_show_empty),
                cmocka_unit_test(test_closed_output),
                cmocka_unit_test(test_export_slowly),
        };

        if (argc != 2) {
                fprintf(stderr, "usage: test-cli-print PROGRAM\n");
                return 2;
        }
        program = argv[1];
        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
