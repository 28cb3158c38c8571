// TreeAttention in float32, on the plain pipes: every product and sum is float32.
//
// A block takes kItems (row, head) pairs that share one key/value head and walks over the keys in tiles of kKeys:
// scores, online softmax, weighted sum of the values. See attention_keys.cuh for keys, masks and splits.
#pragma once

#include "attention_keys.cuh"

namespace forkcast {
namespace attention {

constexpr int kItems = 32, kKeys = 32, kThreads = 256;
constexpr int kSide = 16;             // the score tile is made by 16 x 16 threads, 2 x 2 scores each
constexpr int kScoreStride = kKeys + 4;

/// Row length of a tile in shared memory; the pad keeps 16-byte reads of neighbouring rows on different banks.
template <int D>
constexpr int kStride = D + 4;

template <int D>
constexpr std::size_t kSharedBytes =
    sizeof(float) * (kItems * kStride<D> + kKeys * kStride<D> + kItems * kScoreStride + 2 * kItems) +
    sizeof(std::int64_t) * kItems;

/// Shared memory of a block.
template <int D>
struct Tiles {
    std::int64_t* position;  // [kItems]
    float* q;                // [kItems][kStride]
    float* kv;               // [kKeys][kStride]: keys, then values of the same tile
    float* score;            // [kItems][kScoreStride]
    float* rescale;          // [kItems]
    __device__ explicit Tiles(unsigned char* memory) {
        position = reinterpret_cast<std::int64_t*>(memory);
        q = reinterpret_cast<float*>(position + kItems);
        kv = q + kItems * kStride<D>;
        score = kv + kKeys * kStride<D>;
        rescale = score + kItems * kScoreStride;
    }
};

/// Copies a tile of rows to shared memory as float; rows past the end become zero, so 0 * garbage cannot be NaN.
template <class T, int D>
__device__ void load_tile(const TreeAttentionParams& p, const KeyRange<T, D>& keys, const void* committed,
                          const void* fresh, int tile, float* out) {
    constexpr int kPacks = D / 4;
    for (int at = static_cast<int>(threadIdx.x); at < kKeys * kPacks; at += kThreads) {
        const int key = tile + at / kPacks, column = at % kPacks * 4;
        float value[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        if (key < keys.last) load_floats<4>(value, keys.row(p, committed, fresh, key) + column);
        store_floats<4>(out + at / kPacks * kStride<D> + column, value);
    }
}

/// Scores of one tile: 2 x 2 dot products a thread; masked scores are -inf.
template <int D>
__device__ void score_tile(const Tiles<D>& tiles, const bool (&seen)[2][2], float scale) {
    const int ty = static_cast<int>(threadIdx.x) / kSide, tx = static_cast<int>(threadIdx.x) % kSide;
    float sum[2][2] = {{0.0f, 0.0f}, {0.0f, 0.0f}};
#pragma unroll 4
    for (int d = 0; d < D; d += 4) {
        float a[2][4], b[2][4];
#pragma unroll
        for (int s = 0; s < 2; ++s) {
            load_floats<4>(a[s], tiles.q + (ty + s * kSide) * kStride<D> + d);
            load_floats<4>(b[s], tiles.kv + (tx + s * kSide) * kStride<D> + d);
        }
#pragma unroll
        for (int e = 0; e < 4; ++e)
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 2; ++j) sum[i][j] += a[i][e] * b[j][e];
    }
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j)
            tiles.score[(ty + i * kSide) * kScoreStride + tx + j * kSide] = seen[i][j] ? sum[i][j] * scale : kMasked;
}

/// One step of the online softmax: 8 neighbouring lanes share an item. Turns scores into weights in place.
template <int D>
__device__ void softmax_tile(const Tiles<D>& tiles, float& maximum, float& total) {
    constexpr int kLanes = kThreads / kItems, kEach = kKeys / kLanes;
    const int item = static_cast<int>(threadIdx.x) / kLanes, lane = static_cast<int>(threadIdx.x) % kLanes;
    float* row = tiles.score + item * kScoreStride + lane * kEach;
    float score[kEach];
    load_floats<kEach>(score, row);
    float high = maximum;
#pragma unroll
    for (int i = 0; i < kEach; ++i) high = score[i] > high ? score[i] : high;
    high = lane_max<kLanes>(high);
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
        score[i] = high == kMasked ? 0.0f : expf(score[i] - high);
        sum += score[i];
    }
    store_floats<kEach>(row, score);
    const float rescale = high == kMasked ? 1.0f : expf(maximum - high);
    total = total * rescale + lane_sum<kLanes>(sum);
    maximum = high;
    if (lane == 0) tiles.rescale[item] = rescale;
}

/// Output tile held in registers: kEach items times 4 columns a thread.
template <int D>
struct Output {
    static constexpr int kColumnGroups = D / 4;
    static constexpr int kEach = kItems * kColumnGroups / kThreads;
    float value[kEach][4];

    __device__ Output() {
#pragma unroll
        for (int i = 0; i < kEach; ++i)
#pragma unroll
            for (int e = 0; e < 4; ++e) value[i][e] = 0.0f;
    }
    __device__ static int column() { return static_cast<int>(threadIdx.x) % kColumnGroups * 4; }
    __device__ static int item(int i) { return static_cast<int>(threadIdx.x) / kColumnGroups * kEach + i; }

    /// value = rescale * value + weights @ values of the tile
    __device__ void accumulate(const Tiles<D>& tiles) {
#pragma unroll
        for (int i = 0; i < kEach; ++i)
#pragma unroll
            for (int e = 0; e < 4; ++e) value[i][e] *= tiles.rescale[item(i)];
#pragma unroll 2
        for (int key = 0; key < kKeys; key += 4) {
            float v[4][4];
#pragma unroll
            for (int s = 0; s < 4; ++s) load_floats<4>(v[s], tiles.kv + (key + s) * kStride<D> + column());
#pragma unroll
            for (int i = 0; i < kEach; ++i) {
                float weight[4];
                load_floats<4>(weight, tiles.score + item(i) * kScoreStride + key);
#pragma unroll
                for (int s = 0; s < 4; ++s)
#pragma unroll
                    for (int e = 0; e < 4; ++e) value[i][e] += weight[s] * v[s][e];
            }
        }
    }
};

}  // namespace attention

/// grid (item tiles, KVH, splits), 256 threads, attention::kSharedBytes<D>.
template <class T, int D>
__global__ void __launch_bounds__(attention::kThreads) tree_attention_kernel(TreeAttentionParams p) {
    using namespace attention;
    FORKCAST_DYNAMIC_SHARED(memory);
    const Tiles<D> tiles(memory);
    const int thread = static_cast<int>(threadIdx.x);
    const int group = p.heads / p.kv_heads, items = p.rows * group;
    const int first_item = static_cast<int>(blockIdx.x) * kItems;
    const int last_item = first_item + kItems < items ? first_item + kItems : items;

    const KeyRange<T, D> keys = key_range<T, D>(p, first_item / group, (last_item - 1) / group, kKeys);

    for (int at = thread; at < kItems * (D / 4); at += kThreads) {
        const int item = first_item + at / (D / 4), column = at % (D / 4) * 4;
        float value[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        if (item < items) {
            load_floats<4>(value, static_cast<const T*>(p.q) + pair_index(p, keys.kv_head, item) * D + column);
        }
        store_floats<4>(tiles.q + at / (D / 4) * kStride<D> + column, value);
    }
    if (thread < kItems)
        tiles.position[thread] = first_item + thread < items ? p.positions[(first_item + thread) / group] : 0;
    __syncthreads();

    Output<D> output;
    float maximum = kMasked, total = 0.0f;
    const int ty = thread / kSide, tx = thread % kSide;
    for (int tile = keys.first; tile < keys.last; tile += kKeys) {
        bool seen[2][2];
        int any = 0;
        for (int i = 0; i < 2; ++i)
            for (int j = 0; j < 2; ++j) {
                const int item = ty + i * kSide;
                seen[i][j] = sees(p, keys, (first_item + item) / group, tiles.position[item], tile + tx + j * kSide);
                any |= seen[i][j];
            }
        if (!__syncthreads_or(any)) continue;  // no pair of this tile is visible; also ends the last tile's reads
        load_tile<T, D>(p, keys, p.past_k, p.k, tile, tiles.kv);
        __syncthreads();
        score_tile<D>(tiles, seen, p.scale);
        __syncthreads();
        load_tile<T, D>(p, keys, p.past_v, p.v, tile, tiles.kv);
        softmax_tile<D>(tiles, maximum, total);
        __syncthreads();
        output.accumulate(tiles);
    }

    // The lanes of an item hand its sum and maximum to the threads that hold its output.
    __syncthreads();
    float* stats = tiles.score;
    constexpr int kLanes = kThreads / kItems;
    if (thread % kLanes == 0) {
        stats[thread / kLanes] = maximum;
        stats[kItems + thread / kLanes] = total;
    }
    __syncthreads();
    for (int i = 0; i < Output<D>::kEach; ++i) {
        const int local = Output<D>::item(i), item = first_item + local;
        if (item >= items) continue;
        const std::int64_t pair = pair_index(p, keys.kv_head, item);
        if (p.splits == 1) {
            const float inverse = stats[kItems + local] > 0.0f ? 1.0f / stats[kItems + local] : 0.0f;
            float value[4];
            for (int e = 0; e < 4; ++e) value[e] = output.value[i][e] * inverse;
            store_floats<4>(static_cast<T*>(p.o) + pair * D + Output<D>::column(), value);
        } else {
            float* partial = partial_output<D>(p, static_cast<int>(blockIdx.z), pair);
            store_floats<4>(partial + Output<D>::column(), output.value[i]);
            if (Output<D>::column() == 0) {
                partial[D] = stats[local];
                partial[D + 1] = stats[kItems + local];
            }
        }
    }
}

}  // namespace forkcast
