/* SPDX-License-Identifier: MIT */
#include "client/acp/note.h"
#include "base/err.h"
#include <string.h>

bool acp_note_has_tag(const struct confab_about *about) {
        for (size_t i = 0; about && i < about->n_tags; i++)
                if (strcmp(about->tags[i], ACP_TAG) == 0)
                        return true;
        return false;
}

/* *ret is NULL if @metadata is no JSON object. */
static int load(const char *metadata, json_t **ret) {
        json_error_t e;

        *ret = metadata && *metadata ? json_loads(metadata, 0, &e) : NULL;
        if (!*ret && metadata && *metadata &&
                (!e.text[0] || json_error_code(&e) == json_error_out_of_memory))
                return -ERR_NOMEM;
        return 0;
}

int acp_note_cwd(const char *metadata, char **ret) {
        json_t *root;
        const char *cwd;
        char *copy = NULL;
        int r = load(metadata, &root);

        if (r < 0)
                return r;
        cwd = json_string_value(json_object_get(root, "cwd"));
        if (cwd && *cwd == '/') {
                copy = strdup(cwd);
                if (!copy)
                        r = -ERR_NOMEM;
        }
        json_decref(root);
        if (r == 0)
                *ret = copy;
        return r;
}

static int write_with_cwd(struct buf *out, json_t *root, const char *cwd) {
        struct json j;
        const char *key;
        json_t *value;

        json_init(&j, out);
        json_object_begin(&j);
        json_object_foreach(root, key, value) {
                if (strcmp(key, "cwd") == 0)
                        continue;
                json_put_key(&j, key);
                acp_put_value(&j, value);
        }
        json_put_key(&j, "cwd");
        json_put_string(&j, cwd);
        json_object_end(&j);
        return json_finish(&j);
}

int acp_note_metadata(const char *metadata, const char *cwd, char **ret) {
        struct buf out = BUF_NULL;
        json_t *root;
        int r = load(metadata, &root);

        if (r < 0)
                return r;
        r = write_with_cwd(&out, root, cwd);
        if (r == -ERR_LIMIT) { /* too deep */
                buf_deinit(&out);
                r = write_with_cwd(&out, NULL, cwd);
        }
        json_decref(root);
        if (r == 0)
                *ret = buf_take(&out, NULL);
        buf_deinit(&out);
        return r;
}
