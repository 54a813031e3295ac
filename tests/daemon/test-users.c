/* SPDX-License-Identifier: MIT */
/* What each user can see: peers of two uids (needs root), and sockets that are passed in. */
#include "fixture.h"
#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define ADMIN_GID 54322

/* What a child with another uid finds; its exit status is the number of the first thing wrong. */
static int other_user(const char *path, uint64_t foreign) {
        struct client *c = client_connect(path);
        struct conv list[8], v = {};
        struct reply r = {};
        size_t n = 99;

        if (!c)
                return 1;
        if (client_get(c, foreign, true, true, &v) == 0 || strcmp(c->error.code, "not_found") != 0)
                return 2;
        if (client_get_name(c, "secret", &v) == 0 || strcmp(c->error.code, "not_found") != 0)
                return 3;
        if (client_say(c, &(struct say){.conv = foreign, .raw = "x"}, &r) == 0 ||
                strcmp(c->error.code, "not_found") != 0)
                return 4;
        if (client_fork(c, foreign, "mine", -1, &v) == 0 || client_close(c, foreign) == 0 ||
                client_rename(c, foreign, "mine") == 0 || client_evict(c, foreign, &v) == 0 ||
                client_warm(c, foreign, &v) == 0 || client_cancel(c, 0, foreign) == 0 ||
                client_rewind(c, foreign, 1, &v) == 0)
                return 5;
        if (client_list(c, 0, false, list, 8, &n) < 0 || n != 0)
                return 6;
        if (client_list(c, 0, true, list, 8, &n) == 0 || strcmp(c->error.code, "permission") != 0)
                return 7;
        /* The same name is free for this user. */
        if (client_open(c, "secret", NULL, &v.id) < 0)
                return 8;
        if (client_list(c, 0, false, list, 8, &n) < 0 || n != 1 || list[0].uid != OTHER_UID)
                return 9;
        reply_deinit(&r);
        client_free(c);
        return 0;
}

static int admin_member(const char *path, uint64_t foreign) {
        struct client *c = client_connect(path);
        struct conv list[8], v = {};
        size_t n = 0;

        if (!c)
                return 1;
        if (client_list(c, 0, true, list, 8, &n) < 0 || n != 2)
                return 2;
        /* Metadata of others, not what they said. */
        if (client_get(c, foreign, true, true, &v) == 0 && v.n_turn_list)
                return 3;
        client_free(c);
        return 0;
}

static void test_two_users(void **state) {
        struct harness *h = *state;
        struct conv v = {}, list[8];
        struct reply r;
        struct client *c;
        uint64_t id;
        size_t n;

        if (geteuid() != 0) {
                print_message("SKIP: needs root to be two users\n");
                skip();
        }
        harness_start(h, FLAGS("--socket-mode=0666"));
        c = harness_client(h);
        assert_int_equal(client_open(c, "secret", NULL, &id), 0);
        assert_int_equal(client_say(c, &(struct say){.conv = id, .raw = "hush"}, &r), 0);
        reply_deinit(&r);
        assert_int_equal(run_as(OTHER_UID, OTHER_UID, other_user, h->socket, id), 0);
        /* Nothing of root's changed; root sees both in a list, and its own by name. */
        assert_int_equal(client_get_name(c, "secret", &v), 0);
        assert_int_equal(v.id, id);
        assert_int_equal(v.n_turns, 2);
        assert_int_equal(client_list(c, 0, false, list, 8, &n), 0);
        assert_int_equal(n, 1);
        assert_int_equal(client_list(c, 0, true, list, 8, &n), 0);
        assert_int_equal(n, 2);
        client_free(c);
        harness_stop(h);
}

static void test_admin_group(void **state) {
        struct harness *h = *state;
        struct group *g = getgrnam("adm");
        struct client *c;
        struct reply r;
        uint64_t id;

        if (geteuid() != 0 || !g) {
                print_message("SKIP: needs root and a group adm\n");
                skip();
        }
        harness_start(h, FLAGS("--socket-mode=0666", "--admin-group=adm"));
        c = harness_client(h);
        assert_int_equal(client_open(c, "secret", NULL, &id), 0);
        assert_int_equal(client_say(c, &(struct say){.conv = id, .raw = "hush"}, &r), 0);
        reply_deinit(&r);
        assert_int_equal(run_as(OTHER_UID, OTHER_UID, other_user, h->socket, id), 0);
        assert_int_equal(run_as(OTHER_UID + 1, g->gr_gid, admin_member, h->socket, id), 0);
        client_free(c);
        harness_stop(h);
}

/* A connection of another uid: the kernel notes who connects. */
static struct wire *connect_as(struct harness *h, uint32_t uid) {
        struct wire *w = calloc(1, sizeof(*w));
        int r;

        assert_non_null(w);
        assert_int_equal(seteuid(uid), 0);
        r = wire_connect(w, h->socket, wire_poll, NULL);
        assert_int_equal(seteuid(0), 0);
        assert_int_equal(r, 0);
        return w;
}

static void disconnect(struct wire *w) {
        wire_close(w);
        free(w);
}

/* Who may reach a conversation of @uid: a connection of another one, which is of group adm or not.
 */
static struct client *client_as(struct harness *h, uint32_t uid, gid_t gid) {
        struct client *c;

        assert_int_equal(setegid(gid), 0);
        assert_int_equal(seteuid(uid), 0);
        c = client_connect(h->socket);
        assert_int_equal(seteuid(0), 0);
        assert_int_equal(setegid(0), 0);
        assert_non_null(c);
        return c;
}

/* To pin is for those who get all figures; to take a pin back is the owner's, with or without that right. */
static void test_who_pins(void **state) {
        struct harness *h = *state;
        struct group *g = getgrnam("adm");
        struct client *root, *admin, *left, *other;
        struct conv v = {};
        uint64_t id, ids[2];

        if (geteuid() != 0 || !g) {
                print_message("SKIP: needs root and a group adm\n");
                skip();
        }
        harness_start(h, FLAGS("--socket-mode=0666", "--admin-group=adm"));
        root = harness_client(h);
        admin = client_as(h, OTHER_UID, g->gr_gid);
        left = client_as(h, OTHER_UID, OTHER_UID);
        other = client_as(h, OTHER_UID + 1, OTHER_UID);
        assert_int_equal(client_open(other, "theirs", NULL, &id), 0);
        assert_int_equal(client_pin(other, id, true, &v), -1);
        assert_string_equal(other->error.code, "permission");
        assert_int_equal(client_pin(other, id, false, &v), 0);
        assert_false(v.pinned);
        assert_int_equal(client_open(root, "roots", NULL, &ids[0]), 0);
        assert_int_equal(client_pin(root, ids[0], true, &v), 0);
        assert_true(v.pinned);
        assert_int_equal(client_open(admin, "mine", NULL, &ids[1]), 0);
        assert_int_equal(client_pin(admin, ids[1], true, &v), 0);
        assert_true(v.pinned);
        assert_int_equal(client_stat(admin, "conversations_pinned"), 2);
        client_free(admin);
        /* Who is in the group no more. */
        assert_int_equal(client_pin(left, ids[1], true, &v), -1);
        assert_string_equal(left->error.code, "permission");
        assert_int_equal(client_pin(left, ids[1], false, &v), 0);
        assert_int_equal(client_get(left, ids[1], false, false, &v), 0);
        assert_false(v.pinned);
        assert_int_equal(client_stat(root, "conversations_pinned"), 1);
        client_free(left);
        client_free(other);
        client_free(root);
        /* It is there at the next start, and nothing is loaded for it. */
        harness_stop(h);
        harness_start(h, NULL);
        root = harness_client(h);
        assert_int_equal(client_stat(root, "conversations_loaded"), 0);
        assert_int_equal(client_get(root, ids[0], false, false, &v), 0);
        assert_true(v.pinned);
        client_free(root);
        harness_stop(h);
}

/* Administrators end what others do and hold, by id, and leave a trace; but read nothing of it. */
static void test_admin_ends_others(void **state) {
        struct harness *h = *state;
        struct group *g = getgrnam("adm");
        struct client *owner, *admin, *other;
        struct conv v = {};
        struct reply r = {};
        uint64_t id, request;
        char *log;
        int k;

        if (geteuid() != 0 || !g) {
                print_message("SKIP: needs root and a group adm\n");
                skip();
        }
        harness_start(h, FLAGS("--socket-mode=0666", "--admin-group=adm", "--speculation=off"));
        owner = client_as(h, OTHER_UID, OTHER_UID);
        other = client_as(h, OTHER_UID + 1, OTHER_UID);
        admin = client_as(h, OTHER_UID + 2, g->gr_gid);
        assert_int_equal(client_open(owner, "mine", NULL, &id), 0);
        request = client_say_begin(
                owner, &(struct say){.conv = id, .raw = "Go on", .max_tokens = 1500});
        assert_int_equal(client_say_next(owner, request, &r), 1);
        assert_int_equal(client_cancel(other, 0, id), -1);
        assert_string_equal(other->error.code, "not_found");
        assert_int_equal(client_cancel(admin, 0, id), 0);
        while ((k = client_say_next(owner, request, &r)) > 0)
                ;
        assert_int_equal(k, 0);
        assert_int_equal(r.finish, CONFAB__V1__FINISH_REASON__FINISH_CANCELLED);
        reply_deinit(&r);
        assert_int_equal(client_evict(other, id, &v), -1);
        assert_int_equal(client_evict(admin, id, &v), 0);
        assert_int_equal(v.uid, OTHER_UID);
        assert_int_not_equal(v.residency, CONFAB__V1__RESIDENCY__RESIDENCY_RESIDENT);
        conv_deinit(&v);
        /* Only that, and only by id. */
        assert_int_equal(client_get(admin, id, true, true, &v), -1);
        assert_int_equal(client_say(admin, &(struct say){.conv = id, .raw = "x"}, &r), -1);
        reply_deinit(&r);
        assert_int_equal(client_rename(admin, id, "ours"), -1);
        assert_int_equal(client_pin(admin, id, true, &v), -1);
        assert_string_equal(admin->error.code, "not_found");
        assert_int_equal(client_warm(admin, id, &v), -1);
        assert_int_equal(client_close(other, id), -1);
        assert_int_equal(client_close(admin, id), 0);
        assert_int_equal(client_get(owner, id, false, false, &v), -1);
        assert_string_equal(owner->error.code, "not_found");
        client_free(owner);
        client_free(other);
        client_free(admin);
        harness_stop(h);
        log = harness_read_log(h);
        assert_non_null(strstr(log, "user 54323, an administrator, cancels conversation"));
        assert_non_null(strstr(log, "user 54323, an administrator, evicts conversation"));
        assert_non_null(strstr(log, "user 54323, an administrator, closes conversation"));
        free(log);
}

/* A member of the admin group is one by any of its groups. */
static void test_admin_by_any_group(void **state) {
        struct group *g = getgrnam("adm");
        const gid_t adm = g ? g->gr_gid : 0;
        const gid_t groups[][3] = {{adm, 70001, 70002}, {70001, adm, 70002}, {70001, 70002, adm},
                {70001, 70002, 70003}};
        struct harness *h = *state;
        struct client *c;
        struct conv list[8];
        gid_t own[256];
        int n_own = getgroups(256, own), r;
        size_t n;

        if (geteuid() != 0 || !g || n_own < 0) {
                print_message("SKIP: needs root and a group adm\n");
                skip();
        }
        harness_start(h, FLAGS("--socket-mode=0666", "--admin-group=adm"));
        for (size_t i = 0; i < 4; i++) {
                assert_int_equal(setgroups(3, groups[i]), 0);
                assert_int_equal(setegid(OTHER_UID), 0);
                assert_int_equal(seteuid(OTHER_UID), 0);
                c = client_connect(h->socket);
                assert_int_equal(seteuid(0), 0);
                assert_int_equal(setegid(0), 0);
                assert_int_equal(setgroups((size_t)n_own, own), 0);
                assert_non_null(c);
                r = client_list(c, 0, true, list, 8, &n);
                assert_int_equal(r, i < 3 ? 0 : -1);
                client_free(c);
        }
        harness_stop(h);
}

static bool is_limit(struct wire *w) {
        struct proto_message *m = wire_event(w);
        bool is = m && m->event->kind_case == CONFAB__V1__EVENT__KIND_ERROR &&
                  strcmp(m->event->error->code, "limit") == 0 && *m->event->error->message;

        proto_message_free(m);
        return is;
}

/* Users who take all the connections they may keep neither a further user out nor root. */
static void test_connections_are_shared(void **state) {
        enum { N = 64 };
        struct harness *h = *state;
        struct wire *w[N], *other;
        struct client *c;
        size_t n = 0;

        if (geteuid() != 0) {
                print_message("SKIP: needs root to be several users\n");
                skip();
        }
        harness_start(h,
                FLAGS("--socket-mode=0666", "--max-connections=64", "--max-user-connections=16"));
        for (uint32_t uid = OTHER_UID; uid < OTHER_UID + 4; uid++)
                for (size_t i = 0; i < 16; i++) {
                        other = connect_as(h, uid);
                        if (wire_hello(other))
                                w[n++] = other;
                        else
                                disconnect(other);
                }
        assert_in_range(n, 56, 63);
        /* One more of them is told why not. */
        other = connect_as(h, OTHER_UID);
        assert_true(is_limit(other));
        disconnect(other);
        other = connect_as(h, OTHER_UID + 10);
        assert_true(wire_hello(other));
        c = harness_client(h);
        client_free(c);
        disconnect(other);
        while (n > 0)
                disconnect(w[--n]);
        harness_stop(h);
}

/* One user's halves of messages leave memory for the messages of others. */
static void test_io_memory_is_shared(void **state) {
        enum { N = 40, HALF = (1 << 20) - 100 };
        static uint8_t half[HALF + 4] = {0x80, 0x80, 0x40}; /* the beginning of 1 MiB */
        static char text[300001];
        struct harness *h = *state;
        struct wire *w[N], *other;
        unsigned n_refused = 0;
        Confab__V1__Request r = CONFAB__V1__REQUEST__INIT;
        Confab__V1__Tokenize tokenize = CONFAB__V1__TOKENIZE__INIT;
        struct proto_message *m;
        uint64_t id;

        if (geteuid() != 0) {
                print_message("SKIP: needs root to be several users\n");
                skip();
        }
        harness_start(h, FLAGS("--socket-mode=0666", "--io-memory=16M"));
        for (size_t i = 0; i < N; i++) {
                w[i] = connect_as(h, OTHER_UID);
                assert_true(wire_hello(w[i]));
                wire_send_bytes(w[i], half, sizeof(half));
        }
        memset(text, 'a', sizeof(text) - 1);
        other = connect_as(h, OTHER_UID + 1);
        assert_true(wire_hello(other));
        r.verb_case = CONFAB__V1__REQUEST__VERB_TOKENIZE;
        r.tokenize = &tokenize;
        tokenize.text = text;
        id = wire_send(other, &r);
        m = wire_event(other);
        assert_non_null(m);
        assert_int_equal(m->event->request, id);
        assert_int_equal(m->event->kind_case, CONFAB__V1__EVENT__KIND_TOKENIZE);
        proto_message_free(m);
        disconnect(other);
        /* Those who got no more were told so, although they were in the middle of sending. */
        for (size_t i = 0; i < N; i++) {
                struct pollfd p = {.fd = w[i]->fd, .events = POLLIN};

                if (poll(&p, 1, 0) > 0) {
                        assert_true(is_limit(w[i]));
                        n_refused++;
                }
                disconnect(w[i]);
        }
        assert_in_range(n_refused, N / 2, N - 4);
        harness_stop(h);
}

static int cannot_connect(const char *path, uint64_t id) {
        struct wire w;

        return wire_connect(&w, path, wire_poll, NULL) == -EACCES ? 0 : 1;
}

static void test_private_by_default(void **state) {
        struct harness *h = *state;
        struct stat st;

        harness_start(h, NULL);
        assert_int_equal(stat(h->socket, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
        assert_int_equal(stat(h->state, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0700);
        if (geteuid() == 0)
                assert_int_equal(run_as(OTHER_UID, OTHER_UID, cannot_connect, h->socket, 0), 0);
        harness_stop(h);
}

static void test_socket_activation(void **state) {
        struct harness *h = *state;
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        struct client *c;
        struct wire early;
        char path[160];
        int fd;

        snprintf(path, sizeof(path), "%s/activated", h->dir);
        memcpy(a.sun_path, path, strlen(path) + 1);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
        assert_int_equal(listen(fd, 8), 0);
        /* Who connects before there is a daemon waits for it. */
        assert_int_equal(wire_connect(&early, path, wire_poll, NULL), 0);
        h->listen_fd = fd;
        harness_start(h, NULL);
        assert_true(wire_hello(&early));
        wire_close(&early);
        assert_int_equal(access(h->socket, F_OK), -1);
        c = client_connect(path);
        assert_non_null(c);
        assert_int_equal(client_open(c, "a", NULL, NULL), 0);
        client_free(c);
        harness_stop(h);
        /* The manager's socket stays, for the next one. */
        assert_int_equal(access(path, F_OK), 0);
        harness_start(h, NULL);
        c = client_connect(path);
        assert_non_null(c);
        client_free(c);
        harness_stop(h);
        close(fd);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test(test_two_users),
                daemon_test(test_admin_group),
                daemon_test(test_admin_by_any_group),
                daemon_test(test_admin_ends_others),
                daemon_test(test_who_pins),
                daemon_test(test_connections_are_shared),
                daemon_test(test_io_memory_is_shared),
                daemon_test(test_private_by_default),
                daemon_test(test_socket_activation),
        };

        return DAEMON_TESTS_MAIN(tests);
}
