/* SPDX-License-Identifier: MIT */
/*
 * Where several machines share a register (docs/cluster.md), a request may be refused with `moved`: the conversation is in use on
 * another machine. Its daemon may have told where that is; then the gateway goes there, in place of the client.
 *
 *      https://HOST[:PORT]   the gateway on that machine: the same request is sent to it, and its answer comes back as it comes
 *      unix:PATH             another daemon on this host: the request is handled once more, with that daemon alone
 *
 *      refused ──▶ AGAIN ───▶ handled once more by its route, with call->backends
 *         │
 *         └──────▶ ASKING ──▶ ANSWERING ──▶ ended
 *                    │ no answer, or none that counts    │ cut off: the connection breaks
 *                    └──▶ refused as before
 *
 * 1. Nothing was said to the client: gateway_refuse_body() is the only place that leads here (call->refused), and what is refused inside a stream does not
 *    come by. What follows is what a client's next try at another machine would be: `moved` promises that nothing was done.
 * 2. One hop. A request that was followed has the field Confab-Followed, and is never followed again, whoever set it: it is
 *    answered with `moved` as ever. The field's value says for whom the request acts, UID or UID;TENANT (percent-encoded); a gateway whose
 *    tokens or tenant-header make it somebody else's refuses it (421). It gives nobody anything: whose request it is, is
 *    found as for every request.
 * 3. Addresses are those of the daemon alone, with TLS (follow-net.h). A gateway is only asked for those who came with a token, which
 *    is sent along: by a Unix socket the kernel says who asks, and that can't be told to another machine. A daemon of this host is asked
 *    as every daemon is, as the same user and tenant.
 * 4. The body has to be there: it is kept until an answer begins (http_keep_body()), charged like all bodies. With FOLLOW_AUTO that begins
 *    when a daemon has said that it shares its register, or has told an address, so that one machine alone keeps nothing. An import's body is kept nowhere, so it is not followed.
 * 5. A gateway that can't be reached, that says what no answer is, that does not know the token (401) or means not to be meant (421):
 *    the call is refused as it would have been. But where it may have the whole request of something that changes, and then ends without
 *    an answer, nobody knows what it did: 503 `disconnected`, as for a daemon.
 * 6. Pressure goes both ways: nothing is read from the other gateway while the client is slow, and of the request it has at most 64 KiB
 *    are on their way. At most FOLLOWS_MAX calls are followed at a time. A client that goes closes the other connection; the end of
 *    that one before the answer's breaks the client's.
 * 7. Fields of the answer are those that a gateway sets; what a server in front of it adds (cookies, rules for its host) is of no meaning here.
 *    Those that this gateway gives to all its answers, for browsers, are its own.
 */
#include "client/gateway/follow.h"
#include "base/util.h"
#include "client/gateway/follow-client.h"
#include "client/gateway/gateway-private.h"
#include "service/log.h"
#include <event2/event.h>
#include <string.h>
#include <sys/un.h>

#define FOLLOWS_MAX 1024
/* Daemons of this host. */
#define PLACES_MAX 16
#define MARK "confab-followed"

/* A daemon of this host that has been told. */
struct place {
        struct list link;
        struct backends *backends;
        char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

struct follower {
        struct event_base *base;
        struct follow_net *net;
        struct list places;
        size_t n_places, n_follows;
        bool told; /* a daemon has told an address */
};

struct follow_refusal {
        struct talk_error error; /* status and times */
        struct buf body;         /* its bytes stand behind it */
        char bytes[];
};

struct follow {
        struct follower *follower;
        struct gateway_call *call;
        struct follow_client *client; /* ASKING, ANSWERING */
        struct event *again;          /* AGAIN */
        struct backends *backends;
        bool answered; /* the head was told */
};

/* ---- whose ---- */

/* "UID" or "UID;TENANT". */
static int put_owner(struct buf *out, const struct gateway_owner *owner) {
        int r = buf_printf(out, "%u", owner->uid);

        if (r == 0 && owner->tenant[0])
                r = buf_append_str(out, ";");
        return r == 0 ? http_put_encoded(out, owner->tenant, "") : r;
}

int follow_check_owner(const struct gateway_call *call, struct err *e) {
        _cleanup_(buf_deinit) struct buf own = BUF_NULL;
        const char *told = http_header(call->exchange, MARK);

        if (!told)
                return 0;
        if (put_owner(&own, &call->owner) < 0)
                return err_no_memory(e);
        if (strcmp(told, (const char *)own.data) != 0)
                return err_set(e, ERR_CONFLICT,
                        "the token is another user's or tenant's here than at the gateway that "
                        "sends it on");
        return 0;
}

/* ---- refusals ---- */

static int keep_refusal(
        struct gateway_call *call, const struct talk_error *error, const struct buf *body) {
        struct follow_refusal *refusal = http_alloc(call->exchange, sizeof(*refusal) + body->size);

        if (!refusal)
                return -ERR_NOMEM;
        refusal->error = (struct talk_error){
                .status = error->status, .retry_after = error->retry_after, .code = CONFAB_MOVED};
        if (body->size > 0)
                memcpy(refusal->bytes, body->data, body->size);
        refusal->body = (struct buf){.data = (uint8_t *)refusal->bytes, .size = body->size};
        call->refusal = refusal;
        return 0;
}

static void forget(struct follow *follow) {
        follow->follower->n_follows--;
        follow_client_free(follow->client);
        if (follow->again)
                event_free(follow->again);
        free(follow);
}

static void refuse_as_before(struct follow *follow) {
        struct gateway_call *call = follow->call;

        forget(follow);
        gateway_refuse_body(call, &call->refusal->error, &call->refusal->body);
}

static void refuse_unknown(struct follow *follow, const char *message) {
        struct gateway_call *call = follow->call;
        const struct talk_error error = {
                .status = 503, .retry_after = 1, .code = CONFAB_DISCONNECTED, .message = message};

        forget(follow);
        gateway_refuse(call, call->dialect, &error);
}

/* What it was refused with before says more than that the other daemon can't be asked, or is a third one's. */
static bool is_in_vain(const struct talk_error *error) {
        return error->code && (strcmp(error->code, CONFAB_MOVED) == 0 ||
                                      strcmp(error->code, CONFAB_NO_DAEMON) == 0 ||
                                      strcmp(error->code, CONFAB_UNAVAILABLE) == 0);
}

/* ---- the client's side ---- */

static void on_closed(void *userdata) {
        forget(userdata);
}

static void on_drained(void *userdata) {
        struct follow *follow = userdata;

        if (follow->client)
                follow_client_hold(follow->client, false);
}

static void take_over(struct follow *follow) {
        static const struct http_answer_ops ops = {on_closed, on_drained};

        http_set_ops(follow->call->exchange, &ops, follow);
        http_set_stop(follow->call->exchange, NULL);
}

/* ---- the answer of another gateway ---- */

/* What a gateway says beside the fields of all answers. */
static const char *const answer_fields[] = {"Location", "Retry-After", "x-should-retry",
        "Content-Disposition", "Content-Encoding", "X-Accel-Buffering", "Allow"};

static int copy_fields(struct follow *follow, const struct follow_head *head) {
        int r = 0;

        for (size_t i = 0; i < ARRAY_SIZE(answer_fields) && r == 0; i++) {
                const char *value = follow_head_field(head, answer_fields[i]);

                if (value)
                        r = http_add_header(follow->call->exchange, answer_fields[i], value);
        }
        return r;
}

static void on_head(void *userdata, const struct follow_head *head) {
        struct follow *follow = userdata;
        struct http_exchange *exchange = follow->call->exchange;
        const char *type = follow_head_field(head, "content-type");

        if (head->status == 401 || head->status == 421) {
                refuse_as_before(follow);
                return;
        }
        if (copy_fields(follow, head) < 0) {
                http_reply(exchange, 503, NULL, NULL, 0);
                forget(follow);
        } else if (head->status == 204 || head->status == 304) {
                http_reply(exchange, head->status, type, NULL, 0);
                forget(follow);
        } else {
                follow->answered = true;
                if (head->has_length)
                        http_begin_sized(exchange, head->status, type, head->length);
                else
                        http_begin(exchange, head->status, type);
        }
}

static void on_piece(void *userdata, const void *data, size_t size) {
        struct follow *follow = userdata;

        http_write(follow->call->exchange, data, size);
        if (http_is_slow(follow->call->exchange))
                follow_client_hold(follow->client, true);
}

static void on_ended(void *userdata, int r, bool asked, const struct err *e) {
        struct follow *follow = userdata;
        struct http_exchange *exchange = follow->call->exchange;
        enum http_method method = http_method(exchange);

        if (!follow->answered && asked && method != HTTP_GET && method != HTTP_HEAD) {
                refuse_unknown(follow, e->msg);
        } else if (!follow->answered) {
                LOG_ERROR(LOGGED_NOT_FOLLOWED, e, "another machine was not reached");
                refuse_as_before(follow);
        } else {
                forget(follow);
                if (r < 0)
                        http_abort(exchange);
                else
                        http_end(exchange);
        }
}

/* ---- the request to another gateway ---- */

/* Fields of this connection, of its host, and of the browser, whose page was judged here. */
static bool is_left_out(const char *name) {
        static const char *const names[] = {"host", "connection", "keep-alive", "te", "trailer",
                "transfer-encoding", "upgrade", "content-length", "expect", "accept-encoding",
                "origin", "referer", "cookie", "forwarded", "via", MARK};
        static const char *const prefixes[] = {
                "proxy-", "sec-", "access-control-", "x-forwarded-", "if-"};

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                if (strcmp(name, names[i]) == 0)
                        return true;
        for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
                if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
                        return true;
        return false;
}

static int put_fields(struct buf *out, const struct http_exchange *exchange) {
        const char *connection = http_header(exchange, "connection"), *name, *value;
        int r = 0;

        for (size_t i = 0; r == 0 && http_field_at(exchange, i, &name, &value); i++)
                if (!is_left_out(name) && !http_list_has(connection, name))
                        r = buf_printf(out, "%s: %s\r\n", name, value);
        return r;
}

static int put_request(
        struct buf *out, const struct gateway_call *call, const struct follow_address *address) {
        enum http_method method = http_method(call->exchange);
        const char *word = http_method_text(method);
        size_t size;
        int r;

        if (!word)
                return -ERR_UNSUPPORTED;
        (void)http_body(call->exchange, &size);
        r = buf_printf(out, "%s ", word);
        if (r == 0)
                r = http_put_target(call->exchange, out);
        if (r == 0)
                r = buf_printf(out,
                        " HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nConfab-Followed: ",
                        address->authority);
        if (r == 0)
                r = put_owner(out, &call->owner);
        if (r == 0)
                r = buf_append_str(out, "\r\n");
        if (r == 0)
                r = put_fields(out, call->exchange);
        if (r == 0 && (size > 0 || (method != HTTP_GET && method != HTTP_HEAD)))
                r = buf_printf(out, "Content-Length: %zu\r\n", size);
        return r == 0 ? buf_append_str(out, "\r\n") : r;
}

static int ask(struct follow *follow, const char *text) {
        static const struct follow_client_ops ops = {on_head, on_piece, on_ended};
        _cleanup_(buf_deinit) struct buf head = BUF_NULL;
        struct http_exchange *exchange = follow->call->exchange;
        struct follow_request request = {.head = &head,
                .is_head = http_method(exchange) == HTTP_HEAD,
                .times = FOLLOW_TIMES_DEFAULT};
        int r;

        request.body = http_body(exchange, &request.body_size);
        r = follow_address_parse(&request.address, text, NULL);
        if (r == 0)
                r = put_request(&head, follow->call, &request.address);
        if (r == 0)
                r = follow_client_new(
                        &follow->client, follow->follower->net, &request, &ops, follow, NULL);
        return r;
}

/* ---- another daemon ---- */

/* Responses' ids name the daemon by its socket: with one daemon alone, it is that one wherever its conversations are. */
static void name_place(struct place *place, const struct gateway *gateway) {
        struct backends *own = gateway->options.backends;

        if (backends_count(own) == 1)
                backends_stand_for(place->backends, backend_model(backends_at(own, 0))->socket);
}

static struct place *find_place(
        const struct gateway *gateway, struct follower *follower, const char *path) {
        struct place *place;
        struct list *it;

        list_for_each (it, &follower->places) {
                place = list_entry(it, struct place, link);
                if (strcmp(place->path, path) == 0)
                        return place;
        }
        if (*path != '/' || strlen(path) >= sizeof(place->path) || follower->n_places == PLACES_MAX)
                return NULL;
        place = calloc(1, sizeof(*place));
        if (!place)
                return NULL;
        memcpy(place->path, path, strlen(path));
        if (backends_new(&place->backends, follower->base, &path, 1, NULL) < 0) {
                free(place);
                return NULL;
        }
        name_place(place, gateway);
        list_append(&follower->places, &place->link);
        follower->n_places++;
        return place;
}

static void on_again(evutil_socket_t fd, short what, void *arg) {
        struct follow *follow = arg;
        struct gateway_call *call = follow->call;

        call->backends = follow->backends;
        forget(follow);
        http_set_ops(call->exchange, &(struct http_answer_ops){.closed = NULL}, NULL);
        call->route->handle(call);
}

/* From the loop: the handler that was refused has not returned yet. */
static int ask_again(struct follow *follow, const char *path) {
        struct place *place = find_place(follow->call->gateway, follow->follower, path);

        if (!place)
                return -ERR_UNAVAILABLE;
        follow->backends = place->backends;
        follow->again = event_new(follow->follower->base, -1, 0, on_again, follow);
        if (!follow->again)
                return -ERR_NOMEM;
        event_active(follow->again, EV_TIMEOUT, 0);
        return 0;
}

/* ---- deciding ---- */

static bool may_follow(const struct gateway_call *call, const struct talk_error *error) {
        const struct follower *follower = call->gateway->follower;
        bool by_kernel = http_peer_uid(call->exchange, &(uid_t){0});
        bool local = strncmp(error->address, "unix:", 5) == 0;

        return call->gateway->options.follow != FOLLOW_NO && call->owner.uid != (uint32_t)-1 &&
               (local || !by_kernel) && !http_header(call->exchange, MARK) &&
               http_has_body(call->exchange) && follower->n_follows < FOLLOWS_MAX;
}

/* The exchange is taken over when nothing can fail any more. */
static bool begin(struct gateway_call *call, const struct talk_error *error) {
        struct follow *follow = calloc(1, sizeof(*follow));
        int r;

        if (!follow)
                return false;
        *follow = (struct follow){.follower = call->gateway->follower, .call = call};
        follow->follower->n_follows++;
        r = strncmp(error->address, "unix:", 5) == 0 ? ask_again(follow, error->address + 5)
                                                     : ask(follow, error->address);
        if (r < 0) {
                forget(follow);
                return false;
        }
        take_over(follow);
        return true;
}

/* gateway_call.refused */
static bool begin_if_moved(
        struct gateway_call *call, const struct talk_error **error, const struct buf **body) {
        if (call->refusal) {
                if (is_in_vain(*error)) {
                        *error = &call->refusal->error;
                        *body = &call->refusal->body;
                }
                return false;
        }
        if (!(*error)->address || !*(*error)->address)
                return false;
        call->gateway->follower->told = true;
        if (!may_follow(call, *error) || keep_refusal(call, *error, *body) < 0)
                return false;
        return begin(call, *error);
}

/* Rule 4. */
static bool shares(const struct gateway *gateway) {
        return gateway->follower->told || backends_share(gateway->options.backends);
}

void follow_admit(struct gateway_call *call) {
        enum follow_mode mode = (enum follow_mode)call->gateway->options.follow;
        bool wanted = mode == FOLLOW_YES || (mode == FOLLOW_AUTO && shares(call->gateway));

        call->refused = begin_if_moved;
        if (wanted && call->owner.uid != (uint32_t)-1 && !http_header(call->exchange, MARK))
                http_keep_body(call->exchange);
}

/* ---- of the gateway ---- */

int follower_new(
        struct follower **ret, struct event_base *base, const char *ca_file, struct err *e) {
        struct follower *follower = calloc(1, sizeof(*follower));
        int r;

        if (!follower)
                return err_no_memory(e);
        follower->base = base;
        list_init(&follower->places);
        r = follow_net_new(&follower->net, base, ca_file, e);
        if (r < 0) {
                follower_free(follower);
                return err_wrap(e, r, "follow-ca-file");
        }
        *ret = follower;
        return 0;
}

struct follower *follower_free(struct follower *follower) {
        struct list *it, *tmp;

        if (!follower)
                return NULL;
        list_for_each_safe (it, tmp, &follower->places) {
                struct place *place = list_entry(it, struct place, link);

                backends_free(place->backends);
                free(place);
        }
        follow_net_free(follower->net);
        free(follower);
        return NULL;
}
