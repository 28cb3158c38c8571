// Fields: what a plugin is created from, stores in an engine and is created from again; wrong ones are refused.
#include <cmath>
#include <cstring>

#include "library.h"
#include "tensors.h"

namespace forkcast::test {
namespace {

using nvinfer1::PluginField;
using nvinfer1::PluginFieldType;
using nvinfer1::TensorRTPhase;

/// Creates from `fields` and wants a refusal whose message holds `reason`.
void refused(Report& report, Library& library, const std::string& op, std::vector<PluginField> fields,
             const std::string& reason, TensorRTPhase phase = TensorRTPhase::kBUILD) {
    const nvinfer1::PluginFieldCollection collection{static_cast<std::int32_t>(fields.size()), fields.data()};
    library.logger.last.clear();
    const PluginPointer plugin(library.creator(op).createPlugin("node7", &collection, phase));
    report.check(plugin == nullptr, "created in spite of: " + reason);
    const std::string& message = library.logger.last;
    report.check(message.find(reason) != std::string::npos && message.find(op) != std::string::npos &&
                     message.find("node7") != std::string::npos,
                 "message '" + message + "' does not say '" + reason + "', the operator and the node");
}

/// A deep copy of a collection, as an engine stores it.
struct Stored {
    std::vector<std::string> names, data;
    std::vector<PluginField> fields;
    nvinfer1::PluginFieldCollection collection;

    explicit Stored(const nvinfer1::PluginFieldCollection& from) {
        for (std::int32_t i = 0; i < from.nbFields; ++i) {
            const PluginField& f = from.fields[i];
            const std::size_t bytes = f.type == PluginFieldType::kINT64 ? 8 : 4;
            names.emplace_back(f.name);
            data.emplace_back(static_cast<const char*>(f.data), bytes * static_cast<std::size_t>(f.length));
        }
        for (std::int32_t i = 0; i < from.nbFields; ++i) {
            const auto at = static_cast<std::size_t>(i);
            fields.emplace_back(names[at].c_str(), data[at].data(), from.fields[i].type, from.fields[i].length);
        }
        collection = {static_cast<std::int32_t>(fields.size()), fields.data()};
    }
    bool operator==(const Stored& other) const { return names == other.names && data == other.data; }
};

}  // namespace

void add_field_cases(Suite& suite, Library& library) {
    for (const Signature& s : signatures()) {
        suite.add(s.op + " is stored and created again", [&](Report& report) {
            const PluginPointer plugin = create(library, s.op);
            const Stored stored(*runtime(*plugin).getFieldsToSerialize());
            const PluginPointer again(
                library.creator(s.op).createPlugin("node", &stored.collection, TensorRTPhase::kRUNTIME));
            report.check(again != nullptr, "not created: " + library.logger.last);
            if (again == nullptr) return;
            report.check(Stored(*runtime(*again).getFieldsToSerialize()) == stored, "other fields the second time");
            const PluginPointer copy(again->clone());
            report.check(Stored(*runtime(*copy).getFieldsToSerialize()) == stored, "other fields in a copy");
        });
        suite.add(s.op + " refuses wrong fields", [&](Report& report) {
            static const std::int32_t two = 2;
            NodeFields node(s.op);
            std::vector<PluginField> more = node.fields;
            more.emplace_back("alpha", &two, PluginFieldType::kINT32, 1);
            refused(report, library, s.op, more, "unknown field 'alpha'");
            refused(report, library, s.op, {{"abi", &two, PluginFieldType::kINT32, 1}}, "unknown field 'abi'");
            const std::string missing = s.op == "TreeAttention" ? "field 'scale' is missing" : "field 'abi' is missing";
            refused(report, library, s.op, {}, missing, TensorRTPhase::kRUNTIME);
            more = node.fields;
            more.emplace_back("abi", &two, PluginFieldType::kINT32, 1);
            refused(report, library, s.op, more, "plugin ABI 2", TensorRTPhase::kRUNTIME);
            report.check(library.creator(s.op).createPlugin("node", nullptr, TensorRTPhase::kBUILD) == nullptr, "null");
        });
    }
    suite.add("TreeAttention refuses wrong attributes", [&](Report& report) {
        static const float scale = 0.5f, not_finite = NAN;
        static const std::int32_t negative = -1;
        static const std::int64_t window = 64;
        const PluginField good("scale", &scale, PluginFieldType::kFLOAT32, 1);
        const std::string op = "TreeAttention";
        refused(report, library, op, {}, "field 'scale' is missing");
        refused(report, library, op, {{"scale", &window, PluginFieldType::kINT64, 1}}, "must be float32");
        refused(report, library, op, {{"scale", &not_finite, PluginFieldType::kFLOAT32, 1}}, "not finite");
        refused(report, library, op, {{"scale", &scale, PluginFieldType::kFLOAT32, 2}}, "must hold one value");
        refused(report, library, op, {{"scale", nullptr, PluginFieldType::kFLOAT32, 1}}, "must hold one value");
        refused(report, library, op, {good, good}, "given twice");
        refused(report, library, op, {good, {"window", &scale, PluginFieldType::kFLOAT32, 1}}, "int32 or int64");
        refused(report, library, op, {good, {"window", &negative, PluginFieldType::kINT32, 1}}, "negative");
    });
    suite.add("TreeAttention without a window has none", [&](Report& report) {
        static const float scale = 0.5f;
        const PluginField field("scale", &scale, PluginFieldType::kFLOAT32, 1);
        const nvinfer1::PluginFieldCollection collection{1, &field};
        const PluginPointer plugin(
            library.creator("TreeAttention").createPlugin("node", &collection, TensorRTPhase::kBUILD));
        report.check(plugin != nullptr, "refused");
        if (plugin == nullptr) return;
        const Stored stored(*runtime(*plugin).getFieldsToSerialize());
        std::int64_t window = 1;
        std::memcpy(&window, stored.data[2].data(), sizeof window);
        report.check(stored.names[2] == "window" && window == 0, "window is not 0");
    });
}

}  // namespace forkcast::test
