/* SPDX-License-Identifier: Apache-2.0 */
/* Logs of several processes in one compressed file: what comes out is what went in, logs that are
 * not finished stay, and damage takes no other log along. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analysis/log/log_find.h"
#include "analysis/log/pack.h"
#include "core/base/file.h"
#include "tests/golden/gen_log.h"

enum { LOGS = 4 };
static char dir[] = "/tmp/capo-pack-XXXXXX", before[] = "/tmp/capo-unpacked-XXXXXX";

static void run(const char *format, const char *a, const char *b)
{
        char command[256];

        snprintf(command, sizeof command, format, a, b);
        cr_assert_eq(system(command), 0, "%s", command);
}

/* A job of two nodes, and a copy of its logs. */
static void made(void)
{
        struct gen_job job = {.dir = dir,
                              .layout = (unsigned[]){2, 2},
                              .n_nodes = 2,
                              .n_steps = 200,
                              .sizes = (uint64_t[]){4096},
                              .n_sizes = 1,
                              .trace = true};

        cr_assert(mkdtemp(dir) && mkdtemp(before));
        gen_job_write(&job);
        run("cp -p %s/*.capo %s", dir, before);
}

static void gone(void) { run("rm -rf %s %s", dir, before); }

TestSuite(pack, .init = made, .fini = gone);

static struct capo_pack_event events[16];
static unsigned n_events[CAPO_PACK_FAILED + 1];

static void note(const struct capo_pack_event *event, void *unused)
{
        events[n_events[event->what]++ % 16] = *event;
}

static size_t find(const char *what, struct capo_log_paths *paths)
{
        char *arg = (char *)(uintptr_t)what, why[512];

        cr_assert_eq(capo_log_find(&arg, 1, paths, why, sizeof why), 0, "%s", why);
        return paths->n;
}

static unsigned frames_of(struct capo_log *log)
{
        struct capo_log_frame f;
        unsigned n = 0;

        capo_log_rewind(log);
        while (capo_log_next(log, &f) > 0)
                n++;
        return n;
}

/* A list says what would be made, and every log stays where it is. */
Test(pack, preview_packs_nothing)
{
        struct capo_log_paths paths = {0};

        cr_assert_eq(capo_pack_folder(dir, true, true, note, NULL), 0);
        cr_expect_eq(n_events[CAPO_PACK_MADE], 2);
        cr_expect_eq(events[0].n, 2);
        cr_expect(events[0].from > 0 && events[0].to == 0);
        cr_expect_eq(find(dir, &paths), LOGS);
        for (size_t i = 0; i < paths.n; i++)
                cr_expect(!strstr(paths.path[i], CAPO_PACK_SUFFIX), "%s", paths.path[i]);
        capo_log_paths_finish(&paths);
}

Test(pack, what_comes_out_went_in)
{
        struct capo_log_paths plain = {0}, packed = {0};
        char pack[64];

        cr_assert_eq(capo_pack_folder(dir, true, false, note, NULL), 0);
        cr_expect_eq(n_events[CAPO_PACK_MADE], 2, "a file for each node");
        cr_expect_eq(n_events[CAPO_PACK_LEFT], 0);
        run("test -z \"$(find %s -name '*.capo')\"", dir, "");
        cr_assert_eq(find(before, &plain), LOGS);
        cr_assert_eq(find(dir, &packed), LOGS);
        for (size_t i = 0; i < LOGS; i++) {
                struct capo_log *a, *b;
                char why[256];

                cr_assert_eq(capo_log_paths_open(&plain, i, &a, why, sizeof why), 0);
                cr_assert_eq(capo_log_paths_open(&packed, i, &b, why, sizeof why), 0, "%s", why);
                cr_expect_eq(capo_log_size(a), capo_log_size(b));
                cr_expect(capo_log_begins_with(a, b));
                capo_log_park(b);
                cr_expect_eq(frames_of(a), frames_of(b));
                cr_expect_str_eq(strrchr(packed.path[i], '/'), strrchr(plain.path[i], '/'));
        }
        cr_expect_eq(capo_log_folder_size(packed.path[0]), strlen(dir));
        snprintf(pack, sizeof pack, "%.*s", (int)(strrchr(packed.path[0], '/') - packed.path[0]),
                 packed.path[0]);
        capo_log_paths_finish(&plain);
        capo_log_paths_finish(&packed);
        cr_assert_eq(capo_pack_undo(pack, note, NULL), 0);
        cr_assert_eq(capo_pack_folder(dir, true, false, note, NULL), 0);
        run("for p in %s/*.zst; do ls $p; done | wc -l | grep -qx 2", dir, "");
}

Test(pack, two_jobs_make_two_files)
{
        struct capo_log_paths paths = {0};

        cr_assert_eq(capo_pack_folder(dir, true, false, NULL, NULL), 0);
        run("cp -p %s/*.capo %s", before, dir);
        cr_assert_eq(capo_pack_folder(dir, true, false, note, NULL), 0);
        cr_expect_eq(n_events[CAPO_PACK_MADE], 2);
        run("test $(ls %s/*.capo.zst | wc -l) = 4", dir, "");
        cr_expect_eq(find(dir, &paths), LOGS, "a log that is there twice is read once");
        capo_log_paths_finish(&paths);
}

Test(pack, what_is_not_finished_stays)
{
        run("log=$(ls %s/*.capo | head -n 1); head -c -9 $log >$log.x; mv $log.x $log", dir, "");
        cr_assert_eq(capo_pack_folder(dir, true, false, note, NULL), 0);
        cr_expect_eq(n_events[CAPO_PACK_LEFT], 1);
        run("test $(ls %s/*.capo | wc -l) = 1", dir, "");
        cr_assert_eq(capo_pack_folder(dir, false, false, note, NULL), 0);
        cr_expect_eq(n_events[CAPO_PACK_MADE], 2, "made hosts are other nodes");
}

/* A packer at work, or what a killed one left. */
Test(pack, another_packer)
{
        run("for h in $(ls %s | cut -d. -f1 | sort -u); do touch %s/.$h.capo.zst.part; done", dir,
            dir);
        cr_assert_eq(capo_pack_folder(dir, true, false, note, NULL), 0);
        cr_expect_eq(n_events[CAPO_PACK_MADE], 0);
        run("touch -d '1 hour ago' %s/.*.part", dir, "");
        cr_assert_eq(capo_pack_folder(dir, true, false, note, NULL), 0);
        cr_expect_eq(n_events[CAPO_PACK_MADE], 2);
        run("test -z \"$(find %s -name '*.part')\"", dir, "");
}

/* Whatever byte is wrong, all logs but at most one are read whole, and nothing is made up. */
Test(pack, damage_takes_no_other_log_along, .timeout = 120)
{
        struct capo_log_paths paths = {0};
        char pack[128], why[256], *bytes = NULL;
        struct capo_pack list;
        unsigned whole;
        off_t quarter;
        size_t n;

        cr_assert_eq(capo_pack_folder(dir, true, false, NULL, NULL), 0);
        cr_assert_eq(find(dir, &paths), LOGS);
        cr_assert_eq(capo_log_paths_open(&paths, 0, &(struct capo_log *){NULL}, why, sizeof why),
                     0);
        whole = frames_of(paths.log[0]);
        snprintf(pack, sizeof pack, "%.*s", (int)(strrchr(paths.path[0], '/') - paths.path[0]),
                 paths.path[0]);
        capo_log_paths_finish(&paths);
        cr_assert_eq(capo_file_read(pack, 1 << 30, &bytes, &n), 0);
        cr_assert_gt(n, 1000);
        for (size_t at = 0; at < n; at += n / 40) {
                FILE *f = fopen(pack, "w");
                unsigned good = 0;

                bytes[at] ^= 0x55;
                cr_assert(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
                bytes[at] ^= 0x55;
                if (capo_pack_list(pack, &list, why, sizeof why) == 0) {
                        for (size_t i = 0; i < list.n; i++) {
                                struct capo_log *log;

                                if (capo_log_open_packed(pack, &list.v[i], &log, why, sizeof why) <
                                    0)
                                        continue;
                                good += frames_of(log) == whole;
                                capo_log_close(log);
                        }
                }
                capo_pack_finish(&list);
                cr_expect_geq(good, 1, "byte %zu of %zu", at, n);
        }
        free(bytes);
        quarter = (off_t)(n / 4);
        cr_assert_eq(truncate(pack, quarter), 0);
        cr_expect_eq(capo_pack_list(pack, &list, why, sizeof why), 0,
                     "the first is there in part: %s", why);
        capo_pack_finish(&list);
        cr_assert_eq(truncate(pack, 7), 0);
        cr_expect_lt(capo_pack_list(pack, &list, why, sizeof why), 0);
        cr_expect(*why);
        capo_pack_finish(&list);
}
