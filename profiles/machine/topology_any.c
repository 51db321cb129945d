/* SPDX-License-Identifier: Apache-2.0 */
/* Detects the format of a file by its first characters, never by its name. Also makes racks, which
 * no file describes. */
#include "core/base/among.h"
#include "core/base/file.h"
#include "core/base/xalloc.h"
#include "profiles/machine/platform.h"
#include "profiles/machine/topology_nccl.h"

/* The text of `nvidia-smi topo -m`: a matrix of words between GPUs and NICs, with terminal escapes
 * around its heading. It names neither GPU model nor switches. If the NV# of a GPU with all others
 * would need more than 18 links (no GPU has more), the GPUs are connected by a switch. The
 * generation follows from the largest number of ports (4 P100, 6 V100, 12 A100, 18 H100). The
 * caller can give the bandwidth of a link. */
#define COLUMNS 256
#define PORTS   18

/* Remove ESC [ ... letter. */
static void strip_escapes(char *line)
{
        char *to = line;

        for (const char *p = line; *p;) {
                if (p[0] == '\033') {
                        p++;
                        if (*p == '[') {
                                p++;
                                while (*p && !isalpha((unsigned char)*p))
                                        p++;
                        }
                        p += *p != 0;
                        continue;
                }
                *to++ = *p++;
        }
        *to = 0;
}

static enum capo_path path_of(const char *word)
{
        static const enum capo_path paths[] = {CAPO_PATH_PIX, CAPO_PATH_PXB, CAPO_PATH_PHB,
                                               CAPO_PATH_NODE, CAPO_PATH_SYS};

        const enum capo_path *path =
                FIRST_OF(p, paths, N_ELEMENTS(paths), !strcmp(word, capo_path_name(*p)));

        return path                   ? *path
               : !strcmp(word, "SOC") ? CAPO_PATH_SYS /* its name before driver 396 */
                                      : CAPO_PATH_UNKNOWN;
}

struct matrix {
        size_t n_gpus, n_columns; /* device columns: GPUs and NICs */
        char names[COLUMNS][40];
        int bricks[COLUMNS][COLUMNS];
        uint8_t path[COLUMNS][COLUMNS];
        int line[COLUMNS];
        bool row[COLUMNS];
};

static bool is_device(const char *word)
{
        return !strncmp(word, "GPU", 3) ? isdigit((unsigned char)word[3])
                                        : !strncmp(word, "NIC", 3) || !strncmp(word, "mlx", 3) ||
                                                  !strncmp(word, "ib", 2);
}

static int read_row(struct topology_build *b, struct matrix *m, char **words, size_t n, int line)
{
        size_t row = 0;

        while (row < m->n_columns && strcmp(m->names[row], words[0]) != 0)
                row++;
        if (row == m->n_columns)
                return 0; /* the legend, or another table */
        if (n < m->n_columns + 1)
                return topology_fail(b, line, "expected %zu entries for %s, found %zu",
                                     m->n_columns, words[0], n - 1);
        if (m->row[row])
                return topology_fail(b, line, "expected one row for %s, found a second", words[0]);
        m->row[row] = true;
        m->line[row] = line;
        for (size_t k = 0; k < m->n_columns; k++) {
                const char *w = words[k + 1];

                m->path[row][k] = CAPO_PATH_UNKNOWN;
                if (!strcmp(w, "X")) {
                        if (k != row)
                                return topology_fail(
                                        b, line, "expected X under %s itself, found it under %s",
                                        words[0], m->names[k]);
                        m->path[row][k] = CAPO_PATH_SELF;
                } else if (!strncmp(w, "NV", 2) && isdigit((unsigned char)w[2])) {
                        m->bricks[row][k] = atoi(w + 2);
                        if (m->bricks[row][k] < 1 || m->bricks[row][k] > PORTS)
                                return topology_fail(b, line, "expected NV1 to NV%d, found %s",
                                                     PORTS, w);
                } else {
                        m->path[row][k] = path_of(w);
                        if (m->path[row][k] == CAPO_PATH_UNKNOWN)
                                return topology_fail(
                                        b, line,
                                        "expected X, NV#, PIX, PXB, PHB, NODE or SYS under %s, found \"%s\"",
                                        m->names[k], w);
                }
        }
        return 0;
}

static int read_lines(struct topology_build *b, struct matrix *m, char *text)
{
        char *words[COLUMNS];
        int number = 0, r = 0;

        for (char *line; !r && (line = strsep(&text, "\n")) && (*line || text);) {
                size_t n = 0;

                number++;
                strip_escapes(line);
                for (char *save, *w = strtok_r(line, " \t\r\n", &save); w && n < COLUMNS;
                     w = strtok_r(NULL, " \t\r\n", &save))
                        words[n++] = w;
                if (n && m->n_columns) {
                        r = read_row(b, m, words, n, number);
                        continue;
                }
                for (; m->n_columns < n && is_device(words[m->n_columns]); m->n_columns++) {
                        snprintf(m->names[m->n_columns], sizeof m->names[0], "%s",
                                 words[m->n_columns]);
                        m->n_gpus += !strncmp(words[m->n_columns], "GPU", 3);
                }
        }
        if (r < 0)
                return r;
        if (!m->n_gpus)
                return topology_fail(
                        b, 0,
                        "expected the matrix of nvidia-smi topo -m (a heading GPU0 GPU1 ...), or "
                        "XML; found neither");
        for (size_t i = 0; i < m->n_gpus; i++) {
                if (!m->row[i])
                        return topology_fail(b, number, "expected a row for %s, found none",
                                             m->names[i]);
                for (size_t j = 0; j < i; j++) {
                        if (m->bricks[i][j] != m->bricks[j][i] || m->path[i][j] != m->path[j][i])
                                return topology_fail(
                                        b, m->line[i],
                                        "expected %s and %s joined the same both ways, found two answers "
                                        "(the other in line %d)",
                                        m->names[i], m->names[j], m->line[j]);
                }
        }
        return 0;
}

static void add_switch_link(struct topology_build *b, int gpu, int count, int line)
{
        *TOPOLOGY_GROW(b->halves, b->n_halves) = (struct half_link){.from = gpu,
                                                                    .count = count,
                                                                    .line = line,
                                                                    .to = "nvswitch",
                                                                    .class_text = "0x068000"};
}

static void build_from_matrix(struct topology_build *b, const struct matrix *m)
{
        size_t n = m->n_gpus, n_nics = m->n_columns - n;
        int most = 0;
        bool switched = false;

        for (size_t i = 0; i < n; i++) {
                int sum = 0, top = 0;

                for (size_t j = 0; j < n; j++) {
                        sum += m->bricks[i][j];
                        top = m->bricks[i][j] > top ? m->bricks[i][j] : top;
                }
                switched |= sum > PORTS;
                most = sum > most ? sum : most;
                if (switched && top > 0)
                        most = top;
        }
        for (size_t i = 0; i < n; i++) {
                struct capo_topology_gpu *g = topology_add_gpu(b);

                g->dev = atoi(m->names[i] + 3);
                g->sm = most >= 18 ? 90 : most >= 8 ? 80 : most >= 5 ? 70 : most ? 60 : 0;
                snprintf(g->busid, sizeof g->busid, "gpu%d", g->dev);
        }
        for (size_t i = 0; i < n; i++) {
                int top = 0;

                for (size_t j = 0; j < n; j++) {
                        struct half_link *h;

                        top = m->bricks[i][j] > top ? m->bricks[i][j] : top;
                        if (switched || !m->bricks[i][j])
                                continue;
                        h = TOPOLOGY_GROW(b->halves, b->n_halves);
                        h->from = (int)i;
                        h->count = m->bricks[i][j];
                        h->line = m->line[i];
                        snprintf(h->to, sizeof h->to, "gpu%d", atoi(m->names[j] + 3));
                }
                if (switched && top)
                        add_switch_link(b, (int)i, top, m->line[i]);
        }
        for (size_t k = 0; k < n_nics; k++) {
                struct capo_topology_nic *nic = topology_add_nic(b);

                nic->dev = (int)k;
                snprintf(nic->name, sizeof nic->name, "%s", m->names[n + k]);
        }
        b->t->gpu_path = xmalloc(n * n + 1);
        b->t->nic_path = xmalloc(n * n_nics + 1);
        for (size_t i = 0; i < n; i++) {
                for (size_t j = 0; j < n; j++)
                        b->t->gpu_path[i * n + j] = m->path[i][j];
                for (size_t k = 0; k < n_nics; k++)
                        b->t->nic_path[i * n_nics + k] = m->path[i][n + k];
        }
}

int capo_topology_read(const char *path, unsigned flags, double brick_gbs,
                       struct capo_topology **out, char *why, size_t room)
{
        _cleanup_free_ char *text = NULL;
        struct topology_build b;
        const char *begin;
        size_t size;
        int r = capo_file_read(path, 64 << 20, &text, &size);

        if (r == -ESPIPE)
                return capo_why(-EINVAL, why, room, "%s: is a pipe; expected a file, or -", path);
        if (r < 0)
                return capo_why(r, why, room, "%s: %s", path,
                                r == -E2BIG ? "too large" : strerror(-r));
        topology_build_begin(&b, path, flags, brick_gbs, why, room);
        begin = text + strspn(text, " \t\r\n\xef\xbb\xbf");
        if (size && *begin != '<') {
                _cleanup_free_ struct matrix *m = xcalloc(1, sizeof *m);

                for (size_t i = 0; i < size; i++) /* a text does not end at a byte of 0 */
                        text[i] = text[i] ? text[i] : ' ';
                r = read_lines(&b, m, text);
                if (!r)
                        build_from_matrix(&b, m);
                r = topology_build_end(&b, r, out);
                if (!r && brick_gbs <= 0 && (*out)->brick_gbs > 0)
                        (*out)->brick_source =
                                "NCCL's planning constant for the generation guessed from the link counts";
                return r;
        }
        return topology_build_end(&b, topology_read_nccl(&b, text, size), out);
}

/* One NVLink domain over many trays: all GPUs on one switch. */
int capo_topology_made(const char *name, double brick_gbs, struct capo_topology **out, char *why,
                       size_t room)
{
        const struct capo_platform *p = capo_platform_find(name);
        struct topology_build b;

        if (!p || p->from != CAPO_PLATFORM_RACK)
                return -ENOENT;
        topology_build_begin(&b, p->name, 0, brick_gbs, why, room);
        for (int k = 0; k < p->n_gpus; k++) {
                struct capo_topology_gpu *gpu = topology_add_gpu(&b);

                gpu->dev = k;
                gpu->sm = p->sm;
                snprintf(gpu->busid, sizeof gpu->busid, "gpu%d", k);
                add_switch_link(&b, k, p->to_switch[0], 0);
        }
        return topology_build_end(&b, 0, out);
}
