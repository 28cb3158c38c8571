// Sizes of tensors as expressions: numbers, and names for sizes that only a run knows.
#pragma once

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "node_list.h"

namespace forkcast::test {

/// A size; `text` is the number or the name.
class Size final : public nvinfer1::IDimensionExpr {
public:
    explicit Size(std::string text) : text(std::move(text)) {
        impl_.value = number(this->text);
        mImpl = &impl_;
    }
    ~Size() noexcept override = default;
    /// The number, or -1 for a name.
    static std::int64_t number(const std::string& text) {
        char* end = nullptr;
        const std::int64_t value = std::strtoll(text.c_str(), &end, 10);
        return end == text.c_str() || *end != '\0' ? -1 : value;
    }
    const std::string text;

private:
    struct Impl final : nvinfer1::apiv::VDimensionExpr {
        std::int64_t value = -1;
        bool isConstant() const override { return value >= 0; }
        std::int64_t getConstantValue() const override { return value; }
        bool isSizeTensor() const override { return false; }
    } impl_;
};

/// All sizes of a graph: equal texts are one expression. As a builder of expressions it makes constants only; our
/// operators need no arithmetic.
class Symbols final : public nvinfer1::IExprBuilder {
public:
    Symbols() {
        impl_.symbols = this;
        mImpl = &impl_;
    }
    ~Symbols() noexcept override = default;

    const nvinfer1::IDimensionExpr* size(const std::string& text) {
        auto& slot = sizes_[text];
        if (slot == nullptr) slot = std::make_unique<Size>(text);
        return slot.get();
    }
    nvinfer1::DimsExprs expressions(const NodeTensor& tensor) {
        nvinfer1::DimsExprs out{};
        out.nbDims = static_cast<std::int32_t>(tensor.dims.size());
        for (std::size_t d = 0; d < tensor.dims.size(); ++d) out.d[d] = size(tensor.dims[d]);
        return out;
    }
    std::vector<std::string> names(const nvinfer1::DimsExprs& sizes) const {
        std::vector<std::string> out;
        for (std::int32_t d = 0; d < sizes.nbDims; ++d)
            out.push_back(sizes.d[d] == nullptr ? "?" : static_cast<const Size*>(sizes.d[d])->text);
        return out;
    }

    /// A tensor as the builder describes it: -1 for unknown sizes, which lie in 1..257.
    static nvinfer1::DynamicPluginTensorDesc profile(const NodeTensor& tensor) {
        nvinfer1::DynamicPluginTensorDesc out{};
        out.desc.type = tensor.type;
        out.desc.format = nvinfer1::TensorFormat::kLINEAR;
        out.desc.scale = 1.0f;
        for (auto* dims : {&out.desc.dims, &out.min, &out.opt, &out.max})
            dims->nbDims = static_cast<std::int32_t>(tensor.dims.size());
        for (std::size_t d = 0; d < tensor.dims.size(); ++d) {
            const std::int64_t known = Size::number(tensor.dims[d]);
            out.desc.dims.d[d] = known;
            out.min.d[d] = known < 0 ? 1 : known;
            out.opt.d[d] = known < 0 ? 16 : known;
            out.max.d[d] = known < 0 ? 257 : known;
        }
        return out;
    }

private:
    struct Impl final : nvinfer1::apiv::VExprBuilder {
        Symbols* symbols = nullptr;
        const nvinfer1::IDimensionExpr* constant(std::int64_t value) override {
            return symbols->size(std::to_string(value));
        }
        const nvinfer1::IDimensionExpr* operation(nvinfer1::DimensionOperation, const nvinfer1::IDimensionExpr&,
                                                  const nvinfer1::IDimensionExpr&) override {
            return nullptr;
        }
        const nvinfer1::IDimensionExpr* declareSizeTensor(std::int32_t, const nvinfer1::IDimensionExpr&,
                                                          const nvinfer1::IDimensionExpr&) override {
            return nullptr;
        }
    } impl_;
    std::map<std::string, std::unique_ptr<Size>> sizes_;
};

}  // namespace forkcast::test
