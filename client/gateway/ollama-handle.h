/* SPDX-License-Identifier: MIT */
#pragma once
/* Calls of Ollama's dialect. Each ends the exchange, now or later. */
#include "client/gateway/gateway.h"
#include "client/gateway/ollama.h"

/* Answer the prompt of @form, which is taken. */
void ollama_generate(struct gateway_call *call, struct form *form, const struct ollama_wish *wish);

/* What is told once the daemons were asked for their models. */
enum ollama_question {
        OLLAMA_TAGS,   /* all models */
        OLLAMA_PS,     /* those that can be reached now */
        OLLAMA_SHOW,   /* one model */
        OLLAMA_LOADED, /* that it is there, as an empty chat */
        OLLAMA_LOADED_GENERATE
};
/* @model: its name (copied), or NULL: the default one. @wish: of those that load, else NULL. */
void ollama_ask_models(struct gateway_call *call, enum ollama_question question, const char *model,
        const struct ollama_wish *wish);
