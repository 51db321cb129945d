/* SPDX-License-Identifier: Apache-2.0 */
/* Where a thread's Python calls from, and the interpreter that ends at that very moment. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

#include "core/base/util.h"
#include "shim/find/maps.h"
#include "shim/find/symbol.h"
#include "shim/record/state.h"
#include "shim/site/pyobject.h"

/* PyThreadState, _PyCFrame, frames from the innermost on, as 3.12 has them. */
static uint64_t thread[32], between[4], frame[3][16];

void *capo_real_dlsym(void *handle, const char *name) { return NULL; }

static int yes(void) { return 1; }

static void *has_state(void) { return thread; }

static bool read_here(void *nothing, uint64_t from, void *to, size_t size)
{
        return capo_read_self((uintptr_t)from, to, size);
}

/* A thread of its own, which is asked while it goes on. */
static struct other {
        pthread_t t;
        pthread_barrier_t asked, said;
        uintptr_t is;
        int error;
        bool ends;
} other;

static void *answers(void *unused)
{
        for (;;) {
                pthread_barrier_wait(&other.asked);
                if (other.ends)
                        return NULL;
                errno = ERANGE;
                other.is = capo_python_place();
                other.error = errno;
                pthread_barrier_wait(&other.said);
        }
}

static uintptr_t in_other_thread(void)
{
        pthread_barrier_wait(&other.asked);
        pthread_barrier_wait(&other.said);
        cr_expect_eq(other.error, ERANGE);
        return other.is;
}

static uintptr_t in_this_thread(void) { return capo_python_place(); }

static void three_frames(void)
{
        const struct capo_py_layout *l = capo_py_layout_of(12);

        capo_py.Py_IsInitialized = yes;
        capo_py.PyGILState_GetThisThreadState = has_state;
        capo_py.it.layout = l;
        capo_py.it.read = read_here;
        thread[l->current / 8] = (uintptr_t)between;
        between[l->through / 8] = (uintptr_t)frame[0];
        for (size_t i = 0; i < 3; i++) {
                frame[i][l->code / 8] = 0x1000 * (i + 1);
                frame[i][l->at / 8] = 0x1010 * (i + 1);
                frame[i][l->back / 8] = i < 2 ? (uintptr_t)frame[i + 1] : 0;
        }
        pthread_barrier_init(&other.asked, NULL, 2);
        pthread_barrier_init(&other.said, NULL, 2);
        cr_assert_eq(pthread_create(&other.t, NULL, answers, NULL), 0);
}

static void end(void)
{
        other.ends = true;
        pthread_barrier_wait(&other.asked);
        pthread_join(other.t, NULL);
}

Test(python_place, tells_places_apart, .init = three_frames, .fini = end)
{
        uintptr_t (*const threads[])(void) = {in_this_thread, in_other_thread};
        const struct capo_py_layout *l = capo_py.it.layout;

        for (size_t i = 0; i < N_ELEMENTS(threads); i++) {
                uintptr_t is = threads[i]();

                cr_expect_neq(is, 0);
                cr_expect_eq(threads[i](), is);
                for (size_t k = 0; k < 3; k++) {
                        frame[k][l->at / 8] += 2;
                        cr_expect_neq(threads[i](), is, "another line, %zu frames up", k);
                        frame[k][l->at / 8] -= 2;
                }
                for (size_t k = 0; k < 3; k++) { /* called by another, or by none: the frame behind
                                                    it, or the thread's own */
                        uint64_t *const words[] = {&between[l->through / 8], &frame[0][l->back / 8],
                                                   &frame[1][l->back / 8]};
                        uint64_t was = *words[k], one_less;

                        *words[k] = k < 2 ? (uintptr_t)frame[k + 1] : 0;
                        one_less = threads[i]();
                        cr_expect_neq(one_less, is, "%zu", k);
                        cr_expect_eq(threads[i](), one_less, "%zu", k);
                        *words[k] = was;
                        cr_expect_eq(threads[i](), is, "%zu", k);
                }
        }
        cr_expect_eq(in_this_thread(), in_other_thread());
}

/* Whether there is an interpreter was asked before; now its memory is given back, or has been
 * filled with something else. */
Test(python_place, of_a_thread_whose_interpreter_has_just_ended, .init = three_frames, .fini = end)
{
        const struct capo_py_layout *l = capo_py.it.layout;
        void *gone = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        uint64_t const addresses[] = {(uintptr_t)gone, 0xa5a5a5a5a5a5a5a5};
        uint64_t *const words[] = {&thread[l->current / 8], &between[l->through / 8],
                                   &frame[0][l->back / 8], &frame[1][l->back / 8]};
        uintptr_t is = in_other_thread();

        for (size_t i = 0; i < N_ELEMENTS(addresses); i++) {
                for (size_t k = 0; k < N_ELEMENTS(words); k++) {
                        uint64_t was = *words[k];

                        *words[k] = addresses[i];
                        cr_expect_neq(in_other_thread(), is);
                        *words[k] = was;
                        cr_expect_eq(in_other_thread(), is);
                }
        }
        munmap(gone, 4096);
}
