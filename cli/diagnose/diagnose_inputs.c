/* SPDX-License-Identifier: Apache-2.0 */
/* Reads folders, compressed files, dumps and texts; the kind of each is detected by its content. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capo/log_layout.h"
#include "capo/msg.h"
#include "cli/diagnose/cmd_diagnose.h"
#include "analysis/log/pack.h"
#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/util.h"
#include "analysis/diagnose/pickle.h"

enum { MOST_DEPTH = 4 };

static const size_t MOST_BYTES = (size_t)4 << 30;

static int add_path(struct diagnose_paths *paths, const char *path)
{
        char *copy = strdup(path);

        if (!copy || capo_array_room(&paths->v, paths->n, sizeof *paths->v) < 0) {
                free(copy);
                return -ENOMEM;
        }
        paths->v[paths->n++] = copy;
        return 0;
}

/* ---- compressed ---- */

static const char *unpacker_of(const char *text, size_t size)
{
        if (size > 2 && !memcmp(text, "\x1f\x8b", 2))
                return "gzip";
        if (size > 4 && !memcmp(text, "\x28\xb5\x2f\xfd", 4))
                return "zstd";
        return size > 6 && !memcmp(text,
                                   "\xfd"
                                   "7zXZ",
                                   5)
                       ? "xz"
                       : NULL;
}

/* Decompress the file with that program. Return: 0; 1: only its beginning, for the rest is missing
 * or damaged; -EBADMSG: nothing of it. */
static int unpack_file(const char *program, const char *path, char **text, size_t *size)
{
        _cleanup_close_ int in = open(path, O_RDONLY | O_CLOEXEC);
        char *argv[] = {(char *)(uintptr_t)program, (char *)(uintptr_t) "-dc", NULL};
        posix_spawn_file_actions_t actions;
        int pipes[2], r, status = 0;
        pid_t pid;

        if (in < 0 || pipe2(pipes, O_CLOEXEC) < 0)
                return -errno;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
        posix_spawn_file_actions_adddup2(&actions, pipes[1], STDOUT_FILENO);
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
        r = -posix_spawnp(&pid, program, &actions, NULL, argv, environ);
        posix_spawn_file_actions_destroy(&actions);
        close(pipes[1]);
        if (r == 0) {
                r = capo_file_read_fd(pipes[0], MOST_BYTES, text, size);
                close(pipes[0]);
                if (waitpid(pid, &status, 0) == pid && r == 0 && *size < MOST_BYTES &&
                    (!WIFEXITED(status) || WEXITSTATUS(status)))
                        r = *size ? 1 : -EBADMSG;
                return r;
        }
        close(pipes[0]);
        return r;
}

/* ---- dumps ---- */

/* Convert a recorder's pickle to JSON with the same name and time. */
static int add_pickle(struct diagnose_inputs *in, const char *path, const char *text, size_t size)
{
        _cleanup_free_ char *json = NULL, *copy = NULL;
        _cleanup_fclose_ FILE *out = NULL;
        char why[200];
        struct stat st;
        int r = capo_pickle_json(text, size, &json, why, sizeof why);

        if (r < 0) {
                capo_warn("left out %s: %s", path, why);
                return r == -ENOMEM ? r : 0;
        }
        if (!*in->folder) {
                snprintf(in->folder, sizeof in->folder, "/tmp/capo-diagnose-XXXXXX");
                if (!mkdtemp(in->folder)) {
                        *in->folder = 0;
                        capo_warn("left out %s: no folder in /tmp: %s", path, strerror(errno));
                        return 0;
                }
        }
        if (asprintf(&copy, "%s/%zu-%s", in->folder, in->flight.n, capo_base_name(path)) < 0)
                return -ENOMEM;
        out = fopen(copy, "w");
        if (!out || fputs(json, out) == EOF || fflush(out) == EOF) {
                capo_warn("left out %s: %s: %s", path, copy, strerror(errno));
                return 0;
        }
        if (stat(path, &st) == 0)
                futimens(fileno(out), (struct timespec[2]){st.st_atim, st.st_mtim});
        r = capo_evidence_add(&in->evidence, path, NULL);
        if (r < 0)
                return r;
        in->evidence.texts[r].n[CAPO_EVIDENCE_FLIGHT] = 1;
        return add_path(&in->flight, copy);
}

static enum capo_evidence_kind kind_of_json(const char *text)
{
        json_t *doc = json_loads(text, 0, NULL);
        enum capo_evidence_kind kind = CAPO_EVIDENCE_UNKNOWN;

        if (json_is_array(json_object_get(doc, "entries")) ||
            json_is_object(json_object_get(doc, "pg_config")))
                kind = CAPO_EVIDENCE_FLIGHT;
        else if (json_is_array(json_object_get(doc, "communicators")))
                kind = CAPO_EVIDENCE_RAS;
        json_decref(doc);
        return kind;
}

/* RAS's answer from its first line on; text of a terminal before it stays a text. */
static char *ras_begin(char *text)
{
        char *summary = strstr(text, "\nJob summary"), *version = NULL;

        if (!summary || !strstr(summary, "Communicators..."))
                return NULL;
        for (char *p = text; (p = strstr(p, "NCCL version ")) && p < summary; p++)
                version = p;
        return version;
}

static int add_ras(struct diagnose_inputs *in, const char *path, char *text)
{
        _cleanup_free_ char *answer = text;
        int n = capo_evidence_add(&in->evidence, path, NULL);

        if (n < 0)
                return n;
        in->evidence.texts[n].n[CAPO_EVIDENCE_RAS] = 1;
        return diagnose_ras(&in->evidence, answer, (uint32_t)n);
}

/* ---- one file ---- */

static int take_log(struct diagnose_inputs *in, const char *path)
{
        int r = capo_evidence_add(&in->evidence, path, NULL);

        if (r < 0)
                return r;
        in->evidence.texts[r].n[CAPO_EVIDENCE_LOG] = 1;
        return add_path(&in->logs, path);
}

static int take_bytes(struct diagnose_inputs *in, const char *path, char *text, size_t size)
{
        enum capo_evidence_kind kind = CAPO_EVIDENCE_UNKNOWN;
        const char *begin = text + strspn(text, " \r\n\t");
        char *answer;
        int r;

        if (size >= 8 && !memcmp(text, CAPO_LOG_MAGIC, 8)) {
                free(text);
                return take_log(in, path);
        }
        if (size > 2 && (uint8_t)text[0] == 0x80 && text[1] >= 2 && text[1] <= 5) {
                r = add_pickle(in, path, text, size);
                free(text);
                return r;
        }
        for (size_t i = 0; i < size; i++) /* searches end at a 0 */
                text[i] = text[i] ? text[i] : '?';
        if (*begin == '{')
                kind = kind_of_json(text);
        if (kind == CAPO_EVIDENCE_FLIGHT && strcmp(path, "-") != 0) {
                free(text);
                r = capo_evidence_add(&in->evidence, path, NULL);
                if (r < 0)
                        return r;
                in->evidence.texts[r].n[kind] = 1;
                return add_path(&in->flight, path);
        }
        if (kind == CAPO_EVIDENCE_RAS)
                return add_ras(in, path, text);
        answer = ras_begin(text);
        if (answer == text)
                return add_ras(in, path, text);
        if (answer) {
                char *copy = strdup(answer);

                r = copy ? add_ras(in, path, copy) : -ENOMEM;
                *answer = 0;
                if (r < 0) {
                        free(text);
                        return r;
                }
        }
        r = capo_evidence_add(&in->evidence, path, text);
        return r < 0 ? r : 0;
}

static int take_path(struct diagnose_inputs *in, const char *path, int depth);

static int take_folder(struct diagnose_inputs *in, const char *path, int depth)
{
        struct dirent **names = NULL;
        int n = scandir(path, &names, NULL, alphasort), r = 0;

        if (n < 0) {
                r = -errno;
                capo_warn("left out %s: %s", path, strerror(-r));
                return r == -ENOMEM ? r : 0;
        }
        for (int i = 0; i < n; i++) {
                _cleanup_free_ char *one = NULL;

                if (*names[i]->d_name != '.' && r == 0)
                        r = asprintf(&one, "%s/%s", path, names[i]->d_name) < 0
                                    ? -ENOMEM
                                    : take_path(in, one, depth + 1);
                free(names[i]);
        }
        free(names);
        return r;
}

static int take_path(struct diagnose_inputs *in, const char *path, int depth)
{
        const char *program;
        struct stat st;
        bool known = strcmp(path, "-") != 0 && stat(path, &st) == 0;
        char *text = NULL;
        size_t size;
        int r;

        if (known && S_ISDIR(st.st_mode))
                return depth < MOST_DEPTH ? take_folder(in, path, depth) : 0;
        if (known && depth && !S_ISREG(st.st_mode)) /* reading a broken link reports the error */
                return 0;
        if (capo_pack_is_name(path)) { /* logs packed by capo pack */
                in->n_files++;
                return take_log(in, path);
        }
        r = capo_file_is_fifo(path) ? -ESPIPE : capo_file_read(path, MOST_BYTES, &text, &size);
        if (r == 0 && (program = unpacker_of(text, size)) && strcmp(path, "-") != 0) {
                free(steal(&text));
                r = unpack_file(program, path, &text, &size);
                if (r > 0)
                        capo_warn("%s: truncated or damaged: only its first %zu bytes of text are "
                                  "read",
                                  path, size);
                if (r == -EBADMSG)
                        free(steal(&text));
        }
        if (r < 0) {
                capo_warn("left out %s: %s", path,
                          r == -E2BIG     ? "larger than 4 GiB"
                          : r == -EBADMSG ? "truncated or damaged, nothing can be decompressed"
                          : r == -ESPIPE  ? "a named pipe, not a regular file"
                                          : strerror(-r));
                return r == -ENOMEM ? r : 0;
        }
        in->n_files++;
        return take_bytes(in, path, text, size);
}

int diagnose_read(struct diagnose_inputs *in, int n, char **words)
{
        int r = 0;

        for (int i = 0; i < n && r == 0; i++)
                r = take_path(in, words[i], 0);
        if (r == 0 && !in->n_files)
                r = n == 1 ? capo_fail(-ENOENT, "%s: nothing could be read", words[0])
                           : capo_fail(-ENOENT, "nothing could be read in %d inputs", n);
        return r;
}

void diagnose_finish(struct diagnose_inputs *in)
{
        for (size_t i = 0; i < in->flight.n; i++) {
                if (*in->folder && !strncmp(in->flight.v[i], in->folder, strlen(in->folder)))
                        unlink(in->flight.v[i]);
                free(in->flight.v[i]);
        }
        for (size_t i = 0; i < in->logs.n; i++)
                free(in->logs.v[i]);
        free(in->flight.v);
        free(in->logs.v);
        if (*in->folder)
                rmdir(in->folder);
        capo_evidence_finish(&in->evidence);
}
