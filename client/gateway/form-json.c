/* SPDX-License-Identifier: MIT */
#include "client/gateway/form-json.h"

int form_dump(struct form *form, const json_t *value, const char **ret, struct err *e) {
        const size_t flags = JSON_COMPACT | JSON_ENCODE_ANY;
        size_t size = json_dumpb(value, NULL, 0, flags);
        char *text = size > 0 ? form_alloc(form, size + 1) : NULL;

        /* libjansson gives 0 where it has no memory for its own needs */
        if (!text || json_dumpb(value, text, size, flags) != size)
                return err_no_memory(e);
        *ret = text;
        return 0;
}
