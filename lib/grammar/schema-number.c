/* SPDX-License-Identifier: MIT */
/*
 * Numbers between bounds, digit by digit. Magnitudes are written without a sign; a range that has
 * negative numbers is cut at zero. With bounds a number has no exponent, and at most MAX_FRACTION
 * digits behind those that the bounds have.
 */
#include "base/util.h"
#include "grammar/schema.h"
#include <string.h>

#define PLAIN_DIGITS 16 /* of a number on the side where it has no bound */
#define MAX_FRACTION 16

static void take_bound(struct schema *s, struct bounds *b, uint32_t node, bool low, bool open) {
        const struct dom *d = &s->dom;
        struct decimal x;
        int c;

        if (d->nodes[node].kind != DOM_NUMBER) {
                schema_fail(s, ERR_INVALID, node, "must be a number");
                return;
        }
        if (!decimal_parse(&x, dom_text(d, node), d->nodes[node].text_size)) {
                schema_fail(s, ERR_UNSUPPORTED, node, "a bound of more than 40 digits");
                return;
        }
        if (low) {
                c = b->has_low ? decimal_compare(&x, &b->low) : 1;
                if (c > 0 || (c == 0 && open)) {
                        b->low = x;
                        b->low_open = open;
                        b->low_node = node;
                }
                b->has_low = true;
        } else {
                c = b->has_high ? decimal_compare(&x, &b->high) : -1;
                if (c < 0 || (c == 0 && open)) {
                        b->high = x;
                        b->high_open = open;
                        b->high_node = node;
                }
                b->has_high = true;
        }
}

static void take_bounds(struct schema *s, struct bounds *b, const struct item *i, bool low) {
        uint32_t closed = item_get(s, i, low ? "minimum" : "maximum");
        uint32_t open = item_get(s, i, low ? "exclusiveMinimum" : "exclusiveMaximum");
        bool flag = false; /* as in draft 4 */

        if (open != DOM_NONE && s->dom.nodes[open].kind == DOM_TRUE)
                flag = true;
        else if (open != DOM_NONE && s->dom.nodes[open].kind != DOM_FALSE)
                take_bound(s, b, open, low, true);
        if (closed != DOM_NONE)
                take_bound(s, b, closed, low, flag);
}

void bounds_find(struct schema *s, const struct all *a, struct bounds *ret) {
        *ret = (struct bounds){.has_low = false};
        for (uint32_t i = 0; i < a->n; i++) {
                take_bounds(s, ret, &a->items[i], true);
                take_bounds(s, ret, &a->items[i], false);
        }
}

bool bounds_hold(const struct bounds *b, const struct decimal *d) {
        int low = b->has_low ? decimal_compare(d, &b->low) : 1;
        int high = b->has_high ? decimal_compare(d, &b->high) : -1;

        return (low > 0 || (low == 0 && !b->low_open)) &&
               (high < 0 || (high == 0 && !b->high_open));
}

/* --- digits --- */

static uint32_t digits(struct build *b, int from, int to) {
        struct range r = {(uint32_t)('0' + from), (uint32_t)('0' + to)};

        return from > to ? NEVER : build_chars(b, &r, 1);
}

static uint32_t any_digits(struct build *b, uint32_t min, uint32_t max) {
        return build_repeat(b, digits(b, 0, 9), min, max);
}

static int digit_at(const char *text, unsigned n, unsigned i) {
        return i < n ? text[i] - '0' : 0;
}

/* Digits of the same length @n, from @low to @high (or NULL: no bound) from position @i on. */
static uint32_t same_length(
        struct build *b, const char *low, const char *high, unsigned n, unsigned i) {
        uint32_t kids[3], k = 0;
        int l = low ? low[i] - '0' : 0, h = high ? high[i] - '0' : 9;

        if (i == n)
                return EMPTY;
        if (!low && !high)
                return any_digits(b, n - i, n - i);
        if (low && high && l == h)
                return SEQ(b, digits(b, l, l), same_length(b, low, high, n, i + 1));
        if (low)
                kids[k++] = SEQ(b, digits(b, l, l), same_length(b, low, NULL, n, i + 1));
        if (high)
                kids[k++] = SEQ(b, digits(b, h, h), same_length(b, NULL, high, n, i + 1));
        if (l + (low != NULL) <= h - (high != NULL))
                kids[k++] = SEQ(b, digits(b, l + (low != NULL), h - (high != NULL)),
                        any_digits(b, n - i - 1, n - i - 1));
        return build_alt(b, kids, k);
}

/* A whole number as digits without zeros in front; zero has none. */
struct whole {
        char digits[DECIMAL_DIGITS + 1];
        unsigned n;
};

static int compare_wholes(const struct whole *a, const struct whole *b) {
        return a->n != b->n ? (a->n < b->n ? -1 : 1) : memcmp(a->digits, b->digits, a->n);
}

static void increment(struct whole *w) {
        unsigned i = w->n;

        while (i > 0 && w->digits[i - 1] == '9')
                w->digits[--i] = '0';
        if (i > 0) {
                w->digits[i - 1]++;
        } else {
                memmove(w->digits + 1, w->digits, w->n++);
                w->digits[0] = '1';
        }
}

static void decrement(struct whole *w) { /* above zero */
        unsigned i = w->n;

        while (w->digits[i - 1] == '0')
                w->digits[--i] = '9';
        w->digits[i - 1]--;
        if (w->digits[0] == '0')
                memmove(w->digits, w->digits + 1, --w->n);
}

/* Whole numbers from @low to @high. */
static uint32_t wholes(struct build *b, const struct whole *low, const struct whole *high) {
        uint32_t kids[DECIMAL_DIGITS + 3], k = 0;
        unsigned from = MAX(low->n, 1u);
        char first[DECIMAL_DIGITS + 1];

        if (compare_wholes(low, high) > 0)
                return NEVER;
        if (low->n == 0)
                kids[k++] = build_text(b, "0");
        memset(first, '0', sizeof(first));
        first[0] = '1';
        for (unsigned n = from; n <= high->n; n++)
                kids[k++] = same_length(b, n == low->n ? low->digits : first,
                        n == high->n ? high->digits : NULL, n, 0);
        return build_alt(b, kids, k);
}

/* --- fractions: ".digits" or nothing --- */

static uint32_t with_point(struct build *b, uint32_t digits_expr) {
        return SEQ(b, build_text(b, "."), digits_expr);
}

static uint32_t above(struct build *b, const struct decimal *low, bool open, unsigned i) {
        uint32_t kids[2], k = 0;
        int l = digit_at(low->frac_digits, low->n_frac, i);

        if (i >= low->n_frac && !open)
                return any_digits(b, 0, MAX_FRACTION);
        if (i >= low->n_frac) /* some digit is above 0 */
                return SEQ(b, build_repeat(b, digits(b, 0, 0), 0, MAX_FRACTION), digits(b, 1, 9),
                        any_digits(b, 0, MAX_FRACTION));
        kids[k++] = SEQ(b, digits(b, l, l), above(b, low, open, i + 1));
        if (l < 9)
                kids[k++] = SEQ(b, digits(b, l + 1, 9), any_digits(b, 0, MAX_FRACTION));
        return build_alt(b, kids, k);
}

/* @i digits were as in @high; the number may end if that is less, or equal and not open. */
static uint32_t below(struct build *b, const struct decimal *high, bool open, unsigned i) {
        uint32_t kids[3], k = 0;
        int h = digit_at(high->frac_digits, high->n_frac, i);

        if (i >= high->n_frac)
                return open ? NEVER : build_repeat(b, digits(b, 0, 0), 0, MAX_FRACTION);
        if (i > 0)
                kids[k++] = EMPTY;
        kids[k++] = SEQ(b, digits(b, h, h), below(b, high, open, i + 1));
        if (h > 0)
                kids[k++] = SEQ(b, digits(b, 0, h - 1), any_digits(b, 0, MAX_FRACTION));
        return build_alt(b, kids, k);
}

/* Between two fractions of the same whole number, from digit @i on; the digits before are equal. */
static uint32_t between(struct build *b, const struct bounds *x, unsigned i) {
        int l = digit_at(x->low.frac_digits, x->low.n_frac, i);
        int h = digit_at(x->high.frac_digits, x->high.n_frac, i);
        uint32_t kids[4], k = 0;

        if (i >= x->low.n_frac && i > 0 && !x->low_open && (i < x->high.n_frac || !x->high_open))
                kids[k++] = EMPTY;
        if (i >= x->low.n_frac && i >= x->high.n_frac) {
                if (!x->low_open && !x->high_open)
                        kids[k++] = build_repeat(b, digits(b, 0, 0), i == 0, MAX_FRACTION);
                return build_alt(b, kids, k);
        }
        if (l == h) {
                kids[k++] = SEQ(b, digits(b, l, l), between(b, x, i + 1));
                return build_alt(b, kids, k);
        }
        kids[k++] = SEQ(b, digits(b, l, l), above(b, &x->low, x->low_open, i + 1));
        kids[k++] = SEQ(b, digits(b, h, h), below(b, &x->high, x->high_open, i + 1));
        if (l + 1 < h)
                kids[k++] = SEQ(b, digits(b, l + 1, h - 1), any_digits(b, 0, MAX_FRACTION));
        return build_alt(b, kids, k);
}

static uint32_t fraction_above(struct build *b, const struct decimal *low, bool open) {
        uint32_t kids[2], k = 0;

        if (low->n_frac == 0 && !open)
                kids[k++] = EMPTY;
        /* a point needs a digit behind it */
        kids[k++] = low->n_frac == 0 && !open ? with_point(b, any_digits(b, 1, MAX_FRACTION))
                                              : with_point(b, above(b, low, open, 0));
        return build_alt(b, kids, k);
}

static uint32_t fraction_below(struct build *b, const struct decimal *high, bool open) {
        if (high->n_frac == 0)
                return open ? NEVER
                            : ALT(b, EMPTY,
                                      with_point(b,
                                              build_repeat(b, digits(b, 0, 0), 1, MAX_FRACTION)));
        return ALT(b, EMPTY, with_point(b, below(b, high, open, 0)));
}

static uint32_t fraction_between(struct build *b, const struct bounds *x) {
        uint32_t kids[2], k = 0;

        if (x->low.n_frac == 0 && !x->low_open && (x->high.n_frac > 0 || !x->high_open))
                kids[k++] = EMPTY;
        kids[k++] = with_point(b, between(b, x, 0));
        return build_alt(b, kids, k);
}

/* --- magnitudes --- */

static void whole_of(struct whole *w, const struct decimal *d) {
        w->n = d->n_int;
        memcpy(w->digits, d->int_digits, d->n_int);
}

/* Numbers from low to high, both not negative and given. */
static uint32_t magnitudes(struct build *b, const struct bounds *x) {
        struct whole low, high;
        uint32_t kids[3], k = 0, fraction;

        whole_of(&low, &x->low);
        whole_of(&high, &x->high);
        if (compare_wholes(&low, &high) == 0)
                return SEQ(b, wholes(b, &low, &low), fraction_between(b, x));
        kids[k++] = SEQ(b, wholes(b, &low, &low), fraction_above(b, &x->low, x->low_open));
        kids[k++] = SEQ(b, wholes(b, &high, &high), fraction_below(b, &x->high, x->high_open));
        increment(&low);
        decrement(&high);
        fraction = build_repeat(b, with_point(b, any_digits(b, 1, MAX_FRACTION)), 0, 1);
        kids[k++] = SEQ(b, wholes(b, &low, &high), fraction);
        return build_alt(b, kids, k);
}

static uint32_t whole_magnitudes(struct build *b, const struct bounds *x) {
        struct whole low, high;

        whole_of(&low, &x->low);
        whole_of(&high, &x->high);
        if (x->low.n_frac > 0 || x->low_open)
                increment(&low);
        if (x->high.n_frac == 0 && x->high_open) {
                if (high.n == 0)
                        return NEVER;
                decrement(&high);
        }
        return wholes(b, &low, &high);
}

/* Numbers on one side of zero. @x: bounds of the magnitude. */
static uint32_t side(struct build *b, const struct bounds *x, bool whole) {
        int c = decimal_compare(&x->low, &x->high);

        if (c > 0 || (c == 0 && (x->low_open || x->high_open)))
                return NEVER;
        return whole ? whole_magnitudes(b, x) : magnitudes(b, x);
}

static void far(struct decimal *d, unsigned n) {
        *d = (struct decimal){.n_int = (uint8_t)n};
        memset(d->int_digits, '9', n);
}

/* Fill in a bound where there is none: far behind the other one. */
static void close_bounds(struct bounds *x) {
        unsigned n = PLAIN_DIGITS;

        if (x->has_low)
                n = MAX(n, (unsigned)x->low.n_int);
        if (x->has_high)
                n = MAX(n, (unsigned)x->high.n_int);
        if (!x->has_low) {
                far(&x->low, n);
                x->low.negative = true;
        }
        if (!x->has_high)
                far(&x->high, n);
}

static uint32_t between_bounds(struct build *b, struct bounds *x, bool whole) {
        uint32_t kids[2], k = 0;
        struct bounds part;

        close_bounds(x);
        if (!x->high.negative) {
                part = *x;
                if (x->low.negative) {
                        part.low = (struct decimal){.n_int = 0};
                        part.low_open = false;
                }
                kids[k++] = side(b, &part, whole);
        }
        if (x->low.negative) {
                part = (struct bounds){.low = x->high, .high = x->low};
                part.low_open = x->high_open;
                part.high_open = x->low_open;
                part.low.negative = part.high.negative = false;
                if (!x->high.negative) { /* zero belongs to the other side */
                        part.low = (struct decimal){.n_int = 0};
                        part.low_open = true;
                }
                kids[k++] = SEQ(b, build_text(b, "-"), side(b, &part, whole));
        }
        return build_alt(b, kids, k);
}

/* multipleOf: only 1, which means a whole number. */
static bool is_whole(struct schema *s, const struct all *a) {
        static const struct decimal one = {.n_int = 1, .int_digits = "1"};
        bool whole = false;

        for (uint32_t i = 0; i < a->n; i++) {
                uint32_t node = item_get(s, &a->items[i], "multipleOf");
                struct decimal d;

                if (node == DOM_NONE)
                        continue;
                if (s->dom.nodes[node].kind != DOM_NUMBER ||
                        !decimal_parse(&d, dom_text(&s->dom, node), s->dom.nodes[node].text_size) ||
                        decimal_compare(&d, &one) != 0)
                        schema_fail(s, ERR_UNSUPPORTED, node, "only multiples of 1 are supported");
                whole = true;
        }
        return whole;
}

uint32_t schema_number(struct schema *s, const struct all *a, unsigned types) {
        bool whole = !(types & TYPE_FRACTION) || is_whole(s, a);
        struct bounds x;

        bounds_find(s, a, &x);
        if (s->b->failed)
                return NEVER;
        if (!x.has_low && !x.has_high)
                return whole ? s->integer : s->number;
        if (x.has_low && x.has_high) {
                int c = decimal_compare(&x.low, &x.high);

                if (c > 0 || (c == 0 && (x.low_open || x.high_open)))
                        return schema_never(
                                s, x.low_node, "the least number is above the greatest");
        }
        if (whole && x.has_low && x.has_high)
                (void)schema_never(s, x.low_node, "there is no whole number in these bounds");
        return between_bounds(s->b, &x, whole);
}
