/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Putting limits into force: after the settings, the overrides (quotas.h) or a user's groups have changed. Requests that come
 * from then on have the new limits, and the engine is told where they are about what it keeps for idle conversations.
 *
 * Loop thread only.
 */
struct daemon;
struct user;

void limits_of_user(struct daemon *d, struct user *user);
/* Of all users whom the daemon knows. */
void limits_of_all(struct daemon *d);
