/* SPDX-License-Identifier: MIT */
#include "spill/record.h"

#include <inttypes.h>
#include <string.h>

#include "base/cursor.h"
#include "base/err.h"
#include "base/hash.h"
#include "spill/codec.h"

enum {
        RECORD_MAGIC = 0x72564b63, /* "cKVr" */
        RECORD_VERSION = 1,
        OFFSET_ZEROS = 72,
        OFFSET_HASH = 120,
};

static uint8_t *put(uint8_t *p, uint64_t v, size_t n) {
        for (size_t i = 0; i < n; i++)
                p[i] = (uint8_t)(v >> (8 * i));
        return p + n;
}

void spill_record_format(const struct spill_record *rec, uint8_t out[SPILL_HEADER_SIZE]) {
        uint8_t *p = out;

        memset(out, 0, SPILL_HEADER_SIZE);
        p = put(p, RECORD_MAGIC, 4);
        p = put(p, RECORD_VERSION, 2);
        p = put(p, rec->codec, 2);
        p = put(p, rec->fingerprint.weights, 8);
        p = put(p, rec->fingerprint.rules, 8);
        p = put(p, rec->meta.class_id, 4);
        p = put(p, rec->meta.position, 4);
        p = put(p, rec->meta.n_tokens, 4);
        p = put(p, 0, 4);
        p = put(p, rec->meta.token_hash, 8);
        p = put(p, rec->raw_size, 8);
        p = put(p, rec->payload_size, 8);
        put(p, rec->payload_hash, 8);
        put(out + OFFSET_HASH, hash64(out, OFFSET_HASH, 0), 8);
}

size_t spill_record_encoded_max(size_t raw_size) {
        uint64_t raw_stored = spill_record_stored_size(raw_size), by_pages;
        size_t by_gain = raw_size - (raw_size + 63) / 64;

        if (raw_stored == SPILL_ALIGN)
                return 0;
        by_pages = raw_stored - SPILL_ALIGN - SPILL_HEADER_SIZE;
        return by_pages < by_gain ? (size_t)by_pages : by_gain;
}

static int check_sizes(const struct spill_record *rec, struct err *e) {
        uint64_t max;

        if (rec->raw_size < 1 || rec->raw_size > SPILL_RAW_MAX)
                return err_set(
                        e, ERR_CORRUPT, "raw size %" PRIu64 " is out of range", rec->raw_size);
        max = rec->codec == SPILL_CODEC_RAW ? rec->raw_size
                                            : spill_record_encoded_max(rec->raw_size);
        if (rec->payload_size < 1 || rec->payload_size > max ||
                (rec->codec == SPILL_CODEC_RAW && rec->payload_size != rec->raw_size))
                return err_set(e, ERR_CORRUPT,
                        "payload size %" PRIu64 " does not go with raw size %" PRIu64,
                        rec->payload_size, rec->raw_size);
        return 0;
}

int spill_record_parse(const uint8_t *data, size_t size, struct spill_record *ret, struct err *e) {
        static const uint8_t zeros[OFFSET_HASH - OFFSET_ZEROS];
        struct cursor c = {data, data + size};
        struct spill_record rec;
        uint32_t magic, zero;
        uint64_t hash;
        uint16_t version, codec;
        const uint8_t *rest;
        int r;

        if (size < SPILL_HEADER_SIZE)
                return err_set(e, ERR_CORRUPT, "the header ends early");
        r = cursor_u32(&c, &magic) | cursor_u16(&c, &version) | cursor_u16(&c, &codec) |
            cursor_u64(&c, &rec.fingerprint.weights) | cursor_u64(&c, &rec.fingerprint.rules) |
            cursor_u32(&c, &rec.meta.class_id) | cursor_u32(&c, &rec.meta.position) |
            cursor_u32(&c, &rec.meta.n_tokens) | cursor_u32(&c, &zero) |
            cursor_u64(&c, &rec.meta.token_hash) | cursor_u64(&c, &rec.raw_size) |
            cursor_u64(&c, &rec.payload_size) | cursor_u64(&c, &rec.payload_hash) |
            cursor_bytes(&c, sizeof(zeros), &rest) | cursor_u64(&c, &hash);
        if (r)
                return err_set(e, ERR_CORRUPT, "the header ends early");
        if (magic != RECORD_MAGIC)
                return err_set(e, ERR_CORRUPT, "no record here (magic %08" PRIx32 ")", magic);
        if (version != RECORD_VERSION)
                return err_set(e, ERR_CORRUPT, "record version %u is not known", version);
        if (hash != hash64(data, OFFSET_HASH, 0))
                return err_set(e, ERR_CORRUPT, "the header checksum does not match");
        if (zero != 0 || memcmp(rest, zeros, sizeof(zeros)) != 0)
                return err_set(e, ERR_CORRUPT, "reserved header bytes are not zero");
        if (!spill_codec_find(codec))
                return err_set(e, ERR_CORRUPT, "codec %u is not known", codec);
        rec.codec = codec;
        r = check_sizes(&rec, e);
        if (r < 0)
                return r;
        *ret = rec;
        return 0;
}

int spill_record_match(const struct spill_record *rec, const struct fingerprint *fingerprint,
        const struct spill_meta *meta, const struct spill_ref *ref, struct err *e) {
        const struct spill_meta *m = &rec->meta;

        if (!fingerprint_equal(&rec->fingerprint, fingerprint))
                return err_set(e, ERR_CORRUPT, "the record belongs to another model");
        if (m->class_id != meta->class_id || m->position != meta->position)
                return err_set(e, ERR_CORRUPT, "holds block %u of class %u, not %u of %u",
                        m->position, m->class_id, meta->position, meta->class_id);
        if (m->n_tokens != meta->n_tokens || m->token_hash != meta->token_hash)
                return err_set(e, ERR_CORRUPT,
                        "holds %u tokens with hash %016" PRIx64 ", not %u with %016" PRIx64,
                        m->n_tokens, m->token_hash, meta->n_tokens, meta->token_hash);
        if (rec->raw_size != ref->raw_size)
                return err_set(e, ERR_CORRUPT, "holds %" PRIu64 " raw bytes, not %" PRIu64,
                        rec->raw_size, ref->raw_size);
        if (spill_record_stored_size(rec->payload_size) != ref->stored_size)
                return err_set(e, ERR_CORRUPT, "a payload of %" PRIu64 " bytes is not %" PRIu64,
                        rec->payload_size, ref->stored_size);
        return 0;
}

int spill_record_verify(const struct spill_record *rec, const void *payload, struct err *e) {
        if (hash64(payload, rec->payload_size, 0) != rec->payload_hash)
                return err_set(e, ERR_CORRUPT, "the payload checksum does not match");
        return 0;
}

int spill_record_decode(
        const struct spill_record *rec, const void *payload, void *dst, struct err *e) {
        const struct spill_codec *codec = spill_codec_find(rec->codec);

        if (codec->decode(dst, rec->raw_size, payload, rec->payload_size))
                return err_set(
                        e, ERR_CORRUPT, "the payload does not decode (codec %s)", codec->name);
        return 0;
}
