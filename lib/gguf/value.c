/* SPDX-License-Identifier: MIT */
#include "base/cursor.h"
#include "base/err.h"
#include "gguf/gguf-impl.h"
#include <assert.h>
#include <string.h>

/* Little-endian load of @size bytes. */
static uint64_t load(const uint8_t *p, size_t size) {
        uint64_t v = 0;

        for (size_t i = size; i-- > 0;)
                v = v << 8 | p[i];
        return v;
}

static double load_f32(const uint8_t *p) {
        uint32_t u = (uint32_t)load(p, 4);
        float f;

        memcpy(&f, &u, sizeof(f));
        return (double)f;
}

static double load_f64(const uint8_t *p) {
        uint64_t u = load(p, 8);
        double d;

        memcpy(&d, &u, sizeof(d));
        return d;
}

static bool is_integer(enum gguf_type type) {
        switch (type) {
        case GGUF_U8:
        case GGUF_I8:
        case GGUF_U16:
        case GGUF_I16:
        case GGUF_U32:
        case GGUF_I32:
        case GGUF_U64:
        case GGUF_I64:
                return true;
        default:
                return false;
        }
}

/* Saturates what int64 cannot hold; NaN gives 0. */
static int64_t to_int(double v) {
        if (v != v)
                return 0;
        if (v >= 0x1p63)
                return INT64_MAX;
        if (v < -0x1p63)
                return INT64_MIN;
        return (int64_t)v;
}

static int64_t number_int(enum gguf_type type, const uint8_t *p) {
        switch (type) {
        case GGUF_I8:
                return (int8_t)load(p, 1);
        case GGUF_I16:
                return (int16_t)load(p, 2);
        case GGUF_I32:
                return (int32_t)load(p, 4);
        case GGUF_I64:
                return (int64_t)load(p, 8);
        case GGUF_U64: {
                uint64_t v = load(p, 8);

                return v > INT64_MAX ? INT64_MAX : (int64_t)v;
        }
        case GGUF_F32:
                return to_int(load_f32(p));
        case GGUF_F64:
                return to_int(load_f64(p));
        default: /* u8, u16, u32, bool; strings and arrays have size 0 and give 0 */
                return (int64_t)load(p, gguf_type_size(type));
        }
}

static bool fits_u32(enum gguf_type type, const uint8_t *p, uint32_t *ret) {
        int64_t v = number_int(type, p);

        if (v < 0 || v > UINT32_MAX)
                return false;
        *ret = (uint32_t)v;
        return true;
}

static int wrong_type(const struct gguf_kv *kv, const char *wanted, struct err *e) {
        char key[GGUF_SHOWN_SIZE];

        return err_set(e, ERR_FORMAT, "key '%s' is %s, must be %s", gguf_show(kv->key, key),
                gguf_type_name(kv->type), wanted);
}

int gguf_get_u32(const struct gguf *g, const char *key, uint32_t *ret, struct err *e) {
        const struct gguf_kv *kv = gguf_find(g, key);

        if (!kv)
                return 1;
        if (!is_integer(kv->type))
                return wrong_type(kv, "an integer", e);
        if (!fits_u32(kv->type, kv->data, ret))
                return err_set(e, ERR_FORMAT, "key '%s' does not fit 32 bits unsigned", key);
        return 0;
}

int gguf_get_f32(const struct gguf *g, const char *key, float *ret, struct err *e) {
        const struct gguf_kv *kv = gguf_find(g, key);

        if (!kv)
                return 1;
        if (kv->type == GGUF_F32)
                *ret = (float)load_f32(kv->data);
        else if (kv->type == GGUF_F64)
                *ret = (float)load_f64(kv->data);
        else
                return wrong_type(kv, "f32", e);
        return 0;
}

int gguf_get_bool(const struct gguf *g, const char *key, bool *ret, struct err *e) {
        const struct gguf_kv *kv = gguf_find(g, key);

        if (!kv)
                return 1;
        if (kv->type != GGUF_BOOL)
                return wrong_type(kv, "bool", e);
        *ret = kv->data[0];
        return 0;
}

int gguf_get_str(const struct gguf *g, const char *key, struct gguf_str *ret, struct err *e) {
        const struct gguf_kv *kv = gguf_find(g, key);

        if (!kv)
                return 1;
        if (kv->type != GGUF_STRING)
                return wrong_type(kv, "a string", e);
        *ret = (struct gguf_str){.data = (const char *)kv->data, .size = (size_t)kv->count};
        return 0;
}

int gguf_get_array(const struct gguf *g, const char *key, struct gguf_array *ret, struct err *e) {
        const struct gguf_kv *kv = gguf_find(g, key);

        if (!kv)
                return 1;
        if (kv->type != GGUF_ARRAY)
                return wrong_type(kv, "an array", e);
        *ret = (struct gguf_array){.type = kv->element, .count = kv->count, .data = kv->data};
        return 0;
}

int64_t gguf_array_int(const struct gguf_array *a, uint64_t i) {
        assert(i < a->count);
        return number_int(a->type, a->data + i * gguf_type_size(a->type));
}

double gguf_array_f64(const struct gguf_array *a, uint64_t i) {
        const uint8_t *p = a->data + i * gguf_type_size(a->type);

        assert(i < a->count);
        if (a->type == GGUF_F32)
                return load_f32(p);
        if (a->type == GGUF_F64)
                return load_f64(p);
        if (a->type == GGUF_U64)
                return (double)load(p, 8);
        return (double)number_int(a->type, p);
}

struct gguf_str gguf_array_next_str(const struct gguf_array *a, size_t *pos) {
        const uint8_t *p = a->data + *pos;
        struct gguf_str s = {.data = (const char *)p + 8, .size = (size_t)load(p, 8)};

        assert(a->type == GGUF_STRING);
        *pos += 8 + s.size;
        return s;
}

int gguf_get_u32_per_layer(
        const struct gguf *g, const char *key, uint32_t *out, size_t n, struct err *e) {
        const struct gguf_kv *kv = gguf_find(g, key);
        size_t step;
        uint32_t v;
        int r;

        if (!kv)
                return 1;
        if (kv->type != GGUF_ARRAY) {
                r = gguf_get_u32(g, key, &v, e);
                for (size_t i = 0; r == 0 && i < n; i++)
                        out[i] = v;
                return r;
        }
        if (!is_integer(kv->element))
                return err_set(e, ERR_FORMAT, "key '%s' is an array of %s, must be integers", key,
                        gguf_type_name(kv->element));
        if (kv->count != n)
                return err_set(e, ERR_FORMAT, "key '%s' has %llu elements, must be one or %zu", key,
                        (unsigned long long)kv->count, n);
        step = gguf_type_size(kv->element);
        for (size_t i = 0; i < n; i++)
                if (!fits_u32(kv->element, kv->data + i * step, &v))
                        return err_set(e, ERR_FORMAT,
                                "key '%s', element %zu, does not fit 32 bits unsigned", key, i);
        for (size_t i = 0; i < n; i++)
                fits_u32(kv->element, kv->data + i * step, &out[i]);
        return 0;
}
