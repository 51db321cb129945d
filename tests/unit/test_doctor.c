/* SPDX-License-Identifier: Apache-2.0 */
/* What doctor says of settings and files, finding by finding; tests/cli/doctor.sh has the pages. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <criterion/criterion.h>

#include "core/base/util.h"
#include "cli/base/cli_machine.h"
#include "cli/doctor/doctor.h"
#include "profiles/machine/elf_file.h"
#include "cli/doctor/network_devices.h"

/* Stands in for the one that asks NCCL, which tests/cli/doctor.sh tries: nothing is known here. */
void cli_machine_advise(const struct cli_machine_words *words, const char *alloc, bool counts,
                        const char *libnccl, struct fragment_advice *out)
{
        (void)words, (void)alloc, (void)counts, (void)libnccl, (void)out;
}

static char home[] = "/tmp/capo-doctor-XXXXXX";

/* Only what a test sets is there; no file of the machine's user. */
static void start(void)
{
        cr_assert(mkdtemp(home));
        clearenv();
        setenv("HOME", home, 1);
}

static void stop(void)
{
        char path[64];

        snprintf(path, sizeof path, "%s/.nccl.conf", home);
        unlink(path);
        rmdir(home);
}

TestSuite(doctor, .init = start, .fini = stop);

static const struct capo_finding *find(const struct capo_findings *f, const char *text)
{
        for (size_t i = 0; i < f->n; i++) {
                if (strstr(f->rows[i].text, text))
                        return &f->rows[i];
        }
        return NULL;
}

Test(doctor, settings)
{
        static const struct {
                const char *name, *value;
                int version;
                enum capo_finding_level level;
                const char *said; /* NULL: nothing but that all is well */
        } rows[] = {
                {"NCCL_DEBUG", "INFO", 22809, CAPO_FINDING_OK, NULL},
                {"NCCL_TREE_THRESHOLD", "0", 22809, CAPO_FINDING_WARN,
                 "no NCCL after 2.4.8 reads it, this one is 2.28.9"},
                {"NCCL_TREE_THRESHOLD", "0", 0, CAPO_FINDING_OK, NULL},
                {"NCCL_TUNER_PLUGIN", "x", 21803, CAPO_FINDING_WARN,
                 "read from 2.19.1 on, this NCCL is 2.18.3"},
                {"NCCL_LL128_THRESHOLD", "1", 0, CAPO_FINDING_WARN, "no NCCL reads it"},
                {"NCCL_ALGO", "Ring", 21403, CAPO_FINDING_NOTE, "apply it to AllReduce only"},
                {"NCCL_ALGO", "tree", 21703, CAPO_FINDING_FAIL,
                 "every other collective then fails"},
                {"NCCL_ALGO", "tree", 21903, CAPO_FINDING_NOTE, "win over every profile"},
                {"NCCL_ALGO", "CollNet", 22809, CAPO_FINDING_NOTE, "win over every profile"},
                {"NCCL_ALGO", "^collnet,ring", 22809, CAPO_FINDING_NOTE, "win over every profile"},
                {"NCCL_ALGO", "CollNetwork", 22809, CAPO_FINDING_FAIL,
                 "\"CollNetwork\" is not a word NCCL knows"},
                {"NCCL_ALGO", "Rong", 22303, CAPO_FINDING_WARN, "before 2.24 ignore it silently"},
                {"NCCL_ALGO", "allreduce:ring", 22303, CAPO_FINDING_WARN,
                 "the form with functions needs 2.24"},
                {"NCCL_ALGO", "allreduce:ring;tree", 22809, CAPO_FINDING_FAIL,
                 "only the first list may stand"},
                {"NCCL_ALGO", "alltoall:ring", 22809, CAPO_FINDING_FAIL,
                 "\"alltoall\" is not a word"},
                {"NCCL_PROTO", "LL128", 22809, CAPO_FINDING_WARN, "skips NCCL's test"},
                {"NCCL_PROTO", "broadcast:simple;allreduce:LL128", 22809, CAPO_FINDING_WARN,
                 "skips NCCL's test"},
                {"NCCL_PROTO", "^LL128", 22809, CAPO_FINDING_NOTE, "win over every profile"},
                {"NCCL_NTHREADS", "100", 22809, CAPO_FINDING_WARN,
                 "multiples of 32 from 64 to 512"},
                {"NCCL_NTHREADS", "1024", 22809, CAPO_FINDING_WARN,
                 "multiples of 32 from 64 to 512"},
                {"NCCL_CROSS_NIC", "5", 22809, CAPO_FINDING_WARN, "expected 0, 1 or 2"},
                {"NCCL_CROSS_NIC", "2", 22809, CAPO_FINDING_OK, NULL},
                {"NCCL_NTHREADS", "512", 22809, CAPO_FINDING_OK, NULL},
                {"NCCL_TOPO_FILE", "/nonexistent", 22809, CAPO_FINDING_WARN, "cannot be read"},
                {"NCCL_P2P_DISABLE", "1", 22809, CAPO_FINDING_WARN, "takes away a fast path"},
                {"NCCL_P2P_DISABLE", "0", 22809, CAPO_FINDING_OK, NULL},
                {"NCCL_DEBUG", "trace", 22809, CAPO_FINDING_NOTE, "only in builds with TRACE=1"},
                {"CAPO_LAYOUT", "3+x", 22809, CAPO_FINDING_WARN, "expected ranks per node"},
                /* names that nobody reads, and values that NCCL takes for something else */
                {"NCCL_IB_DISABEL", "1", 22809, CAPO_FINDING_WARN, "did you mean NCCL_IB_DISABLE?"},
                {"OFI_NCCL_PROTOCL", "RDMA", 22809, CAPO_FINDING_WARN,
                 "did you mean OFI_NCCL_PROTOCOL?"},
                {"NCCL_MY_PLUGINS_OWN", "1", 22809, CAPO_FINDING_NOTE, "not a variable of NCCL"},
                {"NCCL_P2P_LEVEL", "XYZ", 22809, CAPO_FINDING_WARN, "expected LOC,NVL"},
                {"NCCL_P2P_LEVEL", "nvl", 22809, CAPO_FINDING_WARN, "expected LOC,NVL"},
                {"NCCL_P2P_LEVEL", "NVL", 22809, CAPO_FINDING_OK, NULL},
                {"NCCL_P2P_LEVEL", "3", 22809, CAPO_FINDING_OK, NULL},
                {"NCCL_DEBUG_SUBSYS", "^init,Net", 22809, CAPO_FINDING_OK, NULL},
                {"NCCL_DEBUG_SUBSYS", "INIT,NETT", 22809, CAPO_FINDING_WARN, "a list of INIT"},
                {"NCCL_SOCKET_FAMILY", "ipv6", 22809, CAPO_FINDING_WARN, "expected AF_INET"},
                {"NCCL_IB_DISABLE", "true", 22809, CAPO_FINDING_WARN,
                 "expects a number and reads 0"},
                {"NCCL_BUFFSIZE", "8M", 22809, CAPO_FINDING_WARN, "expects a number and reads 8"},
                {"NCCL_BUFFSIZE", "0x800000", 22809, CAPO_FINDING_OK, NULL},
                {"NCCL_IB_TIMEOUT", "99999999999999999999", 22809, CAPO_FINDING_WARN,
                 "out of range: it uses the default"},
                {"CAPO_PROFIL", "x", 22809, CAPO_FINDING_WARN, "did you mean CAPO_PROFILE?"},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct capo_findings f = {0};
                const struct capo_finding *row;

                setenv(rows[i].name, rows[i].value, 1);
                capo_doctor_settings(&f, &(struct capo_reach){.version = rows[i].version});
                row = find(&f, rows[i].said ? rows[i].said
                                            : "none ignored, contradictory or dangerous");
                cr_expect(row, "row %zu: %s=%s: %s", i, rows[i].name, rows[i].value,
                          f.n ? f.rows[0].text : "nothing");
                cr_expect(!row || row->level == rows[i].level, "row %zu: level %d", i,
                          row ? (int)row->level : -1);
                cr_expect(rows[i].said || f.n == 1, "row %zu: %zu findings", i, f.n);
                unsetenv(rows[i].name);
        }
}

/* Lists of devices, on a machine with eth0 and ib0 up, eth1 down, and the NIC mlx5_0. */
Test(doctor, network_settings)
{
        static const struct {
                const char *name, *value, *said; /* NULL: nothing */
        } rows[] = {
                {"NCCL_SOCKET_IFNAME", "eth0", NULL},
                {"NCCL_SOCKET_IFNAME", "eth", NULL},
                {"NCCL_SOCKET_IFNAME", "^lo,docker", NULL},
                {"NCCL_SOCKET_IFNAME", "=ib0", NULL},
                {"NCCL_SOCKET_IFNAME", "=ib", "it has eth0, ib0"},
                {"NCCL_SOCKET_IFNAME", "eth1", "selects no active network interface"},
                {"NCCL_SOCKET_IFNAME", "ib1,eth0", "no active network interface ib1;"},
                {"NCCL_SOCKET_IFNAME", "^eth,ib", "selects no active network"},
                {"NCCL_IB_HCA", "mlx5", NULL},
                {"NCCL_IB_HCA", "=mlx5_0:1", NULL},
                {"NCCL_IB_HCA", "mlx5_9", "selects no InfiniBand or RoCE device"},
                {"NCCL_NET", "IB", NULL},
        };
        char command[512];
        struct capo_network d = {.n = 1,
                                 .of = {[CAPO_NET_INFINIBAND] = 1},
                                 .devices = {{CAPO_NET_INFINIBAND, "mlx5_0"}}};
        struct capo_findings f = {0};

        snprintf(command, sizeof command,
                 "for i in eth0:up ib0:unknown eth1:down; do d=%s/class/net/${i%%:*}; mkdir -p $d; "
                 "echo ${i#*:} >$d/operstate; done",
                 home);
        cr_assert_eq(system(command), 0);
        setenv("CAPO_SYSFS", home, 1);
        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                setenv(rows[i].name, rows[i].value, 1);
                capo_doctor_network_settings(&f, &d);
                cr_expect_eq(f.n, rows[i].said != NULL, "row %zu: %zu", i, f.n);
                cr_expect(!rows[i].said || find(&f, rows[i].said), "row %zu: %s", i,
                          f.n ? f.rows[0].text : "nothing");
                unsetenv(rows[i].name);
                f = (struct capo_findings){0};
        }
        setenv("NCCL_NET", "IB", 1);
        d = (struct capo_network){0};
        capo_doctor_network_settings(&f, &d);
        cr_expect(find(&f, "this machine has no InfiniBand or RoCE device"));
        snprintf(command, sizeof command, "rm -r %s/class", home);
        cr_assert_eq(system(command), 0);
}

/* What the library refuses or takes for something else, doctor says before. */
Test(doctor, own_settings)
{
        static const struct {
                const char *name, *value;
                enum capo_finding_level level;
                const char *said; /* NULL: nothing */
        } rows[] = {
                {"CAPO_PROFILE_DIGEST", "0123", CAPO_FINDING_FAIL,
                 "CAPO_PROFILE is not set; the init of every communicator would fail"},
                {"CAPO_PROFILE_DIGEST", "", CAPO_FINDING_OK, NULL},
                {"CAPO_PROFILE", "-", CAPO_FINDING_FAIL, "CAPO_PROFILE=- is no file"},
                {"CAPO_SHM", "/nonexistent", CAPO_FINDING_WARN,
                 "CAPO_SHM=/nonexistent: No such file or directory"},
                {"CAPO_COMM_NAMES", "/nonexistent", CAPO_FINDING_WARN,
                 "communicators keep the names"},
                {"CAPO_NCCL", "/nonexistent", CAPO_FINDING_WARN, "find no NCCL to ask"},
                {"CAPO_SYSFS", "/sys", CAPO_FINDING_OK, NULL},
                {"CAPO_FLIGHT", "-1", CAPO_FINDING_WARN, "CAPO_FLIGHT=-1 is below 0"},
                {"CAPO_GPU_SAMPLE", "0", CAPO_FINDING_OK, NULL},
        };

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                struct capo_findings f = {0};
                const struct capo_finding *row;

                setenv(rows[i].name, rows[i].value, 1);
                capo_doctor_own(&f, 0);
                unsetenv(rows[i].name);
                row = rows[i].said ? find(&f, rows[i].said) : NULL;
                cr_expect(rows[i].said ? row && row->level == rows[i].level : !f.n, "%s=%s: %s",
                          rows[i].name, rows[i].value, f.n ? f.rows[0].text : "nothing");
        }
}

Test(doctor, a_digest_of_another_profile)
{
        struct capo_findings f = {0};
        char path[64];
        FILE *file;

        snprintf(path, sizeof path, "%s/p.json", home);
        file = fopen(path, "w");
        cr_assert(file &&
                  fputs("{\"capo_profile\": 1, \"name\": \"p\", \"rules\": []}", file) >= 0);
        fclose(file);
        setenv("CAPO_PROFILE", path, 1);
        setenv("CAPO_PROFILE_DIGEST", "0123", 1);
        setenv("CAPO_STRICT", "0", 1);
        capo_doctor_own(&f, 0);
        unlink(path);
        cr_assert(find(&f, "CAPO_PROFILE_DIGEST=0123, but "), "%s",
                  f.n ? f.rows[0].text : "nothing");
        cr_assert_eq(find(&f, "0123")->level, CAPO_FINDING_WARN);
}

Test(doctor, two_that_contradict)
{
        struct capo_findings f = {0};

        setenv("NCCL_MIN_NCHANNELS", "8", 1);
        setenv("NCCL_MAX_NCHANNELS", "4", 1);
        setenv("NCCL_MAX_NRINGS", "4", 1);
        capo_doctor_settings(&f, &(struct capo_reach){.version = 22809});
        cr_assert(find(&f, "NCCL_MIN_NCHANNELS=8 is more than NCCL_MAX_NCHANNELS=4"));
        cr_assert(find(&f, "NCCL_MAX_NRINGS and NCCL_MAX_NCHANNELS are both set: the latter wins"));
        cr_assert_null(find(&f, "NCCL_MIN_NRINGS"));
}

/* A file counts where the environment says nothing; comments and lines without = do not. */
Test(doctor, nccl_conf)
{
        struct capo_findings f = {0};
        char path[64];
        FILE *file;

        snprintf(path, sizeof path, "%s/.nccl.conf", home);
        file = fopen(path, "w");
        cr_assert(file);
        fputs("#NCCL_NTHREADS=100\nNCCL_SHM_DISABLE\n  NCCL_P2P_DISABLE = 1\nNCCL_DEBUG=TRACE\r\n",
              file);
        fclose(file);
        setenv("NCCL_DEBUG", "INFO", 1);
        capo_doctor_settings(&f, &(struct capo_reach){.version = 22809});
        cr_assert(find(&f, "NCCL_P2P_DISABLE"));
        cr_assert_null(find(&f, "NTHREADS"));
        cr_assert_null(find(&f, "SHM_DISABLE"));
        cr_assert_null(find(&f, "TRACE"), "the environment wins");
}

Test(doctor, elf_files)
{
        struct capo_elf_file elf = {0};
        char path[64];
        FILE *file;

        cr_assert_eq(capo_elf_open("/nonexistent", &elf), -ENOENT);
        snprintf(path, sizeof path, "%s/.nccl.conf", home);
        for (int i = 0; i < 3; i++) { /* empty, a script, a header cut short */
                static const char *const texts[] = {
                        "", "#!/bin/sh\necho no program, but longer than any header of one\n",
                        "\177ELF\2\1\1"};

                file = fopen(path, "w");
                cr_assert(file);
                fputs(texts[i], file);
                fclose(file);
                cr_assert_eq(capo_elf_open(path, &elf), -ENOEXEC, "text %d", i);
        }
        cr_assert_eq(capo_elf_open("/proc/self/exe", &elf), 0);
        cr_assert_not(capo_elf_is_static(&elf));
        cr_assert(capo_elf_contains(&elf, "capo_elf_has"));
        cr_assert_not(capo_elf_contains(&elf, "capo_elf_nothing"));
        cr_assert_not(capo_elf_exports(&elf, "clearenv"), "needed, not defined");
        capo_elf_close(&elf);
}
