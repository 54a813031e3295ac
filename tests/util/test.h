/* SPDX-License-Identifier: MIT */
#pragma once
/* cmocka.h must come after these four, so their order is not the formatter's to change. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
