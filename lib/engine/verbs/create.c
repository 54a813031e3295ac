/* SPDX-License-Identifier: MIT */
/* Shared by Open, Fork, Import and Update: names, quotas, defaults for sampling. */
#include "engine/verbs/create.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

struct verb_state *verb_state_new(void) {
        struct verb_state *s = calloc(1, sizeof(*s));

        if (!s)
                return NULL;
        pthread_mutex_init(&s->create_lock, NULL);
        list_init(&s->watchers);
        list_init(&s->acts);
        list_init(&s->drains);
        s->sweep = sweep_new();
        return s->sweep ? s : verb_state_free(s);
}

struct verb_state *verb_state_free(struct verb_state *s) {
        if (!s)
                return NULL;
        sweep_free(s->sweep);
        pthread_mutex_destroy(&s->create_lock);
        free(s);
        return NULL;
}

/* @what: "name", ... */
static int check_text(const char *text, const char *what, struct err *e) {
        size_t n = strlen(text);

        if (n == 0 || n > ENGINE_NAME_MAX)
                return err_set(e, ERR_INVALID, "a %s has 1 to %d bytes", what, ENGINE_NAME_MAX);
        if (!utf8_valid(text, n))
                return err_set(e, ERR_INVALID, "the %s is not UTF-8", what);
        for (size_t i = 0; i < n; i++) {
                unsigned char ch = (unsigned char)text[i];

                if (ch < 0x20 || ch == 0x7f || (ch == 0xc2 && (unsigned char)text[i + 1] < 0xa0))
                        return err_set(e, ERR_INVALID, "the %s has a control character", what);
        }
        return 0;
}

int create_check_name(const char *name, struct err *e) {
        int r = check_text(name, "name", e);

        if (r < 0)
                return r;
        if (!name[strspn(name, "0123456789")] || name[0] == '#')
                return err_set(e, ERR_INVALID, "a name is not a number and does not begin with #");
        return 0;
}

int create_check_label(const char *label, struct err *e) {
        int r = check_text(label, "tenant's label", e);

        /* That is what a tenant is called that the register has lost. */
        if (r == 0 && label[0] == '#')
                return err_set(e, ERR_INVALID, "a tenant's label does not begin with #");
        return r;
}

int create_copy_name(char *dst, const char *name, struct err *e) {
        int r;

        dst[0] = '\0';
        if (!name || !name[0])
                return 0; /* the register chooses one */
        r = create_check_name(name, e);
        if (r == 0)
                memcpy(dst, name, strlen(name) + 1); /* the length was checked */
        return r;
}

int create_check_quota(
        struct engine *engine, const struct request *request, uint32_t n_tokens, struct err *e) {
        const struct quotas *q = &request->r.quotas;
        uint64_t owner = request->r.owner;
        struct store_usage usage;
        int r = store_usage(engine->store, owner, &usage, e);

        if (r < 0)
                return r;
        if (usage.n_conversations >= q->max[QUOTA_CONVERSATIONS])
                return quota_refuse(e, owner, QUOTA_CONVERSATIONS, usage.n_conversations, 1,
                        q->max[QUOTA_CONVERSATIONS], 0);
        if (usage.n_tokens + n_tokens > q->max[QUOTA_TOKENS] && n_tokens > 0)
                return quota_refuse(
                        e, owner, QUOTA_TOKENS, usage.n_tokens, n_tokens, q->max[QUOTA_TOKENS], 0);
        return 0;
}

int create_check_sampling(struct engine *engine, const struct sampling *s, struct err *e) {
        struct sample_params p = SAMPLE_PARAMS_DEFAULT;
        struct sample_bias biases[SAMPLING_MAX_BIASES];

        prompt_params(&p, s);
        if (s->has & SAMPLING_BIASES) {
                for (uint32_t i = 0; i < s->n_biases; i++)
                        biases[i] = (struct sample_bias){s->biases[i].token, s->biases[i].bias};
                p.biases = biases;
                p.n_biases = s->n_biases;
        }
        return sample_params_validate(&p, engine->info.n_vocab, e);
}
