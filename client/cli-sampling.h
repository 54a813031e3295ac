/* SPDX-License-Identifier: MIT */
#pragma once
/* The sampling defaults of a conversation by the names of their options, for 'set' and the chat's /set. One thread. */
#include "client/cli.h"
#include <stddef.h>

enum sampling_kind { SAMPLING_FLOAT, SAMPLING_U32, SAMPLING_U64 };
struct sampling_key {
        const char *name; /* of the option in cli_sampling_options */
        uint32_t field;   /* enum confab_sampling_field */
        enum sampling_kind kind;
        size_t offset; /* in struct confab_sampling */
};
#define N_SAMPLING_KEYS 9
/* All but logit-bias, of which there are many. */
extern const struct sampling_key sampling_keys[N_SAMPLING_KEYS];

/* The one with this name, of @n bytes; or NULL. */
const struct sampling_key *sampling_find(const char *name, size_t n);
static inline void *sampling_value(struct confab_sampling *s, const struct sampling_key *key) {
        return (char *)s + key->offset;
}
/* KEY=VALUE, a line for each that @s has, but for biases. */
void sampling_print(struct cli *cli, const struct confab_sampling *s);
/* Give @to what @from has and @to has not, but for biases and for what @dropped says (may be NULL). */
void sampling_keep(struct confab_sampling *to, const struct confab_sampling *from,
        bool (*dropped)(const void *arg, const char *name), const void *arg);
/* A copy of the biases of @s, to be freed; NULL without memory. */
struct confab_bias *sampling_copy_biases(const struct confab_sampling *s);
