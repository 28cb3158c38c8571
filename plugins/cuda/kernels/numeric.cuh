// Conversions and small vector accesses shared by the kernels. All arithmetic is float32.
#pragma once

#include "platform.cuh"

namespace forkcast {

__host__ __device__ __forceinline__ float to_float(float x) { return x; }

#if defined(__CUDACC__)
__host__ __device__ __forceinline__ float to_float(bf16 x) { return __bfloat162float(x); }
__host__ __device__ __forceinline__ float to_float(f16 x) { return __half2float(x); }
__host__ __device__ __forceinline__ void store_float(bf16* out, float x) { *out = __float2bfloat16_rn(x); }
__host__ __device__ __forceinline__ void store_float(f16* out, float x) { *out = __float2half_rn(x); }
#else
inline float to_float(bf16 x) { return host::widen(x); }
inline float to_float(f16 x) { return host::widen(x); }
inline void store_float(bf16* out, float x) { *out = host::narrow_bf16(x); }
inline void store_float(f16* out, float x) { *out = host::narrow_f16(x); }
#endif
__host__ __device__ __forceinline__ void store_float(float* out, float x) { *out = x; }

/// `W` neighbouring elements read or written as one access of at most 16 bytes a piece.
template <class T, int W>
struct alignas(sizeof(T) * W > 16 ? 16 : sizeof(T) * W) Pack {
    T item[W];
};

/// out[0..W) = in[0..W) as float; `in` is aligned to the pack.
template <int W, class T>
__device__ __forceinline__ void load_floats(float* out, const T* in) {
    const Pack<T, W> pack = *reinterpret_cast<const Pack<T, W>*>(in);
#pragma unroll
    for (int i = 0; i < W; ++i) out[i] = to_float(pack.item[i]);
}

/// out[0..W) = in[0..W) rounded to nearest even.
template <int W, class T>
__device__ __forceinline__ void store_floats(T* out, const float* in) {
    Pack<T, W> pack;
#pragma unroll
    for (int i = 0; i < W; ++i) store_float(&pack.item[i], in[i]);
    *reinterpret_cast<Pack<T, W>*>(out) = pack;
}

constexpr unsigned kFullWarp = 0xffffffffu;

/// Sum over groups of `LANES` neighbouring lanes (a power of two); every lane gets it.
template <int LANES>
__device__ __forceinline__ float lane_sum(float x) {
#pragma unroll
    for (int step = LANES / 2; step > 0; step /= 2) x += __shfl_xor_sync(kFullWarp, x, step);
    return x;
}

/// Maximum over groups of `LANES` neighbouring lanes; every lane gets it.
template <int LANES>
__device__ __forceinline__ float lane_max(float x) {
#pragma unroll
    for (int step = LANES / 2; step > 0; step /= 2) {
        const float other = __shfl_xor_sync(kFullWarp, x, step);
        x = other > x ? other : x;
    }
    return x;
}

template <class I>
__device__ __host__ __forceinline__ I ceil_div(I a, I b) {
    return (a + b - 1) / b;
}

}  // namespace forkcast
