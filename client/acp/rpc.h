/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to ACP: messages of JSON-RPC 2.0. One owner. */
#include "base/json-tree.h"
#include "client/confab.h"

/* Codes of JSON-RPC, and those that ACP adds. */
enum acp_code {
        ACP_CODE_PARSE = -32700,
        ACP_CODE_REQUEST = -32600,
        ACP_CODE_METHOD = -32601,
        ACP_CODE_PARAMS = -32602,
        ACP_CODE_INTERNAL = -32603,
        ACP_CODE_NOT_FOUND = -32002,
        ACP_CODE_CANCELLED = -32800,
};

/* Why a message is not answered as its sender hoped. */
struct acp_failure {
        enum acp_code code;
        char message[320]; /* one sentence, without final stop, cut to fit */
        char word[40];     /* data.code: a code as in confab.h; "": there are no data */
        bool retry;        /* data.retry: the same may succeed later */
};
/* Fill *failure and return -1. */
int acp_fail(struct acp_failure *failure, enum acp_code code, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
int acp_fail_no_memory(struct acp_failure *failure);
/* The daemon's, or the library's, error. */
int acp_fail_daemon(struct acp_failure *failure, const struct confab_error *e);

/* ---- what comes ---- */

enum acp_kind {
        ACP_REQUEST,
        ACP_NOTIFICATION, /* is never answered */
        ACP_ANSWER        /* to a request of ours, which there are none of */
};
struct acp_message {
        enum acp_kind kind;
        struct json_value *root; /* owned */
        char *id;                /* owned: as JSON; NULL: it has none, or none that can be echoed */
        const char *method;      /* in root: of a request or notification */
        const struct json_value *params; /* in root: an object, or NULL */
};
#define ACP_MESSAGE_NULL ((struct acp_message){.root = NULL})
/* Parse one line. 0, or -1 with *failure, to be answered with ret->id; *ret is to be deinitialised in every case. */
int acp_message_parse(
        struct acp_message *ret, const char *line, size_t size, struct acp_failure *failure);
void acp_message_deinit(struct acp_message *message);

/* ---- what goes out ---- */

/* Messages are written whole or not at all; what could not be written is remembered in `error`, and all later ones
 * are left out. */
struct acp_out {
        struct buf buf;
        size_t mark;      /* where the present message begins */
        struct json json; /* writes it */
        int error;        /* 0, -ERR_NOMEM, -ERR_LIMIT */
};
#define ACP_OUT_NULL ((struct acp_out){.buf = BUF_NULL})

/* Begin an answer to @id, JSON (NULL: null), whose result is an object; the caller writes its members to out->json. */
void acp_result_begin(struct acp_out *out, const char *id);
void acp_result_end(struct acp_out *out);
void acp_put_error(struct acp_out *out, const char *id, const struct acp_failure *failure);
/* Begin a session/update of this kind ("agent_message_chunk"); the caller writes the update's other members. */
void acp_update_begin(struct acp_out *out, const char *session, const char *kind);
void acp_update_end(struct acp_out *out);
