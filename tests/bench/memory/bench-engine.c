/* SPDX-License-Identifier: MIT */
/*
 * The cost of the engine's memory, measured through engine.h as the daemon uses it.
 *
 * long: several conversations are computed up to the greatest length, with a turn ending at every
 * requested length, so that the time to compute a prefix is a sum; one of them stays. Then, for
 * each length, a fork that ends there is evicted and restored repeatedly: by Warm, and by a
 * Continue of one token, timed up to its first token; with the spill files in the page cache, and
 * dropped from it. For comparison, an uncompressed file of the same size is read by one thread, and
 * by as many threads as the engine has, past the page cache as the engine reads. Then whole forks
 * are timed, including their commit.
 *
 * share: many conversations that begin alike, and what they take in RAM and on disk.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "bench.h"
#include "drive.h"
#include "plain.h"

#define MAX_LENGTHS 16
#define MAX_REPEAT 64
#define N_COMPUTED 3 /* minutes each, with a real model */

static void name_of(char *ret, size_t size, const char *what, uint32_t n) {
        snprintf(ret, size, "%s.%u", what, n);
}

static void put_n(const char *what, uint32_t n, const double *values, size_t n_values) {
        char name[64];

        name_of(name, sizeof(name), what, n);
        bench_put(name, values, n_values);
}

static void put_n1(const char *what, uint32_t n, double value) {
        put_n(what, n, &value, 1);
}

/* --- long --- */

struct long_bench {
        struct drive d;
        char spill[4096], plain[4096];
        uint32_t n_vocab, repeat;
        uint32_t lengths[MAX_LENGTHS], forks[MAX_LENGTHS], ends[2 * MAX_LENGTHS];
        size_t n_lengths, n_forks, n_ends;
        uint64_t conv; /* the conversation with all turns */
        double block_size, block_tokens;
};

static int compare_u32(const void *a, const void *b) {
        uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

        return (x > y) - (x < y);
}

static void merge_ends(struct long_bench *b) {
        size_t n = 0;

        memcpy(b->ends, b->lengths, b->n_lengths * sizeof(*b->ends));
        memcpy(b->ends + b->n_lengths, b->forks, b->n_forks * sizeof(*b->ends));
        b->n_ends = b->n_lengths + b->n_forks;
        qsort(b->ends, b->n_ends, sizeof(*b->ends), compare_u32);
        for (size_t i = 0; i < b->n_ends; i++)
                if (b->ends[i] > 0 && (n == 0 || b->ends[n - 1] != b->ends[i]))
                        b->ends[n++] = b->ends[i];
        b->n_ends = n;
}

/* The turn that ends at @n tokens is the last of so many. */
static uint32_t turns_until(const struct long_bench *b, uint32_t n) {
        for (size_t i = 0; i < b->n_ends; i++)
                if (b->ends[i] == n)
                        return (uint32_t)i + 1;
        bench_die("no turn ends at %u", n);
}

/* How long it took to compute each prefix of one conversation, whose tokens no other one has. */
static uint64_t compute(struct long_bench *b, uint32_t run, double seconds[]) {
        uint64_t conv = drive_new(&b->d), seed = 7 + run;
        uint32_t at = 0;
        double total = 0;

        for (size_t i = 0; i < b->n_ends; i++) {
                uint32_t n = b->ends[i] - at;
                _cleanup_(freep) int32_t *tokens = bench_alloc(n * sizeof(*tokens));
                struct drive_answer a;

                for (uint32_t t = 0; t < n; t++)
                        tokens[t] = (int32_t)(259 + bench_random(&seed) % (b->n_vocab - 259));
                drive_tokens(&b->d, conv, tokens, n, 0, &a);
                if (a.n_computed != n)
                        bench_die("%u of %u tokens were computed", a.n_computed, n);
                total += a.ended - a.sent;
                at = b->ends[i];
                seconds[i] = total;
                bench_note("computed %u tokens: %.2f s", at, total);
        }
        return conv;
}

static void compute_all(struct long_bench *b) {
        double seconds[2 * MAX_LENGTHS][N_COMPUTED], run[2 * MAX_LENGTHS];

        for (uint32_t k = 0; k < N_COMPUTED; k++) {
                if (b->conv)
                        drive_simple(&b->d, ENGINE_CLOSE, b->conv, NULL);
                b->conv = compute(b, k, run);
                for (size_t i = 0; i < b->n_ends; i++)
                        seconds[i][k] = run[i];
        }
        for (size_t i = 0; i < b->n_ends; i++)
                put_n("recompute", b->ends[i], seconds[i], N_COMPUTED);
}

/* Nothing of the two conversations is in RAM afterwards. */
static void evict(struct long_bench *b, uint64_t conv) {
        double left;

        drive_simple(&b->d, ENGINE_EVICT, b->conv, NULL);
        if (conv)
                drive_simple(&b->d, ENGINE_EVICT, conv, NULL);
        left = drive_stat(&b->d, "pool_blocks");
        if (left > 0)
                bench_note("%g blocks stay in RAM", left);
}

enum where { IN_CACHE, ON_DISK, N_WHERE };
static const char *const where_names[N_WHERE] = {"cache", "disk"};

static void set_cache(const char *dir, enum where w) {
        if (w == IN_CACHE)
                bench_cache_fill(dir);
        else
                bench_cache_drop(dir);
}

static double warm_once(struct long_bench *b, uint64_t conv, enum where w, double *share) {
        struct drive_answer a;

        evict(b, conv);
        set_cache(b->spill, w);
        *share = bench_cache_share(b->spill);
        drive_simple(&b->d, ENGINE_WARM, conv, &a);
        return a.ended - a.sent;
}

/* Time to the first token of a reply; a fork gives it, so that the next time is like this one. */
static double first_once(struct long_bench *b, uint64_t conv, bool in_ram, enum where w) {
        uint64_t fork = drive_fork(&b->d, conv, ENGINE_UNSET, NULL);
        struct drive_answer a;
        int32_t token = 300;

        if (in_ram) {
                drive_simple(&b->d, ENGINE_WARM, fork, NULL);
        } else {
                drive_simple(&b->d, ENGINE_EVICT, fork, NULL);
                evict(b, conv);
                set_cache(b->spill, w);
        }
        drive_tokens(&b->d, fork, &token, 1, 1, &a);
        drive_simple(&b->d, ENGINE_CLOSE, fork, NULL);
        if (a.first == 0)
                bench_die("no token came");
        return a.first - a.sent;
}

static void restore_length(struct long_bench *b, uint32_t length) {
        uint64_t conv = drive_fork(&b->d, b->conv, turns_until(b, length), NULL);
        double raw =
                (double)((length + (uint32_t)b->block_tokens - 1) / (uint32_t)b->block_tokens) *
                b->block_size;
        _cleanup_(freep) void *buf = bench_alloc((size_t)raw + (1 << 20));
        double warm[MAX_REPEAT], first[MAX_REPEAT], share[MAX_REPEAT];
        double plain_one[MAX_REPEAT], plain_many[MAX_REPEAT];
        char name[32];

        put_n1("raw", length, raw);
        plain_make(b->plain, raw);
        for (int w = 0; w < N_WHERE; w++) {
                for (uint32_t i = 0; i < b->repeat; i++) {
                        warm[i] = warm_once(b, conv, (enum where)w, &share[i]);
                        first[i] = first_once(b, conv, false, (enum where)w);
                        set_cache(b->plain, (enum where)w);
                        plain_one[i] = plain_read_one(b->plain, buf);
                        set_cache(b->plain, (enum where)w);
                        plain_many[i] = plain_read_many(b->plain, buf, w == ON_DISK);
                }
                snprintf(name, sizeof(name), "warm.%s", where_names[w]);
                put_n(name, length, warm, b->repeat);
                snprintf(name, sizeof(name), "first.%s", where_names[w]);
                put_n(name, length, first, b->repeat);
                snprintf(name, sizeof(name), "plain_one.%s", where_names[w]);
                put_n(name, length, plain_one, b->repeat);
                snprintf(name, sizeof(name), "plain_many.%s", where_names[w]);
                put_n(name, length, plain_many, b->repeat);
                snprintf(name, sizeof(name), "cached.%s", where_names[w]);
                put_n(name, length, share, b->repeat);
        }
        for (uint32_t i = 0; i < b->repeat; i++)
                first[i] = first_once(b, conv, true, IN_CACHE);
        put_n("first.ram", length, first, b->repeat);
        drive_simple(&b->d, ENGINE_CLOSE, conv, NULL);
        bench_note("restored %u tokens", length);
}

/* The whole verb, with its durable transaction. */
static void fork_length(struct long_bench *b, uint32_t length) {
        uint32_t turns = turns_until(b, length);
        double seconds[MAX_REPEAT], bytes[MAX_REPEAT];

        drive_simple(&b->d, ENGINE_WARM, b->conv, NULL);
        for (uint32_t i = 0; i < b->repeat; i++) {
                double before = drive_stat(&b->d, "ledger_used");
                double meta = drive_stat(&b->d, "ledger_meta_used");
                struct drive_answer a;
                uint64_t fork = drive_fork(&b->d, b->conv, turns, &a);

                seconds[i] = a.ended - a.sent;
                bytes[i] = drive_stat(&b->d, "ledger_used") - before +
                           drive_stat(&b->d, "ledger_meta_used") - meta;
                drive_simple(&b->d, ENGINE_CLOSE, fork, NULL);
        }
        put_n("verb_fork", length, seconds, b->repeat);
        put_n("verb_fork_bytes", length, bytes, b->repeat);
}

/* MODEL STATE THREADS POOL REPEAT LENGTHS FORKS */
static int run_long(char **argv) {
        struct engine_options o = ENGINE_OPTIONS_DEFAULT;
        struct long_bench b = {0};

        o.model_path = argv[0];
        o.state_dir = argv[1];
        o.n_threads = (uint32_t)bench_number(argv[2]);
        o.pool_size = bench_number(argv[3]);
        o.disk_floor = 0;
        b.repeat = (uint32_t)bench_number(argv[4]);
        if (b.repeat < 1 || b.repeat > MAX_REPEAT)
                bench_die("1 to %d repetitions", MAX_REPEAT);
        b.n_lengths = bench_numbers(argv[5], b.lengths, MAX_LENGTHS);
        b.n_forks = bench_numbers(argv[6], b.forks, MAX_LENGTHS);
        merge_ends(&b);
        snprintf(b.spill, sizeof(b.spill), "%s/spill", argv[1]);
        snprintf(b.plain, sizeof(b.plain), "%s.plain", argv[1]);
        drive_open(&b.d, &o);
        b.n_vocab = drive_n_vocab(&b.d);
        b.block_size = drive_stat(&b.d, "block_bytes");
        b.block_tokens = drive_stat(&b.d, "block_tokens");
        compute_all(&b);
        for (size_t i = 0; i < b.n_forks; i++)
                fork_length(&b, b.forks[i]);
        evict(&b, 0);
        bench_put1("plain_readers", plain_n_readers());
        bench_put1("stored", drive_stat(&b.d, "spill_disk_bytes"));
        bench_put1("stored_raw", drive_stat(&b.d, "spill_records") * b.block_size);
        for (size_t i = 0; i < b.n_lengths; i++)
                restore_length(&b, b.lengths[i]);
        drive_close(&b.d);
        return 0;
}

/* --- share --- */

/* @n tokens of what the model itself would write. */
static int32_t *write_text(struct drive *d, uint32_t n, uint64_t seed) {
        struct engine_request q = {.verb = ENGINE_CONTINUE,
                .conv_id = drive_new(d),
                .input = ENGINE_INPUT_TOKENS,
                .tokens = (const int32_t[]){1},
                .n_tokens = 1,
                .max_tokens = n - 1,
                .ignore_eos = true,
                .sampling = {.has = SAMPLING_TEMPERATURE | SAMPLING_SEED,
                        .temperature = 1,
                        .seed = seed}};
        struct engine_request get = {.verb = ENGINE_GET, .conv_id = q.conv_id, .want_tokens = true};
        struct drive_answer a;

        drive_do(d, &q, NULL);
        drive_do(d, &get, &a);
        if (a.n_tokens < n || !a.tokens)
                bench_die("the model wrote %u tokens, not %u", a.n_tokens, n);
        drive_simple(d, ENGINE_CLOSE, q.conv_id, NULL);
        return a.tokens;
}

#define N_TEXTS 8

/* MODEL STATE THREADS POOL N PREFIX OWN */
static int run_share(char **argv) {
        struct engine_options o = ENGINE_OPTIONS_DEFAULT;
        uint32_t n = (uint32_t)bench_number(argv[4]), prefix = (uint32_t)bench_number(argv[5]);
        uint32_t own = (uint32_t)bench_number(argv[6]), length = 2 * own;
        double computed = 0, shared = 0, n_blocks, t0;
        _cleanup_(freep) uint64_t *convs = calloc(n, sizeof(*convs));
        _cleanup_(freep) int32_t *tokens = calloc(prefix + own, sizeof(*tokens));
        int32_t *texts[N_TEXTS], *beginning;
        struct drive d;
        uint64_t seed = 1;

        if (!convs || !tokens)
                bench_die("no memory");
        o.model_path = argv[0];
        o.state_dir = argv[1];
        o.n_threads = (uint32_t)bench_number(argv[2]);
        o.pool_size = bench_number(argv[3]);
        o.disk_floor = 0;
        drive_open(&d, &o);
        beginning = write_text(&d, prefix, 100);
        for (uint64_t i = 0; i < N_TEXTS; i++)
                texts[i] = write_text(&d, length, i);
        memcpy(tokens, beginning, prefix * sizeof(*tokens));
        free(beginning);

        t0 = bench_now();
        for (uint32_t i = 0; i < n; i++) {
                struct drive_answer a;

                memcpy(tokens + prefix, texts[i % N_TEXTS] + bench_random(&seed) % (length - own),
                        own * sizeof(*tokens));
                tokens[prefix] = (int32_t)(259 + i % 1024); /* no two alike */
                tokens[prefix + 1] = (int32_t)(259 + i / 1024);
                convs[i] = drive_new(&d);
                drive_tokens(&d, convs[i], tokens, prefix + own, 0, &a);
                computed += a.n_computed;
                shared += a.n_shared;
        }
        for (size_t i = 0; i < N_TEXTS; i++)
                free(texts[i]);
        bench_put1("share.seconds", bench_now() - t0);
        bench_put1("share.computed", computed / n);
        bench_put1("share.shared", shared / n);
        n_blocks = drive_stat(&d, "pool_blocks");
        bench_put1("share.blocks", n_blocks / n);
        bench_put1("share.ram", drive_stat(&d, "ledger_used") / n);
        bench_put1("share.meta", drive_stat(&d, "ledger_meta_used") / n);
        bench_put1("share.block", drive_stat(&d, "block_bytes"));
        bench_put1("share.block_tokens", drive_stat(&d, "block_tokens"));
        for (uint32_t i = 0; i < n; i++)
                drive_simple(&d, ENGINE_EVICT, convs[i], NULL);
        bench_put1("share.disk", drive_stat(&d, "spill_disk_bytes") / n);
        bench_put1("share.records", drive_stat(&d, "spill_records") / n);
        drive_close(&d);
        bench_put1("share.register", bench_disk_size(argv[1]) / n);
        return 0;
}

int main(int argc, char **argv) {
        if (argc == 9 && !strcmp(argv[1], "long"))
                return run_long(argv + 2);
        if (argc == 9 && !strcmp(argv[1], "share"))
                return run_share(argv + 2);
        fputs("usage: bench-engine long MODEL STATE THREADS POOL REPEAT LENGTHS FORKS\n"
              "       bench-engine share MODEL STATE THREADS POOL N PREFIX OWN\n",
                stderr);
        return 2;
}
