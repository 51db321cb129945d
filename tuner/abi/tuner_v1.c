/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL 2.19 and 2.20. There is no context: a question does not say which communicator it is about,
 * and which ones a process has open differs from rank to rank. So only what holds for every
 * communicator can be answered alike by all ranks: capo_tuner_open gives this version a shape in
 * which nothing is known, and only rules without conditions on the communicator hold in it. All
 * open tuners are therefore equal, those of communicators of one rank too, and any of them may
 * answer: where nobody is chained, a copy that is never taken away, so that no lock is needed. */
#include "core/base/lock.h"
#include "tuner/abi/tuner_adapt.h"

static struct open_tuner {
        struct open_tuner *next;
        struct capo_tuner *tuner;
        bool counted; /* in copy_answers */
} * opened;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct capo_tuner
        copy; /* of the first that was opened, with tables that stay when it is closed */
static _Atomic int copy_answers; /* communicators open, while the copy is good */

static capo_nccl_result init_tuner_v1(size_t n_ranks, size_t n_nodes, capo_nccl_log log)
{
        const struct capo_tuner_info info = {
                .abi = 1, .n_ranks = n_ranks, .n_nodes = n_nodes, .log = log};
        struct open_tuner *o = malloc(sizeof *o);
        capo_nccl_result result = o ? capo_tuner_open(&info, &o->tuner) : CAPO_NCCL_SYSTEM_ERROR;

        if (result) {
                free(o);
                return result;
        }
        capo_lock(&lock);
        o->next = opened;
        opened = o;
        if (!copy.n_ranks && o->tuner->plain && !o->tuner->own_tables)
                copy = *o->tuner;
        o->counted = copy.n_ranks > 0;
        copy_answers += o->counted;
        capo_unlock(&lock);
        return CAPO_NCCL_SUCCESS;
}

static capo_nccl_result get_coll_info(int func, size_t bytes, int collnet, int nvls, int pipe_ops,
                                      int *algo, int *proto, int *channels)
{
        capo_nccl_result result = CAPO_NCCL_SUCCESS;

        if (copy_answers)
                return capo_name_quick(&copy, func, bytes, collnet, nvls, pipe_ops, algo, proto,
                                       channels);
        capo_lock(&lock);
        if (opened)
                result = capo_name_quick(opened->tuner, func, bytes, collnet, nvls, pipe_ops, algo,
                                         proto, channels);
        capo_unlock(&lock);
        return result;
}

static capo_nccl_result destroy_tuner_v1(void)
{
        struct open_tuner *o;

        capo_lock(&lock);
        o = opened;
        if (o) {
                opened = o->next;
                copy_answers -= o->counted;
        }
        capo_unlock(&lock);
        if (o)
                capo_tuner_close(o->tuner);
        free(o);
        return CAPO_NCCL_SUCCESS;
}

extern struct capo_tuner_v1 ncclTunerPlugin_v1;
CAPO_EXPORT struct capo_tuner_v1 ncclTunerPlugin_v1 = {capo_plugin_name, init_tuner_v1,
                                                       get_coll_info, destroy_tuner_v1};

/* ---- somebody else's ---- */

static capo_nccl_result their_open(const void *plugin, const struct capo_tuner_info *info,
                                   void **context)
{
        const struct capo_tuner_v1 *p = plugin;

        return p->init(info->n_ranks, info->n_nodes, info->log);
}

static capo_nccl_result their_close(const void *plugin, void *context)
{
        const struct capo_tuner_v1 *p = plugin;

        return p->destroy();
}

static capo_nccl_result their_name(const void *plugin, void *context, int func, size_t bytes,
                                   int collnet, int nvls, int pipe_ops, int *algo, int *proto,
                                   int *channels)
{
        const struct capo_tuner_v1 *p = plugin;

        return p->get_coll_info(func, bytes, collnet, nvls, pipe_ops, algo, proto, channels);
}

const struct capo_tuner_abi capo_tuner_abi_v1 = {.version = 1,
                                                 .own = &ncclTunerPlugin_v1,
                                                 .open = their_open,
                                                 .close = their_close,
                                                 .name = their_name};
