/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Talks with the real daemon, in the test's own event loop.
 *
 *     struct talk_rig rig;
 *     struct history h = {0};
 *     struct said said;
 *
 *     rig_init(&rig, harness->socket);
 *     history_say(&h, 'u', "Hello");
 *     rig_talk(&rig, rig_form(&rig, &h), &said);    what comes is an error or all replies
 *     history_say(&h, 'a', said.text[0]);
 *     rig_deinit(&rig);
 *
 * A loop that takes longer than RIG_SECONDS fails the test.
 */
#include "client/gateway/talk.h"
#include "fixture.h"
#include <event2/event.h>

#define RIG_SECONDS 120
#define SAID_CHOICES 4
#define HISTORY_MAX 96
#define RIG_CONVERSATIONS 64

struct talk_rig {
        struct event_base *base;
        struct backends *backends;
        struct talk_settings settings;
        struct gateway_owner owner;
        struct form_fields wants; /* copied to each form, but for messages */
};

/* What a client has on its side. */
struct history {
        /* 's', 'u', 'a'; 'c': a call, its text is "ID NAME ARGUMENTS"; 't': a result, "ID TEXT". ID may be "". */
        char role[HISTORY_MAX];
        char *text[HISTORY_MAX];
        size_t n;
};

struct said {
        struct talk_rig *rig;
        struct talk *talk;
        bool ended, failed;
        unsigned status, retry_after;
        char code[40], message[300];
        unsigned n_accepted, n_done, n_progress, n_deltas;
        struct talk_place place[SAID_CHOICES];
        struct talk_usage usage[SAID_CHOICES]; /* of done, else of accepted */
        uint32_t n_computed[SAID_CHOICES];     /* of the prompt, as of accepted */
        char text[SAID_CHOICES][4096];
        char call_id[64], call_name[64], arguments[256]; /* of the last call */
        int finish[SAID_CHOICES];
        /* Called behind each event, or NULL. */
        void (*hook)(struct said *said);
        void *hook_data;
};

void rig_init(struct talk_rig *rig, const char *socket);
void rig_deinit(struct talk_rig *rig);
void history_say(struct history *history, char role, const char *text);
/* The first @n messages are kept. */
void history_cut(struct history *history, size_t n);
void history_deinit(struct history *history);
/* A form with these messages (NULL: none) and rig->wants. */
struct form *rig_form(struct talk_rig *rig, const struct history *history);
/* Begin a talk; must be possible. */
void rig_begin(struct talk_rig *rig, struct form *form, struct said *said);
/* Run the loop until @said has ended, or *flag. */
void rig_wait(struct said *said);
void rig_wait_for(struct talk_rig *rig, const bool *flag);
/* One turn of the loop. */
void rig_step(struct talk_rig *rig);
/* The whole of it, and the talk is freed. */
void rig_talk(struct talk_rig *rig, struct form *form, struct said *said);
/* The same, which must not fail; the reply of the first choice is put to @history. */
void rig_chat(struct talk_rig *rig, struct history *history, struct said *said);
/* Wait until everything that was left to do behind talks is done: no line is in use. */
void rig_settle(struct talk_rig *rig);
/* Past the gateway: the first conversations of this user, and their number; one with its turns, to be freed by conv_deinit(). */
size_t rig_list(struct harness *h, struct conv list[RIG_CONVERSATIONS]);
void rig_look(struct harness *h, uint64_t id, struct conv *ret);
