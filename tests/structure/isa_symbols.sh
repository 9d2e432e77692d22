#!/bin/sh
# isa_symbols.sh OBJECT...: objects compiled for one instruction set define no inline function or variable outside
# the namespace of that set. The linker keeps one copy of such a symbol for the whole program, perhaps the one this
# processor cannot run.
set -eu
shared=$(nm -C --defined-only "$@" | grep -E ' [VWu] ' | grep -vE ' (baseline|avx2|avx512)::| (.*[: ])?alpa::cpu::(baseline|avx2|avx512)::' || true)
if [ -n "$shared" ]; then
  printf 'inline symbols that the linker may take from the wrong instruction set:\n%s\n' "$shared"
  exit 1
fi
