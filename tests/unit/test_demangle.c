/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <criterion/criterion.h>

#include "core/base/demangle.h"
#include "core/base/util.h"

/* What c++filt says, without parameters and arguments; those of PyTorch are PyTorch's.
 */
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
        {"_ZN6fbgemm22GenerateEmbeddingSpMDMIfiifLb0EEENS_29KernelT_E4TypeElbb",
         "fbgemm::GenerateEmbeddingSpMDM"},
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
        {"_ZNKR3foo3barEv", "foo::bar"},
        {"_ZNVO3foo3barEv", "foo::bar"},
        {"_ZNrK3foo3barEv", "foo::bar"},
        {"_ZN1aUt0_4stepEv", "a::{unnamed}::step"},
        {"_ZNSaIcE8allocateEm", "std::allocator::allocate"},
        {"_ZNSs4swapERSs", "std::string::swap"},
        {"_ZNSi3getEv", "std::istream::get"},
        {"_ZNSo5flushEv", "std::ostream::flush"},
        {"_ZNSd4swapERSd", "std::iostream::swap"},
        {"_ZN5modelaNEi", "model::operator"},
        {"_ZN5modelnaEm", "model::operator"},
        {"_ZZN1acviEvE1b", "a::operator::b"},
        {"_ZN1aC1EIiE1bEv", "a::a"},
        {"_ZN1aCI21bEi", "a::a::b"},
        {"_ZN11_GLOBAL__N_1fEv", "(anonymous)::f"},
        {"_ZN10_GLOBAL__N1fEv", "_GLOBAL__N::f"},
        {"_ZN12_GLOBAL__NX11fEv", "_GLOBAL__NX1::f"},
        {"_Z3a bv", "a_b"},
        {"_Z3a+bv", "a_b"},
        {"_Z3a\x1f!v", "a_!"},
        {"_ZZ1fvEs", "f"},
        {"_ZZ1fiEd_NKUlvE_clEv", "f::{lambda}::operator"},
        {"_ZZ1fiEd0_1g", "f::g"},
        {"_ZZ1fIiEvvE1g", "f::g"},
        /* cut: as much as can be read */
        {"_ZN4c10d5nccl216ProcessGroupNCCL10all_reduceERN2at6Ten",
         "c10d::nccl2::ProcessGroupNCCL::all_reduce"},
        {"_ZN4c10d5nccl216ProcessGroupNCCL10all_re", "c10d::nccl2::ProcessGroupNCCL"},
        /* no such names */
        {"main", ""},
        {"", ""},
        {"_Z", ""},
        {"_ZN", ""},
        {"_RNvC3abc3_12d", ""},
};

/* Arguments of a template, which are stepped over: what follows them is printed. c++filt knows them
 * all. */
static const char *const arguments[] = {
        "i",          "3foo",        "S_",           "S1_",          "SA_",          "SZ_",
        "S12_",       "SAI_",        "SZI_",         "Ss",           "St6vectorIiE", "T_",
        "T0_",        "Lb1E",        "Li42E",        "Lin3E",        "L3foo1E",      "LS0_1E",
        "L_Z1gvE",    "L_ZN1c1dEvE", "XadL_Z1gvEE",  "Z1fvE1g",      "Z1fvEs",       "Z1fvEs_0",
        "Z1fvEUlvE_", "UlvE_",       "UlvE0_",       "Ut_",          "Ut1_",         "A3_i",
        "A_i",        "Dn",          "DpT_",         "Dv4_f",        "DF16_",        "DtfL0p_E",
        "DTfp_E",     "DTfp0_E",     "DTfK_E",       "PFivE",        "JidE",         "N1c1dE",
        "N1cC1E",     "N1cCI11dE",   "IJLi1E3bazEE", "XsrT_5valueE", "M1cFvvE",      "DTcvT_fp_E",
};

Test(demangle, arguments)
{
        for (size_t i = 0; i < N_ELEMENTS(arguments); i++) {
                for (size_t k = 0; k < N_ELEMENTS(arguments); k++) {
                        char name[80], text[80];

                        snprintf(name, sizeof name, "_ZN1aI%s%sE3endE", arguments[i], arguments[k]);
                        capo_demangle(name, text, sizeof text);
                        cr_expect_str_eq(text, "a::end", "%s: %s", name, text);
                }
        }
}

Test(demangle, names)
{
        char text[400];

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                size_t n = capo_demangle(rows[i][0], text, sizeof text);

                cr_expect_str_eq(text, rows[i][1], "%s: %s", rows[i][0], text);
                cr_expect_eq(n, strlen(text));
                for (size_t room = 1; room <= n; room++) {
                        cr_expect_eq(capo_demangle(rows[i][0], text, room), room - 1);
                        cr_expect(!strncmp(text, rows[i][1], room - 1) && !text[room - 1], "%s: %s",
                                  rows[i][0], text);
                }
        }
}

/* Never beyond the name or the room, whatever the name is: each is cut everywhere, and in memory of
 * its own. */
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

/* Two hundred of anything inside each other are followed, one more is not. */
static const char *nested(const char *begin, const char *open, int n, const char *middle,
                          const char *shut, const char *end)
{
        static char name[2000], text[2000];
        char *p = stpcpy(name, begin);

        for (int i = 0; i < n; i++)
                p = stpcpy(p, open);
        p = stpcpy(p, middle);
        for (int i = 0; i < n; i++)
                p = stpcpy(p, shut);
        stpcpy(p, end);
        capo_demangle(name, text, sizeof text);
        return text;
}

Test(demangle, depth)
{
        cr_assert_str_eq(nested("_ZN1a", "I", 200, "", "E", "1bE"), "a::b");
        cr_assert_str_eq(nested("_ZN1a", "I", 201, "", "E", "1bE"), "a");
        cr_assert_eq(strlen(nested("_Z", "Z", 199, "1b", "E1b", "")), 3 * 199 + 1);
        cr_assert_str_eq(nested("_Z", "Z", 200, "1b", "E1b", ""), "");
        /* beside each other there may be more */
        cr_assert_str_eq(nested("_ZN1aI", "Pi", 250, "", "", "E1bE"), "a::b");
        cr_assert_str_eq(nested("_ZN1a", "IiE", 250, "", "", "1bE"), "a::b");
        cr_assert_str_eq(nested("_Z1a", "", 0, "", "", "1bE"), "a");
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
}
