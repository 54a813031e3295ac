/* SPDX-License-Identifier: MIT */
/* /stats: how full the context is, how fast the last reply was, and where its memory came from. */
#include "client/chat/chat.h"

struct stats {
        struct cli *cli;
        struct confab_request get;
        uint32_t context; /* tokens */
};

static double seconds(uint64_t usec) {
        return (double)usec / 1e6;
}

/* "12 tokens in 0.30 s (40 per second)" */
static void print_rate(struct cli *cli, uint32_t n, uint64_t usec) {
        cli_printf(cli, "%u token%s in %.2f s", n, plural_s(n), seconds(usec));
        if (usec > 0 && n > 0)
                cli_printf(cli,
                        n / seconds(usec) < 100 ? " (%.1f per second)" : " (%.0f per second)",
                        n / seconds(usec));
}

static void print_run(struct cli *cli, const struct confab_run *run) {
        cli_printf(cli, "last reply: ");
        print_rate(cli, run->n_generated, run->decode_usec);
        cli_printf(cli, "\nits prompt: %u token%s: %u in RAM, %u shared with others, %u from disk",
                run->n_prompt, plural_s(run->n_prompt), run->n_ram, run->n_shared, run->n_disk);
        if (run->n_disk > 0)
                cli_printf(cli, " in %.2f s", seconds(run->restore_usec));
        cli_printf(cli, ", computed: ");
        print_rate(cli, run->n_computed, run->prefill_usec);
        cli_printf(cli, "\n");
        if (run->queued_usec >= 100000)
                cli_printf(cli, "it waited %.2f s for its turn\n", seconds(run->queued_usec));
}

static void print(struct cli *cli, const struct confab_conversation *c, uint32_t context) {
        uint32_t seen = c->n_tokens - (c->dropped_to - c->dropped_from);

        cli_print_residency(cli, c);
        cli_printf(cli, "%u turn%s, %u token%s", c->n_turns, plural_s(c->n_turns), c->n_tokens,
                plural_s(c->n_tokens));
        if (seen != c->n_tokens)
                cli_printf(cli, ", of which the model sees %u", seen);
        cli_printf(cli, "\ncontext: %u of %u tokens, %u left\n", seen, context,
                context > seen ? context - seen : 0);
        for (size_t i = c->n_turn_list; i-- > 0;)
                if (c->turns[i].run) {
                        print_run(cli, c->turns[i].run);
                        break;
                }
}

static void model_event(void *userdata, const struct confab_event *event) {
        struct stats *stats = userdata;

        if (event->kind == CONFAB_EVENT_MODEL_INFO)
                stats->context = event->model_info->context;
}

static void get_event(void *userdata, const struct confab_event *event) {
        struct stats *stats = userdata;

        if (event->kind != CONFAB_EVENT_CONVERSATION)
                return;
        if (stats->cli->json)
                cli_put_conversation(stats->cli, &stats->get, event->conversation);
        else
                print(stats->cli, event->conversation, stats->context);
}

int chat_stats(struct chat *chat, const char *arg) {
        struct stats stats = {.cli = chat->cli, .get = chat_request(chat, CONFAB_GET)};
        struct confab_request model = CONFAB_REQUEST_INIT;
        int status;

        model.verb = CONFAB_MODEL_INFO;
        status = cli_call(chat->cli, &model, model_event, &stats);
        stats.get.want_turns = true;
        stats.get.max_turns = CHAT_LAST_TURNS; /* of which one is the last reply */
        return status ? status : cli_call(chat->cli, &stats.get, get_event, &stats);
}
