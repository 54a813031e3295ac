/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Private to ACP: fields of params. Each function returns 0, or -1 with *failure, which names the field. What is
 * returned is borrowed from @object, which may be NULL (no params at all). Fields that are null count as missing.
 */
#include "client/acp/rpc.h"

/* A string without NUL, not empty. */
int acp_param_string(const struct json_value *object, const char *name, const char **ret,
        struct acp_failure *failure);
/* The same, but *ret is NULL if it is missing. */
int acp_param_optional(const struct json_value *object, const char *name, const char **ret,
        struct acp_failure *failure);
/* An absolute path of at most PATH_MAX bytes. @required: else *ret may be NULL. */
int acp_param_path(const struct json_value *object, const char *name, bool required,
        const char **ret, struct acp_failure *failure);
/* An array; NULL if it is missing and not @required. */
int acp_param_array(const struct json_value *object, const char *name, bool required,
        const struct json_value **ret, struct acp_failure *failure);
int acp_param_integer(const struct json_value *object, const char *name, int64_t *ret,
        struct acp_failure *failure);
