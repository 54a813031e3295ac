/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Rendering for tests. The variables of a template are v (given as JSON), n (a dict of scalars: i is
 * 5, f 1.5, b true, z none) and bos ("<s>", which is trusted). In marked results what comes from
 * data stands between « and ».
 */
#include "base/err.h"
#include "jinja/jinja.h"
#include "util/test.h"

struct rig {
        const struct jinja_limits *limits;
        const struct tm *now;
        struct charge *charge;
        unsigned flags;
        struct err e; /* of the last call */
};

/* The result, to be freed. NULL: r->e tells. @v: JSON, or NULL. */
char *rig_render(struct rig *r, const char *text, const char *v, bool marked);
/* @text renders to @want, or fails with a message that ends with @want. */
void rig_expect(const char *text, const char *v, const char *want);
void rig_expect_marked(const char *text, const char *v, const char *want);
void rig_expect_error(const char *text, const char *v, int code, const char *want);
