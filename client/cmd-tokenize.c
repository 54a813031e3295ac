/* SPDX-License-Identifier: MIT */
#include "client/cli-commands.h"
#include <errno.h>

static void print_json(struct cli *cli, const struct confab_tokens *t) {
        struct json j;

        json_init(&j, &cli->out);
        json_object_begin(&j);
        json_put_key(&j, "tokens");
        json_array_begin(&j);
        for (size_t i = 0; i < t->n_tokens; i++)
                json_put_i64(&j, t->tokens[i]);
        json_array_end(&j);
        json_put_key(&j, "pieces");
        json_array_begin(&j);
        for (size_t i = 0; i < t->n_pieces; i++)
                json_put_string_n(&j, t->pieces[i].data, t->pieces[i].size);
        json_array_end(&j);
        json_object_end(&j);
        cli_json_end(cli, &j);
}

static void event(void *userdata, const struct confab_event *ev) {
        const struct confab_tokens *t = ev->tokens;
        struct cli *cli = userdata;

        if (ev->kind != CONFAB_EVENT_TOKENS)
                return;
        if (cli->json) {
                print_json(cli, t);
                return;
        }
        if (cli_get(cli, "ids")) {
                for (size_t i = 0; i < t->n_tokens; i++)
                        cli_printf(cli, "%s%d", i ? "," : "", t->tokens[i]);
                cli_printf(cli, "\n");
                return;
        }
        for (size_t i = 0; i < t->n_tokens; i++) {
                cli_printf(cli, "%7d ", t->tokens[i]);
                /* one token, one line: here newlines are made visible wherever it goes */
                if (i < t->n_pieces &&
                        safe_append(&cli->out, t->pieces[i].data, t->pieces[i].size, false) < 0)
                        cli->out_error = ENOMEM;
                cli_printf(cli, "\n");
        }
}

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        _cleanup_(freep) char *text = NULL;
        int status = cli_read_text(cli, 0, CLI_TEXT_ANY, &text, &r.text_size);

        if (status)
                return status;
        r.verb = CONFAB_TOKENIZE;
        r.text = text;
        r.special = cli_get(cli, "special") != NULL;
        r.add_bos = cli_get(cli, "bos") != NULL;
        return cli_call(cli, &r, event, cli);
}

static const struct cli_option options[] = {
        {"ids", NULL, CLI_FLAG, .help = "only the numbers, as 1,2,3"},
        {"special", NULL, CLI_FLAG, .help = "take control tokens in TEXT for what they name"},
        {"bos", NULL, CLI_FLAG, .help = "begin with the beginning-of-text token"},
        {.name = NULL},
};

const struct cli_command cmd_tokenize = {
        .name = "tokenize",
        .args = "[TEXT|-]",
        .max_args = 1,
        .summary = "Show the tokens of a text",
        .help = "One token on each line, number and piece. Without TEXT, or with '-', standard "
                "input\n"
                "is read as it is; with both they are joined as 'say' does.",
        .options = {options, cli_text_options},
        .run = run,
};
