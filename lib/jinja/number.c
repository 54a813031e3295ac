/* SPDX-License-Identifier: MIT */
#include "jinja/number.h"
#include "base/util.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool parse_int(const char *text, size_t n, int base, int64_t *ret) {
        bool negative = n > 0 && text[0] == '-';
        size_t i = n > 0 && (text[0] == '-' || text[0] == '+') ? 1 : 0;
        int64_t v = 0;

        if (i == n)
                return false;
        for (; i < n; i++) {
                char c = text[i];
                int d = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' ? (c | 32) - 'a' + 10 : 99;

                if (d >= base || __builtin_mul_overflow(v, base, &v) ||
                        __builtin_add_overflow(v, negative ? -d : d, &v))
                        return false;
        }
        *ret = v;
        return true;
}

double parse_double(const char *text, size_t n) {
        char copy[NUMBER_SIZE];
        size_t k = MIN(n, sizeof(copy) - 1);

        memcpy(copy, text, k);
        copy[k] = 0;
        return strtod(copy, NULL);
}

bool looks_like_double(const char *text, size_t n) {
        static const char *const words[] = {"inf", "infinity", "nan"};
        size_t i = n > 0 && (text[0] == '-' || text[0] == '+') ? 1 : 0, digits = 0;

        for (size_t w = 0; w < ARRAY_SIZE(words); w++)
                if (n - i == strlen(words[w]) && strncasecmp(text + i, words[w], n - i) == 0)
                        return true;
        for (; i < n && text[i] >= '0' && text[i] <= '9'; i++)
                digits++;
        if (i < n && text[i] == '.')
                for (i++; i < n && text[i] >= '0' && text[i] <= '9'; i++)
                        digits++;
        if (digits == 0 || i == n || (text[i] | 32) != 'e')
                return digits > 0 && i == n;
        i++;
        if (i < n && (text[i] == '-' || text[i] == '+'))
                i++;
        for (digits = 0; i < n && text[i] >= '0' && text[i] <= '9'; i++)
                digits++;
        return digits > 0 && i == n;
}

size_t format_double(double v, char out[NUMBER_SIZE]) {
        char text[40], digits[24];
        int exponent, n_digits = 0, precision = 0;
        size_t n = 0;

        if (!isfinite(v))
                return (size_t)snprintf(out, NUMBER_SIZE, "%s",
                        isnan(v) ? "nan"
                        : v < 0  ? "-inf"
                                 : "inf");
        do
                snprintf(text, sizeof(text), "%.*e", precision, v);
        while (strtod(text, NULL) != v && ++precision < 17);
        exponent = atoi(strchr(text, 'e') + 1);
        for (const char *p = text; *p != 'e'; p++)
                if (*p >= '0' && *p <= '9')
                        digits[n_digits++] = *p;
        if (signbit(v))
                out[n++] = '-';
        if (exponent < -4 || exponent >= 16) {
                n += (size_t)snprintf(out + n, NUMBER_SIZE - n, "%c%s%.*se%c%02d", digits[0],
                        n_digits > 1 ? "." : "", n_digits - 1, digits + 1, exponent < 0 ? '-' : '+',
                        abs(exponent));
                return n;
        }
        if (exponent < 0) {
                n += (size_t)snprintf(out + n, NUMBER_SIZE - n, "0.%.*s%.*s", -exponent - 1, "000",
                        n_digits, digits);
                return n;
        }
        for (int i = 0; i <= exponent; i++)
                out[n++] = i < n_digits ? digits[i] : '0';
        out[n++] = '.';
        if (n_digits <= exponent + 1)
                out[n++] = '0';
        for (int i = exponent + 1; i < n_digits; i++)
                out[n++] = digits[i];
        out[n] = 0;
        return n;
}

size_t format_int(int64_t v, char out[NUMBER_SIZE]) {
        return (size_t)snprintf(out, NUMBER_SIZE, "%lld", (long long)v);
}
