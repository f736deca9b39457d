#!/bin/bash
# Trains from nothing on one GPU: `bash training/gpu.sh TOKENIZER WORK MINUTES [OPTIONS OF training.train]`.
# Results lie in WORK/last and WORK/mean, the log in WORK/log; WORK/done says how it ended. A run that fails goes on from
# its last state: at half the rates, then without compiled parts.
set -u
tokenizer=$1 work=$2 minutes=$3
shift 3
mkdir -p "$work/last"
cp "$tokenizer"/{tokenizer.json,tokenizer_config.json,chat_template.jinja} "$work/last/"
export PYTHONPATH=. PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false
makers=$(nproc --all)  # without it, nproc says what OMP_NUM_THREADS does
makers=$((makers > 3 ? makers - 2 : 1))
ended=1
for rates in "0.02 --adam-lr 0.006" "0.01 --adam-lr 0.003" "0.01 --adam-lr 0.003 --no-compile"; do
    # shellcheck disable=SC2086
    python3 -m training.train --makers "$makers" --minutes "$minutes" --tokens 1e12 --muon-lr $rates --decay 0.5 \
        --tokens-a-step 65536 --keep 1.2e9 --check-every 0 --save-every 1.5 \
        --out "$work/last" --work "$work" "$@" >> "$work/log" 2>&1
    ended=$?
    [ "$ended" -eq 0 ] && break
    echo "ended with $ended, at rates $rates" >> "$work/log"
done
echo "$ended" > "$work/done"
exit "$ended"
