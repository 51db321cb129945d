/* SPDX-License-Identifier: Apache-2.0 */
/* What a person wrote around the lines: is it about a hang, an error or a slow job, what makes the
 * difference, and at which line the job stops. It is read where no line has a verdict. */
#include "analysis/diagnose/prose.h"
#include "core/base/xalloc.h"

static const struct {
        const char *words, *headline, *next;
} stops[] = {
#define STOPS_AT(words, headline, next) {words, headline, next},
#include "analysis/diagnose/stops_at.def"
};

/* What ordinary complaints say together, by topic. */
static const struct {
        enum capo_topic topic;
        const char *all, *headline, *next;
} cases[] = {
#define PROSE_CASE(topic, all, headline, next) {CAPO_TOPIC_##topic, all, headline, next},
#include "analysis/diagnose/prose_cases.def"
};

enum {
        SENTENCE = 280,
        SENTENCES = 2,
        RANKS = 64,
        LEAST_WORDS = 4,
        PROSE_LINES = 2000,
        STOP_LINES = 20000
};

/* ---- sentences ---- */

static const char NOT_PROSE[] =
        " NCCL INFO | NCCL WARN |NCCL version |[rank|Traceback|File \"| - INFO|: INFO| INFO [|INFO:|[INFO|INFO 0|INFO 1| WARN |WARN:|WARNING|ERROR |[E|[W|0x|>>> |"
        "Error: |Exception: |]: |import |def |--nproc|torchrun |mpirun |srun |WorkNCCL(";

/* "What():", "rank0:", "INTERNAL:": the label of a program's line. */
static bool has_label(const char *at)
{
        size_t n = strcspn(at, " \r\n");

        return n > 1 && at[n - 1] == ':' &&
               (memchr(at, '(', n) || islower((unsigned char)*at) || isupper((unsigned char)at[1]));
}

/* The line without what stands between backquotes. */
static void drop_quotes(const char *line, size_t size, char *out, size_t room)
{
        size_t n = 0;

        for (const char *end = line + size; line < end && n + 1 < room;) {
                const char *close = strchr("`\"", *line)
                                            ? memchr(line + 1, *line, (size_t)(end - line - 1))
                                            : NULL;

                out[n++] = close ? 'q' : *line;
                line = close ? close + 1 : line + 1;
        }
        out[n] = 0;
}

bool capo_line_is_prose(const char *line)
{
        size_t words = 0, plain = 0, size;
        char row[1024];
        const char *at;

        drop_quotes(line, strcspn(line, "\r\n"), row, sizeof row);
        size = strlen(row);
        at = row + strspn(row, "-*#>+ 0123456789.)");
        if (at - row > 6 || size < 12 || has_label(at) || !strncmp(at, "rank ", 5) ||
            (!isalpha((unsigned char)*at) && !(*at & 0x80) && *at != '"'))
                return false;
        for (size_t i = (size_t)(at - row), n; i < size; i += n + 1) {
                bool word = true;

                n = strcspn(row + i, " ");
                if (n > 24 && (row[i] & 0x80))
                        words += n / 9, plain += n / 9; /* Chinese: three bytes a letter */
                for (size_t k = 0; k < n && word; k++)
                        word = isalpha((unsigned char)row[i + k]) || (row[i + k] & 0x80) ||
                               strchr("'`,.;:!?()*\"-", row[i + k]);
                words += n > 0;
                plain += n > 0 && word;
        }
        return words >= LEAST_WORDS && plain * 10 >= words * 6 &&
               !(row[size - 1] == ':' && strchr(row, '(')) && /* code, a table */
               !strstr(row, "   ") && !strstr(row, "['") && !capo_line_has(row, NOT_PROSE);
}

/* The words of one topic in a sentence; the person's own, not those of a log. */
static const char hangs
        [] = "hang|hung|does nothing|did nothing|nothing after|did not start|does not start|stuck|freez|frozen|deadlock|stops moving|never returns|never return|never printed|"
             "nothing happens|after that nothing|then nothing|nothing more|stays there|stay there|sits right|"
             "sits at|sits there|waits forever|forever|for ever|no progress|not move|blocks|stands still|"
             "does not end|stop at|stops at|stopped at|stops in|stops moving|stops right|stops after|stop after|keeps waiting|sit in|sits in|never end|never finish|stall|no output|卡住|卡在|"
             "卡死|卡着|不动|一直停|没有任何进度|没有动静|没有在训练|没反应|没有反应",
   slow[] =
           "slow|slower|took longer|too long|delay|not accelerate|throughput|bandwidth|takes longer|much longer|longer than|speed|faster|"
           "performance|GB/s|MB/s|tokens/s|it/s|慢",
   fails[] = "error|fail|crash|exception|dies|killed|aborts|broken|goes down|报错|失败",
   works[] =
           "works|worked|is fine|was fine|runs fine|ran fine|runs|ran|trains|passes|succeeds|is ok|no problem|no such problem|without problem|"
           "get past|gets past|became normal|normal again|normally|is faster|a lot faster|is fast|finishes|completes|reports OK|helps|"
           "正常|没有这个问题|没问题|能跑",
   changes[] =
           "since |after the |after I |after we |upgrad|updat|last week|before that|used to work|used to run|on the releases before|"
           "on earlier|previous|new driver|newer|moved to|switched|changed|reinstall|no longer|not work any more|anymore|regression",
   conditions[] =
           "with |without |single|one GPU|1 GPU|one node|1 node|two |only |when |if |same |other |but |while |instead|alone|"
           "单机|单卡|不用",
   contrasts[] =
           "than|faster|without|instead|one node|1 node|single|compared|before|after|while|but|with |不用|单机",
   manners[] =
           "thank|anybody|anyone|somebody|please|any idea|any help|what can |how can |how do |how to |should I|is there |"
           "expected behavior|steps to|to reproduce|describe the";

/* In any case of letters, at the begin of a word. */
static bool has_word(const char *sentence, const char *words)
{
        size_t n;

        for (; *words; words += n + (words[n] == '|')) {
                n = strcspn(words, "|");
                for (const char *at = sentence; *at; at++) {
                        if (!strncasecmp(at, words, n) &&
                            (at == sentence || !isalpha((unsigned char)at[-1])))
                                return true;
                }
        }
        return false;
}

struct said {
        char text[SENTENCE];
        int score;
        struct capo_evidence_mark mark;
};

static void for_sentences(const struct capo_evidence *e, void (*take)(struct said *s, void *arg),
                          void *arg)
{
        for (uint32_t i = 0; i < e->n_texts; i++) {
                const struct capo_records *r = &e->texts[i].records;

                for (uint32_t k = 0; k < r->n; k++) {
                        const char *at = r->text + r->v[k].begin, *end = at + strcspn(at, "\r\n");

                        if (k == PROSE_LINES && r->n > 2 * PROSE_LINES)
                                k = r->n - PROSE_LINES; /* a person writes at the ends of a log */
                        if (!capo_line_is_prose(at))
                                continue;
                        for (at += strspn(at, "-*#> "); at < end;) {
                                const char *stop = at;
                                struct said s = {.mark = {i, r->v[k].line}};

                                while (stop < end && !(strchr(".?!", *stop) && stop[1] <= ' ') &&
                                       strncmp(stop, "。", 3) != 0)
                                        stop++;
                                if (stop - at > 10) {
                                        SAY(s.text, "%.*s", (int)(stop - at), at);
                                        take(&s, arg);
                                }
                                at = stop + (strncmp(stop, "。", 3) ? strcspn(stop, " ") : 3);
                                at += at < end && *at == ' ';
                        }
                }
        }
}

static void count_topic(struct said *s, void *arg)
{
        int *n = arg;

        n[CAPO_TOPIC_HANG] += has_word(s->text, hangs);
        n[CAPO_TOPIC_SLOW] += has_word(s->text, slow);
        n[CAPO_TOPIC_ERROR] += has_word(s->text, fails);
}

enum capo_topic capo_prose_topic(const struct capo_evidence *e)
{
        int n[CAPO_TOPIC_ERROR + 1] = {0};

        for_sentences(e, count_topic, n);
        return n[CAPO_TOPIC_SLOW] > n[CAPO_TOPIC_HANG] && n[CAPO_TOPIC_SLOW] >= n[CAPO_TOPIC_ERROR]
                       ? CAPO_TOPIC_SLOW
               : n[CAPO_TOPIC_HANG]  ? CAPO_TOPIC_HANG
               : n[CAPO_TOPIC_ERROR] ? CAPO_TOPIC_ERROR
                                     : CAPO_TOPIC_NONE;
}

/* Where no sentence says so, single words do. */
static enum capo_topic find_topic(struct capo_evidence *e)
{
        enum capo_topic topic = capo_prose_topic(e);

        return topic == CAPO_TOPIC_NONE && capo_evidence_hangs(e) ? CAPO_TOPIC_HANG : topic;
}

/* ---- what makes the difference ---- */

/* "535.113", "2.19.3". */
static unsigned count_releases(const char *text)
{
        unsigned count = 0;

        for (size_t n; *text; text += n + (text[n] != 0)) {
                n = strcspn(text, " ,;:()");
                count += n >= 5 && n <= 12 && strspn(text, "v0123456789.") == n &&
                         memchr(text, '.', n) != NULL;
        }
        return count;
}

static void take_telling(struct said *s, void *arg)
{
        struct said *best = arg;
        bool good = has_word(s->text, works) && !has_word(s->text, "sometimes"),
             bad = has_word(s->text, hangs) || has_word(s->text, slow) ||
                   has_word(s->text, fails) || has_word(s->text, "not |n't ");

        if (has_word(s->text, slow) && !has_word(s->text, contrasts))
                return; /* "the speed is bad" */
        s->score = (good ? 3 : 0) + (good && bad ? 2 : 0) + (has_word(s->text, changes) ? 4 : 0) +
                   (has_word(s->text, hangs) ? 3 : 0) + (has_word(s->text, conditions) ? 1 : 0) +
                   (count_releases(s->text) > 1) - (has_word(s->text, manners) ? 4 : 0);
        if (s->score < (has_word(s->text, hangs) ? 3 : 4))
                return;
        for (unsigned i = 0; i < SENTENCES; i++) {
                if (s->score > best[i].score) {
                        memmove(&best[i + 1], &best[i], (SENTENCES - i - 1) * sizeof *best);
                        best[i] = *s;
                        return;
                }
        }
}

enum { STEP_RELEASE = 2 }; /* the first steps are about releases */

static const struct {
        const char *all, *and, *next;
} steps[] = {
        {"driver", works,
         "the driver's release that works, or the newest one; on one host NCCL_P2P_DISABLE=1 tells whether direct copies between GPUs are what fails"},
        {"release|version|on earlier|previous|upgrad|updat|downgrad|regression|broken in", "",
         "the release that works meanwhile; the release notes and issues of what changed, searched for the message; then one change after the other"},
        {"zero0|zero-0|zero1|zero2|zero-1|zero-2|zero3|zero-3|without DeepSpeed|不用 deepspeed", "",
         "ZeRO-3 gathers all parameters in each step: between nodes it needs a fast network, and all ranks must run the same modules in each step. "
         "ZeRO-2 or less does neither"},
        {"gloo", works,
         "what NCCL needs and Gloo does not: NCCL_DEBUG=INFO of all ranks (the last line of each), NCCL_SOCKET_IFNAME = the interface that Gloo takes, a GPU of "
         "its own for each rank (torch.cuda.set_device); then NCCL_P2P_DISABLE=1, NCCL_SHM_DISABLE=1 and NCCL_IB_DISABLE=1, one by one"},
        {"single node|one node|1 node|single machine|one machine|within a node|单机", works,
         "what one node does not need, the network between the nodes: NCCL_SOCKET_IFNAME on all nodes, all TCP ports open between them, "
         "nccl-tests over two nodes, the link's rate (iperf3)"},
        {"one GPU|1 GPU|single GPU|one card|--gpus 0|单卡|一块卡|一张卡", works,
         "what one GPU does not need: a rendezvous (env | grep -E 'RANK|WORLD|MASTER|NODE|SLURM': nothing may be left of another job), "
         "then copies between GPUs (NCCL_P2P_DISABLE=1 once); NCCL_DEBUG=INFO: does each rank print Init COMPLETE?"},
};

static bool fits_step(const struct said *said, size_t i)
{
        for (unsigned k = 0; k < SENTENCES; k++) {
                bool numbers = i == 0 && count_releases(said[k].text) > 1;

                if (said[k].score && (numbers || has_word(said[k].text, steps[i].all)) &&
                    !has_word(said[k].text, "sometimes") &&
                    (!*steps[i].and || has_word(said[k].text, steps[i].and)))
                        return true;
        }
        return false;
}

/* The next step that goes with the difference; N_ELEMENTS(steps): none does. */
static size_t find_step(const struct said *said)
{
        size_t i = 0;

        while (i < N_ELEMENTS(steps) && !fits_step(said, i))
                i++;
        return i;
}

/* ---- where it stops ---- */

static bool is_blank(const char *line)
{
        for (; *line && *line != '\n'; line++) {
                if (isalnum((unsigned char)*line))
                        return false;
        }
        return true;
}

/* The last lines of a program: behind them a person writes on, or the text ends. */
static bool find_stop(const struct capo_evidence *e, struct capo_diagnose_finding *f)
{
        size_t found = 0; /* row + 1 */

        for (uint32_t i = 0; i < e->n_texts; i++) {
                const struct capo_records *r = &e->texts[i].records;

                for (uint32_t k = r->n > STOP_LINES ? r->n - STOP_LINES : 0; k < r->n; k++) {
                        const char *line = r->text + r->v[k].begin;
                        uint32_t next = k + 1;

                        while (next < r->n && is_blank(r->text + r->v[next].begin))
                                next++;
                        if (next < r->n && next == k + 1 &&
                            !capo_line_is_prose(r->text + r->v[next].begin) &&
                            !capo_line_has(r->text + r->v[next].begin, " hang| hung|tuck |freez"))
                                continue;
                        for (size_t s = found ? found - 1 : 0; s < N_ELEMENTS(stops); s++) {
                                if (!capo_line_has(line, stops[s].words))
                                        continue;
                                SAY(f->headline, "NOT DECIDED WHY: THE OUTPUT ENDS %s",
                                    stops[s].headline);
                                SAY(f->next, "%s", stops[s].next);
                                capo_quote(line, f->detail, sizeof f->detail);
                                f->n_marks = 0;
                                capo_finding_mark(f, (struct capo_evidence_mark){i, r->v[k].line});
                                found = s + 1;
                        }
                }
        }
        return found > 0;
}

/* ---- ranks whose last lines differ ---- */

/* A line without its numbers: "batch # start". */
static void read_form(const char *line, char *form, size_t room)
{
        size_t n = 0;

        for (size_t size = strcspn(line, "\r\n"); size && n + 1 < room; size--, line++) {
                if (!isdigit((unsigned char)*line))
                        form[n++] = *line;
                else if (!n || form[n - 1] != '#')
                        form[n++] = '#';
        }
        form[n] = 0;
}

struct rank_end {
        const char *line; /* the last one; other_form: of the last one that is not alike */
        struct capo_evidence_mark mark;
        char form[160], other_form[160];
};

/* Two ranks print lines of the same forms, and end with different ones. */
static bool find_apart(const struct capo_evidence *e, struct capo_diagnose_finding *f)
{
        struct rank_end *ends = xcalloc(RANKS, sizeof *ends);
        const struct rank_end *odd[2] = {NULL};

        for (uint32_t i = 0; i < e->n_texts; i++) {
                const struct capo_records *r = &e->texts[i].records;

                for (uint32_t k = 0; k < r->n; k++) {
                        const char *line = r->text + r->v[k].begin;
                        int32_t rank = capo_line_rank(line);
                        struct rank_end *one = &ends[rank < 0 || rank >= RANKS ? 0 : rank];
                        char form[sizeof one->form];

                        if (rank < 0 || rank >= RANKS || is_blank(line))
                                continue;
                        read_form(line, form, sizeof form);
                        if (strcmp(form, one->form) != 0)
                                memcpy(one->other_form, one->form, sizeof form);
                        memcpy(one->form, form, sizeof form);
                        one->line = line;
                        one->mark = (struct capo_evidence_mark){i, r->v[k].line};
                }
        }
        for (int32_t rank = 1; rank < RANKS; rank++) {
                for (int32_t k = 0; k < rank && !odd[0]; k++) {
                        if (ends[k].line && ends[rank].line &&
                            strcmp(ends[k].form, ends[rank].form) != 0 &&
                            !strcmp(ends[k].form, ends[rank].other_form) &&
                            !strcmp(ends[k].other_form, ends[rank].form)) {
                                odd[0] = &ends[k];
                                odd[1] = &ends[rank];
                        }
                }
        }
        for (unsigned i = 0; i < 2 && odd[0]; i++) {
                ADD(f->detail, "%s", i ? "\n" : "");
                capo_quote(odd[i]->line, f->detail + strlen(f->detail),
                           sizeof f->detail - strlen(f->detail));
                capo_finding_mark(f, odd[i]->mark);
        }
        free(ends);
        if (!odd[0])
                return false;
        SAY(f->headline, "NOT DECIDED WHY: THE LAST LINES OF THE RANKS DIFFER");
        SAY(f->next,
            "what does one rank begin that the other does not? One batch or step more (data that does not divide by the ranks: a fixed number of "
            "steps, drop_last, the sampler), a branch by rank, or work of unequal length; py-spy dump --pid PID of both");
        return true;
}

/* ---- ordinary complaints ---- */

enum { PROSE = 8192, SPECIAL_CASES = 5 }; /* the first ones say where it stops */

static void take_all(struct said *s, void *arg) { capo_append(arg, PROSE, "%s. ", s->text); }

/* "A|B & C|D": one of each group. */
static bool has_all(const char *text, const char *all)
{
        char words[512];

        for (const char *end; *all; all = end + (*end ? 3 : 0)) {
                end = strstr(all, " & ") ?: all + strlen(all);
                SAY(words, "%.*s", (int)(end - all), all);
                if (!has_word(text, words))
                        return false;
        }
        return true;
}

struct complaint {
        const char *all, *text; /* text: all sentences; NULL: one must have all words */
        struct said said;       /* the first that fits */
};

static void take_complaint(struct said *s, void *arg)
{
        struct complaint *c = arg;
        char first[512];

        SAY(first, "%.*s", (int)strcspn(c->all, "&"), c->all);
        if (strlen(first) > 0 && first[strlen(first) - 1] == ' ')
                first[strlen(first) - 1] = 0;
        if (!*c->said.text && (c->text ? has_word(s->text, first) : has_all(s->text, c->all)))
                c->said = *s;
}

/* @most: of the first rows. */
static bool find_case(const struct capo_evidence *e, enum capo_topic topic, size_t most,
                      struct capo_diagnose_finding *f)
{
        char *text = xcalloc(1, PROSE);
        size_t i;

        for_sentences(e, take_all, text);
        for (i = 0; i < most; i++) {
                struct complaint c = {.all = cases[i].all,
                                      .text = topic == CAPO_TOPIC_HANG ? NULL : text};

                if (cases[i].topic != topic || !has_all(text, cases[i].all))
                        continue;
                for_sentences(e, take_complaint, &c);
                if (!*c.said.text)
                        continue;
                SAY(f->headline, "NOT DECIDED WHY: %s", cases[i].headline);
                SAY(f->next, "%s", cases[i].next);
                SAY(f->detail, "the text says: %s", c.said.text);
                capo_finding_mark(f, c.said.mark);
                break;
        }
        free(text);
        return i < most;
}

/* ---- the finding ---- */

static const char *const asks[] = {
        [CAPO_TOPIC_NONE] =
                "if it failed: the output of all ranks with NCCL_DEBUG=INFO; if it hangs: stacks of all ranks (py-spy dump --pid PID); if it is slow: "
                "the same under capo run, then capo report",
        [CAPO_TOPIC_HANG] =
                "stacks of all ranks while it hangs (py-spy dump --pid PID, also of processes that are not Python: gdb -p PID): are all in one call, and which one "
                "is elsewhere? NCCL_DEBUG=INFO of all ranks: does each print Init COMPLETE?",
        [CAPO_TOPIC_SLOW] =
                "where does the time go? capo run, then capo report; NCCL_DEBUG=INFO: the transport of each channel (P2P, SHM, NET/IB, NET/Socket); "
                "nccl-tests on the same GPUs, then capo expect FILE",
        [CAPO_TOPIC_ERROR] =
                "if it failed: the first error in time of all ranks, above the last traceback; if it hangs: stacks of all ranks (py-spy dump --pid PID); the same run with NCCL_DEBUG=INFO",
};

void capo_prose_read(struct capo_evidence *e, const struct capo_diagnose_finding *v)
{
        size_t at = v ? (size_t)(v - e->findings) : 0;
        struct said said[SENTENCES + 1] = {0};
        enum capo_topic topic = find_topic(e);
        struct capo_diagnose_finding *f, one = {.n_ranks = 0};
        size_t step;
        bool placed;

        if (v && strncmp(v->headline, "NOT DECIDED", 11) != 0)
                return;
        for (uint32_t i = 0; i < e->n_texts; i++) {
                if (e->texts[i].n[CAPO_EVIDENCE_FLIGHT] || e->texts[i].n[CAPO_EVIDENCE_LOG])
                        return; /* capo hang knows more of them */
        }
        for_sentences(e, take_telling, said);
        step = find_step(said);
        if (v && topic == CAPO_TOPIC_HANG && find_case(e, topic, SPECIAL_CASES, &one) &&
            strlen(v->next) + strlen(one.next) + 9 < sizeof v->next) {
                char *next = e->findings[at].next;
                size_t n = strlen(one.next);

                memmove(next + n + 8, next, strlen(next) + 1);
                memcpy(next, one.next, n);
                memcpy(next + n, ". Also: ", 8);
        }
        placed = !v && ((topic == CAPO_TOPIC_HANG &&
                         (find_apart(e, &one) || find_case(e, topic, SPECIAL_CASES, &one) ||
                          find_stop(e, &one))) ||
                        find_case(e, topic, N_ELEMENTS(cases), &one));
        if (!v && !placed && !said[0].score)
                return;
        f = v ? &e->findings[at] : capo_evidence_finding(e);
        if (!v) {
                *f = one;
                capo_finding_is(f, CAPO_RANK_UNDECIDED, "undecided", "unsure");
        }
        if (!v && !placed) {
                SAY(f->headline, "NOT DECIDED: see what the text itself says");
                SAY(f->next, "%s", step < N_ELEMENTS(steps) ? steps[step].next : asks[topic]);
        } else if (step < STEP_RELEASE && placed)
                SAY(f->next, "%s", steps[step].next);
        else if (step < STEP_RELEASE && strlen(f->next) < 300) {
                char rest[sizeof f->next];

                SAY(rest, "%s", f->next);
                SAY(f->next, "%s. Else: %.300s", steps[step].next, rest);
        }
        for (unsigned i = 0; i < SENTENCES && said[i].score; i++) {
                if (strstr(f->detail, said[i].text))
                        continue;
                ADD(f->detail, "%sthe text says: ", *f->detail ? "\n" : "");
                capo_quote(said[i].text, f->detail + strlen(f->detail),
                           sizeof f->detail - strlen(f->detail));
                capo_finding_mark(f, said[i].mark);
        }
}

const char *capo_prose_ask(struct capo_evidence *e) { return asks[find_topic(e)]; }
