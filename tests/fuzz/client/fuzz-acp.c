/* SPDX-License-Identifier: MIT */
/* An editor that says anything at all to the agent of ACP, with no daemon: what comes out are lines of JSON-RPC, the
 * same ones in whatever pieces the input comes, and no request is left without an answer. The input is taken as
 * the metadata of a conversation as well. */
#include "client/acp/agent.h"
#include "client/acp/note.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int refuse(void *userdata, struct confab **ret, struct confab_error *e) {
        *e = (struct confab_error){
                .code = CONFAB_NO_DAEMON, .message = "nobody is there", .retry = true};
        return -1;
}

static void ignore(void *userdata, const char *words) {
        if (strlen(words) == 0)
                abort();
}

static const struct acp_options options = {.connect = refuse, .complain = ignore};

/* Feed the input in pieces of @piece bytes; what was said is to be freed. */
static char *feed(const uint8_t *data, size_t size, size_t piece, size_t *ret_size) {
        struct acp_agent agent;
        char *said;

        acp_agent_init(&agent, &options);
        for (size_t at = 0; at < size; at += piece)
                if (acp_agent_feed(&agent, data + at, MIN(piece, size - at), false) < 0)
                        abort();
        if (acp_agent_feed(&agent, NULL, 0, true) < 0)
                abort();
        acp_agent_go_on(&agent);
        if (agent.n_calls > 0 || !list_empty(&agent.calls) || !list_empty(&agent.queues) ||
                agent.out.error)
                abort();
        said = buf_take(&agent.out.buf, ret_size);
        acp_agent_deinit(&agent);
        return said;
}

/* Each line is an answer: an object with an id, and with a result or an error. */
static void check(const char *said, size_t size) {
        while (size > 0) {
                const char *end = memchr(said, '\n', size);
                size_t n = end ? (size_t)(end - said) : 0;
                struct json_value *root = NULL;

                if (!end || json_tree_parse(&root, said, n, NULL) < 0 ||
                        !json_tree_get(root, "id") ||
                        !json_tree_get(root, "result") == !json_tree_get(root, "error"))
                        abort();
                json_tree_free(root);
                said += n + 1;
                size -= n + 1;
        }
}

static void check_metadata(const uint8_t *data, size_t size) {
        char *metadata = text_dup(data, size), *with = NULL, *cwd = NULL;

        if (!metadata || acp_note_metadata(metadata, "/p", &with) < 0 ||
                acp_note_cwd(with, &cwd) < 0 || !cwd || strcmp(cwd, "/p") != 0)
                abort();
        free(metadata);
        free(with);
        free(cwd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        size_t whole_size, pieces_size;
        char *whole, *pieces;

        if (size > 100000)
                return 0;
        whole = feed(data, size, size ? size : 1, &whole_size);
        pieces = feed(data, size, 7, &pieces_size);
        if (!whole || !pieces || whole_size != pieces_size ||
                memcmp(whole, pieces, whole_size) != 0)
                abort();
        check(whole, whole_size);
        free(whole);
        free(pieces);
        check_metadata(data, size);
        return 0;
}
