/* SPDX-License-Identifier: MIT */
/* The export file's format by itself: it reads what it writes, and refuses impossible files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "engine/verbs/transfer-format.h"
#include "util/test.h"

#define N_VOCAB 100

static const struct store_turn turns[] = {
        {.role = 0, .start = 0, .end = 3, .text = "Be\0nice", .text_size = 7, .created_usec = 1},
        {.role = 1, .start = 3, .end = 4, .text = "", .text_size = 0, .created_usec = 2},
        {.role = 2, .start = 4, .end = 9, .finish = 1, .text = "\xff\xfe", .text_size = 2},
        {.role = 3, .start = 9, .end = 64, .finish = 5, .text = "x", .text_size = 1},
};
static int32_t tokens[64];

static struct xfer_header make(struct buf *out) {
        struct xfer_header h = {.is_private = true,
                .model = {0x1122334455667788, 0x99aabbccddeeff00},
                .vocab = 77,
                .n_tokens = 64,
                .n_turns = 4,
                .shape = {.block_tokens = 32, .size = {128}},
                .n_memory_tokens = 64,
                .name_size = 4,
                .texts_size = 10,
                .created_usec = 123456789,
                .sampling = {.has = SAMPLING_TEMPERATURE | SAMPLING_SEED | SAMPLING_BIASES,
                        .temperature = 0.5f,
                        .seed = 9,
                        .n_biases = 1,
                        .biases = {{3, -2.0f}}}};
        static const uint8_t key[XFER_KEY_SIZE] = {1, 2, 3, 4};
        static struct xfer_sum sum;
        uint8_t header[XFER_HEADER_SIZE], block[128 + 8], trailer[XFER_TRAILER_SIZE];
        struct transcript all = {.memory = tokens};

        for (int i = 0; i < 64; i++)
                tokens[i] = i + 1;
        xfer_header_format(&h, header);
        assert_int_equal(buf_append(out, header, sizeof(header)), 0);
        assert_int_equal(xfer_transcript_format(out, &h, "name", NULL, NULL, turns, &all, NULL), 0);
        for (int i = 0; i < 2; i++) {
                memset(block, i + 1, sizeof(block));
                assert_int_equal(buf_append(out, block, sizeof(block)), 0);
        }
        xfer_sum_init(&sum, key);
        xfer_sum_update(&sum, out->data, out->size);
        xfer_sum_final(&sum, trailer);
        assert_int_equal(buf_append(out, trailer, sizeof(trailer)), 0);
        return h;
}

static void test_round_trip(void **state) {
        struct buf file = BUF_NULL;
        struct xfer_header h = make(&file), got;
        struct xfer_transcript t;
        const char *dump = getenv("XFER_DUMP"); /* for the fuzz corpus */
        size_t n = (size_t)xfer_transcript_size(&h) + 8;

        if (dump)
                assert_int_equal(file_replace(dump, file.data, file.size, 0644, NULL), 0);
        assert_int_equal(file.size, xfer_file_size(&h));
        assert_int_equal(xfer_header_parse(file.data, file.size, file.size, &got, NULL), 0);
        assert_true(got.is_private);
        assert_true(fingerprint_equal(&got.model, &h.model));
        assert_int_equal(got.vocab, h.vocab);
        assert_int_equal(got.created_usec, h.created_usec);
        assert_int_equal(
                xfer_transcript_parse(&got, file.data + XFER_HEADER_SIZE, n, N_VOCAB, &t, NULL), 0);
        assert_string_equal(t.name, "name");
        assert_memory_equal(&t.sampling, &h.sampling, sizeof(t.sampling));
        assert_memory_equal(t.tokens, tokens, sizeof(tokens));
        for (size_t i = 0; i < 4; i++) {
                assert_int_equal(t.turns[i].role, turns[i].role);
                assert_int_equal(t.turns[i].end, turns[i].end);
                assert_int_equal(t.turns[i].finish, turns[i].finish);
                assert_int_equal(t.turns[i].text_size, turns[i].text_size);
                assert_memory_equal(t.turns[i].text, turns[i].text, turns[i].text_size);
        }
        xfer_transcript_deinit(&t);
        /* A smaller vocabulary does not know them. */
        assert_int_equal(xfer_transcript_parse(&got, file.data + XFER_HEADER_SIZE, n, 64, &t, NULL),
                -ERR_FORMAT);
        buf_deinit(&file);
}

static void put(uint8_t *p, uint64_t v, size_t n) {
        for (size_t i = 0; i < n; i++)
                p[i] = (uint8_t)(v >> (8 * i));
}

static int parse(struct buf *file, uint64_t file_size) {
        struct xfer_header h;
        struct err e;
        int r;

        put(file->data + 248, hash64(file->data, 248, 0), 8);
        r = xfer_header_parse(file->data, file->size, file_size, &h, &e);
        if (r < 0)
                assert_true(e.msg[0] != '\0');
        return r;
}

/* A gap makes a file of version 3; without one, version 2 is written, as ever. */
static void test_gap(void **state) {
        static const struct gap impossible[] = {{9, 3}, {3, 65}, {0, 33}};
        struct buf file = BUF_NULL;
        struct xfer_header h = make(&file), got;
        struct transcript all = {tokens, tokens + 3, {3, 9}};
        int32_t memory[58];
        struct err e;

        assert_int_equal(file.data[4], 2);
        /* The bytes of a transcript do not depend on how its tokens lie in RAM. */
        memcpy(memory, tokens, 3 * sizeof(*tokens));
        memcpy(memory + 3, tokens + 9, 55 * sizeof(*tokens));
        all.memory = memory;
        file.size = 0;
        assert_int_equal(
                xfer_transcript_format(&file, &h, "name", NULL, NULL, turns, &all, NULL), 0);
        {
                struct buf plain = BUF_NULL;

                make(&plain);
                assert_memory_equal(file.data, plain.data + XFER_HEADER_SIZE, file.size);
                buf_deinit(&plain);
        }
        h.n_memory_tokens = 32;
        h.gap = (struct gap){3, 9};
        h.overflow = 1;
        xfer_header_format(&h, file.data);
        assert_int_equal(file.data[4], 3);
        file.size = XFER_HEADER_SIZE;
        assert_int_equal(xfer_header_parse(file.data, file.size, xfer_file_size(&h), &got, &e), 0);
        assert_true(gap_equal(&got.gap, &h.gap));
        assert_int_equal(got.overflow, 1);
        for (size_t i = 0; i < sizeof(impossible) / sizeof(impossible[0]); i++) {
                put(file.data + 132, impossible[i].from, 4);
                put(file.data + 136, impossible[i].to, 4);
                assert_int_equal(parse(&file, xfer_file_size(&h)), -ERR_FORMAT);
        }
        put(file.data + 132, 3, 4);
        put(file.data + 136, 9, 4);
        put(file.data + 140, 2, 4);
        assert_int_equal(parse(&file, xfer_file_size(&h)), -ERR_FORMAT);
        put(file.data + 140, 0, 4);
        assert_int_equal(parse(&file, xfer_file_size(&h)), 0);
        /* In a file of version 2 these are zeros. */
        file.data[4] = 2;
        assert_int_equal(parse(&file, xfer_file_size(&h)), -ERR_FORMAT);
        buf_deinit(&file);
}

/* Tools make a file of version 4: definitions, turns of tools, and what was given with a message. */
static void test_tools(void **state) {
        static const char defs[] = "[{\"name\":\"f\"}]", given[] = "{\"calls\":[]}";
        struct store_turn with[4];
        struct transcript all = {.memory = tokens};
        struct buf file = BUF_NULL;
        struct xfer_header h = make(&file), got;
        struct xfer_transcript t;
        uint8_t header[XFER_HEADER_SIZE];
        size_t n, turn_0 = XFER_HEADER_SIZE + 4 + 8;

        memcpy(with, turns, sizeof(with));
        with[1].role = 4;
        with[1].extra = "";
        with[2].extra = given;
        with[2].extra_size = sizeof(given) - 1;
        h.with_tools = true;
        h.tools_size = sizeof(defs) - 1;
        h.texts_size += h.tools_size + with[2].extra_size;
        h.n_memory_tokens = 0;
        file.size = 0;
        xfer_header_format(&h, header);
        assert_int_equal(header[4], 4);
        assert_int_equal(buf_append(&file, header, sizeof(header)), 0);
        assert_int_equal(
                xfer_transcript_format(&file, &h, "name", defs, NULL, with, &all, NULL), 0);
        n = (size_t)xfer_transcript_size(&h) + 8;
        assert_int_equal(file.size, XFER_HEADER_SIZE + n);
        assert_int_equal(
                xfer_header_parse(file.data, file.size, xfer_file_size(&h), &got, NULL), 0);
        assert_true(got.with_tools);
        assert_int_equal(
                xfer_transcript_parse(&got, file.data + XFER_HEADER_SIZE, n, N_VOCAB, &t, NULL), 0);
        assert_string_equal(t.tools, defs);
        assert_null(t.turns[0].extra);
        assert_int_equal(t.turns[1].role, 4);
        assert_non_null(t.turns[1].extra);
        assert_int_equal(t.turns[1].extra_size, 0);
        assert_int_equal(t.turns[2].extra_size, sizeof(given) - 1);
        assert_memory_equal(t.turns[2].extra, given, sizeof(given) - 1);
        assert_memory_equal(t.turns[2].text, turns[2].text, turns[2].text_size);
        xfer_transcript_deinit(&t);
        /* An extra beyond the file; one that is no text; a turn of tools with a reason to end. */
        for (size_t i = 0; i < 3; i++) {
                size_t at = i == 0   ? turn_0 + 2 * 40 + 32
                            : i == 1 ? file.size - 8 - 3
                                     : turn_0 + 40 + 12;
                uint8_t old = file.data[at];

                file.data[at] = i == 0 ? 99 : i == 1 ? 0xff : 1;
                put(file.data + file.size - 8, hash64(file.data + XFER_HEADER_SIZE, n - 8, 0), 8);
                assert_int_equal(xfer_transcript_parse(
                                         &got, file.data + XFER_HEADER_SIZE, n, N_VOCAB, &t, NULL),
                        -ERR_FORMAT);
                file.data[at] = old;
        }
        put(file.data + 144, h.texts_size + 1, 4);
        assert_int_equal(parse(&file, xfer_file_size(&h)), -ERR_FORMAT);
        buf_deinit(&file);
}

/* Memory of other classes than SEQ_ALL makes a file of version 5. Its cells are what the position needs:
 * @n of a class from @first on. */
static void expect_cells(const struct xfer_header *h, uint32_t *at, enum seq_class c,
        uint32_t first, uint32_t n, uint32_t last_tokens) {
        for (uint32_t i = 0; i < n; i++) {
                struct xfer_cell cell = xfer_cell(h, (*at)++);

                assert_int_equal(cell.class, c);
                assert_int_equal(cell.index, first + i);
                assert_int_equal(
                        cell.n_tokens, i + 1 < n ? seq_cell_tokens(&h->shape, c) : last_tokens);
        }
}

static void test_classes(void **state) {
        static const struct {
                struct seq_shape shape;
                uint32_t n, all, window, window_first, state;
                uint32_t last; /* tokens of the last cell of attention */
        } cases[] = {
                {{.block_tokens = 32, .size = {128, 64, 192}, .window = 5}, 40, 2, 1, 1, 1, 8},
                {{.block_tokens = 32, .size = {128, 64, 192}, .window = 10}, 40, 2, 2, 0, 1, 8},
                {{.block_tokens = 16, .size = {0, 64, 0}, .window = 20}, 64, 0, 2, 2, 0, 16},
                {{.block_tokens = 16, .size = {64, 64, 0}, .chunk = 32}, 64, 4, 0, 0, 0, 16},
                {{.block_tokens = 16, .size = {64, 64, 0}, .chunk = 24}, 50, 4, 1, 3, 0, 2},
                {{.block_tokens = 32, .size = {0, 0, 192}}, 1, 0, 0, 0, 1, 0},
                {{.block_tokens = 32, .size = {64, 0, 192}}, 0, 0, 0, 0, 0, 0},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct buf file = BUF_NULL;
                struct xfer_header h = make(&file), got;
                uint64_t plain;
                uint32_t at = 0;
                struct err e;

                h.shape.size[SEQ_ALL] = 1;
                h.n_memory_tokens = 0;
                h.with_tools = true;
                plain = xfer_file_size(&h);
                h.shape = cases[i].shape;
                h.n_memory_tokens = cases[i].n;
                assert_int_equal(xfer_n_cells(&h), cases[i].all + cases[i].window + cases[i].state);
                expect_cells(&h, &at, SEQ_ALL, 0, cases[i].all, cases[i].last);
                expect_cells(
                        &h, &at, SEQ_WINDOW, cases[i].window_first, cases[i].window, cases[i].last);
                expect_cells(&h, &at, SEQ_STATE, cases[i].n - 1, cases[i].state, 1);
                assert_int_equal(xfer_file_size(&h) - plain,
                        cases[i].all * (h.shape.size[SEQ_ALL] + 8) +
                                cases[i].window * (h.shape.size[SEQ_WINDOW] + 8) +
                                cases[i].state * (h.shape.size[SEQ_STATE] + 8));
                xfer_header_format(&h, file.data);
                assert_int_equal(file.data[4], 5);
                if (xfer_header_parse(file.data, file.size, xfer_file_size(&h), &got, &e) < 0)
                        fail_msg("case %zu: %s", i, e.msg);
                assert_memory_equal(&got.shape, &h.shape, sizeof(h.shape));
                assert_int_equal(got.n_memory_tokens, cases[i].n);
                assert_true(got.with_tools);
                buf_deinit(&file);
        }
}

static void test_hostile_classes(void **state) {
        static const struct {
                size_t at, n;
        } fields[] = {{52, 4}, {56, 8}, {148, 4}, {152, 4}, {156, 4}, {160, 8}, {168, 8}};
        static const uint64_t values[] = {0, 1, 65, 0x7fffffff, 0xffffffff, (uint64_t)1 << 31,
                (uint64_t)1 << 40, (uint64_t)1 << 63, UINT64_MAX, UINT64_MAX - 7};
        struct transcript all = {.memory = tokens};
        const char *dump = getenv("XFER_DUMP_CLASSES");
        struct buf file = BUF_NULL;
        struct xfer_header h = make(&file);
        struct xfer_transcript t;
        uint64_t size;

        h.with_tools = true;
        h.shape = (struct seq_shape){.block_tokens = 32, .size = {128, 64, 192}, .window = 30};
        h.n_memory_tokens = 40;
        size = xfer_file_size(&h);
        /* A whole file, for the fuzz corpus too. */
        file.size = XFER_HEADER_SIZE;
        xfer_header_format(&h, file.data);
        assert_int_equal(
                xfer_transcript_format(&file, &h, "name", NULL, NULL, turns, &all, NULL), 0);
        assert_int_equal(xfer_transcript_parse(&h, file.data + XFER_HEADER_SIZE,
                                 file.size - XFER_HEADER_SIZE, N_VOCAB, &t, NULL),
                0);
        assert_memory_equal(t.tokens, tokens, sizeof(tokens));
        xfer_transcript_deinit(&t);
        while (file.size < size)
                assert_int_equal(buf_append(&file, "", 1), 0);
        if (dump)
                assert_int_equal(file_replace(dump, file.data, file.size, 0644, NULL), 0);
        assert_int_equal(parse(&file, file.size), 0);
        for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
                for (size_t k = 0; k < sizeof(values) / sizeof(values[0]); k++) {
                        uint8_t old[8];

                        memcpy(old, file.data + fields[i].at, 8);
                        put(file.data + fields[i].at, values[k], fields[i].n);
                        /* A wider window needs just the same here. */
                        if (memcmp(old, file.data + fields[i].at, 8) != 0 &&
                                (fields[i].at != 152 || values[k] == 0 || (uint32_t)values[k] == 1))
                                assert_true(parse(&file, size) < 0);
                        memcpy(file.data + fields[i].at, old, 8);
                }
        /* Classes in an older version, and none in the new one. */
        file.data[4] = 4;
        assert_int_equal(parse(&file, size), -ERR_FORMAT);
        file.data[4] = 5;
        put(file.data + 152, 0, 8);
        put(file.data + 160, 0, 8);
        put(file.data + 168, 0, 8);
        put(file.data + 52, 2, 4);
        put(file.data + 8, size - 2 * (64 + 8) - (192 + 8), 8);
        assert_int_equal(parse(&file, size - 2 * (64 + 8) - (192 + 8)), -ERR_FORMAT);
        file.data[176] = 1;
        assert_int_equal(parse(&file, size), -ERR_FORMAT);
        buf_deinit(&file);
}

/* What is noted makes a file of version 6, with memory of any classes, or none. */
static void test_noted(void **state) {
        static const char *const tags[] = {"a", "\xc3\xa9"};
        static const struct about about = {
                .has = ABOUT_TITLE | ABOUT_TAGS | ABOUT_METADATA | ABOUT_SESSION,
                .title = "T",
                .tags = tags,
                .n_tags = 2,
                .metadata = "{}",
                .session = "not told"};
        /* Places behind the texts of turns, and what is impossible there. */
        static const struct {
                size_t at;
                uint8_t value;
        } bad[] = {{0, 0}, {0, 2}, {1, 2}, {4, 1}, {8, 3}, {8, 33}, {12, 0}, {20, 0}, {20, 0x1f},
                {21, '['}, {23, 0xff}, {24, 'a'}};
        struct transcript all = {.memory = tokens};
        const char *dump = getenv("XFER_DUMP_NOTED");
        struct buf file = BUF_NULL;
        struct xfer_header h = make(&file), got;
        struct xfer_transcript t;
        uint8_t *noted;
        uint64_t size;
        size_t n;

        assert_int_equal(xfer_noted_size(NULL), 0);
        assert_int_equal(xfer_noted_size(&(struct about){.has = ABOUT_SESSION, .session = "x"}), 0);
        h.with_tools = true;
        h.noted_size = xfer_noted_size(&about);
        assert_int_equal(h.noted_size, 12 + 8 + 1 + 2 + 3);
        h.texts_size += h.noted_size;
        h.n_memory_tokens = 0;
        size = xfer_file_size(&h);
        n = (size_t)xfer_transcript_size(&h) + 8;
        file.size = XFER_HEADER_SIZE;
        xfer_header_format(&h, file.data);
        assert_int_equal(file.data[4], 6);
        assert_int_equal(
                xfer_transcript_format(&file, &h, "name", NULL, &about, turns, &all, NULL), 0);
        assert_int_equal(file.size, XFER_HEADER_SIZE + n);
        while (file.size < size)
                assert_int_equal(buf_append(&file, "", 1), 0);
        if (dump)
                assert_int_equal(file_replace(dump, file.data, file.size, 0644, NULL), 0);
        assert_int_equal(xfer_header_parse(file.data, file.size, size, &got, NULL), 0);
        assert_int_equal(got.noted_size, h.noted_size);
        assert_int_equal(
                xfer_transcript_parse(&got, file.data + XFER_HEADER_SIZE, n, N_VOCAB, &t, NULL), 0);
        assert_int_equal(t.about->has, ABOUT_TITLE | ABOUT_TAGS | ABOUT_METADATA);
        assert_string_equal(t.about->title, "T");
        assert_string_equal(t.about->metadata, "{}");
        assert_string_equal(t.about->session, "");
        assert_int_equal(t.about->n_tags, 2);
        assert_string_equal(t.about->tags[1], tags[1]);
        xfer_transcript_deinit(&t);
        noted = file.data + XFER_HEADER_SIZE + n - 8 - h.noted_size;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                uint8_t old = noted[bad[i].at];

                noted[bad[i].at] = bad[i].value;
                put(file.data + XFER_HEADER_SIZE + n - 8,
                        hash64(file.data + XFER_HEADER_SIZE, n - 8, 0), 8);
                if (xfer_transcript_parse(&got, file.data + XFER_HEADER_SIZE, n, N_VOCAB, &t,
                            NULL) != -ERR_FORMAT)
                        fail_msg("case %zu", i);
                noted[bad[i].at] = old;
        }
        /* More than the texts; a block of attention alone that is not full; in an older version. */
        put(file.data + 176, h.texts_size + 1, 4);
        assert_int_equal(parse(&file, size), -ERR_FORMAT);
        put(file.data + 176, h.noted_size, 4);
        put(file.data + 148, 33, 4);
        put(file.data + 52, 2, 4);
        put(file.data + 8, size + 2 * 136, 8);
        assert_int_equal(parse(&file, size + 2 * 136), -ERR_FORMAT);
        put(file.data + 148, 64, 4);
        assert_int_equal(parse(&file, size + 2 * 136), 0);
        file.data[4] = 5;
        assert_int_equal(parse(&file, size + 2 * 136), -ERR_FORMAT);
        /* With classes of memory. */
        h.shape = (struct seq_shape){.block_tokens = 32, .size = {128, 64, 192}, .window = 30};
        h.n_memory_tokens = 40;
        xfer_header_format(&h, file.data);
        assert_int_equal(file.data[4], 6);
        assert_int_equal(
                xfer_header_parse(file.data, file.size, xfer_file_size(&h), &got, NULL), 0);
        assert_memory_equal(&got.shape, &h.shape, sizeof(h.shape));
        buf_deinit(&file);
}

/* Lengths that no file has, under a checksum that fits. */
static void test_hostile_header(void **state) {
        static const struct {
                size_t at, n;
        } fields[] = {{8, 8}, {40, 4}, {44, 4}, {48, 4}, {52, 4}, {56, 8}, {64, 4}, {68, 4},
                {72, 8}, {80, 8}};
        static const uint64_t values[] = {0, 1, 2, 0x7fffffff, 0x80000000, 0xffffffff,
                (uint64_t)1 << 40, INT64_MAX, (uint64_t)1 << 63, UINT64_MAX, UINT64_MAX - 7};
        struct buf file = BUF_NULL;

        make(&file);
        assert_int_equal(parse(&file, file.size), 0);
        for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
                for (size_t k = 0; k < sizeof(values) / sizeof(values[0]); k++) {
                        uint8_t old[8];

                        memcpy(old, file.data + fields[i].at, 8);
                        put(file.data + fields[i].at, values[k], fields[i].n);
                        /* Smaller blocks and another time are possible. */
                        if (memcmp(old, file.data + fields[i].at, 8) != 0 && fields[i].at != 80 &&
                                (fields[i].at != 48 || values[k] - 1 >= 32))
                                assert_true(parse(&file, file.size) < 0);
                        memcpy(file.data + fields[i].at, old, 8);
                }
        put(file.data + 80, UINT64_MAX, 8);
        assert_int_equal(parse(&file, file.size), -ERR_FORMAT);
        put(file.data + 80, 1, 8);
        assert_int_equal(parse(&file, file.size), 0);
        assert_int_equal(parse(&file, file.size + 1), -ERR_CORRUPT);
        file.data[6] = 2;
        assert_int_equal(parse(&file, file.size), -ERR_FORMAT);
        file.data[6] = 0;
        file.data[200] = 1;
        assert_int_equal(parse(&file, file.size), -ERR_FORMAT);
        file.data[200] = 0;
        file.data[4] = XFER_VERSION + 1;
        assert_int_equal(parse(&file, file.size), -ERR_UNSUPPORTED);
        file.data[4] = 0;
        assert_int_equal(parse(&file, file.size), -ERR_FORMAT);
        buf_deinit(&file);
}

/* Turns that do not join, roles that are none, texts that are too long. */
static void test_hostile_turns(void **state) {
        static const struct {
                size_t turn, at;
                uint32_t value;
        } bad[] = {{0, 0, 4}, {0, 4, 1}, {0, 8, 0}, {0, 8, 4}, {0, 12, 1}, {1, 4, 2}, {1, 8, 3},
                {1, 8, 65}, {2, 12, 6}, {3, 8, 63}, {3, 8, 65}, {3, 16, 2}, {3, 20, 1},
                {0, 16, 0xffffffff}, {0, 28, 0x80000000}};
        struct buf file = BUF_NULL;
        struct xfer_header h = make(&file);
        struct xfer_transcript t;
        size_t size = (size_t)xfer_transcript_size(&h);
        uint8_t *p = file.data + XFER_HEADER_SIZE;

        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                uint8_t *field = p + 4 + 8 + bad[i].turn * 32 + bad[i].at, old[4];

                memcpy(old, field, 4);
                put(field, bad[i].value, 4);
                put(p + size, hash64(p, size, 0), 8);
                assert_int_equal(
                        xfer_transcript_parse(&h, p, size + 8, N_VOCAB, &t, NULL), -ERR_FORMAT);
                memcpy(field, old, 4);
        }
        put(p + size, hash64(p, size, 0), 8);
        assert_int_equal(xfer_transcript_parse(&h, p, size + 7, N_VOCAB, &t, NULL), -ERR_FORMAT);
        assert_int_equal(xfer_transcript_parse(&h, p, size + 8, N_VOCAB, &t, NULL), 0);
        xfer_transcript_deinit(&t);
        p[5] ^= 1;
        assert_int_equal(xfer_transcript_parse(&h, p, size + 8, N_VOCAB, &t, NULL), -ERR_CORRUPT);
        buf_deinit(&file);
}

/* The sums do not depend on how the bytes come, and do on each of them and on the key. */
static void test_sum(void **state) {
        enum { CHUNK = 64 << 10 };
        static uint8_t data[3 * CHUNK + 17];
        static const size_t sizes[] = {
                0, 1, CHUNK - 8, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, sizeof(data)};
        static struct xfer_sum a, b;
        uint8_t key[XFER_KEY_SIZE] = {1, 2, 3, 4};
        uint8_t x[XFER_TRAILER_SIZE], y[XFER_TRAILER_SIZE];
        bool ours;

        for (size_t i = 0; i < sizeof(data); i++)
                data[i] = (uint8_t)(i * 7 + i / 251);
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                xfer_sum_init(&a, key);
                xfer_sum_update(&a, data, sizes[i]);
                xfer_sum_final(&a, x);
                xfer_sum_init(&b, key);
                for (size_t at = 0, n = 1; at < sizes[i]; at += n, n = n * 3 + 1) {
                        if (n > sizes[i] - at)
                                n = sizes[i] - at;
                        xfer_sum_update(&b, data + at, n);
                }
                xfer_sum_final(&b, y);
                assert_memory_equal(x, y, sizeof(x));
                assert_int_equal(xfer_trailer_check(x, y, &ours, NULL), 0);
                assert_true(ours);
                y[9] ^= 1;
                assert_int_equal(xfer_trailer_check(x, y, &ours, NULL), 0);
                assert_false(ours);
                y[0] ^= 1;
                assert_int_equal(xfer_trailer_check(x, y, &ours, NULL), -ERR_CORRUPT);
                for (int k = 0; k < XFER_KEY_SIZE; k += 5) {
                        key[k] ^= 1;
                        xfer_sum_init(&b, key);
                        xfer_sum_update(&b, data, sizes[i]);
                        xfer_sum_final(&b, y);
                        key[k] ^= 1;
                        assert_int_equal(xfer_trailer_check(x, y, &ours, NULL), 0);
                        assert_false(ours);
                }
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_round_trip),
                cmocka_unit_test(test_gap),
                cmocka_unit_test(test_tools),
                cmocka_unit_test(test_classes),
                cmocka_unit_test(test_hostile_classes),
                cmocka_unit_test(test_noted),
                cmocka_unit_test(test_hostile_header),
                cmocka_unit_test(test_hostile_turns),
                cmocka_unit_test(test_sum),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
