/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to the confab command: which conversations a verb means (ls, close, prune, top). One thread. */
#include "client/cli.h"

/* What the list told of one. All strings are owned. */
struct cli_item {
        uint64_t id, parent, revision, ram_size, disk_size, unusable_size, created_usec,
                updated_usec;
        uint32_t uid, n_tokens, n_turns, n_published;
        uint32_t expires_after; /* seconds; 0: it is kept */
        enum confab_residency residency;
        bool busy, generating, pinned, other_vocabulary;
        char *name, *tenant, *title; /* the last two may be NULL */
        char *json;                  /* the whole of it as a JSON object, if asked for; else NULL */
};
struct cli_items {
        struct cli_item *items; /* owned */
        size_t n, capacity;
};
void cli_items_deinit(struct cli_items *items);
/* Append a copy. -1: no memory; what there is of it is freed with the others. */
int cli_items_add(struct cli_items *items, const struct confab_conversation *c, bool want_json);

/* The user's name, or the number, and the tenant (or NULL), in @buf: "alice", "alice/anna". */
#define CLI_OWNER_SIZE 256
const char *cli_owner_name(char buf[CLI_OWNER_SIZE], uint32_t uid, const char *tenant);

/* Which ones. Borrowed from the command line. */
struct cli_selection {
        bool all_users, want_json, busy;
        const char *search;          /* or NULL */
        const char *const *patterns; /* [n_patterns]: any of them; none: all */
        bool *matched;               /* [n_patterns], owned: some name fits */
        size_t n_patterns;
        uint64_t older_usec, newer_usec; /* changed before, after; 0: at any time */
        unsigned residencies;            /* a bit for each that is wanted; 0: all */
};

/* Options of verbs that select: --tag, --search, --residency, --older, --newer, --busy. */
extern const struct cli_option cli_selection_options[];
/* What the options say, and these patterns: names, "#12" or "12", or globs of names. 0 or a status after
 * reporting why. */
int cli_selection_init(
        struct cli_selection *s, struct cli *cli, const char *const *patterns, size_t n_patterns);
void cli_selection_deinit(struct cli_selection *s);
/* Whether any of those options is given. */
bool cli_selection_given(struct cli *cli);

/* Ask for the list, and keep copies of those that are selected: by id, or with a search latest change first. 0 or
 * a status after reporting why. *ret may have some also on failure. */
int cli_select(struct cli *cli, struct cli_selection *s, struct cli_items *ret);
/* CLI_NOT_FOUND after reporting each pattern that fits no name; else 0. */
int cli_selection_unmatched(struct cli *cli, const struct cli_selection *s);

/* How to order them. */
enum cli_sort {
        CLI_SORT_ID,
        CLI_SORT_NAME,
        CLI_SORT_UPDATED, /* latest first, as all that follow: greatest first */
        CLI_SORT_CREATED,
        CLI_SORT_TOKENS,
        CLI_SORT_RAM,
        CLI_SORT_DISK
};
#define CLI_SORT_ARG "id|name|updated|created|tokens|ram|disk"
bool cli_sort_parse(const char *s, enum cli_sort *ret);
void cli_items_sort(struct cli_items *items, enum cli_sort by);
void cli_items_reverse(struct cli_items *items);
