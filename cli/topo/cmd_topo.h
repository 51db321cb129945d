/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of `capo topo`. */
#pragma once

#include "cli/base/cli_machine.h"
#include "cli/base/cli_page.h"

struct topo_options {
        struct cli_machine_words machine;
        const char *gpus, *alloc, *libnccl;
        enum cli_form form;
        bool predict;
};

/** topo_page(), topo_json() - the page as text and as JSON. */
struct cli_page *topo_page(const struct capo_topology *t, const struct capo_alloc *a,
                           const struct capo_ceilings *c, const struct fragment_nccl *nccl,
                           const char *said);
json_t *topo_json(const struct capo_topology *t, const struct capo_alloc *a,
                  const struct capo_ceilings *c, const struct fragment_nccl *nccl,
                  const char *said);
