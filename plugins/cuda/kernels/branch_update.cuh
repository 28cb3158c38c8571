// DeltaBranchUpdate: commit of the accepted path into the recurrent state, a rank-P update per value head.
//
// A block takes kKeys rows and kColumns columns of one head's state; each thread owns kEach state elements of one
// column, so the state is read once and written once and may be updated in place.
#pragma once

#include "kernels.h"
#include "numeric.cuh"

namespace forkcast {
namespace branch {

constexpr int kColumns = 32, kKeys = 32, kThreads = 256, kEach = kKeys * kColumns / kThreads;

}  // namespace branch

/// grid (DV / 32 rounded up, DK / 32 rounded up, HV), 256 threads.
template <class T>
__global__ void __launch_bounds__(branch::kThreads) branch_update_kernel(BranchUpdateParams p) {
    using namespace branch;
    const int head = static_cast<int>(blockIdx.z), key_head = head / (p.value_heads / p.key_heads);
    const int column = static_cast<int>(blockIdx.x) * kColumns + static_cast<int>(threadIdx.x) % kColumns;
    const int first_key = static_cast<int>(blockIdx.y) * kKeys + static_cast<int>(threadIdx.x) / kColumns * kEach;
    if (column >= p.value_dim) return;

    std::int64_t last = -1;
    for (int at = p.path_length - 1; at >= 0 && last < 0; --at)
        if (p.path[at] >= 0 && p.path[at] < p.rows) last = p.path[at];
    const float end = last < 0 ? 0.0f : p.cumulative_g[last * p.value_heads + head];

    const std::int64_t base = (static_cast<std::int64_t>(head) * p.key_dim + first_key) * p.value_dim + column;
    const float decay = expf(end);
    float state[kEach];
#pragma unroll
    for (int e = 0; e < kEach; ++e)
        state[e] = first_key + e < p.key_dim ? decay * p.state[base + static_cast<std::int64_t>(e) * p.value_dim] : 0.0f;

    for (int at = 0; at < p.path_length; ++at) {
        const std::int64_t row = p.path[at];
        if (row < 0 || row >= p.rows) continue;
        const std::int64_t value_row = row * p.value_heads + head;
        const float u = expf(end - p.cumulative_g[value_row]) * p.u[value_row * p.value_dim + column];
        const T* k = static_cast<const T*>(p.k) + (row * p.key_heads + key_head) * p.key_dim + first_key;
#pragma unroll
        for (int e = 0; e < kEach; ++e)
            if (first_key + e < p.key_dim) state[e] += to_float(k[e]) * u;
    }
#pragma unroll
    for (int e = 0; e < kEach; ++e)
        if (first_key + e < p.key_dim) p.out[base + static_cast<std::int64_t>(e) * p.value_dim] = state[e];
}

}  // namespace forkcast
