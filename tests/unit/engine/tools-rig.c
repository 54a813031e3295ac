/* SPDX-License-Identifier: MIT */
#include "tools-rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/test.h"
#include "util/tiny-model.h"

char tools_model[64];
static struct answer opened, refusal;

const char *tools_model_create(void) {
        strcpy(tools_model, "/tmp/confab-tools-XXXXXX");
        close(mkstemp(tools_model));
        return tools_model;
}

int tools_model_remove(void **state) {
        (void)state;
        return unlink(tools_model);
}

int tools_rig_setup(void **state) {
        (void)state;
        return tiny_model_write_long(tools_model_create(), "llama", 4096);
}

int tools_rig_setup_tiny(void **state) {
        (void)state;
        return tiny_model_write(tools_model_create(), MODEL_TINY);
}

void tools_open(struct erig *r, uint64_t pool_size) {
        struct engine_options o = erig_options(pool_size);

        o.model_path = tools_model;
        erig_open(r, &o);
}

uint64_t tools_new(struct erig *r, const char *system, const char *tools) {
        struct engine_request q = erig_request(ENGINE_OPEN, 0);

        q.system = system;
        q.tools = tools;
        answer_reset(&opened);
        if (erig_do(r, &q, &opened) != ENGINE_CONV)
                fail_msg("%s", opened.err.msg);
        return opened.conv.id;
}

const char *tools_just(const char *text) {
        static char grammar[4096];
        size_t n = (size_t)snprintf(grammar, sizeof(grammar), "root ::= \"");

        for (; *text; text++)
                n += (size_t)snprintf(grammar + n, sizeof(grammar) - n,
                        *text == '\n'                   ? "\\n"
                        : *text == '\t'                 ? "\\t"
                        : *text == '"' || *text == '\\' ? "\\%c"
                                                        : "%c",
                        *text);
        snprintf(grammar + n, sizeof(grammar) - n, "\"");
        return grammar;
}

struct engine_request tools_ask(uint64_t conv, const char *message, const char *reply) {
        struct engine_request q = erig_say_request(conv, message, 400);

        q.want_parts = true;
        if (reply) {
                q.constraint = ENGINE_CONSTRAINT_GBNF;
                q.constraint_text = tools_just(reply);
                q.constraint_size = strlen(q.constraint_text);
        }
        return q;
}

struct engine_request tools_answer(
        uint64_t conv, const struct engine_result *results, size_t n, const char *reply) {
        struct engine_request q = tools_ask(conv, "", reply);

        q.input = ENGINE_INPUT_RESULTS;
        q.text = NULL;
        q.text_size = 0;
        q.results = results;
        q.n_results = n;
        return q;
}

void tools_done(struct erig *r, struct engine_request q, struct answer *a) {
        answer_reset(a);
        if (erig_do(r, &q, a) != ENGINE_DONE)
                fail_msg("%s", a->err.msg);
}

void tools_refused(struct erig *r, struct engine_request q, enum err_code code, const char *why) {
        answer_reset(&refusal);
        if (erig_do(r, &q, &refusal) != ENGINE_ERROR)
                fail_msg("not refused: %s", why);
        if (refusal.err.code != code || !strstr(refusal.err.msg, why))
                fail_msg("%d: '%s', not '%s'", (int)refusal.err.code, refusal.err.msg, why);
}

void tools_get(struct erig *r, uint64_t conv, struct answer *a) {
        struct engine_request q = erig_request(ENGINE_GET, conv);

        q.want_turns = q.want_tokens = q.want_parts = true;
        answer_reset(a);
        if (erig_do(r, &q, a) != ENGINE_CONV)
                fail_msg("%s", a->err.msg);
}

const char *tools_turn_parts(const struct answer *a, uint32_t i) {
        static char text[16384];

        text[0] = 0;
        assert_true(i < a->n_turns);
        erig_put_parts(text, sizeof(text), a->turns[i].parts, a->turns[i].n_parts);
        return text;
}

const char *tools_call_id(const char *parts, const char *name) {
        static char id[64];
        char head[64];
        const char *p;

        snprintf(head, sizeof(head), "call %s ", name);
        p = strstr(parts, head);
        assert_non_null(p);
        assert_int_equal(sscanf(p + strlen(head), "%63[^:]", id), 1);
        return id;
}
