/* SPDX-License-Identifier: MIT */
/*
 * Which conversations a verb means.
 *
 * 1. The daemon filters by the first tag and by words, everything else is compared here, so that a list costs the
 *    same few pages whatever is asked for, and what is kept is a copy of what was selected only.
 * 2. A pattern is a number ("12", "#12"), or a glob of names (fnmatch(3), where '*' matches '/' too). A name without
 *    signs of a glob is matched by itself alone.
 * 3. All rules have to hold; of the patterns one.
 * 4. The age of a conversation is the time since it was changed last, as ls shows it.
 */
#include "client/cli-select.h"
#include "base/clock.h"
#include "client/event-json.h"
#include "client/cli-when.h"
#include <fnmatch.h>
#include <pwd.h>
#include <string.h>

const struct cli_option cli_selection_options[] = {
        {"tag", "TAG", CLI_STRING, .repeat = true, .help = "those that have this tag",
                .more = "Of several they have all."},
        {"search", "WORDS", CLI_STRING,
                .help = "those with all of these words in a turn, or in name, title and tags",
                .more = "Words that begin with them count, too; upper and lower case, and accents, "
                        "do not."},
        {"residency", "resident|partial|spilled|cold", CLI_STRING, .repeat = true,
                .help = "those whose memory is there", .more = "Of several in one of them."},
        {"older", WHEN_AGE_ARG, CLI_STRING,
                .help = "those not changed for so long: 90s, 15m, 12h, 30d, 2w",
                .more = "To be read or forked is no change."},
        {"newer", WHEN_AGE_ARG, CLI_STRING, .help = "those changed since so long"},
        {"busy", NULL, CLI_FLAG, .help = "those that a request holds"},
        {.name = NULL},
};

/* ---- copies ---- */

void cli_items_deinit(struct cli_items *items) {
        for (size_t i = 0; i < items->n; i++) {
                free(items->items[i].name);
                free(items->items[i].tenant);
                free(items->items[i].title);
                free(items->items[i].json);
        }
        free(items->items);
        *items = (struct cli_items){0};
}

static int no_memory(struct cli *cli) {
        return cli_error(cli, CLI_FAILED, CONFAB_NO_MEMORY, "no memory for the list");
}

/* NULL stays NULL. */
static int copy(char **ret, const char *s) {
        return s && !(*ret = strdup(s)) ? -1 : 0;
}

static char *to_json(const struct confab_conversation *c) {
        struct buf b = BUF_NULL;
        char *s = NULL;
        struct json j;

        json_init(&j, &b);
        json_object_begin(&j);
        event_json_conversation(&j, c, EVENT_JSON_SEED_NUMBER);
        json_object_end(&j);
        if (json_finish(&j) == 0)
                s = buf_take(&b, NULL);
        buf_deinit(&b);
        return s;
}

/* The new item is part of @items even if it is not complete. */
int cli_items_add(struct cli_items *items, const struct confab_conversation *c, bool want_json) {
        const struct confab_about *about = c->about;
        struct cli_item *item;

        if (items->n == items->capacity) {
                size_t capacity = items->capacity ? 2 * items->capacity : 64;
                struct cli_item *grown =
                        reallocarray(items->items, capacity, sizeof(*items->items));

                if (!grown)
                        return -1;
                items->items = grown;
                items->capacity = capacity;
        }
        item = &items->items[items->n++];
        *item = (struct cli_item){
                .id = c->id,
                .parent = c->parent,
                .revision = c->revision,
                .ram_size = c->ram_size,
                .disk_size = c->disk_size,
                .unusable_size = c->unusable_size,
                .created_usec = c->created_usec,
                .updated_usec = c->updated_usec,
                .uid = c->uid,
                .n_tokens = c->n_tokens,
                .n_turns = c->n_turns,
                .n_published = c->n_published,
                .expires_after = about && about->has_expires_after ? about->expires_after : 0,
                .residency = c->residency,
                .busy = c->busy,
                .generating = c->generating,
                .pinned = c->pinned,
                .other_vocabulary = c->other_vocabulary,
        };
        if (copy(&item->name, c->name) < 0 || copy(&item->tenant, c->tenant) < 0 ||
                copy(&item->title, about ? about->title : NULL) < 0)
                return -1;
        return want_json && !(item->json = to_json(c)) ? -1 : 0;
}

const char *cli_owner_name(char buf[CLI_OWNER_SIZE], uint32_t uid, const char *tenant) {
        const struct passwd *p = getpwuid(uid);
        char number[16];

        snprintf(number, sizeof(number), "%u", uid);
        snprintf(buf, CLI_OWNER_SIZE, "%s%s%s", p ? p->pw_name : number, tenant ? "/" : "",
                tenant ? tenant : "");
        return buf;
}

/* ---- rules ---- */

static bool has_tag(const struct confab_conversation *c, const char *tag) {
        for (size_t i = 0; c->about && i < c->about->n_tags; i++)
                if (strcmp(c->about->tags[i], tag) == 0)
                        return true;
        return false;
}

static bool has_tags(struct cli *cli, const struct confab_conversation *c) {
        const struct cli_value *v;
        size_t it = 0;

        while ((v = cli_get_each(cli, "tag", &it)))
                if (!has_tag(c, v->s))
                        return false;
        return true;
}

static bool fits_pattern(const char *pattern, const struct confab_conversation *c) {
        struct confab_request r = CONFAB_REQUEST_INIT;

        if (cli_parse_ref(pattern, &r) < 0)
                return false;
        if (r.conversation_id)
                return r.conversation_id == c->id;
        return fnmatch(pattern, c->name, 0) == 0;
}

/* All patterns are tried, since each is to be told whether it fits any. */
static bool fits_patterns(struct cli_selection *s, const struct confab_conversation *c) {
        bool fits = s->n_patterns == 0;

        for (size_t i = 0; i < s->n_patterns; i++)
                if (fits_pattern(s->patterns[i], c))
                        fits = s->matched[i] = true;
        return fits;
}

static bool fits(struct cli *cli, struct cli_selection *s, const struct confab_conversation *c) {
        if (!fits_patterns(s, c) || !has_tags(cli, c))
                return false;
        if (s->busy && !c->busy)
                return false;
        if (s->residencies && !(s->residencies >> (unsigned)c->residency & 1))
                return false;
        if (s->older_usec && c->updated_usec >= s->older_usec)
                return false;
        return !s->newer_usec || c->updated_usec > s->newer_usec;
}

/* ---- options ---- */

static int take_age(struct cli *cli, const char *name, uint64_t *ret) {
        const struct cli_value *v = cli_get(cli, name);
        uint64_t now = clock_realtime_usec(), age;

        if (!v)
                return 0;
        if (!when_parse_age(v->s, &age))
                return cli_usage(cli,
                        "--%s: '%s' is no age: a number with s, m, h, d or w, as in 30d", name,
                        v->s);
        *ret = now > age ? now - age : 1;
        return 0;
}

static int take_residencies(struct cli *cli, unsigned *ret) {
        const struct cli_value *v;
        size_t it = 0;

        while ((v = cli_get_each(cli, "residency", &it))) {
                unsigned i = CONFAB_RESIDENT;

                while (i <= CONFAB_COLD &&
                        strcmp(v->s, confab_residency_name((enum confab_residency)i)) != 0)
                        i++;
                if (i > CONFAB_COLD)
                        return cli_usage(cli,
                                "--residency takes resident, partial, spilled or cold, not '%s'",
                                v->s);
                *ret |= 1u << i;
        }
        return 0;
}

int cli_selection_init(
        struct cli_selection *s, struct cli *cli, const char *const *patterns, size_t n_patterns) {
        const struct cli_value *search = cli_get(cli, "search");
        int status;

        *s = (struct cli_selection){.patterns = patterns,
                .n_patterns = n_patterns,
                .search = search ? search->s : NULL,
                .busy = cli_get(cli, "busy") != NULL};
        for (size_t i = 0; i < n_patterns; i++)
                if (!*patterns[i])
                        return cli_usage(cli, "a pattern is empty");
        status = take_age(cli, "older", &s->older_usec);
        if (status == 0)
                status = take_age(cli, "newer", &s->newer_usec);
        if (status == 0)
                status = take_residencies(cli, &s->residencies);
        if (status)
                return status;
        s->matched = calloc(n_patterns + 1, sizeof(*s->matched));
        return s->matched ? 0 : no_memory(cli);
}

void cli_selection_deinit(struct cli_selection *s) {
        free(s->matched);
        *s = (struct cli_selection){0};
}

bool cli_selection_given(struct cli *cli) {
        for (const struct cli_option *o = cli_selection_options; o->name; o++)
                if (cli_get(cli, o->name))
                        return true;
        return false;
}

/* ---- selecting ---- */

struct selecting {
        struct cli *cli;
        struct cli_selection *s;
        struct cli_items *ret;
};

static int select_one(void *userdata, const struct confab_conversation *c) {
        struct selecting *x = userdata;

        if (!fits(x->cli, x->s, c))
                return 0;
        return cli_items_add(x->ret, c, x->s->want_json) < 0 ? no_memory(x->cli) : 0;
}

int cli_select(struct cli *cli, struct cli_selection *s, struct cli_items *ret) {
        struct selecting x = {cli, s, ret};
        struct confab_request r = CONFAB_REQUEST_INIT;
        const struct cli_value *tag;
        size_t it = 0;

        tag = cli_get_each(cli, "tag", &it);
        r.all_users = s->all_users;
        r.tag = tag ? tag->s : NULL;
        r.search = s->search;
        return cli_list(cli, &r, select_one, &x);
}

int cli_selection_unmatched(struct cli *cli, const struct cli_selection *s) {
        int status = 0;

        for (size_t i = 0; i < s->n_patterns && !(status && cli->json); i++)
                if (!s->matched[i])
                        status = cli_error(cli, CLI_NOT_FOUND, CONFAB_NOT_FOUND,
                                "no conversation fits '%s'", s->patterns[i]);
        return status;
}

/* ---- order ---- */

static const char *const sort_names[] = {
        "id", "name", "updated", "created", "tokens", "ram", "disk"};

bool cli_sort_parse(const char *s, enum cli_sort *ret) {
        for (size_t i = 0; i < ARRAY_SIZE(sort_names); i++)
                if (strcmp(s, sort_names[i]) == 0) {
                        *ret = (enum cli_sort)i;
                        return true;
                }
        return false;
}

static uint64_t figure(const struct cli_item *i, enum cli_sort by) {
        switch (by) {
        case CLI_SORT_UPDATED:
                return i->updated_usec;
        case CLI_SORT_CREATED:
                return i->created_usec;
        case CLI_SORT_TOKENS:
                return i->n_tokens;
        case CLI_SORT_RAM:
                return i->ram_size;
        case CLI_SORT_DISK:
                return i->disk_size;
        default:
                return 0;
        }
}

/* Ids are distinct, so the order is total. */
static int compare(const void *x, const void *y, void *arg) {
        const struct cli_item *a = x, *b = y;
        enum cli_sort by = *(enum cli_sort *)arg;
        uint64_t fa = figure(a, by), fb = figure(b, by);
        int r = by == CLI_SORT_NAME ? strcmp(a->name, b->name) : (fa < fb) - (fa > fb);

        return r ? r : (a->id > b->id) - (a->id < b->id);
}

void cli_items_sort(struct cli_items *items, enum cli_sort by) {
        if (items->n > 1)
                qsort_r(items->items, items->n, sizeof(*items->items), compare, &by);
}

void cli_items_reverse(struct cli_items *items) {
        for (size_t i = 0; i < items->n / 2; i++) {
                struct cli_item *a = &items->items[i], *b = &items->items[items->n - 1 - i], t = *a;

                *a = *b;
                *b = t;
        }
}
