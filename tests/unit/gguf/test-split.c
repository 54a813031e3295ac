/* SPDX-License-Identifier: MIT */
/* Models in several files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "build.h"
#include "quant/quant.h"
#include "util/test.h"

struct parts {
        char folder[32], first[64];
        uint32_t n;
        /* What a file says that is not so; UINT32_MAX: nothing. */
        uint32_t false_no, false_count, false_total, twice, missing;
};

static struct parts parts_new(uint32_t n) {
        struct parts p = {.n = n,
                .false_no = UINT32_MAX,
                .false_count = UINT32_MAX,
                .false_total = UINT32_MAX,
                .twice = UINT32_MAX,
                .missing = UINT32_MAX};

        snprintf(p.folder, sizeof(p.folder), "/tmp/confab-split-XXXXXX");
        assert_non_null(mkdtemp(p.folder));
        return p;
}

static void path_of(const struct parts *p, uint32_t i, char *ret, size_t size) {
        snprintf(ret, size, "%s/m-%05u-of-%05u.gguf", p->folder, i + 1, p->n);
}

/* Part i has the tensor "t<i>" of 8 + i floats; each of them is 10 * i. */
static void write_part(const struct parts *p, uint32_t i) {
        uint64_t ne[] = {8 + i};
        struct buf b = BUF_NULL;
        char path[64], name[16];

        put_header(&b, 3, 1, i ? 2 : 4);
        put_kv_u32(&b, "split.no", p->false_no != i ? i : i ? 1 : 7);
        put_kv_u32(&b, "split.count", p->false_count == i ? 9 : p->n);
        if (!i) {
                put_kv_u32(&b, "split.tensors.count",
                        p->false_total != UINT32_MAX ? p->false_total : p->n);
                put_kv_str(&b, "general.architecture", "test");
        }
        snprintf(name, sizeof(name), "t%u", p->twice == i ? 0 : i);
        put_tensor(&b, name, 1, ne, QUANT_F32, 0);
        while (b.size % 32)
                put_u8(&b, 0);
        for (uint32_t k = 0; k < 8 + i; k++) {
                float v = (float)(10 * i);

                put(&b, &v, sizeof(v));
        }
        path_of(p, i, path, sizeof(path));
        assert_int_equal(file_replace(path, b.data, b.size, 0600, NULL), 0);
        buf_deinit(&b);
}

static void write_all(struct parts *p) {
        for (uint32_t i = 0; i < p->n; i++)
                if (p->missing != i)
                        write_part(p, i);
        path_of(p, 0, p->first, sizeof(p->first));
}

static void remove_all(const struct parts *p) {
        char path[64];

        for (uint32_t i = 0; i < p->n; i++) {
                path_of(p, i, path, sizeof(path));
                unlink(path);
        }
        assert_int_equal(rmdir(p->folder), 0);
}

static void test_tensors_of_all_files(void **state) {
        struct parts p = parts_new(3);
        struct gguf *g = NULL;
        struct gguf_str arch;
        struct err e;

        write_all(&p);
        if (gguf_open(&g, p.first, &e))
                fail_msg("%s", e.msg);
        assert_int_equal(gguf_n_tensors(g), 3);
        for (uint32_t i = 0; i < 3; i++) {
                char name[16];
                const struct gguf_tensor *t;

                snprintf(name, sizeof(name), "t%u", i);
                t = gguf_tensor(g, name);
                assert_non_null(t);
                assert_ptr_equal(gguf_tensor_at(g, i), t);
                assert_int_equal(t->ne[0], 8 + i);
                assert_true(((const float *)t->data)[7] == (float)(10 * i));
        }
        assert_int_equal(gguf_get_str(g, "general.architecture", &arch, &e), 0);
        assert_int_equal(gguf_data_size(g), 4 * (8 + 9 + 10));
        gguf_free(g);
        remove_all(&p);
}

/* Hashes and identity see every file. */
static void test_hashes(void **state) {
        struct parts p = parts_new(3);
        struct gguf_identity a, b;
        uint64_t meta, data, other;
        struct gguf *g = NULL;
        char path[64];
        FILE *f;

        write_all(&p);
        assert_int_equal(gguf_open(&g, p.first, NULL), 0);
        meta = gguf_hash_meta(g);
        assert_int_equal(gguf_hash_data(g, NULL, &data), 0);
        assert_int_equal(gguf_identify(g, &a, NULL), 0);
        gguf_free(g);
        assert_int_equal(a.size, gguf_file_size((gguf_open(&g, p.first, NULL), g)));
        gguf_free(g);

        path_of(&p, 2, path, sizeof(path));
        f = fopen(path, "r+");
        assert_non_null(f);
        fseek(f, -1, SEEK_END);
        fputc(1, f);
        fclose(f);
        assert_int_equal(gguf_open(&g, p.first, NULL), 0);
        assert_true(gguf_hash_meta(g) == meta);
        assert_int_equal(gguf_hash_data(g, NULL, &other), 0);
        assert_true(other != data);
        gguf_free(g);
        write_part(&p, 2); /* replaced by an equal file */
        assert_int_equal(gguf_open(&g, p.first, NULL), 0);
        assert_int_equal(gguf_hash_data(g, NULL, &other), 0);
        assert_true(other == data);
        assert_int_equal(gguf_identify(g, &b, NULL), 0);
        assert_true(b.inode != a.inode && b.size == a.size);
        gguf_free(g);
        remove_all(&p);
}

static void refuse(struct parts *p, const char *expect) {
        struct gguf *g = NULL;
        struct err e = {0};

        write_all(p);
        assert_true(gguf_open(&g, p->first, &e) < 0);
        assert_null(g);
        if (!strstr(e.msg, expect))
                fail_msg("message is: %s", e.msg);
        remove_all(p);
}

static void test_broken_sets(void **state) {
        struct parts p = parts_new(3);

        p.missing = 1;
        refuse(&p, "m-00002-of-00003.gguf");
        p = parts_new(3);
        p.false_no = 2;
        refuse(&p, "it is number 2 of 3, not 3 of 3");
        p = parts_new(3);
        p.false_count = 1;
        refuse(&p, "it is number 2 of 9, not 2 of 3");
        p = parts_new(2);
        p.false_total = 5;
        refuse(&p, "split.tensors.count is 5, but the files have 2");
        p = parts_new(3);
        p.twice = 2;
        refuse(&p, "tensor 't0' occurs in another file");
        p = parts_new(3);
        p.false_no = 0;
        refuse(&p, "split.no is 7 of 3");
}

static void test_wrong_name(void **state) {
        struct parts p = parts_new(2);
        struct gguf *g = NULL;
        char other[64];
        struct err e;

        write_all(&p);
        path_of(&p, 1, other, sizeof(other));
        assert_int_equal(gguf_open(&g, other, &e), -ERR_INVALID);
        assert_non_null(strstr(e.msg, "file 2 of 2"));
        assert_non_null(strstr(e.msg, "-00001-of-00002.gguf"));
        snprintf(other, sizeof(other), "%s/renamed.gguf", p.folder);
        assert_int_equal(rename(p.first, other), 0);
        assert_int_equal(gguf_open(&g, other, &e), -ERR_FORMAT);
        assert_non_null(strstr(e.msg, "must end in '-00001-of-00002.gguf'"));
        assert_int_equal(rename(other, p.first), 0);
        remove_all(&p);
}

/* One file that calls itself the first of one is a model of its own, whatever its name. */
static void test_one_of_one(void **state) {
        struct parts p = parts_new(1);
        struct gguf *g = NULL;
        char other[64];

        write_all(&p);
        snprintf(other, sizeof(other), "%s/renamed.gguf", p.folder);
        assert_int_equal(rename(p.first, other), 0);
        assert_int_equal(gguf_open(&g, other, NULL), 0);
        assert_int_equal(gguf_n_tensors(g), 1);
        gguf_free(g);
        assert_int_equal(rename(other, p.first), 0);
        remove_all(&p);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_tensors_of_all_files),
                cmocka_unit_test(test_hashes),
                cmocka_unit_test(test_broken_sets),
                cmocka_unit_test(test_wrong_name),
                cmocka_unit_test(test_one_of_one),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
