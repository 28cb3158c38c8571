// Messages of the plugin library: to TensorRT's logger once it has given us one, to stderr before that.
#pragma once

#include <string>

#include <NvInferRuntime.h>

namespace forkcast::plugin {

void set_logger_finder(nvinfer1::ILoggerFinder* finder) noexcept;

/// Reports an error; `text` names the operator and what was expected and found.
void report_error(const std::string& text) noexcept;

}  // namespace forkcast::plugin
