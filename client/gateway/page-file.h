/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Files of a folder, for anybody who asks: which names there may be, what they are, and how they are opened.
 *
 * 1. A name is a path of segments below the folder. None is empty or begins with a dot, and the extension of the last one is
 *    in a table; what has another extension is not there.
 * 2. No symbolic link is followed below the folder, so nothing outside of it can be reached whatever somebody puts into it. A file of
 *    the system (page-libs.c) has a fixed name, and there links are followed: distributions link such files to one another.
 * 3. Only regular files are opened, and a pipe or a device is not waited for.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct page_name {
        const char *folder; /* NULL: there is no such file */
        const char *path;   /* below it */
        bool is_system;     /* @path is not the client's; links may be followed */
};

/* Which file it is, and of what moment: what differs in any of them is not the same text. */
struct page_identity {
        uint64_t device, inode, size, changed_nsec;
};

/* The media type of a file, by the extension of its name; NULL: files of that kind are not sent. Pure. */
const char *page_type(const char *path);
/* Whether @path keeps to the first rule but for the extension. Pure. */
bool page_path_allowed(const char *path);

/* A descriptor for reading, and what the file is. -1 with errno; ENOENT for all that is no file of ours. */
int page_open(const struct page_name *name, struct page_identity *ret);
bool page_same(const struct page_identity *a, const struct page_identity *b);

/* The field ETag. */
#define PAGE_TAG_SIZE 72
void page_tag(const struct page_identity *identity, char ret[PAGE_TAG_SIZE]);
/* Whether the field If-None-Match (or NULL) has @tag. Pure. */
bool page_tag_matches(const char *field, const char *tag);
