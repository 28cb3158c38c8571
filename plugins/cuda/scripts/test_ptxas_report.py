"""`python3 -m unittest discover -s scripts` (from `plugins/cuda`): the check that ptxas_report.py makes."""

import unittest

import ptxas_report as report

ENTRY = """ptxas info    : Compiling entry function '{symbol}' for 'sm_{sm}'
ptxas info    : Function properties for {symbol}
    {stack} bytes stack frame, {stores} bytes spill stores, {loads} bytes spill loads
ptxas info    : Used {registers} registers, used 1 barriers, 2048 bytes smem
"""


def log(symbol="_ZN8forkcast4kernIfEEvi", sm=80, stack=0, stores=0, loads=0, registers=40):
    return ENTRY.format(**locals())


def kernels(text):
    out = {}
    for (symbol, sm), figures in report.entries(text).items():
        out.setdefault(symbol, {})[sm] = figures
    return out


class PtxasReport(unittest.TestCase):
    def test_figures_are_read(self):
        found = report.entries(log(sm=80) + log(sm=120, registers=248))
        symbol = "_ZN8forkcast4kernIfEEvi"
        self.assertEqual(found[symbol, 120]["registers"], 248)
        self.assertEqual(found[symbol, 80], {"registers": 40, "stack": 0, "stores": 0, "loads": 0, "shared": 2048})

    def test_clean_kernels_pass(self):
        self.assertEqual(report.problems(kernels(log(sm=80) + log(sm=90)), [80, 90]), [])

    def test_spills_and_stack_frames_fail(self):
        for field, label in [("stores", "spill stores"), ("loads", "spill loads"), ("stack", "stack frame")]:
            wrong = report.problems(kernels(log(sm=80) + log(sm=90, **{field: 8})), [80, 90])
            self.assertEqual(wrong, [f"_ZN8forkcast4kernIfEEvi: 8 bytes of {label} on SM 90"])

    def test_a_missing_sm_and_no_kernel_fail(self):
        self.assertIn("not for [80, 90]", report.problems(kernels(log(sm=80)), [80, 90])[0])
        self.assertEqual(report.problems({}, [80]), ["no kernel was compiled"])

    def test_a_log_that_breaks_off_is_refused(self):
        with self.assertRaisesRegex(ValueError, "no register count"):
            report.entries("Compiling entry function 'k' for 'sm_80'\nKilled")

    def test_table_has_a_line_a_kernel(self):
        lines = report.table(kernels(log(sm=80) + log(sm=90) + log("other", sm=80)), [80, 90]).splitlines()
        self.assertEqual(len(lines), 3)
        self.assertIn("-", lines[2].split())

    def test_names_are_short(self):
        self.assertEqual(report.demangle(["_ZN8forkcast4kernIfEEvi"]), {"_ZN8forkcast4kernIfEEvi": "kern<f32>"})


if __name__ == "__main__":
    unittest.main()
