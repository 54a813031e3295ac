/* SPDX-License-Identifier: MIT */
/*
 * Checks the state folder of a daemon that is not running.
 *
 * Nothing is changed: the register is opened for reading only (the index of a log that a crash left
 * is kept in memory), and so are the spill files. The daemon's lock is taken shared, so that no
 * daemon starts during the check and several checks may run at once.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/util.h"
#include "fsck.h"

/* In addition to the usual exit statuses: the check could not be made, so nothing is known. */
enum { FSCK_UNKNOWN = 3 };

static void finding_json(
        struct fsck *f, const char *kind, uint64_t conv, uint64_t record, const char *text) {
        json_object_begin(&f->j);
        json_put_key_string(&f->j, "kind", kind);
        if (conv) {
                json_put_key_u64(&f->j, "conversation", conv);
        }
        if (record) {
                json_put_key_u64(&f->j, "record", record);
        }
        json_put_key_string(&f->j, "text", text);
        json_object_end(&f->j);
}

void fsck_finding(
        struct fsck *f, const char *kind, uint64_t conv, uint64_t record, const char *fmt, ...) {
        char text[640];
        va_list ap;

        va_start(ap, fmt);
        vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        /* One line each; what the register says must not play with the terminal. */
        for (char *p = text; *p; p++)
                if ((unsigned char)*p < 0x20 || *p == 0x7f)
                        *p = '?';
        f->n_findings++;
        if (f->json) {
                finding_json(f, kind, conv, record, text);
                return;
        }
        printf("%s:", kind);
        if (conv)
                printf(" conversation %" PRIu64 "%s", conv, record ? "," : ":");
        if (record)
                printf(" record %" PRIu64 ":", record);
        printf(" %s\n", text);
}

static void note_register(void *arg, const struct store_finding *x) {
        fsck_finding(arg, store_finding_name(x->kind), x->conv, x->record, "%s", x->text);
}

/* Take the daemon's lock. Without a lock file no daemon ever used the folder. */
static int lock_state(const char *state, int *ret, struct err *e) {
        char path[4096];
        int fd;

        snprintf(path, sizeof(path), "%s/lock", state);
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (fd < 0) {
                if (errno == ENOENT)
                        return 0;
                return err_set(e, ERR_SYS, "cannot open '%s'", path);
        }
        *ret = fd;
        if (flock(fd, LOCK_SH | LOCK_NB) == 0)
                return 0;
        if (errno != EWOULDBLOCK)
                return err_set(e, ERR_SYS, "cannot lock '%s'", path);
        return err_set(
                e, ERR_BUSY, "a daemon is running on it: stop that first, its memory is moving");
}

/* 1: the register is too damaged for further checks. */
static int check_register(struct fsck *f, struct err *e) {
        char path[4096];
        int r;

        snprintf(path, sizeof(path), "%s/register.db", f->state);
        r = store_open_readonly(&f->store, path, e);
        if (r == 0) {
                r = store_check(f->store, note_register, f, &f->census, e);
                f->has_census = r == 0;
        }
        if (r == 0)
                r = store_list_held(f->store, &f->held, &f->n_held, e);
        if (r == -ERR_CORRUPT) {
                fsck_finding(f, "register", 0, 0, "%s", e->msg);
                return 1;
        }
        if (r < 0)
                return r;
        f->good = calloc(f->n_held + 1, sizeof(*f->good));
        if (!f->good)
                return err_set(e, ERR_NOMEM, "no memory for %zu records", f->n_held);
        return 0;
}

static int check_all(struct fsck *f, struct err *e) {
        _cleanup_(closep) int lock_fd = -1;
        int r;

        if (strlen(f->state) > 4000)
                return err_set(e, ERR_INVALID, "the name of the folder is too long");
        r = lock_state(f->state, &lock_fd, e);
        if (r == 0)
                r = check_register(f, e);
        if (r != 0)
                return r < 0 ? r : 0;
        snprintf(f->spill_dir, sizeof(f->spill_dir), "%s/spill", f->state);
        r = fsck_spill(f, e);
        if (r == 0 && f->model)
                r = fsck_audit(f, e);
        return r;
}

struct figure {
        const char *key;
        uint64_t value;
};

static void put_figures(struct fsck *f, const char *name, const struct figure *x, size_t n) {
        if (f->json) {
                json_put_key(&f->j, name);
                json_object_begin(&f->j);
                for (size_t i = 0; i < n; i++) {
                        json_put_key_u64(&f->j, x[i].key, x[i].value);
                }
                json_object_end(&f->j);
                return;
        }
        printf("%s:", name);
        for (size_t i = 0; i < n; i++)
                printf("%s %" PRIu64 " %s", i ? "," : "", x[i].value, x[i].key);
        putchar('\n');
}

static void put_summary(struct fsck *f) {
        const struct store_census *c = &f->census;
        const struct figure reg[] = {{"conversations", c->n_convs}, {"turns", c->n_turns},
                {"tokens", c->n_tokens}, {"links", c->n_links}, {"records", c->n_records},
                {"bytes", c->stored_size}, {"raw bytes", c->raw_size}};
        const struct figure spill[] = {{"records checked", f->n_checked},
                {"of a former version", f->n_unchecked}, {"decoded", f->n_decoded},
                {"blocks computed again", f->n_audited}};
        const struct figure rest[] = {{"files that nothing refers to", f->n_orphans},
                {"bytes that nothing refers to", f->orphan_size},
                {"entries of others", f->n_strange}};

        if (f->has_census)
                put_figures(f, "register", reg, ARRAY_SIZE(reg));
        put_figures(f, "spill", spill, ARRAY_SIZE(spill));
        put_figures(f, "besides", rest, ARRAY_SIZE(rest));
        if (f->json) {
                json_put_key_u64(&f->j, "n_findings", f->n_findings);
        } else if (f->n_findings)
                printf("%" PRIu64 " finding%s\n", f->n_findings, f->n_findings == 1 ? "" : "s");
        else
                puts("clean");
}

/* Report the findings so far, even if the check ended early. */
static int finish(struct fsck *f, int r, struct err *e) {
        int status = f->n_findings ? CLI_FAILED : CLI_OK;

        if (f->json)
                json_array_end(&f->j);
        if (r == 0)
                put_summary(f);
        if (f->json) {
                json_object_end(&f->j);
                if (r == 0)
                        r = json_finish(&f->j);
                if (r == 0)
                        r = buf_append_str(&f->out, "\n");
                if (r == -ERR_NOMEM || r == -ERR_LIMIT)
                        err_set(e, ERR_NOMEM, "no memory for the result");
                if (r == 0 && cli_print(&f->out) != CLI_OK)
                        status = FSCK_UNKNOWN;
        } else if (fflush(stdout) != 0 || ferror(stdout)) {
                r = err_set(e, ERR_SYS, "cannot write the result");
        }
        if (r < 0) {
                cli_fail(f->state, e);
                status = FSCK_UNKNOWN;
        }
        return status;
}

static int run_parsed(struct fsck *f) {
        struct err e = {0};
        int r;

        if (f->json) {
                json_init(&f->j, &f->out);
                json_object_begin(&f->j);
                json_put_key(&f->j, "findings");
                json_array_begin(&f->j);
        }
        r = check_all(f, &e);
        r = finish(f, r, &e);
        store_free(f->store);
        spill_free(f->spill);
        free(f->held);
        free(f->good);
        buf_deinit(&f->out);
        return r;
}

static bool parse_seed(const char *s, uint64_t *ret) {
        unsigned long long v;
        char *end;

        if (*s < '0' || *s > '9')
                return false;
        errno = 0;
        v = strtoull(s, &end, 10);
        if (errno || *end)
                return false;
        *ret = v;
        return true;
}

static int parse_option(const struct cli_verb *v, struct fsck *f, int c) {
        uint32_t n;

        switch (c) {
        case 'a':
                if (!cli_number(optarg, 0, UINT32_MAX, &f->audit))
                        return cli_usage(v, "--audit %s is no count", optarg);
                return 0;
        case 'm':
                f->model = optarg;
                return 0;
        case 's':
                if (!parse_seed(optarg, &f->seed))
                        return cli_usage(v, "--seed %s is no number", optarg);
                return 0;
        case 'K':
                if (!cli_kv_type(optarg, &f->engine.kv_type))
                        return cli_usage(v, "--kv %s is not one of f32, f16, q8_0", optarg);
                f->kv_given = true;
                return 0;
        case 't':
                if (!cli_number(optarg, 1, 1024, &n))
                        return cli_usage(v, "--threads %s is not in 1 to 1024", optarg);
                f->engine.n_threads = n;
                return 0;
        case 'I':
                if (!cli_isa(optarg, &f->engine.max_isa))
                        return cli_usage(v, "unknown instruction set '%s'", optarg);
                return 0;
        case 'j':
                f->json = true;
                return 0;
        default:
                return cli_usage(v, "bad option");
        }
}

static int run(const struct cli_verb *v, int argc, char **argv) {
        static const struct option options[] = {{"audit", 1, NULL, 'a'}, {"model", 1, NULL, 'm'},
                {"seed", 1, NULL, 's'}, {"kv", 1, NULL, 'K'}, {"threads", 1, NULL, 't'},
                {"isa", 1, NULL, 'I'}, {"json", 0, NULL, 'j'}, {"help", 0, NULL, 'h'}, {0}};
        struct fsck f = {
                .seed = 1, .engine = {.max_isa = kern_cpu_isa(), .n_threads = cli_n_cpus()}};
        int c, r;

        opterr = 0;
        while ((c = getopt_long(argc, argv, "t:h", options, NULL)) != -1) {
                if (c == 'h')
                        return cli_help(v);
                r = parse_option(v, &f, c);
                if (r != 0)
                        return r;
        }
        if (optind + 1 != argc)
                return cli_usage(v, "expected one state folder");
        if (f.audit && !f.model)
                return cli_usage(v, "--audit needs --model");
        f.state = argv[optind];
        return run_parsed(&f);
}

const struct cli_verb verb_fsck = {
        .name = "fsck",
        .usage = "STATE [--model FILE [--audit N] [--seed S]] [--json]",
        .help = "Checks the state folder of a daemon that is not running, and changes nothing: "
                "the\n"
                "register, every record of the spill files, and with a model that they decode.\n"
                "Findings come one per line, a summary at the end. Files and bytes that nothing\n"
                "refers to are no finding: the next start removes them.\n"
                "\n"
                "  --model FILE     the model whose memory it is\n"
                "  --audit N        draw N blocks, compute them again from their tokens, compare\n"
                "  --seed S         of the draw (default 1)\n"
                "  --kv TYPE        type of the keys and values: f32, f16, q8_0 (default: what "
                "the\n"
                "                   records have)\n"
                "  -t, --threads N  default: the processors available\n"
                "  --isa NAME       at most this instruction set: generic, avx2, avx-vnni,\n"
                "                   avx512, avx512-vnni, neon, neon-dotprod\n"
                "  --json           one JSON object\n"
                "\n"
                "Exit status: 0 clean, 1 findings, 2 usage, 3 it could not be checked.\n",
        .run = run,
};
