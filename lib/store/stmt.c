/* SPDX-License-Identifier: MIT */
/* The SQL of all statements, as SQLite has it. What PostgreSQL has in its place is in pg-stmt.c. */
#include "store/stmt-columns.h"

/* Behind these in every SELECT: bytes of the definitions of tools; whether its last turn waits for a
 * reply; whether its memory is pinned, which no new row is (so none inherits it). */
#define CONV_REST                                                                                  \
        "coalesce(length(CAST(tools AS BLOB)), 0), coalesce((SELECT role IN ('user', 'tool') "     \
        "FROM turn WHERE conversation = id AND n = n_turns - 1), 0), pinned"
/* Of conversation c: what its records take on disk. */
#define DISK_SIZE                                                                                  \
        "(SELECT coalesce(sum(r.stored_size), 0) FROM link l JOIN record r ON r.id = l.record "    \
        "WHERE l.conversation = c.id)"
#define LISTED "SELECT " CONV_COLUMNS ", " CONV_REST ", " DISK_SIZE " FROM conversation c "
/* Of the tags only their index is read. */
#define LISTED_BY_TAG                                                                              \
        "SELECT " CONV_COLUMNS ", " CONV_REST ", " DISK_SIZE                                       \
        " FROM (SELECT tag AS tagged, owner AS tagged_owner, conversation AS tagged_id, "          \
        "updated_usec AS tagged_usec FROM tag) CROSS JOIN conversation c ON c.id = tagged_id "
/* In place of a turn's extra where only its presence matters. */
#define HAS_EXTRA "CASE WHEN extra IS NULL THEN NULL ELSE '' END"

#define LINK_CUT                                                                                   \
        "DELETE FROM link WHERE conversation = ?1 AND block >= ?2 AND (class <> 2 OR block >= ?3)"

static const char *const stmt_sql[STMT_N] = {
        [STMT_BEGIN] = "BEGIN IMMEDIATE",
        [STMT_COMMIT] = "COMMIT",
        [STMT_ROLLBACK] = "ROLLBACK",
        [STMT_READ_BEGIN] = "BEGIN",
        [STMT_AUTO_VACUUM] = "PRAGMA auto_vacuum",
        [STMT_FREE_PAGES] = "PRAGMA freelist_count",
        [STMT_PAGE_SIZE] = "PRAGMA page_size",
        [STMT_VACUUM_SOME] = "PRAGMA incremental_vacuum(256)",
        [STMT_CONV_NEXT_ID] =
                "SELECT coalesce(max(seq), 0) + 1 FROM sqlite_sequence WHERE name = 'conversation'",
        [STMT_CONV_LAST_ID] =
                "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'conversation'",
        [STMT_CONV_NAME_TAKEN] = "SELECT 1 FROM conversation WHERE uid = ? AND name = ?",
        [STMT_CONV_INSERT] =
                "INSERT INTO conversation (" CONV_COLUMNS ", tools) "
                "VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,"
                "?)",
        [STMT_CONV_BY_ID] = "SELECT " CONV_COLUMNS ", " CONV_REST " FROM conversation WHERE id = ?",
        [STMT_CONV_BY_NAME] = "SELECT " CONV_COLUMNS ", " CONV_REST
                              " FROM conversation WHERE name = ? AND uid = ?",
        [STMT_CONV_BY_NAME_ANY] =
                "SELECT " CONV_COLUMNS ", " CONV_REST " FROM conversation WHERE name = ?",
        [STMT_CONV_LIST] =
                "SELECT " CONV_COLUMNS ", " CONV_REST ", " DISK_SIZE
                " FROM conversation c WHERE c.id > ? AND c.uid = ? ORDER BY c.id LIMIT ?",
        [STMT_CONV_LIST_ANY] = "SELECT " CONV_COLUMNS ", " CONV_REST ", " DISK_SIZE
                               " FROM conversation c WHERE c.id > ? ORDER BY c.id LIMIT ?",
        /* Those without an owner are for administrators; with a tag they sort. */
        [STMT_LIST_ID_TAG] = LISTED_BY_TAG "WHERE tagged = ?1 AND tagged_owner = ?2 "
                                           "AND tagged_id > ?4 ORDER BY tagged_id LIMIT "
                                           "?5",
        [STMT_LIST_ID_TAG_ANY] = LISTED_BY_TAG "WHERE tagged = ?1 AND tagged_id > ?4 "
                                               "ORDER BY tagged_id LIMIT ?5",
        [STMT_LIST_UPDATED] = LISTED "INDEXED BY conversation_updated WHERE c.uid = ?2 "
                                     "AND (c.updated_usec, c.id) < (?3, ?4) "
                                     "ORDER BY c.updated_usec DESC, c.id DESC LIMIT ?5",
        [STMT_LIST_UPDATED_ANY] = LISTED "INDEXED BY conversation_updated_any "
                                         "WHERE (c.updated_usec, c.id) < (?3, ?4) "
                                         "ORDER BY c.updated_usec DESC, c.id DESC LIMIT ?5",
        [STMT_LIST_UPDATED_TAG] =
                LISTED_BY_TAG "WHERE tagged = ?1 AND tagged_owner = ?2 "
                              "AND (tagged_usec, tagged_id) < (?3, ?4) "
                              "ORDER BY tagged_usec DESC, tagged_id DESC LIMIT ?5",
        [STMT_LIST_UPDATED_TAG_ANY] =
                LISTED_BY_TAG "WHERE tagged = ?1 AND (tagged_usec, tagged_id) < (?3, ?4) "
                              "ORDER BY tagged_usec DESC, tagged_id DESC LIMIT ?5",
        [STMT_CONV_COUNT] = "SELECT count(*) FROM conversation WHERE uid = ?",
        [STMT_CONV_COUNT_ANY] = "SELECT count(*) FROM conversation",
        [STMT_CONV_SET_NAME] = "UPDATE conversation SET name = ?, updated_usec = ? WHERE id = ?",
        [STMT_CONV_SET_SAMPLING] =
                "UPDATE conversation SET temperature = ?, top_k = ?, top_p = ?, min_p = ?, "
                "repetition_penalty = ?, presence_penalty = ?, frequency_penalty = ?, "
                "penalty_last_n = ?, seed = ?, logit_bias = ?, updated_usec = ? WHERE id = ?",
        [STMT_CONV_SHAPE] = "SELECT " SHAPE_COLUMNS " FROM conversation WHERE id = ?",
        [STMT_CONV_SET_MODEL] =
                "UPDATE conversation SET model_weights = ?, model_rules = ?, block_tokens = ?, "
                "memory_classes = ?, memory_window = ?, memory_chunk = ? WHERE id = ?",
        [STMT_CONV_SET_ORIGIN] =
                "UPDATE conversation SET model_weights = ?, model_rules = ?, vocab = ?, "
                "fork_pos = ?, n_published = ?, private_memory = 0, logit_bias = NULL "
                "WHERE id = ?",
        [STMT_CONV_SET_OVERFLOW] =
                "UPDATE conversation SET overflow = ?, updated_usec = ? WHERE id = ?",
        [STMT_CONV_SET_PINNED] =
                "UPDATE conversation SET pinned = ?, updated_usec = ? WHERE id = ?",
        /* Of what is not there any more (?6: before the gap), nothing is published either. */
        [STMT_CONV_SET_EXTENT] =
                "UPDATE conversation SET revision = ?1, n_tokens = ?2, n_turns = ?3, "
                "updated_usec = ?4, n_published = min(n_published, ?6), gap_first = ?7, "
                "gap_past = ?8 WHERE id = ?5",
        [STMT_CONV_SET_ACCESS] = "UPDATE conversation SET n_published = ?, private_memory = ?, "
                                 "updated_usec = ? WHERE id = ?",
        [STMT_CONV_SET_ON_DISK] =
                "UPDATE conversation SET on_disk = EXISTS (SELECT 1 FROM link WHERE "
                "conversation = ?1) WHERE id = ?1 AND on_disk <> EXISTS (SELECT 1 FROM link WHERE "
                "conversation = ?1)",
        [STMT_CONV_COPY_TOOLS] =
                "UPDATE conversation SET tools = (SELECT p.tools FROM conversation p "
                "WHERE p.id = ?2) WHERE id = ?1",
        [STMT_CONV_TOOLS] = "SELECT tools FROM conversation WHERE id = ?",
        [STMT_CONV_BEQUEATH] = "UPDATE conversation SET parent = ?2, fork_pos = min(fork_pos, ?3) "
                               "WHERE parent = ?1 AND parent > 0",
        [STMT_CONV_DELETE] = "DELETE FROM conversation WHERE id = ?",
        [STMT_EXPIRE_LIST] =
                "SELECT id, uid, expires_after, updated_usec + expires_after * 1000000 AS due "
                "FROM conversation INDEXED BY conversation_due WHERE expires_after > 0 "
                "AND (updated_usec + expires_after * 1000000, id) > (?1, ?2) "
                "ORDER BY updated_usec + expires_after * 1000000, id LIMIT ?3",
        [STMT_EXPIRE_BEYOND] =
                "SELECT id, uid, expires_after, due FROM (SELECT id, uid, expires_after, "
                "updated_usec + expires_after * 1000000 AS due, row_number() OVER "
                "(PARTITION BY uid ORDER BY updated_usec DESC, id DESC) AS place "
                "FROM conversation INDEXED BY conversation_throwaway WHERE expires_after > 0) "
                "WHERE place > ?1 AND id > ?2 ORDER BY id LIMIT ?3",
        [STMT_EXPIRE_GET] = "SELECT expires_after FROM conversation WHERE id = ?",
        /* ?2: enum about_field. */
        [STMT_ABOUT_SET] = "UPDATE conversation SET title = iif(?2 & 1, ?3, title), "
                           "metadata = iif(?2 & 4, ?4, metadata), "
                           "session = iif(?2 & 8, ?5, session), "
                           "expires_after = iif(?2 & 16, ?6, expires_after), updated_usec = ?7 "
                           "WHERE id = ?1",
        [STMT_ABOUT_GET] =
                "SELECT title, metadata, session, expires_after FROM conversation WHERE id = ?",
        [STMT_ABOUT_COPY] = "UPDATE conversation SET (title, metadata) = (SELECT p.title, "
                            "p.metadata FROM conversation p WHERE p.id = ?2) WHERE id = ?1",
        [STMT_TAG_CLEAR] = "DELETE FROM tag WHERE conversation = ?",
        [STMT_TAG_INSERT] =
                "INSERT INTO tag (conversation, n, tag, owner, updated_usec) VALUES (?,?,?,?,?)",
        [STMT_TAG_COPY] = "INSERT INTO tag (conversation, n, tag, owner, updated_usec) "
                          "SELECT ?1, n, tag, owner, ?3 FROM tag WHERE conversation = ?2",
        [STMT_TAG_LIST] = "SELECT tag FROM tag WHERE conversation = ? ORDER BY n",
        [STMT_TURN_INSERT] = "INSERT INTO turn (conversation, n, role, first, past, finish, "
                             "created_usec, text, tokens, token_hash, extra, chain) "
                             "VALUES (?,?,?,?,?,?,?,?,?,?,?,?)",
        [STMT_TURN_COPY] = "INSERT INTO turn (conversation, n, role, first, past, finish, "
                           "created_usec, text, tokens, token_hash, extra, chain) SELECT ?, "
                           "n, role, first, past, finish, created_usec, text, tokens, token_hash, "
                           "extra, chain FROM turn WHERE conversation = ? AND n < ?",
        [STMT_TURN_CUT] = "DELETE FROM turn WHERE conversation = ? AND n >= ?",
        [STMT_TURN_LIST] = "SELECT " TURN_COLUMNS ", text, tokens, token_hash, extra FROM turn "
                           "WHERE conversation = ? ORDER BY n",
        [STMT_TURN_LIST_BARE] =
                "SELECT " TURN_COLUMNS ", NULL, tokens, token_hash, " HAS_EXTRA " FROM turn "
                "WHERE conversation = ? ORDER BY n",
        /* Turns from ?4 on and before ?5; of those in [?2, ?3) the texts, too. */
        [STMT_TURN_PAGE] =
                "SELECT " TURN_COLUMNS ", CASE WHEN n >= ?2 AND n < ?3 THEN text END, tokens, "
                "token_hash, CASE WHEN n >= ?2 AND n < ?3 THEN extra ELSE " HAS_EXTRA " END "
                "FROM turn WHERE conversation = ?1 AND n >= ?4 AND n < ?5 ORDER BY n",
        /* The columns of STMT_TURN_SIZES, of the same; no links. */
        [STMT_TURN_PAGE_SIZES] =
                "SELECT coalesce(sum(CASE WHEN n >= ?2 AND n < ?3 THEN length(CAST(text AS BLOB)) "
                "+ "
                "coalesce(length(CAST(extra AS BLOB)), 0) END), 0), 0, count(*), "
                "coalesce(sum(length(tokens)), 0) FROM turn WHERE conversation = ?1 AND n >= ?4 "
                "AND n < ?5",
        /* The last turn up to ?2 that is not of the assistant. */
        [STMT_TURN_RUN] = "SELECT n FROM turn WHERE conversation = ?1 AND n <= ?2 AND "
                          "role <> 'assistant' ORDER BY n DESC LIMIT 1",
        [STMT_TURN_TOKENS] =
                "SELECT n, first, past, tokens FROM turn WHERE conversation = ? ORDER BY n",
        [STMT_TURN_TOKENS_OF] =
                "SELECT " TURN_COLUMNS ", NULL, tokens, token_hash, " HAS_EXTRA " FROM turn "
                "WHERE conversation = ? AND n = ?",
        [STMT_TURN_SIZES] = "SELECT coalesce(sum(length(CAST(text AS BLOB)) + "
                            "coalesce(length(CAST(extra AS BLOB)), 0)), 0) + "
                            "coalesce((SELECT length(CAST(tools AS BLOB)) FROM conversation "
                            "WHERE id = ?1), 0), "
                            "(SELECT count(*) FROM link WHERE link.conversation = ?1), "
                            "count(*), coalesce(sum(length(tokens)), 0) "
                            "FROM turn WHERE turn.conversation = ?1",
        [STMT_TURN_GET] = "SELECT role, first, past FROM turn WHERE conversation = ? AND n = ?",
        [STMT_TURN_EXTRA] = "SELECT extra FROM turn WHERE conversation = ? AND n = ?",
        [STMT_TURN_TOOLS] = "SELECT extra FROM turn WHERE conversation = ? AND n < ? AND "
                            "extra IS NOT NULL AND role <> 'assistant' ORDER BY n DESC LIMIT 1",
        [STMT_TURN_TEXT] = "SELECT text FROM turn WHERE conversation = ? AND n = ?",
        [STMT_TURN_SHORTEN] = "UPDATE turn SET past = ?, tokens = ?, token_hash = ?, finish = ?, "
                              "created_usec = coalesce(?, created_usec), text = ?, chain = ? "
                              "WHERE conversation = ? AND n = ?",
        [STMT_TURN_RENEW] = "UPDATE turn SET first = ?, past = ?, tokens = ?, token_hash = ?, "
                            "chain = ? WHERE conversation = ? AND n = ?",
        [STMT_CHAIN_GET] = "SELECT chain FROM turn WHERE conversation = ? AND n = ?",
        [STMT_CHAIN_SET] = "UPDATE turn SET chain = ? WHERE conversation = ? AND n = ?",
        [STMT_CHAIN_MISSING] = "SELECT DISTINCT conversation FROM turn WHERE chain IS NULL "
                               "AND conversation > ? ORDER BY conversation LIMIT ?",
        [STMT_CHAIN_HAS] = "SELECT 1 FROM turn WHERE chain = ? LIMIT 1",
        /* The first turn with this chain of each conversation, newest conversations first. */
        [STMT_CHAIN_CONVS] = "SELECT conversation, min(n) FROM turn WHERE chain = ? "
                             "GROUP BY conversation ORDER BY conversation DESC LIMIT ?",
        [STMT_CHAIN_SESSION] = "SELECT id FROM conversation WHERE uid = ? AND session = ? "
                               "ORDER BY id DESC LIMIT ?",
        [STMT_CHAIN_OF] = "SELECT min(n) FROM turn WHERE chain = ? AND conversation = ?",
        [STMT_FIGURES_INSERT] = "INSERT INTO turn_figures (conversation, n, " FIGURES_COLUMNS ") "
                                "VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        [STMT_FIGURES_COPY] = "INSERT INTO turn_figures (conversation, n, " FIGURES_COLUMNS ") "
                              "SELECT ?, n, " FIGURES_COLUMNS " FROM turn_figures "
                              "WHERE conversation = ? AND n < ?",
        [STMT_FIGURES_LIST] = "SELECT n, " FIGURES_COLUMNS " FROM turn_figures "
                              "WHERE conversation = ? AND n >= ? AND n < ? ORDER BY n",
        [STMT_FIGURES_SIZES] = "SELECT count(*), coalesce(sum(length(CAST(model AS BLOB))), 0) "
                               "FROM turn_figures WHERE conversation = ? AND n >= ? AND n < ?",
        [STMT_RECORD_INSERT] = "INSERT INTO record (file_key, start, stored_size, raw_size, class, "
                               "block, n_tokens, token_hash, uid, private) "
                               "VALUES (?,?,?,?,?,?,?,?,?,?)",
        [STMT_RECORD_GET] = "SELECT " RECORD_COLUMNS " FROM record r WHERE r.id = ?",
        [STMT_RECORD_DELETE] = "DELETE FROM record WHERE id = ?",
        [STMT_RECORD_LIST] = "SELECT " RECORD_COLUMNS " FROM record r ORDER BY r.id",
        [STMT_LINK_PUT] =
                "INSERT OR REPLACE INTO link (conversation, block, class, record, n_valid) "
                "VALUES (?,?,?,?,?)",
        [STMT_LINK_GET] =
                "SELECT record FROM link WHERE conversation = ? AND block = ? AND class = ?",
        /* ?3 tokens in blocks of ?4: states (class 2) that end there, others that begin before. */
        [STMT_LINK_COPY] =
                "INSERT INTO link (conversation, block, class, record, n_valid) "
                "SELECT ?1, block, class, record, CASE class WHEN 2 THEN n_valid "
                "ELSE min(n_valid, ?3 - block * ?4) END FROM link WHERE conversation = ?2 "
                "AND block < ?3 AND (class = 2 OR block < (?3 + ?4 - 1) / ?4)",
        [STMT_LINK_SHORTEN] = "UPDATE link SET n_valid = min(n_valid, ?2 - block * ?3) "
                              "WHERE conversation = ?1 AND block = ?2 / ?3 AND class <> 2",
        /* States from ?3 on, others from ?2 on. */
        [STMT_LINK_IDS_FROM] = "SELECT DISTINCT record FROM link WHERE conversation = ?1 "
                               "AND block >= ?2 AND (class <> 2 OR block >= ?3)",
        [STMT_LINK_CUT] = LINK_CUT,
        [STMT_LINK_CUT_OWN] = LINK_CUT,
        [STMT_LINK_DROP] = "DELETE FROM link WHERE conversation = ? AND block = ? AND class = ?",
        [STMT_LINK_LIST] = "SELECT " RECORD_COLUMNS ", l.n_valid FROM link l JOIN record r "
                           "ON r.id = l.record WHERE l.conversation = ? AND l.class = ? "
                           "ORDER BY l.block",
        [STMT_LINK_SIZE] = "SELECT " DISK_SIZE " FROM conversation c WHERE c.id = ?",
        [STMT_LINK_RUN] = "SELECT " RECORD_COLUMNS ", l.n_valid FROM link l JOIN record r "
                          "ON r.id = l.record WHERE l.conversation = ?1 AND l.class = ?2 "
                          "AND l.block < ?3 AND (l.block + 1) % ?4 = 0 ORDER BY l.block",
        [STMT_LINK_REFERS] = "SELECT 1 FROM link WHERE record = ? LIMIT 1",
        [STMT_LINK_PRIVATE] = "SELECT 1 FROM link l JOIN record r ON r.id = l.record "
                              "WHERE l.conversation = ? AND r.private LIMIT 1",
        [STMT_LINK_BETWEEN] = "SELECT 1 FROM link WHERE record = ? AND conversation = ? LIMIT 1",
        [STMT_LINK_USERS] = "SELECT conversation, block, class FROM link WHERE record = ?",
        /* From the tail; whether the record is published, how many refer to it (up to ?2), whether ?3
         * does. A state counts as one token. */
        [STMT_LINK_TAIL] =
                "SELECT l.block, r.id, r.stored_size, r.uid, "
                "EXISTS (SELECT 1 FROM conversation p CROSS JOIN link x ON x.conversation = p.id "
                "AND x.block = r.block AND x.class = r.class WHERE p.n_published > 0 "
                "AND p.n_published > r.block * r.n_tokens AND x.record = r.id), "
                "(SELECT count(*) FROM (SELECT 1 FROM link x WHERE x.record = r.id LIMIT ?2)), "
                "l.class, l.n_valid, EXISTS (SELECT 1 FROM link x WHERE x.record = r.id "
                "AND x.conversation = ?3) FROM link l JOIN record r ON r.id = l.record WHERE "
                "l.conversation = ?1 "
                "ORDER BY l.block DESC, l.class DESC",
        [STMT_PREFIX_HAS] = "SELECT 1 FROM record WHERE uid = ? AND token_hash = ? AND private = 0 "
                            "AND block = ? AND n_tokens = ? AND class = ? LIMIT 1",
        /* CROSS JOIN keeps SQLite from another order than the one that finds nothing fast. */
        [STMT_PREFIX_DONORS] =
                "SELECT c.id FROM record r CROSS JOIN link l ON l.record = r.id "
                "CROSS JOIN conversation c ON c.id = l.conversation "
                "WHERE r.uid = ?1 AND r.token_hash = ?2 AND r.private = 0 AND r.block = ?3 "
                "AND r.n_tokens = ?4 AND r.class = ?5 AND l.n_valid = ?4 AND c.uid = ?1 "
                "AND c.private_memory = 0 AND c.model_weights = ?6 AND c.model_rules = ?7 "
                "AND c.vocab = ?8 LIMIT ?9",
        [STMT_PREFIX_PUBLIC] =
                "SELECT c.id FROM conversation c CROSS JOIN link l ON l.conversation = c.id "
                "AND l.block = 0 AND l.class = 0 CROSS JOIN record r ON r.id = l.record "
                "WHERE c.n_published > 0 AND c.n_published >= ?2 AND r.token_hash = ?1 "
                "AND r.private = 0 AND r.n_tokens = ?2 AND l.n_valid = ?2 "
                "AND c.private_memory = 0 AND c.model_weights = ?3 AND c.model_rules = ?4 "
                "AND c.vocab = ?5 ORDER BY c.n_published DESC, c.id LIMIT ?6",
        /* Of models without class 0 the first block may be gone. */
        [STMT_PREFIX_PUBLIC_ANY] =
                "SELECT c.id FROM conversation c WHERE c.n_published > 0 AND c.n_published >= ?1 "
                "AND c.on_disk = 1 AND c.private_memory = 0 AND c.model_weights = ?2 "
                "AND c.model_rules = ?3 AND c.vocab = ?4 ORDER BY c.n_published DESC, c.id "
                "LIMIT ?5",
        /* Only conversations with records, in portions after the place reached so far: those that
         * were reclaimed already come before it and are not visited again. SQLite would rather walk the
         * index of all conversations by time of change. */
        [STMT_RECLAIM_CONVS] =
                "SELECT id, updated_usec FROM conversation INDEXED BY conversation_uid_on_disk "
                "WHERE on_disk = 1 AND uid = ?4 "
                "AND id <> ?1 AND (updated_usec, id) > (?2, ?3) ORDER BY updated_usec, id LIMIT 64",
        [STMT_RECLAIM_CONVS_ANY] =
                "SELECT id, updated_usec FROM conversation INDEXED BY conversation_on_disk "
                "WHERE on_disk = 1 AND id <> ?1 AND (updated_usec, id) > (?2, ?3) ORDER BY "
                "updated_usec, id LIMIT 64",
        [STMT_RECLAIM_RECORDS] = "SELECT id FROM record WHERE uid = ? ORDER BY block DESC, id DESC",
        [STMT_CHECK_FILE] = "PRAGMA integrity_check",
        [STMT_CHECK_CONVS] = "SELECT id FROM conversation ORDER BY id",
        [STMT_CHECK_TURNS] = "SELECT " TURN_COLUMNS ", text, tokens, token_hash, extra "
                             "FROM turn WHERE conversation = ? ORDER BY n",
        [STMT_CHECK_LINKS] = "SELECT " RECORD_COLUMNS ", l.n_valid, l.block, l.class, l.record "
                             "FROM link l LEFT JOIN record r ON r.id = l.record "
                             "WHERE l.conversation = ? ORDER BY l.block, l.class",
        [STMT_CHECK_RECORDS] = "SELECT " RECORD_COLUMNS ", NOT EXISTS (SELECT 1 FROM link "
                               "WHERE record = r.id) FROM record r "
                               "ORDER BY r.file_key, r.start, r.id",
        [STMT_CHECK_STRAYS] =
                "SELECT DISTINCT 0, conversation FROM turn WHERE conversation NOT IN "
                "(SELECT id FROM conversation) UNION ALL "
                "SELECT DISTINCT 1, conversation FROM link WHERE conversation NOT IN "
                "(SELECT id FROM conversation) UNION ALL "
                "SELECT DISTINCT 2, conversation FROM tag WHERE conversation NOT IN "
                "(SELECT id FROM conversation) UNION ALL "
                "SELECT DISTINCT 3, f.conversation FROM turn_figures f WHERE NOT EXISTS "
                "(SELECT 1 FROM turn t WHERE t.conversation = f.conversation "
                "AND t.n = f.n) UNION ALL "
                "SELECT 4, id FROM conversation WHERE uid >> 32 <> 0 AND NOT EXISTS "
                "(SELECT 1 FROM tenant WHERE number = conversation.uid >> 32 "
                "AND tenant.uid = conversation.uid & 4294967295)",
        [STMT_CHECK_TAGS] =
                "SELECT DISTINCT c.id FROM tag t JOIN conversation c ON c.id = t.conversation "
                "WHERE t.owner <> c.uid OR t.updated_usec <> c.updated_usec",
        [STMT_CHECK_ON_DISK] =
                "SELECT c.id FROM conversation c WHERE c.on_disk <> EXISTS (SELECT 1 FROM link l "
                "WHERE l.conversation = c.id)",
        [STMT_CHECK_COUNTERS] =
                "SELECT 1 WHERE coalesce((SELECT max(id) FROM conversation), 0) > "
                "coalesce((SELECT max(seq) FROM sqlite_sequence WHERE name = 'conversation'), 0) "
                "OR coalesce((SELECT max(id) FROM record), 0) > "
                "coalesce((SELECT max(seq) FROM sqlite_sequence WHERE name = 'record'), 0) "
                "OR coalesce((SELECT max(number) FROM tenant), 0) > "
                "coalesce((SELECT max(seq) FROM sqlite_sequence WHERE name = 'tenant'), 0)",
        [STMT_CHECK_USAGE] =
                "SELECT 1 FROM (SELECT uid, count(*) AS n, sum(n_tokens) AS t FROM conversation "
                "GROUP BY uid) c LEFT JOIN usage u ON u.owner = c.uid "
                "WHERE u.n_conversations IS NOT c.n OR u.n_tokens IS NOT c.t "
                "UNION ALL SELECT 1 FROM usage u WHERE (n_conversations <> 0 OR n_tokens <> 0) "
                "AND NOT EXISTS (SELECT 1 FROM conversation c WHERE c.uid = u.owner) LIMIT 1",
        /* Of virtual tables the tables that keep their rows. */
        [STMT_CHECK_TABLES] = "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > "
                              "0 ORDER BY name",
        [STMT_CHECK_NEXT_CONV] = "SELECT id FROM conversation WHERE id > ? ORDER BY id LIMIT 1",
        [STMT_CHECK_TOTAL] = "SELECT count(*), coalesce(sum(stored_size), 0) FROM record",
        /* Of those that link a record, any one that has some of it: all of them have the same model. */
        [STMT_CHECK_PAGE] =
                "SELECT " RECORD_COLUMNS ", r.n_tokens, c.id, c.model_weights, c.model_rules "
                "FROM record r JOIN conversation c ON c.id = (SELECT l.conversation FROM link l "
                "WHERE l.record = r.id AND l.n_valid > 0 LIMIT 1) "
                "WHERE r.id > ? ORDER BY r.id LIMIT ?",
        [STMT_CHECK_HAS] = "SELECT 1 FROM record WHERE id = ?",
        [STMT_LIST_HELD] = "SELECT " RECORD_COLUMNS ", l.n_valid, c.id, c.model_weights, "
                           "c.model_rules FROM record r JOIN link l ON l.record = r.id "
                           "JOIN conversation c ON c.id = l.conversation "
                           "ORDER BY r.id, l.n_valid = r.n_tokens DESC, c.id",
        [STMT_METER_GET] = "SELECT value FROM meter WHERE name = ?",
        [STMT_METER_KEEP] = "INSERT OR IGNORE INTO meter (name, value) VALUES (?,?)",
        [STMT_METER_REMOVE] = "DELETE FROM meter WHERE name = ?",
        [STMT_SEARCH_ADD] = "INSERT INTO search (rowid, words) VALUES (?,?)",
        [STMT_SEARCH_REMOVE] = "INSERT INTO search (search, rowid, words) VALUES ('delete',?,?)",
        [STMT_SEARCH_TURNS] =
                "SELECT n, text FROM turn WHERE conversation = ? AND n >= ? AND n < ? ORDER BY n",
        [STMT_SEARCH_NAMES] =
                "SELECT c.name || char(10) || coalesce(c.title, '') || char(10) || "
                "coalesce((SELECT "
                "group_concat(t.tag, char(10)) FROM (SELECT tag FROM tag WHERE conversation = ?1 "
                "ORDER BY n) t), '') FROM conversation c WHERE c.id = ?1",
        [STMT_SEARCH_MERGE] = "INSERT INTO search (search, rank) VALUES ('merge',?)",
        [STMT_SEARCH_FIND] = "SELECT rowid FROM search WHERE search MATCH ? ORDER BY rowid DESC",
        [STMT_SEARCH_IS] = "SELECT 1 FROM search WHERE search MATCH ? AND rowid = ?",
        /* Whether it has the tag ?2, or none is asked for. */
        [STMT_SEARCH_CONV] =
                "SELECT c.uid, c.updated_usec, ?2 IS NULL OR EXISTS (SELECT 1 FROM tag t WHERE "
                "t.conversation = c.id AND t.tag = ?2) FROM conversation c WHERE c.id = ?1",
        [STMT_SEARCH_ROW] = LISTED "WHERE c.id = ?",
        /* The index has the numbers of its rows in the table of their sizes. */
        [STMT_SEARCH_STRAYS] =
                "SELECT id >> 24 FROM search_docsize WHERE CASE id & 16777215 WHEN 0 THEN NOT "
                "EXISTS "
                "(SELECT 1 FROM conversation c WHERE c.id = search_docsize.id >> 24) ELSE NOT "
                "EXISTS "
                "(SELECT 1 FROM turn t WHERE t.conversation = search_docsize.id >> 24 "
                "AND t.n = (search_docsize.id & 16777215) - 1) END",
        [STMT_SEARCH_MISSING] =
                "SELECT c.id FROM conversation c WHERE NOT EXISTS (SELECT 1 FROM search_docsize d "
                "WHERE d.id = c.id << 24) OR EXISTS (SELECT 1 FROM turn t WHERE "
                "t.conversation = c.id AND NOT EXISTS (SELECT 1 FROM search_docsize d "
                "WHERE d.id = (c.id << 24) + t.n + 1))",
        [STMT_METER_SET] = "INSERT OR REPLACE INTO meter (name, value) VALUES (?,?)",
        [STMT_SECRET_GET] = "SELECT secret FROM secret WHERE owner = ?",
        [STMT_SECRET_ENTER] = "INSERT INTO secret (owner, secret) VALUES (?,?) "
                              "ON CONFLICT DO NOTHING",
        [STMT_SECRET_FORGET] = "DELETE FROM secret WHERE owner >> 32 <> 0 AND NOT EXISTS "
                               "(SELECT 1 FROM tenant WHERE number = owner >> 32)",
        [STMT_MEMORY_HAS] = "SELECT 1 FROM record r WHERE uid = ? AND token_hash = ? "
                            "AND private = 0 AND block = ? AND n_tokens = ? AND class = ? "
                            "AND EXISTS (SELECT 1 FROM link l WHERE l.record = r.id) LIMIT 1",
        [STMT_TENANT_FIND] = "SELECT number FROM tenant WHERE uid = ? AND label = ?",
        [STMT_TENANT_COUNT] = "SELECT count(*) FROM tenant WHERE uid = ?",
        [STMT_TENANT_INSERT] = "INSERT INTO tenant (uid, label) VALUES (?,?)",
        [STMT_TENANT_LABEL] = "SELECT label FROM tenant WHERE number = ? AND uid = ?",
        [STMT_OWNER_NEXT] = "SELECT uid FROM conversation WHERE uid >= ? ORDER BY uid LIMIT 1",
        [STMT_OWNER_CONVS] = "SELECT id, n_tokens, updated_usec FROM conversation "
                             "WHERE uid = ? AND id > ? ORDER BY id LIMIT ?",
        /* Along the table: SQLite would rather sort all that are on disk, each time. */
        [STMT_ON_DISK_BEFORE] = "SELECT id FROM conversation NOT INDEXED WHERE id < ? "
                                "AND on_disk = 1 ORDER BY id DESC LIMIT 1",
        [STMT_QUOTA_LIST] = "SELECT kind, number, label, name, value FROM quota "
                            "ORDER BY kind, number, label, name",
        [STMT_QUOTA_COUNT] = "SELECT count(*) FROM quota",
        [STMT_QUOTA_SET] = "INSERT OR REPLACE INTO quota (kind, number, label, name, value) "
                           "VALUES (?,?,?,?,?)",
        [STMT_QUOTA_CLEAR] =
                "DELETE FROM quota WHERE kind = ? AND number = ? AND label = ? AND name = ?",
        [STMT_USAGE_GET] = "SELECT n_conversations, n_tokens, day, day_tokens FROM usage "
                           "WHERE owner = ?",
        [STMT_USAGE_WORK] =
                "INSERT INTO usage (owner, day, day_tokens) VALUES (?1, ?2, ?3) "
                "ON CONFLICT (owner) DO UPDATE SET "
                "day_tokens = CASE day WHEN ?2 THEN day_tokens + ?3 ELSE ?3 END, day = ?2",
        [STMT_USAGE_ENTER] = "INSERT INTO usage (owner) SELECT DISTINCT uid FROM conversation "
                             "WHERE true ON CONFLICT DO NOTHING",
        [STMT_USAGE_COUNT] =
                "UPDATE usage SET n_conversations = (SELECT count(*) FROM conversation "
                "WHERE uid = owner), n_tokens = (SELECT coalesce(sum(n_tokens), 0) "
                "FROM conversation WHERE uid = owner)",
        [STMT_USAGE_FORGET] = "DELETE FROM usage WHERE n_conversations = 0 AND day <> ?",
        [STMT_TENANT_UNUSED] =
                "SELECT number FROM tenant WHERE uid = ?1 AND ?2 IN (0, number) AND NOT EXISTS "
                "(SELECT 1 FROM conversation c WHERE c.uid = tenant.number << 32 | tenant.uid)",
        [STMT_TENANT_REMOVE] = "DELETE FROM tenant WHERE number = ?",
        [STMT_TENANT_FORGET] = "DELETE FROM tenant WHERE NOT EXISTS (SELECT 1 FROM conversation c "
                               "WHERE c.uid = tenant.number << 32 | tenant.uid)",
};

const char *stmt_text(enum store_stmt which) {
        return stmt_sql[which];
}
