/* SPDX-License-Identifier: MIT */
/* What fields of a request's head say about who asks, and in which conversation. */
#include "base/utf8.h"
#include "base/util.h"
#include "client/gateway/gateway-private.h"
#include <strings.h>
#include <unistd.h>

#define NAME_MAX_SIZE 128
#define SESSION_MAX_SIZE 512

/* "Bearer TOKEN", or the field that Anthropic's clients have. */
static const char *token_of(const struct http_exchange *exchange) {
        const char *value = http_header(exchange, "authorization");

        if (!value)
                return http_header(exchange, "x-api-key");
        if (strncasecmp(value, "bearer ", 7) != 0)
                return NULL;
        value += 7;
        return value + strspn(value, " ");
}

static int find_tenant(struct gateway_call *call, struct err *e) {
        const char *name = call->gateway->options.tenant_header;
        const char *label = name ? http_header(call->exchange, name) : NULL;

        if (!label)
                return 0;
        if (!tokens_tenant_possible(label))
                return err_set(e, ERR_INVALID, "%.60s has to have 1 to 128 bytes of text", name);
        if (call->owner.tenant[0] && strcmp(call->owner.tenant, label) != 0)
                return err_set(
                        e, ERR_CONFLICT, "the token is one tenant's: %.60s names another", name);
        memcpy(call->owner.tenant, label, strlen(label) + 1);
        return 0;
}

int gateway_find_owner(struct gateway_call *call, struct err *e) {
        const struct tokens *tokens = call->gateway->options.tokens;
        const struct gateway_owner *owner;
        const char *token;
        uid_t uid;

        if (http_peer_uid(call->exchange, &uid)) {
                call->owner = (struct gateway_owner){.uid = uid};
                return find_tenant(call, e);
        }
        token = token_of(call->exchange);
        if (!token)
                return err_set(e, ERR_PERMISSION, "a token is needed: Authorization: Bearer TOKEN");
        owner = tokens ? tokens_find(tokens, token) : NULL;
        if (!owner)
                return err_set(e, ERR_PERMISSION, "the token is not known");
        call->owner = *owner;
        return find_tenant(call, e);
}

const char *gateway_session(const struct gateway_call *call) {
        static const char *const names[] = {"x-session-id", "session-id", "thread-id",
                "x-claude-code-session-id", "x-openwebui-chat-id"};

        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                const char *value = http_header(call->exchange, names[i]);

                /* A hint, not a demand: what can't be one is none. */
                if (value && *value && strlen(value) <= SESSION_MAX_SIZE &&
                        utf8_valid(value, strlen(value)))
                        return value;
        }
        return NULL;
}

static int check_name(const char *name, struct err *e) {
        size_t n = strlen(name);
        bool control = false;

        for (const char *p = name; *p; p++)
                control = control || (unsigned char)*p < 0x20 || *p == 0x7f;
        if (n == 0 || n > NAME_MAX_SIZE || control || !utf8_valid(name, n) ||
                strspn(name, "0123456789") == n)
                return err_set(e, ERR_INVALID,
                        "X-Conversation-Id has to have 1 to %d bytes of text, not only digits",
                        NAME_MAX_SIZE);
        return 0;
}

int gateway_fill_form(const struct gateway_call *call, struct form *form, struct err *e) {
        const char *name = http_header(call->exchange, "x-conversation-id");
        const char *session = gateway_session(call);
        struct form_fields *fields = form_fields(form);
        int r = name ? check_name(name, e) : 0;

        if (r < 0)
                return r;
        if (session && !fields->session) {
                fields->session = form_strdup(form, session);
                if (!fields->session)
                        return err_no_memory(e);
        }
        if (!name)
                return 0;
        fields->conversation = form_strdup(form, name);
        if (!fields->conversation)
                return err_no_memory(e);
        fields->place = FORM_NAMED;
        return 0;
}
