/* SPDX-License-Identifier: Apache-2.0 */
/* What torch.distributed itself finds about ranks: who did not come to a barrier, its desync report,
 * and calls whose fingerprints differ. */
#include "analysis/diagnose/evidence.h"

/* ---- barriers ---- */

/* "[Rank 0]: Ranks 1, 3 failed to pass monitoredBarrier in 600000 ms": rank 0 of a barrier over
 * Gloo names the ranks that did not come. */
static const char WORDS[] = " failed to pass monitoredBarrier";

struct barrier {
        struct capo_evidence *e;
        struct capo_diagnose_finding *f; /* NULL: none so far */
        uint32_t text;
};

/* Parse the list that ends at @at: back to the word "Rank" or "Ranks" before it. */
static void take_ranks(const char *line, const char *at, struct capo_diagnose_finding *f)
{
        const char *from = at;

        while (from > line && strchr("0123456789, ", from[-1]))
                from--;
        for (char *end; from < at; from = end) {
                long rank = strtol(from, &end, 10);

                if (end == from) {
                        end++;
                        continue;
                }
                if (rank >= 0 && rank < 1 << 20)
                        capo_finding_rank_add(f, (int32_t)rank);
        }
}

static void take_barrier(const char *at, const char *line, uint32_t number, void *arg)
{
        struct barrier *b = arg;

        b->f = b->f ? b->f : capo_evidence_finding(b->e);
        take_ranks(line, at, b->f);
        capo_finding_mark(b->f, (struct capo_evidence_mark){b->text, number});
}

static void read_barriers(struct capo_evidence *e)
{
        struct barrier b = {.e = e};
        char who[128];

        capo_evidence_all(e, WORDS, take_barrier, &b, &b.text);
        if (!b.f)
                return;
        capo_finding_is(b.f, b.f->n_ranks ? CAPO_RANK_HANG : CAPO_RANK_UNDECIDED,
                        b.f->n_ranks ? "missing" : "undecided", "likely");
        capo_rank_list(b.f->ranks, b.f->n_ranks, who);
        SAY(b.f->headline, "%s DID NOT COME to monitoredBarrier()",
            b.f->n_ranks ? capo_rank_shout(who) : "SOME RANKS");
        SAY(b.f->next,
            "did these ranks end before (their logs)? Else their stacks: py-spy dump --pid PID");
}

/* ---- PyTorch's desync report ---- */

/*      - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:
 *          [7] finished collective #182, but didn't join collective #183 (count from 1)
 *          [3, 4] joined but didn't finish collective #183 (count from 1) */
static const char NOT_JOINED[] = "but didn't join collective #",
                  NOT_FINISHED[] = "joined but didn't finish collective #";

static void take_desync(const char *at, const char *line, uint32_t number, void *arg)
{
        struct barrier *b = arg;
        const char *end = memchr(line, ']', (size_t)(at - line));
        bool joined = !strncmp(at, NOT_FINISHED, sizeof NOT_FINISHED - 1);

        if (!end)
                return;
        b->f = b->f ? b->f : capo_evidence_finding(b->e);
        take_ranks(line, end, b->f);
        capo_finding_mark(b->f, (struct capo_evidence_mark){b->text, number});
        if (!*b->f->detail) {
                b->f->kind = joined ? "inside" : "missing";
                SAY(b->f->detail, "collective #%ld", strtol(strchr(at, '#') + 1, NULL, 10));
        }
}

static void read_desync(struct capo_evidence *e)
{
        struct barrier b = {.e = e};
        char who[128], which[40];

        capo_evidence_all(e, NOT_JOINED, take_desync, &b, &b.text);
        if (!b.f)
                capo_evidence_all(e, NOT_FINISHED, take_desync, &b, &b.text);
        if (!b.f)
                return;
        b.f->rank = b.f->n_ranks ? CAPO_RANK_HANG : CAPO_RANK_UNDECIDED;
        SAY(which, "%.39s", b.f->detail);
        capo_rank_list(b.f->ranks, b.f->n_ranks, who);
        SAY(b.f->headline, "%s %s %s", capo_rank_shout(who),
            !strcmp(b.f->kind, "missing") ? "DID NOT JOIN" : "JOINED AND DID NOT FINISH", which);
        SAY(b.f->detail,
            "PyTorch's desync report says so: it compares what all ranks wrote to the store");
        SAY(b.f->next, "did %s end before (log)? Else its stack: py-spy dump --native --pid PID",
            capo_rank_list(b.f->ranks, b.f->n_ranks, who));
}

/* ---- fingerprints ---- */

enum { FINGERPRINT = 1200, WORD_ROOM = 40 };

struct fingerprint {
        long rank, number;
        char op[WORD_ROOM], shape[WORD_ROOM]; /* shape: " [256]"; "": not known */
};

/* Parse the next "Rank N is running collective: CollectiveFingerPrint(...". Return: the text after
 * it; NULL: none. */
static const char *take_fingerprint(const char *from, size_t size, struct fingerprint *out)
{
        static const char words[] = " is running collective: CollectiveFingerPrint(";
        const char *at = memmem(from, size, words, sizeof words - 1), *rank = at, *number, *op,
                   *shape;
        size_t left;

        if (!at)
                return NULL;
        while (rank > from && strchr("0123456789", rank[-1]))
                rank--;
        at += sizeof words - 1;
        left = size - (size_t)(at - from);
        number = memmem(at, left, "SequenceNumber=", 15);
        op = memmem(at, left, "OpType=", 7);
        if (!number || !op)
                return NULL;
        out->rank = strtol(rank, NULL, 10);
        out->number = strtol(number + 15, NULL, 10);
        capo_take_word(op + 7, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", out->op, sizeof out->op);
        shape = memmem(op, strnlen(op, 120), "TensorShape=[", 13);
        if (shape && strchr("0123456789", shape[13]))
                SAY(out->shape, " %.*s", (int)strspn(shape + 12, "[0123456789, ]"), shape + 12);
        if (strchr(out->shape, ']'))
                strchr(out->shape, ']')[1] = 0;
        return op + 7;
}

static void take_mismatch(const char *at, const char *line, uint32_t number, void *arg)
{
        struct barrier *b = arg;
        size_t size = strnlen(at, FINGERPRINT);
        struct fingerprint one = {0}, other = {0};
        const char *next = take_fingerprint(at, size, &one);
        bool both = next && take_fingerprint(next, size - (size_t)(next - at), &other);
        bool same = both && !strcmp(one.op, other.op), counts = same && one.number != other.number,
             sizes = same && *one.shape && *other.shape && strcmp(one.shape, other.shape) != 0;
        struct capo_diagnose_finding *f;

        if (b->f) {
                capo_finding_mark(b->f, (struct capo_evidence_mark){b->text, number});
                return;
        }
        f = b->f = capo_evidence_finding(b->e);
        capo_finding_mark(f, (struct capo_evidence_mark){b->text, number});
        capo_finding_is(f, counts ? CAPO_RANK_UNDECIDED : CAPO_RANK_CAUSE,
                        counts ? "undecided" : "mismatch", counts ? "unsure" : "certain");
        if (counts)
                SAY(f->headline, "NOT DECIDED: ranks %ld and %ld make %s as numbers %ld and %ld",
                    one.rank, other.rank, one.op, one.number, other.number);
        else if (both)
                SAY(f->headline,
                    "RANKS MADE DIFFERENT CALLS as the same one: rank %ld %s%s, rank %ld %s%s",
                    one.rank, one.op, sizes ? one.shape : "", other.rank, other.op,
                    sizes ? other.shape : "");
        else
                SAY(f->headline, "RANKS MADE DIFFERENT CALLS as the same one");
        if (both && !counts) {
                capo_finding_rank_add(f, (int32_t)one.rank);
                capo_finding_rank_add(f, (int32_t)other.rank);
        }
        SAY(f->next, "%s",
            counts  ? "flight recorder dumps of all ranks: did a rank skip a call, or join later?"
            : sizes ? "what makes the sizes of that call differ by rank?"
                    : "where in the program does each of the two ranks make its call?");
}

static void read_mismatches(struct capo_evidence *e)
{
        struct barrier b = {.e = e};

        capo_evidence_all(e, "Detected mismatch between collectives on ranks", take_mismatch, &b,
                          &b.text);
}

/* ---- who registered ---- */

enum { MEMBERS = 512 };

struct members {
        uint32_t text, n, of; /* n: lines; of: ranks of the job */
        uint8_t seen[MEMBERS];
        struct capo_evidence_mark first, last;
        unsigned before; /* the member of the line before: two handlers print each line twice */
};

/* "initializing ddp: GLOBAL_RANK: 1, MEMBER: 2/8" of Lightning. */
static void take_member(const char *at, const char *line, uint32_t number, void *arg)
{
        struct members *m = arg;
        unsigned member, of;

        if (sscanf(at, ", MEMBER: %u/%u", &member, &of) != 2 || !member || member > of ||
            of > MEMBERS || (m->of && of != m->of) || member == m->before)
                return;
        m->before = member;
        m->first = m->n++ ? m->first : (struct capo_evidence_mark){m->text, number};
        m->last = (struct capo_evidence_mark){m->text, number};
        m->of = of;
        m->seen[member - 1] += m->seen[member - 1] < 9;
}

/* Ranks that start twice where others never do: two nodes, each of which takes itself for the first. */
static void read_members(struct capo_evidence *e)
{
        struct members m = {.text = 0};
        struct capo_diagnose_finding *f;
        int32_t twice[CAPO_DIAGNOSE_RANKS], none[CAPO_DIAGNOSE_RANKS];
        uint32_t n_twice = 0, n_none = 0, once = 0;
        char who[128], others[128];

        capo_evidence_all(e, ", MEMBER: ", take_member, &m, &m.text);
        for (uint32_t i = 0; i < m.of; i++) {
                once += m.seen[i] == 1;
                if (m.seen[i] == 2 && n_twice < CAPO_DIAGNOSE_RANKS)
                        twice[n_twice++] = (int32_t)i;
                if (!m.seen[i] && n_none < CAPO_DIAGNOSE_RANKS)
                        none[n_none++] = (int32_t)i;
        }
        if (!n_none || n_none > CAPO_DIAGNOSE_RANKS - 1 || !m.n || m.last.text != m.first.text ||
            m.last.line - m.first.line > 4 * m.of)
                return;
        f = capo_evidence_finding(e);
        capo_finding_is(f, CAPO_RANK_UNDECIDED, "undecided", "unsure");
        capo_finding_mark(f, m.first);
        capo_finding_mark(f, m.last);
        capo_rank_list(none, n_none, others);
        if (n_twice && !once) {
                SAY(f->headline, "%s OF %u START TWICE, AND NO LINE IS OF %s",
                    capo_rank_shout(capo_rank_list(twice, n_twice, who)), m.of, others);
                SAY(f->next,
                    "has each node a node rank of its own (NODE_RANK, --node_rank)? Two with the same one both begin with rank 0");
                return;
        }
        SAY(f->headline, "OF %u RANKS THAT ARE TO START, NO SUCH LINE IS OF %s", m.of, others);
        SAY(f->next,
            "does the launcher start a process for each rank (Slurm: srun, with --ntasks-per-node as many as GPUs are asked for)? If so, the output of these ranks, and a node rank of its own for each node");
}

/* ---- the address of the store ---- */

struct store {
        struct capo_evidence_mark asked_at, waits_at;
        char asked[64], rank0[64]; /* asked: where clients connect to */
        uint32_t text;
        bool waits;
};

static void take_asked(const char *at, const char *line, uint32_t number, void *arg)
{
        struct store *s = arg;

        at += strlen("connect to (");
        if (*s->asked ||
            !capo_take_word(at,
                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:-_",
                            s->asked, sizeof s->asked))
                return;
        s->asked_at = (struct capo_evidence_mark){s->text, number};
}

static void take_joined(const char *at, const char *line, uint32_t number, void *arg)
{
        struct store *s = arg;
        const char *ip = memmem(line, (size_t)(at - line), "ip=", 3);

        s->waits = true;
        s->waits_at = (struct capo_evidence_mark){s->text, number};
        if (ip)
                capo_take_word(ip + 3, "0123456789.", s->rank0, sizeof s->rank0);
}

/* The store runs, and clients do not find it: they look elsewhere, or something is between. */
static void read_store(struct capo_evidence *e)
{
        struct store s = {0};
        struct capo_diagnose_finding *f;
        bool elsewhere;

        capo_evidence_all(e, "connect to (", take_asked, &s, &s.text);
        capo_evidence_all(e, " clients joined", take_joined, &s, &s.text);
        if (!*s.asked || !s.waits)
                return;
        elsewhere = *s.rank0 && strcmp(s.rank0, s.asked) != 0 &&
                    strspn(s.asked, "0123456789.") == strlen(s.asked);
        f = capo_evidence_finding(e);
        capo_finding_is(f, elsewhere ? CAPO_RANK_CAUSE : CAPO_RANK_ERROR, "rendezvous", "likely");
        capo_finding_mark(f, s.asked_at);
        capo_finding_mark(f, s.waits_at);
        if (elsewhere) {
                SAY(f->headline, "OTHERS CONNECT TO %s, AND RANK 0 WAITS ON %s", s.asked, s.rank0);
                SAY(f->next, "which node is %s, and does rank 0 run on it? It must", s.asked);
        } else {
                SAY(f->headline, "RANK 0 WAITS AT ITS STORE, AND OTHERS DO NOT REACH %s", s.asked);
                SAY(f->next,
                    "does rank 0 run on that node (ss -ltn there)? No: MASTER_ADDR names another. Yes: the network between");
        }
}

/* ---- Horovod ---- */

/* "Missing ranks:\n2: [DistributedSGD_Allreduce/grad_1]": those did not submit the tensors. */
static void take_stalled(const char *at, const char *line, uint32_t number, void *arg)
{
        struct barrier *b = arg;
        const char *next = strchr(at, '\n');

        for (unsigned i = 0; next && i < 32; i++, next = strchr(next + 1, '\n')) {
                const char *label = strstr(next + 1, ">:"),
                           *end = next + 1 + strcspn(next + 1, "\n");
                char *colon;
                long rank;

                next = label && label < end ? label + 1 : next;
                rank = strtol(next + 1, &colon, 10);
                if (colon == next + 1 || strncmp(colon, ": [", 3) != 0)
                        break;
                b->f = b->f ? b->f : capo_evidence_finding(b->e);
                capo_finding_rank_add(b->f, (int32_t)rank);
        }
        if (b->f)
                capo_finding_mark(b->f, (struct capo_evidence_mark){b->text, number});
}

static void read_stalled(struct capo_evidence *e)
{
        struct barrier b = {.e = e};
        char who[128];

        capo_evidence_all(e, "Missing ranks:", take_stalled, &b, &b.text);
        if (!b.f)
                return;
        capo_finding_is(b.f, CAPO_RANK_UNDECIDED, "undecided", "unsure");
        SAY(b.f->headline,
            "NOT DECIDED WHY: %s DID NOT SUBMIT TENSORS that the others wait for (Horovod)",
            capo_rank_shout(capo_rank_list(b.f->ranks, b.f->n_ranks, who)));
        SAY(b.f->next, "where is each of them: py-spy dump --pid PID");
}

void capo_c10d_read(struct capo_evidence *e)
{
        read_store(e);
        read_barriers(e);
        read_desync(e);
        read_mismatches(e);
        read_members(e);
        read_stalled(e);
}
