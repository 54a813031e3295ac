/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Private to lib/remote. Files, each of which uses those before it alone: uri.c, slots.c, tls.c, conn.c, pool.c, command.c, lane.c,
 * calls.c.
 */
#include "base/err.h"
#include "remote/remote.h"

#include <hiredis/hiredis.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/uio.h>

enum {
        REMOTE_HOST_MAX = 255,     /* bytes of a name, an address or a path */
        REMOTE_SEEDS_MAX = 16,     /* servers in a URI */
        REMOTE_SERVERS_MAX = 1024, /* servers of a cluster; more of them are not asked */
        REMOTE_IDLE_MAX = 32,      /* connections that are kept, to all servers together */
        REMOTE_N_SLOTS = 16384,    /* of every cluster */
        REMOTE_CHUNK = 65536,      /* bytes that are received at a time */
};

/* --- uri.c --- */

/* A server. port 0: host is the path of a Unix socket. */
struct remote_address {
        char host[REMOTE_HOST_MAX + 1];
        uint16_t port;
};
enum { REMOTE_ADDRESS_TEXT = REMOTE_HOST_MAX + 16 };

struct remote_uri {
        struct remote_address seeds[REMOTE_SEEDS_MAX];
        size_t n_seeds;
        uint32_t db;
        bool tls;
};

int remote_uri_parse(struct remote_uri *ret, const char *text, struct err *e);
bool remote_address_same(const struct remote_address *a, const struct remote_address *b);
/* As people write it. */
const char *remote_address_text(const struct remote_address *a, char ret[REMOTE_ADDRESS_TEXT]);
/* "HOST:PORT" as a server of a cluster tells it: IPv6 without brackets, and without HOST it means that of @asked. */
bool remote_address_told(
        struct remote_address *ret, const char *text, const struct remote_address *asked);

/* --- slots.c: where a cluster has its keys --- */

uint16_t remote_slot(const char *key);

struct remote_map {
        struct remote_address *servers; /* [n_servers], owned */
        size_t n_servers, capacity;
        uint16_t owner[REMOTE_N_SLOTS]; /* a server's number and 1; 0: not known */
};
struct remote_map *remote_map_new(void);
struct remote_map *remote_map_free(struct remote_map *m);
DEFINE_CLEANUP(struct remote_map *, remote_map_free);
/* False: there is no memory, or are too many servers; nothing is changed. */
bool remote_map_set(
        struct remote_map *m, unsigned first, unsigned last, const struct remote_address *owner);

/* What reads the answer to CLUSTER SLOTS, value by value: [[first, last, [host, port, ...], replica...]...]. */
struct remote_slots_reader {
        struct remote_map *map;
        const struct remote_address *asked;
        long long first, last; /* of the range that is being told */
        char host[REMOTE_HOST_MAX + 1];
        bool has_host;
};
void remote_slots_integer(struct remote_slots_reader *s, const redisReadTask *task, long long v);
/* @text NULL: none. */
void remote_slots_text(
        struct remote_slots_reader *s, const redisReadTask *task, const char *text, size_t n);

/* --- tls.c: TLS over a socket that does not block --- */

struct tls_context;
struct tls;
/* @ca_file NULL: whom the system trusts. -ERR_UNSUPPORTED, -ERR_INVALID (the file), -ERR_NOMEM. */
int remote_tls_context_new(struct tls_context **ret, const char *ca_file, struct err *e);
struct tls_context *remote_tls_context_free(struct tls_context *c);
/* @host: whose certificate is wanted. The socket stays the caller's. */
int remote_tls_new(
        struct tls **ret, struct tls_context *c, int fd, const char *host, struct err *e);
struct tls *remote_tls_free(struct tls *t);
/* These return what became of it: bytes (1 from the handshake), REMOTE_TLS_WANTS_..., or -1 with a sentence in
 * *ret_why, which stays valid until the thread's next call. */
enum { REMOTE_TLS_WANTS_READ = -2, REMOTE_TLS_WANTS_WRITE = -3, REMOTE_TLS_CLOSED = -4 };
int remote_tls_handshake(struct tls *t, const char **ret_why);
ssize_t remote_tls_send(struct tls *t, const void *data, size_t n, const char **ret_why);
ssize_t remote_tls_receive(struct tls *t, void *data, size_t n, const char **ret_why);

/* --- conn.c: connections and answers --- */

struct remote_reply {
        int type;          /* REDIS_REPLY_... */
        long long integer; /* of REDIS_REPLY_INTEGER */
        const void
                *data; /* of REDIS_REPLY_STRING, until remote_conn_next(); NULL: it is too long */
        size_t size;
        char text[192]; /* of REDIS_REPLY_ERROR and _STATUS, cut */
};

struct remote_conn {
        struct remote_address address;
        int fd;
        struct tls *tls; /* NULL: none */
        redisReader *reader;
        size_t max_value_size;
        struct remote_reply reply;
        bool within;      /* the reader has begun an answer, and needs more bytes of it */
        bool in_place;    /* reply.data is in the reader's buffer, unread */
        size_t n_pending; /* bytes that came since the last whole answer */
        size_t peak;      /* most bytes the reader has held */
        struct remote_slots_reader *slots; /* NULL: no answer may be a list */
};

/* What a connection has in common with others. */
struct remote_config {
        char *user, *password; /* owned; NULL: none */
        uint32_t db;
        uint64_t timeout_usec;
        size_t max_value_size;
        struct tls_context *tls; /* owned; NULL: none */
};

/* Connect, and tell the server who we are. Blocks until @until, and timeout_usec for each step. -ERR_UNAVAILABLE, -ERR_NOMEM. */
int remote_conn_open(struct remote_conn **ret, const struct remote_config *config,
        const struct remote_address *address, uint64_t until, struct err *e);
struct remote_conn *remote_conn_free(struct remote_conn *c);
DEFINE_CLEANUP(struct remote_conn *, remote_conn_free);
/* Whether a connection that nobody waits for anything from seems to live. */
bool remote_conn_lives(const struct remote_conn *c);
/* Whether nothing is left of answers; gives back the memory of a large one. */
bool remote_conn_rest(struct remote_conn *c);
/* How many bytes were taken, perhaps 0; or an error. Does not block. */
ssize_t remote_conn_send(struct remote_conn *c, const struct iovec *parts, size_t n, struct err *e);
/* How many bytes came (@chunk has room for REMOTE_CHUNK), perhaps 0; or an error: the server has closed it, too. Does not block. */
ssize_t remote_conn_receive(struct remote_conn *c, void *chunk, struct err *e);
/* 1: c->reply is the next answer, until remote_conn_next(). 0: it has not come yet. -ERR_UNAVAILABLE: what came is no answer.
 * REMOTE_TOO_LONG: it is longer than max_value_size, and unread: the connection can only be closed. */
enum { REMOTE_TOO_LONG = 2 };
int remote_conn_reply(struct remote_conn *c, struct err *e);
int remote_conn_next(struct remote_conn *c, struct err *e);
/* One command and its answer, in c->reply; blocks. */
int remote_conn_ask(struct remote_conn *c, const struct iovec *command, uint64_t timeout_usec,
        uint64_t until, struct err *e);
/* err_set(ERR_UNAVAILABLE) with the server's name before @why. */
int remote_conn_fail(const struct remote_address *a, struct err *e, const char *why);
/* Wait until a socket is ready for @events. 0: it may be; -ETIMEDOUT: @until has come. */
int remote_poll(int fd, short events, uint64_t until);

/* --- pool.c: what all calls share --- */

struct remote {
        struct remote_config config;
        struct remote_uri uri;
        atomic_uint_fast64_t n_connects, n_failures, n_redirects, received_size, sent_size;
        pthread_mutex_t lock;                      /* of what follows */
        size_t seed;                               /* which one answered last */
        struct remote_map *map;                    /* NULL: of no cluster, as far as known */
        uint64_t t_map;                            /* when it was asked for last */
        struct remote_conn *idle[REMOTE_IDLE_MAX]; /* the longest unused first */
        size_t n_idle;
};

/* A connection to @address that was kept, or a new one. @fresh: a new one in any case. */
int remote_pool_take(struct remote *r, const struct remote_address *address, bool fresh,
        uint64_t until, struct remote_conn **ret, bool *ret_kept, struct err *e);
/* NULL is fine. */
void remote_pool_give(struct remote *r, struct remote_conn *c);
/* Close what is kept of connections to @address. */
void remote_pool_forget(struct remote *r, const struct remote_address *address);
/* Where to ask for a key. False: it may be any server, and *ret is the one of the URI that answered last. */
bool remote_where(struct remote *r, uint16_t slot, struct remote_address *ret);
/* @tried of the URI does not answer. */
void remote_next_seed(struct remote *r, const struct remote_address *tried);
/* A server says that @slot is at @owner: believe it, and ask it for all slots unless that was done just now. */
void remote_moved(
        struct remote *r, uint16_t slot, const struct remote_address *owner, uint64_t until);
/* @dead, which has slots, does not answer: ask the others who has them now. */
void remote_ask_others(struct remote *r, const struct remote_address *dead, uint64_t until);

/* --- command.c --- */

enum remote_verb { REMOTE_TOUCH, REMOTE_GET, REMOTE_PUT, REMOTE_REMOVE };

/* One command as it is sent: three parts, of which @data is the caller's. */
struct remote_command {
        char head[REMOTE_KEY_MAX + 96];
        const void *data;
        char tail[48];
        size_t head_size, data_size, tail_size;
};
void remote_command_make(struct remote_command *ret, enum remote_verb verb, bool asking,
        const char *key, const struct remote_value *value, uint32_t keep_sec);

/* --- lane.c: the commands of one call that are on their way to one server --- */

enum {
        REMOTE_WINDOW = 256, /* commands of a call that are on their way */
        REMOTE_NONE = UINT32_MAX,
};

struct remote_request {
        struct remote_lane *lane; /* NULL: in none */
        uint32_t next;            /* in the lane */
        uint8_t n_redirects, n_again;
        bool asking; /* ASKING goes before it, and has an answer of its own */
};

/* Commands in a lane have rising numbers, and so have their answers. */
struct remote_lane {
        struct remote_conn *conn; /* NULL: the lane is unused */
        bool kept;                /* the connection is of an earlier call */
        bool heard;               /* an answer has come, or its beginning */
        uint32_t first, last;     /* commands without an answer; REMOTE_NONE: there are none */
        uint32_t unsent;          /* the first one that is not wholly sent */
        size_t offset;            /* bytes of that one that are sent */
        uint64_t t_active;        /* when bytes went or came */
};

struct remote_call {
        struct remote *remote;
        enum remote_verb verb;
        const struct remote_key *keys;     /* of all but REMOTE_PUT */
        const struct remote_value *values; /* of REMOTE_PUT */
        uint32_t n;
        uint32_t keep_sec;
        bool *found;                        /* of REMOTE_TOUCH */
        const struct remote_reader *reader; /* of REMOTE_GET */
        uint64_t until;
        struct err *e;
        struct err full;                   /* the first value that found no room */
        uint32_t head;                     /* all before it are done */
        uint32_t end;                      /* those before it are in the window */
        uint32_t n_loose;                  /* in the window, in no lane, not done */
        size_t usual;                      /* bytes that a value has, as far as known */
        bool by_reader;                    /* the reader of values has ended the call */
        const struct remote_lane *awaited; /* NULL: its time begins anew */
        char *chunk;                       /* [REMOTE_CHUNK], owned */
        size_t n_lanes;                    /* and the commands in the window, at most */
        struct remote_lane *lanes;         /* [n_lanes], owned */
        struct remote_request *requests;   /* [n_lanes], by number, going round; owned */
};

static inline struct remote_request *remote_request_of(struct remote_call *c, uint32_t i) {
        return &c->requests[i % c->n_lanes];
}
const char *remote_key_of(const struct remote_call *c, uint32_t i);

/* Put command @i, which is loose, into a lane to @address; connects if need be. */
int remote_lane_enter(
        struct remote_call *c, uint32_t i, const struct remote_address *address, struct err *e);
/* The first command of a lane has its answer, or is to go elsewhere. It is loose then. */
void remote_lane_leave(struct remote_call *c, struct remote_lane *lane);
/* Send what the server takes. */
int remote_lane_send(struct remote_call *c, struct remote_lane *lane, bool *moved, struct err *e);
/* Close a lane; its commands are loose then. */
void remote_lane_close(struct remote_call *c, struct remote_lane *lane);
/* All lanes: those without commands keep their connections for later calls. */
void remote_lanes_end(struct remote_call *c);
