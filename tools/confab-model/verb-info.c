/* SPDX-License-Identifier: MIT */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/util.h"
#include "chat/chat.h"
#include "chat/reply.h"
#include "cli.h"
#include "gguf/gguf.h"
#include "quant/quant.h"
#include "tok/tok.h"

/*
 * Facts from the file (GGUF level), from the tokenizer, and from the model. The parts fail
 * separately: a vocabulary-only file has no model, which is no error. Both outputs are made from
 * the same list of facts.
 */
struct facts {
        bool json;
        struct buf *out;
        struct json j;
        int error;
};

static void fact_str(struct facts *f, const char *key, const char *s, size_t n) {
        if (f->json) {
                json_put_key(&f->j, key);
                json_put_string_n(&f->j, n ? s : "", n);
        } else if (f->error == 0) {
                struct json j;

                /* Names come from the file: quoted, so that they can't play with the terminal. */
                f->error = buf_printf(f->out, "%-24s ", key);
                json_init(&j, f->out);
                json_put_string_n(&j, n ? s : "", n);
                if (f->error == 0)
                        f->error = json_finish(&j);
                if (f->error == 0)
                        f->error = buf_append_str(f->out, "\n");
        }
}

static void fact_u64(struct facts *f, const char *key, uint64_t v) {
        if (f->json) {
                json_put_key_u64(&f->j, key, v);
        } else if (f->error == 0) {
                f->error = buf_printf(f->out, "%-24s %llu\n", key, (unsigned long long)v);
        }
}

static void fact_bool(struct facts *f, const char *key, bool v) {
        if (f->json) {
                json_put_key_bool(&f->j, key, v);
        } else if (f->error == 0)
                f->error = buf_printf(f->out, "%-24s %s\n", key, v ? "true" : "false");
}

static void fact_hex(struct facts *f, const char *key, uint64_t v) {
        char s[20];

        snprintf(s, sizeof(s), "%016llx", (unsigned long long)v);
        fact_str(f, key, s, strlen(s));
}

static void put_file(struct facts *f, const struct gguf *g) {
        struct gguf_str s;

        fact_u64(f, "gguf_version", gguf_version(g));
        fact_u64(f, "file_size", gguf_file_size(g));
        fact_u64(f, "n_keys", gguf_n_kv(g));
        fact_u64(f, "n_tensors", gguf_n_tensors(g));
        if (gguf_get_str(g, "general.architecture", &s, NULL) == 0)
                fact_str(f, "architecture", s.data, s.size);
        if (gguf_get_str(g, "general.name", &s, NULL) == 0)
                fact_str(f, "name", s.data, s.size);
        if (gguf_get_str(g, "general.license", &s, NULL) == 0)
                fact_str(f, "license", s.data, s.size);
}

static void put_types(struct facts *f, const struct gguf *g) {
        size_t count[QUANT_N_TYPES] = {0};

        for (size_t i = 0; i < gguf_n_tensors(g); i++) {
                uint32_t type = gguf_tensor_at(g, i)->type;

                if (type < QUANT_N_TYPES)
                        count[type]++;
        }
        for (uint32_t t = 0; t < QUANT_N_TYPES; t++)
                if (count[t] && quant_info(t)) {
                        char key[64];

                        snprintf(key, sizeof(key), "tensors_%s", quant_info(t)->name);
                        fact_u64(f, key, count[t]);
                }
}

/* The family that serves for the template, and where it is known to differ from it. */
static void put_chat(struct facts *f, const struct gguf *g, struct tok *t) {
        _cleanup_(chat_freep) struct chat *chat = NULL;
        struct gguf_str template = {0};
        const char *s;
        struct err e;

        if (gguf_get_str(g, "tokenizer.chat_template", &template, &e) < 0 ||
                chat_new(&chat, t, template.data, template.size, NULL, &e) < 0) {
                fact_str(f, "chat_error", e.msg, strlen(e.msg));
                return;
        }
        fact_str(f, "chat_family", chat_family(chat), strlen(chat_family(chat)));
        fact_bool(f, "chat_takes_tools", chat_takes_tools(chat));
        fact_str(f, "reply_format", chat_reply_format(chat), strlen(chat_reply_format(chat)));
        fact_bool(f, "reasons", chat_reasons(chat));
        if (f->json) {
                json_put_key(&f->j, "chat_differences");
                json_array_begin(&f->j);
        }
        for (size_t i = 0; (s = chat_difference(chat, i)); i++)
                if (f->json)
                        json_put_string_n(&f->j, s, strlen(s));
                else
                        fact_str(f, "chat_difference", s, strlen(s));
        if (f->json)
                json_array_end(&f->j);
}

static void put_vocabulary(struct facts *f, const struct gguf *g) {
        _cleanup_(tok_freep) struct tok *t = NULL;
        struct err e;

        if (tok_new(&t, g, &e) < 0) {
                fact_str(f, "tokenizer_error", e.msg, strlen(e.msg));
                return;
        }
        fact_str(f, "tokenizer", tok_model_name(t), strlen(tok_model_name(t)));
        fact_str(f, "pre_tokenizer", tok_pre_name(t), strlen(tok_pre_name(t)));
        fact_u64(f, "n_vocab", tok_n_vocab(t));
        if (tok_bos(t) >= 0)
                fact_u64(f, "bos", (uint64_t)tok_bos(t));
        if (tok_eos(t) >= 0)
                fact_u64(f, "eos", (uint64_t)tok_eos(t));
        if (tok_eot(t) >= 0)
                fact_u64(f, "eot", (uint64_t)tok_eot(t));
        put_chat(f, g, t);
}

static void put_model(struct facts *f, const struct model *m) {
        struct model_info i;

        model_info(m, &i);
        fact_u64(f, "n_params", i.n_params);
        fact_u64(f, "weights_size", i.weights_size);
        fact_u64(f, "n_outputs", i.n_vocab);
        fact_u64(f, "n_layer", i.n_layer);
        fact_u64(f, "n_embd", i.n_embd);
        fact_u64(f, "n_head", i.n_head);
        fact_u64(f, "n_kv_head", i.n_kv_head);
        fact_u64(f, "head_dim", i.head_dim);
        fact_u64(f, "n_ff", i.n_ff);
        fact_u64(f, "n_expert", i.n_expert);
        fact_u64(f, "n_expert_used", i.n_expert_used);
        fact_u64(f, "context", i.context_train);
        fact_u64(f, "block_tokens", i.block_tokens);
        fact_u64(f, "block_size", i.shape.size[SEQ_ALL]);
        fact_u64(f, "window_block_size", i.shape.size[SEQ_WINDOW]);
        fact_u64(f, "window", i.shape.window);
        fact_u64(f, "chunk", i.shape.chunk);
        fact_u64(f, "state_size", i.shape.size[SEQ_STATE]);
        fact_u64(f, "memory_per_token",
                (i.shape.size[SEQ_ALL] + i.shape.size[SEQ_WINDOW]) / i.block_tokens);
        fact_hex(f, "fingerprint_weights", i.fingerprint.weights);
        fact_hex(f, "fingerprint_rules", i.fingerprint.rules);
}

static void put_tensors(struct facts *f, const struct gguf *g) {
        for (size_t i = 0; i < gguf_n_tensors(g) && f->error == 0; i++) {
                const struct gguf_tensor *t = gguf_tensor_at(g, i);

                if (f->json) {
                        json_object_begin(&f->j);
                        fact_str(f, "name", t->name.data, t->name.size);
                        fact_str(f, "type", quant_info(t->type)->name,
                                strlen(quant_info(t->type)->name));
                        json_put_key(&f->j, "ne");
                        json_array_begin(&f->j);
                        for (uint32_t d = 0; d < t->n_dims; d++)
                                json_put_u64(&f->j, t->ne[d]);
                        json_array_end(&f->j);
                        json_object_end(&f->j);
                } else {
                        fact_str(f, "tensor", t->name.data, t->name.size);
                        f->out->size--;
                        f->error = buf_printf(f->out, " %s {%llu, %llu, %llu, %llu}\n",
                                quant_info(t->type)->name, (unsigned long long)t->ne[0],
                                (unsigned long long)t->ne[1], (unsigned long long)t->ne[2],
                                (unsigned long long)t->ne[3]);
                }
        }
}

/* Collect all facts; the model's error, if any, stays in @e and is the result. */
static int put_all(
        struct facts *f, const struct gguf *g, enum kern_kv_type kv, bool tensors, struct err *e) {
        _cleanup_(model_freep) struct model *m = NULL;
        int r = 0;

        if (f->json) {
                json_init(&f->j, f->out);
                json_object_begin(&f->j);
        }
        put_file(f, g);
        put_types(f, g);
        put_vocabulary(f, g);
        if (gguf_n_tensors(g)) {
                r = model_open(&m, g, &(struct model_options){.kv_type = kv}, e);
                if (r < 0)
                        fact_str(f, "model_error", e->msg, strlen(e->msg));
                else
                        put_model(f, m);
        }
        if (tensors && f->json) {
                json_put_key(&f->j, "tensors");
                json_array_begin(&f->j);
        }
        if (tensors)
                put_tensors(f, g);
        if (tensors && f->json)
                json_array_end(&f->j);
        if (f->json) {
                json_object_end(&f->j);
                f->error = json_finish(&f->j);
                if (f->error == 0)
                        f->error = buf_append_str(f->out, "\n");
        }
        if (f->error < 0)
                return err_set(e, ERR_NOMEM, "no memory for the result");
        return r;
}

static int run_parsed(const char *file, enum kern_kv_type kv, bool json, bool tensors) {
        _cleanup_(gguf_freep) struct gguf *g = NULL;
        struct buf out = BUF_NULL;
        struct facts f = {.json = json, .out = &out};
        struct err e;
        int r, status;

        if (gguf_open(&g, file, &e) < 0)
                return cli_fail(file, &e);
        r = put_all(&f, g, kv, tensors, &e);
        status = f.error < 0 ? CLI_FAILED : cli_print(&out);
        buf_deinit(&out);
        return r < 0 ? cli_fail(file, &e) : status;
}

static int run(const struct cli_verb *v, int argc, char **argv) {
        static const struct option options[] = {{"json", 0, NULL, 'j'}, {"tensors", 0, NULL, 'T'},
                {"kv", 1, NULL, 'K'}, {"supported", 0, NULL, 'S'}, {"help", 0, NULL, 'h'}, {0}};
        enum kern_kv_type kv = KERN_KV_F16;
        bool json = false, tensors = false, supported = false;
        int c;

        opterr = 0;
        while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1)
                switch (c) {
                case 'j':
                        json = true;
                        break;
                case 'T':
                        tensors = true;
                        break;
                case 'S':
                        supported = true;
                        break;
                case 'K':
                        if (!cli_kv_type(optarg, &kv))
                                return cli_usage(v, "--kv %s is not one of f32, f16, q8_0", optarg);
                        break;
                case 'h':
                        return cli_help(v);
                default:
                        return cli_usage(v, "bad option");
                }
        if (supported)
                return optind < argc ? cli_usage(v, "--supported takes no file")
                                     : cli_supported(json);
        if (optind + 1 != argc)
                return cli_usage(v, "expected one model file");
        return run_parsed(argv[optind], kv, json, tensors);
}

const struct cli_verb verb_info = {
        .name = "info",
        .usage = "FILE [--tensors] [--kv TYPE] [--json] | --supported [--json]",
        .help = "Prints what the file is: format, vocabulary, shape of the model, memory that a\n"
                "conversation takes. A file with a vocabulary only is fine; a model that cannot\n"
                "be loaded is described as far as possible, and the exit status is 1.\n"
                "\n"
                "  --tensors     list the tensors too\n"
                "  --kv TYPE     memory figures for keys and values of type f32, f16 (default) or "
                "q8_0\n"
                "  --supported   instead: what models can be: architectures, tensor types, "
                "tokenizers\n"
                "  --json        one JSON object\n",
        .run = run,
};
