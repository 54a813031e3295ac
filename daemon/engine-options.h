/* SPDX-License-Identifier: MIT */
#pragma once
/* The engine's options, from the settings. */
#include "engine/engine.h"

struct settings;

/* Borrows the texts of @s. Without progress, and without the password of the remote store. */
struct engine_options engine_options_of(const struct settings *s);
/* Read that password from its file: what options.remote.password is to be while the engine is opened. *ret is to be freed by
 * secret_free(); untouched, if no remote store or no file is named. Fails as secret_read_line(). */
int engine_options_password(const struct settings *s, char **ret, struct err *e);
