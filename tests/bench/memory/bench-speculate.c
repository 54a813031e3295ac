/* SPDX-License-Identifier: MIT */
/*
 * bench-speculate MODEL edit|prose|chat FILE N_LINES CHUNK REPEAT DIR: tokens per second of a reply with speculation and
 * without, chunk by chunk in turn, in one conversation.
 *
 *   edit    the conversation has the first N_LINES lines of FILE, and the reply says them again, edited: NAME is
 *           another word everywhere, one line in forty is left out, and one in forty is new
 *   prose   the conversation has the first N_LINES lines of FILE, and the reply goes on with the next ones
 *   chat    the model's own replies to short messages, drawn at its temperature; FILE is not read
 *
 * In the first two a token is a word, a sign or the end of a line, numbered by its hash, and what the model would
 * choose is replaced: the reply is the one that is told here. Everything else is done as ever, the choosing too. So
 * a model with random weights has the cost of its shape, and the text its own repetitions.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "bench.h"
#include "drive.h"
#include "sample/sample.h"

#define MAX_TOKENS 65536
#define MAX_REPEAT 64
#define SPECIAL 300 /* tokens that may be special, or bytes */
#define EVERY 40    /* lines */
#define NAME "request"

/* --- the reply --- */

static int32_t script[MAX_TOKENS]; /* by position in the conversation; 0: as the model likes */
static size_t n_script;

int32_t __real_sample_token(struct sample_work *w, const struct sample_params *p,
        const float *logits, const int32_t *recent, size_t n_recent, uint64_t position);
int32_t __wrap_sample_token(struct sample_work *w, const struct sample_params *p,
        const float *logits, const int32_t *recent, size_t n_recent, uint64_t position);

int32_t __wrap_sample_token(struct sample_work *w, const struct sample_params *p,
        const float *logits, const int32_t *recent, size_t n_recent, uint64_t position) {
        int32_t token = __real_sample_token(w, p, logits, recent, n_recent, position);

        return position < n_script ? script[position] : token;
}

/* --- texts as tokens --- */

struct text {
        int32_t tokens[MAX_TOKENS];
        size_t n;
        uint32_t n_vocab;
};

static int32_t token_of(const struct text *t, const char *word, size_t size) {
        uint32_t hash = 2166136261u;

        for (size_t i = 0; i < size; i++)
                hash = (hash ^ (uint8_t)word[i]) * 16777619u;
        return SPECIAL + (int32_t)((hash ^ hash >> 16) % (t->n_vocab - SPECIAL));
}

static void put(struct text *t, int32_t token) {
        if (t->n == MAX_TOKENS)
                bench_die("the text is too long");
        t->tokens[t->n++] = token;
}

/* A line, with its end. */
static void put_line(struct text *t, const char *line, size_t size) {
        for (size_t i = 0, n; i < size; i += n) {
                n = 1;
                if (line[i] == ' ')
                        continue;
                if (isalnum((unsigned char)line[i]) || line[i] == '_')
                        while (i + n < size &&
                                (isalnum((unsigned char)line[i + n]) || line[i + n] == '_'))
                                n++;
                put(t, token_of(t, line + i, n));
        }
        put(t, token_of(t, "\n", 1));
}

static void edit(const struct text *from, struct text *to, uint64_t *state) {
        int32_t name = token_of(from, NAME, strlen(NAME)), end = token_of(from, "\n", 1);
        size_t line = 0;

        for (size_t i = 0; i < from->n; i++) {
                int32_t token = from->tokens[i];

                if (line % EVERY != EVERY / 2)
                        put(to, token == name ? token_of(from, "renamed", 7) : token);
                if (token != end)
                        continue;
                if (++line % EVERY == 0) {
                        for (size_t k = 0; k < 6; k++)
                                put(to, SPECIAL + (int32_t)(bench_random(state) %
                                                            (from->n_vocab - SPECIAL)));
                        put(to, end);
                }
        }
}

/* The lines of the file: the first @n_lines into @a, the others into @b. */
static void read_lines(const char *path, size_t n_lines, struct text *a, struct text *b) {
        FILE *f = fopen(path, "r");
        char line[4096];

        if (!f)
                bench_die("cannot read %s", path);
        for (size_t i = 0; fgets(line, sizeof(line), f) && b->n < MAX_TOKENS / 2; i++)
                put_line(i < n_lines ? a : b, line, strcspn(line, "\n"));
        fclose(f);
}

/* --- measuring --- */

struct run {
        struct drive d;
        uint32_t chunk;
        size_t repeat;
        double speed[2][MAX_REPEAT]; /* tokens per second; [1]: with */
        double generated, drafted, accepted;
};

static void note(struct run *r, bool on, size_t i, const struct drive_answer *a) {
        r->speed[on][i] = (a->n_generated - 1) / a->decode;
        if (!on)
                return;
        r->generated += a->n_generated;
        r->drafted += a->n_drafted;
        r->accepted += a->n_accepted;
}

static void put_run(struct run *r) {
        if (r->repeat == 0)
                return;
        bench_put("off", r->speed[0], r->repeat);
        bench_put("on", r->speed[1], r->repeat);
        bench_put1("accepted", r->accepted / r->generated);
        bench_put1("held", r->drafted > 0 ? r->accepted / r->drafted : 0);
}

/* Chunks of one reply, in turn without and with. The first two are for learning prices. The text itself is in the first
 * conversation of DIR, also for the next run there. */
static void reply(struct run *r, const struct text *prompt) {
        uint64_t conv = drive_first(&r->d);
        struct drive_answer a;

        if (conv == 0) {
                conv = drive_new(&r->d);
                drive_tokens(&r->d, conv, prompt->tokens, prompt->n, 0, &a);
        }
        conv = drive_fork(&r->d, conv, 1, NULL);
        for (size_t i = 0; i < 2 * r->repeat + 2; i++) {
                engine_set_speculation(r->d.en, i % 2);
                drive_tokens(&r->d, conv, NULL, 0, r->chunk, &a);
                if (i >= 2)
                        note(r, i % 2, i / 2 - 1, &a);
                else
                        r->generated = r->drafted = r->accepted = 0;
        }
}

static void say(
        struct run *r, uint64_t conv, const char *text, uint64_t seed, struct drive_answer *sum) {
        struct engine_request q = {.verb = ENGINE_CONTINUE,
                .conv_id = conv,
                .input = ENGINE_INPUT_MESSAGE,
                .role = ENGINE_USER,
                .text = text,
                .text_size = strlen(text),
                .max_tokens = r->chunk,
                .sampling = {.has = SAMPLING_SEED, .seed = seed}};
        struct drive_answer a;

        drive_do(&r->d, &q, &a);
        sum->n_generated += a.n_generated - 1; /* the first one comes with the prompt */
        sum->n_drafted += a.n_drafted;
        sum->n_accepted += a.n_accepted;
        sum->decode += a.decode;
}

/* Chats of a few messages, each held twice. */
static void chat(struct run *r) {
        static const char *const texts[] = {"Hello, how are you?",
                "My name is Mia and I live in Oslo.", "What should I cook tonight?",
                "Tell me a story about a dog.", "Where do I live?", "What is my name?",
                "I am a little sad today.", "Thank you."};

        for (size_t i = 0; i < r->repeat + 1; i++)
                for (int on = 0; on < 2; on++) {
                        uint64_t conv = drive_new(&r->d);
                        struct drive_answer sum = {0};

                        engine_set_speculation(r->d.en, on);
                        for (size_t k = 0; k < ARRAY_SIZE(texts); k++)
                                say(r, conv, texts[k], i + k, &sum);
                        sum.n_generated++;
                        if (i >= 1)
                                note(r, on, i - 1, &sum);
                        else
                                r->generated = r->drafted = r->accepted = 0;
                }
}

static void told(struct run *r, bool edits, const char *path, size_t n_lines) {
        static struct text prompt, next;
        uint64_t state = 5;

        prompt.n_vocab = next.n_vocab = drive_n_vocab(&r->d);
        read_lines(path, n_lines, &prompt, &next);
        if (edits) {
                next.n = 0;
                edit(&prompt, &next, &state);
        }
        put_line(&prompt, "Now go on, please:", 18);
        n_script = MIN(prompt.n + next.n, (size_t)MAX_TOKENS);
        memcpy(script + prompt.n, next.tokens, (n_script - prompt.n) * sizeof(*script));
        if (next.n < 1 || next.n < (2 * r->repeat + 2) * r->chunk)
                bench_die("the reply has %zu tokens only", next.n);
        bench_put1("prompt", (double)prompt.n);
        reply(r, &prompt);
}

int main(int argc, char **argv) {
        struct engine_options o = ENGINE_OPTIONS_DEFAULT;
        struct run r = {0};

        if (argc != 8)
                bench_die("usage: bench-speculate MODEL edit|prose|chat FILE N_LINES CHUNK REPEAT "
                          "DIR");
        o.model_path = argv[1];
        o.state_dir = argv[7];
        o.pool_size = (uint64_t)2 << 30;
        r.chunk = (uint32_t)bench_number(argv[5]);
        r.repeat = MIN((size_t)bench_number(argv[6]), (size_t)MAX_REPEAT);
        drive_open(&r.d, &o);
        if (strcmp(argv[2], "chat") == 0)
                chat(&r);
        else
                told(&r, strcmp(argv[2], "edit") == 0, argv[3], (size_t)bench_number(argv[4]));
        put_run(&r);
        drive_close(&r.d);
        return 0;
}
