/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The events that the journal is told of: one table (logged.c) is the source of their MESSAGE_IDs, their levels, the
 * catalogue that `journalctl -x` explains them by, and the page confab-journal(7).
 *
 * 1. What is above the level "debug" is an event of the table. So an administrator finds each kind of line by
 *    MESSAGE_ID=, whatever its words become.
 * 2. A MESSAGE_ID is made once (systemd-id128 new) and never given to another event, nor changed.
 * 3. Levels: "error": the service lacks something until the administrator acts. "warning": he may want to act. "notice":
 *    somebody changed something that others feel. "info": all else. What a client did wrong is "info".
 * 4. What clients can bring about as often as they like is `limited`: log.h says how.
 * 5. A line never has text of a conversation, nor a name or title that its owner gave it: conversations are named by id. Tenants' labels
 *    are there, since limits and administrators' verbs know tenants by them.
 */
#include <stdbool.h>
#include <stddef.h>

enum logged {
        /* both programs */
        LOGGED_READY,
        LOGGED_STOPPING,
        LOGGED_STOPPED,
        LOGGED_STOP_FORCED,
        LOGGED_CANNOT_START,
        LOGGED_SETTINGS_WRONG,
        LOGGED_RELOADED,
        LOGGED_RELOAD_REFUSED,
        LOGGED_NEEDS_RESTART,
        LOGGED_LOOP_FAILED,
        LOGGED_SHORT_OF_RESOURCES,
        LOGGED_LEFT_OUT,
        LOGGED_JOURNAL_SLOW,
        /* confabd: model and register */
        LOGGED_READS_WEIGHTS,
        LOGGED_WEIGHTS_EXCEED_RAM,
        LOGGED_MIGRATED,
        LOGGED_REGISTER_TROUBLE,
        LOGGED_REGISTER_LOG_LOST,
        LOGGED_TURN_DAMAGED,
        LOGGED_REGISTER_DAMAGED,
        LOGGED_ENGINE_STUCK,
        /* confabd: memory of conversations */
        LOGGED_RECORDS_UNUSABLE,
        LOGGED_RECORD_DAMAGED,
        LOGGED_SPILL_FAILS,
        LOGGED_SPILL_WORKS,
        LOGGED_REMOTE_FAILS,
        LOGGED_REMOTE_WORKS,
        LOGGED_IMPORT_COLD,
        LOGGED_WAITS_FOR_MEMORY,
        LOGGED_MEMORY_SHORT,
        LOGGED_MEMORY_CALM,
        LOGGED_BUDGET_CHANGED,
        LOGGED_PRESSURE_UNWATCHED,
        /* confabd: administrators */
        LOGGED_ADMIN_ACT,
        LOGGED_LIMIT_CHANGED,
        LOGGED_DRAINED,
        LOGGED_DRAIN_ENDED,
        LOGGED_BACKUP_MADE,
        LOGGED_CHECKED,
        /* confabd: clients */
        LOGGED_REQUEST_FAILED,
        LOGGED_LIMIT_REACHED,
        LOGGED_CONNECTION_REFUSED,
        LOGGED_HELLO_REFUSED,
        LOGGED_PROTOCOL_ERROR,
        LOGGED_CONNECTION_LOST,
        LOGGED_REQUEST,
        /* confab-gateway */
        LOGGED_LISTENING,
        LOGGED_DAEMON_LOST,
        LOGGED_DAEMON_BACK,
        LOGGED_TOKENS_REFUSED,
        LOGGED_NOT_FOLLOWED,
        LOGGED_NO_PAGE,
        LOGGED_NO_BROWSER,
        LOGGED_HTTP_REQUEST,
        N_LOGGED
};

struct logged_info {
        const char *name; /* as confab-journal(7) has it */
        const char *id;   /* MESSAGE_ID */
        int level;        /* as in syslog */
        bool of_client;   /* what a client did; else what happened to the service */
        bool limited;     /* clients can bring it about as often as they like */
        const char
                *fields; /* words: the fields that it may have beside those of every line; or "" */
        const char *subject; /* a headline */
        const char *
                text; /* what happened, what it means, what to do; paragraphs have an empty line between them */
};

/* [N_LOGGED]. Any thread. */
extern const struct logged_info logged_table[];
