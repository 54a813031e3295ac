/* SPDX-License-Identifier: MIT */
#include "class-rig.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "spill/spill.h"
#include "store/store.h"
#include "util/test.h"

/* --- talking --- */

struct class_text class_text(size_t n, int32_t salt) {
        struct class_text t = {.n = n};

        assert_true(n <= CLASS_MOST);
        for (int32_t i = 0; i < (int32_t)n; i++)
                t.tokens[i] = 8 + (i * (7 + 2 * salt) + i / 5 + 31 * salt) % 250;
        return t;
}

struct class_text class_join(const struct class_text *a, size_t n, const struct class_text *b) {
        struct class_text t = {.n = n + b->n};

        assert_true(n <= a->n && t.n <= CLASS_MOST);
        memcpy(t.tokens, a->tokens, n * sizeof(t.tokens[0]));
        memcpy(t.tokens + n, b->tokens, b->n * sizeof(t.tokens[0]));
        return t;
}

struct engine_request class_request(uint64_t c, const struct class_text *t) {
        return (struct engine_request){.verb = ENGINE_CONTINUE,
                .conv_id = c,
                .input = ENGINE_INPUT_TOKENS,
                .tokens = t->tokens,
                .n_tokens = t->n,
                .max_tokens = CLASS_REPLY,
                .want_logprobs = true,
                .ignore_eos = true,
                .sampling = {.has = SAMPLING_TEMPERATURE | SAMPLING_SEED, .seed = 1}};
}

static void do_it(struct erig *r, struct engine_request *q, struct answer *a) {
        if (erig_do(r, q, a) != ENGINE_DONE)
                fail_msg("%s: %s", r->o.model_path, a->err.msg);
        assert_int_equal(a->n_tokens, CLASS_REPLY);
}

uint64_t class_new(struct erig *r, const struct class_text *head) {
        uint64_t c = erig_new(r, NULL, NULL);
        struct engine_request q = class_request(c, head);

        q.max_tokens = 0;
        assert_int_equal(erig_do(r, &q, NULL), ENGINE_DONE);
        return c;
}

void class_say(struct erig *r, uint64_t c, const struct class_text *t, struct answer *a) {
        struct engine_request q = class_request(c, t);

        do_it(r, &q, a);
}

void class_regenerate(struct erig *r, uint64_t c, struct answer *a) {
        static const struct class_text none;
        struct engine_request q = class_request(c, &none);
        static struct answer got;

        erig_get(r, c, &got);
        q.input = ENGINE_INPUT_NONE;
        q.cuts = true;
        q.at_turn = got.n_turns - 1;
        q.at_position = ENGINE_UNSET;
        answer_reset(&got);
        do_it(r, &q, a);
}

void class_evict(struct erig *r, uint64_t c) {
        assert_int_equal(erig_simple(r, ENGINE_EVICT, c, NULL), ENGINE_CONV);
}

/* --- on disk --- */

void class_check_written(struct erig *r, uint64_t c) {
        const struct class_text last = class_text(5, 9);
        static struct answer got;
        uint32_t end;

        erig_get(r, c, &got);
        end = got.conv.n_tokens - 1;
        answer_reset(&got);
        erig_restart(r, true);
        class_say(r, c, &last, &got);
        if (got.n_disk != end)
                fail_msg("%s: %u of %u from disk", r->o.model_path, got.n_disk, end);
        assert_int_equal(erig_stat(r, "restore_failures"), 0);
        erig_check_register(r);
        answer_reset(&got);
}

void class_check_links(struct erig *r, uint64_t c, enum seq_class class, const char *cells) {
        struct store_gone links;
        char text[512] = "";

        assert_int_equal(erig_simple(r, ENGINE_WARM, c, NULL), ENGINE_CONV);
        links = kind_read_links(r, c);
        for (size_t i = 0; i < links.n; i++) {
                size_t n = strlen(text);

                if (links.records[i].block_class == (uint32_t) class)
                        snprintf(text + n, sizeof(text) - n, "%s%u", n > 0 ? " " : "",
                                links.records[i].index);
        }
        store_gone_deinit(&links);
        assert_string_equal(text, cells);
}

void class_unlink(
        const struct erig *r, uint64_t c, enum seq_class class, uint32_t first, size_t n) {
        struct store *s = NULL;
        char path[128];

        snprintf(path, sizeof(path), "%s/register.db", r->dir);
        assert_int_equal(store_open(&s, path, NULL), 0);
        for (uint32_t i = first; i < first + n; i++) {
                const struct store_cell cell = {.block_class = (uint32_t) class, .index = i};
                struct store_gone gone = {0};

                assert_int_equal(store_unlink_cells(s, c, &cell, 1, &gone, NULL), 0);
                store_gone_deinit(&gone);
        }
        store_free(s);
}

static struct store_record find_record(
        const struct erig *r, uint64_t c, enum seq_class class, uint32_t index) {
        struct store_gone links = kind_read_links(r, c);
        struct store_record found = {0};

        for (size_t i = 0; i < links.n; i++)
                if (links.records[i].block_class == (uint32_t) class &&
                        links.records[i].index == index)
                        found = links.records[i];
        store_gone_deinit(&links);
        if (found.id == 0)
                fail_msg("no record of cell %u of class %d", index, (int)class);
        return found;
}

static int open_spill(const struct erig *r, const struct store_record *rec) {
        char path[128];
        int fd;

        snprintf(path, sizeof(path), "%s/spill/%016llx.kv", r->dir,
                (unsigned long long)rec->file_key);
        fd = open(path, O_RDWR);
        assert_true(fd >= 0);
        return fd;
}

static uint64_t load_le(const uint8_t *p, size_t n) {
        return n == 0 ? 0 : p[0] | load_le(p + 1, n - 1) << 8;
}

/* docs/spill.md: what stands before the payloads, and their size. */
struct header {
        uint8_t data[64 + 24 * SPILL_MAX_SECTIONS + 72];
        size_t n_sections, size;
        uint64_t payload_size;
};

static struct header read_header(int fd, const struct store_record *rec) {
        struct header h = {0};

        assert_true(pread(fd, h.data, sizeof(h.data), (off_t)rec->offset) > 64);
        assert_memory_equal(h.data, "cKVr", 4);
        h.n_sections = load_le(h.data + 6, 2);
        assert_in_range(h.n_sections, 1, SPILL_MAX_SECTIONS);
        h.size = (64 + 24 * h.n_sections + 8 + 63) / 64 * 64;
        h.payload_size = load_le(h.data + 56, 8);
        return h;
}

void class_damage(const struct erig *r, uint64_t c, enum seq_class class, uint32_t index) {
        struct store_record rec = find_record(r, c, class, index);
        int fd = open_spill(r, &rec);
        struct header header = read_header(fd, &rec);
        off_t at = (off_t)(rec.offset + header.size + header.payload_size) - 8;
        uint8_t byte;

        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte ^= 0x10;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        close(fd);
}

size_t class_sections(const struct erig *r, uint64_t c, enum seq_class class, uint32_t index,
        uint32_t *sizes, size_t max) {
        struct store_record rec = find_record(r, c, class, index);
        int fd = open_spill(r, &rec);
        struct header header = read_header(fd, &rec);

        close(fd);
        assert_true(header.n_sections <= max);
        for (size_t i = 0; i < header.n_sections; i++)
                sizes[i] = (uint32_t)load_le(header.data + 64 + 24 * i, 4);
        return header.n_sections;
}
