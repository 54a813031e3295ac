/* SPDX-License-Identifier: MIT */
/*
 * The statements of a register in PostgreSQL.
 *
 * stmt.c has the text of every statement, written for SQLite. PostgreSQL takes most of them as they are. This table has the
 * others, and pg-tables.c the tables. The calls of the register (conv.c, turns.c, ...) know only numbers of statements,
 * parameters and columns, so a text here and the text of the same number there are two ways to say one thing:
 *
 * 1. Both have the same parameters, with the same numbers. Before the driver prepares a text it writes $N for ? and ?N, and
 *    the number of this daemon's row in table machine for @machine. It translates nothing else.
 * 2. Both have the same columns in the same order. Here a column is bigint, integer, boolean (the driver hands out 0 or 1),
 *    double precision, text or bytea. It is never numeric, which is what sum() makes of bigint: every sum is cast.
 * 3. The server infers the type of a parameter from its first use. The text casts the parameter where the first use does not
 *    tell, or would tell integer, which is too narrow. A parameter without any use is an error here: NO_TAG, NO_OWNER
 *    and NO_TIME are uses that the planner removes.
 * 4. A statement without an entry has SQLite's text. Without an entry are also those that only SQLite runs: transactions,
 *    pages and vacuum, merging of the search index.
 *
 * Several daemons use one register, each with files of memory on a disk of its own:
 *
 * 5. Records and links are of one machine. A statement sees those of this machine and no others, and inserts write its number.
 *    A record and its links are of the same machine.
 * 6. Tokens belong to all machines. When tokens are cut, their links go, or become shorter, on every machine (LINK_CUT,
 *    LINK_SHORTEN). The other machine's records stay, marked loose: only that machine can free their bytes (loose.c), and
 *    a loose record without a link is no finding. What only this disk loses goes on this machine alone (LINK_CUT_OWN,
 *    LINK_DROP).
 * 7. Instead of the column conversation.on_disk there is a row in table on_disk for each machine where the conversation has
 *    links. A cut of another machine may leave such a row without links. Then reclaiming visits the conversation for nothing,
 *    and SET_ON_DISK removes the row. Links without a row would never be reclaimed: CHECK_ON_DISK finds these.
 * 8. A new conversation is held by the machine that inserts it (holder, fence).
 * 9. Ids come from sequences, which no rollback takes back: they have gaps, and no id is given twice. RECORD_INSERT and
 *    TENANT_INSERT return the new id as their only row.
 *
 * 10. A row of table search has the words of one text as a tsvector, which the caller composes. Its place is the number that
 *    words_row() gives the text, as in SQLite's index. SEARCH_REMOVE needs the place alone.
 */
#include "store/pg.h"
#include "store/stmt-columns.h"

#define MINE "machine = @machine"
/* Parameters of pages that mean nothing to a statement. */
#define NO_TAG "(true OR CAST(?1 AS text) IS NULL) "
#define NO_OWNER "(true OR CAST(?2 AS bigint) IS NULL) "
#define NO_TIME "(true OR CAST(?3 AS bigint) IS NULL) "

/* Where machine ?1 of this register listens. */
#define CHANNEL                                                                                    \
        "'confab_' || CAST(CAST('conversation' AS regclass) AS oid) || '_' || CAST(?1 AS bigint)"

/* Throw-away conversations are closed by the machine that holds them; by any one, if that gives no sign of life. */
#define TO_CLOSE                                                                                   \
        "(holder IS NULL OR holder = @machine OR NOT EXISTS (SELECT 1 FROM machine m WHERE "       \
        "m.number = holder AND m.seen_usec > CAST(extract(epoch FROM clock_timestamp()) * "        \
        "1000000 AS bigint) - 60000000))"

#define CONV_REST                                                                                  \
        "coalesce(octet_length(tools), 0), coalesce((SELECT role IN ('user', 'tool') "             \
        "FROM turn WHERE conversation = id AND n = n_turns - 1), false), pinned"
/* Of one conversation, and who holds it. */
#define CONV_ROW "SELECT " CONV_COLUMNS ", " CONV_REST ", holder, fence FROM conversation "
/* Links of this machine and their records. */
#define LINKED "link l JOIN record r ON r.id = l.record AND r.machine = l.machine "
/* Of conversation c: what its records take on this machine's disk. */
#define DISK_SIZE                                                                                  \
        "(SELECT CAST(coalesce(sum(r.stored_size), 0) AS bigint) FROM " LINKED "WHERE l." MINE     \
        " AND l.conversation = c.id)"
#define LISTED "SELECT " CONV_COLUMNS ", " CONV_REST ", " DISK_SIZE " FROM conversation c "
#define LISTED_BY_TAG                                                                              \
        "SELECT " CONV_COLUMNS ", " CONV_REST ", " DISK_SIZE                                       \
        " FROM (SELECT tag AS tagged, owner AS tagged_owner, conversation AS tagged_id, "          \
        "updated_usec AS tagged_usec FROM tag) t JOIN conversation c ON c.id = tagged_id "
#define DUE "updated_usec + expires_after * 1000000"
#define RECLAIMED                                                                                  \
        "SELECT c.id, c.updated_usec FROM on_disk d JOIN conversation c ON c.id = d.conversation " \
        "WHERE d." MINE " AND c.id <> ?1 AND (c.updated_usec, c.id) > (?2, ?3) "
#define IS_PUBLISHED                                                                               \
        "EXISTS (SELECT 1 FROM conversation p JOIN link x ON x.conversation = p.id "               \
        "AND x.machine = r.machine AND x.block = r.block AND x.class = r.class "                   \
        "WHERE p.n_published > 0 AND p.n_published > r.block * r.n_tokens AND x.record = r.id)"

const char *const pg_stmt_sql[STMT_N] = {
        /* Conversations. */
        [STMT_CONV_NEXT_ID] = "SELECT nextval('conversation_id')",
        [STMT_CONV_LAST_ID] = "SELECT last_value - 1 + is_called::integer FROM conversation_id",
        [STMT_CONV_INSERT] =
                "INSERT INTO conversation (" CONV_COLUMNS ", tools, holder, fence) "
                "VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,"
                "?, @machine, 1)",
        [STMT_CONV_BY_ID] = CONV_ROW "WHERE id = ?",
        [STMT_CONV_BY_NAME] = CONV_ROW "WHERE name = ? AND uid = ?",
        [STMT_CONV_BY_NAME_ANY] = CONV_ROW "WHERE name = ?",
        [STMT_CONV_LIST] = LISTED "WHERE c.id > ? AND c.uid = ? ORDER BY c.id LIMIT ?",
        [STMT_CONV_LIST_ANY] = LISTED "WHERE c.id > ? ORDER BY c.id LIMIT ?",
        [STMT_LIST_ID_TAG] = LISTED_BY_TAG
        "WHERE tagged = ?1 AND tagged_owner = ?2 AND tagged_id > ?4 AND " NO_TIME
        "ORDER BY tagged_id LIMIT ?5",
        [STMT_LIST_ID_TAG_ANY] = LISTED_BY_TAG "WHERE tagged = ?1 AND tagged_id > ?4 AND " NO_OWNER
                                               "AND " NO_TIME "ORDER BY tagged_id LIMIT ?5",
        [STMT_LIST_UPDATED] =
                LISTED "WHERE c.uid = ?2 AND (c.updated_usec, c.id) < (?3, ?4) AND " NO_TAG
                       "ORDER BY c.updated_usec DESC, c.id DESC LIMIT ?5",
        [STMT_LIST_UPDATED_ANY] =
                LISTED "WHERE (c.updated_usec, c.id) < (?3, ?4) AND " NO_TAG "AND " NO_OWNER
                       "ORDER BY c.updated_usec DESC, c.id DESC LIMIT ?5",
        [STMT_LIST_UPDATED_TAG] = LISTED_BY_TAG
        "WHERE tagged = ?1 AND tagged_owner = ?2 AND (tagged_usec, tagged_id) < (?3, ?4) "
        "ORDER BY tagged_usec DESC, tagged_id DESC LIMIT ?5",
        [STMT_LIST_UPDATED_TAG_ANY] = LISTED_BY_TAG
        "WHERE tagged = ?1 AND (tagged_usec, tagged_id) < (?3, ?4) AND " NO_OWNER
        "ORDER BY tagged_usec DESC, tagged_id DESC LIMIT ?5",
        [STMT_CONV_SET_EXTENT] =
                "UPDATE conversation SET revision = ?1, n_tokens = ?2, n_turns = ?3, "
                "updated_usec = ?4, n_published = least(n_published, ?6), gap_first = ?7, "
                "gap_past = ?8 WHERE id = ?5",
        [STMT_CONV_SET_ON_DISK] =
                "WITH gone AS (DELETE FROM on_disk WHERE " MINE " AND conversation = ?1 "
                "AND NOT EXISTS (SELECT 1 FROM link WHERE conversation = ?1 AND " MINE ")) "
                "INSERT INTO on_disk (machine, conversation) SELECT @machine, CAST(?1 AS bigint) "
                "WHERE EXISTS (SELECT 1 FROM link WHERE conversation = ?1 AND " MINE ") "
                "ON CONFLICT DO NOTHING",
        [STMT_CONV_BEQUEATH] =
                "UPDATE conversation SET parent = ?2, fork_pos = least(fork_pos, ?3) "
                "WHERE parent = ?1 AND parent > 0",
        [STMT_EXPIRE_LIST] = "SELECT id, uid, expires_after, " DUE " AS due "
                             "FROM conversation WHERE expires_after > 0 AND " TO_CLOSE " AND (" DUE
                             ", id) > (?1, ?2) ORDER BY " DUE ", id LIMIT ?3",
        [STMT_EXPIRE_BEYOND] =
                "SELECT id, uid, expires_after, due FROM (SELECT id, uid, expires_after, " DUE
                " AS due, row_number() OVER (PARTITION BY uid ORDER BY updated_usec DESC, id DESC) "
                "AS place, holder FROM conversation WHERE expires_after > 0) c "
                "WHERE place > ?1 AND id > ?2 AND " TO_CLOSE " ORDER BY id LIMIT ?3",
        [STMT_ABOUT_SET] =
                "UPDATE conversation SET "
                "title = CASE WHEN CAST(?2 AS bigint) & 1 <> 0 THEN ?3 ELSE title END, "
                "metadata = CASE WHEN CAST(?2 AS bigint) & 4 <> 0 THEN ?4 ELSE metadata END, "
                "session = CASE WHEN CAST(?2 AS bigint) & 8 <> 0 THEN ?5 ELSE session END, "
                "expires_after = "
                "CASE WHEN CAST(?2 AS bigint) & 16 <> 0 THEN ?6 ELSE expires_after END, "
                "updated_usec = ?7 WHERE id = ?1",

        /* Turns. */
        [STMT_TURN_PAGE_SIZES] =
                "SELECT CAST(coalesce(sum(CASE WHEN n >= ?2 AND n < ?3 THEN octet_length(text) + "
                "CAST(coalesce(octet_length(extra), 0) AS bigint) END), 0) AS bigint), 0, "
                "count(*), coalesce(sum(octet_length(tokens)), 0) FROM turn "
                "WHERE conversation = ?1 AND n >= ?4 AND n < ?5",
        [STMT_TURN_SIZES] =
                "SELECT CAST(coalesce(sum(octet_length(text) + "
                "CAST(coalesce(octet_length(extra), 0) AS bigint)), 0) + "
                "coalesce((SELECT octet_length(tools) FROM conversation WHERE id = ?1), 0) "
                "AS bigint), "
                "(SELECT count(*) FROM link WHERE link." MINE " AND link.conversation = ?1), "
                "count(*), coalesce(sum(octet_length(tokens)), 0) "
                "FROM turn WHERE turn.conversation = ?1",
        [STMT_FIGURES_SIZES] = "SELECT count(*), coalesce(sum(octet_length(model)), 0) "
                               "FROM turn_figures WHERE conversation = ? AND n >= ? AND n < ?",

        /* Records and links. */
        [STMT_RECORD_INSERT] = "INSERT INTO record (file_key, start, stored_size, raw_size, class, "
                               "block, n_tokens, token_hash, uid, private, machine) "
                               "VALUES (?,?,?,?,?,?,?,?,?,?, @machine) RETURNING id",
        [STMT_RECORD_GET] = "SELECT " RECORD_COLUMNS " FROM record r WHERE r.id = ? AND r." MINE,
        [STMT_RECORD_DELETE] = "DELETE FROM record WHERE id = ? AND " MINE,
        [STMT_RECORD_LIST] =
                "SELECT " RECORD_COLUMNS " FROM record r WHERE r." MINE " ORDER BY r.id",
        [STMT_LINK_PUT] = "INSERT INTO link (conversation, block, class, record, n_valid, machine) "
                          "VALUES (?,?,?,?,?, @machine) "
                          "ON CONFLICT (conversation, machine, block, class) DO UPDATE "
                          "SET record = excluded.record, n_valid = excluded.n_valid",
        [STMT_LINK_GET] = "SELECT record FROM link WHERE conversation = ? AND block = ? "
                          "AND class = ? AND " MINE,
        [STMT_LINK_COPY] =
                "INSERT INTO link (conversation, block, class, record, n_valid, machine) "
                "SELECT CAST(?1 AS bigint), block, class, record, CASE class WHEN 2 THEN n_valid "
                "ELSE least(n_valid, CAST(?3 AS bigint) - block * CAST(?4 AS bigint)) END, machine "
                "FROM link WHERE conversation = ?2 AND " MINE " AND block < ?3 "
                "AND (class = 2 OR block < (?3 + ?4 - 1) / nullif(?4, 0))",
        [STMT_LINK_SHORTEN] =
                "UPDATE link SET n_valid = least(n_valid, ?2 - block * ?3) WHERE conversation = ?1 "
                "AND block = CAST(?2 AS bigint) / CAST(?3 AS bigint) AND class <> 2",
        [STMT_LINK_IDS_FROM] = "SELECT DISTINCT record FROM link WHERE conversation = ?1 AND " MINE
                               " AND block >= ?2 AND (class <> 2 OR block >= ?3)",
        [STMT_LINK_CUT] = "WITH cut AS (DELETE FROM link WHERE conversation = ?1 AND block >= ?2 "
                          "AND (class <> 2 OR block >= ?3) RETURNING machine, record) "
                          "UPDATE record SET loose = true FROM cut WHERE record.id = cut.record "
                          "AND cut.machine <> @machine",
        [STMT_LINK_CUT_OWN] = "DELETE FROM link WHERE conversation = ?1 AND " MINE
                              " AND block >= ?2 AND (class <> 2 OR block >= ?3)",
        [STMT_LINK_DROP] = "DELETE FROM link WHERE conversation = ? AND block = ? AND class = ? "
                           "AND " MINE,
        [STMT_LINK_LIST] = "SELECT " RECORD_COLUMNS ", l.n_valid FROM " LINKED "WHERE l." MINE
                           " AND l.conversation = ? AND l.class = ? ORDER BY l.block",
        [STMT_LINK_SIZE] = "SELECT " DISK_SIZE " FROM conversation c WHERE c.id = ?",
        [STMT_LINK_RUN] = "SELECT " RECORD_COLUMNS ", l.n_valid FROM " LINKED "WHERE l." MINE
                          " AND l.conversation = ?1 AND l.class = ?2 AND l.block < ?3 "
                          "AND (l.block + 1) % ?4 = 0 ORDER BY l.block",
        [STMT_LINK_REFERS] = "SELECT 1 FROM link WHERE record = ? AND " MINE " LIMIT 1",
        [STMT_LINK_PRIVATE] = "SELECT 1 FROM " LINKED "WHERE l." MINE
                              " AND l.conversation = ? AND r.private <> 0 LIMIT 1",
        [STMT_LINK_BETWEEN] =
                "SELECT 1 FROM link WHERE record = ? AND conversation = ? AND " MINE " LIMIT 1",
        [STMT_LINK_USERS] =
                "SELECT conversation, block, class FROM link WHERE record = ? AND " MINE,
        [STMT_LINK_TAIL] =
                "SELECT l.block, r.id, r.stored_size, r.uid, " IS_PUBLISHED ", "
                "(SELECT count(*) FROM (SELECT 1 FROM link x WHERE x.record = r.id "
                "AND x.machine = r.machine LIMIT ?2) AS few), l.class, l.n_valid, "
                "EXISTS (SELECT 1 FROM link x WHERE x.record = r.id AND x.machine = r.machine "
                "AND x.conversation = ?3) FROM " LINKED "WHERE l." MINE " AND l.conversation = ?1 "
                "ORDER BY l.block DESC, l.class DESC",

        /* Finding memory of a prefix, and making room. */
        [STMT_PREFIX_HAS] = "SELECT 1 FROM record WHERE uid = ? AND token_hash = ? AND private = 0 "
                            "AND block = ? AND n_tokens = ? AND class = ? AND " MINE " LIMIT 1",
        [STMT_PREFIX_DONORS] =
                "SELECT c.id FROM " LINKED "JOIN conversation c ON c.id = l.conversation "
                "WHERE r." MINE " AND r.uid = ?1 AND r.token_hash = ?2 AND r.private = 0 "
                "AND r.block = ?3 AND r.n_tokens = ?4 AND r.class = ?5 AND l.n_valid = ?4 "
                "AND c.uid = ?1 AND c.private_memory = 0 AND c.model_weights = ?6 "
                "AND c.model_rules = ?7 AND c.vocab = ?8 LIMIT ?9",
        [STMT_PREFIX_PUBLIC] =
                "SELECT c.id FROM conversation c JOIN link l ON l.conversation = c.id "
                "AND l." MINE " AND l.block = 0 AND l.class = 0 JOIN record r ON r.id = l.record "
                "AND r.machine = l.machine "
                "WHERE c.n_published > 0 AND c.n_published >= ?2 AND r.token_hash = ?1 "
                "AND r.private = 0 AND r.n_tokens = ?2 AND l.n_valid = ?2 "
                "AND c.private_memory = 0 AND c.model_weights = ?3 AND c.model_rules = ?4 "
                "AND c.vocab = ?5 ORDER BY c.n_published DESC, c.id LIMIT ?6",
        [STMT_PREFIX_PUBLIC_ANY] =
                "SELECT c.id FROM conversation c JOIN on_disk d ON d.conversation = c.id "
                "AND d." MINE " WHERE c.n_published > 0 AND c.n_published >= ?1 "
                "AND c.private_memory = 0 AND c.model_weights = ?2 "
                "AND c.model_rules = ?3 AND c.vocab = ?4 ORDER BY c.n_published DESC, c.id "
                "LIMIT ?5",
        [STMT_RECLAIM_CONVS] = RECLAIMED "AND c.uid = ?4 ORDER BY c.updated_usec, c.id LIMIT 64",
        [STMT_RECLAIM_CONVS_ANY] = RECLAIMED "ORDER BY c.updated_usec, c.id LIMIT 64",
        [STMT_ON_DISK_BEFORE] = "SELECT conversation FROM on_disk WHERE " MINE
                                " AND conversation < ? ORDER BY conversation DESC LIMIT 1",
        [STMT_RECLAIM_RECORDS] =
                "SELECT id FROM record WHERE uid = ? AND " MINE " ORDER BY block DESC, id DESC",

        /* Checks. The server checks its own files. */
        [STMT_CHECK_FILE] = "SELECT 'ok'",
        [STMT_CHECK_TABLES] = "SELECT '' WHERE false",
        [STMT_CHECK_LINKS] =
                "SELECT " RECORD_COLUMNS ", l.n_valid, l.block, l.class, l.record "
                "FROM link l LEFT JOIN record r ON r.id = l.record AND r.machine = l.machine "
                "WHERE l." MINE " AND l.conversation = ? ORDER BY l.block, l.class",
        [STMT_CHECK_RECORDS] =
                "SELECT " RECORD_COLUMNS ", NOT r.loose AND NOT EXISTS (SELECT 1 FROM link l "
                "WHERE l.record = r.id AND l.machine = r.machine) FROM record r WHERE r." MINE
                " ORDER BY r.file_key, r.start, r.id",
        [STMT_CHECK_STRAYS] =
                "SELECT DISTINCT 0, t.conversation FROM turn t WHERE NOT EXISTS "
                "(SELECT 1 FROM conversation c WHERE c.id = t.conversation) UNION ALL "
                "SELECT DISTINCT 1, l.conversation FROM link l WHERE l." MINE " AND NOT EXISTS "
                "(SELECT 1 FROM conversation c WHERE c.id = l.conversation) UNION ALL "
                "SELECT DISTINCT 2, t.conversation FROM tag t WHERE NOT EXISTS "
                "(SELECT 1 FROM conversation c WHERE c.id = t.conversation) UNION ALL "
                "SELECT DISTINCT 3, f.conversation FROM turn_figures f WHERE NOT EXISTS "
                "(SELECT 1 FROM turn t WHERE t.conversation = f.conversation "
                "AND t.n = f.n) UNION ALL "
                "SELECT 4, id FROM conversation WHERE uid >> 32 <> 0 AND NOT EXISTS "
                "(SELECT 1 FROM tenant WHERE number = conversation.uid >> 32 "
                "AND tenant.uid = conversation.uid & 4294967295)",
        [STMT_CHECK_ON_DISK] =
                "SELECT DISTINCT l.conversation FROM link l WHERE l." MINE " AND NOT EXISTS "
                "(SELECT 1 FROM on_disk d WHERE d.machine = l.machine "
                "AND d.conversation = l.conversation)",
        /* last_value and is_called make the next id. */
        [STMT_CHECK_COUNTERS] =
                "SELECT 1 FROM conversation_id c, record_id r, tenant_number t "
                "WHERE (SELECT max(id) FROM conversation) >= c.last_value + c.is_called::integer "
                "OR (SELECT max(id) FROM record) >= r.last_value + r.is_called::integer "
                "OR (SELECT max(number) FROM tenant) >= t.last_value + t.is_called::integer",
        [STMT_CHECK_USAGE] =
                "SELECT 1 FROM (SELECT uid, count(*) AS n, CAST(sum(n_tokens) AS bigint) AS t "
                "FROM conversation GROUP BY uid) c LEFT JOIN usage u ON u.owner = c.uid "
                "WHERE u.n_conversations IS DISTINCT FROM c.n OR u.n_tokens IS DISTINCT FROM c.t "
                "UNION ALL SELECT 1 FROM usage u WHERE (n_conversations <> 0 OR n_tokens <> 0) "
                "AND NOT EXISTS (SELECT 1 FROM conversation c WHERE c.uid = u.owner) LIMIT 1",
        [STMT_CHECK_TOTAL] = "SELECT count(*), CAST(coalesce(sum(stored_size), 0) AS bigint) "
                             "FROM record WHERE " MINE,
        /* LATERAL keeps the planner from reading all conversations for a page. */
        [STMT_CHECK_PAGE] =
                "SELECT " RECORD_COLUMNS ", r.n_tokens, c.id, c.model_weights, c.model_rules "
                "FROM record r CROSS JOIN LATERAL (SELECT c.id, c.model_weights, c.model_rules "
                "FROM link l JOIN conversation c ON c.id = l.conversation WHERE l.record = r.id "
                "AND l.machine = r.machine AND l.n_valid > 0 LIMIT 1) c "
                "WHERE r." MINE " AND r.id > ? ORDER BY r.id LIMIT ?",
        [STMT_CHECK_HAS] = "SELECT 1 FROM record WHERE id = ? AND " MINE,
        [STMT_LIST_HELD] =
                "SELECT " RECORD_COLUMNS ", l.n_valid, c.id, c.model_weights, c.model_rules "
                "FROM " LINKED "JOIN conversation c ON c.id = l.conversation WHERE l." MINE
                " ORDER BY r.id, l.n_valid = r.n_tokens DESC, c.id",

        /* Meters are what this machine has counted. */
        [STMT_METER_GET] = "SELECT value FROM meter WHERE name = ? AND " MINE,
        [STMT_METER_SET] = "INSERT INTO meter (name, value, machine) VALUES (?,?, @machine) "
                           "ON CONFLICT (machine, name) DO UPDATE SET value = excluded.value",
        [STMT_METER_KEEP] = "INSERT INTO meter (name, value, machine) VALUES (?,?, @machine) "
                            "ON CONFLICT DO NOTHING",
        [STMT_METER_REMOVE] = "DELETE FROM meter WHERE name = ? AND " MINE,

        /* Words. */
        [STMT_SEARCH_ADD] =
                "INSERT INTO search (place, words) VALUES (?1, CAST(CAST(?2 AS text) AS tsvector))",
        [STMT_SEARCH_REMOVE] = "DELETE FROM search WHERE place = ?1 AND CAST(?2 AS text) IS NOT "
                               "NULL",
        [STMT_SEARCH_NAMES] =
                "SELECT c.name || chr(10) || coalesce(c.title, '') || chr(10) || coalesce((SELECT "
                "string_agg(t.tag, chr(10) ORDER BY t.n) FROM tag t WHERE t.conversation = ?1), "
                "'') "
                "FROM conversation c WHERE c.id = ?1",
        /* One row more than a search may find: what a statement finds is all in RAM. */
        [STMT_SEARCH_FIND] = "SELECT place FROM search WHERE words @@ "
                             "CAST(CAST(?1 AS text) AS tsquery) ORDER BY place DESC LIMIT 1000001",
        [STMT_SEARCH_IS] = "SELECT 1 FROM search WHERE words @@ "
                           "CAST(CAST(?1 AS text) AS tsquery) AND place = ?2",
        [STMT_SEARCH_CONV] =
                "SELECT c.uid, c.updated_usec, CAST(?2 AS text) IS NULL OR EXISTS (SELECT 1 "
                "FROM tag t WHERE t.conversation = c.id AND t.tag = ?2) "
                "FROM conversation c WHERE c.id = ?1",
        [STMT_SEARCH_ROW] = LISTED "WHERE c.id = ?",
        [STMT_SEARCH_STRAYS] =
                "SELECT place >> 24 FROM search WHERE CASE place & 16777215 WHEN 0 THEN NOT EXISTS "
                "(SELECT 1 FROM conversation c WHERE c.id = search.place >> 24) ELSE NOT EXISTS "
                "(SELECT 1 FROM turn t WHERE t.conversation = search.place >> 24 "
                "AND t.n = (search.place & 16777215) - 1) END",
        [STMT_SEARCH_MISSING] =
                "SELECT c.id FROM conversation c WHERE NOT EXISTS (SELECT 1 FROM search s "
                "WHERE s.place = c.id << 24) OR EXISTS (SELECT 1 FROM turn t WHERE "
                "t.conversation = c.id AND NOT EXISTS (SELECT 1 FROM search s "
                "WHERE s.place = (c.id << 24) + t.n + 1))",

        /* On any machine's disk. */
        [STMT_MEMORY_HAS] = "SELECT 1 FROM record r WHERE machine IN (SELECT number FROM machine) "
                            "AND uid = ? AND token_hash = ? AND private = 0 AND block = ? "
                            "AND n_tokens = ? AND class = ? AND EXISTS (SELECT 1 FROM link l "
                            "WHERE l.record = r.id) LIMIT 1",

        /* Tenants, quotas and use. */
        [STMT_TENANT_INSERT] = "INSERT INTO tenant (uid, label) VALUES (?,?) RETURNING number",
        [STMT_TENANT_UNUSED] =
                "SELECT number FROM tenant WHERE uid = ?1 AND CAST(?2 AS bigint) IN (0, number) "
                "AND NOT EXISTS "
                "(SELECT 1 FROM conversation c WHERE c.uid = tenant.number << 32 | tenant.uid)",
        [STMT_QUOTA_SET] =
                "INSERT INTO quota (kind, number, label, name, value) VALUES (?,?,?,?,?) "
                "ON CONFLICT (kind, number, label, name) DO UPDATE SET value = excluded.value",
        /* To all other machines. */
        [STMT_QUOTA_TELL] = "SELECT count(pg_notify('confab_' || CAST(CAST('conversation' AS "
                            "regclass) AS oid) || '_' || number, 'limits')) FROM machine "
                            "WHERE number <> @machine",
        [STMT_USAGE_WORK] =
                "INSERT INTO usage (owner, day, day_tokens) VALUES (?1, ?2, ?3) "
                "ON CONFLICT (owner) DO UPDATE SET day = excluded.day, day_tokens = CASE "
                "WHEN usage.day = excluded.day THEN usage.day_tokens ELSE 0 END + "
                "excluded.day_tokens",

        /*
         * Leases. The age of the holder is that at the statement's begin, whose moment the row of table machine is of: a wait
         * for the lock does not make the holder older. An insert that refers to the conversation does not wait for the lock.
         */
        [STMT_LEASE_LOCK] =
                "SELECT c.holder, c.fence, (SELECT greatest(0, CAST(extract(epoch FROM "
                "statement_timestamp()) * 1000000 AS bigint) - m.seen_usec) FROM machine m "
                "WHERE m.number = c.holder) FROM conversation c WHERE c.id = ? "
                "FOR NO KEY UPDATE OF c",
        [STMT_LEASE_HOLDER] = "SELECT name, address, host, socket FROM machine WHERE number = ?",
        [STMT_LEASE_TAKE] = "UPDATE conversation SET holder = @machine, fence = ?2 WHERE id = ?1",
        [STMT_LEASE_DROP] = "UPDATE conversation SET holder = NULL WHERE id = ? "
                            "AND holder = @machine",
        /* What another machine has put in the turn's place meanwhile has a chain of its own. */
        [STMT_CHAIN_SET] =
                "UPDATE turn SET chain = ? WHERE conversation = ? AND n = ? AND chain IS NULL",
        /* To machine ?1, about conversation ?2 (pg-keeper.c hears it). */
        [STMT_LEASE_ASK] =
                "SELECT pg_notify(" CHANNEL ", 'want ' || CAST(?2 AS bigint) || ' @machine')",
        [STMT_LEASE_TELL] = "SELECT pg_notify(" CHANNEL ", 'given ' || CAST(?2 AS bigint))",
        [STMT_LEASE_DROP_ALL] = "UPDATE conversation SET holder = NULL WHERE holder = @machine",

        /*
         * Loose records: those without a link go, those with one are loose no more. The lock on that link makes a cut of
         * another machine come before, and then there is no such link, or behind, and then the record is loose again.
         */
        [STMT_LOOSE_TAKE] = "DELETE FROM record r WHERE r." MINE " AND r.loose AND NOT EXISTS "
                            "(SELECT 1 FROM link l WHERE l.record = r.id) "
                            "RETURNING " RECORD_COLUMNS,
        [STMT_LOOSE_KEEP] = "WITH kept AS (SELECT l.record FROM link l JOIN record r "
                            "ON r.id = l.record WHERE r." MINE " AND r.loose "
                            "FOR KEY SHARE OF l) UPDATE record SET loose = false FROM kept "
                            "WHERE record.id = kept.record",
};
