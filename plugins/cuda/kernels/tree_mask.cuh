// Reading ancestor masks: the parent of every row from bool [N, N].
#pragma once

#include "numeric.cuh"

namespace forkcast {

constexpr int kNoParent = -1;

/// parent[i] = highest strict ancestor of row i, or kNoParent. Columns at or above the diagonal are ignored.
/// `parent` is shared memory [rows]; all threads of the block take part; ends with a barrier.
__device__ inline void parents_from_mask(const std::uint8_t* mask, int rows, int* parent) {
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    for (int i = thread; i < rows; i += threads) parent[i] = kNoParent;
    __syncthreads();

    // The mask is read as 32-bit words whatever the row length: most words are zero and end there.
    const int bytes = rows * rows, words = bytes / 4;
    const auto* packed = reinterpret_cast<const std::uint32_t*>(mask);
    for (int w = thread; w < words + 1; w += threads) {
        if (w < words && packed[w] == 0) continue;
        const int end = w < words ? 4 * w + 4 : bytes;
        for (int at = 4 * w; at < end; ++at) {
            const int i = at / rows, j = at % rows;
            if (mask[at] != 0 && j < i) atomicMax(&parent[i], j);
        }
    }
    __syncthreads();
}

}  // namespace forkcast
