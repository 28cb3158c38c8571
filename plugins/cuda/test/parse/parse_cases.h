// Cases of the shim and of the import, and the library loaded through the shim for as long as an object lives.
#pragma once

#include <stdexcept>
#include <string>

#include "../../shim/registry_shim.h"
#include "../harness.h"
#include "fake_registry.h"

namespace forkcast::test {

constexpr std::int32_t kAbi = 1;

class Loaded {
public:
    Loaded(FakeRegistry& registry, const std::string& library) {
        char error[512] = "";
        plugins_ = forkcast_load_plugins(&registry, library.c_str(), kAbi, error, sizeof error);
        if (plugins_ == nullptr) throw std::runtime_error(error);
    }
    Loaded(const Loaded&) = delete;
    ~Loaded() { forkcast_unload(plugins_); }

private:
    forkcast_plugins* plugins_;
};

void add_shim_cases(Suite& suite, const std::string& library);
void add_import_cases(Suite& suite, const std::string& library);

}  // namespace forkcast::test
