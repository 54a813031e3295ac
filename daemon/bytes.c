/* SPDX-License-Identifier: MIT */
#include "daemon/bytes.h"
#include <stdio.h>

struct bytes_text bytes_text(uint64_t n) {
        static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
        struct bytes_text t;
        double v = (double)n / 1024;
        unsigned i = 0;

        for (; v >= 1023.95 && i < 3; i++)
                v /= 1024;
        if (n < 1024)
                snprintf(t.text, sizeof(t.text), "%llu bytes", (unsigned long long)n);
        else
                snprintf(t.text, sizeof(t.text), "%.1f %s", v, units[i]);
        return t;
}
