/* SPDX-License-Identifier: MIT */
#include "cli.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cli_fail(const char *file, const struct err *e) {
        if (file)
                fprintf(stderr, "confab-model: %s: %s\n", file, e->msg);
        else
                fprintf(stderr, "confab-model: %s\n", e->msg);
        return CLI_FAILED;
}

int cli_usage(const struct cli_verb *v, const char *fmt, ...) {
        va_list ap;

        fputs("confab-model: ", stderr);
        va_start(ap, fmt);
        vfprintf(stderr, fmt, ap);
        va_end(ap);
        fprintf(stderr, "\nUsage: confab-model %s %s\n", v->name, v->usage);
        return CLI_USAGE;
}

int cli_help(const struct cli_verb *v) {
        printf("Usage: confab-model %s %s\n%s", v->name, v->usage, v->help);
        return CLI_OK;
}

bool cli_number(const char *s, uint32_t min, uint32_t max, uint32_t *ret) {
        unsigned long long v;
        char *end;

        if (*s < '0' || *s > '9')
                return false;
        errno = 0;
        v = strtoull(s, &end, 10);
        if (errno || *end || v < min || v > max)
                return false;
        *ret = (uint32_t)v;
        return true;
}

bool cli_kv_type(const char *s, enum kern_kv_type *ret) {
        for (int i = 0; i < KERN_N_KV; i++)
                if (!strcmp(s, kern_kv_name((enum kern_kv_type)i))) {
                        *ret = (enum kern_kv_type)i;
                        return true;
                }
        return false;
}

bool cli_isa(const char *s, enum kern_isa *ret) {
        for (int i = 0; i < KERN_N_ISA; i++)
                if (!strcmp(s, kern_isa_name((enum kern_isa)i))) {
                        *ret = (enum kern_isa)i;
                        return true;
                }
        return false;
}

int cli_print(const struct buf *b) {
        if (fwrite(b->data, 1, b->size, stdout) == b->size && fflush(stdout) == 0)
                return CLI_OK;
        fprintf(stderr, "confab-model: cannot write the result: %s\n", strerror(errno));
        return CLI_FAILED;
}

unsigned cli_n_cpus(void) {
        cpu_set_t set;
        int n = 0;

        if (sched_getaffinity(0, sizeof(set), &set) == 0)
                n = CPU_COUNT(&set);
        return n > 0 ? (unsigned)n : 1;
}
