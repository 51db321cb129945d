/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel settings that affect traffic between devices, and restrictions of containers.
 *
 * NVIDIA's troubleshooting guide for NCCL: with PCI Access Control Services (ACS), peer-to-peer
 * traffic is redirected to the root complex, which costs bandwidth or hangs. A translating IOMMU
 * does the same on bare metal. In a virtual machine ACS must be on, with ATS in the NICs. */
#include <sys/uio.h>
#include <sys/wait.h>

#include "cli/doctor/doctor.h"
#include "profiles/machine/sysfs.h"
#include "profiles/machine/apart.h"

#define FOUND(level, ...) capo_finding_add(f, CAPO_FINDING_##level, "host", __VA_ARGS__)

/* PCI Express Base Specification: extended capabilities begin at 0x100; ACS is number 0xd, its
 * control word is 6 bytes into it, and its bits 2 to 4 redirect requests and completions, and
 * forward upstream. */
enum { EXTENDED = 0x100, CONFIG_ROOM = 4096, ACS = 0xd, ACS_CONTROL = 6, ACS_REDIRECTS = 0x1c };

struct bridges {
        unsigned n, read, redirecting; /* read: ACS control was readable, which needs root */
        char first[24];
};

static uint32_t read_word(const unsigned char *config, size_t at, unsigned bytes)
{
        uint32_t value = 0;

        for (unsigned i = bytes; i-- > 0;)
                value = value << 8 | config[at + i];
        return value;
}

static void read_bridge(const char *busid, void *arg)
{
        struct bridges *b = arg;
        unsigned char config[CONFIG_ROOM];
        _cleanup_fclose_ FILE *in = NULL;
        size_t n, at = EXTENDED;

        if (capo_sysfs_number(0, "bus/pci/devices/%s/class", busid) >> 8 != 0x0604)
                return;
        b->n++;
        in = fopen(SYSFS("bus/pci/devices/%s/config", busid), "re");
        n = in ? fread(config, 1, sizeof config, in) : 0;
        if (n <= EXTENDED)
                return;
        b->read++;
        /* a header is an id, a version and the next offset; at most 48 fit */
        for (unsigned i = 0; i < 48 && at >= EXTENDED && at + 8 <= n; i++) {
                uint32_t head = read_word(config, at, 4);

                if ((head & 0xffff) == ACS &&
                    read_word(config, at + ACS_CONTROL, 2) & ACS_REDIRECTS) {
                        if (!b->redirecting++)
                                snprintf(b->first, sizeof b->first, "%s", busid);
                        return;
                }
                at = head >> 20;
        }
}

static bool is_virtual_machine(void)
{
        char flags[64];

        return capo_sysfs_text(flags, sizeof flags, "hypervisor/type") ||
               (capo_sysfs_text(flags, sizeof flags, "class/dmi/id/sys_vendor") &&
                (strstr(flags, "QEMU") || strstr(flags, "Amazon EC2") || strstr(flags, "Google") ||
                 strstr(flags, "VMware") || strstr(flags, "Xen")));
}

static void check_iommu(struct capo_findings *f)
{
        char type[32] = "", name[64] = "";
        unsigned n = capo_sysfs_each("class/iommu", NULL, NULL);
        bool guest = is_virtual_machine();

        capo_sysfs_text(type, sizeof type, "kernel/iommu_groups/0/type");
        if (!n) {
                FOUND(OK, "no IOMMU is in use");
        } else if (!strncmp(type, "DMA", 3)) {
                capo_sysfs_text(name, sizeof name, "class/dmi/id/product_name");
                capo_finding_add(
                        f, guest ? CAPO_FINDING_NOTE : CAPO_FINDING_WARN, "host",
                        "the IOMMU translates DMA (group type %s)%s%s: GPUs then reach each other and NICs "
                        "slowly or not at all; iommu=pt on the kernel's command line passes through",
                        type, *name ? " on " : "", name);
        } else {
                FOUND(OK, "IOMMU: %s", *type ? type : "in use, its mode is not readable");
        }
}

static void check_acs(struct capo_findings *f)
{
        struct bridges b = {0};

        capo_sysfs_each("bus/pci/devices", read_bridge, &b);
        if (b.redirecting)
                capo_finding_add(
                        f, is_virtual_machine() ? CAPO_FINDING_NOTE : CAPO_FINDING_WARN, "host",
                        "PCI ACS redirects peer-to-peer traffic on %u of %u bridges (%s first): GPU to GPU and GPU "
                        "to NIC go through the root complex; setpci can turn it off on bare metal",
                        b.redirecting, b.n, b.first);
        else if (b.n && b.read == b.n)
                FOUND(OK, "PCI ACS redirects nothing on %u bridges", b.n);
        else if (b.n)
                FOUND(NOTE, "PCI ACS is not known: only root can read it");
}

static int read_memory_of(const void *pid, void *copy)
{
        static char word; /* at the same address in all children */
        struct iovec to = {copy, 1}, from = {&word, 1};

        return process_vm_readv(*(const pid_t *)pid, &to, 1, &from, 1, 0) == 1 ? 0 : errno;
}

static bool is_container(void)
{
        return !access("/.dockerenv", F_OK) || !access("/run/.containerenv", F_OK) ||
               getenv("KUBERNETES_SERVICE_HOST") || getenv("APPTAINER_CONTAINER") ||
               getenv("SINGULARITY_CONTAINER") || getenv("container");
}

/* capo hang reads the memory of another process. A sibling process tries it here, because a parent
 * may be allowed what others are not. */
static void check_memory_reads(struct capo_findings *f)
{
        pid_t sibling = fork();
        int error;

        if (!sibling) {
                alarm(20); /* whoever asked may be killed */
                pause();
                _exit(0);
        }
        error = sibling < 0 ? 0 : capo_apart(read_memory_of, &sibling, &(char){0}, 1, 10);
        if (sibling > 0) {
                kill(sibling, SIGKILL);
                waitpid(sibling, NULL, 0);
        }
        if (error > 0)
                FOUND(WARN,
                      "one process may not read another's memory (%s): capo hang shows no stacks here%s. %s",
                      strerror(error), is_container() ? ", this is a container" : "",
                      is_container() ? "Give it SYS_PTRACE (docker run --cap-add SYS_PTRACE; "
                                       "Kubernetes: securityContext.capabilities.add)"
                                     : "Run it as root, or set kernel.yama.ptrace_scope=0");
        else
                FOUND(OK, "%scapo hang may read stacks of your processes",
                      is_container() ? "a container in which " : "");
}

void capo_doctor_host(struct capo_findings *f)
{
        check_iommu(f);
        check_acs(f);
        check_memory_reads(f);
}
