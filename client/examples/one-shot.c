/* SPDX-License-Identifier: MIT */
/*
 * One question, one answer, blocking: the shortest program over libconfab.
 *
 *     cc -o one-shot one-shot.c $(pkg-config --cflags --libs confab)
 *     ./one-shot /run/confab/confab.sock "What is the capital of France?"
 *
 * The conversation that it makes is a throw-away one: the daemon closes it a minute after its last use, also
 * if this program is killed.
 */
#include <confab.h>
#include <stdio.h>
#include <string.h>

static void see_opened(void *userdata, const struct confab_event *event) {
        uint64_t *id = userdata;

        if (event->kind == CONFAB_EVENT_CONVERSATION)
                *id = event->conversation->id;
}

static void see_reply(void *userdata, const struct confab_event *event) {
        (void)userdata;
        if (event->kind == CONFAB_EVENT_DELTA) {
                fwrite(event->delta->text, 1, event->delta->text_size, stdout);
                fflush(stdout);
        } else if (event->kind == CONFAB_EVENT_DONE) {
                fprintf(stderr, "\n%u tokens, %s\n", event->done->n_generated,
                        confab_finish_name(event->done->finish));
        }
}

static int ask(struct confab *c, const char *question, struct confab_error *e) {
        struct confab_about about = {.has_expires_after = true, .expires_after = 60};
        struct confab_request open = CONFAB_REQUEST_INIT, say = CONFAB_REQUEST_INIT;
        uint64_t id = 0;

        open.verb = CONFAB_OPEN;
        open.about = &about;
        if (confab_call(c, &open, see_opened, &id, e) < 0)
                return -1;
        say.verb = CONFAB_CONTINUE;
        say.conversation_id = id;
        say.input = CONFAB_INPUT_MESSAGE;
        say.text = question;
        say.text_size = strlen(question);
        say.has_max_tokens = true;
        say.max_tokens = 200;
        return confab_call(c, &say, see_reply, NULL, e);
}

int main(int argc, char **argv) {
        struct confab_error e;
        struct confab *c;
        int r;

        if (argc != 3) {
                fprintf(stderr, "usage: %s SOCKET QUESTION\n", argv[0]);
                return 2;
        }
        if (confab_connect(&c, argv[1], &e) < 0) {
                fprintf(stderr, "%s: %s\n", e.code, e.message);
                return 1;
        }
        r = ask(c, argv[2], &e);
        if (r < 0)
                fprintf(stderr, "%s: %s%s\n", e.code, e.message, e.retry ? " (try again)" : "");
        confab_free(c);
        return r < 0;
}
