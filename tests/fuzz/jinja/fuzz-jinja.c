/* SPDX-License-Identifier: MIT */
/*
 * A template, NUL, and the value of its variable v in JSON. Whatever they are, rendering ends within
 * small limits, gives spans that are just the text, and gives the same again. Then the template's own
 * letters Q are taken out, and with them what could make one: those in the result come from data, and
 * none of them is trusted.
 */
#include "base/err.h"
#include "fuzz/check.h"
#include "jinja/jinja.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct jinja_data *make_data(const char *json, size_t n) {
        struct jinja_data *d = NULL;

        check(jinja_data_new(&d, 1 << 20, NULL, NULL) == 0);
        jinja_data_key(d, "bos_token", true);
        jinja_data_string(d, "<s>", 3, true);
        jinja_data_key(d, "v", false);
        if (jinja_data_json(d, json, n, NULL) < 0)
                jinja_data_string(d, json, n, false);
        if (jinja_data_finish(d, NULL) < 0)
                return jinja_data_free(d);
        return d;
}

static int render(
        const struct jinja *t, const struct jinja_data *d, struct jinja_out *out, struct err *e) {
        static const struct jinja_limits limits = {
                .n_steps = 20000, .memory_size = 4 << 20, .output_size = 100000};
        static const struct tm now = {.tm_year = 126, .tm_mday = 1};
        struct jinja_input input = {.data = d, .limits = &limits, .now = &now};
        int r = jinja_render(t, &input, out, e);

        if (r < 0) {
                check(!out->text && (r == -ERR_INVALID || r == -ERR_TOO_LARGE));
                check((int)e->code == -r && strncmp(e->msg, "line ", 5) == 0);
        }
        return r;
}

static void check_spans(const struct jinja_out *out) {
        size_t at = 0;

        check(out->text[out->size] == 0);
        for (size_t i = 0; i < out->n_spans; i++) {
                check(out->spans[i].offset == at && out->spans[i].size > 0);
                check(i == 0 || out->spans[i].trusted != out->spans[i - 1].trusted);
                at += out->spans[i].size;
        }
        check(at == out->size);
}

/* No Q of the data has been taken for the template's. */
static void check_origin(const struct jinja_out *out) {
        for (size_t i = 0; i < out->n_spans; i++)
                if (out->spans[i].trusted)
                        check(!memchr(out->text + out->spans[i].offset, 'Q', out->spans[i].size));
}

/* Upper case and escapes would make a Q. */
static void no_letter(char *text, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (text[i] == 'Q' || text[i] == 'q' || text[i] == '\\')
                        text[i] = 'p';
}

static void check_render(const struct jinja *t, const struct jinja_data *d, bool plain) {
        struct jinja_out out = JINJA_OUT_NULL, second = JINJA_OUT_NULL;
        struct err e = {0};
        int r = render(t, d, &out, &e);

        if (r == 0) {
                check_spans(&out);
                if (plain)
                        check_origin(&out);
        }
        check(render(t, d, &second, &e) == r);
        if (r == 0) {
                check(out.size == second.size && out.n_spans == second.n_spans);
                check(memcmp(out.text, second.text, out.size) == 0);
        }
        jinja_out_deinit(&out);
        jinja_out_deinit(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
        const char *text = (const char *)bytes, *nul = memchr(bytes, 0, size);
        size_t n = nul ? (size_t)(nul - text) : size;
        struct jinja_data *d = make_data(nul ? nul + 1 : "", nul ? size - n - 1 : 0);
        struct jinja *t = NULL;
        struct err e = {0};
        char *copy = malloc(n + 1);

        check(copy);
        for (unsigned plain = 0; d && plain < 2; plain++) {
                memcpy(copy, text, n);
                copy[n] = 0;
                if (plain)
                        no_letter(copy, n);
                if (jinja_parse(&t, copy, n, size & 1 ? JINJA_KEEP_SPACE : 0, &e) < 0)
                        check(e.code != ERR_NONE && e.msg[0] != 0);
                else
                        check_render(t, d, plain);
                t = jinja_free(t);
        }
        free(copy);
        jinja_data_free(d);
        return 0;
}
