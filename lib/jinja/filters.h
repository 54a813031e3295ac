/* SPDX-License-Identifier: MIT */
#pragma once
/* The filters, by what they work on. Private to filters*.c. */
#include "jinja/run.h"

const struct function *text_filter_find(const struct string *name);
const struct function *list_filter_find(const struct string *name);
