/* SPDX-License-Identifier: MIT */
/* The routes of /confab/v1. */
#include "client/gateway/own.h"
#include "client/gateway/metrics.h"

#define PREFIX "/confab/v1"
#define ALL PREFIX "/conversations"
#define ONE PREFIX "/conversations/*"

#define HANDLER(name, ...)                                                                         \
        static void handle_##name(struct gateway_call *call) {                                     \
                static const struct own_route route = {__VA_ARGS__};                               \
                                                                                                   \
                own_handle(call, &route);                                                          \
        }

HANDLER(model, CONFAB_MODEL_INFO, OWN_ONE, .has_conversation = false)
HANDLER(stats, CONFAB_STATS, OWN_ONE, .has_conversation = false)
HANDLER(quota, CONFAB_QUOTA, OWN_ONE, .has_conversation = false)
HANDLER(tokenize, CONFAB_TOKENIZE, OWN_ONE, .has_conversation = false)
HANDLER(find, CONFAB_FIND, OWN_ONE, .has_conversation = false)
HANDLER(watch, CONFAB_WATCH, OWN_WATCH, .has_conversation = false)
HANDLER(list, CONFAB_LIST, OWN_ONE, .has_conversation = false)
HANDLER(open, CONFAB_OPEN, OWN_ONE, .has_conversation = false, .creates = true)
HANDLER(get, CONFAB_GET, OWN_ONE, .has_conversation = true)
HANDLER(update, CONFAB_UPDATE, OWN_ONE, .has_conversation = true)
HANDLER(close, CONFAB_CLOSE, OWN_ONE, .has_conversation = true)
HANDLER(continue, CONFAB_CONTINUE, OWN_REPLY, .has_conversation = true)
HANDLER(attach, CONFAB_ATTACH, OWN_REPLY, .has_conversation = true)
HANDLER(fork, CONFAB_FORK, OWN_ONE, .has_conversation = true, .creates = true)
HANDLER(rewind, CONFAB_REWIND, OWN_ONE, .has_conversation = true)
HANDLER(warm, CONFAB_WARM, OWN_ONE, .has_conversation = true)
HANDLER(evict, CONFAB_EVICT, OWN_ONE, .has_conversation = true)
HANDLER(cancel, CONFAB_CANCEL, OWN_ONE, .has_conversation = true)
HANDLER(carry, CONFAB_CARRY, OWN_ONE, .has_conversation = true)
HANDLER(publish, CONFAB_PUBLISH, OWN_ONE, .has_conversation = true)
HANDLER(export, CONFAB_EXPORT, OWN_BYTES, .has_conversation = true)

static void admit(struct gateway_call *call, const struct gateway_route *route) {
        if (route->handle == own_handle_import)
                own_admit_import(call);
}

static const struct gateway_route routes[] = {
        {HTTP_GET, PREFIX "/models", own_handle_models, false},
        {HTTP_GET, PREFIX "/model", handle_model, false},
        {HTTP_GET, PREFIX "/stats", handle_stats, false},
        {HTTP_GET, PREFIX "/quota", handle_quota, false},
        {HTTP_POST, PREFIX "/tokenize", handle_tokenize, false},
        {HTTP_POST, PREFIX "/find", handle_find, false},
        {HTTP_GET, PREFIX "/watch", handle_watch, false},
        {HTTP_GET, ALL, handle_list, false},
        {HTTP_POST, ALL, handle_open, false},
        {HTTP_GET, ONE, handle_get, false},
        {HTTP_PATCH, ONE, handle_update, false},
        {HTTP_DELETE, ONE, handle_close, false},
        {HTTP_POST, ONE "/continue", handle_continue, false},
        {HTTP_GET, ONE "/attach", handle_attach, false},
        {HTTP_POST, ONE "/fork", handle_fork, false},
        {HTTP_POST, ONE "/rewind", handle_rewind, false},
        {HTTP_POST, ONE "/warm", handle_warm, false},
        {HTTP_POST, ONE "/evict", handle_evict, false},
        {HTTP_POST, ONE "/cancel", handle_cancel, false},
        {HTTP_POST, ONE "/carry", handle_carry, false},
        {HTTP_POST, ONE "/publish", handle_publish, false},
        {HTTP_GET, ONE "/export", handle_export, false},
        {HTTP_POST, PREFIX "/import", own_handle_import, false},
        {HTTP_POST, PREFIX "/session", own_handle_session, true},
        {HTTP_GET, "/metrics", metrics_handle, false},
        {},
};

const struct gateway_dialect gateway_own = {.name = "confab",
        .prefix = PREFIX "/",
        .routes = routes,
        .error = own_error,
        .admit = admit};
