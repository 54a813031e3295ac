/* SPDX-License-Identifier: MIT */
#include "client/cli-commands.h"
#include "client/event-json.h"
#include <errno.h>

static void event(void *userdata, const struct confab_event *ev) {
        const struct confab_tokens *t = ev->tokens;
        struct cli *cli = userdata;
        struct json j;

        if (ev->kind != CONFAB_EVENT_TOKENS)
                return;
        if (cli->json) {
                json_init(&j, &cli->out);
                event_json_tokenized(&j, t);
                cli_json_end(cli, &j);
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
        {"ids", NULL, CLI_FLAG, .letter = 'i', .help = "only the numbers, as 1,2,3"},
        {"special", NULL, CLI_FLAG, .help = "take control tokens in TEXT for what they name"},
        {"bos", NULL, CLI_FLAG, .help = "begin with the beginning-of-text token"},
        {.name = NULL},
};

const struct cli_command cmd_tokenize = {
        .name = "tokenize",
        .args = "[TEXT|@FILE|-]",
        .max_args = 1,
        .summary = "Show the tokens of a text",
        .help = "One token on each line, number and piece. TEXT is given as for 'confab say', but "
                "nothing is taken off its end; an empty one has no tokens.",
        .examples = "confab tokenize --ids 'hello world'",
        .see = "model",
        .options = {options, cli_text_options},
        .run = run,
};
