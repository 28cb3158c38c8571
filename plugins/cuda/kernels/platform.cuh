// One door to CUDA for the kernels: nvcc sees the CUDA headers, any other compiler sees host/cuda_host.h, which runs
// the same source on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define FORKCAST_DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]

namespace forkcast {
using bf16 = __nv_bfloat16;
using f16 = __half;
using Stream = cudaStream_t;
}  // namespace forkcast
#else
#include "../host/cuda_host.h"
#endif
