/* SPDX-License-Identifier: MIT */
/*
 * /set KEY=VALUE: how tokens are chosen in this conversation, its title and its tags. They are kept with the
 * conversation; max-tokens alone is the chat's. An empty value takes a setting back. Names and ranges are those of the
 * command's options.
 */
#include "client/chat/chat.h"
#include "client/cli-sampling.h"
#include <math.h>
#include <string.h>

#define TAGS_MAX 32

static const char *const other_keys[] = {"max-tokens", "title", "tags"};

void chat_complete_key(struct chat *chat, const char *arg, struct line_words *ret) {
        char word[64];

        for (size_t i = 0; i < N_SAMPLING_KEYS + ARRAY_SIZE(other_keys); i++) {
                snprintf(word, sizeof(word), "%s=",
                        i < N_SAMPLING_KEYS ? sampling_keys[i].name
                                            : other_keys[i - N_SAMPLING_KEYS]);
                if (strncmp(word, arg, strlen(arg)) == 0)
                        line_words_add(ret, word);
        }
}

/* ---- the present ones ---- */

static void print(struct cli *cli, const struct confab_conversation *c) {
        const struct confab_about *about = c->about;

        sampling_print(cli, &c->sampling);
        if (about && about->title) {
                cli_printf(cli, "title=");
                cli_name(cli, about->title);
                cli_printf(cli, "\n");
        }
        for (size_t i = 0; about && i < about->n_tags; i++) {
                cli_printf(cli, i ? "," : "tags=");
                cli_name(cli, about->tags[i]);
        }
        if (about && about->n_tags > 0)
                cli_printf(cli, "\n");
}

static int print_all(struct chat *chat) {
        struct confab_request r = chat_request(chat, CONFAB_GET);
        int status = cli_call_conversation(chat->cli, &r, print);

        if (status == 0 && !chat->cli->json && chat->proto.has_max_tokens)
                cli_printf(chat->cli, "max-tokens=%u\n", chat->proto.max_tokens);
        if (status == 0 && chat->tty)
                cli_printf(chat->cli, "What is not listed is the daemon's default.\n");
        return status;
}

/* ---- sampling ---- */

struct present {
        struct confab_sampling sampling;
        struct confab_bias *biases; /* owned */
        bool failed;
};

static void present_event(void *userdata, const struct confab_event *event) {
        struct present *p = userdata;

        if (event->kind != CONFAB_EVENT_CONVERSATION)
                return;
        p->sampling = event->conversation->sampling;
        p->biases = sampling_copy_biases(&p->sampling);
        p->failed = !p->biases;
        p->sampling.biases = p->biases;
}

static const struct cli_option *option_of(const struct sampling_key *key) {
        const struct cli_option *o = cli_sampling_options;

        while (o->name && strcmp(o->name, key->name) != 0)
                o++;
        return o;
}

/* Write what @s says into the sampling: 0 or CLI_USAGE. */
static int take_value(struct cli *cli, struct confab_sampling *to, const struct sampling_key *key,
        const char *s) {
        const struct cli_option *o = option_of(key);
        uint64_t u;
        char *end;
        float f;

        if (key->kind != SAMPLING_FLOAT) {
                if (!cli_parse_uint(s, o->max_uint, &u))
                        return cli_error(cli, CLI_USAGE, CLI_CODE_USAGE,
                                "/set %s: '%s' is not a number from 0 to %llu", key->name, s,
                                (unsigned long long)o->max_uint);
                if (key->kind == SAMPLING_U32)
                        *(uint32_t *)sampling_value(to, key) = (uint32_t)u;
                else
                        *(uint64_t *)sampling_value(to, key) = u;
                return 0;
        }
        f = strtof(s, &end);
        if (*s == ' ' || *end || !((double)f >= o->min && (double)f <= o->max))
                return cli_error(cli, CLI_USAGE, CLI_CODE_USAGE,
                        "/set %s: '%s' is not a number from %g to %g", key->name, s, o->min,
                        o->max);
        *(float *)sampling_value(to, key) = f;
        return 0;
}

static int set_sampling(struct chat *chat, const struct sampling_key *key, const char *value) {
        struct confab_request r = chat_request(chat, CONFAB_GET);
        struct present p = {0};
        int status = cli_call(chat->cli, &r, present_event, &p);

        if (status == 0 && p.failed)
                status = cli_error(
                        chat->cli, CLI_FAILED, CONFAB_NO_MEMORY, "no memory for the settings");
        if (status == 0 && *value)
                status = take_value(chat->cli, &p.sampling, key, value);
        if (status == 0) {
                p.sampling.has = (p.sampling.has & ~key->field) | (*value ? key->field : 0);
                r.verb = CONFAB_UPDATE;
                r.sampling = &p.sampling;
                r.reset_sampling = true;
                status = cli_call(chat->cli, &r, NULL, NULL);
        }
        if (status == 0) /* what the command line said does not hold any more */
                chat->options.sampling.has &= ~key->field;
        free(p.biases);
        return status;
}

/* ---- the others ---- */

static int set_max_tokens(struct chat *chat, const char *value) {
        uint64_t n = 0;

        if (*value && (!cli_parse_uint(value, UINT32_MAX - 1, &n) || n == 0))
                return cli_error(chat->cli, CLI_USAGE, CLI_CODE_USAGE,
                        "/set max-tokens: '%s' is not a number from 1 to %u", value,
                        UINT32_MAX - 1);
        chat->proto.has_max_tokens = *value != 0;
        chat->proto.max_tokens = (uint32_t)n;
        return 0;
}

static int set_about(struct chat *chat, const struct confab_about *about) {
        struct confab_request r = chat_request(chat, CONFAB_UPDATE);

        r.about = about;
        return cli_call(chat->cli, &r, NULL, NULL);
}

/* Tags stand between commas; blanks around them are not theirs. */
static int set_tags(struct chat *chat, const char *value) {
        _cleanup_(freep) char *copy = strdup(value);
        const char *tags[TAGS_MAX + 1];
        struct confab_about about = {.tags = tags, .has_tags = true};
        char *rest = copy, *tag;

        while (rest && (tag = strsep(&rest, ",")) && about.n_tags <= TAGS_MAX) {
                size_t n;

                tag += strspn(tag, " ");
                n = strlen(tag);
                while (n > 0 && tag[n - 1] == ' ')
                        tag[--n] = 0;
                if (n > 0)
                        tags[about.n_tags++] = tag;
        }
        return set_about(chat, &about);
}

int chat_set(struct chat *chat, const char *arg) {
        const char *eq = strchr(arg, '='), *value = eq ? eq + 1 : "";
        size_t n = eq ? (size_t)(eq - arg) : strlen(arg);
        const struct sampling_key *key = sampling_find(arg, n);
        struct confab_about title = {.title = value};

        if (!*arg)
                return print_all(chat);
        if (!eq)
                return cli_error(chat->cli, CLI_USAGE, CLI_CODE_USAGE,
                        "/set takes KEY=VALUE, not '%s'", arg);
        if (key)
                return set_sampling(chat, key, value);
        if (n == 10 && memcmp(arg, "max-tokens", n) == 0)
                return set_max_tokens(chat, value);
        if (n == 5 && memcmp(arg, "title", n) == 0)
                return set_about(chat, &title);
        if (n == 4 && memcmp(arg, "tags", n) == 0)
                return set_tags(chat, value);
        return cli_error(chat->cli, CLI_USAGE, CLI_CODE_USAGE,
                "/set knows no '%.*s'; /help set lists what it knows", (int)n, arg);
}
