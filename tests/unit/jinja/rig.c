/* SPDX-License-Identifier: MIT */
#include "unit/jinja/rig.h"
#include "base/buf.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct jinja_data *make_data(struct rig *r, const char *v) {
        static const char n[] = "{\"i\": 5, \"f\": 1.5, \"b\": true, \"z\": null}";
        struct jinja_data *d = NULL;

        assert_int_equal(jinja_data_new(&d, (size_t)64 << 20, NULL, &r->e), 0);
        if (v) {
                jinja_data_key(d, "v", false);
                if (jinja_data_json(d, v, strlen(v), &r->e) < 0)
                        fail_msg("%s: %s", v, r->e.msg);
        }
        jinja_data_key(d, "n", false);
        assert_int_equal(jinja_data_json(d, n, strlen(n), &r->e), 0);
        jinja_data_key(d, "bos", true);
        jinja_data_string(d, "<s>", 3, true);
        assert_int_equal(jinja_data_finish(d, &r->e), 0);
        return d;
}

static char *marked_text(const struct jinja_out *out) {
        struct buf b = BUF_NULL;
        size_t at = 0;

        for (size_t i = 0; i < out->n_spans; i++) {
                const struct jinja_span *s = &out->spans[i];

                assert_int_equal(s->offset, at);
                assert_true(s->size > 0);
                assert_true(i == 0 || s->trusted != s[-1].trusted);
                at += s->size;
                if (!s->trusted)
                        buf_append_str(&b, "«");
                buf_append(&b, out->text + s->offset, s->size);
                if (!s->trusted)
                        buf_append_str(&b, "»");
        }
        assert_int_equal(at, out->size);
        return buf_take(&b, NULL);
}

char *rig_render(struct rig *r, const char *text, const char *v, bool marked) {
        _cleanup_(jinja_data_freep) struct jinja_data *d = make_data(r, v);
        _cleanup_(jinja_freep) struct jinja *t = NULL;
        struct jinja_input input = {
                .data = d, .limits = r->limits, .now = r->now, .charge = r->charge};
        struct jinja_out out = JINJA_OUT_NULL;
        char *s;

        if (jinja_parse(&t, text, strlen(text), r->flags, &r->e) < 0)
                return NULL;
        if (jinja_render(t, &input, &out, &r->e) < 0) {
                assert_null(out.text);
                return NULL;
        }
        assert_int_equal(strlen(out.text), out.size);
        s = marked ? marked_text(&out) : strdup(out.text);
        jinja_out_deinit(&out);
        return s;
}

static void expect(const char *text, const char *v, const char *want, bool marked) {
        struct rig r = {0};
        char *got = rig_render(&r, text, v, marked);

        if (!got)
                fail_msg("%s: %s", text, r.e.msg);
        if (strcmp(got, want) != 0)
                fail_msg("%s\n  got  %s\n  want %s", text, got, want);
        free(got);
}

void rig_expect(const char *text, const char *v, const char *want) {
        expect(text, v, want, false);
}

void rig_expect_marked(const char *text, const char *v, const char *want) {
        expect(text, v, want, true);
}

void rig_expect_error(const char *text, const char *v, int code, const char *want) {
        struct rig r = {0};
        char *got = rig_render(&r, text, v, false);

        if (got)
                fail_msg("%s: rendered as %s", text, got);
        if ((int)r.e.code != code || !strstr(r.e.msg, want))
                fail_msg(
                        "%s\n  got  %d %s\n  want %d %s", text, (int)r.e.code, r.e.msg, code, want);
}
