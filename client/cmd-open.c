/* SPDX-License-Identifier: MIT */
/*
 * Open a conversation, empty or with a transcript from elsewhere (--from, client/transcript.h).
 *
 * A transcript is said without generating, turn by turn in one request. Until that is done the conversation is a
 * throw-away one: whatever happens in between, there is all of it or, after two minutes, nothing.
 */
#include "base/err.h"
#include "client/cli-commands.h"
#include "client/cli-throwaway.h"
#include "client/transcript.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define EXPORT_MAGIC "cEXP" /* docs/spill.md */

static void print(struct cli *cli, const struct confab_conversation *c) {
        cli_name(cli, c->name);
        cli_printf(cli, "\n");
}

static void take_id(void *userdata, const struct confab_event *event) {
        if (event->kind == CONFAB_EVENT_CONVERSATION)
                *(uint64_t *)userdata = event->conversation->id;
}

/* Open @r as a throw-away conversation, say what @t has, and keep it. */
static int open_with(struct cli *cli, struct confab_request *r, const struct transcript *t) {
        const struct confab_about stays = {.has_expires_after = true};
        struct confab_request say = CONFAB_REQUEST_INIT, keep = CONFAB_REQUEST_INIT;
        uint64_t id = 0;
        int status;

        r->about = &cli_throwaway_about;
        status = cli_call(cli, r, take_id, &id);
        if (status)
                return status;
        say.verb = CONFAB_CONTINUE;
        say.conversation_id = id;
        say.input = CONFAB_INPUT_MESSAGES;
        say.messages = t->messages;
        say.n_messages = t->n_messages;
        say.has_max_tokens = true; /* of 0 */
        status = cli_call(cli, &say, NULL, NULL);
        if (status) {
                keep.verb = CONFAB_CLOSE;
                keep.conversation_id = id;
                confab_call(cli->confab, &keep, NULL, NULL, NULL);
                return status;
        }
        keep.verb = CONFAB_UPDATE;
        keep.conversation_id = id;
        keep.about = &stays;
        return cli_call_conversation(cli, &keep, print);
}

/* The text of the file, which may be a pipe, or of standard input. */
static int read_transcript(struct cli *cli, const char *path, struct buf *ret) {
        bool is_stdin = strcmp(path, "-") == 0;
        _cleanup_(closep) int fd = is_stdin ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
        char chunk[16384];
        ssize_t n = fd < 0 ? -1 : 0;
        int r = 0;

        ret->max = TRANSCRIPT_MAX;
        while (fd >= 0 && r == 0) {
                n = read(fd, chunk, sizeof(chunk));
                if (n == 0 || (n < 0 && errno != EINTR))
                        break;
                r = n > 0 ? buf_append(ret, chunk, (size_t)n) : 0;
        }
        if (n < 0)
                return cli_error(cli, CLI_FAILED, CONFAB_SYSTEM, "cannot read '%s': %s", path,
                        strerrordesc_np(errno));
        if (r == -ERR_LIMIT)
                return cli_error(cli, CLI_LIMIT, CONFAB_LIMIT,
                        "'%s' has more than %zu MiB: a transcript may have no more", path,
                        TRANSCRIPT_MAX >> 20);
        if (r < 0)
                return cli_error(cli, CLI_FAILED, CONFAB_NO_MEMORY, "no memory for '%s'", path);
        if (ret->size >= 4 && memcmp(ret->data, EXPORT_MAGIC, 4) == 0)
                return cli_error(cli, CLI_FAILED, CONFAB_INVALID,
                        "'%s' is an export: 'confab import' takes it", path);
        return 0;
}

static int open_from(struct cli *cli, struct confab_request *r, const char *path) {
        _cleanup_(buf_deinit) struct buf text = BUF_NULL;
        struct transcript t;
        struct err e;
        int status = read_transcript(cli, path, &text);

        if (status)
                return status;
        if (transcript_parse(&t, text.data ? (char *)text.data : "", text.size, &e) < 0)
                return cli_error(cli, e.code == ERR_TOO_LARGE ? CLI_LIMIT : CLI_FAILED,
                        err_code_name(e.code), "%s: %s",
                        strcmp(path, "-") == 0 ? "standard input" : path, e.msg);
        if (!r->tools)
                r->tools = t.tools;
        if (r->system && t.messages[0].role == CONFAB_ROLE_SYSTEM)
                status = cli_usage(
                        cli, "the transcript has a system message of its own: leave out --system");
        else
                status = open_with(cli, r, &t);
        transcript_deinit(&t);
        return status;
}

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        _cleanup_(freep) char *tools = NULL;
        struct generate_options o = {0};
        _cleanup_(freep) char *system = NULL;
        const struct cli_value *from = cli_get(cli, "from");
        int status;

        r.verb = CONFAB_OPEN;
        r.name = cli->n_args ? cli->args[0] : NULL;
        status = cli_option_text(cli, "system",
                from && strcmp(from->s, "-") == 0 ? "for the transcript" : NULL, &system,
                &r.system);
        if (status == 0)
                status = cli_overflow(cli, &r);
        if (status == 0)
                status = cli_tools(cli, &tools, &r);
        if (status == 0)
                status = generate_options_init(&o, cli, &r);
        if (status == 0)
                status = from ? open_from(cli, &r, from->s) : cli_call_conversation(cli, &r, print);
        generate_options_deinit(&o);
        return status;
}

static const struct cli_option options[] = {
        {"system", "TEXT", CLI_STRING, .letter = 's', .help = "system message, the first turn"},
        {"from", "FILE", CLI_STRING, .letter = 'f',
                .help = "begin with a transcript: JSON of show, OpenAI's messages, or a log of llm",
                .more = "- is standard input, and a pipe will do. At most 32 MiB."},
        CLI_TOOLS_OPTION,
        CLI_OVERFLOW_OPTION,
        {.name = NULL},
};

const struct cli_command cmd_open = {
        .name = "open",
        .args = "[NEW]",
        .max_args = 1,
        .purpose = CLI_PURPOSE_KEEP,
        .summary = "Open a new conversation and print its name",
        .help = "Without NEW the daemon chooses a name. The sampling options become the "
                "conversation's defaults. A conversation is durable: it is there after a restart "
                "of the daemon, and its memory is in RAM or comes back from files.\n\n--overflow "
                "shift lets it go on at the end of the context: old turns are dropped from what "
                "the model sees, not from the conversation. Without it, what does not fit is an "
                "error.\n\n--from begins with what was said elsewhere, without generating: what "
                "'confab show --json' or 'llm logs -c ID --json' prints, or messages as OpenAI's "
                "API takes them, in an array or in an object with messages and perhaps tools. "
                "Roles, reasoning, calls of functions and their results are taken over, what else "
                "it has is ignored. Images, turns without template, broken calls and logs of "
                "several conversations are refused, with their place. Texts get this model's "
                "tokens; a conversation with its tokens and its memory goes by 'confab export' and "
                "'confab import'. Either all of it is there afterwards, or nothing.",
        .examples = "name=$(confab open --system 'You are brief.')\n"
                    "confab open notes --system @prompt.txt --temperature 0\n"
                    "llm logs -c 01k4 --json | confab open from-llm --from -",
        .see = "say fork close import",
        .options = {options, cli_sampling_options},
        .run = run,
};
