// Kernel tests: `host-test [FILTER]` on the CPU build, `device-test [FILTER]` on a GPU.
#include "harness.h"

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#endif

int main(int argc, char** argv) {
    using namespace forkcast::test;
#if defined(__CUDACC__)
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        std::printf("skipped: no GPU; the kernels were NOT run on a device\n");
        return 0;
    }
#endif
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
    return suite.run(argc > 1 ? argv[1] : "");
}
