/* SPDX-License-Identifier: MIT */
#pragma once
/* What the files of lib/gguf share. */
#include "base/file.h"
#include "gguf/gguf.h"

struct map;

/* One metadata entry; @data points into the file, checked to hold all of the value. */
struct gguf_kv {
        struct gguf_str key;
        enum gguf_type type;
        enum gguf_type element; /* of an array */
        uint64_t count;         /* bytes of a string, elements of an array, else 1 */
        const uint8_t *data;    /* of a string: its first byte; of an array: its first element */
};

struct gguf {
        struct file_map map; /* when opened by path */
        const uint8_t *data; /* [size] */
        size_t size;
        uint32_t version;
        uint64_t alignment;
        size_t n_kv, n_tensors;
        struct gguf_kv *kv;          /* [n_kv] */
        struct gguf_tensor *tensors; /* [n_tensors] */
        struct map *kv_by_key;
        struct map *tensors_by_name; /* of all parts */
        size_t meta_size;            /* bytes before the data section */
        size_t data_size;            /* bytes from there to the end of the last tensor */
        const uint8_t *data_base;    /* start of the data section, NULL without tensors */
        struct gguf **parts;         /* owned: the other files of a model in several */
        size_t n_parts;
};

/* Fills @g from its data and size. Outputs half-built on failure: free the object. */
int gguf_parse_into(struct gguf *g, struct err *e);

/* One file, mapped and parsed, whatever it says of others. */
int gguf_open_one(struct gguf **ret, const char *path, struct err *e);

const struct gguf_kv *gguf_find(const struct gguf *g, const char *key);
/* Bytes of a scalar or array element; 0 for strings and arrays. */
size_t gguf_type_size(enum gguf_type type);
const char *gguf_type_name(enum gguf_type type);

/* @s for an error message: cut, and everything but printable ASCII replaced. */
#define GGUF_SHOWN_SIZE 68
const char *gguf_show(struct gguf_str s, char out[GGUF_SHOWN_SIZE]);
