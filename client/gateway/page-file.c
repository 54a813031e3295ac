/* SPDX-License-Identifier: MIT */
#include "client/gateway/page-file.h"
#include "base/cleanup.h"
#include "base/util.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <strings.h>
#include <sys/stat.h>

#define FOLDER_FLAGS (O_PATH | O_DIRECTORY | O_CLOEXEC)
#define FILE_FLAGS (O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)

const char *page_type(const char *path) {
        static const char *const types[][2] = {
                {"html", "text/html; charset=utf-8"},
                {"css", "text/css; charset=utf-8"},
                {"js", "text/javascript; charset=utf-8"},
                {"mjs", "text/javascript; charset=utf-8"},
                {"svg", "image/svg+xml"},
                {"png", "image/png"},
                {"ico", "image/x-icon"},
                {"woff2", "font/woff2"},
                {"webmanifest", "application/manifest+json"},
                {"txt", "text/plain; charset=utf-8"},
        };
        const char *dot = strrchr(path, '.');

        if (!dot || strchr(dot, '/'))
                return NULL;
        for (size_t i = 0; i < ARRAY_SIZE(types); i++)
                if (strcmp(dot + 1, types[i][0]) == 0)
                        return types[i][1];
        return NULL;
}

bool page_path_allowed(const char *path) {
        for (;; path++) {
                size_t n = strcspn(path, "/");

                if (n == 0 || n > NAME_MAX || *path == '.')
                        return false;
                path += n;
                if (!*path)
                        return true;
        }
}

/* Segment by segment: a link is none of them. */
static int open_below(const char *folder, const char *path) {
        _cleanup_(closep) int at = open(folder, FOLDER_FLAGS);

        while (at >= 0) {
                char segment[NAME_MAX + 1];
                size_t n = strcspn(path, "/");
                int next;

                memcpy(segment, path, n);
                segment[n] = '\0';
                if (!path[n])
                        return openat(at, segment, FILE_FLAGS | O_NOFOLLOW);
                next = openat(at, segment, FOLDER_FLAGS | O_NOFOLLOW);
                close(at);
                at = next;
                path += n + 1;
        }
        return -1;
}

static int open_system(const char *folder, const char *path) {
        _cleanup_(closep) int at = open(folder, FOLDER_FLAGS);

        return at < 0 ? -1 : openat(at, path, FILE_FLAGS);
}

int page_open(const struct page_name *name, struct page_identity *ret) {
        _cleanup_(closep) int fd = -1;
        struct stat st;

        errno = ENOENT;
        if (!name->folder || !page_path_allowed(name->path))
                return -1;
        fd = name->is_system ? open_system(name->folder, name->path)
                             : open_below(name->folder, name->path);
        if (fd < 0 || fstat(fd, &st) < 0) {
                /* All that means something else than a lack of memory or descriptors: there is no such file. */
                if (errno != EMFILE && errno != ENFILE && errno != ENOMEM)
                        errno = ENOENT;
                return -1;
        }
        if (!S_ISREG(st.st_mode)) {
                errno = ENOENT;
                return -1;
        }
        *ret = (struct page_identity){.device = st.st_dev,
                .inode = st.st_ino,
                .size = (uint64_t)st.st_size,
                .changed_nsec =
                        (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec};
        return TAKE_FD(fd);
}

bool page_same(const struct page_identity *a, const struct page_identity *b) {
        return a->device == b->device && a->inode == b->inode && a->size == b->size &&
               a->changed_nsec == b->changed_nsec;
}

void page_tag(const struct page_identity *identity, char ret[PAGE_TAG_SIZE]) {
        snprintf(ret, PAGE_TAG_SIZE, "\"%llx-%llx-%llx\"", (unsigned long long)identity->size,
                (unsigned long long)identity->changed_nsec, (unsigned long long)identity->inode);
}

bool page_tag_matches(const char *field, const char *tag) {
        size_t n = strlen(tag);

        while (field && *field) {
                field += strspn(field, " \t,");
                if (*field == '*')
                        return true;
                /* Weak or not: the comparison of If-None-Match is the weak one (RFC 9110, 13.1.2). */
                if (strncmp(field, "W/", 2) == 0)
                        field += 2;
                if (strncmp(field, tag, n) == 0)
                        return true;
                if (*field == '"')
                        field += 1 + strcspn(field + 1, "\"");
                field += strcspn(field, ",");
        }
        return false;
}
