/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Reads and validates GGUF model files (v2, v3). The file is mapped, not copied, and not trusted:
 * every count, length, type and offset is checked against the bytes left before it is used or
 * anything is allocated. After gguf_open() has succeeded, every tensor lies inside the file.
 * Immutable after opening: any thread may read.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct err;
struct gguf;

enum gguf_type {
        GGUF_U8,
        GGUF_I8,
        GGUF_U16,
        GGUF_I16,
        GGUF_U32,
        GGUF_I32,
        GGUF_F32,
        GGUF_BOOL,
        GGUF_STRING,
        GGUF_ARRAY,
        GGUF_U64,
        GGUF_I64,
        GGUF_F64,
        GGUF_N_TYPES
};

/* Bytes in the file; not NUL-terminated, not checked for UTF-8. */
struct gguf_str {
        const char *data;
        size_t size;
};

struct gguf_tensor {
        struct gguf_str name;
        uint32_t type; /* enum quant_type, known to quant_info() */
        uint32_t n_dims;
        uint64_t ne[4];   /* ne[0] is the row length; unused ones are 1 */
        uint64_t size;    /* bytes */
        const void *data; /* in the map */
};

/* Of a model in several files (-00001-of-00003.gguf) @path is the first one; the metadata are its, and
 * tensors, sizes and hashes are those of all files in order (split.c). */
int gguf_open(struct gguf **ret, const char *path, struct err *e);
/* The same over bytes in memory that outlive the object (tests, fuzzing). */
int gguf_parse(struct gguf **ret, const void *data, size_t size, struct err *e);
struct gguf *gguf_free(struct gguf *g);
DEFINE_CLEANUP(struct gguf *, gguf_free);

/* Typed metadata. 0: found; 1: no such key (*ret untouched); -ERR_FORMAT: wrong type or value
 * (named in @e). Any integer type is accepted if its value fits; a bool must be a bool. */
int gguf_get_u32(const struct gguf *g, const char *key, uint32_t *ret, struct err *e);
int gguf_get_f32(const struct gguf *g, const char *key, float *ret, struct err *e);
int gguf_get_bool(const struct gguf *g, const char *key, bool *ret, struct err *e);
int gguf_get_str(const struct gguf *g, const char *key, struct gguf_str *ret, struct err *e);

/* A view on an array value; elements are read with the calls below. */
struct gguf_array {
        enum gguf_type type; /* of the elements */
        uint64_t count;
        const uint8_t *data; /* packed; strings are u64 length + bytes */
};
int gguf_get_array(const struct gguf *g, const char *key, struct gguf_array *ret, struct err *e);
/* Element @i of a numeric array as a number (i < count). */
int64_t gguf_array_int(const struct gguf_array *a, uint64_t i);
double gguf_array_f64(const struct gguf_array *a, uint64_t i);
/* Walk a string array: *pos starts at 0; call `count` times. */
struct gguf_str gguf_array_next_str(const struct gguf_array *a, size_t *pos);

/* A number or a per-layer array: fill out[0..n) with the number or the elements (count must be n).
 */
int gguf_get_u32_per_layer(
        const struct gguf *g, const char *key, uint32_t *out, size_t n, struct err *e);

/* Iterate over metadata: i < gguf_n_kv(). */
size_t gguf_n_kv(const struct gguf *g);
struct gguf_str gguf_kv_key(const struct gguf *g, size_t i);

size_t gguf_n_tensors(const struct gguf *g);
const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, size_t i);
/* NULL if there is none. */
const struct gguf_tensor *gguf_tensor(const struct gguf *g, const char *name);

uint32_t gguf_version(const struct gguf *g);
uint64_t gguf_file_size(const struct gguf *g);
/* Bytes of all tensor data, with the padding between. */
uint64_t gguf_data_size(const struct gguf *g);

/* The caller has no more use for these bytes of the map than the next reader: their whole pages leave this
 * process, and come back when they are read. No change for files that were parsed from memory. */
void gguf_forget(const struct gguf *g, const void *data, size_t size);

/* Called now and then during a long read, on the reading thread: @done of @total bytes are read. A
 * nonzero result ends the read and becomes the read's result. */
struct gguf_progress {
        int (*fn)(void *arg, uint64_t done, uint64_t total);
        void *arg;
};
/* Hash all tensor data. Reads the whole file once; callers keep the result. @p may be NULL. 0, or
 * the nonzero result of @p. */
int gguf_hash_data(const struct gguf *g, const struct gguf_progress *p, uint64_t *ret);
/* Hash of everything before the tensor data: metadata and tensor infos. */
uint64_t gguf_hash_meta(const struct gguf *g);

/* Identifies a file and its state: equal for two opens of a file that was not written in between. Of
 * several files: sum of sizes, latest times, and a hash of the others in the inode.
 * Times are nanoseconds of the realtime clock. */
struct gguf_identity {
        uint64_t device, inode, size, mtime_nsec, ctime_nsec;
};
/* The file's current identity. -ERR_STATE for bytes in memory (gguf_parse()); -ERR_SYS. */
int gguf_identify(const struct gguf *g, struct gguf_identity *ret, struct err *e);
