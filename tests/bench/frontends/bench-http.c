/* SPDX-License-Identifier: MIT */
/*
 * bench-http UNIX-SOCKET|PORT [close]: a measuring client for streamed chat completions. It reads requests from stdin, each
 * as a line with its size in bytes and then the bytes as they are to be sent, and answers each with a line of JSON
 *
 *      {"first":SECONDS,"total":SECONDS,"size":BYTES}
 *
 * and the answer's bytes as they came. Seconds count from before the request is sent, or the connection made: it is kept, unless
 * "close" is given for a server that keeps none after a stream, to the bytes that complete the first piece of text, and to the end. Without any
 * text "first" is the end. Anything that is no HTTP ends the program; what the answer says is for the caller.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "bench.h"
#include "exchange.h"

#define MOST ((size_t)64 << 20) /* of a request */

/* Returns the connection for the next request, or -1. */
static int ask(const char *where, int s, bool keep, const struct buf *request) {
        struct exchange x;

        s = exchange_ask(&x, where, s, request);
        printf("{\"first\":%.6f,\"total\":%.6f,\"size\":%zu}\n",
                (x.first > 0 ? x.first : x.end) - x.begin, x.end - x.begin, x.data.size);
        fwrite(x.data.data, 1, x.data.size, stdout);
        fflush(stdout);
        buf_deinit(&x.data);
        if (s < 0 || keep)
                return s;
        close(s);
        return -1;
}

int main(int argc, char **argv) {
        struct buf request = BUF_NULL;
        _cleanup_(freep) char *line = NULL;
        size_t size = 0;
        int s = -1;

        if (argc != 2 && (argc != 3 || strcmp(argv[2], "close") != 0)) {
                fputs("usage: bench-http UNIX-SOCKET|PORT [close]\n", stderr);
                return 2;
        }
        while (getline(&line, &size, stdin) > 0) {
                size_t n;

                line[strcspn(line, "\n")] = '\0';
                n = bench_number(line);
                request.size = 0;
                if (n > MOST || buf_reserve(&request, n) < 0)
                        bench_die("a request of %zu bytes is too large", n);
                if (fread(request.data, 1, n, stdin) != n)
                        bench_die("the request is not complete");
                request.size = n;
                s = ask(argv[1], s, argc == 2, &request);
        }
        if (s >= 0)
                close(s);
        buf_deinit(&request);
        return 0;
}
