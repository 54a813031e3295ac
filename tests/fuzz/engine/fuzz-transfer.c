/* SPDX-License-Identifier: MIT */
/* The parser of export files on any bytes; then on the same bytes with checksums and sizes that
 * fit, so that what lies behind them is reached too. */
#include <stdlib.h>
#include <string.h>

#include "engine/verbs/transfer-format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_VOCAB = 1000, MAX_SIZE = 1 << 20 };

static void put(uint8_t *p, uint64_t v, size_t n) {
        for (size_t i = 0; i < n; i++)
                p[i] = (uint8_t)(v >> (8 * i));
}

/* What was accepted keeps its promises, and goes out as it came in. */
static void check(const struct xfer_header *h, const struct xfer_transcript *t,
        const uint8_t *transcript, size_t size) {
        struct xfer_header out = *h;
        struct transcript all = {.memory = t->tokens};
        struct buf again = BUF_NULL;
        uint64_t texts = (uint64_t)h->tools_size + h->noted_size;
        uint32_t end = 0;

        for (uint32_t i = 0; i < h->n_turns; i++) {
                if (t->turns[i].start != end || t->turns[i].end <= end)
                        abort();
                end = t->turns[i].end;
                texts += t->turns[i].text_size + (t->turns[i].extra ? t->turns[i].extra_size : 0);
        }
        if (end != h->n_tokens || texts != h->texts_size)
                abort();
        for (uint32_t i = 0; i < h->n_tokens; i++)
                if (t->tokens[i] < 0 || t->tokens[i] >= N_VOCAB)
                        abort();
        out.sampling = t->sampling;
        if (xfer_transcript_format(
                    &again, &out, t->name, t->tools, t->about, t->turns, &all, NULL) == 0 &&
                (again.size != size || memcmp(again.data, transcript, size) != 0))
                abort();
        buf_deinit(&again);
}

static void parse(const uint8_t *data, size_t size, uint64_t file_size) {
        struct xfer_transcript t;
        struct xfer_header h;
        uint64_t n;

        if (xfer_header_parse(data, size, file_size, &h, NULL) < 0)
                return;
        if (xfer_file_size(&h) != file_size)
                abort();
        n = xfer_transcript_size(&h) + 8;
        if (size - XFER_HEADER_SIZE < n)
                return;
        if (xfer_transcript_parse(&h, data + XFER_HEADER_SIZE, (size_t)n, N_VOCAB, &t, NULL) < 0)
                return;
        check(&h, &t, data + XFER_HEADER_SIZE, (size_t)n);
        xfer_transcript_deinit(&t);
}

/* The size that the header's fields give, whatever they are; wraps as it likes. */
static uint64_t sum_up(const uint8_t *data, unsigned turn_size, uint64_t *ret_transcript) {
        uint32_t tokens, turns, blocks, name, biases;
        uint64_t block, texts;

        memcpy(&tokens, data + 40, 4);
        memcpy(&turns, data + 44, 4);
        memcpy(&blocks, data + 52, 4);
        memcpy(&block, data + 56, 8);
        memcpy(&name, data + 64, 4);
        memcpy(&biases, data + 68, 4);
        memcpy(&texts, data + 72, 8);
        *ret_transcript = name + (uint64_t)biases * 8 + (uint64_t)turns * turn_size +
                          (uint64_t)tokens * 4 + texts;
        return XFER_HEADER_SIZE + *ret_transcript + 8 + blocks * (block + 8) + XFER_TRAILER_SIZE;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        uint64_t transcript, file_size;
        uint8_t *copy;
        bool noted;

        parse(data, size, size);
        if (size < XFER_HEADER_SIZE || size > MAX_SIZE)
                return 0;
        copy = malloc(size);
        if (!copy)
                return 0;
        memcpy(copy, data, size);
        /* As a file with notes and without memory, as one with tools, and as one without. */
        noted = copy[4] == 6;
        if (noted)
                memset(copy + 52, 0, 4);
        memcpy(copy, noted ? "cEXP\6\0" : copy[4] & 4 ? "cEXP\4\0" : "cEXP\1\0", 6);
        file_size = sum_up(copy, copy[4] & 4 ? 40 : 32, &transcript);
        put(copy + 8, file_size, 8);
        memset(copy + 132, 0, 144 - 132);
        memset(copy + (copy[4] & 4 ? 148 : 144), 0,
                (noted ? 176 : 248) - (copy[4] & 4 ? 148 : 144));
        if (noted)
                memset(copy + 180, 0, 248 - 180);
        put(copy + 248, hash64(copy, 248, 0), 8);
        if (transcript <= size - XFER_HEADER_SIZE && size - XFER_HEADER_SIZE - transcript >= 8)
                put(copy + XFER_HEADER_SIZE + transcript,
                        hash64(copy + XFER_HEADER_SIZE, (size_t)transcript, 0), 8);
        parse(copy, size, file_size);
        free(copy);
        return 0;
}
