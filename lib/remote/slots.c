/* SPDX-License-Identifier: MIT */
/*
 * Where a cluster has its keys: each key is in one of 16384 slots, and each slot at one server.
 *
 * A map is what servers have told. It may be wrong at any time, which does no harm: the server that is asked by mistake says where
 * the slot is (MOVED).
 */
#include "base/util.h"
#include "remote/remote-private.h"
#include <stdio.h>

/* CRC-16/XMODEM: polynomial 0x1021, from 0. */
static uint16_t crc16(const char *text, size_t n) {
        unsigned crc = 0;

        for (size_t i = 0; i < n; i++) {
                crc ^= (unsigned)(unsigned char)text[i] << 8;
                for (int bit = 0; bit < 8; bit++)
                        crc = crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1;
        }
        return (uint16_t)crc;
}

uint16_t remote_slot(const char *key) {
        const char *open = strchr(key, '{'), *close = open ? strchr(open, '}') : NULL;

        /* What stands between the first braces is the key for this, unless that is nothing. */
        if (close && close > open + 1)
                return crc16(open + 1, (size_t)(close - open - 1)) % REMOTE_N_SLOTS;
        return crc16(key, strlen(key)) % REMOTE_N_SLOTS;
}

struct remote_map *remote_map_new(void) {
        return calloc(1, sizeof(struct remote_map));
}

struct remote_map *remote_map_free(struct remote_map *m) {
        if (m)
                free(m->servers);
        free(m);
        return NULL;
}

/* The number of a server, entered if it is new; REMOTE_SERVERS_MAX if that can't be. */
static size_t server_number(struct remote_map *m, const struct remote_address *a) {
        for (size_t i = 0; i < m->n_servers; i++)
                if (remote_address_same(&m->servers[i], a))
                        return i;
        if (m->n_servers == m->capacity) {
                size_t capacity = MIN(MAX(m->capacity * 2, (size_t)8), (size_t)REMOTE_SERVERS_MAX);
                struct remote_address *servers =
                        m->n_servers < capacity ? realloc(m->servers, capacity * sizeof(*servers))
                                                : NULL;

                if (!servers)
                        return REMOTE_SERVERS_MAX;
                m->servers = servers;
                m->capacity = capacity;
        }
        m->servers[m->n_servers] = *a;
        return m->n_servers++;
}

bool remote_map_set(
        struct remote_map *m, unsigned first, unsigned last, const struct remote_address *owner) {
        size_t number = server_number(m, owner);

        if (number == REMOTE_SERVERS_MAX)
                return false;
        for (unsigned slot = first; slot <= last && slot < REMOTE_N_SLOTS; slot++)
                m->owner[slot] = (uint16_t)(number + 1);
        return true;
}

/* --- the answer to CLUSTER SLOTS --- */

/* How many lists a value is in. */
static int depth_of(const redisReadTask *task) {
        int depth = 0;

        for (; task->parent; task = task->parent)
                depth++;
        return depth;
}

/* The first server of a range is the one that has it; those behind it are replicas. */
static bool is_of_owner(const redisReadTask *task) {
        return depth_of(task) == 3 && task->parent->idx == 2;
}

static void range_told(struct remote_slots_reader *s, long long port) {
        struct remote_address owner = {.port = (uint16_t)port};

        if (port < 1 || port > UINT16_MAX || !s->has_host || s->first < 0 || s->first > s->last ||
                s->last >= REMOTE_N_SLOTS)
                return;
        memcpy(owner.host, s->host, sizeof(owner.host));
        (void)remote_map_set(s->map, (unsigned)s->first, (unsigned)s->last, &owner);
}

void remote_slots_integer(struct remote_slots_reader *s, const redisReadTask *task, long long v) {
        if (depth_of(task) == 2 && task->idx == 0) {
                s->first = v;
                s->last = -1;
                s->has_host = false;
        } else if (depth_of(task) == 2 && task->idx == 1) {
                s->last = v;
        } else if (is_of_owner(task) && task->idx == 1) {
                range_told(s, v);
        }
}

void remote_slots_text(
        struct remote_slots_reader *s, const redisReadTask *task, const char *text, size_t n) {
        char told[REMOTE_HOST_MAX + 8];
        struct remote_address a;

        if (!is_of_owner(task) || task->idx != 0 || n > REMOTE_HOST_MAX)
                return;
        /* No name: that under which the server is asked. */
        snprintf(told, sizeof(told), "%.*s:1", (int)n, text ? text : "");
        s->has_host = remote_address_told(&a, told, s->asked);
        if (s->has_host)
                memcpy(s->host, a.host, sizeof(s->host));
}
