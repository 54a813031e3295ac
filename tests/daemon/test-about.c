/* SPDX-License-Identifier: MIT */
/* What is noted about conversations, through libconfab and the real daemon, over a restart. */
#include "client/confab.h"
#include "fixture.h"

/* The conversation of the last answer, in copies. */
struct seen {
        uint64_t id;
        bool has_about;
        char title[600], metadata[200], session[300], tags[8][80];
        size_t n_tags;
        bool has_expires_after;
        uint32_t expires_after;
        uint64_t revision;
};

static void take(void *userdata, const struct confab_event *event) {
        struct seen *seen = userdata;
        const struct confab_about *about;

        if (event->kind != CONFAB_EVENT_CONVERSATION)
                return;
        about = event->conversation->about;
        *seen = (struct seen){.id = event->conversation->id,
                .revision = event->conversation->revision,
                .has_about = about != NULL};
        if (!about)
                return;
        snprintf(seen->title, sizeof(seen->title), "%s", about->title ? about->title : "-");
        snprintf(seen->metadata, sizeof(seen->metadata), "%s",
                about->metadata ? about->metadata : "-");
        snprintf(seen->session, sizeof(seen->session), "%s", about->session ? about->session : "-");
        seen->n_tags = about->n_tags;
        for (size_t i = 0; i < about->n_tags && i < 8; i++)
                snprintf(seen->tags[i], sizeof(seen->tags[i]), "%s", about->tags[i]);
        seen->has_expires_after = about->has_expires_after;
        seen->expires_after = about->expires_after;
}

static struct confab *connect_to(struct harness *h) {
        struct confab *c = NULL;

        assert_int_equal(confab_connect(&c, h->socket, NULL), 0);
        return c;
}

static int call(struct confab *c, const struct confab_request *r, struct seen *seen,
        struct confab_error *e) {
        int n = confab_call(c, r, take, seen, e);

        if (n < 0 && !e)
                fail_msg("the call failed");
        return n;
}

static const char *const two_tags[] = {"work", "\xc3\xa9t\xc3\xa9"};

static void test_noted(void **state) {
        struct harness *h = *state;
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct confab_about about = {.title = "Of owls",
                .metadata = "{\"a\": 1}",
                .session = "window 7",
                .tags = two_tags,
                .n_tags = 2,
                .has_tags = true,
                .has_expires_after = true,
                .expires_after = 90};
        struct confab_error e;
        struct confab *c;
        struct seen seen;
        uint64_t id;

        harness_start(h, NULL);
        c = connect_to(h);
        r.verb = CONFAB_OPEN;
        r.name = "a";
        r.about = &about;
        assert_int_equal(call(c, &r, &seen, NULL), 0);
        id = seen.id;
        assert_string_equal(seen.title, "Of owls");
        assert_int_equal(seen.n_tags, 2);
        assert_string_equal(seen.tags[1], two_tags[1]);
        /* Fields that are unset change nothing; an empty one is removed. */
        about = (struct confab_about){.title = "New", .metadata = "", .has_tags = true};
        r = (struct confab_request)CONFAB_REQUEST_INIT;
        r.verb = CONFAB_UPDATE;
        r.conversation_id = id;
        r.about = &about;
        assert_int_equal(call(c, &r, &seen, NULL), 0);
        confab_free(c);
        harness_kill(h);
        harness_start(h, NULL);
        c = connect_to(h);
        r = (struct confab_request)CONFAB_REQUEST_INIT;
        r.verb = CONFAB_GET;
        r.conversation_id = id;
        assert_int_equal(call(c, &r, &seen, NULL), 0);
        assert_string_equal(seen.title, "New");
        assert_string_equal(seen.metadata, "-");
        assert_string_equal(seen.session, "window 7");
        assert_int_equal(seen.n_tags, 0);
        assert_true(seen.has_expires_after);
        assert_int_equal(seen.expires_after, 90);
        assert_int_equal(seen.revision, 1);
        /* Never inherited: session and expiry. */
        r.verb = CONFAB_FORK;
        assert_int_equal(call(c, &r, &seen, NULL), 0);
        assert_string_equal(seen.title, "New");
        assert_string_equal(seen.session, "-");
        assert_false(seen.has_expires_after);
        about = (struct confab_about){.title = "Branch", .session = "window 8"};
        r.about = &about;
        assert_int_equal(call(c, &r, &seen, NULL), 0);
        assert_string_equal(seen.title, "Branch");
        assert_string_equal(seen.session, "window 8");
        /* A plain one has none; what is refused names the field. */
        r = (struct confab_request)CONFAB_REQUEST_INIT;
        r.verb = CONFAB_OPEN;
        assert_int_equal(call(c, &r, &seen, NULL), 0);
        assert_false(seen.has_about);
        about = (struct confab_about){.metadata = "[1]"};
        r.about = &about;
        assert_int_equal(call(c, &r, &seen, &e), -1);
        assert_string_equal(e.code, CONFAB_INVALID);
        assert_non_null(strstr(e.message, "metadata"));
        about = (struct confab_about){.title = "\xff"};
        assert_int_equal(call(c, &r, &seen, &e), -1);
        assert_non_null(strstr(e.message, "title"));
        confab_free(c);
        harness_stop(h);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test(test_noted),
        };

        return DAEMON_TESTS_MAIN(tests);
}
