// One plugin class for all four operators: TensorRT 11 IPluginV3 with core, build and runtime capabilities.
#pragma once

#include <string>
#include <vector>

#include <NvInferRuntime.h>

#include "operator.h"

namespace forkcast::plugin {

constexpr const char* kNamespace = "forkcast";
constexpr const char* kVersion = "1";
/// Changes whenever the tensors, attributes or serialized fields of an operator change. Stored in every plan.
constexpr std::int32_t kAbiVersion = 1;

class Plugin final : public nvinfer1::IPluginV3,
                     public nvinfer1::IPluginV3OneCore,
                     public nvinfer1::IPluginV3OneBuild,
                     public nvinfer1::IPluginV3OneRuntime {
public:
    Plugin(const Operator& op, const Attributes& attributes);
    Plugin(const Plugin& other) : Plugin(other.op_, other.attributes_) {}

    // IPluginV3
    nvinfer1::IPluginCapability* getCapabilityInterface(nvinfer1::PluginCapabilityType type) noexcept override;
    nvinfer1::IPluginV3* clone() noexcept override;

    // core
    const char* getPluginName() const noexcept override { return op_.name(); }
    const char* getPluginVersion() const noexcept override { return kVersion; }
    const char* getPluginNamespace() const noexcept override { return kNamespace; }

    // build
    std::int32_t getNbOutputs() const noexcept override;
    std::int32_t configurePlugin(const nvinfer1::DynamicPluginTensorDesc* in, std::int32_t input_count,
                                 const nvinfer1::DynamicPluginTensorDesc* out,
                                 std::int32_t output_count) noexcept override;
    std::int32_t getOutputDataTypes(nvinfer1::DataType* outputs, std::int32_t output_count,
                                    const nvinfer1::DataType* inputs, std::int32_t input_count) const noexcept override;
    std::int32_t getOutputShapes(const nvinfer1::DimsExprs* inputs, std::int32_t input_count,
                                 const nvinfer1::DimsExprs* shape_inputs, std::int32_t shape_input_count,
                                 nvinfer1::DimsExprs* outputs, std::int32_t output_count,
                                 nvinfer1::IExprBuilder& builder) noexcept override;
    bool supportsFormatCombination(std::int32_t position, const nvinfer1::DynamicPluginTensorDesc* tensors,
                                   std::int32_t input_count, std::int32_t output_count) noexcept override;
    std::size_t getWorkspaceSize(const nvinfer1::DynamicPluginTensorDesc* inputs, std::int32_t input_count,
                                 const nvinfer1::DynamicPluginTensorDesc* outputs,
                                 std::int32_t output_count) const noexcept override;

    // runtime
    std::int32_t onShapeChange(const nvinfer1::PluginTensorDesc* in, std::int32_t input_count,
                               const nvinfer1::PluginTensorDesc* out, std::int32_t output_count) noexcept override;
    std::int32_t enqueue(const nvinfer1::PluginTensorDesc* input_desc, const nvinfer1::PluginTensorDesc* output_desc,
                         const void* const* inputs, void* const* outputs, void* workspace,
                         cudaStream_t stream) noexcept override;
    nvinfer1::IPluginV3* attachToContext(nvinfer1::IPluginResourceContext* context) noexcept override;
    const nvinfer1::PluginFieldCollection* getFieldsToSerialize() noexcept override;

private:
    /// Reports why the shapes cannot be run; 0 if they can.
    std::int32_t judge(const Shapes& shapes, const char* when) const;

    const Operator& op_;
    const Attributes attributes_;
    std::int32_t abi_ = kAbiVersion;
    std::vector<nvinfer1::PluginField> serialized_;
    nvinfer1::PluginFieldCollection serialized_collection_;
};

}  // namespace forkcast::plugin
