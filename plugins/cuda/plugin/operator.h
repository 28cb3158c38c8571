// What the plugin class needs to know of one operator: its tensors, its attributes, its limits and its launch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <NvInferRuntime.h>

#include "../kernels/kernels.h"

namespace forkcast::plugin {

/// Type rule of a tensor. All kElement tensors of a node have one type: float32, float16 or bfloat16.
enum class TypeRule { kElement, kFloat32, kInt64, kBool };

struct TensorRule {
    const char* name;
    TypeRule type;
    int rank;
};

/// Attributes of a node. Only TreeAttention has any.
struct Attributes {
    float scale = 0.0f;
    std::int64_t window = 0;
};

/// Sizes of the inputs; -1 where a size is not known yet.
using Shapes = std::vector<nvinfer1::Dims>;

/// Addresses and sizes of one execution.
struct Execution {
    Shapes shapes;  // of the inputs
    ElementType type;
    void const* const* inputs;
    void* const* outputs;
    void* workspace;
    cudaStream_t stream;
};

class Operator {
public:
    virtual ~Operator() = default;

    virtual const char* name() const = 0;
    virtual const std::vector<TensorRule>& inputs() const = 0;
    virtual const std::vector<TensorRule>& outputs() const = 0;
    /// Whether a node carries `scale` and `window`.
    virtual bool has_attributes() const { return false; }

    /// For every output and axis: which input and axis gives its size.
    struct Axis {
        int input, axis;
    };
    virtual const std::vector<std::vector<Axis>>& output_axes() const = 0;

    /// Empty if the shapes can be run; otherwise what was expected and found. Sizes of -1 are not judged.
    virtual std::string refusal(const Shapes& shapes) const = 0;

    /// Upper bound of the workspace over all shapes up to `largest`.
    virtual std::size_t workspace_bytes(const Shapes& largest) const {
        (void)largest;
        return 0;
    }

    virtual Status launch(const Attributes& attributes, const Execution& run) const = 0;
};

/// The four operators, in the order of the creators.
const std::vector<const Operator*>& operators();

const Operator& tree_attention_operator();
const Operator& tree_causal_conv_operator();
const Operator& tree_delta_rule_operator();
const Operator& branch_update_operator();

/// Collects "expected ..., found ..." for sizes that must agree; unknown sizes (-1) agree with everything.
class ShapeCheck {
public:
    ShapeCheck(const Operator& op, const Shapes& shapes);

    /// Two sizes are equal.
    void same(Operator::Axis a, Operator::Axis b);
    /// The size of `a` is one of `allowed`.
    void one_of(Operator::Axis a, std::initializer_list<std::int64_t> allowed);
    /// The size of `a` lies in low..high.
    void between(Operator::Axis a, std::int64_t low, std::int64_t high);
    /// The size of `a` is a multiple of that of `b` (or of a number).
    void multiple(Operator::Axis a, Operator::Axis b);
    void multiple(Operator::Axis a, std::int64_t of);

    const std::string& refusal() const { return refusal_; }

private:
    std::int64_t size(Operator::Axis a) const;
    std::string label(Operator::Axis a) const;
    void refuse(const std::string& text);

    const Operator& op_;
    const Shapes& shapes_;
    std::string refusal_;
};

}  // namespace forkcast::plugin
