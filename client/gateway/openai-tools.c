/* SPDX-License-Identifier: MIT */
/*
 * tools, tool_choice, parallel_tool_calls, response_format; and `grammar`, a text that llama-server's clients know.
 *
 * Definitions of functions are handed on as the client gives them; tools of other types ("custom",
 * "web_search", ...) are left out, as nobody could run them. With tool_choice "none" the model is told of no
 * tools. With "required" or a named function the daemon makes the reply a call, and response_format does not hold, as it
 * is for text.
 */
#include "client/gateway/openai.h"
#include "client/gateway/form-json.h"
#include <string.h>

/* 1: it is a function and goes to @functions; 0: of another type. */
static int check_tool(struct fields *fields, json_t *tool, struct err *e) {
        const char *type, *name;
        json_t *function;
        size_t length;
        int r = fields_be_object(fields, tool, e);

        if (r == 0)
                r = fields_string(fields, tool, "type", &type, e);
        if (r < 0 || (type && strcmp(type, "function") != 0))
                return r;
        r = fields_object(fields, tool, "function", &function, e);
        if (r < 0)
                return r;
        if (!function)
                return fields_wrong(fields, "function", "an object", e);
        length = fields_enter_name(fields, "function");
        r = fields_string(fields, function, "name", &name, e);
        if (r < 0)
                return r;
        if (!name || !name[0])
                return fields_wrong(fields, "name", "a name", e);
        fields_leave(fields, length);
        return 1;
}

static int collect(struct form *form, struct fields *fields, const json_t *tools, json_t *functions,
        struct err *e) {
        json_t *tool;
        size_t i;

        json_array_foreach(tools, i, tool) {
                size_t length = fields_enter(fields, "tools", i);
                int r = check_tool(fields, tool, e);

                if (r < 0)
                        return r;
                if (r > 0 && json_array_append(functions, tool) < 0)
                        return err_no_memory(e);
                fields_leave(fields, length);
        }
        if (json_array_size(functions) == 0)
                return 0;
        return form_dump(form, functions, &form_fields(form)->tools, e);
}

static int read_tools(struct form *form, struct fields *fields, const json_t *root, struct err *e) {
        json_t *tools, *functions;
        int r = fields_array(fields, root, "tools", &tools, e);

        if (r < 0 || !tools)
                return r;
        functions = json_array();
        if (!functions)
                return err_no_memory(e);
        r = collect(form, fields, tools, functions, e);
        json_decref(functions);
        return r;
}

/* {"type": "function", "function": {"name"}}, or as Responses has it, {"type": "function", "name"}. */
static int read_named(
        struct form *form, struct fields *fields, const json_t *choice, struct err *e) {
        size_t length = fields_enter_name(fields, "tool_choice"), inner = 0;
        const char *type, *name;
        json_t *function;
        int r = fields_string(fields, choice, "type", &type, e);

        if (r < 0)
                return r;
        if (type && strcmp(type, "function") != 0)
                return openai_unsupported(fields, "type", "only functions can be called", e);
        r = fields_object(fields, choice, "function", &function, e);
        if (r == 0 && function)
                inner = fields_enter_name(fields, "function");
        if (r == 0)
                r = fields_string(fields, function ? function : choice, "name", &name, e);
        if (r < 0)
                return r;
        if (!name || !name[0])
                return fields_wrong(fields, "name", "a name", e);
        if (function)
                fields_leave(fields, inner);
        fields_leave(fields, length);
        form_fields(form)->call_of = form_strdup(form, name);
        return form_fields(form)->call_of ? 0 : err_no_memory(e);
}

int openai_read_tool_choice(
        struct form *form, struct fields *fields, const json_t *root, struct err *e) {
        json_t *value = json_object_get(root, "tool_choice");
        struct form_fields *to = form_fields(form);
        const char *choice = NULL;
        int r = json_is_object(value) ? read_named(form, fields, value, e)
                                      : fields_string(fields, root, "tool_choice", &choice, e);

        if (r < 0)
                return r;
        if (choice && strcmp(choice, "required") == 0)
                to->call_of = "";
        else if (choice && strcmp(choice, "none") == 0)
                to->tools = NULL;
        else if (choice && strcmp(choice, "auto") != 0)
                return fields_wrong(fields, "tool_choice", "one of none, auto, required", e);
        if (to->call_of && !to->tools)
                return openai_unsupported(fields, "tool_choice", "no tools are given", e);
        return 0;
}

int openai_read_tools(struct form *form, struct openai_options *options, struct fields *fields,
        const json_t *root, struct err *e) {
        json_t *functions;
        bool parallel = true;
        int r = read_tools(form, fields, root, e);

        if (r == 0)
                r = openai_read_tool_choice(form, fields, root, e);
        if (r == 0)
                r = fields_bool(fields, root, "parallel_tool_calls", &parallel, e);
        if (r == 0)
                r = fields_array(fields, root, "functions", &functions, e);
        if (r < 0)
                return r;
        if (functions && json_array_size(functions) > 0)
                return openai_unsupported(
                        fields, "functions", "it is deprecated: use tools in its place", e);
        options->one_call = !parallel;
        return 0;
}

static int read_schema(
        struct form *form, struct fields *fields, const json_t *format, struct err *e) {
        size_t length;
        json_t *object, *schema;
        int r = fields_object(fields, format, "json_schema", &object, e);

        if (r < 0)
                return r;
        if (!object)
                return fields_wrong(fields, "json_schema", "an object", e);
        length = fields_enter_name(fields, "json_schema");
        r = fields_object(fields, object, "schema", &schema, e);
        if (r < 0)
                return r;
        fields_leave(fields, length);
        if (schema)
                return form_dump(form, schema, &form_fields(form)->json_schema, e);
        form_fields(form)->json_schema = "{}";
        return 0;
}

/* A GBNF text; with a format it would be a second constraint. */
int openai_read_grammar(
        struct form *form, struct fields *fields, const json_t *root, struct err *e) {
        struct form_fields *to = form_fields(form);
        const char *grammar;
        int r = fields_string(fields, root, "grammar", &grammar, e);

        if (r < 0 || !grammar || !grammar[0])
                return r;
        if (to->json_schema || to->call_of)
                return openai_unsupported(
                        fields, "grammar", "it can't be given beside a format or a forced call", e);
        to->gbnf = form_strdup(form, grammar);
        return to->gbnf ? 0 : err_no_memory(e);
}

int openai_read_format(struct form *form, struct fields *fields, const json_t *root,
        const char *name, openai_read_schema read, struct err *e) {
        json_t *format;
        const char *type = NULL;
        size_t length;
        int r = fields_object(fields, root, name, &format, e);

        if (r < 0 || !format)
                return r;
        length = fields_enter_name(fields, name);
        r = fields_string(fields, format, "type", &type, e);
        if (r < 0)
                return r;
        if (type && strcmp(type, "json_schema") == 0)
                r = read(form, fields, format, e);
        else if (type && strcmp(type, "json_object") == 0)
                form_fields(form)->json_schema = "{\"type\":\"object\"}";
        else if (!type || strcmp(type, "text") != 0)
                r = fields_wrong(fields, "type", "one of text, json_object, json_schema", e);
        if (r < 0)
                return r;
        fields_leave(fields, length);
        return 0;
}

int openai_read_response_format(
        struct form *form, struct fields *fields, const json_t *root, struct err *e) {
        int r = openai_read_format(form, fields, root, "response_format", read_schema, e);

        return r < 0 ? r : openai_read_grammar(form, fields, root, e);
}
