#!/bin/sh
# exported.sh LIBRARY...: the shared libraries export no function of rooms that have no public header.
set -eu
for library; do
  inner=$(nm -D --defined-only --demangle "$library" | grep -E ' [TW] alpa::(ilp|spmd|lower|comm|intra_op|inter_op|pipeline|cost|processes|runtime|checkpoint|cpu|cuda)::' || true)
  [ -z "$inner" ] || { echo "$library exports functions of its own:"; echo "$inner" | head -n 20; exit 1; }
  echo "$library: $(nm -D --defined-only "$library" | wc -l) symbols"
done
