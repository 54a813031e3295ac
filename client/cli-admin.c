/* SPDX-License-Identifier: MIT */
#include "client/cli-admin.h"
#include "base/err.h"
#include "client/event-json.h"
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void admin_whom_deinit(struct admin_whom *whom) {
        free(whom->own);
        *whom = (struct admin_whom){};
}

/* A name or a number of a user. */
static int take_user(
        struct cli *cli, const char *name, bool may_be_conversation, struct confab_request *r) {
        const struct passwd *pw;
        uint64_t uid;

        if (cli_parse_uint(name, UINT32_MAX - 1, &uid)) {
                r->uid = (uint32_t)uid;
        } else {
                pw = getpwnam(name);
                if (!pw)
                        return cli_error(cli, CLI_NOT_FOUND, CONFAB_NOT_FOUND,
                                "no user is called '%s'%s", name,
                                may_be_conversation
                                        ? " (a conversation is named by its number, as '#12')"
                                        : "");
                r->uid = pw->pw_uid;
        }
        r->has_uid = true;
        return 0;
}

int admin_whom(struct cli *cli, const char *text, bool may_be_conversation, struct admin_whom *ret,
        struct confab_request *r) {
        char *colon;

        *ret = (struct admin_whom){.text = text, .is_conversation = *text == '#'};
        if (ret->is_conversation && !may_be_conversation)
                return cli_usage(cli, "'%s' is a conversation: this is for users", text);
        if (ret->is_conversation)
                return cli_ref(cli, text, r);
        ret->own = strdup(text);
        if (!ret->own)
                return cli_error(cli, CLI_FAILED, CONFAB_NO_MEMORY, "no memory");
        colon = strchr(ret->own, ':');
        if (colon) {
                *colon = 0;
                r->tenant = colon + 1;
        }
        if (!*ret->own || (colon && !colon[1]))
                return cli_usage(cli, "'%s' names no user and no tenant", text);
        return take_user(cli, ret->own, may_be_conversation, r);
}

const char *admin_user_name(char buf[ADMIN_NAME_SIZE], uint32_t uid) {
        const struct passwd *pw = getpwuid(uid);

        if (pw && strlen(pw->pw_name) < ADMIN_NAME_SIZE)
                strcpy(buf, pw->pw_name);
        else
                snprintf(buf, ADMIN_NAME_SIZE, "%u", uid);
        return buf;
}

void admin_print_user(
        struct cli *cli, const struct confab_user *user, bool first, uint64_t now_usec) {
        char name[ADMIN_NAME_SIZE], ram[16], disk[16], age[16];

        if (first)
                cli_printf(cli, "%6s %9s %6s %6s %5s %6s %10s %10s %5s  %s\n", "CONVS", "TOKENS",
                        "RAM", "DISK", "REQS", "CONNS", "PREFILLED", "DECODED", "USED", "USER");
        cli_printf(cli, "%6llu %9llu %6s %6s %5llu %6llu %10llu %10llu %5s  ",
                (unsigned long long)user->n_conversations, (unsigned long long)user->n_tokens,
                human_size(ram, user->ram_size), human_size(disk, user->disk_size),
                (unsigned long long)user->n_requests, (unsigned long long)user->n_connections,
                (unsigned long long)user->tokens_prefilled,
                (unsigned long long)user->tokens_decoded,
                user->used_usec ? human_age(age, user->used_usec, now_usec) : "-");
        cli_name(cli, admin_user_name(name, user->uid));
        if (user->tenant) {
                cli_printf(cli, ":");
                cli_name(cli, user->tenant);
        }
        cli_printf(cli, "\n");
}

bool admin_ask(const char *question) {
        char *line = NULL;
        size_t size = 0;
        bool yes;

        fprintf(stderr, "%s [y/N] ", question);
        yes = getline(&line, &size, stdin) > 0 && (*line == 'y' || *line == 'Y');
        free(line);
        return yes;
}

static void note(void *userdata, const struct confab_event *event) {
        if (event->kind == CONFAB_EVENT_USER_ACTED)
                *(struct confab_user_acted *)userdata = *event->user_acted;
}

static void print(struct cli *cli, const struct confab_request *r, const char *whom,
        const struct confab_user_acted *acted, const char *done) {
        struct json j;

        if (cli->json) {
                json_init(&j, &cli->out);
                event_json_user_acted(&j, acted);
                cli_json_end(cli, &j);
                return;
        }
        cli_name(cli, whom);
        if (r->user_act != CONFAB_USER_CANCEL)
                cli_printf(cli, ": %llu %s %s%s", (unsigned long long)acted->n_conversations,
                        acted->n_conversations == 1 ? "conversation" : "conversations",
                        r->dry_run ? "would be " : "", done);
        if (r->user_act != CONFAB_USER_EVICT)
                cli_printf(cli, "%s %llu %s %sasked to end",
                        r->user_act == CONFAB_USER_CANCEL ? ":" : ",",
                        (unsigned long long)acted->n_requests,
                        acted->n_requests == 1 ? "request" : "requests",
                        r->dry_run ? "would be " : "");
        if (acted->n_busy)
                cli_printf(cli, ", %llu in use, which stay", (unsigned long long)acted->n_busy);
        cli_printf(cli, "\n");
}

/* May it be done? 0 or a status. What there is is counted for the question. */
static int agree(struct cli *cli, const struct confab_request *from, const char *whom) {
        struct confab_request r = *from;
        struct confab_user_acted acted = {};
        bool purge = r.user_act == CONFAB_USER_PURGE;
        char question[320];
        int status;

        if (r.user_act == CONFAB_USER_EVICT || r.dry_run || cli_get(cli, "yes"))
                return 0;
        if (!isatty(STDIN_FILENO))
                return purge ? cli_usage(cli, "--yes is needed where nobody can be asked") : 0;
        r.dry_run = true;
        status = cli_call(cli, &r, note, &acted);
        if (status)
                return status;
        if (purge)
                snprintf(question, sizeof(question),
                        "Delete all conversations of %s (%llu, with %llu tokens) for good?", whom,
                        (unsigned long long)acted.n_conversations,
                        (unsigned long long)acted.n_tokens);
        else
                snprintf(question, sizeof(question), "End all requests of %s (%llu)?", whom,
                        (unsigned long long)acted.n_requests);
        if (admin_ask(question))
                return 0;
        cli_complain(cli, "nothing was done");
        return CLI_FAILED;
}

static int act_on_conversation(struct cli *cli, const struct confab_request *r) {
        if (cli_get(cli, "dry-run"))
                return cli_usage(cli, "--dry-run is for users");
        return r->verb == CONFAB_EVICT ? cli_call_conversation(cli, r, cli_print_residency)
                                       : cli_call_empty(cli, r);
}

int admin_act(struct cli *cli, const char *text, bool may_be_conversation, struct confab_request *r,
        const char *done) {
        struct confab_user_acted acted = {};
        struct admin_whom whom;
        int status = admin_whom(cli, text, may_be_conversation, &whom, r);

        if (status == 0 && whom.is_conversation) {
                status = act_on_conversation(cli, r);
        } else if (status == 0) {
                r->verb = CONFAB_ACT_ON_USER;
                r->dry_run = cli_get(cli, "dry-run") != NULL;
                status = agree(cli, r, text);
                if (status == 0)
                        status = cli_call(cli, r, note, &acted);
                if (status == 0)
                        print(cli, r, text, &acted, done);
        }
        admin_whom_deinit(&whom);
        return status;
}
