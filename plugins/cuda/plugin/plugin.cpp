#include "plugin.h"

#include <exception>
#include <new>

#include "log.h"

namespace forkcast::plugin {

using nvinfer1::DataType;
using nvinfer1::PluginField;
using nvinfer1::PluginFieldType;

namespace {

constexpr std::int32_t kFailed = 1;

bool is_element(DataType type) {
    return type == DataType::kFLOAT || type == DataType::kHALF || type == DataType::kBF16;
}

ElementType element_type(DataType type) {
    return type == DataType::kFLOAT  ? ElementType::kFloat32
           : type == DataType::kHALF ? ElementType::kFloat16
                                     : ElementType::kBFloat16;
}

/// Position of the first input that follows the element type.
std::size_t first_element(const Operator& op) {
    std::size_t at = 0;
    while (op.inputs()[at].type != TypeRule::kElement) ++at;
    return at;
}

bool fits(TypeRule rule, DataType type, DataType element) {
    switch (rule) {
        case TypeRule::kElement: return type == element && is_element(type);
        case TypeRule::kFloat32: return type == DataType::kFLOAT;
        case TypeRule::kInt64: return type == DataType::kINT64;
        case TypeRule::kBool: return type == DataType::kBOOL;
    }
    return false;
}

template <class Get>
Shapes shapes_of(std::int32_t count, Get get) {
    Shapes shapes;
    for (std::int32_t i = 0; i < count; ++i) shapes.push_back(get(i));
    return shapes;
}

}  // namespace

Plugin::Plugin(const Operator& op, const Attributes& attributes) : op_(op), attributes_(attributes) {
    serialized_.emplace_back("abi", &abi_, PluginFieldType::kINT32, 1);
    if (op.has_attributes()) {
        serialized_.emplace_back("scale", &attributes_.scale, PluginFieldType::kFLOAT32, 1);
        serialized_.emplace_back("window", &attributes_.window, PluginFieldType::kINT64, 1);
    }
    serialized_collection_ = {static_cast<std::int32_t>(serialized_.size()), serialized_.data()};
}

nvinfer1::IPluginCapability* Plugin::getCapabilityInterface(nvinfer1::PluginCapabilityType type) noexcept {
    switch (type) {
        case nvinfer1::PluginCapabilityType::kCORE: return static_cast<nvinfer1::IPluginV3OneCore*>(this);
        case nvinfer1::PluginCapabilityType::kBUILD: return static_cast<nvinfer1::IPluginV3OneBuild*>(this);
        case nvinfer1::PluginCapabilityType::kRUNTIME: return static_cast<nvinfer1::IPluginV3OneRuntime*>(this);
    }
    return nullptr;
}

nvinfer1::IPluginV3* Plugin::clone() noexcept {
    try {
        return new Plugin(*this);
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

std::int32_t Plugin::getNbOutputs() const noexcept { return static_cast<std::int32_t>(op_.outputs().size()); }

std::int32_t Plugin::judge(const Shapes& shapes, const char* when) const {
    const std::string refusal = op_.refusal(shapes);
    if (refusal.empty()) return 0;
    report_error(std::string(op_.name()) + " (" + when + "): " + refusal);
    return kFailed;
}

std::int32_t Plugin::configurePlugin(const nvinfer1::DynamicPluginTensorDesc* in, std::int32_t input_count,
                                     const nvinfer1::DynamicPluginTensorDesc*, std::int32_t) noexcept {
    try {
        const std::int32_t status = judge(shapes_of(input_count, [&](int i) { return in[i].desc.dims; }), "build");
        return status != 0 ? status : judge(shapes_of(input_count, [&](int i) { return in[i].max; }), "largest shape");
    } catch (const std::exception& error) {
        report_error(error.what());
        return kFailed;
    }
}

std::int32_t Plugin::getOutputDataTypes(DataType* outputs, std::int32_t output_count, const DataType* inputs,
                                        std::int32_t input_count) const noexcept {
    if (input_count != static_cast<std::int32_t>(op_.inputs().size()) || output_count != getNbOutputs()) return kFailed;
    for (std::int32_t i = 0; i < output_count; ++i)
        outputs[i] = op_.outputs()[static_cast<std::size_t>(i)].type == TypeRule::kElement ? inputs[first_element(op_)]
                                                                                           : DataType::kFLOAT;
    return 0;
}

std::int32_t Plugin::getOutputShapes(const nvinfer1::DimsExprs* inputs, std::int32_t input_count,
                                     const nvinfer1::DimsExprs*, std::int32_t, nvinfer1::DimsExprs* outputs,
                                     std::int32_t output_count, nvinfer1::IExprBuilder&) noexcept {
    if (input_count != static_cast<std::int32_t>(op_.inputs().size()) || output_count != getNbOutputs()) return kFailed;
    for (std::int32_t i = 0; i < input_count; ++i)
        if (inputs[i].nbDims != op_.inputs()[static_cast<std::size_t>(i)].rank) return kFailed;
    for (std::int32_t i = 0; i < output_count; ++i) {
        const auto& axes = op_.output_axes()[static_cast<std::size_t>(i)];
        outputs[i].nbDims = static_cast<std::int32_t>(axes.size());
        for (std::size_t d = 0; d < axes.size(); ++d) outputs[i].d[d] = inputs[axes[d].input].d[axes[d].axis];
    }
    return 0;
}

bool Plugin::supportsFormatCombination(std::int32_t position, const nvinfer1::DynamicPluginTensorDesc* tensors,
                                       std::int32_t input_count, std::int32_t output_count) noexcept {
    const auto inputs = static_cast<std::int32_t>(op_.inputs().size());
    if (input_count != inputs || output_count != getNbOutputs() || position < 0 || position >= inputs + output_count)
        return false;
    const auto at = static_cast<std::size_t>(position);
    const nvinfer1::PluginTensorDesc& desc = tensors[position].desc;
    if (desc.format != nvinfer1::TensorFormat::kLINEAR) return false;
    const TensorRule& rule = position < inputs ? op_.inputs()[at] : op_.outputs()[at - op_.inputs().size()];
    const std::size_t first = first_element(op_);
    const DataType element = at <= first ? desc.type : tensors[first].desc.type;
    return fits(rule.type, desc.type, element);
}

std::size_t Plugin::getWorkspaceSize(const nvinfer1::DynamicPluginTensorDesc* inputs, std::int32_t input_count,
                                     const nvinfer1::DynamicPluginTensorDesc*, std::int32_t) const noexcept {
    try {
        return op_.workspace_bytes(shapes_of(input_count, [&](int i) { return inputs[i].max; }));
    } catch (const std::exception& error) {
        report_error(error.what());
        return 0;
    }
}

std::int32_t Plugin::onShapeChange(const nvinfer1::PluginTensorDesc* in, std::int32_t input_count,
                                   const nvinfer1::PluginTensorDesc*, std::int32_t) noexcept {
    try {
        return judge(shapes_of(input_count, [&](int i) { return in[i].dims; }), "run");
    } catch (const std::exception& error) {
        report_error(error.what());
        return kFailed;
    }
}

std::int32_t Plugin::enqueue(const nvinfer1::PluginTensorDesc* input_desc, const nvinfer1::PluginTensorDesc*,
                             const void* const* inputs, void* const* outputs, void* workspace,
                             cudaStream_t stream) noexcept {
    try {
        Execution run{shapes_of(static_cast<std::int32_t>(op_.inputs().size()), [&](int i) { return input_desc[i].dims; }),
                      element_type(input_desc[first_element(op_)].type), inputs, outputs, workspace, stream};
        const Status status = op_.launch(attributes_, run);
        if (status == Status::kOk) return 0;
        report_error(std::string(op_.name()) + " (run): " + status_name(status));
        return static_cast<std::int32_t>(status);
    } catch (const std::exception& error) {
        report_error(std::string(op_.name()) + " (run): " + error.what());
        return kFailed;
    }
}

nvinfer1::IPluginV3* Plugin::attachToContext(nvinfer1::IPluginResourceContext*) noexcept { return clone(); }

const nvinfer1::PluginFieldCollection* Plugin::getFieldsToSerialize() noexcept { return &serialized_collection_; }

}  // namespace forkcast::plugin
