// Checks and launches TreeCausalConv.
#include "launch.cuh"
#include "tree_causal_conv.cuh"

namespace forkcast {
namespace {

template <class T, int K>
Status launch_taps(const TreeCausalConvParams& p, Stream stream) {
    if constexpr (K <= conv::kMaxTaps) {
        if (p.taps != K) return launch_taps<T, K + 1>(p, stream);
        const GridSize grid{static_cast<unsigned>(ceil_div(p.channels, conv::kThreads)),
                            static_cast<unsigned>(ceil_div(p.rows, conv::kRows)), 1};
        const std::size_t shared = sizeof(int) * conv::kRows * conv::kMaxTaps;
        return launch(&tree_causal_conv_kernel<T, K>, grid, conv::kThreads, shared, stream, p);
    } else {
        return Status::kUnsupportedTaps;
    }
}

}  // namespace

Status launch_tree_causal_conv(const TreeCausalConvParams& p, ElementType type, LaunchStream stream) {
    if (p.rows <= 0 || p.channels <= 0) return Status::kBadShape;
    if (p.taps < 1 || p.taps > conv::kMaxTaps) return Status::kUnsupportedTaps;
    if (p.x == nullptr || p.weight == nullptr || p.ancestors == nullptr || p.y == nullptr ||
        (p.taps > 1 && p.past == nullptr))
        return Status::kNullPointer;
    return with_element_type(
        type, [&](auto* tag) { return launch_taps<std::remove_pointer_t<decltype(tag)>, 1>(p, stream); });
}

}  // namespace forkcast
