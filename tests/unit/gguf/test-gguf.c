/* SPDX-License-Identifier: MIT */
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/hash.h"
#include "build.h"
#include "gguf/gguf-impl.h"
#include "quant/quant.h"
#include "util/shared.h"
#include "util/test.h"
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define N_CUTS 200
#define N_FLIPS 2000

static uint64_t hash_data(const struct gguf *g) {
        uint64_t hash = 0;

        assert_int_equal(gguf_hash_data(g, NULL, &hash), 0);
        return hash;
}

static void put_model(struct buf *b) {
        static const uint64_t matrix[] = {32, 2}, vector[] = {5};

        put_header(b, 3, 2, 2);
        put_kv_str(b, "general.architecture", "test");
        put_kv_u32(b, "test.block_count", 1);
        put_tensor(b, "w", 2, matrix, QUANT_Q8_0, 0);
        put_tensor(b, "b", 1, vector, QUANT_F32, 96);
        put_data(b, 32, 96 + 20);
}

static void test_tensors(void **state) {
        const struct gguf_tensor *t;
        struct buf b = BUF_NULL;
        struct gguf *g = NULL;
        size_t base;
        struct err e;

        put_model(&b);
        base = b.size - 116;
        assert_int_equal(gguf_parse(&g, b.data, b.size, &e), 0);
        assert_int_equal(gguf_version(g), 3);
        assert_int_equal(gguf_file_size(g), b.size);
        assert_int_equal(gguf_n_tensors(g), 2);
        t = gguf_tensor(g, "w");
        assert_ptr_equal(t, gguf_tensor_at(g, 0));
        assert_int_equal(t->n_dims, 2);
        assert_int_equal(t->ne[0], 32);
        assert_int_equal(t->ne[1], 2);
        assert_int_equal(t->ne[2], 1);
        assert_int_equal(t->ne[3], 1);
        assert_int_equal(t->type, QUANT_Q8_0);
        assert_int_equal(t->size, 68);
        assert_ptr_equal(t->data, b.data + base);
        t = gguf_tensor(g, "b");
        assert_int_equal(t->size, 20);
        assert_ptr_equal(t->data, b.data + base + 96);
        assert_null(gguf_tensor(g, "none"));
        assert_true(hash_data(g) == hash64(b.data + base, 116, 0));
        assert_true(gguf_hash_meta(g) == hash64(b.data, base, 0));
        assert_null(gguf_free(g));
        assert_null(gguf_free(NULL));
        buf_deinit(&b);
}

struct told {
        uint64_t done, total, stop_at;
        unsigned n;
};

static int tell(void *arg, uint64_t done, uint64_t total) {
        struct told *t = arg;

        assert_true(t->n == 0 ? done == 0 : done > t->done);
        t->done = done;
        t->total = total;
        t->n++;
        return done >= t->stop_at ? -ERR_CANCELLED : 0;
}

/* A long read is told about, piece by piece, may be ended, and has the same result. */
static void test_hash_progress(void **state) {
        struct gguf g = {.map = FILE_MAP_NULL, .data_size = (40u << 20) + 7};
        struct told t = {.stop_at = UINT64_MAX};
        const struct gguf_progress p = {tell, &t};
        uint64_t hash = 1, other = 77;
        uint8_t *data = calloc(1, g.data_size);

        assert_non_null(data);
        for (size_t i = 0; i < g.data_size; i += 4093)
                data[i] = (uint8_t)(i >> 5);
        g.data_base = data;
        assert_int_equal(gguf_hash_data(&g, &p, &hash), 0);
        assert_true(hash == hash64(data, g.data_size, 0));
        assert_true(t.n > 1 && t.done < t.total && t.total == g.data_size);
        t = (struct told){.stop_at = 1 << 20};
        assert_int_equal(gguf_hash_data(&g, &p, &other), -ERR_CANCELLED);
        assert_int_equal(t.n, 2);
        assert_int_equal(other, 77);
        free(data);
}

/* The same file is the same; a write to it, another file of its name, and another one are not. */
static void test_identity(void **state) {
        char path[] = "/tmp/confab-gguf-XXXXXX", beside[64];
        struct gguf_identity a = {0}, b = {0};
        struct gguf *g = NULL;
        struct buf bytes = BUF_NULL;
        struct err e;
        int fd = mkstemp(path);

        assert_true(fd >= 0);
        put_model(&bytes);
        assert_int_equal(gguf_parse(&g, bytes.data, bytes.size, NULL), 0);
        assert_int_equal(gguf_identify(g, &a, &e), -ERR_STATE);
        gguf_free(g);
        assert_int_equal(file_pwrite(fd, bytes.data, bytes.size, 0, NULL), 0);
        assert_int_equal(gguf_open(&g, path, &e), 0);
        assert_int_equal(gguf_identify(g, &a, &e), 0);
        assert_int_equal(a.size, bytes.size);
        assert_int_equal(gguf_identify(g, &b, &e), 0);
        assert_memory_equal(&a, &b, sizeof(a));
        /* The time that a write leaves may be that of the write before: the test sets it. */
        assert_int_equal(
                futimens(fd, (struct timespec[]){{.tv_sec = 5}, {.tv_sec = 6, .tv_nsec = 7}}), 0);
        assert_int_equal(gguf_identify(g, &b, &e), 0);
        assert_true(b.mtime_nsec == 6000000007u);
        assert_true(b.ctime_nsec >= a.ctime_nsec && b.inode == a.inode && b.device == a.device);
        gguf_free(g);
        snprintf(beside, sizeof(beside), "%s.new", path);
        assert_int_equal(file_replace(beside, bytes.data, bytes.size, 0600, NULL), 0);
        assert_int_equal(rename(beside, path), 0);
        assert_int_equal(gguf_open(&g, path, &e), 0);
        assert_int_equal(gguf_identify(g, &b, &e), 0);
        assert_true(b.inode != a.inode);
        gguf_free(g);
        close(fd);
        unlink(path);
        buf_deinit(&bytes);
}

/* Any change of a byte changes a hash: together they cover the file. */
static void test_hashes_cover_the_file(void **state) {
        struct buf b = BUF_NULL;
        struct gguf *g = NULL;
        uint64_t data, meta;
        size_t base;

        put_model(&b);
        base = b.size - 116;
        assert_int_equal(gguf_parse(&g, b.data, b.size, NULL), 0);
        data = hash_data(g);
        meta = gguf_hash_meta(g);
        for (size_t i = 0; i < b.size; i++) {
                b.data[i] ^= 1;
                assert_int_equal(hash_data(g) != data, i >= base);
                assert_int_equal(gguf_hash_meta(g) != meta, i < base);
                b.data[i] ^= 1;
        }
        gguf_free(g);
        buf_deinit(&b);
}

static void test_open(void **state) {
        char path[] = "/tmp/confab-test-gguf-XXXXXX";
        _cleanup_(closep) int fd = mkstemp(path);
        struct buf b = BUF_NULL;
        struct gguf *g = NULL;
        struct err e;

        assert_true(fd >= 0);
        assert_int_equal(gguf_open(&g, path, &e), -ERR_FORMAT); /* empty */
        assert_non_null(strstr(e.msg, path));
        put_model(&b);
        assert_int_equal(file_pwrite(fd, b.data, b.size, 0, NULL), 0);
        assert_int_equal(gguf_open(&g, path, &e), 0);
        assert_int_equal(gguf_n_tensors(g), 2);
        gguf_free(g);
        g = NULL;
        unlink(path);
        assert_int_equal(gguf_open(&g, path, &e), -ERR_SYS);
        assert_int_equal(gguf_open(&g, "/", &e), -ERR_INVALID);
        assert_null(g);
        buf_deinit(&b);
}

/* A real model: the bundled one, else one of the reference. */
static char *real_file(size_t *ret_size) {
        const char *path = TEST_SOURCE_ROOT "/models/*.gguf";
        char *data = NULL;
        glob_t found = {0};

        if (glob(path, 0, NULL, &found) == 0)
                path = found.gl_pathv[0];
        else
                path = test_shared("stories/stories260K-q8_0.gguf");
        if (path)
                assert_int_equal(file_read_all(path, 1 << 26, &data, ret_size, NULL), 0);
        globfree(&found);
        return data;
}

static void test_real_file_cut(void **state) {
        size_t size, end, tried = 0;
        struct gguf *g = NULL;
        char *data = real_file(&size);
        struct err e;

        if (!data) {
                print_message("SKIP: no model file\n");
                skip();
        }
        assert_int_equal(gguf_parse(&g, data, size, &e), 0);
        assert_true(gguf_n_tensors(g) > 0);
        /* to the end of the last tensor: the padding after it may be missing */
        const struct gguf_tensor *last = gguf_tensor_at(g, gguf_n_tensors(g) - 1);
        size_t meta = (size_t)((const char *)gguf_tensor_at(g, 0)->data - data);
        end = (size_t)((const char *)last->data - data) + last->size;
        gguf_free(g);
        /* half of the cuts in the metadata, half in the tensors, and the last byte */
        for (size_t i = 0; i <= N_CUTS; i++) {
                size_t n = i == N_CUTS      ? end - 1
                           : i < N_CUTS / 2 ? meta * i / (N_CUTS / 2)
                                            : meta + (end - meta) * (i - N_CUTS / 2) / (N_CUTS / 2);
                char *exact = malloc(n + 1);

                assert_non_null(exact);
                memcpy(exact, data, n);
                g = NULL;
                e = (struct err){0};
                assert_int_equal(gguf_parse(&g, exact, n, &e), -ERR_FORMAT);
                assert_null(g);
                assert_true(strlen(e.msg) > 10);
                free(exact);
                tried++;
        }
        assert_true(tried > 200);
        free(data);
}

/* Bits flipped in the metadata: an error or a model, and the accessors stay inside the file. */
static void test_real_file_flipped(void **state) {
        size_t size, meta;
        char *data = real_file(&size);
        struct gguf *g = NULL;
        uint64_t x = 7;
        unsigned refused = 0;

        if (!data) {
                print_message("SKIP: no model file\n");
                skip();
        }
        assert_int_equal(gguf_parse(&g, data, size, NULL), 0);
        meta = (size_t)((const char *)gguf_tensor_at(g, 0)->data - data);
        gguf_free(g);
        for (int i = 0; i < N_FLIPS; i++) {
                size_t at;
                char bit;

                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                at = (x >> 8) % (i % 2 ? meta : 2000);
                bit = (char)(1 << (x & 7));
                data[at] ^= bit;
                g = NULL;
                if (gguf_parse(&g, data, size, NULL) < 0) {
                        assert_null(g);
                        refused++;
                } else
                        for (size_t k = 0; k < gguf_n_tensors(g); k++) {
                                const struct gguf_tensor *t = gguf_tensor_at(g, k);

                                assert_true(
                                        t->size == 0 ||
                                        ((const char *)t->data >= data &&
                                                t->size <= size - (size_t)((const char *)t->data -
                                                                           data)));
                        }
                gguf_free(g);
                data[at] ^= bit;
        }
        assert_true(refused > 100);
        free(data);
}

static void test_reference_files(void **state) {
        static const char *const names[] = {"vocab/ggml-vocab-gpt-2.gguf",
                "vocab/ggml-vocab-llama-spm.gguf", "vocab/rebuilt-qwen2.gguf", "arch/llama3.gguf",
                "arch/mamba.gguf", "arch/llama-d256-q4_k_s.gguf", "stories/stories260K-f16.gguf"};
        size_t found = 0;

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                const char *path = test_shared(names[i]);
                struct gguf *g = NULL;
                struct gguf_str arch;
                struct err e;

                if (!path)
                        continue;
                if (gguf_open(&g, path, &e) < 0)
                        print_message("%s\n", e.msg);
                assert_non_null(g);
                assert_int_equal(gguf_get_str(g, "general.architecture", &arch, &e), 0);
                assert_true(arch.size > 0);
                gguf_free(g);
                found++;
        }
        if (!found) {
                print_message("SKIP: no reference data\n");
                skip();
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_tensors),
                cmocka_unit_test(test_hash_progress),
                cmocka_unit_test(test_identity),
                cmocka_unit_test(test_hashes_cover_the_file),
                cmocka_unit_test(test_open),
                cmocka_unit_test(test_real_file_cut),
                cmocka_unit_test(test_real_file_flipped),
                cmocka_unit_test(test_reference_files),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
