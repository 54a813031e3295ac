/* SPDX-License-Identifier: MIT */
/*
 * Renders what it reads, for tests in other languages. The input is a sequence of records, each of
 * strings that end with NUL: flags, template, number of variables, and for each variable its name
 * and its value in JSON (after a name that begins with "!": trusted text). Flags: k (white space is
 * kept), n (strftime_now() tells 2026-07-04 15:09:26, a Saturday). For each record one line of JSON
 * is written: "text" and "spans" ([size, trusted] each), or "error" and "code".
 */
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "jinja/jinja.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct input {
        const char *at, *end;
};

static const char *next_field(struct input *in) {
        const char *s = in->at,
                   *end = in->at < in->end ? memchr(s, 0, (size_t)(in->end - s)) : NULL;

        if (!end)
                return NULL;
        in->at = end + 1;
        return s;
}

static int read_variables(struct input *in, struct jinja_data *data, struct err *e) {
        const char *count = next_field(in);
        int result = 0;

        for (long n = count ? strtol(count, NULL, 10) : 0; n > 0; n--) {
                const char *name = next_field(in), *value = next_field(in);

                if (!name || !value)
                        exit(2);
                if (result < 0)
                        continue;
                if (name[0] == '!') {
                        jinja_data_key(data, name + 1, true);
                        jinja_data_string(data, value, strlen(value), true);
                } else {
                        jinja_data_key(data, name, false);
                        result = jinja_data_json(data, value, strlen(value), e);
                }
        }
        return result < 0 ? result : jinja_data_finish(data, e);
}

static void write_result(int r, const struct jinja_out *out, const struct err *e) {
        struct buf line = BUF_NULL;
        struct json j;

        json_init(&j, &line);
        json_object_begin(&j);
        if (r < 0) {
                json_put_key(&j, "error");
                json_put_string(&j, e->msg);
                json_put_key(&j, "code");
                json_put_string(&j, err_code_name(e->code));
        } else {
                json_put_key(&j, "text");
                json_put_string_n(&j, out->text, out->size);
                json_put_key(&j, "spans");
                json_array_begin(&j);
                for (size_t i = 0; i < out->n_spans; i++) {
                        json_array_begin(&j);
                        json_put_u64(&j, out->spans[i].size);
                        json_put_bool(&j, out->spans[i].trusted);
                        json_array_end(&j);
                }
                json_array_end(&j);
        }
        json_object_end(&j);
        if (json_finish(&j) < 0)
                exit(2);
        puts((char *)line.data);
        buf_deinit(&line);
}

static int render(const char *flags, const char *text, struct input *in, struct jinja_out *out,
        struct err *e) {
        static const struct tm now = {.tm_year = 126,
                .tm_mon = 6,
                .tm_mday = 4,
                .tm_hour = 15,
                .tm_min = 9,
                .tm_sec = 26,
                .tm_wday = 6,
                .tm_yday = 184};
        _cleanup_(jinja_data_freep) struct jinja_data *data = NULL;
        _cleanup_(jinja_freep) struct jinja *t = NULL;
        struct jinja_input input = {.now = strchr(flags, 'n') ? &now : NULL};
        int r = jinja_data_new(&data, (size_t)64 << 20, NULL, e), parsed;

        if (r < 0)
                return r;
        r = read_variables(in, data, e);
        if (r < 0)
                return r;
        parsed = jinja_parse(&t, text, strlen(text), strchr(flags, 'k') ? JINJA_KEEP_SPACE : 0, e);
        input.data = data;
        return parsed < 0 ? parsed : jinja_render(t, &input, out, e);
}

int main(void) {
        struct buf all = BUF_NULL;
        struct input in;
        const char *flags, *text;
        char chunk[65536];
        size_t n;

        while ((n = fread(chunk, 1, sizeof(chunk), stdin)) > 0)
                if (buf_append(&all, chunk, n) < 0)
                        return 2;
        in = (struct input){.at = (char *)all.data, .end = (char *)all.data + all.size};
        while ((flags = next_field(&in)) && (text = next_field(&in))) {
                struct jinja_out out = JINJA_OUT_NULL;
                struct err e = {0};

                write_result(render(flags, text, &in, &out, &e), &out, &e);
                jinja_out_deinit(&out);
        }
        buf_deinit(&all);
        return 0;
}
