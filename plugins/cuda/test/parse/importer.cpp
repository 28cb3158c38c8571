#include "importer.h"

#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "symbols.h"

namespace forkcast::test {
namespace {

using nvinfer1::DataType;
using nvinfer1::IPluginCreatorV3One;
using nvinfer1::PluginField;
using nvinfer1::PluginFieldType;
using nvinfer1::TensorRTPhase;

[[noreturn]] void fail(const PluginNode& node, const std::string& text) {
    throw std::runtime_error(node.op + " '" + node.name + "': " + text);
}

/// Fields of a node and the bytes they point to.
class Fields {
public:
    Fields(const nvinfer1::PluginFieldCollection& names, const PluginNode& node, Integers integers) {
        for (std::int32_t i = 0; i < names.nbFields; ++i)
            if (const NodeAttribute* attribute = node.attribute(names.fields[i].name)) add(*attribute, integers);
        std::size_t at = 0;
        for (PluginField& field : fields_) field.data = bytes_[at++].data();
        collection_ = {static_cast<std::int32_t>(fields_.size()), fields_.data()};
    }
    const nvinfer1::PluginFieldCollection* collection() const { return &collection_; }

private:
    template <class T>
    void add(const std::string& name, T value, PluginFieldType type) {
        bytes_.emplace_back(reinterpret_cast<const char*>(&value), sizeof value);
        fields_.emplace_back(name.c_str(), nullptr, type, 1);
    }
    void add(const NodeAttribute& a, Integers integers) {
        if (a.type == "float") return add(a.name, std::strtof(a.value.c_str(), nullptr), PluginFieldType::kFLOAT32);
        if (a.type == "string") {
            bytes_.push_back(a.value + '\0');
            fields_.emplace_back(a.name.c_str(), nullptr, PluginFieldType::kCHAR,
                                 static_cast<std::int32_t>(a.value.size() + 1));
            return;
        }
        const std::int64_t value = std::strtoll(a.value.c_str(), nullptr, 10);
        if (integers == Integers::k64) return add(a.name, value, PluginFieldType::kINT64);
        add(a.name, static_cast<std::int32_t>(value), PluginFieldType::kINT32);
    }

    std::vector<std::string> bytes_;
    std::vector<PluginField> fields_;
    nvinfer1::PluginFieldCollection collection_{};
};

IPluginCreatorV3One& creator_of(FakeRegistry& registry, const NodeList& list, const PluginNode& node) {
    if (list.functions.count(node.op) != 0)
        fail(node, "the model still has a function of this name; it would be taken");
    const auto text = [&](const char* name, const char* otherwise) {
        const NodeAttribute* attribute = node.attribute(name);
        return attribute == nullptr ? std::string(otherwise) : attribute->value;
    };
    const std::string version = text("plugin_version", "1"), name_space = text("plugin_namespace", "");
    auto* creator = registry.getCreator(node.op.c_str(), version.c_str(), name_space.c_str());
    if (creator == nullptr) fail(node, "no plugin of version '" + version + "' in namespace '" + name_space + "'");
    if (std::strcmp(creator->getInterfaceInfo().kind, "PLUGIN CREATOR_V3ONE") != 0) fail(node, "not a V3 creator");
    return *static_cast<IPluginCreatorV3One*>(creator);
}

/// Output types and sizes, from the plugin alone.
void check_outputs(nvinfer1::IPluginV3OneBuild& plugin, const PluginNode& node, Symbols& symbols) {
    const auto count = [](const auto& list) { return static_cast<std::int32_t>(list.size()); };
    if (plugin.getNbOutputs() < count(node.outputs)) fail(node, "the node has more outputs than the plugin");
    std::vector<DataType> in, out(static_cast<std::size_t>(plugin.getNbOutputs()), DataType::kINT8);
    std::vector<nvinfer1::DimsExprs> sizes, found(out.size());
    for (const NodeTensor& tensor : node.inputs) {
        in.push_back(tensor.type);
        sizes.push_back(symbols.expressions(tensor));
    }
    if (plugin.getOutputDataTypes(out.data(), count(out), in.data(), count(in)) != 0) fail(node, "getOutputDataTypes");
    if (plugin.getOutputShapes(sizes.data(), count(sizes), nullptr, 0, found.data(), count(found), symbols) != 0)
        fail(node, "getOutputShapes");
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
        if (out[i] != node.outputs[i].type) fail(node, "type of output " + std::to_string(i));
        if (symbols.names(found[i]) != node.outputs[i].dims) fail(node, "sizes of output " + std::to_string(i));
    }
}

/// Types, layouts and sizes as the builder asks for them; sizes not known yet are -1.
void check_build(FakeRegistry& registry, nvinfer1::IPluginV3OneBuild& plugin, const PluginNode& node) {
    std::vector<nvinfer1::DynamicPluginTensorDesc> tensors;
    for (const auto* side : {&node.inputs, &node.outputs})
        for (const NodeTensor& tensor : *side) tensors.push_back(Symbols::profile(tensor));
    const auto in = static_cast<std::int32_t>(node.inputs.size()), out = static_cast<std::int32_t>(node.outputs.size());
    for (std::int32_t i = 0; i < in + out; ++i)
        if (!plugin.supportsFormatCombination(i, tensors.data(), in, out))
            fail(node, "type of tensor " + std::to_string(i) + " is not supported");
    registry.forget_message();
    if (plugin.configurePlugin(tensors.data(), in, tensors.data() + in, out) != 0) fail(node, registry.message());
    plugin.getWorkspaceSize(tensors.data(), in, tensors.data() + in, out);
}

}  // namespace

void import_node(FakeRegistry& registry, const NodeList& list, const PluginNode& node, Integers integers) {
    IPluginCreatorV3One& creator = creator_of(registry, list, node);
    const Fields fields(*creator.getFieldNames(), node, integers);
    registry.forget_message();
    const PluginPointer plugin(creator.createPlugin(node.name.c_str(), fields.collection(), TensorRTPhase::kBUILD));
    if (plugin == nullptr) fail(node, "not created: " + registry.message());
    Symbols symbols;
    check_outputs(build(*plugin), node, symbols);
    check_build(registry, build(*plugin), node);
    const PluginPointer again(
        creator.createPlugin(node.name.c_str(), runtime(*plugin).getFieldsToSerialize(), TensorRTPhase::kRUNTIME));
    if (again == nullptr) fail(node, "not created from its stored fields: " + registry.message());
}

}  // namespace forkcast::test
