/* SPDX-License-Identifier: MIT */
#pragma once
/* The engine's options, from the settings. */
#include "engine/engine.h"

struct settings;

/* Borrows the texts of @s. Without progress. */
struct engine_options engine_options_of(const struct settings *s);
