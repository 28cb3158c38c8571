// `parse-test LIBRARY [NODES...]`: loads the plugin library through the shim into a fake registry and imports the
// plugin nodes of stripped models as TensorRT's parser would; without node lists only the cases of its own.
#include <fstream>
#include <map>

#include "../../shim/registry_shim.h"
#include "importer.h"
#include "parse_cases.h"

namespace {

using namespace forkcast::test;

/// Imports every node of a list, integers narrowed and not.
void import_file(Report& report, const std::string& library, const std::string& path) {
    std::ifstream in(path);
    if (!in) throw std::runtime_error("cannot read " + path);
    const NodeList list = read_nodes(in);
    FakeRegistry registry;
    const Loaded loaded(registry, library);
    std::map<std::string, int> counts;
    for (const PluginNode& node : list.nodes) {
        for (const Integers integers : {Integers::k32, Integers::k64}) import_node(registry, list, node, integers);
        ++counts[node.op];
    }
    std::string note = std::to_string(list.nodes.size()) + " plugin nodes";
    for (const auto& [op, count] : counts) note += ", " + op + " " + std::to_string(count);
    report.note(note);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) {
        std::fprintf(stderr, "usage: parse-test LIBRARY [NODES...]\n");
        return 2;
    }
    const std::string library = argv[1];
    Suite suite;
    add_shim_cases(suite, library);
    add_import_cases(suite, library);
    for (int i = 2; i < argc; ++i) {
        const std::string path = argv[i];
        suite.add("nodes of " + path.substr(path.rfind('/') + 1),
                  [=](Report& report) { import_file(report, library, path); });
    }
    return suite.run("");
}
