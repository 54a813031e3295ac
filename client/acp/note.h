/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Private to ACP: what it notes about a conversation, so that session/list finds it: the tag ACP_TAG, and the
 * editor's folder as the member "cwd" of the metadata. Other tags and members are other programs', and stay.
 */
#include "client/acp/rpc.h"

#define ACP_TAG "acp"
/* A session that was never prompted is closed after so many seconds: editors open one for each window. */
#define ACP_EMPTY_EXPIRES (7u * 24 * 3600)

bool acp_note_has_tag(const struct confab_about *about);
/* The folder noted in @metadata (may be NULL), to be freed; *ret is NULL if there is none. 0, -ERR_NOMEM. */
int acp_note_cwd(const char *metadata, char **ret);
/* @metadata (may be NULL) with @cwd in it, to be freed. Metadata that is no JSON object of moderate depth gives way.
 * 0, -ERR_NOMEM. */
int acp_note_metadata(const char *metadata, const char *cwd, char **ret);
