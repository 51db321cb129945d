/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking over, one thing at a time: what is reported of a segment, which numbers in it are not
 * believed, who counts as alive, and what the log gets. The segment is this process's own: its lock
 * does not keep it from itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "capo/msg.h"
#include "core/log/alive.h"
#include "analysis/log/recover.h"
#include "tests/unit/drained.h"

static struct capo_segment_info info;
static struct capo_log_end end;
static char texts[4096];
static unsigned n_cells;
static uint64_t counted;
static struct capo_record out[1024];

static void setup(void)
{
        drained_start(64, false);
        seg.header->ready = 1;
        strcpy(seg.header->host, "node-a");
}

TestSuite(take_over, .init = setup, .fini = drained_end);

static void keep_end(const struct capo_log_frame *f) { cr_assert_eq(capo_log_end(f, &end), 0); }

static void keep_text(const struct capo_log_frame *f)
{
        snprintf(texts + strlen(texts), sizeof texts - strlen(texts), "%.*s|", (int)f->size,
                 (const char *)f->payload);
}

static void keep_cell(const struct capo_log_frame *f)
{
        struct capo_log_hist_view host, gpu;
        struct capo_log_cell cell;

        cr_assert_eq(capo_log_cell(f, &cell, &host, &gpu), 0);
        n_cells++;
        counted += cell.count;
}

/* The segment recovered into its log; the calls in @out. */
static unsigned recover(void)
{
        unsigned n = 0;
        struct capo_log_columns c;
        struct capo_log_frame f;
        static struct capo_log_shape shapes[64];
        const struct capo_log_shape *s;
        struct capo_log *log;
        char why[256];

        cr_assert_eq(capo_segment_recover(seg.path, NULL, &info), 0);
        cr_assert_eq(capo_log_open(seg.header->log_path, &log, why, sizeof why), 0, "%s", why);
        while (capo_log_next(log, &f) > 0) {
                if (f.type == CAPO_FRAME_SHAPE) {
                        for (unsigned i = capo_log_shapes(&f, &s); i--; s++)
                                shapes[s->id] = *s;
                } else if (f.type == CAPO_FRAME_BLOCK && capo_log_block(&f, &c) == 0) {
                        for (uint32_t i = 0; i < c.n && n < 1024; i++)
                                capo_log_record(&c, i, &shapes[c.shape[i]], &out[n++]);
                }
        }
        capo_log_close(log);
        n_cells = 0;
        counted = 0;
        texts[0] = 0;
        frames(CAPO_FRAME_CELL, keep_cell);
        frames(CAPO_FRAME_END, keep_end);
        frames(CAPO_FRAME_INFO, keep_text);
        return n;
}

static void calls(unsigned n)
{
        for (unsigned i = 0; i < n; i++) {
                struct capo_record r = call_at(100 * (uint64_t)made, 10);

                r.bytes = 64u << made % 4;
                put(r);
        }
}

/* ---- what is reported ---- */

static unsigned n_found;

static int keep_found(const struct capo_segment_info *i, void *stop)
{
        info = *i;
        n_found++;
        return stop ? 7 : 0;
}

static int find(const char *log_dir)
{
        n_found = 0;
        return capo_segment_find(dir, log_dir, false, keep_found, NULL);
}

Test(take_over, what_is_reported_of_a_segment)
{
        char other[64], sub[64];

        calls(5);
        ring->tail = 2;
        cr_assert_eq(find(NULL), 1);
        cr_expect(info.pid == getpid() && info.records == 3);
        cr_expect_str_eq(info.path, seg.path);
        cr_expect_str_eq(info.host, "node-a");
        cr_expect_str_eq(info.log_path, seg.header->log_path);
        cr_expect_eq(capo_segment_find(dir, NULL, false, keep_found, dir), 7,
                     "who stops the search says with what");
        snprintf(sub, sizeof sub, "%s/sub", dir);
        snprintf(other, sizeof other, "%s/xapo-%u-1-1", dir, (unsigned)geteuid());
        cr_assert(mkdir(sub, 0700) == 0 && link(seg.path, other) == 0);
        cr_expect_eq(find(dir), 1, "one of another name is none");
        cr_expect_eq(find(sub), 0);
        cr_expect_eq(find("/tmp"), 0);
        cr_expect_eq(find("/nonexistent"), 0);
        strcpy(seg.header->log_path, "no-folder");
        cr_expect_eq(find(dir), 0);
        cr_expect_eq(find(NULL), 1);
        cr_expect_eq(capo_segment_find("/nonexistent", NULL, false, keep_found, NULL), -ENOENT);
        cr_expect_eq(n_found, 1);
}

/* ---- who lives ---- */

Test(take_over, a_living_process_is_left_alone)
{
        for (int how = 0; how < 5; how++) { /* it has its lock; it lost it; that was before a
                                               restart; elsewhere; its lock alone */
                struct capo_segment theirs;
                int ends[2], status;
                pid_t child;
                char byte;

                cr_assert_eq(pipe(ends), 0);
                child = fork();
                if (!child) {
                        struct capo_segment_config config = {.ring_bytes = 4096,
                                                             .flight_records = 64};

                        if (capo_segment_create(&theirs, dir, &config) || theirs.fd < 0)
                                _exit(1);
                        theirs.header->ready = 1;
                        if (how && how < 4)
                                close(theirs.fd);
                        if (how == 2 || how == 4)
                                theirs.header->boot_id[0] ^= 1;
                        if (how == 3)
                                theirs.header->pid_ns++;
                        if (write(ends[1], theirs.path, sizeof theirs.path) < 0)
                                _exit(1);
                        pause();
                }
                cr_assert_eq(read(ends[0], theirs.path, sizeof theirs.path), sizeof theirs.path);
                strcpy(seg.header->magic, "mine");
                cr_expect_eq(find(NULL), how == 2 || how == 3, "%d", how);
                cr_expect_eq(capo_segment_recover(theirs.path, NULL, NULL),
                             how == 2 || how == 3 ? -ENOENT : -EBUSY,
                             "it names no log, but so far one comes only when it is dead: %d", how);
                kill(child, SIGKILL);
                cr_assert(waitpid(child, &status, 0) == child);
                cr_expect_eq(find(NULL), 1, "%d", how);
                cr_expect_eq(unlink(theirs.path), 0);
                close(ends[1]);
                cr_expect_eq(read(ends[0], &byte, 1), 0);
                close(ends[0]);
        }
}

Test(take_over, one_that_only_waits_for_its_parent_is_dead)
{
        siginfo_t ended;
        pid_t child = fork();

        if (!child)
                _exit(0);
        cr_assert_eq(waitid(P_PID, (id_t)child, &ended, WEXITED | WNOWAIT), 0);
        cr_expect_eq(capo_alive_since(child), 0);
        cr_assert_eq(waitpid(child, NULL, 0), child);
        cr_expect_eq(capo_alive_since(child), 0);
}

static void *last_of_all(void *arg)
{
        const int *ends = arg;
        char byte;

        for (int i = 0; i < 6000 && !capo_alive_last(1); i++)
                usleep(10000);
        if (!capo_alive_last(1) || write(ends[1], "", 1) != 1 || read(ends[2], &byte, 1) != 1)
                _exit(1);
        return NULL;
}

Test(take_over, one_whose_first_thread_has_ended_lives)
{
        int ends[4]; /* of two pipes */
        pthread_t t;
        pid_t child;
        char byte;

        cr_assert(pipe(ends) == 0 && pipe(ends + 2) == 0);
        cr_expect_not(capo_alive_last(1));
        child = fork();
        if (!child) {
                pthread_create(&t, NULL, last_of_all, ends);
                pthread_exit(NULL);
        }
        cr_assert_eq(read(ends[0], &byte, 1), 1);
        cr_expect_gt(capo_alive_since(child), 0);
        cr_assert_eq(write(ends[3], "", 1), 1);
        cr_assert_eq(waitpid(child, NULL, 0), child);
        cr_expect_eq(capo_alive_since(child), 0);
}

Test(take_over, when_a_process_began_whatever_it_is_called)
{
        char text[1024], name[16] = "a) R 1 (2";
        const char *at;

        cr_assert_eq(prctl(PR_SET_NAME, name), 0);
        cr_assert_gt(capo_alive_text("/proc/self/stat", text, sizeof text), 0);
        at = strrchr(text, ')');
        for (int field = 2; field < 22; field++)
                at = strchr(at + 1, ' ');
        cr_expect_eq(capo_alive_since(getpid()), strtoull(at + 1, NULL, 10));
}

Test(take_over, a_short_text)
{
        static const struct {
                const char *file, *text;
                size_t room;
        } rows[] = {{"", "", 10},
                    {"one\n", "one", 10},
                    {"one\n\n", "one", 10},
                    {"\n", "", 10},
                    {"0123456789", "01234", 6}};
        char path[64], text[16];

        snprintf(path, sizeof path, "%s/text", dir);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                FILE *f = fopen(path, "w");

                fputs(rows[i].file, f);
                fclose(f);
                memset(text, 'x', sizeof text);
                errno = EIO;
                cr_expect_eq(capo_alive_text(path, text, rows[i].room), (int)strlen(rows[i].text),
                             "row %zu", i);
                cr_expect_str_eq(text, rows[i].text);
        }
        cr_expect_eq(capo_alive_text(dir, text, sizeof text), -EISDIR);
}

/* ---- what is not believed ---- */

#define AREA(id) h->areas[CAPO_AREA_##id]

Test(take_over, numbers_that_no_segment_of_ours_has)
{
        struct capo_segment_header *h = seg.header, good;

        calls(3);
        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_TEXT, AREA(TEXT).capacity), 0);
        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_KEPT, AREA(KEPT).capacity), 0);
        good = *h;
#define REFUSED(change)                                                                            \
        do {                                                                                       \
                change;                                                                            \
                cr_expect_eq(capo_segment_recover(seg.path, NULL, NULL), -EBADMSG, "%s", #change); \
                *h = good;                                                                         \
        } while (0)
        REFUSED(h->magic[7] ^= 1);
        REFUSED(h->version++);
        REFUSED(h->header_size += 8);
        REFUSED(h->ready = 0);
        REFUSED(h->ring_records = 0);
        REFUSED(h->ring_records = 255);
        REFUSED(h->ring_records = 4096);
        REFUSED(h->flight_records = 0);
        REFUSED(h->flight_records = 63);
        REFUSED(h->flight_records = 32);
        REFUSED(h->flight_records = 128);
        REFUSED(h->flight_keep = 65);
        REFUSED(h->commit_now = 2);
        for (int i = 0; i < CAPO_AREAS; i++) {
                REFUSED(h->areas[i].offset += 4096);
                REFUSED(h->areas[i].item++);
                REFUSED(h->areas[i].capacity--);
                REFUSED(h->areas[i].committed = h->areas[i].capacity + 1);
        }
        REFUSED(AREA(RINGS).committed = AREA(RINGS).used = 2); /* the file is shorter */
        REFUSED(h->kept_now = 3);
        REFUSED(h->kept_now = 1; h->kept_size[0] = CAPO_KEPT_HALF + 1);
        REFUSED(h->kept_now = 2; h->kept_size[1] = CAPO_KEPT_HALF; AREA(KEPT).committed--);
        REFUSED(AREA(FLIGHT).committed = 32; h->flight_head = 33);
        REFUSED(AREA(TEXT).committed = 7; h->text_head = 8);
        REFUSED(h->text_head = 8; h->commit[h->commit_now].text_tail = 16);
        REFUSED(h->text_head = AREA(TEXT).capacity + 1ul);
        REFUSED(h->commit[h->commit_now].flight_tail = 1);
        cr_assert_eq(access(seg.path, F_OK), 0);
        /* and each at its border */
        h->kept_now = 2;
        h->kept_size[1] = CAPO_KEPT_HALF;
        h->text_head = AREA(TEXT).capacity;
        h->flight_keep = 64;
        AREA(SITES).used = 5; /* more than have memory */
        AREA(COMMS).used = 5;
        AREA(CELLS).used = 70000;
        recover();
        cr_expect(end.calls == 3 && counted == 3);
}

/* Where memory was short some of the areas never were in the file; a file with holes is read, not
 * mapped. */
Test(take_over, a_file_with_holes)
{
        calls(200);
        capo_drain_round(drain);
        calls(50);
        seg.header->went_private = 1;
        cr_assert_eq(recover(), 64);
        cr_expect(end.calls == 250 && counted == 250 && n_cells == 4);
        cr_expect_eq(out[63].seq, 250);
        cr_expect(strstr(texts, "recording.memory\tfull\n"));
}

/* ---- what the log gets ---- */

Test(take_over, the_log_goes_on_where_it_was)
{
        calls(10);
        capo_drain_round(drain);
        cr_assert_eq(capo_drain_checkpoint(drain), 0);
        seg.header->commit[seg.header->commit_now].flight_tail =
                4; /* as if so many were in the file */
        calls(3);
        cr_assert_eq(recover(), 9);
        cr_expect(out[0].seq == 5 && out[8].seq == 13);
        cr_expect(end.calls == 13 && end.clean == 2 && counted == 10 + 13);
        cr_expect_eq(n_cells, 8, "each cell before and after, and no other");
        cr_expect_eq(info.records, 3);
}

/* A disk that is full at the exit: what is not in the log is in the segment, all of it. */
Test(take_over, what_found_no_room)
{
        struct rlimit limit, before;

        calls(10);
        capo_drain_round(drain);
        cr_assert_eq(capo_drain_checkpoint(drain), 0);
        calls(40);
        capo_drain_round(drain);
        cr_assert_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
        limit = before;
        limit.rlim_cur = seg.header->commit[seg.header->commit_now].log_bytes + 100;
        capo_msg_set_level(CAPO_ERROR);
        cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0); /* no signal comes of it, either */
        cr_expect_eq(capo_drain_finish(drain, 1), -EFBIG);
        cr_assert_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
        cr_assert_eq(recover(), 50);
        cr_expect(end.calls == 50 && end.clean == 2);
        cr_expect(out[0].seq == 1 && out[49].seq == 50);
}

/* And where the files may not be as long as the segment's layout: it lives on, and what is in the
 * file is taken. */
Test(take_over, a_file_that_may_not_grow)
{
        struct capo_area *rings = &seg.header->areas[CAPO_AREA_RINGS];
        struct rlimit limit, before;

        calls(10);
        capo_drain_round(drain);
        capo_msg_set_level(CAPO_ERROR);
        cr_assert_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
        limit = before;
        limit.rlim_cur = rings->offset;
        cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_RINGS, 40), 0);
        cr_assert_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
        cr_expect_eq(seg.header->went_private, 1);
        rings->used = 40;
        memset(capo_area_at(&seg, CAPO_AREA_RINGS, 39), 0, rings->item);
        cr_assert_eq(recover(), 10);
        cr_expect_eq(end.calls, 10);
}

Test(take_over, a_log_that_is_gone_is_made_again)
{
        calls(10);
        capo_drain_round(drain);
        cr_assert_eq(capo_drain_checkpoint(drain), 0);
        seg.header->commit[seg.header->commit_now].flight_tail = 4;
        cr_assert_eq(unlink(seg.header->log_path), 0);
        cr_assert_eq(recover(), 10, "all that is kept");
        cr_expect(end.calls == 10 && counted == 10 && n_cells == 4);
}

Test(take_over, into_another_log)
{
        char path[128], why[256];
        static char long_path[1100];
        struct capo_log *log;

        calls(2);
        memset(long_path, 'a', sizeof long_path - 1);
        cr_expect_eq(capo_segment_recover(seg.path, long_path, NULL), -ENAMETOOLONG);
        snprintf(path, sizeof path, "%s/other.capo", dir);
        cr_assert_eq(capo_segment_recover(seg.path, path, &info), 0);
        cr_expect_str_eq(info.log_path, path);
        cr_assert_eq(capo_log_open(path, &log, why, sizeof why), 0, "%s", why);
        capo_log_close(log);
        cr_expect_eq(capo_segment_recover(seg.path, path, &info), -ESTALE);
}

Test(take_over, a_clock_that_was_not_ready)
{
        calls(2);
        seg.header->clock.ns_per_tick = 0;
        cr_assert_eq(recover(), 2);
        cr_expect_gt(end.ticks_per_s, 0);
}

/* Calls that had returned and were waiting for their time on the GPU: their host times are all
 * there will be. */
Test(take_over, calls_on_the_gpu)
{
        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_SLOTS, 3), 0);
        seg.header->areas[CAPO_AREA_SLOTS].used = 3;
        for (uint32_t i = 0; i < 3; i++) {
                struct capo_slot *slot = capo_area_at(&seg, CAPO_AREA_SLOTS, i);

                slot->record = call_at(100 * i, 10);
                slot->record.clock = CAPO_CLOCK_EVENT;
                slot->record.gpu_ns = 500;
                slot->record.flags = i == 1 ? CAPO_RECORD_MEMBER : 0;
                slot->state = i == 2 ? CAPO_SLOT_DONE : CAPO_SLOT_ARMED;
        }
        cr_assert_eq(recover(), 3);
        cr_expect(out[0].clock == CAPO_CLOCK_HOST && out[0].gpu_ns == 0);
        cr_expect(out[1].clock == CAPO_CLOCK_NONE && out[1].gpu_ns == 0);
        cr_expect(out[2].clock == CAPO_CLOCK_EVENT && out[2].gpu_ns == 500);
}

Test(take_over, what_it_was_in)
{
        calls(2);
        ring->records[2] = call_at(5000, 10);
        ring->records[2].t_end = 0;
        cr_assert_eq(recover(), 2);
        cr_expect(strstr(texts, "unfinished+\thost 9 AllReduce 3 1 4096 5000"), "%s", texts);
}

/* Behind a hundred names come names that nobody else has: as many processes as one likes may call
 * themselves the same. */
Test(take_over, all_names_are_taken)
{
        char path[128], before[1024] = "";

        for (int i = 1; i < 99; i++) {
                snprintf(path, sizeof path, "%s/d.%d.capo", dir, i);
                close(open(path, O_CREAT | O_WRONLY, 0600));
        }
        for (int i = 0; i < 4; i++) {
                struct capo_drain *second;

                snprintf(seg.header->log_path, sizeof seg.header->log_path, "%s/d.capo", dir);
                cr_assert_eq(capo_drain_new(&seg, &second), 0);
                cr_expect_eq(capo_drain_create_log(second), 0);
                capo_drain_finish(second, 1);
                capo_drain_free(second);
                snprintf(path, sizeof path, "%s/d.99.capo", dir);
                cr_expect_eq(!strcmp(seg.header->log_path, path), i == 0);
                cr_expect_eq(access(seg.header->log_path, R_OK), 0);
                cr_expect_str_neq(seg.header->log_path, before);
                strcpy(before, seg.header->log_path);
        }
}
