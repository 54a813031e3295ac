/* SPDX-License-Identifier: MIT */
/* Converts unpacked messages to the structs of confab.h. Strings and bytes are borrowed from the
 * message; arrays of pointers become arrays of structs, in blocks of the view. */
#include "client/lib-internal.h"
#include <string.h>

struct view_block {
        struct list link;
        max_align_t data[];
};

void *view_alloc(struct view *v, size_t n, size_t size, struct err *e) {
        struct view_block *b;
        size_t total;

        if (mul_overflow(n, size, &total) || add_overflow(total, sizeof(*b), &total)) {
                err_set(e, ERR_NOMEM, "no memory for an event");
                return NULL;
        }
        b = calloc(1, total);
        if (!b) {
                err_set(e, ERR_NOMEM, "no memory for an event");
                return NULL;
        }
        list_append(&v->blocks, &b->link);
        return b->data;
}

void view_deinit(struct view *v) {
        struct list *it, *tmp;

        list_for_each_safe (it, tmp, &v->blocks)
                free(list_entry(it, struct view_block, link));
        list_init(&v->blocks);
}

static const char *or_empty(const char *s) {
        return s ? s : "";
}

static struct confab_bytes bytes_of(ProtobufCBinaryData b) {
        return (struct confab_bytes){b.data, b.len};
}

static void view_error(struct view *v, const Confab__V1__Error *m) {
        error_set(&v->error, m->code && *m->code ? m->code : "unknown", m->retry, "%s",
                m->message && *m->message ? m->message : "the daemon gave no reason");
        snprintf(v->error.machine, sizeof(v->error.machine), "%s", or_empty(m->machine));
        snprintf(v->error.address, sizeof(v->error.address), "%s", or_empty(m->address));
        v->event.error = &v->error;
}

static void view_accepted(struct view *v, const Confab__V1__Accepted *m) {
        v->accepted = (struct confab_accepted){
                .conversation = m->conversation,
                .revision = m->revision,
                .n_prompt = m->n_prompt,
                .n_ram = m->n_ram,
                .n_disk = m->n_disk,
                .n_computed = m->n_computed,
                .differs_at = m->differs_at,
                .n_shared = m->n_shared,
                .differs_why = (enum confab_differs)m->differs_why,
                .n_dropped = m->n_dropped,
        };
        v->event.accepted = &v->accepted;
}

static int view_token(
        struct view *v, struct confab_token *ret, const Confab__V1__DeltaToken *m, struct err *e) {
        struct confab_logprob *top = NULL;

        if (m->n_top) {
                top = view_alloc(v, m->n_top, sizeof(*top), e);
                if (!top)
                        return -ERR_NOMEM;
        }
        for (size_t i = 0; i < m->n_top; i++)
                top[i] = (struct confab_logprob){
                        m->top[i]->token, m->top[i]->logprob, bytes_of(m->top[i]->text)};
        *ret = (struct confab_token){
                .token = m->token,
                .has_logprob = m->has_logprob,
                .logprob = m->logprob,
                .top = top,
                .n_top = m->n_top,
                .text = bytes_of(m->text),
        };
        return 0;
}

static int view_parts(struct view *v, const struct confab_part **ret, size_t *ret_n,
        Confab__V1__Part *const *from, size_t n, struct err *e) {
        struct confab_part *parts;

        if (n == 0)
                return 0;
        parts = view_alloc(v, n, sizeof(*parts), e);
        if (!parts)
                return -ERR_NOMEM;
        for (size_t i = 0; i < n; i++)
                parts[i] = (struct confab_part){
                        .index = from[i]->index,
                        .kind = (enum confab_part_kind)from[i]->kind,
                        .ends = from[i]->ends,
                        .text = or_empty(from[i]->text),
                        .text_size = strlen(or_empty(from[i]->text)),
                        .call_id = from[i]->call_id,
                        .name = from[i]->name,
                        .broken = from[i]->broken,
                };
        *ret = parts;
        *ret_n = n;
        return 0;
}

static int view_results(
        struct view *v, struct confab_turn *ret, const Confab__V1__Turn *m, struct err *e) {
        struct confab_result *results;

        if (m->n_results == 0)
                return 0;
        results = view_alloc(v, m->n_results, sizeof(*results), e);
        if (!results)
                return -ERR_NOMEM;
        for (size_t i = 0; i < m->n_results; i++)
                results[i] = (struct confab_result){or_empty(m->results[i]->call_id),
                        m->results[i]->name, or_empty(m->results[i]->text)};
        ret->results = results;
        ret->n_results = m->n_results;
        return 0;
}

static int view_delta(struct view *v, const Confab__V1__Delta *m, struct err *e) {
        struct confab_token *tokens = NULL;
        int r;

        if (m->n_tokens) {
                tokens = view_alloc(v, m->n_tokens, sizeof(*tokens), e);
                if (!tokens)
                        return -ERR_NOMEM;
        }
        for (size_t i = 0; i < m->n_tokens; i++) {
                r = view_token(v, &tokens[i], m->tokens[i], e);
                if (r < 0)
                        return r;
        }
        v->delta = (struct confab_delta){
                .position = m->position,
                .text = or_empty(m->text),
                .text_size = strlen(or_empty(m->text)),
                .tokens = tokens,
                .n_tokens = m->n_tokens,
        };
        v->event.delta = &v->delta;
        return view_parts(v, &v->delta.parts, &v->delta.n_parts, m->parts, m->n_parts, e);
}

static void view_done(struct view *v, const Confab__V1__Done *m) {
        v->done = (struct confab_done){
                .finish = (enum confab_finish)m->finish,
                .revision = m->revision,
                .seed = m->seed,
                .n_prompt = m->n_prompt,
                .n_generated = m->n_generated,
                .n_ram = m->n_ram,
                .n_disk = m->n_disk,
                .n_computed = m->n_computed,
                .queued_usec = m->queued_usec,
                .restore_usec = m->restore_usec,
                .prefill_usec = m->prefill_usec,
                .decode_usec = m->decode_usec,
                .stop = m->stop,
                .n_shared = m->n_shared,
                .differs_at = m->differs_at,
                .differs_why = (enum confab_differs)m->differs_why,
                .n_dropped = m->n_dropped,
                .has_n_calls = m->has_n_calls,
                .n_calls = m->n_calls,
                .n_drafted = m->n_drafted,
                .n_accepted = m->n_accepted,
        };
        v->event.done = &v->done;
}

static int view_sampling(
        struct view *v, struct confab_sampling *ret, const Confab__V1__Sampling *m, struct err *e) {
        struct confab_bias *biases = NULL;
        uint32_t has = 0;

        if (!m)
                return 0;
        if (m->n_logit_bias) {
                biases = view_alloc(v, m->n_logit_bias, sizeof(*biases), e);
                if (!biases)
                        return -ERR_NOMEM;
        }
        for (size_t i = 0; i < m->n_logit_bias; i++)
                biases[i] = (struct confab_bias){m->logit_bias[i]->token, m->logit_bias[i]->bias};
        has |= m->has_temperature ? CONFAB_HAS_TEMPERATURE : 0;
        has |= m->has_top_k ? CONFAB_HAS_TOP_K : 0;
        has |= m->has_top_p ? CONFAB_HAS_TOP_P : 0;
        has |= m->has_min_p ? CONFAB_HAS_MIN_P : 0;
        has |= m->has_repetition_penalty ? CONFAB_HAS_REPETITION_PENALTY : 0;
        has |= m->has_presence_penalty ? CONFAB_HAS_PRESENCE_PENALTY : 0;
        has |= m->has_frequency_penalty ? CONFAB_HAS_FREQUENCY_PENALTY : 0;
        has |= m->has_penalty_last_n ? CONFAB_HAS_PENALTY_LAST_N : 0;
        has |= m->has_seed ? CONFAB_HAS_SEED : 0;
        *ret = (struct confab_sampling){
                .has = has,
                .top_k = m->top_k,
                .penalty_last_n = m->penalty_last_n,
                .temperature = m->temperature,
                .top_p = m->top_p,
                .min_p = m->min_p,
                .repetition_penalty = m->repetition_penalty,
                .presence_penalty = m->presence_penalty,
                .frequency_penalty = m->frequency_penalty,
                .seed = m->seed,
                .biases = biases,
                .n_biases = m->n_logit_bias,
        };
        return 0;
}

static int view_run(
        struct view *v, struct confab_turn *ret, const Confab__V1__Run *m, struct err *e) {
        struct confab_run *run;

        if (!m)
                return 0;
        run = view_alloc(v, 1, sizeof(*run), e);
        if (!run)
                return -ERR_NOMEM;
        *run = (struct confab_run){
                .model = or_empty(m->model),
                .seed = m->seed,
                .n_prompt = m->n_prompt,
                .n_generated = m->n_generated,
                .n_ram = m->n_ram,
                .n_disk = m->n_disk,
                .n_shared = m->n_shared,
                .n_computed = m->n_computed,
                .queued_usec = m->queued_usec,
                .restore_usec = m->restore_usec,
                .prefill_usec = m->prefill_usec,
                .decode_usec = m->decode_usec,
        };
        ret->run = run;
        return 0;
}

static int view_turn(
        struct view *v, struct confab_turn *ret, const Confab__V1__Turn *m, struct err *e) {
        *ret = (struct confab_turn){
                .role = (enum confab_role)m->role,
                .finish = (enum confab_finish)m->finish,
                .start = m->start,
                .end = m->end,
                .text = bytes_of(m->text),
                .created_usec = m->created_usec,
                .tools = m->tools,
        };
        if (view_results(v, ret, m, e) < 0 || view_run(v, ret, m->run, e) < 0)
                return -ERR_NOMEM;
        return view_parts(v, &ret->parts, &ret->n_parts, m->parts, m->n_parts, e);
}

static int view_writing(struct view *v, struct confab_conversation *ret,
        const Confab__V1__Writing *m, struct err *e) {
        struct confab_writing *writing;

        if (!m)
                return 0;
        writing = view_alloc(v, 1, sizeof(*writing), e);
        if (!writing)
                return -ERR_NOMEM;
        *writing = (struct confab_writing){
                .state = (enum confab_writing_state)m->state,
                .revision = m->revision,
                .done = m->done,
                .total = m->total,
                .n_generated = m->n_generated,
        };
        ret->writing = writing;
        return m->turn ? view_turn(v, &writing->turn, m->turn, e) : 0;
}

static int view_turns(struct view *v, struct confab_conversation *ret,
        const Confab__V1__Conversation *m, struct err *e) {
        struct confab_turn *turns;

        if (!m->n_turn_list)
                return 0;
        turns = view_alloc(v, m->n_turn_list, sizeof(*turns), e);
        if (!turns)
                return -ERR_NOMEM;
        for (size_t i = 0; i < m->n_turn_list; i++)
                if (view_turn(v, &turns[i], m->turn_list[i], e) < 0)
                        return -ERR_NOMEM;
        ret->turns = turns;
        ret->n_turn_list = m->n_turn_list;
        return 0;
}

static int view_about(struct view *v, struct confab_conversation *ret, const Confab__V1__About *m,
        struct err *e) {
        struct confab_about *about;

        if (!m)
                return 0;
        about = view_alloc(v, 1, sizeof(*about), e);
        if (!about)
                return -ERR_NOMEM;
        *about = (struct confab_about){
                .title = m->title,
                .metadata = m->metadata,
                .session = m->session,
                .tags = m->tags ? (const char *const *)m->tags->tags : NULL,
                .n_tags = m->tags ? m->tags->n_tags : 0,
                .has_tags = m->tags != NULL,
                .has_expires_after = m->has_expires_after,
                .expires_after = m->expires_after,
        };
        ret->about = about;
        return 0;
}

static int view_conversation(struct view *v, struct confab_conversation *ret,
        const Confab__V1__Conversation *m, struct err *e) {
        int r;

        *ret = (struct confab_conversation){
                .id = m->id,
                .name = or_empty(m->name),
                .uid = m->uid,
                .tenant = m->tenant,
                .fork_pos = m->fork_pos,
                .parent = m->parent,
                .revision = m->revision,
                .n_tokens = m->n_tokens,
                .n_turns = m->n_turns,
                .residency = (enum confab_residency)m->residency,
                .busy = m->busy,
                .generating = m->generating,
                .ram_size = m->ram_bytes,
                .disk_size = m->disk_bytes,
                .created_usec = m->created_usec,
                .updated_usec = m->updated_usec,
                .tokens = m->token_list,
                .n_token_list = m->n_token_list,
                .n_published = m->n_published,
                .private_memory = m->private_memory,
                .pinned = m->pinned,
                .n_not_kept = m->n_not_kept,
                .why_not_kept = or_empty(m->why_not_kept),
                .damaged = m->has_damaged_turn,
                .damaged_turn = m->damaged_turn,
                .overflow = (enum confab_overflow)m->overflow,
                .unanswered = m->unanswered,
                .dropped_from = m->dropped_from,
                .dropped_to = m->dropped_to,
                .other_vocabulary = m->other_vocabulary,
                .unusable_size = m->unusable_bytes,
                .carried = m->carried,
                .n_tokens_before = m->n_tokens_before,
                .n_biases_dropped = m->n_biases_dropped,
                .tools = m->tools,
                .first_turn = m->first_turn,
                .snippet = m->hit ? or_empty(m->hit->snippet) : NULL,
                .has_hit_turn = m->hit && m->hit->has_turn,
                .hit_turn = m->hit ? m->hit->turn : 0,
        };
        r = view_sampling(v, &ret->sampling, m->sampling, e);
        if (r == 0)
                r = view_about(v, ret, m->about, e);
        if (r == 0)
                r = view_writing(v, ret, m->writing, e);
        return r < 0 ? r : view_turns(v, ret, m, e);
}

static int view_conversations(struct view *v, const Confab__V1__Conversations *m, struct err *e) {
        struct confab_conversation *items = NULL;
        int r;

        if (m->n_conversations) {
                items = view_alloc(v, m->n_conversations, sizeof(*items), e);
                if (!items)
                        return -ERR_NOMEM;
        }
        for (size_t i = 0; i < m->n_conversations; i++) {
                r = view_conversation(v, &items[i], m->conversations[i], e);
                if (r < 0)
                        return r;
        }
        v->conversations =
                (struct confab_conversations){items, m->n_conversations, m->more, m->cursor};
        v->event.conversations = &v->conversations;
        return 0;
}

static int view_found(struct view *v, const Confab__V1__Found *m, struct err *e) {
        v->found = (struct confab_found){.at_turn = m->at_turn,
                .n_messages = m->n_messages,
                .other_session = m->other_session};
        v->event.found = &v->found;
        if (!m->conversation)
                return 0;
        v->found.conversation = &v->found_conversation;
        return view_conversation(v, &v->found_conversation, m->conversation, e);
}

static int view_tokens(struct view *v, const Confab__V1__TokenizeResult *m, struct err *e) {
        struct confab_bytes *pieces = NULL;

        if (m->n_pieces) {
                pieces = view_alloc(v, m->n_pieces, sizeof(*pieces), e);
                if (!pieces)
                        return -ERR_NOMEM;
        }
        for (size_t i = 0; i < m->n_pieces; i++)
                pieces[i] = bytes_of(m->pieces[i]);
        /* as promised in confab.h: one piece for each token, or none */
        v->tokens = (struct confab_tokens){
                m->tokens, m->n_tokens, pieces, m->n_pieces == m->n_tokens ? m->n_pieces : 0};
        v->event.tokens = &v->tokens;
        return 0;
}

static void view_model_info(struct view *v, const Confab__V1__ModelInfoResult *m) {
        v->model_info = (struct confab_model_info){
                .name = or_empty(m->name),
                .architecture = or_empty(m->architecture),
                .path = or_empty(m->path),
                .chat_family = or_empty(m->chat_family),
                .tokenizer = or_empty(m->tokenizer),
                .fingerprint = or_empty(m->fingerprint),
                .isa = or_empty(m->isa),
                .kv_type = or_empty(m->kv_type),
                .n_vocab = m->n_vocab,
                .n_layer = m->n_layer,
                .n_embd = m->n_embd,
                .context = m->context,
                .context_train = m->context_train,
                .block_tokens = m->block_tokens,
                .n_params = m->n_params,
                .weights_size = m->weights_bytes,
                .block_size = m->block_bytes,
                .state_size = m->state_bytes,
                .window_block_size = m->window_block_bytes,
                .window = m->window,
                .takes_tools = m->takes_tools,
                .reasons = m->reasons,
                .reply_format = or_empty(m->reply_format),
        };
        v->event.model_info = &v->model_info;
}

static void view_notice(struct view *v, const Confab__V1__Notice *m) {
        v->notice = (struct confab_notice){
                .kind = (enum confab_notice_kind)m->kind,
                .uid = m->uid,
                .cursor = or_empty(m->cursor),
                .conversation = m->conversation,
                .revision = m->revision,
                .parent = m->parent,
                .finish = (enum confab_finish)m->finish,
                .model = m->model,
                .fingerprint = m->fingerprint,
                .budget = m->budget,
                .pressed = m->pressed,
                .tenant = m->tenant,
        };
        v->event.notice = &v->notice;
}

static void view_quota(struct confab_quota *ret, const Confab__V1__QuotaLimit *m) {
        *ret = (struct confab_quota){
                .name = or_empty(m->name),
                .unit = or_empty(m->unit),
                .is_limited = m->has_value,
                .value = m->value,
                .has_used = m->has_used,
                .used = m->used,
                .origin = (enum confab_quota_origin)m->origin,
                .gid = m->gid,
                .renews_usec = m->renews_usec,
        };
        if (m->subject)
                ret->subject = (struct confab_quota_subject){
                        .has_uid = m->subject->has_uid,
                        .has_gid = m->subject->has_gid,
                        .uid = m->subject->uid,
                        .gid = m->subject->gid,
                        .tenant = m->subject->tenant,
                        .all_tenants = m->subject->all_tenants,
                };
}

static int view_quotas(struct view *v, const Confab__V1__Quotas *m, struct err *e) {
        struct confab_quota *items = NULL;

        if (m->n_limits) {
                items = view_alloc(v, m->n_limits, sizeof(*items), e);
                if (!items)
                        return -ERR_NOMEM;
        }
        for (size_t i = 0; i < m->n_limits; i++)
                view_quota(&items[i], m->limits[i]);
        v->quotas = (struct confab_quotas){items, m->n_limits, m->more, m->cursor};
        v->event.quotas = &v->quotas;
        return 0;
}

static int view_kind(struct view *v, enum confab_event_kind kind, bool final) {
        v->event.kind = kind;
        v->event.final = final;
        return 0;
}

int view_init(struct view *v, const Confab__V1__Event *m, struct err *e) {
        *v = (struct view){.event = {.request = m->request}};
        list_init(&v->blocks);
        switch (m->kind_case) {
        case CONFAB__V1__EVENT__KIND_ERROR:
                view_error(v, m->error);
                return view_kind(v, CONFAB_EVENT_ERROR, true);
        case CONFAB__V1__EVENT__KIND_ACCEPTED:
                view_accepted(v, m->accepted);
                return view_kind(v, CONFAB_EVENT_ACCEPTED, false);
        case CONFAB__V1__EVENT__KIND_PROGRESS:
                v->progress = (struct confab_progress){m->progress->done, m->progress->total,
                        m->progress->done_bytes, m->progress->total_bytes};
                v->event.progress = &v->progress;
                return view_kind(v, CONFAB_EVENT_PROGRESS, false);
        case CONFAB__V1__EVENT__KIND_DELTA:
                view_kind(v, CONFAB_EVENT_DELTA, false);
                return view_delta(v, m->delta, e);
        case CONFAB__V1__EVENT__KIND_DONE:
                view_done(v, m->done);
                return view_kind(v, CONFAB_EVENT_DONE, true);
        case CONFAB__V1__EVENT__KIND_EMPTY:
                return view_kind(v, CONFAB_EVENT_EMPTY, true);
        case CONFAB__V1__EVENT__KIND_CONVERSATION:
                view_kind(v, CONFAB_EVENT_CONVERSATION, true);
                v->event.conversation = &v->conversation;
                return view_conversation(v, &v->conversation, m->conversation, e);
        case CONFAB__V1__EVENT__KIND_CONVERSATIONS:
                view_kind(v, CONFAB_EVENT_CONVERSATIONS, true);
                return view_conversations(v, m->conversations, e);
        case CONFAB__V1__EVENT__KIND_FOUND:
                view_kind(v, CONFAB_EVENT_FOUND, true);
                return view_found(v, m->found, e);
        case CONFAB__V1__EVENT__KIND_QUOTAS:
                view_kind(v, CONFAB_EVENT_QUOTAS, true);
                return view_quotas(v, m->quotas, e);
        case CONFAB__V1__EVENT__KIND_TOKENIZE:
                view_kind(v, CONFAB_EVENT_TOKENS, true);
                return view_tokens(v, m->tokenize, e);
        case CONFAB__V1__EVENT__KIND_MODEL_INFO:
                view_model_info(v, m->model_info);
                return view_kind(v, CONFAB_EVENT_MODEL_INFO, true);
        case CONFAB__V1__EVENT__KIND_STATS:
                view_kind(v, CONFAB_EVENT_STATS, true);
                return view_stats(v, m->stats, e);
        case CONFAB__V1__EVENT__KIND_EXPORTED:
                v->exported = (struct confab_exported){
                        -1, m->exported->size, m->exported->n_memory_tokens};
                v->event.exported = &v->exported;
                return view_kind(v, CONFAB_EVENT_EXPORTED, true);
        case CONFAB__V1__EVENT__KIND_NOTICE:
                view_notice(v, m->notice);
                return view_kind(v, CONFAB_EVENT_NOTICE, false);
        case CONFAB__V1__EVENT__KIND_CHUNK:
                v->chunk = (struct confab_bytes){m->chunk->data.data, m->chunk->data.len};
                v->event.chunk = &v->chunk;
                return view_kind(v, CONFAB_EVENT_CHUNK, false);
        default:
                return view_admin(v, m, e);
        }
}
