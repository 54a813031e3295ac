/* SPDX-License-Identifier: MIT */
/*
 * The header:
 *
 *      0  u32 magic "cEXP"             48  u32 tokens per block
 *      4  u16 version (2 to 6)         52  u32 blocks, of all classes together
 *      6  u16 flags (1: private)       56  u64 bytes per block of SEQ_ALL; version 5: or 0
 *      8  u64 size of the file         64  u32 bytes of the name
 *     16  u64 fingerprint: weights     68  u32 logit biases
 *     24  u64 fingerprint: rules       72  u64 bytes of all texts
 *     32  u64 hash of the vocabulary   80  u64 created (µs since 1970)
 *     40  u32 tokens                   88  sampling settings, 44 bytes
 *     44  u32 turns                   132  u32 gap: from, u32 gap: to (version 3)
 *                                     140  u32 overflow: 0 error, 1 shift (version 3)
 *                                     144  u32 bytes of the definitions of tools (version 4)
 *                                     148  u32 position that the memory is for (version 5)
 *                                     152  u32 window, u32 chunk (version 5)
 *                                     160  u64 bytes per block of SEQ_WINDOW, or 0 (version 5)
 *                                     168  u64 bytes of a state, or 0 (version 5)
 *                                     176  u32 bytes of what is noted (version 6)
 *                                     180  zeros
 *                                     248  u64 XXH64 of bytes 0 .. 247
 *
 * Sampling: u32 mask of what is set (enum sampling_field), f32 temperature, top_p, min_p,
 * repetition, presence, frequency penalty, u32 top_k, u32 last_n, u64 seed; what is not set is 0.
 *
 * The transcript: the name; biases (i32 token, f32 bias); turns (u32 role, u32 start, u32 end, u32
 * finish, u64 bytes of text, u64 created; version 4: u64 1 + bytes of extra, 0: none); tokens (i32);
 * texts, one after the other; version 4: the definitions of tools, then the extras; version 6: what is
 * noted: u32 bytes of the title, u32 bytes of the metadata, u32 tags; for each tag its u32 bytes; then
 * title, metadata, tags. From version 6 on a file without classes of memory has zeros in their places.
 */
#include "engine/verbs/transfer-format.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "base/err.h"
#include "base/utf8.h"
#include "base/util.h"

enum {
        MAGIC = 0x50584563, /* "cEXP" */
        FLAG_PRIVATE = 1,
        OFFSET_GAP = 132,
        OFFSET_OVERFLOW = 140,
        OFFSET_TOOLS = 144,
        OFFSET_CLASSES = 148,
        OFFSET_NOTED = 176,
        OFFSET_ZEROS = 180,
        OFFSET_HASH = 248,
        BIAS_SIZE = 8,
        TURN_SIZE = 32,
        TURN_SIZE_TOOLS = 40,
        MAX_ROLE = 3, /* without tools */
        MAX_FINISH = 5,
};
#define SAMPLING_ALL ((SAMPLING_BIASES << 1) - 1)

uint64_t xfer_transcript_size(const struct xfer_header *h) {
        return h->name_size + (uint64_t)h->sampling.n_biases * BIAS_SIZE +
               (uint64_t)h->n_turns * (h->with_tools ? TURN_SIZE_TOOLS : TURN_SIZE) +
               (uint64_t)h->n_tokens * 4 + h->texts_size;
}

/* The cells of a class that the position needs: [*ret_first, *ret_first + n). */
static uint32_t n_cells(const struct xfer_header *h, enum seq_class c, uint32_t *ret_first) {
        uint32_t bt = h->shape.block_tokens, n = h->n_memory_tokens;
        uint32_t past = n / bt + (n % bt > 0);

        *ret_first = 0;
        if (h->shape.size[c] == 0 || n == 0)
                return 0;
        if (c == SEQ_STATE) {
                *ret_first = n - 1;
                return 1;
        }
        if (c == SEQ_WINDOW)
                *ret_first = MIN(seq_window_start(&h->shape, n) / bt, past);
        return past - *ret_first;
}

uint32_t xfer_n_cells(const struct xfer_header *h) {
        uint32_t n = 0, first;

        for (int c = 0; c < SEQ_N_CLASSES; c++)
                n += n_cells(h, (enum seq_class)c, &first);
        return n;
}

struct xfer_cell xfer_cell(const struct xfer_header *h, uint32_t i) {
        struct xfer_cell cell = {.class = SEQ_ALL};
        uint32_t first, n, ct;

        while (i >= (n = n_cells(h, cell.class, &first))) {
                i -= n;
                cell.class ++;
        }
        ct = seq_cell_tokens(&h->shape, cell.class);
        cell.index = first + i;
        cell.n_tokens = MIN(ct, h->n_memory_tokens - cell.index * ct);
        return cell;
}

uint64_t xfer_file_size(const struct xfer_header *h) {
        uint64_t size = XFER_HEADER_SIZE + xfer_transcript_size(h) + 8 + XFER_TRAILER_SIZE;
        uint32_t first;

        for (int c = 0; c < SEQ_N_CLASSES; c++)
                size += n_cells(h, (enum seq_class)c, &first) * (h->shape.size[c] + 8);
        return size;
}

static uint8_t *put_f32(uint8_t *p, bool is_set, float f) {
        uint32_t v = 0;

        if (is_set)
                memcpy(&v, &f, sizeof(v));
        return put_le(p, v, 4);
}

/* Does the hash of @size bytes stand behind them? */
static bool hash_fits(const uint8_t *data, size_t size) {
        struct cursor c = {data + size, data + size + 8};
        uint64_t hash = 0;

        return cursor_u64(&c, &hash) == 0 && hash64(data, size, 0) == hash;
}

/* --- header --- */

static uint8_t *format_sampling(uint8_t *p, const struct sampling *s) {
        p = put_le(p, s->has, 4);
        p = put_f32(p, s->has & SAMPLING_TEMPERATURE, s->temperature);
        p = put_f32(p, s->has & SAMPLING_TOP_P, s->top_p);
        p = put_f32(p, s->has & SAMPLING_MIN_P, s->min_p);
        p = put_f32(p, s->has & SAMPLING_REPETITION, s->repetition_penalty);
        p = put_f32(p, s->has & SAMPLING_PRESENCE, s->presence_penalty);
        p = put_f32(p, s->has & SAMPLING_FREQUENCY, s->frequency_penalty);
        p = put_le(p, s->has & SAMPLING_TOP_K ? s->top_k : 0, 4);
        p = put_le(p, s->has & SAMPLING_LAST_N ? s->penalty_last_n : 0, 4);
        return put_le(p, s->has & SAMPLING_SEED ? s->seed : 0, 8);
}

static unsigned version_of(const struct xfer_header *h) {
        if (h->noted_size > 0)
                return XFER_VERSION;
        if (xfer_has_classes(h))
                return XFER_VERSION_CLASSES;
        if (h->with_tools)
                return XFER_VERSION_TOOLS;
        return gap_is_none(&h->gap) && h->overflow == 0 ? XFER_VERSION_PLAIN : XFER_VERSION_GAP;
}

void xfer_header_format(const struct xfer_header *h, uint8_t out[XFER_HEADER_SIZE]) {
        uint8_t *p = out;

        memset(out, 0, XFER_HEADER_SIZE);
        p = put_le(p, MAGIC, 4);
        p = put_le(p, version_of(h), 2);
        p = put_le(p, h->is_private ? FLAG_PRIVATE : 0, 2);
        p = put_le(p, xfer_file_size(h), 8);
        p = put_le(p, h->model.weights, 8);
        p = put_le(p, h->model.rules, 8);
        p = put_le(p, h->vocab, 8);
        p = put_le(p, h->n_tokens, 4);
        p = put_le(p, h->n_turns, 4);
        p = put_le(p, h->shape.block_tokens, 4);
        p = put_le(p, xfer_n_cells(h), 4);
        p = put_le(p, h->shape.size[SEQ_ALL], 8);
        p = put_le(p, h->name_size, 4);
        p = put_le(p, h->sampling.n_biases, 4);
        p = put_le(p, h->texts_size, 8);
        p = put_le(p, h->created_usec, 8);
        p = format_sampling(p, &h->sampling);
        if (!gap_is_none(&h->gap)) {
                p = put_le(p, h->gap.from, 4);
                p = put_le(p, h->gap.to, 4);
        }
        put_le(out + OFFSET_OVERFLOW, h->overflow, 4);
        put_le(out + OFFSET_TOOLS, h->with_tools ? h->tools_size : 0, 4);
        if (version_of(h) >= XFER_VERSION_CLASSES) {
                p = put_le(out + OFFSET_CLASSES, h->n_memory_tokens, 4);
                p = put_le(p, h->shape.window, 4);
                p = put_le(p, h->shape.chunk, 4);
                p = put_le(p, h->shape.size[SEQ_WINDOW], 8);
                put_le(p, h->shape.size[SEQ_STATE], 8);
        }
        put_le(out + OFFSET_NOTED, h->noted_size, 4);
        put_le(out + OFFSET_HASH, hash64(out, OFFSET_HASH, 0), 8);
}

static int read_sampling(struct cursor *c, struct sampling *s) {
        return cursor_u32(c, &s->has) | cursor_f32(c, &s->temperature) | cursor_f32(c, &s->top_p) |
               cursor_f32(c, &s->min_p) | cursor_f32(c, &s->repetition_penalty) |
               cursor_f32(c, &s->presence_penalty) | cursor_f32(c, &s->frequency_penalty) |
               cursor_u32(c, &s->top_k) | cursor_u32(c, &s->penalty_last_n) |
               cursor_u64(c, &s->seed);
}

/* The classes of memory, and where it ends. */
static int check_memory(
        const struct xfer_header *h, unsigned version, uint32_t n_blocks, struct err *e) {
        const struct seq_shape *x = &h->shape;
        uint32_t n = h->n_tokens - gap_size(&h->gap);
        bool good = x->block_tokens >= 1 && x->block_tokens <= 65536 &&
                    (version >= XFER_VERSION ||
                            xfer_has_classes(h) == (version >= XFER_VERSION_CLASSES)) &&
                    !(x->window && x->chunk) &&
                    (x->size[SEQ_WINDOW] > 0) == (x->window || x->chunk);

        for (int c = 0; c < SEQ_N_CLASSES; c++)
                good = good && x->size[c] <= XFER_MAX_BLOCK;
        if (!good || x->size[SEQ_ALL] + x->size[SEQ_WINDOW] + x->size[SEQ_STATE] == 0)
                return err_set(e, ERR_FORMAT,
                        "the export file has memory of %zu, %zu and %zu bytes for %u tokens",
                        x->size[SEQ_ALL], x->size[SEQ_WINDOW], x->size[SEQ_STATE], x->block_tokens);
        /* Blocks of SEQ_ALL alone are full ones. */
        if (h->n_memory_tokens > n || xfer_n_cells(h) != n_blocks ||
                (!xfer_has_classes(h) && h->n_memory_tokens % x->block_tokens != 0))
                return err_set(e, ERR_FORMAT,
                        "the export file has %u blocks of memory for %u of %u tokens", n_blocks,
                        h->n_memory_tokens, n);
        return 0;
}

/* Each field is checked separately, so that sums of fields cannot overflow. */
static int check_ranges(const struct xfer_header *h, uint16_t flags, struct err *e) {
        if (flags & ~(unsigned)FLAG_PRIVATE)
                return err_set(e, ERR_FORMAT, "the export file has unknown flags %x", flags);
        if (h->name_size > STORE_NAME_MAX || h->texts_size > XFER_MAX_TEXTS ||
                h->sampling.n_biases > SAMPLING_MAX_BIASES || h->created_usec > INT64_MAX)
                return err_set(e, ERR_FORMAT, "the export file's header is out of range");
        if (h->n_turns > h->n_tokens || (h->n_turns == 0) != (h->n_tokens == 0))
                return err_set(e, ERR_FORMAT, "the export file has %u turns with %u tokens",
                        h->n_turns, h->n_tokens);
        if (!gap_is_possible(&h->gap, h->n_tokens) || h->overflow >= STORE_N_OVERFLOWS)
                return err_set(e, ERR_FORMAT,
                        "the export file has a gap from %u to %u in %u tokens, overflow %u",
                        h->gap.from, h->gap.to, h->n_tokens, h->overflow);
        if (h->tools_size > h->texts_size || h->noted_size > h->texts_size - h->tools_size)
                return err_set(e, ERR_FORMAT,
                        "the export file has definitions of %u bytes and notes of %u in texts of "
                        "%" PRIu64,
                        h->tools_size, h->noted_size, h->texts_size);
        if ((h->sampling.has & ~(unsigned)SAMPLING_ALL) ||
                (h->sampling.n_biases > 0 && !(h->sampling.has & SAMPLING_BIASES)))
                return err_set(e, ERR_FORMAT, "the export file has unknown sampling settings");
        return 0;
}

/* What versions 3 to 6 add. Returns where zeros begin, or 0. */
static size_t read_later(struct cursor *c, unsigned version, struct xfer_header *h) {
        uint64_t window = 0, state = 0;
        int r = 0;

        if (version <= XFER_VERSION_PLAIN)
                return OFFSET_GAP;
        r = cursor_u32(c, &h->gap.from) | cursor_u32(c, &h->gap.to) | cursor_u32(c, &h->overflow);
        if (version >= XFER_VERSION_TOOLS)
                r |= cursor_u32(c, &h->tools_size);
        if (version >= XFER_VERSION_CLASSES)
                r |= cursor_u32(c, &h->n_memory_tokens) | cursor_u32(c, &h->shape.window) |
                     cursor_u32(c, &h->shape.chunk) | cursor_u64(c, &window) |
                     cursor_u64(c, &state);
        if (version >= XFER_VERSION)
                r |= cursor_u32(c, &h->noted_size);
        h->shape.size[SEQ_WINDOW] = (size_t)window;
        h->shape.size[SEQ_STATE] = (size_t)state;
        if (r)
                return 0;
        return version >= XFER_VERSION           ? OFFSET_ZEROS
               : version >= XFER_VERSION_CLASSES ? OFFSET_NOTED
               : version >= XFER_VERSION_TOOLS   ? OFFSET_CLASSES
                                                 : OFFSET_TOOLS;
}

int xfer_header_parse(
        const uint8_t *data, size_t n, uint64_t file_size, struct xfer_header *ret, struct err *e) {
        struct cursor c = {data, data + MIN(n, (size_t)OFFSET_ZEROS)};
        size_t zeros;
        struct xfer_header h = {0};
        uint32_t magic = 0, n_blocks = 0;
        uint16_t version = 0, flags = 0;
        uint64_t size = 0, block_size = 0;
        int r;

        if (n < XFER_HEADER_SIZE || cursor_u32(&c, &magic) || magic != MAGIC)
                return err_set(e, ERR_FORMAT, "this is no export file");
        if (cursor_u16(&c, &version) || version < XFER_VERSION_OLDEST || version > XFER_VERSION)
                return err_set(e, version > XFER_VERSION ? ERR_UNSUPPORTED : ERR_FORMAT,
                        "export files of version %u are not known here", version);
        if (!hash_fits(data, OFFSET_HASH))
                return err_set(e, ERR_CORRUPT, "the export file's header is damaged");
        r = cursor_u16(&c, &flags) | cursor_u64(&c, &size) | cursor_u64(&c, &h.model.weights) |
            cursor_u64(&c, &h.model.rules) | cursor_u64(&c, &h.vocab) |
            cursor_u32(&c, &h.n_tokens) | cursor_u32(&c, &h.n_turns) |
            cursor_u32(&c, &h.shape.block_tokens) | cursor_u32(&c, &n_blocks) |
            cursor_u64(&c, &block_size) | cursor_u32(&c, &h.name_size) |
            cursor_u32(&c, &h.sampling.n_biases) | cursor_u64(&c, &h.texts_size) |
            cursor_u64(&c, &h.created_usec);
        r |= read_sampling(&c, &h.sampling);
        h.shape.size[SEQ_ALL] = (size_t)block_size;
        h.with_tools = version > XFER_VERSION_GAP;
        zeros = read_later(&c, version, &h);
        r |= zeros == 0;
        for (size_t i = zeros; i < OFFSET_HASH; i++)
                r |= data[i];
        if (r)
                return err_set(e, ERR_FORMAT, "the export file's header is malformed");
        h.is_private = flags & FLAG_PRIVATE;
        r = check_ranges(&h, flags, e);
        if (r == 0 && version < XFER_VERSION_CLASSES &&
                __builtin_mul_overflow(n_blocks, h.shape.block_tokens, &h.n_memory_tokens))
                h.n_memory_tokens = UINT32_MAX; /* more than it can have */
        if (r == 0)
                r = check_memory(&h, version, n_blocks, e);
        if (r < 0)
                return r;
        if (size != xfer_file_size(&h))
                return err_set(e, ERR_FORMAT, "the export file's header contradicts itself");
        if (size != file_size)
                return err_set(e, ERR_CORRUPT,
                        "the export file has %" PRIu64 " bytes instead of %" PRIu64, file_size,
                        size);
        *ret = h;
        return 0;
}

/* --- transcript --- */

static uint8_t *put_bytes(uint8_t *p, const char *s, size_t n) {
        if (n > 0)
                memcpy(p, s, n);
        return p + n;
}

static const char *noted_text(const struct about *about, enum about_field field, const char *s) {
        return about->has & field ? s : "";
}

uint32_t xfer_noted_size(const struct about *about) {
        size_t n, n_tags;

        if (!about || !(about->has & (ABOUT_TITLE | ABOUT_TAGS | ABOUT_METADATA)))
                return 0;
        n_tags = about->has & ABOUT_TAGS ? about->n_tags : 0;
        n = 12 + strlen(noted_text(about, ABOUT_TITLE, about->title)) +
            strlen(noted_text(about, ABOUT_METADATA, about->metadata));
        for (size_t i = 0; i < n_tags; i++)
                n += 4 + strlen(about->tags[i]);
        return (uint32_t)n; /* about_check() bounds it */
}

static uint8_t *format_noted(uint8_t *p, const struct about *about) {
        const char *title = noted_text(about, ABOUT_TITLE, about->title);
        const char *metadata = noted_text(about, ABOUT_METADATA, about->metadata);
        size_t n_tags = about->has & ABOUT_TAGS ? about->n_tags : 0;

        p = put_le(p, strlen(title), 4);
        p = put_le(p, strlen(metadata), 4);
        p = put_le(p, n_tags, 4);
        for (size_t i = 0; i < n_tags; i++)
                p = put_le(p, strlen(about->tags[i]), 4);
        p = put_bytes(p, title, strlen(title));
        p = put_bytes(p, metadata, strlen(metadata));
        for (size_t i = 0; i < n_tags; i++)
                p = put_bytes(p, about->tags[i], strlen(about->tags[i]));
        return p;
}

int xfer_transcript_format(struct buf *out, const struct xfer_header *h, const char *name,
        const char *tools, const struct about *about, const struct store_turn *turns,
        const struct transcript *tokens, struct err *e) {
        const struct sampling *s = &h->sampling;
        size_t size = (size_t)xfer_transcript_size(h), begin = out->size;
        uint8_t *p;

        if (buf_reserve(out, size + 8) < 0)
                return err_set(e, ERR_NOMEM, "no memory to export %zu bytes of text", size);
        p = out->data + begin;
        p = put_bytes(p, name, h->name_size);
        for (uint32_t i = 0; i < s->n_biases; i++) {
                p = put_le(p, (uint32_t)s->biases[i].token, 4);
                p = put_f32(p, true, s->biases[i].bias);
        }
        for (uint32_t i = 0; i < h->n_turns; i++) {
                const struct store_turn *t = &turns[i];

                p = put_le(p, t->role, 4);
                p = put_le(p, t->start, 4);
                p = put_le(p, t->end, 4);
                p = put_le(p, t->finish, 4);
                p = put_le(p, t->text_size, 8);
                p = put_le(p, t->created_usec, 8);
                if (h->with_tools)
                        p = put_le(p, t->extra ? t->extra_size + 1 : 0, 8);
        }
        for (uint32_t i = 0; i < h->n_tokens; i++)
                p = put_le(p, (uint32_t)transcript_token(tokens, i), 4);
        for (uint32_t i = 0; i < h->n_turns; i++)
                p = put_bytes(p, turns[i].text, turns[i].text_size);
        if (h->with_tools)
                p = put_bytes(p, tools, h->tools_size);
        for (uint32_t i = 0; i < h->n_turns && h->with_tools; i++)
                if (turns[i].extra)
                        p = put_bytes(p, turns[i].extra, turns[i].extra_size);
        if (h->noted_size > 0)
                p = format_noted(p, about);
        put_le(p, hash64(out->data + begin, size, 0), 8);
        out->size = begin + size + 8;
        return 0;
}

void xfer_transcript_deinit(struct xfer_transcript *t) {
        free(t->about);
        free(t->tools);
        free(t->turns);
        free(t->tokens);
        *t = (struct xfer_transcript){0};
}

static int parse_settings(
        struct cursor *c, const struct xfer_header *h, struct xfer_transcript *t, struct err *e) {
        const uint8_t *name;

        if (cursor_bytes(c, h->name_size, &name))
                return err_set(e, ERR_FORMAT, "the export file's name ends early");
        if (h->name_size > 0 && memchr(name, 0, h->name_size))
                return err_set(e, ERR_FORMAT, "the export file's name has a NUL");
        memcpy(t->name, name, h->name_size);
        t->sampling = h->sampling;
        for (uint32_t i = 0; i < h->sampling.n_biases; i++) {
                struct sampling_bias *b = &t->sampling.biases[i];
                uint32_t token;

                if (cursor_u32(c, &token) || cursor_f32(c, &b->bias))
                        return err_set(e, ERR_FORMAT, "the export file's biases end early");
                b->token = (int32_t)token;
        }
        return 0;
}

static bool turn_is_possible(
        const struct store_turn *t, uint32_t start, uint32_t n_tokens, bool with_tools) {
        return t->role <= MAX_ROLE + with_tools && t->finish <= MAX_FINISH && t->start == start &&
               t->end > start && t->end <= n_tokens && t->created_usec <= INT64_MAX &&
               (t->finish == 0 || t->role == 2 || t->role == 3); /* only replies have a finish */
}

static int parse_turns(
        struct cursor *c, const struct xfer_header *h, struct xfer_transcript *t, struct err *e) {
        uint64_t texts = (uint64_t)h->tools_size + h->noted_size;
        uint32_t end = 0;

        for (uint32_t i = 0; i < h->n_turns; i++) {
                struct store_turn *turn = &t->turns[i];
                uint64_t size, extra = 0;

                if (cursor_u32(c, &turn->role) || cursor_u32(c, &turn->start) ||
                        cursor_u32(c, &turn->end) || cursor_u32(c, &turn->finish) ||
                        cursor_u64(c, &size) || cursor_u64(c, &turn->created_usec) ||
                        (h->with_tools && cursor_u64(c, &extra)))
                        return err_set(e, ERR_FORMAT, "the export file's turns end early");
                turn->extra = extra > 0 ? "" : NULL;
                extra -= extra > 0;
                if (!turn_is_possible(turn, end, h->n_tokens, h->with_tools) ||
                        size > h->texts_size - texts || extra > h->texts_size - texts - size)
                        return err_set(
                                e, ERR_FORMAT, "turn %u of the export file is impossible", i);
                turn->text_size = (size_t)size;
                turn->extra_size = (size_t)extra;
                texts += size + extra;
                end = turn->end;
        }
        if (end != h->n_tokens || texts != h->texts_size)
                return err_set(e, ERR_FORMAT, "the export file's turns do not add up");
        return 0;
}

static int parse_tokens(struct cursor *c, const struct xfer_header *h, uint32_t n_vocab,
        struct xfer_transcript *t, struct err *e) {
        for (uint32_t i = 0; i < h->n_tokens; i++) {
                uint32_t token;

                if (cursor_u32(c, &token))
                        return err_set(e, ERR_FORMAT, "the export file's tokens end early");
                if (token >= n_vocab)
                        return err_set(e, ERR_FORMAT,
                                "token %u of the export file is not in the vocabulary", i);
                t->tokens[i] = (int32_t)token;
        }
        return 0;
}

static int parse_plain(struct cursor *c, size_t n, const char **ret, struct err *e) {
        const uint8_t *text;

        if (cursor_bytes(c, n, &text))
                return err_set(e, ERR_FORMAT, "the export file's texts end early");
        if (memchr(text, 0, n) || !utf8_valid(text, n))
                return err_set(
                        e, ERR_FORMAT, "what the export file has of tools is not UTF-8 text");
        *ret = (const char *)text;
        return 0;
}

/* Behind the texts of turns: the definitions of tools, and the extras. */
static int parse_tools(
        struct cursor *c, const struct xfer_header *h, struct xfer_transcript *t, struct err *e) {
        const char *tools = NULL;
        int r = 0;

        if (h->tools_size > 0) {
                r = parse_plain(c, h->tools_size, &tools, e);
                if (r == 0 && !(t->tools = text_dup(tools, h->tools_size)))
                        r = err_set(e, ERR_NOMEM, "no memory to import definitions of tools");
        }
        for (uint32_t i = 0; r == 0 && i < h->n_turns; i++)
                if (t->turns[i].extra)
                        r = parse_plain(c, t->turns[i].extra_size, &t->turns[i].extra, e);
        return r;
}

/* A copy of the next @size bytes as a string: it may not be longer than @most, nor have a NUL. */
static int parse_line(struct cursor *c, uint32_t size, size_t most, char *out, struct err *e) {
        const uint8_t *text;

        if (size > most || cursor_bytes(c, size, &text) || memchr(text, 0, size))
                return err_set(e, ERR_FORMAT, "what the export file notes is malformed");
        memcpy(out, text, size);
        out[size] = '\0';
        return 0;
}

struct noted_texts {
        char title[ABOUT_TITLE_MAX + 1], metadata[ABOUT_METADATA_MAX + 1];
        char tags[ABOUT_TAGS_MAX][ABOUT_TAG_MAX + 1];
        const char *places[ABOUT_TAGS_MAX];
};

static int take_noted(struct xfer_transcript *t, const struct about *a, struct err *e) {
        void *block;
        int r = about_check(a, e);

        if (r == -ERR_INVALID) {
                if (e)
                        e->code = ERR_FORMAT;
                return err_wrap(e, -ERR_FORMAT, "what the export file notes");
        }
        if (r < 0)
                return r;
        block = malloc(about_size(a));
        if (!block)
                return err_set(e, ERR_NOMEM, "no memory to import what is noted");
        t->about = about_put(block, a);
        return 0;
}

/* The rest of the transcript, of noted_size bytes. */
static int parse_noted(struct cursor *c, struct xfer_transcript *t, struct err *e) {
        uint32_t title = 0, metadata = 0, n_tags = 0, sizes[ABOUT_TAGS_MAX];
        struct noted_texts texts;
        struct about a = {.title = texts.title, .metadata = texts.metadata, .tags = texts.places};
        bool ends = cursor_u32(c, &title) | cursor_u32(c, &metadata) | cursor_u32(c, &n_tags);
        int r;

        if (ends || n_tags > ABOUT_TAGS_MAX)
                return err_set(e, ERR_FORMAT, "what the export file notes is malformed");
        for (uint32_t i = 0; i < n_tags; i++)
                if (cursor_u32(c, &sizes[i]))
                        return err_set(e, ERR_FORMAT, "what the export file notes ends early");
        r = parse_line(c, title, ABOUT_TITLE_MAX, texts.title, e);
        if (r == 0)
                r = parse_line(c, metadata, ABOUT_METADATA_MAX, texts.metadata, e);
        for (uint32_t i = 0; r == 0 && i < n_tags; i++) {
                r = parse_line(c, sizes[i], ABOUT_TAG_MAX, texts.tags[i], e);
                texts.places[i] = texts.tags[i];
        }
        if (r == 0 && cursor_left(c) > 0)
                r = err_set(e, ERR_FORMAT, "what the export file notes is malformed");
        if (r < 0)
                return r;
        a.n_tags = n_tags;
        a.has = (title > 0 ? ABOUT_TITLE : 0) | (metadata > 0 ? ABOUT_METADATA : 0) |
                (n_tags > 0 ? ABOUT_TAGS : 0);
        return take_noted(t, &a, e);
}

static int parse_texts(
        struct cursor *c, const struct xfer_header *h, struct xfer_transcript *t, struct err *e) {
        for (uint32_t i = 0; i < h->n_turns; i++) {
                const uint8_t *text;

                if (cursor_bytes(c, t->turns[i].text_size, &text))
                        return err_set(e, ERR_FORMAT, "the export file's texts end early");
                t->turns[i].text = (const char *)text;
        }
        return 0;
}

int xfer_transcript_parse(const struct xfer_header *h, const uint8_t *data, size_t n,
        uint32_t n_vocab, struct xfer_transcript *ret, struct err *e) {
        size_t size = (size_t)xfer_transcript_size(h);
        struct cursor c = {data, data + size};
        struct xfer_transcript t = {0};
        int r;

        if (n < 8 || n - 8 != size)
                return err_set(e, ERR_FORMAT, "the export file's transcript ends early");
        if (!hash_fits(data, size))
                return err_set(e, ERR_CORRUPT, "the export file's transcript is damaged");
        t.turns = calloc((size_t)h->n_turns + 1, sizeof(*t.turns));
        t.tokens = calloc((size_t)h->n_tokens + 1, sizeof(*t.tokens));
        r = t.turns && t.tokens
                    ? 0
                    : err_set(e, ERR_NOMEM, "no memory to import %u tokens", h->n_tokens);
        if (r == 0)
                r = parse_settings(&c, h, &t, e);
        if (r == 0)
                r = parse_turns(&c, h, &t, e);
        if (r == 0)
                r = parse_tokens(&c, h, n_vocab, &t, e);
        if (r == 0)
                r = parse_texts(&c, h, &t, e);
        if (r == 0)
                r = parse_tools(&c, h, &t, e);
        if (r == 0 && h->noted_size > 0)
                r = parse_noted(&c, &t, e);
        if (r < 0) {
                xfer_transcript_deinit(&t);
                return r;
        }
        *ret = t;
        return 0;
}

/* --- checksum and MAC --- */

void xfer_sum_init(struct xfer_sum *s, const uint8_t key[XFER_KEY_SIZE]) {
        hash64_init(&s->total, 0);
        crypto_generichash_init(&s->mac, key, XFER_KEY_SIZE, XFER_MAC_SIZE);
}

void xfer_sum_update(struct xfer_sum *s, const void *data, size_t n) {
        hash64_update(&s->total, data, n);
        crypto_generichash_update(&s->mac, data, n);
}

void xfer_sum_final(struct xfer_sum *s, uint8_t out[XFER_TRAILER_SIZE]) {
        put_le(out, hash64_digest(&s->total), 8);
        crypto_generichash_update(&s->mac, out, 8);
        crypto_generichash_final(&s->mac, out + 8, XFER_MAC_SIZE);
}

int xfer_trailer_check(const uint8_t *is, const uint8_t *should_be, bool *ret_ours, struct err *e) {
        if (memcmp(is, should_be, 8) != 0)
                return err_set(e, ERR_CORRUPT, "the export file is damaged");
        *ret_ours = sodium_memcmp(is + 8, should_be + 8, XFER_MAC_SIZE) == 0;
        return 0;
}
