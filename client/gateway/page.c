/* SPDX-License-Identifier: MIT */
#include "client/gateway/page.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/util.h"
#include "client/gateway/gateway-private.h"
#include "client/gateway/page-libs.h"
#include <errno.h>
#include <strings.h>

/* A shorter file is answered whole. */
#define PIECE_SIZE (32u << 10)

/* A file that is being sent. Lives as long as its exchange. */
struct sending {
        struct http_exchange *exchange;
        struct page_name name;
        struct page_identity identity;
        uint64_t at;
};

int page_add_fields(struct http_exchange *exchange) {
        return http_add_fields(exchange,
                "Cache-Control: no-cache\r\n"
                /* Scripts, styles and requests of the gateway alone, and no HTML from strings but DOMPurify's. */
                "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
                "font-src 'self'; img-src 'self'; connect-src 'self'; manifest-src 'self'; "
                "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
                "require-trusted-types-for 'script'; trusted-types dompurify\r\n"
                "X-Content-Type-Options: nosniff\r\n"
                "X-Frame-Options: DENY\r\n"
                "Referrer-Policy: no-referrer\r\n"
                "Cross-Origin-Opener-Policy: same-origin\r\n"
                "Cross-Origin-Resource-Policy: same-origin\r\n"
                "Permissions-Policy: camera=(), microphone=(), geolocation=()\r\n");
}

static void refuse(struct gateway_call *call, unsigned status) {
        const struct talk_error error = {.status = status,
                .message = status == 404 ? "the page has no such file" : "too many files are open",
                .retry_after = status == 503};

        gateway_refuse(call, &gateway_page, &error);
}

/* ---- a file in pieces ---- */

/* The next piece, at most PIECE_SIZE bytes: their number, or -1 if the file is no longer what it was. */
static int read_piece(const struct sending *sending, int fd, char *ret) {
        size_t n = (size_t)MIN(sending->identity.size - sending->at, (uint64_t)PIECE_SIZE);

        return file_pread(fd, ret, n, sending->at, NULL) < 0 ? -1 : (int)n;
}

static void write_piece(struct sending *sending, const char *piece, int size) {
        http_write(sending->exchange, piece, (size_t)size);
        sending->at += (uint64_t)size;
        if (sending->at == sending->identity.size)
                http_end(sending->exchange);
        else
                http_tell_drained(sending->exchange);
}

static void on_drained(void *userdata) {
        struct sending *sending = userdata;
        struct page_identity identity;
        _cleanup_(closep) int fd = page_open(&sending->name, &identity);
        char piece[PIECE_SIZE];
        int n = -1;

        if (fd >= 0 && page_same(&identity, &sending->identity))
                n = read_piece(sending, fd, piece);
        if (n < 0)
                http_abort(sending->exchange);
        else
                write_piece(sending, piece, n);
}

static void begin(
        struct gateway_call *call, const struct sending *first, int fd, const char *type) {
        static const struct http_answer_ops ops = {.drained = on_drained};
        struct sending *sending = http_alloc(call->exchange, sizeof(*sending));
        char *path = http_alloc(call->exchange, strlen(first->name.path) + 1);
        char piece[PIECE_SIZE];
        int n = sending && path ? read_piece(first, fd, piece) : -1;

        if (n < 0) {
                http_reply(call->exchange, 503, NULL, NULL, 0);
                return;
        }
        *sending = *first;
        sending->name.path = memcpy(path, first->name.path, strlen(first->name.path) + 1);
        http_set_ops(call->exchange, &ops, sending);
        http_begin(call->exchange, 200, type);
        write_piece(sending, piece, n);
}

static void answer_whole(
        struct gateway_call *call, const struct sending *first, int fd, const char *type) {
        char text[PIECE_SIZE];
        int n = read_piece(first, fd, text);

        if (n < 0)
                http_reply(call->exchange, 503, NULL, NULL, 0);
        else
                http_reply(call->exchange, 200, type, text, (size_t)n);
}

/* ---- an answer ---- */

static void send_file(struct gateway_call *call, const struct page_name *name, const char *type) {
        struct sending first = {.exchange = call->exchange, .name = *name};
        _cleanup_(closep) int fd = page_open(name, &first.identity);
        char tag[PAGE_TAG_SIZE];

        if (fd < 0) {
                refuse(call, errno == ENOENT ? 404 : 503);
                return;
        }
        page_tag(&first.identity, tag);
        if (http_add_header(call->exchange, "ETag", tag) < 0)
                http_reply(call->exchange, 503, NULL, NULL, 0);
        else if (page_tag_matches(http_header(call->exchange, "if-none-match"), tag))
                http_reply(call->exchange, 304, NULL, NULL, 0);
        else if (http_method(call->exchange) == HTTP_HEAD)
                http_reply(call->exchange, 200, type, NULL, (size_t)first.identity.size);
        else if (first.identity.size <= PIECE_SIZE)
                answer_whole(call, &first, fd, type);
        else
                begin(call, &first, fd, type);
}

static void handle_file(struct gateway_call *call) {
        const struct page_name name = {call->gateway->options.page.files, call->arg[0], false};
        const char *type = page_type(name.path);

        if (type)
                send_file(call, &name, type);
        else
                refuse(call, 404);
}

static bool accepts_html(const struct http_exchange *exchange) {
        const char *accept = http_header(exchange, "accept");

        return accept && strcasestr(accept, "text/html");
}

/* Clients of Ollama ask `/`, which is the page's, whether their server runs, and some compare the words. */
static void reply_heartbeat(struct gateway_call *call) {
        static const char text[] = "Ollama is running";

        http_reply(call->exchange, 200, "text/plain; charset=utf-8", text, strlen(text));
}

static void handle_root(struct gateway_call *call) {
        const struct page_name name = {call->gateway->options.page.files, "index.html", false};

        if (!name.folder)
                reply_heartbeat(call);
        else if (http_add_header(call->exchange, "Vary", "Accept") < 0)
                http_reply(call->exchange, 503, NULL, NULL, 0);
        else if (accepts_html(call->exchange))
                send_file(call, &name, page_type(name.path));
        else
                reply_heartbeat(call);
}

static void handle_lib(struct gateway_call *call) {
        const struct page_folders *folders = &call->gateway->options.page;
        struct page_name name;

        /* The type is that of the name which the page uses. */
        if (folders->files && page_libs_find(&name, folders->libs, call->arg[0]))
                send_file(call, &name, page_type(call->arg[0]));
        else
                refuse(call, 404);
}

static void handle_font(struct gateway_call *call) {
        const struct page_folders *folders = &call->gateway->options.page;
        struct page_name name;
        char path[PAGE_FONT_SIZE];

        if (folders->files && page_libs_find_font(&name, folders->libs, call->arg[0], path))
                send_file(call, &name, page_type(path));
        else
                refuse(call, 404);
}

static void handle_list(struct gateway_call *call) {
        struct buf list = BUF_NULL;

        if (!call->gateway->options.page.files)
                refuse(call, 404);
        else if (page_libs_list(&list, call->gateway->options.page.libs) < 0)
                http_reply(call->exchange, 503, NULL, NULL, 0);
        else
                gateway_reply_json(call, &list);
        buf_deinit(&list);
}

static const struct gateway_route routes[] = {
        {HTTP_GET, "/", handle_root, true},
        {HTTP_GET, "/page/libs.json", handle_list, true},
        {HTTP_GET, "/page/lib/fonts/*", handle_font, true},
        {HTTP_GET, "/page/lib/*", handle_lib, true},
        {HTTP_GET, "/page/**", handle_file, true},
        {0},
};

const struct gateway_dialect gateway_page = {
        .name = "page", .prefix = "/page/", .routes = routes, .error = gateway_plain_error};
