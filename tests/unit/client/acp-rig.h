/* SPDX-License-Identifier: MIT */
#pragma once
/* The agent of ACP between an editor and a daemon that the test plays, in one thread: lines go in by tell(), what the
 * agent says is compared by expect_said(), and the daemon's part is a peer that is greeted when it is connected. */
#include "client/acp/agent.h"
#include "peer.h"
#include "util/test.h"
#include <stdio.h>
#include <sys/socket.h>

#define REQ(name) CONFAB__V1__REQUEST__VERB_##name
#define KIND(name) CONFAB__V1__EVENT__KIND_##name

#define RIG_CONTEXT 1000

struct rig {
        struct acp_options options;
        struct acp_agent agent;
        struct peer peer;
        bool refuse, greeted; /* connections are refused; the present one is greeted */
        unsigned n_connections;
        char words[512];             /* the last complaint */
        struct proto_message *taken; /* owned: by take(), or NULL */
};

static inline int rig_connect(void *userdata, struct confab **ret, struct confab_error *e) {
        struct rig *rig = userdata;
        int sv[2];

        if (rig->refuse) {
                *e = (struct confab_error){
                        .code = CONFAB_NO_DAEMON, .message = "nobody is there", .retry = true};
                return -1;
        }
        if (rig->peer.fd >= 0)
                peer_deinit(&rig->peer);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
        peer_init(&rig->peer, sv[1]);
        rig->n_connections++;
        rig->greeted = false;
        return confab_new_from_fd(ret, sv[0], e);
}

static inline void rig_complain(void *userdata, const char *words) {
        struct rig *rig = userdata;

        snprintf(rig->words, sizeof(rig->words), "%s", words);
}

static inline void rig_init(struct rig *rig) {
        *rig = (struct rig){.peer.fd = -1};
        rig->options = (struct acp_options){.connect = rig_connect,
                .complain = rig_complain,
                .userdata = rig,
                .overflow = CONFAB_OVERFLOW_SHIFT};
        acp_agent_init(&rig->agent, &rig->options);
}

static inline void rig_deinit(struct rig *rig) {
        acp_agent_deinit(&rig->agent);
        proto_message_free(rig->taken);
        if (rig->peer.fd >= 0)
                peer_deinit(&rig->peer);
}

/* The next request of the agent, which has to be this verb. It stays until the next one is taken. */
static inline const Confab__V1__Request *take(struct rig *rig, Confab__V1__Request__VerbCase verb) {
        proto_message_free(rig->taken);
        rig->taken = peer_next(&rig->peer);
        assert_non_null(rig->taken);
        assert_int_equal(rig->taken->request->verb_case, verb);
        return rig->taken->request;
}

static inline Confab__V1__Event rig_event(uint64_t id, Confab__V1__Event__KindCase kind) {
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;

        event.has_request = true;
        event.request = id;
        event.kind_case = kind;
        return event;
}

static inline void rig_send_model(struct rig *rig, uint64_t id) {
        Confab__V1__Event event = rig_event(id, KIND(MODEL_INFO));
        Confab__V1__ModelInfoResult model = CONFAB__V1__MODEL_INFO_RESULT__INIT;

        model.has_context = true;
        model.context = RIG_CONTEXT;
        event.model_info = &model;
        peer_send(&rig->peer, &event);
}

static inline void rig_greet(struct rig *rig) {
        rig->greeted = true;
        peer_hello(&rig->peer);
        rig_send_model(rig, peer_expect(&rig->peer, REQ(MODEL_INFO)));
        acp_agent_process(&rig->agent);
}

/* The daemon's turn: what the agent has to send is sent, and what the peer has said is taken; twice, as that may have
 * begun something. */
static inline void rig_turn(struct rig *rig) {
        for (int i = 0; i < 2; i++) {
                acp_agent_go_on(&rig->agent);
                if (rig->agent.confab)
                        acp_agent_process(&rig->agent);
                if (rig->agent.confab && !rig->greeted)
                        rig_greet(rig);
        }
}

static inline void tell(struct rig *rig, const char *line) {
        assert_int_equal(acp_agent_feed(&rig->agent, line, strlen(line), false), 0);
        assert_int_equal(acp_agent_feed(&rig->agent, "\n", 1, false), 0);
        rig_turn(rig);
}

/* A request with number @id. */
static inline void ask(struct rig *rig, int id, const char *method, const char *params) {
        char line[2048];

        snprintf(line, sizeof(line),
                "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"%s\",\"params\":{%s}}", id, method,
                params);
        tell(rig, line);
}

#define PROMPT(session, text)                                                                      \
        "\"sessionId\":\"" session "\",\"prompt\":[{\"type\":\"text\",\"text\":\"" text "\"}]"

static inline void cancel(struct rig *rig, const char *session) {
        char line[256];

        snprintf(line, sizeof(line),
                "{\"jsonrpc\":\"2.0\",\"method\":\"session/"
                "cancel\",\"params\":{\"sessionId\":\"%s\"}}",
                session);
        tell(rig, line);
}

/* Everything that the agent has said since the last look. */
static inline void expect_said(struct rig *rig, const char *text) {
        struct buf *out = &rig->agent.out.buf;

        assert_int_equal(rig->agent.out.error, 0);
        assert_string_equal(out->size ? (char *)out->data : "", text);
        buf_deinit(out);
}

/* The same, where only a part of it matters. */
static inline void expect_part(struct rig *rig, const char *text) {
        struct buf *out = &rig->agent.out.buf;

        if (!strstr(out->size ? (char *)out->data : "", text))
                assert_string_equal(out->size ? (char *)out->data : "", text);
        buf_deinit(out);
}

#define RESULT(id, result) "{\"jsonrpc\":\"2.0\",\"id\":" #id ",\"result\":{" result "}}\n"
#define ERROR(id, code, message, data)                                                             \
        "{\"jsonrpc\":\"2.0\",\"id\":" #id ",\"error\":{\"code\":" #code ",\"message\":\"" message \
        "\"" data "}}\n"
#define DATA(word, retry) ",\"data\":{\"code\":\"" word "\",\"retry\":" #retry "}"
#define UPDATE(session, kind, rest)                                                                \
        "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"" session  \
        "\",\"update\":{\"sessionUpdate\":\"" kind "\"," rest "}}}\n"
#define USAGE(session, used) UPDATE(session, "usage_update", "\"used\":" #used ",\"size\":1000")

/* ---- what the daemon says ---- */

/* A conversation as the answer, with this title and expiry (NULL, 0: none). */
static inline void send_conversation(
        struct rig *rig, uint64_t id, uint64_t number, const char *title, uint32_t expires) {
        Confab__V1__Event event = rig_event(id, KIND(CONVERSATION));
        Confab__V1__Conversation c = CONFAB__V1__CONVERSATION__INIT;
        Confab__V1__About about = CONFAB__V1__ABOUT__INIT;

        c.has_id = true;
        c.id = number;
        c.name = proto_borrow("name");
        about.title = title ? proto_borrow(title) : NULL;
        about.has_expires_after = expires > 0;
        about.expires_after = expires;
        c.about = &about;
        event.conversation = &c;
        peer_send(&rig->peer, &event);
}

static inline void send_part(
        struct rig *rig, uint64_t id, Confab__V1__PartKind kind, const char *text) {
        Confab__V1__Event event = rig_event(id, KIND(DELTA));
        Confab__V1__Delta delta = CONFAB__V1__DELTA__INIT;
        Confab__V1__Part part = CONFAB__V1__PART__INIT, *parts[] = {&part};

        part.has_kind = true;
        part.kind = kind;
        part.text = proto_borrow(text);
        delta.parts = parts;
        delta.n_parts = 1;
        event.delta = &delta;
        peer_send(&rig->peer, &event);
}

/* The same, and the agent takes it. */
static inline void answer_conversation(
        struct rig *rig, uint64_t id, uint64_t number, const char *title, uint32_t expires) {
        send_conversation(rig, id, number, title, expires);
        rig_turn(rig);
}

static inline void answer_part(
        struct rig *rig, uint64_t id, Confab__V1__PartKind kind, const char *text) {
        send_part(rig, id, kind, text);
        rig_turn(rig);
}

static inline void answer_error(struct rig *rig, uint64_t id, const char *word, bool retry) {
        peer_send_error(&rig->peer, id, word, "why", retry);
        rig_turn(rig);
}

static inline void answer_accepted(struct rig *rig, uint64_t id) {
        peer_send_accepted(&rig->peer, id);
        rig_turn(rig);
}

static inline void answer_done(struct rig *rig, uint64_t id, Confab__V1__FinishReason finish) {
        peer_send_done(&rig->peer, id, finish);
        rig_turn(rig);
}
