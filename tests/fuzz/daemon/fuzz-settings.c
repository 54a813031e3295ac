/* SPDX-License-Identifier: MIT */
/* Any bytes as a configuration file: refused with a place, or read within the ranges. */
#include "base/err.h"
#include "daemon/settings.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct settings s = SETTINGS_NULL;
        struct err e = {};
        char path[64];
        int fd = memfd_create("conf", MFD_CLOEXEC), r;

        if (fd < 0 || write(fd, data, size) != (ssize_t)size)
                abort();
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        r = settings_parse_file(&s, path, &e);
        if (r < 0 && (e.code == ERR_NONE || !e.msg[0]))
                abort();
        for (size_t i = 0; i < settings_n; i++) {
                const struct setting *t = &settings_table[i];
                uint64_t v;

                if (t->type == SETTING_TEXT || t->type == SETTING_CHOICE)
                        continue;
                memcpy(&v, (char *)&s + t->offset, sizeof(v));
                if (v && (v < t->min || v > t->max))
                        abort();
        }
        settings_deinit(&s);
        close(fd);
        return 0;
}
