// Launches a kernel that takes one parameter struct, on the GPU or through the CPU build.
#pragma once

#include "platform.cuh"
#include "status.h"

namespace forkcast {

struct GridSize {
    unsigned x, y, z;
};

/// Most shared memory a block may ask for on every GPU the library is built for (SM 86, 89 and 120 have the least).
constexpr std::size_t kSharedEverywhere = 99 * 1024;

template <class Params>
Status launch(void (*kernel)(Params), GridSize grid, int threads, std::size_t shared_bytes, Stream stream,
              const Params& params) {
#if defined(__CUDACC__)
    constexpr std::size_t kSharedWithoutOptIn = 48 * 1024;
    if (shared_bytes > kSharedWithoutOptIn &&
        cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(shared_bytes)) != cudaSuccess)
        return Status::kLaunchFailed;
    void* arguments[] = {const_cast<Params*>(&params)};
    const cudaError_t error =
        cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(grid.x, grid.y, grid.z),
                         dim3(static_cast<unsigned>(threads)), arguments, shared_bytes, stream);
    return error == cudaSuccess ? Status::kOk : Status::kLaunchFailed;
#else
    (void)stream;
    if (shared_bytes > kSharedEverywhere) return Status::kLaunchFailed;  // as the smallest GPU would
    host::Grid::instance().run(host::Dim3(grid.x, grid.y, grid.z), threads, shared_bytes, [&] { kernel(params); });
    return Status::kOk;
#endif
}

/// Calls `f` with a null pointer of the element type.
template <class F>
Status with_element_type(ElementType type, F f) {
    switch (type) {
        case ElementType::kFloat32: return f(static_cast<float*>(nullptr));
        case ElementType::kFloat16: return f(static_cast<f16*>(nullptr));
        case ElementType::kBFloat16: return f(static_cast<bf16*>(nullptr));
    }
    return Status::kUnsupportedType;
}

}  // namespace forkcast
