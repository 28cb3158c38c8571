#include "fields.h"

#include <cmath>
#include <cstring>
#include <optional>

#include "plugin.h"

namespace forkcast::plugin {
namespace {

using nvinfer1::PluginField;
using nvinfer1::PluginFieldType;

template <class T>
T value_of(const PluginField& field) {
    T value;
    std::memcpy(&value, field.data, sizeof value);
    return value;
}

std::optional<std::int64_t> integer_of(const PluginField& field) {
    if (field.type == PluginFieldType::kINT32) return value_of<std::int32_t>(field);
    if (field.type == PluginFieldType::kINT64) return value_of<std::int64_t>(field);
    return std::nullopt;
}

struct Found {
    bool scale = false, window = false, abi = false;
};

std::string read_field(const Operator& op, const PluginField& field, bool runtime, Found& found,
                       Attributes& attributes) {
    const std::string name = field.name == nullptr ? "" : field.name;
    const bool known = (op.has_attributes() && (name == "scale" || name == "window")) || (runtime && name == "abi");
    if (!known) return "unknown field '" + name + "'";
    if (field.data == nullptr || field.length != 1) return "field '" + name + "' must hold one value";
    bool& seen = name == "scale" ? found.scale : name == "window" ? found.window : found.abi;
    if (seen) return "field '" + name + "' is given twice";
    seen = true;
    if (name == "scale") {
        if (field.type != PluginFieldType::kFLOAT32) return "field 'scale' must be float32";
        attributes.scale = value_of<float>(field);
        if (!std::isfinite(attributes.scale)) return "field 'scale' is not finite";
        return "";
    }
    const std::optional<std::int64_t> value = integer_of(field);
    if (!value) return "field '" + name + "' must be int32 or int64";
    if (name == "window") {
        attributes.window = *value;
        return *value < 0 ? "field 'window' is negative: " + std::to_string(*value) : "";
    }
    if (*value != kAbiVersion)
        return "the engine was built with plugin ABI " + std::to_string(*value) + ", this library has " +
               std::to_string(kAbiVersion) + "; build the engine again";
    return "";
}

}  // namespace

std::string read_fields(const Operator& op, const nvinfer1::PluginFieldCollection* fields,
                        nvinfer1::TensorRTPhase phase, Attributes& attributes) {
    const bool runtime = phase == nvinfer1::TensorRTPhase::kRUNTIME;
    if (fields == nullptr || (fields->nbFields > 0 && fields->fields == nullptr)) return "no field collection";
    Found found;
    for (std::int32_t i = 0; i < fields->nbFields; ++i) {
        const std::string refusal = read_field(op, fields->fields[i], runtime, found, attributes);
        if (!refusal.empty()) return refusal;
    }
    if (op.has_attributes() && !found.scale) return "field 'scale' is missing";
    if (runtime && op.has_attributes() && !found.window) return "field 'window' is missing";
    if (runtime && !found.abi) return "field 'abi' is missing";
    return "";
}

}  // namespace forkcast::plugin
