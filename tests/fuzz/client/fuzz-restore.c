/* SPDX-License-Identifier: MIT */
/* Any bytes as a backup: they become a state folder with the files of a backup and no others, or nothing is left. */
#include "base/err.h"
#include "client/restore.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whatever memory it has goes with its folder. */
static void remove_memory(const char *dir) {
        char path[400];
        struct dirent *d;
        DIR *stream;

        snprintf(path, sizeof(path), "%s/spill", dir);
        stream = opendir(path);
        if (!stream)
                return;
        while ((d = readdir(stream)))
                if (d->d_name[0] != '.') {
                        snprintf(path, sizeof(path), "%s/spill/%s", dir, d->d_name);
                        if (strlen(d->d_name) != 19 || unlink(path) < 0)
                                abort();
                }
        closedir(stream);
        snprintf(path, sizeof(path), "%s/spill", dir);
        if (rmdir(path) < 0)
                abort();
}

/* The names in a folder, but for the two of each. */
static size_t count(const char *path) {
        DIR *dir = opendir(path);
        struct dirent *d;
        size_t n = 0;

        if (!dir)
                abort();
        while ((d = readdir(dir)))
                n += d->d_name[0] != '.';
        closedir(dir);
        return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const struct restore_owner owner = {0};
        /* In memory: what is written is synced. */
        char parent[] = "/dev/shm/confab-fuzz-XXXXXX", dir[64], name[96];
        struct restored restored;
        struct err e;
        int fd = memfd_create("backup", MFD_CLOEXEC);

        if (fd < 0 || !mkdtemp(parent) || (size > 0 && write(fd, data, size) != (ssize_t)size))
                abort();
        lseek(fd, 0, SEEK_SET);
        snprintf(dir, sizeof(dir), "%s/state", parent);
        if (restore_state(fd, dir, &owner, NULL, &restored, &e) == 0) {
                remove_memory(dir);
                if (count(parent) != 1 || count(dir) != 2)
                        abort();
                snprintf(name, sizeof(name), "%s/register.db", dir);
                if (unlink(name) < 0)
                        abort();
                snprintf(name, sizeof(name), "%s/export.key", dir);
                if (unlink(name) < 0 || rmdir(dir) < 0)
                        abort();
        }
        if (rmdir(parent) < 0) /* nothing is left beside it */
                abort();
        close(fd);
        return 0;
}
