/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What the daemon says, as JSON: what `confab --json` prints, and what the gateway answers under /confab/v1. Field names
 * follow confab.proto; numbers keep their bits. Bytes that are not UTF-8 have U+FFFD in "text", and are exact in "hex".
 *
 * Errors are those of the writer (base/json.h).
 */
#include "base/json.h"
#include "client/confab.h"

/* Seeds use all of their 64 bits, and JavaScript's numbers have 53. */
enum event_json_seeds {
        EVENT_JSON_SEED_NUMBER,
        EVENT_JSON_SEED_TEXT /* a string of decimal digits */
};

/* Members of an object that was begun. */
void event_json_conversation(
        struct json *j, const struct confab_conversation *c, enum event_json_seeds seeds);
/* "turns" and "tokens", for those who asked for them; empty arrays if there are none. */
void event_json_turns(
        struct json *j, const struct confab_conversation *c, enum event_json_seeds seeds);
void event_json_tokens(struct json *j, const struct confab_conversation *c);
/* "parts". */
void event_json_parts(struct json *j, const struct confab_part *parts, size_t n);

/* Objects. One of c->turns, as in "turns". */
void event_json_turn(
        struct json *j, const struct confab_conversation *c, size_t i, enum event_json_seeds seeds);
/* Of the kinds accepted, progress, delta, done, notice and error; "event" names it. */
void event_json_event(
        struct json *j, const struct confab_event *event, enum event_json_seeds seeds);
/* One of the tokens of a delta. */
void event_json_token(struct json *j, const struct confab_token *token);
void event_json_tokenized(struct json *j, const struct confab_tokens *tokens);
void event_json_model(struct json *j, const struct confab_model_info *model);
void event_json_stats(struct json *j, const struct confab_stats *stats);
void event_json_settings(struct json *j, const struct confab_settings *settings);
void event_json_user(struct json *j, const struct confab_user *user);
void event_json_users(struct json *j, const struct confab_users *users);
void event_json_drained(struct json *j, const struct confab_drained *drained);
void event_json_checked(struct json *j, const struct confab_checked *checked);
void event_json_user_acted(struct json *j, const struct confab_user_acted *acted);
void event_json_list(
        struct json *j, const struct confab_conversations *list, enum event_json_seeds seeds);
void event_json_quotas(struct json *j, const struct confab_quotas *quotas);
/* One of its limits. */
void event_json_quota(struct json *j, const struct confab_quota *quota);
void event_json_found(
        struct json *j, const struct confab_found *found, enum event_json_seeds seeds);
