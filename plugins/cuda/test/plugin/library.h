// The built library as TensorRT's registry sees it: opened with dlopen, its C symbols, its creators, a logger.
#pragma once

#include <dlfcn.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <NvInferRuntime.h>

#include "../harness.h"

namespace forkcast::test {

/// Keeps the last message, in place of TensorRT's logger.
class Logger final : public nvinfer1::ILogger, public nvinfer1::ILoggerFinder {
public:
    void log(Severity, const char* message) noexcept override { last = message; }
    nvinfer1::ILogger* findLogger() override { return this; }
    std::string last;
};

class Library {
public:
    explicit Library(const std::string& path) : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
        if (handle_ == nullptr) throw std::runtime_error(dlerror());
        symbol<void (*)(nvinfer1::ILoggerFinder*)>("setLoggerFinder")(&logger);
        std::int32_t count = 0;
        auto* const* list =
            symbol<nvinfer1::IPluginCreatorInterface* const* (*)(std::int32_t&)>("getCreators")(count);
        for (std::int32_t i = 0; i < count; ++i)
            creators.push_back(static_cast<nvinfer1::IPluginCreatorV3One*>(list[i]));
    }
    ~Library() {
        symbol<void (*)(nvinfer1::ILoggerFinder*)>("setLoggerFinder")(nullptr);
        dlclose(handle_);
    }

    template <class F>
    F symbol(const char* name) const {
        void* address = dlsym(handle_, name);
        if (address == nullptr) throw std::runtime_error(std::string("no symbol ") + name);
        return reinterpret_cast<F>(address);
    }

    nvinfer1::IPluginCreatorV3One& creator(const std::string& name) const {
        for (auto* creator : creators)
            if (creator->getPluginName() == name) return *creator;
        throw std::runtime_error("no creator " + name);
    }

    Logger logger;
    std::vector<nvinfer1::IPluginCreatorV3One*> creators;

private:
    void* handle_;
};

using PluginPointer = std::unique_ptr<nvinfer1::IPluginV3>;

/// Fields of a node: the attributes TreeAttention needs, none for the others.
struct NodeFields {
    float scale = 0.125f;
    std::int64_t window = 0;
    std::vector<nvinfer1::PluginField> fields;
    nvinfer1::PluginFieldCollection collection;

    explicit NodeFields(const std::string& op) {
        if (op == "TreeAttention")
            fields = {{"scale", &scale, nvinfer1::PluginFieldType::kFLOAT32, 1},
                      {"window", &window, nvinfer1::PluginFieldType::kINT64, 1}};
        collection = {static_cast<std::int32_t>(fields.size()), fields.data()};
    }
    NodeFields(const NodeFields&) = delete;
};

inline PluginPointer create(const Library& library, const std::string& op,
                            nvinfer1::TensorRTPhase phase = nvinfer1::TensorRTPhase::kBUILD) {
    NodeFields node(op);
    PluginPointer plugin(library.creator(op).createPlugin("node", &node.collection, phase));
    if (!plugin) throw std::runtime_error(op + ": not created: " + library.logger.last);
    return plugin;
}

inline nvinfer1::IPluginV3OneCore& core(nvinfer1::IPluginV3& plugin) {
    return *static_cast<nvinfer1::IPluginV3OneCore*>(
        plugin.getCapabilityInterface(nvinfer1::PluginCapabilityType::kCORE));
}
inline nvinfer1::IPluginV3OneBuild& build(nvinfer1::IPluginV3& plugin) {
    return *static_cast<nvinfer1::IPluginV3OneBuild*>(
        plugin.getCapabilityInterface(nvinfer1::PluginCapabilityType::kBUILD));
}
inline nvinfer1::IPluginV3OneRuntime& runtime(nvinfer1::IPluginV3& plugin) {
    return *static_cast<nvinfer1::IPluginV3OneRuntime*>(
        plugin.getCapabilityInterface(nvinfer1::PluginCapabilityType::kRUNTIME));
}

void add_creator_cases(Suite& suite, Library& library);
void add_field_cases(Suite& suite, Library& library);
void add_shape_cases(Suite& suite, Library& library);
void add_enqueue_cases(Suite& suite, Library& library);

}  // namespace forkcast::test
