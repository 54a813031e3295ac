/* SPDX-License-Identifier: MIT */
/*
 * Counting the tokens of a form as a prompt.
 *
 * Only the daemon knows the template, and what of a history it would compute. So the talk goes as any other, in a
 * conversation of its own (a fork where the history is found, else a new one), up to the daemon's `accepted`, which tells
 * the number with the tokens that invite a reply. Then the request is cancelled and the conversation is closed:
 * nothing of what existed is touched, and at most the first batch of the prompt is computed.
 */
#include "client/gateway/talk-private.h"

int talk_count(struct talk **ret, struct backends *backends, const struct talk_settings *settings,
        const struct gateway_owner *owner, struct form *form, talk_counted fn, void *userdata,
        struct err *e) {
        struct form_fields *fields = form_fields(form);

        fields->n = 1;
        fields->detach = false;
        return talk_make(ret, backends, settings, owner, form, &(struct talk_ops){.ended = NULL},
                fn, userdata, e);
}

void talk_count_end(struct talk *talk, uint32_t n_tokens, const struct talk_error *error) {
        if (!talk->released)
                talk->counted(talk->userdata, n_tokens, error);
        talk_free(talk);
}
