/* SPDX-License-Identifier: MIT */
/*
 * What is noted about a conversation, and its defaults.
 *
 * 1. KEY=VALUE is --KEY VALUE, for every option below that takes a value: one table checks both. '_' may stand for '-'.
 * 2. KEY= without a value takes back what was set. The protocol knows no way to take back one sampling default, only
 *    all: then the others are read and given anew.
 * 3. +TAG and -TAG (behind --) are --tag TAG and --untag TAG. Tags are replaced as a whole by the protocol, so they are
 *    read first, too. Two changes at the same time: the later one counts.
 * 4. What is printed without a change is what the command takes, a line for each.
 */
#include "client/cli-commands.h"
#include "client/cli-sampling.h"
#include "client/cli-when.h"
#include <string.h>

#define USEC 1000000ull
#define MAX_TAGS 128 /* more than the daemon takes; it tells its limit */

struct set {
        struct cli *cli;
        struct confab_request r;
        struct confab_about about;
        struct generate_options options;
        char *had[MAX_TAGS];        /* [n_had], owned: its tags so far */
        const char *tags[MAX_TAGS]; /* its tags from now on, in about */
        size_t n_had, n_unset;
        char *listed;           /* owned: the value of --tags, cut up */
        char *title, *metadata; /* owned: their texts, which may come from files */
        const char *unset[16];  /* keys whose values are taken back */
        int status;             /* of what was kept in memory */
};

static const struct cli_option options[] = {
        {"title", "TEXT", CLI_STRING, .help = "what people call it; need not be unique"},
        {"tag", "TAG", CLI_STRING, .repeat = true, .help = "one more tag; also +TAG"},
        {"untag", "TAG", CLI_STRING, .repeat = true, .help = "not this tag any more",
                .more = "Also -TAG, behind a '--'."},
        {"tags", "TAG,...", CLI_STRING, .help = "exactly these tags"},
        {"metadata", "TEXT", CLI_STRING, .help = "a JSON object that programs note"},
        {"session", "ID", CLI_STRING, .help = "what a program calls it"},
        {"expires", WHEN_AGE_ARG, CLI_STRING,
                .help = "close it when nobody has used it for so long: 12h, 7d",
                .more = "It is a throw-away conversation then. 'expires=' keeps it for good."},
        CLI_OVERFLOW_OPTION,
        {"reset-sampling", NULL, CLI_FLAG,
                .help = "sampling options that are not given are the daemon's again"},
        {.name = NULL},
};

static int no_memory(struct set *set) {
        return cli_error(set->cli, CLI_FAILED, CONFAB_NO_MEMORY, "no memory");
}

/* ---- words ---- */

static const struct cli_option *find_in(const struct cli_option *o, const char *key, size_t n) {
        for (; o->name; o++) {
                size_t i = 0;

                while (i < n && o->name[i] && (key[i] == '_' ? '-' : key[i]) == o->name[i])
                        i++;
                if (o->arg && i == n && !o->name[i])
                        return o;
        }
        return NULL;
}

static const struct cli_option *find_key(const char *key, size_t n) {
        const struct cli_option *o = find_in(options, key, n);

        return o ? o : find_in(cli_sampling_options, key, n);
}

static int unknown_key(struct cli *cli, const char *key, size_t size) {
        const struct cli_option *const tables[] = {options, cli_sampling_options};
        _cleanup_(buf_deinit) struct buf near = BUF_NULL;
        char word[CLI_SUGGEST_SIZE + 2];
        struct cli_suggest s = {.word = word};

        snprintf(word, sizeof(word), "%.*s", (int)MIN(size, sizeof(word) - 1), key);
        for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
                for (const struct cli_option *o = tables[i]; o->name; o++)
                        if (o->arg)
                                cli_suggest_try(&s, o->name);
        (void)!cli_suggest_put(&s, "", &near);
        return cli_usage(cli, "there is no key '%.*s'%s", (int)size, key,
                near.data ? (const char *)near.data : "");
}

/* +TAG, -TAG or KEY=VALUE. */
static int take_word(struct set *set, const char *word) {
        const char *eq = strchr(word, '=');
        const struct cli_option *o;

        if (*word == '+' || *word == '-')
                return cli_give(set->cli, *word == '+' ? find_key("tag", 3) : find_key("untag", 5),
                        word + 1);
        if (!eq)
                return cli_usage(set->cli, "'%s' is not KEY=VALUE, and no tag: +%s", word, word);
        o = find_key(word, (size_t)(eq - word));
        if (!o)
                return unknown_key(set->cli, word, (size_t)(eq - word));
        if (eq[1])
                return cli_give(set->cli, o, eq + 1);
        if (set->n_unset == ARRAY_SIZE(set->unset))
                return cli_usage(set->cli, "too many keys are taken back at once");
        set->unset[set->n_unset++] = o->name;
        return 0;
}

static bool is_unset(const struct set *set, const char *name) {
        for (size_t i = 0; i < set->n_unset; i++)
                if (strcmp(set->unset[i], name) == 0)
                        return true;
        return false;
}

/* ---- tags ---- */

static bool add_tag(struct set *set, const char *tag) {
        for (size_t i = 0; i < set->about.n_tags; i++)
                if (strcmp(set->tags[i], tag) == 0)
                        return true;
        if (set->about.n_tags == MAX_TAGS)
                return false;
        set->tags[set->about.n_tags++] = tag;
        return true;
}

static void drop_tag(struct set *set, const char *tag) {
        size_t n = 0;

        for (size_t i = 0; i < set->about.n_tags; i++)
                if (strcmp(set->tags[i], tag) != 0)
                        set->tags[n++] = set->tags[i];
        set->about.n_tags = n;
}

/* From the tags so far, the lists and the single ones. */
static int take_tags(struct set *set) {
        const struct cli_value *list = cli_get(set->cli, "tags"), *v;
        bool anew = list || is_unset(set, "tags") || is_unset(set, "tag"), fits = true;
        size_t it = 0;
        char *rest;

        for (size_t i = 0; !anew && i < set->n_had; i++)
                fits = fits && add_tag(set, set->had[i]);
        if (list && !(set->listed = strdup(list->s)))
                return no_memory(set);
        rest = set->listed;
        for (char *tag; (tag = strsep(&rest, ","));)
                fits = fits && add_tag(set, tag);
        while ((v = cli_get_each(set->cli, "tag", &it)))
                fits = fits && add_tag(set, v->s);
        for (it = 0; (v = cli_get_each(set->cli, "untag", &it));)
                drop_tag(set, v->s);
        set->about.has_tags = true;
        set->about.tags = set->tags;
        return fits ? 0 : cli_usage(set->cli, "more than %d tags", MAX_TAGS);
}

/* ---- sampling ---- */

static int keep_biases(struct set *set, const struct confab_sampling *had) {
        struct confab_sampling *s = &set->options.sampling;
        struct confab_bias *biases;

        if (s->n_biases > 0 || had->n_biases == 0 || is_unset(set, "logit-bias"))
                return 0;
        biases = sampling_copy_biases(had);
        if (!biases)
                return no_memory(set);
        free(set->options.biases);
        s->biases = set->options.biases = biases;
        s->n_biases = had->n_biases;
        return 0;
}

static bool is_dropped(const void *arg, const char *name) {
        return is_unset(arg, name);
}

/* Rule 2: what was set before and is neither set nor taken back now. */
static int keep_sampling(struct set *set, const struct confab_sampling *had) {
        sampling_keep(&set->options.sampling, had, is_dropped, set);
        return keep_biases(set, had);
}

/* ---- what is set ---- */

/* @is_file: where it is given, an @ names a file, and two are an @ of its own. */
static void print_text(struct cli *cli, const char *key, const char *text, bool is_file) {
        if (!text)
                return;
        cli_printf(cli, "%s=%s", key, is_file && *text == '@' ? "@" : "");
        cli_name(cli, text);
        cli_printf(cli, "\n");
}

static void print(struct cli *cli, const struct confab_conversation *c) {
        static const struct confab_about none;
        const struct confab_about *about = c->about ? c->about : &none;
        char age[16];

        print_text(cli, "title", about->title, true);
        for (size_t i = 0; i < about->n_tags; i++)
                print_text(cli, "tag", about->tags[i], false);
        print_text(cli, "metadata", about->metadata, true);
        print_text(cli, "session", about->session, false);
        if (about->expires_after)
                cli_printf(cli, "expires=%s\n", when_format_age(age, about->expires_after));
        if (c->overflow == CONFAB_OVERFLOW_SHIFT)
                cli_printf(cli, "overflow=shift\n");
        sampling_print(cli, &c->sampling);
        for (size_t i = 0; i < c->sampling.n_biases; i++)
                cli_printf(cli, "logit-bias=%d=%.9g\n", c->sampling.biases[i].token,
                        (double)c->sampling.biases[i].bias);
}

/* ---- changing ---- */

static void had_event(void *userdata, const struct confab_event *event) {
        const struct confab_conversation *c = event->conversation;
        const struct confab_about *about;
        struct set *set = userdata;

        if (event->kind != CONFAB_EVENT_CONVERSATION)
                return;
        about = c->about;
        set->r.conversation = NULL; /* the change is for this one, whatever its name is by then */
        set->r.conversation_id = c->id;
        for (size_t i = 0; about && i < about->n_tags && i < MAX_TAGS && !set->status; i++) {
                set->had[i] = strdup(about->tags[i]);
                if (!set->had[i])
                        set->status = no_memory(set);
                else
                        set->n_had++;
        }
        if (set->status == 0 && set->r.reset_sampling && !cli_get(set->cli, "reset-sampling"))
                set->status = keep_sampling(set, &c->sampling);
}

static const char *text_of(struct set *set, const char *name) {
        const struct cli_value *v = cli_get(set->cli, name);

        return is_unset(set, name) ? "" : v ? v->s : NULL;
}

static int take_about(struct set *set) {
        const struct cli_value *expires = cli_get(set->cli, "expires");
        struct confab_about *about = &set->about;
        uint64_t age = 0;
        int status = 0;

        about->title = text_of(set, "title");
        about->metadata = text_of(set, "metadata");
        if (!is_unset(set, "title"))
                status = cli_option_text(set->cli, "title", NULL, &set->title, &about->title);
        if (status == 0 && !is_unset(set, "metadata"))
                status = cli_option_text(
                        set->cli, "metadata", NULL, &set->metadata, &about->metadata);
        if (status)
                return status;
        about->session = text_of(set, "session");
        if (expires && (!when_parse_age(expires->s, &age) || age / USEC > UINT32_MAX || age == 0))
                return cli_usage(set->cli,
                        "--expires: '%s' is no age: a number with s, m, h, d or w, as in 7d",
                        expires->s);
        about->has_expires_after = expires || is_unset(set, "expires");
        about->expires_after = (uint32_t)(age / USEC);
        set->r.about = about;
        if (is_unset(set, "overflow"))
                set->r.overflow = CONFAB_OVERFLOW_ERROR;
        return is_unset(set, "overflow") ? 0 : cli_overflow(set->cli, &set->r);
}

/* Read what a change has to keep, if any has: rules 2 and 3. */
static int take_had(struct set *set) {
        bool tags = cli_get(set->cli, "tag") || cli_get(set->cli, "untag") ||
                    cli_get(set->cli, "tags") || is_unset(set, "tag") || is_unset(set, "tags");
        struct confab_request get = set->r;
        int status = 0;

        set->r.reset_sampling = cli_get(set->cli, "reset-sampling") != NULL;
        for (size_t i = 0; i < set->n_unset; i++)
                if (find_in(cli_sampling_options, set->unset[i], strlen(set->unset[i])))
                        set->r.reset_sampling = true;
        get.verb = CONFAB_GET;
        if (tags || set->r.reset_sampling)
                status = cli_call(set->cli, &get, had_event, set);
        if (status == 0)
                status = set->status;
        return status == 0 && tags ? take_tags(set) : status;
}

static int change(struct set *set) {
        int status = take_about(set);

        set->r.verb = CONFAB_UPDATE;
        if (status == 0)
                status = generate_options_init(&set->options, set->cli, &set->r);
        if (status == 0)
                status = take_had(set);
        return status ? status : cli_call_conversation(set->cli, &set->r, NULL);
}

static int run(struct cli *cli) {
        struct set set = {.cli = cli, .r = CONFAB_REQUEST_INIT};
        int status = cli_ref(cli, cli->args[0], &set.r);

        for (size_t i = 1; i < cli->n_args && status == 0; i++)
                status = take_word(&set, cli->args[i]);
        if (status == 0 && cli->n_values == 0 && set.n_unset == 0) {
                set.r.verb = CONFAB_GET;
                status = cli_call_conversation(cli, &set.r, print);
        } else if (status == 0) {
                status = change(&set);
        }
        generate_options_deinit(&set.options);
        for (size_t i = 0; i < set.n_had; i++)
                free(set.had[i]);
        free(set.listed);
        free(set.title);
        free(set.metadata);
        return status;
}

const struct cli_command cmd_set = {
        .name = "set",
        .args = "NAME [KEY=VALUE|+TAG...]",
        .min_args = 1,
        .max_args = SIZE_MAX,
        .purpose = CLI_PURPOSE_KEEP,
        .summary = "Show or change what is noted about a conversation, and its defaults",
        .help = "KEY=VALUE is the same as --KEY VALUE, for each option that has a value, and KEY= "
                "takes back "
                "what was set. +TAG adds a tag. Without changes what is set is printed, in the "
                "form "
                "that the command takes. The sampling options are the conversation's defaults. The "
                "model never sees title, tags and metadata.",
        .examples = "confab set trip title='To Rome' +italy temperature=0.2\n"
                    "confab set trip temperature= expires=30d",
        .see = "rename system update",
        .options = {options, cli_sampling_options},
        .run = run,
};
