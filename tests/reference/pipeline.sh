#!/bin/sh
# Makes every trained checkpoint of ../models again from nothing. About three CPU hours; run inside an empty folder:
#   PYTHON=python3 sh path/to/pipeline.sh
# The corpus, tokenizer and prompts come out byte for byte; weights differ from run to run (training stops by CPU time).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
py=${PYTHON:-python3}
export MALLOC_MMAP_THRESHOLD_=2000000000 MALLOC_TRIM_THRESHOLD_=8000000000

$py "$here/make_corpus.py" data --seed 1
$py "$here/make_tokenizer.py" data tokenizer
$py "$here/train_target.py" qwen3.5 data tokenizer tiny-qwen3.5 --cpu-seconds 3700
$py "$here/train_target.py" qwen3 data tokenizer tiny-qwen3 --cpu-seconds 720 --threads 1

$py "$here/sample_replies.py" tiny-qwen3.5 hybrid1.pt --held-out data --seed 101 --cpu-seconds 230
$py "$here/sample_replies.py" tiny-qwen3.5 hybrid2.pt --held-out data --seed 102 --cpu-seconds 230
$py "$here/train_drafter.py" dflash tiny-qwen3.5 hybrid1.pt,hybrid2.pt tiny-qwen3.5-dflash --cpu-seconds 1080
$py "$here/train_drafter.py" mfd tiny-qwen3.5 hybrid1.pt,hybrid2.pt tiny-qwen3.5-mfd --init tiny-qwen3.5-dflash --anchors 8 --cpu-seconds 1640

$py "$here/sample_replies.py" tiny-qwen3 dense1.pt --held-out data --taps 0,1,2 --seed 101 --cpu-seconds 150
$py "$here/sample_replies.py" tiny-qwen3 dense2.pt --held-out data --taps 0,1,2 --seed 102 --cpu-seconds 150
$py "$here/train_drafter.py" dflash tiny-qwen3 dense1.pt,dense2.pt tiny-qwen3-dflash --taps 0,1,2 --cpu-seconds 130
$py "$here/train_drafter.py" mdraft tiny-qwen3 dense1.pt,dense2.pt tiny-qwen3-mdraft --taps 0,1,2 --init tiny-qwen3-dflash \
    --anchors 8 --rate 1e-3 --seed 2 --cpu-seconds 1800 --threads 1
$py "$here/train_drafter.py" dflash tiny-qwen3 dense1.pt,dense2.pt tiny-qwen3-dflash-long --taps 0,1,2 --init tiny-qwen3-dflash \
    --rate 4e-3 --seed 2 --cpu-seconds 1800 --threads 1
