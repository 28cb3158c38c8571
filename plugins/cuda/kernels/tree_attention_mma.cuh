// TreeAttention for 16-bit types on the tensor cores: products of T, sums, softmax and output in float32.
//
// A block of four warps takes kItems (row, head) pairs of one key/value head, kWarpItems a warp, and walks over the
// keys in tiles. A warp keeps its scores, its softmax and its output in registers: the score fragment of one product
// is, rounded to T, the left fragment of the next. Keys of the next tile arrive while the values of this one are
// used, values while the scores are made. Tiles in which no pair is visible are not read.
#pragma once

#include "attention_keys.cuh"
#include "tensor_core.cuh"

namespace forkcast {
namespace attention_mma {

using attention::KeyRange;
using attention::kMasked;

constexpr int kWarps = 4, kThreads = 32 * kWarps, kWarpItems = 16, kItems = kWarps * kWarpItems;

/// Keys of a tile: as many as leave room for two blocks on a multiprocessor, or for the registers of D = 256.
template <int D>
constexpr int kKeys = D > 128 ? 32 : 64;

/// Row length in shared memory; the pad puts the rows of an 8x8 matrix on different banks.
template <int D>
constexpr int kStride = D + 8;

template <int D>
constexpr std::size_t kSharedBytes = sizeof(std::uint16_t) * (kItems + 2 * kKeys<D>) * kStride<D>;

/// Whether this thread's share of a tile holds a visible pair.
template <class T, int D>
__device__ bool any_visible(const TreeAttentionParams& p, const KeyRange<T, D>& keys, int first_item, int tile) {
    const int group = p.heads / p.kv_heads;
    for (int at = static_cast<int>(threadIdx.x); at < kItems * kKeys<D>; at += kThreads) {
        const int row = (first_item + at / kKeys<D>) / group;
        if (row < p.rows && sees(p, keys, row, p.positions[row], tile + at % kKeys<D>)) return true;
    }
    return false;
}

/// First tile at or after `tile` with a visible pair, or keys.last. Every thread of the block takes part.
template <class T, int D>
__device__ int next_tile(const TreeAttentionParams& p, const KeyRange<T, D>& keys, int first_item, int tile) {
    for (; tile < keys.last; tile += kKeys<D>) {
        if (p.window <= 0 && tile < keys.past) return tile;  // every row sees the committed rows
        if (__syncthreads_or(any_visible(p, keys, first_item, tile))) return tile;
    }
    return keys.last;
}

/// Starts copying a tile of keys or values to shared memory; rows past the end become zero.
template <class T, int D>
__device__ void fetch_tile(const TreeAttentionParams& p, const KeyRange<T, D>& keys, const void* committed,
                           const void* fresh, int tile, T* out) {
    constexpr int kChunks = D / 8;
    for (int at = static_cast<int>(threadIdx.x); at < kKeys<D> * kChunks; at += kThreads) {
        const int local = at / kChunks, column = at % kChunks * 8;
        const bool valid = tile + local < keys.last;
        const T* row = keys.row(p, committed, fresh, valid ? tile + local : keys.last - 1);
        async_copy_16(out + local * kStride<D> + column, row + column, valid);
    }
}

template <class T, int D>
__device__ void fetch_queries(const TreeAttentionParams& p, int kv_head, int first_item, int items, T* out) {
    constexpr int kChunks = D / 8;
    for (int at = static_cast<int>(threadIdx.x); at < kItems * kChunks; at += kThreads) {
        const int local = at / kChunks, column = at % kChunks * 8, item = first_item + local;
        const bool valid = item < items;
        const T* row = static_cast<const T*>(p.q) + attention::pair_index(p, kv_head, valid ? item : first_item) * D;
        async_copy_16(out + local * kStride<D> + column, row + column, valid);
    }
}

/// A warp's work: 16 items. A lane holds columns of the two items lane / 4 and lane / 4 + 8.
template <class T, int D>
struct Warp {
    static constexpr int kTiles = kKeys<D> / 8;  // 8 keys wide each
    float output[D / 8][4];
    float score[kTiles][4];
    float maximum[2] = {kMasked, kMasked}, total[2] = {0.0f, 0.0f};  // total: this lane's part
    int row[2];
    std::int64_t position[2];

    __device__ Warp(const TreeAttentionParams& p, int first_item) {
        const int group = p.heads / p.kv_heads;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            row[half] = (first_item + item(half)) / group;
            position[half] = row[half] < p.rows ? p.positions[row[half]] : 0;
        }
#pragma unroll
        for (int n = 0; n < D / 8; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e) output[n][e] = 0.0f;
    }
    __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
    __device__ static int first() { return static_cast<int>(threadIdx.x) / 32 * kWarpItems; }
    __device__ static int item(int half) { return first() + lane() / 4 + 8 * half; }

    /// score = Q K^T
    __device__ void multiply_keys(const T* q, const T* k) {
#pragma unroll
        for (int n = 0; n < kTiles; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e) score[n][e] = 0.0f;
        const T* q_row = q + (first() + lane() % 16) * kStride<D> + lane() / 16 * 8;
        const T* k_row = k + (lane() % 8 + lane() / 16 * 8) * kStride<D> + lane() / 8 % 2 * 8;
#pragma unroll 4
        for (int d = 0; d < D; d += 16) {
            std::uint32_t a[4];
            load_matrices(a, q_row + d);
#pragma unroll
            for (int n = 0; n < kTiles; n += 2) {
                std::uint32_t b[4];
                load_matrices(b, k_row + n * 8 * kStride<D> + d);
                const std::uint32_t low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
                mma_16x8x16<T>(score[n], a, low);
                mma_16x8x16<T>(score[n + 1], a, high);
            }
        }
    }

    /// Scales and masks the scores, then turns them into weights and the output to the new maximum.
    __device__ void softmax(const TreeAttentionParams& p, const KeyRange<T, D>& keys, int tile) {
        const bool open = p.window <= 0 && tile + kKeys<D> <= (keys.past < keys.last ? keys.past : keys.last);
        float high[2] = {maximum[0], maximum[1]};
#pragma unroll
        for (int n = 0; n < kTiles; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int key = tile + n * 8 + lane() % 4 * 2 + e % 2;
                const bool seen = open || sees(p, keys, row[e / 2], position[e / 2], key);
                score[n][e] = seen ? score[n][e] * p.scale : kMasked;
                high[e / 2] = score[n][e] > high[e / 2] ? score[n][e] : high[e / 2];
            }
        float rescale[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            high[half] = lane_max<4>(high[half]);
            rescale[half] = high[half] == kMasked ? 1.0f : expf(maximum[half] - high[half]);
            maximum[half] = high[half];
            total[half] *= rescale[half];
        }
#pragma unroll
        for (int n = 0; n < kTiles; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                score[n][e] = high[e / 2] == kMasked ? 0.0f : expf(score[n][e] - high[e / 2]);
                total[e / 2] += score[n][e];
            }
#pragma unroll
        for (int n = 0; n < D / 8; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e) output[n][e] *= rescale[e / 2];
    }

    /// output += weights V
    __device__ void multiply_values(const T* v) {
        const T* v_row = v + lane() % 16 * kStride<D> + lane() / 16 * 8;
#pragma unroll
        for (int key = 0; key < kKeys<D>; key += 16) {
            const float(&near)[4] = score[key / 8];
            const float(&far)[4] = score[key / 8 + 1];
            const std::uint32_t a[4] = {pack_pair<T>(near[0], near[1]), pack_pair<T>(near[2], near[3]),
                                        pack_pair<T>(far[0], far[1]), pack_pair<T>(far[2], far[3])};
#pragma unroll
            for (int n = 0; n < D / 8; n += 2) {
                std::uint32_t b[4];
                load_matrices_transposed(b, v_row + key * kStride<D> + n * 8);
                const std::uint32_t low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
                mma_16x8x16<T>(output[n], a, low);
                mma_16x8x16<T>(output[n + 1], a, high);
            }
        }
    }

    /// Writes the output of the items that exist, or this split's part of it.
    __device__ void store(const TreeAttentionParams& p, int kv_head, int first_item, int items) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float sum = lane_sum<4>(total[half]);
            const int global = first_item + item(half), column = lane() % 4 * 2;
            if (global >= items) continue;
            const std::int64_t pair = attention::pair_index(p, kv_head, global);
            float* partial = attention::partial_output<D>(p, static_cast<int>(blockIdx.z), pair);
            const float inverse = sum > 0.0f ? 1.0f / sum : 0.0f;
#pragma unroll
            for (int n = 0; n < D / 8; ++n) {
                float value[2] = {output[n][2 * half], output[n][2 * half + 1]};
                if (p.splits == 1) {
                    value[0] *= inverse;
                    value[1] *= inverse;
                    store_floats<2>(static_cast<T*>(p.o) + pair * D + n * 8 + column, value);
                } else {
                    store_floats<2>(partial + n * 8 + column, value);
                }
            }
            if (p.splits > 1 && column == 0) {
                partial[D] = maximum[half];
                partial[D + 1] = sum;
            }
        }
    }
};

}  // namespace attention_mma

/// grid (item tiles, KVH, splits), 128 threads, attention_mma::kSharedBytes<D>.
template <class T, int D>
__global__ void __launch_bounds__(attention_mma::kThreads) tree_attention_mma_kernel(TreeAttentionParams p) {
    using namespace attention_mma;
    FORKCAST_DYNAMIC_SHARED(memory);
    T* q = reinterpret_cast<T*>(memory);   // [kItems][kStride]
    T* k = q + kItems * kStride<D>;        // [kKeys][kStride]
    T* v = k + kKeys<D> * kStride<D>;      // [kKeys][kStride]
    const int group = p.heads / p.kv_heads, items = p.rows * group;
    const int first_item = static_cast<int>(blockIdx.x) * kItems;
    const int last_item = (first_item + kItems < items ? first_item + kItems : items) - 1;
    const KeyRange<T, D> keys = attention::key_range<T, D>(p, first_item / group, last_item / group, kKeys<D>);

    Warp<T, D> warp(p, first_item);
    fetch_queries<T, D>(p, keys.kv_head, first_item, items, q);
    int tile = next_tile(p, keys, first_item, keys.first);
    if (tile < keys.last) fetch_tile<T, D>(p, keys, p.past_k, p.k, tile, k);
    while (tile < keys.last) {
        const int after = next_tile(p, keys, first_item, tile + kKeys<D>);
        async_wait();
        __syncthreads();  // the keys are here, and no warp uses the values of the last tile any more
        fetch_tile<T, D>(p, keys, p.past_v, p.v, tile, v);
        warp.multiply_keys(q, k);
        warp.softmax(p, keys, tile);
        async_wait();
        __syncthreads();  // the values are here, and no warp uses the keys any more
        if (after < keys.last) fetch_tile<T, D>(p, keys, p.past_k, p.k, after, k);
        warp.multiply_values(v);
        tile = after;
    }
    async_wait();  // a block without a visible tile still has its queries under way
    warp.store(p, keys.kv_head, first_item, items);
}

}  // namespace forkcast
