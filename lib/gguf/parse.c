/* SPDX-License-Identifier: MIT */
/*
 * The GGUF format, and what this reader guarantees. Everything is little-endian:
 *
 *   "GGUF", u32 version, u64 n_tensors, u64 n_kv,
 *   n_kv times:       key string, i32 type, value
 *   n_tensors times:  name string, u32 n_dims, n_dims u64, i32 type, u64 offset
 *   padding to a multiple of the alignment, then the tensors' data, each padded likewise
 *
 * A string is u64 length and bytes; an array is i32 element type, u64 count and the elements.
 *
 * 1. No count or length is used before it is compared with the bytes left in the file. Tables are
 *    allocated only for counts whose entries fit the file, so memory stays within a constant
 *    factor of the file's size, and time is linear in that size.
 * 2. Keys are unique and not empty; tensor names are unique and shorter than 64 bytes. (Hash maps
 *    with a random key find duplicates, so that no file makes this slow.)
 * 3. Every array is walked once here: string elements lie inside the file, bools are 0 or 1.
 * 4. Offsets are exactly the running sum of padded sizes in file order, so tensors neither overlap
 *    nor leave gaps. Each tensor's bytes lie inside the file; the padding after the last tensor may
 *    be missing. Sums and products are checked for overflow.
 *
 * A mapped file that is truncated later raises SIGBUS on access. Nothing here can prevent that:
 * replace model files by rename, never in place.
 */
#include "base/cursor.h"
#include "base/err.h"
#include "base/map.h"
#include "base/util.h"
#include "gguf/gguf-impl.h"
#include "quant/quant.h"
#include <stdlib.h>
#include <string.h>

#define STRING_MAX ((uint64_t)1 << 30)
#define ARRAY_MAX ((uint64_t)1 << 30)
#define KEY_MAX 65535
#define TENSOR_NAME_MAX 63
#define ALIGNMENT_DEFAULT 32
#define ALIGNMENT_KEY "general.alignment"
/* The fewest bytes of an entry: key length, one byte of key, type, one byte of value; and of a
 * tensor: name length, n_dims, type, offset. */
#define KV_SIZE_MIN (8 + 1 + 4 + 1)
#define TENSOR_SIZE_MIN (8 + 4 + 4 + 8)

static const struct {
        const char *name;
        size_t size;
} value_types[GGUF_N_TYPES] = {
        [GGUF_U8] = {"u8", 1},
        [GGUF_I8] = {"i8", 1},
        [GGUF_U16] = {"u16", 2},
        [GGUF_I16] = {"i16", 2},
        [GGUF_U32] = {"u32", 4},
        [GGUF_I32] = {"i32", 4},
        [GGUF_F32] = {"f32", 4},
        [GGUF_BOOL] = {"bool", 1},
        [GGUF_STRING] = {"string", 0},
        [GGUF_ARRAY] = {"array", 0},
        [GGUF_U64] = {"u64", 8},
        [GGUF_I64] = {"i64", 8},
        [GGUF_F64] = {"f64", 8},
};

size_t gguf_type_size(enum gguf_type type) {
        return value_types[type].size;
}

const char *gguf_type_name(enum gguf_type type) {
        return value_types[type].name;
}

static int ends_early(struct err *e, const char *what) {
        return err_set(e, ERR_FORMAT, "file ends within %s", what);
}

static int read_string(struct cursor *c, struct gguf_str *ret, const char *what, struct err *e) {
        const uint8_t *p = NULL;
        uint64_t size;

        if (cursor_u64(c, &size))
                return ends_early(e, what);
        if (size > STRING_MAX)
                return err_set(e, ERR_FORMAT, "%s has length %llu, over the limit of 2^30", what,
                        (unsigned long long)size);
        if (cursor_bytes(c, (size_t)size, &p))
                return err_set(e, ERR_FORMAT, "%s has length %llu, but only %zu bytes are left",
                        what, (unsigned long long)size, cursor_left(c));
        *ret = (struct gguf_str){.data = (const char *)p, .size = (size_t)size};
        return 0;
}

static int read_header(struct gguf *g, struct cursor *c, struct err *e) {
        const uint8_t *magic;
        uint64_t n_tensors, n_kv;

        if (cursor_bytes(c, 4, &magic) || memcmp(magic, "GGUF", 4) != 0)
                return err_set(e, ERR_FORMAT, "not a GGUF file (wrong magic)");
        if (cursor_u32(c, &g->version))
                return ends_early(e, "the header");
        if (g->version == 0)
                return err_set(e, ERR_FORMAT, "GGUF version 0 does not exist");
        if ((g->version & 0xFFFF) == 0)
                return err_set(e, ERR_UNSUPPORTED,
                        "big-endian GGUF file (version reads as 0x%08x); convert it first",
                        g->version);
        if (g->version == 1)
                return err_set(e, ERR_UNSUPPORTED,
                        "GGUF version 1 (32-bit counts) is not supported, only 2 and 3");
        if (g->version > 3)
                return err_set(e, ERR_UNSUPPORTED, "GGUF version %u is not supported, only 2 and 3",
                        g->version);
        if (cursor_u64(c, &n_tensors) || cursor_u64(c, &n_kv))
                return ends_early(e, "the header");
        if (n_tensors > INT64_MAX || n_kv > INT64_MAX)
                return err_set(e, ERR_FORMAT, "negative count in the header: %lld %s",
                        (long long)(n_kv > INT64_MAX ? n_kv : n_tensors),
                        n_kv > INT64_MAX ? "metadata entries" : "tensors");
        if (n_kv > cursor_left(c) / KV_SIZE_MIN)
                return err_set(e, ERR_FORMAT, "%llu metadata entries cannot fit the %zu bytes left",
                        (unsigned long long)n_kv, cursor_left(c));
        if (n_tensors > cursor_left(c) / TENSOR_SIZE_MIN)
                return err_set(e, ERR_FORMAT, "%llu tensors cannot fit the %zu bytes left",
                        (unsigned long long)n_tensors, cursor_left(c));
        g->n_kv = (size_t)n_kv;
        g->n_tensors = (size_t)n_tensors;
        return 0;
}

static int check_bools(const uint8_t *p, size_t n, const char *key, struct err *e) {
        for (size_t i = 0; i < n; i++)
                if (p[i] > 1)
                        return err_set(e, ERR_FORMAT, "key '%s': %u is not a bool", key, p[i]);
        return 0;
}

/* The elements of an array; @kv->data is set to the first. */
static int read_elements(struct gguf_kv *kv, struct cursor *c, const char *key, struct err *e) {
        size_t element_size = gguf_type_size(kv->element), size;
        size_t size_min = element_size ? element_size : sizeof(uint64_t);
        char what[GGUF_SHOWN_SIZE + 24];

        if (kv->count > ARRAY_MAX)
                return err_set(e, ERR_FORMAT, "key '%s': array of %llu, over the limit of 2^30",
                        key, (unsigned long long)kv->count);
        if (mul_overflow((size_t)kv->count, size_min, &size) || size > cursor_left(c))
                return err_set(e, ERR_FORMAT,
                        "key '%s': array of %llu %s cannot fit the %zu bytes left", key,
                        (unsigned long long)kv->count, gguf_type_name(kv->element), cursor_left(c));
        kv->data = c->p;
        if (element_size) {
                c->p += size;
                return kv->element == GGUF_BOOL ? check_bools(kv->data, size, key, e) : 0;
        }
        snprintf(what, sizeof(what), "a string of array '%s'", key);
        for (uint64_t i = 0; i < kv->count; i++) {
                struct gguf_str s;
                int r = read_string(c, &s, what, e);

                if (r < 0)
                        return r;
        }
        return 0;
}

static int read_array(struct gguf_kv *kv, struct cursor *c, const char *key, struct err *e) {
        uint32_t element;

        if (cursor_u32(c, &element) || cursor_u64(c, &kv->count))
                return err_set(e, ERR_FORMAT, "file ends within the array of key '%s'", key);
        if (element == GGUF_ARRAY)
                return err_set(e, ERR_UNSUPPORTED, "key '%s': arrays of arrays are refused", key);
        if (element >= GGUF_N_TYPES)
                return err_set(e, ERR_FORMAT, "key '%s': array of type %d, which does not exist",
                        key, (int32_t)element);
        kv->element = (enum gguf_type)element;
        return read_elements(kv, c, key, e);
}

static int read_value(struct gguf_kv *kv, struct cursor *c, struct err *e) {
        char key[GGUF_SHOWN_SIZE], what[GGUF_SHOWN_SIZE + 24];
        struct gguf_str s;
        uint32_t type;
        int r;

        gguf_show(kv->key, key);
        if (cursor_u32(c, &type))
                return err_set(e, ERR_FORMAT, "file ends within key '%s'", key);
        if (type >= GGUF_N_TYPES)
                return err_set(e, ERR_FORMAT, "key '%s' has value type %d, which does not exist",
                        key, (int32_t)type);
        kv->type = (enum gguf_type)type;
        kv->count = 1;
        if (type == GGUF_ARRAY)
                return read_array(kv, c, key, e);
        if (type == GGUF_STRING) {
                snprintf(what, sizeof(what), "the value of key '%s'", key);
                r = read_string(c, &s, what, e);
                if (r < 0)
                        return r;
                kv->data = (const uint8_t *)s.data;
                kv->count = s.size;
                return 0;
        }
        if (cursor_bytes(c, gguf_type_size(kv->type), &kv->data))
                return err_set(e, ERR_FORMAT, "file ends within the value of key '%s'", key);
        return type == GGUF_BOOL ? check_bools(kv->data, 1, key, e) : 0;
}

static int read_kv(struct gguf *g, size_t i, struct cursor *c, struct err *e) {
        struct gguf_kv *kv = &g->kv[i];
        char shown[GGUF_SHOWN_SIZE];
        int r;

        r = read_string(c, &kv->key, "a metadata key", e);
        if (r < 0)
                return err_wrap(e, r, "metadata entry %zu of %zu", i + 1, g->n_kv);
        if (kv->key.size == 0)
                return err_set(e, ERR_FORMAT, "metadata entry %zu of %zu has an empty key", i + 1,
                        g->n_kv);
        if (kv->key.size > KEY_MAX)
                return err_set(e, ERR_FORMAT, "key '%s' has %zu bytes, over the limit of %d",
                        gguf_show(kv->key, shown), kv->key.size, KEY_MAX);
        r = read_value(kv, c, e);
        if (r < 0)
                return r;
        r = map_add(g->kv_by_key, kv->key.data, kv->key.size, kv, e);
        if (r > 0)
                return err_set(e, ERR_FORMAT, "key '%s' occurs twice", gguf_show(kv->key, shown));
        return r;
}

static int read_alignment(struct gguf *g, struct err *e) {
        const struct gguf_kv *kv = gguf_find(g, ALIGNMENT_KEY);
        uint32_t v = 0;
        int r;

        g->alignment = ALIGNMENT_DEFAULT;
        if (!kv)
                return 0;
        if (kv->type != GGUF_U32)
                return err_set(e, ERR_FORMAT, "key '" ALIGNMENT_KEY "' is %s, must be u32",
                        gguf_type_name(kv->type));
        r = gguf_get_u32(g, ALIGNMENT_KEY, &v, e);
        if (r < 0)
                return r;
        if (v < 8 || (v & (v - 1)))
                return err_set(e, ERR_FORMAT,
                        "key '" ALIGNMENT_KEY "' is %u, must be a power of two from 8", v);
        g->alignment = v;
        return 0;
}

/* Dimensions, and from them the size. @name is for messages. */
static int read_shape(struct gguf_tensor *t, struct cursor *c, const char *name, struct err *e) {
        uint64_t product = 1;

        if (cursor_u32(c, &t->n_dims))
                return err_set(e, ERR_FORMAT, "file ends within tensor '%s'", name);
        if (t->n_dims > ARRAY_SIZE(t->ne))
                return err_set(e, ERR_FORMAT,
                        "tensor '%s' has %u dimensions, at most 4 are allowed", name, t->n_dims);
        for (uint32_t d = 0; d < ARRAY_SIZE(t->ne); d++) {
                t->ne[d] = 1;
                if (d < t->n_dims && cursor_u64(c, &t->ne[d]))
                        return err_set(e, ERR_FORMAT, "file ends within tensor '%s'", name);
                if (t->ne[d] > INT64_MAX)
                        return err_set(e, ERR_FORMAT, "tensor '%s' has a negative dimension %lld",
                                name, (long long)t->ne[d]);
                /* zeros are left out, so that their place does not decide about overflow */
                if (t->ne[d] && (__builtin_mul_overflow(product, t->ne[d], &product) ||
                                        product >= INT64_MAX))
                        return err_set(e, ERR_FORMAT, "tensor '%s' has 2^63 values or more", name);
        }
        return 0;
}

static int check_type(struct gguf_tensor *t, const char *name, struct err *e) {
        const struct quant_info *info = quant_info(t->type);
        uint64_t rows, row_size;

        if (!info)
                return err_set(e, t->type > INT32_MAX ? ERR_FORMAT : ERR_UNSUPPORTED,
                        "tensor '%s' has type %d, which does not exist", name, (int32_t)t->type);
        if (t->ne[0] % info->block_values)
                return err_set(e, ERR_FORMAT,
                        "tensor '%s' has rows of %llu, no multiple of the %u values of a %s block",
                        name, (unsigned long long)t->ne[0], info->block_values, info->name);
        t->size = 0;
        if (t->ne[0] == 0 || t->ne[1] == 0 || t->ne[2] == 0 || t->ne[3] == 0)
                return 0;
        rows = t->ne[1] * t->ne[2] * t->ne[3]; /* read_shape() saw that it fits */
        row_size = quant_row_size(t->type, (size_t)t->ne[0]);
        if (row_size == 0 || __builtin_mul_overflow(rows, row_size, &t->size) ||
                t->size > INT64_MAX)
                return err_set(e, ERR_FORMAT, "tensor '%s' has 2^63 bytes or more", name);
        return 0;
}

/* The file's offset must equal *offset, the sum of padded sizes so far. */
static int check_offset(struct gguf *g, const struct gguf_tensor *t, uint64_t stated,
        uint64_t *offset, const char *name, struct err *e) {
        uint64_t end;

        if (stated != *offset)
                return err_set(e, ERR_FORMAT,
                        "tensor '%s' has offset %llu, must be %llu (no gap, no overlap)", name,
                        (unsigned long long)stated, (unsigned long long)*offset);
        if (__builtin_add_overflow(*offset, t->size, &end) ||
                __builtin_add_overflow(end, g->alignment - 1, &end))
                return err_set(e, ERR_FORMAT, "tensor '%s' ends past 2^64 bytes", name);
        *offset = end & ~(g->alignment - 1);
        return 0;
}

static int read_tensor(
        struct gguf *g, size_t i, struct cursor *c, uint64_t *offset, struct err *e) {
        struct gguf_tensor *t = &g->tensors[i];
        char name[GGUF_SHOWN_SIZE];
        uint64_t stated;
        int r;

        r = read_string(c, &t->name, "a tensor name", e);
        if (r < 0)
                return err_wrap(e, r, "tensor %zu of %zu", i + 1, g->n_tensors);
        gguf_show(t->name, name);
        if (t->name.size > TENSOR_NAME_MAX)
                return err_set(e, ERR_FORMAT,
                        "tensor name '%s' has %zu bytes, at most %d are allowed", name,
                        t->name.size, TENSOR_NAME_MAX);
        r = read_shape(t, c, name, e);
        if (r < 0)
                return r;
        if (cursor_u32(c, &t->type) || cursor_u64(c, &stated))
                return err_set(e, ERR_FORMAT, "file ends within tensor '%s'", name);
        r = check_type(t, name, e);
        if (r < 0)
                return r;
        r = check_offset(g, t, stated, offset, name, e);
        if (r < 0)
                return r;
        r = map_add(g->tensors_by_name, t->name.data, t->name.size, t, e);
        if (r > 0)
                return err_set(e, ERR_FORMAT, "tensor '%s' occurs twice", name);
        return r;
}

/* The data section starts at the next multiple of the alignment after @position. */
static int place_tensors(struct gguf *g, size_t position, struct err *e) {
        uint64_t base, offset = 0;

        g->meta_size = position;
        if (g->n_tensors == 0)
                return 0;
        base = (position + g->alignment - 1) & ~(g->alignment - 1);
        if (base > g->size)
                return err_set(e, ERR_FORMAT, "file ends before the tensor data");
        g->meta_size = (size_t)base;
        g->data_base = g->data + base;
        for (size_t i = 0; i < g->n_tensors; i++) {
                struct gguf_tensor *t = &g->tensors[i];
                char name[GGUF_SHOWN_SIZE];

                if (t->size) {
                        if (offset > g->size - base || t->size > g->size - base - offset)
                                return err_set(e, ERR_FORMAT,
                                        "tensor '%s' ends at byte %llu, but the file has %zu",
                                        gguf_show(t->name, name),
                                        (unsigned long long)(base + offset + t->size), g->size);
                        t->data = g->data_base + offset;
                        g->data_size = (size_t)(offset + t->size);
                }
                offset = (offset + t->size + g->alignment - 1) & ~(g->alignment - 1);
        }
        return 0;
}

int gguf_parse_into(struct gguf *g, struct err *e) {
        struct cursor c = {g->data, g->size ? g->data + g->size : g->data};
        uint64_t offset = 0;
        int r;

        r = read_header(g, &c, e);
        if (r < 0)
                return r;
        g->kv = calloc(g->n_kv + 1, sizeof(*g->kv));
        g->tensors = calloc(g->n_tensors + 1, sizeof(*g->tensors));
        if (!g->kv || !g->tensors)
                return err_set(e, ERR_NOMEM, "no memory for %zu metadata entries and %zu tensors",
                        g->n_kv, g->n_tensors);
        r = map_new(&g->kv_by_key, e);
        if (r < 0)
                return r;
        r = map_new(&g->tensors_by_name, e);
        if (r < 0)
                return r;
        for (size_t i = 0; i < g->n_kv; i++) {
                r = read_kv(g, i, &c, e);
                if (r < 0)
                        return r;
        }
        r = read_alignment(g, e);
        if (r < 0)
                return r;
        for (size_t i = 0; i < g->n_tensors; i++) {
                r = read_tensor(g, i, &c, &offset, e);
                if (r < 0)
                        return r;
        }
        return place_tensors(g, (size_t)(c.p - g->data), e);
}
