/* SPDX-License-Identifier: MIT */
/*
 * The names of blocks in the remote store. All hashes are BLAKE2b (RFC 7693) with the owner's secret as the key:
 *
 *      digest[0]     = H("confab memory 1", weights, rules, conversation or 0)
 *      digest[i + 1] = H(digest[i], the tokens of block i)
 *      end           = H(digest[i], the n tokens of the last block) where a cell ends inside of a block, else digest[i]
 *      name          = H(end, class, index, n_tokens), 16 bytes
 *      contents      = H("confab contents 1", weights, rules, conversation), 16 bytes
 *
 * A seal is 16 random bytes and the tag of Poly1305 (RFC 8439) over the value, with a key that is used once:
 *
 *      key           = H("confab seal 1", name, the random bytes), 32 bytes
 *
 * Numbers are little-endian: 64 bits each, tokens 32. The fingerprint (weights, rules) covers everything that changes bits.
 */
#include <assert.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cursor.h"
#include "base/hash.h"
#include "engine/far/state.h"

static_assert(STORE_SECRET_SIZE >= crypto_generichash_KEYBYTES_MIN &&
                      STORE_SECRET_SIZE <= crypto_generichash_KEYBYTES_MAX &&
                      FAR_NAME_SIZE >= crypto_generichash_BYTES_MIN,
        "sizes");

struct hashing {
        crypto_generichash_state state;
        size_t size;
};

static void begin(struct hashing *h, const struct far_scope *scope, size_t size) {
        h->size = size;
        (void)crypto_generichash_init(&h->state, scope->secret, sizeof(scope->secret), size);
}

static void put(struct hashing *h, const void *p, size_t n) {
        (void)crypto_generichash_update(&h->state, p, n);
}

static void put_number(struct hashing *h, uint64_t v) {
        uint8_t bytes[8];

        (void)put_le(bytes, v, sizeof(bytes));
        put(h, bytes, sizeof(bytes));
}

static void put_tokens(struct hashing *h, const int32_t *tokens, size_t n) {
        for (size_t i = 0; i < n; i++) {
                uint8_t bytes[4];

                (void)put_le(bytes, (uint32_t)tokens[i], sizeof(bytes));
                put(h, bytes, sizeof(bytes));
        }
}

static void end(struct hashing *h, uint8_t *out) {
        (void)crypto_generichash_final(&h->state, out, h->size);
}

static void put_model(struct hashing *h, const struct engine *engine, const char *what) {
        put(h, what, strlen(what));
        put_number(h, engine->info.fingerprint.weights);
        put_number(h, engine->info.fingerprint.rules);
}

/* --- scopes --- */

/* Secrets that were read, so that not every request reads the register for one. An owner has one place. */
static struct known_secret *place_of(struct far *f, uint64_t owner) {
        return &f->secrets[hash64(&owner, sizeof(owner), 0) % ARRAY_SIZE(f->secrets)];
}

static bool recall_secret(struct far *f, uint64_t owner, uint8_t ret[STORE_SECRET_SIZE]) {
        const struct known_secret *known = place_of(f, owner);
        bool is;

        pthread_mutex_lock(&f->lock);
        is = known->is && known->owner == owner;
        if (is)
                memcpy(ret, known->secret, STORE_SECRET_SIZE);
        pthread_mutex_unlock(&f->lock);
        return is;
}

int far_scope(struct engine *engine, uint64_t owner, uint64_t conv, bool is_private,
        struct far_scope *ret, struct err *e) {
        struct far_scope scope = {.owner = owner, .conv = is_private ? conv : 0};
        struct known_secret *known = place_of(engine->far, owner);
        int r;

        if (!recall_secret(engine->far, owner, scope.secret)) {
                r = store_secret(engine->store, owner, scope.secret, e);
                if (r < 0)
                        return r;
                pthread_mutex_lock(&engine->far->lock);
                *known = (struct known_secret){.is = true, .owner = owner};
                memcpy(known->secret, scope.secret, sizeof(known->secret));
                pthread_mutex_unlock(&engine->far->lock);
        }
        *ret = scope;
        return 0;
}

/* --- names --- */

size_t far_names_size(const struct engine *engine, uint32_t n_tokens) {
        size_t n = n_tokens / engine->info.block_tokens + 1;

        return n * (FAR_DIGEST_SIZE + sizeof(uint64_t));
}

int far_names_make(const struct engine *engine, const struct far_scope *scope,
        const int32_t *tokens, uint32_t n_tokens, struct far_names *ret, struct err *e) {
        uint32_t bt = engine->info.block_tokens;
        struct far_names n = {
                .scope = scope, .tokens = tokens, .n_tokens = n_tokens, .n_blocks = n_tokens / bt};
        struct hashing h;

        n.digests = calloc(n.n_blocks + 1, sizeof(*n.digests));
        n.hashes = calloc(n.n_blocks + 1, sizeof(*n.hashes));
        if (!n.digests || !n.hashes) {
                far_names_deinit(&n);
                return err_set(e, ERR_NOMEM, "no memory to name %zu blocks", n.n_blocks);
        }
        begin(&h, scope, FAR_DIGEST_SIZE);
        put_model(&h, engine, "confab memory 1");
        put_number(&h, scope->conv);
        end(&h, n.digests[0]);
        for (size_t i = 0; i < n.n_blocks; i++) {
                n.hashes[i] =
                        conv_token_hash(tokens, bt, (uint32_t)i, bt, i > 0 ? n.hashes[i - 1] : 0);
                begin(&h, scope, FAR_DIGEST_SIZE);
                put(&h, n.digests[i], FAR_DIGEST_SIZE);
                put_tokens(&h, tokens + i * bt, bt);
                end(&h, n.digests[i + 1]);
        }
        *ret = n;
        return 0;
}

void far_names_deinit(struct far_names *n) {
        free(n->digests);
        free(n->hashes);
        *n = (struct far_names){0};
}

/* The digest of all tokens before @pos. */
static void digest_at(const struct engine *engine, const struct far_names *n, uint32_t pos,
        uint8_t ret[FAR_DIGEST_SIZE]) {
        uint32_t bt = engine->info.block_tokens;
        struct hashing h;

        if (pos % bt == 0) {
                memcpy(ret, n->digests[pos / bt], FAR_DIGEST_SIZE);
                return;
        }
        begin(&h, n->scope, FAR_DIGEST_SIZE);
        put(&h, n->digests[pos / bt], FAR_DIGEST_SIZE);
        put_tokens(&h, n->tokens + pos / bt * bt, pos % bt);
        end(&h, ret);
}

void far_names_cell(const struct engine *engine, const struct far_names *n, struct far_cell *cell) {
        uint32_t pos = far_cell_end(engine, cell);
        uint8_t digest[FAR_DIGEST_SIZE];
        struct hashing h;

        cell->token_hash = conv_hash_at(engine, n->tokens, n->hashes, pos);
        digest_at(engine, n, pos, digest);
        begin(&h, n->scope, FAR_NAME_SIZE);
        put(&h, digest, sizeof(digest));
        put_number(&h, cell->class);
        put_number(&h, cell->index);
        put_number(&h, cell->n_tokens);
        end(&h, cell->name.bytes);
}

static void format(const char *prefix, const struct far_name *name, struct remote_key *ret) {
        char hex[2 * FAR_NAME_SIZE + 1];

        (void)sodium_bin2hex(hex, sizeof(hex), name->bytes, sizeof(name->bytes));
        (void)snprintf(ret->text, sizeof(ret->text), "%s%s", prefix, hex);
}

void far_key(const struct far_name *name, struct remote_key *ret) {
        format("confab:m:", name, ret);
}

void far_contents_name(const struct engine *engine, const struct far_scope *scope, uint64_t conv,
        struct far_name *ret) {
        struct hashing h;

        begin(&h, scope, FAR_NAME_SIZE);
        put_model(&h, engine, "confab contents 1");
        put_number(&h, conv);
        end(&h, ret->bytes);
}

void far_contents_key(const struct far_name *name, struct remote_key *ret) {
        format("confab:c:", name, ret);
}

/* --- seals --- */

enum { NONCE_SIZE = FAR_SEAL_SIZE - crypto_onetimeauth_BYTES };

static void seal_key(const struct far_scope *scope, const struct far_name *name,
        const uint8_t nonce[NONCE_SIZE], uint8_t ret[crypto_onetimeauth_KEYBYTES]) {
        static const char what[] = "confab seal 1";
        struct hashing h;

        begin(&h, scope, crypto_onetimeauth_KEYBYTES);
        put(&h, what, strlen(what));
        put(&h, name->bytes, sizeof(name->bytes));
        put(&h, nonce, NONCE_SIZE);
        end(&h, ret);
}

int far_seal(const struct far_scope *scope, const struct far_name *name, const void *data,
        size_t size, uint8_t ret[FAR_SEAL_SIZE], struct err *e) {
        uint8_t key[crypto_onetimeauth_KEYBYTES];

        if (getrandom(ret, NONCE_SIZE, 0) != NONCE_SIZE)
                return err_set(e, ERR_SYS, "getrandom");
        seal_key(scope, name, ret, key);
        (void)crypto_onetimeauth(ret + NONCE_SIZE, data, size, key);
        return 0;
}

bool far_is_sealed(
        const struct far_scope *scope, const struct far_name *name, const void *data, size_t size) {
        uint8_t key[crypto_onetimeauth_KEYBYTES];
        const uint8_t *seal;

        if (size < FAR_SEAL_SIZE)
                return false;
        seal = (const uint8_t *)data + size - FAR_SEAL_SIZE;
        seal_key(scope, name, seal, key);
        return crypto_onetimeauth_verify(seal + NONCE_SIZE, data, size - FAR_SEAL_SIZE, key) == 0;
}
