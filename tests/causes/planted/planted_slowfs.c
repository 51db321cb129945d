/* SPDX-License-Identifier: Apache-2.0 */
/*
 * planted_slowfs FOLDER: a file system (FUSE, without libfuse) whose files are slow by their names.
 * "d30-anything": each read, write and fsync of it takes 30 ms, without processor. Each name exists,
 * has 1 GiB of zeros, and takes what is written. Nothing is cached. Prints "mounted", ends with its
 * parent.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { NAMES = 256, ROOM = (1 << 20) + 4096 };

static int dev;
static char names[NAMES][64];
static int n_names = 2; /* 1 is the folder */

struct later {
        struct fuse_out_header head;
        void *body;
        long ms;
};

static void answer(uint64_t unique, int error, const void *body, size_t bytes)
{
        struct fuse_out_header h = {(uint32_t)(sizeof h + bytes), -error, unique};
        struct iovec v[2] = {{&h, sizeof h}, {(void *)body, bytes}};

        if (writev(dev, v, bytes ? 2 : 1) < 0 && errno == ENODEV)
                exit(0);
}

static void *answer_later(void *arg)
{
        struct later *l = arg;
        struct timespec t = {l->ms / 1000, l->ms % 1000 * 1000000};

        nanosleep(&t, NULL);
        answer(l->head.unique, 0, l->body, l->head.len);
        free(l->body);
        free(l);
        return NULL;
}

static void answer_in(long ms, uint64_t unique, const void *body, size_t bytes)
{
        struct later *l;
        pthread_t t;

        if (ms <= 0) {
                answer(unique, 0, body, bytes);
                return;
        }
        l = malloc(sizeof *l);
        *l = (struct later){{(uint32_t)bytes, 0, unique}, malloc(bytes + 1), ms};
        memcpy(l->body, body, bytes);
        if (!pthread_create(&t, NULL, answer_later, l))
                pthread_detach(t);
}

static uint64_t node_of(const char *name)
{
        for (int i = 2; i < n_names; i++)
                if (!strcmp(names[i], name))
                        return (uint64_t)i;
        if (n_names == NAMES)
                n_names = NAMES - 1;
        snprintf(names[n_names], sizeof names[0], "%.60s", name);
        return (uint64_t)n_names++;
}

static long delay_of(uint64_t node)
{
        return node > 1 && node < NAMES && names[node][0] == 'd' ? atol(names[node] + 1) : 0;
}

static struct fuse_attr attr_of(uint64_t node)
{
        return (struct fuse_attr){.ino = node,
                                  .size = node == 1 ? 0 : 1 << 30,
                                  .blocks = node == 1 ? 0 : 1 << 21,
                                  .mode = node == 1 ? S_IFDIR | 0777 : S_IFREG | 0666,
                                  .nlink = 1,
                                  .blksize = 65536};
}

static void serve(struct fuse_in_header *h, char *arg)
{
        static char zeros[1 << 20];
        struct fuse_entry_out entry;
        struct fuse_attr_out attr;
        struct fuse_open_out opened = {.fh = h->nodeid, .open_flags = FOPEN_DIRECT_IO};
        char both[sizeof entry + sizeof opened];

        switch (h->opcode) {
        case FUSE_INIT: {
                struct fuse_init_out o = {.major = FUSE_KERNEL_VERSION,
                                          .minor = 31,
                                          .max_readahead = 0,
                                          .flags = FUSE_ASYNC_READ | FUSE_BIG_WRITES |
                                                   FUSE_MAX_PAGES,
                                          .max_background = 64,
                                          .congestion_threshold = 48,
                                          .max_write = 1 << 18,
                                          .time_gran = 1,
                                          .max_pages = 64};
                answer(h->unique, 0, &o, sizeof o);
                break;
        }
        case FUSE_LOOKUP:
        case FUSE_CREATE: {
                const char *name =
                        h->opcode == FUSE_LOOKUP ? arg : arg + sizeof(struct fuse_create_in);

                memset(&entry, 0, sizeof entry);
                entry.nodeid = node_of(name);
                entry.attr = attr_of(entry.nodeid);
                opened.fh = entry.nodeid;
                memcpy(both, &entry, sizeof entry);
                memcpy(both + sizeof entry, &opened, sizeof opened);
                answer(h->unique, 0, both, h->opcode == FUSE_LOOKUP ? sizeof entry : sizeof both);
                break;
        }
        case FUSE_GETATTR:
        case FUSE_SETATTR:
                memset(&attr, 0, sizeof attr);
                attr.attr = attr_of(h->nodeid);
                answer(h->unique, 0, &attr, sizeof attr);
                break;
        case FUSE_OPEN:
        case FUSE_OPENDIR: answer(h->unique, 0, &opened, sizeof opened); break;
        case FUSE_READ: {
                struct fuse_read_in *r = (void *)arg;

                answer_in(delay_of(h->nodeid), h->unique, zeros,
                          r->size < sizeof zeros ? r->size : sizeof zeros);
                break;
        }
        case FUSE_WRITE: {
                struct fuse_write_in *w = (void *)arg;
                struct fuse_write_out o = {.size = w->size};

                answer_in(delay_of(h->nodeid), h->unique, &o, sizeof o);
                break;
        }
        case FUSE_FSYNC: answer_in(delay_of(h->nodeid), h->unique, NULL, 0); break;
        case FUSE_READDIR:
        case FUSE_RELEASE:
        case FUSE_RELEASEDIR:
        case FUSE_FLUSH:
        case FUSE_UNLINK:
        case FUSE_RENAME:
        case FUSE_RENAME2: answer(h->unique, 0, NULL, 0); break;
        case FUSE_FORGET:
        case FUSE_BATCH_FORGET:
        case FUSE_INTERRUPT: break;
        default: answer(h->unique, ENOSYS, NULL, 0);
        }
}

int main(int argc, char **argv)
{
        static char room[ROOM];
        char options[100];

        if (argc != 2)
                return 2;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dev = open("/dev/fuse", O_RDWR | O_CLOEXEC);
        snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other",
                 dev);
        if (dev < 0 || mount("planted", argv[1], "fuse.planted", MS_NOSUID | MS_NODEV, options)) {
                perror("planted_slowfs");
                return 1;
        }
        puts("mounted");
        fflush(stdout);
        for (;;) {
                ssize_t r = read(dev, room, sizeof room);

                if (r < 0 && errno == ENODEV)
                        return 0;
                if (r < (ssize_t)sizeof(struct fuse_in_header))
                        continue;
                serve((void *)room, room + sizeof(struct fuse_in_header));
        }
}
