/* SPDX-License-Identifier: MIT */
/*
 * Connections that are there and say nothing: each has said Hello and has had one answer. Figures: "held", once all are there.
 * When stdin ends, every hundredth is asked again, which shows that they were alive, and "alive" tells how many answered.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench.h"
#include "service.h"
#include "user.h"

#define EVERY 100

void service_hold(int n, char **args) {
        size_t n_held = bench_number(args[2]), alive = 0;
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct confab **held = bench_alloc(n_held * sizeof(*held));
        char byte;

        (void)n;
        r.verb = CONFAB_MODEL_INFO;
        for (size_t i = 0; i < n_held; i++) {
                held[i] = user_connect(args[0], args[1]);
                user_call(held[i], &r, NULL, NULL);
        }
        bench_put1("held", (double)n_held);
        while (read(STDIN_FILENO, &byte, 1) > 0)
                ;
        for (size_t i = 0; i < n_held; i += EVERY, alive++)
                user_call(held[i], &r, NULL, NULL);
        bench_put1("alive", (double)alive);
        for (size_t i = 0; i < n_held; i++)
                confab_free(held[i]);
        free(held);
}
