/* SPDX-License-Identifier: MIT */
#include "model/rope.h"

#include <stdlib.h>

#include "base/dmath.h"
#include "base/err.h"
#include "model/hparams.h"

#define TWO_PI 6.283185307179586476925
#define MAX_ANGLE 1073741824.0 /* 2^30, the range of dmath_sincos() */

/*
 * YaRN (Peng et al. 2023): pairs that turn often within the original context keep their frequency,
 * pairs that turn less than once are interpolated, with a linear ramp over the pair index between.
 */
struct yarn {
        double low, high;
};

/* The pair index, as a real number, that makes @turns turns within the original context. */
static double yarn_pair(const struct hparams_rope *p, double turns) {
        return p->n_rot * dmath_log(p->orig_context / (turns * TWO_PI)) /
               (2.0 * dmath_log(p->base));
}

static double clamp(double x, double low, double high) {
        return x < low ? low : x > high ? high : x;
}

static struct yarn yarn_ramp(const struct hparams_rope *p) {
        double low = yarn_pair(p, p->beta_fast), high = yarn_pair(p, p->beta_slow);

        /* Clamped before the conversions to integers, which are then exact floor and ceiling. */
        low = clamp(low, 0.0, p->n_rot);
        high = clamp(high, -1.0, p->n_rot - 1);
        low = (double)(int64_t)low;
        if ((double)(int64_t)high < high)
                high = (double)(int64_t)high + 1.0;
        else
                high = (double)(int64_t)high;
        return (struct yarn){low, high};
}

/* Share of the original frequency that pair @i keeps. */
static double yarn_keep(const struct yarn *y, uint32_t i) {
        double width = y->high - y->low;

        return 1.0 - clamp((i - y->low) / (width > 0.001 ? width : 0.001), 0.0, 1.0);
}

static double rope_magnitude(const struct hparams_rope *p) {
        double ln, net;

        if (p->scaling != HPARAMS_ROPE_YARN || p->factor <= 1.0 || p->plain_magnitude)
                return p->attn_factor;
        ln = dmath_log(p->factor);
        net = 1.0 + 0.1 * ln;
        if (p->log_multiplier != 0.0)
                net /= 1.0 + 0.1 * p->log_multiplier * ln;
        return net * p->attn_factor;
}

int rope_init(struct rope *ret, const struct hparams_rope *p, bool neox, const float *factors,
        uint32_t context, struct err *e) {
        uint32_t n = p->n_rot / 2;
        struct yarn yarn = {0};
        double *freq;

        if (p->scaling == HPARAMS_ROPE_YARN)
                yarn = yarn_ramp(p);
        freq = calloc(n, sizeof(*freq));
        if (!freq)
                return err_set(e, ERR_NOMEM, "no memory for %u rope frequencies", n);
        for (uint32_t i = 0; i < n; i++) {
                double f = dmath_pow(p->base, -2.0 * i / p->n_rot), keep = 0.0;

                if (factors)
                        f /= (double)factors[i];
                if (p->scaling == HPARAMS_ROPE_YARN)
                        keep = yarn_keep(&yarn, i);
                freq[i] = f / p->factor * (1.0 - keep) + f * keep;
                if (!(freq[i] >= 0.0 && freq[i] * context <= MAX_ANGLE)) {
                        free(freq);
                        return err_set(e, ERR_FORMAT,
                                "rope frequency %u is out of range (factor or scaling absurd)", i);
                }
        }
        *ret = (struct rope){
                .n_rot = p->n_rot, .neox = neox, .magnitude = rope_magnitude(p), .freq = freq};
        return 0;
}

void rope_deinit(struct rope *r) {
        free(r->freq);
        *r = ROPE_NULL;
}

void rope_table(const struct rope *r, const uint32_t *pos, size_t n, float *cos, float *sin) {
        uint32_t half = r->n_rot / 2;

        for (size_t t = 0; t < n; t++)
                for (uint32_t i = 0; i < half; i++) {
                        double s, c;

                        dmath_sincos(pos[t] * r->freq[i], &s, &c);
                        cos[t * half + i] = (float)(c * r->magnitude);
                        sin[t * half + i] = (float)(s * r->magnitude);
                }
}
