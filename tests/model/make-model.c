/* SPDX-License-Identifier: MIT */
/* Writes a model with random weights, a llama of some size or a small one of any architecture: for
 * benchmarks, for tests of programs, and for comparisons with other engines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "quant/quant.h"
#include "util/arch-build.h"
#include "util/llama-build.h"
#include "util/quantize.h"
#include "util/tiny-model.h"
#include "util/word-vocabulary.h"

/* Rows of a matrix that are drawn, of large models. */
#define DRAWN 127

static const struct {
        const char *name;
        uint32_t n_layer, n_embd, n_head, n_kv_head, head_dim, n_ff, n_vocab, context;
        bool tied;
} shapes[] = {
        {"tiny", 2, 64, 4, 2, 16, 96, 320, 512, false},
        {"tiny-wide", 2, 64, 4, 2, 32, 96, 320, 512, false},
        {"tiny-256", 2, 256, 4, 2, 64, 256, 320, 512, false},
        {"tiny-vocab", 1, 8, 2, 1, 4, 8, 16, 64, false},
        {"60m", 8, 512, 8, 4, 64, 2048, 32000, 8192, false},
        {"300m", 12, 1024, 16, 4, 64, 4096, 32000, 8192, false},
        {"1b", 16, 2048, 32, 8, 64, 8192, 128256, 8192, false},
        /* of Llama-3.2-1B and Qwen2.5-0.5B; the latter as a llama, without its biases */
        {"llama-1b", 16, 2048, 32, 8, 64, 8192, 128256, 131072, true},
        {"qwen-0.5b", 24, 896, 14, 2, 64, 4864, 151936, 32768, true},
};

static int usage(void) {
        fputs("usage: make-model FILE SHAPE TYPE [experts] [biases] [tied] [fused] "
              "[rope-factors] [words]\n"
              "       make-model FILE arch:NAME TYPE [wide]\n"
              "       make-model FILE tiny:NAME CONTEXT\n"
              "       make-model --list\n",
                stderr);
        return 2;
}

/* Any type that models may have and that can be written. */
static int parse_type(const char *s, uint32_t *ret) {
        for (uint32_t i = 0; i < QUANT_N_TYPES; i++) {
                const struct quant_info *info = quant_info(i);

                if (info && info->supported && !strcasecmp(s, info->name)) {
                        *ret = i;
                        return 0;
                }
        }
        return 1;
}

static int parse_shape(const char *s, struct llama_spec *ret) {
        for (size_t i = 0; i < ARRAY_SIZE(shapes); i++)
                if (!strcmp(s, shapes[i].name)) {
                        *ret = (struct llama_spec){.n_layer = shapes[i].n_layer,
                                .n_embd = shapes[i].n_embd,
                                .n_head = shapes[i].n_head,
                                .n_kv_head = shapes[i].n_kv_head,
                                .head_dim = shapes[i].head_dim,
                                .n_ff = shapes[i].n_ff,
                                .n_vocab = shapes[i].n_vocab,
                                .context = shapes[i].context,
                                .tied = shapes[i].tied,
                                .seed = 1};
                        return 0;
                }
        return 1;
}

static int write_model(struct gguf_build *b, const char *file) {
        int r = gguf_build_write(b, file);

        if (r < 0)
                perror(file);
        gguf_build_free(b);
        return r < 0;
}

static int list(void) {
        for (size_t i = 0; i < arch_build_n(); i++)
                printf("%s%s\n", arch_build_name(i),
                        arch_build_gelu(arch_build_name(i)) ? " gelu" : "");
        return 0;
}

static int make_arch(int argc, char **argv) {
        struct arch_options o = {.seed = 1};
        struct gguf_build *b;

        if (parse_type(argv[3], &o.type) || argc > 5 || (argc == 5 && strcmp(argv[4], "wide")))
                return usage();
        o.scale = argc == 5 ? 4 : 1;
        for (size_t i = 0; i < arch_build_n_shapes(); i++)
                if (!strcmp(argv[2] + strlen("arch:"), arch_build_shape_name(i)))
                        o.n_drawn = DRAWN;
        b = arch_build(argv[2] + strlen("arch:"), &o);
        if (!b) {
                fprintf(stderr, "make-model: there is no model \"%s\" (--list tells)\n", argv[2]);
                return 2;
        }
        return write_model(b, argv[1]);
}

/* With a vocabulary and a chat template, for conversations with the daemon. */
static int make_tiny(int argc, char **argv) {
        char *end;
        unsigned long context = strtoul(argv[3], &end, 10);

        if (argc > 4 || *end || context < 64 || context > 65536)
                return usage();
        if (tiny_model_write_long(argv[1], argv[2] + strlen("tiny:"), (unsigned)context) < 0) {
                perror(argv[2]);
                return 1;
        }
        return 0;
}

/* words: with a vocabulary and a chat template, for conversations with servers. */
static int make_llama(int argc, char **argv) {
        struct llama_spec s;
        struct gguf_build *b;

        if (parse_shape(argv[2], &s) || parse_type(argv[3], &s.type))
                return usage();
        if (!quant_row_size(s.type, s.n_embd) || !quant_row_size(s.type, s.n_ff) ||
                !quant_row_size(s.type, (size_t)s.n_head * s.head_dim)) {
                fprintf(stderr, "make-model: rows of %s are not whole blocks of %s\n", argv[2],
                        quant_info(s.type)->name);
                return 2;
        }
        s.embd_type = s.type;
        for (int i = 4; i < argc; i++) {
                if (!strcmp(argv[i], "experts")) {
                        s.n_expert = 8;
                        s.n_expert_used = 2;
                } else if (!strcmp(argv[i], "biases")) {
                        s.biases = true;
                } else if (!strcmp(argv[i], "tied")) {
                        s.tied = true;
                } else if (!strcmp(argv[i], "fused")) {
                        s.fused = true;
                } else if (!strcmp(argv[i], "rope-factors")) {
                        s.rope_factors = true;
                } else if (!strcmp(argv[i], "words") && s.n_vocab >= WORD_VOCABULARY_LEAST) {
                        s.omit = "tokenizer.ggml.tokens";
                } else {
                        return usage();
                }
        }
        b = llama_build(&s);
        if (s.omit)
                word_vocabulary_build(b, s.n_vocab);
        return write_model(b, argv[1]);
}

int main(int argc, char **argv) {
        if (argc == 2 && !strcmp(argv[1], "--list"))
                return list();
        if (argc < 4)
                return usage();
        if (!strncmp(argv[2], "tiny:", strlen("tiny:")))
                return make_tiny(argc, argv);
        return strncmp(argv[2], "arch:", strlen("arch:")) ? make_llama(argc, argv)
                                                          : make_arch(argc, argv);
}
