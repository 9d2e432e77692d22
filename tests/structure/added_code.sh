#!/bin/sh
# added_code.sh COMPILER SOURCE_FOLDER BUILD_FOLDER PAGE MAIN_OBJECT [FLAGS...]: the examples of docs/PAGE.md, one after the
# other in a copy of the sources: every place they name exists, what they touch compiles, they touch no more files than they
# say, and their tests pass: linked with the library in BUILD_FOLDER, behind what was compiled anew. PAGE `precompiled` is
# none: it compiles the headers that tests have precompiled, for those of the pages.
set -eu
compiler=$1 source=$2 build=$3 page=$4 main=$5
shift 5
scratch=$build/$page
precompiled=$build/precompiled_for_pages.h

copy() {
  rm -rf "$scratch"
  mkdir -p "$scratch/objects"
  (cd "$source" && cp -RL include src kernels models tools tests "$scratch")
}

# Takes back what the example before changed in the copy.
restore() {
  for file in $files; do
    rm "$scratch/$file"
    if [ -e "$source/$file" ]; then cp -L "$source/$file" "$scratch/$file"; fi
  done
  rm -f "$scratch"/objects/*
}

# Puts the blocks of example $1 where they belong; prints the files they touch.
apply() {
  awk -v page="$page" -v example="$1" -v root="$scratch/" '
    function fail(text) { print page ".md: " text > "/dev/stderr"; failed = 1; exit 1 }
    function put(path, where, anchor, block,    line, text, found, hit) {
      if (where == "new") { printf "%s", block > (root path); close(root path); return }
      while ((getline line < (root path)) > 0) {
        hit = index(line, anchor) > 0
        if (hit && where != "after") text = text block
        if (!hit || where != "instead of") text = text line "\n"
        if (hit && where == "after") text = text block
        found += hit
      }
      close(root path)
      if (found != 1) fail(path " has " found + 0 " lines with " anchor)
      printf "%s", text > (root path); close(root path)
    }
    /^## / { inside = ($2 == example ":"); next }
    !inside { next }
    /^`[^`]+`, (new|before|after|instead of)/ {
      path = $0; sub(/^`/, "", path); sub(/`.*/, "", path)
      where = $0; sub(/^`[^`]+`, /, "", where); sub(/ ?`.*/, "", where)
      anchor = $0; sub(/^`[^`]+`, [a-z ]+`?/, "", anchor); sub(/`$/, "", anchor)
      next
    }
    /^```cpp$/ { block = ""; reading = 1; next }
    /^```$/ { if (reading) { put(path, where, anchor, block); if (!seen[path]++) print path }; reading = 0; next }
    reading { block = block $0 "\n" }
    END { if (failed) exit 1 }
  ' "$source/docs/$page.md"
}

# Compiles file $1 of the copy: to an object if a program with tests is linked of it.
compile() {
  file=$1 way=-fsyntax-only
  shift
  case $file in
    src/cuda/* | models/* | *.cu) ;;
    *) if [ -n "$tests" ]; then way="-c -o $scratch/objects/$(echo "$file" | tr / _).o"; fi ;;
  esac
  "$compiler" $options $way -I "$scratch/tests/emulation/include" -I "$scratch/include" -I "$scratch" -I "$scratch/tests" \
    -I "$scratch/src/cuda" "$@" -include "$precompiled" -x c++ "$scratch/$file"
}

# What is compiled anew comes first, so the linker leaves out the library's own.
run_tests() {
  libraries=$(sed -n '/^build bin\/test_comm: /,/^$/s/^  LINK_LIBRARIES = //p' "$build/build.ninja")
  (cd "$build" && "$compiler" -o "$scratch/tests_of_page" "$scratch"/objects/*.o "$main" \
    -Wl,--allow-multiple-definition $libraries && "$scratch/tests_of_page")
}

check() {
  example=$1 limit=$2
  shift 2
  restore
  files=$(apply "$example")
  count=$(echo "$files" | wc -l)
  if [ "$count" -gt "$limit" ]; then
    echo "$example touches $count files, more than $limit:" $files >&2
    exit 1
  fi
  tests=$(echo "$files" | grep '_test\.cc$') || true
  # Headers are compiled by who reads them.
  readers=
  case $files in *kernels/cuda/kernels.h*) readers=kernels/cuda/kernels.cc ;; esac
  case $files in *kernels/reduction.h*) readers="$readers kernels/cpu/reduce_loops.isa.cc kernels/cuda/reduce.cu" ;; esac
  case $files in *alpa/mesh/collective.h*) readers="$readers src/plan/cost/collective.cc" ;; esac
  for file in $files $readers; do
    case $file in *.cc | *.cu) compile "$file" "$@" ;; esac
  done
  if [ -n "$tests" ]; then run_tests; fi
  echo "$example touches $count files"
}

options='-std=c++20 -w -DALPA_ISA=baseline -DALPA_GUARD_BYTES=0'
if [ "$page" = precompiled ]; then
  cp "$build/CMakeFiles/precompiled_for_tests.dir/cmake_pch.hxx" "$precompiled"
  exec "$compiler" $options "$@" -x c++-header -o "$precompiled.gch" "$precompiled"
fi
examples=$(sed -n 's/^## \([a-z_]*\):.*(at most \([0-9]*\) files)$/\1=\2/p' "$source/docs/$page.md")
[ -n "$examples" ] || { echo "$page.md has no examples" >&2; exit 1; }
copy
files=
for entry in $examples; do check "${entry%=*}" "${entry#*=}" "$@"; done
rm -rf "$scratch"
