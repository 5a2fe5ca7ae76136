// Vectors as wide as the instruction set that a translation unit is compiled for, and the few functions on them.
//
// Everything here and in the headers built on it has internal linkage: the same headers are compiled several times,
// each time for another instruction set, and the linker must never exchange the results.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace {

#if defined(__AVX512F__)
constexpr int W = 16;
#elif defined(__AVX2__)
constexpr int W = 8;
#else
constexpr int W = 4;
#endif

typedef float Vec __attribute__((vector_size(W * 4)));
typedef int32_t IntVec __attribute__((vector_size(W * 4)));
// The same at any address.
typedef float LooseVec __attribute__((vector_size(W * 4), aligned(4), may_alias));
typedef int32_t LooseIntVec __attribute__((vector_size(W * 4), aligned(4), may_alias));

inline Vec load(const float* p) { return *reinterpret_cast<const LooseVec*>(p); }
inline IntVec load_int(const int32_t* p) { return *reinterpret_cast<const LooseIntVec*>(p); }
inline void store(float* p, Vec v) { *reinterpret_cast<LooseVec*>(p) = v; }

// Whole numbers below 256, or signed ones, as bytes: 4 * W of them.
inline void store_bytes(unsigned char* p, const IntVec* v) {
#if defined(__AVX512F__)
    for (int i = 0; i < 4; ++i)
        _mm_storeu_si128(reinterpret_cast<__m128i*>(p) + i, _mm512_cvtepi32_epi8((__m512i)v[i]));
#elif defined(__AVX2__)
    const __m256i low = _mm256_packs_epi32((__m256i)v[0], (__m256i)v[1]);
    const __m256i high = _mm256_packs_epi32((__m256i)v[2], (__m256i)v[3]);
    const __m256i bytes = _mm256_packus_epi16(low, high);  // in each half four of every vector
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permutevar8x32_epi32(bytes, order));
#else
    for (int i = 0; i < 4 * W; ++i) p[i] = static_cast<unsigned char>(v[i / W][i % W]);
#endif
}

inline Vec splat(float x) { return x - Vec{}; }

// The first `n` < W numbers; the other lanes are `rest`.
inline Vec load_part(const float* p, int n, float rest = 0.0f) {
#if defined(__AVX512F__)
    return (Vec)_mm512_mask_loadu_ps(_mm512_set1_ps(rest), (__mmask16)((1u << n) - 1), p);
#else
    float lanes[W];
    for (int i = 0; i < W; ++i) lanes[i] = i < n ? p[i] : rest;
    return load(lanes);
#endif
}

inline void store_part(float* p, Vec v, int n) {
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
#else
    float lanes[W];
    store(lanes, v);
    for (int i = 0; i < n; ++i) p[i] = lanes[i];
#endif
}

// A whole vector, or what is left of it at the end of a row.
inline Vec load_some(const float* p, int left, float rest = 0.0f) {
    return left >= W ? load(p) : load_part(p, left, rest);
}
inline void store_some(float* p, Vec v, int left) {
    if (left >= W) store(p, v);
    else store_part(p, v, left);
}

// The first `n` lanes of `v`, the others `rest`; for what memory holds anything beyond its end.
inline Vec first_lanes(Vec v, int n, float rest) {
    if (n >= W) return v;
    IntVec lanes;
    for (int i = 0; i < W; ++i) lanes[i] = i;
    return lanes < n ? v : splat(rest);
}

// a * b + c, rounded once where the processor can. Compilers are told not to do so by themselves: they would do it here
// and not there, and the same row would come out differently among more rows.
inline Vec fused(Vec a, Vec b, Vec c) {
#if defined(__AVX512F__)
    return (Vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    return (Vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
    for (int i = 0; i < W; ++i) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return c;
#else
    return a * b + c;
#endif
}

inline Vec larger(Vec a, Vec b) { return a > b ? a : b; }

inline float sum(Vec v) {
#if defined(__AVX512F__)
    return _mm512_reduce_add_ps((__m512)v);
#else
    for (int step = W / 2; step; step /= 2)
        for (int i = 0; i < step; ++i) v[i] += v[i + step];
    return v[0];
#endif
}

// out[i] = the sum of vectors[i], times `factor`
inline void sum_four(const Vec* v, float factor, float* out) {
#if defined(__AVX512F__)
    const __m512 low =
        _mm512_add_ps(_mm512_unpacklo_ps((__m512)v[0], (__m512)v[1]), _mm512_unpackhi_ps((__m512)v[0], (__m512)v[1]));
    const __m512 high =
        _mm512_add_ps(_mm512_unpacklo_ps((__m512)v[2], (__m512)v[3]), _mm512_unpackhi_ps((__m512)v[2], (__m512)v[3]));
    const __m512d a = _mm512_castps_pd(low), b = _mm512_castps_pd(high);
    const __m512 both =
        _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(both), _mm512_extractf32x8_ps(both, 1));
    const __m128 sums = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    _mm_storeu_ps(out, _mm_mul_ps(sums, _mm_set1_ps(factor)));
#elif defined(__AVX2__)
    const __m256 low = _mm256_hadd_ps((__m256)v[0], (__m256)v[1]), high = _mm256_hadd_ps((__m256)v[2], (__m256)v[3]);
    const __m256 both = _mm256_hadd_ps(low, high);
    const __m128 sums = _mm_add_ps(_mm256_castps256_ps128(both), _mm256_extractf128_ps(both, 1));
    _mm_storeu_ps(out, _mm_mul_ps(sums, _mm_set1_ps(factor)));
#else
    for (int i = 0; i < 4; ++i) out[i] = sum(v[i]) * factor;
#endif
}

inline float largest(Vec v) {
#if defined(__AVX512F__)
    return _mm512_reduce_max_ps((__m512)v);
#else
    float most = v[0];
    for (int i = 1; i < W; ++i) most = v[i] > most ? v[i] : most;
    return most;
#endif
}

inline bool any_above(Vec v, float limit) {
#if defined(__AVX512F__)
    return _mm512_cmp_ps_mask((__m512)v, _mm512_set1_ps(limit), _CMP_GT_OQ) != 0;
#elif defined(__AVX2__)
    return _mm256_movemask_ps(_mm256_cmp_ps((__m256)v, _mm256_set1_ps(limit), _CMP_GT_OQ)) != 0;
#else
    bool found = false;
    for (int i = 0; i < W; ++i) found |= v[i] > limit;
    return found;
#endif
}

// Adding it rounds a number below 2^22 to the nearest integer, which then stands in the low bits.
constexpr float ROUNDING = 12582912.0f;
constexpr int32_t ROUNDING_BITS = 0x4B400000;

inline IntVec nearest(Vec v) { return (IntVec)(v + splat(ROUNDING)) - ROUNDING_BITS; }

// e^x to 2 units in the last place; below -87.3 as there, above 88 as there, NaN stays NaN.
inline Vec exponential(Vec x) {
    const Vec low = splat(-87.3f), high = splat(88.0f);
    x = x < low ? low : x;
    x = x > high ? high : x;
    const Vec shifted = fused(x, splat(1.44269504f), splat(ROUNDING)), n = shifted - ROUNDING;
    const Vec r = fused(n, splat(2.12194440e-4f), fused(n, splat(-0.693359375f), x));
    Vec p = splat(1.9875691500e-4f);
    for (const float next : {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f})
        p = fused(p, r, splat(next));
    p = fused(p, r * r, r) + 1.0f;
    const IntVec power = ((IntVec)shifted << 23) + 0x3F800000;
    return p * (Vec)power;
}

// log(x) to 2 units in the last place (Cephes), of what is not above 0 minus infinity; NaN stays NaN.
inline Vec logarithm(Vec x) {
    const IntVec power = ((IntVec)x - 0x3F3504F3) >> 23;  // x = m * 2^power, m between sqrt(1/2) and sqrt(2)
    const Vec m = (Vec)((IntVec)x - (power << 23)) - 1.0f, n = __builtin_convertvector(power, Vec);
    Vec p = splat(7.0376836292e-2f);
    for (const float next : {-1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f, 1.4249322787e-1f,
                             -1.6668057665e-1f, 2.0000714765e-1f, -2.4999993993e-1f, 3.3333331174e-1f})
        p = fused(p, m, splat(next));
    p = fused(n, splat(-2.12194440e-4f), p * m * m * m) - 0.5f * m * m;
    const Vec found = fused(n, splat(0.693359375f), m + p);
    const Vec none = x == x ? splat(-INFINITY) : x;
    return x >= splat(1.17549435e-38f) ? found : none;
}

// The error function, off by at most 1.5e-7 (Abramowitz and Stegun 7.1.26).
inline Vec error_function(Vec x) {
    const Vec size = x < splat(0.0f) ? -x : x;
    const Vec t = 1.0f / (1.0f + 0.3275911f * size);
    const Vec p =
        t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
    const Vec y = 1.0f - p * exponential(-size * size);
    return x < splat(0.0f) ? -y : y;
}

}  // namespace
