// Checks and launches the KV append.
#include "kv_row_append.cuh"
#include "launch.cuh"

namespace forkcast {

/// `row_bytes` is that of every copy, or their greatest common divisor: it is only checked for alignment here,
/// because `copies` lies on the device.
Status launch_kv_row_append(const KvRowAppendParams& p, std::int64_t row_bytes, LaunchStream stream) {
    if (p.rows <= 0 || p.copy_count < 0 || p.path_length < 0 || p.first_row < 0) return Status::kBadShape;
    if (row_bytes <= 0 || row_bytes % static_cast<std::int64_t>(sizeof(append::Chunk)) != 0) return Status::kMisaligned;
    if (p.first_row > p.capacity || p.path_length > p.capacity - p.first_row) return Status::kCapacity;
    if (p.copy_count == 0 || p.path_length == 0) return Status::kOk;
    if (p.copies == nullptr || p.path == nullptr) return Status::kNullPointer;
    const GridSize grid{static_cast<unsigned>(p.path_length), static_cast<unsigned>(p.copy_count), 1};
    return launch(&forkcast_kv_row_append, grid, append::kThreads, 0, stream, p);
}

}  // namespace forkcast
