/* SPDX-License-Identifier: MIT */
#include "client/cli-commands.h"
#include "client/cli-jobs.h"
#include "client/cli-throwaway.h"
#include <string.h>

#define BEST_OF_MAX 64

/* The input is results of calls. */
static int take_results(struct cli *cli, struct confab_request *r) {
        r->input = CONFAB_INPUT_RESULTS;
        if (cli->n_args > 1 || cli_get(cli, "no-input") || cli_get(cli, "raw"))
                return cli_usage(cli, "results of calls go without a text, --no-input and --raw");
        return 0;
}

/* --role. Nothing answers a message of the system, or of the assistant itself, unless a length is asked for. */
static int take_role(struct cli *cli, struct confab_request *r) {
        static const enum confab_role roles[] = {
                CONFAB_ROLE_USER, CONFAB_ROLE_SYSTEM, CONFAB_ROLE_ASSISTANT};
        const struct cli_value *v = cli_get(cli, "role");

        if (!v)
                return 0;
        if (r->input != CONFAB_INPUT_MESSAGE)
                return cli_usage(
                        cli, "--role is for messages: it goes with a text, and without --raw");
        for (size_t i = 0; i < ARRAY_SIZE(roles); i++)
                if (strcmp(v->s, confab_role_name(roles[i])) == 0)
                        r->role = roles[i];
        if (!r->role)
                return cli_usage(cli, "--role takes user, system or assistant, not '%s'", v->s);
        if (r->role != CONFAB_ROLE_USER && !r->has_max_tokens)
                r->has_max_tokens = true; /* of 0 */
        return 0;
}

/* Fill the request's input and options; *ret_text is to be freed. */
static int prepare(struct cli *cli, struct confab_request *r, char **ret_text) {
        const struct cli_value *revision = cli_get(cli, "expect-revision");
        bool raw = cli_get(cli, "raw") != NULL;
        int status;

        r->verb = CONFAB_CONTINUE;
        status = cli_ref(cli, cli->args[0], r);
        if (status)
                return status;
        r->detach = cli_get(cli, "detach") != NULL;
        r->has_expect_revision = revision != NULL;
        r->expect_revision = revision ? revision->u : 0;
        if (r->n_results > 0 || cli_get(cli, "results"))
                return take_results(cli, r);
        if (cli_get(cli, "no-input")) {
                r->input = CONFAB_INPUT_NONE;
                return cli->n_args > 1 ? cli_usage(cli, "--no-input goes without a text") : 0;
        }
        status = cli_read_text(
                cli, 1, raw ? CLI_TEXT_RAW : CLI_TEXT_MESSAGE, ret_text, &r->text_size);
        r->text = *ret_text;
        r->input = raw ? CONFAB_INPUT_RAW : CONFAB_INPUT_MESSAGE;
        return status;
}

/* As the options say: once, in a fork, or as the best of several. */
static int say(struct cli *cli, struct confab_request *r) {
        const struct cli_value *best_of = cli_get(cli, "best-of");
        bool ephemeral = cli_get(cli, "ephemeral") != NULL;

        if (r->detach && (ephemeral || best_of))
                return cli_usage(cli, "--detach goes without --ephemeral and --best-of");
        if (ephemeral && best_of)
                return cli_usage(cli, "--ephemeral and --best-of exclude each other");
        if (!best_of)
                return ephemeral ? cli_generate_throwaway(cli, r, NULL)
                                 : cli_generate(cli, r, r->detach);
        if ((r->sampling->has & CONFAB_HAS_TEMPERATURE) && r->sampling->temperature == 0)
                return cli_usage(cli, "--best-of: with temperature 0 all replies are the same");
        if (r->has_max_tokens && r->max_tokens == 0)
                return cli_usage(cli, "--best-of: without a reply there is nothing to choose");
        return cli_generate_best(cli, r, (size_t)best_of->u);
}

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        _cleanup_(freep) char *text = NULL;
        _cleanup_(freep) char *tools = NULL;
        struct generate_options o = {0};
        struct cli_results results = {0};
        int status = cli_results_init(&results, cli, &r);

        if (status == 0)
                status = cli_tools(cli, &tools, &r);
        if (status == 0)
                status = prepare(cli, &r, &text);
        if (status == 0)
                status = generate_options_init(&o, cli, &r);
        if (status == 0)
                status = take_role(cli, &r);
        if (status == 0)
                status = say(cli, &r);
        generate_options_deinit(&o);
        cli_results_deinit(&results);
        return status;
}

static const struct cli_option options[] = {
        {"raw", NULL, CLI_FLAG, .letter = 'r', .help = "TEXT as it is, without the chat template"},
        {"no-input", NULL, CLI_FLAG, .letter = 'c', .help = "generate from what is there"},
        {"expect-revision", "N", CLI_UINT, .max_uint = UINT64_MAX,
                .help = "fail if the conversation is not at revision N"},
        CLI_TOOLS_OPTION,
        {"result", "ID=STRING", CLI_STRING, .repeat = true,
                .help = "in place of TEXT: what call ID of the last reply led to",
                .more = "It is taken as it stands: an @ means nothing in it."},
        {"results", "FILE", CLI_STRING,
                .help = "the same from JSON: [{\"call_id\", \"content\"}, ...]",
                .more = "There may be a name, too; content that is no string is said as it is "
                        "written."},
        {"role", "user|system|assistant", CLI_STRING,
                .help = "who says TEXT; only the user gets a reply, or with --max-tokens"},
        {"ephemeral", NULL, CLI_FLAG, .letter = 'e',
                .help = "say it in a fork that is closed after the reply",
                .more = "The conversation stays as it is, as with 'confab ask'."},
        {"best-of", "N", CLI_UINT, .min = 1, .max_uint = BEST_OF_MAX,
                .help = "write N replies, and keep the one that the model finds likeliest",
                .more = "At most 64, at once, in forks of which nothing is left. The best one has "
                        "the "
                        "greatest mean log-probability of its tokens: of it the model was least "
                        "unsure, which does not make it the most correct. They differ in their "
                        "seeds: --seed is that of the first, each further one has the next number. "
                        "The best one is written again in the conversation, with its seed, which "
                        "gives the same text. With --json an object of each comes first. If "
                        "somebody else changes the conversation meanwhile, the exit status is 4."},
        {"detach", NULL, CLI_FLAG, .letter = 'd',
                .help = "leave once accepted; the reply goes on by itself",
                .more = "It is there for 'confab show' when it is done."},
        {.name = NULL},
};

const struct cli_command cmd_say = {
        .name = "say",
        .args = "NAME [TEXT|@FILE|-]",
        .min_args = 1,
        .max_args = 2,
        .purpose = CLI_PURPOSE_TALK,
        .summary = "Say something and print the reply as it comes",
        .help = "TEXT is said as it is. @FILE says what a file has; write @@ for an @ that is "
                "said, and '--' in front of a TEXT that may be anything. '-', or no TEXT, says "
                "what standard input has. The last newline of a file or of standard input is "
                "dropped unless --raw is given. A text of nothing but white space is wrong usage. "
                "NAME has to exist: 'confab open' makes one.\n\nWith a TEXT, a pipe or file on "
                "standard input is said before it, with a blank line between; -n leaves it alone, "
                "as in loops that read their own.\n\nThe reply is all that goes to standard "
                "output, with a newline at its end if it has none. With --json each event is one "
                "object on a line. Ctrl-C ends the reply early and keeps what there is of it; a "
                "second one leaves at once. Reasoning is dimmed on a terminal, and else goes to "
                "standard error.\n\nA reply may ask for functions: each call is one line on "
                "standard error, NAME(ARGUMENTS) [ID], and the exit status is 7. Answer with "
                "--result.",
        .examples = "confab say notes 'My cat is called Tom.'\n"
                    "git diff | confab say review 'Is this change right?'\n"
                    "confab say notes 'Summarise this:' < report.txt\n"
                    "confab say notes @question.txt\n"
                    "confab say notes --best-of 5 'A title for it?'\n"
                    "while read -r line; do confab say -n notes -- \"$line\"; done < list",
        .see = "ask attach chat edit map open regenerate wait",
        .options = {options, cli_text_options, cli_generate_options, cli_sampling_options},
        .run = run,
};
