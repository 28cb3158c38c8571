// Checks and launches DeltaBranchUpdate.
#include "branch_update.cuh"
#include "launch.cuh"

namespace forkcast {

Status launch_branch_update(const BranchUpdateParams& p, ElementType type, LaunchStream stream) {
    if (p.rows <= 0 || p.key_heads <= 0 || p.value_heads <= 0 || p.value_heads % p.key_heads != 0 || p.key_dim <= 0 ||
        p.value_dim <= 0 || p.path_length < 0)
        return Status::kBadShape;
    if (p.state == nullptr || p.k == nullptr || p.u == nullptr || p.cumulative_g == nullptr || p.out == nullptr ||
        (p.path_length > 0 && p.path == nullptr))
        return Status::kNullPointer;
    const GridSize grid{static_cast<unsigned>(ceil_div(p.value_dim, branch::kColumns)),
                        static_cast<unsigned>(ceil_div(p.key_dim, branch::kKeys)), static_cast<unsigned>(p.value_heads)};
    return with_element_type(type, [&](auto* tag) {
        using T = std::remove_pointer_t<decltype(tag)>;
        return launch(&branch_update_kernel<T>, grid, branch::kThreads, 0, stream, p);
    });
}

}  // namespace forkcast
