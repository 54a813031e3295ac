/* SPDX-License-Identifier: MIT */
#pragma once
/* The vectors of products by many tokens, as wide as the flags of the compilation allow. */
#ifdef __AVX512BW__
#include "kern/x86/vec512.h"
#else
#include "kern/x86/vec256.h"
#endif
