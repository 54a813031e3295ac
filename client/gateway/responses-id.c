/* SPDX-License-Identifier: MIT */
#include "client/gateway/responses-id.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/util.h"
#include <string.h>

enum { MAX_BYTES = (RESPONSES_ID_SIZE - 6) / 2 };

static const char *const prefixes[] = {
        [RESPONSES_ID_RESPONSE] = "resp_",
        [RESPONSES_ID_CONVERSATION] = "conv_",
        [RESPONSES_ID_MESSAGE] = "msg_",
        [RESPONSES_ID_REASONING] = "rs_",
        [RESPONSES_ID_CALL] = "fc_",
        [RESPONSES_ID_RESULT] = "fco_",
};

/* ---- bytes ---- */

struct bytes {
        uint8_t data[MAX_BYTES];
        size_t n, at; /* at: read up to here */
        bool bad;
};

static void put_fixed(struct bytes *b, uint32_t value) {
        for (int i = 0; i < 4; i++)
                b->data[b->n++] = (uint8_t)(value >> (8 * i));
}

static void put_number(struct bytes *b, uint64_t value) {
        for (; value >= 0x80; value >>= 7)
                b->data[b->n++] = (uint8_t)(value | 0x80);
        b->data[b->n++] = (uint8_t)value;
}

static uint32_t take_fixed(struct bytes *b) {
        uint32_t value = 0;

        if (b->n - b->at < 4) {
                b->bad = true;
                return 0;
        }
        for (int i = 0; i < 4; i++)
                value |= (uint32_t)b->data[b->at++] << (8 * i);
        return value;
}

/* In its shortest form, at most @max. */
static uint64_t take_number(struct bytes *b, uint64_t max) {
        uint64_t value = 0;

        for (unsigned shift = 0; shift < 64 && b->at < b->n; shift += 7) {
                uint8_t byte = b->data[b->at++];

                value |= (uint64_t)(byte & 0x7f) << shift;
                if (byte & 0x80)
                        continue;
                b->bad = b->bad || value > max || (byte == 0 && shift > 0) ||
                         (shift == 63 && byte > 1);
                return value;
        }
        b->bad = true;
        return 0;
}

static uint32_t take_u32(struct bytes *b) {
        return (uint32_t)take_number(b, UINT32_MAX);
}

/* ---- text ---- */

static void write_hex(const struct bytes *b, char *ret) {
        static const char digits[] = "0123456789abcdef";

        for (size_t i = 0; i < b->n; i++) {
                *ret++ = digits[b->data[i] >> 4];
                *ret++ = digits[b->data[i] & 15];
        }
        *ret = '\0';
}

static int digit(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_hex(struct bytes *b, const char *text) {
        size_t n = strlen(text);

        if (n % 2 || n / 2 > sizeof(b->data))
                return false;
        for (size_t i = 0; i < n; i += 2) {
                int high = digit(text[i]), low = digit(text[i + 1]);

                if (high < 0 || low < 0)
                        return false;
                b->data[b->n++] = (uint8_t)(high << 4 | low);
        }
        return true;
}

/* ---- ids ---- */

void responses_id_encode(const struct responses_id *id, char ret[RESPONSES_ID_SIZE]) {
        const char *prefix = prefixes[id->kind];
        struct bytes b = {.n = 0};

        put_fixed(&b, id->daemon);
        put_number(&b, id->conversation);
        if (id->kind == RESPONSES_ID_RESPONSE) {
                put_number(&b, id->turn);
                put_number(&b, id->n_input);
                put_number(&b, id->n_new);
                put_number(&b, id->revision);
                put_number(&b, id->created);
                put_number(&b, id->instructions_size);
                put_number(&b, id->flags);
        } else if (responses_id_is_item(id)) {
                put_number(&b, id->turn);
                put_number(&b, id->part);
        }
        put_fixed(&b, id->check);
        memcpy(ret, prefix, strlen(prefix));
        write_hex(&b, ret + strlen(prefix));
}

static void take_response(struct responses_id *id, struct bytes *b) {
        id->turn = take_u32(b);
        id->n_input = take_u32(b);
        id->n_new = take_u32(b);
        id->revision = take_number(b, UINT64_MAX);
        id->created = take_number(b, UINT64_MAX);
        id->instructions_size = take_u32(b);
        id->flags = take_u32(b);
        b->bad = b->bad || id->n_input > id->turn || id->n_new > id->turn ||
                 id->flags & ~(uint32_t)RESPONSES_ALL_FLAGS;
}

int responses_id_decode(struct responses_id *ret, const char *text) {
        struct responses_id id = {0};
        struct bytes b = {.n = 0};
        size_t kind = 0;

        while (kind < ARRAY_SIZE(prefixes) &&
                strncmp(text, prefixes[kind], strlen(prefixes[kind])) != 0)
                kind++;
        if (kind == ARRAY_SIZE(prefixes) || !read_hex(&b, text + strlen(prefixes[kind])))
                return -ERR_NOT_FOUND;
        id.kind = (enum responses_id_kind)kind;
        id.daemon = take_fixed(&b);
        id.conversation = take_number(&b, UINT64_MAX);
        if (id.kind == RESPONSES_ID_RESPONSE) {
                take_response(&id, &b);
        } else if (responses_id_is_item(&id)) {
                id.turn = take_u32(&b);
                id.part = take_u32(&b);
        }
        id.check = take_fixed(&b);
        if (b.bad || b.at != b.n || id.conversation == 0)
                return -ERR_NOT_FOUND;
        *ret = id;
        return 0;
}

uint32_t responses_daemon(const char *socket) {
        return (uint32_t)hash64(socket, strlen(socket), 0);
}

uint32_t responses_check(uint64_t value) {
        uint8_t bytes[8];

        for (int i = 0; i < 8; i++)
                bytes[i] = (uint8_t)(value >> (8 * i));
        return (uint32_t)hash64(bytes, sizeof(bytes), 1);
}

uint32_t responses_check_turn(const struct confab_turn *turn) {
        return responses_check(turn->run ? turn->run->seed : turn->created_usec);
}
