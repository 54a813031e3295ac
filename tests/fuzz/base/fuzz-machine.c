/* SPDX-License-Identifier: MIT */
/*
 * Parsers of /proc and of control groups on any bytes. The input is three texts with NUL bytes
 * between them: /proc/self/cgroup, /proc/self/mountinfo, and a file of figures. What is found stays
 * within its bounds.
 */
#include <stdlib.h>
#include <string.h>

#include "base/machine.h"
#include "fuzz/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A copy of its own, so that a sanitizer sees a read behind its end. */
static char *cut(const uint8_t **data, size_t *size) {
        const uint8_t *end = memchr(*data, 0, *size);
        size_t n = end ? (size_t)(end - *data) : *size;
        char *text = malloc(n + 1);

        if (!text)
                exit(1);
        memcpy(text, *data, n);
        text[n] = '\0';
        n += end ? 1 : 0;
        *data += n;
        *size -= n;
        return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const char *const controllers[] = {NULL, "memory", "cpu"};
        static const char *const keys[] = {"MemAvailable:", "inactive_file", "total_active_file"};
        static struct machine_group g;
        static const uint8_t none[1];
        char *texts[3];

        if (size == 0)
                data = none;
        for (size_t i = 0; i < 3; i++)
                texts[i] = cut(&data, &size);
        for (size_t i = 0; i < 3; i++) {
                struct machine_stalls s;
                uint64_t n = 0;

                if (machine_parse_group(texts[0], texts[1], controllers[i], &g)) {
                        size_t length = strnlen(g.dir, sizeof(g.dir));

                        check(length < sizeof(g.dir) && g.n_mount <= length);
                        check(length == 0 || g.dir[0] == '/');
                        check(g.dir[g.n_mount] == '\0' || g.dir[g.n_mount] == '/');
                }
                (void)machine_parse_number(texts[2], keys[i], &n);
                (void)machine_parse_stalls(texts[2], &s);
        }
        check(machine_parse_cpu_max(texts[2]) <= 1 << 20);
        for (size_t i = 0; i < 3; i++)
                free(texts[i]);
        return 0;
}
