/* SPDX-License-Identifier: MIT */
/*
 * Replies as messages, each with a header (gpt-oss):
 *
 *     <|channel|>analysis<|message|>reasoning<|end|><|start|>assistant<|channel|>commentary
 *     to=functions.f <|constrain|>json<|message|>{arguments}<|call|>
 *
 * The header says what the message is: a call if it has a recipient, reasoning in the channel
 * "analysis", else text. It often begins in the invitation. Characters in a place where a header
 * should stand, but that no header has, are text.
 */
#include <string.h>

#include "chat/reply-internal.h"

/* How marks stand in the header. */
#define CHANNEL '\1'
#define CONSTRAIN '\2'

static void add_marks(struct reply_marks *m) {
        reply_marks_add(m, "<|start|>", REPLY_MARK_START);
        reply_marks_add(m, "<|channel|>", REPLY_MARK_CHANNEL);
        reply_marks_add(m, "<|message|>", REPLY_MARK_MESSAGE);
        reply_marks_add(m, "<|end|>", REPLY_MARK_MESSAGE_END);
        reply_marks_add(m, "<|call|>", REPLY_MARK_MESSAGE_END);
        reply_marks_add(m, "<|return|>", REPLY_MARK_MESSAGE_END);
}

void reply_channel_marks(struct chat_reply *r) {
        for (enum reply_state s = REPLY_TEXT; s < REPLY_N_STATES; s++)
                if (s != REPLY_CALL && s != REPLY_SECTION)
                        add_marks(&r->marks[s]);
        reply_marks_add(&r->marks[REPLY_HEADER], "<|constrain|>", REPLY_MARK_CONSTRAIN);
        add_marks(&r->sets[REPLY_SET_BODY]);
}

static void start_header(struct chat_reply *r) {
        r->header = (struct reply_string){.size = 0};
        r->header_marked = true;
        reply_enter(r, REPLY_HEADER);
}

/* The word behind @from, up to a blank or a mark. */
static void take_word(
        const struct reply_string *header, const char *from, struct reply_string *ret) {
        const char *end = header->text + header->size;

        *ret = (struct reply_string){.size = 0};
        for (; from < end && *from != ' ' && *from != CHANNEL && *from != CONSTRAIN; from++)
                reply_string_add(ret, *from);
}

static bool find_recipient(const struct reply_string *header, struct reply_string *ret) {
        static const char of_functions[] = "functions.";
        const char *to = strstr(header->text, "to=");
        size_t n = sizeof(of_functions) - 1;

        if (!to || (to > header->text && to[-1] != ' ' && to[-1] != CHANNEL))
                return false;
        to += 3;
        if (strncmp(to, of_functions, n) == 0)
                to += n;
        take_word(header, to, ret);
        return strcmp(ret->text, "all") != 0 && strcmp(ret->text, "user") != 0;
}

static void begin_message(struct chat_reply *r) {
        const char *channel = strchr(r->header.text, CHANNEL);
        struct reply_string word = {.size = 0};

        r->n_trial = 0;
        r->skip_spaces = true;
        if (find_recipient(&r->header, &word)) {
                reply_call_start(r);
                r->call.name = word;
                r->call.name.too_long = word.too_long || r->header.too_long;
                if (reply_call_named(r))
                        reply_call_begin(r);
                return;
        }
        if (channel)
                take_word(&r->header, channel + 1, &word);
        reply_enter(r, strcmp(word.text, "analysis") == 0 ? REPLY_REASONING : REPLY_TEXT);
}

void reply_channel_mark(struct chat_reply *r, enum reply_mark_id id) {
        if (r->state == REPLY_TEXT || r->state == REPLY_REASONING)
                reply_end_plain(r);
        r->n_trial = 0;
        switch (id) {
        case REPLY_MARK_START:
                start_header(r);
                break;
        case REPLY_MARK_CHANNEL:
                if (r->state != REPLY_HEADER)
                        start_header(r);
                r->header_marked = true;
                reply_string_add(&r->header, CHANNEL);
                break;
        case REPLY_MARK_CONSTRAIN:
                reply_string_add(&r->header, CONSTRAIN);
                break;
        case REPLY_MARK_MESSAGE:
                if (r->state == REPLY_HEADER)
                        begin_message(r);
                break;
        default:
                r->skip_spaces = true;
                reply_enter(r, REPLY_TEXT);
        }
}

/* What has no header is text. */
static void give_up(struct chat_reply *r) {
        r->skip_spaces = false;
        reply_enter(r, REPLY_TEXT);
        reply_give_trial(r);
}

/* Whether the bytes in trial may be of a header: " to=..." */
static bool may_be_header(const struct chat_reply *r) {
        static const char to[] = "to=";
        size_t k = 0;

        for (size_t i = 0; i < r->n_trial && to[k]; i++) {
                if (k == 0 && r->trial[i].c == ' ')
                        continue;
                if (r->trial[i].c != (uint8_t)to[k])
                        return false;
                k++;
        }
        return true;
}

void reply_channel_byte(struct chat_reply *r, const struct reply_byte *b) {
        if (b->origin != REPLY_VISIBLE)
                return;
        reply_string_add(&r->header, reply_is_space(b->c) || b->c < 0x20 ? ' ' : (char)b->c);
        if (r->header_marked || r->muted)
                return;
        r->trial[r->n_trial++] = *b;
        if (r->header.too_long || !may_be_header(r))
                give_up(r);
}

void reply_channel_finish(struct chat_reply *r) {
        give_up(r);
}

/* --- the body of a call --- */

static void start(struct chat_reply *r) {
        reply_json_init(&r->call.json);
        reply_look_for(r, REPLY_SET_BODY);
}

static void mark(struct chat_reply *r, enum reply_mark_id id) {
        if (r->call.empty && id == REPLY_MARK_MESSAGE_END) {
                reply_call_arguments(r, "{}", 2);
                reply_call_done(r);
        } else
                reply_call_broken(r, "its arguments are no JSON object");
        reply_channel_mark(r, id);
}

const struct reply_machine reply_channel_call = {start, reply_call_body_byte, mark};
