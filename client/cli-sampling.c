/* SPDX-License-Identifier: MIT */
#include "client/cli-sampling.h"
#include <errno.h>
#include <string.h>

#define KEY(key, member, has, how)                                                                 \
        { key, CONFAB_HAS_##has, SAMPLING_##how, offsetof(struct confab_sampling, member) }

const struct sampling_key sampling_keys[N_SAMPLING_KEYS] = {
        KEY("temperature", temperature, TEMPERATURE, FLOAT),
        KEY("top-p", top_p, TOP_P, FLOAT),
        KEY("min-p", min_p, MIN_P, FLOAT),
        KEY("repetition-penalty", repetition_penalty, REPETITION_PENALTY, FLOAT),
        KEY("presence-penalty", presence_penalty, PRESENCE_PENALTY, FLOAT),
        KEY("frequency-penalty", frequency_penalty, FREQUENCY_PENALTY, FLOAT),
        KEY("top-k", top_k, TOP_K, U32),
        KEY("penalty-last-n", penalty_last_n, PENALTY_LAST_N, U32),
        KEY("seed", seed, SEED, U64),
};

static const void *value_of(const struct confab_sampling *s, const struct sampling_key *key) {
        return (const char *)s + key->offset;
}

const struct sampling_key *sampling_find(const char *name, size_t n) {
        for (size_t i = 0; i < N_SAMPLING_KEYS; i++)
                if (strlen(sampling_keys[i].name) == n &&
                        memcmp(sampling_keys[i].name, name, n) == 0)
                        return &sampling_keys[i];
        return NULL;
}

static void print_float(struct cli *cli, const char *key, float v) {
        struct buf b = BUF_NULL;
        struct json j;

        json_init(&j, &b);
        json_put_float(&j, v); /* the shortest that reads back as the same */
        if (json_finish(&j) == 0)
                cli_printf(cli, "%s=%s\n", key, (const char *)b.data);
        else
                cli->out_error = ENOMEM;
        buf_deinit(&b);
}

void sampling_print(struct cli *cli, const struct confab_sampling *s) {
        for (size_t i = 0; i < N_SAMPLING_KEYS; i++) {
                const struct sampling_key *key = &sampling_keys[i];
                const void *value = value_of(s, key);

                if (!(s->has & key->field))
                        continue;
                if (key->kind == SAMPLING_FLOAT)
                        print_float(cli, key->name, *(const float *)value);
                else
                        cli_printf(cli, "%s=%llu\n", key->name,
                                key->kind == SAMPLING_U32
                                        ? *(const uint32_t *)value
                                        : (unsigned long long)*(const uint64_t *)value);
        }
}

void sampling_keep(struct confab_sampling *to, const struct confab_sampling *from,
        bool (*dropped)(const void *arg, const char *name), const void *arg) {
        for (size_t i = 0; i < N_SAMPLING_KEYS; i++) {
                const struct sampling_key *key = &sampling_keys[i];
                static const size_t sizes[] = {
                        [SAMPLING_FLOAT] = sizeof(float), [SAMPLING_U32] = 4, [SAMPLING_U64] = 8};

                if (!(from->has & key->field) || (to->has & key->field) ||
                        (dropped && dropped(arg, key->name)))
                        continue;
                memcpy(sampling_value(to, key), value_of(from, key), sizes[key->kind]);
                to->has |= key->field;
        }
}

struct confab_bias *sampling_copy_biases(const struct confab_sampling *s) {
        struct confab_bias *copy = calloc(s->n_biases + 1, sizeof(*copy));

        if (copy && s->n_biases > 0)
                memcpy(copy, s->biases, s->n_biases * sizeof(*copy));
        return copy;
}
