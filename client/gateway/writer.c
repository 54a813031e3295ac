/* SPDX-License-Identifier: MIT */
/* Reads JSON by base/json-read.h, whose names libjansson has as well. */
#include "base/err.h"
#include "base/json-read.h"
#include "client/gateway/writer.h"

int writer_is_object(const char *text, size_t size) {
        enum json_item item = JSON_ITEM_END;
        struct json_reader reader;
        int r;

        json_reader_init(&reader, text, size);
        r = json_next(&reader, &item, NULL);
        if (r == 0 && item != JSON_ITEM_OBJECT)
                r = -ERR_INVALID;
        if (r == 0)
                r = json_skip(&reader, item, NULL);
        if (r == 0)
                r = json_next(&reader, &item, NULL); /* the end, or what is wrong behind it */
        json_reader_deinit(&reader);
        return r == -ERR_INVALID ? 0 : r < 0 ? r : 1;
}
