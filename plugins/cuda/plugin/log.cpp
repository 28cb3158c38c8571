#include "log.h"

#include <atomic>
#include <cstdio>

namespace forkcast::plugin {
namespace {

std::atomic<nvinfer1::ILoggerFinder*> logger_finder{nullptr};

}  // namespace

void set_logger_finder(nvinfer1::ILoggerFinder* finder) noexcept { logger_finder.store(finder); }

void report_error(const std::string& text) noexcept {
    nvinfer1::ILoggerFinder* finder = logger_finder.load();
    nvinfer1::ILogger* logger = finder != nullptr ? finder->findLogger() : nullptr;
    if (logger != nullptr)
        logger->log(nvinfer1::ILogger::Severity::kERROR, text.c_str());
    else
        std::fprintf(stderr, "forkcast plugins: %s\n", text.c_str());
}

}  // namespace forkcast::plugin
