// TreeAttention, what its two kernels share: which keys a block walks over, who may see what, joining the splits.
//
// The keys are the committed rows followed by the N new rows. An item is a (row, head) pair; a block takes items that
// share one key/value head. With several splits a block sees one piece of the keys and leaves its unnormalised output,
// maximum and sum in the workspace; tree_attention_combine_kernel joins the pieces.
#pragma once

#include "kernels.h"
#include "numeric.cuh"

namespace forkcast {
namespace attention {

constexpr float kMasked = -INFINITY;

/// Which keys there are and where they lie.
template <class T, int D>
struct KeyRange {
    int past, first, last;  // committed rows; this block's keys are first..last of [committed | rows]
    int kv_head;

    /// Row `key` of keys or values: committed first, then new rows.
    __device__ const T* row(const TreeAttentionParams& p, const void* committed, const void* fresh, int key) const {
        const bool old = key < past;
        const T* base = static_cast<const T*>(old ? committed : fresh);
        const std::int64_t index = old ? key : key - past;
        return base + (index * p.kv_heads + kv_head) * D;
    }
};

/// Whether item row `row` at `position` may see `key`.
template <class T, int D>
__device__ bool sees(const TreeAttentionParams& p, const KeyRange<T, D>& keys, int row, std::int64_t position,
                     int key) {
    if (row >= p.rows || key >= keys.last) return false;
    std::int64_t at = key;
    if (key >= keys.past) {
        const int other = key - keys.past;
        if (p.visible[static_cast<std::int64_t>(row) * p.rows + other] == 0) return false;
        at = p.positions[other];
    }
    return p.window <= 0 || position - at < p.window;
}

/// First committed row that any item of this tile can see through the window.
__device__ inline int first_key(const TreeAttentionParams& p, int past, int first_row, int last_row) {
    if (p.window <= 0) return 0;
    std::int64_t lowest = INT64_MAX;
    for (int row = first_row; row <= last_row; ++row)
        lowest = p.positions[row] < lowest ? p.positions[row] : lowest;
    const std::int64_t key = lowest - p.window + 1;
    return key <= 0 ? 0 : key >= past ? past : static_cast<int>(key);
}

/// The piece of the keys that belongs to this block, in whole tiles of `tile` keys.
template <class T, int D>
__device__ KeyRange<T, D> key_range(const TreeAttentionParams& p, int first_row, int last_row, int tile) {
    KeyRange<T, D> keys;
    keys.kv_head = static_cast<int>(blockIdx.y);
    const std::int64_t past = p.past_len[0];
    keys.past = past < 0 ? 0 : past > p.capacity ? p.capacity : static_cast<int>(past);
    const int low = first_key(p, keys.past, first_row, last_row), end = keys.past + p.rows;
    const int piece = ceil_div(ceil_div(end - low, p.splits), tile) * tile;
    keys.first = low + static_cast<int>(blockIdx.z) * piece;
    keys.last = keys.first + piece < end ? keys.first + piece : end;
    return keys;
}

/// Index of item `item` of key/value head `kv_head` among the N * QH (row, head) pairs.
__device__ inline std::int64_t pair_index(const TreeAttentionParams& p, int kv_head, int item) {
    const int group = p.heads / p.kv_heads;
    return static_cast<std::int64_t>(item / group) * p.heads + kv_head * group + item % group;
}

/// Where a split leaves the output of one pair: D values, then maximum and sum.
template <int D>
__device__ float* partial_output(const TreeAttentionParams& p, int split, std::int64_t pair) {
    return p.workspace + (split * static_cast<std::int64_t>(p.rows) * p.heads + pair) * (D + 4);
}

}  // namespace attention

/// Joins the splits of one (row, head). grid (N * QH), D / 4 threads rounded up to a warp.
template <class T, int D>
__global__ void tree_attention_combine_kernel(TreeAttentionParams p) {
    using namespace attention;
    const std::int64_t pair = blockIdx.x;
    const int column = static_cast<int>(threadIdx.x) * 4;
    if (column >= D) return;
    float maximum = kMasked;
    for (int s = 0; s < p.splits; ++s) {
        const float other = partial_output<D>(p, s, pair)[D];
        maximum = other > maximum ? other : maximum;
    }
    float total = 0.0f, sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int s = 0; s < p.splits; ++s) {
        const float* partial = partial_output<D>(p, s, pair);
        if (partial[D] == kMasked) continue;
        const float weight = expf(partial[D] - maximum);
        total += weight * partial[D + 1];
        float value[4];
        load_floats<4>(value, partial + column);
        for (int e = 0; e < 4; ++e) sum[e] += weight * value[e];
    }
    for (int e = 0; e < 4; ++e) sum[e] = total > 0.0f ? sum[e] / total : 0.0f;
    store_floats<4>(static_cast<T*>(p.o) + pair * D + column, sum);
}

}  // namespace forkcast
