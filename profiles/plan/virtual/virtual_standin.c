/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators of thousands of ranks, of which only a few are started. A unit is a node, or the
 * nodes that NCCL counts as one; two units of each kind are started (profiles/plan/plan_ask.c).
 * When a communicator is created, a rank learns about others only through bootstrapAllGather(), so:
 *
 *   bootstrapInit       connects only the started ranks: while it runs, the communicator has their
 *                       number, and the rank its index among them
 *   bootstrapAllGather  and related functions go through the job's memory, among started ranks; the
 *                       pieces of the others are made up (virtual_piece.c)
 *   connecting          is left out, because peers in other units may not exist. Choices depend on
 *                       what was gathered, not on connections
 *
 * If all nodes share one NVLink domain, NCCL counts them as one node: the trays are the units, and
 * what the ranks of this node gather is made up in the same way.
 *
 * Otherwise ranks that are started only as a pattern stop after their second gathering, in which
 * they describe themselves, until the others gather more.
 *
 * Needed from NCCL 2.19 to 2.32: the functions below; `int rank; int nRanks; int cudaDev;` in a row
 * in struct ncclComm; and union ncclSocketAddress of 28 bytes (bootstrap.h, proxy.h, comm.h,
 * socket.h). */
#include <malloc.h>

#include "profiles/plan/virtual/patch.h"
#include "profiles/plan/virtual/virtual.h"
#include "profiles/plan/virtual/virtual_job.h"

enum { SUCCESS = 0, INTERNAL_ERROR = 3, ADDRESS = 28, KEYS = 256 };

struct speaker { /* a started rank */
        uint32_t asked;
        int rank;
        bool meeting;  /* in bootstrapInit */
        bool together; /* NCCL counts all ranks as one node */
        int *words;    /* rank and nRanks of its communicator */
        void *state;
        struct {
                uint64_t group;
                unsigned n;
        } said[KEYS];
};

static _Thread_local struct speaker *speaking;
static struct speaker *speakers[CAPO_PLAN_WHOLE_MAX];
static _Atomic int n_speakers;

int plan_standin_begin(uint32_t asked)
{
        struct speaker *s = calloc(1, sizeof *s);

        if (!s) {
                plan_fail("out of memory");
                return -ENOMEM;
        }
        s->asked = asked;
        s->rank = (int)plan_job->asked[asked];
        speaking = s;
        speakers[atomic_fetch_add(&n_speakers, 1)] = s;
        return 0;
}

/* NCCL asks on the thread that creates the communicator, later also on its own threads. NULL: a
 * communicator of one rank. */
static struct speaker *speaker_of(void *state)
{
        if (speaking) {
                if (!speaking->meeting)
                        speaking->state = state;
                return speaking;
        }
        for (int i = 0; i < atomic_load(&n_speakers); i++) {
                if (speakers[i]->state == state)
                        return speakers[i];
        }
        return NULL;
}

/* ---- names of exchanges ---- */

/* @group identifies the participants and the purpose; the next exchange of it gets another key. */
static uint64_t next_key(struct speaker *s, uint64_t group, unsigned *n)
{
        for (size_t i = 0; i < KEYS; i++) {
                if (s->said[i].n && s->said[i].group != group)
                        continue;
                s->said[i].group = group;
                *n = s->said[i].n++;
                return plan_mix(group, *n);
        }
        plan_fail("rank %d takes part in more than %d kinds of exchanges", s->rank, KEYS);
        return 0;
}

enum { ALL = 1, MEETING, UNIT, DIRECT };

/* The places in the receiver's buffer. */

struct pieces {
        char *all;
        size_t size;
        const uint32_t *places;
};

static void take_piece(size_t i, const struct plan_message *m, void *arg)
{
        const struct pieces *p = arg;

        if (plan_message_size(m) == p->size)
                plan_message_copy(m, p->all + (p->places ? p->places[i] * p->size : 0));
        else
                plan_fail("ranks told each other pieces of %zu and %zu bytes", plan_message_size(m),
                          p->size);
}

/* Publish this rank's piece and collect those of all others. @from: indices in job->asked. */
static int gather_pieces(struct speaker *s, uint64_t key, const uint32_t *from, size_t n, size_t me,
                         const struct pieces *p)
{
        uint32_t others[CAPO_PLAN_WHOLE_MAX], places[CAPO_PLAN_WHOLE_MAX];
        struct pieces rest = {p->all, p->size, places};
        size_t k = 0;

        for (size_t i = 0; i < n && i < CAPO_PLAN_WHOLE_MAX; i++) {
                if (i == me)
                        continue;
                others[k] = from[i];
                places[k++] = p->places[i];
        }
        if (plan_message_put(key, s->asked, p->all + p->places[me] * p->size, p->size) < 0 ||
            plan_message_get(key, others, k, take_piece, &rest) < 0)
                return INTERNAL_ERROR;
        return SUCCESS;
}

/* ---- replacements of NCCL's functions ---- */

static int wait_until_needed(unsigned next)
{
        uint64_t key = plan_mix(ALL, next);
        unsigned polls = 0;

        while (!plan_message_is(key)) {
                if (atomic_load(&plan_job->failed))
                        return INTERNAL_ERROR;
                plan_poll_pause(&polls);
        }
        return SUCCESS;
}

static int make_up_presets(char *all, size_t size, int *rank);

static int all_gather(void *state, char *all, int size)
{
        struct speaker *s = speaker_of(state);
        uint32_t from[CAPO_PLAN_WHOLE_MAX];
        struct pieces p = {all, (size_t)size, plan_job->asked};
        unsigned n = 0;
        int r;

        if (!s)
                return SUCCESS;
        for (uint32_t i = 0; i < plan_job->n_asked; i++)
                from[i] = i;
        if (s->meeting) /* up to 2.22 bootstrapInit() itself gathers, among started ranks */
                p.places = from;
        r = gather_pieces(s, next_key(s, s->meeting ? MEETING : ALL, &n), from, plan_job->n_asked,
                          s->asked, &p);
        if (r || s->meeting)
                return r;
        if (s->asked >= plan_job->n_heard && n >= 1)
                r = wait_until_needed(n + 1);
        plan_pieces_make_up(all, (size_t)size);
        return s->together ? make_up_presets(all, (size_t)size, s->words) : r;
}

static int unit_gather(void *state, const int *ranks, int me, int n, char *all, int size)
{
        struct speaker *s = speaker_of(state);
        uint32_t from[CAPO_PLAN_WHOLE_MAX], places[CAPO_PLAN_WHOLE_MAX];
        struct pieces p = {all, (size_t)size, places};
        bool everybody = n == (int)plan_job->n_ranks && ranks[me] == me;
        uint64_t group = plan_mix(UNIT, (uint64_t)n);
        size_t here = 0, my_place = 0;
        unsigned times;
        int r;

        if (!s || n <= 1)
                return SUCCESS;
        for (int i = 0; i < n; i++) {
                int asked = plan_asked_at(ranks[i]);

                everybody &= ranks[i] == i;
                group = plan_mix(group, (uint64_t)ranks[i]);
                if (asked < 0 && plan_job->one_domain && everybody)
                        continue;
                if (asked < 0 || here == CAPO_PLAN_WHOLE_MAX) {
                        plan_fail("rank %d exchanges data with rank %d, which is stood in for",
                                  s->rank, ranks[i]);
                        return INTERNAL_ERROR;
                }
                my_place = i == me ? here : my_place;
                from[here] = (uint32_t)asked;
                places[here++] = (uint32_t)i;
        }
        s->together |= plan_job->one_domain && everybody;
        r = gather_pieces(s, next_key(s, group, &times), from, here, my_place, &p);
        if (!r && here < (size_t)n && size)
                plan_pieces_make_up(all, p.size);
        return r;
}

static int unit_barrier(void *state, const int *ranks, int me, int n, int tag)
{
        return unit_gather(state, ranks, me, n, NULL, 0);
}

static int publish_value(struct speaker *s, uint64_t key, const void *data, int size)
{
        return plan_message_put(key, s->asked, data, (size_t)size) < 0 ? INTERNAL_ERROR : SUCCESS;
}

/* A message from a rank that is not started cannot be made up. */
static int hear_value(struct speaker *s, uint64_t key, int peer, void *data, int size)
{
        struct pieces p = {data, (size_t)size, NULL};
        uint32_t from = (uint32_t)plan_asked_at(peer);

        if (plan_asked_at(peer) < 0)
                plan_fail("rank %d waits for rank %d, which is stood in for", s->rank, peer);
        else if (plan_message_get(key, &from, 1, take_piece, &p) == 0)
                return SUCCESS;
        return INTERNAL_ERROR;
}

static int unit_broadcast(void *state, const int *ranks, int me, int n, int root, void *data,
                          int size)
{
        struct speaker *s = speaker_of(state);
        uint64_t group = plan_mix(UNIT, (uint64_t)n + 1000000);
        unsigned times;

        if (!s || n <= 1)
                return SUCCESS;
        for (int i = 0; i < n; i++)
                group = plan_mix(group, (uint64_t)ranks[i]);
        group = next_key(s, group, &times);
        return me == root ? publish_value(s, group, data, size)
                          : hear_value(s, group, ranks[root], data, size);
}

static uint64_t direct_group(int tag, int from, int to)
{
        return plan_mix(plan_mix(DIRECT, (uint64_t)tag), (uint64_t)from << 32 | (uint32_t)to);
}

static int tell_rank(void *state, int peer, int tag, void *data, int size)
{
        struct speaker *s = speaker_of(state);
        unsigned n;

        return !s || plan_asked_at(peer) < 0
                       ? SUCCESS
                       : publish_value(s, next_key(s, direct_group(tag, s->rank, peer), &n), data,
                                       size);
}

static int hear_rank(void *state, int peer, int tag, void *data, int size)
{
        struct speaker *s = speaker_of(state);
        unsigned n;

        if (!s) {
                plan_fail("a communicator of one rank waits for rank %d", peer);
                return INTERNAL_ERROR;
        }
        return hear_value(s, next_key(s, direct_group(tag, peer, s->rank), &n), peer, data, size);
}

static int all_barrier(void *state, int rank, int n, int tag)
{
        return SUCCESS; /* within a unit, the barrier separates writers from readers */
}

static int connect_nothing(void *comm) { return SUCCESS; }

static int need_no_proxy(void *comm, void *op, bool *inquire)
{
        if (inquire)
                *inquire = false;
        return SUCCESS;
}

/* ---- bootstrapInit ---- */

static struct call { /* whose calls are redirected */
        const char *what;
        void *real, *by;
} init = {"bootstrapInit"}, proxy_init = {"ncclProxyInit"}, preset = {"ncclTopoPreset"};
static int init_comm_at; /* index of the communicator argument */

/* Pointer to rank and nRanks of a communicator; NULL: not found. */
static int *find_rank_words(void *comm, int rank)
{
        size_t n = malloc_usable_size(comm) / sizeof(int);
        int *words = comm, *found = NULL;

        for (size_t i = 0; i + 2 < n; i++) {
                if (words[i] != rank || words[i + 1] != (int)plan_job->n_ranks ||
                    words[i + 2] != plan_device)
                        continue;
                if (found)
                        return NULL;
                found = words + i;
        }
        return found;
}

static void set_rank_words(const struct speaker *s, bool meeting)
{
        s->words[0] = meeting ? (int)s->asked : s->rank;
        s->words[1] = (int)(meeting ? plan_job->n_asked : plan_job->n_ranks);
}

static int meet_ranks(void *a, void *b, void *c, void *d)
{
        int (*real)(void *, void *, void *, void *) =
                (int (*)(void *, void *, void *, void *))init.real;
        void *args[] = {a, b, c, d};
        struct speaker *s = speaking;
        int r;

        if (!s)
                return real(a, b, c, d);
        s->words = find_rank_words(args[init_comm_at], s->rank);
        if (!s->words) {
                plan_fail(
                        "the rank was not found in this NCCL's communicator: it cannot be asked with "
                        "ranks that are stood in for");
                return INTERNAL_ERROR;
        }
        s->meeting = true;
        set_rank_words(s, true);
        r = real(a, b, c, d);
        set_rank_words(s, false);
        s->meeting = false;
        return r;
}

/* Put the addresses of started ranks at the places of their ranks. The arrays belong to the
 * communicator, which lives as long as the process. Up to 2.19 there are no local names. */
static int init_proxy(void *comm, void *socket, char *addresses, uint64_t *names)
{
        int (*real)(void *, void *, char *, uint64_t *) =
                (int (*)(void *, void *, char *, uint64_t *))proxy_init.real;
        struct speaker *s = speaking;
        char *all = s ? calloc(plan_job->n_ranks, ADDRESS) : addresses;
        uint64_t *all_names = s ? calloc(plan_job->n_ranks, sizeof *names) : names;
        int r;

        if (!all || !all_names)
                return INTERNAL_ERROR;
        for (uint32_t i = 0; s && i < plan_job->n_asked; i++) {
                memcpy(all + (size_t)plan_job->asked[i] * ADDRESS, addresses + (size_t)i * ADDRESS,
                       ADDRESS);
                if (proxy_init.by == (void *)init_proxy)
                        all_names[plan_job->asked[i]] = names[i];
        }
        if (s)
                set_rank_words(s, false);
        r = real(comm, socket, all, all_names);
        if (s)
                set_rank_words(s, true);
        return r;
}

static int init_proxy_unnamed(void *comm, void *socket, char *addresses)
{
        static uint64_t none;

        return init_proxy(comm, socket, addresses, &none);
}

/* ---- ncclTopoPreset ---- */

/* The previous and next GPU of a rank in the rings of its NVLink domain: ncclTopoPreset() computes
 * them for its own rank, and the ranks exchange them. For a rank that is not started they cannot be
 * derived from other ranks. But the graphs of a domain are equal on all of its ranks, so this rank
 * calls ncclTopoPreset() once for each missing rank, and then for itself again.
 *
 * In NCCL 2.19 to 2.32, ncclTopoPreset(comm, graphs, ranks) depends on comm->rank, overwrites
 * @ranks and comm->channels, and @ranks is in what the rank gathers next (connect.cc). */
static _Thread_local struct {
        char *comm, *graphs, *ranks;
} last;

static int call_preset(void *comm, void *graphs, void *ranks)
{
        return ((int (*)(void *, void *, void *))preset.real)(comm, graphs, ranks);
}

static int note_preset(void *comm, void *graphs, void *ranks)
{
        last.comm = comm;
        last.graphs = graphs;
        last.ranks = ranks;
        return call_preset(comm, graphs, ranks);
}

/* Add the rings of ranks that are not started to what all ranks sent. @rank: the word of this
 * thread's communicator. Return: NCCL's code. */
static int make_up_presets(char *all, size_t size, int *rank)
{
        int own = *rank, rc = 0;
        ptrdiff_t at = last.ranks ? last.ranks - (all + (size_t)own * size) : -1;

        if (at < 0 || (size_t)at >= size) /* not in this exchange */
                return 0;
        for (*rank = 0; *rank < (int)plan_job->n_ranks && !rc; ++*rank) {
                if (plan_asked_at(*rank) < 0)
                        rc = call_preset(last.comm, last.graphs, all + (size_t)*rank * size + at);
        }
        *rank = own;
        last.ranks = NULL;
        return rc ? rc : call_preset(last.comm, last.graphs, all + (size_t)own * size + at);
}

/* ---- names of NCCL's functions ---- */

static const struct {
        const char *name;
        void *by;
        bool optional; /* not in every release, or with other parameters */
} redirected[] = {
        {"_Z18bootstrapAllGatherPvS_i", (void *)all_gather, false},
        {"_Z13bootstrapSendPviiS_i", (void *)tell_rank, false},
        {"_Z13bootstrapRecvPviiS_i", (void *)hear_rank, false},
        {"_Z16bootstrapBarrierPvPiiii", (void *)unit_barrier, true}, /* up to 2.22 */
        {"_Z16bootstrapBarrierPviii", (void *)all_barrier, true},
        {"_Z25bootstrapIntraNodeBarrierPvPiiii", (void *)unit_barrier, true},
        {"_Z27bootstrapIntraNodeAllGatherPvPiiiS_i", (void *)unit_gather, false},
        {"_Z27bootstrapIntraNodeBroadcastPvPiiiiS_i", (void *)unit_broadcast, true},
        {"_Z21ncclTransportP2pSetupP8ncclCommP13ncclTopoGraphi", (void *)connect_nothing, true},
        {"_Z21ncclTransportP2pSetupP8ncclCommP13ncclTopoGraphiPi", (void *)connect_nothing, true},
        {"_Z24ncclTransportRingConnectP8ncclComm", (void *)connect_nothing, true},
        {"_Z24ncclTransportTreeConnectP8ncclComm", (void *)connect_nothing, true},
        {"_Z23ncclTransportPatConnectP8ncclComm", (void *)connect_nothing, true},
        {"_Z15ncclProxySaveOpP8ncclCommP11ncclProxyOpPb", (void *)need_no_proxy, false},
};

static const struct {
        const char *name;
        struct call *call;
        void *by;
        int comm_at;
} wrapped[] = {
        {"_Z13bootstrapInitP19ncclBootstrapHandleP8ncclComm", &init, (void *)meet_ranks,
         1},                                                              /* to 2.22 */
        {"_Z13bootstrapInitiPvP8ncclComm", &init, (void *)meet_ranks, 2}, /* up to 2.28 */
        {"_Z13bootstrapInitiPvP8ncclCommS1_", &init, (void *)meet_ranks, 2},
        {"_Z13ncclProxyInitP8ncclCommP10ncclSocketP17ncclSocketAddress", &proxy_init,
         (void *)init_proxy_unnamed, 0},
        {"_Z13ncclProxyInitP8ncclCommP10ncclSocketP17ncclSocketAddressPm", &proxy_init,
         (void *)init_proxy, 0},
        {"_Z14ncclTopoPresetP8ncclCommPP13ncclTopoGraphP13ncclTopoRanks", &preset,
         (void *)note_preset, 0},
};

static bool found[N_ELEMENTS(redirected)];
static uint64_t code_from = UINT64_MAX, code_to;

int plan_standin_symbol(const char *name, uint64_t value, uint64_t size, void *base)
{
        char *at = (char *)base + value;

        code_from = value < code_from ? value : code_from;
        code_to = value + size > code_to ? value + size : code_to;
        for (size_t i = 0; i < N_ELEMENTS(redirected); i++) {
                if (strcmp(name, redirected[i].name) != 0)
                        continue;
                found[i] = true;
                return capo_patch_jump(at, redirected[i].by);
        }
        for (size_t i = 0; i < N_ELEMENTS(wrapped); i++) {
                if (strcmp(name, wrapped[i].name) != 0)
                        continue;
                wrapped[i].call->real = at;
                wrapped[i].call->by = wrapped[i].by;
                init_comm_at = wrapped[i].comm_at ? wrapped[i].comm_at : init_comm_at;
        }
        return 0;
}

int plan_standin_patch(char *base, void *const spare[PLAN_SPARE])
{
        const struct call *calls[PLAN_SPARE] = {&init, &proxy_init,
                                                plan_job->one_domain ? &preset : NULL};
        const char *missing = spare[PLAN_SPARE - 1] ? NULL : "room for jumps", *of = "";

        for (size_t i = 0; i < N_ELEMENTS(redirected); i++) {
                if (!found[i] && !redirected[i].optional)
                        missing = redirected[i].name;
        }
        plan_pieces_begin();
        for (size_t i = 0; i < PLAN_SPARE && calls[i] && !missing; i++) {
                if (calls[i]->real && capo_patch_calls(base + code_from, code_to - code_from,
                                                       calls[i]->real, calls[i]->by, spare[i]) > 0)
                        continue;
                missing = calls[i]->what;
                of = calls[i]->real ? "a call of " : "";
        }
        if (!missing)
                return 0;
        plan_fail("nodes cannot be stood in for in this NCCL: %s%s is not found in it", of,
                  missing);
        return -ENOEXEC;
}
