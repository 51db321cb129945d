/* SPDX-License-Identifier: Apache-2.0 */
/* Checks before a job starts: will capo see its NCCL, which plugins would be loaded, which settings
 * have no effect, contradict each other or are dangerous for this release, and which fast network
 * stays unused.
 *
 * Each part checks one thing and adds findings. Nothing is changed, and no code is loaded into this
 * process: libraries are loaded in a child process, or read as files. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum capo_finding_level {
        CAPO_FINDING_OK,
        CAPO_FINDING_NOTE,
        CAPO_FINDING_WARN,
        CAPO_FINDING_FAIL
};

struct capo_finding {
        enum capo_finding_level level;
        char *topic; /* "nccl", "plugins", "settings", "network", "recording" */
        char *text;  /* one line */
};

struct capo_findings {
        struct capo_finding *rows;
        size_t n;
};

/** capo_finding_add() - printf-like. */
void capo_finding_add(struct capo_findings *f, enum capo_finding_level level, const char *topic,
                      const char *format, ...) __attribute__((format(printf, 4, 5)));

/** capo_finding_word() - "ok", "note", "warn", "FAIL" */
const char *capo_finding_word(enum capo_finding_level level);

/* The fields of a finding in JSON (cli_fields.h). */
extern const struct cli_entity capo_finding_fields;

/* How the command would reach NCCL. */
struct capo_reach {
        char library[4096];       /* libnccl.so.2 that would be loaded; empty when none was found */
        int version;              /* X*10000 + Y*100 + Z; 0 not known. (Releases before 2.9 report
                               X*1000+Y*100+Z; converted.) */
        bool shown;               /* something shows that the command can call NCCL */
        char extensions[2][4096]; /* NCCL EP and NCCL M2N that it can load; "": none found */
};

/** capo_doctor_command() - what @command is and how it reaches NCCL
 * @command: as for execvp; NULL: only what can be found without one
 * @reach:   filled as far as known
 *
 * Looks at the program file (ELF class, static, set-user-id), its DT_NEEDED closure as the dynamic
 * loader resolves it, and, for a Python interpreter or a script of Python's such as torchrun, at
 * the packages its search path holds (torch, vllm, cupy, jax, xgboost, nvidia-nccl wheels). */
void capo_doctor_command(struct capo_findings *f, char *const *command, struct capo_reach *reach);

/** capo_doctor_node() - all of the below: this machine and its environment. Return: as
 * capo_doctor_gpus(). */
int capo_doctor_node(struct capo_findings *f, const struct capo_reach *reach);

/** capo_doctor_settings() - NCCL_* and FI_* of the environment and of nccl.conf files, judged for
 * the release of @reach. */
void capo_doctor_settings(struct capo_findings *f, const struct capo_reach *reach);

/** capo_doctor_bugs() - known bugs of release @version, those that the environment's settings meet
 * one by one. */
void capo_doctor_bugs(struct capo_findings *f, int version);

/** capo_doctor_own() - CAPO_* of the environment, as the library in the job would take them
 * (capo_doctor_settings() asks it). */
void capo_doctor_own(struct capo_findings *f, int version);

/** capo_doctor_plugins() - which tuner, profiler and net plugin release @version would load here,
 * and what capo does beside it. @own: where its plugin is, for the line that a user is advised to
 * use. */
void capo_doctor_plugins(struct capo_findings *f, int version, const char *own);

/** capo_doctor_gpus() - the GPUs this process may use, what CUDA_VISIBLE_DEVICES leaves of them,
 * MIG slices; the best order of the nodes. Return: their number, 0 where it is not known. */
int capo_doctor_gpus(struct capo_findings *f, const struct capo_reach *reach);

/** capo_doctor_pci_gpus() - NVIDIA's GPUs on the PCI bus, open to this process or not. */
unsigned capo_doctor_pci_gpus(void);

/** capo_doctor_host() - IOMMU, PCI ACS, whether one process may read another's memory. */
void capo_doctor_host(struct capo_findings *f);

struct capo_network;
/** capo_doctor_network_settings() - find names in NCCL_SOCKET_IFNAME, NCCL_IB_HCA and NCCL_NET that
 * are neither in @d nor interfaces of this machine. */
void capo_doctor_network_settings(struct capo_findings *f, const struct capo_network *d);

/** capo_doctor_network() - fast network devices of this machine, and settings that leave them
 * unused. */
void capo_doctor_network(struct capo_findings *f);

/** capo_doctor_recording() - room in /dev/shm for @ranks, the log folder, limits. */
void capo_doctor_recording(struct capo_findings *f, int ranks);
