/* SPDX-License-Identifier: MIT */
/*
 * Definitions of tools: a JSON list as in OpenAI's "tools". An entry is
 * {"type": "function", "function": {"name", "description", "parameters"}}, or such a function alone,
 * which is given to templates as the former.
 *
 * 1. lib/jinja's reader decides what JSON is. The reader here only finds values in a text that was
 *    read there, so it looks at quotes and brackets and nothing else.
 * 2. Other members than those that are checked stay as they are: templates get the whole entry.
 */
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/util.h"
#include "chat/chat-internal.h"

/* Values of a text that is JSON. */
struct values {
        const char *text;
        size_t n, at;
};
/* A value: the bytes [from, to) of the text. */
struct value {
        const char *text;
        size_t n;
};

static void skip_space(struct values *v) {
        while (v->at < v->n && memchr(" \t\r\n", v->text[v->at], 4))
                v->at++;
}

static void skip_string(struct values *v) {
        for (v->at++; v->at < v->n && v->text[v->at] != '"'; v->at++)
                if (v->text[v->at] == '\\')
                        v->at++;
        v->at++;
}

static struct value take_value(struct values *v) {
        unsigned depth = 0;
        size_t from;

        skip_space(v);
        from = v->at;
        do {
                char c = v->at < v->n ? v->text[v->at] : 0;

                if (c == '"') {
                        skip_string(v);
                        continue;
                }
                if (depth == 0 && v->at > from && memchr(" \t\r\n,:]}", c, 8))
                        break; /* behind a number or a word */
                depth += c == '{' || c == '[';
                depth -= c == '}' || c == ']';
                v->at++;
                if (depth == 0 && (c == '}' || c == ']'))
                        break;
        } while (v->at < v->n && (depth > 0 || v->text[from] != '"'));
        v->at = MIN(v->at, v->n);
        return (struct value){v->text + from, v->at - from};
}

/* The next value of a list or an object, whose opening bracket is skipped at first. */
static bool next_value(struct values *v, struct value *ret) {
        if (v->at == 0)
                v->at++;
        skip_space(v);
        if (v->at < v->n && v->text[v->at] == ',')
                v->at++;
        skip_space(v);
        if (v->at >= v->n || v->text[v->at] == ']' || v->text[v->at] == '}')
                return false;
        *ret = take_value(v);
        return ret->n > 0;
}

static bool next_member(struct values *v, struct value *key, struct value *ret) {
        if (!next_value(v, key))
                return false;
        skip_space(v);
        v->at++; /* the colon */
        *ret = take_value(v);
        return true;
}

static bool is_text(struct value v, const char *text) {
        return v.n == strlen(text) && memcmp(v.text, text, v.n) == 0;
}

/* The last member of the name, which is the one that counts. */
static bool find_member(struct value object, const char *quoted, struct value *ret) {
        struct values v = {object.text, object.n, 0};
        struct value key, value;
        bool found = false;

        while (next_member(&v, &key, &value))
                if (is_text(key, quoted)) {
                        *ret = value;
                        found = true;
                }
        return found;
}

static struct values entries(const char *tools, size_t n) {
        struct values v = {tools, n, 0};

        skip_space(&v);
        return (struct values){tools + v.at, n - v.at, 0};
}

static int wrong(size_t i, const char *problem, struct err *e) {
        return err_set(e, ERR_INVALID, "the definitions of tools: entry %zu: %s", i, problem);
}

/* The type of the member, if there is one, must be @first's (its first byte). */
static bool member_is(struct value object, const char *quoted, char first) {
        struct value v;

        return !find_member(object, quoted, &v) || v.text[0] == first || is_text(v, "null");
}

static int check_entry(struct value entry, size_t i, struct err *e) {
        struct value type, function = entry, name;

        if (entry.text[0] != '{')
                return wrong(i, "it is no object", e);
        if (find_member(entry, "\"type\"", &type) && !is_text(type, "\"function\""))
                return wrong(i, "its type is not \"function\"", e);
        if (find_member(entry, "\"function\"", &function) && function.text[0] != '{')
                return wrong(i, "\"function\" is no object", e);
        if (!find_member(function, "\"name\"", &name) || name.text[0] != '"' || name.n == 2)
                return wrong(i, "the function has no name", e);
        if (!member_is(function, "\"description\"", '"'))
                return wrong(i, "\"description\" is no string", e);
        if (!member_is(function, "\"parameters\"", '{'))
                return wrong(i, "\"parameters\" is no object", e);
        return 0;
}

int chat_json_check(const char *text, size_t n, struct charge *charge, struct err *e) {
        _cleanup_(jinja_data_freep) struct jinja_data *d = NULL;
        int r = jinja_data_new(&d, ((size_t)64 << 10) + 128 * n, charge, e);

        if (r < 0)
                return r;
        jinja_data_key(d, "value", true);
        return jinja_data_json(d, text, n, e);
}

int chat_definitions_check(const char *tools, size_t n, struct charge *charge, struct err *e) {
        struct values v;
        struct err why = {0};
        struct value entry;
        size_t i = 0;
        int r = 0;

        if (n > CHAT_TOOLS_MOST)
                return err_set(e, ERR_TOO_LARGE,
                        "the definitions of tools have %zu bytes: at most %d are taken", n,
                        (int)CHAT_TOOLS_MOST);
        r = chat_json_check(tools, n, charge, &why);
        if (r < 0)
                return err_set(e, r == -ERR_FORMAT ? ERR_INVALID : (enum err_code) - r,
                        "the definitions of tools: %s", why.msg);
        v = entries(tools, n);
        if (v.text[0] != '[')
                return err_set(e, ERR_INVALID, "the definitions of tools are no JSON list");
        while (r == 0 && next_value(&v, &entry))
                r = check_entry(entry, i++, e);
        if (r == 0 && i == 0)
                return err_set(e, ERR_INVALID, "the list of tools is empty");
        return r;
}

int chat_definitions_put(struct jinja_data *d, const char *tools, size_t n, struct err *e) {
        struct values v = entries(tools, n);
        struct value entry, function;
        int r = 0;

        jinja_data_list_begin(d);
        while (r == 0 && next_value(&v, &entry)) {
                bool alone = !find_member(entry, "\"function\"", &function);

                if (alone) {
                        jinja_data_dict_begin(d);
                        jinja_data_key(d, "type", true);
                        jinja_data_string(d, "function", strlen("function"), true);
                        jinja_data_key(d, "function", true);
                }
                r = jinja_data_json(d, entry.text, entry.n, e);
                if (alone)
                        jinja_data_dict_end(d);
        }
        jinja_data_list_end(d);
        return r;
}

int chat_definitions_functions(struct buf *out, const char *tools, size_t n) {
        struct values v = entries(tools, n);
        struct value entry;
        int r = buf_append(out, "[", 1);

        for (size_t i = 0; r >= 0 && next_value(&v, &entry); i++) {
                struct value function = entry;

                find_member(entry, "\"function\"", &function);
                r = i > 0 ? buf_append_str(out, ", ") : 0;
                if (r >= 0)
                        r = buf_append(out, function.text, function.n);
        }
        return r < 0 ? r : buf_append(out, "]", 1);
}

static struct chat_definition take_definition(struct value entry) {
        struct value function = entry, name = {"", 0}, parameters = {"", 0}, type = {"", 0};

        find_member(entry, "\"function\"", &function);
        find_member(function, "\"name\"", &name);
        if (find_member(function, "\"parameters\"", &parameters) && parameters.text[0] != '{')
                parameters.n = 0; /* null */
        if (parameters.n > 0)
                find_member(parameters, "\"type\"", &type);
        return (struct chat_definition){
                name.text, parameters.text, type.text, name.n, parameters.n, type.n};
}

int chat_definitions_each(const char *tools, size_t n,
        int (*fn)(void *arg, const struct chat_definition *d, struct err *e), void *arg,
        struct err *e) {
        struct values v = entries(tools, n);
        struct value entry;
        int r = 0;

        while (r == 0 && next_value(&v, &entry)) {
                const struct chat_definition d = take_definition(entry);

                r = fn(arg, &d, e);
        }
        return r;
}
