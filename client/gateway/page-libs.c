/* SPDX-License-Identifier: MIT */
#include "client/gateway/page-libs.h"
#include "base/json.h"
#include "base/util.h"
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define MAX_PLACES 4

static const struct {
        const char *name;
        const char *places[MAX_PLACES];
} libs[] = {
        {"markdown-it.js", {"javascript/markdown-it/markdown-it.min.js",
                                   "javascript/markdown-it/markdown-it.js",
                                   "nodejs/markdown-it/dist/markdown-it.min.js",
                                   "nodejs/markdown-it/dist/markdown-it.js"}},
        {"purify.js",
                {"nodejs/dompurify/dist/purify.es.mjs", "nodejs/dompurify/dist/purify.es.js",
                        "javascript/dompurify/purify.es.mjs", "javascript/dompurify/purify.es.js"}},
        {"highlight.js", {"javascript/highlight.js/highlight.min.js",
                                 "javascript/highlight.js/highlight.js"}},
        {"katex.mjs", {"javascript/katex/katex.mjs", "nodejs/katex/dist/katex.mjs"}},
        {"katex.css", {"javascript/katex/katex.min.css", "javascript/katex/katex.css",
                              "nodejs/katex/dist/katex.min.css", "nodejs/katex/dist/katex.css"}},
};
static const char *const font_folders[] = {
        "javascript/katex/fonts", "fonts/truetype/katex", "nodejs/katex/dist/fonts"};

static bool is_there(const struct page_name *name) {
        struct page_identity identity;
        int fd = page_open(name, &identity);

        if (fd < 0)
                return false;
        close(fd);
        return true;
}

static bool find_at(struct page_name *ret, const char *folder, const char *const *places) {
        for (size_t i = 0; i < MAX_PLACES && places[i]; i++) {
                struct page_name name = {folder, places[i], true};

                if (is_there(&name)) {
                        *ret = name;
                        return true;
                }
        }
        return false;
}

bool page_libs_find(struct page_name *ret, const char *folder, const char *name) {
        for (size_t i = 0; i < ARRAY_SIZE(libs); i++)
                if (strcmp(libs[i].name, name) == 0)
                        return find_at(ret, folder, libs[i].places);
        return false;
}

bool page_libs_find_font(
        struct page_name *ret, const char *folder, const char *name, char path[PAGE_FONT_SIZE]) {
        /* A name of another folder is none: it would be the client's path that is followed. */
        if (strchr(name, '/') || !page_path_allowed(name) || !page_type(name))
                return false;
        for (size_t i = 0; i < ARRAY_SIZE(font_folders); i++) {
                struct page_name there = {folder, path, true};

                snprintf(path, PAGE_FONT_SIZE, "%s/%s", font_folders[i], name);
                if (is_there(&there)) {
                        *ret = there;
                        return true;
                }
        }
        return false;
}

int page_libs_list(struct buf *out, const char *folder) {
        struct json json;

        json_init(&json, out);
        json_object_begin(&json);
        for (size_t i = 0; i < ARRAY_SIZE(libs); i++) {
                struct page_name ignored;

                json_put_key_bool(&json, libs[i].name, find_at(&ignored, folder, libs[i].places));
        }
        json_object_end(&json);
        return json_finish(&json);
}
