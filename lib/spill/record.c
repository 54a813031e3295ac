/* SPDX-License-Identifier: MIT */
#include "spill/record.h"

#include <inttypes.h>
#include <string.h>

#include "base/cursor.h"
#include "base/err.h"
#include "base/hash.h"
#include "spill/codec.h"
#include "spill/codec/checksum.h"

enum {
        RECORD_MAGIC = 0x72564b63, /* "cKVr" */
        RECORD_VERSION = 3,
        FIXED_SIZE = 64,
        HASH_SIZE = 8,
};

void spill_record_format(const struct spill_record *rec, uint8_t *out) {
        size_t size = spill_header_size(rec->n_sections);
        uint8_t *p = out;

        memset(out, 0, size);
        p = put_le(p, RECORD_MAGIC, 4);
        p = put_le(p, RECORD_VERSION, 2);
        p = put_le(p, rec->n_sections, 2);
        p = put_le(p, rec->fingerprint.weights, 8);
        p = put_le(p, rec->fingerprint.rules, 8);
        p = put_le(p, rec->meta.class_id, 4);
        p = put_le(p, rec->meta.position, 4);
        p = put_le(p, rec->meta.n_tokens, 4);
        p = put_le(p, 0, 4);
        p = put_le(p, rec->meta.token_hash, 8);
        p = put_le(p, rec->raw_size, 8);
        p = put_le(p, rec->payload_size, 8);
        for (size_t i = 0; i < rec->n_sections; i++) {
                const struct spill_section *sec = &rec->sections[i];

                p = put_le(p, sec->raw_size, 4);
                p = put_le(p, sec->stored_size, 4);
                p = put_le(p, sec->codec, 4);
                p = put_le(p, 0, 4);
                p = put_le(p, sec->hash, 8);
        }
        put_le(out + size - HASH_SIZE, hash64(out, size - HASH_SIZE, 0), HASH_SIZE);
}

/* Magic, version and number of sections, upon which all else rests; then the checksum. */
static int parse_frame(const uint8_t *data, size_t size, size_t max_sections, size_t *ret_n,
        size_t *ret_size, struct err *e) {
        struct cursor c = {data, data + size};
        uint32_t magic;
        uint16_t version, n;
        uint64_t hash;

        if (size < FIXED_SIZE || cursor_u32(&c, &magic) || cursor_u16(&c, &version) ||
                cursor_u16(&c, &n))
                return err_set(e, ERR_CORRUPT, "the header ends early");
        if (magic != RECORD_MAGIC)
                return err_set(e, ERR_CORRUPT, "no record here (magic %08" PRIx32 ")", magic);
        if (version != RECORD_VERSION)
                return err_set(e, ERR_CORRUPT, "record version %u is not known", version);
        if (n < 1 || n > SPILL_MAX_SECTIONS || n > max_sections)
                return err_set(e, ERR_CORRUPT, "a record of %u sections cannot be", n);
        if (size < spill_header_size(n))
                return err_set(e, ERR_CORRUPT, "the header ends early");
        size = spill_header_size(n);
        c = (struct cursor){data + size - HASH_SIZE, data + size};
        if (cursor_u64(&c, &hash) || hash != hash64(data, size - HASH_SIZE, 0))
                return err_set(e, ERR_CORRUPT, "the header checksum does not match");
        *ret_n = n;
        *ret_size = size;
        return 0;
}

static int parse_section(
        struct cursor *c, size_t i, uint64_t offset, struct spill_section *ret, struct err *e) {
        struct spill_section sec = {.offset = (uint32_t)offset};
        uint32_t codec, zero;

        if (cursor_u32(c, &sec.raw_size) || cursor_u32(c, &sec.stored_size) ||
                cursor_u32(c, &codec) || cursor_u32(c, &zero) || cursor_u64(c, &sec.hash))
                return err_set(e, ERR_CORRUPT, "the header ends early");
        if (zero != 0)
                return err_set(e, ERR_CORRUPT, "reserved header bytes are not zero");
        if (codec > UINT16_MAX || !spill_codec_find(codec))
                return err_set(e, ERR_CORRUPT, "codec %" PRIu32 " is not known", codec);
        sec.codec = (uint16_t)codec;
        if (sec.raw_size < 1 || sec.raw_size > SPILL_RAW_MAX || sec.stored_size < 1 ||
                (codec == SPILL_CODEC_RAW
                                ? sec.stored_size != sec.raw_size
                                : sec.stored_size > spill_section_encoded_max(sec.raw_size)))
                return err_set(e, ERR_CORRUPT,
                        "payload size %" PRIu32 " of section %zu does not go with raw size "
                        "%" PRIu32,
                        sec.stored_size, i, sec.raw_size);
        *ret = sec;
        return 0;
}

/* The directory, from @c; the sums must be those of @rec. */
static int parse_sections(struct cursor *c, struct spill_record *rec, struct err *e) {
        uint64_t raw_size = 0, payload_size = 0;
        bool is_raw = true;
        size_t n = rec->n_sections;

        if (rec->raw_size < 1 || rec->raw_size > SPILL_RAW_MAX)
                return err_set(
                        e, ERR_CORRUPT, "raw size %" PRIu64 " is out of range", rec->raw_size);
        for (size_t i = 0; i < n; i++) {
                struct spill_section *sec = &rec->sections[i];
                int r = parse_section(c, i, spill_header_size(n) + payload_size, sec, e);

                if (r < 0)
                        return r;
                raw_size += sec->raw_size;
                payload_size += sec->stored_size;
                is_raw = is_raw && sec->codec == SPILL_CODEC_RAW;
                /* Also keeps the offset of the next one in its 32 bits. */
                if (raw_size > rec->raw_size)
                        break;
        }
        if (raw_size != rec->raw_size || payload_size != rec->payload_size)
                return err_set(
                        e, ERR_CORRUPT, "the sizes of the sections do not make the record's");
        if (!is_raw &&
                spill_record_stored_size(n, payload_size) >= spill_record_stored_size(n, raw_size))
                return err_set(e, ERR_CORRUPT,
                        "payload size %" PRIu64 " does not go with raw size %" PRIu64, payload_size,
                        raw_size);
        return 0;
}

int spill_record_parse(const uint8_t *data, size_t size, struct spill_section *sections,
        size_t max_sections, struct spill_record *ret, struct err *e) {
        struct spill_record rec = {.sections = sections};
        struct cursor c;
        uint32_t zero;
        uint8_t b;
        int r;

        r = parse_frame(data, size, max_sections, &rec.n_sections, &size, e);
        if (r < 0)
                return r;
        c = (struct cursor){data + 8, data + size - HASH_SIZE};
        if (cursor_u64(&c, &rec.fingerprint.weights) || cursor_u64(&c, &rec.fingerprint.rules) ||
                cursor_u32(&c, &rec.meta.class_id) || cursor_u32(&c, &rec.meta.position) ||
                cursor_u32(&c, &rec.meta.n_tokens) || cursor_u32(&c, &zero) ||
                cursor_u64(&c, &rec.meta.token_hash) || cursor_u64(&c, &rec.raw_size) ||
                cursor_u64(&c, &rec.payload_size))
                return err_set(e, ERR_CORRUPT, "the header ends early");
        r = parse_sections(&c, &rec, e);
        if (r < 0)
                return r;
        while (zero == 0 && cursor_u8(&c, &b) == 0)
                zero = b;
        if (zero != 0)
                return err_set(e, ERR_CORRUPT, "reserved header bytes are not zero");
        *ret = rec;
        return 0;
}

static int match_sections(
        const struct spill_record *rec, const uint64_t *section_ends, struct err *e) {
        uint64_t end = 0;

        for (size_t i = 0; i < rec->n_sections; i++) {
                end += rec->sections[i].raw_size;
                if (end != section_ends[i])
                        return err_set(e, ERR_CORRUPT,
                                "section %zu ends at %" PRIu64 ", not at %" PRIu64, i, end,
                                section_ends[i]);
        }
        return 0;
}

int spill_record_match(const struct spill_record *rec, const struct fingerprint *fingerprint,
        const struct spill_meta *meta, const struct spill_ref *ref, const uint64_t *section_ends,
        struct err *e) {
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
        if (spill_record_stored_size(rec->n_sections, rec->payload_size) != ref->stored_size)
                return err_set(e, ERR_CORRUPT, "a payload of %" PRIu64 " bytes is not %" PRIu64,
                        rec->payload_size, ref->stored_size);
        return section_ends ? match_sections(rec, section_ends, e) : 0;
}

int spill_section_verify(const struct spill_section *sec, const void *payload, struct err *e) {
        if (spill_checksum(payload, sec->stored_size) != sec->hash)
                return err_set(e, ERR_CORRUPT, "the payload checksum does not match");
        return 0;
}

int spill_section_decode(const struct spill_section *sec, const void *payload, void *dst,
        const struct spill_array *arrays, size_t n_arrays, void *scratch, struct err *e) {
        const struct spill_codec *codec = spill_codec_find(sec->codec);

        if (codec->decode(dst, sec->raw_size, payload, sec->stored_size, arrays, n_arrays, scratch))
                return err_set(
                        e, ERR_CORRUPT, "the payload does not decode (codec %s)", codec->name);
        return 0;
}
