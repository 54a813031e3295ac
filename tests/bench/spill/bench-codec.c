/* SPDX-License-Identifier: MIT */
/*
 * The block codecs on real KV memory: bench-codec DUMP [SECTION-BYTES [SECONDS-PER-LINE]], where
 * DUMP is a file made by dump-kv. A section is the fewest whole layers that reach SECTION-BYTES
 * (default 65536). Prints the ratio of each codec for keys and values of early, middle and late
 * layers. Then it prints the speed of each codec and instruction set: raw bytes per second of one
 * thread, the median of the passes over all blocks, in CPU time. Decoding is timed section by
 * section, and many sections at a time as in loads.
 */
#include <lz4.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/util.h"
#include "kv-dump.h"
#include "spill/codec.h"
#include "spill/spill.h"

enum { MAX_PASSES = 2001, MAX_SECTIONS = 512 };

struct section {
        size_t offset, size, first, n_arrays; /* of the block's arrays */
};
struct bench {
        struct kv_dump_header h;
        struct spill_array *all; /* without offsets */
        uint32_t *layers;
        uint64_t *offsets; /* of @all from the block's start */
        uint8_t *file;     /* the blocks as they are in the file */
        /* What cut() chose: */
        struct spill_array *arrays; /* offsets from the section's start */
        size_t n_arrays, block_size;
        uint8_t *blocks, *encoded, *back; /* blocks every h.block_size bytes */
        size_t *sizes;                    /* [block][section] of @encoded */
        struct section sections[MAX_SECTIONS];
        size_t n_sections;
        void *scratch;
        double seconds;
};

static void *need(void *p) {
        if (!p) {
                fprintf(stderr, "bench-codec: no memory, or not a dump\n");
                exit(1);
        }
        return p;
}

static void load(struct bench *b, const char *file) {
        FILE *f = need(fopen(file, "rb"));
        size_t n;

        need(fread(&b->h, sizeof(b->h), 1, f) == 1 && !memcmp(b->h.magic, KV_DUMP_MAGIC, 8) ? b
                                                                                            : NULL);
        n = b->h.n_blocks * b->h.block_size;
        b->all = need(calloc(b->h.n_arrays, sizeof(*b->all)));
        b->arrays = need(calloc(b->h.n_arrays, sizeof(*b->arrays)));
        b->layers = need(calloc(b->h.n_arrays, sizeof(*b->layers)));
        b->offsets = need(calloc(b->h.n_arrays + 1, sizeof(*b->offsets)));
        b->file = need(malloc(n));
        b->blocks = need(malloc(n));
        b->encoded = need(malloc(2 * n));
        b->back = need(malloc(n));
        b->sizes = need(calloc(b->h.n_blocks * MAX_SECTIONS, sizeof(*b->sizes)));
        b->scratch = need(aligned_alloc(64, spill_codec_scratch_size(b->h.block_size)));
        for (uint32_t i = 0; i < b->h.n_arrays; i++) {
                struct kv_dump_array a;

                need(fread(&a, sizeof(a), 1, f) == 1 ? b : NULL);
                b->layers[i] = a.layer;
                b->offsets[i] = a.offset;
                b->all[i] = (struct spill_array){.element = (enum spill_element)a.element,
                        .n_tiles = a.n_tiles,
                        .n_channels = a.n_channels,
                        .n_tokens = a.n_tokens,
                        .channel_major = a.channel_major};
        }
        b->offsets[b->h.n_arrays] = b->h.block_size;
        need(fread(b->file, b->h.block_size, b->h.n_blocks, f) == b->h.n_blocks ? b : NULL);
        fclose(f);
}

/* Keys (1) or values (0), of the first, second or last third of the layers (0 .. 2). */
enum { ANY = -1 };
struct choice {
        int keys, third;
};

static bool wanted(const struct bench *b, size_t i, struct choice c) {
        uint32_t n_layers = b->layers[b->h.n_arrays - 1] + 1;

        return (c.keys == ANY || c.keys == b->all[i].channel_major) &&
               (c.third == ANY || (uint32_t)c.third == b->layers[i] * 3 / n_layers);
}

/* Let the blocks be what they would be of the chosen arrays alone, in sections of whole layers. */
static void cut(struct bench *b, size_t section_size, struct choice choice) {
        struct section *s = NULL;
        size_t at = 0, last = 0;

        b->n_sections = 0;
        b->n_arrays = 0;
        for (size_t i = 0; i < b->h.n_arrays; i++) {
                size_t size = b->offsets[i + 1] - b->offsets[i];

                if (!wanted(b, i, choice))
                        continue;
                if (!s || (s->size >= section_size && b->layers[i] != b->layers[last])) {
                        need(b->n_sections < MAX_SECTIONS ? b : NULL);
                        s = &b->sections[b->n_sections++];
                        *s = (struct section){.offset = at, .first = b->n_arrays};
                }
                b->arrays[b->n_arrays] = b->all[i];
                b->arrays[b->n_arrays++].offset = at - s->offset;
                for (size_t k = 0; k < b->h.n_blocks; k++)
                        memcpy(b->blocks + k * b->h.block_size + at,
                                b->file + k * b->h.block_size + b->offsets[i], size);
                at += size;
                s->n_arrays++;
                s->size = at - s->offset;
                last = i;
        }
        b->block_size = at;
}

static double now(void) {
        struct timespec t;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* One pass over all blocks: encode all to @encoded, or decode all to @back. Returns stored bytes;
 * a section that does not gain 1/64 is stored raw, as the store does. */
static size_t encode_pass(struct bench *b, const struct spill_codec *c) {
        size_t total = 0, at = 0;

        for (size_t i = 0; i < b->h.n_blocks; i++)
                for (size_t k = 0; k < b->n_sections; k++) {
                        const struct section *s = &b->sections[k];
                        const uint8_t *src = b->blocks + i * b->h.block_size + s->offset;
                        size_t n = c->encode(b->encoded + at, s->size - s->size / 64, src, s->size,
                                &b->arrays[s->first], s->n_arrays, b->scratch);

                        b->sizes[i * MAX_SECTIONS + k] = n;
                        total += n > 0 ? n : s->size;
                        at += s->size;
                }
        return total;
}

enum { MAX_JOBS = 8 };

static void decode_jobs(struct bench *b, struct spill_codec_job *jobs, size_t n) {
        spill_codec_decode_many(jobs, n, b->scratch);
        for (size_t i = 0; i < n; i++)
                need(jobs[i].r == 0 ? b : NULL);
}

static void decode_pass(struct bench *b, const struct spill_codec *c, size_t max_jobs) {
        static struct spill_codec_job jobs[MAX_JOBS];
        size_t at = 0, n_jobs = 0;

        for (size_t i = 0; i < b->h.n_blocks; i++)
                for (size_t k = 0; k < b->n_sections; k++) {
                        const struct section *s = &b->sections[k];
                        size_t n = b->sizes[i * MAX_SECTIONS + k];
                        uint8_t *dst = b->back + i * b->h.block_size + s->offset;
                        const uint8_t *src = b->blocks + i * b->h.block_size + s->offset;

                        if (n == 0)
                                memcpy(dst, src, s->size);
                        else
                                jobs[n_jobs++] = (struct spill_codec_job){.codec = c,
                                        .dst = dst,
                                        .dst_size = s->size,
                                        .src = b->encoded + at,
                                        .n = n,
                                        .arrays = &b->arrays[s->first],
                                        .n_arrays = s->n_arrays};
                        if (n_jobs == max_jobs) {
                                decode_jobs(b, jobs, n_jobs);
                                n_jobs = 0;
                        }
                        at += s->size;
                }
        decode_jobs(b, jobs, n_jobs);
}

static int compare(const void *a, const void *b) {
        double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

/* Median GB/s of raw bytes. @decoding: sections at a time; 0: encoding. */
static double speed(struct bench *b, const struct spill_codec *c, size_t decoding) {
        static double times[MAX_PASSES];
        double until = now() + b->seconds;
        size_t n = 0, raw = b->h.n_blocks * b->h.block_size;

        while (n < MAX_PASSES && (n < 5 || now() < until)) {
                double from = now();

                if (!c)
                        memcpy(b->back, b->blocks, raw);
                else if (decoding > 0)
                        decode_pass(b, c, decoding);
                else
                        (void)encode_pass(b, c);
                times[n++] = now() - from;
        }
        qsort(times, n, sizeof(*times), compare);
        return (double)raw / times[n / 2] / 1e9;
}

static void print_ratios(struct bench *b, size_t section_size) {
        static const struct choice choices[] = {
                {ANY, ANY}, {1, 0}, {1, 1}, {1, 2}, {0, 0}, {0, 1}, {0, 2}};

        printf("| ratio | all | K early | K middle | K late | V early | V middle | V late |\n");
        printf("|---|---:|---:|---:|---:|---:|---:|---:|\n");
        for (unsigned id = SPILL_CODEC_LZ4; id <= SPILL_CODEC_KV; id++) {
                const struct spill_codec *c = spill_codec_find(id);

                printf("| %s |", c->name);
                for (size_t i = 0; i < ARRAY_SIZE(choices); i++) {
                        cut(b, section_size, choices[i]);
                        printf(" %.3f |", (double)(b->h.n_blocks * b->block_size) /
                                                  (double)encode_pass(b, c));
                }
                printf("\n");
        }
}

static void print_speeds(struct bench *b) {
        static const char *const isa_names[] = {"generic", "avx2", "avx512"};
        const struct spill_codec *kv = spill_codec_find(SPILL_CODEC_KV);
        const struct spill_codec *lz4 = spill_codec_find(SPILL_CODEC_LZ4);
        int best = spill_cap_isa(2);

        printf("\n| GB/s | encode | decode | decode, many |\n|---|---:|---:|---:|\n");
        printf("| memcpy | %.2f | %.2f | %.2f |\n", speed(b, NULL, 0), speed(b, NULL, 1),
                speed(b, NULL, 1));
        printf("| lz4 | %.2f |", speed(b, lz4, 0));
        printf(" %.2f |", speed(b, lz4, 1));
        printf(" %.2f |\n", speed(b, lz4, MAX_JOBS));
        for (int isa = 0; isa <= best; isa++) {
                (void)spill_cap_isa(isa);
                printf("| kv %s | %.2f |", isa_names[isa], speed(b, kv, 0));
                printf(" %.2f |", speed(b, kv, 1));
                need(memcmp(b->back, b->blocks, b->h.n_blocks * b->h.block_size) == 0 ? b : NULL);
                memset(b->back, 0, b->h.n_blocks * b->h.block_size);
                printf(" %.2f |\n", speed(b, kv, MAX_JOBS));
                need(memcmp(b->back, b->blocks, b->h.n_blocks * b->h.block_size) == 0 ? b : NULL);
        }
}

int main(int argc, char **argv) {
        size_t section_size = argc > 2 ? strtoul(argv[2], NULL, 10) : 65536;
        static struct bench b;

        if (argc < 2) {
                fprintf(stderr, "Usage: bench-codec DUMP [SECTION-BYTES [SECONDS-PER-LINE]]\n");
                return 2;
        }
        b.seconds = argc > 3 ? strtod(argv[3], NULL) : 0.5;
        load(&b, argv[1]);
        print_ratios(&b, section_size);
        cut(&b, section_size, (struct choice){ANY, ANY});
        printf("\n%zu sections of up to %zu bytes in a block of %zu bytes, %u blocks\n",
                b.n_sections, b.sections[0].size, (size_t)b.h.block_size, b.h.n_blocks);
        print_speeds(&b);
        free(b.all);
        free(b.file);
        free(b.arrays);
        free(b.layers);
        free(b.offsets);
        free(b.blocks);
        free(b.encoded);
        free(b.back);
        free(b.sizes);
        free(b.scratch);
        return 0;
}
