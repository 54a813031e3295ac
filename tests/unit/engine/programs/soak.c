/* SPDX-License-Identifier: MIT */
/*
 * The command line of the metamorphic suite. Programs run in child processes, so that a program
 * that crashes or hangs fails like any other, and can be shrunk.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"
#include "life.h"
#include "util/arch-build.h"
#include "util/depth.h"

enum {
        MAX_JOBS = 64,
        TEXT_SIZE = 16384,
        HANG_MSEC = TEST_SANITIZED ? 600000 : 120000,
        SHRINK_SEC = TEST_SANITIZED ? 600 : 120,
};

static struct {
        uint64_t first, n_programs;
        unsigned n_jobs, shrink_sec;
        const char *replay, *arch;
        bool verbose, self_test, no_q8;
        char dir[200], models[N_MODELS][256];
} args = {.first = 1, .n_jobs = 1, .shrink_sec = SHRINK_SEC};

/* What a child tells. */
struct message {
        uint64_t seed;
        bool begins; /* else it has ended */
        struct outcome o;
};

/* A random program for the models at hand: with --arch there is one, in the place of the tiny one. */
static void make_program(struct program *p, uint64_t seed) {
        program_random(p, seed);
        if (!args.arch)
                return;
        p->opt[OPT_MODEL] = MODEL_TINY;
        if (args.no_q8 && p->opt[OPT_KV] == ENGINE_KV_Q8_0)
                p->opt[OPT_KV] = ENGINE_KV_F32;
}

/* --- in the child --- */

static int report_fd = -1;
static uint64_t report_seed;

static void report(const struct message *m) {
        if (write(report_fd, m, sizeof(*m)) != sizeof(*m))
                _exit(2);
}

__attribute__((noreturn)) static void failed(const struct outcome *o) {
        struct message m = {.seed = report_seed, .o = *o};

        report(&m);
        _exit(1);
}

static void run_here(const struct program *p, const struct setting *s) {
        struct message m = {.seed = p->seed, .begins = true};

        report_seed = p->seed;
        report(&m);
        m.begins = false;
        life_run(p, s, &m.o.tally, failed);
        report(&m);
}

/* --- child processes --- */

struct worker {
        pid_t pid;
        int fd;
        uint64_t seed; /* of the program that runs */
        bool running, told;
        char dir[240];
};

/* One program, or if it is NULL those with seeds from @first on, every @step-th. */
static void worker_start(struct worker *w, size_t index, const struct program *p, enum plant plant,
        uint64_t first, uint64_t step) {
        int fds[2];

        snprintf(w->dir, sizeof(w->dir), "%s/%zu", args.dir, index);
        fflush(NULL);
        if (pipe(fds) < 0 || (w->pid = fork()) < 0) {
                perror("fork");
                exit(2);
        }
        if (w->pid > 0) {
                close(fds[1]);
                w->fd = fds[0];
                w->seed = p ? p->seed : first;
                w->running = w->told = false;
                return;
        }
        signal(SIGTERM, SIG_DFL);
        signal(SIGINT, SIG_DFL);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        {
                struct setting s = {.dir = w->dir, .verbose = args.verbose};
                static struct program random;

                close(fds[0]);
                report_fd = fds[1];
                planted = plant;
                for (size_t i = 0; i < N_MODELS; i++) {
                        s.model_path[i] = args.models[i];
                        s.ref[i] = ref_new(args.models[i]);
                }
                if (p)
                        run_here(p, &s);
                for (uint64_t seed = first; !p && seed < args.first + args.n_programs;
                        seed += step) {
                        make_program(&random, seed);
                        run_here(&random, &s);
                }
                for (size_t i = 0; i < N_MODELS; i++)
                        ref_free(s.ref[i]);
                exit(0);
        }
}

/* It is over, in whatever way. Fills @o if it failed and had not told so. */
static void worker_end(struct worker *w, bool hung, struct outcome *o) {
        int status = 0;

        if (hung)
                kill(w->pid, SIGKILL);
        close(w->fd);
        while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR)
                ;
        life_remove_dir(w->dir);
        w->pid = 0;
        if (o->failed || (!hung && WIFEXITED(status) && WEXITSTATUS(status) == 0))
                return;
        o->failed = true;
        strcpy(o->category, hung ? "hang" : "crash");
        if (hung)
                strcpy(o->message, "it does not end");
        else if (WIFSIGNALED(status))
                snprintf(o->message, sizeof(o->message), "signal %d", WTERMSIG(status));
        else
                snprintf(o->message, sizeof(o->message), "exit status %d", WEXITSTATUS(status));
}

/* Take what it tells next. False at its end. */
static bool worker_read(struct worker *w, struct outcome *o) {
        struct message m;
        size_t n = 0;

        while (n < sizeof(m)) {
                ssize_t k = read(w->fd, (char *)&m + n, sizeof(m) - n);

                if (k <= 0)
                        return false;
                n += (size_t)k;
        }
        w->seed = m.seed;
        w->running = m.begins;
        if (m.o.failed)
                *o = m.o;
        else
                tally_add(&o->tally, &m.o.tally);
        return true;
}

static void worker_poll(struct worker *w, struct outcome *o) {
        struct pollfd pfd = {.fd = w->fd, .events = POLLIN};
        bool more = true, hung = false;

        while (more && !hung) {
                hung = poll(&pfd, 1, HANG_MSEC) == 0;
                more = !hung && worker_read(w, o);
        }
        worker_end(w, hung, o);
}

/* --- failures --- */

struct alone {
        enum plant plant;
};

static bool run_alone(void *arg, const struct program *p, struct outcome *ret) {
        const struct alone *a = arg;
        struct worker w = {0};

        memset(ret, 0, sizeof(*ret));
        worker_start(&w, MAX_JOBS, p, a->plant, 0, 1);
        worker_poll(&w, ret);
        return ret->failed;
}

static void print_program(const char *what, const struct program *p) {
        static char text[TEXT_SIZE];

        program_print(p, text, sizeof(text));
        printf("%s (%zu operations):\n  --replay '%s'\n", what, p->n, text);
        fflush(stdout);
}

/* Tell of a failure, by the shortest program that shows it. */
static void tell(struct program *p, struct outcome *o, enum plant plant) {
        struct alone a = {plant};

        printf("seed %llu: %s: %s\n", (unsigned long long)p->seed, o->category, o->message);
        print_program("the program", p);
        if (shrink(p, o, run_alone, &a, args.shrink_sec)) {
                printf("shrunk: %s: %s\n", o->category, o->message);
                print_program("the shortest program that shows it", p);
        } else {
                printf("it did not happen again\n");
        }
}

/* --- runs --- */

static void print_tally(const struct tally *t, uint64_t usec) {
#define N(x) ((unsigned long long)(x))
        printf("%llu programs (%.1f per second), %llu operations, %llu replies, %llu "
               "log-probabilities compared\n",
                N(t->programs), (double)t->programs * 1e6 / (double)(usec + 1), N(t->ops),
                N(t->replies), N(t->compared));
        printf("prompt tokens: %llu own RAM, %llu disk, %llu shared, %llu computed\n", N(t->ram),
                N(t->disk), N(t->shared), N(t->computed));
        printf("%llu restarts, %llu kills (%llu requests under way), %llu refused, %llu bits "
               "flipped\n",
                N(t->restarts), N(t->kills), N(t->resolved), N(t->refused), N(t->damaged));
        printf("%llu parked, %llu evictions, %llu restores (%llu failed, %llu while computing), "
               "%llu blocks "
               "merged, %llu written "
               "behind, %llu bytes reclaimed, %llu imported, %llu shifts\n",
                N(t->parked), N(t->evictions), N(t->restores), N(t->restore_failures),
                N(t->overlapped), N(t->merged), N(t->write_behind), N(t->reclaimed), N(t->imported),
                N(t->shifts));
        if (getenv("CONFAB_TEST_REDIS"))
                printf("%llu blocks sent to the remote store, %llu read there\n", N(t->sent),
                        N(t->fetched));
#undef N
}

/* Programs that never get somewhere say nothing about it. */
static int check_reach(const struct tally *t) {
        /* Only the deep model's memory comes in stages (beside it engine/restore-classes). The programs' prompts are too short to share states
         * at the ends of blocks (engine/checkpoint does), where a model has nothing else. */
        const bool all = !args.arch;
        const bool shares =
                all || (strncmp(args.arch, "mamba", 5) && strncmp(args.arch, "rwkv", 4));
        const struct {
                const char *name;
                uint64_t n;
        } reached[] = {{"replies", t->replies}, {"own RAM", t->ram}, {"disk", t->disk},
                {"shared", shares ? t->shared : 1}, {"restarts", t->restarts}, {"kills", t->kills},
                {"resolved", t->resolved}, {"parked", t->parked}, {"evictions", t->evictions},
                {"restores", t->restores}, {"restore failures", t->restore_failures},
                {"restores while computing", all ? t->overlapped : 1},
                {"merged", shares ? t->merged : 1}, {"written behind", t->write_behind},
                {"reclaimed", t->reclaimed}, {"imported", t->imported}, {"pressure", t->pressed},
                {"shifts", t->shifts}, {"parts", t->parts},
                {"remote store", getenv("CONFAB_TEST_REDIS") ? t->fetched : 1}};
        int r = 0;

        for (size_t i = 0; i < ARRAY_SIZE(reached); i++)
                if (reached[i].n == 0) {
                        printf("no program has reached: %s\n", reached[i].name);
                        r = 1;
                }
        return r;
}

static volatile sig_atomic_t interrupted;

static void on_signal(int sig) {
        (void)sig;
        interrupted = 1;
}

static void end_others(struct worker *w) {
        for (size_t i = 0; i < args.n_jobs; i++) {
                struct outcome o = {0};

                if (w[i].pid)
                        worker_end(&w[i], true, &o);
        }
}

static int run_all(void) {
        uint64_t start = clock_monotonic_usec(), done = 0;
        static struct worker w[MAX_JOBS];
        static struct outcome o[MAX_JOBS];
        struct tally all = {0};
        size_t n_running = 0;
        int r = 0;

        memset(w, 0, sizeof(w));
        memset(o, 0, sizeof(o));
        for (size_t i = 0; i < args.n_jobs && i < args.n_programs; i++, n_running++)
                worker_start(&w[i], i, NULL, PLANT_NONE, args.first + i, args.n_jobs);
        while (n_running > 0) {
                struct pollfd p[MAX_JOBS];
                int n_ready;

                for (size_t i = 0; i < args.n_jobs; i++)
                        p[i] = (struct pollfd){.fd = w[i].pid ? w[i].fd : -1, .events = POLLIN};
                n_ready = poll(p, args.n_jobs, HANG_MSEC);
                if (interrupted) {
                        end_others(w);
                        return 130;
                }
                if (n_ready < 0)
                        continue;
                for (size_t i = 0; i < args.n_jobs; i++) {
                        static struct program program;

                        if (!w[i].pid || (n_ready > 0 && !p[i].revents))
                                continue;
                        if (n_ready > 0 && worker_read(&w[i], &o[i])) {
                                done += !w[i].running;
                                if (isatty(1) && done % 50 == 0 && !w[i].running)
                                        fprintf(stderr, "%llu programs\r",
                                                (unsigned long long)done);
                                continue;
                        }
                        worker_end(&w[i], n_ready == 0, &o[i]);
                        n_running--;
                        tally_add(&all, &o[i].tally);
                        if (!o[i].failed)
                                continue;
                        r = 1;
                        end_others(w);
                        make_program(&program, w[i].seed);
                        tell(&program, &o[i], PLANT_NONE);
                        return r;
                }
        }
        print_tally(&all, clock_monotonic_usec() - start);
        return r || (args.n_programs >= 500 ? check_reach(&all) : 0);
}

static int run_replay(void) {
        static struct program p;
        static struct outcome o;
        struct alone a = {PLANT_NONE};

        if (program_parse(&p, args.replay) < 0)
                return 2;
        for (uint64_t i = 0; i < MIN(args.n_programs, (uint64_t)50); i++)
                if (run_alone(&a, &p, &o)) {
                        printf("run %llu: %s: %s\n", (unsigned long long)i + 1, o.category,
                                o.message);
                        return 1;
                }
        printf("no mismatch\n");
        return 0;
}

/* So many programs on a model of the architecture. */
static int run_arch(const char *name) {
        args.arch = name;
        args.no_q8 = arch_build_head_dim(name) % 32 != 0;
        memset(life_pool_sizes, 0, sizeof(life_pool_sizes[0]) * N_MODELS);
        if (tiny_model_write_arch(args.models[MODEL_TINY], name) < 0) {
                fprintf(stderr, "%s: %s\n", name, strerror(errno));
                return 2;
        }
        printf("%s: ", name);
        fflush(stdout);
        return args.replay ? run_replay() : run_all();
}

static int run_archs(void) {
        int r = 0;

        if (strcmp(args.arch, "all"))
                return run_arch(args.arch);
        /* Sanitizers make it slow, and look at code that many architectures share: some will do. */
        for (size_t i = 0; i < arch_build_n() && r == 0; i += test_depth(6, 1, 1))
                r = run_arch(arch_build_name(i));
        return r;
}

/* --- does it find anything? --- */

static const struct {
        const char *name, *categories;
} plants[N_PLANTS] = {[PLANT_FLIP] = {"a flipped bit", "logprob token"},
        [PLANT_FOREIGN] = {"sharing between users", "foreign"},
        [PLANT_FORGET] = {"a turn that is not in the register", "history lost"}};

static int find_plant(enum plant plant) {
        enum { MOST_PROGRAMS = 200, MOST_OPS = 8 };
        static struct program p, again;
        static struct outcome o;
        static char text[TEXT_SIZE];
        struct alone a = {plant};
        uint64_t seed = 1;

        for (; seed <= MOST_PROGRAMS; seed++) {
                program_random(&p, seed);
                if (run_alone(&a, &p, &o))
                        break;
        }
        if (seed > MOST_PROGRAMS) {
                printf("planted %s: not found by %d programs\n", plants[plant].name, MOST_PROGRAMS);
                return 1;
        }
        printf("planted %s, found by program %llu: ", plants[plant].name, (unsigned long long)seed);
        tell(&p, &o, plant);
        program_print(&p, text, sizeof(text));
        if (program_parse(&again, text) < 0 || p.n > MOST_OPS ||
                !strstr(plants[plant].categories, o.category))
                return 1;
        for (int i = 0; i < 20; i++)
                if (run_alone(&a, &again, &o))
                        return 0;
        printf("the text is not the program\n");
        return 1;
}

/* Printing and parsing are inverse. */
static int check_text(void) {
        static struct program p, q;
        static char text[TEXT_SIZE], other[TEXT_SIZE];

        for (uint64_t seed = 1; seed < 500; seed++) {
                program_random(&p, seed);
                program_print(&p, text, sizeof(text));
                if (program_parse(&q, text) < 0)
                        return 1;
                q.seed = seed;
                program_print(&q, other, sizeof(other));
                if (memcmp(&p, &q, sizeof(p)) != 0 || strcmp(text, other) != 0) {
                        printf("not the same: %s\nand %s\n", text, other);
                        return 1;
                }
        }
        return 0;
}

static int self_test(void) {
        int r = check_text();

        for (enum plant plant = PLANT_NONE + 1; plant < N_PLANTS; plant++)
                r |= find_plant(plant);
        return r;
}

/* --- command line --- */

static const char help[] =
        "Random programs of what can happen to conversations, each compared with a computation\n"
        "that never evicts. A mismatch ends the run with the shortest program that shows it.\n"
        "\n"
        "  --programs N     how many (default: what CI has time for; 2000 with CONFAB_TEST_FULL)\n"
        "  --seed S         of the first one; the others follow (default 1)\n"
        "  --jobs N         so many at the same time (default 1)\n"
        "  --arch NAME      on a small model of this architecture, or of each one (all)\n"
        "  --replay TEXT    run this program, as a mismatch prints it\n"
        "  --shrink-time S  seconds for finding the shortest program (default 120)\n"
        "  --self-test      plant faults and find them\n"
        "  --verbose        what the engine logs\n";

static int parse_args(int argc, char **argv) {
        static const struct option options[] = {{"programs", 1, NULL, 'p'}, {"seed", 1, NULL, 's'},
                {"jobs", 1, NULL, 'j'}, {"arch", 1, NULL, 'a'}, {"replay", 1, NULL, 'r'},
                {"shrink-time", 1, NULL, 't'}, {"self-test", 0, NULL, 'S'},
                {"verbose", 0, NULL, 'v'}, {"help", 0, NULL, 'h'}, {0}};
        int c;

        while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0)
                switch (c) {
                case 'p':
                        args.n_programs = strtoull(optarg, NULL, 0);
                        break;
                case 's':
                        args.first = strtoull(optarg, NULL, 0);
                        break;
                case 'j':
                        args.n_jobs = (unsigned)strtoul(optarg, NULL, 0);
                        break;
                case 'a':
                        args.arch = optarg;
                        break;
                case 'r':
                        args.replay = optarg;
                        break;
                case 't':
                        args.shrink_sec = (unsigned)strtoul(optarg, NULL, 0);
                        break;
                case 'S':
                        args.self_test = true;
                        break;
                case 'v':
                        args.verbose = true;
                        break;
                case 'h':
                        fputs(help, stdout);
                        exit(0);
                default:
                        return -1;
                }
        args.n_jobs = MIN(MAX(args.n_jobs, 1u), (unsigned)MAX_JOBS);
        if (args.n_programs == 0)
                args.n_programs = args.arch ? test_depth(8, 120, 500)
                                            : test_depth(TEST_TSAN ? 30 : 60, 600, 2000);
        return optind == argc ? 0 : -1;
}

/* In memory, if there is room: the suite is about what is read back, not about the disk. */
static void make_dir(void) {
        const char *tmp = getenv("TMPDIR");
        struct statvfs sv;

        if (!tmp || !*tmp)
                tmp = statvfs("/dev/shm", &sv) == 0 &&
                                      (uint64_t)sv.f_bavail * sv.f_frsize > (uint64_t)args.n_jobs
                                                                                    << 25 &&
                                      access("/dev/shm", W_OK) == 0
                              ? "/dev/shm"
                              : "/tmp";
        snprintf(args.dir, sizeof(args.dir), "%.160s/confab-soak-XXXXXX", tmp);
        if (!mkdtemp(args.dir)) {
                perror(args.dir);
                exit(2);
        }
        for (size_t i = 0; i < N_MODELS; i++) {
                snprintf(args.models[i], sizeof(args.models[i]), "%s/model-%zu.gguf", args.dir, i);
                if (tiny_model_write(args.models[i], (enum tiny_model)i) < 0) {
                        perror(args.models[i]);
                        exit(2);
                }
        }
}

int main(int argc, char **argv) {
        int r;

        if (parse_args(argc, argv) < 0) {
                fputs("unknown argument (try --help)\n", stderr);
                return 2;
        }
        signal(SIGTERM, on_signal);
        signal(SIGINT, on_signal);
        make_dir();
        life_pool_sizes = mmap(NULL, sizeof(life_pool_sizes[0]) * N_MODELS, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (life_pool_sizes == MAP_FAILED)
                return 2;
        r = args.arch        ? run_archs()
            : args.replay    ? run_replay()
            : args.self_test ? self_test()
                             : run_all();
        life_remove_dir(args.dir);
        return r;
}
