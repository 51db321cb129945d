/* SPDX-License-Identifier: Apache-2.0 */
/* A child process checks this node, because a driver or a file system may never return. What it has
 * found by then is kept. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "capo/msg.h"
#include "cli/base/cli_fields.h"
#include "cli/base/cli_json.h"
#include "cli/check/check.h"
#include "profiles/machine/sysfs.h"
#include "core/base/xalloc.h"
#include "profiles/machine/apart.h"
#include "profiles/machine/nvml.h"

static void check_lanes(struct capo_findings *f, const char *path, const char *device,
                        const char *topic, const char *what)
{
        long lanes = capo_sysfs_number(0, path, device, "current_link_width"),
             most = capo_sysfs_number(0, path, device, "max_link_width");

        if (lanes > 0 && lanes < most)
                capo_finding_add(f, CAPO_FINDING_WARN, topic,
                                 "%s%s has %ld PCIe lanes, it could have %ld: reseat it, or check "
                                 "riser and BIOS",
                                 what, device, lanes, most);
}

/* GPUs lower the speed of an idle link, so of them only lanes are compared, of NICs both. */
static void check_nic(const char *device, void *findings)
{
        static const char path[] = "class/infiniband/%s/device/%s";
        char speed[64], fastest[64];

        check_lanes(findings, path, device, "network", "");
        if (capo_sysfs_text(speed, sizeof speed, path, device, "current_link_speed") &&
            capo_sysfs_text(fastest, sizeof fastest, path, device, "max_link_speed") &&
            atof(speed) > 0 && atof(speed) < atof(fastest))
                capo_finding_add(findings, CAPO_FINDING_WARN, "network",
                                 "%s runs PCIe at %s, it could at %s", device, speed, fastest);
}

static void check_gpu(const char *device, void *findings)
{
        static const char path[] = "bus/pci/devices/%s/%s";
        char vendor[16], kind[16];

        if (capo_sysfs_text(vendor, sizeof vendor, path, device, "vendor") &&
            capo_sysfs_text(kind, sizeof kind, path, device, "class") &&
            !strcmp(vendor, "0x10de") && !strncmp(kind, "0x03", 4))
                check_lanes(findings, path, device, "gpu", "the GPU at ");
}

/* Since the driver was loaded; what grows now, capo report and capo watch say. */
static void check_errors(const char *device, void *findings)
{
        static const char *const counters[] = {"symbol_error", "link_downed",
                                               "local_link_integrity_errors", "port_rcv_errors"};
        char text[200] = "";

        for (size_t i = 0; i < N_ELEMENTS(counters); i++) {
                long n = capo_sysfs_number(0, "class/infiniband/%s/ports/1/counters/%s", device,
                                           counters[i]);

                if (n > 0)
                        capo_append(text, sizeof text, "%s%s %ld", *text ? ", " : "", counters[i],
                                    n);
        }
        if (*text)
                capo_finding_add(findings, CAPO_FINDING_NOTE, "network",
                                 "%s has counted errors since its driver was loaded: %s", device,
                                 text);
}

enum {
        QUICK_SECONDS = 10, /* for everything, of which the driver may take DRIVER_SECONDS */
        DRIVER_SECONDS = 5,
        COLD_SECONDS = 40, /* if the driver may need the 30 s of nvml.c */
        BOARD_ROOM = 4 << 20
};

/* Memory shared with the child. */
struct board {
        _Atomic(const char *) part; /* current part of the check; a fork shares our addresses */
        _Atomic size_t
                used; /* bytes of text: complete lines, each a JSON object with findings or facts */
        struct capo_reach reach;
        char text[BOARD_ROOM];
};

/* In the child: publish a new result. Takes ownership of @value. */
static void hand_over(struct board *b, const char *key, json_t *value)
{
        json_t *line = json_pack("{s:o}", key, value);
        const size_t used = atomic_load(&b->used);
        size_t n = line ? json_dumpb(line, b->text + used, BOARD_ROOM - used, JSON_COMPACT) : 0;

        json_decref(line);
        if (!n || n >= BOARD_ROOM - used)
                return;
        b->text[used + n] = '\n';
        atomic_store(&b->used, used + n + 1);
}

void check_finding(json_t *rows, enum capo_finding_level level, const char *topic,
                   const char *format, ...)
{
        _cleanup_free_ char *text = NULL;
        va_list args;

        va_start(args, format);
        text = xvprintf(format, args);
        va_end(args);
        json_array_append_new(rows, json_pack("{s:s, s:s, s:o}", "level", capo_finding_word(level),
                                              "topic", topic, "text", cli_json_text(text)));
}

static void check_parts(const struct check_options *o, struct board *b)
{
        static const char *const parts[] = {"the NCCL here",     "settings, GPUs and network",
                                            "libraries",         "GPUs against what is expected",
                                            "the clock's state", "facts to compare nodes by"};
        struct capo_findings f = {0};

        for (size_t part = 0; part < N_ELEMENTS(parts); part++) {
                const size_t before = f.n;

                atomic_store(&b->part, parts[part]);
                switch (part) {
                case 0: capo_doctor_command(&f, NULL, &b->reach); break;
                case 1: capo_doctor_node(&f, &b->reach); break;
                case 2: check_libraries(&f, &b->reach); break;
                case 3:
                        check_machine(&f, o);
                        capo_sysfs_each("class/infiniband", check_nic, &f);
                        capo_sysfs_each("class/infiniband", check_errors, &f);
                        capo_sysfs_each("bus/pci/devices", check_gpu, &f);
                        break;
                case 4: check_clock(&f); break;
                default: hand_over(b, "facts", check_facts(&b->reach));
                }
                hand_over(b, "findings",
                          CLI_ENTITIES(capo_finding_fields, NULL, f.rows + before, f.n - before));
        }
        atomic_store(&b->part, NULL);
}

/* The child gets neither our output nor our terminal, because their readers wait for all writers.
 * Its stderr goes to @said. */
static pid_t start_child(const struct check_options *o, struct board *b, int said, int ends[2])
{
        pid_t child = fork();
        int nothing;

        if (child)
                return child;
        nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
        setpgid(0, 0); /* so that its own children can be killed too */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[0]);
        if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(nothing, STDOUT_FILENO) < 0)
                _exit(1);
        dup2(said, STDERR_FILENO);
        check_parts(o, b);
        fflush(stderr);
        _exit(write(ends[1], "", 1) !=
              1); /* an explicit message, because its own children may keep the pipe open */
}

/* The limit assumes free processors; if more processes want to run than there are processors, it is
 * scaled up. */
static double choose_limit(const struct check_options *o)
{
        /* no process keeps the driver loaded, and loading takes seconds per GPU */
        const bool cold =
                capo_doctor_pci_gpus() && access("/run/nvidia-persistenced/socket", F_OK) != 0;
        _cleanup_fclose_ FILE *in = fopen("/proc/loadavg", "re");
        double seconds = cold ? COLD_SECONDS : QUICK_SECONDS;
        const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
        unsigned running = 0;

        if (!cold)
                capo_nvml_limit(DRIVER_SECONDS);
        if (o->limit_s > 0)
                return o->limit_s;
        return in && fscanf(in, "%*f %*f %*f %u/", &running) == 1 && cpus > 0 && running > cpus
                       ? seconds * running / (double)cpus
                       : seconds;
}

static void take_board(struct board *b, json_t *rows, json_t **facts)
{
        const size_t used = atomic_load(&b->used);

        for (size_t at = 0; at < used;) {
                const size_t n = strcspn(b->text + at, "\n");
                json_t *line = json_loadb(b->text + at, n, 0, NULL), *found;

                json_array_extend(rows, json_object_get(line, "findings"));
                found = json_object_get(line, "facts");
                if (found)
                        *facts = json_incref(found);
                json_decref(line);
                at += n + 1;
        }
}

static void add_given_up(json_t *rows, const char *part, bool ended, double seconds)
{
        if (ended)
                check_finding(rows, CAPO_FINDING_FAIL, "host",
                              "the process that reads %s crashed; what follows is missing here",
                              part);
        else
                check_finding(
                        rows, CAPO_FINDING_FAIL, "host",
                        "no end within %.3g s while looking at %s: a driver, a file system or a library does "
                        "not answer; what follows it is missing here",
                        seconds, part);
}

bool check_guarded(const struct check_options *o, struct capo_reach *reach, json_t *rows,
                   json_t **facts)
{
        struct board *b =
                mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        const double seconds = choose_limit(o);
        const int said = memfd_create("capo check", MFD_CLOEXEC);
        const char *part = "this node";
        char text[4096];
        ssize_t n;
        bool ended = false;
        int ends[2];
        pid_t child;

        if (b == MAP_FAILED || said < 0 || pipe(ends)) {
                add_given_up(rows, part, true, 0);
                return false;
        }
        atomic_store(&b->part, part);
        child = start_child(o, b, said, ends);
        close(ends[1]);
        if (child > 0) {
                ended = capo_apart_await(ends[0], seconds);
                if (!ended)
                        kill(-child, SIGKILL);
                waitpid(child, NULL,
                        ended ? 0 : WNOHANG); /* a child stuck in the kernel cannot be reaped */
        }
        close(ends[0]);
        lseek(said, 0, SEEK_SET);
        while ((n = read(said, text, sizeof text)) > 0)
                fwrite(text, 1, (size_t)n, stderr);
        close(said);
        take_board(b, rows, facts);
        part = atomic_load(&b->part);
        if (part)
                add_given_up(rows, part, ended || child <= 0, seconds);
        *reach = b->reach;
        munmap(b, sizeof *b);
        return !part;
}
