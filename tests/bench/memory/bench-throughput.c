/* SPDX-License-Identifier: MIT */
/*
 * bench-throughput MODEL real|random N_TOKENS REPEAT DIR: one worker's speed in bytes of raw memory
 * per second, on memory that a model has really computed: from text that it wrote itself (real: for
 * trained weights), or from random tokens. For comparison with the spill store: memcpy, pread of an
 * uncompressed file, and LZ4 alone. Each is measured with the files in the page cache, and dropped
 * from it. A disk changes its speed by the minute, and is slow while it is busy with what was just
 * written: so it gets a second of rest before it is read, and each restore is in turn with the uncompressed file.
 *
 * Steps that do not wait for the disk are timed by the processor time of this thread, which other
 * load on the machine affects less; steps that do are timed by the clock.
 */
#include <fcntl.h>
#include <lz4.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ledger.h"
#include "base/thread.h"
#include "base/util.h"
#include "bench.h"
#include "gguf/gguf.h"
#include "model/model.h"
#include "seq/seq.h"
#include "spill/spill.h"

#define N_STREAMS 32
#define CHUNK 64
#define MAX_REPEAT 64
#define MIN_SECTION (128 << 10)

/* --- memory --- */

/* A full block, borrowed. */
struct piece {
        const void *data;
        enum seq_class class;
        size_t offset, size; /* offset: in all of them, one behind the other */
};

struct memory {
        struct gguf *gguf;
        struct model *model;
        struct kern *kern;
        struct model_work *work;
        struct model_info info;
        struct ledger ledger;
        struct seq_pool *pool;
        struct seq *streams[N_STREAMS];
        struct piece *blocks; /* [n_blocks] */
        size_t n_blocks, size, max_size;
};

static void open_memory(struct memory *m, const char *path, uint32_t per_stream) {
        struct model_options mo = {.kv_type = KERN_KV_F16};
        const uint32_t isa = bench_isa();
        struct err e;

        /* As the engine caps it (lib/engine/main/load.c). */
        (void)spill_cap_isa(isa == KERN_GENERIC                        ? SPILL_ISA_GENERIC
                            : isa == KERN_AVX2 || isa == KERN_AVX_VNNI ? SPILL_ISA_AVX2
                                                                       : SPILL_ISA_BEST);
        bench_check(gguf_open(&m->gguf, path, &e), &e, path);
        bench_check(model_open(&m->model, m->gguf, &mo, &e), &e, path);
        bench_check(kern_new(&m->kern, 2, MIN(isa, (uint32_t)KERN_N_ISA), &e), &e, "threads");
        bench_check(model_work_new(&m->work, m->model, m->kern, N_STREAMS * CHUNK, N_STREAMS, &e),
                &e, "activations");
        model_info(m->model, &m->info);
        m->ledger = LEDGER_INIT(0);
        bench_check(seq_pool_new(&m->pool, &m->ledger, &m->info.shape, &e), &e, "pool");
        ledger_set_budget(&m->ledger, N_STREAMS * seq_need(m->pool, per_stream, CHUNK));
        for (size_t i = 0; i < N_STREAMS; i++)
                bench_check(seq_new(&m->streams[i], m->pool, &e), &e, "sequence");
}

/* One draw from the softmax. */
static int32_t draw(const float *logits, uint32_t n, uint64_t *seed) {
        double max = (double)logits[0], sum = 0, at;

        for (uint32_t i = 0; i < n; i++)
                max = MAX(max, (double)logits[i]);
        for (uint32_t i = 0; i < n; i++)
                sum += exp((double)logits[i] - max);
        at = (double)(bench_random(seed) >> 11) * 0x1p-53 * sum;
        for (uint32_t i = 0; i < n; i++) {
                at -= exp((double)logits[i] - max);
                if (at < 0)
                        return (int32_t)i;
        }
        return (int32_t)n - 1;
}

/* All streams at once, @chunk tokens of each per call. */
static void compute(struct memory *m, bool real, uint32_t per_stream) {
        struct model_token batch[N_STREAMS * CHUNK];
        int32_t next[N_STREAMS];
        uint32_t chunk = real ? 1 : CHUNK;
        uint64_t seed = 17;

        for (size_t i = 0; i < N_STREAMS; i++)
                next[i] = 1;
        for (uint32_t at = 0; at < per_stream; at += chunk) {
                size_t n = 0;

                for (size_t i = 0; i < N_STREAMS; i++) {
                        if (seq_reserve(m->streams[i], chunk, NULL) != 0)
                                bench_die("no room for tokens");
                        for (uint32_t t = 0; t < chunk; t++)
                                batch[n++] = (struct model_token){
                                        .token = real ? next[i]
                                                      : (int32_t)(bench_random(&seed) %
                                                                  m->info.n_vocab),
                                        .pos = at + t,
                                        .seq = m->streams[i],
                                        .want_logits = real};
                }
                (void)model_forward(m->work, batch, n, NULL); /* cannot fail */
                for (size_t i = 0; i < N_STREAMS; i++) {
                        seq_commit(m->streams[i], chunk);
                        if (real)
                                next[i] = draw(model_logits(m->work, i), m->info.n_vocab, &seed);
                }
        }
}

/* What is there in the end: of windows and states no more than a sequence keeps. */
static void list_blocks(struct memory *m) {
        size_t n = 0;

        for (size_t i = 0; i < N_STREAMS; i++)
                n += seq_n_cells(m->streams[i]);
        m->blocks = bench_alloc(n * sizeof(*m->blocks));
        for (size_t i = 0; i < N_STREAMS; i++)
                for (enum seq_class c = SEQ_ALL; c < SEQ_N_CLASSES; c++) {
                        struct seq_cell cell;
                        size_t it = 0;

                        while (seq_next_cell(m->streams[i], c, &it, &cell)) {
                                if (cell.n_tokens < seq_cell_tokens(&m->info.shape, c))
                                        continue;
                                m->blocks[m->n_blocks++] =
                                        (struct piece){.data = seq_block_data(cell.block),
                                                .class = c,
                                                .offset = m->size,
                                                .size = m->info.shape.size[c]};
                                m->size += m->info.shape.size[c];
                        }
                }
        for (int c = 0; c < SEQ_N_CLASSES; c++)
                m->max_size = MAX(m->max_size, m->info.shape.size[c]);
}

static void close_memory(struct memory *m) {
        for (size_t i = 0; i < N_STREAMS; i++)
                seq_free(m->streams[i]);
        free(m->blocks);
        seq_pool_free(m->pool);
        model_work_free(m->work);
        kern_free(m->kern);
        model_free(m->model);
        gguf_free(m->gguf);
}

/* --- figures --- */

struct figures {
        const struct memory *m;
        const char *dir;
        size_t repeat;
        bool rests;
        char plain_dir[4200], plain[4300]; /* the uncompressed file */
        double raw;                        /* bytes */
        uint8_t *to;                       /* as many bytes, touched */
};

static void rest(const struct figures *f) {
        if (f->rests)
                sleep(1);
}

static uint8_t *to_block(const struct figures *f, size_t i) {
        return f->to + f->m->blocks[i].offset;
}

/* Bytes per second of each repetition. */
static void put_speed(const struct figures *f, const char *name, double *seconds) {
        for (size_t i = 0; i < f->repeat; i++)
                seconds[i] = f->raw / seconds[i];
        bench_put(name, seconds, f->repeat);
}

static void bench_memcpy(const struct figures *f) {
        double seconds[MAX_REPEAT];

        for (size_t r = 0; r < f->repeat; r++) {
                double t0 = bench_thread_time();

                for (size_t i = 0; i < f->m->n_blocks; i++)
                        memcpy(to_block(f, i), f->m->blocks[i].data, f->m->blocks[i].size);
                seconds[r] = bench_thread_time() - t0;
        }
        put_speed(f, "memcpy", seconds);
}

static void bench_lz4(const struct figures *f) {
        size_t max = (size_t)LZ4_compressBound((int)f->m->max_size), total = 0;
        _cleanup_(freep) char *packed = bench_alloc(max * f->m->n_blocks);
        _cleanup_(freep) int *sizes = bench_alloc(f->m->n_blocks * sizeof(*sizes));
        double in[MAX_REPEAT], out[MAX_REPEAT];

        for (size_t r = 0; r < f->repeat; r++) {
                double t0 = bench_thread_time(), t1;

                for (size_t i = 0; i < f->m->n_blocks; i++)
                        sizes[i] = LZ4_compress_default(f->m->blocks[i].data, packed + i * max,
                                (int)f->m->blocks[i].size, (int)max);
                t1 = bench_thread_time();
                for (size_t i = 0; i < f->m->n_blocks; i++) {
                        int size = (int)f->m->blocks[i].size;

                        if (LZ4_decompress_safe(packed + i * max, (char *)to_block(f, i), sizes[i],
                                    size) != size)
                                bench_die("LZ4 does not give back what it got");
                }
                out[r] = bench_thread_time() - t1;
                in[r] = t1 - t0;
        }
        for (size_t i = 0; i < f->m->n_blocks; i++)
                total += (size_t)sizes[i];
        put_speed(f, "lz4.compress", in);
        put_speed(f, "lz4.decompress", out);
        bench_put1("lz4.ratio", f->raw / (double)total);
}

/* Anew, as records are written anew: what was read before may be in a cache below this machine. */
static int write_plain(const struct figures *f) {
        int fd = open(f->plain, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        for (size_t i = 0; i < f->m->n_blocks; i++) {
                const struct piece *b = &f->m->blocks[i];

                if (pwrite(fd, b->data, b->size, (off_t)b->offset) != (ssize_t)b->size)
                        bench_die("cannot write %s", f->plain);
        }
        return fd;
}

static void read_plain(const struct figures *f, int fd) {
        for (size_t i = 0; i < f->m->n_blocks; i++) {
                const struct piece *b = &f->m->blocks[i];

                if (pread(fd, to_block(f, i), b->size, (off_t)b->offset) != (ssize_t)b->size)
                        bench_die("cannot read %s", f->plain);
        }
}

/* Seconds that it takes from disk. */
static double read_plain_disk(const struct figures *f) {
        int fd = open(f->plain, O_RDONLY | O_CLOEXEC);
        double t0;

        bench_cache_drop(f->plain_dir);
        t0 = bench_now();
        read_plain(f, fd);
        t0 = bench_now() - t0;
        close(fd);
        return t0;
}

/* An uncompressed file, which stays: what it costs to have no store at all. */
static void bench_plain(struct figures *f) {
        double cache[MAX_REPEAT], disk[MAX_REPEAT], out[MAX_REPEAT];

        snprintf(f->plain_dir, sizeof(f->plain_dir), "%s/plain", f->dir);
        snprintf(f->plain, sizeof(f->plain), "%s/blocks", f->plain_dir);
        if (mkdir(f->plain_dir, 0700) < 0)
                bench_die("cannot make %s", f->plain_dir);
        for (size_t r = 0; r < f->repeat; r++) {
                double t0 = bench_thread_time();
                int fd = write_plain(f);

                out[r] = bench_thread_time() - t0;
                bench_cache_fill(f->plain_dir);
                t0 = bench_thread_time();
                read_plain(f, fd);
                cache[r] = bench_thread_time() - t0;
                close(fd);
                bench_cache_drop(f->plain_dir); /* writes it out */
                rest(f);
                disk[r] = read_plain_disk(f);
        }
        put_speed(f, "pwrite.cache", out);
        put_speed(f, "pread.cache", cache);
        put_speed(f, "pread.disk", disk);
}

/* Groups of whole layers, as the engine makes them. */
struct layout {
        struct spill_array *arrays;
        uint64_t ends[SPILL_MAX_SECTIONS];
        struct spill_layout l;
};

static void make_layout(const struct memory *m, enum seq_class c, struct layout *ret) {
        static const enum spill_element elements[] = {
                [MODEL_KV_F16] = SPILL_F16, [MODEL_KV_F32] = SPILL_F32, [MODEL_KV_I8] = SPILL_I8};
        const struct model_kv_array *a;
        size_t n = model_kv_arrays(m->model, c, &a), n_sections = 0, size = m->info.shape.size[c];
        uint64_t start = 0;

        *ret = (struct layout){0};
        if (size == 0)
                return;
        ret->arrays = bench_alloc(n * sizeof(*ret->arrays));
        for (size_t i = 0; i < n; i++) {
                if (i > 0 && a[i].layer != a[i - 1].layer && a[i].offset - start >= MIN_SECTION &&
                        size - a[i].offset >= MIN_SECTION && n_sections + 1 < SPILL_MAX_SECTIONS)
                        start = ret->ends[n_sections++] = a[i].offset;
                ret->arrays[i] = (struct spill_array){.element = elements[a[i].element],
                        .section = (uint32_t)n_sections,
                        .offset = a[i].offset,
                        .n_tiles = a[i].n_tiles,
                        .n_channels = a[i].n_channels,
                        .n_tokens = a[i].n_tokens,
                        .channel_major = a[i].channel_major};
        }
        ret->ends[n_sections++] = size;
        ret->l = (struct spill_layout){
                .arrays = ret->arrays, .n_arrays = n, .section_ends = ret->ends, n_sections};
}

static struct spill_meta meta_of(const struct memory *m, size_t i) {
        enum seq_class c = m->blocks[i].class;

        return (struct spill_meta){.class_id = c,
                .position = (uint32_t)i,
                .n_tokens = seq_cell_tokens(&m->info.shape, c),
                .token_hash = i * 0x9e3779b97f4a7c15u};
}

static void write_all(
        const struct figures *f, struct spill *s, struct spill_ref *refs, uint64_t key) {
        struct err e;

        for (size_t i = 0; i < f->m->n_blocks; i++) {
                struct spill_block b = {.file_key = key,
                        .meta = meta_of(f->m, i),
                        .raw = f->m->blocks[i].data,
                        .raw_size = f->m->blocks[i].size};

                bench_check(spill_write(s, &b, &refs[i], NULL, &e), &e, "spill_write");
        }
}

/* As a worker brings its share of a conversation back: in one load. */
static void read_all(const struct figures *f, struct spill *s, const struct spill_ref *refs) {
        _cleanup_(freep) struct spill_item *items = bench_alloc(f->m->n_blocks * sizeof(*items));
        struct err e;

        for (size_t i = 0; i < f->m->n_blocks; i++)
                items[i] = (struct spill_item){
                        .ref = refs[i], .meta = meta_of(f->m, i), .dst = to_block(f, i)};
        bench_check(spill_read_batch(s, items, f->m->n_blocks, &e), &e, "spill_read_batch");
}

/* The same by two workers, as a restore that is not small. */
struct half {
        struct spill *s;
        struct spill_item *items;
        size_t n;
        unsigned k;
        int r;
        struct err e;
};

static void *read_half(void *arg) {
        struct half *h = arg;

        (void)thread_keep_to_part(h->k, 2);
        h->r = spill_read_batch(h->s, h->items, h->n, &h->e);
        return NULL;
}

static void read_all_by_two(
        const struct figures *f, struct spill *s, const struct spill_ref *refs) {
        size_t n = f->m->n_blocks;
        _cleanup_(freep) struct spill_item *items = bench_alloc(n * sizeof(*items));
        struct half halves[2] = {{.s = s, .items = items, .n = n / 2},
                {.s = s, .items = items + n / 2, .n = n - n / 2, .k = 1}};
        pthread_t threads[2];

        for (size_t i = 0; i < n; i++)
                items[i] = (struct spill_item){
                        .ref = refs[i], .meta = meta_of(f->m, i), .dst = to_block(f, i)};
        for (size_t i = 0; i < 2; i++)
                if (thread_start(&threads[i], NULL, read_half, &halves[i]) != 0)
                        bench_die("no thread");
        for (size_t i = 0; i < 2; i++)
                pthread_join(threads[i], NULL);
        for (size_t i = 0; i < 2; i++)
                bench_check(halves[i].r, &halves[i].e, "spill_read_batch");
}

/* Let a store that chooses its codec see the disk, as an engine does after a while. */
static void prime(const struct figures *f, struct spill *s, struct spill_ref *refs, const char *dir,
        unsigned n_threads) {
        struct err e;

        for (uint64_t round = 0; round < 2; round++) {
                write_all(f, s, refs, UINT64_MAX - round);
                spill_settle(s, UINT64_MAX - round);
                bench_cache_drop(dir);
                rest(f);
                spill_probe(s);
                (n_threads == 2 ? read_all_by_two : read_all)(f, s, refs);
                for (size_t i = 0; i < f->m->n_blocks; i++)
                        bench_check(spill_release(s, &refs[i], &e), &e, "spill_release");
        }
}

static void check_all(const struct figures *f) {
        for (size_t i = 0; i < f->m->n_blocks; i++)
                if (memcmp(to_block(f, i), f->m->blocks[i].data, f->m->blocks[i].size) != 0)
                        bench_die("block %zu came back different", i);
}

static void put_codec(const struct figures *f, const char *codec, const char *what, double *v) {
        char name[64];

        snprintf(name, sizeof(name), "spill.%s.%s", codec, what);
        put_speed(f, name, v);
}

/* From disk by one worker and by two, each in turn with the uncompressed file: seconds of repetition @r. */
struct disk {
        double restore[2][MAX_REPEAT], plain[2][MAX_REPEAT];
};

static void read_disk(const struct figures *f, struct spill *s, const struct spill_ref *refs,
        const char *dir, size_t r, struct disk *ret) {
        for (size_t two = 0; two < 2; two++)
                for (size_t i = 0; i < 2; i++) {
                        double t0;

                        if ((r + i) % 2 == 0) {
                                ret->plain[two][r] = read_plain_disk(f);
                                continue;
                        }
                        bench_cache_drop(dir);
                        t0 = bench_now();
                        (two ? read_all_by_two : read_all)(f, s, refs);
                        ret->restore[two][r] = bench_now() - t0;
                        check_all(f);
                }
}

/* @n_threads: for how many SPILL_CODEC_AUTO chooses. */
static void bench_codec(
        const struct figures *f, unsigned codec, const char *codec_name, unsigned n_threads) {
        double out[MAX_REPEAT], settle[MAX_REPEAT], cache[MAX_REPEAT];
        struct disk disk;
        _cleanup_(freep) struct spill_ref *refs = bench_alloc(f->m->n_blocks * sizeof(*refs));
        struct spill_options o = {.fingerprint = f->m->info.fingerprint,
                .max_raw_size = f->m->max_size,
                .codec = codec,
                .last_codec = SPILL_CODEC_AUTO,
                .n_threads = n_threads};
        struct spill_choice choice;
        struct layout layouts[SEQ_N_CLASSES];
        struct spill *s = NULL;
        char dir[4200], name[64];
        double stored = 0;
        struct err e;

        for (enum seq_class c = SEQ_ALL; c < SEQ_N_CLASSES; c++) {
                make_layout(f->m, c, &layouts[c]);
                o.layouts[c] = layouts[c].l;
        }
        snprintf(dir, sizeof(dir), "%s/%s", f->dir, codec_name);
        bench_check(spill_open(&s, dir, &o, &e), &e, "spill_open");
        bench_check(spill_sweep(s, NULL, &e), &e, "spill_sweep");
        if (codec == SPILL_CODEC_AUTO)
                prime(f, s, refs, dir, n_threads);
        for (size_t r = 0; r < f->repeat; r++) {
                double t0 = bench_now(), work = bench_thread_time();

                write_all(f, s, refs, r + 1);
                out[r] = bench_thread_time() - work;
                spill_settle(s, r + 1);
                settle[r] = bench_now() - t0;
                bench_cache_fill(dir);
                memset(f->to, 0, (size_t)f->raw);
                work = bench_thread_time();
                read_all(f, s, refs);
                cache[r] = bench_thread_time() - work;
                check_all(f);
                bench_cache_drop(dir);
                close(write_plain(f));
                bench_cache_drop(f->plain_dir);
                rest(f);
                read_disk(f, s, refs, dir, r, &disk);
                stored = 0;
                for (size_t i = 0; i < f->m->n_blocks; i++) {
                        stored += (double)refs[i].stored_size;
                        bench_check(spill_release(s, &refs[i], &e), &e, "spill_release");
                }
        }
        put_codec(f, codec_name, "write", out);
        put_codec(f, codec_name, "settled", settle);
        put_codec(f, codec_name, "cache", cache);
        put_codec(f, codec_name, "disk", disk.restore[0]);
        put_codec(f, codec_name, "plain", disk.plain[0]);
        put_codec(f, codec_name, "disk2", disk.restore[1]);
        put_codec(f, codec_name, "plain2", disk.plain[1]);
        spill_choice(s, &choice);
        snprintf(name, sizeof(name), "spill.%s.chosen", codec_name);
        bench_put1(name, choice.codec);
        snprintf(name, sizeof(name), "spill.%s.ratio", codec_name);
        bench_put1(name, f->raw / stored);
        spill_free(s);
        for (int c = 0; c < SEQ_N_CLASSES; c++)
                free(layouts[c].arrays);
        rmdir(dir);
}

int main(int argc, char **argv) {
        struct memory m = {0};
        struct figures f = {.m = &m};
        uint32_t per_stream;
        bool real;

        if (argc != 6) {
                fputs("usage: bench-throughput MODEL real|random N_TOKENS REPEAT DIR\n", stderr);
                return 2;
        }
        real = !strcmp(argv[2], "real");
        per_stream = (uint32_t)align_up(bench_number(argv[3]) / N_STREAMS, CHUNK);
        f.repeat = bench_number(argv[4]);
        f.rests = f.repeat > 3;
        f.dir = argv[5];
        if (f.repeat < 1 || f.repeat > MAX_REPEAT)
                bench_die("1 to %d repetitions", MAX_REPEAT);
        if (mkdir(f.dir, 0700) < 0 && access(f.dir, W_OK) < 0)
                bench_die("cannot make %s", f.dir);
        open_memory(&m, argv[1], per_stream);
        compute(&m, real, per_stream);
        list_blocks(&m);
        f.raw = (double)m.size;
        f.to = bench_alloc((size_t)f.raw);
        bench_put1("raw", f.raw);
        bench_memcpy(&f);
        bench_plain(&f);
        bench_lz4(&f);
        bench_codec(&f, SPILL_CODEC_RAW, "raw", 1);
        bench_codec(&f, SPILL_CODEC_LZ4, "lz4", 1);
        bench_codec(&f, SPILL_CODEC_KV, "kv", 1);
        bench_codec(&f, SPILL_CODEC_AUTO, "auto", 1);
        bench_codec(&f, SPILL_CODEC_AUTO, "auto2", 2);
        unlink(f.plain);
        rmdir(f.plain_dir);
        free(f.to);
        close_memory(&m);
        rmdir(f.dir);
        return 0;
}
