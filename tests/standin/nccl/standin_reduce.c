/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Element arithmetic. Integers wrap; 16- and 8-bit floats are widened to float, folded, and rounded
 * to nearest even after every step, so a fold's result depends only on the order of its inputs,
 * which algo.c fixes. fp8 saturates to its largest finite value, as CUDA's conversions do
 * (__NV_SATFINITE in cuda_fp8.h).
 */
#include <math.h>
#include <string.h>

#include "std.h"

static const struct {
        const char *text;
        unsigned char bytes;
        bool is_float;
} types[] = {
        [ncclInt8] = {"ncclInt8", 1, false},
        [ncclUint8] = {"ncclUint8", 1, false},
        [ncclInt32] = {"ncclInt32", 4, false},
        [ncclUint32] = {"ncclUint32", 4, false},
        [ncclInt64] = {"ncclInt64", 8, false},
        [ncclUint64] = {"ncclUint64", 8, false},
        [ncclFloat16] = {"ncclFloat16", 2, true},
        [ncclFloat32] = {"ncclFloat32", 4, true},
        [ncclFloat64] = {"ncclFloat64", 8, true},
        [ncclBfloat16] = {"ncclBfloat16", 2, true},
        [ncclFloat8e4m3] = {"ncclFloat8e4m3", 1, true},
        [ncclFloat8e5m2] = {"ncclFloat8e5m2", 1, true},
};

size_t type_bytes(ncclDataType_t t)
{
        return (unsigned)t < sizeof types / sizeof types[0] ? types[t].bytes : 0;
}

const char *type_text(ncclDataType_t t)
{
        return (unsigned)t < sizeof types / sizeof types[0] ? types[t].text : "Unknown";
}

bool type_is_float(ncclDataType_t t)
{
        return (unsigned)t < sizeof types / sizeof types[0] && types[t].is_float;
}

static inline uint32_t float_bits(float f)
{
        uint32_t u;

        memcpy(&u, &f, 4);
        return u;
}

static inline float bits_float(uint32_t u)
{
        float f;

        memcpy(&f, &u, 4);
        return f;
}

/* A small float of `mant` fraction bits and bias `bias`, IEEE-like; subnormals included. */
static inline float widen(uint32_t v, int exp_bits, int mant, int bias)
{
        uint32_t sign = v >> (exp_bits + mant) & 1, e = v >> mant & ((1u << exp_bits) - 1),
                 m = v & ((1u << mant) - 1);

        if (e == 0) {
                float f = ldexpf((float)m, 1 - bias - mant);

                return sign ? -f : f;
        }
        return bits_float(sign << 31 | (e - (uint32_t)bias + 127) << 23 | m << (23 - mant));
}

static inline float half_float(uint16_t h)
{
        uint32_t e = h >> 10 & 31;

        if (e == 31)
                return bits_float((uint32_t)(h >> 15) << 31 | 0x7f800000u |
                                  (uint32_t)(h & 1023) << 13);
        if (e == 0)
                return widen(h, 5, 10, 15);
        return bits_float((uint32_t)(h >> 15) << 31 | (e + 112) << 23 | (uint32_t)(h & 1023) << 13);
}

static inline uint16_t float_half(float f)
{
        uint32_t u = float_bits(f), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;

        if (a > 0x7f800000)
                return (uint16_t)(sign | 0x7e00);
        if (a >= 0x477ff000) /* rounds to 65536 or more */
                return (uint16_t)(sign | 0x7c00);
        if (a < 0x38800000) { /* subnormal: let the float unit round at 2^-24 */
                float r = bits_float(a) + 0.5f;

                return (uint16_t)(sign | (float_bits(r) - 0x3f000000u));
        }
        a += 0xfff + (a >> 13 & 1);
        return (uint16_t)(sign | (a - 0x38000000u) >> 13);
}

static inline float bf16_float(uint16_t b) { return bits_float((uint32_t)b << 16); }

static inline uint16_t float_bf16(float f)
{
        uint32_t u = float_bits(f);

        if ((u & 0x7fffffff) > 0x7f800000)
                return (uint16_t)(u >> 16 | 0x40);
        return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static inline float e4m3_float(uint8_t v)
{
        if ((v & 0x7f) == 0x7f)
                return NAN;
        return widen(v, 4, 3, 7);
}

static inline float e5m2_float(uint8_t v)
{
        if ((v & 0x7c) == 0x7c)
                return v & 3 ? NAN : v & 0x80 ? -INFINITY : INFINITY;
        return widen(v, 5, 2, 15);
}

/* To nearest even with `mant` fraction bits, saturating at `largest` (the magnitude's code). */
static inline uint8_t narrow8(float f, int mant, int bias, uint8_t nan, uint8_t largest)
{
        uint8_t sign = (uint8_t)(float_bits(f) >> 31 << 7);
        float a = fabsf(f);
        int e;
        uint32_t code;

        if (isnan(f))
                return sign | nan;
        if (isinf(f))
                return sign | largest;
        if (a == 0)
                return sign;
        e = ilogbf(a);
        if (e < 1 - bias)
                e = 1 - bias; /* subnormals share the smallest exponent */
        code = (uint32_t)rintf(
                ldexpf(a, mant - e)); /* the default rounding mode is to nearest even */
        code += (uint32_t)(e - (1 - bias))
                << mant; /* the hidden bit carries into the exponent by itself */
        return sign | (code > largest ? largest : (uint8_t)code);
}

static inline uint8_t float_e4m3(float f) { return narrow8(f, 3, 7, 0x7f, 0x7e); }

static inline uint8_t float_e5m2(float f) { return narrow8(f, 2, 15, 0x7e, 0x7b); }

#define SAME(x) (x)

/* LOOP(storage type, compute type, widen, narrow): the four folds. Unsigned arithmetic makes
 * integer wrap defined. */
#define FOLD(T, W, from, to)                                                  \
        do {                                                                  \
                T *o = out;                                                   \
                const T *x = a, *y = b;                                       \
                switch (op) {                                                 \
                case ncclSum:                                                 \
                        for (size_t i = 0; i < n; i++)                        \
                                o[i] = to((W)(from(x[i]) + from(y[i])));      \
                        break;                                                \
                case ncclProd:                                                \
                        for (size_t i = 0; i < n; i++)                        \
                                o[i] = to((W)(from(x[i]) * from(y[i])));      \
                        break;                                                \
                case ncclMax:                                                 \
                        for (size_t i = 0; i < n; i++)                        \
                                o[i] = from(x[i]) < from(y[i]) ? y[i] : x[i]; \
                        break;                                                \
                default:                                                      \
                        for (size_t i = 0; i < n; i++)                        \
                                o[i] = from(y[i]) < from(x[i]) ? y[i] : x[i]; \
                }                                                             \
        } while (0)

/* Half precision is common enough to use the conversion instructions; they round exactly as the
 * functions above. */
#if defined(__x86_64__)
#include <immintrin.h>

__attribute__((target("avx,f16c"))) static size_t half_sum_f16c(uint16_t *o, const uint16_t *x,
                                                                const uint16_t *y, size_t n)
{
        size_t i = 0;

        for (; i + 8 <= n; i += 8) {
                __m256 s =
                        _mm256_add_ps(_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(x + i))),
                                      _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(y + i))));

                _mm_storeu_si128((__m128i *)(o + i),
                                 _mm256_cvtps_ph(s, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
        }
        return i;
}

static size_t half_sum(uint16_t *o, const uint16_t *x, const uint16_t *y, size_t n)
{
        /* Every processor with AVX2 has F16C; clang does not know the latter's name here. */
        return __builtin_cpu_supports("avx2") ? half_sum_f16c(o, x, y, n) : 0;
}
#else
static size_t half_sum(uint16_t *o, const uint16_t *x, const uint16_t *y, size_t n) { return 0; }
#endif

void reduce(ncclDataType_t type, ncclRedOp_t op, void *out, const void *a, const void *b, size_t n)
{
        if (type == ncclFloat16 && op == ncclSum) {
                size_t done = half_sum(out, a, b, n);

                out = (uint16_t *)out + done;
                a = (const uint16_t *)a + done;
                b = (const uint16_t *)b + done;
                n -= done;
        }
        /* Signed sums and products are the unsigned ones, which wrap by definition. */
        if (op == ncclSum || op == ncclProd)
                type = type == ncclInt8    ? ncclUint8
                       : type == ncclInt32 ? ncclUint32
                       : type == ncclInt64 ? ncclUint64
                                           : type;
        switch ((int)type) {
        case ncclInt8: FOLD(int8_t, int8_t, SAME, SAME); break;
        case ncclUint8: FOLD(uint8_t, uint8_t, SAME, SAME); break;
        case ncclInt32: FOLD(int32_t, int32_t, SAME, SAME); break;
        case ncclUint32: FOLD(uint32_t, uint32_t, SAME, SAME); break;
        case ncclInt64: FOLD(int64_t, int64_t, SAME, SAME); break;
        case ncclUint64: FOLD(uint64_t, uint64_t, SAME, SAME); break;
        case ncclFloat16: FOLD(uint16_t, float, half_float, float_half); break;
        case ncclFloat32: FOLD(float, float, SAME, SAME); break;
        case ncclFloat64: FOLD(double, double, SAME, SAME); break;
        case ncclBfloat16: FOLD(uint16_t, float, bf16_float, float_bf16); break;
        case ncclFloat8e4m3: FOLD(uint8_t, float, e4m3_float, float_e4m3); break;
        case ncclFloat8e5m2: FOLD(uint8_t, float, e5m2_float, float_e5m2); break;
        }
}

#define SCALE(T, W, from, to)                                 \
        do {                                                  \
                T *o = out, s;                                \
                const T *x = in;                              \
                memcpy(&s, scalar, sizeof s);                 \
                for (size_t i = 0; i < n; i++)                \
                        o[i] = to((W)(from(x[i]) * from(s))); \
        } while (0)

void reduce_scale(ncclDataType_t type, void *out, const void *in, const void *scalar, size_t n)
{
        switch ((int)type) {
        case ncclInt8:
        case ncclUint8: SCALE(uint8_t, uint8_t, SAME, SAME); break;
        case ncclInt32:
        case ncclUint32: SCALE(uint32_t, uint32_t, SAME, SAME); break;
        case ncclInt64:
        case ncclUint64: SCALE(uint64_t, uint64_t, SAME, SAME); break;
        case ncclFloat16: SCALE(uint16_t, float, half_float, float_half); break;
        case ncclFloat32: SCALE(float, float, SAME, SAME); break;
        case ncclFloat64: SCALE(double, double, SAME, SAME); break;
        case ncclBfloat16: SCALE(uint16_t, float, bf16_float, float_bf16); break;
        case ncclFloat8e4m3: SCALE(uint8_t, float, e4m3_float, float_e4m3); break;
        case ncclFloat8e5m2: SCALE(uint8_t, float, e5m2_float, float_e5m2); break;
        }
}

#define DIVIDE(T, D)                                 \
        do {                                         \
                T *o = out;                          \
                const T *x = in;                     \
                for (size_t i = 0; i < n; i++)       \
                        o[i] = (T)((D)x[i] / (D)by); \
        } while (0)

/* The average of integers: the wrapped sum divided at the end, as NCCL's SumPostDiv does. */
void reduce_divide(ncclDataType_t type, void *out, const void *in, unsigned by, size_t n)
{
        switch ((int)type) {
        case ncclInt8: DIVIDE(int8_t, int); break;
        case ncclUint8: DIVIDE(uint8_t, unsigned); break;
        case ncclInt32: DIVIDE(int32_t, int); break;
        case ncclUint32: DIVIDE(uint32_t, unsigned); break;
        case ncclInt64: DIVIDE(int64_t, int64_t); break;
        case ncclUint64: DIVIDE(uint64_t, uint64_t); break;
        }
}

void scalar_from_double(ncclDataType_t type, double v, void *out)
{
        switch ((int)type) {
        case ncclFloat16: *(uint16_t *)out = float_half((float)v); break;
        case ncclFloat32: *(float *)out = (float)v; break;
        case ncclFloat64: *(double *)out = v; break;
        case ncclBfloat16: *(uint16_t *)out = float_bf16((float)v); break;
        case ncclFloat8e4m3: *(uint8_t *)out = float_e4m3((float)v); break;
        case ncclFloat8e5m2: *(uint8_t *)out = float_e5m2((float)v); break;
        }
}
