/* SPDX-License-Identifier: MIT */
/* Whether messages of a request are well formed: each field belongs to its role, and none is missing. */
#include "base/util.h"
#include "engine/main/main.h"

static int check_results(const struct engine_message *m, size_t number, struct err *e) {
        if (m->n_results == 0)
                return err_set(e, ERR_INVALID, "message %zu is of tools and has no result", number);
        for (size_t i = 0; i < m->n_results; i++) {
                const struct engine_result *result = &m->results[i];

                if (!result->call_id || !*result->call_id || !result->text)
                        return err_set(e, ERR_INVALID,
                                "message %zu: result %zu does not name the call that it answers",
                                number, i + 1);
        }
        return 0;
}

static int check_calls(const struct engine_message *m, size_t number, struct err *e) {
        if (m->n_calls > ENGINE_MAX_CALLS)
                return err_set(e, ERR_INVALID, "message %zu has more than %d calls", number,
                        ENGINE_MAX_CALLS);
        for (size_t i = 0; i < m->n_calls; i++) {
                const struct engine_call *call = &m->calls[i];

                if (!call->name || !*call->name || !call->arguments)
                        return err_set(e, ERR_INVALID,
                                "message %zu: call %zu has no name, or no arguments", number,
                                i + 1);
        }
        return 0;
}

/* What the role does not have. */
static int check_fields(const struct engine_message *m, size_t number, struct err *e) {
        static const char *const names[] = {
                [ENGINE_SYSTEM] = "the system", [ENGINE_USER] = "the user"};

        if (m->role == ENGINE_TOOL) {
                if (m->text_size == 0 && !m->reasoning && m->n_calls == 0)
                        return 0;
                return err_set(e, ERR_INVALID, "message %zu is of tools: it has results, and no %s",
                        number,
                        m->text_size > 0 ? "text"
                        : m->reasoning   ? "reasoning"
                                         : "calls");
        }
        if (m->n_results > 0)
                return err_set(e, ERR_INVALID,
                        "message %zu has results, which only messages of tools have", number);
        if (m->role == ENGINE_ASSISTANT || (!m->reasoning && m->n_calls == 0))
                return 0;
        return err_set(e, ERR_INVALID, "message %zu is of %s: it has no %s", number, names[m->role],
                m->reasoning ? "reasoning" : "calls");
}

int main_check_messages(const struct engine_message *messages, size_t n, struct err *e) {
        size_t n_results = 0; /* of neighbouring messages of tools */

        if (n > ENGINE_MAX_MESSAGES)
                return err_set(
                        e, ERR_INVALID, "%zu messages, more than %d", n, ENGINE_MAX_MESSAGES);
        if (n > 0 && !messages)
                return err_set(e, ERR_INVALID, "a size without its data");
        for (size_t i = 0; i < n; i++) {
                const struct engine_message *m = &messages[i];
                int r;

                if (m->role > ENGINE_TOOL || m->role == ENGINE_RAW)
                        return err_set(e, ERR_INVALID,
                                "message %zu: its role is system, user, assistant or tool", i + 1);
                if ((m->text_size > 0 && !m->text) || (m->n_calls > 0 && !m->calls) ||
                        (m->n_results > 0 && !m->results))
                        return err_set(
                                e, ERR_INVALID, "message %zu: a size without its data", i + 1);
                if (m->text_size > SIZE_MAX / 16)
                        return err_set(e, ERR_TOO_LARGE, "message %zu: impossible size", i + 1);
                r = check_fields(m, i + 1, e);
                if (r == 0)
                        r = check_calls(m, i + 1, e);
                if (r == 0 && m->role == ENGINE_TOOL)
                        r = check_results(m, i + 1, e);
                if (r < 0)
                        return r;
                n_results = m->role == ENGINE_TOOL ? n_results + m->n_results : 0;
                if (n_results > ENGINE_MAX_CALLS)
                        return err_set(e, ERR_INVALID,
                                "message %zu: more than %d results follow each other", i + 1,
                                ENGINE_MAX_CALLS);
        }
        return 0;
}
