// DeltaBranchUpdate: the committed state is the state after decoding the path, from any row of any tree.
#include "delta_inputs.h"
#include "harness.h"

namespace forkcast::test {
namespace {

template <class T>
void run_tree(int index, ErrorMeter& meter) {
    Random random(static_cast<std::uint64_t>(40000 + index));
    const Tree tree = random_tree(index, 257, random);
    DeltaSizes s{tree.rows(), 1, 1 + index % 4, index % 3 == 0 ? 64 : 128, index % 5 == 0 ? 40 : 64};
    DeltaCase c = delta_inputs(s, index % 6 == 5, index % 6 == 4, random);
    DeltaBuffers<T> b(c);
    const DeltaResult rows = reference_delta(tree, c);
    Buffer<float> u(rows.u), cumulative_g(rows.cumulative_g);
    const std::vector<int> path = tree.path(random.integer(0, tree.rows() - 1));
    std::vector<std::int64_t> padded(path.begin(), path.end());
    if (index % 4 == 1) padded.insert(padded.end(), 3, -1);  // entries outside the rows are skipped
    if (index % 8 == 2) padded.push_back(tree.rows());
    Buffer<std::int64_t> device_path(padded);
    Buffer<float> out(b.state.size());
    out.poison();

    BranchUpdateParams p;
    p.state = b.state.data(), p.k = b.k.data(), p.u = u.data(), p.cumulative_g = cumulative_g.data();
    p.path = device_path.data(), p.out = out.data();
    p.rows = s.rows, p.key_heads = s.key_heads, p.value_heads = s.value_heads;
    p.key_dim = s.key_dim, p.value_dim = s.value_dim, p.path_length = static_cast<int>(padded.size());
    run_checked(index, [&] { return launch_branch_update(p, TypeInfo<T>::type, nullptr); }, [&] { return out.bytes(); });
    const Values want = reference_state_after(path, c);
    const double bound = 1e-5 + 2 * 0x1p-23 * rows.largest_g;
    meter.compare(out, want, bound);

    p.out = b.state.data();  // in place
    if (launch_branch_update(p, TypeInfo<T>::type, nullptr) != Status::kOk) throw std::runtime_error("in place");
    synchronize();
    if (b.state.bytes() != out.bytes()) throw std::runtime_error("in place differs");
}

}  // namespace

void add_branch_cases(Suite& suite) {
    for_each_type([&](auto* tag) {
        using T = std::remove_pointer_t<decltype(tag)>;
        suite.add(std::string("branch_update ") + TypeInfo<T>::name, [](Report& report) {
            ErrorMeter meter;
            for (int i = 0; i < tree_count(); ++i) run_tree<T>(i, meter);
            report.check(meter.ratio() <= 1.0, "error above its bound: " + meter.text(tree_count()));
            report.note(meter.text(tree_count()));
        });
    });
    suite.add("branch_update empty path copies the state", [](Report& report) {
        Random random(1);
        DeltaCase c = delta_inputs({4, 1, 2, 64, 32}, false, false, random);
        DeltaBuffers<float> b(c);
        Buffer<float> out(b.state.size());
        BranchUpdateParams p;
        p.state = b.state.data(), p.k = b.k.data(), p.u = b.u.data(), p.cumulative_g = b.cumulative_g.data();
        p.out = out.data(), p.rows = 4, p.key_heads = 1, p.value_heads = 2, p.key_dim = 64, p.value_dim = 32;
        report.check(launch_branch_update(p, ElementType::kFloat32, nullptr) == Status::kOk, "refused");
        synchronize();
        report.check(out.bytes() == b.state.bytes(), "the state changed");
    });
}

}  // namespace forkcast::test
