// Reads the fields a plugin is created from: attributes of an ONNX node, or what an engine has stored.
#pragma once

#include <string>

#include <NvInferRuntime.h>

#include "operator.h"

namespace forkcast::plugin {

/// Fills `attributes`; returns an empty text, or why the fields are refused. In the build phase `scale` must be given
/// and `window` defaults to 0; in the runtime phase every serialized field must be there, `abi` with our version.
/// A field of another name, type or length is refused.
std::string read_fields(const Operator& op, const nvinfer1::PluginFieldCollection* fields,
                        nvinfer1::TensorRTPhase phase, Attributes& attributes);

}  // namespace forkcast::plugin
