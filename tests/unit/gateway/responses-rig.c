/* SPDX-License-Identifier: MIT */
#include "unit/gateway/responses-rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "util/test.h"

/* Runs between failures of allocations: it allocates what the gateway would, and nothing else but the items. */
static int make_known(struct responses_body *body, size_t n_leading) {
        static const char *const texts[] = {"item 0", "item 1", "item 2", "item 3"};

        body->known.n = body->n_references - n_leading;
        body->known.items = calloc(body->known.n + 1, sizeof(*body->known.items));
        if (!body->known.items)
                return err_set(&body->e, ERR_NOMEM, "out of memory");
        for (size_t i = 0; i < body->known.n; i++) {
                struct responses_item *item = &body->known.items[i];

                item->id = body->references[n_leading + i];
                item->role = CONFAB_ROLE_ASSISTANT;
                item->text = texts[i % 4];
                item->text_size = strlen(item->text);
                item->call_id = "c";
                item->name = "f";
        }
        return 0;
}

static int read_all(struct responses_body *body) {
        int r = form_new(&body->form, &body->e);
        size_t n_leading;

        if (r == 0)
                r = responses_read(body->form, &body->wish, &body->fields, body->json, &body->e);
        if (r == 0)
                r = responses_read_references(&body->fields, body->json, &body->references,
                        &body->n_references, &body->e);
        if (r < 0)
                return r;
        n_leading = responses_leading_references(body->json);
        r = make_known(body, n_leading);
        if (r == 0 && body->wish.instructions)
                r = responses_add_instructions(body->form, body->wish.instructions, &body->e);
        if (r == 0)
                r = responses_read_input(body->form, &body->fields, body->json, "input", n_leading,
                        &body->known, &body->e);
        return r;
}

void responses_rig_read_json(struct responses_body *ret, json_t *json) {
        *ret = (struct responses_body){.json = json, .wish = RESPONSES_WISH_NULL};
        ret->r = read_all(ret);
        ret->is = ret->form ? form_fields(ret->form) : NULL;
}

void responses_rig_read(struct responses_body *ret, const char *text) {
        json_t *json = NULL;
        struct err e = {0};
        int r = fields_parse(&json, text, strlen(text), &e);

        if (r == 0) {
                responses_rig_read_json(ret, json);
                return;
        }
        *ret = (struct responses_body){.wish = RESPONSES_WISH_NULL, .e = e, .r = r};
}

void responses_rig_free(struct responses_body *body) {
        json_decref(body->json);
        form_free(body->form);
        responses_wish_deinit(&body->wish);
        free(body->references);
        free(body->known.items);
}

/* ---- what is put ---- */

static int put(void *userdata, const char *name, const struct buf *json) {
        struct rig_said *rig = userdata;
        struct responses_said *said = container_of(rig, struct responses_said, rig);
        json_t *event = json_loadb((const char *)json->data, json->size, 0, NULL);

        assert_non_null(event);
        if (name)
                assert_string_equal(json_string_value(json_object_get(event, "type")), name);
        assert_int_equal(json_array_append_new(said->events, event), 0);
        return rig->n_put++ == rig->refuse_at ? -ERR_LIMIT : 0;
}

void responses_said_init(struct responses_said *said, struct writer *writer) {
        assert_non_null(writer);
        *said = (struct responses_said){.writer = writer, .events = json_array()};
        said->rig = (struct rig_said){.writer = writer, .refuse_at = -1};
        writer->put = put;
        writer->userdata = &said->rig;
}

void responses_said_deinit(struct responses_said *said) {
        writer_free(said->writer);
        json_decref(said->events);
}

const struct responses_place responses_rig_place = {
        .id = {.created = 1795309965, .instructions_size = 3}, .seed = 7};

void responses_said_ask(struct responses_said *said, const char *text) {
        struct responses_body body;

        responses_rig_read(&body, text);
        if (body.r < 0)
                fail_msg("%s: %s", text, body.e.msg);
        responses_said_init(said, responses_writer_new(&body.wish, &responses_rig_place));
        responses_rig_free(&body);
}

const json_t *responses_at(const json_t *value, const char *path) {
        char name[64];

        for (size_t n; *path; path += n + (path[n] == '.')) {
                n = strcspn(path, ".");
                snprintf(name, sizeof(name), "%.*s", (int)n, path);
                value = json_is_array(value) ? json_array_get(value, (size_t)atoi(name))
                                             : json_object_get(value, name);
                if (!value)
                        fail_msg("there is no %s", path);
        }
        return value;
}

void responses_assert_json(const json_t *value, const char *path, const char *wanted) {
        char *text = json_dumps(responses_at(value, path), JSON_ENCODE_ANY | JSON_COMPACT);

        assert_non_null(text);
        if (strcmp(text, wanted) != 0)
                fail_msg("%s is %s, not %s", path, text, wanted);
        free(text);
}

const json_t *responses_said_at(const struct responses_said *said, size_t i) {
        const json_t *event = json_array_get(said->events, i);

        assert_non_null(event);
        return event;
}

const json_t *responses_said_last(const struct responses_said *said) {
        return responses_said_at(said, json_array_size(said->events) - 1);
}

void responses_said_tell(struct responses_said *said) {
        struct rig_said *rig = &said->rig;

        assert_int_equal(rig_begin(rig), 0);
        assert_int_equal(rig_part(rig, 0, CONFAB_PART_REASONING, "hm", true), 0);
        assert_int_equal(rig_part(rig, 1, CONFAB_PART_TEXT, "Wait.", true), 0);
        assert_int_equal(rig_part(rig, 1, (enum confab_part_kind)4, "new", true), 0);
        assert_int_equal(rig_call(rig, 2, "c1", "f", "", false, NULL), 0);
        assert_int_equal(rig_call(rig, 2, NULL, NULL, "{\"a\":", false, NULL), 0);
        assert_int_equal(rig_call(rig, 2, NULL, NULL, "1}", true, NULL), 0);
        assert_int_equal(rig_call(rig, 3, "c2", "g", "{}", false, NULL), 0);
        assert_int_equal(rig_call(rig, 3, NULL, NULL, "", true, "it ends too early"), 0);
        assert_int_equal(rig_done(rig, CONFAB_FINISH_STOP, NULL, 1), 0);
}
