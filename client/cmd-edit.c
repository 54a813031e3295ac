/* SPDX-License-Identifier: MIT */
#include "client/cli-commands.h"
#include <errno.h>
#include <string.h>

static int parse_turn(struct cli *cli, const char *s, size_t *ret) {
        unsigned long long v;
        char *end;

        errno = 0;
        v = strtoull(s, &end, 10);
        if (*s < '0' || *s > '9' || *end || errno || v >= UINT32_MAX)
                return cli_usage(cli, "'%s' is not the number of a turn", s);
        *ret = (size_t)v;
        return 0;
}

static int edit(struct cli *cli, struct confab_request *r, size_t turn) {
        struct cli_turn t = {0};
        int status = cli_get_turn(cli, cli->args[0], turn, &t);

        if (status)
                return status;
        if (!t.found || t.role != CONFAB_ROLE_USER) {
                if (t.found)
                        cli_complain(cli, "turn %zu is of the %s: a user's can be edited", turn,
                                confab_role_name(t.role));
                else
                        cli_complain(
                                cli, "there are %zu turns, and no number %zu", t.n_turns, turn);
                return CLI_FAILED;
        }
        status = cli_rewind_for(cli, &t, turn, r);
        return status ? status : cli_generate(cli, r, false);
}

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        _cleanup_(freep) char *text = NULL;
        struct generate_options o = {0};
        size_t turn = 0;
        int status = parse_turn(cli, cli->args[1], &turn);

        /* Everything that may be wrong, before anything is taken back. */
        if (status == 0)
                status = cli_read_text(cli, 2, CLI_TEXT_MESSAGE, &text, &r.text_size);
        if (status)
                return status;
        r.verb = CONFAB_CONTINUE;
        r.input = CONFAB_INPUT_MESSAGE;
        r.text = text;
        status = generate_options_init(&o, cli, &r);
        if (status == 0)
                status = edit(cli, &r, turn);
        generate_options_deinit(&o);
        return status;
}

const struct cli_command cmd_edit = {
        .name = "edit",
        .args = "NAME TURN [TEXT|-]",
        .min_args = 2,
        .max_args = 3,
        .summary = "Say something else at an earlier turn, and go on from there",
        .help = "TURN is the number of a user's turn, as 'show' counts them. It and what follows "
                "is "
                "taken back,\nthen TEXT is said. A fork made before keeps how it was. If somebody "
                "else changes the\nconversation meanwhile, the exit status is 4.",
        .options = {cli_text_options, cli_generate_options, cli_sampling_options},
        .run = run,
};
