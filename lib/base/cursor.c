/* SPDX-License-Identifier: MIT */
#include "base/cursor.h"
#include <string.h>

int cursor_bytes(struct cursor *c, size_t n, const uint8_t **ret) {
        if (cursor_left(c) < n)
                return 1;
        *ret = c->p;
        c->p += n;
        return 0;
}

int cursor_u8(struct cursor *c, uint8_t *ret) {
        const uint8_t *p;

        if (cursor_bytes(c, 1, &p))
                return 1;
        *ret = p[0];
        return 0;
}

int cursor_u16(struct cursor *c, uint16_t *ret) {
        const uint8_t *p;

        if (cursor_bytes(c, 2, &p))
                return 1;
        *ret = (uint16_t)(p[0] | p[1] << 8);
        return 0;
}

int cursor_u32(struct cursor *c, uint32_t *ret) {
        const uint8_t *p;

        if (cursor_bytes(c, 4, &p))
                return 1;
        *ret = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        return 0;
}

int cursor_u64(struct cursor *c, uint64_t *ret) {
        const uint8_t *p;
        uint64_t v = 0;

        if (cursor_bytes(c, 8, &p))
                return 1;
        for (int i = 7; i >= 0; i--)
                v = v << 8 | p[i];
        *ret = v;
        return 0;
}

int cursor_f32(struct cursor *c, float *ret) {
        uint32_t bits;

        if (cursor_u32(c, &bits))
                return 1;
        memcpy(ret, &bits, sizeof(*ret));
        return 0;
}
