"""Plain greedy decoding in llama.cpp: one token a step through `llama_decode`."""
import ctypes
import time

import numpy as np

from common import THREADS, need


class LlamaPlain:
    """A GGUF model on the CPU."""

    def __init__(self, path, context=1024, repack=True):
        """`repack`: llama.cpp's own layouts of quantised weights for this CPU (its default)."""
        self.api = api = need("llama_cpp")
        # Its log goes nowhere; the callback must stay alive.
        self.quiet = api.llama_log_callback(lambda *_: None)
        api.llama_log_set(self.quiet, ctypes.c_void_p(0))
        api.llama_backend_init()
        loading = api.llama_model_default_params()
        loading.use_extra_bufts = repack
        self.model = api.llama_model_load_from_file(str(path).encode(), loading)
        if not self.model:
            raise RuntimeError(f"llama.cpp does not load {path}")
        params = api.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = context, 512, 512
        params.n_threads = params.n_threads_batch = THREADS
        self.context = api.llama_init_from_model(self.model, params)
        if not self.context:
            raise RuntimeError(f"llama.cpp makes no context for {path}")
        self.vocabulary = api.llama_vocab_n_tokens(api.llama_model_get_vocab(self.model))

    def step(self, tokens):
        """Best next token, and the seconds inside llama.cpp (ours, the argmax in numpy, does not count)."""
        api = self.api
        array = (api.llama_token * len(tokens))(*tokens)
        batch = api.llama_batch_get_one(array, len(tokens))
        begin = time.perf_counter()
        code = api.llama_decode(self.context, batch)
        logits = api.llama_get_logits_ith(self.context, -1)
        seconds = time.perf_counter() - begin
        if code != 0:
            raise RuntimeError(f"llama_decode: {code}")
        row = np.ctypeslib.as_array(logits, shape=(self.vocabulary,))
        return int(row.argmax()), seconds

    def decode(self, prompt, count):
        """(tokens, tokens per second after the first one).

        The prompt goes in token by token: it is not timed, and on some virtual machines llama.cpp's AMX kernels, which it
        takes for several rows of 8-bit weights, end the process with an illegal instruction.
        """
        self.api.llama_memory_clear(self.api.llama_get_memory(self.context), True)
        for part in prompt:
            token, _ = self.step([part])
        tokens, total = [token], 0.0
        while len(tokens) < count:
            token, seconds = self.step([token])
            tokens.append(token)
            total += seconds
        return tokens, (count - 1) / total

    def close(self):
        """Frees model and context."""
        self.api.llama_free(self.context)
        self.api.llama_model_free(self.model)
