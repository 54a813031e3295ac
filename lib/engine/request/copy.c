/* SPDX-License-Identifier: MIT */
#include "engine/request/copy.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"

static int no_memory(struct err *e) {
        return err_set(e, ERR_NOMEM, "no memory for a request");
}

int copy_str(const char **p, struct err *e) {
        if (!*p)
                return 0;
        *p = strdup(*p);
        return *p ? 0 : no_memory(e);
}

int copy_bytes(const void **p, size_t n, struct err *e) {
        char *q = malloc(n + 1);

        if (!q) {
                *p = NULL;
                return no_memory(e);
        }
        if (n > 0)
                memcpy(q, *p, n);
        q[n] = '\0';
        *p = q;
        return 0;
}

/* A copy of the array, whose strings are still borrowed; NULL: no memory. */
static void *copy_array(const void *from, size_t n, size_t size) {
        void *to = calloc(n, size);

        if (to)
                memcpy(to, from, n * size);
        return to;
}

/* Copy each of the @n strings, whatever becomes of the others. */
static int copy_strs(const char **strings[], size_t n, struct err *e) {
        int r = 0;

        for (size_t i = 0; i < n; i++)
                if (copy_str(strings[i], e) < 0)
                        r = -ERR_NOMEM;
        return r;
}

int copy_results(const struct engine_result **p, size_t n, struct err *e) {
        struct engine_result *to = n > 0 ? copy_array(*p, n, sizeof(*to)) : NULL;
        int r = 0;

        *p = to;
        if (n > 0 && !to)
                return no_memory(e);
        for (size_t i = 0; i < n; i++)
                if (copy_strs((const char **[]){&to[i].call_id, &to[i].name, &to[i].text}, 3, e) <
                        0)
                        r = -ERR_NOMEM;
        return r;
}

int copy_calls(const struct engine_call **p, size_t n, struct err *e) {
        struct engine_call *to = n > 0 ? copy_array(*p, n, sizeof(*to)) : NULL;
        int r = 0;

        *p = to;
        if (n > 0 && !to)
                return no_memory(e);
        for (size_t i = 0; i < n; i++)
                if (copy_strs((const char **[]){&to[i].id, &to[i].name, &to[i].arguments}, 3, e) <
                        0)
                        r = -ERR_NOMEM;
        return r;
}

int copy_messages(const struct engine_message **p, size_t n, struct err *e) {
        struct engine_message *to = n > 0 ? copy_array(*p, n, sizeof(*to)) : NULL;
        int r = 0;

        *p = to;
        if (n > 0 && !to)
                return no_memory(e);
        for (size_t i = 0; i < n; i++) {
                struct engine_message *m = &to[i];

                if (copy_bytes(&m->text, m->text_size, e) < 0)
                        r = -ERR_NOMEM;
                if (copy_str(&m->reasoning, e) < 0)
                        r = -ERR_NOMEM;
                if (copy_calls(&m->calls, m->n_calls, e) < 0)
                        r = -ERR_NOMEM;
                if (copy_results(&m->results, m->n_results, e) < 0)
                        r = -ERR_NOMEM;
        }
        return r;
}

size_t copy_results_size(const struct engine_result *results, size_t n) {
        size_t size = COPY_OVERHEAD + n * sizeof(*results);

        for (size_t i = 0; i < n; i++)
                size += copy_str_size(results[i].call_id) + copy_str_size(results[i].name) +
                        copy_str_size(results[i].text);
        return size;
}

size_t copy_calls_size(const struct engine_call *calls, size_t n) {
        size_t size = COPY_OVERHEAD + n * sizeof(*calls);

        for (size_t i = 0; i < n; i++)
                size += copy_str_size(calls[i].id) + copy_str_size(calls[i].name) +
                        copy_str_size(calls[i].arguments);
        return size;
}

size_t copy_messages_size(const struct engine_message *messages, size_t n) {
        size_t size = n > 0 ? COPY_OVERHEAD + n * sizeof(*messages) : 0;

        for (size_t i = 0; i < n; i++) {
                const struct engine_message *m = &messages[i];

                size += m->text_size + COPY_OVERHEAD + copy_str_size(m->reasoning) +
                        copy_calls_size(m->calls, m->n_calls) +
                        copy_results_size(m->results, m->n_results);
        }
        return size;
}

/* The pointers are const for the submitter; these are our own copies. */
void copy_free(const void *p) {
        free((void *)(uintptr_t)p);
}

void copy_free_results(const struct engine_result *results, size_t n) {
        for (size_t i = 0; results && i < n; i++) {
                copy_free(results[i].call_id);
                copy_free(results[i].name);
                copy_free(results[i].text);
        }
        copy_free(results);
}

void copy_free_calls(const struct engine_call *calls, size_t n) {
        for (size_t i = 0; calls && i < n; i++) {
                copy_free(calls[i].id);
                copy_free(calls[i].name);
                copy_free(calls[i].arguments);
        }
        copy_free(calls);
}

void copy_free_messages(const struct engine_message *messages, size_t n) {
        for (size_t i = 0; messages && i < n; i++) {
                copy_free(messages[i].text);
                copy_free(messages[i].reasoning);
                copy_free_calls(messages[i].calls, messages[i].n_calls);
                copy_free_results(messages[i].results, messages[i].n_results);
        }
        copy_free(messages);
}
