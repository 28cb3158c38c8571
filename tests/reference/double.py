"""transformers' own Qwen modules with every float32 in them made float64, as private copies.

In float32 the modules are up to 4e-4 away from exact arithmetic on the random checkpoints (300 tokens, tied heads), more than
the differences the goldens are there to bound; so those goldens are computed in float64 and stored in float32. The modules
that transformers itself uses stay as they are.
"""
import inspect
import types

import torch
import transformers.models.qwen3.modeling_qwen3 as qwen3
import transformers.models.qwen3_5.modeling_qwen3_5 as qwen3_5

DOUBLED = (("torch.float32", "torch.float64"), (".float()", ".double()"), ("dtype=torch.float)", "dtype=torch.float64)"),
           ("AutoModel.from_config(config.text_config)", "Qwen3_5TextModel(config.text_config)"))    # not the registered class


def doubled(module):
    """A copy of a modeling module that computes in float64."""
    source = inspect.getsource(module)
    for single, double in DOUBLED:
        source = source.replace(single, double)
    copy = types.ModuleType(module.__name__)
    copy.__package__, copy.__file__ = module.__package__, module.__file__
    exec(compile(source, module.__file__, "exec"), copy.__dict__)
    return copy


def load(folder, kind):
    """The checkpoint in `folder` as class `kind` of one of the two modules, in float64."""
    module = doubled(qwen3_5 if hasattr(qwen3_5, kind) else qwen3)
    return getattr(module, kind).from_pretrained(folder, dtype=torch.float32).double().eval()
