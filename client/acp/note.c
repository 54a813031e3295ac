/* SPDX-License-Identifier: MIT */
#include "client/acp/note.h"
#include "base/cleanup.h"
#include "base/err.h"
#include <string.h>

bool acp_note_has_tag(const struct confab_about *about) {
        for (size_t i = 0; about && i < about->n_tags; i++)
                if (strcmp(about->tags[i], ACP_TAG) == 0)
                        return true;
        return false;
}

/* *ret is NULL if @metadata is no JSON object. 0, -ERR_NOMEM. */
static int load(const char *metadata, struct json_value **ret) {
        int r = metadata && *metadata ? json_tree_parse(ret, metadata, strlen(metadata), NULL) : 0;

        if (*ret && (*ret)->kind != JSON_KIND_OBJECT)
                *ret = json_tree_free(*ret);
        return r == -ERR_NOMEM ? r : 0;
}

int acp_note_cwd(const char *metadata, char **ret) {
        _cleanup_(json_tree_freep) struct json_value *root = NULL;
        const char *cwd;
        char *copy = NULL;
        int r = load(metadata, &root);

        if (r < 0)
                return r;
        cwd = json_tree_string(json_tree_get(root, "cwd"));
        if (cwd && *cwd == '/') {
                copy = strdup(cwd);
                if (!copy)
                        return -ERR_NOMEM;
        }
        *ret = copy;
        return 0;
}

static int write_with_cwd(struct buf *out, const struct json_value *root, const char *cwd) {
        struct json j;

        json_init(&j, out);
        json_object_begin(&j);
        for (const struct json_value *v = root ? root->first : NULL; v; v = v->next) {
                if (v->key_size == 3 && memcmp(v->key, "cwd", 3) == 0)
                        continue;
                json_put_key_n(&j, v->key, v->key_size);
                json_tree_put(&j, v);
        }
        json_put_key_string(&j, "cwd", cwd);
        json_object_end(&j);
        return json_finish(&j);
}

int acp_note_metadata(const char *metadata, const char *cwd, char **ret) {
        _cleanup_(json_tree_freep) struct json_value *root = NULL;
        struct buf out = BUF_NULL;
        int r = load(metadata, &root);

        if (r < 0)
                return r;
        r = write_with_cwd(&out, root, cwd);
        if (r == -ERR_LIMIT) { /* nested too deep to be written */
                buf_deinit(&out);
                r = write_with_cwd(&out, NULL, cwd);
        }
        if (r == 0)
                *ret = buf_take(&out, NULL);
        buf_deinit(&out);
        return r;
}
