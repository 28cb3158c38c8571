"""transformers' own Qwen modules with every float32 in them made float64.

In float32 the modules are up to 4e-4 away from exact arithmetic on the random checkpoints (300 tokens, tied heads), more than
the differences the goldens are there to bound; so the goldens are computed in float64 and stored in float32.
"""
import inspect

import torch
import transformers.models.qwen3.modeling_qwen3 as qwen3
import transformers.models.qwen3_5.modeling_qwen3_5 as qwen3_5

for module in (qwen3, qwen3_5):
    source = inspect.getsource(module)
    for single, double in (("torch.float32", "torch.float64"), (".float()", ".double()"), ("dtype=torch.float)", "dtype=torch.float64)")):
        source = source.replace(single, double)
    exec(compile(source, module.__file__, "exec"), module.__dict__)  # the classes below are the recompiled ones


def load(folder, kind):
    """The checkpoint in `folder` as class `kind` (a name in one of the two modules), in float64."""
    module = qwen3_5 if hasattr(qwen3_5, kind) else qwen3
    return getattr(module, kind).from_pretrained(folder, dtype=torch.float32).double().eval()
