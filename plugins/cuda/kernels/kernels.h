// The launch functions: one parameter struct and one function an operator. Plain C++17, no CUDA header needed.
//
// Shapes use N rows (row 0 is the anchor, parents before children), QH/KVH attention heads, HK/HV DeltaNet heads,
// C cache rows. Every tensor is dense, row-major, on the device, aligned to 16 bytes. `T` is the element type given.
#pragma once

#include <cstddef>
#include <cstdint>

#include "status.h"

struct CUstream_st;

namespace forkcast {

/// Softmax attention of N rows over the committed rows c < past_len and over the rows j with visible[i][j].
/// With a window W > 0 a key is seen only if positions[i] - position(key) < W; a committed row's position is its
/// index. A row that sees nothing gives zeros. past_len is clamped to 0..C.
struct TreeAttentionParams {
    const void* q = nullptr;                 ///< T [N, QH, D]
    const void* k = nullptr;                 ///< T [N, KVH, D]
    const void* v = nullptr;                 ///< T [N, KVH, D]
    const void* past_k = nullptr;            ///< T [C, KVH, D]; may be null if C == 0
    const void* past_v = nullptr;            ///< T [C, KVH, D]
    const std::int64_t* past_len = nullptr;  ///< [1]
    const std::int64_t* positions = nullptr; ///< [N]
    const std::uint8_t* visible = nullptr;   ///< bool [N, N]
    void* o = nullptr;                       ///< T [N, QH, D]
    float* workspace = nullptr;              ///< tree_attention_workspace() bytes; may be null if that is 0
    std::size_t workspace_bytes = 0;
    int rows = 0, heads = 0, kv_heads = 0, head_size = 0, capacity = 0;
    float scale = 1.0f;
    std::int64_t window = 0;
    int splits = 1;  ///< set by the launch function
};

/// Depthwise convolution over each row's last K-1 ancestors, then the committed rows, then SiLU.
struct TreeCausalConvParams {
    const void* x = nullptr;                 ///< T [N, CH]
    const void* past = nullptr;              ///< T [K-1, CH], oldest first; may be null if K == 1
    const void* weight = nullptr;            ///< T [CH, K], tap K-1 is the row itself
    const std::uint8_t* ancestors = nullptr; ///< bool [N, N]
    void* y = nullptr;                       ///< T [N, CH]
    int rows = 0, channels = 0, taps = 0;
};

/// Gated delta rule along every root path in one pass. The mask must be that of a forest in topological order.
struct TreeDeltaRuleParams {
    const void* q = nullptr;                 ///< T [N, HK, DK], l2-normalised and scaled by DK^-1/2
    const void* k = nullptr;                 ///< T [N, HK, DK], l2-normalised
    const void* v = nullptr;                 ///< T [N, HV, DV]
    const float* g = nullptr;                ///< [N, HV], log decay <= 0
    const float* beta = nullptr;             ///< [N, HV]
    const float* state = nullptr;            ///< [HV, DK, DV]
    const std::uint8_t* ancestors = nullptr; ///< bool [N, N]
    void* o = nullptr;                       ///< T [N, HV, DV]
    float* u = nullptr;                      ///< [N, HV, DV]
    float* cumulative_g = nullptr;           ///< G [N, HV]: sum of g over the row and its ancestors
    int rows = 0, key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
};

/// state' = exp(G_n) state + sum_j exp(G_n - G_j) k_j u_j^T over the path, n its last row. Path entries outside
/// 0..N are skipped; an empty path copies the state. `out` may be `state`.
struct BranchUpdateParams {
    const float* state = nullptr;        ///< [HV, DK, DV]
    const void* k = nullptr;             ///< T [N, HK, DK]
    const float* u = nullptr;            ///< [N, HV, DV]
    const float* cumulative_g = nullptr; ///< G [N, HV]
    const std::int64_t* path = nullptr;  ///< [P], root first
    float* out = nullptr;                ///< [HV, DK, DV]
    int rows = 0, key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0, path_length = 0;
};

/// One cache of a KV append: rows of `row_bytes` bytes go from `source` [N rows] to `cache` [capacity rows].
struct KvCopy {
    const void* source;
    void* cache;
    std::int64_t row_bytes;
};

/// cache[first_row + p] = source[path[p]] for every cache of the model in one launch. Path entries outside 0..N
/// write nothing.
struct KvRowAppendParams {
    const KvCopy* copies = nullptr;     ///< [copy_count], on the device
    const std::int64_t* path = nullptr; ///< [P], on the device
    std::int64_t first_row = 0, capacity = 0;
    int copy_count = 0, path_length = 0, rows = 0;
};

using LaunchStream = ::CUstream_st*;  // cudaStream_t; the CPU build ignores it

/// Number of pieces the keys are cut into; depends on the shapes only, so results do not depend on the GPU.
int tree_attention_splits(int rows, int heads, int kv_heads, int capacity);
std::size_t tree_attention_workspace(int rows, int heads, int kv_heads, int head_size, int capacity);

Status launch_tree_attention(TreeAttentionParams params, ElementType type, LaunchStream stream);
Status launch_tree_causal_conv(const TreeCausalConvParams& params, ElementType type, LaunchStream stream);
Status launch_tree_delta_rule(const TreeDeltaRuleParams& params, ElementType type, LaunchStream stream);
Status launch_branch_update(const BranchUpdateParams& params, ElementType type, LaunchStream stream);
Status launch_kv_row_append(const KvRowAppendParams& params, std::int64_t row_bytes, LaunchStream stream);

}  // namespace forkcast
