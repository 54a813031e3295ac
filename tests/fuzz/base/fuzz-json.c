/* SPDX-License-Identifier: MIT */
/* Bytes as a series of writer calls: whatever they are, the output is UTF-8 and never over its cap.
 */
#include "base/cursor.h"
#include "base/json.h"
#include "base/utf8.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int step(struct json *j, struct cursor *c) {
        uint8_t op, n = 0;
        const uint8_t *s;
        uint64_t v = 0;
        double d;
        char key[4] = "";

        if (cursor_u8(c, &op))
                return 1;
        switch (op % 10) {
        case 0:
                json_object_begin(j);
                break;
        case 1:
                json_object_end(j);
                break;
        case 2:
                json_array_begin(j);
                break;
        case 3:
                json_array_end(j);
                break;
        case 4:
                key[0] = (char)op;
                json_put_key(j, key);
                break;
        case 5:
                if (cursor_u8(c, &n) || cursor_bytes(c, n, &s))
                        return 1;
                json_put_string_n(j, s, n);
                break;
        case 6:
                if (cursor_u64(c, &v))
                        return 1;
                memcpy(&d, &v, sizeof(d));
                json_put_double(j, d);
                break;
        case 7:
                if (cursor_u64(c, &v))
                        return 1;
                json_put_i64(j, (int64_t)v);
                break;
        case 8:
                json_put_bool(j, op & 16);
                break;
        default:
                json_put_float(j, (float)op / 3);
        }
        return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct cursor c = {data, size ? data + size : data};
        struct buf b = {.max = 1000};
        struct json j;

        json_init(&j, &b);
        while (step(&j, &c) == 0)
                ;
        if (b.size > 1000 || (json_finish(&j) == 0 && !utf8_valid(b.data, b.size)))
                abort();
        buf_deinit(&b);
        return 0;
}
