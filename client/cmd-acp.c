/* SPDX-License-Identifier: MIT */
#include "client/acp/acp.h"
#include "client/cli-commands.h"
#include <poll.h>

static int connect_daemon(void *userdata, struct confab **ret, struct confab_error *e) {
        return cli_make_connection(userdata, ret, e);
}

/* An editor that does not read standard error must not hold up its own prompts. */
static void complain(void *userdata, const char *words) {
        struct pollfd fd = {.fd = STDERR_FILENO, .events = POLLOUT};

        if (poll(&fd, 1, 0) > 0 && fd.revents & POLLOUT)
                cli_complain(userdata, "%s", words);
}

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct generate_options o = {0};
        _cleanup_(freep) char *system = NULL;
        const struct cli_value *max_tokens = cli_get(cli, "max-tokens");
        struct acp_options options = {
                .connect = connect_daemon, .complain = complain, .userdata = cli};
        struct err e;
        int status;

        r.verb = CONFAB_OPEN;
        r.overflow = CONFAB_OVERFLOW_SHIFT;
        status = cli_overflow(cli, &r);
        if (status == 0)
                status = generate_options_init(&o, cli, &r);
        if (status == 0)
                status = cli_option_text(cli, "system", "for the editor", &system, &options.system);
        if (status == 0) {
                options.sampling = r.sampling;
                options.overflow = r.overflow;
                options.has_max_tokens = max_tokens != NULL;
                options.max_tokens = max_tokens ? (uint32_t)max_tokens->u : 0;
                status = acp_run(&options, STDIN_FILENO, STDOUT_FILENO, &e);
                if (status < 0) {
                        cli_complain(cli, "%s", e.msg);
                        status = CLI_FAILED;
                } else if (status == ACP_READER_GONE) {
                        status = CLI_BROKEN_PIPE;
                }
        }
        generate_options_deinit(&o);
        return status;
}

static const struct cli_option options_of_acp[] = {
        {"system", "TEXT", CLI_STRING, .letter = 's', .help = "system message of new sessions"},
        {"max-tokens", "N", CLI_UINT, .letter = 'm', .max_uint = UINT32_MAX - 1,
                .help = "longest reply to a prompt",
                .more = "Without it the daemon's max-tokens counts."},
        {"overflow", "shift|error", CLI_STRING,
                .help = "new sessions at the end of the context: drop old turns from what the "
                        "model "
                        "sees (unless told otherwise), or fail"},
        {.name = NULL},
};

const struct cli_command cmd_acp = {
        .name = "acp",
        .args = "",
        .summary = "Serve an editor: the Agent Client Protocol on standard input and output",
        .help = "For editors that speak the Agent Client Protocol (agentclientprotocol.com), "
                "version 1: they start it. In Zed, for example, its settings name it:\n\n "
                "\"agent_servers\": { \"confab\": { \"command\": \"confab\", \"args\": [\"acp\"] } "
                "}\n\nA session is a conversation, and its id the conversation's number; a name "
                "does as well. So it is there after a restart of the editor and of the daemon, and "
                "every other command reaches it. The sampling options apply to every "
                "prompt.\n\nsession/new opens one that is closed after a week without a prompt; "
                "its first prompt keeps it, and gives it its first line as a title. The editor's "
                "folder is noted in its metadata. MCP servers are not used, and the model is given "
                "no functions. session/load, session/resume and session/fork take any conversation "
                "of the user. session/list shows the sessions that editors opened for the folder "
                "that it names, or without one all conversations; those that are to be thrown away "
                "are left out.\n\nsession/prompt takes text, links and embedded text; images and "
                "sound are refused. Prompts of one session are answered one after the other. It "
                "ends with end_turn where the model ends, max_tokens at the longest reply or the "
                "end of the context, cancelled after session/cancel. Reasoning and calls of "
                "functions are told as what they are. session/close ends its prompts; "
                "session/delete closes the conversation for good.\n\nErrors of the daemon have its "
                "code and whether to try again in their data. After the daemon has ended, the "
                "prompts under way end with an error, and the next request connects again. What "
                "concerns no request goes to standard error. The program ends when its standard "
                "input has ended and everything is answered, with 0. Lines have at most 8 MiB, and "
                "256 requests may wait for their answers.",
        .see = "chat",
        .options = {options_of_acp, cli_sampling_options},
        .binary = true,
        .run = run,
};
