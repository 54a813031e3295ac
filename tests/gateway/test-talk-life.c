/* SPDX-License-Identifier: MIT */
/* Whose conversations talks make, what is noted about them, and how long they stay. */
#include "talk-rig.h"

#define GATEWAY_UID 54320 /* whom nobody trusts */

struct noted {
        char title[200], session[200], tag[80], metadata[80];
        bool expires;
        uint32_t expires_after;
        int overflow;
};

static void take(void *userdata, const struct confab_event *event) {
        const struct confab_about *about = event->conversation->about;
        struct noted *noted = userdata;

        if (event->kind != CONFAB_EVENT_CONVERSATION)
                return;
        noted->overflow = (int)event->conversation->overflow;
        if (!about)
                return;
        snprintf(noted->title, sizeof(noted->title), "%s", about->title ? about->title : "");
        snprintf(
                noted->session, sizeof(noted->session), "%s", about->session ? about->session : "");
        snprintf(noted->metadata, sizeof(noted->metadata), "%s",
                about->metadata ? about->metadata : "");
        if (about->n_tags > 0)
                snprintf(noted->tag, sizeof(noted->tag), "%s", about->tags[0]);
        noted->expires = about->has_expires_after && about->expires_after > 0;
        noted->expires_after = about->expires_after;
}

static void read_noted(struct harness *h, uint64_t id, struct noted *ret) {
        struct confab_request request = CONFAB_REQUEST_INIT;
        struct confab_error e;
        struct confab *c;

        *ret = (struct noted){.title = ""};
        assert_int_equal(confab_connect(&c, h->socket, NULL), 0);
        request.verb = CONFAB_GET;
        request.conversation_id = id;
        if (confab_call(c, &request, take, ret, &e) < 0)
                fail_msg("%s: %s", e.code, e.message);
        confab_free(c);
}

/* One that was asked for once goes soon; one that goes on stays. */
static void test_expiry(void **state) {
        struct harness *h = *state;
        struct history history = {0};
        struct talk_rig rig;
        struct noted noted;
        struct said said;
        uint64_t id;

        harness_start(h, NULL);
        rig_init(&rig, h->socket);
        rig.settings.expires_once = 3600;
        rig.wants.session = "window 1";
        rig.wants.tag = "openai";
        rig.wants.metadata = "{\"a\":1}";
        history_say(&history, 's', "You are brief.");
        history_say(&history, 'u', "My name is Bela.\nWhat is it?");
        rig_chat(&rig, &history, &said);
        id = said.place[0].conversation;
        rig_settle(&rig);
        read_noted(h, id, &noted);
        assert_string_equal(noted.title, "My name is Bela.");
        assert_string_equal(noted.session, "window 1");
        assert_string_equal(noted.tag, "openai");
        assert_string_equal(noted.metadata, "{\"a\":1}");
        assert_int_equal(noted.expires_after, 3600);
        history_say(&history, 'u', "Thank you.");
        rig_chat(&rig, &history, &said);
        assert_int_equal(said.place[0].conversation, id);
        rig_settle(&rig);
        read_noted(h, id, &noted);
        assert_false(noted.expires);
        assert_string_equal(noted.title, "My name is Bela.");
        /* What the client wants counts more. */
        rig.wants.has_expires_after = true;
        rig.wants.expires_after = 70;
        rig.wants.title = "Names";
        history_cut(&history, 2);
        rig_chat(&rig, &history, &said);
        assert_int_not_equal(said.place[0].conversation, id);
        read_noted(h, said.place[0].conversation, &noted);
        assert_int_equal(noted.expires_after, 70);
        assert_string_equal(noted.title, "Names");
        assert_string_equal(noted.tag, "openai");
        /* What has a name stays; its branches do not. */
        rig.wants.has_expires_after = false;
        rig.wants.place = FORM_NAMED;
        rig.wants.conversation = "names";
        rig.settings.expires_after = 7200;
        rig.wants.n = 2;
        history_cut(&history, 2);
        rig_talk(&rig, rig_form(&rig, &history), &said);
        read_noted(h, said.place[0].conversation, &noted);
        assert_false(noted.expires);
        read_noted(h, said.place[1].conversation, &noted);
        assert_int_equal(noted.expires_after, 7200);
        history_deinit(&history);
        rig_deinit(&rig);
}

/* Empty conversations of the user that do not expire soon. */
static unsigned count_empty(struct harness *h) {
        struct conv list[RIG_CONVERSATIONS];
        size_t n_convs = rig_list(h, list);
        unsigned n = 0;

        for (size_t i = 0; i < n_convs; i++) {
                struct noted noted = {.expires = false};

                if (list[i].n_turns > 0)
                        continue;
                read_noted(h, list[i].id, &noted);
                n += noted.expires_after != 3600;
        }
        return n;
}

static void begin_lost(struct talk_rig *rig, struct harness *h, unsigned i, struct said *said) {
        struct history history = {0};
        char text[32];

        rig_init(rig, h->socket);
        rig->settings.expires_once = 3600;
        rig->settings.expires_after = 7200;
        snprintf(text, sizeof(text), "Hello %u", i);
        history_say(&history, 'u', text);
        said->hook = NULL;
        rig_begin(rig, rig_form(rig, &history), said);
        for (unsigned k = 0; k < i % 8 && said->n_accepted == 0; k++)
                rig_step(rig);
        history_deinit(&history);
}

/* The daemon or the gateway ends at any time before the input is accepted, so that nobody can close what was opened:
 * it goes by itself. If it was the daemon, the talk is done all the same. */
static void test_lost_opens(void **state) {
        struct harness *h = *state;
        struct talk_rig rig;
        struct said said;

        harness_start(h, NULL);
        for (unsigned i = 0; i < 8; i++) {
                begin_lost(&rig, h, i, &said);
                harness_kill(h);
                harness_start(h, NULL);
                rig_wait(&said);
                /* What was accepted is known to the client as such. */
                assert_true(!said.failed || said.n_accepted > 0);
                talk_free(said.talk);
                rig_settle(&rig);
                rig_deinit(&rig);
                assert_int_equal(count_empty(h), 0);
        }
        for (unsigned i = 8; i < 16; i++) {
                begin_lost(&rig, h, i, &said);
                talk_free(said.talk);
                rig_deinit(&rig);
                assert_int_equal(count_empty(h), 0);
        }
}

/* A longer chat than the context goes on if the client wants that, or the settings do. */
static void test_shift(void **state) {
        struct harness *h = *state;
        struct talk_rig rig;
        struct noted noted;
        struct said said;

        harness_start(h, NULL);
        rig_init(&rig, h->socket);
        for (int by_settings = 0; by_settings < 2; by_settings++) {
                struct history history = {0};
                uint64_t id = 0;
                char text[1600];

                memset(text, 'x', sizeof(text) - 1);
                text[0] = by_settings ? 'a' : 'b';
                text[sizeof(text) - 1] = '\0';
                rig.settings.shift = by_settings;
                rig.wants.shift = false;
                for (int i = 0; i < 6; i++) {
                        text[i + 1] = 'y';
                        history_say(&history, 'u', text);
                        /* The conversation learns it when it goes on. */
                        rig.wants.shift = !by_settings && i > 0;
                        rig_chat(&rig, &history, &said);
                        if (i == 0)
                                id = said.place[0].conversation;
                        assert_int_equal(said.place[0].conversation, id);
                        read_noted(h, id, &noted);
                        assert_int_equal(noted.overflow, by_settings || i > 0
                                                                 ? CONFAB_OVERFLOW_SHIFT
                                                                 : CONFAB_OVERFLOW_ERROR);
                }
                assert_true(said.usage[0].n_prompt < 2048);
                history_deinit(&history);
        }
        rig_deinit(&rig);
}

/* Two owners with the same words never meet. */
static void test_owners(void **state) {
        struct harness *h = *state;
        struct history history = {0};
        struct gateway_owner owners[4] = {0};
        size_t n = geteuid() == 0 ? 4 : 3;
        struct talk_rig rig;
        struct said said;
        uint64_t ids[4];

        harness_start(h, NULL);
        rig_init(&rig, h->socket);
        for (size_t i = 0; i < n; i++)
                owners[i].uid = i == 3 ? OTHER_UID : (uint32_t)geteuid();
        strcpy(owners[1].tenant, "anna");
        strcpy(owners[2].tenant, "bert");
        history_say(&history, 'u', "My name is Bela. I live in a green house by the river.");
        for (size_t i = 0; i < n; i++) {
                rig.owner = owners[i];
                rig_chat(&rig, &history, &said);
                history_cut(&history, 1);
                ids[i] = said.place[0].conversation;
                assert_int_equal(said.place[0].input_turn, 0);
                assert_int_equal(said.usage[0].n_cached, 0);
                for (size_t k = 0; k < i; k++)
                        assert_int_not_equal(ids[i], ids[k]);
        }
        /* Everybody finds his own, and nobody another's, whatever he knows. */
        history_say(&history, 'a', said.text[0]);
        history_say(&history, 'u', "What is my name?");
        for (size_t i = 0; i < n; i++) {
                rig.owner = owners[i];
                rig.wants.place = FORM_FIND;
                rig_talk(&rig, rig_form(&rig, &history), &said);
                assert_false(said.failed);
                assert_int_equal(said.place[0].conversation, ids[i]);
                rig.wants.place = FORM_AT;
                rig.wants.conversation_id = ids[(i + 1) % n];
                rig.wants.at_turn = 2;
                rig_talk(&rig, rig_form(&rig, &history), &said);
                assert_int_equal(said.status, 404);
        }
        history_deinit(&history);
        rig_deinit(&rig);
}

/* A daemon that does not trust the gateway says so. */
static void test_untrusted(void **state) {
        struct harness *h = *state;
        struct history history = {0};
        struct talk_rig rig;
        struct said said;

        harness_start(h, FLAGS("--socket-mode=0666"));
        rig_init(&rig, h->socket);
        rig.owner.uid = OTHER_UID;
        history_say(&history, 'u', "Hello");
        if (geteuid() == 0)
                assert_int_equal(seteuid(GATEWAY_UID), 0); /* root is always trusted */
        rig_talk(&rig, rig_form(&rig, &history), &said);
        if (getuid() == 0)
                assert_int_equal(seteuid(0), 0);
        assert_int_equal(said.status, 403);
        assert_string_equal(said.code, "permission");
        history_deinit(&history);
        rig_deinit(&rig);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test(test_expiry),
                daemon_test(test_lost_opens),
                daemon_test(test_shift),
                daemon_test(test_owners),
                daemon_test(test_untrusted),
        };

        return DAEMON_TESTS_MAIN(tests);
}
