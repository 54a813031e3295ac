/* SPDX-License-Identifier: MIT */
/*
 * Writes the tables of the confab command as one JSON object to standard output. Nobody installs it: the build runs
 * it, for tools/pages to make manual pages from (client/meson.build).
 *
 *     {"tables": [{"name", "title", "text"?, "options": [OPTION...]}...], "commands": [COMMAND...]}
 *     OPTION:  {"name", "letter"?, "arg"?, "repeat"?, "help", "more"?}
 *     COMMAND: {"name", "args"?, "purpose"?, "summary", "help"?, "examples"?, "see"?, "binary",
 *               "options": ["name of a table" or [OPTION...], ...], "commands"?: [COMMAND...]}
 */
#include "client/cli-commands.h"

static void put_text(struct json *j, const char *key, const char *s) {
        if (s)
                json_put_key_string(j, key, s);
}

static void put_options(struct json *j, const struct cli_option *o) {
        json_array_begin(j);
        for (; o->name; o++) {
                json_object_begin(j);
                json_put_key_string(j, "name", o->name);
                if (o->letter)
                        json_put_key_string(j, "letter", (const char[]){o->letter, 0});
                put_text(j, "arg", o->arg);
                json_put_key_bool(j, "repeat", o->repeat);
                json_put_key_string(j, "help", o->help);
                put_text(j, "more", o->more);
                json_object_end(j);
        }
        json_array_end(j);
}

static void put_tables(struct json *j) {
        json_put_key(j, "tables");
        json_array_begin(j);
        for (const struct cli_table *t = cli_tables; t->options; t++) {
                json_object_begin(j);
                json_put_key_string(j, "name", t->name);
                json_put_key_string(j, "title", t->title);
                put_text(j, "text", t->text);
                json_put_key(j, "options");
                put_options(j, t->options);
                json_object_end(j);
        }
        json_array_end(j);
}

static void put_option_tables(struct json *j, const struct cli_command *c) {
        json_put_key(j, "options");
        json_array_begin(j);
        for (size_t i = 0; i < ARRAY_SIZE(c->options); i++) {
                const struct cli_table *t = c->options[i] ? cli_find_table(c->options[i]) : NULL;

                if (t)
                        json_put_string(j, t->name);
                else if (c->options[i])
                        put_options(j, c->options[i]);
        }
        json_array_end(j);
}

static void put_command(struct json *j, const struct cli_command *c) {
        json_object_begin(j);
        json_put_key_string(j, "name", c->name);
        put_text(j, "args", c->args);
        put_text(j, "purpose", cli_purpose_title(c->purpose));
        json_put_key_string(j, "summary", c->summary);
        put_text(j, "help", c->help);
        put_text(j, "examples", c->examples);
        put_text(j, "see", c->see);
        json_put_key_bool(j, "binary", c->binary);
        put_option_tables(j, c);
        if (c->commands) {
                json_put_key(j, "commands");
                json_array_begin(j);
                for (size_t i = 0; c->commands[i]; i++)
                        put_command(j, c->commands[i]);
                json_array_end(j);
        }
        json_object_end(j);
}

int main(void) {
        struct buf b = BUF_NULL;
        struct json j;
        int failed;

        json_init(&j, &b);
        json_object_begin(&j);
        put_tables(&j);
        json_put_key(&j, "commands");
        json_array_begin(&j);
        for (const struct cli_command *const *c = cli_commands; *c; c++)
                put_command(&j, *c);
        json_array_end(&j);
        json_object_end(&j);
        failed = json_finish(&j) < 0 || fwrite(b.data, 1, b.size, stdout) != b.size ||
                 fflush(stdout) != 0;
        buf_deinit(&b);
        return failed;
}
