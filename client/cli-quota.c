/* SPDX-License-Identifier: MIT */
/*
 * Limits as people read and write them.
 *
 * 1. What is printed as a limit's value can be given as one: bytes in the largest unit that says them exactly, percent
 *    with their sign, "none" for no limit. What is used is for reading, so bytes are rounded.
 * 2. A subject is printed as "confab admin quota" takes it: USER, USER:TENANT, USER:*, @GROUP.
 * 3. The names of limits and their units are those of base/quota.h. A limit of a newer daemon is printed as it comes.
 */
#include "client/cli-quota.h"
#include "base/quota.h"
#include "client/cli-admin.h"
#include "client/event-json.h"
#include <grp.h>
#include <string.h>
#include <time.h>

#define NAME_WIDTH 25 /* the column of names, with the space behind it */

static const char units[] = {'K', 'M', 'G', 'T'};

/* --- printing --- */

/* Rule 1. */
static const char *value_text(char buf[32], const struct confab_quota *q) {
        uint64_t n = q->value;
        size_t unit = 0;

        if (!q->is_limited) {
                snprintf(buf, 32, "none");
        } else if (strcmp(q->unit, "percent") == 0) {
                snprintf(buf, 32, "%llu%%", (unsigned long long)n);
        } else {
                while (strcmp(q->unit, "bytes") == 0 && n && n % 1024 == 0 &&
                        unit < ARRAY_SIZE(units)) {
                        n /= 1024;
                        unit++;
                }
                snprintf(buf, 32, "%llu%.*s", (unsigned long long)n, unit > 0,
                        unit > 0 ? &units[unit - 1] : "");
        }
        return buf;
}

static const char *used_text(char buf[32], const struct confab_quota *q) {
        if (!q->has_used)
                snprintf(buf, 32, "-");
        else if (strcmp(q->unit, "bytes") == 0)
                human_size(buf, q->used);
        else
                snprintf(buf, 32, "%llu%s", (unsigned long long)q->used,
                        strcmp(q->unit, "percent") == 0 ? "%" : "");
        return buf;
}

static const char *group_name(char buf[ADMIN_NAME_SIZE], uint32_t gid) {
        const struct group *gr = getgrgid(gid);

        if (gr && strlen(gr->gr_name) < ADMIN_NAME_SIZE)
                strcpy(buf, gr->gr_name);
        else
                snprintf(buf, ADMIN_NAME_SIZE, "%u", gid);
        return buf;
}

/* Rule 2. */
static void print_subject(struct cli *cli, const struct confab_quota_subject *s) {
        char name[ADMIN_NAME_SIZE];

        if (s->has_gid)
                cli_printf(cli, "@");
        cli_name(cli, s->has_gid ? group_name(name, s->gid) : admin_user_name(name, s->uid));
        if (s->all_tenants || s->tenant)
                cli_printf(cli, ":");
        if (s->all_tenants || s->tenant)
                cli_name(cli, s->all_tenants ? "*" : s->tenant);
}

/* In a column of its own, however long it is. */
static void print_name(struct cli *cli, const char *name) {
        size_t n = MIN(strlen(name), (size_t)NAME_WIDTH - 1);

        cli_name(cli, name);
        cli_printf(cli, "%*s", (int)(NAME_WIDTH - n), "");
}

static void print_limit(struct cli *cli, const struct confab_quota *q) {
        char value[32], used[32], name[ADMIN_NAME_SIZE], when[40];
        time_t renews = (time_t)(q->renews_usec / 1000000);
        struct tm tm;

        cli_printf(cli, "%12s %12s  ", value_text(value, q), used_text(used, q));
        print_name(cli, q->name);
        cli_name(cli, confab_quota_origin_name(q->origin));
        if (q->origin == CONFAB_QUOTA_ORIGIN_GROUP) {
                cli_printf(cli, " ");
                cli_name(cli, group_name(name, q->gid));
        }
        if (q->renews_usec && gmtime_r(&renews, &tm) &&
                strftime(when, sizeof(when), "%Y-%m-%d at %H:%M UTC", &tm) > 0)
                cli_printf(cli, ", starts anew on %s", when);
        cli_printf(cli, "\n");
}

static void print_override(struct cli *cli, const struct confab_quota *q) {
        char value[32];

        cli_printf(cli, "%12s  ", value_text(value, q));
        print_name(cli, q->name);
        print_subject(cli, &q->subject);
        cli_printf(cli, "\n");
}

static void show(void *userdata, const struct confab_event *event) {
        struct cli *cli = userdata;
        struct json j;

        if (event->kind != CONFAB_EVENT_QUOTAS)
                return;
        if (cli->json) {
                json_init(&j, &cli->out);
                event_json_quotas(&j, event->quotas);
                cli_json_end(cli, &j);
                return;
        }
        cli_printf(cli, "%12s %12s  %-*s%s\n", "VALUE", "USED", NAME_WIDTH, "LIMIT", "FROM");
        for (size_t i = 0; i < event->quotas->n_items; i++)
                print_limit(cli, &event->quotas->items[i]);
}

int quota_show(struct cli *cli, struct confab_request *r) {
        r->verb = CONFAB_QUOTA;
        return cli_call(cli, r, show, cli);
}

/* --- all overrides --- */

struct pages {
        struct cli *cli;
        struct json j;
        size_t n;     /* printed */
        char *cursor; /* owned: of the next page, or NULL */
        bool no_memory;
};

static void page(void *userdata, const struct confab_event *event) {
        struct pages *pages = userdata;
        struct cli *cli = pages->cli;

        if (event->kind != CONFAB_EVENT_QUOTAS)
                return;
        for (size_t i = 0; i < event->quotas->n_items; i++, pages->n++) {
                if (cli->json) {
                        event_json_quota(&pages->j, &event->quotas->items[i]);
                        continue;
                }
                if (pages->n == 0)
                        cli_printf(cli, "%12s  %-*s%s\n", "VALUE", NAME_WIDTH, "LIMIT", "WHOSE");
                print_override(cli, &event->quotas->items[i]);
        }
        if (event->quotas->more && event->quotas->cursor) {
                pages->cursor = strdup(event->quotas->cursor);
                pages->no_memory = !pages->cursor;
        }
}

/* A page that brings nothing new and promises more would be asked for without end. */
static int all_pages(struct cli *cli, struct pages *pages) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        int status;

        r.verb = CONFAB_QUOTA;
        r.all_overrides = true;
        do {
                _cleanup_(freep) char *cursor = TAKE_PTR(pages->cursor);
                size_t before = pages->n;

                r.cursor = cursor;
                status = cli_call(cli, &r, page, pages);
                if (status == 0 && pages->no_memory)
                        status = cli_error(cli, CLI_FAILED, CONFAB_NO_MEMORY, "no memory");
                if (status == 0 && pages->cursor && pages->n == before)
                        status = cli_error(cli, CLI_FAILED, CONFAB_PROTOCOL,
                                "the daemon's list of overrides does not end");
        } while (status == 0 && pages->cursor);
        free(TAKE_PTR(pages->cursor));
        return status;
}

int quota_show_overrides(struct cli *cli) {
        struct pages pages = {.cli = cli};
        int status;

        if (!cli->json) {
                status = all_pages(cli, &pages);
                if (status == 0 && pages.n == 0)
                        cli_note(cli, "no limit is overridden: the settings hold for everybody");
                return status;
        }
        json_init(&pages.j, &cli->out);
        json_object_begin(&pages.j);
        json_put_key(&pages.j, "limits");
        json_array_begin(&pages.j);
        status = all_pages(cli, &pages);
        if (status)
                return status;
        json_array_end(&pages.j);
        json_put_key_bool(&pages.j, "more", false);
        json_object_end(&pages.j);
        cli_json_end(cli, &pages.j);
        return 0;
}

/* --- what is given --- */

/* A number, with the suffixes that its unit may have. */
static bool parse_value(const char *s, const struct quota_info *info, uint64_t *ret) {
        char digits[24];
        size_t n = strlen(s);

        if (strcmp(info->unit, "bytes") == 0)
                return cli_parse_size(s, info->most, ret);
        if (n == 0 || n >= sizeof(digits))
                return false;
        strcpy(digits, s);
        if (strcmp(info->unit, "percent") == 0 && digits[n - 1] == '%')
                digits[n - 1] = 0;
        return cli_parse_uint(digits, info->most, ret);
}

static int unknown_limit(struct cli *cli, const char *name) {
        struct cli_suggest near = {.word = name};
        _cleanup_(buf_deinit) struct buf b = BUF_NULL;
        int r = 0;

        for (size_t i = 0; i < QUOTA_N; i++)
                cli_suggest_try(&near, quota_info((enum quota)i)->name);
        for (size_t i = 0; i < QUOTA_N && r == 0 && near.n == 0; i++)
                r = buf_printf(&b, "%s%s",
                        i == 0             ? "; there are "
                        : i + 1 == QUOTA_N ? " and "
                                           : ", ",
                        quota_info((enum quota)i)->name);
        if (r == 0)
                r = cli_suggest_put(&near, "", &b);
        if (r < 0)
                return cli_error(cli, CLI_FAILED, CONFAB_NO_MEMORY, "no memory");
        return cli_usage(
                cli, "no limit is called '%s'%.*s", name, (int)b.size, (const char *)b.data);
}

static int wrong_value(struct cli *cli, const char *value, const struct quota_info *info) {
        const char *how = "";

        if (strcmp(info->unit, "bytes") == 0)
                how = ", perhaps with K, M, G or T,";
        else if (strcmp(info->unit, "percent") == 0)
                how = ", perhaps with %,";
        return cli_usage(cli,
                "%s: '%s' is not a number of %s from 0 to %llu%s nor 'none' (no limit) nor "
                "'default' (no override)",
                info->name, value, info->unit, (unsigned long long)info->most, how);
}

int quota_parse(struct cli *cli, const char *text, struct confab_quota_change *ret) {
        const char *eq = strchr(text, '=');
        const struct quota_info *info = NULL;
        char name[CLI_SUGGEST_SIZE + 1];

        *ret = (struct confab_quota_change){};
        if (!eq || eq == text)
                return cli_usage(
                        cli, "'%s' sets no limit: LIMIT=VALUE, as in max-conversations=50", text);
        snprintf(name, sizeof(name), "%.*s", (int)MIN((size_t)(eq - text), sizeof(name)), text);
        for (size_t i = 0; i < QUOTA_N && !info; i++)
                if (strcmp(quota_info((enum quota)i)->name, name) == 0)
                        info = quota_info((enum quota)i);
        if (!info)
                return unknown_limit(cli, name);
        ret->name = info->name;
        if (strcmp(eq + 1, "none") == 0)
                ret->to = CONFAB_QUOTA_NONE;
        else if (strcmp(eq + 1, "default") == 0)
                ret->to = CONFAB_QUOTA_CLEAR;
        else if (!parse_value(eq + 1, info, &ret->value))
                return wrong_value(cli, eq + 1, info);
        return 0;
}
