/* SPDX-License-Identifier: MIT */
/* Transcripts, and lines of map's input with templates: whatever they are, what comes out is whole, or nothing is. */
#include "base/json-tree.h"
#include "base/utf8.h"
#include "client/cli-template.h"
#include "client/transcript.h"
#include "fuzz/check.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *s) {
        check(s && utf8_valid((const uint8_t *)s, strlen(s)));
}

static void check_message(const struct confab_message *m) {
        check(m->role >= CONFAB_ROLE_SYSTEM && m->role <= CONFAB_ROLE_TOOL &&
                m->role != CONFAB_ROLE_RAW);
        check_text(m->text);
        check(strlen(m->text) == m->text_size);
        check((m->role == CONFAB_ROLE_TOOL) == (m->n_results > 0));
        check(m->role == CONFAB_ROLE_ASSISTANT || (m->n_calls == 0 && !m->reasoning));
        check(m->role != CONFAB_ROLE_ASSISTANT || m->text_size || m->n_calls || m->reasoning);
        for (size_t i = 0; i < m->n_calls; i++)
                check_text(m->calls[i].name);
        for (size_t i = 0; i < m->n_results; i++) {
                check_text(m->results[i].call_id);
                check_text(m->results[i].text);
        }
}

static void read_transcript(const char *text, size_t size) {
        struct transcript t;

        if (transcript_parse(&t, text, size, NULL) < 0) {
                check(!t.messages && !t.owned && !t.tools && t.n_messages == 0);
                return;
        }
        check(t.n_messages > 0);
        for (size_t i = 0; i < t.n_messages; i++)
                check_message(&t.messages[i]);
        transcript_deinit(&t);
}

/* The first line of the input is a line, the second one the template. */
static void make_question(const char *text, size_t size, bool json) {
        const char *end = memchr(text, '\n', size);
        struct json_value *root = NULL;
        struct question q;

        if (question_make(&q, end ? end + 1 : NULL, json, text, end ? (size_t)(end - text) : size,
                    1000, NULL) < 0)
                check(!q.text);
        check(q.size <= 1000 && (!q.text || q.size > 0));
        if (q.id) {
                check(json_tree_parse(&root, q.id, strlen(q.id), NULL) == 0);
                json_tree_free(root);
        }
        question_deinit(&q);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        char *text;

        if (size > 100000)
                return 0;
        text = malloc(size + 1);
        check(text);
        if (size > 0)
                memcpy(text, data, size);
        text[size] = 0;
        read_transcript(text, size);
        make_question(text, size, false);
        make_question(text, size, true);
        free(text);
        return 0;
}
