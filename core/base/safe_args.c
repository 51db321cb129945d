/* SPDX-License-Identifier: Apache-2.0 */
/* An argument stays only for what it is known to be. Nobody can list the shapes of secrets. */
#include "core/base/among.h"
#include "core/base/safe_args.h"
#include "core/base/secret.h"

/* An argument; it may lack its zero. */
struct word {
        const char *text;
        size_t n;
};

/* Options of launchers, trainers and benchmarks, with - for _. The value of each but --standalone is
 * a number, or one of value_words[]. */
static const char options[] =
        " standalone nproc-per-node nnodes node-rank max-restarts rank local-rank "
        "world-size ranks num-nodes num-gpus gpus batch-size micro-batch-size "
        "global-batch-size gradient-accumulation-steps seq-len seq-length max-seq-len "
        "num-layers hidden-size num-attention-heads epochs steps train-iters lr "
        "tensor-parallel-size pipeline-parallel-size data-parallel-size "
        "tensor-model-parallel-size pipeline-model-parallel-size context-parallel-size "
        "expert-model-parallel-size tp pp dp minbytes maxbytes stepfactor ngpus "
        "nthreads iters warmup-iters ";
static const char *const value_words[] = {"auto", "gpu", "cpu"}, *const scripts[] = {".py",  ".sh",
                                                                                     ".jl",  ".pl",
                                                                                     ".lua", ".R"};

static struct word word_at(const char *args, size_t size, size_t at)
{
        if (at >= size)
                return (struct word){"", 0};
        return (struct word){args + at, strnlen(args + at, size - at)};
}

static bool is_word(struct word w, const char *what)
{
        return w.n == strlen(what) && !memcmp(w.text, what, w.n);
}

static bool ends_with(struct word w, const char *end)
{
        size_t n = strlen(end);

        return w.n > n && !memcmp(w.text + w.n - n, end, n);
}

static struct word base_name(struct word w)
{
        const char *slash = memrchr(w.text, '/', w.n);

        return slash ? (struct word){slash + 1, w.n - (size_t)(slash + 1 - w.text)} : w;
}

/* A number, a size, a range or a list of them, in no more letters than a key would have. */
static bool is_safe_value(struct word w)
{
        char text[17];

        if (ANY_OF(known, value_words, N_ELEMENTS(value_words), is_word(w, *known)))
                return true;
        if (!w.n || w.n >= sizeof text)
                return false;
        memcpy(text, w.text, w.n);
        text[w.n] = 0;
        return isdigit((unsigned char)text[*text == '-']) &&
               strspn(text, "0123456789.,:x+-eEkKmMgGtTiB") == w.n;
}

/* Is @w, without its value, one of options[]? */
static bool is_option(struct word w)
{
        char name[40] = " ";

        if (w.n < 3 || w.n > sizeof name - 1 || memcmp(w.text, "--", 2) || memchr(w.text, ' ', w.n))
                return false;
        for (size_t i = 2; i < w.n; i++)
                name[i - 1] = w.text[i] == '_' ? '-' : w.text[i];
        name[w.n - 1] = ' ';
        return strstr(options, name) != NULL;
}

/* How many of the two arguments are an option that stays, with its value; 0: it does not. */
static unsigned option_words(struct word w, struct word next, bool benchmark)
{
        const char *equals = memchr(w.text, '=', w.n);
        struct word name = {w.text, equals ? (size_t)(equals - w.text) : w.n}, value = next;
        bool letter =
                benchmark && w.n == 2 && w.text[0] == '-' && isalpha((unsigned char)w.text[1]);

        if (equals)
                value = (struct word){equals + 1, w.n - name.n - 1};
        if (is_word(name, "--standalone"))
                return !equals;
        if ((!is_option(name) && !letter) || !is_safe_value(value))
                return 0;
        return equals ? 1 : 2;
}

/* A script, unless it may be the value of an option that nobody knows. */
static bool is_script(struct word w, struct word before)
{
        bool after_option = before.n && *before.text == '-' && before.n != 2 && !is_option(before);

        return *w.text != '-' && !after_option && !memchr(w.text, '=', w.n) &&
               ANY_OF(end, scripts, N_ELEMENTS(scripts), ends_with(w, *end));
}

struct safe_line {
        char *out;
        size_t n, room;
        bool left_out; /* "..." is the last word */
};

static void append_word(struct safe_line *l, struct word w)
{
        if (l->n && l->n + 1 < l->room)
                l->out[l->n++] = ' ';
        if (w.n && l->n + 1 < l->room)
                l->n += capo_secret_args(w.text, w.n, l->out + l->n, l->room - l->n);
}

size_t capo_safe_args(const char *args, size_t size, char *out, size_t room)
{
        struct safe_line line = {out, 0, room, false};
        struct word program = word_at(args, size, 0), before = program, base = base_name(program);
        bool benchmark = ends_with(base, "_perf"), script = false, module = false,
             python = base.n >= 6 && !memcmp(base.text, "python", 6);

        append_word(&line, program);
        for (size_t at = program.n + 1; at < size;) {
                struct word w = word_at(args, size, at), next = word_at(args, size, at + w.n + 1);
                unsigned words = option_words(w, next, benchmark);

                if (!words && python && !script && !module && is_word(w, "-m") && next.n &&
                    ALL_OF(c, next.text, next.n,
                           isalnum((unsigned char)*c) || *c == '_' || *c == '.')) {
                        module = true;
                        words = 2;
                } else if (!words && !script && is_script(w, before)) {
                        script = true;
                        words = 1;
                }
                if (words || !line.left_out)
                        append_word(&line, words ? w : (struct word){"...", 3});
                line.left_out = !words;
                if (words == 2)
                        append_word(&line, next);
                before = words == 2 ? next : w;
                at += w.n + 1 + (words == 2 ? next.n + 1 : 0);
        }
        out[line.n] = 0;
        return line.n;
}
