/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Where a user's programs find confabd, unless they are told: $CONFAB_SOCKET; the user's own socket, in $XDG_RUNTIME_DIR, if
 * there is one; the system's. A user who has started a daemon of their own means that one, and the service of a machine is
 * always there. The command looks in these places, and the gateway that is started by hand (--open), the Python package and
 * the Node package.
 */

/* To be freed; NULL without memory. Whether somebody listens there is not looked at. Any thread. */
char *socket_path_find(void);
