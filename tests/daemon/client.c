/* SPDX-License-Identifier: MIT */
/* The harness's client: one call per verb. */
#include "base/util.h"
#include "harness.h"
#include "util/test.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define REQUEST(r, WHICH, Type, field, m)                                                          \
        Confab__V1__Request r = CONFAB__V1__REQUEST__INIT;                                         \
        Confab__V1__##Type m = CONFAB__V1__##WHICH##__INIT;                                        \
        r.verb_case = CONFAB__V1__REQUEST__VERB_##WHICH;                                           \
        r.field = &m
#define SET(m, field, value)                                                                       \
        do {                                                                                       \
                (m).has_##field = true;                                                            \
                (m).field = (value);                                                               \
        } while (0)

struct client *client_connect(const char *path) {
        struct client *c = calloc(1, sizeof(*c));

        if (!c)
                return NULL;
        if (wire_connect(&c->w, path, wire_poll, NULL) < 0 || !wire_hello(&c->w))
                return client_free(c);
        return c;
}

struct client *harness_client(struct harness *h) {
        struct client *c = client_connect(h->socket);

        assert_non_null(c);
        return c;
}

struct client *client_free(struct client *c) {
        if (c) {
                wire_close(&c->w);
                free(c);
        }
        return NULL;
}

static int set_error(struct client *c, const char *code, const char *message, bool retry) {
        c->error.retry = retry;
        snprintf(c->error.code, sizeof(c->error.code), "%s", code);
        snprintf(c->error.message, sizeof(c->error.message), "%s", message);
        return -1;
}

/* The event, or NULL with c->error set: an Error for @id (or for the connection), or the end. */
static struct proto_message *next(struct client *c, uint64_t id) {
        struct proto_message *m;

        do {
                m = id ? wire_event(&c->w) : NULL;
                if (!m) {
                        set_error(c, "gone", "the connection ended", false);
                        return NULL;
                }
                if (m->event->kind_case == CONFAB__V1__EVENT__KIND_ERROR &&
                        (m->event->request == id || m->event->request == 0)) {
                        set_error(c, m->event->error->code, m->event->error->message,
                                m->event->error->retry);
                        proto_message_free(m);
                        return NULL;
                }
                if (m->event->request != id)
                        m = proto_message_free(m);
        } while (!m);
        return m;
}

/* Of its Hello: whom the daemon takes the requests for. */
static bool is_for(struct client *c, const Confab__V1__Event *ev, const uint32_t *act_uid,
        const char *tenant) {
        const Confab__V1__Hello *h = ev->hello;

        return ev->kind_case == CONFAB__V1__EVENT__KIND_HELLO && h->has_act_uid &&
               (!act_uid || h->act_uid == *act_uid) && !h->tenant == !tenant &&
               (!tenant || strcmp(h->tenant, tenant) == 0);
}

int client_act(struct client **ret, const char *path, const uint32_t *act_uid, const char *tenant,
        struct client_error *ret_error) {
        struct client *c = calloc(1, sizeof(*c));
        struct proto_message *m;

        assert_non_null(c);
        assert_int_equal(wire_connect(&c->w, path, wire_poll, NULL), 0);
        m = next(c, wire_send_hello_for(&c->w, act_uid, tenant));
        if (m) {
                assert_true(is_for(c, m->event, act_uid, tenant));
                proto_message_free(m);
                *ret = c;
                return 0;
        }
        *ret_error = c->error;
        assert_true(wire_wait_eof(&c->w));
        client_free(c);
        return -1;
}

/* Send @r and take its only event, which must be of @kind. */
static struct proto_message *call(
        struct client *c, Confab__V1__Request *r, Confab__V1__Event__KindCase kind) {
        struct proto_message *m = next(c, wire_send(&c->w, r));

        if (m && m->event->kind_case != kind) {
                set_error(c, "wrong", "an event of another kind came", false);
                return proto_message_free(m);
        }
        return m;
}

static Confab__V1__Ref *ref_to(Confab__V1__Ref *ref, uint64_t id, const char *name) {
        confab__v1__ref__init(ref);
        ref->has_id = id != 0;
        ref->id = id;
        ref->name = proto_borrow(name);
        return ref;
}

/* ---- conversations ---- */

void conv_deinit(struct conv *v) {
        for (size_t i = 0; i < v->n_turn_list; i++)
                free(v->texts[i]);
        free(v->texts);
        free(v->roles);
        free(v->finishes);
        free(v->tokens);
        *v = (struct conv){};
}

static void take_turns(const Confab__V1__Conversation *m, struct conv *v) {
        size_t n = m->n_turn_list;

        v->n_turn_list = n;
        v->texts = calloc(n + 1, sizeof(*v->texts));
        v->roles = calloc(n + 1, sizeof(*v->roles));
        v->finishes = calloc(n + 1, sizeof(*v->finishes));
        assert_true(v->texts && v->roles && v->finishes);
        for (size_t i = 0; i < n; i++) {
                const ProtobufCBinaryData *text = &m->turn_list[i]->text;

                v->texts[i] = calloc(1, text->len + 1);
                assert_non_null(v->texts[i]);
                if (text->len)
                        memcpy(v->texts[i], text->data, text->len);
                v->roles[i] = (int)m->turn_list[i]->role;
                v->finishes[i] = (int)m->turn_list[i]->finish;
        }
}

static void take_conv(const Confab__V1__Conversation *m, struct conv *v) {
        *v = (struct conv){
                .id = m->id,
                .parent = m->parent,
                .revision = m->revision,
                .ram_bytes = m->ram_bytes,
                .disk_bytes = m->disk_bytes,
                .uid = m->uid,
                .fork_pos = m->fork_pos,
                .n_tokens = m->n_tokens,
                .n_turns = m->n_turns,
                .residency = (int)m->residency,
                .busy = m->busy,
                .generating = m->generating,
                .private_memory = m->private_memory,
                .pinned = m->pinned,
                .overflow = m->overflow,
                .dropped_from = m->dropped_from,
                .dropped_to = m->dropped_to,
                .n_published = m->n_published,
                .n_not_kept = m->n_not_kept,
                .other_vocabulary = m->other_vocabulary,
                .unusable_bytes = m->unusable_bytes,
                .carried = m->carried,
                .n_tokens_before = m->n_tokens_before,
                .n_biases_dropped = m->n_biases_dropped,
        };
        snprintf(v->name, sizeof(v->name), "%s", m->name ? m->name : "");
        snprintf(v->tenant, sizeof(v->tenant), "%s", m->tenant ? m->tenant : "");
        if (m->n_turn_list)
                take_turns(m, v);
        if (m->n_token_list) {
                v->tokens = malloc(m->n_token_list * sizeof(int32_t));
                assert_non_null(v->tokens);
                memcpy(v->tokens, m->token_list, m->n_token_list * sizeof(int32_t));
                v->n_token_list = m->n_token_list;
        }
}

static int call_conv(struct client *c, Confab__V1__Request *r, struct conv *ret) {
        _cleanup_(proto_message_freep) struct proto_message *m =
                call(c, r, CONFAB__V1__EVENT__KIND_CONVERSATION);

        if (!m)
                return -1;
        if (ret)
                take_conv(m->event->conversation, ret);
        return 0;
}

static int call_empty(struct client *c, Confab__V1__Request *r) {
        struct proto_message *m = call(c, r, CONFAB__V1__EVENT__KIND_EMPTY);

        proto_message_free(m);
        return m ? 0 : -1;
}

int client_open(struct client *c, const char *name, const char *system, uint64_t *ret_id) {
        REQUEST(r, OPEN, Open, open, m);
        struct conv v;

        m.name = proto_borrow(name);
        m.system = proto_borrow(system);
        if (call_conv(c, &r, &v) < 0)
                return -1;
        if (ret_id)
                *ret_id = v.id;
        conv_deinit(&v);
        return 0;
}

int client_fork(struct client *c, uint64_t id, const char *name, int at_turn, struct conv *ret) {
        REQUEST(r, FORK, Fork, fork, m);
        Confab__V1__Ref ref;

        m.conversation = ref_to(&ref, id, NULL);
        m.name = proto_borrow(name);
        if (at_turn >= 0)
                SET(m, at_turn, (uint32_t)at_turn);
        return call_conv(c, &r, ret);
}

int client_rewind(struct client *c, uint64_t id, uint32_t drop_turns, struct conv *ret) {
        REQUEST(r, REWIND, Rewind, rewind, m);
        Confab__V1__Ref ref;

        m.conversation = ref_to(&ref, id, NULL);
        m.to_case = CONFAB__V1__REWIND__TO_TURNS;
        m.turns = drop_turns;
        return call_conv(c, &r, ret);
}

int client_set_overflow(struct client *c, uint64_t id, int overflow, struct conv *ret) {
        REQUEST(r, UPDATE, Update, update, m);
        Confab__V1__Ref ref;

        m.conversation = ref_to(&ref, id, NULL);
        SET(m, overflow, (Confab__V1__Overflow)overflow);
        return call_conv(c, &r, ret);
}

int client_pin(struct client *c, uint64_t id, bool pinned, struct conv *ret) {
        REQUEST(r, UPDATE, Update, update, m);
        Confab__V1__Ref ref;

        m.conversation = ref_to(&ref, id, NULL);
        SET(m, pinned, pinned);
        return call_conv(c, &r, ret);
}

int client_rewind_to_turn(
        struct client *c, uint64_t id, uint32_t turn, uint64_t expect_revision, struct conv *ret) {
        REQUEST(r, REWIND, Rewind, rewind, m);
        Confab__V1__Ref ref;

        m.conversation = ref_to(&ref, id, NULL);
        m.to_case = CONFAB__V1__REWIND__TO_AT_TURN;
        m.at_turn = turn;
        if (expect_revision)
                SET(m, expect_revision, expect_revision);
        return call_conv(c, &r, ret);
}

int client_carry(struct client *c, uint64_t id, uint64_t expect_revision, struct conv *ret) {
        REQUEST(r, CARRY, Carry, carry, m);
        Confab__V1__Ref ref;

        m.conversation = ref_to(&ref, id, NULL);
        if (expect_revision)
                SET(m, expect_revision, expect_revision);
        return call_conv(c, &r, ret);
}

int client_rewind_to_position(struct client *c, uint64_t id, uint32_t position, struct conv *ret) {
        REQUEST(r, REWIND, Rewind, rewind, m);
        Confab__V1__Ref ref;

        m.conversation = ref_to(&ref, id, NULL);
        m.to_case = CONFAB__V1__REWIND__TO_AT_POSITION;
        m.at_position = position;
        return call_conv(c, &r, ret);
}

int client_fork_at_position(
        struct client *c, uint64_t id, const char *name, uint32_t position, struct conv *ret) {
        REQUEST(r, FORK, Fork, fork, m);
        Confab__V1__Ref ref;

        m.conversation = ref_to(&ref, id, NULL);
        m.name = proto_borrow(name);
        SET(m, at_position, position);
        return call_conv(c, &r, ret);
}

int client_publish(struct client *c, uint64_t id, int turns, bool off, struct conv *ret) {
        REQUEST(r, PUBLISH, Publish, publish, m);
        Confab__V1__Ref ref;

        m.conversation = ref_to(&ref, id, NULL);
        if (turns >= 0)
                SET(m, at_turn, (uint32_t)turns);
        if (off)
                SET(m, off, true);
        return call_conv(c, &r, ret);
}

int client_export(struct client *c, uint64_t id, bool without_memory, int *ret_fd,
        uint64_t *ret_size, uint32_t *ret_n_memory_tokens) {
        _cleanup_(proto_message_freep) struct proto_message *m = NULL;
        REQUEST(r, EXPORT, Export, export, ex);
        Confab__V1__Ref ref;

        ex.conversation = ref_to(&ref, id, NULL);
        SET(ex, without_memory, without_memory);
        m = call(c, &r, CONFAB__V1__EVENT__KIND_EXPORTED);
        if (!m)
                return -1;
        *ret_fd = wire_take_fd(&c->w);
        if (*ret_fd < 0)
                return set_error(c, "wrong", "no descriptor came with the export", false);
        if (ret_size)
                *ret_size = m->event->exported->size;
        if (ret_n_memory_tokens)
                *ret_n_memory_tokens = m->event->exported->n_memory_tokens;
        return 0;
}

int client_memfd(const void *data, size_t n) {
        int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        assert_true(fd >= 0);
        for (size_t done = 0; done < n;) {
                ssize_t k = write(fd, (const char *)data + done, n - done);

                assert_true(k > 0);
                done += (size_t)k;
        }
        assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK), 0);
        return fd;
}

int client_import(struct client *c, int fd, const char *name, struct conv *ret) {
        _cleanup_(proto_message_freep) struct proto_message *m = NULL;
        REQUEST(r, IMPORT, Import, import, im);

        im.name = proto_borrow(name);
        m = next(c, fd >= 0 ? wire_send_fds(&c->w, &r, &fd, 1) : wire_send(&c->w, &r));
        if (m && m->event->kind_case != CONFAB__V1__EVENT__KIND_CONVERSATION)
                return set_error(c, "wrong", "an event of another kind came", false);
        if (m && ret)
                take_conv(m->event->conversation, ret);
        return m ? 0 : -1;
}

int client_close(struct client *c, uint64_t id) {
        REQUEST(r, CLOSE, Close, close, m);
        Confab__V1__Ref ref;

        m.conversation = ref_to(&ref, id, NULL);
        return call_empty(c, &r);
}

int client_get(struct client *c, uint64_t id, bool turns, bool tokens, struct conv *ret) {
        REQUEST(r, GET, Get, get, m);
        Confab__V1__Ref ref;

        m.conversation = ref_to(&ref, id, NULL);
        SET(m, turns, turns);
        SET(m, tokens, tokens);
        return call_conv(c, &r, ret);
}

int client_get_name(struct client *c, const char *name, struct conv *ret) {
        REQUEST(r, GET, Get, get, m);
        Confab__V1__Ref ref;

        m.conversation = ref_to(&ref, 0, name);
        return call_conv(c, &r, ret);
}

int client_list(struct client *c, uint64_t after_id, bool all_users, struct conv *out, size_t max,
        size_t *ret_n) {
        _cleanup_(proto_message_freep) struct proto_message *m = NULL;
        REQUEST(r, LIST, List, list, list);
        size_t n;

        SET(list, after_id, after_id);
        SET(list, limit, (uint32_t)max);
        SET(list, all_users, all_users);
        m = call(c, &r, CONFAB__V1__EVENT__KIND_CONVERSATIONS);
        if (!m)
                return -1;
        n = MIN(m->event->conversations->n_conversations, max);
        for (size_t i = 0; i < n; i++)
                take_conv(m->event->conversations->conversations[i], &out[i]);
        *ret_n = n;
        return 0;
}

int client_rename(struct client *c, uint64_t id, const char *name) {
        REQUEST(r, UPDATE, Update, update, m);
        Confab__V1__Ref ref;

        m.conversation = ref_to(&ref, id, NULL);
        m.name = proto_borrow(name);
        return call_conv(c, &r, NULL);
}

int client_warm(struct client *c, uint64_t id, struct conv *ret) {
        REQUEST(r, WARM, Warm, warm, m);
        Confab__V1__Ref ref;

        m.conversation = ref_to(&ref, id, NULL);
        return call_conv(c, &r, ret);
}

int client_evict(struct client *c, uint64_t id, struct conv *ret) {
        REQUEST(r, EVICT, Evict, evict, m);
        Confab__V1__Ref ref;

        m.conversation = ref_to(&ref, id, NULL);
        return call_conv(c, &r, ret);
}

int client_cancel(struct client *c, uint64_t request, uint64_t conv) {
        REQUEST(r, CANCEL, Cancel, cancel, m);
        Confab__V1__Ref ref;

        if (request)
                SET(m, request, request);
        else
                m.conversation = ref_to(&ref, conv, NULL);
        return call_empty(c, &r);
}

/* ---- generation ---- */

void reply_deinit(struct reply *r) {
        buf_deinit(&r->text);
        buf_deinit(&r->top);
        buf_deinit(&r->pieces);
        free(r->tokens);
        free(r->logprobs);
        *r = (struct reply){};
}

static bool same_bytes(const void *a, const void *b, size_t n) {
        return n == 0 || memcmp(a, b, n) == 0;
}

bool reply_equal(const struct reply *a, const struct reply *b) {
        return a->n == b->n && a->top.size == b->top.size &&
               same_bytes(a->tokens, b->tokens, a->n * sizeof(*a->tokens)) &&
               same_bytes(a->logprobs, b->logprobs, a->n * sizeof(*a->logprobs)) &&
               same_bytes(a->top.data, b->top.data, a->top.size) &&
               a->pieces.size == b->pieces.size &&
               same_bytes(a->pieces.data, b->pieces.data, a->pieces.size);
}

static void put_sampling(const struct say *s, Confab__V1__Sampling *m) {
        SET(*m, temperature, s->temperature);
        if (s->seed)
                SET(*m, seed, s->seed);
}

static void put_input(const struct say *s, Confab__V1__Continue *m, Confab__V1__Tokens *tokens) {
        if (s->message) {
                m->input_case = CONFAB__V1__CONTINUE__INPUT_MESSAGE;
                m->message = proto_borrow(s->message);
        } else if (s->raw) {
                m->input_case = CONFAB__V1__CONTINUE__INPUT_RAW;
                m->raw.data = proto_borrow(s->raw);
                m->raw.len = strlen(s->raw);
        } else if (s->tokens) {
                tokens->ids = proto_borrow(s->tokens);
                tokens->n_ids = s->n_tokens;
                m->input_case = CONFAB__V1__CONTINUE__INPUT_TOKENS;
                m->tokens = tokens;
        } else {
                m->input_case = CONFAB__V1__CONTINUE__INPUT_NOTHING;
                m->nothing = true;
        }
}

uint64_t client_say_begin(struct client *c, const struct say *s) {
        REQUEST(r, CONTINUE, Continue, continue_, m);
        Confab__V1__Sampling sampling = CONFAB__V1__SAMPLING__INIT;
        Confab__V1__Tokens tokens = CONFAB__V1__TOKENS__INIT;
        char *stops[] = {proto_borrow(s->stop)};
        Confab__V1__Ref ref;

        m.conversation = ref_to(&ref, s->conv, s->conv ? NULL : s->name);
        m.sampling = &sampling;
        put_sampling(s, &sampling);
        put_input(s, &m, &tokens);
        SET(m, max_tokens, s->max_tokens == NO_TOKENS ? 0 : s->max_tokens ? s->max_tokens : 16);
        SET(m, logprobs, s->logprobs);
        SET(m, want_logprobs, true);
        SET(m, ignore_eos, !s->keep_eos && !s->json_schema && !s->gbnf);
        if (s->json_schema) {
                m.constraint_case = CONFAB__V1__CONTINUE__CONSTRAINT_JSON_SCHEMA;
                m.json_schema = proto_borrow(s->json_schema);
        } else if (s->gbnf) {
                m.constraint_case = CONFAB__V1__CONTINUE__CONSTRAINT_GBNF;
                m.gbnf = proto_borrow(s->gbnf);
        }
        SET(m, detach, s->detach);
        SET(m, background, s->background);
        if (s->expect_revision)
                SET(m, expect_revision, s->expect_revision);
        if (s->from_turn) {
                m.from_case = CONFAB__V1__CONTINUE__FROM_AT_TURN;
                m.at_turn = s->at;
        } else if (s->from_position) {
                m.from_case = CONFAB__V1__CONTINUE__FROM_AT_POSITION;
                m.at_position = s->at;
        }
        if (s->stop) {
                m.stop = stops;
                m.n_stop = 1;
        }
        return wire_send(&c->w, &r);
}

uint64_t client_attach_begin(struct client *c, uint64_t conv, uint32_t position) {
        REQUEST(r, ATTACH, Attach, attach, m);
        Confab__V1__Ref ref;

        m.conversation = ref_to(&ref, conv, NULL);
        if (position)
                SET(m, position, position);
        return wire_send(&c->w, &r);
}

static void take_token(struct reply *r, const Confab__V1__DeltaToken *t) {
        uint32_t bits;

        r->tokens = realloc(r->tokens, (r->n + 1) * sizeof(*r->tokens));
        r->logprobs = realloc(r->logprobs, (r->n + 1) * sizeof(*r->logprobs));
        assert_true(r->tokens && r->logprobs);
        memcpy(&bits, &t->logprob, sizeof(bits));
        r->tokens[r->n] = t->token;
        r->logprobs[r->n] = bits;
        r->n++;
        assert_true(t->has_logprob == t->has_text); /* Attach tells neither */
        assert_int_equal(buf_append(&r->pieces, t->text.data, t->text.len), 0);
        for (size_t i = 0; i < t->n_top; i++) {
                memcpy(&bits, &t->top[i]->logprob, sizeof(bits));
                assert_int_equal(buf_append_u32(&r->top, (uint32_t)t->top[i]->token), 0);
                assert_int_equal(buf_append_u32(&r->top, bits), 0);
        }
}

static void take_done(struct reply *r, const Confab__V1__Done *d) {
        r->done = true;
        r->finish = (int)d->finish;
        r->revision = d->revision;
        r->seed = d->seed;
        r->n_prompt = d->n_prompt;
        r->n_generated = d->n_generated;
        r->n_drafted = d->n_drafted;
        r->n_accepted = d->n_accepted;
        r->n_ram = d->n_ram;
        r->n_disk = d->n_disk;
        r->n_computed = d->n_computed;
        r->n_shared = d->n_shared;
        r->differs_at = d->differs_at;
        r->differs_why = (int)d->differs_why;
}

int client_say_next(struct client *c, uint64_t request, struct reply *ret) {
        _cleanup_(proto_message_freep) struct proto_message *m = next(c, request);

        if (!m)
                return -1;
        switch (m->event->kind_case) {
        case CONFAB__V1__EVENT__KIND_ACCEPTED:
                ret->accepted = true;
                ret->acc.revision = m->event->accepted->revision;
                ret->acc.n_prompt = m->event->accepted->n_prompt;
                ret->acc.n_ram = m->event->accepted->n_ram;
                ret->acc.n_disk = m->event->accepted->n_disk;
                ret->acc.n_shared = m->event->accepted->n_shared;
                ret->acc.n_computed = m->event->accepted->n_computed;
                ret->acc.differs_at = m->event->accepted->differs_at;
                ret->acc.differs_why = (int)m->event->accepted->differs_why;
                ret->acc.n_dropped = m->event->accepted->n_dropped;
                return 1;
        case CONFAB__V1__EVENT__KIND_PROGRESS:
                ret->n_progress++;
                return 1;
        case CONFAB__V1__EVENT__KIND_DELTA:
                assert_int_equal(buf_append_str(&ret->text, m->event->delta->text), 0);
                assert_true(m->event->delta->position >= ret->position);
                ret->position = m->event->delta->position;
                for (size_t i = 0; i < m->event->delta->n_tokens; i++)
                        take_token(ret, m->event->delta->tokens[i]);
                return 1;
        case CONFAB__V1__EVENT__KIND_DONE:
                take_done(ret, m->event->done);
                return 0;
        default:
                return set_error(c, "wrong", "an event of another kind came", false);
        }
}

int client_say(struct client *c, const struct say *s, struct reply *ret) {
        uint64_t id = client_say_begin(c, s);
        int r;

        *ret = (struct reply){};
        do {
                r = client_say_next(c, id, ret);
        } while (r > 0);
        return r;
}

int client_say_drawn(struct client *c, uint64_t conv, unsigned seed, size_t n, uint32_t max_tokens,
        struct reply *ret) {
        int32_t *tokens = calloc(n + 1, sizeof(*tokens));
        struct say s = {.conv = conv,
                .tokens = tokens,
                .n_tokens = n,
                .max_tokens = max_tokens,
                .logprobs = 2};
        uint32_t x = 2654435761u * (seed + 1);
        int r;

        if (!tokens)
                return -1;
        for (size_t i = 0; i < n; i++) {
                x = x * 1664525u + 1013904223u;
                tokens[i] = 300 + (int32_t)(x >> 16) % 700;
        }
        r = client_say(c, &s, ret);
        free(tokens);
        return r;
}

/* ---- the daemon as a whole ---- */

int client_tokenize(struct client *c, const char *text, int32_t **ret, size_t *ret_n) {
        _cleanup_(proto_message_freep) struct proto_message *m = NULL;
        REQUEST(r, TOKENIZE, Tokenize, tokenize, t);
        size_t n;

        t.text = proto_borrow(text);
        m = call(c, &r, CONFAB__V1__EVENT__KIND_TOKENIZE);
        if (!m)
                return -1;
        n = m->event->tokenize->n_tokens;
        *ret = calloc(n + 1, sizeof(**ret));
        assert_non_null(*ret);
        if (n)
                memcpy(*ret, m->event->tokenize->tokens, n * sizeof(**ret));
        *ret_n = n;
        return 0;
}

int client_fingerprint(struct client *c, char ret[64]) {
        _cleanup_(proto_message_freep) struct proto_message *m = NULL;
        REQUEST(r, MODEL_INFO, ModelInfo, model_info, info);

        m = call(c, &r, CONFAB__V1__EVENT__KIND_MODEL_INFO);
        if (!m)
                return -1;
        snprintf(ret, 64, "%s", m->event->model_info->fingerprint);
        return 0;
}

int client_stats(struct client *c, struct stats *ret) {
        _cleanup_(proto_message_freep) struct proto_message *m = NULL;
        REQUEST(r, STATS, Stats, stats, st);

        m = call(c, &r, CONFAB__V1__EVENT__KIND_STATS);
        if (!m)
                return -1;
        ret->n = m->event->stats->n_stats;
        ret->items = calloc(ret->n + 1, sizeof(*ret->items));
        assert_non_null(ret->items);
        for (size_t i = 0; i < ret->n; i++) {
                snprintf(ret->items[i].name, sizeof(ret->items[i].name), "%s",
                        m->event->stats->stats[i]->name);
                ret->items[i].value = m->event->stats->stats[i]->value;
        }
        return 0;
}

uint64_t stats_get(const struct stats *s, const char *name) {
        for (size_t i = 0; i < s->n; i++)
                if (strcmp(s->items[i].name, name) == 0)
                        return s->items[i].value;
        fail_msg("no figure is called %s", name);
        return 0;
}

void stats_deinit(struct stats *s) {
        free(s->items);
        *s = (struct stats){};
}

uint64_t client_stat(struct client *c, const char *name) {
        struct stats s = {};
        uint64_t v;

        assert_int_equal(client_stats(c, &s), 0);
        v = stats_get(&s, name);
        stats_deinit(&s);
        return v;
}
