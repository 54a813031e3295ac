/* SPDX-License-Identifier: MIT */
#include "client/gateway/fields.h"
#include "base/util.h"
#include "client/gateway/jansson-read.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

int fields_parse(json_t **ret, const char *text, size_t size, struct err *e) {
        struct err why;
        json_t *root;
        int r = jansson_read(&root, text, size, &why);

        if (r == -ERR_INVALID)
                return err_set(e, ERR_INVALID, "the body is not JSON: %s", why.msg);
        if (r == -ERR_TOO_LARGE)
                return err_set(e, ERR_TOO_LARGE, "the body has %s", why.msg);
        if (r < 0)
                return err_no_memory(e);
        if (!json_is_object(root)) {
                json_decref(root);
                return err_set(e, ERR_INVALID, "the body is not a JSON object");
        }
        *ret = root;
        return 0;
}

int fields_parse_value(json_t **ret, const char *text) {
        int r = jansson_read(ret, text, strlen(text), NULL);

        return r == -ERR_INVALID ? 1 : r;
}

__attribute__((format(printf, 2, 3))) static size_t enter(
        struct fields *fields, const char *format, ...) {
        size_t length = strlen(fields->path);
        va_list ap;

        va_start(ap, format);
        vsnprintf(fields->path + length, sizeof(fields->path) - length, format, ap);
        va_end(ap);
        return length;
}

size_t fields_enter(struct fields *fields, const char *name, size_t index) {
        return enter(fields, "%s[%zu].", name, index);
}

size_t fields_enter_name(struct fields *fields, const char *name) {
        return enter(fields, "%s.", name);
}

void fields_leave(struct fields *fields, size_t length) {
        fields->path[length] = '\0';
}

int fields_wrong(struct fields *fields, const char *name, const char *what, struct err *e) {
        size_t n;

        snprintf(fields->wrong, sizeof(fields->wrong), "%s%s", fields->path, name);
        n = strlen(fields->wrong);
        if (n > 0 && fields->wrong[n - 1] == '.') /* an item itself */
                fields->wrong[n - 1] = '\0';
        return err_set(e, ERR_INVALID, "%s is not %s", fields->wrong, what);
}

/* The value of @name, or NULL if there is none or it is null. */
static json_t *get(const json_t *object, const char *name) {
        json_t *value = json_object_get(object, name);

        return json_is_null(value) ? NULL : value;
}

int fields_object(struct fields *fields, const json_t *object, const char *name, json_t **ret,
        struct err *e) {
        json_t *value = get(object, name);

        if (value && !json_is_object(value))
                return fields_wrong(fields, name, "an object", e);
        *ret = value;
        return 0;
}

int fields_array(struct fields *fields, const json_t *object, const char *name, json_t **ret,
        struct err *e) {
        json_t *value = get(object, name);

        if (value && !json_is_array(value))
                return fields_wrong(fields, name, "an array", e);
        *ret = value;
        return 0;
}

static int check_string(struct fields *fields, const char *name, const json_t *value,
        const char **ret, struct err *e) {
        const char *text;

        if (!json_is_string(value))
                return fields_wrong(fields, name, "a string", e);
        text = json_string_value(value);
        if (strlen(text) != json_string_length(value))
                return fields_wrong(fields, name, "text without NUL", e);
        *ret = text;
        return 0;
}

int fields_string(struct fields *fields, const json_t *object, const char *name, const char **ret,
        struct err *e) {
        json_t *value = get(object, name);

        if (value)
                return check_string(fields, name, value, ret, e);
        *ret = NULL;
        return 0;
}

int fields_bool(
        struct fields *fields, const json_t *object, const char *name, bool *ret, struct err *e) {
        json_t *value = get(object, name);

        if (!value)
                return 0;
        if (!json_is_boolean(value))
                return fields_wrong(fields, name, "true or false", e);
        *ret = json_boolean_value(value);
        return 0;
}

int fields_integer(struct fields *fields, const json_t *object, const char *name, int64_t min,
        int64_t max, int64_t *ret, bool *ret_has, struct err *e) {
        json_t *value = get(object, name);
        char what[80];
        int64_t number;

        if (ret_has)
                *ret_has = value != NULL;
        if (!value)
                return 0;
        snprintf(what, sizeof(what), "a whole number from %lld to %lld", (long long)min,
                (long long)max);
        if (json_is_integer(value)) {
                number = json_integer_value(value);
        } else if (json_is_real(value)) {
                double real = json_real_value(value);

                /* beyond 2^53 a double names no single whole number */
                if (real != trunc(real) || fabs(real) > 9007199254740992.0)
                        return fields_wrong(fields, name, what, e);
                number = (int64_t)real;
        } else {
                return fields_wrong(fields, name, what, e);
        }
        if (number < min || number > max)
                return fields_wrong(fields, name, what, e);
        *ret = number;
        return 0;
}

int fields_number(struct fields *fields, const json_t *object, const char *name, double min,
        double max, double *ret, bool *ret_has, struct err *e) {
        json_t *value = get(object, name);
        char what[80];
        double number;

        if (ret_has)
                *ret_has = value != NULL;
        if (!value)
                return 0;
        snprintf(what, sizeof(what), "a number from %g to %g", min, max);
        if (!json_is_number(value))
                return fields_wrong(fields, name, what, e);
        number = json_number_value(value);
        if (!(number >= min && number <= max))
                return fields_wrong(fields, name, what, e);
        *ret = number;
        return 0;
}

int fields_be_object(struct fields *fields, const json_t *value, struct err *e) {
        return json_is_object(value) ? 0 : fields_wrong(fields, "", "an object", e);
}

int fields_be_string(struct fields *fields, const json_t *value, const char **ret, struct err *e) {
        return check_string(fields, "", value, ret, e);
}
