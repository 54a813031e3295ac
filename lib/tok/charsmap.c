/* SPDX-License-Identifier: MIT */
/*
 * SentencePiece's precompiled character map: what texts are replaced by before they are tokenised
 * (a model's normal form, such as NFKC). The bytes in the file are
 *
 *   u32 size of the trie in bytes | trie: u32 units | replacements, each ended by a NUL byte
 *
 * all little-endian. The trie is a double array as Darts-clone lays it out. A unit has its label in
 * bits 0-7 and 31, "has a value" in bit 8, and an offset in bits 10-30, which is shifted by 8 more
 * if bit 9 is set. From the unit at p the byte b leads to the unit at p ^ offset ^ b, if that one
 * has the label b; the value of a unit is in bits 0-30 of the unit at p ^ offset, and is where its
 * replacement begins.
 *
 * Nothing of the trie is trusted: a path that leaves the array ends there, and each step takes one
 * byte of the text, so no path is endless.
 */
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "tok/tok-internal.h"

static uint32_t read_u32(const uint8_t *p) {
        return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint32_t unit_at(const struct tok_charsmap *m, uint32_t at) {
        return read_u32(m->units + (size_t)at * 4);
}

static uint32_t unit_offset(uint32_t unit) {
        return unit >> 10 << ((unit & 1u << 9) >> 6);
}

static uint32_t unit_label(uint32_t unit) {
        return unit & (1u << 31 | 0xffu);
}

int tok_charsmap_load(struct tok_charsmap *m, const struct gguf *g, struct err *e) {
        struct gguf_array a;
        uint32_t size;
        int r;

        r = gguf_get_array(g, "tokenizer.ggml.precompiled_charsmap", &a, e);
        if (r != 0)
                return r < 0 ? r : 0;
        if ((a.type != GGUF_U8 && a.type != GGUF_I8) || (a.count > 0 && a.count < 4))
                return err_set(e, ERR_FORMAT,
                        "tokenizer.ggml.precompiled_charsmap must be an array of bytes");
        if (a.count == 0)
                return 0;
        size = read_u32(a.data);
        if (size == 0 || size % 4 != 0 || size > a.count - 4)
                return err_set(e, ERR_FORMAT,
                        "tokenizer.ggml.precompiled_charsmap has a trie of %u bytes in %llu bytes",
                        size, (unsigned long long)a.count);
        m->units = (const uint8_t *)a.data + 4;
        m->n_units = size / 4;
        m->texts = (const char *)a.data + 4 + size;
        m->texts_size = (size_t)a.count - 4 - size;
        if (m->texts_size == 0 || m->texts[m->texts_size - 1] != 0)
                return err_set(e, ERR_FORMAT,
                        "the replacements of tokenizer.ggml.precompiled_charsmap have no end");
        return 0;
}

size_t tok_charsmap_find(
        const struct tok_charsmap *m, const char *text, size_t n, const char **ret) {
        uint32_t at = 0;
        size_t found = 0;

        if (m->n_units == 0)
                return 0;
        at ^= unit_offset(unit_at(m, 0));
        for (size_t i = 0; i < n; i++) {
                uint32_t unit;

                at ^= (uint8_t)text[i];
                if (at >= m->n_units)
                        break;
                unit = unit_at(m, at);
                if (unit_label(unit) != (uint8_t)text[i])
                        break;
                at ^= unit_offset(unit);
                if (unit >> 8 & 1 && at < m->n_units) {
                        uint32_t value = unit_at(m, at) & 0x7fffffff;

                        if (value < m->texts_size) {
                                *ret = m->texts + value;
                                found = i + 1;
                        }
                }
        }
        return found;
}
