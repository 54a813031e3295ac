/* SPDX-License-Identifier: MIT */
#include "unit/chat/template-rig.h"

#define ALTERNATE                                                                                  \
        "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"                                    \
        "{{ raise_exception('roles must alternate') }}{% endif %}"
/* The system text is taken from the front and written into the first message of the user. */
#define TAKE_SYSTEM                                                                                \
        "{% if messages[0].role == 'system' %}{% set s = messages[0].content %}"                   \
        "{% set rest = messages[1:] %}{% else %}{% set rest = messages %}{% endif %}"

const struct template_form template_forms[TEMPLATE_FORMS] = {
        {"chatml", CHATML, .end = "<|im_end|>"},
        {"default system",
                "{% if messages[0].role != 'system' %}<|im_start|>system\nYou help.<|im_end|>\n"
                "{% endif %}" CHATML,
                .end = "<|im_end|>"},
        {"header",
                "{{- bos_token }}" FOR "{{- '<|start_header_id|>' + m.role + "
                "'<|end_header_id|>\\n\\n' + m.content | trim + '<|eot_id|>' }}" END
                "{%- if add_generation_prompt %}"
                "{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}",
                .end = "<|eot_id|>"},
        {"header, always inviting",
                FOR "{% set c = '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + "
                    "m.content | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}"
                    "{% set c = bos_token + c %}{% endif %}{{ c }}" END
                    "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}",
                .end = "<|eot_id|>"},
        {"inst",
                "{{ bos_token }}" FOR ALTERNATE "{% if m.role == 'user' %}"
                "{{ '[INST] ' + m.content + ' [/INST]' }}{% else %}{{ ' ' + m.content + eos_token "
                "}}"
                "{% endif %}" END,
                .opens_system = true, .end = "</s>"},
        {"inst, documents",
                TAKE_SYSTEM
                "{% for m in rest %}{% if m.role == 'user' %}{{ bos_token + '[INST] ' }}"
                "{% if loop.first and s is defined %}{{ '<<SYS>>\\n' + s + '\\n<</SYS>>\\n\\n' }}"
                "{% endif %}{{ m.content.strip() + ' [/INST]' }}{% else %}"
                "{{ ' ' + m.content.strip() + ' ' + eos_token }}{% endif %}" END,
                .opens_system = true, .end = "</s>"},
        {"turn",
                "{{ bos_token }}" TAKE_SYSTEM "{% for m in rest %}" ALTERNATE
                "{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' + "
                "(s + '\\n\\n' if loop.first and s is defined else '') + m.content | trim + "
                "'<end_of_turn>\\n' }}" END
                "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}",
                .opens_system = true, .end = "<end_of_turn>"},
        {"turn, no system",
                "{{ bos_token }}{% if messages[0].role == 'system' %}"
                "{{ raise_exception('System role not supported') }}{% endif %}" FOR ALTERNATE
                "{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' + "
                "m.content | trim + '<end_of_turn>\\n' }}" END
                "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}",
                .opens_system = true, .end = "<end_of_turn>"},
        {"role tags",
                FOR "{{ '<|' + m.role + '|>\\n' + m.content + '<|end|>\\n' }}" END
                    "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}",
                .end = "<|end|>"},
        {"role tags, end of text",
                "{{ bos_token }}" FOR "{{ '<|' + m.role + '|>\\n' + m.content + '<|end|>\\n' }}" END
                "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}"
                "{% endif %}",
                .end = "<|end|>"},
        {"words",
                "{{ bos_token }}" FOR "{% if m.role == 'system' %}{{ m.content + '\\n\\n' }}"
                "{% elif m.role == 'user' %}{{ 'User: ' + m.content + '\\n\\n' }}{% else %}"
                "{{ 'Assistant: ' + m.content + eos_token }}{% endif %}" END
                "{% if add_generation_prompt %}Assistant:{% endif %}",
                .end = "</s>"},
        {"open ends",
                "<s>" FOR "<|{{ m.role }}|>\n{{ m.content }}" END
                "{% if add_generation_prompt %}<|assistant|>{% endif %}",
                .end = NULL},
        {"text only",
                FOR "{% if m.role == 'user' %}{{ '### ' + m.content.strip() + ' ==>\\n' }}"
                    "{% else %}{{ m.content.strip() }}{% endif %}" END,
                .end = NULL},
};

const char *const template_specials[] = {"<|im_start|>", "<|im_end|>", "<|start_header_id|>",
        "<|end_header_id|>", "<|eot_id|>", "[INST]", "[/INST]", "<start_of_turn>", "<end_of_turn>",
        "<|user|>", "<|assistant|>", "<|system|>", "<|end|>", NULL};

void template_vocabulary(struct vocab_build *v, const char *model, bool add_bos) {
        whole_vocabulary(v, model, add_bos, template_specials, NULL);
}

const struct chat_tail template_tails[TEMPLATE_TAILS] = {
        {.state = CHAT_EMPTY},
        {.state = CHAT_CLOSED, .role = CHAT_SYSTEM},
        {.state = CHAT_CLOSED, .role = CHAT_USER},
        {.state = CHAT_CLOSED, .role = CHAT_ASSISTANT},
        {.state = CHAT_CLOSED, .role = CHAT_RAW},
        {.state = CHAT_OPEN_REPLY, .role = CHAT_ASSISTANT},
        {.state = CHAT_ENDED_REPLY, .role = CHAT_ASSISTANT},
        {.state = CHAT_OPEN_SYSTEM, .role = CHAT_SYSTEM},
};
