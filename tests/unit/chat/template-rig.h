/* SPDX-License-Identifier: MIT */
#pragma once
/* Templates of the forms that models have, written for tests; and the ends that a conversation can have. */
#include <stdbool.h>

#include "unit/chat/whole.h"

#define FOR "{% for m in messages %}"
#define END "{% endfor %}"
#define CHATML                                                                                     \
        FOR "{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n' }}" END   \
            "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"

enum { TEMPLATE_FORMS = 13, TEMPLATE_TAILS = 8 };

struct template_form {
        const char *name, *text;
        bool opens_system; /* the system text is in the user's message */
        const char *end;   /* the token that ends a reply */
};
extern const struct template_form template_forms[TEMPLATE_FORMS];

/* What they and others take for control tokens, ended by NULL; and a vocabulary that has these. */
extern const char *const template_specials[];
void template_vocabulary(struct vocab_build *v, const char *model, bool add_bos);

/* A form needs a closing text for an open reply, so the tails that a conversation can have. */
extern const struct chat_tail template_tails[TEMPLATE_TAILS];
