/* SPDX-License-Identifier: MIT */
#pragma once
/* Handlers of the OpenAI dialect's routes. */
#include "client/gateway/gateway.h"

struct fields;

void openai_handle_chat(struct gateway_call *call);
void openai_handle_text(struct gateway_call *call);
void openai_handle_models(struct gateway_call *call);
void openai_handle_model(struct gateway_call *call);

/* Refuse a body: @fields (or NULL) has the name of what is wrong. */
void openai_refuse(struct gateway_call *call, const struct fields *fields, const struct err *e);
