// The shim: what it loads, and what it refuses with which words.
#include "parse_cases.h"

namespace forkcast::test {
namespace {

/// Wants a refusal whose text holds `reason`, and a registry without creators.
void refused(Report& report, FakeRegistry& registry, const std::string& path, std::int32_t abi,
             const std::string& reason) {
    const std::size_t before = registry.size();
    char error[512] = "";
    forkcast_plugins* plugins = forkcast_load_plugins(&registry, path.c_str(), abi, error, sizeof error);
    report.check(plugins == nullptr, "loaded in spite of: " + reason);
    report.check(std::string(error).find(reason) != std::string::npos,
                 "message '" + std::string(error) + "' does not say '" + reason + "'");
    report.check(registry.size() == before, "the registry changed");
    forkcast_unload(plugins);
}

}  // namespace

void add_shim_cases(Suite& suite, const std::string& library) {
    suite.add("shim loads four creators, unloads them, loads them again", [=](Report& report) {
        FakeRegistry registry;
        for (int round = 0; round < 2; ++round) {
            const Loaded loaded(registry, library);
            report.check(registry.size() == 4, "not four creators");
            std::int32_t count = 0;
            report.check(registry.getAllCreators(&count) != nullptr && count == 4, "getAllCreators");
            for (const char* op : {"TreeAttention", "TreeCausalConv", "TreeDeltaRule", "DeltaBranchUpdate"})
                report.check(registry.getCreator(op, "1", "forkcast") != nullptr, op);
        }
        report.check(registry.size() == 0, "creators are left behind");
        forkcast_unload(nullptr);
    });
    suite.add("shim refuses a second load", [=](Report& report) {
        FakeRegistry registry;
        const Loaded loaded(registry, library);
        refused(report, registry, library, kAbi, "may be loaded already");
    });
    suite.add("shim refuses what is not our library", [=](Report& report) {
        FakeRegistry registry;
        refused(report, registry, "/nowhere/libforkcast_plugins.so", kAbi, "/nowhere/libforkcast_plugins.so");
        refused(report, registry, "", kAbi, "no path given");
        refused(report, registry, "libm.so.6", kAbi, "not a forkcast plugin library");
        refused(report, registry, library, kAbi + 1, "expected plugin ABI 2, found 1");
    });
    suite.add("shim says that TensorRT is not loaded, and cuts its text", [=](Report& report) {
        char error[16];
        report.check(forkcast_load_plugins(nullptr, library.c_str(), kAbi, error, sizeof error) == nullptr, "loaded");
        report.check(std::string(error) == "TensorRT (libnv", error);
        report.check(forkcast_load_plugins(nullptr, nullptr, kAbi, nullptr, 0) == nullptr, "loaded");
    });
}

}  // namespace forkcast::test
