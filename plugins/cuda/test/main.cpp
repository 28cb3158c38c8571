// Kernel tests: `host-test [FILTER]` on the CPU build, `device-test [FILTER]` on a GPU. `device-test --gpu` only says
// whether there is one. Without a GPU device-test names the tests it did not run and exits 0, or 3 when
// FORKCAST_REQUIRE_GPU=1.
#include "harness.h"

#if defined(__CUDACC__)
#include <cuda_runtime.h>

#include <cstdlib>
#include <cstring>
#endif

namespace {

#if defined(__CUDACC__)
constexpr int kNoGpu = 3;

bool have_gpu() {
    int devices = 0;
    const cudaError_t status = cudaGetDeviceCount(&devices);
    if (status == cudaSuccess && devices > 0) return true;
    std::printf("no GPU: %s\n", status == cudaSuccess ? "no device" : cudaGetErrorString(status));
    return false;
}

int not_run(const forkcast::test::Suite& suite, const std::string& filter) {
    const auto names = suite.names(filter);
    std::printf("skipped: %zu kernel tests were NOT run on a device:\n", names.size());
    for (const std::string& name : names) std::printf("  %s\n", name.c_str());
    const char* required = std::getenv("FORKCAST_REQUIRE_GPU");
    return required != nullptr && std::strcmp(required, "1") == 0 ? kNoGpu : 0;
}
#endif

}  // namespace

int main(int argc, char** argv) {
    using namespace forkcast::test;
    const std::string filter = argc > 1 ? argv[1] : "";
    Suite suite;
#if !defined(__CUDACC__)
    add_emulator_cases(suite);
#endif
    add_attention_cases(suite);
    add_conv_cases(suite);
    add_delta_cases(suite);
    add_branch_cases(suite);
    add_append_cases(suite);
    add_refusal_cases(suite);
#if defined(__CUDACC__)
    const bool gpu = have_gpu();
    if (filter == "--gpu") return gpu ? 0 : kNoGpu;
    if (!gpu) return not_run(suite, filter);
#endif
    return suite.run(filter);
}
