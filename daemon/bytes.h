/* SPDX-License-Identifier: MIT */
#pragma once
/* Sizes for people: "4.7 GiB", "335.0 MiB", "12 bytes". Any thread. */
#include <stdint.h>

struct bytes_text {
        char text[24];
};
struct bytes_text bytes_text(uint64_t n);
#define BYTES_TEXT(n) (bytes_text(n).text)
