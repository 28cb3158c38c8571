// Checks and launches TreeDeltaRule.
#include "launch.cuh"
#include "tree_delta_rule.cuh"

namespace forkcast {
namespace {

template <class T, int DK>
Status launch_sized(const TreeDeltaRuleParams& p, Stream stream) {
    static_assert(delta::shared_bytes<DK>(delta::kMaxRows) <= kSharedEverywhere);
    const GridSize grid{static_cast<unsigned>(p.value_dim / delta::kColumns), static_cast<unsigned>(p.value_heads), 1};
    return launch(&tree_delta_rule_kernel<T, DK>, grid, delta::kThreads, delta::shared_bytes<DK>(p.rows), stream, p);
}

}  // namespace

Status launch_tree_delta_rule(const TreeDeltaRuleParams& p, ElementType type, LaunchStream stream) {
    if (p.rows <= 0 || p.key_heads <= 0 || p.value_heads <= 0 || p.value_heads % p.key_heads != 0)
        return Status::kBadShape;
    if (p.key_dim != 64 && p.key_dim != 128 && p.key_dim != 256) return Status::kUnsupportedHeadSize;
    if (p.value_dim <= 0 || p.value_dim % delta::kColumns != 0) return Status::kUnsupportedHeadSize;
    if (p.rows > delta::kMaxRows) return Status::kTooManyRows;
    if (p.q == nullptr || p.k == nullptr || p.v == nullptr || p.g == nullptr || p.beta == nullptr ||
        p.state == nullptr || p.ancestors == nullptr || p.o == nullptr || p.u == nullptr || p.cumulative_g == nullptr)
        return Status::kNullPointer;
    return with_element_type(type, [&](auto* tag) {
        using T = std::remove_pointer_t<decltype(tag)>;
        if (p.key_dim == 64) return launch_sized<T, 64>(p, stream);
        if (p.key_dim == 128) return launch_sized<T, 128>(p, stream);
        return launch_sized<T, 256>(p, stream);
    });
}

}  // namespace forkcast
