/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * With CONFAB_TEST_POSTGRESQL=URI in the environment (tests/util/with-postgres.py) an engine's register is a schema of that
 * server, one for each state folder.
 */
#include "base/util.h"
#include "util/test.h"
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* For struct engine_options: owned by the program, until the next call; NULL: the register is a file. */
static inline const char *server_uri(const char *state_dir) {
        const char *server = getenv("CONFAB_TEST_POSTGRESQL"), *base = strrchr(state_dir, '/');
        static char uri[512];
        char name[96], sql[160];
        PGresult *result;
        PGconn *conn;

        if (!server)
                return NULL;
        snprintf(name, sizeof(name), "e_%s", base ? base + 1 : state_dir);
        for (char *c = name; *c; c++)
                *c = (*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z') ? *c
                     : *c >= 'A' && *c <= 'Z'                             ? (char)(*c + 'a' - 'A')
                                                                          : '_';
        snprintf(sql, sizeof(sql), "CREATE SCHEMA IF NOT EXISTS %s", name);
        conn = PQconnectdb(server);
        result = PQexec(conn, sql);
        if (PQresultStatus(result) != PGRES_COMMAND_OK) {
                fprintf(stderr, "%s: %s\n", sql, PQerrorMessage(conn));
                exit(2);
        }
        PQclear(result);
        PQfinish(conn);
        snprintf(uri, sizeof(uri), "%s%coptions=-csearch_path%%3D%s", server,
                strchr(server, '?') ? '&' : '?', name);
        return uri;
}
