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

/* What the answers told, of up to 16 conversations or turns. */
struct page {
        size_t n;
        uint64_t ids[16];
        bool more;
        char cursor[64];
        uint32_t first_turn, n_turns;
        struct confab_run run; /* of the last turn */
        bool has_run;
};

static void take_page(void *userdata, const struct confab_event *event) {
        struct page *page = userdata;

        *page = (struct page){};
        if (event->kind == CONFAB_EVENT_CONVERSATIONS) {
                const struct confab_conversations *x = event->conversations;

                page->n = x->n_items;
                for (size_t i = 0; i < x->n_items && i < 16; i++)
                        page->ids[i] = x->items[i].id;
                page->more = x->more;
                snprintf(page->cursor, sizeof(page->cursor), "%s", x->cursor ? x->cursor : "");
        } else if (event->kind == CONFAB_EVENT_CONVERSATION) {
                const struct confab_conversation *c = event->conversation;

                page->first_turn = c->first_turn;
                page->n_turns = (uint32_t)c->n_turn_list;
                if (c->n_turn_list > 0 && c->turns[c->n_turn_list - 1].run) {
                        page->run = *c->turns[c->n_turn_list - 1].run;
                        page->has_run = page->run.model[0];
                        page->run.model = NULL;
                }
        }
}

static void test_lists(void **state) {
        struct harness *h = *state;
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct confab_about about = {.tags = two_tags, .n_tags = 1, .has_tags = true};
        struct confab_error e;
        struct confab *c;
        struct seen seen;
        struct page page;
        uint64_t ids[5];

        harness_start(h, NULL);
        c = connect_to(h);
        for (int i = 0; i < 5; i++) {
                r = (struct confab_request)CONFAB_REQUEST_INIT;
                r.verb = CONFAB_OPEN;
                r.about = i % 2 ? NULL : &about;
                assert_int_equal(call(c, &r, &seen, NULL), 0);
                ids[i] = seen.id;
        }
        r = (struct confab_request)CONFAB_REQUEST_INIT;
        r.verb = CONFAB_UPDATE;
        r.conversation_id = ids[1];
        r.name = "changed";
        assert_int_equal(call(c, &r, &seen, NULL), 0);
        /* Latest change first, in pages of two. */
        r = (struct confab_request)CONFAB_REQUEST_INIT;
        r.verb = CONFAB_LIST;
        r.order = CONFAB_ORDER_UPDATED;
        r.limit = 2;
        assert_int_equal(confab_call(c, &r, take_page, &page, NULL), 0);
        assert_int_equal(page.n, 2);
        assert_true(page.more);
        assert_int_equal(page.ids[0], ids[1]);
        assert_int_equal(page.ids[1], ids[4]);
        {
                char cursor[64];

                strcpy(cursor, page.cursor);
                r.cursor = cursor;
                assert_int_equal(confab_call(c, &r, take_page, &page, NULL), 0);
                assert_int_equal(page.ids[0], ids[3]);
                assert_int_equal(page.ids[1], ids[2]);
                r.order = CONFAB_ORDER_ID;
                assert_int_equal(confab_call(c, &r, NULL, NULL, &e), -1);
                assert_string_equal(e.code, CONFAB_INVALID);
                r.order = CONFAB_ORDER_UPDATED;
                r.after_id = 1;
                assert_int_equal(confab_call(c, &r, NULL, NULL, &e), -1);
                r.cursor = "u12";
                r.after_id = 0;
                assert_int_equal(confab_call(c, &r, NULL, NULL, &e), -1);
                assert_non_null(strstr(e.message, "cursor"));
        }
        /* Those with a tag, by id, by its cursor too. */
        r = (struct confab_request)CONFAB_REQUEST_INIT;
        r.verb = CONFAB_LIST;
        r.tag = "work";
        r.limit = 2;
        assert_int_equal(confab_call(c, &r, take_page, &page, NULL), 0);
        assert_int_equal(page.ids[0], ids[0]);
        assert_int_equal(page.ids[1], ids[2]);
        assert_true(page.more);
        {
                char cursor[64];

                strcpy(cursor, page.cursor);
                r.cursor = cursor;
                assert_int_equal(confab_call(c, &r, take_page, &page, NULL), 0);
                assert_int_equal(page.n, 1);
                assert_int_equal(page.ids[0], ids[4]);
                assert_false(page.more);
                assert_string_equal(page.cursor, "");
        }
        confab_free(c);
        harness_stop(h);
}

/* What was found, of the first conversation. */
struct found {
        size_t n;
        uint64_t id;
        bool has_turn;
        uint32_t turn;
        char snippet[300];
};

static void take_found(void *userdata, const struct confab_event *event) {
        struct found *found = userdata;

        *found = (struct found){};
        if (event->kind != CONFAB_EVENT_CONVERSATIONS)
                return;
        found->n = event->conversations->n_items;
        if (found->n > 0) {
                const struct confab_conversation *c = event->conversations->items;

                found->id = c->id;
                found->has_turn = c->has_hit_turn;
                found->turn = c->hit_turn;
                snprintf(found->snippet, sizeof(found->snippet), "%s", c->snippet);
        }
}

static void test_search(void **state) {
        struct harness *h = *state;
        struct confab_request r = CONFAB_REQUEST_INIT;
        const struct confab_about about = {.title = "Of owls"};
        struct confab_error e;
        struct found found;
        struct confab *c;
        struct seen seen;
        uint64_t id;

        harness_start(h, NULL);
        c = connect_to(h);
        r.verb = CONFAB_OPEN;
        r.about = &about;
        assert_int_equal(call(c, &r, &seen, NULL), 0);
        id = seen.id;
        r = (struct confab_request)CONFAB_REQUEST_INIT;
        r.verb = CONFAB_CONTINUE;
        r.conversation_id = id;
        r.input = CONFAB_INPUT_MESSAGE;
        r.text = "Tell me of \xc3\x89lsinore, please";
        r.text_size = strlen(r.text);
        r.has_max_tokens = true;
        assert_int_equal(confab_call(c, &r, NULL, NULL, NULL), 0);
        r = (struct confab_request)CONFAB_REQUEST_INIT;
        r.verb = CONFAB_LIST;
        for (int i = 0; i < 2; i++) {
                r.search = "elsin TELL";
                assert_int_equal(confab_call(c, &r, take_found, &found, NULL), 0);
                assert_int_equal(found.n, 1);
                assert_int_equal(found.id, id);
                assert_true(found.has_turn);
                assert_int_equal(found.turn, 0);
                assert_string_equal(found.snippet, "Tell me of \xc3\x89lsinore, please");
                r.search = "owl";
                assert_int_equal(confab_call(c, &r, take_found, &found, NULL), 0);
                assert_int_equal(found.n, 1);
                assert_false(found.has_turn);
                r.search = "NEAR(";
                assert_int_equal(confab_call(c, &r, take_found, &found, NULL), 0);
                assert_int_equal(found.n, 0);
                confab_free(c);
                harness_kill(h);
                harness_start(h, NULL);
                c = connect_to(h);
        }
        r.search = "owl";
        r.order = CONFAB_ORDER_ID;
        assert_int_equal(confab_call(c, &r, NULL, NULL, &e), -1);
        assert_string_equal(e.code, CONFAB_INVALID);
        r.order = CONFAB_ORDER_NONE;
        r.all_users = true;
        assert_int_equal(confab_call(c, &r, NULL, NULL, &e), -1);
        confab_free(c);
        harness_stop(h);
}

static void test_turns(void **state) {
        struct harness *h = *state;
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct confab *c;
        struct seen seen;
        struct page page;
        uint64_t id;

        harness_start(h, NULL);
        c = connect_to(h);
        r.verb = CONFAB_OPEN;
        assert_int_equal(call(c, &r, &seen, NULL), 0);
        id = seen.id;
        r = (struct confab_request)CONFAB_REQUEST_INIT;
        r.verb = CONFAB_CONTINUE;
        r.conversation_id = id;
        r.input = CONFAB_INPUT_MESSAGE;
        r.text = "Hello";
        r.text_size = 5;
        r.has_max_tokens = true;
        r.max_tokens = 3;
        r.ignore_eos = true;
        for (int i = 0; i < 3; i++)
                assert_int_equal(confab_call(c, &r, NULL, NULL, NULL), 0);
        r = (struct confab_request)CONFAB_REQUEST_INIT;
        r.verb = CONFAB_GET;
        r.conversation_id = id;
        r.want_turns = true;
        r.max_turns = 2;
        assert_int_equal(confab_call(c, &r, take_page, &page, NULL), 0);
        assert_int_equal(page.first_turn, 4);
        assert_int_equal(page.n_turns, 2);
        assert_true(page.has_run);
        assert_int_equal(page.run.n_generated, 3);
        assert_true(page.run.n_prompt > 0 && page.run.decode_usec > 0);
        r.has_before_turn = true;
        r.before_turn = 3;
        assert_int_equal(confab_call(c, &r, take_page, &page, NULL), 0);
        assert_int_equal(page.first_turn, 1);
        assert_int_equal(page.n_turns, 2);
        assert_false(page.has_run);
        r.has_before_turn = false;
        r.has_from_turn = true;
        r.from_turn = 5;
        assert_int_equal(confab_call(c, &r, take_page, &page, NULL), 0);
        assert_int_equal(page.first_turn, 5);
        assert_int_equal(page.n_turns, 1);
        confab_free(c);
        harness_stop(h);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test(test_noted),
                daemon_test(test_lists),
                daemon_test(test_search),
                daemon_test(test_turns),
        };

        return DAEMON_TESTS_MAIN(tests);
}
