/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Where a user's programs find confabd, unless they are told: $CONFAB_SOCKET; the system's socket, if it may be used; the
 * user's own, in $XDG_RUNTIME_DIR. The command looks there, and the gateway that is started by hand (--open).
 */

/* To be freed; NULL without memory. Whether somebody listens there is not looked at. Any thread. */
char *socket_path_find(void);
