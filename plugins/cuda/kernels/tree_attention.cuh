// TreeAttention: flash-style attention of a tree of rows over the committed cache and the visible rows.
//
// A block takes kItems (row, head) pairs that share one key/value head and walks over the keys in tiles of kKeys:
// scores, online softmax, weighted sum of the values. The keys are the committed rows followed by the N new rows.
// With several splits a block sees one piece of the keys and leaves (maximum, sum, unnormalised output) in the
// workspace; tree_attention_combine_kernel joins the pieces.
#pragma once

#include "kernels.h"
#include "numeric.cuh"

namespace forkcast {
namespace attention {

constexpr int kItems = 32, kKeys = 32, kThreads = 256;
constexpr int kSide = 16;             // the score tile is made by 16 x 16 threads, 2 x 2 scores each
constexpr int kScoreStride = kKeys + 4;
constexpr float kMasked = -INFINITY;

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
    const int split = static_cast<int>(blockIdx.z);

    // Item m of this key/value head is row m / group, head kv_head * group + m % group.
    KeyRange<T, D> keys;
    keys.kv_head = static_cast<int>(blockIdx.y);
    const std::int64_t past = p.past_len[0];
    keys.past = past < 0 ? 0 : past > p.capacity ? p.capacity : static_cast<int>(past);
    const int low = first_key(p, keys.past, first_item / group, (last_item - 1) / group);
    const int count = keys.past + p.rows - low, piece = ceil_div(ceil_div(count, p.splits), kKeys) * kKeys;
    keys.first = low + split * piece;
    keys.last = keys.first + piece < keys.past + p.rows ? keys.first + piece : keys.past + p.rows;

    for (int at = thread; at < kItems * (D / 4); at += kThreads) {
        const int item = first_item + at / (D / 4), column = at % (D / 4) * 4;
        float value[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        if (item < items) {
            const std::int64_t head = static_cast<std::int64_t>(item / group) * p.heads + keys.kv_head * group +
                                      item % group;
            load_floats<4>(value, static_cast<const T*>(p.q) + head * D + column);
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
    const std::int64_t heads = static_cast<std::int64_t>(p.rows) * p.heads;
    for (int i = 0; i < Output<D>::kEach; ++i) {
        const int local = Output<D>::item(i), item = first_item + local;
        if (item >= items) continue;
        const std::int64_t head = static_cast<std::int64_t>(item / group) * p.heads + keys.kv_head * group +
                                  item % group;
        if (p.splits == 1) {
            const float inverse = stats[kItems + local] > 0.0f ? 1.0f / stats[kItems + local] : 0.0f;
            float value[4];
            for (int e = 0; e < 4; ++e) value[e] = output.value[i][e] * inverse;
            store_floats<4>(static_cast<T*>(p.o) + head * D + Output<D>::column(), value);
        } else {
            float* partial = p.workspace + (split * heads + head) * (D + 4);
            store_floats<4>(partial + Output<D>::column(), output.value[i]);
            if (Output<D>::column() == 0) {
                partial[D] = stats[local];
                partial[D + 1] = stats[kItems + local];
            }
        }
    }
}

/// Joins the splits of one (row, head). grid (N * QH), D / 4 threads rounded up to a warp.
template <class T, int D>
__global__ void tree_attention_combine_kernel(TreeAttentionParams p) {
    using namespace attention;
    const std::int64_t head = blockIdx.x, heads = static_cast<std::int64_t>(p.rows) * p.heads;
    const int column = static_cast<int>(threadIdx.x) * 4;
    if (column >= D) return;
    float maximum = kMasked;
    for (int s = 0; s < p.splits; ++s) {
        const float other = p.workspace[(s * heads + head) * (D + 4) + D];
        maximum = other > maximum ? other : maximum;
    }
    float total = 0.0f, sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int s = 0; s < p.splits; ++s) {
        const float* partial = p.workspace + (s * heads + head) * (D + 4);
        if (partial[D] == kMasked) continue;
        const float weight = expf(partial[D] - maximum);
        total += weight * partial[D + 1];
        float value[4];
        load_floats<4>(value, partial + column);
        for (int e = 0; e < 4; ++e) sum[e] += weight * value[e];
    }
    for (int e = 0; e < 4; ++e) sum[e] = total > 0.0f ? sum[e] / total : 0.0f;
    store_floats<4>(static_cast<T*>(p.o) + head * D + column, sum);
}

}  // namespace forkcast
