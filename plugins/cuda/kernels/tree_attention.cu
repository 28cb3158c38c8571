// Checks and launches TreeAttention.
#include "launch.cuh"
#include "tree_attention.cuh"
#include "tree_attention_mma.cuh"

namespace forkcast {
namespace {

/// Blocks wanted before the keys are left in one piece, and the fewest keys worth a piece of their own.
constexpr int kTargetBlocks = 256, kMinimumKeys = 256, kMaximumSplits = 16;

Status check(const TreeAttentionParams& p) {
    if (p.rows <= 0 || p.heads <= 0 || p.kv_heads <= 0 || p.heads % p.kv_heads != 0 || p.capacity < 0 || p.window < 0)
        return Status::kBadShape;
    if (p.q == nullptr || p.k == nullptr || p.v == nullptr || p.past_len == nullptr || p.positions == nullptr ||
        p.visible == nullptr || p.o == nullptr)
        return Status::kNullPointer;
    if (p.capacity > 0 && (p.past_k == nullptr || p.past_v == nullptr)) return Status::kNullPointer;
    return Status::kOk;
}

template <class T, int D>
Status launch_sized(const TreeAttentionParams& p, Stream stream) {
    static_assert(attention::kSharedBytes<D> <= kSharedEverywhere);
    static_assert(attention_mma::kSharedBytes<D> <= kSharedEverywhere);
    const int items = p.rows * (p.heads / p.kv_heads);
    const auto grid = [&](int tile) {
        return GridSize{static_cast<unsigned>(ceil_div(items, tile)), static_cast<unsigned>(p.kv_heads),
                        static_cast<unsigned>(p.splits)};
    };
    Status status;
    if constexpr (std::is_same_v<T, float>)
        status = launch(&tree_attention_kernel<T, D>, grid(attention::kItems), attention::kThreads,
                        attention::kSharedBytes<D>, stream, p);
    else
        status = launch(&tree_attention_mma_kernel<T, D>, grid(attention_mma::kItems), attention_mma::kThreads,
                        attention_mma::kSharedBytes<D>, stream, p);
    if (status != Status::kOk || p.splits == 1) return status;
    const GridSize rows{static_cast<unsigned>(p.rows * p.heads), 1, 1};
    return launch(&tree_attention_combine_kernel<T, D>, rows, D / 4 < 32 ? 32 : D / 4, 0, stream, p);
}

}  // namespace

int tree_attention_splits(int rows, int heads, int kv_heads, int capacity) {
    if (rows <= 0 || heads <= 0 || kv_heads <= 0 || capacity < 0) return 1;
    const int blocks = ceil_div(rows * (heads / kv_heads), attention_mma::kItems) * kv_heads;
    const int wanted = kTargetBlocks / (blocks > 0 ? blocks : 1);
    const int worth = ceil_div(capacity + rows, kMinimumKeys);
    const int splits = wanted < worth ? wanted : worth;
    return splits < 1 ? 1 : splits > kMaximumSplits ? kMaximumSplits : splits;
}

std::size_t tree_attention_workspace(int rows, int heads, int kv_heads, int head_size, int capacity) {
    const int splits = tree_attention_splits(rows, heads, kv_heads, capacity);
    if (splits == 1) return 0;
    return sizeof(float) * static_cast<std::size_t>(splits) * static_cast<std::size_t>(rows) *
           static_cast<std::size_t>(heads) * static_cast<std::size_t>(head_size + 4);
}

Status launch_tree_attention(TreeAttentionParams p, ElementType type, LaunchStream stream) {
    const Status status = check(p);
    if (status != Status::kOk) return status;
    if (p.head_size != 64 && p.head_size != 128 && p.head_size != 256) return Status::kUnsupportedHeadSize;
    p.splits = tree_attention_splits(p.rows, p.heads, p.kv_heads, p.capacity);
    const std::size_t needed = tree_attention_workspace(p.rows, p.heads, p.kv_heads, p.head_size, p.capacity);
    if (needed > 0 && p.workspace == nullptr) return Status::kNullPointer;
    if (p.workspace_bytes < needed) return Status::kWorkspaceTooSmall;
    return with_element_type(type, [&](auto* tag) {
        using T = std::remove_pointer_t<decltype(tag)>;
        if (p.head_size == 64) return launch_sized<T, 64>(p, stream);
        if (p.head_size == 128) return launch_sized<T, 128>(p, stream);
        return launch_sized<T, 256>(p, stream);
    });
}

}  // namespace forkcast
