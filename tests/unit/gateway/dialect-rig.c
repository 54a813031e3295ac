/* SPDX-License-Identifier: MIT */
#include "unit/gateway/dialect-rig.h"
#include "base/err.h"
#include "base/util.h"
#include "util/test.h"
#include <string.h>

static char printed[16384];

static void print(size_t *n, const char *text) {
        *n += (size_t)snprintf(printed + *n, sizeof(printed) - *n, "%s", text);
        assert_true(*n < sizeof(printed));
}

static void show_message(size_t *n, const struct confab_message *m) {
        print(n, confab_role_name(m->role));
        if (m->role != CONFAB_ROLE_TOOL) {
                print(n, "|");
                assert_int_equal(m->text ? strlen(m->text) : 0, m->text_size);
                print(n, m->text ? m->text : "");
        }
        if (m->reasoning) {
                print(n, "|think:");
                print(n, m->reasoning);
        }
        for (size_t i = 0; i < m->n_calls; i++) {
                print(n, "|");
                print(n, m->calls[i].id ? m->calls[i].id : "-");
                print(n, " ");
                print(n, m->calls[i].name);
                print(n, " ");
                print(n, m->calls[i].arguments ? m->calls[i].arguments : "-");
        }
        for (size_t i = 0; i < m->n_results; i++) {
                print(n, "|");
                print(n, m->results[i].call_id ? m->results[i].call_id : "-");
                if (m->results[i].name) {
                        print(n, "(");
                        print(n, m->results[i].name);
                        print(n, ")");
                }
                print(n, "=");
                print(n, m->results[i].text);
        }
        print(n, "\n");
}

const char *rig_messages(struct form *form) {
        const struct form_fields *fields = form_fields(form);
        size_t n = 0;

        printed[0] = '\0';
        for (size_t i = 0; i < fields->n_messages; i++)
                show_message(&n, &fields->messages[i]);
        return printed;
}

static int put(void *userdata, const char *name, const struct buf *json) {
        struct rig_said *said = userdata;

        if (said->n_put++ == said->refuse_at)
                return -ERR_LIMIT;
        assert_null(memchr(json->data, '\n', json->size));
        if (name && buf_printf(&said->lines, "%s ", name) < 0)
                return -ERR_NOMEM;
        return buf_printf(&said->lines, "%s\n", (const char *)json->data);
}

void rig_said_init(struct rig_said *said, struct writer *writer) {
        assert_non_null(writer);
        *said = (struct rig_said){.writer = writer, .refuse_at = -1};
        writer->put = put;
        writer->userdata = said;
}

void rig_said_deinit(struct rig_said *said) {
        writer_free(said->writer);
        buf_deinit(&said->lines);
}

const char *rig_take(struct rig_said *said) {
        static const char mark[] = "\"created_at\":\"";
        size_t n = 0;
        const char *s = said->lines.data ? (const char *)said->lines.data : "";

        while (*s) {
                if (strncmp(s, mark, strlen(mark)) == 0) {
                        s += strlen(mark);
                        s = strchr(s, '"') + 1;
                        if (*s == ',')
                                s++;
                        continue;
                }
                printed[n++] = *s++;
                assert_true(n < sizeof(printed));
        }
        printed[n] = '\0';
        said->lines.size = 0;
        if (said->lines.data)
                said->lines.data[0] = '\0';
        return printed;
}

int rig_begin(struct rig_said *said) {
        const struct backend_model model = {.name = "m", .socket = "s", .known = true};
        const struct talk_place place = {
                .conversation = 10, .revision = 2, .input_turn = 2, .reply_turn = 3};
        const struct talk_usage usage = {.n_prompt = 14, .n_cached = 13};

        return said->writer->ops->begin(said->writer, &model, &place, &usage);
}

static int tell(struct rig_said *said, const struct confab_part *part) {
        const struct confab_delta delta = {.parts = part, .n_parts = 1};

        return said->writer->ops->delta(said->writer, &delta);
}

int rig_part(struct rig_said *said, uint32_t index, enum confab_part_kind kind, const char *text,
        bool ends) {
        const struct confab_part part = {.index = index,
                .kind = kind,
                .text = text,
                .text_size = strlen(text),
                .ends = ends};

        return tell(said, &part);
}

int rig_call(struct rig_said *said, uint32_t index, const char *id, const char *name,
        const char *text, bool ends, const char *broken) {
        const struct confab_part part = {.index = index,
                .kind = CONFAB_PART_CALL,
                .text = text,
                .text_size = strlen(text),
                .call_id = id,
                .name = name,
                .ends = ends,
                .broken = broken};

        return tell(said, &part);
}

int rig_done(struct rig_said *said, enum confab_finish finish, const char *stop, unsigned n_calls) {
        const struct confab_done done = {.finish = finish,
                .stop = stop,
                .n_prompt = 14,
                .n_generated = 9,
                .queued_usec = 1,
                .restore_usec = 2,
                .prefill_usec = 3,
                .decode_usec = 4,
                .has_n_calls = true,
                .n_calls = n_calls};
        const struct talk_usage usage = {.n_prompt = 14, .n_cached = 13, .n_generated = 9};

        return said->writer->ops->done(said->writer, &done, &usage);
}
