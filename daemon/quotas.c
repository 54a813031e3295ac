/* SPDX-License-Identifier: MIT */
#include "daemon/quotas.h"
#include "base/err.h"
#include "base/util.h"
#include "daemon/settings.h"
#include <stdlib.h>
#include <string.h>

/* --- the table --- */

static int compare(const struct quota_rule *rule, const struct quota_subject *subject, int quota) {
        int r = quota_subject_compare(&rule->o.subject, subject);

        return r != 0 ? r : ((int)rule->o.quota > quota) - ((int)rule->o.quota < quota);
}

/* The first rule that is not before (subject, quota). */
static size_t lower_bound(
        const struct quota_rules *rules, const struct quota_subject *subject, int quota) {
        size_t from = 0, to = rules->n;

        while (from < to) {
                size_t middle = from + (to - from) / 2;

                if (compare(&rules->list[middle], subject, quota) < 0)
                        from = middle + 1;
                else
                        to = middle;
        }
        return from;
}

size_t quota_rules_behind(
        const struct quota_rules *rules, const struct quota_subject *subject, enum quota quota) {
        return lower_bound(rules, subject, (int)quota + 1);
}

static struct quota_rule *find(
        const struct quota_rules *rules, const struct quota_subject *subject, enum quota quota) {
        size_t i = lower_bound(rules, subject, (int)quota);

        return i < rules->n && compare(&rules->list[i], subject, (int)quota) == 0 ? &rules->list[i]
                                                                                  : NULL;
}

bool quota_rules_find(const struct quota_rules *rules, const struct quota_subject *subject,
        enum quota quota, uint64_t *ret) {
        const struct quota_rule *rule = find(rules, subject, quota);

        if (rule)
                *ret = rule->o.value;
        return rule;
}

/* Room for @more rules beside those that are there or promised. */
static int reserve(struct quota_rules *rules, size_t more, struct err *e) {
        size_t n = rules->n + rules->n_promised + more;
        struct quota_rule *p;

        if (n <= rules->capacity)
                return 0;
        n = MAX(n, 2 * rules->capacity);
        p = realloc(rules->list, n * sizeof(*p));
        if (!p)
                return err_set(e, ERR_NOMEM, "no memory for overrides of limits");
        rules->list = p;
        rules->capacity = n;
        return 0;
}

static bool has_label(const struct quota_subject *subject) {
        return subject->kind == QUOTA_OF_TENANT;
}

/* There is room. @label: owned by the rule from now on, or NULL. */
static void insert(struct quota_rules *rules, const struct quota_override *o, char *label) {
        size_t i = lower_bound(rules, &o->subject, (int)o->quota);

        memmove(&rules->list[i + 1], &rules->list[i], (rules->n - i) * sizeof(*rules->list));
        rules->list[i] = (struct quota_rule){.o = *o, .label = label};
        rules->list[i].o.subject.label = label ? label : "";
        rules->n++;
        rules->n_groups += o->subject.kind == QUOTA_OF_GROUP;
}

static void take_out(struct quota_rules *rules, struct quota_rule *rule) {
        size_t i = (size_t)(rule - rules->list);

        rules->n_groups -= rule->o.subject.kind == QUOTA_OF_GROUP;
        free(rule->label);
        rules->n--;
        memmove(rule, rule + 1, (rules->n - i) * sizeof(*rules->list));
}

static int compare_rules(const void *a, const void *b) {
        const struct quota_rule *other = b;

        return compare(a, &other->o.subject, (int)other->o.quota);
}

int quota_rules_load(
        struct quota_rules *rules, const struct quota_override *list, size_t n, struct err *e) {
        int r = reserve(rules, n, e);

        for (size_t i = 0; r == 0 && i < n; i++) {
                struct quota_rule *rule = &rules->list[rules->n];

                *rule = (struct quota_rule){.o = list[i]};
                rule->o.subject.label = "";
                if (has_label(&list[i].subject)) {
                        rule->label = strdup(list[i].subject.label);
                        if (!rule->label)
                                return err_set(e, ERR_NOMEM, "no memory for overrides of limits");
                        rule->o.subject.label = rule->label;
                }
                rules->n++;
                rules->n_groups += list[i].subject.kind == QUOTA_OF_GROUP;
        }
        if (r == 0 && n > 0)
                qsort(rules->list, rules->n, sizeof(*rules->list), compare_rules);
        return r;
}

int quota_rules_replace(
        struct quota_rules *rules, const struct quota_override *list, size_t n, struct err *e) {
        struct quota_rules all = QUOTA_RULES_NULL;
        int r;

        /* Changes under way keep their room (4). */
        all.n_promised = rules->n_promised;
        r = quota_rules_load(&all, list, n, e);
        if (r < 0) {
                quota_rules_deinit(&all);
                return r;
        }
        quota_rules_deinit(rules);
        *rules = all;
        return 0;
}

void quota_rules_deinit(struct quota_rules *rules) {
        for (size_t i = 0; i < rules->n; i++)
                free(rules->list[i].label);
        free(rules->list);
        *rules = QUOTA_RULES_NULL;
}

/* --- changes (4) --- */

int quota_change_prepare(struct quota_rules *rules, struct quota_change *change, struct err *e) {
        int r = reserve(rules, QUOTA_N, e);

        for (size_t i = 0; r == 0 && has_label(&change->subject) && i < QUOTA_N; i++) {
                change->labels[i] = strdup(change->subject.label);
                if (!change->labels[i])
                        r = err_set(e, ERR_NOMEM, "no memory for overrides of limits");
        }
        if (r == 0)
                rules->n_promised += QUOTA_N;
        return r;
}

void quota_change_apply(struct quota_rules *rules, struct quota_change *change) {
        rules->n_promised -= QUOTA_N;
        for (size_t i = 0; i < QUOTA_N; i++) {
                struct quota_rule *rule = find(rules, &change->subject, (enum quota)i);
                struct quota_override o = {.subject = change->subject,
                        .quota = (enum quota)i,
                        .value = change->overrides[i].value};

                if (!change->overrides[i].is)
                        continue;
                if (change->overrides[i].clear && rule)
                        take_out(rules, rule);
                else if (rule)
                        rule->o.value = o.value;
                else if (!change->overrides[i].clear)
                        insert(rules, &o, TAKE_PTR(change->labels[i]));
        }
}

void quota_change_drop(struct quota_rules *rules, struct quota_change *change) {
        (void)change;
        rules->n_promised -= QUOTA_N;
}

/* --- resolving --- */

static uint64_t some(uint64_t value) {
        return value > 0 ? value : QUOTA_NONE;
}

static void take_settings(const struct settings *s, struct quota_limits *ret) {
        const uint64_t values[QUOTA_N] = {
                [QUOTA_CONVERSATIONS] = s->max_conversations,
                [QUOTA_TOKENS] = some(s->max_user_tokens),
                [QUOTA_TOKENS_PER_DAY] = some(s->max_user_tokens_per_day),
                [QUOTA_RAM] = some(s->ram_share_per_user),
                [QUOTA_DISK] = some(s->disk_limit_per_user),
                [QUOTA_REQUESTS] = s->max_user_requests,
                [QUOTA_CONNECTIONS] = s->max_user_connections,
        };

        memcpy(ret->quotas.max, values, sizeof(values));
        for (size_t i = 0; i < QUOTA_N; i++) {
                ret->origin[i] = QUOTA_FROM_SETTING;
                ret->gid[i] = 0;
        }
}

static void take_group(const struct quota_rules *rules, uint32_t gid, struct quota_limits *ret) {
        const struct quota_subject group = {QUOTA_OF_GROUP, gid, ""};

        for (size_t i = lower_bound(rules, &group, 0), quota; i < rules->n; i++) {
                if (quota_subject_compare(&rules->list[i].o.subject, &group) != 0)
                        return;
                quota = rules->list[i].o.quota;
                if (ret->origin[quota] == QUOTA_FROM_GROUP &&
                        (rules->list[i].o.value < ret->quotas.max[quota] ||
                                (rules->list[i].o.value == ret->quotas.max[quota] &&
                                        gid >= ret->gid[quota])))
                        continue;
                ret->quotas.max[quota] = rules->list[i].o.value;
                ret->origin[quota] = QUOTA_FROM_GROUP;
                ret->gid[quota] = gid;
        }
}

static void take_subject(const struct quota_rules *rules, const struct quota_subject *subject,
        enum quota_origin origin, struct quota_limits *ret) {
        for (size_t i = lower_bound(rules, subject, 0), quota; i < rules->n; i++) {
                if (quota_subject_compare(&rules->list[i].o.subject, subject) != 0)
                        return;
                quota = rules->list[i].o.quota;
                ret->quotas.max[quota] = rules->list[i].o.value;
                ret->origin[quota] = origin;
        }
}

void quota_resolve(const struct quota_rules *rules, const struct settings *s,
        const struct quota_subject *subject, const uint32_t *gids, size_t n_gids,
        struct quota_limits *ret) {
        static const enum quota_origin origins[] = {
                [QUOTA_OF_USER] = QUOTA_FROM_USER,
                [QUOTA_OF_GROUP] = QUOTA_FROM_GROUP,
                [QUOTA_OF_TENANTS] = QUOTA_FROM_TENANTS,
                [QUOTA_OF_TENANT] = QUOTA_FROM_TENANT,
        };
        const struct quota_subject tenants = {QUOTA_OF_TENANTS, subject->number, ""};

        /* What is taken later goes before. */
        take_settings(s, ret);
        for (size_t i = 0; rules->n_groups > 0 && i < n_gids; i++)
                take_group(rules, gids[i], ret);
        if (subject->kind == QUOTA_OF_GROUP)
                take_group(rules, subject->number, ret);
        if (subject->kind == QUOTA_OF_TENANT)
                take_subject(rules, &tenants, QUOTA_FROM_TENANTS, ret);
        if (subject->kind != QUOTA_OF_GROUP)
                take_subject(rules, subject, origins[subject->kind], ret);
}
