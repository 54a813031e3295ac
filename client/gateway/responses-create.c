/* SPDX-License-Identifier: MIT */
/* POST /v1/responses, and counting the tokens of such a body: see responses-create.h. */
#include "client/gateway/responses-create.h"
#include "base/clock.h"
#include "base/util.h"
#include "client/gateway/answer.h"
#include <string.h>
#include <sys/random.h>

static const struct answer_kind kind = {.dialect = &gateway_responses};

static void creating_free(struct asker *asker) {
        struct responses_creating *creating = container_of(asker, struct responses_creating, asker);

        json_decref(creating->body);
        form_free(creating->form);
        responses_wish_deinit(&creating->wish);
        free(creating->references);
        free(creating->known.items);
        free(creating);
}

/* ---- the body ---- */

static int read_body(struct responses_creating *creating, struct err *e) {
        struct gateway_call *call = creating->asker.call;
        size_t size;
        const char *body = http_body(call->exchange, &size);
        int r = fields_parse(&creating->body, body, size, e);

        http_drop_body(call->exchange);
        if (r == 0)
                r = form_new(&creating->form, e);
        if (r == 0)
                r = responses_read(
                        creating->form, &creating->wish, &creating->fields, creating->body, e);
        if (r == 0)
                r = responses_read_references(&creating->fields, creating->body,
                        &creating->references, &creating->n_references, e);
        if (r == 0)
                r = gateway_fill_form(call, creating->form, e);
        return r;
}

/* Items that references stand for have their places. */
static int prepare_known(struct responses_creating *creating, struct err *e) {
        if (!creating->wish.previous && !creating->wish.conversation)
                creating->n_leading = responses_leading_references(creating->body);
        creating->known.n = creating->n_references - creating->n_leading;
        creating->known.items = calloc(creating->known.n + 1, sizeof(*creating->known.items));
        return creating->known.items ? 0 : err_no_memory(e);
}

/* ---- the place ---- */

static uint32_t flags_of(const struct responses_creating *creating) {
        const struct responses_wish *wish = &creating->wish;

        return (wish->conversation ? RESPONSES_IN_CONVERSATION : 0) |
               (wish->background ? RESPONSES_BACKGROUND : 0) |
               (wish->summary ? RESPONSES_SUMMARY : 0) | (wish->store ? 0 : RESPONSES_NOT_STORED) |
               (wish->truncates ? RESPONSES_TRUNCATES : 0) |
               (wish->options.one_call ? RESPONSES_ONE_CALL : 0);
}

/* Turns that messages from number @from on become. */
static uint32_t count_turns(const struct form_fields *fields, size_t from) {
        uint32_t n = 0;

        for (size_t i = from; i < fields->n_messages; i++)
                n += i == from || fields->messages[i].role != CONFAB_ROLE_TOOL ||
                     fields->messages[i - 1].role != CONFAB_ROLE_TOOL;
        return n;
}

/* Ids name a reply by its seed, so it must have one. */
static int fill_place(struct responses_creating *creating, struct err *e) {
        struct form_fields *fields = form_fields(creating->form);
        struct responses_place *place = &creating->place;

        if (!(fields->sampling.has & CONFAB_HAS_SEED)) {
                if (getrandom(&fields->sampling.seed, sizeof(fields->sampling.seed), 0) !=
                        sizeof(fields->sampling.seed))
                        return err_set(e, ERR_SYS, "no random number for a seed");
                fields->sampling.has |= CONFAB_HAS_SEED;
        }
        place->seed = fields->sampling.seed;
        place->id.created = clock_realtime_usec() / 1000000;
        place->id.flags |= flags_of(creating);
        if (creating->wish.conversation)
                memcpy(place->conversation, creating->wish.conversation,
                        strlen(creating->wish.conversation) + 1);
        if (creating->n_told > 0)
                place->n_given = MAX(count_turns(fields, creating->n_told), 1u);
        else if (fields->place == FORM_FIND || fields->place == FORM_NAMED)
                place->n_given = UINT32_MAX;
        return 0;
}

/* ---- messages ---- */

static int read_messages(struct responses_creating *creating, struct err *e) {
        struct form_fields *fields = form_fields(creating->form);
        const char *instructions = creating->wish.instructions;
        int r = 0;

        if (creating->says_instructions) {
                r = responses_add_instructions(creating->form, instructions, e);
                creating->place.id.instructions_size = (uint32_t)strlen(instructions);
                if (fields->place == FORM_AT)
                        creating->place.id.flags |= RESPONSES_LATE_INSTRUCTIONS;
        }
        if (r == 0)
                r = responses_read_input(creating->form, &creating->fields, creating->body, "input",
                        creating->n_leading, &creating->known, e);
        if (r == 0 && fields->n_messages == 0 && (fields->place != FORM_AT || creating->counts))
                r = fields_wrong(&creating->fields, "input", "a text or a list of items", e);
        return r;
}

/* The daemon has the conversation, so it is the one that answers. The model may be left out, but not be another one. */
static int choose_daemon(struct responses_creating *creating, struct err *e) {
        struct form_fields *fields = form_fields(creating->form);
        struct backends *backends = gateway_call_backends(creating->asker.call);
        struct backend *named;

        if (!creating->backend)
                return 0;
        named = fields->model ? backends_find(backends, fields->model) : NULL;
        if (named && named != creating->backend) {
                fields_wrong(&creating->fields, "model", "this one", NULL);
                return err_set(e, ERR_INVALID, "the conversation is one with the model %s",
                        backend_model(creating->backend)->name);
        }
        fields->daemon = backend_model(creating->backend)->socket;
        return 0;
}

/* ---- counting ---- */

static int write_count(struct buf *out, uint32_t n_tokens) {
        struct json j;

        json_init(&j, out);
        json_object_begin(&j);
        json_put_key_string(&j, "object", "response.input_tokens");
        json_put_key_u64(&j, "input_tokens", n_tokens);
        json_object_end(&j);
        return json_finish(&j);
}

/* ---- the way ---- */

void responses_create_start(struct responses_creating *creating) {
        const struct gateway_settings *settings = gateway_settings(creating->asker.call->gateway);
        struct form_fields *fields = form_fields(creating->form);
        struct responses_place place;
        struct responses_wish wish;
        struct gateway_call *call;
        struct form *form;
        bool counts = creating->counts;
        struct err e = {0};
        int r = choose_daemon(creating, &e);

        if (r == 0)
                r = read_messages(creating, &e);
        if (r == 0)
                r = fill_place(creating, &e);
        if (r < 0) {
                responses_refuse_body(&creating->asker, &creating->fields, &e);
                return;
        }
        if (creating->wish.store) { /* it is to be found again */
                fields->has_expires_after = true;
                fields->expires_after = settings->talk.expires_after;
        }
        form = TAKE_PTR(creating->form);
        wish = creating->wish;
        creating->wish.memory = NULL;
        place = creating->place;
        call = asker_end(&creating->asker);
        if (counts) {
                responses_wish_deinit(&wish);
                answer_count(call, &kind, form, write_count);
        } else {
                answer_start(call, &kind, NULL, form, responses_writer_new(&wish, &place));
        }
}

static void create(struct gateway_call *call, bool counts) {
        struct responses_creating *creating = calloc(1, sizeof(*creating));
        struct err e = {0};
        int r;

        if (!creating) {
                err_no_memory(&e);
                gateway_refuse_err(call, &gateway_responses, &e);
                return;
        }
        creating->counts = counts;
        creating->wish = RESPONSES_WISH_NULL;
        asker_init(&creating->asker, call, &gateway_responses, creating_free);
        r = read_body(creating, &e);
        if (r == 0)
                r = prepare_known(creating, &e);
        if (r < 0)
                responses_refuse_body(&creating->asker, &creating->fields, &e);
        else
                responses_resolve(creating);
}

void responses_handle_create(struct gateway_call *call) {
        create(call, false);
}

void responses_handle_count(struct gateway_call *call) {
        create(call, true);
}
