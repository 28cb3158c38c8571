// Nodes that must be refused by name, beside one that is right.
#include <sstream>

#include "importer.h"
#include "parse_cases.h"

namespace forkcast::test {
namespace {

const std::string kMarks =
    "attribute plugin_namespace string forkcast\n"
    "attribute plugin_version string 1\n";
const std::string kTensors =
    "input bf16 N 16 64\ninput bf16 N 4 64\ninput bf16 N 4 64\ninput bf16 C 4 64\ninput bf16 C 4 64\n"
    "input i64 1\ninput i64 N\ninput bool N N\noutput bf16 N 16 64\n";
const std::string kScale = "attribute scale float 0.125\n";

std::string node(const std::string& attributes, const std::string& tensors = kTensors,
                 const std::string& op = "TreeAttention") {
    return "graph target\nnode " + op + " attention.3\n" + attributes + tensors;
}

void import_text(FakeRegistry& registry, const std::string& text) {
    std::istringstream in(text);
    const NodeList list = read_nodes(in);
    for (const PluginNode& each : list.nodes) import_node(registry, list, each, Integers::k32);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

}  // namespace

void add_import_cases(Suite& suite, const std::string& library) {
    suite.add("import takes a right node", [=](Report&) {
        FakeRegistry registry;
        const Loaded loaded(registry, library);
        import_text(registry, node(kMarks + kScale + "attribute window int 4096\n"));
        import_text(registry, node(kMarks + kScale));
    });
    suite.add("import refuses wrong nodes by name", [=](Report& report) {
        FakeRegistry registry;
        const Loaded loaded(registry, library);
        const auto refused = [&](const std::string& text, const std::string& reason) {
            std::string found = "nothing";
            try {
                import_text(registry, text);
            } catch (const std::runtime_error& error) {
                found = error.what();
            }
            report.check(found.find(reason) != std::string::npos, "found '" + found + "', not '" + reason + "'");
        };
        const std::string good = node(kMarks + kScale);
        refused("function TreeAttention\n" + good, "'attention.3': the model still has a function of this name");
        refused(node(kScale), "no plugin of version '1' in namespace ''");
        refused(replaced(good, "string 1", "string 2"), "no plugin of version '2' in namespace 'forkcast'");
        refused(node(kMarks, kTensors, "TreeNothing"), "TreeNothing 'attention.3': no plugin");
        refused(node(kMarks), "field 'scale' is missing");
        refused(replaced(good, "float 0.125", "int 1"), "field 'scale' must be float32");
        refused(node(kMarks + kScale + "attribute window int -1\n"), "field 'window' is negative");
        refused(replaced(good, "output bf16", "output f32"), "type of output 0");
        refused(replaced(good, "output bf16 N 16", "output bf16 M 16"), "sizes of output 0");
        refused(replaced(good, "input bf16 C", "input f32 C"), "type of tensor 3 is not supported");
        refused(replaced(good, "input i64 1\n", ""), "getOutputDataTypes");
        refused(replaced(replaced(good, "N 16", "N 15"), "N 16", "N 15"), "axis 1 of q");
        refused(good + "output bf16 N\n", "more outputs than the plugin");
        refused(replaced(good, "input i64", "input i8"), "line 11: unknown type 'i8'");
    });
}

}  // namespace forkcast::test
