/* SPDX-License-Identifier: MIT */
/*
 * The measuring client of `tools/bench service`; each first word is a program of its own:
 *
 *      bench-service trips SOCKET USER ROUNDS SECONDS       requests that are answered at once, one after another
 *      bench-service http WHERE ROUNDS SECONDS NAME...      the same over HTTP; each NAME's request from stdin, as a
 *                                                           line with its size in bytes, and the bytes
 *      bench-service opens SOCKET USER SECONDS|pid:N        Open after Open, for so long, or until the process ends
 *      bench-service hold SOCKET USER N                     connections that say nothing, until stdin ends
 *      bench-service fill SOCKET USER N JOBS TOKENS         conversations with so many tokens each
 *      bench-service forks SOCKET USER N JOBS TOKENS        the same, but all are forks of the first
 *      bench-service evict SOCKET USER                      the memory of all conversations of the user
 *      bench-service first SOCKET USER TOKEN...             from connecting to the first token of a reply
 *
 * ROUNDS and SECONDS end the rounds, whichever is reached first. USER is "-" (who runs this), "uid:N" (this process
 * becomes that user, which root can) or "tenant:NAME". Figures are printed as bench.h says.
 */
#include <stdio.h>
#include <string.h>

#include "service.h"

static const struct {
        const char *word;
        int least; /* arguments */
        void (*run)(int n, char **args);
} programs[] = {
        {"trips", 4, service_trips},
        {"http", 4, service_http},
        {"opens", 3, service_opens},
        {"hold", 3, service_hold},
        {"fill", 5, service_fill},
        {"forks", 5, service_forks},
        {"evict", 2, service_evict},
        {"first", 3, service_first},
};

int main(int argc, char **argv) {
        for (size_t i = 0; argc > 1 && i < sizeof(programs) / sizeof(*programs); i++)
                if (!strcmp(argv[1], programs[i].word) && argc - 2 >= programs[i].least) {
                        programs[i].run(argc - 2, argv + 2);
                        return 0;
                }
        fputs("usage: see bench-service.c\n", stderr);
        return 2;
}
