/* SPDX-License-Identifier: MIT */
/* Blocks of several sections, and reading many of them at a time: from the page cache, bypassing
 * it, and through it. */
#include <sys/stat.h>
#include <unistd.h>

#include "spill/codec/checksum.h"
#include "spill/record.h"
#include "spill/shared.h"
#include "unit/spill/resident.h"
#include "unit/spill/store.h"

enum { RAW = 60000, N_SECTIONS = 4, N = 24, HEADER = 192 };

static const uint64_t ends[N_SECTIONS] = {20000, 20001, 45000, RAW};

struct world {
        struct store t;
        struct spill_item items[N];
        enum kind kind[N][N_SECTIONS];
};

static uint8_t raw[RAW], back[N][RAW];
static enum { CACHED, DIRECT, THROUGH } way;

/* How what was written is read from here on. */
static void take_way(struct world *w) {
        for (uint64_t key = 0; key < 3 && way != CACHED; key++)
                spill_settle(w->t.s, key);
}

static size_t start_of(size_t k) {
        return k > 0 ? ends[k - 1] : 0;
}

static void fill_block(const struct world *w, size_t i) {
        for (size_t k = 0; k < N_SECTIONS; k++)
                fill(raw + start_of(k), ends[k] - start_of(k), w->kind[i][k], i * 10 + k);
}

static void fill_item(struct world *w, size_t i) {
        memset(back[i], 0x55, RAW);
        w->items[i].meta = meta_of((uint32_t)i);
        w->items[i].dst = back[i];
        w->items[i].r = 77;
}

/* Blocks with all mixtures of sections that gain something and sections that do not; every eighth
 * is raw as a whole. */
static int setup(void **state) {
        struct world *w = calloc(1, sizeof(*w));

        assert_non_null(w);
        store_make(&w->t);
        w->t.options.max_raw_size = RAW;
        w->t.options.no_direct = way == THROUGH;
        store_divide(&w->t.options,
                (struct spill_layout){.section_ends = ends, .n_sections = N_SECTIONS});
        store_start(&w->t);
        for (size_t i = 0; i < N; i++) {
                struct spill_meta m = meta_of((uint32_t)i);

                for (size_t k = 0; k < N_SECTIONS; k++)
                        w->kind[i][k] = i % 8 == 7         ? RANDOM
                                        : (i + k) % 3 == 0 ? RANDOM
                                        : i % 2 == 0       ? ZERO
                                                           : FLOATS;
                fill_block(w, i);
                assert_int_equal(
                        store_write(w->t.s, i / 10, &m, raw, RAW, &w->items[i].ref, NULL), 0);
                fill_item(w, i);
        }
        take_way(w);
        *state = w;
        return 0;
}

static int teardown(void **state) {
        struct world *w = *state;

        store_remove(&w->t);
        free(w);
        return 0;
}

static void expect_section(const struct world *w, size_t i, size_t k) {
        fill_block(w, i);
        assert_memory_equal(raw + start_of(k), back[i] + start_of(k), ends[k] - start_of(k));
}

static void expect_block(const struct world *w, size_t i) {
        for (size_t k = 0; k < N_SECTIONS; k++)
                expect_section(w, i, k);
}

static void test_layouts(void **state) {
        struct world *w = *state;
        struct spill_options o = w->t.options;
        struct spill *s = NULL;
        uint64_t bad[N_SECTIONS] = {1, 1, 2, 3}, one[1] = {RAW};
        struct spill_array arrays[2] = {
                {.element = SPILL_F16, .section = 0, .n_tiles = 1, .n_channels = 10, .n_tokens = 8},
                {.element = SPILL_F16,
                        .section = 2,
                        .offset = 20002,
                        .n_tiles = 1,
                        .n_channels = 10,
                        .n_tokens = 8},
        };
        char dir[300];
        struct err e;

        assert_true(spill_scratch_size(w->t.s) >= RAW);
        assert_true(spill_load_size(w->t.s, 2) > spill_load_size(w->t.s, 1));
        assert_int_equal(spill_stored_max(w->t.s, RAW), 61440);
        snprintf(dir, sizeof(dir), "%s/x", w->t.dir);
        o.layouts[0].section_ends = bad;
        assert_int_equal(spill_open(&s, dir, &o, &e), -ERR_INVALID);
        bad[1] = 2, bad[2] = 3, bad[3] = RAW + 1;
        assert_int_equal(spill_open(&s, dir, &o, &e), -ERR_INVALID);
        o.layouts[0].section_ends = ends;
        o.layouts[0].n_sections = SPILL_MAX_SECTIONS + 1;
        assert_int_equal(spill_open(&s, dir, &o, &e), -ERR_INVALID);
        o.layouts[0].n_sections = N_SECTIONS;
        o.layouts[0].arrays = arrays;
        o.layouts[0].n_arrays = 2;
        assert_int_equal(spill_open(&s, dir, &o, &e), 0);
        s = spill_free(s);
        arrays[1].offset = 20000;
        assert_int_equal(spill_open(&s, dir, &o, &e), -ERR_INVALID);
        arrays[1].offset = 45000;
        assert_int_equal(spill_open(&s, dir, &o, &e), -ERR_INVALID);
        arrays[1].offset = 20002;
        arrays[1].section = N_SECTIONS;
        assert_int_equal(spill_open(&s, dir, &o, &e), -ERR_INVALID);
        arrays[0].section = 2;
        assert_int_equal(spill_open(&s, dir, &o, &e), -ERR_INVALID);
        o.layouts[0] = (struct spill_layout){.arrays = arrays, .n_arrays = 1};
        assert_int_equal(spill_open(&s, dir, &o, &e), -ERR_INVALID);
        o.layouts[0] = (struct spill_layout){.section_ends = one, .n_sections = 1};
        assert_int_equal(spill_open(&s, dir, &o, &e), 0);
        s = spill_free(s);
        assert_int_equal(rmdir(dir), 0);
        /* Blocks have the layout's size and no other. */
        assert_int_equal(
                store_write(w->t.s, 1, &w->items[0].meta, raw, RAW - 1, NULL, NULL), -ERR_INVALID);
}

/* Sections are raw or encoded each for itself, by 1/64; a record is raw where no page is saved. */
static void test_choice(void **state) {
        struct world *w = *state;
        struct spill_section sec[N_SECTIONS];
        struct spill_record rec;
        uint8_t header[HEADER];
        int fd;

        assert_int_equal(spill_header_size(N_SECTIONS), HEADER);
        for (size_t i = 0; i < N; i++) {
                bool gains = false;

                fd = open(store_path(&w->t, w->items[i].ref.file_key), O_RDONLY);
                assert_int_equal(pread(fd, header, HEADER, (off_t)w->items[i].ref.offset), HEADER);
                close(fd);
                assert_int_equal(
                        spill_record_parse(header, HEADER, sec, N_SECTIONS, &rec, NULL), 0);
                for (size_t k = 0; k < N_SECTIONS; k++) {
                        bool big = k != 1;

                        gains = gains || (w->kind[i][k] != RANDOM && big);
                        assert_int_equal(sec[k].codec,
                                w->kind[i][k] != RANDOM && big ? SPILL_CODEC_LZ4 : SPILL_CODEC_RAW);
                }
                assert_int_equal(w->items[i].ref.stored_size < 61440, gains);
        }
}

static void test_batch(void **state) {
        struct world *w = *state;
        struct spill_stats st;

        assert_int_equal(spill_read_batch(w->t.s, w->items, N, NULL), 0);
        for (size_t i = 0; i < N; i++) {
                assert_int_equal(w->items[i].r, 0);
                expect_block(w, i);
        }
        st = store_stats(&w->t);
        assert_int_equal(st.n_reads, N);
        assert_int_equal(st.raw_out_size, N * RAW);
        assert_int_equal(st.read_size, st.written_size);
        /* Headers and all, as many as a window holds with one call. */
        assert_true(st.n_preads <= 3 + st.read_size / (w->t.s->window_size - RAW));
        assert_int_equal(st.n_joined, N);
        if (way == DIRECT && has_direct(store_path(&w->t, 0)) && resident_can_drop(w->t.dir))
                assert_int_equal(st.n_direct, st.n_preads);
        else
                assert_int_equal(st.n_direct, 0);
        assert_int_equal(spill_read_batch(w->t.s, w->items, 0, NULL), 0);
}

/* Any order of items, and one twice (into two places). */
static void test_any_order(void **state) {
        struct world *w = *state;
        struct spill_item items[N + 1];
        static uint8_t twice[RAW];

        for (size_t i = 0; i < N; i++)
                items[i] = w->items[(i * 7 + 3) % N];
        items[N] = w->items[4];
        items[N].dst = twice;
        assert_int_equal(spill_read_batch(w->t.s, items, N + 1, NULL), 0);
        for (size_t i = 0; i < N; i++)
                expect_block(w, i);
        assert_memory_equal(twice, back[4], RAW);
}

static void test_section_by_section(void **state) {
        struct world *w = *state;
        struct spill_load *l = NULL;
        static uint8_t empty[RAW];

        memset(empty, 0x55, RAW);
        assert_int_equal(spill_load_new(&l, w->t.s, w->items, N, NULL), 0);
        assert_int_equal(store_stats(&w->t).n_preads, 0);
        for (size_t k = 0; k < N_SECTIONS; k++) {
                assert_int_equal(store_read(l, k, 1, NULL), 0);
                for (size_t i = 0; i < N; i++) {
                        expect_section(w, i, k);
                        /* No byte of what comes later. */
                        assert_memory_equal(back[i] + ends[k], empty, RAW - ends[k]);
                }
                assert_int_equal(store_stats(&w->t).n_reads, k + 1 < N_SECTIONS ? 0 : N);
        }
        /* Again: nothing is read. */
        assert_int_equal(store_read(l, 0, N_SECTIONS, NULL), 0);
        assert_int_equal(store_stats(&w->t).n_reads, N);
        assert_int_equal(store_read(l, 0, N_SECTIONS + 1, NULL), -ERR_INVALID);
        assert_int_equal(store_read(l, N_SECTIONS, 1, NULL), -ERR_INVALID);
        assert_int_equal(store_read(l, 1, 0, NULL), 0);
        assert_int_equal(store_read(l, SIZE_MAX, 2, NULL), -ERR_INVALID);
        assert_null(spill_load_free(l));
        assert_null(spill_load_free(NULL));
        l = NULL;
        assert_int_equal(spill_load_new(&l, w->t.s, w->items, 0, NULL), -ERR_INVALID);
        assert_null(l);
}

/* The last sections first, and overlapping calls. */
static void test_sections_in_any_order(void **state) {
        struct world *w = *state;
        struct spill_load *l = NULL;

        assert_int_equal(spill_load_new(&l, w->t.s, w->items, N, NULL), 0);
        assert_int_equal(store_read(l, 2, 2, NULL), 0);
        assert_int_equal(store_read(l, 1, 2, NULL), 0);
        for (size_t i = 0; i < N; i++)
                assert_int_equal(back[i][0], 0x55);
        assert_int_equal(store_read(l, 0, 4, NULL), 0);
        for (size_t i = 0; i < N; i++)
                expect_block(w, i);
        assert_int_equal(store_stats(&w->t).n_reads, N);
        spill_load_free(l);
        /* A load that is given up in the middle. */
        assert_int_equal(spill_load_new(&l, w->t.s, w->items, N, NULL), 0);
        assert_int_equal(store_read(l, 0, 1, NULL), 0);
        spill_load_free(l);
}

static void damage(struct world *w, size_t i, size_t at) {
        int fd = open(store_path(&w->t, w->items[i].ref.file_key), O_RDWR);
        off_t place = (off_t)(w->items[i].ref.offset + at);
        uint8_t b;

        assert_true(fd >= 0);
        assert_int_equal(pread(fd, &b, 1, place), 1);
        b ^= 0x10;
        assert_int_equal(pwrite(fd, &b, 1, place), 1);
        close(fd);
}

static void make_bad(struct world *w) {
        damage(w, 2, 30);                /* its header */
        damage(w, 5, HEADER + 3);        /* its first section */
        damage(w, 7, HEADER + 59999);    /* its last one; raw, so the offset is known */
        w->items[9].meta.token_hash++;   /* not what was asked for */
        w->items[11].ref.offset += 4096; /* no record */
        w->items[13].ref.file_key = 99;  /* no file */
        w->items[15].ref.raw_size = RAW - 1;
}

static void expect_bad(struct world *w) {
        for (size_t i = 0; i < N; i++) {
                bool bad = i == 2 || i == 5 || i == 7 || i == 9 || i == 11 || i == 13 || i == 15;

                if (!bad) {
                        assert_int_equal(w->items[i].r, 0);
                        expect_block(w, i);
                } else
                        assert_true(w->items[i].r < 0);
        }
        assert_int_equal(store_stats(&w->t).n_reads, N - 7);
        assert_int_equal(store_stats(&w->t).n_corrupt, 4);
}

/* One bad item does not touch the others, whichever way it is bad. */
static void test_bad_items(void **state) {
        struct world *w = *state;
        struct spill_load *l = NULL;
        struct err e = {0};

        make_bad(w);
        assert_int_equal(spill_load_new(&l, w->t.s, w->items, N, &e), -ERR_NOT_FOUND);
        assert_non_null(l);
        assert_int_equal(w->items[11].r, -ERR_NOT_FOUND);
        assert_int_equal(w->items[13].r, -ERR_NOT_FOUND);
        assert_int_equal(w->items[15].r, -ERR_NOT_FOUND);
        assert_int_equal(store_read(l, 0, 1, &e), -ERR_CORRUPT);
        assert_non_null(strstr(e.msg, "0000000000000000.kv at "));
        assert_non_null(strstr(e.msg, "header"));
        assert_int_equal(w->items[2].r, -ERR_CORRUPT);
        assert_int_equal(w->items[5].r, -ERR_CORRUPT);
        assert_int_equal(w->items[9].r, -ERR_CORRUPT);
        assert_int_equal(w->items[7].r, 0);
        assert_int_equal(store_read(l, 1, 2, &e), 0);
        assert_int_equal(store_read(l, 3, 1, &e), -ERR_CORRUPT);
        assert_non_null(strstr(e.msg, "section 3"));
        spill_load_free(l);
        expect_bad(w);
}

/* The same where records come whole. */
static void test_bad_items_at_once(void **state) {
        struct world *w = *state;
        struct err e = {0};

        make_bad(w);
        assert_int_equal(spill_read_batch(w->t.s, w->items, N, &e), -ERR_NOT_FOUND);
        expect_bad(w);
}

/* The file is cut in the middle of a load: what lies before is good. */
static void test_cut_meanwhile(void **state) {
        struct world *w = *state;
        struct spill_load *l = NULL;
        struct err e;

        assert_int_equal(spill_load_new(&l, w->t.s, w->items, N, NULL), 0);
        assert_int_equal(truncate(store_path(&w->t, 0), (off_t)w->items[6].ref.offset + 500), 0);
        assert_int_equal(store_read(l, 0, N_SECTIONS, &e), -ERR_CORRUPT);
        assert_non_null(strstr(e.msg, "ends early"));
        spill_load_free(l);
        for (size_t i = 0; i < N; i++) {
                if (i >= 6 && i < 10) {
                        assert_int_equal(w->items[i].r, -ERR_CORRUPT);
                        continue;
                }
                assert_int_equal(w->items[i].r, 0);
                expect_block(w, i);
        }
}

/* A record that goes while it is loaded is missing, not damaged; a whole file that goes can still
 * be read to its end, but is missing too. */
static void test_released_meanwhile(void **state) {
        struct world *w = *state;
        struct spill_load *l = NULL;

        assert_int_equal(spill_load_new(&l, w->t.s, w->items, N, NULL), 0);
        assert_int_equal(store_read(l, 0, 1, NULL), 0);
        for (size_t i = 3; i < 5; i++)
                assert_int_equal(spill_release(w->t.s, &w->items[i].ref, NULL), 0);
        for (size_t i = 20; i < N; i++)
                assert_int_equal(spill_release(w->t.s, &w->items[i].ref, NULL), 0);
        assert_int_equal(store_file_size(&w->t, 2), -1);
        store_read(l, 1, N_SECTIONS - 1, NULL);
        spill_load_free(l);
        for (size_t i = 0; i < N; i++) {
                if (i == 3 || i == 4)
                        assert_true(w->items[i].r == -ERR_NOT_FOUND || w->items[i].r == 0);
                else if (w->items[i].r == 0)
                        expect_block(w, i);
                else
                        assert_true(i >= 20 && w->items[i].r == -ERR_NOT_FOUND);
        }
        assert_int_equal(store_stats(&w->t).n_corrupt, 0);
        assert_int_equal(store_stats(&w->t).n_files, 2);
}

/* A record of another division into sections is refused, whatever its sizes. */
static void test_another_layout(void **state) {
        struct world *w = *state;
        uint64_t other[N_SECTIONS] = {20000, 20002, 45000, RAW};
        struct err e;

        for (int pass = 0; pass < 2; pass++) {
                w->t.s = spill_free(w->t.s);
                store_divide(&w->t.options, (struct spill_layout){.section_ends = other,
                                                    .n_sections = pass == 0 ? N_SECTIONS : 1});
                if (pass == 1)
                        other[0] = RAW;
                store_open(&w->t);
                assert_int_equal(spill_adopt(w->t.s, &w->items[0].ref, NULL), 0);
                fill_item(w, 0);
                assert_int_equal(spill_read_batch(w->t.s, w->items, 1, &e), -ERR_CORRUPT);
                assert_non_null(strstr(e.msg, "section"));
        }
}

/* Arrays of each kind in each section, through the codec that knows them; and every damaged bit of
 * some is found. */
static void test_arrays(void **state) {
        static const uint64_t kv_ends[2] = {30000, RAW};
        static const struct spill_array arrays[] = {
                {SPILL_F16, 0, 0, 2, 64, 32, true},
                {SPILL_F16, 0, 8192, 2, 64, 32, false},
                {SPILL_I8, 0, 16384, 4, 32, 32, true},
                {SPILL_F32, 1, 30000, 1, 64, 32, true},
                {SPILL_F32, 1, 38192, 1, 64, 32, false},
        };
        struct world *w = *state;
        struct spill_item *items = w->items;
        struct spill_stats st;
        uint16_t v;

        w->t.s = spill_free(w->t.s);
        store_divide(&w->t.options, (struct spill_layout){arrays, ARRAY_SIZE(arrays), kv_ends, 2});
        w->t.options.codec = SPILL_CODEC_KV;
        store_start(&w->t);
        for (size_t i = 0; i < 8; i++) {
                fill(raw, RAW, FLOATS, i);
                /* Exponents and high bits that repeat. */
                for (size_t at = 0; at + 2 <= 16384; at += 2) {
                        v = (uint16_t)(0x3800 + (at * 7 + i) % 1024);
                        memcpy(raw + at, &v, 2);
                }
                fill_item(w, i);
                assert_int_equal(
                        store_write(w->t.s, 1, &items[i].meta, raw, RAW, &items[i].ref, NULL), 0);
                assert_true(items[i].ref.stored_size < 61440);
        }
        assert_int_equal(spill_read_batch(w->t.s, items, 8, NULL), 0);
        for (size_t i = 0; i < 8; i++) {
                fill(raw, RAW, FLOATS, i);
                for (size_t at = 0; at + 2 <= 16384; at += 2) {
                        v = (uint16_t)(0x3800 + (at * 7 + i) % 1024);
                        memcpy(raw + at, &v, 2);
                }
                assert_memory_equal(raw, back[i], RAW);
        }
        for (size_t at = 128; at < 4096; at += 61) {
                damage(w, 3, at);
                assert_int_equal(spill_read_batch(w->t.s, items, 8, NULL), -ERR_CORRUPT);
                assert_int_equal(items[3].r, -ERR_CORRUPT);
                assert_int_equal(items[2].r | items[4].r, 0);
                damage(w, 3, at);
        }
        st = store_stats(&w->t);
        assert_int_equal(st.n_corrupt, (4096 - 128 + 60) / 61);
        assert_int_equal(spill_read_batch(w->t.s, items, 8, NULL), 0);
}

/* Payloads that no encoder made, under right checksums. */
static void forge(struct world *w, size_t i) {
        int fd = open(store_path(&w->t, w->items[i].ref.file_key), O_RDWR);
        off_t place = (off_t)w->items[i].ref.offset;
        struct spill_section sections[N_SECTIONS];
        static uint8_t bytes[RAW];
        uint8_t header[HEADER];
        struct spill_record rec;
        size_t n_forged = 0;

        assert_true(fd >= 0);
        assert_int_equal(pread(fd, header, HEADER, place), HEADER);
        assert_int_equal(spill_record_parse(header, HEADER, sections, N_SECTIONS, &rec, NULL), 0);
        memset(bytes, 0xff, sizeof(bytes));
        for (size_t k = 0; k < N_SECTIONS; k++) {
                struct spill_section *sec = &sections[k];

                if (sec->codec == SPILL_CODEC_RAW)
                        continue;
                assert_int_equal(
                        pwrite(fd, bytes, sec->stored_size, place + sec->offset), sec->stored_size);
                sec->hash = spill_checksum(bytes, sec->stored_size);
                n_forged++;
        }
        assert_true(n_forged > 1);
        spill_record_format(&rec, header);
        assert_int_equal(pwrite(fd, header, HEADER, place), HEADER);
        close(fd);
}

/* A record is damaged once, however many of its sections do not decode. */
static void test_undecodable(void **state) {
        struct world *w = *state;
        struct err e = {0};

        forge(w, 2);
        assert_int_equal(spill_read_batch(w->t.s, w->items, N, &e), -ERR_CORRUPT);
        assert_non_null(strstr(e.msg, "does not decode"));
        for (size_t i = 0; i < N; i++)
                assert_int_equal(w->items[i].r, i == 2 ? -ERR_CORRUPT : 0);
        assert_int_equal(store_stats(&w->t).n_corrupt, 1);
        assert_int_equal(store_stats(&w->t).n_reads, N - 1);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
        int n_failed = 0;
        const struct CMUnitTest tests[] = {
                T(test_layouts),
                T(test_choice),
                T(test_batch),
                T(test_any_order),
                T(test_section_by_section),
                T(test_sections_in_any_order),
                T(test_bad_items),
                T(test_bad_items_at_once),
                T(test_cut_meanwhile),
                T(test_released_meanwhile),
                T(test_another_layout),
                T(test_arrays),
                T(test_undecodable),
        };

        for (way = CACHED; way <= THROUGH; way++)
                n_failed += cmocka_run_group_tests(tests, NULL, NULL);
        return n_failed;
}
