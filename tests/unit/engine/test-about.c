/* SPDX-License-Identifier: MIT */
/* What is noted about conversations: given, changed, inherited, answered, exported. */
#include <stdlib.h>
#include <string.h>

#include "transfer-rig.h"
#include "util/test.h"

static struct answer A, B;

static const char *const tags[] = {"work", "later"};
static const struct about everything = {
        .has = ABOUT_TITLE | ABOUT_TAGS | ABOUT_METADATA | ABOUT_SESSION | ABOUT_EXPIRES,
        .title = "Owls",
        .tags = tags,
        .n_tags = 2,
        .metadata = "{\"colour\": \"grey\"}",
        .session = "window 7",
        .expires_after = 60};

static uint64_t open_about(struct erig *r, const char *name, const struct about *about) {
        struct engine_request q = erig_request(ENGINE_OPEN, 0);

        q.name = name;
        q.about = about;
        if (erig_do(r, &q, &A) != ENGINE_CONV)
                fail_msg("%s", A.err.msg);
        return A.conv.id;
}

static enum engine_event_kind update(struct erig *r, uint64_t c, const struct about *about) {
        struct engine_request q = erig_request(ENGINE_UPDATE, c);

        q.about = about;
        return erig_do(r, &q, &A);
}

/* The answer @a has these fields of `everything`, and no others. */
static void expect(const struct answer *a, uint32_t has) {
        const struct about *x = a->about;

        assert_int_equal(x ? x->has : 0, has);
        if (has & ABOUT_TITLE)
                assert_string_equal(x->title, everything.title);
        if (has & ABOUT_METADATA)
                assert_string_equal(x->metadata, everything.metadata);
        if (has & ABOUT_SESSION)
                assert_string_equal(x->session, everything.session);
        if (has & ABOUT_EXPIRES)
                assert_int_equal(x->expires_after, everything.expires_after);
        if (has & ABOUT_TAGS) {
                assert_int_equal(x->n_tags, 2);
                assert_string_equal(x->tags[0], "work");
                assert_string_equal(x->tags[1], "later");
        }
}

/* Each answer that is a conversation has it, whatever the verb. */
static void test_answers(void **state) {
        static const enum engine_verb verbs[] = {
                ENGINE_GET, ENGINE_WARM, ENGINE_EVICT, ENGINE_GET, ENGINE_UPDATE, ENGINE_CARRY};
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        c = open_about(&r, "a", &everything);
        expect(&A, everything.has);
        erig_say(&r, c, "Hello.", 4, &B);
        for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
                assert_int_equal(erig_simple(&r, verbs[i], c, &A), ENGINE_CONV);
                expect(&A, everything.has);
        }
        q = erig_request(ENGINE_PUBLISH, c);
        q.admin = q.publish = true;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
        expect(&A, everything.has);
        q = erig_request(ENGINE_REWIND, c);
        q.drop_turns = 1;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
        expect(&A, everything.has);
        erig_restart(&r, true);
        erig_get(&r, c, &A);
        expect(&A, everything.has);
        erig_get(&r, open_about(&r, "plain", NULL), &A);
        assert_null(A.about);
        erig_check_budget(&r);
        erig_close(&r);
}

/* What is given replaces field by field, and no token changes. */
static void test_update(void **state) {
        const struct about title = {.has = ABOUT_TITLE, .title = "Owls"};
        const struct about none = {
                .has = everything.has & ~(unsigned)ABOUT_TITLE, .metadata = "", .session = ""};
        const struct about twice = {
                .has = ABOUT_TAGS, .tags = (const char *const[]){"a", "a"}, .n_tags = 2};
        struct engine_options o = erig_options(64 << 20);
        struct erig r;
        uint64_t c, revision;

        erig_open(&r, &o);
        c = open_about(&r, "a", NULL);
        erig_say(&r, c, "Hello.", 4, &B);
        revision = B.revision;
        assert_int_equal(update(&r, c, &title), ENGINE_CONV);
        expect(&A, ABOUT_TITLE);
        assert_int_equal(update(&r, c, &everything), ENGINE_CONV);
        expect(&A, everything.has);
        assert_int_equal(update(&r, c, &twice), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_INVALID);
        assert_non_null(strstr(A.err.msg, "tag 'a'"));
        assert_int_equal(update(&r, c, &none), ENGINE_CONV);
        expect(&A, ABOUT_TITLE);
        assert_int_equal(A.conv.revision, revision);
        /* A name is given beside it, or refused with it. */
        {
                struct engine_request q = erig_request(ENGINE_UPDATE, c);

                q.name = "b";
                q.about = &twice;
                assert_int_equal(erig_do(&r, &q, &A), ENGINE_ERROR);
                erig_get(&r, c, &A);
                assert_string_equal(A.name, "a");
        }
        erig_check_register(&r);
        erig_close(&r);
}

static void test_fork(void **state) {
        const struct about session = {.has = ABOUT_SESSION, .session = "window 7"};
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        c = open_about(&r, "a", &everything);
        erig_say(&r, c, "Hello.", 4, &B);
        q = erig_request(ENGINE_FORK, c);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
        expect(&A, ABOUT_TITLE | ABOUT_TAGS | ABOUT_METADATA);
        q.about = &session;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
        expect(&A, ABOUT_TITLE | ABOUT_TAGS | ABOUT_METADATA | ABOUT_SESSION);
        erig_get(&r, A.conv.id, &A);
        expect(&A, ABOUT_TITLE | ABOUT_TAGS | ABOUT_METADATA | ABOUT_SESSION);
        erig_check_register(&r);
        erig_close(&r);
}

/* What is noted, and forks, do not keep each other from anything: the fork has what was noted before or after. */
static void test_beside(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q[4];
        static struct answer answers[4];
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        c = open_about(&r, "a", &everything);
        erig_say(&r, c, "Hello.", 4, &B);
        for (int i = 0; i < 20; i++) {
                for (int k = 0; k < 4; k++) {
                        q[k] = erig_request(k == i % 4 ? ENGINE_UPDATE : ENGINE_FORK, c);
                        q[k].about = k == i % 4 ? &everything : NULL;
                }
                erig_do_all(&r, q, answers, 4);
                for (int k = 0; k < 4; k++)
                        if (answers[k].kind != ENGINE_CONV)
                                fail_msg("%d: %s", k, answers[k].err.msg);
        }
        erig_check_register(&r);
        erig_close(&r);
}

/* An export has title, tags and metadata; session and expiry are of the place where they were given. */
static void test_transfer(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct transfer_file f, g;
        struct erig r;
        uint64_t c, d;

        erig_open(&r, &o);
        c = transfer_dialogue(&r, "origin");
        f = transfer_export(&r, c, false);
        assert_int_equal(f.data[4], XFER_VERSION_PLAIN);
        free(f.data);
        assert_int_equal(update(&r, c, &everything), ENGINE_CONV);
        f = transfer_export(&r, c, false);
        assert_int_equal(f.data[4], XFER_VERSION);
        assert_true(transfer_last.n_memory > 0);
        d = transfer_import_good(&r, &f, "copy");
        transfer_same_transcript(&r, c, d);
        erig_get(&r, d, &A);
        expect(&A, ABOUT_TITLE | ABOUT_TAGS | ABOUT_METADATA);
        /* Its memory came along, and is used. */
        erig_say(&r, c, "Where do they live?", 12, &A);
        erig_say(&r, d, "Where do they live?", 12, &B);
        assert_string_equal(A.text, B.text);
        assert_true(B.n_disk + B.n_shared > 0);
        g = transfer_export(&r, d, true);
        assert_int_equal(g.data[4], XFER_VERSION);
        d = transfer_import_good(&r, &g, NULL);
        erig_get(&r, d, &A);
        expect(&A, ABOUT_TITLE | ABOUT_TAGS | ABOUT_METADATA);
        free(f.data);
        free(g.data);
        erig_check_register(&r);
        erig_close(&r);
}

/* Each reply has its own; they are what its Done told. A fork has them, a rewind drops them. */
static void test_figures(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c, d;

        erig_open(&r, &o);
        c = erig_new(&r, "a", "Be kind.");
        erig_say(&r, c, "Hello.", 4, &B);
        q = erig_say_request(c, "And you?", 6);
        q.sampling.has |= SAMPLING_SEED;
        q.sampling.seed = 77;
        assert_int_equal(erig_do(&r, &q, &B), ENGINE_DONE);
        d = erig_fork(&r, c);
        for (int i = 0; i < 2; i++) {
                const struct figures *f;

                erig_get(&r, i ? d : c, &A);
                assert_int_equal(A.n_turns, 5);
                for (int k = 0; k < 5; k += k ? 2 : 1)
                        assert_null(A.turns[k].figures);
                assert_non_null(A.turns[2].figures);
                f = A.turns[4].figures;
                assert_non_null(f);
                assert_true(f->model[0]);
                assert_int_equal(f->seed, 77);
                assert_int_equal(f->n_generated, B.n_generated);
                assert_int_equal(f->n_prompt, B.n_prompt);
                assert_int_equal(f->n_ram, B.done_ram);
                assert_int_equal(f->n_computed, B.done_computed);
                assert_true(f->prefill_usec > 0 && f->decode_usec > 0);
                erig_restart(&r, true);
        }
        /* What comes in place of a reply has its own. */
        q = erig_say_request(c, "And who?", 3);
        q.cuts = true;
        q.at_turn = 3;
        assert_int_equal(erig_do(&r, &q, &B), ENGINE_DONE);
        erig_get(&r, c, &A);
        assert_int_equal(A.turns[4].figures->seed, B.seed);
        assert_int_equal(A.turns[4].figures->n_generated, B.n_generated);
        erig_check_register(&r);
        erig_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_answers),
                cmocka_unit_test(test_update),
                cmocka_unit_test(test_fork),
                cmocka_unit_test(test_beside),
                cmocka_unit_test(test_transfer),
                cmocka_unit_test(test_figures),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
