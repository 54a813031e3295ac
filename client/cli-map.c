/* SPDX-License-Identifier: MIT */
#include "client/cli-map.h"
#include "base/hash.h"
#include "base/json.h"
#include "client/event-json.h"
#include <string.h>

/* ---- what replies depend on ---- */

static void add_number(struct hash64 *h, uint64_t v) {
        hash64_update(h, &v, sizeof(v));
}

static void add_string(struct hash64 *h, const char *s) {
        add_number(h, s ? strlen(s) + 1 : 0);
        if (s)
                hash64_update(h, s, strlen(s));
}

static void add_float(struct hash64 *h, bool has, float v) {
        add_number(h, has);
        if (has)
                hash64_update(h, &v, sizeof(v));
}

static void add_sampling(struct hash64 *h, const struct confab_sampling *s) {
        add_number(h, s->has);
        add_float(h, s->has & CONFAB_HAS_TEMPERATURE, s->temperature);
        add_number(h, s->has & CONFAB_HAS_TOP_K ? s->top_k : 0);
        add_float(h, s->has & CONFAB_HAS_TOP_P, s->top_p);
        add_float(h, s->has & CONFAB_HAS_MIN_P, s->min_p);
        add_float(h, s->has & CONFAB_HAS_REPETITION_PENALTY, s->repetition_penalty);
        add_float(h, s->has & CONFAB_HAS_PRESENCE_PENALTY, s->presence_penalty);
        add_float(h, s->has & CONFAB_HAS_FREQUENCY_PENALTY, s->frequency_penalty);
        add_number(h, s->has & CONFAB_HAS_PENALTY_LAST_N ? s->penalty_last_n : 0);
        add_number(h, s->has & CONFAB_HAS_SEED ? s->seed : 0);
        for (size_t i = 0; i < s->n_biases; i++) {
                add_number(h, (uint64_t)s->biases[i].token);
                add_float(h, true, s->biases[i].bias);
        }
}

uint64_t map_hash_options(const struct cli_jobs *jobs, const struct confab_request *say) {
        struct hash64 h;

        hash64_init(&h, 0);
        add_string(&h, "confab map 1");
        add_number(&h, jobs->origin);
        add_number(&h, jobs->revision);
        add_sampling(&h, say->sampling);
        add_number(&h, say->has_max_tokens ? say->max_tokens + 1ull : 0);
        add_number(&h, say->ignore_eos);
        add_string(&h, say->json_schema);
        add_string(&h, say->gbnf);
        add_string(&h, say->call_of);
        for (size_t i = 0; i < say->n_stops; i++)
                add_string(&h, say->stops[i]);
        return hash64_digest(&h);
}

/* ---- results ---- */

static void put_usage(struct json *j, const struct confab_done *d) {
        json_put_key_u64(j, "seed", d->seed);
        json_put_key_u64(j, "n_prompt", d->n_prompt);
        json_put_key_u64(j, "n_generated", d->n_generated);
        json_put_key_u64(j, "n_ram", d->n_ram);
        json_put_key_u64(j, "n_disk", d->n_disk);
        json_put_key_u64(j, "n_shared", d->n_shared);
        json_put_key_u64(j, "n_computed", d->n_computed);
}

static void put_reply(struct json *j, const struct cli_job *job) {
        json_put_key(j, "text");
        json_put_string_n(j, job->reply.data, job->reply.size);
        if (job->reasoning.size > 0) {
                json_put_key(j, "reasoning");
                json_put_string_n(j, job->reasoning.data, job->reasoning.size);
        }
        if (job->calls.size > 0) {
                json_put_key(j, "calls");
                json_array_begin(j);
                json_put_raw(j, (const char *)job->calls.data, job->calls.size);
                json_array_end(j);
        }
        json_put_key_string(j, "finish", confab_finish_name(job->done.finish));
        put_usage(j, &job->done);
        if (job->n_logprobs > 0) {
                json_put_key(j, "mean_logprob");
                json_put_double(j, job->logprob / job->n_logprobs);
        }
}

static void put_error(struct json *j, const struct confab_error *e) {
        json_put_key(j, "error");
        json_object_begin(j);
        json_put_key_string(j, "code", e->code);
        json_put_key_string(j, "message", e->message);
        json_put_key_bool(j, "retry", e->retry);
        json_object_end(j);
}

int map_put_json(struct buf *b, const struct map_item *item) {
        char hash[17];
        struct json j;
        int r;

        snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)item->hash);
        json_init(&j, b);
        json_object_begin(&j);
        json_put_key_u64(&j, "index", item->index);
        if (item->state == MAP_BLANK) {
                json_put_key_string(&j, "text", "");
                json_put_key_string(&j, "finish", NULL);
        } else {
                if (item->question.text)
                        json_put_key_string(&j, "input", hash);
                if (item->question.id) {
                        json_put_key(&j, "id");
                        json_put_raw(&j, item->question.id, strlen(item->question.id));
                }
                if (item->job.failed)
                        put_error(&j, &item->job.error);
                else
                        put_reply(&j, &item->job);
        }
        json_object_end(&j);
        r = json_finish(&j);
        return r < 0 ? r : buf_append(b, "\n", 1);
}

int map_put_line(struct buf *b, const char *text, size_t size) {
        int r = 0;

        while (size > 0 && strchr(" \t\r\n", text[size - 1]) && text[size - 1])
                size--;
        while (size > 0 && r == 0) {
                const char *end = memchr(text, '\n', size);
                size_t n = end ? (size_t)(end - text) : size;
                size_t kept = n > 0 && text[n - 1] == '\r' ? n - 1 : n;

                r = buf_append(b, text, kept);
                if (r == 0 && end)
                        r = buf_append(b, " ", 1);
                text += n + (end != NULL);
                size -= n + (end != NULL);
        }
        return r;
}
