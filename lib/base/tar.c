/* SPDX-License-Identifier: MIT */
#include "base/tar.h"
#include "base/buf.h"
#include "base/err.h"
#include <stdio.h>
#include <string.h>

/* Places in a header: offset and bytes of each field. */
enum {
        NAME = 0,
        MODE = 100,
        UID = 108,
        GID = 116,
        SIZE = 124,
        MTIME = 136,
        SUM = 148,
        TYPE = 156,
        MAGIC = 257,
        PREFIX = 345,
        NUMBER = 12, /* bytes of SIZE and MTIME, with the NUL */
        SHORT = 8,   /* of MODE, UID, GID and SUM */
        MAGIC_SIZE = 8,
        PREFIX_SIZE = 155
};
#define USTAR_MAX 077777777777ull /* eleven octal digits */

static unsigned sum_of(const uint8_t block[TAR_BLOCK]) {
        unsigned sum = 0;

        for (size_t i = 0; i < TAR_BLOCK; i++)
                sum += i >= SUM && i < SUM + SHORT ? ' ' : block[i];
        return sum;
}

static void put_octal(uint8_t *field, size_t size, uint64_t value) {
        char text[32];

        (void)snprintf(text, sizeof(text), "%0*llo", (int)size - 1, (unsigned long long)value);
        memcpy(field, text, size);
}

static int put_block(struct buf *out, const char *name, char type, uint64_t size, uint64_t mtime) {
        uint8_t block[TAR_BLOCK] = {0};

        memcpy(block + NAME, name, strnlen(name, TAR_NAME_MAX));
        put_octal(block + MODE, SHORT, 0600);
        put_octal(block + UID, SHORT, 0);
        put_octal(block + GID, SHORT, 0);
        put_octal(block + SIZE, NUMBER, size);
        put_octal(block + MTIME, NUMBER, mtime > USTAR_MAX ? USTAR_MAX : mtime);
        block[TYPE] = (uint8_t)type;
        memcpy(block + MAGIC, "ustar\00000", MAGIC_SIZE);
        put_octal(block + SUM, SHORT - 1, sum_of(block));
        block[SUM + SHORT - 1] = ' ';
        return buf_append(out, block, sizeof(block));
}

/* A record is "LENGTH key=value\n", and LENGTH counts itself. */
static int put_pax(struct buf *out, uint64_t size, uint64_t mtime) {
        uint8_t block[TAR_BLOCK] = {0};
        char tail[48];
        int n = snprintf(tail, sizeof(tail), " size=%llu\n", (unsigned long long)size);
        int total = n + 2; /* 20 digits at most: the record has two digits of length */
        int r;

        n = snprintf((char *)block, sizeof(block), "%d%s", total, tail);
        r = put_block(out, "size", 'x', (uint64_t)n, mtime);
        return r < 0 ? r : buf_append(out, block, sizeof(block));
}

int tar_put_header(struct buf *out, const char *name, uint64_t size, uint64_t mtime) {
        int r = size > USTAR_MAX ? put_pax(out, size, mtime) : 0;

        return r < 0 ? r : put_block(out, name, '0', size > USTAR_MAX ? 0 : size, mtime);
}

int tar_put_end(struct buf *out) {
        static const uint8_t zeroes[2 * TAR_BLOCK];

        return buf_append(out, zeroes, sizeof(zeroes));
}

/* Octal digits, which end with NUL, a blank, or the field; nothing else. */
static int read_octal(const uint8_t *field, size_t size, uint64_t *ret) {
        uint64_t v = 0;
        size_t i = 0;

        for (; i < size && field[i] >= '0' && field[i] <= '7'; i++)
                v = v * 8 + (field[i] - '0'); /* at most 12 digits */
        if (i == 0 || (i < size && field[i] != 0 && field[i] != ' '))
                return -ERR_FORMAT;
        *ret = v;
        return 0;
}

static bool is_zero(const uint8_t *p, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (p[i])
                        return false;
        return true;
}

int tar_read_header(struct tar_entry *ret, const uint8_t block[TAR_BLOCK], struct err *e) {
        struct tar_entry entry = {0};
        uint64_t sum;

        if (is_zero(block, TAR_BLOCK)) {
                *ret = (struct tar_entry){.kind = TAR_END};
                return 0;
        }
        if (memcmp(block + MAGIC, "ustar", 5) != 0 || read_octal(block + SUM, SHORT, &sum) < 0 ||
                sum != sum_of(block))
                return err_set(e, ERR_FORMAT, "this is no header of a tar archive");
        if (read_octal(block + SIZE, NUMBER, &entry.size) < 0)
                return err_set(e, ERR_FORMAT, "a header of the archive has no proper size");
        if (block[NAME + TAR_NAME_MAX] || !is_zero(block + PREFIX, PREFIX_SIZE))
                return err_set(e, ERR_UNSUPPORTED, "a name in the archive is longer than %d bytes",
                        TAR_NAME_MAX);
        memcpy(entry.name, block + NAME, TAR_NAME_MAX);
        switch (block[TYPE]) {
        case '0':
        case 0:
                entry.kind = TAR_FILE;
                break;
        case 'x':
                entry.kind = TAR_PAX;
                break;
        default:
                return err_set(e, ERR_UNSUPPORTED, "the archive has something that is no file");
        }
        *ret = entry;
        return 0;
}

/* Digits at data[*at], up to the character @end, which is passed, too. */
static bool take_number(const char *data, size_t n, size_t *at, char end, uint64_t *ret) {
        uint64_t v = 0;
        size_t i = *at;

        for (; i < n && data[i] >= '0' && data[i] <= '9'; i++)
                if (__builtin_mul_overflow(v, (uint64_t)10, &v) ||
                        __builtin_add_overflow(v, (uint64_t)(data[i] - '0'), &v))
                        return false;
        if (i == *at || i == n || data[i] != end)
                return false;
        *at = i + 1;
        *ret = v;
        return true;
}

int tar_read_pax(const char *data, size_t n, uint64_t *ret_size, struct err *e) {
        uint64_t length, size = 0;
        bool found = false;

        for (size_t begin = 0, at = 0; begin < n; begin += length, at = begin) {
                if (!take_number(data, n, &at, ' ', &length) || length <= at - begin ||
                        length > n - begin || data[begin + length - 1] != '\n')
                        return err_set(e, ERR_FORMAT, "a pax header of the archive is malformed");
                if (begin + length - at <= 5 || memcmp(data + at, "size=", 5) != 0)
                        continue;
                at += 5;
                if (!take_number(data, begin + length, &at, '\n', &size) || at != begin + length)
                        return err_set(e, ERR_FORMAT, "a pax header of the archive has no size");
                found = true;
        }
        if (found)
                *ret_size = size;
        return !found;
}
