/* SPDX-License-Identifier: MIT */
/* Sampling defaults as columns: NULL is unset; biases are one blob of int32 and float pairs. */
#include "base/util.h"
#include "store/store-private.h"
#include <math.h>
#include <string.h>

/* SQLite has no NaN: it would come back as "unset". */
int sampling_check(const struct sampling *s, struct err *e) {
        const float floats[] = {s->temperature, s->top_p, s->min_p, s->repetition_penalty,
                s->presence_penalty, s->frequency_penalty};
        static const uint32_t bits[] = {SAMPLING_TEMPERATURE, SAMPLING_TOP_P, SAMPLING_MIN_P,
                SAMPLING_REPETITION, SAMPLING_PRESENCE, SAMPLING_FREQUENCY};

        for (size_t i = 0; i < ARRAY_SIZE(floats); i++)
                if ((s->has & bits[i]) && isnan(floats[i]))
                        return err_set(e, ERR_INVALID, "a sampling setting is not a number");
        if (!(s->has & SAMPLING_BIASES))
                return 0;
        if (s->n_biases > SAMPLING_MAX_BIASES)
                return err_set(e, ERR_INVALID, "more than %d biases", SAMPLING_MAX_BIASES);
        for (uint32_t i = 0; i < s->n_biases; i++)
                if (isnan(s->biases[i].bias))
                        return err_set(e, ERR_INVALID, "a bias is not a number");
        return 0;
}

static void put_le32(uint8_t *p, uint32_t v) {
        p[0] = (uint8_t)v;
        p[1] = (uint8_t)(v >> 8);
        p[2] = (uint8_t)(v >> 16);
        p[3] = (uint8_t)(v >> 24);
}

void sampling_bind(struct query *q, const struct sampling *s, uint8_t *blob) {
#define OPTIONAL(bit, call)                                                                        \
        if (s->has & (bit))                                                                        \
                call;                                                                              \
        else                                                                                       \
                query_bind_null(q)
        OPTIONAL(SAMPLING_TEMPERATURE, query_bind_float(q, s->temperature));
        OPTIONAL(SAMPLING_TOP_K, query_bind_i64(q, s->top_k));
        OPTIONAL(SAMPLING_TOP_P, query_bind_float(q, s->top_p));
        OPTIONAL(SAMPLING_MIN_P, query_bind_float(q, s->min_p));
        OPTIONAL(SAMPLING_REPETITION, query_bind_float(q, s->repetition_penalty));
        OPTIONAL(SAMPLING_PRESENCE, query_bind_float(q, s->presence_penalty));
        OPTIONAL(SAMPLING_FREQUENCY, query_bind_float(q, s->frequency_penalty));
        OPTIONAL(SAMPLING_LAST_N, query_bind_i64(q, s->penalty_last_n));
        OPTIONAL(SAMPLING_SEED, query_bind_u64(q, s->seed));
        for (uint32_t i = 0; (s->has & SAMPLING_BIASES) && i < s->n_biases; i++) {
                uint32_t bits;

                memcpy(&bits, &s->biases[i].bias, sizeof(bits));
                put_le32(blob + 8 * i, (uint32_t)s->biases[i].token);
                put_le32(blob + 8 * i + 4, bits);
        }
        OPTIONAL(SAMPLING_BIASES, query_bind_blob(q, blob, (size_t)s->n_biases * 8));
#undef OPTIONAL
}

static void read_biases(struct query *q, int col, struct sampling *s) {
        size_t n;
        const uint8_t *p = query_bytes(q, col, &n);

        if (n % 8 || n > SAMPLING_BLOB_SIZE) {
                query_bad(q, col);
                return;
        }
        s->has |= SAMPLING_BIASES;
        s->n_biases = (uint32_t)(n / 8);
        for (uint32_t i = 0; i < s->n_biases; i++) {
                uint32_t bits = load_le32(p + 8 * i + 4);

                s->biases[i].token = (int32_t)load_le32(p + 8 * i);
                memcpy(&s->biases[i].bias, &bits, sizeof(bits));
                if (isnan(s->biases[i].bias))
                        query_bad(q, col);
        }
}

void sampling_read(struct query *q, int col, struct sampling *s) {
#define OPTIONAL(bit, field, call)                                                                 \
        if (!query_is_null(q, col)) {                                                              \
                s->has |= (bit);                                                                   \
                s->field = call(q, col);                                                           \
        }                                                                                          \
        col++
        *s = (struct sampling){};
        OPTIONAL(SAMPLING_TEMPERATURE, temperature, query_float);
        OPTIONAL(SAMPLING_TOP_K, top_k, query_u32);
        OPTIONAL(SAMPLING_TOP_P, top_p, query_float);
        OPTIONAL(SAMPLING_MIN_P, min_p, query_float);
        OPTIONAL(SAMPLING_REPETITION, repetition_penalty, query_float);
        OPTIONAL(SAMPLING_PRESENCE, presence_penalty, query_float);
        OPTIONAL(SAMPLING_FREQUENCY, frequency_penalty, query_float);
        OPTIONAL(SAMPLING_LAST_N, penalty_last_n, query_u32);
        OPTIONAL(SAMPLING_SEED, seed, query_u64);
#undef OPTIONAL
        if (!query_is_null(q, col))
                read_biases(q, col, s);
}
