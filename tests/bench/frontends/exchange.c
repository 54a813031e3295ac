/* SPDX-License-Identifier: MIT */
#include "exchange.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "bench.h"

#define PIECE 65536

int exchange_connect(const char *where) {
        struct sockaddr_un path = {.sun_family = AF_UNIX};
        struct sockaddr_in tcp = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        bool is_path = strchr(where, '/') != NULL;
        int one = 1, s = socket(is_path ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        int r;

        if (is_path) {
                if (strlen(where) >= sizeof(path.sun_path))
                        bench_die("'%s' is too long", where);
                strcpy(path.sun_path, where);
                r = connect(s, (struct sockaddr *)&path, sizeof(path));
        } else {
                tcp.sin_port = htons((uint16_t)bench_number(where));
                r = connect(s, (struct sockaddr *)&tcp, sizeof(tcp));
                if (r == 0)
                        r = setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        }
        if (r < 0)
                bench_die("cannot connect to '%s': %m", where);
        return s;
}

static void send_all(int s, const uint8_t *data, size_t size) {
        while (size > 0) {
                ssize_t n = send(s, data, size, MSG_NOSIGNAL);

                if (n < 0)
                        bench_die("send: %m");
                data += n;
                size -= (size_t)n;
        }
}

/* The value of a field of the head, which ends at @end; NULL without it. */
static const char *field(const char *head, const char *end, const char *name) {
        for (const char *line = head; line && line < end;) {
                if (!strncasecmp(line, name, strlen(name)))
                        return line + strlen(name) + strspn(line + strlen(name), " ");
                line = memmem(line, (size_t)(end - line), "\r\n", 2);
                line = line ? line + 2 : NULL;
        }
        return NULL;
}

static void take_head(struct exchange *x) {
        const char *head = (const char *)x->data.data, *value;
        const char *end = memmem(head, x->data.size, "\r\n\r\n", 4);

        if (!end)
                return;
        if (strncmp(head, "HTTP/1.1 ", 9) != 0)
                bench_die("no HTTP: '%.40s'", head);
        x->body = x->looked = (size_t)(end - head) + 4;
        value = field(head, end, "transfer-encoding:");
        x->chunked = value && !strncasecmp(value, "chunked", 7);
        value = field(head, end, "content-length:");
        x->has_length = value != NULL;
        x->length = value ? strtoul(value, NULL, 10) : 0;
        value = field(head, end, "connection:");
        x->over = value && !strncasecmp(value, "close", 5);
}

/* Text that is not empty. Its beginning may be the last thing that came, so as much is looked at again. */
static void look_for_text(struct exchange *x, double now) {
        static const char key[] = "\"content\":\"";
        const size_t n = sizeof(key) - 1;
        const char *at, *end = (const char *)x->data.data + x->data.size;

        for (at = (const char *)x->data.data + x->looked; x->first == 0 && at;) {
                at = memmem(at, (size_t)(end - at), key, n);
                if (at && at + n < end && at[n] != '"')
                        x->first = now;
                if (at)
                        at += n;
        }
        if (x->data.size > x->body + n)
                x->looked = x->data.size - n;
}

static bool is_complete(const struct exchange *x) {
        static const char last[] = "\r\n0\r\n\r\n";
        const size_t n = sizeof(last) - 1;

        if (x->body == 0)
                return false;
        if (x->chunked) /* no line break is inside of a JSON text */
                return x->data.size >= x->body + n &&
                       !memcmp(x->data.data + x->data.size - n, last, n);
        return x->has_length && x->data.size >= x->body + x->length;
}

int exchange_ask(struct exchange *x, const char *where, int s, const struct buf *request) {
        ssize_t n = 1;

        *x = (struct exchange){.begin = bench_now()};
        if (s < 0)
                s = exchange_connect(where);
        send_all(s, request->data, request->size);
        while (!is_complete(x)) {
                if (buf_reserve(&x->data, PIECE + 1) < 0)
                        bench_die("out of memory");
                n = recv(s, x->data.data + x->data.size, PIECE, 0);
                if (n < 0)
                        bench_die("recv: %m");
                if (n == 0)
                        break;
                x->data.size += (size_t)n;
                x->data.data[x->data.size] = 0;
                if (x->body == 0)
                        take_head(x);
                if (x->body > 0 && x->first == 0)
                        look_for_text(x, bench_now());
        }
        x->end = bench_now();
        if (x->body == 0)
                bench_die("no answer");
        if (n > 0 && !x->over)
                return s;
        close(s);
        return -1;
}

int exchange_status(const struct exchange *x) {
        return atoi((const char *)x->data.data + sizeof("HTTP/1.1 ") - 1);
}
