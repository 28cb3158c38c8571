// Tests of the plugin library: `plugin-test LIBRARY [--run]`. `--run` also executes the operators, which needs the
// library built over the CPU kernels (or a GPU's memory, which this program does not allocate).
#include <cstring>

#include "library.h"

int main(int argc, char** argv) {
    using namespace forkcast::test;
    if (argc < 2) {
        std::fprintf(stderr, "usage: plugin-test LIBRARY [--run]\n");
        return 2;
    }
    try {
        Library library(argv[1]);
        Suite suite;
        add_creator_cases(suite, library);
        add_field_cases(suite, library);
        add_shape_cases(suite, library);
        if (argc > 2 && std::strcmp(argv[2], "--run") == 0) add_enqueue_cases(suite, library);
        return suite.run("");
    } catch (const std::exception& error) {
        std::fprintf(stderr, "plugin-test: %s\n", error.what());
        return 1;
    }
}
