/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to ACP: a prompt becomes one text, and a text a title. */
#include "client/acp/rpc.h"

/* The text of the content blocks of a prompt, an array; NUL-terminated (it may have other NULs) and to be freed. 0, or -1 with
 * *failure, which names the block. */
int acp_content_text(
        const struct json_value *blocks, char **ret, size_t *ret_size, struct acp_failure *failure);

#define ACP_TITLE_COLUMNS 80
#define ACP_TITLE_SIZE 513 /* the daemon takes 512 bytes */
/* The first line of @text that has more than white space, cut to ACP_TITLE_COLUMNS as a terminal counts them;
 * without control characters. "" if there is none. */
void acp_content_title(char title[ACP_TITLE_SIZE], const char *text, size_t size);
