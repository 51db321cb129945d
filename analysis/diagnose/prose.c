/* SPDX-License-Identifier: Apache-2.0 */
/* What a person wrote around the lines: is it about a hang, an error or a slow job, what makes the
 * difference, and at which line the job stops. It is read where no line has a verdict. */
#include "analysis/diagnose/prose.h"
#include "core/base/xalloc.h"

enum {
        SENTENCE = 280,
        RANKS = 64,
        LEAST_WORDS = 4,
        LEAST_SCORE = 4,
        QUOTE = 240,
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
           "works|worked|is fine|was fine|runs fine|ran fine|it runs|also runs|training runs|still runs|job runs|runs to|runs as|runs without|runs well|can run|could run|ran |trains|passes|succeeds|is ok|no problem|no such problem|without problem|"
           "goes through|go through|comes up|syncs|as it should|as they should|get past|gets past|became normal|normal again|normally|is faster|a lot faster|is fast|finishes|completes|reports OK|helps|"
           "正常|没有这个问题|没问题|能跑",
   changes[] =
           "since |after the |after I |after we |upgrad|updat|last week|before that|used to work|used to run|on the releases before|"
           "on earlier|previous|new driver|newer|moved to|switched|changed|reinstall|no longer|not work any more|anymore|regression",
   conditions[] =
           "with |without |single|one GPU|1 GPU|one node|1 node|two |only |when |if |same |other |but |while |instead|alone|"
           "单机|单卡|不用",
   contrasts[] = "than|but |compared|against|while|slower|faster|比",
   differences[] =
           "only see|the moment |whenever |each time |every time |only with|only if|only when|only happens|happens only|hangs only|fails only|only on|only in|if I |if we |when I |when we |unless|as soon as|as long as|"
           "but not|whereas|not with|once I ",
   manners[] =
           "I'm sure|I am sure|checked|thank|anybody|anyone|somebody|please|any idea|any help|what can |how can |how do |how to |should I|is there |"
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
                                        capo_drop_part(s.text);
                                        take(&s, arg);
                                }
                                at = stop + (strncmp(stop, "。", 3) ? strcspn(stop, " \r\n") : 3);
                                at += at < end && *at == ' ';
                        }
                }
        }
}

/* The sentence that a person begins with counts most. */
static void count_topic(struct said *s, void *arg)
{
        int *n = arg, first = n[CAPO_TOPIC_HANG] + n[CAPO_TOPIC_SLOW] + n[CAPO_TOPIC_ERROR] ? 1 : 3;

        n[CAPO_TOPIC_HANG] += first * has_word(s->text, hangs);
        n[CAPO_TOPIC_SLOW] += first * has_word(s->text, slow);
        n[CAPO_TOPIC_ERROR] += first * has_word(s->text, fails);
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

/* ---- where it stops ---- */

static bool is_blank(const char *line)
{
        for (; *line && *line != '\n'; line++) {
                if (isalnum((unsigned char)*line))
                        return false;
        }
        return true;
}

/* Places that a job passes, one after the other: of two the later one counts. */
static const char *const stops[] = {
        "Setting OMP_NUM_THREADS environment variable|torch.distributed.run|torch/distributed/launch.py|Rendezvous'ing worker group",
        "nitializing ddp: GLOBAL_RANK|nitializing distributed: GLOBAL_RANK|store_based_barrier_key|nit_process_group|distributed init (rank|Initializing distributed tasks at|Init torch distributed begin|nitializing torch distributed|Added key: store_based|Initializing TorchBackend in DeepSpeed",
        "Running tokenizer|Map (num_proc|Filter (num_proc|Generating train split|uilding dataset|building train|Converting format of dataset",
        "NCCL INFO Using network|NCCL INFO NET/Socket : Using|NCCL INFO NET/IB : Using|NCCL INFO Bootstrap|NCCL INFO NET/Plugin|NCCL INFO cudaDriverVersion|NCCL version ",
        "Init START",
        "is using nccl==",
        "All distributed processes registered|distributed_backend=nccl|initialized process group",
        "Init COMPLETE|Connected all rings|Connected all trees|Launch mode ",
        "GPU P2P access cache",
        "llreduce is disabled because|Custom allreduce is disabled|custom_all_reduce.py",
        "Loading checkpoint shards|Loading safetensors|Loading pt checkpoint|Starting to load model|oading model weights|Load weight begin",
        "Model loading took|Loading weights took|Load weight end|Memory pool end|Memory profiling|torch.compile|Dynamo bytecode|Compiling a graph|ompiling the graph",
        "Capturing CUDA graph|Capture cuda graph|apturing the model for CUDA graphs|Graph capturing|Capturing batches",
        " 0/|:   0%|: 0%|Epoch 0:|Epoch 1:|poch 0/|Starting trainer|Running training|Beginning epoch",
        "Reducer buckets have been rebuilt",
        "Evaluating|Validation|alidating|Running Evaluation|Sanity Check|sanity check",
        "Saving model checkpoint|aving checkpoint|save_checkpoint|Saving the model|saving checkpoint|zero checkpoint saved|torch_checkpoint_engine",
};

/* A place that a script names, not its output. */
static const char code[] = "init_process_group(|save_checkpoint(|def |import ";

/* The last lines of a program: behind them a person writes on, or the text ends. */
static void find_stop(const struct capo_evidence *e, struct capo_diagnose_finding *f)
{
        size_t found = 0; /* row + 1 */

        for (uint32_t i = 0; i < e->n_texts; i++) {
                const struct capo_records *r = &e->texts[i].records;

                for (uint32_t k = r->n > STOP_LINES ? r->n - STOP_LINES : 0; k < r->n; k++) {
                        const char *line = r->text + r->v[k].begin;
                        const char *next = k + 1 < r->n ? r->text + r->v[k + 1].begin : "";

                        if (capo_line_has(line, " hang| hung|tuck |freez|nothing") ||
                            (!is_blank(next) && !capo_line_is_prose(next) &&
                             !capo_line_has(next, " hang| hung|tuck |freez")))
                                continue;
                        for (size_t s = found ? found - 1 : 0; s < N_ELEMENTS(stops); s++) {
                                if (!capo_line_has(line, stops[s]) || capo_line_has(line, code))
                                        continue;
                                SAY(f->detail, "a part of the text ends with: ");
                                capo_quote(line, f->detail + strlen(f->detail), QUOTE);
                                f->n_marks = 0;
                                capo_finding_mark(f, (struct capo_evidence_mark){i, r->v[k].line});
                                found = s + 1;
                        }
                }
        }
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
        SAY(f->headline, "NOT DECIDED; THE LAST LINES OF THE RANKS DIFFER");
        SAY(f->next,
            "does one rank begin a step that the other does not (fewer batches)? The stacks of both show it: py-spy dump --pid PID");
        return true;
}

/* ---- what makes the difference ---- */

enum { SENTENCES_MOST = 400, NEIGHBOUR = 160, SHOWN = 2 };

struct sentences {
        struct said *v;
        uint32_t n;
};

static void keep_sentence(struct said *s, void *arg)
{
        struct sentences *all = arg;

        if (all->n < SENTENCES_MOST)
                all->v[all->n++] = *s;
}

/* "Only with filter_empty_gt=False", "works if ...", "since the upgrade": the more such words, the
 * more telling. 0: no difference. */
static int score_sentence(const char *text, enum capo_topic topic)
{
        bool good = has_word(text, works) && !has_word(text, "sometimes"),
             ill = has_word(text, hangs) || has_word(text, slow) || has_word(text, fails),
             bad = ill || has_word(text, "not |n't "), only = has_word(text, differences),
             changed = has_word(text, changes), when = has_word(text, conditions);
        int score =
                (only ? 4 : 0) + (good && when ? 4 : 0) + (good && bad ? 2 : 0) +
                (changed && (good || ill) ? 4 : 0) +
                (topic == CAPO_TOPIC_SLOW && has_word(text, slow) && has_word(text, contrasts) ? 4
                                                                                               : 0);

        return has_word(text, manners) ? score - 4 : score;
}

static bool is_beside(const struct sentences *all, uint32_t a, uint32_t b)
{
        return a < all->n && b < all->n && all->v[a].mark.text == all->v[b].mark.text &&
               all->v[b].mark.line - all->v[a].mark.line <= 2;
}

/* The sentence with its neighbours, so that the value that matters is in the quote. */
static void quote_sentence(const struct sentences *all, uint32_t at,
                           struct capo_diagnose_finding *f)
{
        const char *before = at && is_beside(all, at - 1, at) ? all->v[at - 1].text : "",
                   *after = is_beside(all, at, at + 1) ? all->v[at + 1].text : "";
        char begin[NEIGHBOUR + 1];

        SAY(begin, "%.*s", NEIGHBOUR, after);
        capo_drop_part(begin);
        ADD(f->detail, "%sthe text says: ", *f->detail ? "\n" : "");
        if (*before && !strstr(f->detail, before))
                ADD(f->detail, "%s%s. ", strlen(before) > NEIGHBOUR ? "... " : "",
                    before + (strlen(before) > NEIGHBOUR
                                      ? strlen(before) - NEIGHBOUR +
                                                strcspn(before + strlen(before) - NEIGHBOUR, " ")
                                      : 0));
        ADD(f->detail, "%s", all->v[at].text);
        if (*after)
                ADD(f->detail, ". %s%s", begin, strlen(after) > NEIGHBOUR ? " ..." : "");
        capo_finding_mark(f, all->v[at].mark);
}

static void tell_difference(const struct capo_evidence *e, enum capo_topic topic, const char *known,
                            struct capo_diagnose_finding *f)
{
        struct sentences all = {.v = xcalloc(SENTENCES_MOST, sizeof *all.v)};
        uint32_t shown = UINT32_MAX;

        for_sentences(e, keep_sentence, &all);
        for (unsigned n = 0; n < SHOWN; n++) {
                uint32_t best = 0;
                int most = 0;

                for (uint32_t i = 0; i < all.n; i++) {
                        int score = score_sentence(all.v[i].text, topic);

                        if (score > most && !strstr(known, all.v[i].text) &&
                            (shown == UINT32_MAX || i > shown + 1 || i + 1 < shown))
                                most = score, best = i;
                }
                if (most < LEAST_SCORE)
                        break;
                quote_sentence(&all, best, f);
                shown = best;
        }
        free(all.v);
}

/* ---- lines that may hold the cause ---- */

/* Tables of what is built in, and refusals, which no error needs to follow. */
static const char notable[] =
        "[ ] NCCL|[X] Gloo|bad ownership|ermission denied|Operation not permitted|Read-only file system";

enum { LINES = 4, GAP = 60 };

static void add_line(struct capo_diagnose_finding *f, const char *line,
                     struct capo_evidence_mark mark)
{
        char row[QUOTE];

        capo_quote(line, row, sizeof row);
        if (strstr(f->detail, row))
                return;
        ADD(f->detail, "%s%s", *f->detail ? "\n" : "", row);
        capo_finding_mark(f, mark);
}

static void tell_notable(const struct capo_evidence *e, struct capo_diagnose_finding *f)
{
        uint32_t n = 0;

        for (uint32_t i = 0; i < e->n_texts; i++) {
                const struct capo_records *r = &e->texts[i].records;

                for (uint32_t k = 0; k < r->n && n < LINES; k++) {
                        const char *line = r->text + r->v[k].begin;

                        if (!capo_line_has(line, notable))
                                continue;
                        add_line(f, line, (struct capo_evidence_mark){i, r->v[k].line});
                        n++;
                }
        }
}

/* The longest time without a line, if no other is nearly as long. */
static void tell_gap(const struct capo_evidence *e, struct capo_diagnose_finding *f)
{
        for (uint32_t i = 0; i < e->n_texts; i++) {
                const struct capo_records *r = &e->texts[i].records;
                int64_t last = -1, most = 0, second = 0;
                uint32_t from = 0, to = 0, before = 0;

                for (uint32_t k = 0; k < r->n && r->n < STOP_LINES; k++) {
                        int64_t now = capo_record_when(r->text + r->v[k].begin);

                        if (now < 0)
                                continue;
                        if (last >= 0 && now - last > most) {
                                second = most;
                                most = now - last;
                                from = before, to = k;
                        } else if (last >= 0 && now - last > second) {
                                second = now - last;
                        }
                        last = now;
                        before = k;
                }
                if (most < GAP || most < 3 * second)
                        continue;
                ADD(f->detail, "%s%lld s pass between these two lines:", *f->detail ? "\n" : "",
                    (long long)most);
                add_line(f, r->text + r->v[from].begin,
                         (struct capo_evidence_mark){i, r->v[from].line});
                add_line(f, r->text + r->v[to].begin,
                         (struct capo_evidence_mark){i, r->v[to].line});
                return;
        }
}

/* ---- what to collect ---- */

const char *capo_prose_ask(struct capo_evidence *e, enum capo_topic topic, char *next, size_t room)
{
        bool stacks = false, debug = capo_evidence_has("NCCL INFO", e),
             test = e->n_runs || capo_evidence_has("_perf", e),
             nccl = !capo_evidence_has("[ ] NCCL", e) &&
                    (test || capo_bug_any("NCCL|nccl|torch", capo_evidence_has, e, NULL)),
             python = capo_bug_any("python|torch|.py", capo_evidence_has, e, NULL);

        for (uint32_t i = 0; i < e->n_texts; i++)
                stacks |= e->texts[i].n[CAPO_EVIDENCE_STACKS] > 0;
        switch (topic != CAPO_TOPIC_NONE ? topic : find_topic(e)) {
        case CAPO_TOPIC_HANG:
                if (!stacks)
                        snprintf(
                                next, room,
                                "do as many processes run as the job has ranks (ps on each node)? If so, their stacks while it hangs (%s): is one in another call than the others?",
                                python ? "py-spy dump --pid PID" : "gdb -p PID");
                else if (nccl && !debug)
                        snprintf(
                                next, room,
                                "the same run with NCCL_DEBUG=INFO: does each rank print Init COMPLETE?");
                else
                        snprintf(
                                next, room,
                                "the stacks of all ranks at one moment, and a minute later: which one is elsewhere, or moves?");
                break;
        case CAPO_TOPIC_SLOW:
                snprintf(
                        next, room, "%s",
                        test ? "the same test on fewer GPUs, then on fewer nodes: with which change does the rate fall?"
                        : nccl ? "all_reduce_perf (nccl-tests) on the same GPUs and nodes: is it slow, too? Then the way between them; else a profile of one step of the program"
                               : "a profile of one step with fewer and with more processes: which part grows (computing, loading data, communication)?");
                break;
        case CAPO_TOPIC_ERROR:
                snprintf(
                        next, room,
                        "is this the first error of all processes, by time? If so, its lines before it%s; else the output of the one that failed first",
                        nccl && !debug ? " (NCCL_DEBUG=INFO)" : "");
                break;
        case CAPO_TOPIC_NONE:
                snprintf(
                        next, room,
                        "does the job end with an error, hang, or run slowly? An error: the output of all ranks; a hang: the stack of each; slow: the rate, and the one expected");
        }
        return next;
}

/* ---- the finding ---- */

void capo_prose_read(struct capo_evidence *e, const struct capo_diagnose_finding *v)
{
        size_t at = v ? (size_t)(v - e->findings) : 0;
        enum capo_topic topic = find_topic(e);
        struct capo_diagnose_finding f = {.n_ranks = 0}, *to;

        if (v && v->rank != CAPO_RANK_UNDECIDED)
                return;
        for (uint32_t i = 0; i < e->n_texts; i++) {
                if (e->texts[i].n[CAPO_EVIDENCE_FLIGHT] || e->texts[i].n[CAPO_EVIDENCE_LOG])
                        return; /* capo hang knows more of them */
        }
        if (!v && topic == CAPO_TOPIC_HANG && !find_apart(e, &f))
                find_stop(e, &f);
        tell_notable(e, &f);
        if (!v)
                tell_gap(e, &f);
        tell_difference(e, v && !strcmp(v->kind, "error") ? CAPO_TOPIC_ERROR : topic,
                        v ? v->detail : "", &f);
        if (!*f.detail)
                return;
        if (v) {
                to = &e->findings[at];
                ADD(to->detail, "%s%s", *to->detail ? "\n" : "", f.detail);
                for (uint32_t i = 0; i < f.n_marks; i++)
                        capo_finding_mark(to, f.marks[i]);
                return;
        }
        capo_finding_is(&f, CAPO_RANK_UNDECIDED, "undecided", "unsure");
        if (!*f.headline)
                SAY(f.headline, "NOT DECIDED; THE TEXT SHOWS");
        if (!*f.next)
                capo_prose_ask(e, topic, f.next, sizeof f.next);
        *capo_evidence_finding(e) = f;
}
