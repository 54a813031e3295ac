/* SPDX-License-Identifier: MIT */
#include "client/event-json.h"
#include "base/utf8.h"
#include "base/util.h"
#include <stdio.h>

static void put_float(struct json *j, const char *key, float v) {
        json_put_key(j, key);
        json_put_float(j, v);
}

/* "text", plus the exact bytes as "hex" if JSON text cannot hold them. */
static void put_bytes(struct json *j, struct confab_bytes b) {
        static const char digits[] = "0123456789abcdef";
        struct buf hex = BUF_NULL;

        json_put_key(j, "text");
        json_put_string_n(j, b.data, b.size);
        if (b.size == 0 || utf8_valid(b.data, b.size))
                return;
        for (size_t i = 0; i < b.size && j->error == 0; i++) {
                char two[] = {digits[b.data[i] >> 4], digits[b.data[i] & 15]};

                j->error = buf_append(&hex, two, sizeof(two));
        }
        json_put_key(j, "hex");
        json_put_string_n(j, hex.data, hex.size);
        buf_deinit(&hex);
}

static void put_seed(struct json *j, uint64_t seed, enum event_json_seeds seeds) {
        char text[24];

        if (seeds == EVENT_JSON_SEED_NUMBER) {
                json_put_key_u64(j, "seed", seed);
                return;
        }
        snprintf(text, sizeof(text), "%llu", (unsigned long long)seed);
        json_put_key_string(j, "seed", text);
}

static void put_error(struct json *j, const struct confab_error *e) {
        json_put_key_string(j, "code", e->code);
        json_put_key_string(j, "message", e->message);
        json_put_key_bool(j, "retry", e->retry);
        if (*e->machine)
                json_put_key_string(j, "machine", e->machine);
        if (*e->address)
                json_put_key_string(j, "address", e->address);
}

static void put_sampling(
        struct json *j, const struct confab_sampling *s, enum event_json_seeds seeds) {
        json_put_key(j, "sampling");
        json_object_begin(j);
        if (s->has & CONFAB_HAS_TEMPERATURE)
                put_float(j, "temperature", s->temperature);
        if (s->has & CONFAB_HAS_TOP_K)
                json_put_key_u64(j, "top_k", s->top_k);
        if (s->has & CONFAB_HAS_TOP_P)
                put_float(j, "top_p", s->top_p);
        if (s->has & CONFAB_HAS_MIN_P)
                put_float(j, "min_p", s->min_p);
        if (s->has & CONFAB_HAS_REPETITION_PENALTY)
                put_float(j, "repetition_penalty", s->repetition_penalty);
        if (s->has & CONFAB_HAS_PRESENCE_PENALTY)
                put_float(j, "presence_penalty", s->presence_penalty);
        if (s->has & CONFAB_HAS_FREQUENCY_PENALTY)
                put_float(j, "frequency_penalty", s->frequency_penalty);
        if (s->has & CONFAB_HAS_PENALTY_LAST_N)
                json_put_key_u64(j, "penalty_last_n", s->penalty_last_n);
        if (s->has & CONFAB_HAS_SEED)
                put_seed(j, s->seed, seeds);
        if (s->n_biases) {
                json_put_key(j, "logit_bias");
                json_array_begin(j);
                for (size_t i = 0; i < s->n_biases; i++) {
                        json_object_begin(j);
                        json_put_key(j, "token");
                        json_put_i64(j, s->biases[i].token);
                        put_float(j, "bias", s->biases[i].bias);
                        json_object_end(j);
                }
                json_array_end(j);
        }
        json_object_end(j);
}

void event_json_parts(struct json *j, const struct confab_part *parts, size_t n) {
        json_put_key(j, "parts");
        json_array_begin(j);
        for (size_t i = 0; i < n; i++) {
                const struct confab_part *part = &parts[i];

                json_object_begin(j);
                json_put_key_u64(j, "index", part->index);
                json_put_key_string(j, "kind", confab_part_name(part->kind));
                if (part->call_id)
                        json_put_key_string(j, "call_id", part->call_id);
                if (part->name)
                        json_put_key_string(j, "name", part->name);
                json_put_key(j, "text");
                json_put_string_n(j, part->text, part->text_size);
                if (part->ends)
                        json_put_key_bool(j, "ends", true);
                if (part->broken)
                        json_put_key_string(j, "broken", part->broken);
                json_object_end(j);
        }
        json_array_end(j);
}

static void put_results(struct json *j, const struct confab_turn *t) {
        json_put_key(j, "results");
        json_array_begin(j);
        for (size_t i = 0; i < t->n_results; i++) {
                json_object_begin(j);
                json_put_key_string(j, "call_id", t->results[i].call_id);
                if (t->results[i].name)
                        json_put_key_string(j, "name", t->results[i].name);
                json_put_key_string(j, "content", t->results[i].text);
                json_object_end(j);
        }
        json_array_end(j);
}

static void put_run(struct json *j, const struct confab_run *run, enum event_json_seeds seeds) {
        json_put_key(j, "run");
        json_object_begin(j);
        json_put_key_string(j, "model", run->model);
        put_seed(j, run->seed, seeds);
        json_put_key_u64(j, "n_prompt", run->n_prompt);
        json_put_key_u64(j, "n_generated", run->n_generated);
        json_put_key_u64(j, "n_ram", run->n_ram);
        json_put_key_u64(j, "n_disk", run->n_disk);
        json_put_key_u64(j, "n_shared", run->n_shared);
        json_put_key_u64(j, "n_computed", run->n_computed);
        json_put_key_u64(j, "queued_usec", run->queued_usec);
        json_put_key_u64(j, "restore_usec", run->restore_usec);
        json_put_key_u64(j, "prefill_usec", run->prefill_usec);
        json_put_key_u64(j, "decode_usec", run->decode_usec);
        json_object_end(j);
}

static void put_turn(struct json *j, const struct confab_turn *t, enum event_json_seeds seeds) {
        json_put_key_string(j, "role", confab_role_name(t->role));
        put_bytes(j, t->text);
        json_put_key_u64(j, "start", t->start);
        json_put_key_u64(j, "end", t->end);
        if (t->finish)
                json_put_key_string(j, "finish", confab_finish_name(t->finish));
        if (t->created_usec)
                json_put_key_u64(j, "created_usec", t->created_usec);
        if (t->tools)
                json_put_key_string(j, "tools", t->tools);
        if (t->role == CONFAB_ROLE_TOOL)
                put_results(j, t);
        if (t->n_parts)
                event_json_parts(j, t->parts, t->n_parts);
        if (t->run)
                put_run(j, t->run, seeds);
}

void event_json_turn(struct json *j, const struct confab_conversation *c, size_t i,
        enum event_json_seeds seeds) {
        json_object_begin(j);
        json_put_key_u64(j, "turn", c->first_turn + i);
        put_turn(j, &c->turns[i], seeds);
        json_object_end(j);
}

void event_json_turns(
        struct json *j, const struct confab_conversation *c, enum event_json_seeds seeds) {
        json_put_key(j, "turns");
        json_array_begin(j);
        for (size_t i = 0; i < c->n_turn_list; i++)
                event_json_turn(j, c, i, seeds);
        json_array_end(j);
}

static void put_writing(
        struct json *j, const struct confab_writing *w, enum event_json_seeds seeds) {
        static const char *const states[] = {"", "waits", "restores", "reads", "writes", "ends"};

        json_put_key(j, "writing");
        json_object_begin(j);
        json_put_key_string(
                j, "state", (size_t)w->state < ARRAY_SIZE(states) ? states[w->state] : "");
        json_put_key_u64(j, "revision", w->revision);
        json_put_key_u64(j, "done", w->done);
        json_put_key_u64(j, "total", w->total);
        json_put_key_u64(j, "n_generated", w->n_generated);
        json_put_key(j, "turn");
        json_object_begin(j);
        put_turn(j, &w->turn, seeds);
        json_object_end(j);
        json_object_end(j);
}

static void put_about(struct json *j, const struct confab_about *about) {
        json_put_key(j, "about");
        json_object_begin(j);
        if (about->title)
                json_put_key_string(j, "title", about->title);
        if (about->has_tags) {
                json_put_key(j, "tags");
                json_array_begin(j);
                for (size_t i = 0; i < about->n_tags; i++)
                        json_put_string(j, about->tags[i]);
                json_array_end(j);
        }
        if (about->metadata)
                json_put_key_string(j, "metadata", about->metadata);
        if (about->session)
                json_put_key_string(j, "session", about->session);
        if (about->has_expires_after)
                json_put_key_u64(j, "expires_after", about->expires_after);
        json_object_end(j);
}

void event_json_conversation(
        struct json *j, const struct confab_conversation *c, enum event_json_seeds seeds) {
        json_put_key_u64(j, "id", c->id);
        json_put_key_string(j, "name", c->name);
        json_put_key_u64(j, "uid", c->uid);
        if (c->tenant)
                json_put_key_string(j, "tenant", c->tenant);
        json_put_key_u64(j, "parent", c->parent);
        json_put_key_u64(j, "fork_pos", c->fork_pos);
        json_put_key_u64(j, "revision", c->revision);
        json_put_key_u64(j, "n_tokens", c->n_tokens);
        json_put_key_u64(j, "n_turns", c->n_turns);
        json_put_key_string(j, "residency", confab_residency_name(c->residency));
        json_put_key_bool(j, "busy", c->busy);
        json_put_key_bool(j, "generating", c->generating);
        if (c->unanswered)
                json_put_key_bool(j, "unanswered", true);
        if (c->writing)
                put_writing(j, c->writing, seeds);
        json_put_key_u64(j, "n_published", c->n_published);
        json_put_key_bool(j, "private_memory", c->private_memory);
        if (c->pinned)
                json_put_key_bool(j, "pinned", true);
        if (c->overflow)
                json_put_key_string(j, "overflow", confab_overflow_name(c->overflow));
        if (c->dropped_to > c->dropped_from) {
                json_put_key_u64(j, "dropped_from", c->dropped_from);
                json_put_key_u64(j, "dropped_to", c->dropped_to);
        }
        if (c->n_not_kept) {
                json_put_key_u64(j, "n_not_kept", c->n_not_kept);
                json_put_key_string(j, "why_not_kept", c->why_not_kept);
        }
        if (c->tools)
                json_put_key_string(j, "tools", c->tools);
        if (c->damaged)
                json_put_key_u64(j, "damaged_turn", c->damaged_turn);
        if (c->other_vocabulary)
                json_put_key_bool(j, "other_vocabulary", true);
        if (c->unusable_size)
                json_put_key_u64(j, "unusable_bytes", c->unusable_size);
        if (c->carried) {
                json_put_key_bool(j, "carried", true);
                json_put_key_u64(j, "n_tokens_before", c->n_tokens_before);
                json_put_key_u64(j, "n_biases_dropped", c->n_biases_dropped);
        }
        json_put_key_u64(j, "ram_bytes", c->ram_size);
        json_put_key_u64(j, "disk_bytes", c->disk_size);
        json_put_key_u64(j, "created_usec", c->created_usec);
        json_put_key_u64(j, "updated_usec", c->updated_usec);
        put_sampling(j, &c->sampling, seeds);
        if (c->about)
                put_about(j, c->about);
        if (c->snippet) {
                json_put_key(j, "hit");
                json_object_begin(j);
                if (c->has_hit_turn)
                        json_put_key_u64(j, "turn", c->hit_turn);
                json_put_key_string(j, "snippet", c->snippet);
                json_object_end(j);
        }
}

void event_json_tokens(struct json *j, const struct confab_conversation *c) {
        json_put_key(j, "tokens");
        json_array_begin(j);
        for (size_t i = 0; i < c->n_token_list; i++)
                json_put_i64(j, c->tokens[i]);
        json_array_end(j);
}

static void put_accepted(struct json *j, const struct confab_accepted *a) {
        json_put_key_u64(j, "conversation", a->conversation);
        json_put_key_u64(j, "revision", a->revision);
        json_put_key_u64(j, "n_prompt", a->n_prompt);
        json_put_key_u64(j, "n_ram", a->n_ram);
        json_put_key_u64(j, "n_disk", a->n_disk);
        json_put_key_u64(j, "n_shared", a->n_shared);
        json_put_key_u64(j, "n_computed", a->n_computed);
        json_put_key_u64(j, "differs_at", a->differs_at);
        json_put_key_string(j, "differs_why", confab_differs_name(a->differs_why));
        if (a->n_dropped)
                json_put_key_u64(j, "n_dropped", a->n_dropped);
}

void event_json_token(struct json *j, const struct confab_token *t) {
        json_object_begin(j);
        json_put_key(j, "token");
        json_put_i64(j, t->token);
        if (t->has_logprob) {
                put_float(j, "logprob", t->logprob);
                put_bytes(j, t->text);
        }
        if (t->n_top) {
                json_put_key(j, "top");
                json_array_begin(j);
                for (size_t i = 0; i < t->n_top; i++) {
                        json_object_begin(j);
                        json_put_key(j, "token");
                        json_put_i64(j, t->top[i].token);
                        put_float(j, "logprob", t->top[i].logprob);
                        put_bytes(j, t->top[i].text);
                        json_object_end(j);
                }
                json_array_end(j);
        }
        json_object_end(j);
}

/* "text": of the reply without reasoning and calls; "parts" has all. */
static void put_delta(struct json *j, const struct confab_delta *d) {
        struct buf text = BUF_NULL;

        if (j->error == 0)
                j->error = buf_append(&text, d->text, d->text_size);
        for (size_t i = 0; i < d->n_parts && j->error == 0; i++)
                if (d->parts[i].kind == CONFAB_PART_TEXT)
                        j->error = buf_append(&text, d->parts[i].text, d->parts[i].text_size);
        json_put_key(j, "text");
        json_put_string_n(j, text.size ? (char *)text.data : "", text.size);
        buf_deinit(&text);
        if (d->n_parts)
                event_json_parts(j, d->parts, d->n_parts);
        json_put_key(j, "tokens");
        json_array_begin(j);
        for (size_t i = 0; i < d->n_tokens; i++)
                event_json_token(j, &d->tokens[i]);
        json_array_end(j);
        if (d->position)
                json_put_key_u64(j, "position", d->position);
}

static void put_done(struct json *j, const struct confab_done *d, enum event_json_seeds seeds) {
        json_put_key_string(j, "finish", confab_finish_name(d->finish));
        if (d->stop)
                json_put_key_string(j, "stop", d->stop);
        json_put_key_u64(j, "revision", d->revision);
        json_put_key_u64(j, "n_prompt", d->n_prompt);
        json_put_key_u64(j, "n_generated", d->n_generated);
        json_put_key_u64(j, "n_ram", d->n_ram);
        json_put_key_u64(j, "n_disk", d->n_disk);
        json_put_key_u64(j, "n_shared", d->n_shared);
        json_put_key_u64(j, "n_computed", d->n_computed);
        json_put_key_u64(j, "differs_at", d->differs_at);
        json_put_key_string(j, "differs_why", confab_differs_name(d->differs_why));
        if (d->n_dropped)
                json_put_key_u64(j, "n_dropped", d->n_dropped);
        if (d->n_calls)
                json_put_key_u64(j, "n_calls", d->n_calls);
        if (d->n_drafted) {
                json_put_key_u64(j, "n_drafted", d->n_drafted);
                json_put_key_u64(j, "n_accepted", d->n_accepted);
        }
        json_put_key_u64(j, "queued_usec", d->queued_usec);
        json_put_key_u64(j, "restore_usec", d->restore_usec);
        json_put_key_u64(j, "prefill_usec", d->prefill_usec);
        json_put_key_u64(j, "decode_usec", d->decode_usec);
        put_seed(j, d->seed, seeds);
}

static void put_notice(struct json *j, const struct confab_notice *notice) {
        json_put_key_string(j, "kind", confab_notice_name(notice->kind));
        if (notice->cursor)
                json_put_key_string(j, "cursor", notice->cursor);
        if (notice->conversation) {
                json_put_key_u64(j, "conversation", notice->conversation);
                json_put_key_u64(j, "uid", notice->uid);
                json_put_key_u64(j, "revision", notice->revision);
        }
        if (notice->tenant)
                json_put_key_string(j, "tenant", notice->tenant);
        if (notice->parent)
                json_put_key_u64(j, "parent", notice->parent);
        if (notice->finish)
                json_put_key_string(j, "finish", confab_finish_name(notice->finish));
        if (notice->model)
                json_put_key_string(j, "model", notice->model);
        if (notice->fingerprint)
                json_put_key_string(j, "fingerprint", notice->fingerprint);
        if (notice->kind == CONFAB_NOTICE_PRESSURE) {
                json_put_key_u64(j, "budget", notice->budget);
                json_put_key_bool(j, "pressed", notice->pressed);
        }
}

void event_json_event(
        struct json *j, const struct confab_event *event, enum event_json_seeds seeds) {
        json_object_begin(j);
        json_put_key(j, "event");
        switch (event->kind) {
        case CONFAB_EVENT_ACCEPTED:
                json_put_string(j, "accepted");
                put_accepted(j, event->accepted);
                break;
        case CONFAB_EVENT_PROGRESS:
                json_put_string(j, "progress");
                json_put_key_u64(j, "done", event->progress->done);
                json_put_key_u64(j, "total", event->progress->total);
                break;
        case CONFAB_EVENT_DELTA:
                json_put_string(j, "delta");
                put_delta(j, event->delta);
                break;
        case CONFAB_EVENT_DONE:
                json_put_string(j, "done");
                put_done(j, event->done, seeds);
                break;
        case CONFAB_EVENT_NOTICE:
                json_put_string(j, "notice");
                put_notice(j, event->notice);
                break;
        default: /* results of other verbs have functions of their own */
                json_put_string(j, "error");
                put_error(j, event->error);
                break;
        }
        json_object_end(j);
}
