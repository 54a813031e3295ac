/* SPDX-License-Identifier: MIT */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "spill/record.h"
#include "unit/spill/store.h"
#include "util/fds.h"

static int setup(void **state) {
        struct store *t = malloc(sizeof(*t));

        assert_non_null(t);
        store_make(t);
        *state = t;
        return 0;
}

static int teardown(void **state) {
        store_remove(*state);
        free(*state);
        return 0;
}

static uint8_t raw[BLOCK], back[BLOCK];

static struct spill_ref put(struct store *t, uint64_t key, enum kind kind, uint32_t i) {
        struct spill_meta m = meta_of(i);
        struct spill_ref ref;
        struct err e;

        fill(raw, BLOCK, kind, i);
        if (store_write(t->s, key, &m, raw, BLOCK, &ref, &e) != 0)
                fail_msg("%s", e.msg);
        return ref;
}

static void expect(struct store *t, const struct spill_ref *ref, enum kind kind, uint32_t i) {
        struct spill_meta m = meta_of(i);
        struct err e;

        fill(raw, BLOCK, kind, i);
        memset(back, 0x55, BLOCK);
        if (spill_read(t->s, ref, &m, back, BLOCK, &e) != 0)
                fail_msg("%s", e.msg);
        assert_memory_equal(raw, back, BLOCK);
}

static void test_options(void **state) {
        struct store *t = *state;
        struct spill_options o = t->options;
        struct spill *s = NULL;
        struct stat st;
        struct err e;
        char dir[300];

        o.max_raw_size = 0;
        assert_int_equal(spill_open(&s, t->dir, &o, &e), -ERR_INVALID);
        o.max_raw_size = ((size_t)1 << 30) + 1;
        assert_int_equal(spill_open(&s, t->dir, &o, &e), -ERR_INVALID);
        o = t->options;
        o.codec = 77;
        assert_int_equal(spill_open(&s, t->dir, &o, &e), -ERR_INVALID);
        assert_int_equal(spill_open(&s, "/proc/none/of/this", &t->options, &e), -ERR_SYS);
        assert_null(s);
        store_open(t);
        assert_int_equal(spill_open(&s, t->dir, &t->options, &e), -ERR_BUSY);
        t->s = spill_free(t->s);
        store_open(t);
        assert_null(spill_free(NULL));
        snprintf(dir, sizeof(dir), "%s/new", t->dir);
        assert_int_equal(spill_open(&s, dir, &t->options, &e), 0);
        spill_free(s);
        assert_int_equal(stat(dir, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0700);
        assert_int_equal(rmdir(dir), 0);
}

static void test_round_trip(void **state) {
        struct store *t = *state;
        struct spill_ref ref[3][N_KINDS];
        struct spill_stats st;
        struct stat sb;

        for (unsigned pass = 0; pass < 2; pass++) {
                t->options.codec = pass == 0 ? SPILL_CODEC_LZ4 : SPILL_CODEC_RAW;
                t->options.keep_cached = pass == 1;
                store_start(t);
                for (uint32_t i = 0; i < 3; i++)
                        for (enum kind k = 0; k < N_KINDS; k++)
                                ref[i][k] = put(t, i, k, i);
                for (uint32_t i = 0; i < 3; i++)
                        for (enum kind k = 0; k < N_KINDS; k++)
                                expect(t, &ref[i][k], k, i);
                assert_int_equal(ref[0][RANDOM].stored_size, 40960);
                assert_int_equal(ref[0][RANDOM].raw_size, BLOCK);
                assert_int_equal(ref[0][ZERO].stored_size, pass == 0 ? 4096 : 40960);
                if (pass == 0)
                        assert_true(ref[0][FLOATS].stored_size < 40960);
                st = store_stats(t);
                assert_int_equal(st.n_files, 3);
                assert_int_equal(st.n_records, 3 * N_KINDS);
                assert_int_equal(st.n_writes, 3 * N_KINDS);
                assert_int_equal(st.n_reads, 3 * N_KINDS);
                assert_int_equal(st.raw_in_size, 3 * N_KINDS * BLOCK);
                assert_int_equal(st.raw_out_size, 3 * N_KINDS * BLOCK);
                assert_int_equal(st.disk_size, st.written_size);
                assert_int_equal(st.disk_size, st.read_size);
                assert_int_equal(st.disk_size,
                        store_file_size(t, 0) + store_file_size(t, 1) + store_file_size(t, 2));
                assert_int_equal(stat(store_path(t, 1), &sb), 0);
                assert_int_equal(sb.st_mode & 07777, 0600);
                t->s = spill_free(t->s);
        }
}

/* All sizes around page borders, both codecs. */
static void test_sizes(void **state) {
        struct store *t = *state;
        struct spill_meta m = meta_of(1);

        store_start(t);
        for (size_t n = 1; n <= BLOCK; n += n < 10 || (n % 4096 > 3900) ? 1 : 389) {
                enum kind k = n % N_KINDS;
                struct spill_ref ref;

                fill(raw, n, k, n);
                assert_int_equal(store_write(t->s, 9, &m, raw, n, &ref, NULL), 0);
                assert_int_equal(ref.raw_size, n);
                memset(back, 0x55, n);
                assert_int_equal(spill_read(t->s, &ref, &m, back, n, NULL), 0);
                assert_memory_equal(raw, back, n);
        }
        assert_int_equal(store_write(t->s, 9, &m, raw, 0, NULL, NULL), -ERR_INVALID);
        assert_int_equal(store_write(t->s, 9, &m, raw, BLOCK + 1, NULL, NULL), -ERR_INVALID);
}

static void test_identity(void **state) {
        struct store *t = *state;
        struct spill_ref ref, bad;
        struct spill_meta m = meta_of(4), w;
        struct err e;

        store_start(t);
        for (enum kind k = 0; k < N_KINDS; k++) {
                ref = put(t, 1, k, 4);
                w = m;
                w.class_id++;
                assert_int_equal(spill_read(t->s, &ref, &w, back, BLOCK, &e), -ERR_CORRUPT);
                w = m;
                w.position++;
                assert_int_equal(spill_read(t->s, &ref, &w, back, BLOCK, &e), -ERR_CORRUPT);
                assert_non_null(strstr(e.msg, "0000000000000001.kv"));
                assert_non_null(strstr(e.msg, "holds block 4"));
                w = m;
                w.n_tokens--;
                assert_int_equal(spill_read(t->s, &ref, &w, back, BLOCK, &e), -ERR_CORRUPT);
                w = m;
                w.token_hash++;
                assert_int_equal(spill_read(t->s, &ref, &w, back, BLOCK, &e), -ERR_CORRUPT);
                assert_int_equal(spill_read(t->s, &ref, &m, back, BLOCK - 1, &e), -ERR_INVALID);
                bad = ref;
                bad.raw_size--;
                assert_int_equal(spill_read(t->s, &bad, &m, back, BLOCK - 1, &e), -ERR_CORRUPT);
                expect(t, &ref, k, 4);
        }
        assert_int_equal(store_stats(t).n_corrupt, 5 * N_KINDS);

        /* The same bytes under another model. */
        t->s = spill_free(t->s);
        t->options.fingerprint.rules++;
        store_open(t);
        assert_int_equal(spill_adopt(t->s, &ref, NULL), 0);
        assert_int_equal(spill_sweep(t->s, NULL, NULL), 0);
        assert_int_equal(spill_read(t->s, &ref, &m, back, BLOCK, &e), -ERR_CORRUPT);
        assert_non_null(strstr(e.msg, "another model"));
}

static void test_refs_that_are_none(void **state) {
        struct store *t = *state;
        struct spill_meta m = meta_of(0);
        struct spill_ref a, b, r;
        struct err e;

        store_start(t);
        a = put(t, 1, RANDOM, 0);
        b = put(t, 1, RANDOM, 1);
        assert_int_equal(b.offset, a.offset + a.stored_size);
        for (unsigned i = 0; i < 9; i++) {
                r = a;
                switch (i) {
                case 0:
                        r.file_key = 2;
                        break;
                case 1:
                        r.offset += 4096;
                        break;
                case 2:
                        r.offset += 1;
                        break;
                case 3:
                        r.stored_size -= 4096;
                        break;
                case 4:
                        r.stored_size += 4096;
                        break;
                case 5:
                        r.offset = (uint64_t)-4096;
                        break;
                case 6:
                        r.stored_size = (uint64_t)-4096;
                        break;
                case 7:
                        r.stored_size = 0;
                        break;
                default:
                        r.offset = b.offset + b.stored_size;
                        break;
                }
                assert_int_equal(spill_read(t->s, &r, &m, back, BLOCK, &e), -ERR_NOT_FOUND);
                assert_int_equal(spill_release(t->s, &r, &e), -ERR_NOT_FOUND);
        }
        r = a;
        r.raw_size = UINT64_MAX;
        assert_int_equal(spill_read(t->s, &r, &m, back, UINT64_MAX, &e), -ERR_NOT_FOUND);
        expect(t, &a, RANDOM, 0);
        expect(t, &b, RANDOM, 1);
        assert_int_equal(store_stats(t).n_records, 2);
}

static void test_release(void **state) {
        struct store *t = *state;
        struct spill_meta m = meta_of(1);
        struct spill_ref ref[4], other;
        struct spill_stats st;
        struct err e;
        long long before;

        store_start(t);
        for (uint32_t i = 0; i < 4; i++)
                ref[i] = put(t, 7, RANDOM, i);
        other = put(t, 8, RANDOM, 9);
        store_sync(t, 7);
        before = store_file_blocks(t, 7);
        assert_int_equal(spill_release(t->s, &ref[1], NULL), 0);
        if (store_stats(t).punched_size > 0) {
                assert_int_equal(store_file_blocks(t, 7), before - 40960);
                assert_int_equal(store_stats(t).disk_size, 4 * 40960);
        }
        assert_int_equal(spill_release(t->s, &ref[1], &e), -ERR_NOT_FOUND);
        assert_int_equal(spill_read(t->s, &ref[1], &m, back, BLOCK, &e), -ERR_NOT_FOUND);
        expect(t, &ref[0], RANDOM, 0);
        expect(t, &ref[2], RANDOM, 2);
        expect(t, &ref[3], RANDOM, 3);
        /* Append only: a hole is not filled again. */
        ref[1] = put(t, 7, RANDOM, 1);
        assert_int_equal(ref[1].offset, 4 * 40960);
        for (uint32_t i = 0; i < 4; i++)
                assert_int_equal(spill_release(t->s, &ref[i], NULL), 0);
        assert_int_equal(store_file_size(t, 7), -1);
        st = store_stats(t);
        assert_int_equal(st.n_files, 1);
        assert_int_equal(st.n_records, 1);
        assert_int_equal(st.disk_size, 40960);
        expect(t, &other, RANDOM, 9);
        assert_int_equal(spill_release(t->s, &other, NULL), 0);
        assert_int_equal(store_stats(t).disk_size, 0);
        /* The same key again is a new file. */
        ref[0] = put(t, 7, ZERO, 0);
        assert_int_equal(ref[0].offset, 0);
        expect(t, &ref[0], ZERO, 0);
}

/* A store for another model, whose blocks are larger, smaller, or divided in another way, keeps the
 * records: they are as they were when the first model is back. */
static void test_other_model(void **state) {
        static const uint64_t smaller[] = {BLOCK / 4}, larger[] = {8 * BLOCK},
                              divided[] = {BLOCK / 2, BLOCK};
        const struct spill_layout layouts[] = {{.section_ends = smaller, .n_sections = 1},
                {.section_ends = larger, .n_sections = 1},
                {.section_ends = divided, .n_sections = 2}};
        static const uint64_t own[] = {BLOCK};
        const struct spill_layout first = {.section_ends = own, .n_sections = 1};
        struct store *t = *state;
        struct spill_meta m = meta_of(1);
        struct spill_ref kept, dropped;
        static uint8_t got[BLOCK];
        struct err e;
        size_t n;

        store_divide(&t->options, first);
        store_start(t);
        kept = put(t, 1, FLOATS, 1);
        for (size_t i = 0; i < ARRAY_SIZE(layouts); i++) {
                dropped = put(t, 2, RANDOM, 2);
                t->s = spill_free(t->s);
                store_divide(&t->options, layouts[i]);
                t->options.max_raw_size = layouts[i].section_ends[layouts[i].n_sections - 1];
                t->options.fingerprint.weights++;
                store_open(t);
                assert_int_equal(spill_adopt(t->s, &kept, NULL), 0);
                assert_int_equal(spill_adopt(t->s, &dropped, NULL), 0);
                assert_int_equal(spill_sweep(t->s, &n, NULL), 0);
                assert_int_equal(n, 0);
                assert_int_equal(store_stats(t).disk_size, kept.stored_size + dropped.stored_size);
                /* Read it must not be, and it is no damage either. */
                assert_true(spill_read(t->s, &kept, &m, got, sizeof(got), &e) < 0);
                /* What the register lets go is gone. */
                assert_int_equal(spill_release(t->s, &dropped, NULL), 0);
                assert_int_equal(store_file_size(t, 2), -1);
                t->s = spill_free(t->s);
                store_divide(&t->options, first);
                t->options.max_raw_size = BLOCK;
                t->options.fingerprint.weights--;
                store_open(t);
                assert_int_equal(spill_adopt(t->s, &kept, NULL), 0);
                assert_int_equal(spill_sweep(t->s, &n, NULL), 0);
                expect(t, &kept, FLOATS, 1);
        }
}

static void test_restart(void **state) {
        struct store *t = *state;
        struct spill_ref ref[6], orphan, gone, more;
        struct spill_stats st;
        struct err e;
        size_t n;
        char path[300];
        int fd;

        store_open(t);
        assert_int_equal(
                store_write(t->s, 1, &(struct spill_meta){0}, raw, 1, &orphan, &e), -ERR_STATE);
        assert_int_equal(spill_sweep(t->s, &n, NULL), 0);
        assert_int_equal(n, 0);
        for (uint32_t i = 0; i < 6; i++)
                ref[i] = put(t, i % 2, RANDOM, i);
        orphan = put(t, 5, RANDOM, 7);
        gone = put(t, 6, RANDOM, 8);
        assert_int_equal(spill_adopt(t->s, &ref[0], &e), -ERR_STATE);
        store_sync(t, 0);
        t->s = spill_free(t->s);
        assert_int_equal(unlink(store_path(t, 6)), 0);
        snprintf(path, sizeof(path), "%s/0000000000000009.kv.old", t->dir);
        fd = open(path, O_CREAT | O_RDWR, 0600);
        assert_true(fd >= 0);
        close(fd);

        /* The register knows ref[0] twice (a fork), and neither ref[2] nor ref[5] nor orphan. */
        store_open(t);
        assert_int_equal(spill_adopt(t->s, &ref[0], NULL), 0);
        assert_int_equal(spill_adopt(t->s, &ref[1], NULL), 0);
        assert_int_equal(spill_adopt(t->s, &ref[0], NULL), 1);
        assert_int_equal(spill_adopt(t->s, &ref[3], NULL), 0);
        more = ref[4]; /* of a file with one of user 0 */
        more.owner = 1;
        assert_int_equal(spill_adopt(t->s, &more, &e), -ERR_CORRUPT);
        assert_int_equal(spill_adopt(t->s, &ref[4], NULL), 0);
        assert_int_equal(spill_adopt(t->s, &gone, &e), -ERR_NOT_FOUND);
        more = ref[0];
        more.stored_size += 40960; /* more than its bytes ever take */
        assert_int_equal(spill_adopt(t->s, &more, &e), -ERR_INVALID);
        more = ref[0];
        more.offset += 4096;
        assert_int_equal(spill_adopt(t->s, &more, &e), -ERR_CORRUPT);
        more = ref[4];
        more.offset += 4096;
        assert_int_equal(spill_adopt(t->s, &more, &e), -ERR_CORRUPT);
        more.offset = (uint64_t)1 << 62;
        assert_int_equal(spill_adopt(t->s, &more, &e), -ERR_INVALID);
        assert_int_equal(store_stats(t).disk_size, 4 * 40960);
        assert_int_equal(spill_sweep(t->s, &n, NULL), 0);
        assert_int_equal(n, 1);
        assert_int_equal(store_file_size(t, 5), -1);
        assert_int_equal(access(path, F_OK), 0);
        assert_int_equal(store_file_size(t, 0), 3 * 40960); /* ref 0, a hole, ref 4 */
        assert_int_equal(store_file_size(t, 1), 2 * 40960); /* ref 1 and 3; 5 is cut off */
        st = store_stats(t);
        assert_int_equal(st.n_records, 4);
        assert_int_equal(st.n_files, 2);
        if (st.disk_size == 4 * 40960)
                assert_int_equal(store_file_blocks(t, 0), 2 * 40960);
        expect(t, &ref[0], RANDOM, 0);
        expect(t, &ref[1], RANDOM, 1);
        expect(t, &ref[3], RANDOM, 3);
        expect(t, &ref[4], RANDOM, 4);
        more = put(t, 0, FLOATS, 20);
        assert_int_equal(more.offset, 3 * 40960);
        expect(t, &more, FLOATS, 20);
        expect(t, &ref[4], RANDOM, 4);
        assert_int_equal(spill_release(t->s, &ref[1], NULL), 0);
        assert_int_equal(spill_release(t->s, &ref[3], NULL), 0);
        assert_int_equal(store_file_size(t, 1), -1);
}

/* A file that ends inside of a record: the record is not taken for one. */
static void test_adopt_cut_record(void **state) {
        struct store *t = *state;
        struct spill_ref whole, cut;
        struct err e;

        store_start(t);
        whole = put(t, 3, RANDOM, 1);
        cut = put(t, 3, RANDOM, 2);
        for (int bytes = 1; bytes <= 4096; bytes += 4095) {
                t->s = spill_free(t->s);
                assert_int_equal(
                        truncate(store_path(t, 3), (off_t)(cut.offset + cut.stored_size) - bytes),
                        0);
                store_open(t);
                assert_int_equal(spill_adopt(t->s, &cut, &e), -ERR_CORRUPT);
                assert_non_null(strstr(e.msg, "outside of the file"));
                assert_int_equal(store_stats(t).n_records, 0);
                assert_int_equal(store_stats(t).disk_size, 0);
                assert_int_equal(spill_adopt(t->s, &whole, &e), 0);
                assert_int_equal(store_stats(t).n_records, 1);
        }
        assert_int_equal(spill_sweep(t->s, NULL, NULL), 0);
        expect(t, &whole, RANDOM, 1);
        assert_int_equal(store_file_size(t, 3), (long long)whole.stored_size);
}

/* Behind the payload the last page is zeros: nothing of the writer's memory goes to disk. */
static void test_padding(void **state) {
        struct store *t = *state;
        static uint8_t record[2 * BLOCK];

        store_start(t);
        for (enum kind k = ZERO; k < N_KINDS; k++) {
                struct spill_ref ref = put(t, 4, k, (uint32_t)k);
                int fd = open(store_path(t, 4), O_RDONLY);
                uint64_t payload, end;
                uint16_t n;

                assert_true(fd >= 0);
                assert_true(ref.stored_size <= sizeof(record));
                assert_int_equal(pread(fd, record, ref.stored_size, (off_t)ref.offset),
                        (ssize_t)ref.stored_size);
                close(fd);
                memcpy(&n, record + 6, sizeof(n));
                memcpy(&payload, record + 56, sizeof(payload));
                end = spill_header_size(n) + payload;
                assert_true(end < ref.stored_size && ref.stored_size - end < 4096);
                for (uint64_t i = end; i < ref.stored_size; i++)
                        assert_int_equal(record[i], 0);
        }
}

static void test_limits(void **state) {
        struct store *t = *state;
        struct spill_meta m = meta_of(0);
        struct spill_ref a, b, c = {0};
        struct err e;

        t->options.max_disk_size = 2 * 40960 + 4095;
        store_start(t);
        a = put(t, 1, RANDOM, 0);
        b = put(t, 2, RANDOM, 1);
        fill(raw, BLOCK, RANDOM, 0);
        assert_int_equal(store_write(t->s, 3, &m, raw, BLOCK, &c, &e), -ERR_LIMIT);
        assert_int_equal(store_write(t->s, 1, &m, raw, BLOCK, &c, &e), -ERR_LIMIT);
        assert_int_equal(c.stored_size, 0);
        assert_int_equal(store_file_size(t, 1), 40960);
        assert_int_equal(store_file_size(t, 3), -1);
        assert_int_equal(store_stats(t).n_refused, 2);
        assert_int_equal(store_stats(t).disk_size, 2 * 40960);
        assert_int_equal(store_stats(t).n_files, 2);
        assert_int_equal(spill_release(t->s, &a, NULL), 0);
        c = put(t, 3, RANDOM, 2);
        expect(t, &c, RANDOM, 2);
        expect(t, &b, RANDOM, 1);
        assert_int_equal(spill_release(t->s, &c, NULL), 0);
        /* Zeros take one page of the eleven, but then it is ten less a byte: refused by what it may
         * take, though it would not. */
        a = put(t, 3, ZERO, 3);
        assert_int_equal(a.stored_size, 4096);
        assert_int_equal(store_write(t->s, 3, &m, raw, BLOCK, &c, NULL), -ERR_LIMIT);

        t->s = spill_free(t->s);
        t->options.max_disk_size = 0;
        t->options.min_free_size = (uint64_t)1 << 60;
        store_start(t);
        fill(raw, BLOCK, RANDOM, 0);
        assert_int_equal(store_write(t->s, 3, &m, raw, BLOCK, &c, &e), -ERR_LIMIT);
        assert_int_equal(store_stats(t).n_files, 0);
        t->s = spill_free(t->s);
        t->options.min_free_size = 4096;
        store_start(t);
        a = put(t, 1, FLOATS, 0);
        expect(t, &a, FLOATS, 0);
}

/* More files than descriptors: no call keeps more open than may be. */
static void test_few_descriptors(void **state) {
        struct store *t = *state;
        struct spill_ref ref[20];
        size_t before;

        t->options.max_open_files = 2;
        store_start(t);
        before = test_count_fds();
        for (uint32_t i = 0; i < 20; i++)
                ref[i] = put(t, i / 2, FLOATS, i);
        assert_in_range(test_count_fds(), before, before + 2);
        for (uint32_t i = 0; i < 20; i++)
                expect(t, &ref[i * 7 % 20], FLOATS, i * 7 % 20);
        assert_in_range(test_count_fds(), before, before + 2);
        for (uint32_t i = 0; i < 20; i += 2) {
                static uint8_t two[2][BLOCK];
                struct spill_item items[] = {{.ref = ref[i], .meta = meta_of(i), .dst = two[0]},
                        {.ref = ref[i + 1], .meta = meta_of(i + 1), .dst = two[1]}};

                assert_int_equal(spill_read_batch(t->s, items, 2, NULL), 0);
        }
        assert_in_range(test_count_fds(), before, before + 2);
        t->s = spill_free(t->s);
        store_open(t);
        before = test_count_fds();
        for (uint32_t i = 0; i < 20; i++)
                assert_int_equal(spill_adopt(t->s, &ref[i], NULL), 0);
        assert_int_equal(spill_sweep(t->s, NULL, NULL), 0);
        assert_in_range(test_count_fds(), before, before + 2);
        for (uint32_t i = 0; i < 20; i++)
                assert_int_equal(spill_release(t->s, &ref[i], NULL), 0);
        assert_int_equal(store_stats(t).n_files, 0);
        assert_int_equal(store_stats(t).disk_size, 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                T(test_options),
                T(test_round_trip),
                T(test_sizes),
                T(test_identity),
                T(test_refs_that_are_none),
                T(test_release),
                T(test_other_model),
                T(test_restart),
                T(test_adopt_cut_record),
                T(test_padding),
                T(test_limits),
                T(test_few_descriptors),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
