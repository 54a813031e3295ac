/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Libraries of the distribution that the page uses if they are there. Each has one name for the page, and lies in one of several
 * places below a folder (/usr/share), the first of which counts: distributions and their releases differ.
 *
 * A font is named by the style sheet of KaTeX, relative to it: fonts/KaTeX_Main-Regular.woff2.
 */
#include "client/gateway/page-file.h"

struct buf;

/* The place of the library @name: in @ret, whose path is a literal; false: there is none. */
bool page_libs_find(struct page_name *ret, const char *folder, const char *name);
/* The same of a font; its path is written to @path. */
#define PAGE_FONT_SIZE 384
bool page_libs_find_font(
        struct page_name *ret, const char *folder, const char *name, char path[PAGE_FONT_SIZE]);
/* {"katex.css":true,...}: which of them are there. -ERR_NOMEM. */
int page_libs_list(struct buf *out, const char *folder);
