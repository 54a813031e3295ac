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

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        _cleanup_(freep) char *text = NULL;
        struct generate_options o = {0};
        size_t turn = 0;
        int status = parse_turn(cli, cli->args[1], &turn);

        if (status == 0)
                status = cli_read_text(cli, 2, CLI_TEXT_MESSAGE, &text, &r.text_size);
        if (status)
                return status;
        r.verb = CONFAB_CONTINUE;
        r.input = CONFAB_INPUT_MESSAGE;
        r.text = text;
        status = generate_options_init(&o, cli, &r);
        if (status == 0)
                status = cli_edit(cli, cli->args[0], turn, &r);
        generate_options_deinit(&o);
        return status;
}

const struct cli_command cmd_edit = {
        .name = "edit",
        .args = "NAME TURN [TEXT|@FILE|-]",
        .min_args = 2,
        .max_args = 3,
        .purpose = CLI_PURPOSE_TALK,
        .summary = "Say something else at an earlier turn, and go on from there",
        .help = "TURN is the number of a user's turn, as 'confab show' counts them. TEXT, given as "
                "for 'confab say', and its reply replace it and all that follows. What is replaced "
                "is dropped once the new turns are saved: it stays if the request is refused, or "
                "interrupted before the first token. A fork made before keeps how it was. If "
                "somebody else changes the conversation in between, the exit status is 4 and what "
                "they said stays.",
        .examples = "confab edit other 1 'My dog is called Tom.'",
        .see = "regenerate rewind fork",
        .options = {cli_text_options, cli_generate_options, cli_sampling_options},
        .run = run,
};
