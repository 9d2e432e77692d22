#!/bin/sh
# new_operators.sh COMPILER SOURCE_FOLDER SCRATCH_FOLDER [FLAGS...]: the examples of docs/adding-an-operator.md, one after the other
# in a copy of the sources: every place they name exists, what they touch compiles, and they touch no more files than they say.
set -eu
compiler=$1 source=$2 scratch=$3
shift 3

copy() {
  rm -rf "$scratch"
  mkdir -p "$scratch/tests/emulation"
  (cd "$source" && cp -RL include src kernels "$scratch")
  cp -RL "$source/tests/ops" "$scratch/tests"
  cp -RL "$source/tests/emulation/include" "$scratch/tests/emulation"
}

# Puts the blocks of example $1 where they belong; prints the files they touch.
apply() {
  awk -v example="$1" -v root="$scratch/" '
    function fail(text) { print "adding-an-operator.md: " text > "/dev/stderr"; failed = 1; exit 1 }
    function put(path, where, anchor, block,    line, text, found) {
      if (where == "new") { printf "%s", block > (root path); close(root path); return }
      while ((getline line < (root path)) > 0) {
        hit = index(line, anchor) > 0
        if (hit && where == "before") text = text block
        text = text line "\n"
        if (hit && where == "after") text = text block
        found += hit
      }
      close(root path)
      if (found != 1) fail(path " has " found + 0 " lines with " anchor)
      printf "%s", text > (root path); close(root path)
    }
    /^## / { inside = ($2 == example ":"); next }
    !inside { next }
    /^`[^`]+`, (new|before|after)/ {
      path = $0; sub(/^`/, "", path); sub(/`.*/, "", path)
      where = $0; sub(/^`[^`]+`, /, "", where); sub(/ .*/, "", where)
      anchor = $0; sub(/^`[^`]+`, [a-z]+ ?`?/, "", anchor); sub(/`$/, "", anchor)
      next
    }
    /^```cpp$/ { block = ""; reading = 1; next }
    /^```$/ { reading = 0; put(path, where, anchor, block); if (!seen[path]++) print path; next }
    reading { block = block $0 "\n" }
    END { if (failed) exit 1 }
  ' "$source/docs/adding-an-operator.md"
}

check() {
  example=$1 limit=$2
  shift 2
  copy
  files=$(apply "$example")
  count=$(echo "$files" | wc -l)
  if [ "$count" -gt "$limit" ]; then
    echo "$example touches $count files, more than $limit:" $files >&2
    exit 1
  fi
  # Headers are compiled by who reads them.
  readers=kernels/cuda/kernels.cc
  case $files in *kernels/reduction.h*) readers="$readers kernels/cpu/reduce_loops.isa.cc kernels/cuda/reduce.cu" ;; esac
  for file in $files $readers; do
    case $file in *.cc | *.cu) ;; *) continue ;; esac
    "$compiler" -std=c++20 -fsyntax-only -w -DALPA_ISA=baseline -I "$scratch/tests/emulation/include" \
      -I "$scratch/include" -I "$scratch" -I "$scratch/src/cuda" "$@" -x c++ "$scratch/$file"
  done
  echo "$example touches $count files"
}

examples=$(sed -n 's/^## \([a-z_]*\):.*(at most \([0-9]*\) files)$/\1=\2/p' "$source/docs/adding-an-operator.md")
[ "$(echo "$examples" | wc -l)" -eq 3 ] || { echo "there are three examples, not: $examples" >&2; exit 1; }
for entry in $examples; do check "${entry%=*}" "${entry#*=}" "$@"; done
rm -rf "$scratch"
