/* SPDX-License-Identifier: MIT */
/* What models may consist of, from the tables of the modules that read them. */
#include <string.h>

#include "base/json.h"
#include "base/util.h"
#include "cli.h"
#include "model/model.h"
#include "quant/quant.h"
#include "tok/tok.h"

static const char *type_at(size_t i) {
        for (uint32_t type = 0; type < QUANT_N_TYPES; type++) {
                const struct quant_info *info = quant_info(type);

                if (info && info->supported && i-- == 0)
                        return info->name;
        }
        return NULL;
}

static const struct {
        const char *one, *many;
        const char *(*at)(size_t i);
} lists[] = {
        {"architecture", "architectures", model_supported},
        {"type", "types", type_at},
        {"tokenizer", "tokenizers", tok_supported_model},
        {"pre_tokenizer", "pre_tokenizers", tok_supported_pre},
};

static int put_lines(struct buf *out) {
        const char *s;
        int r = 0;

        for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
                for (size_t k = 0; r == 0 && (s = lists[i].at(k)); k++)
                        r = buf_printf(out, "%-24s %s\n", lists[i].one, s);
        return r;
}

/* Each name of a group is an element of its own. */
static void put_names(struct json *j, const char *s) {
        while (*s) {
                size_t n = strcspn(s, " ");

                json_put_string_n(j, s, n);
                s += n;
                s += strspn(s, " ");
        }
}

static int put_json(struct buf *out) {
        struct json j;
        const char *s;
        int r;

        json_init(&j, out);
        json_object_begin(&j);
        for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
                json_put_key(&j, lists[i].many);
                json_array_begin(&j);
                for (size_t k = 0; (s = lists[i].at(k)); k++)
                        put_names(&j, s);
                json_array_end(&j);
        }
        json_object_end(&j);
        r = json_finish(&j);
        return r < 0 ? r : buf_append_str(out, "\n");
}

int cli_supported(bool json) {
        struct buf out = BUF_NULL;
        int status = (json ? put_json(&out) : put_lines(&out)) < 0 ? CLI_FAILED : cli_print(&out);

        buf_deinit(&out);
        return status;
}
