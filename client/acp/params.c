/* SPDX-License-Identifier: MIT */
#include "client/acp/params.h"
#include <limits.h>
#include <string.h>

static const struct json_value *get(const struct json_value *object, const char *name) {
        const struct json_value *value = json_tree_get(object, name);

        return json_tree_is(value, JSON_KIND_NULL) ? NULL : value;
}

static int missing(const char *name, struct acp_failure *failure) {
        return acp_fail(failure, ACP_CODE_PARAMS, "%s is missing", name);
}

int acp_param_optional(const struct json_value *object, const char *name, const char **ret,
        struct acp_failure *failure) {
        const struct json_value *value = get(object, name);
        const char *s = json_tree_string(value);

        if (value && !json_tree_is(value, JSON_KIND_STRING))
                return acp_fail(failure, ACP_CODE_PARAMS, "%s is a string", name);
        if (value && !s)
                return acp_fail(failure, ACP_CODE_PARAMS, "%s has a NUL character", name);
        if (s && !*s)
                return acp_fail(failure, ACP_CODE_PARAMS, "%s is empty", name);
        *ret = s;
        return 0;
}

int acp_param_string(const struct json_value *object, const char *name, const char **ret,
        struct acp_failure *failure) {
        return get(object, name) ? acp_param_optional(object, name, ret, failure)
                                 : missing(name, failure);
}

int acp_param_path(const struct json_value *object, const char *name, bool required,
        const char **ret, struct acp_failure *failure) {
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

int acp_param_array(const struct json_value *object, const char *name, bool required,
        const struct json_value **ret, struct acp_failure *failure) {
        const struct json_value *value = get(object, name);

        if (!value && required)
                return missing(name, failure);
        if (value && !json_tree_is(value, JSON_KIND_ARRAY))
                return acp_fail(failure, ACP_CODE_PARAMS, "%s is an array", name);
        *ret = value;
        return 0;
}

int acp_param_integer(const struct json_value *object, const char *name, int64_t *ret,
        struct acp_failure *failure) {
        const struct json_value *value = get(object, name);

        if (!value)
                return missing(name, failure);
        return json_tree_integer(value, ret)
                       ? 0
                       : acp_fail(failure, ACP_CODE_PARAMS, "%s is an integer", name);
}
