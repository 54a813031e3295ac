/* SPDX-License-Identifier: MIT */
/*
 * The tables of a register in PostgreSQL 15 and later, made at once in one transaction of the caller. They are SQLite's
 * (tables.c), but for this:
 *
 * 1. Integers are bigint, and so are SQLite's truth values: 0 or 1. Texts compare by bytes (COLLATE "C"), as in SQLite. They
 *    are UTF-8 without NUL. A turn's text may be any bytes, so it is bytea; the view transcript shows it by confab_text().
 * 2. No text names a schema. Functions and the driver find the tables by the search_path of the connection.
 * 3. Ids of conversations, records and tenants come from sequences. They are never used again, as with AUTOINCREMENT.
 * 4. Every daemon is a row in machine. Records, links, meters and rows of on_disk are of one machine, since its files are on its
 *    disk (pg-stmt.c, rules 5 to 7). machine_txn has the last transaction that a machine has committed.
 * 5. conversation.holder is the machine that has the conversation's lease, or NULL. fence counts the leases.
 * 6. An index of SQLite ends with the row's id. Where a statement sorts by it, the index here names it.
 * 7. Table search has no foreign key, since a place is both a conversation and a turn: whoever removes turns removes their
 *    words. Its GIN index has no pending list (fastupdate), which a search would have to read through.
 *
 * A schema change is a higher pg_schema_version, an entry in pg_migrations, and here what it leads to. Table confab has the
 * version, in one row. The daemon that connects first brings the tables up to date; those of the version before that still run
 * must know of the change nothing, or be stopped first: docs/CHANGELOG.md says which.
 */
#include "store/pg.h"

#define VERSION 2
#define DIGITS_OF(x) #x
#define DIGITS(x) DIGITS_OF(x)
#define VERSION_TEXT DIGITS(VERSION)

/* New in version 2: secrets of owners (secret.c), and where a machine is reached (store_server). */
#define PG_SECRET "CREATE TABLE secret (owner bigint PRIMARY KEY, secret bytea NOT NULL);"
#define PG_REACHED "address text COLLATE \"C\", host text COLLATE \"C\", socket text COLLATE \"C\""
#define PG_ADD(column) "ALTER TABLE machine ADD COLUMN " column " text COLLATE \"C\";"

const int pg_schema_version = VERSION;

const char *const pg_migrations[VERSION] = {
        /* The first of version 1 had an address, always empty, and `draining`; nothing used either. */
        [1] = PG_SECRET
        "ALTER TABLE machine DROP COLUMN IF EXISTS address, DROP COLUMN IF EXISTS draining;" PG_ADD(
                "address") PG_ADD("host") PG_ADD("socket"),
};

const char pg_tables[] =
        "CREATE TABLE confab (version bigint NOT NULL);"
        "CREATE UNIQUE INDEX confab_one ON confab ((version IS NOT NULL));"
        "INSERT INTO confab (version) VALUES (" VERSION_TEXT ");"
        "CREATE SEQUENCE machine_number;"
        "CREATE SEQUENCE conversation_id;"
        "CREATE SEQUENCE record_id;"
        "CREATE SEQUENCE tenant_number;"

        "CREATE TABLE machine (number bigint PRIMARY KEY DEFAULT nextval('machine_number'),"
        " id text COLLATE \"C\" NOT NULL UNIQUE, name text COLLATE \"C\","
        " seen_usec bigint NOT NULL, " PG_REACHED ");"
        "CREATE TABLE machine_txn (machine bigint PRIMARY KEY REFERENCES machine (number),"
        " incarnation bigint NOT NULL, txn bigint NOT NULL);"

        "CREATE TABLE conversation (id bigint PRIMARY KEY, uid bigint NOT NULL,"
        " name text COLLATE \"C\" NOT NULL, parent bigint NOT NULL,"
        " fork_pos bigint NOT NULL, revision bigint NOT NULL, n_tokens bigint NOT NULL,"
        " n_turns bigint NOT NULL, created_usec bigint NOT NULL, updated_usec bigint NOT NULL,"
        " model_weights bigint NOT NULL, model_rules bigint NOT NULL, vocab bigint NOT NULL,"
        " temperature double precision, top_k bigint, top_p double precision,"
        " min_p double precision, repetition_penalty double precision,"
        " presence_penalty double precision, frequency_penalty double precision,"
        " penalty_last_n bigint, seed bigint, logit_bias bytea,"
        " n_published bigint NOT NULL DEFAULT 0,"
        " private_memory bigint NOT NULL DEFAULT 0 CHECK (private_memory IN (0, 1)),"
        " gap_first bigint NOT NULL DEFAULT 0, gap_past bigint NOT NULL DEFAULT 0,"
        " overflow text COLLATE \"C\" NOT NULL DEFAULT 'error'"
        " CHECK (overflow IN ('error', 'shift')),"
        " tools text COLLATE \"C\", block_tokens bigint NOT NULL DEFAULT 32,"
        " memory_classes bigint NOT NULL DEFAULT 1 CHECK (memory_classes BETWEEN 0 AND 7),"
        " memory_window bigint NOT NULL DEFAULT 0, memory_chunk bigint NOT NULL DEFAULT 0,"
        " title text COLLATE \"C\", metadata text COLLATE \"C\", session text COLLATE \"C\","
        " expires_after bigint NOT NULL DEFAULT 0,"
        " pinned bigint NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1)),"
        " holder bigint, fence bigint NOT NULL DEFAULT 0,"
        " CONSTRAINT conversation_uid_name UNIQUE (uid, name));"
        "CREATE INDEX conversation_uid ON conversation (uid, id);"
        "CREATE INDEX conversation_updated ON conversation (uid, updated_usec, id);"
        "CREATE INDEX conversation_updated_any ON conversation (updated_usec, id);"
        "CREATE INDEX conversation_published ON conversation (n_published, id)"
        " WHERE n_published > 0;"
        "CREATE INDEX conversation_due ON conversation"
        " ((updated_usec + expires_after * 1000000), id) WHERE expires_after > 0;"
        "CREATE INDEX conversation_throwaway ON conversation (uid, updated_usec, id)"
        " WHERE expires_after > 0;"
        "CREATE INDEX conversation_session ON conversation (uid, session, id)"
        " WHERE session IS NOT NULL;"
        "CREATE INDEX conversation_parent ON conversation (parent) WHERE parent > 0;"
        "CREATE INDEX conversation_holder ON conversation (holder) WHERE holder IS NOT NULL;"

        "CREATE TABLE turn ("
        " conversation bigint NOT NULL REFERENCES conversation (id) ON DELETE CASCADE,"
        " n bigint NOT NULL, role text COLLATE \"C\" NOT NULL"
        " CHECK (role IN ('system', 'user', 'assistant', 'raw', 'tool')),"
        " first bigint NOT NULL, past bigint NOT NULL,"
        " finish text COLLATE \"C\""
        " CHECK (finish IN ('stop', 'stop_string', 'length', 'context', 'cancelled')),"
        " created_usec bigint NOT NULL, token_hash bigint NOT NULL, extra text COLLATE \"C\","
        " text bytea NOT NULL, tokens bytea NOT NULL, chain bigint,"
        " PRIMARY KEY (conversation, n));"
        "CREATE INDEX turn_extra ON turn (conversation, n) WHERE extra IS NOT NULL;"
        "CREATE INDEX turn_chain ON turn (chain, conversation, n) WHERE chain IS NOT NULL;"
        "CREATE INDEX turn_no_chain ON turn (conversation) WHERE chain IS NULL;"
        "CREATE TABLE turn_figures (conversation bigint NOT NULL, n bigint NOT NULL,"
        " model text COLLATE \"C\" NOT NULL, seed bigint NOT NULL, n_prompt bigint NOT NULL,"
        " n_ram bigint NOT NULL, n_disk bigint NOT NULL, n_shared bigint NOT NULL,"
        " n_computed bigint NOT NULL, n_generated bigint NOT NULL,"
        " queued_usec bigint NOT NULL, restore_usec bigint NOT NULL,"
        " prefill_usec bigint NOT NULL, decode_usec bigint NOT NULL,"
        " PRIMARY KEY (conversation, n),"
        " FOREIGN KEY (conversation, n) REFERENCES turn (conversation, n) ON DELETE CASCADE);"
        "CREATE TABLE tag ("
        " conversation bigint NOT NULL REFERENCES conversation (id) ON DELETE CASCADE,"
        " n bigint NOT NULL, tag text COLLATE \"C\" NOT NULL, owner bigint NOT NULL,"
        " updated_usec bigint NOT NULL, PRIMARY KEY (conversation, n));"
        "CREATE UNIQUE INDEX tag_id ON tag (tag, owner, conversation);"
        "CREATE INDEX tag_updated ON tag (tag, owner, updated_usec, conversation);"

        "CREATE TABLE record (id bigint PRIMARY KEY DEFAULT nextval('record_id'),"
        " machine bigint NOT NULL, file_key bigint NOT NULL, start bigint NOT NULL,"
        " stored_size bigint NOT NULL, raw_size bigint NOT NULL, class bigint NOT NULL,"
        " block bigint NOT NULL, n_tokens bigint NOT NULL, token_hash bigint NOT NULL,"
        " uid bigint NOT NULL DEFAULT 0,"
        " private bigint NOT NULL DEFAULT 0 CHECK (private IN (0, 1)),"
        " loose boolean NOT NULL DEFAULT false);"
        "CREATE INDEX record_machine ON record (machine, id);"
        "CREATE INDEX record_prefix ON record (machine, uid, token_hash) WHERE private = 0;"
        "CREATE INDEX record_uid ON record (machine, uid, block, id);"
        "CREATE INDEX record_loose ON record (machine) WHERE loose;"
        "CREATE TABLE link ("
        " conversation bigint NOT NULL REFERENCES conversation (id) ON DELETE CASCADE,"
        " machine bigint NOT NULL, block bigint NOT NULL, class bigint NOT NULL,"
        " record bigint NOT NULL REFERENCES record (id), n_valid bigint NOT NULL DEFAULT 0,"
        " PRIMARY KEY (conversation, machine, block, class));"
        "CREATE INDEX link_record ON link (record);"
        "CREATE TABLE on_disk (machine bigint NOT NULL,"
        " conversation bigint NOT NULL REFERENCES conversation (id) ON DELETE CASCADE,"
        " PRIMARY KEY (machine, conversation));"
        "CREATE INDEX on_disk_conversation ON on_disk (conversation);"

        "CREATE TABLE meter (machine bigint NOT NULL, name text COLLATE \"C\" NOT NULL,"
        " value bigint NOT NULL, PRIMARY KEY (machine, name));"
        "CREATE TABLE tenant (number bigint PRIMARY KEY DEFAULT nextval('tenant_number'),"
        " uid bigint NOT NULL, label text COLLATE \"C\" NOT NULL, UNIQUE (uid, label));"
        "CREATE TABLE quota (kind text COLLATE \"C\" NOT NULL"
        " CHECK (kind IN ('user', 'group', 'tenants', 'tenant')),"
        " number bigint NOT NULL, label text COLLATE \"C\" NOT NULL,"
        " name text COLLATE \"C\" NOT NULL, value bigint,"
        " PRIMARY KEY (kind, number, label, name));"
        "CREATE TABLE usage (owner bigint PRIMARY KEY,"
        " n_conversations bigint NOT NULL DEFAULT 0, n_tokens bigint NOT NULL DEFAULT 0,"
        " day bigint NOT NULL DEFAULT 0, day_tokens bigint NOT NULL DEFAULT 0);"

        PG_SECRET "CREATE TABLE search (place bigint PRIMARY KEY, words tsvector NOT NULL);"
        "CREATE INDEX search_words ON search USING gin (words) WITH (fastupdate = off);"

        "CREATE FUNCTION tag_follows() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " UPDATE tag SET updated_usec = NEW.updated_usec WHERE conversation = NEW.id"
        " AND updated_usec <> NEW.updated_usec; RETURN NULL; END $$;"
        "CREATE TRIGGER tag_follows AFTER UPDATE OF updated_usec ON conversation"
        " FOR EACH ROW EXECUTE FUNCTION tag_follows();"
        "CREATE FUNCTION usage_more() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO usage (owner, n_conversations, n_tokens) VALUES (NEW.uid, 1, NEW.n_tokens)"
        " ON CONFLICT (owner) DO UPDATE SET n_conversations = usage.n_conversations + 1,"
        " n_tokens = usage.n_tokens + excluded.n_tokens; RETURN NULL; END $$;"
        "CREATE TRIGGER usage_more AFTER INSERT ON conversation"
        " FOR EACH ROW EXECUTE FUNCTION usage_more();"
        "CREATE FUNCTION usage_less() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " UPDATE usage SET n_conversations = n_conversations - 1,"
        " n_tokens = n_tokens - OLD.n_tokens WHERE owner = OLD.uid; RETURN NULL; END $$;"
        "CREATE TRIGGER usage_less AFTER DELETE ON conversation"
        " FOR EACH ROW EXECUTE FUNCTION usage_less();"
        "CREATE FUNCTION usage_changes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " UPDATE usage SET n_tokens = n_tokens + NEW.n_tokens - OLD.n_tokens"
        " WHERE owner = NEW.uid; RETURN NULL; END $$;"
        "CREATE TRIGGER usage_changes AFTER UPDATE OF n_tokens ON conversation"
        " FOR EACH ROW WHEN (NEW.n_tokens <> OLD.n_tokens) EXECUTE FUNCTION usage_changes();"

        /* Bytes that are no text, or have a NUL, are escaped. */
        "CREATE FUNCTION confab_text(b bytea) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT AS $$"
        " BEGIN RETURN convert_from(b, 'UTF8'); EXCEPTION WHEN character_not_in_repertoire"
        " OR untranslatable_character THEN RETURN encode(b, 'escape'); END $$;"
        "CREATE VIEW transcript AS SELECT c.id AS id, c.uid & 4294967295 AS uid,"
        " c.name AS conversation, t.n AS turn, t.role AS role, confab_text(t.text) AS text,"
        " t.finish AS finish, t.past - t.first AS n_tokens,"
        " to_char(to_timestamp(t.created_usec / 1000000) AT TIME ZONE 'UTC',"
        " 'YYYY-MM-DD HH24:MI:SS') AS at,"
        " greatest(0, least(t.past, c.gap_past) - greatest(t.first, c.gap_first)) AS n_dropped,"
        " (SELECT label FROM tenant WHERE number = c.uid >> 32) AS tenant"
        " FROM conversation c JOIN turn t ON t.conversation = c.id ORDER BY c.id, t.n;";
