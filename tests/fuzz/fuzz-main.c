/* SPDX-License-Identifier: MIT */
/*
 * Runs a fuzz target as a plain test: fuzz-x PATH..., where a path is a file or a folder of files.
 * Each input is given as it is, then cut at up to N_CUTS places, then with bits flipped N_FLIPS
 * times; the mutations are the same in every run. Inputs are copied to exact-size heap blocks, so
 * that a sanitizer sees a read of one byte too many.
 */
#include "base/cleanup.h"
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define N_CUTS 64
#define N_FLIPS 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int feed(const uint8_t *data, size_t size) {
        uint8_t *copy = malloc(size ? size : 1);

        if (!copy)
                return -1;
        if (size)
                memcpy(copy, data, size);
        LLVMFuzzerTestOneInput(copy, size);
        free(copy);
        return 0;
}

static int feed_mutations(uint8_t *data, size_t size) {
        uint64_t x = 0x9E3779B97F4A7C15;

        if (feed(data, size) < 0)
                return -1;
        for (size_t i = 0; i < N_CUTS && i < size; i++)
                if (feed(data, size <= N_CUTS ? i : size * i / N_CUTS) < 0)
                        return -1;
        for (size_t i = 0; i < N_FLIPS && size; i++) {
                size_t at;

                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                /* half of them near the start, where the headers are */
                at = (x >> 8) % (i & 1 && size > 64 ? 64 : size);
                data[at] ^= 1u << (x & 7);
                if (feed(data, size) < 0)
                        return -1;
                data[at] ^= 1u << (x & 7);
        }
        return 0;
}

static int run_file(const char *path) {
        _cleanup_(fclosep) FILE *f = fopen(path, "rb");
        _cleanup_(freep) uint8_t *data = NULL;
        struct stat st;

        if (!f || fstat(fileno(f), &st) < 0)
                return -1;
        data = malloc((size_t)st.st_size + 1);
        if (!data || fread(data, 1, (size_t)st.st_size, f) != (size_t)st.st_size)
                return -1;
        return feed_mutations(data, (size_t)st.st_size);
}

static int run_path(const char *path, unsigned *n_files) {
        struct dirent **names = NULL;
        struct stat st;
        int n, r = 0;

        if (stat(path, &st) < 0)
                return -1;
        if (!S_ISDIR(st.st_mode)) {
                (*n_files)++;
                return run_file(path);
        }
        n = scandir(path, &names, NULL, alphasort);
        if (n < 0)
                return -1;
        for (int i = 0; i < n; i++) {
                char file[4096];

                snprintf(file, sizeof(file), "%s/%s", path, names[i]->d_name);
                if (r == 0 && names[i]->d_name[0] != '.') {
                        (*n_files)++;
                        r = run_file(file);
                }
                free(names[i]);
        }
        free(names);
        return r;
}

int main(int argc, char **argv) {
        unsigned n_files = 0;

        for (int i = 1; i < argc; i++)
                if (run_path(argv[i], &n_files) < 0) {
                        perror(argv[i]);
                        return 1;
                }
        printf("%u inputs\n", n_files);
        return n_files == 0;
}
