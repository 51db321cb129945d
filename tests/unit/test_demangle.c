/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <criterion/criterion.h>

#include "core/base/demangle.h"
#include "core/base/util.h"

/* What c++filt and rustfilt say, without parameters and arguments; those of PyTorch are PyTorch's. */
static const char *const rows[][2] = {
        {"_ZN4c10d5nccl216ProcessGroupNCCL10all_reduceERN2at6TensorERKNS_8ReduceOpEbNSt6chrono8durationIlSt5ratioILl1ELl10"
         "00EEEE",
         "c10d::nccl2::ProcessGroupNCCL::all_reduce"},
        {"_ZN4c10d3ops12_GLOBAL__N_114allreduce_CUDAEN3c108ArrayRefIN2at6TensorEEEb",
         "c10d::ops::(anonymous)::allreduce_CUDA"},
        {"_ZN3c104impl31make_boxed_from_unboxed_functorINS0_6detail31WrapFunctionIntoRuntimeFunctor_IPFSt5tupleIJSt6vect"
         "orIN2at6TensorESaIS7_EEEEbEEELb0EE4callEPNS_14OperatorKernelE",
         "c10::impl::make_boxed_from_unboxed_functor::call"},
        {"_ZZN8pybind1112cpp_function10initializeIZNS0_C4IvN4c10d12ProcessGroupEJEEEMT0_FT_DpT1_EEUlPS4_E_vJS5_EEEvOS6_PFS"
         "7_S8_EENUlRNS_6detail13function_callEE_4_FUNES9_",
         "pybind11::cpp_function::initialize::{lambda}::_FUN"},
        {"_ZN6fbgemm22GenerateEmbeddingSpMDMIfiifLb0EEENS_29KernelT_E4TypeElbb", "fbgemm::GenerateEmbeddingSpMDM"},
        {"_ZN5modelC2Ei", "model::model"},
        {"_ZN2ns5modelD0Ev", "ns::model::~model"},
        {"_ZNK5modelplERKS_", "model::operator"},
        {"_ZN5modelcvbEv", "model::operator"},
        {"_Z4mainv", "main"},
        {"_ZL4stepi", "step"},
        {"_ZSt4sortIPiEvT_S1_", "std::sort"},
        {"_ZNSt6vectorIiSaIiEE9push_backEOi", "std::vector::push_back"},
        {"_ZN3fooB5cxx113barEv", "foo::bar"},
        {"_Z1fIXadL_Z1gvEEEvv", "f"},
        {"_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"},
        {"_ZN47_$LT$train..Step$u20$as$u20$core..ops..Drop$GT$4drop17h0123456789abcdefE",
         "<train::Step_as_core::ops::Drop>::drop"},
        {"_RNvNtCs1234_7mycrate5train4step", "mycrate::train::step"},
        {"_RNCNvCs1234_7mycrate4main0", "mycrate::main::{closure}"},
        /* cut: as much as can be told */
        {"_ZN4c10d5nccl216ProcessGroupNCCL10all_reduceERN2at6Ten", "c10d::nccl2::ProcessGroupNCCL::all_reduce"},
        {"_ZN4c10d5nccl216ProcessGroupNCCL10all_re", "c10d::nccl2::ProcessGroupNCCL"},
        /* no such names */
        {"main", ""},
        {"", ""},
        {"_Z", ""},
        {"_ZN", ""},
        {"_RX", ""},
};

Test(demangle, names)
{
        char text[400];

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                size_t n = capo_demangle(rows[i][0], text, sizeof text);

                cr_expect_str_eq(text, rows[i][1], "%s: %s", rows[i][0], text);
                cr_expect_eq(n, strlen(text));
        }
}

/* Never beyond the name or the room, whatever the name is: each is cut everywhere, and in memory of its own. */
Test(demangle, cut_anywhere_and_spoilt)
{
        unsigned seed = 1;

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                size_t length = strlen(rows[i][0]);

                for (size_t cut = 0; cut <= length; cut++) {
                        char *name = strndup(rows[i][0], cut), *text = malloc(cut % 9 + 1);
                        size_t n;

                        for (int spoilt = 0; spoilt < 8; spoilt++) {
                                n = capo_demangle(name, text, cut % 9 + 1);
                                cr_assert_eq(n, strlen(text));
                                cr_assert_leq(n, cut % 9);
                                cr_assert_not(strpbrk(text, " +\n"));
                                if (cut > 2)
                                        name[2 + (size_t)rand_r(&seed) % (cut - 2)] =
                                                "NESIZ_019LUaTCD"[rand_r(&seed) % 15];
                        }
                        free(name);
                        free(text);
                }
        }
        cr_assert_eq(capo_demangle("_Z1fv", NULL, 0), 0);
}

Test(demangle, deep)
{
        static char name[20000];
        char text[64];

        memset(name, 'I', sizeof name - 1);
        memcpy(name, "_ZN1f", 5);
        cr_assert_eq(capo_demangle(name, text, sizeof text), 1);
        memset(name + 2, 'Z', sizeof name - 3);
        cr_assert_eq(capo_demangle(name, text, sizeof text), 0);
        memset(name + 2, 'N', sizeof name - 3);
        name[1] = 'R';
        cr_assert_eq(capo_demangle(name, text, sizeof text), 0);
}
