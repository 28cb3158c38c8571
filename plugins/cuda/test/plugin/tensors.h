// The tensors of the four operators as the contract states them, with letters for sizes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <NvInferRuntime.h>

namespace forkcast::test {

using nvinfer1::DataType;

/// Letter sizes: N rows, Q/J heads, D head size, C capacity, W channels, K taps, P past taps, H/V key and value heads,
/// E/F key and value sizes, L path, 1 one.
using Sizes = std::map<char, std::int64_t>;

struct Signature {
    std::string op;
    std::vector<std::string> inputs, outputs;  // one letter an axis
    std::string input_types, output_types;     // T element, f float32, i int64, b bool
};

inline const std::vector<Signature>& signatures() {
    static const std::vector<Signature> all = {
        {"TreeAttention", {"NQD", "NJD", "NJD", "CJD", "CJD", "1", "N", "NN"}, {"NQD"}, "TTTTTiib", "T"},
        {"TreeCausalConv", {"NW", "PW", "WK", "NN"}, {"NW"}, "TTTb", "T"},
        {"TreeDeltaRule", {"NHE", "NHE", "NVF", "NV", "NV", "VEF", "NN"}, {"NVF", "NVF", "NV"}, "TTTfffb", "Tff"},
        {"DeltaBranchUpdate", {"VEF", "NHE", "NVF", "NV", "L"}, {"VEF"}, "fTffi", "f"}};
    return all;
}

inline const Signature& signature(const std::string& op) {
    for (const Signature& s : signatures())
        if (s.op == op) return s;
    throw std::runtime_error("no signature " + op);
}

inline Sizes good_sizes() {
    return {{'N', 5}, {'Q', 4}, {'J', 2}, {'D', 64}, {'C', 16}, {'W', 24}, {'K', 4}, {'P', 3}, {'H', 1},
            {'V', 2}, {'E', 64}, {'F', 32}, {'L', 3}, {'1', 1}};
}

inline nvinfer1::Dims dims_of(const std::string& letters, const Sizes& sizes) {
    nvinfer1::Dims dims{};
    dims.nbDims = static_cast<std::int32_t>(letters.size());
    for (std::size_t i = 0; i < letters.size(); ++i) dims.d[i] = sizes.at(letters[i]);
    return dims;
}

inline DataType type_of(char letter, DataType element) {
    return letter == 'T'   ? element
           : letter == 'f' ? DataType::kFLOAT
           : letter == 'i' ? DataType::kINT64
                           : DataType::kBOOL;
}

/// Descriptions of all inputs, then all outputs.
inline std::vector<nvinfer1::DynamicPluginTensorDesc> describe(const Signature& s, const Sizes& sizes,
                                                               DataType element) {
    std::vector<nvinfer1::DynamicPluginTensorDesc> out;
    const auto add = [&](const std::string& letters, char type) {
        nvinfer1::DynamicPluginTensorDesc desc{};
        desc.desc = {dims_of(letters, sizes), type_of(type, element), nvinfer1::TensorFormat::kLINEAR, 1.0f};
        desc.min = desc.max = desc.opt = desc.desc.dims;
        out.push_back(desc);
    };
    for (std::size_t i = 0; i < s.inputs.size(); ++i) add(s.inputs[i], s.input_types[i]);
    for (std::size_t i = 0; i < s.outputs.size(); ++i) add(s.outputs[i], s.output_types[i]);
    return out;
}

}  // namespace forkcast::test
