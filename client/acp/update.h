/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to ACP: what the daemon tells becomes session/update messages. Errors are remembered in @out. */
#include "client/acp/rpc.h"

/* A message chunk: "user_message_chunk", "agent_message_chunk", "agent_thought_chunk". None for an empty text. */
void acp_update_chunk(
        struct acp_out *out, const char *session, const char *kind, const char *text, size_t size);
void acp_update_usage(struct acp_out *out, const char *session, uint64_t used, uint64_t size);
void acp_update_title(struct acp_out *out, const char *session, const char *title);

/* The call of which parts of a reply come. */
struct acp_reply {
        bool open;
        char *call_id, *name; /* owned */
        struct buf arguments;
};
/* News of parts of a reply. A call is told as one tool_call, when it is whole: pending, or failed if it is broken. */
void acp_update_parts(struct acp_out *out, const char *session, struct acp_reply *reply,
        const struct confab_part *parts, size_t n);
void acp_reply_deinit(struct acp_reply *reply);

/* A turn of a history. System messages are not told; results of calls complete them (tool_call_update). */
void acp_update_turn(struct acp_out *out, const char *session, const struct confab_turn *turn);

/* UTC, as in 2026-11-22T01:32:36.439Z. */
void acp_put_time(struct json *j, uint64_t usec);
