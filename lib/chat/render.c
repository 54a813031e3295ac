/* SPDX-License-Identifier: MIT */
/*
 * One rendering of the model's template. The template gets the variables that HuggingFace gives:
 * messages (role, content), add_generation_prompt, bos_token and eos_token, tools and documents
 * (none), and the function strftime_now().
 *
 * 1. Role names and the texts of tokens are trusted; the content of messages never is.
 * 2. The clock stands at the conversation's beginning, in UTC: the same arguments give the same
 *    text on any machine at any time.
 * 3. Time and memory are bounded by the size of the messages. A message of ordinary size is rendered
 *    on the engine thread, so a template may take half a million steps besides: some milliseconds.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/util.h"
#include "chat/chat-internal.h"

const struct chat_message chat_stand_ins[CHAT_N_SPOKEN] = {
#define STAND_IN(r, t)                                                                             \
        { .role = r, .text = t, .size = sizeof(t) - 1 }
        [CHAT_SYSTEM] = STAND_IN(CHAT_SYSTEM, "standinsystem"),
        [CHAT_USER] = STAND_IN(CHAT_USER, "standinuser"),
        [CHAT_ASSISTANT] = STAND_IN(CHAT_ASSISTANT, "standinassistant"),
#undef STAND_IN
};

const struct chat_message chat_stand_in_next = {
        .role = CHAT_USER, .text = "standinnext", .size = sizeof("standinnext") - 1};

size_t chat_stand_ins_of(enum chat_after after, struct chat_message ret[CHAT_MAX_STAND_INS]) {
        switch (after) {
        case CHAT_AFTER_NOTHING:
        case CHAT_N_AFTER:
                return 0;
        case CHAT_AFTER_SYSTEM:
        case CHAT_AFTER_OPEN_SYSTEM:
                ret[0] = chat_stand_ins[CHAT_SYSTEM];
                return 1;
        case CHAT_AFTER_USER:
                ret[0] = chat_stand_ins[CHAT_USER];
                return 1;
        case CHAT_AFTER_REPLY:
                ret[0] = chat_stand_ins[CHAT_USER];
                ret[1] = chat_stand_ins[CHAT_ASSISTANT];
                return 2;
        }
        return 0;
}

int chat_join_system(struct buf *ret, const struct chat_message *system,
        const struct chat_message *user, struct chat_message *message) {
        int r = buf_append(ret, system->text, system->size);

        if (r >= 0)
                r = buf_append_str(ret, CHAT_SYSTEM_GAP);
        if (r >= 0 && user->size > 0)
                r = buf_append(ret, user->text, user->size);
        if (r >= 0)
                *message = (struct chat_message){
                        .role = CHAT_USER, .text = (const char *)ret->data, .size = ret->size};
        return r;
}

static void put_message(struct jinja_data *d, const struct chat_message *m) {
        const char *role = chat_role_name(m->role);

        jinja_data_dict_begin(d);
        jinja_data_key(d, "role", true);
        jinja_data_string(d, role, strlen(role), true);
        jinja_data_key(d, "content", true);
        jinja_data_string(d, m->size > 0 ? m->text : "", m->size, false);
        jinja_data_dict_end(d);
}

static void put_variables(
        struct jinja_data *d, const struct chat_template *t, const struct chat_rendering *in) {
        jinja_data_key(d, "messages", true);
        jinja_data_list_begin(d);
        for (size_t i = 0; i < in->n; i++)
                put_message(d, &in->messages[i]);
        jinja_data_list_end(d);
        jinja_data_key(d, "add_generation_prompt", true);
        jinja_data_bool(d, in->invite);
        jinja_data_key(d, "bos_token", true);
        jinja_data_string(d, t->bos, strlen(t->bos), true);
        jinja_data_key(d, "eos_token", true);
        jinja_data_string(d, t->eos, strlen(t->eos), true);
        jinja_data_key(d, "tools", true);
        jinja_data_none(d);
        jinja_data_key(d, "documents", true);
        jinja_data_none(d);
}

int chat_render(const struct chat_template *t, const struct chat_rendering *in,
        struct jinja_out *ret, struct err *e) {
        _cleanup_(jinja_data_freep) struct jinja_data *d = NULL;
        struct jinja_input input = {.charge = in->charge};
        struct jinja_limits limits;
        time_t seconds = (time_t)(in->created_usec / 1000000);
        struct tm now;
        size_t size = 0;
        int r;

        for (size_t i = 0; i < in->n; i++)
                size += in->messages[i].size;
        limits = (struct jinja_limits){.n_steps = 500000 + 2 * (uint64_t)size,
                .memory_size = ((size_t)4 << 20) + 32 * size,
                .output_size = ((size_t)1 << 20) + 4 * size};
        if (!gmtime_r(&seconds, &now))
                return err_set(e, ERR_INVALID, "a conversation's time is not a date");
        r = jinja_data_new(&d, ((size_t)64 << 10) + 2 * size, in->charge, e);
        if (r < 0)
                return r;
        put_variables(d, t, in);
        r = jinja_data_finish(d, e);
        if (r < 0)
                return r;
        input.data = d;
        input.limits = &limits;
        input.now = &now;
        return jinja_render(t->jinja, &input, ret, e);
}

bool chat_find_once(const struct jinja_out *out, const struct chat_message *m, size_t *ret) {
        const char *at = memmem(out->text, out->size, m->text, m->size), *next;

        if (!at)
                return false;
        next = at + 1;
        if (memmem(next, out->size - (size_t)(next - out->text), m->text, m->size))
                return false;
        *ret = (size_t)(at - out->text);
        return true;
}

bool chat_begins(const char *text, size_t n, const char *with, size_t n_with) {
        return n >= n_with && memcmp(text, with, n_with) == 0;
}
