/* SPDX-License-Identifier: MIT */
/* The kernels in plain C: they define what the others compute. */
#include <stdbool.h>
#include <string.h>

#include "spill/codec/freqs.h"
#include "spill/codec/kernels.h"
#include "spill/codec/plain.h"
#include "spill/codec/spread.h"

static inline uint32_t load_word(const uint8_t *p) {
        uint16_t w;

        memcpy(&w, p, 2);
        return w;
}

/* One value of one lane: look up, take the symbol's share off the state, refill from @word.
 * Returns the slot's entry. */
static inline __attribute__((always_inline)) uint32_t step(
        uint32_t *state, const uint32_t *slots, uint32_t table, uint32_t word, size_t *ret_taken) {
        uint32_t x = *state, e = slots[table << KV_BITS | (x & (KV_SLOTS - 1))], low;

        /* Without a branch: which lane wants a word is as random as the data. */
        x = (e & 0xfff) * (x >> KV_BITS) + (e >> 12 & 0xfff);
        low = 0u - (uint32_t)(x < KV_LOW);
        *ret_taken = low & 2;
        *state = x << (low & 16) | (word & low);
        return e;
}

static inline __attribute__((always_inline)) void put(
        const struct kv_piece *p, enum kv_kind kind, size_t i, uint32_t e) {
        switch (kind) {
        case KV_F16:
                p->dst[2 * i] = p->low[i];
                p->dst[2 * i + 1] = (uint8_t)(e >> 24);
                break;
        case KV_F32:
                p->dst[4 * i] = p->low[2 * i];
                p->dst[4 * i + 1] = p->low[2 * i + 1];
                p->dst[4 * i + 2] = p->mid[i];
                p->dst[4 * i + 3] = (uint8_t)(e >> 24);
                break;
        default:
                p->dst[i] = (uint8_t)(e >> 24);
        }
}

static inline __attribute__((always_inline)) size_t decode(
        struct kv_reader *r, const struct kv_piece *p, enum kv_kind kind, size_t n) {
        uint32_t state[KV_LANES], e[KV_LANES];
        size_t pos = r->pos, taken;

        /* The copies are what the compiler knows dst not to overlap. */
        for (size_t i = 0; i < KV_LANES; i++)
                state[i] = (uint32_t)r->high[i] << 16 | r->low[i];
        for (; p->n - n >= KV_LANES; n += KV_LANES) {
                if (pos > r->limit || r->limit - pos < KV_GROUP_WORDS)
                        break;
                for (size_t i = 0; i < KV_LANES; i++) {
                        e[i] = step(&state[i], r->slots, p->tables[n + i], load_word(r->src + pos),
                                &taken);
                        pos += taken;
                }
                for (size_t i = 0; i < KV_LANES; i++)
                        put(p, kind, n + i, e[i]);
        }
        for (size_t i = 0; i < KV_LANES; i++) {
                r->low[i] = (uint16_t)state[i];
                r->high[i] = (uint16_t)(state[i] >> 16);
        }
        r->pos = pos;
        return n;
}

static size_t decode_f16(struct kv_reader *r, const struct kv_piece *p, size_t from) {
        return decode(r, p, KV_F16, from);
}

static size_t decode_f32(struct kv_reader *r, const struct kv_piece *p, size_t from) {
        return decode(r, p, KV_F32, from);
}

static size_t decode_i8(struct kv_reader *r, const struct kv_piece *p, size_t from) {
        return decode(r, p, KV_I8, from);
}

/* One after the other: 64 states are more than this machine has registers and multipliers for. */
static size_t decode_two(struct kv_reader *const r[2], const struct kv_piece *const p[2]) {
        return 0;
}

void kv_decode_rest(struct kv_reader *r, const struct kv_piece *p, enum kv_kind kind, size_t from) {
        /* A word from behind the end is 0; that too many were taken is found out at the end. */
        for (size_t i = from; i < p->n; i++) {
                bool inside = r->limit >= 2 && r->pos <= r->limit - 2;
                uint32_t word = inside ? load_word(r->src + r->pos) : 0;
                size_t lane = i % KV_LANES, taken;
                uint32_t state = (uint32_t)r->high[lane] << 16 | r->low[lane];

                put(p, kind, i, step(&state, r->slots, p->tables[i], word, &taken));
                r->low[lane] = (uint16_t)state;
                r->high[lane] = (uint16_t)(state >> 16);
                r->pos += taken;
        }
}

static inline uint32_t encode_step(
        const struct kv_writer *w, uint32_t x, kv_place at, size_t *pos) {
        uint32_t info = w->info[at], freq = info & 0xfff, q;
        uint32_t spill = x >= freq << (31 - KV_BITS);
        uint16_t word = (uint16_t)x;

        /* In any case; what is not needed is overwritten by the next. */
        memcpy(w->words + *pos - 2, &word, 2);
        *pos -= 2 * spill;
        x >>= 16 * spill;
        q = (uint32_t)(((uint64_t)x * w->rcp[at]) >> (31 + (info >> 12 & 15)));
        return x + q * (KV_SLOTS - freq) + (info >> 16);
}

void kv_encode_rest(struct kv_writer *w, const kv_place *places, size_t n) {
        while (n-- > 0)
                w->state[n] = encode_step(w, w->state[n], places[n], &w->pos);
}

static void encode(struct kv_writer *w, const kv_place *places, size_t n) {
        uint32_t state[KV_LANES];
        size_t pos = w->pos;

        memcpy(state, w->state, sizeof(state));
        for (; n > 0; n -= KV_LANES)
                for (size_t i = KV_LANES; i-- > 0;)
                        state[i] = encode_step(w, state[i], places[n - KV_LANES + i], &pos);
        memcpy(w->state, state, sizeof(state));
        w->pos = pos;
}

static void choose(
        const uint16_t cost[256][KV_CLASSES], const struct kv_tile *t, uint8_t *classes) {
        size_t n = t->n_tokens < KV_SUM_TOKENS ? t->n_tokens : KV_SUM_TOKENS;
        size_t step = t->channel_major ? 1 : t->n_channels;

        for (size_t c = 0; c < t->n_channels; c++) {
                const uint8_t *s = t->symbols + c * (t->channel_major ? t->n_tokens : 1);
                uint32_t sum[KV_CLASSES] = {0}, best = UINT32_MAX;

                for (size_t i = 0; i < n; i++, s += step)
                        for (size_t k = 0; k < KV_CLASSES; k++)
                                sum[k] += cost[*s][k];
                for (uint32_t k = 0; k < KV_CLASSES; k++) {
                        uint32_t each = sum[k] << 3 | k;

                        best = each < best ? each : best;
                }
                classes[c] = best & 7;
        }
}

static void slots(struct kv_table *t, uint32_t *to) {
        kv_table_freqs(t);
        for (unsigned i = 0; i < t->n; i++) {
                uint32_t freq = t->freq[i], e = (uint32_t)t->symbol[i] << 24 | freq;

                /* What goes too far is overwritten by the next. */
                for (uint32_t j = 0; j < freq; j += 8)
                        for (uint32_t k = 0; k < 8; k++)
                                to[j + k] = e + ((j + k) << 12);
                to += freq;
        }
}

void kv_kernels_generic(struct kv_kernels *k) {
        for (size_t i = 0; i < KV_N_KINDS; i++)
                k->decode_two[i] = decode_two;
        k->decode[KV_F16] = decode_f16;
        k->decode[KV_F32] = decode_f32;
        k->decode[KV_I8] = decode_i8;
        k->symbols = symbols;
        k->keep = keep;
        k->choose = choose;
        k->places = places;
        k->encode = encode;
        k->slots = slots;
        k->spread = spread;
}
