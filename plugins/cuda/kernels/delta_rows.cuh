// What a TreeDeltaRule block keeps in shared memory, and the tables it makes of the rows: G, depth, order.
#pragma once

#include "kernels.h"
#include "tree_mask.cuh"

namespace forkcast {
namespace delta {

constexpr int kColumns = 32, kWarps = 16, kThreads = 32 * kWarps;
/// As many as fit beside a state of 256 x 32 in the shared memory of the smallest GPUs, see kSharedEverywhere.
constexpr int kMaxRows = 1792;
/// Floats of one buffer in which the warps of the chain solver meet (two are used in turn).
constexpr int kMeetFloats = kWarps * 2 * kColumns + kWarps;

/// Shared memory of a block and the piece of the tensors it works on.
template <int DK>
struct Block {
    static constexpr int kStagedFloats = kWarps * 2 * DK > 2 * kMeetFloats ? kWarps * 2 * DK : 2 * kMeetFloats;
    float* state;         // [DK][kColumns]: this head's columns of S0
    float* staged;        // tree: k and q of each warp's row; chain: two meeting buffers
    float* g;             // [N]
    float* cumulative_g;  // [N]
    int* parent;          // [N]
    int* order;           // [N]: rows by depth, then by index
    int* depth;           // [N]
    int head = 0, key_head = 0, column = 0;

    __device__ Block(unsigned char* memory, int rows) {
        state = reinterpret_cast<float*>(memory);
        staged = state + DK * kColumns;
        g = staged + kStagedFloats;
        cumulative_g = g + rows;
        parent = reinterpret_cast<int*>(cumulative_g + rows);
        order = parent + rows;
        depth = order + rows;
    }
};

template <int DK>
constexpr std::size_t shared_bytes(int rows) {
    return sizeof(float) * static_cast<std::size_t>(DK * kColumns + Block<DK>::kStagedFloats + 5 * rows);
}

/// Row `row` of q or k for this block's key head.
template <class T, int DK>
__device__ __forceinline__ const T* key_row(const TreeDeltaRuleParams& p, const void* base, const Block<DK>& block,
                                            int row) {
    return static_cast<const T*>(base) + (static_cast<std::int64_t>(row) * p.key_heads + block.key_head) * DK;
}

/// Index of (row, head, first column) in v, u and o.
template <int DK>
__device__ __forceinline__ std::int64_t value_index(const TreeDeltaRuleParams& p, const Block<DK>& block, int row) {
    return (static_cast<std::int64_t>(row) * p.value_heads + block.head) * p.value_dim + block.column;
}

/// Loads S0's columns and g of this head.
template <int DK>
__device__ void load_block(const TreeDeltaRuleParams& p, const Block<DK>& block) {
    const float* state = p.state + static_cast<std::int64_t>(block.head) * DK * p.value_dim + block.column;
    for (int at = static_cast<int>(threadIdx.x); at < DK * kColumns; at += kThreads)
        block.state[at] = state[static_cast<std::int64_t>(at / kColumns) * p.value_dim + at % kColumns];
    for (int row = static_cast<int>(threadIdx.x); row < p.rows; row += kThreads)
        block.g[row] = p.g[static_cast<std::int64_t>(row) * p.value_heads + block.head];
}

/// G and depth of every row by walking up its path, with a compensated sum so that G is right to rounding.
/// Returns whether every row's parent is the row before it or none. Ends with a barrier.
template <int DK>
__device__ bool sum_paths(const TreeDeltaRuleParams& p, const Block<DK>& block) {
    int branches = 0;
    for (int row = static_cast<int>(threadIdx.x); row < p.rows; row += kThreads) {
        float sum = 0.0f, lost = 0.0f;
        int depth = -1;
        for (int j = row; j >= 0; j = block.parent[j], ++depth) {
            const float term = block.g[j] - lost, next = sum + term;
            lost = (next - sum) - term;
            sum = next;
        }
        block.cumulative_g[row] = sum;
        block.depth[row] = depth;
        if (block.column == 0) p.cumulative_g[static_cast<std::int64_t>(row) * p.value_heads + block.head] = sum;
        branches |= block.parent[row] >= 0 && block.parent[row] != row - 1;
    }
    return __syncthreads_or(branches) == 0;
}

/// order = rows sorted by (depth, index). Ends with a barrier.
template <int DK>
__device__ void order_by_depth(int rows, const Block<DK>& block) {
    for (int row = static_cast<int>(threadIdx.x); row < rows; row += kThreads) {
        const int depth = block.depth[row];
        int rank = 0;
        for (int j = 0; j < rows; ++j) rank += block.depth[j] < depth || (block.depth[j] == depth && j < row);
        block.order[rank] = row;
    }
    __syncthreads();
}

}  // namespace delta
}  // namespace forkcast
