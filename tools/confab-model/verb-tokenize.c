/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/util.h"
#include "cli.h"
#include "chat/chat.h"
#include "gguf/gguf.h"
#include "tok/tok.h"

struct tokenize {
        const char *file, *text; /* text NULL or "-": standard input */
        bool ids, json, add_special, parse_special;
};

static int read_stdin(struct buf *b, struct err *e) {
        char chunk[65536];
        size_t n;

        while ((n = fread(chunk, 1, sizeof(chunk), stdin)) > 0)
                if (buf_append(b, chunk, n) < 0)
                        return err_set(e, ERR_NOMEM, "no memory for standard input");
        if (ferror(stdin))
                return err_set(e, ERR_SYS, "cannot read standard input");
        return 0;
}

/* Tokens of any length: ask for the length first. */
static int piece(const struct tok *t, int32_t token, struct buf *out, struct err *e) {
        size_t n = tok_piece(t, token, true, NULL, 0);

        buf_consume(out, out->size);
        if (n && buf_reserve(out, n) < 0)
                return err_set(e, ERR_NOMEM, "no memory for a token of %zu bytes", n);
        if (n) {
                tok_piece(t, token, true, (char *)out->data + out->size, n);
                out->size += n;
        }
        return 0;
}

static int put_json(
        const struct tok *t, const struct tok_ids *ids, struct buf *out, struct err *e) {
        struct buf text = BUF_NULL;
        struct json j;
        int r = 0;

        json_init(&j, out);
        json_object_begin(&j);
        json_put_key(&j, "ids");
        json_array_begin(&j);
        for (size_t i = 0; i < ids->n; i++)
                json_put_i64(&j, ids->ids[i]);
        json_array_end(&j);
        json_put_key(&j, "pieces");
        json_array_begin(&j);
        for (size_t i = 0; r == 0 && i < ids->n; i++) {
                r = piece(t, ids->ids[i], &text, e);
                if (r == 0)
                        json_put_string_n(&j, text.size ? (const void *)text.data : "", text.size);
        }
        json_array_end(&j);
        json_object_end(&j);
        buf_deinit(&text);
        if (r == 0 && (json_finish(&j) < 0 || buf_append_str(out, "\n") < 0))
                r = err_set(e, ERR_NOMEM, "no memory for the result");
        return r;
}

/* One line: the ids, separated by spaces. */
static int put_ids(const struct tok_ids *ids, struct buf *out, struct err *e) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < ids->n; i++)
                r = buf_printf(out, "%s%d", i ? " " : "", ids->ids[i]);
        if (r == 0)
                r = buf_append_str(out, "\n");
        return r < 0 ? err_set(e, ERR_NOMEM, "no memory for the result") : 0;
}

/* One line per token: the id, a tab, the piece as a JSON string. */
static int put_lines(
        const struct tok *t, const struct tok_ids *ids, struct buf *out, struct err *e) {
        struct buf text = BUF_NULL;
        int r = 0;

        for (size_t i = 0; r == 0 && i < ids->n; i++) {
                struct json j;

                r = piece(t, ids->ids[i], &text, e);
                if (r < 0)
                        break;
                r = buf_printf(out, "%d\t", ids->ids[i]);
                json_init(&j, out);
                json_put_string_n(&j, text.size ? (const void *)text.data : "", text.size);
                if (r == 0)
                        r = json_finish(&j);
                if (r == 0)
                        r = buf_append_str(out, "\n");
                if (r < 0)
                        err_set(e, ERR_NOMEM, "no memory for the result");
        }
        buf_deinit(&text);
        return r;
}

static int encode(
        const struct tokenize *o, const struct tok *t, struct tok_ids *ids, struct err *e) {
        struct buf in = BUF_NULL;
        struct tok_fragment f = {.parse_special = o->parse_special};
        int r = 0;

        if (o->text && strcmp(o->text, "-")) {
                f.text = o->text;
                f.size = strlen(o->text);
        } else {
                r = read_stdin(&in, e);
                f.text = in.size ? (const char *)in.data : "";
                f.size = in.size;
        }
        if (r == 0)
                r = tok_encode(t, &f, 1, o->add_special, true, 0, ids, e);
        buf_deinit(&in);
        return r;
}

static int run_parsed(const struct tokenize *o) {
        _cleanup_(gguf_freep) struct gguf *g = NULL;
        _cleanup_(tok_freep) struct tok *t = NULL;
        _cleanup_(chat_freep) struct chat *chat = NULL;
        struct gguf_str template = {NULL, 0};
        struct tok_ids ids = TOK_IDS_NULL;
        struct buf out = BUF_NULL;
        struct err e;
        int r;

        r = gguf_open(&g, o->file, &e);
        if (r == 0)
                r = tok_new(&t, g, &e);
        if (r == 0)
                r = gguf_get_str(g, "tokenizer.chat_template", &template, &e);
        /* The daemon's tokens: text does not become what the template writes. */
        if (r >= 0)
                r = chat_new(&chat, t, template.data, template.size, NULL, &e);
        if (r == 0)
                r = encode(o, t, &ids, &e);
        if (r == 0)
                r = o->json  ? put_json(t, &ids, &out, &e)
                    : o->ids ? put_ids(&ids, &out, &e)
                             : put_lines(t, &ids, &out, &e);
        if (r < 0)
                r = cli_fail(o->file, &e);
        else
                r = cli_print(&out);
        tok_ids_deinit(&ids);
        buf_deinit(&out);
        return r;
}

static int run(const struct cli_verb *v, int argc, char **argv) {
        static const struct option options[] = {{"ids", 0, NULL, 'i'}, {"json", 0, NULL, 'j'},
                {"special", 0, NULL, 's'}, {"parse-special", 0, NULL, 'p'}, {"help", 0, NULL, 'h'},
                {0}};
        struct tokenize o = {0};
        int c;

        opterr = 0;
        while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1)
                switch (c) {
                case 'i':
                        o.ids = true;
                        break;
                case 'j':
                        o.json = true;
                        break;
                case 's':
                        o.add_special = true;
                        break;
                case 'p':
                        o.parse_special = true;
                        break;
                case 'h':
                        return cli_help(v);
                default:
                        return cli_usage(v, "bad option");
                }
        if (argc - optind < 1 || argc - optind > 2)
                return cli_usage(v, "expected a model file and at most one text");
        o.file = argv[optind];
        o.text = argv[optind + 1];
        return run_parsed(&o);
}

const struct cli_verb verb_tokenize = {
        .name = "tokenize",
        .usage = "FILE [--ids] [--special] [--parse-special] [--json] [TEXT|-]",
        .help = "Prints the tokens of TEXT, or of standard input: a line for each with its id, a\n"
                "tab and its text as a JSON string.\n"
                "\n"
                "  --ids            only the ids, on one line\n"
                "  --special        add the begin and end tokens that the model asks for\n"
                "  --parse-special  recognise control tokens in the text\n"
                "  --json           one object: {\"ids\": [...], \"pieces\": [...]}\n",
        .run = run,
};
