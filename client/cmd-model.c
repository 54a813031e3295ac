/* SPDX-License-Identifier: MIT */
#include "client/cli-commands.h"

struct field {
        const char *key, *label;
        const char *text;
        uint64_t number;
};

static void print(struct cli *cli, const struct field *f, size_t n) {
        for (size_t i = 0; i < n; i++) {
                cli_printf(cli, "%-14s ", f[i].label);
                if (f[i].text)
                        cli_name(cli, f[i].text);
                else
                        cli_printf(cli, "%llu", (unsigned long long)f[i].number);
                cli_printf(cli, "\n");
        }
}

static void print_json(struct cli *cli, const struct field *f, size_t n) {
        struct json j;

        json_init(&j, &cli->out);
        json_object_begin(&j);
        for (size_t i = 0; i < n; i++) {
                json_put_key(&j, f[i].key);
                if (f[i].text)
                        json_put_string(&j, f[i].text);
                else
                        json_put_u64(&j, f[i].number);
        }
        json_object_end(&j);
        cli_json_end(cli, &j);
}

static void event(void *userdata, const struct confab_event *ev) {
        const struct confab_model_info *m = ev->model_info;
        struct cli *cli = userdata;

        if (ev->kind != CONFAB_EVENT_MODEL_INFO)
                return;
        const struct field fields[] = {
                {"name", "name", .text = m->name},
                {"architecture", "architecture", .text = m->architecture},
                {"path", "file", .text = m->path},
                {"n_params", "parameters", .number = m->n_params},
                {"weights_bytes", "weights, bytes", .number = m->weights_size},
                {"n_layer", "layers", .number = m->n_layer},
                {"n_embd", "width", .number = m->n_embd},
                {"n_vocab", "vocabulary", .number = m->n_vocab},
                {"context", "context", .number = m->context},
                {"context_train", "trained for", .number = m->context_train},
                {"chat_family", "chat format", .text = m->chat_family},
                {"takes_tools", "takes tools", .text = m->takes_tools ? "yes" : "no"},
                {"reasons", "reasons", .text = m->reasons ? "yes" : "no"},
                {"reply_format", "calls as", .text = m->reply_format},
                {"tokenizer", "tokenizer", .text = m->tokenizer},
                {"kv_type", "memory type", .text = m->kv_type},
                {"block_tokens", "block, tokens", .number = m->block_tokens},
                {"block_bytes", "block, bytes", .number = m->block_size},
                {"state_bytes", "state, bytes", .number = m->state_size},
                {"window", "window, tokens", .number = m->window},
                {"window_block_bytes", "window, bytes", .number = m->window_block_size},
                {"isa", "instructions", .text = m->isa},
                {"fingerprint", "fingerprint", .text = m->fingerprint},
        };

        if (cli->json)
                print_json(cli, fields, ARRAY_SIZE(fields));
        else
                print(cli, fields, ARRAY_SIZE(fields));
}

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;

        r.verb = CONFAB_MODEL_INFO;
        return cli_call(cli, &r, event, cli);
}

const struct cli_command cmd_model = {
        .name = "model",
        .args = "",
        .purpose = CLI_PURPOSE_LOOK,
        .summary = "Tell about the model that the daemon serves",
        .help = "It tells whether the model takes tools and marks reasoning, too. \"block, bytes\" "
                "is the memory of a block of tokens in all layers with attention. What of it is in "
                "local layers (\"window, bytes\") is kept for the last tokens only, as many as "
                "\"window, tokens\" says; recurrent layers have one \"state\" for the whole "
                "conversation, and one for each place that is kept to come back to.",
        .see = "stats",
        .run = run,
};
