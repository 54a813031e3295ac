/* SPDX-License-Identifier: MIT */
/*
 * Speed of the spill store: bench-spill [MiB [FOLDER]], default 64 MiB in /var/tmp.
 *
 * The blocks are 1 MiB in four sections and resemble key/value memory in f16 (channels of different
 * mean and spread, values that change slowly from token to token). Each row is measured with one
 * thread and with two that share the blocks, like the engine's I/O workers. Figures are raw bytes
 * (after decoding) in GB/s: per second of wall time, the best of some runs, and per second of CPU
 * time, which other load on the machine affects less. "dropped" means that the page cache held
 * nothing of the files, so the figure includes the disk.
 */
#include <fcntl.h>
#include <lz4.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/util.h"
#include "spill/spill.h"

enum {
        N_LAYERS = 16,
        N_HEADS = 8,
        N_CHANNELS = 64,
        N_TOKENS = 32,
        ARRAY = N_HEADS * N_CHANNELS * N_TOKENS * 2,
        BLOCK = 2 * N_LAYERS * ARRAY,
        N_SECTIONS = 4,
        RUN = 8, /* blocks that one load has */
        N_REPEATS = 5,
        MAX_THREADS = 2,
};

static size_t n_blocks;
static uint8_t *blocks, *back, *packed; /* [n_blocks][BLOCK] */
static size_t *packed_size;             /* [n_blocks] */
static struct spill_item *items;        /* [n_blocks] */
static struct spill_array arrays[2 * N_LAYERS];
static uint64_t section_ends[N_SECTIONS];
static struct spill *store;
static int plain_fd;

static void die(const char *what, const struct err *e) {
        fprintf(stderr, "bench-spill: %s%s%s\n", what, e ? ": " : "", e ? e->msg : "");
        exit(1);
}

/* --- data --- */

static uint64_t rng = 1;

static float uniform(void) {
        rng = rng * 6364136223846793005u + 1442695040888963407u;
        return (float)(rng >> 40) / (float)(1 << 24) - 0.5f;
}

static uint16_t to_f16(float f) {
        uint32_t b;
        int exponent;

        memcpy(&b, &f, sizeof(b));
        exponent = (int)(b >> 23 & 255) - 112;
        if (exponent <= 0)
                return (uint16_t)(b >> 16 & 0x8000);
        return (uint16_t)((b >> 16 & 0x8000) | (uint32_t)exponent << 10 | (b >> 13 & 1023));
}

/* One array; channel-major for keys. */
static void fill_array(uint16_t *a, bool channel_major) {
        for (size_t h = 0; h < N_HEADS; h++)
                for (size_t c = 0; c < N_CHANNELS; c++) {
                        float mean = 4 * uniform(), spread = uniform() * uniform() * 8, v = 0;

                        for (size_t t = 0; t < N_TOKENS; t++) {
                                size_t at = channel_major ? c * N_TOKENS + t : t * N_CHANNELS + c;

                                v = 0.5f * v + spread * (uniform() + uniform() + uniform());
                                a[h * N_CHANNELS * N_TOKENS + at] = to_f16(mean + v);
                        }
                }
}

static void make_data(void) {
        for (uint32_t i = 0; i < 2 * N_LAYERS; i++)
                arrays[i] = (struct spill_array){.element = SPILL_F16,
                        .section = i * N_SECTIONS / (2 * N_LAYERS),
                        .offset = (uint64_t)i * ARRAY,
                        .n_tiles = N_HEADS,
                        .n_channels = N_CHANNELS,
                        .n_tokens = N_TOKENS,
                        .channel_major = i % 2 == 0};
        for (size_t k = 0; k < N_SECTIONS; k++)
                section_ends[k] = (k + 1) * (BLOCK / N_SECTIONS);
        blocks = malloc(n_blocks * BLOCK);
        back = malloc(n_blocks * BLOCK);
        packed = malloc(n_blocks * BLOCK);
        packed_size = calloc(n_blocks, sizeof(*packed_size));
        items = calloc(n_blocks, sizeof(*items));
        if (!blocks || !back || !packed || !packed_size || !items)
                die("no memory", NULL);
        memset(back, 1, n_blocks * BLOCK);
        for (size_t i = 0; i < n_blocks; i++)
                for (size_t k = 0; k < 2 * N_LAYERS; k++)
                        fill_array((uint16_t *)(blocks + i * BLOCK + k * ARRAY), k % 2 == 0);
        for (size_t i = 0; i < n_blocks; i++) {
                int n = LZ4_compress_default(
                        (char *)blocks + i * BLOCK, (char *)packed + i * BLOCK, BLOCK, BLOCK);

                packed_size[i] = n > 0 ? (size_t)n : 0;
        }
}

/* --- what is measured: a part of the blocks, by one thread --- */

static void do_memcpy(size_t from, size_t to) {
        for (size_t i = from; i < to; i++)
                memcpy(back + i * BLOCK, blocks + i * BLOCK, BLOCK);
}

static void do_hash(size_t from, size_t to) {
        static volatile uint64_t sink;

        for (size_t i = from; i < to; i++)
                sink = hash64(blocks + i * BLOCK, BLOCK, sink);
}

static void do_pread(size_t from, size_t to) {
        for (size_t i = from; i < to; i++)
                if (pread(plain_fd, back + i * BLOCK, BLOCK, (off_t)(i * BLOCK)) != BLOCK)
                        die("cannot read", NULL);
}

static void do_lz4_decode(size_t from, size_t to) {
        for (size_t i = from; i < to; i++)
                if (packed_size[i] > 0 &&
                        LZ4_decompress_safe((char *)packed + i * BLOCK, (char *)back + i * BLOCK,
                                (int)packed_size[i], BLOCK) != BLOCK)
                        die("cannot decode", NULL);
}

static void do_write(size_t from, size_t to) {
        uint64_t key = from;
        struct err e;

        for (size_t i = from; i < to; i++) {
                struct spill_block b = {.file_key = key,
                        .meta = {.position = (uint32_t)i, .n_tokens = N_TOKENS, .token_hash = i},
                        .raw = blocks + i * BLOCK,
                        .raw_size = BLOCK};

                items[i] = (struct spill_item){.meta = b.meta, .dst = back + i * BLOCK};
                if (spill_write(store, &b, &items[i].ref, NULL, &e) < 0)
                        die("cannot write", &e);
        }
}

static void do_settle(size_t from, size_t to) {
        do_write(from, to);
        spill_settle(store, from);
}

static void do_read_one(size_t from, size_t to) {
        struct err e;

        for (size_t i = from; i < to; i++)
                if (spill_read(store, &items[i].ref, &items[i].meta, items[i].dst, BLOCK, &e) < 0)
                        die("cannot read", &e);
}

/* Runs of blocks, sections [0, first) of each before the rest. */
static void load(size_t from, size_t to, size_t first) {
        struct err e;

        for (size_t i = from; i < to; i += RUN) {
                struct spill_load *l = NULL;
                size_t n = MIN(to - i, (size_t)RUN);

                if (spill_load_new(&l, store, items + i, n, &e) < 0)
                        die("cannot load", &e);
                for (size_t k = 0; k < N_SECTIONS; k += first)
                        if (spill_load_read(
                                    l, (struct spill_range[SPILL_MAX_CLASSES]){{k, first}}, &e) < 0)
                                die("cannot load", &e);
                spill_load_free(l);
        }
}

static void do_load(size_t from, size_t to) {
        load(from, to, N_SECTIONS);
}

static void do_load_sections(size_t from, size_t to) {
        load(from, to, 1);
}

/* --- measuring --- */

struct part {
        void (*f)(size_t from, size_t to);
        size_t from, to;
};

static void *run_part(void *arg) {
        struct part *p = arg;

        p->f(p->from, p->to);
        return NULL;
}

static double cpu_seconds(void) {
        struct timespec t;

        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
        return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

struct speed {
        double wall, cpu; /* GB/s */
};

static void once(void (*f)(size_t, size_t), size_t n_threads, struct speed *best) {
        double gb = (double)(n_blocks * BLOCK) / 1e9, cpu = cpu_seconds();
        pthread_t thread[MAX_THREADS];
        struct part part[MAX_THREADS];
        uint64_t start = clock_monotonic_usec();

        for (size_t t = 0; t < n_threads; t++) {
                part[t] =
                        (struct part){f, t * n_blocks / n_threads, (t + 1) * n_blocks / n_threads};
                if (pthread_create(&thread[t], NULL, run_part, &part[t]) != 0)
                        die("no thread", NULL);
        }
        for (size_t t = 0; t < n_threads; t++)
                pthread_join(thread[t], NULL);
        best->wall = MAX(best->wall, gb * 1e6 / (double)(clock_monotonic_usec() - start + 1));
        best->cpu = MAX(best->cpu, gb / (cpu_seconds() - cpu + 1e-6));
}

static void drop_file(const char *path) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);

        if (fd < 0)
                return;
        fdatasync(fd);
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        close(fd);
}

static void drop_all(const char *dir) {
        char path[400];

        snprintf(path, sizeof(path), "%s/plain", dir);
        drop_file(path);
        for (size_t t = 0; t < MAX_THREADS; t++) {
                snprintf(path, sizeof(path), "%s/store/%016zx.kv", dir, t * n_blocks / MAX_THREADS);
                drop_file(path);
        }
}

static void release_all(void) {
        for (size_t i = 0; i < n_blocks; i++)
                spill_release(store, &items[i].ref, NULL);
}

enum how { AS_IT_IS, DROPPED, WRITES };

/* Each write needs its blocks gone before the next; the last ones stay for reading. */
static void row(const char *name, void (*f)(size_t, size_t), enum how how, const char *dir) {
        struct speed best[MAX_THREADS] = {0};

        for (size_t n = 1; n <= MAX_THREADS; n++)
                for (unsigned i = 0; i < N_REPEATS; i++) {
                        if (how == DROPPED)
                                drop_all(dir);
                        once(f, n, &best[n - 1]);
                        if (how == WRITES && (n < MAX_THREADS || i + 1 < N_REPEATS))
                                release_all();
                }
        printf("%-34s  %8.2f  %8.2f  %8.2f\n", name, best[0].wall, best[1].wall, best[0].cpu);
        fflush(stdout);
}

static void bench_codec(const char *dir, unsigned codec, const char *name) {
        struct spill_options o = {.max_raw_size = BLOCK,
                .layouts[0] = {arrays, ARRAY_SIZE(arrays), section_ends, N_SECTIONS},
                .codec = codec};
        struct spill_stats st;
        char path[300], label[64];
        struct err e;

        snprintf(path, sizeof(path), "%s/store", dir);
        for (int cached = 1; cached >= 0; cached--) {
                o.keep_cached = cached;
                if (spill_open(&store, path, &o, &e) < 0 || spill_sweep(store, NULL, &e) < 0)
                        die("cannot open", &e);
                snprintf(label, sizeof(label), "%s: write%s", name,
                        cached ? ", cached" : ", settled to disk");
                row(label, cached ? do_write : do_settle, WRITES, dir);
                spill_stats(store, &st);
                if (cached) {
                        snprintf(label, sizeof(label), "%s: read one by one, cached", name);
                        row(label, do_read_one, AS_IT_IS, NULL);
                        snprintf(label, sizeof(label), "%s: load, cached", name);
                        row(label, do_load, AS_IT_IS, NULL);
                        snprintf(label, sizeof(label), "%s: load by sections, cached", name);
                        row(label, do_load_sections, AS_IT_IS, NULL);
                } else {
                        snprintf(label, sizeof(label), "%s: load, dropped", name);
                        row(label, do_load, DROPPED, dir);
                        snprintf(label, sizeof(label), "%s: load by sections, dropped", name);
                        row(label, do_load_sections, DROPPED, dir);
                }
                if (memcmp(back, blocks, n_blocks * BLOCK) != 0)
                        die("other bytes came back", NULL);
                if (!cached)
                        printf("%-34s  %8.3f of raw\n", "   size on disk",
                                (double)st.disk_size / (double)(n_blocks * BLOCK));
                memset(back, 1, n_blocks * BLOCK);
                release_all();
                store = spill_free(store);
        }
}

int main(int argc, char **argv) {
        long mib = argc > 1 ? strtol(argv[1], NULL, 10) : 64;
        char dir[256], path[300];

        if (mib < 2 || mib > 65536 || argc > 3) {
                fprintf(stderr, "usage: bench-spill [MiB [FOLDER]]\n");
                return 2;
        }
        n_blocks = (size_t)mib * (1 << 20) / BLOCK;
        snprintf(dir, sizeof(dir), "%s/bench-spill-XXXXXX", argc > 2 ? argv[2] : "/var/tmp");
        if (!mkdtemp(dir))
                die("cannot make a folder", NULL);
        make_data();
        snprintf(path, sizeof(path), "%s/plain", dir);
        plain_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (plain_fd < 0)
                die("cannot make a file", NULL);
        for (size_t i = 0; i < n_blocks; i++)
                if (pwrite(plain_fd, blocks + i * BLOCK, BLOCK, (off_t)(i * BLOCK)) != BLOCK)
                        die("cannot write", NULL);
        printf("%zu blocks of %d bytes, %d sections; GB/s of raw bytes\n", n_blocks, BLOCK,
                N_SECTIONS);
        printf("%-34s  %8s  %8s  %8s\n", "", "1 thread", "2", "CPU");
        row("memcpy", do_memcpy, AS_IT_IS, NULL);
        row("XXH64", do_hash, AS_IT_IS, NULL);
        if (packed_size[0] > 0)
                row("plain LZ4 decode", do_lz4_decode, AS_IT_IS, NULL);
        row("plain pread, cached", do_pread, AS_IT_IS, NULL);
        row("plain pread, dropped", do_pread, DROPPED, dir);
        bench_codec(dir, SPILL_CODEC_RAW, "raw");
        bench_codec(dir, SPILL_CODEC_LZ4, "lz4");
        bench_codec(dir, SPILL_CODEC_KV, "kv");
        close(plain_fd);
        unlink(path);
        snprintf(path, sizeof(path), "%s/store", dir);
        rmdir(path);
        rmdir(dir);
        return 0;
}
