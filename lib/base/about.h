/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What people and programs note about a conversation. The model never sees it. Shared by the register,
 * the engine, export files and the daemon, as sampling settings are (base/sampling.h).
 */
#include <stddef.h>
#include <stdint.h>

struct err;

#define ABOUT_TITLE_MAX 512 /* bytes, without NUL; likewise: */
#define ABOUT_TAG_MAX 64
#define ABOUT_TAGS_MAX 32 /* tags */
#define ABOUT_METADATA_MAX (16 << 10)
#define ABOUT_SESSION_MAX 256

enum about_field {
        ABOUT_TITLE = 1 << 0,
        ABOUT_TAGS = 1 << 1,
        ABOUT_METADATA = 1 << 2,
        ABOUT_SESSION = 1 << 3,
        ABOUT_EXPIRES = 1 << 4,
};

struct about {
        uint32_t has; /* enum about_field: which of the following are set */
        /* NUL-terminated UTF-8; "": none. metadata is a JSON object. Of a field that is not set: any. */
        const char *title, *metadata, *session;
        const char *const *tags; /* [n_tags], distinct */
        size_t n_tags;
        uint32_t expires_after; /* seconds without use until it is closed; 0: never */
};

/* Is every field that is set what it may be? -ERR_INVALID, naming the field; -ERR_NOMEM. */
int about_check(const struct about *a, struct err *e);
/* The size of a copy of the fields that are set, in bytes: one block. */
size_t about_size(const struct about *a);
/* Make that copy in @block, [about_size(a)] and aligned as malloc() does. Strings that are not set are
 * "". Returns it: to free the block is to free the copy. */
struct about *about_put(void *block, const struct about *a);
