/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to ACP: what session/new, load, resume and fork have in common. */
#include "client/acp/agent.h"

/* Check cwd, which they require, and mcpServers, which are not used. *ret_cwd is borrowed from @params. 0 or -1. */
int acp_session_params(struct acp_call *call, const struct json_value *params, const char **ret_cwd,
        struct acp_failure *failure);
