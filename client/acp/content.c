/* SPDX-License-Identifier: MIT */
/*
 * Prompts of ACP are lists of content blocks; the daemon takes one text. Editors put links where the user wrote
 * them, in the middle of a sentence, so blocks follow each other directly:
 *
 *   text           as it is; a newline parts it from a text block directly before it
 *   resource_link  [@name](uri), as Markdown writes links
 *   resource       its text between lines <context ref="uri"> and </context>
 *
 * What the model cannot take (images, audio, binary resources) is refused, never left out.
 */
#include "client/acp/content.h"
#include "base/cleanup.h"
#include "base/utf8.h"
#include "client/acp/params.h"
#include "client/cli.h"
#include <string.h>

struct writer {
        struct buf text;
        size_t i; /* number of the block */
        bool after_text;
        struct acp_failure *failure;
};

/* A failed parameter of block i: "uri is missing" becomes "prompt[2]: uri is missing". */
static int in_block(struct writer *w, int r) {
        struct acp_failure inner = *w->failure;

        return r == 0 ? 0
                      : acp_fail(
                                w->failure, inner.code, "prompt[%zu]: %.280s", w->i, inner.message);
}

static int add(struct writer *w, const void *s, size_t n) {
        return buf_append(&w->text, s, n) < 0 ? acp_fail_no_memory(w->failure) : 0;
}

static int add_str(struct writer *w, const char *s) {
        return add(w, s, strlen(s));
}

static bool at_line_start(const struct writer *w) {
        return w->text.size == 0 || w->text.data[w->text.size - 1] == '\n';
}

static int get_text(
        struct writer *w, const struct json_value *object, const struct json_value **ret) {
        *ret = json_tree_get(object, "text");
        if (json_tree_is(*ret, JSON_KIND_STRING))
                return 0;
        return acp_fail(w->failure, ACP_CODE_PARAMS, "text is %s", *ret ? "a string" : "missing");
}

static int add_text(struct writer *w, const struct json_value *block) {
        const struct json_value *text;
        int r = in_block(w, get_text(w, block, &text));

        if (r == 0 && w->after_text && !at_line_start(w) && text->size > 0)
                r = add_str(w, "\n");
        if (r == 0)
                r = add(w, text->text, text->size);
        w->after_text = true;
        return r;
}

static int add_link(struct writer *w, const struct json_value *block) {
        const char *uri, *name = NULL;

        if (in_block(w, acp_param_string(block, "uri", &uri, w->failure)) < 0 ||
                in_block(w, acp_param_optional(block, "name", &name, w->failure)) < 0)
                return -1;
        return add_str(w, "[@") < 0 || add_str(w, name ? name : uri) < 0 || add_str(w, "](") < 0 ||
                               add_str(w, uri) < 0 || add_str(w, ")") < 0
                       ? -1
                       : 0;
}

static int add_resource(struct writer *w, const struct json_value *block) {
        const struct json_value *resource = json_tree_get(block, "resource"), *text;
        const char *uri;

        if (!json_tree_is(resource, JSON_KIND_OBJECT))
                return acp_fail(w->failure, ACP_CODE_PARAMS, "prompt[%zu]: resource is %s", w->i,
                        resource ? "an object" : "missing");
        if (json_tree_get(resource, "blob"))
                return acp_fail(w->failure, ACP_CODE_PARAMS,
                        "prompt[%zu]: resource has a blob, and only text is taken", w->i);
        if (in_block(w, acp_param_string(resource, "uri", &uri, w->failure)) < 0 ||
                in_block(w, get_text(w, resource, &text)) < 0)
                return -1;
        if ((!at_line_start(w) && add_str(w, "\n") < 0) || add_str(w, "<context ref=\"") < 0 ||
                add_str(w, uri) < 0 || add_str(w, "\">\n") < 0 ||
                add(w, text->text, text->size) < 0)
                return -1;
        if (!at_line_start(w) && add_str(w, "\n") < 0)
                return -1;
        return add_str(w, "</context>\n");
}

static int add_block(struct writer *w, const struct json_value *block) {
        const char *type;

        if (!json_tree_is(block, JSON_KIND_OBJECT))
                return acp_fail(w->failure, ACP_CODE_PARAMS, "prompt[%zu] is an object", w->i);
        if (in_block(w, acp_param_string(block, "type", &type, w->failure)) < 0)
                return -1;
        if (strcmp(type, "text") == 0)
                return add_text(w, block);
        w->after_text = false;
        if (strcmp(type, "resource_link") == 0)
                return add_link(w, block);
        if (strcmp(type, "resource") == 0)
                return add_resource(w, block);
        return acp_fail(w->failure, ACP_CODE_PARAMS,
                "prompt[%zu]: blocks of type %.40s are not taken, only text, resource_link and "
                "resource",
                w->i, type);
}

int acp_content_text(const struct json_value *blocks, char **ret, size_t *ret_size,
        struct acp_failure *failure) {
        struct writer w = {.text = BUF_NULL, .failure = failure};
        const char *trimmed;
        size_t n;
        int r = 0;

        for (const struct json_value *block = blocks->first; block && r == 0; block = block->next) {
                r = add_block(&w, block);
                w.i++;
        }
        trimmed = (const char *)w.text.data;
        n = w.text.size;
        if (r == 0 && n > 0)
                utf8_trim(&trimmed, &n);
        if (r == 0 && n == 0)
                r = acp_fail(failure, ACP_CODE_PARAMS, "prompt has no text");
        if (r == 0)
                *ret = buf_take(&w.text, ret_size);
        buf_deinit(&w.text);
        return r;
}

/* ---- titles ---- */

/* Move *s to the first line that has more than white space; its length without it, 0 if there is none. */
static size_t first_line(const char **s, size_t size) {
        while (size > 0) {
                const char *newline = memchr(*s, '\n', size), *line = *s;
                size_t n = newline ? (size_t)(newline - *s) : size, trimmed_size = n;

                utf8_trim(&line, &trimmed_size);
                if (trimmed_size > 0) {
                        *s = line;
                        return trimmed_size;
                }
                n += newline != NULL;
                *s += n;
                size -= n;
        }
        return 0;
}

static bool is_control(uint32_t cp) {
        return cp < 0x20 || (cp >= 0x7f && cp < 0xa0);
}

void acp_content_title(char title[ACP_TITLE_SIZE], const char *text, size_t size) {
        static const char more[] = "\xe2\x80\xa6";
        size_t line_size = first_line(&text, size), n = 0, width = 0, n_cut = 0;
        bool cut = false;
        uint32_t cp;

        for (size_t i = 0; i < line_size && !cut;) {
                int k = utf8_decode((const uint8_t *)text + i, line_size - i, &cp);
                bool shown = k > 0 && !is_control(cp);
                const char *c = shown ? text + i : " ";

                i += k > 0 ? (size_t)k : 1; /* texts are UTF-8, so k > 0 */
                k = shown ? k : 1;
                width += safe_width(c, (size_t)k);
                if (width <= ACP_TITLE_COLUMNS - 1) /* there is room for the ellipsis behind it */
                        n_cut = n + (size_t)k;
                cut = width > ACP_TITLE_COLUMNS || n + (size_t)k >= ACP_TITLE_SIZE - sizeof(more);
                if (!cut) {
                        memcpy(title + n, c, (size_t)k);
                        n += (size_t)k;
                }
        }
        if (cut) {
                n = MIN(n, n_cut);
                memcpy(title + n, more, sizeof(more) - 1);
                n += sizeof(more) - 1;
        }
        title[n] = '\0';
}
