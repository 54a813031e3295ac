/* SPDX-License-Identifier: MIT */
/* Turns a row of arch-rows.c into a file: keys, vocabulary, tensors of the model, then of each layer. */
#include "util/arch-build.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "quant/quant.h"
#include "util/arch-row.h"
#include "util/llama-build.h"
#include "util/noise.h"
#include "util/quantize.h"

#define MAX_LIST 64 /* elements of an array in a key */

struct maker {
        const struct arch_row *row;
        struct arch_options o;
        struct gguf_build *out;
        uint64_t state;
        int layer; /* -1: of the model */
        /* Of a search: the name of a tensor, and what is found. */
        const char *wanted;
        enum arch_need need;
};

_Noreturn static void wrong(const struct maker *m, const char *what) {
        fprintf(stderr, "arch-build: %s: cannot read \"%s\"\n", m->row->name, what);
        exit(1);
}

static uint32_t or_else(uint32_t v, uint32_t otherwise) {
        return v ? v : otherwise;
}

static uint32_t scale(const struct maker *m) {
        return or_else(m->o.scale, 1);
}

static uint32_t n_layer(const struct maker *m) {
        return or_else(m->row->n_layer, 3);
}

static uint32_t n_vocab(const struct maker *m) {
        return or_else(m->row->n_vocab, 320);
}

static uint32_t context(const struct maker *m) {
        return or_else(m->row->context, or_else(m->o.context, 512));
}

static bool marked(const char *pattern, int layer, char mark) {
        return pattern && layer >= 0 && pattern[(size_t)layer % strlen(pattern)] == mark;
}

static bool is_local(const struct maker *m) {
        return marked(m->row->pattern, m->layer, 'l');
}

static bool is_sparse(const struct maker *m) {
        uint32_t i = (uint32_t)m->layer, step = or_else(m->row->expert_step, 1);

        return m->row->n_expert && i >= m->row->n_dense && (i + 1) % step == 0;
}

static bool is_draft(const struct maker *m) {
        return m->layer >= 0 && (uint32_t)m->layer + m->row->n_draft >= n_layer(m);
}

static bool shares(const struct maker *m) {
        return m->layer >= 0 && (uint32_t)m->layer + m->row->n_shared >= n_layer(m);
}

static uint32_t head_dim(const struct maker *m) {
        uint32_t global = or_else(m->row->head_dim, 32);

        return is_local(m) ? or_else(m->row->head_dim_local, global) : global;
}

static uint32_t n_rot(const struct maker *m) {
        return is_local(m) ? head_dim(m) : or_else(m->row->n_rot, head_dim(m));
}

static uint32_t n_kv_head(const struct maker *m) {
        uint32_t global = or_else(m->row->n_kv_head, 2);

        return (is_local(m) ? or_else(m->row->n_kv_head_local, global) : global) * scale(m);
}

static uint32_t n_ff(const struct maker *m) {
        return or_else(m->row->n_ff, 96) * scale(m) * (marked(m->row->wide, m->layer, 'w') ? 2 : 1);
}

static uint64_t symbol(const struct maker *m, char c, const char *where) {
        const struct arch_row *r = m->row;

        switch (c) {
        case 'd':
                return or_else(r->n_embd, 64) * scale(m);
        case 'H':
                return or_else(r->n_head, 4) * scale(m);
        case 'K':
                return n_kv_head(m);
        case 'h':
                return head_dim(m);
        case 'r':
                return n_rot(m) / 2;
        case 'F':
                return n_ff(m);
        case 'f':
                return r->ff_expert_is_ff ? n_ff(m) : r->n_ff_expert * scale(m);
        case 's':
                return r->n_ff_shared * scale(m);
        case 'E':
                return r->n_expert;
        case 'V':
                return n_vocab(m);
        case 'C':
                return context(m);
        case 'L':
                return n_layer(m);
        case 'P':
                return r->n_per_layer;
        case 'D':
                return r->n_inner * scale(m);
        case 'g':
                return r->n_inner * scale(m) / or_else(r->n_group, 1);
        case 'N':
                return r->n_state;
        case 'R':
                return r->rank;
        case 'G':
                return or_else(r->n_group, 1);
        case 'M':
                return r->n_latent * scale(m);
        default:
                wrong(m, where);
        }
}

static uint64_t dimension(const struct maker *m, const char *text) {
        uint64_t sum = 0, product = 1;

        for (const char *p = text; *p; p++) {
                if (*p == '+') {
                        sum += product;
                        product = 1;
                } else if (*p >= '0' && *p <= '9') {
                        char *end;

                        product *= strtoul(p, &end, 10);
                        p = end - 1;
                } else {
                        product *= symbol(m, *p, text);
                }
        }
        return sum + product;
}

/* Keys */

static bool omitted(const struct maker *m, const char *name) {
        return m->o.omit && !strcmp(m->o.omit, name);
}

static bool is_number(const char *s) {
        return (*s >= '0' && *s <= '9') || *s == '-';
}

static uint32_t whole(const struct maker *m, const char *s) {
        char *end;
        uint32_t v = (uint32_t)strtoul(s, &end, 10);

        if (*end == '*')
                return v * scale(m);
        if (*end)
                wrong(m, s);
        return v;
}

static bool ends_with(const char *s, const char *end) {
        size_t n = strlen(s), k = strlen(end);

        return n >= k && !strcmp(s + n - k, end);
}

/* @list is cut up. */
static void put_list(struct maker *m, const char *key, char *list) {
        uint32_t numbers[MAX_LIST];
        float reals[MAX_LIST];
        bool bools[MAX_LIST];
        bool real = strchr(list, '.') != NULL, word = !is_number(list);
        size_t n = 0;
        char *save;

        for (char *p = strtok_r(list, ",]", &save); p; p = strtok_r(NULL, ",]", &save), n++) {
                if (n == MAX_LIST)
                        wrong(m, key);
                if (word)
                        bools[n] = !strcmp(p, "true");
                else if (real)
                        reals[n] = strtof(p, NULL);
                else
                        numbers[n] = whole(m, p);
        }
        if (word)
                gguf_build_bool_array(m->out, key, bools, n);
        else if (real)
                gguf_build_f32_array(m->out, key, reals, n);
        else if (ends_with(key, "sections"))
                gguf_build_i32_array(m->out, key, (const int32_t *)numbers, n);
        else
                gguf_build_u32_array(m->out, key, numbers, n);
}

static void put_key(struct maker *m, const char *name, char *value) {
        char key[128];

        if (*name == '.')
                snprintf(key, sizeof(key), "%s", name + 1);
        else
                snprintf(key, sizeof(key), "%s.%s", m->row->arch, name);
        if (!*value || omitted(m, key))
                return;
        if (*value == '[')
                put_list(m, key, value + 1);
        else if (!strcmp(value, "true") || !strcmp(value, "false"))
                gguf_build_bool(m->out, key, *value == 't');
        else if (!is_number(value))
                gguf_build_str(m->out, key, value);
        else if (strchr(value, '.'))
                gguf_build_f32(m->out, key, strtof(value, NULL));
        else
                gguf_build_u32(m->out, key, whole(m, value));
}

/* The row's own keys. */
static void put_row_keys(struct maker *m) {
        char text[1024], *save;

        snprintf(text, sizeof(text), "%s", m->row->keys ? m->row->keys : "");
        for (char *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
                char *equals = strchr(word, '=');

                if (!equals)
                        wrong(m, word);
                *equals = '\0';
                put_key(m, word, equals + 1);
        }
}

/* A key that every model has, unless the row says otherwise. */
static void put_common(struct maker *m, const char *name, char *value) {
        size_t n = strlen(name);

        for (const char *p = m->row->keys; p && *p; p = strchr(p, ' ') ? strchr(p, ' ') + 1 : NULL)
                if (!strncmp(p, name, n) && p[n] == '=')
                        return;
        put_key(m, name, value);
}

static void put_common_u32(struct maker *m, const char *name, uint64_t v) {
        char text[24];

        snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
        put_common(m, name, text);
}

static void keys(struct maker *m) {
        const struct arch_row *r = m->row;
        char epsilon[] = "0.00001", base[] = "20000.0";

        if (!omitted(m, "general.architecture"))
                gguf_build_str(m->out, "general.architecture", r->arch);
        gguf_build_str(m->out, "general.name", "random weights");
        if (!omitted(m, "general.quantization_version"))
                gguf_build_u32(m->out, "general.quantization_version", 2);
        put_common_u32(m, "context_length", context(m));
        put_common_u32(m, "embedding_length", symbol(m, 'd', ""));
        put_common_u32(m, "block_count", n_layer(m));
        put_common_u32(m, "vocab_size", n_vocab(m));
        put_common_u32(m, "feed_forward_length", n_ff(m));
        put_common_u32(m, "attention.head_count", symbol(m, 'H', ""));
        put_common_u32(m, "attention.head_count_kv", n_kv_head(m));
        put_common_u32(m, "attention.key_length", head_dim(m));
        put_common_u32(m, "attention.value_length", head_dim(m));
        put_common(m,
                r->layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon",
                epsilon);
        put_common_u32(m, "rope.dimension_count", n_rot(m));
        put_common(m, "rope.freq_base", base);
        if (r->n_expert) {
                put_common_u32(m, "expert_count", r->n_expert);
                put_common_u32(m, "expert_used_count", r->n_used);
                if (!r->ff_expert_is_ff)
                        put_common_u32(m, "expert_feed_forward_length", symbol(m, 'f', ""));
        }
        if (r->n_inner) {
                put_common_u32(m, "ssm.conv_kernel", 4);
                put_common_u32(m, "ssm.inner_size", symbol(m, 'D', ""));
                put_common_u32(m, "ssm.state_size", r->n_state);
                put_common_u32(m, "ssm.time_step_rank", r->rank);
        }
        if (r->n_group)
                put_common_u32(m, "ssm.group_count", r->n_group);
        put_row_keys(m);
}

/* Tensors */

struct tensor_spec {
        char name[64];
        uint64_t ne[4];
        uint32_t n_dims;
        float mean, deviation;
        bool f32, optional, turns;
};

/* gemma4's factors: a quarter of the pairs turn, the others do not. */
static float turn(uint64_t i, uint64_t n) {
        return i < n / 4 ? 1.0f : 1e30f;
}

/* @to is @from, of @size bytes, with what lies behind the first @by (modulo the size) in front. */
static void turn_row(const uint8_t *from, size_t size, size_t by, uint8_t *to) {
        by %= size;
        memcpy(to, from + by, size - by);
        memcpy(to + size - by, from, by);
}

static void fill_rows(
        struct maker *m, const struct tensor_spec *t, uint32_t type, uint8_t *data, size_t n_rows) {
        size_t row = quant_row_size(type, t->ne[0]);
        size_t n_drawn = m->o.n_drawn && m->o.n_drawn < n_rows ? m->o.n_drawn : n_rows;
        float *x = malloc(t->ne[0] * sizeof(*x));

        if (!x)
                wrong(m, t->name);
        for (size_t r = 0; r < n_drawn; r++) {
                for (uint64_t i = 0; i < t->ne[0]; i++)
                        x[i] = t->turns ? turn(i, t->ne[0])
                                        : t->mean + t->deviation * noise(&m->state);
                test_quantize(type, x, data + r * row, t->ne[0]);
        }
        free(x);
        for (size_t r = n_drawn; r < n_rows; r++)
                turn_row(data + r % n_drawn * row, row,
                        quant_row_size(type, quant_info(type)->block_values) * (r / n_drawn),
                        data + r * row);
}

static void put_tensor(struct maker *m, const struct tensor_spec *t) {
        const struct quant_info *info = quant_info(m->o.type);
        bool fits = !t->f32 && t->ne[0] % info->block_values == 0;
        uint32_t type = fits ? m->o.type : QUANT_F32;
        size_t n_rows = 1, size;
        uint8_t *data;

        for (uint32_t i = 1; i < t->n_dims; i++)
                n_rows *= t->ne[i];
        size = quant_row_size(type, t->ne[0]) * n_rows;
        data = malloc(size);
        if (!data)
                wrong(m, t->name);
        fill_rows(m, t, type, data, n_rows);
        if (omitted(m, t->name))
                free(data);
        else
                gguf_build_tensor(m->out, t->name, type, t->n_dims, t->ne, data, size);
}

static void read_mark(const struct maker *m, struct tensor_spec *t, char *mark, float *gain) {
        char *end = mark;

        for (; *mark; mark = end) {
                end++;
                if (*mark == '!')
                        t->f32 = true;
                else if (*mark == '?')
                        t->optional = true;
                else if (*mark == '^')
                        t->turns = true;
                else if (*mark == '*')
                        *gain = strtof(mark + 1, &end);
                else if (*mark == '=' && (t->mean = strtof(mark + 1, &end), *end == '~'))
                        t->deviation = strtof(end + 1, &end);
                else
                        wrong(m, mark);
        }
}

/* "name dim dim [marks]"; @item is cut up. */
static void read_tensor(const struct maker *m, struct tensor_spec *t, char *item) {
        char *save, *word = strtok_r(item, " ", &save);
        float gain = 1.0f;

        if (m->layer < 0)
                snprintf(t->name, sizeof(t->name), "%s", word);
        else
                snprintf(t->name, sizeof(t->name), "blk.%d.%s", m->layer, word);
        t->mean = 0.0f;
        t->deviation = -1.0f;
        while ((word = strtok_r(NULL, " ", &save)))
                if (strchr("=*!?^", *word))
                        read_mark(m, t, word, &gain);
                else if (t->n_dims < 4)
                        t->ne[t->n_dims++] = dimension(m, word);
        if (t->n_dims < 2)
                t->f32 = true;
        if (t->deviation >= 0.0f)
                return;
        if (t->n_dims > 1) {
                t->deviation = gain * 1.4f / sqrtf((float)t->ne[0]);
        } else {
                t->mean = strstr(t->name, "norm") && ends_with(t->name, ".weight") ? 1.0f : 0.0f;
                t->deviation = 0.2f;
        }
}

/* Does this layer have tensors marked with @when? */
static bool applies(const struct maker *m, const char *when, size_t n) {
        const struct {
                const char *name;
                bool is;
        } kinds[] = {
                {"dense", !is_sparse(m)},
                {"sparse", is_sparse(m)},
                {"local", is_local(m)},
                {"draft", is_draft(m)},
                {"recurrent", marked(m->row->branches, m->layer, 'r')},
                {"attending", marked(m->row->branches, m->layer, 'a')},
                {"feeding", marked(m->row->branches, m->layer, 'f')},
        };

        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
                if (strlen(kinds[i].name) == n && !strncmp(when, kinds[i].name, n))
                        return kinds[i].is;
        wrong(m, when);
}

static const char *part(const struct maker *m, const char *name) {
        for (const struct arch_part *p = arch_parts; p->name; p++)
                if (!strcmp(p->name, name))
                        return p->tensors;
        wrong(m, name);
}

typedef void tensor_fn(struct maker *m, const struct tensor_spec *t);

/* Call fn for each tensor of a list; lists of parts have no parts. */
static void each_tensor(struct maker *m, const char *list, tensor_fn *fn) {
        char text[1024], *save;

        if (snprintf(text, sizeof(text), "%s", list) >= (int)sizeof(text))
                wrong(m, list);
        for (char *item = strtok_r(text, ";", &save); item; item = strtok_r(NULL, ";", &save)) {
                struct tensor_spec t = {0};
                char *colon = strchr(item, ':');

                item += strspn(item, " ");
                if (colon && !applies(m, item, (size_t)(colon - item)))
                        continue;
                if (colon)
                        item = colon + 1;
                if (*item == '@') {
                        each_tensor(m, part(m, item + 1), fn);
                        continue;
                }
                read_tensor(m, &t, item);
                fn(m, &t);
        }
}

static void all_tensors(struct maker *m, tensor_fn *fn) {
        m->layer = -1;
        each_tensor(m, m->row->model, fn);
        for (m->layer = 0; (uint32_t)m->layer < n_layer(m); m->layer++)
                each_tensor(m, m->row->layer, fn);
        m->layer = -1;
}

static const struct arch_row *find_row(const char *name) {
        for (unsigned i = 0; i < arch_n_rows; i++)
                if (!strcmp(arch_rows[i].name, name))
                        return &arch_rows[i];
        for (unsigned i = 0; i < arch_n_shapes; i++)
                if (!strcmp(arch_shapes[i].name, name))
                        return &arch_shapes[i];
        return NULL;
}

size_t arch_build_n(void) {
        return arch_n_rows;
}

const char *arch_build_name(size_t i) {
        return arch_rows[i].name;
}

size_t arch_build_n_shapes(void) {
        return arch_n_shapes;
}

const char *arch_build_shape_name(size_t i) {
        return arch_shapes[i].name;
}

bool arch_build_gelu(const char *name) {
        const struct arch_row *row = find_row(name);

        return row && row->gelu;
}

static void look_up(struct maker *m, const struct tensor_spec *t) {
        if (strcmp(t->name, m->wanted) != 0)
                return;
        if (is_draft(m) ||
                (shares(m) && (strstr(t->name, ".attn_k") || strstr(t->name, ".attn_v"))))
                m->need = ARCH_UNUSED;
        else
                m->need = t->optional ? ARCH_OPTIONAL : ARCH_REQUIRED;
}

enum arch_need arch_build_need(const char *name, const char *tensor) {
        struct maker m = {.row = find_row(name), .wanted = tensor};

        if (m.row)
                all_tensors(&m, look_up);
        return m.need;
}

uint32_t arch_build_head_dim(const char *name) {
        struct maker m = {.row = find_row(name), .layer = -1};

        return m.row ? MIN(head_dim(&m), or_else(m.row->head_dim_local, head_dim(&m))) : 0;
}

struct gguf_build *arch_build(const char *name, const struct arch_options *o) {
        struct maker m = {.row = find_row(name), .layer = -1};

        if (!m.row)
                return NULL;
        if (o)
                m.o = *o;
        m.state = m.o.seed;
        m.out = gguf_build_new();
        keys(&m);
        if (!omitted(&m, "tokenizer.ggml.tokens"))
                llama_build_vocabulary(m.out, n_vocab(&m));
        all_tensors(&m, put_tensor);
        if (m.o.reshape)
                gguf_build_damage(m.out, GGUF_DAMAGE_RESHAPE, m.o.reshape);
        if (m.o.retype)
                gguf_build_damage(m.out, GGUF_DAMAGE_RETYPE, m.o.retype);
        return m.out;
}
