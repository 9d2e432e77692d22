#!/bin/sh
# exported.sh LIBRARY: libalpa.so exports no function of rooms that have no public header.
set -eu
inner=$(nm -D --defined-only --demangle "$1" | grep -E ' [TW] alpa::(ilp|spmd|lower|comm|intra_op|inter_op|pipeline|cost|processes|runtime|checkpoint|cpu|cuda)::' || true)
[ -z "$inner" ] || { echo "$1 exports functions of its own:"; echo "$inner" | head -n 20; exit 1; }
echo "$(nm -D --defined-only "$1" | wc -l) symbols"
