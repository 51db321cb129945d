/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Python's C API, found at run time in the program or libpython. All of it is in the stable documentation of 3.9 and
 * later; nothing here looks into a structure.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "core/base/util.h"
#include "shim/site/python.h"
#include "shim/nccl/real.h"

static struct {
        int (*Py_IsInitialized)(void);
        int (*PyGILState_Check)(void);
        void *(*PyEval_GetFrame)(void);        /* borrowed */
        void *(*PyFrame_GetBack)(void *frame); /* new; 3.9 */
        void *(*PyFrame_GetCode)(void *frame); /* new; 3.9 */
        int (*PyFrame_GetLineNumber)(void *frame);
        void *(*PyObject_GetAttrString)(void *object, const char *name);
        const char *(*PyUnicode_AsUTF8)(void *text);
        void (*PyErr_Fetch)(void **type, void **value, void **trace);
        void (*PyErr_Restore)(void *type, void *value, void *trace);
        void (*Py_IncRef)(void *object);
        void (*Py_DecRef)(void *object);
        int (*PyGC_Disable)(void); /* 3.10; without it no frames are read: a collection could run the job's code */
        int (*PyGC_Enable)(void);
} py;

static bool find(void)
{
#define FIND(name)                                                         \
        do {                                                               \
                *(void **)&py.name = capo_real_dlsym(RTLD_DEFAULT, #name); \
                if (!py.name)                                              \
                        return false;                                      \
        } while (0)
        FIND(Py_IsInitialized);
        FIND(PyGILState_Check);
        FIND(PyEval_GetFrame);
        FIND(PyFrame_GetBack);
        FIND(PyFrame_GetCode);
        FIND(PyFrame_GetLineNumber);
        FIND(PyObject_GetAttrString);
        FIND(PyUnicode_AsUTF8);
        FIND(PyErr_Fetch);
        FIND(PyErr_Restore);
        FIND(Py_IncRef);
        FIND(Py_DecRef);
        FIND(PyGC_Disable);
        FIND(PyGC_Enable);
        return true;
}

static unsigned one_frame(void *frame, char *text, unsigned room)
{
        void *code = py.PyFrame_GetCode(frame), *file, *name;
        const char *f = NULL, *n = NULL;
        int m = 0;

        if (!code)
                return 0;
        file = py.PyObject_GetAttrString(code, "co_filename");
        name = py.PyObject_GetAttrString(code, "co_name");
        if (file)
                f = py.PyUnicode_AsUTF8(file);
        if (name)
                n = py.PyUnicode_AsUTF8(name);
        if (f && n)
                m = snprintf(text, room, "%s:%d %s\n", strlen(f) > 200 ? f + strlen(f) - 200 : f,
                             py.PyFrame_GetLineNumber(frame), n);
        if (file)
                py.Py_DecRef(file);
        if (name)
                py.Py_DecRef(name);
        py.Py_DecRef(code);
        return m > 0 && (unsigned)m < room ? (unsigned)m : 0;
}

unsigned capo_python_frames(char *text, unsigned room)
{
        static int found; /* 0 not looked, 1 yes, -1 no */
        void *type, *value, *trace, *frame, *back;
        unsigned n = 0, m;
        int collecting;

        if (!found)
                found = find() ? 1 : -1;
        if (found < 0 || !py.Py_IsInitialized() || !py.PyGILState_Check())
                return 0;
        collecting = py.PyGC_Disable();
        py.PyErr_Fetch(&type, &value, &trace);
        frame = py.PyEval_GetFrame();
        if (frame)
                py.Py_IncRef(frame);
        while (frame) {
                m = one_frame(frame, text + n, room - n);
                back = m ? py.PyFrame_GetBack(frame) : NULL;
                py.Py_DecRef(frame);
                frame = back;
                n += m;
        }
        py.PyErr_Restore(type, value, trace);
        if (collecting)
                py.PyGC_Enable();
        return n;
}
