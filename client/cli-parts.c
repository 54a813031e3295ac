/* SPDX-License-Identifier: MIT */
/*
 * Parts of replies as people see them, and what answers calls.
 *
 * 1. Text goes to standard output. Reasoning goes there too if that is a terminal, dimmed; else to
 *    standard error, so a pipe gets the text alone. --reasoning hide prints none; with --reasoning only
 *    it is all that goes to standard output.
 * 2. A call is one line on standard error, NAME(ARGUMENTS) [ID], once it is whole; and the exit status
 *    is CLI_CALLS, so that a script knows that it has to answer: 'confab say NAME --result ID=STRING'.
 * 3. A call that is broken is reported, and answers nothing.
 * 4. Where the command has a writer of Markdown (chat, on a terminal), text and reasoning go through it.
 */
#include "base/err.h"
#include "base/file.h"
#include "base/json-read.h"
#include "base/util.h"
#include "client/cli.h"
#include "client/markdown/markdown.h"
#include <errno.h>
#include <string.h>

#define FILE_MAX_SIZE ((size_t)4 << 20) /* no more fits a request */
#define DIM "\033[2m"
#define NOT_DIM "\033[22m"

/* ---- printing ---- */

int cli_reasoning(struct cli *cli, enum cli_reasoning *ret) {
        static const char *const names[] = {"show", "hide", "only"};
        const struct cli_value *v = cli_get(cli, "reasoning");

        *ret = CLI_REASONING_SHOW;
        for (size_t i = 0; v && i < ARRAY_SIZE(names); i++)
                if (strcmp(v->s, names[i]) == 0) {
                        *ret = (enum cli_reasoning)i;
                        return 0;
                }
        return v ? cli_usage(cli, "--reasoning takes show, hide or only, not '%s'", v->s) : 0;
}

/* To standard error; where that is a terminal, harmless. */
static void to_stderr(struct cli *cli, const char *s, size_t n) {
        struct buf safe = BUF_NULL;

        if (!cli->err_tty)
                (void)!fwrite(s, 1, n, stderr);
        else if (safe_append(&safe, s, n, true) == 0 && safe.size > 0)
                (void)!fwrite(safe.data, 1, safe.size, stderr);
        buf_deinit(&safe);
}

static void end_line(struct cli_parts *p) {
        if (p->line_open && p->cli->markdown) {
                if (markdown_end(p->cli->markdown, &p->cli->out) < 0)
                        p->cli->out_error = ENOMEM;
        } else if (p->line_open) {
                cli_printf(p->cli, "\n");
        }
        p->line_open = false;
        if (p->err_open)
                fputc('\n', stderr);
        p->err_open = false;
}

/* To standard output. */
static void put_text(struct cli_parts *p, const struct confab_part *part, bool dim) {
        struct markdown *m = p->cli->markdown;

        if (!m) {
                cli_printf(p->cli, "%s", dim ? DIM : "");
                cli_text(p->cli, part->text, part->text_size);
                cli_printf(p->cli, "%s", dim ? NOT_DIM : "");
                p->line_open = part->text[part->text_size - 1] != '\n';
                return;
        }
        if (!p->line_open)
                markdown_begin(m, dim, dim ? WRAP_DIM : 0);
        if (markdown_write(m, &p->cli->out, part->text, part->text_size) < 0)
                p->cli->out_error = ENOMEM;
        p->line_open = true; /* something may be held back in any case */
}

static void print_text(struct cli_parts *p, const struct confab_part *part) {
        if (p->reasoning == CLI_REASONING_ONLY || part->text_size == 0)
                return;
        if (p->last == CONFAB_PART_REASONING)
                end_line(p);
        put_text(p, part, false);
        p->last = CONFAB_PART_TEXT;
}

static void print_reasoning(struct cli_parts *p, const struct confab_part *part) {
        bool here = p->reasoning == CLI_REASONING_SHOW && p->cli->out_tty;
        bool dim = here && (p->cli->color || p->cli->markdown); /* dim is no colour */

        if (p->reasoning == CLI_REASONING_HIDE || part->text_size == 0)
                return;
        if (p->last == CONFAB_PART_TEXT)
                end_line(p);
        p->last = CONFAB_PART_REASONING;
        if (p->reasoning == CLI_REASONING_SHOW && !here) {
                to_stderr(p->cli, part->text, part->text_size);
                p->err_open = part->text[part->text_size - 1] != '\n';
                return;
        }
        put_text(p, part, dim);
}

/* The line of a call. */
static int put_call(
        struct buf *b, const char *name, const char *arguments, size_t n, const char *id) {
        int r = safe_append(b, name, strlen(name), false);

        if (r == 0)
                r = buf_append_str(b, "(");
        if (r == 0)
                r = safe_append(b, arguments, n, false);
        if (r == 0)
                r = buf_append_str(b, ") [");
        if (r == 0)
                r = safe_append(b, id, strlen(id), false);
        return r == 0 ? buf_append_str(b, "]\n") : r;
}

static void print_call(struct cli_parts *p, const struct confab_part *part) {
        struct buf line = BUF_NULL;

        if (part->name) {
                p->arguments.size = p->head.size = 0;
                (void)!buf_append(&p->head, part->name, strlen(part->name) + 1);
                (void)!buf_append_str(&p->head, part->call_id ? part->call_id : "");
        }
        if (buf_append(&p->arguments, part->text, part->text_size) < 0)
                p->cli->out_error = ENOMEM;
        if (!part->ends)
                return;
        end_line(p);
        p->last = CONFAB_PART_CALL;
        if (part->broken) {
                cli_complain(p->cli, "a call in the reply is broken: %s", part->broken);
                return;
        }
        p->n_calls++;
        if (p->head.size > 0 &&
                put_call(&line, (const char *)p->head.data,
                        p->arguments.size ? (const char *)p->arguments.data : "", p->arguments.size,
                        (const char *)p->head.data + strlen((const char *)p->head.data) + 1) == 0)
                (void)!fwrite(line.data, 1, line.size, stderr);
        buf_deinit(&line);
}

void cli_parts_print(struct cli_parts *p, const struct confab_part *parts, size_t n) {
        for (size_t i = 0; i < n; i++)
                switch (parts[i].kind) {
                case CONFAB_PART_REASONING:
                        print_reasoning(p, &parts[i]);
                        break;
                case CONFAB_PART_CALL:
                        print_call(p, &parts[i]);
                        break;
                default: /* newer kinds are shown as they are */
                        print_text(p, &parts[i]);
                        break;
                }
}

void cli_parts_end(struct cli_parts *p) {
        end_line(p);
        buf_deinit(&p->head);
        buf_deinit(&p->arguments);
}

void cli_print_parts(struct cli *cli, const struct confab_part *parts, size_t n) {
        for (size_t i = 0; i < n; i++) {
                const struct confab_part *part = &parts[i];
                bool dim = part->kind == CONFAB_PART_REASONING && cli->color;
                const char *name = part->name ? part->name : "";

                if (part->kind == CONFAB_PART_CALL) {
                        cli_name(cli, name);
                        cli_printf(cli, "(");
                        cli_name(cli, part->text);
                        cli_printf(cli, ") [");
                        cli_name(cli, part->call_id ? part->call_id : "");
                        cli_printf(cli, "]%s%s\n", part->broken ? " broken: " : "",
                                part->broken ? part->broken : "");
                        continue;
                }
                if (part->kind == CONFAB_PART_REASONING && !dim)
                        cli_printf(cli, "(reasoning)\n");
                cli_printf(cli, "%s", dim ? DIM : "");
                cli_text(cli, part->text, part->text_size);
                cli_printf(cli, "%s", dim ? NOT_DIM : "");
                if (part->text_size == 0 || part->text[part->text_size - 1] != '\n')
                        cli_printf(cli, "\n");
                if (part->kind == CONFAB_PART_REASONING && !dim)
                        cli_printf(cli, "(end of reasoning)\n");
        }
}

/* ---- files ---- */

static int read_file(struct cli *cli, const char *path, char **ret) {
        size_t size;
        struct err e;

        if (strcmp(path, "-") == 0)
                return cli_usage(cli, "standard input is for the text: name a file");
        if (file_read_all(path, FILE_MAX_SIZE, ret, &size, &e) < 0)
                return cli_error(cli, CLI_FAILED, CONFAB_SYSTEM, "%s", e.msg);
        if (strlen(*ret) < size)
                return cli_error(cli, CLI_FAILED, CONFAB_INVALID, "%s: it has a NUL byte", path);
        return 0;
}

int cli_tools(struct cli *cli, char **ret, struct confab_request *r) {
        const struct cli_value *v = cli_get(cli, "tools");
        int status = v ? read_file(cli, v->s, ret) : 0;

        if (status == 0 && v)
                r->tools = *ret;
        return status;
}

/* ---- results ---- */

static int no_memory(struct cli *cli) {
        return cli_error(cli, CLI_FAILED, CONFAB_NO_MEMORY, "no memory for the results of calls");
}

/* An empty one more. */
static struct cli_result *add_result(struct cli_results *x) {
        struct cli_result *grown = reallocarray(x->own, x->n + 1, sizeof(*grown));

        if (!grown)
                return NULL;
        x->own = grown;
        x->own[x->n] = (struct cli_result){0};
        return &x->own[x->n++];
}

static int add_option(struct cli *cli, struct cli_results *x, const char *s) {
        const char *eq = strchr(s, '=');
        struct cli_result *to;

        if (!eq || eq == s)
                return cli_usage(cli, "--result takes ID=STRING, not '%s'", s);
        to = add_result(x);
        if (!to || !(to->call_id = text_dup(s, (size_t)(eq - s))) || !(to->text = strdup(eq + 1)))
                return no_memory(cli);
        return 0;
}

/* A string, or the text of any other JSON value. */
static int take_value(struct json_reader *j, char **ret, bool any, struct err *e) {
        enum json_item item = JSON_ITEM_END;
        size_t start;
        int r = json_next(j, &item, e);

        if (r < 0)
                return r;
        if (*ret || (item != JSON_ITEM_STRING && !any))
                return json_wrong(j, e, *ret ? "a key twice" : "this is no string");
        if (item == JSON_ITEM_STRING) {
                if (j->string.size > 0 && memchr(j->string.data, 0, j->string.size))
                        return json_wrong(j, e, "a string with a NUL");
                *ret = text_dup(j->string.data, j->string.size);
        } else {
                start = j->start;
                r = json_skip(j, item, e);
                if (r < 0)
                        return r;
                *ret = text_dup(j->text + start, j->at - start);
        }
        return *ret ? 0 : err_set(e, ERR_NOMEM, "no memory for the results of calls");
}

static int take_result(struct json_reader *j, struct cli_result *to, struct err *e) {
        enum json_item item = JSON_ITEM_END;
        int r;

        while ((r = json_next(j, &item, e)) == 0 && item == JSON_ITEM_KEY) {
                if (json_is(j, "call_id") || json_is(j, "tool_call_id"))
                        r = take_value(j, &to->call_id, false, e);
                else if (json_is(j, "name"))
                        r = take_value(j, &to->name, false, e);
                else if (json_is(j, "content"))
                        r = take_value(j, &to->text, true, e);
                else
                        r = json_wrong(j, e, "a result has call_id, name and content");
                if (r < 0)
                        return r;
        }
        if (r == 0 && (!to->call_id || !to->text))
                r = json_wrong(j, e, "a result has call_id and content");
        return r;
}

static int parse_results(struct cli_results *x, struct json_reader *j, struct err *e) {
        enum json_item item = JSON_ITEM_END;
        int r = json_next(j, &item, e);

        if (r == 0 && item != JSON_ITEM_ARRAY)
                r = json_wrong(j, e, "results are an array");
        while (r == 0 && (r = json_next(j, &item, e)) == 0 && item == JSON_ITEM_OBJECT) {
                struct cli_result *to = add_result(x);

                r = to ? take_result(j, to, e) : err_set(e, ERR_NOMEM, "no memory for results");
        }
        if (r == 0 && item != JSON_ITEM_ARRAY_END)
                r = json_wrong(j, e, "a result is an object");
        return r == 0 ? json_next(j, &item, e) : r;
}

static int add_file(struct cli *cli, struct cli_results *x, const char *path) {
        _cleanup_(freep) char *text = NULL;
        struct json_reader j;
        struct err e;
        int r, status = read_file(cli, path, &text);

        if (status)
                return status;
        json_reader_init(&j, text, strlen(text));
        r = parse_results(x, &j, &e);
        json_reader_deinit(&j);
        return r < 0 ? cli_error(cli, CLI_FAILED, CONFAB_INVALID, "%s: %s", path, e.msg) : 0;
}

int cli_results_init(struct cli_results *x, struct cli *cli, struct confab_request *r) {
        const struct cli_value *v;
        size_t it = 0;
        int status = 0;

        while (status == 0 && (v = cli_get_each(cli, "result", &it)))
                status = add_option(cli, x, v->s);
        if (status == 0 && (v = cli_get(cli, "results")))
                status = add_file(cli, x, v->s);
        if (status)
                return status;
        x->results = calloc(x->n + 1, sizeof(*x->results));
        if (!x->results)
                return no_memory(cli);
        for (size_t i = 0; i < x->n; i++)
                x->results[i] =
                        (struct confab_result){x->own[i].call_id, x->own[i].name, x->own[i].text};
        r->results = x->results;
        r->n_results = x->n;
        return 0;
}

void cli_results_deinit(struct cli_results *x) {
        for (size_t i = 0; i < x->n; i++) {
                free(x->own[i].call_id);
                free(x->own[i].name);
                free(x->own[i].text);
        }
        free(x->own);
        free(x->results);
        *x = (struct cli_results){0};
}
