/* SPDX-License-Identifier: MIT */
/* Every allocation of HTTP, and of the gateway between it and the dialects, fails once: the client has a whole answer or the
 * connection ends, nothing is leaked, and the next client is served. */
#include "client/gateway/gateway-private.h"
#include "client/gateway/show.h"
#include "fault/loop.h"
#include "unit/gateway/http-rig.h"
#include "util/fds.h"
#include "util/test.h"
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MAX_ALLOCATIONS 1000
#define H "Host: h\r\n"
#define PAGE_BIG 100000
#define CODE "code-number-one-"

static char text[131072]; /* what a client got */

static void read_all(struct event_base *base, int fd) {
        size_t size = 0;

        for (unsigned quiet = 0; quiet < 5; quiet++) {
                ssize_t n = recv(fd, text + size, sizeof(text) - 1 - size, MSG_DONTWAIT);

                if (n > 0) {
                        size += (size_t)n;
                        quiet = 0;
                }
                event_base_loop(base, EVLOOP_NONBLOCK);
        }
        text[size] = '\0';
}

static void ask(struct event_base *base, int fd, const char *request) {
        (void)!send(fd, request, strlen(request), MSG_NOSIGNAL);
        read_all(base, fd);
}

/* One request with everything, whose answer is in pieces; then two that are answered at once. */
static void converse(struct rig *rig, int fd) {
        rig->holds = true;
        ask(rig->base, fd,
                "POST /a%20b?x=1 HTTP/1.1\r\n" H
                "A: 1\r\nA: 2\r\nTransfer-Encoding: chunked\r\n\r\n"
                "3\r\nabc\r\n1\r\nd\r\n0\r\n\r\nGET /next HTTP/1.1\r\n");
        rig->holds = false;
        if (rig->n_pending > 0) {
                struct http_exchange *exchange = rig->pending[--rig->n_pending];

                if (http_add_header(exchange, "X-A", "b") < 0) {
                        http_abort(exchange);
                } else {
                        http_begin(exchange, 200, "x/y");
                        http_write(exchange, text, 5000);
                        http_end(exchange);
                }
        }
        ask(rig->base, fd, H "\r\n");
        ask(rig->base, fd, "BAD\r\n\r\n");
}

static void test_http(void **state) {
        struct rig *rig = *state;
        struct fault_loop loop = {.at_least = 16, .at_most = MAX_ALLOCATIONS};
        struct http_figures figures;
        size_t n_fds;
        int fd;

        rig_start(rig);
        n_fds = test_count_fds();
        while (fault_loop_next(&loop)) {
                fd = rig_connect(rig);
                fault_loop_arm(&loop);
                converse(rig, fd);
                fault_loop_disarm(&loop);
                close(fd);
                rig_settle(rig);
                assert_int_equal(rig->n_pending, 0);
                http_server_figures(rig->server, &figures);
                assert_int_equal(figures.n_connections, 0);
                assert_int_equal(figures.bodies_size, 0);
                assert_int_equal(test_count_fds(), n_fds);
        }
        assert_non_null(strstr(text, "refused: "));
}

static void test_server(void **state) {
        struct rig *rig = *state;
        static const struct http_handlers handlers = {};
        struct fault_loop loop = {.at_least = 1, .at_most = MAX_ALLOCATIONS};

        while (fault_loop_next(&loop)) {
                struct http_server *server = NULL;
                struct err e = {0};
                int r;

                fault_loop_arm(&loop);
                r = http_server_new(&server, rig->base, &rig->limits, &handlers, rig, &e);
                fault_loop_disarm(&loop);
                fault_loop_expect(&loop, r, &e);
                assert_int_equal(!!server, r == 0);
                http_server_free(server);
        }
}

/* ---- the gateway ---- */

struct fixture {
        struct event_base *base;
        struct backends *backends;
        struct gateway *gateway;
        struct sockaddr_un address;
        socklen_t address_size;
        /* A folder with index.html, which is answered whole, and big.js, which is not. */
        struct show show;
        char page[64];
};

static const char *in_page(const struct fixture *f, const char *name) {
        static char path[PATH_MAX];

        snprintf(path, sizeof(path), "%s/%s", f->page, name);
        return path;
}

static void write_page_file(const struct fixture *f, const char *name, int size) {
        FILE *file = fopen(in_page(f, name), "w");

        assert_non_null(file);
        assert_int_equal(fprintf(file, "%*s", size, "\n"), size);
        fclose(file);
}

static void set_up(struct fixture *f) {
        static const char *const sockets[] = {"/nonexistent/confab.sock"};
        struct gateway_options options = {.limits = HTTP_LIMITS_DEFAULT};
        struct sockaddr_un any = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct err e;

        *f = (struct fixture){.base = event_base_new(),
                .address_size = sizeof(f->address),
                .page = "/tmp/confab-test-page-XXXXXX",
                .show = {.token = "TOKEN", .codes_until_usec = UINT64_MAX}};
        assert_non_null(mkdtemp(f->page));
        write_page_file(f, "index.html", 100);
        write_page_file(f, "big.js", PAGE_BIG);
        assert_int_equal(backends_new(&f->backends, f->base, sockets, 1, &e), 0);
        options.backends = f->backends;
        options.origins.origins = "http://page";
        options.tenant_header = "x-tenant";
        options.show = &f->show;
        options.page = (struct page_folders){.files = f->page, .libs = f->page};
        assert_int_equal(gateway_new(&f->gateway, f->base, &options, &e), 0);
        assert_int_equal(bind(fd, (struct sockaddr *)&any, sizeof(sa_family_t)), 0);
        assert_int_equal(listen(fd, 10), 0);
        assert_int_equal(getsockname(fd, (struct sockaddr *)&f->address, &f->address_size), 0);
        assert_int_equal(http_server_listen(gateway_http(f->gateway), fd, false, &e), 0);
}

static void tear_down(struct fixture *f) {
        gateway_free(f->gateway);
        backends_free(f->backends);
        event_base_free(f->base);
        show_deinit(&f->show);
        unlink(in_page(f, "index.html"));
        unlink(in_page(f, "big.js"));
        rmdir(f->page);
}

static int connect_to(struct fixture *f) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        assert_int_equal(connect(fd, (struct sockaddr *)&f->address, f->address_size), 0);
        return fd;
}

static void test_gateway(void **state) {
        static const struct {
                const char *request;
                unsigned status;
        } cases[] = {
                {"GET /health HTTP/1.1\r\n" H "Origin: http://page\r\n\r\n", 503},
                {"GET /nothing HTTP/1.1\r\n" H "x-tenant: a\r\n\r\n", 404},
                {"GET /nothing HTTP/1.1\r\n" H "x-tenant:\r\n\r\n", 400},
                {"PUT /health HTTP/1.1\r\n" H "\r\n", 405},
                {"GET / HTTP/1.1\r\n" H "Origin: http://evil\r\n\r\n", 403},
                {"OPTIONS /health HTTP/1.1\r\n" H "Origin: http://page\r\n\r\n", 204},
                {"GET / HTTP/1.1\r\n\r\n", 400},
                {"GET / HTTP/1.1\r\n" H "\r\n", 200},
                {"GET / HTTP/1.1\r\n" H "Accept: text/html\r\n\r\n", 200},
                {"GET / HTTP/1.1\r\n" H "Accept: text/html\r\nIf-None-Match: *\r\n\r\n", 304},
                {"HEAD /page/big.js HTTP/1.1\r\n" H "\r\n", 200},
                {"GET /page/none.js HTTP/1.1\r\n" H "\r\n", 404},
                {"GET /page/lib/katex.css HTTP/1.1\r\n" H "\r\n", 404},
                {"GET /page/lib/fonts/a.woff2 HTTP/1.1\r\n" H "\r\n", 404},
                {"GET /page/libs.json HTTP/1.1\r\n" H "\r\n", 200},
                {"GET /metrics HTTP/1.1\r\n" H "Sec-Fetch-Site: cross-site\r\n\r\n", 403},
        };
        struct fixture f;

        set_up(&f);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct fault_loop loop = {.at_least = 1, .at_most = MAX_ALLOCATIONS};
                unsigned status = 0;

                while (fault_loop_next(&loop)) {
                        int fd = connect_to(&f);

                        fault_loop_arm(&loop);
                        ask(f.base, fd, cases[i].request);
                        fault_loop_disarm(&loop);
                        close(fd);
                        for (unsigned turn = 0; turn < 5; turn++)
                                event_base_loop(f.base, EVLOOP_NONBLOCK);
                        /* the answer, or that there is no memory, or nothing */
                        status = 0;
                        if (*text && sscanf(text, "HTTP/1.1 %u", &status) != 1)
                                fail_msg("%s", text);
                        if (status != 0 && status != 503)
                                assert_int_equal(status, cases[i].status);
                }
                assert_int_equal(status, cases[i].status);
        }
        tear_down(&f);
}

/* A file in pieces: all of it, and its last chunk, or an end that nobody takes for that. */
static void test_file(void **state) {
        struct fault_loop loop = {.at_least = 10, .at_most = MAX_ALLOCATIONS};
        struct fixture f;
        size_t n_fds;
        int fd;

        set_up(&f);
        n_fds = test_count_fds();
        while (fault_loop_next(&loop)) {
                fd = connect_to(&f);
                fault_loop_arm(&loop);
                ask(f.base, fd, "GET /page/big.js HTTP/1.1\r\n" H "\r\n");
                fault_loop_disarm(&loop);
                close(fd);
                for (unsigned turn = 0; turn < 5; turn++)
                        event_base_loop(f.base, EVLOOP_NONBLOCK);
                assert_int_equal(test_count_fds(), n_fds);
                assert_int_equal(!!strstr(text, "200 OK") && strlen(text) > PAGE_BIG,
                        !!strstr(text, "\r\n0\r\n\r\n"));
        }
        assert_non_null(strstr(text, "\r\n0\r\n\r\n"));
        tear_down(&f);
}

/* The exchange of a code for a token, which is answered whole or not at all. */
static void test_session(void **state) {
        static const char request[] = "POST /confab/v1/session HTTP/1.1\r\n" H
                                      "Content-Length: 27\r\n\r\n{\"code\":\"" CODE "\"}";
        struct fault_loop loop = {.at_least = 5, .at_most = MAX_ALLOCATIONS};
        struct fixture f;
        struct err e;

        set_up(&f);
        while (fault_loop_next(&loop)) {
                int fd = connect_to(&f);

                tokens_deinit(&f.show.codes);
                assert_int_equal(tokens_add(&f.show.codes, CODE, 0, &e), 0);
                fault_loop_arm(&loop);
                ask(f.base, fd, request);
                fault_loop_disarm(&loop);
                close(fd);
                for (unsigned turn = 0; turn < 5; turn++)
                        event_base_loop(f.base, EVLOOP_NONBLOCK);
                assert_int_equal(
                        !!strstr(text, "{\"token\":\"TOKEN\"}"), !!strstr(text, " 200 OK"));
                if (f.show.codes.n > 0) /* it was not exchanged */
                        assert_null(strstr(text, " 200 OK"));
        }
        assert_non_null(strstr(text, " 200 OK"));
        tear_down(&f);
}

static void test_tokens(void **state) {
        struct fault_loop loop = {.at_least = 2, .at_most = MAX_ALLOCATIONS};

        while (fault_loop_next(&loop)) {
                char line[] = "token-number-one 1\n";
                struct tokens tokens = TOKENS_NULL;
                struct err e = {0};
                int r;

                fault_loop_arm(&loop);
                r = tokens_parse(&tokens, line, &e);
                if (r == 0)
                        r = tokens_add(&tokens, CODE, 0, &e);
                fault_loop_disarm(&loop);
                fault_loop_expect(&loop, r, &e);
                assert_int_equal(!!tokens_find(&tokens, CODE), r == 0);
                tokens_deinit(&tokens);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_http, rig_setup, rig_teardown),
                cmocka_unit_test_setup_teardown(test_server, rig_setup, rig_teardown),
                cmocka_unit_test(test_gateway),
                cmocka_unit_test(test_file),
                cmocka_unit_test(test_session),
                cmocka_unit_test(test_tokens),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
