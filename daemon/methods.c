/* SPDX-License-Identifier: MIT */
/*
 * Dispatch, and the consequences of errors:
 *
 * - A frame that is no Request, a length out of bounds, an id of 0, an id in flight twice, or
 *   anything before Hello breaks the protocol: the daemon sends Error with request 0 (or the id, if
 *   it is not in flight) and ends the connection. So does a Hello that is refused (methods-hello.c).
 * - A well-formed Request with invalid content gets Error, and the connection stays open.
 */
#include "base/util.h"
#include "daemon/methods-private.h"
#include "daemon/request-log.h"
#include "daemon/streams.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
        enum engine_verb verb;
        method_fn *fn;
} methods[] = {
        [CONFAB__V1__REQUEST__VERB_OPEN] = {ENGINE_OPEN, method_open},
        [CONFAB__V1__REQUEST__VERB_CONTINUE] = {ENGINE_CONTINUE, method_continue},
        [CONFAB__V1__REQUEST__VERB_FORK] = {ENGINE_FORK, method_fork},
        [CONFAB__V1__REQUEST__VERB_REWIND] = {ENGINE_REWIND, method_rewind},
        [CONFAB__V1__REQUEST__VERB_CLOSE] = {ENGINE_CLOSE, method_close},
        [CONFAB__V1__REQUEST__VERB_GET] = {ENGINE_GET, method_get},
        [CONFAB__V1__REQUEST__VERB_LIST] = {ENGINE_LIST, method_list},
        [CONFAB__V1__REQUEST__VERB_UPDATE] = {ENGINE_UPDATE, method_update},
        [CONFAB__V1__REQUEST__VERB_WARM] = {ENGINE_WARM, method_warm},
        [CONFAB__V1__REQUEST__VERB_EVICT] = {ENGINE_EVICT, method_evict},
        [CONFAB__V1__REQUEST__VERB_CANCEL] = {ENGINE_CANCEL, method_cancel},
        [CONFAB__V1__REQUEST__VERB_TOKENIZE] = {ENGINE_TOKENIZE, method_tokenize},
        [CONFAB__V1__REQUEST__VERB_MODEL_INFO] = {ENGINE_MODEL_INFO, method_model_info},
        [CONFAB__V1__REQUEST__VERB_STATS] = {ENGINE_STATS, method_stats},
        [CONFAB__V1__REQUEST__VERB_PUBLISH] = {ENGINE_PUBLISH, method_publish},
        [CONFAB__V1__REQUEST__VERB_EXPORT] = {ENGINE_EXPORT, method_export},
        [CONFAB__V1__REQUEST__VERB_IMPORT] = {ENGINE_IMPORT, method_import},
        [CONFAB__V1__REQUEST__VERB_CARRY] = {ENGINE_CARRY, method_carry},
        [CONFAB__V1__REQUEST__VERB_ATTACH] = {ENGINE_ATTACH, method_attach},
        [CONFAB__V1__REQUEST__VERB_WATCH] = {ENGINE_WATCH, method_watch},
        [CONFAB__V1__REQUEST__VERB_FIND] = {ENGINE_FIND, method_find},
        /* For administrators. The engine is not asked for settings. */
        [CONFAB__V1__REQUEST__VERB_SETTINGS] = {ENGINE_STATS, method_settings},
        [CONFAB__V1__REQUEST__VERB_USERS] = {ENGINE_USERS, method_users},
        [CONFAB__V1__REQUEST__VERB_ACT_ON_USER] = {ENGINE_ACT_ON_USER, method_act_on_user},
        [CONFAB__V1__REQUEST__VERB_DRAIN] = {ENGINE_DRAIN, method_drain},
        [CONFAB__V1__REQUEST__VERB_BACKUP] = {ENGINE_BACKUP, method_backup},
        [CONFAB__V1__REQUEST__VERB_CHECK] = {ENGINE_CHECK, method_check},
        [CONFAB__V1__REQUEST__VERB_QUOTA] = {ENGINE_USAGE, method_quota},
};

/* Checks that come before the verb; a violation breaks the protocol. */
static int check_order(struct peer *p, const Confab__V1__Request *in, struct err *e) {
        bool hello = in->verb_case == CONFAB__V1__REQUEST__VERB_HELLO;

        if (!p->said_hello && !hello)
                return err_set(e, ERR_STATE, "the first message must be Hello");
        if (p->said_hello && hello)
                return err_set(e, ERR_STATE, "Hello has been said already");
        if (in->id == 0)
                return err_set(e, ERR_INVALID, "a request has an id, and it is not 0");
        return 0;
}

static int submit(struct peer *p, const Confab__V1__Request *in, struct request *asked,
        struct engine_request *r, struct err *e) {
        int n = methods_audit(p, in, &asked->audit, e);

        request_log_submit(p, asked, r->conv_id);
        if (n == 0)
                n = requests_submit(&p->daemon->requests, asked, r, e);
        if (n < 0)
                free(asked->audit);
        return n;
}

/* As the protocol's description has it. */
static const char *verb_name(const Confab__V1__Request *in) {
        const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(
                &confab__v1__request__descriptor, (unsigned)in->verb_case);

        return field ? field->name : "none";
}

static int run_method(struct peer *p, const Confab__V1__Request *in, struct err *e) {
        struct daemon *d = p->daemon;
        struct engine_request r = {
                .at_turn = ENGINE_UNSET,
                .at_position = ENGINE_UNSET,
                .max_tokens = ENGINE_UNSET,
                .role = ENGINE_USER,
                .fd = -1,
                .owner = p->owner,
                .admin = p->admin,
                .has_quotas = true,
                .quotas = p->user->limits.quotas,
                .max_answer = p->max_event,
        };
        struct request asked = {
                .id = in->id,
                .peer = p,
                .among = &p->in_flight,
                .on_event = methods_send_event,
        };
        int n;

        if ((unsigned)in->verb_case >= ARRAY_SIZE(methods) || !methods[in->verb_case].fn)
                return err_set(e, ERR_UNSUPPORTED, "request without a verb that is known here");
        if (p->in_flight.n + p->n_streams >= d->settings->max_connection_requests)
                return err_set(e, ERR_LIMIT,
                        "%zu requests of this connection are in flight, the limit for one "
                        "connection is %llu (max-connection-requests); wait for some to end",
                        p->in_flight.n + p->n_streams,
                        (unsigned long long)d->settings->max_connection_requests);
        r.verb = methods[in->verb_case].verb;
        n = methods[in->verb_case].fn(p, in, &r, e);
        asked.in_stream =
                in->verb_case == CONFAB__V1__REQUEST__VERB_BACKUP ||
                (in->verb_case == CONFAB__V1__REQUEST__VERB_EXPORT && in->export->in_stream);
        if (in->verb_case == CONFAB__V1__REQUEST__VERB_STATS) {
                asked.one_user = in->stats->has_uid;
                asked.with_users = in->stats->with_users;
        }
        asked.detach = in->verb_case == CONFAB__V1__REQUEST__VERB_CONTINUE && in->continue_->detach;
        if (n == 0 && r.own_file)
                n = streams_upload(p, in->id, r.owner, r.name, asked.on_event, e);
        else if (n == 0)
                n = submit(p, in, &asked, &r, e);
        if (n == 0)
                p->user->figures.requests++;
        free((void *)(uintptr_t)r.results);
        free((void *)(uintptr_t)r.calls);
        free((void *)(uintptr_t)r.messages);
        free((void *)(uintptr_t)r.about);
        free((void *)(uintptr_t)r.known);
        if (r.fd >= 0)
                close(r.fd); /* the engine has its own, and method_import() has looked at it */
        return n;
}

/* A part of a request that came before, with the same id. */
static bool is_chunk(const Confab__V1__Request *in) {
        return in->verb_case == CONFAB__V1__REQUEST__VERB_CHUNK;
}

void methods_handle(struct peer *p, const uint8_t *data, size_t n) {
        _cleanup_(proto_message_freep) struct proto_message *m = NULL;
        struct stream *stream;
        uint64_t id = 0;
        struct err e;
        int r;

        r = proto_unpack_request(&m, data, n, &id, &e);
        if (r == -ERR_FORMAT || (r < 0 && (id == 0 || !p->said_hello))) {
                reply_protocol_error(p, 0, &e);
                return;
        }
        stream = streams_find(p, id);
        if (r < 0 && stream) {
                stream_fail(stream, &e);
                return;
        }
        if (request_list_find(&p->in_flight, id) || (stream && !is_chunk(m->request))) {
                err_set(&e, ERR_INVALID, "request id %llu is in flight already",
                        (unsigned long long)id);
                reply_protocol_error(p, 0, &e);
                return;
        }
        if (r == 0 && check_order(p, m->request, &e) < 0) {
                reply_protocol_error(p, id, &e);
                return;
        }
        if (r == 0 && m->request->verb_case == CONFAB__V1__REQUEST__VERB_HELLO) {
                methods_hello(p, id, m->request->hello);
                return;
        }
        if (r == 0 && is_chunk(m->request)) {
                method_chunk(p, m->request);
                return;
        }
        if (r == 0) {
                request_log_begin(p, id, verb_name(m->request), n);
                r = run_method(p, m->request, &e);
        }
        if (r < 0)
                reply_error(p, id, &e);
}
