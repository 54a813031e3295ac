/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "cli.h"

static const struct cli_verb *const verbs[] = {
        &verb_info, &verb_tokenize, &verb_logprobs, &verb_bench, &verb_fsck};

static void print_usage(FILE *f) {
        fputs("Usage: confab-model VERB FILE [OPTIONS]\n"
              "Looks into a GGUF model file and runs it, without the daemon; checks a daemon's "
              "state.\n\n",
                f);
        for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
                fprintf(f, "  confab-model %s %s\n", verbs[i]->name, verbs[i]->usage);
        fputs("\nconfab-model VERB --help tells more. Exit status: 0 done, 1 failed, 2 usage.\n",
                f);
}

int main(int argc, char **argv) {
        if (argc < 2) {
                print_usage(stderr);
                return CLI_USAGE;
        }
        if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
                print_usage(stdout);
                return CLI_OK;
        }
        if (!strcmp(argv[1], "--version")) {
                puts("confab-model " CONFAB_VERSION);
                return CLI_OK;
        }
        for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
                if (!strcmp(argv[1], verbs[i]->name))
                        return verbs[i]->run(verbs[i], argc - 1, argv + 1);
        fprintf(stderr, "confab-model: unknown verb '%s'\n\n", argv[1]);
        print_usage(stderr);
        return CLI_USAGE;
}
