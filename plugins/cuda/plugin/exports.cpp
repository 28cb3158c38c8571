// The creators and the C functions TensorRT's registry looks up in the library.
#include <array>
#include <exception>

#include "fields.h"
#include "log.h"
#include "plugin.h"

namespace forkcast::plugin {

const std::vector<const Operator*>& operators() {
    static const std::vector<const Operator*> all = {&tree_attention_operator(), &tree_causal_conv_operator(),
                                                     &tree_delta_rule_operator(), &branch_update_operator()};
    return all;
}

namespace {

class Creator final : public nvinfer1::IPluginCreatorV3One {
public:
    explicit Creator(const Operator& op) : op_(op) {
        if (op.has_attributes())
            fields_ = {{"scale", nullptr, nvinfer1::PluginFieldType::kFLOAT32, 1},
                       {"window", nullptr, nvinfer1::PluginFieldType::kINT64, 1}};
        collection_ = {static_cast<std::int32_t>(fields_.size()), fields_.data()};
    }

    nvinfer1::IPluginV3* createPlugin(const char* name, const nvinfer1::PluginFieldCollection* fields,
                                      nvinfer1::TensorRTPhase phase) noexcept override {
        try {
            Attributes attributes;
            const std::string refusal = read_fields(op_, fields, phase, attributes);
            if (refusal.empty()) return new Plugin(op_, attributes);
            report_error(std::string(op_.name()) + " '" + (name == nullptr ? "" : name) + "': " + refusal);
        } catch (const std::exception& error) {
            report_error(error.what());
        }
        return nullptr;
    }

    const nvinfer1::PluginFieldCollection* getFieldNames() noexcept override { return &collection_; }
    const char* getPluginName() const noexcept override { return op_.name(); }
    const char* getPluginVersion() const noexcept override { return kVersion; }
    const char* getPluginNamespace() const noexcept override { return kNamespace; }

private:
    const Operator& op_;
    std::vector<nvinfer1::PluginField> fields_;
    nvinfer1::PluginFieldCollection collection_;
};

}  // namespace
}  // namespace forkcast::plugin

#define FORKCAST_EXPORT extern "C" __attribute__((visibility("default")))

/// Plugin ABI version, named by the manifest of every engine that needs this library.
FORKCAST_EXPORT std::int32_t forkcast_plugin_abi_version() noexcept { return forkcast::plugin::kAbiVersion; }

FORKCAST_EXPORT void setLoggerFinder(nvinfer1::ILoggerFinder* finder) noexcept {
    forkcast::plugin::set_logger_finder(finder);
}

FORKCAST_EXPORT nvinfer1::IPluginCreatorInterface* const* getCreators(std::int32_t& count) noexcept {
    using forkcast::plugin::Creator;
    static std::array<Creator, 4> creators = {
        Creator(*forkcast::plugin::operators()[0]), Creator(*forkcast::plugin::operators()[1]),
        Creator(*forkcast::plugin::operators()[2]), Creator(*forkcast::plugin::operators()[3])};
    static nvinfer1::IPluginCreatorInterface* const list[] = {&creators[0], &creators[1], &creators[2], &creators[3]};
    count = static_cast<std::int32_t>(creators.size());
    return list;
}
