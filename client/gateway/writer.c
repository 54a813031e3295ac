/* SPDX-License-Identifier: MIT */
/* Reads JSON by base/json-read.h, whose names libjansson has as well. */
#include "base/json-read.h"
#include "client/gateway/writer.h"

bool writer_is_object(const char *text, size_t size) {
        enum json_item item = JSON_END;
        struct json_reader reader;
        bool is;

        json_reader_init(&reader, text, size);
        is = json_next(&reader, &item, NULL) == 0 && item == JSON_OBJECT &&
             json_skip(&reader, item, NULL) == 0 && json_next(&reader, &item, NULL) == 0 &&
             item == JSON_END;
        json_reader_deinit(&reader);
        return is;
}
