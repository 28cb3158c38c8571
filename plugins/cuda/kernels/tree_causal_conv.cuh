// TreeCausalConv: depthwise causal convolution along every root path of a tree, then SiLU.
//
// A block takes kRows rows and kThreads channels. Each of its warps first finds the last K-1 ancestors of one row;
// then every thread convolves its channel for all the rows with the weights in registers.
#pragma once

#include "kernels.h"
#include "numeric.cuh"

namespace forkcast {
namespace conv {

constexpr int kRows = 8, kThreads = 256, kMaxTaps = 8;

/// Fills recent[0..taps): the row itself, then its ancestors from the nearest, then -1, -2, ... for the committed
/// rows from the newest. Called by one whole warp.
__device__ inline void recent_rows(const TreeCausalConvParams& p, int row, int* recent) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const std::uint8_t* mask = p.ancestors + static_cast<std::int64_t>(row) * p.rows;
    int found = 1;
    if (lane == 0) recent[0] = row;
    for (int end = row; end > 0 && found < p.taps; end -= 32) {  // columns end-32 .. end-1, newest first
        const int column = end - 1 - lane;
        unsigned hits = __ballot_sync(kFullWarp, column >= 0 && mask[column >= 0 ? column : 0] != 0);
        while (hits != 0 && found < p.taps) {  // lowest lane first = highest column first
            const int offset = 31 - __clz(static_cast<int>(hits & (0u - hits)));
            if (lane == 0) recent[found] = end - 1 - offset;
            hits &= hits - 1;
            ++found;
        }
    }
    if (lane == 0)
        for (int tap = found; tap < p.taps; ++tap) recent[tap] = found - 1 - tap;
}

}  // namespace conv

/// grid (channel tiles, row tiles), 256 threads; one warp a row for the search. K is the number of taps.
template <class T, int K>
__global__ void __launch_bounds__(conv::kThreads) tree_causal_conv_kernel(TreeCausalConvParams p) {
    using namespace conv;
    FORKCAST_DYNAMIC_SHARED(memory);
    int* recent = reinterpret_cast<int*>(memory);  // [kRows][kMaxTaps]
    const int first = static_cast<int>(blockIdx.y) * kRows;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    if (first + warp < p.rows) recent_rows(p, first + warp, recent + warp * kMaxTaps);
    __syncthreads();

    const int channel = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
    if (channel >= p.channels) return;
    const T* x = static_cast<const T*>(p.x);
    const T* past = static_cast<const T*>(p.past);
    float weight[K];
#pragma unroll
    for (int tap = 0; tap < K; ++tap)
        weight[tap] = to_float(static_cast<const T*>(p.weight)[static_cast<std::int64_t>(channel) * K + tap]);
    for (int local = 0; local < kRows && first + local < p.rows; ++local) {
        float sum = 0.0f;
#pragma unroll
        for (int tap = 0; tap < K; ++tap) {
            const int row = recent[local * kMaxTaps + K - 1 - tap];
            const T* source = row >= 0 ? x + static_cast<std::int64_t>(row) * p.channels
                                       : past + static_cast<std::int64_t>(K - 1 + row) * p.channels;
            sum += weight[tap] * to_float(source[channel]);
        }
        T* out = static_cast<T*>(p.y) + static_cast<std::int64_t>(first + local) * p.channels + channel;
        store_float(out, sum / (1.0f + expf(-sum)));
    }
}

}  // namespace forkcast
