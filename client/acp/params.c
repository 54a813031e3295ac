/* SPDX-License-Identifier: MIT */
#include "client/acp/params.h"
#include <limits.h>
#include <string.h>

static const json_t *get(const json_t *object, const char *name) {
        const json_t *value = json_object_get(object, name);

        return json_is_null(value) ? NULL : value;
}

static int missing(const char *name, struct acp_failure *failure) {
        return acp_fail(failure, ACP_CODE_PARAMS, "%s is missing", name);
}

int acp_param_optional(
        const json_t *object, const char *name, const char **ret, struct acp_failure *failure) {
        const json_t *value = get(object, name);
        const char *s = json_string_value(value);

        if (value && !s)
                return acp_fail(failure, ACP_CODE_PARAMS, "%s is a string", name);
        if (s && strlen(s) != json_string_length(value))
                return acp_fail(failure, ACP_CODE_PARAMS, "%s has a NUL character", name);
        if (s && !*s)
                return acp_fail(failure, ACP_CODE_PARAMS, "%s is empty", name);
        *ret = s;
        return 0;
}

int acp_param_string(
        const json_t *object, const char *name, const char **ret, struct acp_failure *failure) {
        return get(object, name) ? acp_param_optional(object, name, ret, failure)
                                 : missing(name, failure);
}

int acp_param_path(const json_t *object, const char *name, bool required, const char **ret,
        struct acp_failure *failure) {
        const char *path;

        if ((required ? acp_param_string : acp_param_optional)(object, name, &path, failure) < 0)
                return -1;
        if (path && *path != '/')
                return acp_fail(failure, ACP_CODE_PARAMS, "%s is an absolute path", name);
        if (path && strlen(path) > PATH_MAX)
                return acp_fail(
                        failure, ACP_CODE_PARAMS, "%s is longer than %d bytes", name, PATH_MAX);
        *ret = path;
        return 0;
}

int acp_param_array(const json_t *object, const char *name, bool required, const json_t **ret,
        struct acp_failure *failure) {
        const json_t *value = get(object, name);

        if (!value && required)
                return missing(name, failure);
        if (value && !json_is_array(value))
                return acp_fail(failure, ACP_CODE_PARAMS, "%s is an array", name);
        *ret = value;
        return 0;
}

int acp_param_integer(
        const json_t *object, const char *name, int64_t *ret, struct acp_failure *failure) {
        const json_t *value = get(object, name);

        if (!value)
                return missing(name, failure);
        if (!json_is_integer(value))
                return acp_fail(failure, ACP_CODE_PARAMS, "%s is an integer", name);
        *ret = json_integer_value(value);
        return 0;
}
