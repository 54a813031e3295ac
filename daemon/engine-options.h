/* SPDX-License-Identifier: MIT */
#pragma once
/* What the settings say to the engine. */
#include "engine/engine.h"

struct settings;

/* Borrows the texts of @s. Without progress. */
struct engine_options engine_options_of(const struct settings *s);
