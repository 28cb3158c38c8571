// The CUDA words the kernels use, for a plain C++17 compiler. Included by kernels/platform.cuh when nvcc is absent.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "grid.h"
#include "half_types.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define FORKCAST_DYNAMIC_SHARED(name) unsigned char* name = ::forkcast::host::Grid::instance().dynamic_shared()

struct CUstream_st;

namespace forkcast {

/// A CUDA stream; the CPU build runs every launch at once and never looks at it.
using Stream = ::CUstream_st*;

namespace host {

inline Dim3 thread_index() { return Dim3(static_cast<unsigned>(Grid::instance().current_thread()), 0, 0); }

inline int lane() { return Grid::instance().current_thread() % kWarpSize; }

}  // namespace host

#define threadIdx (::forkcast::host::thread_index())
#define blockIdx (::forkcast::host::Grid::instance().block_index)
#define blockDim (::forkcast::host::Grid::instance().block_dim)
#define gridDim (::forkcast::host::Grid::instance().grid_dim)

inline void __syncthreads() { host::Grid::instance().sync_block(false); }
inline int __syncthreads_or(int flag) { return host::Grid::instance().sync_block(flag != 0) ? 1 : 0; }
inline void __syncwarp() { host::Grid::instance().exchange(0); }

inline float __shfl_xor_sync(unsigned, float value, int lane_mask) {
    const float* slots = host::Grid::instance().exchange(value);
    return slots[host::lane() ^ lane_mask];
}

inline unsigned __ballot_sync(unsigned, int predicate) {
    const unsigned* slots = host::Grid::instance().exchange(predicate != 0 ? 1u : 0u);
    unsigned mask = 0;
    for (int lane = 0; lane < host::kWarpSize; ++lane) mask |= slots[lane] << lane;
    return mask;
}

inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }

/// Fibers never run at the same time, so a plain read-modify-write is atomic.
inline int atomicMax(int* address, int value) {
    const int old = *address;
    *address = std::max(old, value);
    return old;
}

}  // namespace forkcast
