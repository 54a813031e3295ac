/* SPDX-License-Identifier: MIT */
/*
 * The effect of spill traffic on mapped weights: bench-cache FOLDER [WEIGHTS-MiB [TRAFFIC-MiB]].
 *
 * A file is mapped and touched like weights. Then blocks of many times its size are written, read
 * back and released, once with the store's page cache policy and once without. After each step
 * mincore() counts the resident pages of the weights and of the spill files. The effect shows only
 * if memory is scarce, so set a limit of about twice the weights:
 *
 *      v2: mkdir /sys/fs/cgroup/b; echo 400M > /sys/fs/cgroup/b/memory.max
 *      v1: mkdir /sys/fs/cgroup/memory/b; echo 400M > /sys/fs/cgroup/memory/b/memory.limit_in_bytes
 *      sh -c 'echo $$ > …/b/cgroup.procs; exec bench-cache /var/tmp 200 2000'
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "base/util.h"
#include "spill/spill.h"
#include "unit/spill/resident.h"

enum { BLOCK = 1 << 20, RUN = 64, PAGE = 4096 };

static uint8_t *block, *back; /* [BLOCK], [RUN][BLOCK] */
static char dir[256];
static uint8_t *weights;
static size_t weights_size;

static void die(const char *what, const struct err *e) {
        fprintf(stderr, "bench-cache: %s%s%s\n", what, e ? ": " : "", e ? e->msg : "");
        exit(1);
}

static void touch(void) {
        for (size_t i = 0; i < weights_size; i += PAGE)
                (void)*(volatile const uint8_t *)(weights + i);
}

static void make_weights(const char *path) {
        int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        if (fd < 0)
                die("cannot make the weights", NULL);
        for (size_t i = 0; i < weights_size; i += BLOCK)
                if (pwrite(fd, block, BLOCK, (off_t)i) != BLOCK)
                        die("cannot write the weights", NULL);
        fsync(fd);
        weights = mmap(NULL, weights_size, PROT_READ, MAP_SHARED, fd, 0);
        if (weights == MAP_FAILED)
                die("cannot map the weights", NULL);
        close(fd);
}

static void show(const char *what) {
        char path[300];
        size_t n, spilled;

        n = resident_of_map(weights, weights_size);
        snprintf(path, sizeof(path), "%s/store/0000000000000001.kv", dir);
        spilled = access(path, F_OK) == 0 ? resident_of_file(path) : 0;
        printf("  %-28s  weights %5.1f %%   spill file %7.1f MiB\n", what,
                100.0 * (double)n * PAGE / (double)weights_size,
                (double)spilled * PAGE / (1 << 20));
}

/* Write RUN blocks to a file, and read all of them back. */
static void run(struct spill *s, struct spill_item *items, size_t round) {
        struct err e;

        for (uint32_t i = 0; i < RUN; i++) {
                struct spill_block b = {.file_key = 1,
                        .meta = {.position = i, .token_hash = round},
                        .raw = block,
                        .raw_size = BLOCK};

                items[i] = (struct spill_item){.meta = b.meta, .dst = back + (size_t)i * BLOCK};
                if (spill_write(s, &b, &items[i].ref, NULL, &e) < 0)
                        die("cannot write", &e);
        }
        spill_settle(s, 1);
        if (spill_read_batch(s, items, RUN, &e) < 0)
                die("cannot read", &e);
}

static void traffic(bool keep_cached, size_t n_rounds) {
        struct spill_options o = {
                .max_raw_size = BLOCK, .codec = SPILL_CODEC_RAW, .keep_cached = keep_cached};
        struct spill_item *items = calloc(n_rounds * RUN, sizeof(*items));
        struct spill *s = NULL;
        char path[300];
        struct err e;

        printf("%s\n", keep_cached ? "without the policy (keep_cached)" : "with the policy");
        snprintf(path, sizeof(path), "%s/store", dir);
        if (!items)
                die("no memory", NULL);
        if (spill_open(&s, path, &o, &e) < 0 || spill_sweep(s, NULL, &e) < 0)
                die("cannot open", &e);
        touch();
        touch();
        show("before");
        for (size_t i = 0; i < n_rounds; i++)
                run(s, items + i * RUN, i);
        show("after writing and reading");
        for (size_t k = 0; k < 3; k++)
                for (size_t i = 0; i < n_rounds; i++) {
                        for (size_t j = 0; j < RUN; j++)
                                items[i * RUN + j].dst = back + j * BLOCK;
                        if (spill_read_batch(s, items + i * RUN, RUN, &e) < 0)
                                die("cannot read", &e);
                }
        show("after reading 3 times more");
        for (size_t i = 0; i < n_rounds * RUN; i++)
                spill_release(s, &items[i].ref, NULL);
        spill_free(s);
        free(items);
        rmdir(path);
}

int main(int argc, char **argv) {
        long weights_mib = argc > 2 ? strtol(argv[2], NULL, 10) : 64;
        long traffic_mib = argc > 3 ? strtol(argv[3], NULL, 10) : 256;
        uint64_t x = 1;
        char path[300];

        if (argc < 2 || argc > 4 || weights_mib < 1 || traffic_mib < RUN) {
                fprintf(stderr, "usage: bench-cache FOLDER [WEIGHTS-MiB [TRAFFIC-MiB]]\n");
                return 2;
        }
        snprintf(dir, sizeof(dir), "%s/bench-cache-XXXXXX", argv[1]);
        block = malloc(BLOCK);
        back = malloc((size_t)RUN * BLOCK);
        if (!block || !back || !mkdtemp(dir))
                die("cannot begin", NULL);
        for (size_t i = 0; i < BLOCK; i++) {
                x = x * 6364136223846793005u + 1442695040888963407u;
                block[i] = (uint8_t)(x >> 40);
        }
        weights_size = (size_t)weights_mib << 20;
        snprintf(path, sizeof(path), "%s/weights", dir);
        make_weights(path);
        for (int keep = 0; keep < 2; keep++)
                traffic(keep, (size_t)traffic_mib / RUN);
        munmap(weights, weights_size);
        unlink(path);
        rmdir(dir);
        return 0;
}
