/* SPDX-License-Identifier: MIT */
#include "base/buf.h"
#include "base/charge.h"
#include "base/err.h"
#include "base/util.h"
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define BUF_FIRST_CAPACITY 64

int buf_reserve(struct buf *b, size_t n) {
        size_t need, capacity;
        uint8_t *data;
        int r;

        if (add_overflow(b->size, n, &need) || add_overflow(need, 1, &need))
                return -ERR_NOMEM;
        if (b->max && need - 1 > b->max)
                return -ERR_LIMIT;
        if (need <= b->capacity)
                return 0;
        capacity = MAX(b->capacity, (size_t)BUF_FIRST_CAPACITY);
        if (!b->data)
                capacity = MAX(capacity, need);
        while (capacity < need)
                if (mul_overflow(capacity, 2, &capacity))
                        return -ERR_NOMEM;
        r = b->charge ? charge_take(b->charge, capacity - b->capacity, "a text", NULL) : 0;
        if (r < 0)
                return r;
        data = realloc(b->data, capacity);
        if (!data) {
                if (b->charge)
                        charge_give(b->charge, capacity - b->capacity);
                return -ERR_NOMEM;
        }
        data[b->size] = 0;
        b->data = data;
        b->capacity = capacity;
        return 0;
}

int buf_append(struct buf *b, const void *data, size_t n) {
        int r = buf_reserve(b, n);

        if (r < 0)
                return r;
        if (n)
                memcpy(b->data + b->size, data, n);
        b->size += n;
        b->data[b->size] = 0;
        return 0;
}

int buf_append_str(struct buf *b, const char *s) {
        return buf_append(b, s, strlen(s));
}

int buf_append_text(struct buf *b, const void *text, size_t n) {
        static const char instead[] = "\xef\xbf\xbd";
        const char *s = text;
        size_t size = n;
        int r;

        if (n == 0)
                return 0;
        for (size_t i = 0; i < n; i++)
                size += s[i] ? 0 : strlen(instead) - 1;
        r = buf_reserve(b, size);
        for (size_t i = 0; r == 0 && i < n; i++)
                r = s[i] ? buf_append(b, &s[i], 1) : buf_append_str(b, instead);
        return r;
}

int buf_printf(struct buf *b, const char *fmt, ...) {
        va_list ap;
        int n, r;

        va_start(ap, fmt);
        n = vsnprintf(NULL, 0, fmt, ap);
        va_end(ap);
        if (n < 0)
                return -ERR_NOMEM;
        r = buf_reserve(b, (size_t)n);
        if (r < 0)
                return r;
        va_start(ap, fmt);
        vsnprintf((char *)b->data + b->size, (size_t)n + 1, fmt, ap);
        va_end(ap);
        b->size += (size_t)n;
        return 0;
}

int buf_append_u32(struct buf *b, uint32_t v) {
        uint8_t le[4];

        for (size_t i = 0; i < sizeof(le); i++)
                le[i] = (uint8_t)(v >> 8 * i);
        return buf_append(b, le, sizeof(le));
}

int buf_append_u64(struct buf *b, uint64_t v) {
        uint8_t le[8];

        for (size_t i = 0; i < sizeof(le); i++)
                le[i] = (uint8_t)(v >> 8 * i);
        return buf_append(b, le, sizeof(le));
}

void buf_consume(struct buf *b, size_t n) {
        assert(n <= b->size);
        if (n == 0)
                return;
        memmove(b->data, b->data + n, b->size - n + 1); /* with the final 0 */
        b->size -= n;
}

char *buf_take(struct buf *b, size_t *ret_size) {
        struct buf empty = {.max = b->max, .charge = b->charge};
        size_t size = b->size;
        char *s = b->data ? (char *)b->data : calloc(1, 1);

        if (!s)
                return NULL;
        *b = empty;
        if (ret_size)
                *ret_size = size;
        return s;
}

void buf_deinit(struct buf *b) {
        if (!b)
                return;
        free(b->data);
        if (b->charge)
                charge_give(b->charge, b->capacity);
        *b = (struct buf){.max = b->max, .charge = b->charge};
}
