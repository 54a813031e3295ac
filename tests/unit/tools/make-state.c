/* SPDX-License-Identifier: MIT */
/*
 * Makes a model and the state folder of a daemon that ran it: two conversations with memory on
 * disk, a fork that shares some of it, and an empty conversation. For tests of programs that
 * inspect such a folder.
 *
 * usage: make-state STATE MODEL KV [crash] [forge]
 *   crash  ends without closing: the register's content is in its log
 *   forge  flips one bit of one block before the block is written, so all checksums are right
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/util.h"
#include "seq/seq.h"
#include "spill/spill.h"
#include "store/store.h"
#include "util/model-rig.h"
#include "util/test.h"

#define MAX_TOKENS 160

static struct rig rig;
static struct store *store;
static struct spill *spill;
static struct err e;

static void must(int r) {
        if (r != 0) {
                fprintf(stderr, "make-state: %s\n", e.msg);
                exit(1);
        }
}

static enum spill_element element(enum model_kv_element x) {
        return x == MODEL_KV_F16 ? SPILL_F16 : x == MODEL_KV_F32 ? SPILL_F32 : SPILL_I8;
}

/* One class's blocks, a section per layer. */
struct layout {
        struct spill_array arrays[64];
        uint64_t ends[64];
        struct spill_layout l;
};

static void make_layout(struct layout *ret, enum seq_class c) {
        const struct model_kv_array *a;
        size_t n = model_kv_arrays(rig.model, c, &a);

        *ret = (struct layout){.l = {.n_arrays = n}};
        assert_true(n <= 64);
        for (size_t i = 0; i < n; i++) {
                if (i > 0 && a[i].layer != a[i - 1].layer)
                        ret->ends[ret->l.n_sections++] = a[i].offset;
                ret->arrays[i] = (struct spill_array){.element = element(a[i].element),
                        .section = (uint32_t)ret->l.n_sections,
                        .offset = a[i].offset,
                        .n_tiles = a[i].n_tiles,
                        .n_channels = a[i].n_channels,
                        .n_tokens = a[i].n_tokens,
                        .channel_major = a[i].channel_major};
        }
        if (rig.info.shape.size[c] > 0)
                ret->ends[ret->l.n_sections++] = rig.info.shape.size[c];
        ret->l.arrays = ret->arrays;
        ret->l.section_ends = ret->ends;
}

/* @foreign: encoded by somebody who knows of one array less. */
static void open_spill(const char *dir, bool foreign) {
        struct spill_options o = {.fingerprint = rig.info.fingerprint, .codec = SPILL_CODEC_KV};
        static struct layout layouts[SEQ_N_CLASSES];

        for (enum seq_class c = SEQ_ALL; c < SEQ_N_CLASSES; c++) {
                make_layout(&layouts[c], c);
                o.layouts[c] = layouts[c].l;
                o.max_raw_size = MAX(o.max_raw_size, rig.info.shape.size[c]);
        }
        o.layouts[SEQ_ALL].n_arrays -= foreign;
        must(spill_open(&spill, dir, &o, &e));
        must(spill_sweep(spill, NULL, &e));
}

/* Write one cell to disk. */
static struct store_record write_cell(uint64_t key, uint64_t owner, enum seq_class c,
        const struct seq_cell *cell, uint64_t token_hash) {
        struct spill_block b = {.file_key = key,
                .owner = owner,
                .meta = {.class_id = c,
                        .position = cell->index,
                        .n_tokens = cell->n_tokens,
                        .token_hash = token_hash},
                .raw = seq_block_data(cell->block),
                .raw_size = rig.info.shape.size[c]};
        struct spill_ref ref;

        must(spill_write(spill, &b, &ref, NULL, &e));
        return (struct store_record){.file_key = ref.file_key,
                .offset = ref.offset,
                .stored_size = ref.stored_size,
                .raw_size = ref.raw_size,
                .block_class = c,
                .index = cell->index,
                .n_tokens = cell->n_tokens,
                .token_hash = token_hash};
}

static uint64_t hash_up_to(const int32_t *tokens, uint32_t end) {
        uint64_t hash = 0;

        for (uint32_t at = 0; at < end; at += rig.info.block_tokens)
                hash = hash64_chain_tokens(tokens + at, MIN(end - at, rig.info.block_tokens), hash);
        return hash;
}

/* A conversation of @n tokens whose memory is on disk, with a mark inside. In the block of attention
 * @forge, and in the mark's state if there is one and @forge is a block, a bit is wrong. */
static uint64_t add_conv(
        uint64_t owner, const char *name, uint64_t seed, uint32_t n, uint32_t forge) {
        struct store_conv c = {.owner = owner, .model = rig.info.fingerprint, .vocab = 7};
        struct store_turn turns[] = {{.role = 1, .end = n / 2, .text = "hello", .text_size = 5},
                {.role = 2, .start = n / 2, .end = n, .finish = 1}};
        const struct seq_shape *sh = &rig.info.shape;
        struct store_shape shape = {
                .block_tokens = sh->block_tokens, .window = sh->window, .chunk = sh->chunk};
        struct store_record links[4 * MAX_TOKENS / 32];
        struct store_meter meter = {"written", 1};
        struct store_gone gone = {0};
        int32_t tokens[MAX_TOKENS];
        struct seq *s = rig_seq(&rig);
        size_t n_links = 0;

        rig_tokens(&rig, seed, tokens, n);
        snprintf(c.name, sizeof(c.name), "%s", name);
        must(store_conv_create(store, &c, turns, 2, tokens, n, &e));
        rig_feed(&rig, s, tokens, n / 2, n, NULL);
        must(seq_mark(s, n / 2, &e));
        rig_feed(&rig, s, tokens + n / 2, n - n / 2, n, NULL);
        for (enum seq_class class = SEQ_ALL; class < SEQ_N_CLASSES; class ++) {
                struct seq_cell cell;
                size_t it = 0;

                shape.classes |= sh->size[class] > 0 ? 1u << class : 0;
                while (seq_next_cell(s, class, &it, &cell)) {
                        bool is_bad = class == SEQ_STATE ? forge != UINT32_MAX && cell.end == n / 2
                                                         : cell.index == forge;

                        if (is_bad)
                                ((uint8_t *)seq_block_data(cell.block))[sh->size[class] / 2] ^= 1;
                        assert_true(n_links < ARRAY_SIZE(links));
                        links[n_links++] =
                                write_cell(c.id, owner, class, &cell, hash_up_to(tokens, cell.end));
                }
        }
        must(store_link(
                store, c.id, &rig.info.fingerprint, &shape, links, n_links, &meter, 1, &gone, &e));
        seq_free(s);
        return c.id;
}

static enum kern_kv_type parse_kv(const char *s) {
        for (int i = 0; i < KERN_N_KV; i++)
                if (!strcmp(s, kern_kv_name((enum kern_kv_type)i)))
                        return (enum kern_kv_type)i;
        exit(2);
}

int main(int argc, char **argv) {
        struct llama_spec spec = LLAMA_SPEC_SMALL;
        struct store_conv child = {.name = "child"}, empty = {.owner = 1, .name = "empty"};
        struct store_turn last = {.role = 2, .start = 75, .end = 100, .text = "x", .text_size = 1};
        bool crash = false, forge = false, foreign = false;
        struct gguf_build *b;
        char path[512];
        uint64_t id;

        if (argc < 4)
                return 2;
        for (int i = 4; i < argc; i++) {
                crash = crash || !strcmp(argv[i], "crash");
                forge = forge || !strcmp(argv[i], "forge");
                foreign = foreign || !strcmp(argv[i], "foreign");
        }
        spec.head_dim = 32; /* a group of q8_0 */
        b = llama_build(&spec);
        if (gguf_build_write(b, argv[2]) < 0 || mkdir(argv[1], 0700) < 0) {
                perror("make-state");
                return 1;
        }
        gguf_build_free(b);
        rig_open(&rig, &spec, parse_kv(argv[3]));
        rig_use(&rig, 1, KERN_GENERIC, MAX_TOKENS);
        snprintf(path, sizeof(path), "%s/lock", argv[1]);
        fclose(fopen(path, "w"));
        snprintf(path, sizeof(path), "%s/register.db", argv[1]);
        must(store_open(&store, path, &e));
        snprintf(path, sizeof(path), "%s/spill", argv[1]);
        open_spill(path, foreign);
        id = add_conv(1000, "a", 1, 150, forge ? 2 : UINT32_MAX);
        must(store_conv_fork(store, id, 2, &last, NULL, &child, &e));
        add_conv(1001, "b", 2, 70, UINT32_MAX);
        must(store_conv_create(store, &empty, NULL, 0, NULL, 0, &e));
        if (crash)
                _exit(0);
        store_free(store);
        spill_free(spill);
        rig_close(&rig);
        return 0;
}
