/* SPDX-License-Identifier: MIT */
/*
 * A register whose rows anyone may have edited. The input is a sequence of edits of 12 bytes:
 * column, row, kind of value, and value. The register is made once; each input edits a copy, and
 * then every call is made on it. No call may crash or hang, and its results must be within their
 * bounds.
 */
#include <fcntl.h>
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/util.h"
#include "fuzz/check.h"
#include "store/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Nothing here has to survive a power cut. */
int fsync(int fd) {
        return 0;
}
int fdatasync(int fd) {
        return 0;
}

enum { N_TOKENS = 200, BLOCK = 32, EDIT = 12, MAX_EDITS = 32 };

/* Of the conversations of user 1 and of user 2. */
static const struct store_shape shapes[] = {
        {.block_tokens = BLOCK, .classes = 1u << STORE_CLASS_ALL},
        {.block_tokens = BLOCK, .classes = 7, .window = 70}};

static char dir[64], path[96];
static char *template;
static size_t template_size;

static void clean_up(void) {
        static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
        char name[128];

        for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
                snprintf(name, sizeof(name), "%s%s", path, suffixes[i]);
                unlink(name);
        }
}

static void remove_all(void) {
        clean_up();
        rmdir(dir);
}

static void make_conv(struct store *s, uint64_t owner, const char *name) {
        struct store_conv c = {.owner = owner}, child = {0};
        struct store_turn turns[4] = {0};
        static const struct store_cell more[] = {{1, 0}, {1, 3}, {1, 4}, {1, 5}, {2, 63}, {2, 191}};
        struct store_record links[N_TOKENS / BLOCK + ARRAY_SIZE(more)] = {0};
        struct store_gone gone = {0};
        struct fingerprint model = {11, 12};
        int32_t tokens[N_TOKENS];
        uint64_t hash = 0;
        size_t n = N_TOKENS / BLOCK;

        snprintf(c.name, sizeof(c.name), "%s", name);
        for (uint32_t i = 0; i < N_TOKENS; i++)
                tokens[i] = (int32_t)(i * owner);
        for (uint32_t i = 0; i < 4; i++)
                turns[i] = (struct store_turn){.role = i % 4,
                        .start = 50 * i,
                        .end = 50 * i + 50,
                        .text = "what was said",
                        .text_size = 13};
        check(store_conv_create(s, &c, turns, 4, tokens, N_TOKENS, NULL) == 0);
        for (uint32_t i = 0; i < n; i++) {
                hash = hash64_chain_tokens(tokens + BLOCK * i, BLOCK, hash);
                links[i] = (struct store_record){.file_key = c.id,
                        .offset = 4096 * i,
                        .stored_size = 4096,
                        .raw_size = 8192,
                        .index = i,
                        .n_tokens = BLOCK,
                        .token_hash = hash};
        }
        for (size_t i = 0; i < ARRAY_SIZE(more) && owner == 2; i++, n++) {
                uint32_t ct = store_cell_tokens(&shapes[1], more[i].block_class);

                links[n] = links[(more[i].index + 1) * ct / BLOCK - 1];
                links[n].offset = 4096 * n;
                links[n].block_class = more[i].block_class;
                links[n].index = more[i].index;
                links[n].n_tokens = ct;
        }
        check(store_link(s, c.id, &model, &shapes[owner - 1], links, n, NULL, 0, &gone, NULL) == 0);
        check(store_conv_fork(s, c.id, 3, NULL, NULL, &child, NULL) == 0);
}

static void make_template(void) {
        struct store_conv theirs = {.name = "theirs"};
        struct store *s = NULL;
        uint32_t number;
        FILE *f;

        strcpy(dir, "/tmp/confab-fuzz-XXXXXX");
        check(mkdtemp(dir) != NULL);
        snprintf(path, sizeof(path), "%s/register.db", dir);
        atexit(remove_all);
        check(store_open(&s, path, NULL) == 0);
        make_conv(s, 1, "one");
        make_conv(s, 2, "two");
        check(store_tenant(s, 1, "tenant", 1, &number, NULL) == 0);
        theirs.owner = owner_make(1, number);
        check(store_conv_create(s, &theirs, NULL, 0, NULL, 0, NULL) == 0);
        store_free(s);
        f = fopen(path, "rb");
        check(f && fseek(f, 0, SEEK_END) == 0);
        template_size = (size_t)ftell(f);
        rewind(f);
        template = malloc(template_size);
        check(template && fread(template, 1, template_size, f) == template_size);
        fclose(f);
}

static const char *const edits[] = {
        "UPDATE conversation SET uid = ? WHERE id = ?",
        "UPDATE conversation SET name = ? WHERE id = ?",
        "UPDATE conversation SET parent = ? WHERE id = ?",
        "UPDATE conversation SET revision = ? WHERE id = ?",
        "UPDATE conversation SET n_tokens = ? WHERE id = ?",
        "UPDATE conversation SET n_turns = ? WHERE id = ?",
        "UPDATE conversation SET updated_usec = ? WHERE id = ?",
        "UPDATE conversation SET n_published = ? WHERE id = ?",
        "UPDATE conversation SET private_memory = ? WHERE id = ?",
        "UPDATE conversation SET on_disk = ? WHERE id = ?",
        "UPDATE conversation SET pinned = ? WHERE id = ?",
        "UPDATE conversation SET top_p = ? WHERE id = ?",
        "UPDATE conversation SET logit_bias = ? WHERE id = ?",
        "UPDATE turn SET n = ? WHERE rowid = ?",
        "UPDATE turn SET role = ? WHERE rowid = ?",
        "UPDATE turn SET first = ? WHERE rowid = ?",
        "UPDATE turn SET past = ? WHERE rowid = ?",
        "UPDATE turn SET finish = ? WHERE rowid = ?",
        "UPDATE turn SET created_usec = ? WHERE rowid = ?",
        "UPDATE turn SET text = ? WHERE rowid = ?",
        "UPDATE turn SET tokens = ? WHERE rowid = ?",
        "UPDATE turn SET token_hash = ? WHERE rowid = ?",
        "UPDATE record SET file_key = ? WHERE id = ?",
        "UPDATE record SET start = ? WHERE id = ?",
        "UPDATE record SET stored_size = ? WHERE id = ?",
        "UPDATE record SET raw_size = ? WHERE id = ?",
        "UPDATE record SET class = ? WHERE id = ?",
        "UPDATE record SET block = ? WHERE id = ?",
        "UPDATE record SET n_tokens = ? WHERE id = ?",
        "UPDATE record SET token_hash = ? WHERE id = ?",
        "UPDATE record SET uid = ? WHERE id = ?",
        "UPDATE record SET private = ? WHERE id = ?",
        "UPDATE link SET block = ? WHERE record = ?",
        "UPDATE link SET class = ? WHERE record = ?",
        "UPDATE link SET n_valid = ? WHERE record = ?",
        "UPDATE link SET record = ? WHERE record = ?",
        "UPDATE sqlite_sequence SET seq = ? WHERE rowid = ?",
        "DELETE FROM turn WHERE ? <> rowid AND rowid = ?",
        "DELETE FROM record WHERE ? <> id AND id = ?",
        "UPDATE tenant SET uid = ? WHERE number = ?",
        "UPDATE tenant SET label = ? WHERE number = ?",
};

static void edit(sqlite3 *db, const uint8_t *p) {
        sqlite3_stmt *st = NULL;
        int64_t v;

        if (sqlite3_prepare_v2(db, edits[p[0] % ARRAY_SIZE(edits)], -1, &st, NULL) != SQLITE_OK)
                return;
        memcpy(&v, p + 4, sizeof(v));
        if (p[2] % 5 == 0)
                sqlite3_bind_blob(st, 1, p + 4, p[3] % 9, SQLITE_STATIC);
        else if (p[2] % 5 == 1)
                sqlite3_bind_text(st, 1, (const char *)p + 4, p[3] % 9, SQLITE_STATIC);
        else if (p[2] % 5 == 2)
                sqlite3_bind_double(st, 1, (double)v);
        else
                sqlite3_bind_int64(st, 1, p[2] % 5 == 3 ? v : (int8_t)p[4]);
        sqlite3_bind_int(st, 2, 1 + p[1] % 20);
        (void)sqlite3_step(st);
        sqlite3_finalize(st);
}

static void damage(const uint8_t *data, size_t size) {
        FILE *f = fopen(path, "wb");
        sqlite3 *db;

        check(f && fwrite(template, 1, template_size, f) == template_size && fclose(f) == 0);
        check(sqlite3_open(path, &db) == SQLITE_OK);
        sqlite3_exec(db, "PRAGMA ignore_check_constraints = ON; PRAGMA synchronous = OFF", NULL,
                NULL, NULL);
        for (size_t i = 0; i < MAX_EDITS && (i + 1) * EDIT <= size; i++)
                edit(db, data + i * EDIT);
        sqlite3_close(db);
}

static void read_conv(struct store *s, uint64_t id) {
        struct store_reading x = {0};
        unsigned what = STORE_READ_TURNS | STORE_READ_TEXTS | STORE_READ_TOKENS | STORE_READ_LINKS |
                        STORE_READ_SIZE;

        if (store_read(s, OWNER_ANY, id, NULL, what, &x, NULL) == 0) {
                check(x.n_tokens == x.n_sound_tokens && x.n_sound_turns <= x.turns.n);
                check(x.damaged || (x.n_tokens == x.conv.n_tokens && x.turns.n == x.conv.n_turns));
                check(x.n_sound_turns == 0 ||
                        x.turns.turns[x.n_sound_turns - 1].end == x.n_sound_tokens);
        }
        store_reading_deinit(&x);
}

static void find_prefix(struct store *s, uint64_t owner) {
        struct fingerprint model = {11, 12};
        int32_t tokens[N_TOKENS];
        uint64_t hashes[N_TOKENS / BLOCK], hash = 0;
        struct store_prefix p = {0};

        for (uint32_t i = 0; i < N_TOKENS; i++)
                tokens[i] = (int32_t)(i * owner);
        for (size_t i = 0; i < ARRAY_SIZE(hashes); i++)
                hash = hashes[i] = hash64_chain_tokens(tokens + BLOCK * i, BLOCK, hash);
        if (store_prefix_find(s, owner, &model, 0, &shapes[owner - 1], tokens, hashes,
                    ARRAY_SIZE(hashes), &p, NULL) == 0)
                check(p.n <= ARRAY_SIZE(hashes));
        store_prefix_deinit(&p);
}

static void change(struct store *s) {
        struct store_reclaimed got = {0};
        struct store_gone gone = {0};
        static const struct store_cell cells[] = {{1, 3}, {2, 63}, {7, 7}};
        struct store_conv child = {0};
        uint64_t revision;
        uint32_t number;

        (void)store_conv_fork(s, 1, 2, NULL, NULL, &child, NULL);
        if (store_rewind(s, 1, 1, NULL, NULL, &revision, &gone, NULL) == 0)
                store_gone_deinit(&gone);
        if (store_rewind(s, 3, 3, NULL, NULL, &revision, &gone, NULL) == 0)
                store_gone_deinit(&gone);
        if (store_reclaim(s, 1, 3 * 4096, 0, &got, NULL) == 0)
                store_reclaimed_deinit(&got);
        if (store_reclaim(s, 2, 2 * 4096, 0, &got, NULL) == 0)
                store_reclaimed_deinit(&got);
        if (store_unlink_cells(s, 3, cells, ARRAY_SIZE(cells), &gone, NULL) == 0)
                store_gone_deinit(&gone);
        if (store_forget_record(s, 17, &got, NULL) == 0)
                store_reclaimed_deinit(&got);
        if (store_reclaim(s, OWNER_ANY, UINT64_MAX, 2, &got, NULL) == 0)
                store_reclaimed_deinit(&got);
        if (store_forget_record(s, 7, &got, NULL) == 0)
                store_reclaimed_deinit(&got);
        for (uint64_t id = 1; id <= 5; id++) {
                gone = (struct store_gone){0};
                if (store_conv_delete(s, id, &gone, NULL) == 0)
                        store_gone_deinit(&gone);
        }
        (void)store_tenant(s, 1, "tenant", 0, &number, NULL);
        (void)store_tenant(s, 1, "another", 2, &number, NULL);
        (void)store_tenants_forget(s, NULL);
        (void)store_scrub(s, NULL);
}

static void list_convs(struct store *s, unsigned kind) {
        static struct store_listed rows[8];
        const struct store_list list = {.owner = kind & 1 ? 1 : OWNER_ANY,
                .by_update = kind & 2,
                .tag = kind & 4 ? "tag" : NULL,
                .search = (kind & 3) == 3 ? "word or" : NULL};
        bool more;
        size_t n = 0;

        (void)store_list(s, &list, NULL, NULL, rows, 8, &n, &more, NULL);
        for (size_t i = 0; i < 8; i++)
                free(rows[i].about), free(rows[i].hit.snippet);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct store_census census;
        struct store_held *held = NULL;
        struct store *s = NULL;
        size_t n = 0;

        if (!template)
                make_template();
        damage(data, size);
        if (store_open_existing(&s, path, NULL) == 0) {
                (void)store_check(s, NULL, NULL, &census, NULL);
                if (store_list_held(s, &held, &n, NULL) == 0)
                        free(held);
                for (unsigned kind = 0; kind < 8; kind++)
                        list_convs(s, kind);
                for (uint64_t id = 1; id <= 4; id++)
                        read_conv(s, id);
                find_prefix(s, 1);
                find_prefix(s, 2);
                change(s);
        }
        store_free(s);
        clean_up();
        return 0;
}
