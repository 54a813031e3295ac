/* SPDX-License-Identifier: MIT */
#include "base/about.h"
#include "base/err.h"
#include "base/json-read.h"
#include "base/utf8.h"
#include "base/util.h"

/* One line of text for people: UTF-8 without control characters. */
static int check_line(const char *s, size_t most, const char *what, struct err *e) {
        size_t n = strnlen(s, most + 1);

        if (n > most)
                return err_set(e, ERR_INVALID, "%s has more than %zu bytes", what, most);
        if (!utf8_valid(s, n))
                return err_set(e, ERR_INVALID, "%s is not UTF-8", what);
        for (size_t i = 0; i < n; i++) {
                unsigned char c = (unsigned char)s[i];

                if (c < 0x20 || c == 0x7f || (c == 0xc2 && (unsigned char)s[i + 1] < 0xa0))
                        return err_set(e, ERR_INVALID, "%s has a control character", what);
        }
        return 0;
}

static int check_tags(const struct about *a, struct err *e) {
        if (a->n_tags > ABOUT_TAGS_MAX)
                return err_set(e, ERR_INVALID, "tags: at most %d are taken, not %zu",
                        ABOUT_TAGS_MAX, a->n_tags);
        for (size_t i = 0; i < a->n_tags; i++) {
                int r = check_line(a->tags[i], ABOUT_TAG_MAX, "a tag", e);

                if (r < 0)
                        return r;
                if (!a->tags[i][0])
                        return err_set(e, ERR_INVALID, "a tag is empty");
                for (size_t k = 0; k < i; k++)
                        if (strcmp(a->tags[i], a->tags[k]) == 0)
                                return err_set(
                                        e, ERR_INVALID, "tag '%s' is given twice", a->tags[i]);
        }
        return 0;
}

static int check_object(struct json_reader *r, struct err *e) {
        enum json_item item;
        int k = json_next(r, &item, e);

        if (k == 0 && item != JSON_ITEM_OBJECT)
                return json_wrong(r, e, "it is a JSON object");
        while (k == 0 && item != JSON_ITEM_END)
                k = json_next(r, &item, e);
        return k;
}

static int check_metadata(const char *s, struct err *e) {
        size_t n = strnlen(s, ABOUT_METADATA_MAX + 1);
        struct json_reader reader;
        int r;

        if (n == 0)
                return 0;
        if (n > ABOUT_METADATA_MAX)
                return err_set(
                        e, ERR_INVALID, "metadata has more than %d bytes", ABOUT_METADATA_MAX);
        json_reader_init(&reader, s, n);
        r = check_object(&reader, e);
        json_reader_deinit(&reader);
        return r < 0 ? err_wrap(e, r, "metadata") : 0;
}

int about_check(const struct about *a, struct err *e) {
        int r = 0;

        if (a->has & ABOUT_TITLE)
                r = check_line(a->title, ABOUT_TITLE_MAX, "the title", e);
        if (r == 0 && a->has & ABOUT_TAGS)
                r = check_tags(a, e);
        if (r == 0 && a->has & ABOUT_METADATA)
                r = check_metadata(a->metadata, e);
        if (r == 0 && a->has & ABOUT_SESSION)
                r = check_line(a->session, ABOUT_SESSION_MAX, "the session", e);
        return r;
}

static size_t size_if(const struct about *a, enum about_field field, const char *s) {
        return a->has & field ? strlen(s) + 1 : 1;
}

size_t about_size(const struct about *a) {
        size_t n = sizeof(*a) + size_if(a, ABOUT_TITLE, a->title) +
                   size_if(a, ABOUT_METADATA, a->metadata) + size_if(a, ABOUT_SESSION, a->session);

        for (size_t i = 0; a->has & ABOUT_TAGS && i < a->n_tags; i++)
                n += sizeof(*a->tags) + strlen(a->tags[i]) + 1;
        return n;
}

static const char *put(char **at, bool is_set, const char *s) {
        char *to = *at;
        size_t n = is_set ? strlen(s) : 0;

        if (n > 0)
                memcpy(to, s, n);
        to[n] = '\0';
        *at = to + n + 1;
        return to;
}

struct about *about_put(void *block, const struct about *a) {
        struct about *to = block;
        const char **tags = (const char **)(to + 1);
        size_t n = a->has & ABOUT_TAGS ? a->n_tags : 0;
        char *at = (char *)(tags + n);

        *to = (struct about){.has = a->has, .tags = tags, .n_tags = n};
        to->expires_after = a->has & ABOUT_EXPIRES ? a->expires_after : 0;
        to->title = put(&at, a->has & ABOUT_TITLE, a->title);
        to->metadata = put(&at, a->has & ABOUT_METADATA, a->metadata);
        to->session = put(&at, a->has & ABOUT_SESSION, a->session);
        for (size_t i = 0; i < n; i++)
                tags[i] = put(&at, true, a->tags[i]);
        return to;
}
