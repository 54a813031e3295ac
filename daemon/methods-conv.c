/* SPDX-License-Identifier: MIT */
/* Verbs on conversations that generate nothing, and on the daemon as a whole. */
#include "base/util.h"
#include "daemon/methods-private.h"
#include "daemon/streams.h"
#include <math.h>
#include <string.h>

int methods_take_ref(const Confab__V1__Ref *ref, struct engine_request *out, struct err *e) {
        bool by_name = ref && ref->name && *ref->name;

        if (!ref || (ref->id == 0 && !by_name))
                return err_set(e, ERR_INVALID, "no conversation is named, by id or name");
        if (ref->id != 0 && by_name)
                return err_set(e, ERR_INVALID, "a conversation is named by id or name, not both");
        out->conv_id = ref->id;
        out->conv_name = by_name ? ref->name : NULL;
        return 0;
}

static int take_biases(const Confab__V1__Sampling *in, struct sampling *s, struct err *e) {
        if (in->n_logit_bias > SAMPLING_MAX_BIASES)
                return err_set(
                        e, ERR_INVALID, "at most %d logit biases are taken", SAMPLING_MAX_BIASES);
        if (in->n_logit_bias == 0)
                return 0;
        s->has |= SAMPLING_BIASES;
        s->n_biases = (uint32_t)in->n_logit_bias;
        for (size_t i = 0; i < in->n_logit_bias; i++) {
                const Confab__V1__LogitBias *b = in->logit_bias[i];

                if (isnan(b->bias))
                        return err_set(e, ERR_INVALID, "a logit bias is not a number");
                s->biases[i] = (struct sampling_bias){b->token, b->bias};
        }
        return 0;
}

int methods_take_sampling(const Confab__V1__Sampling *in, struct sampling *out, struct err *e) {
        struct sampling s = {};
        int r;

        if (!in)
                return 0;
#define TAKE(field, to, bit)                                                                       \
        if (in->has_##field) {                                                                     \
                s.to = in->field;                                                                  \
                s.has |= (bit);                                                                    \
        }
#define TAKE_FLOAT(field, to, bit)                                                                 \
        if (in->has_##field && !isfinite(in->field))                                               \
                return err_set(e, ERR_INVALID, #field " is not a finite number");                  \
        TAKE(field, to, bit)
        TAKE_FLOAT(temperature, temperature, SAMPLING_TEMPERATURE)
        TAKE(top_k, top_k, SAMPLING_TOP_K)
        TAKE_FLOAT(top_p, top_p, SAMPLING_TOP_P)
        TAKE_FLOAT(min_p, min_p, SAMPLING_MIN_P)
        TAKE_FLOAT(repetition_penalty, repetition_penalty, SAMPLING_REPETITION)
        TAKE_FLOAT(presence_penalty, presence_penalty, SAMPLING_PRESENCE)
        TAKE_FLOAT(frequency_penalty, frequency_penalty, SAMPLING_FREQUENCY)
        TAKE(penalty_last_n, penalty_last_n, SAMPLING_LAST_N)
        TAKE(seed, seed, SAMPLING_SEED)
#undef TAKE_FLOAT
#undef TAKE
        r = take_biases(in, &s, e);
        if (r < 0)
                return r;
        *out = s;
        return 0;
}

/* An empty string in a message counts as none. */
static const char *some(const char *s) {
        return s && *s ? s : NULL;
}

static int take_overflow(
        bool given, Confab__V1__Overflow overflow, enum engine_overflow *ret, struct err *e) {
        if (!given)
                return 0;
        switch (overflow) {
        case CONFAB__V1__OVERFLOW__OVERFLOW_UNSPECIFIED:
                return 0;
        case CONFAB__V1__OVERFLOW__OVERFLOW_ERROR:
                *ret = ENGINE_OVERFLOW_ERROR;
                return 0;
        case CONFAB__V1__OVERFLOW__OVERFLOW_SHIFT:
                *ret = ENGINE_OVERFLOW_SHIFT;
                return 0;
        default:
                return err_set(e, ERR_INVALID, "overflow is error or shift");
        }
}

int method_open(
        struct peer *p, const Confab__V1__Request *in, struct engine_request *out, struct err *e) {
        int r = take_overflow(in->open->has_overflow, in->open->overflow, &out->overflow, e);

        if (r < 0)
                return r;
        out->name = some(in->open->name);
        out->system = some(in->open->system);
        out->tools = some(in->open->tools);
        r = methods_take_about(in->open->about, out, e);
        return r < 0 ? r : methods_take_sampling(in->open->sampling, &out->sampling, e);
}

int methods_take_number(uint32_t value, uint32_t *ret, const char *what, struct err *e) {
        if (value == ENGINE_UNSET)
                return err_set(e, ERR_INVALID, "%s: %u is too large", what, value);
        *ret = value;
        return 0;
}

int method_fork(
        struct peer *p, const Confab__V1__Request *in, struct engine_request *out, struct err *e) {
        const Confab__V1__Fork *m = in->fork;
        int r = methods_take_about(m->about, out, e);

        if (r < 0)
                return r;
        out->name = some(m->name);
        if (m->has_at_turn && m->has_at_position)
                return err_set(e, ERR_INVALID, "fork names at_turn or at_position, not both");
        if (m->has_at_turn)
                r = methods_take_number(m->at_turn, &out->at_turn, "at_turn", e);
        if (m->has_at_position)
                r = methods_take_number(m->at_position, &out->at_position, "at_position", e);
        out->has_expect_revision = m->has_expect_revision;
        out->expect_revision = m->expect_revision;
        return r < 0 ? r : methods_take_ref(m->conversation, out, e);
}

int method_rewind(
        struct peer *p, const Confab__V1__Request *in, struct engine_request *out, struct err *e) {
        const Confab__V1__Rewind *m = in->rewind;
        int r = 0;

        switch (m->to_case) {
        case CONFAB__V1__REWIND__TO_TURNS:
                out->drop_turns = m->turns;
                break;
        case CONFAB__V1__REWIND__TO_AT_TURN:
                r = methods_take_number(m->at_turn, &out->at_turn, "at_turn", e);
                break;
        case CONFAB__V1__REWIND__TO_AT_POSITION:
                r = methods_take_number(m->at_position, &out->at_position, "at_position", e);
                break;
        default:
                return err_set(
                        e, ERR_INVALID, "rewind names none of turns, at_turn and at_position");
        }
        out->has_expect_revision = m->has_expect_revision;
        out->expect_revision = m->expect_revision;
        return r < 0 ? r : methods_take_ref(m->conversation, out, e);
}

int method_publish(
        struct peer *p, const Confab__V1__Request *in, struct engine_request *out, struct err *e) {
        const Confab__V1__Publish *m = in->publish;
        int r = 0;

        if (!p->admin)
                return err_set(e, ERR_PERMISSION, "only " METHODS_ADMINS " publish to all users");
        out->publish = !m->off;
        if (m->has_at_turn && !m->off)
                r = methods_take_number(m->at_turn, &out->at_turn, "at_turn", e);
        return r < 0 ? r : methods_take_ref(m->conversation, out, e);
}

int method_carry(
        struct peer *p, const Confab__V1__Request *in, struct engine_request *out, struct err *e) {
        out->has_expect_revision = in->carry->has_expect_revision;
        out->expect_revision = in->carry->expect_revision;
        return methods_take_ref(in->carry->conversation, out, e);
}

int method_close(
        struct peer *p, const Confab__V1__Request *in, struct engine_request *out, struct err *e) {
        return methods_take_ref(in->close->conversation, out, e);
}

int method_get(
        struct peer *p, const Confab__V1__Request *in, struct engine_request *out, struct err *e) {
        out->want_turns = in->get->turns;
        out->want_tokens = in->get->tokens;
        out->want_parts = in->get->parts;
        out->pages = in->get->has_max_turns || in->get->has_from_turn || in->get->has_before_turn;
        out->max_turns = in->get->max_turns;
        out->from_turn = out->before_turn = ENGINE_UNSET;
        if (in->get->has_from_turn &&
                methods_take_number(in->get->from_turn, &out->from_turn, "from_turn", e) < 0)
                return -ERR_INVALID;
        if (in->get->has_before_turn &&
                methods_take_number(in->get->before_turn, &out->before_turn, "before_turn", e) < 0)
                return -ERR_INVALID;
        return methods_take_ref(in->get->conversation, out, e);
}

int method_list(
        struct peer *p, const Confab__V1__Request *in, struct engine_request *out, struct err *e) {
        uint32_t page = (uint32_t)p->daemon->settings->list_page;

        if (in->list->all_users && !p->admin)
                return err_set(e, ERR_PERMISSION,
                        "only " METHODS_ADMINS " see the conversations of all users");
        out->tag = some(in->list->tag);
        out->limit = in->list->limit ? MIN(in->list->limit, page) : page;
        out->all_users = in->list->all_users;
        return methods_take_place(in->list, out, e);
}

int method_update(
        struct peer *p, const Confab__V1__Request *in, struct engine_request *out, struct err *e) {
        int r = methods_take_sampling(in->update->sampling, &out->sampling, e);

        /* A pin decides whose memory makes room for others'. To take one back is the owner's in any case. */
        if (in->update->pinned && !p->admin)
                return err_set(e, ERR_PERMISSION, "only " METHODS_ADMINS " pin conversations");
        out->has_pinned = in->update->has_pinned;
        out->pinned = in->update->pinned;
        out->reset_sampling = in->update->reset_sampling;
        if (r == 0)
                r = take_overflow(
                        in->update->has_overflow, in->update->overflow, &out->overflow, e);
        if (r == 0)
                r = methods_take_about(in->update->about, out, e);
        if (r < 0)
                return r;
        if (in->update->name && !*in->update->name)
                return err_set(e, ERR_INVALID, "a conversation's name is not empty");
        out->name = in->update->name;
        return methods_take_ref(in->update->conversation, out, e);
}

int method_warm(
        struct peer *p, const Confab__V1__Request *in, struct engine_request *out, struct err *e) {
        return methods_take_ref(in->warm->conversation, out, e);
}

int method_evict(
        struct peer *p, const Confab__V1__Request *in, struct engine_request *out, struct err *e) {
        return methods_take_ref(in->evict->conversation, out, e);
}

int method_cancel(
        struct peer *p, const Confab__V1__Request *in, struct engine_request *out, struct err *e) {
        const Confab__V1__Cancel *m = in->cancel;
        struct stream *stream;
        struct request *r;

        if (!m->has_request)
                return methods_take_ref(m->conversation, out, e);
        if (m->conversation)
                return err_set(
                        e, ERR_INVALID, "cancel names a request or a conversation, not both");
        r = request_list_find(&p->in_flight, m->request);
        stream = r ? NULL : streams_find(p, m->request);
        if (stream) {
                stream_cancel(stream);
                reply_empty(p, in->id);
                return 1;
        }
        if (!r)
                return err_set(e, ERR_NOT_FOUND, "no request %llu of this connection is in flight",
                        (unsigned long long)m->request);
        engine_cancel(p->daemon->engine, r->handle);
        reply_empty(p, in->id);
        return 1;
}

int method_tokenize(
        struct peer *p, const Confab__V1__Request *in, struct engine_request *out, struct err *e) {
        out->text = in->tokenize->text ? in->tokenize->text : "";
        out->text_size = strlen(out->text);
        out->special = in->tokenize->special;
        out->add_bos = in->tokenize->add_bos;
        return 0;
}

int method_model_info(
        struct peer *p, const Confab__V1__Request *in, struct engine_request *out, struct err *e) {
        return 0;
}
