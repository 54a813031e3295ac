/* SPDX-License-Identifier: MIT */
/*
 * /save FILE: the transcript as JSON (FILE.json: what `confab show --json` prints) or Markdown (any other name).
 *
 * A transcript is as private as the conversation: the file is for its user alone. A file that is there already is not
 * replaced unless -f says so, and then as a whole or not at all.
 */
#include "base/err.h"
#include "base/file.h"
#include "client/chat/chat.h"
#include "client/event-json.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>

struct save {
        bool json;
        struct buf text;
        int error; /* the first failure to write into text */
};

static void put(struct save *s, const void *data, size_t n) {
        int r = buf_append(&s->text, data, n);

        if (r < 0 && s->error == 0)
                s->error = r;
}

static void put_str(struct save *s, const char *text) {
        put(s, text, strlen(text));
}

/* A paragraph, with @mark in front of each line. */
static void put_block(struct save *s, const char *mark, const char *text, size_t n) {
        while (n > 0 && text[n - 1] == '\n')
                n--;
        put_str(s, "\n");
        for (size_t i = 0; i < n || i == 0;) {
                const char *end = n > i ? memchr(text + i, '\n', n - i) : NULL;
                size_t k = end ? (size_t)(end - text) - i : n - i;

                put_str(s, mark);
                put(s, text + i, k);
                put_str(s, "\n");
                i += k + 1;
        }
}

static void put_part(struct save *s, const struct confab_part *part) {
        if (part->kind != CONFAB_PART_CALL) {
                put_block(s, part->kind == CONFAB_PART_REASONING ? "> " : "", part->text,
                        part->text_size);
                return;
        }
        put_str(s, "\n    ");
        put_str(s, part->name ? part->name : "");
        put_str(s, "(");
        put(s, part->text, part->text_size);
        put_str(s, ") [");
        put_str(s, part->call_id ? part->call_id : "");
        put_str(s, "]\n");
}

static void put_markdown(struct save *s, const struct confab_conversation *c) {
        put_str(s, "# ");
        put_str(s, c->about && c->about->title && *c->about->title ? c->about->title : c->name);
        put_str(s, "\n");
        for (size_t i = 0; i < c->n_turn_list; i++) {
                const struct confab_turn *t = &c->turns[i];

                put_str(s, "\n## ");
                put_str(s, confab_role_name(t->role));
                put_str(s, "\n");
                for (size_t k = 0; k < t->n_parts; k++)
                        put_part(s, &t->parts[k]);
                if (t->n_parts == 0)
                        put_block(s, "", (const char *)t->text.data, t->text.size);
        }
}

static void put_json(struct save *s, const struct confab_conversation *c) {
        struct json j;

        json_init(&j, &s->text);
        json_object_begin(&j);
        event_json_conversation(&j, c, EVENT_JSON_SEED_NUMBER);
        event_json_turns(&j, c, EVENT_JSON_SEED_NUMBER);
        json_object_end(&j);
        s->error = json_finish(&j);
        put_str(s, "\n");
}

static void save_event(void *userdata, const struct confab_event *event) {
        struct save *s = userdata;

        if (event->kind != CONFAB_EVENT_CONVERSATION)
                return;
        if (s->json)
                put_json(s, event->conversation);
        else
                put_markdown(s, event->conversation);
}

/* ---- the file ---- */

static int write_new(struct cli *cli, const char *path, const struct buf *text) {
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), r;
        struct err e;

        if (fd < 0 && errno == EEXIST)
                return cli_error(cli, CLI_FAILED, CONFAB_EXISTS,
                        "%s is there already; /save -f FILE replaces it", path);
        if (fd < 0)
                return cli_error(cli, CLI_FAILED, CONFAB_SYSTEM, "cannot write %s: %s", path,
                        strerrordesc_np(errno));
        r = file_write(fd, text->data, text->size, &e);
        if (close(fd) < 0 && r == 0)
                r = err_set(&e, ERR_SYS, "cannot write: %s", strerrordesc_np(errno));
        if (r == 0)
                return 0;
        unlink(path);
        return cli_error(cli, CLI_FAILED, CONFAB_SYSTEM, "%s: %s", path, e.msg);
}

static int replace(struct cli *cli, const char *path, const struct buf *text) {
        struct err e;

        if (file_replace(path, text->data, text->size, 0600, &e) < 0)
                return cli_error(cli, CLI_FAILED, CONFAB_SYSTEM, "%s", e.msg);
        return 0;
}

int chat_save(struct chat *chat, const char *arg) {
        bool force = strncmp(arg, "-f ", 3) == 0;
        const char *name = force ? arg + 3 + strspn(arg + 3, " ") : arg;
        struct confab_request r = chat_request(chat, CONFAB_GET);
        _cleanup_(freep) char *path = chat_path(name);
        size_t n = strlen(name);
        struct save s = {.json = n > 5 && strcmp(name + n - 5, ".json") == 0};
        int status;

        if (!*name)
                return cli_error(chat->cli, CLI_USAGE, CLI_CODE_USAGE, "/save takes a file");
        r.want_turns = r.want_parts = true;
        status = cli_call(chat->cli, &r, save_event, &s);
        if (status == 0 && (s.error || !path))
                status = cli_error(
                        chat->cli, CLI_FAILED, CONFAB_NO_MEMORY, "no memory for the transcript");
        if (status == 0)
                status = (force ? replace : write_new)(chat->cli, path, &s.text);
        if (status == 0 && chat->tty) {
                cli_name(chat->cli, path);
                cli_printf(chat->cli, ": %zu bytes\n", s.text.size);
        }
        buf_deinit(&s.text);
        return status;
}
