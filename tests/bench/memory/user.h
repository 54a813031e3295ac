/* SPDX-License-Identifier: MIT */
#pragma once
/* Connections of the measuring clients, as one user or another. */
#include "client/confab.h"

/* @user: NULL or "-", who runs this; "uid:N", this process becomes that user, which only root can; "tenant:NAME", of who
 * runs this. The caller frees the connection. Whatever fails ends the program. */
struct confab *user_connect(const char *socket, const char *user);
/* Do @r and wait for its end; @fn may be NULL. An error ends the program. */
void user_call(
        struct confab *c, const struct confab_request *r, confab_event_fn fn, void *userdata);
