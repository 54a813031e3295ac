/* SPDX-License-Identifier: MIT */
/*
 * Several replies at once over one connection, in a libevent loop.
 *
 *     cc -o event-loop event-loop.c $(pkg-config --cflags --libs confab libevent_core)
 *     ./event-loop /run/confab/confab.sock "Tell me of the sea." "Tell me of the sky."
 *
 * Each question gets a conversation of its own, opened and continued at the same time as the others. Every piece
 * of a reply is printed as a line, with the number of its question in front. ^C cancels all of them; the
 * replies then end with what they have.
 *
 * The connection never waits: watch() has libevent look at the socket for what confab_get_events() says, and that
 * may change with every call of the library.
 */
#include <confab.h>
#include <event2/event.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct program;

struct question {
        struct program *program;
        const char *text;
        int number;
        uint64_t request; /* in flight, or 0 */
};

struct program {
        struct event_base *base;
        struct event *readable, *writable, *interrupt;
        struct confab *confab;
        struct question *questions; /* [n_questions] */
        int n_questions, n_left;
        int status;
};

static void fail(struct program *program, const char *what, const struct confab_error *e) {
        fprintf(stderr, "%s: %s (%s)\n", what, e->message, e->code);
        program->status = 1;
}

static void question_ended(struct question *question) {
        struct program *program = question->program;

        question->request = 0;
        if (--program->n_left == 0)
                event_base_loopbreak(program->base);
}

static void see_reply(void *userdata, const struct confab_event *event) {
        struct question *question = userdata;

        if (event->kind == CONFAB_EVENT_DELTA && event->delta->text_size > 0)
                printf("%d: %s\n", question->number, event->delta->text);
        else if (event->kind == CONFAB_EVENT_DONE)
                printf("%d ended: %s\n", question->number, confab_finish_name(event->done->finish));
        else if (event->kind == CONFAB_EVENT_ERROR)
                fail(question->program, "continue", event->error);
        fflush(stdout);
        if (event->final)
                question_ended(question);
}

static void say(struct question *question, uint64_t conversation) {
        struct confab_request request = CONFAB_REQUEST_INIT;
        struct confab_error e;

        request.verb = CONFAB_CONTINUE;
        request.conversation_id = conversation;
        request.input = CONFAB_INPUT_MESSAGE;
        request.text = question->text;
        request.text_size = strlen(question->text);
        request.has_max_tokens = true;
        request.max_tokens = 64;
        if (confab_submit(question->program->confab, &request, see_reply, question,
                    &question->request, &e) < 0) {
                fail(question->program, "continue", &e);
                question_ended(question);
        }
}

/* The answer to open leads to the next request: a callback may submit. */
static void see_opened(void *userdata, const struct confab_event *event) {
        struct question *question = userdata;

        if (event->kind == CONFAB_EVENT_CONVERSATION) {
                say(question, event->conversation->id);
        } else if (event->kind == CONFAB_EVENT_ERROR) {
                fail(question->program, "open", event->error);
                question_ended(question);
        }
}

static int open_conversation(struct question *question, struct confab_error *e) {
        struct confab_about about = {.has_expires_after = true, .expires_after = 60};
        struct confab_request request = CONFAB_REQUEST_INIT;

        request.verb = CONFAB_OPEN;
        request.about = &about;
        return confab_submit(
                question->program->confab, &request, see_opened, question, &question->request, e);
}

/* ---- the loop ---- */

static void watch(struct program *program) {
        event_add(program->readable, NULL);
        if (confab_get_events(program->confab) & POLLOUT)
                event_add(program->writable, NULL);
}

static void process(evutil_socket_t fd, short what, void *userdata) {
        struct program *program = userdata;
        struct confab_error e;

        (void)fd;
        (void)what;
        /* When the connection is over, every request has ended with the reason by now. */
        if (confab_process(program->confab, &e) < 0)
                event_base_loopbreak(program->base);
        else
                watch(program);
}

static void interrupted(evutil_socket_t signal_number, short what, void *userdata) {
        struct program *program = userdata;

        (void)signal_number;
        (void)what;
        for (int i = 0; i < program->n_questions; i++)
                if (program->questions[i].request)
                        confab_cancel(program->confab, program->questions[i].request, NULL);
        watch(program);
}

static int loop(struct program *program) {
        int fd = confab_get_fd(program->confab);

        program->base = event_base_new();
        if (!program->base)
                return -1;
        program->readable = event_new(program->base, fd, EV_READ, process, program);
        program->writable = event_new(program->base, fd, EV_WRITE, process, program);
        program->interrupt = evsignal_new(program->base, SIGINT, interrupted, program);
        if (!program->readable || !program->writable || !program->interrupt)
                return -1;
        event_add(program->interrupt, NULL);
        watch(program);
        return event_base_dispatch(program->base);
}

static void deinit(struct program *program) {
        if (program->readable)
                event_free(program->readable);
        if (program->writable)
                event_free(program->writable);
        if (program->interrupt)
                event_free(program->interrupt);
        if (program->base)
                event_base_free(program->base);
        confab_free(program->confab);
        free(program->questions);
}

int main(int argc, char **argv) {
        struct program program = {.n_questions = argc - 2, .n_left = argc - 2};
        struct confab_error e;

        if (argc < 3) {
                fprintf(stderr, "usage: %s SOCKET QUESTION...\n", argv[0]);
                return 2;
        }
        program.questions = calloc((size_t)program.n_questions, sizeof(*program.questions));
        if (!program.questions || confab_connect(&program.confab, argv[1], &e) < 0) {
                fprintf(stderr, "%s\n", program.questions ? e.message : "no memory");
                deinit(&program);
                return 1;
        }
        for (int i = 0; i < program.n_questions; i++) {
                struct question *question = &program.questions[i];

                *question = (struct question){
                        .program = &program, .text = argv[i + 2], .number = i + 1};
                if (open_conversation(question, &e) < 0) {
                        fail(&program, "open", &e);
                        program.n_left--;
                }
        }
        if (program.n_left > 0 && loop(&program) < 0)
                program.status = 1;
        deinit(&program);
        return program.status;
}
