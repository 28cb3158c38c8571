// Output shapes and types symbolically, type combinations, and refusals of shapes at build and at run time.
#include <functional>

#include "library.h"
#include "tensors.h"

namespace forkcast::test {
namespace {

/// A size known only by its letter.
class Symbol final : public nvinfer1::IDimensionExpr {
public:
    explicit Symbol(char letter) : letter(letter) { mImpl = &impl_; }
    ~Symbol() noexcept override = default;
    const char letter;

private:
    struct Impl final : nvinfer1::apiv::VDimensionExpr {
        bool isConstant() const override { return false; }
        std::int64_t getConstantValue() const override { return -1; }
        bool isSizeTensor() const override { return false; }
    } impl_;
};

/// An expression builder that must not be needed: every output size is an input size.
class NoBuilder final : public nvinfer1::IExprBuilder {
public:
    NoBuilder() { mImpl = &impl_; }
    ~NoBuilder() noexcept override = default;
    bool used() const { return impl_.used; }

private:
    struct Impl final : nvinfer1::apiv::VExprBuilder {
        bool used = false;
        const nvinfer1::IDimensionExpr* constant(std::int64_t) override { return used = true, nullptr; }
        const nvinfer1::IDimensionExpr* operation(nvinfer1::DimensionOperation, const nvinfer1::IDimensionExpr&,
                                                  const nvinfer1::IDimensionExpr&) override {
            return used = true, nullptr;
        }
        const nvinfer1::IDimensionExpr* declareSizeTensor(std::int32_t, const nvinfer1::IDimensionExpr&,
                                                          const nvinfer1::IDimensionExpr&) override {
            return used = true, nullptr;
        }
    } impl_;
};

void check_symbolic_shapes(Report& report, nvinfer1::IPluginV3OneBuild& plugin, const Signature& s) {
    std::map<char, std::unique_ptr<Symbol>> symbols;
    for (const auto& [letter, size] : good_sizes()) symbols[letter] = std::make_unique<Symbol>(letter);
    std::vector<nvinfer1::DimsExprs> inputs(s.inputs.size()), outputs(s.outputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        inputs[i].nbDims = static_cast<std::int32_t>(s.inputs[i].size());
        for (std::size_t d = 0; d < s.inputs[i].size(); ++d) inputs[i].d[d] = symbols[s.inputs[i][d]].get();
    }
    NoBuilder builder;
    const auto count = [](const auto& list) { return static_cast<std::int32_t>(list.size()); };
    report.check(plugin.getOutputShapes(inputs.data(), count(inputs), nullptr, 0, outputs.data(), count(outputs),
                                        builder) == 0,
                 "getOutputShapes failed");
    report.check(!builder.used(), "the expression builder was used");
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        std::string letters;
        for (std::int32_t d = 0; d < outputs[i].nbDims; ++d)
            letters += static_cast<const Symbol*>(outputs[i].d[d])->letter;
        report.check(letters == s.outputs[i], "output " + std::to_string(i) + " is " + letters + ", not " + s.outputs[i]);
    }
    report.check(plugin.getOutputShapes(inputs.data(), count(inputs) - 1, nullptr, 0, outputs.data(), count(outputs),
                                        builder) != 0,
                 "an input less was accepted");
    inputs[0].nbDims = 1;
    report.check(plugin.getOutputShapes(inputs.data(), count(inputs), nullptr, 0, outputs.data(), count(outputs),
                                        builder) != 0,
                 "a wrong number of axes was accepted");
}

void check_types(Report& report, nvinfer1::IPluginV3OneBuild& plugin, const Signature& s) {
    const auto inputs = static_cast<std::int32_t>(s.inputs.size()), outputs = static_cast<std::int32_t>(s.outputs.size());
    for (const DataType element : {DataType::kFLOAT, DataType::kHALF, DataType::kBF16}) {
        std::vector<DataType> in, out(s.outputs.size(), DataType::kINT8);
        for (const char letter : s.input_types) in.push_back(type_of(letter, element));
        report.check(plugin.getOutputDataTypes(out.data(), outputs, in.data(), inputs) == 0, "getOutputDataTypes");
        for (std::size_t i = 0; i < out.size(); ++i)
            report.check(out[i] == type_of(s.output_types[i], element), "type of output " + std::to_string(i));
    }
    // Every tensor in turn with every type, the rest right: only the contract's combinations pass.
    for (const DataType element : {DataType::kFLOAT, DataType::kHALF, DataType::kBF16}) {
        auto tensors = describe(s, good_sizes(), element);
        const std::string letters = s.input_types + s.output_types;
        const std::size_t first = letters.find('T');
        for (std::size_t at = 0; at < tensors.size(); ++at) {
            const DataType right = tensors[at].desc.type;
            const auto position = static_cast<std::int32_t>(at);
            for (int t = 0; t < 12; ++t) {
                const auto type = static_cast<DataType>(t);
                tensors[at].desc.type = type;
                const bool half_or_float = type == DataType::kFLOAT || type == DataType::kHALF || type == DataType::kBF16;
                const bool want = at == first ? half_or_float : type == right;
                report.check(plugin.supportsFormatCombination(position, tensors.data(), inputs, outputs) == want,
                             "type " + std::to_string(t) + " at " + std::to_string(at));
            }
            tensors[at].desc.type = right;
            tensors[at].desc.format = nvinfer1::TensorFormat::kCHW4;
            report.check(!plugin.supportsFormatCombination(position, tensors.data(), inputs, outputs), "a CHW4 tensor");
            tensors[at].desc.format = nvinfer1::TensorFormat::kLINEAR;
        }
        report.check(!plugin.supportsFormatCombination(inputs + outputs, tensors.data(), inputs, outputs), "past the end");
    }
}

/// Sizes with one letter changed are refused at build and at run time, with a message that holds `reason`.
void refused(Report& report, Library& library, const std::string& op, char letter, std::int64_t size,
             const std::string& reason) {
    const Signature& s = signature(op);
    const PluginPointer plugin = create(library, op);
    Sizes sizes = good_sizes();
    sizes[letter] = size;
    const auto tensors = describe(s, sizes, DataType::kHALF);
    const auto inputs = static_cast<std::int32_t>(s.inputs.size()), outputs = static_cast<std::int32_t>(s.outputs.size());
    std::vector<nvinfer1::PluginTensorDesc> plain;
    for (const auto& tensor : tensors) plain.push_back(tensor.desc);
    const auto check = [&](const char* when, std::int32_t status) {
        report.check(status != 0, op + " accepted " + letter + std::string(" = ") + std::to_string(size) + " at " + when);
        report.check(library.logger.last.find(reason) != std::string::npos,
                     "message '" + library.logger.last + "' does not say '" + reason + "'");
    };
    library.logger.last.clear();
    check("build", build(*plugin).configurePlugin(tensors.data(), inputs, tensors.data() + inputs, outputs));
    library.logger.last.clear();
    check("run", runtime(*plugin).onShapeChange(plain.data(), inputs, plain.data() + inputs, outputs));
}

}  // namespace

void add_shape_cases(Suite& suite, Library& library) {
    for (const Signature& s : signatures()) {
        suite.add(s.op + " output shapes and types", [&](Report& report) {
            const PluginPointer plugin = create(library, s.op);
            check_symbolic_shapes(report, build(*plugin), s);
            check_types(report, build(*plugin), s);
        });
        suite.add(s.op + " accepts the contract's shapes, also before sizes are known", [&](Report& report) {
            const PluginPointer plugin = create(library, s.op);
            const auto inputs = static_cast<std::int32_t>(s.inputs.size());
            const auto outputs = static_cast<std::int32_t>(s.outputs.size());
            auto tensors = describe(s, good_sizes(), DataType::kBF16);
            for (const char unknown : {'-', 'N', 'C', 'L'}) {
                for (std::size_t i = 0; i < s.inputs.size(); ++i)
                    for (std::size_t d = 0; d < s.inputs[i].size(); ++d)
                        if (s.inputs[i][d] == unknown) tensors[i].desc.dims.d[d] = -1;
                report.check(
                    build(*plugin).configurePlugin(tensors.data(), inputs, tensors.data() + inputs, outputs) == 0,
                    "refused: " + library.logger.last);
            }
        });
    }
    suite.add("TreeAttention refuses shapes by name", [&](Report& report) {
        refused(report, library, "TreeAttention", 'D', 96, "axis 2 of q must be one of 64, 128, 256, found 96");
        refused(report, library, "TreeAttention", 'Q', 3, "axis 1 of q must be a multiple of 2, found 3");
        refused(report, library, "TreeAttention", '1', 2, "axis 0 of past_len must be one of 1, found 2");
    });
    suite.add("TreeCausalConv refuses shapes by name", [&](Report& report) {
        refused(report, library, "TreeCausalConv", 'K', 9, "axis 1 of weight must be in 1..8, found 9");
        refused(report, library, "TreeCausalConv", 'P', 2, "axis 0 of past must be one of 3, found 2");
    });
    suite.add("TreeDeltaRule refuses shapes by name", [&](Report& report) {
        refused(report, library, "TreeDeltaRule", 'E', 32, "axis 2 of k must be one of 64, 128, 256, found 32");
        refused(report, library, "TreeDeltaRule", 'F', 48, "axis 2 of v must be a multiple of 32, found 48");
        refused(report, library, "TreeDeltaRule", 'N', 1793, "axis 0 of v must be in 1..1792, found 1793");
        refused(report, library, "TreeDeltaRule", 'H', 3, "axis 1 of v must be a multiple of 3, found 2");
    });
    suite.add("DeltaBranchUpdate refuses shapes by name", [&](Report& report) {
        refused(report, library, "DeltaBranchUpdate", 'H', 3, "axis 0 of state must be a multiple of 3, found 2");
        refused(report, library, "DeltaBranchUpdate", 'L', 9000, "axis 0 of path must be in 0..8192, found 9000");
    });
    suite.add("TreeAttention workspace covers every row count of a profile", [&](Report& report) {
        const Signature& s = signature("TreeAttention");
        const PluginPointer plugin = create(library, "TreeAttention");
        const auto bytes_for = [&](std::int64_t rows) {
            Sizes sizes = good_sizes();
            sizes['N'] = rows, sizes['C'] = 8192, sizes['Q'] = 16, sizes['J'] = 4, sizes['D'] = 256;
            const auto tensors = describe(s, sizes, DataType::kBF16);
            return build(*plugin).getWorkspaceSize(tensors.data(), 8, tensors.data() + 8, 1);
        };
        const std::size_t whole = bytes_for(257);
        for (std::int64_t rows = 1; rows <= 257; ++rows) report.check(bytes_for(rows) <= whole, "too small");
        report.check(whole > 0, "no workspace");
        report.note(std::to_string(whole) + " bytes for 257 rows of 16 heads of 256");
    });
}

}  // namespace forkcast::test
