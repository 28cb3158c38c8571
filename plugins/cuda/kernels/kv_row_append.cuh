// KV append: copies the rows of the accepted path to the end of every cache of the model in one launch.
//
// The kernel has C linkage so that a host can load its cubin and find `forkcast_kv_row_append` by name.
#pragma once

#include "kernels.h"
#include "numeric.cuh"

namespace forkcast {
namespace append {

constexpr int kThreads = 128;

struct alignas(16) Chunk {
    std::uint32_t word[4];
};

}  // namespace append
}  // namespace forkcast

/// grid (path rows, caches), 128 threads; every copy's row_bytes is a multiple of 16.
extern "C" __global__ void __launch_bounds__(128) forkcast_kv_row_append(forkcast::KvRowAppendParams p) {
    using forkcast::append::Chunk;
    const forkcast::KvCopy copy = p.copies[blockIdx.y];
    const std::int64_t from = p.path[blockIdx.x], to = p.first_row + static_cast<std::int64_t>(blockIdx.x);
    if (from < 0 || from >= p.rows || to < 0 || to >= p.capacity) return;
    const std::int64_t chunks = copy.row_bytes / static_cast<std::int64_t>(sizeof(Chunk));
    const Chunk* source = static_cast<const Chunk*>(copy.source) + from * chunks;
    Chunk* target = static_cast<Chunk*>(copy.cache) + to * chunks;
    for (std::int64_t at = threadIdx.x; at < chunks; at += forkcast::append::kThreads) target[at] = source[at];
}
