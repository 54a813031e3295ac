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

/* A section per layer. @foreign: encoded by somebody who knows of one array less. */
static void open_spill(const char *dir, bool foreign) {
        const struct model_kv_array *a;
        size_t n = model_kv_arrays(rig.model, &a);
        struct spill_array arrays[64];
        uint64_t ends[64];
        struct spill_options o = {.fingerprint = rig.info.fingerprint,
                .max_raw_size = rig.info.block_size,
                .layout = {.arrays = arrays, .n_arrays = n, .section_ends = ends},
                .codec = SPILL_CODEC_KV};

        assert_true(n <= 64);
        for (size_t i = 0; i < n; i++) {
                if (i > 0 && a[i].layer != a[i - 1].layer)
                        ends[o.layout.n_sections++] = a[i].offset;
                arrays[i] = (struct spill_array){.element = element(a[i].element),
                        .section = (uint32_t)o.layout.n_sections,
                        .offset = a[i].offset,
                        .n_tiles = a[i].n_tiles,
                        .n_channels = a[i].n_channels,
                        .n_tokens = a[i].n_tokens,
                        .channel_major = a[i].channel_major};
        }
        ends[o.layout.n_sections++] = rig.info.block_size;
        o.layout.n_arrays -= foreign;
        must(spill_open(&spill, dir, &o, &e));
        must(spill_sweep(spill, NULL, &e));
}

/* A conversation of @n tokens whose memory is on disk; block @forge has a wrong bit. */
static uint64_t add_conv(
        uint32_t uid, const char *name, uint64_t seed, uint32_t n, uint32_t forge) {
        struct store_conv c = {.uid = uid, .model = rig.info.fingerprint, .vocab = 7};
        struct store_turn turns[] = {{.role = 1, .end = n / 2, .text = "hello", .text_size = 5},
                {.role = 2, .start = n / 2, .end = n, .finish = 1}};
        struct store_record links[MAX_TOKENS / 32 + 1] = {0};
        struct store_meter meter = {"written", 1};
        struct store_gone gone = {0};
        int32_t tokens[MAX_TOKENS];
        struct seq *s = rig_seq(&rig);
        size_t n_blocks;
        uint64_t hash = 0;

        rig_tokens(&rig, seed, tokens, n);
        snprintf(c.name, sizeof(c.name), "%s", name);
        must(store_conv_create(store, &c, turns, 2, tokens, n, &e));
        rig_feed(&rig, s, tokens, n, n, NULL);
        n_blocks = seq_n_blocks(s);
        for (uint32_t i = 0; i < n_blocks; i++) {
                uint8_t *raw = seq_block_data(seq_block_at(s, i));
                struct spill_block b = {.file_key = c.id,
                        .owner = uid,
                        .meta.position = i,
                        .meta.n_tokens = n - 32 * i < 32 ? n - 32 * i : 32,
                        .raw = raw,
                        .raw_size = rig.info.block_size};
                struct spill_ref ref;

                hash = hash64_chain_tokens(tokens + 32 * i, b.meta.n_tokens, hash);
                b.meta.token_hash = hash;
                if (i == forge)
                        raw[rig.info.block_size / 2] ^= 1;
                must(spill_write(spill, &b, &ref, NULL, &e));
                links[i] = (struct store_record){.file_key = ref.file_key,
                        .offset = ref.offset,
                        .stored_size = ref.stored_size,
                        .raw_size = ref.raw_size,
                        .index = i,
                        .n_tokens = b.meta.n_tokens,
                        .token_hash = hash};
        }
        must(store_link(store, c.id, &rig.info.fingerprint, links, n_blocks, &meter, 1, &gone, &e));
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
        struct store_conv child = {.name = "child"}, empty = {.uid = 1, .name = "empty"};
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
        must(store_conv_fork(store, id, 2, &last, 32, NULL, &child, &e));
        add_conv(1001, "b", 2, 70, UINT32_MAX);
        must(store_conv_create(store, &empty, NULL, 0, NULL, 0, &e));
        if (crash)
                _exit(0);
        store_free(store);
        spill_free(spill);
        rig_close(&rig);
        return 0;
}
