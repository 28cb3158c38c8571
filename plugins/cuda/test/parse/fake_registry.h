// A plugin registry that does what TensorRT's does with a plugin library, without TensorRT: opens it, hands it a
// logger, takes its creators, refuses a creator it has already, and drops them with the library.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <NvInferRuntime.h>

#include "../plugin/library.h"

namespace forkcast::test {

class FakeRegistry final : public nvinfer1::IPluginRegistry {
public:
    ~FakeRegistry() noexcept override = default;

    PluginLibraryHandle loadLibrary(const char* path) noexcept override;
    void deregisterLibrary(PluginLibraryHandle handle) noexcept override;
    bool registerCreator(nvinfer1::IPluginCreatorInterface& creator, const char* name_space) noexcept override;
    bool deregisterCreator(const nvinfer1::IPluginCreatorInterface& creator) noexcept override;
    nvinfer1::IPluginCreatorInterface* getCreator(const char* name, const char* version,
                                                  const char* name_space) noexcept override;
    nvinfer1::IPluginCreatorInterface* const* getAllCreators(std::int32_t* count) const noexcept override;
    nvinfer1::IPluginCreatorInterface* const* getAllCreatorsRecursive(std::int32_t* count) noexcept override {
        return getAllCreators(count);
    }

    // What the shim and the parser do not need.
    void setErrorRecorder(nvinfer1::IErrorRecorder*) noexcept override {}
    nvinfer1::IErrorRecorder* getErrorRecorder() const noexcept override { return nullptr; }
    bool isParentSearchEnabled() const override { return false; }
    void setParentSearchEnabled(bool) override {}
    nvinfer1::IPluginResource* acquirePluginResource(const char*, nvinfer1::IPluginResource*) noexcept override {
        return nullptr;
    }
    std::int32_t releasePluginResource(const char*) noexcept override { return -1; }

    /// What the library reported last.
    const std::string& message() const { return logger_.last; }
    void forget_message() { logger_.last.clear(); }
    std::size_t size() const { return creators_.size(); }

private:
    Logger logger_;
    std::vector<nvinfer1::IPluginCreatorInterface*> creators_;
    std::map<void*, std::vector<nvinfer1::IPluginCreatorInterface*>> libraries_;
};

}  // namespace forkcast::test
